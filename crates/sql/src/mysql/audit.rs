//! The books, as MySQL keeps them.

use super::cluster::Certification;
use super::connect::{MysqlConnection, PacketError};
use super::limit_statements::counted_hold;
use super::rows;
use super::script::{Bulk, Script, Step, Upserts, counter_key, hex, id, int, key, option};
use super::statements::{self, ITEMS_PER_STATEMENT};
use crate::audit::{
    ArchiveBoundary, ArchiveDeletion, ArchiveLease, AuditSession, BatchRow, HoldRow, ItemBalance, KeyRow,
    LimitRow, MovedHistories, QueuedLine, marked_file,
};
use crate::engine::{
    CountedHoldRow, DbError, Deadline, item_body, item_from, pool_units_body, pool_units_from, subject_column,
};
use core::fmt::Write;
use mysql_async::Row;
use std::collections::BTreeSet;
use stockhold_domain::{
    CounterKey, Hold, Instant, ItemKey, KeyHash, Label, LimitCounter, Record, RecordKey, ReservationId,
};

const BEGIN: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;\
    START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";
const OPENING: &str =
    "SELECT position,at,file_position,file_hash,lease_holder,lease_until FROM stockhold_archived WHERE one=1";
const BATCHES: &str = "SELECT serial,event_count,last_position,body FROM stockhold_events FORCE INDEX";

const fn bulk(
    head: &'static str,
    between: &'static str,
    tail: &'static str,
    affects: Option<usize>,
) -> Bulk<Step> {
    let affects = match affects {
        Some(each) => Some((Step::Write, each)),
        None => None,
    };
    Bulk { step: Step::Write, head, between, tail, affects }
}

const BALANCES: Bulk<Step> = bulk(
    "SELECT sold,pool_sales,body FROM stockhold_archived_items WHERE (location,sku) IN (",
    ",",
    ")",
    None,
);
const BATCH_ROWS: Bulk<Step> = bulk(
    "SELECT serial,event_count,last_position,body FROM stockhold_events FORCE INDEX (PRIMARY) WHERE serial IN (",
    ",",
    ")",
    None,
);
const HISTORIES: Bulk<Step> = bulk(
    "SELECT id,history FROM stockhold_hold_histories FORCE INDEX (PRIMARY) WHERE id IN (",
    ",",
    ") ORDER BY id,serial",
    None,
);
const SKUS: Bulk<Step> =
    bulk("SELECT id,sku FROM stockhold_hold_skus FORCE INDEX (PRIMARY) WHERE id IN (", ",", ")", None);
