//! Combines submissions into batches. Pure: it knows neither connections nor clocks.
//!
//! Submissions that share an item or an idempotency key wait for each other and go into one batch. Two running batches never
//! share an item or a key. A submission never overtakes an earlier one that shares an item or a key with it. Unrelated
//! submissions are combined only as far as connections are scarce.

use super::claims::Claims;
use super::submission::Submission;
use crate::engine::decide::AttemptCounts;
use crate::engine::options::BATCH_LINES;
use crate::engine::plan::{PlannedCommand, RetryPlan};
use crate::engine::sweep::Overdue;
use std::collections::VecDeque;
use std::sync::Arc;
use stockhold_domain::ItemKey;

/// What a batch does.
pub(super) enum BatchTask {
    /// Commands.
    Commands(Vec<Submission>),
    /// Ends what is overdue, which is of a page of the sweeper.
    Sweep { due: Vec<Overdue>, page: u64 },
}

/// The content of one transaction.
pub(super) struct Batch {
    pub(super) task: BatchTask,
    pub(super) claims: Arc<Claims>,
    pub(super) plan: RetryPlan,
    pub(super) attempts: AttemptCounts,
}

impl Batch {
    /// The commands in the order in which they are decided.
    pub(super) fn commands(&self) -> impl Iterator<Item = &PlannedCommand> {
        let submissions = match &self.task {
            BatchTask::Commands(submissions) => submissions.as_slice(),
            BatchTask::Sweep { .. } => &[],
        };
        submissions.iter().flat_map(|submission| &submission.planned)
    }
}

/// See the documentation of the module.
#[derive(Default)]
pub(super) struct Combiner {
    /// Batches that come before all waiting submissions.
    ready: VecDeque<Batch>,
    /// Submissions in the order of their arrival.
    waiting: VecDeque<Submission>,
    /// Submissions that wait for a running batch. They go back to `waiting` when any batch ends.
    parked: Vec<Submission>,
    parked_claims: Claims,
    active: Claims,
    /// The maximum number of commands in a batch.
    most: usize,
}

impl Combiner {
    pub(super) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Appends a new submission.
    pub(super) fn add(&mut self, submission: Submission) {
        self.waiting.push_back(submission);
    }

    /// Requeues submissions at the front: they came before all that wait.
    pub(super) fn put_back(&mut self, submissions: Vec<Submission>) {
        for submission in submissions.into_iter().rev() {
            self.waiting.push_front(submission);
        }
    }

    /// Queues a complete batch, which comes before all waiting submissions.
    pub(super) fn add_batch(&mut self, batch: Batch) {
        self.ready.push_back(batch);
    }

    /// Whether a running batch has claimed the item.
    pub(super) fn is_busy(&self, item: &ItemKey) -> bool {
        self.active.items.contains(item)
    }

    /// Whether a sweep of the item waits for a running batch.
    pub(super) fn has_waiting_sweep(&self, item: &ItemKey) -> bool {
        let is_sweep = |batch: &&Batch| matches!(batch.task, BatchTask::Sweep { .. });
        self.ready.iter().filter(is_sweep).any(|batch| batch.claims.items.contains(item))
    }

    /// The number of submissions that are not parked.
    pub(super) fn unblocked(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no batch and no submission waits.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.waiting.is_empty() && self.parked.is_empty()
    }

    /// Takes the next batch that may run, and claims its items and keys. Unrelated submissions are combined up to `share`
    /// commands.
    pub(super) fn take(&mut self, share: usize) -> Option<Batch> {
        let batch = match self.take_ready() {
            Some(batch) => batch,
            None => self.combine(share)?,
        };
        self.active.add(&batch.claims);
        Some(batch)
    }

    /// The first ready batch whose claims are free.
    fn take_ready(&mut self) -> Option<Batch> {
        let mut blocked = Claims::default();
        let place = self.ready.iter().position(|batch| {
            let is_free = !self.active.overlaps(&batch.claims) && !batch.claims.overlaps(&blocked);
            if !is_free {
                blocked.add(&batch.claims);
            }
            is_free
        })?;
        self.ready.remove(place)
    }

