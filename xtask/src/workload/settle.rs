//! What the answers to confirms, releases, extensions and changes mean for what a client knows.

use super::amended_lines::amended_lines_agree;
use super::change::{Amend, Change, ReturnFrom};
use super::choose::MAX_PAYMENT_SECONDS;
use super::client::{CLOCK_SLACK_MILLIS, Client};
use super::known_line::KnownLine;
use super::known_reservation::{
    Deadline, KnownPayment, KnownReservation, Made, ReservationState, Shown, WindowState, millis,
};
use super::limits::needs_customer;
use super::op::{Acknowledged, Confirm};
use crate::clock::wall_millis;
use crate::http::{Answer, Request};

/// Acknowledged changes that a client may send again.
const SENT_AGAIN: usize = 32;
/// After a window was closed, the deadline is this far away or further.
const GRACE_MILLIS: i64 = 60_000;

const UNEXPECTED: &str = "an answer that was not expected";

impl Client {
    pub(super) fn confirmed(
        &mut self,
        confirm: &Confirm,
        request: &Request,
        answer: &Answer,
    ) -> Result<(), String> {
        let at = confirm.at;
        if answer.status == 409 {
            return self.confirm_refused(confirm, answer);
        }
        if answer.status != 200 {
            return Err(UNEXPECTED.to_owned());
        }
        let shown = Shown::read(&answer.json(), &self.stock)?;
        if confirm.reacquire && shown.id != self.known[at].id {
            return self.reacquired(confirm, request, &shown);
        }
        self.counts.confirmed += 1;
        let known = &mut self.known[at];
        if known.state == ReservationState::Active {
            known.was_active();
            known.state = ReservationState::Confirmed;
            known.version += 1;
            match (&mut known.payment, &confirm.payment) {
                (Some(payment), _) if payment.state == WindowState::Open => {
                    payment.state = WindowState::Closed;
                }
                (payment, Some(id)) => {
                    let (id, before) = (id.clone(), known.deadline);
                    *payment = Some(KnownPayment { id, state: WindowState::Closed, until: None, before });
                }
                // A payment whose window was closed did not pay.
                (payment, None) => *payment = None,
            }
            self.sold.push(at);
        }
        self.check(at, &shown)?;
        self.acknowledge(request, answer, at);
        Ok(())
    }

    fn confirm_refused(&mut self, confirm: &Confirm, answer: &Answer) -> Result<(), String> {
        let at = confirm.at;
        let known = &self.known[at];
        let another = |payment: &KnownPayment| confirm.payment.as_ref().is_some_and(|id| *id != payment.id);
        match answer.reason().as_str() {
            "payment_in_progress" if known.open_payment().is_some_and(another) => {
                self.refused_under_payment();
                Ok(())
            }
            "reservation_confirmed"
                if known.state == ReservationState::Confirmed
                    && confirm.payment.is_some()
                    && known.payment.as_ref().is_none_or(another) =>
            {
                self.counts.refused += 1;
                self.touched.push(at);
                Ok(())
            }
            "insufficient_inventory" | "units_unavailable"
                if confirm.reacquire && answer.json()["reservation_expired"] == true =>
            {
                self.counts.refused += 1;
                self.expired_by_now(at)
            }
            "limit_exceeded" if confirm.reacquire && answer.json()["reservation_expired"] == true => {
                self.counts.refused += 1;
                let skus: Vec<usize> = known.lines.iter().map(|line| line.sku).collect();
                if self.limit_exceeded(skus.into_iter(), answer)? {
                    self.expired_by_now(at)
                } else {
                    Err("no limit counts its units".to_owned())
                }
            }
            "reservation_expired" if !confirm.reacquire => {
                self.counts.refused += 1;
                self.expired_by_now(at)
            }
            _ => Err(format!("{:?} was acknowledged", known.state)),
        }
    }

