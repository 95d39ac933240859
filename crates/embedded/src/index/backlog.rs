//! What the log has and the index lacks: folded batches and keys, until they are written. Nothing is let go of before its
//! transaction has committed, so a disk that is full loses nothing; it is tried again.

use crate::index::chunk::Chunk;
use crate::index::filter::Filter;
use crate::index::postings::{self, Mention, Terms, UnflushedPostings};
use crate::index::units;
use crate::index::{EVERYTHING, Index};
use crate::limits::{BATCH_LINES, COPIED_AT};
use crate::log;
use crate::log::batch::Batch;
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stockhold_domain::bug;
use stockhold_domain::{
    Hold, HoldChange, Item, ItemKey, KeyRecord, ReservationId, Scope, Status, Transition,
};
use stockhold_store::fault;

type Map<K, V> = HashMap<K, V, RandomState>;

/// Mentions that are worth a run where this many times fewer keys would be.
const MENTIONS_PER_KEY: usize = 3;

/// Events and lines that make a chunk, whatever else waits: after each the index shows that it goes on.
pub(crate) const STEP_WEIGHT: u64 = 65_536;
/// Events and lines of a chunk whose room is kept for the next: a step with a full batch of holds on top.
const KEPT_WEIGHT: u64 = STEP_WEIGHT + 2 * BATCH_LINES as u64;

/// See the module.
pub(crate) struct Behind {
    pub(crate) index: Index,
    fold: Fold,
    /// Batch that the fold leads to, and its checksum.
    reached: (u64, u32),
    /// Batch up to which keys and mentions were taken in: at a start they come from batches too that the index has long
    /// folded.
    taken: u64,
    /// Taken out of the fold and not written yet.
    ready: Option<Ready>,
    /// Room for what is taken out next.
    spare: Chunk,
    keys: Vec<KeyRecord>,
    /// Mentions that wait: readers look there too.
    mentions: Arc<Mutex<UnflushedPostings>>,
    /// Keys and mentions that came since runs were tended.
    untended: (usize, usize),
}

struct Ready {
    chunk: Chunk,
    reached: (u64, u32),
    weight: u64,
    /// Up to this batch no key waited and no mention.
    keyed: u64,
}

impl Behind {
    pub(crate) fn new(index: Index) -> Self {
        let position = index.position;
        let reached = (position.indexed, position.indexed_sum);
        let mentions = Arc::new(Mutex::new(UnflushedPostings::new(
            Terms::new(index.position.terms_key),
            index.position.keyed,
        )));
        Self {
            index,
            fold: Fold::default(),
            reached,
            taken: position.keyed,
            ready: None,
            spare: Chunk::default(),
            keys: Vec::new(),
            mentions,
            untended: (0, 0),
        }
    }

    /// Takes a batch in. What the index has of it already is left out.
    pub(crate) fn take(&mut self, mut batch: Batch, sum: u32) {
        if batch.number > self.index.position.keyed {
            self.taken = batch.number;
            let mut mentions = self.mentions();
            let before = mentions.len();
            mentions.take(&batch);
            let more = mentions.len() - before;
            drop(mentions);
            self.untended = (self.untended.0 + batch.keys.len(), self.untended.1 + more);
            self.keys.append(&mut batch.keys);
        }
        if batch.number > self.index.position.indexed {
            self.reached = (batch.number, sum);
            for event in batch.events {
                self.fold.add(event.transition);
            }
        }
    }

    fn mentions(&self) -> MutexGuard<'_, UnflushedPostings> {
        self.mentions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Mentions that no run has yet, for readers.
    pub(crate) fn fresh(&self) -> Arc<Mutex<UnflushedPostings>> {
        Arc::clone(&self.mentions)
    }

    /// Events that wait.
    pub(crate) fn events(&self) -> usize {
        self.fold.events
    }

    /// Events that wait, and lines of theirs.
    pub(crate) fn weight(&self) -> u64 {
        self.fold.weight + self.ready.as_ref().map_or(0, |ready| ready.weight)
    }

