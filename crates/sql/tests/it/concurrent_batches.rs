//! Several connections of one instance: which batches run at the same time, and which never do.

use crate::counts::{self, count};
use crate::fixture::{Bench, Desk, hold, item, reservation, run, stock};
use std::time::Duration;
use stockhold_conformance::{Maker, START, maker};
use stockhold_domain::{Instant, ItemKey, Outcome, Status};
use stockhold_sql::Options;
use stockhold_store::{Answer, Failure, Request};

#[test]
fn unrelated_items_do_not_wait_for_each_other_and_one_item_has_one_transaction_at_a_time() {
    let mut bench = Bench::new();
    let store = bench.connect_with(Options { connections: 6, most_connections: 6, ..Bench::options() });
    let mut maker = Maker::new(90, "flights-");
    let [a, b, c] = ["a", "b", "c"].map(|name| stock(&store, &mut maker, name, 100));
    let mut holder = bench.lock(&a);
    let mut reserve = |wants: &[(&ItemKey, u64)]| maker.wrap(maker::reserve_for(60, wants));
    let first = Desk::new().send(&store, vec![reserve(&[(&a, 1)])]);
    bench.wait_until_locked_out(1);
    // About the same item, also by way of a basket: they wait here and not in the database.
    let same = [
        Desk::new().send(&store, vec![reserve(&[(&a, 1)])]),
        Desk::new().send(&store, vec![reserve(&[(&a, 1), (&b, 1)])]),
        Desk::new().send(&store, vec![reserve(&[(&b, 1)])]),
    ];
    for _ in 0..20 {
        let outcome = run(&store, reserve(&[(&c, 1)]));
        assert!(reservation(&outcome).is_some(), "{outcome:?}");
    }
    bench.wait_until_locked_out(1);
    holder.run("COMMIT");
    assert!(reservation(&first.only()).is_some());
    for pending in same {
        assert!(reservation(&pending.only()).is_some());
    }
    let held = [&a, &b, &c].map(|key| item(&store, key).unwrap().figures.held);
    assert_eq!(held, [3, 2, 20]);
    let rows = bench.session.texts("SELECT count FROM stockhold.events ORDER BY serial");
    let last: Vec<&str> = rows.iter().rev().take(2).map(String::as_str).collect();
    // Who came for the same item went along with the first; the basket and who waited behind it went together.
    assert_eq!(last, ["2", "2"], "{rows:?}");
    bench.audit();
}

#[test]
fn room_is_made_by_baskets_whose_other_items_are_in_flight_elsewhere() {
    let mut bench = Bench::new();
    let store = bench.connect_with(Options { connections: 6, most_connections: 6, ..Bench::options() });
    let mut maker = Maker::new(91, "room-");
    let [a, b] = ["a", "b"].map(|name| stock(&store, &mut maker, name, 5));
    let made = run(&store, maker.wrap(maker::reserve_for(60, &[(&a, 5), (&b, 4)])));
    let id = reservation(&made).unwrap().id;
    bench.set_clock(Instant::from_micros(START.micros() + 60_000_000));
    let mut holder = bench.lock(&b);
    let on_b = Desk::new().send(&store, vec![maker.wrap(maker::reserve_for(60, &[(&b, 1)]))]);
    bench.wait_until_locked_out(1);
    // It needs the basket expired, and the basket needs the other item, which is in flight.
    let on_a = Desk::new().send(&store, vec![maker.wrap(maker::reserve_for(60, &[(&a, 5)]))]);
    holder.run("COMMIT");
    assert!(reservation(&on_b.only()).is_some());
    assert!(reservation(&on_a.only()).is_some());
    assert_eq!(hold(&store, id).unwrap().status, Status::Expired);
    let held = [&a, &b].map(|key| item(&store, key).unwrap().figures.held);
    assert_eq!(held, [5, 1]);
    bench.audit();
}

#[test]
fn reads_go_on_while_commands_wait_for_locks() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(92, "reads-");
    let items = ["a", "b", "c", "d"].map(|name| stock(&store, &mut maker, name, 5));
    let holders: Vec<_> = items.iter().map(|key| bench.lock(key)).collect();
    // More than there are connections.
    let pending: Vec<_> = items
        .iter()
        .map(|key| Desk::new().send(&store, vec![maker.wrap(maker::reserve_for(60, &[(key, 1)]))]))
        .collect();
    bench.session.wait_for(
        "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    );
    for _ in 0..10 {
        assert_eq!(item(&store, &items[0]).unwrap().figures.held, 0);
    }
    for mut holder in holders {
        holder.run("COMMIT");
    }
    for pending in pending {
        assert!(reservation(&pending.only()).is_some());
    }
}

