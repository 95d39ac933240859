//! Stock masters: a stand-in that lags, repeats, loses and contradicts. After each fault, the totals agree again.

mod faults;
mod magento;
pub(crate) mod master;
mod orders;

use crate::ctl::json;
use crate::support::{Server, wait_for};
use master::{Master, TOKEN};
use serde_json::Value;
use std::path::Path;
use stockhold_api::client::At;
use stockhold_api::wire::{Patch, Stock, Terms};

/// The variables of a server with a stock master that is compared on request only, unless `more` says otherwise.
pub(crate) fn variables<'a>(url: &'a str, kind: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("STOCKHOLD_STOCK_MASTERS__ERP__KIND", kind),
        ("STOCKHOLD_STOCK_MASTERS__ERP__URL", url),
        ("STOCKHOLD_STOCK_MASTERS__ERP__TOKEN", TOKEN),
        ("STOCKHOLD_STOCK_MASTERS__ERP__PULL_SECONDS", "3600"),
        ("STOCKHOLD_STOCK_MASTERS__ERP__PUSH_MS", "20"),
        ("STOCKHOLD_STOCK_MASTERS__ERP__RECONCILE_SECONDS", "3600"),
        ("STOCKHOLD_STOCK_MASTERS__ERP__ORPHAN_AFTER_SECONDS", "1"),
    ]
}

fn start(dir: &Path, master: &Master, more: &[(&str, &str)]) -> Server {
    let mut all = variables(&master.url, "json");
    all.extend(more);
    let server = Server::with_variables(dir, "data", &all);
    wait_until_served(&server);
    server
}

/// Waits until the stock master has a record, which is written when it is served.
pub(crate) fn wait_until_served(server: &Server) {
    wait_for("the stock master to be served", || shown(server)["instance"].as_str().map(str::to_owned));
}

/// Creates an item whose total the stock master owns.
pub(crate) fn owned(server: &Server, sku: &str, total: u64) {
    let stock =
        Stock { total_units: Some(total), stock_master: Patch::Set("erp".to_owned()), ..Stock::default() };
    server.ask(async |client| client.put_stock(At { sku, location: None }, &stock, None).await).unwrap();
}

/// Sells one unit for an order.
pub(crate) fn sell(server: &Server, sku: &str, order: &str) -> stockhold_domain::ReservationId {
    let terms = Terms { owner_id: format!("cart of {order}"), ..Terms::default() };
    server.ask(async |client| {
        let hold = client.reserve(At { sku, location: None }, 1, &terms, None).await.unwrap();
        client.confirm(hold.reservation_id, Some(order), None).await.unwrap();
        hold.reservation_id
    })
}

/// The stock master as the API shows it.
pub(crate) fn shown(server: &Server) -> Value {
    json(server, &["reconcile", "--last"])["data"][0].clone()
}

/// Compares now.
pub(crate) fn reconcile(server: &Server) -> Value {
    json(server, &["reconcile", "erp"])
}

/// How often a comparison has found something of this kind.
pub(crate) fn count(report: &Value, kind: &str) -> u64 {
    report["counts"][kind].as_u64().unwrap_or(0)
}

/// What can be sold here is what the stock master has, once it knows all sales.
#[track_caller]
pub(crate) fn check_totals(server: &Server, master: &Master, skus: &[&str]) {
    for sku in skus {
        let item = server.item(sku).unwrap();
        let here = i64::try_from(item.total_units - item.confirmed_sold).unwrap();
        assert_eq!(here, master.units(sku), "{sku}: {item:?}");
    }
    assert!(master.books().wrong.is_empty(), "{:?}", master.books().wrong);
}

/// The time now in RFC 3339.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().to_string()
}

#[test]
fn sales_are_pushed_and_figures_are_pulled() {
    let (dir, master) =
        (tempfile::tempdir().unwrap(), Master::start(&[("cap", 5), ("shoe", 8), ("tee", 10)]));
    let server = start(dir.path(), &master, &[]);
    for (sku, total) in [("cap", 5), ("shoe", 9), ("tee", 10)] {
        owned(&server, sku, total);
    }
    for n in 0..3 {
        sell(&server, "tee", &format!("100{n}"));
    }
    master.wait_for_units("tee", 7);
    let first = reconcile(&server);
    assert_eq!(first["figures_compared"], 3, "{first}");
    assert_eq!(
        (count(&first, "total_corrected"), &first["findings"][0]["sku"]),
        (1, &"shoe".into()),
        "{first}"
    );
    check_totals(&server, &master, &["cap", "shoe", "tee"]);
    assert_eq!(server.item("tee").unwrap().total_units, 10, "sold units stay in the total");

    // A delivery there, a sale in a shop there, and a change here that is not allowed.
    master.receive("tee", 20);
    master.receive("cap", -4);
    let stock = Stock { total_units: Some(99), ..Stock::default() };
    let at = At { sku: "tee", location: None };
    let refused = server.ask(async |client| client.put_stock(at, &stock, None).await).unwrap_err();
    assert!(refused.to_string().contains("stock_owned_elsewhere"), "{refused}");
    let dry = json(&server, &["reconcile", "erp", "--dry-run"]);
    assert_eq!((count(&dry, "total_corrected"), dry["dry_run"] == true), (2, true), "{dry}");
    assert_eq!(server.item("tee").unwrap().total_units, 10, "a dry run changes nothing");
    assert_eq!(shown(&server)["report"], first, "the last report is that of a comparison");
    let second = reconcile(&server);
    assert_eq!(count(&second, "total_corrected"), 2, "{second}");
    check_totals(&server, &master, &["cap", "shoe", "tee"]);

    // A change here with an override lasts until the next comparison.
    let forced = Stock { override_owner: true, ..stock };
    server.ask(async |client| client.put_stock(at, &forced, None).await).unwrap();
    assert_eq!(server.item("tee").unwrap().total_units, 99);
    assert_eq!(count(&reconcile(&server), "total_corrected"), 1);
    check_totals(&server, &master, &["tee"]);
    assert_eq!(count(&reconcile(&server), "total_corrected"), 0, "nothing is left to correct");

    let events = crate::ctl::done(&server, &["events", "--type", "stock.reconciled"]);
    assert!(events.contains("stock.reconciled"), "{events}");
    let metrics = server.metrics();
    assert!(
        metrics.contains("stockhold_stock_master_corrections_total{stock_master=\"erp\"} 4"),
        "{metrics}"
    );
    let text = crate::ctl::done(&server, &["reconcile", "--last"]);
    assert!(text.contains("erp (json)") && text.contains("3 figures"), "{text}");
    assert!(!server.log().contains(TOKEN));
    crate::ctl::refused(&server, &["reconcile", "erp", "--forget"], &["/stock_master", "configuration"]);
    drop(server);
    let server = Server::on(dir.path(), "data");
    let known = shown(&server);
    assert_eq!((&known["stock_master"], known.get("instance")), (&"erp".into(), None), "it is still known");
    crate::ctl::done(&server, &["reconcile", "erp", "--forget"]);
    assert!(crate::ctl::done(&server, &["reconcile", "--last"]).contains("There are no stock masters"));
}

