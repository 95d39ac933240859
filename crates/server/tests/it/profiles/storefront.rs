//! The storefront's routes: what they answer and what they refuse.

use super::{ProfileServer, held_and_sold, refused, stock, stock_with};
use crate::api::shape::{UUID, assert_like};
use crate::api::wire::{Call, Wire};
use serde_json::{Value, json};

fn reserve(sku: &str, qty: u64) -> Call {
    Call::post("/storefront/reserve").json(&json!({ "sku": sku, "qty": qty, "sessionId": "session-1" }))
}

fn on_reservation(name: &str, id: &Value) -> Call {
    Call::post(format!("/storefront/{name}")).json(&json!({ "reservationId": id }))
}

/// Reserves, and returns the reservation's id.
#[track_caller]
fn reserved(wire: &mut Wire, call: &Call) -> Value {
    let answer = wire.ask(call);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    assert_like(&body, &json!({ "reservationId": UUID }));
    body["reservationId"].clone()
}

#[track_caller]
fn done(wire: &mut Wire, call: &Call) {
    let answer = wire.ask(call);
    assert_eq!((answer.status, answer.json()), (200, json!({ "ok": true })));
}

#[track_caller]
fn native(wire: &mut Wire, id: &Value) -> Value {
    wire.ask(&Call::get(format!("/v1/reservations/{}", id.as_str().unwrap()))).json()
}

#[test]
fn a_cart_from_the_hold_to_the_sale() {
    let server = ProfileServer::start();
    let wire = &mut server.api();
    stock(wire, "default", "tea", 10);
    let body = json!({
        "sku": "tea", "qty": 2, "ttl": 60, "sessionId": "session-1", "customerId": "customer-1", "source": "app \"9\"",
    });
    let id = reserved(wire, &Call::post("/storefront/reserve").json(&body));
    let made = native(wire, &id);
    for (name, expected) in [
        ("owner_id", json!("session-1")),
        ("session_id", json!("session-1")),
        ("customer_id", json!("customer-1")),
        ("metadata", json!({ "source": "app \"9\"" })),
    ] {
        assert_eq!(made[name], expected, "{made}");
    }
    assert_eq!(made["lines"][0]["location"], "default");
    let body = json!({ "reservationId": id, "ttl": 300 });
    done(wire, &Call::post("/storefront/extend").json(&body));
    assert!(native(wire, &id)["expires_at"].as_str() > made["expires_at"].as_str());
    done(wire, &on_reservation("commit", &id));
    done(wire, &on_reservation("commit", &id));
    refused(&wire.ask(&on_reservation("release", &id)), 409, "COMMITTED");
    refused(&wire.ask(&on_reservation("extend", &id)), 409, "COMMITTED");
    assert_eq!(held_and_sold(wire, "default", "tea"), (0, 2));
    let other = reserved(wire, &reserve("tea", 1));
    done(wire, &on_reservation("release", &other));
    done(wire, &on_reservation("release", &other));
    refused(&wire.ask(&on_reservation("commit", &other)), 409, "RELEASED");
    refused(&wire.ask(&on_reservation("extend", &other)), 409, "RELEASED");
}

