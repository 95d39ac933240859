//! Units with ids: how they are locked, read and written. Their rows stand under their item's key.

use super::connect::PostgresConnection;
use super::params::{Param, Params};
use super::rows::{self, ItemArrays, ItemKeys, column, stored, uuid};
use crate::engine::{
    Changes, CounterChangeRow, DbError, PoolCounters, Rows, SaleRow, UnitLockSet, UnitRow,
    UnitRows as RowsOfItem, attributes_body, serials_from, set_counters,
};
use std::collections::BTreeMap;
use stockhold_domain::{Instant, Item, ItemKey, Label, Mode, StockCounters, Unit, bucket_of};
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

/// Units by their items.
type ByItem = Vec<(ItemKey, Unit)>;

/// What was found of units that were asked for.
#[derive(Default)]
pub(super) struct FoundUnits {
    named: ByItem,
    free: ByItem,
}

impl PostgresConnection {
    /// Locks units: first those that are named, then free ones. Apart, so that counted stock carries nothing of it.
    pub(super) async fn lock_units(
        &self,
        lock_set: &BTreeMap<ItemKey, UnitLockSet>,
    ) -> Result<FoundUnits, DbError> {
        if lock_set.is_empty() {
            return Ok(FoundUnits::default());
        }
        let locks = async {
            let (named, free) = tokio::try_join!(biased; self.lock_named_units(&self.statements.lock_units, lock_set), self.free_units(lock_set, true))?;
            Ok(FoundUnits { named, free })
        };
        Box::pin(locks).await
    }

    /// Writes what became of units and of their sales. `entry` is what the histories get.
    pub(super) async fn write_units(&self, changes: &Changes<'_>, entry: &Vec<u8>) -> Result<(), DbError> {
        if !changes.touches_units() {
            return Ok(());
        }
        Box::pin(async {
            let s = &self.statements;
            let (new, moved) = (UnitRows::new(&changes.new_units)?, UnitRows::new(&changes.changed_units)?);
            let figures = CounterChangeRows::new(&changes.figures, changes.counter_shard);
            let gone = UnitKeys::new(changes.gone_units.iter().copied());
            let (closed, sold) = (SaleRows::new(&changes.closed_sales), SaleRows::new(&changes.new_sales));
            tokio::try_join!(
                biased;
                self.put(&s.delete_units, gone.ids.len(), gone.params()),
                self.put(&s.insert_units, new.keys.ids.len(), new.params(true, entry)),
                self.put(&s.update_units, moved.keys.ids.len(), moved.params(false, entry)),
                self.put(&s.add_figures, figures.items.len(), figures.params()),
                self.put(&s.close_sales, closed.keys.ids.len(), closed.params(false)),
                self.put(&s.insert_sales, sold.keys.ids.len(), sold.params(true)),
            )?;
            Ok(())
        })
        .await
    }

    /// Locks units by their ids, in the order of the table's key.
    pub(super) async fn lock_named_units(
        &self,
        statement: &Statement,
        lock_set: &BTreeMap<ItemKey, UnitLockSet>,
    ) -> Result<ByItem, DbError> {
        let items = ItemArrays::new(lock_set.keys());
        let (mut keys, mut numbers) = (UnitKeys::default(), Vec::new());
        for (item, number) in items.keys.iter().zip(1_i64..) {
            for id in lock_set.get(*item).into_iter().flat_map(|lock_set| &lock_set.named) {
                keys.push(item, id);
                numbers.push(number);
            }
        }
        let mut params = keys.params();
        params.push(&numbers);
        let rows = self.query(statement, keys.ids.len(), params).await?;
        by_item(&items, &rows)
    }

