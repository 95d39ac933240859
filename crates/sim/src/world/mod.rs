//! Executes the steps of a history one by one on one thread. It has the machine with its clock and disk, the network
//! and the callers. Everything follows from the seed and the steps. It checks nothing itself; the checker does.

mod aim;
mod aim_limits;
mod callers;
mod faults;
mod settle;

use crate::checker::{Broken, Checked, Checker, broken};
use crate::clock::Clock;
use crate::counters::{Count, Counters};
use crate::flaw::Flaw;
use crate::network::Wire;
use crate::step::Step;
use crate::trace::{Trace, TraceHash};
use callers::{Reply, Sent};
use std::collections::BTreeMap;
use stockhold_domain::{Command, Hold, HoldLimits, Instant, ItemKey, Status};
use stockhold_embedded::stepped::{CommitStage, Disk, Machine, StartOptions, TraceEntry};
use stockhold_model::{Maker, OpContext};

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600 * SECOND;
/// Unindexed events after which a start writes a chunk of the index.
const CHUNK_WEIGHT: u64 = 12;
/// Unindexed keys after which a start writes a run of keys.
const RUN_KEYS: usize = 4;
/// Longest note, in characters.
const NOTE: usize = 600;
/// How far a fast clock is ahead.
const AHEAD: i64 = 2 * SECOND;

/// The step at which a history failed, and why.
pub(crate) struct Stop {
    /// The step. It is past the last one when the end of the history failed.
    pub(crate) step: usize,
    pub(crate) broken: Broken,
    /// The notes, when they were requested.
    pub(crate) notes: Vec<String>,
}

/// Executes the steps of a history, and then the end of the history.
pub(crate) fn run(
    seed: u64,
    steps: &[Step],
    flaw: Option<Flaw>,
    noting: bool,
) -> Result<(Counters, TraceHash), Box<Stop>> {
    let mut world = World::new(seed, flaw, noting);
    for (n, step) in steps.iter().enumerate() {
        if noting {
            world.note(format_args!("{n:>4}  {step:?}"));
        }
        if let Err(broken) = world.take(step) {
            return Err(Box::new(Stop { step: n, broken, notes: world.notes.unwrap_or_default() }));
        }
    }
    world.note(format_args!("      no more faults: everything comes to rest"));
    match world.settle() {
        Ok(()) => Ok((world.counters, world.trace.hash())),
        Err(broken) => {
            Err(Box::new(Stop { step: steps.len(), broken, notes: world.notes.unwrap_or_default() }))
        }
    }
}

struct World {
    machine: Machine,
    clock: Clock,
    checker: Checker,
    context: OpContext,
    /// Generates ids of repeated requests, the sweeper's commands and crowds.
    maker: Maker,
    crowd: ItemKey,
    sent: Vec<Sent>,
    /// Requests with a key, which can be retried.
    keyed: Vec<usize>,
    requests: Wire<usize>,
    replies: Wire<Reply>,
    /// The request of each ticket, and how often it had been sent by then.
    tickets: BTreeMap<u64, Reply>,
    next_ticket: u64,
    /// The ticket of the running sweep.
    sweeper: Option<u64>,
    full: bool,
    /// The last ticket whose request may have met a full disk.
    full_until: u64,
    flaw: Option<Flaw>,
    counters: Counters,
    trace: Trace,
    notes: Option<Vec<String>>,
}

impl World {
    fn new(seed: u64, flaw: Option<Flaw>, noting: bool) -> Self {
        let maker = Maker::new(seed ^ 0x5d_1e77, "");
        let Ok(machine) = Machine::start(Disk::default(), &start(false, flaw)) else {
            unreachable!("an empty disk is not damaged")
        };
        Self {
            machine,
            clock: Clock::new(),
            checker: Checker::new(),
            context: OpContext::with_unit_item(seed ^ 0xca57, ""),
            crowd: maker.item("crowd"),
            maker,
            sent: Vec::new(),
            keyed: Vec::new(),
            requests: Wire::new(Count::RequestReordered, Count::RequestLost),
            replies: Wire::new(Count::ReplyReordered, Count::ReplyLost),
            tickets: BTreeMap::new(),
            next_ticket: 0,
            sweeper: None,
            full: false,
            full_until: 0,
            flaw,
            counters: Counters::default(),
            trace: Trace::default(),
            notes: noting.then(Vec::new),
        }
    }

