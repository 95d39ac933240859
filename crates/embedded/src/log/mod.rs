//! `log.db`, the source of truth. It has one row per batch. A batch is appended and synced before any of its answers is
//! delivered. Nothing here decides commands, and no row is ever updated. Only rows that were archived are deleted.

pub(crate) mod batch;
pub(crate) mod start;
pub(crate) mod sync_marker;
pub(crate) mod wal;

use self::batch::{Batch, BatchRow};
use self::start::LogStart;
use crate::error::OpenError;
use crate::files;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, InterruptHandle, OpenFlags, OptionalExtension, params};
use std::path::{Path, PathBuf};
use stockhold_domain::Instant;
use stockhold_store::{fault, own_files};

/// The version of the schema, kept in SQLite's `user_version`.
const FORMAT: i64 = 1;
/// Marks the file as a log of stockhold in SQLite's `application_id`: "SHLG".
const APPLICATION: i64 = 0x5348_4c47;

const SCHEMA: &str = "
    CREATE TABLE batches (
        number INTEGER PRIMARY KEY,
        position INTEGER NOT NULL,
        events INTEGER NOT NULL,
        at INTEGER NOT NULL,
        data BLOB NOT NULL,
        sum INTEGER NOT NULL
    ) STRICT;
";

const INSERT: &str =
    "INSERT INTO batches (number, position, events, at, data, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const COLUMNS: &str = "SELECT number, position, events, at, data, sum FROM batches";

/// The number of batches that one query reads.
const PAGE_BATCHES: u64 = 256;

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogHead {
    /// The number of the last batch.
    pub(crate) number: u64,
    /// The checksum of the last batch.
    pub(crate) sum: u32,
    /// The position that the next event gets.
    pub(crate) next_position: u64,
    /// The time of the newest decision.
    pub(crate) at: Instant,
}

impl Default for LogHead {
    fn default() -> Self {
        Self { number: 0, sum: 0, next_position: 1, at: Instant::from_micros(i64::MIN) }
    }
}

/// The bytes of a page of the log. In a larger page, a row that fills more than half of the page wastes the rest. A row
/// of some 30 requests is that large, and the file is never trimmed.
const PAGE: u32 = 4 << 10;

/// A connection to the log. One connection writes, and each reader has its own.
#[derive(Debug)]
pub(crate) struct Log {
    db: Connection,
    file: PathBuf,
    bytes: Vec<u8>,
    start: LogStart,
}

/// Opens a SQLite file of stockhold and checks its format. Creates the file with this page size if it does not exist.
pub(crate) fn open_sqlite(
    file: &Path,
    page: u32,
    (application, format): (i64, i64),
    schema: &str,
    sync: &str,
) -> Result<Connection, OpenError> {
    let failed = |error| OpenError::sqlite(file, "opening", error);
    // SQLite gives the files beside it the same permissions.
    own_files::create_if_missing(file)
        .map_err(|error| OpenError::io(format!("opening {}", file.display()), error))?;
    let mut db = Connection::open(file).map_err(failed)?;
    // After a failure of the disk, a close must not write to the file. Checkpoints are made explicitly.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    let tables: i64 =
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if tables == 0 && file_identity(&db).map_err(failed)? == (0, 0) {
        db.pragma_update(None, "page_size", page).map_err(failed)?;
        db.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
        db.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        let setup = db.transaction().map_err(failed)?;
        setup.execute_batch(schema).map_err(failed)?;
        fault!("start.making_a_file" => failed(injected_error()));
        setup.pragma_update(None, "application_id", application).map_err(failed)?;
        setup.pragma_update(None, "user_version", format).map_err(failed)?;
        setup.commit().map_err(failed)?;
    } else {
        check_format(&db, file, application, format)?;
    }
    db.pragma_update(None, "synchronous", sync).map_err(failed)?;
    db.pragma_update(None, "wal_autocheckpoint", 0).map_err(failed)?;
    Ok(db)
}

/// The application id and the format of a file.
fn file_identity(db: &Connection) -> rusqlite::Result<(i64, i64)> {
    let pragma = |name: &str| db.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0));
    Ok((pragma("application_id")?, pragma("user_version")?))
}

/// Refuses a file of another program, and a file of another format.
pub(crate) fn check_format(
    db: &Connection,
    file: &Path,
    application: i64,
    format: i64,
) -> Result<(), OpenError> {
    match file_identity(db).map_err(|error| OpenError::sqlite(file, "opening", error))? {
        found if found == (application, format) => Ok(()),
        (found, version) if found == application && version > 0 => {
            Err(OpenError::UnknownFormat { file: file.to_owned(), found: version, known: format })
        }
        (found, version) => {
            let what = format!(
                "its application id is {found:#x} and its format {version}: stockhold did not write it"
            );
            Err(OpenError::Damaged { file: file.to_owned(), what })
        }
    }
}

