//! The schema: made once whoever comes first, refused when it is newer, locked by its keys.

use crate::fixture::{Bench, item, stock};
use std::thread;
use stockhold_sql::postgres::{Config, ConnectError, LOCK_STATEMENTS, PostgresStore, SCHEMA_VERSION};
use stockhold_store::conformance::Maker;

#[test]
fn instances_that_start_at_once_make_one_schema() {
    let mut bench = Bench::new();
    let config = bench.config();
    let stores: Vec<PostgresStore> = thread::scope(|scope| {
        let starts: Vec<_> = (0..6).map(|_| scope.spawn(|| PostgresStore::connect(config.clone()))).collect();
        starts.into_iter().map(|start| start.join().unwrap().unwrap()).collect()
    });
    assert_eq!(stores.len(), 6);
    assert_eq!(
        bench.session.text("SELECT version FROM stockhold.schema_version"),
        SCHEMA_VERSION.to_string()
    );
}

/// Every other test reads a clock of its own; this is the one that users have.
#[test]
fn without_any_setting_the_clock_is_the_databases() {
    let mut bench = Bench::new();
    let config = Config::new(&bench.database.url).expect("a valid URL");
    let store = PostgresStore::connect(config).expect("the store connects");
    let mut maker = Maker::new(50, "clock-");
    let clock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let before: i64 = bench.session.text(clock).parse().unwrap();
    let key = stock(&store, &mut maker, "a", 1);
    let after: i64 = bench.session.text(clock).parse().unwrap();
    let made = item(&store, &key).unwrap().created_at.micros();
    assert!((before..=after).contains(&made), "{before} <= {made} <= {after}");
}

#[test]
fn a_newer_schema_is_refused() {
    let mut bench = Bench::new();
    drop(bench.connect());
    bench.session.run("UPDATE stockhold.schema_version SET version = version + 1");
    match PostgresStore::connect(bench.config()) {
        Err(ConnectError::NewerSchema { found }) => assert_eq!(found, SCHEMA_VERSION + 1),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a newer schema was accepted"),
    }
}

#[test]
fn a_database_that_cannot_hold_every_sku_is_refused() {
    let mut bench = Bench::new();
    bench
        .session
        .run("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'");
    let mut config = bench.config();
    config.database.dbname("latin");
    let refused = PostgresStore::connect(config).err();
    assert!(matches!(refused, Some(ConnectError::Encoding(_))), "{refused:?}");
    bench.session.run("DROP DATABASE latin");
}

/// Locks are taken in the order of the arrays, through the primary key, whatever the planner would rather do.
#[test]
fn locks_are_taken_by_key_in_the_order_given() {
    let mut bench = Bench::new();
    drop(bench.connect());
    bench.session.run(
        "INSERT INTO stockhold.items (bucket, location, sku, mode, total_units, confirmed_sold, held, active, sequence,
             decided_at, safety_stock, version, paused, created_at)
         SELECT n % 1024, 'default', n::text, 0, 1, 0, 0, 0, 1, 0, 0, 1, false, 0 FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.holds (bucket, id, status, expires_at, body)
         SELECT n % 1024, gen_random_uuid(), 0, 0, '' FROM generate_series(1, 20000) n;
         ANALYZE stockhold.items; ANALYZE stockhold.holds",
    );
    let [(items, items_key), (holds, holds_key)] = LOCK_STATEMENTS;
    bench.session.run(&format!("PREPARE lock_items AS {items}; PREPARE lock_holds AS {holds}"));
    let many: Vec<String> = (0..2_000).map(|n| n.to_string()).collect();
    let many = many.join(",");
    let calls = [
        (
            format!("lock_items('{{{many}}}', array_fill('default'::text, '{{2000}}'), '{{{many}}}')"),
            items_key,
        ),
        (format!("lock_holds('{{{many}}}', array_fill(gen_random_uuid(), '{{2000}}'))"), holds_key),
    ];
    for mode in ["force_generic_plan", "force_custom_plan"] {
        for nested_loops in ["on", "off"] {
            bench.session.run(&format!("SET plan_cache_mode = {mode}; SET enable_nestloop = {nested_loops}"));
            for (call, key) in &calls {
                let plan = bench.session.texts(&format!("EXPLAIN (COSTS OFF) EXECUTE {call}")).join("\n");
                let plan_says = |what: &str| plan.contains(what);
                assert!(plan_says("Nested Loop") && plan_says("LockRows"), "{plan}");
                assert!(plan_says(&format!("using {key}")), "{plan}");
                assert!(!plan_says("Sort") && !plan_says("Seq Scan") && !plan_says("Hash"), "{plan}");
            }
        }
    }
}
