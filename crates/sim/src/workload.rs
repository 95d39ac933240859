//! Generates the steps of a history from its seed. It does not see their effects. Each history has its own
//! probabilities, so some consist of crashes and others never let the index catch up.

use crate::step::{Crash, OpRequest, Step};
use stockhold_model::{ChangeKind, ChangeOp, Op, Random, TermsOp};

const MILLI: i64 = 1_000;
const SECOND: i64 = 1_000_000;
/// How time passes between steps, in microseconds.
const TICKS: [i64; 8] = [0, 1, MILLI, 7 * MILLI, SECOND, 2 * SECOND, 30 * SECOND, 900 * SECOND];
/// Distances from a deadline to which time moves, in microseconds.
const EDGES: [i64; 7] = [-MILLI, -1, 0, 0, 1, MILLI, SECOND];
/// Steps of clocks, in seconds.
const CLOCK_STEPS: [i16; 8] = [-3_600, -600, -30, -1, 1, 30, 600, 3_600];
/// Hours without a request: up to 42 days.
const IDLE_HOURS: u64 = 1_000;
/// Holds of a crowd: more than one batch may expire.
const CROWD: [u16; 5] = [40, 280, 281, 330, 331];
/// Idempotency keys that are used again: one of this many newest ones.
const RECENT_KEYS: u64 = 12;

/// Those of [`TICKS`] after which most reservations of a calm history are still active.
const CALM_TICKS: usize = 6;
/// Default time to live of a reservation, in seconds: in a calm history and in others.
const DEFAULT_TTLS: [u32; 2] = [600, 2];
/// One of this many commands is a further change of a reservation, beside those among all commands: in a calm history and
/// in others.
const CHANGES: [u64; 2] = [3, 6];
/// One of this many commands of a history with limits sets or deletes one, beside those among all commands.
const LIMIT_CHANGES: u64 = 30;
/// Most units of the limits at the beginning of a history. They are fewer than there are, so that limits refuse.
const FIRST_LIMITS: [u8; 3] = [3, 5, 12];
/// Units beyond the total that some histories may sell from the beginning: about as many as there are.
const FIRST_ALLOWANCE: u8 = 8;
/// What happens to a new reservation, one command after the other.
const JOURNEYS: [&[ChangeKind]; 9] = [
    &[ChangeKind::Amend, ChangeKind::Transfer, ChangeKind::OpenPayment, ChangeKind::ConfirmPayment],
    &[ChangeKind::AmendUnits, ChangeKind::Split, ChangeKind::Merge, ChangeKind::Amend, ChangeKind::Split],
    &[ChangeKind::OpenPayment, ChangeKind::OpenPayment, ChangeKind::ClosePayment, ChangeKind::Amend],
    &[ChangeKind::OpenPayment, ChangeKind::ClosePayment, ChangeKind::Merge, ChangeKind::OpenPayment],
    &[ChangeKind::ConfirmPayment, ChangeKind::Fulfil, ChangeKind::Return, ChangeKind::Fulfil],
    &[ChangeKind::OpenPayment, ChangeKind::ConfirmPayment, ChangeKind::Fulfil, ChangeKind::Return],
    &[
        ChangeKind::Checkout,
        ChangeKind::Advance,
        ChangeKind::Advance,
        ChangeKind::Refund,
        ChangeKind::Advance,
    ],
    &[
        ChangeKind::Checkout,
        ChangeKind::Advance,
        ChangeKind::Checkout,
        ChangeKind::Advance,
        ChangeKind::Advance,
    ],
    &[ChangeKind::Checkout, ChangeKind::Advance, ChangeKind::Return, ChangeKind::Refund, ChangeKind::Advance],
];
/// One of this many commands of a journey follows at once on the one before. The others find its effect durable.
const AT_ONCE: u64 = 4;

