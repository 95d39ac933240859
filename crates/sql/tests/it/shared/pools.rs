//! Pools at several stores over one database.

use super::{later, lock, open};
use crate::audit::{Shop, adds_up};
use crate::fixture::{events, item, reservation, run, sold_out, stock, wait_until};
use crate::workload::{makers, race};
use std::sync::Arc;
use std::time::Duration;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{
    Command, Envelope, Fulfilment, Hold, Instant, ItemKey, Outcome, Pool, PoolTerms, Reserve, Seconds,
    StockChange, Transition,
};
use stockhold_sql::Options;
use stockhold_store::Store;

/// What a pool says that is released at an instant.
fn until(allocated: u64, at: Instant) -> PoolTerms {
    PoolTerms { releases_at: Some(at), ..maker::pool_of(allocated) }
}

fn vip(store: &dyn Store, key: &ItemKey) -> Pool {
    item(store, key).unwrap().pools.get(&maker::label("vip")).unwrap().clone()
}

fn is_released(store: &dyn Store, key: &ItemKey) -> bool {
    vip(store, key).released_at.is_some()
}

/// How often a pool of an item was released, by the events.
fn releases(store: &dyn Store, of: &ItemKey) -> usize {
    let rows = events(store);
    let is_release = |transition: &Transition| match transition {
        Transition::Stock { change: StockChange::PoolReleased { .. }, item } => item.key == *of,
        _ => false,
    };
    rows.iter().filter(|row| is_release(&row.event.transition)).count()
}

/// Buyers of the public and of the presale, and sweeps, at two instances. The clock comes to the end of the presale among them.
pub(crate) fn a_presale_that_ends_in_the_millisecond_of_a_reserve_promises_no_unit_twice<S: Shop>(
    shop: &mut S,
) {
    const STOCK: u64 = 200;
    const PRESALE: u64 = 150;
    const ROUNDS: u64 = 4;
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(stores.len(), 120, "presale-");
    for round in 0..ROUNDS {
        let ends = later(100 * i64::try_from(round + 1).unwrap());
        shop.set_clock(Instant::from_micros(ends.micros() - 1));
        let key = stock(&*stores[0], &mut makers[0], &format!("i{round}"), STOCK);
        run(&*stores[0], makers[0].wrap(maker::set_pool(&key, "vip", until(PRESALE, ends)))).unwrap();
        let commands = |maker: &mut Maker| -> Vec<Envelope> {
            let command = |number: u64| match number % 4 {
                0 => maker::reserve_for(600, &[(&key, 1)]),
                1 if number % 40 == 1 => Command::Sweep,
                1 => Command::Reserve(maker::reserve_from("vip", 600, &[(&key, 2)])),
                _ => Command::Reserve(Reserve {
                    fulfilment: Fulfilment::Partial,
                    ..maker::reserve_from("vip", 600, &[(&key, 3)])
                }),
            };
            (0..160).map(|number| maker.wrap(command(number))).collect()
        };
        let commands: Vec<Vec<Envelope>> = makers.iter_mut().map(commands).collect();
        let outcomes = std::thread::scope(|scope| {
            let (one, other) = (&*stores[0], &*stores[1]);
            let racing = scope.spawn(move || race(&[one, other], commands, 8).concat());
            // Some of them come before the end, and some with it.
            wait_until(|| item(one, &key).unwrap().figures.held > 0);
            shop.set_clock(ends);
            racing.join().unwrap()
        });
        let held: Vec<&Hold> = outcomes.iter().filter_map(reservation).collect();
        let promised: u64 = held.iter().map(|hold| u64::from(hold.lines[0].quantity)).sum();
        assert!(promised <= STOCK, "{promised} of {STOCK} units were promised");
        let drawn: u64 = held
            .iter()
            .flat_map(|hold| &hold.lines[0].details().draws)
            .map(|draw| u64::from(draw.units))
            .sum();
        let shown = item(&*stores[1], &key).unwrap();
        assert_eq!((shown.figures.held, shown.figures.confirmed_sold), (promised, 0));
        // Who comes afterwards gets all that is left, and nobody gets more.
        if promised < STOCK {
            let rest = run(&*stores[1], makers[1].wrap(maker::reserve_for(600, &[(&key, STOCK - promised)])));
            assert!(reservation(&rest).is_some(), "{rest:?}");
        }
        assert!(sold_out(&run(&*stores[0], makers[0].wrap(maker::reserve_for(600, &[(&key, 1)])))));
        let pool = vip(&*stores[0], &key);
        assert_eq!((pool.held, pool.terms.allocated, pool.free()), (drawn, drawn, 0));
        assert_eq!(pool.released_at, Some(ends));
        assert_eq!(releases(&*stores[1], &key), 1, "released once");
        for hold in held {
            run(&*stores[0], makers[0].wrap(maker::release(hold.id))).unwrap();
        }
        assert!(item(&*stores[1], &key).unwrap().pools.current().next().is_none(), "all of it came back");
    }
    adds_up(shop);
    shop.audit();
}

