//! Callers that are restricted to locations, to sales channels or to their own reservations.

use super::{ROOT, ask, id, key, reason, reserve, server, stock};
use crate::api::wire::Call;
use serde_json::{Value, json};

pub(super) const EVERYTHING: [&str; 6] = [
    "reservations:write",
    "reservations:read",
    "inventory:read",
    "inventory:write",
    "sale:admin",
    "events:read",
];

fn names(list: &Value, name: &str) -> Vec<String> {
    list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one[name].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn locations() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    for (sku, location) in [("tea", "hub-1"), ("tea", "hub-2"), ("tea", "hub-3"), ("milk", "hub-3")] {
        stock(&server, sku, location);
    }
    let fields = json!({ "scopes": EVERYTHING, "locations": ["hub-3", "hub-1"] });
    let key = key(&server, "hubs", &fields);
    let foreign = reserve(&server, ROOT, "tea", "hub-2");
    let own = reserve(&server, &key, "tea", "hub-1");
    let both = json!({ "owner_id": "c", "lines": [{ "sku": "tea", "location": "hub-1" }, { "sku": "tea", "location": "hub-2" }] });
    let sourced = json!({ "owner_id": "c", "lines": [{ "sku": "tea", "source": { "locations": ["hub-1", "hub-2"] } }] });
    let hubs = json!({ "sku": "tea", "locations": ["hub-3", "hub-2"] });
    let body = json!({ "total_units": 5 });
    let outside = |call: Call| {
        let answer = ask(&server, Some(&key), call);
        assert_eq!(reason(&answer), (403, "forbidden".to_owned()), "{answer:?}");
        answer.json()["missing"]["location"].clone()
    };
    for sku in ["tea", "nothing"] {
        let at = |path: &str| format!("/v1/inventory/{sku}{path}?location=hub-2");
        assert_eq!(outside(Call::get(at(""))), "hub-2");
        assert_eq!(outside(Call::get(at("/available"))), "hub-2");
        assert_eq!(outside(Call::get(at("/units"))), "hub-2");
        assert_eq!(outside(Call::get(at("/seat-map"))), "hub-2");
        assert_eq!(outside(Call::get(at("/units/a"))), "hub-2");
        assert_eq!(outside(Call::get(at("/units/a/events"))), "hub-2");
        assert_eq!(outside(Call::put(at("")).json(&body)), "hub-2");
        assert_eq!(outside(Call::delete(at(""))), "hub-2");
        assert_eq!(outside(Call::delete(at("/units/a"))), "hub-2");
        assert_eq!(outside(Call::post(at("/adjust")).json(&json!({ "delta": 1, "reason": "r" }))), "hub-2");
        assert_eq!(outside(Call::get(at("/pools"))), "hub-2");
        assert_eq!(outside(Call::put(at("/pools/vip")).json(&json!({ "allocated": 1 }))), "hub-2");
        assert_eq!(outside(Call::delete(at("/pools/vip"))), "hub-2");
        assert_eq!(outside(Call::post(at("/pause"))), "hub-2");
        assert_eq!(outside(Call::post(at("/reserve")).json(&json!({ "owner_id": "c" }))), "hub-2");
        let units = json!({ "units": [{ "unit_id": "a" }] });
        assert_eq!(outside(Call::post(at("/units")).json(&units)), "hub-2");
    }
    assert_eq!(outside(Call::post("/v1/reservations").json(&both)), "hub-2");
    assert_eq!(outside(Call::post("/v1/reservations").json(&sourced)), "hub-2");
    assert_eq!(outside(Call::post("/v1/availability").json(&hubs)), "hub-2");
    assert_eq!(outside(Call::get("/v1/inventory?location=hub-2")), "hub-2");
    assert_eq!(outside(Call::get("/v1/reservations?location=hub-2")), "hub-2");
    assert_eq!(outside(Call::post("/v1/sale/pause")), Value::Null);
    assert_eq!(outside(Call::get("/v1/sale")), Value::Null);
    assert_eq!(outside(Call::get("/v1/sale?location=hub-2")), "hub-2");
    // A limit may concern every location, so even one of the caller's own is not shown.
    let limit = json!({ "items": [{ "location": "hub-1" }], "limit": 9 });
    assert_eq!(ask(&server, Some(ROOT), Call::put("/v1/limits/l").json(&limit)).status, 201);
    assert_eq!(outside(Call::put("/v1/limits/l").json(&limit)), Value::Null);
    for call in ["/v1/limits", "/v1/limits/l", "/v1/limits/l/usage"].map(Call::get) {
        assert_eq!(outside(call), Value::Null);
    }
    assert_eq!(outside(Call::delete("/v1/limits/l")), Value::Null);
    let items = json!({ "items": [{ "sku": "tea", "location": "hub-2" }] });
    assert_eq!(outside(Call::post("/v1/availability").json(&items)), "hub-2");
    let reservation = format!("/v1/reservations/{}", id(&foreign));
    for call in [
        Call::get(reservation.clone()),
        Call::get(format!("{reservation}/events")),
        Call::post(format!("{reservation}/confirm")),
        Call::post(format!("{reservation}/extend")).json(&json!({ "ttl_seconds": 60 })),
        Call::post(format!("{reservation}/return")).json(&json!({ "reason": "r" })),
        Call::delete(reservation),
    ] {
        assert_eq!(outside(call), "hub-2");
    }
    let commands = json!({ "commands": [
        { "op": "release", "reservation_id": id(&foreign) },
        { "op": "reserve", "owner_id": "c", "sku": "tea", "location": "hub-3" },
    ] });
    let answer = ask(&server, Some(&key), Call::post("/v1/commands").json(&commands)).json();
    assert_eq!(answer["results"][0]["status"], 403, "{answer}");
    assert_eq!(answer["results"][1]["status"], 201, "{answer}");

    // Lists leave out what is outside, page by page.
    let items = ask(&server, Some(&key), Call::get("/v1/inventory")).json();
    assert_eq!(names(&items, "location"), ["hub-1", "hub-3", "hub-3"]);
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = ask(&server, Some(&key), Call::get(format!("/v1/inventory?limit=1{after}"))).json();
        seen.extend(names(&page, "location"));
        if page["has_more"] == false {
            break;
        }
        after = format!("&starting_after={}", page["next_cursor"].as_str().unwrap());
    }
    assert_eq!(seen, ["hub-1", "hub-3", "hub-3"]);
    let reservations = ask(&server, Some(&key), Call::get("/v1/reservations")).json();
    assert_eq!(names(&reservations, "reservation_id").len(), 2, "{reservations}");
    assert!(names(&reservations, "reservation_id").contains(&id(&own).to_owned()));
    let events = ask(&server, Some(&key), Call::get("/v1/events?limit=1000"));
    assert!(events.text().contains("hub-1") && !events.text().contains("hub-2"), "{events:?}");
    let tail = ask(&server, Some(&key), Call::get("/v1/events?tail=1000"));
    assert!(tail.text().contains("hub-1") && !tail.text().contains("hub-2"), "{tail:?}");
}

