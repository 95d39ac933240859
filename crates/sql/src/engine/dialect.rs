//! The line between the engine and a dialect; the contract stands at the top of [`super`].

use super::options::OpenError;
use core::fmt;
use core::future::Future;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use stockhold_domain::{
    Event, Hold, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, ReservationId, Status,
};
use stockhold_store::{EventRow, Shelf};

/// A deadline and whose it is, in the order that holds fall due.
pub(crate) type Deadline = (Instant, ReservationId);

/// Where a database is and how one talks to it.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// One connection.
    type Session: Session;

    /// What the database is called in logs.
    const NAME: &'static str;

    /// Opens a connection that is ready for batches: schema brought up to date, statements prepared, time limits set.
    fn open(&self) -> impl Future<Output = Result<Self::Session, OpenError>> + Send;
}

/// One connection.
pub(crate) trait Session: Send + 'static {
    /// Whether it is known to be lost, without asking the server.
    fn is_lost(&self) -> bool;

    /// Reads without locks.
    fn read(&mut self, wants: &Wants) -> impl Future<Output = Result<Rows, Trouble>> + Send;

    /// Begins, locks, reads the clock, reads.
    fn lock(&mut self, wants: &Wants) -> impl Future<Output = Result<Locked, Trouble>> + Send;

    /// Writes and commits.
    fn commit(
        &mut self,
        changes: &Changes<'_>,
        sent: &CommitSent,
    ) -> impl Future<Output = Result<Committed, Trouble>> + Send;

    /// Ends whatever transaction is open.
    fn roll_back(&mut self) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Items in order of (location, SKU): fewer than the limit only at the end.
    fn shelf(&mut self, shelf: &Shelf) -> impl Future<Output = Result<Vec<Item>, Trouble>> + Send;

    /// Looks at reservations, the one with the largest id first.
    fn scan(&mut self, scan: &Scan<'_>) -> impl Future<Output = Result<Scanned, Trouble>> + Send;

    /// The serials of a reservation's batches of events, oldest first; `None` when there is no such reservation.
    fn serials(
        &mut self,
        id: ReservationId,
    ) -> impl Future<Output = Result<Option<Vec<u64>>, Trouble>> + Send;

    /// The events of batches by their serials, in the order given, each with its position. Batches that are not numbered yet
    /// are left out.
    fn batches(&mut self, serials: &[u64]) -> impl Future<Output = Result<Vec<EventRow>, Trouble>> + Send;

    /// Numbered events after a position.
    fn events(
        &mut self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<EventRow>, Trouble>> + Send;

    /// Gives positions to all that is committed and has none; says the newest position. Does not write when there is
    /// nothing to number.
    fn number(&mut self) -> impl Future<Output = Result<u64, Trouble>> + Send;

    /// The clock, and active reservations whose deadline it has passed, earliest first, at most `limit`. Locks nothing.
    fn overdue(
        &mut self,
        limit: usize,
    ) -> impl Future<Output = Result<(Instant, Vec<Deadline>), Trouble>> + Send;

    /// Those of the items that nobody else has locked, locked by a transaction that is begun here. [`Session::lock`] goes on
    /// within it: it is the same transaction, so its locks are had already.
    fn lock_free(
        &mut self,
        items: &BTreeSet<ItemKey>,
    ) -> impl Future<Output = Result<BTreeSet<ItemKey>, Trouble>> + Send;

    /// Forgets idempotency keys that were used before an instant, at most `limit` of them. How many it were.
    fn forget_keys(
        &mut self,
        before: Instant,
        limit: usize,
    ) -> impl Future<Output = Result<usize, Trouble>> + Send;
}

/// What is to be read, or locked and read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wants {
    /// Pauses by location; the empty one stands for everything. They need not exist.
    pub(crate) pauses: BTreeSet<String>,
    /// Whether pauses are to be set, and so locked against all who read any.
    pub(crate) sets_pauses: bool,
    /// Items.
    pub(crate) items: BTreeSet<ItemKey>,
    /// Reservations.
    pub(crate) holds: BTreeSet<ReservationId>,
    /// Used keys. Read only: they never change, and who inserts one first is decided by the table's key.
    pub(crate) keys: BTreeSet<KeyHash>,
    /// Of these items so many of the earliest deadlines. Read only: an item's lock orders them.
    pub(crate) due: BTreeMap<ItemKey, usize>,
    /// So many of the earliest deadlines of all.
    pub(crate) any_due: Option<usize>,
}

