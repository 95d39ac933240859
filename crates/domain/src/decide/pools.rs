//! Pools: what of a line is drawn from them, how their counters move, when they are released, and the commands of operators on them.
//! [`super::unit_pools`] has what units with ids need beside it.

use super::hold::expire;
use super::stock::{changed_by, committed, existing_item};
use super::{CommandContext, DecideError, unit_pools};
use crate::command::{DeletePool, SetPool};
use crate::event::{HoldChange, StockChange};
use crate::hold::{Hold, Line, Status};
use crate::id::EventId;
use crate::item::{Item, ItemKey, Mode};
use crate::label::Label;
use crate::limits::{POOLS, TOTAL_UNITS};
use crate::outcome::{Outcome, Reply};
use crate::pool::{Pool, PoolDraw, PoolEffect, Pools, PoolsAfter};
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

/// The draws of a line of which this many units stay: general stock leaves first, then pools in the reverse order of their
/// names.
pub(super) fn kept(draws: &[PoolDraw], units: u32) -> Vec<PoolDraw> {
    let mut left = units;
    let mut keep = |draw: &PoolDraw| {
        let units = draw.units.min(left);
        left -= units;
        PoolDraw { units, ..draw.clone() }
    };
    draws.iter().map(&mut keep).filter(|draw| draw.units > 0).collect()
}

/// The draws that are missing from `kept`.
pub(super) fn rest(draws: &[PoolDraw], kept: &[PoolDraw]) -> Vec<PoolDraw> {
    let stays = |pool: &Label| kept.iter().find(|draw| draw.pool == *pool).map_or(0, |draw| draw.units);
    let left =
        |draw: &PoolDraw| PoolDraw { units: draw.units.saturating_sub(stays(&draw.pool)), ..draw.clone() };
    draws.iter().map(left).filter(|draw| draw.units > 0).collect()
}

/// Two lists of draws together.
pub(super) fn sum(one: &[PoolDraw], other: &[PoolDraw]) -> Vec<PoolDraw> {
    let mut all: BTreeMap<&Label, u32> = BTreeMap::new();
    for draw in one.iter().chain(other) {
        let units = all.entry(&draw.pool).or_default();
        *units = units.saturating_add(draw.units);
    }
    all.into_iter().map(|(pool, units)| PoolDraw { pool: pool.clone(), units }).collect()
}

/// What a line draws of these units that it gets: from the pool as far as it goes.
pub(super) fn draw(item: &Item, pool: Option<&Label>, units: u32) -> Option<PoolDraw> {
    let pool = item.pools.get(pool?)?;
    let units = units.min(u32::try_from(pool.free()).unwrap_or(u32::MAX));
    (units > 0).then(|| PoolDraw { pool: pool.name.clone(), units })
}

/// Whether a line of the hold has units of pools.
pub(super) fn has_draws(hold: &Hold) -> bool {
    hold.lines.iter().any(|line| !line.details().draws.is_empty())
}

/// The pools after a change of a reservation, for each line whose item's pools move. `before` is the reservation before it, if it had
/// units of pools.
pub(super) fn effects<S: State>(
    context: &CommandContext<'_, S>,
    before: Option<&Hold>,
    after: &Hold,
    change: &HoldChange,
    at: Instant,
) -> Result<Box<[PoolsAfter]>, DecideError> {
    if before.is_none() && !has_draws(after) {
        return Ok(Box::default());
    }
    let lines_before: BTreeMap<_, _> =
        before.iter().flat_map(|hold| &*hold.lines).map(|line| (&line.item, line)).collect();
    // A split and a merge move units that were drawn before.
    let draws = matches!(change, HoldChange::Created | HoldChange::Amended { .. });
    let mut moved = Vec::new();
    for (line, number) in after.lines.iter().zip(0..) {
        let mut effects: BTreeMap<&Label, PoolEffect> = BTreeMap::new();
        let before = before.and_then(|hold| Some((hold.status, *lines_before.get(&line.item)?)));
        add_draws(&mut effects, before, -1);
        add_draws(&mut effects, Some((after.status, line)), 1);
        effects.retain(|_, effect| *effect != PoolEffect::default());
        if effects.is_empty() {
            continue;
        }
        let item = context.state.item(&line.item)?;
        let item = item.ok_or(DecideError::InvariantViolated("an item went away that has units of pools"))?;
        let mut pools = item.pools.clone();
        for (name, effect) in effects {
            let drawn_at = (draws && effect.held > 0).then_some(at);
            let pool = pools.get(name).and_then(|pool| pool.after(&PoolEffect { drawn_at, ..effect }));
            pools =
                pools.with(pool.ok_or(DecideError::InvariantViolated("a pool's counter left its range"))?);
        }
        moved.push(PoolsAfter { line: number, pools });
    }
    Ok(moved.into())
}

