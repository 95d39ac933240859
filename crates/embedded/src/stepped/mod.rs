//! The store one step at a time, for the simulator. It has the real core, memory, fold, filters, batches and their
//! bytes. The disk and the index are values, and there are no threads, files or clocks. The simulator chooses the order
//! of the steps, the time, and what survives a crash.
//!
//! Nothing here decides commands, and no step includes another step. The simulator can therefore stop between any two
//! steps. It can also use a wrong order on purpose, to prove that it detects the error.

mod disk;
mod wrong_order;

pub use crate::engine::core::trace::Decision;
pub use disk::{Commit, Disk, RowFate};

use crate::engine::core::trace::DecisionTrace;
use crate::engine::core::{Admission, Core, PendingAnswer, PendingRequest, SealedBatch};
use crate::engine::memory::Memory;
use crate::engine::published::PublishedItems;
use crate::index::{AsOf, PAUSE_EVERYTHING};
use crate::log::LogHead;
use crate::log::batch::{self, Batch, BatchRow};
use crate::log::sync_marker::SyncedBatch;
use crate::start::data_dir::find_missing_end;
use crate::start::recover::replay;
use crate::threads::committer::deliver_answers;
use disk::{BacklogImage, head};
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::vec;
use stockhold_domain::{
    CounterKey, Hold, HoldLimits, Instant, Item, ItemKey, KeyHash, KeyRecord, Limit, LimitCounter, LimitSet,
    Record, RecordKey, ReservationId, Resource, State, UnitIndex,
};
use stockhold_store::{Answer, Failure, Inbox, Job, ReplyTo, Request};

/// Decisions in order.
#[derive(Clone, Debug)]
pub enum TraceEntry {
    /// A command.
    Command(Decision),
    /// A query with its ticket.
    Query(u64),
}

/// The options of a machine.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The limits of how long holds may last.
    pub rules: HoldLimits,
    /// The weight beyond the index that a start writes into the index before it reads on.
    pub chunk_weight: u64,
    /// The keys beyond the index that a start writes into the index as a run.
    pub run_keys: usize,
    /// Whether decisions are never before the time of a committed decision. It is `false` only for a deliberate error.
    pub clamps_clock: bool,
    /// Whether the counters of limits are read from the index. It is `false` only for a deliberate error.
    pub loads_counters: bool,
}

/// Counters of internal events.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineStats {
    /// The reservations that had to be read.
    pub missing_holds: u64,
    /// The keys that had to be read.
    pub missing_keys: u64,
    /// The absent keys that a filter did not rule out.
    pub false_positives: u64,
    /// The reads that were outdated and had to be repeated.
    pub stale_reads: u64,
    /// How often a request with several commands released the lock.
    pub yields: u64,
}

/// The stage of the commit in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStage {
    /// Its batch is closed.
    Sealed,
    /// Its batch is written.
    Written,
    /// Its batch is synced.
    Synced,
    /// It is published and has its sync marker, so its answers may be delivered.
    Published,
}

#[derive(Debug)]
struct InFlightCommit {
    batch: Option<Batch>,
    previous_sum: u32,
    sum: u32,
    waiting: vec::IntoIter<PendingAnswer>,
    stage: CommitStage,
    decided: Vec<TraceEntry>,
}

#[derive(Debug)]
struct PendingRead {
    pending: PendingRequest,
    name: Resource,
    fetched: bool,
}

/// Collects answers.
#[derive(Default)]
struct AnswerBuffer(Mutex<Vec<(u64, Result<Answer, Failure>)>>);

impl Inbox for AnswerBuffer {
    fn put(&self, ticket: u64, answer: Result<Answer, Failure>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, answer));
    }

    fn flush(&self) {}
}

/// A running store.
pub struct Machine {
    core: Core,
    published: PublishedItems,
    disk: Disk,
    in_flight: Option<InFlightCommit>,
    /// Decisions of the open batch.
    open: Vec<TraceEntry>,
    reads: Vec<PendingRead>,
    yielded: Vec<PendingRequest>,
    committed: VecDeque<(Batch, u32)>,
    backlog: BacklogImage,
    /// A chunk that is written and that memory still has.
    indexed: Option<(u64, u64)>,
    answer_buffer: Arc<AnswerBuffer>,
    /// The counters of internal events so far.
    pub stats: MachineStats,
}