/// Weights of the kinds of steps.
struct Habits {
    requests: u64,
    retries: u64,
    network: u64,
    commits: u64,
    nudges: u64,
    reads: u64,
    index: u64,
    sweeps: u64,
    time: u64,
    clocks: u64,
    crashes: u64,
    failures: u64,
    crowds: u64,
    journeys: u64,
    /// Whether there is an item whose units have ids.
    hall: bool,
    /// Whether reservations live long, so that many commands find them active.
    calm: bool,
    /// Whether there are limits from the beginning.
    limited: bool,
}

/// The weight of a kind of step, and the function that makes one.
type Kind = (u64, fn(&mut Maker) -> Step);

impl Habits {
    fn of(random: &mut Random) -> Self {
        Self {
            requests: 300 + random.below(300),
            retries: 20 + random.below(120),
            network: 40 + random.below(160),
            commits: 60 + random.below(140),
            nudges: 20 + random.below(200),
            reads: 20 + random.below(140),
            index: 10 + random.below(200),
            sweeps: random.below(60),
            time: 30 + random.below(120),
            clocks: random.pick(&[0, 10, 40]),
            crashes: random.pick(&[4, 15, 30, 80]),
            failures: random.pick(&[4, 10, 25]),
            crowds: if random.one_in(12) { 8 } else { 0 },
            journeys: random.pick(&[2, 10, 30]),
            hall: random.one_in(2),
            calm: random.one_in(2),
            limited: random.one_in(2),
        }
    }

    fn kinds(&self) -> [Kind; 14] {
        [
            (self.requests, Maker::request),
            (self.retries, Maker::retry),
            (self.network, Maker::network),
            (self.commits, |_| Step::Commit),
            (self.nudges, |_| Step::Nudge),
            (self.reads, Maker::read),
            (self.index, Maker::index),
            (self.sweeps, |maker| if maker.random.one_in(4) { Step::SweepAll } else { Step::Sweep }),
            (self.time, Maker::time),
            (self.clocks, Maker::clock),
            (self.crashes, |maker| Step::Crash(maker.crash())),
            (self.failures, Maker::failure),
            (self.crowds, |maker| Step::Crowd(maker.random.pick(&CROWD))),
            (self.journeys, Maker::journey),
        ]
    }
}

/// The steps of a seed's history.
pub(crate) fn history(seed: u64, steps: u32) -> Vec<Step> {
    let mut random = Random::new(seed ^ 0x51_4d55_4c41_5445);
    let habits = Habits::of(&mut random);
    let Habits { hall, calm, limited, .. } = habits;
    let mut maker = Maker { random, keys: 0, hall, calm, limited, steps: Vec::new() };
    maker.open();
    let kinds = habits.kinds();
    let sum: u64 = kinds.iter().map(|(weight, _)| weight).sum();
    let steps = usize::try_from(steps).unwrap_or(usize::MAX);
    while maker.steps.len() < steps {
        let mut n = maker.random.below(sum);
        for (weight, make) in &kinds {
            if n < *weight {
                let step = make(&mut maker);
                maker.steps.push(step);
                break;
            }
            n -= weight;
        }
    }
    maker.steps.truncate(steps);
    maker.steps
}

struct Maker {
    random: Random,
    /// Number of keys so far.
    keys: u16,
    hall: bool,
    calm: bool,
    limited: bool,
    steps: Vec<Step>,
}

