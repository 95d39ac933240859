//! What changed over some batches, folded: what the index takes in at a time.

use crate::index::units;
use stockhold_domain::{Hold, Item, ItemKey, Label, ReservationId};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// In the order of the file.
    pub(crate) items: Vec<Item>,
    pub(crate) pauses: Vec<(String, bool)>,
    /// Units with ids that changed, in the order of the file.
    pub(crate) units: Vec<((ItemKey, Label), units::UnitChange)>,
    /// Active reservations that the index does not have.
    pub(crate) opened: Vec<Hold>,
    /// Active reservations that it has, changed.
    pub(crate) moved: Vec<Hold>,
    /// Reservations that it has as active and that are not any more.
    pub(crate) ended: Vec<ReservationId>,
    /// Closed reservations, as they are now.
    pub(crate) closed: Vec<Hold>,
}

impl Chunk {
    /// Lets go of what is in it, and keeps the room.
    pub(crate) fn clear(&mut self) {
        let Self { items, pauses, units, opened, moved, ended, closed } = self;
        items.clear();
        pauses.clear();
        units.clear();
        ended.clear();
        [opened, moved, closed].into_iter().for_each(Vec::clear);
    }
}
