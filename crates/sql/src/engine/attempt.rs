//! One attempt at a batch: from no transaction to a commit, or to nothing.

use super::dialect::{Changes, CommitSent, Committed, Locked, Session, Trouble, Wants};
use super::slice::Slice;
use super::wants::{Asked, Needs, Plan, explore, named_hold};
use core::time::Duration;
use std::collections::{BTreeSet, HashMap, HashSet};
use stockhold_domain::{
    Command, DecideError, Effects, Envelope, HoldLimits, ItemKey, KeyTarget, Mode, Outcome, RequestedLine,
    Resource, State, decide, footprint,
};

/// What bounds an attempt.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// The part of items' figures that is added to.
    pub(super) part: u16,
    /// How long holds may last.
    pub(super) rules: HoldLimits,
    /// Up to the commit.
    pub(super) batch_deadline: Duration,
    /// The commit.
    pub(super) commit_deadline: Duration,
}

/// Why an attempt stopped. Except for `Unknown`, nothing of it was committed.
#[derive(Debug)]
pub(super) enum Stop {
    /// The rules asked for what was not loaded; it is in the plan now.
    NotLoaded,
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

/// What a batch locks, and what was found then. Those who come for it until it is decided may join it.
#[derive(Debug)]
pub(super) struct Boarded {
    needs: Needs,
    locked: Locked,
    /// Commands that were there when it was locked; those behind them have joined.
    first: usize,
}

/// What there is for those who come for a batch that is locked.
pub(super) struct Room<'a> {
    wants: &'a Wants,
    /// Units of counted items when they were locked.
    there: HashMap<&'a ItemKey, u64>,
}

impl Room<'_> {
    /// Whether all that a command may touch is locked and loaded, but for its key, which is taken for new: a reserve that succeeds
    /// puts it in, and the database refuses one that is there. Whatever else it comes to is decided again, with its key read.
    pub(super) fn takes(&self, asked: &Asked) -> bool {
        let Command::Reserve(reserve) = &asked.envelope.command else { return false };
        let mut names = Vec::new();
        footprint(&Slice::default(), &asked.envelope, &mut names);
        let is_there = |name: &Resource| match name {
            Resource::Item(item) => self.wants.items.contains(item),
            Resource::Pause(location) => self.wants.pauses.contains(&Slice::pause_key(location.as_ref())),
            // What is due is asked for when stock falls short.
            Resource::Key(_) | Resource::Due(_) => true,
            _ => false,
        };
        let enough =
            |want: &RequestedLine| self.there.get(&want.item).is_some_and(|there| *there >= want.quantity);
        names.iter().all(is_there) && reserve.basket.lines().iter().all(enough)
    }
}

impl Boarded {
    /// For those who come now.
    pub(super) fn room(&self) -> Room<'_> {
        let counted = self.locked.rows.items.iter().filter(|item| item.mode == Mode::Counted);
        let there = counted.map(|item| (&item.key, item.available())).collect();
        Room { wants: &self.needs.wants, there }
    }

    /// Takes in what those name who have joined.
    fn join(&mut self, joined: &[&Asked]) {
        for asked in joined {
            let mut names = Vec::new();
            footprint(&Slice::default(), &asked.envelope, &mut names);
            self.needs.of_command.push(names);
        }
    }
}

/// Finds out what to lock, locks it and loads it. `claims` are the items that no other transaction of this instance touches
/// meanwhile.
pub(super) async fn board<S: Session>(
    session: &mut S,
    bounds: &Bounds,
    batch: &[&Asked],
    claims: &HashSet<ItemKey>,
    plan: &mut Plan,
) -> Result<Boarded, Stop> {
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
        Ok(Boarded { needs, locked, first: batch.len() })
    });
    found.await
}

