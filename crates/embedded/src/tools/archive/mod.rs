//! Archives the oldest events of a store, and lets them and the reservations that had ended by then leave the log and the index. The
//! store is a data directory that no server uses (`stopped`), or it is running (`running`).
//!
//! One file of the archive is one step (`run`), in this order:
//!
//! 1. The archive has the file: its content is synced before it gets its name, and the name is synced.
//! 2. The base is advanced to the last batch of the file, in one synced transaction. This is the moment at which the events leave.
//! 3. The rows of these batches are deleted from the log.
//! 4. The reservations that left are deleted from the index, and the index is synced.
//!
//! In a running store, the reservations that leave do not change any more before 2 (`engine/leaving`), 3 and 4 are done by the
//! committer and the indexer, and they wait for queries that began before (`threads/log_starts`).
//!
//! A crash after 1 leaves a file whose events are still in the log. The next archive compares it with the log and goes on with 2. A
//! crash after 2 or 3 leaves rows that nothing reads. A start and the next archive delete them.
//!
//! What must never happen: 2 without 1. A position in two files, or in none. A file that is written to after it has its name.

mod compare;
mod error;
mod run;
pub(crate) mod running;
mod stopped;

pub(crate) use self::compare::{check_previous, compare};
pub use self::error::ArchiveError;

use self::run::ArchiveRun;
use self::stopped::StoppedStore;
use crate::error::OpenError;
use crate::files;
use crate::start::recover::recover;
use crate::threads::indexer::retire_before;
use std::path::Path;
use std::time::Duration;
use stockhold_domain::{Instant, Record, RecordKind};
use stockhold_store::{EventArchive, StartProgress};

/// The events after which a file ends. Their batches are folded into the base in one transaction.
const FILE_EVENTS: u64 = 262_144;
/// The kinds of records that tell what consumers have read.
pub(crate) const CONSUMER_KINDS: [RecordKind; 4] =
    [RecordKind::Sink, RecordKind::Webhook, RecordKind::WebhookProgress, RecordKind::StockMaster];

/// The name of a consumer of events, and the last position that it has read.
pub type ReadPosition = (String, u64);

/// What is to be archived.
#[derive(Clone)]
pub struct ArchiveRequest<'a> {
    /// What happened longer ago than this.
    pub older_than: Duration,
    /// How long idempotency keys are kept. Nothing younger may leave.
    pub key_retention: Duration,
    /// The time now.
    pub now: Instant,
    /// Whether the events leave the log, or are only written.
    pub drop: bool,
    /// The consumers of events that records are about: their names, and the last position that each has read.
    pub consumers: &'a dyn Fn(&[Record]) -> Vec<ReadPosition>,
    /// The number of files after which it ends although other events are old enough.
    pub files: usize,
    /// Asked between two steps, and while it waits: whether it is to end.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

/// What was archived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSummary {
    /// The position of the last event that was in the archive before.
    pub after: u64,
    /// The position of the last event that is in the archive now.
    pub through: u64,
    /// The number of events that left the log.
    pub dropped: u64,
    /// The position of the last event that has left the log.
    pub dropped_through: u64,
    /// The number of reservations that left.
    pub reservations: u64,
    /// The consumer because of which older events stay, and the position that it has read.
    pub held_back: Option<ReadPosition>,
    /// Whether no other event is old enough and read by all.
    pub is_complete: bool,
}

/// A durable step, for tests that cut between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    FileNamed,
    BaseAdvanced,
    LogTrimmed,
    IndexTrimmed,
    Ended,
}

/// Archives a data directory that no server uses. `progress` gets what was done so far.
pub fn archive(
    dir: &Path,
    request: &ArchiveRequest<'_>,
    archive: &mut dyn EventArchive,
    mut progress: impl FnMut(&ArchiveSummary),
) -> Result<ArchiveSummary, ArchiveError> {
    archive_by(FILE_EVENTS, dir, request, archive, &mut progress, &mut |_| ())
}

pub(crate) fn archive_by(
    file_events: u64,
    dir: &Path,
    request: &ArchiveRequest<'_>,
    archive: &mut dyn EventArchive,
    progress: &mut dyn FnMut(&ArchiveSummary),
    reached: &mut dyn FnMut(Step),
) -> Result<ArchiveSummary, ArchiveError> {
    check_age(request, request.key_retention)?;
    let log_file = dir.join(files::LOG);
    if !log_file.exists() {
        let error =
            OpenError::io(format!("opening {}", log_file.display()), "there is no stockhold data here");
        return Err(error.into());
    }
    let retire_before = retire_before(request.now, request.key_retention);
    let recovered = recover(dir, retire_before, 0, &StartProgress::default())?;
    // The server may have had another configuration than this command.
    check_age(request, recovered.backlog.index.promised_key_retention())?;
    let (store, log) = StoppedStore::new(dir, recovered)?;
    ArchiveRun::new(dir, request, log, store).archive(file_events, archive, progress, reached)
}

/// Refuses what is younger than the retention of keys.
pub(crate) fn check_age(request: &ArchiveRequest<'_>, key_retention: Duration) -> Result<(), ArchiveError> {
    if request.older_than >= key_retention {
        return Ok(());
    }
    Err(ArchiveError::InvalidRequest(format!(
        "what is younger than {} h can't be archived: its idempotency keys are kept for so long",
        key_retention.as_secs().div_ceil(3_600)
    )))
}

#[cfg(test)]
mod tests;
