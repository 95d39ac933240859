//! `index.db`, which is derived from the log up to a stored batch. Only the indexer writes it, after the commit. A
//! start reads it, and so do readers that look for closed reservations and used keys. Every row has a checksum. The
//! state row has the number and the sum of the rows that a start depends on, so that a missing row is detected too.

pub(crate) mod backlog;
pub(crate) mod checksum;
pub(crate) mod chunk;
pub(crate) mod filter;
pub(crate) mod item_key_interner;
pub(crate) mod keys;
pub(crate) mod postings;
pub(crate) mod records;
pub(crate) mod runs;
pub(crate) mod segments;
pub(crate) mod throttle;
pub(crate) mod units;

use self::checksum::{TableTotals, check_neighbours, check_totals, row_sum, row_sum_of};
use self::chunk::Chunk;
use self::item_key_interner::ItemKeyInterner;
use self::keys::KeyRuns;
use self::postings::{Posting, PostingRuns};
use self::runs::{RetiredRuns, Run, RunKind, RunMerge};
use self::segments::{SegmentTotals, Segments};
use self::throttle::WriteThrottle;
use crate::error::IndexError;
use crate::error::OpenError;
#[cfg(feature = "faults")]
use crate::log::injected_error;
use crate::log::{check_format, open_reader, open_sqlite};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stockhold_domain::{Hold, Instant, Item, ItemKey, KeyHash, KeyRecord, ReservationId, Settings};
use stockhold_store::codec::{self, KnownKeys, Reader};
use stockhold_store::fault;
use stockhold_store::ids::IdSource;
use stockhold_store::{StartProgress, StartStep};

const FORMAT: i64 = 1;
/// The bytes of a page of a new index. An existing index keeps its page size. Each page costs two system calls to write
/// and two to copy, so long rows need large pages. Rows of items are far apart when many items sell evenly, and each
/// then writes a page of its own.
const PAGE: u32 = 16 << 10;
/// Marks the file as an index of stockhold: "SHIX".
const APPLICATION: i64 = 0x5348_4958;

