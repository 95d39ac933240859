//! Recounts everything: folds the events that are kept on top of what those came to that have left, and holds the store's
//! tables against it. Reads one moment and changes nothing. Page by page: memory is for every item, and for one page of
//! reservations, events or keys.

mod archive;
mod keys;
mod limits;
mod pools;
mod units;

use super::ledger::Ledger;
use super::records;
use super::{ArchiveBoundary, AuditError, AuditSession, BatchRow, HoldRow, MovedHistories, QueuedLine};
use crate::engine::{DbError, events_from, first_sku, further_skus, hold_from, serials_from};
pub(crate) use archive::verify_from_archive;
use limits::CountedUnits;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{Event, Hold, Instant, Item, RecordKey, ReservationId, Status, Transition};
use stockhold_store::ItemPageRequest;
use stockhold_store::ledger::{KnownHold, hold_violations};

/// Findings that are reported with their texts. The others are only counted.
const FINDINGS: usize = 100;
/// Rows of events that are read at a time: each may have some hundred events.
const BATCHES_AT_ONCE: usize = 64;
/// Reservations that are read at a time, with their events.
const HOLDS_AT_ONCE: usize = 1_000;
/// Items that are read at a time.
const ITEMS_AT_ONCE: usize = 500;

/// What a recount found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Rows of events read.
    pub batches: u64,
    /// Events folded, with those of an archive if there is one.
    pub events: u64,
    /// Position up to which events have left for an archive; 0 when none has.
    pub archived: u64,
    /// Items.
    pub items: u64,
    /// Units with ids.
    pub units: u64,
    /// Reservations that are kept, by what became of them: active, confirmed, cancelled, expired.
    pub reservations: [u64; 4],
    /// Idempotency keys that are kept.
    pub keys: u64,
    /// What does not add up, at most 100 of it.
    pub findings: Vec<String>,
    /// How much does not add up.
    pub drift: u64,
}

/// How far a recount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyProgress {
    /// So many events of the archive are folded, of so many.
    Archived(u64, u64),
    /// So many events are folded, of so many.
    Events(u64, u64),
    /// So many reservations are held against theirs.
    Reservations(u64),
    /// So many keys are looked up.
    Keys(u64),
}

/// Recounts.
pub(crate) async fn verify_all<S: AuditSession>(
    session: &mut S,
    progress: &mut (dyn FnMut(VerifyProgress) + Send),
) -> Result<VerifyReport, AuditError> {
    let mut verifier = Verifier::begin(session).await?;
    verifier.balances().await?;
    verifier.finish(progress).await
}

struct Verifier<'a, S> {
    session: &'a mut S,
    opening: ArchiveBoundary,
    ledger: Ledger,
    verdict: VerifyReport,
    /// Events of reservations that were found in a reservation's history.
    matched: u64,
    /// What limits count, by the reservations.
    counted: CountedUnits,
    /// The records that are there, deleted ones included.
    records: BTreeSet<RecordKey>,
    /// When payments are due, by the reservations.
    due_payments: BTreeSet<(ReservationId, Instant)>,
    /// The reservations that can't have left, as an archive has them.
    going_on: BTreeMap<ReservationId, Hold>,
}

impl<'a, S: AuditSession> Verifier<'a, S> {
    /// Begins to see one moment.
    async fn begin(session: &'a mut S) -> Result<Self, DbError> {
        session.begin_snapshot().await?;
        let opening = session.opening().await?;
        Ok(Self {
            session,
            opening,
            ledger: Ledger { partial: opening.position > 0, ..Ledger::default() },
            verdict: VerifyReport { archived: opening.position, ..VerifyReport::default() },
            matched: 0,
            counted: CountedUnits::default(),
            records: BTreeSet::new(),
            due_payments: BTreeSet::new(),
            going_on: BTreeMap::new(),
        })
    }