#[test]
fn channels() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    stock(&server, "tea", "default");
    let web = key(&server, "web", &json!({ "scopes": EVERYTHING, "channels": ["web"] }));
    let two = key(&server, "two", &json!({ "scopes": EVERYTHING, "channels": ["web", "app"] }));
    let reserve = |key: &str, channel: Option<&str>| {
        let body = json!({ "owner_id": "cart", "lines": [{ "sku": "tea" }], "channel": channel });
        let mut body = body.as_object().unwrap().clone();
        body.retain(|_, value| !value.is_null());
        ask(&server, Some(key), Call::post("/v1/reservations").json(&body.into()))
    };
    let made = reserve(&web, None);
    assert_eq!((made.status, &made.json()["channel"]), (201, &json!("web")), "{made:?}");
    let refused = reserve(&web, Some("app"));
    assert_eq!(
        (refused.status, &refused.json()["missing"]),
        (403, &json!({ "channel": "app" })),
        "{refused:?}"
    );
    let refused = reserve(&two, None);
    assert_eq!(
        (refused.status, &refused.json()["missing"]),
        (403, &json!({ "channel": null })),
        "{refused:?}"
    );
    let app = reserve(&two, Some("app")).json();
    let path = format!("/v1/reservations/{}", id(&app));
    assert_eq!(reason(&ask(&server, Some(&web), Call::get(path.clone()))), (403, "forbidden".to_owned()));
    assert_eq!(ask(&server, Some(&two), Call::get(path)).status, 200);
    let list = ask(&server, Some(&web), Call::get("/v1/reservations")).json();
    assert_eq!(names(&list, "channel"), ["web"]);
}

