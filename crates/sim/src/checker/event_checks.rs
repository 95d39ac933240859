//! Checks each event against the state that all events before it left. The rules that an event has to follow are written
//! here once more: the checks of reservations ([`hold_checks`]), of their lines ([`line_checks`]) and of the counters
//! ([`counter_checks`]) do not ask the rules of the store.

use super::hold_checks::HoldTransition;
use super::{Checked, backorder_checks, broken, counter_checks, hold_checks, limit_checks};
use stockhold_domain::{Event, Item, Mode, Pool, StockChange, StockCounters, Transition};
use stockhold_model::NaiveState;
use stockhold_store::ledger::deletable;
use stockhold_store::{ledger, unit_transitions};

/// Checks that an event may follow the current state.
pub(super) fn check(state: &NaiveState, event: &Event) -> Checked {
    match &event.transition {
        Transition::Hold { change, hold, figures, limits } => {
            if hold.lines.len() != figures.len() {
                return broken("S12", format!("lines and figures differ in number: {event:?}"));
            }
            let before = state.holds.get(&hold.id);
            hold_checks::check_chain(before, event, hold)?;
            match before {
                None => hold_checks::check_new(state, event, change, hold)?,
                Some(before) => HoldTransition { state, event, change, before, after: hold }.check()?,
            }
            units(state, event)?;
            counter_checks::check(state, event, before, hold, figures)?;
            backorder_checks::check(state, event, before, hold, figures)?;
            limit_checks::check(state, event, (change, before, hold), limits.as_deref())
        }
        Transition::Stock { change, item } => {
            units(state, event)?;
            let before = state.items.get(&item.key);
            if *change == StockChange::Deleted && !before.is_some_and(deletable) {
                return broken("S12", format!("an item in use was deleted: {before:?}"));
            }
            stocked(before, change, item)
        }
        Transition::Sale { .. } => Ok(()),
        Transition::Limit { limit } => limit_checks::check_limit(state, event, limit),
        Transition::Record { record, .. } => {
            match ledger::record_violations(state.records.get(&record.key), record).into_iter().next() {
                Some(odd) => broken("S12", format!("{odd}: {event:?}")),
                None => Ok(()),
            }
        }
    }
}

/// Checks that the status of units may change this way.
fn units(state: &NaiveState, event: &Event) -> Checked {
    match unit_transitions::violations(|item| state.unit_indexes.get(item), &event.transition)
        .into_iter()
        .next()
    {
        Some(odd) => broken("S3", format!("{odd}: {event:?}")),
        None => Ok(()),
    }
}

/// Checks an operator's change of an item. It changes the total and no counter of reservations.
fn stocked(before: Option<&Item>, change: &StockChange, after: &Item) -> Checked {
    let turn = u64::from(after.mode == Mode::Counted);
    let new = &after.figures;
    let Some(before) = before else {
        let empty = StockCounters {
            total_units: new.total_units,
            sequence: turn,
            ..StockCounters::none(after.created_at)
        };
        let is_first = *new == empty && after.version == Item::first_version(after.created_at);
        return if is_first && *change == StockChange::Set {
            Ok(())
        } else {
            broken("S12", format!("a new item: {after:?}"))
        };
    };
    let old = &before.figures;
    let total = i128::from(old.total_units)
        + match change {
            StockChange::Set if after.mode == Mode::Counted => {
                i128::from(new.total_units) - i128::from(old.total_units)
            }
            StockChange::Set
            | StockChange::Deleted
            | StockChange::PoolSet { .. }
            | StockChange::PoolDeleted { .. }
            | StockChange::PoolReleased { .. }
            | StockChange::UnitsPooled { .. } => 0,
            StockChange::Adjusted { delta, .. } => i128::from(*delta),
            StockChange::UnitsAdded(units) => units.len() as i128,
            StockChange::UnitsRetired(units) => -(units.len() as i128),
        };
    let expected =
        StockCounters { total_units: new.total_units, sequence: old.sequence + turn, at: new.at, ..*old };
    let follows = after.mode == before.mode
        && *new == expected
        && i128::from(new.total_units) == total
        && new.at >= old.at
        && after.version == before.version + 1
        && pools_follow(before, change, after);
    let sellable = u128::from(new.total_units) + u128::from(after.settings.oversell_allowance);
    let promised =
        u128::from(new.held) + u128::from(new.confirmed_sold) + u128::from(after.pools.set_aside());
    let fits = promised <= sellable && new.fulfilled <= new.total_units;
    if follows && fits {
        return Ok(());
    }
    broken("S1", format!("stock moved from {before:?} to {after:?} by {change:?}"))
}

/// Whether an operator's change moves no other pool than the one that it names. A write-off takes units of pools off what they set aside.
fn pools_follow(before: &Item, change: &StockChange, after: &Item) -> bool {
    let (named, ended) = match change {
        StockChange::PoolSet { pool } => (Some(pool), false),
        StockChange::PoolDeleted { pool } | StockChange::PoolReleased { pool } => (Some(pool), true),
        StockChange::Adjusted { .. } => {
            let drawn = |item: &Item| item.pools.all().iter().map(Pool::drawn).sum::<u64>();
            return drawn(before) == drawn(after) && after.pools.allocated() <= before.pools.allocated();
        }
        // The model says what units that move, are retired or are written off do to pools.
        StockChange::UnitsPooled { .. } | StockChange::UnitsRetired(_) => {
            let drawn = |item: &Item| item.pools.all().iter().map(Pool::drawn).sum::<u64>();
            return drawn(before) == drawn(after);
        }
        _ => (None, false),
    };
    let is_other = |pool: &&Pool| Some(&pool.name) != named && !pool.is_former();
    let stays = before.pools.all().iter().filter(is_other).eq(after.pools.all().iter().filter(is_other));
    let Some(pool) = named else { return stays };
    let pool = after.pools.get(pool);
    stays
        && pool.is_some_and(|pool| {
            // Free units with ids leave a released pool in events of their own.
            let is_emptied = after.mode == Mode::Units || pool.free() == 0;
            pool.released_at.is_some() == ended && (!ended || is_emptied)
        })
}
