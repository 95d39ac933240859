//! A disk that is a value: the log's rows as they are written, the marks, and what `index.db` comes to.

use crate::index::backlog::EventFold;
use crate::index::chunk::Chunk;
use crate::index::filter::BloomFilter;
use crate::index::units::UnitChange;
use crate::log::LogHead;
use crate::log::batch::{self, Batch, BatchRow};
use crate::log::sync_marker::SyncedBatch;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use stockhold_domain::{Event, Hold, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, ReservationId, Unit};

/// Versions of the index that a power cut may bring back: it is not synced with each of its transactions.
const KEPT_VERSIONS: usize = 3;
/// Runs that are merged into one.
const MERGE_RUNS: usize = 4;
/// Keys that stand in every filter though no run has them: each then takes one absent key in three for present.
const EXTRA_FILTER_KEYS: u128 = 128;
/// Far from one to the next: half of all bits, evenly spread (the golden ratio).
const EXTRA_KEY_STEP: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
/// A commit as it is read back from the disk.
#[derive(Debug)]
pub struct Commit {
    /// Its number: dense from 1.
    pub number: u64,
    /// Position of its first event, or of the next one when it has none.
    pub position: u64,
    /// The newest instant that it was decided at.
    pub at: Instant,
    /// What happened.
    pub events: Vec<Event>,
    /// Which keys were used.
    pub keys: Vec<KeyRecord>,
    /// Its checksum.
    pub sum: u32,
}

/// What becomes of a row that was written and not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFate {
    /// It is there.
    Kept,
    /// It is not.
    Lost,
    /// A part of it is.
    Torn,
}

/// What a machine's disk holds, which outlives the machine.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    pub(super) rows: Vec<BatchRow>,
    pub(super) unsynced: Option<BatchRow>,
    /// The newest mark and the one before it.
    pub(super) marks: [Option<SyncedBatch>; 2],
    pub(super) index: IndexImage,
    /// What the index was before, newest first.
    older: VecDeque<IndexImage>,
}

impl Disk {
    /// How many commits it has.
    pub fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Reads the newest commit back, checked against the one before it.
    pub fn newest(&self) -> Result<Option<Commit>, String> {
        let mut newest = self.rows.iter().rev();
        let Some(row) = newest.next() else { return Ok(None) };
        let Batch { number, position, at, events, keys } =
            batch::decode(row, newest.next().map_or(0, |row| row.sum))?;
        Ok(Some(Commit { number, position, at, events, keys, sum: row.sum }))
    }

    /// The power is cut: the mark may be an older one, and the index as it was some transactions ago.
    pub fn cut(&mut self, older_mark: bool, transactions: usize) {
        if older_mark {
            self.marks = [self.marks[1], None];
        }
        if let Some(index) = transactions.checked_sub(1).and_then(|n| self.older.remove(n)) {
            self.index = index;
        }
        self.older.clear();
    }

    /// A transaction of the index is about to be made.
    fn remember(&mut self) {
        self.older.push_front(self.index.clone());
        self.older.truncate(KEPT_VERSIONS);
    }

    /// Merges and drops runs of keys. Answers how many were dropped.
    pub(super) fn compact(&mut self, retire_before: Instant) -> usize {
        self.remember();
        self.index.compact(retire_before)
    }

    /// Turns a bit over in one of the commits that a start reads: the n-th from the end. Answers whether there is one.
    pub fn damage(&mut self, n: usize, bit: usize) -> bool {
        let read = self.rows.len().saturating_sub(usize::try_from(self.index.least()).unwrap_or(usize::MAX));
        let Some(n) = n.checked_rem(read) else { return false };
        let Some(row) = self.rows.iter_mut().rev().nth(n) else { return false };
        let Some(at) = (bit / 8).checked_rem(row.data.len()) else { return false };
        if let Some(byte) = row.data.get_mut(at) {
            *byte ^= 1 << (bit % 8);
        }
        true
    }

    /// Takes the newest commit away, and the marks too if they are to go with it. Answers whether a start has to notice.
    pub fn lose_newest(&mut self, marks: bool) -> bool {
        if marks {
            self.marks = [None, None];
        }
        self.rows.pop();
        let known = self.index.indexed.max(self.index.keyed);
        self.marks[0].map_or(known, |mark| known.max(mark.batch)) > self.len()
    }
}

/// A run of keys, with a filter so full that it takes many an absent key for present.
#[derive(Debug)]
struct KeyRunImage {
    keys: BTreeMap<KeyHash, KeyRecord>,
    filter: Arc<BloomFilter>,
    newest: i64,
}

impl KeyRunImage {
    fn of(records: impl IntoIterator<Item = KeyRecord>) -> Arc<Self> {
        let mut keys: BTreeMap<KeyHash, KeyRecord> = BTreeMap::new();
        for record in records {
            if keys.get(&record.hash).is_none_or(|other| other.at < record.at) {
                keys.insert(record.hash, record);
            }
        }
        let mut filter = BloomFilter::with_capacity(1);
        let extra = (1..=EXTRA_FILTER_KEYS).map(|n| KeyHash(n.wrapping_mul(EXTRA_KEY_STEP)));
        for hash in keys.keys().copied().chain(extra) {
            filter.insert(hash);
        }
        let newest = keys.values().map(|record| record.at.micros()).max().unwrap_or(i64::MIN);
        Arc::new(Self { keys, filter: Arc::new(filter), newest })
    }
}

