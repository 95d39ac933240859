//! The units of one item in memory, ready for the rules to choose among them. The cost of a claim depends on the
//! number of claimed units and not on the size of the unit index. Whether a claim is allowed is decided elsewhere.
//!
//! Units are in the order in which they are claimed: by position, then by id. [`seats`] has a second order by rows,
//! built when it is first needed. [`plan`] finds the best available units.

mod bits;
mod free_units;
mod names;
mod plan;
mod seats;

use crate::event::{HoldChange, LineChange};
use crate::hold::{Hold, Line};
use crate::label::Label;
use crate::unit::{LineUnit, Place, PooledUnit, Unit, UnitStatus};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bits::Bits;
use core::cell::OnceCell;
use free_units::FreeUnits;
use names::Names;
pub use plan::ClaimSource;
use seats::Seats;

/// The units of one item.
#[derive(Clone, Debug, Default)]
pub struct UnitIndex {
    /// In claim order. Retired units stay until they are more than half, or until a unit is added between others.
    units: Vec<Unit>,
    retired: Bits,
    gone: usize,
    names: Names,
    free: FreeUnits,
    sold_bits: Bits,
    held: u64,
    sold: u64,
    /// The sum of all versions.
    moves: u64,
    seats: OnceCell<Seats>,
    layout: OnceCell<Arc<[(Label, Place)]>>,
}

impl PartialEq for UnitIndex {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for UnitIndex {}

/// The status of every unit of an item, in two bits each: the data of a seat map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatStates {
    /// Number of units.
    pub count: usize,
    /// The sum of the units' versions. It changes with every transition of a unit.
    pub moves: u64,
    /// One bit for each unit that is available to everyone, in claim order, 64 in a word, the lowest bit first.
    pub available: Vec<u64>,
    /// One bit for each unit that is available in a pool only, in the same order.
    pub set_aside: Vec<u64>,
    /// One bit for each unit that is sold, in the same order.
    pub sold: Vec<u64>,
}

