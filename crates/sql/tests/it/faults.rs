//! Deadlocks, connections that die, commits of which nobody knows, writes that don't do what they should.

use crate::counts::{self, count};
use crate::fixture::{Bench, Desk, events, events_after, hold, item, reservation, run, run_again, stock};
use crate::support::Server;
use std::sync::Arc;
use std::time::Duration;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Envelope, Outcome, Status, bucket_of};
use stockhold_sql::SqlStore;
use stockhold_store::{Failure, Store};

#[test]
fn the_victim_of_a_deadlock_is_run_again() {
    counts::start();
    let before = count("stockhold_database_deadlocks_total");
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(32, "deadlock-");
    let mut items = [stock(&store, &mut maker, "a", 10), stock(&store, &mut maker, "b", 10)];
    items.sort_by_key(|key| (bucket_of(key), key.clone()));
    let [first, second] = &items;
    // Somebody who locks the other way round and has more patience, so that the store is the victim.
    let mut other = bench.lock(second);
    other.run("SET deadlock_timeout = '1h'");
    let pending =
        Desk::new().send(&store, vec![maker.wrap(maker::reserve_for(60, &[(first, 1), (second, 1)]))]);
    bench.wait_until_locked_out(1);
    other.run(&format!("SELECT FROM stockhold.items WHERE sku = '{}' FOR UPDATE; COMMIT", first.sku()));
    let outcome = pending.only();
    assert!(reservation(&outcome).is_some(), "{outcome:?}");
    assert!(count("stockhold_database_deadlocks_total") > before);
    bench.audit();
}

/// Who wants events numbers what was committed before he asked, and not what comes as fast as it is numbered.
#[test]
fn events_are_had_while_others_commit_all_the_time() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(33, "endless-");
    stock(&store, &mut maker, "a", 10);
    // Whenever some are numbered another is there.
    bench.session.run(
        "CREATE FUNCTION public.another() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO stockhold.events (bucket, serial, count, last_position, body)
             SELECT serial % 1024, serial, count, NULL, body
             FROM nextval('stockhold.event_serial') AS serial, (SELECT count, body FROM stockhold.events LIMIT 1) AS one;
             RETURN NULL;
         END $$;
         CREATE TRIGGER another AFTER UPDATE ON stockhold.sequencer FOR EACH ROW EXECUTE FUNCTION public.another()",
    );
    stock(&store, &mut maker, "b", 10);
    assert!(events_after(&store, 0, 300).len() >= 2);
}

#[test]
fn a_connection_lost_before_commit_is_unavailable_and_the_retry_takes_effect() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(25, "lost-");
    let item_key = stock(&store, &mut maker, "a", 10);
    let mut holder = bench.lock(&item_key);
    let envelope = maker.keyed("k", maker::reserve_for(60, &[(&item_key, 1)]));
    let pending = Desk::new().send(&store, vec![envelope.clone()]);
    bench.wait_until_locked_out(1);
    bench.kill_stores();
    let outcome = pending.only();
    assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
    holder.run("COMMIT");
    let again = run_again(&store, &mut maker, &envelope);
    assert!(matches!(again, Ok(Outcome::Done(_))), "nothing had been done: {again:?}");
    assert!(store.fatal_error().is_none());
    assert_eq!(item(&store, &item_key).unwrap().figures.held, 1);
    bench.audit();
}

#[test]
fn an_idle_connection_that_was_lost_is_replaced() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(26, "idle-");
    let item_key = stock(&store, &mut maker, "a", 10);
    bench.session.run(
        "CREATE TABLE public.lost AS SELECT pid FROM pg_stat_activity
         WHERE application_name = 'stockhold' AND datname = current_database()",
    );
    bench.kill_stores();
    bench.session.wait_for(
        "SELECT count(*) = 0 FROM pg_stat_activity JOIN public.lost USING (pid)
         WHERE application_name = 'stockhold' AND datname = current_database()",
    );
    // The store may learn of it only now, in which case nothing was done.
    let envelope = maker.keyed("k", maker::reserve_for(60, &[(&item_key, 1)]));
    let outcome = run_again(&store, &mut maker, &envelope);
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
}

