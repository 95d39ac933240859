//! Export of a database, and import into an empty one: every event in its order and so with its position, the items, reservations and
//! pauses that the events lead to, the keys within the retention, and the rows of customers as they are. Nothing is decided here: the events have happened.

use super::{AuditError, AuditSession, verify_all};
use crate::engine::{
    CommitOutcome, CommitSent, DbError, LoadedState, LockSet, OpenError, Options, events_from, key_from,
};
use stockhold_domain::{
    Effects, Event, Instant, ItemKey, KeyRecord, Label, Mode, Scope, State, StockChange, Transition,
};
use stockhold_store::{CustomerRequest, CustomerResult, CustomerRow, ItemPageRequest};
use tokio::sync::mpsc;

/// Maximum number of events in one transaction of an import.
const EVENTS_AT_ONCE: usize = 256;
/// Maximum number of keys in one transaction or one read.
const KEYS_AT_ONCE: usize = 2_000;
/// Maximum number of rows of events in one read.
const ROWS_AT_ONCE: usize = 64;
/// Maximum number of rows of customers in one read.
const CUSTOMERS_AT_ONCE: usize = 200;

/// A part of an export, in order.
#[derive(Debug, Default)]
pub struct ExportChunk {
    /// Events in the order of their positions.
    pub events: Vec<Event>,
    /// Used idempotency keys.
    pub keys: Vec<KeyRecord>,
    /// Rows of customers.
    pub customers: Vec<CustomerRow>,
}

/// What an import has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportSummary {
    /// Events.
    pub events: u64,
    /// Keys within the retention.
    pub keys: u64,
    /// Rows of customers.
    pub customers: u64,
    /// Reservations, counted at the end.
    pub reservations: u64,
}

/// The chunks of an export. It ends when the sender is dropped, or with an error.
pub type ImportSource = mpsc::Receiver<Result<ExportChunk, String>>;

/// Imports until the source ends, and verifies the result. The database is marked as unfinished from the first chunk to the end, so no
/// instance serves from an import that was interrupted.
pub(crate) async fn take<S: AuditSession>(
    session: &mut S,
    options: &Options,
    source: &mut ImportSource,
    progress: &mut (dyn FnMut(ImportSummary) + Send),
) -> Result<ImportSummary, AuditError> {
    let shelf = ItemPageRequest { location: None, after: None, limit: 1 };
    let has_customers = !customers_after(session, None, 1).await?.is_empty();
    if session.newest().await? > 0 || !session.shelf(&shelf).await?.is_empty() || has_customers {
        let why = "there is data in the database that is to take over: name an empty one";
        return Err(AuditError::Refused(why.to_owned()));
    }
    let (now, _) = session.overdue(None, 1).await?;
    let retention = i64::try_from(options.key_retention.as_micros()).unwrap_or(i64::MAX);
    let bound = Instant::from_micros(now.micros().saturating_sub(retention));
    let (mut taken, mut marked) = (ImportSummary::default(), false);
    while let Some(chunk) = source.recv().await {
        let ExportChunk { events, mut keys, customers } = chunk.map_err(AuditError::Source)?;
        if !marked && !session.mark(true).await? {
            return Err(AuditError::Open(OpenError::Unfinished));
        }
        marked = true;
        for some in events.chunks(EVENTS_AT_ONCE) {
            write(session, some, &[]).await?;
            taken.events += some.len() as u64;
        }
        keys.retain(|key| key.at >= bound);
        for some in keys.chunks(KEYS_AT_ONCE) {
            write(session, &[], some).await?;
            taken.keys += some.len() as u64;
        }
        for row in customers {
            let put = CustomerRequest::Put { row, expected: None };
            match session.customers(&put).await? {
                CustomerResult::Done => taken.customers += 1,
                other => {
                    let what = format!("a customer that comes once was written twice: {other:?}");
                    return Err(AuditError::Refused(what));
                }
            }
        }
        progress(taken);
    }
    session.number().await?;
    let verdict = verify_all(session, &mut |_| ()).await?;
    if verdict.drift > 0 || verdict.events != taken.events {
        // There are more events if a server ran on the database at the same time.
        let what = verdict.findings.into_iter().next();
        let what = what.unwrap_or_else(|| format!("{} events are there", verdict.events));
        return Err(AuditError::Refused(format!("what was taken over does not add up: {what}")));
    }
    taken.reservations = verdict.reservations.iter().sum();
    session.mark(false).await?;
    Ok(taken)
}

async fn write<S: AuditSession>(
    session: &mut S,
    events: &[Event],
    keys: &[KeyRecord],
) -> Result<(), AuditError> {
    let mut lock_set = LockSet::default();
    for event in events {
        name(&event.transition, &mut lock_set);
    }
    let mut locked = session.lock(&lock_set).await?;
    // An event about an item as a whole does not say that its units have ids.
    let unit_items = locked.rows.items.iter().filter(|item| item.mode == Mode::Units);
    let unit_items: Vec<ItemKey> = unit_items.map(|item| item.key.clone()).collect();
    if unit_items.iter().any(|key| !lock_set.units.contains_key(key)) {
        for key in unit_items {
            lock_set.units.entry(key).or_default();
        }
        session.roll_back().await?;
        locked = session.lock(&lock_set).await?;
    }
    let mut state = LoadedState::of(&lock_set, locked.rows);
    for event in events {
        state.apply(event);
        let unknown = state.units_to_lock().next().map(|_| "units are named that never came");
        if let Some(what) = state.violated_invariant.or(unknown) {
            return Err(AuditError::Refused(format!("what is to be taken over makes no sense: {what}")));
        }
    }
    let mut effects = Effects::default();
    effects.events.extend_from_slice(events);
    effects.keys.extend_from_slice(keys);
    let sent = CommitSent::default();
    match session.commit(&state.changes(&effects, locked.serial, 0), &sent).await? {
        CommitOutcome::Durable => Ok(()),
        CommitOutcome::InDoubt(why) => Err(DbError::ConnectionLost(why).into()),
    }
}

