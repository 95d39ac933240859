//! Every field of every body, wrong in every way that its kind can be. Each gets a problem that says what and where,
//! over a connection that goes on; nothing is done.

use super::server::Server;
use super::shape::assert_problem;
use super::wire::{Call, Wire};
use serde_json::{Value, json};

/// What a field may hold, which decides how it can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Key,
    Quantity,
    Stock,
    Delta,
    Ttl,
    PaymentTtl,
    Word,
    Metadata,
    Lines,
    /// Reservations.
    Ids,
    /// Names units, which the item counts: no value is right.
    Units,
}

/// A route, a body that it takes, and the fields that the body may have.
struct Route {
    method: &'static str,
    path: String,
    good: Value,
    fields: Vec<(&'static str, Kind)>,
}

/// A wrong value as it stands in the body, and where under the field the fault is.
pub(crate) type Wrong = (Vec<u8>, &'static str);

/// Values that no field takes.
const NOWHERE: [&str; 4] = ["null", "true", "[1]", "\"\\ud800\""];
/// A number that no integer holds.
const FAR: &str = "99999999999999999999";
/// Values that no number takes.
const NO_NUMBER: [&str; 10] =
    ["\"1\"", "{}", "-1.5", "1.5", "1.0", "1e2", "1e400", "-99999999999999999999", "01", "NaN"];

/// All ways in which a field can be wrong, except to be missing or there twice.
pub(crate) fn wrongs(kind: Kind) -> Vec<Wrong> {
    let is_list = matches!(kind, Kind::Lines | Kind::Ids);
    let nowhere = NOWHERE.iter().filter(|text| !is_list && (kind != Kind::Units || **text != "[1]"));
    let mut wrongs = nowhere.map(|text| (text.as_bytes().to_vec(), "")).collect::<Vec<_>>();
    let mut add = |texts: &[&str]| wrongs.extend(texts.iter().map(|text| (text.as_bytes().to_vec(), "")));
    match kind {
        Kind::Text | Kind::Key => {
            let longest = if kind == Kind::Key { 255 } else { 128 };
            add(&[
                "1",
                "-1",
                "1.5",
                "{}",
                "\"\"",
                "\"a\\u0000b\"",
                "\"a\\u0085b\"",
                "\"a\\u007fb\"",
                "\"\\n\"",
            ]);
            add(&["\"\\udc00\\ud800\"", "\"\\q\"", "\"\\u12\"", &format!("\"{}\"", "x".repeat(longest + 1))]);
            add(&[&format!("\"{}\"", "é".repeat(longest / 2 + 1))]);
            for raw in [&b"\"a\xffb\""[..], b"\"a\x00b\"", b"\"a\nb\"", b"\"\xed\xa0\x80\"", b"\"\xc0\xaf\""]
            {
                wrongs.push((raw.to_vec(), ""));
            }
        }
        Kind::Quantity => {
            add(&NO_NUMBER);
            // One that is too large is the rules' to refuse, however large it is.
            add(&["0", "-1", "-0"]);
        }
        Kind::Stock => {
            add(&NO_NUMBER);
            add(&["-1", "1000000000001", "18446744073709551615", "18446744073709551616", FAR]);
        }
        Kind::Delta => {
            add(&NO_NUMBER);
            add(&["0", "9223372036854775807", "9223372036854775808", "-9223372036854775809", FAR]);
        }
        Kind::Ttl => {
            add(&NO_NUMBER);
            add(&["0", "-1", "2592001", "18446744073709551615", FAR]);
        }
        Kind::PaymentTtl => {
            add(&NO_NUMBER);
            add(&["0", "-1", "604801", "18446744073709551615", FAR]);
        }
        Kind::Word => {
            add(&["1", "{}", "\"\"", "\"ALL\"", "\"Counted\"", "\"all \"", "\"units\"", "\"\\u0000\""]);
        }
        Kind::Metadata => {
            add(&[
                "1",
                "\"{}\"",
                "[]",
                "{\"a\":1,\"a\":2}",
                "{\"a\":[-1e999]}",
                "{\"a\":{\"b\":1,\"\\u0062\":2}}",
            ]);
            add(&["{\"a\":\"\\ud800\"}", "{\"\\udc00\":1}", &format!("{{\"a\":\"{}\"}}", "x".repeat(2_048))]);
            add(&[&format!("{{\"a\":{}{}}}", "[".repeat(40), "]".repeat(40))]);
            wrongs.push((b"{\"a\":\"\xff\"}".to_vec(), ""));
            wrongs.push((b"{\"a\xff\":1}".to_vec(), ""));
        }
        Kind::Lines => {
            add(&["null", "true", "1", "\"tea\"", "{}", "[]", "{\"sku\":\"tea\"}"]);
            add(&[&format!("[{}]", vec!["{\"sku\":\"tea\"}"; 2_001].join(","))]);
            for element in ["[null]", "[1]", "[\"tea\"]", "[[]]", "[[\"tea\",null,1]]"] {
                wrongs.push((element.into(), "/0"));
            }
            wrongs.push((b"[{}]".to_vec(), "/0/sku"));
            wrongs.push((b"[{\"sku\":\"tea\"},{\"sku\":\"tea\",\"quantity\":0}]".to_vec(), "/1/quantity"));
            wrongs.push((b"[{\"sku\":\"tea\",\"price\":1}]".to_vec(), "/0/price"));
        }
        Kind::Ids => {
            add(&["null", "true", "1", "\"x\"", "{}", "[]"]);
            let id = "\"018bcfe5-6800-7fff-bfff-ffffffffffff\"";
            add(&[&format!("[{}]", vec![id; 21].join(","))]);
            for element in ["[null]", "[1]", "[\"x\"]", "[[]]", "[\"018bcfe5-6800-7fff-bfff-ffffffffffff \"]"]
            {
                wrongs.push((element.into(), "/0"));
            }
        }
        Kind::Units => {
            add(&["{}", "[]", "\"\"", "1"]);
            for element in ["[1]", "[null]", "[\"\"]", "[[\"A-1\"]]"] {
                wrongs.push((element.into(), "/0"));
            }
        }
    }
    wrongs
}

/// The body with other bytes in the place of a field, which is put in when it is not there.
pub(crate) fn with(good: &Value, pointer: &str, raw: &[u8]) -> Vec<u8> {
    const HERE: &str = "@@here@@";
    let mut body = good.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    body.pointer_mut(parent).unwrap()[name] = json!(HERE);
    let text = body.to_string();
    let (before, after) = text.split_once(&format!("\"{HERE}\"")).unwrap();
    [before.as_bytes(), raw, after.as_bytes()].concat()
}

fn without(good: &Value, pointer: &str) -> Vec<u8> {
    let mut body = good.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    body.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
    body.to_string().into()
}

/// Sends a body and asserts that the problem points to the fault.
#[track_caller]
fn check(wire: &mut Wire, route: &Route, body: &[u8], pointer: &str) {
    let shown = String::from_utf8_lossy(body).chars().take(200).collect::<String>();
    let context = format!("{} {} {shown}", route.method, route.path);
    let answer = wire.ask(&Call::new(route.method, &*route.path).body(body));
    assert_eq!(answer.status, 400, "{context}: {}", answer.text());
    let own = assert_problem(wire, &answer, 400, "invalid_request");
    let errors = own["errors"].as_array().unwrap();
    assert_eq!((errors.len(), own.as_object().unwrap().len()), (1, 1), "{context}: {own}");
    assert_eq!(errors[0]["pointer"], pointer, "{context}: {own}");
    assert!(!errors[0]["detail"].as_str().unwrap().is_empty(), "{context}: {own}");
}

/// An item's own settings are taken back by it.
fn takes_null(route: &Route, pointer: &str) -> bool {
    match route.method {
        "PUT" => ["/default_ttl_seconds", "/max_hold_seconds", "/max_payment_seconds", "/metadata"]
            .contains(&pointer),
        _ => route.path.ends_with("/transfer") && ["/customer_id", "/session_id"].contains(&pointer),
    }
}

/// Makes a reservation, which becomes an order if there is one. Returns its path.
fn made(wire: &mut Wire, order: Option<&str>) -> String {
    let body = json!({ "owner_id": "o", "quantity": 100 });
    let made = wire.ask(&Call::post("/v1/inventory/tea/reserve").json(&body)).json();
    let path = format!("/v1/reservations/{}", made["reservation_id"].as_str().unwrap());
    if let Some(order) = order {
        let confirm = Call::post(format!("{path}/confirm")).json(&json!({ "order_id": order }));
        assert_eq!(wire.ask(&confirm).status, 200);
    }
    path
}

fn post(path: String, good: Value, fields: Vec<(&'static str, Kind)>) -> Route {
    Route { method: "POST", path, good, fields }
}

const LINES: [(&str, Kind); 5] = [
    ("/lines", Kind::Lines),
    ("/lines/0/sku", Kind::Text),
    ("/lines/0/location", Kind::Text),
    ("/lines/1/quantity", Kind::Quantity),
    ("/lines/1/units", Kind::Units),
];

fn two_lines() -> Value {
    json!([{ "sku": "tea" }, { "sku": "tea", "location": "default", "quantity": 1 }])
}

/// The routes that change a reservation, each with a body that it takes.
fn changes(wire: &mut Wire) -> Vec<Route> {
    let (held, sold) = (made(wire, None), made(wire, Some("order-2")));
    vec![
        post(
            format!("{sold}/fulfil"),
            json!({ "lines": two_lines() }),
            [&[("/units", Kind::Units), ("/idempotency_key", Kind::Key)], &LINES[..]].concat(),
        ),
        Route {
            method: "PATCH",
            path: made(wire, None),
            good: json!({ "lines": two_lines() }),
            fields: [
                &[
                    ("/fulfilment", Kind::Word),
                    ("/ttl_seconds", Kind::Ttl),
                    ("/metadata", Kind::Metadata),
                    ("/idempotency_key", Kind::Key),
                ],
                &LINES[..],
            ]
            .concat(),
        },
        post(
            format!("{held}/transfer"),
            json!({ "owner_id": "o", "customer_id": "c" }),
            vec![
                ("/owner_id", Kind::Text),
                ("/customer_id", Kind::Text),
                ("/session_id", Kind::Text),
                ("/idempotency_key", Kind::Key),
            ],
        ),
        post(
            format!("{held}/split"),
            json!({ "lines": two_lines() }),
            [&[("/idempotency_key", Kind::Key)], &LINES[..]].concat(),
        ),
        post(
            format!("{held}/merge"),
            json!({ "from": [made(wire, None).trim_start_matches("/v1/reservations/")] }),
            vec![("/from", Kind::Ids), ("/idempotency_key", Kind::Key)],
        ),
        post(
            format!("{}/payment", made(wire, None)),
            json!({ "payment_id": "p" }),
            vec![
                ("/payment_id", Kind::Text),
                ("/window_seconds", Kind::PaymentTtl),
                ("/idempotency_key", Kind::Key),
            ],
        ),
    ]
}

/// All other routes with bodies, each with a body that it takes again and again.
fn routes(wire: &mut Wire) -> Vec<Route> {
    let (held, sold) = (made(wire, None), made(wire, Some("order-1")));
    let sale = |path: &str| Route {
        method: "POST",
        path: path.to_owned(),
        good: json!({ "reason": "r" }),
        fields: vec![("/reason", Kind::Text)],
    };
    let reserving = [
        ("/owner_id", Kind::Text),
        ("/ttl_seconds", Kind::Ttl),
        ("/idempotency_key", Kind::Key),
        ("/fulfilment", Kind::Word),
        ("/channel", Kind::Text),
        ("/pool", Kind::Text),
        ("/customer_id", Kind::Text),
        ("/session_id", Kind::Text),
        ("/metadata", Kind::Metadata),
    ];
    vec![
        post(
            "/v1/inventory/tea/reserve".to_owned(),
            json!({ "owner_id": "o" }),
            [&reserving[..], &[("/quantity", Kind::Quantity), ("/units", Kind::Units)]].concat(),
        ),
        post(
            "/v1/reservations".to_owned(),
            json!({ "owner_id": "o", "lines": two_lines() }),
            [&reserving[..], &LINES[..]].concat(),
        ),
        post(
            format!("{sold}/confirm"),
            json!({ "order_id": "order-1" }),
            vec![
                ("/order_id", Kind::Text),
                ("/payment_id", Kind::Text),
                ("/if_expired", Kind::Word),
                ("/idempotency_key", Kind::Key),
            ],
        ),
        post(
            format!("{held}/extend"),
            json!({ "ttl_seconds": 1 }),
            vec![("/ttl_seconds", Kind::Ttl), ("/idempotency_key", Kind::Key)],
        ),
        post(
            format!("{sold}/return"),
            json!({ "reason": "r", "lines": two_lines() }),
            [
                &[
                    ("/reason", Kind::Text),
                    ("/units", Kind::Units),
                    ("/from", Kind::Word),
                    ("/disposition", Kind::Word),
                    ("/idempotency_key", Kind::Key),
                ],
                &LINES[..],
            ]
            .concat(),
        ),
        Route {
            method: "PUT",
            path: "/v1/inventory/tea/pools/vip".to_owned(),
            good: json!({ "allocated": 1 }),
            fields: vec![("/allocated", Kind::Stock), ("/idle_release_seconds", Kind::Ttl)],
        },
        Route {
            method: "PUT",
            path: "/v1/inventory/tea".to_owned(),
            good: json!({ "total_units": 1_000 }),
            fields: vec![
                ("/total_units", Kind::Stock),
                ("/mode", Kind::Word),
                ("/safety_stock", Kind::Stock),
                ("/default_ttl_seconds", Kind::Ttl),
                ("/max_hold_seconds", Kind::Ttl),
                ("/max_payment_seconds", Kind::PaymentTtl),
                ("/on_hand", Kind::Stock),
                ("/fulfilled_units_seen", Kind::Stock),
                ("/metadata", Kind::Metadata),
            ],
        },
        post(
            "/v1/inventory/tea/adjust".to_owned(),
            json!({ "delta": 1, "reason": "r" }),
            vec![("/delta", Kind::Delta), ("/reason", Kind::Text), ("/idempotency_key", Kind::Key)],
        ),
        post(
            "/v1/availability".to_owned(),
            json!({ "items": [{ "sku": "tea" }, { "sku": "tea", "location": "default" }] }),
            vec![("/items", Kind::Lines), ("/items/0/sku", Kind::Text), ("/items/1/location", Kind::Text)],
        ),
        sale("/v1/inventory/tea/resume"),
        sale("/v1/inventory/tea/pause"),
        sale("/v1/sale/resume?location=elsewhere"),
        sale("/v1/sale/pause?location=elsewhere"),
    ]
}

/// A server with an item, and the routes; each takes its good body.
fn prepared() -> (Server, Vec<Route>) {
    let server = Server::start();
    server.stock("tea", 1_000);
    let mut wire = server.connect();
    let mut routes = routes(&mut wire);
    routes.extend(changes(&mut wire));
    for route in &routes {
        let answer = wire.ask(&Call::new(route.method, &*route.path).json(&route.good));
        assert!(matches!(answer.status, 200 | 201), "{}: {}", route.path, answer.text());
    }
    (server, routes)
}

#[test]
fn every_field_in_every_way() {
    let (server, routes) = prepared();
    let before = server.item("tea");
    let wire = &mut server.connect();
    for route in &routes {
        for &(pointer, kind) in &route.fields {
            for (raw, under) in wrongs(kind) {
                if raw == b"null" && takes_null(route, pointer) {
                    continue;
                }
                if pointer == "/mode" && raw == b"\"units\"" {
                    // A mode, and not the item's: `mode_mismatch`.
                    continue;
                }
                check(wire, route, &with(&route.good, pointer, &raw), &format!("{pointer}{under}"));
            }
            if kind == Kind::Units {
                continue;
            }
            // There twice, both times with a value that is right.
            let name = pointer.rsplit_once('/').unwrap().1;
            let right = match kind {
                Kind::Text | Kind::Key | Kind::Units => "\"o\"",
                Kind::Quantity | Kind::Stock | Kind::Delta | Kind::Ttl | Kind::PaymentTtl => "1",
                Kind::Word => match name {
                    "mode" => "\"counted\"",
                    "if_expired" => "\"refuse\"",
                    "from" => "\"fulfilled\"",
                    "disposition" => "\"restock\"",
                    _ => "\"all\"",
                },
                Kind::Ids => "[\"018bcfe5-6800-7fff-bfff-ffffffffffff\"]",
                Kind::Metadata => "{}",
                Kind::Lines => "[{\"sku\":\"tea\"}]",
            };
            let twice = format!("{right},\"{name}\":{right}");
            check(wire, route, &with(&route.good, pointer, twice.as_bytes()), pointer);
        }
    }
    assert_eq!(server.item("tea"), before, "a refused request did something");
}

#[test]
fn what_is_required() {
    let (server, routes) = prepared();
    let before = server.item("tea");
    let wire = &mut server.connect();
    let mut checked = 0;
    for route in &routes {
        for &(pointer, _) in &route.fields {
            let name = pointer.rsplit_once('/').unwrap().1;
            let optional = match name {
                "sku" | "delta" | "items" | "allocated" => false,
                "owner_id" => route.path.ends_with("/transfer"),
                "lines" => !["/reservations", "/split"].iter().any(|end| route.path.ends_with(end)),
                "from" => !route.path.ends_with("/merge"),
                "payment_id" => !route.path.ends_with("/payment"),
                "reason" => !(route.path.ends_with("/return") || route.path.ends_with("/adjust")),
                "ttl_seconds" => !route.path.ends_with("/extend"),
                _ => true,
            };
            if !optional {
                check(wire, route, &without(&route.good, pointer), pointer);
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 18);
    assert_eq!(server.item("tea"), before, "a refused request did something");
    let new = Route {
        method: "PUT",
        path: "/v1/inventory/new".to_owned(),
        good: json!({ "total_units": 1 }),
        fields: Vec::new(),
    };
    for body in ["{}", r#"{"mode":"counted"}"#, r#"{"default_ttl_seconds":null}"#] {
        check(wire, &new, body.as_bytes(), "/total_units");
    }
    assert_eq!(wire.ask(&Call::get("/v1/inventory/new")).status, 404, "a refused request made an item");
}

#[test]
fn bodies_that_are_no_object() {
    let (server, routes) = prepared();
    let before = server.item("tea");
    let wire = &mut server.connect();
    let deep = "[".repeat(60_000);
    let deep_member = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let anything: Vec<u8> = (0..=255).collect();
    for route in &routes {
        let good = route.good.to_string();
        let trailing = format!("{good} x");
        let twice = format!("{good}{good}");
        let marked = format!("\u{feff}{good}");
        let cut = &good[..good.len() - 1];
        let texts = [
            "[]",
            "[1]",
            "null",
            "true",
            "1",
            "\"o\"",
            "{",
            "}",
            "{]",
            "'",
            "owner_id=o&quantity=1",
            "<o/>",
            "\0",
            &*deep,
            &*trailing,
            &*twice,
            &*marked,
        ];
        for text in texts {
            check(wire, route, text.as_bytes(), "");
        }
        check(wire, route, &anything, "");
        for text in [cut, &deep_member] {
            let answer = wire.ask(&Call::new(route.method, &*route.path).body(text));
            assert_problem(wire, &answer, 400, "invalid_request");
        }
        let stranger = good.replacen('{', "{\"a/b~\":1,", 1);
        check(wire, route, stranger.as_bytes(), "/a~1b~0");
        let takes_nothing =
            ["/confirm", "/fulfil", "/pause", "/resume"].iter().any(|end| route.path.contains(end));
        if !takes_nothing {
            check(wire, route, b"", "");
            check(wire, route, b" \r\n", "");
        }
    }
    assert_eq!(server.item("tea"), before, "a refused request did something");
}