impl UnitIndex {
    /// Units that exist.
    pub fn len(&self) -> usize {
        self.units.len() - self.gone
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Units that are held.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Units that are sold.
    pub fn sold(&self) -> u64 {
        self.sold
    }

    /// The highest position of a unit. 0 when there is no unit.
    pub fn last_position(&self) -> u64 {
        let there = self.units.iter().enumerate().rev().find(|(at, _)| !self.retired.has(*at));
        there.map_or(0, |(_, unit)| unit.place.position)
    }

    /// A unit.
    pub fn get(&self, id: &Label) -> Option<&Unit> {
        self.units.get(self.find(id)?)
    }

    fn find(&self, id: &Label) -> Option<usize> {
        let number = self.names.get(id, |number| has_id(&self.units, number, id))?;
        usize::try_from(number).ok().filter(|place| !self.retired.has(*place))
    }

    /// All units, in claim order.
    pub fn iter(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter().enumerate().filter(|(at, _)| !self.retired.has(*at)).map(|(_, unit)| unit)
    }

    /// The units after (position, id), in claim order.
    pub fn after(&self, after: Option<(u64, &Label)>) -> impl Iterator<Item = &Unit> {
        let from = after.map_or(0, |after| self.units.partition_point(|unit| order(unit) <= after));
        let rest = self.units.iter().enumerate().skip(from);
        rest.filter(|(at, _)| !self.retired.has(*at)).map(|(_, unit)| unit)
    }

    /// Whether a unit is in a section of this name.
    pub fn has_section(&self, name: &Label) -> bool {
        let seats = self.seats();
        let there = |stretch| seats.places(stretch).any(|place| !self.retired.has(place));
        seats.section(name).is_some_and(there)
    }

    /// The first free units that are in this pool, or in none, at most `most`.
    pub fn first_free(&self, pool: Option<&Label>, most: usize) -> impl Iterator<Item = &Unit> {
        self.free.of(pool).into_iter().flat_map(places).filter_map(|at| self.units.get(at)).take(most)
    }

    /// The units of these sections, in claim order.
    pub fn of_sections(&self, sections: &[Label]) -> impl Iterator<Item = &Unit> {
        let names: BTreeSet<&Label> = sections.iter().collect();
        self.iter().filter(move |unit| unit.place.section.as_ref().is_some_and(|name| names.contains(name)))
    }

    /// The status of every unit.
    pub fn states(&self) -> SeatStates {
        let packed = |bits: &Bits| match self.gone {
            0 => bits.words().to_vec(),
            _ => bits.words_without(&self.retired, self.len()),
        };
        SeatStates {
            count: self.len(),
            moves: self.moves,
            available: self.free.of(None).map(packed).unwrap_or_default(),
            set_aside: packed(&self.free.set_aside()),
            sold: packed(&self.sold_bits),
        }
    }

    /// Adds units. None of them may exist.
    pub fn add(&mut self, mut more: Vec<Unit>) {
        more.sort_by(|one, other| order(one).cmp(&order(other)));
        for unit in &mut more {
            self.share(unit);
        }
        let behind = match (self.units.last(), more.first()) {
            // A retired unit may be added again at its old place.
            (Some(last), Some(first)) => order(last) <= order(first),
            _ => true,
        };
        if behind {
            self.rearranged();
            for unit in more {
                self.push(unit);
            }
        } else {
            self.rebuild(more);
        }
    }

    /// Builds everything again, with these units and without the retired ones.
    fn rebuild(&mut self, more: Vec<Unit>) {
        let retired = core::mem::take(&mut self.retired);
        let before = core::mem::take(&mut self.units).into_iter().enumerate();
        let mut all: Vec<Unit> =
            before.filter(|(at, _)| !retired.has(*at)).map(|(_, unit)| unit).chain(more).collect();
        // Merges two sorted runs.
        all.sort_by(|one, other| order(one).cmp(&order(other)));
        *self = Self { names: Names::with_room(all.len()), ..Self::default() };
        for unit in all {
            self.push(unit);
        }
    }

    /// Lets a unit share the texts of its section, row and attributes with its neighbour, which mostly are equal.
    fn share(&self, unit: &mut Unit) {
        let Some(last) = self.units.last() else { return };
        let (place, known) = (&mut unit.place, &last.place);
        if place.section == known.section {
            place.section.clone_from(&known.section);
        }
        if place.row == known.row {
            place.row.clone_from(&known.row);
        }
        if place.attributes == known.attributes {
            place.attributes.clone_from(&known.attributes);
        }
    }

    fn push(&mut self, mut unit: Unit) {
        self.share(&mut unit);
        let at = self.units.len();
        let Ok(number) = u32::try_from(at) else { return };
        if !self.names.has_room() {
            let mut wider = Names::with_room((at + 1) * 2);
            for (number, known) in (0..).zip(&self.units) {
                wider.put(&known.id, number, |number| has_id(&self.units, number, &known.id));
            }
            self.names = wider;
        }
        self.names.put(&unit.id, number, |number| has_id(&self.units, number, &unit.id));
        self.free.grow(at + 1);
        self.sold_bits.grow(at + 1);
        self.retired.grow(at + 1);
        self.moves += unit.version;
        let (status, version, pool) = (unit.status, unit.version, unit.pool.take());
        // It is added as available and then moved to its status.
        unit.status = UnitStatus::Available;
        self.units.push(unit);
        self.free.set(at, None, true);
        self.put(at, status, version, pool);
    }

    /// Removes a unit.
    pub fn retire(&mut self, id: &Label) {
        let Some(at) = self.find(id) else { return };
        let version = self.units.get(at).map_or(0, |unit| unit.version);
        self.put(at, UnitStatus::Available, version, None);
        self.moves -= version;
        self.free.set(at, None, false);
        // Its seat stays and is never free again. Two units at one position separate their neighbours, and one unit
        // does not, so the seats may have to be built again.
        if self.seats.get().is_some() && self.has_twin(at) {
            self.seats = OnceCell::new();
        } else if let Some(seats) = self.seats.get_mut() {
            seats.set(at, None, false);
        }
        self.retired.set(at, true);
        self.gone += 1;
        self.layout = OnceCell::new();
        if self.gone > self.units.len() / 2 {
            self.rebuild(Vec::new());
        }
    }

    /// Whether another unit of its row is at the same position.
    fn has_twin(&self, at: usize) -> bool {
        let Some(Unit { place, .. }) = self.units.get(at) else { return false };
        let from = self.units.partition_point(|other| other.place.position < place.position);
        let others = self.units.iter().enumerate().skip(from);
        others.take_while(|(_, other)| other.place.position == place.position).any(|(number, other)| {
            let same_row = other.place.section == place.section && other.place.row == place.row;
            same_row && number != at && !self.retired.has(number)
        })
    }

    /// Sets a unit's status, version and pool after a transition.
    pub fn set(&mut self, id: &Label, status: UnitStatus, version: u64, pool: Option<&Label>) {
        if let Some(at) = self.find(id) {
            self.put(at, status, version, pool.cloned());
        }
    }

    /// Moves free units into a pool, or out of one.
    pub fn set_pool(&mut self, units: &[PooledUnit], pool: Option<&Label>) {
        for PooledUnit { id, version } in units {
            self.set(id, UnitStatus::Available, *version, pool);
        }
    }

    fn put(&mut self, at: usize, status: UnitStatus, version: u64, pool: Option<Label>) {
        let Some(unit) = self.units.get_mut(at) else { return };
        self.moves = self.moves.wrapping_sub(unit.version).wrapping_add(version);
        let count = |status| (matches!(status, UnitStatus::Held(_)), status.is_sold());
        let ((held, sold), (holds, sells)) = (count(unit.status), count(status));
        self.held = self.held - u64::from(held) + u64::from(holds);
        self.sold = self.sold - u64::from(sold) + u64::from(sells);
        (unit.status, unit.version) = (status, version);
        let pool_before = core::mem::replace(&mut unit.pool, pool);
        let (pool, is_free) = (unit.pool.as_ref(), status == UnitStatus::Available);
        self.sold_bits.set(at, sells);
        for (pool, is_free) in [(pool_before.as_ref(), false), (pool, is_free)] {
            self.free.set(at, pool, is_free);
            if let Some(seats) = self.seats.get_mut() {
                seats.set(at, pool, is_free);
            }
        }
    }

    /// Applies a transition of a reservation to the units of one of its lines. `number` is the line's number.
    pub fn apply(&mut self, change: &HoldChange, hold: &Hold, line: &Line, number: usize) {
        for UnitMove { unit, after, .. } in moved(change, hold, line, number) {
            self.set(&unit.id, after, unit.version, unit.pool.as_ref());
        }
    }

    /// Drops what was derived from the units' order.
    fn rearranged(&mut self) {
        self.seats = OnceCell::new();
        self.layout = OnceCell::new();
    }

    /// Ids and places, in claim order. Built when first needed, and shared until units are added or removed.
    pub fn layout(&self) -> Arc<[(Label, Place)]> {
        let make = || self.iter().map(|unit| (unit.id.clone(), unit.place.clone())).collect();
        Arc::clone(self.layout.get_or_init(make))
    }

    fn seats(&self) -> &Seats {
        self.seats.get_or_init(|| Seats::new(&self.units, &self.retired))
    }
}

/// A unit that a transition of a reservation moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitMove<'a> {
    /// The unit with its version after the transition.
    pub unit: &'a LineUnit,
    /// The status that it must have before.
    pub before: UnitStatus,
    /// Its status after it.
    pub after: UnitStatus,
}