const ORDERS: Bulk<Step> = bulk(
    "SELECT id,order_id FROM stockhold_hold_orders FORCE INDEX (hold_orders_by_id) WHERE id IN (",
    ",",
    ")",
    None,
);
/// Looked up one by one, as where lines are deleted.
const LINES: Bulk<Step> = bulk(
    "SELECT a.id,a.location,a.sku,a.quantity,a.due IS NOT NULL FROM (\
        SELECT x'' AS location,x'' AS sku,0 AS expires_at,x'' AS id UNION ALL SELECT ",
    " UNION ALL SELECT ",
    ") AS want STRAIGHT_JOIN stockhold_active_lines a FORCE INDEX (PRIMARY) USING (location,sku,expires_at,id)",
    None,
);
const HOLDS_GONE: Bulk<Step> = bulk(
    "DELETE stockhold_holds FROM (SELECT x'' AS id UNION ALL SELECT ",
    " UNION ALL SELECT ",
    ") AS gone STRAIGHT_JOIN stockhold_holds FORCE INDEX (PRIMARY) USING (id)",
    Some(1),
);
const HISTORIES_GONE: Bulk<Step> = bulk(
    "DELETE stockhold_hold_histories FROM (SELECT x'' AS id UNION ALL SELECT ",
    " UNION ALL SELECT ",
    ") AS gone STRAIGHT_JOIN stockhold_hold_histories FORCE INDEX (PRIMARY) USING (id)",
    None,
);
const SKUS_GONE: Bulk<Step> = bulk(
    "DELETE stockhold_hold_skus FROM (SELECT x'' AS id UNION ALL SELECT ",
    " UNION ALL SELECT ",
    ") AS gone STRAIGHT_JOIN stockhold_hold_skus FORCE INDEX (PRIMARY) USING (id)",
    None,
);
const ORDERS_GONE: Bulk<Step> = bulk(
    "DELETE stockhold_hold_orders FROM (SELECT x'' AS id UNION ALL SELECT ",
    " UNION ALL SELECT ",
    ") AS gone STRAIGHT_JOIN stockhold_hold_orders FORCE INDEX (hold_orders_by_id) USING (id)",
    Some(1),
);
const SALES_GONE: Bulk<Step> = bulk(
    "DELETE stockhold_unit_sales FROM (\
        SELECT x'' AS location,x'' AS sku,x'' AS unit_id,x'' AS reservation UNION ALL SELECT ",
    " UNION ALL SELECT ",
    ") AS gone STRAIGHT_JOIN stockhold_unit_sales FORCE INDEX (PRIMARY) USING (location,sku,unit_id,reservation)",
    Some(1),
);
const STAND_INSTEAD: Bulk<Step> = bulk(
    "INSERT INTO stockhold_archived_items (location,sku,sold,pool_sales,body) VALUES ",
    ",",
    " ON DUPLICATE KEY UPDATE sold=VALUE(sold),pool_sales=VALUE(pool_sales),body=VALUE(body)",
    None,
);
const BALANCES_GONE: Bulk<Step> = bulk(
    "DELETE stockhold_archived_items FROM (SELECT x'' AS location,x'' AS sku UNION ALL SELECT ",
    " UNION ALL SELECT ",
    ") AS gone STRAIGHT_JOIN stockhold_archived_items FORCE INDEX (PRIMARY) USING (location,sku)",
    None,
);
const PAUSES: Bulk<Step> = bulk(
    "INSERT INTO stockhold_archived_pauses (location,paused) VALUES ",
    ",",
    " ON DUPLICATE KEY UPDATE paused=VALUE(paused)",
    None,
);

const ARCHIVED_COUNTERS: Bulk<Step> = bulk(
    "INSERT INTO stockhold_archived_counters (limit_id,generation,subject,sold) VALUES ",
    ",",
    " ON DUPLICATE KEY UPDATE sold=stockhold_archived_counters.sold+VALUE(sold)",
    None,
);
const COUNTED_HOLDS: Bulk<Step> = bulk(
    "SELECT a.limit_id,a.generation,a.subject,a.expires_at,a.id FROM (\
        SELECT x'' AS limit_id,0 AS generation,x'' AS subject,0 AS expires_at,x'' AS id UNION ALL SELECT ",
    " UNION ALL SELECT ",
    ") AS want STRAIGHT_JOIN stockhold_counted_holds a FORCE INDEX (PRIMARY) \
     USING (limit_id,generation,subject,expires_at,id)",
    None,
);

impl MysqlConnection {
    /// The rows of all statements of a text, on this connection and no other.
    async fn all(&mut self, text: &str) -> Result<Vec<Row>, DbError> {
        Ok(self.run(text).await?.concat())
    }

    async fn script(&mut self, script: &Script<Step>) -> Result<Vec<Row>, DbError> {
        let mut rows = Vec::new();
        for packet in script.packets() {
            rows.append(&mut self.all(&packet.text).await?);
        }
        Ok(rows)
    }

    async fn only(&mut self, text: &str) -> Result<Row, DbError> {
        let row = self.all(text).await?.into_iter().next();
        row.ok_or_else(|| DbError::InvariantViolated(format!("no row: {text}")))
    }
}

impl AuditSession for MysqlConnection {
    async fn begin_snapshot(&mut self) -> Result<(), DbError> {
        self.begun = true;
        self.run(BEGIN).await.map(drop)
    }

    async fn opening(&mut self) -> Result<ArchiveBoundary, DbError> {
        Ok(opening(&self.only(OPENING).await?)?.0)
    }

    async fn newest(&mut self) -> Result<u64, DbError> {
        rows::figure(&self.only("SELECT position FROM stockhold_sequencer WHERE one=1").await?, 0)
    }

    async fn mark(&mut self, unfinished: bool) -> Result<bool, DbError> {
        let (to, from) = (u8::from(unfinished), u8::from(!unfinished));
        let text = format!(
            "UPDATE stockhold_schema_version SET unfinished={to} WHERE one=1 AND unfinished={from};SELECT ROW_COUNT()"
        );
        Ok(rows::int(&self.only(&text).await?, 0)? == 1)
    }