/// A server on which the commits of sessions that begin from now on wait for a standby that does not exist, after what
/// `before` did.
fn standby_gone<T>(before: impl FnOnce(&mut Bench) -> T) -> (Bench, T) {
    let server = Arc::new(Server::start());
    let mut bench = Bench::on(&server);
    let done = before(&mut bench);
    // All events have their positions, so no other commit than the test's waits for the standby.
    events(&bench.connect());
    bench.session.run("SET synchronous_commit = 'local'");
    bench.session.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    bench.session.run("SELECT pg_reload_conf()");
    bench
        .session
        .wait_for("SELECT setting = 'nobody' FROM pg_settings WHERE name = 'synchronous_standby_names'");
    // That this session knows does not mean that the process which starts new ones does.
    while bench.another_session().text("SHOW synchronous_standby_names") != "nobody" {}
    (bench, done)
}

/// Ends a commit that waits for the standby with `how`, a function of the server.
fn commit_ended_by(how: &str, seed: u64) {
    let mut maker = Maker::new(seed, "unknown-");
    let (mut bench, item_key) = standby_gone(|bench| stock(&bench.connect(), &mut maker, "a", 10));
    let store = bench.connect();
    let envelope = maker.keyed("k", maker::reserve_for(60, &[(&item_key, 1)]));
    let pending = commit_that_waits(&mut bench, &store, &envelope);
    bench
        .session
        .run(&format!("SELECT {how}(pid) FROM pg_stat_activity WHERE application_name = 'stockhold'"));
    assert_eq!(pending.only(), Err(Failure::OutcomeUnknown));
    // The store numbers the event, and its commit must not wait for the standby.
    bench.session.run("ALTER SYSTEM RESET synchronous_standby_names");
    bench.session.run("SELECT pg_reload_conf()");

    // It had taken effect on this server, and the retry says so.
    let again = run_again(&store, &mut maker, &envelope);
    assert!(matches!(again, Ok(Outcome::Replayed(_))), "{again:?}");
    assert_eq!(item(&store, &item_key).unwrap().figures.held, 1);
    bench.audit();
}

fn commit_that_waits(bench: &mut Bench, store: &SqlStore, envelope: &Envelope) -> crate::fixture::Pending {
    let pending = Desk::new().send(store, vec![envelope.clone()]);
    bench.session.wait_for(
        "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'stockhold' AND wait_event = 'SyncRep'",
    );
    pending
}

#[test]
fn a_connection_lost_at_commit_is_unknown_and_the_retry_converges() {
    commit_ended_by("pg_terminate_backend", 27);
}

#[test]
fn a_warning_at_commit_is_unknown_and_the_retry_converges() {
    commit_ended_by("pg_cancel_backend", 28);
}

#[test]
fn a_commit_that_is_not_answered_in_time_is_unknown_and_the_retry_converges() {
    let mut maker = Maker::new(33, "deadline-");
    let (mut bench, item_key) = standby_gone(|bench| stock(&bench.connect(), &mut maker, "a", 10));
    let mut config = Bench::options();
    config.commit_deadline = Duration::from_millis(100);
    let store = bench.connect_with(config);
    let envelope = maker.keyed("k", maker::reserve_for(60, &[(&item_key, 1)]));
    assert_eq!(run(&store, envelope.clone()), Err(Failure::OutcomeUnknown));
    bench.session.run("ALTER SYSTEM RESET synchronous_standby_names");
    bench.session.run("SELECT pg_reload_conf()");
    let again = run_again(&store, &mut maker, &envelope);
    assert!(matches!(again, Ok(Outcome::Replayed(_))), "{again:?}");
    assert_eq!(item(&store, &item_key).unwrap().figures.held, 1);
    bench.audit();
}

/// Two commands of one batch, without keys, and at its COMMIT the server's error, the first so many times; how often COMMIT was
/// tried, and what came of them.
fn commit_that_fails(
    code: &str,
    times: u32,
    seed: u64,
) -> (Bench, SqlStore, usize, Vec<Result<Outcome, Failure>>) {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(seed, "at-commit-");
    let item_key = stock(&store, &mut maker, "a", 10);
    bench.session.run(&format!(
        "CREATE SEQUENCE public.tried;
         CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('public.tried') <= {times} THEN
                 RAISE EXCEPTION 'seeded' USING ERRCODE = '{code}';
             END IF;
             RETURN NULL;
         END $$;
         CREATE CONSTRAINT TRIGGER fails_at_commit AFTER INSERT ON stockhold.events
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.fail()"
    ));
    let reserves = (0..2).map(|_| maker.wrap(maker::reserve_for(60, &[(&item_key, 1)]))).collect();
    let outcomes = Desk::new().send(&store, reserves).outcomes();
    let tried = bench.session.text("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM public.tried");
    (bench, store, tried.parse().unwrap(), outcomes)
}

