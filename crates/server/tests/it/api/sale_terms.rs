//! Sale windows, backorders and expected deliveries.

use super::server::Server;
use super::wire::Call;
use serde_json::json;

#[test]
fn a_sale_has_a_beginning_and_an_end() {
    let server = Server::start();
    let wire = &mut server.connect();
    let path = "/v1/inventory/tea";
    let reserve = Call::post("/v1/inventory/tea/reserve").json(&json!({ "owner_id": "o" }));
    let set = |settings: &serde_json::Value| Call::put(path).json(settings);
    let later = json!({ "total_units": 5, "sale_starts_at": "2099-01-01T00:00:00+01:00" });
    assert_eq!(wire.ask(&set(&later)).json()["sale_starts_at"], "2098-12-31T23:00:00.000Z");
    let refused = wire.ask(&reserve);
    let problem = refused.json();
    assert_eq!((refused.status, &problem["reason"]), (409, &json!("sale_paused")));
    assert_eq!(problem["starts_at"], "2098-12-31T23:00:00.000Z");
    let over = json!({ "sale_starts_at": null, "sale_ends_at": "2001-01-01T00:00:00Z" });
    let item = wire.ask(&set(&over)).json();
    assert!(item["sale_starts_at"].is_null(), "{item}");
    assert_eq!(wire.ask(&reserve).json()["ended_at"], "2001-01-01T00:00:00.000Z");
    let backwards = json!({ "sale_starts_at": "2001-01-01T00:00:00Z" });
    let refused = wire.ask(&set(&backwards));
    assert_eq!((refused.status, &refused.json()["errors"][0]["pointer"]), (400, &json!("/sale_ends_at")));
    assert_eq!(wire.ask(&set(&json!({ "sale_ends_at": null }))).status, 200);
    assert_eq!(wire.ask(&reserve).status, 200);
}

#[test]
fn what_is_on_its_way_is_sold_promised_and_received() {
    let server = Server::start();
    let wire = &mut server.connect();
    let put = json!({
        "total_units": 1, "oversell_allowance": 3,
        "incoming": [{ "supply_id": "po-1", "quantity": 2, "available_from": "2099-01-01T00:00:00Z" }],
    });
    assert_eq!(wire.ask(&Call::put("/v1/inventory/tea").json(&put)).status, 201);
    let body = json!({ "owner_id": "o", "quantity": 2 });
    let held = wire.ask(&Call::post("/v1/inventory/tea/reserve").json(&body)).json();
    let line = &held["lines"][0];
    assert_eq!(
        (&line["backordered_quantity"], &line["promised_at"]),
        (&json!(1), &json!("2099-01-01T00:00:00.000Z"))
    );
    let item = server.item("tea");
    assert_eq!(
        (&item["available"], &item["available_now"], &item["backordered"]),
        (&json!(2), &json!(0), &json!(1))
    );
    let below = wire.ask(&Call::put("/v1/inventory/tea").json(&json!({ "oversell_allowance": 0 })));
    assert_eq!((below.status, &below.json()["reason"]), (409, &json!("below_committed")));

    let id = held["reservation_id"].as_str().unwrap();
    assert_eq!(wire.ask(&Call::post(format!("/v1/reservations/{id}/confirm"))).status, 200);
    let fulfil = Call::post(format!("/v1/reservations/{id}/fulfil"));
    let early = wire.ask(&fulfil);
    assert_eq!((early.status, &early.json()["reason"]), (409, &json!("fulfil_exceeds_on_hand")));
    assert_eq!(early.json()["on_hand"], 1);

    let adjust = |body: serde_json::Value| Call::post("/v1/inventory/tea/adjust").json(&body);
    let unknown = wire.ask(&adjust(json!({ "delta": 1, "supply_id": "po-2" })));
    assert_eq!((unknown.status, &unknown.json()["reason"]), (404, &json!("unknown_supply")));
    let nothing = wire.ask(&adjust(json!({ "delta": 1 })));
    assert_eq!((nothing.status, &nothing.json()["errors"][0]["pointer"]), (400, &json!("/reason")));
    let received = wire.ask(&adjust(json!({ "delta": 2, "supply_id": "po-1" }))).json();
    assert_eq!((&received["total_units"], &received["incoming"]), (&json!(3), &json!(null)));
    assert_eq!(wire.ask(&fulfil).status, 200);
    let events = wire.ask(&Call::get("/v1/events?type=stock.adjusted")).json();
    let last = events["data"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["supply_id"], &last["reason"]), (&json!("po-1"), &json!("received")));
}
