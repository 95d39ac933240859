//! Every payment method of the test provider, refunds, wrong requests and webhooks.

use super::{call, checkout, compare, hold, priced_item, reservation, shop, wait_for_state};
use crate::support::{Server, wait_for};
use serde_json::{Value, json};

fn start(server: &Server, id: &str, body: &Value, headers: &[(&str, &str)]) -> (u16, Value) {
    call(&server.url(), "POST", &format!("/v1/reservations/{id}/checkout"), Some(body), headers)
}

fn under(server: &Server, id: &str, tail: &str, body: Option<&Value>) -> (u16, Value) {
    call(&server.url(), "POST", &format!("/v1/reservations/{id}/{tail}"), body, &[])
}

#[test]
fn each_payment_method_comes_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (server, provider) = shop(dir.path());
    priced_item(&server, "tea", 1_000);
    let mut ids = Vec::new();
    for capture in ["after_confirm", "charge_then_confirm"] {
        for (method, status, state) in [
            ("approve", 200, "captured"),
            ("decline", 402, "declined"),
            ("require_action", 202, "requires_action"),
            ("timeout_before", 200, "captured"),
            ("timeout_after", 200, "captured"),
            ("answer_twice", 200, "captured"),
            ("error_remembered", 200, "captured"),
            ("refund_fails_three_times", 200, "captured"),
        ] {
            let id = hold(&server.url(), "tea", 2).unwrap();
            let mut body = checkout(method);
            body["capture"] = capture.into();
            body["extra"] = json!([{ "name": "postage", "amount": 490 }]);
            let (found, answer) = start(&server, &id, &body, &[]);
            assert_eq!(found, status, "{method}: {answer}");
            let shown = reservation(&server, &id);
            assert_eq!(shown["payment"]["state"], state, "{method}: {shown}");
            assert_eq!(shown["payment"]["amount"], 2_490, "{method}");
            if status == 200 {
                assert_eq!(
                    (&answer["status"], &answer["order"]["status"]),
                    (&"confirmed".into(), &"paid".into())
                );
                let order = answer["order"]["order_id"].as_str().unwrap();
                let (found, order) = call(&server.url(), "GET", &format!("/v1/orders/{order}"), None, &[]);
                assert_eq!((found, &order["reservation_id"]), (200, &id.as_str().into()), "{order}");
                assert_eq!(order["extra"][0]["name"], "postage");
            }
            ids.push(id);
        }
    }
    // A capture that fails for good returns the units and cancels the order.
    let id = hold(&server.url(), "tea", 3).unwrap();
    assert_eq!(start(&server, &id, &checkout("capture_fails"), &[]).0, 402);
    let shown = wait_for_state(&server, &id, "voided");
    assert_eq!(
        (&shown["order"]["status"], &shown["lines"][0]["returned_quantity"]),
        (&"cancelled".into(), &3.into())
    );
    ids.push(id);
    let (_, orders) = call(&server.url(), "GET", "/v1/orders?status=cancelled", None, &[]);
    assert_eq!(orders["data"].as_array().unwrap().len(), 1, "{orders}");
    compare(&server, &provider, &ids);
}

