//! Queries. They take no locks that commands take.

use crate::engine::db_error::DbError;
use crate::engine::dialect::{LockSet, ReservationScan, Rows, ScanKey, Session, UnitLockSet};
use crate::engine::reply_batch::{PendingReply, ReplyBatch};
use crate::engine::sessions::{recover, rolled_back, within_deadline};
use crate::engine::store_status::StoreStatus;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use stockhold_domain::{
    CounterKey, Item, ItemKey, Label, Limit, LimitCounters, LimitSet, Mode, ReservationId, Subject,
    Transition, UnitIndex,
};
use stockhold_store::{
    Answer, Cursor, EventRow, Failure, LimitUsage, MAX_UNITS_SCANNED, Pauses, Query, QueryResult,
    RESERVATIONS_EXAMINED, ReservationFilter, ReservationPage, SeatMap, UnitFilter, UnitHistory, UnitPage,
    UsageRequest, subject_of,
};

/// Maximum number of quick queries in one round trip.
const AT_ONCE: usize = 256;
/// Maximum number of slow queries that one connection answers before other work gets its turn.
const SLOW_AT_ONCE: usize = 8;
/// Maximum number of event batches in one read for the history of a unit.
const BATCHES_AT_ONCE: usize = 8;
/// A query and its reply.
pub(crate) type PendingQuery = (Query, PendingReply);

/// The queries that wait for a connection.
#[derive(Default)]
pub(crate) struct QueryQueues {
    quick: VecDeque<PendingQuery>,
    slow: VecDeque<PendingQuery>,
}

impl QueryQueues {
    pub(crate) fn add(&mut self, queries: PendingQuery) {
        match queries.0 {
            Query::Reservation(_) | Query::Items(_) | Query::Record(_) => self.quick.push_back(queries),
            Query::ItemPage(_)
            | Query::Reservations(_)
            | Query::History(_)
            | Query::Events { .. }
            | Query::Pauses
            | Query::DuePayments { .. }
            | Query::Units(_)
            | Query::Unit { .. }
            | Query::UnitHistory { .. }
            | Query::SeatMap { .. }
            | Query::Records { .. }
            | Query::Limit(_)
            | Query::Limits { .. }
            | Query::LimitUsage(_)
            | Query::Customer(_) => self.slow.push_back(queries),
        }
    }

    /// Takes look-ups by key, which one round trip answers.
    pub(crate) fn take_quick(&mut self) -> Vec<PendingQuery> {
        let count = self.quick.len().min(AT_ONCE);
        self.quick.drain(..count).collect()
    }

    /// Takes other queries.
    pub(crate) fn take_slow(&mut self) -> Vec<PendingQuery> {
        let count = self.slow.len().min(SLOW_AT_ONCE);
        self.slow.drain(..count).collect()
    }

    pub(crate) fn has_quick(&self) -> bool {
        !self.quick.is_empty()
    }

    pub(crate) fn has_slow(&self) -> bool {
        !self.slow.is_empty()
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = PendingQuery> + '_ {
        self.quick.drain(..).chain(self.slow.drain(..))
    }
}

/// Answers look-ups by key. If a row is damaged, the queries are split in halves until only the queries for that row fail. Returns
/// the session if it can still be used.
pub(crate) async fn run_quick<S: Session>(
    session: S,
    queries: Vec<PendingQuery>,
    deadline: Duration,
) -> Option<S> {
    let mut replies = ReplyBatch::default();
    let mut session = Some(session);
    let mut parts = vec![queries];
    while let Some(part) = parts.pop() {
        let Some(mut at_work) = session.take() else {
            fail(part, &lost(), &mut replies);
            continue;
        };
        match within_deadline(deadline, at_work.read(&lock_set_of(&part))).await {
            Ok(rows) => {
                answer_quick(part, rows, &mut replies);
                session = Some(at_work);
            }
            Err(DbError::InvariantViolated(_)) if part.len() > 1 => {
                parts.extend(halves(part));
                session = rolled_back(at_work, deadline).await;
            }
            Err(error) => {
                let (failure, kept) = recover(at_work, error, deadline).await;
                fail(part, &failure, &mut replies);
                session = kept;
            }
        }
    }
    session
}

