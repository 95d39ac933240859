//! The part of the log that the index lacks: folded batches, keys and postings that are not written yet. Nothing is
//! removed before its transaction has committed, so a full disk loses nothing and the write is tried again.

use crate::index::chunk::Chunk;
use crate::index::filter::BloomFilter;
use crate::index::postings::{self, Posting, TermHasher, UnflushedPostings};
use crate::index::units;
use crate::index::{Index, PAUSE_EVERYTHING};
use crate::limits::{BATCH_LINES, CHECKPOINT_AFTER_BYTES};
use crate::log;
use crate::log::batch::Batch;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stockhold_domain::{
    CounterKey, Hold, Instant, Item, ItemKey, KeyRecord, Label, Limit, Record, RecordKey, ReservationId,
    Scope, Status, Transition,
};
use stockhold_store::fault;

type Map<K, V> = HashMap<K, V, RandomState>;

/// The number of postings that count as one key when the next run is due.
const POSTINGS_PER_KEY: usize = 3;

/// The weight after which a chunk is written. After each chunk the index shows progress.
pub(crate) const INDEX_STEP_WEIGHT: u64 = 65_536;
/// The weight of a chunk up to which its buffers are reused: one step, and a full batch of holds on top.
const REUSED_BUFFER_WEIGHT: u64 = INDEX_STEP_WEIGHT + 2 * BATCH_LINES as u64;

/// The part of the log that the index lacks.
pub(crate) struct IndexBacklog {
    pub(crate) index: Index,
    fold: EventFold,
    /// The last batch of the fold, and its checksum.
    reached: (u64, u32),
    /// The last batch whose keys and postings were added. At a start this may be a batch whose events the index already
    /// has.
    keys_added_to: u64,
    /// A chunk that was taken out of the fold and is not written yet.
    sealed: Option<SealedChunk>,
    /// Buffers for the next chunk.
    spare_chunk: Chunk,
    keys: Vec<KeyRecord>,
    /// The postings that are not written yet. Readers search them too.
    postings: Arc<Mutex<UnflushedPostings>>,
    /// The number of keys and of postings that were added since the last compaction.
    added_since_compaction: (usize, usize),
}

struct SealedChunk {
    chunk: Chunk,
    reached: (u64, u32),
    weight: u64,
    /// The last batch with no unwritten key or posting before it; 0 if there are unwritten ones.
    keyed: u64,
}

impl IndexBacklog {
    pub(crate) fn new(index: Index) -> Self {
        let state = index.state;
        let reached = (state.indexed, state.indexed_sum);
        let postings = Arc::new(Mutex::new(UnflushedPostings::new(
            TermHasher::new(index.state.term_hash_key),
            index.state.keyed,
        )));
        Self {
            index,
            fold: EventFold::default(),
            reached,
            keys_added_to: state.keyed,
            sealed: None,
            spare_chunk: Chunk::default(),
            keys: Vec::new(),
            postings,
            added_since_compaction: (0, 0),
        }
    }

    /// Adds a batch. The parts that the index already has are skipped.
    pub(crate) fn add_batch(&mut self, mut batch: Batch, sum: u32) {
        if batch.number > self.index.state.keyed {
            self.keys_added_to = batch.number;
            let mut postings = self.postings();
            let before = postings.len();
            postings.add_batch(&batch);
            let more = postings.len() - before;
            drop(postings);
            self.added_since_compaction =
                (self.added_since_compaction.0 + batch.keys.len(), self.added_since_compaction.1 + more);
            self.keys.append(&mut batch.keys);
        }
        if batch.number > self.index.state.indexed {
            self.reached = (batch.number, sum);
            for event in batch.events {
                self.fold.add(event.transition);
            }
        }
    }

    fn postings(&self) -> MutexGuard<'_, UnflushedPostings> {
        self.postings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The postings that no run has yet, for readers.
    pub(crate) fn unflushed_postings(&self) -> Arc<Mutex<UnflushedPostings>> {
        Arc::clone(&self.postings)
    }