impl Log {
    /// Opens the log for writing, and creates it if the directory is new.
    pub(crate) fn open(file: &Path) -> Result<Self, OpenError> {
        let db = open_sqlite(file, PAGE, (APPLICATION, FORMAT), SCHEMA, "FULL")?;
        Ok(Self { db, file: file.to_owned(), bytes: Vec::new(), start: start_of(file)? })
    }

    /// Opens the log for reading.
    pub(crate) fn open_reader(file: &Path) -> Result<Self, OpenError> {
        let db = open_reader(file)?;
        Ok(Self { db, file: file.to_owned(), bytes: Vec::new(), start: start_of(file)? })
    }

    /// Where the log starts.
    pub(crate) fn start(&self) -> &LogStart {
        &self.start
    }

    /// Sets where the log starts, after an archive has moved it.
    pub(crate) fn set_start(&mut self, start: LogStart) {
        self.start = start;
    }

    /// The number and the checksum of the last batch, even if it was archived.
    pub(crate) fn last(&self) -> Result<Option<(u64, u32)>, OpenError> {
        let LogHead { number, sum, .. } = self.start.head;
        let last = self
            .db
            .query_row("SELECT number, sum FROM batches ORDER BY number DESC LIMIT 1", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
            .map_err(|error| OpenError::sqlite(&self.file, "reading the last batch", error))?;
        Ok(last.or((number > 0).then_some((number, sum))))
    }

    /// Appends a batch, syncs it and returns its checksum. After an error nothing more may be written.
    pub(crate) fn append(&mut self, batch: &Batch, previous: u32) -> rusqlite::Result<u32> {
        let sum = batch::encode(batch, previous, &mut self.bytes);
        fault!("commit.encoded" => injected_error());
        let Batch { number, position, at, events, .. } = batch;
        self.db.prepare_cached(INSERT)?.execute(params![
            number.cast_signed(),
            position.cast_signed(),
            events.len().cast_signed(),
            at.micros(),
            self.bytes,
            sum,
        ])?;
        Ok(sum)
    }

    /// Calls `each` for every batch after `number` in order, until it returns `false`. `previous` is the checksum of
    /// batch `number`. No read transaction stays open between two pages, because the write-ahead log can't restart
    /// while a reader uses it.
    pub(crate) fn for_each_batch(
        &self,
        number: u64,
        previous: u32,
        mut each: impl FnMut(Batch, u32) -> Result<bool, String>,
    ) -> Result<(), OpenError> {
        let damaged = |what: String| OpenError::Damaged { file: self.file.clone(), what };
        let failed = |error| OpenError::sqlite(&self.file, "reading batches", error);
        let sql = format!("{COLUMNS} WHERE number > ?1 ORDER BY number LIMIT ?2");
        let mut statement = self.db.prepare_cached(&sql).map_err(failed)?;
        let (mut expected, mut previous) = (number + 1, previous);
        loop {
            let page_ends = expected + PAGE_BATCHES;
            let from = (expected - 1).cast_signed();
            let mut rows = statement.query([from, PAGE_BATCHES.cast_signed()]).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                let row = read_row(row).map_err(failed)?;
                if row.number != expected {
                    return Err(damaged(format!("batch {expected} is missing before batch {}", row.number)));
                }
                let batch = batch::decode(&row, previous).map_err(damaged)?;
                (expected, previous) = (expected + 1, row.sum);
                if !each(batch, row.sum).map_err(damaged)? {
                    return Ok(());
                }
            }
            if expected < page_ends {
                return Ok(());
            }
        }
    }

    /// The checked rows of the batches after `number` up to `end`: at most this many bytes, but at least one row if
    /// there is one. `previous` is the checksum of batch `number`. No read transaction stays open afterwards.
    pub(crate) fn read_page(
        &self,
        number: u64,
        previous: u32,
        end: u64,
        bytes: usize,
    ) -> Result<Vec<BatchRow>, OpenError> {
        let damaged = |what: String| OpenError::Damaged { file: self.file.clone(), what };
        let failed = |error| OpenError::sqlite(&self.file, "reading batches", error);
        let sql = format!("{COLUMNS} WHERE number > ?1 AND number <= ?2 ORDER BY number");
        let mut statement = self.db.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([number.cast_signed(), end.cast_signed()]).map_err(failed)?;
        let (mut page, mut expected, mut previous, mut length) = (Vec::new(), number + 1, previous, 0);
        while length < bytes
            && let Some(row) = rows.next().map_err(failed)?
        {
            let row = read_row(row).map_err(failed)?;
            if row.number != expected {
                return Err(damaged(format!("batch {expected} is missing before batch {}", row.number)));
            }
            batch::decode(&row, previous).map_err(damaged)?;
            (expected, previous, length) = (expected + 1, row.sum, length + row.data.len());
            page.push(row);
        }
        Ok(page)
    }