    /// Keys that wait, or mentions where those are more.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len().max(self.mentions().len() / MENTIONS_PER_KEY)
    }

    /// Writes what waits; `item` knows items as they are, or as they became since. Answers with the batch that the index
    /// now leads up to, and the weight that it took in.
    pub(crate) fn write_chunk(
        &mut self,
        item: impl Fn(&ItemKey) -> Option<Item>,
    ) -> rusqlite::Result<Option<(u64, u64)>> {
        self.make_ready(item);
        self.write_ready()
    }

    /// Takes what waits out of the fold, unless something else was taken out and not written yet.
    pub(crate) fn make_ready(&mut self, item: impl Fn(&ItemKey) -> Option<Item>) {
        if self.ready.is_none() && self.reached.0 > self.index.position.indexed {
            let weight = self.fold.weight;
            let mut chunk = mem::take(&mut self.spare);
            self.fold.take_out(&mut chunk, item);
            if weight > KEPT_WEIGHT {
                self.fold = Fold::default();
            }
            // Where none waits, a start has none to read up to here.
            let none = self.keys.is_empty() && self.mentions().len() == 0;
            let keyed = if none { self.reached.0 } else { 0 };
            self.ready = Some(Ready { chunk, reached: self.reached, weight, keyed });
        }
    }

    /// Writes what was taken out.
    pub(crate) fn write_ready(&mut self) -> rusqlite::Result<Option<(u64, u64)>> {
        let Some(Ready { chunk, reached: (batch, sum), weight, keyed }) = &self.ready else {
            return Ok(None);
        };
        let ahead = u64::from(bug!("the-index-is-ahead-of-the-log"));
        self.index.write(chunk, (*batch + ahead, *sum), *keyed)?;
        let written = (*batch, *weight);
        if let Some(Ready { mut chunk, weight, .. }) = self.ready.take()
            && weight <= KEPT_WEIGHT
        {
            chunk.clear();
            self.spare = chunk;
        }
        Ok(Some(written))
    }

    /// Gives back the room that is kept from one chunk to the next.
    pub(crate) fn rest(&mut self) {
        if self.weight() == 0 {
            self.fold = Fold::default();
            self.spare = Chunk::default();
        }
    }

    /// Writes the keys and mentions that wait as runs. Answers whether there were any.
    pub(crate) fn write_runs(&mut self) -> rusqlite::Result<bool> {
        let mut mentions = self.waiting_mentions();
        let count = mentions.len();
        let written = self.write_runs_with(&mut mentions)?;
        self.forget_mentions(count);
        Ok(written)
    }

    /// The mentions that wait.
    pub(crate) fn waiting_mentions(&self) -> Vec<Mention> {
        self.mentions().all()
    }

    /// Writes the keys that wait, and the mentions, as runs; both are put in order here. Answers whether there were any. Holds no lock.
    pub(crate) fn write_runs_with(&mut self, mentions: &mut Vec<Mention>) -> rusqlite::Result<bool> {
        if self.keys.is_empty() && mentions.is_empty() {
            return Ok(false);
        }
        postings::sort_and_join(mentions);
        let taken =
            if bug!("a-start-claims-keys-that-it-has-not-read") { self.reached.0 } else { self.taken };
        self.index.write_runs(&mut self.keys, mentions, taken)?;
        self.keys.clear();
        Ok(true)
    }

    /// Forgets the first `count` mentions, which a run has. A reader that finds them in both takes them once.
    pub(crate) fn forget_mentions(&self, count: usize) {
        self.mentions().written(count);
    }

    /// Goes on with merging runs, if that may be, and with deleting those of keys that are older than `retire_before`, in
    /// step with what comes. Answers whether the filters are others now.
    pub(crate) fn tend(&mut self, retire_before: i64, may_merge: bool) -> rusqlite::Result<bool> {
        let changed = self.index.tend(retire_before, may_merge, self.untended)?;
        self.untended = (0, 0);
        Ok(changed)
    }

    /// Copies the index's write-ahead log when it has become long.
    pub(crate) fn checkpoint(&self) -> rusqlite::Result<()> {
        if log::checkpoint(&self.index.db, "NOOP")? > COPIED_AT {
            fault!("checkpoint.index" => log::failing_disk());
            log::checkpoint(&self.index.db, "PASSIVE")?;
        }
        Ok(())
    }

    /// What rules keys out.
    pub(crate) fn filters(&self) -> Vec<Arc<Filter>> {
        self.index.keys.all.iter().map(|run| Arc::clone(&run.filter)).collect()
    }
}