#[test]
fn a_buyer_acts_and_the_webhook_of_the_provider_moves_the_payment_on() {
    let dir = tempfile::tempdir().unwrap();
    let (server, provider) = shop(dir.path());
    priced_item(&server, "tea", 100);
    let mut ids = Vec::new();
    for (outcome, state, status) in
        [("approve", "captured", "confirmed"), ("decline", "declined", "cancelled")]
    {
        let id = hold(&server.url(), "tea", 1).unwrap();
        let (_, answer) = start(&server, &id, &checkout("require_action"), &[]);
        let provider_ref = answer["payment"]["provider_ref"].as_str().unwrap();
        assert_eq!(answer["payment"]["next_action"]["type"], "redirect", "{answer}");
        let (found, read) = call(&server.url(), "GET", &format!("/v1/reservations/{id}/checkout"), None, &[]);
        assert_eq!((found, &read["payment"]["next_action"]), (200, &answer["payment"]["next_action"]));
        assert_eq!(reservation(&server, &id)["payment"]["next_action"], Value::Null, "it is never stored");
        // No other command changes the reservation meanwhile.
        for tail in ["confirm", "checkout"] {
            let body = if tail == "confirm" { json!({}) } else { checkout("approve") };
            let (found, refused) = under(&server, &id, tail, Some(&body));
            assert_eq!((found, &refused["reason"]), (409, &"payment_in_progress".into()));
        }
        provider.complete(provider_ref, outcome);
        assert_eq!(wait_for_state(&server, &id, state)["status"], status);
        ids.push(id);
    }
    // Given up, before the buyer comes back.
    let id = hold(&server.url(), "tea", 1).unwrap();
    start(&server, &id, &checkout("require_action"), &[]);
    assert_eq!(under(&server, &id, "checkout/cancel", None).0, 200);
    let shown = wait_for_state(&server, &id, "voided");
    assert_eq!(
        (&shown["status"], &shown["close_reason"]),
        (&"cancelled".into(), &"payment_cancelled".into())
    );
    ids.push(id);
    compare(&server, &provider, &ids);
    let (_, events) = call(&server.url(), "GET", &format!("/v1/reservations/{}/events", ids[0]), None, &[]);
    let types: Vec<&str> =
        events["data"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = [
        "reservation.created",
        "payment.pending",
        "payment.requires_action",
        "payment.authorized",
        "reservation.confirmed",
        "payment.captured",
    ];
    assert_eq!(types, expected);
}

#[test]
fn refunds_are_made_however_often_the_provider_refuses_them_first() {
    let dir = tempfile::tempdir().unwrap();
    let (server, provider) = shop(dir.path());
    priced_item(&server, "tea", 100);
    let id = hold(&server.url(), "tea", 3).unwrap();
    start(&server, &id, &checkout("refund_fails_three_times"), &[]);
    let units = json!({ "lines": [{ "sku": "tea", "quantity": 1 }], "reason": "broken" });
    let (status, answer) = under(&server, &id, "refund", Some(&units));
    assert_eq!((status, &answer["payment"]["state"]), (200, &"refunding".into()), "{answer}");
    let shown = wait_for_state(&server, &id, "captured");
    assert_eq!(
        (&shown["payment"]["refunded_amount"], &shown["order"]["status"]),
        (&1_000.into(), &"partially_refunded".into())
    );
    assert_eq!(server.item("tea").unwrap().confirmed_sold, 2);
    let (status, refused) = under(&server, &id, "refund", Some(&json!({ "amount": 2_001, "reason": "x" })));
    assert_eq!(
        (status, &refused["reason"], &refused["refundable"]),
        (409, &"refund_exceeds_captured".into(), &2_000.into())
    );
    under(&server, &id, "refund", Some(&json!({ "reason": "all of it" })));
    assert_eq!(wait_for_state(&server, &id, "refunded")["order"]["status"], "refunded");
    assert_eq!(under(&server, &id, "refund/retry", None).0, 200, "nothing has failed");
    let own = hold(&server.url(), "tea", 1).unwrap();
    under(&server, &own, "confirm", Some(&json!({ "order_id": "by-hand" })));
    let (status, refused) = under(&server, &own, "refund", Some(&json!({ "reason": "x" })));
    assert_eq!((status, &refused["reason"]), (409, &"payment_not_captured".into()));
    assert_eq!(
        call(&server.url(), "GET", "/v1/orders/by-hand", None, &[]).0,
        404,
        "the caller took the money"
    );
    compare(&server, &provider, &[id]);
}

#[test]
fn a_checkout_is_made_once_for_its_key_and_wrong_ones_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (server, provider) = shop(dir.path());
    priced_item(&server, "tea", 100);
    let id = hold(&server.url(), "tea", 1).unwrap();
    let key = [("idempotency-key", "once")];
    for _ in 0..2 {
        let (status, answer) = start(&server, &id, &checkout("approve"), &key);
        assert_eq!((status, &answer["order"]["status"]), (200, &"paid".into()));
    }
    assert_eq!(start(&server, &id, &checkout("decline"), &key).0, 422);
    assert_eq!(provider.ledger().len(), 1);
    // A decline is an outcome too. It is remembered, and another try needs another key.
    let kept = hold(&server.url(), "tea", 1).unwrap();
    let mut body = checkout("decline");
    body["on_decline"] = "keep".into();
    for _ in 0..2 {
        let (status, answer) = start(&server, &kept, &body, &[("idempotency-key", "first")]);
        assert_eq!((status, &answer["provider_code"]), (402, &"card_declined".into()), "{answer}");
    }
    assert_eq!(start(&server, &kept, &checkout("approve"), &[("idempotency-key", "second")]).0, 200);
    let id = hold(&server.url(), "tea", 1).unwrap();
    for (body, pointer) in [
        (json!({}), "/payment_method"),
        (
            json!({ "payment_method": { "provider": "stripe", "method_ref": "pm" } }),
            "/payment_method/provider",
        ),
        (json!({ "payment_method": { "provider": "test", "method_ref": "" } }), "/payment_method/method_ref"),
        (
            json!({ "payment_method": { "provider": "test", "method_ref": "x" }, "return_url": "ftp://x" }),
            "/return_url",
        ),
        (
            json!({ "payment_method": { "provider": "test", "method_ref": "x" }, "capture": "later" }),
            "/capture",
        ),
    ] {
        let (status, answer) = start(&server, &id, &body, &[]);
        assert_eq!((status, &answer["errors"][0]["pointer"]), (400, &pointer.into()), "{answer}");
    }
    let unpriced = json!({ "total_units": 5 });
    call(&server.url(), "PUT", "/v1/inventory/cup", Some(&unpriced), &[]);
    let cup = hold(&server.url(), "cup", 1).unwrap();
    let (status, answer) = start(&server, &cup, &checkout("approve"), &[]);
    assert_eq!((status, &answer["reason"]), (409, &"price_missing".into()));
    // What nobody signed is not believed.
    let (status, answer) = call(
        &server.url(),
        "POST",
        "/v1/providers/test/webhook",
        Some(&json!({ "reservation_id": id })),
        &[],
    );
    assert_eq!((status, &answer["reason"]), (400, &"invalid_signature".into()));
    let wrong = [("stripe-signature", "t=1,v1=00")];
    assert_eq!(call(&server.url(), "POST", "/v1/providers/test/webhook", Some(&json!({})), &wrong).0, 400);
    assert_eq!(call(&server.url(), "POST", "/v1/providers/stripe/webhook", Some(&json!({})), &wrong).0, 404);
}

