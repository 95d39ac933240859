//! The sweeper: expires what is overdue and what nobody stumbled upon, the oldest deadline first.
//!
//! It looks without locks, claims the items of what it found like any other batch, and then locks what nobody else has
//! locked (`SKIP LOCKED`): whoever has an item may well be expiring the same. Only holds of which all items were had are
//! expired, so never half a basket. An item that others have locked is passed by for a while, with all of its holds, so that
//! looks get to what is due behind them. What is overdue for long is waited for: one item after the other, beside the looks,
//! so that who waits keeps nothing else. A hold that can't be expired is counted; that one, and what was waited for in vain, is
//! left alone for longer.

use super::attempt::{Bounds, Stop, commit};
use super::batch::alarm;
use super::dialect::{Deadline, Locked, Session, Trouble, Wants};
use super::known::Held;
use super::meters;
use super::read::{self, in_time};
use super::slice::{Slice, Window};
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
pub(super) type Due = (ReservationId, Held);

/// What a look found.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Oldest first.
    pub(super) due: Vec<Due>,
    /// Whether there may be more.
    pub(super) more: bool,
    /// Whether locks are to be waited for.
    pub(super) patient: bool,
    /// Overdue holds that can't be read.
    pub(super) damaged: Vec<ReservationId>,
}

/// What one look has led to.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Batches that are not over.
    pub(super) batches: usize,
    /// Holds that were expired.
    pub(super) expired: usize,
    /// Whether the look left something for the next.
    pub(super) more: bool,
    /// Holds that were passed by: others have locked something of them.
    pub(super) passed: usize,
    /// Whether what is passed by is to be waited for.
    pub(super) patient: bool,
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
pub(super) struct Sweeper {
    ids: IdSource,
    actor: Label,
    /// Holds that are left alone, and until when.
    alone: BTreeMap<ReservationId, Moment>,
    /// Items that are passed by, and until when.
    passed_by: BTreeMap<ItemKey, Moment>,
    /// What stands in line to be waited for,
    waits: VecDeque<(Awaited, Vec<Due>)>,
    /// and what is.
    awaited: Option<Awaited>,
}

