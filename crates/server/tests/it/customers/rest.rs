//! Personal data at rest: in no file, log or event in plain text, and in none at all once it is erased.

use super::{EMAIL, FIRST_KEY, anna, delete, get, put, send, server};
use crate::checkout::{hold, priced_item};
use crate::support::{Server, said, stockhold};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Every file below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The files that have these bytes.
pub(super) fn files_with(dir: &Path, text: &[u8]) -> Vec<PathBuf> {
    let has = |path: &PathBuf| memchr::memmem::find(&fs::read(path).unwrap(), text).is_some();
    files(dir).into_iter().filter(has).collect()
}

#[track_caller]
fn expect_nowhere(server: &Server, texts: &[&str]) {
    for text in texts {
        assert_eq!(files_with(server.dir(), text.as_bytes()), Vec::<PathBuf>::new(), "{text}");
        let events = send(&server.url(), "GET", "/v1/events?limit=100", None, &[]);
        assert_eq!(events.status, 200);
        assert!(!events.body.to_string().contains(text), "an event has {text}");
    }
}

const SECRETS: [&str; 4] = [EMAIL, "token:personal", "cus_personal", "approve_personal"];

/// The bytes of the value of a customer.
fn stored_value(dir: &Path, id: &str) -> Vec<u8> {
    let db = rusqlite::Connection::open(dir.join("data/customers.db")).unwrap();
    db.query_row("SELECT value FROM customers WHERE id = ?1", [id], |row| row.get(0)).unwrap()
}

#[test]
fn personal_data_is_in_no_file_in_no_event_and_not_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::with_variables(
        dir.path(),
        "data",
        &[(super::VARIABLE, FIRST_KEY), ("STOCKHOLD_LOG_LEVEL", "debug")],
    );
    priced_item(&server, "tea", 10);
    hold(&server.url(), "tea", 1).unwrap();
    assert_eq!(put(&server, "anna-id", &anna("approve_personal")).status, 201);
    expect_nowhere(&server, &SECRETS);
    let first = stored_value(dir.path(), "anna-id");
    assert_eq!(put(&server, "anna-id", &anna("approve_personal")).status, 200);
    expect_nowhere(&server, &SECRETS);
    let second = stored_value(dir.path(), "anna-id");
    // Of what was replaced or erased, not even the encrypted bytes are left.
    let data = dir.path().join("data");
    assert_eq!(files_with(&data, &first[first.len() - 40..]), Vec::<PathBuf>::new());
    assert_eq!(files_with(&data, &second[second.len() - 40..]), vec![data.join("customers.db")]);
    assert_eq!(delete(&server, "anna-id").status, 204);
    for left in [&second[..], b"anna-id"] {
        assert_eq!(files_with(&data, left), Vec::<PathBuf>::new());
    }
    server.kill();
    server.restart();
    expect_nowhere(&server, &SECRETS);
    assert_eq!(get(&server, "anna-id").status, 404);
}

#[test]
fn what_was_answered_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = server(dir.path(), FIRST_KEY);
    for round in 0..3 {
        let url = server.url();
        let (first, answer) = std::sync::mpsc::channel();
        let answered = std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let client = stockhold_api::client::Client::new(&url).unwrap();
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let mut answered = 0;
                loop {
                    let email = format!("round{round}n{}@example.com", answered + 1);
                    let body = json!({ "email": email }).to_string();
                    let path = "/v1/customers/anna";
                    let sent = client.send_raw_with("PUT", path, &[], body.as_bytes());
                    match runtime.block_on(sent) {
                        Ok(raw) if matches!(raw.status, 200 | 201) => {
                            answered += 1;
                            let _ = first.send(());
                        }
                        _ => return answered,
                    }
                }
            });
            answer.recv().expect("something is written before the kill");
            std::thread::sleep(std::time::Duration::from_millis(200));
            server.kill();
            writer.join().unwrap()
        });
        server.restart();
        let shown = get(&server, "anna").body["email"].as_str().unwrap().to_owned();
        let email = |n: u64| format!("round{round}n{n}@example.com");
        assert!([email(answered), email(answered + 1)].contains(&shown), "{shown} after {answered} answers");
    }
    assert!(server.terminate().success());
    let output = stockhold(dir.path()).args(["verify", "--data-dir", "data"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_backup_has_the_customers_and_not_those_that_were_erased_since() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = server(dir.path(), FIRST_KEY);
    for id in ["anna", "ben"] {
        assert_eq!(put(&server, id, &anna("approve")).status, 201);
    }
    let backup = || {
        let output =
            stockhold(dir.path()).args(["backup", "--data-dir", "data", "--to", "copy"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    };
    backup();
    assert!(files_with(&dir.path().join("copy"), EMAIL.as_bytes()).is_empty());
    assert!(!files_with(&dir.path().join("copy"), b"ben").is_empty(), "the backup has the customer");
    assert_eq!(delete(&server, "ben").status, 204);
    backup();
    assert!(files_with(&dir.path().join("copy"), b"ben").is_empty(), "the backup has an erased customer");
    assert!(server.terminate().success());
    let copy = Server::with_variables(dir.path(), "copy", &[(super::VARIABLE, FIRST_KEY)]);
    assert_eq!(get(&copy, "anna").body["email"], EMAIL);
    assert_eq!(get(&copy, "ben").status, 404);
}

#[test]
fn a_damaged_file_is_not_served() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = server(dir.path(), FIRST_KEY);
    assert_eq!(put(&server, "anna", &anna("approve")).status, 201);
    assert!(server.terminate().success());
    // A changed value is noticed by its key, and damage of the file by `verify`.
    let file = dir.path().join("data/customers.db");
    let value = stored_value(dir.path(), "anna");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(value.len()).position(|part| part == value).unwrap();
    bytes[at + value.len() - 1] ^= 1;
    fs::write(&file, &bytes).unwrap();
    server.restart();
    let answer = get(&server, "anna");
    assert_eq!(answer.reason(), (500, "internal"));
    server.log_with(&["damaged"]);
    assert_eq!(delete(&server, "anna").status, 204, "it can be erased all the same");
    assert!(server.terminate().success());
    fs::write(&file, b"no database at all, but some text that is long enough").unwrap();
    let output = stockhold(dir.path()).args(["verify", "--data-dir", "data"]).output().unwrap();
    assert_ne!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("customers.db"), "{}", said(&output));
}
