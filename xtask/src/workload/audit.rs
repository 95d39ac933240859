//! The audit: every reservation is as acknowledged, and every item's figures are the sums over all of them.

use super::client::{Client, Tolerance};
use super::known_reservation::{ReservationState, Shown};
use super::{Fleet, Stock, limits};
use crate::clock::wall_millis;
use crate::http::{Answer, Connection, Request};
use crate::{Outcome, fail};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// What was touched since the last audit, what may have fallen due, and a sample of the rest.
    Recent,
    /// Everything ever acknowledged.
    Everything,
}

/// Reservations of a client that are looked at again for no reason.
const SAMPLE: usize = 8;
/// Keys of a client that are tried again where damage is possible.
const KEY_SAMPLE: usize = 20;
/// A hold this close to its deadline is asked about before sums are drawn.
const DUE_SOON_MILLIS: i64 = 5_000;
/// Longest that sums may differ while holds fall due between one question and the next.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);
const SETTLE_PAUSE: Duration = Duration::from_millis(50);

/// Answers that a server refused instead of giving a doubtful one.
#[derive(Debug, Default)]
pub(crate) struct RefusedAnswers {
    /// Answers that were server errors.
    errors: AtomicU64,
    /// Requests that were not answered at all, which only a server that ends may do.
    cut: AtomicU64,
}

impl RefusedAnswers {
    /// Whether anything was.
    pub(crate) fn any(&self) -> bool {
        self.errors.load(Ordering::Relaxed) > 0 || self.ends()
    }

    /// Whether the server must have ended, or be about to.
    pub(crate) fn ends(&self) -> bool {
        self.cut.load(Ordering::Relaxed) > 0
    }

    /// Counts an answer if it was refused; returns whether it was.
    fn counts(&self, answer: &std::io::Result<Answer>) -> bool {
        let count = match answer {
            Ok(answer) if answer.status >= 500 => &self.errors,
            Err(error) if Tolerance::None.tolerates(error) => &self.cut,
            _ => return false,
        };
        count.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// What an item should show, summed over reservations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    total: i64,
    held: u64,
    held_under_payment: u64,
    sold: u64,
    fulfilled: u64,
    active: u64,
}

impl Fleet {
    /// Asks the server about what was acknowledged and compares all sums. What was not answered would be in no sum, so all
    /// has to be.
    pub(crate) fn audit(&mut self, address: SocketAddr, depth: Depth) -> Outcome<()> {
        self.all_answered()?;
        self.operator.audit(address)?;
        self.each(|client| client.audit(address, depth))?;
        if depth == Depth::Everything {
            self.ids_are_different()?;
        }
        self.no_seat_is_held_twice()?;
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let (told, summed) = (self.told(address)?, self.summed());
            let usage = limits::told(&mut Connection::open(address)?)?;
            let counted = self.limits_summed();
            if told == summed && usage == counted {
                return Ok(());
            }
            if Instant::now() > deadline {
                return fail(format!(
                    "the items say {told:?}, the reservations {summed:?}; the limits say {usage:?}, the reservations {counted:?}"
                ));
            }
            std::thread::sleep(SETTLE_PAUSE);
            self.each(|client| client.audit_due(address))?;
        }
    }

    /// Compares everything with what was acknowledged where damage is possible: an answer is right, or it is withheld
    /// with a server error; anything else is a wrong figure. Gives what was withheld.
    pub(crate) fn compare(&mut self, address: SocketAddr) -> Outcome<RefusedAnswers> {
        self.all_answered()?;
        let withheld = RefusedAnswers::default();
        let items = self.summed();
        let mut connection = Connection::open(address)?;
        for (stock, sum) in self.stock.iter().zip(&items) {
            let answer = connection.call(&Request::get(format!("/v1/inventory/{}", stock.sku)));
            if withheld.counts(&answer) {
                continue;
            }
            let said = told(&answer?)?;
            if said != *sum {
                return fail(format!("wrong figure: {} is {said:?}, not {sum:?}", stock.sku));
            }
        }
        limits::compare(&mut connection, &self.limits_summed(), |answer| withheld.counts(answer))?;
        self.each(|client| client.compare(address, &withheld))?;
        Ok(withheld)
    }

    /// Reservations that were ever acknowledged.
    pub(crate) fn known(&self) -> usize {
        self.clients.iter().map(|client| client.known.len()).sum()
    }

    fn told(&self, address: SocketAddr) -> Outcome<Vec<Sum>> {
        let mut connection = Connection::open(address)?;
        let mut ask = |stock: &Stock| connection.call(&Request::get(format!("/v1/inventory/{}", stock.sku)));
        self.stock.iter().map(|stock| told(&ask(stock)?)).collect()
    }

    fn summed(&self) -> Vec<Sum> {
        let mut sums: Vec<Sum> = self
            .stock
            .iter()
            .map(|stock| Sum { total: i64::try_from(stock.total).unwrap_or(i64::MAX), ..Sum::default() })
            .collect();
        for client in &self.clients {
            for (sum, delta) in sums.iter_mut().zip(&client.deltas) {
                sum.total += delta;
            }
            for known in &client.known {
                for line in &known.lines {
                    let sum = &mut sums[line.sku];
                    match known.state {
                        ReservationState::Active => {
                            sum.held += line.quantity;
                            sum.active += 1;
                            if known.open_payment().is_some() {
                                sum.held_under_payment += line.quantity;
                            }
                        }
                        ReservationState::Confirmed => {
                            sum.sold += line.sold();
                            sum.fulfilled += line.fulfilled;
                        }
                        ReservationState::Cancelled | ReservationState::Expired | ReservationState::Ended => {
                        }
                    }
                }
            }
        }
        sums
    }

