//! Runs seeded histories on a whole store with its threads and files. A history has random commands, moves of the
//! clock, and crashes in the middle of batches. The store and the reference model execute it together and must agree
//! after every step. Everything that was answered before a crash exists after it. A command that was not answered has
//! its whole effect or none.
//!
//! It runs no rule and knows no particular store: see [`CrashWorld`]. A failure names its seed. The commands of a
//! history follow from the seed, but the moment of a crash depends on the machine.

use std::collections::HashSet;
use stockhold_conformance::{CrashWorld, Op, OpContext, Random, START};
use stockhold_domain::{
    Command, Envelope, HoldLimits, Instant, Outcome, RequestId, ReservationId, Seconds, Status,
};
use stockhold_model::{Model, holds_agree, outcomes_agree};

/// Most commands of one batch.
const BATCH: u64 = 8;
/// One of this many batches is hit by a crash.
const CRASH_EVERY: u64 = 4;
/// Reservations that are compared after every step: this many newest ones.
const COMPARED: usize = 8;
const SECOND: i64 = 1_000_000;
/// Moves of the clock between batches, in microseconds.
const TICKS: [i64; 6] = [0, 1, 1_000, SECOND, 2 * SECOND, 30 * SECOND];
/// Distances from a deadline to which the clock is set, in microseconds.
const EDGES: [i64; 5] = [-1_000, -1, 0, 1, 1_000];

/// Counts of what happened in a history, which show that a run tested something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryCounts {
    /// Submitted commands.
    pub commands: u64,
    /// Crashes.
    pub crashes: u64,
    /// Commands that a crash left unanswered.
    pub unanswered: u64,
    /// Unanswered commands that had their effect after the restart.
    pub kept: u64,
    /// Retries of a request with its key.
    pub replays: u64,
    /// Reservations that expired.
    pub expired: u64,
}

impl HistoryCounts {
    /// Adds the counts of another history.
    pub fn add(&mut self, other: Self) {
        self.commands += other.commands;
        self.crashes += other.crashes;
        self.unanswered += other.unanswered;
        self.kept += other.kept;
        self.replays += other.replays;
        self.expired += other.expired;
    }
}

/// Runs one history on a new store. The error names the seed and the step.
pub fn run(world: &mut dyn CrashWorld, seed: u64, steps: u32) -> Result<HistoryCounts, String> {
    let mut history = History {
        world,
        random: Random::new(seed),
        context: OpContext::new(seed ^ 0x51b, &format!("{seed:x}-")),
        model: Model::new(HoldLimits::default()),
        now: START,
        position: 0,
        counters: HistoryCounts::default(),
    };
    for step in 0..steps {
        history.step().map_err(|what| format!("seed {seed}, step {step}: {what}"))?;
    }
    history.settle().map_err(|what| format!("seed {seed}, after {steps} steps: {what}"))?;
    Ok(history.counters)
}

struct History<'w> {
    world: &'w mut dyn CrashWorld,
    random: Random,
    context: OpContext,
    model: Model,
    now: Instant,
    /// Position of the newest event that the model has.
    position: u64,
    counters: HistoryCounts,
}

