//! Best available. Pure and without a rule of the shop: it finds units, and `decide` judges what it found.
//!
//! - `adjacent` and `min_together` look for one run first, in the sections in their order: of all places of a section the
//!   one that leaves the fewest single seats, of those the one that is claimed first.
//! - With `min_together` and no such run: as few runs as can be, the longest first (ties to the one that is claimed first),
//!   each taken from its beginning, none shorter than asked. The last piece is placed as a single run would be. Within one
//!   section where that can be, else over all of them.
//! - Without either: the first units in the order of claims, section by section.
//!
//! When there is not enough, it finds as many as can be had in the same way.

use super::Pool;
use super::seats::{Seats, Stretch};
use crate::unit::Unit;
use crate::unit_selection::BestAvailable;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

/// A piece of a run can begin at its first seat or a little further on: one of these leaves no single seat, if any does.
const STARTS: usize = 3;

/// Free seats side by side that the buyer would take, and the free stretch that they are a part of.
struct Run {
    seats: Range<usize>,
    free: Range<usize>,
}

impl Run {
    fn len(&self) -> usize {
        self.seats.len()
    }
}

/// Where a run of so many can be put: compared by what makes it good, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    orphans: u8,
    /// Place in the order of claims.
    place: usize,
    seat: usize,
}

impl Pool {
    /// The best units for a buyer who wants so many and may have `most` of them at most: as many as can be had.
    pub fn best(&self, best: &BestAvailable, wanted: usize, most: usize) -> Vec<&Unit> {
        let least = |k: u32| usize::try_from(k).unwrap_or(usize::MAX).clamp(1, wanted.max(1));
        let plan = Plan {
            pool: self,
            seats: self.seats(),
            best,
            least: best.min_together.map(least),
            stretches: self.stretches(best),
        };
        let found = plan.find(most.min(wanted));
        found.into_iter().filter_map(|place| self.units.get(place)).collect()
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
    pool: &'a Pool,
    seats: &'a Seats,
    best: &'a BestAvailable,
    /// Shortest run that will do, where several will.
    least: Option<usize>,
    /// Where to look, in order of preference.
    stretches: Vec<&'a Stretch>,
}

impl Plan<'_> {
    /// Places in the order of claims.
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

    /// Free units that the buyer would take, wherever they are.
    fn scattered(&self, count: usize) -> Vec<usize> {
        let mut found = Vec::new();
        if self.best.sections.is_empty() {
            let takes = |place: &usize| self.pool.units.get(*place).is_some_and(|unit| self.takes(unit));
            found.extend(self.pool.free_places().filter(takes).take(count));
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

    /// Exactly so many, in runs that will do.
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

    /// As few runs of at least so many as can be.
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
        // Where less than a run would remain, those before it give up as much.
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

    /// The most that can be had where so many can't.
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
                    free = self.seats.free_from(from, stretch.seats.end)?;
                    from = free.start;
                }
                if self.best.attributes.all().is_empty() {
                    from = free.end;
                    return Some(Run { seats: free.clone(), free: free.clone() });
                }
                let takes = |seat: &usize| {
                    self.pool.units.get(self.seats.place(*seat)).is_some_and(|unit| self.takes(unit))
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

/// The best place for so many in one run. Where runs come in the order of their claims, the first that is as good as can be
/// is it.
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
