//! Every refusal of the rules as it is told over HTTP: status, reason, and the figures that say what to do next.

use super::server::Server;
use super::shape::{TIME, assert_like, assert_problem};
use super::wire::{Call, Wire};
use serde_json::{Value, json};

const UNKNOWN: &str = "018bcfe5-6800-7fff-bfff-ffffffffffff";

/// Asserts how a request is refused, and which members its problem has of its own.
#[track_caller]
fn check(wire: &mut Wire, call: &Call, status: u16, reason: &str, like: &Value) {
    let answer = wire.ask(call);
    let own = assert_problem(wire, &answer, status, reason);
    assert_like(&own, like);
}

#[track_caller]
fn done(wire: &mut Wire, call: &Call, status: u16) -> Value {
    let answer = wire.ask(call);
    assert_eq!(answer.status, status, "{}", answer.text());
    if answer.body.is_empty() { Value::Null } else { answer.json() }
}

fn reserve(sku: &str, quantity: u64) -> Call {
    let body = json!({ "owner_id": "o", "quantity": quantity });
    Call::post(format!("/v1/inventory/{sku}/reserve")).json(&body)
}

fn basket(body: &Value) -> Call {
    Call::post("/v1/reservations").json(body)
}

fn path_of(reservation: &Value) -> String {
    format!("/v1/reservations/{}", reservation["reservation_id"].as_str().unwrap())
}

#[test]
fn what_does_not_exist() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let item = |sku: &str, location: &str| json!({ "sku": sku, "location": location });
    let none = json!({ "items": [item("none", "default")] });
    check(wire, &Call::get("/v1/inventory/none"), 404, "unknown_item", &none);
    check(wire, &Call::get("/v1/inventory/none/available"), 404, "unknown_item", &none);
    let elsewhere = json!({ "items": [item("tea", "hub")] });
    check(wire, &Call::get("/v1/inventory/tea/available?location=hub"), 404, "unknown_item", &elsewhere);
    check(
        wire,
        &Call::get("/v1/inventory/TEA"),
        404,
        "unknown_item",
        &json!({ "items": [item("TEA", "default")] }),
    );
    check(wire, &reserve("none", 1), 404, "unknown_item", &none);
    check(wire, &Call::post("/v1/inventory/none/pause"), 404, "unknown_item", &none);
    let adjust = json!({ "delta": 1, "reason": "r" });
    check(wire, &Call::post("/v1/inventory/none/adjust").json(&adjust), 404, "unknown_item", &none);
    let lines = json!([{ "sku": "b" }, { "sku": "tea" }, { "sku": "a", "location": "hub" }]);
    let answer = wire.ask(&basket(&json!({ "owner_id": "o", "lines": lines })));
    let mut own = assert_problem(wire, &answer, 404, "unknown_item");
    own["items"].as_array_mut().unwrap().sort_by_key(|item| item["sku"].to_string());
    assert_like(&own, &json!({ "items": [item("a", "hub"), item("b", "default")] }));

    let path = format!("/v1/reservations/{UNKNOWN}");
    let ttl = json!({ "ttl_seconds": 1 });
    for call in [
        Call::get(&path),
        Call::delete(&path),
        Call::post(format!("{path}/confirm")),
        Call::post(format!("{path}/extend")).json(&ttl),
        Call::post(format!("{path}/return")).json(&json!({ "reason": "r" })),
    ] {
        check(wire, &call, 404, "unknown_reservation", &json!({}));
    }
}

