//! Active reservations in the index. They are appended in segments, and lists beside them name the reservations that
//! ended. Inserting and deleting single rows of a tree costs ten times as much. When as many stored holds are obsolete
//! as are live, the oldest segments are cleaned: their live holds are appended again, as in a log-structured file
//! system (M. Rosenblum, J. Ousterhout: "The Design and Implementation of a Log-Structured File System", 1992).
//!
//! What must never happen: a list of ended reservations is deleted before the last segment that has any of them.

use crate::error::IndexError;
use crate::index::checksum::{TableTotals, check_totals, row_sum};
use crate::index::item_key_interner::ItemKeyInterner;
use crate::index::throttle::WriteThrottle;
use foldhash::fast::RandomState;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{HashMap, HashSet};
use stockhold_domain::{Hold, ReservationId};
use stockhold_store::StartProgress;
use stockhold_store::codec::{self, Reader};

pub(crate) const SCHEMA: &str = "
    CREATE TABLE segments (number INTEGER PRIMARY KEY, holds INTEGER NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL) STRICT;
    CREATE TABLE ended (number INTEGER PRIMARY KEY, until INTEGER NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL) STRICT;
";

/// The maximum number of reservations that memory is allocated for before they are read.
const MAX_PREALLOCATED_HOLDS: u64 = 1 << 24;
/// The maximum number of holds of a segment.
const SEGMENT_HOLDS: usize = 2_048;
/// The number of obsolete holds that are always allowed before cleaning begins.
const OBSOLETE_HOLDS_ALLOWED: u64 = 16_384;
/// The holds that a cleaning reads for each hold that was written, and the minimum.
const CLEANED_PER_WRITTEN_HOLD: usize = 3;
const MIN_CLEANED_HOLDS: usize = 4_096;

/// The totals of the segments, which are part of the state row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentTotals {
    pub(crate) segments: TableTotals,
    pub(crate) ended: TableTotals,
    /// The numbers of the last segment and of the last list.
    pub(crate) last_segment: u64,
    pub(crate) last_ended: u64,
    /// The number of active reservations.
    pub(crate) live: u64,
    /// The number of holds in the segments, including obsolete versions.
    pub(crate) stored: u64,
}

/// What is kept in memory about the segments between two writes.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    /// The reservations that the lists name.
    ended: HashSet<ReservationId, RandomState>,
    /// The reservations that have several versions, and the batch of the newest version.
    moved: HashMap<ReservationId, u64, RandomState>,
    /// The reservations that no list names any more once the running transaction has committed.
    forgotten: Vec<ReservationId>,
}

impl Segments {
    /// Writes the changes up to a batch. `opened` holds are new, `moved` holds have an earlier version here, and
    /// `ended` holds are here and closed now.
    pub(crate) fn write(
        &mut self,
        db: &Connection,
        at: &mut SegmentTotals,
        batch: u64,
        (opened, moved, ended): (&[Hold], &[Hold], &[ReservationId]),
        throttle: &mut WriteThrottle,
    ) -> rusqlite::Result<()> {
        self.forgotten.clear();
        for holds in [opened, moved] {
            for some in holds.chunks(SEGMENT_HOLDS) {
                append(db, at, some.iter().map(|hold| (batch, hold)), throttle)?;
            }
        }
        for hold in moved {
            self.moved.insert(hold.id, batch);
        }
        if !ended.is_empty() {
            append_ended(db, at, ended)?;
            self.ended.extend(ended);
        }
        at.live = at.live.wrapping_add(opened.len() as u64).wrapping_sub(ended.len() as u64);
        let most =
            MIN_CLEANED_HOLDS.max((opened.len() + moved.len() + ended.len()) * CLEANED_PER_WRITTEN_HOLD);
        self.clean(db, at, most, throttle)
    }

    /// Notes that the transaction has committed.
    pub(crate) fn committed(&mut self) {
        for id in self.forgotten.drain(..) {
            self.ended.remove(&id);
            self.moved.remove(&id);
        }
    }

    fn clean(
        &mut self,
        db: &Connection,
        at: &mut SegmentTotals,
        most: usize,
        throttle: &mut WriteThrottle,
    ) -> rusqlite::Result<()> {
        let mut looked_at: u64 = 0;
        while at.stored > 2 * at.live + OBSOLETE_HOLDS_ALLOWED && looked_at < most as u64 {
            let is_obsolete = |id, batch| {
                self.ended.contains(&id) || self.moved.get(&id).is_some_and(|newest| *newest > batch)
            };
            let Some(oldest) = oldest(db, is_obsolete)? else { return Ok(()) };
            looked_at += oldest.count;
            db.prepare_cached("DELETE FROM segments WHERE number = ?1")?
                .execute([oldest.number.cast_signed()])?;
            at.segments.replace(Some(oldest.sum), None);
            at.stored = at.stored.wrapping_sub(oldest.count);
            append(db, at, oldest.holds.iter().map(|(batch, hold)| (*batch, hold)), throttle)?;
            self.drop_ended(db, at)?;
        }
        Ok(())
    }

