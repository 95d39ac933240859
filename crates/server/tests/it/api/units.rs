//! Units with ids over the API: seats are added, chosen, held, sold, returned and retired; the seat map is polled.

use super::server::Server;
use super::shape::assert_problem;
use super::wire::{Answer, Call};
use serde_json::{Value, json};

/// A row of a section.
fn row(section: &str, row: &str, seats: std::ops::RangeInclusive<u32>) -> Vec<Value> {
    let seat = |n: u32| {
        let id = format!("{row}-{n}");
        json!({ "unit_id": id, "section": section, "row": row, "number": n.to_string() })
    };
    seats.map(seat).collect()
}

/// What a problem of this reason has beyond what all have.
#[track_caller]
fn refused(server: &Server, answer: &Answer, status: u16, reason: &str) -> Value {
    assert_problem(&mut server.connect(), answer, status, reason)
}

fn hall(server: &Server, units: &[Value]) {
    let made = server.ask(&Call::put("/v1/inventory/hall").json(&json!({ "mode": "units" })));
    assert_eq!((made.status, made.json()["mode"].clone()), (201, json!("units")), "{}", made.text());
    assert_eq!(made.json()["sequence"], Value::Null);
    if !units.is_empty() {
        assert_eq!(add(server, units)["added"], units.len());
    }
}

fn add(server: &Server, units: &[Value]) -> Value {
    let added = server.ask(&Call::post("/v1/inventory/hall/units").json(&json!({ "units": units })));
    assert_eq!(added.status, 200, "{}", added.text());
    added.json()
}

fn reserve(server: &Server, body: &Value) -> Answer {
    let mut body = body.clone();
    body["owner_id"] = "cart".into();
    server.ask(&Call::post("/v1/inventory/hall/reserve").json(&body))
}

