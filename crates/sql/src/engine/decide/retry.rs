//! Runs one batch of commands and retries it until each command has its result: after a deadlock or a lock timeout with a pause,
//! after missing data or a conflict at once. Replies are sent by the dispatcher, after the commit.

use super::attempt::decide_and_commit;
use crate::engine::db_error::{DbError, report_violation};
use crate::engine::dialect::Session;
use crate::engine::lock::{AttemptError, AttemptLimits, LockedBatch, lock_and_load};
use crate::engine::meters;
use crate::engine::plan::{PlannedCommand, RetryPlan};
use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use std::collections::{BTreeSet, HashSet};
use std::hash::RandomState;
use stockhold_domain::{ItemKey, Outcome};
use stockhold_store::Failure;

/// Maximum number of retries after a deadlock or a lock timeout.
const RETRIES: u32 = 3;
/// The maximum pause before the first retry. Each further pause may be longer by this much.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// Maximum number of retries because data was missing or another instance inserted a row first. Each retry loads more, and one
/// retry loads all that is due of an item, so only constant changes by others need this many.
const RERUNS: u32 = 64;
/// The retries of a batch so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttemptCounts {
    retries: u32,
    reruns: u32,
}

/// The result of a batch.
pub(crate) struct BatchResult<S> {
    /// The session, if it can still be used.
    pub(crate) session: Option<S>,
    /// Why the session was lost.
    pub(crate) lost: Option<String>,
    /// The result of each command, in order. `None` if the command needs more items than the batch has claimed.
    pub(crate) results: Vec<Option<Result<Outcome, Failure>>>,
    /// The items that those commands need besides the claimed ones.
    pub(crate) beyond: BTreeSet<ItemKey>,
    /// The retry plan for those commands.
    pub(crate) plan: RetryPlan,
    /// The retries of those commands so far.
    pub(crate) attempts: AttemptCounts,
}

/// Decides and commits, with retries. A result may be [`Outcome::Later`]: the caller then submits the command again.
/// `locked_batch` is the result of the first attempt's locks, if they were taken already.
pub(crate) async fn run_batch<S: Session>(
    session: S,
    limits: &AttemptLimits,
    batch: &[&PlannedCommand],
    claims: &HashSet<ItemKey>,
    plan: RetryPlan,
    attempts: AttemptCounts,
    locked_batch: Option<Result<LockedBatch, AttemptError>>,
) -> BatchResult<S> {
    let mut runner = BatchRunner {
        limits,
        claims,
        locked_batch,
        result: BatchResult {
            session: Some(session),
            lost: None,
            results: batch.iter().map(|_| None).collect(),
            beyond: BTreeSet::new(),
            plan,
            attempts,
        },
    };
    let all: Vec<usize> = (0..batch.len()).collect();
    match runner.together(batch, &all).await {
        GroupResult::Done | GroupResult::Stalled => {}
        GroupResult::Alarm(what) => match *all {
            [only] => runner.put(only, Err(report_violation(&what))),
            // Run the commands one by one: a bad row must fail only the commands that touch it.
            _ => {
                for n in runner.open() {
                    match runner.together(batch, &[n]).await {
                        GroupResult::Done => {}
                        // Later commands may depend on this one.
                        GroupResult::Stalled => break,
                        GroupResult::Alarm(what) => runner.put(n, Err(report_violation(&what))),
                    }
                }
            }
        },
    }
    runner.result
}

/// The result of commands that were run in one transaction.
enum GroupResult {
    /// Each command has its result.
    Done,
    /// The commands without a result need items that the batch has not claimed.
    Stalled,
    /// An assertion of the database failed. It is not known for which command.
    Alarm(String),
}

struct BatchRunner<'a, S> {
    limits: &'a AttemptLimits,
    claims: &'a HashSet<ItemKey>,
    locked_batch: Option<Result<LockedBatch, AttemptError>>,
    result: BatchResult<S>,
}

