//! Locks held by others, ids and rows that make no sense.

use super::{later, lock, open};
use crate::audit::Shop;
use crate::fixture::{Desk, hold, item, reservation, run, stock};
use std::time::Duration;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Envelope, Outcome, Rejection, Status};
use stockhold_sql::Options;
use stockhold_store::{Answer, Failure, Query, Request};

pub(crate) fn a_confirm_stalled_behind_a_lock_past_the_deadline_is_refused<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(20, "stall-");
    let item_key = stock(&*store, &mut maker, "a", 1);
    let made = run(&*store, maker.wrap(maker::reserve_for(60, &[(&item_key, 1)])));
    let id = reservation(&made).unwrap().id;
    shop.set_clock(later(59));
    let mut holder = lock(shop, &item_key);
    let pending = Desk::new().send(&*store, vec![maker.wrap(maker::confirm(id))]);
    shop.wait_until_locked_out(1);
    shop.set_clock(later(60));
    holder("COMMIT");
    let outcome = pending.only();
    assert!(matches!(outcome, Ok(Outcome::Refused(Rejection::ReservationExpired { .. }))), "{outcome:?}");
    assert_eq!(hold(&*store, id).unwrap().status, Status::Expired);
    shop.audit();
}

pub(crate) fn what_another_instance_committed_under_the_awaited_lock_is_seen<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(21, "behind-");
    let item_key = stock(&*store, &mut maker, "a", 10);
    let mut holder = lock(shop, &item_key);
    let pending = Desk::new().send(&*store, vec![maker.wrap(maker::reserve_for(60, &[(&item_key, 8)]))]);
    shop.wait_until_locked_out(1);
    holder("UPDATE {t}items SET total_units = 7; COMMIT");
    let outcome = pending.only();
    match &outcome {
        Ok(Outcome::Refused(Rejection::InsufficientInventory(short))) => assert_eq!(short[0].available, 7),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn a_lock_that_is_never_given_is_overloaded_and_nothing_is_done<S: Shop>(shop: &mut S) {
    let lock_timeout = Some(Duration::from_millis(20));
    let store = open(shop, Options { lock_timeout, ..shop.options() });
    let mut maker = Maker::new(24, "never-");
    let item_key = stock(&*store, &mut maker, "a", 100);
    let mut holder = lock(shop, &item_key);
    let envelope = maker.keyed("k", maker::reserve_for(60, &[(&item_key, 1)]));
    assert_eq!(run(&*store, envelope.clone()), Err(Failure::Overloaded));
    holder("COMMIT");
    let outcome = run(&*store, maker.again(&envelope));
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    shop.audit();
}

pub(crate) fn a_fresh_id_that_is_in_use_is_internal_for_its_command_only<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(34, "fresh-");
    let item_key = stock(&*store, &mut maker, "a", 10);
    let mut envelopes: Vec<Envelope> =
        (0..4).map(|_| maker.wrap(maker::reserve_for(60, &[(&item_key, 1)]))).collect();
    envelopes[2].fresh.reservation = envelopes[0].fresh.reservation;
    let outcomes = Desk::new().send(&*store, envelopes).outcomes();
    assert!(matches!(outcomes[2], Err(Failure::Internal(_))), "{:?}", outcomes[2]);
    for n in [0, 1, 3] {
        assert!(reservation(&outcomes[n]).is_some(), "{:?}", outcomes[n]);
    }
    // And when the other reservation was made long before.
    let mut late = maker.wrap(maker::reserve_for(60, &[(&item_key, 1)]));
    late.fresh.reservation = reservation(&outcomes[0]).unwrap().id;
    let outcome = run(&*store, late);
    assert!(matches!(outcome, Err(Failure::Internal(_))), "{outcome:?}");
    assert_eq!(item(&*store, &item_key).unwrap().figures.held, 3);
    shop.audit();
}

pub(crate) fn an_assertion_that_fires_is_internal_for_its_command_only<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(30, "alarm-");
    let (bad, good) = (stock(&*store, &mut maker, "bad", 10), stock(&*store, &mut maker, "good", 10));
    shop.sql(&format!(
        "ALTER TABLE {{t}}items ADD CONSTRAINT seeded_bug CHECK (sku <> '{}' OR held < 3)",
        bad.sku()
    ));
    let envelopes = vec![
        maker.wrap(maker::reserve_for(60, &[(&bad, 2)])),
        maker.wrap(maker::reserve_for(60, &[(&good, 2)])),
        maker.wrap(maker::reserve_for(60, &[(&bad, 2)])),
        maker.wrap(maker::reserve_for(60, &[(&good, 2)])),
    ];
    let outcomes = Desk::new().send(&*store, envelopes).outcomes();
    assert!(matches!(outcomes[2], Err(Failure::Internal(_))), "{:?}", outcomes[2]);
    for n in [0, 1, 3] {
        assert!(reservation(&outcomes[n]).is_some(), "{:?}", outcomes[n]);
    }
    let held = [&bad, &good].map(|key| item(&*store, key).unwrap().figures.held);
    assert_eq!(held, [2, 4]);
    shop.audit();
}

pub(crate) fn a_damaged_row_is_never_served<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(31, "damage-");
    let item_key = stock(&*store, &mut maker, "a", 10);
    let mut make = || {
        let made = run(&*store, maker.wrap(maker::reserve_for(60, &[(&item_key, 1)])));
        reservation(&made).unwrap().id
    };
    let damaged = make();
    shop.sql("UPDATE {t}holds SET body = substr(body, 1, octet_length(body) - 1)");
    let others = [make(), make(), make()];
    let outcome = run(&*store, maker.wrap(maker::confirm(damaged)));
    assert!(matches!(outcome, Err(Failure::Internal(_))), "{outcome:?}");
    assert_eq!(item(&*store, &item_key).unwrap().figures.confirmed_sold, 0);

    // Other commands of the batch have their answers, also at another instance, which has no hints about them.
    let all = [others[0], damaged, others[1], others[2]];
    for store in [store, shop.store()] {
        let looks = all.map(|id| Request::Query(Query::Reservation(id))).to_vec();
        let found = Desk::new().ask(&*store, looks).wait();
        let is_damaged = |answer: &Result<Answer, Failure>| matches!(answer, Err(Failure::Internal(_)));
        assert_eq!(
            found.iter().map(is_damaged).collect::<Vec<_>>(),
            [false, true, false, false],
            "{found:?}"
        );
        let extend = all.map(|id| maker.wrap(maker::extend(id, 900))).to_vec();
        let outcomes = Desk::new().send(&*store, extend).outcomes();
        let done = outcomes.iter().map(|outcome| reservation(outcome).is_some());
        assert_eq!(done.collect::<Vec<_>>(), [true, false, true, true], "{outcomes:?}");
    }
}
