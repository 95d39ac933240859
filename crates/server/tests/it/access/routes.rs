//! Every route of the route table with every kind of wrong credential.

use super::{ROOT, ask, key, server};
use crate::api::wire::{Answer, Call};
use crate::support::Server;
use serde_json::json;
use stockhold_api::routes::{Body, RequiredScope, RouteId, RouteSpec};
use stockhold_service::{NewApiKey, Scope};

/// A request of the route, about things that do not exist.
fn call(spec: &RouteSpec) -> Call {
    let path = spec
        .path
        .replace("{sku}", "nothing")
        .replace("{unit_id}", "nothing")
        .replace("{id}", "01890a5d-ac96-774b-bcce-b302099a8057")
        .replace("{reservation_id}", "01890a5d-ac96-774b-bcce-b302099a8057")
        .replace("{key_id}", "key_000102030405060708090a0b0c0d0e0f")
        .replace("{reason}", "nothing");
    assert!(!path.contains('{'), "{path}");
    let call = Call::new(spec.method.name(), path);
    match spec.body {
        Body::None => call,
        Body::Optional { .. } | Body::Required { .. } => call.json(&json!({})),
    }
}

fn closed_routes() -> impl Iterator<Item = (&'static RouteSpec, Option<Scope>)> {
    RouteId::ALL.iter().filter_map(|id| match id.spec().scope {
        RequiredScope::Open => None,
        RequiredScope::One(scope) => Some((id.spec(), Some(scope))),
        RequiredScope::EachCommand => Some((id.spec(), None)),
    })
}

#[track_caller]
fn check(answer: &Answer, spec: &RouteSpec, credential: &str) {
    assert_eq!(answer.status, 401, "{}: {answer:?}", spec.operation);
    assert_eq!(answer.json()["credential"], credential, "{}", spec.operation);
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
}

#[test]
fn no_route_answers_without_a_good_credential() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    let every: Vec<_> = Scope::ALL.iter().map(|scope| scope.name()).collect();
    let made = |fields: &serde_json::Value| key(&server, "shop", fields);
    let revoked = made(&json!({ "scopes": every }));
    let elsewhere = made(&json!({ "scopes": every, "allowed_cidrs": ["192.0.2.0/24"] }));
    let id = ask(&server, Some(ROOT), Call::get("/v1/keys?limit=1000")).json()["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|key| key["allowed_cidrs"].is_null())
        .map(|key| key["key_id"].as_str().unwrap().to_owned())
        .unwrap();
    assert_eq!(ask(&server, Some(ROOT), Call::delete(format!("/v1/keys/{id}"))).status, 204);
    // Another key with the same checksum rule: the last one with its random part changed fails the checksum.
    let mistyped = format!("{}0{}", &elsewhere[..12], &elsewhere[13..]);
    let unknown = NewApiKey::generate().unwrap();
    let mut routes = 0;
    for (spec, _) in closed_routes() {
        check(&ask(&server, None, call(spec)), spec, "missing");
        check(&ask(&server, Some("secret"), call(spec)), spec, "malformed");
        check(&ask(&server, Some(unknown.reveal()), call(spec)), spec, "unknown");
        if mistyped != elsewhere {
            check(&ask(&server, Some(&mistyped), call(spec)), spec, "malformed");
        }
        check(&ask(&server, Some(&revoked), call(spec)), spec, "revoked");
        check(&ask(&server, Some(&elsewhere), call(spec)), spec, "network");
        routes += 1;
    }
    assert!(routes > 30, "{routes}");
}

#[test]
fn every_route_needs_its_scope_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    let with = |scopes: Vec<&str>| key(&server, "shop", &json!({ "scopes": scopes }));
    for scope in Scope::ALL {
        let others: Vec<_> = Scope::ALL.iter().filter(|one| *one != scope).map(|one| one.name()).collect();
        let (without, only) = (with(others), with(vec![scope.name()]));
        for (spec, _) in closed_routes().filter(|(_, needed)| *needed == Some(*scope)) {
            let refused = ask(&server, Some(&without), call(spec));
            assert_eq!(refused.status, 403, "{}: {refused:?}", spec.operation);
            assert_eq!(refused.json()["missing"], json!({ "scope": scope.name() }), "{}", spec.operation);
            if spec.id == RouteId::StreamEvents {
                // Its answer does not end.
                continue;
            }
            let answer = ask(&server, Some(&only), call(spec));
            assert!(!matches!(answer.status, 401 | 403 | 500..), "{}: {answer:?}", spec.operation);
        }
    }
}

#[test]
fn each_command_of_a_batch_needs_its_own_scope() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    let key = key(&server, "stock", &json!({ "scopes": ["inventory:write"] }));
    let body = json!({ "commands": [
        { "op": "set_stock", "sku": "tea", "total_units": 5 },
        { "op": "reserve", "owner_id": "cart", "sku": "tea" },
    ] });
    let answer = ask(&server, Some(&key), Call::post("/v1/commands").json(&body)).json();
    assert_eq!(answer["results"][0]["status"], 201, "{answer}");
    assert_eq!(answer["results"][1]["status"], 403, "{answer}");
    assert_eq!(held(&server), 0);
}

fn held(server: &Server) -> u64 {
    ask(server, Some(ROOT), Call::get("/v1/inventory/tea")).json()["held_units"].as_u64().unwrap()
}

#[test]
fn a_path_that_does_not_exist_is_401_first() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    assert_eq!(ask(&server, None, Call::get("/v1/nothing")).status, 401);
    assert_eq!(ask(&server, Some(ROOT), Call::get("/v1/nothing")).status, 404);
    for open in ["/", "/docs", "/openapi.json", "/problems/forbidden"] {
        assert_eq!(ask(&server, None, Call::get(open)).status, 200, "{open}");
    }
}
