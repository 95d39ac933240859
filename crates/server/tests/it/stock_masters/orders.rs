//! Orders of a stock master, compared with sales and reservations.

use super::master::{Fault, Master};
use super::{count, now, owned, reconcile, sell, shown, start};
use crate::ctl::json;
use crate::support::wait_for;
use std::thread::sleep;
use std::time::Duration;
use stockhold_api::EventType;
use stockhold_api::client::At;
use stockhold_api::wire::Terms;

/// Longer than `orphan_after_seconds` of these tests.
const OLD_ENOUGH: Duration = Duration::from_millis(1_200);

fn hold(server: &crate::support::Server, owner: &str) -> String {
    let terms = Terms { owner_id: owner.to_owned(), ..Terms::default() };
    let at = At { sku: "tee", location: None };
    server.ask(async |client| client.reserve(at, 1, &terms, None).await).unwrap().reservation_id.to_string()
}

#[test]
fn orders_sales_and_orphans_are_reported_once() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let server = start(dir.path(), &master, &[]);
    owned(&server, "tee", 10);
    sell(&server, "tee", "known");
    master.wait_for_units("tee", 9);
    master.books().orders.insert("theirs".to_owned(), now());
    let orphan = hold(&server, "cart");
    let ordered = hold(&server, "theirs");
    sleep(OLD_ENOUGH);
    let dry = json(&server, &["reconcile", "erp", "--dry-run"]);
    let report = reconcile(&server);
    for report in [&dry, &report] {
        assert_eq!((count(report, "order_without_reservation"), count(report, "orphan")), (1, 1), "{report}");
        assert_eq!((&report["sales_compared"], count(report, "sale_missing")), (&1.into(), 0), "{report}");
        let found = report["findings"].to_string();
        assert!(found.contains(&orphan) && !found.contains(&ordered), "{found}");
    }
    let again = reconcile(&server);
    assert_eq!(
        (count(&again, "order_without_reservation"), &again["sales_compared"]),
        (0, &0.into()),
        "{again}"
    );
    assert_eq!(count(&again, "orphan"), 1, "an orphan is reported until it ends");
}

#[test]
fn orphans_are_released_if_it_is_allowed_and_sales_never() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let server = start(dir.path(), &master, &[("STOCKHOLD_STOCK_MASTERS__ERP__RELEASE_ORPHANS", "true")]);
    owned(&server, "tee", 10);
    master.set_fault(Fault::ForgetsBatches);
    sell(&server, "tee", "lost");
    let orphan = hold(&server, "cart");
    sleep(OLD_ENOUGH);
    let dry = json(&server, &["reconcile", "erp", "--dry-run"]);
    assert_eq!((count(&dry, "orphan"), count(&dry, "orphan_released")), (1, 0), "{dry}");
    assert_eq!(server.item("tee").unwrap().held_units, 1);
    let report = reconcile(&server);
    assert_eq!((count(&report, "orphan_released"), count(&report, "sale_missing")), (1, 1), "{report}");
    let item = server.item("tee").unwrap();
    assert_eq!((item.held_units, item.confirmed_sold), (0, 1));
    let shown = json(&server, &["get", &orphan]);
    assert_eq!(
        (&shown["status"], &shown["close_reason"]),
        (&"cancelled".into(), &"orphan".into()),
        "{shown}"
    );
}

#[test]
fn a_sale_that_was_reported_is_not_reported_again_after_a_kill() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let mut server = start(dir.path(), &master, &[("STOCKHOLD_STOCK_MASTERS__ERP__RECONCILE_SECONDS", "1")]);
    owned(&server, "tee", 10);
    master.set_fault(Fault::ForgetsBatches);
    sell(&server, "tee", "lost");
    let reported = |server: &crate::support::Server| {
        let types = [EventType::StockReconciled];
        let page = server.ask(async |client| client.events(0, Some(1_000), &types).await).unwrap();
        page.data.iter().filter(|event| event.counts.contains_key("sale_missing")).count()
    };
    wait_for("the report", || (reported(&server) == 1).then_some(()));
    let next_report = |server: &crate::support::Server| {
        let at = shown(server)["report"]["at"].clone();
        wait_for("the next report", || (shown(server)["report"]["at"] != at).then_some(()));
    };
    next_report(&server);
    server.kill();
    server.restart();
    server.wait_until_ready();
    next_report(&server);
    next_report(&server);
    assert_eq!(reported(&server), 1);
}

#[test]
fn a_stock_master_without_orders_is_compared_by_figures_alone() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let server = start(dir.path(), &master, &[("STOCKHOLD_STOCK_MASTERS__ERP__RELEASE_ORPHANS", "true")]);
    owned(&server, "tee", 10);
    master.set_fault(Fault::HasNoOrders);
    hold(&server, "cart");
    sleep(OLD_ENOUGH);
    master.receive("tee", 2);
    let report = reconcile(&server);
    assert!(report["incomplete"].as_str().unwrap().contains("offers no orders"), "{report}");
    assert_eq!((count(&report, "total_corrected"), count(&report, "orphan_released")), (1, 0), "{report}");
    assert_eq!(server.item("tee").unwrap().held_units, 1, "nobody says that the cart has no order");
}
