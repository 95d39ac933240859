//! The store's own sweeper.

use super::{later, lock, open};
use crate::audit::Shop;
use crate::counts::{self, count};
use crate::fixture::{Desk, hold, item, reservation, run, stock, wait_until};
use crate::workload::crowd_while_reserving;
use std::sync::Arc;
use std::time::Duration;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Command, Instant, ItemKey, Outcome, Reply, ReservationId, Status};
use stockhold_sql::Options;
use stockhold_store::Store;

/// A store that sweeps all the time, in small batches.
fn sweeping<S: Shop>(shop: &S) -> Arc<dyn Store> {
    let sweep_every = Some(Duration::from_millis(20));
    open(shop, Options { sweep_every, sweep_batch: 70, ..shop.options() })
}

fn reserve_all(store: &dyn Store, maker: &mut Maker, baskets: &[Vec<&ItemKey>]) -> Vec<ReservationId> {
    let reserves = baskets.iter().map(|items| {
        let wants: Vec<_> = items.iter().map(|item| (*item, 1)).collect();
        maker.wrap(maker::reserve_for(60, &wants))
    });
    let reserves = reserves.collect();
    let outcomes = Desk::new().send(store, reserves).outcomes();
    let ids = outcomes.iter().map(|outcome| reservation(outcome).unwrap_or_else(|| panic!("{outcome:?}")).id);
    ids.collect()
}

fn status(store: &dyn Store, id: ReservationId) -> Status {
    hold(store, id).unwrap().status
}

pub(crate) fn a_crowd_that_falls_due_at_once_is_expired_each_once_and_none_before_its_time<S: Shop>(
    shop: &mut S,
) {
    let stores = [sweeping(shop), sweeping(shop)];
    let mut maker = Maker::new(70, "crowd-");
    let items: Vec<ItemKey> =
        (0..5).map(|n| stock(&*stores[0], &mut maker, &format!("i{n}"), 10_000)).collect();
    let baskets: Vec<Vec<&ItemKey>> = (0..1_500)
        .map(|n| if n % 3 == 0 { vec![&items[n % 5], &items[(n + 1) % 5]] } else { vec![&items[n % 5]] })
        .collect();
    let ids = reserve_all(&*stores[0], &mut maker, &baskets);
    shop.set_clock(Instant::from_micros(later(60).micros() - 1));
    let last = run(&*stores[0], maker.wrap(maker::reserve_for(60, &[(&items[0], 1)])));
    let last = reservation(&last).unwrap().id;
    assert!(ids.iter().all(|id| status(&*stores[1], *id) == Status::Active), "none before its time");
    shop.set_clock(later(60));
    let held = |key: &ItemKey| item(&*stores[1], key).unwrap().figures.held;
    wait_until(|| held(&items[0]) == 1 && items.iter().skip(1).all(|key| held(key) == 0));
    assert!(ids.iter().all(|id| status(&*stores[1], *id) == Status::Expired));
    assert_eq!(status(&*stores[0], last), Status::Active);
    let sequences: u64 = items.iter().map(|key| item(&*stores[0], key).unwrap().figures.sequence).sum();
    // Five stocked, 2,000 lines reserved and 2,000 expired, and the last.
    assert_eq!(sequences, 5 + 2_000 + 2_000 + 1);
    shop.audit();
}

pub(crate) fn an_item_that_somebody_has_locked_stops_neither_the_others_nor_half_of_a_basket<S: Shop>(
    shop: &mut S,
) {
    let store = sweeping(shop);
    let mut maker = Maker::new(71, "locked-");
    let items = ["a", "b", "c"].map(|name| stock(&*store, &mut maker, name, 100));
    let [a, b, c] = &items;
    let ids = reserve_all(&*store, &mut maker, &[vec![a], vec![a, b], vec![b], vec![c]]);
    let mut holder = lock(shop, a);
    shop.set_clock(later(61));
    wait_until(|| status(&*store, ids[2]) == Status::Expired && status(&*store, ids[3]) == Status::Expired);
    assert_eq!(status(&*store, ids[0]), Status::Active);
    assert_eq!(status(&*store, ids[1]), Status::Active, "never half a basket");
    assert_eq!(item(&*store, b).unwrap().figures.held, 1);
    holder("COMMIT");
    wait_until(|| ids.iter().all(|id| status(&*store, *id) == Status::Expired));
    shop.audit();
}

