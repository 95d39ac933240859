//! The sweeper: expires what is overdue and what nobody stumbled upon, the oldest deadline first.
//!
//! It looks without locks, claims the items of what it found like any other batch, and then locks what nobody else has
//! locked (`SKIP LOCKED`): whoever has an item may well be expiring the same. Only holds of which all items were had are
//! expired, so never half a basket. An item that others have locked is passed by for a while, with all of its holds, so that
//! looks get to what is due behind them. What is overdue for long is waited for: one item after the other, beside the looks,
//! so that who waits keeps nothing else. A hold that can't be expired is counted; that one, and what was waited for in vain, is
//! left alone for longer.

use crate::engine::db_error::{DbError, report_violation};
use crate::engine::decide::commit;
use crate::engine::dialect::{Deadline, LockSet, LockedRows, Session};
use crate::engine::lock::{AttemptError, AttemptLimits};
use crate::engine::meters;
use crate::engine::plan::ReservationRefs;
use crate::engine::read::read_reservations;
use crate::engine::sessions::{recover, within_deadline};
use crate::engine::state::{DeadlineWindow, LoadedState};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use stockhold_domain::{
    Command, DecideError, Effects, Envelope, GeneratedIds, Instant, ItemKey, Label, LineUnits, Origin,
    Outcome, Reply, RequestId, ReservationId, Status, decide,
};
use stockhold_store::ids::IdSource;
use tokio::time::Instant as Moment;

/// Who expires holds, as their events say.
const ACTOR: &str = "stockhold";
/// How long overdue a hold may be before its items' locks are waited for: well within what is promised, and longer than any
/// crowd around an item lasts that expires by itself what it needs.
const PATIENCE_MICROS: i64 = 5_000_000;
/// How long a hold that could not be expired is left alone, or what was waited for in vain.
const LEFT_ALONE: Duration = Duration::from_secs(20);
/// How long what others have locked is passed by.
const PASSED_BY: Duration = Duration::from_secs(1);
/// Items, or holds with units, that may stand in line to be waited for.
const MOST_WAITS: usize = 16;

/// An overdue hold and what it is about.
pub(crate) type OverdueHold = (ReservationId, ReservationRefs);

/// What a look found.
#[derive(Debug, Default)]
pub(crate) struct OverdueScan {
    /// Oldest first.
    pub(crate) due: Vec<OverdueHold>,
    /// Whether there may be more.
    pub(crate) more: bool,
    /// Whether locks are to be waited for.
    pub(crate) patient: bool,
    /// Overdue holds that can't be read.
    pub(crate) damaged: Vec<ReservationId>,
}

/// What one look has led to.
#[derive(Debug, Default)]
pub(crate) struct SweepRound {
    /// Batches that are not over.
    pub(crate) batches: usize,
    /// Holds that were expired.
    pub(crate) expired: usize,
    /// Whether the look left something for the next.
    pub(crate) more: bool,
    /// Holds that were passed by: others have locked something of them.
    pub(crate) passed: usize,
    /// Whether what is passed by is to be waited for.
    pub(crate) patient: bool,
}

/// Something that is waited for.
#[derive(Debug)]
enum Awaited {
    /// By all of its holds.
    Item(ItemKey),
    /// A unit, or the hold itself.
    Hold,
}

/// What the sweeper remembers between looks.
pub(crate) struct Sweeper {
    ids: IdSource,
    actor: Label,
    /// Holds that are left alone, and until when.
    alone: BTreeMap<ReservationId, Moment>,
    /// Items that are passed by, and until when.
    passed_by: BTreeMap<ItemKey, Moment>,
    /// What stands in line to be waited for,
    waits: VecDeque<(Awaited, Vec<OverdueHold>)>,
    /// and what is.
    awaited: Option<Awaited>,
}

impl Sweeper {
    pub(crate) fn new() -> Result<Self, String> {
        Ok(Self {
            ids: IdSource::from_system().map_err(|error| format!("asking for random bytes: {error}"))?,
            actor: Label::new(ACTOR).map_err(|error| format!("naming the sweeper: {error}"))?,
            alone: BTreeMap::new(),
            passed_by: BTreeMap::new(),
            waits: VecDeque::new(),
            awaited: None,
        })
    }

    /// The command that a sweep decides.
    pub(crate) fn command(&mut self) -> Envelope {
        let fresh: GeneratedIds = self.ids.generate(Instant::from_micros(0), 0);
        Envelope {
            command: Command::Sweep,
            key: None,
            fresh,
            origin: Origin {
                actor: self.actor.clone(),
                request_id: RequestId::Made(fresh.event.as_u128()),
                trace: None,
            },
        }
    }