    /// The first free units: locked, as far as nobody else has locked them, or only read.
    async fn free_units(
        &self,
        lock_set: &BTreeMap<ItemKey, UnitLockSet>,
        locked: bool,
    ) -> Result<ByItem, DbError> {
        let s = &self.statements;
        let (of_items, of_pools) = if locked {
            (&s.lock_free_units, &s.lock_pool_units)
        } else {
            (&s.read_free_units, &s.read_pool_units)
        };
        let general = |lock_set: &UnitLockSet| lock_set.free.get(&None).copied().unwrap_or(0);
        let items = ItemArrays::new(
            lock_set.iter().filter(|(_, lock_set)| general(lock_set) > 0).map(|(key, _)| key),
        );
        let most = |key: &&ItemKey| rows::rows(lock_set.get(*key).map_or(0, general));
        let most: Vec<i64> = items.keys.iter().map(most).collect();
        let params = items.wanted(&most);
        let all = ItemArrays::new(lock_set.keys());
        let mut pools = PoolArrays::default();
        for (item, number) in all.keys.iter().zip(1_i64..) {
            for (pool, most) in lock_set.get(*item).into_iter().flat_map(|lock_set| &lock_set.free) {
                if let Some(pool) = pool.as_ref().filter(|_| *most > 0) {
                    pools.push(item, pool, *most, number);
                }
            }
        }
        let (rows, of_pools) = tokio::try_join!(
            biased;
            self.query(of_items, items.keys.len(), params),
            self.query(of_pools, pools.names.len(), pools.params()),
        )?;
        let mut found = by_item(&items, &rows)?;
        found.extend(by_item(&all, &of_pools)?);
        Ok(found)
    }

    /// The first free units as they are, without locks.
    pub(super) async fn read_free_units(
        &self,
        lock_set: &BTreeMap<ItemKey, UnitLockSet>,
    ) -> Result<FoundUnits, DbError> {
        if lock_set.is_empty() {
            return Ok(FoundUnits::default());
        }
        Box::pin(async {
            Ok(FoundUnits { free: self.free_units(lock_set, false).await?, ..FoundUnits::default() })
        })
        .await
    }

    /// Figures, and all units where they are asked for, without locks.
    pub(super) async fn read_units(
        &self,
        lock_set: &BTreeMap<ItemKey, UnitLockSet>,
    ) -> Result<BTreeMap<ItemKey, RowsOfItem>, DbError> {
        if lock_set.is_empty() {
            return Ok(BTreeMap::new());
        }
        Box::pin(self.read_units_of(lock_set)).await
    }

    async fn read_units_of(
        &self,
        lock_set: &BTreeMap<ItemKey, UnitLockSet>,
    ) -> Result<BTreeMap<ItemKey, RowsOfItem>, DbError> {
        let mapped =
            ItemArrays::new(lock_set.iter().filter(|(_, lock_set)| lock_set.map).map(|(key, _)| key));
        let last = ItemArrays::new(lock_set.iter().filter(|(_, lock_set)| lock_set.last).map(|(key, _)| key));
        let (figures, lasts, rows) = tokio::try_join!(
            biased;
            self.counted(lock_set.keys()),
            self.query(&self.statements.last_units, last.keys.len(), last.numbered()),
            self.query(&self.statements.read_units, mapped.keys.len(), mapped.numbered()),
        )?;
        let mut found = figures;
        for (key, unit) in by_item(&mapped, &rows)? {
            found.entry(key).or_default().map.push(unit);
        }
        for row in &lasts {
            found.entry(item_of(&last, row)?.clone()).or_default().last_position =
                rows::figure(row, "position")?;
        }
        Ok(found)
    }