    /// The number of events in the fold.
    pub(crate) fn events(&self) -> usize {
        self.fold.events
    }

    /// The weight of the backlog: events, and their lines.
    pub(crate) fn weight(&self) -> u64 {
        self.fold.weight + self.sealed.as_ref().map_or(0, |sealed| sealed.weight)
    }

    /// The number of keys that wait, or the equivalent number for postings if that is larger.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len().max(self.postings().len() / POSTINGS_PER_KEY)
    }

    /// Writes the backlog as a chunk. `item` returns an item as it is now, or as it was at any time since. Returns the
    /// batch up to which the index is complete, and the weight that was written.
    pub(crate) fn write_chunk(
        &mut self,
        item: impl Fn(&ItemKey) -> Option<Item>,
    ) -> rusqlite::Result<Option<(u64, u64)>> {
        self.seal_chunk(item);
        self.write_sealed_chunk()
    }

    /// Takes a chunk out of the fold, unless an earlier chunk is not written yet.
    pub(crate) fn seal_chunk(&mut self, item: impl Fn(&ItemKey) -> Option<Item>) {
        if self.sealed.is_none() && self.reached.0 > self.index.state.indexed {
            let weight = self.fold.weight;
            let mut chunk = mem::take(&mut self.spare_chunk);
            self.fold.drain_into(&mut chunk, item);
            if weight > REUSED_BUFFER_WEIGHT {
                self.fold = EventFold::default();
            }
            // If no key and no posting waits, a start does not have to read any batch before this one for them.
            let none = self.keys.is_empty() && self.postings().len() == 0;
            let keyed = if none { self.reached.0 } else { 0 };
            self.sealed = Some(SealedChunk { chunk, reached: self.reached, weight, keyed });
        }
    }

    /// Writes the sealed chunk.
    pub(crate) fn write_sealed_chunk(&mut self) -> rusqlite::Result<Option<(u64, u64)>> {
        let Some(SealedChunk { chunk, reached: (batch, sum), weight, keyed }) = &self.sealed else {
            return Ok(None);
        };
        self.index.write(chunk, (*batch, *sum), *keyed)?;
        let written = (*batch, *weight);
        if let Some(SealedChunk { mut chunk, weight, .. }) = self.sealed.take()
            && weight <= REUSED_BUFFER_WEIGHT
        {
            chunk.clear();
            self.spare_chunk = chunk;
        }
        Ok(Some(written))
    }

    /// Frees the buffers that are kept from one chunk to the next.
    pub(crate) fn release_buffers(&mut self) {
        if self.weight() == 0 {
            self.fold = EventFold::default();
            self.spare_chunk = Chunk::default();
        }
    }

    /// Writes the keys and postings that wait as runs. Returns whether there were any.
    pub(crate) fn write_runs(&mut self) -> rusqlite::Result<bool> {
        let mut postings = self.clone_postings();
        let count = postings.len();
        let written = self.write_runs_with(&mut postings)?;
        self.remove_flushed_postings(count);
        Ok(written)
    }

    /// A copy of the postings that wait.
    pub(crate) fn clone_postings(&self) -> Vec<Posting> {
        self.postings().all()
    }

    /// Sorts and writes the keys that wait and these postings as runs. Returns whether there were any. It takes no
    /// lock.
    pub(crate) fn write_runs_with(&mut self, postings: &mut Vec<Posting>) -> rusqlite::Result<bool> {
        if self.keys.is_empty() && postings.is_empty() {
            return Ok(false);
        }
        postings::sort_and_join(postings);
        self.index.write_runs(&mut self.keys, postings, self.keys_added_to)?;
        self.keys.clear();
        Ok(true)
    }

    /// Removes the first `count` postings, which a run has now. A reader that finds a posting in both places uses it
    /// once.
    pub(crate) fn remove_flushed_postings(&self, count: usize) {
        self.postings().written(count);
    }

    /// Continues merging runs if `may_merge`, and deleting runs of keys that are older than `retire_before`. The work
    /// is proportional to what was added. Returns whether the filters have changed.
    pub(crate) fn compact(&mut self, retire_before: i64, may_merge: bool) -> rusqlite::Result<bool> {
        let changed = self.index.compact(retire_before, may_merge, self.added_since_compaction)?;
        self.added_since_compaction = (0, 0);
        Ok(changed)
    }

    /// Copies the write-ahead log of the index if it has become long.
    pub(crate) fn checkpoint(&self) -> rusqlite::Result<()> {
        if log::checkpoint(&self.index.db, "NOOP")? > CHECKPOINT_AFTER_BYTES {
            fault!("checkpoint.index" => log::injected_error());
            log::checkpoint(&self.index.db, "PASSIVE")?;
        }
        Ok(())
    }

    /// The filters that rule keys out.
    pub(crate) fn filters(&self) -> Vec<Arc<BloomFilter>> {
        self.index.keys.all.iter().map(|run| Arc::clone(&run.filter)).collect()
    }
}