#[test]
fn an_extension_without_a_time_is_as_long_as_a_new_hold() {
    let server = ProfileServer::configured(
        "default_ttl_seconds = 700\n[locations.default]\ndefault_ttl_seconds = 900\n",
    );
    let wire = &mut server.api();
    stock(wire, "default", "tea", 10);
    stock_with(
        wire,
        "default",
        "cup",
        &json!({ "total_units": 9, "default_ttl_seconds": 120, "max_hold_seconds": 3_600 }),
    );
    for (sku, seconds) in [("tea", 900), ("cup", 120)] {
        let short = json!({ "sku": sku, "qty": 1, "ttl": 1, "sessionId": "session-1" });
        let id = reserved(wire, &Call::post("/storefront/reserve").json(&short));
        done(wire, &on_reservation("extend", &id));
        let made = native(wire, &id);
        let at = |name: &str| made[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let lasts = at("expires_at").duration_since(at("created_at")).as_secs();
        assert!((seconds..seconds + 1).contains(&lasts), "{sku}: {lasts} s");
    }
}

#[test]
fn a_key_makes_a_retry_safe() {
    let server = ProfileServer::start();
    let wire = &mut server.api();
    stock(wire, "default", "tea", 10);
    let id = reserved(wire, &reserve("tea", 1).key("k-1"));
    let again = wire.ask(&reserve("tea", 1).key("k-1"));
    assert_eq!(
        (again.json()["reservationId"].clone(), again.header("idempotent-replayed")),
        (id.clone(), Some("true"))
    );
    let other = refused(&wire.ask(&reserve("tea", 2).key("k-1")), 400, "INVALID_REQUEST");
    assert!(other["detail"].as_str().unwrap().contains("idempotency key"), "{other}");
    assert_ne!(reserved(wire, &reserve("tea", 1)), id, "without a key it is another hold");
    assert_eq!(held_and_sold(wire, "default", "tea"), (2, 0));
    // The same request on the native route is the same operation.
    let body = json!({ "owner_id": "session-1", "session_id": "session-1", "quantity": 1 });
    let native = wire.ask(&Call::post("/v1/inventory/tea/reserve").key("k-1").json(&body));
    assert_eq!(native.json()["reservation_id"], id);
    done(wire, &on_reservation("commit", &id).key("k-2"));
    done(wire, &on_reservation("commit", &id).key("k-2"));
}

#[test]
fn refusals_have_a_word_and_a_detail_where_the_request_is_wrong() {
    let server = ProfileServer::start();
    let wire = &mut server.api();
    stock_with(wire, "default", "tea", &json!({ "total_units": 2, "max_hold_seconds": 60 }));
    let only = |word: &str| json!({ "error": word });
    assert_eq!(refused(&wire.ask(&reserve("tea", 3)), 409, "INSUFFICIENT_STOCK"), only("INSUFFICIENT_STOCK"));
    assert_eq!(refused(&wire.ask(&reserve("cup", 1)), 404, "NOT_FOUND"), only("NOT_FOUND"));
    let unknown = json!("018bcfe5-6800-7fff-bfff-ffffffffffff");
    for name in ["commit", "extend", "release"] {
        assert_eq!(refused(&wire.ask(&on_reservation(name, &unknown)), 404, "NOT_FOUND"), only("NOT_FOUND"));
    }
    let id = reserved(wire, &reserve("tea", 1));
    assert_eq!(
        refused(&wire.ask(&on_reservation("extend", &id)), 409, "LIMIT"),
        only("LIMIT"),
        "it is at its cap"
    );
    let limit = json!({ "items": [{ "sku": "tea" }], "per": "customer", "limit": 1 });
    assert_eq!(wire.ask(&Call::put("/v1/limits/each").json(&limit)).status, 201);
    let nobody = refused(&wire.ask(&reserve("tea", 1)), 400, "INVALID_REQUEST");
    assert!(nobody["detail"].as_str().unwrap().contains("customerId"), "{nobody}");
    let of = |qty: u64| {
        let body = json!({ "sku": "tea", "qty": qty, "sessionId": "s", "customerId": "c" });
        Call::post("/storefront/reserve").json(&body)
    };
    assert_eq!(refused(&wire.ask(&of(2)), 409, "LIMIT"), only("LIMIT"));
    assert_eq!(wire.ask(&Call::post("/v1/sale/pause")).status, 200);
    refused(&wire.ask(&of(1)), 409, "SALE_PAUSED");
    for (body, name) in [
        (json!({ "sku": "tea", "qty": 1 }), "sessionId"),
        (json!({ "sku": "tea", "qty": "1", "sessionId": "s" }), "qty"),
        (json!({ "sku": "tea", "qty": 1, "sessionId": "s", "ttl": 0 }), "ttl"),
        (json!({ "sku": "tea", "qty": 1, "sessionId": "s", "ttl": 61 }), "ttl"),
        (json!({ "sku": "tea", "qty": 1, "sessionId": "s", "source": 7 }), "source"),
    ] {
        let wrong =
            refused(&wire.ask(&Call::post("/storefront/reserve").json(&body)), 400, "INVALID_REQUEST");
        assert!(wrong["detail"].as_str().unwrap().contains(name), "{wrong}");
        assert_eq!(wrong.as_object().unwrap().len(), 2, "{wrong}");
    }
    refused(&wire.ask(&Call::post("/storefront/reserve").body("NaN")), 400, "INVALID_REQUEST");
    refused(&wire.ask(&Call::get("/storefront/reserve")), 405, "METHOD_NOT_ALLOWED");
    assert_eq!(refused(&wire.ask(&Call::post("/storefront/confirm")), 404, "NOT_FOUND"), only("NOT_FOUND"));
}