    /// The units of an expired reservation were taken again by a new one.
    fn reacquired(&mut self, confirm: &Confirm, request: &Request, shown: &Shown) -> Result<(), String> {
        let at = confirm.at;
        self.counts.reacquired += 1;
        if let Some(id) = &self.known[at].links.replaced_by {
            let again = self.known.iter().position(|known| known.id == *id && shown.id == *id);
            return match again {
                Some(again) => self.check(again, shown),
                None => Err(format!("replaced by another one than {id}")),
            };
        }
        self.expired_by_now(at)?;
        let old = &self.known[at];
        let made_by = Made { request: request.clone(), status: 200 };
        let mut new = KnownReservation::made(shown, made_by, 2);
        new.state = ReservationState::Confirmed;
        new.parties = old.parties.clone();
        new.links.replaces = Some(old.id.clone());
        new.lines =
            old.lines.iter().map(|line| KnownLine { requested: line.quantity, ..line.clone() }).collect();
        new.payment = confirm.payment.as_ref().map(|id| KnownPayment {
            id: id.clone(),
            state: WindowState::Closed,
            until: None,
            before: new.deadline,
        });
        new.check(shown)?;
        let old = &mut self.known[at];
        old.version += 1;
        old.links.replaced_by = Some(new.id.clone());
        self.sold.push(self.known.len());
        self.touched.extend([at, self.known.len()]);
        self.known.push(new);
        Ok(())
    }

    pub(super) fn released(&mut self, at: usize, answer: &Answer) -> Result<(), String> {
        let open = self.known[at].open_payment().is_some();
        match (answer.status, answer.reason().as_str()) {
            (204, _) => {
                self.counts.released += 1;
                if self.known[at].state != ReservationState::Active {
                    return Ok(());
                }
                if open {
                    // A window keeps a reservation from being released, so it has expired before.
                    return self.expired_by_now(at);
                }
                self.known[at].end(ReservationState::Ended);
                self.touch(at);
                Ok(())
            }
            (409, "payment_in_progress") if open => {
                self.refused_under_payment();
                Ok(())
            }
            _ => Err(UNEXPECTED.to_owned()),
        }
    }

    pub(super) fn extended(
        &mut self,
        at: usize,
        request: &Request,
        answer: &Answer,
        retry: bool,
    ) -> Result<(), String> {
        let open = self.known[at].open_payment().is_some();
        match (answer.status, answer.reason().as_str()) {
            (200, _) => {}
            (409, "payment_in_progress") if open => {
                self.refused_under_payment();
                return Ok(());
            }
            (409, "extension_limit") => {
                self.counts.refused += 1;
                return millis(&answer.json()["max_expires_at"]).map(|_| ());
            }
            (409, "reservation_expired") => {
                self.counts.refused += 1;
                return self.expired_by_now(at);
            }
            _ => return Err(UNEXPECTED.to_owned()),
        }
        self.counts.extended += 1;
        let shown = Shown::read(&answer.json(), &self.stock)?;
        let known = &mut self.known[at];
        known.was_active();
        if !known.deadline.is_exact() {
            // The deadline does not tell whether it was moved.
            known.maybe_more += 1;
        } else if shown.expires_at > known.deadline.to {
            known.version += 1;
        }
        if retry && request.key.is_none() {
            // Each try may have moved it.
            known.version = known.version.max(shown.version);
        }
        if shown.expires_at > known.deadline.from {
            known.deadline = Deadline::at(shown.expires_at);
        }
        self.check(at, &shown)?;
        self.acknowledge(request, answer, at);
        Ok(())
    }

    /// The answer to a change that has a key.
    pub(super) fn changed(
        &mut self,
        at: usize,
        change: &Change,
        request: &Request,
        answer: &Answer,
    ) -> Result<(), String> {
        if answer.status != change.status() {
            self.counts.refused += 1;
            self.touched.push(at);
            return self.change_refused(at, change, answer);
        }
        if let Change::ClosePayment { payment } = change {
            self.payment_closed(at, payment.as_deref());
            self.acknowledge(request, answer, at);
            return Ok(());
        }
        let shown = Shown::read(&answer.json(), &self.stock)?;
        if let Change::Split { lines, .. } = change {
            let part = self.split_off(at, lines, request, &shown)?;
            self.acknowledge(request, answer, part);
            return Ok(());
        }
        match change {
            Change::Amend(amend) => self.amended(at, amend, &shown)?,
            Change::Transfer { owner, customer, .. } => {
                self.counts.transferred += 1;
                let known = &mut self.known[at];
                known.was_active();
                known.version += 1;
                (known.parties.owner, known.parties.customer) = (owner.clone(), customer.clone());
            }
            Change::Merge { from, .. } => self.merged(at, from, &shown)?,
            Change::OpenPayment { payment, .. } => self.payment_opened(at, payment, &shown)?,
            Change::Fulfil { lines } => self.fulfilled(at, lines.as_deref()),
            Change::Return { lines, from, write_off } => self.returned(at, lines, *from, *write_off),
            Change::Split { .. } | Change::ClosePayment { .. } => {}
        }
        self.check(at, &shown)?;
        self.acknowledge(request, answer, at);
        Ok(())
    }

