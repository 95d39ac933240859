//! Expires overdue reservations whose rows nobody else has locked.

use super::find::OverdueHold;
use crate::engine::db_error::{DbError, report_violation};
use crate::engine::decide::commit;
use crate::engine::dialect::{Deadline, LockSet, LockedRows, Session};
use crate::engine::lock::{AttemptError, AttemptLimits};
use crate::engine::meters;
use crate::engine::sessions::within_deadline;
use crate::engine::state::{DeadlineWindow, LoadedState};
use std::collections::BTreeSet;
use std::sync::Arc;
use stockhold_domain::{
    DecideError, Effects, Envelope, ItemKey, LineUnits, Outcome, Reply, ReservationId, Status, decide,
};

/// The result of one sweep.
pub(crate) struct SweepResult<S> {
    /// The session, if it can still be used.
    pub(crate) session: Option<S>,
    /// How many reservations were expired.
    pub(crate) expired: usize,
    /// Reservations that could not be expired.
    pub(crate) failed: Vec<ReservationId>,
}

/// Expires overdue reservations in one transaction. If an invariant is violated, it expires them one by one, so that one bad row
/// stops no other reservation.
pub(crate) async fn sweep<S: Session>(
    session: S,
    limits: &AttemptLimits,
    due: Vec<OverdueHold>,
    envelope: &Envelope,
) -> SweepResult<S> {
    let mut result = SweepResult { session: Some(session), expired: 0, failed: Vec::new() };
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
            AttemptError::Database(DbError::InvariantViolated(what)) => result.fail(one.0, what),
            AttemptError::InvariantViolated(_, what) => result.fail(one.0, what),
            _ => {}
        }
    }
    result
}

impl<S: Session> SweepResult<S> {
    async fn attempt(
        &mut self,
        limits: &AttemptLimits,
        due: &[OverdueHold],
        envelope: &Envelope,
    ) -> Result<(), AttemptError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let expired = expire(session, limits, due, envelope).await?;
        meters::swept(expired);
        self.expired += expired;
        Ok(())
    }

    fn fail(&mut self, id: ReservationId, what: &str) {
        report_violation(&format!("reservation {id} can't be expired: {what}"));
        self.failed.push(id);
    }

    /// Cleans up after a failed attempt. The next round finds the reservations again.
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

/// Expires the reservations of which nobody else has locked anything, in one transaction. Returns their number.
async fn expire<S: Session>(
    session: &mut S,
    limits: &AttemptLimits,
    due: &[OverdueHold],
    envelope: &Envelope,
) -> Result<usize, AttemptError> {
    let unit_items: BTreeSet<&ItemKey> =
        due.iter().flat_map(|(_, refs)| refs.units.iter().map(|(key, _)| key)).collect();
    // Where units have ids, the units are locked and not the item.
    let mut lock_set = LockSet {
        items: due
            .iter()
            .flat_map(|(_, refs)| &*refs.items)
            .filter(|key| !unit_items.contains(key))
            .cloned()
            .collect(),
        holds: due.iter().map(|(id, _)| *id).collect(),
        ..LockSet::default()
    };
    add_units(&mut lock_set, due);
    let locked = within_deadline(limits.batch_deadline, async {
        let locked = session.lock_skip_locked(&lock_set).await?;
        let item = |key: &ItemKey| locked.items.contains(key) || unit_items.contains(key);
        let units = |(key, units): &(ItemKey, Arc<LineUnits>)| {
            units.all().iter().all(|unit| locked.units.contains(&(key.clone(), unit.id.clone())))
        };
        let is_complete = |(id, refs): &&OverdueHold| {
            locked.holds.contains(id) && refs.items.iter().all(item) && refs.units.iter().all(units)
        };
        let complete: Vec<OverdueHold> = due.iter().filter(is_complete).cloned().collect();
        lock_set = LockSet {
            items: locked.items,
            holds: complete.iter().map(|(id, _)| *id).collect(),
            ..LockSet::default()
        };
        add_units(&mut lock_set, &complete);
        if lock_set.holds.is_empty() {
            session.roll_back().await?;
            return Ok(None);
        }
        session.lock(&lock_set).await.map(Some)
    });
    let Some(LockedRows { now, serial, rows }) = locked.await? else { return Ok(0) };
    let active = rows.holds.iter().filter(|hold| hold.status == Status::Active);
    let deadlines: BTreeSet<Deadline> = active.map(|hold| (hold.expires_at, hold.id)).collect();
    let depth = deadlines.len() + 1;
    let mut state = LoadedState::of(&lock_set, rows);
    // The sweep sees only the reservations that it has locked.
    state.any_due = Some(DeadlineWindow::new(deadlines, depth));
    let mut effects = Effects::default();
    loop {
        let mut some = Effects::default();
        let swept = decide(&mut state, &limits.rules, envelope, now, &mut some);
        effects.events.append(&mut some.events);
        match swept {
            Ok(Outcome::Done(Reply::Swept { expired: 0 })) => break,
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
    let expired = effects.events.len();
    if effects.is_empty() {
        within_deadline(limits.batch_deadline, session.roll_back()).await?;
    } else {
        commit(session, limits, &state.changes(&effects, serial, limits.counter_shard)).await?;
    }
    Ok(expired)
}

/// Adds the units of reservations to a lock set: the units are locked by their ids, and their items are only read.
fn add_units(lock_set: &mut LockSet, due: &[OverdueHold]) {
    for (key, units) in due.iter().flat_map(|(_, refs)| &*refs.units) {
        lock_set.seen.insert(key.clone());
        let of_item = lock_set.units.entry(key.clone()).or_default();
        of_item.named.extend(units.all().iter().map(|unit| unit.id.clone()));
    }
}
