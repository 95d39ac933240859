//! What a store is to whoever uses it, and what it promises them. How it keeps that is the adapter's.

use crate::job::Job;
use stockhold_domain::{Event, Item, ItemKey};

/// An event with the position that its commit gave it: dense, from 1, in commit order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// Its position.
    pub position: u64,
    /// The event.
    pub event: Event,
}

/// A durable home for stock and reservations.
///
/// A store promises:
/// - an answer is put only when what it says is durable, and so is everything it has seen;
/// - whoever waits for an answer before asking again is decided in that order, and so are the commands of one
///   [`crate::Request::Commands`]. Others that wait together are decided in the order given as a rule, which is no promise:
///   one that needs a read first (of a closed reservation, or of a key that may have been used), or that needs more room
///   or more expiries than its batch has left, may be overtaken by those behind it, and one that claims units with ids by
///   another that claims units of the same item;
/// - a failed commit is [`Failure::OutcomeUnknown`] for its batch and [`Failure::Unavailable`] for all after it, until
///   the store has recovered;
/// - a caller that goes away cancels nothing half done.
pub trait Store: Send + Sync {
    /// Takes work. Never blocks on the disk or the network; when it can't take more it answers
    /// [`Failure::Overloaded`]. The work is started at the latest at the next [`Store::flush`].
    fn submit(&self, work: Job);

    /// Says that nothing more is coming at this moment: what was submitted becomes a batch now. Every submit has to be
    /// followed by a kick, by whoever submits; one kick serves any number.
    fn flush(&self);

    /// An item from published memory, at most as new as what is durable and at least as new as what was answered.
    /// `None` when this store publishes nothing and has to be asked by [`crate::Query::Items`].
    fn published_item(&self, item: &ItemKey) -> Option<Option<Item>>;

    /// Position of an event that is committed: the newest one, or one a moment older. What is after it can be asked for
    /// by [`crate::Query::Events`].
    fn newest(&self) -> u64;

    /// Why the store takes no commands, if it does not.
    fn fatal_error(&self) -> Option<String>;

    /// What it turns away at the moment though it takes other commands, and why.
    fn degraded_reason(&self) -> Option<String> {
        None
    }
}
