//! Reading state, with locks and without.

use super::citus::{self, Layout};
use super::connect::PostgresConnection;
use super::limits::{self, CounterArrays};
use super::params::in_order;
use super::rows::{self, HoldArrays, ItemArrays, KeyArrays, RecordArrays};
use super::units;
use crate::engine::{
    DbError, Deadline, LockSet, LockedRows, Release, Rows, Session, SkipLockedResult, hold_from, key_from,
};
use core::future::Future;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{Hold, Instant, ItemKey, KeyHash, KeyRecord, bucket_of};
use tokio_postgres::Row;

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// Locks of tables are given in the order they are asked for, so a setter has its turn however many readers come; and they
/// write nothing, where a shared lock of a row that everybody reads would write it each time.
/// The lock is that of limits too.
const BEGIN_READING_PAUSES: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; LOCK TABLE stockhold.pauses IN ROW SHARE MODE";
const BEGIN_SETTING_PAUSES: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; LOCK TABLE stockhold.pauses IN EXCLUSIVE MODE";
const READING_PAUSES: &str = "LOCK TABLE stockhold.pauses IN ROW SHARE MODE";

/// The location of the pause of everything.
const EVERYTHING: &str = "";

/// What was read without locks of its own.
struct UnlockedRows {
    rows: Rows,
    /// The version of the limits, if they were asked for.
    limits_version: Option<i64>,
}

impl PostgresConnection {
    /// Without locks, sent together.
    pub(super) async fn load(&self, lock_set: &LockSet) -> Result<Rows, DbError> {
        let s = &self.statements;
        let items = ItemArrays::new(lock_set.all_items());
        let holds = HoldArrays::new(&lock_set.holds);
        let records = RecordArrays::new(lock_set.records.iter());
        let counters = CounterArrays::new(&lock_set.counters)?;
        let (items, holds, rest, free, records, counters) = tokio::try_join!(
            biased;
            self.query(&s.read_items, items.keys.len(), items.params()),
            self.query(&s.read_holds, holds.ids.len(), holds.params()),
            self.load_unlocked(lock_set, true),
            self.read_free_units(&lock_set.units),
            self.query(&s.read_records, records.ids.len(), records.params()),
            self.query(&s.read_counters, counters.len(), counters.params()),
        )?;
        let mut rows = with_items_and_holds(rest.rows, &items, &holds)?;
        rows.limits = self.limits(rest.limits_version).await?;
        rows.counters = counters.iter().map(limits::counter).collect::<Result<_, _>>()?;
        rows.records = records.iter().map(rows::record).collect::<Result<_, _>>()?;
        units::put(&mut rows, free);
        self.count_all(&mut rows.items).await?;
        Ok(rows)
    }

    /// Begins, locks, reads the clock, reads the state: separate statements in this order, sent together. A statement sees
    /// what was committed before it began, so only one that comes after the locks sees what they waited for, and the clock
    /// shows a time at which the locks were held.
    pub(super) async fn lock_and_load(&mut self, lock_set: &LockSet) -> Result<LockedRows, DbError> {
        let begun = core::mem::take(&mut self.begun);
        let this = &*self;
        let s = &this.statements;
        let items = ItemArrays::new(lock_set.items.iter());
        let holds = HoldArrays::new(&lock_set.holds);
        let seen = ItemArrays::new(lock_set.seen.iter());
        let records = RecordArrays::new(lock_set.records.iter());
        let counters = CounterArrays::new(&lock_set.counters)?;
        let bucket = i64::from(bucket_of_events(&items, &holds));
        let ((), items, holds, counters, locked, records, clock, seen, rest) = tokio::try_join!(
            biased;
            this.begin(lock_set, begun),
            this.query(&s.lock_items, items.keys.len(), items.params()),
            this.query(&s.lock_holds, holds.ids.len(), holds.params()),
            this.query(&s.lock_counters, counters.len(), counters.params()),
            this.lock_units(&lock_set.units),
            this.query(&s.lock_records, records.ids.len(), records.params()),
            async { Ok(this.client.query_one(&s.clock_and_serial, &[&bucket]).await?) },
            this.query(&s.read_items, seen.keys.len(), seen.params()),
            this.load_unlocked(lock_set, !this.reads_keys_after_locking()),
        )?;
        let serial: i64 = clock.try_get(1)?;
        let mut rows = with_items_and_holds(rest.rows, &items, &holds)?;
        // Under the lock that was taken first, the limits still have the version that was read.
        rows.limits = this.limits(rest.limits_version).await?;
        rows.counters = counters.iter().map(limits::counter).collect::<Result<_, _>>()?;
        for row in &seen {
            rows.items.push(rows::item(row)?);
        }
        units::put(&mut rows, locked);
        rows.records = records.iter().map(rows::record).collect::<Result<_, _>>()?;
        Ok(LockedRows {
            now: Instant::from_micros(clock.try_get(0)?),
            serial: u64::try_from(serial)
                .map_err(|_| DbError::InvariantViolated(format!("the serial {serial}")))?,
            rows,
        })
    }

