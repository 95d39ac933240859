//! One batch of commands, attempt after attempt, until each has its result. Answers are not given here: nothing is known
//! before the commit is.

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

/// How often a batch that others were in the way of is run again.
const RETRIES: u32 = 3;
/// The longest first pause before that; each further one may be so much longer.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// How often a batch is run again because it lacked something or somebody made a row first. Each time it knows more, and
/// one round brings all that is due of an item, so this many can only be needed when others keep changing everything.
const RERUNS: u32 = 64;
/// How often a batch was tried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttemptCounts {
    retries: u32,
    reruns: u32,
}

/// What became of a batch.
pub(crate) struct BatchResult<S> {
    /// The session, if it is still good.
    pub(crate) session: Option<S>,
    /// Why it is not.
    pub(crate) lost: Option<String>,
    /// One for each command, in order; `None` for those that have to go on with more items.
    pub(crate) results: Vec<Option<Result<Outcome, Failure>>>,
    /// The items that those need besides their own.
    pub(crate) beyond: BTreeSet<ItemKey>,
    /// What is known for them.
    pub(crate) plan: RetryPlan,
    /// How often they were tried.
    pub(crate) attempts: AttemptCounts,
}

/// Decides and commits. [`Outcome::Later`] is among the results, for the caller to bring again. `locked_batch` is what became of the
/// first attempt so far, if there was one.
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
            // One bad row fails the commands that touch it, not those that happened to wait with them.
            _ => {
                for n in runner.open() {
                    match runner.together(batch, &[n]).await {
                        GroupResult::Done => {}
                        // Those behind it may have to come after it.
                        GroupResult::Stalled => break,
                        GroupResult::Alarm(what) => runner.put(n, Err(report_violation(&what))),
                    }
                }
            }
        },
    }
    runner.result
}

/// What became of commands that were run together.
enum GroupResult {
    /// Each has its result.
    Done,
    /// Those without a result need items beyond the batch's.
    Stalled,
    /// An assertion failed, and it can't be told for whom.
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

    /// Ends: every round settles a command, counts towards a limit, or is the last.
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

    /// `None` when it is to be run again.
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
            tracing::warn!(attempts.retries, attempts.reruns, "a batch is given up");
            return Some(self.give_up(open, &Failure::Overloaded));
        }
        if waits {
            tokio::time::sleep(jitter(RETRY_PAUSE * attempts.retries)).await;
        }
        None
    }

    /// A session that can't do that is of no more use.
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
        tracing::warn!(why, "a connection to the database is given up");
        self.result.session = None;
        self.result.lost = Some(why);
    }
}

/// A pause of a random length, so that those who met once do not meet again.
pub(crate) fn jitter(longest: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    let longest = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random % longest.max(1))
}
