//! What a gate in front of a store shows of itself. The gate and the API share it.

use stockhold_domain::{ItemKey, Label};

/// The state of a gate, with counts of this instance since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateStatus {
    /// Whether Redis is used at the moment.
    pub connected: bool,
    /// Requests that were admitted.
    pub admitted: u64,
    /// Requests that were refused without the store.
    pub refused: u64,
    /// Counters that were found wrong and corrected.
    pub corrections: u64,
    /// Milliseconds since all changes of other instances were known.
    pub lag_millis: u64,
    /// Gated items, in their order.
    pub items: Vec<GateItem>,
    /// Whether there are more items.
    pub has_more: bool,
}

/// A gated item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateItem {
    /// Which item.
    pub item: ItemKey,
    /// What Redis has. `None` if it has no counter, or can't be reached.
    pub counter: Option<GateCounter>,
}

/// What Redis has of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateCounter {
    /// Units that can be admitted.
    pub units: u64,
    /// The newest transition of the item that is included.
    pub sequence: u64,
    /// The number of the reload that wrote it.
    pub epoch: u64,
}

/// Selects gated items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateSelection {
    /// All of them.
    All,
    /// Those at a location.
    Location(Label),
    /// One, if it is gated.
    Item(ItemKey),
}

/// The result of a reload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReloadSummary {
    /// Counters that were written anew.
    pub reloaded: u64,
    /// Those of them that were wrong.
    pub corrected: u64,
}