#[test]
fn too_little_is_left() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 5);
    server.stock("cup", 1);
    let short = |sku: &str, requested: u64, available: u64| json!({ "sku": sku, "location": "default", "requested_quantity": requested, "available": available });
    let own = json!({ "lines": [short("tea", 6, 5)], "available": 5 });
    check(wire, &reserve("tea", 6), 409, "insufficient_inventory", &own);
    let first = done(wire, &reserve("tea", 4), 200);
    let mut line = short("tea", 2, 1);
    line["next_expiry_at"] = first["expires_at"].clone();
    let own = json!({ "lines": [line], "available": 1, "next_expiry_at": first["expires_at"] });
    check(wire, &reserve("tea", 2), 409, "insufficient_inventory", &own);

    let lines = json!([{ "sku": "tea", "quantity": 2 }, { "sku": "cup", "quantity": 2 }]);
    let answer = wire.ask(&basket(&json!({ "owner_id": "o", "lines": lines })));
    let mut own = assert_problem(wire, &answer, 409, "insufficient_inventory");
    own["lines"].as_array_mut().unwrap().sort_by_key(|line| line["sku"].to_string());
    assert_like(&own, &json!({ "lines": [short("cup", 2, 1), line] }));
    assert_eq!(server.item("cup")["held_units"], 0, "half a basket was held");

    let partial = json!({ "owner_id": "o", "lines": lines, "fulfilment": "partial" });
    let made = done(wire, &basket(&partial), 201);
    assert_eq!(made["quantity"], 2);
    for line in made["lines"].as_array().unwrap() {
        assert_eq!((&line["quantity"], &line["requested_quantity"]), (&json!(1), &json!(2)));
    }
    let answer = wire.ask(&basket(&partial));
    assert_problem(wire, &answer, 409, "insufficient_inventory");
    done(wire, &Call::delete(path_of(&first)), 204);
    let made = done(wire, &basket(&partial), 201);
    let lines = made["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 1, "a line that got nothing is left out");
    assert_eq!((&lines[0]["sku"], &lines[0]["quantity"]), (&json!("tea"), &json!(2)));
}

#[test]
fn too_much_is_asked() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 5_000_000);
    let over = |requested: u64| json!({ "sku": "tea", "location": "default", "requested_quantity": requested, "limit": 1_000_000 });
    check(wire, &reserve("tea", 1_000_001), 422, "quantity_limit", &over(1_000_001));
    check(wire, &reserve("tea", u64::MAX), 422, "quantity_limit", &over(u64::MAX));
    for far in ["18446744073709551616", "100000000000000000000000"] {
        let body = format!(r#"{{"owner_id":"o","quantity":{far}}}"#);
        let call = Call::post("/v1/inventory/tea/reserve").body(body);
        let answer = wire.ask(&call);
        let own = assert_problem(wire, &answer, 400, "invalid_request");
        assert!(own["errors"][0]["detail"].as_str().unwrap().ends_with("found a number that is too large"));
    }
    let lines = json!([{ "sku": "tea", "quantity": 600_000 }, { "sku": "tea", "quantity": 400_001 }]);
    let twice = basket(&json!({ "owner_id": "o", "lines": lines }));
    check(wire, &twice, 422, "quantity_limit", &over(1_000_001));
    done(wire, &reserve("tea", 1_000_000), 200);
    for hall in ["stalls", "balcony"] {
        done(wire, &Call::put(format!("/v1/inventory/{hall}")).json(&json!({ "mode": "units" })), 201);
    }
    let lines = json!([{ "sku": "stalls", "quantity": 9_999 }, { "sku": "tea" }, { "sku": "balcony", "quantity": 2 }]);
    let seats = basket(&json!({ "owner_id": "o", "lines": lines }));
    check(wire, &seats, 422, "quantity_limit", &json!({ "requested_quantity": 10_001, "limit": 10_000 }));
    let lines = vec![json!({ "sku": "tea" }); 2_000];
    assert_eq!(done(wire, &basket(&json!({ "owner_id": "o", "lines": lines })), 201)["quantity"], 2_000);
}

#[test]
fn a_sale_that_is_paused() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let held = done(wire, &reserve("tea", 1), 200);
    let sold = done(wire, &reserve("tea", 1), 200);
    let scopes = [
        ("/v1/inventory/tea", "", json!({ "scope": "item", "sku": "tea", "location": "default" })),
        ("/v1/sale", "?location=default", json!({ "scope": "location", "location": "default" })),
        ("/v1/sale", "", json!({ "scope": "everything" })),
    ];
    for (path, query, own) in scopes {
        let pause = Call::post(format!("{path}/pause{query}")).json(&json!({ "reason": "a wrong price" }));
        assert_eq!(done(wire, &pause, 200)["paused"], true);
        assert_eq!(done(wire, &pause, 200)["paused"], true);
        check(wire, &reserve("tea", 1), 409, "sale_paused", &own);
        let extend = Call::post(format!("{}/extend", path_of(&held))).json(&json!({ "ttl_seconds": 700 }));
        done(wire, &extend, 200);
        done(wire, &Call::post(format!("{}/confirm", path_of(&sold))), 200);
        assert_eq!(done(wire, &Call::post(format!("{path}/resume{query}")), 200)["paused"], false);
        let again = done(wire, &reserve("tea", 1), 200);
        done(wire, &Call::delete(path_of(&again)), 204);
    }
    server.stock("tea?location=hub", 1);
    done(wire, &Call::post("/v1/sale/pause?location=hub"), 200);
    done(wire, &reserve("tea", 1), 200);
    let own = json!({ "scope": "location", "location": "hub" });
    let at_hub = basket(&json!({ "owner_id": "o", "lines": [{ "sku": "tea", "location": "hub" }] }));
    check(wire, &at_hub, 409, "sale_paused", &own);
}

