//! `base.db`, the state after the events that were archived: what the log says from there on builds on it. It has the tables of an
//! index, complete up to the last archived batch, so a lost index is rebuilt from a copy of it and the log. It has the active
//! reservations of that moment, and those closed ones that later events of the log name. What reservations had sold that are gone
//! altogether is in sums.
//!
//! The commit of [`Base::advance`] is the moment at which events leave the log. What must never happen: that commit before the archive
//! has the events durably; a row of the log deleted before that commit is durable.

pub(crate) mod fold;
pub(crate) mod sums;

use self::fold::BaseStep;
use crate::error::{IndexError, OpenError};
use crate::files;
use crate::index::Index;
use crate::index::checksum::row_sum;
use crate::index::item_key_interner::ItemKeyInterner;
use crate::log::start::{self, LogStart};
use crate::log::{self, open_reader};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use stockhold_domain::{ItemKey, Label, ReservationId};
use stockhold_store::StartProgress;

/// The tables beside those of an index and the start of the log. `kept` has the position of the creation and of the confirm of each
/// reservation that is in the base. `gone` has the reservations that left with each step.
const SCHEMA: &str = "
    CREATE TABLE kept (
        id BLOB PRIMARY KEY, created INTEGER NOT NULL, confirmed INTEGER NOT NULL, sum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX kept_created ON kept (created);
    CREATE TABLE gone (batch INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL) STRICT;
";

/// The base of a data directory, open for writing.
pub(crate) struct Base {
    pub(crate) index: Index,
}

/// A reservation of the base, and the positions of its archived events at which lists have it. A confirm that was not archived has
/// position 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptReservation {
    pub(crate) id: ReservationId,
    pub(crate) created: u64,
    pub(crate) confirmed: u64,
}

impl Base {
    /// Opens the base, and creates an empty one if there is none.
    pub(crate) fn open(file: &Path) -> Result<Self, OpenError> {
        let (index, _) = Index::open(file, &ItemKeyInterner::default(), &StartProgress::default())?;
        let failed = |error| OpenError::sqlite(file, "opening", error);
        // Unlike the index, nothing restores the base.
        index.db.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        let made = index
            .db
            .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'log_start'", [], |row| {
                row.get::<_, i64>(0)
            })
            .map_err(failed)?;
        if made == 0 {
            let schema = [SCHEMA, sums::SCHEMA, start::SCHEMA].concat();
            index.db.execute_batch(&format!("BEGIN; {schema} COMMIT")).map_err(failed)?;
        }
        Ok(Self { index })
    }

    /// Writes the state after some more batches, durably. From then on the log starts behind them.
    pub(crate) fn advance(&mut self, step: &BaseStep) -> rusqlite::Result<()> {
        let head = step.start.head;
        self.index.write_with(&step.chunk, (head.number, head.sum), head.number, |db| {
            for kept in &step.kept {
                put_kept(db, *kept)?;
            }
            let mut ids = Vec::with_capacity(step.gone.len() * 16);
            for id in &step.gone {
                let id = id.as_u128().to_be_bytes();
                db.prepare_cached("DELETE FROM kept WHERE id = ?1")?.execute([id])?;
                ids.extend(id);
            }
            let batch = head.number.cast_signed();
            db.execute(
                "INSERT INTO gone (batch, data, sum) VALUES (?1, ?2, ?3)",
                params![batch, ids, row_sum(&batch.to_le_bytes(), &ids)],
            )?;
            step.sums.write(db)?;
            start::write(db, &step.start)
        })?;
        log::checkpoint(&self.index.db, "TRUNCATE")?;
        Ok(())
    }

    /// Forgets which reservations left up to a batch, because the index has let go of them durably.
    pub(crate) fn forget_gone(&self, batch: u64) -> rusqlite::Result<()> {
        self.index.db.execute("DELETE FROM gone WHERE batch <= ?1", [batch.cast_signed()])?;
        Ok(())
    }
}