    async fn balances(&mut self, after: Option<&ItemKey>, limit: usize) -> Result<Vec<ItemBalance>, DbError> {
        let (location, sku) = after.map_or(("", ""), |key| (key.location(), key.sku()));
        let mut text =
            "SELECT sold,pool_sales,body FROM stockhold_archived_items FORCE INDEX (PRIMARY) WHERE location="
                .to_owned();
        hex(&mut text, location.as_bytes());
        text.push_str(" AND sku>");
        hex(&mut text, sku.as_bytes());
        text.push_str(" OR location>");
        hex(&mut text, location.as_bytes());
        let _ = write!(text, " ORDER BY location,sku LIMIT {limit}");
        self.all(&text).await?.iter().map(balance).collect()
    }

    async fn balances_of(&mut self, items: &[ItemKey]) -> Result<Vec<ItemBalance>, DbError> {
        let mut script = Script::new();
        script.add_rows(&BALANCES, items, |text, one| {
            text.push('(');
            key(text, one);
            text.push(')');
        });
        self.script(&script).await?.iter().map(balance).collect()
    }

    async fn pauses(&mut self) -> Result<[Vec<(String, bool)>; 2], DbError> {
        let mut both = [Vec::new(), Vec::new()];
        for (pauses, table) in both.iter_mut().zip(["stockhold_archived_pauses", "stockhold_pauses"]) {
            for row in self.all(&format!("SELECT location,paused FROM {table}")).await? {
                pauses.push((rows::text(&row, 0)?.to_owned(), rows::int(&row, 1)? != 0));
            }
        }
        Ok(both)
    }

    async fn numbered(&mut self, after: u64, limit: usize) -> Result<Vec<BatchRow>, DbError> {
        let text = format!(
            "{BATCHES} (events_by_position) WHERE last_position>{after} ORDER BY last_position LIMIT {limit}"
        );
        self.all(&text).await?.iter().map(batch_row).collect()
    }

    async fn unnumbered(&mut self, after: u64, limit: usize) -> Result<Vec<BatchRow>, DbError> {
        let text = format!(
            "{BATCHES} (events_by_position) WHERE last_position IS NULL AND serial>{after} \
             ORDER BY serial LIMIT {limit}"
        );
        self.all(&text).await?.iter().map(batch_row).collect()
    }

    async fn batch_rows(&mut self, serials: &[u64]) -> Result<Vec<BatchRow>, DbError> {
        let mut script = Script::new();
        script.add_rows(&BATCH_ROWS, serials, |text, serial| int(text, *serial));
        self.script(&script).await?.iter().map(batch_row).collect()
    }

    async fn hold_rows(&mut self, after: ReservationId, limit: usize) -> Result<Vec<HoldRow>, DbError> {
        let mut text = "SELECT id,status,expires_at,owner_id,sku,history,body FROM stockhold_holds \
                        FORCE INDEX (PRIMARY) WHERE id>"
            .to_owned();
        id(&mut text, after);
        let _ = write!(text, " ORDER BY id LIMIT {limit}");
        let hold = |row: &Row| {
            Ok(HoldRow {
                id: rows::id(row, 0)?,
                status: i16::try_from(rows::int(row, 1)?).unwrap_or(-1),
                expires_at: rows::instant(row, 2)?,
                owner_id: rows::text(row, 3)?.to_owned(),
                sku: rows::text(row, 4)?.to_owned(),
                history: rows::bytes(row, 5)?.to_vec(),
                body: rows::bytes(row, 6)?.to_vec(),
            })
        };
        self.all(&text).await?.iter().map(hold).collect()
    }

    async fn moved_histories(&mut self, ids: &BTreeSet<ReservationId>) -> Result<MovedHistories, DbError> {
        let mut script = Script::new();
        script.add_rows(&HISTORIES, ids, |text, of| id(text, *of));
        let mut histories = MovedHistories::new();
        for row in &self.script(&script).await? {
            histories.entry(rows::id(row, 0)?).or_default().extend_from_slice(rows::bytes(row, 1)?);
        }
        Ok(histories)
    }

