//! The rest of what a session does: queries, positions, and the contract's methods in one place.
//!
//! Positions are given by a sequencer, after the commit: a reader of events first numbers the committed rows that have
//! no position, while it holds the lock of the sequencer's one row. So positions are dense (they are counted, not drawn), a reader
//! that resumes after one misses nothing (what becomes visible later is numbered later), and no commit waits for
//! another's position. Rows that are numbered together follow their serials, which were drawn under the batches' locks:
//! of two that touched the same item, the one decided first comes first.

use super::connect::{MysqlConnection, NO_LIMIT_OF_REST};
use super::limit_statements;
use super::numbering;
use super::rows;
use super::script::Script;
use super::statements;
use crate::engine::{
    Changes, CommitOutcome, CommitSent, DbError, Deadline, LockSet, LockedRows, Release, ReservationScan,
    Rows, ScanKey, ScanPage, Session, SkipLockedResult, events_from, hold_from, jitter, serials_from,
};
use core::cmp::Ordering;
use core::time::Duration;
use mysql_async::Row;
use std::collections::BTreeMap;
use std::sync::Arc;
use stockhold_domain::{
    Instant, Item, ItemKey, Label, Limit, LimitCounter, LimitSet, Record, RecordKind, ReservationId, Subject,
    Unit,
};
use stockhold_store::{CustomerRequest, CustomerResult, EventRow, ItemPageRequest};

/// How often numbering begins again because another node of a cluster has numbered at the same time.
const NUMBERING_CONFLICTS: u32 = 64;
/// The longest pause before it does.
const NUMBERING_PAUSE: Duration = Duration::from_millis(20);
/// Most rows of events that are read at once: each may have some hundred events, of which a page wants as many in all.
const BATCHES_AT_ONCE: usize = 64;

impl Session for MysqlConnection {
    fn is_lost(&self) -> bool {
        self.is_useless()
    }

    async fn read(&mut self, lock_set: &LockSet) -> Result<Rows, DbError> {
        self.load(lock_set).await
    }

    async fn lock(&mut self, lock_set: &LockSet) -> Result<LockedRows, DbError> {
        self.lock_and_load(lock_set).await
    }

    async fn commit(&mut self, changes: &Changes<'_>, sent: &CommitSent) -> Result<CommitOutcome, DbError> {
        self.write_and_commit(changes, sent).await
    }

    async fn roll_back(&mut self) -> Result<(), DbError> {
        self.begun = false;
        if !self.kind.is_mariadb {
            return self.run(&format!("ROLLBACK;{NO_LIMIT_OF_REST}")).await.map(drop);
        }
        match self.run("ROLLBACK").await {
            // The cluster has aborted the transaction already, and says so once.
            Err(DbError::Conflict(_)) => self.run("ROLLBACK").await.map(drop),
            done => done.map(drop),
        }
    }

    async fn shelf(&mut self, asked: &ItemPageRequest) -> Result<Vec<Item>, DbError> {
        let mut after = asked.after.as_ref().map_or(("", ""), |key| (key.location(), key.sku()));
        let only = asked.location.as_ref().map(Label::as_str);
        if let Some(location) = only {
            // Another location's item has this one before it as a whole, or behind it.
            match after.0.cmp(location) {
                Ordering::Greater => return Ok(Vec::new()),
                Ordering::Less => after = (location, ""),
                Ordering::Equal => {}
            }
        }
        let rows = self.rows(&statements::shelf(only, after, asked.limit)).await?;
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
        let rows = self.rows(&statements::units_page(item, after, limit)).await?;
        rows.iter().map(rows::unit).collect()
    }

    async fn unit(&mut self, item: &ItemKey, unit: &Label) -> Result<Option<(Unit, Vec<u64>)>, DbError> {
        let rows = self.rows(&statements::one_unit(item, unit)).await?;
        let read = |row| Ok((rows::unit(row)?, serials_from(rows::bytes(row, rows::UNIT_HISTORY)?)?));
        rows.first().map(read).transpose()
    }

    async fn paused(&mut self) -> Result<Vec<String>, DbError> {
        let rows = self.rows("SELECT location FROM stockhold_pauses WHERE paused ORDER BY location").await?;
        rows.iter().map(|row| rows::text(row, 0).map(str::to_owned)).collect()
    }

    async fn due_payments(&mut self, now: Instant, limit: usize) -> Result<Vec<ReservationId>, DbError> {
        let rows = self.rows(&statements::due_payments(now, limit)).await?;
        rows.iter().map(|row| rows::id(row, 0)).collect()
    }

