//! Limits at several stores over one database.

use super::{later, lock, open};
use crate::audit::{Shop, adds_up};
use crate::fixture::{Desk, events, hold, reservation, run, stock, wait_until};
use crate::workload::{makers, race};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{
    Command, Envelope, Label, LimitCounter, LimitTerms, Outcome, Rejection, Reply, ReservationId, Status,
    Transition,
};
use stockhold_sql::Options;
use stockhold_store::{Failure, LimitUsage, Query, QueryResult, Store, UsageRequest};

/// Patience with a store that has to do something soon.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a limit counts for its subjects.
fn usage(store: &dyn Store, id: &Label) -> Vec<(Option<Label>, LimitCounter)> {
    let request = UsageRequest { limit_id: id.clone(), subject: None, after: None, limit: 1_000 };
    match Desk::new().find(store, Query::LimitUsage(request)) {
        Ok(QueryResult::LimitUsage(Some(LimitUsage { counters, .. }))) => counters,
        other => panic!("{other:?}"),
    }
}

fn is_refused(outcome: &Result<Outcome, Failure>) -> bool {
    matches!(outcome, Ok(Outcome::Refused(Rejection::LimitExceeded(_))))
}

fn shared(terms: LimitTerms) -> LimitTerms {
    LimitTerms { per: None, ..terms }
}

pub(crate) fn a_limit_waits_for_what_was_decided_before_it_and_stops_what_comes_after<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut maker = Maker::new(110, "limit-");
    let item_key = stock(&*stores[0], &mut maker, "a", 10);
    let id = maker.limit("none");
    let mut holder = lock(shop, &item_key);
    let reserve = |maker: &mut Maker| maker.wrap(maker::reserve_for(60, &[(&item_key, 1)]));
    let reserving = Desk::new().send(&*stores[0], vec![reserve(&mut maker)]);
    shop.wait_until_locked_out(1);
    let terms = shared(maker::per_customer(&[&item_key], 0));
    let setting = Desk::new().send(&*stores[1], vec![maker.wrap(maker::set_limit(&id, terms))]);
    shop.wait_until_locked_out(2);
    holder("COMMIT");
    assert!(reservation(&reserving.only()).is_some());
    assert!(matches!(setting.only(), Ok(Outcome::Done(Reply::Limit { created: true, .. }))));
    let rows = events(&*stores[0]);
    let last = rows.last().map(|row| &row.event.transition);
    assert!(matches!(last, Some(Transition::Limit { .. })), "{last:?}");
    for store in &stores {
        let refused = run(&**store, reserve(&mut maker));
        assert!(is_refused(&refused), "{refused:?}");
    }
    run(&*stores[1], maker.wrap(maker::delete_limit(&id))).unwrap();
    for store in &stores {
        assert!(reservation(&run(&**store, reserve(&mut maker))).is_some());
    }
    adds_up(shop);
    shop.audit();
}

