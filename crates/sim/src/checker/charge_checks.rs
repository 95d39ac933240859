//! Checks payments that the service takes: no money without a sale or an obligation to give it back, and nothing twice.

use super::Checked;
use super::hold_checks::HoldTransition;
use stockhold_domain::{Charge, ChargeState, HoldChange, Status};

/// Checks the charge after a change of its reservation.
pub(super) fn check(transition: &HoldTransition<'_>) -> Checked {
    let HoldTransition { change, before, after, .. } = transition;
    let (old, new) = (before.charge(), after.charge());
    let may_change = matches!(
        change,
        HoldChange::PaymentOpened { .. }
            | HoldChange::PaymentClosed { .. }
            | HoldChange::PaymentAdvanced { .. }
            | HoldChange::Expired
            | HoldChange::Replaced
            | HoldChange::Confirmed
    );
    if old != new && !may_change {
        return transition.broken("S16", "its payment changed");
    }
    if matches!(change, HoldChange::PaymentAdvanced { .. }) && (old.is_none() || new.is_none()) {
        return transition.broken("S16", "a payment was moved on that the service does not take");
    }
    if let (HoldChange::Replaced, Some(_), Some(_)) = (change, old, new) {
        // The caller got the units in another way, so the payment stays where it is.
        if old != new {
            return transition.broken("S16", "its payment changed");
        }
    }
    let Some(new) = new else { return Ok(()) };
    if new.state.is_at_rest() != new.due_at.is_none() {
        return transition.broken("S16", "its payment is due, or it is at rest");
    }
    let pending: u64 = new.refunds.iter().map(|refund| refund.amount).sum();
    if new.refunded + pending > new.captured {
        return transition.broken("S16", "more money goes back than came");
    }
    let is_ended = matches!(after.status, Status::Cancelled | Status::Expired);
    if is_ended && new.refunded + pending != new.captured {
        return transition.broken("S16", "money is there without a sale or a refund");
    }
    if is_ended && new.awaits_capture() {
        return transition.broken("S16", "money is to be taken without a sale");
    }
    if (new.state == ChargeState::Refunding) == new.refunds.is_empty()
        && new.state != ChargeState::RefundFailed
    {
        return transition.broken("S16", "its refunds do not fit its state");
    }
    match old.filter(|old| old.order_id == new.order_id) {
        Some(old) if !matches!(change, HoldChange::PaymentOpened { .. }) => check_money(transition, old, new),
        _ => Ok(()),
    }
}

/// Money comes once and goes back once.
fn check_money(transition: &HoldTransition<'_>, old: &Charge, new: &Charge) -> Checked {
    let came = new.captured != old.captured;
    if came && old.captured > 0 {
        return transition.broken("S16", "money came twice");
    }
    if new.refunded < old.refunded || new.amount != old.amount || new.terms != old.terms {
        return transition.broken("S16", "its payment became another one");
    }
    Ok(())
}