#[test]
fn what_has_ended() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let sold = path_of(&done(wire, &reserve("tea", 2), 200));
    let confirm =
        |path: &str, order: &str| Call::post(format!("{path}/confirm")).json(&json!({ "order_id": order }));
    let extend =
        |path: &str, ttl: u64| Call::post(format!("{path}/extend")).json(&json!({ "ttl_seconds": ttl }));
    let give_back = |path: &str, body: &Value| Call::post(format!("{path}/return")).json(body);
    let all = json!({ "reason": "r" });
    check(wire, &give_back(&sold, &all), 409, "reservation_not_confirmed", &json!({}));
    done(wire, &confirm(&sold, "order-1"), 200);
    let order = json!({ "order_id": "order-1" });
    check(wire, &confirm(&sold, "order-2"), 409, "reservation_confirmed", &order);
    check(wire, &extend(&sold, 5), 409, "reservation_confirmed", &order);
    check(wire, &Call::delete(&sold), 409, "reservation_confirmed", &order);

    let back = |sku: &str, quantity: u64| {
        give_back(&sold, &json!({ "reason": "r", "lines": [{ "sku": sku, "quantity": quantity }] }))
    };
    let exceeds = |sku: &str, requested: u64, sold: u64| json!({ "sku": sku, "location": "default", "requested_quantity": requested, "confirmed_sold": sold });
    check(wire, &back("tea", 3), 409, "return_exceeds_sold", &exceeds("tea", 3, 2));
    check(wire, &back("cup", 1), 409, "return_exceeds_sold", &exceeds("cup", 1, 0));
    done(wire, &back("tea", 1), 200);
    check(wire, &back("tea", 2), 409, "return_exceeds_sold", &exceeds("tea", 2, 1));
    done(wire, &give_back(&sold, &all), 200);
    check(wire, &give_back(&sold, &all), 409, "return_exceeds_sold", &exceeds("tea", 2, 0));

    let released = path_of(&done(wire, &reserve("tea", 1), 200));
    done(wire, &Call::delete(&released), 204);
    for call in [confirm(&released, "order-1"), extend(&released, 5)] {
        check(wire, &call, 409, "reservation_cancelled", &json!({}));
    }
    check(wire, &give_back(&released, &all), 409, "reservation_not_confirmed", &json!({}));
}

#[test]
fn an_extension_ends_at_the_cap() {
    let server = Server::start();
    let wire = &mut server.connect();
    let stock = json!({ "total_units": 1, "default_ttl_seconds": 30, "max_hold_seconds": 60 });
    done(wire, &Call::put("/v1/inventory/tea").json(&stock), 201);
    let made = done(wire, &reserve("tea", 1), 200);
    let extend =
        |ttl: u64| Call::post(format!("{}/extend", path_of(&made))).json(&json!({ "ttl_seconds": ttl }));
    let most = json!({ "max_ttl_seconds": 60 });
    // A later deadline is cut to the latest one.
    let extend = extend(60_000);
    let extended = done(wire, &extend, 200);
    assert_eq!(extended["expires_at"], made["max_expires_at"]);
    check(wire, &extend, 409, "extension_limit", &json!({ "max_expires_at": made["max_expires_at"] }));
    let long = json!({ "owner_id": "o", "ttl_seconds": 61 });
    check(wire, &Call::post("/v1/inventory/tea/reserve").json(&long), 422, "ttl_too_long", &most);
}

