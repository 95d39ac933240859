//! What the commands of a batch changed, written at once: many rows to a statement, all statements in one packet, and COMMIT
//! behind them.

use super::cluster::Certification;
use super::connect::{MysqlConnection, NO_LIMIT_OF_REST, PacketError};
use super::errors::db_error_at_commit;
use super::limit_statements::counted_hold;
use super::rows;
use super::script::{
    Bulk, LARGEST_PACKET, Script, Step, Upserts, counter_key, hex, id, int, key, option, record_key,
};
use super::statements::{delete_lines, line};
use crate::engine::{
    Changes, CommitOutcome, CommitSent, CounterChangeRow, CounterRow, DbError, LimitChanges, LineRow,
    SaleRow, UNIT_HISTORY_BYTES, UnitRow, attributes_body, empty_counters, events_body, first_sku,
    further_skus, hold_body, key_body, limit_body, live_generation, next_release, pools_body, pools_of_row,
    settings_body,
};
use core::fmt::Write;
use std::collections::BTreeMap;
use stockhold_domain::{Event, Hold, Item, ItemKey, Label, Mode, Record, ReservationId, UnitStatus};
use stockhold_store::{UNIT_HISTORY_LIMIT, for_each_unit};

/// Events of a batch go into several rows when they are longer than this: a statement has to fit into a packet.
const EVENTS_BYTES: usize = 1 << 20;

const fn write(head: &'static str, tail: &'static str, affects: Option<usize>) -> Bulk<Step> {
    let affects = match affects {
        Some(each) => Some((Step::Write, each)),
        None => None,
    };
    Bulk { step: Step::Write, head, between: ",", tail, affects }
}

const ITEMS: &str = "INSERT INTO stockhold_items (location,sku,mode,total_units,confirmed_sold,fulfilled,held,\
held_under_payment,active,sequence,decided_at,oversell_allowance,settings,version,paused,created_at,\
pools,pool_release_at,serial) VALUES ";
const INSERT_ITEMS: Bulk<Step> = Bulk { step: Step::Raced, ..write(ITEMS, "", None) };
/// An upsert counts two for a row that it changed and one for a row that it made; `serial` changes always.
const UPDATE_ITEMS: Bulk<Step> = write(
    ITEMS,
    " ON DUPLICATE KEY UPDATE mode=VALUE(mode),total_units=VALUE(total_units),confirmed_sold=VALUE(confirmed_sold),\
fulfilled=VALUE(fulfilled),held=VALUE(held),held_under_payment=VALUE(held_under_payment),active=VALUE(active),sequence=VALUE(sequence),decided_at=VALUE(decided_at),\
oversell_allowance=VALUE(oversell_allowance),settings=VALUE(settings),version=VALUE(version),paused=VALUE(paused),created_at=VALUE(created_at),\
pools=VALUE(pools),pool_release_at=VALUE(pool_release_at),serial=VALUE(serial)",
    Some(2),
);
const DELETE_ITEMS: Bulk<Step> = Bulk {
    between: " UNION ALL SELECT ",
    ..write(
        "DELETE stockhold_items FROM (SELECT x'' AS location,x'' AS sku UNION ALL SELECT ",
        ") AS gone STRAIGHT_JOIN stockhold_items FORCE INDEX (PRIMARY) USING (location,sku)",
        Some(1),
    )
};
const DELETE_FIGURES: Bulk<Step> = Bulk {
    between: " UNION ALL SELECT ",
    ..write(
        "DELETE stockhold_unit_counters FROM (SELECT x'' AS location,x'' AS sku UNION ALL SELECT ",
        ") AS gone STRAIGHT_JOIN stockhold_unit_counters FORCE INDEX (PRIMARY) USING (location,sku)",
        None,
    )
};
const HOLDS: &str = "INSERT INTO stockhold_holds (id,status,expires_at,owner_id,sku,history,body) VALUES ";
const INSERT_HOLDS: Bulk<Step> = write(HOLDS, "", None);
const MOVE_HISTORIES: Bulk<Step> = write(
    "INSERT INTO stockhold_hold_histories (id,serial,history) SELECT id,@stockhold_serial,history FROM stockhold_holds \
FORCE INDEX (PRIMARY) WHERE id IN (",
    ")",
    Some(1),
);
const CLEAR_HISTORIES: Bulk<Step> =
    write("UPDATE stockhold_holds FORCE INDEX (PRIMARY) SET history='' WHERE id IN (", ")", Some(1));
