//! Units with ids in pools: which units come back to a released pool, how a released pool loses its free units, and the command that moves
//! units into a pool or out of one.

use super::hold::expire;
use super::pools::{put, release_due};
use super::stock::{changed_by, existing_item};
use super::units::{due_holders, next_version};
use super::{CommandContext, DecideError};
use crate::command::SetUnitPool;
use crate::event::{HoldChange, StockChange};
use crate::hold::Line;
use crate::id::EventId;
use crate::item::{Item, ItemKey, Mode};
use crate::label::Label;
use crate::limits::{POOLS, SECTIONS, UNITS_AT_ONCE};
use crate::outcome::{Outcome, Reply};
use crate::pool::{Pool, PoolDraw, PoolTerms, Pools};
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use crate::unit::{LineUnit, LineUnits, PooledUnit, Unit, UnitStatus};
use crate::unit_selection::PoolSelection;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What units were drawn from pools, returned units left out.
pub(super) fn draws_of(units: &[LineUnit]) -> Vec<PoolDraw> {
    let mut draws: BTreeMap<&Label, u32> = BTreeMap::new();
    for pool in units.iter().filter(|unit| !unit.returned).filter_map(|unit| unit.pool.as_ref()) {
        let units = draws.entry(pool).or_default();
        *units = units.saturating_add(1);
    }
    draws.into_iter().map(|(pool, units)| PoolDraw { pool: pool.clone(), units }).collect()
}

/// The sort key by which units leave a line: general stock first, then pools in the reverse order of their names.
pub(super) fn leaving_order(unit: &LineUnit) -> (bool, core::cmp::Reverse<Option<&Label>>) {
    (unit.pool.is_some(), core::cmp::Reverse(unit.pool.as_ref()))
}

/// Takes the units that a transition of a reservation frees out of pools that were released or deleted.
pub(super) fn leave_ended_pools<S: State>(
    context: &CommandContext<'_, S>,
    lines: &mut [Line],
    change: &mut HoldChange,
) -> Result<(), DecideError> {
    for (number, line) in lines.iter_mut().enumerate() {
        if line.units.is_none() {
            continue;
        }
        let item = context.state.item(&line.item)?;
        let pools = item.map(|item| item.pools.clone()).unwrap_or_default();
        match change {
            HoldChange::Cancelled | HoldChange::MergedAway | HoldChange::Expired => {
                leave_line(&pools, line, |_| true);
            }
            HoldChange::Returned { lines, .. } => {
                let places = lines.get(number).map(|moved| &*moved.places).unwrap_or_default();
                let places: BTreeSet<u32> = places.iter().copied().collect();
                leave_line(&pools, line, |place| places.contains(&place));
            }
            HoldChange::Amended { lines }
            | HoldChange::Split { lines, .. }
            | HoldChange::Merged { lines, .. } => {
                if let Some(change) = lines.get_mut(number) {
                    change.released.iter_mut().for_each(|unit| leave(&pools, unit));
                }
            }
            HoldChange::Created
            | HoldChange::CreatedBySplit
            | HoldChange::Transferred { .. }
            | HoldChange::Extended
            | HoldChange::PaymentOpened { .. }
            | HoldChange::PaymentClosed { .. }
            | HoldChange::PaymentAdvanced { .. }
            | HoldChange::Confirmed
            | HoldChange::Replaced
            | HoldChange::Fulfilled { .. } => {}
        }
    }
    Ok(())
}

fn leave_line(pools: &Pools, line: &mut Line, frees: impl Fn(u32) -> bool) {
    if line.units().iter().all(|unit| unit.pool.is_none()) {
        return;
    }
    let mut units = line.units().to_vec();
    for (unit, _) in units.iter_mut().zip(0..).filter(|(_, place)| frees(*place)) {
        leave(pools, unit);
    }
    line.units = Some(Arc::new(LineUnits::new(units)));
}

fn leave(pools: &Pools, unit: &mut LineUnit) {
    let has_ended = |name: &Label| pools.get(name).is_none_or(|pool| pool.released_at.is_some());
    if unit.pool.as_ref().is_some_and(has_ended) {
        unit.pool = None;
    }
}

/// Makes free units of a released pool general stock, as many as the batch may. `false` when some are left.
pub(super) fn empty<S: State>(
    context: &mut CommandContext<'_, S>,
    item: Item,
    pool: &Pool,
    at: Instant,
) -> Result<bool, DecideError> {
    let count = context.may_unpool(pool.free());
    if count == 0 {
        return Ok(false);
    }
    let free = context.state.free_units(&item.key, Some(&pool.name), count)?;
    if u32::try_from(free.len()) != Ok(count) {
        return Err(DecideError::InvariantViolated(
            "a pool's counters say that other units are free than are",
        ));
    }
    let units = pooled(free.into_iter())?;
    let event = EventId::of_pool_release(at, &item.key, super::add(item.version, 1)?);
    let is_empty = u64::from(count) == pool.free();
    move_units(context, event, item, None, units, at)?;
    Ok(is_empty)
}