    /// Deletes the lists whose reservations are in no segment any more.
    fn drop_ended(&mut self, db: &Connection, at: &mut SegmentTotals) -> rusqlite::Result<()> {
        let sql = "SELECT number, until, data, sum FROM ended
            WHERE until < coalesce((SELECT min(number) FROM segments), 9223372036854775807) ORDER BY number";
        let mut over = Vec::new();
        let mut statement = db.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let list = EndedList::read(row)?;
            self.forgotten.extend(list.ids()?);
            over.push((list.number, list.sum));
        }
        for (number, sum) in over {
            db.prepare_cached("DELETE FROM ended WHERE number = ?1")?.execute([number.cast_signed()])?;
            at.ended.replace(Some(sum), None);
        }
        Ok(())
    }
}

fn append<'a>(
    db: &Connection,
    at: &mut SegmentTotals,
    holds: impl ExactSizeIterator<Item = (u64, &'a Hold)>,
    throttle: &mut WriteThrottle,
) -> rusqlite::Result<()> {
    let count = holds.len() as u64;
    if count == 0 {
        return Ok(());
    }
    let mut data = Vec::new();
    for (batch, hold) in holds {
        codec::put_u64(&mut data, batch);
        codec::put_hold(&mut data, hold);
        throttle.yield_point()?;
    }
    at.last_segment += 1;
    let sum = segment_sum(at.last_segment, count, &data);
    db.prepare_cached("INSERT INTO segments (number, holds, data, sum) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![at.last_segment.cast_signed(), count.cast_signed(), data, sum])?;
    at.segments.replace(None, Some(sum));
    at.stored = at.stored.wrapping_add(count);
    Ok(())
}

fn append_ended(db: &Connection, at: &mut SegmentTotals, ended: &[ReservationId]) -> rusqlite::Result<()> {
    let data: Vec<u8> = ended.iter().flat_map(|id| id.as_u128().to_be_bytes()).collect();
    at.last_ended += 1;
    let sum = ended_sum(at.last_ended, at.last_segment, &data);
    db.prepare_cached("INSERT INTO ended (number, until, data, sum) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![at.last_ended.cast_signed(), at.last_segment.cast_signed(), data, sum])?;
    at.ended.replace(None, Some(sum));
    Ok(())
}

fn segment_sum(number: u64, holds: u64, data: &[u8]) -> u32 {
    row_sum(&[number.to_le_bytes(), holds.to_le_bytes()].concat(), data)
}

fn ended_sum(number: u64, until: u64, data: &[u8]) -> u32 {
    row_sum(&[number.to_le_bytes(), until.to_le_bytes()].concat(), data)
}

/// A segment.
struct Segment {
    number: u64,
    sum: u32,
    /// The number of its holds.
    count: u64,
    /// The holds that are not obsolete, each with the batch at which it was written.
    holds: Vec<(u64, Hold)>,
}

const SEGMENT: &str = "SELECT number, holds, data, sum FROM segments ORDER BY number";

fn oldest(
    db: &Connection,
    is_obsolete: impl Fn(ReservationId, u64) -> bool,
) -> rusqlite::Result<Option<Segment>> {
    let mut statement = db.prepare_cached(&format!("{SEGMENT} LIMIT 1"))?;
    let read = |row: &rusqlite::Row<'_>| Ok(Segment::read(row, &ItemKeyInterner::default(), is_obsolete)?);
    statement.query_row([], read).optional()
}

impl Segment {
    /// `is_obsolete` gets an id and the batch at which the hold was written.
    fn read(
        row: &rusqlite::Row<'_>,
        keys: &ItemKeyInterner,
        is_obsolete: impl Fn(ReservationId, u64) -> bool,
    ) -> Result<Self, IndexError> {
        let (number, count, sum): (u64, u64, u32) = (row.get(0)?, row.get(1)?, row.get(3)?);
        let data = row.get_ref(2)?.as_blob().unwrap_or_default();
        if segment_sum(number, count, data) != sum {
            return Err(IndexError::Damaged(format!(
                "the checksum of piece {number} of active reservations does not fit"
            )));
        }
        let mut reader = Reader::sharing(data, keys);
        let mut holds = Vec::new();
        for _ in 0..count {
            let batch = reader.u64()?;
            holds
                .extend(codec::hold_if(&mut reader, |id| !is_obsolete(id, batch))?.map(|hold| (batch, hold)));
        }
        reader.finish()?;
        Ok(Self { number, sum, count, holds })
    }
}

/// A list of ended reservations.
struct EndedList {
    number: u64,
    sum: u32,
    data: Vec<u8>,
}

impl EndedList {
    fn read(row: &rusqlite::Row<'_>) -> Result<Self, IndexError> {
        let (number, until, data, sum): (u64, u64, Vec<u8>, u32) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        if ended_sum(number, until, &data) != sum {
            return Err(IndexError::Damaged(format!(
                "the checksum of list {number} of what ended does not fit"
            )));
        }
        Ok(Self { number, sum, data })
    }

    fn ids(&self) -> Result<impl Iterator<Item = ReservationId>, IndexError> {
        let (ids, []) = self.data.as_chunks::<16>() else {
            return Err(IndexError::Damaged(format!("list {} of what ended is cut off", self.number)));
        };
        Ok(ids.iter().map(|id| ReservationId::from_u128(u128::from_be_bytes(*id))))
    }
}

/// The sorted ids of all lists, and the totals of the lists.
fn load_ended(db: &Connection) -> Result<(Vec<ReservationId>, TableTotals), IndexError> {
    let (mut all, mut totals) = (Vec::new(), TableTotals::default());
    let mut statement = db.prepare("SELECT number, until, data, sum FROM ended")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let list = EndedList::read(row)?;
        all.extend(list.ids()?);
        totals.replace(None, Some(list.sum));
    }
    all.sort_unstable();
    Ok((all, totals))
}

/// All active reservations, sorted by id, and the totals of the segments and lists. About `stored` reservations are
/// expected. The lines use interned keys.
pub(crate) fn load(
    db: &Connection,
    stored: u64,
    keys: &ItemKeyInterner,
    progress: &StartProgress,
) -> Result<LoadedSegments, IndexError> {
    let (ended, lists) = load_ended(db)?;
    let mut totals = TableTotals::default();
    let mut found: Vec<(u64, Hold)> =
        Vec::with_capacity(usize::try_from(stored.min(MAX_PREALLOCATED_HOLDS)).unwrap_or(0));
    let mut statement = db.prepare(SEGMENT)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        // The ids of a segment are nearly sorted. A binary search then reads memory that is still in the cache, and a
        // hash table would not.
        let segment = Segment::read(row, keys, |id, _| ended.binary_search(&id).is_ok())?;
        totals.replace(None, Some(segment.sum));
        progress.add(segment.count);
        found.extend(segment.holds);
    }
    // Of several versions, the newest one comes first and stays.
    found.sort_unstable_by(|a, b| a.1.id.cmp(&b.1.id).then(b.0.cmp(&a.0)));
    let mut moved = HashMap::default();
    found.dedup_by(|next, before| {
        let same = next.1.id == before.1.id;
        if same {
            moved.insert(before.1.id, before.0);
        }
        same
    });
    let holds = found.into_iter().map(|(_, hold)| hold).collect();
    Ok(LoadedSegments {
        holds,
        segments: totals,
        ended: lists,
        segments_memory: Segments { ended: ended.into_iter().collect(), moved, forgotten: Vec::new() },
    })
}

