//! Many at once: batches of commands, each judged on its own, and availabilities of many items.

use super::server::Server;
use super::shape::{TIME, UUID, assert_like, assert_problem};
use super::wire::{Answer, Call, Wire};
use super::wrong_fields::{Kind, with, wrongs};
use serde_json::{Value, json};

const UNKNOWN: &str = "018bcfe5-6800-7fff-bfff-ffffffffffff";

fn batch(commands: &[Value]) -> Call {
    Call::post("/v1/commands").json(&json!({ "commands": commands }))
}

/// The results of a batch that is understood.
#[track_caller]
fn results(wire: &mut Wire, commands: &[Value]) -> Vec<Value> {
    let answer = wire.ask(&batch(commands));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let results = answer.json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), commands.len());
    results
}

fn statuses(results: &[Value]) -> Vec<u64> {
    results.iter().map(|result| result["status"].as_u64().unwrap()).collect()
}

fn id(result: &Value) -> &Value {
    &result["reservation"]["reservation_id"]
}

#[test]
fn commands_in_their_order() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 3);
    server.stock("cup", 10);
    let lines = json!([{ "sku": "tea", "quantity": 2 }, { "sku": "cup" }]);
    let made = results(
        wire,
        &[
            json!({ "op": "reserve", "owner_id": "a", "lines": lines, "channel": "web", "metadata": { "b": 1, "a": 2 } }),
            json!({ "op": "reserve", "owner_id": "b", "sku": "tea", "quantity": 2 }),
            json!({ "op": "reserve", "owner_id": "b", "sku": "tea", "location": "default" }),
            json!({ "op": "reserve", "owner_id": "c", "sku": "cup", "quantity": 20, "fulfilment": "partial" }),
        ],
    );
    assert_eq!(statuses(&made), [201, 409, 201, 201]);
    let line = |sku: &str, quantity: u64, requested: u64, sequence: u64| {
        json!({ "sku": sku, "location": "default", "quantity": quantity, "requested_quantity": requested,
                "sequence": sequence })
    };
    let first = json!({ "status": 201, "reservation": {
        "reservation_id": UUID, "status": "active", "owner_id": "a",
        "lines": [line("tea", 2, 2, 2), line("cup", 1, 1, 2)], "quantity": 3, "created_at": TIME, "expires_at": TIME,
        "max_expires_at": TIME, "channel": "web", "metadata": { "a": 2, "b": 1 }, "version": 1,
    } });
    assert_like(&made[0], &first);
    assert_eq!(made[1]["problem"]["reason"], "insufficient_inventory");
    assert_eq!(made[1]["problem"]["available"], 1);
    assert_eq!(made[2]["reservation"]["lines"][0]["sequence"], 3);
    assert_eq!(made[3]["reservation"]["quantity"], 9);

    let later = results(
        wire,
        &[
            json!({ "op": "confirm", "reservation_id": id(&made[0]), "order_id": "o-1" }),
            json!({ "op": "release", "reservation_id": id(&made[0]) }),
            json!({ "op": "release", "reservation_id": id(&made[2]), "reason": "changed mind" }),
            json!({ "op": "extend", "reservation_id": id(&made[3]), "ttl_seconds": 1_200 }),
            json!({ "op": "extend", "reservation_id": id(&made[2]), "ttl_seconds": 1 }),
            json!({ "op": "confirm", "reservation_id": UNKNOWN }),
            json!({ "op": "reserve", "owner_id": "d", "sku": "none" }),
            json!({ "op": "reserve", "owner_id": "d", "sku": "tea", "quantity": 1_000_001 }),
            json!({ "op": "release", "reservation_id": id(&made[2]) }),
        ],
    );
    assert_eq!(statuses(&later), [200, 409, 204, 200, 409, 404, 404, 422, 204]);
    assert_eq!(later[0]["reservation"]["order_id"], "o-1");
    assert_eq!(later[1]["problem"]["reason"], "reservation_confirmed");
    assert_eq!(later[2], json!({ "status": 204 }));
    assert_eq!(later[4]["problem"]["reason"], "reservation_cancelled");
    assert_eq!(later[5]["problem"]["reason"], "unknown_reservation");
    let tea = server.item("tea");
    assert_eq!(
        (&tea["confirmed_sold"], &tea["held_units"], &tea["sequence"]),
        (&json!(2), &json!(0), &json!(5))
    );
    let released =
        wire.ask(&Call::get(format!("/v1/reservations/{}", id(&made[2]).as_str().unwrap()))).json();
    assert_eq!(released["close_reason"], "changed mind");
}

