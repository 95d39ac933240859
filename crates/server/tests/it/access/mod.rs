//! Access control over the real server: every route without the right credential, restricted callers, tokens, hold tokens,
//! addresses behind proxies, browsers, limits that instances share, and the rules for listening.

mod answers;
mod events;
mod hosts;
mod http2;
mod listening;
pub(crate) mod redis;
mod restrictions;
mod routes;
mod secrets;
mod shared_limits;
mod tokens;
mod webhooks;

use crate::api::wire::{Answer, Call, Wire};
use crate::support::Server;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};

pub(crate) const ROOT: &str = "a-root-key-of-forty-characters-in-a-test";

/// A server whose root key is [`ROOT`], with further lines in its configuration file.
pub(super) fn server(dir: &tempfile::TempDir, settings: &str) -> Server {
    std::fs::write(dir.path().join("stockhold.toml"), format!("root_key = \"{ROOT}\"\n{settings}")).unwrap();
    Server::on(dir.path(), "data")
}

/// Sends a request, with a credential if there is one.
#[track_caller]
pub(crate) fn ask(server: &Server, credential: Option<&str>, call: Call) -> Answer {
    let call = match credential {
        Some(credential) => with_key(call, credential),
        None => call,
    };
    connect(server).ask(&call)
}

pub(crate) fn with_key(call: Call, credential: &str) -> Call {
    call.header("Authorization", format!("Bearer {credential}"))
}

pub(crate) fn connect(server: &Server) -> Wire {
    Wire::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, server.ports()[0])))
}

/// A new API key, with these fields besides its name and principal.
#[track_caller]
pub(crate) fn key(server: &Server, principal: &str, fields: &Value) -> String {
    let mut body = json!({ "name": "A key", "principal": principal });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    let answer = ask(server, Some(ROOT), Call::post("/v1/keys").json(&body));
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["key"].as_str().unwrap().to_owned()
}

#[track_caller]
pub(crate) fn stock(server: &Server, sku: &str, location: &str) {
    let call =
        Call::put(format!("/v1/inventory/{sku}?location={location}")).json(&json!({ "total_units": 100 }));
    assert_eq!(ask(server, Some(ROOT), call).status, 201);
}

/// Reserves one unit, and returns the reservation.
#[track_caller]
pub(crate) fn reserve(server: &Server, credential: &str, sku: &str, location: &str) -> Value {
    let body = json!({ "owner_id": "cart", "lines": [{ "sku": sku, "location": location }] });
    let answer = ask(server, Some(credential), Call::post("/v1/reservations").json(&body));
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

#[track_caller]
pub(super) fn id(reservation: &Value) -> &str {
    reservation["reservation_id"].as_str().unwrap()
}

/// The status and the reason of an answer.
pub(super) fn reason(answer: &Answer) -> (u16, String) {
    let reason = if answer.status < 400 {
        String::new()
    } else {
        answer.json()["reason"].as_str().unwrap().to_owned()
    };
    (answer.status, reason)
}