    /// Appends rows of another log and syncs them, all or none. The rows are already checked, and they follow the last
    /// row of this log.
    pub(crate) fn append_rows(&mut self, rows: &[BatchRow]) -> rusqlite::Result<()> {
        let transaction = self.db.transaction()?;
        {
            let mut insert = transaction.prepare_cached(INSERT)?;
            for BatchRow { number, position, events, at, data, sum } in rows {
                insert.execute(params![
                    number.cast_signed(),
                    position.cast_signed(),
                    events.cast_signed(),
                    at,
                    data,
                    sum,
                ])?;
            }
        }
        transaction.commit()
    }

    /// Refuses a log whose format is not known.
    pub(crate) fn check_format(&self) -> Result<(), OpenError> {
        check_format(&self.db, &self.file, APPLICATION, FORMAT)
    }

    /// The batches of a range that were not archived, each checked against the batch before it.
    pub(crate) fn read_range(&self, first: u64, last: u64) -> Result<Vec<Batch>, OpenError> {
        let before = first.saturating_sub(1).max(self.start.head.number);
        let sum = self.sum_of(before)?;
        let mut batches = Vec::new();
        self.for_each_batch(before, sum, |batch, _| {
            let goes_on = batch.number < last;
            if batch.number <= last {
                batches.push(batch);
            }
            Ok(goes_on)
        })?;
        Ok(batches)
    }

    /// The last batch to read when reading from batch `from` in the direction of batch `towards`, so that the rows have
    /// at most this many bytes together. It is at least `from`.
    pub(crate) fn last_batch_within(&self, from: u64, towards: u64, bytes: u64) -> Result<u64, OpenError> {
        let failed = |error| OpenError::sqlite(&self.file, "measuring batches", error);
        let sql = if towards < from {
            "SELECT number, length(data) FROM batches WHERE number BETWEEN ?1 AND ?2 ORDER BY number DESC"
        } else {
            "SELECT number, length(data) FROM batches WHERE number BETWEEN ?1 AND ?2 ORDER BY number"
        };
        let mut statement = self.db.prepare_cached(sql).map_err(failed)?;
        let ends = [from.min(towards), from.max(towards)].map(u64::cast_signed);
        let mut rows = statement.query(ends).map_err(failed)?;
        let (mut reached, mut measured) = (from, 0);
        while let Some(row) = rows.next().map_err(failed)? {
            measured += row.get::<_, u64>(1).map_err(failed)?;
            if measured > bytes {
                break;
            }
            reached = row.get(0).map_err(failed)?;
        }
        Ok(reached)
    }