    async fn record_page(
        &mut self,
        kind: RecordKind,
        after: Option<&Label>,
        limit: usize,
    ) -> Result<Vec<Record>, DbError> {
        let rows = self.rows(&statements::record_page(kind, after, limit)).await?;
        rows.iter().map(rows::record).collect()
    }

    async fn customers(&mut self, request: &CustomerRequest) -> Result<CustomerResult, DbError> {
        self.run_customer_request(request).await
    }

    fn known_limits(&self) -> Arc<LimitSet> {
        self.target.limits.newest()
    }

    async fn counter_page(
        &mut self,
        of: &Limit,
        after: Option<&Subject>,
        limit: usize,
    ) -> Result<Vec<(Subject, LimitCounter)>, DbError> {
        let rows = self.rows(&limit_statements::counter_page(of, after, limit)).await?;
        rows.iter().map(rows::subject_and_counter).collect()
    }

    async fn forget_counters(&mut self, of: &Label, generation: u64, limit: usize) -> Result<usize, DbError> {
        let rows = self.rows(&limit_statements::forget_counters(of, generation, limit)).await?;
        let gone = rows.first().map(|row| rows::figure(row, 0)).transpose()?;
        Ok(usize::try_from(gone.unwrap_or(0)).unwrap_or(usize::MAX))
    }

    async fn scan(&mut self, scan: &ReservationScan<'_>) -> Result<ScanPage, DbError> {
        let status = scan.status.map(rows::status);
        let text = match scan.key {
            ScanKey::Order(order) => statements::scan_order(order, status, scan.before, scan.limit),
            ScanKey::Owner(owner) => statements::scan(Some(owner), status, scan.before, scan.limit),
            ScanKey::Sku(sku) => statements::scan_sku(sku, status, scan.before, scan.limit),
            ScanKey::All => statements::scan(None, status, scan.before, scan.limit),
        };
        let place = |row: &Row| -> Result<u128, DbError> {
            match scan.key {
                ScanKey::Order(_) => rows::figure(row, 0).map(u128::from),
                ScanKey::Owner(_) | ScanKey::Sku(_) | ScanKey::All => Ok(rows::id(row, 0)?.as_u128()),
            }
        };
        let rows = self.rows(&text).await?;
        let mut holds = Vec::new();
        for row in &rows {
            if let Some(body) = rows::some_bytes(row, 1)? {
                holds.push((place(row)?, hold_from(body)?));
            }
        }
        let last = rows.last().filter(|_| rows.len() == scan.limit);
        Ok(ScanPage { holds, next: last.map(place).transpose()? })
    }

    async fn serials(&mut self, id: ReservationId) -> Result<Option<Vec<u64>>, DbError> {
        let rows = self.rows(&statements::history(id)).await?;
        let mut history = Vec::new();
        for row in &rows {
            history.extend(serials_from(rows::bytes(row, 0)?)?);
        }
        Ok(Some(history).filter(|history| !history.is_empty()))
    }

    async fn batches(&mut self, serials: &[u64]) -> Result<Vec<EventRow>, DbError> {
        let mut script = Script::new();
        statements::batches(&mut script, &serials.iter().copied().collect());
        let mut found = BTreeMap::new();
        for (_, rows) in self.begin(&script).await? {
            for row in &rows {
                found.insert(rows::figure(row, 3)?, batch(row)?);
            }
        }
        Ok(serials.iter().filter_map(|serial| found.remove(serial)).flatten().collect())
    }

    async fn events(&mut self, after: u64, limit: usize) -> Result<Vec<EventRow>, DbError> {
        let Ok(mut seen) = i64::try_from(after) else { return Ok(Vec::new()) };
        let mut events = Vec::new();
        while events.len() < limit {
            let most = (limit - events.len()).min(BATCHES_AT_ONCE);
            let rows = self.rows(&statements::events(seen, most)).await?;
            for row in &rows {
                seen = rows::int(row, 0)?;
                events.extend(batch(row)?.into_iter().filter(|row| row.position > after));
            }
            if rows.len() < most {
                break;
            }
        }
        events.truncate(limit);
        Ok(events)
    }

    async fn number(&mut self) -> Result<u64, DbError> {
        let mut conflicts = 0;
        loop {
            match self.try_number().await {
                // Another node of the cluster has numbered at the same time. What it has left is numbered here.
                Err(DbError::Conflict(_)) if conflicts < NUMBERING_CONFLICTS => {
                    conflicts += 1;
                    tokio::time::sleep(jitter(NUMBERING_PAUSE)).await;
                }
                done => return done,
            }
        }
    }

