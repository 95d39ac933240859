//! The store without its threads, files and clock: what is decided, what waits for the disk, who waits for an answer.
//! Everything here happens under one lock and within memory, so it is short; [`crate::committer`] does the rest.

use crate::batch::Batch;
use crate::filter::Filter;
use crate::log::Head;
use crate::memory::{Brought, Memory};
use std::sync::Arc;
use stockhold_domain::{
    Command, Effects, Envelope, Halt, Instant, Missing, Name, Outcome, Rules, State, decide,
};
use stockhold_store::{Answer, Ask, Failure, Query, ReplyTo, Work};

/// Answers that may wait for one commit: the bound of the queue.
pub(crate) const QUEUE_LIMIT: usize = 16_384;
/// Events that may wait for the index before new work is turned away.
pub(crate) const UNINDEXED_EVENTS: u64 = 1_000_000;
/// Closed reservations and keys that may stand in memory, waiting for the index.
pub(crate) const TAIL_LIMIT: usize = 2_000_000;
/// Times that a command may come back from a reader before it is given up: a key, its reservation, and once more each.
const READS_LIMIT: u8 = 8;

/// Work and what a reader has brought for it.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) ask: Ask,
    pub(crate) reply: ReplyTo,
    pub(crate) brought: Brought,
    pub(crate) reads: u8,
}

impl From<Work> for Pending {
    fn from(Work { ask, reply }: Work) -> Self {
        Self { ask, reply, brought: Brought::default(), reads: 0 }
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
    Read(Pending, Name),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) memory: Memory,
    rules: Rules,
    open: Open,
    /// Where the log will stand after the batch that is being committed, or stands.
    head: Head,
    /// Whether a batch is being committed.
    committing: bool,
    /// Positions up to here are indexed.
    indexed_position: u64,
    /// Whether the committer sleeps and has to be woken.
    pub(crate) committer_sleeps: bool,
    /// Why no new reservations are taken, if they are not.
    pub(crate) no_reserves: Option<String>,
    poisoned: Option<String>,
}

#[derive(Debug, Default)]
struct Open {
    effects: Effects,
    waiting: Vec<Waiting>,
    /// Work that the batch had no room to expire holds for.
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
    pub(crate) reads: Vec<(Pending, Name)>,
}

impl Core {
    pub(crate) fn new(memory: Memory, rules: Rules, head: Head, indexed_position: u64) -> Self {
        let mut core = Self {
            memory,
            rules,
            open: Open::default(),
            head,
            committing: false,
            indexed_position,
            committer_sleeps: false,
            no_reserves: None,
            poisoned: None,
        };
        core.memory.enter_batch(head.number + 1);
        core
    }

    /// Decides work, or says what is missing for it. `clock` may have run backwards: what was committed floors it.
    pub(crate) fn admit(&mut self, mut pending: Pending, clock: Instant) -> Admitted {
        if let Some(why) = &self.poisoned {
            return Admitted::Answered(pending.reply, Err(Failure::Unavailable(why.clone())));
        }
        if self.open.waiting.len() + self.open.later.len() >= QUEUE_LIMIT
            || self.head.next_position.saturating_sub(self.indexed_position) > UNINDEXED_EVENTS
            || self.memory.tail_len() > TAIL_LIMIT
        {
            return Admitted::Answered(pending.reply, Err(Failure::Overloaded));
        }
        if pending.reads > READS_LIMIT {
            return Admitted::Answered(pending.reply, Err(Failure::Overloaded));
        }
        self.memory.brought = std::mem::take(&mut pending.brought);
        let decided = match &pending.ask {
            Ask::Query(query) => self.query(query),
            Ask::Command(envelope) => self.command(envelope, clock),
        };
        match decided {
            Ok(Some(answer)) if self.nothing_unsynced() => Admitted::Answered(pending.reply, answer),
            Ok(Some(answer)) => {
                self.open.waiting.push((pending.reply, answer));
                Admitted::Waits
            }
            Ok(None) => {
                self.open.later.push(pending);
                Admitted::Waits
            }
            Err(Missing(name)) => {
                pending.brought = std::mem::take(&mut self.memory.brought);
                Admitted::Read(pending, name)
            }
        }
    }

