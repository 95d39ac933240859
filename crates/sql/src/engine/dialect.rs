//! The interface between the engine and a dialect. The contract is in the documentation of [`super`].

use crate::engine::db_error::DbError;
use crate::engine::options::OpenError;
use core::future::Future;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stockhold_domain::{
    CounterKey, Event, Hold, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, Limit, LimitCounter,
    LimitSet, Record, RecordKey, RecordKind, ReservationId, Status, StockCounters, Subject, Unit,
};
use stockhold_store::{CustomerRequest, CustomerResult, EventRow, ItemPageRequest};

/// A deadline and whose it is, in the order that holds fall due.
pub(crate) type Deadline = (Instant, ReservationId);

/// When the next pool of an item is to be released, and of which item, in the order of the times.
pub(crate) type Release = (Instant, ItemKey);

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
    fn read(&mut self, lock_set: &LockSet) -> impl Future<Output = Result<Rows, DbError>> + Send;

    /// Begins, locks, reads the clock, reads.
    fn lock(&mut self, lock_set: &LockSet) -> impl Future<Output = Result<LockedRows, DbError>> + Send;

    /// Whether [`Self::lock`] leaves keys to [`Self::used_keys`], because the table's key does not refuse all used keys of late arrivals.
    fn reads_keys_after_locking(&self) -> bool {
        false
    }

    /// Those of the keys that were used, under the locks of a batch.
    fn used_keys(
        &mut self,
        _: &BTreeSet<KeyHash>,
    ) -> impl Future<Output = Result<Vec<KeyRecord>, DbError>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Writes and commits.
    fn commit(
        &mut self,
        changes: &Changes<'_>,
        sent: &CommitSent,
    ) -> impl Future<Output = Result<CommitOutcome, DbError>> + Send;

    /// Ends whatever transaction is open.
    fn roll_back(&mut self) -> impl Future<Output = Result<(), DbError>> + Send;

    /// Items in order of (location, SKU): fewer than the limit only at the end.
    fn shelf(&mut self, shelf: &ItemPageRequest) -> impl Future<Output = Result<Vec<Item>, DbError>> + Send;

    /// Units of an item after a place in the order of their claims, in that order: fewer than the limit only at the end.
    fn units(
        &mut self,
        item: &ItemKey,
        after: Option<&(u64, Label)>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Unit>, DbError>> + Send;

    /// A unit with the serials of its newest batches of events, oldest first: as many as [`super::UNIT_HISTORY_BYTES`] has kept.
    fn unit(
        &mut self,
        item: &ItemKey,
        unit: &Label,
    ) -> impl Future<Output = Result<Option<(Unit, Vec<u64>)>, DbError>> + Send;

    /// The locations that are paused, `""` for everything, in order.
    fn paused(&mut self) -> impl Future<Output = Result<Vec<String>, DbError>> + Send;

    /// Reservations whose payment is due at an instant, the earliest first.
    fn due_payments(
        &mut self,
        now: Instant,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<ReservationId>, DbError>> + Send;

    /// Records of a kind that are not deleted, in order of their ids: fewer than the limit only at the end.
    fn record_page(
        &mut self,
        kind: RecordKind,
        after: Option<&Label>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, DbError>> + Send;

    /// Reads or changes rows of customers. What it changes is committed when it is answered.
    fn customers(
        &mut self,
        request: &CustomerRequest,
    ) -> impl Future<Output = Result<CustomerResult, DbError>> + Send;

    /// The newest limits that this instance has read. They may be out of date: they only help to plan what is locked.
    fn known_limits(&self) -> Arc<LimitSet>;

    /// The counters of the current generation of a limit in order of their subjects: fewer than the limit only at the end.
    fn counter_page(
        &mut self,
        of: &Limit,
        after: Option<&Subject>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(Subject, LimitCounter)>, DbError>> + Send;

    /// Deletes counters of generations of a limit before this one, at most `limit` of them. Returns their number.
    fn forget_counters(
        &mut self,
        of: &Label,
        generation: u64,
        limit: usize,
    ) -> impl Future<Output = Result<usize, DbError>> + Send;

    /// Looks at reservations, the one with the largest place first.
    fn scan(&mut self, scan: &ReservationScan<'_>) -> impl Future<Output = Result<ScanPage, DbError>> + Send;

    /// The serials of a reservation's batches of events, oldest first; `None` when there is no such reservation.
    fn serials(
        &mut self,
        id: ReservationId,
    ) -> impl Future<Output = Result<Option<Vec<u64>>, DbError>> + Send;

    /// The events of batches by their serials, in the order given, each with its position. Batches that are not numbered yet
    /// are left out.
    fn batches(&mut self, serials: &[u64]) -> impl Future<Output = Result<Vec<EventRow>, DbError>> + Send;

    /// Numbered events after a position.
    fn events(
        &mut self,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<EventRow>, DbError>> + Send;

    /// Gives positions to all that is committed and has none; says the newest position. Does not write when there is
    /// nothing to number.
    fn number(&mut self) -> impl Future<Output = Result<u64, DbError>> + Send;

    /// Whether a copy into the database is running or was interrupted, so that data is missing.
    fn is_unfinished(&mut self) -> impl Future<Output = Result<bool, DbError>> + Send;

    /// The clock, and at most `limit` active reservations whose deadline has passed, the earliest first. If `after` is given, only
    /// those that come after it in this order. Takes no locks.
    fn overdue(
        &mut self,
        after: Option<Deadline>,
        limit: usize,
    ) -> impl Future<Output = Result<(Instant, Vec<Deadline>), DbError>> + Send;

    /// The clock, and at most `limit` items with the next release of one of their pools, due or not, the earliest first. If `after` is
    /// given, only those that come after it in this order. Takes no locks.
    fn releases(
        &mut self,
        after: Option<&Release>,
        limit: usize,
    ) -> impl Future<Output = Result<(Instant, Vec<Release>), DbError>> + Send;

    /// Moves the time at which the sweeper looks at an item because of its pools, unless it has changed since it was read. Commits.
    fn move_release(
        &mut self,
        of: &Release,
        to: Option<Instant>,
    ) -> impl Future<Output = Result<(), DbError>> + Send;

    /// Those of the items, the reservations, the counters and the named units, in this order, that nobody else has locked, locked by a
    /// transaction that is begun here. [`Session::lock`] goes on within it: it is the same transaction, so its locks are had
    /// already.
    fn lock_skip_locked(
        &mut self,
        lock_set: &LockSet,
    ) -> impl Future<Output = Result<SkipLockedResult, DbError>> + Send;

    /// How many reservations are active.
    fn active_holds(&mut self) -> impl Future<Output = Result<u64, DbError>> + Send;

    /// Makes it known that idempotency keys are kept for at least so many microseconds. For how long they are kept: the longest
    /// that was ever made known. Does not write when that is longer already.
    fn keep_keys(&mut self, at_least: i64) -> impl Future<Output = Result<i64, DbError>> + Send;

    /// Forgets idempotency keys that were used before an instant, at most `limit` of them. How many it were.
    fn forget_keys(
        &mut self,
        before: Instant,
        limit: usize,
    ) -> impl Future<Output = Result<usize, DbError>> + Send;
}

/// What is to be read, or locked and read.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockSet {
    /// Pauses by location; the empty one stands for everything. They need not exist.
    pub(crate) pauses: BTreeSet<String>,
    /// Whether pauses are to be set, and so locked against all who read any.
    pub(crate) sets_pauses: bool,
    /// Whether the limits are read. They are locked with the pauses.
    pub(crate) limits: bool,
    /// Whether limits are to be set, and so locked against all who read any.
    pub(crate) sets_limits: bool,
    /// Items.
    pub(crate) items: BTreeSet<ItemKey>,
    /// Items that are only read: those whose units have ids, as far as only units move.
    pub(crate) seen: BTreeSet<ItemKey>,
    /// Reservations.
    pub(crate) holds: BTreeSet<ReservationId>,
    /// Counters of limits. They need not exist: of two instances that create one, the table's key lets one through.
    pub(crate) counters: BTreeSet<CounterKey>,
    /// Of the reservations that these counters count, so many of the earliest deadlines. Read only: the counter's lock orders them.
    pub(crate) counted_due: BTreeMap<CounterKey, usize>,
    /// Units with ids, by item.
    pub(crate) units: BTreeMap<ItemKey, UnitLockSet>,
    /// Used keys. Read only: they never change, and who inserts one first is decided by the table's key.
    pub(crate) keys: BTreeSet<KeyHash>,
    /// Of these items so many of the earliest deadlines. Read only: an item's lock orders them.
    pub(crate) due: BTreeMap<ItemKey, usize>,
    /// So many of the earliest deadlines of all.
    pub(crate) any_due: Option<usize>,
    /// So many of the earliest releases of pools of all items.
    pub(crate) any_release: Option<usize>,
    /// Records. They need not exist: of two instances that create one, the table's key lets one through.
    pub(crate) records: BTreeSet<RecordKey>,
}

impl LockSet {
    /// Whether the lock of pauses and limits is needed.
    pub(crate) fn reads_settings(&self) -> bool {
        self.limits || !self.pauses.is_empty()
    }

    /// Whether the lock of pauses and limits has to exclude all others.
    pub(crate) fn sets_settings(&self) -> bool {
        self.sets_limits || self.sets_pauses
    }

    /// Every item, locked or only read.
    pub(crate) fn all_items(&self) -> impl Iterator<Item = &ItemKey> {
        self.items.iter().chain(&self.seen)
    }
}

/// What is to be locked and read of one item's units. Its figures are always read.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnitLockSet {
    /// These, locked in the order of their ids. They need not exist.
    pub(crate) named: BTreeSet<Label>,
    /// So many that are free in a pool, or in none, the first in the order of their claims, locked. What others have locked is passed by.
    /// Without locks where all is read without.
    pub(crate) free: BTreeMap<Option<Label>, usize>,
    /// All of them, without a lock.
    pub(crate) map: bool,
    /// The highest position.
    pub(crate) last: bool,
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
    /// Releases of pools of all items.
    pub(crate) any_release: BTreeSet<Release>,
    /// All limits, if they were asked for.
    pub(crate) limits: Option<Arc<LimitSet>>,
    /// Counters of limits.
    pub(crate) counters: Vec<(CounterKey, LimitCounter)>,
    /// Deadlines of counted reservations by counter, for every counter asked for.
    pub(crate) counted_due: BTreeMap<CounterKey, BTreeSet<Deadline>>,
    /// Units by item, for every item asked for.
    pub(crate) units: BTreeMap<ItemKey, UnitRows>,
    /// Records, deleted ones included.
    pub(crate) records: Vec<Record>,
}

/// What was read of one item's units.
#[derive(Debug)]
pub(crate) struct UnitRows {
    /// What its units and its active reservations come to; no sequence.
    pub(crate) figures: StockCounters,
    /// Those that were named.
    pub(crate) named: Vec<Unit>,
    /// The units of its pools, drawn ones included.
    pub(crate) pools: BTreeMap<Label, PoolCounters>,
    /// Free ones, those of a pool in the order of their claims, as those of general stock.
    pub(crate) free: Vec<Unit>,
    /// All of them, in no order.
    pub(crate) map: Vec<Unit>,
    /// The highest position of one; 0 when there is none, or nobody asked.
    pub(crate) last_position: u64,
}

/// What the units of a pool come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolCounters {
    /// Units that are in it.
    pub(crate) allocated: u64,
    /// Those of them that are held.
    pub(crate) held: u64,
    /// Those of them that are sold.
    pub(crate) sold: u64,
    /// When units were last drawn from it; before all times if never.
    pub(crate) used_at: Instant,
}

impl Default for UnitRows {
    fn default() -> Self {
        let at = Instant::from_micros(0);
        let figures = StockCounters::none(at);
        Self {
            figures,
            named: Vec::new(),
            pools: BTreeMap::new(),
            free: Vec::new(),
            map: Vec::new(),
            last_position: 0,
        }
    }
}

/// What [`Session::lock_skip_locked`] has locked.
#[derive(Debug, Default)]
pub(crate) struct SkipLockedResult {
    /// Items.
    pub(crate) items: BTreeSet<ItemKey>,
    /// Reservations.
    pub(crate) holds: BTreeSet<ReservationId>,
    /// Units.
    pub(crate) units: BTreeSet<(ItemKey, Label)>,
    /// Counters that exist and that somebody else has locked.
    pub(crate) counters_of_others: BTreeSet<CounterKey>,
}

/// What [`Session::lock`] found.
#[derive(Debug)]
pub(crate) struct LockedRows {
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
    /// Items to delete.
    pub(crate) deleted_items: Vec<&'a ItemKey>,
    /// Items whose figures of units are deleted, if there are any, before any is added to.
    pub(crate) deleted_figures: Vec<&'a ItemKey>,
    /// Units to insert; their history is this batch's serial.
    pub(crate) new_units: Vec<UnitRow<'a>>,
    /// Units to update; this batch's serial is added to their history.
    pub(crate) changed_units: Vec<UnitRow<'a>>,
    /// Units to delete.
    pub(crate) gone_units: Vec<(&'a ItemKey, &'a Label)>,
    /// What is added to the figures of items whose units have ids.
    pub(crate) figures: Vec<CounterChangeRow<'a>>,
    /// The part that this instance adds to.
    pub(crate) counter_shard: u16,
    /// Sales of units that came back, to be closed before any is inserted.
    pub(crate) closed_sales: Vec<SaleRow<'a>>,
    /// Sales of units to insert.
    pub(crate) new_sales: Vec<SaleRow<'a>>,
    /// Reservations to insert; their history is this batch's serial.
    pub(crate) new_holds: Vec<&'a Hold>,
    /// Reservations to update; this batch's serial is added to their history.
    pub(crate) changed_holds: Vec<&'a Hold>,
    /// Those of the updated reservations whose history so far moves to a row of its own first.
    pub(crate) full_histories: Vec<ReservationId>,
    /// Those of the updated reservations that lists find by another owner or other SKUs than before.
    pub(crate) relisted_holds: Vec<&'a Hold>,
    /// Reservations that were confirmed for an order, to be listed under it: in the order of their confirmation.
    pub(crate) new_orders: Vec<(ReservationId, &'a Label)>,
    /// Reservations whose payment became due at another time, in order of their ids; `None`: not any more.
    pub(crate) due_payments: Vec<(ReservationId, Option<Instant>)>,
    /// Lines to delete, before any is inserted.
    pub(crate) gone: Vec<LineRow<'a>>,
    /// Lines to update: only their quantity changed.
    pub(crate) resized: Vec<LineRow<'a>>,
    /// Lines to insert.
    pub(crate) come: Vec<LineRow<'a>>,
    /// Pauses to set, made where there is none.
    pub(crate) pauses: Vec<(&'a str, bool)>,
    /// Records to insert. One that exists is [`DbError::Conflict`].
    pub(crate) new_records: Vec<&'a Record>,
    /// Records to update.
    pub(crate) changed_records: Vec<&'a Record>,
    /// Limits and what they count.
    pub(crate) limits: LimitChanges<'a>,
    /// Keys to insert. One that exists is [`DbError::Conflict`].
    pub(crate) keys: Vec<&'a KeyRecord>,
    /// What happened, to be inserted as one row under `serial`; never empty when anything else but keys changed.
    pub(crate) events: &'a [Event],
    /// The serial that [`Session::lock`] drew.
    pub(crate) serial: u64,
}

impl Changes<'_> {
    /// Whether anything of it is about units with ids.
    pub(crate) fn touches_units(&self) -> bool {
        let units = self.new_units.len() + self.changed_units.len() + self.gone_units.len();
        units + self.figures.len() + self.closed_sales.len() + self.new_sales.len() > 0
    }
}

/// What the commands of one batch changed of limits. Every list is in the order of its table's key.
#[derive(Debug, Default)]
pub(crate) struct LimitChanges<'a> {
    /// Limits to set, made where there is none. The version of the set of limits rises with them.
    pub(crate) set: Vec<&'a Limit>,
    /// Counters to insert. One that exists is [`DbError::Conflict`].
    pub(crate) new_counters: Vec<CounterRow<'a>>,
    /// Counters to update.
    pub(crate) changed_counters: Vec<CounterRow<'a>>,
    /// Counters to delete.
    pub(crate) gone_counters: Vec<&'a CounterKey>,
    /// Counted reservations to delete from the queue of their counters, before any is inserted.
    pub(crate) gone_holds: Vec<CountedHoldRow<'a>>,
    /// Counted reservations to insert into it.
    pub(crate) new_holds: Vec<CountedHoldRow<'a>>,
}

/// A counter as it became.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterRow<'a> {
    /// Which one.
    pub(crate) key: &'a CounterKey,
    /// What it counts now.
    pub(crate) counter: LimitCounter,
}

/// One counter of an active reservation, as the queue of deadlines of the counter has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CountedHoldRow<'a> {
    /// The counter.
    pub(crate) key: &'a CounterKey,
    /// The deadline of the reservation, and which it is.
    pub(crate) deadline: Deadline,
}

