//! What a provider says about a payment that the service takes, and what follows for the reservation. Failures are undone in reverse order:
//! what is to be undone is written before the provider is asked for it.

use super::checkout::{cancel, confirmation, label};
use super::hold::{Opened, change_hold, close, confirm_active, open};
use super::payment::close_open_window;
use super::reacquire::reacquire;
use super::sale::{clamp_ended, return_all};
use super::{CommandContext, DecideError};
use crate::charge::{Charge, ChargeState, OnDecline, PendingRefund, ProviderRef};
use crate::event::HoldChange;
use crate::hold::{Closing, Hold, Status};
use crate::label::Label;
use crate::limits::REFUND_REFUSALS;
use crate::outcome::{Outcome, Reply};
use crate::payment_command::{AdvancePayment, PaymentStep, ProviderReport};
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use alloc::vec;

/// The reason of a hold that ended because its payment was declined.
const PAYMENT_FAILED: &str = "payment_failed";
/// The reason of a hold whose caller gave the payment up.
const PAYMENT_CANCELLED: &str = "payment_cancelled";

pub(super) fn advance<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &AdvancePayment,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let Some(known) = context.state.hold(command.id)? else {
        return Ok(Outcome::Refused(Rejection::UnknownReservation(command.id)));
    };
    if let PaymentStep::Reported { version, .. } = &command.step
        && known.version != *version
    {
        return Ok(Outcome::Done(Reply::Reservation(known.clone())));
    }
    let (hold, at) = match open(context, command.id, now)? {
        Opened::Active(hold, at) => (hold, at),
        Opened::Ended(hold) => {
            let at = clamp_ended(context, &hold, now)?;
            (hold, at)
        }
        Opened::Unknown => return Ok(Outcome::Refused(Rejection::UnknownReservation(command.id))),
    };
    match &command.step {
        PaymentStep::Reported { report, wait_ms, .. } => {
            let Some(charge) = hold.charge().cloned() else { return Ok(unchanged(hold)) };
            let wait = i64::try_from(*wait_ms).unwrap_or(i64::MAX).saturating_mul(1_000);
            let next = Instant::from_micros(at.micros().saturating_add(wait));
            Step { hold, charge, at, next }.follow(context, report)
        }
        PaymentStep::Cancel => cancel(context, hold, at),
        PaymentStep::RetryRefund => retry_refund(context, hold, at),
        PaymentStep::Wake => wake(context, hold, at),
    }
}

fn unchanged(hold: Hold) -> Outcome {
    Outcome::Done(Reply::Reservation(hold))
}

fn retry_refund<S: State>(
    context: &mut CommandContext<'_, S>,
    mut hold: Hold,
    at: Instant,
) -> Result<Outcome, DecideError> {
    let id = hold.id;
    let Some(charge) = hold.charge_mut().filter(|charge| charge.captured > 0) else {
        return Ok(Outcome::Refused(Rejection::PaymentNotCaptured(id)));
    };
    if charge.state != ChargeState::RefundFailed {
        return Ok(unchanged(hold));
    }
    charge.enter(ChargeState::Refunding, at);
    charge.refusals = 0;
    advanced(context, hold, at, true)
}

/// A word of the provider only says that it is time to ask.
fn wake<S: State>(
    context: &mut CommandContext<'_, S>,
    mut hold: Hold,
    at: Instant,
) -> Result<Outcome, DecideError> {
    match hold.charge_mut() {
        Some(charge) if charge.due_at.is_some_and(|due| due > at) => {
            charge.due_at = Some(at);
            advanced(context, hold, at, false)
        }
        Some(_) | None => Ok(unchanged(hold)),
    }
}

/// The event of a payment that was moved on, and its answer.
fn advanced<S: State>(
    context: &mut CommandContext<'_, S>,
    hold: Hold,
    at: Instant,
    state_changed: bool,
) -> Result<Outcome, DecideError> {
    advance_event(context, hold, at, state_changed).map(unchanged)
}

fn advance_event<S: State>(
    context: &mut CommandContext<'_, S>,
    hold: Hold,
    at: Instant,
    state_changed: bool,
) -> Result<Hold, DecideError> {
    let lines = hold.lines.to_vec();
    let change = HoldChange::PaymentAdvanced { status: hold.status, state_changed };
    change_hold(context, context.fresh.event, at, hold, lines, change)
}

