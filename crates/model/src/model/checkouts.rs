//! Payments that the service takes, in the model.

use super::payments::{in_progress, open_payment};
use super::{Model, holds::over, invalid};
use stockhold_domain::{
    AdvancePayment, Charge, ChargeState as State, CheckoutRequest, Confirm, Currency, Disposition, Envelope,
    Hold, IfExpired, Instant, Label, Line, LinePrice, OnDecline, Payment, PaymentMethod, PaymentState,
    PaymentStep, PendingRefund, Precondition, ProviderRef, ProviderReport as Report, Refund, RefundSelection,
    Rejection, ReservationId, Return, SaleSelection, Seconds, StartCheckout, Status, limits,
};

impl Model {
    pub(super) fn start_checkout(
        &mut self,
        envelope: &Envelope,
        asked: &StartCheckout,
        now: Instant,
    ) -> Result<Hold, Rejection> {
        let hold = self.found(asked.id, now)?;
        let as_expected = match &asked.expected {
            None | Some(Precondition::Exists) => true,
            Some(Precondition::Absent) => false,
            Some(Precondition::VersionIn(versions)) => versions.contains(&hold.version),
        };
        if !as_expected {
            return Err(Rejection::PreconditionFailed { version: Some(hold.version) });
        }
        if hold.status != Status::Active {
            return Err(over(&hold));
        }
        if let Some(payment) = open_payment(&hold) {
            return Err(in_progress(&hold, payment));
        }
        checkout_amount(&hold.lines, &asked.request, "/extra")?;
        self.begin_checkout(envelope.fresh.reservation, hold, &asked.request, now)
    }

    /// Begins the payment of an active hold. `fresh` names what gets a new id.
    pub(super) fn begin_checkout(
        &mut self,
        fresh: ReservationId,
        mut hold: Hold,
        request: &CheckoutRequest,
        now: Instant,
    ) -> Result<Hold, Rejection> {
        let (amount, currency) = checkout_amount(&hold.lines, request, "/extra")?;
        let first = hold.details().first_payment_at.unwrap_or(now);
        let max = hold.lines.iter().map(|line| self.max_payment(&line.item)).min().expect("a line");
        let latest = first.deadline(max);
        if latest <= now {
            return Err(Rejection::ExtensionLimit { max_expires_at: latest });
        }
        let usual = Seconds::new(limits::DEFAULT_PAYMENT_SECONDS.into()).expect("a number of seconds");
        let until = now.deadline(request.window.unwrap_or(usual)).min(latest);
        let id = fresh.to_string();
        let label = |text: &str| Label::new(text).expect("a label");
        let free = amount == 0;
        let charge = Charge {
            state: if free { State::Captured } else { State::Pending },
            terms: request.terms.clone().into(),
            order_id: request.order_id.clone().unwrap_or_else(|| label(&id)),
            amount,
            currency,
            provider_ref: None,
            reacquires: true,
            captured: 0,
            refunded: 0,
            capture_attempts: 0,
            refund_attempts: 0,
            attempted_at: now,
            refunds: Vec::new(),
            tries: 0,
            refusals: 0,
            error: None,
            due_at: if free { None } else { Some(now) },
        };
        let deadline_before = hold.expires_at;
        let details = hold.details.get_or_insert_default();
        details.first_payment_at = Some(first);
        details.authorizations += u32::from(!free);
        details.payment = Some(Payment {
            id: label(&format!("pay_{id}")),
            state: PaymentState::Open,
            until,
            deadline_before,
            charge: Some(Box::new(charge)),
        });
        hold.expires_at = hold.expires_at.max(until);
        self.touch(&mut hold, now, true);
        Ok(if free { self.sell(hold, now) } else { hold })
    }

    /// Confirms an active reservation by its charge.
    fn sell(&mut self, hold: Hold, now: Instant) -> Hold {
        let asked = confirm_of(&hold);
        self.confirm_active(hold, &asked, now)
    }

