//! The statements whose plans matter, and what their plans have to be.

use super::limit_statements::{counted_due, counter_page, counters};
use super::script::{self, Script};
use super::statements::{
    RowLock, StatementKind, any_due, any_release, delete_lines, due, events, free_holds, free_units, history,
    holds, items, keys, line, lock_free_units, lock_pool_units, named_units, record_page, record_rows,
    records, scan, scan_order, scan_sku, shelf, unit_figures,
};
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    CounterKey, Instant, ItemKey, KeyHash, Label, Limit, RecordKey, RecordKind, ReservationId, Subject,
};

/// A statement and the index that its plan has to use. Tests check the plans.
#[derive(Clone, Debug)]
pub struct ExpectedIndexUse {
    /// What it is for.
    pub name: &'static str,
    /// Its text.
    pub text: String,
    /// The index, or those of its parts.
    pub index: &'static str,
}

/// Most rows of one statement.
#[expect(clippy::cast_possible_truncation, reason = "some hundred")]
pub const ROWS: u32 = script::ROWS_PER_STATEMENT as u32;

/// The statements whose plans matter, each over so many made-up rows.
pub fn plans(rows: u32) -> Vec<ExpectedIndexUse> {
    let label = |n: u32| Label::new(&n.to_string()).ok();
    let item = |n| Some(ItemKey::new(&Label::new("default").ok()?, &label(n)?));
    let item_keys: BTreeSet<ItemKey> = (0..rows).filter_map(item).collect();
    let ids: BTreeSet<ReservationId> =
        (0..rows).map(|n| ReservationId::from_u128(u128::from(n) << 90)).collect();
    let hashes: BTreeSet<KeyHash> = (0..rows).map(|n| KeyHash(u128::from(n) << 90)).collect();
    let text = |make: &dyn Fn(&mut Script<StatementKind>)| text_of(make);
    let lines = |script: &mut Script<StatementKind>| {
        let bulk = delete_lines(StatementKind::Begin, None);
        script.add_rows(&bulk, item_keys.iter().zip(&ids), |text, (key, id)| {
            line(text, key, (Instant::from_micros(0), *id));
        });
    };
    let ids_of_units: BTreeSet<Label> = (0..rows).filter_map(label).collect();
    let unit_item = item(1);
    let named = |script: &mut Script<StatementKind>| {
        if let Some(item) = &unit_item {
            named_units(script, 0, item, &ids_of_units, RowLock::Wait);
        }
    };
    let free = |script: &mut Script<StatementKind>| {
        if let Some(item) = &unit_item {
            free_units(script, 0, item, None, ids_of_units.len());
        }
    };
    let pool = label(7);
    let of_pool = |script: &mut Script<StatementKind>| {
        if let (Some(item), Some(pool)) = (&unit_item, &pool) {
            lock_pool_units(script, 0, item, pool, ids_of_units.len());
        }
    };
    let last_due = ids.last().map(|id| (Instant::from_micros(i64::from(rows)), *id));
    let last_release = item_keys.last().map(|key| (Instant::from_micros(i64::from(rows)), key.clone()));
    let mut claim = Script::new();
    if let Some(item) = &unit_item {
        lock_free_units(&mut claim, 0, item, ids_of_units.len());
    }
    let packets = claim.packets();
    let mut claim = packets.iter().flat_map(|packet| packet.text.split(';')).map(str::to_owned);
    let mut claim = || claim.next().unwrap_or_default();
    let counted = |script: &mut Script<StatementKind>| {
        let Some(item) = &unit_item else { return };
        unit_figures(script, 0, item);
    };
    let record_key = |id| RecordKey { kind: RecordKind::ApiKey, id };
    let record_keys: BTreeSet<RecordKey> = (0..rows).filter_map(label).map(record_key).collect();
    let depths: BTreeMap<_, _> = item_keys.iter().map(|key| (key.clone(), 1)).collect();
    let plan = |name, index, text| ExpectedIndexUse { name, text, index };
    let mut all = vec![
        plan("lock named units", "PRIMARY units_in_order", text(&|script| named(script))),
        plan("look for the first free unit", "units_in_order PRIMARY", claim()),
        plan("lock free units from there on", "units_in_order", claim()),
        plan("lock the first free units", "units_in_order", claim()),
        plan("read the first free units", "units_in_order", text(&|script| free(script))),
        plan("lock the first free units of a pool", "units_in_pools", text(&|script| of_pool(script))),
        plan("figures of units", "PRIMARY", text(&|script| counted(script))),
        plan("lock items", "PRIMARY", text(&|script| items(script, &item_keys, RowLock::Wait))),
        plan("lock free items", "PRIMARY", text(&|script| items(script, &item_keys, RowLock::Skip))),
        plan("lock reservations", "PRIMARY", text(&|script| holds(script, &ids, RowLock::Wait))),
        plan("lock free reservations", "PRIMARY", text(&|script| free_holds(script, &ids))),
        plan("read items", "PRIMARY", text(&|script| items(script, &item_keys, RowLock::None))),
        plan("look reservations up", "PRIMARY", text(&|script| holds(script, &ids, RowLock::None))),
        plan("look keys up", "PRIMARY", text(&|script| keys(script, &hashes))),
        plan("deadlines of items", "PRIMARY", text(&|script| due(script, &depths))),
        plan("delete lines", "PRIMARY", text(&|script| lines(script))),
        plan("sweep", "active_lines_due", text(&|script| any_due(script, None, 500))),
        plan("sweep after a deadline", "active_lines_due", text(&|script| any_due(script, last_due, 500))),
        plan("pools to release", "items_releases", text(&|script| any_release(script, None, 500))),
        plan(
            "pools to release after one",
            "items_releases",
            text(&|script| any_release(script, last_release.as_ref(), 500)),
        ),
        plan("an owner's list", "holds_by_owner", scan(label(7).as_ref(), Some(0), None, 50)),
        plan(
            "a SKU's list",
            "holds_by_sku hold_skus_by_sku",
            label(7).map(|sku| scan_sku(&sku, Some(0), None, 50)).unwrap_or_default(),
        ),
        plan(
            "an order's list",
            "hold_orders_by_order PRIMARY",
            label(7).map(|order| scan_order(&order, Some(0), None, 50)).unwrap_or_default(),
        ),
        plan("the list of all", "PRIMARY", scan(None, None, None, 50)),
        plan("the shelf", "PRIMARY", shelf(None, ("default", "7"), 50)),
        plan("the shelf of a location", "PRIMARY", shelf(Some("default"), ("default", "7"), 50)),
        plan("a history", "PRIMARY", ids.first().map(|id| history(*id)).unwrap_or_default()),
        plan("events after a position", "events_by_position", events(19_000, 50)),
        plan("lock records", "PRIMARY", text(&|script| records(script, &record_keys, RowLock::Wait))),
        plan("read records", "PRIMARY", text(&|script| records(script, &record_keys, RowLock::None))),
        plan("a page of records", "PRIMARY", record_page(RecordKind::ApiKey, label(7).as_ref(), 50)),
        plan("all records behind one", "PRIMARY", record_rows(label(7).map(record_key).as_ref(), 50)),
    ];
    all.extend(limit_plans(rows));
    all
}

