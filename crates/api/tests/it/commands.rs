//! Requests that are right, and the commands they are.

use crate::samples::{ID, id, key, label};
use stockhold_api::decode::{self, Keyed, Match};
use stockhold_domain::{
    AdjustStock, Basket, Command, Confirm, Disposition, Extend, Fulfilment, IfExpired, Instant, Label, Mode,
    OptionalTerms, Patch, Precondition, Release, RequestedLine, Reserve, ReserveTerms, Return, SaleSelection,
    Scope, Seconds, SetSale, SetStock, Supply,
};

fn seconds(n: u64) -> Seconds {
    Seconds::new(n).unwrap()
}

fn basket(wants: &[(&str, &str, u64)]) -> Basket {
    let want = |(location, sku, quantity): &(&str, &str, u64)| RequestedLine {
        item: key(location, sku),
        quantity: *quantity,
    };
    Basket::new(wants.iter().map(want).collect()).unwrap()
}

fn plain(owner: &str, basket: Basket) -> Reserve {
    Reserve {
        checkout: None,
        override_limits: false,
        basket,
        ttl: None,
        fulfilment: Fulfilment::All,
        terms: ReserveTerms { owner_id: label(owner), optional: None },
    }
}

#[test]
fn reserves() {
    let Keyed { command, key, .. } = decode::reserve_single("tea", None, br#" {"owner_id":"o"} "#).unwrap();
    assert_eq!(command, Command::Reserve(plain("o", basket(&[("default", "tea", 1)]))));
    assert_eq!(key, None);

    let body = br#"{"owner_id":"o \u00e9","quantity":18446744073709551615,"ttl_seconds":60,
        "idempotency_key":"k\"1","fulfilment":"partial","channel":"web","pool":"vip","customer_id":"c",
        "session_id":"s","metadata":{"b": [1, 2.50 , true],"a":{"z":null,"y":"\u0041\n/"}}}"#;
    let Keyed { command, key, .. } = decode::reserve_single("tea", Some("location=hub"), body).unwrap();
    let full = Reserve {
        ttl: Some(seconds(60)),
        fulfilment: Fulfilment::Partial,
        terms: ReserveTerms::new(
            label("o é"),
            OptionalTerms {
                channel: Some(label("web")),
                pool: Some(label("vip")),
                customer_id: Some(label("c")),
                session_id: Some(label("s")),
                metadata: Some(r#"{"a":{"y":"A\n/","z":null},"b":[1,2.50,true]}"#.into()),
            },
        ),
        ..plain("o é", basket(&[("hub", "tea", u64::MAX)]))
    };
    assert_eq!(command, Command::Reserve(full));
    assert_eq!(key.as_deref(), Some("k\"1"));
}

#[test]
fn baskets_sum_lines_of_one_item() {
    let body = br#"{"lines":[{"sku":"a","quantity":2},{"sku":"b","location":"hub"},
        {"sku":"a","location":"default","quantity":3}],"owner_id":"o","idempotency_key":"k"}"#;
    let Keyed { command, key, .. } = decode::reserve_basket(None, body).unwrap();
    assert_eq!(command, Command::Reserve(plain("o", basket(&[("default", "a", 5), ("hub", "b", 1)]))));
    assert_eq!(key.as_deref(), Some("k"));
}

fn confirm(order_id: Option<Label>) -> Confirm {
    Confirm { override_limits: false, id: id(), order_id, payment_id: None, if_expired: IfExpired::Refuse }
}

