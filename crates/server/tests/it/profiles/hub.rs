//! The hub's routes: what they answer and what they refuse.

use super::{ProfileServer, data, held_and_sold, hub_reserve, refused, stock, stock_with};
use crate::api::shape::{UUID, assert_like};
use crate::api::wire::{Call, Wire};
use crate::support::wait_for;
use serde_json::{Value, json};

fn on_reservation(path: &str, id: &Value) -> Call {
    Call::post(path).json(&json!({ "reservation_id": id }))
}

fn available(wire: &mut Wire) -> u64 {
    let stock = data(&wire.ask(&Call::get("/hub/stock/hub-1/milk")));
    let available = stock["available"].as_u64().unwrap();
    assert_like(
        &stock,
        &json!({ "hub_id": "hub-1", "sku": "milk", "available": available, "partitioned": false, "buckets": 1 }),
    );
    available
}

#[test]
fn an_order_from_the_stock_to_the_sale() {
    let server = ProfileServer::start();
    let wire = &mut server.api();
    stock(wire, "hub-1", "milk", 5);
    assert_eq!(available(wire), 5);
    let made = data(&wire.ask(&hub_reserve("hub-1", "milk", 2, "order-1", "user-1")));
    assert_like(&made, &json!({ "reservation_id": UUID, "status": "reserved", "ttl_seconds": 30 }));
    assert_eq!(available(wire), 3);
    let id = &made["reservation_id"];
    let native = wire.ask(&Call::get(format!("/v1/reservations/{}", id.as_str().unwrap()))).json();
    assert_eq!(
        (&native["owner_id"], &native["customer_id"], &native["lines"][0]["location"]),
        (&json!("order-1"), &json!("user-1"), &json!("hub-1"))
    );
    for _ in 0..2 {
        let sold = data(&wire.ask(&on_reservation("/hub/confirm", id)));
        assert_eq!(sold, json!({ "reservation_id": id, "status": "confirmed" }));
    }
    assert_eq!(held_and_sold(wire, "hub-1", "milk"), (0, 2));
    let again = data(&wire.ask(&hub_reserve("hub-1", "milk", 2, "order-1", "user-1")));
    assert_eq!(again, json!({ "reservation_id": id, "status": "confirmed", "ttl_seconds": 0 }));
    refused(&wire.ask(&on_reservation("/hub/release", id)), 409, "CONFIRMED");
    let other = data(&wire.ask(&hub_reserve("hub-1", "milk", 1, "order-2", "user-1")));
    let other = &other["reservation_id"];
    for _ in 0..2 {
        let free = data(&wire.ask(&on_reservation("/hub/release", other)));
        assert_eq!(free, json!({ "reservation_id": other, "status": "released" }));
    }
    refused(&wire.ask(&on_reservation("/hub/confirm", other)), 409, "RELEASED");
    assert_eq!(held_and_sold(wire, "hub-1", "milk"), (0, 2));
}

