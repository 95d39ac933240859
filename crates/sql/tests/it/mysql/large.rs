//! Batches that are longer than a packet, and events that are longer than a row.

use super::bench::Bench;
use crate::fixture::{Desk, events, reservation, run, stock};
use crate::workload::books_balance;
use stockhold_conformance::{Maker, START, maker};
use stockhold_domain::{Command, Envelope, HoldChange, Instant, ItemKey, Transition, limits};
use stockhold_sql::SqlStore;
use stockhold_store::{Query, QueryResult};

/// Items with the longest names that there are.
fn long_named(store: &SqlStore, maker: &mut Maker, count: usize) -> Vec<ItemKey> {
    let location = maker::label(&"l".repeat(limits::LABEL_BYTES));
    let key =
        |n| ItemKey::new(&location, &maker::label(&format!("{n:0>width$}", width = limits::LABEL_BYTES)));
    let keys: Vec<ItemKey> = (0..count).map(key).collect();
    let sets: Vec<Envelope> =
        keys.iter().map(|key| maker.wrap(Command::SetStock(maker::stock_of(key, 100)))).collect();
    let outcomes = Desk::new().send(store, sets).outcomes();
    assert!(outcomes.iter().all(Result::is_ok));
    keys
}

/// However many rows the events of a commit are in, a unit's history grows by those alone that moved it.
#[test]
fn units_of_large_commits_have_histories_of_what_moved_them() {
    const HOLDS: usize = 9;
    const UNITS: usize = 1_000;
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(91, "wide-");
    let hall = maker.item("hall");
    run(&store, maker.wrap(maker::create_unit_item(&hall))).unwrap();
    let ids: Vec<String> =
        (0..HOLDS * UNITS).map(|n| format!("{n:0>width$}", width = limits::LABEL_BYTES)).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    run(&store, maker.wrap(maker::add_units(&hall, maker::row("stalls", "A", &ids)))).unwrap();
    let reserve = |_| maker.wrap(maker::reserve_for(600, &[(&hall, UNITS as u64)]));
    let reserves = (0..HOLDS).map(reserve).collect();
    let made = Desk::new().send(&store, reserves).outcomes();
    assert!(made.iter().all(|outcome| reservation(outcome).is_some()));
    // They fall due together, and all of them go in one batch.
    bench.set_clock(Instant::from_micros(START.micros() + 1_000_000_000));
    run(&store, maker.wrap(Command::Sweep)).unwrap();
    let longest = |bench: &mut Bench, table: &str| -> usize {
        let text = format!("SELECT MAX(OCTET_LENGTH(history)) FROM stockhold_{table}");
        bench.session.text(&text).parse().unwrap()
    };
    assert!(longest(&mut bench, "holds") > 2 * 8, "events of one commit are in several rows");
    assert_eq!(longest(&mut bench, "units"), 3 * 8);
    for unit in [ids[0], ids[UNITS * HOLDS / 2], ids[UNITS * HOLDS - 1]] {
        let history = Query::UnitHistory { item: hall.clone(), unit: maker::label(unit) };
        let found = Desk::new().find(&store, history);
        assert!(matches!(&found, Ok(QueryResult::UnitHistory(Some(rows))) if rows.len() == 3), "{found:?}");
    }
    bench.audit();
}

/// As of a reservation that is extended again and again.
#[test]
fn a_reservation_with_a_history_of_thousands_of_moves_can_still_move_and_end() {
    const MOVES: usize = 8_191;
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(92, "moved-");
    let item = stock(&store, &mut maker, "a", 1);
    let made = run(&store, maker.wrap(maker::reserve_for(600, &[(&item, 1)])));
    let id = reservation(&made).unwrap().id;
    bench.session.run(&format!("UPDATE stockhold_holds SET history = REPEAT(history, {MOVES})"));
    bench.set_clock(Instant::from_micros(START.micros() + 1_000_000));
    for command in [maker::extend(id, 900), maker::confirm(id)] {
        let moved = run(&store, maker.wrap(command));
        assert!(reservation(&moved).is_some(), "{moved:?}");
    }
    assert_eq!(
        bench.session.text("SELECT OCTET_LENGTH(history) FROM stockhold_holds"),
        (8 * (MOVES + 2)).to_string()
    );
    bench.audit();
}

#[test]
fn the_largest_baskets_confirmed_together_are_in_rows_that_fit_and_their_histories_are_whole() {
    const BASKETS: usize = 6;
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(90, "large-");
    let keys = long_named(&store, &mut maker, limits::BASKET_LINES);
    let wants: Vec<_> = keys.iter().map(|key| (key, 1)).collect();
    let reserves = (0..BASKETS).map(|_| maker.wrap(maker::reserve_for(600, &wants))).collect();
    let made = Desk::new().send(&store, reserves).outcomes();
    let holds: Vec<_> = made.iter().map(|outcome| reservation(outcome).unwrap().clone()).collect();
    // While somebody has one of the items the confirmations wait, and then go two by two.
    let mut holder = bench.lock(&keys[7]);
    let first = Desk::new().send(&store, vec![maker.wrap(maker::confirm(holds[0].id))]);
    bench.wait_until_locked_out(1);
    let rest = holds[1..].iter().map(|hold| maker.wrap(maker::confirm(hold.id))).collect();
    let rest = Desk::new().send(&store, rest);
    holder.run("COMMIT");
    assert!(reservation(&first.only()).is_some());
    assert!(rest.outcomes().iter().all(|outcome| reservation(outcome).is_some()));
    let rows = bench.session.text("SELECT COUNT(*) FROM stockhold_events WHERE OCTET_LENGTH(body) > 1048576");
    assert_eq!(rows, "0", "no row is longer than what a packet has room for");
    let longest = bench.session.text("SELECT MAX(OCTET_LENGTH(history)) FROM stockhold_holds");
    assert!(longest.parse::<usize>().unwrap() > 2 * 8, "events of one commit are in several rows");

    let acknowledged = &holds;
    books_balance(&store, &events(&store), acknowledged);
    for hold in &holds {
        let found = Desk::new().find(&store, Query::History(hold.id));
        let Ok(QueryResult::History(Some(history))) = found else { panic!("{found:?}") };
        let changes: Vec<_> = history
            .iter()
            .map(|row| match &row.event.transition {
                Transition::Hold { change, .. } => change.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(changes, [HoldChange::Created, HoldChange::Confirmed]);
    }
    bench.audit();
}
