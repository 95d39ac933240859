//! The folded changes of some batches. The index writes them in one transaction.

use crate::index::limits::LimitChanges;
use crate::index::units;
use stockhold_domain::{Hold, Instant, Item, ItemKey, Label, Record, ReservationId};

/// The folded changes of some batches.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// Sorted like the table.
    pub(crate) items: Vec<Item>,
    /// Items that were deleted.
    pub(crate) deleted_items: Vec<ItemKey>,
    pub(crate) pauses: Vec<(String, bool)>,
    /// The units with ids that changed, sorted like the table.
    pub(crate) units: Vec<((ItemKey, Label), units::UnitChange)>,
    /// Active reservations that the index does not have.
    pub(crate) opened: Vec<Hold>,
    /// Active reservations that the index has in an earlier version.
    pub(crate) moved: Vec<Hold>,
    /// Reservations that the index has as active and that are closed now.
    pub(crate) ended: Vec<ReservationId>,
    /// Closed reservations.
    pub(crate) closed: Vec<Hold>,
    /// Closed reservations that are to be deleted, because they are archived.
    pub(crate) archived: Vec<ReservationId>,
    /// The records that changed, sorted like the table.
    pub(crate) records: Vec<Record>,
    /// The limits and counters that changed.
    pub(crate) limits: LimitChanges,
    /// When payments are due that changed; `None` for one that is not due any more. Sorted like the table.
    pub(crate) due_payments: Vec<(ReservationId, Option<Instant>)>,
}

impl Chunk {
    /// Removes the content and keeps the buffers.
    pub(crate) fn clear(&mut self) {
        let Self {
            items,
            deleted_items,
            pauses,
            units,
            opened,
            moved,
            ended,
            closed,
            archived,
            records,
            limits,
            due_payments,
        } = self;
        items.clear();
        deleted_items.clear();
        pauses.clear();
        units.clear();
        ended.clear();
        archived.clear();
        records.clear();
        limits.clear();
        due_payments.clear();
        [opened, moved, closed].into_iter().for_each(Vec::clear);
    }
}
