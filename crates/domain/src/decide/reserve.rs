//! Reserve: the first rejection that applies, in order; then expiry of the due holds that block the request; then the new hold.

use super::grants::{Grant, Request, clamp_to_item_clock, expire_until_it_fits, grant, known};
use super::hold::change_hold;
use super::limits::{LimitDecision, LimitPlan};
use super::sale_state::refusal_of_sale;
use super::sourcing::{self, Resolved};
use super::{CommandContext, DecideError, backorder, checkout, pools, prices};
use crate::basket::{Basket, RequestedLine};
use crate::command::Reserve;
use crate::event::{HoldChange, KeyTarget};
use crate::hold::{Hold, HoldDetails, HoldTerms, Line, ReserveTerms, Status};
use crate::hold_limits::HoldTimes;
use crate::id::EventId;
use crate::item::{Item, Mode};
use crate::limits::{BASKET_UNITS, LINE_QUANTITY, LINE_UNITS};
use crate::outcome::{Outcome, Reply};
use crate::price::LinePrice;
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::{Instant, Seconds};
use crate::unit::LineUnits;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) fn reserve<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Reserve,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let pool = command.terms.pool();
    if let Some(rejection) = pools::unknown_pool(context, pool, command.basket.items())? {
        return Ok(Outcome::Refused(rejection));
    }
    if !command.basket.has_sources() {
        return reserve_lines(context, command, &command.basket, None, now);
    }
    // What follows sees a basket without sources.
    match sourcing::resolve(context, command, now)? {
        Resolved::Basket { basket, requested, at } => {
            reserve_lines(context, command, &basket, Some(&requested), at)
        }
        Resolved::Refused(rejection) => Ok(Outcome::Refused(rejection)),
        Resolved::Later => Ok(Outcome::Later),
    }
}

