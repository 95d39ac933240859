//! What large reads cost of a rate limit, and how much they examine.

use super::ask_with;
use crate::access::{ROOT, key, reserve, stock};
use crate::api::wire::{Answer, Call};
use serde_json::{Value, json};
use tempfile::TempDir;

const READER: [&str; 4] = ["reservations:read", "reservations:write", "inventory:read", "events:read"];

/// The tokens that are left after an answer.
fn left(answer: &Answer) -> u64 {
    let limit = answer.header("ratelimit").unwrap();
    limit.split(";r=").nth(1).unwrap().split(';').next().unwrap().parse().unwrap()
}

#[test]
fn a_page_takes_a_token_for_every_hundred_entries() {
    let dir = TempDir::new().unwrap();
    let server = crate::access::server(&dir, "");
    // Nothing comes back while the test runs.
    let slow = |burst: u64| json!({ "scopes": READER, "rate_limit": { "per_second": 1, "burst": burst } });
    let units: Vec<Value> = (0..950).map(|n| json!({ "unit_id": format!("A-{n}") })).collect();
    let hall = Call::put("/v1/inventory/hall").json(&json!({ "mode": "units" }));
    assert_eq!(ask_with(&server, ROOT, hall).status, 201);
    let made =
        ask_with(&server, ROOT, Call::post("/v1/inventory/hall/units").json(&json!({ "units": units })));
    assert!(made.status < 300, "{}", made.text());
    for (name, path, tokens) in [
        ("few", "/v1/reservations?limit=100", 1),
        ("holds", "/v1/reservations?limit=1000", 10),
        ("items", "/v1/inventory?limit=901", 10),
        ("events", "/v1/events?limit=550", 6),
        ("newest", "/v1/events?tail=550", 6),
        ("orders", "/v1/orders?limit=201", 3),
        ("units", "/v1/inventory/hall/units?limit=1000", 10),
        ("seats", "/v1/inventory/hall/seat-map", 10),
    ] {
        let wide = key(&server, name, &slow(900));
        let answer = ask_with(&server, &wide, Call::get(path));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!((900 - left(&answer)).abs_diff(tokens) <= 1, "{path}: {} of 900 are left", left(&answer));
        // At most the burst, so that it is possible after a rest.
        let small = key(&server, &format!("small {name}"), &slow(2));
        let first = ask_with(&server, &small, Call::get(path)).status;
        assert_eq!(first, 200, "{path}");
        if tokens > 1 {
            assert_eq!(ask_with(&server, &small, Call::get(path)).status, 429, "{path}");
        }
    }
}

/// Reservations of others are passed, a bounded number at a time, and nothing is missed.
#[test]
fn a_page_examines_a_bounded_number_and_goes_on() {
    let dir = TempDir::new().unwrap();
    let server = crate::access::server(&dir, "");
    stock(&server, "tea", "hub");
    let own = key(&server, "own", &json!({ "scopes": READER, "own_reservations_only": true }));
    let body = json!({ "total_units": 100_000 });
    assert_eq!(ask_with(&server, ROOT, Call::put("/v1/inventory/tea?location=hub").json(&body)).status, 200);
    let mut made = Vec::new();
    for _ in 0..6 {
        made.push(reserve(&server, &own, "tea", "hub")["reservation_id"].clone());
        let command = json!({ "op": "reserve", "owner_id": "o", "sku": "tea", "location": "hub", "customer_id": "mass" });
        let commands = json!({ "commands": vec![command; 1_000] });
        assert_eq!(ask_with(&server, ROOT, Call::post("/v1/commands").json(&commands)).status, 200);
    }
    made.reverse();
    let pages = |credential: &str, path: &str, more: &str| {
        let (mut found, mut pages, mut next) = (Vec::new(), 0, None::<String>);
        loop {
            let after = next.map(|next| format!("&{more}={next}")).unwrap_or_default();
            let answer = ask_with(&server, credential, Call::get(format!("{path}{after}")));
            assert_eq!(answer.status, 200, "{path}{after}: {}", answer.text());
            let page = answer.json();
            found.extend(page["data"].as_array().unwrap().clone());
            pages += 1;
            if page["has_more"] == false {
                break (found, pages);
            }
            next = page["next_cursor"].as_str().map(str::to_owned);
        }
    };
    let ids = |found: &[Value]| found.iter().map(|one| one["reservation_id"].clone()).collect::<Vec<_>>();
    // Index and log know who created what.
    let (found, _) = pages(&own, "/v1/reservations?limit=100", "starting_after");
    assert_eq!(ids(&found), made);
    // All of them match the SKU, and none the customer.
    let (found, seen) =
        pages(ROOT, "/v1/reservations?sku=tea&customer_id=nobody&limit=1000", "starting_after");
    assert_eq!((found.len(), seen <= 2), (0, true), "{seen} pages");
    let (found, _) = pages(ROOT, "/v1/reservations?customer_id=mass&limit=1000", "starting_after");
    assert_eq!(found.len(), 6_000);
    let (found, seen) = pages(ROOT, "/v1/reservations?sku=tea&status=expired&limit=1000", "starting_after");
    assert_eq!((found.len(), seen), (0, 2), "4,096 of 6,006 are examined for the first page");
    // The feed too.
    let (found, seen) = pages(&own, "/v1/events?limit=1000", "after");
    let created = found.iter().filter(|event| event["type"] == "reservation.created").cloned();
    let mut events = ids(&created.collect::<Vec<_>>());
    events.reverse();
    assert_eq!(events, made);
    assert!(seen >= 2, "{seen} pages");
}
