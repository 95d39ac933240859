//! Several stores over one database.

use super::{later, lock, open};
use crate::audit::Shop;
use crate::fixture::{Desk, events, events_after, hold, item, reservation, run, stock};
use crate::workload::{self, race};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{
    Command, Item, Outcome, RecordKind, Rejection, Reply, ReservationId, Scope, SetSale, Status, Transition,
};
use stockhold_sql::Options;
use stockhold_store::{EventRow, Failure, Store};

/// So many instances over one database.
fn instances<S: Shop>(shop: &S, count: usize, options: &Options) -> Vec<Arc<dyn Store>> {
    (0..count).map(|_| open(shop, options.clone())).collect()
}

fn each(stores: &[Arc<dyn Store>]) -> Vec<&dyn Store> {
    stores.iter().map(|store| &**store).collect()
}

pub(crate) fn a_thousand_buyers_at_two_and_four_instances_get_a_hundred_units<S: Shop>(_: &mut S) {
    for count in [2_usize, 4] {
        let mut shop = S::another();
        workload::buyers(&each(&instances(&shop, count, &shop.options())), count as u64);
        shop.audit();
    }
}

pub(crate) fn one_key_used_at_several_instances_at_once_has_one_effect<S: Shop>(_: &mut S) {
    for count in [2_usize, 4] {
        let mut shop = S::another();
        workload::same_keys(&each(&instances(&shop, count, &shop.options())), count as u64);
        shop.audit();
    }
}

pub(crate) fn baskets_in_opposite_orders_at_several_instances_do_not_deadlock<S: Shop>(_: &mut S) {
    for count in [2_usize, 4] {
        let mut shop = S::alone();
        workload::opposite_baskets(&each(&instances(&shop, count, &shop.options())), count as u64);
        assert_eq!(shop.deadlocks(), 0);
        shop.audit();
    }
}

/// With the database's own clock and the stores' own sweepers, so that much falls due on the way.
pub(crate) fn whatever_callers_do_at_several_instances_the_books_balance<S: Shop>(_: &mut S) {
    for count in [2_usize, 4] {
        let mut shop = S::another();
        let options = Options {
            clock: None,
            sweep_every: Some(Duration::from_millis(100)),
            connections: 4,
            most_connections: 6,
            ..shop.options()
        };
        let stores = instances(&shop, count, &options);
        workload::mixed(&each(&stores), count as u64, 120);
        drop(stores);
        shop.audit();
    }
}

pub(crate) fn a_key_that_another_instance_is_committing_is_waited_for<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(4, "inflight-");
    let item_key = stock(&*store, &mut maker, "a", 10);
    let envelope = maker.keyed("k", maker::reserve_for(600, &[(&item_key, 1)]));
    let made = run(&*store, envelope.clone());
    // The key's row is put back as uncommitted: another instance that has not finished.
    let mut other = shop.somebody();
    shop.sql("CREATE TABLE taken AS SELECT * FROM {t}keys; DELETE FROM {t}keys");
    other("BEGIN; INSERT INTO {t}keys SELECT * FROM taken");
    let desk = Desk::new();
    let pending = desk.send(&*store, vec![maker.again(&envelope)]);
    shop.wait_until_locked_out(1);
    other("COMMIT");
    let again = pending.only();
    assert!(matches!(again, Ok(Outcome::Replayed(_))), "{again:?}");
    assert_eq!(reservation(&again).map(|hold| hold.id), reservation(&made).map(|hold| hold.id));
    assert_eq!(item(&*store, &item_key).unwrap().figures.held, 1);
    shop.audit();
}

