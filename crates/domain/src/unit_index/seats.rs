//! The units row by row: adjacent bits are adjacent seats. A gap that is never free separates rows, and positions of a
//! row that do not follow each other.

use super::bits::Bits;
use super::free_units::FreeUnits;
use crate::label::Label;
use crate::unit::{Unit, UnitStatus};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

const GAP: usize = usize::MAX;

/// The seats of one item.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seats {
    /// The seat of each unit, by its index in claim order.
    seat_of: Vec<usize>,
    /// The index in claim order of each seat's unit, or [`GAP`].
    place_of: Vec<usize>,
    free: FreeUnits,
    sections: Vec<(Option<Label>, Stretch)>,
    whole: Stretch,
}

/// The seats of a section, or of the whole item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) seats: Range<usize>,
    /// Whether the seats are in claim order.
    pub(crate) in_order: bool,
}

impl Seats {
    pub(crate) fn new(units: &[Unit], retired: &Bits) -> Self {
        let mut sections: BTreeMap<Option<&Label>, usize> = BTreeMap::new();
        let mut rows: BTreeMap<(usize, Option<&Label>), usize> = BTreeMap::new();
        let mut all = Vec::with_capacity(units.len());
        for (place, unit) in units.iter().enumerate().filter(|(place, _)| !retired.has(*place)) {
            let (count, named) = (sections.len(), unit.place.section.as_ref());
            let section = *sections.entry(named).or_insert(count);
            let (count, named) = (rows.len(), unit.place.row.as_ref());
            let row = *rows.entry((section, named)).or_insert(count);
            all.push((section, row, place, unit));
        }
        all.sort_unstable_by_key(|(section, row, place, _)| (*section, *row, *place));

        let mut seats = Self { seat_of: vec![GAP; units.len()], ..Self::default() };
        let mut before: Option<(usize, usize, u64)> = None;
        for (section, row, place, unit) in all {
            let position = unit.place.position;
            let follows = |(s, r, p): (usize, usize, u64)| {
                (s, r) == (section, row) && p.checked_add(1) == Some(position)
            };
            if before.is_some_and(|before| !follows(before)) {
                seats.place_of.push(GAP);
            }
            if before.is_none_or(|(known, ..)| known != section) {
                let here = seats.place_of.len();
                let stretch = Stretch { seats: here..here, in_order: true };
                seats.sections.push((unit.place.section.clone(), stretch));
            }
            before = Some((section, row, position));
            if let Some(seat) = seats.seat_of.get_mut(place) {
                *seat = seats.place_of.len();
            }
            seats.place_of.push(place);
            let end = seats.place_of.len();
            if let Some((_, stretch)) = seats.sections.last_mut() {
                stretch.seats.end = end;
            }
        }
        seats.free.grow(seats.place_of.len());
        for (place, unit) in units.iter().enumerate() {
            seats.set(place, unit.pool.as_ref(), unit.status == UnitStatus::Available);
        }
        let order = |seats: &[usize]| seats.iter().filter(|place| **place != GAP).is_sorted();
        for (_, stretch) in &mut seats.sections {
            stretch.in_order = seats.place_of.get(stretch.seats.clone()).is_some_and(order);
        }
        seats.whole = Stretch { seats: 0..seats.place_of.len(), in_order: order(&seats.place_of) };
        seats
    }

    /// Sets whether the unit with this index is free in a pool, or in general stock.
    pub(crate) fn set(&mut self, place: usize, pool: Option<&Label>, is_free: bool) {
        if let Some(seat) = self.seat(place) {
            self.free.set(seat, pool, is_free);
        }
    }

    /// All seats.
    pub(crate) fn whole(&self) -> &Stretch {
        &self.whole
    }

    /// The seats of a section.
    pub(crate) fn section(&self, name: &Label) -> Option<&Stretch> {
        self.sections.iter().find(|(known, _)| known.as_ref() == Some(name)).map(|(_, stretch)| stretch)
    }

    /// The indexes in claim order of the units of a stretch.
    pub(crate) fn places(&self, stretch: &Stretch) -> impl Iterator<Item = usize> {
        stretch.seats.clone().map(|seat| self.place(seat)).filter(|place| *place != GAP)
    }

    /// The index in claim order of a seat's unit.
    pub(crate) fn place(&self, seat: usize) -> usize {
        self.place_of.get(seat).copied().unwrap_or(GAP)
    }

    /// The seats that are free.
    pub(crate) fn free(&self) -> &FreeUnits {
        &self.free
    }

    /// The seat of the unit with this index in claim order.
    pub(crate) fn seat(&self, place: usize) -> Option<usize> {
        self.seat_of.get(place).copied().filter(|seat| *seat != GAP)
    }
}