#[test]
fn keys_of_commands() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let reserve = json!({ "op": "reserve", "owner_id": "a", "sku": "tea", "idempotency_key": "k" });
    let other = json!({ "op": "reserve", "owner_id": "b", "sku": "tea", "idempotency_key": "k" });
    let made = results(wire, &[reserve.clone(), reserve.clone(), other, reserve.clone()]);
    assert_eq!(statuses(&made), [201, 201, 422, 201]);
    assert_eq!(made[2]["problem"]["reason"], "idempotency_mismatch");
    assert_eq!(made[0].get("replayed"), None);
    for replay in [&made[1], &made[3], &results(wire, &[reserve])[0]] {
        assert_eq!(replay["replayed"], true);
        assert_eq!(replay["reservation"], made[0]["reservation"]);
    }
    // Both reserve routes and the batch are one operation.
    let single = json!({ "owner_id": "a", "idempotency_key": "k" });
    let answer = wire.ask(&Call::post("/v1/inventory/tea/reserve").json(&single));
    assert_eq!((answer.status, answer.header("idempotent-replayed")), (200, Some("true")));
    assert_eq!(answer.json(), made[0]["reservation"]);

    let confirm = json!({ "op": "confirm", "reservation_id": id(&made[0]), "idempotency_key": "c" });
    let sold = results(wire, &[confirm.clone(), confirm]);
    assert_eq!((&sold[0]["status"], sold[0].get("replayed")), (&json!(200), None));
    assert_eq!((&sold[1]["replayed"], &sold[1]["reservation"]), (&json!(true), &sold[0]["reservation"]));
    let item = server.item("tea");
    assert_eq!((&item["confirmed_sold"], &item["held_units"]), (&json!(1), &json!(0)));

    let headed = wire.ask(&batch(&[json!({ "op": "confirm", "reservation_id": UNKNOWN })]).key("k"));
    let own = assert_problem(wire, &headed, 400, "invalid_request");
    assert_eq!(own["errors"][0]["pointer"], "/Idempotency-Key");
}