    /// What the units of items and of their pools come to.
    async fn counted<'a>(
        &self,
        items: impl Iterator<Item = &'a ItemKey>,
    ) -> Result<BTreeMap<ItemKey, RowsOfItem>, DbError> {
        let items = ItemArrays::new(items);
        let rows = self.query(&self.statements.unit_figures, items.keys.len(), items.numbered()).await?;
        let figures = |row: &Row| -> Result<StockCounters, DbError> {
            Ok(StockCounters {
                total_units: rows::figure(row, "total")?,
                confirmed_sold: rows::figure(row, "sold")?,
                fulfilled: rows::figure(row, "fulfilled")?,
                held: rows::figure(row, "held")?,
                held_under_payment: rows::figure(row, "paying")?,
                active: rows::figure(row, "active")?,
                sequence: 0,
                at: rows::instant(row, "at")?,
            })
        };
        // An item that has no unit yet has no row.
        let mut found: BTreeMap<ItemKey, RowsOfItem> =
            items.keys.iter().map(|key| ((*key).clone(), RowsOfItem::default())).collect();
        for row in &rows {
            let of_item = found.entry(item_of(&items, row)?.clone()).or_default();
            if row.try_get::<_, &str>("pool")?.is_empty() {
                of_item.figures = figures(row)?;
            } else {
                let counters = PoolCounters {
                    allocated: rows::figure(row, "total")?,
                    held: rows::figure(row, "held")?,
                    sold: rows::figure(row, "sold")?,
                    used_at: rows::instant(row, "at")?,
                };
                of_item.pools.insert(rows::label(row, "pool")?, counters);
            }
        }
        Ok(found)
    }

    /// Gives items whose units have ids their figures.
    pub(super) async fn count_all(&self, items: &mut [Item]) -> Result<(), DbError> {
        let some = items.iter().filter(|item| item.mode == Mode::Units).map(|item| &item.key);
        let counted = self.counted(some).await?;
        for item in items {
            if let Some(figures) = counted.get(&item.key) {
                set_counters(item, figures);
            }
        }
        Ok(())
    }

    /// Units after a place in the order of claims.
    pub(super) async fn page_of_units(
        &self,
        item: &ItemKey,
        after: Option<&(u64, Label)>,
        limit: usize,
    ) -> Result<Vec<Unit>, DbError> {
        let (position, id) = match after {
            Some((position, id)) => (stored(*position)?, id.as_str()),
            None => (-1, ""),
        };
        let rows = self
            .client
            .query(
                &self.statements.units_page,
                &[
                    &column(bucket_of(item)),
                    &item.location(),
                    &item.sku(),
                    &position,
                    &id,
                    &rows::rows(limit),
                ],
            )
            .await?;
        rows.iter().map(rows::unit).collect()
    }

    /// A unit and the serials of its history.
    pub(super) async fn one_unit(
        &self,
        item: &ItemKey,
        unit: &Label,
    ) -> Result<Option<(Unit, Vec<u64>)>, DbError> {
        let (bucket, location, sku) = (column(bucket_of(item)), item.location(), item.sku());
        let found = self
            .client
            .query_opt(&self.statements.read_unit, &[&bucket, &location, &sku, &unit.as_str()])
            .await?;
        let Some(row) = found else { return Ok(None) };
        Ok(Some((rows::unit(&row)?, serials_from(row.try_get("history")?)?)))
    }
}

fn item_of<'a>(items: &ItemArrays<'a>, row: &Row) -> Result<&'a ItemKey, DbError> {
    let number: i64 = row.try_get("number")?;
    let item = usize::try_from(number - 1).ok().and_then(|number| items.keys.get(number).copied());
    item.ok_or_else(|| DbError::InvariantViolated("a unit of no item".to_owned()))
}

fn by_item(items: &ItemArrays<'_>, rows: &[Row]) -> Result<ByItem, DbError> {
    rows.iter().map(|row| Ok((item_of(items, row)?.clone(), rows::unit(row)?))).collect()
}

/// Puts units that were asked for beside what was read.
pub(super) fn put(rows: &mut Rows, FoundUnits { named, free }: FoundUnits) {
    for (key, unit) in named {
        rows.units.entry(key).or_default().named.push(unit);
    }
    for (key, unit) in free {
        rows.units.entry(key).or_default().free.push(unit);
    }
}

/// Keys of units as the arrays that statements take.
#[derive(Default)]
struct UnitKeys<'a> {
    items: ItemKeys<'a>,
    ids: Vec<&'a str>,
}

impl<'a> UnitKeys<'a> {
    fn new(keys: impl Iterator<Item = (&'a ItemKey, &'a Label)>) -> Self {
        let mut all = Self::default();
        keys.for_each(|(item, id)| all.push(item, id));
        all
    }

    fn push(&mut self, item: &'a ItemKey, id: &'a Label) {
        self.items.push(item);
        self.ids.push(id.as_str());
    }

    fn params(&self) -> Params<'_> {
        let mut params = self.items.params();
        params.push(&self.ids);
        params
    }
}

/// Pools of items, and how many units of each.
#[derive(Default)]
struct PoolArrays<'a> {
    items: ItemKeys<'a>,
    most: Vec<i64>,
    names: Vec<&'a str>,
    numbers: Vec<i64>,
}

impl<'a> PoolArrays<'a> {
    fn push(&mut self, item: &'a ItemKey, pool: &'a Label, most: usize, number: i64) {
        self.items.push(item);
        self.most.push(rows::rows(most));
        self.names.push(pool.as_str());
        self.numbers.push(number);
    }

    fn params(&self) -> Params<'_> {
        let mut params = self.items.params();
        params.push(&self.most);
        params.push(&self.names);
        params.push(&self.numbers);
        params
    }
}

