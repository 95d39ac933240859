//! The store without its threads, files and clock. The core decides commands, keeps the open batch, and keeps the
//! answers that wait for a commit. All of its methods run under one lock and use memory only, so they are short. The
//! thread in `threads/committer.rs` writes the batches.
pub(crate) mod trace;
use self::trace::DecisionTrace;
use crate::engine::leaving::LeavingReservations;
use crate::engine::memory::{FetchedRecords, Memory};
use crate::engine::queries;
use crate::engine::recent_keys::KeyMap;
use crate::index::filter::BloomFilter;
use crate::limits::{BATCH_LINES, QUEUE_LIMIT, UNINDEXED_RECORDS_LIMIT, UNINDEXED_WEIGHT_LIMIT};
use crate::log::LogHead;
use crate::log::batch::Batch;
use std::sync::Arc;
use std::vec;
use stockhold_domain::{
    Command, DecideError, Effects, Envelope, HoldLimits, Instant, NotLoaded, Outcome, Resource, State, decide,
};
use stockhold_store::fault;
use stockhold_store::{Answer, Failure, Job, ReplyTo, Request};

/// The number of commands of one [`Request::Commands`] that are decided before the lock is released for other threads.
const COMMANDS_PER_LOCK: usize = 256;
/// How often a command may come back from a reader before it is refused. It may need a key and a reservation, and may
/// need to read each of them once more.
const MAX_READS: u8 = 8;

/// A request, and the records that a reader has fetched for it.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) ask: Request,
    pub(crate) reply: ReplyTo,
    pub(crate) fetched: FetchedRecords,
    /// How often the request came back from a reader.
    pub(crate) reads: u8,
    /// The results of the commands that are already decided, if the request has several commands.
    done: Vec<Result<Outcome, Failure>>,
}

impl PendingRequest {
    /// The answer if the request is not processed further.
    pub(crate) fn failed(self, failure: Failure) -> PendingAnswer {
        self.reply_handle().failed(failure)
    }

    /// The reply handle to use if a panic loses the request.
    pub(crate) fn reply_handle(&self) -> ReplyHandle {
        ReplyHandle { reply: self.reply.clone(), begun: !self.done.is_empty() }
    }
}

/// Where the answer to a request goes, and whether some of its commands are already decided.
#[derive(Debug)]
pub(crate) struct ReplyHandle {
    reply: ReplyTo,
    begun: bool,
}

impl ReplyHandle {
    /// The answer if the request is not processed further. If some commands of the request were decided, they may be
    /// durable or not.
    pub(crate) fn failed(self, failure: Failure) -> PendingAnswer {
        (self.reply, Err(if self.begun { Failure::OutcomeUnknown } else { failure }))
    }
}

impl From<Job> for PendingRequest {
    fn from(Job { request: ask, reply }: Job) -> Self {
        Self { ask, reply, fetched: FetchedRecords::default(), reads: 0, done: Vec::new() }
    }
}

/// An answer that waits for its commit.
pub(crate) type PendingAnswer = (ReplyTo, Result<Answer, Failure>);

/// The result of submitting a request to the core.
#[derive(Debug)]
pub(crate) enum Admission {
    /// The answer is part of the open batch.
    Queued,
    /// The answer is known, and it depends on nothing that is not durable.
    Answered(ReplyTo, Result<Answer, Failure>),
    /// A record has to be read from the index first.
    Read(PendingRequest, Resource),
    /// The request has more commands. The caller submits it again after it has released the lock once.
    Yielded(PendingRequest),
}

/// The result of processing a request once.
enum StepResult {
    Answer(Result<Answer, Failure>),
    /// The request continues in the next batch.
    NextBatch,
    /// The request continues after the lock was released once.
    Yielded,
}

