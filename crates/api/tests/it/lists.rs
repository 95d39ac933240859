//! Pages of lists and events: their queries, their cursors, and how they are written and read.

use crate::samples::{ID, at, full_item, hold, id, item, key, label, refused, written};
use stockhold_api::decode::{EventPageQuery, EventsFrom};
use stockhold_api::encode::{self, List};
use stockhold_api::{EventType, EventTypes, cursor, decode, wire};
use stockhold_domain::{
    Disposition, Event, EventId, Hold, HoldChange, Instant, Line, MovedUnits, Origin, RequestId, Scope,
    Status, StockChange, StockCounters, Trace, Transition,
};
use stockhold_store::{Cursor, EventRow};

#[test]
fn queries_of_reservations() {
    let plain = decode::reservations(None).unwrap();
    assert_eq!((plain.limit, plain.after), (50, None));
    assert!(
        plain.owner_id.is_none() && plain.sku.is_none() && plain.location.is_none() && plain.status.is_none()
    );
    let cursor = cursor::of_place(Cursor(u128::MAX - 7));
    let query =
        format!("owner_id=o+1&sku=a%2Fb&location=hub&status=expired&limit=1000&starting_after={cursor}");
    let full = decode::reservations(Some(&query)).unwrap();
    assert_eq!(
        (full.owner_id, full.sku, full.location),
        (Some(label("o 1")), Some(label("a/b")), Some(label("hub")))
    );
    assert_eq!(
        (full.status, full.limit, full.after),
        (Some(Status::Expired), 1_000, Some(Cursor(u128::MAX - 7)))
    );
    let check = |query: &str, expected: &[(&str, &str)]| refused(decode::reservations(Some(query)), expected);
    check("limit=0", &[("/limit", "must be a whole number from 1 to 1,000, found \"0\"")]);
    check("limit=1001", &[("/limit", "found \"1001\"")]);
    check("limit=%2B1", &[("/limit", "found \"+1\"")]);
    check("limit=", &[("/limit", "found \"\"")]);
    check("limit=1&limit=2", &[("/limit", "is given twice")]);
    let many = decode::reservations(Some(&"limit=1&".repeat(100))).unwrap_err();
    assert_eq!(many.errors.len(), 20);
    check("limit=x&limit=2", &[("/limit", "found \"x\""), ("/limit", "is given twice")]);
    check("status=sold", &[("/status", "must be active, confirmed, cancelled or expired, found \"sold\"")]);
    check(
        "starting_after=7",
        &[("/starting_after", "must be the next_cursor of a page of this list, found \"7\"")],
    );
    check(
        "owner=o",
        &[(
            "/owner",
            "these are: `owner_id`, `sku`, `location`, `status`, `order_id`, `customer_id`, `created_after`, \
             `created_before`, `limit`, `starting_after`",
        )],
    );
    check("owner_id=&sku=%00", &[("/owner_id", "must not be empty"), ("/sku", "control character")]);
}

#[test]
fn queries_of_reservations_by_order_customer_and_time() {
    let found = decode::reservations(Some("order_id=o%2F1&customer_id=c+1")).unwrap();
    assert_eq!((found.order_id, found.customer_id), (Some(label("o/1")), Some(label("c 1"))));
    let second = Instant::from_millis(1_764_000_000_000);
    let times = |query: &str| {
        let found = decode::reservations(Some(query)).unwrap();
        (found.created_after, found.created_before)
    };
    assert_eq!(times("limit=1"), (None, None));
    assert_eq!(times("created_after=2025-11-24T16:00:00Z"), (Some(second), None));
    assert_eq!(times("created_before=2025-11-24T17:00:00%2B01:00"), (None, Some(second)));
    let after = Instant::from_micros(second.micros() + 1);
    assert_eq!(
        times("created_before=2025-11-24T16:00:00.000001Z&created_after=2025-11-24T16:00:00Z"),
        (Some(second), Some(after))
    );
    let check = |query: &str, expected: &[(&str, &str)]| refused(decode::reservations(Some(query)), expected);
    let shape = "must be a time in RFC 3339 like 2026-11-24T09:30:00Z or 2026-11-24T10:30:00.5+01:00, found";
    check("created_after=yesterday", &[("/created_after", shape)]);
    check("created_before=2025-11-24T17:00:00+01:00", &[("/created_before", "in a query, write + as %2B")]);
    for before in ["2025-11-24T16:00:00Z", "2025-11-24T15:59:59.999999Z", "2025-11-24T16:30:00%2B01:00"] {
        let query = format!("created_before={before}&created_after=2025-11-24T16:00:00Z");
        check(&query, &[("/created_before", "must be later than created_after")]);
    }
    check("order_id=&customer_id=%0A", &[("/order_id", "must not be empty"), ("/customer_id", "control")]);
    // Beside other faults.
    check(
        "created_after=2025-11-24T16:00:00Z&created_before=2025-11-24T16:00:00Z&limit=0",
        &[("/limit", "from 1 to 1,000"), ("/created_before", "must be later than created_after")],
    );
}

