//! The part of a SQL store that all dialects share. It combines waiting commands into transactions. Each transaction locks what it
//! may touch, reads the clock, lets [`stockhold_domain::decide`] decide over the loaded state, writes and commits. There are no rules
//! here and no SQL: the SQL is behind two traits, [`Dialect`] and [`Session`].
//!
//! # What a dialect has to keep to
//!
//! A [`Session`] is one connection. The engine calls one method at a time and drops the session when a call ran into its
//! deadline or ended in [`DbError::ConnectionLost`]: dropping it closes the socket at once, so that the server rolls back.
//!
//! 1. [`Session::read`] sees what is committed when it begins, locks nothing and leaves no transaction open. What it says is
//!    used to find out what to lock, and to answer queries.
//! 2. [`Session::lock`] begins a transaction (READ COMMITTED) and takes the locks of a [`LockSet`] in one order, the same at
//!    every instance: pauses and limits (one lock), items, reservations, counters of limits, named units, free units, each kind but
//!    the last sorted by its table's key (`bucket` first). Rows that do not exist are no error and lock nothing. Free units are locked in the order of claims as the
//!    index has them, without a sort, and locked ones are skipped: so transactions wait for units only in the order of the ids, and
//!    a transaction that locks a unit by its id does not wait for those that skipped it. *Then* it reads the clock, in a
//!    statement of its own. The state that it reads is committed state after the locks were taken: by the locking
//!    statement's own rows where the server re-reads them, by later statements otherwise. Keys, deadlines and pauses are
//!    read by statements that begin after the locks are held.
//!    A transaction that reads a pause or the limits blocks one that sets any, and the writer must get its turn however many readers
//!    come. The limits are those of this instance's memory while their version, read under this lock, is the same.
//! 3. [`Session::commit`] writes a [`Changes`] and commits. It marks [`CommitSent`] right before COMMIT may leave: past that
//!    mark a lost connection or a deadline is an unknown outcome, before it nothing was done. COMMIT is never cancelled. An
//!    error that the *server* answered to a write means that nothing was committed. Rows to be changed exist (they are locked):
//!    a statement that changes another number of rows than it was given is an alarm, and nothing may be committed.
//! 4. After an error of [`Session::lock`] or [`Session::commit`], and after a lock without a commit, the engine calls
//!    [`Session::roll_back`], which leaves no transaction open whatever the server had done by itself.
//! 5. Serials of events are drawn in [`Session::lock`] after the locks are held: of two batches that share an item the later
//!    one has the larger. They have gaps, become visible out of order and are no positions. [`Session::number`] gives positions
//!    afterwards: dense, from 1, each once, rows that are numbered together in order of their serials.
//! 6. Texts are compared byte by byte and come back as they went in. Instants are microseconds since 1970.
//! 7. One function of the dialect classifies errors as [`DbError`]. No text in it shows a password.
//! 8. [`Session::lock_skip_locked`] begins a transaction as well, and [`Session::lock`] then continues in it. Between the two, only
//!    [`Session::roll_back`] may be called.
//!
//! # Where things are
//!
//! | folder | what it does |
//! |---|---|
//! | [`state`] | what one batch has loaded, and what its commands change of it |
//! | [`plan`] | which rows a batch has to lock: its lock set |
//! | [`lock`] | takes the locks and loads the state; which late arrivals may join |
//! | [`decide`] | decides, commits, and retries after a deadlock, a lock timeout or missing data |
//! | [`sweep`] | expires overdue reservations, releases pools whose time has come |
//! | [`read`] | queries, and availability at a read replica |
//! | [`dispatch`] | the store's thread: batches, connections, sequences, periodic jobs, replies |
//!
//! A folder uses those above it and never those below it.
//!
//! Errors: [`OpenError`] at the start; [`stockhold_store::Failure`] in answers; inside, [`DbError`].

mod db_error;
mod dialect;
mod encoding;
mod limit_cache;
mod meters;
mod options;
mod reply_batch;
mod sessions;
mod store_status;
mod unit_counters;

mod state;

mod plan;

mod lock;

mod decide;

mod sweep;

mod read;

mod dispatch;

pub(crate) use db_error::DbError;
pub(crate) use decide::jitter;
pub(crate) use dialect::{
    Changes, CommitOutcome, CommitSent, CountedHoldRow, CounterChangeRow, CounterRow, Deadline, Dialect,
    LimitChanges, LineRow, LockSet, LockedRows, PoolCounters, Release, ReservationScan, Rows, SaleRow,
    ScanKey, ScanPage, Session, SkipLockedResult, UnitLockSet, UnitRow, UnitRows,
};
pub use dispatch::SqlStore;
pub(crate) use encoding::{
    UNIT_HISTORY_BYTES, attributes_body, attributes_from, event_bucket, events_body, events_from, first_sku,
    further_skus, hold_body, hold_from, item_body, item_from, key_body, key_bucket, key_from, limit_body,
    limit_from, live_generation, packed_events_body, pool_units_body, pool_units_from, pools_body,
    pools_from, serials_from, settings_body, settings_from, subject_column, subject_from,
};
pub(crate) use limit_cache::LimitCache;
pub(crate) use read::{LogPosition, ReplicaDialect, ReplicaStore};
pub(crate) use state::{LoadedState, queued_under_limits};
pub(crate) use unit_counters::{empty_counters, next_release, pools_of_row, set_counters};

pub(crate) use options::BATCH_LINES;
pub use options::{OpenError, Options, Replica};