/// A unit as it became.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitRow<'a> {
    /// Its item.
    pub(crate) item: &'a ItemKey,
    /// As it is now.
    pub(crate) unit: &'a Unit,
}

/// What is added to an item's figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterChangeRow<'a> {
    /// The item.
    pub(crate) item: &'a ItemKey,
    /// The pool of the item, or `None` for the item as a whole.
    pub(crate) pool: Option<&'a Label>,
    /// By how much.
    pub(crate) by: CounterChange,
}

/// By how much figures moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterChange {
    /// Units that exist.
    pub(crate) total_units: i64,
    /// Units in active reservations.
    pub(crate) held: i64,
    /// Those of them whose payment is under way.
    pub(crate) held_under_payment: i64,
    /// Units sold.
    pub(crate) confirmed_sold: i64,
    /// Those of them that left the shelf.
    pub(crate) fulfilled: i64,
    /// Active reservations.
    pub(crate) active: i64,
    /// The newest instant.
    pub(crate) at: Instant,
}

/// One row of the ledger of sales.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SaleRow<'a> {
    /// The item.
    pub(crate) item: &'a ItemKey,
    /// The unit.
    pub(crate) unit: &'a Label,
    /// The reservation that it was sold by.
    pub(crate) id: ReservationId,
    /// When. Not looked at where the row is there already.
    pub(crate) sold_at: Instant,
    /// When it came back.
    pub(crate) returned_at: Option<Instant>,
}

