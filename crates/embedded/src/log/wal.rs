//! Checks a write-ahead log before SQLite opens it. SQLite reads the frames up to the first frame whose checksum is
//! wrong and drops the rest without an error. That is right after a power cut, because the rest was never synced. It is
//! wrong after a flipped bit, because the rest was synced. The two cases differ: a transaction is written only after
//! the transaction before it was synced, so a valid frame of a later transaction after a broken frame means damage.
//!
//! Format: <https://www.sqlite.org/fileformat2.html#walformat>.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The largest page size of SQLite.
const PAGE_MAX: usize = 65_536;
const MAGIC: u32 = 0x377f_0682;

/// The number of zeros that one write adds.
const ZEROS: usize = 1 << 20;

/// The path of the write-ahead log of a database.
pub(crate) fn wal_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Extends a write-ahead log with zeros. A log that grows has to sync its new size with every commit, which costs half
/// as much again as overwriting. SQLite takes the zeros after the last frame as the end of the log. If there is not
/// enough space, the log stays as it was and grows later. The caller must be the only writer.
pub(crate) fn preallocate(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::options().append(true).open(path)?;
    let length = file.metadata()?.len();
    let zeros = vec![0; ZEROS];
    let mut left = usize::try_from(bytes.saturating_sub(length)).unwrap_or(0);
    let mut written = Ok(());
    while left > 0 && written.is_ok() {
        let some = zeros.get(..left.min(ZEROS)).unwrap_or_default();
        written = file.write_all(some);
        left -= some.len();
    }
    match written.and_then(|()| file.sync_all()) {
        Ok(()) => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "the write-ahead log can't be preallocated");
            file.set_len(length)
        }
    }
}

/// What is damaged in a write-ahead log. A log that does not exist is not damaged. Neither is a log whose header is
/// unreadable: SQLite takes it as empty, and the sync marker tells whether it may be empty.
pub(crate) fn find_damage(path: &Path) -> io::Result<Option<String>> {
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    scan(&mut file)
}

