//! A disk as a value: the rows of the log, the sync marker, and the content of `index.db`.

use crate::index::backlog::EventFold;
use crate::index::chunk::Chunk;
use crate::index::filter::BloomFilter;
use crate::index::units::UnitChange;
use crate::log::LogHead;
use crate::log::batch::{self, Batch, BatchRow};
use crate::log::sync_marker::SyncedBatch;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use stockhold_domain::{
    CounterKey, Event, Hold, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, Limit, Record, RecordKey,
    ReservationId, Unit,
};

/// The number of older versions of the index that a power cut may bring back, because its transactions are not synced.
const KEPT_VERSIONS: usize = 3;
/// The number of runs that are merged into one.
const MERGE_RUNS: usize = 4;
/// The number of keys that are added to every filter although no run has them. Each filter then has a false positive
/// for one in three absent keys.
const EXTRA_FILTER_KEYS: u128 = 128;
/// The distance between two of these keys: half of the bits differ (the golden ratio).
const EXTRA_KEY_STEP: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
/// A commit that was read back from the disk.
#[derive(Debug)]
pub struct Commit {
    /// The number of the batch. Numbers start at 1 and have no gaps.
    pub number: u64,
    /// The position of its first event, or of the next event if it has none.
    pub position: u64,
    /// The time of its newest decision.
    pub at: Instant,
    /// The events.
    pub events: Vec<Event>,
    /// The idempotency keys that were used.
    pub keys: Vec<KeyRecord>,
    /// The checksum.
    pub sum: u32,
}

/// What happens to a row that was written and not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFate {
    /// The row is complete.
    Kept,
    /// The row is missing.
    Lost,
    /// A part of the row is there.
    Torn,
}

/// The disk of a machine. It survives the machine.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    pub(super) rows: Vec<BatchRow>,
    pub(super) unsynced: Option<BatchRow>,
    /// The newest sync marker and the one before it.
    pub(super) marks: [Option<SyncedBatch>; 2],
    pub(super) index: IndexImage,
    /// Older versions of the index, the newest first.
    older: VecDeque<IndexImage>,
}

impl Disk {
    /// The number of commits.
    pub fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Whether there is no commit.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Reads the newest commit, and checks it against the commit before it.
    pub fn newest(&self) -> Result<Option<Commit>, String> {
        let mut newest = self.rows.iter().rev();
        let Some(row) = newest.next() else { return Ok(None) };
        let Batch { number, position, at, events, keys } =
            batch::decode(row, newest.next().map_or(0, |row| row.sum))?;
        Ok(Some(Commit { number, position, at, events, keys, sum: row.sum }))
    }

    /// Cuts the power: the sync marker may be the older one, and the index may be some transactions older.
    pub fn cut(&mut self, older_mark: bool, transactions: usize) {
        if older_mark {
            self.marks = [self.marks[1], None];
        }
        if let Some(index) = transactions.checked_sub(1).and_then(|n| self.older.remove(n)) {
            self.index = index;
        }
        self.older.clear();
    }

    /// Keeps the current version before a transaction of the index.
    fn remember(&mut self) {
        self.older.push_front(self.index.clone());
        self.older.truncate(KEPT_VERSIONS);
    }

    /// Merges and drops runs of keys. Returns the number of dropped runs.
    pub(super) fn compact(&mut self, retire_before: Instant) -> usize {
        self.remember();
        self.index.compact(retire_before)
    }

    /// Flips a bit in one of the commits that a start reads: the n-th from the end. Returns whether there is one.
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

    /// Removes the newest commit, and the sync marker if `marks` is set. Returns whether a start has to detect it.
    pub fn lose_newest(&mut self, marks: bool) -> bool {
        if marks {
            self.marks = [None, None];
        }
        self.rows.pop();
        let known = self.index.indexed.max(self.index.keyed);
        self.marks[0].map_or(known, |mark| known.max(mark.batch)) > self.len()
    }
}

