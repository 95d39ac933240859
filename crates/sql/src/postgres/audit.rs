//! The books, as PostgreSQL keeps them. Nothing here is on anybody's hot path, so statements are not prepared ahead.

use super::citus::{Layout, UNDER_WAY, WRITE_LOCALLY};
use super::connect::PostgresConnection;
use super::limits::{self, CountedHoldRows, CounterArrays};
use super::params::Params;
use super::rows::{self, HoldArrays, ItemArrays, ItemKeys, column, stored, uuid};
use crate::audit::{
    ArchiveBoundary, ArchiveDeletion, ArchiveLease, AuditError, AuditSession, BatchRow, HoldRow, ItemBalance,
    KeyRow, LimitRow, MovedHistories, QueuedLine, marked_file,
};
use crate::engine::{
    CountedHoldRow, DbError, Deadline, Session, event_bucket, item_body, item_from, key_bucket,
    pool_units_body, pool_units_from, subject_column,
};
use std::collections::BTreeSet;
use stockhold_domain::{
    CounterKey, Hold, Instant, ItemKey, KeyHash, Label, LimitCounter, Record, RecordKey, ReservationId,
    bucket_of,
};
use tokio_postgres::Row;
use uuid::Uuid;

/// A page may take long on a machine that has to read it from its disk.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0;
    SET LOCAL idle_in_transaction_session_timeout = 0";
const BEGIN_ARCHIVE_DELETION: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0";
const OPENING: &str =
    "SELECT position, at, file_position, file_hash, lease_holder, lease_until FROM stockhold.archived";

impl PostgresConnection {
    async fn only(&self, text: &str) -> Result<Row, DbError> {
        Ok(self.client.query_one(text, &[]).await?)
    }

    /// Runs a write; another number of rows than it was given is an alarm.
    async fn exactly(&self, count: usize, text: &str, params: Params<'_>) -> Result<(), DbError> {
        are_exactly(count, self.execute_text(text, params).await?, text)
    }
}

fn are_exactly(count: usize, done: u64, what: &str) -> Result<(), DbError> {
    if usize::try_from(done) == Ok(count) {
        return Ok(());
    }
    let found = format!("{done} rows were changed, and it should have been {count}: {what}");
    Err(DbError::InvariantViolated(found))
}

impl AuditSession for PostgresConnection {
    async fn begin_snapshot(&mut self) -> Result<(), DbError> {
        let Some(mut cluster) = self.cluster_snapshot.take() else {
            return Ok(self.client.batch_execute(BEGIN).await?);
        };
        let begun = self.begin_cluster_snapshot(&mut cluster).await;
        self.cluster_snapshot = Some(cluster);
        begun
    }

    async fn end_snapshot(&mut self) -> Result<(), AuditError> {
        self.roll_back().await?;
        let Some(mut cluster) = self.cluster_snapshot.take() else { return Ok(()) };
        let ended = self.end_cluster_snapshot(&mut cluster).await;
        self.cluster_snapshot = Some(cluster);
        ended
    }

    async fn opening(&mut self) -> Result<ArchiveBoundary, DbError> {
        Ok(opening(&self.only(OPENING).await?)?.0)
    }

    async fn newest(&mut self) -> Result<u64, DbError> {
        let row = self.only("SELECT position FROM stockhold.sequencer").await?;
        position(row.try_get(0)?)
    }

    async fn mark(&mut self, unfinished: bool) -> Result<bool, DbError> {
        let text = "UPDATE stockhold.schema_version SET unfinished = $1 WHERE one AND unfinished <> $1";
        Ok(self.client.execute(text, &[&unfinished]).await? == 1)
    }

