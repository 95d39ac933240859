//! What is wrong with a request beside its body: path, query, headers, method, size, media type. Each gets a problem.

use super::server::Server;
use super::shape::assert_problem;
use super::wire::{Answer, Call, Wire, encoded};
use serde_json::{Value, json};

const UNKNOWN: &str = "018bcfe5-6800-7fff-bfff-ffffffffffff";
/// Longest body of most routes, and of a basket.
const BODY_BYTES: usize = 64 * 1024;
const BASKET_BYTES: usize = 1024 * 1024;

/// Asserts that a request is invalid at these places, in any order.
#[track_caller]
fn check(wire: &mut Wire, call: &Call, pointers: &[&str]) {
    let answer = wire.ask(call);
    assert_eq!(answer.status, 400, "{call:?}: {}", answer.text());
    let own = assert_problem(wire, &answer, 400, "invalid_request");
    let errors = own["errors"].as_array().unwrap();
    let mut found = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect::<Vec<_>>();
    found.sort_unstable();
    assert_eq!(found, pointers, "{call:?}: {own}");
}

/// Every route about one item, with a body that it takes.
fn item_routes(sku: &str) -> [Call; 7] {
    let path = format!("/v1/inventory/{sku}");
    [
        Call::get(&path),
        Call::get(format!("{path}/available")),
        Call::put(&path).json(&json!({ "total_units": 10 })),
        Call::post(format!("{path}/adjust")).json(&json!({ "delta": 1, "reason": "r" })),
        Call::post(format!("{path}/reserve")).json(&json!({ "owner_id": "o" })),
        Call::post(format!("{path}/pause")),
        Call::post(format!("{path}/resume")),
    ]
}

/// Every route about one reservation, with a body that it takes.
fn reservation_routes(id: &str) -> [Call; 5] {
    let path = format!("/v1/reservations/{id}");
    [
        Call::get(&path),
        Call::delete(&path),
        Call::post(format!("{path}/confirm")),
        Call::post(format!("{path}/extend")).json(&json!({ "ttl_seconds": 1 })),
        Call::post(format!("{path}/return")).json(&json!({ "reason": "r" })),
    ]
}

#[test]
fn paths() {
    let server = Server::start();
    let wire = &mut server.connect();
    let long = encoded("x".repeat(129));
    for sku in
        ["%", "%4", "%zz", "a%+1", "%ff", "%ed%a0%80", "%c0%af", "%00", "a%0Ab", "%7f", "%c2%85", &*long]
    {
        for call in item_routes(sku) {
            check(wire, &call, &["/sku"]);
        }
    }
    let long = "0".repeat(4_000);
    let cut = &UNKNOWN[1..];
    let bare = UNKNOWN.replace('-', "");
    let marked = format!("%7b{UNKNOWN}%7d");
    for id in ["x", "1", "%00", "%ff", "..", &*long, cut, &*bare, &*marked, &*UNKNOWN.replace('0', "g")] {
        for call in reservation_routes(id) {
            check(wire, &call, &["/reservation_id"]);
        }
    }
    for call in [Call::get("/v1/inventory//available"), Call::post("/v1/inventory//pause")] {
        check(wire, &call, &["/sku"]);
    }
    let all =
        Call::put("/v1/inventory/%00?location=&x=1").header("If-Match", "1").body("{\"total_units\":-1}");
    check(wire, &all, &["/If-Match", "/location", "/sku", "/total_units", "/x"]);
}

#[test]
fn queries() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let long = format!("location={}", "x".repeat(129));
    let queries = [
        ("location=", "/location"),
        ("location", "/location"),
        ("location=%", "/location"),
        ("location=%ff", "/location"),
        ("location=%00", "/location"),
        ("location=a&location=a", "/location"),
        (&*long, "/location"),
        ("Location=a", "/Location"),
        ("sku=tea", "/sku"),
        ("location=a&x=1", "/x"),
        ("=", "/"),
    ];
    for (query, pointer) in queries {
        let sales = ["pause", "resume"].map(|what| Call::post(format!("/v1/sale/{what}")));
        for call in item_routes("tea").into_iter().chain(sales) {
            check(wire, &call.query(query), &[pointer]);
        }
    }
    for call in reservation_routes(UNKNOWN) {
        check(wire, &call.query("location=a"), &["/location"]);
    }
    check(wire, &Call::post("/v1/reservations?location=a").json(&basket(1)), &["/location"]);
    for query in ["reason=", "reason=%00", "reason=%ff", "reason=a&reason=b"] {
        check(wire, &Call::delete(format!("/v1/reservations/{UNKNOWN}?{query}")), &["/reason"]);
    }
    let item = server.item("tea");
    assert_eq!((&item["sequence"], &item["held_units"]), (&json!(1), &json!(0)), "{item}");
}

fn basket(lines: usize) -> Value {
    json!({ "owner_id": "o", "lines": vec![json!({ "sku": "tea" }); lines] })
}

