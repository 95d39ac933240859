//! One batch of commands, from what it may touch to its commit. Answers are not given here: nothing is known before the
//! commit is.

use super::BATCH_COMMANDS;
use super::connect::Connection;
use super::load::{Needs, Plan, lock_and_load, needs};
use super::queue::Link;
use super::stop::{Cure, Stop, cure};
use super::write::write;
use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use std::collections::BTreeSet;
use std::hash::RandomState;
use stockhold_domain::{Effects, Envelope, Halt, Name, Outcome, Rules, decide};
use stockhold_store::Failure;

/// How often a batch that others were in the way of is run again.
const RETRIES: u32 = 3;
/// The longest first pause before that; each further one may be so much longer.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// How often a batch is run again because it lacked something or somebody made a row first. Each time it knows more, and
/// one round brings all that is due of an item, so this many can only be needed when others keep changing everything.
const RERUNS: u32 = 64;

/// Decides and commits; one result for each command, in their order. [`Outcome::Later`] is among them, for the caller to
/// bring again.
pub(super) async fn settle(link: &mut Link, batch: &[&Envelope]) -> Vec<Result<Outcome, Failure>> {
    debug_assert!(batch.len() <= BATCH_COMMANDS);
    match try_together(link, batch).await {
        Settled::Each(results) => results,
        Settled::Alarm(what) => match batch {
            [_] | [] => batch.iter().map(|_| Err(alarm(&what))).collect(),
            // One bad row fails the commands that touch it, not those that happened to wait with them.
            _ => {
                let mut results = Vec::with_capacity(batch.len());
                for envelope in batch {
                    results.push(match try_together(link, &[envelope]).await {
                        Settled::Each(mut alone) => alone.pop().unwrap_or_else(|| Err(alarm("no result"))),
                        Settled::Alarm(what) => Err(alarm(&what)),
                    });
                }
                results
            }
        },
    }
}

/// Logged here, once, whatever becomes of the answer.
fn alarm(what: &str) -> Failure {
    tracing::error!(what, "an invariant is broken");
    Failure::Internal(what.to_owned())
}

/// What became of commands that were run together.
enum Settled {
    Each(Vec<Result<Outcome, Failure>>),
    /// An assertion failed, and it can't be told for whom.
    Alarm(String),
}

async fn try_together(link: &mut Link, batch: &[&Envelope]) -> Settled {
    let mut results: Vec<Option<Result<Outcome, Failure>>> = batch.iter().map(|_| None).collect();
    let mut plan = Plan::default();
    let mut tries = Tries::default();
    // Ends: every round settles a command, counts towards a limit, or is the last.
    loop {
        let open: Vec<usize> = results.iter().zip(0..).filter(|(r, _)| r.is_none()).map(|(_, n)| n).collect();
        let envelopes: Vec<&Envelope> = open.iter().filter_map(|n| batch.get(*n).copied()).collect();
        let mut settle = |n: usize, result: Result<Outcome, Failure>| {
            if let Some(place) = open.get(n).and_then(|n| results.get_mut(*n)) {
                *place = Some(result);
            }
        };
        match try_once(link, &envelopes, &mut plan).await {
            Ok(outcomes) => outcomes.into_iter().zip(0..).for_each(|(outcome, n)| settle(n, Ok(outcome))),
            Err(stop) => match tries.verdict(link, stop).await {
                Verdict::Again => {}
                Verdict::Without(n, failure) => settle(n, Err(failure)),
                Verdict::Over(failure) => (0..open.len()).for_each(|n| settle(n, Err(failure.clone()))),
                Verdict::Alarm(what) => return Settled::Alarm(what),
            },
        }
        if results.iter().all(Option::is_some) {
            return Settled::Each(results.into_iter().flatten().collect());
        }
    }
}

/// From no transaction to a commit, or to nothing.
async fn try_once(link: &mut Link, batch: &[&Envelope], plan: &mut Plan) -> Result<Vec<Outcome>, Stop> {
    let (deadline, rules) = (link.config.batch_deadline, link.config.rules.clone());
    let connection = link.get().await.map_err(Stop::Failed)?;
    match tokio::time::timeout(deadline, attempt(connection, &rules, batch, plan)).await {
        Ok(decided) => {
            let Decided { outcomes, writes } = decided?;
            finish(link, writes).await.map_err(Stop::Failed)?;
            Ok(outcomes)
        }
        Err(_) => {
            tracing::warn!("PostgreSQL did not answer in time");
            Err(Stop::Failed(link.cut("the database did not answer in time".to_owned())))
        }
    }
}

/// What to do about a batch that did not get to its commit.
enum Verdict {
    /// Run it again.
    Again,
    /// Run it again without this command, by its number within the attempt.
    Without(usize, Failure),
    /// Give up.
    Over(Failure),
    /// An assertion failed, and it can't be told for whom.
    Alarm(String),
}

#[derive(Default)]
struct Tries {
    retries: u32,
    reruns: u32,
}