fn add_draws<'a>(effects: &mut BTreeMap<&'a Label, PoolEffect>, line: Option<(Status, &'a Line)>, sign: i64) {
    let Some((status, line)) = line else { return };
    for draw in &line.details().draws {
        let effect = effects.entry(&draw.pool).or_default();
        let units = i64::from(draw.units) * sign;
        match status {
            Status::Active => effect.held += units,
            Status::Confirmed => effect.sold += units,
            Status::Cancelled | Status::Expired => {}
        }
    }
}

/// The pools of an item after units that were drawn are lost: they are set aside no more.
pub(super) fn without_lost(pools: &Pools, lost: &[PoolDraw]) -> Result<Pools, DecideError> {
    let mut pools = pools.clone();
    for draw in lost {
        // A released pool has no more than what is drawn, so it has lost them already.
        let Some(pool) = pools.get(&draw.pool).filter(|pool| pool.released_at.is_none()) else { continue };
        let allocated = pool.terms.allocated.checked_sub(u64::from(draw.units));
        let allocated =
            allocated.ok_or(DecideError::InvariantViolated("a pool has fewer units than were drawn"))?;
        pools = pools.with(pool.with_allocated(allocated));
    }
    Ok(pools)
}

/// Releases the pools of an item whose time has come. `false` when the batch has no expiries left.
pub(super) fn release_due<S: State>(
    context: &mut CommandContext<'_, S>,
    key: &ItemKey,
    now: Instant,
) -> Result<bool, DecideError> {
    loop {
        let Some(item) = context.state.item(key)? else { return Ok(true) };
        let at = now.max(item.figures.at);
        let due = |pool: &&Pool| pool.release_due_at().is_some_and(|due| due <= at);
        let Some(pool) = item.pools.all().iter().find(due) else { return Ok(true) };
        let (pool, item) = (pool.clone(), item.clone());
        if pool.released_at.is_some() {
            if !unit_pools::empty(context, item, &pool, at)? {
                return Ok(false);
            }
            continue;
        }
        if !context.may_expire() {
            return Ok(false);
        }
        let pool = released(&pool, item.mode, at);
        let change = StockChange::PoolReleased { pool: pool.name.clone() };
        let event = EventId::of_pool_release(at, key, super::add(item.version, 1)?);
        put(context, event, item, pool, change, at)?;
    }
}

/// A pool after it was released.
fn released(pool: &Pool, mode: Mode, at: Instant) -> Pool {
    match mode {
        Mode::Counted => pool.released(at),
        Mode::Units => pool.released_with_units(at),
    }
}

/// The refusal of a pool that no item of a request has or had.
pub(super) fn unknown_pool<'a, S: State>(
    context: &CommandContext<'_, S>,
    pool: Option<&Label>,
    items: impl Iterator<Item = &'a ItemKey>,
) -> Result<Option<Rejection>, DecideError> {
    let Some(pool) = pool else { return Ok(None) };
    for key in items {
        if context.state.item(key)?.is_some_and(|item| item.pools.get(pool).is_some()) {
            return Ok(None);
        }
    }
    Ok(Some(Rejection::invalid("/pool", format!("is no pool of an item of the request: {pool}"))))
}