/// The units of a line that a transition moves.
pub fn moved<'a>(
    change: &'a HoldChange,
    hold: &Hold,
    line: &'a Line,
    number: usize,
) -> impl Iterator<Item = UnitMove<'a>> {
    use UnitStatus::{Available, Fulfilled, Held, Sold};
    let id = hold.id;
    let units = line.units();
    let moves = move |unit: &'a LineUnit, before, after| UnitMove { unit, before, after };
    let whole = |before, after| (&[] as &[LineUnit], Some((0, before, after)), &[] as &[u32]);
    // The units that leave the line, the units from a place on that change their status, and places of single units.
    let (released, changed, places) = match change {
        HoldChange::Created | HoldChange::CreatedBySplit => whole(Available, Held(id)),
        HoldChange::Confirmed => whole(Held(id), Sold(id)),
        HoldChange::Cancelled | HoldChange::MergedAway | HoldChange::Expired => whole(Held(id), Available),
        HoldChange::Amended { lines }
        | HoldChange::Split { lines, .. }
        | HoldChange::Merged { lines, .. } => lines.get(number).map_or(
            (&[] as &[_], None, &[] as &[_]),
            |LineChange { kept, released, .. }| {
                let kept = usize::try_from(*kept).unwrap_or(usize::MAX);
                (released, Some((kept, Available, Held(id))), &[])
            },
        ),
        HoldChange::Fulfilled { lines } | HoldChange::Returned { lines, .. } => {
            (&[] as &[_], None, lines.get(number).map(|moved| &*moved.places).unwrap_or_default())
        }
        HoldChange::Transferred { .. }
        | HoldChange::Extended
        | HoldChange::PaymentOpened { .. }
        | HoldChange::PaymentClosed { .. }
        | HoldChange::PaymentAdvanced { .. }
        | HoldChange::Replaced => (&[] as &[_], None, &[] as &[_]),
    };
    let returns = matches!(change, HoldChange::Returned { .. });
    let named = places.iter().filter_map(move |place| {
        let unit = units.get(usize::try_from(*place).ok()?)?;
        Some(match (returns, unit.fulfilled) {
            (false, _) => moves(unit, Sold(id), Fulfilled(id)),
            (true, false) => moves(unit, Sold(id), Available),
            (true, true) => moves(unit, Fulfilled(id), Available),
        })
    });
    let released = released.iter().map(move |unit| moves(unit, Held(id), Available));
    let (from, before, after) = changed.unwrap_or((usize::MAX, Available, Available));
    let rest = units.iter().skip(from).map(move |unit| moves(unit, before, after));
    released.chain(rest).chain(named)
}

