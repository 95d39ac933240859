//! Pools: their requests, how they are shown, and the client's calls.

use crate::client::{Act, answer, server};
use crate::samples::{at, full_hold, hold, item, key, label, refused, written};
use std::sync::Arc;
use stockhold_api::client::{At, Client};
use stockhold_api::wire::{EventPool, LinePool, PoolSettings, Terms};
use stockhold_api::{EventType, decode, encode, wire};
use stockhold_domain::{
    Event, EventId, Hold, HoldChange, HoldDetails, Item, Line, LineDetails, Origin, Pool, PoolDraw,
    PoolSelection, PoolTerms, PooledUnit, Pools, Precondition, RequestId, Seconds, StockChange,
    StockCounters, Transition,
};
use stockhold_store::EventRow;

fn pool(name: &str) -> Pool {
    Pool {
        name: label(name),
        terms: PoolTerms {
            allocated: 9,
            fallback: false,
            releases_at: Some(at(60_000)),
            idle_release: Seconds::new(90).ok(),
        },
        held: 2,
        sold: 3,
        used_at: at(0),
        released_at: None,
    }
}

fn with_pools() -> Item {
    let ended = Pool { held: 1, sold: 0, ..pool("b") }.released(at(7));
    let former = Pool { held: 0, sold: 0, ..pool("c") }.released(at(8));
    Item { pools: Pools::new(vec![former, ended, pool("a")]), ..item() }
}

const A: &str = r#"{"pool":"a","allocated":9,"held":2,"sold":3,"free":4,"fallback":false,"releases_at":"2023-11-14T22:14:20.000Z","idle_release_seconds":90}"#;
const B: &str = r#"{"pool":"b","allocated":1,"held":1,"sold":0,"free":0,"fallback":false,"releases_at":"2023-11-14T22:14:20.000Z","idle_release_seconds":90,"released_at":"2023-11-14T22:13:20.007Z"}"#;

