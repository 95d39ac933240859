//! Reserves of which lines name the locations that may give, and the availability over locations.

use super::server::Server;
use super::wire::Call;
use serde_json::{Value, json};

fn server() -> Server {
    let server = Server::start();
    for (location, units) in [("hub-1", 2), ("hub-2", 5), ("hub-3", 5)] {
        server.stock(&format!("tea?location={location}"), units);
    }
    server
}

fn line(source: &Value, quantity: u64) -> Value {
    json!({ "sku": "tea", "source": source, "quantity": quantity })
}

fn reserve(lines: &[Value]) -> Call {
    Call::post("/v1/reservations").json(&json!({ "owner_id": "o", "lines": lines }))
}

/// Location, units and requested units of each line.
fn taken(reservation: &Value) -> Vec<(&str, u64, u64)> {
    fn shown(line: &Value) -> (&str, u64, u64) {
        let units = |name: &str| line[name].as_u64().unwrap();
        (line["location"].as_str().unwrap(), units("quantity"), units("requested_quantity"))
    }
    let lines = reservation["lines"].as_array().unwrap_or_else(|| panic!("no lines: {reservation}"));
    lines.iter().map(shown).collect()
}

#[test]
fn each_strategy_takes_from_the_locations_in_its_order() {
    let server = server();
    let wire = &mut server.connect();
    let hubs = json!(["hub-1", "hub-2", "hub-3"]);
    let first = wire.ask(&reserve(&[line(&json!({ "locations": hubs }), 3)]).key("k"));
    assert_eq!(first.status, 201, "{}", first.text());
    assert_eq!(taken(&first.json()), [("hub-1", 2, 2), ("hub-2", 1, 1)]);
    let again =
        wire.ask(&reserve(&[line(&json!({ "locations": hubs, "strategy": "priority" }), 3)]).key("k"));
    assert_eq!((again.status, again.json()), (201, first.json()), "the default strategy is the same request");
    let other = wire.ask(&reserve(&[line(&json!({ "locations": hubs, "strategy": "single" }), 3)]).key("k"));
    assert_eq!(other.json()["reason"], "idempotency_mismatch");
    let fullest = json!({ "locations": hubs, "strategy": "most_stock" });
    assert_eq!(taken(&wire.ask(&reserve(&[line(&fullest, 1)])).json()), [("hub-3", 1, 1)]);
    let single = json!({ "locations": hubs, "strategy": "single" });
    assert_eq!(taken(&wire.ask(&reserve(&[line(&single, 4)])).json()), [("hub-2", 4, 4)]);
    let command = json!({ "commands": [
        { "op": "reserve", "owner_id": "o", "sku": "tea", "quantity": 9, "source": { "locations": hubs }, "fulfilment": "partial" },
    ] });
    let result = wire.ask(&Call::post("/v1/commands").json(&command)).json();
    assert_eq!(taken(&result["results"][0]["reservation"]), [("hub-3", 4, 9)]);
}

#[test]
fn what_is_short_is_listed_location_by_location() {
    let server = server();
    let wire = &mut server.connect();
    let refused = wire.ask(&reserve(&[line(&json!({ "locations": ["none", "hub-1", "hub-2"] }), 8)]));
    let problem = refused.json();
    assert_eq!((refused.status, &problem["reason"]), (409, &json!("insufficient_inventory")));
    let short = json!([
        { "sku": "tea", "location": "hub-1", "requested_quantity": 8, "available": 2 },
        { "sku": "tea", "location": "hub-2", "requested_quantity": 8, "available": 5 },
    ]);
    assert_eq!(problem["lines"], short);
    let unknown = wire.ask(&reserve(&[line(&json!({ "locations": ["none", "nil"] }), 1)]));
    assert_eq!((unknown.status, &unknown.json()["reason"]), (404, &json!("unknown_item")));
    wire.ask(&Call::post("/v1/sale/pause?location=hub-1"));
    let paused = wire.ask(&reserve(&[line(&json!({ "locations": ["none", "hub-1"] }), 1)]));
    assert_eq!(paused.json()["reason"], "sale_paused");
    let units = json!({ "mode": "units" });
    assert_eq!(wire.ask(&Call::put("/v1/inventory/tea?location=hall").json(&units)).status, 201);
    let hall = wire.ask(&reserve(&[line(&json!({ "locations": ["hub-2", "hall"] }), 1)]));
    assert_eq!((hall.status, &hall.json()["errors"][0]["pointer"]), (400, &json!("/lines")));
}

#[test]
fn the_availability_of_a_sku_over_locations() {
    let server = server();
    let wire = &mut server.connect();
    wire.ask(&reserve(&[json!({ "sku": "tea", "location": "hub-2" })]));
    let query = json!({ "sku": "tea", "locations": ["hub-2", "none", "hub-1"] });
    let answer = wire.ask(&Call::post("/v1/availability").json(&query));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let shown = answer.json();
    assert_eq!((&shown["sku"], &shown["available"]), (&json!("tea"), &json!(6)));
    assert_eq!(shown["locations"][1], json!({ "location": "none", "unknown": true }));
    let one =
        |n: usize| (shown["locations"][n]["location"].clone(), shown["locations"][n]["available"].clone());
    assert_eq!([one(0), one(2)], [(json!("hub-2"), json!(4)), (json!("hub-1"), json!(2))]);
    assert!(
        shown["locations"][0]["as_of"].is_string() && shown["locations"][2]["as_of"].is_string(),
        "{shown}"
    );
}

#[test]
fn buyers_in_different_orders_take_every_unit_once() {
    const BUYERS: usize = 40;
    let server = server();
    let held: u64 = std::thread::scope(|scope| {
        let buyer = |number: usize| {
            let server = &server;
            scope.spawn(move || {
                let mut hubs = ["hub-1", "hub-2", "hub-3"];
                hubs.rotate_left(number % 3);
                let answer = server.connect().ask(&reserve(&[line(&json!({ "locations": hubs }), 1)]));
                assert!([201, 409].contains(&answer.status), "{}", answer.text());
                u64::from(answer.status == 201)
            })
        };
        let buyers: Vec<_> = (0..BUYERS).map(buyer).collect();
        buyers.into_iter().map(|buyer| buyer.join().unwrap()).sum()
    });
    assert_eq!(held, 12);
}
