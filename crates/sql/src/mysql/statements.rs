//! What is asked of the database, as text. What is written here loads and locks; it never judges.
//!
//! Locks are taken row by row as the primary key is walked: every list is given in the key's order, and the hint keeps the
//! planner from walking anything else. At READ COMMITTED a row that is not there locks nothing, and a row that was waited for
//! is read again.

use super::limit_statements::LIMITS_VERSION;
use super::rows::{ITEM_COLUMNS, RECORD_COLUMNS, UNIT_COLUMNS};
use super::script::{self, Bulk, Script, hex, id, int, key, option};
use crate::engine::{BATCH_LINES, Deadline, LockSet, Release};
use core::fmt::Write;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{Instant, ItemKey, KeyHash, Label, RecordKey, RecordKind, ReservationId};

/// The store's clock, in microseconds. Read when it is evaluated, where `NOW` is when its statement began.
pub(super) const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))";

/// Items whose deadlines are asked for by one statement.
pub(super) const ITEMS_PER_STATEMENT: usize = 50;

/// A variable of the session: the position of an item's first free unit, for the statement that comes next.
const FREE_FROM: &str = "@stockhold_free_from";
/// Free units of an item beside those that a batch claims, of which others hardly have all locked: as many as one of their batches
/// claims at most, unless it is a single larger basket.
const PLENTY: usize = BATCH_LINES;

/// What a statement of a [`Script`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatementKind {
    /// Nothing that anybody wants to see.
    Begin,
    Items,
    Holds,
    FreeHolds,
    Clock,
    Paused,
    Keys,
    Due,
    AnyDue,
    AnyRelease,
    /// Of the item of this number.
    NamedUnits(usize),
    FreeUnits(usize),
    AllUnits(usize),
    UnitFigures(usize),
    LastUnit(usize),
    Records,
    LimitsVersion,
    Counters,
    /// Those that nobody else has locked.
    FreeCounters,
    /// Each row with the number of its counter.
    CountedDue,
    /// Whether a transaction is open.
    InTransaction,
}

/// How rows are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowLock {
    None,
    Wait,
    Skip,
}

pub(super) const fn read(step: StatementKind, head: &'static str, tail: &'static str) -> Bulk<StatementKind> {
    Bulk { step, head, between: ",", tail, affects: None }
}

const FROM_ITEMS: &str = "SELECT location,sku,mode,total_units,confirmed_sold,fulfilled,held,\
held_under_payment,active,sequence,decided_at,oversell_allowance,settings,version,paused,created_at,pools \
FROM stockhold_items FORCE INDEX (PRIMARY) WHERE (location,sku) IN (";
const FROM_HOLDS: &str = "SELECT body FROM stockhold_holds FORCE INDEX (PRIMARY) WHERE id IN (";

impl RowLock {
    pub(super) const fn tail(self) -> &'static str {
        match self {
            Self::None => ")",
            Self::Wait => ") FOR UPDATE",
            Self::Skip => ") FOR UPDATE SKIP LOCKED",
        }
    }
}

/// Begins a transaction.
pub(super) fn begin(script: &mut Script<StatementKind>) {
    script.add(StatementKind::Begin).push_str("START TRANSACTION");
}

/// Locks the pauses and the limits, if they are needed, and reads the version of the limits. The lock of one row protects all of
/// them: a writer that waits for it has its turn before the readers that come later.
pub(super) fn lock_settings(script: &mut Script<StatementKind>, lock_set: &LockSet) {
    let how = match (lock_set.sets_settings(), lock_set.reads_settings()) {
        (true, _) => "FOR UPDATE",
        (false, true) => "LOCK IN SHARE MODE",
        (false, false) => return,
    };
    let _ = write!(script.add(StatementKind::LimitsVersion), "{LIMITS_VERSION} {how}");
}

/// Items, in the order of their keys.
pub(super) fn items<'a>(
    script: &mut Script<StatementKind>,
    keys: impl IntoIterator<Item = &'a ItemKey>,
    lock: RowLock,
) {
    script.add_rows(&read(StatementKind::Items, FROM_ITEMS, lock.tail()), keys, |text, one| {
        text.push('(');
        key(text, one);
        text.push(')');
    });
}

