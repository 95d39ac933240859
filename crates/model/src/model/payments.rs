//! Payment windows and late payers in the model.

use super::{Model, holds::over};
use stockhold_domain::{
    Basket, ClosePayment, Confirm, Fulfilment, Hold, Instant, ItemKey, Label, OpenPayment, Payment,
    PaymentState, Precondition, Rejection, RequestedLine, ReservationId, Reserve, Scope, Seconds, Status,
    UnitSelection, limits,
};

/// Refuses a reservation with an open payment window.
pub(super) fn without_payment(hold: Hold) -> Result<Hold, Rejection> {
    match open_payment(&hold) {
        Some(payment) => Err(in_progress(&hold, payment)),
        None => Ok(hold),
    }
}

pub(super) fn open_payment(hold: &Hold) -> Option<&Payment> {
    hold.details().payment.as_ref().filter(|payment| payment.state == PaymentState::Open)
}

pub(super) fn in_progress(hold: &Hold, payment: &Payment) -> Rejection {
    Rejection::PaymentInProgress { id: hold.id, payment_id: payment.id.clone(), until: payment.until }
}

impl Model {
    pub(super) fn open_window(&mut self, asked: &OpenPayment, now: Instant) -> Result<Hold, Rejection> {
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
        let open = open_payment(&hold).cloned();
        let is_another = |payment: &&Payment| payment.id != asked.payment_id || payment.charge.is_some();
        if let Some(payment) = open.as_ref().filter(is_another) {
            return Err(in_progress(&hold, payment));
        }
        let max = hold.lines.iter().map(|line| self.max_payment(&line.item)).min().expect("a line");
        let usual = Seconds::new(limits::DEFAULT_PAYMENT_SECONDS.into()).expect("a number of seconds");
        let until = now.deadline(asked.window.unwrap_or(usual.min(max)));
        if open.as_ref().is_some_and(|payment| payment.until >= until) {
            return Ok(hold);
        }
        let first = hold.details().first_payment_at.unwrap_or(now);
        let latest = first.deadline(max);
        if until > latest {
            return Err(Rejection::ExtensionLimit { max_expires_at: latest });
        }
        let mut after = hold.clone();
        let details = after.details.get_or_insert_default();
        details.first_payment_at = Some(first);
        details.payment = Some(Payment {
            id: asked.payment_id.clone(),
            state: PaymentState::Open,
            until,
            deadline_before: open.as_ref().map_or(hold.expires_at, |payment| payment.deadline_before),
            charge: None,
        });
        after.expires_at = after.expires_at.max(until);
        self.touch(&mut after, now, open.is_none());
        Ok(after)
    }

    pub(super) fn close_window(&mut self, asked: &ClosePayment, now: Instant) -> Result<Hold, Rejection> {
        let hold = self.found(asked.id, now)?;
        let open = open_payment(&hold).filter(|_| hold.status == Status::Active);
        let Some(open) = open.filter(|open| asked.payment_id.as_ref().is_none_or(|id| open.id == *id)) else {
            return Ok(hold);
        };
        if open.charge.is_some() {
            return Err(in_progress(&hold, open));
        }
        let mut after = hold.clone();
        self.shut_window(&mut after, now);
        Ok(after)
    }

    /// Closes the open window of an active reservation.
    pub(super) fn shut_window(&mut self, hold: &mut Hold, now: Instant) {
        let default = hold.lines.iter().map(|line| self.default_ttl(&self.known(&line.item))).min();
        let grace = Seconds::new(limits::GRACE_AFTER_PAYMENT_SECONDS.into()).expect("a number of seconds");
        let payment = hold.details.as_mut().expect("details").payment.as_mut().expect("a payment");
        payment.state = PaymentState::Closed;
        hold.expires_at = payment.deadline_before.max(now.deadline(grace.min(default.expect("a line"))));
        self.touch(hold, now, true);
    }

