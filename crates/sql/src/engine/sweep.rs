//! The sweeper: expires what is overdue and what nobody stumbled upon, the oldest deadline first.
//!
//! It looks without locks, claims the items of what it found like any other batch, and then locks what nobody else has
//! locked (`SKIP LOCKED`): whoever has an item may well be expiring the same. Only holds of which all items were had are
//! expired, so never half a basket. What is left over for a while is waited for, when all the rest of the look is expired: by
//! item, so that who waits keeps nothing else. A hold that can't be expired is counted; that one, and one that was waited for
//! in vain, is left alone for a while, and keeps nobody else waiting.

use super::attempt::{Bounds, Stop, commit};
use super::batch::alarm;
use super::dialect::{Deadline, Locked, Session, Trouble, Wants};
use super::known::Held;
use super::meters;
use super::read::{self, in_time};
use super::slice::{Slice, Window};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stockhold_domain::{
    Command, Effects, Envelope, Fresh, Halt, Instant, ItemKey, Label, Origin, Outcome, Reply, RequestId,
    ReservationId, Status, decide,
};
use stockhold_store::ids::IdSource;

/// Who expires holds, as their events say.
const ACTOR: &str = "stockhold";
/// How long overdue a hold may be before its items' locks are waited for: well within what is promised, and longer than any
/// crowd around an item lasts that expires by itself what it needs.
const PATIENCE_MICROS: i64 = 5_000_000;
/// How long a hold that could not be expired is left alone, or one that was waited for in vain.
const LEFT_ALONE: Duration = Duration::from_secs(20);

/// Items that one look waits for. The others are found again by the next, if nobody has expired their holds by then.
const MOST_WAITS: usize = 16;
/// Waits that may be in vain before a look gives up waiting. Each takes seconds, and the next look comes after them.
const MOST_IN_VAIN: usize = 4;

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
    /// Whether locks are waited for, when the batches are over.
    pub(super) patient: bool,
    /// What is to be waited for, in parts.
    pub(super) locked: VecDeque<Vec<Due>>,
    /// Waits that were in vain.
    in_vain: usize,
}

impl Round {
    pub(super) fn new(more: bool, patient: bool) -> Self {
        Self { more, patient, ..Self::default() }
    }

    /// Takes what others have locked, and answers with what is to be left alone: `waited` says that it was waited for.
    pub(super) fn locked_out(&mut self, mut locked: Vec<Due>, waited: bool) -> Vec<Due> {
        if locked.is_empty() || !(waited || self.patient) {
            return Vec::new();
        }
        if !waited {
            // In the order of their deadlines, each with those that wait for the same.
            while self.locked.len() < MOST_WAITS
                && let Some((_, first)) = locked.first()
            {
                let first = first.items.clone();
                let meets = |(_, held): &mut Due| held.items.iter().any(|item| first.contains(item));
                self.locked.push_back(locked.extract_if(.., meets).collect());
            }
            return Vec::new();
        }
        self.in_vain += 1;
        // An item is waited for by all of its holds, but a unit by whose hold it is.
        let can_be_parted = locked.len() > 1 && locked.iter().any(|(_, held)| !held.units.is_empty());
        if self.in_vain < MOST_IN_VAIN && can_be_parted {
            let rest = locked.split_off(locked.len() / 2);
            self.locked.push_front(rest);
            self.locked.push_front(locked);
            return Vec::new();
        }
        if self.in_vain >= MOST_IN_VAIN {
            // The next look finds them again, behind what is left alone.
            self.locked.clear();
        }
        locked
    }
}

/// What the sweeper remembers between looks.
pub(super) struct Sweeper {
    ids: IdSource,
    actor: Label,
    /// Holds that are left alone, and until when.
    alone: BTreeMap<ReservationId, tokio::time::Instant>,
}

impl Sweeper {
    pub(super) fn new() -> Result<Self, String> {
        Ok(Self {
            ids: IdSource::from_system().map_err(|error| format!("asking for random bytes: {error}"))?,
            actor: Label::new(ACTOR).map_err(|error| format!("naming the sweeper: {error}"))?,
            alone: BTreeMap::new(),
        })
    }

