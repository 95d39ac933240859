//! Units with ids in the index. Each has a row with its latest state. There are many units and most do not change, so
//! only the changed ones are written.

use crate::error::IndexError;
use crate::index::checksum::{TableTotals, check_totals, row_sum};
use crate::index::throttle::WriteThrottle;
use foldhash::fast::RandomState;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use stockhold_domain::{
    Event, ItemKey, Label, PooledUnit, StockChange, Transition, Unit, UnitIndex, UnitMove, UnitStatus, moved,
};
use stockhold_store::codec::{self, Reader};

pub(crate) const SCHEMA: &str = "
    CREATE TABLE units (
        location TEXT NOT NULL, sku TEXT NOT NULL, unit TEXT NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL,
        PRIMARY KEY (location, sku, unit)
    ) STRICT, WITHOUT ROWID;
";

/// The change of a unit over some batches.
#[derive(Clone, Debug)]
pub(crate) enum UnitChange {
    /// It is new.
    Put(Unit),
    /// It has another status or another pool, at this version.
    Moved(UnitStatus, u64, Option<Label>),
    /// It was retired.
    Removed,
}

/// The units that changed.
pub(crate) type UnitChanges = HashMap<(ItemKey, Label), UnitChange, RandomState>;

/// Folds the changes of an event.
pub(crate) fn fold(changes: &mut UnitChanges, transition: &Transition) {
    match transition {
        Transition::Hold { change, hold, .. } => {
            for (number, line) in hold.lines.iter().enumerate().filter(|(_, line)| line.units.is_some()) {
                for UnitMove { unit, after, .. } in moved(change, hold, line, number) {
                    move_unit(changes, &line.item, &unit.id, after, unit.version, unit.pool.as_ref());
                }
            }
        }
        Transition::Stock { change: StockChange::UnitsPooled { pool, units }, item } => {
            for PooledUnit { id, version } in &**units {
                move_unit(changes, &item.key, id, UnitStatus::Available, *version, pool.as_ref());
            }
        }
        Transition::Stock { change: StockChange::UnitsAdded(units), item } => {
            for unit in &**units {
                changes.insert((item.key.clone(), unit.id.clone()), UnitChange::Put(unit.clone()));
            }
        }
        Transition::Stock { change: StockChange::UnitsRetired(units), item } => {
            for unit in &**units {
                changes.insert((item.key.clone(), unit.clone()), UnitChange::Removed);
            }
        }
        Transition::Stock { .. }
        | Transition::Sale { .. }
        | Transition::Limit { .. }
        | Transition::Record { .. } => {}
    }
}

fn move_unit(
    changes: &mut UnitChanges,
    item: &ItemKey,
    id: &Label,
    status: UnitStatus,
    version: u64,
    pool: Option<&Label>,
) {
    match changes.entry((item.clone(), id.clone())).or_insert(UnitChange::Removed) {
        UnitChange::Put(known) => {
            (known.status, known.version) = (status, version);
            known.pool = pool.cloned();
        }
        other => *other = UnitChange::Moved(status, version, pool.cloned()),
    }
}

/// Applies an event to unit indexes, for a recount of all events.
pub(crate) fn apply(unit_indexes: &mut HashMap<ItemKey, UnitIndex, RandomState>, event: &Event) {
    match &event.transition {
        Transition::Hold { change, hold, .. } => {
            for (number, line) in hold.lines.iter().enumerate().filter(|(_, line)| line.units.is_some()) {
                if let Some(unit_index) = unit_indexes.get_mut(&line.item) {
                    unit_index.apply(change, hold, line, number);
                }
            }
        }
        Transition::Stock { change, item } => match change {
            StockChange::UnitsAdded(units) => {
                unit_indexes.entry(item.key.clone()).or_default().add(units.to_vec());
            }
            StockChange::UnitsRetired(units) => {
                if let Some(unit_index) = unit_indexes.get_mut(&item.key) {
                    units.iter().for_each(|unit| unit_index.retire(unit));
                }
            }
            StockChange::UnitsPooled { pool, units } => {
                if let Some(unit_index) = unit_indexes.get_mut(&item.key) {
                    unit_index.set_pool(units, pool.as_ref());
                }
            }
            StockChange::Deleted => {
                unit_indexes.remove(&item.key);
            }
            StockChange::Set
            | StockChange::Adjusted { .. }
            | StockChange::PoolSet { .. }
            | StockChange::PoolDeleted { .. }
            | StockChange::PoolReleased { .. } => {}
        },
        Transition::Sale { .. } | Transition::Limit { .. } | Transition::Record { .. } => {}
    }
}

