//! Lists by order, customer and time of creation, and events by their type: what is on a page, and what is refused.

use super::server::Server;
use super::shape::assert_problem;
use super::wire::{Call, Wire};
use serde_json::{Value, json};

#[track_caller]
fn page(wire: &mut Wire, path: &str) -> Value {
    let answer = wire.ask(&Call::get(path));
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// The reservations of a list, page by page of one entry.
#[track_caller]
fn listed(wire: &mut Wire, query: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let found = page(wire, &format!("/v1/reservations?limit=1&{query}{cursor}"));
        for hold in found["data"].as_array().unwrap() {
            all.push(hold["reservation_id"].as_str().unwrap().to_owned());
        }
        if found["has_more"] == json!(false) {
            return all;
        }
        cursor = format!("&starting_after={}", found["next_cursor"].as_str().unwrap());
    }
}

#[track_caller]
fn reserve(wire: &mut Wire, customer: &str) -> Value {
    let body = json!({ "owner_id": "o", "customer_id": customer });
    let answer = wire.ask(&Call::post("/v1/inventory/tea/reserve").json(&body));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[track_caller]
fn confirm(wire: &mut Wire, hold: &Value, order: &str) {
    let path = format!("/v1/reservations/{}/confirm", hold["reservation_id"].as_str().unwrap());
    let answer = wire.ask(&Call::post(path).json(&json!({ "order_id": order })));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn id(hold: &Value) -> String {
    hold["reservation_id"].as_str().unwrap().to_owned()
}

/// An order is found as soon as its confirm is answered, after a kill, and when the index has it.
#[test]
fn reservations_of_an_order() {
    let mut server = Server::start();
    server.stock("tea", 1_000);
    let mut wire = server.connect();
    let holds: Vec<Value> = (0..20).map(|n| reserve(&mut wire, &format!("c-{n}"))).collect();
    let mut expected = Vec::new();
    for (n, hold) in holds.iter().enumerate().rev() {
        let order = if n % 5 == 0 { "order / 1" } else { "other" };
        confirm(&mut wire, hold, order);
        if n % 5 == 0 {
            expected.insert(0, id(hold));
        }
        assert_eq!(listed(&mut wire, "order_id=order+%2F+1"), expected, "after the confirm of {n}");
    }
    assert_eq!(expected.len(), 4);
    assert_eq!(listed(&mut wire, "order_id=other").len(), 16);
    for _ in 0..2 {
        server.kill();
        server.start_again();
        let wire = &mut server.connect();
        assert_eq!(listed(wire, "order_id=order+%2F+1"), expected);
        assert_eq!(listed(wire, "order_id=order+%2F+1&customer_id=c-5&owner_id=o&sku=tea"), [id(&holds[5])]);
        for nothing in ["order_id=Other", "order_id=other&status=active", "order_id=other&customer_id=c-5"] {
            assert_eq!(listed(wire, nothing), Vec::<String>::new(), "{nothing}");
        }
    }
}

#[test]
fn reservations_by_customer_and_time() {
    let server = Server::start();
    server.stock("tea", 1_000);
    let wire = &mut server.connect();
    let holds: Vec<Value> = (0..6)
        .map(|n| {
            // Another millisecond for each, which is what a time shows.
            std::thread::sleep(std::time::Duration::from_millis(3));
            reserve(wire, if n % 2 == 0 { "even" } else { "odd" })
        })
        .collect();
    let newest_first = |kept: &[usize]| kept.iter().rev().map(|n| id(&holds[*n])).collect::<Vec<_>>();
    let at = |n: usize| holds[n]["created_at"].as_str().unwrap();
    // The same instant elsewhere.
    let shifted = at(2).parse::<jiff::Timestamp>().unwrap() + jiff::SignedDuration::from_hours(2);
    let shifted = format!("{}%2B02:00", format!("{shifted:.3}").trim_end_matches('Z'));
    for (query, kept) in [
        ("customer_id=odd".to_owned(), &[1, 3, 5][..]),
        ("customer_id=nobody".to_owned(), &[]),
        (format!("created_after={}", at(2)), &[2, 3, 4, 5]),
        (format!("created_after={shifted}"), &[2, 3, 4, 5]),
        (format!("created_before={}", at(2)), &[0, 1]),
        (format!("created_after={}&created_before={}", at(1), at(4)), &[1, 2, 3]),
        (format!("created_after={}&created_before={}&customer_id=even", at(1), at(5)), &[2, 4]),
        ("created_before=2000-01-01T00:00:00Z".to_owned(), &[]),
        ("created_after=9999-12-31T23:59:59Z".to_owned(), &[]),
    ] {
        assert_eq!(listed(wire, &query), newest_first(kept), "{query}");
    }
    for (query, pointer, detail) in [
        (
            format!("created_after={}&created_before={}", at(1), at(1)),
            "/created_before",
            "must be later than",
        ),
        ("created_before=2026-01-01".to_owned(), "/created_before", "must be a time in RFC 3339 like"),
        ("created_after=2026-01-01T00:00:00+01:00".to_owned(), "/created_after", "write + as %2B"),
        ("order_id=".to_owned(), "/order_id", "must not be empty"),
        ("customer_id=%00".to_owned(), "/customer_id", "has a control character"),
    ] {
        let answer = wire.ask(&Call::get(format!("/v1/reservations?{query}")));
        let errors = &assert_problem(wire, &answer, 400, "invalid_request")["errors"];
        assert_eq!(errors[0]["pointer"], pointer, "{query}: {errors}");
        assert!(errors[0]["detail"].as_str().unwrap().contains(detail), "{query}: {errors}");
    }
}

fn positions(page: &Value) -> Vec<u64> {
    page["data"].as_array().unwrap().iter().map(|event| event["position"].as_u64().unwrap()).collect()
}

#[test]
fn events_of_some_types_and_the_newest_ones() {
    let server = Server::start();
    server.stock("tea", 1_000);
    let wire = &mut server.connect();
    // Positions 2, 4, 6, … are reserves, 3, 5, 7, … confirms.
    for n in 0..40 {
        let hold = reserve(wire, "c");
        confirm(wire, &hold, &format!("o-{n}"));
    }
    let every = |first: u64, last: u64, step: usize| (first..=last).step_by(step).collect::<Vec<_>>();
    for (query, expected, more, next) in [
        ("type=reservation.confirmed&limit=1000", every(3, 81, 2), false, "81"),
        ("type=reservation.confirmed&limit=3", every(3, 7, 2), true, "7"),
        ("type=reservation.confirmed&limit=3&after=7", every(9, 13, 2), true, "13"),
        ("type=stock.set&limit=1", vec![1], true, "1"),
        ("type=stock.set&after=1", vec![], false, "81"),
        ("type=stock.set,reservation.created&limit=3", vec![1, 2, 4], true, "4"),
        ("type=sale.paused", vec![], false, "81"),
        ("tail=3", vec![79, 80, 81], false, "81"),
        ("tail=1000", every(1, 81, 1), false, "81"),
        ("tail=3&type=reservation.confirmed", vec![77, 79, 81], false, "81"),
        ("tail=40&type=reservation.created", every(2, 80, 2), false, "81"),
        ("tail=7&type=stock.set", vec![1], false, "81"),
        ("tail=7&type=units.added", vec![], false, "81"),
    ] {
        let found = page(wire, &format!("/v1/events?{query}"));
        let cursor = (&found["has_more"], &found["next_cursor"]);
        assert_eq!((positions(&found), cursor), (expected, (&json!(more), &json!(next))), "{query}");
    }
    for (query, pointer, detail) in [
        ("type=reservation", "/type", "reservation.created, reservation.extended,"),
        ("type=sale.paused,x", "/type", "found \"x\""),
        ("type=", "/type", "must be event types"),
        ("tail=0", "/tail", "from 1 to 1,000"),
        ("tail=1001", "/tail", "from 1 to 1,000"),
        ("tail=1&after=1", "/tail", "can't be combined with after"),
        ("tail=1&limit=1", "/tail", "can't be combined with limit"),
    ] {
        let answer = wire.ask(&Call::get(format!("/v1/events?{query}")));
        let errors = &assert_problem(wire, &answer, 400, "invalid_request")["errors"];
        assert_eq!(errors[0]["pointer"], pointer, "{query}: {errors}");
        assert!(errors[0]["detail"].as_str().unwrap().contains(detail), "{query}: {errors}");
    }
    let answer = wire.ask(&Call::get("/v1/events/stream?type=sale"));
    let errors = &assert_problem(wire, &answer, 400, "invalid_request")["errors"];
    assert_eq!(errors[0]["pointer"], "/type");
}

#[test]
fn the_newest_events_of_a_server_without_any() {
    let server = Server::start();
    let wire = &mut server.connect();
    let nothing = json!({ "data": [], "has_more": false, "next_cursor": "0" });
    assert_eq!(page(wire, "/v1/events?tail=5"), nothing);
    assert_eq!(page(wire, "/v1/events?type=stock.set"), nothing);
}

/// A page examines so many events and no more. It says where to continue.
#[test]
fn rare_events_among_many() {
    const EXAMINED: usize = 4_096;
    let server = Server::start();
    server.stock("tea", 10_000);
    let wire = &mut server.connect();
    let command = json!({ "op": "reserve", "owner_id": "o", "sku": "tea" });
    let body = json!({ "commands": vec![command; EXAMINED + 4] });
    assert_eq!(wire.ask(&Call::post("/v1/commands").json(&body)).status, 200);
    assert_eq!(wire.ask(&Call::post("/v1/sale/pause").json(&json!({}))).status, 200);
    let newest = EXAMINED as u64 + 6;

    let first = page(wire, "/v1/events?type=sale.paused");
    let cursor = EXAMINED.to_string();
    assert_eq!(first, json!({ "data": [], "has_more": true, "next_cursor": cursor }));
    let second = page(wire, &format!("/v1/events?type=sale.paused&after={cursor}"));
    assert_eq!((positions(&second), &second["has_more"]), (vec![newest], &json!(false)));

    assert_eq!(positions(&page(wire, "/v1/events?tail=1&type=sale.paused")), [newest]);
    // The first event of all is behind those that are examined.
    let behind = page(wire, "/v1/events?tail=1&type=stock.set");
    assert_eq!(behind, json!({ "data": [], "has_more": false, "next_cursor": newest.to_string() }));
}
