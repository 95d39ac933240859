//! One buyer: picks an operation, sends it, and takes the answer at its word. An operation whose answer never came is
//! kept and asked again later; until then nothing is assumed about it.

use super::Stock;
use super::known_reservation::{KnownReservation, ReservationState, millis};
use super::op::{Op, Reserve, own_item};
use crate::clock::{time_may_stand_still, wall_millis};
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
const CLOCK_SLACK_MILLIS: i64 = 50;
/// Longest that an unresolved operation is asked again.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(30);
/// Between requests to a store that has failed.
const TROUBLE_PAUSE: Duration = Duration::from_millis(5);

/// One client.
#[derive(Clone, Debug)]
pub(super) struct Client {
    prefix: u64,
    rng: Rng,
    pub(super) stock: Arc<[Stock]>,
    short_holds: bool,
    next_number: u64,
    pub(super) known: Vec<KnownReservation>,
    /// Indices of what was active when last heard of.
    pub(super) active: Vec<usize>,
    sold: Vec<usize>,
    /// What was changed or asked since the last audit.
    pub(super) touched: Vec<usize>,
    /// The client's own item: its version and its total when it is there, else the last version that was answered.
    own: (u64, Option<u64>),
    /// Sum of acknowledged adjustments per SKU.
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

macro_rules! counts {
    ($($name:ident: $words:literal),* $(,)?) => {
        /// What was acknowledged, by kind, and what was not.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Counts { $(pub(crate) $name: u64),* }

        impl Counts {
            /// The sum of both.
            pub(super) fn plus(self, other: &Self) -> Self {
                Self { $($name: self.$name + other.$name),* }
            }
        }

        impl std::fmt::Display for Counts {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let parts = [$((self.$name, $words)),*];
                let text: Vec<String> =
                    parts.iter().filter(|part| part.0 > 0).map(|(count, words)| format!("{count} {words}")).collect();
                out.write_str(&text.join(", "))
            }
        }
    };
}

counts! {
    reserved: "reserved",
    baskets: "baskets",
    confirmed: "confirmed",
    released: "released",
    extended: "extended",
    returned: "returned",
    adjusted: "adjusted",
    made: "items made",
    deleted: "items deleted",
    replayed: "replays",
    refused: "refused",
    unanswered: "unanswered",
    outcome_unknown: "outcome_unknown",
    unavailable: "unavailable",
    alarms: "alarms",
    found: "unknowns found done",
    redone: "unknowns done on retry",
}

impl Counts {
    /// Answers of what changed something.
    pub(super) fn effects(&self) -> u64 {
        let kept = self.reserved + self.baskets + self.confirmed + self.extended;
        kept + self.released + self.returned + self.adjusted + self.made + self.deleted
    }
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

    pub(super) fn choose(&mut self) -> Op {
        let number = self.next_number;
        self.next_number += 1;
        let dice = self.rng.below(100);
        match dice {
            45..60 => self.confirm(number),
            60..75 => self.release(),
            75..83 => self.pick_active().map(|at| Op::Extend { at, ttl: self.rng.between(3_600, 9_000) }),
            83..88 => self.give_back(number),
            88..92 => {
                let delta = [1, 2, 3, 5, -1, -2][self.rng.index(6)];
                // Units with ids are never adjusted.
                let sku = self.rng.index(self.stock.len());
                (!self.stock[sku].seats).then_some(Op::Adjust { sku, delta, number })
            }
            92..95 if !self.known.is_empty() => Some(Op::Replay { at: self.rng.index(self.known.len()) }),
            95..97 => Some(match self.own.1 {
                None => Op::Make { total: self.rng.between(1, 9) },
                Some(_) => Op::Delete { number },
            }),
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
        Op::Reserve(Reserve { number, basket, partial, ttl, lines, first_seat })
    }

    fn confirm(&mut self, number: u64) -> Option<Op> {
        if !self.sold.is_empty() && self.rng.percent(10) {
            // Again, with no order id: the same answer, no second effect.
            return Some(Op::Confirm { at: self.sold[self.rng.index(self.sold.len())], order: None });
        }
        let order = self.rng.percent(50).then_some(number);
        self.pick_active().map(|at| Op::Confirm { at, order })
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

    fn give_back(&mut self, number: u64) -> Option<Op> {
        if self.sold.is_empty() {
            return None;
        }
        let at = self.sold[self.rng.index(self.sold.len())];
        let mut lines = Vec::new();
        for line in &self.known[at].lines {
            let left = line.quantity - line.returned;
            if left > 0 {
                lines.push((line.sku, self.rng.between(1, left)));
            }
        }
        (!lines.is_empty()).then_some(Op::Return { at, number, lines })
    }

    fn pick_active(&mut self) -> Option<usize> {
        if self.active.is_empty() {
            return None;
        }
        Some(self.active[self.rng.index(self.active.len())])
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
                self.settle(op, &answer, retry, tolerance).map_err(|error| format!("{error}: {asked}").into())
            }
            Err(error) if !tolerance.tolerates(&error) => {
                fail(format!("{error}: {} {}", request.method, request.path))
            }
            Err(_) => {
                self.counts.unanswered += 1;
                self.pending = Some(op);
                Ok(Flow::Unknown)
            }
        }
    }

