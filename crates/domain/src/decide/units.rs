//! Units with ids: the commands of operators, and the choice of units for a reserve.

use super::hold::expire;
use super::stock::changed;
use super::{CommandContext, DecideError};
use crate::command::{AddUnits, NewUnit, RequestedLine, RetireUnit};
use crate::event::StockChange;
use crate::id::ReservationId;
use crate::item::{Item, ItemKey, Mode};
use crate::label::Label;
use crate::limits::{ATTRIBUTES, POOL_UNITS, POSITION, UNITS_AT_ONCE};
use crate::outcome::{Outcome, Reply};
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use crate::unit::{LineUnit, Place, Unit, UnitStatus};
use crate::unit_selection::UnitSelection;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// What is available for a requested line.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// Number of units, at most the requested number.
    pub(super) quantity: u64,
    /// The units, where units have ids.
    pub(super) units: Option<Vec<LineUnit>>,
    /// Named units that are not available.
    pub(super) taken: Vec<Label>,
    /// Those of `taken` that do not exist.
    pub(super) unknown: Vec<Label>,
    /// Sections that were asked for and do not exist, if there is less than was asked for.
    pub(super) unknown_sections: Vec<Label>,
}

/// What is available now for a line of an item whose units have ids.
pub(super) fn offer<S: State>(
    context: &CommandContext<'_, S>,
    item: &Item,
    want: &RequestedLine,
    selection: Option<&UnitSelection>,
) -> Result<Offer, DecideError> {
    let most = item.available().min(want.quantity);
    let count =
        usize::try_from(most).map_err(|_| DecideError::InvariantViolated("more units than memory has"))?;
    let (mut taken, mut unknown, mut unknown_sections) = (Vec::new(), Vec::new(), Vec::new());
    let found: Vec<&Unit> = match selection {
        None => context.state.free_units(&item.key, u32::try_from(most).unwrap_or(u32::MAX))?,
        Some(UnitSelection::BestAvailable(best)) => match context.state.pool(&item.key)? {
            Some(pool) => {
                let wanted = usize::try_from(want.quantity).unwrap_or(usize::MAX);
                let found = pool.best(best, wanted, count);
                if found.len() < wanted {
                    let sections = best.sections.iter();
                    unknown_sections.extend(sections.filter(|name| !pool.has_section(name)).cloned());
                }
                found
            }
            None => {
                unknown_sections.clone_from(&best.sections);
                Vec::new()
            }
        },
        Some(UnitSelection::Named(ids)) => {
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                match context.state.unit(&item.key, id)? {
                    Some(unit) if unit.status == UnitStatus::Available => found.push(unit),
                    Some(_) => taken.push(id.clone()),
                    None => {
                        taken.push(id.clone());
                        unknown.push(id.clone());
                    }
                }
            }
            found.truncate(count);
            found
        }
    };
    if selection.is_none() && found.len() != count {
        return Err(DecideError::InvariantViolated(
            "an item's figures say that other units are free than are",
        ));
    }
    let mut units = Vec::with_capacity(found.len());
    for unit in found {
        let version = next_version(unit.version)?;
        units.push(LineUnit { id: unit.id.clone(), version, returned: false });
    }
    Ok(Offer { quantity: units.len() as u64, units: Some(units), taken, unknown, unknown_sections })
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
    changed(context, item, total_units, StockChange::UnitRetired(unit), now)
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