/// Each of some customers asks for more than the limit allows, at all instances at once.
pub(crate) fn a_customer_gets_as_many_at_several_instances_as_the_limit_allows<S: Shop>(shop: &mut S) {
    const CUSTOMERS: usize = 8;
    let stores = [shop.store(), shop.store(), shop.store()];
    let mut makers = makers(stores.len(), 111, "customers-");
    let items = ["a", "b"].map(|name| stock(&*stores[0], &mut makers[0], name, 1_000));
    let id = makers[0].limit("five");
    let terms = maker::per_customer(&[&items[0], &items[1]], 5);
    run(&*stores[0], makers[0].wrap(maker::set_limit(&id, terms))).unwrap();
    let commands = |maker: &mut Maker| -> Vec<Envelope> {
        let reserve = |n: usize| {
            let customer = format!("c{}", n % CUSTOMERS);
            maker.wrap(Command::Reserve(maker::reserve_by(&customer, 60, &[(&items[n % 2], 1)])))
        };
        (0..CUSTOMERS * 6).map(reserve).collect()
    };
    let commands: Vec<Vec<Envelope>> = makers.iter_mut().map(commands).collect();
    let refs: Vec<&dyn Store> = stores.iter().map(|store| &**store).collect();
    let outcomes = race(&refs, commands, 5).concat();
    let held: Vec<ReservationId> = outcomes.iter().filter_map(reservation).map(|hold| hold.id).collect();
    assert_eq!(held.len(), CUSTOMERS * 5);
    assert!(outcomes.iter().all(|outcome| reservation(outcome).is_some() || is_refused(outcome)));
    for id in &held[..CUSTOMERS] {
        run(&*stores[1], makers[1].wrap(maker::confirm(*id))).unwrap();
    }
    let used = usage(&*stores[2], &id);
    assert_eq!(used.len(), CUSTOMERS);
    assert!(used.iter().all(|(_, counter)| counter.held + counter.sold == 5), "{used:?}");
    assert_eq!(used.iter().map(|(_, counter)| counter.sold).sum::<u64>(), CUSTOMERS as u64);
    for id in &held[CUSTOMERS..] {
        run(&*stores[2], makers[2].wrap(maker::release(*id))).unwrap();
    }
    assert_eq!(usage(&*stores[0], &id).iter().map(|(_, counter)| counter.held).sum::<u64>(), 0);
    adds_up(shop);
    shop.audit();
}

/// Over items that the instances reserve in different orders.
pub(crate) fn a_shared_limit_is_counted_once_over_several_instances<S: Shop>(_: &mut S) {
    const ITEMS: usize = 12;
    let mut shop = S::alone();
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(stores.len(), 112, "shared-");
    let items: Vec<_> =
        (0..ITEMS).map(|n| stock(&*stores[0], &mut makers[0], &format!("i{n}"), 1_000)).collect();
    let id = makers[0].limit("quota");
    let targets: Vec<_> = items.iter().collect();
    let terms = shared(maker::per_customer(&targets, 100));
    run(&*stores[0], makers[0].wrap(maker::set_limit(&id, terms))).unwrap();
    let commands = |(number, maker): (usize, &mut Maker)| -> Vec<Envelope> {
        let item = |n: usize| if number == 0 { &items[n % ITEMS] } else { &items[ITEMS - 1 - n % ITEMS] };
        let reserve = |n: usize| maker.wrap(maker::reserve_for(60, &[(item(n), 1), (item(n + 1), 1)]));
        (0..80).map(reserve).collect()
    };
    let commands: Vec<Vec<Envelope>> = makers.iter_mut().enumerate().map(commands).collect();
    let outcomes = race(&[&*stores[0], &*stores[1]], commands, 7).concat();
    assert_eq!(outcomes.iter().filter_map(reservation).count(), 50, "two units each");
    assert!(outcomes.iter().all(|outcome| reservation(outcome).is_some() || is_refused(outcome)));
    assert_eq!(usage(&*stores[1], &id), [(None, LimitCounter { held: 100, sold: 0 })]);
    // All of them fall due, and the next buyer finds room.
    shop.set_clock(later(61));
    let next = run(&*stores[1], makers[1].wrap(maker::reserve_for(60, &[(&items[0], 100)])));
    assert!(reservation(&next).is_some(), "{next:?}");
    drop(stores);
    assert_eq!(shop.deadlocks(), 0);
    adds_up(&shop);
    shop.audit();
}

pub(crate) fn a_counter_that_another_instance_is_creating_is_waited_for<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(113, "counter-");
    let item_key = stock(&*store, &mut maker, "a", 10);
    let id = maker.limit("two");
    run(&*store, maker.wrap(maker::set_limit(&id, maker::per_customer(&[&item_key], 2)))).unwrap();
    let mut reserve = || maker.wrap(Command::Reserve(maker::reserve_by("ann", 60, &[(&item_key, 1)])));
    run(&*store, reserve()).unwrap();
    // The counter's row is put back as uncommitted: another instance that has not finished.
    shop.sql("CREATE TABLE taken AS SELECT * FROM {t}limit_counters; DELETE FROM {t}limit_counters");
    let mut other = shop.somebody();
    other("BEGIN; INSERT INTO {t}limit_counters SELECT * FROM taken");
    let pending = Desk::new().send(&*store, vec![reserve()]);
    shop.wait_until_locked_out(1);
    other("COMMIT");
    assert!(reservation(&pending.only()).is_some());
    assert_eq!(usage(&*store, &id)[0].1, LimitCounter { held: 2, sold: 0 });
    assert!(is_refused(&run(&*store, reserve())));
    adds_up(shop);
}

