//! Bounds and thresholds that more than one module depends on, and how they relate.

use stockhold_domain::limits;
use stockhold_store::fault;

/// Answers that may wait for one commit: the bound of the queue.
pub(crate) const QUEUE_LIMIT: usize = 16_384;
/// Lines, and units with ids, that a batch may decide before commands have to wait for the next one: its row stays at some
/// ten MiB, far from what SQLite takes.
pub(crate) const BATCH_LINES: u32 = 65_536;
/// Events, and lines and units with ids of theirs, that may wait for the index before new work is turned away.
pub(crate) const UNINDEXED: u64 = 2_000_000;
// One reservation is a fraction of either.
const _: () = assert!(limits::BASKET_LINES as u64 + limits::BASKET_UNITS < BATCH_LINES as u64);
const _: () = assert!((BATCH_LINES as u64) < UNINDEXED);
/// Events and lines that the index lacks when it is written beside the requests and not behind them: far from the bound at
/// which those are turned away.
pub(crate) const HURRIED_WEIGHT: u64 = UNINDEXED / 8;
/// Events and lines that the index lacks when batches begin to wait.
pub(crate) const WAITED_FOR: u64 = UNINDEXED / 4;
// It hurries before anybody waits, and two full batches of holds on top are far from the bound.
const _: () = assert!(HURRIED_WEIGHT < WAITED_FOR && WAITED_FOR + 4 * (BATCH_LINES as u64) < UNINDEXED);
/// Closed reservations and keys that may stand in memory, waiting for the index.
pub(crate) const TAIL_LIMIT: usize = 2_000_000;

/// Keys that make a run.
pub(crate) const RUN_KEYS: usize = if fault::ENABLED { 256 } else { 65_536 };

/// Bytes in a write-ahead log that are worth copying.
pub(crate) const COPIED_AT: u64 = if fault::ENABLED { 1 << 20 } else { 32 << 20 };
/// What is written between two checkpoints, with as much again for what comes while one is made.
pub(crate) const LOG_ROOM: u64 = 64 << 20;
const _: () = assert!(COPIED_AT * 2 <= LOG_ROOM);
