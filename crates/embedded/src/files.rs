//! Names of the files in a data directory.

/// The truth: one row per batch.
pub const LOG: &str = "log.db";
/// Derived from the log, behind it.
pub const INDEX: &str = "index.db";
/// The newest batch that was synced, for finding a log that lost its end.
pub const SYNC_MARKER: &str = "acked";
/// There as long as a copy is being made here, and after one that was cut.
pub const INCOMPLETE_COPY: &str = "unfinished";
/// Held while a server runs on the directory.
pub const LOCK: &str = "lock";
