//! Positions of events on Citus.
//!
//! Events are spread over the workers. A commit that touches two workers becomes visible at one before the other, so of two batches that
//! share an item the later one may be seen first. Positions follow the serials: who numbers reads the newest serial that was drawn, waits
//! until no batch is under way that may have drawn one up to it, and numbers what there is up to it in the order of the serials.
//! No batch waits for that.

use crate::audit::BatchRow;
use crate::engine::{DbError, events_from};
use crate::postgres::connect::PostgresConnection;
use crate::postgres::rows::{self, stored};
use core::time::Duration;
use std::collections::HashMap;
use stockhold_store::EventRow;
use tokio_postgres::Row;

/// Most batches that are numbered at once.
const NUMBERED_AT_ONCE: usize = 8_192;
/// How often is looked whether a batch has ended.
const BATCH_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The newest position, the serial up to which all is numbered, and the largest serial that may have been drawn. This function, unlike
/// a query of the sequence, needs no more rights than a batch.
const LOOK: &str = "
    SELECT position, serial, (coalesce(pg_sequence_last_value('stockhold.event_serial'), 0) + 1) * 1024 - 1 AS drawn
    FROM stockhold.sequencer";
const UNDER_WAY: &str = "
    SELECT DISTINCT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND relation = 'stockhold.feed'::regclass AND mode = 'RowShareLock'
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
const STILL_UNDER_WAY: &str = "
    SELECT EXISTS (
        SELECT FROM pg_locks WHERE locktype = 'relation' AND relation = 'stockhold.feed'::regclass
          AND mode = 'RowShareLock' AND virtualtransaction = ANY ($1::text[])
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
const RECOVER: &str = "SELECT recover_prepared_transactions()";
const LOCK_SEQUENCER: &str = "SELECT position, serial FROM stockhold.sequencer FOR UPDATE";
// Every event has no position in its own row: that condition makes the index over serials fit.
const UNNUMBERED: &str = "
    SELECT bucket, serial, count FROM stockhold.events
    WHERE last_position IS NULL AND serial > $1 AND serial <= $2 ORDER BY serial LIMIT $3";
const UNNUMBERED_BODIES: &str = "
    SELECT serial, count, body FROM stockhold.events WHERE last_position IS NULL AND serial > $1
    ORDER BY serial LIMIT $2";
const NUMBER: &str = "
    INSERT INTO stockhold.feed (last_position, bucket, serial, count)
    SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[])";
const NUMBERED: &str = "UPDATE stockhold.sequencer SET position = $1, serial = $2";
const FEED: &str = "
    SELECT last_position, serial, count FROM stockhold.feed WHERE last_position > $1 ORDER BY last_position LIMIT $2";
const FEED_OF: &str = "
    SELECT last_position, serial, count FROM stockhold.feed WHERE serial = ANY ($1::bigint[])";
const BODIES: &str = "
    SELECT serial, count, body FROM stockhold.events WHERE last_position IS NULL AND serial = ANY ($1::bigint[])";
const ARCHIVED: &str = "
    SELECT coalesce(min(serial), 0), coalesce(max(serial), -1) FROM stockhold.feed
    WHERE last_position > $1 AND last_position <= $2";

