//! PgBouncer between a store and its server: what is refused, what works, and a pool mode that changes under a store.

use crate::addresses::refused;
use crate::fixture::{Bench, item, run, stock, wait_until};
use crate::support::pgbouncer::PgBouncer;
use crate::support::{Server, Session};
use crate::workload;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::Outcome;
use stockhold_sql::{OpenError, Options, postgres};
use stockhold_store::{Failure, Store};

/// As PgBouncer was before version 1.21.
const TRANSACTION: &str = "pool_mode = transaction\nmax_prepared_statements = 0";
const SESSION: &str = "pool_mode = session";

fn behind(bench: &Bench, settings: &str) -> (PgBouncer, String) {
    let pooler = PgBouncer::start(bench.database.server(), "stockhold", settings);
    let url = pooler.url(bench.database.name());
    (pooler, url)
}

/// Leaves so many sessions of the server in the pool.
fn fill(url: &str, count: usize) {
    let mut sessions: Vec<Session> = (0..count).map(|_| Session::open(url)).collect();
    for statement in ["BEGIN", "COMMIT"] {
        for session in &mut sessions {
            session.run(statement);
        }
    }
}

/// Refused with the pooler named and with what to do, before anything is changed.
fn is_refused(bench: &mut Bench, url: &str, says: &str) {
    let error = refused(url);
    let named = |why: &str| {
        ["pooler", "PgBouncer", "pool_mode = session", says].iter().all(|word| why.contains(word))
    };
    assert!(matches!(&error, OpenError::Unfit(why) if named(why)), "{error:?}");
    assert_eq!(bench.session.text("SELECT to_regnamespace('stockhold') IS NULL"), "t");
}

#[test]
fn whatever_the_pool_a_pooler_of_transactions_or_statements_is_refused() {
    let mut bench = Bench::new();
    for (size, idle) in [(1, 0), (1, 1), (20, 0), (20, 1), (20, 2), (20, 3), (20, 10)] {
        for round_robin in [0, 1] {
            let pool = format!("default_pool_size = {size}\nserver_round_robin = {round_robin}");
            let (_pooler, url) = behind(&bench, &format!("{TRANSACTION}\n{pool}"));
            fill(&url, idle);
            is_refused(&mut bench, &url, "");
        }
    }
    let of_statements = TRANSACTION.replace("transaction", "statement");
    for settings in [&format!("{TRANSACTION}\nmin_pool_size = 8"), &of_statements] {
        let (_pooler, url) = behind(&bench, settings);
        is_refused(&mut bench, &url, "");
    }
}

#[test]
fn a_pooler_of_transactions_is_found_while_others_use_it() {
    let mut bench = Bench::new();
    let (_pooler, url) = behind(&bench, &format!("{TRANSACTION}\ndefault_pool_size = 4"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut session = Session::open(&url);
                while !done.load(Ordering::SeqCst) {
                    session.run("BEGIN; SELECT 1");
                    session.run("COMMIT");
                }
            });
        }
        for _ in 0..10 {
            is_refused(&mut bench, &url, "");
        }
        done.store(true, Ordering::SeqCst);
    });
}

#[test]
fn sessions_of_the_store_alone_are_as_good_as_without_a_pooler() {
    let mut bench = Bench::new();
    let (_pooler, url) = behind(&bench, SESSION);
    let stores: Vec<_> = (0..2).map(|_| postgres::open(&url, Bench::options()).unwrap()).collect();
    workload::buyers(&[&stores[0], &stores[1]], 1);
    bench.audit();
}

/// A pool mode that changes is like a pooler that comes between: each transaction has another session from then on.
#[test]
fn requests_are_unavailable_while_sessions_change_and_then_served_again() {
    let mut bench = Bench::new();
    let (pooler, url) = behind(&bench, SESSION);
    let store =
        postgres::open(&url, Options { connections: 8, most_connections: 8, ..Bench::options() }).unwrap();
    let mut maker = Maker::new(90, "pooler-");
    let item_key = stock(&store, &mut maker, "a", 10_000);
    let mut sold = 0;
    let mut reserve =
        |store: &dyn Store| match run(store, maker.wrap(maker::reserve_for(600, &[(&item_key, 1)]))) {
            Ok(Outcome::Done(_)) => {
                sold += 1;
                true
            }
            Err(Failure::Unavailable(_)) => false,
            other => panic!("{other:?}"),
        };
    assert!(reserve(&store));
    pooler.reload(TRANSACTION);
    wait_until(|| {
        reserve(&store);
        store.fatal_error().is_some_and(|why| why.contains("PgBouncer"))
    });
    assert!(!reserve(&store));
    pooler.reload(SESSION);
    wait_until(|| reserve(&store));
    assert_eq!(item(&store, &item_key).unwrap().figures.held, sold);
    bench.audit();
}

/// With statements that PgBouncer prepares and settings of the role, each transaction may have another session.
#[test]
fn transactions_are_pooled_where_statements_and_settings_are_kept() {
    let mut bench = Bench::on(&Arc::new(Server::start()));
    let pooled = "pool_mode = transaction\nmax_prepared_statements = 200\nserver_round_robin = 1\ndefault_pool_size = 5";
    let (before, url) = behind(&bench, pooled);
    is_refused(&mut bench, &url, "ALTER ROLE stockhold SET lock_timeout = '2000'");
    drop(before);
    bench.session.run(include_str!("../../../../deploy/postgresql/pooler.sql"));
    let (_pooler, url) = behind(&bench, &format!("{TRANSACTION}\nserver_round_robin = 1"));
    is_refused(&mut bench, &url, "max_prepared_statements");

    let (_pooler, url) = behind(&bench, pooled);
    let options = Options {
        sweep_every: Some(Duration::from_millis(100)),
        connections: 4,
        most_connections: 6,
        ..Options::default()
    };
    let stores: Vec<_> = (0..2).map(|_| postgres::open(&url, options.clone()).unwrap()).collect();
    workload::mixed(&[&stores[0], &stores[1]], 91, 120);
    let report = stockhold_sql::verify(&url, &options, |_| ()).unwrap();
    assert_eq!((report.drift, &report.findings), (0, &Vec::new()));
    drop(stores);
    bench.audit();
}