/// The history always grows.
const UPDATE_HOLDS: Bulk<Step> = write(
    HOLDS,
    " ON DUPLICATE KEY UPDATE status=VALUE(status),expires_at=VALUE(expires_at),body=VALUE(body),\
owner_id=VALUE(owner_id),sku=VALUE(sku),history=CONCAT(stockhold_holds.history,VALUE(history))",
    Some(2),
);
const DELETE_SKUS: Bulk<Step> = write("DELETE FROM stockhold_hold_skus WHERE id IN (", ")", None);
const SKUS: Bulk<Step> = write("INSERT INTO stockhold_hold_skus (id,sku) VALUES ", "", None);
const ORDERS: Bulk<Step> = write("INSERT INTO stockhold_hold_orders (id,order_id) VALUES ", "", None);
const UNITS: &str = "INSERT INTO stockhold_units (location,sku,id,position,section,seat_row,seat_number,attributes,status,\
reservation,version,history,pool,free_pool) VALUES ";
// As long as a history of a unit may be.
const _: () = assert!(UNIT_HISTORY_BYTES == 512);
const INSERT_UNITS: Bulk<Step> = write(UNITS, "", None);
/// Of a history, what is longer than it may be is cut off before its end.
const UPDATE_UNITS: Bulk<Step> = write(
    UNITS,
    " ON DUPLICATE KEY UPDATE status=VALUE(status),reservation=VALUE(reservation),version=VALUE(version),\
pool=VALUE(pool),free_pool=VALUE(free_pool),history=RIGHT(CONCAT(stockhold_units.history,VALUE(history)),512)",
    Some(2),
);
const DELETE_UNITS: Bulk<Step> = Bulk {
    between: " UNION ALL SELECT ",
    ..write(
        "DELETE stockhold_units FROM (SELECT x'' AS location,x'' AS sku,x'' AS id UNION ALL SELECT ",
        ") AS gone STRAIGHT_JOIN stockhold_units FORCE INDEX (PRIMARY) USING (location,sku,id)",
        Some(1),
    )
};
const ADD_FIGURES: Bulk<Step> = write(
    "INSERT INTO stockhold_unit_counters (location,sku,counter_shard,pool,total_units,held,held_under_payment,\
confirmed_sold,fulfilled,active,decided_at) VALUES ",
    " ON DUPLICATE KEY UPDATE total_units=stockhold_unit_counters.total_units+VALUE(total_units),\
held=stockhold_unit_counters.held+VALUE(held),\
held_under_payment=stockhold_unit_counters.held_under_payment+VALUE(held_under_payment),\
fulfilled=stockhold_unit_counters.fulfilled+VALUE(fulfilled),\
confirmed_sold=stockhold_unit_counters.confirmed_sold+VALUE(confirmed_sold),\
active=stockhold_unit_counters.active+VALUE(active),\
decided_at=GREATEST(stockhold_unit_counters.decided_at,VALUE(decided_at))",
    None,
);
const SALES: &str =
    "INSERT INTO stockhold_unit_sales (location,sku,unit_id,reservation,sold_at,returned_at,is_open) VALUES ";
const INSERT_SALES: Bulk<Step> = write(SALES, "", None);
const CLOSE_SALES: Bulk<Step> =
    write(SALES, " ON DUPLICATE KEY UPDATE returned_at=VALUE(returned_at),is_open=NULL", Some(2));
const GONE: Bulk<Step> = delete_lines(Step::Write, Some((Step::Write, 1)));
const LINES: &str = "INSERT INTO stockhold_active_lines (location,sku,expires_at,id,quantity,due) VALUES ";
const COME: Bulk<Step> = write(LINES, "", None);
/// The quantity always changes.
const RESIZED: Bulk<Step> = write(LINES, " ON DUPLICATE KEY UPDATE quantity=VALUE(quantity)", Some(2));
const DELETE_DUE_PAYMENTS: Bulk<Step> = write("DELETE FROM stockhold_due_payments WHERE id IN (", ")", None);
const SET_DUE_PAYMENTS: Bulk<Step> = write(
    "INSERT INTO stockhold_due_payments (id,due_at) VALUES ",
    " ON DUPLICATE KEY UPDATE due_at=VALUE(due_at)",
    None,
);
const PAUSES: Bulk<Step> = write(
    "INSERT INTO stockhold_pauses (location,paused) VALUES ",
    " ON DUPLICATE KEY UPDATE paused=VALUE(paused)",
    None,
);
const RECORDS: &str = "INSERT INTO stockhold_records (kind,id,version,value) VALUES ";
const INSERT_RECORDS: Bulk<Step> = Bulk { step: Step::Raced, ..write(RECORDS, "", None) };
/// The version always changes.
const UPDATE_RECORDS: Bulk<Step> =
    write(RECORDS, " ON DUPLICATE KEY UPDATE version=VALUE(version),value=VALUE(value)", Some(2));
