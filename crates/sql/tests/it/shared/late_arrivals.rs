//! Which submissions join a batch while it waits for its locks.

use super::lock;
use crate::audit::Shop;
use crate::fixture::{Desk, item, reservation, run, sold_out, stock};
use crate::workload::makers;
use std::sync::Arc;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Envelope, ItemKey, Outcome, Rejection};
use stockhold_store::Store;

/// Has somebody hold the item's row until one command waits for it and others have come.
fn meanwhile<S: Shop>(
    shop: &mut S,
    store: &dyn Store,
    key: &ItemKey,
    first: Envelope,
    others: Vec<Envelope>,
) -> (Arc<Desk>, Vec<Result<Outcome, stockhold_store::Failure>>) {
    let held = item(store, key).unwrap().figures.held;
    let mut holder = lock(shop, key);
    let desk = Desk::new();
    let first = desk.send(store, vec![first]);
    shop.wait_until_locked_out(1);
    let others = desk.send(store, others);
    // Answered behind the commands, which the store therefore has by now.
    assert_eq!(item(store, key).unwrap().figures.held, held);
    assert_eq!(desk.flushes(), 0);
    holder("COMMIT");
    let outcomes = [first.outcomes(), others.outcomes()].concat();
    (desk, outcomes)
}

fn one(maker: &mut Maker, key: &ItemKey) -> Envelope {
    maker.wrap(maker::reserve_for(60, &[(key, 1)]))
}

pub(crate) fn who_comes_while_the_lock_is_waited_for_goes_along<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = makers(1, 121, "along-").remove(0);
    let key = stock(&*store, &mut maker, "a", 100);
    let first = one(&mut maker, &key);
    let others = (0..10).map(|_| one(&mut maker, &key)).collect();
    let (desk, outcomes) = meanwhile(shop, &*store, &key, first, others);
    assert_eq!(outcomes.iter().filter_map(reservation).count(), 11);
    assert_eq!(desk.flushes(), 1, "all of them are one batch");
    shop.audit();
}

/// The key of a submission that joins a batch was not read, so the database has to find the duplicate.
pub(crate) fn who_goes_along_and_repeats_a_key_is_told_of_the_first<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = makers(1, 122, "again-").remove(0);
    let key = stock(&*store, &mut maker, "a", 100);
    let keyed = maker.keyed("k", maker::reserve_for(60, &[(&key, 7)]));
    let made = run(&*store, keyed.clone());
    let made = reservation(&made).unwrap().clone();
    let first = one(&mut maker, &key);
    let others = vec![one(&mut maker, &key), maker.again(&keyed), one(&mut maker, &key)];
    let (_, outcomes) = meanwhile(shop, &*store, &key, first, others);
    let told: Vec<_> = outcomes.iter().map(|outcome| reservation(outcome).unwrap()).collect();
    assert!(matches!(outcomes[2], Ok(Outcome::Replayed(_))), "{:?}", outcomes[2]);
    assert_eq!(told[2], &made);
    assert_eq!(item(&*store, &key).unwrap().figures.held, 7 + 3);
    shop.audit();
}

/// The key was used for another item, and so it may be stored elsewhere.
pub(crate) fn who_goes_along_and_uses_a_key_for_something_else_is_refused<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = makers(1, 124, "misused-").remove(0);
    let key = stock(&*store, &mut maker, "a", 100);
    let used_for: Vec<_> = (0..8).map(|n| stock(&*store, &mut maker, &format!("b{n}"), 10)).collect();
    for item in &used_for {
        let used = maker.keyed(item.sku(), maker::reserve_for(60, &[(item, 1)]));
        assert!(reservation(&run(&*store, used)).is_some());
    }
    let first = one(&mut maker, &key);
    let misuse = |item: &ItemKey| maker.keyed(item.sku(), maker::reserve_for(60, &[(&key, 7)]));
    let mut others: Vec<_> = used_for.iter().map(misuse).collect();
    others.push(one(&mut maker, &key));
    let (_, outcomes) = meanwhile(shop, &*store, &key, first, others);
    for outcome in &outcomes[1..=used_for.len()] {
        assert!(matches!(outcome, Ok(Outcome::Refused(Rejection::IdempotencyMismatch))), "{outcome:?}");
    }
    assert_eq!(item(&*store, &key).unwrap().figures.held, 2);
    shop.audit();
}

/// A refusal is given with the key read: a repeated reserve is not told that its own units are gone.
pub(crate) fn who_goes_along_and_would_be_refused_is_judged_with_his_key<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = makers(1, 123, "short-").remove(0);
    let key = stock(&*store, &mut maker, "a", 10);
    let keyed = maker.keyed("k", maker::reserve_for(60, &[(&key, 4)]));
    let made = run(&*store, keyed.clone());
    let made = reservation(&made).unwrap().clone();
    let first = maker.wrap(maker::reserve_for(60, &[(&key, 5)]));
    let others = vec![
        maker.again(&keyed),
        maker.wrap(maker::reserve_for(60, &[(&key, 2)])),
        maker.wrap(maker::reserve_for(60, &[(&key, 1)])),
    ];
    let (_, outcomes) = meanwhile(shop, &*store, &key, first, others);
    assert!(reservation(&outcomes[0]).is_some());
    assert_eq!(reservation(&outcomes[1]), Some(&made));
    assert!(sold_out(&outcomes[2]), "{:?}", outcomes[2]);
    assert!(reservation(&outcomes[3]).is_some(), "{:?}", outcomes[3]);
    assert_eq!(item(&*store, &key).unwrap().available(), 0);
    shop.audit();
}
