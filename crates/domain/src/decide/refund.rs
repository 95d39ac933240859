//! Refunds of a sale whose money the service took. A refund is stored with the reservation, together with the return of the units that it
//! is for. Then the provider is asked for it.

use super::hold::{change_hold, done, payment_in_progress_of};
use super::sale::{Movable, ReturnTerms, after_return, confirmed, returned};
use super::{CommandContext, DecideError};
use crate::charge::{ChargeState, PendingRefund};
use crate::event::{HoldChange, MovedUnits};
use crate::hold::{Hold, Line, LineDetails};
use crate::limits::{BASKET_LINES, PENDING_REFUNDS};
use crate::outcome::Outcome;
use crate::payment_command::{Refund, RefundSelection};
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use alloc::vec::Vec;

/// The number of the event of a refund. The events of the return have the numbers before it: one, and one for each line.
#[expect(clippy::cast_possible_truncation, reason = "a thousand lines or so")]
const REFUND_EVENT: u32 = BASKET_LINES as u32 + 1;

pub(super) fn refund<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Refund,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let (hold, at) = match confirmed(context, command.id, now)? {
        Ok(opened) => opened,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let Some(charge) = hold.charge().filter(|charge| charge.captured > 0) else {
        return Ok(Outcome::Refused(Rejection::PaymentNotCaptured(command.id)));
    };
    let refundable = charge.refundable();
    if charge.refunds.len() >= PENDING_REFUNDS {
        return Ok(Outcome::Refused(payment_in_progress_of(&hold)));
    }
    let exceeds = |requested| {
        let id = command.id;
        Ok(Outcome::Refused(Rejection::RefundExceedsCaptured { id, requested, refundable }))
    };
    let (hold, amount) = match &command.selection {
        RefundSelection::Rest if refundable == 0 => return exceeds(0),
        RefundSelection::Rest => (hold, refundable),
        RefundSelection::Amount(amount) => (hold, *amount),
        RefundSelection::Lines { selection, disposition } => {
            let moved = match Movable::ToReturn(None).select(&hold, selection)? {
                Ok(moved) => moved,
                Err(rejection) => return Ok(Outcome::Refused(rejection)),
            };
            let terms = ReturnTerms { from: None, disposition: *disposition, reason: &command.reason };
            let (mut lines, fulfilled) = match after_return(context, &hold, &moved, &terms)? {
                Ok(after) => after,
                Err(rejection) => return Ok(Outcome::Refused(rejection)),
            };
            let amount = refund_lines(&mut lines, &moved)?;
            if amount > refundable {
                return exceeds(amount);
            }
            let event = context.fresh.event;
            let hold = returned(context, hold, &moved, (lines, fulfilled), &terms, event, at)?;
            (hold, amount)
        }
    };
    if amount > refundable {
        return exceeds(amount);
    }
    let hold = if amount > 0 { add_refund(context, hold, command, amount, at)? } else { hold };
    Ok(done(context, hold, at))
}

/// Notes in lines of which units came back what is refunded for these units. Returns the sum.
fn refund_lines(lines: &mut [Line], moved: &[MovedUnits]) -> Result<u64, DecideError> {
    let mut sum = 0;
    for (line, _) in lines.iter_mut().zip(moved).filter(|(_, moved)| moved.quantity > 0) {
        let details = line.details().clone();
        let amount = details.price.as_ref().map_or(0, |price| price.amount);
        let of_returned = u128::from(amount) * u128::from(line.returned) / u128::from(line.quantity.max(1));
        let of_returned = u64::try_from(of_returned)
            .map_err(|_| DecideError::InvariantViolated("a share of an amount is larger than the amount"))?;
        sum = super::add(sum, of_returned.saturating_sub(details.refunded))?;
        let refunded = details.refunded.max(of_returned);
        line.details = LineDetails { refunded, ..details }.some();
    }
    Ok(sum)
}

fn add_refund<S: State>(
    context: &mut CommandContext<'_, S>,
    mut hold: Hold,
    command: &Refund,
    amount: u64,
    at: Instant,
) -> Result<Hold, DecideError> {
    let charge = hold.charge_mut();
    let charge = charge.ok_or(DecideError::InvariantViolated("a charge went away that is refunded"))?;
    charge.refunds.push(PendingRefund { amount, reason: command.reason.clone() });
    // A refund behind one that is under way, or that failed, waits for it.
    let is_first = charge.refunds.len() == 1;
    if is_first {
        charge.refund_attempts = charge.refund_attempts.saturating_add(1);
        charge.attempted_at = at;
        charge.enter(ChargeState::Refunding, at);
    }
    let lines: Vec<Line> = hold.lines.to_vec();
    let advanced = HoldChange::PaymentAdvanced { status: hold.status, state_changed: is_first };
    change_hold(context, context.fresh.event.nth(REFUND_EVENT), at, hold, lines, advanced)
}
