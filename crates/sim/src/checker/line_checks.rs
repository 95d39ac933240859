//! Checks the lines in the events of reservations: which units a change adds, gives back, fulfils or returns.

use super::hold_checks::HoldTransition;
use super::{Checked, broken};
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{Event, Hold, HoldChange, Label, Line, LineChange, LineDetails, LineUnit, MovedUnits};

/// Checks the lines of a new reservation.
pub(super) fn check_new(event: &Event, hold: &Hold) -> Checked {
    let fresh = |unit: &LineUnit| !unit.fulfilled && !unit.returned;
    let plain = |line: &Line| (line.fulfilled, line.returned) == (0, 0) && line.units().iter().all(fresh);
    if hold.lines.is_empty() || !hold.lines.iter().all(|line| plain(line) && is_granted(line)) {
        return broken("S10", format!("a line of a new reservation: {event:?}"));
    }
    check_different(hold, event)
}

/// Checks the lines after a change of a reservation.
pub(super) fn check(transition: &HoldTransition<'_>) -> Checked {
    let HoldTransition { change, before, after, .. } = transition;
    check_different(after, transition.event)?;
    match change {
        HoldChange::Amended { lines }
        | HoldChange::Split { lines, .. }
        | HoldChange::Merged { lines, .. } => {
            return check_changed(transition, lines);
        }
        HoldChange::Fulfilled { .. }
        | HoldChange::Returned { .. }
        | HoldChange::Created
        | HoldChange::CreatedBySplit
        | HoldChange::Transferred { .. }
        | HoldChange::MergedAway
        | HoldChange::Extended
        | HoldChange::PaymentOpened { .. }
        | HoldChange::PaymentClosed { .. }
        | HoldChange::PaymentAdvanced { .. }
        | HoldChange::Confirmed
        | HoldChange::Cancelled
        | HoldChange::Expired
        | HoldChange::Replaced => {}
    }
    if before.lines.len() != after.lines.len() {
        return transition.broken("S2", "its lines changed");
    }
    let is_moved = before.status != after.status;
    for (number, (old, new)) in before.lines.iter().zip(&*after.lines).enumerate() {
        let expected = match change {
            HoldChange::Fulfilled { lines } => fulfilled(old, lines.get(number)),
            HoldChange::Returned { lines, fulfilled, .. } => {
                returned(old, lines.get(number), fulfilled.get(number).copied())
            }
            _ if is_moved => Some(turned(old)),
            _ => Some(old.clone()),
        };
        // What limits count of a line is checked with the limits.
        let is_expected = expected
            .is_some_and(|line| uncounted(&Line { sequence: new.sequence, ..line }) == uncounted(new));
        if !is_expected {
            return transition.broken("S2", "a line is not what the change makes of it");
        }
    }
    let moves = |lines: &[MovedUnits]| {
        lines.len() == before.lines.len() && lines.iter().any(|moved| moved.quantity > 0)
    };
    match change {
        HoldChange::Fulfilled { lines } | HoldChange::Returned { lines, .. } if !moves(lines) => {
            transition.broken("S10", "it moved nothing")
        }
        _ => Ok(()),
    }
}

/// A line without what limits count of it, and without what was refunded for it, which is checked with the payment. Units that come back leave a pool that was released: the model says which, so pools of units
/// are left out.
fn uncounted(line: &Line) -> Line {
    let line = with_units(line, |_, unit| unit.pool = None);
    let details = LineDetails { counted: Vec::new(), refunded: 0, ..line.details().clone() };
    Line { details: (details != LineDetails::default()).then(|| details.into()), ..line }
}

/// Whether a line has at least one unit, at most those that were requested, and as many units with ids as it counts.
fn is_granted(line: &Line) -> bool {
    let counts = line.units.is_none() || line.units().len() as u64 == u64::from(line.quantity);
    (1..=line.requested).contains(&line.quantity) && counts
}