    /// The number of the first batch that was decided at this time or later. It is the number after the last batch if
    /// there is none.
    pub(crate) fn first_batch_since(&self, at: Instant) -> Result<u64, OpenError> {
        let Some((last, _)) = self.last()? else { return Ok(1) };
        let (mut low, mut high) = (self.start.head.number + 1, last + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let decided: i64 = self
                .db
                .prepare_cached("SELECT at FROM batches WHERE number = ?1")
                .and_then(|mut statement| statement.query_row([middle.cast_signed()], |row| row.get(0)))
                .map_err(|error| OpenError::sqlite(&self.file, "looking for an instant", error))?;
            if decided < at.micros() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The end of the log after a batch, checked. The batch is the last one that was archived, or a later one. Batch 0 means the
    /// empty log.
    pub(crate) fn head(&self, number: u64) -> Result<LogHead, OpenError> {
        if number == self.start.head.number {
            return Ok(self.start.head);
        }
        let damaged = |what: String| OpenError::Damaged { file: self.file.clone(), what };
        let previous = self.sum_of(number.saturating_sub(1))?;
        let row = self.row(number)?;
        let batch = batch::decode(&row, previous).map_err(damaged)?;
        Ok(LogHead { number, sum: row.sum, next_position: batch.next_position(), at: batch.at })
    }

    /// The checksum of a batch; `None` if it left the log.
    pub(crate) fn sum_if_kept(&self, number: u64) -> Result<Option<u32>, OpenError> {
        if number < self.start.head.number { Ok(None) } else { Ok(Some(self.head(number)?.sum)) }
    }

    fn sum_of(&self, number: u64) -> Result<u32, OpenError> {
        let LogHead { number: archived, sum, .. } = self.start.head;
        if number == archived { Ok(sum) } else { Ok(self.row(number)?.sum) }
    }

    fn row(&self, number: u64) -> Result<BatchRow, OpenError> {
        self.db
            .query_row(&format!("{COLUMNS} WHERE number = ?1"), [number.cast_signed()], read_row)
            .optional()
            .map_err(|error| OpenError::sqlite(&self.file, "reading a batch", error))?
            .ok_or_else(|| OpenError::Damaged {
                file: self.file.clone(),
                what: format!("batch {number} is missing"),
            })
    }

    /// The number of the last batch that begins at this position or before it. It is the last one that was archived, or 0, if there is
    /// none in the log.
    pub(crate) fn batch_of_position(&self, position: u64) -> Result<u64, OpenError> {
        let Some((last, _)) = self.last()? else { return Ok(0) };
        let (mut low, mut high) = (self.start.head.number, last);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let begins: u64 = self
                .db
                .prepare_cached("SELECT position FROM batches WHERE number = ?1")
                .and_then(|mut statement| statement.query_row([middle.cast_signed()], |row| row.get(0)))
                .map_err(|error| OpenError::sqlite(&self.file, "looking for a position", error))?;
            if begins <= position {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Ok(low)
    }

    /// The bytes of the write-ahead log that are not in the database yet. The length of the file does not tell, because
    /// the file never shrinks.
    pub(crate) fn wal_backlog(&self) -> rusqlite::Result<u64> {
        checkpoint(&self.db, "NOOP")
    }

    /// A handle that interrupts a statement of this connection.
    pub(crate) fn interrupt_handle(&self) -> InterruptHandle {
        self.db.get_interrupt_handle()
    }

    /// Copies as much of the write-ahead log into the database as it can while the writer goes on.
    pub(crate) fn checkpoint_concurrently(&self) -> rusqlite::Result<u64> {
        fault!("checkpoint.behind" => injected_error());
        checkpoint(&self.db, "PASSIVE")
    }

    /// Copies the rest of the write-ahead log. Only the writer may call this, between two batches: if everything is
    /// copied and no reader uses the write-ahead log, the next write starts at its beginning. It does not wait for
    /// readers.
    pub(crate) fn checkpoint_between_batches(&self) -> rusqlite::Result<u64> {
        fault!("checkpoint.rest" => injected_error());
        checkpoint(&self.db, "PASSIVE")
    }

    /// Copies the whole write-ahead log and empties it, at a stop.
    pub(crate) fn checkpoint_and_truncate(&self) -> rusqlite::Result<u64> {
        fault!("checkpoint.last" => injected_error());
        checkpoint(&self.db, "TRUNCATE")
    }
}

/// Where a log starts, from the base beside it.
fn start_of(file: &Path) -> Result<LogStart, OpenError> {
    start::read(&file.with_file_name(files::BASE))
}

/// Makes a checkpoint. Returns the bytes of the write-ahead log that are still to be copied.
pub(crate) fn checkpoint(db: &Connection, mode: &str) -> rusqlite::Result<u64> {
    let (pages, copied): (i64, i64) =
        db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| Ok((row.get(1)?, row.get(2)?)))?;
    let page: u64 = db.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    // Both numbers are -1 while another connection makes a checkpoint.
    Ok(u64::try_from(pages - copied).unwrap_or_default() * page)
}

/// The error of a failing disk, for fault points.
#[cfg(debug_assertions)]
pub(crate) fn injected_error() -> rusqlite::Error {
    use rusqlite::ffi::{Error, SQLITE_IOERR_WRITE};
    rusqlite::Error::SqliteFailure(Error::new(SQLITE_IOERR_WRITE), Some("a fault point".to_owned()))
}

/// Whether the operation may succeed later, because the disk is full or another connection has a lock. After any other
/// failure something may be lost.
pub(crate) fn is_retryable(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked | DiskFull))
}

