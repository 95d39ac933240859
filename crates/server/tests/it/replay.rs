//! `stockhold replay` on a sample with every oddity that real files of orders have.

use crate::support::{Server, data, said, stockhold, text};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use stockhold_api::client::At;

/// Both days of the sample, with 50 units of everything.
pub(crate) fn sample(server: &Server) -> Command {
    let mut command = stockhold(server.dir());
    command.arg("replay").arg(data("orders-1.csv")).arg(data("orders-2.csv"));
    command.args(["--stock", "50", "--json", "--url", &server.url()]);
    command
}

/// What the sample comes to: (SKU, units sold and not returned, units that exist).
const BOOKS: [(&str, u64, u64); 6] = [
    // 12, 5 and 9 sold; 5, 3 and 9 back; one more came back from nobody.
    ("LAMP-1", 9, 51),
    // 6 and 4 sold, 4 back, 2 more than were sold; 7 written off.
    ("MUG-2", 6, 45),
    ("mug-2", 3, 50),
    // 60 were refused, and cancelled all the same.
    ("BOX-3", 5, 110),
    // A write-off of 80 of 50.
    ("GONE-4", 0, 50),
    ("CUP-5", 0, 52),
];

/// The server's own figures are the sample's.
pub(crate) fn check_books(server: &Server) {
    for (sku, sold, total) in BOOKS {
        let item = server.item(sku).unwrap();
        assert_eq!((item.confirmed_sold, item.held_units, item.total_units), (sold, 0, total), "{sku}");
    }
}