fn lock_set_of(queries: &[PendingQuery]) -> LockSet {
    let mut lock_set = LockSet::default();
    for (query, _) in queries {
        match query {
            Query::Reservation(id) => {
                lock_set.holds.insert(*id);
            }
            Query::Items(keys) => lock_set.items.extend(keys.iter().cloned()),
            Query::Record(key) => {
                lock_set.records.insert(key.clone());
            }
            _ => {}
        }
    }
    lock_set
}

/// Reads reservations. Damaged ones are left out: a command for one of them meets it again under the locks. Returns the session if it
/// can still be used.
pub(crate) async fn read_reservations<S: Session>(
    mut session: S,
    ids: Vec<ReservationId>,
    deadline: Duration,
) -> (Option<S>, Result<Rows, Failure>) {
    let mut all = Rows::default();
    let mut parts = vec![ids];
    while let Some(part) = parts.pop() {
        let lock_set = LockSet { holds: part.iter().copied().collect(), ..LockSet::default() };
        match within_deadline(deadline, session.read(&lock_set)).await {
            Ok(rows) => all.holds.extend(rows.holds),
            Err(DbError::InvariantViolated(_)) => {
                let Some(good) = rolled_back(session, deadline).await else { return (None, Err(lost())) };
                session = good;
                if part.len() > 1 {
                    parts.extend(halves(part));
                }
            }
            Err(error) => {
                let (failure, session) = recover(session, error, deadline).await;
                return (session, Err(failure));
            }
        }
    }
    (Some(session), Ok(all))
}

fn fail(queries: Vec<PendingQuery>, failure: &Failure, replies: &mut ReplyBatch) {
    for (_, reply) in queries {
        replies.put(reply, Err(failure.clone()));
    }
}

fn halves<T>(mut whole: Vec<T>) -> [Vec<T>; 2] {
    let second = whole.split_off(whole.len() / 2);
    [whole, second]
}

fn lost() -> Failure {
    Failure::Unavailable("the connection was lost".to_owned())
}

pub(crate) fn answer_quick(queries: Vec<PendingQuery>, rows: Rows, replies: &mut ReplyBatch) {
    let items: BTreeMap<ItemKey, Item> =
        rows.items.into_iter().map(|item| (item.key.clone(), item)).collect();
    let holds: BTreeMap<_, _> = rows.holds.into_iter().map(|hold| (hold.id, hold)).collect();
    let records = rows.records.into_iter().filter(|record| record.value.is_some());
    let records: BTreeMap<_, _> = records.map(|record| (record.key.clone(), record)).collect();
    for (query, reply) in queries {
        let found = match query {
            Query::Reservation(id) => QueryResult::Reservation(holds.get(&id).cloned()),
            Query::Items(keys) => {
                QueryResult::Items(keys.iter().map(|key| items.get(key).cloned()).collect())
            }
            Query::Record(key) => QueryResult::Record(records.get(&key).cloned()),
            _ => {
                replies.put(reply, Err(Failure::Internal("a slow query among the quick ones".to_owned())));
                continue;
            }
        };
        replies.put(reply, Ok(Answer::QueryResult(found)));
    }
}

/// Answers other queries, one after the other. Returns the session if it can still be used.
pub(crate) async fn run_slow<S: Session>(
    session: S,
    queries: Vec<PendingQuery>,
    deadline: Duration,
    status: &StoreStatus,
) -> Option<S> {
    let mut session = Some(session);
    for (query, reply) in queries {
        let Some(mut at_work) = session.take() else {
            reply.answer(Err(lost()));
            continue;
        };
        match within_deadline(deadline, find(&mut at_work, &query, status)).await {
            Ok(found) => {
                reply.answer(Ok(Answer::QueryResult(found)));
                session = Some(at_work);
            }
            Err(error) => {
                let is_lost = matches!(error, DbError::ConnectionLost(_));
                let (failure, kept) = recover(at_work, error, deadline).await;
                // Of all queries only this one may have changed something.
                let may_be_done = is_lost && matches!(&query, Query::Customer(request) if request.is_write());
                reply.answer(Err(if may_be_done { Failure::OutcomeUnknown } else { failure }));
                session = kept;
            }
        }
    }
    session
}

