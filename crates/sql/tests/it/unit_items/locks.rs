//! What waits for what, and what the database itself refuses.

use super::{hall, hall_of, ids, units};
use crate::audit::{Shop, adds_up};
use crate::fixture::{Desk, hold, item, reservation, run, sold_out, wait_until};
use crate::shared::{later, open};
use crate::workload::makers;
use std::time::Duration;
use stockhold_conformance::maker;
use stockhold_domain::{ItemKey, Status};
use stockhold_sql::Options;

pub(crate) fn a_claim_does_not_wait_for_its_items_row<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(2, 111, "row-");
    let hall = hall(&*stores[0], &mut makers[0], 2, 5);
    // An instance that has not seen the item yet finds out what it is.
    for (store, maker) in stores.iter().zip(&mut makers) {
        let first = run(&**store, maker.wrap(maker::reserve_for(600, &[(&hall, 1)])));
        assert!(reservation(&first).is_some(), "{first:?}");
    }
    let mut holder = shop.somebody();
    holder(&format!("BEGIN; SELECT 1 FROM {{t}}items WHERE sku = '{}' FOR UPDATE", hall.sku()));
    for (store, maker) in stores.iter().zip(&mut makers) {
        let any = run(&**store, maker.wrap(maker::reserve_for(600, &[(&hall, 1)])));
        let any = reservation(&any).unwrap_or_else(|| panic!("{any:?}")).clone();
        let best = maker::reserve_best(600, &hall, 1, stockhold_domain::BestAvailable::default());
        let best = run(&**store, maker.wrap(best));
        assert!(reservation(&best).is_some(), "{best:?}");
        for command in [maker::extend(any.id, 700), maker::confirm(any.id), maker::return_all(any.id)] {
            let done = run(&**store, maker.wrap(command));
            assert!(reservation(&done).is_some(), "{done:?}");
        }
    }
    holder("COMMIT");
    shop.audit();
    adds_up(shop);
}

/// A unit by its whole key, which leaves a planner no choice.
fn is_unit(hall: &ItemKey, id: &str) -> String {
    format!("location = '{}' AND sku = '{}' AND id = '{id}'", hall.location(), hall.sku())
}

fn lock(hall: &ItemKey, id: &str) -> String {
    format!("SELECT 1 FROM {{t}}units WHERE {} FOR UPDATE", is_unit(hall, id))
}

/// Begins, and locks these units and nothing else.
fn locking(hall: &ItemKey, ids: &[&str]) -> String {
    let locks = ids.iter().map(|id| format!("; {}", lock(hall, id)));
    "BEGIN".to_owned() + &locks.collect::<String>()
}

pub(crate) fn a_unit_that_somebody_keeps_locked_keeps_its_own_hold_only<S: Shop>(shop: &mut S) {
    let (sweep_every, lock_timeout) = (Some(Duration::from_millis(20)), Some(Duration::from_secs(1)));
    let store = open(shop, Options { sweep_every, lock_timeout, ..shop.options() });
    let mut makers = makers(1, 129, "kept-");
    let hall = hall(&*store, &mut makers[0], 1, 20);
    let held = (0..20).map(|_| {
        let made = run(&*store, makers[0].wrap(maker::reserve_for(60, &[(&hall, 1)])));
        reservation(&made).unwrap_or_else(|| panic!("{made:?}")).id
    });
    let held: Vec<_> = held.collect();
    let mut holder = shop.somebody();
    holder(&locking(&hall, &["r00-07"]));
    for seconds in [61, 90] {
        shop.set_clock(later(seconds));
        wait_until(|| item(&*store, &hall).unwrap().figures.held == 1);
    }
    let active = held.iter().filter(|id| hold(&*store, **id).unwrap().status == Status::Active);
    assert_eq!(active.collect::<Vec<_>>(), [&held[7]]);
    holder("COMMIT");
    wait_until(|| item(&*store, &hall).unwrap().figures.held == 0);
    shop.audit();
    adds_up(shop);
}