    async fn balances(&mut self, after: Option<&ItemKey>, limit: usize) -> Result<Vec<ItemBalance>, DbError> {
        let (bucket, location, sku) =
            after.map_or((-1, "", ""), |key| (column(bucket_of(key)), key.location(), key.sku()));
        let text =
            "SELECT sold, pool_sales, body FROM stockhold.archived_items WHERE (bucket, location, sku) > ($1, $2, $3)
             ORDER BY bucket, location, sku LIMIT $4";
        let found = self.rows_of(text, vec![&bucket, &location, &sku, &rows::rows(limit)]).await?;
        found.iter().map(balance).collect()
    }

    async fn balances_of(&mut self, items: &[ItemKey]) -> Result<Vec<ItemBalance>, DbError> {
        let items = ItemArrays::new(items.iter());
        let text = "SELECT a.sold, a.pool_sales, a.body FROM unnest($1::smallint[], $2::text[], $3::text[]) AS want (bucket, location, sku)
             JOIN stockhold.archived_items a
                ON a.bucket = want.bucket AND a.location = want.location AND a.sku = want.sku";
        let found = self.rows_of(text, items.params()).await?;
        found.iter().map(balance).collect()
    }

    async fn pauses(&mut self) -> Result<[Vec<(String, bool)>; 2], DbError> {
        let mut both = [Vec::new(), Vec::new()];
        let tables = ["stockhold.archived_pauses", "stockhold.pauses"];
        for (pauses, table) in both.iter_mut().zip(tables) {
            for row in self.rows_of(&format!("SELECT location, paused FROM {table}"), vec![]).await? {
                pauses.push((row.try_get(0)?, row.try_get(1)?));
            }
        }
        Ok(both)
    }

    async fn numbered(&mut self, after: u64, limit: usize) -> Result<Vec<BatchRow>, DbError> {
        if self.layout == Layout::Citus {
            return self.numbered_batches(stored(after)?, limit).await;
        }
        let text = "SELECT serial, count, last_position, body FROM stockhold.events WHERE last_position > $1
             ORDER BY last_position LIMIT $2";
        let found = self.rows_of(text, vec![&stored(after)?, &rows::rows(limit)]).await?;
        found.iter().map(batch_row).collect()
    }

    async fn unnumbered(&mut self, after: u64, limit: usize) -> Result<Vec<BatchRow>, DbError> {
        if self.layout == Layout::Citus {
            return self.unnumbered_batches(stored(after)?, limit).await;
        }
        let text = "SELECT serial, count, last_position, body FROM stockhold.events
             WHERE last_position IS NULL AND serial > $1 ORDER BY serial LIMIT $2";
        let found = self.rows_of(text, vec![&stored(after)?, &rows::rows(limit)]).await?;
        found.iter().map(batch_row).collect()
    }

    async fn batch_rows(&mut self, serials: &[u64]) -> Result<Vec<BatchRow>, DbError> {
        if self.layout == Layout::Citus {
            return self.batches_of(serials).await;
        }
        let buckets: Vec<i16> = serials.iter().map(|serial| column(event_bucket(*serial))).collect();
        let wanted = serials.iter().map(|serial| stored(*serial)).collect::<Result<Vec<i64>, _>>()?;
        let text = "SELECT e.serial, e.count, e.last_position, e.body
             FROM unnest($1::smallint[], $2::bigint[]) AS want (bucket, serial)
             JOIN stockhold.events e USING (bucket, serial)";
        let found = self.rows_of(text, vec![&buckets, &wanted]).await?;
        found.iter().map(batch_row).collect()
    }

    async fn hold_rows(&mut self, after: ReservationId, limit: usize) -> Result<Vec<HoldRow>, DbError> {
        let text =
            "SELECT id, status, expires_at, owner_id, sku, history, body FROM stockhold.holds WHERE id > $1
             ORDER BY id LIMIT $2";
        let found = self.rows_of(text, vec![&uuid(after), &rows::rows(limit)]).await?;
        let hold = |row: &Row| {
            Ok(HoldRow {
                id: rows::id(row)?,
                status: row.try_get("status")?,
                expires_at: Instant::from_micros(row.try_get("expires_at")?),
                owner_id: row.try_get("owner_id")?,
                sku: row.try_get("sku")?,
                history: row.try_get("history")?,
                body: row.try_get("body")?,
            })
        };
        found.iter().map(hold).collect()
    }

