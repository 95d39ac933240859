//! Verifies a data directory. It folds the log from its first batch and compares the index and the invariants of the
//! rules with the result.

mod archive;
mod base;
mod limits;
mod pools;
mod runs;
mod units;

use self::pools::PoolRecount;
use self::runs::{KeySum, Lookups};
use self::units::{UnitIndexes, differing, miscounted};
use crate::customers;
use crate::error::IndexError;
use crate::error::OpenError;
use crate::files;
use crate::index::item_key_interner::ItemKeyInterner;
use crate::index::segments;
use crate::index::units as index_units;
use crate::index::{Index, IndexState, PAUSE_EVERYTHING, closed, read_state};
use crate::index::{due_payments, records};
use crate::log::start::LogStart;
use crate::log::{self, Log};
use crate::start::data_dir::{check_wal_unless_in_use, find_missing_end, read_sync_marker};
use crate::start::incomplete_copy;
use foldhash::fast::RandomState;
use limits::LimitRecount;
use rusqlite::Connection;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::slice;
use stockhold_domain::{
    CounterEffect, Event, Hold, HoldChange, Instant, Item, ItemKey, LimitCounters, LimitSet, Record,
    RecordKey, ReservationId, Scope, Status, StockChange, StockCounters, Transition,
};
use stockhold_store::ledger::{self, KnownHold};
use stockhold_store::{EventArchive, StartProgress, unit_transitions};

type Map<K, V> = HashMap<K, V, RandomState>;

/// The number of findings that are reported in full. The others are counted.
const FINDINGS: usize = 100;

/// The result of a verification.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// The number of batches.
    pub batches: u64,
    /// The number of events, archived ones included.
    pub events: u64,
    /// The position up to which events were archived. Their sums are part of the recount.
    pub archived: u64,
    /// The number of items.
    pub items: u64,
    /// The numbers of active, confirmed, cancelled and expired reservations.
    pub reservations: [u64; 4],
    /// The number of idempotency keys in the log.
    pub keys: u64,
    /// The findings, at most 100.
    pub findings: Vec<String>,
    /// The number of all findings.
    pub drift: u64,
}

/// Verifies a data directory. It only reads, and a server may be using the directory: batches that are committed during
/// the verification are not read. It needs memory for every reservation: about 200 bytes for a closed one, as much as
/// the server for an active one, both twice if the index has it too, and at most 100 MB for postings. `progress` gets
/// the number of batches that are done and the number of all batches.
pub fn verify(dir: &Path, progress: impl FnMut(u64, u64)) -> Result<VerifyReport, OpenError> {
    verify_by(dir, None, progress)
}

/// Verifies a data directory like [`verify`], from the first event ever on: it folds the events of the archive, and compares
/// the result with the base. Where the archive can't be used, that is a finding.
pub fn verify_with_archive(
    dir: &Path,
    archive: &mut dyn EventArchive,
    progress: impl FnMut(u64, u64),
) -> Result<VerifyReport, OpenError> {
    verify_by(dir, Some(archive), progress)
}

fn verify_by(
    dir: &Path,
    archive: Option<&mut dyn EventArchive>,
    progress: impl FnMut(u64, u64),
) -> Result<VerifyReport, OpenError> {
    let base_file = dir.join(files::BASE);
    let start = log::start::read(&base_file)?;
    let report = recount(dir, &start, archive, progress);
    if log::start::read(&base_file)? != start {
        return Err(OpenError::io("recounting", "events were archived meanwhile; run it again"));
    }
    report
}