    async fn begin(&self, lock_set: &LockSet, begun: bool) -> Result<(), DbError> {
        let statement = match (begun, lock_set.sets_settings(), lock_set.reads_settings()) {
            (true, _, false) => return Ok(()),
            (true, _, true) => READING_PAUSES,
            (false, true, _) => BEGIN_SETTING_PAUSES,
            (false, false, true) => BEGIN_READING_PAUSES,
            (false, false, false) => BEGIN,
        };
        if begun || self.layout == Layout::OneServer {
            return Ok(self.client.batch_execute(statement).await?);
        }
        let client = &self.client;
        let buckets = citus::locked_buckets(lock_set);
        let keep_shard = &self.statements.keep_shard;
        let keep = |bucket: i16| async move { client.execute(keep_shard, &[&bucket]).await };
        tokio::try_join!(
            biased;
            client.batch_execute(statement),
            client.batch_execute(&self.settings_of_batch),
            client.batch_execute(citus::UNDER_WAY),
            in_order(buckets.into_iter().map(keep).collect()),
        )?;
        Ok(())
    }

    /// Locks those of the items, the reservations, the counters and the named units that nobody else has locked.
    pub(super) async fn lock_skip_locked_rows(
        &mut self,
        lock_set: &LockSet,
    ) -> Result<SkipLockedResult, DbError> {
        let this = &*self;
        let s = &this.statements;
        let items = ItemArrays::new(lock_set.items.iter());
        let holds = HoldArrays::new(&lock_set.holds);
        let counters = CounterArrays::new(&lock_set.counters)?;
        let ((), items, holds, free, all, units) = tokio::try_join!(
            biased;
            this.begin(lock_set, false),
            this.query(&s.lock_free_items, items.keys.len(), items.params()),
            this.query(&s.lock_free_holds, holds.ids.len(), holds.params()),
            this.query(&s.lock_free_counters, counters.len(), counters.params()),
            this.query(&s.read_counters, counters.len(), counters.params()),
            this.lock_named_units(&s.lock_named_units_that_are_free, &lock_set.units),
        )?;
        self.begun = true;
        let free = free.iter().map(limits::counter_key).collect::<Result<BTreeSet<_>, _>>()?;
        let mut others = all.iter().map(limits::counter_key).collect::<Result<BTreeSet<_>, _>>()?;
        others.retain(|key| !free.contains(key));
        Ok(SkipLockedResult {
            items: items.iter().map(|row| Ok(rows::item(row)?.key)).collect::<Result<_, DbError>>()?,
            holds: holds.iter().map(rows::id).collect::<Result<_, _>>()?,
            units: units.into_iter().map(|(item, unit)| (item, unit.id)).collect(),
            counters_of_others: others,
        })
    }