/// Reservations as they became, each once, in the order in which they last moved.
#[derive(Debug)]
struct Newest<T> {
    places: Map<ReservationId, usize>,
    all: Vec<Option<T>>,
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self { places: Map::default(), all: Vec::new() }
    }
}

impl<T> Newest<T> {
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
pub(crate) struct Fold {
    events: usize,
    /// Events, and lines and units of theirs: what [`crate::engine::core`] counts too.
    pub(crate) weight: u64,
    items: HashSet<ItemKey, RandomState>,
    pauses: Map<String, bool>,
    units: units::Changes,
    /// Active holds, and whether the index has them as such.
    active: Newest<(Hold, bool)>,
    ended: Vec<ReservationId>,
    closed: Newest<Hold>,
}

impl Fold {
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
                    self.pauses.insert(EVERYTHING.to_owned(), paused);
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
    pub(crate) fn take_out(&mut self, chunk: &mut Chunk, item: impl Fn(&ItemKey) -> Option<Item>) {
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
    use crate::index::item_keys::SharedKeys;
    use crate::log::can_wait;
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

    fn open(dir: &TempDir) -> Behind {
        Behind::new(Index::open(&dir.path().join("index.db"), &SharedKeys::default()).unwrap().0)
    }

    /// What the index says that it has, and what it has.
    fn state(behind: &Behind) -> (u64, u64, i64, usize) {
        let db = &behind.index.db;
        let pauses = db.query_row("SELECT count(*) FROM pauses", [], |row| row.get(0)).unwrap();
        let position = behind.index.position;
        (position.indexed, position.keyed, pauses, crate::index::runs::count::<crate::index::keys::Keys>(db))
    }

    #[test]
    fn a_full_disk_loses_nothing_of_what_waits() {
        let dir = tempfile::tempdir().unwrap();
        let mut behind = open(&dir);
        let mut maker = Maker::new(1, "");
        let limit = |behind: &Behind, pages: i64| {
            let pragma = format!("PRAGMA max_page_count = {pages}");
            behind.index.db.query_row(&pragma, [], |_| Ok(())).unwrap();
        };
        // No more than there are.
        limit(&behind, 1);
        behind.take(batch(1, &mut maker), 11);
        assert!(can_wait(&behind.write_chunk(|_| None).unwrap_err()));
        assert!(can_wait(&behind.write_runs().unwrap_err()));
        behind.take(batch(2, &mut maker), 12);
        assert!(can_wait(&behind.write_chunk(|_| None).unwrap_err()));
        assert_eq!((state(&behind), behind.weight(), behind.keys()), ((0, 0, 0, 0), 1_000, 1_000));

        limit(&behind, 1_000_000);
        assert_eq!(behind.write_chunk(|_| None).unwrap(), Some((1, 500)));
        assert_eq!(behind.write_chunk(|_| None).unwrap(), Some((2, 500)));
        assert!(behind.write_runs().unwrap());
        assert_eq!((state(&behind), behind.weight(), behind.keys()), ((2, 2, 1_000, 1_000), 0, 0));
    }

    #[test]
    fn room_is_kept_for_chunks_as_they_usually_are_and_given_back_when_nothing_waits() {
        let dir = tempfile::tempdir().unwrap();
        let mut behind = open(&dir);
        let mut maker = Maker::new(1, "");
        let kept = |behind: &Behind| (behind.fold.pauses.capacity() > 0, behind.spare.pauses.capacity() > 0);
        let mut number = 0;
        for (batches, keeps) in [(1, true), (KEPT_WEIGHT / 500 + 1, false), (1, true)] {
            for _ in 0..batches {
                number += 1;
                behind.take(batch(number, &mut maker), 1);
            }
            assert_eq!(behind.write_chunk(|_| None).unwrap(), Some((number, batches * 500)));
            assert_eq!(kept(&behind), (keeps, keeps));
        }
        behind.take(batch(number + 1, &mut maker), 1);
        behind.rest();
        assert!(kept(&behind).0 && behind.weight() == 500, "what waits stays");
        behind.write_chunk(|_| None).unwrap();
        behind.rest();
        assert_eq!(kept(&behind), (false, false));
    }

    #[test]
    fn a_run_that_a_start_writes_on_the_way_claims_no_key_that_was_not_read_yet() {
        let dir = tempfile::tempdir().unwrap();
        let mut behind = open(&dir);
        for number in 1..=3 {
            behind.take(batch(number, &mut Maker::new(number, "")), 1);
        }
        assert_eq!(behind.write_chunk(|_| None).unwrap(), Some((3, 1_500)));
        assert_eq!(state(&behind), (3, 0, 1_500, 0));

        // As after a crash: the index has the reservations, and the keys are read again from the log.
        let mut behind = open(&dir);
        for number in 1..=3 {
            behind.take(batch(number, &mut Maker::new(number, "")), 1);
            assert!(behind.write_runs().unwrap());
            assert_eq!(behind.index.position.keyed, number);
        }
        assert_eq!(state(&behind), (3, 3, 1_500, 1_500));
    }

    #[test]
    fn a_full_disk_loses_no_key_while_runs_are_merged() {
        let dir = tempfile::tempdir().unwrap();
        let mut behind = open(&dir);
        let mut maker = Maker::new(1, "");
        for number in 1..=8 {
            behind.take(batch(number, &mut maker), 1);
            assert!(behind.write_runs().unwrap());
        }
        behind.index.db.query_row("PRAGMA max_page_count = 1", [], |_| Ok(())).unwrap();
        assert!(can_wait(&behind.tend(0, true).unwrap_err()));
        assert_eq!((behind.filters().len(), state(&behind).3), (8, 4_000));
        assert!(!behind.tend(0, false).unwrap(), "nothing is merged when it may not be");

        behind.index.db.query_row("PRAGMA max_page_count = 1000000", [], |_| Ok(())).unwrap();
        assert!(behind.tend(0, true).unwrap());
        assert_eq!((behind.filters().len(), state(&behind).3), (1, 4_000));
    }

    #[test]
    fn what_is_given_up_half_way_is_done_anew_and_a_merge_goes_on_where_it_stood() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("index.db");
        let mut behind = Behind::new(Index::open(&file, &SharedKeys::default()).unwrap().0);
        let mut maker = Maker::new(1, "");
        let flag = Arc::clone(&behind.index.pace.given_up);
        let give_up = |up| flag.store(up, Ordering::Relaxed);
        let is_told = |done: rusqlite::Result<bool>| {
            let error = done.unwrap_err();
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::OperationInterrupted));
        };
        for number in 1..=16_u64 {
            behind.take(batch(number, &mut maker), 1);
            if number % 2 == 1 {
                continue;
            }
            let before = state(&behind);
            behind.make_ready(|_| None);
            give_up(true);
            is_told(behind.write_runs());
            is_told(behind.write_ready().map(|written| written.is_some()));
            assert_eq!(state(&behind), before);
            give_up(false);
            assert!(behind.write_runs().unwrap());
            assert_eq!(behind.write_ready().unwrap(), Some((number, 1_000)));
        }
        assert_eq!(state(&behind), (16, 16, 8_000, 8_000));
        // From here on a step is as short as may be: the eight runs of 1,000 keys are merged in two.
        behind.tend(0, false).unwrap();
        let mut steps = 0;
        while behind.filters().len() > 1 {
            give_up(true);
            is_told(behind.tend(0, true));
            give_up(false);
            behind.tend(0, true).unwrap();
            steps += 1;
            assert!(steps <= 2, "a merge that was given up begins anew");
        }
        assert_eq!((steps, state(&behind).3), (2, 8_000));
        let read = behind.index.db.unchecked_transaction().unwrap();
        for number in 1..=16_u64 {
            for n in 0..500 {
                let hash = KeyHash(u128::from(number) << 64 | n);
                assert!(crate::index::keys::find(&read, hash).unwrap().is_some());
            }
        }
        drop(read);
        drop(behind);
        assert_eq!(Index::open(&file, &SharedKeys::default()).unwrap().0.keys.all.len(), 1);
    }
}
