//! One buyer: picks an operation, sends it, and takes the answer at its word. An operation whose answer never came is
//! kept and asked again later; until then nothing is assumed about it.

use super::Stock;
use super::counts::Counts;
use super::known_reservation::{KnownReservation, Made, ReservationState, Shown};
use super::limits::{check_refusal, is_limited};
use super::op::{Acknowledged, Op, Reserve, own_item};
use crate::clock::time_may_stand_still;
use crate::http::{Answer, Connection, Request};
use crate::rng::Rng;
use crate::{Outcome, fail};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What may happen besides answers and a server that goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tolerance {
    /// Nothing.
    None,
    /// The store may fail: 503, and after that no success from the same process.
    Failure,
    /// The server got SIGTERM: 503 once it accepts no more requests.
    Stopping,
    /// The database behind the server is lost and comes back: 503 meanwhile, and answers that do not come in time.
    Failover,
}

impl Tolerance {
    /// Whether an answer that did not come says no more than that the server, or what is behind it, went away.
    pub(super) fn tolerates(self, error: &std::io::Error) -> bool {
        match error.kind() {
            ErrorKind::InvalidData => false,
            ErrorKind::WouldBlock => self == Self::Failover,
            _ => true,
        }
    }

    /// Whether a command that is sent for the first time may be left without an outcome.
    fn tolerates_unknown(self) -> bool {
        matches!(self, Self::Failure | Self::Failover)
    }
}

/// How far the harness's clock may be from the store's: both read the same machine's.
pub(super) const CLOCK_SLACK_MILLIS: i64 = 50;
/// Expired reservations that a client may want to have again.
const EXPIRED_KEPT: usize = 16;
/// Longest that an unresolved operation is asked again.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(30);
/// Between requests to a store that has failed.
const TROUBLE_PAUSE: Duration = Duration::from_millis(5);

/// One client.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) prefix: u64,
    pub(super) rng: Rng,
    pub(super) stock: Arc<[Stock]>,
    pub(super) short_holds: bool,
    pub(super) next_number: u64,
    pub(super) known: Vec<KnownReservation>,
    /// Indices of what was active when last heard of.
    pub(super) active: Vec<usize>,
    pub(super) sold: Vec<usize>,
    /// Some that have expired, the latest ones.
    pub(super) expired: Vec<usize>,
    /// Some changes that were acknowledged.
    pub(super) acknowledged: Vec<Acknowledged>,
    /// Units with ids that it may have written off.
    pub(super) seats_written_off: u64,
    /// What was changed or asked since the last audit.
    pub(super) touched: Vec<usize>,
    /// The client's own item: its version and its total when it is there, else the last version that was answered.
    pub(super) own: (u64, Option<u64>),
    /// Sum of acknowledged adjustments and write-offs per SKU.
    pub(super) deltas: Vec<i64>,
    pub(super) pending: Option<Op>,
    /// When the request was sent whose answer never came.
    pub(super) cut: Option<Instant>,
    /// When its last load ended for want of a connection, or of an outcome.
    pub(super) lost: Option<Instant>,
    pub(super) counts: Counts,
}

/// Where a request led.
pub(super) enum Flow {
    Settled,
    /// No answer, or one that says that the outcome is unknown.
    Unknown,
    /// The store does not take it: no effect.
    Unavailable,
}

impl Client {
    pub(super) fn new(prefix: u64, stock: Arc<[Stock]>, short_holds: bool) -> Self {
        Self {
            prefix,
            rng: Rng::new(!prefix),
            deltas: vec![0; stock.len()],
            own: (0, None),
            stock,
            short_holds,
            next_number: 1,
            known: Vec::new(),
            active: Vec::new(),
            sold: Vec::new(),
            expired: Vec::new(),
            acknowledged: Vec::new(),
            seats_written_off: 0,
            touched: Vec::new(),
            pending: None,
            cut: None,
            lost: None,
            counts: Counts::default(),
        }
    }

