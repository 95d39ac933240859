//! `stockhold bench`: it measures, says what it did, and its books agree with the server's.

use crate::support::{Running, Server, said, stockhold, text, wait_for};
use serde_json::Value;
use std::process::Command;

fn bench(server: &Server, arguments: &[&str]) -> Command {
    let mut command = stockhold(server.dir());
    command.args(["bench", "--duration", "1", "--warm-up", "0", "--connections", "8"]).args(arguments);
    command.args(["--server", &server.url(), "--admin", &server.admin_url()]);
    command
}

#[track_caller]
fn report(server: &Server, arguments: &[&str], code: i32) -> Value {
    let output = bench(server, arguments).arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_mix_is_measured_and_audited() {
    let server = Server::start();
    for (mix, step) in [
        ("reserve", "reserve"),
        ("reserve-limited", "reserve"),
        ("reserve-confirm", "confirm"),
        ("available", "available"),
        ("commands", "commands"),
    ] {
        let report = report(&server, &["--mix", mix, "--skus", "3", "--threads", "2"], 0);
        assert!(report["operations"].as_u64().unwrap() > 0, "{report}");
        assert_eq!((&report["durability"], &report["store"]), (&"synced".into(), &"embedded".into()));
        assert_eq!((&report["refused"], &report["failed"]), (&serde_json::json!({}), &serde_json::json!({})));
        let steps = report["latency"].as_array().unwrap();
        assert!(
            steps.iter().any(|found| found["step"] == step && found["count"].as_u64() > Some(0)),
            "{report}"
        );
        let books = &report["books"];
        assert_eq!((&books["agree"], &books["skus"]), (&true.into(), &3.into()), "{report}");
        assert_eq!(books["told_confirmed"], books["confirmed_sold"], "{report}");
        assert!(!report["limited_by"].as_array().unwrap().is_empty(), "{report}");
        let item = server.item(&format!("{}0", books["sku_prefix"].as_str().unwrap()));
        let reads = mix == "available";
        assert_eq!(books["deleted"], if reads { 3 } else { 0 }, "{report}");
        assert_eq!(item.is_none(), reads, "its SKUs are its own, and stay if they are in use");
    }
}

#[test]
fn an_open_loop_keeps_its_rate_or_says_that_it_could_not() {
    let server = Server::start();
    let report = report(&server, &["--rate", "50"], 0);
    assert_eq!((&report["loop"], &report["asked_per_second"]), (&"open".into(), &50.0.into()));
    // Requests at 0, 20, … ms of a second, each sent or counted as not sent.
    let held = report["books"]["told_reserved"].as_u64().unwrap();
    assert_eq!(held + report["not_sent"].as_u64().unwrap(), 50, "{report}");
}

#[test]
fn a_server_that_goes_away_is_told_and_the_books_agree_all_the_same() {
    let mut server = Server::start();
    let running =
        Running::start(bench(&server, &["--mix", "reserve-confirm", "--json"]).args(["--patience", "60"]));
    wait_for("the first sale", || {
        let list = server.ask(async |client| client.send_raw("GET", "/v1/inventory", b"").await).ok()?;
        let list: Value = serde_json::from_slice(&list.body).ok()?;
        (list["data"][0]["confirmed_sold"].as_u64()? > 0).then_some(())
    });
    server.kill();
    server.restart();
    let (code, out) = running.finish();
    assert_eq!(code, Some(0), "{out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let failed: u64 =
        report["failed"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert!(failed > 0, "{report}");
    assert!(report["limited_by"].to_string().contains("lost connections"), "{report}");
    assert_eq!(report["books"]["agree"], true, "{report}");
}

#[test]
fn refusals_are_counted_by_reason() {
    let server = Server::start();
    let report = |stock: &str, code| report(&server, &["--stock", stock], code);
    assert_eq!(report("0", 1)["operations"], 0);
    let report = report("5", 0);
    assert!(report["refused"]["insufficient_inventory"].as_u64().unwrap() > 0, "{report}");
    assert_eq!((&report["books"]["agree"], &report["books"]["told_reserved"]), (&true.into(), &5.into()));
    let limits = report["limited_by"].to_string();
    assert!(limits.contains("refusals"), "{limits}");
}

#[test]
fn what_is_refused_while_it_warms_up_is_not_counted() {
    let server = Server::start();
    let mut bench = stockhold(server.dir());
    bench.args(["bench", "--duration", "1", "--warm-up", "1", "--stock", "0", "--rate", "50", "--json"]);
    bench.args(["--server", &server.url(), "--admin", &server.admin_url()]);
    let report: Value = serde_json::from_slice(&bench.output().unwrap().stdout).unwrap();
    let refused = report["refused"]["insufficient_inventory"].as_u64().unwrap();
    assert_eq!(report["latency"][0]["count"], refused, "{report}");
    assert!((1..=50).contains(&refused), "{report}");
}

#[test]
fn text_says_the_same_and_another_servers_word_is_not_taken() {
    let (server, other) = (Server::start(), Server::start());
    let output = bench(&server, &[]).output().unwrap();
    let shown = text(&output.stdout);
    for words in [
        "Durability synced",
        "closed loop, 8 connections",
        "p99.9",
        "Limited by",
        "Audit      the server agrees",
    ] {
        assert!(shown.contains(words), "{words:?} is missing in {shown}");
    }
    let mut mixed = stockhold(server.dir());
    mixed.args(["bench", "--duration", "1", "--warm-up", "0", "--server", &server.url()]);
    let output = mixed.args(["--admin", &other.admin_url()]).output().unwrap();
    let shown = text(&output.stdout);
    assert!(shown.contains("Durability not known") && shown.contains("belongs to the server on"), "{shown}");
}

#[test]
fn wrong_flags_and_no_server() {
    let mut server = Server::start();
    for wrong in [
        ["--connections", "0"],
        ["--rate", "0"],
        ["--rate", "nan"],
        ["--batch", "9000"],
        ["--mix", "all"],
        ["--ttl", "0"],
        ["--ttl", "2592001"],
    ] {
        let mut command = stockhold(server.dir());
        let output = command.arg("bench").args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
    server.kill();
    let output = bench(&server, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
}
