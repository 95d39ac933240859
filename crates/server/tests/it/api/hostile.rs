//! Clients that mean harm, or do it: slow ones, silent ones, greedy ones, browsers sent by somebody else. They are cut off
//! or turned away, and everybody else is served meanwhile.

use super::server::Server;
use super::shape::assert_problem;
use super::wire::{Answer, Call, Wire};
use crate::support::wait_for;
use serde_json::{Value, json};

fn reserve() -> Call {
    Call::post("/v1/inventory/tea/reserve").json(&json!({ "owner_id": "o" }))
}

fn stocked() -> Server {
    let server = Server::start();
    server.stock("tea", 1_000_000);
    server
}

/// Asserts that others are served.
#[track_caller]
fn assert_serves(server: &Server) {
    for _ in 0..5 {
        assert_eq!(server.ask(&reserve()).status, 200);
    }
}

/// Asserts that a connection was given up with a problem that says why.
#[track_caller]
fn assert_given_up(server: &Server, wire: &mut Wire, status: u16, reason: &str) -> Value {
    let answer = wire.answer();
    assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
    let own = assert_problem(&mut server.connect(), &answer, status, reason);
    assert!(wire.is_closed());
    own
}

#[test]
fn what_can_not_be_read_gets_a_problem_too() {
    let server = stocked();
    let reserve = "POST /v1/inventory/tea/reserve HTTP/1.1\r\nHost: localhost\r\n";
    let before = ["", "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"];
    for first in before {
        for bad in [
            "GET / HTTP/9.9\r\n\r\n".to_owned(),
            "G\u{e9}T / HTTP/1.1\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\nHost h\r\n\r\n".to_owned(),
            "GET / HTTP/1.1\r\n: h\r\n\r\n".to_owned(),
            "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}\r\n\r\n".to_owned(),
            format!("{reserve}Content-Length: x\r\n\r\n"),
            format!("{reserve}Content-Length: 16\r\nContent-Length: 17\r\n\r\n{{\"owner_id\":\"o\"}}"),
            format!("{reserve}Transfer-Encoding: gzip\r\n\r\n"),
        ] {
            let mut wire = server.connect();
            wire.send(format!("{first}{bad}").as_bytes());
            if !first.is_empty() {
                assert_eq!(wire.answer_without_body().status, 200);
            }
            let own = assert_given_up(&server, &mut wire, 400, "invalid_request");
            assert_eq!(own["errors"][0]["pointer"], "", "{bad:?}");
        }
        for bad in [
            format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(70_000)),
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(70_000)),
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(70_000)),
            format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(500)),
        ] {
            let mut wire = server.connect();
            wire.send_what_is_taken(format!("{first}{bad}").as_bytes());
            if !first.is_empty() {
                assert_eq!(wire.answer_without_body().status, 200);
            }
            assert_eq!(
                assert_given_up(&server, &mut wire, 431, "headers_too_large"),
                json!({ "limit": 16_384 })
            );
        }
    }
    // As large as a head may be.
    let call = Call::get("/v1/inventory/tea").header("X", "x".repeat(15 * 1024));
    assert_eq!(server.ask(&call).status, 200);
    assert_eq!(server.item("tea")["held_units"], 0);
}

