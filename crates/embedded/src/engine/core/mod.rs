//! The store without its threads, files and clock: what is decided, what waits for the disk, who waits for an answer.
//! Everything here happens under one lock and within memory, so it is short; [`crate::threads::committer`] does the rest.

#[cfg(feature = "stepped")]
pub(crate) mod trace;

#[cfg(feature = "stepped")]
use self::trace::DecisionTrace;
use crate::engine::memory::{Brought, Memory};
use crate::engine::queries;
use crate::engine::recent_keys::Forgotten;
use crate::index::filter::Filter;
use crate::limits::{BATCH_LINES, QUEUE_LIMIT, TAIL_LIMIT, UNINDEXED};
use crate::log::Head;
use crate::log::batch::Batch;
use std::sync::Arc;
use std::vec;
use stockhold_domain::bug;
use stockhold_domain::{
    Command, DecideError, Effects, Envelope, HoldLimits, Instant, NotLoaded, Outcome, Resource, State, decide,
};
use stockhold_store::fault;
use stockhold_store::{Answer, Failure, Job, ReplyTo, Request};

/// Commands of one [`Request::Commands`] that are decided before whoever waits for the lock may go first.
const COMMANDS_TOGETHER: usize = 256;
/// Times that a command may come back from a reader before it is given up: a key, its reservation, and once more each.
const READS_LIMIT: u8 = 8;

/// Work and what a reader has brought for it.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) ask: Request,
    pub(crate) reply: ReplyTo,
    pub(crate) brought: Brought,
    /// How often it came back from a reader.
    pub(crate) reads: u8,
    /// What became of the first of its commands.
    done: Vec<Result<Outcome, Failure>>,
}

impl Pending {
    /// The answer when it goes no further.
    pub(crate) fn failed(self, failure: Failure) -> Waiting {
        self.deciding().failed(failure)
    }

    /// What is left of it where it gets lost.
    pub(crate) fn deciding(&self) -> Deciding {
        Deciding { reply: self.reply.clone(), begun: !self.done.is_empty() }
    }
}

/// Whose work is being decided, and whether some of it was before.
#[derive(Debug)]
pub(crate) struct Deciding {
    reply: ReplyTo,
    begun: bool,
}

impl Deciding {
    /// The answer when it goes no further. What was decided of several commands may be durable or not.
    pub(crate) fn failed(self, failure: Failure) -> Waiting {
        (self.reply, Err(if self.begun { Failure::OutcomeUnknown } else { failure }))
    }
}

impl From<Job> for Pending {
    fn from(Job { request: ask, reply }: Job) -> Self {
        Self { ask, reply, brought: Brought::default(), reads: 0, done: Vec::new() }
    }
}

/// An answer that waits for its commit.
pub(crate) type Waiting = (ReplyTo, Result<Answer, Failure>);

/// What becomes of work that is handed in.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// Its answer comes with the open batch.
    Waits,
    /// Its answer is known and nothing unsynced stands behind it.
    Answered(ReplyTo, Result<Answer, Failure>),
    /// Something has to be read from the index first.
    Read(Pending, Resource),
    /// It goes on when whoever waits has been let in.
    GoesOn(Pending),
}

/// How far a look at work came.
enum Step {
    Answer(Result<Answer, Failure>),
    /// In the next batch.
    Later,
    /// Whoever waits for the lock goes first.
    GoesOn,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) memory: Memory,
    rules: HoldLimits,
    open: Open,
    /// Where the log will stand after the batch that is being committed, or stands.
    head: Head,
    /// Whether a batch is being committed.
    committing: bool,
    /// Events, and lines and units with ids of theirs, that the index does not have.
    unindexed: u64,
    /// Whether the committer sleeps and has to be woken.
    pub(crate) committer_sleeps: bool,
    /// Whether somebody has said that the open batch is to be committed. Until then those who bring it are still at it: a
    /// committer that took it at once would commit two small batches where one does.
    kicked: bool,
    /// Why no new reservations are taken, if they are not.
    pub(crate) no_reserves: Option<String>,
    poisoned: Option<String>,
    /// What is being handed over: it stands here so that a panic on the way loses nobody.
    handing: Handing,
    #[cfg(feature = "stepped")]
    pub(crate) trace: DecisionTrace,
}

