//! The rest of what a session does: queries, positions, and the contract's methods in one place.
//!
//! Positions are given by a sequencer, after the commit: a reader of events first numbers the committed rows that have
//! no position, while it holds the lock of the sequencer's one row. So positions are dense (they are counted, not drawn), a reader
//! that resumes after one misses nothing (what becomes visible later is numbered later), and no commit waits for
//! another's position. Rows that are numbered together follow their serials, which were drawn under the batches' locks:
//! of two that touched the same item, the one decided first comes first.

use super::citus::Layout;
use super::connect::PostgresConnection;
use super::load::hold;
use super::rows::{self, column, uuid};
use crate::engine::{
    Changes, CommitOutcome, CommitSent, DbError, Deadline, LockSet, LockedRows, Release, ReservationScan,
    Rows, ScanKey, ScanPage, Session, SkipLockedResult, event_bucket, events_from, serials_from,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use stockhold_domain::{
    Instant, Item, ItemKey, KeyHash, KeyRecord, Label, Limit, LimitCounter, LimitSet, Record, RecordKind,
    ReservationId, Subject, Unit, bucket_of,
};
use stockhold_store::{CustomerRequest, CustomerResult, EventRow, ItemPageRequest};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Here, and only here, two sets of many rows are joined, both sorted by their serials.
const BEGIN_NUMBERING: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL enable_mergejoin = on; SET LOCAL enable_hashjoin = on";
/// Most rows of events that are numbered at once.
const NUMBERED_AT_ONCE: usize = 8_192;

impl Session for PostgresConnection {
    fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    async fn read(&mut self, lock_set: &LockSet) -> Result<Rows, DbError> {
        self.load(lock_set).await
    }

    async fn lock(&mut self, lock_set: &LockSet) -> Result<LockedRows, DbError> {
        self.lock_and_load(lock_set).await
    }

    fn reads_keys_after_locking(&self) -> bool {
        self.layout == Layout::Citus
    }

    async fn used_keys(&mut self, keys: &BTreeSet<KeyHash>) -> Result<Vec<KeyRecord>, DbError> {
        self.read_used_keys(keys).await
    }

    async fn commit(&mut self, changes: &Changes<'_>, sent: &CommitSent) -> Result<CommitOutcome, DbError> {
        Box::pin(self.write_and_commit(changes, sent)).await
    }

    async fn roll_back(&mut self) -> Result<(), DbError> {
        self.begun = false;
        Ok(self.client.batch_execute("ROLLBACK").await?)
    }

    async fn shelf(&mut self, page: &ItemPageRequest) -> Result<Vec<Item>, DbError> {
        let s = &self.statements;
        let limit = rows::rows(page.limit);
        let after = page.after.as_ref();
        let rows = match &page.location {
            Some(location) => {
                // Another location's item has this one before it as a whole, or behind it.
                let sku = match after.map(|key| (key.location().cmp(location.as_str()), key.sku())) {
                    Some((core::cmp::Ordering::Greater, _)) => return Ok(Vec::new()),
                    Some((core::cmp::Ordering::Equal, sku)) => sku,
                    Some((core::cmp::Ordering::Less, _)) | None => "",
                };
                self.client.query(&s.shelf_at, &[&location.as_str(), &sku, &limit]).await?
            }
            None => {
                let (location, sku) = after.map_or(("", ""), |key| (key.location(), key.sku()));
                self.client.query(&s.shelf, &[&location, &sku, &limit]).await?
            }
        };
        let mut items = rows.iter().map(rows::item).collect::<Result<Vec<_>, _>>()?;
        self.count_all(&mut items).await?;
        Ok(items)
    }

    async fn units(
        &mut self,
        item: &ItemKey,
        after: Option<&(u64, Label)>,
        limit: usize,
    ) -> Result<Vec<Unit>, DbError> {
        self.page_of_units(item, after, limit).await
    }

    async fn unit(&mut self, item: &ItemKey, unit: &Label) -> Result<Option<(Unit, Vec<u64>)>, DbError> {
        self.one_unit(item, unit).await
    }

    async fn paused(&mut self) -> Result<Vec<String>, DbError> {
        let rows = self.client.query(&self.statements.paused, &[]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    async fn due_payments(&mut self, now: Instant, limit: usize) -> Result<Vec<ReservationId>, DbError> {
        let found =
            self.client.query(&self.statements.due_payments, &[&now.micros(), &rows::rows(limit)]).await?;
        found.iter().map(rows::id).collect()
    }

    async fn record_page(
        &mut self,
        kind: RecordKind,
        after: Option<&Label>,
        limit: usize,
    ) -> Result<Vec<Record>, DbError> {
        let after = after.map_or("", Label::as_str);
        let page = &self.statements.record_page;
        let rows = self.client.query(page, &[&kind.name(), &after, &rows::rows(limit)]).await?;
        rows.iter().map(rows::record).collect()
    }

    async fn customers(&mut self, request: &CustomerRequest) -> Result<CustomerResult, DbError> {
        self.run_customer_request(request).await
    }

    fn known_limits(&self) -> Arc<LimitSet> {
        self.limits.newest()
    }

    async fn counter_page(
        &mut self,
        of: &Limit,
        after: Option<&Subject>,
        limit: usize,
    ) -> Result<Vec<(Subject, LimitCounter)>, DbError> {
        self.page_of_counters(of, after, limit).await
    }

    async fn forget_counters(&mut self, of: &Label, generation: u64, limit: usize) -> Result<usize, DbError> {
        self.delete_ended_counters(of, generation, limit).await
    }

    async fn scan(&mut self, scan: &ReservationScan<'_>) -> Result<ScanPage, DbError> {
        let s = &self.statements;
        let status = scan.status.map(rows::status);
        let before = scan.before.map_or(Uuid::max(), Uuid::from_u128);
        let limit = rows::rows(scan.limit);
        let rows = match scan.key {
            ScanKey::Order(order) => {
                let before = scan.before.map_or(i64::MAX, |number| i64::try_from(number).unwrap_or(i64::MAX));
                self.client.query(&s.scan_order, &[&status, &before, &limit, &order.as_str()]).await?
            }
            ScanKey::Owner(owner) => {
                self.client.query(&s.scan_owner, &[&status, &before, &limit, &owner.as_str()]).await?
            }
            ScanKey::Sku(sku) => {
                self.client.query(&s.scan_sku, &[&status, &before, &limit, &sku.as_str()]).await?
            }
            ScanKey::All => self.client.query(&s.scan_all, &[&status, &before, &limit]).await?,
        };
        let place = |row: &Row| -> Result<u128, DbError> {
            match scan.key {
                ScanKey::Order(_) => order_number(row.try_get("number")?),
                ScanKey::Owner(_) | ScanKey::Sku(_) | ScanKey::All => Ok(rows::id(row)?.as_u128()),
            }
        };
        let mut holds = Vec::new();
        for row in &rows {
            if row.try_get::<_, Option<&[u8]>>("body")?.is_some() {
                holds.push((place(row)?, hold(row)?));
            }
        }
        let last = rows.last().filter(|_| rows.len() == scan.limit);
        Ok(ScanPage { holds, next: last.map(place).transpose()? })
    }

    async fn serials(&mut self, id: ReservationId) -> Result<Option<Vec<u64>>, DbError> {
        let found =
            self.client.query_opt(&self.statements.read_history, &[&column(id.bucket()), &uuid(id)]).await?;
        let Some(row) = found else { return Ok(None) };
        let mut parts: Vec<&[u8]> = row.try_get("moved")?;
        parts.push(row.try_get("history")?);
        serials_from(&parts.concat()).map(Some)
    }

    async fn batches(&mut self, serials: &[u64]) -> Result<Vec<EventRow>, DbError> {
        if self.layout == Layout::Citus {
            return self.numbered_batches_of(serials).await;
        }
        let buckets: Vec<i16> = serials.iter().map(|serial| column(event_bucket(*serial))).collect();
        let wanted = serials.iter().map(|serial| rows::stored(*serial)).collect::<Result<Vec<i64>, _>>()?;
        let rows = self.client.query(&self.statements.read_batches, &[&buckets, &wanted]).await?;
        let mut events = Vec::new();
        for row in &rows {
            events.append(&mut batch(row)?);
        }
        Ok(events)
    }

    async fn events(&mut self, after: u64, limit: usize) -> Result<Vec<EventRow>, DbError> {
        let Ok(from) = i64::try_from(after) else { return Ok(Vec::new()) };
        let mut events = Vec::new();
        if self.layout == Layout::Citus {
            for batch in self.numbered_batches(from, limit).await? {
                let rows = events_from(&batch.body, batch.last_position.unwrap_or(0), batch.count)?;
                events.extend(rows.into_iter().filter(|row| row.position > after));
            }
        } else {
            let rows = self.client.query(&self.statements.read_events, &[&from, &rows::rows(limit)]).await?;
            for row in &rows {
                if events.len() >= limit {
                    break;
                }
                events.extend(batch(row)?.into_iter().filter(|row| row.position > after));
            }
        }
        events.truncate(limit);
        Ok(events)
    }

    async fn number(&mut self) -> Result<u64, DbError> {
        if self.layout == Layout::Citus {
            return self.number_feed().await;
        }
        let s = &self.statements;
        let position = |row: &Row| -> Result<u64, DbError> {
            let position: i64 = row.try_get("position")?;
            u64::try_from(position)
                .map_err(|_| DbError::InvariantViolated(format!("the position {position}")))
        };
        let row = self.client.query_one(&s.look_for_unnumbered, &[]).await?;
        if !row.try_get::<_, bool>("unnumbered")? {
            return position(&row);
        }
        loop {
            let (client, most) = (&self.client, rows::rows(NUMBERED_AT_ONCE));
            let params: [&(dyn ToSql + Sync); 1] = [&most];
            let ((), before, numbered, ()) = tokio::try_join!(
                biased;
                client.batch_execute(BEGIN_NUMBERING),
                client.query_one(&s.lock_sequencer, &[]),
                client.query_opt(&s.number_events, &params),
                client.batch_execute("COMMIT"),
            )?;
            // Another may have numbered all of them.
            let Some(row) = numbered else { return position(&before) };
            // Nobody waits for what was committed meanwhile: under load there would be no end to it.
            if row.try_get::<_, i64>("numbered")? < most {
                return position(&row);
            }
        }
    }

    async fn is_unfinished(&mut self) -> Result<bool, DbError> {
        Ok(self.client.query_one(&self.statements.look_for_mark, &[]).await?.try_get(0)?)
    }

    async fn overdue(
        &mut self,
        after: Option<Deadline>,
        limit: usize,
    ) -> Result<(Instant, Vec<Deadline>), DbError> {
        let (due, id) = rows::after(after);
        let rows = self.client.query(&self.statements.read_overdue, &[&rows::rows(limit), &due, &id]).await?;
        let first =
            rows.first().ok_or_else(|| DbError::InvariantViolated("the clock shows nothing".to_owned()))?;
        let now = Instant::from_micros(first.try_get("now")?);
        let mut overdue = Vec::new();
        for row in &rows {
            if row.try_get::<_, Option<i64>>("expires_at")?.is_some_and(|due| due <= now.micros()) {
                overdue.push(rows::deadline(row)?);
            }
        }
        Ok((now, overdue))
    }

    async fn releases(
        &mut self,
        after: Option<&Release>,
        limit: usize,
    ) -> Result<(Instant, Vec<Release>), DbError> {
        let (due, location, sku) = rows::after_release(after);
        let params: [&(dyn ToSql + Sync); 4] = [&rows::rows(limit), &due, &location, &sku];
        let rows = self.client.query(&self.statements.read_releases, &params).await?;
        let first =
            rows.first().ok_or_else(|| DbError::InvariantViolated("the clock shows nothing".to_owned()))?;
        let now = Instant::from_micros(first.try_get("now")?);
        let mut releases = Vec::new();
        for row in &rows {
            if row.try_get::<_, Option<i64>>("pool_release_at")?.is_some() {
                releases.push(rows::release(row)?);
            }
        }
        Ok((now, releases))
    }

    async fn lock_skip_locked(&mut self, lock_set: &LockSet) -> Result<SkipLockedResult, DbError> {
        self.lock_skip_locked_rows(lock_set).await
    }

    async fn active_holds(&mut self) -> Result<u64, DbError> {
        let text = "SELECT count(*) FROM stockhold.active_lines WHERE leads";
        let count: i64 = self.client.query_one(text, &[]).await?.try_get(0)?;
        Ok(count.unsigned_abs())
    }

    async fn keep_keys(&mut self, at_least: i64) -> Result<i64, DbError> {
        let kept = "SELECT key_retention FROM stockhold.archived WHERE one";
        let kept: i64 = self.client.query_one(kept, &[]).await?.try_get(0)?;
        if kept < at_least {
            let longer =
                "UPDATE stockhold.archived SET key_retention = greatest(key_retention, $1) WHERE one";
            self.client.execute(longer, &[&at_least]).await?;
        }
        Ok(kept.max(at_least))
    }

    async fn move_release(&mut self, of: &Release, to: Option<Instant>) -> Result<(), DbError> {
        let (from, key) = of;
        let (bucket, to) = (rows::column(bucket_of(key)), to.map(Instant::micros));
        let params: [&(dyn ToSql + Sync); 5] = [&bucket, &key.location(), &key.sku(), &from.micros(), &to];
        self.client.execute(&self.statements.move_release, &params).await?;
        Ok(())
    }

    async fn forget_keys(&mut self, before: Instant, limit: usize) -> Result<usize, DbError> {
        let (before, limit) = (before.micros(), rows::rows(limit));
        let gone = self.client.execute(&self.statements.forget_keys, &[&before, &limit]).await?;
        Ok(usize::try_from(gone).unwrap_or(usize::MAX))
    }
}

fn order_number(number: i64) -> Result<u128, DbError> {
    u128::try_from(number).map_err(|_| DbError::InvariantViolated(format!("the number {number} of an order")))
}

fn batch(row: &Row) -> Result<Vec<EventRow>, DbError> {
    events_from(row.try_get("body")?, row.try_get("last_position")?, row.try_get("count")?)
}
