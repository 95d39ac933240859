//! `index.db`: what the log comes to, up to a stored batch. Written by the indexer alone, behind the commit; read at a
//! start and by readers that look for closed reservations and used keys. Every row carries a checksum, and the number
//! and sum of the rows a start depends on stand in the state row, so that a row that vanished is found too.

use crate::error::OpenError;
use crate::keys::{self, Merging, Run};
use crate::log::{open_reader, open_sqlite};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use std::fmt;
use std::path::{Path, PathBuf};
use stockhold_domain::{Hold, Item, KeyHash, KeyRecord, ReservationId};
use stockhold_store::codec::{self, DecodeError, Reader};

const FORMAT: i64 = 1;
/// Marks the file as ours: "SHIX".
const APPLICATION: i64 = 0x5348_4958;

const SCHEMA: &str = "
    CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), data BLOB NOT NULL, sum INTEGER NOT NULL) STRICT;
    CREATE TABLE items (
        location TEXT NOT NULL, sku TEXT NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL,
        PRIMARY KEY (location, sku)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE pauses (scope TEXT PRIMARY KEY, sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE active (id BLOB PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE closed (id BLOB PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

/// How everything is called among the paused locations, none of which can have an empty name.
pub(crate) const EVERYTHING: &str = "";

/// What is wrong with the index, or with reading it.
#[derive(Debug)]
pub(crate) enum Damage {
    /// A row is not what was written.
    What(String),
    /// SQLite says so.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Damage {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<DecodeError> for Damage {
    fn from(error: DecodeError) -> Self {
        Self::What(error.to_string())
    }
}

/// Where something is read in order to be written on, a row that is not what was written is a value that can't be read.
impl From<Damage> for rusqlite::Error {
    fn from(damage: Damage) -> Self {
        match damage {
            Damage::Sqlite(error) => error,
            Damage::What(what) => Self::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, what.into()),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::What(what) => f.write_str(what),
            Self::Sqlite(error) => error.fmt(f),
        }
    }
}

impl Damage {
    pub(crate) fn into_open(self, file: &Path) -> OpenError {
        let advice = "it can be made anew from the log: move index.db, index.db-wal and index.db-shm away and start again";
        let what = match self {
            Self::What(what) => format!("{what}; {advice}"),
            Self::Sqlite(error) => match OpenError::sqlite(file, "reading", error) {
                OpenError::Damaged { what, .. } => format!("{what}; {advice}"),
                other => return other,
            },
        };
        OpenError::Damaged { file: file.to_owned(), what }
    }
}

/// Rows that are written before another thread may go first.
const STRIDE: u32 = 16;

/// How the index is written: in small steps, since whoever wants the core meanwhile is a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Too much waits for the index: it goes first now.
    pub(crate) hurried: bool,
    rows: u32,
}

impl Pace {
    pub(crate) fn row(&mut self) {
        self.rows += 1;
        if self.rows >= STRIDE && !self.hurried {
            self.rows = 0;
            std::thread::yield_now();
        }
    }
}

/// How many rows a table has, and the sum of their checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) rows: u64,
    pub(crate) sums: u64,
}

impl Totals {
    fn put(&mut self, before: Option<u32>, after: Option<u32>) {
        if let Some(sum) = before {
            self.rows = self.rows.wrapping_sub(1);
            self.sums = self.sums.wrapping_sub(u64::from(sum));
        }
        if let Some(sum) = after {
            self.rows = self.rows.wrapping_add(1);
            self.sums = self.sums.wrapping_add(u64::from(sum));
        }
    }
}

/// The state row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Batch up to which items and reservations are indexed, and its checksum in the log.
    pub(crate) indexed: u64,
    pub(crate) indexed_sum: u32,
    /// Batch up to which keys are indexed.
    pub(crate) keyed: u64,
    pub(crate) items: Totals,
    pub(crate) pauses: Totals,
    pub(crate) active: Totals,
    pub(crate) closed: Totals,
}