#[test]
fn heads_and_bodies_that_never_end() {
    let server = stocked();
    let whole = reserve().bytes();
    let upgraded = reserve().header("Upgrade", "none").bytes();
    let chunked = reserve().chunked(4);
    let cut = [
        &whole[..1],
        &whole[..40],
        &whole[..whole.len() - 1],
        &upgraded[..upgraded.len() - 1],
        &chunked[..chunked.len() - 8],
        b"\r\n\r\n\r\n",
        b"POST /v1/commands HTTP/1.1\r\nContent-Length: 8000000\r\n\r\n{",
    ];
    let mut slow = cut.map(|bytes| {
        let mut wire = server.connect();
        wire.send(bytes);
        wire
    });
    assert_serves(&server);
    for wire in &mut slow {
        let answer = wire.answer();
        let own = assert_problem(&mut server.connect(), &answer, 408, "request_timeout");
        assert_eq!(own, json!({}));
        assert!(wire.is_closed());
    }
    // One that sends a byte now and then is cut off as well.
    let mut dripping = server.connect();
    let bytes = Call::get("/v1/inventory/tea").header("X", "x".repeat(2_000)).bytes();
    let mut sent = 0;
    while sent < bytes.len() && dripping.try_send(&bytes[sent..=sent]) {
        sent += 1;
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(sent < bytes.len(), "a head of {sent} bytes was taken though it came byte by byte");
    assert_eq!(server.item("tea")["held_units"], 5);
}

#[test]
fn thousands_of_connections_that_say_nothing() {
    const IDLE: usize = 3_000;
    let server = stocked();
    assert_serves(&server);
    let before = server.resident_kib();
    let idle = (0..IDLE).map(|_| server.connect()).collect::<Vec<_>>();
    wait_for("the connections", || (server.metric("stockhold_connections") >= IDLE as u64).then_some(()));
    assert_serves(&server);
    let each = server.resident_kib().saturating_sub(before) * 1024 / IDLE as u64;
    assert!(each < 16 * 1024, "{each} bytes for a connection that says nothing");
    drop(idle);
    wait_for("the connections to be forgotten", || {
        (server.metric("stockhold_connections") < 10).then_some(())
    });
    assert_serves(&server);
}

#[test]
fn connections_come_and_go() {
    let server = stocked();
    for n in 0..500 {
        let mut wire = server.connect();
        match n % 5 {
            0 => assert_eq!(wire.ask(&reserve()).status, 200),
            1 => assert_eq!(wire.ask(&Call::new("HEAD", "/")).status, 200),
            2 => wire.send(b"GET / HTTP/9.9\r\n\r\n"),
            3 => wire.send(b"GET /"),
            _ => {}
        }
    }
    wait_for("all of them to be gone", || (server.metric("stockhold_connections") == 0).then_some(()));
    assert_eq!(server.item("tea")["held_units"], 100);
}

#[test]
fn bodies_have_so_much_room_together() {
    const LONG: usize = 8 * 1024 * 1024;
    const CLIENTS: usize = 24;
    let server = stocked();
    let before = server.resident_kib();
    let head = format!("POST /v1/commands HTTP/1.1\r\nHost: localhost\r\nContent-Length: {LONG}\r\n\r\n");
    let almost = vec![b' '; LONG - 1];
    let answers = std::thread::scope(|scope| {
        let client = |_| {
            let (server, head, almost) = (&server, &head, &almost);
            scope.spawn(move || {
                let mut wire = server.connect();
                wire.send(head.as_bytes());
                wire.send_what_is_taken(almost);
                wire.answer()
            })
        };
        let clients = (0..CLIENTS).map(client).collect::<Vec<_>>();
        wait_for("the room to be taken", || {
            (server.metric("stockhold_bytes_in_flight") > 40_000_000).then_some(())
        });
        // Short ones need none of it.
        assert_serves(&server);
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<Answer>>()
    });
    let turned_away = answers.iter().filter(|answer| answer.status == 503).collect::<Vec<_>>();
    assert!(turned_away.len() > CLIENTS / 3, "{} were turned away", turned_away.len());
    for answer in turned_away {
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_problem(&mut server.connect(), answer, 503, "overloaded");
    }
    // Those that have room and stop in the middle are waited for in vain.
    for answer in answers.iter().filter(|answer| answer.status != 503) {
        assert_problem(&mut server.connect(), answer, 408, "request_timeout");
    }
    wait_for("the room to be given back", || (server.metric("stockhold_bytes_in_flight") == 0).then_some(()));
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 300 * 1024, "{grown} KiB more than before");
    let good = json!({ "commands": [{ "op": "reserve", "owner_id": "o", "sku": "tea" }] });
    assert_eq!(server.ask(&Call::post("/v1/commands").json(&good)).status, 200);
}

