//! The loaded units of one item whose units have ids: the locked units and, if the best available units are planned, a seat map of
//! all units that was read without locks. Units that are planned from the seat map have to be locked before the commit.

use crate::engine::dialect::{CounterChange, CounterChangeRow, UnitLockSet, UnitRow, UnitRows};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stockhold_domain::{CounterEffect, Instant, ItemKey, Label, Unit, UnitIndex, UnitStatus};

/// The position of a unit in the order of claims.
type Place = (u64, Label);

/// See the documentation of the module.
#[derive(Debug, Default)]
pub(crate) struct UnitItemState {
    /// Locked units by id. The entry of a requested unit that does not exist is empty.
    units: BTreeMap<Label, LockedUnit>,
    /// The locked units that are free, by their pools.
    free: BTreeMap<Option<Label>, BTreeSet<Place>>,
    /// The last loaded free unit of each pool of which there may be more free units after it.
    horizon: BTreeMap<Option<Label>, Place>,
    /// The number of free units of each pool that were requested.
    pub(crate) free_requested: BTreeMap<Option<Label>, usize>,
    /// All units after the commands that were decided so far, if the seat map was requested.
    pub(crate) unit_index: Option<UnitIndex>,
    /// The seat map as it was read.
    pub(crate) map: Option<Arc<[Unit]>>,
    /// Whether a locked unit differs from the seat map: the plan may name units that are taken or not the best.
    pub(crate) is_stale: bool,
    /// Whether the highest position was requested.
    pub(crate) asked_last: bool,
    /// The highest position, if it is known.
    last: Option<u64>,
    /// The change of the item's counters, if there is one.
    moves: Option<CounterChange>,
    /// The changes of the counters of its pools.
    pool_moves: BTreeMap<Label, CounterChange>,
    /// Units changed by this batch that still have to be locked before it commits.
    pub(crate) to_lock: BTreeSet<Label>,
}

/// One locked unit.
#[derive(Debug, Default)]
struct LockedUnit {
    before: Option<Unit>,
    now: Option<Unit>,
    /// Whether the unit was retired and added again with the same id.
    is_another: bool,
}

/// Why the requested number of free units can't be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortfall {
    /// There may be more free units than were loaded.
    Horizon,
    /// Others have locked units that are free by the counters.
    LockedByOthers,
}

impl UnitItemState {
    /// The state after `rows` were read. `map` is a seat map that an earlier attempt has read.
    pub(crate) fn new(lock_set: &UnitLockSet, rows: UnitRows, map: Option<&Arc<[Unit]>>) -> Self {
        let mut unit_item = Self { free_requested: lock_set.free.clone(), ..Self::default() };
        for (pool, requested) in &lock_set.free {
            let found = || rows.free.iter().filter(|unit| unit.pool == *pool);
            if found().count() >= *requested
                && let Some(last) = found().next_back()
            {
                unit_item.horizon.insert(pool.clone(), place(last));
            }
        }
        unit_item.map = map.cloned().or_else(|| lock_set.map.then(|| rows.map.into()));
        unit_item.unit_index = unit_item.map.as_deref().map(|seats| {
            let mut unit_index = UnitIndex::default();
            unit_index.add(seats.to_vec());
            unit_index
        });
        unit_item.asked_last = lock_set.last;
        unit_item.last = lock_set.last.then_some(rows.last_position);
        unit_item.units.extend(lock_set.named.iter().map(|id| (id.clone(), LockedUnit::default())));
        for unit in rows.named.into_iter().chain(rows.free) {
            if let Some(unit_index) = &mut unit_item.unit_index {
                unit_item.is_stale |=
                    unit_index.get(&unit.id).is_none_or(|seat| seat.version != unit.version);
                unit_index.set(&unit.id, unit.status, unit.version, unit.pool.as_ref());
            }
            if unit.status == UnitStatus::Available {
                unit_item.free.entry(unit.pool.clone()).or_default().insert(place(&unit));
            }
            let locked =
                LockedUnit { before: Some(unit.clone()), now: Some(unit.clone()), is_another: false };
            unit_item.units.insert(unit.id, locked);
        }
        if let Some(unit_index) = &unit_item.unit_index {
            let mut gone = unit_item.units.iter().filter(|(_, locked)| locked.before.is_none());
            unit_item.is_stale |= gone.any(|(id, _)| unit_index.get(id).is_some());
        }
        unit_item
    }

    /// A locked unit. An error if it is not locked.
    pub(crate) fn unit(&self, id: &Label) -> Result<Option<&Unit>, ()> {
        self.units.get(id).map(|locked| locked.now.as_ref()).ok_or(())
    }

