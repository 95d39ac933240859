//! Names of the files in a data directory.

/// The log, the source of truth: one row per batch.
pub const LOG: &str = "log.db";
/// The index, which is derived from the log.
pub const INDEX: &str = "index.db";
/// A copy of the base that becomes the index, while a start makes it.
pub const INDEX_COPY: &str = "index.db.new";
/// The base: the state after the events that were archived. It exists once events have left the log.
pub const BASE: &str = "base.db";
/// A copy of a base that a backup makes.
pub const BASE_COPY: &str = "base.db.new";
/// The rows of customers, which can be erased. It exists once there was a customer.
pub const CUSTOMERS: &str = "customers.db";
/// A copy of the rows of customers that a backup makes.
pub const CUSTOMERS_COPY: &str = "customers.db.new";
/// The sync marker: the newest batch that was synced. It detects a log that lost its end.
pub const SYNC_MARKER: &str = "acked";
/// Exists while a backup writes into the directory, and after a backup that was interrupted.
pub const INCOMPLETE_COPY: &str = "unfinished";
/// Locked while a server uses the directory.
pub const LOCK: &str = "lock";
