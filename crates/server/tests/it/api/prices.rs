//! Prices: set, asked for, frozen into a reservation, and shown in its events.

use super::server::Server;
use super::wire::Call;
use serde_json::json;

#[test]
fn a_reservation_costs_what_its_quote_said() {
    let server = Server::start();
    let wire = &mut server.connect();
    let set = |price: serde_json::Value| {
        Call::put("/v1/inventory/mug").json(&json!({ "total_units": 9, "price": price }))
    };
    let discounts = json!([{ "percent": 10 }, { "amount_off": 300, "channels": ["app"] }]);
    let item = wire.ask(&set(json!({ "unit_amount": 1_999, "currency": "USD", "discounts": discounts })));
    assert_eq!((item.status, &item.json()["price"]["currency"]), (201, &json!("usd")));

    let quote = |body: serde_json::Value| Call::post("/v1/prices/quote").json(&body);
    let two = json!([{ "sku": "mug", "quantity": 2 }]);
    let quoted = wire.ask(&quote(json!({ "lines": two }))).json();
    assert_eq!((&quoted["amount"], &quoted["currency"]), (&json!(3_598), &json!("usd")));
    assert_eq!(quoted["lines"][0]["discount"], 400);
    let in_app = wire.ask(&quote(json!({ "lines": two, "channel": "app" }))).json();
    assert_eq!(in_app["amount"], 3_398);
    let unknown = wire.ask(&quote(json!({ "lines": [{ "sku": "mug" }, { "sku": "cup" }] })));
    assert_eq!((unknown.status, &unknown.json()["reason"]), (404, &json!("unknown_item")));

    let reserve = Call::post("/v1/inventory/mug/reserve").json(&json!({ "owner_id": "o", "quantity": 2 }));
    let held = wire.ask(&reserve).json();
    assert_eq!((&held["amount"], &held["lines"][0]["unit_amount"]), (&json!(3_598), &json!(1_999)));
    assert_eq!(wire.ask(&set(json!({ "unit_amount": 2_500, "currency": "usd" }))).status, 200);
    let path = format!("/v1/reservations/{}", held["reservation_id"].as_str().unwrap());
    assert_eq!(wire.ask(&Call::get(&path)).json()["amount"], 3_598, "a later price changes nothing");
    let events = wire.ask(&Call::get(format!("{path}/events"))).json();
    assert_eq!(events["data"][0]["lines"][0]["amount"], 3_598);

    let euros = json!({ "total_units": 1, "price": { "unit_amount": 1, "currency": "eur" } });
    assert_eq!(wire.ask(&Call::put("/v1/inventory/cup").json(&euros)).status, 201);
    let both = json!([{ "sku": "mug" }, { "sku": "cup" }]);
    for refused in [
        wire.ask(&quote(json!({ "lines": both }))),
        wire.ask(&Call::post("/v1/reservations").json(&json!({ "owner_id": "o", "lines": both }))),
    ] {
        let error = refused.json();
        assert_eq!((refused.status, &error["errors"][0]["pointer"]), (400, &json!("/lines")), "{error}");
    }
    assert_eq!(server.item("cup")["held_units"], 0);
}
