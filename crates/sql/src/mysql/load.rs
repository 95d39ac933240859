//! Reading state, with locks and without.

use super::cluster;
use super::connect::{MysqlConnection, StatementRows};
use super::limit_statements;
use super::rows;
use super::script::Script;
use super::statements::{self, RowLock, StatementKind};
use crate::engine::{
    DbError, Deadline, LockSet, LockedRows, PoolCounters, Release, Rows, SkipLockedResult, UnitLockSet,
    UnitRows, hold_from, key_from, limit_from, set_counters,
};
use mysql_async::Row;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stockhold_domain::{
    CounterKey, Instant, Item, ItemKey, Label, LimitSet, Mode, ReservationId, StockCounters,
};

/// What was read by a script, and the clock if it was asked for.
#[derive(Default)]
struct LoadResult {
    now: Option<Instant>,
    rows: Rows,
    /// The version of the limits.
    limits_version: Option<i64>,
    /// Reservations that were locked unread.
    free_holds: BTreeSet<ReservationId>,
    /// Counters that nobody else has locked.
    free_counters: BTreeSet<CounterKey>,
}

impl MysqlConnection {
    /// Without locks, in one packet.
    pub(super) async fn load(&mut self, lock_set: &LockSet) -> Result<Rows, DbError> {
        let mut script = Script::new();
        if lock_set.limits {
            script.add(StatementKind::LimitsVersion).push_str(limit_statements::LIMITS_VERSION);
        }
        let items: BTreeSet<ItemKey> = lock_set.all_items().cloned().collect();
        statements::items(&mut script, &items, RowLock::None);
        statements::holds(&mut script, &lock_set.holds, RowLock::None);
        limit_statements::counters(&mut script, &lock_set.counters, RowLock::None);
        for (number, item, pool, most) in short_of_units(lock_set) {
            statements::free_units(&mut script, number, item, pool, most);
        }
        statements::records(&mut script, &lock_set.records, RowLock::None);
        rest(&mut script, lock_set);
        let answered = self.begin(&script).await?;
        let LoadResult { mut rows, limits_version, .. } = loaded(answered, lock_set)?;
        rows.limits = self.limits_of(lock_set, limits_version).await?;
        self.count_all(&mut rows.items).await?;
        Ok(rows)
    }

    /// Begins, locks, reads the clock, reads the state: separate statements in this order, in one packet. A statement sees what
    /// was committed before it began, so only one that comes after the locks sees what they waited for, and the clock shows a
    /// time at which the locks were held.
    pub(super) async fn lock_and_load(&mut self, lock_set: &LockSet) -> Result<LockedRows, DbError> {
        let mut script = Script::new();
        if !self.begun {
            self.begin_transaction(&mut script);
        }
        statements::lock_settings(&mut script, lock_set);
        statements::items(&mut script, &lock_set.items, RowLock::Wait);
        statements::holds(&mut script, &lock_set.holds, RowLock::Wait);
        limit_statements::counters(&mut script, &lock_set.counters, RowLock::Wait);
        named_units(&mut script, lock_set, RowLock::Wait);
        for (number, item, pool, most) in short_of_units(lock_set) {
            match pool {
                None => statements::lock_free_units(&mut script, number, item, most),
                Some(pool) => statements::lock_pool_units(&mut script, number, item, pool, most),
            }
        }
        statements::records(&mut script, &lock_set.records, RowLock::Wait);
        statements::clock(&mut script, &self.target.clock);
        statements::items(&mut script, &lock_set.seen, RowLock::None);
        rest(&mut script, lock_set);
        let answered = self.begin_locked(script, lock_set).await?;
        self.begun = false;
        let LoadResult { now, mut rows, limits_version, .. } = loaded(answered, lock_set)?;
        // Under the lock that was taken first, the limits still have the version that was read.
        rows.limits = self.limits_of(lock_set, limits_version).await?;
        let now = now.ok_or_else(|| DbError::InvariantViolated("the clock shows nothing".to_owned()))?;
        // The serial is drawn by the row of events itself, when it is inserted: these locks are still held then.
        Ok(LockedRows { now, serial: 0, rows })
    }

