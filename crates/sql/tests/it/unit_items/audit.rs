//! The books of a hall: drift is found, what is old leaves, and another database takes it over.

use super::histories::history;
use super::{hall, units};
use crate::audit::archive::archived;
use crate::audit::{Shop, adds_up, verdict};
use crate::fixture::{item, reservation, run};
use stockhold_conformance::{Maker, START, maker};
use stockhold_domain::{Instant, ReservationId};
use stockhold_store::{EventRow, Store};

fn made(store: &dyn Store, maker: &mut Maker, command: stockhold_domain::Command) -> ReservationId {
    let outcome = run(store, maker.wrap(command));
    reservation(&outcome).unwrap_or_else(|| panic!("{outcome:?}")).id
}

/// A hall in which everything has happened.
fn busy(store: &dyn Store, maker: &mut Maker) -> stockhold_domain::ItemKey {
    let hall = hall(store, maker, 2, 6);
    let sold = made(store, maker, maker::reserve_for(600, &[(&hall, 3)]));
    made(store, maker, maker::confirm(sold));
    made(store, maker, maker::return_units(sold, &["r00-01"]));
    made(store, maker, maker::fulfil_units(sold, &["r00-02"]));
    let gone = made(store, maker, maker::reserve_for(600, &[(&hall, 2)]));
    made(store, maker, maker::release(gone));
    let held = made(store, maker, maker::reserve_named(600, &hall, &["r01-02", "r01-03"]));
    made(store, maker, maker::extend(held, 900));
    run(store, maker.wrap(maker::retire(&hall, "r01-05"))).unwrap();
    hall
}

const DRIFTS: [(&str, &str, &str); 8] = [
    ("UPDATE {t}unit_counters SET held = held + 1", "unit_counters", "its events lead to"),
    ("UPDATE {t}units SET version = version + 1 WHERE id = 'r00-05'", "units", "its events lead to"),
    ("UPDATE {t}units SET status = 0, reservation = NULL WHERE status = 1", "units", "its events lead to"),
    ("DELETE FROM {t}units WHERE id = 'r00-04'", "units", "is not there"),
    ("UPDATE {t}unit_counters SET decided_at = decided_at + 7000000", "unit_counters", "other settings"),
    ("DELETE FROM {t}unit_sales WHERE returned_at IS NULL", "unit_sales", "the ledger of sales"),
    (
        "UPDATE {t}unit_sales SET unit_id = 'x' WHERE returned_at IS NULL AND unit_id = 'r00-00'",
        "unit_sales",
        "the ledger of sales",
    ),
    ("UPDATE {t}unit_sales SET sku = 'x' WHERE returned_at IS NULL", "unit_sales", "of items that are there"),
];

pub(crate) fn every_kind_of_drift_of_units_is_found<S: Shop>(shop: &mut S) {
    let store = shop.store();
    busy(&*store, &mut Maker::new(121, "drift-"));
    drop(store);
    adds_up(shop);
    for (drift, table, says) in DRIFTS {
        shop.sql(&format!("CREATE TABLE copy_of_{table} AS SELECT * FROM {{t}}{table}"));
        shop.sql(drift);
        let verdict = verdict(shop);
        assert!(verdict.findings.iter().any(|what| what.contains(says)), "{drift}: {:?}", verdict.findings);
        shop.sql(&format!(
            "DELETE FROM {{t}}{table}; INSERT INTO {{t}}{table} SELECT * FROM copy_of_{table};
             DROP TABLE copy_of_{table}"
        ));
    }
    adds_up(shop);
}

pub(crate) fn sold_units_outlive_the_archive<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(122, "archive-");
    let hall = busy(&*store, &mut maker);
    shop.set_clock(Instant::from_micros(START.micros() + 100 * 86_400_000_000));
    run(&*store, maker.wrap(stockhold_domain::Command::Sweep)).unwrap();
    let before = (units(&*store, &hall), item(&*store, &hall));
    let left = archived(shop);
    assert_eq!(left.reservations, 2, "the sale and what was given back; what was held has just expired");
    assert_eq!((units(&*store, &hall), item(&*store, &hall)), before, "as it was");
    shop.audit();
    adds_up(shop);
    let refused = run(&*store, maker.wrap(maker::reserve_named(60, &hall, &["r00-00"])));
    assert!(reservation(&refused).is_none(), "it is sold: {refused:?}");
    let next = made(&*store, &mut maker, maker::reserve_named(60, &hall, &["r00-01", "r01-02"]));
    made(&*store, &mut maker, maker::confirm(next));
    let sold = units(&*store, &hall).iter().filter(|unit| unit.status.is_sold()).count();
    assert_eq!(sold, 4);
    shop.audit();
    adds_up(shop);
}

pub(crate) fn a_hall_is_taken_over<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(123, "copy-");
    let hall = busy(&*store, &mut maker);
    run(&*store, maker.wrap(maker::pause(&stockhold_domain::Scope::Item(hall.clone())))).unwrap();
    let histories = |store: &dyn Store| -> Vec<Vec<EventRow>> {
        units(store, &hall).iter().map(|unit| history(store, &hall, unit.id.as_str())).collect()
    };
    let was = (units(&*store, &hall), item(&*store, &hall), histories(&*store));
    assert!(was.2.iter().all(|rows| !rows.is_empty()));
    drop(store);
    let mut other = S::another();
    let (sender, source) = tokio::sync::mpsc::channel(4);
    let (from, options) = (shop.url(), shop.options());
    let sending = std::thread::spawn(move || stockhold_sql::export_to(&from, &options, &sender));
    stockhold_sql::import_from(&other.url(), &other.options(), source, |_| ()).unwrap();
    sending.join().unwrap().unwrap();
    other.audit();
    adds_up(&other);
    let store = other.store();
    assert_eq!((units(&*store, &hall), item(&*store, &hall), histories(&*store)), was);
    run(&*store, maker.wrap(maker::resume(&stockhold_domain::Scope::Item(hall.clone())))).unwrap();
    made(&*store, &mut maker, maker::reserve_for(60, &[(&hall, 2)]));
    other.audit();
    adds_up(&other);
}
