//! `index.db`, which is derived from the log up to a stored batch. Only the indexer writes it, after the commit. A
//! start reads it, and so do readers that look for closed reservations and used keys. Every row has a checksum. The
//! state row has the number and the sum of the rows that a start depends on, so that a missing row is detected too.

mod as_of;
pub(crate) mod backlog;
pub(crate) mod checksum;
pub(crate) mod chunk;
pub(crate) mod closed;
pub(crate) mod due_payments;
pub(crate) mod filter;
pub(crate) mod item_key_interner;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod pauses;
pub(crate) mod postings;
pub(crate) mod records;
pub(crate) mod runs;
pub(crate) mod segments;
pub(crate) mod throttle;
pub(crate) mod units;

pub(crate) use self::as_of::AsOf;

use self::checksum::{TableTotals, check_totals, row_sum, row_sum_of};
use self::chunk::Chunk;
use self::item_key_interner::ItemKeyInterner;
use self::keys::KeyRuns;
use self::limits::LimitTotals;
use self::postings::{Posting, PostingRuns};
use self::runs::{RetiredRuns, Run, RunKind, RunMerge};
use self::segments::{SegmentTotals, Segments};
use self::throttle::WriteThrottle;
use crate::error::IndexError;
use crate::error::OpenError;
#[cfg(debug_assertions)]
use crate::log::injected_error;
use crate::log::{check_format, open_reader, open_sqlite};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
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
    /// The batch up to which the index has let go of what was archived.
    pub(crate) archived: u64,
    /// The longest retention of keys that a server promised, in microseconds. Nothing younger may be archived.
    pub(crate) key_retention_micros: u64,
    /// The key of the hashes of terms.
    pub(crate) term_hash_key: u128,
    pub(crate) items: TableTotals,
    pub(crate) pauses: TableTotals,
    pub(crate) closed: TableTotals,
    pub(crate) units: TableTotals,
    pub(crate) records: TableTotals,
    pub(crate) limits: LimitTotals,
    pub(crate) due_payments: TableTotals,
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
            limits::SCHEMA,
            due_payments::SCHEMA,
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
    pub(crate) fn write(&mut self, chunk: &Chunk, reached: (u64, u32), keyed: u64) -> rusqlite::Result<()> {
        self.write_with(chunk, reached, keyed, |_| Ok(()))
    }

    /// Like [`Index::write`], and `more` writes other tables in the same transaction.
    pub(crate) fn write_with(
        &mut self,
        chunk: &Chunk,
        (indexed, indexed_sum): (u64, u32),
        keyed: u64,
        more: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let keyed = keyed.max(self.state.keyed);
        let mut state = IndexState { indexed, indexed_sum, keyed, ..self.state };
        fault!("index.begun" => injected_error());
        let write = self.db.transaction()?;
        let mut throttle = self.throttle.clone();
        write_items(&write, &chunk.items, &mut state.items, &mut throttle)?;
        delete_items(&write, &chunk.deleted_items, &mut state.items)?;
        pauses::write(&write, &chunk.pauses, &mut state.pauses, &mut throttle)?;
        units::write(&write, &chunk.units, &mut state.units, &mut throttle)?;
        records::write(&write, &chunk.records, &mut state.records, &mut throttle)?;
        limits::write(&write, &chunk.limits, &mut state.limits, &mut throttle)?;
        due_payments::write(&write, &chunk.due_payments, &mut state.due_payments, &mut throttle)?;
        let active = (&*chunk.opened, &*chunk.moved, &*chunk.ended);
        self.segments.write(&write, &mut state.active, indexed, active, &mut throttle)?;
        fault!("index.half_written" => injected_error());
        closed::write(&write, &chunk.closed, &mut state.closed, &mut throttle)?;
        closed::delete(&write, &chunk.archived, &mut state.closed, &mut throttle)?;
        write_state(&write, state)?;
        more(&write)?;
        fault!("index.written" => injected_error());
        write.commit()?;
        fault!("index.committed" => injected_error());
        self.segments.committed();
        self.state = state;
        Ok(())
    }

    /// Notes the retention of keys that a server promises. It is written with the next change.
    pub(crate) fn promise_key_retention(&mut self, retention: Duration) {
        let micros = u64::try_from(retention.as_micros()).unwrap_or(u64::MAX);
        self.state.key_retention_micros = self.state.key_retention_micros.max(micros);
    }

    /// The longest retention of keys that a server has promised.
    pub(crate) fn promised_key_retention(&self) -> Duration {
        Duration::from_micros(self.state.key_retention_micros)
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
            Some(postings::write_run(&write, postings, keyed, self.throttle.clone())?)
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

    /// Deletes some of the closed reservations that [`Index::forget_archived`] lets go of, in a transaction of its own.
    pub(crate) fn delete_closed(&mut self, closed: &[ReservationId]) -> rusqlite::Result<()> {
        self.delete_and_set(closed, self.state)
    }

    /// Lets go of these closed reservations, and of keys that were used before `dropped_before`. They were archived with the
    /// batches up to `archived`.
    pub(crate) fn forget_archived(
        &mut self,
        closed: &[ReservationId],
        archived: u64,
        dropped_before: Instant,
    ) -> rusqlite::Result<()> {
        let dropped_before = dropped_before.max(self.state.dropped_before);
        self.delete_and_set(closed, IndexState { dropped_before, archived, ..self.state })
    }

    /// Deletes closed reservations and writes the state, with the counters after that, in one transaction.
    fn delete_and_set(&mut self, closed: &[ReservationId], mut state: IndexState) -> rusqlite::Result<()> {
        let write = self.db.transaction()?;
        closed::delete(&write, closed, &mut state.closed, &mut self.throttle.clone())?;
        write_state(&write, state)?;
        write.commit()?;
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
        // Postings are kept as long as their batches.
        let archived = self.state.archived.cast_signed();
        fault!("runs.tending" => injected_error());
        self.postings.compact::<PostingRuns>(
            &mut self.db,
            archived,
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
    check_totals("pauses", pauses::load(db, pause)?, state.pauses)
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
    state.archived = next()?;
    state.key_retention_micros = next()?;
    state.term_hash_key = reader.u128()?;
    let mut next = || reader.u64();
    let active = &mut state.active;
    for totals in [
        &mut state.items,
        &mut state.pauses,
        &mut state.closed,
        &mut state.units,
        &mut state.records,
        &mut state.limits.limits,
        &mut state.limits.counters,
        &mut state.due_payments,
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
        archived,
        key_retention_micros,
        term_hash_key,
        items,
        pauses,
        closed,
        units,
        records,
        limits,
        due_payments,
        active,
    } = state;
    let mut data = Vec::new();
    let dropped_before = dropped_before.micros().cast_unsigned();
    for number in [indexed, u64::from(indexed_sum), keyed, dropped_before, archived, key_retention_micros] {
        codec::put_u64(&mut data, number);
    }
    data.extend(term_hash_key.to_be_bytes());
    for TableTotals { rows, sums } in [
        items,
        pauses,
        closed,
        units,
        records,
        limits.limits,
        limits.counters,
        due_payments,
        active.segments,
        active.ended,
    ] {
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

/// Finds an item.
pub(crate) fn find_item(db: &Connection, key: &ItemKey) -> Result<Option<Item>, IndexError> {
    let (location, sku) = (key.location(), key.sku());
    let row: Option<(Vec<u8>, u32)> = db
        .prepare_cached("SELECT data, sum FROM items WHERE location = ?1 AND sku = ?2")?
        .query_row([location, sku], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((data, sum)) = row else { return Ok(None) };
    if item_row_sum(location, sku, &data) != sum {
        return Err(IndexError::Damaged(format!(
            "the checksum of item {sku:?} at {location:?} does not fit"
        )));
    }
    let mut reader = Reader::new(&data);
    let item = codec::item(&mut reader)?;
    reader.finish()?;
    Ok(Some(item))
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

/// Finds a used key. Also returns the state of the index.
pub(crate) fn find_key(db: &Connection, hash: KeyHash) -> Result<(Option<KeyRecord>, AsOf), IndexError> {
    let read = db.unchecked_transaction()?;
    let state = read_state(&read)?;
    let record = keys::find(&read, hash)?;
    // The reservation of a key that was archived may be gone.
    let as_of = AsOf { complete: state.keyed, archived: state.archived };
    Ok((record.filter(|record| state.archived == 0 || record.at >= state.dropped_before), as_of))
}