/// Decides and commits what was locked for a batch, and for those who joined it.
pub(super) async fn depart<S: Session>(
    session: &mut S,
    bounds: &Bounds,
    batch: &[&Asked],
    mut boarded: Boarded,
    plan: &mut Plan,
) -> Result<Vec<Outcome>, Stop> {
    let (first, joined) = batch.split_at(boarded.first.min(batch.len()));
    boarded.join(joined);
    let Boarded { needs, locked: Locked { now, serial, rows }, .. } = boarded;
    let mut slice = Slice::with_maps(&needs.wants, rows, &plan.maps);
    if plan.lose(&slice) {
        return Err(Stop::NotLoaded);
    }
    check_footprints(first, &needs, &slice, plan, now)?;
    for asked in joined {
        slice.take_key_for_new(&asked.envelope);
    }
    let mut effects = Effects::default();
    let deciding = Deciding { rules: &bounds.rules, now, first: first.len() };
    let outcomes = deciding.all(batch, &needs, &mut slice, &mut effects, plan)?;
    if plan.lock_what_was_planned(&slice) {
        return Err(Stop::NotLoaded);
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
    names.retain(|name| !matches!(name, Resource::Due(_)) && !slice.has(name));
    let mut lacks = plan.extend(names, now);
    if !slice.uncounted.is_empty() {
        plan.expect_halls(slice.uncounted.iter().cloned());
        lacks = true;
    }
    lacks |= plan.guard(guarded(batch, needs, slice));
    lacks |= plan.foresee(asked_too_much(batch, slice), slice, now);
    if lacks { Err(Stop::NotLoaded) } else { Ok(()) }
}

/// Items of which some units are kept from sale: how many are left is a sum over rows that nobody has locked, unless whoever
/// takes any locks the item.
fn guarded(batch: &[&Asked], needs: &Needs, slice: &Slice) -> impl Iterator<Item = ItemKey> {
    let wants = batch.iter().filter_map(|asked| match &asked.envelope.command {
        Command::Reserve(reserve) => Some(reserve.basket.lines()),
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

/// Items of which more is asked for than there is, and how much more: what falls due of them will matter.
fn asked_too_much<'a>(batch: &[&'a Asked], slice: &Slice) -> Vec<(&'a ItemKey, u64)> {
    let mut asked_for: HashMap<&ItemKey, u64> = HashMap::new();
    for asked in batch {
        if let Command::Reserve(reserve) = &asked.envelope.command {
            for want in reserve.basket.lines() {
                let sum = asked_for.entry(&want.item).or_default();
                *sum = sum.saturating_add(want.quantity);
            }
        }
    }
    let short = |(key, sum): (_, u64)| {
        let there = slice.item(key).ok()??.available();
        Some((key, sum.checked_sub(there).filter(|short| *short > 0)?))
    };
    asked_for.into_iter().filter_map(short).collect()
}

/// By what a batch is decided.
struct Deciding<'a> {
    rules: &'a HoldLimits,
    now: stockhold_domain::Instant,
    /// Commands whose keys were read; those behind them have joined.
    first: usize,
}

impl Deciding<'_> {
    fn all(
        &self,
        batch: &[&Asked],
        needs: &Needs,
        slice: &mut Slice,
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
                Some(envelope) => decide(slice, self.rules, &envelope, self.now, effects),
                None => decide(slice, self.rules, &asked.envelope, self.now, effects),
            };
            if let Some(what) = slice.contradiction {
                return Err(Stop::Broken(n, what));
            }
            match decided {
                Ok(outcome) => {
                    let is_final = n < self.first || matches!(outcome, Outcome::Done(_));
                    let outcome = if is_final { outcome } else { Outcome::Later };
                    if outcome == Outcome::Later {
                        postponed.add(needs, n, asked);
                    }
                    outcomes.push(outcome);
                }
                Err(DecideError::NotLoaded(missing)) => {
                    plan.learn(&missing, slice, self.now)?;
                    return Err(Stop::NotLoaded);
                }
                Err(DecideError::InvariantViolated(what)) => return Err(Stop::Broken(n, what)),
            }
        }
        Ok(outcomes)
    }
}

/// A command about a reservation that is not there, though its key is: the key was used when the reservation had ended long
/// before, and the reservation has left for an archive since. There is nothing that the key could show again.
fn without_key(asked: &Asked, slice: &Slice) -> Option<Envelope> {
    let (id, key) = (named_hold(&asked.envelope.command)?, asked.envelope.key?);
    let record = slice.key(key.hash).ok()??;
    let outlived = record.fingerprint == key.fingerprint
        && record.target == KeyTarget::Reservation(id)
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
    names: BTreeSet<&'a Resource>,
    sequences: BTreeSet<u64>,
}

impl<'a> Postponed<'a> {
    fn names(needs: &'a Needs, command: usize) -> impl Iterator<Item = &'a Resource> {
        let names = needs.of_command.get(command).into_iter().flatten();
        names.filter(|name| !matches!(name, Resource::Pause(_)))
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

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;
