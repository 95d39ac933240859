//! Committed events with their positions.

use stockhold_domain::Event;

/// An event and its position. Positions are dense, start at 1 and follow the commit order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// Its position.
    pub position: u64,
    /// The event.
    pub event: Event,
}
