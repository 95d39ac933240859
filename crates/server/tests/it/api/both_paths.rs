//! Plain requests are read by the server's own hand, all others by a general implementation. Whoever asks must not see
//! which it was: the same request either way has the same answer.

use super::server::Server;
use super::wire::{Answer, Call, Wire};
use crate::support::wait_for;
use serde_json::{Value, json};
use std::io::Read;
use stockhold_conformance::mutate::mutated;
use stockhold_model::Random;

/// Mutated requests that are compared, unless `STOCKHOLD_TEST_REQUESTS` says another number.
const MUTATED_REQUESTS: u64 = 10_000;

/// What of an answer does not depend on when it was given.
fn lasting(answer: &Answer) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let mut headers = answer.headers.clone();
    headers.retain(|(name, _)| name != "date");
    headers.sort();
    (answer.status, headers, answer.body.clone())
}

/// Sends a request as clients do, and then in ways that the plain path does not take.
#[track_caller]
fn check(server: &Server, call: &Call, status: u16) {
    let call = call.clone().header("X-Request-Id", "same");
    let plain = server.ask(&call);
    assert_eq!(plain.status, status, "{call:?}: {}", plain.text());
    let others =
        [call.clone().header("Upgrade", "none"), call.clone().header("Content-Encoding", "identity")];
    for other in others {
        assert_eq!(lasting(&server.ask(&other)), lasting(&plain), "{other:?}");
    }
    let mut wire = server.connect();
    wire.send(&call.chunked(7));
    assert_eq!(lasting(&wire.answer()), lasting(&plain), "chunked: {call:?}");
}

#[test]
fn the_same_answers() {
    let server = Server::start();
    server.stock("tea", 10);
    server.stock("gone", 1);
    let reserve = |sku: &str, body: &Value| Call::post(format!("/v1/inventory/{sku}/reserve")).json(body);
    let owner = json!({ "owner_id": "o" });
    let made = server.ask(&reserve("gone", &owner)).json();
    let sold = server.ask(&reserve("tea", &owner).key("sold")).json();
    let path = |made: &Value| format!("/v1/reservations/{}", made["reservation_id"].as_str().unwrap());
    let confirm = Call::post(format!("{}/confirm", path(&sold)));
    assert_eq!(server.ask(&confirm).status, 200);
    let commands = json!({ "commands": [
        { "op": "reserve", "owner_id": "o", "sku": "tea", "idempotency_key": "sold" }, { "op": "confirm" },
        { "op": "release", "reservation_id": sold["reservation_id"] },
    ] });
    let too_much = "x".repeat(65 * 1024);

    for (call, status) in [
        (Call::get("/"), 200),
        (Call::get("/problems/internal"), 200),
        (Call::get("/v1/inventory/tea?location=default"), 200),
        (Call::get(path(&made)), 200),
        (Call::get(format!("{}/events", path(&sold))), 200),
        (Call::get("/v1/reservations?limit=1"), 200),
        (Call::get("/v1/reservations?limit=0"), 400),
        (Call::get("/v1/inventory?limit=1"), 200),
        (Call::get("/v1/events?after=2"), 200),
        (Call::get("/openapi.json"), 200),
        (Call::post("/v1/commands").json(&commands), 200),
        (Call::post("/v1/commands").json(&commands).key("k"), 400),
        (Call::post("/v1/availability").json(&json!({ "items": [{ "sku": "none" }] })), 200),
        (Call::post("/v1/availability").json(&json!({ "items": [] })), 400),
        (Call::post("/v1/sale/pause").header("Origin", "http://elsewhere"), 403),
        (confirm, 200),
        (reserve("tea", &owner).key("sold"), 200),
        (Call::put("/v1/inventory/tea").json(&json!({ "total_units": 10 })), 200),
        (Call::post("/v1/inventory/tea/resume"), 200),
        (Call::delete("/v1/reservations/x"), 400),
        (reserve("tea", &json!({})), 400),
        (reserve("tea", &owner).key(""), 400),
        (reserve("tea", &owner).key("a").key("b"), 400),
        (Call::put("/v1/inventory/tea").json(&json!({ "total_units": 9 })).header("If-Match", "\"9\""), 412),
        (Call::put("/v1/inventory/tea").json(&json!({ "total_units": 9 })).header("If-None-Match", "*"), 412),
        (Call::post("/v1/sale/pause").header("If-Match", "*"), 400),
        (Call::get("/v1/sale"), 200),
        (Call::get("/v1/events?after=999"), 400),
        (Call::get("/v1/sale").body("{}"), 400),
        (Call::get("/v1/inventory/tea?x=1"), 400),
        (Call::get("/v1/inventory/%ff"), 400),
        (Call::get("/v1/inventory/none/available"), 404),
        (Call::post("/nowhere").json(&owner), 404),
        (Call::post("/v1/inventory/tea").json(&owner), 405),
        (reserve("gone", &owner), 409),
        (Call::delete(path(&sold)), 409),
        (reserve("tea", &json!({ "owner_id": "o", "quantity": 1_000_001 })), 422),
        (reserve("tea", &json!({ "owner_id": "other" })).key("sold"), 422),
        (Call::post("/v1/inventory/tea/reserve").header("Content-Type", "text/plain").body("{}"), 415),
    ] {
        check(&server, &call, status);
    }
    let large = server.ask(&reserve("tea", &owner).body(too_much));
    assert_eq!(large.status, 413, "{}", large.text());
}

