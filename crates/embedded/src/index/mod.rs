//! `index.db`: what the log comes to, up to a stored batch. Written by the indexer alone, behind the commit; read at a
//! start and by readers that look for closed reservations and used keys. Every row carries a checksum, and the number
//! and sum of the rows a start depends on stand in the state row, so that a row that vanished is found too.

pub(crate) mod backlog;
pub(crate) mod checksum;
pub(crate) mod chunk;
pub(crate) mod filter;
pub(crate) mod item_keys;
pub(crate) mod keys;
pub(crate) mod postings;
pub(crate) mod runs;
pub(crate) mod segments;
pub(crate) mod throttle;
pub(crate) mod units;

use self::checksum::{Totals, expect, row_sum};
use self::chunk::Chunk;
use self::item_keys::SharedKeys;
use self::keys::Keys;
use self::postings::{Mention, Mentions};
use self::runs::{Kind, Merging, Retired, Run};
use self::segments::{Segments, Standing};
use self::throttle::Pace;
use crate::error::Damage;
use crate::error::OpenError;
#[cfg(feature = "faults")]
use crate::log::failing_disk;
use crate::log::{check_format, open_reader, open_sqlite};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use std::path::{Path, PathBuf};
use stockhold_domain::bug;
use stockhold_domain::{Hold, Instant, Item, KeyHash, KeyRecord, ReservationId};
use stockhold_store::codec::{self, Reader};
use stockhold_store::fault;
use stockhold_store::ids::IdSource;

const FORMAT: i64 = 5;
/// Bytes of a page of a new index; one that is there keeps its pages. Each is two calls to write and two to copy, so long rows want
/// large ones. Rows of items stand apart where many sell evenly: each then writes a page of its own.
const PAGE: u32 = 16 << 10;
/// Marks the file as ours: "SHIX".
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

/// How everything is called among the paused locations, none of which can have an empty name.
pub(crate) const EVERYTHING: &str = "";

/// The state row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Batch up to which items and reservations are indexed, and its checksum in the log.
    pub(crate) indexed: u64,
    pub(crate) indexed_sum: u32,
    /// Batch up to which keys and mentions are indexed.
    pub(crate) keyed: u64,
    /// Keys that were used before this may be gone: nobody was promised that they stay.
    pub(crate) forgotten: Instant,
    /// What the terms of mentions are made with.
    pub(crate) terms_key: u128,
    pub(crate) items: Totals,
    pub(crate) pauses: Totals,
    pub(crate) closed: Totals,
    pub(crate) units: Totals,
    pub(crate) active: Standing,
}

/// The runs of one kind, and the merge that is under way among them.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    pub(crate) all: Vec<Run>,
    merging: Option<Merging>,
}

impl Runs {
    fn load<K: Kind>(db: &Connection) -> Result<Self, Damage> {
        Ok(Self { all: runs::load::<K>(db)?, merging: None })
    }

    /// Goes on with merging and retiring: with a few records for each of `fresh` that came since. `retired` is told of
    /// the newest record that goes, in the same transaction. Answers whether the runs are others now.
    fn tend<K: Kind>(
        &mut self,
        db: &mut Connection,
        retire_before: i64,
        may_merge: bool,
        fresh: usize,
        pace: Pace,
        retired: impl FnOnce(&Connection, i64) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<bool> {
        let begun = self.merging.as_ref().map(Merging::done);
        let mut merging = self.merging.take();
        let all = &self.all;
        let tend = || {
            let write = db.transaction()?;
            let merged =
                if may_merge { runs::merge::<K>(&write, all, &mut merging, fresh, pace)? } else { None };
            let Retired { runs: old, newest } =
                runs::retire::<K>(&write, all, merging.as_ref(), retire_before, fresh)?;
            if let Some(newest) = newest {
                retired(&write, newest)?;
            }
            write.commit()?;
            Ok::<_, rusqlite::Error>((merged, old))
        };
        let (merged, old) = match tend() {
            Ok(tended) => tended,
            Err(error) => {
                // It goes on where it stood. Of one that was begun or ended just now nothing is left but what is deleted as a
                // retired run.
                self.merging = merging.zip(begun).map(|(merging, done)| merging.back_to(done));
                return Err(error);
            }
        };
        self.merging = merging;
        let changed = merged.is_some() || !old.is_empty();
        let gone = |run: &Run| {
            old.contains(&run.number) || merged.as_ref().is_some_and(|m| m.1.contains(&run.number))
        };
        self.all.retain(|run| !gone(run));
        self.all.extend(merged.map(|(run, _)| run));
        Ok(changed)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) db: Connection,
    pub(crate) file: PathBuf,
    pub(crate) position: Position,
    pub(crate) keys: Runs,
    mentions: Runs,
    segments: Segments,
    pub(crate) pace: Pace,
}

impl Index {
    /// Opens the index for writing, making an empty one where there is none. Answers with the active reservations too, whose
    /// lines have their keys from among those given.
    pub(crate) fn open(file: &Path, keys: &SharedKeys) -> Result<(Self, Vec<Hold>), OpenError> {
        let schema =
            [SCHEMA, segments::SCHEMA, units::SCHEMA, &runs::schema::<Keys>(), &runs::schema::<Mentions>()]
                .concat();
        // What a power cut takes away is made again from the log.
        let open = || open_sqlite(file, PAGE, (APPLICATION, FORMAT), &schema, "NORMAL");
        let db = match open() {
            Err(OpenError::Older { found, .. }) => {
                tracing::info!(
                    found,
                    known = FORMAT,
                    "the index has an older format and is made anew from the log"
                );
                remove(file).map_err(|error| OpenError::io(format!("removing {}", file.display()), error))?;
                open()?
            }
            opened => opened?,
        };
        Self::read(db, file, keys).map_err(|damage| damage.into_open(file))
    }

