//! Archives old data: events older than a bound, the oldest first, and the reservations that had ended by then. Their effect stays in
//! the database: the state of each item after the archived events, and the units that archived reservations have sold. Positions
//! continue.
//!
//! Data is written to an [`ArchiveSink`] and synced there before it is deleted. It is deleted in small transactions, and after each of
//! them the database can be verified. An archive that was interrupted continues where it ended. It waits for no locks of the
//! instances, except for ended reservations whose units are just being returned.

use super::ledger::{ItemAccount, Ledger};
use super::{ArchiveBoundary, ArchiveDeletion, AuditError, AuditSession, BatchRow, ItemBalance};
use crate::engine::{DbError, LockSet, Options, events_from};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    CounterKey, EventId, Hold, Instant, ItemKey, LimitSet, ReservationId, Scope, Status, Transition,
};
use stockhold_store::EventRow;

/// Events after which a transaction ends: it takes some tens of milliseconds, in which no other archive begins and no event
/// is numbered later for it.
const EVENTS_AT_ONCE: usize = 4_096;
/// Rows of events that are read at a time.
const ROWS_AT_ONCE: usize = 64;
/// Keys that are forgotten at a time.
const KEYS_AT_ONCE: usize = 2_000;
/// How often one transaction is tried that others were in the way of.
const TRIES: u32 = 5;

/// What is to leave.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveRequest {
    /// What happened longer ago than this.
    pub older_than: Duration,
    /// Whether it leaves the database, or is only written.
    pub drop: bool,
}

/// What has left, or was only written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSummary {
    /// Position before the first event; what is up to here had left before.
    pub after: u64,
    /// Position of the last.
    pub through: u64,
    /// Events.
    pub events: u64,
    /// Reservations.
    pub reservations: u64,
    /// Idempotency keys that were forgotten for it.
    pub keys: u64,
}

/// Where it goes.
pub trait ArchiveSink {
    /// What follows has positions after this one.
    fn begin(&mut self, after: u64) -> Result<(), String>;
    /// The next event.
    fn event(&mut self, row: &EventRow) -> Result<(), String>;
    /// A reservation that has ended.
    fn reservation(&mut self, hold: &Hold) -> Result<(), String>;
    /// Makes all of it durable.
    fn sync(&mut self) -> Result<(), String>;
}

/// Archives.
pub(crate) async fn run<S: AuditSession>(
    session: &mut S,
    options: &Options,
    order: ArchiveRequest,
    sink: &mut (dyn ArchiveSink + Send),
    progress: &mut (dyn FnMut(ArchiveSummary) + Send),
) -> Result<ArchiveSummary, AuditError> {
    // What the servers promise counts, whether or not this is run with their settings.
    let promised = Duration::from_micros(session.keep_keys(0).await?.unsigned_abs());
    let retention = options.key_retention.max(promised);
    if order.older_than < retention {
        return Err(AuditError::InvalidRequest(format!(
            "what is younger than {} h can't be archived: its idempotency keys are kept for so long",
            retention.as_secs().div_ceil(3_600)
        )));
    }
    // By the store's own clock, which is what the events' instants were read from.
    let (now, _) = session.overdue(None, 1).await?;
    let age = i64::try_from(order.older_than.as_micros()).unwrap_or(i64::MAX);
    let bound = Instant::from_micros(now.micros().saturating_sub(age));
    session.number().await?;
    let opening = session.opening().await?;
    let mut done =
        ArchiveSummary { after: opening.position, through: opening.position, ..ArchiveSummary::default() };
    if order.drop {
        loop {
            let gone = session.forget_keys(bound, KEYS_AT_ONCE).await?;
            done.keys += gone as u64;
            if gone < KEYS_AT_ONCE {
                break;
            }
        }
    }
    sink.begin(opening.position).map_err(AuditError::Sink)?;
    while let Some(chunk) = next(session, done.through, bound).await? {
        if chunk.events.iter().zip(done.through + 1..).any(|(row, position)| row.position != position) {
            return Err(AuditError::Refused(wrong_books("positions have a gap")));
        }
        let ended = ended(session, &chunk).await?;
        let written = write(&chunk, ended.values(), sink);
        written.and_then(|()| sink.sync()).map_err(AuditError::Sink)?;
        let left =
            if order.drop { delete_chunk(session, done.through, &chunk, &ended).await? } else { ended.len() };
        done.through = chunk.through;
        done.events += chunk.events.len() as u64;
        done.reservations += left as u64;
        progress(done);
    }
    Ok(done)
}

