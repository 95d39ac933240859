//! The store one step at a time, for the simulator: the real core, memory, fold, filters, batches and their bytes, over a
//! disk and an index that are values, with no thread, file or clock. The simulator says when each step happens, what
//! time it is, and what of the disk survives.
//!
//! Nothing here decides anything, and no step does another's work: the order of write, sync and answer is the
//! simulator's to keep, so that it can stop between any two and, to see that it notices, keep it wrongly.

mod disk;

pub use crate::engine::core::trace::Decision;
pub use disk::{Commit, Disk, Fate};

use crate::engine::core::trace::DecisionTrace;
use crate::engine::core::{Admitted, Core, Pending, Taken, Waiting};
use crate::engine::memory::Memory;
use crate::engine::published::Published;
use crate::index::EVERYTHING;
use crate::log::Head;
use crate::log::batch::{self, Batch, Row};
use crate::log::sync_marker::Mark;
use crate::start::data_dir::missing_end;
use crate::start::recover::replay;
use crate::threads::committer::deliver;
use disk::{Lag, head};
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::vec;
use stockhold_domain::{
    Hold, HoldLimits, Instant, Item, ItemKey, KeyHash, KeyRecord, Pool, ReservationId, Resource, State,
};
use stockhold_store::{Answer, Failure, Inbox, Job, ReplyTo, Request};

/// What was decided, in order.
#[derive(Clone, Debug)]
pub enum Decided {
    /// A command.
    Command(Decision),
    /// A query, by its ticket.
    Query(u64),
}

/// How a machine is to start.
#[derive(Clone, Debug)]
pub struct Start {
    /// How long holds may last.
    pub rules: HoldLimits,
    /// Events and lines beyond the index that it writes into it before it reads on.
    pub chunk_weight: u64,
    /// Keys beyond the index that it writes into it as a run.
    pub run_keys: usize,
    /// Whether time is floored by what was committed, as it has to be.
    pub floored: bool,
}

/// What is seen only from inside.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Reservations that had to be read.
    pub missing_holds: u64,
    /// Keys that had to be read.
    pub missing_keys: u64,
    /// Keys that were taken for present and were not.
    pub false_positives: u64,
    /// Reads that were too old when they came and had to be repeated.
    pub stale_reads: u64,
    /// Times that commands made room for others on their way.
    pub gone_on: u64,
}

/// How far the commit that is under way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its batch is closed.
    Taken,
    /// It is written.
    Written,
    /// It is synced.
    Synced,
    /// It is published and marked: it may be answered.
    Settled,
}

#[derive(Debug)]
struct Flight {
    batch: Option<Batch>,
    previous_sum: u32,
    sum: u32,
    waiting: vec::IntoIter<Waiting>,
    stage: Stage,
    decided: Vec<Decided>,
}

#[derive(Debug)]
struct Reading {
    pending: Pending,
    name: Resource,
    brought: bool,
}

/// Answers, as they are put.
#[derive(Default)]
struct Tray(Mutex<Vec<(u64, Result<Answer, Failure>)>>);

impl Inbox for Tray {
    fn put(&self, ticket: u64, answer: Result<Answer, Failure>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, answer));
    }

    fn flush(&self) {}
}

/// A store that runs.
pub struct Machine {
    core: Core,
    published: Published,
    disk: Disk,
    flight: Option<Flight>,
    /// Decided into the open batch.
    open: Vec<Decided>,
    reads: Vec<Reading>,
    going_on: Vec<Pending>,
    told: VecDeque<(Batch, u32)>,
    lag: Lag,
    /// Written into the index, and memory has not been told.
    unforgotten: Option<(u64, u64)>,
    tray: Arc<Tray>,
    /// What was seen from inside so far.
    pub seen: Seen,
}