    fn note(&mut self, what: std::fmt::Arguments<'_>) {
        if let Some(notes) = &mut self.notes {
            let what = what.to_string();
            let short = what.char_indices().nth(NOTE).map_or(what.len(), |(end, _)| end);
            notes.push(what[..short].to_owned());
        }
    }

    fn take(&mut self, step: &Step) -> Checked {
        match step {
            Step::Send(request) => self.send(request),
            Step::SendAll(requests) => self.send_all(requests),
            Step::Retry(n) => self.retry(*n),
            Step::Request(n) => self.ask(*n),
            Step::Crowd(count) => return self.crowd(*count),
            Step::Arrive(n) => return self.arrive(*n),
            Step::LoseRequest(n) => self.requests.lose(*n, &mut self.counters),
            Step::RepeatRequest(n) => {
                let repeated = self.requests.repeat(*n);
                self.counters.more(Count::RequestRepeated, u64::from(repeated));
            }
            Step::Reply(n) => self.reply(*n),
            Step::LoseReply(n) => self.replies.lose(*n, &mut self.counters),
            Step::Nudge => return self.nudge().map(drop),
            Step::Commit => return self.commit(),
            Step::Bring(n) => {
                self.machine.fetch(usize::from(*n).checked_rem(self.machine.reads()).unwrap_or(0));
            }
            Step::Readmit(n) => {
                let n = usize::from(*n).checked_rem(self.machine.reads()).unwrap_or(0);
                let decided = self.machine.readmit(n, self.clock.now());
                return self.decided(decided);
            }
            Step::Read => return self.read(),
            Step::Chunk(n) => return self.chunk(usize::from(*n)),
            Step::Forget => drop(self.machine.forget()),
            Step::Runs => drop(self.machine.write_runs()),
            Step::Tend => self.compact(),
            Step::Sweep => return self.sweep(),
            Step::SweepAll => return self.sweep_all(),
            _ => return self.fault(step),
        }
        Ok(())
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn advance(&mut self, micros: i64) {
        self.clock.advance(micros);
        self.checker.clock_showed(self.clock.newest());
        self.counters.more(Count::Seconds, u64::try_from(micros / SECOND).unwrap_or(0));
    }

    // The store's own steps.

    /// Advances the commit by one stage. Returns `false` when there is nothing to commit.
    fn nudge(&mut self) -> Result<bool, Broken> {
        if self.machine.poisoned().is_some() {
            return Ok(false);
        }
        match self.machine.stage() {
            None => {
                self.machine.flush();
                if !self.machine.seal_batch(self.clock.now()) {
                    return Ok(false);
                }
                if let Some(flaw) = self.flaw {
                    flaw.falsify(self.machine.events_in_flight());
                }
                if self.flaw == Some(Flaw::LosesKeys) {
                    self.machine.lose_keys();
                }
                if self.flaw == Some(Flaw::AnswersBeforeSync) {
                    self.machine.deliver(usize::MAX);
                }
                if self.flaw == Some(Flaw::RefusesBeforeSync) {
                    self.machine.deliver_refusals();
                }
            }
            Some(CommitStage::Sealed) => {
                self.machine.write();
                if self.flaw == Some(Flaw::PublishesBeforeSync) {
                    self.machine.publish_unsynced();
                }
                if self.flaw == Some(Flaw::IndexesBeforeSync) {
                    self.machine.index_unsynced().or_else(|what| broken("S12", what))?;
                }
            }
            Some(CommitStage::Written) => {
                // Nothing of this commit is durable yet, so readers may see only the commits before it.
                self.checker.published(&self.machine)?;
                let (decided, has_row) = self.machine.sync();
                self.durable(decided, has_row)?;
            }
            Some(CommitStage::Synced) => {
                self.machine.publish();
                self.checker.published(&self.machine)?;
            }
            Some(CommitStage::Published) => self.machine.deliver(1),
        }
        self.collect()?;
        Ok(true)
    }

    /// Reports a batch that is durable, or that had nothing to commit.
    fn durable(&mut self, decided: Vec<TraceEntry>, has_row: bool) -> Checked {
        let mut commit = None;
        if has_row {
            commit = self.machine.disk().newest().or_else(|what| broken("S17", what))?;
        }
        if let Some(commit) = &commit {
            self.trace.note(format_args!("commit {} {:08x}", commit.number, commit.sum));
        }
        self.checker.commits(commit, decided, &mut self.counters)
    }

    /// Finishes the commit in flight and one more. Starts the store again if it has failed.
    fn commit(&mut self) -> Checked {
        if self.machine.poisoned().is_some() {
            return self.restart();
        }
        while self.machine.stage().is_some() {
            self.nudge()?;
        }
        if self.nudge()? {
            while self.machine.stage().is_some() {
                self.nudge()?;
            }
        }
        self.let_go_on()
    }

    fn let_go_on(&mut self) -> Checked {
        while let Some(decided) = self.machine.resume_yielded(self.clock.now()) {
            self.decided(decided)?;
        }
        Ok(())
    }

    /// Executes every waiting read once.
    fn read(&mut self) -> Checked {
        for n in 0..self.machine.reads() {
            self.machine.fetch(n);
        }
        for _ in 0..self.machine.reads() {
            let decided = self.machine.readmit(0, self.clock.now());
            self.decided(decided)?;
        }
        Ok(())
    }

    fn chunk(&mut self, commits: usize) -> Checked {
        if self.flaw == Some(Flaw::ForgetsKeysBeforeIndexed) {
            self.machine.forget_unindexed_keys();
        }
        self.machine.write_chunk(commits).map(drop).or_else(|what| broken("S12", what))
    }

    fn compact(&mut self) {
        let day = i64::from(crate::checker::RETENTION.get()) * SECOND;
        self.machine.compact(Instant::from_micros(self.now().micros() - day));
    }

    /// Runs one sweep, if a hold is due and no sweep is running.
    fn sweep(&mut self) -> Checked {
        let ahead = if self.flaw == Some(Flaw::ExpiresEarly) { AHEAD } else { 0 };
        let now = Instant::from_micros(self.now().micros() + ahead);
        let due = self.machine.next_due().is_some_and(|due| due <= self.machine.clamp_to_committed(now));
        if !due || self.sweeper.is_some() || self.machine.poisoned().is_some() {
            return Ok(());
        }
        let envelope = self.maker.wrap(Command::Sweep);
        let ticket = self.ticket();
        self.sweeper = Some(ticket);
        self.command(ticket, envelope.clone(), envelope, now)?;
        self.machine.flush();
        Ok(())
    }

    /// Sweeps until nothing is due, which takes a bounded number of commits.
    fn sweep_all(&mut self) -> Checked {
        const PER_SWEEP: usize = 256;
        /// One sweep that is running, one whose holds others have expired, and one that finds nothing.
        const MORE: usize = 4;
        let rounds = self.checker.durable().holds.len().div_ceil(PER_SWEEP) + MORE;
        for _ in 0..rounds {
            if self.machine.poisoned().is_some() {
                return Ok(());
            }
            self.sweep()?;
            self.commit()?;
        }
        let now = self.machine.clamp_to_committed(self.now());
        match self.machine.next_due() {
            Some(due) if due <= now => {
                broken("L1", format!("after {rounds} sweeps something of {due:?} is due at {now:?}"))
            }
            _ => Ok(()),
        }
    }

    /// The deadlines of active reservations, and the latest deadlines that their payment windows passed, in the order of
    /// their ids.
    fn deadlines(&self) -> Vec<Instant> {
        let active = self.checker.durable().holds.values().filter(|hold| hold.status == Status::Active);
        let passed = |hold: &Hold| Some(hold.terms.max_expires_at).filter(|cap| *cap < hold.expires_at);
        active.flat_map(|hold| [Some(hold.expires_at), passed(hold)]).flatten().collect()
    }
}

fn start(writes: bool, flaw: Option<Flaw>) -> StartOptions {
    StartOptions {
        rules: HoldLimits::default(),
        chunk_weight: if writes { CHUNK_WEIGHT } else { u64::MAX },
        run_keys: if writes { RUN_KEYS } else { usize::MAX },
        clamps_clock: flaw != Some(Flaw::IgnoresCommittedTimeAtStart),
        loads_counters: flaw != Some(Flaw::ForgetsLimitCountersAtStart),
    }
}