fn recount(
    dir: &Path,
    start: &LogStart,
    archive: Option<&mut dyn EventArchive>,
    mut progress: impl FnMut(u64, u64),
) -> Result<VerifyReport, OpenError> {
    let log_file = dir.join(files::LOG);
    if !log_file.exists() {
        return Err(OpenError::io(
            format!("opening {}", log_file.display()),
            "there is no stockhold data here",
        ));
    }
    incomplete_copy::refuse(dir)?;
    // A log of another format can't be judged by the rules of this version.
    Log::open_reader(&log_file)?.check_format()?;
    check_wal_unless_in_use(dir, &log_file)?;
    customers::check(dir)?;
    // The index is read before the log. It is never ahead of the log, even if a server commits in between.
    let index_file = dir.join(files::INDEX);
    let index_db = Index::open_for_recount(&index_file)?;
    let damaged = |damage: IndexError| damage.into_open_error(&index_file);
    let view = |db: &Connection| IndexView::read(db, start.keys_dropped_before());
    let mut index = index_db.as_ref().map(view).transpose().map_err(damaged)?.unwrap_or_default();
    let mut lookups = Lookups::new(index.state, index.keys);
    let mut damage = None;
    let mark = read_sync_marker(dir)?;
    let log = Log::open_reader(&log_file)?;
    let last = log.last()?.map_or(0, |(number, _)| number);

    let mut fold = base::read(dir, &mut index)?.unwrap_or_default();
    if let Some(archive) = archive {
        fold = archive::fold(fold, start, &log, archive);
    }
    let start = start.head;
    if index_db.is_some() && index.state.indexed < start.number {
        // A start makes a new index from the base.
        index = IndexView::default();
    } else if index.state.indexed == start.number {
        fold.compare(&index);
    }
    log.for_each_batch(start.number, start.sum, |batch, _| {
        if batch.number > last {
            return Ok(false);
        }
        if batch.position != fold.verdict.events + 1 {
            fold.find(format!("batch {} begins at position {}", batch.number, batch.position));
        }
        for event in &batch.events {
            fold.event(event);
            // Items are published event by event, and the index may have read them between two events.
            if batch.number > index.state.indexed {
                fold.newer_items(slice::from_ref(event));
            }
        }
        fold.verdict.keys += batch.keys.len() as u64;
        fold.verdict.batches = batch.number;
        if batch.number == index.state.indexed {
            fold.compare(&index);
        }
        if let Some(db) = &index_db
            && index.state.indexed > 0
        {
            damage = lookups.add_batch(&batch, db).err();
        }
        progress(batch.number, last);
        Ok(damage.is_none())
    })?;
    if let Some(damage) = damage {
        return Err(damaged(damage));
    }
    if let Some(db) = &index_db
        && index.state.indexed > 0
    {
        lookups.end(db).map_err(damaged)?.into_iter().for_each(|what| fold.find(what));
    }
    if index.state.indexed > last {
        fold.find(format!("the index has seen batch {}, the log ends at {last}", index.state.indexed));
    }
    fold.unmatched_items();
    match mark {
        Err(what) => fold.find(format!("the mark of the last synced batch: {what}")),
        Ok(mark) => {
            let wrong = find_missing_end(last, 0, mark, |batch| log.sum_if_kept(batch))?;
            if let Some(what) = wrong {
                fold.find(format!("the log: {what}"));
            }
        }
    }
    Ok(fold.end())
}

/// The index as one transaction shows it.
#[derive(Default)]
struct IndexView {
    state: IndexState,
    items: Map<ItemKey, Item>,
    pauses: HashSet<String>,
    units: UnitIndexes,
    active: Map<ReservationId, Hold>,
    closed: Map<ReservationId, u32>,
    records: BTreeMap<RecordKey, Record>,
    due_payments: BTreeMap<ReservationId, Instant>,
    limits: LimitSet,
    counters: LimitCounters,
    keys: KeySum,
}

impl IndexView {
    /// Reads an index. Keys that were used before `dropped_before` are not counted.
    fn read(db: &Connection, dropped_before: Instant) -> Result<Self, IndexError> {
        let snapshot = db.unchecked_transaction()?;
        let mut view = Self { state: read_state(&snapshot)?, ..Self::default() };
        view.state.dropped_before = view.state.dropped_before.max(dropped_before);
        let (mut items, mut pauses) = (Map::default(), HashSet::new());
        let keys = ItemKeyInterner::default();
        crate::index::load_items_and_pauses(
            &snapshot,
            view.state,
            &keys,
            |item| {
                items.insert(item.key.clone(), item);
            },
            |scope| {
                pauses.insert(scope.to_owned());
            },
        )?;
        index_units::load(&snapshot, view.state.units, |item, units| {
            view.units.entry(item).or_default().add(units);
        })?;
        due_payments::load(&snapshot, view.state.due_payments, |id, due| {
            view.due_payments.insert(id, due);
        })?;
        records::load(&snapshot, view.state.records, |record| {
            view.records.insert(record.key.clone(), record);
        })?;
        let (mut limits, mut sold) = (LimitSet::default(), Vec::new());
        crate::index::limits::load(
            &snapshot,
            view.state.limits,
            |limit| limits.put(limit),
            |key, units| sold.push((key, units)),
        )?;
        let mut active =
            segments::load(&snapshot, view.state.active.stored, &keys, &StartProgress::default())?;
        let active = active.take_holds(view.state.active)?;
        view.counters = crate::index::limits::counters(&limits, sold, &active);
        view.limits = limits;
        let active = active.into_iter().map(|hold| (hold.id, hold)).collect();
        let mut closed = Map::default();
        let totals = closed::load(&snapshot, |hold| {
            closed.insert(hold.id, digest(&hold));
        })?;
        if totals != view.state.closed {
            return Err(IndexError::Damaged("it lacks closed reservations, or has others".to_owned()));
        }
        view.keys = KeySum::of_runs(&snapshot, view.state.dropped_before)?;
        (view.items, view.pauses, view.active, view.closed) = (items, pauses, active, closed);
        Ok(view)
    }
}