#[track_caller]
fn held(server: &Server, body: &Value) -> Value {
    let answer = reserve(server, body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Ids of a reservation's first line.
fn ids(reservation: &Value) -> Vec<&str> {
    let units = reservation["lines"][0]["units"].as_array().unwrap();
    units.iter().map(|unit| unit["unit_id"].as_str().unwrap()).collect()
}

fn listed(server: &Server, query: &str) -> Value {
    let answer = server.ask(&Call::get("/v1/inventory/hall/units").query(query));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn map(server: &Server, query: &str) -> Answer {
    server.ask(&Call::get("/v1/inventory/hall/seat-map").query(query))
}

/// The states of a map as letters.
fn states(map: &Value) -> String {
    let text = map["states"].as_str().unwrap().trim_end_matches('=');
    let digit = |c: char| "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".find(c).unwrap();
    let bits: Vec<usize> =
        text.chars().map(digit).flat_map(|d| (0..6).rev().map(move |n| d >> n & 1)).collect();
    let bytes: Vec<usize> =
        bits.as_chunks::<8>().0.iter().map(|byte| byte.iter().fold(0, |all, bit| all << 1 | bit)).collect();
    let count = usize::try_from(map["count"].as_u64().unwrap()).unwrap();
    let state = |n: usize| ['.', 'h', 's'][bytes[n / 4] >> (n % 4 * 2) & 3];
    (0..count).map(state).collect()
}

#[test]
fn seats_are_held_sold_and_returned() {
    let server = Server::start();
    hall(&server, &row("stalls", "A", 1..=6));
    let any = held(&server, &json!({ "quantity": 2 }));
    assert_eq!(
        any["lines"][0]["units"],
        json!([{ "unit_id": "A-1", "version": 2 }, { "unit_id": "A-2", "version": 2 }])
    );
    assert_eq!(any["lines"][0]["sequence"], Value::Null);
    let named = held(&server, &json!({ "units": ["A-6", "A-4"] }));
    assert_eq!(ids(&named), ["A-6", "A-4"]);
    let id = named["reservation_id"].as_str().unwrap();
    let sold = server.ask(&Call::post(format!("/v1/reservations/{id}/confirm")));
    assert_eq!(sold.status, 200);

    let taken = reserve(&server, &json!({ "units": ["A-3", "A-4", "A-1", "Z"] }));
    let problem = refused(&server, &taken, 409, "units_unavailable");
    assert_eq!(problem["units"], json!(["A-4", "A-1", "Z"]));
    assert_eq!(problem["unknown_units"], json!(["Z"]));
    assert_eq!(
        problem["taken"],
        json!([{ "sku": "hall", "location": "default", "units": ["A-4", "A-1", "Z"] }])
    );

    let back = json!({ "units": ["A-4"], "reason": "ill" });
    let returned = server.ask(&Call::post(format!("/v1/reservations/{id}/return")).json(&back));
    assert_eq!(returned.status, 200, "{}", returned.text());
    let unit = |id: &str, version: u64, returned: Option<bool>| {
        let mut unit = json!({ "unit_id": id, "version": version });
        if let Some(returned) = returned {
            unit["returned"] = returned.into();
        }
        unit
    };
    assert_eq!(
        returned.json()["lines"][0]["units"],
        json!([unit("A-6", 3, None), unit("A-4", 4, Some(true))])
    );
    let again = server.ask(&Call::post(format!("/v1/reservations/{id}/return")).json(&back));
    refused(&server, &again, 409, "return_exceeds_sold");
    assert_eq!(ids(&held(&server, &json!({ "units": ["A-4"] }))), ["A-4"]);

    let item = server.item("hall");
    assert_eq!(
        (&item["total_units"], &item["held_units"], &item["confirmed_sold"]),
        (&json!(6), &json!(3), &json!(1))
    );
    let history = server.ask(&Call::get(format!("/v1/reservations/{id}/events"))).json();
    let last = history["data"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["returned"][0]["units"], json!(["A-4"]));
}

/// What happened to a unit, by the types of its events.
fn kinds(history: &Answer) -> Vec<String> {
    assert_eq!(history.status, 200, "{}", history.text());
    let events = history.json()["data"].as_array().unwrap().clone();
    events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_unit_is_shown_with_who_has_it_and_what_happened_to_it() {
    let mut server = Server::start();
    hall(&server, &row("stalls", "A", 1..=3));
    let odd = json!([{ "unit_id": "A/4 ü", "attributes": { "aisle": true } }]);
    add(&server, odd.as_array().unwrap());
    let one =
        |server: &Server, unit: &str| server.ask(&Call::get(format!("/v1/inventory/hall/units/{unit}")));
    let events = |server: &Server, unit: &str| one(server, &format!("{unit}/events"));
    for (unit, listed) in ["A-1", "A-2", "A-3", "A%2F4%20%C3%BC"].into_iter().zip(0..) {
        let shown = one(&server, unit);
        assert_eq!((shown.status, shown.json()), (200, self::listed(&server, "")["data"][listed].clone()));
        assert_eq!(kinds(&events(&server, unit)), ["units.added"]);
    }
    let only = events(&server, "A-2").json()["data"][0]["units"].clone();
    assert_eq!(only.as_array().unwrap().len(), 1, "of those that came with it no other is shown: {only}");
    assert_eq!(only[0]["unit_id"], "A-2");

    let hold = held(&server, &json!({ "units": ["A-2", "A/4 ü"] }));
    let id = hold["reservation_id"].as_str().unwrap();
    let shown = one(&server, "A-2").json();
    assert_eq!((&shown["status"], &shown["version"]), (&json!("held"), &json!(2)));
    assert_eq!(shown["reservation_id"], id);
    for (call, body) in [("extend", json!({ "ttl_seconds": 900 })), ("confirm", json!({}))] {
        let done = server.ask(&Call::post(format!("/v1/reservations/{id}/{call}")).json(&body));
        assert_eq!(done.status, 200, "{}", done.text());
    }
    let back = json!({ "units": ["A-2"], "reason": "ill" });
    server.ask(&Call::post(format!("/v1/reservations/{id}/return")).json(&back));
    let moved = ["units.added", "reservation.created", "reservation.confirmed", "reservation.returned"];
    let whole = events(&server, "A-2");
    assert_eq!(kinds(&whole), moved);
    assert_eq!(kinds(&events(&server, "A%2F4%20%C3%BC")), moved[..3]);
    let of_reservation = server.ask(&Call::get(format!("/v1/reservations/{id}/events"))).json();
    let without_extension: Vec<&Value> = of_reservation["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| !event["type"].as_str().unwrap().ends_with("extended"))
        .collect();
    assert_eq!(whole.json()["data"].as_array().unwrap()[1..].iter().collect::<Vec<_>>(), without_extension);

    server.kill();
    server.start_again();
    assert_eq!(events(&server, "A-2").json(), whole.json());
    for path in ["A-9", "A-9/events", "A%20-2", "a-2/events"] {
        let problem = refused(&server, &one(&server, path), 404, "unknown_unit");
        assert_eq!((&problem["sku"], &problem["location"]), (&json!("hall"), &json!("default")), "{path}");
    }
    assert_eq!(server.ask(&Call::delete("/v1/inventory/hall/units/A-1")).status, 204);
    for path in ["A-1", "A-1/events"] {
        refused(&server, &one(&server, path), 404, "unknown_unit");
    }
    add(&server, &row("stalls", "A", 1..=1));
    assert_eq!(kinds(&events(&server, "A-1")), ["units.added"], "another one of its name");
}

#[test]
fn a_unit_is_looked_for_where_it_is() {
    let server = Server::start();
    hall(&server, &row("stalls", "A", 1..=2));
    let there = "/v1/inventory/hall?location=hub%209";
    server.ask(&Call::put(there).json(&json!({ "mode": "units" })));
    let seat = json!({ "units": [{ "unit_id": "A-1", "section": "balcony" }] });
    let added = server.ask(&Call::post("/v1/inventory/hall/units?location=hub%209").json(&seat));
    assert_eq!(added.status, 200, "{}", added.text());
    held(&server, &json!({ "units": ["A-1"] }));
    let ask = |path: &str| server.ask(&Call::get(format!("/v1/inventory/hall/units/{path}")));
    assert_eq!(ask("A-1?location=hub%209").json()["section"], "balcony");
    assert_eq!(kinds(&ask("A-1/events?location=hub%209")), ["units.added"]);
    assert_eq!(kinds(&ask("A-1/events?location=default")), ["units.added", "reservation.created"]);
    let problem = refused(&server, &ask("A-2?location=hub%209"), 404, "unknown_unit");
    assert_eq!(problem["location"], "hub 9");
    refused(&server, &ask("A-1?location=nowhere"), 404, "unknown_item");
    refused(&server, &ask("A-1/events?location=nowhere"), 404, "unknown_item");
    for (path, pointer) in [
        ("A-1?limit=3", "/limit"),
        ("A-1/events?limit=3", "/limit"),
        ("A-1?location=", "/location"),
        ("%00", "/unit_id"),
        ("%zz/events", "/unit_id"),
        ("/events", "/unit_id"),
    ] {
        let problem = refused(&server, &ask(path), 400, "invalid_request");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{path}");
    }
    let posted = server.ask(&Call::post("/v1/inventory/hall/units/A-1/events"));
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn the_best_seats_sit_together() {
    let server = Server::start();
    hall(&server, &[row("stalls", "A", 1..=5), row("balcony", "K", 1..=4)].concat());
    let best = |quantity: u64, sections: &[&str]| json!({ "quantity": quantity, "adjacent": true, "sections": sections });
    assert_eq!(ids(&held(&server, &best(3, &["balcony", "stalls"]))), ["K-1", "K-2", "K-3"]);
    assert_eq!(ids(&held(&server, &best(3, &["balcony", "stalls"]))), ["A-1", "A-2", "A-3"]);
    let none = reserve(&server, &best(3, &["stalls"]));
    assert_eq!(refused(&server, &none, 409, "insufficient_inventory")["available"], 2);
    let split = json!({ "quantity": 3, "adjacent": true, "min_together": 1 });
    assert_eq!(ids(&held(&server, &split)), ["A-4", "A-5", "K-4"]);
}

#[test]
fn baskets_and_commands_take_seats_too() {
    let server = Server::start();
    server.stock("drinks", 10);
    hall(&server, &row("stalls", "A", 1..=4));
    let lines = json!([{ "sku": "drinks", "quantity": 2 }, { "sku": "hall", "units": ["A-2"] }]);
    let basket = json!({ "owner_id": "cart", "lines": lines });
    let made = server.ask(&Call::post("/v1/reservations").json(&basket).key("k"));
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.json()["lines"][1]["units"][0]["unit_id"], "A-2");
    let again = server.ask(&Call::post("/v1/reservations").json(&basket).key("k"));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let mut other = basket.clone();
    other["lines"][1]["units"] = json!(["A-3"]);
    let mismatch = server.ask(&Call::post("/v1/reservations").json(&other).key("k"));
    refused(&server, &mismatch, 422, "idempotency_mismatch");

    let reserve = |wish: Value| {
        let mut command = json!({ "op": "reserve", "owner_id": "cart", "sku": "hall" });
        command.as_object_mut().unwrap().extend(wish.as_object().unwrap().clone());
        command
    };
    let commands =
        [json!({ "quantity": 1 }), json!({ "units": ["A-2"] }), json!({ "quantity": 2, "adjacent": true })];
    let commands = json!({ "commands": commands.map(reserve) });
    let results = server.ask(&Call::post("/v1/commands").json(&commands)).json()["results"].clone();
    assert_eq!(ids(&results[0]["reservation"]), ["A-1"]);
    assert_eq!(results[1]["problem"]["reason"], "units_unavailable");
    assert_eq!(ids(&results[2]["reservation"]), ["A-3", "A-4"]);
}

#[test]
fn units_are_listed_page_by_page_and_retired() {
    let server = Server::start();
    let mut units = row("stalls", "A", 1..=5);
    units[4]["attributes"] = json!({ "aisle": true, "width": 52, "kind": "armchair" });
    hall(&server, &units);
    let holder = held(&server, &json!({ "units": ["A-2"] }));
    let first = listed(&server, "limit=2");
    assert_eq!((first["data"].as_array().unwrap().len(), &first["has_more"]), (2, &json!(true)));
    assert_eq!(first["data"][1]["reservation_id"], holder["reservation_id"]);
    let rest = listed(&server, &format!("starting_after={}", first["next_cursor"].as_str().unwrap()));
    let expected = json!({
        "unit_id": "A-5", "status": "available", "version": 1, "position": 5, "section": "stalls", "row": "A",
        "number": "5", "attributes": { "aisle": true, "kind": "armchair", "width": 52 },
    });
    assert_eq!((rest["data"].as_array().unwrap().len(), &rest["data"][2]), (3, &expected));
    assert_eq!(listed(&server, "status=held")["data"][0]["unit_id"], "A-2");
    assert_eq!(listed(&server, "section=balcony")["data"], json!([]));
    let wide = held(&server, &json!({ "quantity": 1, "attributes": { "aisle": true } }));
    assert_eq!(ids(&wide), ["A-5"]);

    let retire = |unit: &str| server.ask(&Call::delete(format!("/v1/inventory/hall/units/{unit}")));
    assert_eq!(retire("A-1").status, 204);
    refused(&server, &retire("A-1"), 404, "unknown_unit");
    let in_use = refused(&server, &retire("A-2"), 409, "unit_in_use");
    assert_eq!(
        (&in_use["unit_status"], &in_use["reservation_id"]),
        (&json!("held"), &holder["reservation_id"])
    );
    assert_eq!(server.item("hall")["total_units"], 4);

    let again = add(&server, &row("stalls", "A", 1..=2));
    assert_eq!(
        (&again["added"], &again["unchanged"], &again["total_units"]),
        (&json!(1), &json!(1), &json!(5))
    );
    let elsewhere = json!({ "units": row("balcony", "A", 2..=2) });
    let differs = server.ask(&Call::post("/v1/inventory/hall/units").json(&elsewhere));
    assert_eq!(refused(&server, &differs, 400, "invalid_request")["errors"][0]["pointer"], "/units/0");
    let events = server.ask(&Call::get("/v1/events?limit=1000")).json();
    let kinds: Vec<_> =
        events["data"].as_array().unwrap().iter().map(|event| event["type"].clone()).collect();
    assert!(kinds.contains(&json!("units.added")) && kinds.contains(&json!("units.retired")), "{kinds:?}");
}

#[test]
fn a_seat_map_is_polled_and_survives_a_kill() {
    let mut server = Server::start();
    hall(&server, &[row("stalls", "A", 1..=5), row("balcony", "K", 1..=2)].concat());
    held(&server, &json!({ "units": ["A-2"] }));
    let sold = held(&server, &json!({ "units": ["A-3", "K-2"] }));
    let id = sold["reservation_id"].as_str().unwrap();
    server.ask(&Call::post(format!("/v1/reservations/{id}/confirm")));
    let whole = map(&server, "");
    let shown = whole.json();
    assert_eq!(states(&shown), ".hs...s");
    assert_eq!((&shown["available"], &shown["held"], &shown["sold"]), (&json!(4), &json!(1), &json!(2)));
    let layout = &shown["layout"];
    assert_eq!(layout["unit_ids"], json!(["A-1", "A-2", "A-3", "A-4", "A-5", "K-1", "K-2"]));
    assert_eq!(
        layout["rows"],
        json!([{ "section": "stalls", "row": "A" }, { "section": "balcony", "row": "K" }])
    );
    assert_eq!(layout["row_of"], json!([0, 0, 0, 0, 0, 1, 1]));

    let poll = map(&server, "layout=false");
    let etag = poll.header("etag").unwrap().to_owned();
    assert_ne!(Some(&*etag), whole.header("etag"), "another representation");
    assert_eq!(poll.json()["layout"], Value::Null);
    let target = "/v1/inventory/hall/seat-map?layout=false";
    let known = |tag: &str| Call::get(target).header("If-None-Match", tag);
    for tag in [etag.clone(), format!("W/{etag}"), format!("\"x\", {etag}"), "*".to_owned()] {
        let same = server.ask(&known(&tag));
        assert_eq!((same.status, same.header("etag"), &*same.text()), (304, Some(&*etag), ""), "{tag}");
    }
    server.kill();
    server.start_again();
    assert_eq!(server.ask(&known(&etag)).status, 304, "the same map after a restart");
    assert_eq!(listed(&server, "status=sold")["data"][0]["reservation_id"], id);
    held(&server, &json!({ "quantity": 1 }));
    let moved = server.ask(&known(&etag));
    assert_eq!((moved.status, &*states(&moved.json())), (200, "hhs...s"));
}

#[test]
fn many_seats_are_a_short_map() {
    const SEATS: u32 = 20_000;
    let server = Server::start();
    hall(&server, &[]);
    for first in (1..SEATS).step_by(10_000) {
        add(&server, &row("stalls", "A", first..=first + 9_999));
    }
    let poll = map(&server, "layout=false");
    // Two bits a seat, in base64.
    assert!(poll.text().len() < 7_000, "{} bytes", poll.text().len());
    assert_eq!(map(&server, "").json()["layout"]["unit_ids"].as_array().unwrap().len(), SEATS as usize);
    let last = held(&server, &json!({ "units": [format!("A-{SEATS}")] }));
    assert_eq!(ids(&last), [format!("A-{SEATS}")]);
    let states = states(&map(&server, "layout=false").json());
    assert_eq!(states.chars().rev().take(2).collect::<String>(), "h.");
}

#[test]
fn what_the_other_mode_does_not_have() {
    let server = Server::start();
    server.stock("tea", 3);
    let mismatch = |call: Call, sku: &str, mode: &str| {
        let problem = refused(&server, &server.ask(&call), 422, "mode_mismatch");
        assert_eq!(problem, json!({ "sku": sku, "location": "default", "mode": mode }));
    };
    for path in ["units", "seat-map", "units/A-1", "units/A-1/events"] {
        mismatch(Call::get(format!("/v1/inventory/tea/{path}")), "tea", "counted");
        let answer = server.ask(&Call::get(format!("/v1/inventory/nothing/{path}")));
        refused(&server, &answer, 404, "unknown_item");
    }
    let seats = json!({ "units": row("stalls", "A", 1..=2) });
    mismatch(Call::post("/v1/inventory/tea/units").json(&seats), "tea", "counted");
    mismatch(Call::delete("/v1/inventory/tea/units/A-1"), "tea", "counted");
    let named = json!({ "owner_id": "cart", "units": ["A-1"] });
    mismatch(Call::post("/v1/inventory/tea/reserve").json(&named), "tea", "counted");
    let wrong = json!({ "mode": "units", "total_units": 3 });
    mismatch(Call::put("/v1/inventory/tea").json(&wrong), "tea", "counted");

    hall(&server, &row("stalls", "A", 1..=2));
    mismatch(Call::put("/v1/inventory/hall").json(&json!({ "total_units": 3 })), "hall", "units");
    mismatch(
        Call::post("/v1/inventory/hall/adjust").json(&json!({ "delta": 1, "reason": "count" })),
        "hall",
        "units",
    );
}

#[test]
fn sections_that_do_not_exist_are_named() {
    let server = Server::start();
    hall(&server, &row("stalls", "A", 1..=2));
    let wish = json!({ "owner_id": "cart", "quantity": 3, "sections": ["stalls", "balkony"] });
    let answer = server.ask(&Call::post("/v1/inventory/hall/reserve").json(&wish));
    let problem = refused(&server, &answer, 409, "insufficient_inventory");
    assert_eq!((&problem["available"], &problem["unknown_sections"]), (&json!(2), &json!(["balkony"])));
    assert!(answer.text().contains("These sections do not exist"), "{}", answer.text());
}