    pub(super) fn advance_payment(
        &mut self,
        new: ReservationId,
        asked: &AdvancePayment,
        now: Instant,
    ) -> Result<Hold, Rejection> {
        let known = self.hold(asked.id).ok_or(Rejection::UnknownReservation(asked.id))?;
        if matches!(asked.step, PaymentStep::Reported { version, .. } if version != known.version) {
            return Ok(known);
        }
        let hold = self.found(asked.id, now)?;
        let charge = hold.charge().cloned();
        match (&asked.step, charge) {
            (PaymentStep::Reported { report, wait_ms, .. }, Some(charge)) => {
                let next =
                    Instant::from_micros(now.micros() + i64::try_from(*wait_ms).expect("a wait") * 1_000);
                Ok(self.hear(new, hold, charge, report, (now, next)))
            }
            (PaymentStep::Cancel, charge) => match (hold.status, charge) {
                (Status::Confirmed, _) => Err(over(&hold)),
                (Status::Active, Some(mut charge)) if is_asked_for(charge.state) => {
                    charge.reacquires = false;
                    begin(&mut charge, State::Voiding, now);
                    Ok(self.put_charge(hold, charge, now))
                }
                (Status::Active | Status::Cancelled | Status::Expired, _) => Ok(hold),
            },
            (PaymentStep::RetryRefund, Some(mut charge)) if charge.captured > 0 => {
                if charge.state != State::RefundFailed {
                    return Ok(hold);
                }
                charge.refusals = 0;
                begin(&mut charge, State::Refunding, now);
                Ok(self.put_charge(hold, charge, now))
            }
            (PaymentStep::RetryRefund, _) => Err(Rejection::PaymentNotCaptured(asked.id)),
            (PaymentStep::Wake, Some(mut charge)) if charge.due_at.is_some_and(|due| due > now) => {
                charge.due_at = Some(now);
                Ok(self.put_charge(hold, charge, now))
            }
            (PaymentStep::Reported { .. }, None) | (PaymentStep::Wake, _) => Ok(hold),
        }
    }

    fn put_charge(&mut self, mut hold: Hold, charge: Charge, now: Instant) -> Hold {
        hold.details.as_mut().expect("details").payment.as_mut().expect("a payment").charge =
            Some(Box::new(charge));
        if hold.status == Status::Active {
            self.touch(&mut hold, now, false);
        } else {
            hold.version += 1;
            self.keep(&hold);
        }
        hold
    }

    /// What follows from a report of the provider.
    fn hear(
        &mut self,
        new: ReservationId,
        hold: Hold,
        charge: Charge,
        report: &Report,
        times: (Instant, Instant),
    ) -> Hold {
        match charge.state {
            State::Captured | State::Declined | State::Voided | State::Refunded | State::RefundFailed => hold,
            State::Pending | State::RequiresAction | State::Processing => {
                self.hear_of_payment(hold, charge, report, times)
            }
            State::Authorized | State::Capturing => self.hear_of_capture(hold, charge, report, times),
            State::Voiding => self.hear_of_end(new, hold, charge, report, times),
            State::Refunding => self.hear_of_refund(hold, charge, report, times),
        }
    }

    /// The sale waits for its payment.
    fn hear_of_payment(
        &mut self,
        mut hold: Hold,
        mut charge: Charge,
        report: &Report,
        (now, next): (Instant, Instant),
    ) -> Hold {
        match report {
            Report::NoAnswer { error } => {
                wait(&mut charge, Some(error), next);
                self.put_charge(hold, charge, now)
            }
            Report::Failed { error } => {
                hold.details.as_mut().expect("details").authorizations += 1;
                charge.attempted_at = now;
                wait(&mut charge, Some(error), next);
                self.put_charge(hold, charge, now)
            }
            Report::RequiresAction { provider_ref } | Report::Processing { provider_ref } => {
                let is_processing = matches!(report, Report::Processing { .. });
                let state = if is_processing { State::Processing } else { State::RequiresAction };
                charge.tries = if state == charge.state { charge.tries + 1 } else { 0 };
                charge.state = state;
                charge.provider_ref = Some(provider_ref.clone());
                charge.error = None;
                charge.due_at = Some(next);
                self.put_charge(hold, charge, now)
            }
            Report::Authorized { provider_ref } => {
                take(&mut charge, provider_ref, None, now);
                let hold = self.put_charge(hold, charge, now);
                self.sell(hold, now)
            }
            Report::Captured { provider_ref, amount } => {
                take(&mut charge, provider_ref, Some(*amount), now);
                let hold = self.put_charge(hold, charge, now);
                self.sell(hold, now)
            }
            Report::Declined { .. } | Report::Cancelled => {
                let state = if *report == Report::Cancelled { State::Voided } else { State::Declined };
                if let Report::Declined { error } = report {
                    charge.error = Some(error.clone());
                }
                begin(&mut charge, state, now);
                let release = charge.terms.on_decline == OnDecline::Release;
                self.give_up(hold, charge, release.then_some("payment_failed"), now)
            }
            Report::Refunded | Report::RefundRefused { .. } => hold,
        }
    }

