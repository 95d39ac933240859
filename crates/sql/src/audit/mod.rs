//! Work on a whole SQL database beside the instances: verify it ([`verify`]), archive old data ([`archive`]), and export and import it
//! ([`transfer`]). All of it uses a connection of its own, and decides nothing.
//!
//! # What a dialect has to keep to
//!
//! 1. [`AuditSession::begin_snapshot`] begins a transaction in which everything is read as one moment shows it, until
//!    [`AuditSession::end_snapshot`]. What [`AuditSession`] reads outside of one is what is committed.
//! 2. Rows are returned as they are stored. They are decoded here, so that a row that can't be decoded is a finding and not an error.
//! 3. [`AuditSession::begin_archive_deletion`] begins a transaction and locks what only archives lock; [`Session::lock`] goes on within it, as
//!    after [`Session::lock_skip_locked`]. [`AuditSession::delete_archived`] writes and commits, and holds the numbers of rows against what it was given:
//!    another number is an alarm, and nothing is committed.

mod archive;
mod database_log;
mod lease;
mod ledger;
mod positions;
mod records;
mod transfer;
mod verify;

use crate::engine::{CountedHoldRow, DbError, Deadline, OpenError, Session};
use core::fmt;
use core::future::Future;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    CounterKey, Hold, Instant, Item, ItemKey, KeyHash, Label, LimitCounter, Record, RecordKey, ReservationId,
};
use stockhold_store::{ArchiveMark, MarkedFile};

pub(crate) use archive::run as run_archive;
pub use positions::PositionRepair;
pub(crate) use positions::{BatchNumber, PositionSession, repair};
pub use transfer::{ExportChunk, ImportSource, ImportSummary};
pub(crate) use transfer::{send, take};
pub use verify::{VerifyProgress, VerifyReport};
pub(crate) use verify::{verify_all, verify_from_archive};

/// A connection for audits.
pub(crate) trait AuditSession: Session {
    /// Begins to see one moment.
    fn begin_snapshot(&mut self) -> impl Future<Output = Result<(), DbError>> + Send;

    /// Ends to see it. Refused if not all of what was read was of that moment.
    fn end_snapshot(&mut self) -> impl Future<Output = Result<(), AuditError>> + Send {
        async move { Ok(self.roll_back().await?) }
    }

    /// Where the books begin.
    fn opening(&mut self) -> impl Future<Output = Result<ArchiveBoundary, DbError>> + Send;

    /// The newest position that was given.
    fn newest(&mut self) -> impl Future<Output = Result<u64, DbError>> + Send;

    /// Marks the database as unfinished, or takes the mark away. Whether that changed anything.
    fn mark(&mut self, unfinished: bool) -> impl Future<Output = Result<bool, DbError>> + Send;