/// No item is in two lines, and no unit is twice in a line.
fn check_different(hold: &Hold, event: &Event) -> Checked {
    let mut items = BTreeSet::new();
    for line in &*hold.lines {
        let units: BTreeSet<&Label> = line.units().iter().map(|unit| &unit.id).collect();
        if !items.insert(&line.item) || units.len() != line.units().len() {
            return broken("S10", format!("an item or a unit is there twice: {event:?}"));
        }
    }
    Ok(())
}

fn with_units(line: &Line, change: impl Fn(usize, &mut LineUnit)) -> Line {
    let mut units = line.units().to_vec();
    units.iter_mut().enumerate().for_each(|(place, unit)| change(place, unit));
    let units = line.units.as_ref().map(|_| stockhold_domain::LineUnits::new(units).into());
    Line { units, ..line.clone() }
}

/// A line after a turn of all of its units.
fn turned(line: &Line) -> Line {
    with_units(line, |_, unit| unit.version += 1)
}

/// The places that a change names, if they are different places of the line and as many as it counts.
fn places(line: &Line, moved: &MovedUnits) -> Option<BTreeSet<usize>> {
    let places: BTreeSet<usize> =
        moved.places.iter().filter_map(|place| usize::try_from(*place).ok()).collect();
    let count = if line.units.is_some() { moved.quantity } else { 0 };
    let fits = places.len() == moved.places.len()
        && places.len() as u64 == u64::from(count)
        && places.iter().all(|place| *place < line.units().len());
    fits.then_some(places)
}

/// A sold line after some of its units left the shelf; `None` when that is impossible.
fn fulfilled(line: &Line, moved: Option<&MovedUnits>) -> Option<Line> {
    let moved = moved?;
    let places = places(line, moved)?;
    let left = line.quantity.checked_sub(line.returned)?.checked_sub(line.fulfilled)?;
    let is_left = |place: &usize| {
        let unit = &line.units()[*place];
        !unit.fulfilled && !unit.returned
    };
    if moved.quantity > left || !places.iter().all(is_left) {
        return None;
    }
    let line = with_units(line, |place, unit| {
        if places.contains(&place) {
            unit.fulfilled = true;
            unit.version += 1;
        }
    });
    Some(Line { fulfilled: line.fulfilled + moved.quantity, ..line })
}

/// A sold line after some of its units came back, of which some had left the shelf; `None` when that is impossible.
fn returned(line: &Line, moved: Option<&MovedUnits>, from_buyers: Option<u32>) -> Option<Line> {
    let (moved, from_buyers) = (moved?, from_buyers?);
    let places = places(line, moved)?;
    let from_shelf = moved.quantity.checked_sub(from_buyers)?;
    let on_shelf = line.quantity.checked_sub(line.returned)?.checked_sub(line.fulfilled)?;
    if from_buyers > line.fulfilled || from_shelf > on_shelf {
        return None;
    }
    if line.units.is_some() {
        let had_left = places.iter().filter(|place| line.units()[**place].fulfilled).count();
        if places.iter().any(|place| line.units()[*place].returned)
            || had_left as u64 != u64::from(from_buyers)
        {
            return None;
        }
    }
    let line = with_units(line, |place, unit| {
        if places.contains(&place) {
            unit.returned = true;
            unit.version += 1;
        }
    });
    let (fulfilled, returned) = (line.fulfilled - from_buyers, line.returned + moved.quantity);
    let details = if line.units.is_some() {
        draws_of_units(&line)
    } else {
        with_draws(&line, line.quantity - returned)
    };
    Some(Line { fulfilled, returned, details, ..line })
}

/// The details of a line by its units that were not returned.
fn draws_of_units(line: &Line) -> Option<Box<LineDetails>> {
    let mut details = line.details().clone();
    for draw in &mut details.draws {
        let units =
            line.units().iter().filter(|unit| !unit.returned && unit.pool.as_ref() == Some(&draw.pool));
        draw.units = u32::try_from(units.count()).unwrap_or(u32::MAX);
    }
    details.draws.retain(|draw| draw.units > 0);
    (details != LineDetails::default()).then(|| Box::new(details))
}