const LIMITS: Bulk<Step> = write(
    "INSERT INTO stockhold_limits (id,version,generation,body) VALUES ",
    " ON DUPLICATE KEY UPDATE version=VALUE(version),generation=VALUE(generation),body=VALUE(body)",
    None,
);
const COUNTERS: &str = "INSERT INTO stockhold_limit_counters (limit_id,generation,subject,held,sold) VALUES ";
const INSERT_COUNTERS: Bulk<Step> = Bulk { step: Step::Raced, ..write(COUNTERS, "", None) };
/// What is counted always changes.
const UPDATE_COUNTERS: Bulk<Step> =
    write(COUNTERS, " ON DUPLICATE KEY UPDATE held=VALUE(held),sold=VALUE(sold)", Some(2));
const DELETE_COUNTERS: Bulk<Step> = Bulk {
    between: " UNION ALL SELECT ",
    ..write(
        "DELETE stockhold_limit_counters FROM (SELECT x'' AS limit_id,0 AS generation,x'' AS subject UNION ALL SELECT ",
        ") AS gone STRAIGHT_JOIN stockhold_limit_counters FORCE INDEX (PRIMARY) USING (limit_id,generation,subject)",
        Some(1),
    )
};
const DELETE_COUNTED_HOLDS: Bulk<Step> = Bulk {
    between: " UNION ALL SELECT ",
    ..write(
        "DELETE stockhold_counted_holds FROM (SELECT x'' AS limit_id,0 AS generation,x'' AS subject,0 AS expires_at,\
x'' AS id UNION ALL SELECT ",
        ") AS gone STRAIGHT_JOIN stockhold_counted_holds FORCE INDEX (PRIMARY) \
USING (limit_id,generation,subject,expires_at,id)",
        Some(1),
    )
};
const INSERT_COUNTED_HOLDS: Bulk<Step> = Bulk {
    between: "),(",
    ..write(
        "INSERT INTO stockhold_counted_holds (limit_id,generation,subject,expires_at,id) VALUES (",
        ")",
        None,
    )
};
const KEYS: Bulk<Step> =
    Bulk { step: Step::Raced, ..write("INSERT INTO stockhold_keys (hash,used_at,body) VALUES ", "", None) };

impl MysqlConnection {
    /// Sends every write of the batch and COMMIT: in one packet, unless they are longer than one may be.
    pub(super) async fn write_and_commit(
        &mut self,
        changes: &Changes<'_>,
        sent: &CommitSent,
    ) -> Result<CommitOutcome, DbError> {
        let certification = self.kind.in_cluster.then_some(&self.certification);
        let mut script = script(changes, self.kind.upserts, certification);
        if !self.kind.is_mariadb {
            script.add(Step::Write).push_str(NO_LIMIT_OF_REST);
        }
        script.add(Step::Commit).push_str("COMMIT");
        let packets = script.packets();
        if packets.iter().any(|packet| packet.text.len() >= LARGEST_PACKET) {
            return Err(DbError::InvariantViolated(format!("a write of more than {LARGEST_PACKET} bytes")));
        }
        for (packet, number) in packets.iter().zip(1..) {
            if number == packets.len() {
                sent.mark();
            }
            let done = self.send(packet).await;
            done.map_err(|PacketError { step, error }| match step {
                Some(Step::Commit) => db_error_at_commit(&error, self.kind.in_cluster),
                step => {
                    if matches!(error, mysql_async::Error::Server(_)) {
                        // The server runs nothing behind a statement that failed.
                        sent.recall();
                    }
                    self.db_error(&error, step == Some(Step::Raced))
                }
            })?;
        }
        if self.warnings() > 0 {
            return Ok(CommitOutcome::InDoubt("the server warned at COMMIT".to_owned()));
        }
        Ok(CommitOutcome::Durable)
    }
}

