//! Returns: sold units that come back. The reservation stays confirmed and records what was returned.

use super::hold::{Opened, done, open};
use super::units::next_version;
use super::{CommandContext, DecideError, moved_counters};
use crate::command::{Basket, Return, ReturnSelection};
use crate::event::{HoldChange, Transition};
use crate::hold::{Hold, Line, Status};
use crate::item::{ItemKey, StockCounters};
use crate::label::Label;
use crate::outcome::Outcome;
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use crate::unit::LineUnits;
use crate::unit_selection::UnitSelection;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) fn return_units<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Return,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let hold = match open(context, command.id, now)? {
        Opened::Ended(hold) if hold.status == Status::Confirmed => hold,
        Opened::Ended(hold) | Opened::Active(hold, _) => {
            return Ok(Outcome::Refused(Rejection::ReservationNotConfirmed(hold.id)));
        }
        Opened::Unknown => return Ok(Outcome::Refused(Rejection::UnknownReservation(command.id))),
    };
    let returned = match returned_lines(&hold, &command.selection)? {
        Ok(returned) => returned,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };

    let before = figures_before(context, &hold, &returned, now)?;
    let at = before.iter().map(|figures| figures.at).max().map_or(now, |newest| newest.max(now));
    let units = if hold.lines.iter().any(|line| line.units.is_some()) {
        returned.iter().map(|line| line.units.as_slice().into()).collect()
    } else {
        Box::default()
    };
    let quantities = returned.iter().map(|line| line.quantity).collect();
    let change = HoldChange::Returned { quantities, units, reason: command.reason.clone() };

    let mut lines = Vec::with_capacity(hold.lines.len());
    let mut figures = Vec::with_capacity(hold.lines.len());
    for (number, ((line, returned), before)) in hold.lines.iter().zip(&returned).zip(&before).enumerate() {
        let mut line = line.clone();
        let mut after = moved_counters(before, &change, &line, number)?;
        if returned.quantity > 0 {
            after.at = at;
            line.sequence = after.sequence;
            line.returned = line
                .returned
                .checked_add(returned.quantity)
                .ok_or(DecideError::InvariantViolated("more units of a line were returned than exist"))?;
            line.units = with_returned(&line, &returned.units)?;
        }
        lines.push(line);
        figures.push(after);
    }
    let previous = hold.last_event;
    let hold = Hold { lines: lines.into(), last_event: context.fresh.event, ..hold };
    let transition = Transition::Hold { change, hold: hold.clone(), figures: figures.into() };
    context.emit(context.fresh.event, at, Some(previous), transition);
    Ok(done(context, hold, at))
}

/// The counters of each line's item. An item of which everything came back may have been deleted since: it has none.
fn figures_before<S: State>(
    context: &CommandContext<'_, S>,
    hold: &Hold,
    returned: &[ReturnedLine],
    now: Instant,
) -> Result<Vec<StockCounters>, DecideError> {
    let mut figures = Vec::with_capacity(hold.lines.len());
    for (line, returned) in hold.lines.iter().zip(returned) {
        figures.push(match context.state.item(&line.item)? {
            Some(item) => item.figures,
            None if returned.quantity == 0 => StockCounters::none(now),
            None => return Err(DecideError::InvariantViolated("an item went away that has sales")),
        });
    }
    Ok(figures)
}

/// What a command returns of one line.
#[derive(Default)]
struct ReturnedLine {
    quantity: u32,
    /// The places in the line of the returned units, where units have ids.
    units: Vec<u32>,
}

/// What a command returns of each line, in the order of the lines.
fn returned_lines(
    hold: &Hold,
    selection: &ReturnSelection,
) -> Result<Result<Vec<ReturnedLine>, Rejection>, DecideError> {
    match selection {
        ReturnSelection::All => all_that_is_sold(hold),
        ReturnSelection::Lines(basket) => named_lines(hold, basket),
        ReturnSelection::Units(ids) => named_units(hold, ids),
    }
}

fn all_that_is_sold(hold: &Hold) -> Result<Result<Vec<ReturnedLine>, Rejection>, DecideError> {
    let mut all = Vec::with_capacity(hold.lines.len());
    for line in &*hold.lines {
        all.push(first_sold(line, still_sold(line)?));
    }
    if all.iter().all(|returned| returned.quantity == 0)
        && let Some(line) = hold.lines.first()
    {
        return Ok(Err(exceeds(line, u64::from(line.quantity))?));
    }
    Ok(Ok(all))
}