    async fn skus_of(&mut self, holds: &[&Hold]) -> Result<Vec<(ReservationId, String)>, DbError> {
        let mut script = Script::new();
        script.add_rows(&SKUS, holds, |text, hold| id(text, hold.id));
        let found = self.script(&script).await?;
        found.iter().map(|row| Ok((rows::id(row, 0)?, rows::text(row, 1)?.to_owned()))).collect()
    }

    async fn orders_of(&mut self, holds: &[&Hold]) -> Result<Vec<(ReservationId, String)>, DbError> {
        let mut script = Script::new();
        script.add_rows(&ORDERS, holds, |text, hold| id(text, hold.id));
        let found = self.script(&script).await?;
        found.iter().map(|row| Ok((rows::id(row, 0)?, rows::text(row, 1)?.to_owned()))).collect()
    }

    async fn lines_of(&mut self, holds: &[&Hold]) -> Result<Vec<QueuedLine>, DbError> {
        let lines = holds.iter().flat_map(|hold| hold.lines.iter().map(|line| (*hold, &line.item)));
        let mut script = Script::new();
        script.add_rows(&LINES, lines, |text, (hold, item)| {
            super::statements::line(text, item, (hold.expires_at, hold.id));
        });
        let line = |row: &Row| {
            Ok(QueuedLine {
                id: rows::id(row, 0)?,
                item: ItemKey::new(&rows::label(row, 1)?, &rows::label(row, 2)?),
                quantity: rows::int(row, 3)?,
                leads: rows::int(row, 4)? != 0,
            })
        };
        self.script(&script).await?.iter().map(line).collect()
    }

    async fn queued(&mut self, items: &[ItemKey]) -> Result<Vec<(u64, u64)>, DbError> {
        let mut sums = Vec::with_capacity(items.len());
        for some in items.chunks(ITEMS_PER_STATEMENT) {
            let mut text = String::new();
            for (number, item) in some.iter().enumerate() {
                if number > 0 {
                    text.push_str(" UNION ALL ");
                }
                let _ = write!(
                    text,
                    "(SELECT {number} AS nth,COALESCE(SUM(quantity),0),COUNT(*) FROM stockhold_active_lines \
                     FORCE INDEX (PRIMARY) WHERE (location,sku)=("
                );
                key(&mut text, item);
                text.push_str("))");
            }
            text.push_str(" ORDER BY nth");
            for row in self.all(&text).await? {
                sums.push((rows::figure(&row, 1)?, rows::figure(&row, 2)?));
            }
        }
        Ok(sums)
    }

    async fn line_count(&mut self) -> Result<u64, DbError> {
        rows::figure(&self.only("SELECT COUNT(*) FROM stockhold_active_lines").await?, 0)
    }

    async fn open_sales(&mut self, item: &ItemKey) -> Result<Vec<(Label, ReservationId)>, DbError> {
        let mut text = "SELECT unit_id,reservation FROM stockhold_unit_sales FORCE INDEX (PRIMARY) \
                        WHERE is_open=1 AND (location,sku)=("
            .to_owned();
        key(&mut text, item);
        text.push(')');
        let found = self.all(&text).await?;
        found.iter().map(|row| Ok((rows::label(row, 0)?, rows::id(row, 1)?))).collect()
    }

    async fn open_sale_count(&mut self) -> Result<u64, DbError> {
        rows::figure(&self.only("SELECT COUNT(*) FROM stockhold_unit_sales WHERE is_open=1").await?, 0)
    }

    async fn key_rows(&mut self, after: Option<KeyHash>, limit: usize) -> Result<Vec<KeyRow>, DbError> {
        let mut text =
            "SELECT hash,used_at,body FROM stockhold_keys FORCE INDEX (PRIMARY) WHERE hash>".to_owned();
        hex(&mut text, after.map(|key| key.0.to_be_bytes()).as_ref().map_or(&[][..], |hash| hash));
        let _ = write!(text, " ORDER BY hash LIMIT {limit}");
        let key = |row: &Row| {
            Ok(KeyRow {
                // Sixteen bytes, as an id.
                hash: KeyHash(rows::id(row, 0)?.as_u128()),
                used_at: rows::instant(row, 1)?,
                body: rows::bytes(row, 2)?.to_vec(),
            })
        };
        self.all(&text).await?.iter().map(key).collect()
    }