/// All of it but COMMIT.
fn script(changes: &Changes<'_>, upserts: Upserts, certification: Option<&Certification>) -> Script<Step> {
    let mut script = Script::of_upserts(upserts);
    if let Some(certification) = certification {
        certification.begin(&mut script);
    }
    let rows = events(&mut script, changes.events);
    let rows_of_units = rows_of_units(changes.events, &rows);
    let unit = |text: &mut String, row: &UnitRow<'_>| unit(text, row, &rows_of_units);
    script.add_rows(&DELETE_ITEMS, changes.deleted_items.iter().copied(), key);
    script.add_rows(&DELETE_FIGURES, changes.deleted_figures.iter().copied(), key);
    script.add_rows(&INSERT_ITEMS, &changes.new_items, |text, one| item(text, one));
    script.add_rows(&UPDATE_ITEMS, &changes.changed_items, |text, one| item(text, one));
    let mut new_holds = changes.new_holds.clone();
    new_holds.sort_by_key(|hold| hold.id);
    script.add_rows(&INSERT_HOLDS, new_holds.iter().copied(), hold);
    script.add_rows(&DELETE_SKUS, &changes.relisted_holds, |text, hold| id(text, hold.id));
    let mut listed: Vec<&Hold> = new_holds.iter().chain(&changes.relisted_holds).copied().collect();
    listed.sort_by_key(|hold| hold.id);
    let skus = listed.iter().flat_map(|hold| further_skus(hold).into_iter().map(|sku| (hold.id, sku)));
    let listed_under = |text: &mut String, of: ReservationId, name: &str| {
        text.push('(');
        id(text, of);
        text.push(',');
        hex(text, name.as_bytes());
        text.push(')');
    };
    script.add_rows(&SKUS, skus, |text, (of, sku)| listed_under(text, of, sku));
    script
        .add_rows(&ORDERS, &changes.new_orders, |text, (of, order)| listed_under(text, *of, order.as_str()));
    script.add_rows(&MOVE_HISTORIES, &changes.full_histories, |text, of| id(text, *of));
    script.add_rows(&CLEAR_HISTORIES, &changes.full_histories, |text, of| id(text, *of));
    script.add_rows(&UPDATE_HOLDS, changes.changed_holds.iter().copied(), hold);
    script.add_rows(&DELETE_UNITS, &changes.gone_units, |text, (item, unit)| unit_key(text, item, unit));
    script.add_rows(&INSERT_UNITS, &changes.new_units, unit);
    script.add_rows(&UPDATE_UNITS, &changes.changed_units, unit);
    script.add_rows(&ADD_FIGURES, &changes.figures, |text, CounterChangeRow { item, pool, by }| {
        text.push('(');
        key(text, item);
        let _ = write!(text, ",{},", changes.counter_shard);
        hex(text, pool.map_or("", Label::as_str).as_bytes());
        let _ = write!(
            text,
            ",{},{},{},{},{},{},{})",
            by.total_units,
            by.held,
            by.held_under_payment,
            by.confirmed_sold,
            by.fulfilled,
            by.active,
            by.at.micros()
        );
    });
    script.add_rows(&CLOSE_SALES, &changes.closed_sales, sale);
    script.add_rows(&INSERT_SALES, &changes.new_sales, sale);
    script.add_rows(&GONE, &changes.gone, |text, one| line(text, one.item, (one.expires_at, one.id)));
    script.add_rows(&RESIZED, &changes.resized, queued);
    script.add_rows(&COME, &changes.come, queued);
    let settled = changes.due_payments.iter().filter(|(_, due)| due.is_none());
    script.add_rows(&DELETE_DUE_PAYMENTS, settled, |text, (of, _)| id(text, *of));
    let due = changes.due_payments.iter().filter_map(|(id, due)| Some((*id, (*due)?)));
    script.add_rows(&SET_DUE_PAYMENTS, due, |text, (of, due)| {
        text.push('(');
        id(text, of);
        let _ = write!(text, ",{})", due.micros());
    });
    script.add_rows(&PAUSES, &changes.pauses, |text, (location, paused)| {
        text.push('(');
        hex(text, location.as_bytes());
        let _ = write!(text, ",{})", u8::from(*paused));
    });
    limits(&mut script, changes);
    script.add_rows(&INSERT_RECORDS, &changes.new_records, |text, one| record(text, one));
    script.add_rows(&UPDATE_RECORDS, &changes.changed_records, |text, one| record(text, one));
    script.add_rows(&KEYS, &changes.keys, |text, record| {
        text.push('(');
        hex(text, &record.hash.0.to_be_bytes());
        let _ = write!(text, ",{},", record.at.micros());
        hex(text, &key_body(record));
        text.push(')');
    });
    if let Some(certification) = certification {
        certification.end(&mut script, changes);
    }
    script
}

