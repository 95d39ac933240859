//! Every route as it goes well: the exact status, headers and members of its answer.

use super::server::Server;
use super::shape::{TIME, UUID, assert_like, is_uuid};
use super::wire::{Answer, Call, Wire};
use serde_json::{Value, json};

/// Headers that any answer may have.
const EVERYWHERE: [&str; 4] = ["content-type", "content-length", "date", "x-request-id"];

#[track_caller]
fn check(wire: &mut Wire, call: &Call, status: u16, headers: &[(&str, &str)], like: &Value) -> Value {
    let answer = wire.ask(call);
    assert_headers(&answer, status, headers);
    if status == 204 {
        assert!(answer.body.is_empty() && like.is_null() && answer.header("content-type").is_none());
        return Value::Null;
    }
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let found = answer.json();
    assert_like(&found, like);
    found
}

/// The headers of pages for people.
const PAGES: [&str; 4] =
    ["x-content-type-options", "content-security-policy", "x-frame-options", "referrer-policy"];

#[track_caller]
fn assert_headers(answer: &Answer, status: u16, headers: &[(&str, &str)]) {
    assert_eq!((answer.status, answer.version.as_str()), (status, "HTTP/1.1"), "{}", answer.text());
    for (name, value) in headers {
        assert_eq!(answer.header(name), Some(*value), "{name} of {answer:?}");
    }
    let is_page = answer.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
    for name in PAGES.iter().filter(|_| is_page) {
        assert!(answer.header(name).is_some(), "{name} of {answer:?}");
    }
    for (name, _) in &answer.headers {
        let expected =
            headers.iter().any(|(known, _)| known == name) || (is_page && PAGES.contains(&name.as_str()));
        assert!(expected || EVERYWHERE.contains(&name.as_str()), "{name} should not be there: {answer:?}");
    }
    if !headers.iter().any(|(name, _)| *name == "x-request-id") {
        assert!(is_uuid(answer.header("x-request-id").unwrap()), "{answer:?}");
    }
}

/// A pattern with some of its members replaced; `null` takes one out.
fn with(like: &Value, changes: &Value) -> Value {
    let mut like = like.clone();
    for (name, change) in changes.as_object().unwrap() {
        like[name] = change.clone();
    }
    like.as_object_mut().unwrap().retain(|_, member| !member.is_null());
    like
}

fn id_of(reservation: &Value) -> &str {
    reservation["reservation_id"].as_str().unwrap()
}

#[test]
fn an_item_from_its_making_on() {
    let server = Server::start();
    let wire = &mut server.connect();
    let path = "/v1/inventory/tea";
    let settings = json!({
        "total_units": 10, "mode": "counted", "safety_stock": 2, "default_ttl_seconds": 60,
        "max_hold_seconds": 120, "metadata": { "b": [1.50, { "deep": null }], "a": "é" },
    });
    let created = wire.ask(&Call::put(path).json(&settings));
    let first = created.json()["version"].as_u64().unwrap();
    let tag = |version: u64| format!("\"{version}\"");
    assert_eq!((created.status, created.header("etag")), (201, Some(&*tag(first))));
    let made = json!({
        "sku": "tea", "location": "default", "mode": "counted", "total_units": 10, "confirmed_sold": 0,
        "fulfilled_units": 0, "unfulfilled_units": 0, "on_hand": 10, "held_units": 0, "held_under_payment": 0,
        "safety_stock": 2, "set_aside": 0, "oversell_allowance": 0, "backordered": 0, "available": 8, "available_now": 8, "active_reservations": 0, "paused": false, "sequence": 1, "version": first, "default_ttl_seconds": 60, "max_hold_seconds": 120,
        "created_at": TIME, "updated_at": TIME, "metadata": { "b": [1.50, { "deep": null }], "a": "é" },
    });
    assert_like(&created.json(), &made);
    check(wire, &Call::put(path).json(&settings), 200, &[("etag", &tag(first))], &made);

    let more = with(
        &made,
        &json!({ "total_units": 20, "on_hand": 20, "available": 18, "available_now": 18, "sequence": 2, "version": first + 1 }),
    );
    let call = Call::put(path).header("If-Match", tag(first)).json(&json!({ "total_units": 20 }));
    check(wire, &call, 200, &[("etag", &tag(first + 1))], &more);
    let less = with(
        &more,
        &json!({ "total_units": 15, "on_hand": 15, "available": 13, "available_now": 13, "sequence": 3, "version": first + 2 }),
    );
    let call = Call::post("/v1/inventory/tea/adjust").json(&json!({ "delta": -5, "reason": "broken" }));
    check(wire, &call, 200, &[("etag", &tag(first + 2))], &less);
    check(wire, &Call::get(path), 200, &[("etag", &tag(first + 2))], &less);

    let available = json!({
        "sku_id": "tea", "sku": "tea", "location": "default", "available": 13, "available_now": 13, "active_reservations": 0,
        "held_units": 0, "sequence": 3, "as_of": TIME,
    });
    check(wire, &Call::get("/v1/inventory/tea/available"), 200, &[], &available);
    let call = Call::get("/v1/inventory/tea/available?location=default").header("X-Request-Id", "look-1");
    check(wire, &call, 200, &[("x-request-id", "look-1")], &available);

    let bare = json!({ "total_units": 1 });
    let like = with(
        &made,
        &json!({
            "sku": "cup", "total_units": 1, "on_hand": 1, "safety_stock": 0, "available": 1, "available_now": 1, "default_ttl_seconds": null,
            "max_hold_seconds": null, "metadata": null,
        }),
    );
    let cup = wire.ask(&Call::put("/v1/inventory/cup").json(&bare));
    assert_eq!(cup.status, 201);
    assert_like(&cup.json(), &with(&like, &json!({ "version": cup.json()["version"] })));
}