/// A reservation whose provider was asked.
struct Step {
    hold: Hold,
    /// The charge of the reservation, as it is changed.
    charge: Charge,
    at: Instant,
    /// When the provider is asked again, if it has to be.
    next: Instant,
}

impl Step {
    fn follow<S: State>(
        self,
        context: &mut CommandContext<'_, S>,
        report: &ProviderReport,
    ) -> Result<Outcome, DecideError> {
        match self.charge.state {
            ChargeState::Pending | ChargeState::RequiresAction | ChargeState::Processing => {
                self.under_way(context, report)
            }
            ChargeState::Authorized | ChargeState::Capturing => self.capturing(context, report),
            ChargeState::Voiding => self.voiding(context, report),
            ChargeState::Refunding => self.refunding(context, report),
            ChargeState::Captured
            | ChargeState::Declined
            | ChargeState::Voided
            | ChargeState::Refunded
            | ChargeState::RefundFailed => Ok(unchanged(self.hold)),
        }
    }

    /// Of an active hold. A hold that ends takes its payment out of these states.
    fn under_way<S: State>(
        mut self,
        context: &mut CommandContext<'_, S>,
        report: &ProviderReport,
    ) -> Result<Outcome, DecideError> {
        match report {
            ProviderReport::NoAnswer { error } => self.retry(context, Some(error)),
            ProviderReport::Failed { error } => {
                self.new_authorization();
                self.retry(context, Some(error))
            }
            ProviderReport::RequiresAction { provider_ref } => {
                self.waits(context, ChargeState::RequiresAction, provider_ref)
            }
            ProviderReport::Processing { provider_ref } => {
                self.waits(context, ChargeState::Processing, provider_ref)
            }
            ProviderReport::Authorized { provider_ref } => {
                self.authorized(provider_ref);
                self.confirm(context)
            }
            ProviderReport::Captured { provider_ref, amount } => {
                self.captured(provider_ref, *amount);
                self.confirm(context)
            }
            ProviderReport::Declined { error } => {
                self.charge.error = Some(error.clone());
                self.charge.enter(ChargeState::Declined, self.at);
                let release = self.charge.terms.on_decline == OnDecline::Release;
                self.end_window(context, PAYMENT_FAILED, release)
            }
            ProviderReport::Cancelled => {
                self.charge.enter(ChargeState::Voided, self.at);
                let release = self.charge.terms.on_decline == OnDecline::Release;
                self.end_window(context, PAYMENT_FAILED, release)
            }
            ProviderReport::Refunded | ProviderReport::RefundRefused { .. } => Ok(unchanged(self.hold)),
        }
    }

    /// Of a confirmed reservation.
    fn capturing<S: State>(
        mut self,
        context: &mut CommandContext<'_, S>,
        report: &ProviderReport,
    ) -> Result<Outcome, DecideError> {
        let error = match report {
            ProviderReport::Captured { provider_ref, amount } => {
                self.captured(provider_ref, *amount);
                return self.write(context, true);
            }
            ProviderReport::Declined { error } => {
                self.charge.error = Some(error.clone());
                return self.undo_sale(context);
            }
            ProviderReport::Cancelled => return self.undo_sale(context),
            ProviderReport::Failed { error } => {
                self.charge.capture_attempts = self.charge.capture_attempts.saturating_add(1);
                self.charge.attempted_at = self.at;
                Some(error)
            }
            ProviderReport::NoAnswer { error } => Some(error),
            ProviderReport::RequiresAction { .. }
            | ProviderReport::Processing { .. }
            | ProviderReport::Authorized { .. } => None,
            ProviderReport::Refunded | ProviderReport::RefundRefused { .. } => {
                return Ok(unchanged(self.hold));
            }
        };
        let state_changed = self.charge.state != ChargeState::Capturing;
        self.charge.state = ChargeState::Capturing;
        self.note_try(error);
        self.write(context, state_changed)
    }

