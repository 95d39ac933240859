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
pub mod files;
mod limits;

mod engine;
mod index;
mod log;
mod start;
mod store;
mod threads;
mod tools;

#[cfg(feature = "stepped")]
pub mod testing;

pub use error::OpenError;
pub use start::data_dir::{create_dir, sync_dir};
pub use store::{EmbeddedStore, Options};
#[cfg(feature = "testing")]
pub use testing::parsers;
#[cfg(feature = "stepped")]
pub use testing::stepped;
pub use tools::backup::{BackupSummary, backup};
pub use tools::export::export_log;
pub use tools::inspect::{Inspection, LogStatus, inspect};
pub use tools::verify::{VerifyReport, verify};
