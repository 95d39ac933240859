//! What reservations had sold that left the store altogether: by item, by pool and by the counter of a limit. A recount adds it to what
//! the reservations add up to that are kept.

use crate::error::IndexError;
use crate::index::checksum::{row_sum, row_sum_of};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;
use stockhold_domain::{CounterKey, Hold, ItemKey, Label, LimitSet, Status};
use stockhold_store::codec::{self, Reader};

pub(crate) const SCHEMA: &str = "
    CREATE TABLE archived_items (
        location TEXT NOT NULL, sku TEXT NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL,
        PRIMARY KEY (location, sku)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE archived_counters (
        counter BLOB PRIMARY KEY, units INTEGER NOT NULL, sum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// What archived reservations had sold of one item, less returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ItemSums {
    pub(crate) sold: u64,
    pub(crate) fulfilled: u64,
    /// The part of the sold units that was drawn from each pool.
    pub(crate) pools: BTreeMap<Label, u64>,
}

/// What archived reservations had sold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArchivedSums {
    pub(crate) items: BTreeMap<ItemKey, ItemSums>,
    pub(crate) counters: BTreeMap<CounterKey, u64>,
}

impl ArchivedSums {
    /// Adds a reservation that leaves. Counters of ended generations of limits are not kept.
    pub(crate) fn add(&mut self, hold: &Hold, limits: &LimitSet) {
        if hold.status != Status::Confirmed {
            return;
        }
        for line in &*hold.lines {
            let (sold, fulfilled) =
                (u64::from(line.quantity.saturating_sub(line.returned)), u64::from(line.fulfilled));
            let draws = line.details().draws.iter().filter(|draw| draw.units > 0);
            let draws: Vec<_> = draws.map(|draw| (draw.pool.clone(), u64::from(draw.units))).collect();
            if sold > 0 || fulfilled > 0 || !draws.is_empty() {
                let of_item = self.items.entry(line.item.clone()).or_default();
                of_item.sold += sold;
                of_item.fulfilled += fulfilled;
                for (pool, units) in draws {
                    *of_item.pools.entry(pool).or_default() += units;
                }
            }
            let counted = line.details().counted.iter();
            for count in counted.filter(|count| count.units > 0 && limits.current(&count.key).is_some()) {
                *self.counters.entry(count.key.clone()).or_default() += u64::from(count.units);
            }
        }
    }

    /// Adds these sums to the stored ones.
    pub(crate) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut data = Vec::new();
        for (key, more) in &self.items {
            let mut sums = find_item(db, key)?;
            sums.sold += more.sold;
            sums.fulfilled += more.fulfilled;
            for (pool, units) in &more.pools {
                *sums.pools.entry(pool.clone()).or_default() += units;
            }
            data.clear();
            put_item_sums(&mut data, &sums);
            let sum = item_sum(key.location(), key.sku(), &data);
            db.prepare_cached(
                "INSERT OR REPLACE INTO archived_items (location, sku, data, sum) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![key.location(), key.sku(), data, sum])?;
        }
        for (key, more) in &self.counters {
            data.clear();
            codec::put_counter_key(&mut data, key);
            let before: Option<(i64, u32)> = db
                .prepare_cached("SELECT units, sum FROM archived_counters WHERE counter = ?1")?
                .query_row([&data], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            if let Some((units, sum)) = before {
                check_counter(&data, units, sum)?;
            }
            let units = before.map_or(0, |(units, _)| units) + more.cast_signed();
            db.prepare_cached(
                "INSERT OR REPLACE INTO archived_counters (counter, units, sum) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![data, units, row_sum(&data, &units.to_le_bytes())])?;
        }
        Ok(())
    }

    /// All stored sums.
    pub(crate) fn load(db: &Connection) -> Result<Self, IndexError> {
        let mut found = Self::default();
        let mut statement = db.prepare("SELECT location, sku, data, sum FROM archived_items")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (location, sku): (String, String) = (row.get(0)?, row.get(1)?);
            let (data, sum): (Vec<u8>, u32) = (row.get(2)?, row.get(3)?);
            let label = |text: &str| {
                Label::new(text).map_err(|_| IndexError::Damaged(format!("{text:?} is no label")))
            };
            let sums = checked_item_sums(&location, &sku, &data, sum)?;
            found.items.insert(ItemKey::new(&label(&location)?, &label(&sku)?), sums);
        }
        let mut statement = db.prepare("SELECT counter, units, sum FROM archived_counters")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (key, units, sum): (Vec<u8>, i64, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
            check_counter(&key, units, sum)?;
            let mut reader = Reader::new(&key);
            let key = codec::counter_key(&mut reader)?;
            reader.finish()?;
            found.counters.insert(key, units.cast_unsigned());
        }
        Ok(found)
    }
}

fn check_counter(key: &[u8], units: i64, sum: u32) -> Result<(), IndexError> {
    if row_sum(key, &units.to_le_bytes()) == sum {
        return Ok(());
    }
    Err(IndexError::Damaged("the checksum of an archived counter does not fit".to_owned()))
}

fn find_item(db: &Connection, key: &ItemKey) -> rusqlite::Result<ItemSums> {
    let (location, sku) = (key.location(), key.sku());
    let row: Option<(Vec<u8>, u32)> = db
        .prepare_cached("SELECT data, sum FROM archived_items WHERE location = ?1 AND sku = ?2")?
        .query_row([location, sku], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match row {
        Some((data, sum)) => Ok(checked_item_sums(location, sku, &data, sum)?),
        None => Ok(ItemSums::default()),
    }
}

fn item_sum(location: &str, sku: &str, data: &[u8]) -> u32 {
    row_sum_of(&[location.as_bytes(), &[0], sku.as_bytes(), data])
}

fn put_item_sums(data: &mut Vec<u8>, sums: &ItemSums) {
    for number in [sums.sold, sums.fulfilled, sums.pools.len() as u64] {
        codec::put_u64(data, number);
    }
    for (pool, units) in &sums.pools {
        codec::put_text(data, pool.as_str());
        codec::put_u64(data, *units);
    }
}

fn checked_item_sums(location: &str, sku: &str, data: &[u8], sum: u32) -> Result<ItemSums, IndexError> {
    if item_sum(location, sku, data) != sum {
        return Err(IndexError::Damaged(format!(
            "the checksum of what was archived of {sku:?} at {location:?} does not fit"
        )));
    }
    let mut reader = Reader::new(data);
    let mut sums = ItemSums { sold: reader.u64()?, fulfilled: reader.u64()?, pools: BTreeMap::new() };
    for _ in 0..reader.u64()? {
        let pool = Label::new(reader.text()?)
            .map_err(|_| IndexError::Damaged(format!("a pool of {sku:?} has no name")))?;
        sums.pools.insert(pool, reader.u64()?);
    }
    reader.finish()?;
    Ok(sums)
}