    /// Of a reservation in any status whose payment is to be ended.
    fn voiding<S: State>(
        mut self,
        context: &mut CommandContext<'_, S>,
        report: &ProviderReport,
    ) -> Result<Outcome, DecideError> {
        match report {
            ProviderReport::NoAnswer { error } | ProviderReport::Failed { error } => {
                self.retry(context, Some(error))
            }
            ProviderReport::RequiresAction { provider_ref } | ProviderReport::Processing { provider_ref } => {
                self.found(context, provider_ref)
            }
            ProviderReport::Authorized { provider_ref } if self.may_reacquire() => {
                let before = self.charge.clone();
                self.authorized(provider_ref);
                match self.reacquire(context)? {
                    Ok(outcome) => Ok(outcome),
                    Err(hold) => {
                        let charge = Charge { reacquires: false, ..before };
                        Self { hold, charge, ..self }.found(context, provider_ref)
                    }
                }
            }
            ProviderReport::Authorized { provider_ref } => self.found(context, provider_ref),
            ProviderReport::Captured { provider_ref, amount } => {
                self.captured(provider_ref, *amount);
                if self.may_reacquire() {
                    match self.reacquire(context)? {
                        Ok(outcome) => return Ok(outcome),
                        Err(hold) => self.hold = hold,
                    }
                }
                let reason = label(PAYMENT_CANCELLED)?;
                self.charge.refunds = vec![PendingRefund { amount: *amount, reason }];
                self.charge.refund_attempts = 1;
                self.charge.enter(ChargeState::Refunding, self.at);
                self.end_window(context, PAYMENT_CANCELLED, true)
            }
            ProviderReport::Declined { .. } | ProviderReport::Cancelled => {
                self.charge.enter(ChargeState::Voided, self.at);
                self.end_window(context, PAYMENT_CANCELLED, true)
            }
            ProviderReport::Refunded | ProviderReport::RefundRefused { .. } => Ok(unchanged(self.hold)),
        }
    }

    fn refunding<S: State>(
        mut self,
        context: &mut CommandContext<'_, S>,
        report: &ProviderReport,
    ) -> Result<Outcome, DecideError> {
        match report {
            ProviderReport::Refunded => {
                let charge = &mut self.charge;
                if charge.refunds.is_empty() {
                    return Err(DecideError::InvariantViolated("a refund was made that nobody asked for"));
                }
                charge.refunded = super::add(charge.refunded, charge.refunds.remove(0).amount)?;
                charge.refusals = 0;
                charge.error = None;
                if charge.refunds.is_empty() {
                    let all = charge.refunded >= charge.captured;
                    charge.enter(if all { ChargeState::Refunded } else { ChargeState::Captured }, self.at);
                } else {
                    charge.enter(ChargeState::Refunding, self.at);
                    charge.refund_attempts = charge.refund_attempts.saturating_add(1);
                }
                self.write(context, true)
            }
            ProviderReport::RefundRefused { error } => {
                self.new_refund_attempt();
                self.charge.refusals = self.charge.refusals.saturating_add(1);
                if self.charge.refusals < REFUND_REFUSALS {
                    return self.retry(context, Some(error));
                }
                self.charge.error = Some(error.clone());
                self.charge.enter(ChargeState::RefundFailed, self.at);
                self.write(context, true)
            }
            ProviderReport::Failed { error } => {
                self.new_refund_attempt();
                self.retry(context, Some(error))
            }
            ProviderReport::NoAnswer { error } | ProviderReport::Declined { error } => {
                self.retry(context, Some(error))
            }
            ProviderReport::RequiresAction { .. }
            | ProviderReport::Processing { .. }
            | ProviderReport::Authorized { .. }
            | ProviderReport::Captured { .. }
            | ProviderReport::Cancelled => self.retry(context, None),
        }
    }

    fn new_authorization(&mut self) {
        let details = self.hold.details.get_or_insert_default();
        details.authorizations = details.authorizations.saturating_add(1);
        self.charge.attempted_at = self.at;
    }

    fn new_refund_attempt(&mut self) {
        self.charge.refund_attempts = self.charge.refund_attempts.saturating_add(1);
        self.charge.attempted_at = self.at;
    }

    fn authorized(&mut self, provider_ref: &ProviderRef) {
        self.charge.provider_ref = Some(provider_ref.clone());
        self.charge.capture_attempts = 1;
        self.charge.error = None;
        self.charge.enter(ChargeState::Authorized, self.at);
    }

    fn captured(&mut self, provider_ref: &ProviderRef, amount: u64) {
        self.charge.provider_ref = Some(provider_ref.clone());
        self.charge.captured = amount;
        self.charge.error = None;
        self.charge.enter(ChargeState::Captured, self.at);
    }

    /// Counts a request that brought nothing new.
    fn note_try(&mut self, error: Option<&Label>) {
        self.charge.tries = self.charge.tries.saturating_add(1);
        self.charge.error = error.cloned();
        self.charge.due_at = Some(self.next);
    }

