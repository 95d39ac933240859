//! One attempt at a batch: from no transaction to a commit, or to nothing.

use super::dialect::{Changes, CommitSent, Committed, Locked, Session, Trouble};
use super::slice::Slice;
use super::wants::{Asked, Needs, Plan, explore, named_hold};
use core::time::Duration;
use std::collections::{BTreeSet, HashSet};
use stockhold_domain::{
    Command, Effects, Envelope, Halt, ItemKey, Name, Outcome, Rules, State, Subject, decide, footprint,
};

/// What bounds an attempt.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// The part of items' figures that this instance adds to.
    pub(super) part: u16,
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
            needs.wants.all_items().filter(|key| !claims.contains(*key)).cloned().collect();
        if !beyond.is_empty() {
            return Err(Stop::Beyond(beyond));
        }
        let begun = std::time::Instant::now();
        let locked = session.lock(&needs.wants).await?;
        super::meters::locked(begun.elapsed());
        Ok((needs, locked))
    });
    let (needs, Locked { now, serial, rows }) = found.await?;
    let mut slice = Slice::with_maps(&needs.wants, rows, &plan.maps);
    if plan.lose(&slice) {
        return Err(Stop::Missing);
    }
    check_footprints(batch, &needs, &slice, plan, now)?;
    let mut effects = Effects::default();
    let outcomes = decide_all(batch, &needs, &mut slice, &bounds.rules, now, &mut effects, plan)?;
    if plan.lock_what_was_planned(&slice) {
        return Err(Stop::Missing);
    }
    if effects.is_empty() {
        in_time(bounds.batch_deadline, async { Ok(session.roll_back().await?) }).await?;
    } else {
        commit(session, bounds, &slice.changes(&effects, serial, bounds.part)).await?;
    }
    Ok(outcomes)
}

/// What commands name once their keys and reservations are known has to be loaded as well: all of it is learnt at once,
/// where the rules would ask for one thing at a time.
fn check_footprints(
    batch: &[&Asked],
    needs: &Needs,
    slice: &Slice,
    plan: &mut Plan,
    now: stockhold_domain::Instant,
) -> Result<(), Stop> {
    let mut names = Vec::new();
    for asked in batch {
        footprint(slice, &asked.envelope, &mut names);
    }
    names.retain(|name| !matches!(name, Name::Due(_)) && !slice.has(name));
    let mut lacks = plan.extend(names, now);
    if !slice.uncounted.is_empty() {
        plan.expect_halls(slice.uncounted.iter().cloned());
        lacks = true;
    }
    lacks |= plan.guard(guarded(batch, needs, slice));
    if lacks { Err(Stop::Missing) } else { Ok(()) }
}

/// Items of which some units are kept from sale: how many are left is a sum over rows that nobody has locked, unless whoever
/// takes any locks the item.
fn guarded(batch: &[&Asked], needs: &Needs, slice: &Slice) -> impl Iterator<Item = ItemKey> {
    let wants = batch.iter().filter_map(|asked| match &asked.envelope.command {
        Command::Reserve(reserve) => Some(reserve.basket.wants()),
        _ => None,
    });
    wants
        .flatten()
        .map(|want| &want.item)
        .filter(|key| needs.wants.seen.contains(*key))
        .filter(|key| {
            let item = slice.item(key).ok().flatten();
            item.is_some_and(|item| item.settings.safety_stock > 0)
        })
        .cloned()
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
        let decided = match without_key(asked, slice) {
            Some(envelope) => decide(slice, rules, &envelope, now, effects),
            None => decide(slice, rules, &asked.envelope, now, effects),
        };
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

/// A command about a reservation that is not there, though its key is: the key was used when the reservation had ended long
/// before, and the reservation has left for an archive since. There is nothing that the key could show again.
fn without_key(asked: &Asked, slice: &Slice) -> Option<Envelope> {
    let (id, key) = (named_hold(&asked.envelope.command)?, asked.envelope.key?);
    let record = slice.key(key.hash).ok()??;
    let outlived = record.fingerprint == key.fingerprint
        && record.subject == Subject::Reservation(id)
        && slice.hold(id).is_ok_and(|hold| hold.is_none());
    outlived.then(|| Envelope { key: None, ..(*asked.envelope).clone() })
}

/// Commits, once. Whatever goes wrong after COMMIT was sent, it may have taken effect; unless the server itself said why
/// it did not.
pub(super) async fn commit<S: Session>(
    session: &mut S,
    bounds: &Bounds,
    changes: &Changes<'_>,
) -> Result<(), Stop> {
    let sent = CommitSent::default();
    let begun = std::time::Instant::now();
    let committed = tokio::time::timeout(bounds.commit_deadline, session.commit(changes, &sent)).await;
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
