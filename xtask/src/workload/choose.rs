//! What a client does next: mostly reserve, confirm and release, and now and then everything else.

use super::change::{Amend, AmendedLine, Change, ReturnFrom};
use super::client::Client;
use super::known_line::KnownLine;
use super::known_reservation::ReservationState;
use super::limits::{customer, needs_customer};
use super::op::{Confirm, Op, Reserve};
use super::seat;
use crate::rng::uuid;
use std::collections::BTreeSet;

/// Most units of reservations that are merged.
const MERGED_UNITS: u64 = 60;
/// No window may end later than this after the first one was opened: the default of the service.
pub(super) const MAX_PAYMENT_SECONDS: u64 = 3_600;
/// Units with ids that one client may write off: they never come back.
const SEATS_WRITTEN_OFF: u64 = 4;

impl Client {
    pub(super) fn choose(&mut self) -> Op {
        let number = self.next_number;
        self.next_number += 1;
        let dice = self.rng.below(100);
        match dice {
            34..48 => self.confirm(number),
            48..58 => self.release(),
            58..62 => self.extend(number),
            62..70 => self.amend(number),
            70..72 => self.transfer(number),
            72..75 => self.split(number),
            75..77 => self.merge(number),
            77..80 => self.open_payment(number),
            80..82 => self.close_payment(number),
            82..85 => self.fulfil(number),
            85..89 => self.give_back(number),
            89..92 => self.adjust(number),
            92..95 => self.again(),
            95..97 => Some(match self.own.1 {
                None => Op::Make { total: self.rng.between(1, 9) },
                Some(_) => Op::Delete { number },
            }),
            97..99 => self.reacquire(number),
            _ => None,
        }
        .unwrap_or_else(|| self.reserve(number))
    }

    fn reserve(&mut self, number: u64) -> Op {
        let basket = self.rng.percent(30);
        let count = if basket { self.rng.between(1, 4) } else { 1 };
        let mut lines: Vec<(usize, u64)> = Vec::new();
        for _ in 0..count {
            let sku = self.rng.index(self.stock.len());
            if lines.iter().all(|line| line.0 != sku) {
                lines.push((sku, self.rng.between(1, 5)));
            }
        }
        let short = self.short_holds && self.rng.percent(4);
        let ttl = if short { self.rng.between(1, 3) } else { self.rng.between(3_600, 7_200) };
        let hall = lines.iter().find(|(sku, _)| self.stock[*sku].seats);
        let first_seat = hall
            .filter(|_| self.rng.percent(50))
            .map(|(sku, _)| self.stock[*sku].total)
            .map(|total| self.rng.below(total));
        let partial = first_seat.is_none() && self.rng.percent(25);
        let needs_customer = lines.iter().any(|(sku, _)| needs_customer(&self.stock[*sku]));
        let customer = (needs_customer || self.rng.percent(50)).then(|| customer(self.rng.next()));
        Op::Reserve(Reserve {
            client: self.prefix,
            number,
            basket,
            partial,
            ttl,
            customer,
            lines,
            first_seat,
        })
    }

    fn confirm(&mut self, number: u64) -> Option<Op> {
        let payment = |number: u64| format!("pay-{number}");
        let order = self.rng.percent(50).then_some(number);
        let key = self.rng.percent(30).then_some(number);
        if !self.sold.is_empty() && self.rng.percent(10) {
            // Again, with no order id: the same answer, no second effect. With another payment it is refused.
            let at = self.sold[self.rng.index(self.sold.len())];
            let payment = self.rng.percent(30).then(|| payment(number));
            return Some(Op::Confirm(Confirm { at, order: None, payment, reacquire: false, number: None }));
        }
        let at = self.pick_active()?;
        let open = self.known[at].open_payment().map(|open| open.id.clone());
        let payment = match (open, self.rng.below(100)) {
            (Some(open), 0..60) => Some(open),
            (Some(_), 60..80) => None,
            (Some(_), _) | (None, 0..10) => Some(payment(number)),
            (None, _) => None,
        };
        Some(Op::Confirm(Confirm { at, order, payment, reacquire: false, number: key }))
    }

    /// A confirm of a reservation that has expired, or may have.
    fn reacquire(&mut self, number: u64) -> Option<Op> {
        let at = match self.expired.len() {
            0 => self.pick_active()?,
            expired => self.expired[self.rng.index(expired)],
        };
        // Those that were replaced keep the order and the payment of the first confirm.
        let named = self.known[at].links.replaced_by.is_none();
        let order = (named && self.rng.percent(50)).then_some(number);
        let open = self.known[at].open_payment().map(|open| open.id.clone());
        let payment = open.or_else(|| (named && self.rng.percent(50)).then(|| format!("pay-{number}")));
        Some(Op::Confirm(Confirm { at, order, payment, reacquire: true, number: Some(number) }))
    }