    fn nothing_unsynced(&self) -> bool {
        !self.committing
            && self.open.effects.is_empty()
            && self.open.waiting.is_empty()
            && self.open.later.is_empty()
    }

    fn query(&self, query: &Query) -> Result<Option<Result<Answer, Failure>>, Missing> {
        let answer = match query {
            Query::Reservation(id) => Answer::Reservation(self.memory.hold(*id)?.cloned()),
            Query::Items(keys) => {
                let mut items = Vec::with_capacity(keys.len());
                for key in keys {
                    items.push(self.memory.item(key)?.cloned());
                }
                Answer::Items(items)
            }
        };
        Ok(Some(Ok(answer)))
    }

    /// `None` means later: in the next batch.
    fn command(
        &mut self,
        envelope: &Envelope,
        clock: Instant,
    ) -> Result<Option<Result<Answer, Failure>>, Missing> {
        if let (Command::Reserve(_), Some(why)) = (&envelope.command, &self.no_reserves) {
            let replay = match envelope.key {
                Some(key) => self.memory.key(key.hash)?.is_some(),
                None => false,
            };
            if !replay {
                return Ok(Some(Err(Failure::Unavailable(why.clone()))));
            }
        }
        let now = clock.max(self.open.at.unwrap_or(self.head.at));
        let before = self.open.effects.events.len();
        match decide(&mut self.memory, &self.rules, envelope, now, &mut self.open.effects) {
            Ok(Outcome::Later) => {
                self.open.at = Some(now);
                Ok(None)
            }
            Ok(outcome) => {
                self.open.at = Some(now);
                Ok(Some(Ok(Answer::Outcome(outcome))))
            }
            Err(Halt::Missing(missing)) if self.open.effects.events.len() == before => Err(missing),
            Err(halt) => {
                let what = match halt {
                    Halt::Missing(_) => "something was missing half-way through a command",
                    Halt::Broken(what) => what,
                };
                tracing::error!(what, "an invariant is broken");
                if self.open.effects.events.len() != before {
                    self.poison(format!("an invariant is broken: {what}"));
                }
                Ok(Some(Err(Failure::Internal(what.to_owned()))))
            }
        }
    }

    /// Whether there is anything for the committer.
    pub(crate) fn has_work(&self) -> bool {
        !self.open.waiting.is_empty() || !self.open.effects.is_empty() || !self.open.later.is_empty()
    }

    /// Closes the open batch and hands it over. What it had no room for is decided into the next one.
    pub(crate) fn take(&mut self, clock: Instant) -> Taken {
        let Open { effects, waiting, later, at } = std::mem::take(&mut self.open);
        let previous_sum = self.head.sum;
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
        let mut reads = Vec::new();
        for pending in later {
            match self.admit(pending, clock) {
                Admitted::Waits => {}
                Admitted::Answered(reply, answer) => self.open.waiting.push((reply, answer)),
                Admitted::Read(pending, name) => reads.push((pending, name)),
            }
        }
        Taken { batch, previous_sum, waiting, reads }
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
        self.poisoned.get_or_insert(why);
    }

    /// After a poison: those who wait for what now never happens, with their answers.
    pub(crate) fn abandon(&mut self) -> Vec<Waiting> {
        let why = self.poisoned.clone().unwrap_or_default();
        let Open { waiting, later, .. } = std::mem::take(&mut self.open);
        let replies = waiting.into_iter().map(|(reply, _)| reply).chain(later.into_iter().map(|p| p.reply));
        replies.map(|reply| (reply, Err(Failure::Unavailable(why.clone())))).collect()
    }

    pub(crate) fn poisoned(&self) -> Option<&str> {
        self.poisoned.as_deref()
    }

    /// The index has items and reservations up to this batch and the position after it.
    pub(crate) fn indexed(&mut self, batch: u64, position: u64) {
        self.memory.forget_closed(batch);
        self.indexed_position = self.indexed_position.max(position);
    }

    /// The index has keys up to this batch.
    pub(crate) fn keyed(&mut self, batch: u64, filters: Vec<Arc<Filter>>) {
        self.memory.forget_keys(batch, filters);
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
