//! The extent of a pause.

use crate::item_key::ItemKey;
use crate::label::Label;

/// What a pause concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Every item.
    Everything,
    /// Every item at a location.
    Location(Label),
    /// One item.
    Item(ItemKey),
}
