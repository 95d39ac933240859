//! Recounting.

use super::{Shop, adds_up, done, every_command, often_amended, verdict};
use crate::fixture::{Desk, run};
use crate::workload::mixed;
use std::sync::atomic::{AtomicBool, Ordering};
use stockhold_conformance::{Maker, checkout_maker, maker};
use stockhold_sql::{AuditError, OpenError, Options};
use stockhold_store::Query;

pub(crate) fn a_database_without_a_schema_is_left_alone<S: Shop>(shop: &mut S) {
    let error = stockhold_sql::verify(&shop.url(), &shop.options(), |_| ()).unwrap_err();
    assert!(matches!(error, AuditError::Open(OpenError::OlderSchema { found: 0, .. })), "{error:?}");
    assert!(error.to_string().contains("no stockhold data"), "{error}");
    // The database is unchanged, and the schema can still be created.
    let again = stockhold_sql::verify(&shop.url(), &shop.options(), |_| ()).unwrap_err();
    assert_eq!(again, error);
    drop(shop.store());
    assert_eq!(adds_up(shop).events, 0);
}

pub(crate) fn whatever_callers_did_adds_up<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    mixed(&[&*stores[0], &*stores[1]], 61, 40);
    let mut maker = Maker::new(62, "traces-");
    every_command(&*stores[0], &mut maker, "");
    let verdict = adds_up(shop);
    assert_eq!((verdict.items, verdict.archived), (10, 0));
    assert!(verdict.batches > 20 && verdict.events > verdict.batches && verdict.keys > 20, "{verdict:?}");
    assert!(verdict.reservations.iter().take(3).all(|count| *count > 0), "{verdict:?}");
    let newest = super::newest(&*stores[0]);
    assert_eq!(verdict.events, newest, "each event once");
}

pub(crate) fn it_sees_one_moment_while_instances_go_on<S: Shop>(shop: &mut S) {
    let (store, shop) = (shop.store(), &*shop);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let at_work = scope.spawn(|| {
            let mut seed = 70;
            while !done.load(Ordering::SeqCst) {
                mixed(&[&*store], seed, 10);
                seed += 1;
            }
        });
        let verdicts: Vec<u64> = (0..5).map(|_| adds_up(shop).events).collect();
        done.store(true, Ordering::SeqCst);
        at_work.join().unwrap();
        assert!(verdicts.is_sorted(), "{verdicts:?}");
    });
    assert!(adds_up(shop).events > 0);
}

/// What is done to the database, the tables that have to be put back, and what the finding says.
const DRIFTS: [(&str, &[&str], &str); 39] = [
    ("UPDATE {t}items SET held = held + 1 WHERE held > 0", &["items"], "its events lead to"),
    ("UPDATE {t}items SET total_units = total_units + 1", &["items"], "its events lead to"),
    ("UPDATE {t}items SET oversell_allowance = 3", &["items"], "other settings"),
    ("DELETE FROM {t}items", &["items"], "is not there"),
    ("UPDATE {t}holds SET status = 1 WHERE status = 0", &["holds"], "what it is found by"),
    ("UPDATE {t}holds SET sku = 'x'", &["holds"], "what it is found by"),
    ("UPDATE {t}holds SET owner_id = 'x'", &["holds"], "what it is found by"),
    ("DELETE FROM {t}holds WHERE status = 0", &["holds"], "in the history of one"),
    ("DELETE FROM {t}holds WHERE status = 1", &["holds"], "its reservations"),
    ("DELETE FROM {t}hold_histories", &["hold_histories"], "in the history of one"),
    ("UPDATE {t}hold_histories SET history = '12345678'", &["hold_histories"], "its history does not begin"),
    ("DELETE FROM {t}hold_skus", &["hold_skus"], "lists by SKU"),
    ("DELETE FROM {t}hold_orders", &["hold_orders"], "the list of order"),
    ("UPDATE {t}hold_orders SET order_id = 'x'", &["hold_orders"], "the list of order"),
    ("DELETE FROM {t}active_lines", &["active_lines"], "the queue of deadlines"),
    ("UPDATE {t}active_lines SET quantity = quantity + 1", &["active_lines"], "the queue of deadlines"),
    ("DELETE FROM {t}events WHERE last_position = 5", &["events"], "have a gap"),
    ("DELETE FROM {t}events WHERE last_position = 8", &["events"], "its history"),
    ("UPDATE {t}events SET body = 'x' WHERE last_position = 5", &["events"], "the batch of serial"),
    ("UPDATE {t}sequencer SET position = position + 1", &["sequencer"], "the newest position"),
    ("UPDATE {t}keys SET used_at = used_at + 1", &["keys"], "what it is found by"),
    ("UPDATE {t}keys SET body = 'x'", &["keys"], "key "),
    ("DELETE FROM {t}holds WHERE status = 2", &["holds"], "which is not there"),
    ("DELETE FROM {t}pauses WHERE location <> ''", &["pauses"], "is not as the events left it"),
    ("UPDATE {t}records SET version = version + 1", &["records"], "is not as its events left it"),
    ("UPDATE {t}records SET value = 'x'", &["records"], "is not as its events left it"),
    ("DELETE FROM {t}records", &["records"], "is not there"),
    ("UPDATE {t}limits SET version = version + 1", &["limits"], "its columns are not what it is"),
    ("UPDATE {t}limits SET body = 'x'", &["limits"], "limit "),
    ("DELETE FROM {t}limits", &["limits"], "is not there"),
    ("UPDATE {t}limit_counters SET held = held + 1", &["limit_counters"], "its reservations have"),
    ("UPDATE {t}limit_counters SET sold = sold + 1", &["limit_counters"], "its events lead to"),
    ("DELETE FROM {t}limit_counters", &["limit_counters"], "is not there, and its reservations"),
    ("DELETE FROM {t}due_payments", &["due_payments"], "the queue of payments has it wrongly"),
    (
        "UPDATE {t}due_payments SET due_at = due_at + 1",
        &["due_payments"],
        "the queue of payments has it wrongly",
    ),
    ("DELETE FROM {t}counted_holds", &["counted_holds"], "does not have it"),
    (
        "INSERT INTO {t}counted_holds SELECT limit_id, generation, subject, expires_at + 1, id FROM {t}counted_holds",
        &["counted_holds"],
        "the queues of counters have",
    ),
    (
        "INSERT INTO {t}archived_counters SELECT limit_id, generation, subject, 1 FROM {t}limit_counters",
        &["archived_counters"],
        "its reservations have",
    ),
    (
        "UPDATE {t}archived SET position = 2, at = 0, file_position = 2, file_hash = '12345678901234567890123456789012'",
        &["archived"],
        "which is not there",
    ),
];

