//! Where idempotency keys are, and that they are found there.

use super::Bench;
use crate::audit::{Shop, adds_up};
use crate::fixture::{reservation, run, stock};
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Outcome, Rejection};

#[test]
fn a_key_is_with_what_it_was_used_for_and_found_by_a_request_for_something_else() {
    let Some(mut bench) = Bench::new() else { return };
    let store = bench.store();
    let mut maker = Maker::new(620, "placed-");
    let items: Vec<_> = (0..8).map(|n| stock(&*store, &mut maker, &format!("i{n}"), 10)).collect();
    let first: Vec<_> =
        items.iter().map(|item| maker.keyed(item.sku(), maker::reserve_for(600, &[(item, 1)]))).collect();
    for reserve in &first {
        assert!(reservation(&run(&*store, reserve.clone())).is_some());
    }
    let adjust = maker.keyed("more", maker::adjust(&items[0], 5));
    run(&*store, adjust.clone()).unwrap();
    let apart = "SELECT count(*) FROM stockhold.keys k WHERE NOT EXISTS (
        SELECT FROM stockhold.items i WHERE i.bucket = k.bucket)";
    assert_eq!(bench.session.text(apart), "0");
    for (n, reserve) in first.iter().enumerate() {
        let again = run(&*store, maker.again(reserve));
        assert!(matches!(again, Ok(Outcome::Replayed(_))), "{again:?}");
        let other = &items[(n + 1) % items.len()];
        let misused = maker.keyed(items[n].sku(), maker::reserve_for(600, &[(other, 2)]));
        let refused = run(&*store, misused);
        assert!(matches!(refused, Ok(Outcome::Refused(Rejection::IdempotencyMismatch))), "{refused:?}");
    }
    let again = run(&*store, maker.again(&adjust));
    assert!(matches!(again, Ok(Outcome::Replayed(_))), "{again:?}");
    drop(store);
    assert_eq!(adds_up(&bench).keys, 9);
}

#[test]
fn a_batch_of_one_item_with_keys_is_written_at_one_worker() {
    let Some(mut bench) = Bench::new() else { return };
    let store = bench.store();
    let mut maker = Maker::new(621, "alone-");
    let item = stock(&*store, &mut maker, "a", 100);
    // A transaction that two workers have a part in has a record until Citus removes it.
    let prepared = "SELECT count(*) FROM pg_dist_transaction";
    let mut of_two_workers = 0;
    for n in 0..20 {
        bench.session.run("SELECT recover_prepared_transactions()");
        let reserve = maker.keyed(&n.to_string(), maker::reserve_for(600, &[(&item, 1)]));
        assert!(reservation(&run(&*store, reserve)).is_some());
        of_two_workers += usize::from(bench.session.text(prepared) != "0");
    }
    // The store deletes old keys at every worker, once in a while.
    assert!(of_two_workers <= 2, "{of_two_workers} of 20 reserves");
}