/// The state of the store that commands change, and the open batch.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) memory: Memory,
    rules: HoldLimits,
    open: OpenBatch,
    /// The head of the log after the batch that is being committed, or the head of the log if no batch is being
    /// committed.
    head: LogHead,
    /// Whether a batch is being committed.
    committing: bool,
    /// The weight that the index does not have yet: events, and their lines and units with ids.
    unindexed: u64,
    /// Whether the committer sleeps and has to be woken.
    pub(crate) committer_asleep: bool,
    /// Whether a caller has asked to commit the open batch. Until then the callers still add to it. A committer that
    /// took the batch earlier would commit two small batches instead of one.
    flush_requested: bool,
    /// Why new reservations are refused; `None` if they are accepted.
    pub(crate) reserve_refusal: Option<String>,
    poisoned: Option<String>,
    /// The state of [`Core::seal_batch`] while it runs. It is a field so that a panic loses no request.
    handover: BatchHandover,
    pub(crate) trace: DecisionTrace,
}

/// See [`Core::seal_batch`].
#[derive(Debug, Default)]
struct BatchHandover {
    waiting: Vec<PendingAnswer>,
    later: vec::IntoIter<PendingRequest>,
    /// The reply handle of the request that is being decided again.
    deciding: Option<ReplyHandle>,
    reads: Vec<(PendingRequest, Resource)>,
    on: Vec<PendingRequest>,
}

#[derive(Debug, Default)]
struct OpenBatch {
    effects: Effects,
    waiting: Vec<PendingAnswer>,
    /// Requests that did not fit into the batch.
    later: Vec<PendingRequest>,
    at: Option<Instant>,
}

/// A batch that is closed, for the committer.
#[derive(Debug)]
pub(crate) struct SealedBatch {
    /// The batch to write; `None` if nothing changed.
    pub(crate) batch: Option<Batch>,
    pub(crate) previous_sum: u32,
    /// The answers that wait for this batch.
    pub(crate) waiting: Vec<PendingAnswer>,
    /// Requests that need a read before they can be part of the next batch.
    pub(crate) reads: Vec<(PendingRequest, Resource)>,
    /// Requests that continue after the lock was released once.
    pub(crate) on: Vec<PendingRequest>,
}

impl Core {
    pub(crate) fn new(memory: Memory, rules: HoldLimits, head: LogHead, unindexed: u64) -> Self {
        let mut core = Self {
            memory,
            rules,
            open: OpenBatch::default(),
            head,
            committing: false,
            unindexed,
            committer_asleep: false,
            flush_requested: false,
            reserve_refusal: None,
            poisoned: None,
            handover: BatchHandover::default(),
            trace: DecisionTrace::default(),
        };
        core.memory.begin_batch(head.number + 1);
        core
    }

    /// Decides a request, or returns what has to be read for it. The clock may have run backwards: the time of a
    /// decision is never before the time of a committed decision.
    pub(crate) fn admit(&mut self, mut pending: PendingRequest, clock: Instant) -> Admission {
        if let Some(why) = &self.poisoned {
            let (reply, answer) = pending.failed(Failure::Unavailable(why.clone()));
            return Admission::Answered(reply, answer);
        }
        if pending.done.is_empty() && self.is_overloaded() || pending.reads > MAX_READS {
            let (reply, answer) = pending.failed(Failure::Overloaded);
            return Admission::Answered(reply, answer);
        }
        self.memory.fetched = std::mem::take(&mut pending.fetched);
        let decided = match &pending.ask {
            Request::Query(query) => queries::answer_from_memory(&self.memory, query).map(StepResult::Answer),
            Request::Command(envelope) => self.decide_command(envelope, clock).map(|decided| match decided {
                Some(outcome) => StepResult::Answer(outcome.map(Answer::Outcome)),
                None => StepResult::NextBatch,
            }),
            Request::Commands(all) => self.decide_commands(all, &mut pending.done, &mut pending.reads, clock),
        };
        let fetched = std::mem::take(&mut self.memory.fetched);
        match decided {
            Ok(StepResult::Answer(answer)) if self.is_all_durable() => {
                Admission::Answered(pending.reply, answer)
            }
            Ok(StepResult::Answer(answer)) => {
                self.open.waiting.push((pending.reply, answer));
                Admission::Queued
            }
            Ok(StepResult::NextBatch) => {
                pending.fetched = fetched;
                self.open.later.push(pending);
                Admission::Queued
            }
            Ok(StepResult::Yielded) => Admission::Yielded(pending),
            Err(NotLoaded(name)) => {
                pending.fetched = fetched;
                Admission::Read(pending, name)
            }
        }
    }