impl Sweeper {
    pub(super) fn new() -> Result<Self, String> {
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
    pub(super) fn command(&mut self) -> Envelope {
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
    pub(super) fn left_alone(&mut self, now: Moment) -> BTreeSet<ReservationId> {
        self.alone.retain(|_, until| *until > now);
        self.passed_by.retain(|_, until| *until > now);
        self.alone.keys().copied().collect()
    }

    /// These could not be expired.
    pub(super) fn failed(&mut self, holds: &[ReservationId], now: Moment) {
        for id in holds {
            meters::sweep_failed();
            self.alone.insert(*id, now + LEFT_ALONE);
        }
    }

    /// Takes out the holds of items that are passed by, and leaves them alone for as long. How many there were.
    pub(super) fn pass_by(&mut self, due: &mut Vec<Due>) -> usize {
        let before = due.len();
        due.retain(|(id, held)| {
            let until = held.items.iter().filter_map(|item| self.passed_by.get(item)).max();
            self.alone.extend(until.map(|until| (*id, *until)));
            until.is_none()
        });
        before - due.len()
    }

    /// Others have locked these items, and something of these holds.
    pub(super) fn locked_out(
        &mut self,
        items: &BTreeSet<ItemKey>,
        holds: Vec<Due>,
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
                let its_own = holds.iter().filter(|(_, held)| held.items.contains(item)).cloned().collect();
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
    pub(super) fn next_wait(&mut self, now: Moment) -> Option<Vec<Due>> {
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
    pub(super) fn has_waited(&mut self, left: &[Due], now: Moment) {
        let until = now + LEFT_ALONE;
        self.alone.extend(left.iter().map(|(id, _)| (*id, until)));
        match self.awaited.take() {
            Some(Awaited::Item(item)) if left.is_empty() => _ = self.passed_by.remove(&item),
            Some(Awaited::Item(item)) => _ = self.passed_by.insert(item, until),
            Some(Awaited::Hold) | None => {}
        }
    }

    /// Nothing is waited for any more.
    pub(super) fn wait_for_nothing(&mut self) {
        self.waits.clear();
        self.awaited = None;
    }
}

/// Looks for what is overdue. The session, if it is still good.
pub(super) async fn look<S: Session>(
    mut session: S,
    most: usize,
    left_alone: &BTreeSet<ReservationId>,
    deadline: Duration,
) -> (Option<S>, Seen) {
    let limit = most + left_alone.len();
    let (now, mut overdue): (Instant, Vec<Deadline>) = match in_time(deadline, session.overdue(limit)).await {
        Ok(found) => found,
        Err(trouble) => return (read::after(session, trouble, deadline).await.1, Seen::default()),
    };
    let lag = |overdue: &[Deadline]| {
        overdue.first().map_or(0, |(due, _)| now.micros().saturating_sub(due.micros()))
    };
    meters::lag(lag(&overdue));
    let more = overdue.len() == limit;
    overdue.retain(|(_, id)| !left_alone.contains(id));
    if overdue.is_empty() {
        return (Some(session), Seen::default());
    }
    let order: Vec<ReservationId> = overdue.iter().map(|(_, id)| *id).collect();
    let (session, rows) = read::holds(session, order.clone(), deadline).await;
    let Ok(rows) = rows else { return (session, Seen::default()) };
    let mut held: BTreeMap<ReservationId, Held> =
        rows.holds.iter().map(|hold| (hold.id, Held::by(hold))).collect();
    let mut seen = Seen { more, patient: lag(&overdue) > PATIENCE_MICROS, ..Seen::default() };
    for id in order {
        match held.remove(&id) {
            Some(held) => seen.due.push((id, held)),
            None => seen.damaged.push(id),
        }
    }
    (session, seen)
}

/// What became of a sweep.
pub(super) struct Swept<S> {
    /// The session, if it is still good.
    pub(super) session: Option<S>,
    /// Holds that were expired.
    pub(super) expired: usize,
    /// Holds that could not be.
    pub(super) failed: Vec<ReservationId>,
    /// Holds of which others have something locked,
    pub(super) locked: Vec<Due>,
    /// and which items.
    pub(super) locked_items: BTreeSet<ItemKey>,
}

/// Expires what it can of these in one transaction; if that fails, one by one. `patient` is whether it waits for locks.
pub(super) async fn sweep<S: Session>(
    session: S,
    bounds: &Bounds,
    due: Vec<Due>,
    patient: bool,
    envelope: &Envelope,
) -> Swept<S> {
    let mut swept = Swept {
        session: Some(session),
        expired: 0,
        failed: Vec::new(),
        locked: Vec::new(),
        locked_items: BTreeSet::new(),
    };
    let Err(stop) = swept.go(bounds, &due, patient, envelope).await else { return swept };
    let alarmed = matches!(stop, Stop::Trouble(Trouble::Alarm(_)) | Stop::Broken(..));
    swept.clear_up(bounds, &stop).await;
    if matches!(stop, Stop::Trouble(Trouble::LockTimeout(_))) {
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
        let Err(stop) = swept.go(bounds, core::slice::from_ref(one), patient, envelope).await else {
            continue;
        };
        swept.clear_up(bounds, &stop).await;
        match &stop {
            Stop::Trouble(Trouble::Alarm(what)) => swept.fails(one.0, what),
            Stop::Broken(_, what) => swept.fails(one.0, what),
            Stop::Trouble(Trouble::LockTimeout(_)) => swept.locked.push(one.clone()),
            _ => {}
        }
    }
    swept
}

impl<S: Session> Swept<S> {
    async fn go(
        &mut self,
        bounds: &Bounds,
        due: &[Due],
        patient: bool,
        envelope: &Envelope,
    ) -> Result<(), Stop> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let Expired { count, holds, locked_items } = expire(session, bounds, due, patient, envelope).await?;
        meters::swept(count);
        self.expired += count;
        self.locked.extend(due.iter().filter(|(id, _)| !holds.contains(id)).cloned());
        self.locked_items.extend(locked_items);
        Ok(())
    }

    fn fails(&mut self, id: ReservationId, what: &str) {
        alarm(&format!("reservation {id} can't be expired: {what}"));
        self.failed.push(id);
    }

    /// After a failed try: what is left over is found again by the next look.
    async fn clear_up(&mut self, bounds: &Bounds, stop: &Stop) {
        let keeps = match stop {
            Stop::Unknown(_) | Stop::Late | Stop::Trouble(Trouble::Lost(_)) => false,
            Stop::Trouble(Trouble::Deadlock(_)) => {
                meters::deadlock();
                true
            }
            Stop::Trouble(Trouble::LockTimeout(_)) => {
                meters::lock_timeout();
                true
            }
            _ => true,
        };
        let rolled_back = match &mut self.session {
            Some(session) if keeps => in_time(bounds.batch_deadline, session.roll_back()).await.is_ok(),
            _ => false,
        };
        if !rolled_back {
            tracing::warn!(?stop, "the sweeper gives up a connection");
            self.session = None;
        }
    }
}

/// What one transaction came to.
#[derive(Default)]
struct Expired {
    count: usize,
    /// Holds of which everything was locked.
    holds: BTreeSet<ReservationId>,
    /// Items that others have locked.
    locked_items: BTreeSet<ItemKey>,
}

async fn expire<S: Session>(
    session: &mut S,
    bounds: &Bounds,
    due: &[Due],
    patient: bool,
    envelope: &Envelope,
) -> Result<Expired, Stop> {
    let halls: BTreeSet<&ItemKey> =
        due.iter().flat_map(|(_, held)| held.units.iter().map(|(key, _)| key)).collect();
    // Of items whose units have ids the units are locked, and not the item.
    let mut wants = Wants {
        items: due
            .iter()
            .flat_map(|(_, held)| &*held.items)
            .filter(|key| !halls.contains(key))
            .cloned()
            .collect(),
        holds: due.iter().map(|(id, _)| *id).collect(),
        ..Wants::default()
    };
    put_units(&mut wants, due);
    let mut locked_items = BTreeSet::new();
    let locked = in_time(bounds.batch_deadline, async {
        if !patient {
            let free = session.lock_free(&wants).await?;
            let item = |key: &ItemKey| free.items.contains(key) || halls.contains(key);
            let units = |(key, units): &(ItemKey, Arc<LineUnits>)| {
                units.all().iter().all(|unit| free.units.contains(&(key.clone(), unit.id.clone())))
            };
            let whole = |(id, held): &&Due| {
                free.holds.contains(id) && held.items.iter().all(item) && held.units.iter().all(units)
            };
            let had: Vec<Due> = due.iter().filter(whole).cloned().collect();
            locked_items.extend(wants.items.difference(&free.items).cloned());
            wants = Wants {
                items: free.items,
                holds: had.iter().map(|(id, _)| *id).collect(),
                ..Wants::default()
            };
            put_units(&mut wants, &had);
        }
        if wants.holds.is_empty() {
            session.roll_back().await?;
            return Ok(None);
        }
        session.lock(&wants).await.map(Some)
    });
    let Some(Locked { now, serial, rows }) = locked.await? else {
        return Ok(Expired { locked_items, ..Expired::default() });
    };
    let active = rows.holds.iter().filter(|hold| hold.status == Status::Active);
    let deadlines: BTreeSet<Deadline> = active.map(|hold| (hold.expires_at, hold.id)).collect();
    let room = deadlines.len() + 1;
    let mut slice = Slice::of(&wants, rows);
    // The queue as far as this sweep is concerned: what it has locked and nothing else.
    slice.any_due = Some(Window::new(deadlines, room));
    let mut effects = Effects::default();
    loop {
        let mut some = Effects::default();
        let swept = decide(&mut slice, &bounds.rules, envelope, now, &mut some);
        effects.events.append(&mut some.events);
        match swept {
            Ok(Outcome::Done(Reply::Swept { expired: 0 })) => break,
            Ok(_) => {}
            Err(DecideError::InvariantViolated(what)) => return Err(Stop::Broken(0, what)),
            Err(DecideError::NotLoaded(missing)) => {
                return Err(Stop::Trouble(Trouble::Alarm(format!("a sweep lacks {:?}", missing.0))));
            }
        }
    }
    if let Some(what) = slice.contradiction {
        return Err(Stop::Broken(0, what));
    }
    let expired = effects.events.len();
    if effects.is_empty() {
        in_time(bounds.batch_deadline, session.roll_back()).await?;
    } else {
        commit(session, bounds, &slice.changes(&effects, serial, bounds.part)).await?;
    }
    Ok(Expired { count: expired, holds: wants.holds, locked_items })
}

/// Units of these holds: they are locked by their names, and their items seen and not locked.
fn put_units(wants: &mut Wants, due: &[Due]) {
    for (key, units) in due.iter().flat_map(|(_, held)| &*held.units) {
        wants.seen.insert(key.clone());
        let of_item = wants.units.entry(key.clone()).or_default();
        of_item.named.extend(units.all().iter().map(|unit| unit.id.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(number: u128, items: &[&str]) -> Due {
        let key = |sku: &&str| ItemKey::new(&Label::new("default").unwrap(), &Label::new(sku).unwrap());
        let held = Held { items: items.iter().map(key).collect(), ..Held::default() };
        (ReservationId::from_u128(number), held)
    }

    fn key(sku: &str) -> ItemKey {
        due(1, &[sku]).1.items[0].clone()
    }

    fn ids(due: &[Due]) -> Vec<u128> {
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
