//! What changes a reservation after it was made: carts that change, payments, shipments and counts of the shelf.

use super::server::Server;
use super::wire::{Answer, Call};
use serde_json::{Value, json};

/// A reservation's path.
fn path(reservation: &Value, tail: &str) -> String {
    format!("/v1/reservations/{}{tail}", reservation["reservation_id"].as_str().unwrap())
}

#[track_caller]
fn done(server: &Server, call: &Call, status: u16) -> Answer {
    let answer = server.ask(call);
    assert_eq!(answer.status, status, "{} {}: {}", call.method(), call.target(), answer.text());
    answer
}

#[track_caller]
fn refused(server: &Server, call: &Call, status: u16, reason: &str) -> Value {
    let problem = done(server, call, status).json();
    assert_eq!((&problem["reason"], &problem["retryable"]), (&json!(reason), &json!(false)), "{problem}");
    problem
}

#[track_caller]
fn reserve(server: &Server, lines: &Value) -> Value {
    let body = json!({ "owner_id": "cart", "lines": lines, "ttl_seconds": 600 });
    done(server, &Call::post("/v1/reservations").json(&body), 201).json()
}

/// The figures of an item: total, sold, fulfilled, held, held under payment, available.
fn figures(server: &Server, sku: &str) -> [u64; 6] {
    let item = server.item(sku);
    ["total_units", "confirmed_sold", "fulfilled_units", "held_units", "held_under_payment", "available"]
        .map(|name| item[name].as_u64().unwrap())
}

fn lines_of(reservation: &Value) -> Vec<(String, u64)> {
    let lines = reservation["lines"].as_array().unwrap().iter();
    lines.map(|line| (line["sku"].as_str().unwrap().to_owned(), line["quantity"].as_u64().unwrap())).collect()
}

fn line(sku: &str, quantity: u64) -> (String, u64) {
    (sku.to_owned(), quantity)
}

#[test]
fn a_cart_changes_without_letting_go() {
    let server = Server::start();
    server.stock("tea", 5);
    server.stock("cup", 2);
    let cart = reserve(&server, &json!([{ "sku": "tea", "quantity": 5 }]));
    assert_eq!(cart["version"], 1);
    let patch = |body: &Value| Call::new("PATCH", path(&cart, "")).json(body);
    let more = json!({ "lines": [{ "sku": "tea", "quantity": 6 }] });
    let short = refused(&server, &patch(&more), 409, "insufficient_inventory");
    assert_eq!(short["available"], 5, "{short}");

    // All units of the item are in this cart, and it may keep four of them and take two of another item.
    let both = json!({ "lines": [{ "sku": "cup", "quantity": 2 }, { "sku": "tea", "quantity": 4 }] });
    let call = patch(&both).key("change-1").header("If-Match", "\"1\"");
    let answer = done(&server, &call, 200);
    assert_eq!(answer.header("etag"), Some("\"2\""));
    let changed = answer.json();
    assert_eq!(lines_of(&changed), [line("cup", 2), line("tea", 4)]);
    assert_eq!((&changed["version"], &changed["expires_at"]), (&json!(2), &cart["expires_at"]));
    assert_eq!((figures(&server, "tea"), figures(&server, "cup")), ([5, 0, 0, 4, 0, 1], [2, 0, 0, 2, 0, 0]));
    let again = done(&server, &call, 200);
    assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), changed.clone()));
    // Another change of the same version comes too late.
    let late = refused(&server, &patch(&both).header("If-Match", "\"1\""), 412, "precondition_failed");
    assert_eq!(late["version"], 2);
    // Without a change there is no new version.
    assert_eq!(done(&server, &patch(&both), 200).json()["version"], 2);

    let body = json!({ "ttl_seconds": 1_200, "metadata": { "gift": true } });
    let longer = done(&server, &patch(&body), 200).json();
    assert_eq!((&longer["metadata"], &longer["version"]), (&json!({ "gift": true }), &json!(3)));
    assert!(longer["expires_at"].as_str() > cart["expires_at"].as_str());
    assert!(done(&server, &patch(&json!({ "metadata": {} })), 200).json()["metadata"].is_null());

    let none = refused(&server, &patch(&json!({ "lines": [] })), 400, "invalid_request");
    assert_eq!(none["errors"][0]["pointer"], "/lines");
    let events = server.ask(&Call::get(path(&cart, "/events"))).json();
    let amended = &events["data"][1];
    assert_eq!(amended["type"], "reservation.amended");
    assert_eq!(amended["lines_before"], json!([{ "sku": "tea", "location": "default", "quantity": 5 }]));
    done(&server, &Call::delete(path(&cart, "")), 204);
    refused(&server, &patch(&both), 409, "reservation_cancelled");
    assert_eq!((figures(&server, "tea")[5], figures(&server, "cup")[5]), (5, 2));
}

