//! Pools: what they set aside, who gets it, how it comes back, and what is wrong with a request.

use super::server::Server;
use super::wire::{Answer, Call};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const VIP: &str = "/v1/inventory/tea/pools/vip";
const POOLS: &str = "/v1/inventory/tea/pools";
/// How long the sweeper may take. It is long, because machines that run tests can be busy.
const PATIENCE: Duration = Duration::from_secs(30);

fn set(server: &Server, path: &str, body: &Value) -> Answer {
    server.ask(&Call::put(path).json(body))
}

fn reserve(server: &Server, body: &Value) -> Answer {
    server.ask(&Call::post("/v1/inventory/tea/reserve").json(body))
}

fn pools(server: &Server) -> Value {
    server.ask(&Call::get(POOLS)).json()["data"].clone()
}

/// The status, the reason and the pointer of the first fault.
fn refusal(answer: &Answer) -> (u16, String, String) {
    let problem = answer.json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (answer.status, text(&problem["reason"]), text(&problem["errors"][0]["pointer"]))
}

fn expected(status: u16, reason: &str, pointer: &str) -> (u16, String, String) {
    (status, reason.to_owned(), pointer.to_owned())
}

#[test]
fn a_pool_is_set_read_replaced_and_deleted() {
    let server = Server::start();
    server.stock("tea", 10);
    assert_eq!(pools(&server), json!([]));
    let made = set(&server, VIP, &json!({ "allocated": 4, "releases_at": "2099-01-01T00:00:00+01:00" }));
    let shown = json!({
        "pool": "vip", "allocated": 4, "held": 0, "sold": 0, "free": 4, "fallback": true,
        "releases_at": "2098-12-31T23:00:00.000Z",
    });
    assert_eq!((made.status, made.json()), (201, shown));
    let item = server.item("tea");
    assert_eq!(
        (&item["available"], &item["available_now"], &item["set_aside"]),
        (&json!(6), &json!(6), &json!(4))
    );
    let tag = format!("\"{}\"", item["version"]);
    assert_eq!(made.header("etag"), Some(tag.as_str()));
    assert_eq!(server.ask(&Call::get(POOLS)).header("etag"), Some(tag.as_str()));

    // What is not named in the next request is gone.
    let quota = json!({ "allocated": 5, "fallback": false, "idle_release_seconds": 60 });
    let put = Call::put(VIP).json(&quota);
    let stale = server.ask(&put.clone().header("If-Match", "\"1\""));
    assert_eq!(refusal(&stale), expected(412, "precondition_failed", ""));
    let replaced = server.ask(&put.clone().header("If-Match", &tag));
    let shown = json!({
        "pool": "vip", "allocated": 5, "held": 0, "sold": 0, "free": 5, "fallback": false, "idle_release_seconds": 60,
    });
    assert_eq!((replaced.status, replaced.json()), (200, shown.clone()));
    let same = server.ask(&put);
    assert_eq!((same.status, same.header("etag")), (200, replaced.header("etag")), "nothing changes");
    assert_eq!(set(&server, &format!("{POOLS}/partner%20x"), &json!({ "allocated": 0 })).status, 201);
    assert_eq!(pools(&server)[0]["pool"], "partner x");
    assert_eq!(pools(&server)[1], shown);

    let stale = server.ask(&Call::delete(VIP).header("If-Match", &tag));
    assert_eq!(refusal(&stale), expected(412, "precondition_failed", ""));
    for _ in 0..2 {
        assert_eq!(server.ask(&Call::delete(VIP)).status, 204);
    }
    assert_eq!(pools(&server).as_array().map(Vec::len), Some(1));
    assert_eq!(server.item("tea")["available"], 10);
}