    fn retry<S: State>(
        mut self,
        context: &mut CommandContext<'_, S>,
        error: Option<&Label>,
    ) -> Result<Outcome, DecideError> {
        self.note_try(error);
        self.write(context, false)
    }

    /// The payment waits for the buyer or for the provider.
    fn waits<S: State>(
        mut self,
        context: &mut CommandContext<'_, S>,
        state: ChargeState,
        provider_ref: &ProviderRef,
    ) -> Result<Outcome, DecideError> {
        let state_changed = self.charge.state != state;
        self.charge.tries = if state_changed { 0 } else { self.charge.tries.saturating_add(1) };
        self.charge.state = state;
        self.charge.provider_ref = Some(provider_ref.clone());
        self.charge.error = None;
        self.charge.due_at = Some(self.next);
        self.write(context, state_changed)
    }

    /// A payment that is to be ended exists at the provider.
    fn found<S: State>(
        mut self,
        context: &mut CommandContext<'_, S>,
        provider_ref: &ProviderRef,
    ) -> Result<Outcome, DecideError> {
        let is_news = self.charge.provider_ref.is_none()
            || self.hold.charge().is_none_or(|known| known.reacquires != self.charge.reacquires);
        self.charge.provider_ref = Some(provider_ref.clone());
        self.note_try(None);
        if is_news {
            self.charge.due_at = Some(self.at);
        }
        self.write(context, false)
    }

    fn write<S: State>(
        self,
        context: &mut CommandContext<'_, S>,
        state_changed: bool,
    ) -> Result<Outcome, DecideError> {
        let at = self.at;
        advanced(context, self.into_hold(), at, state_changed)
    }

    fn into_hold(self) -> Hold {
        let mut hold = self.hold;
        if let Some(charge) = hold.charge_mut() {
            *charge = self.charge;
        }
        hold
    }

    /// The payment is certain, and so the sale is.
    fn confirm<S: State>(self, context: &mut CommandContext<'_, S>) -> Result<Outcome, DecideError> {
        let at = self.at;
        let hold = advance_event(context, self.into_hold(), at, true)?;
        let command = confirmation(&hold);
        confirm_active(context, hold, &command, context.fresh.event.nth(1), at).map(unchanged)
    }

    /// The payment came to an end. Ends the window of a hold that is active, and the hold too if it is released.
    fn end_window<S: State>(
        self,
        context: &mut CommandContext<'_, S>,
        reason: &str,
        release: bool,
    ) -> Result<Outcome, DecideError> {
        let at = self.at;
        if self.hold.status != Status::Active {
            return self.write(context, true);
        }
        let reason = label(reason)?;
        let hold = close_open_window(context, self.into_hold(), Some(reason.clone()), at)?;
        if !release {
            return Ok(unchanged(hold));
        }
        let closing = Closing { at, reason: Some(reason), order_id: None };
        let event = context.fresh.event.nth(1);
        close(context, event, hold, HoldChange::Cancelled, closing).map(unchanged)
    }

    /// The money of a sale can't be had: the units go back, and the payment is ended.
    fn undo_sale<S: State>(mut self, context: &mut CommandContext<'_, S>) -> Result<Outcome, DecideError> {
        let at = self.at;
        self.charge.reacquires = false;
        self.charge.enter(ChargeState::Voiding, at);
        let hold = advance_event(context, self.into_hold(), at, true)?;
        let event = context.fresh.event.nth(1);
        return_all(context, hold, &label(PAYMENT_FAILED)?, event, at).map(unchanged)
    }

    fn may_reacquire(&self) -> bool {
        self.charge.reacquires
            && self.hold.status == Status::Expired
            && self.hold.details().replaced_by.is_none()
    }

    /// The money came after the hold had expired: takes the units again, if they can be had. Else returns the hold.
    fn reacquire<S: State>(
        &self,
        context: &mut CommandContext<'_, S>,
    ) -> Result<Result<Outcome, Hold>, DecideError> {
        let command = confirmation(&self.hold);
        match reacquire(context, &command, &self.hold, Some(&self.charge), self.at)? {
            Outcome::Refused(_) => Ok(Err(self.hold.clone())),
            outcome @ (Outcome::Done(_) | Outcome::Replayed(_) | Outcome::Later) => Ok(Ok(outcome)),
        }
    }
}