pub(crate) fn counters_of_ended_generations_are_deleted<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(114, "ended-");
    let items = ["a", "b"].map(|name| stock(&*store, &mut maker, name, 10));
    let [changed, deleted, kept] = ["changed", "deleted", "kept"].map(|name| maker.limit(name));
    for id in [&changed, &deleted, &kept] {
        run(&*store, maker.wrap(maker::set_limit(id, maker::per_customer(&[&items[0]], 2)))).unwrap();
    }
    let mut by = |customer| maker.wrap(Command::Reserve(maker::reserve_by(customer, 60, &[(&items[0], 1)])));
    let held = ["ann", "bob"].map(|customer| reservation(&run(&*store, by(customer))).unwrap().id);
    run(&*store, maker.wrap(maker::set_limit(&changed, maker::per_customer(&[&items[1]], 2)))).unwrap();
    run(&*store, maker.wrap(maker::delete_limit(&deleted))).unwrap();
    adds_up(shop);
    // As an expression, a list of more than one row is an error.
    let ended = "SELECT (SELECT c.generation FROM {t}limit_counters c JOIN {t}limits l ON l.id = c.limit_id
         WHERE c.generation < l.generation UNION ALL SELECT 1)";
    assert!(shop.refuses(ended));
    // A store looks for them when it starts.
    let _second = shop.store();
    let begun = Instant::now();
    while shop.refuses(ended) {
        assert!(begun.elapsed() < PATIENCE, "they were never deleted");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(usage(&*store, &kept).len(), 2, "the others stay");
    run(&*store, maker.wrap(maker::release(held[0]))).unwrap();
    assert_eq!(usage(&*store, &kept).len(), 1);
    adds_up(shop);
}

pub(crate) fn the_sweeper_expires_counted_holds<S: Shop>(shop: &mut S) {
    let sweep_every = Some(Duration::from_millis(20));
    let options = Options { sweep_every, sweep_batch: 20, ..shop.options() };
    let stores: [Arc<dyn Store>; 2] = [open(shop, options.clone()), open(shop, options)];
    let mut maker = Maker::new(115, "swept-");
    let items = ["a", "b"].map(|name| stock(&*stores[0], &mut maker, name, 1_000));
    let [each, all, ended] = ["each", "all", "ended"].map(|name| maker.limit(name));
    let terms = maker::per_customer(&[&items[0], &items[1]], 900);
    for (id, terms) in [(&each, terms.clone()), (&all, shared(terms.clone())), (&ended, terms)] {
        run(&*stores[0], maker.wrap(maker::set_limit(id, terms))).unwrap();
    }
    let reserves = (0..150).map(|n: usize| {
        let customer = format!("c{}", n % 7);
        let lines = [(&items[n % 2], 1), (&items[(n + 1) % 2], 2)];
        maker.wrap(Command::Reserve(maker::reserve_by(&customer, 60, &lines)))
    });
    let outcomes = Desk::new().send(&*stores[0], reserves.collect()).outcomes();
    let ids: Vec<_> = outcomes.iter().map(|outcome| reservation(outcome).unwrap().id).collect();
    run(&*stores[0], maker.wrap(maker::delete_limit(&ended))).unwrap();
    shop.set_clock(later(60));
    wait_until(|| ids.iter().all(|id| hold(&*stores[1], *id).unwrap().status == Status::Expired));
    assert!(usage(&*stores[0], &each).is_empty());
    assert_eq!(usage(&*stores[0], &all), [(None, LimitCounter::default())]);
    adds_up(shop);
    shop.audit();
}

