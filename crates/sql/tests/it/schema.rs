//! The schema: made once however many instances start, refused when it is newer, locked by its keys.

use crate::fixture::{Bench, item, stock};
use std::thread;
use stockhold_conformance::Maker;
use stockhold_sql::SqlStore;
use stockhold_sql::postgres;
use stockhold_sql::postgres::{PLANS, SCHEMA_VERSION};
use stockhold_sql::{MigrationResult, OpenError, Options, migrate};

#[test]
fn instances_that_start_at_once_make_one_schema() {
    let mut bench = Bench::new();
    let stores: Vec<SqlStore> = thread::scope(|scope| {
        let starts: Vec<_> = (0..6).map(|_| scope.spawn(|| bench.connect())).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert_eq!(stores.len(), 6);
    assert_eq!(
        bench.session.text("SELECT version FROM stockhold.schema_version"),
        SCHEMA_VERSION.to_string()
    );
}

#[test]
fn a_migration_by_itself_says_what_it_did() {
    let bench = Bench::new();
    let run = || migrate(&bench.database.url, Options::default()).unwrap();
    assert_eq!(run(), MigrationResult { from: 0, to: SCHEMA_VERSION });
    assert_eq!(run(), MigrationResult { from: SCHEMA_VERSION, to: SCHEMA_VERSION });
}

/// Every other test reads a clock of its own; this is the one that users have.
#[test]
fn without_any_setting_the_clock_is_the_databases() {
    let mut bench = Bench::new();
    let store = postgres::open(&bench.database.url, Options::default()).expect("the store connects");
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
    let newer = OpenError::NewerSchema { found: SCHEMA_VERSION + 1, known: SCHEMA_VERSION };
    assert_eq!(postgres::open(&bench.database.url, Options::default()).err(), Some(newer.clone()));
    assert_eq!(migrate(&bench.database.url, Options::default()), Err(newer));
}

#[test]
fn a_database_that_cannot_hold_every_sku_is_refused() {
    let mut bench = Bench::new();
    bench
        .session
        .run("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'");
    let url = bench.database.url_of("latin");
    let refused = postgres::open(&url, Options::default()).err();
    assert!(matches!(&refused, Some(OpenError::Unfit(why)) if why.contains("UTF8")), "{refused:?}");
    bench.session.run("DROP DATABASE latin");
}

/// Locks are taken in the order of the arrays, and everything goes through its index, whatever the planner would rather do.
#[test]
fn every_statement_that_matters_goes_through_its_index_and_sorts_nothing() {
    let mut bench = Bench::new();
    drop(bench.connect());
    bench.session.run(
        "INSERT INTO stockhold.items (bucket, location, sku, mode, total_units, confirmed_sold, fulfilled, held,
             held_under_payment, active, sequence, decided_at, oversell_allowance, settings, version, paused, created_at,
             pool_release_at)
         SELECT n % 1024, 'default', n::text, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, '', 1, false, 0,
             CASE WHEN n % 100 = 0 THEN n END FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.holds (bucket, id, status, expires_at, owner_id, sku, history, body)
         SELECT n % 1024, gen_random_uuid(), 0, 0, (n % 100)::text, (n % 100)::text, '12345678', ''
         FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.hold_histories (bucket, id, serial, history)
         SELECT n % 1024, gen_random_uuid(), n, '12345678' FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.hold_skus (bucket, id, sku)
         SELECT n % 1024, gen_random_uuid(), (n % 100)::text FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.hold_orders (bucket, id, order_id)
         SELECT n % 1024, gen_random_uuid(), (n % 100)::text FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.active_lines (bucket, location, sku, expires_at, id, quantity, leads)
         SELECT n % 1024, 'default', n::text, n, gen_random_uuid(), 1, true FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.keys (bucket, hash, used_at, body)
         SELECT n % 1024, decode(md5(n::text), 'hex'), n, '' FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.units
             (bucket, location, sku, id, position, attributes, status, reservation, version, history, pool)
         SELECT n % 4, 'default', (n % 4)::text, n::text, n, '', CASE WHEN n % 12 = 0 THEN 4 ELSE n % 3 END,
             CASE WHEN n % 3 > 0 THEN gen_random_uuid() END, 1, '', CASE WHEN n % 12 = 0 THEN '7' END
         FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.unit_counters SELECT n % 1024, 'default', n::text, '', n % 64, 1, 1, 1, 0, 0, 1, n
         FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.records (kind, id, version, value)
         SELECT 'api_key', n::text, 1, '' FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.events (bucket, serial, count, last_position, body)
         SELECT n % 1024, n, 1, n, '' FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.limit_counters SELECT '7', 1, n::text::bytea, 1, 0 FROM generate_series(1, 20000) n;
         INSERT INTO stockhold.counted_holds
         SELECT n % 100, 1, (n % 1000)::text::bytea, n, gen_random_uuid() FROM generate_series(1, 20000) n;
         ANALYZE",
    );
    let many: Vec<String> = (0..2_000).map(|n| n.to_string()).collect();
    let many = many.join(",");
    let items = format!("'{{{many}}}', array_fill('default'::text, '{{2000}}'), '{{{many}}}'");
    let holds = format!("'{{{many}}}', array_fill(gen_random_uuid(), '{{2000}}')");
    let keys = format!("'{{{many}}}', array_fill('abcdefghijklmnop'::bytea, '{{2000}}')");
    let counters =
        "array_fill('7'::text, '{2000}'), array_fill(1::bigint, '{2000}'), array_fill('7'::bytea, '{2000}')";
    let highest = "'ffffffff-ffff-ffff-ffff-ffffffffffff'";
    let parameters = |name: &str| match name {
        "lock items" | "lock free items" | "read items" => items.clone(),
        "figures of units" => format!("{items}, '{{{many}}}'"),
        "lock reservations" | "lock free reservations" | "read reservations" => holds.clone(),
        "look a key up" => keys.clone(),
        "deadlines of an item" => format!("{items}, array_fill(1::bigint, '{{2000}}'), '{{{many}}}'"),
        "lock named units" | "lock named units that are free" => {
            format!("{items}, '{{{many}}}', '{{{many}}}'")
        }
        "lock the first free units" | "read the first free units" => {
            format!("{items}, array_fill(5::bigint, '{{2000}}'), '{{{many}}}'")
        }
        "lock the first free units of a pool" | "read the first free units of a pool" => {
            format!("{items}, array_fill(5::bigint, '{{2000}}'), '{{{many}}}', '{{{many}}}'")
        }
        "one unit" => "1, 'default', '1', '7'".to_owned(),
        "a page of units" => "1, 'default', '1', 7, '7', 50".to_owned(),
        "sweep" => format!("500, 7, {highest}"),
        "pools to release" => "500, 7, 'default', '7'".to_owned(),
        "an owner's list" | "a SKU's list" => format!("NULL, {highest}, 50, '7'"),
        "an order's list" => "NULL, 9223372036854775807, 50, '7'".to_owned(),
        "the list of all" => format!("NULL, {highest}, 50"),
        "a history" => "1, gen_random_uuid()".to_owned(),
        "events after a position" => "19000, 50".to_owned(),
        "lock records" | "read records" => format!("array_fill('api_key'::text, '{{2000}}'), '{{{many}}}'"),
        "lock counters" | "lock free counters" | "read counters" => counters.to_owned(),
        "deadlines of a counter" => format!("{counters}, array_fill(1::bigint, '{{2000}}')"),
        "a page of counters" => "'7', 1, '7', 50".to_owned(),
        "a page of records" => "'api_key', '7', 50".to_owned(),
        other => panic!("{other}"),
    };
    for mode in ["force_generic_plan", "force_custom_plan"] {
        for nested_loops in ["on", "off"] {
            bench.session.run(&format!("SET plan_cache_mode = {mode}; SET enable_nestloop = {nested_loops}"));
            for plan in PLANS {
                bench.session.run(&format!("PREPARE looked_at AS {}", plan.text));
                let explain = format!("EXPLAIN (COSTS OFF) EXECUTE looked_at({})", parameters(plan.name));
                let text = bench.session.texts(&explain).join("\n");
                let says = |what: &str| text.contains(what);
                // What two lists in order are merged by is no sort.
                let sorts = text.lines().any(|line| {
                    let step = line.trim_start().trim_start_matches("->").trim_start();
                    step.starts_with("Sort") && !step.starts_with("Sort Key")
                        || step.starts_with("Incremental")
                });
                let name = plan.name;
                assert!(says(&format!("using {}", plan.index)), "{name}:\n{text}");
                assert!(!sorts && !says("Seq Scan") && !says("Hash") && !says("Bitmap"), "{name}:\n{text}");
                assert!(name != "a history" || says("using hold_histories_pkey"), "{name}:\n{text}");
                assert!(name != "a SKU's list" || says("using hold_skus_by_sku"), "{name}:\n{text}");
                assert!(!plan.locks || says("Nested Loop") && says("LockRows"), "{name}:\n{text}");
                bench.session.run("DEALLOCATE looked_at");
            }
        }
    }
}

#[test]
fn claims_are_told_by_these_words_in_a_log_of_slow_statements() {
    let told: Vec<&str> = PLANS
        .iter()
        .filter(|plan| plan.text.contains("SKIP LOCKED) AS free"))
        .map(|plan| plan.name)
        .collect();
    assert_eq!(told, ["lock the first free units", "lock the first free units of a pool"]);
}