fn put_kept(db: &Connection, kept: KeptReservation) -> rusqlite::Result<()> {
    let KeptReservation { id, created, confirmed } = kept;
    let id = id.as_u128().to_be_bytes();
    let [created, confirmed] = [created, confirmed].map(u64::cast_signed);
    db.prepare_cached("INSERT OR REPLACE INTO kept (id, created, confirmed, sum) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![id, created, confirmed, kept_sum(id, created, confirmed)])?;
    Ok(())
}

fn kept_sum(id: [u8; 16], created: i64, confirmed: i64) -> u32 {
    row_sum(&id, &[created.to_le_bytes(), confirmed.to_le_bytes()].concat())
}

fn read_kept(row: &rusqlite::Row<'_>) -> Result<KeptReservation, IndexError> {
    let (id, created, confirmed, sum): ([u8; 16], i64, i64, u32) =
        (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
    if kept_sum(id, created, confirmed) != sum {
        return Err(IndexError::Damaged("the checksum of a reservation's positions does not fit".to_owned()));
    }
    let [created, confirmed] = [created, confirmed].map(i64::cast_unsigned);
    let id = ReservationId::from_u128(u128::from_be_bytes(id));
    Ok(KeptReservation { id, created, confirmed })
}

/// Finds a reservation of the base.
pub(crate) fn find_kept(db: &Connection, id: ReservationId) -> Result<Option<KeptReservation>, IndexError> {
    let mut find = db.prepare_cached("SELECT id, created, confirmed, sum FROM kept WHERE id = ?1")?;
    let mut rows = find.query([id.as_u128().to_be_bytes()])?;
    rows.next()?.map(read_kept).transpose()
}

/// The reservations of the base that were created before a position, the newest first, at most this many.
pub(crate) fn kept_before(
    db: &Connection,
    position: u64,
    limit: usize,
) -> Result<Vec<KeptReservation>, IndexError> {
    let mut find = db.prepare_cached(
        "SELECT id, created, confirmed, sum FROM kept WHERE created < ?1 ORDER BY created DESC LIMIT ?2",
    )?;
    let position = i64::try_from(position).unwrap_or(i64::MAX);
    let mut rows = find.query(params![position, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read_kept(row)?);
    }
    Ok(found)
}

/// The reservations of the base that have an order and were confirmed for it before a position, the newest first.
pub(crate) fn confirmed_before(db: &Connection, position: u64) -> Result<Vec<KeptReservation>, IndexError> {
    let mut find = db.prepare_cached(
        "SELECT id, created, confirmed, sum FROM kept WHERE confirmed BETWEEN 1 AND ?1 ORDER BY confirmed DESC",
    )?;
    let mut rows = find.query([i64::try_from(position.saturating_sub(1)).unwrap_or(i64::MAX)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read_kept(row)?);
    }
    Ok(found)
}

/// The reservations that left with batches after this one.
pub(crate) fn gone_after(db: &Connection, batch: u64) -> Result<Vec<ReservationId>, IndexError> {
    let mut find = db.prepare_cached("SELECT batch, data, sum FROM gone WHERE batch > ?1 ORDER BY batch")?;
    let mut rows = find.query([batch.cast_signed()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (batch, data, sum): (i64, Vec<u8>, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (ids, rest) = data.as_chunks::<16>();
        if row_sum(&batch.to_le_bytes(), &data) != sum || !rest.is_empty() {
            return Err(IndexError::Damaged("the checksum of a list of what left does not fit".to_owned()));
        }
        found.extend(ids.iter().map(|id| ReservationId::from_u128(u128::from_be_bytes(*id))));
    }
    Ok(found)
}

/// Opens the base of a directory for reading, if events have left its log.
pub(crate) fn open_for_reading(dir: &Path) -> Result<Option<Connection>, OpenError> {
    let file = dir.join(files::BASE);
    if start::read(&file)?.head.number == 0 {
        return Ok(None);
    }
    open_reader(&file).map(Some)
}

/// Deletes what has left from the index: after a crash, and at the end of a step. Returns whether there was anything.
pub(crate) fn trim_index(base: &Connection, index: &mut Index, start: &LogStart) -> Result<bool, IndexError> {
    if index.state.archived >= start.head.number {
        return Ok(false);
    }
    let gone = gone_after(base, index.state.archived)?;
    index.forget_archived(&gone, start.head.number, start.keys_dropped_before())?;
    Ok(true)
}

/// What an archive has left undone in the index: the reservations that left and are still in it.
pub(crate) fn untrimmed(
    dir: &Path,
    index: &Index,
    start: &LogStart,
) -> Result<Vec<ReservationId>, OpenError> {
    if index.state.archived >= start.head.number {
        return Ok(Vec::new());
    }
    let Some(base) = open_for_reading(dir)? else { return Ok(Vec::new()) };
    gone_after(&base, index.state.archived).map_err(|error| error.into_open_error(&dir.join(files::BASE)))
}

/// Whether a unit was there after the last event that was archived.
pub(crate) fn has_unit(db: &Connection, item: &ItemKey, unit: &Label) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM units WHERE location = ?1 AND sku = ?2 AND unit = ?3")?
        .query_row([item.location(), item.sku(), unit.as_str()], |_| Ok(()))
        .optional()
        .map(|found| found.is_some())
}