fn named_lines(hold: &Hold, basket: &Basket) -> Result<Result<Vec<ReturnedLine>, Rejection>, DecideError> {
    let is_of_hold = |item: &ItemKey| hold.lines.iter().any(|line| line.item == *item);
    if let Some(other) = basket.lines().iter().find(|requested| !is_of_hold(&requested.item)) {
        let (item, requested) = (other.item.clone(), other.quantity);
        return Ok(Err(Rejection::ReturnExceedsSold { item, requested, sold: 0 }));
    }
    let mut all = Vec::with_capacity(hold.lines.len());
    for line in &*hold.lines {
        let found = basket.lines().iter().enumerate().find(|(_, requested)| requested.item == line.item);
        let requested = found.map_or(0, |(_, requested)| requested.quantity);
        let quantity = match u32::try_from(requested) {
            Ok(quantity) if quantity <= still_sold(line)? => quantity,
            Ok(_) | Err(_) => return Ok(Err(exceeds(line, requested)?)),
        };
        match found.and_then(|(number, _)| basket.selection(number)) {
            Some(UnitSelection::Named(ids)) => match named_in_line(line, ids) {
                Some(returned) => all.push(returned),
                None => return Ok(Err(exceeds(line, requested)?)),
            },
            Some(UnitSelection::BestAvailable(_)) | None => all.push(first_sold(line, quantity)),
        }
    }
    Ok(Ok(all))
}

fn named_units(hold: &Hold, ids: &[Label]) -> Result<Result<Vec<ReturnedLine>, Rejection>, DecideError> {
    if let Some(rejection) = ambiguous(hold, ids) {
        return Ok(Err(rejection));
    }
    let mut all = Vec::with_capacity(hold.lines.len());
    let mut found: BTreeSet<Label> = BTreeSet::new();
    for line in &*hold.lines {
        let sold: BTreeSet<&Label> =
            line.units().iter().filter(|unit| !unit.returned).map(|unit| &unit.id).collect();
        let here: Vec<Label> = ids.iter().filter(|id| sold.contains(id)).cloned().collect();
        all.push(named_in_line(line, &here).unwrap_or_default());
        found.extend(here);
    }
    if found.len() != ids.len() || ids.is_empty() {
        let line = hold.lines.first().ok_or(DecideError::InvariantViolated("a hold has no line"))?;
        return Ok(Err(exceeds(line, ids.len() as u64)?));
    }
    Ok(Ok(all))
}

/// Units of a line that are sold and were not returned.
fn still_sold(line: &Line) -> Result<u32, DecideError> {
    let left = line.quantity.checked_sub(line.returned);
    left.ok_or(DecideError::InvariantViolated("more units of a line were returned than sold"))
}

fn exceeds(line: &Line, requested: u64) -> Result<Rejection, DecideError> {
    let sold = u64::from(still_sold(line)?);
    Ok(Rejection::ReturnExceedsSold { item: line.item.clone(), requested, sold })
}

/// Refuses an id that occurs in more than one line, returned units included: an id is unique within an item only.
fn ambiguous(hold: &Hold, ids: &[Label]) -> Option<Rejection> {
    let (mut once, mut again) = (BTreeSet::new(), BTreeSet::new());
    for unit in hold.lines.iter().flat_map(Line::units) {
        if !once.insert(&unit.id) {
            again.insert(&unit.id);
        }
    }
    let place = ids.iter().position(|id| again.contains(id))?;
    let detail = "is in more than one line of the reservation: name the unit in `lines`".to_string();
    Some(Rejection::invalid(&format!("/units/{place}"), detail))
}

/// The first units of a line that were not returned, as many as `quantity`.
fn first_sold(line: &Line, quantity: u32) -> ReturnedLine {
    let sold = line.units().iter().zip(0..).filter(|(unit, _)| !unit.returned).map(|(_, place)| place);
    ReturnedLine { quantity, units: sold.take(usize::try_from(quantity).unwrap_or(usize::MAX)).collect() }
}

/// The named units of a line, each named once. `None` when the line does not have one of them sold.
fn named_in_line(line: &Line, ids: &[Label]) -> Option<ReturnedLine> {
    let places: BTreeMap<&Label, u32> = line
        .units()
        .iter()
        .zip(0..)
        .filter(|(unit, _)| !unit.returned)
        .map(|(unit, place)| (&unit.id, place))
        .collect();
    let mut units: Vec<u32> = ids.iter().map(|id| places.get(id).copied()).collect::<Option<_>>()?;
    units.sort_unstable();
    Some(ReturnedLine { quantity: u32::try_from(units.len()).ok()?, units })
}

/// The units of a line after those at these places were returned.
fn with_returned(line: &Line, places: &[u32]) -> Result<Option<Arc<LineUnits>>, DecideError> {
    let Some(units) = &line.units else { return Ok(None) };
    let mut moved = units.all().to_vec();
    for place in places {
        let unit = usize::try_from(*place).ok().and_then(|place| moved.get_mut(place));
        let unit = unit.ok_or(DecideError::InvariantViolated("a line lacks a unit that was returned"))?;
        unit.version = next_version(unit.version)?;
        unit.returned = true;
    }
    Ok(Some(Arc::new(LineUnits::new(moved))))
}
