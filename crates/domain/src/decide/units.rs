//! Units with ids: the commands of operators, and the choice of units for a reserve.

use super::grants::free;
use super::hold::expire;
use super::stock::changed;
use super::{CommandContext, DecideError};
use crate::basket::RequestedLine;
use crate::command::{AddUnits, NewUnit, RetireUnit};
use crate::event::StockChange;
use crate::hold::Line;
use crate::id::ReservationId;
use crate::item::{Item, ItemKey, Mode};
use crate::label::Label;
use crate::limits::{ATTRIBUTES, POOL_UNITS, POSITION, UNITS_AT_ONCE};
use crate::outcome::{Outcome, Reply};
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use crate::unit::{LineUnit, Place, Unit, UnitStatus};
use crate::unit_selection::{BestAvailable, UnitSelection};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// What is available for a requested line.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// Number of units, at most the requested number.
    pub(super) quantity: u64,
    /// The units, where units have ids: first those that the line of the own hold has, as they are.
    pub(super) units: Option<Vec<LineUnit>>,
    /// Number of units that the line of the own hold has already.
    pub(super) kept: u32,
    /// Named units that are not available.
    pub(super) taken: Vec<Label>,
    /// Those of `taken` that do not exist.
    pub(super) unknown: Vec<Label>,
    /// The earliest deadline of a hold on one of `taken`. Absent when one of them is sold or does not exist.
    pub(super) next_expiry_at: Option<Instant>,
    /// Sections that were asked for and do not exist, if there is less than was asked for.
    pub(super) unknown_sections: Vec<Label>,
}

/// What is available now for a line of an item whose units have ids. The units of `own` count as available.
pub(super) fn offer<S: State>(
    context: &CommandContext<'_, S>,
    item: &Item,
    want: &RequestedLine,
    selection: Option<&UnitSelection>,
    own: Option<&Line>,
) -> Result<Offer, DecideError> {
    let count = count(free(item, own).min(want.quantity))?;
    let own = own.map(Line::units).unwrap_or_default();
    let mut offer = Offer::default();
    let chosen = match selection {
        None => return any(context, item, own, count),
        Some(UnitSelection::BestAvailable(best)) => {
            best_available(context, item, want, best, own, &mut offer, count)?
        }
        Some(UnitSelection::Named(ids)) => named(context, item, ids, own, &mut offer, count)?,
    };
    let mine: BTreeMap<&Label, &LineUnit> = own.iter().map(|unit| (&unit.id, unit)).collect();
    let (mut kept, mut gained) = (Vec::with_capacity(chosen.len()), Vec::new());
    for unit in chosen {
        match mine.get(&unit.id) {
            Some(unit) => kept.push((*unit).clone()),
            None => gained.push(claimed(unit)?),
        }
    }
    offer.kept = u32::try_from(kept.len()).unwrap_or(u32::MAX);
    kept.append(&mut gained);
    Ok(Offer { quantity: kept.len() as u64, units: Some(kept), ..offer })
}

fn count(units: u64) -> Result<usize, DecideError> {
    usize::try_from(units).map_err(|_| DecideError::InvariantViolated("more units than memory has"))
}

/// A free unit after it was claimed.
fn claimed(unit: &Unit) -> Result<LineUnit, DecideError> {
    let version = next_version(unit.version)?;
    Ok(LineUnit { id: unit.id.clone(), version, fulfilled: false, returned: false })
}

/// Any units: those of the own line, without the last in claim order when there are too many, then the first free ones.
fn any<S: State>(
    context: &CommandContext<'_, S>,
    item: &Item,
    own: &[LineUnit],
    count: usize,
) -> Result<Offer, DecideError> {
    let mut units =
        if own.len() > count { first_in_claim_order(context, item, own, count)? } else { own.to_vec() };
    let kept = units.len();
    let more = count - kept;
    if more > 0 {
        let found = context.state.free_units(&item.key, u32::try_from(more).unwrap_or(u32::MAX))?;
        if found.len() != more {
            return Err(DecideError::InvariantViolated(
                "an item's figures say that other units are free than are",
            ));
        }
        for unit in found {
            units.push(claimed(unit)?);
        }
    }
    let kept = u32::try_from(kept).unwrap_or(u32::MAX);
    Ok(Offer { quantity: units.len() as u64, units: Some(units), kept, ..Offer::default() })
}