#[test]
fn an_item_to_its_deletion() {
    let server = Server::start();
    let wire = &mut server.connect();
    let path = "/v1/inventory/tea";
    server.stock("tea", 10);
    let first = server.item("tea")["version"].as_u64().unwrap();
    let stale = format!("\"{first}\"");
    let delete = Call::delete(path).header("If-Match", &*stale).key("mistake");
    check(wire, &delete, 204, &[], &Value::Null);
    let again = wire.ask(&delete);
    assert_headers(&again, 204, &[("idempotent-replayed", "true")]);
    assert_eq!(wire.ask(&Call::delete(path)).status, 404);
    for gone in [path, "/v1/inventory/tea/available"] {
        assert_eq!(wire.ask(&Call::get(gone)).json()["reason"], "unknown_item", "{gone}");
    }
    assert_eq!(wire.ask(&Call::get("/v1/inventory")).json()["data"], json!([]));
    let events = wire.ask(&Call::get("/v1/events")).json();
    let last = &events["data"][1];
    assert_eq!((&last["type"], &last["item"]["total_units"]), (&json!("stock.deleted"), &json!(10)));
    assert_eq!(last["item"]["version"], first + 1);

    server.stock("tea", 4);
    let item = server.item("tea");
    assert!(item["version"].as_u64().unwrap() > first + 1, "{item}");
    assert_eq!((&item["total_units"], &item["sequence"]), (&json!(4), &json!(1)));
    let changed = wire.ask(&Call::delete(path).header("If-Match", &*stale));
    assert_eq!((changed.status, &changed.json()["reason"]), (412, &json!("precondition_failed")));
    assert_headers(&wire.ask(&delete), 204, &[("idempotent-replayed", "true")]);
    assert_eq!(server.item("tea"), item);
}

