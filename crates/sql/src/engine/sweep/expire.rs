//! Expires overdue reservations and releases pools of items, as far as nobody else has locked their rows.

use super::find::{Overdue, OverdueName};
use crate::engine::db_error::{DbError, report_violation};
use crate::engine::decide::commit;
use crate::engine::dialect::{Deadline, LockSet, LockedRows, Release, Session};
use crate::engine::lock::{AttemptError, AttemptLimits};
use crate::engine::meters;
use crate::engine::sessions::within_deadline;
use crate::engine::state::{DeadlineWindow, LoadedState};
use crate::engine::unit_counters::next_release;
use std::collections::BTreeSet;
use std::sync::Arc;
use stockhold_domain::{
    CounterKey, DecideError, Effects, Envelope, Event, Item, ItemKey, LineUnits, Mode, NotLoaded, Outcome,
    Reply, ReservationId, Resource, State, Status, StockCounters, Transition, decide,
    limits::UNPOOLED_PER_BATCH,
};

/// The result of one sweep.
pub(crate) struct SweepResult<S> {
    /// The session, if it can still be used.
    pub(crate) session: Option<S>,
    /// How many reservations were expired and how many pools released.
    pub(crate) done: usize,
    /// What could not be expired or released.
    pub(crate) failed: Vec<OverdueName>,
}

/// Expires overdue reservations and releases pools in one transaction. If an invariant is violated, it does so one by one, so that one
/// bad row stops nothing else.
pub(crate) async fn sweep<S: Session>(
    session: S,
    limits: &AttemptLimits,
    due: Vec<Overdue>,
    envelope: &Envelope,
) -> SweepResult<S> {
    let mut result = SweepResult { session: Some(session), done: 0, failed: Vec::new() };
    let Err(error) = result.attempt(limits, &due, envelope).await else { return result };
    let alarmed = matches!(
        error,
        AttemptError::Database(DbError::InvariantViolated(_)) | AttemptError::InvariantViolated(..)
    );
    result.clean_up(limits, &error).await;
    if !alarmed {
        return result;
    }
    for one in &due {
        if result.session.is_none() {
            break;
        }
        let Err(error) = result.attempt(limits, core::slice::from_ref(one), envelope).await else {
            continue;
        };
        result.clean_up(limits, &error).await;
        match &error {
            AttemptError::Database(DbError::InvariantViolated(what)) => result.fail(&one.0, what),
            AttemptError::InvariantViolated(_, what) => result.fail(&one.0, what),
            _ => {}
        }
    }
    result
}

impl<S: Session> SweepResult<S> {
    async fn attempt(
        &mut self,
        limits: &AttemptLimits,
        due: &[Overdue],
        envelope: &Envelope,
    ) -> Result<(), AttemptError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let SweepCounts { holds, pools } = expire(session, limits, due, envelope).await?;
        meters::swept(holds);
        self.done += holds + pools;
        Ok(())
    }

    fn fail(&mut self, name: &OverdueName, what: &str) {
        report_violation(&match name {
            OverdueName::Hold(id) => format!("reservation {id} can't be expired: {what}"),
            OverdueName::Release((_, key)) => format!("no pool of {key:?} can be released: {what}"),
        });
        self.failed.push(name.clone());
    }

    /// Cleans up after a failed attempt. The next round finds everything again.
    async fn clean_up(&mut self, limits: &AttemptLimits, error: &AttemptError) {
        let keeps = match error {
            AttemptError::OutcomeUnknown(_)
            | AttemptError::TimedOut
            | AttemptError::Database(DbError::ConnectionLost(_)) => false,
            AttemptError::Database(DbError::Deadlock(_)) => {
                meters::deadlock();
                true
            }
            AttemptError::Database(DbError::LockTimeout(_)) => {
                meters::lock_timeout();
                true
            }
            _ => true,
        };
        let rolled_back = match &mut self.session {
            Some(session) if keeps => {
                within_deadline(limits.batch_deadline, session.roll_back()).await.is_ok()
            }
            _ => false,
        };
        if !rolled_back {
            tracing::warn!(?error, "the sweeper drops a connection");
            self.session = None;
        }
    }
}