impl Machine {
    /// Starts on a disk, as [`crate::start::recover`] does; says why not when the disk is damaged.
    pub fn start(mut disk: Disk, start: &Start) -> Result<Self, String> {
        disk.unsynced = None;
        let last = disk.len();
        let known = disk.index.indexed.max(disk.index.keyed);
        let sum_of = |number: u64| head(&disk.rows, number).map(|head| head.sum);
        if let Some(what) = missing_end(last, known, disk.marks[0], sum_of)? {
            return Err(what);
        }
        let mut memory = Memory::default();
        for item in disk.index.items.values() {
            memory.put_item(item.clone());
        }
        for (item, units) in &disk.index.units {
            memory.put_units(item, units.values().cloned().collect());
        }
        for scope in &disk.index.pauses {
            memory.put_pause((scope != EVERYTHING).then_some(scope), true);
        }
        memory.fill(disk.index.active.values().cloned().collect());
        let (indexed, keyed) = (disk.index.indexed, disk.index.keyed);
        memory.begin(indexed, keyed, disk.index.filters());
        let indexed = head(&disk.rows, indexed)?;
        if indexed.sum != disk.index.indexed_sum {
            return Err(format!("the index was made from another log: batch {} differs", indexed.number));
        }
        let mut lag = Lag { reached: (indexed.number, indexed.sum), taken: keyed, ..Lag::default() };
        let mut at = indexed;
        let mut previous = head(&disk.rows, disk.index.least())?;
        for n in previous.number..last {
            let Some(row) = usize::try_from(n).ok().and_then(|n| disk.rows.get(n)) else { break };
            let (mut batch, sum) = (batch::decode(row, previous.sum)?, row.sum);
            replay(&mut memory, &mut at, indexed, keyed, &mut batch, sum);
            previous.sum = sum;
            lag.take(&disk.index, batch, sum);
            if lag.fold.weight >= start.chunk_weight
                && let Some((batch, _)) =
                    lag.write_chunk(&mut disk, |key| memory.item(key).ok().flatten().cloned())?
            {
                memory.forget_closed(batch);
            }
            if lag.keys.len() >= start.run_keys && lag.write_runs(&mut disk) {
                memory.forget_keys(disk.index.keyed, disk.index.filters());
            }
        }
        if !start.floored {
            at.at = Head::default().at;
        }
        let published = Published::default();
        for item in memory.items() {
            published.put(item.clone());
        }
        published.reached(at.next_position - 1);
        let mut core = Core::new(memory, start.rules.clone(), at, lag.fold.weight);
        core.trace = DecisionTrace::recording();
        Ok(Self {
            core,
            published,
            disk,
            flight: None,
            open: Vec::new(),
            reads: Vec::new(),
            going_on: Vec::new(),
            told: VecDeque::new(),
            lag,
            unforgotten: None,
            tray: Arc::default(),
            seen: Seen::default(),
        })
    }

    /// Hands something in. Answers with what was decided so far that nothing durable has to follow.
    pub fn submit(&mut self, ask: Request, ticket: u64, clock: Instant) -> Vec<Decided> {
        let inbox: Arc<dyn Inbox> = self.tray.clone();
        self.admit(Job { request: ask, reply: ReplyTo { inbox, ticket } }.into(), clock)
    }

    fn admit(&mut self, pending: Pending, clock: Instant) -> Vec<Decided> {
        let query = matches!(pending.ask, Request::Query(_)).then_some(pending.reply.ticket);
        let admitted = self.core.admit(pending, clock);
        self.open.extend(self.core.trace.drain().map(Decided::Command));
        match admitted {
            Admitted::Waits => self.open.extend(query.map(Decided::Query)),
            Admitted::Answered(reply, answer) => {
                let stands = answer.is_ok();
                self.open.extend(query.filter(|_| stands).map(Decided::Query));
                reply.answer(answer);
                if stands {
                    return mem::take(&mut self.open);
                }
            }
            Admitted::Read(pending, name) => self.reading(pending, name),
            Admitted::GoesOn(pending) => {
                self.seen.gone_on += 1;
                self.going_on.push(pending);
            }
        }
        Vec::new()
    }

    fn reading(&mut self, pending: Pending, name: Resource) {
        let again = match &name {
            Resource::Hold(id) => {
                self.seen.missing_holds += 1;
                pending.brought.holds.iter().any(|(found, ..)| found == id)
            }
            Resource::Key(hash) => {
                self.seen.missing_keys += 1;
                pending.brought.keys.iter().any(|(found, ..)| found == hash)
            }
            _ => false,
        };
        self.seen.stale_reads += u64::from(again);
        self.reads.push(Reading { pending, name, brought: false });
    }

    /// How many wait for a read.
    pub fn reads(&self) -> usize {
        self.reads.len()
    }

    /// Reads what one of those who wait needs, from the index as it is now. `false` when it was read before, or can't be.
    pub fn bring(&mut self, n: usize) -> bool {
        let Some(Reading { pending, name, brought }) = self.reads.get_mut(n) else { return false };
        if *brought {
            return false;
        }
        let index = &self.disk.index;
        match name {
            Resource::Hold(id) => {
                pending.brought.holds.push((*id, index.closed.get(id).cloned(), index.indexed));
            }
            Resource::Key(hash) => {
                let found = index.key(*hash);
                self.seen.false_positives += u64::from(found.is_none());
                pending.brought.keys.push((*hash, found, index.keyed));
            }
            _ => return false,
        }
        pending.reads += 1;
        *brought = true;
        true
    }