async fn find<S: Session>(
    session: &mut S,
    query: &Query,
    status: &StoreStatus,
) -> Result<QueryResult, DbError> {
    Ok(match query {
        Query::ItemPage(shelf) => QueryResult::ItemPage(session.shelf(shelf).await?),
        Query::Reservations(filter) => QueryResult::Reservations(page(session, filter).await?),
        Query::History(id) => {
            status.set_newest(session.number().await?);
            QueryResult::History(history(session, *id).await?)
        }
        Query::Events { after, limit } => {
            let newest = session.number().await?;
            status.set_newest(newest);
            let rows = session.events(*after, *limit).await?;
            // Positions are dense: events that are missing before the first row have been archived.
            match rows.first() {
                Some(first) if first.position > after + 1 => {
                    QueryResult::Archived { through: first.position - 1 }
                }
                None if *limit > 0 && *after < newest => QueryResult::Archived { through: newest },
                _ => QueryResult::Events(rows),
            }
        }
        Query::DuePayments { now, limit } => {
            QueryResult::DuePayments(session.due_payments(*now, *limit).await?)
        }
        Query::Pauses => QueryResult::Pauses(pauses(session.paused().await?)?),
        Query::Units(filter) => QueryResult::Units(units(session, filter).await?),
        Query::Unit { item, unit } => {
            QueryResult::Unit(session.unit(item, unit).await?.map(|(unit, _)| unit))
        }
        Query::UnitHistory { item, unit } => {
            status.set_newest(session.number().await?);
            QueryResult::UnitHistory(unit_history(session, item, unit).await?)
        }
        Query::SeatMap { item, layout } => QueryResult::SeatMap(seat_map(session, item, *layout).await?),
        Query::Records { kind, after, limit } => {
            QueryResult::Records(session.record_page(*kind, after.as_ref(), *limit).await?)
        }
        Query::Limit(id) => {
            let limits = limits(session).await?;
            QueryResult::Limit(limits.get(id).filter(|limit| limit.terms.is_some()).cloned())
        }
        Query::Limits { after, limit } => {
            let limits = limits(session).await?;
            let follows = |one: &&Limit| after.as_ref().is_none_or(|after| one.id > *after);
            let page = limits.iter().filter(|one| one.terms.is_some()).filter(follows);
            QueryResult::Limits(page.take(*limit).cloned().collect())
        }
        Query::Customer(request) => QueryResult::Customer(session.customers(request).await?),
        Query::LimitUsage(request) => QueryResult::LimitUsage(usage(session, request).await?),
        Query::Reservation(_) | Query::Items(_) | Query::Record(_) => {
            return Err(DbError::InvariantViolated("a quick query among the slow ones".to_owned()));
        }
    })
}

async fn limits<S: Session>(session: &mut S) -> Result<Arc<LimitSet>, DbError> {
    let rows = session.read(&LockSet { limits: true, ..LockSet::default() }).await?;
    rows.limits.ok_or_else(|| DbError::InvariantViolated("the limits were not read".to_owned()))
}

/// What a limit counts: a page of its counters, or the one of a subject.
async fn usage<S: Session>(session: &mut S, request: &UsageRequest) -> Result<Option<LimitUsage>, DbError> {
    let set = limits(session).await?;
    let Some(limit) = set.get(&request.limit_id) else { return Ok(None) };
    let per = limit.terms.as_ref().and_then(|terms| terms.per);
    let mut counters = LimitCounters::default();
    let key = |subject| CounterKey { limit: limit.id.clone(), generation: limit.generation, subject };
    if let (Some(_), None) = (per, &request.subject) {
        let after = request.after.as_ref().map(|name| subject_of(per, name));
        for (subject, counter) in session.counter_page(limit, after.as_ref(), request.limit).await? {
            counters.put(key(subject), counter);
        }
    } else {
        let subject = request.subject.as_ref().map_or(Subject::Everyone, |name| subject_of(per, name));
        let lock_set = LockSet { counters: [key(subject)].into(), ..LockSet::default() };
        for (key, counter) in session.read(&lock_set).await?.counters {
            counters.put(key, counter);
        }
    }
    Ok(request.usage(&set, &counters))
}

async fn units<S: Session>(session: &mut S, filter: &UnitFilter) -> Result<Option<UnitPage>, DbError> {
    let lock_set = LockSet { items: [filter.item.clone()].into(), ..LockSet::default() };
    let has_units = session.read(&lock_set).await?.items.iter().any(|item| item.mode == Mode::Units);
    if !has_units {
        return Ok(None);
    }
    let mut unit_index = UnitIndex::default();
    // One more than the page scans, to know whether there are more.
    unit_index.add(session.units(&filter.item, filter.after.as_ref(), MAX_UNITS_SCANNED + 1).await?);
    Ok(Some(filter.page(&unit_index)))
}

