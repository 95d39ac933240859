//! Commands of operators: set and adjust stock, delete an item, pause and resume.

use super::hold::expire;
use super::{CommandContext, DecideError, add, next_sequence, prices};
use crate::command::{AdjustStock, DeleteItem, Patch, SetSale, SetStock};
use crate::event::{KeyTarget, StockChange, Transition};
use crate::id::EventId;
use crate::item::{Item, ItemKey, Mode, Settings, StockCounters, Supply};
use crate::limits::{SUPPLIES, TOTAL_UNITS};
use crate::outcome::{Outcome, Reply};
use crate::pool::Pools;
use crate::precondition::Precondition;
use crate::rejection::Rejection;
use crate::scope::Scope;
use crate::state::State;
use crate::time::Instant;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;

pub(super) fn set<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &SetStock,
    now: Instant,
) -> Result<Outcome, DecideError> {
    if let Some(rejection) = malformed(command) {
        return Ok(Outcome::Refused(rejection));
    }
    let before = match expected_item(context, &command.item, command.expected.as_ref())? {
        Ok(before) => before,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let (mode, total) = match total(before.as_ref(), command) {
        Ok(figures) => figures,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let settings = merged(before.as_ref().map(|item| &*item.settings), command);
    if let Some(rejection) = contradictory(&settings, mode) {
        return Ok(Outcome::Refused(rejection));
    }
    let Some(before) = before else { return Ok(create(context, command, mode, total, settings, now)) };
    if settings == *before.settings && total == before.figures.total_units {
        return Ok(Outcome::Done(Reply::Item { item: before, created: false }));
    }
    // An item that is handed over to another owner gets its total in the same command.
    let keeps_owner = settings.stock_master == before.settings.stock_master;
    if total != before.figures.total_units
        && keeps_owner
        && let Some(rejection) = owned_elsewhere(&before, command.override_owner)
    {
        return Ok(Outcome::Refused(rejection));
    }
    if let Some(rejection) = below_committed(&before, total, settings.oversell_allowance) {
        return Ok(Outcome::Refused(rejection));
    }
    let item = Item { settings: Arc::new(settings), ..before };
    changed(context, item, total, StockChange::Set, now)
}

/// The refusal of totals that are wrong whatever the item is.
fn malformed(command: &SetStock) -> Option<Rejection> {
    let counted = command.shelf.map(|shelf| shelf.on_hand.saturating_add(shelf.fulfilled_seen.unwrap_or(0)));
    if command.total_units.is_some() && counted.is_some() {
        let detail = "must be left out beside `total_units`".to_string();
        return Some(Rejection::invalid("/on_hand", detail));
    }
    if command.oversell_allowance.is_some_and(|allowance| allowance > TOTAL_UNITS) {
        let detail = format!("must be at most {TOTAL_UNITS}");
        return Some(Rejection::invalid("/oversell_allowance", detail));
    }
    if let Patch::Set(price) = &command.price
        && let Some(rejection) = prices::malformed(price)
    {
        return Some(rejection);
    }
    if matches!(command.low_stock, Patch::Set(units) if units > TOTAL_UNITS) {
        return Some(Rejection::invalid("/low_stock", format!("must be at most {TOTAL_UNITS}")));
    }
    if let Some(rejection) = command.incoming.as_deref().and_then(malformed_supplies) {
        return Some(rejection);
    }
    let (pointer, total) = match counted {
        Some(total) => ("/on_hand", total),
        None => ("/total_units", command.total_units.unwrap_or(0)),
    };
    if total <= TOTAL_UNITS {
        return None;
    }
    let with = if counted.is_some() { ", together with `fulfilled_units_seen`" } else { "" };
    Some(Rejection::invalid(pointer, format!("must be at most {TOTAL_UNITS}{with}")))
}

fn malformed_supplies(supplies: &[Supply]) -> Option<Rejection> {
    if supplies.len() > SUPPLIES {
        let detail = format!("must be at most {SUPPLIES} deliveries, and is {}", supplies.len());
        return Some(Rejection::invalid("/incoming", detail));
    }
    let mut known = BTreeSet::new();
    for (place, supply) in supplies.iter().enumerate() {
        if !(1..=TOTAL_UNITS).contains(&supply.quantity) {
            let detail = format!("must be 1 to {TOTAL_UNITS}");
            return Some(Rejection::invalid(&format!("/incoming/{place}/quantity"), detail));
        }
        if !known.insert(&supply.id) {
            let detail = "must not occur twice".to_string();
            return Some(Rejection::invalid(&format!("/incoming/{place}/supply_id"), detail));
        }
    }
    None
}

/// The refusal of settings that do not fit each other or the mode of the item.
fn contradictory(settings: &Settings, mode: Mode) -> Option<Rejection> {
    if settings.sale_starts_at.zip(settings.sale_ends_at).is_some_and(|(start, end)| end <= start) {
        let detail = "must be after `sale_starts_at`".to_string();
        return Some(Rejection::invalid("/sale_ends_at", detail));
    }
    let not_there = "a unit that is not there can't be sold";
    let (pointer, reason) = match mode {
        Mode::Units if settings.oversell_allowance > 0 => ("/oversell_allowance", not_there),
        Mode::Units if !settings.incoming.is_empty() => ("/incoming", not_there),
        Mode::Units if settings.stock_master.is_some() => ("/stock_master", "they are added one by one"),
        Mode::Units if settings.gated => ("/gated", "a gate knows how many units there are, and not which"),
        Mode::Counted | Mode::Units => return None,
    };
    Some(Rejection::invalid(pointer, format!("must be left out if units have ids: {reason}")))
}

/// The total that a command asks for.
fn requested_total(before: Option<&Item>, command: &SetStock) -> Result<Option<u64>, Rejection> {
    let Some(shelf) = command.shelf else { return Ok(command.total_units) };
    if before.is_some() && shelf.fulfilled_seen.is_none() {
        let detail =
            "is missing: a count of an existing item has to say which shipments it knows of".to_string();
        return Err(Rejection::invalid("/fulfilled_units_seen", detail));
    }
    // Nothing was shipped of a new item.
    let seen = shelf.fulfilled_seen.filter(|_| before.is_some()).unwrap_or(0);
    Ok(Some(shelf.on_hand.saturating_add(seen)))
}

/// The item that a command changes, if it exists, or the refusal of a precondition that it does not fulfil.
fn expected_item<S: State>(
    context: &CommandContext<'_, S>,
    key: &ItemKey,
    expected: Option<&Precondition>,
) -> Result<Result<Option<Item>, Rejection>, DecideError> {
    let item = context.state.item(key)?;
    let version = item.map(|item| item.version);
    Ok(match expected {
        Some(expected) if !expected.is_met(version) => Err(Rejection::PreconditionFailed { version }),
        _ => Ok(item.cloned()),
    })
}

/// Like [`expected_item`], for commands that need an existing item.
pub(super) fn existing_item<S: State>(
    context: &CommandContext<'_, S>,
    key: &ItemKey,
    expected: Option<&Precondition>,
) -> Result<Result<Item, Rejection>, DecideError> {
    let found = expected_item(context, key, expected)?;
    Ok(found.and_then(|item| item.ok_or_else(|| Rejection::UnknownItem(vec![key.clone()]))))
}

/// The mode, which never changes, and the total that the command asks for.
fn total(before: Option<&Item>, command: &SetStock) -> Result<(Mode, u64), Rejection> {
    let mode = before.map(|item| item.mode);
    if let (Some(mode), Some(asked)) = (mode, command.mode)
        && mode != asked
    {
        return Err(Rejection::ModeMismatch { item: command.item.clone(), mode });
    }
    let mode = mode.or(command.mode).unwrap_or(Mode::Counted);
    let there = before.map(|item| item.figures.total_units);
    match (mode, requested_total(before, command)?.or(there)) {
        (Mode::Counted, Some(total)) => Ok((mode, total)),
        (Mode::Counted, None) => {
            let detail = "is missing: a new item has to say how many units there are".to_string();
            Err(Rejection::invalid("/total_units", detail))
        }
        (Mode::Units, asked) => {
            let there_now = there.unwrap_or_default();
            if asked.is_none_or(|asked| asked == there_now) {
                return Ok((mode, there_now));
            }
            Err(if there.is_some() {
                Rejection::ModeMismatch { item: command.item.clone(), mode }
            } else {
                let detail = "must be left out if units have ids: they are added one by one".to_string();
                Rejection::invalid("/total_units", detail)
            })
        }
    }
}

fn create<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &SetStock,
    mode: Mode,
    total_units: u64,
    settings: Settings,
    now: Instant,
) -> Outcome {
    let item = Item {
        key: command.item.clone(),
        mode,
        figures: StockCounters {
            total_units,
            sequence: u64::from(mode == Mode::Counted),
            ..StockCounters::none(now)
        },
        settings: Arc::new(settings),
        pools: Pools::default(),
        version: Item::first_version(now),
        paused: false,
        created_at: now,
    };
    context.emit(
        context.fresh.event,
        now,
        None,
        Transition::Stock { change: StockChange::Set, item: item.clone() },
    );
    Outcome::Done(Reply::Item { item, created: true })
}

pub(super) fn adjust<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &AdjustStock,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let before = match existing_item(context, &command.item, command.expected.as_ref())? {
        Ok(before) => before,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    if before.mode == Mode::Units {
        return Ok(Outcome::Refused(Rejection::ModeMismatch { item: before.key, mode: before.mode }));
    }
    if let Some(rejection) = owned_elsewhere(&before, command.override_owner) {
        return Ok(Outcome::Refused(rejection));
    }
    let settings = match received(&before, command) {
        Ok(settings) => settings,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let total = before.figures.total_units.checked_add_signed(command.delta);
    let total = match total {
        Some(total) if total <= TOTAL_UNITS => total,
        _ if command.delta < 0 => return Ok(Outcome::Refused(committed(&before))),
        _ => {
            let detail = "must not bring the item past 1,000,000,000,000 units".to_string();
            return Ok(Outcome::Refused(Rejection::invalid("/delta", detail)));
        }
    };
    if let Some(rejection) = below_committed(&before, total, before.settings.oversell_allowance) {
        return Ok(Outcome::Refused(rejection));
    }
    let AdjustStock { delta, reason, supply_id, .. } = command.clone();
    let change = StockChange::Adjusted { delta, reason, supply_id };
    context.remember(KeyTarget::Item(before.key.clone()), now.max(before.figures.at));
    changed(context, Item { settings, ..before }, total, change, now)
}

/// The settings after a delivery arrived: its units are no longer expected.
fn received(before: &Item, command: &AdjustStock) -> Result<Arc<Settings>, Rejection> {
    let Some(supply_id) = &command.supply_id else { return Ok(before.settings.clone()) };
    let Some(arrived) = u64::try_from(command.delta).ok().filter(|units| *units > 0) else {
        let detail = "must be at least 1 for a delivery that arrived".to_string();
        return Err(Rejection::invalid("/delta", detail));
    };
    let mut settings = (*before.settings).clone();
    let mut incoming = settings.incoming.into_vec();
    let Some(place) = incoming.iter().position(|supply| supply.id == *supply_id) else {
        let (item, supply_id) = (before.key.clone(), supply_id.clone());
        return Err(Rejection::UnknownSupply { item, supply_id });
    };
    if let Some(supply) = incoming.get_mut(place) {
        supply.quantity = supply.quantity.saturating_sub(arrived);
    }
    incoming.retain(|supply| supply.quantity > 0);
    settings.incoming = incoming.into();
    Ok(Arc::new(settings))
}

// The error texts above contain this limit.
const _: () = assert!(TOTAL_UNITS == 1_000_000_000_000);

/// Deletes an item that is not in use: none of its units is sold or held or has an id. Ended reservations of it stay readable.
pub(super) fn delete<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &DeleteItem,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let mut item = match existing_item(context, &command.item, command.expected.as_ref())? {
        Ok(item) => item,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    while item.figures.held > 0 {
        let at = now.max(item.figures.at);
        let Some((_, due)) = context.state.earliest(Some(&item.key))?.filter(|(due, _)| *due <= at) else {
            break;
        };
        if !context.may_expire() {
            return Ok(Outcome::Later);
        }
        expire(context, due, at)?;
        let after = context.state.item(&item.key)?;
        item = after.ok_or(DecideError::InvariantViolated("an item disappeared within a command"))?.clone();
    }
    let StockCounters { total_units, confirmed_sold, held, .. } = item.figures;
    let units = if item.mode == Mode::Units { total_units } else { 0 };
    if confirmed_sold > 0 || held > 0 || units > 0 {
        return Ok(Outcome::Refused(Rejection::ItemInUse { confirmed_sold, held, units }));
    }
    context.remember(KeyTarget::Item(item.key.clone()), now.max(item.figures.at));
    changed(context, item, total_units, StockChange::Deleted, now)?;
    Ok(Outcome::Done(Reply::ItemDeleted))
}

/// Applies an operator's change to an item.
pub(super) fn changed<S: State>(
    context: &mut CommandContext<'_, S>,
    before: Item,
    total_units: u64,
    change: StockChange,
    now: Instant,
) -> Result<Outcome, DecideError> {
    changed_by(context, context.fresh.event, before, total_units, change, now)
}

/// Like [`changed`], for a further event of a command.
pub(super) fn changed_by<S: State>(
    context: &mut CommandContext<'_, S>,
    event: EventId,
    before: Item,
    total_units: u64,
    change: StockChange,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let at = now.max(before.figures.at);
    let sequence = next_sequence(before.mode, before.figures.sequence)?;
    let item = Item {
        figures: StockCounters { total_units, sequence, at, ..before.figures },
        version: add(before.version, 1)?,
        ..before
    };
    context.emit(event, at, None, Transition::Stock { change, item: item.clone() });
    Ok(Outcome::Done(Reply::Item { item, created: false }))
}

/// The refusal of a change of a total that an external system owns.
fn owned_elsewhere(item: &Item, overrides: bool) -> Option<Rejection> {
    let stock_master = item.settings.stock_master.clone().filter(|_| !overrides)?;
    Some(Rejection::StockOwnedElsewhere { item: item.key.clone(), stock_master })
}

fn below_committed(item: &Item, total: u64, allowance: u64) -> Option<Rejection> {
    let promised = item.figures.committed().saturating_add(item.pools.set_aside());
    // A write-off may leave pools with more units than there are. Only a lower total is refused for it.
    let pools_fit = item.pools.allocated() <= total || total >= item.figures.total_units;
    let fits = promised <= total.saturating_add(allowance) && item.figures.fulfilled <= total && pools_fit;
    (!fits).then(|| committed(item))
}

pub(super) fn committed(item: &Item) -> Rejection {
    let StockCounters { confirmed_sold, held, total_units, .. } = item.figures;
    Rejection::BelowCommitted { confirmed_sold, held, total_units, set_aside: item.pools.set_aside() }
}

/// The settings after a command. A new item has none before.
fn merged(before: Option<&Settings>, command: &SetStock) -> Settings {
    let before = before.cloned().unwrap_or_default();
    let mut incoming = command.incoming.clone().unwrap_or(before.incoming);
    incoming.sort_by_key(|supply| supply.available_from);
    Settings {
        safety_stock: command.safety_stock.unwrap_or(before.safety_stock),
        oversell_allowance: command.oversell_allowance.unwrap_or(before.oversell_allowance),
        gated: command.gated.over(Some(before.gated)).unwrap_or_default(),
        default_ttl: command.default_ttl.over(before.default_ttl),
        max_hold: command.max_hold.over(before.max_hold),
        max_payment: command.max_payment.over(before.max_payment),
        sale_starts_at: command.sale_starts_at.over(before.sale_starts_at),
        sale_ends_at: command.sale_ends_at.over(before.sale_ends_at),
        incoming,
        price: command.price.clone().over(before.price),
        low_stock: command.low_stock.over(before.low_stock),
        stock_master: command.stock_master.clone().over(before.stock_master),
        metadata: command.metadata.clone().over(before.metadata),
    }
}

pub(super) fn set_sale<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &SetSale,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let (before, at) = match &command.scope {
        Scope::Everything => (context.state.paused(None)?, now),
        Scope::Location(location) => (context.state.paused(Some(location.as_str()))?, now),
        Scope::Item(key) => match context.state.item(key)? {
            Some(item) => (item.paused, now.max(item.figures.at)),
            None => return Ok(Outcome::Refused(Rejection::UnknownItem(vec![key.clone()]))),
        },
    };
    if before != command.paused {
        let SetSale { scope, paused, reason } = command.clone();
        context.emit(context.fresh.event, at, None, Transition::Sale { scope, paused, reason });
    }
    Ok(Outcome::Done(Reply::Sale { paused: command.paused }))
}
