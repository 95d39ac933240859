//! Checkouts with the stored payment method of a customer.

use super::{FIRST_KEY, VARIABLE, anna, delete, get, put, send};
use crate::checkout::{Provider, compare, configure, hold, priced_item, reservation, wait_for_state};
use crate::support::{Server, free_port, wait_for};
use serde_json::{Value, json};
use std::path::Path;

fn shop(dir: &Path) -> (Server, Provider) {
    let port = free_port();
    configure(dir, port);
    let server = Server::with_variables(dir, "data", &[(VARIABLE, FIRST_KEY)]);
    let webhook = format!("{}/v1/providers/test/webhook", server.url());
    let provider = Provider::start(dir, port, Some(&webhook));
    priced_item(&server, "tea", 1_000);
    (server, provider)
}

fn pay(server: &Server, id: &str, body: &Value, key: Option<&str>) -> super::Answer {
    let headers: Vec<(&str, &str)> = key.iter().map(|key| ("idempotency-key", *key)).collect();
    send(&server.url(), "POST", &format!("/v1/reservations/{id}/checkout"), Some(body), &headers)
}

fn by(customer: &str) -> Value {
    json!({ "customer_id": customer })
}

#[test]
fn a_customer_pays_with_the_stored_method_and_has_the_order() {
    let dir = tempfile::tempdir().unwrap();
    let (server, provider) = shop(dir.path());
    assert_eq!(put(&server, "anna", &anna("approve")).status, 201);
    let id = hold(&server.url(), "tea", 2).unwrap();
    let paid = pay(&server, &id, &by("anna"), Some("once"));
    assert_eq!((paid.status, &paid.body["order"]["status"]), (200, &"paid".into()), "{paid:?}");
    let order = paid.body["order"]["order_id"].as_str().unwrap();
    let shown = send(&server.url(), "GET", &format!("/v1/orders/{order}"), None, &[]).body;
    assert_eq!(shown["customer_id"], "anna", "{shown}");
    let listed = |customer: &str| {
        let path = format!("/v1/orders?customer_id={customer}");
        send(&server.url(), "GET", &path, None, &[]).body["data"].as_array().unwrap().len()
    };
    assert_eq!((listed("anna"), listed("ben")), (1, 0));
    // The encryption is another one each time, and the request is the same.
    let again = pay(&server, &id, &by("anna"), Some("once"));
    assert_eq!((again.status, &again.body["order"]), (200, &paid.body["order"]), "{again:?}");
    assert_eq!(pay(&server, &id, &by("ben"), Some("once")).reason(), (422, "idempotency_mismatch"));
    // A replay and a refund need nothing of an erased customer.
    assert_eq!(delete(&server, "anna").status, 204);
    assert_eq!(pay(&server, &id, &by("anna"), Some("once")).status, 200);
    let refund = json!({ "reason": "late" });
    send(&server.url(), "POST", &format!("/v1/reservations/{id}/refund"), Some(&refund), &[]);
    wait_for_state(&server, &id, "refunded");
    assert_eq!(listed("anna"), 1, "the order stays");
    compare(&server, &provider, &[id]);
}

#[test]
fn a_checkout_with_a_customer_is_refused_without_a_method() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _provider) = shop(dir.path());
    let id = hold(&server.url(), "tea", 1).unwrap();
    let version = reservation(&server, &id)["version"].clone();
    assert_eq!(pay(&server, &id, &by("anna"), Some("k")).reason(), (409, "payment_method_missing"));
    assert_eq!(put(&server, "anna", &json!({ "email": "a@example.com" })).status, 201);
    assert_eq!(pay(&server, &id, &by("anna"), Some("k")).reason(), (409, "payment_method_missing"));
    let stripe = json!({ "provider_refs": { "stripe": { "method_ref": "pm_1" } } });
    assert_eq!(put(&server, "anna", &stripe).status, 200);
    assert_eq!(pay(&server, &id, &by("anna"), Some("k")).reason(), (409, "payment_method_missing"));
    let both = json!({
        "customer_id": "anna", "payment_method": { "provider": "test", "method_ref": "approve" },
    });
    let answer = pay(&server, &id, &both, None);
    assert_eq!(answer.reason(), (400, "invalid_request"));
    assert_eq!(answer.body["errors"][0]["pointer"], "/customer_id", "{answer:?}");
    let answer = pay(&server, &id, &json!({}), None);
    assert_eq!(answer.body["errors"][0]["pointer"], "/payment_method", "{answer:?}");
    assert_eq!(reservation(&server, &id)["version"], version, "nothing was changed");
    // The key is free for the same request, once the customer has a method.
    assert_eq!(put(&server, "anna", &anna("approve")).status, 200);
    assert_eq!(pay(&server, &id, &by("anna"), Some("k")).status, 200);
}

#[test]
fn without_a_provider_or_a_key_the_checkout_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with_variables(dir.path(), "data", &[(VARIABLE, FIRST_KEY)]);
    priced_item(&server, "tea", 10);
    let id = hold(&server.url(), "tea", 1).unwrap();
    let answer = pay(&server, &id, &by("anna"), None);
    assert_eq!(answer.reason(), (400, "invalid_request"));
    assert_eq!(answer.body["errors"][0]["pointer"], "/customer_id", "{answer:?}");
    drop(server);
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), free_port());
    let server = Server::on(dir.path(), "data");
    priced_item(&server, "tea", 10);
    let id = hold(&server.url(), "tea", 1).unwrap();
    assert_eq!(pay(&server, &id, &by("anna"), None).reason(), (409, "encryption_key_missing"));
}

