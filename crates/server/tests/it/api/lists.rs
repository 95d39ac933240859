//! Lists: what is on a page, in which order, where the next one begins, and what is no page.

use super::server::Server;
use super::shape::{TIME, UUID, assert_like, assert_problem};
use super::wire::{Call, Wire};
use crate::support::wait_for;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const UNKNOWN: &str = "018bcfe5-6800-7fff-bfff-ffffffffffff";

#[track_caller]
fn page(wire: &mut Wire, path: &str, query: &str) -> Value {
    let answer = wire.ask(&Call::get(format!("{path}?{query}")));
    assert_eq!(answer.status, 200, "{path}?{query}: {}", answer.text());
    answer.json()
}

/// All pages of a list, entry by entry. `limit` is never exceeded, and the last page says that it is.
#[track_caller]
fn walk(wire: &mut Wire, path: &str, query: &str, limit: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let found = page(wire, path, &format!("{query}&limit={limit}{cursor}"));
        let data = found["data"].as_array().unwrap();
        assert!(data.len() <= limit, "{found}");
        all.extend(data.iter().cloned());
        if found["has_more"] == json!(false) {
            return all;
        }
        cursor = format!("&starting_after={}", found["next_cursor"].as_str().unwrap());
    }
}

fn ids(holds: &[Value]) -> Vec<String> {
    holds.iter().map(|hold| hold["reservation_id"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn reserve(wire: &mut Wire, owner: &str, lines: &Value) -> String {
    let answer =
        wire.ask(&Call::post("/v1/reservations").json(&json!({ "owner_id": owner, "lines": lines })));
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["reservation_id"].as_str().unwrap().to_owned()
}

/// Which of the reservations that were made, by number.
type Keep = &'static dyn Fn(usize) -> bool;

#[test]
fn reservations_by_what_they_are() {
    let server = Server::start();
    let wire = &mut server.connect();
    for place in ["tea", "cup", "tea?location=hub", "a%20%26%C3%A9?location=hub"] {
        server.stock(place, 1_000);
    }
    let mut made = Vec::new();
    for n in 0..30 {
        let lines = match n % 4 {
            0 => json!([{ "sku": "tea" }]),
            1 => json!([{ "sku": "cup" }, { "sku": "tea", "location": "hub" }]),
            2 => json!([{ "sku": "a &é", "location": "hub" }]),
            _ => json!([{ "sku": "cup" }]),
        };
        made.push(reserve(wire, if n % 2 == 0 { "even" } else { "odd &é" }, &lines));
    }
    for (n, id) in made.iter().enumerate() {
        match n % 3 {
            0 => assert_eq!(wire.ask(&Call::post(format!("/v1/reservations/{id}/confirm"))).status, 200),
            1 => assert_eq!(wire.ask(&Call::delete(format!("/v1/reservations/{id}"))).status, 204),
            _ => {}
        }
    }
    let newest_first = |keep: &dyn Fn(usize) -> bool| {
        let kept = made.iter().enumerate().rev().filter(|(n, _)| keep(*n));
        kept.map(|(_, id)| id.clone()).collect::<Vec<_>>()
    };
    let filters: [(&str, Keep); 13] = [
        ("", &|_| true),
        ("owner_id=even", &|n| n % 2 == 0),
        ("owner_id=odd+%26%C3%A9", &|n| n % 2 == 1),
        ("owner_id=nobody", &|_| false),
        ("sku=tea", &|n| matches!(n % 4, 0 | 1)),
        ("sku=tea&location=hub", &|n| n % 4 == 1),
        ("sku=cup&location=hub", &|_| false),
        ("location=hub", &|n| matches!(n % 4, 1 | 2)),
        ("status=active", &|n| n % 3 == 2),
        ("status=confirmed", &|n| n % 3 == 0),
        ("status=cancelled&owner_id=even", &|n| n % 3 == 1 && n % 2 == 0),
        ("status=expired", &|_| false),
        ("sku=a+%26%c3%a9&status=active&location=hub&owner_id=even", &|n| n % 4 == 2 && n % 3 == 2),
    ];
    for (query, keep) in filters {
        for limit in [1, 7, 1_000] {
            let found = ids(&walk(wire, "/v1/reservations", query, limit));
            assert_eq!(found, newest_first(keep), "{query} by {limit}");
        }
    }
    // Each as its own route shows it; those that are no longer in memory as well.
    server.item("tea");
    for hold in walk(wire, "/v1/reservations", "", 11) {
        let alone =
            wire.ask(&Call::get(format!("/v1/reservations/{}", hold["reservation_id"].as_str().unwrap())));
        assert_eq!(alone.json(), hold);
    }
    let default = page(wire, "/v1/reservations", "");
    assert_eq!((default["data"].as_array().unwrap().len(), default.get("next_cursor")), (30, None));
}

#[test]
fn pages_while_more_are_made_and_after_a_restart() {
    let mut server = Server::start();
    server.stock("tea", 10_000);
    let mut wire = server.connect();
    let lines = json!([{ "sku": "tea" }]);
    let first = (0..200).map(|n| reserve(&mut wire, &format!("o-{n}"), &lines)).collect::<Vec<_>>();
    let begin = page(&mut wire, "/v1/reservations", "limit=50");
    assert_eq!(
        ids(begin["data"].as_array().unwrap()),
        first.iter().rev().take(50).cloned().collect::<Vec<_>>()
    );
    for n in 0..50 {
        reserve(&mut wire, &format!("late-{n}"), &lines);
    }
    let rest = |server: &Server, cursor: &Value| {
        let query = format!("starting_after={}", cursor.as_str().unwrap());
        let wire = &mut server.connect();
        let mut found = page(wire, "/v1/reservations", &format!("{query}&limit=1000"));
        let mut all = ids(found["data"].as_array().unwrap());
        while found["has_more"] == json!(true) {
            let next = found["next_cursor"].as_str().unwrap().to_owned();
            found = page(wire, "/v1/reservations", &format!("starting_after={next}&limit=1000"));
            all.extend(ids(found["data"].as_array().unwrap()));
        }
        all
    };
    let expected = first.iter().rev().skip(50).cloned().collect::<Vec<_>>();
    assert_eq!(rest(&server, &begin["next_cursor"]), expected);
    server.kill();
    server.start_again();
    assert_eq!(rest(&server, &begin["next_cursor"]), expected);
    let all = walk(&mut server.connect(), "/v1/reservations", "", 33);
    assert_eq!(ids(&all).into_iter().collect::<BTreeSet<_>>().len(), 250);
}

#[test]
fn items_in_their_order() {
    let server = Server::start();
    let wire = &mut server.connect();
    let mut keys = Vec::new();
    for n in 0..23 {
        let (sku, location) = (format!("sku {}", n * 7 % 23), ["default", "a hub", "\u{e9}"][n % 3]);
        let path = format!("{}?location={}", super::wire::encoded(&sku), super::wire::encoded(location));
        server.stock(&path, n as u64);
        keys.push((location.to_owned(), sku));
    }
    keys.sort();
    let name = |item: &Value| {
        let text = |name: &str| item[name].as_str().unwrap().to_owned();
        (text("location"), text("sku"))
    };
    for limit in [1, 4, 23, 1_000] {
        let found = walk(wire, "/v1/inventory", "", limit);
        assert_eq!(found.iter().map(name).collect::<Vec<_>>(), keys, "by {limit}");
        let hub = walk(wire, "/v1/inventory", "location=a+hub", limit);
        let there = keys.iter().filter(|(location, _)| location == "a hub").cloned().collect::<Vec<_>>();
        assert_eq!(hub.iter().map(name).collect::<Vec<_>>(), there);
    }
    for item in walk(wire, "/v1/inventory", "", 5) {
        let (location, sku) = name(&item);
        let path = format!(
            "/v1/inventory/{}?location={}",
            super::wire::encoded(sku),
            super::wire::encoded(location)
        );
        assert_eq!(wire.ask(&Call::get(path)).json(), item);
    }
    assert_eq!(page(wire, "/v1/inventory", "location=nowhere"), json!({ "data": [], "has_more": false }));
}

#[test]
fn the_events_of_a_reservation() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    server.stock("cup?location=hub", 5);
    let body = json!({ "owner_id": "o", "channel": "web", "customer_id": "c", "session_id": "s", "metadata": { "a": 1 },
        "ttl_seconds": 60, "lines": [{ "sku": "tea", "quantity": 3 }, { "sku": "cup", "location": "hub" }] });
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let call = Call::post("/v1/reservations")
        .json(&body)
        .header("X-Request-Id", "r-1")
        .header("traceparent", traceparent);
    let made = wire.ask(&call).json();
    let path = format!("/v1/reservations/{}", made["reservation_id"].as_str().unwrap());
    for (step, body) in [
        ("extend", json!({ "ttl_seconds": 600 })),
        ("confirm", json!({ "order_id": "order-1" })),
        ("return", json!({ "reason": "broken", "lines": [{ "sku": "tea" }] })),
    ] {
        assert_eq!(wire.ask(&Call::post(format!("{path}/{step}")).json(&body)).status, 200, "{step}");
    }
    let history = wire.ask(&Call::get(format!("{path}/events"))).json();
    assert_eq!(history.as_object().unwrap().len(), 1);
    let events = history["data"].as_array().unwrap();
    let line = |sku: &str, location: &str, quantity: u64, figures: [u64; 5]| {
        let [sequence, total, sold, held, active] = figures;
        json!({ "sku": sku, "location": location, "quantity": quantity, "requested_quantity": quantity,
                "sequence": sequence, "total_units": total, "confirmed_sold": sold, "fulfilled_units": 0,
                "held_units": held, "held_under_payment": 0, "active_reservations": active })
    };
    let both =
        |tea: [u64; 5], cup: [u64; 5]| json!([line("tea", "default", 3, tea), line("cup", "hub", 1, cup)]);
    // Each of the reservation's events raises its version, and the first one is at position 3.
    let common = |position: u64, kind: &str, status: &str, lines: Value| {
        json!({ "id": UUID, "position": position, "type": kind, "time": TIME,
                "reservation_id": made["reservation_id"], "owner_id": "o", "status": status, "quantity": 4,
                "lines": lines, "expires_at": TIME, "version": position - 2, "actor": "anonymous",
                "request_id": UUID })
    };
    let with = |mut event: Value, more: Value| {
        for (name, member) in more.as_object().unwrap() {
            event[name] = member.clone();
        }
        event
    };
    let held = both([2, 10, 0, 3, 1], [2, 5, 0, 1, 1]);
    let mut returned = both([4, 10, 2, 0, 0], [3, 5, 1, 0, 0]);
    returned[0]["returned_quantity"] = json!(1);
    let previous = |n: usize| json!({ "previous_event_id": events[n]["id"] });
    let created = json!({ "max_expires_at": TIME, "channel": "web", "customer_id": "c", "session_id": "s",
        "metadata": { "a": 1 }, "request_id": "r-1", "traceparent": traceparent });
    let expected = [
        with(common(3, "reservation.created", "active", held.clone()), created),
        with(common(4, "reservation.extended", "active", held), previous(0)),
        with(
            with(
                common(5, "reservation.confirmed", "confirmed", both([3, 10, 3, 0, 0], [3, 5, 1, 0, 0])),
                previous(1),
            ),
            json!({ "order_id": "order-1" }),
        ),
        with(
            with(common(6, "reservation.returned", "confirmed", returned), previous(2)),
            json!({ "reason": "broken", "disposition": "restock", "returned": [{ "sku": "tea", "location": "default", "quantity": 1 }] }),
        ),
    ];
    assert_like(&json!(events), &json!(expected));
    assert_eq!(events[0]["expires_at"], made["expires_at"]);

    let none = wire.ask(&Call::get(format!("/v1/reservations/{UNKNOWN}/events")));
    assert_problem(wire, &none, 404, "unknown_reservation");
    // Events outlive the reservation's place in memory.
    wait_for("the history after the index has it", || {
        let again = wire.ask(&Call::get(format!("{path}/events"))).json();
        (again == history).then_some(())
    });
}

#[test]
fn all_events_in_their_order() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let tea = "/v1/inventory/tea";
    let made = wire
        .ask(&Call::post(format!("{tea}/reserve")).json(&json!({ "owner_id": "o", "quantity": 2 })))
        .json();
    let released =
        format!("/v1/reservations/{}?reason=changed+mind", made["reservation_id"].as_str().unwrap());
    assert_eq!(wire.ask(&Call::delete(released)).status, 204);
    assert_eq!(
        wire.ask(&Call::post(format!("{tea}/adjust")).json(&json!({ "delta": -4, "reason": "broken" })))
            .status,
        200
    );
    for (path, body) in [
        (format!("{tea}/pause"), json!({ "reason": "recall" })),
        (format!("{tea}/resume"), json!({})),
        ("/v1/sale/pause?location=hub".to_owned(), json!({})),
        ("/v1/sale/pause".to_owned(), json!({ "reason": "fire" })),
        ("/v1/sale/resume".to_owned(), json!({})),
    ] {
        assert_eq!(wire.ask(&Call::post(path).json(&body)).status, 200);
    }
    let short = json!({ "owner_id": "o", "ttl_seconds": 1 });
    assert_eq!(wire.ask(&Call::post(format!("{tea}/reserve")).json(&short)).status, 200);
    wait_for("the hold to expire", || (server.item("tea")["held_units"] == 0).then_some(()));

    let all = page(wire, "/v1/events", "");
    let events = all["data"].as_array().unwrap();
    let kinds = events.iter().map(|event| event["type"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(
        kinds,
        [
            "stock.set",
            "reservation.created",
            "reservation.cancelled",
            "stock.adjusted",
            "sale.paused",
            "sale.resumed",
            "sale.paused",
            "sale.paused",
            "sale.resumed",
            "reservation.created",
            "reservation.expired",
        ]
    );
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event["position"], n + 1);
    }
    assert_eq!((&all["has_more"], &all["next_cursor"]), (&json!(false), &json!("11")));
    assert_eq!(events[0]["item"], {
        let mut item = events[0]["item"].clone();
        item["total_units"] = json!(10);
        item
    });
    assert_eq!(events[2]["reason"], "changed mind");
    assert_eq!((&events[3]["delta"], &events[3]["reason"]), (&json!(-4), &json!("broken")));
    assert_eq!(events[3]["item"]["total_units"], 6);
    let scope =
        |n: usize| [&events[n]["scope"], &events[n]["sku"], &events[n]["location"], &events[n]["reason"]];
    assert_eq!(scope(4), [&json!("item"), &json!("tea"), &json!("default"), &json!("recall")]);
    assert_eq!(scope(6), [&json!("location"), &Value::Null, &json!("hub"), &Value::Null]);
    assert_eq!(scope(7), [&json!("everything"), &Value::Null, &Value::Null, &json!("fire")]);
    assert_eq!(
        (&events[10]["actor"], &events[10]["previous_event_id"]),
        (&json!("stockhold"), &events[9]["id"])
    );

    let middle = page(wire, "/v1/events", "after=4&limit=3");
    assert_eq!(middle["data"].as_array().unwrap()[..], events[4..7]);
    assert_eq!((&middle["has_more"], &middle["next_cursor"]), (&json!(true), &json!("7")));
    let exact = page(wire, "/v1/events", "after=7&limit=4");
    assert_eq!((&exact["has_more"], &exact["next_cursor"]), (&json!(false), &json!("11")));
    assert_eq!(
        page(wire, "/v1/events", "after=11"),
        json!({ "data": [], "has_more": false, "next_cursor": "11" })
    );
    // A position that there is not is another history's.
    for beyond in ["12", "18446744073709551615"] {
        let answer = wire.ask(&Call::get(format!("/v1/events?after={beyond}")));
        assert_eq!(assert_problem(wire, &answer, 400, "position_out_of_range")["newest_position"], 11);
    }
}

/// Events so large that a page has room for one or two of them: nothing behind a page is passed over.
#[test]
fn pages_that_end_by_their_bytes() {
    const EVENTS: u64 = 4;
    let server = Server::start();
    let wire = &mut server.connect();
    assert_eq!(wire.ask(&Call::put("/v1/inventory/hall").json(&json!({ "mode": "units" }))).status, 201);
    let long = "x".repeat(120);
    for n in 1..EVENTS {
        let unit = |seat: u32| json!({ "unit_id": format!("{n}-{seat}"), "section": long, "row": long });
        let units = (0..10_000).map(unit).collect::<Vec<_>>();
        let added = wire.ask(&Call::post("/v1/inventory/hall/units").json(&json!({ "units": units })));
        assert_eq!(added.status, 200, "{}", added.text());
    }
    let (mut seen, mut pages, mut after) = (Vec::new(), 0, "0".to_owned());
    loop {
        let found = page(wire, "/v1/events", &format!("after={after}"));
        seen.extend(
            found["data"].as_array().unwrap().iter().map(|event| event["position"].as_u64().unwrap()),
        );
        pages += 1;
        if found["has_more"] == json!(false) {
            break;
        }
        found["next_cursor"].as_str().unwrap().clone_into(&mut after);
    }
    assert_eq!(seen, (1..=EVENTS).collect::<Vec<_>>());
    assert!(pages > 1, "all of it was one page, which shows nothing");
}

/// Holds of so many units that a page has room for few of them, and a history for few events.
#[test]
fn large_holds_make_short_pages_and_no_history_without_bound() {
    /// What a page ends at, and what all long answers may take together.
    const PAGE_BYTES: usize = 4 << 20;
    const ROOM: usize = 64 << 20;
    let server = Server::start();
    let wire = &mut server.connect();
    assert_eq!(wire.ask(&Call::put("/v1/inventory/hall").json(&json!({ "mode": "units" }))).status, 201);
    let mut made = Vec::new();
    for n in 0..5 {
        let unit = |seat: u32| json!({ "unit_id": format!("{n}-{seat:0120}") });
        let units = (0..10_000).map(unit).collect::<Vec<_>>();
        let added = wire.ask(&Call::post("/v1/inventory/hall/units").json(&json!({ "units": units })));
        assert_eq!(added.status, 200, "{}", added.text());
        made.push(reserve(wire, "o", &json!([{ "sku": "hall", "quantity": 10_000 }])));
    }
    made.reverse();
    let (mut seen, mut largest, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let answer = wire.ask(&Call::get(format!("/v1/reservations?limit=1000{cursor}")));
        assert_eq!(answer.status, 200);
        let (bytes, found) = (answer.text().len(), answer.json());
        let data = ids(found["data"].as_array().unwrap());
        largest = data.len().max(largest);
        assert!(bytes < PAGE_BYTES + bytes / data.len() + 1_000, "{bytes} bytes of {} holds", data.len());
        seen.extend(data);
        if found["has_more"] == json!(false) {
            break;
        }
        cursor = format!("&starting_after={}", found["next_cursor"].as_str().unwrap());
    }
    assert_eq!(seen, made);
    assert!((2..5).contains(&largest), "{largest} on a page, which shows nothing");

    let path = format!("/v1/reservations/{}", made[0]);
    let history = |wire: &mut Wire| wire.ask(&Call::get(format!("{path}/events")));
    let event = history(wire).text().len();
    for n in 0..=ROOM / event {
        let extended =
            wire.ask(&Call::post(format!("{path}/extend")).json(&json!({ "ttl_seconds": 700 + n })));
        assert_eq!(extended.status, 200, "{}", extended.text());
    }
    let refused = history(wire);
    assert_problem(wire, &refused, 503, "overloaded");
    wait_for("the room to be given back", || (server.metric("stockhold_bytes_in_flight") == 0).then_some(()));
}

#[test]
fn pages_that_cannot_be() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let long = format!("owner_id={}", "x".repeat(129));
    let reservations = [
        ("owner_id=", "/owner_id"),
        ("owner_id=a%00", "/owner_id"),
        ("owner_id=%ff", "/owner_id"),
        ("owner_id=a&owner_id=a", "/owner_id"),
        (&*long, "/owner_id"),
        ("sku=", "/sku"),
        ("sku=%", "/sku"),
        ("location=", "/location"),
        ("status=", "/status"),
        ("status=Active", "/status"),
        ("status=sold", "/status"),
        ("status=active&status=active", "/status"),
    ];
    let paged = [
        ("limit=", "/limit"),
        ("limit=0", "/limit"),
        ("limit=-1", "/limit"),
        ("limit=+1", "/limit"),
        ("limit=1001", "/limit"),
        ("limit=1.0", "/limit"),
        ("limit=1e2", "/limit"),
        ("limit=ten", "/limit"),
        ("limit=18446744073709551616", "/limit"),
        ("limit=1&limit=1", "/limit"),
        ("Limit=1", "/Limit"),
        ("x=1", "/x"),
    ];
    let cursors = [
        ("starting_after=", "/starting_after"),
        ("starting_after=x", "/starting_after"),
        ("starting_after=00", "/starting_after"),
        ("starting_after=%ff", "/starting_after"),
        ("starting_after=../..", "/starting_after"),
    ];
    let after = [
        ("after=", "/after"),
        ("after=-1", "/after"),
        ("after=1.5", "/after"),
        ("after=x", "/after"),
        ("after=18446744073709551616", "/after"),
        ("after=1&after=2", "/after"),
    ];
    let check = |wire: &mut Wire, path: &str, (query, pointer): (&str, &str)| {
        let answer = wire.ask(&Call::get(format!("{path}?{query}")));
        let own = assert_problem(wire, &answer, 400, "invalid_request");
        let errors = own["errors"].as_array().unwrap();
        assert_eq!(
            (errors.len(), errors[0]["pointer"].as_str().unwrap()),
            (1, pointer),
            "{path}?{query}: {own}"
        );
    };
    for case in reservations.into_iter().chain(paged).chain(cursors) {
        check(wire, "/v1/reservations", case);
    }
    for case in paged.into_iter().chain(cursors).chain([("location=", "/location"), ("sku=a", "/sku")]) {
        check(wire, "/v1/inventory", case);
    }
    for case in paged.into_iter().chain(after).chain([("starting_after=00", "/starting_after")]) {
        check(wire, "/v1/events", case);
    }
    for case in after.into_iter().chain([("limit=1", "/limit")]) {
        check(wire, "/v1/events/stream", case);
    }
    check(wire, &format!("/v1/reservations/{UNKNOWN}/events"), ("limit=1", "/limit"));
    check(wire, "/v1/reservations/x/events", ("", "/reservation_id"));
    for header in ["", "x", "-1", "1.5", "18446744073709551616", "\u{ff}"] {
        let answer = wire.ask(&Call::get("/v1/events/stream").header("Last-Event-ID", header));
        let own = assert_problem(wire, &answer, 400, "invalid_request");
        assert_eq!(own["errors"][0]["pointer"], "/Last-Event-ID", "{header:?}");
    }
    let all = wire.ask(&Call::get("/v1/reservations?status=x&limit=0&starting_after=x&y=1"));
    let own = assert_problem(wire, &all, 400, "invalid_request");
    assert_eq!(own["errors"].as_array().unwrap().len(), 4);
}