fn digest(hold: &Hold) -> u32 {
    let mut bytes = Vec::new();
    stockhold_store::codec::put_hold(&mut bytes, hold);
    crc32fast::hash(&bytes)
}

/// The state after the events so far.
#[derive(Default)]
struct Recount {
    verdict: VerifyReport,
    items: Map<ItemKey, Item>,
    units: UnitIndexes,
    paused: HashSet<String>,
    active: Map<ReservationId, Hold>,
    closed: Map<ReservationId, Closed>,
    /// The units that confirmed reservations sold and that were not returned.
    sold: Map<ItemKey, i128>,
    /// Fulfilled units of each item, less returns.
    fulfilled: Map<ItemKey, i128>,
    records: BTreeMap<RecordKey, Record>,
    due_payments: BTreeMap<ReservationId, Instant>,
    limits: LimitRecount,
    pools: PoolRecount,
    /// Items of the index that differ from the log at the batch of the index. They may match the log a moment later.
    unmatched: Map<ItemKey, Option<Item>>,
}

/// The part of a closed reservation that later checks need.
struct Closed {
    known: KnownHold,
    digest: u32,
    /// The returned and the fulfilled units by line; empty if there are none.
    moved: Box<[(u32, u32)]>,
}

impl Closed {
    fn of(hold: &Hold) -> Self {
        let any = hold.lines.iter().any(|line| line.returned > 0 || line.fulfilled > 0);
        let lines = hold.lines.iter().filter(|_| any);
        let moved = lines.map(|line| (line.returned, line.fulfilled)).collect();
        Self { known: KnownHold::of(hold), digest: digest(hold), moved }
    }
}

impl Recount {
    fn find(&mut self, what: String) {
        self.verdict.drift += 1;
        if self.verdict.findings.len() < FINDINGS {
            self.verdict.findings.push(what);
        }
    }

    fn event(&mut self, event: &Event) {
        self.verdict.events += 1;
        for what in unit_transitions::violations(|item| self.units.get(item), &event.transition) {
            self.find(what);
        }
        index_units::apply(&mut self.units, event);
        match &event.transition {
            Transition::Hold { change, hold, figures, limits } => {
                self.chain(event, hold, change);
                match change.payment_due(hold) {
                    Some(Some(due)) => {
                        self.due_payments.insert(hold.id, due);
                    }
                    Some(None) => {
                        self.due_payments.remove(&hold.id);
                    }
                    None => {}
                }
                for what in self.limits.hold(hold, limits.as_deref()) {
                    self.find(what);
                }
                for ((line, after), at) in hold.lines.iter().zip(figures).zip(0..) {
                    self.line(change, hold, line, at, *after);
                }
                for moved in limits.iter().flat_map(|effects| &*effects.pools) {
                    let line = usize::try_from(moved.line).ok().and_then(|line| hold.lines.get(line));
                    if let Some(item) = line.and_then(|line| self.items.get_mut(&line.item)) {
                        item.pools = moved.pools.clone();
                    }
                }
                self.pools.hold(hold);
                self.keep(&hold.without_removed_lines());
            }
            Transition::Stock { change, item } => self.stock(change, item),
            Transition::Sale { scope, paused, .. } => {
                let name = match scope {
                    Scope::Everything => PAUSE_EVERYTHING,
                    Scope::Location(location) => location.as_str(),
                    Scope::Item(key) => {
                        match self.items.get_mut(key) {
                            Some(item) => item.paused = *paused,
                            None => self.find(format!("{key:?} was paused and is not there")),
                        }
                        return;
                    }
                };
                if *paused {
                    self.paused.insert(name.to_owned());
                } else {
                    self.paused.remove(name);
                }
            }
            Transition::Limit { limit } => {
                for what in self.limits.limit(limit) {
                    self.find(what);
                }
            }
            Transition::Record { record, .. } => {
                let before = self.records.insert(record.key.clone(), record.clone());
                for what in ledger::record_violations(before.as_ref(), record) {
                    self.find(what);
                }
            }
        }
    }