    /// The first `most` free units of a pool, or of general stock. `there` is the number of these by the counters.
    pub(crate) fn first_free(
        &self,
        pool: Option<&Label>,
        most: usize,
        there: u64,
    ) -> Result<Vec<&Unit>, Shortfall> {
        let pool = pool.cloned();
        let horizon = self.horizon.get(&pool);
        let in_view = |place: &&Place| horizon.is_none_or(|horizon| *place <= horizon);
        let free = self.free.get(&pool).into_iter().flatten();
        let units = free.take_while(in_view).filter_map(|(_, id)| self.unit(id).ok().flatten());
        let found: Vec<&Unit> = units.take(most).collect();
        if found.len() >= most {
            return Ok(found);
        }
        if horizon.is_some() {
            return Err(Shortfall::Horizon);
        }
        if u64::try_from(found.len()).unwrap_or(u64::MAX) < there {
            return Err(Shortfall::LockedByOthers);
        }
        Ok(found)
    }

    /// The highest position. An error if it is not known.
    pub(crate) fn last_position(&self) -> Result<u64, ()> {
        self.last.or_else(|| self.unit_index.as_ref().map(UnitIndex::last_position)).ok_or(())
    }

    /// Adds units to the item.
    pub(crate) fn add(&mut self, units: &[Unit], at: Instant) {
        for unit in units {
            self.last = self.last.map(|last| last.max(unit.place.position));
            self.free.entry(unit.pool.clone()).or_default().insert(place(unit));
            let locked = self.units.entry(unit.id.clone()).or_default();
            locked.is_another = locked.before.is_some();
            locked.now = Some(unit.clone());
        }
        self.moves(at).total_units += i64::try_from(units.len()).unwrap_or(i64::MAX);
        if let Some(unit_index) = &mut self.unit_index {
            unit_index.add(units.to_vec());
        }
    }

    /// Retires a unit.
    pub(crate) fn retire(&mut self, id: &Label, at: Instant) {
        self.moves(at).total_units -= 1;
        if let Some(unit_index) = &mut self.unit_index {
            unit_index.retire(id);
        }
        if let Some(locked) = self.units.get_mut(id)
            && let Some(unit) = locked.now.take()
        {
            if let Some(pool) = &unit.pool {
                moves_of_pool(&mut self.pool_moves, pool).total_units -= 1;
            }
            if let Some(free) = self.free.get_mut(&unit.pool) {
                free.remove(&place(&unit));
            }
            // Only the database knows which unit is the last now.
            self.last = self.last.filter(|last| *last > unit.place.position);
        }
    }

    /// The change of the item's counters, to be adjusted at an instant.
    fn moves(&mut self, at: Instant) -> &mut CounterChange {
        let moves = self.moves.get_or_insert(unmoved(at));
        moves.at = moves.at.max(at);
        moves
    }

    /// Drops the counters of an item that was deleted.
    pub(crate) fn forget_figures(&mut self) {
        self.moves = None;
        self.pool_moves.clear();
    }

    /// Records when units were drawn from a pool.
    pub(crate) fn draw(&mut self, pool: &Label, at: Instant) {
        let moves = moves_of_pool(&mut self.pool_moves, pool);
        moves.at = moves.at.max(at);
    }

    /// Records a transition at an instant. Of its effect, `set` counts what the units tell.
    pub(crate) fn touch(&mut self, effect: &CounterEffect, at: Instant) {
        let moves = self.moves(at);
        moves.active += effect.active;
        moves.held_under_payment += effect.held_under_payment;
    }

    /// Sets the status and the pool of a unit. Returns `false` if the unit is known not to exist.
    pub(crate) fn set(
        &mut self,
        id: &Label,
        status: UnitStatus,
        version: u64,
        pool: Option<&Label>,
        at: Instant,
    ) -> bool {
        if let Some(unit_index) = &mut self.unit_index {
            unit_index.set(id, status, version, pool);
        }
        let Some(LockedUnit { now, .. }) = self.units.get_mut(id) else {
            self.to_lock.insert(id.clone());
            return true;
        };
        let Some(unit) = now else { return false };
        let before = unit.status;
        (unit.status, unit.version) = (status, version);
        let pool_before = core::mem::replace(&mut unit.pool, pool.cloned());
        let place = place(unit);
        if let Some(free) = self.free.get_mut(&pool_before) {
            free.remove(&place);
        }
        if status == UnitStatus::Available {
            self.free.entry(pool.cloned()).or_default().insert(place);
        }
        for (pool, status, by) in [(pool_before.as_ref(), before, -1), (pool, status, 1)] {
            let Some(pool) = pool else { continue };
            let moves = moves_of_pool(&mut self.pool_moves, pool);
            moves.total_units += by;
            match status {
                UnitStatus::Available => {}
                UnitStatus::Held(_) => moves.held += by,
                UnitStatus::Sold(_) | UnitStatus::Fulfilled(_) => moves.confirmed_sold += by,
            }
        }
        let moves = self.moves(at);
        for (status, by) in [(before, -1), (status, 1)] {
            match status {
                UnitStatus::Available => {}
                UnitStatus::Held(_) => moves.held += by,
                UnitStatus::Sold(_) => moves.confirmed_sold += by,
                UnitStatus::Fulfilled(_) => {
                    moves.confirmed_sold += by;
                    moves.fulfilled += by;
                }
            }
        }
        true
    }