    async fn moved_histories(&mut self, ids: &BTreeSet<ReservationId>) -> Result<MovedHistories, DbError> {
        let HoldArrays { buckets, ids } = HoldArrays::new(ids);
        let text = "SELECT p.id, p.history FROM unnest($1::smallint[], $2::uuid[]) AS want (bucket, id)
             JOIN stockhold.hold_histories p ON p.bucket = want.bucket AND p.id = want.id ORDER BY p.id, p.serial";
        let found = self.rows_of(text, vec![&buckets, &ids]).await?;
        let mut histories = MovedHistories::new();
        for row in &found {
            histories.entry(rows::id(row)?).or_default().extend_from_slice(row.try_get("history")?);
        }
        Ok(histories)
    }

    async fn skus_of(&mut self, holds: &[&Hold]) -> Result<Vec<(ReservationId, String)>, DbError> {
        let HoldArrays { buckets, ids } = HoldArrays::new(&holds.iter().map(|hold| hold.id).collect());
        let text = "SELECT s.id, s.sku FROM unnest($1::smallint[], $2::uuid[]) AS want (bucket, id)
             JOIN stockhold.hold_skus s ON s.bucket = want.bucket AND s.id = want.id";
        let found = self.rows_of(text, vec![&buckets, &ids]).await?;
        found.iter().map(|row| Ok((rows::id(row)?, row.try_get("sku")?))).collect()
    }

    async fn orders_of(&mut self, holds: &[&Hold]) -> Result<Vec<(ReservationId, String)>, DbError> {
        let HoldArrays { buckets, ids } = HoldArrays::new(&holds.iter().map(|hold| hold.id).collect());
        let text = "SELECT o.id, o.order_id FROM unnest($1::smallint[], $2::uuid[]) AS want (bucket, id)
             JOIN stockhold.hold_orders o ON o.bucket = want.bucket AND o.id = want.id";
        let found = self.rows_of(text, vec![&buckets, &ids]).await?;
        found.iter().map(|row| Ok((rows::id(row)?, row.try_get("order_id")?))).collect()
    }

