//! Locks the lock set of a batch and loads its state, in one transaction that `decide` then commits.

use crate::engine::db_error::DbError;
use crate::engine::dialect::{LockSet, LockedRows, Session};
use crate::engine::plan::{BatchLockPlan, PlannedCommand, RetryPlan, plan_locks};
use crate::engine::state::LoadedState;
use core::future::Future;
use core::time::Duration;
use std::collections::{BTreeSet, HashMap, HashSet};
use stockhold_domain::{Command, HoldLimits, Item, ItemKey, Mode, RequestedLine, Resource, footprint};
use stockhold_store::ClosedReservationCounters;

/// Limits and settings of an attempt.
#[derive(Clone, Debug)]
pub(crate) struct AttemptLimits {
    /// The counter shard of this instance.
    pub(crate) counter_shard: u16,
    /// Limits of a reservation's duration.
    pub(crate) rules: HoldLimits,
    /// The deadline of everything before the commit.
    pub(crate) batch_deadline: Duration,
    /// The deadline of the commit.
    pub(crate) commit_deadline: Duration,
    /// Count what commits close.
    pub(crate) closed: ClosedReservationCounters,
}

/// Why an attempt ended without an outcome. Except for `OutcomeUnknown`, nothing was committed.
#[derive(Debug)]
pub(crate) enum AttemptError {
    /// The rules needed a resource that was not loaded. It is in the retry plan now.
    NotLoaded,
    /// The batch has to lock items that it has not claimed.
    NeedsMoreItems(BTreeSet<ItemKey>),
    /// A command, by its number within the attempt, found an inconsistent state.
    InvariantViolated(usize, &'static str),
    /// An error of the database.
    Database(DbError),
    /// The database did not answer in time.
    TimedOut,
    /// It is unknown whether the commit took effect, and why.
    OutcomeUnknown(String),
}

impl From<DbError> for AttemptError {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

/// A batch whose locks are held and whose state is loaded. Late arrivals may join it until it is decided ([`JoinPolicy`]).
#[derive(Debug)]
pub(crate) struct LockedBatch {
    pub(crate) lock_plan: BatchLockPlan,
    pub(crate) locked: LockedRows,
    /// The number of commands that the locks were planned for. The commands after them have joined.
    pub(crate) first: usize,
}

/// Says which late arrivals may join a locked batch.
pub(crate) struct JoinPolicy<'a> {
    lock_set: &'a LockSet,
    /// What is known of the limits.
    seen: LoadedState,
    /// Counted items as they were when they were locked.
    there: HashMap<&'a ItemKey, &'a Item>,
}

impl JoinPolicy<'_> {
    /// Whether everything is locked and loaded that the command may touch, except its idempotency key. The key is assumed to be
    /// unused: a reserve that succeeds inserts it, and the database refuses a duplicate. Any other outcome is discarded, and the
    /// command is decided again with its key loaded.
    pub(crate) fn admits(&self, planned: &PlannedCommand) -> bool {
        let Command::Reserve(reserve) = &planned.envelope.command else { return false };
        // How much a line with a source asks of an item is not known before it is decided.
        if reserve.basket.has_sources() {
            return false;
        }
        let mut names = Vec::new();
        footprint(&self.seen, &planned.envelope, &mut names);
        let is_there = |name: &Resource| match name {
            Resource::Item(item) => self.lock_set.items.contains(item),
            Resource::Pause(location) => {
                self.lock_set.pauses.contains(&LoadedState::pause_key(location.as_ref()))
            }
            Resource::Limits => self.seen.has(name),
            Resource::Counter(key) => self.lock_set.counters.contains(key),
            // Deadlines are needed only if stock is short.
            Resource::Key(_) | Resource::Due(_) => true,
            _ => false,
        };
        let enough = |line: &RequestedLine| {
            let there = self.there.get(&line.item);
            let there = there.map(|item| item.available_through(reserve.terms.pool(), Item::available_now));
            there.is_some_and(|there| there >= line.quantity)
        };
        names.iter().all(is_there) && reserve.basket.lines().iter().all(enough)
    }
}

impl LockedBatch {
    /// The policy for late arrivals.
    pub(crate) fn join_policy(&self) -> JoinPolicy<'_> {
        let counted = self.locked.rows.items.iter().filter(|item| item.mode == Mode::Counted);
        let there = counted.map(|item| (&item.key, item)).collect();
        JoinPolicy { lock_set: &self.lock_plan.lock_set, seen: self.seen(), there }
    }

    /// A state that knows only the limits.
    fn seen(&self) -> LoadedState {
        LoadedState::for_planning(core::iter::empty(), self.locked.rows.limits.clone())
    }

    /// Adds the resources that the joined commands name.
    pub(crate) fn join(&mut self, joined: &[&PlannedCommand]) {
        let seen = self.seen();
        for planned in joined {
            let mut names = Vec::new();
            footprint(&seen, &planned.envelope, &mut names);
            self.lock_plan.of_command.push(names);
        }
    }
}

/// Plans the lock set, takes the locks and loads the state. `claims` are the items that no other batch of this instance touches at
/// the same time.
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