#[test]
fn own_reservations_only() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    stock(&server, "tea", "default");
    let shop = |principal: &str| {
        let fields = json!({ "scopes": EVERYTHING, "own_reservations_only": true });
        key(&server, principal, &fields)
    };
    let (one, other) = (shop("one"), shop("other"));
    let hall = Call::put("/v1/inventory/hall").json(&json!({ "mode": "units" }));
    assert_eq!(ask(&server, Some(ROOT), hall).status, 201);
    let units = Call::post("/v1/inventory/hall/units").json(&json!({ "units": [{ "unit_id": "a" }] }));
    assert_eq!(ask(&server, Some(ROOT), units).status, 200);
    let foreign = reserve(&server, &other, "hall", "default");
    let own = reserve(&server, &one, "tea", "default");
    // The event says which key it was.
    let newest = ask(&server, Some(ROOT), Call::get("/v1/events?tail=1")).json();
    let key_id = newest["data"][0]["actor_key_id"].as_str().unwrap().to_owned();
    let used = ask(&server, Some(ROOT), Call::get(format!("/v1/keys/{key_id}"))).json();
    assert_eq!((&newest["data"][0]["actor"], &used["principal"]), (&json!("key:one"), &json!("one")));
    let path = format!("/v1/reservations/{}", id(&foreign));
    for call in [
        Call::get(path.clone()),
        Call::get(format!("{path}/events")),
        Call::post(format!("{path}/confirm")),
        Call::new("PATCH", path.clone()).json(&json!({ "ttl_seconds": 60 })),
        Call::post(format!("{path}/transfer")).json(&json!({ "owner_id": "o" })),
        Call::post(format!("{path}/split")).json(&json!({ "lines": [{ "sku": "hall" }] })),
        Call::post(format!("{path}/merge")).json(&json!({ "from": [id(&own)] })),
        Call::post(format!("/v1/reservations/{}/merge", id(&own))).json(&json!({ "from": [id(&foreign)] })),
        Call::post(format!("{path}/payment")).json(&json!({ "payment_id": "p" })),
        Call::delete(format!("{path}/payment")),
        Call::post(format!("{path}/fulfil")),
        Call::delete(path),
    ] {
        let answer = ask(&server, Some(&one), call);
        assert_eq!(reason(&answer), (404, "unknown_reservation".to_owned()));
    }
    // What another principal splits off belongs to the principal that made the reservation.
    let more = Call::new("PATCH", format!("/v1/reservations/{}", id(&own)))
        .json(&json!({ "lines": [{ "sku": "tea", "quantity": 2 }] }));
    assert_eq!(ask(&server, Some(&one), more).status, 200);
    let split = Call::post(format!("/v1/reservations/{}/split", id(&own)))
        .json(&json!({ "lines": [{ "sku": "tea" }] }));
    let part = ask(&server, Some(ROOT), split).json();
    assert_eq!(ask(&server, Some(&one), Call::get(format!("/v1/reservations/{}", id(&part)))).status, 200);
    assert_eq!(ask(&server, Some(&one), Call::get(format!("/v1/reservations/{}", id(&own)))).status, 200);
    let list = ask(&server, Some(&one), Call::get("/v1/reservations")).json();
    assert_eq!(names(&list, "reservation_id"), [id(&part), id(&own)]);
    for path in [
        "/v1/inventory/hall/units",
        "/v1/inventory/hall/units/a",
        "/v1/inventory/hall/units/a/events",
        "/v1/events",
    ] {
        let seen = ask(&server, Some(&one), Call::get(path));
        assert_eq!(seen.status, 200, "{seen:?}");
        assert!(!seen.text().contains(id(&foreign)), "{path}: {seen:?}");
    }
    for call in [Call::post("/v1/sale/pause"), Call::post("/v1/sale/resume"), Call::get("/v1/sale")] {
        assert_eq!(reason(&ask(&server, Some(&one), call)), (403, "forbidden".to_owned()));
    }
    let unit = ask(&server, Some(ROOT), Call::get("/v1/inventory/hall/units/a"));
    assert!(unit.text().contains(id(&foreign)), "{unit:?}");
    for (credential, is_shown) in [(ROOT, true), (&*one, false)] {
        let refused = ask(&server, Some(credential), Call::delete("/v1/inventory/hall/units/a"));
        assert_eq!(reason(&refused), (409, "unit_in_use".to_owned()));
        assert_eq!(refused.text().contains(id(&foreign)), is_shown, "{refused:?}");
    }
}

#[test]
fn what_was_made_before_there_were_credentials_belongs_to_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let mut open = crate::support::Server::on(dir.path(), "data");
    let put = Call::put("/v1/inventory/tea").json(&json!({ "total_units": 5 }));
    assert_eq!(ask(&open, None, put).status, 201);
    let body = json!({ "owner_id": "cart", "lines": [{ "sku": "tea" }] });
    let made = ask(&open, None, Call::post("/v1/reservations").json(&body)).json();
    open.terminate();
    let server = server(&dir, "");
    let key = key(&server, "anonymous", &json!({ "scopes": EVERYTHING, "own_reservations_only": true }));
    let answer = ask(&server, Some(&key), Call::get(format!("/v1/reservations/{}", id(&made))));
    assert_eq!(reason(&answer), (404, "unknown_reservation".to_owned()));
}