pub(super) fn set<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &SetPool,
    now: Instant,
) -> Result<Outcome, DecideError> {
    if command.allocated.is_some_and(|allocated| allocated > TOTAL_UNITS) {
        let detail = format!("must be at most {TOTAL_UNITS}");
        return Ok(Outcome::Refused(Rejection::invalid("/allocated", detail)));
    }
    let item = match existing_item(context, &command.item, command.expected.as_ref())? {
        Ok(item) => item,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let detail = match (item.mode, command.allocated) {
        (Mode::Counted, None) => Some("is missing: it says how many units are set aside"),
        (Mode::Units, Some(_)) => {
            Some("must be left out if units have ids: they are put into the pool by their ids")
        }
        (Mode::Counted, Some(_)) | (Mode::Units, None) => None,
    };
    if let Some(detail) = detail {
        return Ok(Outcome::Refused(Rejection::invalid("/allocated", detail.to_string())));
    }
    let known = item.pools.get(&command.pool);
    let same = |pool: &Pool| pool.terms == command.terms(command.allocated.unwrap_or(pool.terms.allocated));
    if known.is_some_and(|pool| pool.released_at.is_none() && same(pool)) {
        return Ok(Outcome::Done(Reply::Item { item, created: false }));
    }
    let at = now.max(item.figures.at);
    // Set again with a time that has passed, a pool would be released again at once.
    let ends_again =
        |pool: &Pool| pool.released_at.is_some() && pool.terms.releases_at == command.releases_at;
    if command.releases_at.is_some_and(|ends| ends <= at) && known.is_some_and(ends_again) {
        return Ok(Outcome::Done(Reply::Item { item, created: false }));
    }
    let created = known.is_none_or(Pool::is_former);
    if created && item.pools.current().count() >= POOLS {
        return Ok(Outcome::Refused(Rejection::TooManyPools(item.key)));
    }
    if !release_due(context, &command.item, at)? {
        return Ok(Outcome::Later);
    }
    if let Some(allocated) = command.allocated {
        match expire_until_units_are_free(context, command, allocated, at)? {
            Headroom::There => {}
            Headroom::Refused(rejection) => return Ok(Outcome::Refused(rejection)),
            Headroom::Later => return Ok(Outcome::Later),
        }
    }
    let item = context.state.item(&command.item)?.cloned();
    let item = item.ok_or(DecideError::InvariantViolated("an item disappeared within a command"))?;
    let known = item.pools.get(&command.pool);
    let (held, sold) = known.map_or((0, 0), |pool| (pool.held, pool.sold));
    let has = known.map_or(0, |pool| pool.terms.allocated);
    let at = now.max(item.figures.at);
    let pool = Pool {
        name: command.pool.clone(),
        terms: command.terms(command.allocated.unwrap_or(has)),
        held,
        sold,
        used_at: at,
        released_at: None,
    };
    // Its release may be in the past. Then it is part of this command, so the batch must be able to make it.
    if pool.release_due_at().is_some_and(|due| due <= at) && !context.has_expiries_left() {
        return Ok(Outcome::Later);
    }
    let (key, change) = (item.key.clone(), StockChange::PoolSet { pool: pool.name.clone() });
    put(context, context.fresh.event, item, pool, change, at)?;
    // Units that a batch can't take out of the released pool leave it in later batches.
    release_due(context, &key, at)?;
    let item = context.state.item(&key)?.cloned();
    let item = item.ok_or(DecideError::InvariantViolated("an item disappeared within a command"))?;
    Ok(Outcome::Done(Reply::Item { item, created }))
}

/// Whether an item has the units that a pool is to have.
enum Headroom {
    There,
    Refused(Rejection),
    Later,
}

/// Checks that the units are free, after holds that are due were ended as far as it takes.
fn expire_until_units_are_free<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &SetPool,
    allocated: u64,
    now: Instant,
) -> Result<Headroom, DecideError> {
    loop {
        let item = context.state.item(&command.item)?;
        let item =
            item.ok_or(DecideError::InvariantViolated("an item disappeared within a command"))?.clone();
        let (drawn, had) = item.pools.get(&command.pool).map_or((0, 0), |pool| (pool.drawn(), pool.free()));
        // The allowance is for units that are not there, so it can't be set aside.
        let others = item.pools.set_aside().saturating_sub(had);
        let free = item.figures.total_units.saturating_sub(item.figures.committed()).saturating_sub(others);
        match allocated.checked_sub(drawn) {
            Some(wanted) if wanted <= free => return Ok(Headroom::There),
            _ => {}
        }
        let at = now.max(item.figures.at);
        match context.state.earliest(Some(&item.key))? {
            Some((due, id)) if due <= at => {
                if !context.may_expire() {
                    return Ok(Headroom::Later);
                }
                expire(context, id, at)?;
            }
            _ => return Ok(Headroom::Refused(committed(&item))),
        }
    }
}

/// Deletes a pool. What was drawn from it goes on as if it was released. Deleting it again changes nothing.
pub(super) fn delete<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &DeletePool,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let item = match existing_item(context, &command.item, command.expected.as_ref())? {
        Ok(item) => item,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let Some(pool) = item.pools.get(&command.pool) else {
        let pool = command.pool.clone();
        return Ok(Outcome::Refused(Rejection::UnknownPool { item: item.key, pool }));
    };
    if pool.released_at.is_some() {
        return Ok(Outcome::Done(Reply::Item { item, created: false }));
    }
    let at = now.max(item.figures.at);
    let (key, mode, name) = (item.key.clone(), item.mode, pool.name.clone());
    let (pool, change) = (released(pool, mode, at), StockChange::PoolDeleted { pool: name.clone() });
    let done = put(context, context.fresh.event, item, pool, change, at)?;
    if mode == Mode::Counted {
        return Ok(done);
    }
    // Free units that this batch may not take out any more are taken out by the next ones.
    let item = context.state.item(&key)?.cloned();
    if let Some(item) = item
        && let Some(pool) = item.pools.get(&name).filter(|pool| pool.free() > 0).cloned()
    {
        unit_pools::empty(context, item, &pool, at)?;
    }
    let item = context.state.item(&key)?.cloned();
    let item = item.ok_or(DecideError::InvariantViolated("an item disappeared within a command"))?;
    Ok(Outcome::Done(Reply::Item { item, created: false }))
}

/// Puts a pool into its item.
pub(super) fn put<S: State>(
    context: &mut CommandContext<'_, S>,
    event: EventId,
    item: Item,
    pool: Pool,
    change: StockChange,
    at: Instant,
) -> Result<Outcome, DecideError> {
    let item = Item { pools: item.pools.with(pool).without_oldest_former(), ..item };
    let total = item.figures.total_units;
    changed_by(context, event, item, total, change, at)
}