pub(crate) fn an_item_that_another_instance_is_creating_is_waited_for<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(16, "making-");
    let item_key = stock(&*store, &mut maker, "a", 10);
    shop.sql("CREATE TABLE taken AS SELECT * FROM {t}items; DELETE FROM {t}items");
    let mut other = shop.somebody();
    other("BEGIN; INSERT INTO {t}items SELECT * FROM taken");
    let set = maker.wrap(Command::SetStock(maker::stock_of(&item_key, 7)));
    let pending = Desk::new().send(&*store, vec![set]);
    shop.wait_until_locked_out(1);
    other("COMMIT");
    match pending.only() {
        Ok(Outcome::Done(Reply::Item { item, created: false })) => {
            assert_eq!(item.version, Item::first_version(item.created_at) + 1);
            assert_eq!(item.figures.total_units, 7);
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn a_position_that_another_instance_is_giving_is_waited_for<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(17, "numbering-");
    // Another instance numbers the second batch, as if it had not been able to see the first yet. It has locked the sequencer
    // before there are events, so the store can't number them.
    let mut other = shop.somebody();
    other("BEGIN; SELECT 1 FROM {t}sequencer FOR UPDATE");
    let items = ["a", "b"].map(|name| stock(&*store, &mut maker, name, 10));
    other(
        "UPDATE {t}events SET last_position = 1
             WHERE serial = (SELECT serial FROM (SELECT MAX(serial) AS serial FROM {t}events) AS newest);
         UPDATE {t}sequencer SET position = 1",
    );
    let rows = thread::scope(|scope| {
        let reader = scope.spawn(|| events(&*store));
        shop.wait_until_numbering_waits();
        other("COMMIT");
        reader.join().unwrap()
    });
    let stocked = |row: &EventRow| match &row.event.transition {
        Transition::Stock { item, .. } => (row.position, item.key.clone()),
        other => panic!("{other:?}"),
    };
    let [first, second] = items;
    assert_eq!(rows.iter().map(stocked).collect::<Vec<_>>(), [(1, second), (2, first)]);
}

/// Two batches of one item are committed while events are numbered, the first of them where the sequencer has looked already. Then it must
/// not number the second without the first, even if a batch in between keeps it waiting.
pub(crate) fn what_is_committed_while_events_are_numbered_keeps_its_order<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(21, "moment-");
    let mut sequencer = shop.somebody();
    sequencer("BEGIN; SELECT 1 FROM {t}sequencer FOR UPDATE");
    let [_, item_key, _] = ["first", "a", "between"].map(|name| stock(&*store, &mut maker, name, 10));
    assert!(reservation(&run(&*store, maker.wrap(maker::reserve_for(60, &[(&item_key, 1)])))).is_some());
    // All batches but the first have not been committed yet, with serials that nothing has had.
    let columns =
        if S::TABLES.contains('.') { "bucket, serial + 1024, count" } else { "serial + 1024, event_count" };
    shop.sql(
        "CREATE TABLE taken AS SELECT * FROM {t}events;
         DELETE FROM {t}events WHERE serial > (SELECT MIN(serial) FROM taken)",
    );
    // The batch of a number, of which the first has stayed.
    let put_back = |number: u32| {
        format!(
            "INSERT INTO {{t}}events SELECT {columns}, last_position, body FROM taken ORDER BY serial LIMIT 1 OFFSET {number}"
        )
    };
    let mut between = shop.somebody();
    between(&format!("BEGIN; {}", put_back(2)));
    sequencer("COMMIT");
    let (mut others, shop) = (shop.somebody(), &mut *shop);
    thread::scope(|scope| {
        let reader = scope.spawn(|| events(&*store));
        while !reader.is_finished() && !shop.numbering_waits() {
            thread::sleep(Duration::from_millis(5));
        }
        others(&put_back(1));
        others(&put_back(3));
        between("COMMIT");
        reader.join().unwrap();
    });
    let name = |row: EventRow| match row.event.transition {
        Transition::Stock { item, .. } => (row.position, item.key.sku().to_owned()),
        Transition::Hold { hold, .. } => (row.position, format!("{}, reserved", hold.lines[0].item.sku())),
        other => panic!("{other:?}"),
    };
    let rows: Vec<_> = events(&*store).into_iter().map(name).collect();
    assert!(rows.iter().zip(1..).all(|(row, position)| row.0 == position), "{rows:?}");
    let place =
        |name: &str| rows.iter().position(|row| row.1.ends_with(name)).unwrap_or_else(|| panic!("{rows:?}"));
    assert!(place("a") < place("a, reserved"), "{rows:?}");
    assert_eq!(rows.len(), 4, "{rows:?}");
}

pub(crate) fn two_instances_that_create_the_same_items_create_each_once<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut makers = [Maker::new(5, "new-"), Maker::new(6, "new-")];
    let names: Vec<String> = (0..150).map(|n| n.to_string()).collect();
    let mut commands = makers.each_mut().map(|maker| {
        let set = |name: &String| maker::stock_of(&maker.item(name), 5);
        let sets: Vec<_> = names.iter().map(set).collect();
        sets.into_iter().map(|set| maker.wrap(Command::SetStock(set))).collect::<Vec<_>>()
    });
    commands[1].reverse();
    let outcomes = race(&[&*stores[0], &*stores[1]], commands.into(), 10);
    let created = |outcome: &&Result<Outcome, Failure>| {
        matches!(outcome, Ok(Outcome::Done(Reply::Item { created: true, .. })))
    };
    let found = |outcome: &&Result<Outcome, Failure>| {
        matches!(outcome, Ok(Outcome::Done(Reply::Item { created: false, .. })))
    };
    assert_eq!(outcomes.iter().flatten().filter(created).count(), names.len());
    assert_eq!(outcomes.iter().flatten().filter(found).count(), names.len());
    shop.audit();
}

