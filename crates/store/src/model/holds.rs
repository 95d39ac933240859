//! The commands of reservations in the model: confirm, release, extend, return and expire.

use super::{Model, Record, invalid};
use stockhold_domain::{
    Closing, Confirm, Extend, Hold, Instant, ItemKey, Label, Line, LineUnits, Mode, Rejection, Release,
    Reply, ReservationId, Return, ReturnSelection, Seconds, Status, UnitSelection, limits,
};

impl Model {
    pub(super) fn confirm(&mut self, asked: &Confirm, now: Instant) -> Result<Hold, Rejection> {
        let hold = self.found(asked.id, now)?;
        match hold.status {
            Status::Active => {
                self.end(asked.id, Status::Confirmed, now, None, asked.order_id.clone());
                self.found(asked.id, now)
            }
            Status::Confirmed => {
                let order = hold.closing.as_ref().and_then(|closing| closing.order_id.clone());
                if asked.order_id.is_none() || asked.order_id == order { Ok(hold) } else { Err(over(&hold)) }
            }
            Status::Cancelled | Status::Expired => Err(over(&hold)),
        }
    }

    pub(super) fn release(&mut self, asked: &Release, now: Instant) -> Result<Hold, Rejection> {
        let hold = self.found(asked.id, now)?;
        match hold.status {
            Status::Active => {
                self.end(asked.id, Status::Cancelled, now, asked.reason.clone(), None);
                self.found(asked.id, now)
            }
            Status::Cancelled | Status::Expired => Ok(hold),
            Status::Confirmed => Err(over(&hold)),
        }
    }

    pub(super) fn extend(&mut self, asked: &Extend, now: Instant) -> Result<Hold, Rejection> {
        let mut hold = self.found(asked.id, now)?;
        if hold.status != Status::Active {
            return Err(over(&hold));
        }
        let cap = hold.terms.max_expires_at;
        // The longest hold is the longest time to live from the creation that ends no later than the cap.
        if hold.terms.created_at.deadline(asked.ttl) > cap {
            let one = Seconds::new(1).expect("a second is a time to live");
            let more = (cap.millis() - hold.terms.created_at.deadline(one).millis()) / 1_000;
            let max = u64::try_from(more).ok().and_then(|more| Seconds::new(1 + more).ok());
            return Err(Rejection::TtlTooLong { max: max.expect("a hold lasts at least a second") });
        }
        if hold.expires_at == cap {
            return Err(Rejection::ExtensionLimit { max_expires_at: cap });
        }
        let wished = now.deadline(asked.ttl).min(cap);
        if wished > hold.expires_at {
            hold.expires_at = wished;
            for line in &*hold.lines {
                self.record(&line.item).at = now;
            }
            self.keep(&hold);
        }
        Ok(hold)
    }

