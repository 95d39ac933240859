//! What is combined into one transaction, in which order, and what finds no place.

use crate::fixture::{Bench, Desk, item, reservation, sold_out, stock};
use stockhold_conformance::{Maker, START, maker};
use stockhold_domain::{Command, Instant, ItemKey, ReservationId};
use stockhold_sql::Options;
use stockhold_sql::SqlStore;
use stockhold_store::{Answer, Failure, Request};

#[test]
fn what_waits_together_is_one_batch_and_each_inbox_is_flushed_once() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(22, "batch-");
    let item_key = stock(&store, &mut maker, "a", 100);
    let mut holder = bench.lock(&item_key);
    let mut reserve = || maker.wrap(maker::reserve_for(60, &[(&item_key, 1)]));
    let first = Desk::new().send(&store, vec![reserve()]);
    bench.wait_until_locked_out(1);
    let desks = [Desk::new(), Desk::new()];
    let mut pending = Vec::new();
    for _ in 0..10 {
        pending.extend(desks.each_ref().map(|desk| desk.send(&store, vec![reserve(), reserve()])));
    }
    // Answered behind the commands, which the store therefore has by now.
    assert_eq!(item(&store, &item_key).unwrap().figures.held, 0);
    holder.run("COMMIT");
    assert!(reservation(&first.only()).is_some());
    for pending in pending {
        assert_eq!(pending.outcomes().iter().filter_map(reservation).count(), 2);
    }
    assert_eq!(desks.each_ref().map(|desk| desk.flushes()), [1, 1]);
    let rows =
        bench.session.text("SELECT string_agg(count::text, ',' ORDER BY serial) FROM stockhold.events");
    assert_eq!(rows, "1,41", "events of each batch");
}

#[test]
fn a_full_queue_is_overloaded_at_once() {
    let mut bench = Bench::new();
    let mut config = Bench::options();
    config.queue = 2;
    let store = bench.connect_with(config);
    let mut maker = Maker::new(23, "full-");
    let item_key = stock(&store, &mut maker, "a", 100);
    let mut holder = bench.lock(&item_key);
    let mut reserve = || maker.wrap(maker::reserve_for(60, &[(&item_key, 1)]));
    let first = Desk::new().send(&store, vec![reserve()]);
    bench.wait_until_locked_out(1);
    let waiting = Desk::new().send(&store, vec![reserve(), reserve()]);
    let refused = Desk::new().send(&store, vec![reserve()]).only();
    assert_eq!(refused, Err(Failure::Overloaded));
    holder.run("COMMIT");
    assert!(reservation(&first.only()).is_some());
    assert_eq!(waiting.outcomes().iter().filter_map(reservation).count(), 2);
}

#[test]
fn what_goes_on_in_the_next_batch_stays_ahead_of_what_asked_for_the_same_after_it() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(40, "ahead-");
    let (crowded, free) = (stock(&store, &mut maker, "a", 600), stock(&store, &mut maker, "b", 1));
    let crowd: Vec<_> = (0..600).map(|_| maker.wrap(maker::reserve_for(60, &[(&crowded, 1)]))).collect();
    assert_eq!(Desk::new().send(&store, crowd).outcomes().iter().filter_map(reservation).count(), 600);
    bench.set_clock(Instant::from_micros(START.micros() + 60_000_000));
    // The first needs more holds expired than one batch may; the second would fit into what that batch frees.
    let commands = [(&crowded, 550), (&crowded, 100), (&free, 1)];
    let commands = commands.map(|want| maker.wrap(maker::reserve_for(60, &[want])));
    let outcomes = Desk::new().send(&store, commands.into()).outcomes();
    assert!(reservation(&outcomes[0]).is_some(), "{:?}", outcomes[0]);
    assert!(sold_out(&outcomes[1]), "{:?}", outcomes[1]);
    assert!(reservation(&outcomes[2]).is_some(), "{:?}", outcomes[2]);
    bench.audit();
}

/// Lines of a basket: four of them are all that one batch may have.
const LONG: usize = 1_024;
/// Of baskets.
const FIT: usize = 4;
/// More of them than fit into two batches.
const BASKETS: usize = 9;

fn long_baskets(store: &SqlStore, maker: &mut Maker) -> Vec<ReservationId> {
    let items: Vec<ItemKey> = (0..LONG).map(|n| maker.item(&format!("i{n}"))).collect();
    let sets = items.iter().map(|item| maker.wrap(Command::SetStock(maker::stock_of(item, 100)))).collect();
    assert!(Desk::new().send(store, sets).outcomes().iter().all(Result::is_ok));
    let wants: Vec<_> = items.iter().map(|item| (item, 1)).collect();
    let reserves = (0..BASKETS).map(|_| maker.wrap(maker::reserve_for(60, &wants))).collect();
    let made = Desk::new().send(store, reserves).outcomes();
    made.iter().map(|outcome| reservation(outcome).unwrap().id).collect()
}

/// That what is done about each of the baskets is done in batches of no more than fit.
fn in_batches_that_fit(bench: &mut Bench, what: &str, done: impl FnOnce(&mut Bench)) {
    let before = bench.session.text("SELECT max(serial) FROM stockhold.events");
    done(bench);
    let counts = bench.session.texts(&format!("SELECT count FROM stockhold.events WHERE serial > {before}"));
    let counts: Vec<usize> = counts.iter().map(|count| count.parse().unwrap()).collect();
    assert_eq!(counts.iter().sum::<usize>(), BASKETS, "{what}");
    assert!(counts.iter().all(|count| *count <= FIT), "{what}: {counts:?}");
}

#[test]
fn what_is_about_a_reservation_counts_for_all_its_lines() {
    let mut bench = Bench::new();
    let mut maker = Maker::new(41, "lines-");
    let knowing = bench.connect();
    let ids = long_baskets(&knowing, &mut maker);
    let mut extends = |ttl| -> Vec<_> { ids.iter().map(|id| maker.wrap(maker::extend(*id, ttl))).collect() };
    in_batches_that_fit(&mut bench, "known", |_| {
        let outcomes = Desk::new().send(&knowing, extends(600)).outcomes();
        assert_eq!(outcomes.iter().filter_map(reservation).count(), BASKETS);
    });
    in_batches_that_fit(&mut bench, "to be found", |bench| {
        let outcomes = Desk::new().send(&bench.connect(), extends(700)).outcomes();
        assert_eq!(outcomes.iter().filter_map(reservation).count(), BASKETS);
    });
    let mut in_order = |store: &SqlStore, ttl| {
        let answer = Desk::new().ask(store, vec![Request::Commands(extends(ttl))]).wait().remove(0);
        let Ok(Answer::Outcomes(outcomes)) = answer else { panic!("{answer:?}") };
        let extended: Vec<_> = outcomes.iter().map(|outcome| reservation(outcome).unwrap().id).collect();
        assert_eq!(extended, ids);
    };
    in_batches_that_fit(&mut bench, "known, in order", |_| in_order(&knowing, 800));
    in_batches_that_fit(&mut bench, "to be found, in order", |bench| in_order(&bench.connect(), 900));
    in_batches_that_fit(&mut bench, "swept", |bench| {
        bench.set_clock(Instant::from_micros(START.micros() + 900_000_000));
        let sweep_every = Some(std::time::Duration::from_millis(20));
        let _sweeping = bench.connect_with(Options { sweep_every, ..Bench::options() });
        bench.session.wait_for("SELECT count(*) = 0 FROM stockhold.active_lines");
    });
    bench.audit();
}
