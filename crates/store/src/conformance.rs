//! The suite that every adapter passes unchanged, over a [`World`] that the adapter's tests provide.

use crate::EventRow;
use crate::work::Failure;
use stockhold_domain::{Envelope, Hold, Instant, Item, ItemKey, Outcome, ReservationId};

/// A store under test, with its clock in the suite's hands.
pub trait World {
    /// Whether the whole suite applies, or only reserve, confirm, release, expire and set stock on counted items.
    fn complete(&self) -> bool {
        true
    }

    /// Hands all commands over, in order, before waiting for any; answers in the same order. The sweeper runs only when
    /// a [`stockhold_domain::Command::Sweep`] is submitted.
    fn submit(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>>;

    /// Moves the clock, forwards or back.
    fn set_clock(&mut self, now: Instant);

    /// Ends the store as a crash would, without any farewell, and starts it again on what is durable.
    fn restart(&mut self);

    /// An item as it is.
    fn item(&mut self, key: &ItemKey) -> Option<Item>;

    /// A reservation as it is.
    fn hold(&mut self, id: ReservationId) -> Option<Hold>;

    /// All committed events, oldest first. Empty when `complete` is false and the adapter keeps none.
    fn events(&mut self) -> Vec<EventRow>;
}