/// What changed over some batches, folded.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) items: Vec<Item>,
    pub(crate) pauses: Vec<(String, bool)>,
    /// Active reservations that the index does not have.
    pub(crate) opened: Vec<Hold>,
    /// Active reservations that it has, changed.
    pub(crate) moved: Vec<Hold>,
    /// Reservations that it has as active and that are not any more.
    pub(crate) ended: Vec<ReservationId>,
    /// Closed reservations, as they are now.
    pub(crate) closed: Vec<Hold>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) db: Connection,
    pub(crate) file: PathBuf,
    pub(crate) position: Position,
    pub(crate) runs: Vec<Run>,
    pub(crate) pace: Pace,
    merging: Option<Merging>,
}

impl Index {
    /// Opens the index for writing, making an empty one where there is none.
    pub(crate) fn open(file: &Path) -> Result<Self, OpenError> {
        let schema = format!("{SCHEMA}{}", keys::SCHEMA);
        // What a power cut takes away is made again from the log.
        let db = open_sqlite(file, APPLICATION, FORMAT, &schema, "NORMAL")?;
        let position = read_position(&db).map_err(|damage| damage.into_open(file))?;
        let runs = keys::load(&db).map_err(|damage| damage.into_open(file))?;
        Ok(Self { db, file: file.to_owned(), position, runs, merging: None, pace: Pace::default() })
    }

    /// Opens the index for looking things up.
    pub(crate) fn open_reader(file: &Path) -> Result<Connection, OpenError> {
        open_reader(file)
    }

    /// Takes a chunk in, and with it the batch that it leads to and its checksum. Up to `keyed` no key waits.
    pub(crate) fn write(
        &mut self,
        chunk: &Chunk,
        (indexed, indexed_sum): (u64, u32),
        keyed: u64,
    ) -> rusqlite::Result<()> {
        let keyed = keyed.max(self.position.keyed);
        let mut position = Position { indexed, indexed_sum, keyed, ..self.position };
        let write = self.db.transaction()?;
        write_items(&write, &chunk.items, &mut position.items)?;
        write_pauses(&write, &chunk.pauses, &mut position.pauses)?;
        let mut pace = self.pace;
        let mut delete = write.prepare_cached("DELETE FROM active WHERE id = ?1 RETURNING sum")?;
        for id in &chunk.ended {
            let before = delete.query_row([id.as_u128().to_be_bytes()], |row| row.get(0)).optional()?;
            position.active.put(before, None);
            pace.row();
        }
        drop(delete);
        write_holds(&write, "active", &chunk.opened, false, &mut position.active, &mut pace)?;
        write_holds(&write, "active", &chunk.moved, true, &mut position.active, &mut pace)?;
        write_holds(&write, "closed", &chunk.closed, true, &mut position.closed, &mut pace)?;
        write_position(&write, position)?;
        write.commit()?;
        self.position = position;
        Ok(())
    }

    /// Writes a run of keys, and with it the batch that keys are now indexed up to.
    pub(crate) fn write_keys(&mut self, records: &mut [KeyRecord], keyed: u64) -> rusqlite::Result<()> {
        let position = Position { keyed, ..self.position };
        let write = self.db.transaction()?;
        let run = if records.is_empty() { None } else { Some(keys::write_run(&write, records, self.pace)?) };
        write_position(&write, position)?;
        write.commit()?;
        self.runs.extend(run);
        self.position = position;
        Ok(())
    }

    /// Goes on with merging and retiring runs of keys: with a few for each of `fresh` that came since. Answers whether
    /// the runs are others now.
    pub(crate) fn tend_keys(
        &mut self,
        retire_before: i64,
        may_merge: bool,
        fresh: usize,
    ) -> rusqlite::Result<bool> {
        // After an error there is nothing to go on with: what was merged so far is deleted as a retired run.
        let mut merging = self.merging.take();
        let write = self.db.transaction()?;
        let merged =
            if may_merge { keys::merge(&write, &self.runs, &mut merging, fresh, self.pace)? } else { None };
        let old = keys::retire(&write, &self.runs, merging.as_ref(), retire_before, fresh)?;
        write.commit()?;
        self.merging = merging;
        let changed = merged.is_some() || !old.is_empty();
        let gone = |run: &Run| {
            old.contains(&run.number) || merged.as_ref().is_some_and(|m| m.1.contains(&run.number))
        };
        self.runs.retain(|run| !gone(run));
        self.runs.extend(merged.map(|(run, _)| run));
        Ok(changed)
    }
}