    /// Returns the answer if everything that it depends on is durable. Otherwise the answer waits for the open batch.
    pub(crate) fn answer_when_durable(
        &mut self,
        reply: ReplyTo,
        answer: Result<Answer, Failure>,
    ) -> Option<PendingAnswer> {
        if let Some(why) = &self.poisoned {
            return Some((reply, Err(Failure::Unavailable(why.clone()))));
        }
        if self.is_all_durable() {
            return Some((reply, answer));
        }
        self.open.waiting.push((reply, answer));
        None
    }

    fn is_overloaded(&self) -> bool {
        self.open.waiting.len() + self.open.later.len() >= QUEUE_LIMIT
            || self.unindexed > UNINDEXED_WEIGHT_LIMIT
            || self.memory.unindexed_records() > UNINDEXED_RECORDS_LIMIT
    }

    fn is_all_durable(&self) -> bool {
        !self.committing
            && self.open.effects.is_empty()
            && self.open.waiting.is_empty()
            && self.open.later.is_empty()
    }

    /// Decides the next commands of a request with several commands.
    fn decide_commands(
        &mut self,
        all: &[Envelope],
        done: &mut Vec<Result<Outcome, Failure>>,
        reads: &mut u8,
        clock: Instant,
    ) -> Result<StepResult, NotLoaded> {
        for envelope in all.iter().skip(done.len()).take(COMMANDS_PER_LOCK) {
            match self.decide_command(envelope, clock)? {
                None => return Ok(StepResult::NextBatch),
                Some(outcome) => done.push(outcome),
            }
            *reads = 0;
        }
        if done.len() < all.len() {
            return Ok(StepResult::Yielded);
        }
        Ok(StepResult::Answer(Ok(Answer::Outcomes(std::mem::take(done)))))
    }

    /// Decides one command. `None` means that it has to wait for the next batch.
    fn decide_command(
        &mut self,
        envelope: &Envelope,
        clock: Instant,
    ) -> Result<Option<Result<Outcome, Failure>>, NotLoaded> {
        if let (Command::Reserve(_), Some(why)) = (&envelope.command, &self.reserve_refusal) {
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

    /// Requests a commit of the open batch. Returns whether the committer has to be woken.
    pub(crate) fn flush(&mut self) -> bool {
        self.flush_requested |= self.has_work();
        (self.flush_requested || self.poisoned.is_some()) && std::mem::take(&mut self.committer_asleep)
    }

    /// Whether the committer has to take the open batch. If the store is `stopping`, no caller requests a commit any
    /// more.
    pub(crate) fn is_due(&self, stopping: bool) -> bool {
        self.has_work() && (self.flush_requested || stopping)
    }

    /// Whether the committer has anything to do.
    pub(crate) fn has_work(&self) -> bool {
        !self.open.waiting.is_empty() || !self.open.effects.is_empty() || !self.open.later.is_empty()
    }

    /// Closes the open batch and returns it. Requests that did not fit are decided into the next batch.
    pub(crate) fn seal_batch(&mut self, clock: Instant) -> SealedBatch {
        let OpenBatch { effects, waiting, later, at } = std::mem::take(&mut self.open);
        // The next batch will have about the same size.
        self.open.effects.events.reserve(effects.events.len());
        self.open.effects.keys.reserve(effects.keys.len());
        self.open.waiting.reserve(waiting.len());
        self.handover = BatchHandover { waiting, later: later.into_iter(), ..BatchHandover::default() };
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
            self.head = LogHead {
                number: batch.number,
                next_position: batch.next_position(),
                at: batch.at,
                ..self.head
            };
            self.memory.begin_batch(batch.number + 1);
            batch
        });
        self.committing = true;
        while let Some(pending) = self.handover.later.next() {
            self.handover.deciding = Some(pending.reply_handle());
            match self.admit(pending, clock) {
                Admission::Queued => {}
                Admission::Answered(reply, answer) => self.open.waiting.push((reply, answer)),
                Admission::Read(pending, name) => self.handover.reads.push((pending, name)),
                Admission::Yielded(pending) => self.handover.on.push(pending),
            }
        }
        // No caller requests a commit for deferred requests and for requests that continue, so this does.
        self.flush_requested = self.has_work() || !self.handover.on.is_empty();
        let BatchHandover { waiting, reads, on, .. } = std::mem::take(&mut self.handover);
        SealedBatch { batch, previous_sum, waiting, reads, on }
    }