/// One line of an active reservation, as the queue of deadlines has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// What the reservations to look at are found by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScanKey<'a> {
    /// All of them. The place of a reservation is its id.
    All,
    /// Only this owner's, found by index. The place of a reservation is its id.
    Owner(&'a Label),
    /// Only those with a line of this SKU, found by index. The place of a reservation is its id.
    Sku(&'a Label),
    /// Only those that were confirmed for this order, found by index. The place of a reservation is the number that
    /// the database gave it when it was confirmed, 1 or more.
    Order(&'a Label),
}

/// Which reservations to look at.
#[derive(Debug)]
pub(crate) struct ReservationScan<'a> {
    /// What they are found by.
    pub(crate) key: ScanKey<'a>,
    /// Only those with this status, out of those looked at.
    pub(crate) status: Option<Status>,
    /// Only those with a smaller place.
    pub(crate) before: Option<u128>,
    /// Most reservations to look at.
    pub(crate) limit: usize,
}

/// What [`Session::scan`] saw.
#[derive(Debug)]
pub(crate) struct ScanPage {
    /// What belongs to it with its place, the largest place first.
    pub(crate) holds: Vec<(u128, Hold)>,
    /// The smallest place that was looked at, when there may be more behind it.
    pub(crate) next: Option<u128>,
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
pub(crate) enum CommitOutcome {
    /// It is durable, as far as the server was told to make it so.
    Durable,
    /// The server warned: a standby that should have it may not.
    InDoubt(String),
}