    /// Holds that are left alone for now.
    pub(crate) fn left_alone(&mut self, now: Moment) -> BTreeSet<ReservationId> {
        self.alone.retain(|_, until| *until > now);
        self.passed_by.retain(|_, until| *until > now);
        self.alone.keys().copied().collect()
    }

    /// These could not be expired.
    pub(crate) fn failed(&mut self, holds: &[ReservationId], now: Moment) {
        for id in holds {
            meters::sweep_failed();
            self.alone.insert(*id, now + LEFT_ALONE);
        }
    }

    /// Takes out the holds of items that are passed by, and leaves them alone for as long. How many there were.
    pub(crate) fn pass_by(&mut self, due: &mut Vec<OverdueHold>) -> usize {
        let before = due.len();
        due.retain(|(id, refs)| {
            let until = refs.items.iter().filter_map(|item| self.passed_by.get(item)).max();
            self.alone.extend(until.map(|until| (*id, *until)));
            until.is_none()
        });
        before - due.len()
    }

    /// Others have locked these items, and something of these holds.
    pub(crate) fn locked_out(
        &mut self,
        items: &BTreeSet<ItemKey>,
        holds: Vec<OverdueHold>,
        patient: bool,
        now: Moment,
    ) {
        let soon = now + PASSED_BY;
        self.alone.extend(holds.iter().map(|(id, _)| (*id, soon)));
        for item in items {
            self.passed_by.entry(item.clone()).and_modify(|until| *until = soon.max(*until)).or_insert(soon);
        }
        if !patient {
            return;
        }
        for item in items {
            let stands = |awaited: &Awaited| matches!(awaited, Awaited::Item(other) if other == item);
            let in_line = self.waits.iter().map(|(awaited, _)| awaited).chain(&self.awaited).any(stands);
            if !in_line && self.waits.len() < MOST_WAITS {
                let its_own = holds.iter().filter(|(_, refs)| refs.items.contains(item)).cloned().collect();
                self.waits.push_back((Awaited::Item(item.clone()), its_own));
            }
        }
        for one in holds {
            if self.waits.len() < MOST_WAITS && !one.1.items.iter().any(|item| items.contains(item)) {
                self.waits.push_back((Awaited::Hold, vec![one]));
            }
        }
    }

    /// What is to be waited for next, unless something is.
    pub(crate) fn next_wait(&mut self, now: Moment) -> Option<Vec<OverdueHold>> {
        if self.awaited.is_some() {
            return None;
        }
        let (awaited, due) = self.waits.pop_front()?;
        if let Awaited::Item(item) = &awaited {
            self.passed_by.insert(item.clone(), now + LEFT_ALONE);
        }
        self.awaited = Some(awaited);
        Some(due)
    }

    /// It was waited for, and is had unless there is something left.
    pub(crate) fn has_waited(&mut self, left: &[OverdueHold], now: Moment) {
        let until = now + LEFT_ALONE;
        self.alone.extend(left.iter().map(|(id, _)| (*id, until)));
        match self.awaited.take() {
            Some(Awaited::Item(item)) if left.is_empty() => _ = self.passed_by.remove(&item),
            Some(Awaited::Item(item)) => _ = self.passed_by.insert(item, until),
            Some(Awaited::Hold) | None => {}
        }
    }

    /// Nothing is waited for any more.
    pub(crate) fn wait_for_nothing(&mut self) {
        self.waits.clear();
        self.awaited = None;
    }
}

/// Looks for what is overdue. The session, if it is still good.
pub(crate) async fn find_overdue<S: Session>(
    mut session: S,
    most: usize,
    left_alone: &BTreeSet<ReservationId>,
    deadline: Duration,
) -> (Option<S>, OverdueScan) {
    let limit = most + left_alone.len();
    let (now, mut overdue): (Instant, Vec<Deadline>) =
        match within_deadline(deadline, session.overdue(limit)).await {
            Ok(found) => found,
            Err(error) => return (recover(session, error, deadline).await.1, OverdueScan::default()),
        };
    let lag = |overdue: &[Deadline]| {
        overdue.first().map_or(0, |(due, _)| now.micros().saturating_sub(due.micros()))
    };
    meters::lag(lag(&overdue));
    let more = overdue.len() == limit;
    overdue.retain(|(_, id)| !left_alone.contains(id));
    if overdue.is_empty() {
        return (Some(session), OverdueScan::default());
    }
    let order: Vec<ReservationId> = overdue.iter().map(|(_, id)| *id).collect();
    let (session, rows) = read_reservations(session, order.clone(), deadline).await;
    let Ok(rows) = rows else { return (session, OverdueScan::default()) };
    let mut refs: BTreeMap<ReservationId, ReservationRefs> =
        rows.holds.iter().map(|hold| (hold.id, ReservationRefs::by(hold))).collect();
    let mut seen = OverdueScan { more, patient: lag(&overdue) > PATIENCE_MICROS, ..OverdueScan::default() };
    for id in order {
        match refs.remove(&id) {
            Some(refs) => seen.due.push((id, refs)),
            None => seen.damaged.push(id),
        }
    }
    (session, seen)
}

