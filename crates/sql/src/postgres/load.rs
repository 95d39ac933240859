//! Reading state, with locks and without.

use super::connect::Connection;
use super::rows::{self, HoldArrays, ItemArrays, KeyArrays};
use super::units;
use crate::engine::{Deadline, Free, Locked, Rows, Trouble, Wants, hold_from, key_from};
use core::future::Future;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{Hold, Instant, ItemKey, KeyRecord};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// Locks of tables are given in the order they are asked for, so a setter has its turn however many readers come; and they
/// write nothing, where a shared lock of a row that everybody reads would write it each time.
const BEGIN_READING_PAUSES: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; LOCK TABLE stockhold.pauses IN ROW SHARE MODE";
const BEGIN_SETTING_PAUSES: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; LOCK TABLE stockhold.pauses IN EXCLUSIVE MODE";

impl Connection {
    /// Runs a statement over arrays, unless they are empty.
    pub(super) async fn query(
        &self,
        statement: &Statement,
        count: usize,
        arrays: Vec<&(dyn ToSql + Sync)>,
    ) -> Result<Vec<Row>, Trouble> {
        if count == 0 {
            return Ok(Vec::new());
        }
        Ok(self.client.query(statement, &arrays).await?)
    }

    /// Without locks, sent together.
    pub(super) async fn load(&self, wants: &Wants) -> Result<Rows, Trouble> {
        let s = &self.statements;
        let items = ItemArrays::new(wants.all_items());
        let holds = HoldArrays::new(&wants.holds);
        let (items, holds, rest, free) = tokio::try_join!(
            biased;
            self.query(&s.read_items, items.keys.len(), items.params()),
            self.query(&s.read_holds, holds.ids.len(), vec![&holds.buckets, &holds.ids]),
            self.load_unlocked(wants),
            self.read_free_units(&wants.units),
        )?;
        let mut rows = with_items_and_holds(rest, &items, &holds)?;
        units::put(&mut rows, free);
        self.count_all(&mut rows.items).await?;
        Ok(rows)
    }

    /// Begins, locks, reads the clock, reads the state: separate statements in this order, sent together. A statement sees
    /// what was committed before it began, so only one that comes after the locks sees what they waited for, and the clock
    /// shows a time at which the locks were held.
    pub(super) async fn lock_and_load(&mut self, wants: &Wants) -> Result<Locked, Trouble> {
        let begun = core::mem::take(&mut self.begun);
        let this = &*self;
        let s = &this.statements;
        let items = ItemArrays::new(wants.items.iter());
        let holds = HoldArrays::new(&wants.holds);
        let seen = ItemArrays::new(wants.seen.iter());
        let ((), items, holds, locked, clock, seen, rest) = tokio::try_join!(
            biased;
            this.begin(wants, begun),
            this.query(&s.lock_items, items.keys.len(), items.params()),
            this.query(&s.lock_holds, holds.ids.len(), vec![&holds.buckets, &holds.ids]),
            this.lock_units(&wants.units),
            async { Ok(this.client.query_one(&s.clock_and_serial, &[]).await?) },
            this.query(&s.read_items, seen.keys.len(), seen.params()),
            this.load_unlocked(wants),
        )?;
        let serial: i64 = clock.try_get(1)?;
        let mut rows = with_items_and_holds(rest, &items, &holds)?;
        for row in &seen {
            rows.items.push(rows::item(row)?);
        }
        units::put(&mut rows, locked);
        Ok(Locked {
            now: Instant::from_micros(clock.try_get(0)?),
            serial: u64::try_from(serial).map_err(|_| Trouble::Alarm(format!("the serial {serial}")))?,
            rows,
        })
    }

    async fn begin(&self, wants: &Wants, begun: bool) -> Result<(), Trouble> {
        let statement = match (begun, wants.sets_pauses, wants.pauses.is_empty()) {
            (true, ..) => return Ok(()),
            (false, true, _) => BEGIN_SETTING_PAUSES,
            (false, false, false) => BEGIN_READING_PAUSES,
            (false, false, true) => BEGIN,
        };
        Ok(self.client.batch_execute(statement).await?)
    }