/// The latest value of each reservation, in the order of the last change.
#[derive(Debug)]
struct LatestByReservation<T> {
    places: Map<ReservationId, usize>,
    all: Vec<Option<T>>,
}

impl<T> Default for LatestByReservation<T> {
    fn default() -> Self {
        Self { places: Map::default(), all: Vec::new() }
    }
}

impl<T> LatestByReservation<T> {
    fn put(&mut self, id: ReservationId, value: T) {
        if let Some(before) = self.places.insert(id, self.all.len()).and_then(|place| self.all.get_mut(place))
        {
            *before = None;
        }
        self.all.push(Some(value));
    }

    fn remove(&mut self, id: ReservationId) -> Option<T> {
        let place = self.places.remove(&id)?;
        self.all.get_mut(place)?.take()
    }

    fn drain(&mut self) -> impl Iterator<Item = T> {
        self.places.clear();
        self.all.drain(..).flatten()
    }
}

/// Committed events, folded to their final effects.
#[derive(Debug, Default)]
pub(crate) struct EventFold {
    events: usize,
    /// Events, and their lines and units. The core counts the same weight.
    pub(crate) weight: u64,
    items: HashSet<ItemKey, RandomState>,
    pauses: Map<String, bool>,
    units: units::UnitChanges,
    /// Active holds, and whether the index has them as active.
    active: LatestByReservation<(Hold, bool)>,
    ended: Vec<ReservationId>,
    closed: LatestByReservation<Hold>,
    /// The records that changed, as the last event left them.
    records: BTreeMap<RecordKey, Record>,
    /// The limits that changed.
    limits: BTreeMap<Label, Limit>,
    /// The sold units of counters that may have changed, of the latest generations of their limits.
    sold: BTreeMap<CounterKey, u64>,
    /// When payments are due that changed.
    due_payments: BTreeMap<ReservationId, Option<Instant>>,
}

impl EventFold {
    pub(crate) fn add(&mut self, transition: Transition) {
        self.events += 1;
        self.weight += 1 + transition.weight();
        units::fold(&mut self.units, &transition);
        match transition {
            Transition::Hold { change, hold, limits, .. } => {
                let may_be_sold =
                    [Some(hold.status), change.status_before()].contains(&Some(Status::Confirmed));
                if let Some(effects) = limits.filter(|_| may_be_sold) {
                    self.sold.extend(effects.counters.into_iter().map(|(key, counter)| (key, counter.sold)));
                }
                for line in &*hold.lines {
                    self.item(&line.item);
                }
                if let Some(due) = change.payment_due(&hold) {
                    self.due_payments.insert(hold.id, due);
                }
                self.hold(hold.without_removed_lines(), change.status_before());
            }
            Transition::Stock { item, .. } => self.item(&item.key),
            Transition::Sale { scope, paused, .. } => match scope {
                Scope::Everything => {
                    self.pauses.insert(PAUSE_EVERYTHING.to_owned(), paused);
                }
                Scope::Location(location) => {
                    self.pauses.insert(location.as_str().to_owned(), paused);
                }
                Scope::Item(key) => self.item(&key),
            },
            Transition::Limit { limit } => {
                let is_over = |key: &CounterKey| limit.terms.is_none() || key.generation != limit.generation;
                self.sold.retain(|key, _| key.limit != limit.id || !is_over(key));
                self.limits.insert(limit.id.clone(), limit);
            }
            Transition::Record { record, .. } => {
                self.records.insert(record.key.clone(), record);
            }
        }
    }