    fn amended(&mut self, at: usize, amend: &Amend, shown: &Shown) -> Result<(), String> {
        self.counts.amended += 1;
        let known = &mut self.known[at];
        known.was_active();
        let mut changes = amend.note.is_some();
        if let Some(note) = amend.note {
            known.parties.note = Some(note);
        }
        if amend.ttl.is_some() && shown.expires_at > known.deadline.to {
            known.deadline = Deadline::at(shown.expires_at);
            changes = true;
        }
        if amend.lines.is_some() {
            amended_lines_agree(&known.lines, amend, &shown.lines)?;
            changes |= known.lines.len() != shown.lines.len()
                || known.lines.iter().zip(&shown.lines).any(|(line, next)| !line.same_content(next));
            known.lines.clone_from(&shown.lines);
        }
        known.version += u64::from(changes);
        Ok(())
    }

    /// Gives the place of the new reservation.
    fn split_off(
        &mut self,
        at: usize,
        lines: &[(usize, u64)],
        request: &Request,
        shown: &Shown,
    ) -> Result<usize, String> {
        self.counts.split += 1;
        let old = &mut self.known[at];
        old.was_active();
        let mut part = KnownReservation::made(shown, Made { request: request.clone(), status: 201 }, 1);
        (part.parties, part.deadline, part.max_expires_at) =
            (old.parties.clone(), old.deadline, old.max_expires_at);
        part.had_window = old.had_window;
        part.links.split_from = Some(old.id.clone());
        part.lines = Vec::new();
        for (sku, quantity) in lines {
            let line = old.lines.iter_mut().find(|line| line.sku == *sku).ok_or("a line that it has not")?;
            let moved = shown.lines.iter().find(|line| line.sku == *sku).ok_or("a line is missing")?;
            if !moved.ids().is_subset(&line.ids()) {
                return Err(format!("{moved:?} was split off {line:?}"));
            }
            part.lines.push(KnownLine {
                sku: *sku,
                requested: *quantity,
                quantity: *quantity,
                fulfilled: 0,
                returned: 0,
                units: moved.units.clone(),
            });
            line.requested = line.requested.saturating_sub(*quantity);
            line.quantity -= quantity;
            line.units.retain(|unit| !moved.ids().contains(unit.id.as_str()));
        }
        part.lines.sort_by_key(|line| line.sku);
        part.check(shown)?;
        old.lines.retain(|line| line.quantity > 0);
        old.version += 1;
        old.deadline = part.deadline;
        old.links.split_into.push(part.id.clone());
        let place = self.known.len();
        if part.state == ReservationState::Active {
            self.active.push(place);
        }
        self.known.push(part);
        self.touched.extend([at, place]);
        Ok(place)
    }

    fn merged(&mut self, at: usize, from: &[usize], shown: &Shown) -> Result<(), String> {
        self.counts.merged += 1;
        let id = self.known[at].id.clone();
        for source in from {
            let source_line = self.known[*source].clone();
            let known = &mut self.known[at];
            for line in source_line.lines {
                match known.lines.iter_mut().find(|known| known.sku == line.sku) {
                    Some(known) => {
                        known.requested += line.requested;
                        known.quantity += line.quantity;
                        known.units.extend(line.units);
                    }
                    None => known.lines.push(line),
                }
            }
            known.links.merged_from.push(source_line.id);
            known.max_expires_at = known.max_expires_at.min(source_line.max_expires_at);
            known.had_window |= source_line.had_window;
            let ended = &mut self.known[*source];
            ended.was_active();
            ended.end(ReservationState::Cancelled);
            ended.links.merged_into = Some(id.clone());
            self.touch(*source);
        }
        let known = &mut self.known[at];
        known.was_active();
        known.version += 1;
        known.lines.sort_by_key(|line| line.sku);
        for (line, next) in known.lines.iter_mut().zip(&shown.lines) {
            if line.ids() != next.ids() {
                return Err(format!("lines {next:?} of a merge that has {line:?}"));
            }
            line.units.clone_from(&next.units);
        }
        Ok(())
    }