/// Calls back for every item, paused location and active reservation, and checks that none is missing.
pub(crate) fn load(
    db: &Connection,
    position: Position,
    item: impl FnMut(Item),
    pause: impl FnMut(&str),
    active: impl FnMut(Hold),
) -> Result<(), Damage> {
    expect("items", load_items(db, item)?, position.items)?;
    expect("pauses", load_pauses(db, pause)?, position.pauses)?;
    expect("active reservations", load_holds(db, "active", active)?, position.active)
}

/// The checksum of a row: its key and its data.
pub(crate) fn row_sum(key: &[u8], data: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(data);
    hasher.finalize()
}

fn expect(what: &str, found: Totals, expected: Totals) -> Result<(), Damage> {
    if found == expected {
        return Ok(());
    }
    Err(Damage::What(format!("it has {} {what} where {} were written, or others", found.rows, expected.rows)))
}

pub(crate) fn read_position(db: &Connection) -> Result<Position, Damage> {
    let row: Option<(Vec<u8>, u32)> = db
        .prepare_cached("SELECT data, sum FROM state")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((data, sum)) = row else { return Ok(Position::default()) };
    if row_sum(b"state", &data) != sum {
        return Err(Damage::What("the checksum of its state does not fit".to_owned()));
    }
    let mut reader = Reader::new(&data);
    let mut next = || reader.u64();
    let mut position = Position { indexed: next()?, ..Position::default() };
    position.indexed_sum =
        u32::try_from(next()?).map_err(|_| Damage::What("its state is no state".to_owned()))?;
    position.keyed = next()?;
    for totals in [&mut position.items, &mut position.pauses, &mut position.active, &mut position.closed] {
        *totals = Totals { rows: next()?, sums: next()? };
    }
    reader.finish()?;
    Ok(position)
}

fn write_position(db: &Connection, position: Position) -> rusqlite::Result<()> {
    let Position { indexed, indexed_sum, keyed, items, pauses, active, closed } = position;
    let mut data = Vec::new();
    for number in [indexed, u64::from(indexed_sum), keyed] {
        codec::put_u64(&mut data, number);
    }
    for Totals { rows, sums } in [items, pauses, active, closed] {
        codec::put_u64(&mut data, rows);
        codec::put_u64(&mut data, sums);
    }
    db.prepare_cached("INSERT OR REPLACE INTO state (one, data, sum) VALUES (1, ?1, ?2)")?
        .execute(params![data, row_sum(b"state", &data)])?;
    Ok(())
}

fn item_row_key(location: &str, sku: &str) -> Vec<u8> {
    [location.as_bytes(), &[0], sku.as_bytes()].concat()
}

fn write_items(db: &Connection, items: &[Item], totals: &mut Totals) -> rusqlite::Result<()> {
    let mut find = db.prepare_cached("SELECT sum FROM items WHERE location = ?1 AND sku = ?2")?;
    let mut put =
        db.prepare_cached("INSERT OR REPLACE INTO items (location, sku, data, sum) VALUES (?1, ?2, ?3, ?4)")?;
    let mut data = Vec::new();
    for item in items {
        let (location, sku) = (item.key.location(), item.key.sku());
        data.clear();
        codec::put_item(&mut data, item);
        let sum = row_sum(&item_row_key(location, sku), &data);
        let before = find.query_row([location, sku], |row| row.get(0)).optional()?;
        put.execute(params![location, sku, data, sum])?;
        totals.put(before, Some(sum));
    }
    Ok(())
}

fn load_items(db: &Connection, mut each: impl FnMut(Item)) -> Result<Totals, Damage> {
    let mut totals = Totals::default();
    let mut statement = db.prepare("SELECT location, sku, data, sum FROM items")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (location, sku, data, sum): (String, String, Vec<u8>, u32) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        if row_sum(&item_row_key(&location, &sku), &data) != sum {
            return Err(Damage::What(format!("the checksum of item {sku:?} at {location:?} does not fit")));
        }
        let mut reader = Reader::new(&data);
        each(codec::item(&mut reader)?);
        reader.finish()?;
        totals.put(None, Some(sum));
    }
    Ok(totals)
}