/// What leaves in one transaction, as far as events go.
struct ArchiveChunk {
    rows: usize,
    through: u64,
    events: Vec<EventRow>,
}

/// The next whole rows that are older than the bound, if there are any.
async fn next<S: AuditSession>(
    session: &mut S,
    after: u64,
    bound: Instant,
) -> Result<Option<ArchiveChunk>, DbError> {
    let mut chunk = ArchiveChunk { rows: 0, through: after, events: Vec::new() };
    loop {
        let rows = session.numbered(chunk.through, ROWS_AT_ONCE).await?;
        let last_page = rows.len() < ROWS_AT_ONCE;
        for BatchRow { count, last_position, body, .. } in rows {
            let mut events = events_from(&body, last_position.unwrap_or(0), count)?;
            let newest = events.iter().map(|row| row.event.at).max();
            if newest.is_none_or(|newest| newest >= bound) {
                return Ok(Some(chunk).filter(|chunk| chunk.rows > 0));
            }
            chunk.rows += 1;
            chunk.through = events.last().map_or(chunk.through, |row| row.position);
            chunk.events.append(&mut events);
            if chunk.events.len() >= EVENTS_AT_ONCE {
                return Ok(Some(chunk));
            }
        }
        if last_page {
            return Ok(Some(chunk).filter(|chunk| chunk.rows > 0));
        }
    }
}

/// Reservations whose last event of all is among these.
async fn ended<S: AuditSession>(
    session: &mut S,
    chunk: &ArchiveChunk,
) -> Result<BTreeMap<ReservationId, Hold>, DbError> {
    let mut last: BTreeMap<ReservationId, EventId> = BTreeMap::new();
    for row in &chunk.events {
        if let Transition::Hold { hold, .. } = &row.event.transition {
            last.insert(hold.id, row.event.id);
        }
    }
    let lock_set = LockSet { holds: last.keys().copied().collect(), ..LockSet::default() };
    let holds = session.read(&lock_set).await?.holds;
    let over = |hold: &Hold| {
        hold.status != Status::Active
            && last.get(&hold.id) == Some(&hold.last_event)
            && !hold.has_unsettled_payment()
    };
    Ok(holds.into_iter().filter(over).map(|hold| (hold.id, hold)).collect())
}

fn write<'a>(
    chunk: &ArchiveChunk,
    ended: impl Iterator<Item = &'a Hold>,
    sink: &mut (dyn ArchiveSink + Send),
) -> Result<(), String> {
    for row in &chunk.events {
        sink.event(row)?;
    }
    for hold in ended {
        sink.reservation(hold)?;
    }
    Ok(())
}

/// Why a chunk did not go.
enum DeletionError {
    /// The database.
    Database(DbError),
    /// The books, or somebody else.
    Refused(String),
}

