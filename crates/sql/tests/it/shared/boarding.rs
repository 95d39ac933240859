//! Who goes along with a batch whose items are locked ahead of it.

use crate::books::Shop;
use crate::fixture::{Desk, item, reservation, run, stock};
use crate::workload::makers;
use stockhold_store::conformance::maker;

pub(super) fn who_comes_while_the_lock_is_waited_for_goes_along<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(2, 121, "along-");
    let key = stock(&*stores[0], &mut makers[0], "a", 100);
    for turn in [0, 1, 0, 1, 0] {
        let reserve = makers[turn].wrap(maker::reserve_for(60, &[(&key, 1)]));
        assert!(reservation(&run(&*stores[turn], reserve)).is_some());
    }
    let mut holder = shop.somebody();
    holder(&format!("BEGIN; SELECT 1 FROM {{t}}items WHERE sku = '{}' FOR UPDATE", key.sku()));
    let mut reserve = || makers[0].wrap(maker::reserve_for(60, &[(&key, 1)]));
    let desk = Desk::new();
    let first = desk.send(&*stores[0], vec![reserve()]);
    shop.wait_until_locked_out(1);
    let others = desk.send(&*stores[0], (0..10).map(|_| reserve()).collect());
    // Answered behind the commands, which the store therefore has by now.
    assert_eq!(item(&*stores[0], &key).unwrap().figures.held, 5);
    assert_eq!(desk.flushes(), 0);
    holder("COMMIT");
    assert!(reservation(&first.only()).is_some());
    assert_eq!(others.outcomes().iter().filter_map(reservation).count(), 10);
    assert_eq!(desk.flushes(), 1, "all of them are one batch");
    shop.audit();
}
