//! Checks each event against the state that all events before it left.

use super::{Checked, broken};
use stockhold_domain::{
    CounterEffect, Event, Hold, HoldChange, Item, Line, Mode, Status, StockChange, StockCounters, Transition,
};
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
            moved(before, change, hold, event)?;
            units(state, event)?;
            for (n, (line, after)) in hold.lines.iter().zip(figures).enumerate() {
                let Some(item) = state.items.get(&line.item) else {
                    // A line that came back before its item was deleted.
                    if change.effect(line, n) == CounterEffect::default() {
                        continue;
                    }
                    return broken("S12", format!("an item that is not there: {event:?}"));
                };
                counted(item, change, line, n, after)?;
                if after.at != event.at && after != &item.figures {
                    return broken("S11", format!("an item's instant is not the event's: {event:?}"));
                }
            }
            Ok(())
        }
        Transition::Stock { change, item } => {
            units(state, event)?;
            let before = state.items.get(&item.key);
            if *change == StockChange::Deleted && !before.is_some_and(deletable) {
                return broken("S12", format!("an item in use was deleted: {before:?}"));
            }
            stocked(before, item)
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

fn moved(before: Option<&Hold>, change: &HoldChange, hold: &Hold, event: &Event) -> Checked {
    if hold.last_event != event.id || event.previous != before.map(|before| before.last_event) {
        return broken("S12", format!("the chain of its events is broken: {event:?}, before it {before:?}"));
    }
    let Some(before) = before else {
        let fresh = *change == HoldChange::Created && hold.status == Status::Active;
        return if fresh { Ok(()) } else { broken("S3", format!("nothing was there: {event:?}")) };
    };
    let wrong = |rule, words: &str| broken(rule, format!("{words}: {event:?}, before it {before:?}"));
    let expected =
        if matches!(change, HoldChange::Returned { .. }) { Status::Confirmed } else { Status::Active };
    if before.status != expected {
        return wrong("S3", "it had ended, or was never sold");
    }
    let terms = before.terms == hold.terms && before.lines.len() == hold.lines.len();
    if !terms || before.lines.iter().zip(&*hold.lines).any(|(line, next)| !same_line(line, next)) {
        return wrong("S2", "its terms or lines changed");
    }
    let due = event.at >= before.expires_at;
    match change {
        HoldChange::Created => wrong("S3", "it was made twice"),
        HoldChange::Expired if !due => wrong("S5", "it expired early"),
        HoldChange::Confirmed | HoldChange::Cancelled | HoldChange::Extended if due => {
            wrong("S3", "it was due")
        }
        HoldChange::Extended
            if hold.expires_at <= before.expires_at || hold.expires_at > hold.terms.max_expires_at =>
        {
            wrong("S9", "it was not extended, or past its cap")
        }
        HoldChange::Extended => Ok(()),
        _ if hold.expires_at != before.expires_at => wrong("S2", "its deadline moved"),
        _ => Ok(()),
    }
}

/// Whether the granted units are equal. Returned units may differ.
fn same_line(one: &Line, other: &Line) -> bool {
    let ids = |line: &Line| line.units().iter().map(|unit| unit.id.clone()).collect::<Vec<_>>();
    (&one.item, one.requested, one.quantity) == (&other.item, other.requested, other.quantity)
        && ids(one) == ids(other)
}

/// Checks the change of the counters of one line's item.
fn counted(item: &Item, change: &HoldChange, line: &Line, n: usize, after: &StockCounters) -> Checked {
    let (units, back) = (i128::from(line.quantity), returned(change, n));
    let (turn, held, sold) = match change {
        HoldChange::Created => (1, units, 0),
        HoldChange::Extended => (0, 0, 0),
        HoldChange::Confirmed => (1, -units, units),
        HoldChange::Cancelled | HoldChange::Expired => (1, -units, 0),
        HoldChange::Returned { .. } => (i128::from(back > 0), 0, -back),
    };
    // Units with ids have versions of their own, so their item has no sequence.
    let turn = if item.mode == Mode::Units { 0 } else { turn };
    let before = &item.figures;
    let moves = [
        (before.sequence, after.sequence, turn),
        (before.held, after.held, held),
        (before.confirmed_sold, after.confirmed_sold, sold),
        (before.total_units, after.total_units, 0),
    ];
    if moves.iter().any(|(before, after, by)| i128::from(*before) + by != i128::from(*after)) {
        return broken("S8", format!("{change:?} of {line:?}: {before:?} became {after:?}"));
    }
    if u128::from(after.held) + u128::from(after.confirmed_sold) > u128::from(after.total_units) {
        return broken("S1", format!("oversold by {line:?}: {after:?}"));
    }
    if turn == 1 && line.sequence != after.sequence {
        return broken("S11", format!("{line:?} does not have its turn's number: {after:?}"));
    }
    if line.quantity == 0 || line.quantity > line.requested || line.returned > line.quantity {
        return broken("S10", format!("{line:?}"));
    }
    if after.at < before.at {
        return broken("S11", format!("time ran backwards for {:?}: {before:?} became {after:?}", item.key));
    }
    Ok(())
}

fn returned(change: &HoldChange, n: usize) -> i128 {
    match change {
        HoldChange::Returned { quantities, .. } => quantities.get(n).map_or(0, |back| i128::from(*back)),
        _ => 0,
    }
}

fn stocked(before: Option<&Item>, after: &Item) -> Checked {
    let turn = u64::from(after.mode == Mode::Counted);
    let Some(before) = before else {
        let first = (after.figures.sequence, after.figures.held, after.figures.confirmed_sold);
        return if first == (turn, 0, 0) && after.version == Item::first_version(after.created_at) {
            Ok(())
        } else {
            broken("S12", format!("a new item: {after:?}"))
        };
    };
    let (old, new) = (&before.figures, &after.figures);
    let same = after.mode == before.mode
        && (old.held, old.confirmed_sold, old.active) == (new.held, new.confirmed_sold, new.active);
    let next = new.sequence == old.sequence + turn && after.version == before.version + 1 && new.at >= old.at;
    let fits = new.held.checked_add(new.confirmed_sold).is_some_and(|sum| sum <= new.total_units);
    if same && next && fits {
        return Ok(());
    }
    broken("S1", format!("stock moved from {before:?} to {after:?}"))
}
