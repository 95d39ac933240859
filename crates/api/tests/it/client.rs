//! The client against a server that gives prepared answers and remembers the requests.

use crate::samples::{ID, full_hold, hold, id, item, label, written};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use stockhold_api::client::{At, Client, Error, Listed, TRIES, UnitsListed};
use stockhold_api::encode::List;
use stockhold_api::wire::{Command, Patch, RequestedLine, ReturnedUnits, Stock, Stocked, Terms};
use stockhold_api::{EventType, encode, wire};
use stockhold_domain::{
    Event, EventId, Instant, Origin, Place, RequestId, Scope, Status, Transition, Unit, UnitIndex, UnitStatus,
};
use stockhold_store::{EventRow, SeatMap};

/// What the server does with one request.
#[derive(Clone)]
pub(super) enum Act {
    Answer(u16, &'static str, String),
    /// Closes the connection without a word.
    HangUp,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Asked {
    pub(super) line: String,
    pub(super) key: Option<String>,
    pub(super) if_match: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) body: String,
}

pub(super) struct Server {
    pub(super) base: String,
    pub(super) asked: Arc<Mutex<Vec<Asked>>>,
}

/// The last act is repeated for ever.
pub(super) fn server(acts: Vec<Act>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (seen, acts) = (Arc::clone(&seen), acts.clone());
            thread::spawn(move || serve(stream.unwrap(), &seen, &acts));
        }
    });
    Server { base, asked }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Asked>>, acts: &[Act]) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(asked) = read(&mut reader) {
        let turn = {
            let mut seen = seen.lock().unwrap();
            seen.push(asked);
            seen.len() - 1
        };
        match acts.get(turn).or(acts.last()).unwrap() {
            Act::HangUp => return,
            Act::Answer(status, headers, body) => {
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            }
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut asked = Asked::default();
    let mut length = 0;
    reader.read_line(&mut asked.line).ok().filter(|read| *read > 0)?;
    asked.line = asked.line.trim_end().to_owned();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, text)) = line.trim_end().split_once(": ") else { break };
        let value = Some(text.to_owned());
        match name.to_ascii_lowercase().as_str() {
            "idempotency-key" => asked.key = value,
            "if-match" => asked.if_match = value,
            "content-type" => asked.content_type = value,
            "content-length" => length = text.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    asked.body = String::from_utf8(body).unwrap();
    Some(asked)
}

pub(super) fn answer(status: u16, put: impl FnOnce(&mut Vec<u8>)) -> Act {
    Act::Answer(status, "", written(put))
}

pub(super) fn refusal(status: u16, headers: &'static str, reason: &str) -> Act {
    let body = format!(
        r#"{{"type":"/problems/{reason}","title":"t","status":{status},"detail":"d","reason":"{reason}","retryable":true,"request_id":"r"}}"#
    );
    Act::Answer(status, headers, body)
}

const TEA: At<'static> = At { sku: "tea / é", location: Some("hub 9") };

fn terms() -> Terms {
    Terms { owner_id: "cart".to_owned(), ..Terms::default() }
}

