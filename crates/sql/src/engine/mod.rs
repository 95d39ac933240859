//! What every SQL store is, whatever its dialect: commands that wait are combined into transactions, each of which locks
//! what it may touch, reads the clock, lets [`stockhold_domain::decide`] decide over what it loaded, writes and commits.
//! No rule stands here and no SQL. What is SQL stands behind two traits, [`Dialect`] and [`Session`].
//!
//! # What a dialect has to keep to
//!
//! A [`Session`] is one connection. The engine calls one method at a time and drops the session when a call ran into its
//! deadline or ended in [`Trouble::Lost`]: dropping it closes the socket at once, so that the server rolls back.
//!
//! 1. [`Session::read`] sees what is committed when it begins, locks nothing and leaves no transaction open. What it says is
//!    used to find out what to lock, and to answer queries.
//! 2. [`Session::lock`] begins a transaction (READ COMMITTED) and takes the locks of a [`Wants`] in one order, the same at
//!    every instance: pauses, items, reservations, named units, free units, each kind but the last sorted by its table's key
//!    (`bucket` first). Rows that do not exist are no error and lock nothing. Free units are locked in the order of claims as the
//!    index has them, without a sort, and what others have locked is passed by: nobody waits in another order than that of
//!    the ids, and whoever has a unit by its id does not wait for those that passed it by. *Then* it reads the clock, in a
//!    statement of its own, and what it reads of the state is what is committed after the locks were had: by the locking
//!    statement's own rows where the server re-reads them, by later statements otherwise. Keys, deadlines and pauses are
//!    read by statements that begin after the locks are held.
//!    Whoever reads a pause holds off whoever sets one, and the setter must get its turn however many readers come.
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
//! 7. Errors are told apart in one function of the dialect, which makes [`Trouble`] of them. No text in it shows a password.
//!
//! 8. [`Session::lock_free`] begins a transaction as well, which [`Session::lock`] then goes on within; between the two nothing else is
//!    called but [`Session::roll_back`].
//!
//! Everything else is the engine's: what is combined ([`combine`]), what an attempt locks ([`wants`]), who joins it then
//! ([`attempt`]), retries ([`batch`]),
//! sweeping ([`sweep`]), what it knows of an item's units ([`hall`]), numbering and old keys ([`chores`]), connections ([`pool`]), answers ([`post`]). Beside all of it, a
//! read replica may answer what is to be had ([`replica`]).
//!
//! Errors: [`OpenError`] at the start; [`stockhold_store::Failure`] in answers; inside, [`Trouble`].

mod bytes;
mod dialect;
mod options;

mod hall;
mod slice;
mod wants;

mod attempt;
mod batch;

mod combine;
mod known;
mod post;
mod queue;
mod sequence;

mod chores;
mod pool;
mod read;
mod sweep;

mod meters;
mod replica;
mod run;
mod shown;
mod store;

#[cfg(test)]
mod crash_tests;

pub(crate) use bytes::{
    UNIT_HISTORY_BYTES, attributes_body, attributes_from, event_bucket, events_body, events_from, first_sku,
    further_skus, hold_body, hold_from, item_body, item_from, key_body, key_bucket, key_from,
    packed_events_body, serials_from,
};
pub(crate) use dialect::{
    Changes, CommitSent, Committed, Deadline, Dialect, FiguresRow, Free, LineRow, Locked, Rows, SaleRow,
    Scan, Scanned, Session, Trouble, UnitRow, UnitRows, UnitWants, Wants, count, no_figures,
};
pub(crate) use replica::{Pair, Position, ReplicaStore};
pub(crate) use slice::Slice;
pub(crate) use store::SqlStore;

pub(crate) use options::BATCH_LINES;
pub use options::{OpenError, Options, Replica};