    fn settle(&mut self, op: Op, answer: &Answer, retry: bool, tolerance: Tolerance) -> Result<Flow, String> {
        if answer.status == 503 {
            return match answer.reason().as_str() {
                "outcome_unknown" if !retry && !tolerance.tolerates_unknown() => {
                    Err("an outcome that is unknown for no reason".to_owned())
                }
                "outcome_unknown" => {
                    self.counts.outcome_unknown += 1;
                    self.pending = Some(op);
                    Ok(Flow::Unknown)
                }
                "unavailable" | "overloaded" => {
                    self.counts.unavailable += 1;
                    Ok(Flow::Unavailable)
                }
                _ => Err("a reason that was not expected".to_owned()),
            };
        }
        if answer.status == 500 && tolerance == Tolerance::Failure {
            // An invariant alarm: nothing was done.
            self.counts.alarms += 1;
            return Ok(Flow::Unavailable);
        }
        let replay = matches!(op, Op::Replay { .. });
        if answer.replayed && !replay && !retry {
            return Err("a replay of what was never answered".to_owned());
        }
        if replay && !answer.replayed {
            return Err("the key is forgotten".to_owned());
        }
        if retry {
            *(if answer.replayed { &mut self.counts.found } else { &mut self.counts.redone }) += 1;
        }
        match op {
            Op::Reserve(reserve) => self.reserved(reserve, answer),
            Op::Replay { at } if answer.status == self.known[at].request.status() => {
                self.counts.replayed += 1;
                self.check(at, answer)
            }
            Op::Confirm { at, .. } if answer.status == 200 => {
                self.counts.confirmed += 1;
                if self.known[at].state == ReservationState::Active {
                    self.known[at].state = ReservationState::Confirmed;
                    self.sold.push(at);
                }
                self.check(at, answer)
            }
            Op::Release { at } if answer.status == 204 => {
                self.counts.released += 1;
                if self.known[at].state == ReservationState::Active {
                    self.known[at].state = ReservationState::Ended;
                    self.touch(at);
                }
                Ok(())
            }
            Op::Extend { at, .. } if answer.status == 200 => {
                self.counts.extended += 1;
                self.check(at, answer)
            }
            Op::Confirm { at, .. } | Op::Extend { at, .. } if answer.status == 409 => {
                self.too_late(at, answer)
            }
            Op::Return { at, lines, .. } if answer.status == 200 => {
                self.counts.returned += 1;
                for (sku, quantity) in lines {
                    for line in self.known[at].lines.iter_mut().filter(|line| line.sku == sku) {
                        line.returned += quantity;
                    }
                }
                self.check(at, answer)
            }
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

    fn reserved(&mut self, reserve: Reserve, answer: &Answer) -> Result<(), String> {
        if answer.status == 409
            && match answer.reason().as_str() {
                "insufficient_inventory" => true,
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
        let known = KnownReservation::new(reserve, &answer.json(), &self.stock)?;
        let at = self.known.len();
        if known.state == ReservationState::Active {
            self.active.push(at);
        }
        self.known.push(known);
        self.touched.push(at);
        Ok(())
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

    /// A confirm or an extension that is refused: only because the deadline has come, or the cap is reached.
    fn too_late(&mut self, at: usize, answer: &Answer) -> Result<(), String> {
        self.counts.refused += 1;
        match answer.reason().as_str() {
            "extension_limit" => millis(&answer.json()["max_expires_at"]).map(|_| ()),
            "reservation_expired" => {
                let now = i64::try_from(wall_millis()).unwrap_or(i64::MAX);
                if now + CLOCK_SLACK_MILLIS < self.known[at].expires_at {
                    return Err("expired before its deadline".to_owned());
                }
                if matches!(self.known[at].state, ReservationState::Active | ReservationState::Expired) {
                    self.known[at].state = ReservationState::Expired;
                    self.touch(at);
                    return Ok(());
                }
                Err(format!("{:?} was acknowledged", self.known[at].state))
            }
            _ => Err(format!("{:?} was acknowledged", self.known[at].state)),
        }
    }

    /// Whether an answer about a reservation agrees with what is known of it.
    pub(super) fn check(&mut self, at: usize, answer: &Answer) -> Result<(), String> {
        self.known[at].check(&answer.json(), &self.stock)?;
        self.touch(at);
        Ok(())
    }

    fn touch(&mut self, at: usize) {
        self.touched.push(at);
        if self.known[at].state != ReservationState::Active
            && let Some(index) = self.active.iter().rposition(|active| *active == at)
        {
            self.active.swap_remove(index);
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

    /// The request that made a reservation, again.
    pub(super) fn replay(&self, at: usize) -> Request {
        Op::Replay { at }.request(self.prefix, &self.stock, &self.known)
    }

    /// Something known, any.
    pub(super) fn any(&mut self) -> Option<usize> {
        (!self.known.is_empty()).then(|| self.rng.index(self.known.len()))
    }
}
