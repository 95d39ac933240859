//! Reserve: the first rejection that applies, in order; then the due holds that stand in the way; then the hold.

use super::hold::expire;
use super::units::{Offer, due_holders, offer};
use super::{CommandContext, DecideError, add, step};
use crate::bug;
use crate::command::{Basket, Fulfilment, RequestedLine, Reserve};
use crate::event::{HoldChange, KeyTarget, Transition};
use crate::hold::{Extras, Hold, Line, Status, Terms};
use crate::item::{Item, Mode};
use crate::label::Label;
use crate::limits::{BASKET_UNITS, HoldLimits, LINE_QUANTITY, LINE_UNITS};
use crate::outcome::{Outcome, Reply};
use crate::rejection::{Rejection, Shortage, UnavailableUnits};
use crate::state::{Scope, State};
use crate::time::{Instant, Seconds};
use crate::unit::{LineUnit, LineUnits};
use crate::unit_selection::UnitSelection;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) fn reserve<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Reserve,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let lines = command.basket.lines();
    let times = match validate(context, command)? {
        Ok(times) => times,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let basket = &command.basket;
    let Some(now) = expire_until_it_fits(context, basket, now)? else { return Ok(Outcome::Later) };

    let mut granted = Vec::with_capacity(lines.len());
    let mut short = Vec::new();
    let mut taken = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let item = known(context, line)?;
        let offer = match item.mode {
            Mode::Counted => {
                let quantity = line.quantity.min(item.available());
                Offer { quantity, ..Offer::default() }
            }
            Mode::Units => offer(context, item, line, basket.selection(number))?,
        };
        if !offer.taken.is_empty() {
            taken.push(UnavailableUnits { item: item.key.clone(), units: offer.taken });
        } else if offer.quantity < line.quantity {
            short.push((line, offer.quantity));
        }
        let quantity = if bug!("a-partial-line-gets-too-much") { line.quantity } else { offer.quantity };
        if quantity > 0 || bug!("a-partial-line-gets-nothing") {
            granted.push((line, quantity, offer.units));
        }
    }
    let refused = match command.fulfilment {
        Fulfilment::All => !short.is_empty() || !taken.is_empty(),
        Fulfilment::Partial => granted.is_empty(),
    };
    if refused && !taken.is_empty() {
        return Ok(Outcome::Refused(Rejection::UnitsUnavailable(taken)));
    }
    if refused {
        return shortages(context, &short);
    }
    // What is left out of the hold does not bound its time.
    let times = if granted.len() < lines.len() && !bug!("what-is-left-out-bounds-the-time") {
        bounds(context, granted.iter().map(|(line, ..)| *line))?
    } else {
        times
    };
    hold(context, command, granted, times, now)
}

/// How long a hold may last: (its time to live when it names none, its longest).
type Times = (Seconds, Seconds);

/// The rejections that do not depend on the stock, in their order.
fn validate<S: State>(
    context: &CommandContext<'_, S>,
    command: &Reserve,
) -> Result<Result<Times, Rejection>, DecideError> {
    let lines = command.basket.lines();
    let mut unknown = Vec::new();
    let mut paused = None;
    let mut too_many = None;
    let mut units = 0_u64;
    let mut nameless = None;
    let mut bounds: Option<Times> = None;
    if context.state.paused(None)? {
        paused = Some(Scope::Everything);
    }
    for (number, line) in lines.iter().enumerate() {
        let Some(item) = context.state.item(&line.item)? else {
            unknown.push(line.item.clone());
            continue;
        };
        let times = item_times(context.rules, item);
        bounds = Some(smaller(bounds, times));
        if bug!("the-last-item-alone-bounds-the-time") {
            bounds = Some(times);
        }
        if paused.is_none() {
            paused = pause_of(context, item)?;
        }
        let most = match item.mode {
            Mode::Counted => LINE_QUANTITY,
            Mode::Units => {
                units = units.saturating_add(line.quantity);
                LINE_UNITS
            }
        };
        if line.quantity > most && too_many.is_none() {
            too_many = Some((line, most));
        }
        if item.mode == Mode::Counted && command.basket.selection(number).is_some() && nameless.is_none() {
            nameless = Some(line);
        }
    }

    let (default, max) = bounds.unwrap_or((context.rules.default_ttl, context.rules.max_hold));
    if command.ttl.is_some_and(|ttl| ttl > max) {
        let detail = format!("is longer than a hold on these items may last: at most {} seconds", max.get());
        return Ok(Err(Rejection::invalid("/ttl_seconds", detail)));
    }
    if let Some(pool) = &command.pool {
        let detail = format!("is a pool that none of these items has: {pool}");
        return Ok(Err(Rejection::invalid("/pool", detail)));
    }
    if let Some(line) = nameless {
        let detail = format!(
            "must ask for a quantity of {:?}, which counts its units and gives them no ids",
            line.item
        );
        return Ok(Err(Rejection::invalid("", detail)));
    }
    if let Some(scope) = paused.clone().filter(|_| bug!("paused-comes-before-unknown")) {
        return Ok(Err(Rejection::SalePaused(scope)));
    }
    if !unknown.is_empty() {
        return Ok(Err(Rejection::UnknownItem(unknown)));
    }
    if let Some(scope) = paused {
        return Ok(Err(Rejection::SalePaused(scope)));
    }
    if let Some((line, limit)) = too_many {
        let item = Some(line.item.clone());
        return Ok(Err(Rejection::QuantityLimit { item, requested: line.quantity, limit }));
    }
    if units > BASKET_UNITS {
        return Ok(Err(Rejection::QuantityLimit { item: None, requested: units, limit: BASKET_UNITS }));
    }
    Ok(Ok((default, max)))
}

