//! Limits, their counters and the queues of deadlines of these, as PostgreSQL keeps them.

use super::connect::PostgresConnection;
use super::params::Params;
use super::rows::{self, stored, uuid};
use crate::engine::{
    Changes, CountedHoldRow, CounterRow, DbError, Deadline, limit_body, limit_from, live_generation,
    subject_column, subject_from,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stockhold_domain::{CounterKey, Instant, Label, Limit, LimitCounter, LimitSet, Subject};
use tokio_postgres::Row;
use uuid::Uuid;

/// Keys of counters as the arrays that statements take.
#[derive(Default)]
pub(super) struct CounterArrays<'a> {
    limits: Vec<&'a str>,
    generations: Vec<i64>,
    subjects: Vec<Vec<u8>>,
}

impl<'a> CounterArrays<'a> {
    pub(super) fn new(keys: impl IntoIterator<Item = &'a CounterKey>) -> Result<Self, DbError> {
        let mut all = Self::default();
        for key in keys {
            all.limits.push(key.limit.as_str());
            all.generations.push(stored(key.generation)?);
            all.subjects.push(subject_column(&key.subject));
        }
        Ok(all)
    }

    pub(super) fn len(&self) -> usize {
        self.limits.len()
    }

    pub(super) fn params(&self) -> Params<'_> {
        vec![&self.limits, &self.generations, &self.subjects]
    }
}

/// A counter from its row.
pub(super) fn counter(row: &Row) -> Result<(CounterKey, LimitCounter), DbError> {
    Ok((counter_key(row)?, count(row)?))
}

/// The key of a counter.
pub(super) fn counter_key(row: &Row) -> Result<CounterKey, DbError> {
    Ok(CounterKey {
        limit: rows::label(row, "limit_id")?,
        generation: rows::figure(row, "generation")?,
        subject: subject_from(row.try_get("subject")?)?,
    })
}

fn count(row: &Row) -> Result<LimitCounter, DbError> {
    Ok(LimitCounter { held: rows::figure(row, "held")?, sold: rows::figure(row, "sold")? })
}

impl PostgresConnection {
    /// The limits of a version that was read: those in memory if they have it, else those of the database.
    pub(super) async fn limits(&self, version: Option<i64>) -> Result<Option<Arc<LimitSet>>, DbError> {
        let Some(version) = version else { return Ok(None) };
        if let Some(known) = self.limits.of_version(version) {
            return Ok(Some(known));
        }
        let rows = self.client.query(&self.statements.read_limits, &[]).await?;
        let mut set = LimitSet::default();
        let mut version = version;
        for row in &rows {
            version = row.try_get("limits_version")?;
            if let Some(body) = row.try_get::<_, Option<&[u8]>>("body")? {
                set.put(limit_from(body)?);
            }
        }
        let set = Arc::new(set);
        self.limits.put(version, Arc::clone(&set));
        Ok(Some(set))
    }

    /// The earliest deadlines of the reservations that counters count.
    pub(super) async fn counted_due(
        &self,
        depths: &BTreeMap<CounterKey, usize>,
    ) -> Result<BTreeMap<CounterKey, BTreeSet<Deadline>>, DbError> {
        let counters = CounterArrays::new(depths.keys())?;
        let wanted: Vec<i64> = depths.values().copied().map(rows::rows).collect();
        let mut params = counters.params();
        params.push(&wanted);
        let found = self.query(&self.statements.read_counted_due, counters.len(), params).await?;
        let mut deadlines = vec![BTreeSet::new(); counters.len()];
        for row in &found {
            let number: i64 = row.try_get("number")?;
            let of_counter = usize::try_from(number - 1).ok().and_then(|number| deadlines.get_mut(number));
            let of_counter = of_counter
                .ok_or_else(|| DbError::InvariantViolated("a deadline of no counter".to_owned()))?;
            of_counter.insert(rows::deadline(row)?);
        }
        Ok(depths.keys().cloned().zip(deadlines).collect())
    }

    pub(super) async fn page_of_counters(
        &self,
        of: &Limit,
        after: Option<&Subject>,
        limit: usize,
    ) -> Result<Vec<(Subject, LimitCounter)>, DbError> {
        let after = after.map(subject_column).unwrap_or_default();
        let generation = stored(of.generation)?;
        let page = &self.statements.counter_page;
        let rows =
            self.client.query(page, &[&of.id.as_str(), &generation, &after, &rows::rows(limit)]).await?;
        rows.iter().map(|row| Ok((subject_from(row.try_get("subject")?)?, count(row)?))).collect()
    }

