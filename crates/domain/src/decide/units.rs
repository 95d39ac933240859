//! Units with ids: the commands of operators, and the choice of units for a reserve.

use super::grants::free;
use super::hold::expire;
use super::stock::changed;
use super::unit_pools::without_unit;
use super::{CommandContext, DecideError};
use crate::basket::RequestedLine;
use crate::command::{AddUnits, NewUnit, RetireUnit};
use crate::event::StockChange;
use crate::hold::Line;
use crate::id::ReservationId;
use crate::item::{Item, ItemKey, Mode};
use crate::label::Label;
use crate::limits::{ATTRIBUTES, ITEM_UNITS, POSITION, UNITS_AT_ONCE};
use crate::outcome::{Outcome, Reply};
use crate::pool::Pool;
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use crate::unit::{LineUnit, Place, Unit, UnitStatus};
use crate::unit_index::ClaimSource;
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

impl Offer {
    /// Leaves out the last units, so that there are at most this many.
    pub(super) fn clip(&mut self, most: u64) {
        if self.quantity > most {
            self.quantity = most;
            if let Some(units) = &mut self.units {
                units.truncate(usize::try_from(most).unwrap_or(usize::MAX));
                self.kept = self.kept.min(u32::try_from(most).unwrap_or(u32::MAX));
            }
        }
    }
}

/// What a line asks for, and where its units may come from.
struct UnitRequest<'a> {
    item: &'a Item,
    want: &'a RequestedLine,
    /// The units that the line of the own hold has.
    own: &'a [LineUnit],
    /// Most units that the line gets, its own included.
    count: usize,
    /// The pool that it draws from before general stock.
    pool: Option<&'a Pool>,
    /// Units of general stock that are available beside its own. `None` if it gets none.
    general: Option<u64>,
}

impl<'a> UnitRequest<'a> {
    fn new(
        item: &'a Item,
        want: &'a RequestedLine,
        own: Option<&'a Line>,
        pool: Option<&Label>,
    ) -> Result<Self, DecideError> {
        let count = count(free(item, own, pool).min(want.quantity))?;
        let own = own.map(Line::units).unwrap_or_default();
        let pool = pool.and_then(|name| item.pools.get(name));
        let general = pool.is_none_or(Pool::falls_back).then(|| item.available());
        Ok(Self { item, want, own, count, pool, general })
    }

    /// Most units of general stock that the line may have, its own included.
    fn most_general(&self) -> Option<usize> {
        let own = self.own.iter().filter(|unit| unit.pool.is_none()).count();
        self.general.map(|units| usize::try_from(units).unwrap_or(usize::MAX).saturating_add(own))
    }

    /// Whether a free unit in this pool is for the line.
    fn may_take(&self, pool: Option<&Label>) -> bool {
        match pool {
            None => self.general.is_some(),
            Some(name) => self.pool.is_some_and(|pool| pool.name == *name),
        }
    }
}

