//! Deadlines over HTTP: nobody's hold ends before the deadline it was told, and each ends without anybody asking.

use super::server::Server;
use super::shape::is_uuid;
use super::wire::{Call, Wire};
use crate::support::wait_for;
use serde_json::{Value, json};

fn get(wire: &mut Wire, path: &str) -> Value {
    let answer = wire.ask(&Call::get(path));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[test]
fn holds_end_by_themselves_and_never_early() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let reserve = |ttl: u64| {
        let body = json!({ "owner_id": "o", "ttl_seconds": ttl });
        server.ask(&Call::post("/v1/inventory/tea/reserve").json(&body)).json()
    };
    let (short, long) = (reserve(1), reserve(600));
    assert_eq!((&short["status"], &long["status"]), (&json!("active"), &json!("active")));
    let path = |made: &Value| format!("/v1/reservations/{}", made["reservation_id"].as_str().unwrap());
    let deadline = short["expires_at"].as_str().unwrap();

    // Only availability is read, which changes nothing: the hold has to be ended in the background. What is seen at
    // an instant before the deadline has to show it held.
    let at = wait_for("the hold to be ended in the background", || {
        let seen = get(wire, "/v1/inventory/tea/available");
        if seen["held_units"] == 1 {
            return Some(seen["as_of"].as_str().unwrap().to_owned());
        }
        assert_eq!(seen["held_units"], 2);
        None
    });
    assert!(at.as_str() >= deadline, "ended early: {at} is before {deadline}");
    let expired = get(wire, &path(&short));
    assert_eq!(expired["status"], "expired");
    assert!(expired["closed_at"].as_str().unwrap() >= deadline, "{expired}");
    assert_eq!(expired["expires_at"], short["expires_at"]);
    assert_eq!(expired["lines"][0]["sequence"], 4);
    // What the server does by itself has a request id as any other: a UUIDv7.
    let events = get(wire, &format!("{}/events", path(&short)));
    let end = &events["data"][1];
    let id = end["request_id"].as_str().unwrap();
    assert_eq!(
        (end["type"].as_str(), end["actor"].as_str()),
        (Some("reservation.expired"), Some("stockhold"))
    );
    assert!(is_uuid(id) && &id[14..15] == "7" && "89ab".contains(&id[19..20]), "{id}");
    assert_eq!(get(wire, &path(&long))["status"], "active");
    assert_eq!(server.item("tea")["available"], 9);
}

#[test]
fn holds_that_fell_due_while_the_server_was_down() {
    let mut server = Server::start();
    server.stock("tea", 5);
    let body = json!({ "owner_id": "o", "quantity": 5, "ttl_seconds": 1 });
    let made = server.ask(&Call::post("/v1/inventory/tea/reserve").json(&body)).json();
    let deadline = made["expires_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    server.kill();
    wait_for("the deadline to pass", || (jiff::Timestamp::now() > deadline).then_some(()));
    server.start_again();
    wait_for("the hold to be ended", || (server.item("tea")["available"] == 5).then_some(()));
    let again = server.ask(&Call::post("/v1/inventory/tea/reserve").json(&body));
    assert_eq!(again.status, 200, "{}", again.text());
}