/// A run of keys. Its filter has many false positives.
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

/// The content of `index.db`.
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
    pub(super) records: BTreeMap<RecordKey, Record>,
    pub(super) due_payments: BTreeMap<ReservationId, Instant>,
    pub(super) limits: BTreeMap<Label, Limit>,
    pub(super) sold: BTreeMap<CounterKey, u64>,
    runs: Vec<Arc<KeyRunImage>>,
}

impl IndexImage {
    /// The batch after which a start reads the log.
    pub(super) fn least(&self) -> u64 {
        self.indexed.min(self.keyed)
    }

    pub(super) fn filters(&self) -> Vec<Arc<BloomFilter>> {
        self.runs.iter().map(|run| Arc::clone(&run.filter)).collect()
    }

    pub(super) fn key(&self, hash: KeyHash) -> Option<KeyRecord> {
        // The last use of the key, like the lookup in the file.
        self.runs.iter().filter_map(|run| run.keys.get(&hash)).max_by_key(|record| record.at).cloned()
    }

    /// Merges the oldest runs if there are enough, and drops runs whose newest key was used before this time. Returns
    /// the number of dropped runs.
    fn compact(&mut self, retire_before: Instant) -> usize {
        if self.runs.len() >= MERGE_RUNS {
            let merged: Vec<_> = self.runs.drain(..MERGE_RUNS).collect();
            // The merged run gets the number of the newest run.
            self.runs.push(KeyRunImage::of(merged.iter().flat_map(|run| run.keys.values().cloned())));
        }
        let before = self.runs.len();
        self.runs.retain(|run| run.newest >= retire_before.micros());
        before - self.runs.len()
    }

    /// Writes a chunk. Fails if the chunk contradicts the active reservations of the index.
    fn write(&mut self, chunk: Chunk, (indexed, sum): (u64, u32), keyed: u64) -> Result<(), String> {
        self.items.extend(chunk.items.into_iter().map(|item| (item.key.clone(), item)));
        chunk.deleted_items.iter().for_each(|key| drop(self.items.remove(key)));
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
                UnitChange::Moved(status, version, pool) => {
                    let unit = units.get_mut(&id).ok_or(format!("unit {id:?} has moved and is not there"))?;
                    (unit.status, unit.version, unit.pool) = (status, version, pool);
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
        for (id, due) in chunk.due_payments {
            match due {
                Some(due) => self.due_payments.insert(id, due),
                None => self.due_payments.remove(&id),
            };
        }
        self.records.extend(chunk.records.into_iter().map(|record| (record.key.clone(), record)));
        for limit in chunk.limits.limits {
            let is_over = |key: &CounterKey| key.generation != limit.generation || limit.terms.is_none();
            self.sold.retain(|key, _| key.limit != limit.id || !is_over(key));
            self.limits.insert(limit.id.clone(), limit);
        }
        self.sold.extend(chunk.limits.sold);
        self.sold.retain(|_, units| *units > 0);
        (self.indexed, self.indexed_sum, self.keyed) = (indexed, sum, self.keyed.max(keyed));
        Ok(())
    }
}

/// The part of the log that the index lacks, like [`crate::index::backlog::IndexBacklog`].
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

    /// Returns the batch up to which the index is complete, and the weight that was written.
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

/// The checked end of the log after a batch.
pub(super) fn head(rows: &[BatchRow], number: u64) -> Result<LogHead, String> {
    let Some(before) = number.checked_sub(1).and_then(|n| usize::try_from(n).ok()) else {
        return Ok(LogHead::default());
    };
    let row = rows.get(before).ok_or(format!("batch {number} is missing"))?;
    let previous = before.checked_sub(1).and_then(|n| rows.get(n)).map_or(0, |row| row.sum);
    let batch = batch::decode(row, previous)?;
    Ok(LogHead { number, sum: row.sum, next_position: batch.next_position(), at: batch.at })
}
