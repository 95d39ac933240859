//! `stockhold doctor`: a healthy place, and places with something wrong.

use crate::support::{Server, free_port, said, stockhold, text, wait_for};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn doctor(dir: &Path) -> Command {
    let mut command = stockhold(dir);
    command.args(["doctor", "--json", "--no-disk", "--data-dir", "data"]);
    command
}

#[track_caller]
fn report(command: &mut Command, code: i32) -> Value {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["healthy"], code == 0);
    report
}

/// What a check found.
#[track_caller]
fn finding<'a>(report: &'a Value, check: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .find(|finding| finding["check"] == check)
        .unwrap_or_else(|| panic!("no {check} in {report:#}"))
}

fn at_ports(command: &mut Command, [api, admin]: [u16; 2]) -> &mut Command {
    command.arg(format!("--listen=127.0.0.1:{api}")).arg(format!("--admin-listen=127.0.0.1:{admin}"))
}

#[test]
fn a_fresh_place_and_a_running_server_are_well() {
    let fresh = tempfile::tempdir().unwrap();
    let free = report(at_ports(&mut doctor(fresh.path()), [free_port(), free_port()]), 0);
    assert!(finding(&free, "data")["says"].as_str().unwrap().contains("first start makes it"));
    assert!(!fresh.path().join("data").exists(), "it makes nothing");

    let mut server = Server::start();
    let well = report(at_ports(&mut doctor(server.dir()), server.ports()), 0);
    assert!(finding(&well, "running")["says"].as_str().unwrap().contains("durability synced"));
    assert_eq!(finding(&well, "ready")["grade"], "ok");
    assert!(finding(&well, "in use")["says"].as_str().unwrap().contains("has the directory"));
    server.kill();
    let killed = report(at_ports(&mut doctor(server.dir()), server.ports()), 0);
    assert!(finding(&killed, "api port")["says"].as_str().unwrap().contains("is free"));
    let log = finding(&killed, "log")["says"].as_str().unwrap();
    assert!(
        log.contains("format known") && log.contains("only its end was checked, `stockhold verify`"),
        "{log}"
    );

    let mut told = stockhold(server.dir());
    told.args(["doctor", "--data-dir", "data"]);
    let output = at_ports(&mut told, server.ports()).output().unwrap();
    let shown = text(&output.stdout);
    assert!(shown.contains("disk sync") && shown.contains("nothing is wrong"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn what_is_wrong_is_found_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let ports = [free_port(), free_port()];
    let wrong = |report: &Value, check: &str, words: &str| {
        let finding = finding(report, check);
        assert_eq!(finding["grade"], "wrong", "{finding}");
        let said = format!("{} {}", finding["says"], finding["advice"]);
        assert!(said.contains(words), "{words:?} is missing in {said}");
    };
    // A process that another test starts at this moment may hold the socket that tried the port, until it executes its program.
    let listener = wait_for("the port", || std::net::TcpListener::bind(("127.0.0.1", ports[0])).ok());
    wrong(&report(at_ports(&mut doctor(dir.path()), ports), 1), "api port", "another program listens");
    drop(listener);

    let floor = ["--free-space-floor-mib", "1000000000000"];
    wrong(&report(at_ports(&mut doctor(dir.path()), ports).args(floor), 1), "free space", "free some space");

    let data = dir.path().join("data");
    std::fs::write(&data, "a file").unwrap();
    wrong(&report(at_ports(&mut doctor(dir.path()), ports), 1), "rights", "is not a directory");
    std::fs::remove_file(&data).unwrap();
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("log.db"), "this is no log").unwrap();
    wrong(&report(at_ports(&mut doctor(dir.path()), ports), 1), "log", "backup");

    std::fs::write(dir.path().join("stockhold.toml"), "threds = 1\n").unwrap();
    wrong(&report(&mut doctor(dir.path()), 1), "config", "threds");
}

/// A directory that lies there too says nothing about a store that is a database.
#[test]
fn a_database_is_named_and_not_taken_for_the_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("log.db"), "this is no log").unwrap();
    let ports = [free_port(), free_port()];
    let mut command = doctor(dir.path());
    command.env("STOCKHOLD_STORE", "postgres://shop:hunter2@db/shop");
    let told = report(at_ports(&mut command, ports), 0);
    let store = finding(&told, "store");
    let says = store["says"].as_str().unwrap();
    assert!(says.contains("postgres://shop:***@db/shop") && says.contains("data directories only"), "{says}");
    assert!(store["advice"].as_str().unwrap().contains("stockhold verify"), "{store}");
    let checks =
        told["findings"].as_array().unwrap().iter().map(|finding| finding["check"].as_str().unwrap());
    assert!(!checks.clone().any(|check| ["data", "log", "index", "rights"].contains(&check)), "{told:#}");
    assert!(checks.clone().any(|check| check == "clock"));
    let directory = report(command.args(["--store", "embedded"]), 1);
    assert_eq!(finding(&directory, "log")["grade"], "wrong", "{directory:#}");
}