/// Reservations, in the order of their ids.
pub(super) fn holds(script: &mut Script<StatementKind>, ids: &BTreeSet<ReservationId>, lock: RowLock) {
    script.add_rows(&read(StatementKind::Holds, FROM_HOLDS, lock.tail()), ids, |text, one| id(text, *one));
}

/// Those of the reservations that nobody else has locked, locked. With the key alone MariaDB would go through the whole of a
/// small table for them.
pub(super) fn free_holds(script: &mut Script<StatementKind>, ids: &BTreeSet<ReservationId>) {
    const HEAD: &str = "SELECT id,LENGTH(body) FROM stockhold_holds FORCE INDEX (PRIMARY) WHERE id IN (";
    script.add_rows(&read(StatementKind::FreeHolds, HEAD, RowLock::Skip.tail()), ids, |text, one| {
        id(text, *one);
    });
}

/// Records, in the order of their names.
pub(super) fn records(script: &mut Script<StatementKind>, keys: &BTreeSet<RecordKey>, lock: RowLock) {
    const HEAD: &str =
        "SELECT kind,id,version,value FROM stockhold_records FORCE INDEX (PRIMARY) WHERE (kind,id) IN (";
    script.add_rows(&read(StatementKind::Records, HEAD, lock.tail()), keys, |text, one| {
        text.push('(');
        script::record_key(text, one);
        text.push(')');
    });
}

/// Records of a kind that are not deleted, in the order of their ids.
pub(super) fn record_page(kind: RecordKind, after: Option<&Label>, limit: usize) -> String {
    let mut text =
        format!("SELECT {RECORD_COLUMNS} FROM stockhold_records FORCE INDEX (PRIMARY) WHERE kind=");
    hex(&mut text, kind.name().as_bytes());
    text.push_str(" AND id>");
    hex(&mut text, after.map_or("", Label::as_str).as_bytes());
    let _ = write!(text, " AND value IS NOT NULL ORDER BY id LIMIT {limit}");
    text
}

/// Reservations whose payment is due.
pub(super) fn due_payments(now: Instant, limit: usize) -> String {
    format!(
        "SELECT id FROM stockhold_due_payments FORCE INDEX (due_payments_by_time) WHERE due_at<={} \
         ORDER BY due_at,id LIMIT {limit}",
        now.micros()
    )
}

/// All records behind one, in the order of their names.
pub(super) fn record_rows(after: Option<&RecordKey>, limit: usize) -> String {
    let mut text = format!("SELECT {RECORD_COLUMNS} FROM stockhold_records FORCE INDEX (PRIMARY)");
    if let Some(after) = after {
        text.push_str(" WHERE kind>");
        hex(&mut text, after.kind.name().as_bytes());
        text.push_str(" OR kind=");
        hex(&mut text, after.kind.name().as_bytes());
        text.push_str(" AND id>");
        hex(&mut text, after.id.as_str().as_bytes());
    }
    let _ = write!(text, " ORDER BY kind,id LIMIT {limit}");
    text
}

pub(super) fn clock(script: &mut Script<StatementKind>, clock: &str) {
    let _ = write!(script.add(StatementKind::Clock), "SELECT {clock}");
}

pub(super) fn paused(script: &mut Script<StatementKind>, locations: &BTreeSet<String>) {
    let bulk = read(
        StatementKind::Paused,
        "SELECT location FROM stockhold_pauses WHERE paused AND location IN (",
        ")",
    );
    script.add_rows(&bulk, locations, |text, location| hex(text, location.as_bytes()));
}

pub(super) fn keys(script: &mut Script<StatementKind>, hashes: &BTreeSet<KeyHash>) {
    let bulk = read(
        StatementKind::Keys,
        "SELECT body FROM stockhold_keys FORCE INDEX (PRIMARY) WHERE hash IN (",
        ")",
    );
    script.add_rows(&bulk, hashes, |text, hash| hex(text, &hash.0.to_be_bytes()));
}

