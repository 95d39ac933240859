//! Best available: finds units for a reserve. It is a pure function. `decide` then checks the units that it found.
//!
//! - `adjacent` and `min_together` look for one run first, section by section. In a section, the place that leaves the fewest
//!   single seats wins, and of those the first in claim order.
//! - With `min_together` and no such run: as few runs as possible, the longest first (ties go to the first in claim order). Each is
//!   taken from its beginning, and none is shorter than requested. The last run is placed as a single run would be. All runs are
//!   in one section where that is possible, and otherwise over all sections.
//! - Without either: the first units in claim order, section by section.
//!
//! When there are too few, it finds as many as possible in the same way.
//!
//! With a pool, its own units are searched first. If they do not suffice, units that need not be together are completed from general
//! stock, and runs are searched over both.

use super::bits::Bits;
use super::seats::{Seats, Stretch};
use super::{UnitIndex, places};
use crate::label::Label;
use crate::unit::{LineUnit, Unit};
use crate::unit_selection::BestAvailable;
use alloc::borrow::Cow;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

/// A part of a run can begin at its first seat or a few seats later. If any beginning leaves no single seat, one of
/// these does.
const STARTS: usize = 3;

/// Adjacent free seats that fit the request, and the longer run of free seats around them.
struct Run {
    seats: Range<usize>,
    free: Range<usize>,
}

impl Run {
    fn len(&self) -> usize {
        self.seats.len()
    }
}

/// A place for a run. The order is by preference, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    orphans: u8,
    /// Index in claim order.
    place: usize,
    seat: usize,
}

/// The free units that a claim may take.
#[derive(Clone, Copy, Debug)]
pub struct ClaimSource<'a> {
    /// The pool whose units it takes first.
    pub pool: Option<&'a Label>,
    /// Most units of general stock that the line may have afterwards, those that it has now included. `None` if it gets no more of
    /// them.
    pub general: Option<usize>,
}

impl UnitIndex {
    /// The best units for a request of `wanted` units, of which at most `most` may be granted. The units `own` count as free.
    pub fn best(
        &self,
        best: &BestAvailable,
        wanted: usize,
        most: usize,
        own: &[LineUnit],
        source: ClaimSource<'_>,
    ) -> Vec<&Unit> {
        let most = most.min(wanted);
        let units = |places: Vec<usize>| places.into_iter().filter_map(|at| self.units.get(at)).collect();
        if source.pool.is_none() {
            return units(self.plan(best, wanted, own, None, true).find(most));
        }
        let mut found = self.plan(best, wanted, own, source.pool, false).find(most);
        let lacks = most - found.len();
        let Some(general) = source.general.filter(|_| lacks > 0) else { return units(found) };
        if !best.adjacent && best.min_together.is_none() {
            let more = lacks.min(general.saturating_sub(self.count_general(&found)));
            found.extend(self.plan(best, wanted, &[], None, true).find(more));
            return units(found);
        }
        let both = self.plan(best, wanted, own, source.pool, true).find(most);
        let fits = self.count_general(&both) <= general;
        units(if fits && both.len() > found.len() { both } else { found })
    }

    fn count_general(&self, places: &[usize]) -> usize {
        places.iter().filter(|place| self.units.get(**place).is_some_and(|unit| unit.pool.is_none())).count()
    }

    /// A search among the free units of a pool and of general stock, as far as each is asked for, and among `own`.
    fn plan<'a>(
        &'a self,
        best: &'a BestAvailable,
        wanted: usize,
        own: &[LineUnit],
        pool: Option<&Label>,
        general: bool,
    ) -> Plan<'a> {
        let least = |k: u32| usize::try_from(k).unwrap_or(usize::MAX).clamp(1, wanted.max(1));
        let (mut free, mut free_seats) =
            (self.free.chosen(pool, general), self.seats().free().chosen(pool, general));
        for place in own.iter().filter_map(|unit| self.find(&unit.id)) {
            free.to_mut().set(place, true);
            if let Some(seat) = self.seats().seat(place) {
                free_seats.to_mut().set(seat, true);
            }
        }
        Plan {
            unit_index: self,
            seats: self.seats(),
            free,
            free_seats,
            best,
            least: best.min_together.map(least),
            stretches: self.stretches(best),
        }
    }

    fn stretches(&self, best: &BestAvailable) -> Vec<&Stretch> {
        if best.sections.is_empty() {
            return vec![self.seats().whole()];
        }
        let mut found: Vec<&Stretch> = Vec::new();
        for stretch in best.sections.iter().filter_map(|name| self.seats().section(name)) {
            if !found.contains(&stretch) {
                found.push(stretch);
            }
        }
        found
    }
}

struct Plan<'a> {
    unit_index: &'a UnitIndex,
    seats: &'a Seats,
    /// One bit for each unit that can be chosen, by its index in claim order.
    free: Cow<'a, Bits>,
    /// The same by seats.
    free_seats: Cow<'a, Bits>,
    best: &'a BestAvailable,
    /// Shortest allowed run, when several runs are allowed.
    least: Option<usize>,
    /// Where to look, in order of preference.
    stretches: Vec<&'a Stretch>,
}