#[test]
fn stock_that_is_promised_or_was_changed() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let sold = path_of(&done(wire, &reserve("tea", 2), 200));
    done(wire, &Call::post(format!("{sold}/confirm")), 200);
    done(wire, &reserve("tea", 3), 200);
    let set = |total: u64| Call::put("/v1/inventory/tea").json(&json!({ "total_units": total }));
    let adjust =
        |delta: i64| Call::post("/v1/inventory/tea/adjust").json(&json!({ "delta": delta, "reason": "r" }));
    let figures = json!({
        "confirmed_sold": 2, "held_units": 3, "total_units": 10, "set_aside": 0, "free": 5,
    });
    for call in [set(4), adjust(-6), adjust(-11), adjust(i64::MIN)] {
        check(wire, &call, 409, "below_committed", &figures);
    }
    let first = server.item("tea")["version"].as_u64().unwrap();
    let in_use = json!({ "confirmed_sold": 2, "held_units": 3, "unit_count": 0 });
    check(wire, &Call::delete("/v1/inventory/tea"), 409, "item_in_use", &in_use);
    let none = json!({ "items": [{ "sku": "none", "location": "default" }] });
    check(wire, &Call::delete("/v1/inventory/none"), 404, "unknown_item", &none);
    for call in [set(9), adjust(-1)] {
        check(
            wire,
            &call.header("If-Match", "\"7\""),
            412,
            "precondition_failed",
            &json!({ "version": first }),
        );
    }
    // ETags that are none of the item's: weak ones never are.
    let far = "\"18446744073709551616\"";
    let (weak, padded) = (format!("W/\"{first}\""), format!("W/\"{first}\",\"0{first}\""));
    for tag in [&*weak, "\"x\"", "\"\"", "\"7\", \"8\"", &*padded, far] {
        for call in [set(9), adjust(-1)] {
            let call = call.header("If-Match", tag);
            check(wire, &call, 412, "precondition_failed", &json!({ "version": first }));
        }
    }
    check(
        wire,
        &set(9).header("If-None-Match", "*"),
        412,
        "precondition_failed",
        &json!({ "version": first }),
    );
    for tag in ["\"1\"", "*"] {
        let body = json!({ "total_units": 1 });
        let missing = Call::put("/v1/inventory/none").header("If-Match", tag).json(&body);
        check(wire, &missing, 412, "precondition_failed", &json!({}));
        let body = json!({ "delta": 1, "reason": "r" });
        let missing = Call::post("/v1/inventory/none/adjust").header("If-Match", tag).json(&body);
        check(wire, &missing, 412, "precondition_failed", &json!({}));
        assert!(!wire.ask(&missing).json()["detail"].to_string().contains("Leave If-Match out to create"));
    }
    let new = Call::put("/v1/inventory/new").header("If-None-Match", "*").json(&json!({ "total_units": 1 }));
    let version = done(wire, &new, 201)["version"].clone();
    check(wire, &new, 412, "precondition_failed", &json!({ "version": version }));
    let tag = |version: u64| format!("\"{version}\"");
    assert_eq!(done(wire, &adjust(-5).header("If-Match", tag(first)), 200)["available"], 0);
    assert_eq!(done(wire, &set(5).header("If-Match", tag(first + 1)), 200)["version"], first + 1);
    let one_of = format!("\"9\", {}", tag(first + 1));
    assert_eq!(done(wire, &set(6).header("If-Match", one_of), 200)["version"], first + 2);
    assert_eq!(done(wire, &set(7).header("If-Match", "*"), 200)["version"], first + 3);
    assert_eq!(wire.ask(&Call::get("/v1/inventory/none")).status, 404);
}

#[test]
fn what_is_paused_and_what_else_is() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 1);
    let (here, everything) =
        (json!({ "scope": "location", "location": "default" }), json!({ "scope": "everything" }));
    let sale = |paused: bool, also: &[&Value]| json!({ "paused": paused, "also_paused": also });
    let at = |paused: bool, also: &[&Value], has_items: bool| {
        let mut sale = sale(paused, also);
        sale["has_items"] = has_items.into();
        sale
    };
    assert_like(&done(wire, &Call::get("/v1/sale"), 200), &sale(false, &[]));
    assert_like(&done(wire, &Call::post("/v1/sale/pause"), 200), &sale(true, &[]));
    let of_location = Call::post("/v1/sale/pause?location=default");
    assert_like(&done(wire, &of_location, 200), &at(true, &[&everything], true));
    let of_item = Call::post("/v1/inventory/tea/pause");
    assert_like(&done(wire, &of_item, 200), &sale(true, &[&here, &everything]));
    assert_like(&done(wire, &Call::get("/v1/sale"), 200), &sale(true, &[&here]));
    assert_like(&done(wire, &Call::get("/v1/sale?location=default"), 200), &at(true, &[&everything], true));
    // Each resume says what still stands in the way.
    let resumed = done(wire, &Call::post("/v1/inventory/tea/resume"), 200);
    assert_like(&resumed, &sale(false, &[&here, &everything]));
    assert_like(&done(wire, &Call::post("/v1/sale/resume"), 200), &sale(false, &[&here]));
    let resumed = done(wire, &Call::post("/v1/sale/resume?location=default"), 200);
    assert_like(&resumed, &at(false, &[], true));
    done(wire, &reserve("tea", 1), 200);
    let typo = done(wire, &Call::post("/v1/sale/pause?location=defalut"), 200);
    assert_like(&typo, &at(true, &[], false));
}

