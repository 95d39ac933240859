//! Units with ids in the index. Each has a row with its latest state. There are many units and most do not change, so
//! only the changed ones are written.

use crate::error::IndexError;
use crate::index::checksum::{TableTotals, check_totals, row_sum};
use crate::index::throttle::WriteThrottle;
use foldhash::fast::RandomState;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use stockhold_domain::{
    Event, ItemKey, Label, Pool, StockChange, Transition, Unit, UnitMove, UnitStatus, moved,
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
    /// It has another status, at this version.
    Moved(UnitStatus, u64),
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
                    match changes.entry((line.item.clone(), unit.id.clone())).or_insert(UnitChange::Removed) {
                        UnitChange::Put(known) => (known.status, known.version) = (after, unit.version),
                        other => *other = UnitChange::Moved(after, unit.version),
                    }
                }
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
        Transition::Stock { .. } | Transition::Sale { .. } | Transition::Record { .. } => {}
    }
}

/// Applies an event to pools, for a recount of all events.
pub(crate) fn apply(pools: &mut HashMap<ItemKey, Pool, RandomState>, event: &Event) {
    match &event.transition {
        Transition::Hold { change, hold, .. } => {
            for (number, line) in hold.lines.iter().enumerate().filter(|(_, line)| line.units.is_some()) {
                if let Some(pool) = pools.get_mut(&line.item) {
                    pool.apply(change, hold, line, number);
                }
            }
        }
        Transition::Stock { change, item } => match change {
            StockChange::UnitsAdded(units) => {
                pools.entry(item.key.clone()).or_default().add(units.to_vec());
            }
            StockChange::UnitsRetired(units) => {
                if let Some(pool) = pools.get_mut(&item.key) {
                    units.iter().for_each(|unit| pool.retire(unit));
                }
            }
            StockChange::Deleted => {
                pools.remove(&item.key);
            }
            StockChange::Set | StockChange::Adjusted { .. } => {}
        },
        Transition::Sale { .. } | Transition::Record { .. } => {}
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
            UnitChange::Moved(status, version) => {
                let (data, sum) = before.ok_or_else(|| {
                    IndexError::Damaged(format!("unit {id:?} of {item:?} has moved and is not there"))
                })?;
                Unit { status: *status, version: *version, ..read(key, &data, sum)? }
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
