//! The settings of endpoints: what is refused, what is shown, and secrets.

use super::{answer, call, create, server};
use crate::ctl::{done, json as json_of, refused};
use crate::support::{Server, wait_for};
use crate::web_application::{Answer, Application};
use serde_json::{Value, json};

#[test]
fn an_endpoint_is_created_read_changed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir);
    let request = json!({ "url": "https://shop.example/hook", "types": ["reservation.*"], "rate_limit": 5 });
    let raw = call(&server, "POST", "/v1/webhooks", &request);
    let made = answer(&raw, 201);
    let path = format!("/v1/webhooks/{}", made["webhook_id"].as_str().unwrap());
    assert_eq!(raw.headers["location"], path.as_str());
    assert_eq!((&made["status"], &made["rate_limit"]), (&json!("enabled"), &json!(5)));
    let mut shown = made.clone();
    shown.as_object_mut().unwrap().remove("secret");
    assert_eq!(answer(&call(&server, "GET", &path, &Value::Null), 200), shown);
    let changed = json!({ "rate_limit": null, "skus": ["lamp"], "status": "disabled" });
    let after = answer(&call(&server, "PATCH", &path, &changed), 200);
    assert_eq!(after["rate_limit"], Value::Null);
    assert_eq!((&after["skus"], &after["status"]), (&json!(["lamp"]), &json!("disabled")));
    assert_eq!(after["types"], json!(["reservation.*"]), "what is left out stays");
    let all = answer(&call(&server, "GET", "/v1/webhooks", &Value::Null), 200);
    assert_eq!(all["data"], json!([after]));
    for (method, rest, body) in
        [("POST", "/replay", json!({ "from_position": 1 })), ("POST", "/deliveries/x/retry", Value::Null)]
    {
        let refused = answer(&call(&server, method, &format!("{path}{rest}"), &body), 409);
        assert_eq!(refused["reason"], "webhook_disabled");
    }
    assert_eq!(call(&server, "DELETE", &path, &Value::Null).status, 204);
    let gone = answer(&call(&server, "GET", &path, &Value::Null), 404);
    assert_eq!(gone["reason"], "unknown_webhook");
}

#[test]
fn addresses_that_only_the_server_reaches_are_refused() {
    let server = Server::start();
    for (url, why) in [
        ("http://shop.example/hook", "must begin with https://"),
        ("ftp://shop.example/hook", "must begin with https://"),
        ("shop.example", "must begin with https://"),
        ("", "must be an address"),
        ("https://me:pass-word@shop.example/", "must have no user name"),
        ("https://127.0.0.1/", "no address that may be used"),
        ("https://[::1]/", "no address that may be used"),
        ("https://[::ffff:10.0.0.1]/", "no address that may be used"),
        ("https://169.254.169.254/latest/meta-data", "no address that may be used"),
    ] {
        let refused = answer(&call(&server, "POST", "/v1/webhooks", &json!({ "url": url })), 400);
        let error = &refused["errors"][0];
        assert_eq!(error["pointer"], "/url", "{url}: {refused}");
        assert!(error["detail"].as_str().unwrap().contains(why), "{url}: {refused}");
        assert!(!refused.to_string().contains("pass-word"), "{refused}");
    }
    for wrong in [
        json!({}),
        json!({ "url": "https://shop.example", "types": ["order.made"] }),
        json!({ "url": "https://shop.example", "types": ["reservation.*", "inventory.updated"] }),
        json!({ "url": "https://shop.example", "rate_limit": 0 }),
        json!({ "url": "https://shop.example", "status": "enabled" }),
        json!({ "url": "https://shop.example", "skus": vec!["a"; 101] }),
    ] {
        let refused = answer(&call(&server, "POST", "/v1/webhooks", &wrong), 400);
        assert_eq!(refused["reason"], "invalid_request", "{wrong}");
    }
    // The name leads to this machine, which is found when it is looked up.
    let (path, _) = create(&server, &json!({ "url": "https://localhost:1/hook" }));
    let test = answer(&call(&server, "POST", &format!("{path}/test"), &Value::Null), 202);
    assert_eq!(test["delivered"], false);
    let unusable = "the host has no address that may be used";
    assert_eq!(test["error"], unusable);
    // For a name that does not exist the text is the same.
    let (path, _) = create(&server, &json!({ "url": "https://nowhere.invalid/hook" }));
    let test = answer(&call(&server, "POST", &format!("{path}/test"), &Value::Null), 202);
    assert_eq!(test["error"], unusable);
}