    /// The sale waits for its capture.
    fn hear_of_capture(
        &mut self,
        hold: Hold,
        mut charge: Charge,
        report: &Report,
        (now, next): (Instant, Instant),
    ) -> Hold {
        match report {
            Report::Captured { provider_ref, amount } => {
                take(&mut charge, provider_ref, Some(*amount), now);
                self.put_charge(hold, charge, now)
            }
            Report::Declined { .. } | Report::Cancelled => {
                if let Report::Declined { error } = report {
                    charge.error = Some(error.clone());
                }
                charge.reacquires = false;
                begin(&mut charge, State::Voiding, now);
                let hold = self.put_charge(hold, charge, now);
                self.return_all(&hold, "payment_failed", now)
            }
            Report::Refunded | Report::RefundRefused { .. } => hold,
            report => {
                charge.state = State::Capturing;
                if matches!(report, Report::Failed { .. }) {
                    charge.capture_attempts += 1;
                    charge.attempted_at = now;
                }
                wait(&mut charge, error_of(report), next);
                self.put_charge(hold, charge, now)
            }
        }
    }

    /// The payment is to be ended.
    fn hear_of_end(
        &mut self,
        new: ReservationId,
        hold: Hold,
        mut charge: Charge,
        report: &Report,
        (now, next): (Instant, Instant),
    ) -> Hold {
        let (provider_ref, captured) = match report {
            Report::Refunded | Report::RefundRefused { .. } => return hold,
            Report::NoAnswer { error } | Report::Failed { error } => {
                wait(&mut charge, Some(error), next);
                return self.put_charge(hold, charge, now);
            }
            Report::Declined { .. } | Report::Cancelled => {
                begin(&mut charge, State::Voided, now);
                return self.give_up(hold, charge, Some("payment_cancelled"), now);
            }
            Report::RequiresAction { provider_ref } | Report::Processing { provider_ref } => {
                let due = if charge.provider_ref.is_none() { now } else { next };
                wait(&mut charge, None, due);
                charge.provider_ref = Some(provider_ref.clone());
                return self.put_charge(hold, charge, now);
            }
            Report::Authorized { provider_ref } => (provider_ref, None),
            Report::Captured { provider_ref, amount } => (provider_ref, Some(*amount)),
        };
        let late =
            charge.reacquires && hold.status == Status::Expired && hold.details().replaced_by.is_none();
        if late {
            let mut paid = charge.clone();
            take(&mut paid, provider_ref, captured, now);
            if let Some(sold) = self.sell_late(new, &hold, &paid, now) {
                return sold;
            }
        }
        if let Some(amount) = captured {
            take(&mut charge, provider_ref, captured, now);
            let reason = Label::new("payment_cancelled").expect("a label");
            charge.refunds = vec![PendingRefund { amount, reason }];
            charge.refund_attempts = 1;
            begin(&mut charge, State::Refunding, now);
            return self.give_up(hold, charge, Some("payment_cancelled"), now);
        }
        let due = if charge.provider_ref.is_none() || late { now } else { next };
        wait(&mut charge, None, due);
        charge.reacquires &= !late;
        charge.provider_ref = Some(provider_ref.clone());
        self.put_charge(hold, charge, now)
    }

