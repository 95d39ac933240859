//! The routes: what they take and refuse.

use super::{Answer, EMAIL, FIRST_KEY, anna, delete, get, put, send, server};
use crate::support::Server;
use serde_json::json;

#[test]
fn a_customer_is_stored_read_replaced_and_erased() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path(), FIRST_KEY);
    assert_eq!(get(&server, "anna").reason(), (404, "unknown_customer"));
    let made = put(&server, "anna", &anna("approve"));
    assert_eq!((made.status, &made.body["email"]), (201, &EMAIL.into()), "{made:?}");
    assert_eq!(made.etag, Some(format!("\"{}\"", made.body["version"])));
    let shown = get(&server, "anna");
    assert_eq!((shown.status, &shown.body, &shown.etag), (200, &made.body, &made.etag));
    assert_eq!(shown.body["provider_refs"]["test"]["method_ref"], "approve");
    // All of it is replaced.
    let replaced = put(&server, "anna", &json!({ "provider_refs": {}, "locale": "en" }));
    assert_eq!(replaced.status, 200);
    assert_ne!(replaced.etag, made.etag, "another version");
    let shown = get(&server, "anna").body;
    assert_eq!(
        shown,
        json!({
            "customer_id": "anna", "provider_refs": {}, "locale": "en", "version": replaced.body["version"],
        })
    );
    // An id with every kind of character.
    let odd = "a%2Fb%20%C3%A9%3F";
    assert_eq!(put(&server, odd, &anna("approve")).body["customer_id"], "a/b \u{e9}?");
    assert_eq!(delete(&server, odd).status, 204);
    assert_eq!(delete(&server, odd).reason(), (404, "unknown_customer"));
    assert_eq!(delete(&server, "anna").status, 204);
    assert_eq!(get(&server, "anna").reason(), (404, "unknown_customer"));
    // One that is made again has nothing of the one before.
    assert_eq!(put(&server, "anna", &json!({})).status, 201);
    assert_eq!(get(&server, "anna").body["email"], json!(null));
}

#[test]
fn a_write_with_a_condition_overwrites_nothing_unseen() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path(), FIRST_KEY);
    let change = |method: &str, header: (&str, &str)| -> Answer {
        let body = (method == "PUT").then(|| anna("approve"));
        send(&server.url(), method, "/v1/customers/anna", body.as_ref(), &[header])
    };
    assert_eq!(change("PUT", ("if-match", "\"1\"")).reason(), (412, "precondition_failed"));
    let made = change("PUT", ("if-none-match", "*"));
    assert_eq!(made.status, 201);
    let first = made.etag.unwrap();
    let again = change("PUT", ("if-none-match", "*"));
    assert_eq!(
        (again.reason(), &again.body["version"]),
        ((412, "precondition_failed"), &made.body["version"])
    );
    let second = change("PUT", ("if-match", &first));
    assert_eq!(second.status, 200);
    assert_eq!(change("PUT", ("if-match", &first)).reason(), (412, "precondition_failed"));
    assert_eq!(change("DELETE", ("if-match", &first)).reason(), (412, "precondition_failed"));
    assert_eq!(change("DELETE", ("if-match", &second.etag.unwrap())).status, 204);
    assert_eq!(change("DELETE", ("if-match", "*")).reason(), (412, "precondition_failed"));
    // The version before does not fit a customer that was made again.
    assert_eq!(change("PUT", ("if-none-match", "*")).status, 201);
    assert_eq!(change("PUT", ("if-match", &first)).reason(), (412, "precondition_failed"));
}

#[test]
fn writers_without_a_condition_all_succeed_and_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path(), FIRST_KEY);
    let emails: Vec<String> = (0..4).map(|n| format!("writer{n}@example.com")).collect();
    std::thread::scope(|scope| {
        for email in &emails {
            let server = &server;
            scope.spawn(move || {
                for _ in 0..10 {
                    let answer = put(server, "anna", &json!({ "email": email }));
                    assert!(matches!(answer.status, 200 | 201 | 503), "{answer:?}");
                }
            });
        }
    });
    let shown = get(&server, "anna");
    assert!(emails.iter().any(|email| shown.body["email"] == email.as_str()), "{shown:?}");
}