impl Plan<'_> {
    /// Indexes in claim order.
    fn find(&self, count: usize) -> Vec<usize> {
        if count == 0 {
            return Vec::new();
        }
        if !self.best.adjacent && self.best.min_together.is_none() {
            return self.scattered(count);
        }
        let found = self.together(count).or_else(|| self.together(self.most(count)));
        found.unwrap_or_default().into_iter().flatten().map(|seat| self.seats.place(seat)).collect()
    }

    /// Free units that fit the request, in any section.
    fn scattered(&self, count: usize) -> Vec<usize> {
        let mut found = Vec::new();
        if self.best.sections.is_empty() {
            let takes =
                |place: &usize| self.unit_index.units.get(*place).is_some_and(|unit| self.takes(unit));
            found.extend(places(&self.free).filter(takes).take(count));
            return found;
        }
        for stretch in &self.stretches {
            let left = count - found.len();
            let here = self.runs(stretch).flat_map(|run| run.seats).map(|seat| self.seats.place(seat));
            if stretch.in_order {
                found.extend(here.take(left));
            } else {
                let mut here: Vec<usize> = here.collect();
                here.sort_unstable();
                found.extend(here.into_iter().take(left));
            }
        }
        found
    }

    fn takes(&self, unit: &Unit) -> bool {
        unit.place.attributes.include(&self.best.attributes)
    }

    /// Exactly this many units, in allowed runs.
    fn together(&self, count: usize) -> Option<Vec<Range<usize>>> {
        if count < self.least.unwrap_or(1) {
            return None;
        }
        let one = self.stretches.iter().find_map(|stretch| {
            let spot = spot(self.seats, self.runs(stretch), count, stretch.in_order)?;
            Some(core::iter::once(spot.seat..spot.seat + count).collect())
        });
        if one.is_some() {
            return one;
        }
        let least = self.least?;
        let of_one = self.stretches.iter().find_map(|stretch| self.split(&[stretch], count, least));
        of_one.or_else(|| self.split(&self.stretches, count, least))
    }

    /// As few runs as possible, each of at least the shortest allowed length.
    fn split(&self, stretches: &[&Stretch], count: usize, least: usize) -> Option<Vec<Range<usize>>> {
        let runs = self.longest_first(stretches, least);
        let (mut sum, mut pieces) = (0, 0);
        while sum < count {
            sum += runs.get(pieces)?.len();
            pieces += 1;
        }
        if pieces * least > count {
            return None;
        }
        let (whole, rest) = runs.split_at_checked(pieces - 1)?;
        let mut taken: Vec<Range<usize>> = whole.iter().map(|run| run.seats.clone()).collect();
        let end = (count - taken.iter().map(ExactSizeIterator::len).sum::<usize>()).max(least);
        // When the rest would be too short for a run, the run before it becomes shorter.
        let mut too_many = taken.iter().map(ExactSizeIterator::len).sum::<usize>() + end - count;
        for piece in taken.iter_mut().rev() {
            let gives = too_many.min(piece.len() - least);
            piece.end -= gives;
            too_many -= gives;
        }
        let rest = rest.iter().map(|run| Run { seats: run.seats.clone(), free: run.free.clone() });
        let spot = spot(self.seats, rest, end, false)?;
        taken.push(spot.seat..spot.seat + end);
        Some(taken)
    }

    fn longest_first(&self, stretches: &[&Stretch], least: usize) -> Vec<Run> {
        let runs = stretches.iter().flat_map(|stretch| self.runs(stretch));
        let mut runs: Vec<Run> = runs.filter(|run| run.len() >= least).collect();
        runs.sort_by_key(|run| (Reverse(run.len()), self.seats.place(run.seats.start)));
        runs
    }

    /// The most units that are possible when the wanted number is not.
    fn most(&self, count: usize) -> usize {
        let Some(least) = self.least else {
            let runs = self.stretches.iter().flat_map(|stretch| self.runs(stretch));
            return runs.map(|run| run.len()).max().unwrap_or(0).min(count);
        };
        let (mut sum, mut most) = (0, 0);
        for (run, pieces) in self.longest_first(&self.stretches, least).iter().zip(1..) {
            sum += run.len();
            if pieces * least <= count {
                most = most.max(sum.min(count));
            }
        }
        most
    }

    fn runs<'a>(&'a self, stretch: &'a Stretch) -> impl Iterator<Item = Run> + 'a {
        let mut from = stretch.seats.start;
        let mut free = from..from;
        core::iter::from_fn(move || {
            loop {
                if from >= free.end {
                    free = run_from(&self.free_seats, from, stretch.seats.end)?;
                    from = free.start;
                }
                if self.best.attributes.all().is_empty() {
                    from = free.end;
                    return Some(Run { seats: free.clone(), free: free.clone() });
                }
                let takes = |seat: &usize| {
                    self.unit_index.units.get(self.seats.place(*seat)).is_some_and(|unit| self.takes(unit))
                };
                let Some(start) = (from..free.end).find(takes) else {
                    from = free.end;
                    continue;
                };
                let end = (start..free.end).find(|seat| !takes(seat)).unwrap_or(free.end);
                from = end;
                return Some(Run { seats: start..end, free: free.clone() });
            }
        })
    }
}

/// The first run of set bits between two seats.
fn run_from(free: &Bits, seat: usize, to: usize) -> Option<Range<usize>> {
    let from = free.next(seat).filter(|from| *from < to)?;
    Some(from..free.next_out(from).min(to))
}

/// The best place for one run of this length. Where runs are in claim order, the first perfect place is the best.
fn spot(seats: &Seats, runs: impl Iterator<Item = Run>, count: usize, in_order: bool) -> Option<Spot> {
    let mut best: Option<Spot> = None;
    for run in runs.filter(|run| run.len() >= count) {
        let last = run.seats.end - count;
        for seat in (run.seats.start..=last).take(STARTS) {
            let alone = |left: usize| u8::from(left == 1);
            let orphans = alone(seat - run.free.start) + alone(run.free.end - seat - count);
            let found = Spot { orphans, place: seats.place(seat), seat };
            if best.is_none_or(|best| found < best) {
                best = Some(found);
            }
        }
        if in_order && best.is_some_and(|best| best.orphans == 0) {
            break;
        }
    }
    best
}