/// What one transaction of the sweeper has ended.
#[derive(Default)]
struct SweepCounts {
    /// Reservations that were expired.
    holds: usize,
    /// Pools that were released.
    pools: usize,
}

/// The reservations among what is overdue.
fn holds_of(due: &[Overdue]) -> BTreeSet<ReservationId> {
    let hold = |(name, _): &Overdue| match name {
        OverdueName::Hold(id) => Some(*id),
        OverdueName::Release(_) => None,
    };
    due.iter().filter_map(hold).collect()
}

/// The items with pools to release among what is overdue.
fn releases_of(due: &[Overdue]) -> impl Iterator<Item = &Release> {
    due.iter().filter_map(|(name, _)| match name {
        OverdueName::Hold(_) => None,
        OverdueName::Release(release) => Some(release),
    })
}

/// Ends that of which nobody else has locked anything, in one transaction.
async fn expire<S: Session>(
    session: &mut S,
    limits: &AttemptLimits,
    due: &[Overdue],
    envelope: &Envelope,
) -> Result<SweepCounts, AttemptError> {
    let unit_items: BTreeSet<&ItemKey> =
        due.iter().flat_map(|(_, refs)| refs.units.iter().map(|(key, _)| key)).collect();
    let with_release: BTreeSet<&ItemKey> = releases_of(due).map(|(_, key)| key).collect();
    // Where units have ids, the units are locked and not the item, unless a pool of it is to be released.
    let mut lock_set = LockSet {
        items: due
            .iter()
            .flat_map(|(_, refs)| &*refs.items)
            .filter(|key| !unit_items.contains(key) || with_release.contains(key))
            .cloned()
            .collect(),
        holds: holds_of(due),
        ..LockSet::default()
    };
    add_units(&mut lock_set, due);
    add_counters(&mut lock_set, due);
    let locked = within_deadline(limits.batch_deadline, async {
        let locked = session.lock_skip_locked(&lock_set).await?;
        let only_units = |key: &ItemKey| unit_items.contains(key) && !with_release.contains(key);
        let item = |key: &ItemKey| locked.items.contains(key) || only_units(key);
        let units = |(key, units): &(ItemKey, Arc<LineUnits>)| {
            units.all().iter().all(|unit| locked.units.contains(&(key.clone(), unit.id.clone())))
        };
        let is_complete = |(name, refs): &&Overdue| {
            let is_free = |key: &CounterKey| !locked.counters_of_others.contains(key);
            let is_locked = match name {
                OverdueName::Hold(id) => locked.holds.contains(id),
                OverdueName::Release(_) => true,
            };
            is_locked
                && refs.items.iter().all(item)
                && refs.counters.iter().all(is_free)
                && refs.units.iter().all(units)
        };
        let complete: Vec<Overdue> = due.iter().filter(is_complete).cloned().collect();
        lock_set = LockSet { items: locked.items, holds: holds_of(&complete), ..LockSet::default() };
        add_units(&mut lock_set, &complete);
        add_counters(&mut lock_set, &complete);
        if complete.is_empty() {
            session.roll_back().await?;
            return Ok(None);
        }
        add_units_of_pools(session, &mut lock_set, &complete).await?;
        Ok(Some((complete, session.lock(&lock_set).await?)))
    });
    let Some((complete, LockedRows { now, serial, rows })) = locked.await? else {
        return Ok(SweepCounts::default());
    };
    let active = rows.holds.iter().filter(|hold| hold.status == Status::Active);
    let deadlines: BTreeSet<Deadline> = active.map(|hold| (hold.expires_at, hold.id)).collect();
    let depth = deadlines.len() + 1;
    let mut state = LoadedState::of(&lock_set, rows);
    let items: Vec<(Release, Item)> = releases_of(&complete)
        .filter_map(|release| Some((release.clone(), state.item(&release.1).ok()??.clone())))
        .collect();
    let releases: BTreeSet<Release> =
        items.iter().filter_map(|(_, item)| Some((item.pools.release_due_at()?, item.key.clone()))).collect();
    let release_depth = releases.len() + 1;
    // The sweep sees only what it has locked.
    state.any_due = Some(DeadlineWindow::new(deadlines, depth));
    state.any_release = Some(DeadlineWindow::new(releases, release_depth));
    let mut effects = Effects::default();
    loop {
        let mut some = Effects::default();
        let swept = decide(&mut state, &limits.rules, envelope, now, &mut some);
        effects.events.append(&mut some.events);
        match swept {
            // Or others have locked units of a pool, or it has more than one batch takes out. The next pass goes on.
            Ok(Outcome::Done(Reply::Swept { expired: 0, released: 0 }))
            | Err(DecideError::NotLoaded(NotLoaded(Resource::FreeUnits(..)))) => break,
            Ok(_) => {}
            Err(DecideError::InvariantViolated(what)) => {
                return Err(AttemptError::InvariantViolated(0, what));
            }
            Err(DecideError::NotLoaded(missing)) => {
                return Err(AttemptError::Database(DbError::InvariantViolated(format!(
                    "a sweep needs {:?}, which is not loaded",
                    missing.0
                ))));
            }
        }
    }
    if let Some(what) = state.violated_invariant {
        return Err(AttemptError::InvariantViolated(0, what));
    }
    let is_release = |event: &&Event| matches!(event.transition, Transition::Stock { .. });
    let pools = effects.events.iter().filter(is_release).count();
    let swept = SweepCounts { holds: effects.events.len() - pools, pools };
    if effects.is_empty() {
        within_deadline(limits.batch_deadline, session.roll_back()).await?;
    } else {
        commit(session, limits, &state.changes(&effects, serial, limits.counter_shard)).await?;
    }
    // Where units have ids, draws have moved the time of a release without writing the row of the item.
    let is_early = |item: &Item| item.pools.release_due_at().is_none_or(|due| due > now);
    for (release, item) in items.iter().filter(|(_, item)| item.mode == Mode::Units && is_early(item)) {
        let figures = StockCounters { at: now.max(item.figures.at), ..item.figures };
        let next = next_release(&Item { figures, ..item.clone() });
        within_deadline(limits.batch_deadline, session.move_release(release, next)).await?;
    }
    Ok(swept)
}

