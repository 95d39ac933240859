//! What the log has and the index lacks: folded batches and keys, until they are written. Nothing is let go of before its
//! transaction has committed, so a disk that is full loses nothing; it is tried again.

use crate::index::chunk::Chunk;
use crate::index::filter::BloomFilter;
use crate::index::postings::{self, Posting, TermHasher, UnflushedPostings};
use crate::index::units;
use crate::index::{Index, PAUSE_EVERYTHING};
use crate::limits::{BATCH_LINES, CHECKPOINT_AFTER_BYTES};
use crate::log;
use crate::log::batch::Batch;
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stockhold_domain::{
    Hold, HoldChange, Item, ItemKey, KeyRecord, ReservationId, Scope, Status, Transition,
};
use stockhold_store::fault;

type Map<K, V> = HashMap<K, V, RandomState>;

/// Mentions that are worth a run where this many times fewer keys would be.
const POSTINGS_PER_KEY: usize = 3;

/// Events and lines that make a chunk, whatever else waits: after each the index shows that it goes on.
pub(crate) const INDEX_STEP_WEIGHT: u64 = 65_536;
/// Events and lines of a chunk whose room is kept for the next: a step with a full batch of holds on top.
const REUSED_BUFFER_WEIGHT: u64 = INDEX_STEP_WEIGHT + 2 * BATCH_LINES as u64;

/// See the module.
pub(crate) struct IndexBacklog {
    pub(crate) index: Index,
    fold: EventFold,
    /// Batch that the fold leads to, and its checksum.
    reached: (u64, u32),
    /// Batch up to which keys and mentions were taken in: at a start they come from batches too that the index has long
    /// folded.
    keys_added_to: u64,
    /// Taken out of the fold and not written yet.
    sealed: Option<SealedChunk>,
    /// Room for what is taken out next.
    spare_chunk: Chunk,
    keys: Vec<KeyRecord>,
    /// Mentions that wait: readers look there too.
    postings: Arc<Mutex<UnflushedPostings>>,
    /// Keys and mentions that came since runs were tended.
    added_since_compaction: (usize, usize),
}

struct SealedChunk {
    chunk: Chunk,
    reached: (u64, u32),
    weight: u64,
    /// Up to this batch no key waited and no mention.
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

    /// Takes a batch in. What the index has of it already is left out.
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

    /// Mentions that no run has yet, for readers.
    pub(crate) fn unflushed_postings(&self) -> Arc<Mutex<UnflushedPostings>> {
        Arc::clone(&self.postings)
    }

    /// Events that wait.
    pub(crate) fn events(&self) -> usize {
        self.fold.events
    }

    /// Events that wait, and lines of theirs.
    pub(crate) fn weight(&self) -> u64 {
        self.fold.weight + self.sealed.as_ref().map_or(0, |sealed| sealed.weight)
    }

    /// Keys that wait, or mentions where those are more.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len().max(self.postings().len() / POSTINGS_PER_KEY)
    }

    /// Writes what waits; `item` knows items as they are, or as they became since. Answers with the batch that the index
    /// now leads up to, and the weight that it took in.
    pub(crate) fn write_chunk(
        &mut self,
        item: impl Fn(&ItemKey) -> Option<Item>,
    ) -> rusqlite::Result<Option<(u64, u64)>> {
        self.seal_chunk(item);
        self.write_sealed_chunk()
    }

    /// Takes what waits out of the fold, unless something else was taken out and not written yet.
    pub(crate) fn seal_chunk(&mut self, item: impl Fn(&ItemKey) -> Option<Item>) {
        if self.sealed.is_none() && self.reached.0 > self.index.state.indexed {
            let weight = self.fold.weight;
            let mut chunk = mem::take(&mut self.spare_chunk);
            self.fold.drain_into(&mut chunk, item);
            if weight > REUSED_BUFFER_WEIGHT {
                self.fold = EventFold::default();
            }
            // Where none waits, a start has none to read up to here.
            let none = self.keys.is_empty() && self.postings().len() == 0;
            let keyed = if none { self.reached.0 } else { 0 };
            self.sealed = Some(SealedChunk { chunk, reached: self.reached, weight, keyed });
        }
    }

    /// Writes what was taken out.
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

    /// Gives back the room that is kept from one chunk to the next.
    pub(crate) fn release_buffers(&mut self) {
        if self.weight() == 0 {
            self.fold = EventFold::default();
            self.spare_chunk = Chunk::default();
        }
    }

    /// Writes the keys and mentions that wait as runs. Answers whether there were any.
    pub(crate) fn write_runs(&mut self) -> rusqlite::Result<bool> {
        let mut postings = self.clone_postings();
        let count = postings.len();
        let written = self.write_runs_with(&mut postings)?;
        self.remove_flushed_postings(count);
        Ok(written)
    }

    /// The mentions that wait.
    pub(crate) fn clone_postings(&self) -> Vec<Posting> {
        self.postings().all()
    }

    /// Writes the keys that wait, and the mentions, as runs; both are put in order here. Answers whether there were any. Holds no lock.
    pub(crate) fn write_runs_with(&mut self, postings: &mut Vec<Posting>) -> rusqlite::Result<bool> {
        if self.keys.is_empty() && postings.is_empty() {
            return Ok(false);
        }
        postings::sort_and_join(postings);
        self.index.write_runs(&mut self.keys, postings, self.keys_added_to)?;
        self.keys.clear();
        Ok(true)
    }

    /// Forgets the first `count` mentions, which a run has. A reader that finds them in both takes them once.
    pub(crate) fn remove_flushed_postings(&self, count: usize) {
        self.postings().written(count);
    }

    /// Goes on with merging runs, if that may be, and with deleting those of keys that are older than `retire_before`, in
    /// step with what comes. Answers whether the filters are others now.
    pub(crate) fn compact(&mut self, retire_before: i64, may_merge: bool) -> rusqlite::Result<bool> {
        let changed = self.index.compact(retire_before, may_merge, self.added_since_compaction)?;
        self.added_since_compaction = (0, 0);
        Ok(changed)
    }

    /// Copies the index's write-ahead log when it has become long.
    pub(crate) fn checkpoint(&self) -> rusqlite::Result<()> {
        if log::checkpoint(&self.index.db, "NOOP")? > CHECKPOINT_AFTER_BYTES {
            fault!("checkpoint.index" => log::injected_error());
            log::checkpoint(&self.index.db, "PASSIVE")?;
        }
        Ok(())
    }

    /// What rules keys out.
    pub(crate) fn filters(&self) -> Vec<Arc<BloomFilter>> {
        self.index.keys.all.iter().map(|run| Arc::clone(&run.filter)).collect()
    }
}