    async fn lines_of(&mut self, holds: &[&Hold]) -> Result<Vec<QueuedLine>, DbError> {
        let mut items = ItemKeys::default();
        let (mut deadlines, mut ids) = (Vec::new(), Vec::<Uuid>::new());
        for hold in holds {
            for line in &*hold.lines {
                items.push(&line.item);
                deadlines.push(hold.expires_at.micros());
                ids.push(uuid(hold.id));
            }
        }
        let text = "SELECT a.id, a.location, a.sku, a.quantity, a.leads
             FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[], $5::uuid[])
                AS want (bucket, location, sku, expires_at, id)
             JOIN stockhold.active_lines a ON a.bucket = want.bucket AND a.location = want.location AND a.sku = want.sku
                AND a.expires_at = want.expires_at AND a.id = want.id";
        let mut params = items.params();
        params.push(&deadlines);
        params.push(&ids);
        let found = self.rows_of(text, params).await?;
        let line = |row: &Row| {
            Ok(QueuedLine {
                id: rows::id(row)?,
                item: ItemKey::new(&label(row, "location")?, &label(row, "sku")?),
                quantity: row.try_get("quantity")?,
                leads: row.try_get("leads")?,
            })
        };
        found.iter().map(line).collect()
    }

    async fn queued(&mut self, items: &[ItemKey]) -> Result<Vec<(u64, u64)>, DbError> {
        let items = ItemKeys::of(items.iter());
        let text = "SELECT found.units, found.lines
             FROM unnest($1::smallint[], $2::text[], $3::text[]) WITH ORDINALITY AS want (bucket, location, sku, number)
             CROSS JOIN LATERAL (
                 SELECT coalesce(sum(a.quantity), 0)::bigint AS units, count(*) AS lines FROM stockhold.active_lines a
                 WHERE a.bucket = want.bucket AND a.location = want.location AND a.sku = want.sku
             ) AS found ORDER BY want.number";
        let found = self.rows_of(text, items.params()).await?;
        found.iter().map(|row| Ok((count(row, 0)?, count(row, 1)?))).collect()
    }

    async fn line_count(&mut self) -> Result<u64, DbError> {
        count(&self.only("SELECT count(*) FROM stockhold.active_lines").await?, 0)
    }

    async fn open_sales(&mut self, item: &ItemKey) -> Result<Vec<(Label, ReservationId)>, DbError> {
        let text = "SELECT unit_id, reservation AS id FROM stockhold.unit_sales
             WHERE bucket = $1 AND location = $2 AND sku = $3 AND returned_at IS NULL";
        let (bucket, location, sku) = (column(bucket_of(item)), item.location(), item.sku());
        let found = self.rows_of(text, vec![&bucket, &location, &sku]).await?;
        found.iter().map(|row| Ok((label(row, "unit_id")?, rows::id(row)?))).collect()
    }

    async fn open_sale_count(&mut self) -> Result<u64, DbError> {
        count(&self.only("SELECT count(*) FROM stockhold.unit_sales WHERE returned_at IS NULL").await?, 0)
    }

    async fn key_rows(&mut self, after: Option<KeyHash>, limit: usize) -> Result<Vec<KeyRow>, DbError> {
        let (bucket, hash) =
            after.map_or((-1, Vec::new()), |key| (column(key_bucket(key)), key.0.to_be_bytes().to_vec()));
        let limit = rows::rows(limit);
        let found = if self.layout == Layout::Citus {
            let text =
                "SELECT hash, used_at, body FROM stockhold.keys WHERE hash > $1 ORDER BY hash LIMIT $2";
            self.rows_of(text, vec![&hash, &limit]).await?
        } else {
            let text = "SELECT hash, used_at, body FROM stockhold.keys WHERE (bucket, hash) > ($1, $2)
                 ORDER BY bucket, hash LIMIT $3";
            self.rows_of(text, vec![&bucket, &hash, &limit]).await?
        };
        let key = |row: &Row| {
            let hash: &[u8] = row.try_get("hash")?;
            let hash = <[u8; 16]>::try_from(hash)
                .map_err(|_| DbError::InvariantViolated("a key's digest has another length".to_owned()))?;
            Ok(KeyRow {
                hash: KeyHash(u128::from_be_bytes(hash)),
                used_at: Instant::from_micros(row.try_get("used_at")?),
                body: row.try_get("body")?,
            })
        };
        found.iter().map(key).collect()
    }

    async fn record_rows(&mut self, after: Option<&RecordKey>, limit: usize) -> Result<Vec<Record>, DbError> {
        let (kind, id) = after.map_or(("", ""), |key| (key.kind.name(), key.id.as_str()));
        let text = "SELECT kind, id, version, value FROM stockhold.records WHERE (kind, id) > ($1, $2)
             ORDER BY kind, id LIMIT $3";
        let found = self.rows_of(text, vec![&kind, &id, &rows::rows(limit)]).await?;
        found.iter().map(rows::record).collect()
    }

    async fn limit_rows(&mut self, after: Option<&Label>, limit: usize) -> Result<Vec<LimitRow>, DbError> {
        let after = after.map_or("", Label::as_str);
        let text =
            "SELECT id, version, generation, body FROM stockhold.limits WHERE id > $1 ORDER BY id LIMIT $2";
        let found = self.rows_of(text, vec![&after, &rows::rows(limit)]).await?;
        let limit = |row: &Row| {
            Ok(LimitRow {
                id: rows::label(row, "id")?,
                version: rows::figure(row, "version")?,
                generation: rows::figure(row, "generation")?,
                body: row.try_get("body")?,
            })
        };
        found.iter().map(limit).collect()
    }

    async fn counter_rows(
        &mut self,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<(CounterKey, LimitCounter)>, DbError> {
        let text = "SELECT limit_id, generation, subject, held, sold FROM stockhold.limit_counters
             WHERE (limit_id, generation, subject) > ($1, $2, $3) ORDER BY limit_id, generation, subject LIMIT $4";
        let found = self.counters_behind(text, after, limit).await?;
        found.iter().map(limits::counter).collect()
    }

    async fn archived_counter_rows(
        &mut self,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<(CounterKey, u64)>, DbError> {
        let text = "SELECT limit_id, generation, subject, sold FROM stockhold.archived_counters
             WHERE (limit_id, generation, subject) > ($1, $2, $3) ORDER BY limit_id, generation, subject LIMIT $4";
        let found = self.counters_behind(text, after, limit).await?;
        found.iter().map(|row| Ok((limits::counter_key(row)?, rows::figure(row, "sold")?))).collect()
    }

    async fn counted_holds_of(
        &mut self,
        rows: &[CountedHoldRow<'_>],
    ) -> Result<Vec<(CounterKey, Deadline)>, DbError> {
        let rows = CountedHoldRows::new(rows)?;
        let text = "SELECT a.limit_id, a.generation, a.subject, a.expires_at, a.id
             FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::uuid[])
                AS want (limit_id, generation, subject, expires_at, id)
             JOIN stockhold.counted_holds a USING (limit_id, generation, subject, expires_at, id)";
        let found = self.rows_of(text, rows.params()).await?;
        found.iter().map(|row| Ok((limits::counter_key(row)?, rows::deadline(row)?))).collect()
    }

    async fn due_payment_rows(&mut self) -> Result<Vec<(ReservationId, Instant)>, DbError> {
        let found = self.rows_of("SELECT id, due_at FROM stockhold.due_payments", vec![]).await?;
        found.iter().map(|row| Ok((rows::id(row)?, rows::instant(row, "due_at")?))).collect()
    }

    async fn counted_hold_count(&mut self) -> Result<u64, DbError> {
        count(&self.only("SELECT count(*) FROM stockhold.counted_holds").await?, 0)
    }

    async fn lease_archive(
        &mut self,
        holder: &str,
        ended_by: Instant,
        until: Instant,
    ) -> Result<ArchiveLease, DbError> {
        let text = "UPDATE stockhold.archived SET lease_holder = $1, lease_until = $3
             WHERE one AND (lease_holder = $1 OR lease_until <= $2)";
        self.client.execute(text, &[&holder, &ended_by.micros(), &until.micros()]).await?;
        Ok(opening(&self.only(OPENING).await?)?.1)
    }

    async fn begin_archive_deletion(&mut self) -> Result<(ArchiveBoundary, ArchiveLease), DbError> {
        self.client.batch_execute(BEGIN_ARCHIVE_DELETION).await?;
        self.begun = true;
        if self.layout == Layout::Citus {
            self.client.batch_execute(UNDER_WAY).await?;
            self.client.batch_execute(WRITE_LOCALLY).await?;
        }
        opening(&self.only(&format!("{OPENING} FOR UPDATE")).await?)
    }

    async fn delete_archived(&mut self, deletion: &ArchiveDeletion<'_>) -> Result<(), DbError> {
        let ArchiveDeletion { from, opening, rows: count, holds, balances, deleted, pauses, counters } =
            deletion;
        let HoldArrays { buckets, ids } = HoldArrays::new(&holds.iter().map(|hold| hold.id).collect());
        self.exactly(
            holds.len(),
            "DELETE FROM stockhold.holds h USING unnest($1::smallint[], $2::uuid[]) AS gone (bucket, id)
             WHERE h.bucket = gone.bucket AND h.id = gone.id",
            vec![&buckets, &ids],
        )
        .await?;
        let text =
            "DELETE FROM stockhold.hold_skus s USING unnest($1::smallint[], $2::uuid[]) AS gone (bucket, id)
             WHERE s.bucket = gone.bucket AND s.id = gone.id";
        self.execute_text(text, vec![&buckets, &ids]).await?;
        let text =
            "DELETE FROM stockhold.hold_histories p USING unnest($1::smallint[], $2::uuid[]) AS gone (bucket, id)
             WHERE p.bucket = gone.bucket AND p.id = gone.id";
        self.execute_text(text, vec![&buckets, &ids]).await?;
        let orders: Vec<ReservationId> =
            holds.iter().filter(|hold| hold.order_id().is_some()).map(|hold| hold.id).collect();
        self.exactly(
            orders.len(),
            "DELETE FROM stockhold.hold_orders o USING unnest($1::smallint[], $2::uuid[]) AS gone (bucket, id)
             WHERE o.bucket = gone.bucket AND o.id = gone.id",
            vec![&buckets, &ids],
        )
        .await?;
        let sales: Vec<_> = deletion.closed_sales().collect();
        let items = ItemKeys::of(sales.iter().map(|(item, ..)| *item));
        let units: Vec<&str> = sales.iter().map(|(_, unit, _)| unit.as_str()).collect();
        let sellers: Vec<Uuid> = sales.iter().map(|(.., id)| uuid(*id)).collect();
        let mut params = items.params();
        params.push(&units);
        params.push(&sellers);
        self.exactly(
            sales.len(),
            "DELETE FROM stockhold.unit_sales s
             USING unnest($1::smallint[], $2::text[], $3::text[], $4::text[], $5::uuid[])
                 AS gone (bucket, location, sku, unit_id, reservation)
             WHERE s.bucket = gone.bucket AND s.location = gone.location AND s.sku = gone.sku
               AND s.unit_id = gone.unit_id AND s.reservation = gone.reservation AND s.returned_at IS NOT NULL",
            params,
        )
        .await?;
        let (from, to) = (stored(*from)?, stored(opening.position)?);
        if self.layout == Layout::Citus {
            are_exactly(*count, self.delete_numbered(from, to).await?, "events")?;
        } else {
            let text = "DELETE FROM stockhold.events WHERE last_position > $1 AND last_position <= $2";
            self.exactly(*count, text, vec![&from, &to]).await?;
        }
        self.stand_instead(balances, pauses).await?;
        self.add_archived_counters(counters).await?;
        let text = "DELETE FROM stockhold.archived_items a
             USING unnest($1::smallint[], $2::text[], $3::text[]) AS gone (bucket, location, sku)
             WHERE a.bucket = gone.bucket AND a.location = gone.location AND a.sku = gone.sku";
        self.execute_text(text, ItemKeys::of(deleted.iter()).params()).await?;
        let (file_position, hash) = match &opening.file {
            Some(file) => (stored(file.last)?, Some(file.sha256.as_slice())),
            None => (0, None),
        };
        let text = "UPDATE stockhold.archived SET position = $1, at = $2, file_position = $3, file_hash = $4 WHERE one";
        let (position, at) = (stored(opening.position)?, opening.at.micros());
        are_exactly(1, self.client.execute(text, &[&position, &at, &file_position, &hash]).await?, text)?;
        Ok(self.client.batch_execute("COMMIT").await?)
    }
}

impl PostgresConnection {
    async fn counters_behind(
        &self,
        text: &str,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<Row>, DbError> {
        let id = after.map_or("", |key| key.limit.as_str());
        let generation = after.map_or(Ok(0), |key| stored(key.generation))?;
        let subject = after.map(|key| subject_column(&key.subject)).unwrap_or_default();
        self.rows_of(text, vec![&id, &generation, &subject, &rows::rows(limit)]).await
    }

    async fn add_archived_counters(&self, counters: &[(&CounterKey, u64)]) -> Result<(), DbError> {
        let keys = CounterArrays::new(counters.iter().map(|(key, _)| *key))?;
        let sold = counters.iter().map(|(_, sold)| stored(*sold)).collect::<Result<Vec<i64>, _>>()?;
        let mut params = keys.params();
        params.push(&sold);
        self.exactly(
            counters.len(),
            "INSERT INTO stockhold.archived_counters AS a (limit_id, generation, subject, sold)
             SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[])
             ON CONFLICT (limit_id, generation, subject) DO UPDATE SET sold = a.sold + excluded.sold",
            params,
        )
        .await
    }

    async fn stand_instead(
        &self,
        balances: &[ItemBalance],
        pauses: &[(String, bool)],
    ) -> Result<(), DbError> {
        let items = ItemKeys::of(balances.iter().map(|balance| &balance.item.key));
        let sold = balances.iter().map(|balance| stored(balance.sold)).collect::<Result<Vec<i64>, _>>()?;
        let pool_sales: Vec<Option<Vec<u8>>> =
            balances.iter().map(|balance| pool_units_body(&balance.pool_sales)).collect();
        let bodies: Vec<Vec<u8>> = balances.iter().map(|balance| item_body(&balance.item)).collect();
        let mut params = items.params();
        params.push(&sold);
        params.push(&pool_sales);
        params.push(&bodies);
        self.exactly(
            balances.len(),
            "INSERT INTO stockhold.archived_items (bucket, location, sku, sold, pool_sales, body)
             SELECT * FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::bytea[])
             ON CONFLICT (bucket, location, sku)
             DO UPDATE SET sold = excluded.sold, pool_sales = excluded.pool_sales, body = excluded.body",
            params,
        )
        .await?;
        let (at, are): (Vec<&str>, Vec<bool>) =
            pauses.iter().map(|(location, paused)| (location.as_str(), *paused)).unzip();
        self.exactly(
            pauses.len(),
            "INSERT INTO stockhold.archived_pauses SELECT * FROM unnest($1::text[], $2::boolean[]) AS n (location, paused)
             ON CONFLICT (location) DO UPDATE SET paused = excluded.paused",
            vec![&at, &are],
        )
        .await
    }
}