/// What became of a sweep.
pub(crate) struct SweepResult<S> {
    /// The session, if it is still good.
    pub(crate) session: Option<S>,
    /// Holds that were expired.
    pub(crate) expired: usize,
    /// Holds that could not be.
    pub(crate) failed: Vec<ReservationId>,
    /// Holds of which others have something locked,
    pub(crate) locked: Vec<OverdueHold>,
    /// and which items.
    pub(crate) locked_items: BTreeSet<ItemKey>,
}

/// Expires what it can of these in one transaction; if that fails, one by one. `patient` is whether it waits for locks.
pub(crate) async fn sweep<S: Session>(
    session: S,
    limits: &AttemptLimits,
    due: Vec<OverdueHold>,
    patient: bool,
    envelope: &Envelope,
) -> SweepResult<S> {
    let mut swept = SweepResult {
        session: Some(session),
        expired: 0,
        failed: Vec::new(),
        locked: Vec::new(),
        locked_items: BTreeSet::new(),
    };
    let Err(error) = swept.go(limits, &due, patient, envelope).await else { return swept };
    let alarmed = matches!(
        error,
        AttemptError::Database(DbError::InvariantViolated(_)) | AttemptError::InvariantViolated(..)
    );
    swept.clear_up(limits, &error).await;
    if matches!(error, AttemptError::Database(DbError::LockTimeout(_))) {
        swept.locked = due;
        return swept;
    }
    if !alarmed {
        return swept;
    }
    for one in &due {
        if swept.session.is_none() {
            break;
        }
        let Err(error) = swept.go(limits, core::slice::from_ref(one), patient, envelope).await else {
            continue;
        };
        swept.clear_up(limits, &error).await;
        match &error {
            AttemptError::Database(DbError::InvariantViolated(what)) => swept.fails(one.0, what),
            AttemptError::InvariantViolated(_, what) => swept.fails(one.0, what),
            AttemptError::Database(DbError::LockTimeout(_)) => swept.locked.push(one.clone()),
            _ => {}
        }
    }
    swept
}

impl<S: Session> SweepResult<S> {
    async fn go(
        &mut self,
        limits: &AttemptLimits,
        due: &[OverdueHold],
        patient: bool,
        envelope: &Envelope,
    ) -> Result<(), AttemptError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let ExpireResult { count, holds, locked_items } =
            expire(session, limits, due, patient, envelope).await?;
        meters::swept(count);
        self.expired += count;
        self.locked.extend(due.iter().filter(|(id, _)| !holds.contains(id)).cloned());
        self.locked_items.extend(locked_items);
        Ok(())
    }

    fn fails(&mut self, id: ReservationId, what: &str) {
        report_violation(&format!("reservation {id} can't be expired: {what}"));
        self.failed.push(id);
    }

    /// After a failed try: what is left over is found again by the next look.
    async fn clear_up(&mut self, limits: &AttemptLimits, error: &AttemptError) {
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
            tracing::warn!(?error, "the sweeper gives up a connection");
            self.session = None;
        }
    }
}

/// What one transaction came to.
#[derive(Default)]
struct ExpireResult {
    count: usize,
    /// Holds of which everything was locked.
    holds: BTreeSet<ReservationId>,
    /// Items that others have locked.
    locked_items: BTreeSet<ItemKey>,
}