#[test]
fn wrong_input_is_refused_and_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path(), FIRST_KEY);
    let method = |method_ref: &str| json!({ "provider_refs": { "test": { "method_ref": method_ref } } });
    let cases = [
        (json!({ "email": "secret" }), "/email"),
        (json!({ "email": "secret@example.com\r\nBcc: secret@example.com" }), "/email"),
        (json!({ "email": 4_711_004_711_u64 }), "/email"),
        (json!({ "push_token": "secret secret" }), "/push_token"),
        (json!({ "push_token": "s".repeat(4_097) }), "/push_token"),
        (json!({ "locale": "secret_secret" }), "/locale"),
        (json!({ "locale": null }), "/locale"),
        (method(""), "/provider_refs/test/method_ref"),
        (method(&"s".repeat(256)), "/provider_refs/test/method_ref"),
        (
            json!({ "provider_refs": { "test": { "customer_ref": "secret" } } }),
            "/provider_refs/test/method_ref",
        ),
        (json!({ "provider_refs": { "Test": { "method_ref": "secret" } } }), "/provider_refs/Test"),
        (json!({ "provider_refs": { "test": "secret" } }), "/provider_refs/test"),
        (json!({ "name": "secret" }), "/name"),
    ];
    for (body, pointer) in cases {
        let answer = put(&server, "anna", &body);
        assert_eq!(answer.reason(), (400, "invalid_request"), "{body}");
        assert_eq!(answer.body["errors"][0]["pointer"], pointer, "{answer:?}");
        let text = answer.body.to_string();
        assert!(
            !text.contains("secret") && !text.contains("4711004711") && !text.contains("sssss"),
            "{text}"
        );
    }
    let longest = json!({
        "provider_refs": { "test": { "method_ref": "m".repeat(255), "customer_ref": "\"".repeat(255) } },
        "email": format!("{}@{}.example", "a".repeat(64), "b".repeat(181)),
        "push_token": "\\".repeat(4_096), "locale": "de-CH",
    });
    assert_eq!(put(&server, "anna", &longest).status, 201);
    assert_eq!(get(&server, "anna").body["push_token"], longest["push_token"]);
    assert!(!server.log().contains("secret"));
}

#[test]
fn without_a_key_the_routes_say_how_to_set_one() {
    let server = Server::start();
    for answer in [put(&server, "anna", &anna("approve")), get(&server, "anna"), delete(&server, "anna")] {
        assert_eq!(answer.reason(), (409, "encryption_key_missing"));
        let detail = answer.body["detail"].as_str().unwrap();
        for part in ["customers.encryption_keys", "openssl rand -base64 32", super::VARIABLE] {
            assert!(detail.contains(part), "{detail}");
        }
    }
    let rewrap = send(&server.url(), "POST", "/v1/customer-keys/rewrap", None, &[]);
    assert_eq!(rewrap.reason(), (409, "encryption_key_missing"));
    assert!(!server.dir().join("data/customers.db").exists(), "no file without a customer");
}

#[test]
fn each_route_needs_its_scope() {
    const ROOT: &str = "root-key-of-this-test-0123456789abcdef";
    let dir = tempfile::tempdir().unwrap();
    let variables = [(super::VARIABLE, FIRST_KEY), ("STOCKHOLD_ROOT_KEY", ROOT)];
    let server = Server::with_variables(dir.path(), "data", &variables);
    let key = |fields: serde_json::Value| {
        let mut body = json!({ "name": "n", "principal": "shop" });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let authorization = format!("Bearer {ROOT}");
        let made = send(&server.url(), "POST", "/v1/keys", Some(&body), &[("authorization", &authorization)]);
        format!("Bearer {}", made.body["key"].as_str().unwrap_or_else(|| panic!("{made:?}")))
    };
    let reader = key(json!({ "scopes": ["customers:read"] }));
    let writer = key(json!({ "scopes": ["customers:write"] }));
    let local = key(json!({ "scopes": ["customers:read", "customers:write"], "locations": ["hub-1"] }));
    let ask = |key: &str, method: &str, path: &str| {
        let body = (method == "PUT").then(|| anna("approve"));
        send(&server.url(), method, path, body.as_ref(), &[("authorization", key)]).status
    };
    let all = |key: &str| {
        let customer = "/v1/customers/anna";
        [
            ask(key, "PUT", customer),
            ask(key, "GET", customer),
            ask(key, "POST", "/v1/customer-keys/rewrap"),
            ask(key, "DELETE", customer),
        ]
    };
    assert_eq!(all(&writer), [201, 403, 200, 204]);
    assert_eq!(all(&reader), [403, 404, 403, 403]);
    assert_eq!(all(&local), [403; 4], "personal data belongs to no location");
    assert_eq!(send(&server.url(), "GET", "/v1/customers/anna", None, &[]).status, 401);
}
