//! Sequences: commands that are decided strictly in the submitted order. A sequence is run in chunks of at most one batch; the next
//! chunk starts only when the one before has its results.

use super::submission::{ReplyTarget, Submission};
use crate::engine::plan::{PlannedCommand, ReservationRefs, fitting};
use crate::engine::reply_batch::{PendingReply, ReplyBatch};
use std::collections::{BTreeMap, VecDeque};
use stockhold_domain::{Envelope, Outcome};
use stockhold_store::{Answer, Failure};

type CommandResult = Result<Outcome, Failure>;

/// All open sequences.
#[derive(Default)]
pub(super) struct Sequences {
    last: u64,
    open: BTreeMap<u64, Sequence>,
}

struct Sequence {
    reply: PendingReply,
    /// Commands that have no result and are not in a batch, with their numbers.
    rest: VecDeque<(usize, QueuedCommand)>,
    results: Vec<Option<CommandResult>>,
    /// Commands that still count as waiting.
    counted: usize,
}

/// A command of a sequence that waits for its chunk. The references of its reservation are kept if they were looked up: they may be
/// too large for the hints.
pub(super) struct QueuedCommand {
    pub(super) envelope: Envelope,
    pub(super) refs: Option<ReservationRefs>,
}

impl QueuedCommand {
    fn again(planned: PlannedCommand) -> Self {
        // A reservation that did not exist may exist then.
        let refs = planned.refs.filter(|refs| refs.lines() > 0);
        Self { envelope: *planned.envelope, refs }
    }
}

/// The next commands of a sequence.
pub(super) struct SequenceChunk {
    pub(super) queued: Vec<QueuedCommand>,
    pub(super) numbers: Vec<usize>,
    pub(super) counted: usize,
}

impl Sequences {
    /// Starts a sequence and returns its number.
    pub(super) fn begin(&mut self, envelopes: Vec<Envelope>, reply: PendingReply) -> u64 {
        self.last += 1;
        let counted = envelopes.len();
        let results = envelopes.iter().map(|_| None).collect();
        let rest = envelopes
            .into_iter()
            .map(|envelope| QueuedCommand { envelope, refs: None })
            .enumerate()
            .collect();
        self.open.insert(self.last, Sequence { reply, rest, results, counted });
        self.last
    }

    /// Takes the next commands of a sequence: at most `most`, and no more lines than fit into a batch as far as `lines` knows them.
    /// `None` if the sequence has ended.
    pub(super) fn next(
        &mut self,
        number: u64,
        most: usize,
        lines: impl Fn(&QueuedCommand) -> usize,
    ) -> Option<SequenceChunk> {
        let sequence = self.open.get_mut(&number)?;
        let fitting = fitting(sequence.rest.iter().take(most).map(|(_, queued)| lines(queued)));
        let (numbers, queued): (Vec<_>, Vec<_>) =
            sequence.rest.drain(..fitting.min(sequence.rest.len())).unzip();
        let counted = numbers.len().min(sequence.counted);
        sequence.counted -= counted;
        Some(SequenceChunk { queued, numbers, counted })
    }

    /// Cuts a submission to what fits into a batch, once its lines are known. The rest goes back to its sequence.
    pub(super) fn cut(&mut self, mut submission: Submission) -> Submission {
        let ReplyTarget::Sequence(number, numbers) = &mut submission.reply_target else { return submission };
        let fitting = fitting(submission.planned.iter().map(PlannedCommand::lines));
        if fitting >= submission.planned.len() {
            return submission;
        }
        let Some(sequence) = self.open.get_mut(number) else { return submission };
        let (planned, numbers) = (submission.planned.split_off(fitting), numbers.split_off(fitting));
        let counted = planned.len().min(submission.counted);
        for (n, planned) in numbers.into_iter().zip(planned).rev() {
            sequence.rest.push_front((n, QueuedCommand::again(planned)));
        }
        sequence.counted += counted;
        Submission::new(submission.planned, submission.reply_target, submission.counted - counted)
    }

    /// Records the results of a chunk, and replies if they are the last. Returns how many other commands no longer wait.
    pub(super) fn put(
        &mut self,
        number: u64,
        numbers: &[usize],
        planned: Vec<PlannedCommand>,
        results: Vec<CommandResult>,
        replies: &mut ReplyBatch,
    ) -> usize {
        let Some(sequence) = self.open.get_mut(&number) else { return 0 };
        let mut lost = None;
        for ((n, planned), result) in numbers.iter().zip(planned).zip(results).rev() {
            match result {
                Ok(Outcome::Later) => sequence.rest.push_front((*n, QueuedCommand::again(planned))),
                result => {
                    if let Err(failure @ Failure::Unavailable(_)) = &result {
                        lost = Some(failure.clone());
                    }
                    sequence.put(*n, result);
                }
            }
        }
        match lost {
            // The rest would fail in the same way, one slow attempt after the other.
            Some(failure) => self.refuse(number, &failure, replies),
            None => {
                self.end(number, replies);
                0
            }
        }
    }