#[test]
fn thousands_in_one_order_keep_it_over_many_batches_and_fail_as_one_when_the_database_goes() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(93, "order-");
    let key = stock(&store, &mut maker, "a", 1_000);
    let commands: Vec<_> = (0..1_500).map(|_| maker.wrap(maker::reserve_for(60, &[(&key, 1)]))).collect();
    let answer = Desk::new().ask(&store, vec![Request::Commands(commands)]).wait().remove(0);
    let Ok(Answer::Outcomes(outcomes)) = answer else { panic!("{answer:?}") };
    let sequences: Vec<u64> =
        outcomes.iter().filter_map(reservation).map(|hold| hold.lines[0].sequence).collect();
    assert_eq!(sequences, (2..=1_001).collect::<Vec<_>>());
    assert!(outcomes[1_000..].iter().all(|outcome| reservation(outcome).is_none()));

    let mut holder = bench.lock(&key);
    let commands: Vec<_> = (0..600).map(|_| maker.wrap(maker::reserve_for(60, &[(&key, 1)]))).collect();
    let pending = Desk::new().ask(&store, vec![Request::Commands(commands)]);
    bench.wait_until_locked_out(1);
    bench.kill_stores();
    let answer = pending.wait().remove(0);
    holder.run("COMMIT");
    let Ok(Answer::Outcomes(outcomes)) = answer else { panic!("{answer:?}") };
    assert_eq!(outcomes.len(), 600);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(Failure::Unavailable(_)))));
    bench.audit();
}

/// What makes up for the rules here is a trigger that sells one unit more than there is, whatever was decided.
#[test]
fn with_the_rules_turned_off_the_database_refuses_an_oversell_and_it_is_an_alarm() {
    counts::start();
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(94, "rules-off-");
    let key = stock(&store, &mut maker, "a", 10);
    bench.session.run(
        "CREATE FUNCTION public.rules_off() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN NEW.held := NEW.total_units - NEW.confirmed_sold + 1; RETURN NEW; END $$;
         CREATE TRIGGER rules_off BEFORE UPDATE ON stockhold.items FOR EACH ROW EXECUTE FUNCTION public.rules_off()",
    );
    let alarms = count("stockhold_invariant_alarms_total");
    let outcome = run(&store, maker.wrap(maker::reserve_for(60, &[(&key, 1)])));
    match &outcome {
        Err(Failure::Internal(what)) => assert!(what.contains("items_never_oversold"), "{what}"),
        other => panic!("{other:?}"),
    }
    assert!(count("stockhold_invariant_alarms_total") > alarms);
    bench.session.run("DROP TRIGGER rules_off ON stockhold.items");
    assert_eq!(item(&store, &key).unwrap().figures.held, 0);
    assert!(reservation(&run(&store, maker.wrap(maker::reserve_for(60, &[(&key, 1)])))).is_some());
    bench.audit();
}

#[test]
fn keys_are_kept_for_as_long_as_is_set_and_then_forgotten() {
    let mut bench = Bench::new();
    let retention = Duration::from_hours(24);
    let options = Options { key_retention: retention, ..Bench::options() };
    let store = bench.connect_with(options.clone());
    let mut maker = Maker::new(95, "kept-");
    let key = stock(&store, &mut maker, "a", 10);
    let envelope = maker.keyed("k", maker::reserve_for(60, &[(&key, 1)]));
    assert!(matches!(run(&store, envelope.clone()), Ok(Outcome::Done(_))));
    let kept = i64::try_from(retention.as_micros()).unwrap();
    bench.set_clock(Instant::from_micros(START.micros() + kept));
    drop(store);
    // A store looks at its start.
    let store = bench.connect_with(options.clone());
    let again = run(&store, maker.again(&envelope));
    assert!(matches!(again, Ok(Outcome::Replayed(_))), "{again:?}");
    drop(store);
    bench.set_clock(Instant::from_micros(START.micros() + kept + 1));
    let _store = bench.connect_with(options);
    bench.session.wait_for("SELECT count(*) = 0 FROM stockhold.keys");
}