pub(crate) fn open_reader(file: &Path) -> Result<Connection, OpenError> {
    let failed = |error| OpenError::sqlite(file, "opening", error);
    // The connection is not read-only, because a reader of a write-ahead log writes to its shared memory.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags).map_err(failed)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    db.pragma_update(None, "query_only", true).map_err(failed)?;
    Ok(db)
}

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<BatchRow> {
    Ok(BatchRow {
        number: row.get(0)?,
        position: row.get(1)?,
        events: row.get(2)?,
        at: row.get(3)?,
        data: row.get(4)?,
        sum: row.get(5)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi::{SQLITE_BUSY, SQLITE_CORRUPT, SQLITE_FULL, SQLITE_IOERR_FSYNC};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn batch(number: u64) -> Batch {
        Batch { number, position: 1, at: Instant::from_micros(1), events: Vec::new(), keys: Vec::new() }
    }

    struct Written {
        dir: tempfile::TempDir,
        log: Log,
        number: u64,
        sum: u32,
    }

    impl Written {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let log = Log::open(&dir.path().join("log.db")).unwrap();
            Self { dir, log, number: 0, sum: 0 }
        }

        fn append(&mut self, batches: u64) {
            for _ in 0..batches {
                self.number += 1;
                self.sum = self.log.append(&batch(self.number), self.sum).unwrap();
            }
        }

        fn reader(&self) -> Log {
            Log::open_reader(&self.dir.path().join("log.db")).unwrap()
        }
    }

    #[test]
    fn it_is_read_as_far_as_so_many_bytes_reach() {
        let mut written = Written::new();
        written.append(9);
        let reader = written.reader();
        let row: u64 =
            reader.db.query_row("SELECT max(length(data)) FROM batches", [], |row| row.get(0)).unwrap();
        for (from, towards, rows, reached) in [
            (2, 8, 3, 4),
            (8, 2, 3, 6),
            (2, 8, 99, 8),
            (8, 2, 99, 2),
            (5, 5, 99, 5),
            // A batch that is larger than the limit is read alone.
            (2, 8, 0, 2),
            (8, 2, 0, 8),
        ] {
            assert_eq!(
                reader.last_batch_within(from, towards, rows * row).unwrap(),
                reached,
                "{from} to {towards}"
            );
        }
    }

    #[test]
    fn what_is_copied_does_not_count_though_the_file_stays_as_long() {
        let mut written = Written::new();
        let housekeeper = written.reader();
        written.append(50);
        assert!(housekeeper.wal_backlog().unwrap() >= 50 * u64::from(PAGE));
        assert_eq!(housekeeper.checkpoint_concurrently().unwrap(), 0);
        assert_eq!(written.log.checkpoint_between_batches().unwrap(), 0);
        assert_eq!(housekeeper.wal_backlog().unwrap(), 0);
        let wal = written.dir.path().join("log.db-wal");
        let length = std::fs::metadata(&wal).unwrap().len();
        written.append(10);
        assert!((1..50).contains(&(housekeeper.wal_backlog().unwrap() / u64::from(PAGE))));
        assert_eq!(std::fs::metadata(&wal).unwrap().len(), length, "it was begun anew, in place");
    }

    #[test]
    fn a_walk_stands_in_the_log_for_a_page_at_a_time() {
        let mut written = Written::new();
        written.append(PAGE_BATCHES + 10);
        let reader = written.reader();
        let mut left = None;
        reader
            .for_each_batch(0, 0, |batch, _| {
                if batch.number == 1 {
                    written.append(1);
                }
                if batch.number == PAGE_BATCHES + 1 {
                    left = Some(written.log.checkpoint_between_batches().unwrap());
                }
                Ok(true)
            })
            .unwrap();
        assert_eq!(left, Some(0), "in the second page it no longer stands where it stood in the first");
    }

    static WAITED: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_reader_stands_in_the_way_of_no_checkpoint_of_the_writer() {
        let mut written = Written::new();
        written.append(5);
        let reader = written.reader();
        // SQLite calls this handler when it waits for a reader.
        let waits = |_| {
            WAITED.store(true, Ordering::Relaxed);
            false
        };
        written.log.db.busy_handler(Some(waits)).unwrap();
        reader
            .for_each_batch(0, 0, |_, _| {
                written.append(5);
                written.log.checkpoint_between_batches().unwrap();
                Ok(false)
            })
            .unwrap();
        written.append(5);
        assert_eq!(written.log.checkpoint_between_batches().unwrap(), 0);
        assert!(!WAITED.load(Ordering::Relaxed));
    }

    #[test]
    fn a_full_disk_can_wait_and_a_failing_one_can_not() {
        let error = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        assert!(is_retryable(&error(SQLITE_BUSY)) && is_retryable(&error(SQLITE_FULL)));
        assert!(!is_retryable(&error(SQLITE_IOERR_FSYNC)) && !is_retryable(&error(SQLITE_CORRUPT)));
    }
}