/// See [`Core::take`].
#[derive(Debug, Default)]
struct Handing {
    waiting: Vec<Waiting>,
    later: vec::IntoIter<Pending>,
    /// Whose work is being decided once more.
    deciding: Option<Deciding>,
    reads: Vec<(Pending, Resource)>,
    on: Vec<Pending>,
}

#[derive(Debug, Default)]
struct Open {
    effects: Effects,
    waiting: Vec<Waiting>,
    /// Work that the batch had no room for.
    later: Vec<Pending>,
    at: Option<Instant>,
}

/// What the committer takes.
#[derive(Debug)]
pub(crate) struct Taken {
    /// What to write; `None` when nothing changed.
    pub(crate) batch: Option<Batch>,
    pub(crate) previous_sum: u32,
    /// Who waits for it.
    pub(crate) waiting: Vec<Waiting>,
    /// What turned out to need a read before it can go into the next batch.
    pub(crate) reads: Vec<(Pending, Resource)>,
    /// What goes on when whoever waits has been let in.
    pub(crate) on: Vec<Pending>,
}

impl Core {
    pub(crate) fn new(memory: Memory, rules: HoldLimits, head: Head, unindexed: u64) -> Self {
        let mut core = Self {
            memory,
            rules,
            open: Open::default(),
            head,
            committing: false,
            unindexed,
            committer_sleeps: false,
            kicked: false,
            no_reserves: None,
            poisoned: None,
            handing: Handing::default(),
            #[cfg(feature = "stepped")]
            trace: DecisionTrace::default(),
        };
        core.memory.enter_batch(head.number + 1);
        core
    }

    /// Decides work, or says what is missing for it. `clock` may have run backwards: what was committed floors it.
    pub(crate) fn admit(&mut self, mut pending: Pending, clock: Instant) -> Admitted {
        if let Some(why) = &self.poisoned {
            let (reply, answer) = pending.failed(Failure::Unavailable(why.clone()));
            return Admitted::Answered(reply, answer);
        }
        if pending.done.is_empty() && self.is_full() || pending.reads > READS_LIMIT {
            let (reply, answer) = pending.failed(Failure::Overloaded);
            return Admitted::Answered(reply, answer);
        }
        self.memory.brought = std::mem::take(&mut pending.brought);
        let decided = match &pending.ask {
            Request::Query(query) => queries::find(&self.memory, query).map(Step::Answer),
            Request::Command(envelope) => self.command(envelope, clock).map(|decided| match decided {
                Some(outcome) => Step::Answer(outcome.map(Answer::Outcome)),
                None => Step::Later,
            }),
            Request::Commands(all) => self.commands(all, &mut pending.done, &mut pending.reads, clock),
        };
        let brought = std::mem::take(&mut self.memory.brought);
        match decided {
            Ok(Step::Answer(answer)) if self.nothing_unsynced() => Admitted::Answered(pending.reply, answer),
            Ok(Step::Answer(answer @ Ok(Answer::Outcome(Outcome::Refused(_)))))
                if bug!("a-refusal-is-answered-before-what-it-saw-is-durable") =>
            {
                Admitted::Answered(pending.reply, answer)
            }
            Ok(Step::Answer(answer)) => {
                self.open.waiting.push((pending.reply, answer));
                Admitted::Waits
            }
            Ok(Step::Later) => {
                pending.brought = brought;
                self.open.later.push(pending);
                Admitted::Waits
            }
            Ok(Step::GoesOn) => Admitted::GoesOn(pending),
            Err(NotLoaded(name)) => {
                pending.brought = brought;
                Admitted::Read(pending, name)
            }
        }
    }

    /// Gives an answer back when nothing unsynced can stand behind it, or lets it wait for what does.
    pub(crate) fn settle(&mut self, reply: ReplyTo, answer: Result<Answer, Failure>) -> Option<Waiting> {
        if let Some(why) = &self.poisoned {
            return Some((reply, Err(Failure::Unavailable(why.clone()))));
        }
        if self.nothing_unsynced() {
            return Some((reply, answer));
        }
        self.open.waiting.push((reply, answer));
        None
    }

    fn is_full(&self) -> bool {
        self.open.waiting.len() + self.open.later.len() >= QUEUE_LIMIT
            || self.unindexed > UNINDEXED
            || self.memory.tail_len() > TAIL_LIMIT
    }