    /// The command that a sweep decides.
    pub(super) fn command(&mut self) -> Envelope {
        let fresh: Fresh = self.ids.fresh(Instant::from_micros(0), 0);
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
    pub(super) fn left_alone(&mut self) -> BTreeSet<ReservationId> {
        let now = tokio::time::Instant::now();
        self.alone.retain(|_, until| *until > now);
        self.alone.keys().copied().collect()
    }

    /// These could not be expired.
    pub(super) fn failed(&mut self, holds: &[ReservationId]) {
        for _ in holds {
            meters::sweep_failed();
        }
        self.leave_alone(holds.iter().copied());
    }

    /// These are left alone for a while.
    pub(super) fn leave_alone(&mut self, holds: impl IntoIterator<Item = ReservationId>) {
        let until = tokio::time::Instant::now() + LEFT_ALONE;
        self.alone.extend(holds.into_iter().map(|id| (id, until)));
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
    /// Holds of which others have something locked.
    pub(super) locked: Vec<Due>,
}

/// Expires what it can of these in one transaction; if that fails, one by one. `patient` is whether it waits for locks.
pub(super) async fn sweep<S: Session>(
    session: S,
    bounds: &Bounds,
    due: Vec<Due>,
    patient: bool,
    envelope: &Envelope,
) -> Swept<S> {
    let mut swept = Swept { session: Some(session), expired: 0, failed: Vec::new(), locked: Vec::new() };
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
        let (expired, had) = expire(session, bounds, due, patient, envelope).await?;
        meters::swept(expired);
        self.expired += expired;
        self.locked.extend(due.iter().filter(|(id, _)| !had.contains(id)).cloned());
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

/// How many were expired, and of which of the holds everything was locked.
async fn expire<S: Session>(
    session: &mut S,
    bounds: &Bounds,
    due: &[Due],
    patient: bool,
    envelope: &Envelope,
) -> Result<(usize, BTreeSet<ReservationId>), Stop> {
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
    let locked = in_time(bounds.batch_deadline, async {
        if !patient {
            let free = session.lock_free(&wants.items, &wants.holds).await?;
            let had = |key: &ItemKey| free.items.contains(key) || halls.contains(key);
            let whole = |(id, held): &&Due| free.holds.contains(id) && held.items.iter().all(had);
            wants.holds = due.iter().filter(whole).map(|(id, _)| *id).collect();
            wants.items = free.items;
        }
        for (key, units) in
            due.iter().filter(|(id, _)| wants.holds.contains(id)).flat_map(|(_, held)| &*held.units)
        {
            wants.seen.insert(key.clone());
            let of_item = wants.units.entry(key.clone()).or_default();
            of_item.named.extend(units.all().iter().map(|unit| unit.id.clone()));
        }
        if wants.holds.is_empty() {
            session.roll_back().await?;
            return Ok(None);
        }
        session.lock(&wants).await.map(Some)
    });
    let Some(Locked { now, serial, rows }) = locked.await? else { return Ok((0, BTreeSet::new())) };
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
            Err(Halt::Broken(what)) => return Err(Stop::Broken(0, what)),
            Err(Halt::Missing(missing)) => {
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
    Ok((expired, wants.holds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(number: u128, items: &[&str]) -> Due {
        let key = |sku: &&str| ItemKey::new(&Label::new("default").unwrap(), &Label::new(sku).unwrap());
        let held = Held { items: items.iter().map(key).collect(), ..Held::default() };
        (ReservationId::from_u128(number), held)
    }

    fn ids(due: &[Due]) -> Vec<u128> {
        due.iter().map(|(id, _)| id.as_u128()).collect()
    }

    #[test]
    fn what_others_have_locked_is_waited_for_with_those_that_wait_for_the_same() {
        let locked = || vec![due(1, &["a"]), due(2, &["b"]), due(3, &["b", "a"]), due(4, &["c"])];
        let mut hasty = Round::new(false, false);
        assert_eq!(ids(&hasty.locked_out(locked(), false)), []);
        assert!(hasty.locked.is_empty());
        let mut round = Round::new(false, true);
        assert_eq!(ids(&round.locked_out(locked(), false)), []);
        let parts: Vec<_> = round.locked.iter().map(|part| ids(part)).collect();
        assert_eq!(parts, [vec![1, 3], vec![2], vec![4]]);
    }

    #[test]
    fn one_look_waits_for_so_many_and_in_vain_for_fewer() {
        let names: Vec<String> = (0..MOST_WAITS + 9).map(|n| n.to_string()).collect();
        let locked = (1..).zip(&names).map(|(number, name)| due(number, &[name])).collect();
        let mut round = Round::new(true, true);
        assert_eq!(ids(&round.locked_out(locked, false)), []);
        assert_eq!(round.locked.len(), MOST_WAITS);
        for number in 1..MOST_IN_VAIN as u128 {
            let part = round.locked.pop_front().unwrap();
            assert_eq!(ids(&round.locked_out(part, true)), [number], "it alone is left alone");
        }
        let part = round.locked.pop_front().unwrap();
        let alone = round.locked_out(part, true);
        assert_eq!(
            (alone.len(), round.locked.len()),
            (MOST_WAITS + 1 - MOST_IN_VAIN, 0),
            "so are all that are left"
        );
    }
}
