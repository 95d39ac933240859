//! A disk that is a value: the log's rows as they are written, the marks, and what `index.db` comes to.

use crate::index::backlog::Fold;
use crate::index::chunk::Chunk;
use crate::index::filter::Filter;
use crate::index::units::Change;
use crate::log::Head;
use crate::log::batch::{self, Batch, Row};
use crate::log::sync_marker::Mark;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use stockhold_domain::{Event, Hold, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, ReservationId, Unit};

/// Versions of the index that a power cut may bring back: it is not synced with each of its transactions.
const OLDER: usize = 3;
/// Runs that are merged into one.
const MERGED: usize = 4;
/// Keys that stand in every filter though no run has them: each then takes one absent key in three for present.
const CHAFF: u128 = 128;
/// Far from one to the next: half of all bits, evenly spread (the golden ratio).
const CHAFF_STEP: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
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
pub enum Fate {
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
    pub(super) rows: Vec<Row>,
    pub(super) unsynced: Option<Row>,
    /// The newest mark and the one before it.
    pub(super) marks: [Option<Mark>; 2],
    pub(super) index: Index,
    /// What the index was before, newest first.
    older: VecDeque<Index>,
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
        self.older.truncate(OLDER);
    }

    /// Merges and drops runs of keys. Answers how many were dropped.
    pub(super) fn tend(&mut self, retire_before: Instant) -> usize {
        self.remember();
        self.index.tend(retire_before)
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
struct Run {
    keys: BTreeMap<KeyHash, KeyRecord>,
    filter: Arc<Filter>,
    newest: i64,
}

impl Run {
    fn of(records: impl IntoIterator<Item = KeyRecord>) -> Arc<Self> {
        let mut keys: BTreeMap<KeyHash, KeyRecord> = BTreeMap::new();
        for record in records {
            if keys.get(&record.hash).is_none_or(|other| other.at < record.at) {
                keys.insert(record.hash, record);
            }
        }
        let mut filter = Filter::for_keys(1);
        let chaff = (1..=CHAFF).map(|n| KeyHash(n.wrapping_mul(CHAFF_STEP)));
        for hash in keys.keys().copied().chain(chaff) {
            filter.insert(hash);
        }
        let newest = keys.values().map(|record| record.at.micros()).max().unwrap_or(i64::MIN);
        Arc::new(Self { keys, filter: Arc::new(filter), newest })
    }
}

/// What `index.db` comes to.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    pub(super) indexed: u64,
    pub(super) indexed_sum: u32,
    pub(super) keyed: u64,
    pub(super) items: BTreeMap<ItemKey, Item>,
    pub(super) units: BTreeMap<ItemKey, BTreeMap<Label, Unit>>,
    pub(super) pauses: BTreeSet<String>,
    pub(super) active: BTreeMap<ReservationId, Hold>,
    pub(super) closed: BTreeMap<ReservationId, Hold>,
    runs: Vec<Arc<Run>>,
}

impl Index {
    /// The batch that a start reads the log from.
    pub(super) fn least(&self) -> u64 {
        self.indexed.min(self.keyed)
    }

    pub(super) fn filters(&self) -> Vec<Arc<Filter>> {
        self.runs.iter().map(|run| Arc::clone(&run.filter)).collect()
    }

    pub(super) fn key(&self, hash: KeyHash) -> Option<KeyRecord> {
        // What it was used for last, as the look-up in the file.
        self.runs.iter().filter_map(|run| run.keys.get(&hash)).max_by_key(|record| record.at).cloned()
    }

    /// Merges the oldest runs, if there are enough, and drops those whose newest key was used before an instant. Answers
    /// how many were dropped.
    fn tend(&mut self, retire_before: Instant) -> usize {
        if self.runs.len() >= MERGED {
            let merged: Vec<_> = self.runs.drain(..MERGED).collect();
            // What runs are merged into is numbered as the newest.
            self.runs.push(Run::of(merged.iter().flat_map(|run| run.keys.values().cloned())));
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
                Change::Put(unit) => {
                    units.insert(id, unit);
                }
                Change::Moved(status, version) => {
                    let unit = units.get_mut(&id).ok_or(format!("unit {id:?} has moved and is not there"))?;
                    (unit.status, unit.version) = (status, version);
                }
                Change::Gone => {
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

/// What the log has and the index lacks: as [`crate::index::backlog::Behind`], over an index that is a value.
#[derive(Debug, Default)]
pub(super) struct Lag {
    pub(super) fold: Fold,
    pub(super) reached: (u64, u32),
    pub(super) taken: u64,
    pub(super) keys: Vec<KeyRecord>,
}

impl Lag {
    pub(super) fn take(&mut self, index: &Index, batch: Batch, sum: u32) {
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
        self.fold.take_out(&mut chunk, item);
        let keyed = if self.keys.is_empty() { self.reached.0 } else { 0 };
        disk.index.write(chunk, self.reached, keyed)?;
        Ok(Some((self.reached.0, weight)))
    }

    pub(super) fn write_runs(&mut self, disk: &mut Disk) -> bool {
        if self.keys.is_empty() {
            return false;
        }
        disk.remember();
        disk.index.runs.push(Run::of(self.keys.drain(..)));
        disk.index.keyed = self.taken;
        true
    }
}

/// Where the log stands after a batch, checked.
pub(super) fn head(rows: &[Row], number: u64) -> Result<Head, String> {
    let Some(before) = number.checked_sub(1).and_then(|n| usize::try_from(n).ok()) else {
        return Ok(Head::default());
    };
    let row = rows.get(before).ok_or(format!("batch {number} is missing"))?;
    let previous = before.checked_sub(1).and_then(|n| rows.get(n)).map_or(0, |row| row.sum);
    let batch = batch::decode(row, previous)?;
    Ok(Head { number, sum: row.sum, next_position: batch.next_position(), at: batch.at })
}