#[test]
fn a_request_says_all_of_a_pool() {
    let set =
        decode::set_pool("a%2Fb", "vip%20x", Some("location=hub"), Some(b"\"7\""), br#"{"allocated":0}"#)
            .unwrap();
    assert_eq!((set.item.clone(), set.pool.clone()), (key("hub", "a/b"), label("vip x")));
    assert_eq!(set.expected, Some(Precondition::version(7)));
    let least = PoolTerms { allocated: 0, fallback: true, releases_at: None, idle_release: None };
    assert_eq!((set.allocated, set.terms(0)), (Some(0), least));
    let body = br#"{"allocated":9,"fallback":false,"releases_at":"2023-11-14T23:14:20+01:00","idle_release_seconds":90}"#;
    let set = decode::set_pool("tea", "a", None, None, body).unwrap();
    assert_eq!((set.allocated, set.terms(9)), (Some(9), pool("a").terms));
    let delete = decode::delete_pool("tea", "a", None, None).unwrap();
    assert_eq!((delete.item, delete.pool, delete.expected), (key("default", "tea"), label("a"), None));
    refused(
        decode::set_pool("", "", Some("pool=x"), Some(b"7"), br#"{"released_at":1}"#),
        &[
            ("/sku", "must not be empty"),
            ("/pool", "is not a query parameter"),
            ("/pool", "must not be empty"),
            ("/If-Match", "must be an ETag"),
            ("/released_at", "is not a field"),
        ],
    );
}

#[test]
fn an_item_shows_current_pools_and_what_they_set_aside() {
    assert_eq!(written(|out| encode::pools(out, &with_pools())), format!(r#"{{"data":[{A},{B}]}}"#));
    let shown: wire::Item = serde_json::from_str(&written(|out| encode::item(out, &with_pools()))).unwrap();
    assert_eq!((shown.set_aside, shown.available, shown.backordered), (4, 66, 0));
    let few = Item { figures: StockCounters { total_units: 25, ..item().figures }, ..with_pools() };
    let shown: wire::Item = serde_json::from_str(&written(|out| encode::item(out, &few))).unwrap();
    assert_eq!(shown.backordered, 2, "23 held and sold, and 4 set aside");
}

/// A reservation whose first line has units of these pools.
fn drawn(hold: &Hold, draws: &[(&str, u32)]) -> Hold {
    let draws = draws.iter().map(|(name, units)| PoolDraw { pool: label(name), units: *units }).collect();
    let mut lines: Vec<Line> = hold.lines.to_vec();
    lines[0].details = Some(Box::new(LineDetails { draws, ..LineDetails::default() }));
    Hold { lines: lines.into(), ..hold.clone() }
}

#[test]
fn a_line_names_pools_that_the_reservation_does_not_name() {
    let shown = |hold: &Hold| -> (u64, Vec<LinePool>) {
        let json = written(|out| encode::reservation(out, hold));
        let mut read: wire::Reservation = serde_json::from_str(&json).unwrap();
        let line = read.lines.swap_remove(0);
        (line.pool_quantity, line.pools)
    };
    let of = |pool: &str, quantity: u64| LinePool { pool: pool.to_owned(), quantity };
    // This one names the pool "vip", and the other none.
    assert_eq!(shown(&full_hold()), (0, vec![]));
    assert_eq!(shown(&drawn(&full_hold(), &[("vip", 2)])), (2, vec![]));
    assert_eq!(shown(&drawn(&full_hold(), &[("box", 1), ("vip", 1)])), (2, vec![of("box", 1), of("vip", 1)]));
    assert_eq!(shown(&drawn(&hold(), &[("vip", 1)])), (1, vec![of("vip", 1)]));
}

#[test]
fn a_request_names_units_or_sections() {
    let set = decode::put_into_pool("tea", "a", None, Some(b"\"7\""), br#"{"units":["x","y"]}"#).unwrap();
    assert_eq!((set.item, set.pool, set.puts_in), (key("default", "tea"), label("a"), true));
    assert_eq!(set.expected, Some(Precondition::version(7)));
    assert_eq!(set.units, PoolSelection::Units(vec![label("x"), label("y")]));
    let set = decode::take_out_of_pool("tea", "a", None, None, br#"{"sections":["s"]}"#).unwrap();
    assert_eq!((set.puts_in, set.units), (false, PoolSelection::Sections(vec![label("s")])));
    for (body, pointer, detail) in [
        (&b"{}"[..], "/units", "is missing"),
        (br#"{"units":["x"],"sections":["s"]}"#, "/sections", "must be left out"),
        (br#"{"units":[]}"#, "/units", "must have 1 to 10,000"),
        (br#"{"sections":["s","t","s"]}"#, "/sections/2", "must not occur twice"),
    ] {
        refused(decode::put_into_pool("tea", "a", None, None, body), &[(pointer, detail)]);
    }
}

#[test]
fn an_event_names_the_units_that_change_their_pool() {
    let units = [PooledUnit { id: label("x"), version: 2 }];
    for (pool, member) in [(Some(label("a")), r#""to_pool":"a","#), (None, "")] {
        let change = StockChange::UnitsPooled { pool, units: units.clone().into() };
        let row = event(Transition::Stock { change, item: with_pools() });
        let json = written(|out| encode::event(out, &row));
        assert!(json.contains(&format!(r#"{member}"unit_ids":["x"]"#)), "{json}");
        assert!(json.contains("units.pool_changed"), "{json}");
    }
}

fn event(transition: Transition) -> EventRow {
    let origin = Origin { actor: label("a"), key_id: None, request_id: RequestId::Made(1), trace: None };
    let event = Event { id: EventId::from_u128(1), at: at(5), origin, previous: None, transition };
    EventRow { position: 1, event }
}

#[test]
fn events_have_the_pool_and_the_draws() {
    let of = |change| event(Transition::Stock { change, item: with_pools() });
    for (change, kind, pool) in [
        (StockChange::PoolSet { pool: label("a") }, EventType::PoolSet, A),
        (StockChange::PoolReleased { pool: label("b") }, EventType::PoolReleased, B),
        (StockChange::PoolDeleted { pool: label("b") }, EventType::PoolDeleted, B),
    ] {
        let json = written(|out| encode::event(out, &of(change)));
        let whole = written(|out| encode::item(out, &with_pools()));
        assert!(json.contains(&format!(r#""pool":{pool},"item":{whole}"#)), "{json}");
        let read: wire::Event = serde_json::from_str(&json).unwrap();
        assert_eq!(read.kind, kind.name());
        assert!(matches!(read.pool, Some(EventPool::Shown(_))), "{json}");
    }
    let made = Transition::Hold {
        change: HoldChange::Created,
        hold: Hold { details: Some(Box::new(HoldDetails::default())), ..drawn(&full_hold(), &[("vip", 2)]) },
        figures: [item().figures, item().figures].into(),
        limits: None,
    };
    let read: wire::Event = serde_json::from_str(&written(|out| encode::event(out, &event(made)))).unwrap();
    assert_eq!(read.pool, Some(EventPool::Named("vip".to_owned())));
    assert_eq!((read.lines[0].pool_quantity, read.lines[1].pool_quantity), (2, 0));
}

#[tokio::test]
async fn the_client_sets_lists_and_deletes() {
    let server = server(vec![
        answer(201, |out| encode::pool(out, &pool("a"))),
        answer(200, |out| encode::pool(out, &pool("a"))),
        answer(200, |out| encode::pools(out, &with_pools())),
        Act::Answer(204, "", String::new()),
        answer(200, |out| encode::reservation(out, &full_hold())),
    ]);
    let client = Client::new(&server.base).unwrap();
    let tea = At { sku: "tea", location: Some("hub") };
    let set = client
        .set_pool(tea, "a b", &PoolSettings { allocated: Some(9), ..PoolSettings::default() }, None)
        .await
        .unwrap();
    assert_eq!((set.free, set.releases_at, set.released_at), (4, Some(at(60_000)), None));
    let all = PoolSettings {
        allocated: Some(9),
        fallback: Some(false),
        releases_at: Some(at(60_000)),
        idle_release_seconds: Some(90),
    };
    client.set_pool(tea, "a", &all, Some(7)).await.unwrap();
    let listed = client.pools(tea).await.unwrap();
    let named: Vec<_> = listed.iter().map(|pool| (&*pool.pool, pool.released_at)).collect();
    assert_eq!(named, [("a", None), ("b", Some(at(7)))]);
    client.delete_pool(tea, "a").await.unwrap();
    let terms = Terms { owner_id: "o".to_owned(), pool: Some("vip".to_owned()), ..Terms::default() };
    assert_eq!(client.reserve(tea, 2, &terms, None).await.unwrap().pool.as_deref(), Some("vip"));
    let asked = Arc::clone(&server.asked).lock().unwrap().clone();
    let lines: Vec<_> = asked.iter().map(|asked| asked.line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "PUT /v1/inventory/tea/pools/a%20b?location=hub HTTP/1.1",
            "PUT /v1/inventory/tea/pools/a?location=hub HTTP/1.1",
            "GET /v1/inventory/tea/pools?location=hub HTTP/1.1",
            "DELETE /v1/inventory/tea/pools/a?location=hub HTTP/1.1",
            "POST /v1/inventory/tea/reserve?location=hub HTTP/1.1",
        ]
    );
    assert_eq!(asked[0].body, r#"{"allocated":9}"#);
    let whole = r#"{"allocated":9,"fallback":false,"releases_at":"2023-11-14T22:14:20.000Z","idle_release_seconds":90}"#;
    assert_eq!((asked[1].body.as_str(), asked[1].if_match.as_deref()), (whole, Some("\"7\"")));
    assert_eq!(asked[4].body, r#"{"quantity":2,"owner_id":"o","pool":"vip"}"#);
}