impl PostgresConnection {
    /// As [`crate::engine::Session::number`].
    pub(in crate::postgres) async fn number_feed(&self) -> Result<u64, DbError> {
        let row = self.client.query_one(LOOK, &[]).await?;
        let (numbered, drawn): (i64, i64) = (row.try_get("serial")?, row.try_get("drawn")?);
        if numbered >= drawn {
            return position(row.try_get("position")?);
        }
        self.wait_for_batches().await?;
        self.recover_in_doubt().await?;
        loop {
            self.client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
            let done = self.number_some(drawn).await;
            self.client.batch_execute(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
            let (newest, found) = done?;
            if found < NUMBERED_AT_ONCE {
                return position(newest);
            }
        }
    }

    /// Waits for the batches that are under way now, and for no other.
    async fn wait_for_batches(&self) -> Result<(), DbError> {
        let rows = self.client.query(UNDER_WAY, &[]).await?;
        let batches = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
        if batches.is_empty() {
            return Ok(());
        }
        while self.client.query_one(STILL_UNDER_WAY, &[&batches]).await?.try_get::<_, bool>(0)? {
            tokio::time::sleep(BATCH_POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Ends the transactions that a lost worker or coordinator has left prepared. A batch of which a part is prepared is not seen there,
    /// and a later one of the same item could be numbered before it.
    pub(super) async fn recover_in_doubt(&self) -> Result<(), DbError> {
        self.clear_warnings();
        self.client.query_one(RECOVER, &[]).await?;
        if self.was_warned() {
            let why = "Citus could not end the transactions that a lost node has left";
            return Err(DbError::ConnectionLost(why.to_owned()));
        }
        Ok(())
    }

    /// The newest position, and how many batches were numbered.
    async fn number_some(&self, drawn: i64) -> Result<(i64, usize), DbError> {
        let row = self.client.query_one(LOCK_SEQUENCER, &[]).await?;
        let (mut newest, numbered): (i64, i64) = (row.try_get("position")?, row.try_get("serial")?);
        let most = rows::rows(NUMBERED_AT_ONCE);
        let found = self.client.query(UNNUMBERED, &[&numbered, &drawn, &most]).await?;
        let (mut positions, mut buckets, mut serials, mut counts) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for row in &found {
            let count: i64 = row.try_get("count")?;
            newest += count;
            positions.push(newest);
            buckets.push(row.try_get::<_, i16>("bucket")?);
            serials.push(row.try_get::<_, i64>("serial")?);
            counts.push(count);
        }
        if let Some(last) = serials.last() {
            // All up to what was drawn, unless there may be more.
            let numbered = if found.len() < NUMBERED_AT_ONCE { drawn.max(numbered) } else { *last };
            self.client.execute(NUMBER, &[&positions, &buckets, &serials, &counts]).await?;
            self.client.execute(NUMBERED, &[&newest, &numbered]).await?;
        }
        Ok((newest, found.len()))
    }

    /// Numbered batches after a position, the last of their positions each.
    pub(in crate::postgres) async fn numbered_batches(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<Vec<BatchRow>, DbError> {
        let feed = self.client.query(FEED, &[&after, &rows::rows(limit)]).await?;
        let found = self.bodies(&serials(&feed)?).await?;
        let mut batches: Vec<BatchRow> = with_positions(found, &feed)?;
        batches.sort_by_key(|batch| batch.last_position);
        Ok(batches)
    }

    /// Batches without a position after a serial.
    pub(in crate::postgres) async fn unnumbered_batches(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<Vec<BatchRow>, DbError> {
        let row = self.client.query_one("SELECT serial FROM stockhold.sequencer", &[]).await?;
        let after = after.max(row.try_get(0)?);
        let found = self.client.query(UNNUMBERED_BODIES, &[&after, &rows::rows(limit)]).await?;
        found.iter().map(batch).collect()
    }

    /// Batches by their serials, those that there are.
    pub(in crate::postgres) async fn batches_of(&self, serials: &[u64]) -> Result<Vec<BatchRow>, DbError> {
        let serials = serials.iter().map(|serial| stored(*serial)).collect::<Result<Vec<i64>, _>>()?;
        if serials.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.bodies(&serials).await?;
        let feed = self.client.query(FEED_OF, &[&serials]).await?;
        with_positions(found, &feed)
    }

    /// The events of numbered batches, in the order of their serials.
    pub(in crate::postgres) async fn numbered_batches_of(
        &self,
        serials: &[u64],
    ) -> Result<Vec<EventRow>, DbError> {
        let found = self.batches_of(serials).await?;
        let by_serial: HashMap<u64, &BatchRow> = found.iter().map(|batch| (batch.serial, batch)).collect();
        let mut events = Vec::new();
        for batch in serials.iter().filter_map(|serial| by_serial.get(serial)) {
            if let Some(last) = batch.last_position {
                events.append(&mut events_from(&batch.body, last, batch.count)?);
            }
        }
        Ok(events)
    }

    /// Deletes the events of positions after `from` and up to `to`. Returns the number of batches.
    pub(in crate::postgres) async fn delete_numbered(&self, from: i64, to: i64) -> Result<u64, DbError> {
        let row = self.client.query_one(ARCHIVED, &[&from, &to]).await?;
        let (first, last): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let text = "DELETE FROM stockhold.events WHERE serial >= $1 AND serial <= $2";
        let gone = self.client.execute(text, &[&first, &last]).await?;
        let text = "DELETE FROM stockhold.feed WHERE last_position > $1 AND last_position <= $2";
        self.client.execute(text, &[&from, &to]).await?;
        Ok(gone)
    }

    async fn bodies(&self, serials: &Vec<i64>) -> Result<Vec<BatchRow>, DbError> {
        if serials.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.client.query(BODIES, &[serials]).await?;
        found.iter().map(batch).collect()
    }
}

fn serials(rows: &[Row]) -> Result<Vec<i64>, DbError> {
    Ok(rows.iter().map(|row| row.try_get("serial")).collect::<Result<_, _>>()?)
}

fn with_positions(mut batches: Vec<BatchRow>, feed: &[Row]) -> Result<Vec<BatchRow>, DbError> {
    let mut positions = HashMap::new();
    for row in feed {
        positions.insert(position(row.try_get("serial")?)?, row.try_get::<_, i64>("last_position")?);
    }
    for batch in &mut batches {
        batch.last_position = positions.get(&batch.serial).copied();
    }
    Ok(batches)
}

fn batch(row: &Row) -> Result<BatchRow, DbError> {
    Ok(BatchRow {
        serial: position(row.try_get("serial")?)?,
        count: row.try_get("count")?,
        last_position: None,
        body: row.try_get("body")?,
    })
}

fn position(value: i64) -> Result<u64, DbError> {
    u64::try_from(value).map_err(|_| DbError::InvariantViolated(format!("the position {value}")))
}