impl Maker {
    /// The first steps create items, and limits in some histories.
    fn open(&mut self) {
        let (safety_stock, max_hold, expected) = (None, None, None);
        let default_ttl = Some(DEFAULT_TTLS[self.kind()]);
        let mut ops: Vec<Op> = (0..3)
            .map(|item| Op::SetStock {
                item,
                total: Some(6 + item),
                safety_stock,
                default_ttl,
                max_hold,
                expected,
            })
            .collect();
        if self.hall {
            ops.push(Op::CreateUnitItem);
            ops.extend((0..3).map(|row| Op::AddUnits { row, first: 0, count: 5, placed: true }));
        }
        if self.limited {
            let limits = (0..).zip(FIRST_LIMITS);
            ops.extend(limits.map(|(limit, most)| {
                Op::Terms(TermsOp::Limit { limit, most: Some(most), which: self.random.byte() })
            }));
        }
        // Some histories sell what is not there from the beginning.
        if self.random.one_in(3) {
            let (window, supplies, gated) = (None, None, None);
            let price = Some(self.random.byte());
            ops.extend((0..3).map(|item| {
                Op::Terms(TermsOp::Set {
                    item,
                    allowance: Some(FIRST_ALLOWANCE),
                    window,
                    supplies,
                    gated,
                    price,
                    master: None,
                })
            }));
        }
        for op in ops {
            self.steps.extend([Step::Send(OpRequest { op, key: None, aim: 0 }), Step::Arrive(0)]);
        }
        self.steps.push(Step::Commit);
    }

    /// 0 in a calm history, 1 in others.
    fn kind(&self) -> usize {
        usize::from(!self.calm)
    }

    /// Most requests arrive at once.
    fn request(&mut self) -> Step {
        if self.random.one_in(16) {
            return Step::Request(self.random.byte());
        }
        if self.random.one_in(20) {
            let count = 2 + self.random.below(6);
            let requests = (0..count).map(|_| self.op()).collect();
            return Step::SendAll(requests);
        }
        let send = Step::Send(self.op());
        if self.random.one_in(6) {
            return send;
        }
        self.steps.push(send);
        Step::Arrive(u8::MAX)
    }

    fn op(&mut self) -> OpRequest {
        let any = if self.random.one_in(CHANGES[self.kind()]) {
            Op::Change(ChangeOp::random(&mut self.random))
        } else if self.limited && self.random.one_in(LIMIT_CHANGES) {
            let most = (!self.random.one_in(5)).then(|| self.random.byte() % 16);
            Op::Terms(TermsOp::Limit { limit: self.random.byte(), most, which: self.random.byte() })
        } else if self.hall {
            Op::random_with_unit_item(&mut self.random)
        } else {
            Op::random(&mut self.random)
        };
        let op = match any {
            // Nothing is sold while everything is paused, so most pauses end soon.
            Op::SetSale { scope, paused } => Op::SetSale { scope, paused: paused && self.random.one_in(3) },
            // A short maximum makes most other times to live invalid.
            Op::SetStock { item, total, safety_stock, default_ttl, max_hold, expected } => {
                let max_hold = max_hold.filter(|_| self.random.one_in(4));
                Op::SetStock { item, total, safety_stock, default_ttl, max_hold, expected }
            }
            Op::Reserve { lines, ttl, partial, key } => {
                let ttl = ttl.filter(|_| !self.random.one_in(if self.calm { 1 } else { 3 }));
                Op::Reserve { lines, ttl, partial, key }
            }
            Op::ReserveUnits { count, how, which, counted, ttl, partial, key } if self.calm => {
                let ttl = ttl.max(DEFAULT_TTLS[0]);
                Op::ReserveUnits { count, how, which, counted, ttl, partial, key }
            }
            op => op,
        };
        self.request_of(op)
    }

    fn request_of(&mut self, op: Op) -> OpRequest {
        let key = self.random.one_in(2).then(|| self.key());
        OpRequest { op, key, aim: u16::from_le_bytes([self.random.byte(), self.random.byte()]) }
    }