#[test]
fn a_cart_is_handed_over_split_and_merged() {
    let server = Server::start();
    server.stock("tea", 9);
    let cart = reserve(&server, &json!([{ "sku": "tea", "quantity": 5 }]));
    let post = |reservation: &Value, tail: &str, body: &Value| Call::post(path(reservation, tail)).json(body);
    let recipient = json!({ "owner_id": "order", "customer_id": "c-1", "session_id": null });
    let given = done(&server, &post(&cart, "/transfer", &recipient), 200).json();
    assert_eq!((&given["owner_id"], &given["customer_id"]), (&json!("order"), &json!("c-1")));
    refused(&server, &post(&cart, "/transfer", &json!({})), 400, "invalid_request");
    let listed = server.ask(&Call::get("/v1/reservations?owner_id=order")).json();
    assert_eq!(listed["data"][0]["reservation_id"], cart["reservation_id"]);

    let two = json!({ "lines": [{ "sku": "tea", "quantity": 2 }] });
    let call = post(&cart, "/split", &two).key("split-1").header("If-Match", "\"2\"");
    let answer = done(&server, &call, 201);
    let part = answer.json();
    assert_eq!(answer.header("location"), Some(&*path(&part, "")));
    assert_eq!((&part["split_from"], &part["version"]), (&cart["reservation_id"], &json!(1)));
    assert_eq!(done(&server, &call, 201).json()["reservation_id"], part["reservation_id"]);
    let rest = server.ask(&Call::get(path(&cart, ""))).json();
    assert_eq!(
        (lines_of(&rest), &rest["split_into"]),
        (vec![line("tea", 3)], &json!([part["reservation_id"]]))
    );
    let problem = refused(
        &server,
        &post(&cart, "/split", &json!({ "lines": [{ "sku": "tea", "quantity": 4 }] })),
        409,
        "split_exceeds_held",
    );
    assert_eq!((&problem["held_units"], &problem["requested_quantity"]), (&json!(3), &json!(4)));
    let all = json!({ "lines": [{ "sku": "tea", "quantity": 3 }] });
    refused(&server, &post(&cart, "/split", &all), 400, "invalid_request");

    let other = reserve(&server, &json!([{ "sku": "tea", "quantity": 1 }]));
    let from = json!({ "from": [part["reservation_id"], other["reservation_id"]] });
    let merged = done(&server, &post(&cart, "/merge", &from), 200).json();
    assert_eq!((lines_of(&merged), &merged["merged_from"]), (vec![line("tea", 6)], &from["from"]));
    let ended = server.ask(&Call::get(path(&other, ""))).json();
    assert_eq!(
        (&ended["status"], &ended["close_reason"], &ended["merged_into"]),
        (&json!("cancelled"), &json!("merged"), &cart["reservation_id"])
    );
    assert_eq!(figures(&server, "tea"), [9, 0, 0, 6, 0, 3]);
    assert_eq!(server.item("tea")["active_reservations"], 1);
    refused(&server, &post(&cart, "/merge", &from), 409, "reservation_cancelled");
    let itself = json!({ "from": [cart["reservation_id"]] });
    refused(&server, &post(&cart, "/merge", &itself), 400, "invalid_request");
}