/// A store that sweeps all the time, in small batches.
fn sweeping<S: Shop>(shop: &S) -> Arc<dyn Store> {
    let sweep_every = Some(Duration::from_millis(20));
    open(shop, Options { sweep_every, sweep_batch: 7, ..shop.options() })
}

pub(crate) fn the_sweeper_releases_pools_on_time_and_each_once<S: Shop>(shop: &mut S) {
    const ITEMS: usize = 40;
    let stores = [sweeping(shop), sweeping(shop)];
    let mut maker = Maker::new(121, "swept-");
    let items: Vec<ItemKey> =
        (0..ITEMS).map(|number| stock(&*stores[0], &mut maker, &format!("i{number}"), 10)).collect();
    for (number, key) in items.iter().enumerate() {
        // Every second one is released when nobody has drawn from it for a minute.
        let idle = PoolTerms { idle_release: Some(Seconds::new(60).unwrap()), ..maker::pool_of(4) };
        let terms = if number % 2 == 0 { until(4, later(60)) } else { idle };
        run(&*stores[0], maker.wrap(maker::set_pool(key, "vip", terms))).unwrap();
        let draw = maker.wrap(Command::Reserve(maker::reserve_from("vip", 30, &[(key, 1)])));
        assert!(reservation(&run(&*stores[1], draw)).is_some());
    }
    shop.set_clock(Instant::from_micros(later(60).micros() - 1));
    // The reservations end by then.
    wait_until(|| items.iter().all(|key| item(&*stores[1], key).unwrap().figures.held == 0));
    assert!(!items.iter().any(|key| is_released(&*stores[0], key)), "none before its time");
    shop.set_clock(later(60));
    wait_until(|| items.iter().all(|key| is_released(&*stores[1], key)));
    assert!(items.iter().all(|key| item(&*stores[0], key).unwrap().available() == 10));
    assert!(items.iter().all(|key| releases(&*stores[0], key) == 1));
    adds_up(shop);
    shop.audit();
}

pub(crate) fn an_item_that_somebody_has_locked_keeps_no_other_pool_from_its_release<S: Shop>(shop: &mut S) {
    let store = sweeping(shop);
    let mut maker = Maker::new(122, "locked-");
    let items = ["a", "b"].map(|name| stock(&*store, &mut maker, name, 10));
    for key in &items {
        run(&*store, maker.wrap(maker::set_pool(key, "vip", until(4, later(60))))).unwrap();
    }
    let mut holder = lock(shop, &items[0]);
    shop.set_clock(later(60));
    wait_until(|| is_released(&*store, &items[1]));
    assert!(!is_released(&*store, &items[0]));
    holder("COMMIT");
    wait_until(|| is_released(&*store, &items[0]));
    adds_up(shop);
    shop.audit();
}

pub(crate) fn a_sweep_that_somebody_submits_releases_what_others_have_not<S: Shop>(shop: &mut S) {
    const ITEMS: usize = 30;
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(stores.len(), 123, "asked-");
    let items: Vec<ItemKey> =
        (0..ITEMS).map(|number| stock(&*stores[0], &mut makers[0], &format!("i{number}"), 10)).collect();
    for key in &items {
        run(&*stores[0], makers[0].wrap(maker::set_pool(key, "vip", until(4, later(60))))).unwrap();
    }
    shop.set_clock(later(60));
    let commands = |maker: &mut Maker| -> Vec<Envelope> {
        let command = |number: usize| match number % 3 {
            0 => Command::Sweep,
            _ => Command::Reserve(maker::reserve_from("vip", 600, &[(&items[number % ITEMS], 1)])),
        };
        (0..60).map(|number| maker.wrap(command(number))).collect()
    };
    let commands: Vec<Vec<Envelope>> = makers.iter_mut().map(commands).collect();
    let outcomes = race(&[&*stores[0], &*stores[1]], commands, 6).concat();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(Outcome::Done(_)))), "{outcomes:?}");
    assert!(items.iter().all(|key| is_released(&*stores[1], key) && releases(&*stores[0], key) == 1));
    adds_up(shop);
    shop.audit();
}