    fn payment_opened(&mut self, at: usize, payment: &str, shown: &Shown) -> Result<(), String> {
        self.counts.payments_opened += 1;
        let known = &mut self.known[at];
        known.was_active();
        let until = shown.payment.as_ref().ok_or("no payment")?.until;
        let open = known.open_payment().cloned();
        let (before, was) = match &open {
            Some(open) if open.id != payment => return Err("a second window was opened".to_owned()),
            Some(open) => (open.before, open.until),
            None => (known.deadline, None),
        };
        if was.is_some_and(|was| until < was) {
            return Err("a window became shorter".to_owned());
        }
        if was != Some(until) {
            known.version += 1;
            let Deadline { from, to } = known.deadline;
            known.deadline = Deadline { from: from.max(until), to: to.max(until) };
        }
        known.had_window = true;
        let (id, until) = (payment.to_owned(), Some(until));
        known.payment = Some(KnownPayment { id, state: WindowState::Open, until, before });
        Ok(())
    }

    /// The answer says no more than that no window of this payment is open.
    fn payment_closed(&mut self, at: usize, payment: Option<&str>) {
        self.counts.payments_closed += 1;
        let known = &mut self.known[at];
        let Some(open) = &mut known.payment else { return };
        if open.state == WindowState::Open && payment.is_none_or(|payment| payment == open.id) {
            open.state = WindowState::Ended;
            known.version += 1;
            let Deadline { from, to } = open.before;
            let grace = now_millis() + GRACE_MILLIS + CLOCK_SLACK_MILLIS;
            known.deadline = Deadline { from, to: to.max(grace) };
        }
        self.touched.push(at);
    }

    fn fulfilled(&mut self, at: usize, lines: Option<&[(usize, u64)]>) {
        self.counts.fulfilled += 1;
        let known = &mut self.known[at];
        known.version += 1;
        for line in &mut known.lines {
            line.fulfilled += match lines {
                None => line.unfulfilled(),
                Some(lines) => lines.iter().find(|(sku, _)| *sku == line.sku).map_or(0, |(_, moved)| *moved),
            };
        }
    }

    fn returned(&mut self, at: usize, lines: &[(usize, u64)], from: Option<ReturnFrom>, write_off: bool) {
        *(if write_off { &mut self.counts.written_off } else { &mut self.counts.returned }) += 1;
        let known = &mut self.known[at];
        known.version += 1;
        for (sku, quantity) in lines {
            for line in known.lines.iter_mut().filter(|line| line.sku == *sku) {
                line.fulfilled -= match from {
                    Some(ReturnFrom::Unfulfilled) => 0,
                    Some(ReturnFrom::Fulfilled) => *quantity,
                    None => quantity.saturating_sub(line.unfulfilled()),
                };
                line.returned += quantity;
            }
            if write_off {
                self.deltas[*sku] -= i64::try_from(*quantity).unwrap_or(i64::MAX);
            }
        }
    }

    /// Whether a refusal of a change follows from what is known.
    fn change_refused(&mut self, at: usize, change: &Change, answer: &Answer) -> Result<(), String> {
        let known = &self.known[at];
        let reason = answer.reason();
        let state = known.state;
        let follows = match (answer.status, reason.as_str()) {
            (412, "precondition_failed") => {
                self.counts.precondition_failed += 1;
                if change.if_match() == Some(known.version) && known.maybe_more == 0 {
                    // Only an expiry can have changed it since.
                    return self.expired_by_now(at);
                }
                change.if_match().is_some()
            }
            (409, "payment_in_progress") => {
                self.counts.payment_in_progress += 1;
                match change {
                    Change::OpenPayment { payment, .. } => {
                        known.open_payment().is_some_and(|open| open.id != *payment)
                    }
                    Change::Merge { from, .. } => {
                        from.iter().chain([&at]).any(|at| self.known[*at].open_payment().is_some())
                    }
                    _ => known.open_payment().is_some(),
                }
            }
            (409, "reservation_expired") => {
                let about = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
                let sources: &[usize] = if let Change::Merge { from, .. } = change { from } else { &[] };
                let ended = sources.iter().copied().find(|source| about.contains(&self.known[*source].id));
                return self.expired_by_now(ended.unwrap_or(at));
            }
            (409, "reservation_confirmed") => state == ReservationState::Confirmed,
            (409, "reservation_cancelled") => {
                matches!(state, ReservationState::Cancelled | ReservationState::Ended)
            }
            (409, "limit_exceeded") => {
                let skus = self.counted_anew(at, change);
                return if self.limit_exceeded(skus.into_iter(), answer)? {
                    Ok(())
                } else {
                    Err("no limit counts its units".to_owned())
                };
            }
            (422, "customer_required") => {
                let nobody = match change {
                    Change::Transfer { customer, .. } => customer.is_none(),
                    _ => known.parties.customer.is_none(),
                };
                let needs = self.counted_anew(at, change).iter().any(|sku| needs_customer(&self.stock[*sku]));
                self.counts.customer_required += 1;
                nobody && needs
            }
            (409, "insufficient_inventory") => wants_more(&known.lines, change),
            (409, "units_unavailable") => match change {
                Change::Amend(Amend { lines: Some(lines), .. }) => {
                    lines.iter().any(|line| line.units.is_some())
                }
                _ => false,
            },
            (409, "extension_limit") => match change {
                Change::OpenPayment { window, .. } => *window > MAX_PAYMENT_SECONDS || known.had_window,
                Change::Amend(amend) => amend.ttl.is_some(),
                _ => false,
            },
            (409, "split_exceeds_held") => match change {
                Change::Split { lines, .. } => exceeds(lines, &known.lines, |line| line.quantity),
                _ => false,
            },
            (409, "fulfil_exceeds_sold") => match change {
                Change::Fulfil { lines: Some(lines) } => exceeds(lines, &known.lines, KnownLine::unfulfilled),
                Change::Fulfil { lines: None } => known.lines.iter().all(|line| line.unfulfilled() == 0),
                _ => false,
            },
            _ => false,
        };
        if follows { Ok(()) } else { Err(format!("a refusal that does not follow from {known:?}")) }
    }

