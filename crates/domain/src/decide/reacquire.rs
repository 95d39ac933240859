//! Reacquire: a buyer paid too late. A new hold takes the units of the expired one again and is confirmed in the same commit. The expired
//! hold stays expired.

use super::grants::{Request, clamp_to_item_clock, expire_until_it_fits, grant};
use super::hold::{change_hold, confirm_active, done, ended, same_sale};
use super::limits::{LimitDecision, LimitPlan};
use super::reserve::{NewHold, create, granted_lines, smallest_times};
use super::sale_state::refusal_of_sale;
use super::{CommandContext, DecideError, prices};
use crate::basket::{Basket, RequestedLine};
use crate::charge::Charge;
use crate::command::{Confirm, Fulfilment};
use crate::event::HoldChange;
use crate::hold::{Hold, HoldDetails, Line, Payment, PaymentState};
use crate::outcome::Outcome;
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use crate::unit_selection::UnitSelection;
use alloc::boxed::Box;
use alloc::vec::Vec;

pub(super) fn reacquire<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Confirm,
    expired: &Hold,
    charge: Option<&Charge>,
    now: Instant,
) -> Result<Outcome, DecideError> {
    if let Some(id) = expired.details().replaced_by {
        let hold = context.state.hold(id)?;
        let hold = hold.ok_or(DecideError::InvariantViolated("a hold's replacement does not exist"))?.clone();
        if !same_sale(&hold, command) {
            return Ok(Outcome::Refused(ended(&hold)));
        }
        return Ok(done(context, hold, now));
    }
    let id = expired.id;
    let refused = |refusal| Ok(Outcome::Refused(Rejection::NotReacquired { id, refusal: Box::new(refusal) }));
    let Some(basket) = basket_of(expired) else {
        return Err(DecideError::InvariantViolated("the lines of a hold are no basket"));
    };
    if let Some(rejection) = unknown(context, &basket)? {
        return refused(rejection);
    }
    let request = Request::new(&basket, expired.terms.reserve.pool());
    if let Some(rejection) = refusal_of_sale(context, &request, now)? {
        return refused(rejection);
    }
    let now = clamp_to_item_clock(context, basket.lines(), now)?;
    let overrides = command.override_limits;
    let plan = match LimitPlan::of_request(context, &request, &expired.terms.reserve, overrides)? {
        Ok(plan) => plan,
        Err(rejection) => return refused(rejection),
    };
    let limits_left = match plan.check(context, Fulfilment::All, overrides, now)? {
        LimitDecision::Within(limits_left) => limits_left,
        LimitDecision::Refused(rejection) => return refused(rejection),
        LimitDecision::Later => return Ok(Outcome::Later),
    };
    let Some(at) = expire_until_it_fits(context, &request, now)? else { return Ok(Outcome::Later) };
    if let Some(rejection) = refusal_of_sale(context, &request, at)? {
        return refused(rejection);
    }
    let granted = match grant(context, &request, Fulfilment::All, &plan, limits_left)? {
        Ok(granted) => granted,
        Err(rejection) => return refused(rejection),
    };
    let times = smallest_times(context, basket.lines().iter())?;
    let event = context.fresh.event;
    let mut replaced = expired.clone();
    let replaced_details = replaced.details.get_or_insert_default();
    replaced_details.replaced_by = Some(context.fresh.reservation);
    let payment = replaced_details.payment.as_mut();
    let payment = payment.filter(|_| charge.is_some()).map(|payment| move_charge(payment, charge, at));
    let lines = replaced.lines.to_vec();
    let overridden = core::mem::take(&mut context.overridden);
    change_hold(context, event, at, replaced, lines, HoldChange::Replaced)?;
    context.overridden = overridden;
    let new = NewHold {
        event: event.nth(1),
        terms: expired.terms.reserve.clone(),
        max_expires_at: at.deadline(times.max_hold),
        expires_at: at.deadline(times.default_ttl),
        details: Some(Box::new(HoldDetails { replaces: Some(id), payment, ..HoldDetails::default() })),
    };
    let lines =
        granted_lines(context, granted, |item, quantity| prices::frozen(&expired.lines, item, quantity))?;
    let hold = create(context, new, lines, at)?;
    let mut hold = confirm_active(context, hold, command, event.nth(2), at)?;
    if charge.is_some() {
        let lines = hold.lines.to_vec();
        let advanced = HoldChange::PaymentAdvanced { status: hold.status, state_changed: true };
        hold = change_hold(context, event.nth(3), at, hold, lines, advanced)?;
    }
    Ok(done(context, hold, at))
}

/// Takes the charge out of the payment of an expired hold, for the one that gets its units. No window was open for that one.
fn move_charge(payment: &mut Payment, charge: Option<&Charge>, at: Instant) -> Payment {
    payment.charge = None;
    Payment {
        id: payment.id.clone(),
        state: PaymentState::Closed,
        until: at,
        deadline_before: payment.deadline_before,
        charge: charge.cloned().map(Box::new),
    }
}

/// The lines of a hold as a request for the same units.
pub(super) fn basket_of(hold: &Hold) -> Option<Basket> {
    let requested = |line: &Line| {
        let units = line.units.as_ref().map(|units| units.all().iter().map(|unit| unit.id.clone()).collect());
        let line = RequestedLine { item: line.item.clone(), quantity: u64::from(line.quantity) };
        (line, units.map(UnitSelection::Named))
    };
    Basket::with_selections(hold.lines.iter().map(requested).collect::<Vec<_>>()).ok()
}

/// The refusal of items that are gone. Times to live and bounds of quantities are not checked again.
fn unknown<S: State>(
    context: &CommandContext<'_, S>,
    basket: &Basket,
) -> Result<Option<Rejection>, DecideError> {
    let mut unknown = Vec::new();
    for line in basket.lines() {
        if context.state.item(&line.item)?.is_none() {
            unknown.push(line.item.clone());
        }
    }
    Ok((!unknown.is_empty()).then_some(Rejection::UnknownItem(unknown)))
}