pub(crate) fn a_claim_passes_by_what_others_have_locked<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut makers = makers(1, 112, "pass-");
    let hall = hall(&*store, &mut makers[0], 1, 5);
    let mut holder = shop.somebody();
    holder(&locking(&hall, &["r00-00", "r00-02"]));
    let any = run(&*store, makers[0].wrap(maker::reserve_for(600, &[(&hall, 2)])));
    assert_eq!(reservation(&any).map(ids), Some(vec!["r00-01", "r00-03"]), "{any:?}");
    holder("COMMIT");
    let any = run(&*store, makers[0].wrap(maker::reserve_for(600, &[(&hall, 2)])));
    assert_eq!(reservation(&any).map(ids), Some(vec!["r00-00", "r00-02"]), "{any:?}");
    shop.audit();
}

/// What is passed by may come back: a refusal needs a count that is short too.
pub(crate) fn nobody_is_refused_what_may_come_back<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut makers = makers(1, 113, "back-");
    let hall = hall(&*store, &mut makers[0], 1, 2);
    let one = run(&*store, makers[0].wrap(maker::reserve_for(600, &[(&hall, 1)])));
    assert!(reservation(&one).is_some(), "{one:?}");
    let mut holder = shop.somebody();
    holder(&locking(&hall, &["r00-01"]));
    let pending = Desk::new().send(&*store, vec![makers[0].wrap(maker::reserve_for(600, &[(&hall, 1)]))]);
    shop.wait_until_locked_out(1);
    holder("ROLLBACK");
    let other = pending.only();
    assert_eq!(reservation(&other).map(ids), Some(vec!["r00-01"]), "{other:?}");
    assert_eq!(item(&*store, &hall).unwrap().available(), 0);
}

/// A transaction that others wait for can take the units that it has locked.
pub(crate) fn what_is_passed_by_and_taken_is_sold_out<S: Shop>(_: &mut S) {
    let mut shop = S::alone();
    let store = shop.store();
    let mut makers = makers(1, 115, "taken-");
    let hall = hall(&*store, &mut makers[0], 1, 2);
    let one = run(&*store, makers[0].wrap(maker::reserve_for(600, &[(&hall, 1)])));
    let one = reservation(&one).unwrap_or_else(|| panic!("{one:?}")).id.as_u128();
    let mut holder = shop.somebody();
    holder(&locking(&hall, &["r00-01"]));
    let pending = Desk::new().send(&*store, vec![makers[0].wrap(maker::reserve_for(600, &[(&hall, 1)]))]);
    shop.wait_until_locked_out(1);
    let holds = if S::TABLES.contains('.') { format!("'{one:032x}'") } else { format!("x'{one:032x}'") };
    holder(&format!(
        "UPDATE {{t}}units SET status = 1, reservation = {holds}, version = version + 1 WHERE {};
         UPDATE {{t}}unit_counters SET held = held + 1;
         COMMIT",
        is_unit(&hall, "r00-01")
    ));
    let other = pending.only();
    assert!(sold_out(&other), "{other:?}");
    drop((store, holder));
    assert_eq!(shop.deadlocks(), 0);
}

/// By their bytes `A10` comes before `A9`, in the order of claims behind it.
pub(crate) fn what_is_waited_for_is_locked_in_the_order_of_ids<S: Shop>(_: &mut S) {
    let mut shop = S::alone();
    let store = shop.store();
    let mut makers = makers(1, 116, "order-");
    let hall = hall_of(&*store, &mut makers[0], 1, |_| vec!["A9".to_owned(), "A10".to_owned()]);
    let mut holder = shop.somebody();
    holder(&locking(&hall, &["A10"]));
    let pending = Desk::new().send(&*store, vec![makers[0].wrap(maker::reserve_for(600, &[(&hall, 2)]))]);
    shop.wait_until_locked_out(1);
    holder(&lock(&hall, "A9"));
    holder("COMMIT");
    let both = pending.only();
    assert_eq!(reservation(&both).map(ids), Some(vec!["A9", "A10"]), "{both:?}");
    shop.audit();
    adds_up(&shop);
    drop((store, holder));
    assert_eq!(shop.deadlocks(), 0);
}