/// The details of a line of which so many units are left: general stock leaves it first, then the last pools.
fn with_draws(line: &Line, left: u32) -> Option<Box<LineDetails>> {
    let mut details = line.details().clone();
    let mut left = left;
    for draw in &mut details.draws {
        draw.units = draw.units.min(left);
        left -= draw.units;
    }
    details.draws.retain(|draw| draw.units > 0);
    (details != LineDetails::default()).then(|| Box::new(details))
}

/// Checks lines that an amend, a split or a merge changed.
fn check_changed(transition: &HoldTransition<'_>, changes: &[LineChange]) -> Checked {
    let HoldTransition { change, before, after, .. } = transition;
    let known: BTreeMap<_, _> = before.lines.iter().map(|line| (&line.item, line)).collect();
    let there: BTreeSet<_> = after.lines.iter().map(|line| &line.item).collect();
    if changes.len() != after.lines.len() || known.keys().any(|item| !there.contains(*item)) {
        return transition.broken("S12", "the event does not have all lines");
    }
    let removed_from = after.lines.iter().position(|line| line.quantity == 0).unwrap_or(after.lines.len());
    if removed_from == 0 || after.lines[removed_from..].iter().any(|line| line.quantity > 0) {
        return transition.broken("S12", "no line is left, or removed lines do not come last");
    }
    for (line, line_change) in after.lines.iter().zip(changes) {
        let old = known.get(&line.item).copied();
        if !follows(old, line, line_change) {
            return transition.broken("S10", &format!("{line:?} does not follow from {old:?}"));
        }
        let (was, is) = (old.map_or(0, |old| old.quantity), line.quantity);
        let gains = u32::try_from(line.units().len()).is_ok_and(|units| units > line_change.kept);
        let (asked_before, asked) = (old.map_or(0, |old| old.requested), line.requested);
        let fits = match change {
            // A removed line asks for nothing, whatever it asked for before.
            HoldChange::Split { .. } if is == 0 => true,
            HoldChange::Split { .. } => {
                is <= was && !gains && asked_before - asked.min(asked_before) == was - is
            }
            HoldChange::Merged { .. } => {
                is >= was && line_change.released.is_empty() && asked >= asked_before
            }
            _ => true,
        };
        if !fits {
            return transition.broken("S10", &format!("{line:?} moved in the wrong direction"));
        }
    }
    let same = |(line, change): (&Line, &LineChange)| change.quantity_before == line.quantity;
    match change {
        HoldChange::Split { .. } | HoldChange::Merged { .. } if after.lines.iter().zip(changes).all(same) => {
            transition.broken("S10", "nothing moved")
        }
        _ => Ok(()),
    }
}

/// Whether a line follows from the one before it: first the units that it kept, then new ones; those that it gave back
/// are one version ahead.
fn follows(old: Option<&Line>, line: &Line, change: &LineChange) -> bool {
    let was = old.map_or(&[] as &[LineUnit], Line::units);
    let kept = usize::try_from(change.kept).unwrap_or(usize::MAX);
    if change.quantity_before != old.map_or(0, |old| old.quantity)
        || (line.fulfilled, line.returned) != (0, 0)
        || old.is_some_and(|old| old.units.is_some() != line.units.is_some())
        || kept > line.units().len()
    {
        return false;
    }
    let is_there = if line.quantity == 0 {
        line.requested == 0 && line.units().is_empty() && old.is_some()
    } else {
        is_granted(line)
    };
    let (kept, gained) = line.units().split_at(kept);
    let stays: BTreeSet<&Label> = kept.iter().map(|unit| &unit.id).collect();
    let given_back: Vec<LineUnit> = was
        .iter()
        .filter(|unit| !stays.contains(&unit.id))
        .map(|unit| LineUnit { version: unit.version + 1, pool: None, ..unit.clone() })
        .collect();
    let released = change.released.iter().map(|unit| LineUnit { pool: None, ..unit.clone() });
    let known: BTreeMap<&Label, &LineUnit> = was.iter().map(|unit| (&unit.id, unit)).collect();
    is_there
        && kept.iter().all(|unit| known.get(&unit.id) == Some(&unit))
        && gained.iter().all(|unit| !known.contains_key(&unit.id) && !unit.fulfilled && !unit.returned)
        && released.eq(given_back)
}