/// The segments as a start loads them.
pub(crate) struct LoadedSegments {
    pub(crate) holds: Vec<Hold>,
    pub(crate) segments: TableTotals,
    pub(crate) ended: TableTotals,
    pub(crate) segments_memory: Segments,
}

impl LoadedSegments {
    /// The active reservations. Fails unless the segments and lists are the ones that were written.
    pub(crate) fn take_holds(&mut self, at: SegmentTotals) -> Result<Vec<Hold>, IndexError> {
        check_totals("pieces of active reservations", self.segments, at.segments)?;
        check_totals("lists of what ended", self.ended, at.ended)?;
        let holds = std::mem::take(&mut self.holds);
        if holds.len() as u64 != at.live {
            return Err(IndexError::Damaged(format!(
                "it has {} active reservations where {} were written",
                holds.len(),
                at.live
            )));
        }
        Ok(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use stockhold_conformance::maker::{reserve, set_stock};
    use stockhold_conformance::{Maker, Random, START};
    use stockhold_domain::{Command, Effects, HoldLimits, Instant, Outcome, Reply, decide};
    use stockhold_model::NaiveState;

    fn a_hold() -> Hold {
        let (mut maker, mut state) = (Maker::new(1, ""), NaiveState::default());
        let shirt = maker.item("shirt");
        let mut run = |command: Command| {
            let envelope = maker.wrap(command);
            decide(&mut state, &HoldLimits::default(), &envelope, START, &mut Effects::default()).unwrap()
        };
        run(set_stock(&shirt, 9));
        match run(reserve(&[(&shirt, 1)])) {
            Outcome::Done(Reply::Reservation(hold)) => hold,
            other => panic!("{other:?}"),
        }
    }

    /// Segments under random writes, some of which are rolled back, and their expected content.
    struct Bench {
        db: Connection,
        at: SegmentTotals,
        segments: Segments,
        model: BTreeMap<ReservationId, Hold>,
        next: u128,
        batch: u64,
    }

    impl Bench {
        fn new() -> Self {
            let db = Connection::open_in_memory().unwrap();
            db.execute_batch(SCHEMA).unwrap();
            let (at, segments, model) = (SegmentTotals::default(), Segments::default(), BTreeMap::new());
            Self { db, at, segments, model, next: 0, batch: 0 }
        }

        fn step(&mut self, random: &mut Random, pattern: &Hold, ends: u64) {
            self.batch += 1;
            let opened: Vec<Hold> = (0..random.below(2_400))
                .map(|_| {
                    self.next += 1;
                    Hold { id: ReservationId::from_u128(self.next), ..pattern.clone() }
                })
                .collect();
            let (mut moved, mut ended) = (Vec::new(), Vec::new());
            for (id, hold) in &self.model {
                match random.below(20) {
                    n if n < ends => ended.push(*id),
                    19 => {
                        let expires_at = Instant::from_micros(hold.expires_at.micros() + 1);
                        moved.push(Hold { expires_at, ..hold.clone() });
                    }
                    _ => {}
                }
            }
            let fails = random.below(4) == 0;
            let write = self.db.unchecked_transaction().unwrap();
            let mut at = self.at;
            let changes = (&*opened, &*moved, &*ended);
            self.segments.write(&write, &mut at, self.batch, changes, &mut WriteThrottle::default()).unwrap();
            if fails {
                // As on a full disk. The same changes are written again.
                write.rollback().unwrap();
                let write = self.db.unchecked_transaction().unwrap();
                at = self.at;
                self.segments
                    .write(&write, &mut at, self.batch, changes, &mut WriteThrottle::default())
                    .unwrap();
                write.commit().unwrap();
            } else {
                write.commit().unwrap();
            }
            self.segments.committed();
            self.at = at;
            self.model.extend(opened.into_iter().chain(moved).map(|hold| (hold.id, hold)));
            self.model.retain(|id, _| ended.binary_search(id).is_err());
        }

        fn restart(&mut self) {
            let progress = StartProgress::default();
            let mut loaded = load(&self.db, self.at.stored, &ItemKeyInterner::default(), &progress).unwrap();
            assert_eq!(progress.status().done, self.at.stored);
            let found = loaded.take_holds(self.at).unwrap();
            assert!(found.iter().eq(self.model.values()), "what a start finds is what is active");
            self.segments = loaded.segments_memory;
        }
    }

    #[test]
    fn what_is_active_is_found_whatever_was_written_and_cleaned_before() {
        let (pattern, mut random) = (a_hold(), Random::new(7));
        let mut bench = Bench::new();
        let mut cleaned = false;
        for step in 0..60 {
            // Phases in which many reservations end alternate with phases in which few end.
            let first = bench
                .db
                .query_row("SELECT min(number) FROM segments", [], |row| row.get::<_, Option<i64>>(0));
            cleaned |= first.unwrap().is_some_and(|first| first > 1);
            bench.step(&mut random, &pattern, if step / 15 % 2 == 0 { 4 } else { 1 });
            if random.below(5) == 0 {
                bench.restart();
            }
        }
        bench.restart();
        assert!(cleaned);
        assert!(bench.at.stored <= 2 * bench.at.live + OBSOLETE_HOLDS_ALLOWED + 10_000, "{:?}", bench.at);
        let rows = |table: &str| -> i64 {
            bench.db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
        };
        assert!(rows("ended") < 100, "{} lists of what ended are left", rows("ended"));
        assert!(
            bench.segments.ended.len() < 60_000,
            "{} of what ended is remembered",
            bench.segments.ended.len()
        );
    }

    #[test]
    fn a_piece_or_a_list_that_changed_or_is_gone_is_damage() {
        let pattern = a_hold();
        for change in [
            "UPDATE segments SET data = zeroblob(length(data)) WHERE number = 2",
            "DELETE FROM segments WHERE number = 2",
            "UPDATE segments SET holds = holds + 1 WHERE number = 1",
            "UPDATE ended SET data = zeroblob(length(data))",
            "UPDATE ended SET until = until + 1",
            "DELETE FROM ended",
        ] {
            let mut bench = Bench::new();
            let mut random = Random::new(3);
            for _ in 0..4 {
                bench.step(&mut random, &pattern, 3);
            }
            bench.restart();
            assert!(bench.db.execute(change, []).unwrap() > 0, "{change}");
            let found = load(&bench.db, 0, &ItemKeyInterner::default(), &StartProgress::default())
                .and_then(|mut loaded| loaded.take_holds(bench.at));
            assert!(found.is_err(), "{change}");
        }
    }
}