    /// Opening balances, in order of the table's key; fewer than the limit only at the end.
    fn balances(
        &mut self,
        after: Option<&ItemKey>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<ItemBalance>, DbError>> + Send;

    /// Those of these items.
    fn balances_of(
        &mut self,
        items: &[ItemKey],
    ) -> impl Future<Output = Result<Vec<ItemBalance>, DbError>> + Send;

    /// Pauses by location (the empty one stands for everything): as the books open, and as they are.
    fn pauses(&mut self) -> impl Future<Output = Result<[Vec<(String, bool)>; 2], DbError>> + Send;

    /// Batches that end behind a position, in order.
    fn numbered(
        &mut self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<BatchRow>, DbError>> + Send;

    /// Batches behind a serial that have no position.
    fn unnumbered(
        &mut self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<BatchRow>, DbError>> + Send;

    /// Batches by their serials, those that there are.
    fn batch_rows(&mut self, serials: &[u64]) -> impl Future<Output = Result<Vec<BatchRow>, DbError>> + Send;

    /// Reservations behind an id, in order.
    fn hold_rows(
        &mut self,
        after: ReservationId,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<HoldRow>, DbError>> + Send;

    /// The histories of these reservations that were moved out of their rows.
    fn moved_histories(
        &mut self,
        ids: &BTreeSet<ReservationId>,
    ) -> impl Future<Output = Result<MovedHistories, DbError>> + Send;

    /// The SKUs of these reservations that stand beside them.
    fn skus_of(
        &mut self,
        holds: &[&Hold],
    ) -> impl Future<Output = Result<Vec<(ReservationId, String)>, DbError>> + Send;

    /// The orders that these reservations are listed under.
    fn orders_of(
        &mut self,
        holds: &[&Hold],
    ) -> impl Future<Output = Result<Vec<(ReservationId, String)>, DbError>> + Send;

    /// The lines of these active reservations in the queue of deadlines.
    fn lines_of(&mut self, holds: &[&Hold]) -> impl Future<Output = Result<Vec<QueuedLine>, DbError>> + Send;

    /// Units and lines in the queue of deadlines, for each of the items in their order.
    fn queued(&mut self, items: &[ItemKey]) -> impl Future<Output = Result<Vec<(u64, u64)>, DbError>> + Send;

    /// How many lines the queue of deadlines has in all.
    fn line_count(&mut self) -> impl Future<Output = Result<u64, DbError>> + Send;

    /// The units of an item that are sold by the ledger of sales, with who sold them.
    fn open_sales(
        &mut self,
        item: &ItemKey,
    ) -> impl Future<Output = Result<Vec<(Label, ReservationId)>, DbError>> + Send;

    /// How many sales are open in all.
    fn open_sale_count(&mut self) -> impl Future<Output = Result<u64, DbError>> + Send;

    /// Keys behind one, in order of the table's key.
    fn key_rows(
        &mut self,
        after: Option<KeyHash>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<KeyRow>, DbError>> + Send;

    /// Records behind one, deleted ones included, in order of their names.
    fn record_rows(
        &mut self,
        after: Option<&RecordKey>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, DbError>> + Send;

    /// Limits behind one, deleted ones included, in order of their ids.
    fn limit_rows(
        &mut self,
        after: Option<&Label>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<LimitRow>, DbError>> + Send;

    /// Counters of limits behind one, in order of their keys.
    fn counter_rows(
        &mut self,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(CounterKey, LimitCounter)>, DbError>> + Send;

    /// The units that archived reservations have sold, by counters behind one, in order of their keys.
    fn archived_counter_rows(
        &mut self,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(CounterKey, u64)>, DbError>> + Send;

    /// Those of these rows that the queues of counters have.
    fn counted_holds_of(
        &mut self,
        rows: &[CountedHoldRow<'_>],
    ) -> impl Future<Output = Result<Vec<(CounterKey, Deadline)>, DbError>> + Send;

    /// When each payment is due.
    fn due_payment_rows(
        &mut self,
    ) -> impl Future<Output = Result<Vec<(ReservationId, Instant)>, DbError>> + Send;

    /// How many rows the queues of counters have in all.
    fn counted_hold_count(&mut self) -> impl Future<Output = Result<u64, DbError>> + Send;

    /// Gives the lease of the archive to this holder until an instant, if it has it already or if the lease of another holder has ended
    /// by another instant. Returns who has the lease.
    fn lease_archive(
        &mut self,
        holder: &str,
        ended_by: Instant,
        until: Instant,
    ) -> impl Future<Output = Result<ArchiveLease, DbError>> + Send;

    /// Begins a transaction in which rows leave. Returns where the books begin, and who has the lease of the archive. Both are locked.
    fn begin_archive_deletion(
        &mut self,
    ) -> impl Future<Output = Result<(ArchiveBoundary, ArchiveLease), DbError>> + Send;

    /// Lets rows leave, and commits.
    fn delete_archived(
        &mut self,
        deletion: &ArchiveDeletion<'_>,
    ) -> impl Future<Output = Result<(), DbError>> + Send;
}

/// Where the books begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveBoundary {
    /// Events up to this position have left; 0 when none has.
    pub(crate) position: u64,
    /// The newest instant among them.
    pub(crate) at: Instant,
    /// The newest file of which events have left.
    pub(crate) file: Option<MarkedFile>,
}

impl ArchiveBoundary {
    /// What an archive has to join.
    pub(crate) fn mark(&self) -> ArchiveMark {
        ArchiveMark { position: self.position, file: self.file }
    }
}

/// The newest file of which events have left, from its columns.
pub(crate) fn marked_file(last: u64, hash: Option<&[u8]>) -> Result<Option<MarkedFile>, DbError> {
    let Some(hash) = hash else { return Ok(None) };
    let sha256 = hash.try_into().map_err(|_| {
        DbError::InvariantViolated("the hash of the newest file of the archive has another length".to_owned())
    })?;
    Ok(Some(MarkedFile { last, sha256 }))
}

/// Which archive is at work on the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveLease {
    /// Its name; empty if none is.
    pub(crate) holder: String,
    /// When its lease ends unless it is renewed.
    pub(crate) until: Instant,
}

/// What events that have left came to, for one item.
#[derive(Clone, Debug)]
pub(crate) struct ItemBalance {
    /// As it was after them.
    pub(crate) item: Item,
    /// Units that reservations have sold that have left, less returns.
    pub(crate) sold: u64,
    /// Those of them that were drawn from pools, by the names of these.
    pub(crate) pool_sales: BTreeMap<Label, u64>,
}

/// One row of events.
#[derive(Debug)]
pub(crate) struct BatchRow {
    pub(crate) serial: u64,
    pub(crate) count: i64,
    pub(crate) last_position: Option<i64>,
    pub(crate) body: Vec<u8>,
}

/// One row of reservations.
#[derive(Debug)]
pub(crate) struct HoldRow {
    pub(crate) id: ReservationId,
    pub(crate) status: i16,
    pub(crate) expires_at: Instant,
    pub(crate) owner_id: String,
    pub(crate) sku: String,
    /// Its newest part. Older ones are [`MovedHistories`].
    pub(crate) history: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// The histories of reservations that were moved out of their rows, oldest first.
pub(crate) type MovedHistories = BTreeMap<ReservationId, Vec<u8>>;

/// One line of an active reservation, found by its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueuedLine {
    pub(crate) id: ReservationId,
    pub(crate) item: ItemKey,
    pub(crate) quantity: i64,
    /// Whether it stands for its reservation in the queue of all.
    pub(crate) leads: bool,
}

/// One row of keys.
#[derive(Debug)]
pub(crate) struct KeyRow {
    pub(crate) hash: KeyHash,
    pub(crate) used_at: Instant,
    pub(crate) body: Vec<u8>,
}

/// One row of limits.
#[derive(Debug)]
pub(crate) struct LimitRow {
    pub(crate) id: Label,
    pub(crate) version: u64,
    /// The first generation whose counters are in use.
    pub(crate) generation: u64,
    pub(crate) body: Vec<u8>,
}

/// What leaves in one transaction.
#[derive(Debug)]
pub(crate) struct ArchiveDeletion<'a> {
    /// Events behind this position,
    pub(crate) from: u64,
    /// up to this one,
    pub(crate) opening: ArchiveBoundary,
    /// in so many rows.
    pub(crate) rows: usize,
    /// Reservations, locked.
    pub(crate) holds: &'a [Hold],
    /// The items after the archived events.
    pub(crate) balances: &'a [ItemBalance],
    /// Items that were deleted. They have no balance.
    pub(crate) deleted: &'a [ItemKey],
    /// The pauses after the archived events.
    pub(crate) pauses: &'a [(String, bool)],
    /// The units that these reservations have sold, by the counters that count them, in order of their keys.
    pub(crate) counters: &'a [(&'a CounterKey, u64)],
}

impl ArchiveDeletion<'_> {
    /// Units that these reservations had sold and that came back: their sales leave with them.
    pub(crate) fn closed_sales(&self) -> impl Iterator<Item = (&ItemKey, &Label, ReservationId)> {
        let lines = self.holds.iter().flat_map(|hold| hold.lines.iter().map(move |line| (line, hold.id)));
        lines.flat_map(|(line, id)| {
            let back = line.units().iter().filter(|unit| unit.returned);
            back.map(move |unit| (&line.item, &unit.id, id))
        })
    }
}

/// Why the books could not be read, or nothing could leave them. No text shows a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditError {
    /// The database could not be opened.
    Open(OpenError),
    /// It failed on the way.
    Database(String),
    /// The content of the database does not allow it, or another program is working on it.
    Refused(String),
    /// What is to be taken over could not be read.
    Source(String),
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(why) => write!(f, "{why}"),
            Self::Database(why) => write!(f, "the database failed: {why}"),
            Self::Refused(why) | Self::Source(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for AuditError {}

impl From<OpenError> for AuditError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<DbError> for AuditError {
    fn from(error: DbError) -> Self {
        Self::Database(error.to_string())
    }
}

/// Why a database could not be archived.
pub type ArchiveError = stockhold_store::ArchiveError<AuditError>;

impl From<AuditError> for ArchiveError {
    fn from(error: AuditError) -> Self {
        Self::Store(error)
    }
}

impl From<OpenError> for ArchiveError {
    fn from(error: OpenError) -> Self {
        Self::Store(error.into())
    }
}

impl From<DbError> for ArchiveError {
    fn from(error: DbError) -> Self {
        Self::Store(error.into())
    }
}
