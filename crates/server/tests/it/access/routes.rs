//! Every route of the route table with every kind of wrong credential.

use super::{ROOT, ask, connect, key, reason, server, with_key};
use crate::api::wire::{Answer, Call};
use crate::support::Server;
use serde_json::json;
use stockhold_api::routes::{Body, RequiredScope, Restriction, RouteId, RouteSpec};
use stockhold_service::{NewApiKey, Scope};

/// Every route and the scope that it needs, once more by hand: a slip in the route table is a difference here.
const SCOPES: [(&str, &str); 98] = [
    ("PUT /v1/inventory/{sku}", "inventory:write"),
    ("GET /v1/inventory", "inventory:read"),
    ("GET /v1/inventory/{sku}", "inventory:read"),
    ("GET /v1/inventory/{sku}/available", "inventory:read"),
    ("POST /v1/availability", "inventory:read"),
    ("POST /v1/inventory/{sku}/adjust", "inventory:write"),
    ("DELETE /v1/inventory/{sku}", "inventory:write"),
    ("POST /v1/inventory/{sku}/units", "inventory:write"),
    ("GET /v1/inventory/{sku}/units", "inventory:read"),
    ("GET /v1/inventory/{sku}/units/{unit_id}", "inventory:read"),
    ("GET /v1/inventory/{sku}/units/{unit_id}/events", "inventory:read"),
    ("GET /v1/inventory/{sku}/seat-map", "inventory:read"),
    ("DELETE /v1/inventory/{sku}/units/{unit_id}", "inventory:write"),
    ("PUT /v1/inventory/{sku}/pools/{pool}", "inventory:write"),
    ("PUT /v1/inventory/{sku}/pools/{pool}/units", "inventory:write"),
    ("DELETE /v1/inventory/{sku}/pools/{pool}/units", "inventory:write"),
    ("GET /v1/inventory/{sku}/pools", "inventory:read"),
    ("DELETE /v1/inventory/{sku}/pools/{pool}", "inventory:write"),
    ("POST /v1/inventory/{sku}/reserve", "reservations:write"),
    ("POST /v1/prices/quote", "inventory:read"),
    ("POST /v1/reservations", "reservations:write"),
    ("GET /v1/reservations", "reservations:read"),
    ("GET /v1/reservations/{reservation_id}", "reservations:read"),
    ("GET /v1/reservations/{reservation_id}/events", "reservations:read"),
    ("PATCH /v1/reservations/{reservation_id}", "reservations:write"),
    ("DELETE /v1/reservations/{reservation_id}", "reservations:write"),
    ("POST /v1/reservations/{reservation_id}/extend", "reservations:write"),
    ("POST /v1/reservations/{reservation_id}/transfer", "reservations:write"),
    ("POST /v1/reservations/{reservation_id}/split", "reservations:write"),
    ("POST /v1/reservations/{reservation_id}/merge", "reservations:write"),
    ("POST /v1/reservations/{reservation_id}/payment", "reservations:write"),
    ("DELETE /v1/reservations/{reservation_id}/payment", "reservations:write"),
    ("POST /v1/reservations/{reservation_id}/confirm", "reservations:write"),
    ("POST /v1/reservations/{reservation_id}/fulfil", "reservations:write"),
    ("POST /v1/reservations/{reservation_id}/return", "reservations:write"),
    ("POST /v1/reservations/{reservation_id}/checkout", "checkout:write"),
    ("GET /v1/reservations/{reservation_id}/checkout", "reservations:read"),
    ("POST /v1/reservations/{reservation_id}/checkout/cancel", "checkout:write"),
    ("POST /v1/reservations/{reservation_id}/refund", "refunds:write"),
    ("POST /v1/reservations/{reservation_id}/refund/retry", "refunds:write"),
    ("GET /v1/orders", "reservations:read"),
    ("GET /v1/orders/{order_id}", "reservations:read"),
    ("POST /v1/providers/{provider}/webhook", "open"),
    ("POST /v1/commands", "that of each command"),
    ("GET /v1/gate", "inventory:read"),
    ("POST /v1/gate/reload", "sale:admin"),
    ("POST /v1/archive", "keys:admin"),
    ("GET /v1/reconciliation", "inventory:read"),
    ("POST /v1/reconciliation", "inventory:write"),
    ("DELETE /v1/reconciliation/{stock_master}", "inventory:write"),
    ("GET /v1/sinks", "events:read"),
    ("POST /v1/sinks/{sink}/skip", "webhooks:admin"),
    ("POST /v1/sinks/{sink}/replay", "webhooks:admin"),
    ("POST /v1/sinks/{sink}/init", "webhooks:admin"),
    ("DELETE /v1/sinks/{sink}", "webhooks:admin"),
    ("POST /v1/webhooks", "webhooks:admin"),
    ("GET /v1/webhooks", "webhooks:admin"),
    ("GET /v1/webhooks/{webhook_id}", "webhooks:admin"),
    ("PATCH /v1/webhooks/{webhook_id}", "webhooks:admin"),
    ("DELETE /v1/webhooks/{webhook_id}", "webhooks:admin"),
    ("POST /v1/webhooks/{webhook_id}/test", "webhooks:admin"),
    ("POST /v1/webhooks/{webhook_id}/rotate", "webhooks:admin"),
    ("GET /v1/webhooks/{webhook_id}/deliveries", "webhooks:admin"),
    ("POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry", "webhooks:admin"),
    ("POST /v1/webhooks/{webhook_id}/replay", "webhooks:admin"),
    ("GET /v1/sale", "inventory:read"),
    ("POST /v1/inventory/{sku}/pause", "sale:admin"),
    ("POST /v1/inventory/{sku}/resume", "sale:admin"),
    ("POST /v1/sale/pause", "sale:admin"),
    ("POST /v1/sale/resume", "sale:admin"),
    ("PUT /v1/customers/{customer_id}", "customers:write"),
    ("GET /v1/customers/{customer_id}", "customers:read"),
    ("DELETE /v1/customers/{customer_id}", "customers:write"),
    ("POST /v1/customer-keys/rewrap", "customers:write"),
    ("PUT /v1/limits/{limit_id}", "sale:admin"),
    ("GET /v1/limits", "inventory:read"),
    ("GET /v1/limits/{limit_id}", "inventory:read"),
    ("GET /v1/limits/{limit_id}/usage", "inventory:read"),
    ("DELETE /v1/limits/{limit_id}", "sale:admin"),
    ("GET /v1/events", "events:read"),
    ("GET /v1/events/stream", "events:read"),
    ("GET /hub/stock/{hub_id}/{sku}", "inventory:read"),
    ("POST /hub/reserve", "reservations:write"),
    ("POST /hub/confirm", "reservations:write"),
    ("POST /hub/release", "reservations:write"),
    ("POST /storefront/reserve", "reservations:write"),
    ("POST /storefront/commit", "reservations:write"),
    ("POST /storefront/extend", "reservations:write"),
    ("POST /storefront/release", "reservations:write"),
    ("POST /v1/keys", "keys:admin"),
    ("GET /v1/keys", "keys:admin"),
    ("GET /v1/keys/{key_id}", "keys:admin"),
    ("POST /v1/keys/{key_id}/roll", "keys:admin"),
    ("DELETE /v1/keys/{key_id}", "keys:admin"),
    ("GET /openapi.json", "open"),
    ("GET /docs", "open"),
    ("GET /problems/{reason}", "open"),
    ("GET /", "open"),
];

