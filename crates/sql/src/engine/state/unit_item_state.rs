//! The units of one item that a batch has loaded: those that it has locked, and, where they are planned over, all of them as
//! they were a moment ago. What comes of the latter has to be locked before anything is committed.

use crate::engine::dialect::{CounterChange, CounterChangeRow, UnitLockSet, UnitRow, UnitRows};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stockhold_domain::{Instant, ItemKey, Label, Pool, Unit, UnitStatus};

/// A place in the order of claims.
type Place = (u64, Label);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct UnitItemState {
    /// Those that are locked; one that was named and does not exist is there without a unit.
    units: BTreeMap<Label, LockedUnit>,
    /// The locked ones that are free.
    free: BTreeSet<Place>,
    /// The last of the free ones that were asked for, where there may be more behind it.
    horizon: Option<Place>,
    /// How many free ones were asked for.
    pub(crate) free_requested: usize,
    /// All of them, if they were asked for, as they are after the commands decided so far,
    pub(crate) pool: Option<Pool>,
    /// and as they were read.
    pub(crate) map: Option<Arc<[Unit]>>,
    /// Whether a unit that is locked has moved since then, has gone or has come: what was planned may be taken, or not the best.
    pub(crate) is_stale: bool,
    /// Whether the highest position was asked for,
    pub(crate) asked_last: bool,
    /// and what it is, as far as is known.
    last: Option<u64>,
    /// By how much the item's figures moved, if they did.
    moves: Option<CounterChange>,
    /// Units that were moved and are not locked.
    pub(crate) to_lock: BTreeSet<Label>,
}

/// One unit that is locked.
#[derive(Debug, Default)]
struct LockedUnit {
    before: Option<Unit>,
    now: Option<Unit>,
    /// Whether it is another one of the same name than before.
    is_another: bool,
}

/// Why free units can't be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortfall {
    /// There may be more than were asked for.
    Horizon,
    /// Others have some locked that are free as far as one can see.
    LockedByOthers,
}

impl UnitItemState {
    /// What was read, out of what was asked for. `map` is a seat map that was read before.
    pub(crate) fn new(lock_set: &UnitLockSet, rows: UnitRows, map: Option<&Arc<[Unit]>>) -> Self {
        let mut unit_item = Self { free_requested: lock_set.free, ..Self::default() };
        if lock_set.free > 0 && rows.free.len() >= lock_set.free {
            unit_item.horizon = rows.free.last().map(place);
        }
        unit_item.map = map.cloned().or_else(|| lock_set.map.then(|| rows.map.into()));
        unit_item.pool = unit_item.map.as_deref().map(|seats| {
            let mut pool = Pool::default();
            pool.add(seats.to_vec());
            pool
        });
        unit_item.asked_last = lock_set.last;
        unit_item.last = lock_set.last.then_some(rows.last_position);
        unit_item.units.extend(lock_set.named.iter().map(|id| (id.clone(), LockedUnit::default())));
        for unit in rows.named.into_iter().chain(rows.free) {
            if let Some(pool) = &mut unit_item.pool {
                unit_item.is_stale |= pool.get(&unit.id).is_none_or(|seat| seat.version != unit.version);
                pool.set(&unit.id, unit.status, unit.version);
            }
            if unit.status == UnitStatus::Available {
                unit_item.free.insert(place(&unit));
            }
            let locked =
                LockedUnit { before: Some(unit.clone()), now: Some(unit.clone()), is_another: false };
            unit_item.units.insert(unit.id, locked);
        }
        if let Some(pool) = &unit_item.pool {
            let mut gone = unit_item.units.iter().filter(|(_, locked)| locked.before.is_none());
            unit_item.is_stale |= gone.any(|(id, _)| pool.get(id).is_some());
        }
        unit_item
    }

    /// A unit that is locked; an error when it is not.
    pub(crate) fn unit(&self, id: &Label) -> Result<Option<&Unit>, ()> {
        self.units.get(id).map(|locked| locked.now.as_ref()).ok_or(())
    }

