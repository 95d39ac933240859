//! What is combined into one transaction, in which order, and what finds no place.

use crate::fixture::{Bench, Desk, reservation, sold_out, stock};
use stockhold_domain::Instant;
use stockhold_store::Failure;
use stockhold_store::conformance::{Maker, START, maker};

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
    holder.run("COMMIT");
    assert!(reservation(&first.only()).is_some());
    for pending in pending {
        assert_eq!(pending.outcomes().iter().filter_map(reservation).count(), 2);
    }
    assert_eq!(desks.each_ref().map(|desk| desk.flushes()), [1, 1]);
    let rows =
        bench.session.text("SELECT string_agg(count::text, ',' ORDER BY serial) FROM stockhold.events");
    assert_eq!(rows, "1,1,40", "events of each batch");
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