#[test]
fn types_of_events() {
    let all = decode::events(None).unwrap().types;
    let confirmed = decode::events(Some("type=reservation.confirmed")).unwrap().types;
    let several = decode::events(Some("type=sale.paused,reservation.confirmed,sale.paused")).unwrap().types;
    let event = |change| held(change, hold()).event;
    let paused = row(Transition::Sale { scope: Scope::Everything, paused: true, reason: None }).event;
    for (event, expected) in [
        (event(HoldChange::Created), [true, false, false]),
        (event(HoldChange::Confirmed), [true, true, true]),
        (paused, [true, false, true]),
    ] {
        assert_eq!([all, confirmed, several].map(|types| types.has(&event)), expected, "{event:?}");
    }
    // Every type is known by its name, and has a place of its own in a set.
    for kind in EventType::ALL {
        assert_eq!(EventType::from_name(kind.name()), Some(*kind));
        let mut one = EventTypes::default();
        one.add(*kind);
        assert_eq!(decode::events(Some(&format!("type={}", kind.name()))).unwrap().types, one);
        assert_eq!(decode::stream(Some(&format!("type={}", kind.name())), None).unwrap().types, one);
        let same = EventType::ALL.iter().filter(|other| {
            let mut set = EventTypes::default();
            set.add(**other);
            set == one
        });
        assert_eq!(same.count(), 1, "{kind:?}");
    }
    for (query, found) in [
        ("type=", ""),
        ("type=reservation", "reservation"),
        ("type=sale.paused,", ""),
        ("type=sale.paused,+stock.set", " stock.set"),
        ("type=Sale.Paused", "Sale.Paused"),
    ] {
        let why = format!(
            "units.retired, units.pool_changed, pool.set, pool.deleted, pool.released, sale.paused, sale.resumed, limit.set, limit.deleted, access.key_created, access.key_rolled, access.key_revoked, sink.event_skipped, endpoint.created, endpoint.changed, endpoint.deleted, endpoint.disabled, endpoint.secret_rotated, stock.reconciled; found \"{found}\""
        );
        refused(decode::events(Some(query)), &[("/type", &*why)]);
        refused(decode::stream(Some(query), None), &[("/type", &*why)]);
    }
    refused(decode::events(Some("type=sale.paused&type=stock.set")), &[("/type", "is given twice")]);
}

#[test]
fn the_newest_events() {
    let tail = decode::events(Some("tail=7")).unwrap();
    assert_eq!((tail.from, tail.limit), (EventsFrom::Tail, 7));
    for good in ["tail=1", "tail=1000", "tail=1000&type=stock.set"] {
        assert!(decode::events(Some(good)).is_ok(), "{good}");
    }
    let check = |query: &str, expected: &[(&str, &str)]| refused(decode::events(Some(query)), expected);
    for (tail, found) in [("0", "\"0\""), ("1001", "\"1001\""), ("", "\"\""), ("-1", "\"-1\"")] {
        let why = format!("must be a whole number from 1 to 1,000, found {found}");
        check(&format!("tail={tail}"), &[("/tail", &*why)]);
    }
    check("tail=1&after=0", &[("/tail", "can't be combined with after: leave out one of them")]);
    check("limit=5&tail=1", &[("/tail", "can't be combined with limit")]);
}

#[test]
fn queries_of_items_and_events() {
    let shelf = decode::shelf(Some("")).unwrap();
    assert_eq!((shelf.location, shelf.after, shelf.limit), (None, None, 50));
    let last = key("hub/9 é", "te\"a");
    let shelf =
        decode::shelf(Some(&format!("location=hub&limit=1&starting_after={}", cursor::of_item(&last))))
            .unwrap();
    assert_eq!((shelf.location, shelf.after, shelf.limit), (Some(label("hub")), Some(last), 1));
    refused(decode::shelf(Some("starting_after=00")), &[("/starting_after", "must be the next_cursor")]);
    refused(decode::shelf(Some("sku=a")), &[("/sku", "these are: `location`, `limit`, `starting_after`")]);

    let page =
        |after, limit| EventPageQuery { from: EventsFrom::After(after), limit, types: EventTypes::ALL };
    assert_eq!(decode::events(None), Ok(page(0, 50)));
    assert_eq!(decode::events(Some("limit=7&after=18446744073709551615")), Ok(page(u64::MAX, 7)));
    let position = "must be the position of an event, a whole number like 1042, found";
    for (query, found) in
        [("after=", "\"\""), ("after=-1", "\"-1\""), ("after=18446744073709551616", "\"184467")]
    {
        refused(decode::events(Some(query)), &[("/after", &*format!("{position} {found}"))]);
    }

    let begins = |query, header| decode::stream(query, header).unwrap().after;
    assert_eq!(begins(None, None), None);
    assert_eq!(begins(Some("after=4"), None), Some(4));
    assert_eq!(begins(Some("after=4"), Some(b" 9 ")), Some(9));
    refused(decode::stream(None, Some(b"")), &[("/Last-Event-ID", position)]);
    refused(
        decode::stream(Some("after=x&limit=1"), Some(b"\xff")),
        &[("/Last-Event-ID", position), ("/after", position), ("/limit", "these are: `after`, `type`")],
    );
}

