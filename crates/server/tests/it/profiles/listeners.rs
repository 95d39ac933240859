//! The listeners of the profiles: what they serve, as whom their clients act, and where they may bind.

use super::{ProfileServer, connect, data, held_and_sold, hub_reserve, refused, stock};
use crate::access::{ROOT, with_key};
use crate::api::wire::{Answer, Call};
use crate::support::{free_port, stockhold};
use serde_json::json;
use std::process::Output;

const PRINCIPALS: &str = r#"
[hub_principal]
name = "riders"
scopes = ["inventory:read", "reservations:write"]
locations = ["hub-1"]

[storefront_principal]
name = "shop"
scopes = ["reservations:write"]
"#;

fn at_root(call: &Call, prefix: &str) -> Call {
    let path = call.target().strip_prefix(prefix).unwrap().to_owned();
    let body =
        json!({ "hub_id": "hub-1", "sku": "milk", "qty": 1, "order_id": "order-1", "user_id": "user-1" });
    Call::new(call.method(), path).json(&body)
}

#[test]
fn a_listener_serves_its_profile_at_the_root_and_nothing_else() {
    let server = ProfileServer::start();
    let api = &mut server.api();
    stock(api, "hub-1", "milk", 10);
    stock(api, "default", "tea", 10);
    let with_prefix = hub_reserve("hub-1", "milk", 1, "order-1", "user-1");
    let hub = &mut server.hub();
    let made = data(&hub.ask_elsewhere(&at_root(&with_prefix, "/hub")));
    assert_eq!(data(&hub.ask_elsewhere(&with_prefix))["reservation_id"], made["reservation_id"]);
    assert_eq!(data(&hub.ask_elsewhere(&Call::get("/stock/hub-1/milk")))["available"], 9);
    assert_eq!(data(&hub.ask_elsewhere(&Call::get("/hub/stock/hub-1/milk")))["available"], 9);
    let one = json!({ "reservation_id": made["reservation_id"] });
    assert_eq!(data(&hub.ask_elsewhere(&Call::post("/confirm").json(&one)))["status"], "confirmed");
    let storefront = &mut server.storefront();
    let body = json!({ "sku": "tea", "qty": 1, "sessionId": "s" });
    for path in ["/reserve", "/storefront/reserve"] {
        assert_eq!(storefront.ask_elsewhere(&Call::post(path).json(&body)).status, 200, "{path}");
    }
    let none = ["/", "/docs", "/openapi.json", "/v1/inventory/tea", "/v1/events", "/metrics", "/stock", "/x"];
    for path in none {
        let answer = hub.ask_elsewhere(&Call::get(path));
        let body = refused(&answer, 404, "NOT_FOUND");
        assert!(body["detail"].as_str().is_some(), "{body}");
        let answer = storefront.ask_elsewhere(&Call::get(path));
        assert_eq!(refused(&answer, 404, "NOT_FOUND"), json!({ "error": "NOT_FOUND" }), "{path}");
    }
    refused(&hub.ask_elsewhere(&Call::post("/storefront/reserve").json(&body)), 404, "NOT_FOUND");
    refused(&storefront.ask_elsewhere(&Call::post("/hub/reserve").json(&body)), 404, "NOT_FOUND");
    refused(&hub.ask_elsewhere(&Call::get("/reserve")), 405, "METHOD_NOT_ALLOWED");
    // What is no request gets an answer in the profile's shape too.
    let mut wire = server.hub();
    wire.send(b"POST /reserve HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n");
    refused(&wire.answer(), 400, "INVALID_REQUEST");
    assert_eq!(held_and_sold(api, "default", "tea"), (2, 0));
}

#[test]
fn a_listener_s_clients_act_as_its_principal() {
    let server = ProfileServer::configured(&format!("root_key = \"{ROOT}\"\n{PRINCIPALS}"));
    let api = &mut server.api();
    for (location, sku) in [("hub-1", "milk"), ("hub-2", "milk"), ("default", "tea")] {
        let call = Call::put(format!("/v1/inventory/{sku}?location={location}"));
        assert_eq!(api.ask(&with_key(call.json(&json!({ "total_units": 9 })), ROOT)).status, 201);
    }
    let hub = &mut server.hub();
    let made = data(&hub.ask_elsewhere(&hub_reserve("hub-1", "milk", 1, "order-1", "user-1")));
    // A credential is not looked at.
    let known =
        hub.ask_elsewhere(&with_key(hub_reserve("hub-1", "milk", 1, "order-1", "user-1"), "nonsense"));
    assert_eq!(data(&known)["reservation_id"], made["reservation_id"]);
    let elsewhere = hub.ask_elsewhere(&hub_reserve("hub-2", "milk", 1, "order-1", "user-1"));
    assert!(refused(&elsewhere, 403, "FORBIDDEN")["detail"].as_str().unwrap().contains("hub-2"));
    refused(&hub.ask_elsewhere(&Call::get("/stock/hub-2/milk")), 403, "FORBIDDEN");
    let path = format!("/v1/reservations/{}/events", made["reservation_id"].as_str().unwrap());
    let events = api.ask(&with_key(Call::get(path), ROOT)).json();
    assert_eq!(events["data"][0]["actor"], "listener:riders");
    // A reservation elsewhere stays out of reach, and so do keys of other principals.
    let other = api.ask(&with_key(hub_reserve("hub-2", "milk", 1, "order-1", "user-1"), ROOT));
    let other = json!({ "reservation_id": data(&other)["reservation_id"] });
    refused(&hub.ask_elsewhere(&Call::post("/confirm").json(&other)), 403, "FORBIDDEN");
    let own = api.ask(&with_key(hub_reserve("hub-1", "milk", 1, "order-1", "user-1"), ROOT));
    assert_ne!(data(&own)["reservation_id"], made["reservation_id"], "keys belong to the principal");
    let storefront = &mut server.storefront();
    let body = json!({ "sku": "tea", "qty": 1, "sessionId": "s" });
    assert_eq!(storefront.ask_elsewhere(&Call::post("/reserve").json(&body)).status, 200);
}