#[test]
fn a_hundred_endpoints_are_the_most() {
    let server = Server::start();
    let request = json!({ "url": "https://shop.example/hook", "types": ["limit.set"] });
    for _ in 0..100 {
        create(&server, &request);
    }
    let refused = answer(&call(&server, "POST", "/v1/webhooks", &request), 409);
    assert_eq!(refused["reason"], "too_many_webhooks");
    let mut keyed = request;
    keyed["idempotency_key"] = json!("one more");
    let refused = answer(&call(&server, "POST", "/v1/webhooks", &keyed), 409);
    assert_eq!(refused["reason"], "too_many_webhooks");
    let all = answer(&call(&server, "GET", "/v1/webhooks", &Value::Null), 200);
    assert_eq!(all["data"].as_array().unwrap().len(), 100);
}

#[test]
fn a_repeated_request_creates_one_endpoint() {
    let server = Server::start();
    let request =
        json!({ "url": "https://shop.example/hook", "types": ["limit.set"], "idempotency_key": "k" });
    let first = answer(&call(&server, "POST", "/v1/webhooks", &request), 201);
    for _ in 0..98 {
        create(&server, &json!({ "url": "https://shop.example/other" }));
    }
    let again = call(&server, "POST", "/v1/webhooks", &request);
    let mut shown_again = first.clone();
    assert!(shown_again.as_object_mut().unwrap().remove("secret").is_some());
    assert_eq!(answer(&again, 201), shown_again, "a secret is shown once");
    assert_eq!(again.headers["idempotent-replayed"], "true");
    // Also when there are as many endpoints as there may be.
    create(&server, &json!({ "url": "https://shop.example/other" }));
    assert_eq!(answer(&call(&server, "POST", "/v1/webhooks", &request), 201), shown_again);
    let other =
        json!({ "url": "https://shop.example/hook", "types": ["limit.deleted"], "idempotency_key": "k" });
    let refused = answer(&call(&server, "POST", "/v1/webhooks", &other), 422);
    assert_eq!(refused["reason"], "idempotency_mismatch");
    let path = format!("/v1/webhooks/{}", first["webhook_id"].as_str().unwrap());
    call(&server, "DELETE", &path, &Value::Null);
    let gone = answer(&call(&server, "POST", "/v1/webhooks", &request), 404);
    assert_eq!(gone["reason"], "unknown_webhook", "it was created once, and deleted");
}

#[test]
fn a_repeated_rotation_makes_one_secret_and_shows_it_once() {
    let server = Server::start();
    let request = json!({ "url": "https://shop.example/hook", "idempotency_key": "made" });
    let made = answer(&call(&server, "POST", "/v1/webhooks", &request), 201);
    let path = format!("/v1/webhooks/{}", made["webhook_id"].as_str().unwrap());
    let rotate = |body: &Value| call(&server, "POST", &format!("{path}/rotate"), body);
    let keyed = json!({ "overlap_seconds": 60, "idempotency_key": "rotated" });
    let first = answer(&rotate(&keyed), 200);
    assert_ne!(first["secret"], made["secret"]);
    let again = rotate(&keyed);
    assert_eq!(answer(&again, 200), json!({}));
    assert_eq!(again.headers["idempotent-replayed"], "true");
    let other = json!({ "overlap_seconds": 61, "idempotency_key": "rotated" });
    assert_eq!(answer(&rotate(&other), 422)["reason"], "idempotency_mismatch");
    // Nor does the repeated creation show the secret of a rotation.
    assert_eq!(answer(&call(&server, "POST", "/v1/webhooks", &request), 201).get("secret"), None);
    let events = answer(&call(&server, "GET", "/v1/events?limit=100", &Value::Null), 200);
    let rotations = events["data"].as_array().unwrap().iter();
    assert_eq!(rotations.filter(|event| event["type"] == "endpoint.secret_rotated").count(), 1);
}

