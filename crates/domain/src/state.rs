//! The state that the rules read, and the names of its parts. What a store has not loaded must never look like
//! something that does not exist.

use crate::event::{Event, KeyRecord};
use crate::hold::Hold;
use crate::id::{KeyHash, ReservationId};
use crate::item::{Item, ItemKey};
use crate::label::Label;
use crate::limit::{CounterKey, LimitCounter, LimitSet};
use crate::record::{Record, RecordKey};
use crate::time::Instant;
use crate::unit::Unit;
use crate::unit_index::UnitIndex;
use alloc::vec::Vec;

/// A part of the state that is loaded and locked as a whole. Stores lock in the order of the variants. Within one
/// variant a store may choose the order, if it is always the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Whether everything, or a location by this name, is paused.
    Pause(Option<Label>),
    /// The limits.
    Limits,
    /// An item.
    Item(ItemKey),
    /// A reservation.
    Hold(ReservationId),
    /// The active reservations of an item, in order of their deadlines.
    Due(ItemKey),
    /// All active reservations, in order of their deadlines.
    AnyDue,
    /// The items with pools that are to be released, in order of the time.
    AnyRelease,
    /// A counter of a limit.
    Counter(CounterKey),
    /// The active reservations with units that a counter counts, in order of their deadlines.
    CountedDue(CounterKey),
    /// A unit of an item.
    Unit(ItemKey, Label),
    /// The first free units of an item in claim order, this many: of a pool, or of general stock.
    FreeUnits(ItemKey, Option<Label>, u32),
    /// All units of an item as they were a moment ago. It needs no lock, because a plan over them names units, and
    /// these are checked again.
    SeatMap(ItemKey),
    /// The highest position of a unit of an item.
    LastUnit(ItemKey),
    /// An idempotency key.
    Key(KeyHash),
    /// A record.
    Record(RecordKey),
}

/// The resource is not loaded, so nobody knows whether it exists. The store loads it and runs the batch again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLoaded(pub Resource);

/// `Ok(None)` means that it does not exist.
pub type Lookup<'a, T> = Result<Option<&'a T>, NotLoaded>;

/// The state that the rules read and change: the whole memory, a part that was loaded under locks, or a naive model.
pub trait State {
    /// An item.
    fn item(&self, key: &ItemKey) -> Lookup<'_, Item>;

    /// A reservation, whatever its status.
    fn hold(&self, id: ReservationId) -> Lookup<'_, Hold>;

    /// An idempotency key that was used.
    fn key(&self, hash: KeyHash) -> Lookup<'_, KeyRecord>;

    /// Whether the whole sale (`None`) or a location is paused. The pause of an item is a field of the item.
    fn paused(&self, location: Option<&str>) -> Result<bool, NotLoaded>;

    /// The active reservation with the earliest deadline, due or not, of one item or (`None`) of all; ties go to the
    /// smaller id.
    fn earliest(&self, item: Option<&ItemKey>) -> Result<Option<(Instant, ReservationId)>, NotLoaded>;

    /// The item with the earliest release of a pool, due or not; ties go to the smaller key.
    fn earliest_release(&self) -> Result<Option<(Instant, ItemKey)>, NotLoaded>;

    /// All limits.
    fn limits(&self) -> Result<&LimitSet, NotLoaded>;

    /// A counter of the current generation of a limit.
    fn counter(&self, key: &CounterKey) -> Result<LimitCounter, NotLoaded>;

    /// The active reservation with the earliest deadline, due or not, that has units which this counter counts.
    fn earliest_counted(&self, key: &CounterKey) -> Result<Option<(Instant, ReservationId)>, NotLoaded>;

    /// A record; what is left of it when it is deleted.
    fn record(&self, key: &RecordKey) -> Lookup<'_, Record>;

    /// The units of an item, for planning over all of them.
    fn unit_index(&self, _item: &ItemKey) -> Lookup<'_, UnitIndex> {
        Ok(None)
    }

    /// One unit of an item.
    fn unit(&self, item: &ItemKey, id: &Label) -> Lookup<'_, Unit> {
        Ok(self.unit_index(item)?.and_then(|unit_index| unit_index.get(id)))
    }

    /// The first free units of an item that are in this pool, or in none, at most `most`.
    fn free_units(&self, item: &ItemKey, pool: Option<&Label>, most: u32) -> Result<Vec<&Unit>, NotLoaded> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let unit_index = self.unit_index(item)?.into_iter();
        Ok(unit_index.flat_map(|unit_index| unit_index.first_free(pool, most)).collect())
    }

    /// The highest position of a unit of an item. 0 when it has no unit.
    fn last_position(&self, item: &ItemKey) -> Result<u64, NotLoaded> {
        Ok(self.unit_index(item)?.map_or(0, UnitIndex::last_position))
    }

    /// Applies the after-images of an event. It must run no rule.
    fn apply(&mut self, event: &Event);

    /// Adds a used key.
    fn remember(&mut self, key: &KeyRecord);
}
