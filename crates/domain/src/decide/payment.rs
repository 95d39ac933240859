//! Payment windows: a hold is kept while its payment is under way, for a bounded time.

use super::hold::{Opened, change_hold, done, open, open_active, payment_in_progress};
use super::{CommandContext, DecideError};
use crate::event::HoldChange;
use crate::hold::{Hold, Payment, PaymentState};
use crate::hold_limits::HoldTimes;
use crate::label::Label;
use crate::outcome::Outcome;
use crate::payment_command::{ClosePayment, OpenPayment};
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::{Instant, Seconds};

pub(super) fn open_window<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &OpenPayment,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let (mut hold, at) = match open_active(context, command.id, command.expected.as_ref(), now)? {
        Ok(opened) => opened,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let known = hold.open_payment().cloned();
    if known.as_ref().is_some_and(|open| open.id != command.payment_id || open.charge.is_some()) {
        return Ok(Outcome::Refused(payment_in_progress(&hold)));
    }
    let max_payment = times(context, &hold)?.max_payment;
    let window = command.window.unwrap_or(Seconds::DEFAULT_PAYMENT.min(max_payment));
    let first_payment_at = hold.details().first_payment_at.unwrap_or(at);
    let (until, latest) = (at.deadline(window), first_payment_at.deadline(max_payment));
    if known.as_ref().is_some_and(|open| until <= open.until) {
        return Ok(done(context, hold, at));
    }
    if until > latest {
        return Ok(Outcome::Refused(Rejection::ExtensionLimit { max_expires_at: latest }));
    }
    let deadline_before = known.as_ref().map_or(hold.expires_at, |open| open.deadline_before);
    let details = hold.details.get_or_insert_default();
    details.first_payment_at = Some(first_payment_at);
    let id = command.payment_id.clone();
    details.payment = Some(Payment { id, state: PaymentState::Open, until, deadline_before, charge: None });
    let lines = hold.lines.to_vec();
    let hold = Hold { expires_at: hold.expires_at.max(until), ..hold };
    let change = HoldChange::PaymentOpened { prolonged: known.is_some() };
    let hold = change_hold(context, context.fresh.event, at, hold, lines, change)?;
    Ok(done(context, hold, at))
}

/// Closes a window. The deadline goes back to the one before the window, but leaves time for another payment.
pub(super) fn close_window<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &ClosePayment,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let (hold, at) = match open(context, command.id, now)? {
        Opened::Active(hold, at) => (hold, at),
        Opened::Ended(hold) => return Ok(done(context, hold, now)),
        Opened::Unknown => return Ok(Outcome::Refused(Rejection::UnknownReservation(command.id))),
    };
    let Some(open) = hold.open_payment() else { return Ok(done(context, hold, at)) };
    if command.payment_id.as_ref().is_some_and(|id| *id != open.id) {
        return Ok(done(context, hold, at));
    }
    if open.charge.is_some() {
        return Ok(Outcome::Refused(payment_in_progress(&hold)));
    }
    let hold = close_open_window(context, hold, command.reason.clone(), at)?;
    Ok(done(context, hold, at))
}

/// Closes the open window of an active hold.
pub(super) fn close_open_window<S: State>(
    context: &mut CommandContext<'_, S>,
    mut hold: Hold,
    reason: Option<Label>,
    at: Instant,
) -> Result<Hold, DecideError> {
    let default_ttl = times(context, &hold)?.default_ttl;
    let payment = hold.details.as_mut().and_then(|details| details.payment.as_mut());
    let payment = payment.ok_or(DecideError::InvariantViolated("a window is closed that is not open"))?;
    payment.state = PaymentState::Closed;
    let grace = at.deadline(Seconds::GRACE_AFTER_PAYMENT.min(default_ttl));
    let expires_at = payment.deadline_before.max(grace);
    let lines = hold.lines.to_vec();
    let hold = Hold { expires_at, ..hold };
    let change = HoldChange::PaymentClosed { reason };
    change_hold(context, context.fresh.event, at, hold, lines, change)
}

/// How long the items of a hold allow it to last.
pub(super) fn times<S: State>(
    context: &CommandContext<'_, S>,
    hold: &Hold,
) -> Result<HoldTimes, DecideError> {
    let mut smallest: Option<HoldTimes> = None;
    for line in &*hold.lines {
        if let Some(item) = context.state.item(&line.item)? {
            let times = context.rules.of_item(item);
            smallest = Some(smallest.map_or(times, |smallest| smallest.smaller(times)));
        }
    }
    Ok(smallest.unwrap_or_else(|| context.rules.of_service()))
}