/// What is available now for a line of an item whose units have ids. The units of `own` count as available.
pub(super) fn offer<S: State>(
    context: &CommandContext<'_, S>,
    item: &Item,
    want: &RequestedLine,
    selection: Option<&UnitSelection>,
    own: Option<&Line>,
    pool: Option<&Label>,
) -> Result<Offer, DecideError> {
    let request = UnitRequest::new(item, want, own, pool)?;
    let own = request.own;
    let mut offer = Offer::default();
    let chosen = match selection {
        None => return any(context, &request),
        Some(UnitSelection::BestAvailable(best)) => best_available(context, &request, best, &mut offer)?,
        Some(UnitSelection::Named(ids)) => named(context, &request, ids, &mut offer)?,
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
    Ok(LineUnit { id: unit.id.clone(), version, fulfilled: false, returned: false, pool: unit.pool.clone() })
}

/// Any units: those of the own line, without the last ones when there are too many, then the first free ones of the pool, then those of
/// general stock.
fn any<S: State>(context: &CommandContext<'_, S>, request: &UnitRequest<'_>) -> Result<Offer, DecideError> {
    let UnitRequest { item, own, count, pool, .. } = *request;
    let mut units = if own.len() > count { first_to_keep(context, item, own, count)? } else { own.to_vec() };
    let kept = units.len();
    let more = count - kept;
    let of_pool = pool.map_or(0, |pool| usize::try_from(pool.free()).unwrap_or(usize::MAX)).min(more);
    for (pool, more) in [(pool.map(|pool| &pool.name), of_pool), (None, more - of_pool)] {
        if more == 0 {
            continue;
        }
        let found = context.state.free_units(&item.key, pool, u32::try_from(more).unwrap_or(u32::MAX))?;
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

/// The units of a line that stay when it gets fewer: general stock leaves before pools, and of each the last in claim order leave first.
/// They have the order of the line.
fn first_to_keep<S: State>(
    context: &CommandContext<'_, S>,
    item: &Item,
    own: &[LineUnit],
    count: usize,
) -> Result<Vec<LineUnit>, DecideError> {
    let mut places = Vec::with_capacity(own.len());
    for (number, line_unit) in own.iter().enumerate() {
        let unit = context.state.unit(&item.key, &line_unit.id)?;
        let unit = unit.ok_or(DecideError::InvariantViolated("a unit of a hold is not there"))?;
        let is_general = line_unit.pool.is_none();
        places.push((is_general, &line_unit.pool, unit.place.position, &line_unit.id, number));
    }
    places.sort_unstable();
    places.truncate(count);
    let mut numbers: Vec<usize> = places.into_iter().map(|(.., number)| number).collect();
    numbers.sort_unstable();
    Ok(numbers.into_iter().filter_map(|number| own.get(number).cloned()).collect())
}

fn best_available<'s, S: State>(
    context: &'s CommandContext<'_, S>,
    request: &UnitRequest<'_>,
    best: &BestAvailable,
    offer: &mut Offer,
) -> Result<Vec<&'s Unit>, DecideError> {
    let Some(unit_index) = context.state.unit_index(&request.item.key)? else {
        offer.unknown_sections.clone_from(&best.sections);
        return Ok(Vec::new());
    };
    let wanted = usize::try_from(request.want.quantity).unwrap_or(usize::MAX);
    let pool = request.pool.map(|pool| &pool.name);
    let source = ClaimSource { pool, general: request.most_general() };
    let found = unit_index.best(best, wanted, request.count, request.own, source);
    if found.len() < wanted {
        let sections = best.sections.iter();
        offer.unknown_sections.extend(sections.filter(|name| !unit_index.has_section(name)).cloned());
    }
    Ok(found)
}

fn named<'s, S: State>(
    context: &'s CommandContext<'_, S>,
    request: &UnitRequest<'_>,
    ids: &[Label],
    offer: &mut Offer,
) -> Result<Vec<&'s Unit>, DecideError> {
    let mine: BTreeSet<&Label> = request.own.iter().map(|unit| &unit.id).collect();
    let mut found = Vec::with_capacity(ids.len());
    let mut deadlines = Some(Vec::new());
    let mut general = request.most_general().unwrap_or(usize::MAX);
    for id in ids {
        let unit = context.state.unit(&request.item.key, id)?;
        let is_free =
            |unit: &Unit| unit.status == UnitStatus::Available && request.may_take(unit.pool.as_ref());
        match unit {
            Some(unit) if is_free(unit) || mine.contains(id) => {
                if unit.pool.is_some() {
                    found.push(unit);
                } else if general > 0 {
                    general -= 1;
                    found.push(unit);
                }
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
    found.truncate(request.count);
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
        added.push(Unit { id, place, status: UnitStatus::Available, version: 1, pool: None });
    }
    let count = u32::try_from(added.len())
        .map_err(|_| DecideError::InvariantViolated("more units than a command has"))?;
    if added.is_empty() {
        return Ok(Outcome::Done(Reply::Units { item, added: 0, unchanged }));
    }
    let total_units = super::add(item.figures.total_units, u64::from(count))?;
    if total_units > ITEM_UNITS {
        let detail = format!(
            "must not bring the item past {ITEM_UNITS} units with ids: more than that is counted stock"
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
    let Some(known) = context.state.unit(&key, &unit)?.cloned() else {
        return Ok(Outcome::Refused(Rejection::UnknownUnit { item: key, unit }));
    };
    if known.status != UnitStatus::Available {
        return Ok(Outcome::Refused(Rejection::UnitInUse { item: key, unit, status: known.status }));
    }
    let item = context
        .state
        .item(&key)?
        .ok_or(DecideError::InvariantViolated("an item went away within a command"))?
        .clone();
    let item = Item { pools: without_unit(&item.pools, &known)?, ..item };
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