#[tokio::test]
async fn requests_go_out_as_the_routes_want_them() {
    let reservation = || answer(200, |out| encode::reservation(out, &hold()));
    let one_item = || answer(200, |out| encode::item(out, &item()));
    let server = server(vec![
        one_item(),
        one_item(),
        one_item(),
        answer(200, |out| encode::availability(out, &item(), item().created_at)),
        reservation(),
        answer(201, |out| encode::reservation(out, &hold())),
        answer(200, |out| encode::reservation(out, &full_hold())),
        reservation(),
        reservation(),
        reservation(),
        answer(204, |_| {}),
        answer(200, |out| {
            encode::sale(out, &encode::SaleState { paused: true, ..encode::SaleState::default() });
        }),
        answer(200, |out| encode::sale(out, &encode::SaleState::default())),
        answer(200, |out| encode::sale(out, &encode::SaleState::default())),
        Act::Answer(418, "X-Odd: yes\r\n", "odd".to_owned()),
    ]);
    let client = Client::new(&server.base).unwrap();
    let stock =
        Stock { total_units: Some(9), safety_stock: Some(1), metadata: Patch::Clear, ..Stock::default() };
    assert_eq!(client.put_stock(TEA, &stock, Some(3)).await.unwrap().total_units, 100);
    client.adjust(TEA, -4, "shrinkage", Some("k1")).await.unwrap();
    client.item(At { sku: "tea", location: None }).await.unwrap();
    assert_eq!(client.available(TEA).await.unwrap().available, 70);
    let partial = Terms { partial: true, ttl_seconds: Some(60), ..terms() };
    let made = client.reserve(TEA, 2, &partial, Some("a\"b\\c")).await.unwrap();
    assert_eq!((made.reservation_id, made.status), (id(), wire::Status::Active));
    let want = RequestedLine { sku: "tea".to_owned(), location: None, quantity: 2 };
    client.reserve_basket(std::slice::from_ref(&want), &terms(), Some("k2")).await.unwrap();
    let sold = client.confirm(id(), Some("o-1"), Some("k3")).await.unwrap();
    assert_eq!(sold.status, wire::Status::Confirmed);
    client.extend(id(), 60, Some("k4")).await.unwrap();
    let broken =
        ReturnedUnits { lines: Some(vec![want]), reason: "broken".to_owned(), ..ReturnedUnits::default() };
    client.return_units(id(), &broken, Some("k5")).await.unwrap();
    client.reservation(id()).await.unwrap();
    client.release(id(), Some("changed mind")).await.unwrap();
    assert!(client.set_item_sale(TEA, true).await.unwrap().paused);
    assert!(!client.set_sale(Some("hub 9"), false).await.unwrap().paused);
    assert!(!client.sale(None).await.unwrap().paused);
    let raw = client.send_raw("PATCH", "/x?y=1", b"?").await.unwrap();
    assert_eq!(
        (raw.status, &raw.body[..], raw.headers["x-odd"].to_str().unwrap()),
        (418, &b"odd"[..], "yes")
    );

    let asked = server.asked.lock().unwrap();
    let tea = "/v1/inventory/tea%20%2F%20%C3%A9";
    let expected = [
        (
            format!("PUT {tea}?location=hub%209"),
            None,
            r#"{"total_units":9,"safety_stock":1,"metadata":null}"#,
        ),
        (
            format!("POST {tea}/adjust?location=hub%209"),
            Some("\"k1\""),
            r#"{"delta":-4,"reason":"shrinkage"}"#,
        ),
        ("GET /v1/inventory/tea".to_owned(), None, ""),
        (format!("GET {tea}/available?location=hub%209"), None, ""),
        (
            format!("POST {tea}/reserve?location=hub%209"),
            Some(r#""a\"b\\c""#),
            r#"{"quantity":2,"owner_id":"cart","ttl_seconds":60,"fulfilment":"partial"}"#,
        ),
        (
            "POST /v1/reservations".to_owned(),
            Some("\"k2\""),
            r#"{"lines":[{"sku":"tea","quantity":2}],"owner_id":"cart"}"#,
        ),
        (format!("POST /v1/reservations/{ID}/confirm"), Some("\"k3\""), r#"{"order_id":"o-1"}"#),
        (format!("POST /v1/reservations/{ID}/extend"), Some("\"k4\""), r#"{"ttl_seconds":60}"#),
        (
            format!("POST /v1/reservations/{ID}/return"),
            Some("\"k5\""),
            r#"{"lines":[{"sku":"tea","quantity":2}],"reason":"broken"}"#,
        ),
        (format!("GET /v1/reservations/{ID}"), None, ""),
        (format!("DELETE /v1/reservations/{ID}?reason=changed%20mind"), None, ""),
        (format!("POST {tea}/pause?location=hub%209"), None, ""),
        ("POST /v1/sale/resume?location=hub%209".to_owned(), None, ""),
        ("GET /v1/sale".to_owned(), None, ""),
        ("PATCH /x?y=1".to_owned(), None, "?"),
    ];
    assert_eq!(asked.len(), expected.len());
    for (asked, (line, key, body)) in asked.iter().zip(expected) {
        assert_eq!(asked.line, format!("{line} HTTP/1.1"));
        assert_eq!((asked.key.as_deref(), &*asked.body), (key, body));
        assert_eq!(asked.content_type.is_some(), !body.is_empty(), "{asked:?}");
    }
    assert_eq!(asked[0].if_match.as_deref(), Some("\"3\""));
}

#[tokio::test]
async fn units_go_out_as_the_routes_want_them() {
    let unit = Unit {
        id: label("A 1"),
        place: Place { position: 4, row: Some(label("A")), ..Place::default() },
        status: UnitStatus::Held(id()),
        version: 3,
        pool: None,
    };
    let alone = answer(200, |out| encode::unit(out, &unit, true));
    let history = answer(200, |out| List::open(out, "data").close(out));
    let page = answer(200, |out| {
        let mut list = List::open(out, "data");
        encode::unit(list.entry(out), &unit, true);
        list.close_page(out, true, Some("c0"));
    });
    let mut unit_index = UnitIndex::default();
    unit_index.add(vec![unit]);
    let server = server(vec![
        answer(200, |out| encode::added(out, &item(), 1, 2)),
        page,
        answer(200, |out| encode::seat_map(out, &SeatMap::of(&item(), &unit_index, false))),
        answer(201, |out| encode::reservation(out, &hold())),
        answer(200, |out| encode::reservation(out, &full_hold())),
        answer(204, |_| {}),
        alone,
        history,
    ]);
    let client = Client::new(&server.base).unwrap();
    let aisle = serde_json::Map::from_iter([("aisle".to_owned(), true.into())]);
    let posted = wire::PostedUnit {
        unit_id: "A 1".to_owned(),
        position: Some(4),
        attributes: aisle.clone(),
        ..wire::PostedUnit::default()
    };
    let added = client.add_units(TEA, &[posted, wire::PostedUnit::default()]).await.unwrap();
    assert_eq!((added.added, added.unchanged, added.total_units), (1, 2, 100));
    let listed = UnitsListed { status: Some("held"), section: Some("left wing") };
    let found = client.units(TEA, listed, Some(2), Some("c/1")).await.unwrap().data.remove(0);
    assert_eq!((found.status, found.reservation_id, found.version), (wire::Stands::Held, Some(id()), 3));
    assert_eq!((&*found.unit_id, found.row.as_deref(), found.position), ("A 1", Some("A"), 4));
    assert_eq!(client.seat_map(TEA, false).await.unwrap().stands(), [wire::Stands::Held]);
    let wish = wire::Wish {
        quantity: Some(2),
        adjacent: true,
        sections: vec!["left wing".to_owned()],
        min_together: Some(2),
        attributes: aisle,
        ..wire::Wish::default()
    };
    client.reserve_units(TEA, &wish, &terms(), Some("k1")).await.unwrap();
    let ill = ReturnedUnits {
        units: Some(vec!["A 1".to_owned()]),
        reason: "ill".to_owned(),
        ..ReturnedUnits::default()
    };
    client.return_units(id(), &ill, Some("k2")).await.unwrap();
    client.retire_unit(TEA, "A 1").await.unwrap();
    let one = client.unit(TEA, "A 1").await.unwrap();
    assert_eq!((one.status, one.reservation_id, &*one.unit_id), (wire::Stands::Held, Some(id()), "A 1"));
    assert!(client.unit_history(TEA, "A/1").await.unwrap().is_empty());

    let tea = "/v1/inventory/tea%20%2F%20%C3%A9";
    let hub = "location=hub%209";
    let asked = server.asked.lock().unwrap();
    let asked: Vec<_> = asked.iter().map(|one| (&*one.line, one.key.as_deref(), &*one.body)).collect();
    let line = |text: String| text + " HTTP/1.1";
    let lines = [
        line(format!("POST {tea}/units?{hub}")),
        line(format!("GET {tea}/units?{hub}&status=held&section=left%20wing&limit=2&starting_after=c%2F1")),
        line(format!("GET {tea}/seat-map?{hub}&layout=false")),
        line(format!("POST {tea}/reserve?{hub}")),
        line(format!("POST /v1/reservations/{ID}/return")),
        line(format!("DELETE {tea}/units/A%201?{hub}")),
        line(format!("GET {tea}/units/A%201?{hub}")),
        line(format!("GET {tea}/units/A%2F1/events?{hub}")),
    ];
    let bodies = [
        r#"{"units":[{"unit_id":"A 1","position":4,"attributes":{"aisle":true}},{"unit_id":""}]}"#,
        "",
        "",
        r#"{"quantity":2,"adjacent":true,"sections":["left wing"],"min_together":2,"attributes":{"aisle":true},"owner_id":"cart"}"#,
        r#"{"units":["A 1"],"reason":"ill"}"#,
        "",
        "",
        "",
    ];
    let keys = [None, None, None, Some("\"k1\""), Some("\"k2\""), None, None, None];
    let expected: Vec<_> =
        lines.iter().zip(keys).zip(bodies).map(|((line, key), body)| (&**line, key, body)).collect();
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn many_at_once_go_out_as_the_routes_want_them() {
    let page = |put: fn(&mut Vec<u8>)| {
        answer(200, |out| {
            let mut list = List::open(out, "data");
            put(list.entry(out));
            list.close_page(out, true, Some("c0"));
        })
    };
    let sale = EventRow {
        position: 7,
        event: Event {
            id: EventId::from_u128(1),
            at: item().created_at,
            origin: Origin {
                actor: label("shop"),
                key_id: None,
                request_id: RequestId::Made(1),
                trace: None,
            },
            previous: None,
            transition: Transition::Sale { scope: Scope::Everything, paused: true, reason: None },
        },
    };
    let events = answer(200, |out| {
        let mut list = List::open(out, "data");
        encode::event(list.entry(out), &sale);
        list.close_page(out, false, Some("7"));
    });
    let stocked = answer(200, |out| {
        let mut list = List::open(out, "items");
        encode::availability(list.entry(out), &item(), item().created_at);
        encode::unknown_item(list.entry(out), &item().key);
        list.close(out);
    });
    let results = answer(200, |out| {
        let mut list = List::open(out, "results");
        encode::result_reservation(list.entry(out), 201, false, &hold(), None);
        encode::result_nothing(list.entry(out), 204, true);
        list.close(out);
    });
    let server = server(vec![
        page(|out| encode::reservation(out, &hold())),
        page(|out| encode::item(out, &item())),
        events.clone(),
        events,
        stocked,
        refusal(503, "Retry-After: 0\r\n", "overloaded"),
        results,
    ]);
    let client = Client::new(&server.base).unwrap();
    let listed = Listed {
        owner_id: Some("a b"),
        status: Some(Status::Active),
        order_id: Some("o/1"),
        customer_id: Some("c"),
        created_after: Some(Instant::from_micros(1_764_000_000_000_001)),
        ..Listed::default()
    };
    let found = client.reservations(listed, Some(2), Some("c/1")).await.unwrap();
    assert_eq!(
        (found.data[0].reservation_id, found.has_more, found.next_cursor.as_deref()),
        (id(), true, Some("c0"))
    );
    assert_eq!(client.items(None, None, None).await.unwrap().data[0].total_units, 100);
    assert_eq!(client.history(id()).await.unwrap()[0].position, 7);
    let found = client.events(6, Some(1), &[EventType::SalePaused, EventType::StockSet]).await.unwrap();
    assert_eq!((&*found.data[0].kind, found.next_cursor.as_deref()), ("sale.paused", Some("7")));
    let found = client.availability(&[TEA, At { sku: "x", location: None }]).await.unwrap();
    assert!(matches!(&found[..], [Stocked::Known(known), Stocked::Unknown { .. }] if known.available == 70));
    let want = RequestedLine { sku: "tea".to_owned(), location: None, quantity: 1 };
    let reserve =
        Command::Reserve { lines: vec![want], terms: terms(), idempotency_key: Some("k".to_owned()) };
    let release = Command::Release { reservation_id: id(), reason: None, idempotency_key: None };
    let found = client.commands(vec![reserve, release]).await.unwrap();
    assert_eq!((found[0].status, found[1].status, found[1].replayed), (201, 204, true));

    let asked = server.asked.lock().unwrap();
    let lines = [
        "GET /v1/reservations?owner_id=a%20b&status=active&order_id=o%2F1&customer_id=c\
         &created_after=2025-11-24T16%3A00%3A00.000001Z&limit=2&starting_after=c%2F1",
        "GET /v1/inventory",
        &format!("GET /v1/reservations/{ID}/events"),
        "GET /v1/events?after=6&limit=1&type=sale.paused%2Cstock.set",
        "POST /v1/availability",
        "POST /v1/commands",
        "POST /v1/commands",
    ];
    assert_eq!(asked.len(), lines.len());
    for (asked, line) in asked.iter().zip(lines) {
        assert_eq!((asked.line.as_str(), asked.key.as_deref()), (&*format!("{line} HTTP/1.1"), None));
    }
    let names = r#"{"items":[{"sku":"tea / é","location":"hub 9"},{"sku":"x"}]}"#;
    assert_eq!(asked[4].body, names);
    // The same keys on every try, the caller's where there is one.
    assert_eq!(asked[5].body, asked[6].body);
    let sent: serde_json::Value = serde_json::from_str(&asked[6].body).unwrap();
    assert_eq!(sent["commands"][0]["idempotency_key"], "k");
    assert_eq!(sent["commands"][1]["idempotency_key"].as_str().unwrap().len(), 32);
}

#[tokio::test]
async fn what_got_no_answer_or_503_is_repeated_with_the_same_key() {
    let server = server(vec![
        refusal(503, "Retry-After: 0\r\n", "overloaded"),
        Act::HangUp,
        refusal(503, "", "outcome_unknown"),
        answer(200, |out| encode::reservation(out, &hold())),
    ]);
    let client = Client::new(&server.base).unwrap();
    assert_eq!(client.reserve(TEA, 1, &terms(), None).await.unwrap().reservation_id, id());
    {
        let asked = server.asked.lock().unwrap();
        assert_eq!(asked.len(), 4);
        assert!(asked.iter().all(|one| *one == asked[0]), "{asked:?}");
        assert!(asked[0].key.as_ref().is_some_and(|key| key.len() == 32), "{asked:?}");
    }
    client.reserve(TEA, 1, &terms(), None).await.unwrap();
    let asked = server.asked.lock().unwrap();
    assert_ne!(asked[4].key, asked[0].key);
}

#[tokio::test]
async fn refusals_are_not_repeated() {
    let server = server(vec![refusal(409, "", "insufficient_inventory"), refusal(500, "", "internal")]);
    let client = Client::new(&server.base).unwrap();
    for reason in ["insufficient_inventory", "internal"] {
        match client.reserve(TEA, 1, &terms(), None).await {
            Err(Error::Refused(problem)) => assert_eq!(problem.reason, reason),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(server.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn tries_end() {
    let patience = NonZeroU32::new(3).unwrap();
    assert!(patience < TRIES);
    let busy = server(vec![refusal(503, "Retry-After: 0\r\n", "overloaded")]);
    let client = Client::new(&busy.base).unwrap().with_patience(patience, Duration::from_mins(1));
    match client.reservation(id()).await {
        Err(Error::Refused(problem)) => assert_eq!(problem.reason, "overloaded"),
        other => panic!("{other:?}"),
    }
    assert_eq!(busy.asked.lock().unwrap().len(), 3);

    let silent = server(vec![Act::HangUp]);
    let client = Client::new(&silent.base).unwrap().with_patience(patience, Duration::from_mins(1));
    match client.reservation(id()).await {
        Err(Error::Unreachable { tries, .. }) => assert_eq!(tries, 3),
        other => panic!("{other:?}"),
    }
    // Its own success and another's change would look the same to a second try.
    let stock = Stock::default();
    let before = silent.asked.lock().unwrap().len();
    assert!(matches!(client.put_stock(TEA, &stock, Some(1)).await, Err(Error::Unreachable { tries: 1, .. })));
    assert_eq!(silent.asked.lock().unwrap().len(), before + 1);

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client =
        Client::new(&format!("http://{closed}")).unwrap().with_patience(patience, Duration::from_mins(1));
    assert!(matches!(client.item(TEA).await, Err(Error::Unreachable { tries: 3, .. })));
}

#[tokio::test]
async fn strangers_are_told_apart() {
    let stranger =
        server(vec![Act::Answer(200, "", "<html>".to_owned()), Act::Answer(502, "", String::new())]);
    let client = Client::new(&stranger.base).unwrap();
    for expected in [200, 502] {
        match client.item(TEA).await {
            Err(Error::Unexpected { status, .. }) => assert_eq!(status, expected),
            other => panic!("{other:?}"),
        }
    }
    for bad in ["", "127.0.0.1:8101", "ftp://x", "http://", "/v1"] {
        assert!(matches!(Client::new(bad), Err(Error::Unsendable(_))), "{bad}");
    }
    let key = client.reserve(TEA, 1, &terms(), Some("a\nb")).await;
    assert!(matches!(key, Err(Error::Unsendable(_))), "{key:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_one_client() {
    let server = server(vec![answer(200, |out| encode::reservation(out, &hold()))]);
    let client = Client::new(&server.base).unwrap();
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..4 {
                    client.reserve(TEA, 1, &terms(), None).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut keys: Vec<_> = server.asked.lock().unwrap().iter().map(|asked| asked.key.clone()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 256);
}
