//! Shows the state of a data directory without reading all of it. A start checks far more, and `verify` checks
//! everything.

use crate::error::OpenError;
use crate::files;
use crate::index::Index;
use crate::log::Log;
use crate::log::wal::wal_path;
use crate::start::data_dir::check_wal_unless_in_use;
use crate::start::data_dir::in_use;
use crate::start::incomplete_copy;
use std::fs;
use std::path::Path;
use stockhold_domain::Instant;

/// The state of a data directory.
#[derive(Debug)]
pub struct Inspection {
    /// Whether another process uses the directory.
    pub in_use: bool,
    /// The log; `None` if there is no log.
    pub log: Option<Result<LogStatus, OpenError>>,
    /// The bytes of the index, and its last batch; `None` if there is no index, which a start then rebuilds.
    pub index: Option<Result<(u64, u64), OpenError>>,
}

/// The state of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStatus {
    /// The number of the last batch, which is the number of batches.
    pub batches: u64,
    /// The position of the last event.
    pub position: u64,
    /// The time of the newest decision, unless the log is empty.
    pub at: Option<Instant>,
    /// The bytes of the database.
    pub bytes: u64,
    /// The bytes of its write-ahead log, including preallocated space.
    pub wal_bytes: u64,
    /// The bytes of the write-ahead log that are not in the database yet.
    pub wal_backlog_bytes: u64,
}

/// Inspects a data directory. A server may be using it.
pub fn inspect(dir: &Path) -> Result<Inspection, OpenError> {
    let there = |name: &str| Some(dir.join(name)).filter(|file| file.exists());
    Ok(Inspection {
        in_use: in_use(dir)?.0,
        log: there(files::LOG).map(|file| look_at_log(dir, &file)),
        index: there(files::INDEX).map(|file| look_at_index(&file)),
    })
}

fn look_at_log(dir: &Path, file: &Path) -> Result<LogStatus, OpenError> {
    incomplete_copy::refuse(dir)?;
    check_wal_unless_in_use(dir, file)?;
    let log = Log::open_reader(file)?;
    log.check_format()?;
    let batches = log.last()?.map_or(0, |(number, _)| number);
    let head = log.head(batches)?;
    let wal_backlog =
        log.wal_backlog().map_err(|error| OpenError::sqlite(file, "reading the write-ahead log", error))?;
    Ok(LogStatus {
        batches,
        position: head.next_position - 1,
        at: (batches > 0).then_some(head.at),
        bytes: length(file)?,
        wal_bytes: length(&wal_path(file))?,
        wal_backlog_bytes: wal_backlog,
    })
}

fn look_at_index(file: &Path) -> Result<(u64, u64), OpenError> {
    let db = Index::open_reader(file)?;
    let position = crate::index::read_state(&db).map_err(|damage| damage.into_open_error(file))?;
    Ok((length(file)?, position.indexed.min(position.keyed)))
}

/// The bytes of a file; 0 if it does not exist.
fn length(file: &Path) -> Result<u64, OpenError> {
    match fs::metadata(file) {
        Ok(facts) => Ok(facts.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(OpenError::io(format!("looking at {}", file.display()), error)),
    }
}