    pub(super) fn load(
        &mut self,
        address: SocketAddr,
        stop: &AtomicBool,
        tolerance: Tolerance,
    ) -> Outcome<()> {
        self.lost = None;
        let Ok(mut connection) = Connection::open(address) else {
            self.lost = Some(Instant::now());
            return Ok(());
        };
        let mut troubled = false;
        while !stop.load(Ordering::Relaxed) {
            let op = self.choose();
            let flow = self.perform(&mut connection, op, false, tolerance)?;
            match flow {
                Flow::Settled if troubled && tolerance == Tolerance::Failure => {
                    return fail("an answer after the store had failed");
                }
                Flow::Settled => {}
                Flow::Unavailable if tolerance == Tolerance::None => {
                    return fail("unavailable for no reason");
                }
                Flow::Unavailable => {
                    troubled = true;
                    std::thread::sleep(TROUBLE_PAUSE);
                }
                Flow::Unknown => {
                    self.lost = Some(Instant::now());
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(super) fn work(&mut self, address: SocketAddr, operations: usize) -> Outcome<()> {
        let mut connection = Connection::open(address)?;
        for _ in 0..operations {
            let op = self.choose();
            match self.perform(&mut connection, op, false, Tolerance::None)? {
                Flow::Settled => {}
                Flow::Unavailable => return fail("unavailable for no reason"),
                Flow::Unknown => return fail(format!("never answered: {:?}", self.pending)),
            }
        }
        Ok(())
    }

    pub(super) fn resolve(&mut self, address: SocketAddr) -> Outcome<()> {
        let deadline = Instant::now() + RESOLVE_TIMEOUT;
        while let Some(op) = self.pending.take() {
            if Instant::now() > deadline {
                return fail(format!("still not answered: {op:?}"));
            }
            let mut connection = match Connection::open(address) {
                Ok(connection) => connection,
                Err(error) => {
                    self.pending = Some(op);
                    return Err(error.into());
                }
            };
            if !matches!(self.perform(&mut connection, op.clone(), true, Tolerance::None)?, Flow::Settled) {
                self.pending = Some(op);
                std::thread::sleep(TROUBLE_PAUSE);
            }
        }
        Ok(())
    }

    /// Which of so many servers is asked first.
    pub(super) fn home(&self, servers: usize) -> usize {
        usize::try_from(self.prefix % servers.max(1) as u64).unwrap_or(0)
    }

    pub(super) fn perform(
        &mut self,
        connection: &mut Connection,
        op: Op,
        retry: bool,
        tolerance: Tolerance,
    ) -> Outcome<Flow> {
        let request = op.request(self.prefix, &self.stock, &self.known);
        self.cut = None;
        let answer = connection.send(&request).and_then(|()| {
            self.cut = Some(Instant::now());
            connection.receive()
        });
        match answer {
            Ok(answer) => {
                self.cut = None;
                let asked =
                    format!("{} {} {:?} → {}", request.method, request.path, request.body, answer.brief());
                self.settle(op, &request, &answer, retry, tolerance)
                    .map_err(|error| format!("{error}: {asked}").into())
            }
            Err(error) if !tolerance.tolerates(&error) => {
                fail(format!("{error}: {} {}", request.method, request.path))
            }
            Err(_) => {
                self.counts.unanswered(op.kind());
                self.pending = Some(op);
                Ok(Flow::Unknown)
            }
        }
    }

    fn settle(
        &mut self,
        op: Op,
        request: &Request,
        answer: &Answer,
        retry: bool,
        tolerance: Tolerance,
    ) -> Result<Flow, String> {
        if answer.status == 503 {
            return self.unavailable(op, answer, retry, tolerance);
        }
        if answer.status == 500 && tolerance == Tolerance::Failure {
            // An invariant alarm: nothing was done.
            self.counts.alarms += 1;
            return Ok(Flow::Unavailable);
        }
        let replay = matches!(op, Op::Replay { .. } | Op::ChangeAgain(_));
        if answer.replayed && !replay && !retry {
            return Err("a replay of what was never answered".to_owned());
        }
        if replay && !answer.replayed {
            return Err("the key is forgotten".to_owned());
        }
        if retry {
            self.counts.resolved(answer.replayed, op.kind());
        }
        match op {
            Op::Reserve(reserve) => self.reserved(&reserve, request, answer),
            Op::Replay { at } if answer.status == self.known[at].made_by.status => {
                self.counts.replayed += 1;
                let shown = Shown::read(&answer.json(), &self.stock)?;
                self.check(at, &shown)
            }
            Op::ChangeAgain(again) => self.acknowledged_again(&again, answer),
            Op::Confirm(confirm) => self.confirmed(&confirm, request, answer),
            Op::Release { at } => self.released(at, answer),
            Op::Extend { at, .. } => self.extended(at, request, answer, retry),
            Op::Change { at, change, .. } => self.changed(at, &change, request, answer),
            Op::Adjust { sku, delta, .. } => self.adjusted(sku, delta, answer),
            // A retry may find that the first try has made it.
            Op::Make { total } if answer.status == 201 || (retry && answer.status == 200) => {
                self.counts.made += 1;
                let version = answer.json()["version"].as_u64().unwrap_or_default();
                // Versions begin with the server's time, which never goes back.
                if version < self.own.0 || (version == self.own.0 && !time_may_stand_still()) {
                    return Err(format!("an item that was made again follows version {}", self.own.0));
                }
                self.own = (version, Some(total));
                Ok(())
            }
            Op::Delete { .. } if answer.status == 204 => {
                self.counts.deleted += 1;
                self.own.1 = None;
                Ok(())
            }
            _ => Err("an answer that was not expected".to_owned()),
        }?;
        Ok(Flow::Settled)
    }

    fn unavailable(
        &mut self,
        op: Op,
        answer: &Answer,
        retry: bool,
        tolerance: Tolerance,
    ) -> Result<Flow, String> {
        match answer.reason().as_str() {
            "outcome_unknown" if !retry && !tolerance.tolerates_unknown() => {
                Err("an outcome that is unknown for no reason".to_owned())
            }
            "outcome_unknown" => {
                self.counts.outcome_unknown(op.kind());
                self.pending = Some(op);
                Ok(Flow::Unknown)
            }
            "unavailable" | "overloaded" => {
                self.counts.unavailable += 1;
                Ok(Flow::Unavailable)
            }
            _ => Err("a reason that was not expected".to_owned()),
        }
    }

    fn reserved(&mut self, reserve: &Reserve, request: &Request, answer: &Answer) -> Result<(), String> {
        if answer.status == 409
            && match answer.reason().as_str() {
                "insufficient_inventory" => true,
                "limit_exceeded" => self.limit_exceeded(reserve.lines.iter().map(|(sku, _)| *sku), answer)?,
                "units_unavailable" => reserve.first_seat.is_some(),
                _ => false,
            }
        {
            self.counts.refused += 1;
            return Ok(());
        }
        if answer.status != reserve.status() {
            return Err("an answer that was not expected".to_owned());
        }
        *(if reserve.basket { &mut self.counts.baskets } else { &mut self.counts.reserved }) += 1;
        let made_by = Made { request: request.clone(), status: answer.status };
        let known = KnownReservation::new(reserve, made_by, &answer.json(), &self.stock)?;
        let at = self.known.len();
        if known.state == ReservationState::Active {
            self.active.push(at);
        }
        self.known.push(known);
        self.touched.push(at);
        Ok(())
    }

    /// Whether a limit may refuse units of these items. Its refusal has to follow from what it says.
    pub(super) fn limit_exceeded(
        &mut self,
        mut skus: impl Iterator<Item = usize>,
        answer: &Answer,
    ) -> Result<bool, String> {
        self.counts.limit_exceeded += 1;
        check_refusal(&answer.json())?;
        Ok(skus.any(|sku| is_limited(&self.stock[sku])))
    }

    fn adjusted(&mut self, sku: usize, delta: i64, answer: &Answer) -> Result<(), String> {
        match (answer.status, answer.reason().as_str()) {
            (200, _) => {
                self.counts.adjusted += 1;
                self.deltas[sku] += delta;
                Ok(())
            }
            (409, "below_committed") => {
                self.counts.refused += 1;
                Ok(())
            }
            _ => Err("an answer that was not expected".to_owned()),
        }
    }

    /// Whether an answer about a reservation agrees with what is known of it.
    pub(super) fn check(&mut self, at: usize, shown: &Shown) -> Result<(), String> {
        self.known[at].check(shown)?;
        self.touch(at);
        Ok(())
    }

    pub(super) fn touch(&mut self, at: usize) {
        self.touched.push(at);
        let state = self.known[at].state;
        if state != ReservationState::Active
            && let Some(index) = self.active.iter().rposition(|active| *active == at)
        {
            self.active.swap_remove(index);
        }
        if state == ReservationState::Expired && !self.expired.contains(&at) {
            if self.expired.len() == EXPIRED_KEPT {
                self.expired.remove(0);
            }
            self.expired.push(at);
        }
    }

    /// Whether the client's own item is as it was acknowledged: there, or not.
    pub(super) fn audit_own(&self, address: SocketAddr) -> Outcome<()> {
        let answer = Connection::open(address)?.call(&Request::get(own_item(self.prefix)))?;
        let item = answer.json();
        let told = (answer.status == 200).then(|| (item["version"].as_u64(), item["total_units"].as_u64()));
        let expected = self.own.1.map(|total| (Some(self.own.0), Some(total)));
        if told != expected || ![200, 404].contains(&answer.status) {
            return fail(format!("the client's own item is not {expected:?}: {}", answer.brief()));
        }
        Ok(())
    }

    /// Something known, any.
    pub(super) fn any(&mut self) -> Option<usize> {
        (!self.known.is_empty()).then(|| self.rng.index(self.known.len()))
    }
}