pub(crate) fn confirm_release_and_expiry_at_two_instances_agree_on_one_end<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut makers = [Maker::new(9, "end-"), Maker::new(10, "end-")];
    let item_key = stock(&*stores[0], &mut makers[0], "a", 300);
    let reserves = (0..300).map(|_| makers[0].wrap(maker::reserve_for(60, &[(&item_key, 1)]))).collect();
    let ids: Vec<ReservationId> = Desk::new()
        .send(&*stores[0], reserves)
        .outcomes()
        .iter()
        .map(|outcome| reservation(outcome).unwrap().id)
        .collect();
    let confirms = ids.iter().map(|id| makers[0].wrap(maker::confirm(*id))).collect();
    let gone = ids.iter().rev().map(|id| makers[1].wrap(maker::release(*id))).collect();
    let mut outcomes = race(&[&*stores[0], &*stores[1]], vec![confirms, gone], 9);
    let (mut released, confirmed) = (outcomes.remove(1), outcomes.remove(0));
    released.reverse();
    let mut sold = 0;
    for ((id, confirmed), released) in ids.iter().zip(&confirmed).zip(&released) {
        let status = hold(&*stores[0], *id).unwrap().status;
        assert!(matches!(status, Status::Confirmed | Status::Cancelled), "{status:?}");
        assert_eq!(reservation(confirmed).is_some(), status == Status::Confirmed, "{confirmed:?}");
        assert_eq!(reservation(released).is_some(), status == Status::Cancelled, "{released:?}");
        sold += u64::from(status == Status::Confirmed);
    }
    let figures = item(&*stores[1], &item_key).unwrap().figures;
    assert_eq!((figures.confirmed_sold, figures.held, figures.sequence), (sold, 0, 1 + 300 + 300));
    shop.audit();
}

pub(crate) fn positions_are_dense_and_follow_each_items_sequence<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut makers = [Maker::new(11, "events-"), Maker::new(12, "events-")];
    let items = ["a", "b", "c"].map(|name| stock(&*stores[0], &mut makers[0], name, 100_000));
    let commands = makers.each_mut().map(|maker| {
        (0..200).map(|n| maker.wrap(maker::reserve_for(600, &[(&items[n % 3], 1)]))).collect::<Vec<_>>()
    });
    // Both also read, and so number, while the other commits.
    let seen = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = Vec::new();
            while seen.len() < 403 {
                let after = seen.last().map_or(0, |row: &EventRow| row.position);
                seen.extend(events_after(&*stores[1], after, 50));
            }
            seen
        });
        race(&[&*stores[0], &*stores[1]], commands.into(), 3);
        reader.join().unwrap()
    });
    assert!(seen.iter().zip(1..).all(|(row, position)| row.position == position), "dense, from 1");
    assert_eq!(seen, events(&*stores[0]), "what was read while it grew is what is there");
    for key in &items {
        let mut sequence = 0;
        for row in &seen {
            let at = match &row.event.transition {
                Transition::Stock { item, .. } if item.key == *key => item.figures.sequence,
                Transition::Hold { hold, .. } if hold.lines[0].item == *key => hold.lines[0].sequence,
                _ => continue,
            };
            assert_eq!(at, sequence + 1, "of {key:?} at position {}", row.position);
            sequence = at;
        }
    }
    shop.audit();
}