    async fn is_unfinished(&mut self) -> Result<bool, DbError> {
        let rows = self.rows(statements::UNFINISHED).await?;
        let row =
            rows.first().ok_or_else(|| DbError::InvariantViolated("the schema has no version".to_owned()))?;
        Ok(rows::int(row, 0)? != 0)
    }

    async fn overdue(
        &mut self,
        after: Option<Deadline>,
        limit: usize,
    ) -> Result<(Instant, Vec<Deadline>), DbError> {
        let (now, rows) = self.clock_and_due(after, limit).await?;
        Ok((now, rows.any_due.into_iter().take_while(|(due, _)| *due <= now).collect()))
    }

    async fn releases(
        &mut self,
        after: Option<&Release>,
        limit: usize,
    ) -> Result<(Instant, Vec<Release>), DbError> {
        let (now, rows) = self.clock_and_releases(after, limit).await?;
        Ok((now, rows.any_release.into_iter().collect()))
    }

    async fn lock_skip_locked(&mut self, lock_set: &LockSet) -> Result<SkipLockedResult, DbError> {
        self.lock_skip_locked_rows(lock_set).await
    }

    async fn active_holds(&mut self) -> Result<u64, DbError> {
        let rows = self.rows(statements::ACTIVE_HOLDS).await?;
        let row = rows.first().ok_or_else(|| DbError::InvariantViolated("a count has no row".to_owned()))?;
        rows::figure(row, 0)
    }

    async fn keep_keys(&mut self, at_least: i64) -> Result<i64, DbError> {
        let rows = self.rows("SELECT key_retention FROM stockhold_archived WHERE one=1").await?;
        let row =
            rows.first().ok_or_else(|| DbError::InvariantViolated("the archive has no row".to_owned()))?;
        let kept = rows::int(row, 0)?;
        if kept < at_least {
            let longer = format!(
                "UPDATE stockhold_archived SET key_retention=GREATEST(key_retention,{at_least}) WHERE one=1"
            );
            self.run(&longer).await?;
        }
        Ok(kept.max(at_least))
    }

    async fn move_release(&mut self, of: &Release, to: Option<Instant>) -> Result<(), DbError> {
        self.rows(&statements::move_release(of, to)).await?;
        Ok(())
    }

    async fn forget_keys(&mut self, before: Instant, limit: usize) -> Result<usize, DbError> {
        let rows = self.rows(&statements::forget_keys(before, limit)).await?;
        let gone = rows.first().map(|row| rows::figure(row, 0)).transpose()?;
        Ok(usize::try_from(gone.unwrap_or(0)).unwrap_or(usize::MAX))
    }
}

impl MysqlConnection {
    async fn try_number(&mut self) -> Result<u64, DbError> {
        let missing = || DbError::InvariantViolated("the sequencer has no row".to_owned());
        let rows = self.rows(numbering::UNNUMBERED).await?;
        let row = rows.first().ok_or_else(missing)?;
        if rows::int(row, 1)? == 0 {
            return rows::figure(row, 0);
        }
        // The last serial that was there at first. Nobody waits for what was committed later: under load there would be no end to it.
        let mut goal = None;
        loop {
            let numbered = self
                .run(&numbering::number(numbering::NUMBERED_AT_ONCE, self.kind.has_compound_packets()))
                .await;
            if numbered.is_err() {
                // What is left open keeps others from it; if that fails as well, the first error says why.
                let _ = self.run("ROLLBACK").await;
            }
            let rows = numbered?.concat();
            let [_, count, newest] = rows.as_slice() else { return Err(missing()) };
            let [last, late] = [1, 2].map(|column| rows::figure(newest, column));
            let (last, late) = (last?, late?);
            if rows::figure(count, 0)? == numbering::NUMBERED_AT_ONCE as u64 {
                goal = None;
            } else if late == 0 || late > *goal.get_or_insert(last) {
                return rows::figure(newest, 0);
            }
        }
    }

    /// The rows of all statements of a text, of which one has rows.
    async fn rows(&mut self, text: &str) -> Result<Vec<Row>, DbError> {
        Ok(self.query(text).await?.concat())
    }
}

fn batch(row: &Row) -> Result<Vec<EventRow>, DbError> {
    events_from(rows::bytes(row, 2)?, rows::int(row, 0)?, rows::int(row, 1)?)
}