#[test]
fn a_reservation_of_one_item() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let body = json!({
        "owner_id": "cart-1", "quantity": 3, "ttl_seconds": 30, "fulfilment": "all", "channel": "web",
        "customer_id": "c-1", "session_id": "s-1", "metadata": { "gift": true }, "idempotency_key": "k-1",
    });
    let line = json!({
        "sku": "tea", "location": "default", "quantity": 3, "requested_quantity": 3, "sequence": 2,
    });
    let active = json!({
        "reservation_id": UUID, "status": "active", "owner_id": "cart-1", "lines": [line], "quantity": 3,
        "created_at": TIME, "expires_at": TIME, "max_expires_at": TIME, "channel": "web",
        "customer_id": "c-1", "session_id": "s-1", "metadata": { "gift": true }, "version": 1,
    });
    let call = Call::post("/v1/inventory/tea/reserve").json(&body).header("X-Request-Id", "buy-1");
    let made = check(wire, &call, 200, &[("x-request-id", "buy-1"), ("etag", "\"1\"")], &active);
    let seconds = |from: &str, to: &str| {
        let instant = |name: &str| made[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        (instant(to) - instant(from)).total(jiff::Unit::Second).unwrap()
    };
    let ttl = seconds("created_at", "expires_at");
    assert!((30.0..30.002).contains(&ttl), "{ttl}");
    let longest = seconds("created_at", "max_expires_at");
    assert!((1800.0..1800.002).contains(&longest), "{longest}");

    let path = format!("/v1/reservations/{}", id_of(&made));
    let version = |n: u64| format!("\"{n}\"");
    let mut shows =
        |call: &Call, n: u64, like: &Value| check(wire, call, 200, &[("etag", &version(n))], like);
    shows(&Call::get(&path), 1, &made);
    shows(&Call::get(path.to_uppercase().replace("/V1/RESERVATIONS", "/v1/reservations")), 1, &made);
    let extended = with(&made, &json!({ "expires_at": TIME, "version": 2 }));
    let call = Call::post(format!("{path}/extend")).json(&json!({ "ttl_seconds": 300 }));
    let extended = shows(&call, 2, &extended);
    assert!(extended["expires_at"].as_str() > made["expires_at"].as_str());
    shows(&Call::post(format!("{path}/extend")).json(&json!({ "ttl_seconds": 1 })), 2, &extended);

    let mut sold = with(
        &extended,
        &json!({
            "status": "confirmed", "confirmed_at": TIME, "closed_at": TIME, "order_id": "order-1", "version": 3,
        }),
    );
    sold["lines"][0]["sequence"] = json!(3);
    let confirm = Call::post(format!("{path}/confirm"));
    let sold = shows(&confirm.clone().json(&json!({ "order_id": "order-1" })), 3, &sold);
    shows(&confirm, 3, &sold);
    shows(&confirm.json(&json!({ "order_id": "order-1" })), 3, &sold);

    let mut returned = with(&sold, &json!({ "version": 4 }));
    returned["lines"][0]["sequence"] = json!(4);
    returned["lines"][0]["returned_quantity"] = json!(1);
    let body = json!({ "reason": "too small", "lines": [{ "sku": "tea", "quantity": 1 }] });
    shows(&Call::post(format!("{path}/return")).json(&body), 4, &returned);
    returned["version"] = json!(5);
    returned["lines"][0]["sequence"] = json!(5);
    returned["lines"][0]["returned_quantity"] = json!(3);
    let rest = Call::post(format!("{path}/return")).json(&json!({ "reason": "never came" }));
    shows(&rest, 5, &returned);
    shows(&Call::get(&path), 5, &returned);
    assert_eq!(server.item("tea")["available"], 10);
}

#[test]
fn a_basket() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    server.stock("caf%C3%A9%2F1?location=north%20hub", 5);
    let body = json!({ "owner_id": "cart-2", "lines": [
        { "sku": "tea", "quantity": 2 },
        { "sku": "café/1", "location": "north hub" },
        { "sku": "tea", "location": "default", "quantity": 4 },
    ] });
    let answer = wire.ask(&Call::post("/v1/reservations").json(&body));
    let made = answer.json();
    let path = format!("/v1/reservations/{}", id_of(&made));
    assert_headers(&answer, 201, &[("location", &path), ("etag", "\"1\"")]);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let line = |sku: &str, location: &str, quantity: u64| {
        json!({ "sku": sku, "location": location, "quantity": quantity, "requested_quantity": quantity,
                "sequence": 2 })
    };
    let mut lines = made["lines"].as_array().unwrap().clone();
    lines.sort_by_key(|line| line["sku"].to_string());
    assert_like(&json!(lines), &json!([line("café/1", "north hub", 1), line("tea", "default", 6)]));
    let whole = json!({
        "reservation_id": UUID, "status": "active", "owner_id": "cart-2", "lines": made["lines"], "quantity": 7,
        "created_at": TIME, "expires_at": TIME, "max_expires_at": TIME, "version": 1,
    });
    assert_like(&made, &whole);

    for _ in 0..2 {
        check(wire, &Call::delete(format!("{path}?reason=changed+mind")), 204, &[], &Value::Null);
    }
    let mut released = with(
        &made,
        &json!({ "status": "cancelled", "closed_at": TIME, "close_reason": "changed mind", "version": 2 }),
    );
    for line in released["lines"].as_array_mut().unwrap() {
        line["sequence"] = json!(3);
    }
    check(wire, &Call::get(&path), 200, &[("etag", "\"2\"")], &released);
    assert_eq!(server.item("tea")["available"], 10);
    assert_eq!(server.item("caf%c3%a9%2f1?location=north+hub")["available"], 5);
}

