//! What happened to a unit, as far as a database has it.

use super::hall;
use crate::audit::Shop;
use crate::audit::archive::older_than;
use crate::fixture::{Desk, run};
use std::time::Duration;
use stockhold_conformance::{Maker, MemoryArchive, START, maker};
use stockhold_domain::{
    HoldChange, Instant, ItemKey, Outcome, Reply, ReservationId, StockChange, Transition,
};
use stockhold_store::{EventRow, Query, QueryResult, Store, UNIT_HISTORY_LIMIT};

pub(super) fn history(store: &dyn Store, item: &ItemKey, unit: &str) -> Vec<EventRow> {
    let query = Query::UnitHistory { item: item.clone(), unit: maker::label(unit) };
    match Desk::new().find(store, query) {
        Ok(QueryResult::UnitHistory(Some(rows))) => rows,
        other => panic!("{other:?}"),
    }
}

fn kinds(rows: &[EventRow]) -> Vec<&'static str> {
    let kind = |row: &EventRow| match &row.event.transition {
        Transition::Hold { change: HoldChange::Created, .. } => "held",
        Transition::Hold { change: HoldChange::Cancelled, .. } => "released",
        Transition::Hold { change: HoldChange::Expired, .. } => "expired",
        Transition::Stock { change: StockChange::UnitsAdded(_), .. } => "added",
        _ => "something else",
    };
    rows.iter().map(kind).collect()
}

fn held(store: &dyn Store, maker: &mut Maker, item: &ItemKey, unit: &str) -> ReservationId {
    match run(store, maker.wrap(maker::reserve_named(60, item, &[unit]))) {
        Ok(Outcome::Done(Reply::Reservation(hold))) => hold.id,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn a_history_takes_no_more_room_than_it_shows<S: Shop>(shop: &mut S) {
    let (store, mut maker) = (shop.store(), Maker::new(132, "long-"));
    let hall = hall(&*store, &mut maker, 1, 2);
    let longer = "octet_length(history) > 512 OR octet_length(history) % 8 <> 0";
    for _ in 0..UNIT_HISTORY_LIMIT {
        let hold = held(&*store, &mut maker, &hall, "r00-00");
        run(&*store, maker.wrap(maker::release(hold))).unwrap();
    }
    let shown = history(&*store, &hall, "r00-00");
    assert_eq!((shown.len(), kinds(&shown)[0]), (UNIT_HISTORY_LIMIT, "held"));
    // One history is as long as it may be, and none is longer: the table refuses any other count.
    shop.sql(&format!(
        "CREATE TABLE {{t}}found (n BIGINT CHECK (n = 1));
         INSERT INTO {{t}}found SELECT COUNT(*) FROM {{t}}units WHERE octet_length(history) = 512;
         INSERT INTO {{t}}found SELECT 1 + COUNT(*) FROM {{t}}units WHERE {longer};
         DROP TABLE {{t}}found"
    ));
}

pub(crate) fn events_that_were_archived_are_left_out<S: Shop>(shop: &mut S) {
    let (store, mut maker) = (shop.store(), Maker::new(133, "left-"));
    let hall = hall(&*store, &mut maker, 1, 2);
    let first = held(&*store, &mut maker, &hall, "r00-00");
    run(&*store, maker.wrap(maker::release(first))).unwrap();
    let at = |days: i64| Instant::from_micros(START.micros() + days * 86_400_000_000);
    shop.set_clock(at(50));
    held(&*store, &mut maker, &hall, "r00-00");
    shop.set_clock(at(100));
    run(&*store, maker.wrap(stockhold_domain::Command::Sweep)).unwrap();
    assert_eq!(kinds(&history(&*store, &hall, "r00-00")), ["added", "held", "released", "held", "expired"]);
    let request = older_than(Duration::from_hours(70 * 24));
    let mut files = MemoryArchive::default();
    stockhold_sql::archive(&shop.url(), &shop.options(), &request, &mut files, |_| ()).unwrap();
    assert_eq!(kinds(&history(&*store, &hall, "r00-00")), ["held", "expired"]);
    assert_eq!(kinds(&history(&*store, &hall, "r00-01")), [""; 0]);
    held(&*store, &mut maker, &hall, "r00-01");
    assert_eq!(kinds(&history(&*store, &hall, "r00-01")), ["held"]);
}