    fn read(db: Connection, file: &Path, keys: &SharedKeys) -> Result<(Self, Vec<Hold>), Damage> {
        let mut position = read_position(&db)?;
        if position == Position::default() {
            // A new index: the first write keeps it.
            position.terms_key = IdSource::from_system()
                .map_err(|error| OpenError::io("asking for random bytes", error.to_string()))?
                .random();
        }
        let mut loaded = segments::load(&db, position.active.stored, keys)?;
        let active = loaded.expect(position.active)?;
        let index = Self {
            keys: Runs::load::<Keys>(&db)?,
            mentions: Runs::load::<Mentions>(&db)?,
            segments: loaded.remembered,
            pace: Pace::default(),
            file: file.to_owned(),
            position,
            db,
        };
        Ok((index, active))
    }

    /// Opens the index for looking things up.
    pub(crate) fn open_reader(file: &Path) -> Result<Connection, OpenError> {
        open_reader(file)
    }

    /// Opens the index for a recount; `None` when there is none, or one of an older format, which a start makes anew.
    pub(crate) fn open_for_recount(file: &Path) -> Result<Option<Connection>, OpenError> {
        if !file.exists() {
            return Ok(None);
        }
        let db = open_reader(file)?;
        match check_format(&db, file, APPLICATION, FORMAT) {
            Err(OpenError::Older { .. }) => Ok(None),
            checked => checked.map(|()| Some(db)),
        }
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
        fault!("index.begun" => failing_disk());
        let write = self.db.transaction()?;
        let mut pace = self.pace.clone();
        write_items(&write, &chunk.items, &mut position.items, &mut pace)?;
        write_pauses(&write, &chunk.pauses, &mut position.pauses, &mut pace)?;
        units::write(&write, &chunk.units, &mut position.units, &mut pace)?;
        let active = (&*chunk.opened, &*chunk.moved, &*chunk.ended);
        self.segments.write(&write, &mut position.active, indexed, active, &mut pace)?;
        fault!("index.half_written" => failing_disk());
        write_closed(&write, &chunk.closed, &mut position.closed, &mut pace)?;
        write_position(&write, position)?;
        fault!("index.written" => failing_disk());
        write.commit()?;
        fault!("index.committed" => failing_disk());
        self.segments.committed();
        self.position = position;
        Ok(())
    }

    /// Writes a run of keys and one of mentions, and with them the batch that both are now indexed up to.
    pub(crate) fn write_runs(
        &mut self,
        records: &mut [KeyRecord],
        mentions: &[Mention],
        keyed: u64,
    ) -> rusqlite::Result<()> {
        let position = Position { keyed, ..self.position };
        let write = self.db.transaction()?;
        let keys = if records.is_empty() {
            None
        } else {
            Some(keys::write_run(&write, records, self.pace.clone())?)
        };
        let mentions = if mentions.is_empty() {
            None
        } else {
            Some(postings::write_run(&write, mentions, self.pace.clone())?)
        };
        write_position(&write, position)?;
        fault!("runs.written" => failing_disk());
        write.commit()?;
        fault!("runs.committed" => failing_disk());
        self.keys.all.extend(keys);
        self.mentions.all.extend(mentions);
        self.position = position;
        Ok(())
    }