    /// Locks those of the items, the reservations, the counters and the named units that nobody else has locked.
    pub(super) async fn lock_skip_locked_rows(
        &mut self,
        lock_set: &LockSet,
    ) -> Result<SkipLockedResult, DbError> {
        let mut script = Script::new();
        self.begin_transaction(&mut script);
        statements::lock_settings(&mut script, lock_set);
        statements::items(&mut script, &lock_set.items, RowLock::Skip);
        statements::free_holds(&mut script, &lock_set.holds);
        limit_statements::counters(&mut script, &lock_set.counters, RowLock::Skip);
        limit_statements::counters(&mut script, &lock_set.counters, RowLock::None);
        named_units(&mut script, lock_set, RowLock::Skip);
        let answered = self.begin_locked(script, lock_set).await?;
        self.begun = true;
        let LoadResult { rows, free_holds, free_counters, .. } = loaded(answered, lock_set)?;
        let named = |(item, units): (ItemKey, UnitRows)| {
            units.named.into_iter().map(move |unit| (item.clone(), unit.id))
        };
        let counters = rows.counters.into_iter().map(|(key, _)| key);
        Ok(SkipLockedResult {
            items: rows.items.into_iter().map(|item| item.key).collect(),
            holds: free_holds,
            units: rows.units.into_iter().flat_map(named).collect(),
            counters_of_others: counters.filter(|key| !free_counters.contains(key)).collect(),
        })
    }

    fn begin_transaction(&self, script: &mut Script<StatementKind>) {
        statements::begin(script);
        self.limit_rest(script, StatementKind::Begin);
    }

    /// Sends a script that locks, and remembers for the commit what is locked: behind it, because the connection may be replaced.
    async fn begin_locked(
        &mut self,
        mut script: Script<StatementKind>,
        lock_set: &LockSet,
    ) -> Result<Vec<StatementRows<StatementKind>>, DbError> {
        if self.kind.in_cluster {
            cluster::in_transaction(&mut script);
        }
        let answered = self.begin(&script).await?;
        self.certification.locked(lock_set);
        Ok(answered)
    }

    /// The limits of a version that was read, if they were asked for: those in memory if they have it, else those of the database.
    async fn limits_of(
        &mut self,
        lock_set: &LockSet,
        version: Option<i64>,
    ) -> Result<Option<Arc<LimitSet>>, DbError> {
        let Some(version) = version.filter(|_| lock_set.limits) else { return Ok(None) };
        if let Some(known) = self.target.limits.of_version(version) {
            return Ok(Some(known));
        }
        let mut set = LimitSet::default();
        let mut version = version;
        for row in &self.run(limit_statements::LIMITS).await?.concat() {
            version = rows::int(row, 0)?;
            if let Some(body) = rows::some_bytes(row, 1)? {
                set.put(limit_from(body)?);
            }
        }
        let set = Arc::new(set);
        self.target.limits.put(version, Arc::clone(&set));
        Ok(Some(set))
    }

    /// Gives items whose units have ids their figures.
    pub(super) async fn count_all(&mut self, items: &mut [Item]) -> Result<(), DbError> {
        let mut units = BTreeMap::new();
        for item in items.iter().filter(|item| item.mode == Mode::Units) {
            units.insert(item.key.clone(), UnitLockSet::default());
        }
        if units.is_empty() {
            return Ok(());
        }
        let lock_set = LockSet { units, ..LockSet::default() };
        let mut script = Script::new();
        rest(&mut script, &lock_set);
        let found = loaded(self.begin(&script).await?, &lock_set)?.rows.units;
        for item in items {
            if let Some(rows) = found.get(&item.key) {
                set_counters(item, rows);
            }
        }
        Ok(())
    }