#[test]
fn a_wrong_command_is_its_own_fault() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let id = UNKNOWN;
    let wrong = [
        (json!({}), "/op"),
        (json!({ "op": "return" }), "/reservation_id"),
        (json!({ "op": "buy" }), "/op"),
        (json!({ "op": 1 }), "/op"),
        (json!(null), ""),
        (json!(1), ""),
        (json!([]), ""),
        (json!(["reserve"]), ""),
        (json!({ "op": "reserve" }), "/owner_id"),
        (json!({ "op": "reserve", "owner_id": "a" }), "/lines"),
        (json!({ "op": "reserve", "owner_id": "a", "lines": [] }), "/lines"),
        (json!({ "op": "reserve", "owner_id": "a", "lines": [{ "sku": "" }] }), "/lines/0/sku"),
        (
            json!({ "op": "reserve", "owner_id": "a", "lines": [{ "sku": "tea", "quantity": 0 }] }),
            "/lines/0/quantity",
        ),
        (json!({ "op": "reserve", "owner_id": "a", "lines": [{ "sku": "tea" }], "sku": "tea" }), "/sku"),
        (
            json!({ "op": "reserve", "owner_id": "a", "lines": [{ "sku": "tea" }], "quantity": 1 }),
            "/quantity",
        ),
        (
            json!({ "op": "reserve", "owner_id": "a", "lines": [{ "sku": "tea" }], "location": "x" }),
            "/location",
        ),
        (json!({ "op": "reserve", "owner_id": "a", "sku": "tea", "reservation_id": id }), "/reservation_id"),
        (json!({ "op": "reserve", "owner_id": "a", "sku": "tea", "order_id": "o" }), "/order_id"),
        (json!({ "op": "reserve", "owner_id": "a", "sku": "tea", "reason": "r" }), "/reason"),
        (json!({ "op": "reserve", "owner_id": "a", "sku": "tea", "units": [] }), "/units"),
        (json!({ "op": "confirm", "reservation_id": id, "units": ["A"] }), "/units"),
        (json!({ "op": "reserve", "owner_id": "a", "sku": "tea", "price": 1 }), "/price"),
        (json!({ "op": "reserve", "owner_id": null, "sku": "tea" }), "/owner_id"),
        (json!({ "op": "reserve", "owner_id": "a", "sku": "tea", "ttl_seconds": 2_592_001 }), "/ttl_seconds"),
        (
            json!({ "op": "reserve", "owner_id": "a", "sku": "tea", "idempotency_key": "" }),
            "/idempotency_key",
        ),
        (json!({ "op": "reserve", "owner_id": "a", "sku": "tea", "metadata": [] }), "/metadata"),
        (json!({ "op": "confirm" }), "/reservation_id"),
        (json!({ "op": "confirm", "reservation_id": "x" }), "/reservation_id"),
        (json!({ "op": "confirm", "reservation_id": id, "owner_id": "a" }), "/owner_id"),
        (json!({ "op": "confirm", "reservation_id": id, "ttl_seconds": 1 }), "/ttl_seconds"),
        (json!({ "op": "confirm", "reservation_id": id, "order_id": "a\u{0}" }), "/order_id"),
        (json!({ "op": "release", "reservation_id": id, "lines": [] }), "/lines"),
        (json!({ "op": "release", "reservation_id": id, "reason": 7 }), "/reason"),
        (json!({ "op": "extend", "reservation_id": id }), "/ttl_seconds"),
        (json!({ "op": "extend", "ttl_seconds": 1 }), "/reservation_id"),
        (json!({ "op": "extend", "reservation_id": id, "ttl_seconds": 0 }), "/ttl_seconds"),
        (json!({ "op": "extend", "reservation_id": id, "ttl_seconds": 1, "metadata": {} }), "/metadata"),
    ];
    let good = json!({ "op": "reserve", "owner_id": "a", "sku": "tea" });
    for (command, pointer) in &wrong {
        let results = results(wire, std::slice::from_ref(command));
        assert_own_fault(&results[0], pointer, command);
    }
    let other_mode = json!({ "op": "reserve", "owner_id": "a", "sku": "tea", "units": ["A"] });
    assert_eq!(results(wire, &[other_mode])[0]["problem"]["reason"], "mode_mismatch");
    // All of them together, with good ones in between.
    let mixed = wrong
        .iter()
        .flat_map(|(command, _)| [command.clone(), json!({ "op": "release", "reservation_id": id })]);
    let mixed = mixed.chain([good]).collect::<Vec<_>>();
    let all = results(wire, &mixed);
    for (n, (command, pointer)) in wrong.iter().enumerate() {
        assert_own_fault(&all[2 * n], pointer, command);
        assert_eq!(all[2 * n + 1]["status"], 404);
    }
    assert_eq!(all.last().unwrap()["status"], 201);
    assert_eq!(server.item("tea")["held_units"], 1);

    // What JSON allows and no text is.
    let surrogate = r#"{"commands":[{"op":"reserve","owner_id":"\ud800","sku":"tea"},{"op":"reserve","owner_id":"a","sku":"tea"}]}"#;
    let answer = wire.ask(&Call::post("/v1/commands").body(surrogate));
    assert_eq!(statuses(answer.json()["results"].as_array().unwrap()), [400, 201]);
}

#[track_caller]
fn assert_own_fault(result: &Value, pointer: &str, command: &Value) {
    assert_eq!(result["status"], 400, "{command}: {result}");
    let problem = &result["problem"];
    assert_eq!((&problem["reason"], &problem["status"]), (&json!("invalid_request"), &json!(400)));
    assert_eq!(problem["errors"][0]["pointer"], pointer, "{command}: {problem}");
    assert_eq!(problem["errors"].as_array().unwrap().len(), 1);
}