    /// Checks that a reservation has one final state, that each event follows the reservation's last event, and that
    /// nothing expires early.
    fn chain(&mut self, event: &Event, hold: &Hold, change: &HoldChange) {
        let active = self.active.get(&hold.id).map(KnownHold::of);
        let before = active.or_else(|| self.closed.get(&hold.id).map(|closed| closed.known));
        for what in ledger::hold_violations(before, event, change, hold) {
            self.find(what);
        }
    }

    /// Checks that the counters of a line's item follow from the counters before.
    fn line(
        &mut self,
        change: &HoldChange,
        hold: &Hold,
        line: &stockhold_domain::Line,
        at: usize,
        after: StockCounters,
    ) {
        let known = self.items.get(&line.item);
        let known = known.map(|item| (item.figures, item.settings.oversell_allowance));
        let Some((before, allowance)) = known else {
            // A line that came back before its item was deleted.
            if change.effect(hold, line, at) == CounterEffect::default() {
                return;
            }
            self.find(format!("reservation {} names {:?}, which is not there", hold.id, line.item));
            return;
        };
        for what in ledger::line_violations(change, hold, line, at, &before, &after, allowance) {
            self.find(what);
        }
        if let Some(item) = self.items.get_mut(&line.item) {
            item.figures = after;
        }
    }

    fn keep(&mut self, hold: &Hold) {
        if let Some(before) = self.closed.get(&hold.id) {
            let too_much = hold.lines.iter().any(|line| line.returned > line.quantity);
            let mut lines = before.moved.iter().zip(hold.lines.iter());
            if too_much || lines.any(|((returned, _), line)| *returned > line.returned) {
                self.find(format!("reservation {} returned what it had not", hold.id));
            }
        }
        self.sell(hold);
        self.active.remove(&hold.id);
        if hold.status == Status::Active {
            self.active.insert(hold.id, hold.clone());
        } else {
            self.closed.insert(hold.id, Closed::of(hold));
        }
    }

    /// Counts what a confirmed reservation sold, and what was returned and fulfilled since its last event.
    fn sell(&mut self, hold: &Hold) {
        if hold.status != Status::Confirmed {
            return;
        }
        let before = self.closed.get(&hold.id);
        for (line, at) in hold.lines.iter().zip(0_usize..) {
            let moved = before.and_then(|before| before.moved.get(at)).copied();
            let (returned, fulfilled) = moved.unwrap_or_default();
            let sold = if before.is_some() { 0 } else { i128::from(line.quantity) };
            *self.sold.entry(line.item.clone()).or_default() +=
                sold + i128::from(returned) - i128::from(line.returned);
            *self.fulfilled.entry(line.item.clone()).or_default() +=
                i128::from(line.fulfilled) - i128::from(fulfilled);
        }
    }

    fn stock(&mut self, change: &StockChange, item: &Item) {
        let before = match change {
            StockChange::Deleted => self.items.remove(&item.key),
            _ => self.items.insert(item.key.clone(), item.clone()),
        };
        for what in ledger::item_violations(change, before.as_ref(), item) {
            self.find(what);
        }
    }

