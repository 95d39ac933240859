//! Deadlocks, connections that die, commits of which nobody knows, writes that don't do what they should.

use super::bench::Bench;
use super::support::{Programs, Server, numbers};
use crate::crashes::nothing_acknowledged_is_lost;
use crate::fixture::{Desk, Pending, events, hold, item, reservation, run, stock};
use std::sync::Arc;
use std::time::Duration;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Envelope, ItemKey, Outcome, Status};
use stockhold_sql::SqlStore;
use stockhold_store::{Failure, Store};

/// A statement that locks an item.
fn lock_of(item: &ItemKey) -> String {
    let (location, sku) = (item.location(), item.sku());
    format!("SELECT 1 FROM stockhold_items WHERE location = '{location}' AND sku = '{sku}' FOR UPDATE")
}

#[test]
fn the_victim_of_a_deadlock_is_run_again() {
    let mut bench = Bench::alone(&[]);
    let store = bench.connect();
    let mut maker = Maker::new(32, "deadlock-");
    let [first, second] = ["a", "b"].map(|name| stock(&store, &mut maker, name, 10));
    // Somebody who locks the other way round and has written more, so that the server spares them.
    let ballast = numbers(1_000);
    bench
        .session
        .run(&format!("CREATE TABLE ballast (n INT); INSERT INTO ballast SELECT seq FROM {ballast}"));
    let mut other = bench.another_session();
    other.run(&format!("START TRANSACTION; UPDATE ballast SET n = n + 1; {}", lock_of(&second)));
    let pending =
        Desk::new().send(&store, vec![maker.wrap(maker::reserve_for(60, &[(&first, 1), (&second, 1)]))]);
    bench.wait_until_locked_out(1);
    other.run(&format!("{}; COMMIT", lock_of(&first)));
    let outcome = pending.only();
    assert!(reservation(&outcome).is_some(), "{outcome:?}");
    assert_eq!(bench.session.deadlocks(), 1);
    bench.audit();
}

/// The server's timeout rolls back a statement and leaves the transaction open.
#[test]
fn a_lock_that_timed_out_leaves_nothing_locked() {
    let mut bench = Bench::new();
    let mut config = Bench::options();
    config.lock_timeout = Some(Duration::from_secs(1));
    let store = bench.connect_with(config);
    let mut maker = Maker::new(36, "timeout-");
    let [first, second] = ["a", "b"].map(|name| stock(&store, &mut maker, name, 10));
    let mut holder = bench.lock(&second);
    let basket = maker.wrap(maker::reserve_for(60, &[(&first, 1), (&second, 1)]));
    assert_eq!(run(&store, basket), Err(Failure::Overloaded));
    bench.session.run(&format!("{} NOWAIT", lock_of(&first)));
    holder.run("COMMIT");
    bench.audit();
}

#[test]
fn a_connection_lost_while_it_waits_is_replaced_and_the_batch_takes_effect_once() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(25, "lost-");
    let item_key = stock(&store, &mut maker, "a", 10);
    let mut holder = bench.lock(&item_key);
    let envelope = maker.keyed("k", maker::reserve_for(60, &[(&item_key, 1)]));
    let pending = Desk::new().send(&store, vec![envelope.clone()]);
    bench.wait_until_locked_out(1);
    bench.session.kill_stores();
    // Another connection waits in its place.
    bench.wait_until_locked_out(1);
    holder.run("COMMIT");
    let outcome = pending.only();
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    let again = run(&store, maker.again(&envelope));
    assert!(matches!(again, Ok(Outcome::Replayed(_))), "{again:?}");
    assert_eq!(item(&store, &item_key).unwrap().figures.held, 1);
    bench.audit();
}

#[test]
fn idle_connections_that_were_lost_are_replaced_and_nobody_notices() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(26, "idle-");
    let item_key = stock(&store, &mut maker, "a", 10);
    let before = bench.session.store_connections();
    bench.session.kill_stores();
    bench.session.wait_until("the old connections are gone", |session| {
        session.store_connections().iter().all(|id| !before.contains(id))
    });
    for _ in 0..6 {
        let outcome = run(&store, maker.wrap(maker::reserve_for(60, &[(&item_key, 1)])));
        assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
        assert!(item(&store, &item_key).is_some());
    }
    assert!(store.fatal_error().is_none());
}

/// A server on which commits wait, from now on, for a replica that does not exist, after what `before` did.
fn replica_gone<T>(before: impl FnOnce(&mut Bench) -> T) -> (Bench, T) {
    let semi_sync: &[&str] = if Programs::chosen().is_mysql {
        &[
            "--plugin-load-add=semisync_source.so",
            "--rpl-semi-sync-source-wait-point=AFTER_SYNC",
            "--rpl-semi-sync-source-timeout=3600000",
        ]
    } else {
        &["--rpl-semi-sync-master-wait-point=AFTER_SYNC", "--rpl-semi-sync-master-timeout=3600000"]
    };
    let mut bench = Bench::alone(&[&["--log-bin=binlog", "--server-id=1"], semi_sync].concat());
    let done = before(&mut bench);
    // All events have their positions, so no other commit than the test's waits for the replica.
    events(&bench.connect());
    wait_for_replicas(&mut bench, true);
    (bench, done)
}