#[test]
fn only_a_reserve_that_names_a_pool_draws_from_it() {
    let server = Server::start();
    server.stock("tea", 10);
    assert_eq!(set(&server, VIP, &json!({ "allocated": 4 })).status, 201);
    let short = reserve(&server, &json!({ "owner_id": "o", "quantity": 7 }));
    assert_eq!((short.status, &short.json()["available"]), (409, &json!(6)));
    let held = reserve(&server, &json!({ "owner_id": "o", "quantity": 6, "pool": "vip" })).json();
    assert_eq!((&held["pool"], &held["lines"][0]["pool_quantity"]), (&json!("vip"), &json!(4)), "{held}");
    assert!(held["lines"][0]["pools"].is_null(), "{held}");
    let pool = &pools(&server)[0];
    assert_eq!((&pool["held"], &pool["free"]), (&json!(4), &json!(0)));

    // A quota without fallback gives what it has and no more.
    let box_office = format!("{POOLS}/box-office");
    assert_eq!(set(&server, &box_office, &json!({ "allocated": 1, "fallback": false })).status, 201);
    let two = json!({ "owner_id": "o", "quantity": 2, "pool": "box-office" });
    let short = reserve(&server, &two);
    assert_eq!((short.status, &short.json()["available"]), (409, &json!(1)));
    let body = json!({ "owner_id": "o", "pool": "box-office", "lines": [{ "sku": "tea" }] });
    let other = server.ask(&Call::post("/v1/reservations").json(&body)).json();
    assert_eq!(other["lines"][0]["pool_quantity"], 1);
    let plain = json!({ "op": "reserve", "owner_id": "o", "sku": "tea", "pool": "box-office", "fulfilment": "partial" });
    let batch = server.ask(&Call::post("/v1/commands").json(&json!({ "commands": [plain] }))).json();
    assert_eq!(batch["results"][0]["problem"]["reason"], "insufficient_inventory", "{batch}");

    // A merge brings units of the other pool, and the line says which.
    let id = |hold: &Value| hold["reservation_id"].as_str().unwrap().to_owned();
    let merge =
        Call::post(format!("/v1/reservations/{}/merge", id(&held))).json(&json!({ "from": [id(&other)] }));
    let merged = server.ask(&merge).json();
    let draws = json!([{ "pool": "box-office", "quantity": 1 }, { "pool": "vip", "quantity": 4 }]);
    assert_eq!((&merged["lines"][0]["pool_quantity"], &merged["lines"][0]["pools"]), (&json!(5), &draws));
    let events = server.ask(&Call::get(format!("/v1/reservations/{}/events", id(&held)))).json();
    let events = events["data"].as_array().unwrap();
    assert_eq!((&events[0]["pool"], &events[0]["lines"][0]["pool_quantity"]), (&json!("vip"), &json!(4)));
    assert_eq!(events.last().unwrap()["lines"][0]["pools"], draws);

    assert_eq!(server.ask(&Call::post(format!("/v1/reservations/{}/confirm", id(&held)))).status, 200);
    let sold: Vec<_> = pools(&server).as_array().unwrap().iter().map(|pool| pool["sold"].clone()).collect();
    assert_eq!(sold, [1, 4]);
}

#[test]
fn a_pool_is_released_at_its_time_and_by_nobody_in_particular() {
    let server = Server::start();
    server.stock("tea", 10);
    assert_eq!(set(&server, VIP, &json!({ "allocated": 4, "idle_release_seconds": 1 })).status, 201);
    let held = reserve(&server, &json!({ "owner_id": "o", "pool": "vip" })).json();
    let patience = Instant::now() + PATIENCE;
    while server.item("tea")["set_aside"] != 0 {
        assert!(Instant::now() < patience, "it is not released: {}", pools(&server));
        std::thread::sleep(Duration::from_millis(50));
    }
    let pool = &pools(&server)[0];
    assert_eq!((&pool["allocated"], &pool["held"], &pool["free"]), (&json!(1), &json!(1), &json!(0)));
    assert!(pool["released_at"].is_string(), "{pool}");
    // An old link still works, and gets general stock.
    let late = reserve(&server, &json!({ "owner_id": "o", "pool": "vip" })).json();
    assert!(late["lines"][0]["pool_quantity"].is_null(), "{late}");
    let id = held["reservation_id"].as_str().unwrap();
    assert_eq!(server.ask(&Call::delete(format!("/v1/reservations/{id}"))).status, 204);
    assert_eq!(pools(&server), json!([]));

    // A time that has passed releases a pool at once.
    let past = set(&server, VIP, &json!({ "allocated": 2, "releases_at": "2001-01-01T00:00:00Z" }));
    assert_eq!((past.status, &past.json()["free"]), (201, &json!(0)), "{past:?}");
    assert!(past.json()["released_at"].is_string(), "{past:?}");
    let page = server.ask(&Call::get("/v1/events?type=pool.set,pool.released,pool.deleted")).json();
    let seen: Vec<_> = page["data"].as_array().unwrap().iter().collect();
    let kinds: Vec<_> = seen.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["pool.set", "pool.released", "pool.set", "pool.released"]);
    assert_eq!((&seen[0]["pool"]["pool"], &seen[0]["item"]["set_aside"]), (&json!("vip"), &json!(4)));
    assert_eq!((&seen[1]["pool"]["allocated"], &seen[1]["actor"]), (&json!(1), &json!("stockhold")));
}