    /// Keeps a changed reservation. Its items' figures change too if `turns`.
    pub(super) fn touch(&mut self, hold: &mut Hold, now: Instant, turns: bool) {
        let mut lines = hold.lines.to_vec();
        for line in &mut lines {
            if turns {
                line.sequence = self.turn(&line.item, now);
            }
            self.record(&line.item).at = now;
        }
        hold.lines = lines.into();
        hold.version += 1;
        self.keep(hold);
    }

    pub(super) fn reacquire(
        &mut self,
        new: ReservationId,
        asked: &Confirm,
        expired: &Hold,
        now: Instant,
    ) -> Result<Hold, Rejection> {
        if let Some(id) = expired.details().replaced_by {
            let hold = self.hold(id).expect("a reservation that replaced another");
            return if same_sale(&hold, asked) { Ok(hold) } else { Err(over(&hold)) };
        }
        let lines = expired.lines.iter().map(|line| {
            let units = line
                .units
                .as_ref()
                .map(|_| UnitSelection::Named(line.units().iter().map(|unit| unit.id.clone()).collect()));
            (RequestedLine { item: line.item.clone(), quantity: line.quantity.into() }, units)
        });
        let reserve = Reserve {
            checkout: None,
            basket: Basket::with_selections(lines.collect()).expect("the lines of a reservation"),
            ttl: None,
            fulfilment: Fulfilment::All,
            terms: expired.terms.reserve.clone(),
            override_limits: asked.override_limits,
        };
        let id = expired.id;
        let mut hold = self
            .reserve(new, &reserve, Some(expired), now)
            .map_err(|refusal| Rejection::NotReacquired { id, refusal: Box::new(refusal) })?;
        hold.details.get_or_insert_default().replaces = Some(id);
        self.keep(&hold);
        let mut replaced = expired.clone();
        replaced.details.get_or_insert_default().replaced_by = Some(new);
        replaced.version += 1;
        self.keep(&replaced);
        Ok(self.confirm_active(hold, asked, now))
    }

    /// Confirms an active reservation.
    pub(super) fn confirm_active(&mut self, mut hold: Hold, asked: &Confirm, now: Instant) -> Hold {
        if open_payment(&hold).is_some() {
            if let Some(payment) = &mut hold.details.as_mut().expect("details").payment {
                payment.state = PaymentState::Completed;
            }
        } else if let Some(id) = &asked.payment_id {
            hold.details.get_or_insert_default().payment = Some(Payment {
                id: id.clone(),
                state: PaymentState::Closed,
                until: now,
                deadline_before: hold.expires_at,
                charge: None,
            });
        } else if let Some(details) = &mut hold.details {
            // It was declined or given up.
            details.payment = None;
        }
        self.keep(&hold);
        self.end(hold.id, Status::Confirmed, now, None, asked.order_id.clone());
        self.hold(hold.id).expect("a confirmed reservation")
    }

    pub(super) fn max_payment(&self, key: &ItemKey) -> Seconds {
        let mut nearest = self.rules.max_payment;
        for (location, limits) in &self.rules.locations {
            if location.as_str() == key.location() {
                nearest = limits.max_payment.unwrap_or(nearest);
            }
        }
        self.known(key).settings.max_payment.unwrap_or(nearest)
    }

    /// The pause that concerns an item, the widest first.
    pub(super) fn pause_of(&self, key: &ItemKey) -> Option<Scope> {
        let location = Label::new(key.location()).expect("a location is a label");
        let scopes = [Scope::Everything, Scope::Location(location), Scope::Item(key.clone())];
        scopes.into_iter().find(|scope| self.paused.contains(scope))
    }
}

/// Whether a confirm agrees with how a reservation was confirmed.
pub(super) fn same_sale(hold: &Hold, asked: &Confirm) -> bool {
    let order = hold.closing.as_ref().and_then(|closing| closing.order_id.clone());
    let payment = hold.details().payment.as_ref().map(|payment| payment.id.clone());
    (asked.order_id.is_none() || asked.order_id == order)
        && (asked.payment_id.is_none() || asked.payment_id == payment)
}