    /// Records the results that there are. Returns the commands without one, which stay together.
    pub(super) fn put_part(
        &mut self,
        submission: Submission,
        results: Vec<Option<CommandResult>>,
    ) -> Option<Submission> {
        let ReplyTarget::Sequence(number, numbers) = &submission.reply_target else {
            return Some(submission);
        };
        let sequence = self.open.get_mut(number)?;
        let (mut left, mut left_numbers) = (Vec::new(), Vec::new());
        for ((n, planned), result) in numbers.iter().zip(submission.planned).zip(results) {
            match result {
                None | Some(Ok(Outcome::Later)) => {
                    left.push(planned);
                    left_numbers.push(*n);
                }
                Some(result) => sequence.put(*n, result),
            }
        }
        Some(Submission::new(left, ReplyTarget::Sequence(*number, left_numbers), 0))
    }

    /// Ends a sequence with a failure for all commands without a result. Returns how many of them counted as waiting.
    pub(super) fn refuse(&mut self, number: u64, failure: &Failure, replies: &mut ReplyBatch) -> usize {
        let Some(sequence) = self.open.get_mut(&number) else { return 0 };
        sequence.rest.clear();
        for place in sequence.results.iter_mut().filter(|place| place.is_none()) {
            *place = Some(Err(failure.clone()));
        }
        let counted = core::mem::take(&mut sequence.counted);
        self.end(number, replies);
        counted
    }

    fn end(&mut self, number: u64, replies: &mut ReplyBatch) {
        let is_over = |sequence: &Sequence| sequence.results.iter().all(Option::is_some);
        if self.open.get(&number).is_some_and(is_over)
            && let Some(sequence) = self.open.remove(&number)
        {
            let results = sequence.results.into_iter().flatten().collect();
            replies.put(sequence.reply, Ok(Answer::Outcomes(results)));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl Sequence {
    fn put(&mut self, n: usize, result: CommandResult) {
        if let Some(place) = self.results.get_mut(n) {
            *place = Some(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use stockhold_domain::{
        Access, EventId, GeneratedIds, Instant, ItemKey, Label, Origin, RequestId, ReservationId,
    };
    use stockhold_store::{Inbox, ReplyTo};

    #[derive(Default)]
    struct Nobody(Mutex<u64>);

    impl Inbox for Nobody {
        fn put(&self, _: u64, _: Result<Answer, Failure>) {
            *self.0.lock().unwrap() += 1;
        }

        fn flush(&self) {}
    }

    fn confirm(number: u128) -> Envelope {
        let now = Instant::from_micros(0);
        Envelope {
            access: Access::Unrestricted,
            command: stockhold_conformance::maker::confirm(ReservationId::from_u128(number)),
            key: None,
            fresh: GeneratedIds {
                reservation: ReservationId::new(now, number, 0),
                event: EventId::new(now, 0),
            },
            origin: Origin {
                actor: Label::new("a").unwrap(),
                key_id: None,
                request_id: RequestId::Made(number),
                trace: None,
            },
        }
    }

    /// A sequence of large baskets goes one by one, and looks each up once.
    #[test]
    fn what_was_looked_up_of_commands_that_have_to_wait_is_kept() {
        let mut sequences = Sequences::default();
        let reply = ReplyTo { inbox: Arc::new(Nobody::default()), ticket: 1 };
        let number = sequences.begin((1..=3).map(confirm).collect(), PendingReply::new(reply));
        let item = ItemKey::new(&Label::new("x").unwrap(), &Label::new("a").unwrap());
        let large = ReservationRefs { items: vec![item; 3_000].into(), ..ReservationRefs::default() };
        let planned = |queued: QueuedCommand| PlannedCommand {
            envelope: Box::new(queued.envelope),
            refs: queued.refs,
            unit_items: std::collections::HashSet::new(),
            sequence: Some(number),
        };
        let chunk = sequences.next(number, 9, |_| 1).unwrap();
        let mut submission = Submission::new(
            chunk.queued.into_iter().map(planned).collect(),
            ReplyTarget::Sequence(number, chunk.numbers),
            chunk.counted,
        );
        submission.resolve(|id| (id != ReservationId::from_u128(3)).then(|| large.clone()));
        assert_eq!(sequences.cut(submission).planned.len(), 1);
        let lines = |queued: &QueuedCommand| queued.refs.as_ref().map_or(1, ReservationRefs::lines);
        let next = sequences.next(number, 9, lines).unwrap();
        let known = next.queued.iter().map(|queued| {
            (queued.envelope.command.reservation(), queued.refs.as_ref().map(ReservationRefs::lines))
        });
        // The third does not exist yet.
        let id = |number| Some(ReservationId::from_u128(number));
        assert_eq!(known.collect::<Vec<_>>(), [(id(2), Some(3_000)), (id(3), None)]);
    }
}