#[test]
fn pages_as_they_are_written_and_read() {
    let page = |entries: usize, has_more: bool, next: Option<&str>| {
        written(|out| {
            let mut list = List::open(out, "data");
            assert!(list.is_empty());
            for _ in 0..entries {
                encode::item(list.entry(out), &item());
            }
            assert_eq!(list.is_empty(), entries == 0);
            list.close_page(out, has_more, next);
        })
    };
    assert_eq!(page(0, false, None), r#"{"data":[],"has_more":false}"#);
    assert_eq!(page(0, true, Some("a\"")), r#"{"data":[],"has_more":true,"next_cursor":"a\""}"#);
    let read: wire::Page<wire::Item> = serde_json::from_str(&page(2, true, Some("x"))).unwrap();
    assert_eq!((read.data.len(), read.has_more, read.next_cursor.as_deref()), (2, true, Some("x")));
}

fn row(transition: Transition) -> EventRow {
    let trace =
        Trace { trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, span_id: 0xf0_67aa_0ba9_02b7, flags: 1 };
    let event = Event {
        id: EventId::from_u128(id().as_u128() - 1),
        at: at(5),
        origin: Origin {
            actor: label("shop"),
            key_id: Some(7),
            request_id: RequestId::Given(label("r \"1\"")),
            trace: Some(trace),
        },
        previous: Some(EventId::from_u128(id().as_u128() - 2)),
        transition,
    };
    EventRow { position: 1_042, event }
}

fn figures(sequence: u64) -> StockCounters {
    StockCounters {
        total_units: 10,
        confirmed_sold: 4,
        fulfilled: 2,
        held: 3,
        held_under_payment: 1,
        active: 2,
        sequence,
        at: at(5),
    }
}

fn held(change: HoldChange, hold: Hold) -> EventRow {
    row(Transition::Hold { limits: None, change, hold, figures: [figures(8), figures(9)].into() })
}

const HEAD: &str = r#"{"id":"018bcfe5-6800-7fff-bfff-fffffffffffe","position":1042,"type":"#;
const TAIL: &str = concat!(
    r#","previous_event_id":"018bcfe5-6800-7fff-bfff-fffffffffffd","actor":"shop","#,
    r#""actor_key_id":"key_00000000000000000000000000000007","request_id":"r \"1\"","#,
    r#""traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}"#
);

#[test]
fn events_of_reservations() {
    let json = written(|out| encode::event(out, &held(HoldChange::Extended, hold())));
    let expected = [
        HEAD,
        r#""reservation.extended","time":"2023-11-14T22:13:20.005Z","#,
        &format!(
            r#""reservation_id":"{ID}","owner_id":"cart \"7\" \\ é","status":"active","quantity":3,"lines":["#
        ),
        r#"{"sku":"tea","location":"default","quantity":2,"requested_quantity":3,"sequence":8,"total_units":10,"#,
        r#""confirmed_sold":4,"fulfilled_units":2,"held_units":3,"held_under_payment":1,"active_reservations":2},"#,
        r#"{"sku":"cup","location":"hub/9","quantity":1,"requested_quantity":1,"returned_quantity":1,"sequence":9,"#,
        r#""total_units":10,"confirmed_sold":4,"fulfilled_units":2,"held_units":3,"held_under_payment":1,"#,
        r#""active_reservations":2}],"#,
        r#""expires_at":"2023-11-14T22:23:20.000Z","version":1"#,
        TAIL,
    ];
    assert_eq!(json, expected.concat());
    let read: wire::Event = serde_json::from_str(&json).unwrap();
    assert_eq!((read.position, &*read.kind, read.time), (1_042, "reservation.extended", at(5)));
    assert_eq!(
        (read.reservation_id, read.status, read.quantity),
        (Some(id()), Some(wire::Status::Active), Some(3))
    );
    assert_eq!((read.lines[1].returned_quantity, read.lines[1].sequence), (1, Some(9)));
    assert_eq!(read.previous_event_id, Some(EventId::from_u128(id().as_u128() - 2)));
    assert_eq!((&*read.actor, &*read.request_id), ("shop", "r \"1\""));

    let full = crate::samples::full_hold();
    let returned = HoldChange::Returned {
        lines: [MovedUnits::default(), MovedUnits { quantity: 1, places: Box::default() }].into(),
        fulfilled: [0, 1].into(),
        disposition: Disposition::WriteOff,
        reason: label("broken"),
    };
    for (change, hold, kind, own) in [
        (
            HoldChange::Created,
            full.clone(),
            "created",
            concat!(
                r#","max_expires_at":"2023-11-14T22:43:20.000Z","channel":"web","pool":"vip","customer_id":"c-1","session_id":"s-1","#,
                r#""metadata":{"a":[1,2],"b":"x"}"#
            ),
        ),
        (HoldChange::Confirmed, full.clone(), "confirmed", r#","order_id":"o-1""#),
        (
            HoldChange::Cancelled,
            Hold { status: Status::Cancelled, ..full.clone() },
            "cancelled",
            r#","reason":"changed mind""#,
        ),
        (HoldChange::Expired, Hold { status: Status::Expired, closing: None, ..full.clone() }, "expired", ""),
        (
            returned,
            full,
            "returned",
            r#","returned":[{"sku":"cup","location":"hub/9","quantity":1,"fulfilled_quantity":1}],"disposition":"write_off","reason":"broken""#,
        ),
    ] {
        let json = written(|out| encode::event(out, &held(change, hold)));
        assert!(json.starts_with(&format!("{HEAD}\"reservation.{kind}\"")), "{json}");
        let expires = r#""expires_at":"2023-11-14T22:23:20.000Z","version":1"#;
        assert!(json.ends_with(&format!("{expires}{own}{TAIL}")), "{json}");
        serde_json::from_str::<wire::Event>(&json).unwrap();
    }
    // A hold of one line has one line's figures.
    let one = Hold { lines: [Line { ..hold().lines[0].clone() }].into(), ..hold() };
    let event = row(Transition::Hold {
        limits: None,
        change: HoldChange::Expired,
        hold: one,
        figures: [figures(8)].into(),
    });
    let read: wire::Event = serde_json::from_str(&written(|out| encode::event(out, &event))).unwrap();
    assert_eq!(read.lines.len(), 1);
}

#[test]
fn events_of_stock_and_sales() {
    let set = row(Transition::Stock { change: StockChange::Set, item: full_item() });
    let json = written(|out| encode::event(out, &set));
    let whole = written(|out| encode::item(out, &full_item()));
    let expected = [
        HEAD,
        r#""stock.set","time":"2023-11-14T22:13:20.005Z","lines":[{"sku":"tea","location":"hub/9","sequence":41,"#,
        r#""total_units":100,"confirmed_sold":20,"fulfilled_units":12,"held_units":3,"held_under_payment":0,"active_reservations":2}],"item":"#,
        &whole,
        TAIL,
    ];
    assert_eq!(json, expected.concat());
    let change = StockChange::Adjusted { delta: -4, reason: label("broken"), supply_id: None };
    let adjusted = row(Transition::Stock { change, item: full_item() });
    let read: wire::Event = serde_json::from_str(&written(|out| encode::event(out, &adjusted))).unwrap();
    assert_eq!(
        (&*read.kind, read.delta, read.reason.as_deref()),
        ("stock.adjusted", Some(-4), Some("broken"))
    );
    assert_eq!(read.item.unwrap().version, 4);

    for (scope, paused, reason, own) in [
        (Scope::Everything, true, None, r#""scope":"everything""#),
        (
            Scope::Location(label("hub")),
            false,
            Some(label("r")),
            r#""scope":"location","location":"hub","reason":"r""#,
        ),
        (Scope::Item(key("hub", "tea")), true, None, r#""scope":"item","sku":"tea","location":"hub""#),
    ] {
        let json = written(|out| encode::event(out, &row(Transition::Sale { scope, paused, reason })));
        let kind = if paused { "sale.paused" } else { "sale.resumed" };
        assert_eq!(json, format!(r#"{HEAD}"{kind}","time":"2023-11-14T22:13:20.005Z",{own}{TAIL}"#));
        assert!(serde_json::from_str::<wire::Event>(&json).unwrap().lines.is_empty());
    }

    let mut bare = row(Transition::Sale { scope: Scope::Everything, paused: true, reason: None });
    bare.event.previous = None;
    bare.event.at = Instant::from_millis(0);
    bare.event.origin = Origin {
        actor: label("stockhold"),
        key_id: None,
        request_id: RequestId::Made(id().as_u128()),
        trace: None,
    };
    let json = written(|out| encode::event(out, &bare));
    let end = format!(r#""scope":"everything","actor":"stockhold","request_id":"{ID}"}}"#);
    assert!(json.ends_with(&end), "{json}");
}