async fn seat_map<S: Session>(
    session: &mut S,
    key: &ItemKey,
    layout: bool,
) -> Result<Option<Box<SeatMap>>, DbError> {
    let all = UnitLockSet { map: true, ..UnitLockSet::default() };
    let lock_set =
        LockSet { items: [key.clone()].into(), units: [(key.clone(), all)].into(), ..LockSet::default() };
    let mut rows = session.read(&lock_set).await?;
    let Some(mut item) = rows.items.pop().filter(|item| item.mode == Mode::Units) else { return Ok(None) };
    let mut unit_index = UnitIndex::default();
    unit_index.add(rows.units.remove(key).unwrap_or_default().map);
    // Read by another statement than the figures, so the map's own are shown with it.
    item.figures.total_units = unit_index.len() as u64;
    (item.figures.held, item.figures.confirmed_sold) = (unit_index.held(), unit_index.sold());
    Ok(Some(Box::new(SeatMap::of(&item, &unit_index, layout))))
}

fn pauses(mut named: Vec<String>) -> Result<Pauses, DbError> {
    let all = named.len();
    named.retain(|location| !location.is_empty());
    let everything = named.len() < all;
    let locations = named.iter().map(|location| Label::new(location)).collect::<Result<_, _>>();
    let locations =
        locations.map_err(|error| DbError::InvariantViolated(format!("a paused location {error}")))?;
    Ok(Pauses { everything, locations })
}

/// Reservations in order of their ids, which is the order they were made in; those of an order in the order of their confirmation.
/// The order is found by index, or the owner, or the SKU; what else is asked for is looked for among them. Times are looked for
/// too: an id has the time of the instance that made it, and instances need no common clock, so the time is no bound for ids.
async fn page<S: Session>(session: &mut S, filter: &ReservationFilter) -> Result<ReservationPage, DbError> {
    let limit = filter.limit.max(1);
    let key = match (&filter.order_id, &filter.owner_id, &filter.sku) {
        (Some(order), _, _) => ScanKey::Order(order),
        (None, Some(owner), _) => ScanKey::Owner(owner),
        (None, None, Some(sku)) => ScanKey::Sku(sku),
        (None, None, None) => ScanKey::All,
    };
    let scan = ReservationScan {
        key,
        status: filter.status,
        before: filter.after.map(|cursor| cursor.0),
        limit: if is_exact(key, filter) { limit } else { RESERVATIONS_EXAMINED.max(limit) },
    };
    let seen = session.scan(&scan).await?;
    let examined = seen.holds.len();
    let mut found: Vec<_> = seen.holds.into_iter().filter(|(_, hold)| filter.matches(hold)).collect();
    let mut next = seen.next;
    if found.len() > limit {
        found.truncate(limit);
        next = found.last().map(|(place, _)| *place);
    }
    let holds = found.into_iter().map(|(_, hold)| hold).collect();
    Ok(ReservationPage { holds, next: next.map(Cursor), examined })
}

/// Whether every reservation that is found by this key is listed.
fn is_exact(key: ScanKey<'_>, filter: &ReservationFilter) -> bool {
    let ReservationFilter {
        owner_id,
        sku,
        location,
        status,
        order_id,
        customer_id,
        created_after,
        created_before,
        created_by: _,
        after: _,
        limit: _,
    } = filter;
    let by_key = usize::from(!matches!(key, ScanKey::All));
    let labels = [owner_id, sku, location, order_id, customer_id];
    let conditions = labels.into_iter().filter(|label| label.is_some()).count();
    conditions == by_key && status.is_none() && created_after.is_none() && created_before.is_none()
}

async fn history<S: Session>(session: &mut S, id: ReservationId) -> Result<Option<Vec<EventRow>>, DbError> {
    let Some(serials) = session.serials(id).await? else { return Ok(None) };
    let rows = session.batches(&serials).await?;
    let its_own = |row: &EventRow| match &row.event.transition {
        Transition::Hold { hold, .. } => hold.id == id,
        Transition::Stock { .. }
        | Transition::Sale { .. }
        | Transition::Limit { .. }
        | Transition::Record { .. } => false,
    };
    Ok(Some(rows.into_iter().filter(its_own).collect()))
}

/// From the newest batch back, some at a time: each may have many events of others.
async fn unit_history<S: Session>(
    session: &mut S,
    item: &ItemKey,
    unit: &Label,
) -> Result<Option<Vec<EventRow>>, DbError> {
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
