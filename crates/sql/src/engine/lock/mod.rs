//! Locks the lock set of a batch and loads its state, in one transaction that `decide` then commits.

use crate::engine::db_error::DbError;
use crate::engine::dialect::{LockSet, LockedRows, Session};
use crate::engine::plan::{BatchLockPlan, PlannedCommand, RetryPlan, plan_locks};
use crate::engine::state::LoadedState;
use core::future::Future;
use core::time::Duration;
use std::collections::{BTreeSet, HashMap, HashSet};
use stockhold_domain::{Command, HoldLimits, ItemKey, Mode, RequestedLine, Resource, footprint};
use stockhold_store::ClosedReservationCounters;

/// What bounds an attempt.
#[derive(Clone, Debug)]
pub(crate) struct AttemptLimits {
    /// The part of items' figures that is added to.
    pub(crate) counter_shard: u16,
    /// How long holds may last.
    pub(crate) rules: HoldLimits,
    /// Up to the commit.
    pub(crate) batch_deadline: Duration,
    /// The commit.
    pub(crate) commit_deadline: Duration,
    /// Count what commits close.
    pub(crate) closed: ClosedReservationCounters,
}

/// Why an attempt stopped. Except for `Unknown`, nothing of it was committed.
#[derive(Debug)]
pub(crate) enum AttemptError {
    /// The rules asked for what was not loaded; it is in the plan now.
    NotLoaded,
    /// It has to lock items that are not the batch's to lock.
    NeedsMoreItems(BTreeSet<ItemKey>),
    /// A command, by its number within the attempt, found the state to contradict itself.
    InvariantViolated(usize, &'static str),
    /// The database.
    Database(DbError),
    /// The database did not answer in time.
    TimedOut,
    /// The outcome is unknown: why.
    OutcomeUnknown(String),
}

impl From<DbError> for AttemptError {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

/// What a batch locks, and what was found then. Those who come for it until it is decided may join it.
#[derive(Debug)]
pub(crate) struct LockedBatch {
    pub(crate) lock_plan: BatchLockPlan,
    pub(crate) locked: LockedRows,
    /// Commands that were there when it was locked; those behind them have joined.
    pub(crate) first: usize,
}

/// What there is for those who come for a batch that is locked.
pub(crate) struct JoinPolicy<'a> {
    lock_set: &'a LockSet,
    /// Units of counted items when they were locked.
    there: HashMap<&'a ItemKey, u64>,
}

impl JoinPolicy<'_> {
    /// Whether all that a command may touch is locked and loaded, but for its key, which is taken for new: a reserve that succeeds
    /// puts it in, and the database refuses one that is there. Whatever else it comes to is decided again, with its key read.
    pub(crate) fn admits(&self, planned: &PlannedCommand) -> bool {
        let Command::Reserve(reserve) = &planned.envelope.command else { return false };
        let mut names = Vec::new();
        footprint(&LoadedState::default(), &planned.envelope, &mut names);
        let is_there = |name: &Resource| match name {
            Resource::Item(item) => self.lock_set.items.contains(item),
            Resource::Pause(location) => {
                self.lock_set.pauses.contains(&LoadedState::pause_key(location.as_ref()))
            }
            // What is due is asked for when stock falls short.
            Resource::Key(_) | Resource::Due(_) => true,
            _ => false,
        };
        let enough =
            |line: &RequestedLine| self.there.get(&line.item).is_some_and(|there| *there >= line.quantity);
        names.iter().all(is_there) && reserve.basket.lines().iter().all(enough)
    }
}

impl LockedBatch {
    /// For those who come now.
    pub(crate) fn join_policy(&self) -> JoinPolicy<'_> {
        let counted = self.locked.rows.items.iter().filter(|item| item.mode == Mode::Counted);
        let there = counted.map(|item| (&item.key, item.available())).collect();
        JoinPolicy { lock_set: &self.lock_plan.lock_set, there }
    }

    /// Takes in what those name who have joined.
    pub(crate) fn join(&mut self, joined: &[&PlannedCommand]) {
        for planned in joined {
            let mut names = Vec::new();
            footprint(&LoadedState::default(), &planned.envelope, &mut names);
            self.lock_plan.of_command.push(names);
        }
    }
}

/// Finds out what to lock, locks it and loads it. `claims` are the items that no other transaction of this instance touches
/// meanwhile.
pub(crate) async fn lock_and_load<S: Session>(
    session: &mut S,
    limits: &AttemptLimits,
    batch: &[&PlannedCommand],
    claims: &HashSet<ItemKey>,
    plan: &mut RetryPlan,
) -> Result<LockedBatch, AttemptError> {
    let found = attempt_within_deadline(limits.batch_deadline, async {
        let lock_plan = plan_locks(session, batch, plan).await?;
        let beyond: BTreeSet<_> =
            lock_plan.lock_set.all_items().filter(|key| !claims.contains(*key)).cloned().collect();
        if !beyond.is_empty() {
            return Err(AttemptError::NeedsMoreItems(beyond));
        }
        let begun = std::time::Instant::now();
        let locked = session.lock(&lock_plan.lock_set).await?;
        crate::engine::meters::locked(begun.elapsed());
        Ok(LockedBatch { lock_plan, locked, first: batch.len() })
    });
    found.await
}

pub(crate) async fn attempt_within_deadline<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, AttemptError>>,
) -> Result<T, AttemptError> {
    tokio::time::timeout(deadline, work).await.unwrap_or(Err(AttemptError::TimedOut))
}

#[cfg(test)]
mod tests;