/// The places whose bit is set, in order.
fn places(bits: &Bits) -> impl Iterator<Item = usize> {
    let mut from = 0;
    core::iter::from_fn(move || {
        let at = bits.next(from)?;
        from = at + 1;
        Some(at)
    })
}

/// Whether the unit with this number has this id. The unit may be retired.
fn has_id(units: &[Unit], number: u32, id: &Label) -> bool {
    usize::try_from(number).ok().and_then(|place| units.get(place)).is_some_and(|unit| unit.id == *id)
}

/// The sort key of units.
fn order(unit: &Unit) -> (u64, &Label) {
    (unit.place.position, &unit.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn unit(number: u64) -> Unit {
        let place = Place { position: number, ..Place::default() };
        let id = Label::new(&format!("u{number}")).unwrap();
        Unit { id, place, status: UnitStatus::Available, version: 1, pool: None }
    }

    fn unit_index(count: u64) -> UnitIndex {
        let mut unit_index = UnitIndex::default();
        unit_index.add((0..count).map(unit).collect());
        unit_index
    }

    #[test]
    fn retired_units_are_forgotten_once_they_are_most_of_the_pool() {
        let mut unit_index = unit_index(6);
        for (number, gone) in [(0, 1), (1, 2), (2, 3), (3, 0), (4, 1), (5, 0)] {
            unit_index.retire(&unit(number).id);
            assert_eq!(unit_index.gone, gone, "after {number}");
        }
        assert!(unit_index.is_empty() && unit_index.units.is_empty());
        unit_index.retire(&unit(5).id);
        assert_eq!((unit_index.gone, unit_index.len()), (0, 0));
    }

    #[test]
    fn units_that_come_behind_all_leave_the_others_where_they_are() {
        let mut unit_index = unit_index(6);
        unit_index.retire(&unit(2).id);
        unit_index.add([unit(6)].into());
        assert_eq!((unit_index.gone, unit_index.units.len()), (1, 7));
        // The last unit is removed and added again, and is the last each time.
        for _ in 0..2 {
            unit_index.retire(&unit(6).id);
            unit_index.add([unit(6)].into());
        }
        assert_eq!((unit_index.gone, unit_index.units.len()), (3, 9));
        for (number, gone, units) in [(0, 4, 9), (1, 0, 4)] {
            unit_index.retire(&unit(number).id);
            assert_eq!((unit_index.gone, unit_index.units.len()), (gone, units), "after {number}");
        }
        unit_index.retire(&unit(3).id);
        unit_index.add([unit(1)].into());
        assert_eq!((unit_index.gone, unit_index.units.len()), (0, 4), "one comes between others");
    }

    #[test]
    fn a_unit_that_comes_again_stands_in_the_table_once() {
        let mut unit_index = unit_index(1_000);
        for _ in 0..400 {
            unit_index.retire(&unit(999).id);
            assert_eq!(unit_index.get(&unit(999).id), None);
            unit_index.add([unit(999)].into());
            assert_eq!(unit_index.get(&unit(999).id), Some(&unit(999)));
        }
        assert_eq!((unit_index.gone, unit_index.units.len(), unit_index.names.len()), (400, 1_400, 1_000));
    }
}