impl Machine {
    /// Starts on a disk like [`crate::start::recover`]. Fails if the disk is damaged.
    pub fn start(mut disk: Disk, start: &StartOptions) -> Result<Self, String> {
        disk.unsynced = None;
        let last = disk.len();
        let known = disk.index.indexed.max(disk.index.keyed);
        let sum_of = |number: u64| head(&disk.rows, number).map(|head| Some(head.sum));
        if let Some(what) = find_missing_end(last, known, disk.marks[0], sum_of)? {
            return Err(what);
        }
        let mut memory = Memory::default();
        for item in disk.index.items.values() {
            memory.put_item(item.clone());
        }
        for (item, units) in &disk.index.units {
            memory.put_units(item, units.values().cloned().collect());
        }
        for (id, due) in &disk.index.due_payments {
            memory.due_payments.set(*id, Some(*due));
        }
        for record in disk.index.records.values() {
            memory.put_record(record.clone());
        }
        for scope in &disk.index.pauses {
            memory.put_pause((scope != PAUSE_EVERYTHING).then_some(scope), true);
        }
        let mut limits = LimitSet::default();
        disk.index.limits.values().for_each(|limit| limits.put(limit.clone()));
        let sold = disk.index.sold.iter().filter(|_| start.loads_counters);
        let sold = sold.map(|(key, units)| (key.clone(), *units));
        let counters = crate::index::limits::counters(&limits, sold, disk.index.active.values());
        memory.put_limits(limits, counters);
        memory.load_active(disk.index.active.values().cloned().collect());
        let (indexed, keyed) = (disk.index.indexed, disk.index.keyed);
        memory.start_after_index(indexed, keyed, disk.index.filters());
        let indexed = head(&disk.rows, indexed)?;
        if indexed.sum != disk.index.indexed_sum {
            return Err(format!("the index was made from another log: batch {} differs", indexed.number));
        }
        let mut backlog =
            BacklogImage { reached: (indexed.number, indexed.sum), taken: keyed, ..BacklogImage::default() };
        let mut at = indexed;
        let mut previous = head(&disk.rows, disk.index.least())?;
        for n in previous.number..last {
            let Some(row) = usize::try_from(n).ok().and_then(|n| disk.rows.get(n)) else { break };
            let (mut batch, sum) = (batch::decode(row, previous.sum)?, row.sum);
            replay(&mut memory, &mut at, indexed, keyed, &mut batch, sum);
            previous.sum = sum;
            backlog.add_batch(&disk.index, batch, sum);
            if backlog.fold.weight >= start.chunk_weight
                && let Some((batch, _)) =
                    backlog.write_chunk(&mut disk, |key| memory.item(key).ok().flatten().cloned())?
            {
                memory.drop_closed_up_to(batch);
            }
            if backlog.keys.len() >= start.run_keys && backlog.write_runs(&mut disk) {
                memory.drop_keys_up_to(disk.index.keyed, disk.index.filters());
            }
        }
        if !start.clamps_clock {
            at.at = LogHead::default().at;
        }
        let published = PublishedItems::default();
        for item in memory.items() {
            published.put(item.clone());
        }
        published.set_newest(at.next_position - 1);
        let mut core = Core::new(memory, start.rules.clone(), at, backlog.fold.weight);
        core.trace = DecisionTrace::recording();
        Ok(Self {
            core,
            published,
            disk,
            in_flight: None,
            open: Vec::new(),
            reads: Vec::new(),
            yielded: Vec::new(),
            committed: VecDeque::new(),
            backlog,
            indexed: None,
            answer_buffer: Arc::default(),
            stats: MachineStats::default(),
        })
    }

    /// Submits a request. Returns the decisions that depend on nothing that is not durable.
    pub fn submit(&mut self, ask: Request, ticket: u64, clock: Instant) -> Vec<TraceEntry> {
        let inbox: Arc<dyn Inbox> = self.answer_buffer.clone();
        self.admit(Job { request: ask, reply: ReplyTo { inbox, ticket } }.into(), clock)
    }