    /// Compares the index with the log at the last batch of the index.
    fn compare(&mut self, index: &IndexView) {
        let mut found = Vec::new();
        for key in self.items.keys().chain(index.items.keys()) {
            let indexed = index.items.get(key);
            if self.items.get(key) != indexed {
                self.unmatched.insert(key.clone(), indexed.cloned());
            }
        }
        for (id, hold) in &self.active {
            if index.active.get(id) != Some(hold) {
                found.push(format!("index: active reservation {id} is missing or differs"));
            }
        }
        for (id, closed) in &self.closed {
            if index.closed.get(id) != Some(&closed.digest) {
                found.push(format!("index: closed reservation {id} is missing or differs"));
            }
        }
        if index.active.len() != self.active.len() || index.closed.len() != self.closed.len() {
            found.push("index: there are reservations that the log does not have".to_owned());
        }
        found.extend(differing(&self.units, &index.units));
        if index.pauses != self.paused {
            found.push("index: the pauses differ from the log's".to_owned());
        }
        if index.records != self.records {
            found.push("index: the records differ from the log's".to_owned());
        }
        if index.due_payments != self.due_payments {
            found.push("index: the due payments differ from the log's".to_owned());
        }
        if index.limits != self.limits.limits || index.counters != self.limits.counters {
            found.push("index: the limits or their counters differ from the log's".to_owned());
        }
        for what in found {
            self.find(what);
        }
    }

    /// Compares items with later events, because the index takes items as they are published, which may be a moment
    /// later.
    fn newer_items(&mut self, events: &[Event]) {
        if self.unmatched.is_empty() {
            return;
        }
        let touched = events.iter().flat_map(|event| match &event.transition {
            Transition::Hold { hold, .. } => hold.lines.iter().map(|line| line.item.clone()).collect(),
            Transition::Stock { item, .. } => vec![item.key.clone()],
            Transition::Sale { scope: Scope::Item(key), .. } => vec![key.clone()],
            Transition::Sale { .. } | Transition::Limit { .. } | Transition::Record { .. } => Vec::new(),
        });
        for key in touched {
            if self.unmatched.get(&key).is_some_and(|indexed| self.items.get(&key) == indexed.as_ref()) {
                self.unmatched.remove(&key);
            }
        }
    }

    fn unmatched_items(&mut self) {
        for (key, indexed) in std::mem::take(&mut self.unmatched) {
            self.find(match indexed {
                Some(item) => format!("index: {key:?} is {item:?}, which it never was"),
                None => format!("index: {key:?} is missing"),
            });
        }
    }

    /// Checks that the held units of every item are the sum over its active reservations, and the sold units the sum
    /// over its confirmed reservations.
    fn end(mut self) -> VerifyReport {
        let mut sums: Map<ItemKey, (u64, u64, u64)> = Map::default();
        for hold in self.active.values() {
            let pays = hold.open_payment().is_some();
            for line in &*hold.lines {
                let (held, active, paying) = sums.entry(line.item.clone()).or_default();
                *held += u64::from(line.quantity);
                *active += 1;
                *paying += if pays { u64::from(line.quantity) } else { 0 };
            }
        }
        let drifted: Vec<String> = self
            .items
            .values()
            .filter_map(|item| {
                let sum = sums.get(&item.key).copied().unwrap_or_default();
                let StockCounters { held, active, held_under_payment, .. } = item.figures;
                let said = (held, active, held_under_payment);
                (sum != said).then(|| {
                    format!(
                        "{:?} says held, active and under payment {said:?}, its reservations {sum:?}",
                        item.key
                    )
                })
            })
            .collect();
        let missold: Vec<String> = self
            .items
            .values()
            .filter_map(|item| {
                let of = |sums: &Map<ItemKey, i128>| sums.get(&item.key).copied().unwrap_or_default();
                let sums = (of(&self.sold), of(&self.fulfilled));
                let said = (i128::from(item.figures.confirmed_sold), i128::from(item.figures.fulfilled));
                (sums != said).then(|| {
                    format!("{:?} says sold and fulfilled {said:?}, its reservations {sums:?}", item.key)
                })
            })
            .collect();
        let miscounted = miscounted(self.items.values(), &self.units);
        let limits = self.limits.end();
        let pools = self.pools.end(self.active.values(), self.items.values());
        for what in drifted.into_iter().chain(missold).chain(miscounted).chain(limits).chain(pools) {
            self.find(what);
        }
        let count =
            |status| self.closed.values().filter(|closed| closed.known.status == status).count() as u64;
        self.verdict.reservations = [
            self.active.len() as u64,
            count(Status::Confirmed),
            count(Status::Cancelled),
            count(Status::Expired),
        ];
        self.verdict.items = self.items.len() as u64;
        self.verdict
    }
}

#[cfg(test)]
mod tests;