#[test]
fn units_that_come_back_are_pushed_unless_they_are_lost() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let server = start(dir.path(), &master, &[]);
    owned(&server, "tee", 10);
    let sold = ["1", "2", "3"].map(|order| sell(&server, "tee", order));
    master.wait_for_units("tee", 7);
    crate::ctl::done(&server, &["return", &sold[0].to_string(), "--reason", "wrong size"]);
    master.wait_for_units("tee", 8);
    crate::ctl::done(&server, &["return", &sold[1].to_string(), "--reason", "broken", "--write-off"]);
    let report = reconcile(&server);
    assert_eq!(count(&report, "total_corrected"), 0, "{report}");
    let item = server.item("tee").unwrap();
    assert_eq!((item.total_units, item.confirmed_sold, master.units("tee")), (9, 1, 8));
}

#[test]
fn figures_by_shipment_count_the_shelf() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let server = start(dir.path(), &master, &[("STOCKHOLD_STOCK_MASTERS__ERP__DECREMENT_AT", "shipment")]);
    owned(&server, "tee", 10);
    let sold = sell(&server, "tee", "1");
    sell(&server, "tee", "2");
    assert_eq!(count(&reconcile(&server), "total_corrected"), 0);
    assert_eq!(master.units("tee"), 10, "a sale is no shipment");
    crate::ctl::done(&server, &["fulfil", &sold.to_string()]);
    master.wait_for_units("tee", 9);
    assert_eq!(count(&reconcile(&server), "total_corrected"), 0);
    master.receive("tee", 5);
    assert_eq!(count(&reconcile(&server), "total_corrected"), 1);
    let item = server.item("tee").unwrap();
    assert_eq!((item.total_units, item.on_hand, item.available), (15, 14, 13));
}

#[test]
fn less_there_than_is_promised_here_stops_the_sale() {
    let (dir, master) = (tempfile::tempdir().unwrap(), Master::start(&[("tee", 10)]));
    let server = start(dir.path(), &master, &[]);
    owned(&server, "tee", 10);
    let terms = Terms { owner_id: "cart".to_owned(), ..Terms::default() };
    let hold = server
        .ask(async |client| client.reserve(At { sku: "tee", location: None }, 4, &terms, None).await)
        .unwrap();
    master.receive("tee", -8);
    let report = reconcile(&server);
    assert_eq!(count(&report, "committed_above_figure"), 1, "{report}");
    let item = server.item("tee").unwrap();
    assert_eq!((item.total_units, item.available), (4, 0));
    let again = reconcile(&server);
    assert_eq!(count(&again, "committed_above_figure"), 1, "it persists: {again}");
    assert!(server.metrics().contains("stockhold_stock_master_corrections_total{stock_master=\"erp\"} 1\n"));
    server.ask(async |client| client.release(hold.reservation_id, None).await).unwrap();
    reconcile(&server);
    check_totals(&server, &master, &["tee"]);
    assert_eq!(server.item("tee").unwrap().available, 2);
}

#[test]
fn settings_that_can_t_be_are_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let output = crate::support::stockhold(dir.path())
        .args(["serve"])
        .env("STOCKHOLD_STOCK_MASTERS__ERP__KIND", "sap")
        .env("STOCKHOLD_STOCK_MASTERS__ERP__TOKEN", TOKEN)
        .output()
        .unwrap();
    let said = crate::support::said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("stock_masters.erp.kind: \"sap\" is no kind") && !said.contains(TOKEN), "{said}");
    let server = Server::start();
    for nobody in ["nobody", &"n".repeat(128)] {
        crate::ctl::done(&server, &["reconcile", nobody, "--forget"]);
        crate::ctl::refused(&server, &["reconcile", nobody], &["/stock_master"]);
    }
    crate::ctl::refused(&server, &["reconcile", "erp"], &["/stock_master", "[stock_masters.NAME]"]);
    assert!(crate::ctl::done(&server, &["reconcile", "--last"]).contains("There are no stock masters"));
}