    fn release(&mut self) -> Option<Op> {
        if !self.known.is_empty() && self.rng.percent(10) {
            // Again, of something that ended: success, nothing comes back twice.
            let at = self.rng.index(self.known.len());
            return matches!(self.known[at].state, ReservationState::Cancelled | ReservationState::Expired)
                .then_some(Op::Release { at });
        }
        self.pick_active().map(|at| Op::Release { at })
    }

    fn extend(&mut self, number: u64) -> Option<Op> {
        let number = self.rng.percent(50).then_some(number);
        self.pick_active().map(|at| Op::Extend { at, ttl: self.rng.between(3_600, 9_000), number })
    }

    fn amend(&mut self, number: u64) -> Option<Op> {
        // Now and then of something that has ended, which is refused.
        let at = if self.rng.percent(4) { self.any()? } else { self.pick_active()? };
        let if_match = self.version_of(at);
        let known = self.known[at].lines.clone();
        let lines = (!self.rng.percent(10)).then(|| self.amended_lines(&known));
        let named = lines.iter().flatten().any(|line| line.units.is_some());
        // Whether an extension moved a deadline that is not known exactly could not be told.
        let ttl = (self.known[at].deadline.is_exact() && self.rng.percent(20))
            .then(|| self.rng.between(3_600, 9_000));
        let note = (lines.is_none() || self.rng.percent(10)).then_some(number);
        let partial = lines.is_some() && !named && self.rng.percent(25);
        let change = Change::Amend(Amend { lines, partial, ttl, note, if_match });
        Some(Op::Change { at, number, change })
    }

    /// Other lines: some with another quantity, some dropped, some new, and seats swapped for others.
    fn amended_lines(&mut self, known: &[KnownLine]) -> Vec<AmendedLine> {
        let mut lines = Vec::new();
        for line in known {
            if known.len() > 1 && self.rng.percent(20) {
                continue;
            }
            let quantity =
                if self.rng.percent(30) { line.quantity } else { self.rng.between(1, line.quantity + 2) };
            let swaps = self.stock[line.sku].seats && self.rng.percent(50);
            let units = swaps.then(|| {
                let total = self.stock[line.sku].total;
                let mut units: BTreeSet<String> =
                    line.units.iter().skip(1).map(|unit| unit.id.clone()).collect();
                units.insert(seat(self.rng.below(total)));
                units
            });
            let quantity = units.as_ref().map_or(quantity, |units| units.len() as u64);
            lines.push(AmendedLine { sku: line.sku, quantity, units });
        }
        let sku = self.rng.index(self.stock.len());
        let is_new = known.iter().all(|line| line.sku != sku);
        if lines.is_empty() || (is_new && self.rng.percent(30)) {
            lines.retain(|line| line.sku != sku);
            lines.push(AmendedLine { sku, quantity: self.rng.between(1, 3), units: None });
        }
        lines
    }

    fn transfer(&mut self, number: u64) -> Option<Op> {
        let at = self.pick_active()?;
        let owner = uuid(number, self.prefix);
        let customer = self.rng.percent(70).then(|| customer(self.rng.next()));
        let change = Change::Transfer { owner, customer, if_match: self.version_of(at) };
        Some(Op::Change { at, number, change })
    }

    fn split(&mut self, number: u64) -> Option<Op> {
        let at = self.pick_active()?;
        let known = self.known[at].lines.clone();
        let too_much = self.rng.percent(3);
        let mut lines: Vec<(usize, u64)> = Vec::new();
        for line in &known {
            if too_much {
                lines.push((line.sku, line.quantity + 1));
            } else if self.rng.percent(60) {
                lines.push((line.sku, self.rng.between(1, line.quantity)));
            }
        }
        let all: u64 = lines.iter().map(|(_, quantity)| quantity).sum();
        if lines.is_empty() || all == self.known[at].quantity() {
            return None;
        }
        let change = Change::Split { lines, if_match: self.version_of(at) };
        Some(Op::Change { at, number, change })
    }

    fn merge(&mut self, number: u64) -> Option<Op> {
        let at = self.pick_active()?;
        let mut units = self.known[at].quantity();
        let mut from = Vec::new();
        for _ in 0..self.rng.between(1, 3) {
            let source = self.pick_active()?;
            units += self.known[source].quantity();
            // A source with an open window makes the whole merge fail.
            let paid = self.known[source].open_payment().is_some() && self.rng.percent(80);
            if source == at || from.contains(&source) || units > MERGED_UNITS || paid {
                break;
            }
            from.push(source);
        }
        let change = Change::Merge { from, if_match: self.version_of(at) };
        match &change {
            Change::Merge { from, .. } if from.is_empty() => None,
            _ => Some(Op::Change { at, number, change }),
        }
    }