#[test]
fn a_hold_lasts_as_long_as_its_payment() {
    let server = Server::with(&["--max-payment-seconds", "1000"]);
    server.stock("tea", 9);
    let cart = reserve(&server, &json!([{ "sku": "tea", "quantity": 2 }]));
    let post = |tail: &str, body: &Value| Call::post(path(&cart, tail)).json(body);
    let open = json!({ "payment_id": "p-1", "window_seconds": 900 });
    let paying = done(&server, &post("/payment", &open), 200).json();
    assert_eq!(paying["payment"]["state"], "open");
    assert_eq!(
        (&paying["payment"]["payment_id"], &paying["payment"]["until"]),
        (&json!("p-1"), &paying["expires_at"])
    );
    assert_eq!(figures(&server, "tea"), [9, 0, 0, 2, 2, 7]);
    let calls = [
        Call::delete(path(&cart, "")),
        Call::new("PATCH", path(&cart, "")).json(&json!({ "ttl_seconds": 60 })),
        post("/extend", &json!({ "ttl_seconds": 60 })),
        post("/transfer", &json!({ "owner_id": "o" })),
        post("/split", &json!({ "lines": [{ "sku": "tea" }] })),
        post("/payment", &json!({ "payment_id": "p-2" })),
        post("/confirm", &json!({ "payment_id": "p-2" })),
    ];
    for call in &calls {
        let problem = refused(&server, call, 409, "payment_in_progress");
        assert_eq!((&problem["payment_id"], &problem["until"]), (&json!("p-1"), &paying["expires_at"]));
    }
    let too_long = json!({ "payment_id": "p-1", "window_seconds": 1_100 });
    refused(&server, &post("/payment", &too_long), 409, "extension_limit");
    // Another payment, or none: nothing to close.
    done(&server, &Call::delete(path(&cart, "/payment?payment_id=p-2")), 204);
    assert_eq!(server.item("tea")["held_under_payment"], 2);
    done(&server, &Call::delete(path(&cart, "/payment?payment_id=p-1&reason=declined")), 204);
    done(&server, &Call::delete(path(&cart, "/payment")), 204);
    let back = server.ask(&Call::get(path(&cart, ""))).json();
    assert_eq!((&back["expires_at"], &back["payment"]["state"]), (&cart["expires_at"], &json!("closed")));
    done(&server, &post("/payment", &json!({ "payment_id": "p-2" })), 200);
    let sold =
        done(&server, &post("/confirm", &json!({ "order_id": "o-1", "payment_id": "p-2" })), 200).json();
    assert_eq!((&sold["status"], &sold["payment"]["state"]), (&json!("confirmed"), &json!("closed")));
    let other =
        refused(&server, &post("/confirm", &json!({ "payment_id": "p-3" })), 409, "reservation_confirmed");
    assert_eq!((&other["order_id"], &other["payment_id"]), (&json!("o-1"), &json!("p-2")));
    let events = server.ask(&Call::get(path(&cart, "/events"))).json();
    let types: Vec<_> = events["data"].as_array().unwrap().iter().map(|event| &event["type"]).collect();
    let opened = "reservation.payment_opened";
    let expected =
        ["reservation.created", opened, "reservation.payment_closed", opened, "reservation.confirmed"];
    assert_eq!(types, expected);
    assert_eq!(events["data"][2]["reason"], "declined");
}

#[test]
fn a_payment_that_comes_late_gets_the_units_if_there_are_any() {
    let server = Server::start();
    server.stock("tea", 3);
    let short = json!({ "owner_id": "cart", "lines": [{ "sku": "tea", "quantity": 2 }], "ttl_seconds": 1 });
    let cart = done(&server, &Call::post("/v1/reservations").json(&short), 201).json();
    crate::support::wait_for("the hold to expire", || {
        let found = server.ask(&Call::get(path(&cart, ""))).json();
        (found["status"] == "expired").then_some(())
    });
    let confirm = |body: &Value| Call::post(path(&cart, "/confirm")).json(body);
    refused(&server, &confirm(&json!({ "order_id": "o-1" })), 409, "reservation_expired");
    let late = json!({ "order_id": "o-1", "payment_id": "p-1", "if_expired": "reacquire" });
    let blocker = reserve(&server, &json!([{ "sku": "tea", "quantity": 2 }]));
    let problem = refused(&server, &confirm(&late), 409, "insufficient_inventory");
    assert_eq!((&problem["reservation_expired"], &problem["available"]), (&json!(true), &json!(1)));
    done(&server, &Call::delete(path(&blocker, "")), 204);
    let sold = done(&server, &confirm(&late), 200).json();
    assert_eq!((&sold["status"], &sold["replaces"]), (&json!("confirmed"), &cart["reservation_id"]));
    let again = done(&server, &confirm(&late), 200).json();
    assert_eq!(again["reservation_id"], sold["reservation_id"]);
    let old = server.ask(&Call::get(path(&cart, ""))).json();
    assert_eq!((&old["status"], &old["replaced_by"]), (&json!("expired"), &sold["reservation_id"]));
    let other = json!({ "order_id": "o-2", "if_expired": "reacquire" });
    refused(&server, &confirm(&other), 409, "reservation_confirmed");
    assert_eq!(figures(&server, "tea"), [3, 2, 0, 0, 0, 1]);
}