    /// Locks those of the items, the reservations and the named units that nobody else has locked.
    pub(super) async fn lock_what_is_free(&mut self, wants: &Wants) -> Result<Free, Trouble> {
        let this = &*self;
        let s = &this.statements;
        let items = ItemArrays::new(wants.items.iter());
        let holds = HoldArrays::new(&wants.holds);
        let ((), items, holds, units) = tokio::try_join!(
            biased;
            async { Ok::<_, Trouble>(this.client.batch_execute(BEGIN).await?) },
            this.query(&s.lock_free_items, items.keys.len(), items.params()),
            this.query(&s.lock_free_holds, holds.ids.len(), vec![&holds.buckets, &holds.ids]),
            this.lock_named_units(&s.lock_named_units_that_are_free, &wants.units),
        )?;
        self.begun = true;
        Ok(Free {
            items: items.iter().map(|row| Ok(rows::item(row)?.key)).collect::<Result<_, Trouble>>()?,
            holds: holds.iter().map(rows::id).collect::<Result<_, _>>()?,
            units: units.into_iter().map(|(item, unit)| (item, unit.id)).collect(),
        })
    }

    /// What needs no lock of its own: items' locks, or the lock of the pauses, keep it as it is. Keys come last: halls are not
    /// locked, and who sees that another has taken the last unit has to see the key that it was taken with.
    fn load_unlocked<'a>(
        &'a self,
        wants: &'a Wants,
    ) -> impl Future<Output = Result<Rows, Trouble>> + Send + 'a {
        let s = &self.statements;
        let pauses: Vec<&str> = wants.pauses.iter().map(String::as_str).collect();
        let keys = KeyArrays::new(wants.keys.iter());
        async move {
            let (pauses, due, any_due, units, keys) = tokio::try_join!(
                biased;
                self.query(&s.read_pauses, pauses.len(), vec![&pauses]),
                self.due(&wants.due),
                self.any_due(wants.any_due.unwrap_or(0)),
                self.read_units(&wants.units),
                self.query(&s.read_keys, keys.hashes.len(), vec![&keys.buckets, &keys.hashes]),
            )?;
            Ok(Rows {
                paused: pauses.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?,
                keys: keys.iter().map(key_record).collect::<Result<_, _>>()?,
                due,
                any_due,
                units,
                ..Rows::default()
            })
        }
    }

    async fn due(
        &self,
        depths: &BTreeMap<ItemKey, usize>,
    ) -> Result<BTreeMap<ItemKey, BTreeSet<Deadline>>, Trouble> {
        let items = ItemArrays::new(depths.keys());
        let depth = |key: &&ItemKey| depths.get(*key).copied().map_or(0, rows::rows);
        let wanted: Vec<i64> = items.keys.iter().map(depth).collect();
        let mut params = items.params();
        params.push(&wanted);
        let found = self.query(&self.statements.read_due, items.keys.len(), params).await?;
        let mut deadlines = vec![BTreeSet::new(); items.keys.len()];
        for row in &found {
            let number: i64 = row.try_get("number")?;
            let of_item = usize::try_from(number - 1).ok().and_then(|number| deadlines.get_mut(number));
            let of_item = of_item.ok_or_else(|| Trouble::Alarm("a deadline of no item".to_owned()))?;
            of_item.insert(rows::deadline(row)?);
        }
        Ok(items.keys.into_iter().cloned().zip(deadlines).collect())
    }

    async fn any_due(&self, depth: usize) -> Result<BTreeSet<Deadline>, Trouble> {
        let rows = self.query(&self.statements.read_any_due, depth, vec![&rows::rows(depth)]).await?;
        rows.iter().map(rows::deadline).collect()
    }
}

fn with_items_and_holds(rest: Rows, items: &[Row], holds: &[Row]) -> Result<Rows, Trouble> {
    Ok(Rows {
        items: items.iter().map(rows::item).collect::<Result<_, _>>()?,
        holds: holds.iter().map(hold).collect::<Result<_, _>>()?,
        ..rest
    })
}

pub(super) fn hold(row: &Row) -> Result<Hold, Trouble> {
    hold_from(row.try_get("body")?)
}

fn key_record(row: &Row) -> Result<KeyRecord, Trouble> {
    key_from(row.try_get("body")?)
}
