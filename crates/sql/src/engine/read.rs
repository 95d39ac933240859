//! Queries: what is read and not decided. Nothing here locks what commands lock.

use super::batch::alarm;
use super::dialect::{Rows, Scan, Session, Trouble, UnitWants, Wants};
use super::post::{Owed, Post};
use super::shown::Shown;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use stockhold_domain::{Item, ItemKey, Label, Mode, Pool, ReservationId, Transition};
use stockhold_store::{
    Answer, Cursor, EventRow, Failure, MAX_UNITS_SCANNED, Pauses, Query, QueryResult, ReservationFilter,
    ReservationPage, SeatMap, UnitFilter, UnitHistory, UnitPage,
};

/// Most queries that are answered together.
const AT_ONCE: usize = 256;
/// Most slow queries that one connection answers before others get their turn.
const SLOW_AT_ONCE: usize = 8;
/// Most reservations that are looked at for one page where no index leads to them. A page may be short: its cursor goes on.
const SCANNED: usize = 2_000;
/// Batches of events that are read at once for the history of a unit.
const BATCHES_AT_ONCE: usize = 8;

/// A query that waits.
pub(super) type Asked = (Query, Owed);

/// Queries that wait.
#[derive(Default)]
pub(super) struct Reads {
    quick: VecDeque<Asked>,
    slow: VecDeque<Asked>,
}

impl Reads {
    pub(super) fn add(&mut self, asked: Asked) {
        match asked.0 {
            Query::Reservation(_) | Query::Items(_) => self.quick.push_back(asked),
            Query::ItemPage(_)
            | Query::Reservations(_)
            | Query::History(_)
            | Query::Events { .. }
            | Query::Pauses
            | Query::Units(_)
            | Query::Unit { .. }
            | Query::UnitHistory { .. }
            | Query::SeatMap { .. } => self.slow.push_back(asked),
        }
    }

    /// Look-ups by key, to be answered by one round trip.
    pub(super) fn take_quick(&mut self) -> Vec<Asked> {
        let count = self.quick.len().min(AT_ONCE);
        self.quick.drain(..count).collect()
    }

    /// Everything else.
    pub(super) fn take_slow(&mut self) -> Vec<Asked> {
        let count = self.slow.len().min(SLOW_AT_ONCE);
        self.slow.drain(..count).collect()
    }

    pub(super) fn has_quick(&self) -> bool {
        !self.quick.is_empty()
    }

    pub(super) fn has_slow(&self) -> bool {
        !self.slow.is_empty()
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Asked> + '_ {
        self.quick.drain(..).chain(self.slow.drain(..))
    }
}

/// Answers look-ups by key. What is damaged is the trouble of whoever asks for it: those who can't be answered together are, half by
/// half. The session, if it is still good.
pub(super) async fn quick<S: Session>(session: S, asked: Vec<Asked>, deadline: Duration) -> Option<S> {
    let mut post = Post::default();
    let mut session = Some(session);
    let mut parts = vec![asked];
    while let Some(part) = parts.pop() {
        let Some(mut at_work) = session.take() else {
            fail(part, &lost(), &mut post);
            continue;
        };
        match in_time(deadline, at_work.read(&wants_of(&part))).await {
            Ok(rows) => {
                answer_quick(part, rows, &mut post);
                session = Some(at_work);
            }
            Err(Trouble::Alarm(_)) if part.len() > 1 => {
                parts.extend(halves(part));
                session = rolled_back(at_work, deadline).await;
            }
            Err(trouble) => {
                let (failure, kept) = after(at_work, trouble, deadline).await;
                fail(part, &failure, &mut post);
                session = kept;
            }
        }
    }
    session
}

fn wants_of(asked: &[Asked]) -> Wants {
    let mut wants = Wants::default();
    for (query, _) in asked {
        match query {
            Query::Reservation(id) => {
                wants.holds.insert(*id);
            }
            Query::Items(keys) => wants.items.extend(keys.iter().cloned()),
            _ => {}
        }
    }
    wants
}

/// Reads reservations. Those that are damaged are left out: whoever wants one meets it again under the locks. The session, if it is
/// still good.
pub(super) async fn holds<S: Session>(
    mut session: S,
    ids: Vec<ReservationId>,
    deadline: Duration,
) -> (Option<S>, Result<Rows, Failure>) {
    let mut all = Rows::default();
    let mut parts = vec![ids];
    while let Some(part) = parts.pop() {
        let wants = Wants { holds: part.iter().copied().collect(), ..Wants::default() };
        match in_time(deadline, session.read(&wants)).await {
            Ok(rows) => all.holds.extend(rows.holds),
            Err(Trouble::Alarm(_)) => {
                let Some(good) = rolled_back(session, deadline).await else { return (None, Err(lost())) };
                session = good;
                if part.len() > 1 {
                    parts.extend(halves(part));
                }
            }
            Err(trouble) => {
                let (failure, session) = after(session, trouble, deadline).await;
                return (session, Err(failure));
            }
        }
    }
    (Some(session), Ok(all))
}