/// The smallest times of all these items.
fn bounds<'a, S: State>(
    context: &CommandContext<'_, S>,
    lines: impl Iterator<Item = &'a RequestedLine>,
) -> Result<Times, DecideError> {
    let mut bounds = None;
    for line in lines {
        let times = item_times(context.rules, known(context, line)?);
        bounds = Some(smaller(bounds, times));
    }
    Ok(bounds.unwrap_or((context.rules.default_ttl, context.rules.max_hold)))
}

fn smaller(bounds: Option<Times>, (default, max): Times) -> Times {
    bounds.map_or((default, max), |(d, m)| (d.min(default), m.min(max)))
}

/// The nearest setting wins: item, location, service.
fn item_times(rules: &HoldLimits, item: &Item) -> Times {
    let location = rules.locations.iter().find(|(name, ..)| name.as_str() == item.key.location());
    let (default, max) = location.map_or((None, None), |(_, default, max)| (*default, *max));
    (
        item.settings.default_ttl.or(default).unwrap_or(rules.default_ttl),
        item.settings.max_hold.or(max).unwrap_or(rules.max_hold),
    )
}

fn pause_of<S: State>(context: &CommandContext<'_, S>, item: &Item) -> Result<Option<Scope>, DecideError> {
    if context.state.paused(Some(item.key.location()))? && !bug!("a-location-s-pause-is-ignored") {
        let location = Label::new(item.key.location())
            .map_err(|_| DecideError::InvariantViolated("a location is no label"))?;
        return Ok(Some(Scope::Location(location)));
    }
    Ok(item.paused.then(|| Scope::Item(item.key.clone())))
}

/// Expires due holds, earliest first, of the items that fall short, until they fit or none is due; answers with the
/// instant that counts for the whole basket. `None` when the batch may expire no more and more is due.
fn expire_until_it_fits<S: State>(
    context: &mut CommandContext<'_, S>,
    basket: &Basket,
    now: Instant,
) -> Result<Option<Instant>, DecideError> {
    let lines = basket.lines();
    let mut now = clamp_to_item_clock(context, lines, now)?;
    loop {
        for (number, line) in lines.iter().enumerate() {
            // Units that are named can't be had before their holds have ended, and no other hold's end helps.
            if let Some(UnitSelection::Named(ids)) = basket.selection(number) {
                for due in due_holders(context, &line.item, ids, now)? {
                    if !context.may_expire() {
                        return Ok(None);
                    }
                    expire(context, due, now)?;
                }
            }
            while !fits(context, line, basket.selection(number), now)? {
                match context.state.earliest(Some(&line.item))? {
                    Some((due, _)) if bug!("a-reserve-leaves-what-is-due-now") && due == now => break,
                    Some((due, id)) if due <= now => {
                        if !context.may_expire() {
                            if bug!("a-full-batch-refuses") {
                                return Ok(Some(now));
                            }
                            return Ok(None);
                        }
                        expire(context, id, now)?;
                    }
                    _ => break,
                }
            }
        }
        // A hold that was expired may have had items of its own that were decided on later: then more may be due.
        let floor = clamp_to_item_clock(context, lines, now)?;
        if floor == now {
            return Ok(Some(now));
        }
        now = floor;
    }
}