/// What changed of limits.
fn limits(script: &mut Script<Step>, changes: &Changes<'_>) {
    let LimitChanges { set, new_counters, changed_counters, gone_counters, gone_holds, new_holds } =
        &changes.limits;
    script.add_rows(&LIMITS, set, |text, limit| {
        text.push('(');
        hex(text, limit.id.as_str().as_bytes());
        let _ = write!(text, ",{},{},", limit.version, live_generation(limit));
        hex(text, &limit_body(limit));
        text.push(')');
    });
    if let (false, Some(event)) = (set.is_empty(), changes.events.last()) {
        // By the clock, because a database that has lost commits must not give their versions to other limits.
        let _ = write!(
            script.add(Step::Write),
            "UPDATE stockhold_pauses SET limits_version=GREATEST(limits_version+1,{}) WHERE location=x''",
            event.at.micros()
        );
    }
    script.add_rows(&DELETE_COUNTERS, gone_counters.iter().copied(), counter_key);
    script.add_rows(&UPDATE_COUNTERS, changed_counters, counter);
    script.add_rows(&INSERT_COUNTERS, new_counters, counter);
    script.add_rows(&DELETE_COUNTED_HOLDS, gone_holds, counted_hold);
    script.add_rows(&INSERT_COUNTED_HOLDS, new_holds, counted_hold);
}

fn counter(text: &mut String, CounterRow { key, counter }: &CounterRow<'_>) {
    text.push('(');
    counter_key(text, key);
    let _ = write!(text, ",{},{})", counter.held, counter.sold);
}

/// The row of events draws the serial, and what histories get is made of it. Nearly always it is one row; where it is
/// more, all of them are in the history of each reservation; units, whose histories are cut, have those that moved them. How
/// many events are in each row.
fn events(script: &mut Script<Step>, events: &[Event]) -> Vec<usize> {
    let mut rows: Vec<(usize, Vec<u8>)> = Vec::new();
    for event in events {
        let body = events_body(core::slice::from_ref(event));
        match rows.last_mut().filter(|(_, row)| row.len() + body.len() <= EVENTS_BYTES) {
            Some((count, row)) => {
                *count += 1;
                row.extend_from_slice(&body);
            }
            None => rows.push((1, body)),
        }
    }
    for (number, (count, body)) in rows.iter().enumerate() {
        let text = script.add(Step::Write);
        let _ = write!(text, "INSERT INTO stockhold_events (event_count,body) VALUES ({count},");
        hex(text, body);
        text.push(')');
        let before = if number == 0 { "x''" } else { "@stockhold_entry" };
        let text = script.add(Step::Write);
        let _ = write!(
            text,
            "SET @stockhold_serial=LAST_INSERT_ID(),\
             @stockhold_entry=CONCAT({before},UNHEX(LPAD(HEX(LAST_INSERT_ID()),16,'0')))"
        );
        if rows.len() > 1 {
            let _ = write!(text, ",@stockhold_entry_{number}=UNHEX(LPAD(HEX(LAST_INSERT_ID()),16,'0'))");
        }
    }
    rows.into_iter().map(|(count, _)| count).collect()
}

/// Where there are several rows of events: which of them moved a unit.
type RowsOfUnits<'a> = BTreeMap<(&'a ItemKey, &'a Label), Vec<usize>>;

fn rows_of_units<'a>(events: &'a [Event], rows: &[usize]) -> RowsOfUnits<'a> {
    let mut found = RowsOfUnits::new();
    if rows.len() > 1 {
        let numbers =
            rows.iter().enumerate().flat_map(|(number, count)| core::iter::repeat_n(number, *count));
        for (event, number) in events.iter().zip(numbers) {
            for_each_unit(&event.transition, |item, unit, _| {
                let of_it = found.entry((item, unit)).or_default();
                if of_it.last() != Some(&number) {
                    of_it.push(number);
                }
            });
        }
    }
    found
}