    /// Money is to be given back.
    fn hear_of_refund(
        &mut self,
        hold: Hold,
        mut charge: Charge,
        report: &Report,
        (now, next): (Instant, Instant),
    ) -> Hold {
        if *report == Report::Refunded {
            charge.refunded += charge.refunds.remove(0).amount;
            charge.refusals = 0;
            charge.error = None;
            let state = match (charge.refunds.is_empty(), charge.refunded >= charge.captured) {
                (false, _) => State::Refunding,
                (true, true) => State::Refunded,
                (true, false) => State::Captured,
            };
            charge.refund_attempts += u32::from(state == State::Refunding);
            begin(&mut charge, state, now);
            return self.put_charge(hold, charge, now);
        }
        let is_refused = matches!(report, Report::RefundRefused { .. });
        if is_refused || matches!(report, Report::Failed { .. }) {
            charge.refund_attempts += 1;
            charge.attempted_at = now;
        }
        wait(&mut charge, error_of(report), next);
        charge.refusals += u32::from(is_refused);
        if is_refused && charge.refusals >= limits::REFUND_REFUSALS {
            begin(&mut charge, State::RefundFailed, now);
        }
        self.put_charge(hold, charge, now)
    }

    /// Notes the end of a payment, and ends its hold for this reason, if the hold is active.
    fn give_up(&mut self, mut hold: Hold, charge: Charge, reason: Option<&str>, now: Instant) -> Hold {
        if hold.status != Status::Active {
            return self.put_charge(hold, charge, now);
        }
        let payment = hold.details.as_mut().expect("details").payment.as_mut().expect("a payment");
        payment.charge = Some(Box::new(charge));
        self.shut_window(&mut hold, now);
        if let Some(reason) = reason {
            let reason = Label::new(reason).expect("a label");
            self.end(hold.id, Status::Cancelled, now, Some(reason), None);
        }
        self.hold(hold.id).expect("a reservation")
    }

    fn sell_late(
        &mut self,
        new: ReservationId,
        expired: &Hold,
        charge: &Charge,
        now: Instant,
    ) -> Option<Hold> {
        let asked = confirm_of(expired);
        self.reacquire(new, &asked, expired, now).ok()?;
        let mut old = self.hold(expired.id).expect("a reservation");
        let payment = old.details.as_mut().expect("details").payment.as_mut().expect("a payment");
        let moved = Payment {
            state: PaymentState::Closed,
            until: now,
            charge: Some(Box::new(charge.clone())),
            ..payment.clone()
        };
        payment.charge = None;
        self.keep(&old);
        let mut sold = self.hold(new).expect("a reservation");
        sold.details.as_mut().expect("details").payment = Some(moved);
        sold.version += 1;
        self.keep(&sold);
        Some(sold)
    }

    fn return_all(&mut self, hold: &Hold, reason: &str, now: Instant) -> Hold {
        let asked = Return {
            id: hold.id,
            selection: SaleSelection::All,
            from: None,
            disposition: Disposition::Restock,
            reason: Label::new(reason).expect("a label"),
        };
        self.return_sold(hold.clone(), &asked, now).unwrap_or_else(|_| hold.clone())
    }

    pub(super) fn refund(&mut self, asked: &Refund, now: Instant) -> Result<Hold, Rejection> {
        let mut hold = self.sold_hold(asked.id, now)?;
        let charge = hold.charge().filter(|charge| charge.captured > 0).cloned();
        let charge = charge.ok_or(Rejection::PaymentNotCaptured(asked.id))?;
        let pending: u64 = charge.refunds.iter().map(|refund| refund.amount).sum();
        let left = charge.captured - charge.refunded - pending;
        if charge.refunds.len() >= limits::PENDING_REFUNDS {
            let payment = hold.details().payment.clone().expect("a payment");
            return Err(in_progress(&hold, &payment));
        }
        let exceeds =
            |requested| Err(Rejection::RefundExceedsCaptured { id: asked.id, requested, refundable: left });
        let amount = match &asked.selection {
            RefundSelection::Rest if left == 0 => return exceeds(0),
            RefundSelection::Rest => left,
            RefundSelection::Amount(amount) if *amount > left => return exceeds(*amount),
            RefundSelection::Amount(amount) => *amount,
            RefundSelection::Lines { selection, disposition } => {
                let asked = Return {
                    id: asked.id,
                    selection: selection.clone(),
                    from: None,
                    disposition: *disposition,
                    reason: asked.reason.clone(),
                };
                let mut after = self.clone().return_sold(hold.clone(), &asked, now)?;
                let mut amount = 0;
                let mut lines = after.lines.to_vec();
                for (line, before) in lines.iter_mut().zip(&*hold.lines) {
                    if line.returned == before.returned {
                        continue;
                    }
                    let whole = line.details().price.as_ref().map_or(0, |price| u128::from(price.amount));
                    let share = whole * u128::from(line.returned) / u128::from(line.quantity);
                    let share = u64::try_from(share).expect("a share of an amount");
                    let done = line.details().refunded;
                    if share > done {
                        amount += share - done;
                        line.details.get_or_insert_default().refunded = share;
                    }
                }
                if amount > left {
                    return exceeds(amount);
                }
                self.return_sold(hold, &asked, now)?;
                after.lines = lines.into();
                self.keep(&after);
                hold = after;
                amount
            }
        };
        if amount == 0 {
            return Ok(hold);
        }
        let mut charge = charge;
        charge.refunds.push(PendingRefund { amount, reason: asked.reason.clone() });
        if charge.refunds.len() == 1 {
            charge.refund_attempts += 1;
            begin(&mut charge, State::Refunding, now);
        }
        Ok(self.put_charge(hold, charge, now))
    }
}