    fn admit(&mut self, pending: PendingRequest, clock: Instant) -> Vec<TraceEntry> {
        let query = matches!(pending.ask, Request::Query(_)).then_some(pending.reply.ticket);
        let admitted = self.core.admit(pending, clock);
        self.open.extend(self.core.trace.drain().map(TraceEntry::Command));
        match admitted {
            Admission::Queued => self.open.extend(query.map(TraceEntry::Query)),
            Admission::Answered(reply, answer) => {
                let stands = answer.is_ok();
                self.open.extend(query.filter(|_| stands).map(TraceEntry::Query));
                reply.answer(answer);
                if stands {
                    return mem::take(&mut self.open);
                }
            }
            Admission::Read(pending, name) => self.reading(pending, name),
            Admission::Yielded(pending) => {
                self.stats.yields += 1;
                self.yielded.push(pending);
            }
        }
        Vec::new()
    }

    fn reading(&mut self, pending: PendingRequest, name: Resource) {
        let again = match &name {
            Resource::Hold(id) => {
                self.stats.missing_holds += 1;
                pending.fetched.holds.iter().any(|(found, ..)| found == id)
            }
            Resource::Key(hash) => {
                self.stats.missing_keys += 1;
                pending.fetched.keys.iter().any(|(found, ..)| found == hash)
            }
            _ => false,
        };
        self.stats.stale_reads += u64::from(again);
        self.reads.push(PendingRead { pending, name, fetched: false });
    }

    /// The number of requests that wait for a read.
    pub fn reads(&self) -> usize {
        self.reads.len()
    }

    /// Reads the record that a waiting request needs from the index. Returns `false` if it was read before or can't be
    /// read.
    pub fn fetch(&mut self, n: usize) -> bool {
        let Some(PendingRead { pending, name, fetched }) = self.reads.get_mut(n) else { return false };
        if *fetched {
            return false;
        }
        let index = &self.disk.index;
        match name {
            Resource::Hold(id) => {
                let as_of = AsOf { complete: index.indexed, archived: 0 };
                pending.fetched.holds.push((*id, index.closed.get(id).cloned(), as_of));
            }
            Resource::Key(hash) => {
                let found = index.key(*hash);
                self.stats.false_positives += u64::from(found.is_none());
                let as_of = AsOf { complete: index.keyed, archived: 0 };
                pending.fetched.keys.push((*hash, found, as_of));
            }
            _ => return false,
        }
        pending.reads += 1;
        *fetched = true;
        true
    }

    /// Submits a request again if its record was fetched.
    pub fn readmit(&mut self, n: usize, clock: Instant) -> Vec<TraceEntry> {
        if self.reads.get(n).is_none_or(|reading| !reading.fetched) {
            return Vec::new();
        }
        let reading = self.reads.remove(n);
        let decided = self.admit(reading.pending, clock);
        self.flush();
        decided
    }

    /// Continues a request that released the lock. Returns the decisions that are durable; `None` if there is no such
    /// request.
    pub fn resume_yielded(&mut self, clock: Instant) -> Option<Vec<TraceEntry>> {
        let pending = (!self.yielded.is_empty()).then(|| self.yielded.remove(0))?;
        let decided = self.admit(pending, clock);
        self.flush();
        Some(decided)
    }

    /// Requests a commit of the open batch.
    pub fn flush(&mut self) {
        self.core.flush();
    }

    /// The stage of the commit in flight.
    pub fn stage(&self) -> Option<CommitStage> {
        self.in_flight.as_ref().map(|in_flight| in_flight.stage)
    }

    /// Closes the open batch if a commit is due and none is in flight.
    pub fn seal_batch(&mut self, clock: Instant) -> bool {
        if self.in_flight.is_some() || self.core.poisoned().is_some() || !self.core.is_due(false) {
            return false;
        }
        let decided = mem::take(&mut self.open);
        let SealedBatch { batch, previous_sum, waiting, reads, on } = self.core.seal_batch(clock);
        self.open.extend(self.core.trace.drain().map(TraceEntry::Command));
        for (pending, name) in reads {
            self.reading(pending, name);
        }
        self.yielded.extend(on);
        let waiting = waiting.into_iter();
        self.in_flight = Some(InFlightCommit {
            batch,
            previous_sum,
            sum: 0,
            waiting,
            stage: CommitStage::Sealed,
            decided,
        });
        true
    }