pub(crate) fn every_kind_of_drift_is_found<S: Shop>(shop: &mut S) {
    {
        let store = shop.store();
        let mut maker = Maker::new(63, "drift-");
        every_command(&*store, &mut maker, "");
        often_amended(&*store, &mut maker);
        let priced = crate::fixture::stock(&*store, &mut maker, "drift-paid", 3);
        run(&*store, maker.wrap(checkout_maker::set_price(&priced, 700))).unwrap();
        let paid = done(&*store, maker.wrap(maker::reserve_for(60, &[(&priced, 1)])));
        done(&*store, maker.wrap(checkout_maker::checkout(paid)));
        // One that is in no position: a cut between the commit and its number.
        Desk::new().find(&*store, Query::Events { after: 0, limit: 1 }).unwrap();
    }
    adds_up(shop);
    for (drift, tables, says) in DRIFTS {
        for table in tables {
            shop.sql(&format!("CREATE TABLE copy_of_{table} AS SELECT * FROM {{t}}{table}"));
        }
        shop.sql(drift);
        let verdict = verdict(shop);
        assert!(verdict.drift > 0, "{drift}: nothing was found");
        assert!(verdict.findings.iter().any(|what| what.contains(says)), "{drift}: {:?}", verdict.findings);
        for table in tables {
            shop.sql(&format!(
                "DELETE FROM {{t}}{table}; INSERT INTO {{t}}{table} SELECT * FROM copy_of_{table};
                 DROP TABLE copy_of_{table}"
            ));
        }
    }
    adds_up(shop);
}

/// Where nobody has numbered yet, all is counted nevertheless.
#[test]
fn events_without_a_position_count() {
    let mut bench = crate::fixture::Bench::new();
    let store = bench.connect_with(Options { sweep_every: None, ..crate::fixture::Bench::options() });
    let mut maker = Maker::new(64, "unnumbered-");
    let key = crate::fixture::stock(&store, &mut maker, "a", 10);
    let mut sequencer = bench.another_session();
    sequencer.run("BEGIN; SELECT FROM stockhold.sequencer FOR UPDATE");
    for _ in 0..5 {
        run(&store, maker.wrap(maker::reserve_for(60, &[(&key, 1)]))).unwrap();
    }
    assert_eq!(adds_up(&bench).events, 6);
    sequencer.run("COMMIT");
    bench.session.wait_for("SELECT position = 6 FROM stockhold.sequencer");
    assert_eq!(adds_up(&bench).events, 6);
}
