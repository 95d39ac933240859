//! The schema: made once however many instances start, refused when it is newer, walked by its keys, exact to the byte.

use super::bench::Bench;
use super::support::numbers;
use crate::fixture::{item, run, stock};
use std::thread;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Command, ItemKey};
use stockhold_sql::SqlStore;
use stockhold_sql::mysql;
use stockhold_sql::mysql::{ROWS, SCHEMA_VERSION, plans};
use stockhold_sql::{MigrationResult, OpenError, Options, migrate, open};

#[test]
fn instances_that_start_at_once_make_one_schema() {
    let mut bench = Bench::new();
    let stores: Vec<SqlStore> = thread::scope(|scope| {
        let starts: Vec<_> = (0..6).map(|_| scope.spawn(|| bench.connect())).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert_eq!(stores.len(), 6);
    let version = bench.session.text("SELECT version FROM stockhold_schema_version");
    assert_eq!(version, SCHEMA_VERSION.to_string());
}

#[test]
fn a_migration_by_itself_says_what_it_did() {
    let bench = Bench::new();
    let run = || migrate(&bench.database.url(), Options::default()).unwrap();
    assert_eq!(run(), MigrationResult { from: 0, to: SCHEMA_VERSION });
    assert_eq!(run(), MigrationResult { from: SCHEMA_VERSION, to: SCHEMA_VERSION });
}

#[test]
fn a_migration_that_was_cut_off_is_brought_to_its_end() {
    let mut bench = Bench::new();
    let mut maker = Maker::new(52, "half-");
    stock(&bench.connect(), &mut maker, "a", 3);
    // As if it had ended behind half of its tables, which a server makes one by one.
    bench.session.run(
        "DROP TABLE stockhold_events, stockhold_sequencer, stockhold_pauses; DELETE FROM stockhold_schema_version",
    );
    let store = bench.connect();
    let key = stock(&store, &mut maker, "b", 5);
    assert_eq!(item(&store, &key).unwrap().figures.total_units, 5);
    assert_eq!(bench.session.text("SELECT COUNT(*) FROM stockhold_items"), "2");
}

/// Every other test reads a clock of its own; this is the one that users have.
#[test]
fn without_any_setting_the_clock_is_the_databases_in_any_time_zone() {
    let mut bench = Bench::alone(&["--default-time-zone=+05:30"]);
    let store = open(&bench.database.url().replace("mysql://", "mariadb://"), Options::default()).unwrap();
    let mut maker = Maker::new(50, "clock-");
    let clock = "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)";
    let before: i64 = bench.session.text(clock).parse().unwrap();
    let key = stock(&*store, &mut maker, "a", 1);
    let after: i64 = bench.session.text(clock).parse().unwrap();
    let made = item(&*store, &key).unwrap().created_at.micros();
    assert!((before..=after).contains(&made), "{before} <= {made} <= {after}");
}

#[test]
fn a_newer_schema_is_refused() {
    let mut bench = Bench::new();
    drop(bench.connect());
    bench.session.run("UPDATE stockhold_schema_version SET version = version + 1");
    let newer = OpenError::NewerSchema { found: SCHEMA_VERSION + 1, known: SCHEMA_VERSION };
    let url = bench.database.url();
    assert_eq!(mysql::open(&url, Options::default()).err(), Some(newer.clone()));
    assert_eq!(migrate(&url, Options::default()), Err(newer));
}

#[test]
fn labels_that_collations_merge_are_different_items() {
    let bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(51, "");
    let labels = ["abc", "ABC", "abc ", "äbc", "abc\u{301}", "'\\;--\u{1F600}"];
    let key = |label: &str| ItemKey::new(&maker::label("default"), &maker::label(label));
    for (label, total) in labels.iter().zip(1..) {
        let set = maker.wrap(Command::SetStock(maker::stock_of(&key(label), total)));
        run(&store, set).unwrap();
    }
    for (label, total) in labels.iter().zip(1..) {
        let found = item(&store, &key(label)).unwrap();
        assert_eq!((found.key.sku(), found.figures.total_units), (*label, total));
    }
}

/// Locks are taken in the order of the primary key, and everything goes through its index, whatever the planner would rather
/// do, over few rows and over as many as one statement ever has.
#[test]
fn every_statement_that_matters_goes_through_its_index_and_sorts_nothing() {
    let mut bench = Bench::new();
    drop(bench.connect());
    for filled in [false, true] {
        if filled {
            let numbers = numbers(20_000);
            bench.session.run(&format!(
                "INSERT INTO stockhold_items SELECT 'default', seq, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, '', 1, 0, 0, NULL,
                     IF(seq % 100 = 0, seq, NULL), 1
                     FROM {numbers};
                 INSERT INTO stockhold_holds SELECT UNHEX(LEFT(SHA2(seq, 256), 32)), 0, 0, seq % 100, seq % 100, '12345678', ''
                     FROM {numbers};
                 INSERT INTO stockhold_hold_histories SELECT UNHEX(LEFT(SHA2(seq, 256), 32)), seq, '12345678' FROM {numbers};
                 INSERT INTO stockhold_hold_skus SELECT UNHEX(LEFT(SHA2(seq, 256), 32)), seq % 100 FROM {numbers};
                 INSERT INTO stockhold_hold_orders SELECT seq, UNHEX(LEFT(SHA2(seq, 256), 32)), seq % 100 FROM {numbers};
                 INSERT INTO stockhold_active_lines
                     SELECT 'default', seq, seq, UNHEX(LEFT(SHA2(seq, 256), 32)), 1, IF(seq % 2, seq, NULL) FROM {numbers};
                 INSERT INTO stockhold_keys SELECT UNHEX(LEFT(SHA2(seq, 256), 32)), seq, '' FROM {numbers};
                 INSERT INTO stockhold_units SELECT 'default', seq % 4, seq, seq, NULL, NULL, NULL, '',
                     IF(seq % 12 = 0, 4, seq % 3), IF(seq % 3, UNHEX(LEFT(SHA2(seq, 256), 32)), NULL), 1, '', IF(seq % 12 = 0, '7', NULL),
                     IF(seq % 12 = 0, '7', NULL) FROM {numbers};
                 INSERT INTO stockhold_unit_counters SELECT 'default', seq, '', seq % 64, 1, 1, 1, 0, 0, 1, seq FROM {numbers};
                 INSERT INTO stockhold_records SELECT 'api_key', seq, 1, '' FROM {numbers};
                 INSERT INTO stockhold_limit_counters SELECT seq % 100, 1, seq, 1, 0 FROM {numbers};
                 INSERT INTO stockhold_counted_holds
                     SELECT seq % 100, 1, seq % 1000, seq, UNHEX(LEFT(SHA2(seq, 256), 32)) FROM {numbers};
                 INSERT INTO stockhold_events SELECT seq, 1, seq, '' FROM {numbers}"
            ));
            bench.session.texts(
                "ANALYZE TABLE stockhold_items, stockhold_holds, stockhold_active_lines, stockhold_keys, stockhold_events,
                 stockhold_hold_histories, stockhold_hold_skus, stockhold_hold_orders, stockhold_units,
                 stockhold_unit_counters, stockhold_records, stockhold_limit_counters, stockhold_counted_holds",
            );
        }
        // MySQL shows partitions and an estimate of what is filtered as well.
        let (explain, [how, index, extra]) = if bench.database.server().is_mysql() {
            ("EXPLAIN FORMAT=TRADITIONAL", [4, 6, 11])
        } else {
            ("EXPLAIN", [3, 5, 9])
        };
        for plan in [2, 40, ROWS].into_iter().flat_map(plans) {
            let statement = plan.text.split(';').next().unwrap();
            // As the statement before says, which is not run here.
            let from = if plan.name == "lock free units from there on" { "7" } else { "NULL" };
            bench.session.run(&format!("SET @stockhold_free_from = {from}"));
            let mut rows = bench.session.rows(&format!("{explain} {statement}"));
            // Not what is in the statement itself.
            rows.retain(|row| row[2].starts_with("stockhold_"));
            assert!(!rows.is_empty(), "{}", plan.name);
            for row in rows {
                let (how, index, extra) = (&row[how], &row[index], &row[extra]);
                let said = format!("{} (filled: {filled}): {row:?}", plan.name);
                assert!(plan.index.split(' ').any(|one| one == index), "{said}");
                // Of an empty table MySQL would read the whole index.
                let whole = !filled && explain != "EXPLAIN" && how == "index";
                assert!(whole || ["range", "ref", "eq_ref"].contains(&how.as_str()), "{said}");
                match plan.name {
                    "lock free units from there on" => assert_eq!(how, "range", "{said}"),
                    // One by its range would keep the lock of the entry behind.
                    "lock the first free units" => assert_eq!(how, "ref", "{said}"),
                    _ => {}
                }
                assert!(!extra.contains("filesort") && !extra.contains("temporary"), "{said}");
            }
        }
    }
}