#[test]
fn every_field_of_every_command_in_every_way() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let basket = json!({ "op": "reserve", "owner_id": "o", "lines": [{ "sku": "tea" }, { "sku": "tea" }] });
    let single = json!({ "op": "reserve", "owner_id": "o", "sku": "tea" });
    let of = |op: &str| json!({ "op": op, "reservation_id": UNKNOWN });
    let extend = json!({ "op": "extend", "reservation_id": UNKNOWN, "ttl_seconds": 1 });
    let fields = [
        (&basket, "/op", Kind::Word),
        (&basket, "/owner_id", Kind::Text),
        (&basket, "/lines", Kind::Lines),
        (&basket, "/lines/0/sku", Kind::Text),
        (&basket, "/lines/1/location", Kind::Text),
        (&basket, "/lines/1/quantity", Kind::Quantity),
        (&basket, "/lines/0/units", Kind::Units),
        (&single, "/sku", Kind::Text),
        (&single, "/location", Kind::Text),
        (&single, "/quantity", Kind::Quantity),
        (&single, "/units", Kind::Units),
        (&single, "/ttl_seconds", Kind::Ttl),
        (&single, "/idempotency_key", Kind::Key),
        (&single, "/fulfilment", Kind::Word),
        (&single, "/channel", Kind::Text),
        (&single, "/customer_id", Kind::Text),
        (&single, "/session_id", Kind::Text),
        (&single, "/metadata", Kind::Metadata),
        (&of("confirm"), "/order_id", Kind::Text),
        (&of("confirm"), "/idempotency_key", Kind::Key),
        (&of("confirm"), "/reservation_id", Kind::Text),
        (&of("release"), "/reason", Kind::Text),
        (&of("release"), "/reservation_id", Kind::Text),
        (&extend, "/ttl_seconds", Kind::Ttl),
        (&extend, "/reservation_id", Kind::Text),
    ];
    let mut own = 0;
    for (good, pointer, kind) in fields {
        for (raw, under) in wrongs(kind) {
            let command = with(good, pointer, &raw);
            let body = [&b"{\"commands\":["[..], &command, b",{\"op\":\"confirm\"}]}"].concat();
            let shown = String::from_utf8_lossy(&command).chars().take(200).collect::<String>();
            let answer = wire.ask(&Call::post("/v1/commands").body(body));
            if answer.status == 400 {
                // What is no JSON is everybody's, since nobody knows where the next command begins.
                let problem = assert_problem(wire, &answer, 400, "invalid_request");
                assert_eq!(problem["errors"][0]["pointer"], "/commands/0", "{shown}: {problem}");
                continue;
            }
            assert_eq!(answer.status, 200, "{shown}: {}", answer.text());
            let results = answer.json()["results"].clone();
            let errors =
                results[0]["problem"]["errors"].as_array().unwrap_or_else(|| panic!("{shown}: {results}"));
            assert_eq!((&results[0]["status"], errors.len()), (&json!(400), 1), "{shown}: {results}");
            assert_eq!(errors[0]["pointer"], format!("{pointer}{under}"), "{shown}: {results}");
            assert_eq!(results[1]["problem"]["errors"][0]["pointer"], "/reservation_id");
            own += 1;
        }
    }
    assert!(own > 300, "{own}");
    assert_eq!(server.item("tea")["sequence"], 1);
}