    /// The first free ones. `there` is how many there are as far as one can see.
    pub(crate) fn first_free(&self, most: usize, there: u64) -> Result<Vec<&Unit>, Shortfall> {
        let in_view = |place: &&Place| self.horizon.as_ref().is_none_or(|horizon| *place <= horizon);
        let units = self.free.iter().take_while(in_view).filter_map(|(_, id)| self.unit(id).ok().flatten());
        let found: Vec<&Unit> = units.take(most).collect();
        if found.len() >= most {
            return Ok(found);
        }
        if self.horizon.is_some() {
            return Err(Shortfall::Horizon);
        }
        if u64::try_from(found.len()).unwrap_or(u64::MAX) < there {
            return Err(Shortfall::LockedByOthers);
        }
        Ok(found)
    }

    /// The highest position; an error when it is not known.
    pub(crate) fn last_position(&self) -> Result<u64, ()> {
        self.last.or_else(|| self.pool.as_ref().map(Pool::last_position)).ok_or(())
    }

    /// Units that came to the item.
    pub(crate) fn add(&mut self, units: &[Unit], at: Instant) {
        for unit in units {
            self.last = self.last.map(|last| last.max(unit.place.position));
            self.free.insert(place(unit));
            let locked = self.units.entry(unit.id.clone()).or_default();
            locked.is_another = locked.before.is_some();
            locked.now = Some(unit.clone());
        }
        self.moves(at).total_units += i64::try_from(units.len()).unwrap_or(i64::MAX);
        if let Some(pool) = &mut self.pool {
            pool.add(units.to_vec());
        }
    }

    /// A unit that went.
    pub(crate) fn retire(&mut self, id: &Label, at: Instant) {
        self.moves(at).total_units -= 1;
        if let Some(pool) = &mut self.pool {
            pool.retire(id);
        }
        if let Some(locked) = self.units.get_mut(id)
            && let Some(unit) = locked.now.take()
        {
            self.free.remove(&place(&unit));
            // Which one is the last now, only the database knows.
            self.last = self.last.filter(|last| *last > unit.place.position);
        }
    }

    /// Moves of the item's figures at an instant.
    fn moves(&mut self, at: Instant) -> &mut CounterChange {
        let moves = self.moves.get_or_insert(CounterChange {
            total_units: 0,
            held: 0,
            confirmed_sold: 0,
            active: 0,
            at,
        });
        moves.at = moves.at.max(at);
        moves
    }

    /// The item was deleted, and its figures with it.
    pub(crate) fn forget_figures(&mut self) {
        self.moves = None;
    }

    /// Something of the item happened at an instant, and so many reservations became active.
    pub(crate) fn touch(&mut self, active: i64, at: Instant) {
        self.moves(at).active += active;
    }

    /// A unit that moved. Whether it may be there, as far as is known.
    pub(crate) fn set(&mut self, id: &Label, status: UnitStatus, version: u64, at: Instant) -> bool {
        if let Some(pool) = &mut self.pool {
            pool.set(id, status, version);
        }
        let Some(LockedUnit { now, .. }) = self.units.get_mut(id) else {
            self.to_lock.insert(id.clone());
            return true;
        };
        let Some(unit) = now else { return false };
        let before = unit.status;
        (unit.status, unit.version) = (status, version);
        let place = place(unit);
        if status == UnitStatus::Available {
            self.free.insert(place)
        } else {
            self.free.remove(&place)
        };
        let moves = self.moves(at);
        for (status, by) in [(before, -1), (status, 1)] {
            match status {
                UnitStatus::Available => {}
                UnitStatus::Held(_) => moves.held += by,
                UnitStatus::Sold(_) => moves.confirmed_sold += by,
            }
        }
        true
    }

    /// What is added to the item's figures.
    pub(crate) fn figures<'a>(&self, item: &'a ItemKey) -> Option<CounterChangeRow<'a>> {
        self.moves.map(|by| CounterChangeRow { item, by })
    }

    /// What is to be written: new rows, changed rows, rows that go.
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
        Unit { id: label(id), place, status: UnitStatus::Available, version }
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
        let lock_set = UnitLockSet { named: [label("A1")].into(), free: 2, ..UnitLockSet::default() };
        let both = || vec![seat("A1", 3), seat("A2", 1)];
        let rows = UnitRows { named: vec![seat("A1", 3)], free: both(), ..UnitRows::default() };
        assert!(!UnitItemState::new(&lock_set, rows, Some(&Arc::from(both()))).is_stale);
    }
}