    /// Begins with the balances of the events that have left.
    async fn balances(&mut self) -> Result<(), DbError> {
        let [opened, _] = self.session.pauses().await?;
        self.ledger.pauses.extend(opened);
        let mut after = None;
        loop {
            let page = self.session.balances(after.as_ref(), ITEMS_AT_ONCE).await?;
            let more = page.len() == ITEMS_AT_ONCE;
            after = page.last().map(|balance| balance.item.key.clone());
            for balance in page {
                self.ledger.open(balance);
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Recounts from what the events that have left came to.
    async fn finish(
        mut self,
        progress: &mut (dyn FnMut(VerifyProgress) + Send),
    ) -> Result<VerifyReport, AuditError> {
        self.events(progress).await?;
        self.items().await?;
        self.limits().await?;
        self.holds(progress).await?;
        self.sums().await?;
        self.pools();
        self.releases().await?;
        self.units().await?;
        self.counters().await?;
        self.payments().await?;
        self.records().await?;
        self.keys(progress).await?;
        self.session.end_snapshot().await?;
        Ok(self.verdict)
    }

    fn find(&mut self, what: impl Into<String>) {
        self.verdict.drift += 1;
        if self.verdict.findings.len() < FINDINGS {
            self.verdict.findings.push(what.into());
        }
    }

    /// Folds every event, in the order of positions; those without one come after all others.
    async fn events(&mut self, progress: &mut (dyn FnMut(VerifyProgress) + Send)) -> Result<(), DbError> {
        let newest = self.session.newest().await?;
        let mut position = self.opening.position;
        loop {
            let rows = self.session.numbered(position, BATCHES_AT_ONCE).await?;
            for row in &rows {
                let last = row.last_position.and_then(|last| u64::try_from(last).ok()).unwrap_or(0);
                let first = last.saturating_sub(row.count.unsigned_abs()) + 1;
                if first != position + 1 {
                    self.find(format!(
                        "after position {position} comes {first}: positions have a gap or overlap"
                    ));
                }
                position = last;
                self.batch(row);
            }
            progress(VerifyProgress::Events(position, newest));
            if rows.len() < BATCHES_AT_ONCE {
                break;
            }
        }
        if position != newest {
            self.find(format!("the newest position is {newest}, and the last event has {position}"));
        }
        let mut serial = 0;
        loop {
            let rows = self.session.unnumbered(serial, BATCHES_AT_ONCE).await?;
            for row in &rows {
                serial = row.serial;
                self.batch(row);
            }
            if rows.len() < BATCHES_AT_ONCE {
                break;
            }
        }
        let [_, pauses] = self.session.pauses().await?;
        let is: BTreeSet<String> =
            pauses.into_iter().filter(|(_, paused)| *paused).map(|(location, _)| location).collect();
        let came: BTreeSet<String> =
            self.ledger.pauses.iter().filter(|(_, paused)| **paused).map(|(to, _)| to.clone()).collect();
        for location in is.symmetric_difference(&came) {
            let name = if location.is_empty() { "everything" } else { location };
            self.find(format!("the pause of {name} is not as the events left it"));
        }
        Ok(())
    }

    fn batch(&mut self, row: &BatchRow) {
        self.verdict.batches += 1;
        match decoded(row) {
            Ok(events) => {
                for event in &events {
                    self.verdict.events += 1;
                    self.ledger.take(event);
                    for what in core::mem::take(&mut self.ledger.findings) {
                        self.find(what);
                    }
                }
            }
            Err(what) => self.find(what),
        }
    }

    /// Every item is as its events left it.
    async fn items(&mut self) -> Result<(), DbError> {
        let mut page = ItemPageRequest { location: None, after: None, limit: ITEMS_AT_ONCE };
        loop {
            let items = self.session.shelf(&page).await?;
            let more = items.len() == ITEMS_AT_ONCE;
            for item in items {
                self.verdict.items += 1;
                match self.ledger.items.get_mut(&item.key) {
                    Some(account) => {
                        account.seen = true;
                        account.stored_pools = item.pools.clone();
                        for what in item_differences(&item, &account.item) {
                            self.find(what);
                        }
                    }
                    None => self.find(format!("{:?} is there without an event that made it", item.key)),
                }
                page.after = Some(item.key);
            }
            if !more {
                break;
            }
        }
        let missing: Vec<String> = self
            .ledger
            .items
            .values()
            .filter(|account| !account.seen)
            .map(|account| format!("{:?} is not there", account.item.key))
            .collect();
        for what in missing {
            self.find(what);
        }
        Ok(())
    }

    /// Every reservation is as its events left it, and in the queue of deadlines exactly while it is active.
    async fn holds(&mut self, progress: &mut (dyn FnMut(VerifyProgress) + Send)) -> Result<(), DbError> {
        let (mut after, mut done) = (ReservationId::from_u128(0), 0);
        loop {
            let rows = self.session.hold_rows(after, HOLDS_AT_ONCE).await?;
            let more = rows.len() == HOLDS_AT_ONCE;
            if let Some(last) = rows.last() {
                after = last.id;
            }
            done += rows.len() as u64;
            let moved = self.session.moved_histories(&rows.iter().map(|row| row.id).collect()).await?;
            let page = self.decoded_holds(rows, moved);
            let mut events = self.events_of(&page).await?;
            for (hold, serials) in &page {
                let its = events.of_holds.remove(&hold.id).unwrap_or_default();
                self.history(hold, serials, its, &events.serials);
                self.count(hold);
            }
            self.beside(&page).await?;
            progress(VerifyProgress::Reservations(done));
            if !more {
                break;
            }
        }
        for id in core::mem::take(&mut self.going_on).into_keys() {
            self.find(format!("reservation {id} is not there, and had not ended by its archived events"));
        }
        if self.matched != self.ledger.of_holds {
            self.find(format!(
                "{} events are about reservations, and {} are in the history of one",
                self.ledger.of_holds, self.matched
            ));
        }
        Ok(())
    }

    fn decoded_holds(&mut self, rows: Vec<HoldRow>, mut moved: MovedHistories) -> Vec<(Hold, Vec<u64>)> {
        let mut page = Vec::new();
        for row in rows {
            let id = row.id;
            let mut history = moved.remove(&id).unwrap_or_default();
            history.extend_from_slice(&row.history);
            match (hold_from(&row.body), serials_from(&history)) {
                (Ok(hold), Ok(serials)) => {
                    let columns = (row.id, row.status, row.expires_at);
                    if columns != (hold.id, column_of(hold.status), hold.expires_at)
                        || row.owner_id != hold.terms.reserve.owner_id.as_str()
                        || row.sku != first_sku(&hold)
                    {
                        self.find(format!("reservation {id}: what it is found by is not what it is"));
                    }
                    page.push((hold, serials));
                }
                (Err(what), _) | (_, Err(what)) => self.find(format!("reservation {id}: {what}")),
            }
        }
        page
    }

    /// The events of some reservations, each with its batch's serial.
    async fn events_of(&mut self, page: &[(Hold, Vec<u64>)]) -> Result<HistoryEvents, DbError> {
        let ids: BTreeSet<ReservationId> = page.iter().map(|(hold, _)| hold.id).collect();
        let serials: BTreeSet<u64> = page.iter().flat_map(|(_, serials)| serials.iter().copied()).collect();
        let serials: Vec<u64> = serials.into_iter().collect();
        let mut found = HistoryEvents::default();
        for some in serials.chunks(BATCHES_AT_ONCE) {
            for row in self.session.batch_rows(some).await? {
                found.serials.insert(row.serial);
                // One that makes no sense was found when all were folded.
                for event in decoded(&row).unwrap_or_default() {
                    if let Transition::Hold { hold, .. } = &event.transition
                        && ids.contains(&hold.id)
                    {
                        found.of_holds.entry(hold.id).or_default().push((row.serial, event));
                    }
                }
            }
        }
        Ok(found)
    }

    /// One terminal state, for good; each event follows the one before; the last one left the reservation as it is. Where the
    /// first ones have left for an archive, what is kept is the end of it.
    fn history(
        &mut self,
        hold: &Hold,
        serials: &[u64],
        mut events: Vec<(u64, Event)>,
        there: &BTreeSet<u64>,
    ) {
        let id = hold.id;
        self.matched += events.len() as u64;
        let place = |serial: u64| serials.iter().position(|one| *one == serial);
        events.sort_by_key(|(serial, _)| place(*serial));
        let gone = serials.iter().take_while(|serial| !there.contains(serial)).count();
        if serials.iter().skip(gone).any(|serial| !there.contains(serial)) {
            self.find(format!("reservation {id}: its history has a hole"));
        }
        if gone > 0 && self.opening.position == 0 {
            self.find(format!("reservation {id}: its history does not begin"));
        }
        let archived = self.going_on.remove(&id);
        let mut before = archived.as_ref().map(KnownHold::of);
        let mut returned: Vec<u32> = Vec::new();
        for (number, (_, event)) in events.iter().enumerate() {
            let Transition::Hold { change, hold: after, .. } = &event.transition else { continue };
            if number == 0 && gone > 0 && before.is_none() {
                // The event before it was archived.
                let (from, to) = (change.status_before(), change.status_after());
                if event.previous.is_some() != from.is_some() || after.status != to {
                    self.find(format!("reservation {id}: {change:?} does not follow from an archived event"));
                }
            } else {
                for what in hold_violations(before, event, change, after) {
                    self.find(what);
                }
            }
            let back: Vec<u32> = after.lines.iter().map(|line| line.returned).collect();
            if after.lines.iter().any(|line| line.returned > line.quantity)
                || returned.iter().zip(&back).any(|(before, after)| before > after)
            {
                self.find(format!("reservation {id} returned what it had not"));
            }
            returned = back;
            before = Some(KnownHold::of(after));
        }
        let goes_on = hold.status == Status::Active || hold.has_unsettled_payment();
        match events.last().map(|(_, event)| &event.transition) {
            Some(Transition::Hold { hold: last, .. }) if last.without_removed_lines() == *hold => {}
            // All of it has left, and it goes on.
            None if gone > 0
                && goes_on
                && self.opening.position > 0
                && archived.as_ref().is_none_or(|archived| archived == hold) => {}
            _ => self.find(format!("reservation {id} is not as its events left it")),
        }
    }

    fn count(&mut self, hold: &Hold) {
        let number = usize::try_from(column_of(hold.status)).unwrap_or(0);
        if let Some(count) = self.verdict.reservations.get_mut(number) {
            *count += 1;
        }
        self.due_payments.extend(hold.payment_due_at().map(|due| (hold.id, due)));
        self.counted.add(hold, &self.ledger.limits);
        for line in &*hold.lines {
            let Some(account) = self.ledger.items.get_mut(&line.item) else { continue };
            account.add_draws(hold.status, line);
            match hold.status {
                Status::Active => {
                    account.held += u64::from(line.quantity);
                    account.active += 1;
                }
                Status::Confirmed => {
                    account.sold += u64::from(line.quantity.saturating_sub(line.returned));
                }
                Status::Cancelled | Status::Expired => {}
            }
        }
    }

    /// What stands beside reservations to find them by.
    async fn beside(&mut self, page: &[(Hold, Vec<u64>)]) -> Result<(), DbError> {
        let holds: Vec<&Hold> = page.iter().map(|(hold, _)| hold).collect();
        let found: BTreeSet<_> = self.session.skus_of(&holds).await?.into_iter().collect();
        let meant: BTreeSet<_> = holds
            .iter()
            .flat_map(|hold| further_skus(hold).into_iter().map(|sku| (hold.id, sku.to_owned())))
            .collect();
        for (id, sku) in found.symmetric_difference(&meant) {
            self.find(format!("reservation {id}: lists by SKU {sku:?} show it wrongly"));
        }
        let found: BTreeSet<_> = self.session.orders_of(&holds).await?.into_iter().collect();
        let meant: BTreeSet<_> =
            holds.iter().filter_map(|hold| Some((hold.id, hold.order_id()?.as_str().to_owned()))).collect();
        for (id, order) in found.symmetric_difference(&meant) {
            self.find(format!("reservation {id}: the list of order {order:?} shows it wrongly"));
        }
        let active: Vec<&Hold> = holds.into_iter().filter(|hold| hold.status == Status::Active).collect();
        let found: BTreeSet<QueuedLine> = self.session.lines_of(&active).await?.into_iter().collect();
        let meant: BTreeSet<QueuedLine> = active
            .iter()
            .flat_map(|hold| {
                hold.lines.iter().enumerate().map(|(number, line)| QueuedLine {
                    id: hold.id,
                    item: line.item.clone(),
                    quantity: line.quantity.into(),
                    leads: number == 0,
                })
            })
            .collect();
        let wrong: BTreeSet<ReservationId> = found.symmetric_difference(&meant).map(|line| line.id).collect();
        for id in wrong {
            self.find(format!("reservation {id}: the queue of deadlines has it wrongly"));
        }
        self.counted_holds(&active).await
    }

    /// What every item holds and has sold is the sum over its reservations, and over the queue of deadlines.
    async fn sums(&mut self) -> Result<(), DbError> {
        let (mut lines, keys) = (0, self.ledger.items.keys().cloned().collect::<Vec<_>>());
        for some in keys.chunks(ITEMS_AT_ONCE) {
            let queued = self.session.queued(some).await?;
            for (key, queued) in some.iter().zip(queued) {
                lines += queued.1;
                let Some(account) = self.ledger.items.get(key) else { continue };
                let figures = account.item.figures;
                let (said, sum) = ((figures.held, figures.active), (account.held, account.active));
                let (sold, sum_sold) = (figures.confirmed_sold, account.sold);
                if said != sum {
                    self.find(format!("{key:?} says held and active {said:?}, its reservations {sum:?}"));
                }
                if sum != queued {
                    self.find(format!(
                        "{key:?}: its reservations hold {sum:?}, the queue of deadlines has {queued:?}"
                    ));
                }
                if sold != sum_sold {
                    self.find(format!("{key:?} says sold {sold}, its reservations {sum_sold}"));
                }
            }
        }
        let all = self.session.line_count().await?;
        if all != lines {
            self.find(format!(
                "the queue of deadlines has {all} lines, of which {lines} are of items that are there"
            ));
        }
        Ok(())
    }

    /// Every payment that is to be moved on is in the queue of payments, and no other.
    async fn payments(&mut self) -> Result<(), DbError> {
        let queued: BTreeSet<_> = self.session.due_payment_rows().await?.into_iter().collect();
        let meant = core::mem::take(&mut self.due_payments);
        for (id, _) in queued.symmetric_difference(&meant) {
            self.find(format!("reservation {id}: the queue of payments has it wrongly"));
        }
        Ok(())
    }

    /// Every record is as its events left it.
    async fn records(&mut self) -> Result<(), DbError> {
        let meant = core::mem::take(&mut self.ledger.records);
        let without_values = core::mem::take(&mut self.ledger.without_values);
        let found = records::compare(self.session, meant, &without_values, self.ledger.partial).await?;
        self.records = found.there;
        found.findings.into_iter().for_each(|what| self.find(what));
        Ok(())
    }
}

/// What some reservations' histories lead to.
#[derive(Default)]
struct HistoryEvents {
    /// Each with its batch's serial.
    of_holds: BTreeMap<ReservationId, Vec<(u64, Event)>>,
    /// Batches that are there.
    serials: BTreeSet<u64>,
}

/// How an item differs from what its events lead to.
fn item_differences(item: &Item, came: &Item) -> Vec<String> {
    if item == came {
        return Vec::new();
    }
    let mut found = Vec::new();
    if (Item { pools: came.pools.clone(), ..item.clone() }) != *came {
        found.push(format!(
            "{:?} is {:?}, and its events lead to {:?} or to other settings",
            item.key, item.figures, came.figures
        ));
    }
    found.extend(pools::difference(item, came));
    found
}

fn decoded(row: &BatchRow) -> Result<Vec<Event>, String> {
    let rows = events_from(&row.body, row.last_position.unwrap_or(row.count), row.count);
    rows.map(|rows| rows.into_iter().map(|row| row.event).collect())
        .map_err(|what| format!("the batch of serial {}: {what}", row.serial))
}

/// A status as its column has it.
fn column_of(status: Status) -> i16 {
    match status {
        Status::Active => 0,
        Status::Confirmed => 1,
        Status::Cancelled => 2,
        Status::Expired => 3,
    }
}