/// What passes by has looked at an entry of the index and leaves it behind as it was: free for the transaction that has locked the unit.
pub(crate) fn who_passes_a_unit_by_does_not_hold_up_who_has_it<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut makers = makers(1, 117, "by-");
    let hall = hall_of(&*store, &mut makers[0], 1, |_| ["A1", "A3", "A2"].map(str::to_owned).to_vec());
    let (mut holder, mut passer) = (shop.somebody(), shop.somebody());
    holder(&locking(&hall, &["A2"]));
    let named = maker::reserve_named(600, &hall, &["A1", "A2"]);
    let pending = Desk::new().send(&*store, vec![makers[0].wrap(named)]);
    shop.wait_until_locked_out(1);
    let along = if S::TABLES.contains('.') { "" } else { "FORCE INDEX (units_in_order)" };
    passer(&format!(
        "BEGIN; SELECT 1 FROM {{t}}units {along} WHERE location = '{}' AND sku = '{}' AND status = 0
         ORDER BY position, id LIMIT 1 FOR UPDATE SKIP LOCKED",
        hall.location(),
        hall.sku()
    ));
    holder("COMMIT");
    let both = pending.only();
    assert_eq!(reservation(&both).map(ids), Some(vec!["A1", "A2"]), "{both:?}");
    passer("COMMIT");
    shop.audit();
}

pub(crate) fn the_database_refuses_what_no_rule_lets_through<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut makers = makers(1, 114, "rules-");
    let hall = hall(&*store, &mut makers[0], 1, 3);
    let one = run(&*store, makers[0].wrap(maker::reserve_for(600, &[(&hall, 1)])));
    let id = reservation(&one).unwrap().id;
    run(&*store, makers[0].wrap(maker::confirm(id))).unwrap();
    let again = |open: &str| {
        format!(
            "INSERT INTO {{t}}unit_sales SELECT {open} FROM {{t}}unit_sales s
             JOIN {{t}}holds h ON h.id = s.reservation WHERE unit_id = 'r00-00'"
        )
    };
    let (columns, closed) = if S::TABLES.contains('.') {
        (
            "bucket, location, s.sku, unit_id, gen_random_uuid(), sold_at, NULL",
            "bucket, location, s.sku, unit_id, gen_random_uuid(), sold_at, sold_at",
        )
    } else {
        (
            "location, s.sku, unit_id, UNHEX(REPEAT('ab', 16)), sold_at, NULL, 1",
            "location, s.sku, unit_id, UNHEX(REPEAT('ab', 16)), sold_at, sold_at, NULL",
        )
    };
    let (columns, closed) = (columns.replace("bucket", "s.bucket"), closed.replace("bucket", "s.bucket"));
    assert!(shop.refuses(&again(&columns)), "a second open sale");
    assert!(!shop.refuses(&again(&closed)), "one that was closed");
    for (wrong, what) in [
        ("UPDATE {t}units SET status = 1 WHERE status = 0", "held by nobody"),
        ("UPDATE {t}units SET status = 2, reservation = NULL WHERE status = 2", "sold by nobody"),
        ("UPDATE {t}units SET status = 0 WHERE status = 2", "free with somebody"),
        ("UPDATE {t}units SET status = 3, reservation = NULL WHERE status = 2", "fulfilled by nobody"),
        ("UPDATE {t}units SET status = 4 WHERE status = 2", "no status"),
    ] {
        assert!(shop.refuses(wrong), "{what}");
    }
    assert_eq!(units(&*store, &hall).len(), 3);
}