    fn open_payment(&mut self, number: u64) -> Option<Op> {
        let at = self.pick_active()?;
        let open = self.known[at].open_payment().map(|open| open.id.clone());
        let payment = open.filter(|_| self.rng.percent(70)).unwrap_or_else(|| format!("pay-{number}"));
        let window = match self.rng.below(100) {
            0..5 => MAX_PAYMENT_SECONDS + 1_000,
            5..40 => self.rng.between(1, 3),
            _ => self.rng.between(60, 1_800),
        };
        let change = Change::OpenPayment { payment, window, if_match: self.version_of(at) };
        Some(Op::Change { at, number, change })
    }

    fn close_payment(&mut self, number: u64) -> Option<Op> {
        let open: Vec<usize> =
            self.active.iter().copied().filter(|at| self.known[*at].open_payment().is_some()).collect();
        let at = match open.len() {
            0 => self.pick_active()?,
            count => open[self.rng.index(count)],
        };
        let open = self.known[at].open_payment().map(|open| open.id.clone());
        let payment = match self.rng.below(100) {
            0..30 => None,
            30..40 => Some(format!("pay-{number}")),
            _ => open,
        };
        Some(Op::Change { at, number, change: Change::ClosePayment { payment } })
    }

    fn fulfil(&mut self, number: u64) -> Option<Op> {
        let at = self.pick_sold()?;
        let all = self.rng.percent(30);
        let too_much = self.rng.percent(3);
        let lines: Vec<(usize, u64)> = self.known[at]
            .lines
            .iter()
            .map(|line| (line.sku, line.unfulfilled() + u64::from(too_much)))
            .filter(|(_, left)| *left > 0)
            .collect();
        if !all && lines.is_empty() {
            return None;
        }
        let lines = lines
            .into_iter()
            .map(|(sku, left)| (sku, if too_much { left } else { self.rng.between(1, left) }))
            .collect();
        let lines = Some(lines).filter(|_| !all);
        Some(Op::Change { at, number, change: Change::Fulfil { lines } })
    }

    fn give_back(&mut self, number: u64) -> Option<Op> {
        let at = self.pick_sold()?;
        let from = match self.rng.below(100) {
            0..25 => Some(ReturnFrom::Unfulfilled),
            25..50 => Some(ReturnFrom::Fulfilled),
            _ => None,
        };
        let mut lines = Vec::new();
        for line in &self.known[at].lines {
            let left = match from {
                None => line.sold(),
                Some(ReturnFrom::Unfulfilled) => line.unfulfilled(),
                Some(ReturnFrom::Fulfilled) => line.fulfilled,
            };
            if left > 0 {
                lines.push((line.sku, self.rng.between(1, left)));
            }
        }
        let seats: u64 =
            lines.iter().filter(|(sku, _)| self.stock[*sku].seats).map(|(_, quantity)| quantity).sum();
        let write_off = self.rng.percent(25) && self.seats_written_off + seats <= SEATS_WRITTEN_OFF;
        if write_off {
            self.seats_written_off += seats;
        }
        let any = !lines.is_empty();
        any.then_some(Op::Change { at, number, change: Change::Return { lines, from, write_off } })
    }

    fn adjust(&mut self, number: u64) -> Option<Op> {
        let delta = [1, 2, 3, 5, -1, -2][self.rng.index(6)];
        // Units with ids are never adjusted.
        let sku = self.rng.index(self.stock.len());
        (!self.stock[sku].seats).then_some(Op::Adjust { sku, delta, number })
    }

    /// A request that was acknowledged, again.
    fn again(&mut self) -> Option<Op> {
        if !self.acknowledged.is_empty() && self.rng.percent(50) {
            let at = self.rng.index(self.acknowledged.len());
            return Some(Op::ChangeAgain(Box::new(self.acknowledged[at].clone())));
        }
        self.any().map(|at| Op::Replay { at })
    }

    /// For some changes, the version that the reservation has; seldom another one.
    fn version_of(&mut self, at: usize) -> Option<u64> {
        let version = self.known[at].version;
        match self.rng.below(100) {
            0..35 => Some(version),
            35..38 => Some(version + 1),
            _ => None,
        }
    }

    fn pick_active(&mut self) -> Option<usize> {
        if self.active.is_empty() {
            return None;
        }
        Some(self.active[self.rng.index(self.active.len())])
    }

    fn pick_sold(&mut self) -> Option<usize> {
        if self.sold.is_empty() {
            return None;
        }
        Some(self.sold[self.rng.index(self.sold.len())])
    }
}