    /// Hands one in again, if what it needs was brought.
    pub fn readmit(&mut self, n: usize, clock: Instant) -> Vec<Decided> {
        if self.reads.get(n).is_none_or(|reading| !reading.brought) {
            return Vec::new();
        }
        let reading = self.reads.remove(n);
        let decided = self.admit(reading.pending, clock);
        self.flush();
        decided
    }

    /// Lets one go on that made room for others. Answers with what stands; `None` when there is none.
    pub fn go_on(&mut self, clock: Instant) -> Option<Vec<Decided>> {
        let pending = (!self.going_on.is_empty()).then(|| self.going_on.remove(0))?;
        let decided = self.admit(pending, clock);
        self.flush();
        Some(decided)
    }

    /// What was handed in is to be committed.
    pub fn flush(&mut self) {
        self.core.flush();
    }

    /// How far the commit under way is, if there is one.
    pub fn stage(&self) -> Option<Stage> {
        self.flight.as_ref().map(|flight| flight.stage)
    }

    /// Closes the open batch, if that is due and none is under way.
    pub fn take(&mut self, clock: Instant) -> bool {
        if self.flight.is_some() || self.core.poisoned().is_some() || !self.core.is_due(false) {
            return false;
        }
        let decided = mem::take(&mut self.open);
        let Taken { batch, previous_sum, waiting, reads, on } = self.core.take(clock);
        self.open.extend(self.core.trace.drain().map(Decided::Command));
        for (pending, name) in reads {
            self.reading(pending, name);
        }
        self.going_on.extend(on);
        let waiting = waiting.into_iter();
        self.flight = Some(Flight { batch, previous_sum, sum: 0, waiting, stage: Stage::Taken, decided });
        true
    }

    /// Writes the batch.
    pub fn write(&mut self) {
        let Some(flight) = &mut self.flight else { return };
        if let Some(batch) = &flight.batch {
            let mut data = Vec::new();
            flight.sum = batch::encode(batch, flight.previous_sum, &mut data);
            self.disk.unsynced = Some(Row {
                number: batch.number,
                position: batch.position,
                events: batch.events.len() as u64,
                at: batch.at.micros(),
                data,
                sum: flight.sum,
            });
        }
        flight.stage = Stage::Written;
    }

    /// Syncs it. Answers with what was decided in it, and whether it has a row.
    pub fn sync(&mut self) -> (Vec<Decided>, bool) {
        let Some(flight) = &mut self.flight else { return (Vec::new(), false) };
        flight.stage = Stage::Synced;
        let row = self.disk.unsynced.take();
        let has_row = row.is_some();
        self.disk.rows.extend(row);
        (mem::take(&mut flight.decided), has_row)
    }

    /// Marks and publishes it.
    pub fn settle(&mut self) {
        let Some(flight) = &mut self.flight else { return };
        flight.stage = Stage::Settled;
        match &flight.batch {
            None => self.core.passed(),
            Some(batch) => {
                self.disk.marks = [Some(Mark { batch: batch.number, sum: flight.sum }), self.disk.marks[0]];
                self.published.publish(&batch.events);
                self.published.reached(batch.next_position() - 1);
                self.core.committed(flight.sum);
            }
        }
    }

    /// Puts some of its answers; with the last of a settled commit it is over.
    pub fn deliver(&mut self, count: usize) {
        let Some(flight) = &mut self.flight else { return };
        deliver(flight.waiting.by_ref().take(count));
        if flight.stage == Stage::Settled
            && flight.waiting.len() == 0
            && let Some(Flight { batch: Some(batch), sum, .. }) = self.flight.take()
        {
            self.told.push_back((batch, sum));
        }
    }

    /// Answers of the commit under way that are still to be put.
    pub fn undelivered(&self) -> usize {
        self.flight.as_ref().map_or(0, |flight| flight.waiting.len())
    }

    /// Has the commit under way lose its keys: for a store that is broken on purpose.
    pub fn lose_keys(&mut self) {
        if let Some(Flight { batch: Some(batch), .. }) = &mut self.flight {
            batch.keys.clear();
        }
    }

    /// The commit under way fails: everybody is told, and nothing is decided any more.
    pub fn fail(&mut self) {
        self.core.poison("a commit failed; a restart recovers".to_owned());
        if let Some(flight) = &mut self.flight {
            deliver(flight.waiting.by_ref().map(|(reply, _)| (reply, Err(Failure::OutcomeUnknown))));
        }
        deliver(self.core.abandon());
        self.open.clear();
    }