pub(crate) fn two_instances_that_sweep_at_once_expire_each_hold_once<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut makers = [Maker::new(13, "sweep-"), Maker::new(14, "sweep-")];
    let items = ["a", "b", "c", "d"].map(|name| stock(&*stores[0], &mut makers[0], name, 10_000));
    let basket = |n: usize| [(&items[n % 4], 1), (&items[(n + 1 + n % 3) % 4], 2)];
    let reserves: Vec<_> = (0..700).map(|n| makers[0].wrap(maker::reserve_for(60, &basket(n)))).collect();
    let made = Desk::new().send(&*stores[0], reserves).outcomes();
    assert_eq!(made.iter().filter_map(reservation).count(), 700);
    shop.set_clock(later(60));
    let sweeps =
        makers.each_mut().map(|maker| (0..12).map(|_| maker.wrap(Command::Sweep)).collect::<Vec<_>>());
    let outcomes = race(&[&*stores[0], &*stores[1]], sweeps.into(), 1);
    let swept: Vec<u32> = outcomes
        .iter()
        .flatten()
        .map(|outcome| match outcome {
            Ok(Outcome::Done(Reply::Swept { expired, released: 0 })) => *expired,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(swept.iter().sum::<u32>(), 700, "{swept:?}");
    for key in &items {
        let figures = item(&*stores[1], key).unwrap().figures;
        assert_eq!((figures.held, figures.active), (0, 0));
    }
    shop.audit();
}

pub(crate) fn a_pause_waits_for_what_was_decided_before_it_and_stops_what_comes_after<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut maker = Maker::new(15, "pause-");
    let item_key = stock(&*stores[0], &mut maker, "a", 10);
    let location = maker::label(item_key.location());
    for scope in [Scope::Everything, Scope::Location(location)] {
        let set = |paused| Command::SetSale(SetSale { scope: scope.clone(), paused, reason: None });
        let mut holder = lock(shop, &item_key);
        let reserving =
            Desk::new().send(&*stores[0], vec![maker.wrap(maker::reserve_for(60, &[(&item_key, 1)]))]);
        shop.wait_until_locked_out(1);
        let pausing = Desk::new().send(&*stores[1], vec![maker.wrap(set(true))]);
        shop.wait_until_locked_out(2);
        holder("COMMIT");
        assert!(reservation(&reserving.only()).is_some());
        assert!(matches!(pausing.only(), Ok(Outcome::Done(Reply::Sale { paused: true }))));
        let rows = events(&*stores[0]);
        let last = rows.last().map(|row| &row.event.transition);
        assert!(matches!(last, Some(Transition::Sale { paused: true, .. })), "{last:?}");
        let after = run(&*stores[0], maker.wrap(maker::reserve_for(60, &[(&item_key, 1)])));
        assert_eq!(after, Ok(Outcome::Refused(Rejection::SalePaused(scope.clone()))));
        assert!(matches!(run(&*stores[1], maker.wrap(set(false))), Ok(Outcome::Done(_))));
    }
    shop.audit();
}

pub(crate) fn a_record_that_another_instance_is_creating_is_waited_for<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(18, "record-");
    let key = maker.record(RecordKind::ApiKey, "a");
    run(&*store, maker.wrap(maker::put_record(&key, 0, b"theirs"))).unwrap();
    shop.sql("CREATE TABLE taken AS SELECT * FROM {t}records; DELETE FROM {t}records");
    let mut other = shop.somebody();
    other("BEGIN; INSERT INTO {t}records SELECT * FROM taken");
    let pending = Desk::new().send(&*store, vec![maker.wrap(maker::put_record(&key, 0, b"ours"))]);
    shop.wait_until_locked_out(1);
    other("COMMIT");
    let refused = pending.only();
    let changed = Outcome::Refused(Rejection::RecordChanged { version: 1 });
    assert!(matches!(&refused, Ok(outcome) if *outcome == changed), "{refused:?}");
}

/// The same records are created, changed and deleted, from the same versions.
pub(crate) fn of_two_instances_that_change_the_same_record_one_succeeds<S: Shop>(shop: &mut S) {
    const RECORDS: usize = 60;
    let stores = [shop.store(), shop.store()];
    let mut makers = [Maker::new(19, "one-of-"), Maker::new(20, "one-of-")];
    let keys: Vec<_> = (0..RECORDS).map(|n| makers[0].record(RecordKind::ApiKey, &n.to_string())).collect();
    for step in 0..4_u64 {
        let command = |key, who: u8| match step {
            0 | 1 => maker::put_record(key, step, &[who]),
            2 => maker::delete_record(key, 2),
            _ => maker::put_record(key, 0, &[who]),
        };
        let mut commands = [0, 1].map(|who: u8| {
            let maker = &mut makers[usize::from(who)];
            keys.iter().map(|key| maker.wrap(command(key, who))).collect::<Vec<_>>()
        });
        commands[1].reverse();
        let mut outcomes = race(&[&*stores[0], &*stores[1]], commands.into(), 7);
        outcomes[1].reverse();
        for (key, (one, other)) in keys.iter().zip(outcomes[0].iter().zip(&outcomes[1])) {
            let done = |outcome: &Result<Outcome, Failure>| match outcome {
                Ok(Outcome::Done(Reply::Record(record))) => Some(record.version),
                Ok(Outcome::Refused(Rejection::RecordChanged { .. })) => None,
                other => panic!("{other:?}"),
            };
            let versions: Vec<u64> = [one, other].into_iter().filter_map(done).collect();
            assert_eq!(versions, [step + 1], "{key:?}: {one:?} and {other:?}");
        }
    }
    shop.audit();
}
