//! Batches: commands and availabilities, right ones and wrong ones.

use crate::samples::{ID, at, full_hold, hold, id, item, key, label, refused, written};
use stockhold_api::decode::{self, COMMANDS, ITEMS, Invalid, Keyed};
use stockhold_api::encode::{self, List};
use stockhold_api::problem::Problem;
use stockhold_api::wire;
use stockhold_domain::{
    AdjustStock, Basket, Command, Confirm, Extend, Fulfilment, IfExpired, Mode, OptionalTerms, Patch,
    Release, RequestId, RequestedLine, Reserve, ReserveTerms, Seconds, SetStock,
};

fn all(body: &str) -> Vec<Result<Keyed<'_>, Invalid>> {
    decode::commands(None, body.as_bytes()).unwrap()
}

/// The faults of the only command.
#[track_caller]
fn wrong(command: &str, pointer: &str, detail: &str) {
    let body = format!("{{\"commands\":[{command}]}}");
    let mut found = all(&body);
    assert_eq!(found.len(), 1);
    refused(found.remove(0), &[(pointer, detail)]);
}

fn whole_stock() -> SetStock {
    SetStock {
        item: key("default", "a"),
        total_units: Some(9),
        shelf: None,
        mode: None,
        safety_stock: None,
        oversell_allowance: None,
        gated: Patch::Keep,
        sale_starts_at: Patch::Keep,
        sale_ends_at: Patch::Keep,
        incoming: None,
        price: Patch::Keep,
        low_stock: Patch::Keep,
        stock_master: Patch::Keep,
        override_owner: false,
        default_ttl: Patch::Keep,
        max_hold: Patch::Keep,
        max_payment: Patch::Keep,
        metadata: Patch::Keep,
        expected: None,
    }
}

