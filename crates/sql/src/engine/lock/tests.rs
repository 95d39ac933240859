//! Who may join a batch that is locked.

use super::super::dialect::Rows;
use super::*;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{CounterKey, Limit, LimitSet, Pool, Pools, Subject};

fn item(key: &ItemKey, total_units: u64, mode: Mode) -> Item {
    let at = stockhold_domain::Instant::from_micros(0);
    let figures = stockhold_domain::StockCounters {
        total_units,
        confirmed_sold: 0,
        fulfilled: 0,
        held_under_payment: 0,
        held: 0,
        active: 0,
        sequence: 1,
        at,
    };
    Item {
        key: key.clone(),
        mode,
        figures,
        settings: stockhold_domain::Settings::default().into(),
        pools: Pools::default(),
        version: 1,
        paused: false,
        created_at: at,
    }
}

/// With these items locked, and all pauses that concern reserves of them read.
fn locked_batch(items: Vec<Item>, pauses: &[&str], limits: LimitSet) -> LockedBatch {
    let lock_set = LockSet {
        items: items.iter().map(|item| item.key.clone()).collect(),
        pauses: pauses.iter().map(|location| (*location).to_owned()).collect(),
        ..LockSet::default()
    };
    let rows = Rows { items, limits: Some(limits.into()), ..Rows::default() };
    let locked = LockedRows { now: stockhold_domain::Instant::from_micros(0), serial: 1, rows };
    LockedBatch { lock_plan: BatchLockPlan { of_command: Vec::new(), lock_set }, locked, first: 0 }
}

#[test]
fn a_reserve_joins_that_finds_all_it_may_touch_and_enough_of_it() {
    let mut maker = Maker::new(1, "room-");
    let [a, b, unit_item] = ["a", "b", "hall"].map(|name| maker.item(name));
    let items = vec![item(&a, 5, Mode::Counted), item(&unit_item, 5, Mode::Units)];
    let locked_batch = locked_batch(items, &["", "default"], LimitSet::default());
    let mut admits = |command, key: Option<&str>| {
        let envelope = match key {
            Some(key) => maker.keyed(key, command),
            None => maker.wrap(command),
        };
        locked_batch.join_policy().admits(&PlannedCommand {
            envelope: Box::new(envelope),
            refs: None,
            sequence: None,
            unit_items: HashSet::new(),
        })
    };
    assert!(admits(maker::reserve_for(60, &[(&a, 5)]), None));
    assert!(admits(maker::reserve_for(60, &[(&a, 1)]), Some("k")), "a key that nobody has read");
    assert!(!admits(maker::reserve_for(60, &[(&a, 6)]), None), "who would be refused");
    assert!(!admits(maker::reserve_for(60, &[(&a, 1), (&b, 1)]), None), "what is not locked");
    assert!(!admits(maker::reserve_for(60, &[(&unit_item, 1)]), None), "units with ids");
    assert!(!admits(maker::set_stock(&a, 9), None), "what is no reserve");
    assert!(!admits(maker::pause(&stockhold_domain::Scope::Everything), None), "what locks the pauses");
}

#[test]
fn a_reserve_that_names_a_pool_joins_if_the_pool_has_enough() {
    let mut maker = Maker::new(4, "pools-");
    let (a, at) = (maker.item("a"), stockhold_domain::Instant::from_micros(0));
    let name = maker::label("vip");
    let vip = Pool { name, terms: maker::pool_of(4), held: 0, sold: 0, used_at: at, released_at: None };
    let item = Item { pools: Pools::new(vec![vip]), ..item(&a, 5, Mode::Counted) };
    let locked_batch = locked_batch(vec![item], &["", "default"], LimitSet::default());
    let mut admits = |command| {
        locked_batch.join_policy().admits(&PlannedCommand {
            envelope: Box::new(maker.wrap(command)),
            refs: None,
            sequence: None,
            unit_items: HashSet::new(),
        })
    };
    let from = |units| Command::Reserve(maker::reserve_from("vip", 60, &[(&a, units)]));
    assert!(admits(from(5)), "of the pool and of what is not set aside");
    assert!(!admits(from(6)));
    assert!(admits(maker::reserve_for(60, &[(&a, 1)])));
    assert!(!admits(maker::reserve_for(60, &[(&a, 2)])), "what is set aside");
}

#[test]
fn nobody_joins_where_the_pauses_were_not_read() {
    let mut maker = Maker::new(2, "pauses-");
    let a = maker.item("a");
    for pauses in [[].as_slice(), &[""], &["default"]] {
        let locked_batch = locked_batch(vec![item(&a, 5, Mode::Counted)], pauses, LimitSet::default());
        let envelope = Box::new(maker.wrap(maker::reserve_for(60, &[(&a, 1)])));
        assert!(
            !locked_batch.join_policy().admits(&PlannedCommand {
                envelope,
                refs: None,
                unit_items: HashSet::new(),
                sequence: None
            }),
            "{pauses:?}"
        );
    }
}

#[test]
fn a_reserve_that_a_limit_counts_joins_where_its_counter_is_locked() {
    let mut maker = Maker::new(3, "limits-");
    let a = maker.item("a");
    let (id, terms) = (maker.limit("two"), Some(maker::per_customer(&[&a], 2).into()));
    let mut limits = LimitSet::default();
    limits.put(Limit { id: id.clone(), version: 1, generation: 1, terms });
    let mut locked_batch = locked_batch(vec![item(&a, 5, Mode::Counted)], &["", "default"], limits);
    let counter = |name| CounterKey {
        limit: id.clone(),
        generation: 1,
        subject: Subject::Customer(maker::label(name)),
    };
    locked_batch.lock_plan.lock_set.counters.insert(counter("ann"));
    for (customer, joins) in [("ann", true), ("bob", false)] {
        let command = Command::Reserve(maker::reserve_by(customer, 60, &[(&a, 1)]));
        let planned = PlannedCommand {
            envelope: Box::new(maker.wrap(command)),
            refs: None,
            unit_items: HashSet::new(),
            sequence: None,
        };
        assert_eq!(locked_batch.join_policy().admits(&planned), joins, "{customer}");
    }
}