fn pooled<'a>(
    units: impl Iterator<Item = &'a Unit>,
) -> Result<Vec<(Option<Label>, PooledUnit)>, DecideError> {
    let moved = |unit: &Unit| {
        let moved = PooledUnit { id: unit.id.clone(), version: next_version(unit.version)? };
        Ok((unit.pool.clone(), moved))
    };
    units.map(moved).collect()
}

/// Moves free units into a pool or out of one. Each comes with the pool that it was in.
fn move_units<S: State>(
    context: &mut CommandContext<'_, S>,
    event: EventId,
    item: Item,
    into: Option<&Label>,
    units: Vec<(Option<Label>, PooledUnit)>,
    at: Instant,
) -> Result<Outcome, DecideError> {
    let out_of_range = || DecideError::InvariantViolated("a pool has other units than its counters say");
    let mut pools = item.pools.clone();
    let mut moved: BTreeMap<&Label, i64> = BTreeMap::new();
    for (from, _) in &units {
        for (pool, by) in [(from.as_ref(), -1), (into, 1)] {
            if let Some(pool) = pool {
                *moved.entry(pool).or_default() += by;
            }
        }
    }
    for (name, by) in moved {
        let pool = pools.get(name).ok_or_else(out_of_range)?;
        let allocated = pool.terms.allocated.checked_add_signed(by).ok_or_else(out_of_range)?;
        let used_at = if into == Some(name) { at.max(pool.used_at) } else { pool.used_at };
        pools = pools.with(Pool { used_at, ..pool.with_allocated(allocated) });
    }
    let total = item.figures.total_units;
    let item = Item { pools: pools.without_oldest_former(), ..item };
    let units = units.into_iter().map(|(_, unit)| unit).collect();
    changed_by(context, event, item, total, StockChange::UnitsPooled { pool: into.cloned(), units }, at)
}

/// The pools of an item after a free unit of it was retired.
pub(super) fn without_unit(pools: &Pools, unit: &Unit) -> Result<Pools, DecideError> {
    let Some(name) = &unit.pool else { return Ok(pools.clone()) };
    let pool = pools.get(name);
    let allocated = pool.and_then(|pool| Some((pool, pool.terms.allocated.checked_sub(1)?)));
    let (pool, allocated) =
        allocated.ok_or(DecideError::InvariantViolated("a unit is in a pool that its item does not have"))?;
    Ok(pools.with(pool.with_allocated(allocated)))
}