#[test]
fn a_principal_without_the_scope_is_refused() {
    let settings = "[hub_principal]\nname = \"screens\"\nscopes = [\"inventory:read\"]\n";
    let server = ProfileServer::configured(settings);
    stock(&mut server.api(), "hub-1", "milk", 9);
    let hub = &mut server.hub();
    assert_eq!(data(&hub.ask_elsewhere(&Call::get("/stock/hub-1/milk")))["available"], 9);
    refused(&hub.ask_elsewhere(&hub_reserve("hub-1", "milk", 1, "o", "u")), 403, "FORBIDDEN");
}

/// Its clients send no credential, whatever those of the API do.
#[test]
fn a_listener_with_a_principal_has_no_other_name() {
    let settings = format!("root_key = \"a-root-key-of-forty-characters-in-a-test\"\n{PRINCIPALS}");
    let server = ProfileServer::configured(&settings);
    for (host, status) in [("127.0.0.1", 404), ("localhost:8111", 404), ("evil.example", 421)] {
        let hub = &mut server.hub();
        hub.send(format!("GET /stock/hub-1/milk HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        assert_eq!(hub.answer().status, status, "{host}");
    }
}

#[test]
fn clients_of_other_networks_are_turned_away() {
    let settings = format!(
        "trusted_proxies = [\"127.0.0.0/8\"]\n{}allowed_cidrs = [\"10.1.0.0/16\"]\n",
        "[hub_principal]\nname = \"riders\"\nscopes = [\"inventory:read\"]\n"
    );
    let server = ProfileServer::configured(&settings);
    stock(&mut server.api(), "hub-1", "milk", 9);
    let from = |address: &str| {
        let call = Call::get("/stock/hub-1/milk").header("X-Forwarded-For", address);
        server.hub().ask_elsewhere(&call)
    };
    assert_eq!(from("10.1.2.3").status, 200);
    let outside: Answer = from("10.2.0.1");
    assert!(refused(&outside, 401, "UNAUTHORIZED")["detail"].as_str().unwrap().contains("10.2.0.1"));
    assert_eq!(
        server.api().ask(&Call::get("/hub/stock/hub-1/milk")).status,
        200,
        "the API has rules of its own"
    );
}

#[test]
fn without_a_principal_a_listener_needs_the_credentials_of_the_api() {
    let server = ProfileServer::configured(&format!("root_key = \"{ROOT}\"\n"));
    let stock = Call::put("/v1/inventory/milk?location=hub-1").json(&json!({ "total_units": 9 }));
    assert_eq!(server.api().ask(&with_key(stock, ROOT)).status, 201);
    let read = Call::get("/hub/stock/hub-1/milk");
    for wire in [&mut server.hub(), &mut server.api()] {
        let answer = wire.ask_elsewhere(&read);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        refused(&answer, 401, "UNAUTHORIZED");
        assert_eq!(data(&wire.ask_elsewhere(&with_key(read.clone(), ROOT)))["available"], 9);
    }
}

#[test]
fn an_address_that_others_reach_needs_a_principal() {
    let dir = tempfile::tempdir().unwrap();
    let started = |settings: &str, flags: &[&str]| {
        std::fs::write(dir.path().join("stockhold.toml"), settings).unwrap();
        let listen = format!("--listen=127.0.0.1:{}", free_port());
        let Output { status, stderr, .. } = stockhold(dir.path())
            .args(["serve", &listen, "--admin-listen=127.0.0.1:0", "--data-dir=data"])
            .args(flags)
            .output()
            .unwrap();
        (status.code(), String::from_utf8_lossy(&stderr).into_owned())
    };
    for (flag, table) in [
        ("--hub-listen=0.0.0.0:0", "[hub_principal]"),
        ("--storefront-listen=[::]:0", "[storefront_principal]"),
    ] {
        let (code, text) = started("plain_http = true\n", &[flag]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("without a principal") && text.contains(table), "{text}");
    }
    let (code, text) = started(PRINCIPALS, &["--hub-listen=0.0.0.0:0"]);
    assert!(code == Some(2) && text.contains("without TLS") && text.contains("plain_http"), "{text}");
    for (settings, what) in [
        (
            "[hub_principal]\nname = \"a\"\nscopes = [\"all\"]\n",
            "hub_principal.scopes: \"all\" is not a scope",
        ),
        ("[hub_principal]\nscopes = [\"inventory:read\"]\n", "hub_principal.name: "),
        ("[hub_principal]\nname = \"a\"\nscope = []\n", "scope is not a setting; did you mean scopes?"),
        ("hub_principal = \"a\"\n", "must be a table, [hub_principal]"),
    ] {
        let (code, text) = started(settings, &[]);
        assert!(code == Some(2) && text.contains(what), "{settings}: {text}");
    }
    assert!(!dir.path().join("data").exists(), "nothing was begun");
}

#[test]
fn a_stop_ends_the_listeners_in_order() {
    let mut server = ProfileServer::start();
    stock(&mut server.api(), "hub-1", "milk", 9);
    let port = server.hub_port;
    data(&connect(port).ask_elsewhere(&hub_reserve("hub-1", "milk", 1, "order-1", "user-1")));
    assert!(server.server.terminate().success());
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}
