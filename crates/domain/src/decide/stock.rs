//! What operators do: set and adjust stock, pause and resume.

use super::{Halt, Run, add};
use crate::bug;
use crate::command::{AdjustStock, SetSale, SetStock};
use crate::event::{StockChange, Subject, Transition};
use crate::item::{Figures, Item, Mode, Settings};
use crate::limits::TOTAL_UNITS;
use crate::outcome::{Outcome, Reply};
use crate::rejection::Rejection;
use crate::state::{Scope, State};
use crate::time::Instant;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;

pub(super) fn set<S: State>(run: &mut Run<'_, S>, command: &SetStock, now: Instant) -> Result<Outcome, Halt> {
    if command.mode == Some(Mode::Units) {
        let detail =
            "units with ids of their own are not offered yet: leave it out, or say counted".to_string();
        return Ok(Outcome::Refused(Rejection::invalid("/mode", detail)));
    }
    if command.total_units > TOTAL_UNITS {
        let detail = format!("must be at most {TOTAL_UNITS}");
        return Ok(Outcome::Refused(Rejection::invalid("/total_units", detail)));
    }
    let before = run.state.item(&command.item)?.cloned();
    if let Some(expected) = command.expected_version.filter(|_| !bug!("versions-are-not-compared")) {
        let version = before.as_ref().map(|item| item.version);
        if version != Some(expected) {
            return Ok(Outcome::Refused(Rejection::PreconditionFailed { version }));
        }
    }
    let Some(before) = before else { return Ok(create(run, command, now)) };
    if let Some(rejection) = below_committed(&before, command.total_units) {
        return Ok(Outcome::Refused(rejection));
    }
    let settings = merged(&before.settings, command);
    if settings == *before.settings && command.total_units == before.figures.total_units {
        return Ok(Outcome::Done(Reply::Item { item: before, created: false }));
    }
    let item = Item { settings: Arc::new(settings), ..before };
    changed(run, item, command.total_units, StockChange::Set, now)
}

fn create<S: State>(run: &mut Run<'_, S>, command: &SetStock, now: Instant) -> Outcome {
    let item = Item {
        key: command.item.clone(),
        mode: Mode::Counted,
        figures: Figures {
            total_units: command.total_units,
            confirmed_sold: 0,
            held: 0,
            active: 0,
            sequence: 1,
            at: now,
        },
        settings: Arc::new(merged(&Settings::default(), command)),
        version: 1,
        paused: false,
        created_at: now,
    };
    run.emit(run.fresh.event, now, None, Transition::Stock { change: StockChange::Set, item: item.clone() });
    Outcome::Done(Reply::Item { item, created: true })
}

pub(super) fn adjust<S: State>(
    run: &mut Run<'_, S>,
    command: &AdjustStock,
    now: Instant,
) -> Result<Outcome, Halt> {
    let before = run.state.item(&command.item)?.cloned();
    if let Some(expected) = command.expected_version {
        let version = before.as_ref().map(|item| item.version);
        if version != Some(expected) {
            return Ok(Outcome::Refused(Rejection::PreconditionFailed { version }));
        }
    }
    let Some(before) = before else {
        return Ok(Outcome::Refused(Rejection::UnknownItem(vec![command.item.clone()])));
    };
    let total = before.figures.total_units.checked_add_signed(command.delta);
    let total = match total {
        Some(total) if total <= TOTAL_UNITS => total,
        _ if command.delta < 0 => return Ok(Outcome::Refused(committed(&before))),
        _ => {
            let detail = format!("would bring the item past {TOTAL_UNITS} units");
            return Ok(Outcome::Refused(Rejection::invalid("/delta", detail)));
        }
    };
    if let Some(rejection) = below_committed(&before, total) {
        return Ok(Outcome::Refused(rejection));
    }
    let change = StockChange::Adjusted { delta: command.delta, reason: command.reason.clone() };
    run.remember(Subject::Item(before.key.clone()), now.max(before.figures.at));
    changed(run, before, total, change, now)
}

fn changed<S: State>(
    run: &mut Run<'_, S>,
    before: Item,
    total_units: u64,
    change: StockChange,
    now: Instant,
) -> Result<Outcome, Halt> {
    let at = now.max(before.figures.at);
    let item = Item {
        figures: Figures { total_units, sequence: add(before.figures.sequence, 1)?, at, ..before.figures },
        version: add(before.version, 1)?,
        ..before
    };
    run.emit(run.fresh.event, at, None, Transition::Stock { change, item: item.clone() });
    Ok(Outcome::Done(Reply::Item { item, created: false }))
}

fn below_committed(item: &Item, total: u64) -> Option<Rejection> {
    let held = if bug!("stock-may-fall-below-what-is-held") { 0 } else { item.figures.held };
    let fits = item.figures.confirmed_sold.checked_add(held).is_some_and(|sum| sum <= total);
    (!fits).then(|| committed(item))
}

fn committed(item: &Item) -> Rejection {
    let Figures { confirmed_sold, held, total_units, .. } = item.figures;
    Rejection::BelowCommitted { confirmed_sold, held, total_units }
}

fn merged(before: &Settings, command: &SetStock) -> Settings {
    Settings {
        safety_stock: command.safety_stock.unwrap_or(before.safety_stock),
        default_ttl: command.default_ttl.or(before.default_ttl),
        max_hold: command.max_hold.or(before.max_hold),
        metadata: command.metadata.clone().or_else(|| before.metadata.clone()),
    }
}

pub(super) fn set_sale<S: State>(
    run: &mut Run<'_, S>,
    command: &SetSale,
    now: Instant,
) -> Result<Outcome, Halt> {
    let before = match &command.scope {
        Scope::Everything => run.state.paused(None)?,
        Scope::Location(location) => run.state.paused(Some(location.as_str()))?,
        Scope::Item(key) => match run.state.item(key)? {
            Some(item) => item.paused,
            None => return Ok(Outcome::Refused(Rejection::UnknownItem(vec![key.clone()]))),
        },
    };
    if before != command.paused {
        let SetSale { scope, paused, reason } = command.clone();
        run.emit(run.fresh.event, now, None, Transition::Sale { scope, paused, reason });
    }
    Ok(Outcome::Done(Reply::Sale { paused: command.paused }))
}