    /// Notes that the batch is durable and has this checksum.
    pub(crate) fn on_committed(&mut self, sum: u32) {
        self.head.sum = sum;
        self.committing = false;
    }

    /// Notes that there was nothing to commit.
    pub(crate) fn on_empty_commit(&mut self) {
        self.committing = false;
    }

    /// Stops all decisions, for this reason.
    pub(crate) fn poison(&mut self, why: String) {
        self.poisoned.get_or_insert(why);
    }

    /// After [`Core::poison`]: returns all requests that wait, with their failures.
    pub(crate) fn fail_pending(&mut self) -> Vec<PendingAnswer> {
        let why = self.poisoned.clone().unwrap_or_default();
        let OpenBatch { waiting, later, .. } = std::mem::take(&mut self.open);
        let handover = std::mem::take(&mut self.handover);
        let unavailable = || Failure::Unavailable(why.clone());
        let decided = handover.waiting.into_iter().chain(waiting).map(|(reply, answer)| match answer {
            // The caller that met the broken invariant gets that failure.
            Err(Failure::Internal(_)) => (reply, answer),
            // The first commands of a request with several commands may be durable.
            Ok(Answer::Outcomes(_)) => (reply, Err(Failure::OutcomeUnknown)),
            _ => (reply, Err(unavailable())),
        });
        let deciding = handover.deciding.map(|deciding| deciding.failed(unavailable()));
        let reads = handover.reads.into_iter().map(|(pending, _)| pending);
        let undecided = reads.chain(handover.on).chain(handover.later).chain(later);
        decided.chain(deciding).chain(undecided.map(|pending| pending.failed(unavailable()))).collect()
    }

    pub(crate) fn poisoned(&self) -> Option<&str> {
        self.poisoned.as_deref()
    }

    /// Notes that the index has all items and reservations up to this batch. `more` is the weight that the index has
    /// added.
    pub(crate) fn on_indexed(&mut self, batch: u64, more: u64) {
        self.memory.drop_closed_up_to(batch);
        self.unindexed = self.unindexed.saturating_sub(more);
    }

    /// Notes that the index has all keys up to this batch. Returns maps that the caller drops after it has released the
    /// lock.
    pub(crate) fn on_keys_indexed(&mut self, batch: u64, filters: Vec<Arc<BloomFilter>>) -> Vec<KeyMap> {
        self.memory.drop_keys_up_to(batch, filters)
    }

    /// From now on no command finds these reservations. Returns the batch up to which they may have changed before.
    pub(crate) fn begin_leaving(&mut self, leaving: LeavingReservations) -> u64 {
        self.memory.begin_leaving(leaving);
        self.head.number + u64::from(!self.open.effects.is_empty())
    }

    /// The weight that the index does not have yet.
    pub(crate) fn unindexed(&self) -> u64 {
        self.unindexed
    }

    /// The deadline of the hold that expires next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let hold = self.memory.earliest(None).ok().flatten().map(|(due, _)| due);
        let pool = self.memory.earliest_release().ok().flatten().map(|(due, _)| due);
        hold.into_iter().chain(pool).min()
    }

    /// The clock, or the time of the newest decision if that is later.
    pub(crate) fn clamp_to_committed(&self, clock: Instant) -> Instant {
        clock.max(self.open.at.unwrap_or(self.head.at))
    }

    /// The number of answers that wait.
    pub(crate) fn queue_len(&self) -> usize {
        self.open.waiting.len() + self.open.later.len()
    }
}

/// The fault point of a command that is decided and not durable. Its failure is a broken invariant, because nothing of
/// such a command may become durable.
fn injected_failure(decided: Result<Outcome, DecideError>) -> Result<Outcome, DecideError> {
    fault!("command.decided" => DecideError::InvariantViolated("a fault point"));
    decided
}

#[cfg(test)]
mod tests;