    fn combine(&mut self, share: usize) -> Option<Batch> {
        // Ready batches come before waiting submissions, so their claims are blocked.
        let mut blocked = Claims::default();
        self.ready.iter().for_each(|batch| blocked.add(&batch.claims));
        let (mut submissions, mut claims, mut commands, mut lines) = (Vec::new(), Claims::default(), 0, 0);
        let mut left = VecDeque::new();
        while let Some(submission) = self.waiting.pop_front() {
            // Do not park a submission that waits for one still in `waiting`: parked submissions are requeued at the front and
            // would overtake it.
            let is_blocked = submission.claims.overlaps(&blocked);
            let waits_for_running =
                self.active.overlaps(&submission.claims) || submission.claims.overlaps(&self.parked_claims);
            if !is_blocked && waits_for_running {
                self.parked_claims.add(&submission.claims);
                self.parked.push(submission);
                continue;
            }
            let count = submission.planned.len();
            let fits = commands + count <= self.most && lines + submission.lines <= BATCH_LINES;
            let wanted = commands < share || submission.claims.overlaps(&claims);
            if !is_blocked && (submissions.is_empty() || (fits && wanted)) {
                (commands, lines) = (commands + count, lines + submission.lines);
                claims.add(&submission.claims);
                submissions.push(submission);
            } else {
                blocked.add(&submission.claims);
                left.push_back(submission);
            }
            if commands >= self.most {
                break;
            }
        }
        left.append(&mut self.waiting);
        self.waiting = left;
        if submissions.is_empty() {
            return None;
        }
        let task = BatchTask::Commands(submissions);
        let claims = Arc::new(claims);
        Some(Batch { task, claims, plan: RetryPlan::default(), attempts: AttemptCounts::default() })
    }

    /// Adds submissions to a batch whose locks are held: those whose items the batch has claimed and whose commands it
    /// `admits`. Claims their keys. Returns how many of their commands counted as waiting.
    pub(super) fn admit_late_arrivals(
        &mut self,
        batch: &mut Batch,
        admits: impl Fn(&PlannedCommand) -> bool,
    ) -> usize {
        let BatchTask::Commands(submissions) = &mut batch.task else { return 0 };
        let mut claims = Claims::clone(&batch.claims);
        let mut commands: usize = submissions.iter().map(|submission| submission.planned.len()).sum();
        let mut lines: usize = submissions.iter().map(|submission| submission.lines).sum();
        // A submission must not overtake an earlier one that shares a claim.
        let mut blocked = Claims::default();
        self.ready.iter().for_each(|batch| blocked.add(&batch.claims));
        self.parked_claims = Claims::default();
        let mut counted = 0;
        let mut others =
            core::mem::take(&mut self.parked).into_iter().chain(core::mem::take(&mut self.waiting));
        while commands < self.most
            && let Some(mut submission) = others.next()
        {
            let fits =
                commands + submission.planned.len() <= self.most && lines + submission.lines <= BATCH_LINES;
            let covered = submission.claims.items.is_subset(&claims.items)
                && submission.claims.keys.is_disjoint(&self.active.keys)
                && submission.planned.iter().all(&admits);
            if fits && covered && !submission.claims.overlaps(&blocked) {
                (commands, lines) = (commands + submission.planned.len(), lines + submission.lines);
                counted += core::mem::take(&mut submission.counted);
                claims.add(&submission.claims);
                self.active.keys.extend(&submission.claims.keys);
                submissions.push(submission);
            } else {
                blocked.add(&submission.claims);
                self.waiting.push_back(submission);
            }
        }
        self.waiting.extend(others);
        batch.claims = Arc::new(claims);
        counted
    }

    /// Releases the claims of a batch that has ended, and requeues the parked submissions.
    pub(super) fn release(&mut self, claims: &Claims) {
        self.active.remove(claims);
        self.parked_claims = Claims::default();
        let parked = core::mem::take(&mut self.parked);
        self.put_back(parked);
    }

    /// Removes all that waits.
    pub(super) fn drain(&mut self) -> (Vec<Batch>, Vec<Submission>) {
        self.parked_claims = Claims::default();
        let submissions = self.parked.drain(..).chain(self.waiting.drain(..));
        (self.ready.drain(..).collect(), submissions.collect())
    }
}

#[cfg(test)]
#[path = "combiner_tests.rs"]
mod tests;
