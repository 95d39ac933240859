//! Checks each event against the state that all events before it left. The rules that an event has to follow are written
//! here once more: the checks of reservations ([`hold_checks`]), of their lines ([`line_checks`]) and of the counters
//! ([`counter_checks`]) do not ask the rules of the store.

use super::hold_checks::HoldTransition;
use super::{Checked, backorder_checks, broken, counter_checks, hold_checks};
use stockhold_domain::{Event, Item, Mode, StockChange, StockCounters, Transition};
use stockhold_store::ledger::deletable;
use stockhold_store::model::NaiveState;
use stockhold_store::{ledger, unit_transitions};

/// Checks that an event may follow the current state.
pub(super) fn check(state: &NaiveState, event: &Event) -> Checked {
    match &event.transition {
        Transition::Hold { change, hold, figures } => {
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
            backorder_checks::check(event, before, hold, figures)
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
    match unit_transitions::violations(|item| state.pools.get(item), &event.transition).into_iter().next() {
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
            StockChange::Set | StockChange::Deleted => 0,
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
        && after.version == before.version + 1;
    let sellable = u128::from(new.total_units) + u128::from(after.settings.oversell_allowance);
    let fits =
        u128::from(new.held) + u128::from(new.confirmed_sold) <= sellable && new.fulfilled <= new.total_units;
    if follows && fits {
        return Ok(());
    }
    broken("S1", format!("stock moved from {before:?} to {after:?} by {change:?}"))
}