#[test]
fn refusals_have_a_word_a_detail_and_the_field() {
    let server = ProfileServer::start();
    let wire = &mut server.api();
    stock(wire, "hub-1", "milk", 1);
    let few = refused(&wire.ask(&hub_reserve("hub-1", "milk", 2, "o", "u")), 409, "INSUFFICIENT_STOCK");
    assert!(few["detail"].as_str().is_some_and(|text| !text.is_empty()) && few["field"].is_null(), "{few}");
    refused(&wire.ask(&hub_reserve("hub-2", "milk", 1, "o", "u")), 404, "NOT_FOUND");
    refused(&wire.ask(&Call::get("/hub/stock/hub-1/bread")), 404, "NOT_FOUND");
    let unknown = json!("018bcfe5-6800-7fff-bfff-ffffffffffff");
    refused(&wire.ask(&on_reservation("/hub/confirm", &unknown)), 404, "NOT_FOUND");
    refused(&wire.ask(&on_reservation("/hub/release", &unknown)), 404, "NOT_FOUND");
    let many = refused(&wire.ask(&hub_reserve("hub-1", "milk", 1_000_001, "o", "u")), 400, "INVALID_REQUEST");
    assert_eq!(many["field"], "qty");
    assert_eq!(wire.ask(&Call::post("/v1/inventory/milk/pause?location=hub-1")).status, 200);
    refused(&wire.ask(&hub_reserve("hub-1", "milk", 1, "o", "u")), 409, "SALE_PAUSED");
    let path = "/hub/reserve";
    for (body, field) in [
        (r#"{"hub_id":"h","sku":"s","qty":"2","order_id":"o","user_id":"u"}"#, Some("qty")),
        (r#"{"hub_id":7,"sku":"s","qty":2,"order_id":"o","user_id":"u"}"#, Some("hub_id")),
        (r#"{"hub_id":"h","sku":"s","qty":1e400,"order_id":"o","user_id":"u"}"#, Some("qty")),
        (r#"{"hub_id":"h","sku":"s","qty":NaN,"order_id":"o","user_id":"u"}"#, Some("qty")),
        (r#"{"hub_id":"h","sku":"s","qty":2,"order_id":"o"}"#, Some("user_id")),
        (r#"{"hub_id":"h","sku":"s","qty":2,"qty":2,"order_id":"o","user_id":"u"}"#, Some("qty")),
        ("[]", None),
        ("", None),
        ("\u{fe}", None),
    ] {
        let wrong = wire.ask(&Call::post(path).header("Content-Type", "application/json").body(body));
        let wrong = refused(&wrong, 400, "INVALID_REQUEST");
        assert_eq!(wrong["field"].as_str(), field, "{body}: {wrong}");
    }
    let wrong = refused(&wire.ask(&on_reservation("/hub/confirm", &json!("7"))), 400, "INVALID_REQUEST");
    assert_eq!(wrong["field"], "reservation_id");
    let wrong = refused(&wire.ask(&Call::get("/hub/stock/%00/milk")), 400, "INVALID_REQUEST");
    assert_eq!(wrong["field"], "hub_id");
    let long = format!(r#"{{"hub_id":"{}"}}"#, "h".repeat(70_000));
    // The connection ends with a body that is too long.
    let long = server.api().ask(&Call::post(path).header("Content-Type", "application/json").body(long));
    refused(&long, 413, "INVALID_REQUEST");
    let text = server.api().ask(&Call::post(path).header("Content-Type", "text/plain").body("{}"));
    refused(&text, 415, "INVALID_REQUEST");
    let method = wire.ask(&Call::delete(path));
    assert_eq!(method.header("allow"), Some("POST"));
    refused(&method, 405, "METHOD_NOT_ALLOWED");
    refused(&wire.ask(&Call::get("/hub/commit")), 404, "NOT_FOUND");
    assert_eq!(held_and_sold(wire, "hub-1", "milk"), (0, 0));
}

#[test]
fn what_a_hub_does_not_know_is_ignored() {
    let server = ProfileServer::start();
    let wire = &mut server.api();
    stock(wire, "hub-1", "milk", 5);
    let body = json!({
        "hub_id": "hub-1", "sku": "milk", "qty": 1, "order_id": "o", "user_id": "u", "rider": { "id": 7 }, "v": null,
    });
    data(&wire.ask(&Call::post("/hub/reserve?trace=1").key("an-old-key").json(&body)));
    assert_eq!(wire.ask(&Call::new("HEAD", "/hub/stock/hub-1/milk")).status, 200);
    data(&wire.ask(&Call::get("/hub/stock/hub-1/milk?now=1")));
}

#[test]
fn a_hold_lasts_as_long_as_the_item_allows() {
    let server = ProfileServer::start();
    let wire = &mut server.api();
    stock_with(wire, "hub-1", "ice", &json!({ "total_units": 1, "max_hold_seconds": 1 }));
    let reserve = hub_reserve("hub-1", "ice", 1, "order-1", "user-1");
    let first = data(&wire.ask(&reserve));
    assert_eq!((&first["status"], &first["ttl_seconds"]), (&json!("reserved"), &json!(1)));
    // The last unit is held by this order, and the same hold is answered until it has expired.
    let second = wait_for("the hold to expire and the order to get a new one", || {
        let answer = data(&wire.ask(&reserve));
        (answer["reservation_id"] != first["reservation_id"]).then_some(answer)
    });
    assert_eq!((&second["status"], &second["ttl_seconds"]), (&json!("reserved"), &json!(1)));
    refused(&wire.ask(&on_reservation("/hub/confirm", &first["reservation_id"])), 409, "EXPIRED");
    let free = data(&wire.ask(&on_reservation("/hub/release", &first["reservation_id"])));
    assert_eq!(free["status"], "released", "its units are available again");
}