#[test]
fn both_secrets_sign_until_the_overlap_ends() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir);
    let application = Application::start(Answer::Status(200));
    let (path, first) = create(&server, &json!({ "url": application.url }));
    let test = |secrets: &[&str]| {
        let took = answer(&call(&server, "POST", &format!("{path}/test"), &Value::Null), 202);
        assert_eq!((&took["delivered"], &took["response_status"]), (&json!(true), &json!(200)));
        application.wait_for_kind("stockhold.webhook.test").signed_by(secrets)
    };
    assert_eq!(test(&[&first]), [1]);
    let rotate = |body: &Value| {
        let rotated = answer(&call(&server, "POST", &format!("{path}/rotate"), body), 200);
        rotated["secret"].as_str().unwrap().to_owned()
    };
    let second = rotate(&Value::Null);
    assert_eq!(test(&[&first, &second]), [1, 1]);
    let third = rotate(&json!({ "overlap_seconds": 0 }));
    assert_eq!(test(&[&first, &second, &third]), [0, 0, 1]);
}

#[test]
fn endpoints_are_managed_from_a_shell() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir);
    let application = Application::start(Answer::Status(204));
    let webhooks = |arguments: &[&str]| done(&server, &[&["webhooks"], arguments].concat());
    assert!(webhooks(&["list"]).contains("There are no endpoints"));
    let made = json_of(
        &server,
        &["webhooks", "create", &application.url, "--types", "reservation.*", "--sku", "lamp"],
    );
    let id = made["webhook_id"].as_str().unwrap();
    assert_eq!((&made["types"], &made["skus"]), (&json!(["reservation.*"]), &json!(["lamp"])));
    assert!(webhooks(&["list"]).contains(id));
    assert!(webhooks(&["get", id]).contains(&application.url));
    assert!(webhooks(&["test", id]).contains("204"));
    assert!(webhooks(&["rotate", id, "--overlap", "60"]).contains("whsec_"));
    assert!(webhooks(&["deliveries", id, "--status", "failed"]).contains("no such deliveries"));
    refused(&server, &["webhooks", "retry", id, "nobodys"], &["unknown_delivery"]);
    refused(&server, &["webhooks", "replay", id, "--from-position", "999"], &["from_position"]);
    assert!(webhooks(&["disable", id]).contains("disabled"));
    refused(&server, &["webhooks", "replay", id, "--since", "2020-01-01T00:00:00Z"], &["webhook_disabled"]);
    assert!(webhooks(&["enable", id]).contains("enabled"));
    webhooks(&["delete", id]);
    refused(&server, &["webhooks", "get", id], &["unknown_webhook"]);
}

#[test]
fn a_secret_is_shown_to_the_one_who_made_it_and_to_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir);
    let application = Application::start(Answer::Status(500));
    let url = format!("{}?token=query-secret", application.url);
    let (path, first) = create(&server, &json!({ "url": url }));
    let rotated = answer(&call(&server, "POST", &format!("{path}/rotate"), &Value::Null), 200);
    let second = rotated["secret"].as_str().unwrap().to_owned();
    application.wait_for(1);
    let read =
        |path: &str| String::from_utf8_lossy(&call(&server, "GET", path, &Value::Null).body).into_owned();
    let events = wait_for("the event of the rotation", || {
        Some(read("/v1/events?after=0")).filter(|events| events.contains("endpoint.secret_rotated"))
    });
    assert!(events.contains("endpoint.created"), "{events}");
    let delivered: String =
        application.deliveries().iter().map(|delivery| delivery.event().to_string()).collect();
    let shown = [
        read("/v1/webhooks"),
        read(&path),
        read(&format!("{path}/deliveries")),
        server.metrics(),
        server.log(),
    ];
    for text in shown.iter().chain([&events, &delivered]) {
        for secret in [&first, &second] {
            assert!(!text.contains(secret.as_str()) && !text.contains(&secret[6..]), "{text}");
        }
    }
    for text in [&events, &delivered, &shown[3], &shown[4]] {
        assert!(!text.contains("query-secret"), "{text}");
    }
}
