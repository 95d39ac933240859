//! The commands that end a reservation or move its deadline, in the model: confirm, release, extend and expire.

use super::payments::{in_progress, open_payment, same_sale, without_payment};
use super::{Model, Record};
use stockhold_domain::{
    Closing, Confirm, Extend, Hold, IfExpired, Instant, ItemKey, Label, Line, LineUnits, Mode, PaymentState,
    Rejection, Release, Reply, ReservationId, Status, limits,
};

impl Model {
    pub(super) fn confirm(
        &mut self,
        new: ReservationId,
        asked: &Confirm,
        now: Instant,
    ) -> Result<Hold, Rejection> {
        let hold = self.found(asked.id, now)?;
        match hold.status {
            Status::Active => match open_payment(&hold) {
                Some(payment)
                    if payment.charge.is_some()
                        || asked.payment_id.as_ref().is_some_and(|id| *id != payment.id) =>
                {
                    Err(in_progress(&hold, payment))
                }
                _ => Ok(self.confirm_active(hold, asked, now)),
            },
            Status::Confirmed if same_sale(&hold, asked) => Ok(hold),
            Status::Expired if asked.if_expired == IfExpired::Reacquire => {
                self.reacquire(new, asked, &hold, now)
            }
            Status::Confirmed | Status::Cancelled | Status::Expired => Err(over(&hold)),
        }
    }

    pub(super) fn release(&mut self, asked: &Release, now: Instant) -> Result<Hold, Rejection> {
        let hold = self.found(asked.id, now)?;
        match hold.status {
            Status::Active => {
                let hold = without_payment(hold)?;
                self.end(hold.id, Status::Cancelled, now, asked.reason.clone(), None);
                self.found(asked.id, now)
            }
            Status::Cancelled | Status::Expired => Ok(hold),
            Status::Confirmed => Err(over(&hold)),
        }
    }

    pub(super) fn extend(&mut self, asked: &Extend, now: Instant) -> Result<Hold, Rejection> {
        let mut hold = self.changeable(asked.id, None, now)?;
        let cap = hold.terms.max_expires_at;
        if hold.expires_at >= cap {
            return Err(Rejection::ExtensionLimit { max_expires_at: cap });
        }
        let wished = now.deadline(asked.ttl).min(cap);
        if wished > hold.expires_at {
            hold.expires_at = wished;
            hold.version += 1;
            for line in &*hold.lines {
                self.record(&line.item).at = now;
            }
            self.keep(&hold);
        }
        Ok(hold)
    }

    /// All due reservations, the earliest deadline first, at most as many as one batch expires.
    pub(super) fn sweep(&mut self, now: Instant) -> Reply {
        let mut due: Vec<(Instant, ReservationId)> = self
            .holds
            .iter()
            .filter(|hold| hold.status == Status::Active && hold.expires_at <= now)
            .map(|hold| (hold.expires_at, hold.id))
            .collect();
        due.sort_unstable();
        let mut expired = 0;
        for (_, id) in due.into_iter().take(limits::EXPIRIES_PER_BATCH as usize) {
            self.expire(id, now);
            expired += 1;
        }
        Reply::Swept { expired, released: self.sweep_pools(now) }
    }

    /// Loads a reservation for a command, and expires it first if it is due.
    pub(super) fn found(&mut self, id: ReservationId, now: Instant) -> Result<Hold, Rejection> {
        let hold = self.hold(id).ok_or(Rejection::UnknownReservation(id))?;
        if hold.status == Status::Active && hold.expires_at <= now {
            self.expire(id, now);
        }
        self.hold(id).ok_or(Rejection::UnknownReservation(id))
    }

    /// Expires a due active reservation, as a store does in a batch that comes before the answer.
    pub fn expire(&mut self, id: ReservationId, now: Instant) {
        let mut hold = self.hold(id).expect("a reservation that is due");
        if open_payment(&hold).is_some()
            && let Some(payment) = &mut hold.details.as_mut().expect("details").payment
        {
            payment.state = PaymentState::Lapsed;
            if let Some(charge) = &mut payment.charge {
                super::checkouts::lapse(charge, now);
            }
        }
        self.keep(&hold);
        self.end(id, Status::Expired, now, None, None);
    }

    pub(super) fn end(
        &mut self,
        id: ReservationId,
        status: Status,
        now: Instant,
        reason: Option<Label>,
        order_id: Option<Label>,
    ) {
        let mut hold = self.hold(id).expect("a reservation to end");
        let mut lines = hold.lines.to_vec();
        for line in &mut lines {
            self.count_line_transition(line, now, None);
            if status != Status::Confirmed {
                self.end_line(line, None);
            }
        }
        hold.status = status;
        hold.version += 1;
        hold.lines = lines.into();
        hold.closing = Some(Box::new(Closing { at: now, reason, order_id }));
        self.keep(&hold);
    }

    pub(super) fn keep(&mut self, hold: &Hold) {
        for kept in &mut self.holds {
            if kept.id == hold.id {
                *kept = hold.clone();
            }
        }
    }

    /// Counts a transition of a line: of its item, or of its units if they have ids. `places` selects some of the units.
    pub(super) fn count_line_transition(&mut self, line: &mut Line, now: Instant, places: Option<&[usize]>) {
        line.sequence = self.turn(&line.item, now);
        if line.units.is_some() {
            let mut units = line.units().to_vec();
            self.count_unit_transitions(&line.item, &mut units, places);
            line.units = Some(LineUnits::new(units).into());
        }
    }

    /// Counts a transition of an item. Returns its number, which stays 0 when the units have ids.
    pub(super) fn turn(&mut self, key: &ItemKey, now: Instant) -> u64 {
        let record = self.record(key);
        record.sequence += u64::from(record.mode == Mode::Counted);
        record.at = now;
        record.sequence
    }

    pub(super) fn record(&mut self, key: &ItemKey) -> &mut Record {
        self.records.iter_mut().find(|record| record.key == *key).expect("an item that exists")
    }
}

/// The refusal for a reservation that has ended.
pub(super) fn over(hold: &Hold) -> Rejection {
    match hold.status {
        Status::Confirmed => Rejection::ReservationConfirmed {
            id: hold.id,
            order_id: hold.closing.clone().and_then(|closing| closing.order_id),
            payment_id: hold.details().payment.as_ref().map(|payment| payment.id.clone()),
        },
        Status::Cancelled => Rejection::ReservationCancelled(hold.id),
        Status::Expired => Rejection::ReservationExpired { id: hold.id, expires_at: hold.expires_at },
        Status::Active => unreachable!("an active reservation has not ended"),
    }
}