impl History<'_> {
    fn step(&mut self) -> Result<(), String> {
        self.tick();
        let batch = self.batch();
        self.counters.commands += batch.len() as u64;
        if self.random.one_in(CRASH_EVERY) {
            self.crash(batch)?;
        } else {
            let answers = self.world.submit(batch.clone());
            for (envelope, answer) in batch.iter().zip(answers) {
                let got = answer.map_err(|failure| format!("{:?}: {failure}", envelope.command))?;
                self.agree(envelope, &got)?;
            }
        }
        self.position = self.world.events().last().map_or(0, |row| row.position);
        self.compare(COMPARED)
    }

    fn batch(&mut self) -> Vec<Envelope> {
        let mut ops = Vec::new();
        if self.context.holds().is_empty() {
            let (safety_stock, default_ttl, max_hold, expected) = (None, Some(2), None, None);
            ops.extend((0..3).map(|item| {
                let total = Some(6 + item);
                Op::SetStock { item, total, safety_stock, default_ttl, max_hold, expected }
            }));
        }
        for _ in 0..=self.random.below(BATCH) {
            ops.push(Op::random(&mut self.random));
        }
        ops.iter().map(|op| self.context.envelope(op)).collect()
    }

    /// Commits are ordered, so the committed commands are the first ones of the batch. The answers, and the request
    /// ids of the events, show how many they are.
    fn crash(&mut self, mut batch: Vec<Envelope>) -> Result<(), String> {
        self.counters.crashes += 1;
        for envelope in &mut batch {
            // A retry has the request id of its first request, and effects are assigned by request id.
            envelope.origin.request_id = RequestId::Made(self.random.wide_bits());
            // These commands may be done without an event, so nobody could see whether their key was kept.
            if matches!(
                envelope.command,
                Command::Confirm(_)
                    | Command::Release(_)
                    | Command::Extend(_)
                    | Command::Amend(_)
                    | Command::Transfer(_)
                    | Command::OpenPayment(_)
                    | Command::ClosePayment(_)
            ) {
                envelope.key = None;
            }
        }
        let answers = self.world.crash_with(batch.clone());
        let events = self.world.events();
        let happened: HashSet<String> = events
            .iter()
            .filter(|row| row.position > self.position)
            .map(|row| row.event.origin.request_id.to_string())
            .collect();
        let acknowledged = |n: usize| matches!(answers.get(n), Some(Some(Ok(_))));
        let there = |n: &usize| {
            let envelope = batch.get(*n);
            acknowledged(*n)
                || envelope.is_some_and(|envelope| happened.contains(&envelope.origin.request_id.to_string()))
        };
        let committed = (0..batch.len()).rev().find(there).map_or(0, |last| last + 1);
        for (n, envelope) in batch.iter().enumerate() {
            match answers.get(n) {
                Some(Some(Ok(got))) => self.agree(envelope, got)?,
                _ => {
                    self.counters.unanswered += 1;
                    if n < committed {
                        self.counters.kept += 1;
                        self.model.run(envelope, self.now);
                    }
                }
            }
        }
        Ok(())
    }

    fn agree(&mut self, envelope: &Envelope, got: &Outcome) -> Result<(), String> {
        let expected = self.model.run(envelope, self.now);
        self.counters.replays += u64::from(matches!(got, Outcome::Replayed(_)));
        if outcomes_agree(&expected, got) {
            return Ok(());
        }
        let now = self.now.micros();
        Err(format!("at {now}, {:?}:\n expected {expected:?}\n got      {got:?}", envelope.command))
    }

    fn tick(&mut self) {
        let active = self.model.holds().iter().filter(|hold| hold.status == Status::Active);
        let deadlines: Vec<Instant> = active.map(|hold| hold.expires_at).collect();
        let now = if !deadlines.is_empty() && self.random.one_in(3) {
            let edge = self.random.pick(&EDGES);
            self.random.pick(&deadlines).micros().saturating_add(edge)
        } else {
            self.now.micros().saturating_add(self.random.pick(&TICKS))
        };
        self.now = self.now.max(Instant::from_micros(now));
        self.world.set_clock(self.now);
    }

    fn compare(&mut self, holds: usize) -> Result<(), String> {
        for key in self.context.items() {
            let (expected, got) = (self.model.item(key), self.world.item(key));
            if expected != got {
                return Err(format!("{key:?}:\n expected {expected:?}\n got      {got:?}"));
            }
        }
        let ids: Vec<ReservationId> = self.context.holds().iter().rev().take(holds).copied().collect();
        for id in ids {
            let (expected, got) = (self.model.hold(id), self.world.hold(id));
            let agree = match (&expected, &got) {
                (Some(expected), Some(got)) => holds_agree(expected, got),
                (None, None) => true,
                _ => false,
            };
            if !agree {
                return Err(format!("reservation {id}:\n expected {expected:?}\n got      {got:?}"));
            }
        }
        Ok(())
    }

    /// At the end all holds fall due, and everything is compared.
    fn settle(&mut self) -> Result<(), String> {
        let longest = Seconds::DEFAULT_MAX_HOLD.max(Seconds::DEFAULT_MAX_PAYMENT);
        self.now = self.now.deadline(longest);
        self.world.set_clock(self.now);
        let sweep = self.context.envelope(&Op::Sweep);
        for answer in self.world.submit(vec![sweep.clone()]) {
            let got = answer.map_err(|failure| failure.to_string())?;
            self.agree(&sweep, &got)?;
        }
        self.world.restart();
        let expired = self.model.holds().iter().filter(|hold| hold.status == Status::Expired).count();
        self.counters.expired = expired as u64;
        self.compare(usize::MAX)
    }
}
