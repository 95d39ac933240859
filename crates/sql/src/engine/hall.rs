//! The units of one item that a batch has loaded: those that it has locked, and, where they are planned over, all of them as
//! they were a moment ago. What comes of the latter has to be locked before anything is committed.

use super::dialect::{FiguresRow, Moves, UnitRow, UnitRows, UnitWants};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stockhold_domain::{Instant, ItemKey, Label, Pool, Unit, UnitStatus};

/// A place in the order of claims.
type Place = (u64, Label);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Hall {
    /// Those that are locked; one that was named and does not exist is there without a unit.
    units: BTreeMap<Label, Locked>,
    /// The locked ones that are free.
    free: BTreeSet<Place>,
    /// The last of the free ones that were asked for, where there may be more behind it.
    horizon: Option<Place>,
    /// How many free ones were asked for.
    pub(super) asked: usize,
    /// All of them, if they were asked for, as they are after the commands decided so far,
    pub(super) pool: Option<Pool>,
    /// and as they were read.
    pub(super) map: Option<Arc<[Unit]>>,
    /// Whether a unit that is locked has moved since then, has gone or has come: what was planned may be taken, or not the best.
    pub(super) is_stale: bool,
    /// Whether the highest position was asked for,
    pub(super) asked_last: bool,
    /// and what it is, as far as is known.
    last: Option<u64>,
    /// By how much the item's figures moved, if they did.
    moves: Option<Moves>,
    /// Units that were moved and are not locked.
    pub(super) unlocked: BTreeSet<Label>,
}

/// One unit that is locked.
#[derive(Debug, Default)]
struct Locked {
    before: Option<Unit>,
    now: Option<Unit>,
    /// Whether it is another one of the same name than before.
    is_another: bool,
}

/// Why free units can't be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short {
    /// There may be more than were asked for.
    Horizon,
    /// Others have some locked that are free as far as one can see.
    Elsewhere,
}

impl Hall {
    /// What was read, out of what was asked for. `map` is a seat map that was read before.
    pub(super) fn new(wants: &UnitWants, rows: UnitRows, map: Option<&Arc<[Unit]>>) -> Self {
        let mut hall = Self { asked: wants.free, ..Self::default() };
        if wants.free > 0 && rows.free.len() >= wants.free {
            hall.horizon = rows.free.last().map(place);
        }
        hall.map = map.cloned().or_else(|| wants.map.then(|| rows.map.into()));
        hall.pool = hall.map.as_deref().map(|seats| {
            let mut pool = Pool::default();
            pool.add(seats.to_vec());
            pool
        });
        hall.asked_last = wants.last;
        hall.last = wants.last.then_some(rows.last_position);
        hall.units.extend(wants.named.iter().map(|id| (id.clone(), Locked::default())));
        for unit in rows.named.into_iter().chain(rows.free) {
            if let Some(pool) = &mut hall.pool {
                hall.is_stale |= pool.get(&unit.id).is_none_or(|seat| seat.version != unit.version);
                pool.set(&unit.id, unit.status, unit.version);
            }
            if unit.status == UnitStatus::Available {
                hall.free.insert(place(&unit));
            }
            let locked = Locked { before: Some(unit.clone()), now: Some(unit.clone()), is_another: false };
            hall.units.insert(unit.id, locked);
        }
        if let Some(pool) = &hall.pool {
            let mut gone = hall.units.iter().filter(|(_, locked)| locked.before.is_none());
            hall.is_stale |= gone.any(|(id, _)| pool.get(id).is_some());
        }
        hall
    }

    /// A unit that is locked; an error when it is not.
    pub(super) fn unit(&self, id: &Label) -> Result<Option<&Unit>, ()> {
        self.units.get(id).map(|locked| locked.now.as_ref()).ok_or(())
    }

    /// The first free ones. `there` is how many there are as far as one can see.
    pub(super) fn first_free(&self, most: usize, there: u64) -> Result<Vec<&Unit>, Short> {
        let in_view = |place: &&Place| self.horizon.as_ref().is_none_or(|horizon| *place <= horizon);
        let units = self.free.iter().take_while(in_view).filter_map(|(_, id)| self.unit(id).ok().flatten());
        let found: Vec<&Unit> = units.take(most).collect();
        if found.len() >= most {
            return Ok(found);
        }
        if self.horizon.is_some() {
            return Err(Short::Horizon);
        }
        if u64::try_from(found.len()).unwrap_or(u64::MAX) < there {
            return Err(Short::Elsewhere);
        }
        Ok(found)
    }

    /// The highest position; an error when it is not known.
    pub(super) fn last_position(&self) -> Result<u64, ()> {
        self.last.or_else(|| self.pool.as_ref().map(Pool::last_position)).ok_or(())
    }

    /// Units that came to the item.
    pub(super) fn add(&mut self, units: &[Unit], at: Instant) {
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
    pub(super) fn retire(&mut self, id: &Label, at: Instant) {
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
    fn moves(&mut self, at: Instant) -> &mut Moves {
        let moves =
            self.moves.get_or_insert(Moves { total_units: 0, held: 0, confirmed_sold: 0, active: 0, at });
        moves.at = moves.at.max(at);
        moves
    }

    /// Something of the item happened at an instant, and so many reservations became active.
    pub(super) fn touch(&mut self, active: i64, at: Instant) {
        self.moves(at).active += active;
    }

    /// A unit that moved. Whether it may be there, as far as is known.
    pub(super) fn set(&mut self, id: &Label, status: UnitStatus, version: u64, at: Instant) -> bool {
        if let Some(pool) = &mut self.pool {
            pool.set(id, status, version);
        }
        let Some(Locked { now, .. }) = self.units.get_mut(id) else {
            self.unlocked.insert(id.clone());
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
    pub(super) fn figures<'a>(&self, item: &'a ItemKey) -> Option<FiguresRow<'a>> {
        self.moves.map(|by| FiguresRow { item, by })
    }

    /// What is to be written: new rows, changed rows, rows that go.
    pub(super) fn changes<'a>(
        &'a self,
        item: &'a ItemKey,
        new: &mut Vec<UnitRow<'a>>,
        changed: &mut Vec<UnitRow<'a>>,
        gone: &mut Vec<(&'a ItemKey, &'a Label)>,
    ) {
        for (id, Locked { before, now, is_another }) in &self.units {
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
        let wants = UnitWants { named: named.iter().map(|id| label(id)).collect(), ..UnitWants::default() };
        let rows = UnitRows { named: found.to_vec(), ..UnitRows::default() };
        Hall::new(&wants, rows, Some(&map)).is_stale
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
        let wants = UnitWants { named: [label("A1")].into(), free: 2, ..UnitWants::default() };
        let both = || vec![seat("A1", 3), seat("A2", 1)];
        let rows = UnitRows { named: vec![seat("A1", 3)], free: both(), ..UnitRows::default() };
        assert!(!Hall::new(&wants, rows, Some(&Arc::from(both()))).is_stale);
    }
}