/// The earliest deadlines of items, each with the item's number in the list.
pub(super) fn due(script: &mut Script<StatementKind>, depths: &BTreeMap<ItemKey, usize>) {
    let numbered: Vec<_> = depths.iter().enumerate().collect();
    for some in numbered.chunks(ITEMS_PER_STATEMENT) {
        let text = script.add(StatementKind::Due);
        for (nth, (number, (item, depth))) in some.iter().enumerate() {
            if nth > 0 {
                text.push_str(" UNION ALL ");
            }
            let _ = write!(
                text,
                "(SELECT {number},expires_at,id FROM stockhold_active_lines FORCE INDEX (PRIMARY) WHERE (location,sku)=("
            );
            key(text, item);
            let _ = write!(text, ") ORDER BY expires_at,id LIMIT {depth})");
        }
    }
}

/// Begins a statement over one item's units.
fn of_units(text: &mut String, item: &ItemKey, columns: &str, index: &str) {
    let _ = write!(text, "SELECT {columns} FROM stockhold_units FORCE INDEX ({index})");
    of_item(text, item);
}

fn of_item(text: &mut String, item: &ItemKey) {
    text.push_str(" WHERE location=");
    hex(text, item.location().as_bytes());
    text.push_str(" AND sku=");
    hex(text, item.sku().as_bytes());
}

/// Locks units of the item of this number in the order of their ids, each with its entry in the index of claims. A transaction
/// that scans this index skips a locked entry. It keeps the lock of an entry that is not locked until its end, even if it can't
/// lock the unit, and the transaction that has locked the unit has to change the entry.
pub(super) fn named_units(
    script: &mut Script<StatementKind>,
    number: usize,
    item: &ItemKey,
    ids: &BTreeSet<Label>,
    lock: RowLock,
) {
    let columns = UNIT_COLUMNS.replace(',', ",stockhold_units.");
    let mut head = format!(
        "SELECT stockhold_units.{columns} FROM stockhold_units FORCE INDEX (PRIMARY) \
         STRAIGHT_JOIN stockhold_units AS stockhold_units_entry FORCE INDEX (units_in_order) \
         USING (location,sku,status,position,id)"
    );
    of_item(&mut head, item);
    head.push_str(" AND id IN (");
    let ids: Vec<&Label> = ids.iter().collect();
    for some in ids.chunks(script::ROWS_PER_STATEMENT) {
        let text = script.add(StatementKind::NamedUnits(number));
        text.push_str(&head);
        for (nth, id) in some.iter().enumerate() {
            text.push_str(if nth > 0 { "," } else { "" });
            hex(text, id.as_str().as_bytes());
        }
        text.push_str(lock.tail());
    }
}

/// The first free units of an item in the order of claims, as they are.
pub(super) fn free_units(
    script: &mut Script<StatementKind>,
    number: usize,
    item: &ItemKey,
    pool: Option<&Label>,
    most: usize,
) {
    let text = script.add(StatementKind::FreeUnits(number));
    free_of(text, item, pool);
    let _ = write!(text, " ORDER BY position,id LIMIT {most}");
}

/// Begins a statement over the free units of an item that are in this pool, or in none.
fn free_of(text: &mut String, item: &ItemKey, pool: Option<&Label>) {
    match pool {
        None => {
            of_units(text, item, UNIT_COLUMNS, "units_in_order");
            text.push_str(" AND status=0");
        }
        Some(pool) => {
            of_units(text, item, UNIT_COLUMNS, "units_in_pools");
            text.push_str(" AND free_pool=");
            hex(text, pool.as_str().as_bytes());
        }
    }
}

/// Locks the first free units of a pool, as far as nobody else has locked them.
pub(super) fn lock_pool_units(
    script: &mut Script<StatementKind>,
    number: usize,
    item: &ItemKey,
    pool: &Label,
    most: usize,
) {
    let text = script.add(StatementKind::FreeUnits(number));
    free_of(text, item, Some(pool));
    let _ = write!(text, " ORDER BY position,id LIMIT {most} FOR UPDATE SKIP LOCKED");
}

