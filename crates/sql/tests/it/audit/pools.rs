//! Pools are recounted.

use super::archive::archived;
use super::{Shop, adds_up, days, done, newest, verdict};
use crate::fixture::{item, run, stock};
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Command, Instant, ItemKey, PoolTerms};
use stockhold_store::Store;

/// An item of 50 units with a pool that has sold 2 units and holds 3, and one that was released and has sold 1.
fn with_pools(store: &dyn Store, maker: &mut Maker, name: &str) -> ItemKey {
    let key = stock(store, maker, name, 50);
    let ends = Instant::from_micros(days(200).micros());
    let press = PoolTerms { releases_at: Some(ends), ..maker::pool_of(9) };
    run(store, maker.wrap(maker::set_pool(&key, "press", press))).unwrap();
    run(store, maker.wrap(maker::set_pool(&key, "vip", maker::pool_of(4)))).unwrap();
    let mut from = |pool, units| {
        done(store, maker.wrap(Command::Reserve(maker::reserve_from(pool, 60, &[(&key, units)]))))
    };
    let (press, released) = (from("press", 2), from("vip", 1));
    from("press", 3);
    for id in [press, released] {
        done(store, maker.wrap(maker::confirm(id)));
    }
    run(store, maker.wrap(maker::delete_pool(&key, "vip"))).unwrap();
    key
}

/// What is done to the database, and what the finding says.
const DRIFTS: [(&str, &str); 5] = [
    (
        "UPDATE {t}items SET pools = NULL",
        "has no pools, and its events lead to pool press (9 set aside, 3 held, 2 sold)",
    ),
    ("UPDATE {t}items SET pools = (SELECT pools FROM {t}other_pools)", "or to other terms"),
    ("UPDATE {t}items SET pool_release_at = pool_release_at + 1", "the next release of a pool"),
    ("UPDATE {t}items SET pool_release_at = NULL", "the next release of a pool"),
    ("UPDATE {t}items SET pool_release_at = 7 WHERE pool_release_at IS NULL", "should be None"),
];

pub(crate) fn pools_that_were_damaged_are_found<S: Shop>(shop: &mut S) {
    {
        let store = shop.store();
        let mut maker = Maker::new(90, "drift-");
        let key = with_pools(&*store, &mut maker, "a");
        shop.sql("CREATE TABLE {t}other_pools AS SELECT pools FROM {t}items");
        run(&*store, maker.wrap(maker::set_pool(&key, "press", maker::pool_of(8)))).unwrap();
        let ends = PoolTerms { releases_at: Some(days(200)), ..maker::pool_of(9) };
        run(&*store, maker.wrap(maker::set_pool(&key, "press", ends))).unwrap();
        run(&*store, maker.wrap(maker::set_pool(&key, "third", maker::pool_of(1)))).unwrap();
        stock(&*store, &mut maker, "without", 5);
    }
    adds_up(shop);
    shop.sql("CREATE TABLE {t}right_items AS SELECT * FROM {t}items");
    for (drift, says) in DRIFTS {
        shop.sql(drift);
        let verdict = verdict(shop);
        assert!(verdict.findings.iter().any(|what| what.contains(says)), "{drift}: {:?}", verdict.findings);
        shop.sql("DELETE FROM {t}items; INSERT INTO {t}items SELECT * FROM {t}right_items");
    }
    adds_up(shop);
}

pub(crate) fn what_archived_reservations_drew_counts<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(91, "old-");
    let key = with_pools(&*store, &mut maker, "a");
    newest(&*store);
    let shown = item(&*store, &key).unwrap();
    shop.set_clock(days(100));
    let summary = archived(shop);
    assert_eq!(summary.reservations, 2);
    adds_up(shop);
    assert_eq!(item(&*store, &key).unwrap(), shown);
    // A second one adds to what the first has left behind.
    let more = done(&*store, maker.wrap(Command::Reserve(maker::reserve_from("press", 60, &[(&key, 1)]))));
    done(&*store, maker.wrap(maker::confirm(more)));
    newest(&*store);
    adds_up(shop);
    shop.set_clock(days(200));
    assert_eq!(archived(shop).reservations, 1);
    adds_up(shop);
    shop.sql("UPDATE {t}archived_items SET pool_sales = NULL");
    let verdict = verdict(shop);
    for says in ["pool press of", "pool vip of"] {
        let found =
            verdict.findings.iter().any(|what| what.contains(says) && what.contains("its reservations"));
        assert!(found, "{says}: {:?}", verdict.findings);
    }
}
