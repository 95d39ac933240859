//! Positions in the wrong order, as servers gave them once, and their repair.

use super::bench::Bench;
use crate::audit::{Shop, adds_up, every_command, verdict};
use crate::fixture::{events, reservation, run, stock};
use crate::workload::mixed;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::Record;
use stockhold_sql::{AuditError, PositionRepair, repair_positions};
use stockhold_store::ReadPosition;

fn repair(bench: &Bench, read: &[u64]) -> Result<PositionRepair, AuditError> {
    let consumer = |position: &u64| ("ledger".to_owned(), *position);
    let consumers = |_: &[Record]| -> Vec<ReadPosition> { read.iter().map(consumer).collect() };
    repair_positions(&bench.database.url(), &Shop::options(bench), &consumers)
}

/// Begins a transaction in which no store numbers events.
const WITHOUT_SEQUENCER: &str = "START TRANSACTION; SELECT 1 FROM stockhold_sequencer FOR UPDATE";

/// Gives the batches positions in another order: each group of so many the other way round.
fn reverse_in_groups(bench: &mut Bench, group: usize) {
    let rows = bench.session.rows("SELECT serial, event_count FROM stockhold_events ORDER BY last_position");
    let mut batches: Vec<(u64, u64)> =
        rows.iter().map(|row| (row[0].parse().unwrap(), row[1].parse().unwrap())).collect();
    batches.chunks_mut(group).for_each(<[_]>::reverse);
    bench.session.run(&format!("{WITHOUT_SEQUENCER}; UPDATE stockhold_events SET last_position = NULL"));
    let mut position = 0;
    for (serial, count) in batches {
        position += count;
        let set = format!("UPDATE stockhold_events SET last_position = {position} WHERE serial = {serial}");
        bench.session.run(&set);
    }
    bench.session.run("COMMIT");
}

#[test]
fn positions_in_the_wrong_order_are_found_and_repaired() {
    let mut bench = Bench::new();
    let store = bench.connect();
    let mut maker = Maker::new(95, "wrong-");
    stock(&store, &mut maker, "other", 10);
    let item = stock(&store, &mut maker, "a", 10);
    stock(&store, &mut maker, "between", 10);
    assert!(reservation(&run(&store, maker.wrap(maker::reserve_for(60, &[(&item, 1)])))).is_some());
    stock(&store, &mut maker, "last", 10);
    let right = events(&store);
    assert_eq!(repair(&bench, &[0, 3]), Ok(PositionRepair::default()));
    // The reservation stands before its item.
    bench.session.run(&format!(
        "{WITHOUT_SEQUENCER};
         UPDATE stockhold_events SET last_position = NULL WHERE last_position = 2;
         UPDATE stockhold_events SET last_position = 2 WHERE last_position = 4;
         UPDATE stockhold_events SET last_position = 4 WHERE last_position IS NULL; COMMIT"
    ));
    assert!(verdict(&bench).drift > 0);
    // Who has read a part of them would miss one.
    for read in [2, 3] {
        let refused = repair(&bench, &[5, read]);
        assert!(matches!(&refused, Err(AuditError::Refused(why)) if why.contains("ledger")), "{refused:?}");
        assert!(verdict(&bench).drift > 0);
    }
    assert_eq!(repair(&bench, &[1, 4]), Ok(PositionRepair { ranges: vec![2..=4], batches: 2 }));
    adds_up(&bench);
    assert_eq!(events(&store), right);
    assert_eq!(repair(&bench, &[]), Ok(PositionRepair::default()));
}

/// Batches of several instances do not have their positions in the order of their serials, and this is in order. Only what contradicts
/// itself is changed.
#[test]
fn what_is_in_order_is_left_alone_and_any_disorder_is_repaired() {
    let mut bench = Bench::new();
    let stores = [bench.connect(), bench.connect()];
    mixed(&[&stores[0], &stores[1]], 96, 60);
    every_command(&stores[0], &mut Maker::new(97, "disorder-"), "");
    let known = events(&stores[0]).len();
    assert_eq!(repair(&bench, &[]), Ok(PositionRepair::default()));
    adds_up(&bench);
    for group in [2, 7] {
        reverse_in_groups(&mut bench, group);
        assert!(verdict(&bench).drift > 0, "groups of {group}");
        let repaired = repair(&bench, &[]).unwrap();
        assert!(!repaired.ranges.is_empty(), "{repaired:?}");
        adds_up(&bench);
    }
    let after = events(&stores[1]);
    assert!(after.iter().zip(1..).all(|(row, position)| row.position == position));
    assert_eq!(after.len(), known);
}
