//! HTTP itself: how requests may be framed, cut into pieces, lined up and broken off. Whatever a client does, the server
//! answers it or hangs up, and goes on serving everybody else.

use super::server::Server;
use super::shape::assert_problem;
use super::wire::Call;
use serde_json::json;

fn reserve() -> Call {
    Call::post("/v1/inventory/tea/reserve").json(&json!({ "owner_id": "o" }))
}

fn item() -> Call {
    Call::get("/v1/inventory/tea")
}

fn stocked() -> Server {
    let server = Server::start();
    server.stock("tea", 1_000);
    server
}

#[track_caller]
fn assert_held(server: &Server, held: u64) {
    assert_eq!(server.item("tea")["held_units"], held);
}

#[test]
fn a_request_in_pieces() {
    let server = stocked();
    let mut wire = server.connect();
    let bytes = reserve().bytes();
    for piece in bytes.chunks(7) {
        wire.send(piece);
    }
    assert_eq!(wire.answer().status, 200);
    for size in [1, 3, 1_000] {
        wire.send(&reserve().chunked(size));
        assert_eq!(wire.answer().status, 200);
    }
    let mut extended = reserve().chunked(5);
    let at = extended.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    extended.splice(at + 1..=at, *b";name=\"value\"");
    wire.send(&extended);
    assert_eq!(wire.answer().status, 200);
    assert_held(&server, 5);
}

#[test]
fn requests_in_a_line() {
    let server = stocked();
    let mut wire = server.connect();
    let bytes = (0..50).flat_map(|n| match n % 5 {
        0 => reserve().bytes(),
        1 => item().bytes(),
        2 => Call::post("/v1/inventory/tea/reserve").body("{").bytes(),
        3 => reserve().chunked(4),
        _ => Call::get("/nowhere").bytes(),
    });
    wire.send(&bytes.collect::<Vec<_>>());
    let mut sequence = 0;
    for n in 0..50 {
        let answer = wire.answer();
        assert_eq!(answer.status, [200, 200, 400, 200, 404][n % 5], "{}", answer.text());
        if matches!(n % 5, 0 | 3) {
            let next = answer.json()["lines"][0]["sequence"].as_u64().unwrap();
            assert!(next > sequence, "answers are out of order");
            sequence = next;
        }
    }
    assert_held(&server, 20);
}

#[test]
fn a_client_that_asks_before_it_sends() {
    let server = stocked();
    let expecting = reserve().header("Expect", "100-continue");
    let mut wire = server.connect();
    wire.send(&expecting.head());
    assert_eq!(wire.answer().status, 100);
    wire.send(b"{\"owner_id\":\"o\"}");
    assert_eq!(wire.answer().status, 200);

    // One that would be refused need not send at all.
    let mut wire = server.connect();
    let large = Call::post("/v1/reservations").header("Expect", "100-continue").body(vec![b' '; 2_000_000]);
    wire.send(&large.head());
    let answer = wire.answer();
    assert_problem(&mut server.connect(), &answer, 413, "too_large");
    let mut wire = server.connect();
    wire.send(&expecting.header("Content-Encoding", "gzip").head());
    let answer = wire.answer();
    assert_problem(&mut server.connect(), &answer, 415, "unsupported_media_type");
}

#[test]
fn connections_that_end_and_that_go_on() {
    let server = stocked();
    let check = |request: &[u8], version: &str, goes_on: bool| {
        let mut wire = server.connect();
        wire.send(request);
        let answer = wire.answer();
        assert_eq!((answer.status, answer.version.as_str()), (200, version));
        if goes_on {
            assert_eq!(wire.ask(&item()).status, 200);
        } else {
            assert!(wire.is_closed());
        }
    };
    check(&item().bytes(), "HTTP/1.1", true);
    check(&item().header("Connection", "close").bytes(), "HTTP/1.1", false);
    check(b"GET /v1/inventory/tea HTTP/1.0\r\n\r\n", "HTTP/1.0", false);
    check(b"GET /v1/inventory/tea HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.0", true);
    check(b"GET http://localhost/v1/inventory/tea HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1", true);
    check(b"\r\nGET /v1/inventory/tea HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1", true);
    let reserved =
        b"POST /v1/inventory/tea/reserve HTTP/1.0\r\nContent-Length: 16\r\n\r\n{\"owner_id\":\"o\"}";
    check(reserved, "HTTP/1.0", false);
    assert_held(&server, 1);

    let mut wire = server.connect();
    wire.send(&item().bytes());
    wire.end_sending();
    assert_eq!(wire.answer().status, 200);
    assert!(wire.is_closed());
    let mut silent = server.connect();
    silent.end_sending();
    assert!(silent.is_closed());
}

#[test]
fn http_2_is_refused_in_words() {
    let server = stocked();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for pieces in [preface.chunks(preface.len()), preface.chunks(3)] {
        let mut wire = server.connect();
        for piece in pieces {
            wire.send_what_is_taken(piece);
        }
        let answer = wire.next_answer(true).expect("an answer");
        assert_problem(&mut server.connect(), &answer, 400, "invalid_request");
        assert!(
            answer.text().contains("HTTP/2 without TLS, which this server does not speak"),
            "{}",
            answer.text()
        );
        assert!(wire.is_closed());
    }
}