    /// A caller makes a reservation and changes it step by step, while time passes and others do the same.
    fn journey(&mut self) -> Step {
        let count = 1 + self.random.byte() % 4;
        let reserve = if self.hall && self.random.one_in(2) {
            Op::ReserveUnits {
                count,
                how: self.random.byte(),
                which: self.random.byte(),
                counted: self.random.one_in(2),
                ttl: DEFAULT_TTLS[self.kind()],
                partial: true,
                key: None,
            }
        } else {
            let lines = (0..=self.random.byte() % 3).map(|item| (item, count)).collect();
            Op::Reserve { lines, ttl: None, partial: true, key: None }
        };
        self.arrives(reserve);
        for kind in self.random.pick(&JOURNEYS) {
            if !self.random.one_in(AT_ONCE) {
                self.steps.push(Step::Commit);
            }
            // Windows are closed at and after deadlines and caps too.
            if *kind == ChangeKind::ClosePayment && self.random.one_in(2) {
                let n = self.random.byte();
                self.steps.push(Step::ToDeadline(n, self.random.pick(&EDGES)));
            } else if self.random.one_in(8) {
                let time = self.time();
                self.steps.push(time);
            }
            let change = ChangeOp { kind: *kind, ..ChangeOp::random(&mut self.random) };
            self.arrives(Op::Change(change));
        }
        Step::Commit
    }

    /// A request that is sent and arrives, if no other one is under way.
    fn arrives(&mut self, op: Op) {
        let request = self.request_of(op);
        self.steps.extend([Step::Send(request), Step::Arrive(u8::MAX)]);
    }

    /// Most retries arrive at once too.
    fn retry(&mut self) -> Step {
        let retry = Step::Retry(self.random.byte());
        if self.random.one_in(3) {
            return retry;
        }
        self.steps.push(retry);
        Step::Arrive(u8::MAX)
    }

    fn key(&mut self) -> u16 {
        if self.keys > 0 && self.random.one_in(6) {
            let ago = self.random.below(RECENT_KEYS.min(u64::from(self.keys)));
            return self.keys - 1 - u16::try_from(ago).unwrap_or(0);
        }
        self.keys = self.keys.wrapping_add(1);
        self.keys - 1
    }

    fn network(&mut self) -> Step {
        let n = self.random.byte();
        match self.random.below(12) {
            0..=2 => Step::Arrive(n),
            3 => Step::LoseRequest(n),
            4..=5 => Step::RepeatRequest(n),
            6..=9 => Step::Reply(n),
            _ => Step::LoseReply(n),
        }
    }

    fn read(&mut self) -> Step {
        let n = self.random.byte();
        match self.random.below(5) {
            0 => Step::Bring(n),
            1 => Step::Readmit(n),
            _ => Step::Read,
        }
    }

    fn index(&mut self) -> Step {
        match self.random.below(11) {
            0..=4 => Step::Chunk(self.random.byte() % 8),
            5..=6 => Step::Forget,
            7..=9 => Step::Runs,
            _ => Step::Tend,
        }
    }

    fn time(&mut self) -> Step {
        let n = self.random.byte();
        match self.random.below(40) {
            0 => Step::Idle(u16::try_from(1 + self.random.below(IDLE_HOURS)).unwrap_or(1)),
            1 => Step::SlowCommit(n),
            _ if self.calm && !self.random.one_in(8) => Step::Advance(self.random.pick(&TICKS[..CALM_TICKS])),
            2..=14 => Step::ToDeadline(n, self.random.pick(&EDGES)),
            _ => Step::Advance(self.random.pick(&TICKS)),
        }
    }

    fn clock(&mut self) -> Step {
        match self.random.below(5) {
            0 => Step::Drift(self.random.byte()),
            1 => Step::Freeze(u16::from(self.random.byte()) * 8),
            2..=3 => Step::SetWall(self.random.pick(&CLOCK_STEPS)),
            _ => Step::SetClock(self.random.pick(&CLOCK_STEPS)),
        }
    }

    fn failure(&mut self) -> Step {
        match self.random.below(4) {
            0 => Step::DiskFull(self.random.one_in(2)),
            1 => Step::DiskFull(false),
            _ => Step::FailCommit(self.crash()),
        }
    }

    fn crash(&mut self) -> Crash {
        Crash {
            stage: self.random.byte(),
            fate: self.random.byte(),
            power: self.random.one_in(3).then(|| self.random.byte()),
            damage: self.random.one_in(20).then(|| self.random.byte()),
            lost_end: self.random.one_in(20),
            writes: self.random.one_in(4),
        }
    }
}