fn scan(file: &mut impl Read) -> io::Result<Option<String>> {
    let mut header = [0; HEADER];
    if !read_full(file, &mut header)? {
        return Ok(None);
    }
    let Some(mut scan) = WalScan::start(&header) else { return Ok(None) };
    let mut frame = vec![0; FRAME_HEADER + scan.page];
    let mut number = 0_u64;
    while read_full(file, &mut frame)? {
        number += 1;
        if let Some(what) = scan.frame(number, &frame) {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

/// A parser for tests: scans any bytes, with a correct checksum in the header.
pub(crate) fn parse(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if let Some((header, sum)) = bytes.split_at_mut_checked(24)
        && let Some(sum) = sum.get_mut(..8)
    {
        let (a, b) = checksum(word(header, 0) == Some(MAGIC), (0, 0), header);
        sum.copy_from_slice(&[a.to_be_bytes(), b.to_be_bytes()].concat());
    }
    assert!(scan(&mut bytes.as_slice()).is_ok(), "bytes can be read");
}

fn read_full(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

type Checksum = (u32, u32);

struct WalScan {
    little_endian: bool,
    page: usize,
    salt: [u8; 8],
    /// The checksum that the previous frame states.
    stored: Checksum,
    /// The number of the first broken frame.
    broken: Option<u64>,
    /// Whether a transaction ended at the broken frame or after it.
    ended: bool,
}

impl WalScan {
    fn start(header: &[u8; HEADER]) -> Option<Self> {
        let magic = word(header, 0)?;
        let little_endian = magic == MAGIC;
        if !little_endian && magic != MAGIC | 1 {
            return None;
        }
        let page = usize::try_from(word(header, 8)?).ok()?;
        let stored = (word(header, 24)?, word(header, 28)?);
        let fits = checksum(little_endian, (0, 0), header.get(..24)?) == stored;
        if !fits || !page.is_power_of_two() || page > PAGE_MAX {
            return None;
        }
        let salt = header.get(16..24)?.try_into().ok()?;
        Some(Self { little_endian, page, salt, stored, broken: None, ended: false })
    }

    fn frame(&mut self, number: u64, frame: &[u8]) -> Option<String> {
        let (header, page) = frame.split_at_checked(FRAME_HEADER)?;
        let stored = (word(header, 16)?, word(header, 20)?);
        let sum = checksum(self.little_endian, self.stored, header.get(..8)?);
        let sum = checksum(self.little_endian, sum, page);
        let good = header.get(8..16)? == self.salt && sum == stored;
        let commit = word(header, 4)? != 0;
        self.stored = stored;
        match self.broken {
            None if good => {}
            None => {
                self.broken = Some(number);
                // A frame of an older generation was not overwritten yet. It ends no transaction of this generation.
                self.ended = commit && header.get(8..16)? == self.salt;
            }
            Some(broken) if good && self.ended => {
                return Some(format!(
                    "frame {broken} of its write-ahead log is broken and frame {number}, written after it was synced, \
                     is not"
                ));
            }
            Some(_) => self.ended |= good && commit,
        }
        None
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn checksum(little_endian: bool, (mut a, mut b): Checksum, bytes: &[u8]) -> Checksum {
    let word = |bytes: [u8; 4]| {
        if little_endian { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    };
    for [b0, b1, b2, b3, b4, b5, b6, b7] in bytes.as_chunks::<8>().0 {
        a = a.wrapping_add(word([*b0, *b1, *b2, *b3])).wrapping_add(b);
        b = b.wrapping_add(word([*b4, *b5, *b6, *b7])).wrapping_add(a);
    }
    (a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;
    use std::fs;

    /// A write-ahead log with several transactions of one or more frames, as after a crash.
    fn crashed(dir: &Path) -> PathBuf {
        let path = dir.join("live.db");
        let db = Connection::open(&path).unwrap();
        db.pragma_update(None, "journal_mode", "WAL").unwrap();
        db.execute("CREATE TABLE t (x BLOB)", []).unwrap();
        for n in 0..6 {
            db.execute("INSERT INTO t VALUES (?1)", [vec![n; if n % 2 == 0 { 100 } else { 9_000 }]]).unwrap();
        }
        let copy = dir.join("copy.db-wal");
        fs::copy(dir.join("live.db-wal"), &copy).unwrap();
        copy
    }

    #[test]
    fn a_log_with_room_ends_where_it_did_and_is_written_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let wal = dir.path().join("a.db-wal");
        let db = Connection::open(dir.path().join("a.db")).unwrap();
        db.pragma_update(None, "journal_mode", "WAL").unwrap();
        db.execute("CREATE TABLE t (x BLOB)", []).unwrap();
        preallocate(&wal, 1 << 20).unwrap();
        for n in 0..3 {
            assert_eq!(find_damage(&wal).unwrap(), None);
            let copy = dir.path().join(format!("{n}.db"));
            fs::copy(dir.path().join("a.db"), &copy).unwrap();
            fs::copy(&wal, dir.path().join(format!("{n}.db-wal"))).unwrap();
            let copy = Connection::open(copy).unwrap();
            let rows: i64 = copy.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!(rows, n);
            db.execute("INSERT INTO t VALUES (?1)", [vec![7; 9_000]]).unwrap();
            assert_eq!(fs::metadata(&wal).unwrap().len(), 1 << 20);
        }
        preallocate(&wal, 1 << 19).unwrap();
        assert_eq!(fs::metadata(&wal).unwrap().len(), 1 << 20, "a log that is longer is left alone");
    }

    #[test]
    fn a_whole_log_and_a_torn_end_are_fine_and_a_flipped_byte_before_the_end_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let wal = crashed(dir.path());
        assert_eq!(find_damage(&wal).unwrap(), None);
        assert_eq!(find_damage(&dir.path().join("none")).unwrap(), None);

        let good = fs::read(&wal).unwrap();
        let frame = FRAME_HEADER + 4096;
        let frames = (good.len() - HEADER) / frame;
        for cut in 0..frames {
            fs::write(&wal, &good[..HEADER + cut * frame + 100]).unwrap();
            assert_eq!(find_damage(&wal).unwrap(), None, "cut in frame {cut}");
        }
        let commits: Vec<usize> =
            (0..frames).filter(|n| good[HEADER + n * frame + 4..][..4] != [0; 4]).collect();
        let last_begins = commits[commits.len() - 2] + 1;
        for n in 0..frames {
            for at in [0, 9, 17, FRAME_HEADER + 5, frame - 1] {
                let mut bad = good.clone();
                bad[HEADER + n * frame + at] ^= 0x10;
                fs::write(&wal, bad).unwrap();
                // Without its salt, the end of the second last transaction looks like a frame of an older generation. A
                // torn last transaction looks the same. The sync marker tells them apart.
                let looks_older = n + 1 == last_begins && at == 9;
                let noticed = n < last_begins && !looks_older;
                assert_eq!(find_damage(&wal).unwrap().is_some(), noticed, "frame {n}, byte {at}");
            }
        }
    }

    #[test]
    fn a_torn_end_of_a_log_that_was_started_anew_is_fine() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("live.db");
        let wal = dir.path().join("live.db-wal");
        let db = Connection::open(&path).unwrap();
        db.pragma_update(None, "journal_mode", "WAL").unwrap();
        db.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        db.execute("CREATE TABLE t (x BLOB)", []).unwrap();
        let put = |bytes| db.execute("INSERT INTO t VALUES (?1)", [vec![7; bytes]]).unwrap();
        for _ in 0..20 {
            put(100);
        }
        let older = fs::read(&wal).unwrap();
        db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
        put(100);
        put(30_000);
        let newer = fs::read(&wal).unwrap();
        assert_eq!(older.len(), newer.len(), "the second generation stands in the first one's place");

        let frame = FRAME_HEADER + 4096;
        let whole = |n: usize| HEADER + n * frame..HEADER + (n + 1) * frame;
        let salt = &newer[16..24];
        let ours = (0..newer.len() / frame).take_while(|n| newer[whole(*n)][8..16] == *salt).count();
        let last: Vec<usize> = (0..ours).filter(|n| newer[whole(*n)][4..8] != [0; 4]).collect();
        let last = last[last.len() - 2] + 1..ours;
        assert!(last.len() > 5, "the last transaction has several frames");
        for n in last {
            let mut torn = newer.clone();
            torn[whole(n)].copy_from_slice(&older[whole(n)]);
            fs::write(dir.path().join("torn-wal"), torn).unwrap();
            assert_eq!(find_damage(&dir.path().join("torn-wal")).unwrap(), None, "frame {n} was not written");
        }
    }
}