#[test]
fn headers() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let long = "k".repeat(256);
    let body = json!({ "owner_id": "o" });
    let keyed = [
        Call::post("/v1/inventory/tea/reserve").json(&body),
        Call::post("/v1/reservations").json(&basket(1)),
        Call::post(format!("/v1/reservations/{UNKNOWN}/confirm")),
        Call::delete(format!("/v1/reservations/{UNKNOWN}")),
        Call::post("/v1/inventory/tea/adjust").json(&json!({ "delta": 1, "reason": "r" })),
    ];
    let keys = ["", "\"\"", "\"k", "\"k\"k\"", "\"k\" k", "\"\\k\"", "a\tb", &*long];
    for call in &keyed {
        for key in keys {
            check(wire, &call.clone().key(key), &["/Idempotency-Key"]);
        }
        check(wire, &call.clone().header("Idempotency-Key", b"k\xff"), &["/Idempotency-Key"]);
        check(wire, &call.clone().key("k").key("k"), &["/Idempotency-Key"]);
    }
    let both = json!({ "owner_id": "o", "idempotency_key": "a" });
    check(wire, &Call::post("/v1/inventory/tea/reserve").json(&both).key("b"), &["/Idempotency-Key"]);

    for tag in ["", "1", "\"1", "1\"", "*, \"1\"", "\"1\" \"2\"", "w/\"1\"", "\"a b\""] {
        for call in &item_routes("tea")[2..4] {
            check(wire, &call.clone().header("If-Match", tag), &["/If-Match"]);
        }
    }
    let set = &Call::put("/v1/inventory/tea").json(&json!({ "total_units": 9 }));
    for tag in ["", "\"1\"", "W/\"1\"", "*, *"] {
        check(wire, &set.clone().header("If-None-Match", tag), &["/If-None-Match"]);
    }
    check(wire, &set.clone().header("If-None-Match", "*").header("If-None-Match", "*"), &["/If-None-Match"]);
    check(wire, &set.clone().header("If-None-Match", "*").header("If-Match", "*"), &["/If-None-Match"]);
    // What would be passed over is refused.
    let takes_no_tag = [
        Call::get("/v1/inventory/tea"),
        Call::post("/v1/inventory/tea/reserve").json(&body),
        Call::post("/v1/inventory/tea/pause"),
        Call::post("/v1/sale/pause"),
        Call::delete(format!("/v1/reservations/{UNKNOWN}")),
        Call::post("/v1/commands").json(&json!({ "commands": [] })),
    ];
    for call in &takes_no_tag {
        check(wire, &call.clone().header("If-Match", "\"1\""), &["/If-Match"]);
        if call.method() != "GET" {
            check(wire, &call.clone().header("If-None-Match", "*"), &["/If-None-Match"]);
        }
    }
    // A cache's question of a read is answered with all of it.
    assert_eq!(wire.ask(&takes_no_tag[0].clone().header("If-None-Match", "\"1\"")).status, 200);
    for call in &item_routes("tea")[2..4] {
        let twice = call.clone().header("If-Match", "\"1\"").header("If-Match", "\"1\"");
        check(wire, &twice, &["/If-Match"]);
    }
    let item = server.item("tea");
    assert_eq!((&item["sequence"], &item["held_units"]), (&json!(1), &json!(0)), "{item}");
}

#[test]
fn bodies_where_none_is_read() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let made = wire.ask(&Call::post("/v1/inventory/tea/reserve").json(&json!({ "owner_id": "o" }))).json();
    let path = format!("/v1/reservations/{}", made["reservation_id"].as_str().unwrap());
    let reason = json!({ "reason": "changed my mind" });
    for call in [
        Call::delete(&path).json(&reason),
        Call::delete(&path).json(&json!({})),
        Call::get(&path).json(&reason),
        Call::get("/v1/events").json(&reason),
        Call::get("/").json(&reason),
        Call::get("/v1/sale").json(&reason),
    ] {
        check(wire, &call, &[""]);
        wire.send(&call.chunked(5));
        assert_eq!(wire.answer().status, 400, "{call:?}");
    }
    assert_eq!(wire.ask(&Call::get(&path)).json()["status"], "active");
    assert_eq!(wire.ask(&Call::delete(format!("{path}?reason=changed+my+mind"))).status, 204);
}