fn fail(asked: Vec<Asked>, failure: &Failure, post: &mut Post) {
    for (_, owed) in asked {
        post.put(owed, Err(failure.clone()));
    }
}

fn halves<T>(mut whole: Vec<T>) -> [Vec<T>; 2] {
    let second = whole.split_off(whole.len() / 2);
    [whole, second]
}

fn lost() -> Failure {
    Failure::Unavailable("the connection was lost".to_owned())
}

pub(super) fn answer_quick(asked: Vec<Asked>, rows: Rows, post: &mut Post) {
    let items: BTreeMap<ItemKey, Item> =
        rows.items.into_iter().map(|item| (item.key.clone(), item)).collect();
    let holds: BTreeMap<_, _> = rows.holds.into_iter().map(|hold| (hold.id, hold)).collect();
    for (query, owed) in asked {
        let found = match query {
            Query::Reservation(id) => QueryResult::Reservation(holds.get(&id).cloned()),
            Query::Items(keys) => {
                QueryResult::Items(keys.iter().map(|key| items.get(key).cloned()).collect())
            }
            _ => {
                post.put(owed, Err(Failure::Internal("a slow query among the quick ones".to_owned())));
                continue;
            }
        };
        post.put(owed, Ok(Answer::QueryResult(found)));
    }
}

/// Answers other queries, one after the other. The session, if it is still good.
pub(super) async fn slow<S: Session>(
    session: S,
    asked: Vec<Asked>,
    deadline: Duration,
    shown: &Shown,
) -> Option<S> {
    let mut session = Some(session);
    for (query, owed) in asked {
        let Some(mut at_work) = session.take() else {
            owed.answer(Err(lost()));
            continue;
        };
        match in_time(deadline, find(&mut at_work, &query, shown)).await {
            Ok(found) => {
                owed.answer(Ok(Answer::QueryResult(found)));
                session = Some(at_work);
            }
            Err(trouble) => {
                let (failure, kept) = after(at_work, trouble, deadline).await;
                owed.answer(Err(failure));
                session = kept;
            }
        }
    }
    session
}

async fn find<S: Session>(session: &mut S, query: &Query, shown: &Shown) -> Result<QueryResult, Trouble> {
    Ok(match query {
        Query::ItemPage(shelf) => QueryResult::ItemPage(session.shelf(shelf).await?),
        Query::Reservations(filter) => QueryResult::Reservations(page(session, filter).await?),
        Query::History(id) => {
            shown.has_numbered(session.number().await?);
            QueryResult::History(history(session, *id).await?)
        }
        Query::Events { after, limit } => {
            let newest = session.number().await?;
            shown.has_numbered(newest);
            let rows = session.events(*after, *limit).await?;
            // Positions are dense: what is missing before the first has left for an archive.
            match rows.first() {
                Some(first) if first.position > after + 1 => {
                    QueryResult::Archived { through: first.position - 1 }
                }
                None if *limit > 0 && *after < newest => QueryResult::Archived { through: newest },
                _ => QueryResult::Events(rows),
            }
        }
        Query::Pauses => QueryResult::Pauses(pauses(session.paused().await?)?),
        Query::Units(filter) => QueryResult::Units(units(session, filter).await?),
        Query::Unit { item, unit } => {
            QueryResult::Unit(session.unit(item, unit).await?.map(|(unit, _)| unit))
        }
        Query::UnitHistory { item, unit } => {
            shown.has_numbered(session.number().await?);
            QueryResult::UnitHistory(unit_history(session, item, unit).await?)
        }
        Query::SeatMap { item, layout } => QueryResult::SeatMap(seat_map(session, item, *layout).await?),
        Query::Reservation(_) | Query::Items(_) => {
            return Err(Trouble::Alarm("a quick query among the slow ones".to_owned()));
        }
    })
}

async fn units<S: Session>(session: &mut S, filter: &UnitFilter) -> Result<Option<UnitPage>, Trouble> {
    let wants = Wants { items: [filter.item.clone()].into(), ..Wants::default() };
    let has_units = session.read(&wants).await?.items.iter().any(|item| item.mode == Mode::Units);
    if !has_units {
        return Ok(None);
    }
    let mut pool = Pool::default();
    // One more than are looked at, to know whether there are more.
    pool.add(session.units(&filter.item, filter.after.as_ref(), MAX_UNITS_SCANNED + 1).await?);
    Ok(Some(filter.page(&pool)))
}

