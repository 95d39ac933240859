//! Who may call: the same credentials, scopes and restrictions as over HTTP.

use super::caller::{Caller, problem};
use super::{GrpcServer, block_on};
use serde_json::{Value, json};
use stockhold_api::client::{Client, ClientAccess};
use tonic::Code;

const ROOT: &str = "a-root-key-that-is-long-enough-for-a-test";

/// A key with these scopes, at these locations.
fn key(server: &GrpcServer, scopes: &[&str], more: &[(&str, Value)]) -> String {
    let mut body = json!({ "name": "test", "principal": "shop", "scopes": scopes });
    for (name, value) in more {
        body[*name] = value.clone();
    }
    let access = ClientAccess::default().with_api_key(ROOT).unwrap();
    let client = Client::with_access(&server.server.url(), &access).unwrap();
    let raw = block_on(client.send_raw("POST", "/v1/keys", body.to_string().as_bytes())).unwrap();
    let made: Value = serde_json::from_slice(&raw.body).unwrap();
    assert_eq!(raw.status, 201, "{made}");
    made["key"].as_str().unwrap().to_owned()
}

#[test]
fn a_caller_needs_a_credential_a_scope_and_the_location() {
    let server = GrpcServer::with(&[("STOCKHOLD_ROOT_KEY", ROOT)]);
    let reader = key(&server, &["inventory:read"], &[]);
    let local = key(
        &server,
        &["reservations:write", "reservations:read", "inventory:write", "events:read"],
        &[("locations", json!(["north"]))],
    );
    let limited =
        key(&server, &["inventory:read"], &[("rate_limit", json!({ "per_second": 1, "burst": 1 }))]);
    block_on(async {
        let caller = Caller::new(&server.address);
        let root = caller.with_key(ROOT);
        for location in ["north", "south"] {
            let stock = json!({ "sku": "tea", "location": location, "total_units": 9 });
            root.call("SetStock", stock).await.unwrap();
        }
        let refused = async |caller: &Caller, method: &str, request: Value, code: Code, reason: &str| {
            let status = caller.call(method, request).await.unwrap_err();
            assert_eq!(
                (status.code(), problem(caller, &status)["reason"].as_str()),
                (code, Some(reason)),
                "{method}"
            );
        };
        let item = |location: &str| json!({ "sku": "tea", "location": location });
        let hold = |location: &str| json!({ "owner_id": "o", "lines": [item(location)] });
        let unknown = caller.with_key("sk_0123456789");
        for nobody in [&caller, &unknown] {
            refused(nobody, "GetItem", item("north"), Code::Unauthenticated, "unauthenticated").await;
            for method in nobody.methods().iter().filter(|method| !method.is_client_streaming()) {
                let opened = nobody.watch(method.name(), json!({})).await;
                assert_eq!(opened.unwrap_err().code(), Code::Unauthenticated, "{}", method.name());
            }
            let commands = nobody.stream("Commands", tokio_stream::empty()).await;
            assert_eq!(commands.unwrap_err().code(), Code::Unauthenticated);
        }
        let reader = caller.with_key(&reader);
        reader.call("GetItem", item("north")).await.unwrap();
        refused(&reader, "Reserve", hold("north"), Code::PermissionDenied, "forbidden").await;
        refused(&reader, "SetStock", item("north"), Code::PermissionDenied, "forbidden").await;
        assert_eq!(reader.watch("WatchEvents", json!({})).await.unwrap_err().code(), Code::PermissionDenied);

        let local = caller.with_key(&local);
        local.call("Reserve", hold("north")).await.unwrap();
        refused(&local, "Reserve", hold("south"), Code::PermissionDenied, "forbidden").await;
        refused(
            &local,
            "AdjustStock",
            json!({ "sku": "tea", "location": "south", "delta": 1, "reason": "r" }),
            Code::PermissionDenied,
            "forbidden",
        )
        .await;
        let commands =
            ["north", "south"].map(|location| local.input("Commands", json!({ "reserve": hold(location) })));
        let mut results = local.stream("Commands", tokio_stream::iter(commands)).await.unwrap();
        assert_eq!(super::caller::json(&results.message().await.unwrap().unwrap())["status"], 201);
        let second = super::caller::json(&results.message().await.unwrap().unwrap());
        assert_eq!(second["problem"]["reason"], "forbidden", "{second}");

        let limited = caller.with_key(&limited);
        let calls = async {
            loop {
                if let Err(status) = limited.call("GetItem", item("north")).await {
                    break status;
                }
            }
        };
        assert_eq!(calls.await.code(), Code::ResourceExhausted);
    });
}

#[test]
fn replays_and_histories_pass_the_restrictions() {
    let server = GrpcServer::with(&[("STOCKHOLD_ROOT_KEY", ROOT)]);
    let scopes = ["reservations:write", "reservations:read"];
    let north = key(&server, &scopes, &[("locations", json!(["north"]))]);
    block_on(async {
        let caller = Caller::new(&server.address);
        let root = caller.with_key(ROOT);
        for location in ["north", "south"] {
            let stock = json!({ "sku": "tea", "location": location, "total_units": 9 });
            root.call("SetStock", stock).await.unwrap();
        }
        let lines = |locations: &[&str]| {
            let line = |location: &&str| json!({ "sku": "tea", "location": location });
            locations.iter().map(line).collect::<Value>()
        };
        let north = caller.with_key(&north);
        let keyed = north.with("idempotency-key", "k-1");
        let reserve = json!({ "owner_id": "o", "lines": lines(&["north"]), "hold_token": true });
        let hold = keyed.call("Reserve", reserve.clone()).await.unwrap();
        let amend = |locations: &[&str]| json!({ "reservation_id": hold["reservation_id"], "lines": lines(locations) });
        root.call("Amend", amend(&["north", "south"])).await.unwrap();
        let refused = keyed.call("Reserve", reserve).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        let shown = problem(&keyed, &refused);
        assert_eq!((&shown["replayed"], &shown["missing"]["location"]), (&json!(true), &json!("south")));
        root.call("Amend", amend(&["north"])).await.unwrap();
        let events = json!({ "reservation_id": hold["reservation_id"] });
        let history = north.call("GetReservationEvents", events).await.unwrap().to_string();
        assert!(history.contains("reservation.created") && !history.contains("south"), "{history}");
    });
}
