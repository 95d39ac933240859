//! The bodies of commands that change a reservation.

use crate::samples::{ID, id, key, label, refused};
use stockhold_api::decode::{self, Invalid, Keyed};
use stockhold_domain::{
    Amend, Basket, ClosePayment, Command, Confirm, Disposition, Fulfil, Fulfilment, IfExpired, Merge,
    OpenPayment, Patch, Precondition, RequestedLine, ReservationId, Return, ReturnFrom, SaleSelection,
    Seconds, SetStock, ShelfCount, Split, Transfer, UnitSelection,
};

const OTHER: &str = "018bcfe5-6800-7fff-bfff-fffffffffff0";

fn other() -> ReservationId {
    ReservationId::from_u128(0x018b_cfe5_6800_7fff_bfff_ffff_ffff_fff0)
}

fn two_teas() -> Basket {
    Basket::new(vec![RequestedLine { item: key("default", "tea"), quantity: 2 }]).unwrap()
}

fn seats(units: &[&str]) -> Basket {
    let line = RequestedLine { item: key("default", "hall"), quantity: 1 };
    let named = UnitSelection::Named(units.iter().map(|unit| label(unit)).collect());
    Basket::with_selections(vec![(line, Some(named))]).unwrap()
}

fn seconds(n: u64) -> Seconds {
    Seconds::new(n).unwrap()
}