/// Whether commits wait for a replica from now on.
fn wait_for_replicas(bench: &mut Bench, do_wait: bool) {
    let of = if bench.database.server().is_mysql() { "source" } else { "master" };
    bench.session.run(&format!("SET GLOBAL rpl_semi_sync_{of}_enabled = {}", u8::from(do_wait)));
}

fn commit_that_waits(bench: &mut Bench, store: &SqlStore, envelope: &Envelope) -> Pending {
    let pending = Desk::new().send(store, vec![envelope.clone()]);
    bench.session.wait_for(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'stockhold' AND state LIKE '%semi-sync%'",
    );
    pending
}

/// It had taken effect on this server, and the retry says so.
fn had_taken_effect(bench: &mut Bench, store: &SqlStore, again: Envelope) {
    wait_for_replicas(bench, false);
    let key = match &again.command {
        stockhold_domain::Command::Reserve(reserve) => reserve.basket.lines()[0].item.clone(),
        other => panic!("{other:?}"),
    };
    let again = run(store, again);
    assert!(matches!(again, Ok(Outcome::Replayed(_))), "{again:?}");
    assert_eq!(item(store, &key).unwrap().figures.held, 1);
    bench.audit();
}

#[test]
fn a_connection_lost_at_commit_is_unknown_and_the_retry_converges() {
    let mut maker = Maker::new(27, "unknown-");
    let (mut bench, item_key) = replica_gone(|bench| stock(&bench.connect(), &mut maker, "a", 10));
    let store = bench.connect();
    let envelope = maker.keyed("k", maker::reserve_for(60, &[(&item_key, 1)]));
    let pending = commit_that_waits(&mut bench, &store, &envelope);
    bench.session.kill_stores();
    assert_eq!(pending.only(), Err(Failure::OutcomeUnknown));
    had_taken_effect(&mut bench, &store, maker.again(&envelope));
}

#[test]
fn a_commit_that_is_not_answered_in_time_is_unknown_and_the_retry_converges() {
    let mut maker = Maker::new(33, "deadline-");
    let (mut bench, item_key) = replica_gone(|bench| stock(&bench.connect(), &mut maker, "a", 10));
    let mut config = Bench::options();
    config.commit_deadline = Duration::from_millis(100);
    let store = bench.connect_with(config);
    let envelope = maker.keyed("k", maker::reserve_for(60, &[(&item_key, 1)]));
    assert_eq!(run(&store, envelope.clone()), Err(Failure::OutcomeUnknown));
    had_taken_effect(&mut bench, &store, maker.again(&envelope));
}

#[test]
fn a_server_that_is_killed_under_load_and_comes_back_loses_nothing_that_was_acknowledged() {
    let server = Arc::new(Server::start(&[]));
    let bench = Bench::on(&server);
    let stores = [bench.connect(), bench.connect()];
    nothing_acknowledged_is_lost(&[&stores[0], &stores[1]], || {
        server.kill();
        server.run();
    });
    drop(stores);
    Bench { session: bench.database.session(), database: bench.database }.audit();
}

/// What MariaDB and MySQL call it. MySQL has numbers of their own for what does not fit into a column.
const CHECK_VIOLATION: [u16; 2] = [4025, 3819];

#[test]
fn a_raw_update_past_the_rules_is_stopped_by_the_schema() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(29, "raw-");
    stock(&store, &mut maker, "a", 10);
    for update in [
        "UPDATE stockhold_items SET held = 11",
        "UPDATE stockhold_items SET held = 5, confirmed_sold = 6",
        "UPDATE stockhold_items SET held = -1",
        "UPDATE stockhold_items SET confirmed_sold = -1",
        "UPDATE stockhold_items SET active = 1",
        "UPDATE stockhold_items SET mode = 2",
    ] {
        let error = bench.session.try_run(update).expect_err(update);
        let code = match &error {
            mysql_async::Error::Server(said) => said.code,
            other => panic!("{update}: {other}"),
        };
        assert!(CHECK_VIOLATION.contains(&code), "{update}: {error}");
    }
}

#[test]
fn a_write_that_finds_another_number_of_rows_is_internal_and_nothing_is_done() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(35, "rows-");
    let item_key = stock(&store, &mut maker, "a", 10);
    let ids = [0, 1].map(|_| {
        let made = run(&store, maker.wrap(maker::reserve_for(60, &[(&item_key, 1)])));
        reservation(&made).unwrap().id
    });
    bench.session.run(&format!("DELETE FROM stockhold_active_lines WHERE id = x'{:032x}'", ids[0].as_u128()));
    let outcomes = Desk::new().send(&store, ids.map(|id| maker.wrap(maker::confirm(id))).into()).outcomes();
    assert!(matches!(outcomes[0], Err(Failure::Internal(_))), "{:?}", outcomes[0]);
    assert!(reservation(&outcomes[1]).is_some(), "{:?}", outcomes[1]);
    assert_eq!(hold(&store, ids[0]).unwrap().status, Status::Active);
    assert_eq!(item(&store, &item_key).unwrap().figures.confirmed_sold, 1);
}