/// A request of the route, about things that do not exist.
fn call(spec: &RouteSpec) -> Call {
    let path = spec
        .path
        .replace("{sku}", "nothing")
        .replace("{hub_id}", "nothing")
        .replace("{unit_id}", "nothing")
        .replace("{pool}", "nothing")
        .replace("{sink}", "nothing")
        .replace("{stock_master}", "nothing")
        .replace("{webhook_id}", "nothing")
        .replace("{delivery_id}", "nothing")
        .replace("{id}", "01890a5d-ac96-774b-bcce-b302099a8057")
        .replace("{reservation_id}", "01890a5d-ac96-774b-bcce-b302099a8057")
        .replace("{limit_id}", "nothing")
        .replace("{order_id}", "nothing")
        .replace("{customer_id}", "nothing")
        .replace("{provider}", "nothing")
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
    match spec.profile {
        None => assert_eq!(answer.json()["credential"], credential, "{}", spec.operation),
        Some(_) => assert_eq!(answer.json()["error"], "UNAUTHORIZED", "{}", spec.operation),
    }
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
fn the_scopes_of_the_routes_are_those_that_were_written_down() {
    let mut written: Vec<_> =
        SCOPES.iter().map(|(route, scope)| ((*route).to_owned(), (*scope).to_owned())).collect();
    let mut found: Vec<_> = RouteId::ALL
        .iter()
        .map(|id| {
            let spec = id.spec();
            let scope = match spec.scope {
                RequiredScope::Open => "open",
                RequiredScope::EachCommand => "that of each command",
                RequiredScope::One(scope) => scope.name(),
            };
            (format!("{} {}", spec.method.name(), spec.path), scope.to_owned())
        })
        .collect();
    written.sort_unstable();
    found.sort_unstable();
    assert_eq!(written, found);
}

/// A row that says nothing of restrictions refuses restricted callers, with every kind of restriction.
#[test]
fn routes_that_concern_everything_refuse_restricted_callers() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    let scopes: Vec<_> = Scope::ALL.iter().map(|scope| scope.name()).collect();
    let restrictions = [
        ("locations", json!(["hub-1"])),
        ("channels", json!(["web"])),
        ("own_reservations_only", json!(true)),
    ];
    let mut routes = 0;
    for (member, value) in restrictions {
        let key = key(&server, "shop", &json!({ "scopes": scopes, member: value }));
        for (spec, _) in closed_routes().filter(|(spec, _)| spec.restriction == Restriction::Refused) {
            let answer = ask(&server, Some(&key), call(spec));
            assert_eq!(reason(&answer), (403, "forbidden".to_owned()), "{}: {answer:?}", spec.operation);
            routes += 1;
        }
    }
    assert!(routes >= 3 * 30, "{routes}");
}