#[test]
fn a_wrong_envelope_is_everybodys() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    let good = r#"{"op":"reserve","owner_id":"a","sku":"tea"}"#;
    let too_many = format!("{{\"commands\":[{}]}}", vec![good; 8_193].join(","));
    let check = |wire: &mut Wire, path: &str, body: &[u8], pointer: &str| {
        let shown = String::from_utf8_lossy(body).chars().take(100).collect::<String>();
        let answer = wire.ask(&Call::post(path).body(body));
        let own = assert_problem(wire, &answer, 400, "invalid_request");
        assert_eq!(own["errors"][0]["pointer"], pointer, "{shown}: {own}");
    };
    let commands = "/v1/commands";
    let item = "{\"sku\":\"tea\"}";
    let too_many_items = format!("{{\"items\":[{}]}}", vec![item; 1_001].join(","));
    for (path, list, one, many) in
        [(commands, "commands", good, &too_many), ("/v1/availability", "items", item, &too_many_items)]
    {
        let list_pointer = format!("/{list}");
        for (body, pointer) in [
            (String::new(), ""),
            ("null".to_owned(), ""),
            (format!("[{one}]"), ""),
            ("{}".to_owned(), &*list_pointer),
            (format!("{{\"{list}\":null}}"), &list_pointer),
            (format!("{{\"{list}\":{one}}}"), &list_pointer),
            (format!("{{\"{list}\":\"x\"}}"), &list_pointer),
            (format!("{{\"{list}\":[]}}"), &list_pointer),
            (format!("{{\"{list}\":[{one}],\"{list}\":[{one}]}}"), &list_pointer),
            (format!("{{\"{list}\":[{one}],\"x\":1}}"), "/x"),
            (format!("{{\"{list}\":[{one}]"), ""),
            (format!("{{\"{list}\":[{one},]}}"), &list_pointer),
            (format!("{{\"{list}\":[{one}]}} x"), ""),
            (format!("{{\"{list}\":[{one}]}}{{}}"), ""),
            (many.clone(), &list_pointer),
        ] {
            let answer = wire.ask(&Call::post(path).body(body.as_bytes()));
            let own = assert_problem(wire, &answer, 400, "invalid_request");
            let found = own["errors"][0]["pointer"].as_str().unwrap();
            let shown = body.chars().take(100).collect::<String>();
            assert!(found.starts_with(pointer), "{shown}: {own}");
        }
        let answer = wire.ask(&Call::post(format!("{path}?x=1")).body(format!("{{\"{list}\":[{one}]}}")));
        assert_eq!(assert_problem(wire, &answer, 400, "invalid_request")["errors"][0]["pointer"], "/x");
    }
    let many = wire.ask(&Call::post(commands).body(too_many)).json();
    assert!(many["detail"].as_str().unwrap().contains("found 8,193"), "{many}");
    check(wire, commands, b"{\"commands\":[{\"op\":tru}]}", "/commands/0");
    check(wire, commands, b"{\"commands\":[{\"op\":\"a\xffb\"}]}", "/commands/0");
    check(wire, commands, format!("{{\"commands\":[{}", "[".repeat(100_000)).as_bytes(), "/commands/0");
    check(wire, "/v1/availability", b"{\"items\":[{\"sku\":\"\"}]}", "/items/0/sku");
    check(wire, "/v1/availability", b"{\"items\":[{\"sku\":\"a\"},{\"location\":\"b\"}]}", "/items/1/sku");
    check(wire, "/v1/availability", b"{\"items\":[{\"sku\":\"a\",\"location\":null}]}", "/items/0/location");
    check(wire, "/v1/availability", b"{\"items\":[{\"sku\":\"a\",\"price\":1}]}", "/items/0/price");
    check(wire, "/v1/availability", b"{\"items\":[[]]}", "/items/0");
    assert_eq!(server.item("tea")["held_units"], 0);
}