#[test]
fn methods_and_paths_that_are_not_there() {
    let server = Server::start();
    let wire = &mut server.connect();
    let item = "/v1/inventory/tea";
    let reservation = format!("/v1/reservations/{UNKNOWN}");
    let allowed = [
        ("/", "GET, HEAD"),
        ("/problems/internal", "GET, HEAD"),
        (item, "GET, HEAD, PUT, DELETE"),
        ("/v1/inventory/tea/available", "GET, HEAD"),
        ("/v1/inventory/tea/reserve", "POST"),
        ("/v1/inventory/tea/adjust", "POST"),
        ("/v1/inventory/tea/pause", "POST"),
        ("/v1/inventory/tea/resume", "POST"),
        ("/v1/reservations", "GET, HEAD, POST"),
        (&*format!("{reservation}/events"), "GET, HEAD"),
        ("/v1/inventory", "GET, HEAD"),
        ("/v1/commands", "POST"),
        ("/v1/availability", "POST"),
        ("/v1/events", "GET, HEAD"),
        ("/v1/events/stream", "GET, HEAD"),
        ("/openapi.json", "GET, HEAD"),
        ("/docs", "GET, HEAD"),
        (&*reservation, "GET, HEAD, PATCH, DELETE"),
        (&*format!("{reservation}/confirm"), "POST"),
        (&*format!("{reservation}/extend"), "POST"),
        (&*format!("{reservation}/transfer"), "POST"),
        (&*format!("{reservation}/split"), "POST"),
        (&*format!("{reservation}/merge"), "POST"),
        (&*format!("{reservation}/payment"), "POST, DELETE"),
        (&*format!("{reservation}/fulfil"), "POST"),
        (&*format!("{reservation}/return"), "POST"),
        ("/v1/sale/pause", "POST"),
        ("/v1/sale/resume", "POST"),
    ];
    for (path, allow) in allowed {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            if allow.split(", ").any(|known| known == method) {
                continue;
            }
            let answer = wire.ask(&Call::new(method, path));
            let own = assert_problem(wire, &answer, 405, "method_not_allowed");
            assert_eq!((answer.header("allow"), own), (Some(allow), json!({})), "{method} {path}");
        }
    }
    let paths = [
        "/v1/reservations/",
        "/v1/inventory/tea/",
        "/v1/inventory/tea/reserve/",
        "/v1/sale/pause/",
        "/v1",
        "/v2/inventory/tea",
        "/V1/inventory/tea",
        "/v1/inventory/",
        "/v1/commands/",
        "/v1/availability/x",
        "/v1/events/",
        "/v1/events/stream/x",
        "/v1/reservations/x/events/y",
        "/docs/",
        "/v1/inventory/tea/sell",
        "/v1/inventory/tea/reserve/now",
        "/v1/reservations/x/confirm/y",
        "/v1/sale/",
        "/v1/sale/stop",
        "/problems",
        "/problems/",
        "/problems/none",
        "/problems/Internal",
        "/problems/../internal",
        "/livez",
        "/metrics",
        "//",
        "/%2e%2e/etc/passwd",
    ];
    for path in paths {
        for method in ["GET", "POST"] {
            let answer = wire.ask(&Call::new(method, path));
            let by_method = answer.status == 405 && path.starts_with("/problems/");
            if !by_method {
                assert_problem(wire, &answer, 404, "unknown_route");
            }
        }
    }
}

/// Sends a request whose body may be too long to be taken, and gives its answer. The server may hang up after that.
fn ask_in_full(server: &Server, bytes: &[u8]) -> Answer {
    let mut wire = server.connect();
    wire.send_what_is_taken(bytes);
    wire.answer()
}

#[test]
fn sizes() {
    let server = Server::start();
    server.stock("tea", 5_000);
    let padded = |body: &Value, length: usize| {
        let mut body = body.to_string();
        body.extend(std::iter::repeat_n(' ', length - body.len()));
        body
    };
    let single = json!({ "owner_id": "o" });
    let check = |path: &str, body: &Value, status: u16, limit: usize| {
        let fits = Call::post(path).body(padded(body, limit));
        let longer = Call::post(path).body(padded(body, limit + 1));
        let longest = Call::post(path).body(padded(body, 8 * limit));
        assert_eq!(server.ask(&fits).status, status);
        assert_eq!(ask_in_full(&server, &fits.chunked(1_000)).status, status);
        let sent = [longer.bytes(), longer.chunked(1_000), longest.bytes(), longest.chunked(60_000)];
        for bytes in sent {
            let answer = ask_in_full(&server, &bytes);
            let own = assert_problem(&mut server.connect(), &answer, 413, "too_large");
            assert_eq!(own, json!({ "limit": limit }));
        }
    };
    check("/v1/inventory/tea/reserve", &single, 200, BODY_BYTES);
    check("/v1/reservations", &basket(2_000), 201, BASKET_BYTES);
    assert_eq!(server.item("tea")["held_units"], 4_002);
}

#[test]
fn media_types() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let call = Call::post("/v1/inventory/tea/reserve").body("{\"owner_id\":\"o\"}");
    for kind in
        ["application/json", "APPLICATION/JSON", "application/json; charset=utf-8", "application/json ;v=1"]
    {
        assert_eq!(wire.ask(&call.clone().header("Content-Type", kind)).status, 200, "{kind}");
    }
    assert_eq!(wire.ask(&call.clone().header("Content-Encoding", "identity")).status, 200);
    let form = "application/x-www-form-urlencoded";
    for kind in ["", "text/plain", form, "application/jsonp", "application/problem+json", "json", "a\u{ff}"] {
        let answer = wire.ask(&call.clone().header("Content-Type", kind));
        assert_problem(wire, &answer, 415, "unsupported_media_type");
    }
    for encoding in ["gzip", "br", "deflate", "zstd", "identity, gzip", "x", ""] {
        let answer = wire.ask(&call.clone().header("Content-Encoding", encoding));
        assert_problem(wire, &answer, 415, "unsupported_media_type");
    }
    assert_eq!(server.item("tea")["held_units"], 5);
}