    fn nothing_unsynced(&self) -> bool {
        !self.committing
            && self.open.effects.is_empty()
            && self.open.waiting.is_empty()
            && self.open.later.is_empty()
    }

    /// Goes on with commands that follow each other.
    fn commands(
        &mut self,
        all: &[Envelope],
        done: &mut Vec<Result<Outcome, Failure>>,
        reads: &mut u8,
        clock: Instant,
    ) -> Result<Step, NotLoaded> {
        for envelope in all.iter().skip(done.len()).take(COMMANDS_TOGETHER) {
            match self.command(envelope, clock)? {
                None => return Ok(Step::Later),
                Some(outcome) => done.push(outcome),
            }
            *reads = 0;
        }
        if done.len() < all.len() {
            return Ok(Step::GoesOn);
        }
        Ok(Step::Answer(Ok(Answer::Outcomes(std::mem::take(done)))))
    }

    /// `None` means later: in the next batch.
    fn command(
        &mut self,
        envelope: &Envelope,
        clock: Instant,
    ) -> Result<Option<Result<Outcome, Failure>>, NotLoaded> {
        if let (Command::Reserve(_), Some(why)) = (&envelope.command, &self.no_reserves) {
            let replay = match envelope.key {
                Some(key) => self.memory.key(key.hash)?.is_some(),
                None => false,
            };
            if !replay {
                return Ok(Some(Err(Failure::Unavailable(why.clone()))));
            }
        }
        if self.open.effects.lines() >= BATCH_LINES {
            return Ok(None);
        }
        let now = clock.max(self.open.at.unwrap_or(self.head.at));
        let before = self.open.effects.events.len();
        fault!("command.deciding");
        let decided = decide(&mut self.memory, &self.rules, envelope, now, &mut self.open.effects);
        #[cfg(feature = "stepped")]
        {
            let events = self.open.effects.events.len() - before;
            self.trace.record(envelope, now, &decided, events);
        }
        match injected_failure(decided) {
            Ok(Outcome::Later) => {
                self.open.at = Some(now);
                Ok(None)
            }
            Ok(outcome) => {
                self.open.at = Some(now);
                Ok(Some(Ok(outcome)))
            }
            Err(DecideError::NotLoaded(missing)) if self.open.effects.events.len() == before => Err(missing),
            Err(halt) => {
                let what = match halt {
                    DecideError::NotLoaded(_) => "something was missing half-way through a command",
                    DecideError::InvariantViolated(what) => what,
                };
                tracing::error!(what, "an invariant is broken");
                metrics::counter!("stockhold_invariant_alarms_total").increment(1);
                self.poison(format!("an invariant is broken: {what}"));
                Ok(Some(Err(Failure::Internal(what.to_owned()))))
            }
        }
    }

    /// What was brought so far is to be committed. Answers whether the committer has to be woken for it.
    pub(crate) fn flush(&mut self) -> bool {
        self.kicked |= self.has_work();
        (self.kicked || self.poisoned.is_some()) && std::mem::take(&mut self.committer_sleeps)
    }

    /// Whether the committer is to take the open batch; `stopping` says that nobody will kick any more.
    pub(crate) fn is_due(&self, stopping: bool) -> bool {
        self.has_work() && (self.kicked || stopping)
    }

    /// Whether there is anything for the committer.
    pub(crate) fn has_work(&self) -> bool {
        !self.open.waiting.is_empty() || !self.open.effects.is_empty() || !self.open.later.is_empty()
    }