#[test]
fn locations_are_apart_on_every_inventory_route() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    server.stock("tea?location=hub", 4);
    let mut at_hub = |method: &str, rest: &str, body: Option<Value>| {
        let call = Call::new(method, format!("/v1/inventory/tea{rest}?location=hub"));
        let answer = wire.ask(&body.map_or(call.clone(), |body| call.json(&body)));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let made = at_hub("POST", "/reserve", Some(json!({ "owner_id": "o", "quantity": 3 })));
    assert_eq!(made["lines"][0]["location"], "hub");
    assert_eq!(at_hub("POST", "/adjust", Some(json!({ "delta": 1, "reason": "r" })))["available"], 2);
    assert_eq!(at_hub("PUT", "", Some(json!({ "total_units": 6 })))["available"], 3);
    assert_eq!(at_hub("POST", "/pause", None), json!({ "paused": true, "also_paused": [] }));
    assert_eq!(at_hub("GET", "", None)["paused"], true);
    assert_eq!(at_hub("POST", "/resume", None), json!({ "paused": false, "also_paused": [] }));
    assert_eq!(at_hub("GET", "/available", None)["held_units"], 3);
    let elsewhere = server.item("tea");
    assert_eq!((&elsewhere["available"], &elsewhere["sequence"]), (&json!(10), &json!(1)));
}

#[test]
fn pages_and_heads() {
    /// What a server of this version can answer with.
    const REASONS: [&str; 30] = [
        "invalid_request",
        "forbidden",
        "unknown_item",
        "unknown_reservation",
        "unknown_route",
        "method_not_allowed",
        "insufficient_inventory",
        "sale_paused",
        "reservation_expired",
        "reservation_cancelled",
        "reservation_confirmed",
        "reservation_not_confirmed",
        "payment_in_progress",
        "split_exceeds_held",
        "fulfil_exceeds_sold",
        "return_exceeds_sold",
        "extension_limit",
        "below_committed",
        "item_in_use",
        "precondition_failed",
        "too_large",
        "unsupported_media_type",
        "idempotency_mismatch",
        "quantity_limit",
        "mode_mismatch",
        "headers_too_large",
        "internal",
        "overloaded",
        "unavailable",
        "outcome_unknown",
    ];
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let index = wire.ask(&Call::get("/"));
    let plain = [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")];
    assert_headers(&index, 200, &plain);
    for route in ["POST   /v1/inventory/{sku}/reserve", "POST   /v1/commands", "GET    /v1/events/stream"] {
        assert!(index.text().contains(route), "{route}");
    }
    for reason in REASONS {
        let page = wire.ask(&Call::get(format!("/problems/{reason}")));
        assert_headers(&page, 200, &[("content-type", "text/html; charset=utf-8")]);
        assert!(page.text().contains(&format!("<title>{reason}: ")), "{reason}");
    }
    let made = wire.ask(&Call::post("/v1/inventory/tea/reserve").json(&json!({ "owner_id": "o" }))).json();
    let reservation = format!("/v1/reservations/{}", id_of(&made));
    for path in [
        "/",
        "/v1/inventory/tea",
        "/v1/inventory/tea/available",
        "/v1/inventory",
        "/v1/reservations?status=active",
        &*reservation,
        &*format!("{reservation}/events"),
        "/v1/events",
        "/openapi.json",
        "/docs",
        "/problems/internal",
        "/nowhere",
    ] {
        let got = wire.ask(&Call::get(path));
        let head = wire.ask(&Call::new("HEAD", path));
        assert!(head.body.is_empty());
        for name in ["content-type", "content-length", "etag"] {
            assert_eq!(head.header(name), got.header(name), "{name} of {path}");
        }
        assert_eq!(head.status, got.status);
    }
}

#[test]
fn an_answer_names_its_request() {
    let server = Server::start();
    let check = |given: &[u8], comes_back: bool| {
        let answer = server.ask(&Call::get("/v1/inventory/none").header("X-Request-Id", given));
        let id = answer.header("x-request-id").unwrap().to_owned();
        assert_eq!(answer.json()["request_id"], json!(id));
        assert_eq!(id.as_bytes() == given, comes_back, "{id}");
        assert!(comes_back || is_uuid(&id), "{id}");
    };
    check(b"checkout 7/3", true);
    check("x".repeat(128).as_bytes(), true);
    check("x".repeat(129).as_bytes(), false);
    check(b"", false);
    check(b"caf\xe9", false);
    check(b"a\tb", false);
}
