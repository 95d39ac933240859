//! Limits and thresholds that several modules use, and the relations between them.

use stockhold_domain::limits;
use stockhold_store::fault;

/// The number of answers that may wait for one commit. It bounds the queue.
pub(crate) const QUEUE_LIMIT: usize = 16_384;
/// The lines, and units with ids, of a batch after which commands wait for the next batch. The row of a batch then has
/// about ten MiB, which is far below SQLite's limit.
pub(crate) const BATCH_LINES: u32 = 65_536;
/// The weight that the index may lack before new requests are refused: events, and their lines and units with ids.
pub(crate) const UNINDEXED_WEIGHT_LIMIT: u64 = 2_000_000;
// One reservation is a fraction of both limits.
const _: () = assert!(limits::BASKET_LINES as u64 + limits::BASKET_UNITS < BATCH_LINES as u64);
const _: () = assert!((BATCH_LINES as u64) < UNINDEXED_WEIGHT_LIMIT);
/// The weight that the index may lack before it is written at normal priority. It is far below the limit at which
/// requests are refused.
pub(crate) const URGENT_WEIGHT: u64 = UNINDEXED_WEIGHT_LIMIT / 8;
/// The weight that the index may lack before batches wait for it.
pub(crate) const BACKPRESSURE_WEIGHT: u64 = UNINDEXED_WEIGHT_LIMIT / 4;
// The index is written at normal priority before any batch waits. Two full batches of holds on top stay below the
// limit.
const _: () = assert!(
    URGENT_WEIGHT < BACKPRESSURE_WEIGHT
        && BACKPRESSURE_WEIGHT + 4 * (BATCH_LINES as u64) < UNINDEXED_WEIGHT_LIMIT
);
/// The closed reservations and keys that memory may keep until the index has them.
pub(crate) const UNINDEXED_RECORDS_LIMIT: usize = 2_000_000;

/// The number of keys that are written as one run.
pub(crate) const RUN_KEYS: usize = if fault::ENABLED { 256 } else { 65_536 };

/// The bytes in a write-ahead log after which it is copied.
pub(crate) const CHECKPOINT_AFTER_BYTES: u64 = if fault::ENABLED { 1 << 20 } else { 32 << 20 };
/// The bytes that are written between two checkpoints, and as much again for the writes during a checkpoint.
pub(crate) const WAL_PREALLOCATION: u64 = 64 << 20;
const _: () = assert!(CHECKPOINT_AFTER_BYTES * 2 <= WAL_PREALLOCATION);