async fn expire<S: Session>(
    session: &mut S,
    limits: &AttemptLimits,
    due: &[OverdueHold],
    patient: bool,
    envelope: &Envelope,
) -> Result<ExpireResult, AttemptError> {
    let unit_items: BTreeSet<&ItemKey> =
        due.iter().flat_map(|(_, refs)| refs.units.iter().map(|(key, _)| key)).collect();
    // Of items whose units have ids the units are locked, and not the item.
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
    put_units(&mut lock_set, due);
    let mut locked_items = BTreeSet::new();
    let locked = within_deadline(limits.batch_deadline, async {
        if !patient {
            let free = session.lock_skip_locked(&lock_set).await?;
            let item = |key: &ItemKey| free.items.contains(key) || unit_items.contains(key);
            let units = |(key, units): &(ItemKey, Arc<LineUnits>)| {
                units.all().iter().all(|unit| free.units.contains(&(key.clone(), unit.id.clone())))
            };
            let whole = |(id, refs): &&OverdueHold| {
                free.holds.contains(id) && refs.items.iter().all(item) && refs.units.iter().all(units)
            };
            let had: Vec<OverdueHold> = due.iter().filter(whole).cloned().collect();
            locked_items.extend(lock_set.items.difference(&free.items).cloned());
            lock_set = LockSet {
                items: free.items,
                holds: had.iter().map(|(id, _)| *id).collect(),
                ..LockSet::default()
            };
            put_units(&mut lock_set, &had);
        }
        if lock_set.holds.is_empty() {
            session.roll_back().await?;
            return Ok(None);
        }
        session.lock(&lock_set).await.map(Some)
    });
    let Some(LockedRows { now, serial, rows }) = locked.await? else {
        return Ok(ExpireResult { locked_items, ..ExpireResult::default() });
    };
    let active = rows.holds.iter().filter(|hold| hold.status == Status::Active);
    let deadlines: BTreeSet<Deadline> = active.map(|hold| (hold.expires_at, hold.id)).collect();
    let room = deadlines.len() + 1;
    let mut state = LoadedState::of(&lock_set, rows);
    // The queue as far as this sweep is concerned: what it has locked and nothing else.
    state.any_due = Some(DeadlineWindow::new(deadlines, room));
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
                    "a sweep lacks {:?}",
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
    Ok(ExpireResult { count: expired, holds: lock_set.holds, locked_items })
}

/// Units of these holds: they are locked by their names, and their items seen and not locked.
fn put_units(lock_set: &mut LockSet, due: &[OverdueHold]) {
    for (key, units) in due.iter().flat_map(|(_, refs)| &*refs.units) {
        lock_set.seen.insert(key.clone());
        let of_item = lock_set.units.entry(key.clone()).or_default();
        of_item.named.extend(units.all().iter().map(|unit| unit.id.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(number: u128, items: &[&str]) -> OverdueHold {
        let key = |sku: &&str| ItemKey::new(&Label::new("default").unwrap(), &Label::new(sku).unwrap());
        let refs = ReservationRefs { items: items.iter().map(key).collect(), ..ReservationRefs::default() };
        (ReservationId::from_u128(number), refs)
    }

    fn key(sku: &str) -> ItemKey {
        due(1, &[sku]).1.items[0].clone()
    }

    fn ids(due: &[OverdueHold]) -> Vec<u128> {
        due.iter().map(|(id, _)| id.as_u128()).collect()
    }

    /// `a` and `b` are locked.
    fn met(sweeper: &mut Sweeper, patient: bool, now: Moment) {
        let holds = vec![due(1, &["a"]), due(2, &["b"]), due(3, &["b", "a"])];
        sweeper.locked_out(&[key("a"), key("b")].into(), holds, patient, now);
    }

    #[test]
    fn what_others_have_locked_is_passed_by_for_a_while_with_all_of_its_holds() {
        let (mut sweeper, now) = (Sweeper::new().unwrap(), Moment::now());
        met(&mut sweeper, false, now);
        assert_eq!(sweeper.left_alone(now).len(), 3);
        let mut more = vec![due(4, &["a"]), due(5, &["c"]), due(6, &["c", "b"])];
        assert_eq!((sweeper.pass_by(&mut more), ids(&more)), (2, vec![5]));
        assert_eq!(sweeper.left_alone(now).len(), 5);
        assert!(sweeper.next_wait(now).is_none());
        assert!(sweeper.left_alone(now + PASSED_BY).is_empty());
        assert_eq!(sweeper.pass_by(&mut vec![due(4, &["a"])]), 0);
    }

    #[test]
    fn it_is_waited_for_item_by_item_and_left_alone_for_longer_when_that_was_in_vain() {
        let (mut sweeper, begun) = (Sweeper::new().unwrap(), Moment::now());
        met(&mut sweeper, true, begun);
        let first = sweeper.next_wait(begun).unwrap();
        assert_eq!(ids(&first), [1, 3]);
        assert!(sweeper.next_wait(begun).is_none(), "one at a time");
        let later = begun + PASSED_BY * 2;
        met(&mut sweeper, true, later);
        sweeper.has_waited(&first, later);
        assert_eq!(ids(&sweeper.next_wait(later).unwrap()), [2, 3]);
        sweeper.has_waited(&[], later);
        assert!(sweeper.next_wait(later).is_none(), "each stands in the line once");
        assert_eq!(sweeper.left_alone(later + PASSED_BY).len(), 2, "those of the first");
        let mut more = vec![due(4, &["a"]), due(5, &["b"])];
        assert_eq!((sweeper.pass_by(&mut more), ids(&more)), (1, vec![5]));
    }
}