/// The command of a route and the one of a batch are the same, with the same key.
#[track_caller]
fn same(expected: &Command, single: Result<Keyed<'_>, Invalid>, batched: &str) {
    let single = single.unwrap();
    assert_eq!((&single.command, single.key.as_deref()), (expected, Some("k")));
    let body = format!(r#"{{"commands":[{batched}]}}"#);
    let batch = decode::commands(None, body.as_bytes()).unwrap().remove(0).unwrap();
    assert_eq!((&batch.command, batch.key.as_deref()), (expected, Some("k")));
}

#[test]
fn amends() {
    let expected = Command::Amend(Amend {
        override_limits: false,
        id: id(),
        basket: Some(two_teas()),
        fulfilment: Fulfilment::Partial,
        ttl: Some(seconds(60)),
        metadata: Patch::Set(r#"{"a":1}"#.into()),
        expected: Some(Precondition::version(3)),
    });
    let body = r#""lines":[{"sku":"tea","quantity":2}],"fulfilment":"partial","ttl_seconds":60,"metadata":{"a": 1},"idempotency_key":"k""#;
    same(
        &expected,
        decode::amend(ID, None, Some(b"\"3\""), format!("{{{body}}}").as_bytes()),
        &format!(r#"{{"op":"amend","reservation_id":"{ID}","if_version":3,{body}}}"#),
    );
    let of = |body: &str| match decode::amend(ID, None, None, body.as_bytes()).map(|keyed| keyed.command) {
        Ok(Command::Amend(amend)) => amend,
        found => panic!("{found:?}"),
    };
    // An empty object clears the metadata.
    assert_eq!(of(r#"{"metadata":{}}"#).metadata, Patch::Clear);
    assert_eq!(of(r#"{"lines":[{"sku":"hall","units":["A","B"]}]}"#).basket, Some(seats(&["A", "B"])));
    let nothing = of("{}");
    assert_eq!((nothing.basket, nothing.ttl, nothing.metadata), (None, None, Patch::Keep));
    let wrong = |body: &'static str| decode::amend(ID, None, None, body.as_bytes());
    refused(wrong(r#"{"lines":[]}"#), &[("/lines", "release the reservation")]);
    refused(wrong(r#"{"lines":null}"#), &[("/lines", "must be an array")]);
    refused(wrong(r#"{"metadata":null}"#), &[("/metadata", "must be a JSON object")]);
    refused(wrong(r#"{"owner_id":"o"}"#), &[("/owner_id", "is not a field here")]);
    refused(
        decode::amend(ID, None, Some(b"3"), br#"{"ttl_seconds":0}"#),
        &[("/If-Match", "must be an ETag"), ("/ttl_seconds", "must be a whole number of seconds")],
    );
}

#[test]
fn transfers() {
    let expected = Command::Transfer(Transfer {
        override_limits: false,
        id: id(),
        owner_id: Some(label("o")),
        customer_id: Patch::Set(label("c")),
        session_id: Patch::Clear,
        expected: None,
    });
    let body = r#""owner_id":"o","customer_id":"c","session_id":null,"idempotency_key":"k""#;
    same(
        &expected,
        decode::transfer(ID, None, None, format!("{{{body}}}").as_bytes()),
        &format!(r#"{{"op":"transfer","reservation_id":"{ID}",{body}}}"#),
    );
    refused(decode::transfer(ID, None, None, br#"{"owner_id":null}"#), &[("/owner_id", "must be a string")]);
}

#[test]
fn splits_and_merges() {
    let body = r#""lines":[{"sku":"tea","quantity":2}],"idempotency_key":"k""#;
    same(
        &Command::Split(Split { id: id(), lines: two_teas(), expected: None }),
        decode::split(ID, None, None, format!("{{{body}}}").as_bytes()),
        &format!(r#"{{"op":"split","reservation_id":"{ID}",{body}}}"#),
    );
    refused(decode::split(ID, None, None, br#"{"lines":[]}"#), &[("/lines", "must have 1 to 2,000 lines")]);
    refused(
        decode::split(ID, None, None, br#"{"lines":[{"sku":"tea","adjacent":true}]}"#),
        &[("/lines/0/adjacent", "is not a field of a split")],
    );
    let body = format!(r#""from":["{OTHER}"],"idempotency_key":"k""#);
    same(
        &Command::Merge(Merge { override_limits: false, id: id(), from: [other()].into(), expected: None }),
        decode::merge(ID, None, None, format!("{{{body}}}").as_bytes()),
        &format!(r#"{{"op":"merge","reservation_id":"{ID}",{body}}}"#),
    );
    refused(decode::merge(ID, None, None, br#"{"from":["x"]}"#), &[("/from/0", "must be a UUID")]);
    refused(decode::merge(ID, None, None, br#"{"from":"fulfilled"}"#), &[("/from", "must be an array")]);
}

#[test]
fn payments() {
    let body = r#""payment_id":"p","window_seconds":604800,"idempotency_key":"k""#;
    let window = Some(seconds(604_800));
    same(
        &Command::OpenPayment(OpenPayment { id: id(), payment_id: label("p"), window, expected: None }),
        decode::open_payment(ID, None, None, format!("{{{body}}}").as_bytes()),
        &format!(r#"{{"op":"open_payment","reservation_id":"{ID}",{body}}}"#),
    );
    for wrong in ["0", "604801", "1.0", "null", "\"9\""] {
        let body = format!(r#"{{"payment_id":"p","window_seconds":{wrong}}}"#);
        let found = decode::open_payment(ID, None, None, body.as_bytes());
        refused(found, &[("/window_seconds", "must be a whole number of seconds from 1 to 604,800")]);
    }
    refused(decode::open_payment(ID, None, None, b"{}"), &[("/payment_id", "is required")]);
    assert_eq!(
        decode::close_payment(ID, Some("reason=no+money&payment_id=p")),
        Ok(Command::ClosePayment(ClosePayment {
            id: id(),
            payment_id: Some(label("p")),
            reason: Some(label("no money")),
        }))
    );
    refused(decode::close_payment(ID, Some("payment=p")), &[("/payment", "is not a query parameter")]);
    let body = r#""order_id":"1","payment_id":"p","if_expired":"reacquire","idempotency_key":"k""#;
    same(
        &Command::Confirm(Confirm {
            override_limits: false,
            id: id(),
            order_id: Some(label("1")),
            payment_id: Some(label("p")),
            if_expired: IfExpired::Reacquire,
        }),
        decode::confirm(ID, None, format!("{{{body}}}").as_bytes()),
        &format!(r#"{{"op":"confirm","reservation_id":"{ID}",{body}}}"#),
    );
    refused(
        decode::confirm(ID, None, br#"{"if_expired":"retry"}"#),
        &[("/if_expired", "must be \"refuse\" or \"reacquire\"")],
    );
}

#[test]
fn sold_units() {
    for empty in ["", "{}"] {
        let found = decode::fulfil(ID, None, empty.as_bytes()).unwrap().command;
        assert_eq!(found, Command::Fulfil(Fulfil { id: id(), selection: SaleSelection::All }));
    }
    let body = r#""units":["A"],"idempotency_key":"k""#;
    let selection = SaleSelection::Units(vec![label("A")]);
    same(
        &Command::Fulfil(Fulfil { id: id(), selection }),
        decode::fulfil(ID, None, format!("{{{body}}}").as_bytes()),
        &format!(r#"{{"op":"fulfil","reservation_id":"{ID}",{body}}}"#),
    );
    refused(
        decode::fulfil(ID, None, br#"{"units":["A"],"lines":[{"sku":"tea"}]}"#),
        &[("/units", "can't be combined with lines")],
    );
    let body = r#""lines":[{"sku":"tea","quantity":2}],"from":"fulfilled","disposition":"write_off","reason":"r","idempotency_key":"k""#;
    same(
        &Command::Return(Return {
            id: id(),
            selection: SaleSelection::Lines(two_teas()),
            from: Some(ReturnFrom::Fulfilled),
            disposition: Disposition::WriteOff,
            reason: label("r"),
        }),
        decode::return_units(ID, None, format!("{{{body}}}").as_bytes()),
        &format!(r#"{{"op":"return","reservation_id":"{ID}",{body}}}"#),
    );
    refused(
        decode::return_units(ID, None, br#"{"reason":"r","from":"shelf","disposition":"burn"}"#),
        &[("/from", "must be \"unfulfilled\""), ("/disposition", "must be \"restock\" or")],
    );
}

#[test]
fn counts_of_the_shelf() {
    let set = |body: &str| match decode::set_stock("tea", None, None, body.as_bytes()) {
        Ok(Command::SetStock(set)) => set,
        found => panic!("{found:?}"),
    };
    let SetStock { shelf, max_payment, .. } =
        set(r#"{"on_hand":7,"fulfilled_units_seen":3,"max_payment_seconds":604800}"#);
    assert_eq!(shelf, Some(ShelfCount { on_hand: 7, fulfilled_seen: Some(3) }));
    assert_eq!(max_payment, Patch::Set(seconds(604_800)));
    assert_eq!(set(r#"{"on_hand":7}"#).shelf, Some(ShelfCount { on_hand: 7, fulfilled_seen: None }));
    assert_eq!(set(r#"{"max_payment_seconds":null}"#).max_payment, Patch::Clear);
    refused(
        decode::set_stock("tea", None, None, br#"{"fulfilled_units_seen":3}"#),
        &[("/fulfilled_units_seen", "is read only together with on_hand")],
    );
    let over = decode::set_stock("tea", None, None, br#"{"max_payment_seconds":604801}"#);
    refused(over, &[("/max_payment_seconds", "must be a whole number of seconds from 1 to 604,800")]);
}

#[test]
fn fields_of_other_commands_are_refused_in_a_batch() {
    let refuse = |command: &str, pointer: &str, detail: &str| {
        let body = format!(r#"{{"commands":[{command}]}}"#);
        let found = decode::commands(None, body.as_bytes()).unwrap().remove(0);
        refused(found, &[(pointer, detail)]);
    };
    let on = |op: &str, rest: &str| format!(r#"{{"op":"{op}","reservation_id":"{ID}",{rest}}}"#);
    refuse(&on("release", r#""if_version":1"#), "/if_version", "is not a field of \"release\"");
    refuse(&on("merge", r#""from":"fulfilled""#), "/from", "must be an array of reservation ids");
    let from = format!(r#""reason":"r","from":["{OTHER}"]"#);
    refuse(&on("return", &from), "/from", "must be \"unfulfilled\" or \"fulfilled\"");
    refuse(&on("merge", r#""from":7"#), "/from", "must be an array of reservation ids (merge)");
    refuse(&on("amend", r#""metadata":null"#), "/metadata", "can't be null");
    refuse(
        r#"{"op":"reserve","sku":"a","owner_id":"o","customer_id":null}"#,
        "/customer_id",
        "can't be null: leave it out",
    );
    let cleared = br#"{"commands":[{"op":"set_stock","sku":"a","metadata":null}]}"#;
    let found = decode::commands(None, cleared).unwrap().remove(0).unwrap().command;
    assert!(matches!(found, Command::SetStock(SetStock { metadata: Patch::Clear, .. })));
}