/// Where a body has not been read yet, nobody without a good credential makes the server read it.
#[test]
fn a_body_is_not_waited_for_without_the_right_to_send_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    let reader = key(&server, "reader", &json!({ "scopes": ["inventory:read"] }));
    let chunked = |path: &str| Call::post(path).header("Transfer-Encoding", "chunked");
    for (call, status) in [
        (chunked("/v1/reservations"), 401),
        (with_key(chunked("/v1/reservations"), "wrong"), 401),
        (with_key(chunked("/v1/reservations"), &reader), 403),
        (with_key(chunked("/v1/nothing"), &reader), 404),
        (with_key(chunked("/v1/inventory"), &reader), 405),
        (with_key(chunked("/v1/reservations"), &reader).header("Expect", "100-continue"), 403),
    ] {
        let mut wire = connect(&server);
        // No body follows, and the first answer is the last one.
        wire.send(&call.head());
        assert_eq!(wire.answer().status, status, "{call:?}");
    }
    // With the right, the body is asked for and read.
    let mut wire = connect(&server);
    let call = with_key(chunked("/v1/availability"), &reader)
        .header("Expect", "100-continue")
        .header("Content-Type", "application/json");
    wire.send(&call.head());
    assert_eq!(wire.answer().status, 100);
    let body = json!({ "items": [{ "sku": "tea" }] }).to_string();
    wire.send(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes());
    assert_eq!(wire.answer().status, 200);
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
            let (member, expected) = match spec.profile {
                None => ("missing", json!({ "scope": scope.name() })),
                Some(_) => ("error", json!("FORBIDDEN")),
            };
            assert_eq!(refused.json()[member], expected, "{}", spec.operation);
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

