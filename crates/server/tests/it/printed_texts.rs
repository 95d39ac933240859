//! Texts of others, on a terminal, in the log and in spreadsheets: they control nothing.

use crate::ctl::{done, json};
use crate::support::{Server, said, stockhold, text, wait_for};
use serde_json::{Value, json as value};
use std::io::{Read, Write};
use std::net::TcpListener;

/// ESC, a control sequence of C1, a mark of direction, and an invisible character.
const BAD: &str = "a\u{1b}[2J\u{9b}31m\u{202e}b\u{200b}";

#[track_caller]
fn assert_harmless(text: &str) {
    let bad = text.chars().find(|c| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
    });
    assert_eq!(bad, None, "{text:?}");
}

#[test]
fn names_that_callers_have_chosen_do_not_control_the_terminal() {
    let server = Server::start();
    done(&server, &["stock", "set", "tea", "--total", "5"]);
    let body = value!({ "owner_id": "cart", "lines": [{ "sku": "tea" }], "metadata": { "note": BAD } });
    let held = server.ask(async |client| {
        client.send_raw("POST", "/v1/reservations", body.to_string().as_bytes()).await.unwrap()
    });
    let held: Value = serde_json::from_slice(&held.body).unwrap();
    let id = held["reservation_id"].as_str().unwrap();
    let shown = done(&server, &["get", id]);
    assert_harmless(&shown);
    assert!(shown.contains("\\u009b31m\\u202eb\\u200b"), "{shown}");
    // JSON has the same value, and no such character either.
    let printed = done(&server, &["get", id, "--json"]);
    assert_harmless(&printed);
    assert_eq!(json(&server, &["get", id])["metadata"]["note"], BAD);
}

#[test]
fn errors_of_a_server_do_not_control_the_terminal() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4_096]);
            let problem = value!({
                "type": "/problems/forbidden", "title": BAD, "status": 403, "detail": BAD, "reason": "forbidden",
                "retryable": false, "request_id": BAD,
            });
            let body = problem.to_string();
            let head = format!(
                "HTTP/1.1 403 No\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    let dir = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--json"]] {
        let mut command = stockhold(dir.path());
        let output = command.args(["ctl", "get", "none", "--server", &url]).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert_harmless(&text(&output.stderr));
        assert_harmless(&text(&output.stdout));
    }
}

#[test]
fn the_name_of_a_request_forges_no_field_and_no_line_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with_variables(dir.path(), "data", &[("STOCKHOLD_LOG_LEVEL", "debug")]);
    let name = "r-1 level=ERROR why=forged";
    let raw = server.ask(async |client| {
        client.send_raw_with("GET", "/v1/inventory/none", &[("x-request-id", name)], b"").await.unwrap()
    });
    assert_eq!(raw.status, 404);
    let log = wait_for("the line", || Some(server.log()).filter(|log| log.contains("forged")));
    assert!(log.contains(&format!("request_id=\"{name}\"")), "{log}");
}

#[test]
fn cells_that_are_formulas_are_counted_and_can_be_made_safe_and_read_back() {
    let server = Server::start();
    let skus = ["=1+1", "+41x", "-x", "@SUM(A1)", "'quoted", "plain"];
    for sku in skus {
        let path = format!("/v1/inventory/{}", stockhold_api::encode::path_segment(sku));
        let made =
            server.ask(async |client| client.send_raw("PUT", &path, br#"{"total_units": 3}"#).await.unwrap());
        assert_eq!(made.status, 201, "{sku}");
    }
    let url = server.url();
    let run = |arguments: &[&str]| {
        let output = stockhold(server.dir()).args(arguments).args(["--server", &url]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        output
    };
    let plain = run(&["export", "items", "--out", "plain.csv"]);
    assert!(
        text(&plain.stderr).contains("4 cells") && text(&plain.stderr).contains("--spreadsheet-safe"),
        "{}",
        said(&plain)
    );
    let safe = run(&["export", "items", "--out", "safe.csv", "--spreadsheet-safe"]);
    assert!(!text(&safe.stderr).contains("formulas"), "{}", said(&safe));
    let csv = std::fs::read_to_string(server.dir().join("safe.csv")).unwrap();
    for sku in ["'=1+1", "'+41x", "'-x", "'@SUM(A1)", "''quoted", "plain"] {
        assert!(csv.lines().any(|line| line.starts_with(&format!("{sku},"))), "{sku}: {csv}");
    }
    let other = Server::start();
    let file = server.dir().join("safe.csv").display().to_string();
    let imported = stockhold(other.dir())
        .args(["import", &file, "--spreadsheet-safe", "--server", &other.url()])
        .output()
        .unwrap();
    assert!(imported.status.success(), "{}", said(&imported));
    for sku in skus {
        assert_eq!(other.item(sku).unwrap().total_units, 3, "{sku}");
    }
}