#[test]
fn one_connection_changes_over() {
    let server = Server::start();
    server.stock("tea", 100);
    let wire = &mut server.connect();
    let call = Call::post("/v1/inventory/tea/reserve").json(&json!({ "owner_id": "o" }));
    assert_eq!(wire.ask(&call).status, 200);
    // A plain request, another sort of request, and the head of a third, in one piece.
    let third = call.bytes();
    wire.send(&[&call.bytes()[..], &call.chunked(3), &third[..30]].concat());
    for _ in 0..2 {
        assert_eq!(wire.answer().status, 200);
    }
    wire.send(&third[30..]);
    assert_eq!(wire.answer().status, 200);
    assert_eq!(wire.ask(&Call::new("HEAD", "/v1/inventory/tea")).status, 200);
    assert_eq!(wire.ask(&call).status, 200);
    assert_eq!(server.item("tea")["held_units"], 5);
    wire.end_sending();
    assert!(wire.is_closed());
}

#[test]
fn nobody_waits_for_one_who_does_not_read() {
    let server = Server::start();
    server.stock("tea", 100);
    let page = Call::get("/problems/invalid_request").bytes();
    let mut deaf = server.connect();
    // More answers than the buffers in between hold: the server stops reading, and this side stops sending.
    deaf.send_without_waiting(&page.repeat(400_000));
    for _ in 0..50 {
        let body = json!({ "owner_id": "o" });
        assert_eq!(server.ask(&Call::post("/v1/inventory/tea/reserve").json(&body)).status, 200);
    }
    drop(deaf);
    wait_for("the item", || (server.item("tea")["held_units"] == 50).then_some(()));
}

/// Requests that change nothing, however often they are sent, and whose answers are the same each time.
fn examples() -> Vec<Vec<u8>> {
    let reserve = |sku: &str| Call::post(format!("/v1/inventory/{sku}/reserve"));
    let owner = json!({ "owner_id": "o", "metadata": { "a": [1, 2.5, null, "b\u{e9}"] } });
    let items = json!({ "items": [{ "sku": "nil" }, { "sku": "none", "location": "hub" }] });
    let calls = [
        Call::get("/"),
        Call::get("/problems/internal"),
        Call::get("/v1/inventory/gone?location=default").header("X-Request-Id", "r-1"),
        Call::get("/v1/inventory/t%65a").header("Accept-Encoding", "gzip, br"),
        Call::get("/v1/inventory?limit=1&location=default"),
        Call::get("/v1/events?after=1&type=inventory.adjusted").header("Accept", "*/*"),
        Call::get("/v1/reservations?limit=2&status=active"),
        Call::post("/v1/availability").json(&items).header("Connection", "keep-alive"),
        reserve("gone").json(&owner).key("k"),
        reserve("gone").json(&owner).key("\"quoted\"").header("If-Match", "\"3\""),
        reserve("tea").json(&json!({ "owner_id": 7 })).header("traceparent", "00-1-2-3"),
        Call::delete("/v1/reservations/x").header("Origin", "http://elsewhere"),
        Call::put("/v1/inventory/tea").json(&json!({ "total_units": 9 })).header("If-None-Match", "*"),
    ];
    let mut all: Vec<_> = calls.iter().map(Call::bytes).collect();
    // Two requests in one piece, and one in chunks.
    all.push([&all[2][..], &all[7]].concat());
    all.push(calls[8].chunked(9));
    all
}