    /// The clock, and the earliest deadlines of all.
    pub(super) async fn clock_and_due(
        &mut self,
        after: Option<Deadline>,
        limit: usize,
    ) -> Result<(Instant, Rows), DbError> {
        let mut script = Script::new();
        statements::clock(&mut script, &self.target.clock);
        statements::any_due(&mut script, after, limit);
        let LoadResult { now, rows, .. } = loaded(self.begin(&script).await?, &LockSet::default())?;
        Ok((now.ok_or_else(|| DbError::InvariantViolated("the clock shows nothing".to_owned()))?, rows))
    }

    /// The clock, and the earliest releases of pools.
    pub(super) async fn clock_and_releases(
        &mut self,
        after: Option<&Release>,
        limit: usize,
    ) -> Result<(Instant, Rows), DbError> {
        let mut script = Script::new();
        statements::clock(&mut script, &self.target.clock);
        statements::any_release(&mut script, after, limit);
        let LoadResult { now, rows, .. } = loaded(self.begin(&script).await?, &LockSet::default())?;
        Ok((now.ok_or_else(|| DbError::InvariantViolated("the clock shows nothing".to_owned()))?, rows))
    }
}

/// Locks units by their ids.
fn named_units(script: &mut Script<StatementKind>, lock_set: &LockSet, lock: RowLock) {
    let named = lock_set.units.iter().enumerate().filter(|(_, (_, unit_locks))| !unit_locks.named.is_empty());
    for (number, (item, unit_locks)) in named {
        statements::named_units(script, number, item, &unit_locks.named, lock);
    }
}

/// Items that free units are asked for of, each with its number, the pool of the units and how many.
fn short_of_units(lock_set: &LockSet) -> impl Iterator<Item = (usize, &ItemKey, Option<&Label>, usize)> {
    let numbered = lock_set.units.iter().enumerate().flat_map(|(number, (item, unit_locks))| {
        unit_locks.free.iter().map(move |(pool, most)| (number, item, pool.as_ref(), *most))
    });
    numbered.filter(|(.., most)| *most > 0)
}

/// What needs no lock of its own: items' locks, or the lock of the pauses, keep it as it is. Keys come last: halls are not
/// locked, and who sees that another has taken the last unit has to see the key that it was taken with.
fn rest(script: &mut Script<StatementKind>, lock_set: &LockSet) {
    statements::paused(script, &lock_set.pauses);
    statements::due(script, &lock_set.due);
    limit_statements::counted_due(script, &lock_set.counted_due);
    for (number, (item, unit_locks)) in lock_set.units.iter().enumerate() {
        statements::unit_figures(script, number, item);
        if unit_locks.last {
            statements::last_unit(script, number, item);
        }
        if unit_locks.map {
            statements::all_units(script, number, item);
        }
    }
    if let Some(depth) = lock_set.any_due {
        statements::any_due(script, None, depth);
    }
    if let Some(depth) = lock_set.any_release {
        statements::any_release(script, None, depth);
    }
    statements::keys(script, &lock_set.keys);
}