    /// The items of which a change adds units, or lets units count for somebody else.
    fn counted_anew(&self, at: usize, change: &Change) -> Vec<usize> {
        let lines = |at: usize| self.known[at].lines.iter().map(|line| line.sku);
        match change {
            Change::Amend(amend) => amend.lines.iter().flatten().map(|line| line.sku).collect(),
            Change::Transfer { .. } => lines(at).collect(),
            Change::Merge { from, .. } => from.iter().flat_map(|source| lines(*source)).collect(),
            _ => Vec::new(),
        }
    }

    fn refused_under_payment(&mut self) {
        self.counts.refused += 1;
        self.counts.payment_in_progress += 1;
    }

    /// An answer says that a reservation has expired: then its deadline has come.
    pub(super) fn expired_by_now(&mut self, at: usize) -> Result<(), String> {
        let known = &mut self.known[at];
        match known.state {
            ReservationState::Active if now_millis() + CLOCK_SLACK_MILLIS < known.deadline.from => {
                return Err("expired before its deadline".to_owned());
            }
            ReservationState::Active => known.end(ReservationState::Expired),
            ReservationState::Expired | ReservationState::Ended => {}
            state => return Err(format!("{state:?} was acknowledged")),
        }
        self.touch(at);
        Ok(())
    }

    /// Keeps a request with a key that was acknowledged, to send it again.
    fn acknowledge(&mut self, request: &Request, answer: &Answer, at: usize) {
        if request.key.is_none() {
            return;
        }
        let acknowledged = Acknowledged { request: request.clone(), status: answer.status, at };
        if self.acknowledged.len() < SENT_AGAIN {
            self.acknowledged.push(acknowledged);
        } else {
            self.acknowledged[self.rng.index(SENT_AGAIN)] = acknowledged;
        }
    }

    /// A change that was acknowledged before is answered with the reservation as it is now.
    pub(super) fn acknowledged_again(&mut self, again: &Acknowledged, answer: &Answer) -> Result<(), String> {
        if answer.status != again.status {
            return Err(UNEXPECTED.to_owned());
        }
        self.counts.replayed += 1;
        if answer.status == 204 {
            self.touched.push(again.at);
            return Ok(());
        }
        let shown = Shown::read(&answer.json(), &self.stock)?;
        self.check(again.at, &shown)
    }
}

fn now_millis() -> i64 {
    i64::try_from(wall_millis()).unwrap_or(i64::MAX)
}

/// Whether some line asks for more than there is of it.
fn exceeds(asked: &[(usize, u64)], known: &[KnownLine], of: impl Fn(&KnownLine) -> u64) -> bool {
    let there = |sku| known.iter().find(|line| line.sku == sku).map_or(0, &of);
    asked.iter().any(|(sku, quantity)| *quantity > there(*sku))
}

/// Whether an amend asks for units that its reservation does not have.
fn wants_more(known: &[KnownLine], change: &Change) -> bool {
    let Change::Amend(Amend { lines: Some(lines), .. }) = change else { return false };
    let asked: Vec<_> = lines.iter().map(|line| (line.sku, line.quantity)).collect();
    exceeds(&asked, known, |line| line.quantity)
}
