//! Answers that leave the server: what a restricted caller sees of histories, of orders and of requests that take effect again.

use super::restrictions::EVERYTHING;
use super::{ROOT, ask, id, key, reason, reserve, server, stock};
use crate::api::wire::{Answer, Call};
use crate::support::Server;
use serde_json::{Value, json};

fn two_places(settings: &str, dir: &tempfile::TempDir) -> Server {
    let server = server(dir, settings);
    stock(&server, "tea", "hub-1");
    stock(&server, "tea", "hub-2");
    server
}

fn near(server: &Server) -> String {
    key(server, "shop", &json!({ "scopes": EVERYTHING, "locations": ["hub-1"] }))
}

/// The lines of hub-1, or of both places.
fn lines(places: &[&str]) -> Value {
    let line = |place: &&str| json!({ "sku": "tea", "location": place, "quantity": 2 });
    places.iter().map(line).collect()
}

#[track_caller]
fn done(answer: &Answer) -> Value {
    assert!((200..300).contains(&answer.status), "{answer:?}");
    answer.json()
}

#[test]
fn a_history_has_only_events_that_were_within_the_locations() {
    let dir = tempfile::tempdir().unwrap();
    let server = two_places("", &dir);
    let key = near(&server);
    let root = |call: Call| done(&ask(&server, Some(ROOT), call));
    let types = |id: &str| {
        let answer = ask(&server, Some(&key), Call::get(format!("/v1/reservations/{id}/events")));
        assert!(!answer.text().contains("hub-2"), "{answer:?}");
        let page = done(&answer);
        let types = page["data"].as_array().unwrap().iter();
        types.map(|event| event["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let both = json!({ "owner_id": "cart", "lines": lines(&["hub-1", "hub-2"]) });

    // An amend gave the other location back.
    let amended = root(Call::post("/v1/reservations").json(&both));
    let path = format!("/v1/reservations/{}", id(&amended));
    root(Call::new("PATCH", path.clone()).json(&json!({ "lines": lines(&["hub-1"]) })));
    root(Call::post(format!("{path}/extend")).json(&json!({ "ttl_seconds": 1_200 })));
    assert_eq!(types(id(&amended)), ["reservation.extended"]);

    // A split moved it into another reservation.
    let split = root(Call::post("/v1/reservations").json(&both));
    let path = format!("/v1/reservations/{}", id(&split));
    let part = root(Call::post(format!("{path}/split")).json(&json!({ "lines": lines(&["hub-2"]) })));
    root(Call::post(format!("{path}/confirm")).json(&json!({ "order_id": "web-1" })));
    assert_eq!(types(id(&split)), ["reservation.confirmed"]);
    let answer = ask(&server, Some(&key), Call::get(format!("/v1/reservations/{}/events", id(&part))));
    assert_eq!(reason(&answer), (403, "forbidden".to_owned()));

    // A merge brought it, and an amend gave it back.
    let target = reserve(&server, ROOT, "tea", "hub-1");
    let source = reserve(&server, ROOT, "tea", "hub-2");
    let path = format!("/v1/reservations/{}", id(&target));
    root(Call::post(format!("{path}/merge")).json(&json!({ "from": [id(&source)] })));
    root(Call::new("PATCH", path).json(&json!({ "lines": lines(&["hub-1"]) })));
    assert_eq!(types(id(&target)), ["reservation.created"]);
}

#[test]
fn events_of_a_restricted_caller_do_not_say_what_limits_count() {
    let dir = tempfile::tempdir().unwrap();
    let server = two_places("", &dir);
    let key = near(&server);
    let limit = json!({ "items": [{ "sku": "tea" }], "limit": 90 });
    assert_eq!(ask(&server, Some(ROOT), Call::put("/v1/limits/l").json(&limit)).status, 201);
    let held = reserve(&server, ROOT, "tea", "hub-1");
    let history = format!("/v1/reservations/{}/events", id(&held));
    for (credential, is_shown) in [(ROOT, true), (&*key, false)] {
        for path in ["/v1/events?limit=100", "/v1/events?tail=100", &*history] {
            let answer = ask(&server, Some(credential), Call::get(path));
            assert!(answer.text().contains(id(&held)), "{path}: {answer:?}");
            assert_eq!(answer.text().contains("limit_counters"), is_shown, "{path}: {answer:?}");
        }
    }
}

#[test]
fn a_replay_passes_the_restrictions_of_the_one_who_repeats_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = two_places("", &dir);
    let (near, all) = (near(&server), key(&server, "shop", &json!({ "scopes": EVERYTHING })));
    let far = json!({ "owner_id": "cart", "lines": lines(&["hub-2"]), "hold_token": true });
    let keyed =
        |key: &str, body: &Value| Call::post("/v1/reservations").header("Idempotency-Key", key).json(body);
    let made = done(&ask(&server, Some(&all), keyed("far", &far)));
    assert!(made["hold_token"].is_string(), "{made}");
    let refused = |answer: &Answer| {
        assert_eq!(reason(answer), (403, "forbidden".to_owned()), "{answer:?}");
        let problem = answer.json();
        assert!(!answer.text().contains("sh_hold_") && problem.get("lines").is_none(), "{problem}");
        (problem["missing"]["location"].clone(), problem["replayed"] == true)
    };
    // The request itself is outside.
    assert_eq!(refused(&ask(&server, Some(&near), keyed("far", &far))), (json!("hub-2"), false));
    // The reservation has left the location since.
    let here = json!({ "owner_id": "cart", "lines": lines(&["hub-1"]), "hold_token": true });
    let moved = done(&ask(&server, Some(&near), keyed("near", &here)));
    assert_eq!(done(&ask(&server, Some(&near), keyed("near", &here)))["hold_token"], moved["hold_token"]);
    let path = format!("/v1/reservations/{}", id(&moved));
    let amend = Call::new("PATCH", path.clone()).json(&json!({ "lines": lines(&["hub-1", "hub-2"]) }));
    done(&ask(&server, Some(ROOT), amend));
    assert_eq!(refused(&ask(&server, Some(&near), keyed("near", &here))), (json!("hub-2"), true));
    assert_eq!(done(&ask(&server, Some(&all), keyed("near", &here)))["reservation_id"], id(&moved));
    // In a batch too.
    let command = json!({ "op": "reserve", "owner_id": "cart", "lines": lines(&["hub-1"]), "idempotency_key": "near", "hold_token": true });
    let batch = json!({ "commands": [command, { "op": "release", "reservation_id": id(&made) }] });
    let answer = ask(&server, Some(&near), Call::post("/v1/commands").json(&batch));
    assert!(!answer.text().contains("sh_hold_"), "{answer:?}");
    let results = &answer.json()["results"];
    assert_eq!((&results[0]["status"], &results[1]["status"]), (&json!(403), &json!(403)), "{results}");
    assert_eq!(results[0]["problem"]["replayed"], true, "{results}");
    assert_eq!(results[1]["problem"].get("replayed"), None, "{results}");
    // A change of a reservation, which its caller can't see any more.
    let extend = |credential: &str| {
        let call = Call::post(format!("{path}/extend")).header("Idempotency-Key", "extended");
        ask(&server, Some(credential), call.json(&json!({ "ttl_seconds": 900 })))
    };
    done(&extend(&all));
    assert_eq!(refused(&extend(&near)), (json!("hub-2"), true));
}

#[test]
fn a_replayed_key_is_shown_within_the_restrictions_only() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    let admin = |restriction: Value| {
        let mut fields = json!({ "scopes": ["keys:admin", "inventory:read"] });
        fields.as_object_mut().unwrap().extend(restriction.as_object().unwrap().clone());
        key(&server, "admin", &fields)
    };
    let (all, near) = (admin(json!({})), admin(json!({ "locations": ["hub-1"] })));
    let body = json!({ "name": "Everywhere", "principal": "p", "scopes": ["inventory:read"] });
    let create = || Call::post("/v1/keys").header("Idempotency-Key", "k").json(&body);
    assert_eq!(ask(&server, Some(&all), create()).status, 201);
    let again = ask(&server, Some(&all), create());
    assert_eq!((again.status, again.json().get("key")), (201, None));
    assert_eq!(reason(&ask(&server, Some(&near), create())), (403, "forbidden".to_owned()));
}