pub(crate) fn a_counter_that_somebody_has_locked_keeps_no_other_hold_from_being_expired<S: Shop>(
    shop: &mut S,
) {
    let options = Options { sweep_every: Some(Duration::from_millis(20)), ..shop.options() };
    let store = open(shop, options);
    let mut maker = Maker::new(116, "kept-");
    let item_key = stock(&*store, &mut maker, "a", 100);
    let id = maker.limit("nine");
    run(&*store, maker.wrap(maker::set_limit(&id, maker::per_customer(&[&item_key], 9)))).unwrap();
    let mut by = |customer| {
        let reserve = maker.wrap(Command::Reserve(maker::reserve_by(customer, 60, &[(&item_key, 1)])));
        reservation(&run(&*store, reserve)).unwrap().id
    };
    let (of_ann, of_bob) = (by("ann"), by("bob"));
    let mut holder = shop.somebody();
    holder(&format!(
        "BEGIN; SELECT 1 FROM {{t}}limit_counters WHERE limit_id = '{id}' AND generation = 1
         ORDER BY subject LIMIT 1 FOR UPDATE"
    ));
    shop.set_clock(later(60));
    let status = |id| hold(&*store, id).unwrap().status;
    wait_until(|| status(of_bob) == Status::Expired);
    assert_eq!(status(of_ann), Status::Active);
    holder("COMMIT");
    wait_until(|| status(of_ann) == Status::Expired);
    adds_up(shop);
    shop.audit();
}

/// Everybody asks for two units at both instances at once, of different items. There are fewer units than buyers need.
pub(crate) fn of_a_thousand_buyers_nobody_gets_three_units_and_nobody_less_than_was_left<S: Shop>(
    shop: &mut S,
) {
    const BUYERS: usize = 1_000;
    const UNITS: u64 = 400;
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(stores.len(), 117, "drop-");
    let items = ["a", "b", "c", "d"].map(|name| stock(&*stores[0], &mut makers[0], name, UNITS));
    let id = makers[0].limit("two");
    let targets: Vec<_> = items.iter().collect();
    run(&*stores[0], makers[0].wrap(maker::set_limit(&id, maker::per_customer(&targets, 2)))).unwrap();
    // The second instance serves the buyers in the opposite order and each of them another item.
    let buyer_and_item = |store: usize, n: usize| match store {
        0 => (n, n % items.len()),
        _ => (BUYERS - 1 - n, (BUYERS - n) % items.len()),
    };
    let commands = |(store, maker): (usize, &mut Maker)| -> Vec<Envelope> {
        let reserve = |n: usize| {
            let (buyer, item) = buyer_and_item(store, n);
            let lines = [(&items[item], 2)];
            maker.wrap(Command::Reserve(maker::reserve_by(&format!("c{buyer}"), 600, &lines)))
        };
        (0..BUYERS).map(reserve).collect()
    };
    let commands: Vec<Vec<Envelope>> = makers.iter_mut().enumerate().map(commands).collect();
    let outcomes = race(&[&*stores[0], &*stores[1]], commands, 20);

    let mut got = vec![0; BUYERS];
    let (mut left, mut short, mut limited) = ([UNITS; 4], [false; 4], vec![false; BUYERS]);
    for (store, outcomes) in outcomes.iter().enumerate() {
        for (n, outcome) in outcomes.iter().enumerate() {
            let (buyer, item) = buyer_and_item(store, n);
            match outcome {
                Ok(Outcome::Done(Reply::Reservation(hold))) => {
                    assert_eq!(hold.quantity(), 2);
                    (got[buyer], left[item]) = (got[buyer] + 2, left[item] - 2);
                }
                Ok(Outcome::Refused(Rejection::LimitExceeded(_))) => limited[buyer] = true,
                Ok(Outcome::Refused(Rejection::InsufficientInventory(_))) => short[item] = true,
                other => panic!("{other:?}"),
            }
        }
    }
    let used = usage(&*stores[1], &id);
    for (buyer, got) in got.iter().enumerate() {
        let subject = maker::label(&format!("c{buyer}"));
        let counter = used.iter().find(|(name, _)| name.as_ref() == Some(&subject));
        assert_eq!(counter.map_or(0, |(_, counter)| counter.held), *got, "what is counted for {buyer}");
        assert!(*got <= 2, "{buyer} got {got}");
        assert!(*got == 2 || !limited[buyer], "the limit refused {buyer}, who got nothing");
    }
    for item in 0..items.len() {
        assert!(left[item] == 0 || !short[item], "{} were left, and somebody got none", left[item]);
    }
    assert!(short.iter().any(|short| *short) && limited.iter().any(|limited| *limited));
    adds_up(shop);
    shop.audit();
}