/// What was read; what is not there does not exist.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Locations that are paused; the empty one stands for everything.
    pub(crate) paused: BTreeSet<String>,
    /// Items.
    pub(crate) items: Vec<Item>,
    /// Reservations.
    pub(crate) holds: Vec<Hold>,
    /// Used keys.
    pub(crate) keys: Vec<KeyRecord>,
    /// Deadlines by item, for every item asked for.
    pub(crate) due: BTreeMap<ItemKey, BTreeSet<Deadline>>,
    /// Deadlines of all.
    pub(crate) any_due: BTreeSet<Deadline>,
}

/// What [`Session::lock`] found.
#[derive(Debug)]
pub(crate) struct Locked {
    /// The clock, read after the locks were had.
    pub(crate) now: Instant,
    /// The serial that this transaction's events will have.
    pub(crate) serial: u64,
    /// The state.
    pub(crate) rows: Rows,
}

/// What the commands of one batch changed. Every list is in the order of its table's key.
#[derive(Debug)]
pub(crate) struct Changes<'a> {
    /// Items to insert.
    pub(crate) new_items: Vec<&'a Item>,
    /// Items to update.
    pub(crate) changed_items: Vec<&'a Item>,
    /// Reservations to insert; their history is this batch's serial.
    pub(crate) new_holds: Vec<&'a Hold>,
    /// Reservations to update; this batch's serial is added to their history.
    pub(crate) changed_holds: Vec<&'a Hold>,
    /// Lines to delete, before any is inserted.
    pub(crate) gone: Vec<LineRow<'a>>,
    /// Lines to insert.
    pub(crate) come: Vec<LineRow<'a>>,
    /// Pauses to set, made where there is none.
    pub(crate) pauses: Vec<(&'a str, bool)>,
    /// Keys to insert. One that exists is [`Trouble::Raced`].
    pub(crate) keys: Vec<&'a KeyRecord>,
    /// What happened, to be inserted as one row under `serial`; never empty when anything else but keys changed.
    pub(crate) events: &'a [Event],
    /// The serial that [`Session::lock`] drew.
    pub(crate) serial: u64,
}

/// One line of an active reservation, as the queue of deadlines has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineRow<'a> {
    /// Its item.
    pub(crate) item: &'a ItemKey,
    /// Its reservation's deadline.
    pub(crate) expires_at: Instant,
    /// Its reservation.
    pub(crate) id: ReservationId,
    /// Units.
    pub(crate) quantity: u32,
    /// Whether it is its reservation's first: one line stands for the reservation in the queue of all.
    pub(crate) leads: bool,
}

/// Which reservations to look at.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    /// Only this owner's, found by index.
    pub(crate) owner_id: Option<&'a Label>,
    /// Only those with this status, out of those looked at.
    pub(crate) status: Option<Status>,
    /// Only those with a smaller id.
    pub(crate) before: Option<ReservationId>,
    /// Most reservations to look at.
    pub(crate) limit: usize,
}

/// What [`Session::scan`] saw.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// What belongs to it, the largest id first.
    pub(crate) holds: Vec<Hold>,
    /// The smallest id that was looked at, when there may be more behind it.
    pub(crate) next: Option<ReservationId>,
}

/// Whether COMMIT has been sent.
#[derive(Debug, Default)]
pub(crate) struct CommitSent(AtomicBool);

impl CommitSent {
    /// From here on the outcome may be unknown.
    pub(crate) fn mark(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// The server itself has said that it did not get as far as COMMIT, and will not.
    pub(crate) fn recall(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    /// Whether it was marked.
    pub(crate) fn is_marked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// How a commit was answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Committed {
    /// It is durable, as far as the server was told to make it so.
    Durable,
    /// The server warned: a standby that should have it may not.
    InDoubt(String),
}

/// What went wrong with a database. Texts are for people and show no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Other transactions stood in the way and this one was chosen to give up: wait a moment, run again, a few times.
    Deadlock(String),
    /// A lock was not given in time: likewise.
    LockTimeout(String),
    /// Another instance made the same row first: run again, and see it.
    Raced(String),
    /// The connection failed, or the server can't work now: nothing more may be asked of this session.
    Lost(String),
    /// An assertion of the schema fired, a row makes no sense, or a statement is wrong: a bug or damage.
    Alarm(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadlock(what) => write!(f, "chosen to give way: {what}"),
            Self::LockTimeout(what) => write!(f, "a lock was not given in time: {what}"),
            Self::Raced(what) => write!(f, "another instance was first: {what}"),
            Self::Lost(what) => write!(f, "the connection is of no use: {what}"),
            Self::Alarm(what) => write!(f, "an assertion failed: {what}"),
        }
    }
}

impl From<stockhold_store::codec::DecodeError> for Trouble {
    fn from(error: stockhold_store::codec::DecodeError) -> Self {
        Self::Alarm(error.to_string())
    }
}
