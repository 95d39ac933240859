//! Events that the relay derives from the state of items. They are not in the feed.

use stockhold_domain::{Instant, Item};

/// The type of a derived event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InventoryEventType {
    /// The figures of an item have changed.
    Updated,
    /// An item has at most as many units to reserve as its setting `low_stock`, and had more before.
    Low,
    /// An item has no unit left to reserve.
    Depleted,
    /// An item that had none has units to reserve.
    Replenished,
}

impl InventoryEventType {
    /// All types.
    pub const ALL: [Self; 4] = [Self::Updated, Self::Low, Self::Depleted, Self::Replenished];

    /// The name on the wire, without the prefix of the service.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Updated => "inventory.updated",
            Self::Low => "inventory.low",
            Self::Depleted => "inventory.depleted",
            Self::Replenished => "inventory.replenished",
        }
    }
}

/// A derived event.
#[derive(Clone, Debug)]
pub struct InventoryEvent {
    /// Its type.
    pub kind: InventoryEventType,
    /// Its id, the same whenever it is derived from the same event again.
    pub id: u128,
    /// When the newest event was decided that it covers.
    pub at: Instant,
    /// The position of that event.
    pub position: u64,
    /// The item.
    pub item: Item,
}