/// Whether no due hold's end would help a wish: it could be had in full, or the units that it names are not with one.
fn fits<S: State>(
    context: &CommandContext<'_, S>,
    line: &RequestedLine,
    selection: Option<&UnitSelection>,
    now: Instant,
) -> Result<bool, DecideError> {
    let item = known(context, line)?;
    if item.available() < line.quantity {
        return Ok(false);
    }
    match selection {
        None | Some(UnitSelection::Named(_)) => Ok(true),
        Some(UnitSelection::BestAvailable(_)) => {
            // A plan is made again for the hold itself, so none is made here where nothing is due. A store that has not
            // loaded deadlines is not asked to: it need only where stock falls short.
            let none_is_due = context
                .state
                .earliest(Some(&line.item))
                .is_ok_and(|first| first.is_none_or(|(due, _)| due > now));
            Ok(none_is_due || offer(context, item, line, selection)?.quantity == line.quantity)
        }
    }
}

/// Now, but not before any instant at which one of the basket's items was decided on.
fn clamp_to_item_clock<S: State>(
    context: &CommandContext<'_, S>,
    lines: &[RequestedLine],
    now: Instant,
) -> Result<Instant, DecideError> {
    let mut at = now;
    for line in lines {
        at = at.max(known(context, line)?.figures.at);
    }
    Ok(at)
}

fn known<'s, S: State>(
    context: &'s CommandContext<'_, S>,
    line: &RequestedLine,
) -> Result<&'s Item, DecideError> {
    context
        .state
        .item(&line.item)?
        .ok_or(DecideError::InvariantViolated("an item went away within a command"))
}

fn shortages<S: State>(
    context: &CommandContext<'_, S>,
    short: &[(&RequestedLine, u64)],
) -> Result<Outcome, DecideError> {
    let mut lines = Vec::with_capacity(short.len());
    for (line, available) in short {
        lines.push(Shortage {
            item: line.item.clone(),
            requested: line.quantity,
            available: *available,
            next_expiry_at: context
                .state
                .earliest(if bug!("the-next-expiry-is-anybody-s") { None } else { Some(&line.item) })?
                .map(|(due, _)| due),
        });
    }
    Ok(Outcome::Refused(Rejection::InsufficientInventory(lines)))
}

fn hold<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Reserve,
    granted: Vec<(&RequestedLine, u64, Option<Vec<LineUnit>>)>,
    (default, max): Times,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let mut lines = Vec::with_capacity(granted.len());
    let mut figures = Vec::with_capacity(granted.len());
    for (line, quantity, units) in granted {
        let item = known(context, line)?;
        let mut after = item.figures;
        after.held = add(after.held, quantity)?;
        after.active = add(after.active, 1)?;
        after.sequence = step(item.mode, after.sequence)?;
        after.at = now;
        lines.push(Line {
            item: item.key.clone(),
            requested: line_units(line.quantity)?,
            quantity: line_units(quantity)?,
            returned: 0,
            sequence: after.sequence,
            units: units.map(|units| Arc::new(LineUnits::new(units))),
        });
        figures.push(after);
    }
    let ttl = command.ttl.unwrap_or(default.min(max));
    let max_expires_at = now.deadline(max);
    let mut expires_at = now.deadline(ttl).min(max_expires_at);
    if bug!("deadlines-are-rounded-down") && now.micros() % 1_000 != 0 {
        expires_at = Instant::from_millis(expires_at.millis() - 1);
    }
    let hold = Hold {
        id: context.fresh.reservation,
        status: Status::Active,
        expires_at,
        terms: Arc::new(Terms {
            owner_id: command.owner_id.clone(),
            created_at: now,
            max_expires_at,
            extras: extras(command),
        }),
        lines: lines.into(),
        closing: None,
        last_event: context.fresh.event,
    };
    let reply = Reply::Reservation(hold.clone());
    context.remember(KeyTarget::Reservation(hold.id), now);
    let transition = Transition::Hold { change: HoldChange::Created, hold, figures: figures.into() };
    context.emit(context.fresh.event, now, None, transition);
    Ok(Outcome::Done(reply))
}

fn line_units(quantity: u64) -> Result<u32, DecideError> {
    u32::try_from(quantity).map_err(|_| DecideError::InvariantViolated("a line passed its limit"))
}

fn extras(command: &Reserve) -> Option<Box<Extras>> {
    let extras = Extras {
        channel: command.channel.clone(),
        customer_id: command.customer_id.clone(),
        session_id: command.session_id.clone(),
        metadata: command.metadata.clone(),
    };
    (extras != Extras::default()).then(|| Box::new(extras))
}
