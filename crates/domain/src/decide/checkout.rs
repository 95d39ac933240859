//! Checkout: the service takes the payment of a hold. This file starts it and gives it up. `charge.rs` follows what the provider says.

use super::hold::{change_hold, confirm_active, done, ended, open_for_change};
use super::payment::times;
use super::{CommandContext, DecideError};
use crate::charge::{Charge, ChargeState, CheckoutTerms, PaymentMethod};
use crate::command::{Confirm, IfExpired};
use crate::event::HoldChange;
use crate::hold::{Hold, Line, Payment, PaymentState, Status};
use crate::label::Label;
use crate::limits::{AMOUNT, EXTRA_AMOUNTS};
use crate::outcome::{Outcome, Reply};
use crate::payment_command::{CheckoutRequest, StartCheckout};
use crate::price::{Currency, LinePrice};
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::{Instant, Seconds};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) fn start<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &StartCheckout,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let (hold, at) = match open_for_change(context, command.id, command.expected.as_ref(), now)? {
        Ok(opened) => opened,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let price = match price_of(&hold.lines, &command.request.terms, "/extra") {
        Ok(price) => price,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    match begin(context, hold, &command.request, price, 0, at)? {
        Ok(hold) => Ok(done(context, hold, at)),
        Err(rejection) => Ok(Outcome::Refused(rejection)),
    }
}

/// Begins the payment of an active hold. Its first event has this number among those of the command.
pub(super) fn begin<S: State>(
    context: &mut CommandContext<'_, S>,
    mut hold: Hold,
    request: &CheckoutRequest,
    (amount, currency): (u64, Currency),
    first_event: u32,
    at: Instant,
) -> Result<Result<Hold, Rejection>, DecideError> {
    let max_payment = times(context, &hold)?.max_payment;
    let first_payment_at = hold.details().first_payment_at.unwrap_or(at);
    let latest = first_payment_at.deadline(max_payment);
    if latest <= at {
        return Ok(Err(Rejection::ExtensionLimit { max_expires_at: latest }));
    }
    let until = at.deadline(request.window.unwrap_or(Seconds::DEFAULT_PAYMENT)).min(latest);
    let deadline_before = hold.expires_at;
    let details = hold.details.get_or_insert_default();
    details.first_payment_at = Some(first_payment_at);
    details.authorizations = details.authorizations.saturating_add(u32::from(amount > 0));
    let new_id = context.fresh.reservation;
    let (new_order, id) = (label(&new_id.to_string())?, label(&format!("pay_{new_id}"))?);
    let charge = Charge {
        state: if amount > 0 { ChargeState::Pending } else { ChargeState::Captured },
        terms: Arc::new(request.terms.clone()),
        order_id: request.order_id.clone().unwrap_or(new_order),
        amount,
        currency,
        provider_ref: None,
        reacquires: true,
        captured: 0,
        refunded: 0,
        capture_attempts: 0,
        refund_attempts: 0,
        attempted_at: at,
        refunds: Vec::new(),
        tries: 0,
        refusals: 0,
        error: None,
        due_at: (amount > 0).then_some(at),
    };
    let charge = Some(Box::new(charge));
    details.payment = Some(Payment { id, state: PaymentState::Open, until, deadline_before, charge });
    let lines = hold.lines.to_vec();
    let mut hold = Hold { expires_at: hold.expires_at.max(until), ..hold };
    let event = context.fresh.event.nth(first_event);
    hold = change_hold(context, event, at, hold, lines, HoldChange::PaymentOpened { prolonged: false })?;
    if amount == 0 {
        // No provider is asked for nothing.
        let command = confirmation(&hold);
        hold = confirm_active(context, hold, &command, context.fresh.event.nth(first_event + 1), at)?;
    }
    Ok(Ok(hold))
}

/// A text of the rules as a label.
pub(super) fn label(text: &str) -> Result<Label, DecideError> {
    Label::new(text).map_err(|_| DecideError::InvariantViolated("a text of the rules is no label"))
}

/// What a checkout of these lines costs: all of them and the extras. Refuses a customer without a payment method. `pointer` is the place of the extras in the request.
pub(super) fn price_of(
    lines: &[Line],
    terms: &CheckoutTerms,
    pointer: &str,
) -> Result<(u64, Currency), Rejection> {
    if let PaymentMethod::Customer { customer_id, sealed: None } = &terms.method {
        return Err(Rejection::PaymentMethodMissing { customer_id: customer_id.clone() });
    }
    let unpriced = lines.iter().filter(|line| line.details().price.is_none());
    let unpriced: Vec<_> = unpriced.map(|line| line.item.clone()).collect();
    let price = LinePrice::sum(lines.iter().map(|line| line.details().price.as_ref()));
    let Some(price) = price.filter(|_| unpriced.is_empty()) else {
        return Err(Rejection::PriceMissing(unpriced));
    };
    if terms.extra.len() > EXTRA_AMOUNTS {
        let detail = format!("must be at most {EXTRA_AMOUNTS} amounts, and is {}", terms.extra.len());
        return Err(Rejection::invalid(pointer, detail));
    }
    let amounts = terms.extra.iter().map(|extra| u128::from(extra.amount));
    let sum = u128::from(price.amount) + amounts.sum::<u128>();
    match u64::try_from(sum) {
        Ok(sum) if sum <= AMOUNT => Ok((sum, price.currency)),
        Ok(_) | Err(_) => {
            Err(Rejection::invalid(pointer, format!("must not make the whole amount larger than {AMOUNT}")))
        }
    }
}

/// The confirm that a checkout leads to.
pub(super) fn confirmation(hold: &Hold) -> Confirm {
    let payment = hold.details().payment.as_ref();
    Confirm {
        id: hold.id,
        order_id: hold.charge().map(|charge| charge.order_id.clone()),
        payment_id: payment.map(|payment| payment.id.clone()),
        if_expired: IfExpired::Refuse,
        override_limits: false,
    }
}

/// Gives a payment up. Its hold ends when the provider has ended the payment.
pub(super) fn cancel<S: State>(
    context: &mut CommandContext<'_, S>,
    mut hold: Hold,
    at: Instant,
) -> Result<Outcome, DecideError> {
    match hold.status {
        Status::Active => {}
        Status::Confirmed => return Ok(Outcome::Refused(ended(&hold))),
        Status::Cancelled | Status::Expired => return Ok(Outcome::Done(Reply::Reservation(hold))),
    }
    let charge = hold.charge_mut();
    let is_under_way = |charge: &&mut Charge| {
        let state = charge.state;
        matches!(state, ChargeState::Pending | ChargeState::RequiresAction | ChargeState::Processing)
    };
    if let Some(charge) = charge.filter(is_under_way) {
        charge.enter(ChargeState::Voiding, at);
        charge.reacquires = false;
        let lines = hold.lines.to_vec();
        let advanced = HoldChange::PaymentAdvanced { status: hold.status, state_changed: true };
        hold = change_hold(context, context.fresh.event, at, hold, lines, advanced)?;
    }
    Ok(Outcome::Done(Reply::Reservation(hold)))
}