    /// The changes to write to the counters of the item and of its pools, in the order of the pools.
    pub(crate) fn figures<'a>(&'a self, item: &'a ItemKey) -> impl Iterator<Item = CounterChangeRow<'a>> {
        let whole = self.moves.map(|by| CounterChangeRow { item, pool: None, by });
        let moved = self.pool_moves.iter().filter(|(_, by)| **by != unmoved(NEVER));
        let pools = moved.map(move |(pool, by)| CounterChangeRow { item, pool: Some(pool), by: *by });
        whole.into_iter().chain(pools)
    }

    /// Appends the rows to insert, to update and to delete.
    pub(crate) fn changes<'a>(
        &'a self,
        item: &'a ItemKey,
        new: &mut Vec<UnitRow<'a>>,
        changed: &mut Vec<UnitRow<'a>>,
        gone: &mut Vec<(&'a ItemKey, &'a Label)>,
    ) {
        for (id, LockedUnit { before, now, is_another }) in &self.units {
            match (before, now) {
                (None, Some(unit)) => new.push(UnitRow { item, unit }),
                (Some(_), Some(unit)) if *is_another => {
                    gone.push((item, id));
                    new.push(UnitRow { item, unit });
                }
                (Some(before), Some(unit)) if before == unit => {}
                (Some(_), Some(unit)) => changed.push(UnitRow { item, unit }),
                (Some(_), None) => gone.push((item, id)),
                (None, None) => {}
            }
        }
    }
}

/// Before all times at which units are drawn.
const NEVER: Instant = Instant::from_micros(0);

/// A change of counters that moves none.
fn unmoved(at: Instant) -> CounterChange {
    CounterChange {
        total_units: 0,
        held: 0,
        held_under_payment: 0,
        confirmed_sold: 0,
        fulfilled: 0,
        active: 0,
        at,
    }
}

fn moves_of_pool<'a>(moves: &'a mut BTreeMap<Label, CounterChange>, pool: &Label) -> &'a mut CounterChange {
    moves.entry(pool.clone()).or_insert_with(|| unmoved(NEVER))
}

fn place(unit: &Unit) -> Place {
    (unit.place.position, unit.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::Place;

    fn label(text: &str) -> Label {
        Label::new(text).unwrap()
    }

    fn seat(id: &str, version: u64) -> Unit {
        let place = Place { position: 1, ..Place::default() };
        Unit { id: label(id), place, status: UnitStatus::Available, version, pool: None }
    }

    /// Whether a map of `A1` and `A2` is stale beside what was found of units that were named.
    fn is_stale(named: &[&str], found: &[Unit]) -> bool {
        let map = Arc::from([seat("A1", 1), seat("A2", 1)]);
        let lock_set =
            UnitLockSet { named: named.iter().map(|id| label(id)).collect(), ..UnitLockSet::default() };
        let rows = UnitRows { named: found.to_vec(), ..UnitRows::default() };
        UnitItemState::new(&lock_set, rows, Some(&map)).is_stale
    }

    #[test]
    fn a_map_is_stale_when_a_unit_that_is_locked_has_moved_or_gone_or_come() {
        assert!(!is_stale(&["A1"], &[seat("A1", 1)]));
        assert!(is_stale(&["A1"], &[seat("A1", 2)]));
        assert!(is_stale(&["A1", "A2"], &[seat("A1", 1)]));
        assert!(is_stale(&["A3"], &[seat("A3", 1)]));
        // As was one that is neither on the map nor there.
        assert!(!is_stale(&["A3"], &[]));
        assert!(!is_stale(&[], &[]));
    }

    #[test]
    fn a_unit_that_was_named_and_is_among_the_free_ones_is_looked_at_once_as_it_was() {
        let lock_set =
            UnitLockSet { named: [label("A1")].into(), free: [(None, 2)].into(), ..UnitLockSet::default() };
        let both = || vec![seat("A1", 3), seat("A2", 1)];
        let rows = UnitRows { named: vec![seat("A1", 3)], free: both(), ..UnitRows::default() };
        assert!(!UnitItemState::new(&lock_set, rows, Some(&Arc::from(both()))).is_stale);
    }
}
