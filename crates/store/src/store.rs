//! The [`Store`] trait and its promises. How a store keeps them is up to the adapter.

use crate::job::Job;
use stockhold_domain::{Item, ItemKey};

/// Durable storage of stock and reservations.
///
/// A store promises:
/// - Durability: it puts an answer only when everything that the answer reports, and everything that it depends on, is
///   durable.
/// - Order: a request that is submitted after an earlier answer is decided after the request that was answered. The
///   commands of one [`crate::Request::Commands`] are decided in their order. Other requests that wait at the same time are
///   usually decided in the order of submission, but this is no promise. A later request may be decided first when the
///   earlier one needs a read (of a closed reservation, or of a key that may have been used), when it does not fit into the
///   batch, when the batch has no expiries left for it, or when both claim units with ids of the same item.
/// - Failure: the requests of a failed commit are answered [`Failure::OutcomeUnknown`]. All later requests are answered
///   [`Failure::Unavailable`] until the store has recovered.
/// - Cancellation: a caller that disconnects cancels nothing. Its command is either done as a whole or not at all.
pub trait Store: Send + Sync {
    /// Queues a job. Never blocks on the disk or the network. When the queue is full, it answers
    /// [`Failure::Overloaded`]. The job starts at the next [`Store::flush`] at the latest.
    fn submit(&self, job: Job);

    /// Closes the batch of the jobs that were submitted so far. The caller of [`Store::submit`] must call it after one or
    /// more jobs: without it, they may wait for ever.
    fn flush(&self);

    /// An item from memory that readers share. It is never newer than the durable state, and never older than an answer
    /// that was put. `None` when this store shares no memory with readers: use [`crate::Query::Items`] instead.
    fn published_item(&self, item: &ItemKey) -> Option<Option<Item>>;

    /// Position of the newest committed event. It may be slightly out of date: [`crate::Query::Events`] returns the events
    /// after it.
    fn newest(&self) -> u64;

    /// Why the store refuses all commands until it is restarted. `None` when it works.
    fn fatal_error(&self) -> Option<String>;

    /// Why the store refuses some commands at the moment, and which. `None` when it accepts all.
    fn degraded_reason(&self) -> Option<String> {
        None
    }
}