    /// Whether nothing is decided any more, and why.
    pub fn poisoned(&self) -> Option<&str> {
        self.core.poisoned()
    }

    /// The machine goes down, and is of no use any more. Answers with its disk, and with what was decided in a commit that
    /// nobody was told of and that is there after all.
    pub fn crash(&mut self, fate: Fate) -> (Disk, Vec<Decided>) {
        let mut disk = mem::take(&mut self.disk);
        let decided = self.flight.take().map(|flight| flight.decided).unwrap_or_default();
        let Some(mut row) = disk.unsynced.take().filter(|_| fate != Fate::Lost) else {
            return (disk, Vec::new());
        };
        if fate == Fate::Torn {
            row.data.truncate(row.data.len() / 2);
        }
        // What is not whole at the end was never synced, and is passed over.
        if batch::decode(&row, disk.rows.last().map_or(0, |row| row.sum)).is_err() {
            return (disk, Vec::new());
        }
        disk.rows.push(row);
        (disk, decided)
    }

    /// Whether new reservations are turned away for want of room on the disk.
    pub fn disk_full(&mut self, full: bool) {
        self.core.no_reserves = full.then(|| "the disk is full".to_owned());
    }

    /// The indexer hears of some commits, and writes what it knows of into the index; items as they are published.
    pub fn write_chunk(&mut self, commits: usize) -> Result<bool, String> {
        self.forget();
        for _ in 0..commits {
            let Some((batch, sum)) = self.told.pop_front() else { break };
            self.lag.take(&self.disk.index, batch, sum);
        }
        self.unforgotten = self.lag.write_chunk(&mut self.disk, |key| self.published.get(key))?;
        Ok(self.unforgotten.is_some())
    }

    /// Memory forgets what the index has.
    pub fn forget(&mut self) -> bool {
        let Some((batch, weight)) = self.unforgotten.take() else { return false };
        self.core.indexed(batch, weight);
        true
    }

    /// The indexer writes the keys that it knows of as a run.
    pub fn write_runs(&mut self) -> bool {
        let written = self.lag.write_runs(&mut self.disk);
        if written {
            self.forget_keys();
        }
        written
    }

    /// Merges the oldest runs, if there are enough, and drops those whose newest key was used before an instant. Answers
    /// how many were dropped.
    pub fn tend(&mut self, retire_before: Instant) -> usize {
        let dropped = self.disk.tend(retire_before);
        self.forget_keys();
        dropped
    }

    fn forget_keys(&mut self) {
        drop(self.core.keyed(self.disk.index.keyed, self.disk.index.filters()));
    }

    /// Takes the answers that were put.
    pub fn answers(&self) -> Vec<(u64, Result<Answer, Failure>)> {
        mem::take(&mut *self.tray.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its disk.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The clock, floored by what was decided: the store's time.
    pub fn floor(&self, clock: Instant) -> Instant {
        self.core.floor(clock)
    }

    /// When the earliest hold falls due.
    pub fn next_due(&self) -> Option<Instant> {
        self.core.next_due()
    }

    /// Whether nothing is under way: nothing open, nothing waiting for a read or a commit.
    pub fn is_idle(&self) -> bool {
        !self.core.has_work() && self.flight.is_none() && self.reads.is_empty() && self.going_on.is_empty()
    }

    /// An item as memory and as the published figures have it.
    pub fn item(&self, key: &ItemKey) -> [Option<Item>; 2] {
        [self.core.memory.item(key).ok().flatten().cloned(), self.published.get(key)]
    }

    /// The units of an item, where they have ids.
    pub fn units(&self, key: &ItemKey) -> Option<&Pool> {
        self.core.memory.pool(key).ok().flatten()
    }

    /// A reservation, wherever it is.
    pub fn hold(&self, id: ReservationId) -> Option<Hold> {
        let known = self.core.memory.known_hold(id);
        known.or_else(|| self.disk.index.closed.get(&id)).cloned()
    }

    /// A used key, wherever it is; one that a filter rules out is nowhere.
    pub fn key(&self, hash: KeyHash) -> Option<KeyRecord> {
        match self.core.memory.key(hash) {
            Ok(known) => known.cloned(),
            Err(_) => self.disk.index.key(hash),
        }
    }

    /// Whether everything (`None`) or a location is paused.
    pub fn paused(&self, location: Option<&str>) -> bool {
        self.core.memory.paused(location).unwrap_or_default()
    }
}
