//! One batch of commands, attempt after attempt, until each has its result. Answers are not given here: nothing is known
//! before the commit is.

use super::attempt::{Boarded, Bounds, Stop, board, depart};
use super::dialect::{Session, Trouble};
use super::meters;
use super::wants::{Asked, Plan};
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
pub(super) struct Tries {
    retries: u32,
    reruns: u32,
}

/// What became of a batch.
pub(super) struct Settled<S> {
    /// The session, if it is still good.
    pub(super) session: Option<S>,
    /// Why it is not.
    pub(super) lost: Option<String>,
    /// One for each command, in order; `None` for those that have to go on with more items.
    pub(super) results: Vec<Option<Result<Outcome, Failure>>>,
    /// The items that those need besides their own.
    pub(super) beyond: BTreeSet<ItemKey>,
    /// What is known for them.
    pub(super) plan: Plan,
    /// How often they were tried.
    pub(super) tries: Tries,
}

/// Decides and commits. [`Outcome::Later`] is among the results, for the caller to bring again. `boarded` is what became of the
/// first attempt so far, if there was one.
pub(super) async fn settle<S: Session>(
    session: S,
    bounds: &Bounds,
    batch: &[&Asked],
    claims: &HashSet<ItemKey>,
    plan: Plan,
    tries: Tries,
    boarded: Option<Result<Boarded, Stop>>,
) -> Settled<S> {
    let mut run = Run {
        bounds,
        claims,
        boarded,
        settled: Settled {
            session: Some(session),
            lost: None,
            results: batch.iter().map(|_| None).collect(),
            beyond: BTreeSet::new(),
            plan,
            tries,
        },
    };
    let all: Vec<usize> = (0..batch.len()).collect();
    match run.together(batch, &all).await {
        Verdict::Done | Verdict::Stalled => {}
        Verdict::Alarm(what) => match *all {
            [only] => run.put(only, Err(alarm(&what))),
            // One bad row fails the commands that touch it, not those that happened to wait with them.
            _ => {
                for n in run.open() {
                    match run.together(batch, &[n]).await {
                        Verdict::Done => {}
                        // Those behind it may have to come after it.
                        Verdict::Stalled => break,
                        Verdict::Alarm(what) => run.put(n, Err(alarm(&what))),
                    }
                }
            }
        },
    }
    run.settled
}

/// Logged and counted here, once, whatever becomes of the answer.
pub(super) fn alarm(what: &str) -> Failure {
    tracing::error!(what, "an invariant is broken");
    meters::alarm();
    Failure::Internal(what.to_owned())
}

/// What became of commands that were run together.
enum Verdict {
    /// Each has its result.
    Done,
    /// Those without a result need items beyond the batch's.
    Stalled,
    /// An assertion failed, and it can't be told for whom.
    Alarm(String),
}

struct Run<'a, S> {
    bounds: &'a Bounds,
    claims: &'a HashSet<ItemKey>,
    boarded: Option<Result<Boarded, Stop>>,
    settled: Settled<S>,
}