pub(super) fn set<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &SetUnitPool,
    now: Instant,
) -> Result<Outcome, DecideError> {
    if let Some(rejection) = malformed(&command.units) {
        return Ok(Outcome::Refused(rejection));
    }
    let item = match existing_item(context, &command.item, command.expected.as_ref())? {
        Ok(item) if item.mode == Mode::Units => item,
        Ok(item) => return Ok(Outcome::Refused(Rejection::ModeMismatch { item: item.key, mode: item.mode })),
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let known = item.pools.get(&command.pool);
    if !command.puts_in && known.is_none() {
        let pool = command.pool.clone();
        return Ok(Outcome::Refused(Rejection::UnknownPool { item: item.key, pool }));
    }
    let is_new = known.is_none_or(Pool::is_former);
    if command.puts_in && is_new && item.pools.current().count() >= POOLS {
        return Ok(Outcome::Refused(Rejection::TooManyPools(item.key)));
    }
    let at = now.max(item.figures.at);
    if !release_due(context, &item.key, at)? {
        return Ok(Outcome::Later);
    }
    let named = match named(context, &item.key, &command.units)? {
        Ok(named) => named,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let target = command.puts_in.then_some(&command.pool);
    let is_to_move = |unit: &Unit| match target {
        Some(pool) => unit.pool.as_ref() != Some(pool),
        None => unit.pool.as_ref() == Some(&command.pool),
    };
    let mut moving = Vec::with_capacity(named.len());
    for id in named {
        if is_to_move(unit_of(context, &item.key, &id)?) {
            moving.push(id);
        }
    }
    for due in due_holders(context, &item.key, &moving, at)? {
        if !context.may_expire() {
            return Ok(Outcome::Later);
        }
        expire(context, due, at)?;
    }
    let mut moved = Vec::with_capacity(moving.len());
    for id in &moving {
        let unit = unit_of(context, &item.key, id)?;
        // An expired hold may have taken it out of a pool that was released.
        if !is_to_move(unit) {
            continue;
        }
        if unit.status != UnitStatus::Available {
            let (item, unit, status) = (item.key, unit.id.clone(), unit.status);
            return Ok(Outcome::Refused(Rejection::UnitInUse { item, unit, status }));
        }
        moved.push(unit);
    }
    let moved = pooled(moved.into_iter())?;
    apply(context, command, target, moved, now)
}

/// Declares the pool if it is needed, and moves units.
fn apply<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &SetUnitPool,
    target: Option<&Label>,
    moved: Vec<(Option<Label>, PooledUnit)>,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let mut item = item_of(context, &command.item)?.clone();
    let at = now.max(item.figures.at);
    let mut created = false;
    let known = item.pools.get(&command.pool);
    if target.is_some() && known.is_none_or(|pool| pool.released_at.is_some()) {
        created = known.is_none_or(Pool::is_former);
        if created && item.pools.current().count() >= POOLS {
            return Ok(Outcome::Refused(Rejection::TooManyPools(item.key)));
        }
        let (held, sold) = known.map_or((0, 0), |pool| (pool.held, pool.sold));
        let allocated = known.map_or(0, |pool| pool.terms.allocated);
        let terms = PoolTerms { allocated, fallback: true, releases_at: None, idle_release: None };
        let pool = Pool { name: command.pool.clone(), terms, held, sold, used_at: at, released_at: None };
        let change = StockChange::PoolSet { pool: pool.name.clone() };
        put(context, context.fresh.event, item, pool, change, at)?;
        item = item_of(context, &command.item)?.clone();
        if moved.is_empty() {
            return Ok(Outcome::Done(Reply::Item { item, created }));
        }
        move_units(context, context.fresh.event.nth(1), item, target, moved, at)?;
    } else {
        if moved.is_empty() {
            return Ok(Outcome::Done(Reply::Item { item, created }));
        }
        move_units(context, context.fresh.event, item, target, moved, at)?;
    }
    let item = item_of(context, &command.item)?.clone();
    Ok(Outcome::Done(Reply::Item { item, created }))
}

fn item_of<'s, S: State>(context: &'s CommandContext<'_, S>, key: &ItemKey) -> Result<&'s Item, DecideError> {
    let item = context.state.item(key)?;
    item.ok_or(DecideError::InvariantViolated("an item disappeared within a command"))
}

fn unit_of<'s, S: State>(
    context: &'s CommandContext<'_, S>,
    item: &ItemKey,
    id: &Label,
) -> Result<&'s Unit, DecideError> {
    let unit = context.state.unit(item, id)?;
    unit.ok_or(DecideError::InvariantViolated("a unit disappeared within a command"))
}

/// Checks a selection without looking at the item.
fn malformed(selection: &PoolSelection) -> Option<Rejection> {
    let (names, most, field, what) = match selection {
        PoolSelection::Units(ids) => (ids, UNITS_AT_ONCE, "units", "units"),
        PoolSelection::Sections(names) => (names, SECTIONS, "sections", "sections"),
    };
    if names.is_empty() || names.len() > most {
        let detail = format!("must be 1 to {most} {what}, and is {}", names.len());
        return Some(Rejection::invalid(&format!("/{field}"), detail));
    }
    let mut known = BTreeSet::new();
    let place = names.iter().position(|name| !known.insert(name))?;
    Some(Rejection::invalid(&format!("/{field}/{place}"), "must not occur twice".to_string()))
}

/// The ids of the units that a selection names. All of them exist.
fn named<S: State>(
    context: &CommandContext<'_, S>,
    key: &ItemKey,
    selection: &PoolSelection,
) -> Result<Result<Vec<Label>, Rejection>, DecideError> {
    match selection {
        PoolSelection::Units(ids) => {
            for id in ids {
                if context.state.unit(key, id)?.is_none() {
                    return Ok(Err(Rejection::UnknownUnit { item: key.clone(), unit: id.clone() }));
                }
            }
            Ok(Ok(ids.clone()))
        }
        PoolSelection::Sections(names) => {
            let unit_index = context.state.unit_index(key)?;
            let is_unknown = |name: &Label| unit_index.is_none_or(|units| !units.has_section(name));
            if let Some(place) = names.iter().position(is_unknown) {
                let detail = "is no section of the item".to_string();
                return Ok(Err(Rejection::invalid(&format!("/sections/{place}"), detail)));
            }
            let units = unit_index.into_iter().flat_map(|units| units.of_sections(names));
            let ids: Vec<Label> = units.take(UNITS_AT_ONCE + 1).map(|unit| unit.id.clone()).collect();
            if ids.len() > UNITS_AT_ONCE {
                let detail = format!("must have at most {UNITS_AT_ONCE} units together");
                return Ok(Err(Rejection::invalid("/sections", detail)));
            }
            Ok(Ok(ids))
        }
    }
}