/// Adds the free units of pools that are to be released, where units have ids.
async fn add_units_of_pools<S: Session>(
    session: &mut S,
    lock_set: &mut LockSet,
    due: &[Overdue],
) -> Result<(), DbError> {
    let items: BTreeSet<ItemKey> = releases_of(due).map(|(_, key)| key.clone()).collect();
    if items.is_empty() {
        return Ok(());
    }
    let found = session.read(&LockSet { items, ..LockSet::default() }).await?;
    for item in found.items.iter().filter(|item| item.mode == Mode::Units) {
        let of_item = lock_set.units.entry(item.key.clone()).or_default();
        for pool in item.pools.all().iter().filter(|pool| pool.release_due_at().is_some()) {
            let most = pool.free().min(UNPOOLED_PER_BATCH.into());
            of_item.free.insert(Some(pool.name.clone()), usize::try_from(most).unwrap_or(usize::MAX));
        }
    }
    Ok(())
}

/// Adds the units of reservations to a lock set: the units are locked by their ids, and their items are only read.
fn add_units(lock_set: &mut LockSet, due: &[Overdue]) {
    for (key, units) in due.iter().flat_map(|(_, refs)| &*refs.units) {
        lock_set.seen.insert(key.clone());
        let of_item = lock_set.units.entry(key.clone()).or_default();
        of_item.named.extend(units.all().iter().map(|unit| unit.id.clone()));
    }
}

/// Adds the counters of limits that count units of reservations.
fn add_counters(lock_set: &mut LockSet, due: &[Overdue]) {
    lock_set.counters.extend(due.iter().flat_map(|(_, refs)| refs.counters.iter().cloned()));
    lock_set.limits = !lock_set.counters.is_empty();
}