pub(crate) fn a_lock_that_is_never_released_delays_no_other_reservation<S: Shop>(shop: &mut S) {
    let (sweep_every, lock_timeout) = (Some(Duration::from_millis(20)), Some(Duration::from_secs(1)));
    let store = open(shop, Options { sweep_every, lock_timeout, sweep_batch: 10, ..shop.options() });
    let mut maker = Maker::new(76, "kept-");
    let items = ["a", "b", "c"].map(|name| stock(&*store, &mut maker, name, 100));
    let [a, b, c] = &items;
    // Several pages of locked reservations come before all others.
    let mut ids = reserve_all(&*store, &mut maker, &vec![vec![a]; 50]);
    shop.set_clock(later(1));
    ids.extend(reserve_all(&*store, &mut maker, &[vec![a, b], vec![b], vec![c]]));
    let mut holder = lock(shop, a);
    // A batch of commands claims the item, and waits for its lock.
    let waiting = Desk::new().send(&*store, vec![maker.wrap(maker::reserve_for(60, &[(a, 1)]))]);
    shop.set_clock(later(90));
    let [.., both, of_b, of_c] = ids[..] else { panic!("{ids:?}") };
    wait_until(|| status(&*store, of_b) == Status::Expired && status(&*store, of_c) == Status::Expired);
    // What falls due meanwhile is expired as well.
    let more = reserve_all(&*store, &mut maker, &[vec![c]]);
    shop.set_clock(later(180));
    wait_until(|| status(&*store, more[0]) == Status::Expired);
    assert_eq!([ids[0], both].map(|id| status(&*store, id)), [Status::Active; 2], "never half a basket");
    holder("COMMIT");
    waiting.wait();
    let swept = run(&*store, maker.wrap(Command::Sweep));
    assert!(swept.is_ok(), "{swept:?}");
    wait_until(|| ids.iter().all(|id| status(&*store, *id) == Status::Expired));
    shop.audit();
}

pub(crate) fn a_hold_that_cannot_be_read_keeps_no_other_from_being_expired<S: Shop>(shop: &mut S) {
    counts::start();
    let store = sweeping(shop);
    let mut maker = Maker::new(77, "unread-");
    let item_key = stock(&*store, &mut maker, "a", 100);
    reserve_all(&*store, &mut maker, &[vec![&item_key]]);
    shop.sql("UPDATE {t}holds SET body = substr(body, 1, octet_length(body) - 1)");
    let ids = reserve_all(&*store, &mut maker, &vec![vec![&item_key]; 20]);
    shop.set_clock(later(60));
    wait_until(|| ids.iter().all(|id| status(&*store, *id) == Status::Expired));
    assert_eq!(item(&*store, &item_key).unwrap().figures.held, 1);
    assert!(count("stockhold_sweeper_failures_total") >= 1.0);
    assert!(count("stockhold_invariant_alarms_total") >= 1.0);
}

pub(crate) fn a_hold_that_cannot_be_expired_is_counted_and_keeps_nobody_waiting<S: Shop>(shop: &mut S) {
    counts::start();
    let store = sweeping(shop);
    let mut maker = Maker::new(73, "broken-");
    let items = ["a", "b"].map(|name| stock(&*store, &mut maker, name, 1_000));
    let baskets: Vec<Vec<&ItemKey>> = (0..200).map(|n| vec![&items[n % 2]]).collect();
    let ids = reserve_all(&*store, &mut maker, &baskets);
    // A line of it is not where it has to be, so the database finds one row less than it was told to delete.
    shop.misplace(ids[0]);
    shop.set_clock(later(60));
    wait_until(|| ids.iter().skip(1).all(|id| status(&*store, *id) == Status::Expired));
    assert_eq!(status(&*store, ids[0]), Status::Active);
    assert!(count("stockhold_sweeper_failures_total") >= 1.0);
    assert!(count("stockhold_invariant_alarms_total") >= 1.0);
}

pub(crate) fn a_sweep_that_somebody_submits_and_the_stores_own_do_not_meet<S: Shop>(shop: &mut S) {
    let store = sweeping(shop);
    let mut maker = Maker::new(74, "both-");
    let items = ["a", "b"].map(|name| stock(&*store, &mut maker, name, 10_000));
    let baskets: Vec<Vec<&ItemKey>> = (0..600).map(|n| vec![&items[n % 2]]).collect();
    reserve_all(&*store, &mut maker, &baskets);
    shop.set_clock(later(60));
    for _ in 0..8 {
        let swept = run(&*store, maker.wrap(Command::Sweep));
        assert!(matches!(swept, Ok(Outcome::Done(Reply::Swept { .. }))), "{swept:?}");
    }
    wait_until(|| items.iter().all(|key| item(&*store, key).unwrap().figures.held == 0));
    let sequences: u64 = items.iter().map(|key| item(&*store, key).unwrap().figures.sequence).sum();
    assert_eq!(sequences, 2 + 600 + 600);
    shop.audit();
}

pub(crate) fn a_crowd_is_reclaimed_while_others_reserve_the_same_items<S: Shop>(shop: &mut S) {
    // As it is run, but for the pause.
    let options = Options { sweep_every: Some(Duration::from_millis(50)), ..shop.options() };
    let stores = [open(shop, options.clone()), open(shop, options)];
    crowd_while_reserving(&[&*stores[0], &*stores[1]], 75, || shop.set_clock(later(60)));
    shop.audit();
}
