//! A mark outside the database: the newest batch that was synced. SQLite drops the end of a log that it can't read and
//! says nothing; the mark is how that is noticed. It is written after the sync and not synced itself, so it claims
//! nothing that is not durable: after a power cut it may be older than the log, never newer.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: [u8; 4] = *b"SHK1";
/// Magic, batch, its checksum, and a checksum over these.
const BYTES: usize = 4 + 8 + 4 + 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct Acked(File);

/// What the mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) batch: u64,
    pub(crate) sum: u32,
}

impl Acked {
    /// Opens the mark's file, making it if it is not there, and reads it. `Err` holds what is wrong with its content.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Result<Option<Mark>, String>)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = [0; BYTES];
        let found = match file.metadata()?.len() {
            0 => Ok(None),
            len if len == BYTES as u64 => {
                file.read_exact_at(&mut bytes, 0)?;
                decode(&bytes).map(Some).ok_or_else(|| "its checksum does not fit".to_owned())
            }
            len => Err(format!("it is {len} bytes long, not {BYTES}")),
        };
        Ok((Self(file), found))
    }

    /// Replaces the mark, in one write.
    pub(crate) fn set(&self, mark: Mark) -> io::Result<()> {
        self.0.write_all_at(&encode(mark), 0)
    }
}

fn encode(Mark { batch, sum }: Mark) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend(MAGIC);
    bytes.extend(batch.to_le_bytes());
    bytes.extend(sum.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8; BYTES]) -> Option<Mark> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (batch, rest) = rest.split_first_chunk::<8>()?;
    let (sum, _) = rest.split_first_chunk::<4>()?;
    let mark = Mark { batch: u64::from_le_bytes(*batch), sum: u32::from_le_bytes(*sum) };
    (*magic == MAGIC && encode(mark) == bytes).then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_its_mark_and_finds_every_flipped_bit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acked");
        let (acked, found) = Acked::open(&path).unwrap();
        assert_eq!(found, Ok(None));
        let mark = Mark { batch: 7, sum: 9 };
        acked.set(mark).unwrap();
        assert_eq!(Acked::open(&path).unwrap().1, Ok(Some(mark)));

        let good = std::fs::read(&path).unwrap();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, bad).unwrap();
            assert!(Acked::open(&path).unwrap().1.is_err(), "bit {bit}");
        }
    }
}