    /// Writes the batch.
    pub fn write(&mut self) {
        let Some(in_flight) = &mut self.in_flight else { return };
        if let Some(batch) = &in_flight.batch {
            let mut data = Vec::new();
            in_flight.sum = batch::encode(batch, in_flight.previous_sum, &mut data);
            self.disk.unsynced = Some(BatchRow {
                number: batch.number,
                position: batch.position,
                events: batch.events.len() as u64,
                at: batch.at.micros(),
                data,
                sum: in_flight.sum,
            });
        }
        in_flight.stage = CommitStage::Written;
    }

    /// Syncs the batch. Returns its decisions, and whether it has a row.
    pub fn sync(&mut self) -> (Vec<TraceEntry>, bool) {
        let Some(in_flight) = &mut self.in_flight else { return (Vec::new(), false) };
        in_flight.stage = CommitStage::Synced;
        let row = self.disk.unsynced.take();
        let has_row = row.is_some();
        self.disk.rows.extend(row);
        (mem::take(&mut in_flight.decided), has_row)
    }

    /// Writes the sync marker and publishes the batch.
    pub fn publish(&mut self) {
        let Some(in_flight) = &mut self.in_flight else { return };
        in_flight.stage = CommitStage::Published;
        match &in_flight.batch {
            None => self.core.on_empty_commit(),
            Some(batch) => {
                self.disk.marks =
                    [Some(SyncedBatch { batch: batch.number, sum: in_flight.sum }), self.disk.marks[0]];
                self.published.publish(&batch.events);
                self.published.set_newest(batch.next_position() - 1);
                self.core.on_committed(in_flight.sum);
            }
        }
    }

    /// Delivers some of the answers. After the last answer of a published commit, the commit is complete.
    pub fn deliver(&mut self, count: usize) {
        let Some(in_flight) = &mut self.in_flight else { return };
        deliver_answers(in_flight.waiting.by_ref().take(count));
        if in_flight.stage == CommitStage::Published
            && in_flight.waiting.len() == 0
            && let Some(InFlightCommit { batch: Some(batch), sum, .. }) = self.in_flight.take()
        {
            self.committed.push_back((batch, sum));
        }
    }

    /// The number of answers of the commit in flight that are not delivered.
    pub fn undelivered(&self) -> usize {
        self.in_flight.as_ref().map_or(0, |in_flight| in_flight.waiting.len())
    }

    /// Removes the keys of the commit in flight, as a deliberate error.
    pub fn lose_keys(&mut self) {
        if let Some(InFlightCommit { batch: Some(batch), .. }) = &mut self.in_flight {
            batch.keys.clear();
        }
    }

    /// Fails the commit in flight: all requests fail, and nothing is decided any more.
    pub fn fail(&mut self) {
        self.core.poison("a commit failed; a restart recovers".to_owned());
        if let Some(in_flight) = &mut self.in_flight {
            deliver_answers(
                in_flight.waiting.by_ref().map(|(reply, _)| (reply, Err(Failure::OutcomeUnknown))),
            );
        }
        deliver_answers(self.core.fail_pending());
        self.open.clear();
    }

    /// Why nothing is decided any more.
    pub fn poisoned(&self) -> Option<&str> {
        self.core.poisoned()
    }

    /// Stops the machine. Returns its disk, and the decisions of a commit that was not answered but is on the disk.
    pub fn crash(&mut self, fate: RowFate) -> (Disk, Vec<TraceEntry>) {
        let mut disk = mem::take(&mut self.disk);
        let decided = self.in_flight.take().map(|in_flight| in_flight.decided).unwrap_or_default();
        let Some(mut row) = disk.unsynced.take().filter(|_| fate != RowFate::Lost) else {
            return (disk, Vec::new());
        };
        if fate == RowFate::Torn {
            row.data.truncate(row.data.len() / 2);
        }
        // An incomplete row at the end was never synced, and is skipped.
        if batch::decode(&row, disk.rows.last().map_or(0, |row| row.sum)).is_err() {
            return (disk, Vec::new());
        }
        disk.rows.push(row);
        (disk, decided)
    }