const SCHEMA: &str = "
    CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), data BLOB NOT NULL, sum INTEGER NOT NULL) STRICT;
    CREATE TABLE items (
        location TEXT NOT NULL, sku TEXT NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL,
        PRIMARY KEY (location, sku)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE pauses (scope TEXT PRIMARY KEY, sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE closed (id BLOB PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

/// The name of the pause of everything among the paused locations. No location has an empty name.
pub(crate) const PAUSE_EVERYTHING: &str = "";

/// The state row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexState {
    /// The batch up to which items and reservations are indexed, and its checksum in the log.
    pub(crate) indexed: u64,
    pub(crate) indexed_sum: u32,
    /// The batch up to which keys and postings are indexed.
    pub(crate) keyed: u64,
    /// Keys that were used before this time may be dropped, because their retention is over.
    pub(crate) dropped_before: Instant,
    /// The key of the hashes of terms.
    pub(crate) term_hash_key: u128,
    pub(crate) items: TableTotals,
    pub(crate) pauses: TableTotals,
    pub(crate) closed: TableTotals,
    pub(crate) units: TableTotals,
    pub(crate) records: TableTotals,
    pub(crate) active: SegmentTotals,
}

/// The runs of one kind, and the merge that is in progress.
#[derive(Debug, Default)]
pub(crate) struct RunSet {
    pub(crate) all: Vec<Run>,
    merge: Option<RunMerge>,
}

impl RunSet {
    fn load<K: RunKind>(db: &Connection) -> Result<Self, IndexError> {
        Ok(Self { all: runs::load::<K>(db)?, merge: None })
    }

    /// Continues merging and retiring runs, in proportion to the `fresh` records that were added. `retired` gets the
    /// time of the newest retired record, in the same transaction. Returns whether the runs have changed.
    fn compact<K: RunKind>(
        &mut self,
        db: &mut Connection,
        retire_before: i64,
        may_merge: bool,
        fresh: usize,
        throttle: WriteThrottle,
        retired: impl FnOnce(&Connection, i64) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<bool> {
        let begun = self.merge.as_ref().map(RunMerge::done);
        let mut merge = self.merge.take();
        let all = &self.all;
        let compact = || {
            let write = db.transaction()?;
            let merged =
                if may_merge { runs::merge::<K>(&write, all, &mut merge, fresh, throttle)? } else { None };
            let RetiredRuns { runs: old, newest } =
                runs::retire::<K>(&write, all, merge.as_ref(), retire_before, fresh)?;
            if let Some(newest) = newest {
                retired(&write, newest)?;
            }
            write.commit()?;
            Ok::<_, rusqlite::Error>((merged, old))
        };
        let (merged, old) = match compact() {
            Ok(tended) => tended,
            Err(error) => {
                // The merge continues where it stood before the failed transaction. A merge that began or ended in that
                // transaction leaves pages of a retired run, which are deleted.
                self.merge = merge.zip(begun).map(|(merge, done)| merge.rewind_to(done));
                return Err(error);
            }
        };
        self.merge = merge;
        let changed = merged.is_some() || !old.is_empty();
        let gone = |run: &Run| {
            old.contains(&run.number) || merged.as_ref().is_some_and(|m| m.1.contains(&run.number))
        };
        self.all.retain(|run| !gone(run));
        self.all.extend(merged.map(|(run, _)| run));
        Ok(changed)
    }
}

/// The database `index.db`.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) db: Connection,
    pub(crate) file: PathBuf,
    pub(crate) state: IndexState,
    pub(crate) keys: RunSet,
    postings: RunSet,
    segments: Segments,
    pub(crate) throttle: WriteThrottle,
}

impl Index {
    /// Opens the index for writing, and creates an empty one if there is none. Also returns the active reservations,
    /// whose lines use interned keys.
    pub(crate) fn open(
        file: &Path,
        keys: &ItemKeyInterner,
        progress: &StartProgress,
    ) -> Result<(Self, Vec<Hold>), OpenError> {
        let schema = [
            SCHEMA,
            segments::SCHEMA,
            units::SCHEMA,
            records::SCHEMA,
            &runs::schema::<KeyRuns>(),
            &runs::schema::<PostingRuns>(),
        ]
        .concat();
        // The log restores what a power cut takes away, so transactions are not synced.
        let db = open_sqlite(file, PAGE, (APPLICATION, FORMAT), &schema, "NORMAL")?;
        Self::read(db, file, keys, progress).map_err(|damage| damage.into_open_error(file))
    }

    /// Opens the index for a test, which looks at no active reservations.
    #[cfg(test)]
    pub(crate) fn open_in_test(file: &Path) -> Self {
        Self::open(file, &ItemKeyInterner::default(), &StartProgress::default()).unwrap().0
    }

    fn read(
        db: Connection,
        file: &Path,
        keys: &ItemKeyInterner,
        progress: &StartProgress,
    ) -> Result<(Self, Vec<Hold>), IndexError> {
        let mut state = read_state(&db)?;
        if state == IndexState::default() {
            // The index is new. Its first write stores this key.
            state.term_hash_key = IdSource::from_system()
                .map_err(|error| OpenError::io("asking for random bytes", error.to_string()))?
                .random();
        }
        progress.begin(StartStep::LoadReservations, Some(state.active.stored));
        let mut loaded = segments::load(&db, state.active.stored, keys, progress)?;
        let active = loaded.take_holds(state.active)?;
        let index = Self {
            keys: RunSet::load::<KeyRuns>(&db)?,
            postings: RunSet::load::<PostingRuns>(&db)?,
            segments: loaded.segments_memory,
            throttle: WriteThrottle::default(),
            file: file.to_owned(),
            state,
            db,
        };
        Ok((index, active))
    }

    /// Opens the index for lookups.
    pub(crate) fn open_reader(file: &Path) -> Result<Connection, OpenError> {
        open_reader(file)
    }

    /// Opens the index for a recount; `None` if there is no index.
    pub(crate) fn open_for_recount(file: &Path) -> Result<Option<Connection>, OpenError> {
        if !file.exists() {
            return Ok(None);
        }
        let db = open_reader(file)?;
        check_format(&db, file, APPLICATION, FORMAT)?;
        Ok(Some(db))
    }

    /// Writes a chunk, and the last batch of the chunk with its checksum. No key up to batch `keyed` waits to be
    /// written.
    pub(crate) fn write(
        &mut self,
        chunk: &Chunk,
        (indexed, indexed_sum): (u64, u32),
        keyed: u64,
    ) -> rusqlite::Result<()> {
        let keyed = keyed.max(self.state.keyed);
        let mut state = IndexState { indexed, indexed_sum, keyed, ..self.state };
        fault!("index.begun" => injected_error());
        let write = self.db.transaction()?;
        let mut throttle = self.throttle.clone();
        write_items(&write, &chunk.items, &mut state.items, &mut throttle)?;
        delete_items(&write, &chunk.deleted_items, &mut state.items)?;
        write_pauses(&write, &chunk.pauses, &mut state.pauses, &mut throttle)?;
        units::write(&write, &chunk.units, &mut state.units, &mut throttle)?;
        records::write(&write, &chunk.records, &mut state.records, &mut throttle)?;
        let active = (&*chunk.opened, &*chunk.moved, &*chunk.ended);
        self.segments.write(&write, &mut state.active, indexed, active, &mut throttle)?;
        fault!("index.half_written" => injected_error());
        write_closed(&write, &chunk.closed, &mut state.closed, &mut throttle)?;
        write_state(&write, state)?;
        fault!("index.written" => injected_error());
        write.commit()?;
        fault!("index.committed" => injected_error());
        self.segments.committed();
        self.state = state;
        Ok(())
    }

    /// Writes a run of keys and a run of postings, and the batch up to which both are now complete.
    pub(crate) fn write_runs(
        &mut self,
        records: &mut [KeyRecord],
        postings: &[Posting],
        keyed: u64,
    ) -> rusqlite::Result<()> {
        let state = IndexState { keyed, ..self.state };
        let write = self.db.transaction()?;
        let keys = if records.is_empty() {
            None
        } else {
            Some(keys::write_run(&write, records, self.throttle.clone())?)
        };
        let postings = if postings.is_empty() {
            None
        } else {
            Some(postings::write_run(&write, postings, self.throttle.clone())?)
        };
        write_state(&write, state)?;
        fault!("runs.written" => injected_error());
        write.commit()?;
        fault!("runs.committed" => injected_error());
        self.keys.all.extend(keys);
        self.postings.all.extend(postings);
        self.state = state;
        Ok(())
    }

    /// Continues merging and retiring runs, in proportion to the records that were added. Returns whether the runs of
    /// keys have changed.
    pub(crate) fn compact(
        &mut self,
        retire_before: i64,
        may_merge: bool,
        (keys, postings): (usize, usize),
    ) -> rusqlite::Result<bool> {
        let throttle = self.throttle.clone();
        // Postings are kept as long as the log, which is never trimmed.
        fault!("runs.tending" => injected_error());
        self.postings.compact::<PostingRuns>(
            &mut self.db,
            i64::MIN,
            may_merge,
            postings,
            throttle.clone(),
            |_, _| Ok(()),
        )?;
        let mut state = self.state;
        let changed = self.keys.compact::<KeyRuns>(
            &mut self.db,
            retire_before,
            may_merge,
            keys,
            throttle,
            |write, newest| {
                let dropped_before = Instant::from_micros(newest.saturating_add(1));
                state.dropped_before = state.dropped_before.max(dropped_before);
                write_state(write, state)
            },
        )?;
        self.state = state;
        Ok(changed)
    }
}

/// Calls back for every item and every paused location, and checks that none is missing. Items come in the order of their keys,
/// and use interned keys.
pub(crate) fn load_items_and_pauses(
    db: &Connection,
    state: IndexState,
    keys: &dyn KnownKeys,
    item: impl FnMut(Item),
    pause: impl FnMut(&str),
) -> Result<(), IndexError> {
    check_totals("items", load_items(db, keys, item)?, state.items)?;
    check_totals("pauses", load_pauses(db, pause)?, state.pauses)
}

pub(crate) fn read_state(db: &Connection) -> Result<IndexState, IndexError> {
    let row: Option<(Vec<u8>, u32)> = db
        .prepare_cached("SELECT data, sum FROM state")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((data, sum)) = row else { return Ok(IndexState::default()) };
    if row_sum(b"state", &data) != sum {
        return Err(IndexError::Damaged("the checksum of its state does not fit".to_owned()));
    }
    let mut reader = Reader::new(&data);
    let mut next = || reader.u64();
    let mut state = IndexState { indexed: next()?, ..IndexState::default() };
    state.indexed_sum =
        u32::try_from(next()?).map_err(|_| IndexError::Damaged("its state is no state".to_owned()))?;
    state.keyed = next()?;
    state.dropped_before = Instant::from_micros(next()?.cast_signed());
    state.term_hash_key = reader.u128()?;
    let mut next = || reader.u64();
    let active = &mut state.active;
    for totals in [
        &mut state.items,
        &mut state.pauses,
        &mut state.closed,
        &mut state.units,
        &mut state.records,
        &mut active.segments,
        &mut active.ended,
    ] {
        *totals = TableTotals { rows: next()?, sums: next()? };
    }
    for number in [&mut active.last_segment, &mut active.last_ended, &mut active.live, &mut active.stored] {
        *number = next()?;
    }
    reader.finish()?;
    Ok(state)
}

fn write_state(db: &Connection, state: IndexState) -> rusqlite::Result<()> {
    let IndexState {
        indexed,
        indexed_sum,
        keyed,
        dropped_before,
        term_hash_key,
        items,
        pauses,
        closed,
        units,
        records,
        active,
    } = state;
    let mut data = Vec::new();
    for number in [indexed, u64::from(indexed_sum), keyed, dropped_before.micros().cast_unsigned()] {
        codec::put_u64(&mut data, number);
    }
    data.extend(term_hash_key.to_be_bytes());
    for TableTotals { rows, sums } in [items, pauses, closed, units, records, active.segments, active.ended] {
        codec::put_u64(&mut data, rows);
        codec::put_u64(&mut data, sums);
    }
    for number in [active.last_segment, active.last_ended, active.live, active.stored] {
        codec::put_u64(&mut data, number);
    }
    db.prepare_cached("INSERT OR REPLACE INTO state (one, data, sum) VALUES (1, ?1, ?2)")?
        .execute(params![data, row_sum(b"state", &data)])?;
    Ok(())
}

fn item_row_sum(location: &str, sku: &str, data: &[u8]) -> u32 {
    row_sum_of(&[location.as_bytes(), &[0], sku.as_bytes(), data])
}

fn write_items(
    db: &Connection,
    items: &[Item],
    totals: &mut TableTotals,
    throttle: &mut WriteThrottle,
) -> rusqlite::Result<()> {
    let mut find = db.prepare_cached("SELECT sum FROM items WHERE location = ?1 AND sku = ?2")?;
    let mut put =
        db.prepare_cached("INSERT OR REPLACE INTO items (location, sku, data, sum) VALUES (?1, ?2, ?3, ?4)")?;
    let mut data = Vec::new();
    for item in items {
        let (location, sku) = (item.key.location(), item.key.sku());
        data.clear();
        codec::put_item(&mut data, item);
        let sum = item_row_sum(location, sku, &data);
        let before = find.query_row([location, sku], |row| row.get(0)).optional()?;
        put.execute(params![location, sku, data, sum])?;
        totals.replace(before, Some(sum));
        throttle.yield_point()?;
    }
    Ok(())
}

fn delete_items(db: &Connection, items: &[ItemKey], totals: &mut TableTotals) -> rusqlite::Result<()> {
    let mut delete = db.prepare_cached("DELETE FROM items WHERE location = ?1 AND sku = ?2 RETURNING sum")?;
    for key in items {
        let before = delete.query_row([key.location(), key.sku()], |row| row.get(0)).optional()?;
        totals.replace(before, None);
    }
    Ok(())
}

fn load_items(
    db: &Connection,
    keys: &dyn KnownKeys,
    mut each: impl FnMut(Item),
) -> Result<TableTotals, IndexError> {
    let mut totals = TableTotals::default();
    let mut settings = Arc::<Settings>::default();
    let mut statement = db.prepare("SELECT location, sku, data, sum FROM items ORDER BY location, sku")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let text = |column| {
            let found = row.get_ref(column)?.as_str();
            found.map_err(|error| IndexError::Damaged(format!("the name of an item is not text: {error}")))
        };
        let (location, sku, sum) = (text(0)?, text(1)?, row.get(3)?);
        let data = row.get_ref(2)?.as_blob().unwrap_or_default();
        if item_row_sum(location, sku, data) != sum {
            return Err(IndexError::Damaged(format!(
                "the checksum of item {sku:?} at {location:?} does not fit"
            )));
        }
        let mut reader = Reader::sharing(data, keys);
        let mut item = codec::item(&mut reader)?;
        reader.finish()?;
        // Neighbours often have the same settings, and then share them.
        if item.settings == settings {
            item.settings = Arc::clone(&settings);
        } else {
            settings = Arc::clone(&item.settings);
        }
        each(item);
        totals.replace(None, Some(sum));
    }
    Ok(totals)
}

fn write_pauses(
    db: &Connection,
    pauses: &[(String, bool)],
    totals: &mut TableTotals,
    throttle: &mut WriteThrottle,
) -> rusqlite::Result<()> {
    for (scope, paused) in pauses {
        throttle.yield_point()?;
        let before = db
            .query_row("DELETE FROM pauses WHERE scope = ?1 RETURNING sum", [scope], |row| row.get(0))
            .optional()?;
        totals.replace(before, None);
        if *paused {
            let sum = row_sum(scope.as_bytes(), &[]);
            db.execute("INSERT INTO pauses (scope, sum) VALUES (?1, ?2)", params![scope, sum])?;
            totals.replace(None, Some(sum));
        }
    }
    Ok(())
}

fn load_pauses(db: &Connection, mut each: impl FnMut(&str)) -> Result<TableTotals, IndexError> {
    let mut totals = TableTotals::default();
    let mut statement = db.prepare("SELECT scope, sum FROM pauses")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (scope, sum): (String, u32) = (row.get(0)?, row.get(1)?);
        if row_sum(scope.as_bytes(), &[]) != sum {
            return Err(IndexError::Damaged(format!("the checksum of pause {scope:?} does not fit")));
        }
        each(&scope);
        totals.replace(None, Some(sum));
    }
    Ok(totals)
}

