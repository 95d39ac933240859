//! Archives of events, for every kind of store: what is asked for, the steps of an archive, and what a store has to do for it.
//!
//! An archive is files that have every position once, in order, each with the hash of the file before it ([`EventArchive`]). One file
//! is one step: first the archive has the file durably, then its events leave the store ([`ArchivedStore::drop_file`]). A crash
//! between the two leaves a file whose events are still in the store. The next archive compares it with the store and goes on.
//!
//! What must never happen: events that leave before their file is durable. A position in two files, or in none. A file that is written
//! to after it has its name.

mod compare;
mod error;
mod event_archive;
mod fold;
mod run;

pub use compare::{LoggedBatch, LoggedBatches};
pub use error::ArchiveError;
pub use event_archive::{ArchiveFile, EventArchive, Sha256, archived_form};
pub use fold::{compare_kept, fold_archived};
pub use run::ArchiveRun;

use core::time::Duration;
use stockhold_domain::{Instant, Record, RecordKind};

/// The events after which a file ends. A store may need memory for all events of a file.
pub const ARCHIVE_FILE_EVENTS: u64 = 65_536;
/// The kinds of records that tell what consumers have read.
pub const CONSUMER_KINDS: [RecordKind; 4] =
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
    /// The time now. A database goes by its own clock.
    pub now: Instant,
    /// Whether the events leave the store, or are only written.
    pub drop: bool,
    /// The consumers of events that records are about: their names, and the last position that each has read.
    pub consumers: &'a (dyn Fn(&[Record]) -> Vec<ReadPosition> + Sync),
    /// The events after which a file ends, at the end of a batch.
    pub file_events: u64,
    /// The number of files after which it ends although other events are old enough.
    pub files: usize,
    /// Whether an archive that has no file may be begun although events have left the store. Where several machines archive one store, a
    /// directory without the newest file is the wrong one.
    pub new_directory: bool,
    /// Asked between two steps, and while it waits: whether it is to end.
    pub is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl ArchiveRequest<'_> {
    /// What happened before this may leave, by a clock that shows `now`.
    pub fn bound(&self, now: Instant) -> Instant {
        let age = i64::try_from(self.older_than.as_micros()).unwrap_or(i64::MAX);
        Instant::from_micros(now.micros().saturating_sub(age))
    }
}

/// What was archived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSummary {
    /// The position of the last event that was in the archive before.
    pub after: u64,
    /// The position of the last event that is in the archive now.
    pub through: u64,
    /// The number of events that left the store.
    pub dropped: u64,
    /// The position of the last event that has left the store.
    pub dropped_through: u64,
    /// The number of reservations that left.
    pub reservations: u64,
    /// The consumer because of which older events stay, and the position that it has read.
    pub held_back: Option<ReadPosition>,
    /// Whether no other event is old enough and read by all.
    pub is_complete: bool,
}

/// Where the events of a store begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveMark {
    /// The position of the last event that has left.
    pub position: u64,
    /// The newest file of which events have left; `None` if none has.
    pub file: Option<MarkedFile>,
}

/// The newest file of which events have left a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkedFile {
    /// The position of its last event. It is after that of the mark while a part of the events is still in the store.
    pub last: u64,
    /// Its hash.
    pub sha256: Sha256,
}

impl ArchiveMark {
    /// The hash of the newest file of which events have left.
    pub fn sha256(&self) -> Option<Sha256> {
        self.file.map(|file| file.sha256)
    }
}

/// What left with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedEvents {
    /// The position of the last event that has left. It is before that of the file if a consumer has gone back meanwhile, or if the
    /// archive is to end.
    pub through: u64,
    /// The number of reservations that left.
    pub reservations: u64,
}

/// A durable step of an archive, for tests that cut between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveStep {
    /// A file has its name.
    FileNamed,
    /// Events have left the store, all of a file or some.
    EventsLeft,
    /// Their rows are deleted from the log of the embedded store.
    LogTrimmed,
    /// The reservations are deleted from the index of the embedded store.
    IndexTrimmed,
    /// The archive has ended.
    Ended,
}

/// A store that events leave.
pub trait ArchivedStore: LoggedBatches {
    /// All records of the [`CONSUMER_KINDS`].
    fn consumer_records(&mut self) -> Result<Vec<Record>, ArchiveError<Self::Error>>;

    /// Lets the events of a file leave, which has those after the mark, and with them the reservations that had ended by then. Before any
    /// of them leave, when no consumer can get them any more, `may_leave` is asked about the records of the [`CONSUMER_KINDS`].
    fn drop_file(
        &mut self,
        file: &ArchiveFile,
        may_leave: &mut dyn FnMut(&[Record]) -> bool,
        reached: &mut dyn FnMut(ArchiveStep),
    ) -> Result<DroppedEvents, ArchiveError<Self::Error>>;
}

/// Refuses what is younger than the retention of keys.
pub fn check_age<E>(request: &ArchiveRequest<'_>, key_retention: Duration) -> Result<(), ArchiveError<E>> {
    let retention = key_retention.max(request.key_retention);
    if request.older_than >= retention {
        return Ok(());
    }
    Err(ArchiveError::InvalidRequest(format!(
        "what is younger than {} h can't be archived: its idempotency keys are kept for so long",
        retention.as_secs().div_ceil(3_600)
    )))
}