async fn seat_map<S: Session>(
    session: &mut S,
    key: &ItemKey,
    layout: bool,
) -> Result<Option<Box<SeatMap>>, Trouble> {
    let all = UnitWants { map: true, ..UnitWants::default() };
    let wants = Wants { items: [key.clone()].into(), units: [(key.clone(), all)].into(), ..Wants::default() };
    let mut rows = session.read(&wants).await?;
    let Some(mut item) = rows.items.pop().filter(|item| item.mode == Mode::Units) else { return Ok(None) };
    let mut pool = Pool::default();
    pool.add(rows.units.remove(key).unwrap_or_default().map);
    // Read by another statement than the figures, so the map's own are shown with it.
    item.figures.total_units = pool.len() as u64;
    (item.figures.held, item.figures.confirmed_sold) = (pool.held(), pool.sold());
    Ok(Some(Box::new(SeatMap::of(&item, &pool, layout))))
}

fn pauses(mut named: Vec<String>) -> Result<Pauses, Trouble> {
    let all = named.len();
    named.retain(|location| !location.is_empty());
    let everything = named.len() < all;
    let locations = named.iter().map(|location| Label::new(location)).collect::<Result<_, _>>();
    let locations = locations.map_err(|error| Trouble::Alarm(format!("a paused location {error}")))?;
    Ok(Pauses { everything, locations })
}

/// Reservations in order of their ids, which is the order they were made in. The owner is found by index, or the SKU; what else
/// is asked for is looked for among them.
async fn page<S: Session>(session: &mut S, filter: &ReservationFilter) -> Result<ReservationPage, Trouble> {
    let limit = filter.limit.max(1);
    let sku = filter.sku.as_ref().filter(|_| filter.owner_id.is_none());
    let found_all = filter.sku.is_none() || sku.is_some();
    let exact = found_all && filter.location.is_none() && filter.status.is_none();
    let scan = Scan {
        owner_id: filter.owner_id.as_ref(),
        sku,
        status: filter.status,
        before: filter.after.map(|cursor| ReservationId::from_u128(cursor.0)),
        limit: if exact { limit } else { SCANNED.max(limit) },
    };
    let seen = session.scan(&scan).await?;
    let mut holds: Vec<_> = seen.holds.into_iter().filter(|hold| filter.matches(hold)).collect();
    let mut next = seen.next;
    if holds.len() > limit {
        holds.truncate(limit);
        next = holds.last().map(|hold| hold.id);
    }
    Ok(ReservationPage { holds, next: next.map(|id| Cursor(id.as_u128())) })
}

async fn history<S: Session>(session: &mut S, id: ReservationId) -> Result<Option<Vec<EventRow>>, Trouble> {
    let Some(serials) = session.serials(id).await? else { return Ok(None) };
    let rows = session.batches(&serials).await?;
    let its_own = |row: &EventRow| match &row.event.transition {
        Transition::Hold { hold, .. } => hold.id == id,
        Transition::Stock { .. } | Transition::Sale { .. } => false,
    };
    Ok(Some(rows.into_iter().filter(its_own).collect()))
}

/// From the newest batch back, some at a time: each may have many events of others.
async fn unit_history<S: Session>(
    session: &mut S,
    item: &ItemKey,
    unit: &Label,
) -> Result<Option<Vec<EventRow>>, Trouble> {
    let Some((_, serials)) = session.unit(item, unit).await? else { return Ok(None) };
    let mut history = UnitHistory::new(item, unit);
    for some in serials.rchunks(BATCHES_AT_ONCE) {
        if history.is_complete() {
            break;
        }
        session.batches(some).await?.into_iter().rev().for_each(|row| history.add_older(row));
    }
    Ok(Some(history.into_rows()))
}

/// Past the deadline the session is of no more use.
pub(super) async fn in_time<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    let late = || Err(Trouble::Lost("the database did not answer in time".to_owned()));
    tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| late())
}

/// What whoever asked is told, and the session if it is still good. A read changes nothing, so whatever went wrong, nothing
/// was done.
pub(super) async fn after<S: Session>(
    session: S,
    trouble: Trouble,
    deadline: Duration,
) -> (Failure, Option<S>) {
    let failure = match trouble {
        Trouble::Lost(why) => {
            tracing::warn!(why, "a connection to the database is given up");
            return (Failure::Unavailable(why), None);
        }
        Trouble::Alarm(what) => alarm(&what),
        Trouble::Deadlock(_) | Trouble::LockTimeout(_) | Trouble::Raced(_) => Failure::Overloaded,
    };
    (failure, rolled_back(session, deadline).await)
}

/// A session that can't roll back is of no more use.
async fn rolled_back<S: Session>(mut session: S, deadline: Duration) -> Option<S> {
    in_time(deadline, session.roll_back()).await.is_ok().then_some(session)
}
