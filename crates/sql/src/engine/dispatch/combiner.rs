//! Which commands go into which batch. Pure: it knows neither connections nor clocks.
//!
//! Commands that are about the same items wait for each other and go together; no two batches in flight share an item or an
//! idempotency key, except that [`LANES`] of them may claim units of one hall. Nobody overtakes whoever waits for the same
//! item. Unrelated commands are put together only as far as connections are scarce.

use super::claims::{ALL_LANES, ActiveClaims, Claims};
use super::submission::Submission;
use crate::engine::decide::AttemptCounts;
use crate::engine::options::BATCH_LINES;
use crate::engine::plan::{PlannedCommand, ReservationRefs, RetryPlan};
use std::collections::VecDeque;
use std::sync::Arc;
use stockhold_domain::{ItemKey, ReservationId};

/// What a batch is about.
pub(super) enum BatchTask {
    /// Commands.
    Commands(Vec<Submission>),
    /// Overdue reservations with their items; whether locks of others are waited for.
    Sweep { due: Vec<(ReservationId, ReservationRefs)>, waits: bool },
}

/// What goes into one transaction.
pub(super) struct Batch {
    pub(super) task: BatchTask,
    pub(super) claims: Arc<Claims>,
    pub(super) plan: RetryPlan,
    pub(super) attempts: AttemptCounts,
}

impl Batch {
    /// Its commands.
    pub(super) fn commands(&self) -> impl Iterator<Item = &PlannedCommand> {
        let submissions = match &self.task {
            BatchTask::Commands(submissions) => submissions.as_slice(),
            BatchTask::Sweep { .. } => &[],
        };
        submissions.iter().flat_map(|submission| &submission.planned)
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Combiner {
    /// Batches whose items are known, ahead of all others.
    ready: VecDeque<Batch>,
    /// In the order they came.
    waiting: VecDeque<Submission>,
    /// Those that were found to wait for something in flight: looked at again when something has landed.
    parked: Vec<Submission>,
    parked_claims: Claims,
    active: ActiveClaims,
    /// Most commands in one batch.
    most: usize,
}

impl Combiner {
    pub(super) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Commands that have come.
    pub(super) fn add(&mut self, submission: Submission) {
        self.waiting.push_back(submission);
    }

    /// Commands that go on in the next batch, ahead of those that came after them.
    pub(super) fn put_back(&mut self, submissions: Vec<Submission>) {
        for submission in submissions.into_iter().rev() {
            self.waiting.push_front(submission);
        }
    }

    /// A batch that goes as it is, ahead of all that wait.
    pub(super) fn add_batch(&mut self, batch: Batch) {
        self.ready.push_back(batch);
    }

    /// Whether something in flight touches one of these items.
    pub(super) fn is_busy(&self, item: &ItemKey) -> bool {
        self.active.items.contains_key(item)
    }

    /// Commands that are not known to wait for something in flight.
    pub(super) fn unblocked(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.waiting.is_empty() && self.parked.is_empty()
    }

    /// A batch that can go now, if there is one; its claims are busy from here on. Commands that share no item are put
    /// together up to `share` of them.
    pub(super) fn take(&mut self, share: usize) -> Option<Batch> {
        let (mut batch, lanes) = match self.take_ready() {
            Some(batch) => batch,
            None => self.combine(share)?,
        };
        Arc::make_mut(&mut batch.claims).lane = usize::try_from(lanes.trailing_zeros()).unwrap_or_default();
        self.active.add(&batch.claims);
        Some(batch)
    }

    /// The first that can go, and the lanes that are free for it.
    fn take_ready(&mut self) -> Option<(Batch, u8)> {
        let mut blocked = Claims::default();
        let (place, lanes) = self.ready.iter().enumerate().find_map(|(place, batch)| {
            let lanes = self.active.free_lanes(&batch.claims);
            if lanes != 0 && !batch.claims.meets(&blocked) {
                return Some((place, lanes));
            }
            blocked.add(&batch.claims);
            None
        })?;
        Some((self.ready.remove(place)?, lanes))
    }

    fn combine(&mut self, share: usize) -> Option<(Batch, u8)> {
        // Whoever waits with its items known goes first, so nobody may start on these.
        let mut blocked = Claims::default();
        self.ready.iter().for_each(|batch| blocked.add(&batch.claims));
        let (mut submissions, mut claims, mut commands, mut lines) = (Vec::new(), Claims::default(), 0, 0);
        let (mut left, mut open) = (VecDeque::new(), ALL_LANES);
        while let Some(submission) = self.waiting.pop_front() {
            // Whoever waits for one that is not parked is not parked either: what is comes back ahead of all others.
            let waits = submission.claims.meets(&blocked);
            let free = if waits { 0 } else { self.active.free_lanes(&submission.claims) };
            if !waits && (free == 0 || submission.claims.meets(&self.parked_claims)) {
                self.parked_claims.add(&submission.claims);
                self.parked.push(submission);
                continue;
            }
            let count = submission.planned.len();
            let fits = commands + count <= self.most && lines + submission.lines <= BATCH_LINES;
            let wanted = commands < share || submission.claims.meets(&claims);
            if open & free != 0 && (submissions.is_empty() || (fits && wanted)) {
                open &= free;
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
        Some((Batch { task, claims, plan: RetryPlan::default(), attempts: AttemptCounts::default() }, open))
    }

    /// Adds to a batch whose items are locked by now what has come for them since and what the batch `admits`; its keys are busy
    /// from here on. Answers with how many of it counted as waiting.
    pub(super) fn admit_late_arrivals(
        &mut self,
        batch: &mut Batch,
        admits: impl Fn(&PlannedCommand) -> bool,
    ) -> usize {
        let BatchTask::Commands(submissions) = &mut batch.task else { return 0 };
        let mut claims = Claims::clone(&batch.claims);
        let mut commands: usize = submissions.iter().map(|submission| submission.planned.len()).sum();
        let mut lines: usize = submissions.iter().map(|submission| submission.lines).sum();
        // Nobody overtakes whoever waits for the same.
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
            if fits && covered && !submission.claims.meets(&blocked) {
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

    /// What a batch had claimed is free again.
    pub(super) fn release(&mut self, claims: &Claims) {
        self.active.remove(claims);
        self.parked_claims = Claims::default();
        let parked = core::mem::take(&mut self.parked);
        self.put_back(parked);
    }

    /// Everything that waits, to be answered otherwise.
    pub(super) fn drain(&mut self) -> (Vec<Batch>, Vec<Submission>) {
        self.parked_claims = Claims::default();
        let submissions = self.parked.drain(..).chain(self.waiting.drain(..));
        (self.ready.drain(..).collect(), submissions.collect())
    }
}

#[cfg(test)]
#[path = "combiner_tests.rs"]
mod tests;