fn item(text: &mut String, item: &Item) {
    let Item { key: of, mode, figures, settings, version, paused, created_at, pools: _ } = item;
    let figures = if *mode == Mode::Units { &empty_counters(figures.at) } else { figures };
    text.push('(');
    key(text, of);
    let _ = write!(
        text,
        ",{},{},{},{},{},{},{},{},{},{},",
        rows::mode(*mode),
        figures.total_units,
        figures.confirmed_sold,
        figures.fulfilled,
        figures.held,
        figures.held_under_payment,
        figures.active,
        figures.sequence,
        figures.at.micros(),
        settings.oversell_allowance
    );
    hex(text, &settings_body(settings));
    let _ = write!(text, ",{version},{},{},", u8::from(*paused), created_at.micros());
    option(text, pools_body(&pools_of_row(item)), |text, body| hex(text, &body));
    text.push(',');
    option(text, next_release(item), |text, at| int(text, at.micros()));
    text.push_str(",@stockhold_serial)");
}

fn record(text: &mut String, record: &Record) {
    text.push('(');
    record_key(text, &record.key);
    let _ = write!(text, ",{},", record.version);
    option(text, record.value.as_ref(), |text, value| hex(text, value.as_bytes()));
    text.push(')');
}

fn unit_key(text: &mut String, item: &ItemKey, unit: &Label) {
    key(text, item);
    text.push(',');
    hex(text, unit.as_str().as_bytes());
}

fn unit(text: &mut String, UnitRow { item, unit }: &UnitRow<'_>, rows: &RowsOfUnits<'_>) {
    text.push('(');
    unit_key(text, item, &unit.id);
    let _ = write!(text, ",{},", unit.place.position);
    for label in [&unit.place.section, &unit.place.row, &unit.place.number] {
        option(text, label.as_ref(), |text, label| hex(text, label.as_str().as_bytes()));
        text.push(',');
    }
    hex(text, &attributes_body(&unit.place.attributes));
    let _ = write!(text, ",{},", rows::standing(unit));
    option(text, unit.status.holder(), id);
    let _ = write!(text, ",{},", unit.version);
    match rows.get(&(item, &unit.id)) {
        None => text.push_str("@stockhold_entry"),
        Some(rows) => {
            // The newest of them are as many as fit.
            text.push_str("CONCAT(x''");
            for number in rows.iter().skip(rows.len().saturating_sub(UNIT_HISTORY_LIMIT)) {
                let _ = write!(text, ",@stockhold_entry_{number}");
            }
            text.push(')');
        }
    }
    let free_pool = unit.pool.as_ref().filter(|_| unit.status == UnitStatus::Available);
    for pool in [unit.pool.as_ref(), free_pool] {
        text.push(',');
        option(text, pool, |text, pool| hex(text, pool.as_str().as_bytes()));
    }
    text.push(')');
}

fn sale(text: &mut String, sale: &SaleRow<'_>) {
    text.push('(');
    unit_key(text, sale.item, sale.unit);
    text.push(',');
    id(text, sale.id);
    let _ = write!(text, ",{},", sale.sold_at.micros());
    option(text, sale.returned_at, |text, at| int(text, at.micros()));
    text.push_str(if sale.returned_at.is_none() { ",1)" } else { ",NULL)" });
}

fn hold(text: &mut String, hold: &Hold) {
    text.push('(');
    id(text, hold.id);
    let _ = write!(text, ",{},{},", rows::status(hold.status), hold.expires_at.micros());
    hex(text, hold.terms.reserve.owner_id.as_str().as_bytes());
    text.push(',');
    hex(text, first_sku(hold).as_bytes());
    text.push_str(",@stockhold_entry,");
    hex(text, &hold_body(hold));
    text.push(')');
}

fn queued(text: &mut String, one: &LineRow<'_>) {
    text.push('(');
    key(text, one.item);
    let _ = write!(text, ",{},", one.expires_at.micros());
    id(text, one.id);
    let _ = write!(text, ",{},", one.quantity);
    option(text, one.leads.then_some(one.expires_at), |text, due| int(text, due.micros()));
    text.push(')');
}