/// Reserves the lines of a basket. `requested` are the same lines with the quantities that the reservation shows as requested.
fn reserve_lines<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Reserve,
    basket: &Basket,
    requested: Option<&[RequestedLine]>,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let request = Request::new(basket, command.terms.pool());
    let times = match validate(context, &request, command.ttl, now)? {
        Ok(times) => times,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let now = clamp_to_item_clock(context, basket.lines(), now)?;
    let overrides = command.override_limits;
    let plan = match LimitPlan::of_request(context, &request, &command.terms, overrides)? {
        Ok(plan) => plan,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let limits_left = match plan.check(context, command.fulfilment, overrides, now)? {
        LimitDecision::Within(limits_left) => limits_left,
        LimitDecision::Refused(rejection) => return Ok(Outcome::Refused(rejection)),
        LimitDecision::Later => return Ok(Outcome::Later),
    };
    let Some(now) = expire_until_it_fits(context, &request, now)? else { return Ok(Outcome::Later) };
    // An item with a later clock, or a hold that was expired, may have moved the time past the end of a sale.
    if let Some(rejection) = refusal_of_sale(context, &request, now)? {
        return Ok(Outcome::Refused(rejection));
    }
    let mut granted = match grant(context, &request, command.fulfilment, &plan, limits_left)? {
        Ok(granted) => granted,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    // A line that is left out of the hold does not limit how long the hold may last.
    let times = if granted.len() < basket.lines().len() {
        smallest_times(context, granted.iter().map(|grant| grant.requested))?
    } else {
        times
    };
    let new = NewHold {
        event: context.fresh.event,
        terms: command.terms.clone(),
        max_expires_at: now.deadline(times.max_hold),
        expires_at: now.deadline(command.ttl.unwrap_or(times.default_ttl.min(times.max_hold))),
        details: None,
    };
    // Granted lines are in the order of the basket, as `requested` is.
    let mut requested = requested.unwrap_or_default().iter();
    for grant in &mut granted {
        let line = requested.find(|line| line.item == grant.requested.item);
        grant.requested = line.unwrap_or(grant.requested);
    }
    let channel = command.terms.channel();
    let lines = granted_lines(context, granted, |item, quantity| {
        Ok(prices::of_new_units(item, quantity, channel, now))
    })?;
    if let Some(rejection) = prices::refusal("/lines", lines.iter()) {
        return Ok(Outcome::Refused(rejection));
    }
    let price = match &command.checkout {
        Some(checkout) => match checkout::price_of(&lines, &checkout.terms, "/auto_checkout/extra") {
            Ok(price) => Some(price),
            Err(rejection) => return Ok(Outcome::Refused(rejection)),
        },
        None => None,
    };
    let mut hold = create(context, new, lines, now)?;
    if let Some((checkout, price)) = command.checkout.as_ref().zip(price) {
        hold = checkout::begin(context, hold, checkout, price, 1, now)?
            .map_err(|_| DecideError::InvariantViolated("a new reservation has no time to be paid"))?;
    }
    context.remember(KeyTarget::Reservation(hold.id), now);
    Ok(Outcome::Done(Reply::Reservation(hold)))
}

/// The rejections that do not depend on stock, in their order of precedence.
pub(super) fn validate<S: State>(
    context: &CommandContext<'_, S>,
    request: &Request<'_>,
    ttl: Option<Seconds>,
    now: Instant,
) -> Result<Result<HoldTimes, Rejection>, DecideError> {
    let mut times: Option<HoldTimes> = None;
    for line in request.basket.lines() {
        if let Some(item) = context.state.item(&line.item)? {
            let of_item = context.rules.of_item(item);
            times = Some(times.map_or(of_item, |times| times.smaller(of_item)));
        }
    }
    let times = times.unwrap_or_else(|| context.rules.of_service());
    if ttl.is_some_and(|ttl| ttl > times.max_hold) {
        return Ok(Err(Rejection::TtlTooLong { max: times.max_hold }));
    }
    Ok(validate_lines(context, request, now)?.map(|()| times))
}

/// The rejections of lines that do not depend on stock, in their order of precedence. Lines that add nothing to their hold are not
/// judged.
pub(super) fn validate_lines<S: State>(
    context: &CommandContext<'_, S>,
    request: &Request<'_>,
    now: Instant,
) -> Result<Result<(), Rejection>, DecideError> {
    let Request { basket, .. } = request;
    let (mut unknown, mut too_many, mut nameless) = (Vec::new(), None, None);
    let (mut units, mut adds_units) = (0_u64, false);
    for (number, line) in basket.lines().iter().enumerate() {
        let Some(item) = context.state.item(&line.item)? else {
            unknown.push(line.item.clone());
            continue;
        };
        let most = match item.mode {
            Mode::Counted => LINE_QUANTITY,
            Mode::Units => {
                units = units.saturating_add(line.quantity);
                LINE_UNITS
            }
        };
        if item.mode == Mode::Counted && basket.selection(number).is_some() && nameless.is_none() {
            nameless = Some(line);
        }
        if !request.adds(number, line) {
            continue;
        }
        adds_units |= item.mode == Mode::Units;
        if line.quantity > most && too_many.is_none() {
            too_many = Some((line, most));
        }
    }
    if let Some(line) = nameless {
        return Ok(Err(Rejection::ModeMismatch { item: line.item.clone(), mode: Mode::Counted }));
    }
    if !unknown.is_empty() {
        return Ok(Err(Rejection::UnknownItem(unknown)));
    }
    if let Some(rejection) = refusal_of_sale(context, request, now)? {
        return Ok(Err(rejection));
    }
    if let Some((line, limit)) = too_many {
        let item = Some(line.item.clone());
        return Ok(Err(Rejection::QuantityLimit { item, requested: line.quantity, limit }));
    }
    if adds_units && units > BASKET_UNITS {
        return Ok(Err(Rejection::QuantityLimit { item: None, requested: units, limit: BASKET_UNITS }));
    }
    Ok(Ok(()))
}

/// How long a hold on the items of these lines may last.
pub(super) fn smallest_times<'a, S: State>(
    context: &CommandContext<'_, S>,
    lines: impl Iterator<Item = &'a RequestedLine>,
) -> Result<HoldTimes, DecideError> {
    let mut smallest: Option<HoldTimes> = None;
    for line in lines {
        let times = context.rules.of_item(known(context, line)?);
        smallest = Some(smallest.map_or(times, |smallest| smallest.smaller(times)));
    }
    Ok(smallest.unwrap_or_else(|| context.rules.of_service()))
}

/// A hold that a command creates, apart from its lines.
pub(super) struct NewHold {
    pub(super) event: EventId,
    pub(super) terms: ReserveTerms,
    pub(super) max_expires_at: Instant,
    /// Its deadline, which is cut to `max_expires_at`.
    pub(super) expires_at: Instant,
    pub(super) details: Option<Box<HoldDetails>>,
}

/// The lines of a new hold. `price` says what so many units of an item cost.
pub(super) fn granted_lines<S: State>(
    context: &CommandContext<'_, S>,
    granted: Vec<Grant<'_>>,
    price: impl Fn(&Item, u32) -> Result<Option<LinePrice>, DecideError>,
) -> Result<Vec<Line>, DecideError> {
    let mut lines = Vec::with_capacity(granted.len());
    for Grant { requested, offer, counted, pool, own: _ } in granted {
        let item = known(context, requested)?;
        let quantity = line_units(offer.quantity)?;
        let details = backorder::details_of(item, None, quantity, offer.units.as_deref(), counted, pool);
        lines.push(Line {
            item: item.key.clone(),
            requested: line_units(requested.quantity)?,
            quantity,
            fulfilled: 0,
            returned: 0,
            sequence: 0,
            details: prices::with(details, price(item, quantity)?),
            units: offer.units.map(|units| Arc::new(LineUnits::new(units))),
        });
    }
    Ok(lines)
}

/// Creates a hold of these lines.
pub(super) fn create<S: State>(
    context: &mut CommandContext<'_, S>,
    new: NewHold,
    lines: Vec<Line>,
    now: Instant,
) -> Result<Hold, DecideError> {
    let NewHold { event, terms, max_expires_at, expires_at, details } = new;
    let hold = Hold {
        id: context.fresh.reservation,
        status: Status::Active,
        expires_at: expires_at.min(max_expires_at),
        terms: Arc::new(HoldTerms { reserve: terms, created_at: now, max_expires_at }),
        lines: Arc::default(),
        closing: None,
        details,
        version: 0,
        last_event: event,
    };
    change_hold(context, event, now, hold, lines, HoldChange::Created)
}

pub(super) fn line_units(quantity: u64) -> Result<u32, DecideError> {
    u32::try_from(quantity).map_err(|_| DecideError::InvariantViolated("a line exceeds its limit"))
}