    fn item(&mut self, key: &ItemKey) {
        if !self.items.contains(key) {
            self.items.insert(key.clone());
        }
    }

    /// Folds a reservation after a transition that it could make in this status; `None` when it was created.
    fn hold(&mut self, hold: Hold, status_before: Option<Status>) {
        let (id, created) = (hold.id, status_before.is_none());
        // A reservation has no event before its creation.
        let before = if created { None } else { self.active.remove(id) };
        if hold.status == Status::Active {
            let indexed = before.map_or(!created, |(_, indexed)| indexed);
            self.active.put(id, (hold, indexed));
            return;
        }
        // If a reservation closed before this chunk and changes again, the index has it as closed.
        let was_closed = self.closed.remove(id).is_some() || status_before != Some(Status::Active);
        self.closed.put(id, hold);
        let indexed_as_active = before.map_or(!was_closed, |(_, indexed)| indexed);
        if indexed_as_active {
            self.ended.push(id);
        }
    }

    /// Moves the content into an empty chunk and keeps the buffers. Items are taken as they are published and may be
    /// newer than the chunk. That is harmless, because the events that a start applies on top carry the state after the
    /// event.
    pub(crate) fn drain_into(&mut self, chunk: &mut Chunk, item: impl Fn(&ItemKey) -> Option<Item>) {
        let Self {
            events,
            weight,
            items,
            pauses,
            units,
            active,
            ended,
            closed,
            records,
            limits,
            sold,
            due_payments,
        } = self;
        (*events, *weight) = (0, 0);
        for key in items.drain() {
            match item(&key) {
                Some(item) => chunk.items.push(item),
                None => chunk.deleted_items.push(key),
            }
        }
        chunk.pauses.extend(pauses.drain());
        chunk.units.extend(units.drain());
        chunk.ended.append(ended);
        chunk.closed.extend(closed.drain());
        chunk.records.extend(mem::take(records).into_values());
        chunk.limits.limits.extend(mem::take(limits).into_values());
        chunk.limits.sold.extend(mem::take(sold));
        chunk.due_payments.extend(mem::take(due_payments));
        for (hold, indexed) in active.drain() {
            if indexed { &mut chunk.moved } else { &mut chunk.opened }.push(hold);
        }
        // The rows are sorted like the tables, so that each page is written once. Closed holds are nearly sorted
        // already, which makes a stable sort fast.
        chunk.items.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        chunk.closed.sort_by_key(|hold| hold.id);
        chunk.units.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::is_retryable;
    use rusqlite::ErrorCode;
    use std::sync::atomic::Ordering;
    use stockhold_conformance::Maker;
    use stockhold_domain::{Command, Event, Fingerprint, Instant, KeyHash, KeyTarget};
    use tempfile::TempDir;

    fn batch(number: u64, maker: &mut Maker) -> Batch {
        let item = maker.item("shirt");
        let keys = (0..500).map(|n| KeyRecord {
            hash: KeyHash(u128::from(number) << 64 | n),
            fingerprint: Fingerprint(n),
            target: KeyTarget::Item(item.clone()),
            at: Instant::from_micros(1),
        });
        let scope = |n| Scope::Location(maker.location(&format!("{number}-{n}-{}", "x".repeat(90))));
        let events = (0..500).map(|n| Event {
            id: maker.clone().wrap(Command::Sweep).fresh.event,
            at: Instant::from_micros(1),
            origin: maker.clone().wrap(Command::Sweep).origin,
            previous: None,
            transition: Transition::Sale { scope: scope(n), paused: true, reason: None },
        });
        Batch {
            number,
            position: number * 500 - 499,
            at: Instant::from_micros(1),
            events: events.collect(),
            keys: keys.collect(),
        }
    }

    fn open(dir: &TempDir) -> IndexBacklog {
        IndexBacklog::new(Index::open_in_test(&dir.path().join("index.db")))
    }

    /// What the state row of the index says, and the number of its rows.
    fn state(backlog: &IndexBacklog) -> (u64, u64, i64, usize) {
        let db = &backlog.index.db;
        let pauses = db.query_row("SELECT count(*) FROM pauses", [], |row| row.get(0)).unwrap();
        let state = backlog.index.state;
        (state.indexed, state.keyed, pauses, crate::index::runs::count::<crate::index::keys::KeyRuns>(db))
    }

    #[test]
    fn a_full_disk_loses_nothing_of_what_waits() {
        let dir = tempfile::tempdir().unwrap();
        let mut backlog = open(&dir);
        let mut maker = Maker::new(1, "");
        let limit = |backlog: &IndexBacklog, pages: i64| {
            let pragma = format!("PRAGMA max_page_count = {pages}");
            backlog.index.db.query_row(&pragma, [], |_| Ok(())).unwrap();
        };
        // The database may not grow.
        limit(&backlog, 1);
        backlog.add_batch(batch(1, &mut maker), 11);
        assert!(is_retryable(&backlog.write_chunk(|_| None).unwrap_err()));
        assert!(is_retryable(&backlog.write_runs().unwrap_err()));
        backlog.add_batch(batch(2, &mut maker), 12);
        assert!(is_retryable(&backlog.write_chunk(|_| None).unwrap_err()));
        assert_eq!((state(&backlog), backlog.weight(), backlog.keys()), ((0, 0, 0, 0), 1_000, 1_000));

        limit(&backlog, 1_000_000);
        assert_eq!(backlog.write_chunk(|_| None).unwrap(), Some((1, 500)));
        assert_eq!(backlog.write_chunk(|_| None).unwrap(), Some((2, 500)));
        assert!(backlog.write_runs().unwrap());
        assert_eq!((state(&backlog), backlog.weight(), backlog.keys()), ((2, 2, 1_000, 1_000), 0, 0));
    }

    #[test]
    fn room_is_kept_for_chunks_as_they_usually_are_and_given_back_when_nothing_waits() {
        let dir = tempfile::tempdir().unwrap();
        let mut backlog = open(&dir);
        let mut maker = Maker::new(1, "");
        let kept = |backlog: &IndexBacklog| {
            (backlog.fold.pauses.capacity() > 0, backlog.spare_chunk.pauses.capacity() > 0)
        };
        let mut number = 0;
        for (batches, keeps) in [(1, true), (REUSED_BUFFER_WEIGHT / 500 + 1, false), (1, true)] {
            for _ in 0..batches {
                number += 1;
                backlog.add_batch(batch(number, &mut maker), 1);
            }
            assert_eq!(backlog.write_chunk(|_| None).unwrap(), Some((number, batches * 500)));
            assert_eq!(kept(&backlog), (keeps, keeps));
        }
        backlog.add_batch(batch(number + 1, &mut maker), 1);
        backlog.release_buffers();
        assert!(kept(&backlog).0 && backlog.weight() == 500, "what waits stays");
        backlog.write_chunk(|_| None).unwrap();
        backlog.release_buffers();
        assert_eq!(kept(&backlog), (false, false));
    }

    #[test]
    fn a_run_that_a_start_writes_on_the_way_claims_no_key_that_was_not_read_yet() {
        let dir = tempfile::tempdir().unwrap();
        let mut backlog = open(&dir);
        for number in 1..=3 {
            backlog.add_batch(batch(number, &mut Maker::new(number, "")), 1);
        }
        assert_eq!(backlog.write_chunk(|_| None).unwrap(), Some((3, 1_500)));
        assert_eq!(state(&backlog), (3, 0, 1_500, 0));

        // As after a crash: the index has the reservations, and the keys are read again from the log.
        let mut backlog = open(&dir);
        for number in 1..=3 {
            backlog.add_batch(batch(number, &mut Maker::new(number, "")), 1);
            assert!(backlog.write_runs().unwrap());
            assert_eq!(backlog.index.state.keyed, number);
        }
        assert_eq!(state(&backlog), (3, 3, 1_500, 1_500));
    }

    #[test]
    fn a_full_disk_loses_no_key_while_runs_are_merged() {
        let dir = tempfile::tempdir().unwrap();
        let mut backlog = open(&dir);
        let mut maker = Maker::new(1, "");
        for number in 1..=8 {
            backlog.add_batch(batch(number, &mut maker), 1);
            assert!(backlog.write_runs().unwrap());
        }
        backlog.index.db.query_row("PRAGMA max_page_count = 1", [], |_| Ok(())).unwrap();
        assert!(is_retryable(&backlog.compact(0, true).unwrap_err()));
        assert_eq!((backlog.filters().len(), state(&backlog).3), (8, 4_000));
        assert!(!backlog.compact(0, false).unwrap(), "nothing is merged when it may not be");

        backlog.index.db.query_row("PRAGMA max_page_count = 1000000", [], |_| Ok(())).unwrap();
        assert!(backlog.compact(0, true).unwrap());
        assert_eq!((backlog.filters().len(), state(&backlog).3), (1, 4_000));
    }

    #[test]
    fn what_is_given_up_half_way_is_done_anew_and_a_merge_goes_on_where_it_stood() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("index.db");
        let mut backlog = IndexBacklog::new(Index::open_in_test(&file));
        let mut maker = Maker::new(1, "");
        let flag = Arc::clone(&backlog.index.throttle.cancelled);
        let cancel = |up| flag.store(up, Ordering::Relaxed);
        let is_told = |done: rusqlite::Result<bool>| {
            let error = done.unwrap_err();
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::OperationInterrupted));
        };
        for number in 1..=16_u64 {
            backlog.add_batch(batch(number, &mut maker), 1);
            if number % 2 == 1 {
                continue;
            }
            let before = state(&backlog);
            backlog.seal_chunk(|_| None);
            cancel(true);
            is_told(backlog.write_runs());
            is_told(backlog.write_sealed_chunk().map(|written| written.is_some()));
            assert_eq!(state(&backlog), before);
            cancel(false);
            assert!(backlog.write_runs().unwrap());
            assert_eq!(backlog.write_sealed_chunk().unwrap(), Some((number, 1_000)));
        }
        assert_eq!(state(&backlog), (16, 16, 8_000, 8_000));
        // From here on each step is as short as possible. The eight runs of 1,000 keys need two steps.
        backlog.compact(0, false).unwrap();
        let mut steps = 0;
        while backlog.filters().len() > 1 {
            cancel(true);
            is_told(backlog.compact(0, true));
            cancel(false);
            backlog.compact(0, true).unwrap();
            steps += 1;
            assert!(steps <= 2, "a merge that was given up begins anew");
        }
        assert_eq!((steps, state(&backlog).3), (2, 8_000));
        let read = backlog.index.db.unchecked_transaction().unwrap();
        for number in 1..=16_u64 {
            for n in 0..500 {
                let hash = KeyHash(u128::from(number) << 64 | n);
                assert!(crate::index::keys::find(&read, hash).unwrap().is_some());
            }
        }
        drop(read);
        drop(backlog);
        assert_eq!(Index::open_in_test(&file).keys.all.len(), 1);
    }
}