    /// What needs no lock of its own: items' locks, or the lock of the pauses, keep it as it is. Keys come last: halls are not
    /// locked, and who sees that another has taken the last unit has to see the key that it was taken with.
    fn load_unlocked<'a>(
        &'a self,
        lock_set: &'a LockSet,
        reads_keys: bool,
    ) -> impl Future<Output = Result<UnlockedRows, DbError>> + Send + 'a {
        let s = &self.statements;
        let mut pauses: Vec<&str> = lock_set.pauses.iter().map(String::as_str).collect();
        if lock_set.limits && pauses.first().is_none_or(|first| !first.is_empty()) {
            pauses.push(EVERYTHING);
        }
        let keys = KeyArrays::new(lock_set.keys.iter().filter(|_| reads_keys));
        async move {
            let (pauses, due, counted_due, any_due, any_release, units, keys) = tokio::try_join!(
                biased;
                self.query(&s.read_pauses, pauses.len(), vec![&pauses]),
                self.due(&lock_set.due),
                self.counted_due(&lock_set.counted_due),
                self.any_due(lock_set.any_due.unwrap_or(0)),
                self.any_release(lock_set.any_release.unwrap_or(0)),
                self.read_units(&lock_set.units),
                self.query(&s.read_keys, keys.hashes.len(), keys.params(self.layout)),
            )?;
            let mut limits_version = None;
            let mut locations = BTreeSet::new();
            for row in &pauses {
                let location: String = row.try_get("location")?;
                if lock_set.limits && location == EVERYTHING {
                    limits_version = Some(row.try_get("limits_version")?);
                }
                if row.try_get("paused")? {
                    locations.insert(location);
                }
            }
            let rows = Rows {
                paused: locations,
                counted_due,
                keys: keys.iter().map(key_record).collect::<Result<_, _>>()?,
                due,
                any_due,
                any_release,
                units,
                ..Rows::default()
            };
            Ok(UnlockedRows { rows, limits_version })
        }
    }

    /// Those of the keys that were used.
    pub(super) async fn read_used_keys(&self, keys: &BTreeSet<KeyHash>) -> Result<Vec<KeyRecord>, DbError> {
        let keys = KeyArrays::new(keys.iter());
        let found =
            self.query(&self.statements.read_keys, keys.hashes.len(), keys.params(self.layout)).await?;
        found.iter().map(key_record).collect()
    }

    async fn due(
        &self,
        depths: &BTreeMap<ItemKey, usize>,
    ) -> Result<BTreeMap<ItemKey, BTreeSet<Deadline>>, DbError> {
        let items = ItemArrays::new(depths.keys());
        let depth = |key: &&ItemKey| depths.get(*key).copied().map_or(0, rows::rows);
        let wanted: Vec<i64> = items.keys.iter().map(depth).collect();
        let params = items.wanted(&wanted);
        let found = self.query(&self.statements.read_due, items.keys.len(), params).await?;
        let mut deadlines = vec![BTreeSet::new(); items.keys.len()];
        for row in &found {
            let number: i64 = row.try_get("number")?;
            let of_item = usize::try_from(number - 1).ok().and_then(|number| deadlines.get_mut(number));
            let of_item =
                of_item.ok_or_else(|| DbError::InvariantViolated("a deadline of no item".to_owned()))?;
            of_item.insert(rows::deadline(row)?);
        }
        Ok(items.keys.into_iter().cloned().zip(deadlines).collect())
    }

    async fn any_due(&self, depth: usize) -> Result<BTreeSet<Deadline>, DbError> {
        let (due, id) = rows::after(None);
        let limit = rows::rows(depth);
        let rows = self.query(&self.statements.read_any_due, depth, vec![&limit, &due, &id]).await?;
        rows.iter().map(rows::deadline).collect()
    }

    async fn any_release(&self, depth: usize) -> Result<BTreeSet<Release>, DbError> {
        let (due, location, sku) = rows::after_release(None);
        let limit = rows::rows(depth);
        let rows =
            self.query(&self.statements.read_any_release, depth, vec![&limit, &due, &location, &sku]).await?;
        rows.iter().map(rows::release).collect()
    }
}

/// The bucket that the events of a batch go to: that of its first item, so that a batch of one bucket is written at one place.
fn bucket_of_events(items: &ItemArrays<'_>, holds: &HoldArrays) -> u16 {
    let of_item = items.keys.first().map(|key| bucket_of(key));
    of_item.or_else(|| holds.buckets.first().map(|bucket| bucket.cast_unsigned())).unwrap_or(0)
}

fn with_items_and_holds(rest: Rows, items: &[Row], holds: &[Row]) -> Result<Rows, DbError> {
    Ok(Rows {
        items: items.iter().map(rows::item).collect::<Result<_, _>>()?,
        holds: holds.iter().map(hold).collect::<Result<_, _>>()?,
        ..rest
    })
}

pub(super) fn hold(row: &Row) -> Result<Hold, DbError> {
    hold_from(row.try_get("body")?)
}

fn key_record(row: &Row) -> Result<KeyRecord, DbError> {
    key_from(row.try_get("body")?)
}