    pub(super) async fn delete_ended_counters(
        &self,
        of: &Label,
        generation: u64,
        limit: usize,
    ) -> Result<usize, DbError> {
        let (generation, limit) = (stored(generation)?, rows::rows(limit));
        let statement = &self.statements.forget_counters;
        let gone = self.client.execute(statement, &[&of.as_str(), &generation, &limit]).await?;
        let archived = "DELETE FROM stockhold.archived_counters WHERE limit_id = $1 AND generation < $2";
        self.client.execute(archived, &[&of.as_str(), &generation]).await?;
        Ok(usize::try_from(gone).unwrap_or(usize::MAX))
    }

    /// Writes what a batch changed of limits.
    pub(super) async fn write_limits(&self, changes: &Changes<'_>) -> Result<(), DbError> {
        let s = &self.statements;
        let limits = LimitRows::new(&changes.limits.set)?;
        let new = CounterRows::new(&changes.limits.new_counters)?;
        let updated = CounterRows::new(&changes.limits.changed_counters)?;
        let gone = CounterArrays::new(changes.limits.gone_counters.iter().copied())?;
        let gone_holds = CountedHoldRows::new(&changes.limits.gone_holds)?;
        let new_holds = CountedHoldRows::new(&changes.limits.new_holds)?;
        let at = changes.events.last().map_or(0, |event| event.at.micros());
        tokio::try_join!(
            biased;
            self.put(&s.set_limits, limits.ids.len(), limits.params()),
            self.put(&s.raise_limits_version, limits.ids.len(), vec![&at]),
            self.put(&s.delete_counters, gone.len(), gone.params()),
            self.put(&s.update_counters, updated.keys.len(), updated.params()),
            self.put(&s.insert_counters, new.keys.len(), new.params()),
            self.put(&s.delete_counted_holds, gone_holds.ids.len(), gone_holds.params()),
            self.put(&s.insert_counted_holds, new_holds.ids.len(), new_holds.params()),
        )?;
        Ok(())
    }
}

struct LimitRows<'a> {
    ids: Vec<&'a str>,
    versions: Vec<i64>,
    generations: Vec<i64>,
    bodies: Vec<Vec<u8>>,
}

impl<'a> LimitRows<'a> {
    fn new(limits: &[&'a Limit]) -> Result<Self, DbError> {
        let generation = |limit: &&Limit| stored(live_generation(limit));
        Ok(Self {
            ids: limits.iter().map(|limit| limit.id.as_str()).collect(),
            versions: limits.iter().map(|limit| stored(limit.version)).collect::<Result<_, _>>()?,
            generations: limits.iter().map(generation).collect::<Result<_, _>>()?,
            bodies: limits.iter().map(|limit| limit_body(limit)).collect(),
        })
    }

    fn params(&self) -> Params<'_> {
        vec![&self.ids, &self.versions, &self.generations, &self.bodies]
    }
}

struct CounterRows<'a> {
    keys: CounterArrays<'a>,
    held: Vec<i64>,
    sold: Vec<i64>,
}

impl<'a> CounterRows<'a> {
    fn new(counters: &[CounterRow<'a>]) -> Result<Self, DbError> {
        Ok(Self {
            keys: CounterArrays::new(counters.iter().map(|row| row.key))?,
            held: counters.iter().map(|row| stored(row.counter.held)).collect::<Result<_, _>>()?,
            sold: counters.iter().map(|row| stored(row.counter.sold)).collect::<Result<_, _>>()?,
        })
    }

    fn params(&self) -> Params<'_> {
        let mut params = self.keys.params();
        params.push(&self.held);
        params.push(&self.sold);
        params
    }
}

/// Rows of the queues of counters as the arrays that statements take.
pub(super) struct CountedHoldRows<'a> {
    keys: CounterArrays<'a>,
    expires_at: Vec<i64>,
    ids: Vec<Uuid>,
}

impl<'a> CountedHoldRows<'a> {
    pub(super) fn new(holds: &[CountedHoldRow<'a>]) -> Result<Self, DbError> {
        Ok(Self {
            keys: CounterArrays::new(holds.iter().map(|row| row.key))?,
            expires_at: holds.iter().map(|row| row.deadline.0).map(Instant::micros).collect(),
            ids: holds.iter().map(|row| uuid(row.deadline.1)).collect(),
        })
    }

    pub(super) fn params(&self) -> Params<'_> {
        let mut params = self.keys.params();
        params.push(&self.expires_at);
        params.push(&self.ids);
        params
    }
}