fn position(value: i64) -> Result<u64, DbError> {
    u64::try_from(value).map_err(|_| DbError::InvariantViolated(format!("the position {value}")))
}

fn count(row: &Row, column: usize) -> Result<u64, DbError> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|_| DbError::InvariantViolated(format!("the sum {value}")))
}

fn opening(row: &Row) -> Result<(ArchiveBoundary, ArchiveLease), DbError> {
    let boundary = ArchiveBoundary {
        position: position(row.try_get(0)?)?,
        at: Instant::from_micros(row.try_get(1)?),
        file: marked_file(position(row.try_get(2)?)?, row.try_get(3)?)?,
    };
    Ok((boundary, ArchiveLease { holder: row.try_get(4)?, until: Instant::from_micros(row.try_get(5)?) }))
}

fn balance(row: &Row) -> Result<ItemBalance, DbError> {
    Ok(ItemBalance {
        item: item_from(row.try_get("body")?)?,
        sold: count(row, 0)?,
        pool_sales: pool_units_from(row.try_get("pool_sales")?)?,
    })
}

fn batch_row(row: &Row) -> Result<BatchRow, DbError> {
    Ok(BatchRow {
        serial: position(row.try_get("serial")?)?,
        count: row.try_get("count")?,
        last_position: row.try_get("last_position")?,
        body: row.try_get("body")?,
    })
}

fn label(row: &Row, column: &str) -> Result<Label, DbError> {
    let text: &str = row.try_get(column)?;
    Label::new(text).map_err(|error| DbError::InvariantViolated(format!("a line's {column} {error}")))
}
