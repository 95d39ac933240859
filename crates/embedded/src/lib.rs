//! The default store. Every command is decided in memory, and its effects are durable before it is answered.
//!
//! ```text
//! submit ─▶ Core (one lock): decide ─▶ the open batch ─▶ committer: one row in log.db, one sync
//!                                                        ─▶ published items ─▶ answers
//!                                                        ─▶ indexer: index.db
//! ```
//!
//! `log.db` is the source of truth: one row per batch with all of its effects. `index.db` is derived from it and is
//! never ahead of it: items, active and closed reservations, idempotency keys. A start reads the index first, and
//! readers find closed reservations in it. If it is lost, a start rebuilds it from the log.
//!
//! What must never happen in this crate: an answer before the sync of everything that it depends on; a second attempt
//! after a failed sync; a row served with a wrong checksum; a business rule.

mod error;
pub mod files;
mod limits;

mod base;
mod customers;
mod engine;
mod index;
mod log;
mod start;
mod store;
mod threads;
mod tools;

pub mod parsers;
pub mod stepped;

// Unit tests reach the private parts of the store, so they compile the bench of `stockhold-conformance` with this crate.
#[cfg(test)]
extern crate self as stockhold_embedded;
#[cfg(test)]
#[allow(dead_code, unreachable_pub, reason = "it is public there")]
#[path = "../../conformance/src/bench.rs"]
mod bench;

pub use error::OpenError;
pub use start::data_dir::{create_dir, server_of, sync_dir};
pub use store::{EmbeddedStore, Options};
pub use tools::archive::{ArchiveError, archive};
pub use tools::backup::{BackupSummary, backup};
pub use tools::export::{export_customers, export_log};
pub use tools::inspect::{Inspection, LogStatus, inspect};
pub use tools::verify::{VerifyReport, verify, verify_with_archive};