#[test]
fn long_answers_that_nobody_reads() {
    const DEAF: usize = 10;
    let server = stocked();
    let mut wire = server.connect();
    let command =
        json!({ "op": "reserve", "owner_id": "o", "sku": "tea", "metadata": { "note": "x".repeat(2_000) } });
    for _ in 0..2 {
        let answer =
            wire.ask(&Call::post("/v1/commands").json(&json!({ "commands": vec![command.clone(); 1_000] })));
        assert_eq!(answer.status, 200);
    }
    let before = server.resident_kib();
    let pages = ["/v1/reservations?limit=1000", "/v1/events?limit=1000"];
    let mut deaf = Vec::new();
    for n in 0..DEAF {
        let mut wire = server.connect();
        let call = Call::get(pages[n % 2]);
        let call = if n % 4 < 2 { call } else { call.header("Upgrade", "none") };
        // More than the sockets between hold.
        wire.send(&call.bytes().repeat(6));
        deaf.push(wire);
    }
    wait_for("the pages to be written", || {
        (server.metric("stockhold_bytes_in_flight") > 10_000_000).then_some(())
    });
    assert_serves(&server);
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 250 * 1024, "{grown} KiB more than before");
    wait_for("those who do not read to be cut off", || {
        (server.metric("stockhold_slow_consumers_total") >= DEAF as u64 / 2).then_some(())
    });
    drop(deaf);
    wait_for("all of them to be gone", || (server.metric("stockhold_connections") <= 1).then_some(()));
    assert_eq!(server.metric("stockhold_bytes_in_flight"), 0);
    assert_eq!(server.ask(&Call::get(pages[0])).status, 200);
}

#[test]
fn one_client_that_sends_without_an_end() {
    let server = stocked();
    let line = Call::get("/v1/inventory/tea/available").bytes();
    let before = server.resident_kib();
    let greedy = (0..4).map(|_| {
        let mut wire = server.connect();
        wire.send_without_waiting(&line.repeat(400_000));
        wire
    });
    let greedy = greedy.collect::<Vec<_>>();
    for _ in 0..50 {
        assert_eq!(server.ask(&reserve()).status, 200);
    }
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 100 * 1024, "{grown} KiB more than before");
    drop(greedy);
}

#[test]
fn browsers_sent_by_somebody_else() {
    let server = stocked();
    let wire = &mut server.connect();
    let changes = [
        reserve(),
        Call::post("/v1/reservations").json(&json!({ "owner_id": "o", "lines": [{ "sku": "tea" }] })),
        Call::post("/v1/commands")
            .json(&json!({ "commands": [{ "op": "reserve", "owner_id": "o", "sku": "tea" }] })),
        Call::put("/v1/inventory/tea").json(&json!({ "total_units": 1 })),
        Call::delete("/v1/reservations/018bcfe5-6800-7fff-bfff-ffffffffffff"),
        Call::post("/v1/sale/pause"),
        // What a form can send without asking first.
        Call::post("/v1/inventory/tea/reserve").body("{\"owner_id\":\"o\"}"),
    ];
    for call in &changes {
        for origin in ["http://evil.example", "null", "https://test", "http://localhost:3000", ""] {
            for call in [call.clone(), call.clone().header("Upgrade", "none")] {
                let answer = wire.ask(&call.header("Origin", origin));
                assert_eq!(assert_problem(wire, &answer, 403, "forbidden"), json!({}));
            }
        }
    }
    let item = server.item("tea");
    assert_eq!(
        (&item["held_units"], &item["total_units"], &item["paused"]),
        (&json!(0), &json!(1_000_000), &json!(false))
    );
    // Reading is left to the browser, which shows a page of another origin nothing of it.
    let read = wire.ask(&Call::get("/v1/inventory/tea").header("Origin", "http://evil.example"));
    assert_eq!((read.status, read.header("access-control-allow-origin")), (200, None));
    // The server's own pages may, under its own address.
    let own = "POST /v1/sale/pause?location=hub HTTP/1.1\r\nHost: 127.0.0.1:8101\r\nOrigin: http://127.0.0.1:8101\r\n\r\n";
    wire.send(own.as_bytes());
    assert_eq!(wire.answer().status, 200);
    let rebound =
        "POST /v1/sale/pause HTTP/1.1\r\nHost: evil.example:8101\r\nOrigin: http://evil.example:8101\r\n\r\n";
    wire.send(rebound.as_bytes());
    let answer = wire.answer();
    assert_problem(wire, &answer, 421, "misdirected_request");
    let preflight =
        wire.ask(&Call::new("OPTIONS", "/v1/inventory/tea/reserve").header("Origin", "http://evil.example"));
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (405, None));
}