/// Locks the first free units of an item, as far as nobody else has locked them.
///
/// What was claimed stays in the index until it is purged, and a walk that locks takes a microsecond or two for each such entry, so
/// where there is plenty it begins where a look without locks saw the first free unit. One that came free before it since is passed
/// by, as if it had come later. Where there is not, it begins at the beginning: a walk from somewhere that comes to the end of
/// the free ones keeps the lock of the entry behind them, which is another unit's, until the attempt ends; one through all of
/// them does not touch it. So it is where others have locked all of plenty, which takes a basket of thousands at another server.
pub(super) fn lock_free_units(
    script: &mut Script<StatementKind>,
    number: usize,
    item: &ItemKey,
    most: usize,
) {
    let text = script.add(StatementKind::Begin);
    text.push_str(
        "SELECT IF((SELECT SUM(IF(pool=x'',1,-1)*(total_units-held-confirmed_sold)) FROM stockhold_unit_counters FORCE INDEX (PRIMARY)",
    );
    of_item(text, item);
    let _ = write!(text, ")>={},(", most.saturating_add(PLENTY));
    of_units(text, item, "position", "units_in_order");
    let _ = write!(text, " AND status=0 ORDER BY position,id LIMIT 1),NULL) INTO {FREE_FROM}");
    // One of them; of the other the server sees that nothing fulfils it, and looks at no row.
    for from in [format!("position>={FREE_FROM}"), format!("{FREE_FROM} IS NULL")] {
        let text = script.add(StatementKind::FreeUnits(number));
        of_units(text, item, UNIT_COLUMNS, "units_in_order");
        let _ =
            write!(text, " AND status=0 AND {from} ORDER BY position,id LIMIT {most} FOR UPDATE SKIP LOCKED");
    }
}

/// All units of an item, in no order.
pub(super) fn all_units(script: &mut Script<StatementKind>, number: usize, item: &ItemKey) {
    of_units(script.add(StatementKind::AllUnits(number)), item, UNIT_COLUMNS, "PRIMARY");
}

/// What the units of an item come to, and those of each of its pools.
pub(super) fn unit_figures(script: &mut Script<StatementKind>, number: usize, item: &ItemKey) {
    let text = script.add(StatementKind::UnitFigures(number));
    text.push_str(
        "SELECT COALESCE(SUM(total_units),0),COALESCE(SUM(held),0),COALESCE(SUM(confirmed_sold),0),\
         COALESCE(MAX(decided_at),0),COALESCE(SUM(active),0),COALESCE(SUM(fulfilled),0),COALESCE(SUM(held_under_payment),0),pool FROM stockhold_unit_counters FORCE INDEX (PRIMARY)",
    );
    of_item(text, item);
    text.push_str(" GROUP BY pool");
}

/// The last unit of each status.
pub(super) fn last_unit(script: &mut Script<StatementKind>, number: usize, item: &ItemKey) {
    let text = script.add(StatementKind::LastUnit(number));
    for status in 0..=4 {
        text.push_str(if status > 0 { " UNION ALL (" } else { "(" });
        of_units(text, item, "position", "units_in_order");
        let _ = write!(text, " AND status={status} ORDER BY position DESC,id DESC LIMIT 1)");
    }
}

/// Units after a place in the order of claims: each status is a list in order.
pub(super) fn units_page(item: &ItemKey, after: Option<&(u64, Label)>, limit: usize) -> String {
    let mut text = format!("SELECT {UNIT_COLUMNS} FROM (");
    for status in 0..=4 {
        text.push_str(if status > 0 { " UNION ALL (" } else { "(" });
        of_units(&mut text, item, UNIT_COLUMNS, "units_in_order");
        let _ = write!(text, " AND status={status}");
        if let Some((position, id)) = after {
            let _ = write!(text, " AND position>={position} AND (position>{position} OR id>");
            hex(&mut text, id.as_str().as_bytes());
            text.push(')');
        }
        let _ = write!(text, " ORDER BY position,id LIMIT {limit})");
    }
    let _ = write!(text, ") AS found ORDER BY position,id LIMIT {limit}");
    text
}

/// One unit, and where its events are.
pub(super) fn one_unit(item: &ItemKey, unit: &Label) -> String {
    let mut text = String::new();
    of_units(&mut text, item, &format!("{UNIT_COLUMNS},history"), "PRIMARY");
    text.push_str(" AND id=");
    hex(&mut text, unit.as_str().as_bytes());
    text
}

/// The earliest deadlines of all reservations, or the earliest ones after a deadline.
pub(super) fn any_due(script: &mut Script<StatementKind>, after: Option<Deadline>, depth: usize) {
    let text = script.add(StatementKind::AnyDue);
    text.push_str(
        "SELECT due,id FROM stockhold_active_lines FORCE INDEX (active_lines_due) WHERE due IS NOT NULL",
    );
    if let Some((due, reservation)) = after {
        let due = due.micros();
        let _ = write!(text, " AND due>={due} AND (due>{due} OR id>");
        id(text, reservation);
        text.push(')');
    }
    let _ = write!(text, " ORDER BY due,id LIMIT {depth}");
}

