//! The sync marker: a file beside the database with the newest synced batch. SQLite drops the unreadable end of a log
//! without an error, and the marker detects that. The marker is written after the sync of the batch and is not synced
//! itself. It therefore never names a batch that is not durable: after a power cut it may be older than the log, but
//! not newer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use stockhold_store::own_files;

const MAGIC: [u8; 4] = *b"SHK1";
/// The distance between the two slots. Each slot has a page of its own, so that a write that a power cut tears leaves
/// the other slot intact.
const SLOT_BYTES: u64 = 4_096;
const ADVICE: &str = "If the machine lost its power, the log is as good as its checksums say: move this file away and run \
                      `stockhold verify`, and start again when it finds nothing; otherwise the log may lack its end, and a backup is needed";
/// The magic number, the batch, its checksum, and a checksum of these.
const BYTES: usize = 4 + 8 + 4 + 4;

/// The file with the newest synced batch.
#[derive(Debug)]
pub(crate) struct SyncMarker(File);

/// The batch that a slot names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncedBatch {
    pub(crate) batch: u64,
    pub(crate) sum: u32,
}

impl SyncMarker {
    /// Opens the file, creates it if it does not exist, and reads it. The inner `Err` says what is wrong with its
    /// content.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Result<Option<SyncedBatch>, String>)> {
        let file = own_files::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let found = read_newest(&file)?;
        Ok((Self(file), found))
    }

    /// Reads the file without opening it for writing. The inner `Err` says what is wrong with its content.
    pub(crate) fn read(path: &Path) -> io::Result<Result<Option<SyncedBatch>, String>> {
        read_newest(&File::open(path)?)
    }

    /// Writes a slot in one write. The other slot keeps the batch before.
    pub(crate) fn write(&self, mark: SyncedBatch) -> io::Result<()> {
        self.0.write_all_at(&encode(mark), slot_offset(mark.batch))
    }

    /// Syncs the file, where that delays no commit.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// The offset of the slot for a batch.
fn slot_offset(batch: u64) -> u64 {
    batch % 2 * SLOT_BYTES
}

fn read_newest(file: &File) -> io::Result<Result<Option<SyncedBatch>, String>> {
    let bytes = file.metadata()?.len();
    let newest = [0, 1]
        .into_iter()
        .filter_map(|batch| read_slot(file, slot_offset(batch)))
        .max_by_key(|mark| mark.batch);
    Ok(match newest {
        None if bytes > 0 => Err(format!("neither of its marks is whole ({bytes} bytes). {ADVICE}")),
        newest => Ok(newest),
    })
}

fn read_slot(file: &File, slot: u64) -> Option<SyncedBatch> {
    let mut bytes = [0; BYTES];
    file.read_exact_at(&mut bytes, slot).ok()?;
    decode(&bytes)
}

fn encode(SyncedBatch { batch, sum }: SyncedBatch) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend(MAGIC);
    bytes.extend(batch.to_le_bytes());
    bytes.extend(sum.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// A parser for tests.
pub(crate) fn parse(bytes: &[u8]) {
    if let Some(mark) = bytes.first_chunk().and_then(decode) {
        assert!(bytes.starts_with(&encode(mark)), "one mark has one form");
    }
}

fn decode(bytes: &[u8; BYTES]) -> Option<SyncedBatch> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (batch, rest) = rest.split_first_chunk::<8>()?;
    let (sum, _) = rest.split_first_chunk::<4>()?;
    let mark = SyncedBatch { batch: u64::from_le_bytes(*batch), sum: u32::from_le_bytes(*sum) };
    (*magic == MAGIC && encode(mark) == bytes).then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_its_newest_mark() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acked");
        let (marker, found) = SyncMarker::open(&path).unwrap();
        assert_eq!(found, Ok(None));
        for batch in 1..6 {
            let mark = SyncedBatch { batch, sum: 9 };
            marker.write(mark).unwrap();
            assert_eq!(SyncMarker::open(&path).unwrap().1, Ok(Some(mark)));
        }
    }

    #[test]
    fn a_mark_that_is_torn_leaves_the_one_before_it_and_two_are_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acked");
        let (marker, _) = SyncMarker::open(&path).unwrap();
        let marks = [SyncedBatch { batch: 7, sum: 1 }, SyncedBatch { batch: 8, sum: 2 }];
        for mark in marks {
            marker.write(mark).unwrap();
        }
        let good = std::fs::read(&path).unwrap();
        let at = |batch| usize::try_from(slot_offset(batch)).unwrap();
        for bit in 0..BYTES * 8 {
            let flip = |bytes: &mut [u8], batch| bytes[at(batch) + bit / 8] ^= 1 << (bit % 8);
            let mut bad = good.clone();
            flip(&mut bad, 8);
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(SyncMarker::open(&path).unwrap().1, Ok(Some(marks[0])), "bit {bit}");
            flip(&mut bad, 7);
            std::fs::write(&path, &bad).unwrap();
            let why = SyncMarker::open(&path).unwrap().1.unwrap_err();
            assert!(why.contains("stockhold verify"), "bit {bit}: {why}");
        }
    }
}