/// Those about what limits count.
fn limit_plans(rows: u32) -> Vec<ExpectedIndexUse> {
    let Ok(id) = Label::new("7") else { return Vec::new() };
    let limit = Limit { id, version: 1, generation: 1, terms: None };
    let subject = |n: u32| Label::new(&n.to_string()).ok().map(Subject::Customer);
    let key = |subject| CounterKey { limit: limit.id.clone(), generation: 1, subject };
    let keys: BTreeSet<CounterKey> = (0..rows).filter_map(subject).map(key).collect();
    let depths: BTreeMap<CounterKey, usize> = keys.iter().map(|key| (key.clone(), 1)).collect();
    let plan = |name, text| ExpectedIndexUse { name, text, index: "PRIMARY" };
    vec![
        plan("lock counters", text_of(|script| counters(script, &keys, RowLock::Wait))),
        plan("lock free counters", text_of(|script| counters(script, &keys, RowLock::Skip))),
        plan("read counters", text_of(|script| counters(script, &keys, RowLock::None))),
        plan("deadlines of counters", text_of(|script| counted_due(script, &depths))),
        plan("a page of counters", counter_page(&limit, subject(7).as_ref(), 50)),
    ]
}

/// The text of the first packet of a script.
fn text_of(make: impl FnOnce(&mut Script<StatementKind>)) -> String {
    let mut script = Script::new();
    make(&mut script);
    script.packets().first().map(|packet| packet.text.clone()).unwrap_or_default()
}
