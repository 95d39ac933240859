//! What is written has the names and the order of the contract, and the readers' shapes read it.

use crate::samples::{at, full_hold, full_item, hold, id, item, label, written};
use stockhold_api::{encode, wire};
use stockhold_domain::{Hold, Instant, Scope, Status};

#[test]
fn a_reservation() {
    assert_eq!(
        written(|out| encode::reservation(out, &hold())),
        concat!(
            r#"{"reservation_id":"018bcfe5-6800-7fff-bfff-ffffffffffff","status":"active","#,
            r#""owner_id":"cart \"7\" \\ é","lines":["#,
            r#"{"sku":"tea","location":"default","quantity":2,"requested_quantity":3,"sequence":8},"#,
            r#"{"sku":"cup","location":"hub/9","quantity":1,"requested_quantity":1,"#,
            r#""sequence":18446744073709551615,"returned_quantity":1}],"quantity":3,"#,
            r#""created_at":"2023-11-14T22:13:20.000Z","expires_at":"2023-11-14T22:23:20.000Z","#,
            r#""max_expires_at":"2023-11-14T22:43:20.000Z","version":1}"#
        )
    );
    let full = written(|out| encode::reservation(out, &full_hold()));
    let tail = concat!(
        r#""max_expires_at":"2023-11-14T22:43:20.000Z","confirmed_at":"2023-11-14T22:13:21.234Z","#,
        r#""closed_at":"2023-11-14T22:13:21.234Z","close_reason":"changed mind","order_id":"o-1","#,
        r#""channel":"web","pool":"vip","customer_id":"c-1","session_id":"s-1","metadata":{"a":[1,2],"b":"x"},"version":1}"#
    );
    assert!(full.ends_with(tail), "{full}");
    let released = Hold { status: Status::Cancelled, ..full_hold() };
    assert!(!written(|out| encode::reservation(out, &released)).contains("confirmed_at"));
}

#[test]
fn an_item_and_its_availability() {
    assert_eq!(
        written(|out| encode::item(out, &item())),
        concat!(
            r#"{"sku":"tea","location":"hub/9","mode":"counted","total_units":100,"confirmed_sold":20,"#,
            r#""fulfilled_units":12,"unfulfilled_units":8,"on_hand":88,"held_units":3,"held_under_payment":0,"#,
            r#""safety_stock":7,"set_aside":0,"oversell_allowance":0,"backordered":0,"available":70,"available_now":70,"#,
            r#""active_reservations":2,"paused":false,"#,
            r#""sequence":41,"version":4,"created_at":"2023-11-14T22:13:20.000Z","#,
            r#""updated_at":"2023-11-14T22:13:20.005Z"}"#
        )
    );
    let full = written(|out| encode::item(out, &full_item()));
    let middle = r#""paused":true,"sequence":41,"version":4,"default_ttl_seconds":30,"max_hold_seconds":90,"max_payment_seconds":600,"sale_starts_at":"2023-11-14T22:14:20.000Z","sale_ends_at":"2023-11-14T22:15:20.000Z","incoming":[{"supply_id":"po-1","quantity":4,"available_from":"2023-11-14T22:14:50.000Z"}],"gated":true,"#;
    assert!(full.contains(middle), "{full}");
    assert!(full.ends_with(r#","metadata":{"colour":"red"}}"#), "{full}");
    assert_eq!(
        written(|out| encode::availability(out, &item(), at(7))),
        concat!(
            r#"{"sku_id":"tea","sku":"tea","location":"hub/9","available":70,"available_now":70,"active_reservations":2,"#,
            r#""held_units":3,"sequence":41,"as_of":"2023-11-14T22:13:20.007Z"}"#
        )
    );
    let paused = encode::SaleState { paused: true, ..encode::SaleState::default() };
    assert_eq!(written(|out| encode::sale(out, &paused)), r#"{"paused":true}"#);
    let full = encode::SaleState {
        also: Some(vec![Scope::Location(label("hub \"9\"")), Scope::Everything]),
        has_items: Some(false),
        ..paused
    };
    let text = written(|out| encode::sale(out, &full));
    assert_eq!(
        text,
        concat!(
            r#"{"paused":true,"also_paused":[{"scope":"location","location":"hub \"9\""},"#,
            r#"{"scope":"everything"}],"has_items":false}"#
        )
    );
    let read: wire::Sale = serde_json::from_str(&text).unwrap();
    let also = read.also_paused.unwrap();
    let named = |n: usize| (also[n].scope.as_str(), also[n].location.as_deref());
    assert_eq!((named(0), named(1)), (("location", Some("hub \"9\"")), ("everything", None)));
    assert_eq!((read.paused, read.has_items), (true, Some(false)));
    assert_eq!(encode::etag(4), "\"4\"");
    assert_eq!(encode::time(Instant::from_micros(999)), "1970-01-01T00:00:00.000Z");
}

#[test]
fn readers_read_what_is_written() {
    for (written_hold, status) in [(hold(), wire::Status::Active), (full_hold(), wire::Status::Confirmed)] {
        let json = written(|out| encode::reservation(out, &written_hold));
        let read: wire::Reservation = serde_json::from_str(&json).unwrap();
        assert_eq!((read.reservation_id, read.status), (id(), status));
        assert_eq!((&*read.owner_id, read.quantity), (written_hold.terms.reserve.owner_id.as_str(), 3));
        assert_eq!(
            (read.created_at, read.expires_at, read.max_expires_at),
            (at(0), at(600_000), at(1_800_000))
        );
        let closed = written_hold.closing.as_ref().map(|closing| closing.at);
        assert_eq!((read.confirmed_at, read.closed_at), (closed, closed));
        assert_eq!(read.order_id.is_some(), closed.is_some());
        assert_eq!(read.metadata.is_some(), closed.is_some());
        let lines: Vec<_> = read
            .lines
            .iter()
            .map(|line| (&*line.sku, &*line.location, line.quantity, line.returned_quantity))
            .collect();
        assert_eq!(lines, [("tea", "default", 2, 0), ("cup", "hub/9", 1, 1)]);
        assert_eq!(read.lines[1].sequence, Some(u64::MAX));
    }
    let read: wire::Item = serde_json::from_str(&written(|out| encode::item(out, &full_item()))).unwrap();
    assert_eq!((&*read.sku, &*read.location, &*read.mode), ("tea", "hub/9", "counted"));
    assert_eq!((read.total_units, read.confirmed_sold, read.held_units, read.available), (100, 20, 3, 73));
    assert_eq!((read.available_now, read.oversell_allowance, read.backordered), (70, 3, 0));
    assert_eq!((read.sale_starts_at, read.sale_ends_at), (Some(at(60_000)), Some(at(120_000))));
    let expected = wire::Supply { supply_id: "po-1".to_owned(), quantity: 4, available_from: at(90_000) };
    assert_eq!(read.incoming, [expected]);
    assert!(read.gated);
    assert_eq!((read.safety_stock, read.active_reservations, read.paused), (7, 2, true));
    assert_eq!((read.sequence, read.version), (Some(41), 4));
    assert_eq!((read.default_ttl_seconds, read.max_hold_seconds), (Some(30), Some(90)));
    assert_eq!((read.created_at, read.updated_at), (at(0), at(5)));
    let json = written(|out| encode::availability(out, &item(), at(7)));
    let read: wire::Availability = serde_json::from_str(&json).unwrap();
    assert_eq!((&*read.sku_id, read.available, read.as_of), ("tea", 70, at(7)));
}