    /// Sets whether new reservations are refused because the disk is full.
    pub fn disk_full(&mut self, full: bool) {
        self.core.reserve_refusal = full.then(|| "the disk is full".to_owned());
    }

    /// Gives some commits to the indexer, which writes a chunk with the published items.
    pub fn write_chunk(&mut self, commits: usize) -> Result<bool, String> {
        self.forget();
        for _ in 0..commits {
            let Some((batch, sum)) = self.committed.pop_front() else { break };
            self.backlog.add_batch(&self.disk.index, batch, sum);
        }
        self.indexed = self.backlog.write_chunk(&mut self.disk, |key| self.published.get(key))?;
        Ok(self.indexed.is_some())
    }

    /// Removes the records from memory that the index has.
    pub fn forget(&mut self) -> bool {
        let Some((batch, weight)) = self.indexed.take() else { return false };
        self.core.on_indexed(batch, weight);
        true
    }

    /// Writes the keys of the backlog as a run.
    pub fn write_runs(&mut self) -> bool {
        let written = self.backlog.write_runs(&mut self.disk);
        if written {
            self.forget_keys();
        }
        written
    }

    /// Merges the oldest runs if there are enough, and drops runs whose newest key was used before this time. Returns
    /// the number of dropped runs.
    pub fn compact(&mut self, retire_before: Instant) -> usize {
        let dropped = self.disk.compact(retire_before);
        self.forget_keys();
        dropped
    }

    fn forget_keys(&mut self) {
        drop(self.core.on_keys_indexed(self.disk.index.keyed, self.disk.index.filters()));
    }

    /// Takes the answers that were delivered.
    pub fn answers(&self) -> Vec<(u64, Result<Answer, Failure>)> {
        mem::take(&mut *self.answer_buffer.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The disk.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The clock, or the time of the newest decision if that is later.
    pub fn clamp_to_committed(&self, clock: Instant) -> Instant {
        self.core.clamp_to_committed(clock)
    }

    /// The deadline of the hold that expires next.
    pub fn next_due(&self) -> Option<Instant> {
        self.core.next_due()
    }

    /// Whether nothing is open, in flight, or waiting for a read.
    pub fn is_idle(&self) -> bool {
        !self.core.has_work() && self.in_flight.is_none() && self.reads.is_empty() && self.yielded.is_empty()
    }

    /// An item in memory, and as it is published.
    pub fn item(&self, key: &ItemKey) -> [Option<Item>; 2] {
        [self.core.memory.item(key).ok().flatten().cloned(), self.published.get(key)]
    }

    /// The units of an item with unit ids.
    pub fn units(&self, key: &ItemKey) -> Option<&UnitIndex> {
        self.core.memory.unit_index(key).ok().flatten()
    }

    /// A reservation in memory or in the index.
    pub fn hold(&self, id: ReservationId) -> Option<Hold> {
        let known = self.core.memory.find_hold(id);
        known.or_else(|| self.disk.index.closed.get(&id)).cloned()
    }

    /// A used key in memory or in the index. A key that the filters rule out is absent.
    pub fn key(&self, hash: KeyHash) -> Option<KeyRecord> {
        match self.core.memory.key(hash) {
            Ok(known) => known.cloned(),
            Err(_) => self.disk.index.key(hash),
        }
    }

    /// A record in memory, deleted ones included.
    pub fn record(&self, key: &RecordKey) -> Option<Record> {
        self.core.memory.record(key).ok().flatten().cloned()
    }

    /// All limits in memory, deleted ones included, and all counters that are not at 0.
    pub fn limits(&self) -> (Vec<Limit>, Vec<(CounterKey, LimitCounter)>) {
        self.core.memory.all_limits()
    }

    /// Whether everything (`None`) or a location is paused.
    pub fn paused(&self, location: Option<&str>) -> bool {
        self.core.memory.paused(location).unwrap_or_default()
    }
}
