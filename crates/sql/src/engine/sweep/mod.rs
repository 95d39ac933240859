//! The sweeper: expires overdue reservations that no command has expired, and releases pools whose time has come.
//!
//! A pass goes through all overdue reservations and through all items with pools to release, the earliest first, in pages ([`find`]).
//! What is on a page is done in batches ([`expire`]). A batch claims its items like a batch of commands. It never waits for a lock of
//! another transaction (`SKIP LOCKED`), which may do the same. A reservation is expired only if everything of it was locked, never in
//! part. The next page begins after the last one, so that one lock that is never released delays nothing else. What was locked is tried
//! again by the next pass.

mod expire;
mod find;
mod sweeper;

pub(crate) use expire::{SweepResult, sweep};
pub(crate) use find::{Overdue, OverdueName, OverduePage, find_overdue};
pub(crate) use sweeper::Sweeper;
