//! Lines with a source, and the availability of a SKU at several locations.

use crate::client::{Act, server};
use crate::samples::{ID, hold, item, key, label, refused};
use stockhold_api::client::Client;
use stockhold_api::decode::{self, AvailabilityQuery, Keyed};
use stockhold_api::{encode, wire};
use stockhold_domain::{Basket, BasketLine, Command, Instant, RequestedLine, Source, Strategy};

fn basket_of(keyed: Keyed<'_>) -> Basket {
    let Command::Reserve(reserve) = keyed.command else { panic!("no reserve") };
    reserve.basket
}

fn sourced(locations: &[&str], strategy: Strategy, quantity: u64) -> BasketLine {
    let locations: Vec<_> = locations.iter().map(|name| label(name)).collect();
    let source = Source::new(&label("tea"), &locations, strategy).unwrap();
    let line = RequestedLine { item: source.items()[0].clone(), quantity };
    BasketLine { line, selection: None, source: Some(source) }
}

fn lines(lines: &str) -> String {
    format!(r#"{{"owner_id":"o","lines":[{lines}]}}"#)
}

#[test]
fn a_line_names_the_locations_that_may_give() {
    let body = lines(
        r#"{"sku":"tea","source":{"locations":["a","b"]}},
           {"sku":"tea","source":{"locations":["b"],"strategy":"most_stock"},"quantity":3},
           {"sku":"tea","location":"a","quantity":2},
           {"sku":"tea","source":{"strategy":"single","locations":["b","a"]}},
           {"sku":"tea","location":"a"}"#,
    );
    let plain = RequestedLine { item: key("a", "tea"), quantity: 3 };
    let expected = Basket::with_sources(vec![
        sourced(&["a", "b"], Strategy::Priority, 1),
        sourced(&["b"], Strategy::MostStock, 3),
        BasketLine { line: plain, selection: None, source: None },
        sourced(&["b", "a"], Strategy::Single, 1),
    ]);
    assert_eq!(basket_of(decode::reserve_basket(None, body.as_bytes()).unwrap()), expected.unwrap());
}

#[test]
fn a_command_of_one_line_may_have_a_source() {
    let body = br#"{"commands":[{"op":"reserve","owner_id":"o","sku":"tea","quantity":2,"source":{"locations":["a","b"]}}]}"#;
    let command = decode::commands(None, body).unwrap().remove(0).unwrap();
    let expected = Basket::with_sources(vec![sourced(&["a", "b"], Strategy::Priority, 2)]).unwrap();
    assert_eq!(basket_of(command), expected);
    for (command, pointer, detail) in [
        (
            r#"{"op":"reserve","owner_id":"o","sku":"tea","location":"a","source":{"locations":["a"]}}"#,
            "/source",
            "combined with location",
        ),
        (
            r#"{"op":"reserve","owner_id":"o","sku":"tea","source":{"locations":[]}}"#,
            "/source/locations",
            "must name 1 to 16",
        ),
        (
            r#"{"op":"reserve","owner_id":"o","lines":[{"sku":"tea"}],"source":{"locations":["a"]}}"#,
            "/source",
            "belongs into the lines",
        ),
        (
            r#"{"op":"set_stock","sku":"tea","source":{"locations":["a"]}}"#,
            "/source",
            "is not a field of \"set_stock\"",
        ),
        (
            r#"{"op":"reserve","owner_id":"o","sku":"tea","source":{"locations":"a"}}"#,
            "/source/locations",
            "must be an array",
        ),
    ] {
        let body = format!(r#"{{"commands":[{command}]}}"#);
        refused(decode::commands(None, body.as_bytes()).unwrap().remove(0), &[(pointer, detail)]);
    }
}

#[test]
fn what_is_no_source() {
    let many = (0..17).map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(",");
    let name = "must be a string of 1 to 128 bytes";
    for (line, pointer, detail) in [
        (r#""source":{}"#, "/source/locations", "is required"),
        (r#""source":null"#, "/source", "must be a JSON object, found null"),
        (r#""source":["a"]"#, "/source", "must be a JSON object, found an array"),
        (r#""source":{"locations":[]}"#, "/source/locations", "must name 1 to 16 locations, found none"),
        (
            &format!(r#""source":{{"locations":[{many}]}}"#),
            "/source/locations",
            "must name 1 to 16 locations, found 17",
        ),
        (r#""source":{"locations":["a","b","a"]}"#, "/source/locations/2", "names \"a\" twice"),
        (r#""source":{"locations":["a",1]}"#, "/source/locations/1", name),
        (r#""source":{"locations":["a",""]}"#, "/source/locations/1", "must not be empty"),
        (
            r#""source":{"locations":["a"],"strategy":"nearest"}"#,
            "/source/strategy",
            "\"most_stock\" or \"single\", found \"nearest\"",
        ),
        (r#""source":{"locations":["a"],"strategy":null}"#, "/source/strategy", "found null"),
        (
            r#""source":{"locations":["a"],"order":1}"#,
            "/source/order",
            "the fields are `locations` or `strategy`",
        ),
        (r#""source":{"locations":["a"]},"location":"a""#, "/source", "can't be combined with location"),
        (r#""source":{"locations":["a"]},"units":["1"]"#, "/units", "can't be combined with source"),
        (r#""source":{"locations":["a"]},"adjacent":false"#, "/adjacent", "can't be combined with source"),
        (r#""source":{"locations":["a"]},"quantity":0"#, "/quantity", "must be a whole number from 1"),
    ] {
        let body = lines(&format!(r#"{{"sku":"milk"}},{{"sku":"tea",{line}}}"#));
        let pointer = format!("/lines/1{pointer}");
        refused(decode::reserve_basket(None, body.as_bytes()), &[(&pointer, detail)]);
    }
}

#[test]
fn all_sources_together_name_so_many_items() {
    let locations = (0..16).map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(",");
    let line = format!(r#"{{"sku":"tea","source":{{"locations":[{locations}]}}}}"#);
    let fits = lines(&vec![line.clone(); 256].join(","));
    assert!(decode::reserve_basket(None, fits.as_bytes()).is_ok());
    let more = lines(&vec![line; 257].join(","));
    let detail = "must name at most 4,096 items together, found 4,112";
    refused(decode::reserve_basket(None, more.as_bytes()), &[("/lines", detail)]);
}

#[test]
fn only_a_reserve_takes_a_source() {
    let lines = r#""lines":[{"sku":"milk"},{"sku":"tea","source":{"locations":["a"]}}]"#;
    let body = format!("{{{lines}}}");
    let returned = format!(r#"{{"reason":"r",{lines}}}"#);
    let refuse = |result: Result<Keyed<'_>, decode::Invalid>, command: &str| {
        let detail = format!("is not a field of {command}: name the location");
        refused(result, &[("/lines/1/source", &detail)]);
    };
    refuse(decode::amend(ID, None, None, body.as_bytes()), "an amend");
    refuse(decode::split(ID, None, None, body.as_bytes()), "a split");
    refuse(decode::fulfil(ID, None, body.as_bytes()), "a fulfil");
    refuse(decode::return_units(ID, None, returned.as_bytes()), "a return");
    let single = br#"{"owner_id":"o","source":{"locations":["a"]}}"#;
    refused(decode::reserve_single("tea", None, single), &[("/source", "is not a field here")]);
}

#[test]
fn the_availability_of_a_sku_at_several_locations() {
    let body = br#"{"sku":"tea","locations":["b","a"]}"#;
    let items = vec![key("b", "tea"), key("a", "tea")];
    assert_eq!(
        decode::availability(None, body).unwrap(),
        AvailabilityQuery::Locations { sku: label("tea"), items }
    );
    let many = (0..1_001).map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(",");
    for (body, pointer, detail) in [
        ("{}", "/items", "is required, or sku and locations"),
        (r#"{"sku":"tea"}"#, "/locations", "is required with sku"),
        (r#"{"locations":["a"]}"#, "/sku", "is required with locations"),
        (r#"{"sku":"tea","locations":[]}"#, "/locations", "must have 1 to 1,000 locations, found none"),
        (&format!(r#"{{"sku":"tea","locations":[{many}]}}"#), "/locations", "found 1,001"),
        (r#"{"sku":"tea","locations":["a","b","a"]}"#, "/locations/2", "names \"a\" twice"),
        (r#"{"sku":"tea","locations":null}"#, "/locations", "found null"),
        (r#"{"sku":null,"locations":["a"]}"#, "/sku", "found null"),
        (r#"{"sku":"tea","locations":["a"],"items":[{"sku":"a"}]}"#, "/sku", "can't be combined with items"),
        (r#"{"locations":["a"],"items":[{"sku":"a"}]}"#, "/locations", "can't be combined with items"),
        (r#"{"sku":"tea","locations":["a"],"x":1}"#, "/x", "the fields are `items`, `sku`, `locations`"),
    ] {
        refused(decode::availability(None, body.as_bytes()), &[(pointer, detail)]);
    }
}

#[test]
fn what_the_availability_over_locations_looks_like() {
    let (known, nowhere) = (item(), key("nowhere", "tea"));
    let mut out = Vec::new();
    let items = [(&known.key, Some(&known)), (&nowhere, None), (&known.key, Some(&known))];
    encode::availability_at(&mut out, "tea", &items, Instant::from_millis(0));
    let shown: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let one = serde_json::json!({
        "location": known.key.location(), "available": known.available(), "as_of": shown["locations"][0]["as_of"],
    });
    let expected = serde_json::json!({
        "sku": "tea", "available": 2 * known.available(),
        "locations": [one, { "location": "nowhere", "unknown": true }, one],
    });
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn the_client_asks_for_sources() {
    let mut held = Vec::new();
    encode::reservation(&mut held, &hold());
    let found = r#"{"sku":"tea","available":7,"locations":[{"location":"a","available":7,"as_of":"2026-01-01T00:00:00.000Z"},
        {"location":"b","unknown":true}]}"#;
    let server = server(vec![
        Act::Answer(201, "", String::from_utf8(held).unwrap()),
        Act::Answer(200, "", found.to_owned()),
    ]);
    let client = Client::new(&server.base).unwrap();
    let locations = vec!["a".to_owned(), "b".to_owned()];
    let source = wire::Source { locations, strategy: wire::Strategy::MostStock };
    let line = wire::SourcedLine { sku: "tea".to_owned(), location: None, source: Some(source), quantity: 2 };
    let terms = wire::Terms { owner_id: "o".to_owned(), ..wire::Terms::default() };
    client.reserve_from_sources(&[line], &terms, Some("k")).await.unwrap();
    let over = client.availability_at("tea", &["a", "b"]).await.unwrap();
    assert_eq!(
        (over.available, over.locations[0].available, over.locations[1].available),
        (7, Some(7), None)
    );
    let asked = server.asked.lock().unwrap();
    let sent = r#"{"lines":[{"sku":"tea","source":{"locations":["a","b"],"strategy":"most_stock"},"quantity":2}],"owner_id":"o"}"#;
    assert_eq!((asked[0].body.as_str(), asked[0].key.as_deref()), (sent, Some("\"k\"")));
    assert_eq!(asked[1].body, r#"{"sku":"tea","locations":["a","b"]}"#);
}
