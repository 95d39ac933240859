//! What a database does for an archive: it lets events leave, and the reservations that had ended by then. Their effect stays in the
//! database: the state of each item after the archived events, and the units that archived reservations have sold. Positions continue.
//! [`ArchiveRun`] has the order of the steps.
//!
//! Events leave in small transactions, and after each of them the database can be verified. So a file of the archive may have events of
//! which only a part has left. The row of `archived` has the hash of this file, and the next archive continues with it. An archive waits
//! for no locks of the instances, except for ended reservations whose units are just being returned.

use super::database_log::{DatabaseLog, wrong_books};
use super::lease::{Lease, is_taken_over};
use super::ledger::{ItemAccount, Ledger};
use super::{
    ArchiveBoundary, ArchiveDeletion, ArchiveError, AuditError, AuditSession, BatchRow, ItemBalance,
};
use crate::engine::{DbError, LockSet, events_from};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    CounterKey, EventId, Hold, Instant, ItemKey, LimitSet, Record, ReservationId, Scope, Status, Transition,
};
use stockhold_store::{
    ArchiveFile, ArchiveMark, ArchiveRequest, ArchiveRun, ArchiveStep, ArchiveSummary, ArchivedStore,
    CONSUMER_KINDS, DroppedEvents, EventArchive, EventRow, LoggedBatch, LoggedBatches, MarkedFile, check_age,
};
use tokio::runtime::Runtime;

/// Events after which a transaction ends: it takes some tens of milliseconds, in which no event is numbered later for it.
const EVENTS_AT_ONCE: usize = 4_096;
/// Rows of events that are read at a time.
const ROWS_AT_ONCE: usize = 64;
/// Keys that are forgotten at a time.
const KEYS_AT_ONCE: usize = 2_000;
/// Records that are read at a time.
const RECORDS_AT_ONCE: usize = 100;
/// How often one transaction is tried that others were in the way of.
const TRIES: u32 = 5;
/// How often a chunk is tried again after another node of a cluster has committed first.
const CONFLICTS: u32 = 64;

/// Archives.
pub(crate) fn run<S: AuditSession>(
    runtime: &Runtime,
    session: &mut S,
    request: &ArchiveRequest<'_>,
    archive: &mut dyn EventArchive,
    progress: &mut dyn FnMut(&ArchiveSummary),
) -> Result<ArchiveSummary, ArchiveError> {
    // What the servers promise counts, whether or not this is run with their settings.
    let promised = runtime.block_on(session.keep_keys(0))?;
    check_age::<AuditError>(request, Duration::from_micros(promised.unsigned_abs()))?;
    let mut lease = Lease::take(runtime, session, request.is_cancelled)?;
    let done = with_lease(runtime, session, &mut lease, request, archive, progress);
    // If the connection is lost, the lease ends by itself.
    let _ = lease.give_back(runtime, session);
    done
}

fn with_lease<S: AuditSession>(
    runtime: &Runtime,
    session: &mut S,
    lease: &mut Lease,
    request: &ArchiveRequest<'_>,
    archive: &mut dyn EventArchive,
    progress: &mut dyn FnMut(&ArchiveSummary),
) -> Result<ArchiveSummary, ArchiveError> {
    // By the store's own clock, which is what the events' instants were read from.
    let (now, _) = runtime.block_on(session.overdue(None, 1))?;
    runtime.block_on(session.number())?;
    if request.drop {
        forget_keys(runtime, session, request.bound(now))?;
    }
    let opening = runtime.block_on(session.opening())?;
    let log = DatabaseLog { runtime, session, mark: opening.mark() };
    let mut store = LeavableDatabase { log, lease, is_cancelled: request.is_cancelled };
    ArchiveRun::new(request, now, &mut store)?.archive(archive, progress, &mut |_| ())
}

fn forget_keys<S: AuditSession>(runtime: &Runtime, session: &mut S, bound: Instant) -> Result<(), DbError> {
    while runtime.block_on(session.forget_keys(bound, KEYS_AT_ONCE))? == KEYS_AT_ONCE {}
    Ok(())
}

/// A database that events leave.
struct LeavableDatabase<'a, S> {
    log: DatabaseLog<'a, S>,
    lease: &'a mut Lease,
    is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl<S: AuditSession> LoggedBatches for LeavableDatabase<'_, S> {
    type Error = AuditError;

    fn mark(&self) -> ArchiveMark {
        self.log.mark
    }

    fn batches(&mut self, after: u64, limit: usize) -> Result<Vec<LoggedBatch>, ArchiveError> {
        self.lease.renew(self.log.runtime, self.log.session)?;
        self.log.batches(after, limit)
    }
}

impl<S: AuditSession> ArchivedStore for LeavableDatabase<'_, S> {
    fn consumer_records(&mut self) -> Result<Vec<Record>, ArchiveError> {
        Ok(self.log.runtime.block_on(consumer_records(self.log.session))?)
    }

    fn drop_file(
        &mut self,
        file: &ArchiveFile,
        may_leave: &mut dyn FnMut(&[Record]) -> bool,
        reached: &mut dyn FnMut(ArchiveStep),
    ) -> Result<DroppedEvents, ArchiveError> {
        let marked = MarkedFile { last: file.last, sha256: file.sha256 };
        let mut left = DroppedEvents { through: self.log.mark.position, reservations: 0 };
        while left.through < file.last && !(self.is_cancelled)() {
            self.lease.renew(self.log.runtime, self.log.session)?;
            let holder = self.lease.holder();
            let deletion = ChunkDeletion { from: left.through, file: marked, holder };
            let dropped = self.log.runtime.block_on(deletion.run(self.log.session, may_leave))?;
            let Some((through, reservations)) = dropped else { break };
            left = DroppedEvents { through, reservations: left.reservations + reservations };
            self.log.mark = ArchiveMark { position: through, file: Some(marked) };
            reached(ArchiveStep::EventsLeft);
        }
        Ok(left)
    }
}