impl<S: Session> Run<'_, S> {
    fn put(&mut self, n: usize, result: Result<Outcome, Failure>) {
        if let Some(place) = self.settled.results.get_mut(n) {
            *place = Some(result);
        }
    }

    fn open(&self) -> Vec<usize> {
        let open = self.settled.results.iter().zip(0..).filter(|(result, _)| result.is_none());
        open.map(|(_, n)| n).collect()
    }

    fn give_up(&mut self, open: &[usize], failure: &Failure) -> Verdict {
        for n in open {
            self.put(*n, Err(failure.clone()));
        }
        Verdict::Done
    }

    /// Ends: every round settles a command, counts towards a limit, or is the last.
    async fn together(&mut self, batch: &[&Asked], numbers: &[usize]) -> Verdict {
        loop {
            let open: Vec<usize> = numbers
                .iter()
                .copied()
                .filter(|n| self.settled.results.get(*n).is_some_and(Option::is_none))
                .collect();
            if open.is_empty() {
                return Verdict::Done;
            }
            let commands: Vec<&Asked> = open.iter().filter_map(|n| batch.get(*n).copied()).collect();
            let Some(session) = &mut self.settled.session else {
                let why = self.settled.lost.clone().unwrap_or_default();
                return self.give_up(&open, &Failure::Unavailable(why));
            };
            let plan = &mut self.settled.plan;
            let boarded = match self.boarded.take() {
                Some(boarded) => boarded,
                None => board(session, self.bounds, &commands, self.claims, plan).await,
            };
            let departed = match boarded {
                Ok(boarded) => depart(session, self.bounds, &commands, boarded, plan).await,
                Err(stop) => Err(stop),
            };
            let stop = match departed {
                Ok(outcomes) => {
                    open.iter().zip(outcomes).for_each(|(n, outcome)| self.put(*n, Ok(outcome)));
                    return Verdict::Done;
                }
                Err(stop) => stop,
            };
            if let Some(verdict) = self.after(stop, &open).await {
                return verdict;
            }
        }
    }

    /// `None` when it is to be run again.
    async fn after(&mut self, stop: Stop, open: &[usize]) -> Option<Verdict> {
        let waits = match stop {
            Stop::NotLoaded => false,
            Stop::Beyond(items) => {
                self.settled.beyond = items;
                self.settled.tries.reruns += 1;
                if self.settled.tries.reruns > RERUNS {
                    return Some(self.give_up(open, &Failure::Overloaded));
                }
                return Some(Verdict::Stalled);
            }
            Stop::Broken(n, what) => {
                self.roll_back().await;
                open.get(n).copied().into_iter().for_each(|n| self.put(n, Err(alarm(what))));
                return None;
            }
            Stop::Late => {
                self.lose("the database did not answer in time".to_owned());
                return None;
            }
            Stop::Unknown(why) => {
                tracing::warn!(why, "the outcome of a commit is unknown");
                meters::unknown();
                self.lose(why);
                return Some(self.give_up(open, &Failure::OutcomeUnknown));
            }
            Stop::Trouble(trouble) => match trouble {
                Trouble::Lost(why) => {
                    self.lose(why);
                    return None;
                }
                Trouble::Alarm(what) => {
                    self.roll_back().await;
                    return Some(Verdict::Alarm(what));
                }
                Trouble::Raced(_) => false,
                Trouble::Deadlock(_) => {
                    meters::deadlock();
                    true
                }
                Trouble::LockTimeout(_) => {
                    meters::lock_timeout();
                    true
                }
            },
        };
        self.roll_back().await;
        meters::retry();
        let tries = &mut self.settled.tries;
        let count = if waits { &mut tries.retries } else { &mut tries.reruns };
        *count += 1;
        if tries.retries > RETRIES || tries.reruns > RERUNS {
            tracing::warn!(tries.retries, tries.reruns, "a batch is given up");
            return Some(self.give_up(open, &Failure::Overloaded));
        }
        if waits {
            tokio::time::sleep(jitter(RETRY_PAUSE * tries.retries)).await;
        }
        None
    }

    /// A session that can't do that is of no more use.
    async fn roll_back(&mut self) {
        let Some(session) = &mut self.settled.session else { return };
        let done = tokio::time::timeout(self.bounds.batch_deadline, session.roll_back()).await;
        let why = match done {
            Ok(Ok(())) => return,
            Ok(Err(trouble)) => trouble.to_string(),
            Err(_) => "ROLLBACK was not answered in time".to_owned(),
        };
        self.lose(why);
    }

    fn lose(&mut self, why: String) {
        tracing::warn!(why, "a connection to the database is given up");
        self.settled.session = None;
        self.settled.lost = Some(why);
    }
}

/// A pause of a random length, so that those who met once do not meet again.
pub(super) fn jitter(longest: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    let longest = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random % longest.max(1))
}