/// Every command that can pass limits by, by its own route and in a batch.
#[test]
fn limits_are_passed_by_with_their_scope_only() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    let root = |call: Call| ask(&server, Some(ROOT), call);
    assert_eq!(root(Call::put("/v1/inventory/tea").json(&json!({ "total_units": 9 }))).status, 201);
    let none = json!({ "items": [{ "sku": "tea" }], "limit": 0 });
    assert_eq!(root(Call::put("/v1/limits/none").json(&none)).status, 201);
    let shop = key(&server, "shop", &json!({ "scopes": ["reservations:write"] }));
    let support = key(&server, "support", &json!({ "scopes": ["reservations:write", "limits:override"] }));
    let reserve = json!({ "owner_id": "cart", "override_limits": true });
    let made = ask(&server, Some(&support), Call::post("/v1/inventory/tea/reserve").json(&reserve));
    assert_eq!(made.status, 200, "{made:?}");
    let id = made.json()["reservation_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/reservations/{id}");
    let lines = json!([{ "sku": "tea", "quantity": 2 }]);
    let calls = [
        Call::post("/v1/inventory/tea/reserve").json(&reserve),
        Call::post("/v1/reservations")
            .json(&json!({ "owner_id": "cart", "lines": lines, "override_limits": true })),
        Call::new("PATCH", &path).json(&json!({ "lines": lines, "override_limits": true })),
        Call::post(format!("{path}/transfer")).json(&json!({ "owner_id": "b", "override_limits": true })),
        Call::post(format!("{path}/merge")).json(&json!({ "from": [id], "override_limits": true })),
        Call::post(format!("{path}/confirm"))
            .json(&json!({ "if_expired": "reacquire", "override_limits": true })),
    ];
    let missing = json!({ "scope": "limits:override" });
    for call in calls {
        let refused = ask(&server, Some(&shop), call);
        assert_eq!((refused.status, &refused.json()["missing"]), (403, &missing), "{refused:?}");
    }
    let batch = json!({ "commands": [
        { "op": "reserve", "owner_id": "cart", "sku": "tea", "override_limits": true },
        { "op": "reserve", "owner_id": "cart", "sku": "tea", "override_limits": false },
    ] });
    let answer = ask(&server, Some(&shop), Call::post("/v1/commands").json(&batch)).json();
    assert_eq!(answer["results"][0]["problem"]["missing"], missing, "{answer}");
    assert_eq!(answer["results"][1]["problem"]["reason"], "limit_exceeded", "{answer}");
    // The root key has every scope, and limits apply to it all the same.
    let plain = root(Call::post("/v1/inventory/tea/reserve").json(&json!({ "owner_id": "cart" })));
    assert_eq!((plain.status, &plain.json()["reason"]), (409, &json!("limit_exceeded")), "{plain:?}");
    assert_eq!(held(&server), 1);
}

/// A key that may reserve may not take payments with it.
#[test]
fn a_reserve_that_pays_needs_both_scopes() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    ask(&server, Some(ROOT), Call::put("/v1/inventory/tea").json(&json!({ "total_units": 9 })));
    let shop = key(&server, "shop", &json!({ "scopes": ["reservations:write"] }));
    let till = key(&server, "till", &json!({ "scopes": ["reservations:write", "checkout:write"] }));
    let method = json!({ "payment_method": { "provider": "test", "method_ref": "approve" } });
    let reserve = json!({ "owner_id": "cart", "auto_checkout": method });
    let call = || Call::post("/v1/inventory/tea/reserve").json(&reserve);
    let refused = ask(&server, Some(&shop), call());
    assert_eq!((refused.status, &refused.json()["missing"]), (403, &json!({ "scope": "checkout:write" })));
    // This server has no provider.
    let refused = ask(&server, Some(&till), call());
    let pointer = json!("/auto_checkout/payment_method/provider");
    assert_eq!((refused.status, &refused.json()["errors"][0]["pointer"]), (400, &pointer));
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