#[test]
fn an_order_that_a_reservation_has_is_told() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 1);
    let path = path_of(&done(wire, &reserve("tea", 1), 200));
    let confirm = |order: &str| Call::post(format!("{path}/confirm")).json(&json!({ "order_id": order }));
    done(wire, &confirm("o-1"), 200);
    let detail = wire.ask(&confirm("o-2")).json()["detail"].to_string();
    assert!(detail.contains("is confirmed for order \\\"o-1\\\""), "{detail}");
}

/// With the level of the log that shows them.
#[test]
fn requests_that_are_refused_are_in_the_log_by_their_id() {
    let quiet = Server::start();
    let server = Server::with(&["--log-level", "info,stockhold=debug"]);
    for server in [&quiet, &server] {
        server.ask(&reserve("none", 1).header("X-Request-Id", "r-1"));
        server.ask(&Call::get("/nowhere").header("X-Request-Id", "r-2"));
    }
    let log = server.log_with(&["request_id=\"r-2\""]);
    let line = |id: &str| {
        let found = log.lines().find(|line| line.contains(&format!("request_id=\"{id}\"")));
        found.unwrap_or_else(|| panic!("no {id} in {log}")).to_owned()
    };
    assert!(
        line("r-1").contains("reason=\"unknown_item\"") && line("r-1").contains("route=\"reserve\""),
        "{log}"
    );
    assert!(line("r-2").contains("status=404"), "{log}");
    assert!(!quiet.log().contains("r-1"), "{}", quiet.log());
}

/// Below the floor of free space only new reservations are turned away, and whoever looks for the cause finds it.
#[test]
fn reservations_that_the_disk_has_no_room_for() {
    let server = Server::with(&["--free-space-floor-mib", "99999999"]);
    let wire = &mut server.connect();
    server.stock("tea", 1);
    let ready = crate::support::wait_for("the floor to be noticed", || {
        let ready = server.ask_admin(&Call::get("/readyz"));
        assert_eq!(ready.status, 200, "{}", ready.text());
        (ready.text() != "ready\n").then(|| ready.text())
    });
    assert!(ready.starts_with("ready, but new reservations are turned away: "), "{ready}");
    let answer = wire.ask(&reserve("tea", 1));
    assert_problem(wire, &answer, 503, "unavailable");
    assert!(answer.json()["detail"].as_str().unwrap().contains("/readyz on the admin listener says why"));
    server.stock("cup", 1);
}

#[test]
fn a_hold_that_is_past_its_deadline() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 1);
    let body = json!({ "owner_id": "o", "ttl_seconds": 1 });
    let made = done(wire, &Call::post("/v1/inventory/tea/reserve").json(&body), 200);
    let path = path_of(&made);
    // The next buyer is served as soon as the deadline has passed, whoever expires the hold.
    let next = crate::support::wait_for("the unit to come back", || {
        let answer = wire.ask(&reserve("tea", 1));
        if answer.status == 200 {
            return Some(answer.json());
        }
        let own = assert_problem(wire, &answer, 409, "insufficient_inventory");
        assert_eq!(own["next_expiry_at"], made["expires_at"]);
        None
    });
    assert!(next["created_at"].as_str() >= made["expires_at"].as_str(), "reused early: {made} {next}");
    let expired = done(wire, &Call::get(&path), 200);
    assert_eq!(expired["status"], "expired");
    assert_like(&json!([expired["closed_at"]]), &json!([TIME]));
    let own = json!({ "expires_at": made["expires_at"] });
    check(wire, &Call::post(format!("{path}/confirm")), 409, "reservation_expired", &own);
    let extend = Call::post(format!("{path}/extend")).json(&json!({ "ttl_seconds": 5 }));
    check(wire, &extend, 409, "reservation_expired", &own);
    done(wire, &Call::delete(&path), 204);
}