fn loaded(answered: Vec<StatementRows<StatementKind>>, lock_set: &LockSet) -> Result<LoadResult, DbError> {
    let mut loaded = LoadResult::default();
    let queues: Vec<&ItemKey> = lock_set.due.keys().collect();
    let empty = queues.iter().map(|key| ((*key).clone(), BTreeSet::new()));
    let mut due: BTreeMap<_, _> = empty.collect();
    let counters: Vec<&CounterKey> = lock_set.counted_due.keys().collect();
    let mut counted_due: BTreeMap<_, _> =
        counters.iter().map(|key| ((*key).clone(), BTreeSet::new())).collect();
    let mut units: Vec<UnitRows> = lock_set.units.iter().map(|_| UnitRows::default()).collect();
    let found = &mut loaded.rows;
    for (kind, answers) in answered {
        for row in &answers {
            match kind {
                StatementKind::Begin => {}
                StatementKind::InTransaction => {
                    if rows::int(row, 0)? == 0 {
                        let what = "the cluster has aborted the transaction".to_owned();
                        return Err(DbError::Conflict(what));
                    }
                }
                StatementKind::Items => found.items.push(rows::item(row)?),
                StatementKind::Holds => found.holds.push(hold_from(rows::bytes(row, 0)?)?),
                StatementKind::FreeHolds => {
                    loaded.free_holds.insert(rows::id(row, 0)?);
                }
                StatementKind::Clock => loaded.now = Some(rows::instant(row, 0)?),
                StatementKind::Paused => {
                    found.paused.insert(rows::text(row, 0)?.to_owned());
                }
                StatementKind::LimitsVersion => loaded.limits_version = Some(rows::int(row, 0)?),
                StatementKind::Counters => found.counters.push(rows::counter(row)?),
                StatementKind::FreeCounters => {
                    loaded.free_counters.insert(rows::counter(row)?.0);
                }
                StatementKind::CountedDue => {
                    let number = usize::try_from(rows::figure(row, 0)?).ok();
                    let queue = number.and_then(|number| counted_due.get_mut(*counters.get(number)?));
                    let queue = queue
                        .ok_or_else(|| DbError::InvariantViolated("a deadline of no counter".to_owned()))?;
                    queue.insert(rows::deadline(row, 1)?);
                }
                StatementKind::Records => found.records.push(rows::record(row)?),
                StatementKind::Keys => found.keys.push(key_from(rows::bytes(row, 0)?)?),
                StatementKind::Due => {
                    let number = usize::try_from(rows::figure(row, 0)?).ok();
                    let queue = number.and_then(|number| due.get_mut(*queues.get(number)?));
                    let queue = queue
                        .ok_or_else(|| DbError::InvariantViolated("a deadline of no item".to_owned()))?;
                    queue.insert(rows::deadline(row, 1)?);
                }
                StatementKind::NamedUnits(number) => of(&mut units, number)?.named.push(rows::unit(row)?),
                StatementKind::FreeUnits(number) => of(&mut units, number)?.free.push(rows::unit(row)?),
                StatementKind::AllUnits(number) => of(&mut units, number)?.map.push(rows::unit(row)?),
                StatementKind::UnitFigures(number) => {
                    let (of_item, counted) = (of(&mut units, number)?, counted(row)?);
                    if rows::text(row, 7)?.is_empty() {
                        of_item.figures = counted;
                    } else {
                        let counters = PoolCounters {
                            allocated: counted.total_units,
                            held: counted.held,
                            sold: counted.confirmed_sold,
                            used_at: counted.at,
                        };
                        of_item.pools.insert(rows::label(row, 7)?, counters);
                    }
                }
                StatementKind::LastUnit(number) => {
                    let of_item = of(&mut units, number)?;
                    of_item.last_position = of_item.last_position.max(rows::figure(row, 0)?);
                }
                StatementKind::AnyDue => {
                    found.any_due.insert(rows::deadline(row, 0)?);
                }
                StatementKind::AnyRelease => {
                    found.any_release.insert(rows::release(row)?);
                }
            }
        }
    }
    found.due = due;
    found.counted_due = counted_due;
    found.units = lock_set.units.keys().cloned().zip(units).collect();
    Ok(loaded)
}

fn of(units: &mut [UnitRows], number: usize) -> Result<&mut UnitRows, DbError> {
    units.get_mut(number).ok_or_else(|| DbError::InvariantViolated("a unit of no item".to_owned()))
}

fn counted(row: &Row) -> Result<StockCounters, DbError> {
    Ok(StockCounters {
        total_units: rows::figure(row, 0)?,
        held: rows::figure(row, 1)?,
        confirmed_sold: rows::figure(row, 2)?,
        at: rows::instant(row, 3)?,
        active: rows::figure(row, 4)?,
        fulfilled: rows::figure(row, 5)?,
        held_under_payment: rows::figure(row, 6)?,
        sequence: 0,
    })
}
