//! Customers of two instances over one database.

use super::{EMAIL, FIRST_KEY, SECOND_KEY, VARIABLE, anna, delete, get, put, send};
use crate::checkout::{Provider, compare, configure, hold, priced_item};
use crate::support::{Server, free_port};
use serde_json::json;

/// What one instance writes the other one reads, with conditions and checkouts, and with different first keys during a rotation.
pub(crate) fn two_instances_share_customers(store: &str) {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    configure(dir.path(), port);
    let file = dir.path().join("stockhold.toml").display().to_string();
    let (old_first, new_first) = (format!("{FIRST_KEY},{SECOND_KEY}"), format!("{SECOND_KEY},{FIRST_KEY}"));
    let over = |keys: &str| Server::over_with(store, &[("STOCKHOLD_CONFIG", &file), (VARIABLE, keys)]);
    let (mut first, second) = (over(&old_first), over(&new_first));
    let webhook = format!("{}/v1/providers/test/webhook", second.url());
    let provider = Provider::start(dir.path(), port, Some(&webhook));
    priced_item(&first, "tea", 100);
    let made = put(&first, "anna", &anna("approve"));
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(get(&second, "anna").body, made.body);
    let change = |server: &Server, tag: &str| {
        let path = "/v1/customers/anna";
        send(&server.url(), "PUT", path, Some(&anna("approve")), &[("if-match", tag)])
    };
    let tag = made.etag.unwrap();
    let changed = change(&second, &tag);
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(change(&first, &tag).reason(), (412, "precondition_failed"));
    let mut ids = Vec::new();
    for server in [&first, &second] {
        let id = hold(&server.url(), "tea", 1).unwrap();
        let path = format!("/v1/reservations/{id}/checkout");
        let paid = send(&server.url(), "POST", &path, Some(&json!({ "customer_id": "anna" })), &[]);
        assert_eq!((paid.status, &paid.body["order"]["status"]), (200, &"paid".into()), "{paid:?}");
        ids.push(id);
    }
    let orders = send(&first.url(), "GET", "/v1/orders?customer_id=anna", None, &[]).body;
    assert_eq!(orders["data"].as_array().unwrap().len(), 2, "{orders}");
    // The rotation ends, and one instance is killed.
    assert_eq!(put(&first, "ben", &anna("approve")).status, 201);
    let page = send(&second.url(), "POST", "/v1/customer-keys/rewrap", None, &[]);
    assert_eq!(page.body, json!({ "customers": 2, "rewrapped": 1, "has_more": false }));
    first.kill();
    let third = over(SECOND_KEY);
    assert_eq!(get(&third, "ben").body["email"], EMAIL);
    assert_eq!(delete(&third, "anna").status, 204);
    assert_eq!(get(&second, "anna").reason(), (404, "unknown_customer"));
    compare(&second, &provider, &ids);
    let events = send(&second.url(), "GET", "/v1/events?limit=100", None, &[]).body.to_string();
    assert!(!events.contains(EMAIL) && !events.contains("cus_personal"), "{events}");
}