impl From<DbError> for DeletionError {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

/// Lets a chunk go. How many reservations went.
async fn delete_chunk<S: AuditSession>(
    session: &mut S,
    from: u64,
    chunk: &ArchiveChunk,
    ended: &BTreeMap<ReservationId, Hold>,
) -> Result<usize, AuditError> {
    let mut tries = 1;
    loop {
        match try_delete_chunk(session, from, chunk, ended).await {
            Ok(left) => return Ok(left),
            Err(DeletionError::Database(DbError::Deadlock(_) | DbError::LockTimeout(_))) if tries < TRIES => {
                session.roll_back().await?;
                tries += 1;
            }
            Err(DeletionError::Database(error)) => return Err(error.into()),
            Err(DeletionError::Refused(why)) => {
                session.roll_back().await?;
                return Err(AuditError::Refused(why));
            }
        }
    }
}

async fn try_delete_chunk<S: AuditSession>(
    session: &mut S,
    from: u64,
    chunk: &ArchiveChunk,
    ended: &BTreeMap<ReservationId, Hold>,
) -> Result<usize, DeletionError> {
    let opening = session.begin_archive_deletion().await?;
    if opening.position != from {
        return Err(DeletionError::Refused("another archive is at work on this database".to_owned()));
    }
    let lock_set = LockSet { limits: true, holds: ended.keys().copied().collect(), ..LockSet::default() };
    let rows = session.lock(&lock_set).await?.rows;
    let (limits, held) = (rows.limits.unwrap_or_default(), rows.holds);
    let holds: Vec<Hold> = held.into_iter().filter(|hold| ended.get(&hold.id) == Some(hold)).collect();
    let ClosingBalances { balances, deleted, pauses } = balances(session, chunk, &holds).await?;
    let newest = chunk.events.iter().map(|row| row.event.at).max().unwrap_or(opening.at);
    let deletion = ArchiveDeletion {
        from,
        opening: ArchiveBoundary { position: chunk.through, at: newest.max(opening.at) },
        rows: chunk.rows,
        holds: &holds,
        balances: &balances,
        deleted: &deleted,
        pauses: &pauses,
        counters: &sold_under_limits(&holds, &limits),
    };
    session.delete_archived(&deletion).await?;
    Ok(holds.len())
}

/// The units that reservations have sold, by the counters that count them now.
fn sold_under_limits<'a>(holds: &'a [Hold], limits: &LimitSet) -> Vec<(&'a CounterKey, u64)> {
    let mut sold: BTreeMap<&CounterKey, u64> = BTreeMap::new();
    for line in holds.iter().filter(|hold| hold.status == Status::Confirmed).flat_map(|hold| &*hold.lines) {
        for count in line.details().counted.iter().filter(|count| limits.current(&count.key).is_some()) {
            *sold.entry(&count.key).or_default() += u64::from(count.units);
        }
    }
    sold.into_iter().filter(|(_, units)| *units > 0).collect()
}

fn wrong_books(what: &str) -> String {
    format!(
        "the books do not add up, and nothing leaves them before they do (see `stockhold verify`): {what}"
    )
}

/// What replaces the archived events of a chunk.
struct ClosingBalances {
    balances: Vec<ItemBalance>,
    deleted: Vec<ItemKey>,
    pauses: Vec<(String, bool)>,
}

async fn balances<S: AuditSession>(
    session: &mut S,
    chunk: &ArchiveChunk,
    holds: &[Hold],
) -> Result<ClosingBalances, DeletionError> {
    let touched = |row: &EventRow| -> Vec<ItemKey> {
        match &row.event.transition {
            Transition::Hold { hold, .. } => hold.lines.iter().map(|line| line.item.clone()).collect(),
            Transition::Stock { item, .. } => vec![item.key.clone()],
            Transition::Sale { scope: Scope::Item(key), .. } => vec![key.clone()],
            Transition::Sale { .. } | Transition::Limit { .. } | Transition::Record { .. } => Vec::new(),
        }
    };
    let keys: BTreeSet<ItemKey> = chunk.events.iter().flat_map(touched).collect();
    let keys: Vec<ItemKey> = keys.into_iter().collect();
    let mut ledger = Ledger { partial: true, ..Ledger::default() };
    for balance in session.balances_of(&keys).await? {
        ledger.open(balance);
    }
    for row in &chunk.events {
        ledger.take(&row.event);
    }
    if let Some(what) = ledger.findings.first() {
        return Err(DeletionError::Refused(wrong_books(what)));
    }
    for line in holds.iter().filter(|hold| hold.status == Status::Confirmed).flat_map(|hold| &*hold.lines) {
        if let Some(account) = ledger.items.get_mut(&line.item) {
            account.sold += u64::from(line.quantity.saturating_sub(line.returned));
            account.add_draws(Status::Confirmed, line);
        }
    }
    let deleted =
        ledger.deleted.into_iter().filter(|key| !ledger.items.contains_key(key)).collect::<Vec<_>>();
    let balance = |account: ItemAccount| {
        let sales = account.drawn.into_iter().map(|(pool, drawn)| (pool, drawn.sold));
        let pool_sales = sales.filter(|(_, sold)| *sold > 0).collect();
        ItemBalance { item: account.item, sold: account.sold, pool_sales }
    };
    let balances = ledger.items.into_values().map(balance);
    Ok(ClosingBalances { balances: balances.collect(), deleted, pauses: ledger.pauses.into_iter().collect() })
}