#[test]
fn an_error_at_commit_that_proves_nothing_is_unknown_and_nothing_is_run_again() {
    for (code, seed) in [("40003", 200), ("XX000", 201), ("53100", 202), ("40000", 203)] {
        let (_bench, _store, tried, outcomes) = commit_that_fails(code, 1, seed);
        assert_eq!(outcomes, [Err(Failure::OutcomeUnknown), Err(Failure::OutcomeUnknown)], "{code}");
        assert_eq!(tried, 1, "{code}");
    }
}

#[test]
fn an_error_at_commit_that_proves_a_rollback_is_run_again() {
    for (code, seed) in [("40001", 204), ("40P01", 205), ("57014", 206)] {
        let (mut bench, _store, tried, outcomes) = commit_that_fails(code, 1, seed);
        assert_eq!(outcomes.iter().filter_map(reservation).count(), 2, "{code}: {outcomes:?}");
        assert_eq!(tried, 2, "{code}");
        bench.audit();
    }
}

#[test]
fn a_constraint_that_fires_at_commit_is_internal() {
    let (mut bench, _store, _, outcomes) = commit_that_fails("23514", 3, 207);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(Failure::Internal(_)))), "{outcomes:?}");
    bench.audit();
}

#[test]
fn a_raw_update_past_the_rules_is_stopped_by_the_schema() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(29, "raw-");
    stock(&store, &mut maker, "a", 10);
    for update in [
        "UPDATE stockhold.items SET held = 11",
        "UPDATE stockhold.items SET held = 5, confirmed_sold = 6",
        "UPDATE stockhold.items SET held = -1",
        "UPDATE stockhold.items SET confirmed_sold = -1",
        "UPDATE stockhold.items SET active = 1",
        "UPDATE stockhold.items SET mode = 2",
    ] {
        let error = bench.session.try_run(update).expect_err(update);
        assert_eq!(
            error.code(),
            Some(&tokio_postgres::error::SqlState::CHECK_VIOLATION),
            "{update}: {error}"
        );
    }
}

/// A batch's writes and its COMMIT are sent together, so each write has to fail by itself when it does not do what it should.
#[test]
fn a_write_that_changes_another_number_of_rows_is_internal_and_nothing_is_done() {
    for (table, event, seed) in [
        ("items", "BEFORE UPDATE", 35),
        ("holds", "BEFORE UPDATE", 36),
        ("active_lines", "BEFORE DELETE", 37),
    ] {
        let mut bench = Bench::new();
        let store = bench.connect();
        let mut maker = Maker::new(seed, "rows-");
        let items = ["a", "b"].map(|name| stock(&store, &mut maker, name, 10));
        let ids = items.each_ref().map(|item| {
            let made = run(&store, maker.wrap(maker::reserve_for(60, &[(item, 1)])));
            reservation(&made).unwrap().id
        });
        let of_the_first = if table == "items" {
            format!("OLD.sku = '{}'", items[0].sku())
        } else {
            format!("OLD.id = '{}'", ids[0])
        };
        bench.session.run(&format!(
            "CREATE FUNCTION public.pass_by() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             CREATE TRIGGER passes_by {event} ON stockhold.{table} FOR EACH ROW WHEN ({of_the_first})
                 EXECUTE FUNCTION public.pass_by()"
        ));
        let confirms = ids.map(|id| maker.wrap(maker::confirm(id)));
        let outcomes = Desk::new().send(&store, confirms.into()).outcomes();
        assert!(matches!(outcomes[0], Err(Failure::Internal(_))), "{table}: {:?}", outcomes[0]);
        assert!(reservation(&outcomes[1]).is_some(), "{table}: {:?}", outcomes[1]);
        assert_eq!(hold(&store, ids[0]).unwrap().status, Status::Active, "{table}");
        let sold = items.each_ref().map(|key| item(&store, key).unwrap().figures.confirmed_sold);
        assert_eq!(sold, [0, 1], "{table}");
        bench.audit();
    }
}
