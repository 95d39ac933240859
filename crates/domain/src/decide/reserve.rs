//! Reserve: the first rejection that applies, in order; then expiry of the due holds that block the request; then the new hold.

use super::hold::expire;
use super::units::{Offer, due_holders, offer};
use super::{CommandContext, DecideError, moved_counters};
use crate::command::{Basket, Fulfilment, RequestedLine, Reserve};
use crate::event::{HoldChange, KeyTarget, Transition};
use crate::hold::{Hold, HoldTerms, Line, Status};
use crate::hold_limits::HoldLimits;
use crate::item::{Item, Mode};
use crate::label::Label;
use crate::limits::{BASKET_UNITS, LINE_QUANTITY, LINE_UNITS};
use crate::outcome::{Outcome, Reply};
use crate::rejection::{Rejection, Shortage, UnavailableUnits};
use crate::state::{Scope, State};
use crate::time::{Instant, Seconds};
use crate::unit::{LineUnit, LineUnits};
use crate::unit_selection::UnitSelection;
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
            taken.push(UnavailableUnits {
                item: item.key.clone(),
                units: offer.taken,
                unknown: offer.unknown,
            });
        } else if offer.quantity < line.quantity {
            short.push((line, offer.quantity, offer.unknown_sections));
        }
        if offer.quantity > 0 {
            granted.push((line, offer.quantity, offer.units));
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
        return shortages(context, short);
    }
    // A line that is left out of the hold does not limit how long the hold may last.
    let times = if granted.len() < lines.len() {
        bounds(context, granted.iter().map(|(line, ..)| *line))?
    } else {
        times
    };
    hold(context, command, granted, times, now)
}

/// How long a hold may last: (default time to live, maximum).
type Times = (Seconds, Seconds);

/// The rejections that do not depend on stock, in their order of precedence.
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
        return Ok(Err(Rejection::TtlTooLong { max }));
    }
    if let Some(line) = nameless {
        return Ok(Err(Rejection::ModeMismatch { item: line.item.clone(), mode: Mode::Counted }));
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

/// The smallest default and the smallest maximum over these items.
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
    if context.state.paused(Some(item.key.location()))? {
        let location = Label::new(item.key.location())
            .map_err(|_| DecideError::InvariantViolated("a location is not a label"))?;
        return Ok(Some(Scope::Location(location)));
    }
    Ok(item.paused.then(|| Scope::Item(item.key.clone())))
}

/// Expires due holds of the items that fall short, earliest first, until the request fits or none is due. Returns the
/// instant that applies to the whole basket, or `None` when the batch has no expiries left and more holds are due.
fn expire_until_it_fits<S: State>(
    context: &mut CommandContext<'_, S>,
    basket: &Basket,
    now: Instant,
) -> Result<Option<Instant>, DecideError> {
    let lines = basket.lines();
    let mut now = clamp_to_item_clock(context, lines, now)?;
    loop {
        for (number, line) in lines.iter().enumerate() {
            // Named units are free only after the holds that have them end. Expiring other holds does not help.
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
                    Some((due, id)) if due <= now => {
                        if !context.may_expire() {
                            return Ok(None);
                        }
                        expire(context, id, now)?;
                    }
                    _ => break,
                }
            }
        }
        // An expired hold may span items with a later clock. The clock then moves, and more holds may be due.
        let floor = clamp_to_item_clock(context, lines, now)?;
        if floor == now {
            return Ok(Some(now));
        }
        now = floor;
    }
}

/// Whether expiring due holds would not help this line: it fits in full, or its named units are not in a due hold.
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
            // Planning is repeated for the hold itself, so skip it here when nothing is due. Deadlines that are not loaded
            // count as none: a store has to load them only when stock falls short.
            let none_is_due = context
                .state
                .earliest(Some(&line.item))
                .is_ok_and(|first| first.is_none_or(|(due, _)| due > now));
            Ok(none_is_due || offer(context, item, line, selection)?.quantity == line.quantity)
        }
    }
}

/// `now`, clamped to the clocks of the basket's items: time never runs backwards for an item.
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
        .ok_or(DecideError::InvariantViolated("an item disappeared while a command was decided"))
}

fn shortages<S: State>(
    context: &CommandContext<'_, S>,
    short: Vec<(&RequestedLine, u64, Vec<Label>)>,
) -> Result<Outcome, DecideError> {
    let mut lines = Vec::with_capacity(short.len());
    for (line, available, unknown_sections) in short {
        lines.push(Shortage {
            item: line.item.clone(),
            requested: line.quantity,
            available,
            next_expiry_at: context.state.earliest(Some(&line.item))?.map(|(due, _)| due),
            unknown_sections,
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
    for (number, (requested, quantity, units)) in granted.into_iter().enumerate() {
        let item = known(context, requested)?;
        let mut line = Line {
            item: item.key.clone(),
            requested: line_units(requested.quantity)?,
            quantity: line_units(quantity)?,
            returned: 0,
            sequence: 0,
            units: units.map(|units| Arc::new(LineUnits::new(units))),
        };
        let mut after = moved_counters(&item.figures, &HoldChange::Created, &line, number)?;
        after.at = now;
        line.sequence = after.sequence;
        lines.push(line);
        figures.push(after);
    }
    let ttl = command.ttl.unwrap_or(default.min(max));
    let max_expires_at = now.deadline(max);
    let expires_at = now.deadline(ttl).min(max_expires_at);
    let hold = Hold {
        id: context.fresh.reservation,
        status: Status::Active,
        expires_at,
        terms: Arc::new(HoldTerms { reserve: command.terms.clone(), created_at: now, max_expires_at }),
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
    u32::try_from(quantity).map_err(|_| DecideError::InvariantViolated("a line exceeds its limit"))
}