    pub(super) fn return_units(&mut self, asked: &Return, now: Instant) -> Result<Hold, Rejection> {
        let mut hold = self.found(asked.id, now)?;
        if hold.status != Status::Confirmed {
            return Err(Rejection::ReservationNotConfirmed(asked.id));
        }
        let mut lines = hold.lines.to_vec();
        let exceeds = |item: &ItemKey, requested: u64, sold: u32| {
            let (item, sold) = (item.clone(), u64::from(sold));
            Err(Rejection::ReturnExceedsSold { item, requested, sold })
        };
        let mut back: Vec<u64> = Vec::new();
        // The named units, if the command names any.
        let mut named: Vec<Option<Vec<Label>>> = vec![None; lines.len()];
        match &asked.selection {
            ReturnSelection::All => {
                back.extend(lines.iter().map(|line| u64::from(line.quantity - line.returned)));
                if back.iter().sum::<u64>() == 0 {
                    return exceeds(&lines[0].item, u64::from(lines[0].quantity), 0);
                }
            }
            ReturnSelection::Lines(basket) => {
                for requested_line in basket.lines() {
                    if !lines.iter().any(|line| line.item == requested_line.item) {
                        return exceeds(&requested_line.item, requested_line.quantity, 0);
                    }
                }
                for (line, named) in lines.iter().zip(&mut named) {
                    let requested_lines = basket
                        .lines()
                        .iter()
                        .enumerate()
                        .filter(|(_, requested_line)| requested_line.item == line.item);
                    back.push(
                        requested_lines.clone().map(|(_, requested_line)| requested_line.quantity).sum(),
                    );
                    for (n, _) in requested_lines {
                        if let Some(UnitSelection::Named(units)) = basket.selection(n) {
                            *named = Some(units.clone());
                        }
                    }
                }
            }
            ReturnSelection::Units(units) => {
                for (n, id) in units.iter().enumerate() {
                    let had = lines.iter().filter(|line| line.units().iter().any(|unit| unit.id == *id));
                    if had.count() > 1 {
                        return Err(invalid(&format!("/units/{n}")));
                    }
                }
                let has = |line: &Line, id: &Label| line.units().iter().any(|u| u.id == *id && !u.returned);
                for (line, named) in lines.iter().zip(&mut named) {
                    let here: Vec<Label> = units.iter().filter(|id| has(line, id)).cloned().collect();
                    back.push(here.len() as u64);
                    *named = Some(here);
                }
                if units.iter().any(|id| !lines.iter().any(|line| has(line, id))) {
                    let sold = lines[0].quantity - lines[0].returned;
                    return exceeds(&lines[0].item, units.len() as u64, sold);
                }
            }
        }
        let mut places = Vec::new();
        for ((line, back), named) in lines.iter().zip(&back).zip(&named) {
            let sold = line.quantity - line.returned;
            let out = |n: &usize| !line.units()[*n].returned;
            let all: Vec<usize> = (0..line.units().len()).filter(out).collect();
            let here: Vec<usize> = match named {
                None => all.into_iter().take(usize::try_from(*back).unwrap_or(usize::MAX)).collect(),
                Some(ids) => all.into_iter().filter(|n| ids.contains(&line.units()[*n].id)).collect(),
            };
            let lacks = named.as_ref().is_some_and(|ids| ids.len() != here.len());
            if *back > u64::from(sold) || lacks {
                return exceeds(&line.item, *back, sold);
            }
            places.push(here);
        }
        for ((line, back), places) in lines.iter_mut().zip(back).zip(places) {
            if back > 0 {
                line.returned += u32::try_from(back).expect("no more than was sold");
                self.count_line_transition(line, now, Some(&places));
            }
        }
        hold.lines = lines.into();
        self.keep(&hold);
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
        Reply::Swept { expired }
    }

    /// Loads a reservation for a command, and expires it first if it is due.
    fn found(&mut self, id: ReservationId, now: Instant) -> Result<Hold, Rejection> {
        let hold = self.hold(id).ok_or(Rejection::UnknownReservation(id))?;
        if hold.status == Status::Active && hold.expires_at <= now {
            self.expire(id, now);
        }
        self.hold(id).ok_or(Rejection::UnknownReservation(id))
    }

    /// Expires a due active reservation, as a store does in a batch that comes before the answer.
    pub fn expire(&mut self, id: ReservationId, now: Instant) {
        self.end(id, Status::Expired, now, None, None);
    }

    fn end(
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
        }
        hold.status = status;
        hold.lines = lines.into();
        hold.closing = Some(Box::new(Closing { at: now, reason, order_id }));
        self.keep(&hold);
    }

    fn keep(&mut self, hold: &Hold) {
        for kept in &mut self.holds {
            if kept.id == hold.id {
                *kept = hold.clone();
            }
        }
    }

    /// Counts a transition of a line: of its item, or of its units if they have ids. `returned` selects the units of a
    /// return.
    pub(super) fn count_line_transition(&mut self, line: &mut Line, now: Instant, back: Option<&[usize]>) {
        line.sequence = self.turn(&line.item, now);
        if line.units.is_some() {
            let mut units = line.units().to_vec();
            self.count_unit_transitions(&line.item, &mut units, back);
            for n in back.unwrap_or_default() {
                units[*n].returned = true;
            }
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
fn over(hold: &Hold) -> Rejection {
    match hold.status {
        Status::Confirmed => Rejection::ReservationConfirmed {
            id: hold.id,
            order_id: hold.closing.clone().and_then(|closing| closing.order_id),
        },
        Status::Cancelled => Rejection::ReservationCancelled(hold.id),
        Status::Expired => Rejection::ReservationExpired { id: hold.id, expires_at: hold.expires_at },
        Status::Active => unreachable!("an active reservation has not ended"),
    }
}
