//! What the rules can see of the world, and how it is named. What a store has not loaded must never look as if it were not
//! there.

use crate::event::{Event, KeyRecord};
use crate::hold::Hold;
use crate::id::{KeyHash, ReservationId};
use crate::item::{Item, ItemKey};
use crate::label::Label;
use crate::pool::Pool;
use crate::record::{Record, RecordKey};
use crate::time::Instant;
use crate::unit::Unit;
use alloc::vec::Vec;

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

/// What a command may touch: the unit of loading and locking. The order of kinds is the one that stores lock in; within a
/// kind a store may have an order of its own, as long as it is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Whether everything, or a location by this name, is paused.
    Pause(Option<Label>),
    /// An item.
    Item(ItemKey),
    /// A reservation.
    Hold(ReservationId),
    /// The active reservations of an item, in order of their deadlines.
    Due(ItemKey),
    /// All active reservations, in order of their deadlines.
    AnyDue,
    /// A unit of an item.
    Unit(ItemKey, Label),
    /// So many units of an item that are free, the first in the order of their claims.
    FreeUnits(ItemKey, u32),
    /// All units of an item as they were a moment ago, which needs no lock: a plan over them names units, and those are
    /// looked at again.
    SeatMap(ItemKey),
    /// The highest position of a unit of an item.
    LastUnit(ItemKey),
    /// An idempotency key.
    Key(KeyHash),
    /// A record.
    Record(RecordKey),
}

/// Not loaded, which is another thing than not existing: the store loads it and runs the batch again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLoaded(pub Resource);

/// `Ok(None)` means that it does not exist.
pub type Lookup<'a, T> = Result<Option<&'a T>, NotLoaded>;

/// The world as the rules see it: all of memory, a slice loaded under locks, or a naive model.
pub trait State {
    /// An item.
    fn item(&self, key: &ItemKey) -> Lookup<'_, Item>;

    /// A reservation, whatever its status.
    fn hold(&self, id: ReservationId) -> Lookup<'_, Hold>;

    /// An idempotency key that was used.
    fn key(&self, hash: KeyHash) -> Lookup<'_, KeyRecord>;

    /// Whether the sale of everything (`None`) or of a location is paused. An item's own pause stands in the item.
    fn paused(&self, location: Option<&str>) -> Result<bool, NotLoaded>;

    /// The active reservation with the earliest deadline, due or not, of one item or (`None`) of all; ties go to the
    /// smaller id.
    fn earliest(&self, item: Option<&ItemKey>) -> Result<Option<(Instant, ReservationId)>, NotLoaded>;

    /// A record; what is left of it when it is deleted.
    fn record(&self, key: &RecordKey) -> Lookup<'_, Record>;

    /// The units of an item, for planning over all of them.
    fn pool(&self, _item: &ItemKey) -> Lookup<'_, Pool> {
        Ok(None)
    }

    /// One unit of an item.
    fn unit(&self, item: &ItemKey, id: &Label) -> Lookup<'_, Unit> {
        Ok(self.pool(item)?.and_then(|pool| pool.get(id)))
    }

    /// The first units of an item that are free, at most so many.
    fn free_units(&self, item: &ItemKey, most: u32) -> Result<Vec<&Unit>, NotLoaded> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(self.pool(item)?.map(|pool| pool.first_free(most).collect()).unwrap_or_default())
    }

    /// The highest position of a unit of an item; 0 when there is none.
    fn last_position(&self, item: &ItemKey) -> Result<u64, NotLoaded> {
        Ok(self.pool(item)?.map_or(0, Pool::last_position))
    }

    /// Takes an event's after-images in. There is no rule in here.
    fn apply(&mut self, event: &Event);

    /// Takes a used key in.
    fn remember(&mut self, key: &KeyRecord);
}
