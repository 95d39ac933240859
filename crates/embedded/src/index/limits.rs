//! Limits in the index, and the sold units that they count. A deleted limit keeps its row, because its version is needed later. Only
//! counters of the current generation of a limit have rows, and none that is at 0.
//!
//! Held units are not stored, because a start has the active holds, which say what counts them. So a hold writes no counter.

use crate::error::IndexError;
use crate::index::checksum::{TableTotals, check_totals, row_sum};
use crate::index::throttle::WriteThrottle;
use rusqlite::{Connection, OptionalExtension, params};
use stockhold_domain::{CounterKey, Hold, Limit, LimitCounter, LimitCounters, LimitSet};
use stockhold_store::codec::{self, Reader};

pub(crate) const SCHEMA: &str = "
    CREATE TABLE limits (
        id TEXT PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE limit_counters (
        limit_id TEXT NOT NULL, subject BLOB NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL,
        PRIMARY KEY (limit_id, subject)
    ) STRICT, WITHOUT ROWID;
";

/// The totals of both tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitTotals {
    pub(crate) limits: TableTotals,
    pub(crate) counters: TableTotals,
}

/// Changes of limits and of the units that are sold under them, sorted like the tables. The counters are of the generations that the
/// limits have afterwards.
#[derive(Debug, Default)]
pub(crate) struct LimitChanges {
    pub(crate) limits: Vec<Limit>,
    pub(crate) sold: Vec<(CounterKey, u64)>,
}

impl LimitChanges {
    pub(crate) fn clear(&mut self) {
        self.limits.clear();
        self.sold.clear();
    }
}

/// The counters of limits: the units that were sold, and those that active reservations hold.
pub(crate) fn counters<'a>(
    limits: &LimitSet,
    sold: impl IntoIterator<Item = (CounterKey, u64)>,
    active: impl IntoIterator<Item = &'a Hold>,
) -> LimitCounters {
    let mut counters = LimitCounters::default();
    for (key, sold) in sold {
        counters.put(key, LimitCounter { held: 0, sold });
    }
    let lines = active.into_iter().flat_map(|hold| &*hold.lines);
    let counts = lines.filter_map(|line| line.details.as_ref()).flat_map(|details| &details.counted);
    for count in counts.filter(|count| limits.current(&count.key).is_some()) {
        let LimitCounter { held, sold } = counters.get(&count.key);
        counters.put(count.key.clone(), LimitCounter { held: held + u64::from(count.units), sold });
    }
    counters
}

fn counter_row_key(limit: &str, subject: &[u8]) -> Vec<u8> {
    [limit.as_bytes(), &[0], subject].concat()
}

/// Writes limits and counters.
pub(crate) fn write(
    db: &Connection,
    changes: &LimitChanges,
    totals: &mut LimitTotals,
    throttle: &mut WriteThrottle,
) -> rusqlite::Result<()> {
    let mut data = Vec::new();
    for limit in &changes.limits {
        let id = limit.id.as_str();
        let mut find = db.prepare_cached("SELECT data, sum FROM limits WHERE id = ?1")?;
        let before: Option<(Vec<u8>, u32)> =
            find.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        // A row that can't be read is found at the next start. Until then no counter of it is dropped.
        let known = before.as_ref().and_then(|(data, _)| codec::limit(&mut Reader::new(data)).ok());
        let goes_on = known.is_none_or(|known| known.generation == limit.generation && limit.terms.is_some());
        if !goes_on {
            drop_counters(db, id, &mut totals.counters, throttle)?;
        }
        data.clear();
        codec::put_limit(&mut data, limit);
        let sum = row_sum(id.as_bytes(), &data);
        db.prepare_cached("INSERT OR REPLACE INTO limits (id, data, sum) VALUES (?1, ?2, ?3)")?
            .execute(params![id, data, sum])?;
        totals.limits.replace(before.map(|(_, sum)| sum), Some(sum));
        throttle.yield_point()?;
    }
    for (key, sold) in &changes.sold {
        write_sold(db, key, *sold, &mut totals.counters)?;
        throttle.yield_point()?;
    }
    Ok(())
}