/// The first units of a line in claim order, in the order of the line.
fn first_in_claim_order<S: State>(
    context: &CommandContext<'_, S>,
    item: &Item,
    own: &[LineUnit],
    count: usize,
) -> Result<Vec<LineUnit>, DecideError> {
    let mut places = Vec::with_capacity(own.len());
    for (number, line_unit) in own.iter().enumerate() {
        let unit = context.state.unit(&item.key, &line_unit.id)?;
        let unit = unit.ok_or(DecideError::InvariantViolated("a unit of a hold is not there"))?;
        places.push((unit.place.position, &line_unit.id, number));
    }
    places.sort_unstable();
    places.truncate(count);
    let mut numbers: Vec<usize> = places.into_iter().map(|(.., number)| number).collect();
    numbers.sort_unstable();
    Ok(numbers.into_iter().filter_map(|number| own.get(number).cloned()).collect())
}

fn best_available<'s, S: State>(
    context: &'s CommandContext<'_, S>,
    item: &Item,
    want: &RequestedLine,
    best: &BestAvailable,
    own: &[LineUnit],
    offer: &mut Offer,
    count: usize,
) -> Result<Vec<&'s Unit>, DecideError> {
    let Some(pool) = context.state.pool(&item.key)? else {
        offer.unknown_sections.clone_from(&best.sections);
        return Ok(Vec::new());
    };
    let wanted = usize::try_from(want.quantity).unwrap_or(usize::MAX);
    let found = pool.best(best, wanted, count, own);
    if found.len() < wanted {
        let sections = best.sections.iter();
        offer.unknown_sections.extend(sections.filter(|name| !pool.has_section(name)).cloned());
    }
    Ok(found)
}

fn named<'s, S: State>(
    context: &'s CommandContext<'_, S>,
    item: &Item,
    ids: &[Label],
    own: &[LineUnit],
    offer: &mut Offer,
    count: usize,
) -> Result<Vec<&'s Unit>, DecideError> {
    let mine: BTreeSet<&Label> = own.iter().map(|unit| &unit.id).collect();
    let mut found = Vec::with_capacity(ids.len());
    let mut deadlines = Some(Vec::new());
    for id in ids {
        let unit = context.state.unit(&item.key, id)?;
        match unit {
            Some(unit) if unit.status == UnitStatus::Available || mine.contains(id) => {
                found.push(unit);
                continue;
            }
            Some(Unit { status: UnitStatus::Held(holder), .. }) => {
                let hold = context.state.hold(*holder)?;
                if let (Some(deadlines), Some(hold)) = (&mut deadlines, hold) {
                    deadlines.push(hold.expires_at);
                }
            }
            Some(_) => deadlines = None,
            None => {
                deadlines = None;
                offer.unknown.push(id.clone());
            }
        }
        offer.taken.push(id.clone());
    }
    offer.next_expiry_at = deadlines.and_then(|deadlines| deadlines.into_iter().min());
    found.truncate(count);
    Ok(found)
}

/// The next version.
pub(super) fn next_version(version: u64) -> Result<u64, DecideError> {
    super::add(version, 1)
}

/// The due holds of these units, the earliest deadline first.
pub(super) fn due_holders<S: State>(
    context: &CommandContext<'_, S>,
    item: &ItemKey,
    ids: &[Label],
    now: Instant,
) -> Result<Vec<ReservationId>, DecideError> {
    let mut due = BTreeSet::new();
    for id in ids {
        let Some(Unit { status: UnitStatus::Held(holder), .. }) = context.state.unit(item, id)? else {
            continue;
        };
        let hold = context
            .state
            .hold(*holder)?
            .ok_or(DecideError::InvariantViolated("a unit's hold is not there"))?;
        if hold.is_due(now) {
            due.insert((hold.expires_at, *holder));
        }
    }
    Ok(due.into_iter().map(|(_, id)| id).collect())
}

