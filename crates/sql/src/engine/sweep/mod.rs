//! The sweeper: expires overdue reservations that no command has expired, the earliest deadline first.
//!
//! One round finds overdue reservations without locks ([`find`]) and expires them in batches ([`expire`]). A batch claims its items
//! like a batch of commands. It never waits for a lock of another transaction (`SKIP LOCKED`): whoever holds the lock may expire
//! the same reservations. A reservation is expired only if everything of it was locked, never in part. Items and reservations that
//! others have locked are skipped for [`sweeper`]'s `SKIP_LOCKED_FOR` and tried again later, so that one lock that is never
//! released delays no other reservation. A reservation that can't be expired is counted, and skipped for longer.

mod expire;
mod find;
mod sweeper;

pub(crate) use expire::{SweepResult, sweep};
pub(crate) use find::{OverdueHold, OverdueScan, find_overdue};
pub(crate) use sweeper::{SweepRound, Sweeper};
