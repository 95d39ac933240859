//! Plain requests are read by the server's own hand, all others by a general implementation. Whoever asks must not see
//! which it was: the same request either way has the same answer.

use super::server::Server;
use super::wire::{Answer, Call};
use crate::support::wait_for;
use serde_json::{Value, json};

/// What of an answer does not depend on when it was given.
fn lasting(answer: &Answer) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let mut headers = answer.headers.clone();
    headers.retain(|(name, _)| name != "date");
    headers.sort();
    (answer.status, headers, answer.body.clone())
}

/// Sends a request as clients do, and then in ways that the plain path does not take.
#[track_caller]
fn check(server: &Server, call: &Call, status: u16) {
    let call = call.clone().header("X-Request-Id", "same");
    let plain = server.ask(&call);
    assert_eq!(plain.status, status, "{call:?}: {}", plain.text());
    let others =
        [call.clone().header("Upgrade", "none"), call.clone().header("Content-Encoding", "identity")];
    for other in others {
        assert_eq!(lasting(&server.ask(&other)), lasting(&plain), "{other:?}");
    }
    let mut wire = server.connect();
    wire.send(&call.chunked(7));
    assert_eq!(lasting(&wire.answer()), lasting(&plain), "chunked: {call:?}");
}

#[test]
fn the_same_answers() {
    let server = Server::start();
    server.stock("tea", 10);
    server.stock("gone", 1);
    let reserve = |sku: &str, body: &Value| Call::post(format!("/v1/inventory/{sku}/reserve")).json(body);
    let owner = json!({ "owner_id": "o" });
    let made = server.ask(&reserve("gone", &owner)).json();
    let sold = server.ask(&reserve("tea", &owner).key("sold")).json();
    let path = |made: &Value| format!("/v1/reservations/{}", made["reservation_id"].as_str().unwrap());
    let confirm = Call::post(format!("{}/confirm", path(&sold)));
    assert_eq!(server.ask(&confirm).status, 200);
    let commands = json!({ "commands": [
        { "op": "reserve", "owner_id": "o", "sku": "tea", "idempotency_key": "sold" }, { "op": "confirm" },
        { "op": "release", "reservation_id": sold["reservation_id"] },
    ] });
    let too_much = "x".repeat(65 * 1024);

    for (call, status) in [
        (Call::get("/"), 200),
        (Call::get("/problems/internal"), 200),
        (Call::get("/v1/inventory/tea?location=default"), 200),
        (Call::get(path(&made)), 200),
        (Call::get(format!("{}/events", path(&sold))), 200),
        (Call::get("/v1/reservations?limit=1"), 200),
        (Call::get("/v1/reservations?limit=0"), 400),
        (Call::get("/v1/inventory?limit=1"), 200),
        (Call::get("/v1/events?after=2"), 200),
        (Call::get("/openapi.json"), 200),
        (Call::post("/v1/commands").json(&commands), 200),
        (Call::post("/v1/commands").json(&commands).key("k"), 400),
        (Call::post("/v1/availability").json(&json!({ "items": [{ "sku": "none" }] })), 200),
        (Call::post("/v1/availability").json(&json!({ "items": [] })), 400),
        (Call::post("/v1/sale/pause").header("Origin", "http://elsewhere"), 403),
        (confirm, 200),
        (reserve("tea", &owner).key("sold"), 200),
        (Call::put("/v1/inventory/tea").json(&json!({ "total_units": 10 })), 200),
        (Call::post("/v1/inventory/tea/resume"), 200),
        (Call::delete("/v1/reservations/x"), 400),
        (reserve("tea", &json!({})), 400),
        (reserve("tea", &owner).key(""), 400),
        (reserve("tea", &owner).key("a").key("b"), 400),
        (Call::put("/v1/inventory/tea").json(&json!({ "total_units": 9 })).header("If-Match", "\"9\""), 412),
        (Call::put("/v1/inventory/tea").json(&json!({ "total_units": 9 })).header("If-None-Match", "*"), 412),
        (Call::post("/v1/sale/pause").header("If-Match", "*"), 400),
        (Call::get("/v1/sale"), 200),
        (Call::get("/v1/events?after=999"), 400),
        (Call::get("/v1/sale").body("{}"), 400),
        (Call::get("/v1/inventory/tea?x=1"), 400),
        (Call::get("/v1/inventory/%ff"), 400),
        (Call::get("/v1/inventory/none/available"), 404),
        (Call::post("/nowhere").json(&owner), 404),
        (Call::post("/v1/inventory/tea").json(&owner), 405),
        (reserve("gone", &owner), 409),
        (Call::delete(path(&sold)), 409),
        (reserve("tea", &json!({ "owner_id": "o", "quantity": 1_000_001 })), 422),
        (reserve("tea", &json!({ "owner_id": "other" })).key("sold"), 422),
        (Call::post("/v1/inventory/tea/reserve").header("Content-Type", "text/plain").body("{}"), 415),
    ] {
        check(&server, &call, status);
    }
    let large = server.ask(&reserve("tea", &owner).body(too_much));
    assert_eq!(large.status, 413, "{}", large.text());
}

#[test]
fn one_connection_changes_over() {
    let server = Server::start();
    server.stock("tea", 100);
    let wire = &mut server.connect();
    let call = Call::post("/v1/inventory/tea/reserve").json(&json!({ "owner_id": "o" }));
    assert_eq!(wire.ask(&call).status, 200);
    // A plain request, another sort of request, and the head of a third, in one piece.
    let third = call.bytes();
    wire.send(&[&call.bytes()[..], &call.chunked(3), &third[..30]].concat());
    for _ in 0..2 {
        assert_eq!(wire.answer().status, 200);
    }
    wire.send(&third[30..]);
    assert_eq!(wire.answer().status, 200);
    assert_eq!(wire.ask(&Call::new("HEAD", "/v1/inventory/tea")).status, 200);
    assert_eq!(wire.ask(&call).status, 200);
    assert_eq!(server.item("tea")["held_units"], 5);
    wire.end_sending();
    assert!(wire.is_closed());
}

#[test]
fn nobody_waits_for_one_who_does_not_read() {
    let server = Server::start();
    server.stock("tea", 100);
    let page = Call::get("/problems/invalid_request").bytes();
    let mut deaf = server.connect();
    // More answers than the buffers in between hold: the server stops reading, and this side stops sending.
    deaf.send_without_waiting(&page.repeat(400_000));
    for _ in 0..50 {
        let body = json!({ "owner_id": "o" });
        assert_eq!(server.ask(&Call::post("/v1/inventory/tea/reserve").json(&body)).status, 200);
    }
    drop(deaf);
    wait_for("the item", || (server.item("tea")["held_units"] == 50).then_some(()));
}