#[test]
fn what_a_reservation_goes_through() {
    for empty in ["", "  ", "{}"] {
        let Keyed { command, key, .. } = decode::confirm(ID, None, empty.as_bytes()).unwrap();
        assert_eq!((command, key), (Command::Confirm(confirm(None)), None));
    }
    let Keyed { command, .. } = decode::confirm(ID, None, br#"{"order_id":"7"}"#).unwrap();
    assert_eq!(command, Command::Confirm(confirm(Some(label("7")))));

    let Keyed { command, key, .. } =
        decode::extend(ID, None, br#"{"ttl_seconds":5,"idempotency_key":"k"}"#).unwrap();
    assert_eq!(command, Command::Extend(Extend { id: id(), ttl: seconds(5) }));
    assert_eq!(key.as_deref(), Some("k"));

    assert_eq!(decode::release(ID, None).unwrap(), Command::Release(Release { id: id(), reason: None }));
    assert_eq!(
        decode::release(ID, Some("reason=changed+mind")).unwrap(),
        Command::Release(Release { id: id(), reason: Some(label("changed mind")) })
    );

    let reason = label("broken");
    let Keyed { command, .. } = decode::return_units(ID, None, br#"{"reason":"broken"}"#).unwrap();
    assert_eq!(
        command,
        Command::Return(Return {
            id: id(),
            selection: SaleSelection::All,
            from: None,
            disposition: Disposition::Restock,
            reason: reason.clone(),
        })
    );
    let body = br#"{"reason":"broken","lines":[{"sku":"a","location":"hub","quantity":2}]}"#;
    let Keyed { command, .. } = decode::return_units(ID, None, body).unwrap();
    let selection = SaleSelection::Lines(basket(&[("hub", "a", 2)]));
    assert_eq!(
        command,
        Command::Return(Return {
            id: id(),
            selection,
            from: None,
            disposition: Disposition::Restock,
            reason
        })
    );
}

#[test]
fn metadata_has_one_form_and_keeps_its_meaning() {
    let stored = |metadata: &str| {
        let body = format!(r#"{{"total_units":1,"metadata":{metadata}}}"#);
        match decode::set_stock("a", None, None, body.as_bytes()) {
            Ok(Command::SetStock(set)) => set.metadata.over(None).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    for (given, expected) in [
        ("{}", "{}"),
        ("{\n}", "{}"),
        (r#"{"b":{},"a":[ ],"":""}"#, r#"{"":"","a":[],"b":{}}"#),
        (
            r#"{ "b" : [ 1 , [ -2.50e+3 , { } ] , null ] , "a" : "}\"],\\" }"#,
            r#"{"a":"}\"],\\","b":[1,[-2.50e+3,{}],null]}"#,
        ),
        (r#"{"n":12345678901234567890123,"x":0.1000000000000000000001}"#, ""),
        (r#"{"\u00e9":"\ud83e\udd80\u0000\/"}"#, r#"{"é":"🦀\u0000/"}"#),
        (r#"{"é":true,"z":false,"Z":0}"#, r#"{"Z":0,"z":false,"é":true}"#),
        ("{\"a\":\r\n\t[true\t,false\n]}", r#"{"a":[true,false]}"#),
    ] {
        let form = stored(given);
        assert_eq!(&*form, if expected.is_empty() { given } else { expected });
        assert_eq!(stored(&form), form);
        let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert_eq!(value(&form), value(given));
    }
}

#[test]
fn what_operators_say_about_a_sale() {
    let Command::SetStock(bare) = decode::set_stock("tea", None, None, b"{}").unwrap() else {
        panic!("a set")
    };
    let body =
        br#"{"oversell_allowance":2,"gated":true,"sale_starts_at":"2027-01-31T12:00:00Z","sale_ends_at":null,
        "incoming":[{"supply_id":"po-1","quantity":4,"available_from":"2027-02-01T00:00:00+01:00"}]}"#;
    let command = decode::set_stock("tea", None, None, body).unwrap();
    let at = |seconds: i64| Instant::from_micros(seconds * 1_000_000);
    let terms = SetStock {
        oversell_allowance: Some(2),
        gated: Patch::Set(true),
        sale_starts_at: Patch::Set(at(1_801_396_800)),
        sale_ends_at: Patch::Clear,
        incoming: Some([Supply { id: label("po-1"), quantity: 4, available_from: at(1_801_436_400) }].into()),
        ..bare
    };
    assert_eq!(command, Command::SetStock(terms));
    let command = decode::set_stock("tea", None, None, br#"{"incoming":null}"#).unwrap();
    assert!(matches!(command, Command::SetStock(SetStock { incoming: Some(none), .. }) if none.is_empty()));
    for (value, expected) in [("false", Patch::Set(false)), ("null", Patch::Clear)] {
        let body = format!(r#"{{"gated":{value}}}"#);
        let command = decode::set_stock("tea", None, None, body.as_bytes()).unwrap();
        assert!(matches!(command, Command::SetStock(SetStock { gated, .. }) if gated == expected), "{body}");
    }
    for (field, value) in [
        ("oversell_allowance", "null"),
        ("oversell_allowance", "1000000000001"),
        ("gated", "1"),
        ("gated", "\"true\""),
        ("sale_starts_at", "\"tomorrow\""),
        ("incoming", "{}"),
        ("incoming", "[7]"),
        ("incoming", r#"[{"supply_id":"a","quantity":1}]"#),
        ("incoming", r#"[{"supply_id":"a","quantity":-1,"available_from":"2027-02-01T00:00:00Z"}]"#),
    ] {
        let body = format!(r#"{{"{field}":{value}}}"#);
        let invalid = decode::set_stock("tea", None, None, body.as_bytes()).unwrap_err();
        assert!(invalid.errors[0].pointer.starts_with(&format!("/{field}")), "{body}: {invalid:?}");
    }
}

#[test]
fn what_operators_do() {
    let bare = SetStock {
        item: key("default", "tea"),
        total_units: Some(0),
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
    };
    let command = decode::set_stock("tea", None, None, br#"{"total_units":0}"#).unwrap();
    assert_eq!(command, Command::SetStock(bare.clone()));
    let body = br#"{"total_units":1000000000000,"mode":"counted","safety_stock":5,"default_ttl_seconds":30,
        "max_hold_seconds":2592000,"metadata":{ }}"#;
    let command = decode::set_stock("tea", None, Some(Match::If(b"\"7\"")), body).unwrap();
    let full = SetStock {
        total_units: Some(1_000_000_000_000),
        shelf: None,
        mode: Some(Mode::Counted),
        safety_stock: Some(5),
        default_ttl: Patch::Set(seconds(30)),
        max_hold: Patch::Set(seconds(2_592_000)),
        max_payment: Patch::Keep,
        metadata: Patch::Set("{}".into()),
        expected: Some(Precondition::version(7)),
        ..bare.clone()
    };
    assert_eq!(command, Command::SetStock(full));
    let body = br#"{"default_ttl_seconds":null,"max_hold_seconds":null,"metadata":null}"#;
    let command = decode::set_stock("tea", None, None, body).unwrap();
    let less = SetStock {
        total_units: None,
        default_ttl: Patch::Clear,
        max_hold: Patch::Clear,
        max_payment: Patch::Keep,
        metadata: Patch::Clear,
        ..bare
    };
    assert_eq!(command, Command::SetStock(less));
    for field in ["total_units", "mode", "safety_stock"] {
        let body = format!(r#"{{"{field}":null}}"#);
        let invalid = decode::set_stock("tea", None, None, body.as_bytes()).unwrap_err();
        assert_eq!(
            *invalid.errors[0].pointer,
            format!("/{field}"),
            "what every item has can't be taken back"
        );
    }

    for delta in [i64::MIN, -1, 1, i64::MAX] {
        let body = format!(r#"{{"delta":{delta},"reason":"count"}}"#);
        let Keyed { command, .. } = decode::adjust("tea", None, None, body.as_bytes()).unwrap();
        let (item, reason) = (key("default", "tea"), label("count"));
        assert_eq!(
            command,
            Command::AdjustStock(AdjustStock {
                item,
                delta,
                reason,
                supply_id: None,
                override_owner: false,
                expected: None
            })
        );
    }
    for (body, reason) in [
        (r#"{"delta":3,"supply_id":"po-1"}"#, "received"),
        (r#"{"delta":3,"supply_id":"po-1","reason":"early"}"#, "early"),
    ] {
        let Keyed { command, .. } = decode::adjust("tea", None, None, body.as_bytes()).unwrap();
        let Command::AdjustStock(adjust) = command else { panic!("{command:?}") };
        assert_eq!((adjust.supply_id, adjust.reason), (Some(label("po-1")), label(reason)));
    }
    let invalid = decode::adjust("tea", None, None, br#"{"delta":3}"#).unwrap_err();
    assert_eq!(*invalid.errors[0].pointer, *"/reason");

    let sale = |scope, paused, reason| Command::SetSale(SetSale { scope, paused, reason });
    assert_eq!(decode::set_sale(None, b"", true).unwrap(), sale(Scope::Everything, true, None));
    assert_eq!(
        decode::set_sale(Some("location=hub"), br#"{"reason":"fire"}"#, false).unwrap(),
        sale(Scope::Location(label("hub")), false, Some(label("fire")))
    );
    assert_eq!(
        decode::set_item_sale("tea", None, b"{}", true).unwrap(),
        sale(Scope::Item(key("default", "tea")), true, None)
    );
}