fn write_pauses(db: &Connection, pauses: &[(String, bool)], totals: &mut Totals) -> rusqlite::Result<()> {
    for (scope, paused) in pauses {
        let before = db
            .query_row("DELETE FROM pauses WHERE scope = ?1 RETURNING sum", [scope], |row| row.get(0))
            .optional()?;
        totals.put(before, None);
        if *paused {
            let sum = row_sum(scope.as_bytes(), &[]);
            db.execute("INSERT INTO pauses (scope, sum) VALUES (?1, ?2)", params![scope, sum])?;
            totals.put(None, Some(sum));
        }
    }
    Ok(())
}

fn load_pauses(db: &Connection, mut each: impl FnMut(&str)) -> Result<Totals, Damage> {
    let mut totals = Totals::default();
    let mut statement = db.prepare("SELECT scope, sum FROM pauses")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (scope, sum): (String, u32) = (row.get(0)?, row.get(1)?);
        if row_sum(scope.as_bytes(), &[]) != sum {
            return Err(Damage::What(format!("the checksum of pause {scope:?} does not fit")));
        }
        each(&scope);
        totals.put(None, Some(sum));
    }
    Ok(totals)
}

fn write_holds(
    db: &Connection,
    table: &str,
    holds: &[Hold],
    may_exist: bool,
    totals: &mut Totals,
    pace: &mut Pace,
) -> rusqlite::Result<()> {
    let data = &mut Vec::new();
    let mut find = db.prepare_cached(&format!("SELECT sum FROM {table} WHERE id = ?1"))?;
    let mut put =
        db.prepare_cached(&format!("INSERT OR REPLACE INTO {table} (id, data, sum) VALUES (?1, ?2, ?3)"))?;
    for hold in holds {
        let id = hold.id.as_u128().to_be_bytes();
        data.clear();
        codec::put_hold(data, hold);
        let sum = row_sum(&id, data);
        let before = if may_exist { find.query_row([id], |row| row.get(0)).optional()? } else { None };
        put.execute(params![id, &*data, sum])?;
        totals.put(before, Some(sum));
        pace.row();
    }
    Ok(())
}

/// Calls back for every hold of a table (`active` or `closed`), each checked.
pub(crate) fn load_holds(db: &Connection, table: &str, mut each: impl FnMut(Hold)) -> Result<Totals, Damage> {
    let mut totals = Totals::default();
    let mut statement = db.prepare(&format!("SELECT id, data, sum FROM {table}"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let sum = row.get(2)?;
        each(decode_hold(row.get(0)?, row.get_ref(1)?.as_blob().unwrap_or_default(), sum)?);
        totals.put(None, Some(sum));
    }
    Ok(totals)
}

fn decode_hold(id: [u8; 16], data: &[u8], sum: u32) -> Result<Hold, Damage> {
    if row_sum(&id, data) != sum {
        let id = ReservationId::from_u128(u128::from_be_bytes(id));
        return Err(Damage::What(format!("the checksum of reservation {id} does not fit")));
    }
    let mut reader = Reader::new(data);
    let hold = codec::hold(&mut reader)?;
    reader.finish()?;
    Ok(hold)
}

/// Finds a closed reservation; with it the batch that the index knew up to.
pub(crate) fn find_closed(db: &Connection, id: ReservationId) -> Result<(Option<Hold>, u64), Damage> {
    let read = db.unchecked_transaction()?;
    let as_of = read_position(&read)?.indexed;
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
            check_around(&read, &around, &[&key])?;
            Ok((None, as_of))
        }
    }
}

/// Before a row is said not to exist: checks the rows on both sides of where it would stand. A row whose key has changed
/// is not found by it, and stands there.
pub(crate) fn check_around(db: &Connection, queries: &[&str], place: &[&dyn ToSql]) -> Result<(), Damage> {
    for query in queries {
        let row = db
            .prepare_cached(query)?
            .query_row(place, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        if let Some((key, data, sum)) = row {
            let (key, data): (Vec<u8>, Vec<u8>) = (key, data);
            if row_sum(&key, &data) != sum {
                return Err(Damage::What(
                    "the checksum of a row beside the one looked for does not fit".to_owned(),
                ));
            }
        }
    }
    Ok(())
}

/// Finds a used key; with it the batch that the index knew up to.
pub(crate) fn find_key(db: &Connection, hash: KeyHash) -> Result<(Option<KeyRecord>, u64), Damage> {
    let read = db.unchecked_transaction()?;
    let as_of = read_position(&read)?.keyed;
    Ok((keys::find(&read, hash)?, as_of))
}
