//! One attempt at a batch: from no transaction to a commit, or to nothing.

use super::dialect::{CommitSent, Committed, Locked, Session, Trouble};
use super::slice::Slice;
use super::wants::{Asked, Needs, Plan, explore};
use core::time::Duration;
use std::collections::{BTreeSet, HashSet};
use stockhold_domain::{Effects, Halt, ItemKey, Name, Outcome, Rules, decide, footprint};

/// What bounds an attempt.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// How long holds may last.
    pub(super) rules: Rules,
    /// Up to the commit.
    pub(super) batch_deadline: Duration,
    /// The commit.
    pub(super) commit_deadline: Duration,
}

/// Why an attempt stopped. Except for `Unknown`, nothing of it was committed.
#[derive(Debug)]
pub(super) enum Stop {
    /// The rules asked for what was not loaded; it is in the plan now.
    Missing,
    /// It has to lock items that are not the batch's to lock.
    Beyond(BTreeSet<ItemKey>),
    /// A command, by its number within the attempt, found the state to contradict itself.
    Broken(usize, &'static str),
    /// The database.
    Trouble(Trouble),
    /// The database did not answer in time.
    Late,
    /// The outcome is unknown: why.
    Unknown(String),
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// Decides and commits. `claims` are the items that no other transaction of this instance touches meanwhile.
pub(super) async fn attempt<S: Session>(
    session: &mut S,
    bounds: &Bounds,
    batch: &[&Asked],
    claims: &HashSet<ItemKey>,
    plan: &mut Plan,
) -> Result<Vec<Outcome>, Stop> {
    let found = in_time(bounds.batch_deadline, async {
        let needs = explore(session, batch, plan).await?;
        let beyond: BTreeSet<_> =
            needs.wants.items.iter().filter(|key| !claims.contains(*key)).cloned().collect();
        if !beyond.is_empty() {
            return Err(Stop::Beyond(beyond));
        }
        let begun = std::time::Instant::now();
        let locked = session.lock(&needs.wants).await?;
        super::meters::locked(begun.elapsed());
        Ok((needs, locked))
    });
    let (needs, Locked { now, serial, rows }) = found.await?;
    let mut slice = Slice::of(&needs.wants, rows);
    check_footprints(batch, &slice, plan, now)?;
    let mut effects = Effects::default();
    let outcomes = decide_all(batch, &needs, &mut slice, &bounds.rules, now, &mut effects, plan)?;
    if effects.is_empty() {
        in_time(bounds.batch_deadline, async { Ok(session.roll_back().await?) }).await?;
    } else {
        commit(session, bounds, &slice, &effects, serial).await?;
    }
    Ok(outcomes)
}

/// What commands name once their keys and reservations are known has to be loaded as well: all of it is learnt at once,
/// where the rules would ask for one thing at a time.
fn check_footprints(
    batch: &[&Asked],
    slice: &Slice,
    plan: &mut Plan,
    now: stockhold_domain::Instant,
) -> Result<(), Stop> {
    let mut names = Vec::new();
    for asked in batch {
        footprint(slice, &asked.envelope, &mut names);
    }
    names.retain(|name| !matches!(name, Name::Due(_)) && !slice.has(name));
    if plan.extend(names, now) { Err(Stop::Missing) } else { Ok(()) }
}

fn decide_all(
    batch: &[&Asked],
    needs: &Needs,
    slice: &mut Slice,
    rules: &Rules,
    now: stockhold_domain::Instant,
    effects: &mut Effects,
    plan: &mut Plan,
) -> Result<Vec<Outcome>, Stop> {
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut postponed = Postponed::default();
    for (n, asked) in batch.iter().enumerate() {
        if postponed.concerns(needs, n, asked) {
            postponed.add(needs, n, asked);
            outcomes.push(Outcome::Later);
            continue;
        }
        let decided = decide(slice, rules, &asked.envelope, now, effects);
        if let Some(what) = slice.contradiction {
            return Err(Stop::Broken(n, what));
        }
        match decided {
            Ok(outcome) => {
                if outcome == Outcome::Later {
                    postponed.add(needs, n, asked);
                }
                outcomes.push(outcome);
            }
            Err(Halt::Missing(missing)) => {
                plan.learn(&missing, slice, now)?;
                return Err(Stop::Missing);
            }
            Err(Halt::Broken(what)) => return Err(Stop::Broken(n, what)),
        }
    }
    Ok(outcomes)
}

/// Commits, once. Whatever goes wrong after COMMIT was sent, it may have taken effect; unless the server itself said why
/// it did not.
pub(super) async fn commit<S: Session>(
    session: &mut S,
    bounds: &Bounds,
    slice: &Slice,
    effects: &Effects,
    serial: u64,
) -> Result<(), Stop> {
    let sent = CommitSent::default();
    let changes = slice.changes(effects, serial);
    let begun = std::time::Instant::now();
    let committed = tokio::time::timeout(bounds.commit_deadline, session.commit(&changes, &sent)).await;
    match committed {
        Ok(Ok(Committed::Durable)) => {
            super::meters::committed(begun.elapsed());
            Ok(())
        }
        Ok(Ok(Committed::InDoubt(why))) => Err(Stop::Unknown(why)),
        Ok(Err(Trouble::Lost(why))) if sent.is_marked() => Err(Stop::Unknown(why)),
        Ok(Err(trouble)) => Err(Stop::Trouble(trouble)),
        Err(_) if sent.is_marked() => Err(Stop::Unknown("COMMIT was not answered in time".to_owned())),
        Err(_) => Err(Stop::Late),
    }
}

async fn in_time<T>(deadline: Duration, work: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    tokio::time::timeout(deadline, work).await.unwrap_or(Err(Stop::Late))
}

/// What commands that go on in the next batch are about. A later command about the same has to wait with them, since
/// commands that wait together are decided in the order given; all others go ahead.
#[derive(Default)]
struct Postponed<'a> {
    names: BTreeSet<&'a Name>,
    sequences: BTreeSet<u64>,
}

impl<'a> Postponed<'a> {
    fn names(needs: &'a Needs, command: usize) -> impl Iterator<Item = &'a Name> {
        let names = needs.of_command.get(command).into_iter().flatten();
        names.filter(|name| !matches!(name, Name::Pause(_)))
    }

    fn concerns(&self, needs: &'a Needs, command: usize, asked: &Asked) -> bool {
        let in_sequence = asked.sequence.is_some_and(|number| self.sequences.contains(&number));
        in_sequence
            || (!self.names.is_empty() && Self::names(needs, command).any(|name| self.names.contains(name)))
    }

    fn add(&mut self, needs: &'a Needs, command: usize, asked: &Asked) {
        self.names.extend(Self::names(needs, command));
        self.sequences.extend(asked.sequence);
    }
}