/// What `index.db` comes to.
#[derive(Clone, Debug, Default)]
pub(super) struct IndexImage {
    pub(super) indexed: u64,
    pub(super) indexed_sum: u32,
    pub(super) keyed: u64,
    pub(super) items: BTreeMap<ItemKey, Item>,
    pub(super) units: BTreeMap<ItemKey, BTreeMap<Label, Unit>>,
    pub(super) pauses: BTreeSet<String>,
    pub(super) active: BTreeMap<ReservationId, Hold>,
    pub(super) closed: BTreeMap<ReservationId, Hold>,
    runs: Vec<Arc<KeyRunImage>>,
}

impl IndexImage {
    /// The batch that a start reads the log from.
    pub(super) fn least(&self) -> u64 {
        self.indexed.min(self.keyed)
    }

    pub(super) fn filters(&self) -> Vec<Arc<BloomFilter>> {
        self.runs.iter().map(|run| Arc::clone(&run.filter)).collect()
    }

    pub(super) fn key(&self, hash: KeyHash) -> Option<KeyRecord> {
        // What it was used for last, as the look-up in the file.
        self.runs.iter().filter_map(|run| run.keys.get(&hash)).max_by_key(|record| record.at).cloned()
    }

    /// Merges the oldest runs, if there are enough, and drops those whose newest key was used before an instant. Answers
    /// how many were dropped.
    fn compact(&mut self, retire_before: Instant) -> usize {
        if self.runs.len() >= MERGE_RUNS {
            let merged: Vec<_> = self.runs.drain(..MERGE_RUNS).collect();
            // What runs are merged into is numbered as the newest.
            self.runs.push(KeyRunImage::of(merged.iter().flat_map(|run| run.keys.values().cloned())));
        }
        let before = self.runs.len();
        self.runs.retain(|run| run.newest >= retire_before.micros());
        before - self.runs.len()
    }

    /// Takes a chunk in. What it says of active reservations has to be true of those that are there.
    fn write(&mut self, chunk: Chunk, (indexed, sum): (u64, u32), keyed: u64) -> Result<(), String> {
        self.items.extend(chunk.items.into_iter().map(|item| (item.key.clone(), item)));
        for (scope, paused) in chunk.pauses {
            if paused {
                self.pauses.insert(scope);
            } else {
                self.pauses.remove(&scope);
            }
        }
        for ((item, id), change) in chunk.units {
            let units = self.units.entry(item).or_default();
            match change {
                UnitChange::Put(unit) => {
                    units.insert(id, unit);
                }
                UnitChange::Moved(status, version) => {
                    let unit = units.get_mut(&id).ok_or(format!("unit {id:?} has moved and is not there"))?;
                    (unit.status, unit.version) = (status, version);
                }
                UnitChange::Removed => {
                    units.remove(&id);
                }
            }
        }
        for id in chunk.ended {
            self.active.remove(&id).ok_or(format!("{id} was to end in the index and is not there"))?;
        }
        for (holds, there) in [(chunk.opened, false), (chunk.moved, true)] {
            for hold in holds {
                let id = hold.id;
                if self.active.insert(id, hold).is_some() != there {
                    return Err(format!("{id} is active in the index: {}, and was to be: {there}", !there));
                }
            }
        }
        self.closed.extend(chunk.closed.into_iter().map(|hold| (hold.id, hold)));
        (self.indexed, self.indexed_sum, self.keyed) = (indexed, sum, self.keyed.max(keyed));
        Ok(())
    }
}

/// What the log has and the index lacks: as [`crate::index::backlog::IndexBacklog`], over an index that is a value.
#[derive(Debug, Default)]
pub(super) struct BacklogImage {
    pub(super) fold: EventFold,
    pub(super) reached: (u64, u32),
    pub(super) taken: u64,
    pub(super) keys: Vec<KeyRecord>,
}

impl BacklogImage {
    pub(super) fn add_batch(&mut self, index: &IndexImage, batch: Batch, sum: u32) {
        if batch.number > index.indexed {
            self.reached = (batch.number, sum);
            for event in batch.events {
                self.fold.add(event.transition);
            }
        }
        if batch.number > index.keyed {
            self.taken = batch.number;
            self.keys.extend(batch.keys);
        }
    }

    /// Answers with the batch that the index now leads up to, and the weight that it took in.
    pub(super) fn write_chunk(
        &mut self,
        disk: &mut Disk,
        item: impl Fn(&ItemKey) -> Option<Item>,
    ) -> Result<Option<(u64, u64)>, String> {
        if self.reached.0 <= disk.index.indexed {
            return Ok(None);
        }
        disk.remember();
        let weight = self.fold.weight;
        let mut chunk = Chunk::default();
        self.fold.drain_into(&mut chunk, item);
        let keyed = if self.keys.is_empty() { self.reached.0 } else { 0 };
        disk.index.write(chunk, self.reached, keyed)?;
        Ok(Some((self.reached.0, weight)))
    }

    pub(super) fn write_runs(&mut self, disk: &mut Disk) -> bool {
        if self.keys.is_empty() {
            return false;
        }
        disk.remember();
        disk.index.runs.push(KeyRunImage::of(self.keys.drain(..)));
        disk.index.keyed = self.taken;
        true
    }
}

/// Where the log stands after a batch, checked.
pub(super) fn head(rows: &[BatchRow], number: u64) -> Result<LogHead, String> {
    let Some(before) = number.checked_sub(1).and_then(|n| usize::try_from(n).ok()) else {
        return Ok(LogHead::default());
    };
    let row = rows.get(before).ok_or(format!("batch {number} is missing"))?;
    let previous = before.checked_sub(1).and_then(|n| rows.get(n)).map_or(0, |row| row.sum);
    let batch = batch::decode(row, previous)?;
    Ok(LogHead { number, sum: row.sum, next_position: batch.next_position(), at: batch.at })
}