pub(crate) fn report(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_sample_is_booked_to_the_unit() {
    let server = Server::start();
    let report = report(&sample(&server).output().unwrap());
    check_books(&server);

    let baskets = &report["baskets"];
    assert_eq!(
        (&baskets["orders"], &baskets["held"], &baskets["confirmed"]),
        (&json!(6), &json!(5), &json!(5))
    );
    assert_eq!((&baskets["units_asked"], &baskets["units_confirmed"]), (&json!(104), &json!(44)));
    assert_eq!(baskets["refused"]["insufficient_inventory"]["count"], 1);
    let back = &report["cancellations"];
    assert_eq!((&back["orders"], &back["lines"]), (&json!(5), &json!(6)));
    assert_eq!((&back["returns"], &back["units_returned"]), (&json!(4), &json!(21)));
    assert_eq!((&back["adjustments"], &back["units_adjusted"]), (&json!(4), &json!(65)));
    let off = &report["write_offs"];
    assert_eq!((&off["lines"], &off["adjustments"], &off["units"]), (&json!(2), &json!(1), &json!(7)));
    assert_eq!(off["refused"]["below_committed"]["count"], 1);
    assert_eq!(report["replayed_answers"], 0);
    assert_eq!(report["stock"], json!({ "created": 6, "found": 0 }));
    assert_eq!(
        report["top"][0],
        json!({ "sku": "LAMP-1", "sold": 26, "returned": 17, "stock": 50, "demand": 26 })
    );
    let steps: Vec<_> = report["latency"].as_array().unwrap().iter().map(|step| &step["count"]).collect();
    assert_eq!(steps, [6, 5, 4, 6]);
    let audit = &report["audit"];
    assert_eq!(
        (&audit["balanced"], &audit["skus"], &audit["confirmed_sold"]),
        (&json!(true), &json!(6), &json!(23))
    );
}

#[test]
fn junk_is_counted_and_shown_with_its_place() {
    let server = Server::start();
    let report = report(&sample(&server).output().unwrap());
    let mut kinds: Vec<_> = report["junk"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(kind, found)| (kind.as_str(), found["lines"].as_u64().unwrap()))
        .collect();
    kinds.sort_unstable();
    let expected = [
        ("columns", 1),
        ("no_order", 1),
        ("no_sku", 1),
        ("not_goods", 3),
        ("not_text", 1),
        ("positive_cancellation", 1),
        ("quantity", 2),
        ("time", 1),
        ("zero", 1),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(
        (&report["lines"], &report["lines_used"], &report["lines_junk"]),
        (&json!(29), &json!(17), &json!(12))
    );
    // Lines of the file, not of the table: one description has a line break inside.
    let place = |kind: &str| report["junk"][kind]["examples"][0].as_str().unwrap().to_owned();
    assert!(place("quantity").ends_with("orders-1.csv:15: two"), "{}", place("quantity"));
    assert!(place("time").ends_with("orders-1.csv:19: yesterday"), "{}", place("time"));
    assert!(
        place("columns").ends_with("orders-1.csv:20: 4 fields, the header has 8"),
        "{}",
        place("columns")
    );
}

#[test]
fn text_says_the_same() {
    let server = Server::start();
    let mut command = stockhold(server.dir());
    command.arg("replay").arg(data("orders-1.csv")).args(["--stock", "50", "--url", &server.url()]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let shown = text(&output.stdout);
    for words in [
        "5 orders: 4 held, 4 confirmed; 35 of 95 units sold",
        "1 refused: insufficient_inventory (first: 5005: ",
        "a time that can't be read",
        "orders-1.csv:19: yesterday",
        "Audit      balanced: 5 SKUs agree to the unit; sold 35, held 0",
    ] {
        assert!(shown.contains(words), "{words:?} is missing in\n{shown}");
    }
}

#[test]
fn partial_baskets_and_a_share_of_the_demand() {
    let server = Server::start();
    let mut command = stockhold(server.dir());
    command.arg("replay").arg(data("orders-1.csv")).args(["--stock-percent", "50", "--connections", "1"]);
    command.args(["--fulfilment", "partial", "--json", "--url", &server.url()]);
    let report = report(&command.output().unwrap());
    // Half of 17 lamps, of 65 boxes, of 10 mugs and of 3; the write-off of mugs finds none that are free.
    for (sku, sold, total) in [("LAMP-1", 9, 9), ("BOX-3", 33, 33), ("MUG-2", 5, 5), ("mug-2", 2, 2)] {
        let item = server.item(sku).unwrap();
        assert_eq!((item.confirmed_sold, item.total_units), (sold, total), "{sku}");
    }
    assert_eq!(report["write_offs"]["refused"]["below_committed"]["count"], 2);
    assert_eq!(report["audit"]["balanced"], true);
}

#[test]
fn a_difference_is_found_and_named() {
    let server = Server::start();
    report(&sample(&server).output().unwrap());
    let at = At { sku: "CUP-5", location: None };
    server.ask(async |client| client.adjust(at, 1, "behind the replay's back", None).await).unwrap();
    let output = sample(&server).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let differences = json!([{ "sku": "CUP-5", "figure": "total_units", "told": 52, "server": 53 }]);
    assert_eq!(report["audit"]["differences"], differences);
}

/// Runs a replay that has to be refused before anything is sent.
fn refused(dir: &Path, arguments: &[&str]) -> String {
    let output = stockhold(dir).arg("replay").args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(output.stdout.is_empty());
    text(&output.stderr)
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    write("semicolons.csv", b"order;sku;qty\n1;a;2\n");
    write("empty.csv", b"");
    write("picture.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    write(
        "hopeless.csv",
        b"InvoiceNo,StockCode,Quantity,InvoiceDate,CustomerID\n1,a,none,2020-01-01 00:00:00,\n",
    );
    let orders = data("orders-1.csv");
    let orders = orders.to_str().unwrap();

    let wrong = refused(dir.path(), &[orders, "--sku-column", "sku"]);
    assert!(wrong.contains("no column \"sku\"") && wrong.contains("--sku-column"), "{wrong}");
    assert!(wrong.contains("InvoiceNo, StockCode, Description"), "{wrong}");
    let wrong = refused(dir.path(), &["semicolons.csv"]);
    assert!(wrong.contains("separated by commas"), "{wrong}");
    let wrong = refused(dir.path(), &["nowhere.csv"]);
    assert!(wrong.contains("nowhere.csv") && wrong.contains("No such file"), "{wrong}");
    let wrong = refused(dir.path(), &["empty.csv"]);
    assert!(wrong.contains("is empty"), "{wrong}");
    let wrong = refused(dir.path(), &["picture.csv"]);
    assert!(wrong.contains("not a CSV file"), "{wrong}");
    let wrong = refused(dir.path(), &["hopeless.csv"]);
    assert!(wrong.contains("none of the 1 lines") && wrong.contains("hopeless.csv:2: none"), "{wrong}");
    let wrong = refused(dir.path(), &[orders, orders]);
    assert!(wrong.contains("give it once"), "{wrong}");
    let wrong = refused(dir.path(), &[orders, "--speed", "fast"]);
    assert!(wrong.contains("flat-out"), "{wrong}");
}

#[test]
fn a_server_that_is_not_there_is_named_with_what_to_do() {
    let mut server = Server::start();
    server.kill();
    let output = sample(&server).args(["--patience", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    let wrong = text(&output.stderr);
    assert!(wrong.contains(&server.url()) && wrong.contains("stockhold serve"), "{wrong}");
}

#[test]
fn another_replay_with_the_same_keys_is_refused() {
    let server = Server::start();
    report(&sample(&server).args(["--key-prefix", "same"]).output().unwrap());
    let output = sample(&server).args(["--key-prefix", "same", "--ttl", "60"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(text(&output.stderr).contains("--key-prefix"), "{}", said(&output));
    check_books(&server);
}