    /// Closes the open batch and hands it over. What it had no room for is decided into the next one.
    pub(crate) fn take(&mut self, clock: Instant) -> Taken {
        let Open { effects, waiting, later, at } = std::mem::take(&mut self.open);
        // The next batch will be about as large.
        self.open.effects.events.reserve(effects.events.len());
        self.open.effects.keys.reserve(effects.keys.len());
        self.open.waiting.reserve(waiting.len());
        self.handing = Handing { waiting, later: later.into_iter(), ..Handing::default() };
        let previous_sum = self.head.sum;
        self.unindexed += u64::from(effects.lines()) + effects.events.len() as u64;
        let batch = (!effects.is_empty()).then(|| {
            let batch = Batch {
                number: self.head.number + 1,
                position: self.head.next_position,
                at: at.unwrap_or(self.head.at),
                events: effects.events,
                keys: effects.keys,
            };
            self.head = Head {
                number: batch.number,
                next_position: batch.next_position(),
                at: batch.at,
                ..self.head
            };
            self.memory.enter_batch(batch.number + 1);
            batch
        });
        self.committing = true;
        while let Some(pending) = self.handing.later.next() {
            self.handing.deciding = Some(pending.deciding());
            match self.admit(pending, clock) {
                Admitted::Waits => {}
                Admitted::Answered(reply, answer) => self.open.waiting.push((reply, answer)),
                Admitted::Read(pending, name) => self.handing.reads.push((pending, name)),
                Admitted::GoesOn(pending) => self.handing.on.push(pending),
            }
        }
        // Nobody kicks for what had to wait, nor for what goes on.
        self.kicked = self.has_work() || !self.handing.on.is_empty();
        let Handing { waiting, reads, on, .. } = std::mem::take(&mut self.handing);
        Taken { batch, previous_sum, waiting, reads, on }
    }

    /// A batch is durable, with this checksum.
    pub(crate) fn committed(&mut self, sum: u32) {
        self.head.sum = sum;
        self.committing = false;
    }

    /// There was nothing to commit.
    pub(crate) fn passed(&mut self) {
        self.committing = false;
    }

    /// Nothing is decided any more, for this reason.
    pub(crate) fn poison(&mut self, why: String) {
        if !bug!("a-poisoned-store-goes-on") {
            self.poisoned.get_or_insert(why);
        }
    }

    /// After a poison: those who wait for what now never happens, with their answers.
    pub(crate) fn abandon(&mut self) -> Vec<Waiting> {
        let why = self.poisoned.clone().unwrap_or_default();
        let Open { waiting, later, .. } = std::mem::take(&mut self.open);
        let handing = std::mem::take(&mut self.handing);
        let unavailable = || Failure::Unavailable(why.clone());
        let decided = handing.waiting.into_iter().chain(waiting).map(|(reply, answer)| match answer {
            // Who met what is broken is told so.
            Err(Failure::Internal(_)) => (reply, answer),
            // Of several commands the first may be durable.
            Ok(Answer::Outcomes(_)) => (reply, Err(Failure::OutcomeUnknown)),
            _ => (reply, Err(unavailable())),
        });
        let deciding = handing.deciding.map(|deciding| deciding.failed(unavailable()));
        let reads = handing.reads.into_iter().map(|(pending, _)| pending);
        let undecided = reads.chain(handing.on).chain(handing.later).chain(later);
        decided.chain(deciding).chain(undecided.map(|pending| pending.failed(unavailable()))).collect()
    }

    pub(crate) fn poisoned(&self) -> Option<&str> {
        self.poisoned.as_deref()
    }

    /// The index has items and reservations up to this batch, so many events and lines more than before.
    pub(crate) fn indexed(&mut self, batch: u64, more: u64) {
        self.memory.forget_closed(batch);
        self.unindexed = self.unindexed.saturating_sub(more);
    }

    /// The index has keys up to this batch. Answers with what is to be dropped once the lock is given back.
    pub(crate) fn keyed(&mut self, batch: u64, filters: Vec<Arc<Filter>>) -> Forgotten {
        self.memory.forget_keys(batch, filters)
    }

    /// What the index does not have yet.
    pub(crate) fn unindexed(&self) -> u64 {
        self.unindexed
    }

    /// When the earliest hold falls due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.memory.earliest(None).ok().flatten().map(|(due, _)| due)
    }

    /// The clock, floored by what was decided.
    pub(crate) fn floor(&self, clock: Instant) -> Instant {
        clock.max(self.open.at.unwrap_or(self.head.at))
    }

    /// How many answers wait.
    pub(crate) fn queue_len(&self) -> usize {
        self.open.waiting.len() + self.open.later.len()
    }
}

/// The fault point of a command that was decided and of which nothing is durable. Its failure is a broken invariant, since
/// nothing of such a command may become durable.
fn injected_failure(decided: Result<Outcome, DecideError>) -> Result<Outcome, DecideError> {
    fault!("command.decided" => DecideError::InvariantViolated("a fault point"));
    decided
}

#[cfg(test)]
mod tests;
