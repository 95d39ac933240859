//! The sweeper: expires overdue reservations that no command has expired.
//!
//! A pass goes through all overdue reservations, the earliest deadline first, in pages ([`find`]). The reservations of a page are
//! expired in batches ([`expire`]). A batch claims its items like a batch of commands. It never waits for a lock of another
//! transaction (`SKIP LOCKED`), which may expire the same reservations. A reservation is expired only if everything
//! of it was locked, never in part. The next page begins after the last one, so that one lock that is never released delays no other
//! reservation. What was locked is tried again by the next pass.

mod expire;
mod find;
mod sweeper;

pub(crate) use expire::{SweepResult, sweep};
pub(crate) use find::{OverdueHold, OverduePage, find_overdue};
pub(crate) use sweeper::Sweeper;