#[test]
fn shipments_returns_and_a_count_of_the_shelf() {
    let server = Server::start();
    server.stock("tea", 100);
    let cart = reserve(&server, &json!([{ "sku": "tea", "quantity": 5 }]));
    let post = |tail: &str, body: &Value| Call::post(path(&cart, tail)).json(body);
    refused(&server, &post("/fulfil", &json!({})), 409, "reservation_not_confirmed");
    done(&server, &post("/confirm", &json!({})), 200);
    let three = json!({ "lines": [{ "sku": "tea", "quantity": 3 }] });
    let sent = done(&server, &post("/fulfil", &three).key("ship-1"), 200).json();
    assert_eq!(sent["lines"][0]["fulfilled_quantity"], 3);
    done(&server, &post("/fulfil", &three).key("ship-1"), 200);
    let problem = refused(&server, &post("/fulfil", &three), 409, "fulfil_exceeds_sold");
    assert_eq!((&problem["unfulfilled_units"], &problem["requested_quantity"]), (&json!(2), &json!(3)));
    assert_eq!(figures(&server, "tea"), [100, 5, 3, 0, 0, 95]);
    let item = server.item("tea");
    assert_eq!((&item["on_hand"], &item["unfulfilled_units"]), (&json!(97), &json!(2)));

    let broken = json!({
        "lines": [{ "sku": "tea" }], "from": "fulfilled", "disposition": "write_off", "reason": "broken",
    });
    done(&server, &post("/return", &broken), 200);
    assert_eq!(figures(&server, "tea"), [99, 4, 2, 0, 0, 95]);
    done(
        &server,
        &post("/return", &json!({ "lines": [{ "sku": "tea", "quantity": 2 }], "reason": "r" })),
        200,
    );
    assert_eq!(figures(&server, "tea"), [99, 2, 2, 0, 0, 97]);
    let none = json!({ "from": "unfulfilled", "reason": "r" });
    refused(&server, &post("/return", &none), 409, "return_exceeds_sold");

    // 95 units were counted when two had been shipped.
    let put = |body: &Value| Call::put("/v1/inventory/tea").json(body);
    let seen = json!({ "on_hand": 95, "fulfilled_units_seen": 2 });
    let counted = done(&server, &put(&seen), 200).json();
    assert_eq!((&counted["total_units"], &counted["on_hand"]), (&json!(97), &json!(95)));
    for (body, pointer) in [
        (json!({ "on_hand": 95 }), "/fulfilled_units_seen"),
        (json!({ "fulfilled_units_seen": 2 }), "/fulfilled_units_seen"),
        (json!({ "on_hand": 95, "fulfilled_units_seen": 2, "total_units": 97 }), "/on_hand"),
    ] {
        let problem = refused(&server, &put(&body), 400, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let events = server.ask(&Call::get("/v1/events?type=reservation.returned,stock.adjusted")).json();
    let back = &events["data"][0];
    assert_eq!(
        (&back["disposition"], &back["returned"][0]["fulfilled_quantity"]),
        (&json!("write_off"), &json!(1))
    );
    assert_eq!(events["data"][1]["delta"], -1);
}

#[test]
fn all_of_it_in_a_batch() {
    let server = Server::start();
    server.stock("tea", 10);
    let cart = reserve(&server, &json!([{ "sku": "tea", "quantity": 5 }]));
    let other = reserve(&server, &json!([{ "sku": "tea", "quantity": 1 }]));
    let id = &cart["reservation_id"];
    let commands = json!([
        { "op": "amend", "reservation_id": id, "lines": [{ "sku": "tea", "quantity": 4 }], "if_version": 1 },
        { "op": "amend", "reservation_id": id, "lines": [{ "sku": "tea", "quantity": 3 }], "if_version": 1 },
        { "op": "transfer", "reservation_id": id, "customer_id": "c" },
        { "op": "split", "reservation_id": id, "lines": [{ "sku": "tea" }] },
        { "op": "merge", "reservation_id": id, "from": [other["reservation_id"]] },
        { "op": "open_payment", "reservation_id": id, "payment_id": "p" },
        { "op": "close_payment", "reservation_id": id },
        { "op": "confirm", "reservation_id": id, "payment_id": "q" },
        { "op": "fulfil", "reservation_id": id, "lines": [{ "sku": "tea", "quantity": 2 }] },
        { "op": "return", "reservation_id": id, "lines": [{ "sku": "tea" }], "reason": "r" },
        { "op": "set_stock", "sku": "tea", "on_hand": 8, "fulfilled_units_seen": 2 },
    ]);
    let results =
        done(&server, &Call::post("/v1/commands").json(&json!({ "commands": commands })), 200).json();
    let results = results["results"].as_array().unwrap();
    let statuses: Vec<_> = results.iter().map(|result| result["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [200, 412, 200, 201, 200, 200, 204, 200, 200, 200, 200], "{results:#?}");
    assert_eq!(results[9]["reservation"]["lines"][0]["returned_quantity"], 1);
    assert_eq!(figures(&server, "tea"), [10, 3, 2, 1, 0, 6]);
}