pub(super) fn add<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &AddUnits,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let item = match item_with_ids(context, &command.item)? {
        Ok(item) => item,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    if let Err(rejection) = validate(&command.units) {
        return Ok(Outcome::Refused(rejection));
    }
    let mut highest = context.state.last_position(&item.key)?;
    let (mut added, mut unchanged) = (Vec::new(), 0_u32);
    for (number, posted) in command.units.iter().enumerate() {
        if let Some(known) = context.state.unit(&item.key, &posted.id)? {
            if !same(posted, known) {
                let detail = format!(
                    "is there already and is another: {}; a unit is never changed, retire it first",
                    posted.id
                );
                return Ok(Outcome::Refused(Rejection::invalid(&format!("/units/{number}"), detail)));
            }
            unchanged += 1;
            continue;
        }
        let position = posted.position.unwrap_or(highest.saturating_add(1));
        highest = highest.max(position);
        if position > POSITION {
            let detail = format!("must be at most {POSITION}, as must the one after the highest");
            return Ok(Outcome::Refused(Rejection::invalid(&format!("/units/{number}/position"), detail)));
        }
        let NewUnit { id, section, row, number, attributes, .. } = posted.clone();
        let place = Place { position, section, row, number, attributes };
        added.push(Unit { id, place, status: UnitStatus::Available, version: 1 });
    }
    let count = u32::try_from(added.len())
        .map_err(|_| DecideError::InvariantViolated("more units than a command has"))?;
    if added.is_empty() {
        return Ok(Outcome::Done(Reply::Units { item, added: 0, unchanged }));
    }
    let total_units = super::add(item.figures.total_units, u64::from(count))?;
    if total_units > POOL_UNITS {
        let detail = format!(
            "must not bring the item past {POOL_UNITS} units with ids: more than that is counted stock"
        );
        return Ok(Outcome::Refused(Rejection::invalid("/units", detail)));
    }
    match changed(context, item, total_units, StockChange::UnitsAdded(added.into()), now)? {
        Outcome::Done(Reply::Item { item, .. }) => {
            Ok(Outcome::Done(Reply::Units { item, added: count, unchanged }))
        }
        other => Ok(other),
    }
}

/// Checks new units without looking at the item.
fn validate(units: &[NewUnit]) -> Result<(), Rejection> {
    if units.is_empty() || units.len() > UNITS_AT_ONCE {
        let detail = format!("must be 1 to {UNITS_AT_ONCE} units, and is {}", units.len());
        return Err(Rejection::invalid("/units", detail));
    }
    let mut ids = BTreeSet::new();
    for (number, unit) in units.iter().enumerate() {
        if !ids.insert(&unit.id) {
            let detail = format!("is named twice: {}", unit.id);
            return Err(Rejection::invalid(&format!("/units/{number}/unit_id"), detail));
        }
        if unit.attributes.all().len() > ATTRIBUTES {
            let detail = format!("must be at most {ATTRIBUTES} attributes");
            return Err(Rejection::invalid(&format!("/units/{number}/attributes"), detail));
        }
    }
    Ok(())
}

fn same(posted: &NewUnit, known: &Unit) -> bool {
    let place = &known.place;
    posted.position.is_none_or(|position| position == place.position)
        && posted.section == place.section
        && posted.row == place.row
        && posted.number == place.number
        && posted.attributes == place.attributes
}

pub(super) fn retire<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &RetireUnit,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let item = match item_with_ids(context, &command.item)? {
        Ok(item) => item,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let now = now.max(item.figures.at);
    for due in due_holders(context, &item.key, core::slice::from_ref(&command.unit), now)? {
        if !context.may_expire() {
            return Ok(Outcome::Later);
        }
        expire(context, due, now)?;
    }
    let (key, unit) = (item.key.clone(), command.unit.clone());
    let Some(status) = context.state.unit(&key, &unit)?.map(|unit| unit.status) else {
        return Ok(Outcome::Refused(Rejection::UnknownUnit { item: key, unit }));
    };
    if status != UnitStatus::Available {
        return Ok(Outcome::Refused(Rejection::UnitInUse { item: key, unit, status }));
    }
    let item = context
        .state
        .item(&key)?
        .ok_or(DecideError::InvariantViolated("an item went away within a command"))?
        .clone();
    let total_units = item.figures.total_units.checked_sub(1);
    let total_units =
        total_units.ok_or(DecideError::InvariantViolated("an item has fewer units than are listed"))?;
    changed(context, item, total_units, StockChange::UnitsRetired([unit].into()), now)
}

/// Loads an item, and refuses one whose units have no ids.
fn item_with_ids<S: State>(
    context: &CommandContext<'_, S>,
    key: &ItemKey,
) -> Result<Result<Item, Rejection>, DecideError> {
    Ok(match context.state.item(key)? {
        None => Err(Rejection::UnknownItem(vec![key.clone()])),
        Some(item) if item.mode != Mode::Units => {
            Err(Rejection::ModeMismatch { item: key.clone(), mode: item.mode })
        }
        Some(item) => Ok(item.clone()),
    })
}