/// Adds what an event touches to a lock set.
fn name(transition: &Transition, lock_set: &mut LockSet) {
    match transition {
        Transition::Hold { change, hold, limits, .. } => {
            lock_set.holds.insert(hold.id);
            let counters = limits.iter().flat_map(|effects| &effects.counters);
            lock_set.counters.extend(counters.map(|(key, _)| key.clone()));
            lock_set.items.extend(hold.lines.iter().map(|line| line.item.clone()));
            for line in hold.lines.iter().filter(|line| line.units.is_some()) {
                let units = lock_set.units.entry(line.item.clone()).or_default();
                units.named.extend(line.units().iter().map(|unit| unit.id.clone()));
            }
            let changes = hold.lines.iter().zip(change.line_changes().unwrap_or_default());
            for (line, change) in changes.filter(|(_, change)| !change.released.is_empty()) {
                let units = lock_set.units.entry(line.item.clone()).or_default();
                units.named.extend(change.released.iter().map(|unit| unit.id.clone()));
            }
        }
        Transition::Stock { change, item } => {
            lock_set.items.insert(item.key.clone());
            if let StockChange::UnitsRetired(ids) = change {
                lock_set.units.entry(item.key.clone()).or_default().named.extend(ids.iter().cloned());
            }
            if let StockChange::UnitsPooled { units, .. } = change {
                let named = units.iter().map(|unit| unit.id.clone());
                lock_set.units.entry(item.key.clone()).or_default().named.extend(named);
            }
        }
        Transition::Sale { scope: Scope::Item(key), .. } => {
            lock_set.items.insert(key.clone());
        }
        Transition::Sale { scope: Scope::Location(location), .. } => {
            lock_set.sets_pauses = true;
            lock_set.pauses.insert(location.as_str().to_owned());
        }
        Transition::Sale { scope: Scope::Everything, .. } => {
            lock_set.sets_pauses = true;
            lock_set.pauses.insert(String::new());
        }
        Transition::Limit { .. } => {
            lock_set.limits = true;
            lock_set.sets_limits = true;
        }
        Transition::Record { record, .. } => {
            lock_set.records.insert(record.key.clone());
        }
    }
}

/// Sends a snapshot of the database.
pub(crate) async fn send<S: AuditSession>(
    session: &mut S,
    sink: &mpsc::Sender<Result<ExportChunk, String>>,
) -> Result<(), AuditError> {
    session.number().await?;
    session.begin_snapshot().await?;
    let opening = session.opening().await?;
    if opening.position > 0 {
        let why = format!(
            "events up to position {} have been archived, and without them nothing can be taken over",
            opening.position
        );
        return Err(AuditError::Refused(why));
    }
    let mut position = 0;
    loop {
        let rows = session.numbered(position, ROWS_AT_ONCE).await?;
        let more = rows.len() == ROWS_AT_ONCE;
        let mut events = Vec::new();
        for row in rows {
            let last = row.last_position.unwrap_or(0);
            position = u64::try_from(last).unwrap_or(0);
            let decoded = events_from(&row.body, last, row.count)?;
            events.extend(decoded.into_iter().map(|row| row.event));
        }
        // The receiver has stopped, and reports the reason itself.
        if sink.send(Ok(ExportChunk { events, ..ExportChunk::default() })).await.is_err() || !more {
            break;
        }
    }
    let mut after = None;
    loop {
        let rows = session.key_rows(after, KEYS_AT_ONCE).await?;
        let more = rows.len() == KEYS_AT_ONCE;
        after = rows.last().map(|row| row.hash);
        let keys = rows.iter().map(|row| key_from(&row.body)).collect::<Result<Vec<_>, _>>()?;
        if sink.send(Ok(ExportChunk { keys, ..ExportChunk::default() })).await.is_err() || !more {
            break;
        }
    }
    let mut after = None;
    loop {
        let customers = customers_after(session, after, CUSTOMERS_AT_ONCE).await?;
        let more = customers.len() == CUSTOMERS_AT_ONCE;
        after = customers.last().map(|row| row.id.clone());
        if sink.send(Ok(ExportChunk { customers, ..ExportChunk::default() })).await.is_err() || !more {
            return session.end_snapshot().await;
        }
    }
}

async fn customers_after<S: AuditSession>(
    session: &mut S,
    after: Option<Label>,
    limit: usize,
) -> Result<Vec<CustomerRow>, AuditError> {
    match session.customers(&CustomerRequest::Page { after, limit }).await? {
        CustomerResult::Page(rows) => Ok(rows),
        other => Err(AuditError::Refused(format!("a page of customers is {other:?}"))),
    }
}
