//! Split: some lines of a hold leave it for a new hold with the same deadline. The old hold gives the units back in one event, and the
//! new one takes them in the next.

use super::amend::{kept, removed};
use super::hold::{change_hold, next_versions, open_for_change};
use super::unit_pools::leaving_order;
use super::{CommandContext, DecideError, backorder};
use crate::command::Split;
use crate::event::{HoldChange, KeyTarget, LineChange};
use crate::hold::{Hold, HoldDetails, HoldTerms, Line};
use crate::outcome::{Outcome, Reply};
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use crate::unit::{LineUnit, LineUnits};
use crate::unit_selection::UnitSelection;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) fn split<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Split,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let (mut hold, at) = match open_for_change(context, command.id, command.expected.as_ref(), now)? {
        Ok(opened) => opened,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let Parts { left, changes, moved } = match parts(&hold, command)? {
        Ok(parts) => parts,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let id = context.fresh.reservation;
    let details = HoldDetails {
        split_from: Some(hold.id),
        first_payment_at: hold.details().first_payment_at,
        ..HoldDetails::default()
    };
    let part = Hold {
        id,
        terms: Arc::new(HoldTerms { created_at: at, ..(*hold.terms).clone() }),
        details: Some(Box::new(details)),
        version: 0,
        ..hold.clone()
    };
    let known = hold.details.get_or_insert_default();
    HoldDetails::relate(&mut known.split_into, &[id]);
    let change = HoldChange::Split { lines: changes.into(), into: id };
    change_hold(context, context.fresh.event, at, hold, left, change)?;
    let part = change_hold(context, context.fresh.event.nth(1), at, part, moved, HoldChange::CreatedBySplit)?;
    context.remember(KeyTarget::Reservation(id), at);
    Ok(Outcome::Done(Reply::Reservation(part)))
}

/// The lines of both parts. `left` has the lines that the old hold loses at its end.
struct Parts {
    left: Vec<Line>,
    changes: Vec<LineChange>,
    moved: Vec<Line>,
}

fn parts(reservation: &Hold, command: &Split) -> Result<Result<Parts, Rejection>, DecideError> {
    let known: BTreeSet<_> = reservation.lines.iter().map(|line| &line.item).collect();
    let requested = command.lines.lines();
    if let Some(other) = requested.iter().find(|line| !known.contains(&line.item)) {
        let (item, requested) = (other.item.clone(), other.quantity);
        return Ok(Err(Rejection::SplitExceedsHeld { item, requested, held: 0 }));
    }
    let requested: BTreeMap<_, _> =
        requested.iter().enumerate().map(|(number, line)| (&line.item, (number, line.quantity))).collect();
    let mut parts = Parts { left: Vec::new(), changes: Vec::new(), moved: Vec::new() };
    let mut gone = Vec::new();
    for line in &*reservation.lines {
        let Some((number, quantity)) = requested.get(&line.item).copied() else {
            parts.left.push(line.clone());
            parts.changes.push(kept(line));
            continue;
        };
        let Some((left, change, moved)) = part_of(line, quantity, command.lines.selection(number))? else {
            let item = line.item.clone();
            let held = u64::from(line.quantity);
            return Ok(Err(Rejection::SplitExceedsHeld { item, requested: quantity, held }));
        };
        parts.moved.push(moved);
        if left.quantity > 0 {
            parts.left.push(left);
            parts.changes.push(change);
        } else {
            gone.push(removed(line)?);
        }
    }
    if parts.left.is_empty() {
        let detail = "must leave something: this is all that the reservation holds".to_string();
        return Ok(Err(Rejection::invalid("/lines", detail)));
    }
    for (line, change) in gone {
        parts.left.push(line);
        parts.changes.push(change);
    }
    Ok(Ok(parts))
}

/// What is left of a line, how it changes, and the line of the new hold. `None` when the line does not have what is moved.
fn part_of(
    line: &Line,
    quantity: u64,
    selection: Option<&UnitSelection>,
) -> Result<Option<(Line, LineChange, Line)>, DecideError> {
    let Some(count) = u32::try_from(quantity).ok().filter(|count| *count <= line.quantity) else {
        return Ok(None);
    };
    let (go, stay): (Vec<LineUnit>, Vec<LineUnit>);
    match selection {
        Some(UnitSelection::Named(ids)) => {
            let named: BTreeSet<_> = ids.iter().collect();
            (go, stay) = line.units().iter().cloned().partition(|unit| named.contains(&unit.id));
            if go.len() != ids.len() {
                return Ok(None);
            }
        }
        Some(UnitSelection::BestAvailable(_)) | None => {
            let count = usize::try_from(quantity).unwrap_or(usize::MAX);
            let mut leaving: Vec<&LineUnit> = line.units().iter().collect();
            leaving.sort_by_key(|unit| leaving_order(unit));
            leaving.truncate(count);
            let leaving: BTreeSet<_> = leaving.into_iter().map(|unit| &unit.id).collect();
            (go, stay) = line.units().iter().cloned().partition(|unit| leaving.contains(&unit.id));
        }
    }
    let released = next_versions(&go)?;
    let with = |units: Vec<LineUnit>| line.units.as_ref().map(|_| Arc::new(LineUnits::new(units)));
    let kept = u32::try_from(stay.len()).unwrap_or(u32::MAX);
    let (details_of_moved, details_of_left) = backorder::split(line, count, &go);
    let moved = Line {
        requested: count,
        quantity: count,
        units: with(next_versions(&released)?),
        details: details_of_moved,
        ..line.clone()
    };
    let left = Line {
        requested: line.requested.saturating_sub(count),
        quantity: line.quantity - count,
        units: with(stay),
        details: details_of_left,
        ..line.clone()
    };
    let change = LineChange { quantity_before: line.quantity, kept, released: released.into() };
    Ok(Some((left, change, moved)))
}