/// Everything that comes back until the server closes, without what differs from answer to answer: dates, and ids that are made.
/// Headers are sorted.
fn lasting_lines(server: &Server, before: &[u8], request: &[u8]) -> Vec<String> {
    let mut wire = Wire::connect(server.address());
    wire.send_what_is_taken(before);
    if !before.is_empty() {
        wire.answer_without_body();
    }
    wire.send_what_is_taken(request);
    let mut stream = wire.end_and_take();
    let mut answers = Vec::new();
    // A server that hangs up on a request that it did not read resets the connection.
    let _ = stream.read_to_end(&mut answers);
    let text = String::from_utf8_lossy(&answers).into_owned();
    let lasting = |line: &str| {
        let is_id = |word: &str| word.trim_end_matches(['"', ' ']).len() >= 36;
        let words = line.split_inclusive(|c: char| !c.is_ascii_hexdigit() && c != '-');
        words.map(|word| if is_id(word) { "an id" } else { word }).collect()
    };
    let mut all = Vec::new();
    for part in text.split("\r\n\r\n") {
        // Whether the last answer says that it is the last one is left to each.
        let is_compared = |line: &&str| !line.starts_with("date:") && *line != "connection: close";
        let lines = part.split("\r\n").filter(is_compared);
        let mut lines: Vec<String> = lines.map(lasting).collect();
        lines.sort();
        all.extend(lines);
    }
    all
}

/// How the answers of both paths differ.
fn difference(plain: &[String], general: &[String]) -> Option<String> {
    // A request that ends early may have another fault too, and each path may name either.
    let ended_early = plain.iter().any(|line| line.contains("ended before it was complete"));
    let is_refused = |lines: &[String]| lines.iter().any(|line| line.contains("HTTP/1.1 4"));
    if plain == general || ended_early && is_refused(general) {
        return None;
    }
    let only = |of: &[String], other: &[String]| {
        of.iter().filter(|line| !other.contains(line)).cloned().collect::<Vec<_>>()
    };
    Some(format!("{:?} and {:?}", only(plain, general), only(general, plain)))
}

/// The general implementation reads the rest of a connection after a HEAD request.
#[test]
fn mutated_requests_have_the_same_answers() {
    let server = Server::start();
    server.stock("tea", 9);
    server.stock("gone", 0);
    let count =
        std::env::var("STOCKHOLD_TEST_REQUESTS").map_or(MUTATED_REQUESTS, |text| text.parse().unwrap());
    let (mut random, examples) = (Random::new(count), examples());
    let head = Call::new("HEAD", "/").bytes();
    for number in 0..count {
        let request = match examples.get(usize::try_from(number).unwrap()) {
            Some(example) => example.clone(),
            None => mutated(&mut random, &examples),
        };
        // A mutation may make a request that changes something, which it does once.
        let different = || {
            let plain = lasting_lines(&server, b"", &request);
            difference(&plain, &lasting_lines(&server, &head, &request))
        };
        if let (Some(_), Some(found)) = (different(), different()) {
            panic!("request {number}: {:?}: {found}", String::from_utf8_lossy(&request));
        }
    }
}