/// What an expiry does to the payment.
pub(super) fn lapse(charge: &mut Charge, now: Instant) {
    begin(charge, State::Voiding, now);
}

fn is_asked_for(state: State) -> bool {
    [State::Pending, State::RequiresAction, State::Processing].contains(&state)
}

/// What a checkout of these lines costs.
pub(super) fn checkout_amount(
    lines: &[Line],
    request: &CheckoutRequest,
    pointer: &str,
) -> Result<(u64, Currency), Rejection> {
    if let PaymentMethod::Customer { customer_id, sealed } = &request.terms.method
        && sealed.is_none()
    {
        return Err(Rejection::PaymentMethodMissing { customer_id: customer_id.clone() });
    }
    let mut missing = Vec::new();
    let mut prices: Vec<LinePrice> = Vec::new();
    for line in lines {
        match &line.details().price {
            Some(price) => prices.push(price.clone()),
            None => missing.push(line.item.clone()),
        }
    }
    if !missing.is_empty() {
        return Err(Rejection::PriceMissing(missing));
    }
    let mut amount: u128 = prices.iter().map(|price| u128::from(price.amount)).sum();
    amount += request.terms.extra.iter().map(|extra| u128::from(extra.amount)).sum::<u128>();
    if request.terms.extra.len() > limits::EXTRA_AMOUNTS || amount > u128::from(limits::AMOUNT) {
        return Err(invalid(pointer));
    }
    Ok((u64::try_from(amount).expect("an amount that was checked"), prices[0].currency))
}

/// Counts a request that brought nothing new.
fn wait(charge: &mut Charge, error: Option<&Label>, due: Instant) {
    charge.tries += 1;
    charge.error = error.cloned();
    charge.due_at = Some(due);
}

fn begin(charge: &mut Charge, state: State, now: Instant) {
    charge.state = state;
    charge.tries = 0;
    charge.attempted_at = now;
    let over = [State::Captured, State::Declined, State::Voided, State::Refunded, State::RefundFailed];
    charge.due_at = if over.contains(&state) { None } else { Some(now) };
}

/// The money is reserved, or it was moved.
fn take(charge: &mut Charge, provider_ref: &ProviderRef, captured: Option<u64>, now: Instant) {
    charge.provider_ref = Some(provider_ref.clone());
    charge.error = None;
    match captured {
        Some(amount) => {
            charge.captured = amount;
            begin(charge, State::Captured, now);
        }
        None => {
            charge.capture_attempts = 1;
            begin(charge, State::Authorized, now);
        }
    }
}

fn error_of(report: &Report) -> Option<&Label> {
    match report {
        Report::NoAnswer { error }
        | Report::Failed { error }
        | Report::Declined { error }
        | Report::RefundRefused { error } => Some(error),
        _ => None,
    }
}

fn confirm_of(hold: &Hold) -> Confirm {
    let payment = hold.details().payment.clone().expect("a payment");
    Confirm {
        id: hold.id,
        order_id: payment.charge.map(|charge| charge.order_id),
        payment_id: Some(payment.id),
        if_expired: IfExpired::Refuse,
        override_limits: false,
    }
}