/// While buyers reserve, confirm and release at two instances, a limit is lowered, raised, deleted and set again.
pub(crate) fn a_limit_that_changes_under_load_counts_what_its_reservations_have<S: Shop>(shop: &mut S) {
    const CUSTOMERS: usize = 6;
    const AT_ONCE: usize = 8;
    let stores = [shop.store(), shop.store()];
    let refs: Vec<&dyn Store> = stores.iter().map(|store| &**store).collect();
    let mut makers = makers(stores.len(), 118, "changed-");
    let items = ["a", "b"].map(|name| stock(&*stores[0], &mut makers[0], name, 100_000));
    let id = makers[0].limit("changed");
    let terms = |limit| Some(maker::per_customer(&[&items[0], &items[1]], limit));
    let of_one_item = |limit| Some(maker::per_customer(&[&items[1]], limit));
    run(&*stores[0], makers[0].wrap(maker::set_limit(&id, terms(20).unwrap()))).unwrap();
    let mut held: Vec<ReservationId> = Vec::new();
    // Lowered below what is used, raised, deleted and set again, and set for another item.
    for (round, change) in [terms(5), terms(0), terms(60), None, terms(30), of_one_item(9), None, terms(7)]
        .into_iter()
        .enumerate()
    {
        let ends = held.split_off(held.len() / 3);
        let mut ends = ends.into_iter();
        let commands = makers.iter_mut().enumerate().map(|(store, maker)| {
            let mut commands = Vec::new();
            for n in 0..60 {
                let customer = format!("c{}", (n + store) % CUSTOMERS);
                let lines = [(&items[n % 2], 1), (&items[(n + 1) % 2], 2)];
                commands.push(maker.wrap(Command::Reserve(maker::reserve_by(&customer, 600, &lines))));
                if let Some(ended) = ends.next() {
                    let end = if n % 3 == 0 { maker::release(ended) } else { maker::confirm(ended) };
                    commands.push(maker.wrap(end));
                }
            }
            if store == round % 2 {
                let change = match &change {
                    Some(terms) => maker::set_limit(&id, terms.clone()),
                    None => maker::delete_limit(&id),
                };
                commands.insert(commands.len() / 2, maker.wrap(change));
            }
            commands
        });
        let commands: Vec<Vec<Envelope>> = commands.collect();
        let outcomes = race(&refs, commands, AT_ONCE).concat();
        let unexpected =
            outcomes.iter().find(|outcome| !matches!(outcome, Ok(Outcome::Done(_))) && !is_refused(outcome));
        assert!(unexpected.is_none(), "{unexpected:?}");
        let active = outcomes.iter().filter_map(reservation).filter(|hold| hold.status == Status::Active);
        held.extend(active.map(|hold| hold.id));
        // The change is committed, so it holds for everybody.
        let after = makers[0].wrap(Command::Reserve(maker::reserve_by("new", 600, &[(&items[1], 61)])));
        assert_eq!(is_refused(&run(&*stores[round % 2], after)), change.is_some(), "round {round}");
        adds_up(shop);
    }
    shop.audit();
}
