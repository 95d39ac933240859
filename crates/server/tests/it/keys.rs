//! The management of API keys: make, use, roll and revoke them, over the real server. Every answer is held against the API's
//! document too.

use crate::api::wire::{Answer, Call, Wire};
use crate::support::{Server, stockhold, text, wait_for};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Output;
use std::time::Duration;
use stockhold_api::encode::time;
use stockhold_domain::Instant;
use stockhold_service::ApiKey;
use stockhold_store::clock::{Clock, WallClock};

const ROOT: &str = "a-root-key-of-forty-characters-in-a-test";
const NO_KEY: &str = "key_000102030405060708090a0b0c0d0e0f";

fn server() -> Server {
    Server::with_root_key(ROOT)
}

#[track_caller]
fn ask(server: &Server, credential: &str, call: Call) -> Answer {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.ports()[0]));
    Wire::connect(address).ask(&call.header("Authorization", format!("Bearer {credential}")))
}

/// Asks for a key with the root key and these fields besides its name and principal.
#[track_caller]
fn make(server: &Server, fields: &Value) -> Value {
    let answer = ask(server, ROOT, Call::post("/v1/keys").json(&request(fields)));
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

fn request(fields: &Value) -> Value {
    let mut body = json!({ "name": "Shop", "principal": "shop", "scopes": ["inventory:read"] });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn str_of<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

#[track_caller]
fn refused(answer: &Answer, status: u16, reason: &str) -> Value {
    assert_eq!((answer.status, &answer.json()["reason"]), (status, &json!(reason)), "{answer:?}");
    answer.json()
}

fn path_of(key: &Value) -> String {
    format!("/v1/keys/{}", str_of(key, "key_id"))
}

#[track_caller]
fn fault(server: &Server, credential: &str) -> Option<String> {
    let answer = ask(server, credential, Call::get("/v1/inventory"));
    if answer.status == 200 {
        return None;
    }
    Some(str_of(&refused(&answer, 401, "unauthenticated"), "credential").to_owned())
}

pub(crate) fn soon(seconds: i64) -> String {
    let now = WallClock.now();
    time(Instant::from_millis(now.millis() + seconds * 1_000))
}

#[test]
fn a_key_from_its_making_to_its_end() {
    let server = server();
    let answer = ask(&server, ROOT, Call::post("/v1/keys").json(&request(&json!({}))));
    let made = answer.json();
    assert_eq!(answer.header("location"), Some(&*path_of(&made)));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let key = str_of(&made, "key");
    assert!(ApiKey::parse(key).is_ok());
    assert_eq!(fault(&server, key), None, "a new key works at once");
    let forbidden = ask(&server, key, Call::put("/v1/inventory/tea").json(&json!({ "total_units": 1 })));
    assert_eq!(refused(&forbidden, 403, "forbidden")["missing"], json!({ "scope": "inventory:write" }));
    for call in [
        Call::get("/v1/keys"),
        Call::post("/v1/keys").json(&request(&json!({}))),
        Call::delete(path_of(&made)),
    ] {
        let answer = ask(&server, key, call);
        assert_eq!(refused(&answer, 403, "forbidden")["missing"], json!({ "scope": "keys:admin" }));
    }
    let shown = ask(&server, ROOT, Call::get(path_of(&made)));
    let mut expected = made.clone();
    expected.as_object_mut().unwrap().remove("key");
    assert_eq!(shown.json(), expected);

    let revoke = Call::delete(path_of(&made));
    assert_eq!(ask(&server, ROOT, revoke.clone()).status, 204);
    assert_eq!(fault(&server, key).as_deref(), Some("revoked"));
    let ended = ask(&server, ROOT, Call::get(path_of(&made))).json();
    assert!(ended["revoked_at"].is_string(), "{ended}");
    assert_eq!(ask(&server, ROOT, revoke).status, 204, "twice too");
    assert_eq!(ask(&server, ROOT, Call::get(path_of(&made))).json(), ended, "and it changes nothing");
    let roll = ask(&server, ROOT, Call::post(format!("{}/roll", path_of(&made))));
    refused(&roll, 409, "key_ended");
}

#[test]
fn credentials_that_do_not_count() {
    let server = server();
    let made = make(&server, &json!({ "allowed_cidrs": ["192.0.2.0/24"] }));
    let key = str_of(&made, "key");
    assert_eq!(fault(&server, key).as_deref(), Some("network"));
    let mistyped = format!("{}{}", &key[..key.len() - 1], if key.ends_with('0') { '1' } else { '0' });
    assert_eq!(fault(&server, &mistyped).as_deref(), Some("malformed"));
    let unknown = stockhold_service::NewApiKey::generate().unwrap();
    assert_eq!(fault(&server, unknown.reveal()).as_deref(), Some("unknown"));
    assert_eq!(fault(&server, "another-root-key-of-forty-characters").as_deref(), Some("malformed"));
    let brief = make(&server, &json!({ "expires_at": soon(2) }));
    assert_eq!(fault(&server, str_of(&brief, "key")), None);
    wait_for("the key's end", || fault(&server, str_of(&brief, "key")).filter(|fault| fault == "expired"));
    // It has ended already, so there is nothing to revoke.
    assert_eq!(ask(&server, ROOT, Call::delete(path_of(&brief))).status, 204);
    assert!(ask(&server, ROOT, Call::get(path_of(&brief))).json()["revoked_at"].is_null());
}

#[test]
fn keys_that_do_not_exist() {
    let server = server();
    for call in [
        Call::get(format!("/v1/keys/{NO_KEY}")),
        Call::delete(format!("/v1/keys/{NO_KEY}")),
        Call::post(format!("/v1/keys/{NO_KEY}/roll")),
    ] {
        refused(&ask(&server, ROOT, call), 404, "unknown_key");
    }
    let secret = stockhold_service::NewApiKey::generate().unwrap();
    let answer = ask(&server, ROOT, Call::get(format!("/v1/keys/{}", secret.reveal())));
    assert_eq!(refused(&answer, 400, "invalid_request")["errors"][0]["pointer"], "/key_id");
    assert!(!answer.text().contains(&secret.reveal()[..12]), "{answer:?}");
}

#[test]
fn a_roll_without_and_with_an_overlap() {
    let server = server();
    let first =
        make(&server, &json!({ "channels": ["web"], "rate_limit": { "per_second": 900, "burst": 900 } }));
    let roll = |key: &Value, body: &Value| {
        let answer = ask(&server, ROOT, Call::post(format!("{}/roll", path_of(key))).json(body));
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()
    };
    let second = roll(&first, &json!({}));
    assert_eq!(second["rolled_from"], first["key_id"]);
    for same in ["name", "principal", "scopes", "channels", "rate_limit"] {
        assert_eq!(second[same], first[same], "{same}");
    }
    assert_ne!((&second["key_id"], &second["key"]), (&first["key_id"], &first["key"]));
    assert_eq!(fault(&server, str_of(&first, "key")).as_deref(), Some("revoked"));
    let third = roll(&second, &json!({ "expire_old_in_seconds": 600 }));
    let old = ask(&server, ROOT, Call::get(path_of(&second))).json();
    assert!(old["revoked_at"].is_null() && str_of(&old, "expires_at") > &*soon(590), "{old}");
    assert_eq!((fault(&server, str_of(&second, "key")), fault(&server, str_of(&third, "key"))), (None, None));
    let late = roll(&second, &json!({ "expire_old_in_seconds": 1_200 }));
    assert_eq!(ask(&server, ROOT, Call::get(path_of(&second))).json()["expires_at"], old["expires_at"]);
    assert_eq!(late["expires_at"], old["expires_at"], "an end stays");
    let long = ask(
        &server,
        ROOT,
        Call::post(format!("{}/roll", path_of(&third))).json(&json!({ "expire_old_in_seconds": 2_592_001 })),
    );
    assert_eq!(refused(&long, 400, "invalid_request")["errors"][0]["pointer"], "/expire_old_in_seconds");
}

#[test]
fn repeated_requests_make_one_key() {
    let server = server();
    let create =
        |fields: &Value| ask(&server, ROOT, Call::post("/v1/keys").key("make-1").json(&request(fields)));
    let first = create(&json!({}));
    assert!(first.header("idempotent-replayed").is_none() && first.json()["key"].is_string());
    let again = create(&json!({}));
    assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")));
    assert_eq!((&again.json()["key"], &again.json()["key_id"]), (&Value::Null, &first.json()["key_id"]));
    refused(&create(&json!({ "scopes": ["events:read"] })), 422, "idempotency_mismatch");

    let path = format!("{}/roll", path_of(&first.json()));
    for seconds in [600, 0] {
        let name = format!("roll-{seconds}");
        let roll = |body: &Value| ask(&server, ROOT, Call::post(&*path).key(&name).json(body));
        let body = json!({ "expire_old_in_seconds": seconds });
        let rolled = roll(&body);
        assert!(rolled.json()["key"].is_string(), "{rolled:?}");
        let old = ask(&server, ROOT, Call::get(path_of(&first.json()))).json();
        let again = roll(&body);
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")), "{again:?}");
        assert_eq!((&again.json()["key"], &again.json()["key_id"]), (&Value::Null, &rolled.json()["key_id"]));
        let other = roll(&json!({ "expire_old_in_seconds": 7 }));
        refused(&other, 422, "idempotency_mismatch");
        assert_eq!(
            ask(&server, ROOT, Call::get(path_of(&first.json()))).json(),
            old,
            "the old key is as it was"
        );
    }
    refused(&ask(&server, ROOT, Call::post(&*path).key("roll-late")), 409, "key_ended");
    let all = ask(&server, ROOT, Call::get("/v1/keys")).json();
    assert_eq!(all["data"].as_array().unwrap().len(), 3, "{all}");
}

#[test]
fn keys_are_there_after_a_restart() {
    let mut server = server();
    let made = make(&server, &json!({}));
    let gone = make(&server, &json!({}));
    assert_eq!(ask(&server, ROOT, Call::delete(path_of(&gone))).status, 204);
    server.kill();
    server.restart();
    wait_for("the key", || fault(&server, str_of(&made, "key")).is_none().then_some(()));
    assert_eq!(fault(&server, str_of(&gone, "key")).as_deref(), Some("revoked"));
}

#[test]
fn a_list_in_pages() {
    let server = server();
    let mut made: Vec<String> =
        (0..5).map(|_| str_of(&make(&server, &json!({})), "key_id").to_owned()).collect();
    assert_eq!(ask(&server, ROOT, Call::delete(format!("/v1/keys/{}", made[0]))).status, 204);
    made.sort();
    let mut listed = Vec::new();
    let mut path = "/v1/keys?limit=2".to_owned();
    loop {
        let page = ask(&server, ROOT, Call::get(&*path)).json();
        let entries = page["data"].as_array().unwrap();
        listed.extend(entries.iter().map(|key| str_of(key, "key_id").to_owned()));
        assert_eq!(page["has_more"] == true, page["next_cursor"].is_string());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        assert_eq!(entries.len(), 2);
        path = format!("/v1/keys?limit=2&starting_after={cursor}");
    }
    assert_eq!(listed, made, "ended ones too");
}

#[test]
fn nobody_gives_what_they_lack() {
    let server = server();
    let rights = json!({
        "principal": "admin", "scopes": ["keys:admin", "inventory:read"], "locations": ["hub-1"], "channels": ["web"],
        "own_reservations_only": true,
    });
    let admin = make(&server, &rights);
    let admin = str_of(&admin, "key");
    let within = json!({ "locations": ["hub-1"], "channels": ["web"], "own_reservations_only": true });
    let create = |changes: &Value| {
        let mut fields = within.clone();
        for (name, value) in changes.as_object().unwrap() {
            fields[name] = value.clone();
        }
        fields.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        ask(&server, admin, Call::post("/v1/keys").json(&request(&fields)))
    };
    assert_eq!(create(&json!({})).status, 201);
    for (changes, missing) in [
        (json!({ "scopes": ["events:read"] }), json!({ "scope": "events:read" })),
        (json!({ "locations": ["hub-1", "hub-2"] }), json!({ "location": "hub-2" })),
        (json!({ "locations": null }), json!({ "location": null })),
        (json!({ "channels": ["app"] }), json!({ "channel": "app" })),
        (json!({ "channels": null }), json!({ "channel": null })),
    ] {
        assert_eq!(refused(&create(&changes), 403, "forbidden")["missing"], missing, "{changes}");
    }
    let other = make(&server, &json!({ "scopes": ["inventory:write"] }));
    let roll = ask(&server, admin, Call::post(format!("{}/roll", path_of(&other))));
    assert_eq!(refused(&roll, 403, "forbidden")["missing"], json!({ "scope": "inventory:write" }));
    assert!(ask(&server, ROOT, Call::get(path_of(&other))).json()["revoked_at"].is_null());
}

/// A restricted administrator sees, rolls and ends the keys within its own restrictions.
#[test]
fn nobody_manages_keys_beyond_their_own_restrictions() {
    let server = server();
    let scopes = ["keys:admin", "inventory:read"];
    let rights = json!({ "scopes": scopes, "locations": ["hub-1", "hub-2"], "channels": ["web", "app"] });
    let admin = make(&server, &rights);
    let admin = str_of(&admin, "key");
    let within = |changes: &Value| {
        let mut fields = json!({ "locations": ["hub-1"], "channels": ["web"] });
        for (name, value) in changes.as_object().unwrap() {
            fields[name] = value.clone();
        }
        fields.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        make(&server, &fields)
    };
    for (changes, missing) in [
        (json!({ "locations": ["hub-1", "hub-3"] }), json!({ "location": "hub-3" })),
        (json!({ "locations": null }), json!({ "location": null })),
        (json!({ "channels": ["phone"] }), json!({ "channel": "phone" })),
        (json!({ "channels": null }), json!({ "channel": null })),
    ] {
        let other = within(&changes);
        for call in [
            Call::get(path_of(&other)),
            Call::post(format!("{}/roll", path_of(&other))),
            Call::delete(path_of(&other)),
        ] {
            assert_eq!(refused(&ask(&server, admin, call), 403, "forbidden")["missing"], missing);
        }
        let listed = ask(&server, admin, Call::get("/v1/keys?limit=1000")).text();
        assert!(!listed.contains(str_of(&other, "key_id")), "{listed}");
        assert_eq!(fault(&server, str_of(&other, "key")), None, "it is as it was");
    }
    // With a scope that the administrator lacks, a key is seen and ended. Its rights are not given to a new one.
    let stronger = within(&json!({ "scopes": ["inventory:write"] }));
    let roll = ask(&server, admin, Call::post(format!("{}/roll", path_of(&stronger))));
    assert_eq!(refused(&roll, 403, "forbidden")["missing"], json!({ "scope": "inventory:write" }));
    assert_eq!(ask(&server, admin, Call::get(path_of(&stronger))).status, 200);
    let own = within(&json!({}));
    let rolled = ask(&server, admin, Call::post(format!("{}/roll", path_of(&own))));
    assert_eq!(rolled.status, 201, "{rolled:?}");
    let listed = ask(&server, admin, Call::get("/v1/keys?limit=1000")).text();
    for key in [&stronger, &own, &rolled.json()] {
        assert!(listed.contains(str_of(key, "key_id")), "{listed}");
        assert_eq!(ask(&server, admin, Call::delete(path_of(key))).status, 204);
    }
    assert_eq!(fault(&server, str_of(&stronger, "key")).as_deref(), Some("revoked"));
}

#[test]
fn the_time_of_the_last_use_is_written_and_not_at_each_use() {
    let server = server();
    let made = make(&server, &json!({}));
    let shown = || ask(&server, ROOT, Call::get(path_of(&made))).json()["last_used_at"].clone();
    assert_eq!(shown(), Value::Null);
    assert_eq!(fault(&server, str_of(&made, "key")), None);
    let written = wait_for("the first use to be written", || Some(shown()).filter(Value::is_string));
    let end = std::time::Instant::now() + REFRESHED;
    while std::time::Instant::now() < end {
        assert_eq!(fault(&server, str_of(&made, "key")), None);
        assert_eq!(shown(), written, "it is as it was for an hour");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn wrong_members_are_named() {
    let server = server();
    for (changes, pointer) in [
        (json!({ "scopes": [] }), "/scopes"),
        (json!({ "scopes": ["inventory:read", "inventory"] }), "/scopes/1"),
        (json!({ "locations": [] }), "/locations"),
        (json!({ "channels": [] }), "/channels"),
        (json!({ "allowed_cidrs": [] }), "/allowed_cidrs"),
        (json!({ "allowed_cidrs": ["192.0.2.0/24", "example.com"] }), "/allowed_cidrs/1"),
        (json!({ "expires_at": "2001-01-01T00:00:00Z" }), "/expires_at"),
        (json!({ "expires_at": "tomorrow" }), "/expires_at"),
        (json!({ "rate_limit": { "per_second": 0, "burst": 1 } }), "/rate_limit/per_second"),
        (json!({ "principal": "x".repeat(125) }), "/principal"),
        (json!({ "digest": "x" }), "/digest"),
    ] {
        let answer = ask(&server, ROOT, Call::post("/v1/keys").json(&request(&changes)));
        let problem = refused(&answer, 400, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{changes}");
    }
}

#[test]
fn events_of_keys_are_for_those_who_manage_keys() {
    let server = server();
    let made = make(&server, &json!({ "channels": ["web"], "allowed_cidrs": ["127.0.0.0/8"] }));
    let roll = Call::post(format!("{}/roll", path_of(&made))).json(&json!({ "expire_old_in_seconds": 60 }));
    let rolled = ask(&server, ROOT, roll).json();
    assert_eq!(ask(&server, ROOT, Call::delete(path_of(&rolled))).status, 204);
    let page = ask(&server, ROOT, Call::get("/v1/events"));
    let events = page.json()["data"].as_array().unwrap().clone();
    let kinds: Vec<&str> = events.iter().map(|event| str_of(event, "type")).collect();
    assert_eq!(
        kinds,
        ["access.key_created", "access.key_rolled", "access.key_revoked", "access.key_revoked"]
    );
    let ids: Vec<&Value> = events.iter().map(|event| &event["key_id"]).collect();
    assert_eq!(ids, [&made["key_id"], &rolled["key_id"], &made["key_id"], &rolled["key_id"]]);
    for event in &events {
        assert_eq!(
            (str_of(event, "name"), str_of(event, "principal"), str_of(event, "actor")),
            ("Shop", "shop", "root")
        );
        assert_eq!((&event["scopes"], &event["channels"]), (&json!(["inventory:read"]), &json!(["web"])));
        assert_eq!(event["allowed_cidrs"], json!(["127.0.0.0/8"]));
    }
    assert!(events[2]["expires_at"].is_string() && events[2]["revoked_at"].is_null());
    assert!(events[3]["revoked_at"].is_string());
    let reader = make(&server, &json!({ "scopes": ["events:read"] }));
    let seen = ask(&server, str_of(&reader, "key"), Call::get("/v1/events")).json();
    assert_eq!((&seen["data"], &seen["next_cursor"]), (&json!([]), &json!("5")), "{seen}");
}

#[test]
fn no_secret_and_no_digest_is_shown_again() {
    let mut server = server();
    let made = make(&server, &json!({}));
    let key = str_of(&made, "key").to_owned();
    let digest = ApiKey::parse(&key).unwrap().digest().to_hex();
    // The id is the first half of the digest.
    let secrets = [&key[8..], &digest[32..], ROOT];
    let _ = ask(&server, &key, Call::put("/v1/inventory/tea").json(&json!({ "total_units": 1 })));
    let _ = ask(&server, &format!("{key}x"), Call::get("/v1/inventory"));
    let mut texts = Vec::new();
    for path in ["/v1/keys", &*path_of(&made), "/v1/events", "/v1/keys/key_x", "/v1/keys?starting_after=x"] {
        texts.push(ask(&server, ROOT, Call::get(path)).text());
    }
    texts.push(ask(&server, ROOT, Call::delete(path_of(&made))).text());
    texts.push(ask(&server, &key, Call::get("/v1/inventory")).text());
    texts.push(ask(&server, ROOT, Call::get("/v1/events")).text());
    texts.push(server.metrics());
    server.terminate();
    texts.push(server.log());
    for text in texts {
        for secret in secrets {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

fn keys(server: &Server, arguments: &[&str]) -> Output {
    stockhold(server.dir())
        .arg("keys")
        .args(arguments)
        .env("STOCKHOLD_SERVER", server.url())
        .env("STOCKHOLD_API_KEY", ROOT)
        .output()
        .unwrap()
}

#[test]
fn keys_from_a_shell() {
    let server = server();
    let done = |arguments: &[&str]| {
        let output = keys(&server, arguments);
        assert!(output.status.success(), "{output:?}");
        (text(&output.stdout), text(&output.stderr))
    };
    let create =
        ["create", "Shop", "--principal", "shop", "--scope", "inventory:read", "--scope", "events:read"];
    let (key, note) = done(&create);
    assert!(ApiKey::parse(key.trim_end()).is_ok(), "{key:?}");
    assert!(note.contains("not be shown again") && !note.contains(key.trim_end()), "{note}");
    let id = note.split_whitespace().find(|word| word.starts_with("key_")).unwrap().to_owned();
    let (shown, _) = done(&["show", &id]);
    assert!(shown.contains("inventory:read") && shown.contains("shop"), "{shown}");
    let (rolled, _) = done(&["roll", &id, "--expire-old-in", "60"]);
    assert!(ApiKey::parse(rolled.trim_end()).is_ok() && rolled != key, "{rolled:?}");
    assert_eq!(done(&["revoke", &id]).0, "revoked\n");
    let (listed, _) = done(&["list"]);
    assert!(listed.contains(&id) && listed.lines().count() == 3, "{listed}");
    let failed = keys(&server, &["show", NO_KEY]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stderr).contains("unknown_key"), "{failed:?}");
}

/// Long enough for a key table to be refreshed twice.
const REFRESHED: Duration = Duration::from_secs(3);

#[test]
fn a_key_goes_on_working_while_the_table_is_refreshed() {
    let server = server();
    let made = make(&server, &json!({}));
    let end = std::time::Instant::now() + REFRESHED;
    while std::time::Instant::now() < end {
        assert_eq!(fault(&server, str_of(&made, "key")), None);
        std::thread::sleep(Duration::from_millis(100));
    }
}
