//! Replays that are cut: the server is killed, the replay is killed, and the books are as if nothing had been.

use crate::replay::{check_books, report, sample};
use crate::support::{Running, Server, stockhold, wait_for};
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::Command;

/// 90 minutes of orders in three seconds.
const PACE: [&str; 2] = ["--speed", "1800"];
const SKUS: u64 = 10;

fn sold(server: &Server, sku: &str) -> u64 {
    server.item(sku).map_or(0, |item| item.confirmed_sold)
}

#[test]
fn a_killed_server_is_waited_for() {
    let mut server = Server::start();
    let mut running = Running::start(sample(&server).args(PACE));
    wait_for("the first sale", || (sold(&server, "LAMP-1") > 0).then_some(()));
    server.kill();
    running.wait_for_line("retrying");
    server.restart();
    running.wait_for_line("answers again");
    let (code, out) = running.finish();
    assert_eq!(code, Some(0), "{out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert!(report["repeated_requests"].as_u64().unwrap() > 0, "{out}");
    assert_eq!(report["baskets"]["confirmed"], 5, "{out}");
    check_books(&server);
}

#[test]
fn a_killed_replay_is_resumed_by_the_same_command() {
    let server = Server::start();
    let running = Running::start(sample(&server).args(PACE));
    wait_for("the first sale", || (sold(&server, "LAMP-1") > 0).then_some(()));
    running.kill();
    let report = report(&sample(&server).output().unwrap());
    assert_eq!(report["baskets"]["confirmed"], 5);
    assert_eq!(report["stock"]["created"], 0);
    assert!(report["replayed_answers"].as_u64().unwrap() > 0);
    check_books(&server);
}

/// The second run finds 110 boxes where the first had 50: the order of 60 that was refused would fit now. But its
/// cancellation is booked, so it stays refused.
#[test]
fn a_finished_replay_changes_nothing_when_repeated() {
    let server = Server::start();
    let first = report(&sample(&server).output().unwrap());
    let second = report(&sample(&server).output().unwrap());
    check_books(&server);
    // 5 holds, 5 confirmations, 4 returns, 5 adjustments.
    assert_eq!(second["replayed_answers"], 19);
    assert_eq!(second["baskets"]["refused"]["refused_in_an_earlier_run"]["count"], 1);
    for figures in ["cancellations", "write_offs", "top"] {
        assert_eq!(first[figures], second[figures], "{figures}");
    }
    for figure in ["orders", "held", "confirmed", "units_asked", "units_confirmed"] {
        assert_eq!(first["baskets"][figure], second["baskets"][figure], "{figure}");
    }
}

/// More orders than there is stock for, many at once, with customers who cancel.
fn crowd(orders: u64) -> String {
    let mut csv = "InvoiceNo,StockCode,Quantity,InvoiceDate,CustomerID\n".to_owned();
    for order in 0..orders {
        let (hour, minute, second) = (order / 3_600, order / 60 % 60, order % 60);
        let customer = order % 97;
        let cancels = order % 7 == 6;
        let (mark, sign) = if cancels { ("C", "-") } else { ("", "") };
        for line in 0..=order % 3 {
            let (sku, units) = ((order + line) % SKUS, 1 + order % 4);
            let time = format!("2020-03-02 {hour:02}:{minute:02}:{second:02}");
            writeln!(csv, "{mark}{order},s{sku},{sign}{units},{time},{customer}.0").unwrap();
        }
    }
    csv
}

/// A replay of `crowd.csv`.
fn crowd_replay(server: &Server, arguments: &[&str]) -> Command {
    let mut command = stockhold(server.dir());
    command.args(["replay", "crowd.csv", "--json", "--url", &server.url()]).args(arguments);
    command
}

/// Kills the server and then the replay, and repeats the replay. Returns the report of the repeated one.
fn kill_both(orders: u64, speed: &str, arguments: &[&str]) -> Value {
    let mut server = Server::start();
    std::fs::write(server.dir().join("crowd.csv"), crowd(orders)).unwrap();
    let mut running = Running::start(crowd_replay(&server, arguments).args(["--speed", speed]));
    wait_for("the first sales", || (sold(&server, "s0") > 20).then_some(()));
    server.kill();
    running.wait_for_line("retrying");
    server.restart();
    let seen = sold(&server, "s0");
    wait_for("more sales", || (sold(&server, "s0") != seen).then_some(()));
    running.kill();
    let report = report(&crowd_replay(&server, arguments).output().unwrap());
    assert!(report["replayed_answers"].as_u64().unwrap() > 0);
    for sku in 0..SKUS {
        let item = server.item(&format!("s{sku}")).unwrap();
        assert!(item.confirmed_sold <= item.total_units && item.held_units == 0, "{item:?}");
    }
    report
}

#[test]
fn a_crowd_survives_kills_of_both() {
    let report = kill_both(2_000, "500", &["--stock-percent", "60"]);
    assert!(report["baskets"]["refused"]["insufficient_inventory"]["count"].as_u64().unwrap() > 0);
}

#[test]
fn carts_survive_kills_of_both() {
    let report = kill_both(600, "100", &["--stock-percent", "60", "--carts"]);
    let carts = &report["carts"];
    assert!(carts["lines_refused"]["insufficient_inventory"]["count"].as_u64().unwrap() > 0, "{report}");
    check_kinds(carts);
}

/// Every kind of change of a cart has been made.
fn check_kinds(carts: &Value) {
    for kind in [
        "amended",
        "transferred",
        "split",
        "merged",
        "payments_opened",
        "payments_declined",
        "payments_confirmed",
        "fulfilments",
        "units_fulfilled",
        "units_returned_fulfilled",
        "units_written_off",
    ] {
        assert!(carts[kind].as_u64().unwrap() > 0, "{kind} in {carts}");
    }
    assert_eq!(carts["refused"], json!({}));
}

#[test]
fn finished_carts_change_nothing_when_repeated() {
    let server = Server::start();
    std::fs::write(server.dir().join("crowd.csv"), crowd(400)).unwrap();
    let arguments = ["--stock-percent", "150", "--carts"];
    let [first, second] = [(); 2].map(|()| report(&crowd_replay(&server, &arguments).output().unwrap()));
    check_kinds(&first["carts"]);
    assert_eq!(first["replayed_answers"], 0);
    for figures in ["baskets", "cancellations", "write_offs", "carts", "top"] {
        assert_eq!(first[figures], second[figures], "{figures}");
    }
    let shelf = &first["audit"]["shelf"];
    assert!(shelf["unfulfilled_units"].as_u64().unwrap() > 0, "{shelf}");
    assert_eq!(shelf, &second["audit"]["shelf"]);
}

/// The return makes room for the order that was refused before it. Sold in the second run, it would be the latest
/// purchase, and the return would be taken from it.
#[test]
fn a_refused_order_stays_refused_after_a_return() {
    for mode in [None, Some("--carts")] {
        let server = Server::start();
        let orders = "InvoiceNo,StockCode,Quantity,InvoiceDate,CustomerID\n\
            1,s0,5,2020-03-02 08:00:00,ann\n2,s0,5,2020-03-02 08:01:00,ann\nC3,s0,-5,2020-03-02 08:02:00,ann\n";
        std::fs::write(server.dir().join("crowd.csv"), orders).unwrap();
        let arguments: Vec<&str> = ["--stock", "8"].into_iter().chain(mode).collect();
        let [first, second] = [(); 2].map(|()| report(&crowd_replay(&server, &arguments).output().unwrap()));
        assert_eq!(first["baskets"]["refused"]["insufficient_inventory"]["count"], 1);
        assert_eq!(second["baskets"]["refused"]["refused_in_an_earlier_run"]["count"], 1);
        assert_eq!(first["cancellations"], second["cancellations"]);
        assert_eq!(sold(&server, "s0"), 0);
    }
}