/// All records that tell what consumers have read.
pub(super) async fn consumer_records<S: AuditSession>(session: &mut S) -> Result<Vec<Record>, DbError> {
    let mut records = Vec::new();
    for kind in CONSUMER_KINDS {
        let mut after = None;
        loop {
            let mut page = session.record_page(kind, after.as_ref(), RECORDS_AT_ONCE).await?;
            let more = page.len() == RECORDS_AT_ONCE;
            after = page.last().map(|record| record.key.id.clone());
            records.append(&mut page);
            if !more {
                break;
            }
        }
    }
    Ok(records)
}

/// What leaves in one transaction, as far as events go.
struct ArchiveChunk {
    rows: usize,
    through: u64,
    events: Vec<EventRow>,
}

/// The next whole rows up to the end of a file, at least one.
async fn next<S: AuditSession>(session: &mut S, after: u64, last: u64) -> Result<ArchiveChunk, DbError> {
    let mut chunk = ArchiveChunk { rows: 0, through: after, events: Vec::new() };
    loop {
        let rows = session.numbered(chunk.through, ROWS_AT_ONCE).await?;
        if rows.is_empty() {
            return Err(DbError::InvariantViolated(format!("no event after position {}", chunk.through)));
        }
        for BatchRow { count, last_position, body, .. } in rows {
            let mut events = events_from(&body, last_position.unwrap_or(0), count)?;
            chunk.rows += 1;
            chunk.through = events.last().map_or(chunk.through, |row| row.position);
            chunk.events.append(&mut events);
            if chunk.events.len() >= EVENTS_AT_ONCE || chunk.through >= last {
                return Ok(chunk);
            }
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

/// Why a chunk did not go.
enum DeletionError {
    /// The database.
    Database(DbError),
    /// The books.
    Refused(String),
    /// Another archive has the lease.
    TakenOver(String),
}

impl From<DbError> for DeletionError {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

/// A transaction in which events leave.
struct ChunkDeletion<'a> {
    /// Events behind this position,
    from: u64,
    /// which are in this file.
    file: MarkedFile,
    /// Who archives.
    holder: &'a str,
}

impl ChunkDeletion<'_> {
    /// Lets a chunk leave. Returns the position of its last event and how many reservations left; `None` if it may not leave any more.
    async fn run<S: AuditSession>(
        &self,
        session: &mut S,
        may_leave: &mut dyn FnMut(&[Record]) -> bool,
    ) -> Result<Option<(u64, u64)>, ArchiveError> {
        let chunk = next(session, self.from, self.file.last).await?;
        if chunk.events.iter().zip(self.from + 1..).any(|(row, position)| row.position != position)
            || chunk.through > self.file.last
        {
            return Err(ArchiveError::Refused(wrong_books("positions have a gap")));
        }
        let ended = ended(session, &chunk).await?;
        let (mut tries, mut conflicts) = (1, 0);
        loop {
            let error = match self.attempt(session, &chunk, &ended, may_leave).await {
                Ok(left) => return Ok(left.map(|left| (chunk.through, left))),
                Err(error) => error,
            };
            match error {
                DeletionError::Database(DbError::Deadlock(_) | DbError::LockTimeout(_)) if tries < TRIES => {
                    session.roll_back().await?;
                    tries += 1;
                }
                DeletionError::Database(DbError::Conflict(_)) if conflicts < CONFLICTS => {
                    session.roll_back().await?;
                    conflicts += 1;
                }
                DeletionError::Database(error) => return Err(error.into()),
                DeletionError::Refused(why) => {
                    session.roll_back().await?;
                    return Err(ArchiveError::Refused(why));
                }
                DeletionError::TakenOver(why) => {
                    session.roll_back().await?;
                    return Err(ArchiveError::Interrupted(why));
                }
            }
        }
    }

    async fn attempt<S: AuditSession>(
        &self,
        session: &mut S,
        chunk: &ArchiveChunk,
        ended: &BTreeMap<ReservationId, Hold>,
        may_leave: &mut dyn FnMut(&[Record]) -> bool,
    ) -> Result<Option<u64>, DeletionError> {
        let (opening, lease) = session.begin_archive_deletion().await?;
        if lease.holder != self.holder || opening.position != self.from {
            return Err(DeletionError::TakenOver(is_taken_over(&lease)));
        }
        if !may_leave(&consumer_records(session).await?) {
            session.roll_back().await?;
            return Ok(None);
        }
        let lock_set = LockSet { limits: true, holds: ended.keys().copied().collect(), ..LockSet::default() };
        let rows = session.lock(&lock_set).await?.rows;
        let (limits, held) = (rows.limits.unwrap_or_default(), rows.holds);
        let holds: Vec<Hold> = held.into_iter().filter(|hold| ended.get(&hold.id) == Some(hold)).collect();
        let ClosingBalances { balances, deleted, pauses } = balances(session, chunk, &holds).await?;
        let newest = chunk.events.iter().map(|row| row.event.at).max().unwrap_or(opening.at);
        let deletion = ArchiveDeletion {
            from: self.from,
            opening: ArchiveBoundary {
                position: chunk.through,
                at: newest.max(opening.at),
                file: Some(self.file),
            },
            rows: chunk.rows,
            holds: &holds,
            balances: &balances,
            deleted: &deleted,
            pauses: &pauses,
            counters: &sold_under_limits(&holds, &limits),
        };
        session.delete_archived(&deletion).await?;
        Ok(Some(holds.len() as u64))
    }
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