#[test]
fn a_reserve_and_a_batch_pay_with_a_customer_too() {
    let dir = tempfile::tempdir().unwrap();
    let (server, provider) = shop(dir.path());
    assert_eq!(put(&server, "anna", &anna("approve")).status, 201);
    let reserve = |customer: &str| json!({ "owner_id": "o", "quantity": 1, "ttl_seconds": 60, "auto_checkout": by(customer) });
    let path = "/v1/inventory/tea/reserve";
    let key = [("idempotency-key", "reserve-1")];
    let made = send(&server.url(), "POST", path, Some(&reserve("anna")), &key);
    let id = made.body["reservation_id"].as_str().unwrap().to_owned();
    wait_for_state(&server, &id, "captured");
    let again = send(&server.url(), "POST", path, Some(&reserve("anna")), &key);
    assert_eq!(again.body["reservation_id"], id.as_str(), "a replay");
    let refused = send(&server.url(), "POST", path, Some(&reserve("ben")), &[]);
    assert_eq!(refused.reason(), (409, "payment_method_missing"));
    let command = |customer: &str| {
        json!({
            "op": "reserve", "owner_id": "o", "ttl_seconds": 60, "lines": [{ "sku": "tea" }],
            "auto_checkout": by(customer),
        })
    };
    let batch = json!({ "commands": [command("anna"), command("ben")] });
    let answer = send(&server.url(), "POST", "/v1/commands", Some(&batch), &[]).body;
    let statuses: Vec<_> =
        answer["results"].as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
    assert_eq!(statuses, [json!(201), json!(409)], "{answer}");
    compare(&server, &provider, &[id]);
}

#[test]
fn a_customer_is_not_erased_while_a_payment_needs_its_data() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, provider) = shop(dir.path());
    for id in ["anna", "ben"] {
        assert_eq!(put(&server, id, &anna("require_action")).status, 201);
    }
    let id = hold(&server.url(), "tea", 1).unwrap();
    let mut body = by("anna");
    body["return_url"] = "https://shop.example".into();
    let waiting = pay(&server, &id, &body, None);
    assert_eq!(waiting.status, 202, "{waiting:?}");
    let refused = delete(&server, "anna");
    assert_eq!(refused.reason(), (409, "payment_in_progress"));
    assert_eq!(refused.body["payment_id"], waiting.body["payment"]["payment_id"], "{refused:?}");
    assert_eq!(delete(&server, "ben").status, 204, "another customer");
    server.kill();
    server.restart();
    assert_eq!(delete(&server, "anna").reason(), (409, "payment_in_progress"));
    provider.complete(waiting.body["payment"]["provider_ref"].as_str().unwrap(), "approve");
    wait_for_state(&server, &id, "captured");
    assert_eq!(delete(&server, "anna").status, 204);
    assert_eq!(get(&server, "anna").status, 404);
    compare(&server, &provider, &[id]);
}

#[test]
fn the_method_of_a_payment_is_the_one_of_its_checkout_over_changes_and_kills() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, provider) = shop(dir.path());
    assert_eq!(put(&server, "anna", &anna("timeout_after")).status, 201);
    let id = hold(&server.url(), "tea", 1).unwrap();
    let url = server.url();
    let pending = std::thread::scope(|scope| {
        let (url, id) = (&url, &id);
        scope.spawn(move || {
            let path = format!("/v1/reservations/{id}/checkout");
            crate::checkout::try_call(url, "POST", &path, Some(&by("anna")), &[])
        });
        wait_for("the payment at the provider", || (!provider.ledger().is_empty()).then_some(()));
        // Another method from now on: the payment that is under way keeps its own.
        assert_eq!(put(&server, "anna", &anna("decline")).status, 200);
        server.kill();
        id.clone()
    });
    server.restart();
    wait_for_state(&server, &pending, "captured");
    compare(&server, &provider, &[pending]);
    let id = hold(&server.url(), "tea", 1).unwrap();
    assert_eq!(pay(&server, &id, &by("anna"), None).reason(), (402, "payment_declined"));
}

#[test]
fn a_payment_whose_customer_was_erased_is_declined() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    configure(dir.path(), port);
    let mut server = Server::with_variables(dir.path(), "data", &[(VARIABLE, FIRST_KEY)]);
    priced_item(&server, "tea", 10);
    assert_eq!(put(&server, "anna", &anna("approve")).status, 201);
    // No provider answers, so the payment stays pending.
    let id = hold(&server.url(), "tea", 1).unwrap();
    assert_eq!(pay(&server, &id, &by("anna"), None).status, 202);
    assert!(server.terminate().success());
    // As a deletion that came in the same moment as the checkout.
    let db = rusqlite::Connection::open(dir.path().join("data/customers.db")).unwrap();
    assert_eq!(db.execute("DELETE FROM customers", []).unwrap(), 1);
    drop(db);
    server.restart();
    let provider = Provider::start(dir.path(), port, None);
    let shown = wait_for_state(&server, &id, "declined");
    assert_eq!(shown["payment"]["error"], "customer_erased", "{shown}");
    assert_eq!(shown["status"], "cancelled");
    assert_eq!(provider.ledger(), Vec::<Value>::new());
}