#[derive(Default)]
struct UnitRows<'a> {
    keys: UnitKeys<'a>,
    positions: Vec<i64>,
    sections: Vec<Option<&'a str>>,
    seat_rows: Vec<Option<&'a str>>,
    seat_numbers: Vec<Option<&'a str>>,
    attributes: Vec<Vec<u8>>,
    statuses: Vec<i16>,
    reservations: Vec<Option<Uuid>>,
    versions: Vec<i64>,
    pools: Vec<Option<&'a str>>,
}

impl<'a> UnitRows<'a> {
    fn new(units: &[UnitRow<'a>]) -> Result<Self, DbError> {
        let mut rows = Self::default();
        for UnitRow { item, unit } in units {
            rows.keys.push(item, &unit.id);
            rows.positions.push(stored(unit.place.position)?);
            rows.sections.push(unit.place.section.as_ref().map(Label::as_str));
            rows.seat_rows.push(unit.place.row.as_ref().map(Label::as_str));
            rows.seat_numbers.push(unit.place.number.as_ref().map(Label::as_str));
            rows.attributes.push(attributes_body(&unit.place.attributes));
            rows.statuses.push(rows::standing(unit));
            rows.pools.push(unit.pool.as_ref().map(Label::as_str));
            rows.reservations.push(unit.status.holder().map(uuid));
            rows.versions.push(stored(unit.version)?);
        }
        Ok(rows)
    }

    /// Where a unit is only where its row is made: it never changes.
    fn params<'b>(&'b self, whole: bool, entry: &'b Vec<u8>) -> Params<'b> {
        let mut params = self.keys.params();
        if whole {
            params.push(&self.positions);
            params.push(&self.sections);
            params.push(&self.seat_rows);
            params.push(&self.seat_numbers);
            params.push(&self.attributes);
        }
        params.push(&self.statuses);
        params.push(&self.reservations);
        params.push(&self.versions);
        params.push(&self.pools);
        params.push(entry);
        params
    }
}

#[derive(Default)]
struct CounterChangeRows<'a> {
    items: ItemKeys<'a>,
    total_units: Vec<i64>,
    held: Vec<i64>,
    held_under_payment: Vec<i64>,
    confirmed_sold: Vec<i64>,
    fulfilled: Vec<i64>,
    active: Vec<i64>,
    decided_at: Vec<i64>,
    pools: Vec<&'a str>,
    counter_shard: i16,
}

impl<'a> CounterChangeRows<'a> {
    fn new(figures: &[CounterChangeRow<'a>], counter_shard: u16) -> Self {
        let mut rows = Self { counter_shard: column(counter_shard), ..Self::default() };
        for CounterChangeRow { item, pool, by } in figures {
            rows.items.push(item);
            rows.pools.push(pool.map_or("", Label::as_str));
            rows.total_units.push(by.total_units);
            rows.held.push(by.held);
            rows.held_under_payment.push(by.held_under_payment);
            rows.confirmed_sold.push(by.confirmed_sold);
            rows.fulfilled.push(by.fulfilled);
            rows.active.push(by.active);
            rows.decided_at.push(by.at.micros());
        }
        rows
    }

    fn params(&self) -> Params<'_> {
        let mut params = self.items.params();
        let columns: [&dyn Param; 9] = [
            &self.total_units,
            &self.held,
            &self.held_under_payment,
            &self.confirmed_sold,
            &self.fulfilled,
            &self.active,
            &self.decided_at,
            &self.pools,
            &self.counter_shard,
        ];
        params.extend(columns);
        params
    }
}

#[derive(Default)]
struct SaleRows<'a> {
    keys: UnitKeys<'a>,
    reservations: Vec<Uuid>,
    returned_at: Vec<Option<i64>>,
    sold_at: Vec<i64>,
}

impl<'a> SaleRows<'a> {
    fn new(sales: &[SaleRow<'a>]) -> Self {
        let mut rows = Self::default();
        for SaleRow { item, unit, id, sold_at, returned_at } in sales {
            rows.keys.push(item, unit);
            rows.reservations.push(uuid(*id));
            rows.returned_at.push(returned_at.map(Instant::micros));
            rows.sold_at.push(sold_at.micros());
        }
        rows
    }

    /// When it was sold only where its row is made.
    fn params(&self, whole: bool) -> Params<'_> {
        let mut params = self.keys.params();
        params.push(&self.reservations);
        params.push(&self.returned_at);
        if whole {
            params.push(&self.sold_at);
        }
        params
    }
}