impl Tries {
    async fn verdict(&mut self, link: &mut Link, stop: Stop) -> Verdict {
        let waits = match stop {
            Stop::Failed(failure) => return Verdict::Over(failure),
            Stop::Missing => false,
            Stop::Broken(n, what) => {
                roll_back(link).await;
                return Verdict::Without(n, alarm(what));
            }
            Stop::Damaged(what) => {
                roll_back(link).await;
                return Verdict::Alarm(what);
            }
            Stop::Database(error) => match cure(&error) {
                Cure::Again => false,
                Cure::Wait => true,
                Cure::Reconnect => {
                    tracing::warn!(%error, "the connection to PostgreSQL failed");
                    return Verdict::Over(link.cut(error.to_string()));
                }
                Cure::Alarm => {
                    roll_back(link).await;
                    return Verdict::Alarm(text_of(&error));
                }
            },
        };
        roll_back(link).await;
        let count = if waits { &mut self.retries } else { &mut self.reruns };
        *count += 1;
        if self.retries > RETRIES || self.reruns > RERUNS {
            tracing::warn!(self.retries, self.reruns, "a batch is given up");
            return Verdict::Over(Failure::Overloaded);
        }
        if waits {
            tokio::time::sleep(jitter(self.retries)).await;
        }
        Verdict::Again
    }
}

/// What the database said; its own text is in the source of the driver's error.
fn text_of(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
}

/// What an attempt decided; it is written, and waits for its commit.
struct Decided {
    outcomes: Vec<Outcome>,
    /// Whether there is anything to commit.
    writes: bool,
}

/// Everything up to the commit.
async fn attempt(
    connection: &Connection,
    rules: &Rules,
    batch: &[&Envelope],
    plan: &mut Plan,
) -> Result<Decided, Stop> {
    let needs = needs(connection, batch, plan).await?;
    let (now, mut slice) = lock_and_load(connection, &needs, plan).await?;
    let mut effects = Effects::default();
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut postponed = Postponed::default();
    for (n, envelope) in batch.iter().enumerate() {
        if postponed.concerns(&needs, n) {
            postponed.add(&needs, n);
            outcomes.push(Outcome::Later);
            continue;
        }
        let decided = decide(&mut slice, rules, envelope, now, &mut effects);
        if let Some(what) = slice.contradiction {
            return Err(Stop::Broken(n, what));
        }
        match decided {
            Ok(outcome) => {
                if outcome == Outcome::Later {
                    postponed.add(&needs, n);
                }
                outcomes.push(outcome);
            }
            Err(Halt::Missing(missing)) => {
                plan.learn(&missing, &slice)?;
                return Err(Stop::Missing);
            }
            Err(Halt::Broken(what)) => return Err(Stop::Broken(n, what)),
        }
    }
    if !effects.is_empty() {
        write(connection, &slice, &effects).await?;
    }
    Ok(Decided { outcomes, writes: !effects.is_empty() })
}

/// What commands that go on in the next batch are about. A later command about the same has to wait with them, since
/// commands that wait together are decided in the order given; all others go ahead.
#[derive(Default)]
struct Postponed<'a>(BTreeSet<&'a Name>);

impl<'a> Postponed<'a> {
    fn names(needs: &'a Needs, command: usize) -> impl Iterator<Item = &'a Name> {
        let names = needs.of_command.get(command).into_iter().flatten();
        names.filter(|name| !matches!(name, Name::Pause(_)))
    }

    fn concerns(&self, needs: &'a Needs, command: usize) -> bool {
        !self.0.is_empty() && Self::names(needs, command).any(|name| self.0.contains(name))
    }

    fn add(&mut self, needs: &'a Needs, command: usize) {
        self.0.extend(Self::names(needs, command));
    }
}

/// Commits, once. Whatever goes wrong after COMMIT was sent, it may have taken effect.
async fn finish(link: &mut Link, writes: bool) -> Result<(), Failure> {
    if !writes {
        roll_back(link).await;
        return Ok(());
    }
    let deadline = link.config.commit_deadline;
    let Some(connection) = link.held() else {
        return Err(link.cut("the connection was lost before COMMIT".to_owned()));
    };
    let outcome = tokio::time::timeout(deadline, connection.commit()).await;
    let why = match outcome {
        Ok(Ok(true)) => return Ok(()),
        Ok(Ok(false)) => "the server warned at COMMIT".to_owned(),
        Ok(Err(error)) => format!("COMMIT failed: {error}"),
        Err(_) => "COMMIT was not answered in time".to_owned(),
    };
    tracing::warn!(why, "the outcome of a commit is unknown");
    link.cut(why);
    Err(Failure::OutcomeUnknown)
}

/// Ends a transaction that is not to be committed; a connection that can't do that is of no more use.
async fn roll_back(link: &mut Link) {
    let deadline = link.config.batch_deadline;
    let Some(connection) = link.held() else { return };
    let done = tokio::time::timeout(deadline, connection.client.batch_execute("ROLLBACK")).await;
    if !matches!(done, Ok(Ok(()))) {
        tracing::warn!("the connection to PostgreSQL failed at ROLLBACK");
        link.cut("the connection failed at ROLLBACK".to_owned());
    }
}

/// A pause of a random length, so that those who met once do not meet again.
fn jitter(retries: u32) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    let longest = u64::try_from((RETRY_PAUSE * retries).as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random % longest.max(1))
}
