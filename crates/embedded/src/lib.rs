//! The default store: everything is decided in memory and durable before it is answered.
//!
//! ```text
//! submit ─▶ Core (one lock): decide ─▶ the open batch ─▶ committer: one row in log.db, one sync
//!                                                        ─▶ published figures ─▶ answers
//!                                                        ─▶ indexer, behind: index.db
//! ```
//!
//! `log.db` is the truth: one row per batch with everything that the batch did. `index.db` is derived from it, behind
//! the commit and never ahead: items, active and closed reservations, idempotency keys. It is what a start reads first
//! and what closed reservations are found in; it can be made anew from the log.
//!
//! What must never happen here: an answer before the sync of all that it has seen; a second attempt after a failed
//! sync; a row served whose checksum does not fit; a rule.

mod error;

mod batch;
mod filter;
mod memory;
mod queries;
mod quiet;
mod recent_keys;
mod steps;

mod core;

mod acked;
mod active;
mod log;
mod wal;

mod behind;
mod chunk;
mod index;
mod keys;
mod mentions;
mod pace;
mod runs;
mod segments;
mod shared_keys;
mod units;

mod backpressure;
mod committer;
mod copier;
mod housekeeper;
mod indexer;
mod lists;
mod published;
mod reader;
mod recover;
mod store;
mod unfinished;
mod verify;
mod verify_runs;
mod verify_units;

mod backup;
mod carry;
mod inspect;

#[cfg(feature = "testing")]
pub mod parsers;
#[cfg(feature = "stepped")]
pub mod stepped;
#[cfg(feature = "testing")]
pub mod testing;

pub use backup::{Backup, backup};
pub use carry::carry;
pub use error::OpenError;
pub use inspect::{Inspection, LogFacts, inspect};
pub use recover::{make as make_dir, sync_dir};
pub use store::{EmbeddedStore, Options};
pub use verify::{Verdict, verify};

/// Names of the files in a data directory.
pub mod files {
    /// The truth: one row per batch.
    pub const LOG: &str = "log.db";
    /// Derived from the log, behind it.
    pub const INDEX: &str = "index.db";
    /// The newest batch that was synced, for finding a log that lost its end.
    pub const ACKED: &str = "acked";
    /// There as long as a copy is being made here, and after one that was cut.
    pub const UNFINISHED: &str = "unfinished";
    /// Held while a server runs on the directory.
    pub const LOCK: &str = "lock";
}