#[test]
fn what_is_no_http() {
    let server = stocked();
    let long_path = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(70_000));
    let long_header = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(70_000));
    let many_headers = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(500));
    let body = "Host: localhost\r\nContent-Length: 16\r\n";
    let reserve = "POST /v1/inventory/tea/reserve HTTP/1.1\r\n";
    let requests = [
        "\0\0\0\0\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        "GET /v1/inventory/tea HTTP/9.9\r\n\r\n".to_owned(),
        "GET /v1/inventory/te a HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost h\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\n: h\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}\r\n\r\n".to_owned(),
        format!("{reserve}Host: localhost\r\nContent-Length: -1\r\n\r\n"),
        format!("{reserve}Host: localhost\r\nContent-Length: x\r\n\r\n"),
        format!("{reserve}Host: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n"),
        format!("{reserve}{body}Content-Length: 17\r\n\r\n{{\"owner_id\":\"o\"}}"),
        format!("{reserve}{body}Transfer-Encoding: gzip\r\n\r\n{{\"owner_id\":\"o\"}}"),
        long_path,
        long_header,
        many_headers,
    ];
    for request in requests {
        let mut wire = server.connect();
        wire.send_what_is_taken(request.as_bytes());
        let shown = request.chars().take(80).collect::<String>();
        let answer = wire.next_answer(true).unwrap_or_else(|| panic!("no answer to {shown:?}"));
        let (status, reason) =
            if request.len() > 1_000 { (431, "headers_too_large") } else { (400, "invalid_request") };
        assert_problem(&mut server.connect(), &answer, status, reason);
        assert!(wire.is_closed(), "{shown:?}");
    }
    for chunks in
        ["zz\r\n{}\r\n0\r\n\r\n", "-1\r\n{}\r\n", "2\r\n{}XX0\r\n\r\n", "ffffffffffffffffff\r\n{}\r\n"]
    {
        let mut wire = server.connect();
        wire.send(
            format!("{reserve}Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}").as_bytes(),
        );
        let answer = wire.answer();
        assert_problem(&mut server.connect(), &answer, 400, "invalid_request");
    }
    assert_held(&server, 0);
}

#[test]
fn clients_that_go_away() {
    let server = stocked();
    let whole = reserve().bytes();
    for length in [0, 1, 20, whole.len() - 17, whole.len() - 1] {
        let mut wire = server.connect();
        wire.send(&whole[..length]);
    }
    let half = reserve().chunked(4);
    server.connect().send(&half[..half.len() - 8]);
    assert_held(&server, 0);
    // What has arrived whole is done, whether or not its caller waits for the answer.
    for _ in 0..50 {
        server.connect().send(&whole);
    }
    let done = crate::support::wait_for("the requests to be done", || {
        let item = server.item("tea");
        (item["held_units"] == 50).then_some(item)
    });
    assert_eq!((&done["active_reservations"], &done["sequence"]), (&json!(50), &json!(51)));

    // One that says it is done in the middle of a body is told so.
    let mut wire = server.connect();
    wire.send(&whole[..whole.len() - 1]);
    wire.end_sending();
    let answer = wire.answer();
    assert_problem(&mut server.connect(), &answer, 400, "invalid_request");
    assert_held(&server, 50);
}

/// What stands between may see another host, or another end of the request, than the server does.
#[test]
fn requests_that_two_would_read_differently() {
    let server = stocked();
    let reserve = "POST /v1/inventory/tea/reserve HTTP/1.1\r\n";
    let body = "10\r\n{\"owner_id\":\"o\"}\r\n0\r\n\r\n";
    for request in [
        format!("{reserve}Host: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{body}"),
        format!(
            "{reserve}Host: localhost\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
        ),
    ] {
        let mut wire = server.connect();
        wire.send(request.as_bytes());
        let answer = wire.answer();
        assert_problem(&mut server.connect(), &answer, 400, "invalid_request");
        assert!(wire.is_closed(), "{request}");
    }
    for (hosts, status) in [("", 400), ("Host: a\r\nHost: b\r\n", 400), ("Host: localhost\r\n", 200)] {
        for extra in ["", "Expect: 100-continue\r\n"] {
            let mut wire = server.connect();
            wire.send(format!("GET /v1/inventory/tea HTTP/1.1\r\n{hosts}{extra}\r\n").as_bytes());
            let answer = wire.answer();
            assert_eq!(answer.status, status, "{hosts:?}: {}", answer.text());
            if status == 400 {
                assert_eq!(answer.json()["errors"][0]["pointer"], "/Host");
            }
        }
    }
    assert_held(&server, 0);
}

#[test]
fn a_body_that_never_ends() {
    let server = stocked();
    let whole = reserve().bytes();
    let mut slow = server.connect();
    slow.send(&whole[..whole.len() - 1]);
    for _ in 0..20 {
        assert_eq!(server.ask(&reserve()).status, 200);
    }
    let answer = slow.answer();
    let own = assert_problem(&mut server.connect(), &answer, 408, "request_timeout");
    assert_eq!(own, json!({}));
    assert_held(&server, 20);
}