    /// No unit is in two reservations that are sold, or held and not due.
    fn no_seat_is_held_twice(&self) -> Outcome<()> {
        let soon = due_soon_at();
        let mut had = BTreeMap::new();
        for known in self.clients.iter().flat_map(|client| &client.known) {
            let has = match known.state {
                ReservationState::Active => known.deadline.from >= soon,
                ReservationState::Confirmed => true,
                ReservationState::Cancelled | ReservationState::Expired | ReservationState::Ended => false,
            };
            let units = known.lines.iter().flat_map(|line| &line.units).filter(|unit| !unit.returned);
            for unit in units.filter(|_| has) {
                if let Some(other) = had.insert(&unit.id, known) {
                    return fail(format!("{} is had by two: {other:?} and {known:?}", unit.id));
                }
            }
        }
        Ok(())
    }

    fn ids_are_different(&self) -> Outcome<()> {
        let mut seen = BTreeSet::new();
        let known = self.clients.iter().flat_map(|client| &client.known);
        for reservation in known {
            if !seen.insert(reservation.id.as_str()) {
                return fail(format!("{} was given to two requests", reservation.id));
            }
        }
        Ok(())
    }
}

/// What the server says of an item, which must be consistent in itself.
fn told(answer: &Answer) -> Outcome<Sum> {
    let item = answer.json();
    let mut missing = false;
    let mut number = |name: &str| {
        item[name].as_u64().unwrap_or_else(|| {
            missing = true;
            0
        })
    };
    let (total, held, sold) = (number("total_units"), number("held_units"), number("confirmed_sold"));
    let (fulfilled, held_under_payment) = (number("fulfilled_units"), number("held_under_payment"));
    let (available, active) = (number("available"), number("active_reservations"));
    let (on_hand, unfulfilled) = (number("on_hand"), number("unfulfilled_units"));
    if missing {
        return fail(format!("GET item: {}", answer.brief()));
    }
    if sold + held > total {
        return fail(format!("oversold: {}", answer.brief()));
    }
    if available != total - sold - held {
        return fail(format!("available does not add up: {}", answer.brief()));
    }
    if fulfilled > sold || unfulfilled != sold - fulfilled || on_hand != total - fulfilled {
        return fail(format!("fulfilled units do not add up: {}", answer.brief()));
    }
    if held_under_payment > held {
        return fail(format!("more is held under payment than is held: {}", answer.brief()));
    }
    Ok(Sum { total: i64::try_from(total)?, held, held_under_payment, sold, fulfilled, active })
}

/// What falls due before this may have fallen due by now, or will in a moment.
fn due_soon_at() -> i64 {
    i64::try_from(wall_millis()).unwrap_or(i64::MAX).saturating_add(DUE_SOON_MILLIS)
}

impl Client {
    /// See [`Fleet::compare`]: every reservation, then a sample of keys.
    fn compare(&mut self, address: SocketAddr, withheld: &RefusedAnswers) -> Outcome<()> {
        let keys: Vec<usize> = (0..KEY_SAMPLE).filter_map(|_| self.any()).collect();
        let reads = (0..self.known.len())
            .map(|at| (at, Request::get(format!("/v1/reservations/{}", self.known[at].id)), 200));
        let made_by = |at: usize| &self.known[at].made_by;
        let replays = keys.into_iter().map(|at| (at, made_by(at).request.clone(), made_by(at).status));
        let asked: Vec<_> = reads.chain(replays).collect();
        for (at, request, status) in asked {
            let answer = Connection::open(address).and_then(|mut connection| connection.call(&request));
            if withheld.counts(&answer) {
                continue;
            }
            let answer = answer?;
            let checked = match answer.status {
                good if good == status => Shown::read(&answer.json(), &self.stock)
                    .and_then(|shown| self.known[at].clone().check(&shown)),
                _ => Err("wrong figure: lost".to_owned()),
            };
            checked.map_err(|error| format!("{error}: {:?} → {}", self.known[at], answer.brief()))?;
        }
        Ok(())
    }

    fn audit(&mut self, address: SocketAddr, depth: Depth) -> Outcome<()> {
        self.audit_own(address)?;
        let mut asked: BTreeSet<usize> = match depth {
            Depth::Everything => (0..self.known.len()).collect(),
            Depth::Recent => {
                let sample: Vec<usize> = (0..SAMPLE).filter_map(|_| self.any()).collect();
                std::mem::take(&mut self.touched).into_iter().chain(sample).collect()
            }
        };
        asked.extend(self.due_soon());
        self.ask(address, asked)
    }

    fn audit_due(&mut self, address: SocketAddr) -> Outcome<()> {
        let asked = self.due_soon();
        self.ask(address, asked)
    }

    fn due_soon(&self) -> BTreeSet<usize> {
        let soon = due_soon_at();
        self.active.iter().copied().filter(|at| self.known[*at].deadline.from < soon).collect()
    }

    fn ask(&mut self, address: SocketAddr, asked: BTreeSet<usize>) -> Outcome<()> {
        if asked.is_empty() {
            return Ok(());
        }
        let mut connection = Connection::open(address)?;
        for at in asked {
            let answer = connection.call(&Request::get(format!("/v1/reservations/{}", self.known[at].id)))?;
            self.check_answer(at, &answer)?;
        }
        self.touched.clear();
        Ok(())
    }

    fn check_answer(&mut self, at: usize, answer: &Answer) -> Outcome<()> {
        let shown = match answer.status {
            200 => Shown::read(&answer.json(), &self.stock),
            _ => Err("lost".to_owned()),
        };
        let checked = shown.and_then(|shown| self.check(at, &shown));
        checked.map_err(|error| format!("{error}: {:?} → {}", self.known[at], answer.brief()).into())
    }
}