#[test]
fn commands_as_they_are_meant() {
    let body = format!(
        r#" {{ "commands" : [
            {{"op":"reserve","owner_id":"o","lines":[{{"sku":"a","quantity":2}},{{"sku":"b","location":"hub"}},{{"sku":"a"}}],
              "ttl_seconds":60,"fulfilment":"partial","channel":"web","pool":"vip","customer_id":"c","session_id":"s",
              "metadata":{{"b":1,"a":[]}},"idempotency_key":"k\"1"}},
            {{"sku":"a","owner_id":"o","location":"hub","quantity":3,"op":"reserve"}},
            {{"op":"confirm","reservation_id":"{ID}","order_id":"7","idempotency_key":"k2"}},
            {{"op":"release","reservation_id":"{}","reason":"no"}},
            {{"op":"extend","reservation_id":"{ID}","ttl_seconds":5}},
            {{"op":"set_stock","sku":"a","location":"hub","total_units":9,"mode":"counted","safety_stock":1,
              "default_ttl_seconds":null,"max_hold_seconds":60,"metadata":{{"a":1}}}},
            {{"op":"set_stock","sku":"a","total_units":9}},
            {{"op":"adjust_stock","sku":"a","delta":-3,"reason":"broken","idempotency_key":"k3"}}
        ] }} "#,
        ID.to_uppercase()
    );
    let want =
        |location: &str, sku: &str, quantity: u64| RequestedLine { item: key(location, sku), quantity };
    let basket = |wants: Vec<RequestedLine>| Basket::new(wants).unwrap();
    let full = Reserve {
        checkout: None,
        override_limits: false,
        basket: basket(vec![want("default", "a", 3), want("hub", "b", 1)]),
        ttl: Some(Seconds::new(60).unwrap()),
        fulfilment: Fulfilment::Partial,
        terms: ReserveTerms::new(
            label("o"),
            OptionalTerms {
                channel: Some(label("web")),
                pool: Some(label("vip")),
                customer_id: Some(label("c")),
                session_id: Some(label("s")),
                metadata: Some(r#"{"a":[],"b":1}"#.into()),
            },
        ),
    };
    let short = Reserve {
        checkout: None,
        override_limits: false,
        basket: basket(vec![want("hub", "a", 3)]),
        ttl: None,
        fulfilment: Fulfilment::All,
        terms: ReserveTerms { optional: None, ..full.terms.clone() },
    };
    let confirm = Confirm {
        override_limits: false,
        id: id(),
        order_id: Some(label("7")),
        payment_id: None,
        if_expired: IfExpired::Refuse,
    };
    let stock = whole_stock();
    let expected = [
        (Command::Reserve(full), Some("k\"1")),
        (Command::Reserve(short), None),
        (Command::Confirm(confirm), Some("k2")),
        (Command::Release(Release { id: id(), reason: Some(label("no")) }), None),
        (Command::Extend(Extend { id: id(), ttl: Seconds::new(5).unwrap() }), None),
        (
            Command::SetStock(SetStock {
                item: key("hub", "a"),
                mode: Some(Mode::Counted),
                safety_stock: Some(1),
                default_ttl: Patch::Clear,
                max_hold: Patch::Set(Seconds::new(60).unwrap()),
                metadata: Patch::Set(r#"{"a":1}"#.into()),
                ..stock.clone()
            }),
            None,
        ),
        (Command::SetStock(stock), None),
        (
            Command::AdjustStock(AdjustStock {
                item: key("default", "a"),
                delta: -3,
                reason: label("broken"),
                supply_id: None,
                override_owner: false,
                expected: None,
            }),
            Some("k3"),
        ),
    ];
    let found = all(&body);
    assert_eq!(found.len(), expected.len());
    for (found, (command, key)) in found.iter().zip(expected) {
        let Keyed { command: found, key: named, .. } = found.as_ref().unwrap();
        assert_eq!((found, named.as_deref()), (&command, key));
    }
    // The same when one among them can't be read, and each is read on its own.
    let broken = body.replacen("[\n", "[7,", 1);
    let again = all(&broken);
    refused(again[0].clone(), &[("", "must be a JSON object, found 7")]);
    assert_eq!(again[1..], found);
}

#[test]
fn commands_that_are_wrong_by_themselves() {
    wrong("{}", "/op", "is required");
    let words = "must be \"reserve\", \"confirm\", \"release\", \"extend\", \"amend\", \"transfer\", \"split\", \"merge\", \
                 \"open_payment\", \"close_payment\", \"fulfil\", \"return\", \"set_stock\" or \"adjust_stock\", found";
    wrong(r#"{"op":"sell"}"#, "/op", &format!("{words} \"sell\""));
    wrong(r#"{"op":null}"#, "/op", &format!("{words} null"));
    wrong(r#"{"op":"confirm","op":"confirm"}"#, "/op", "is given twice");
    wrong("[]", "", "must be a JSON object, found an array");
    wrong(r#"{"op":"reserve","sku":"a"}"#, "/owner_id", "is required");
    wrong(r#"{"op":"reserve","owner_id":"o"}"#, "/lines", "is required, or sku");
    wrong(
        r#"{"op":"reserve","owner_id":"o","lines":[]}"#,
        "/lines",
        "must have 1 to 2,000 lines, found none",
    );
    wrong(
        r#"{"op":"reserve","owner_id":"o","lines":[{"sku":"a","quantity":0}]}"#,
        "/lines/0/quantity",
        "found 0",
    );
    wrong(
        r#"{"op":"reserve","owner_id":"o","lines":[{"sku":"a"}],"sku":"a"}"#,
        "/sku",
        "can't be combined with lines",
    );
    wrong(
        r#"{"op":"reserve","owner_id":"o","lines":[{"sku":"a"}],"location":"a"}"#,
        "/location",
        "into the lines",
    );
    wrong(r#"{"op":"reserve","owner_id":"o","sku":"\ud800"}"#, "/sku", "is not valid JSON");
    wrong(r#"{"op":"reserve","owner_id":"o","sku":"a","tax":1}"#, "/tax", "is not a field here");
    let not_of_reserve = "is not a field of \"reserve\"; the fields are `owner_id`, `lines`";
    wrong(r#"{"op":"reserve","owner_id":"o","sku":"a","reason":"r"}"#, "/reason", not_of_reserve);
    let not_of_confirm = "is not a field of \"confirm\"; the fields are `reservation_id`, `order_id`";
    wrong(
        &format!(r#"{{"op":"confirm","reservation_id":"{ID}","owner_id":"o"}}"#),
        "/owner_id",
        not_of_confirm,
    );
    wrong(r#"{"op":"confirm"}"#, "/reservation_id", "is required");
    wrong(r#"{"op":"confirm","reservation_id":"7"}"#, "/reservation_id", "must be a UUID like");
    wrong(&format!(r#"{{"op":"extend","reservation_id":"{ID}"}}"#), "/ttl_seconds", "is required");
    wrong(r#"{"op":"set_stock","total_units":1}"#, "/sku", "is required");
    wrong(
        r#"{"op":"set_stock","sku":"a","delta":1}"#,
        "/delta",
        "is not a field of \"set_stock\"; the fields are `sku`",
    );
    wrong(r#"{"op":"set_stock","sku":"a","idempotency_key":"k"}"#, "/idempotency_key", "is not a field of");
    wrong(r#"{"op":"adjust_stock","sku":"a","reason":"r"}"#, "/delta", "is required");
    wrong(r#"{"op":"adjust_stock","sku":"a","delta":1}"#, "/reason", "is required");
    wrong(
        r#"{"op":"reserve","owner_id":"o","sku":"a","total_units":1}"#,
        "/total_units",
        "is not a field of",
    );
    wrong(
        r#"{"op":"reserve","owner_id":"o","sku":"a","metadata":null}"#,
        "/metadata",
        "can't be null: leave it out",
    );
    // As deep as in the body of its own route.
    let deep = |levels: usize| {
        let metadata = format!("{{\"a\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
        format!(r#"{{"op":"reserve","owner_id":"o","sku":"a","metadata":{metadata}}}"#)
    };
    assert!(all(&format!("{{\"commands\":[{}]}}", deep(31)))[0].is_ok());
    wrong(&deep(32), "/metadata", "more than 32 levels deep");
    wrong(&deep(100_000), "/metadata", "more than 32 levels deep");
}

#[test]
fn batches_that_are_wrong_as_a_whole() {
    let check = |body: &[u8], pointer: &str, detail: &str| {
        refused(decode::commands(None, body), &[(pointer, detail)]);
    };
    check(b"", "", "found an empty body");
    check(b"[]", "", "must be a JSON object, found an array");
    check(b"{}", "/commands", "is required");
    check(b"{\"commands\":{}}", "/commands", "must be an array, found an object");
    check(b"{\"commands\":[]}", "/commands", "must have 1 to 8,192 commands, found none");
    check(b"{\"commands\":[{}],\"x\":1}", "/x", "is not a field here; the fields are `commands`");
    check(b"{\"commands\":[{}]} x", "", "found more text");
    check(b"{\"commands\":[{\"op\":\"confirm\"},{]}", "/commands/1", "is not valid JSON");
    check(b"{\"commands\":[{\"op\":\"\xff\"}]}", "/commands/0", "is not valid JSON");
    for one in ["{}", "{\"op\":\"confirm\",\"reservation_id\":\"018bcfe5-6800-7fff-bfff-ffffffffffff\"}"] {
        let many = |count: usize| format!("{{\"commands\":[{}]}}", vec![one; count].join(","));
        assert_eq!(all(&many(COMMANDS)).len(), COMMANDS);
        check(many(COMMANDS + 1).as_bytes(), "/commands", "must have 1 to 8,192 commands, found 8,193");
        check(many(50_000).as_bytes(), "/commands", "found 50,000");
    }
    refused(
        decode::commands(Some("x=1"), b"{}"),
        &[("/x", "this route has no query parameters"), ("/commands", "is required")],
    );
    assert_eq!(decode::no_idempotency_key(false), Ok(()));
    refused(
        decode::no_idempotency_key(true),
        &[("/Idempotency-Key", "put an idempotency_key into each command")],
    );
}

#[test]
fn availabilities() {
    let body = br#"{"items":[{"sku":"a"},{"location":"hub","sku":"a"},{"sku":"a"}]}"#;
    let found = decode::availability(None, body).unwrap();
    assert_eq!(found.items(), [key("default", "a"), key("hub", "a"), key("default", "a")]);
    let many = |count: usize| format!("{{\"items\":[{}]}}", vec!["{\"sku\":\"a\"}"; count].join(","));
    assert_eq!(decode::availability(None, many(ITEMS).as_bytes()).unwrap().items().len(), ITEMS);
    for (body, pointer, detail) in [
        (&*many(ITEMS + 1), "/items", "must have 1 to 1,000 items, found 1,001"),
        ("{\"items\":[]}", "/items", "found none"),
        ("{\"items\":[{}]}", "/items/0/sku", "is required"),
        ("{\"items\":[\"a\"]}", "/items/0", "must be a JSON object"),
        ("{\"items\":[{\"sku\":\"a\",\"location\":\"\"}]}", "/items/0/location", "must not be empty"),
    ] {
        refused(decode::availability(None, body.as_bytes()), &[(pointer, detail)]);
    }
}

#[test]
fn results_as_they_are_written_and_read() {
    let request = RequestId::Made(id().as_u128());
    let problem = Problem::unknown_route("/x");
    let json = written(|out| {
        let mut list = List::open(out, "results");
        encode::result_reservation(list.entry(out), 201, false, &hold(), None);
        encode::result_reservation(list.entry(out), 200, true, &full_hold(), None);
        encode::result_nothing(list.entry(out), 204, false);
        encode::result_item(list.entry(out), 201, false, &item());
        encode::result_problem(list.entry(out), &problem, &request);
        list.close(out);
    });
    let reservation = |hold| written(|out| encode::reservation(out, hold));
    let refusal = written(|out| problem.write(out, &request));
    let expected = format!(
        r#"{{"results":[{{"status":201,"reservation":{}}},{{"status":200,"replayed":true,"reservation":{}}},{{"status":204}},{{"status":201,"item":{}}},{{"status":404,"problem":{refusal}}}]}}"#,
        reservation(&hold()),
        reservation(&full_hold()),
        written(|out| encode::item(out, &item())),
    );
    assert_eq!(json, expected);
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    let read: Vec<wire::CommandResult> = serde_json::from_value(read["results"].clone()).unwrap();
    let statuses = read.iter().map(|result| (result.status, result.replayed)).collect::<Vec<_>>();
    assert_eq!(statuses, [(201, false), (200, true), (204, false), (201, false), (404, false)]);
    assert_eq!(read[0].reservation.as_ref().unwrap().reservation_id, id());
    assert_eq!(read[3].item.as_ref().unwrap().sku, item().key.sku());
    assert_eq!(read[4].problem.as_ref().unwrap().reason, "unknown_route");
    assert!(read[2].reservation.is_none() && read[2].problem.is_none());

    let unknown = written(|out| encode::unknown_item(out, &key("hub", "te\"a")));
    assert_eq!(unknown, r#"{"sku":"te\"a","location":"hub","unknown":true}"#);
    let read: wire::Stocked = serde_json::from_str(&unknown).unwrap();
    assert_eq!(read, wire::Stocked::Unknown { sku: "te\"a".to_owned(), location: "hub".to_owned() });
    let known = written(|out| encode::availability(out, &item(), at(7)));
    match serde_json::from_str(&known).unwrap() {
        wire::Stocked::Known(known) => assert_eq!((known.available, known.as_of), (70, at(7))),
        other @ wire::Stocked::Unknown { .. } => panic!("{other:?}"),
    }
    // What the client sends is what the server takes.
    let commands = vec![
        wire::Command::Reserve {
            lines: vec![wire::RequestedLine {
                sku: "a".to_owned(),
                location: Some("hub".to_owned()),
                quantity: 2,
            }],
            terms: wire::Terms { owner_id: "o".to_owned(), partial: true, ..wire::Terms::default() },
            idempotency_key: Some("k".to_owned()),
        },
        wire::Command::Confirm {
            reservation_id: id(),
            confirmation: wire::Confirmation::default(),
            idempotency_key: None,
        },
        wire::Command::Release { reservation_id: id(), reason: Some("r".to_owned()), idempotency_key: None },
        wire::Command::Extend { reservation_id: id(), ttl_seconds: 9, idempotency_key: None },
        wire::Command::SetStock {
            sku: "a".to_owned(),
            location: None,
            stock: wire::Stock {
                total_units: Some(1),
                gated: wire::Patch::Set(true),
                ..wire::Stock::default()
            },
        },
        wire::Command::AdjustStock {
            sku: "a".to_owned(),
            location: Some("hub".to_owned()),
            delta: 1,
            reason: "r".to_owned(),
            supply_id: None,
            idempotency_key: None,
        },
    ];
    let body = serde_json::json!({ "commands": commands }).to_string();
    for (n, command) in all(&body).into_iter().enumerate() {
        let Keyed { command, key, .. } = command.unwrap();
        assert_eq!(key.as_deref(), (n == 0).then_some("k"));
        let kind = match command {
            Command::Reserve(_) => 0,
            Command::Confirm(_) => 1,
            Command::Release(_) => 2,
            Command::Extend(_) => 3,
            Command::SetStock(SetStock { gated: Patch::Set(true), .. }) => 4,
            Command::AdjustStock(_) => 5,
            other => panic!("{other:?}"),
        };
        assert_eq!(kind, n);
    }
}
