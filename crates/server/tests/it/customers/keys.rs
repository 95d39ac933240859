//! Rotation: a new key wraps, old ones unwrap, and a rewrap makes the old ones needless.

use super::{EMAIL, FIRST_KEY, SECOND_KEY, anna, get, put, send};
use crate::support::{Server, said, stockhold};
use std::path::Path;

const CUSTOMERS: usize = 25;

fn configure(dir: &Path, keys: &[&str]) {
    std::fs::write(dir.join("stockhold.toml"), format!("[customers]\nencryption_keys = {keys:?}\n")).unwrap();
}

/// Restarts a server with other keys.
fn restart(server: &mut Server, keys: &[&str]) {
    configure(server.dir(), keys);
    assert!(server.terminate().success());
    server.restart();
}

fn ctl(server: &Server, arguments: &[&str]) -> std::process::Output {
    stockhold(server.dir()).args(["ctl", "--url", &server.url()]).args(arguments).output().unwrap()
}

#[test]
fn a_key_is_replaced_without_losing_a_customer() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), &[FIRST_KEY]);
    let mut server = Server::on(dir.path(), "data");
    let ids: Vec<String> = (0..CUSTOMERS).map(|n| format!("customer-{n:02}")).collect();
    for id in &ids {
        assert_eq!(put(&server, id, &anna("approve")).status, 201);
    }
    // Without the key nobody can read them, and what is missing is said.
    restart(&mut server, &[SECOND_KEY]);
    let answer = get(&server, &ids[0]);
    assert_eq!(answer.reason(), (409, "encryption_key_missing"));
    assert!(answer.body["detail"].as_str().unwrap().contains("key k1"), "{answer:?}");
    assert_eq!(put(&server, &ids[0], &anna("approve")).reason(), (409, "encryption_key_missing"));
    let output = ctl(&server, &["customers", "rewrap"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        said(&output).contains("25 customers can't be read, such as customer-00, customer-01"),
        "{}",
        said(&output)
    );
    restart(&mut server, &[SECOND_KEY, FIRST_KEY]);
    assert_eq!(get(&server, &ids[0]).body["email"], EMAIL);
    let version = get(&server, &ids[1]).etag;
    // A part of it, as if it was killed.
    let page = send(&server.url(), "POST", "/v1/customer-keys/rewrap?limit=10", None, &[]);
    assert_eq!(
        (page.status, page.body["customers"].as_u64(), page.body["rewrapped"].as_u64()),
        (200, Some(10), Some(10))
    );
    assert_eq!(page.body["has_more"], true, "{page:?}");
    let output = ctl(&server, &["customers", "rewrap"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("25 customers. The keys of 15 were wrapped"), "{}", said(&output));
    let output = ctl(&server, &["customers", "rewrap", "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        shown,
        serde_json::json!({ "customers": 25, "rewrapped": 0, "unreadable": [] }),
        "nothing is left to do"
    );
    assert_eq!(get(&server, &ids[1]).etag, version, "the data is the same");
    restart(&mut server, &[SECOND_KEY]);
    for id in &ids {
        assert_eq!(get(&server, id).body["email"], EMAIL, "{id}");
    }
}

#[test]
fn an_operator_stores_shows_and_erases_a_customer() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), &[FIRST_KEY]);
    let server = Server::on(dir.path(), "data");
    let file = dir.path().join("anna.json");
    let body = serde_json::json!({
        "provider_refs": {
            "stripe": { "method_ref": "pm_1", "customer_ref": "cus_1" }, "test": { "method_ref": "approve" },
        },
        "email": EMAIL, "locale": "de-CH",
    });
    std::fs::write(&file, body.to_string()).unwrap();
    let output = ctl(&server, &["customers", "put", "anna", "--file", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let shown = get(&server, "anna").body;
    assert_eq!(
        shown["provider_refs"]["stripe"],
        serde_json::json!({ "method_ref": "pm_1", "customer_ref": "cus_1" })
    );
    assert_eq!(shown["provider_refs"]["test"], serde_json::json!({ "method_ref": "approve" }));
    let output = ctl(&server, &["customers", "get", "anna"]);
    assert!(said(&output).contains(EMAIL) && said(&output).contains("de-CH"), "{}", said(&output));
    let output = ctl(&server, &["customers", "delete", "anna", "--if-version", "1"]);
    assert_ne!(output.status.code(), Some(0), "{}", said(&output));
    let output = ctl(&server, &["customers", "delete", "anna"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(get(&server, "anna").status, 404);
}

#[test]
fn a_wrong_key_ends_the_start_and_is_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), &["k1:c2VjcmV0c2VjcmV0"]);
    let output = stockhold(dir.path()).args(["serve", "--data-dir", "data"]).output().unwrap();
    let text = said(&output);
    assert_ne!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("customers.encryption_keys") && text.contains("openssl rand -base64 32"), "{text}");
    assert!(!text.contains("c2VjcmV0"), "{text}");
    configure(dir.path(), &[FIRST_KEY]);
    let output = stockhold(dir.path()).args(["config"]).output().unwrap();
    assert!(!said(&output).contains("AAEC"), "{}", said(&output));
}