    /// Goes on with merging and retiring runs: with a few records for each that came since. Answers whether the runs of
    /// keys are others now.
    pub(crate) fn tend(
        &mut self,
        retire_before: i64,
        may_merge: bool,
        (keys, mentions): (usize, usize),
    ) -> rusqlite::Result<bool> {
        let pace = self.pace.clone();
        // Where something was is told as long as the log has it.
        fault!("runs.tending" => failing_disk());
        self.mentions.tend::<Mentions>(
            &mut self.db,
            i64::MIN,
            may_merge,
            mentions,
            pace.clone(),
            |_, _| Ok(()),
        )?;
        let mut position = self.position;
        let changed =
            self.keys.tend::<Keys>(&mut self.db, retire_before, may_merge, keys, pace, |write, newest| {
                let forgotten = Instant::from_micros(newest.saturating_add(1));
                position.forgotten = position.forgotten.max(forgotten);
                write_position(write, position)
            })?;
        self.position = position;
        Ok(changed)
    }
}

/// Removes an index with what SQLite keeps beside it, which goes first: left alone it would be taken for a new index's.
fn remove(file: &Path) -> std::io::Result<()> {
    for end in ["-wal", "-shm", ""] {
        let mut path = file.as_os_str().to_owned();
        path.push(end);
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Calls back for every item and paused location, and checks that none is missing. Items have their keys from among those given.
pub(crate) fn load(
    db: &Connection,
    position: Position,
    keys: &SharedKeys,
    item: impl FnMut(Item),
    pause: impl FnMut(&str),
) -> Result<(), Damage> {
    expect("items", load_items(db, keys, item)?, position.items)?;
    expect("pauses", load_pauses(db, pause)?, position.pauses)
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
    position.forgotten = Instant::from_micros(next()?.cast_signed());
    position.terms_key = reader.u128()?;
    let mut next = || reader.u64();
    let active = &mut position.active;
    for totals in [
        &mut position.items,
        &mut position.pauses,
        &mut position.closed,
        &mut position.units,
        &mut active.segments,
        &mut active.ended,
    ] {
        *totals = Totals { rows: next()?, sums: next()? };
    }
    for number in [&mut active.last_segment, &mut active.last_ended, &mut active.live, &mut active.stored] {
        *number = next()?;
    }
    reader.finish()?;
    Ok(position)
}

fn write_position(db: &Connection, position: Position) -> rusqlite::Result<()> {
    let Position { indexed, indexed_sum, keyed, forgotten, terms_key, items, pauses, closed, units, active } =
        position;
    let mut data = Vec::new();
    for number in [indexed, u64::from(indexed_sum), keyed, forgotten.micros().cast_unsigned()] {
        codec::put_u64(&mut data, number);
    }
    data.extend(terms_key.to_be_bytes());
    for Totals { rows, sums } in [items, pauses, closed, units, active.segments, active.ended] {
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

fn item_row_key(location: &str, sku: &str) -> Vec<u8> {
    [location.as_bytes(), &[0], sku.as_bytes()].concat()
}

fn write_items(
    db: &Connection,
    items: &[Item],
    totals: &mut Totals,
    pace: &mut Pace,
) -> rusqlite::Result<()> {
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
        pace.row()?;
    }
    Ok(())
}

fn load_items(db: &Connection, keys: &SharedKeys, mut each: impl FnMut(Item)) -> Result<Totals, Damage> {
    let mut totals = Totals::default();
    let mut statement = db.prepare("SELECT location, sku, data, sum FROM items")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (location, sku, data, sum): (String, String, Vec<u8>, u32) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        if row_sum(&item_row_key(&location, &sku), &data) != sum {
            return Err(Damage::What(format!("the checksum of item {sku:?} at {location:?} does not fit")));
        }
        let mut reader = Reader::sharing(&data, keys);
        each(codec::item(&mut reader)?);
        reader.finish()?;
        totals.put(None, Some(sum));
    }
    Ok(totals)
}

fn write_pauses(
    db: &Connection,
    pauses: &[(String, bool)],
    totals: &mut Totals,
    pace: &mut Pace,
) -> rusqlite::Result<()> {
    for (scope, paused) in pauses {
        pace.row()?;
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

fn write_closed(
    db: &Connection,
    holds: &[Hold],
    totals: &mut Totals,
    pace: &mut Pace,
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
        // One that has ended moves again by a return only. If it ever did otherwise, this would fail and nothing would be counted twice.
        let returned = hold.lines.iter().any(|line| line.returned > 0);
        let before = if returned { find.query_row([id], |row| row.get(0)).optional()? } else { None };
        let put = if before.is_some() { &mut replace } else { &mut add };
        put.execute(params![id, &*data, sum])?;
        totals.put(before, Some(sum));
        pace.row()?;
    }
    Ok(())
}

/// Calls back for every closed reservation, each checked.
pub(crate) fn load_closed(db: &Connection, mut each: impl FnMut(Hold)) -> Result<Totals, Damage> {
    let mut totals = Totals::default();
    let mut statement = db.prepare("SELECT id, data, sum FROM closed")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let sum = row.get(2)?;
        each(decode_hold(row.get(0)?, row.get_ref(1)?.as_blob().unwrap_or_default(), sum)?);
        totals.put(None, Some(sum));
    }
    Ok(totals)
}

pub(crate) fn decode_hold(id: [u8; 16], data: &[u8], sum: u32) -> Result<Hold, Damage> {
    if row_sum(&id, data) != sum && !bug!("a-row-s-checksum-is-not-checked") {
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