fn write_closed(
    db: &Connection,
    holds: &[Hold],
    totals: &mut TableTotals,
    throttle: &mut WriteThrottle,
) -> rusqlite::Result<()> {
    let data = &mut Vec::new();
    let mut find = db.prepare_cached("SELECT sum FROM closed WHERE id = ?1")?;
    let mut add = db.prepare_cached("INSERT INTO closed (id, data, sum) VALUES (?1, ?2, ?3)")?;
    let mut replace = db.prepare_cached("UPDATE closed SET data = ?2, sum = ?3 WHERE id = ?1")?;
    for hold in holds {
        let id = hold.id.as_u128().to_be_bytes();
        data.clear();
        codec::put_hold(data, hold);
        let sum = row_sum(&id, data);
        // A closed reservation changes only by a fulfilment, a return or a replacement. If another change ever occurred, the insert
        // would fail and the totals would not count the reservation twice.
        let moved = hold.lines.iter().any(|line| line.returned > 0 || line.fulfilled > 0);
        let may_be_there = moved || hold.details().replaced_by.is_some();
        let before = if may_be_there { find.query_row([id], |row| row.get(0)).optional()? } else { None };
        let put = if before.is_some() { &mut replace } else { &mut add };
        put.execute(params![id, &*data, sum])?;
        totals.replace(before, Some(sum));
        throttle.yield_point()?;
    }
    Ok(())
}