fn key_of(location: &str, sku: &str, unit: &str) -> Vec<u8> {
    [location.as_bytes(), &[0], sku.as_bytes(), &[0], unit.as_bytes()].concat()
}

/// Writes the changes, which are sorted like the table.
pub(crate) fn write(
    db: &Connection,
    changes: &[((ItemKey, Label), UnitChange)],
    totals: &mut TableTotals,
    throttle: &mut WriteThrottle,
) -> rusqlite::Result<()> {
    let mut find =
        db.prepare_cached("SELECT data, sum FROM units WHERE location = ?1 AND sku = ?2 AND unit = ?3")?;
    let mut put = db.prepare_cached(
        "INSERT OR REPLACE INTO units (location, sku, unit, data, sum) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut remove = db.prepare_cached("DELETE FROM units WHERE location = ?1 AND sku = ?2 AND unit = ?3")?;
    let mut data = Vec::new();
    for ((item, id), change) in changes {
        let key = [item.location(), item.sku(), id.as_str()];
        let before: Option<(Vec<u8>, u32)> =
            find.query_row(key, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let before_sum = before.as_ref().map(|(_, sum)| *sum);
        let unit = match change {
            UnitChange::Put(unit) => unit.clone(),
            UnitChange::Moved(status, version, pool) => {
                let (data, sum) = before.ok_or_else(|| {
                    IndexError::Damaged(format!("unit {id:?} of {item:?} has moved and is not there"))
                })?;
                let pool = pool.clone();
                Unit { status: *status, version: *version, pool, ..read(key, &data, sum)? }
            }
            UnitChange::Removed => {
                remove.execute(key)?;
                totals.replace(before_sum, None);
                continue;
            }
        };
        data.clear();
        codec::put_unit(&mut data, &unit);
        let sum = row_sum(&key_of(item.location(), item.sku(), id.as_str()), &data);
        put.execute(params![item.location(), item.sku(), id.as_str(), data, sum])?;
        totals.replace(before_sum, Some(sum));
        throttle.yield_point()?;
    }
    Ok(())
}

fn read([location, sku, unit]: [&str; 3], data: &[u8], sum: u32) -> Result<Unit, IndexError> {
    if row_sum(&key_of(location, sku, unit), data) != sum {
        let what = format!("the checksum of unit {unit:?} of item {sku:?} at {location:?} does not fit");
        return Err(IndexError::Damaged(what));
    }
    let mut reader = Reader::new(data);
    let unit = codec::unit(&mut reader)?;
    reader.finish()?;
    Ok(unit)
}

/// Calls back for every item that has units, with all of its units, and checks that none is missing.
pub(crate) fn load(
    db: &Connection,
    expected: TableTotals,
    mut each: impl FnMut(ItemKey, Vec<Unit>),
) -> Result<(), IndexError> {
    let mut totals = TableTotals::default();
    let mut statement =
        db.prepare("SELECT location, sku, unit, data, sum FROM units ORDER BY location, sku")?;
    let mut rows = statement.query([])?;
    let mut together: Option<(ItemKey, Vec<Unit>)> = None;
    while let Some(row) = rows.next()? {
        let (location, sku, unit, sum): (String, String, String, u32) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(4)?);
        let data = row.get_ref(3)?.as_blob().unwrap_or_default();
        let unit = read([&location, &sku, &unit], data, sum)?;
        totals.replace(None, Some(sum));
        match &mut together {
            Some((item, units)) if item.location() == location && item.sku() == sku => units.push(unit),
            _ => {
                let label = |text: &str| {
                    Label::new(text)
                        .map_err(|error| IndexError::Damaged(format!("the name of an item {error}")))
                };
                let key = ItemKey::new(&label(&location)?, &label(&sku)?);
                if let Some((item, units)) = together.replace((key, vec![unit])) {
                    each(item, units);
                }
            }
        }
    }
    if let Some((item, units)) = together {
        each(item, units);
    }
    check_totals("units", totals, expected)
}
