//! Idempotency keys over HTTP: a retry is answered with what was made, as it is now, and does nothing again.

use super::server::Server;
use super::shape::{assert_like, assert_problem};
use super::wire::{Answer, Call, Wire};
use serde_json::{Value, json};

fn single(quantity: u64) -> Call {
    let body = json!({ "owner_id": "o", "quantity": quantity });
    Call::post("/v1/inventory/tea/reserve").json(&body)
}

fn basket(quantity: u64) -> Call {
    let body = json!({ "owner_id": "o", "lines": [{ "sku": "tea", "quantity": quantity }] });
    Call::post("/v1/reservations").json(&body)
}

/// Sends a request and asserts whether its answer is marked as a replay.
#[track_caller]
fn check(wire: &mut Wire, call: &Call, status: u16, replayed: bool) -> Answer {
    let answer = wire.ask(call);
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("idempotent-replayed"), replayed.then_some("true"), "{answer:?}");
    answer
}

fn path_of(reservation: &Value) -> String {
    format!("/v1/reservations/{}", reservation["reservation_id"].as_str().unwrap())
}

#[test]
fn both_reserve_routes_share_their_keys() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let made = check(wire, &single(2).key("k"), 200, false).json();
    assert_like(&check(wire, &single(2).key("k"), 200, true).json(), &made);
    assert_like(&check(wire, &single(2).key("\"k\""), 200, true).json(), &made);
    let over_the_other = check(wire, &basket(2).key("k"), 201, true);
    assert_eq!(over_the_other.header("location"), Some(path_of(&made).as_str()));
    assert_like(&over_the_other.json(), &made);
    // The same request in other bytes, with the key in the body.
    let text = format!(
        " {{ \"idempotency_key\" : \"k\", \"lines\":[{{\"quantity\":1,\"location\":\"default\",\"sku\":\"t{}a\"}},\
         {{\"sku\":\"tea\"}}], \"fulfilment\":\"all\", \"owner_id\" : \"o\" }} ",
        "\\u0065"
    );
    let other_bytes = Call::post("/v1/reservations").body(text);
    assert_like(&check(wire, &other_bytes, 201, true).json(), &made);
    assert_eq!(server.item("tea")["held_units"], 2);

    for other in [single(3).key("k"), basket(1).key("k")] {
        let answer = wire.ask(&other);
        assert_like(&assert_problem(wire, &answer, 422, "idempotency_mismatch"), &json!({}));
    }
    check(wire, &single(2), 200, false);
    check(wire, &single(2).key("K"), 200, false);
    assert_eq!(server.item("tea")["held_units"], 6);
}

#[test]
fn a_replay_shows_the_reservation_as_it_is_now() {
    let mut server = Server::start();
    let mut wire = server.connect();
    server.stock("tea", 10);
    let sold = check(&mut wire, &single(1).key("sold"), 200, false).json();
    let released = check(&mut wire, &basket(2).key("released"), 201, false).json();
    check(&mut wire, &single(3).key("held"), 200, false);
    let confirm = Call::post(format!("{}/confirm", path_of(&sold))).json(&json!({ "order_id": "order-1" }));
    let confirmed = check(&mut wire, &confirm.clone().key("k"), 200, false).json();
    let release = Call::delete(path_of(&released));
    check(&mut wire, &release.clone().key("k"), 204, false);
    let back = json!({ "reason": "r", "lines": [{ "sku": "tea" }] });
    let give_back = Call::post(format!("{}/return", path_of(&sold))).json(&back);
    let adjust = Call::post("/v1/inventory/tea/adjust").json(&json!({ "delta": 5, "reason": "delivery" }));
    check(&mut wire, &adjust.clone().key("k"), 200, false);

    let as_now = |wire: &mut Wire| {
        let now = check(wire, &single(1).key("sold"), 200, true).json();
        assert_like(&now, &confirmed);
        assert_eq!(check(wire, &basket(2).key("released"), 201, true).json()["status"], "cancelled");
        assert_eq!(check(wire, &single(3).key("held"), 200, true).json()["status"], "active");
        check(wire, &confirm.clone().key("k"), 200, true);
        check(wire, &release.clone().key("k"), 204, true);
        check(wire, &adjust.clone().key("k"), 200, true);
    };
    as_now(&mut wire);
    let before = server.item("tea");
    server.kill();
    server.start_again();
    assert_eq!(server.item("tea"), before);
    let mut wire = server.connect();
    as_now(&mut wire);
    assert_eq!(server.item("tea"), before);
    let answer = wire.ask(&single(9).key("sold"));
    assert_problem(&mut wire, &answer, 422, "idempotency_mismatch");

    check(&mut wire, &give_back.clone().key("k"), 200, false);
    let returned = check(&mut wire, &give_back.key("k"), 200, true).json();
    assert_eq!(returned["lines"][0]["returned_quantity"], 1);
    assert_eq!(check(&mut wire, &single(1).key("sold"), 200, true).json()["lines"], returned["lines"]);
    assert_eq!(server.item("tea")["confirmed_sold"], 0);
}

#[test]
fn a_refusal_is_not_remembered() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 1);
    let answer = wire.ask(&single(2).key("k"));
    assert_problem(wire, &answer, 409, "insufficient_inventory");
    let more = Call::put("/v1/inventory/tea").key("k").json(&json!({ "total_units": 2 }));
    check(wire, &more, 200, false);
    check(wire, &more, 200, false);
    check(wire, &single(2).key("k"), 200, false);
    check(wire, &single(2).key("k"), 200, true);
}

#[test]
fn a_key_in_the_header_and_in_the_body() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 9);
    let keyed = |key: &str| {
        Call::post("/v1/inventory/tea/reserve").json(&json!({ "owner_id": "o", "idempotency_key": key }))
    };
    check(wire, &keyed("k").key("k"), 200, false);
    check(wire, &keyed("k"), 200, true);
    check(wire, &keyed("a \"b\" \\").key("\"a \\\"b\\\" \\\\\""), 200, false);
    check(wire, &keyed("é").key("é"), 200, false);
    check(wire, &keyed(&"k".repeat(255)), 200, false);
    assert_eq!(server.item("tea")["held_units"], 4);
}