/// Drops the counters of an ended generation.
fn drop_counters(
    db: &Connection,
    limit: &str,
    totals: &mut TableTotals,
    throttle: &mut WriteThrottle,
) -> rusqlite::Result<()> {
    let mut sums = db.prepare_cached("SELECT sum FROM limit_counters WHERE limit_id = ?1")?;
    let mut rows = sums.query([limit])?;
    while let Some(row) = rows.next()? {
        totals.replace(Some(row.get(0)?), None);
    }
    throttle.yield_point()?;
    db.prepare_cached("DELETE FROM limit_counters WHERE limit_id = ?1")?.execute([limit])?;
    Ok(())
}

fn write_sold(
    db: &Connection,
    key: &CounterKey,
    sold: u64,
    totals: &mut TableTotals,
) -> rusqlite::Result<()> {
    let (limit, mut subject) = (key.limit.as_str(), Vec::new());
    codec::put_subject(&mut subject, &key.subject);
    let before = db
        .prepare_cached("SELECT sum FROM limit_counters WHERE limit_id = ?1 AND subject = ?2")?
        .query_row(params![limit, subject], |row| row.get(0))
        .optional()?;
    if sold == 0 {
        db.prepare_cached("DELETE FROM limit_counters WHERE limit_id = ?1 AND subject = ?2")?
            .execute(params![limit, subject])?;
        totals.replace(before, None);
        return Ok(());
    }
    let mut data = Vec::new();
    codec::put_u64(&mut data, key.generation);
    codec::put_u64(&mut data, sold);
    let sum = row_sum(&counter_row_key(limit, &subject), &data);
    db.prepare_cached(
        "INSERT OR REPLACE INTO limit_counters (limit_id, subject, data, sum) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![limit, subject, data, sum])?;
    totals.replace(before, Some(sum));
    Ok(())
}

/// Calls back for every limit, deleted ones included.
pub(crate) fn load_limits(
    db: &Connection,
    mut each_limit: impl FnMut(Limit),
) -> Result<TableTotals, IndexError> {
    let mut totals = TableTotals::default();
    let mut statement = db.prepare("SELECT id, data, sum FROM limits")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, sum): (String, u32) = (row.get(0)?, row.get(2)?);
        let data = row.get_ref(1)?.as_blob().unwrap_or_default();
        if row_sum(id.as_bytes(), data) != sum {
            return Err(IndexError::Damaged(format!("the checksum of limit {id:?} does not fit")));
        }
        let mut reader = Reader::new(data);
        each_limit(codec::limit(&mut reader)?);
        reader.finish()?;
        totals.replace(None, Some(sum));
    }
    Ok(totals)
}

/// Calls back for every limit, deleted ones included, and for the sold units of every counter, and checks that none is missing.
pub(crate) fn load(
    db: &Connection,
    expected: LimitTotals,
    mut each_limit: impl FnMut(Limit),
    mut each_sold: impl FnMut(CounterKey, u64),
) -> Result<(), IndexError> {
    check_totals("limits", load_limits(db, &mut each_limit)?, expected.limits)?;
    let mut totals = TableTotals::default();
    let mut statement = db.prepare("SELECT limit_id, subject, data, sum FROM limit_counters")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (limit, sum): (String, u32) = (row.get(0)?, row.get(3)?);
        let subject = row.get_ref(1)?.as_blob().unwrap_or_default();
        let data = row.get_ref(2)?.as_blob().unwrap_or_default();
        if row_sum(&counter_row_key(&limit, subject), data) != sum {
            return Err(IndexError::Damaged(format!(
                "the checksum of a counter of limit {limit:?} does not fit"
            )));
        }
        let damaged = |_| IndexError::Damaged(format!("a counter is of limit {limit:?}, which is no label"));
        let limit = stockhold_domain::Label::new(&limit).map_err(damaged)?;
        let mut reader = Reader::new(subject);
        let subject = codec::subject(&mut reader)?;
        reader.finish()?;
        let mut reader = Reader::new(data);
        let (generation, sold) = (reader.u64()?, reader.u64()?);
        reader.finish()?;
        each_sold(CounterKey { limit, generation, subject }, sold);
        totals.replace(None, Some(sum));
    }
    check_totals("counters of limits", totals, expected.counters)
}