/// Calls back for every closed reservation after checking its row.
pub(crate) fn load_closed(db: &Connection, mut each: impl FnMut(Hold)) -> Result<TableTotals, IndexError> {
    let mut totals = TableTotals::default();
    let mut statement = db.prepare("SELECT id, data, sum FROM closed")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let sum = row.get(2)?;
        each(decode_hold(row.get(0)?, row.get_ref(1)?.as_blob().unwrap_or_default(), sum)?);
        totals.replace(None, Some(sum));
    }
    Ok(totals)
}

pub(crate) fn decode_hold(id: [u8; 16], data: &[u8], sum: u32) -> Result<Hold, IndexError> {
    if row_sum(&id, data) != sum {
        let id = ReservationId::from_u128(u128::from_be_bytes(id));
        return Err(IndexError::Damaged(format!("the checksum of reservation {id} does not fit")));
    }
    let mut reader = Reader::new(data);
    let hold = codec::hold(&mut reader)?;
    reader.finish()?;
    Ok(hold)
}

/// Finds a closed reservation. Also returns the batch up to which the index was complete.
pub(crate) fn find_closed_hold(
    db: &Connection,
    id: ReservationId,
) -> Result<(Option<Hold>, u64), IndexError> {
    let read = db.unchecked_transaction()?;
    let as_of = read_state(&read)?.indexed;
    let key = id.as_u128().to_be_bytes();
    let row: Option<(Vec<u8>, u32)> = read
        .prepare_cached("SELECT data, sum FROM closed WHERE id = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match row {
        Some((data, sum)) => Ok((Some(decode_hold(key, &data, sum)?), as_of)),
        None => {
            let around = [
                "SELECT id, data, sum FROM closed WHERE id < ?1 ORDER BY id DESC LIMIT 1",
                "SELECT id, data, sum FROM closed WHERE id > ?1 ORDER BY id LIMIT 1",
            ];
            check_neighbours(&read, &around, &[&key])?;
            Ok((None, as_of))
        }
    }
}

/// Finds a used key. Also returns the batch up to which the index was complete.
pub(crate) fn find_key(db: &Connection, hash: KeyHash) -> Result<(Option<KeyRecord>, u64), IndexError> {
    let read = db.unchecked_transaction()?;
    let as_of = read_state(&read)?.keyed;
    Ok((keys::find(&read, hash)?, as_of))
}
