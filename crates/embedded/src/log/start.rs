//! Where the log starts. Batches that were archived have left the log, and `base.db` has the state after the last one of them. Its
//! commit is the moment at which they leave: rows of the log up to that batch may still be there, and nothing reads them.

use super::batch::Batch;
use super::{Log, LogHead, open_reader};
use crate::error::OpenError;
use crate::files;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use stockhold_domain::Instant;
use stockhold_store::Sha256;
use stockhold_store::codec::{self, DecodeError, Reader};

/// The table in `base.db` that has the start.
pub(crate) const SCHEMA: &str = "CREATE TABLE log_start (
    one INTEGER PRIMARY KEY CHECK (one = 1), data BLOB NOT NULL, sum INTEGER NOT NULL
) STRICT;";

/// The end of what was archived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogStart {
    /// The last batch that was archived; batch 0 if none was.
    pub(crate) head: LogHead,
    /// The hash of the last file that left the log.
    pub(crate) sha256: Option<Sha256>,
}

impl LogStart {
    /// The position of the last event that was archived.
    pub(crate) fn through(&self) -> u64 {
        self.head.next_position - 1
    }

    /// The keys of the batches that were archived were used before this time.
    pub(crate) fn keys_dropped_before(&self) -> Instant {
        if self.head.number == 0 {
            self.head.at
        } else {
            Instant::from_micros(self.head.at.micros().saturating_add(1))
        }
    }
}

/// Reads the start of a log. It is the beginning of all events if there is no base.
pub(crate) fn read(base_file: &Path) -> Result<LogStart, OpenError> {
    if !base_file.exists() {
        return Ok(LogStart::default());
    }
    let db = open_reader(base_file)?;
    read_from(&db).map_err(|error| OpenError::sqlite(base_file, "reading", error))?.map_err(|error| {
        OpenError::Damaged { file: base_file.to_owned(), what: format!("the start of the log: {error}") }
    })
}

/// Reads the start of a log from its base, in which the table may be missing if nothing was archived yet.
pub(crate) fn read_from(db: &Connection) -> rusqlite::Result<Result<LogStart, String>> {
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'log_start'";
    if db.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(Ok(LogStart::default()));
    }
    let row: Option<(Vec<u8>, u32)> = db
        .query_row("SELECT data, sum FROM log_start", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((data, sum)) = row else { return Ok(Ok(LogStart::default())) };
    if crc32fast::hash(&data) != sum {
        return Ok(Err("its checksum does not fit".to_owned()));
    }
    Ok(decode(&data).map_err(|error| error.to_string()))
}

/// Writes the start of a log into its base.
pub(crate) fn write(db: &Connection, start: &LogStart) -> rusqlite::Result<()> {
    let LogStart { head: LogHead { number, sum, next_position, at }, sha256 } = start;
    let mut data = Vec::new();
    for number in [*number, u64::from(*sum), *next_position, at.micros().cast_unsigned()] {
        codec::put_u64(&mut data, number);
    }
    data.extend(sha256.unwrap_or_default());
    let sum = crc32fast::hash(&data);
    db.execute("INSERT OR REPLACE INTO log_start (one, data, sum) VALUES (1, ?1, ?2)", params![data, sum])?;
    Ok(())
}

fn decode(data: &[u8]) -> Result<LogStart, DecodeError> {
    let wrong = || DecodeError { what: "start of the log", left: 0 };
    let (numbers, sha256) = data.split_last_chunk::<32>().ok_or_else(wrong)?;
    let mut reader = Reader::new(numbers);
    let head = LogHead {
        number: reader.u64()?,
        sum: u32::try_from(reader.u64()?).map_err(|_| wrong())?,
        next_position: reader.u64()?,
        at: Instant::from_micros(reader.u64()?.cast_signed()),
    };
    reader.finish()?;
    Ok(LogStart { head, sha256: Some(*sha256) })
}

fn delete_archived(db: &Connection, archived: u64, rows: u64) -> rusqlite::Result<bool> {
    let first: Option<u64> =
        db.prepare_cached("SELECT min(number) FROM batches")?.query_row([], |row| row.get(0))?;
    let Some(first) = first.filter(|first| *first <= archived) else { return Ok(false) };
    let last = archived.min(first.saturating_add(rows) - 1);
    db.prepare_cached("DELETE FROM batches WHERE number <= ?1")?.execute([last.cast_signed()])?;
    Ok(true)
}

impl Log {
    /// Refuses a log that does not begin where its base ends: the base is missing, or it is an older one. No other process uses the
    /// directory.
    pub(crate) fn check_start(&self) -> Result<(), OpenError> {
        let archived = self.start.head.number;
        let first: Option<u64> =
            self.db
                .query_row("SELECT min(number) FROM batches", [], |row| row.get(0))
                .map_err(|error| OpenError::sqlite(&self.file, "reading the first batch", error))?;
        let Some(first) = first.filter(|first| *first > archived + 1) else { return Ok(()) };
        let what = format!(
            "it leads up to batch {archived}, and the log begins with batch {first}: it is missing or older than the log. Use the one \
             that belongs to the log, or a backup of both"
        );
        Err(OpenError::Damaged { file: self.file.with_file_name(files::BASE), what })
    }

    /// Deletes the rows of archived batches, at most this many in one transaction. Later rows use their pages again. Returns whether
    /// there were any.
    pub(crate) fn trim(&mut self, rows: u64) -> rusqlite::Result<bool> {
        let archived = self.start.head.number;
        let mut trimmed = false;
        while delete_archived(&self.db, archived, rows)? {
            // Otherwise the write-ahead log would grow with every transaction.
            self.checkpoint_between_batches()?;
            trimmed = true;
        }
        Ok(trimmed)
    }

    /// The number of the first row, even if it was archived.
    #[cfg(test)]
    pub(crate) fn first_row(&self) -> rusqlite::Result<Option<u64>> {
        self.db.query_row("SELECT min(number) FROM batches", [], |row| row.get(0))
    }

    /// Deletes at most this many of the oldest rows, up to batch `archived`, in one transaction. Returns whether there were any.
    pub(crate) fn trim_some(&self, archived: u64, rows: u64) -> rusqlite::Result<bool> {
        delete_archived(&self.db, archived, rows)
    }

    /// Appends a batch like [`Log::append`], and deletes rows like [`Log::trim_some`] in the same transaction.
    pub(crate) fn append_and_trim(
        &mut self,
        batch: &Batch,
        previous: u32,
        (archived, rows): (u64, u64),
    ) -> rusqlite::Result<(u32, bool)> {
        self.db.execute_batch("BEGIN IMMEDIATE")?;
        let written = self.append(batch, previous).and_then(|sum| {
            let trimmed = delete_archived(&self.db, archived, rows)?;
            self.db.execute_batch("COMMIT")?;
            Ok((sum, trimmed))
        });
        if written.is_err() && !self.db.is_autocommit() {
            // The error of the write says more.
            let _ = self.db.execute_batch("ROLLBACK");
        }
        written
    }
}
