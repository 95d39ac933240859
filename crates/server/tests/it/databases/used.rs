//! Everything that the command line does with a server, over a database.

use super::{Database, PASSWORD};
use crate::replay;
use crate::support::{Server, said, stockhold, text, wait_for};
use serde_json::Value;
use stockhold_api::client::At;
use stockhold_api::wire::{Stock, Terms};

fn command(server: &Server, arguments: &[&str]) -> std::process::Output {
    let output = stockhold(server.dir()).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
    output
}

/// What a recount of the store says.
pub(super) fn verify(server: &Server, url: &str) -> Value {
    let output =
        stockhold(server.dir()).args(["verify", "--json"]).env("STOCKHOLD_STORE", url).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(super) fn a_sale_over_a_database_from_the_first_item_to_the_recount<D: Database>(database: &mut D) {
    let mut server = Server::over(&database.url());
    let at = At { sku: "shirt", location: None };
    let terms = Terms { owner_id: "cart-1".to_owned(), ..Terms::default() };
    let stock = Stock { total_units: Some(10), ..Stock::default() };
    let id = server.ask(async |client| {
        client.put_stock(at, &stock, None).await.unwrap();
        let hold = client.reserve(at, 2, &terms, Some("k")).await.unwrap();
        let again = client.reserve(at, 2, &terms, Some("k")).await.unwrap();
        assert_eq!(hold.reservation_id, again.reservation_id);
        client.confirm(hold.reservation_id, None, None).await.unwrap();
        assert_eq!(client.available(at).await.unwrap().available, 8);
        hold.reservation_id
    });
    replay::report(&replay::sample(&server).output().unwrap());
    replay::check_books(&server);

    let url = server.url();
    command(&server, &["export", "events", "--server", &url, "--out", "events.jsonl"]);
    let events = std::fs::read_to_string(server.dir().join("events.jsonl")).unwrap();
    let position = |line: &str| serde_json::from_str::<Value>(line).unwrap()["position"].as_u64().unwrap();
    let positions: Vec<u64> = events.lines().map(position).collect();
    assert!(positions.iter().copied().eq(1..=positions.len() as u64), "dense, from 1");
    command(&server, &["export", "reservations", "--server", &url, "--out", "sold.csv"]);
    let admin = server.admin_url();
    let bench = ["bench", "--duration", "1", "--warm-up", "0", "--connections", "8", "--json"];
    let measured = command(&server, &[&bench[..], &["--server", &url, "--admin", &admin]].concat());
    let measured: Value = serde_json::from_slice(&measured.stdout).unwrap();
    assert_eq!((&measured["store"], &measured["books"]["agree"]), (&D::KIND.into(), &true.into()));

    let verdict = verify(&server, &database.url());
    assert_eq!((&verdict["adds_up"], &verdict["drift"]), (&true.into(), &0.into()));
    assert!(verdict["events"].as_u64() > Some(positions.len() as u64), "{verdict}");
    // Another instance, which has never seen any of it.
    server.kill();
    server.restart();
    server.ask(async |client| {
        let shown = client.reservation(id).await.unwrap();
        assert_eq!(shown.status, stockhold_api::wire::Status::Confirmed);
    });
    // The same names as of the embedded store; what is counted is counted at the start.
    let metrics = wait_for("active reservations, and a look for what is overdue", || {
        let metrics = server.metrics();
        let all = ["\nstockhold_active_holds ", "\nstockhold_sweeper_lag_seconds "];
        all.iter().all(|name| metrics.contains(name)).then_some(metrics)
    });
    let active = format!("stockhold_active_holds {}", verdict["reservations"]["active"]);
    for line in [active.as_str(), "stockhold_queue_depth 0", "stockhold_sweeper_lag_seconds 0"] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not there:\n{metrics}");
    }
    let config = command_over(&server, &database.url(), &["config"]);
    assert!(config.contains("***") && !config.contains(PASSWORD), "{config}");
    assert!(!server.log().contains(PASSWORD), "{}", server.log());
}

fn command_over(server: &Server, url: &str, arguments: &[&str]) -> String {
    let output = stockhold(server.dir()).args(arguments).env("STOCKHOLD_STORE", url).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    text(&output.stdout)
}