/// Reservations as they became, each once, in the order in which they last moved.
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

/// Committed events, folded to what they come to.
#[derive(Debug, Default)]
pub(crate) struct EventFold {
    events: usize,
    /// Events, and lines and units of theirs: what [`crate::engine::core`] counts too.
    pub(crate) weight: u64,
    items: HashSet<ItemKey, RandomState>,
    pauses: Map<String, bool>,
    units: units::UnitChanges,
    /// Active holds, and whether the index has them as such.
    active: LatestByReservation<(Hold, bool)>,
    ended: Vec<ReservationId>,
    closed: LatestByReservation<Hold>,
}

impl EventFold {
    pub(crate) fn add(&mut self, transition: Transition) {
        self.events += 1;
        self.weight += 1 + transition.weight();
        units::fold(&mut self.units, &transition);
        match transition {
            Transition::Hold { change, hold, .. } => {
                for line in &*hold.lines {
                    self.item(&line.item);
                }
                self.hold(hold, change == HoldChange::Created);
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
        }
    }

    fn item(&mut self, key: &ItemKey) {
        if !self.items.contains(key) {
            self.items.insert(key.clone());
        }
    }

    fn hold(&mut self, hold: Hold, created: bool) {
        let id = hold.id;
        // Nothing moves before it is made.
        let before = if created { None } else { self.active.remove(id) };
        if hold.status == Status::Active {
            let indexed = before.map_or(!created, |(_, indexed)| indexed);
            self.active.put(id, (hold, indexed));
            return;
        }
        // What closed before this chunk began and comes again (a return) is in the index as closed.
        let returned = hold.lines.iter().any(|line| line.returned > 0);
        let was_closed = self.closed.remove(id).is_some();
        self.closed.put(id, hold);
        let indexed_as_active = before.map_or(!was_closed && !returned, |(_, indexed)| indexed);
        if indexed_as_active {
            self.ended.push(id);
        }
    }

    /// Takes out what it comes to, into a chunk that is empty, and keeps the room. Items are taken as they are published, which may
    /// be newer than the chunk: what a start applies on top are after-images, so it comes to the same.
    pub(crate) fn drain_into(&mut self, chunk: &mut Chunk, item: impl Fn(&ItemKey) -> Option<Item>) {
        let Self { events, weight, items, pauses, units, active, ended, closed } = self;
        (*events, *weight) = (0, 0);
        chunk.items.extend(items.drain().filter_map(|key| item(&key)));
        chunk.pauses.extend(pauses.drain());
        chunk.units.extend(units.drain());
        chunk.ended.append(ended);
        chunk.closed.extend(closed.drain());
        for (hold, indexed) in active.drain() {
            if indexed { &mut chunk.moved } else { &mut chunk.opened }.push(hold);
        }
        // In the order of the file, so that each of its pages is written once. Closed holds are nearly so, which a stable sort makes
        // use of.
        chunk.items.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        chunk.closed.sort_by_key(|hold| hold.id);
        chunk.units.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::item_key_interner::ItemKeyInterner;
    use crate::log::is_retryable;
    use rusqlite::ErrorCode;
    use std::sync::atomic::Ordering;
    use stockhold_domain::{Command, Event, Fingerprint, Instant, KeyHash, KeyTarget};
    use stockhold_store::conformance::Maker;
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
        IndexBacklog::new(Index::open(&dir.path().join("index.db"), &ItemKeyInterner::default()).unwrap().0)
    }

    /// What the index says that it has, and what it has.
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
        // No more than there are.
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
        let mut backlog = IndexBacklog::new(Index::open(&file, &ItemKeyInterner::default()).unwrap().0);
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
        // From here on a step is as short as may be: the eight runs of 1,000 keys are merged in two.
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
        assert_eq!(Index::open(&file, &ItemKeyInterner::default()).unwrap().0.keys.all.len(), 1);
    }
}