impl<S: Session> BatchRunner<'_, S> {
    fn put(&mut self, n: usize, result: Result<Outcome, Failure>) {
        if let Some(place) = self.result.results.get_mut(n) {
            *place = Some(result);
        }
    }

    fn open(&self) -> Vec<usize> {
        let open = self.result.results.iter().zip(0..).filter(|(result, _)| result.is_none());
        open.map(|(_, n)| n).collect()
    }

    fn give_up(&mut self, open: &[usize], failure: &Failure) -> GroupResult {
        for n in open {
            self.put(*n, Err(failure.clone()));
        }
        GroupResult::Done
    }

    /// Terminates: each round gives a command its result, counts towards a limit, or is the last.
    async fn together(&mut self, batch: &[&PlannedCommand], numbers: &[usize]) -> GroupResult {
        loop {
            let open: Vec<usize> = numbers
                .iter()
                .copied()
                .filter(|n| self.result.results.get(*n).is_some_and(Option::is_none))
                .collect();
            if open.is_empty() {
                return GroupResult::Done;
            }
            let commands: Vec<&PlannedCommand> = open.iter().filter_map(|n| batch.get(*n).copied()).collect();
            let Some(session) = &mut self.result.session else {
                let why = self.result.lost.clone().unwrap_or_default();
                return self.give_up(&open, &Failure::Unavailable(why));
            };
            let plan = &mut self.result.plan;
            let locked_batch = match self.locked_batch.take() {
                Some(locked_batch) => locked_batch,
                None => lock_and_load(session, self.limits, &commands, self.claims, plan).await,
            };
            let attempted = match locked_batch {
                Ok(locked_batch) => {
                    decide_and_commit(session, self.limits, &commands, locked_batch, plan).await
                }
                Err(error) => Err(error),
            };
            let error = match attempted {
                Ok(outcomes) => {
                    open.iter().zip(outcomes).for_each(|(n, outcome)| self.put(*n, Ok(outcome)));
                    return GroupResult::Done;
                }
                Err(error) => error,
            };
            if let Some(group_result) = self.after(error, &open).await {
                return group_result;
            }
        }
    }

    /// Handles an error of an attempt. `None` means that the commands are retried.
    async fn after(&mut self, error: AttemptError, open: &[usize]) -> Option<GroupResult> {
        let waits = match error {
            AttemptError::NotLoaded => false,
            AttemptError::NeedsMoreItems(items) => {
                self.result.beyond = items;
                self.result.attempts.reruns += 1;
                if self.result.attempts.reruns > RERUNS {
                    return Some(self.give_up(open, &Failure::Overloaded));
                }
                return Some(GroupResult::Stalled);
            }
            AttemptError::InvariantViolated(n, what) => {
                self.roll_back().await;
                open.get(n).copied().into_iter().for_each(|n| self.put(n, Err(report_violation(what))));
                return None;
            }
            AttemptError::TimedOut => {
                self.lose("the database did not answer in time".to_owned());
                return None;
            }
            AttemptError::OutcomeUnknown(why) => {
                tracing::warn!(why, "the outcome of a commit is unknown");
                meters::unknown();
                self.lose(why);
                return Some(self.give_up(open, &Failure::OutcomeUnknown));
            }
            AttemptError::Database(error) => match error {
                DbError::ConnectionLost(why) => {
                    self.lose(why);
                    return None;
                }
                DbError::InvariantViolated(what) => {
                    self.roll_back().await;
                    return Some(GroupResult::Alarm(what));
                }
                DbError::Conflict(_) => false,
                DbError::Deadlock(_) => {
                    meters::deadlock();
                    true
                }
                DbError::LockTimeout(_) => {
                    meters::lock_timeout();
                    true
                }
            },
        };
        self.roll_back().await;
        meters::retry();
        let attempts = &mut self.result.attempts;
        let count = if waits { &mut attempts.retries } else { &mut attempts.reruns };
        *count += 1;
        if attempts.retries > RETRIES || attempts.reruns > RERUNS {
            tracing::warn!(attempts.retries, attempts.reruns, "a batch has used up its retries");
            return Some(self.give_up(open, &Failure::Overloaded));
        }
        if waits {
            tokio::time::sleep(jitter(RETRY_PAUSE * attempts.retries)).await;
        }
        None
    }

    /// A session that can't roll back is dropped.
    async fn roll_back(&mut self) {
        let Some(session) = &mut self.result.session else { return };
        let done = tokio::time::timeout(self.limits.batch_deadline, session.roll_back()).await;
        let why = match done {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "ROLLBACK was not answered in time".to_owned(),
        };
        self.lose(why);
    }

    fn lose(&mut self, why: String) {
        tracing::warn!(why, "a connection to the database is dropped");
        self.result.session = None;
        self.result.lost = Some(why);
    }
}

/// A random pause, so that two batches that blocked each other do not meet again.
pub(crate) fn jitter(longest: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    let longest = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random % longest.max(1))
}