/// Moves the time at which the sweeper looks at the pools of an item.
pub(super) fn move_release((from, item): &Release, to: Option<Instant>) -> String {
    let mut text = String::from("UPDATE stockhold_items FORCE INDEX (PRIMARY) SET pool_release_at=");
    option(&mut text, to, |text, at| int(text, at.micros()));
    of_item(&mut text, item);
    let _ = write!(text, " AND pool_release_at={}", from.micros());
    text
}

/// The items with the earliest releases of pools, or with the earliest ones after a release.
pub(super) fn any_release(script: &mut Script<StatementKind>, after: Option<&Release>, depth: usize) {
    let text = script.add(StatementKind::AnyRelease);
    text.push_str(
        "SELECT pool_release_at,location,sku FROM stockhold_items FORCE INDEX (items_releases) \
         WHERE pool_release_at IS NOT NULL",
    );
    if let Some((due, item)) = after {
        let due = due.micros();
        let _ = write!(text, " AND pool_release_at>={due} AND (pool_release_at>{due} OR location>");
        hex(text, item.location().as_bytes());
        text.push_str(" OR location=");
        hex(text, item.location().as_bytes());
        text.push_str(" AND sku>");
        hex(text, item.sku().as_bytes());
        text.push(')');
    }
    let _ = write!(text, " ORDER BY pool_release_at,location,sku LIMIT {depth}");
}

/// Items after a key in order of (location, SKU), of one location or of all.
pub(super) fn shelf(location: Option<&str>, after: (&str, &str), limit: usize) -> String {
    let mut text =
        format!("SELECT {ITEM_COLUMNS} FROM stockhold_items FORCE INDEX (PRIMARY) WHERE location=");
    hex(&mut text, location.unwrap_or(after.0).as_bytes());
    text.push_str(" AND sku>");
    hex(&mut text, after.1.as_bytes());
    if location.is_none() {
        text.push_str(" OR location>");
        hex(&mut text, after.0.as_bytes());
    }
    let _ = write!(text, " ORDER BY location,sku LIMIT {limit}");
    text
}

/// Reservations before an id, the largest first: the bodies of those with a status.
pub(super) fn scan(owner: Option<&Label>, status: Option<u8>, before: Option<u128>, limit: usize) -> String {
    let mut text = format!("SELECT id,{}", body_of(status));
    let index = if owner.is_some() { "holds_by_owner" } else { "PRIMARY" };
    let _ = write!(text, " FROM stockhold_holds FORCE INDEX ({index}) WHERE ");
    if let Some(owner) = owner {
        text.push_str("owner_id=");
        hex(&mut text, owner.as_str().as_bytes());
        text.push_str(" AND ");
    }
    text.push_str("id<=");
    hex(&mut text, &last_id(before).to_be_bytes());
    let _ = write!(text, " ORDER BY id DESC LIMIT {limit}");
    text
}

/// A page of the reservations with a line of a SKU: the newest of those whose first line is of it and of those with another line
/// of it.
pub(super) fn scan_sku(sku: &Label, status: Option<u8>, before: Option<u128>, limit: usize) -> String {
    let mut is_of_it = " WHERE sku=".to_owned();
    hex(&mut is_of_it, sku.as_str().as_bytes());
    is_of_it.push_str(" AND id<=");
    hex(&mut is_of_it, &last_id(before).to_be_bytes());
    let body = body_of(status);
    // Only what is on the page is looked up: what is put in order are ids.
    let order = format!("ORDER BY id DESC LIMIT {limit}");
    format!(
        "SELECT found.id,{body} FROM (SELECT id FROM (\
         (SELECT id FROM stockhold_holds FORCE INDEX (holds_by_sku){is_of_it} {order}) UNION ALL \
         (SELECT id FROM stockhold_hold_skus FORCE INDEX (hold_skus_by_sku){is_of_it} {order})) AS both_kinds {order}) \
         AS found STRAIGHT_JOIN stockhold_holds h FORCE INDEX (PRIMARY) ON h.id=found.id ORDER BY found.id DESC"
    )
}

