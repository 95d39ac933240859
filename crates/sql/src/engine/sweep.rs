//! The sweeper: expires what is overdue and what nobody stumbled upon, the oldest deadline first.
//!
//! It looks without locks, claims the items of what it found like any other batch, and then locks what nobody else has
//! locked (`SKIP LOCKED`): whoever has an item may well be expiring the same. Only holds of which all items were had are
//! expired, so never half a basket. What is left over a while is waited for. A hold that can't be expired is counted, left
//! alone for a while, and keeps nobody else waiting.

use super::attempt::{Bounds, Stop, commit};
use super::batch::alarm;
use super::dialect::{Deadline, Locked, Session, Trouble, Wants};
use super::known::Held;
use super::meters;
use super::read::in_time;
use super::slice::{Slice, Window};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
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
/// How long a hold that could not be expired is left alone.
const LEFT_ALONE: Duration = Duration::from_secs(20);

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
}

/// What the sweeper remembers between looks.
pub(super) struct Sweeper {
    ids: IdSource,
    actor: Label,
    /// Holds that could not be expired, and until when they are left alone.
    failing: BTreeMap<ReservationId, tokio::time::Instant>,
}

impl Sweeper {
    pub(super) fn new() -> Result<Self, String> {
        Ok(Self {
            ids: IdSource::from_system().map_err(|error| format!("asking for random bytes: {error}"))?,
            actor: Label::new(ACTOR).map_err(|error| format!("naming the sweeper: {error}"))?,
            failing: BTreeMap::new(),
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
        self.failing.retain(|_, until| *until > now);
        self.failing.keys().copied().collect()
    }

    /// These could not be expired.
    pub(super) fn failed(&mut self, holds: &[ReservationId]) {
        let until = tokio::time::Instant::now() + LEFT_ALONE;
        for id in holds {
            meters::sweep_failed();
            self.failing.insert(*id, until);
        }
    }
}

/// Looks for what is overdue.
pub(super) async fn look<S: Session>(
    session: &mut S,
    most: usize,
    left_alone: &BTreeSet<ReservationId>,
    deadline: Duration,
) -> Result<Seen, Trouble> {
    in_time(deadline, async {
        let limit = most + left_alone.len();
        let (now, overdue): (Instant, Vec<Deadline>) = session.overdue(limit).await?;
        let lag = overdue.first().map_or(0, |(due, _)| now.micros().saturating_sub(due.micros()));
        meters::lag(lag);
        let more = overdue.len() == limit;
        let order: Vec<ReservationId> =
            overdue.into_iter().map(|(_, id)| id).filter(|id| !left_alone.contains(id)).collect();
        if order.is_empty() {
            return Ok(Seen::default());
        }
        let wants = Wants { holds: order.iter().copied().collect(), ..Wants::default() };
        let rows = session.read(&wants).await?;
        let mut held: BTreeMap<ReservationId, Held> =
            rows.holds.iter().map(|hold| (hold.id, Held::by(hold))).collect();
        let due = order.iter().filter_map(|id| Some((*id, held.remove(id)?))).collect();
        Ok(Seen { due, more, patient: lag > PATIENCE_MICROS })
    })
    .await
}

/// What became of a sweep.
pub(super) struct Swept<S> {
    /// The session, if it is still good.
    pub(super) session: Option<S>,
    /// Holds that were expired.
    pub(super) expired: usize,
    /// Holds that could not be.
    pub(super) failed: Vec<ReservationId>,
}

/// Expires what it can of these in one transaction; if that fails, one by one.
pub(super) async fn sweep<S: Session>(
    session: S,
    bounds: &Bounds,
    due: &[Due],
    patient: bool,
    envelope: &Envelope,
) -> Swept<S> {
    let mut swept = Swept { session: Some(session), expired: 0, failed: Vec::new() };
    let Err(stop) = swept.go(bounds, due, patient, envelope).await else { return swept };
    let alarmed = matches!(stop, Stop::Trouble(Trouble::Alarm(_)) | Stop::Broken(..));
    swept.clear_up(bounds, &stop).await;
    if !alarmed {
        return swept;
    }
    for one in due {
        if swept.session.is_none() {
            break;
        }
        let Err(stop) = swept.go(bounds, core::slice::from_ref(one), patient, envelope).await else {
            continue;
        };
        swept.clear_up(bounds, &stop).await;
        if let Stop::Trouble(Trouble::Alarm(what)) = &stop {
            alarm(&format!("reservation {} can't be expired: {what}", one.0));
            swept.failed.push(one.0);
        } else if let Stop::Broken(_, what) = &stop {
            alarm(&format!("reservation {} can't be expired: {what}", one.0));
            swept.failed.push(one.0);
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
        let expired = expire(session, bounds, due, patient, envelope).await?;
        meters::swept(expired);
        self.expired += expired;
        Ok(())
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

async fn expire<S: Session>(
    session: &mut S,
    bounds: &Bounds,
    due: &[Due],
    patient: bool,
    envelope: &Envelope,
) -> Result<usize, Stop> {
    let mut wants = Wants::default();
    for (id, held) in due {
        wants.holds.insert(*id);
        wants.items.extend(held.items.iter().cloned());
        for (key, units) in &*held.units {
            wants.seen.insert(key.clone());
            let of_item = wants.units.entry(key.clone()).or_default();
            of_item.named.extend(units.all().iter().map(|unit| unit.id.clone()));
        }
    }
    // Of items whose units have ids the units are locked, and not the item.
    wants.items.retain(|key| !wants.seen.contains(key));
    let locked = in_time(bounds.batch_deadline, async {
        if !patient {
            wants.items = session.lock_free(&wants.items).await?;
            wants.holds.clear();
            let had = |item: &ItemKey| wants.items.contains(item) || wants.seen.contains(item);
            let whole = due.iter().filter(|(_, held)| held.items.iter().all(had));
            wants.holds.extend(whole.map(|(id, _)| *id));
        }
        if wants.holds.is_empty() {
            session.roll_back().await?;
            return Ok(None);
        }
        session.lock(&wants).await.map(Some)
    });
    let Some(Locked { now, serial, rows }) = locked.await? else { return Ok(0) };
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
    Ok(expired)
}