#[test]
fn a_reserve_may_begin_its_payment_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (server, provider) = shop(dir.path());
    priced_item(&server, "tea", 100);
    let mut pays = json!({ "owner_id": "b", "quantity": 2, "ttl_seconds": 60, "idempotency_key": "one" });
    pays["auto_checkout"] = checkout("approve");
    pays["auto_checkout"]["order_id"] = "order-7".into();
    let reserve = |body: &Value| call(&server.url(), "POST", "/v1/inventory/tea/reserve", Some(body), &[]);
    let (status, answer) = reserve(&pays);
    assert_eq!((status, &answer["payment"]["state"]), (200, &"pending".into()), "{answer}");
    let id = answer["reservation_id"].as_str().unwrap().to_owned();
    let shown = wait_for_state(&server, &id, "captured");
    assert_eq!((&shown["status"], &shown["order"]["order_id"]), (&"confirmed".into(), &"order-7".into()));
    assert_eq!(reserve(&pays).1["reservation_id"], id.as_str(), "a repeat begins nothing");
    // As one of many commands, and in a basket.
    let mut command =
        json!({ "op": "reserve", "owner_id": "b", "lines": [{ "sku": "tea" }], "ttl_seconds": 60 });
    command["auto_checkout"] = checkout("decline");
    let body = json!({ "commands": [command] });
    let (_, answer) = call(&server.url(), "POST", "/v1/commands", Some(&body), &[]);
    let declined = answer["results"][0]["reservation"]["reservation_id"].as_str().unwrap().to_owned();
    assert_eq!(wait_for_state(&server, &declined, "declined")["close_reason"], "payment_failed");
    for (member, value, pointer) in [
        ("provider", json!("stripe"), "/auto_checkout/payment_method/provider"),
        ("method_ref", json!(""), "/auto_checkout/payment_method/method_ref"),
    ] {
        let mut wrong = pays.clone();
        wrong["idempotency_key"] = "two".into();
        wrong["auto_checkout"]["payment_method"][member] = value;
        let (status, answer) = reserve(&wrong);
        assert_eq!((status, &answer["errors"][0]["pointer"]), (400, &pointer.into()), "{answer}");
    }
    compare(&server, &provider, &[id, declined]);
}

#[test]
fn a_provider_that_is_down_holds_up_the_payment_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (server, provider) = shop(dir.path());
    priced_item(&server, "tea", 100);
    drop(provider);
    let id = hold(&server.url(), "tea", 1).unwrap();
    let (status, answer) = start(&server, &id, &checkout("approve"), &[]);
    assert_eq!((status, &answer["payment"]["state"]), (202, &"pending".into()), "{answer}");
    assert_eq!(answer["payment"]["error"], "no_connection");
    assert!(hold(&server.url(), "tea", 1).is_some(), "others go on");
    let port = std::fs::read_to_string(dir.path().join("stockhold.toml")).unwrap();
    let port =
        port.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse().unwrap();
    let provider = super::Provider::start(dir.path(), port, None);
    wait_for("the payment", || (reservation(&server, &id)["order"]["status"] == "paid").then_some(()));
    compare(&server, &provider, &[id]);
}