/// The reservations that were confirmed for an order before a number, the last one first.
pub(super) fn scan_order(order: &Label, status: Option<u8>, before: Option<u128>, limit: usize) -> String {
    let before = before.and_then(|before| u64::try_from(before).ok()).unwrap_or(u64::MAX);
    let mut text = format!(
        "SELECT number,{} FROM stockhold_hold_orders FORCE INDEX (hold_orders_by_order) \
         STRAIGHT_JOIN stockhold_holds FORCE INDEX (PRIMARY) USING (id) WHERE order_id=",
        body_of(status)
    );
    hex(&mut text, order.as_str().as_bytes());
    let _ = write!(text, " AND number<{before} ORDER BY number DESC LIMIT {limit}");
    text
}

/// The body of a reservation, as an expression: NULL if it has another status.
fn body_of(status: Option<u8>) -> String {
    status.map_or_else(|| "body".to_owned(), |status| format!("IF(status={status},body,NULL)"))
}

/// The last id before a place. There is none before the first.
fn last_id(before: Option<u128>) -> u128 {
    before.map_or(u128::MAX, |before| before.saturating_sub(1))
}

/// The history of a reservation: the parts that were moved, oldest first, then that of the reservation itself.
pub(super) fn history(of: ReservationId) -> String {
    let mut text =
        "SELECT history FROM (SELECT serial,history FROM stockhold_hold_histories WHERE id=".to_owned();
    id(&mut text, of);
    let _ = write!(text, " UNION ALL SELECT {},history FROM stockhold_holds WHERE id=", u64::MAX);
    id(&mut text, of);
    text.push_str(") AS parts ORDER BY serial");
    text
}

/// Numbered batches by their serials.
pub(super) fn batches(script: &mut Script<StatementKind>, serials: &BTreeSet<u64>) {
    let head = "SELECT last_position,event_count,body,serial FROM stockhold_events FORCE INDEX (PRIMARY) \
                WHERE last_position IS NOT NULL AND serial IN (";
    script.add_rows(&read(StatementKind::Begin, head, ")"), serials, |text, serial| int(text, *serial));
}

/// Numbered batches that end behind a position.
pub(super) fn events(after: i64, batches: usize) -> String {
    format!(
        "SELECT last_position,event_count,body FROM stockhold_events FORCE INDEX (events_by_position) \
         WHERE last_position>{after} ORDER BY last_position LIMIT {batches}"
    )
}

/// Whether a copy into the database has not ended.
pub(super) const UNFINISHED: &str = "SELECT unfinished FROM stockhold_schema_version WHERE one=1";

/// How many reservations are active: one line of each has its deadline.
pub(super) const ACTIVE_HOLDS: &str =
    "SELECT COUNT(*) FROM stockhold_active_lines FORCE INDEX (active_lines_due) WHERE due IS NOT NULL";

/// Forgets keys that were used before an instant.
pub(super) fn forget_keys(before: Instant, limit: usize) -> String {
    format!(
        "DELETE FROM stockhold_keys WHERE used_at<{} ORDER BY used_at LIMIT {limit};SELECT ROW_COUNT()",
        before.micros()
    )
}

/// Deletes lines, in the order given. They are looked up one by one: a list of keys of several columns takes the planner of
/// MariaDB 2 s for 1,000 of them, and where the table was small it is scanned, so that others' rows are waited for.
pub(super) const fn delete_lines<T: Copy>(step: T, affects: Option<(T, usize)>) -> Bulk<T> {
    Bulk {
        step,
        // The columns' names; no label is empty.
        head: "DELETE stockhold_active_lines FROM (SELECT x'' AS location,x'' AS sku,0 AS expires_at,x'' AS id \
               UNION ALL SELECT ",
        between: " UNION ALL SELECT ",
        tail: ") AS gone STRAIGHT_JOIN stockhold_active_lines FORCE INDEX (PRIMARY) \
               USING (location,sku,expires_at,id)",
        affects,
    }
}

/// A line's key.
pub(super) fn line(text: &mut String, item: &ItemKey, (expires_at, of): Deadline) {
    key(text, item);
    text.push(',');
    int(text, expires_at.micros());
    text.push(',');
    id(text, of);
}