    async fn record_rows(&mut self, after: Option<&RecordKey>, limit: usize) -> Result<Vec<Record>, DbError> {
        self.all(&statements::record_rows(after, limit)).await?.iter().map(rows::record).collect()
    }

    async fn limit_rows(&mut self, after: Option<&Label>, limit: usize) -> Result<Vec<LimitRow>, DbError> {
        let mut text =
            "SELECT id,version,generation,body FROM stockhold_limits FORCE INDEX (PRIMARY) WHERE id>"
                .to_owned();
        hex(&mut text, after.map_or("", Label::as_str).as_bytes());
        let _ = write!(text, " ORDER BY id LIMIT {limit}");
        let limit = |row: &Row| {
            Ok(LimitRow {
                id: rows::label(row, 0)?,
                version: rows::figure(row, 1)?,
                generation: rows::figure(row, 2)?,
                body: rows::bytes(row, 3)?.to_vec(),
            })
        };
        self.all(&text).await?.iter().map(limit).collect()
    }

    async fn counter_rows(
        &mut self,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<(CounterKey, LimitCounter)>, DbError> {
        let text = counters_behind("held,sold", "stockhold_limit_counters", after, limit);
        self.all(&text).await?.iter().map(rows::counter).collect()
    }

    async fn archived_counter_rows(
        &mut self,
        after: Option<&CounterKey>,
        limit: usize,
    ) -> Result<Vec<(CounterKey, u64)>, DbError> {
        let text = counters_behind("sold", "stockhold_archived_counters", after, limit);
        let found = self.all(&text).await?;
        found.iter().map(|row| Ok((rows::counter_key(row)?, rows::figure(row, 3)?))).collect()
    }

    async fn counted_holds_of(
        &mut self,
        rows: &[CountedHoldRow<'_>],
    ) -> Result<Vec<(CounterKey, Deadline)>, DbError> {
        let mut script = Script::new();
        script.add_rows(&COUNTED_HOLDS, rows, counted_hold);
        let found = self.script(&script).await?;
        found.iter().map(|row| Ok((rows::counter_key(row)?, rows::deadline(row, 3)?))).collect()
    }

    async fn due_payment_rows(&mut self) -> Result<Vec<(ReservationId, Instant)>, DbError> {
        let found = self.all("SELECT id,due_at FROM stockhold_due_payments").await?;
        found.iter().map(|row| Ok((rows::id(row, 0)?, rows::instant(row, 1)?))).collect()
    }

    async fn counted_hold_count(&mut self) -> Result<u64, DbError> {
        rows::figure(&self.only("SELECT COUNT(*) FROM stockhold_counted_holds").await?, 0)
    }

    async fn lease_archive(
        &mut self,
        holder: &str,
        ended_by: Instant,
        until: Instant,
    ) -> Result<ArchiveLease, DbError> {
        let mut name = String::new();
        hex(&mut name, holder.as_bytes());
        let (ended_by, until) = (ended_by.micros(), until.micros());
        let text = format!(
            "UPDATE stockhold_archived SET lease_holder={name},lease_until={until} \
             WHERE one=1 AND (lease_holder={name} OR lease_until<={ended_by});{OPENING}"
        );
        Ok(opening(&self.only(&text).await?)?.1)
    }

    async fn begin_archive_deletion(&mut self) -> Result<(ArchiveBoundary, ArchiveLease), DbError> {
        self.begun = true;
        opening(&self.only(&format!("START TRANSACTION;{OPENING} FOR UPDATE")).await?)
    }

    async fn delete_archived(&mut self, deletion: &ArchiveDeletion<'_>) -> Result<(), DbError> {
        let certification = self.kind.in_cluster.then_some(&self.certification);
        let script = archive_deletion(deletion, self.kind.upserts, certification);
        for packet in script.packets() {
            let done = self.send(packet).await;
            done.map_err(|PacketError { error, .. }| self.db_error(&error, false))?;
        }
        Ok(())
    }
}

/// Counters behind one, in the order of their keys.
fn counters_behind(columns: &str, table: &str, after: Option<&CounterKey>, limit: usize) -> String {
    let mut text = format!(
        "SELECT limit_id,generation,subject,{columns} FROM {table} FORCE INDEX (PRIMARY) WHERE limit_id>"
    );
    hex(&mut text, after.map_or("", |key| key.limit.as_str()).as_bytes());
    if let Some(after) = after {
        text.push_str(" OR limit_id=");
        hex(&mut text, after.limit.as_str().as_bytes());
        let generation = after.generation;
        let _ = write!(text, " AND (generation>{generation} OR generation={generation} AND subject>");
        hex(&mut text, &subject_column(&after.subject));
        text.push(')');
    }
    let _ = write!(text, " ORDER BY limit_id,generation,subject LIMIT {limit}");
    text
}

fn archive_deletion(
    deletion: &ArchiveDeletion<'_>,
    upserts: Upserts,
    certification: Option<&Certification>,
) -> Script<Step> {
    let ArchiveDeletion { from, opening, rows, holds, balances, deleted, pauses, counters } = deletion;
    let mut script = Script::of_upserts(upserts);
    let one = |text: &mut String, hold: &Hold| id(text, hold.id);
    script.add_rows(&HOLDS_GONE, *holds, one);
    script.add_rows(&HISTORIES_GONE, *holds, one);
    script.add_rows(&SKUS_GONE, *holds, one);
    script.add_rows(&ORDERS_GONE, holds.iter().filter(|hold| hold.order_id().is_some()), one);
    script.add_rows(&SALES_GONE, deletion.closed_sales(), |text, (item, unit, seller)| {
        key(text, item);
        text.push(',');
        hex(text, unit.as_str().as_bytes());
        text.push(',');
        id(text, seller);
    });
    let _ = write!(
        script.add(Step::Write),
        "DELETE stockhold_events FROM stockhold_events FORCE INDEX (events_by_position) \
         WHERE last_position>{from} AND last_position<={}",
        opening.position
    );
    script.add_count(Step::Write, *rows);
    script.add_rows(&STAND_INSTEAD, *balances, |text, ItemBalance { item, sold, pool_sales }| {
        text.push('(');
        key(text, &item.key);
        let _ = write!(text, ",{sold},");
        option(text, pool_units_body(pool_sales), |text, body| hex(text, &body));
        text.push(',');
        hex(text, &item_body(item));
        text.push(')');
    });
    script.add_rows(&BALANCES_GONE, *deleted, key);
    script.add_rows(&PAUSES, *pauses, |text, (location, paused)| {
        text.push('(');
        hex(text, location.as_bytes());
        let _ = write!(text, ",{})", u8::from(*paused));
    });
    script.add_rows(&ARCHIVED_COUNTERS, *counters, |text, (key, sold)| {
        text.push('(');
        counter_key(text, key);
        let _ = write!(text, ",{sold})");
    });
    let text = script.add(Step::Write);
    let _ = write!(
        text,
        "UPDATE stockhold_archived SET position={},at={},file_position={},file_hash=",
        opening.position,
        opening.at.micros(),
        opening.file.map_or(0, |file| file.last)
    );
    option(text, opening.file, |text, file| hex(text, &file.sha256));
    text.push_str(" WHERE one=1");
    script.add_count(Step::Write, 1);
    if let Some(certification) = certification {
        certification.take_slot(&mut script);
    }
    script.add(Step::Commit).push_str("COMMIT");
    script
}

fn opening(row: &Row) -> Result<(ArchiveBoundary, ArchiveLease), DbError> {
    let boundary = ArchiveBoundary {
        position: rows::figure(row, 0)?,
        at: rows::instant(row, 1)?,
        file: marked_file(rows::figure(row, 2)?, rows::some_bytes(row, 3)?)?,
    };
    Ok((boundary, ArchiveLease { holder: rows::text(row, 4)?.to_owned(), until: rows::instant(row, 5)? }))
}

fn balance(row: &Row) -> Result<ItemBalance, DbError> {
    Ok(ItemBalance {
        item: item_from(rows::bytes(row, 2)?)?,
        sold: rows::figure(row, 0)?,
        pool_sales: pool_units_from(rows::some_bytes(row, 1)?)?,
    })
}

fn batch_row(row: &Row) -> Result<BatchRow, DbError> {
    Ok(BatchRow {
        serial: rows::figure(row, 0)?,
        count: rows::int(row, 1)?,
        last_position: rows::some_bytes(row, 2)?.map(|_| rows::int(row, 2)).transpose()?,
        body: rows::bytes(row, 3)?.to_vec(),
    })
}