#[test]
fn the_largest_batches() {
    const COMMANDS: usize = 8_192;
    const LIMIT: usize = 8 * 1024 * 1024;
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 5_000);
    let reserve = |n: usize| json!({ "op": "reserve", "owner_id": format!("o-{n}"), "lines": [{ "sku": "tea" }], "idempotency_key": format!("k-{n}") });
    let reserves = (0..COMMANDS).map(reserve).collect::<Vec<_>>();
    let made = results(wire, &reserves);
    for (n, result) in made.iter().enumerate() {
        assert_eq!(result["status"], if n < 5_000 { 201 } else { 409 }, "{n}: {result}");
    }
    let replayed = results(wire, &reserves);
    assert_eq!(replayed[..5_000].iter().filter(|result| result["replayed"] == true).count(), 5_000);
    assert_eq!(replayed[4_999]["reservation"], made[4_999]["reservation"]);
    let confirms =
        made[..5_000].iter().map(|result| json!({ "op": "confirm", "reservation_id": id(result) }));
    let sold = results(wire, &confirms.collect::<Vec<_>>());
    assert!(sold.iter().all(|result| result["status"] == 200));
    let item = server.item("tea");
    assert_eq!((&item["confirmed_sold"], &item["held_units"]), (&json!(5_000), &json!(0)));

    // As large as a body may be, and one byte more.
    let longest = |length: usize| {
        let mut body =
            json!({ "commands": [json!({ "op": "confirm", "reservation_id": UNKNOWN })] }).to_string();
        body.extend(std::iter::repeat_n(' ', length - body.len()));
        body
    };
    let fits = wire.ask(&Call::post("/v1/commands").body(longest(LIMIT)));
    assert_eq!((fits.status, &fits.json()["results"][0]["status"]), (200, &json!(404)));
    let mut large = server.connect();
    large.send_what_is_taken(&Call::post("/v1/commands").body(longest(LIMIT + 1)).bytes());
    let answer = large.answer();
    assert_eq!(assert_problem(wire, &answer, 413, "too_large"), json!({ "limit": LIMIT }));
    let items = (0..1_000).map(|n| json!({ "sku": format!("x-{n}") })).collect::<Vec<_>>();
    let found = wire.ask(&Call::post("/v1/availability").json(&json!({ "items": items }))).json();
    assert_eq!(found["items"].as_array().unwrap().len(), 1_000);
}

#[test]
fn batches_side_by_side_lose_nothing() {
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 20;
    const SIZE: usize = 50;
    let server = Server::start();
    server.stock("tea", 3_000);
    let commands = |owner: &str, round: usize| {
        let one = |n: usize| json!({ "op": "reserve", "owner_id": owner, "sku": "tea", "idempotency_key": format!("{owner}-{round}-{n}") });
        (0..SIZE).map(one).collect::<Vec<_>>()
    };
    let held: usize = std::thread::scope(|scope| {
        let client = |name: usize| {
            let (server, commands) = (&server, &commands);
            scope.spawn(move || {
                let (mut wire, owner) = (server.connect(), format!("client-{name}"));
                let rounds = (0..ROUNDS).map(|round| results(&mut wire, &commands(&owner, round)));
                rounds.flatten().filter(|result| result["status"] == 201).count()
            })
        };
        let clients = (0..CLIENTS).map(client).collect::<Vec<_>>();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(held, 3_000);
    let item = server.item("tea");
    assert_eq!((&item["held_units"], &item["available"]), (&json!(3_000), &json!(0)));
}

#[test]
fn what_many_items_have() {
    let server = Server::start();
    let wire = &mut server.connect();
    server.stock("tea", 10);
    server.stock("tea?location=hub", 4);
    assert_eq!(
        results(wire, &[json!({ "op": "reserve", "owner_id": "o", "sku": "tea", "quantity": 3 })])[0]["status"],
        201
    );
    let items = json!({ "items": [
        { "sku": "tea", "location": "hub" }, { "sku": "tea" }, { "sku": "none" }, { "sku": "tea", "location": "default" },
        { "sku": "tea", "location": "\u{e9}" },
    ] });
    let answer: Answer = wire.ask(&Call::post("/v1/availability").json(&items));
    let one = |location: &str, available: u64, held: u64, sequence: u64| {
        json!({ "sku_id": "tea", "sku": "tea", "location": location, "available": available,
                "available_now": available,
                "active_reservations": u64::from(held > 0), "held_units": held, "sequence": sequence, "as_of": TIME })
    };
    let like = json!({ "items": [
        one("hub", 4, 0, 1), one("default", 7, 3, 2), { "sku": "none", "location": "default", "unknown": true },
        one("default", 7, 3, 2), { "sku": "tea", "location": "\u{e9}", "unknown": true },
    ] });
    assert_eq!(answer.status, 200);
    assert_like(&answer.json(), &like);
}