#[test]
fn a_pool_gets_no_more_than_is_free() {
    let server = Server::start();
    server.stock("tea", 10);
    assert_eq!(reserve(&server, &json!({ "owner_id": "o", "quantity": 3 })).status, 200);
    assert_eq!(set(&server, VIP, &json!({ "allocated": 4 })).status, 201);
    assert_eq!(reserve(&server, &json!({ "owner_id": "o", "quantity": 2, "pool": "vip" })).status, 200);
    let version = server.item("tea")["version"].clone();
    for allocated in [8, 1] {
        let refused = set(&server, VIP, &json!({ "allocated": allocated }));
        assert_eq!(refusal(&refused), expected(409, "below_committed", ""));
        let problem = refused.json();
        let figures = ["confirmed_sold", "held_units", "total_units", "set_aside", "free"]
            .map(|name| problem[name].clone());
        assert_eq!(figures, [0, 5, 10, 2, 3], "{problem}");
    }
    assert_eq!(server.item("tea")["version"], version);
    assert_eq!(set(&server, VIP, &json!({ "allocated": 7 })).status, 200);
    let total = server.ask(&Call::put("/v1/inventory/tea").json(&json!({ "total_units": 9 })));
    assert_eq!((total.status, &total.json()["set_aside"]), (409, &json!(5)));
}

#[test]
fn wrong_requests_change_nothing() {
    let server = Server::start();
    server.stock("tea", 100);
    assert_eq!(server.ask(&Call::put("/v1/inventory/hall").json(&json!({ "mode": "units" }))).status, 201);
    for (body, pointer) in [
        (json!({}), "/allocated"),
        (json!({ "allocated": -1 }), "/allocated"),
        (json!({ "allocated": 1.5 }), "/allocated"),
        (json!({ "allocated": 1_000_000_000_001_u64 }), "/allocated"),
        (json!({ "allocated": 1, "fallback": "no" }), "/fallback"),
        (json!({ "allocated": 1, "fallback": null }), "/fallback"),
        (json!({ "allocated": 1, "releases_at": "tomorrow" }), "/releases_at"),
        (json!({ "allocated": 1, "idle_release_seconds": 0 }), "/idle_release_seconds"),
        (json!({ "allocated": 1, "idle_release_seconds": 2_592_001 }), "/idle_release_seconds"),
        (json!({ "allocated": 1, "held": 1 }), "/held"),
        (json!([]), ""),
    ] {
        assert_eq!(refusal(&set(&server, VIP, &body)), expected(400, "invalid_request", pointer), "{body}");
    }
    let one = json!({ "allocated": 1 });
    let long = format!("{POOLS}/{}", "x".repeat(129));
    assert_eq!(refusal(&set(&server, &long, &one)), expected(400, "invalid_request", "/pool"));
    let odd = set(&server, &format!("{VIP}?pool=vip"), &one);
    assert_eq!(refusal(&odd), expected(400, "invalid_request", "/pool"));
    let unread = server.ask(&Call::put(VIP).header("If-None-Match", "*").json(&one));
    assert_eq!(refusal(&unread), expected(400, "invalid_request", "/If-None-Match"));
    for path in ["/v1/inventory/none/pools/vip", &format!("{VIP}?location=hub")] {
        assert_eq!(refusal(&set(&server, path, &one)), expected(404, "unknown_item", ""));
        assert_eq!(refusal(&server.ask(&Call::delete(path))), expected(404, "unknown_item", ""));
    }
    assert_eq!(
        refusal(&server.ask(&Call::get("/v1/inventory/none/pools"))),
        expected(404, "unknown_item", "")
    );
    let of_units = set(&server, "/v1/inventory/hall/pools/vip", &one);
    assert_eq!(refusal(&of_units), expected(400, "invalid_request", "/allocated"));
    let of_counted = server.ask(&Call::put(format!("{VIP}/units")).json(&json!({ "units": ["A-1"] })));
    assert_eq!(refusal(&of_counted), expected(422, "mode_mismatch", ""));
    let unknown = server.ask(&Call::delete(VIP));
    assert_eq!(refusal(&unknown), expected(404, "unknown_pool", ""));
    assert_eq!(unknown.json()["pool"], "vip");
    let nowhere = reserve(&server, &json!({ "owner_id": "o", "pool": "vip" }));
    assert_eq!(refusal(&nowhere), expected(400, "invalid_request", "/pool"));
    assert_eq!(pools(&server), json!([]));

    for number in 0..16 {
        assert_eq!(set(&server, &format!("{POOLS}/p-{number}"), &one).status, 201);
    }
    let refused = set(&server, VIP, &one);
    assert_eq!(refusal(&refused), expected(409, "too_many_pools", ""));
    assert_eq!(refused.json()["limit"], 16);
    assert_eq!(set(&server, &format!("{POOLS}/p-0"), &json!({ "allocated": 2 })).status, 200);
}
