//! Units with ids over stops, starts and damage.

use stockhold_conformance::bench::Bench;
use stockhold_conformance::maker::{
    add_units, confirm, create_unit_item, label, reserve_named, retire, return_units, row,
};
use stockhold_conformance::{Maker, World};
use stockhold_domain::{ItemKey, Outcome, Reply, ReservationId, Unit, UnitStatus};
use stockhold_embedded::{OpenError, files, verify};
use stockhold_store::{Failure, Query, QueryResult, UnitFilter};

/// Seats of the hall.
const SEATS: usize = 500;

fn units(bench: &mut Bench, item: &ItemKey) -> Vec<Unit> {
    let filter = UnitFilter { item: item.clone(), status: None, section: None, after: None, limit: SEATS };
    match bench.find(Query::Units(filter)) {
        Ok(QueryResult::Units(Some(page))) => page.units,
        other => panic!("{other:?}"),
    }
}

fn held(bench: &mut Bench, maker: &mut Maker, item: &ItemKey, ids: &[&str]) -> ReservationId {
    match bench.run(maker.wrap(reserve_named(600, item, ids))).unwrap() {
        Outcome::Done(Reply::Reservation(hold)) => hold.id,
        other => panic!("{other:?}"),
    }
}

/// A hall where something of everything happened.
fn hall(bench: &mut Bench, maker: &mut Maker) -> ItemKey {
    let item = maker.item("hall");
    bench.run(maker.wrap(create_unit_item(&item))).unwrap();
    let ids: Vec<String> = (0..SEATS).map(|n| format!("{n:03}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    bench.run(maker.wrap(add_units(&item, row("stalls", "A", &ids)))).unwrap();
    held(bench, maker, &item, &["007", "008"]);
    let sold = held(bench, maker, &item, &["100", "101", "102"]);
    bench.run(maker.wrap(confirm(sold))).unwrap();
    bench.run(maker.wrap(return_units(sold, &["101"]))).unwrap();
    bench.run(maker.wrap(retire(&item, "499"))).unwrap();
    item
}

#[test]
fn a_start_from_the_index_alone_finds_every_unit_where_it_stood() {
    let (mut bench, mut maker) = (Bench::new(), Maker::new(1, ""));
    let item = hall(&mut bench, &mut maker);
    let before = units(&mut bench, &item);
    assert_eq!(before.len(), SEATS - 1);
    let count = |standing: fn(UnitStatus) -> bool| before.iter().filter(|unit| standing(unit.status)).count();
    assert_eq!(count(|status| matches!(status, UnitStatus::Held(_))), 2);
    assert_eq!(count(|status| matches!(status, UnitStatus::Sold(_))), 2);
    for stopped in [true, true, false] {
        if stopped {
            bench.stop();
        } else {
            bench.crash();
        }
        bench.start().unwrap();
        assert_eq!(units(&mut bench, &item), before, "stopped: {stopped}");
    }
    // What moved after the index was written comes from the log, on top of it.
    held(&mut bench, &mut maker, &item, &["101", "009"]);
    bench.run(maker.wrap(retire(&item, "010"))).unwrap();
    let after = units(&mut bench, &item);
    bench.crash();
    bench.start().unwrap();
    assert_eq!(units(&mut bench, &item), after);
    bench.stop();
    let verdict = verify(&bench.dir(), |_, _| ()).unwrap();
    assert_eq!(verdict.findings, Vec::<String>::new());
}

#[test]
fn a_unit_that_changed_or_is_gone_in_the_index_is_damage() {
    for change in [
        "DELETE FROM units WHERE unit = '100'",
        "UPDATE units SET data = zeroblob(length(data)) WHERE unit = '100'",
        "UPDATE units SET unit = 'other' WHERE unit = '100'",
    ] {
        let (mut bench, mut maker) = (Bench::new(), Maker::new(1, ""));
        hall(&mut bench, &mut maker);
        bench.stop();
        let db = rusqlite::Connection::open(bench.dir().join(files::INDEX)).unwrap();
        assert_eq!(db.execute(change, []).unwrap(), 1);
        drop(db);
        let error = bench.start().unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{change}: {error}");
    }
}

fn history(bench: &mut Bench, item: &ItemKey, unit: &str) -> usize {
    match bench.find(Query::UnitHistory { item: item.clone(), unit: label(unit) }) {
        Ok(QueryResult::UnitHistory(rows)) => rows.unwrap_or_default().len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_index_that_is_rebuilt_has_the_histories_of_units() {
    let (mut bench, mut maker) = (Bench::new(), Maker::new(1, ""));
    let item = hall(&mut bench, &mut maker);
    bench.stop();
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(bench.dir().join(format!("{}{end}", files::INDEX)));
    }
    bench.start().unwrap();
    let moves = ["000", "007", "100", "101", "499"].map(|unit| history(&mut bench, &item, unit));
    assert_eq!(moves, [1, 2, 3, 4, 0]);
    bench.stop();
    assert_eq!(verify(&bench.dir(), |_, _| ()).unwrap().findings, Vec::<String>::new());
}

#[test]
fn an_event_of_a_unit_that_is_not_found_is_damage() {
    let (mut bench, mut maker) = (Bench::new(), Maker::new(1, ""));
    let item = hall(&mut bench, &mut maker);
    bench.stop();
    let db = rusqlite::Connection::open(bench.dir().join(files::INDEX)).unwrap();
    db.execute_batch("DELETE FROM posting_runs; DELETE FROM posting_pages").unwrap();
    drop(db);
    bench.start().unwrap();
    // What is found begins in the middle.
    held(&mut bench, &mut maker, &item, &["101"]);
    let found = bench.find(Query::UnitHistory { item: item.clone(), unit: label("101") });
    assert!(matches!(&found, Err(Failure::Internal(why)) if why.contains("damaged")), "{found:?}");
}
