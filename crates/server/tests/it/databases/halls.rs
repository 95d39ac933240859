//! Units with ids over a database: imported, shown, chosen, sold and returned.

use super::{Database, used::verify};
use crate::api::wire::{Answer, Call, Wire};
use crate::support::{Server, said, stockhold};
use serde_json::{Value, json};
use std::fmt::Write;

fn ask(server: &Server, call: &Call) -> Answer {
    Wire::connect(([127, 0, 0, 1], server.ports()[0]).into()).ask(call)
}

fn answered(server: &Server, call: &Call) -> Value {
    let answer = ask(server, call);
    assert!(answer.status < 300, "{}", answer.text());
    answer.json()
}

fn ids(reservation: &Value) -> Vec<String> {
    let units = reservation["lines"][0]["units"].as_array().unwrap();
    units.iter().map(|unit| unit["unit_id"].as_str().unwrap().to_owned()).collect()
}

pub(super) fn seats_over_a_database_from_the_import_to_the_recount<D: Database>(database: &mut D) {
    let mut server = Server::over(&database.url());
    answered(&server, &Call::put("/v1/inventory/hall").json(&json!({ "mode": "units" })));
    let mut seats = "unit_id,section,row,number\n".to_owned();
    for (row, number) in (1..=20).flat_map(|row| (1..=30).map(move |number| (row, number))) {
        writeln!(seats, "{row}-{number},stalls,{row},{number}").unwrap();
    }
    std::fs::write(server.dir().join("seats.csv"), seats).unwrap();
    for _ in 0..2 {
        let url = server.url();
        let import = ["import", "seats.csv", "--units", "hall", "--server", &url];
        let output = stockhold(server.dir()).args(import).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    let reserve = |server: &Server, body: Value| {
        let mut body = body;
        body["owner_id"] = "cart".into();
        ask(server, &Call::post("/v1/inventory/hall/reserve").json(&body))
    };
    let any = reserve(&server, json!({ "quantity": 2 })).json();
    assert_eq!(ids(&any), ["1-1", "1-2"]);
    let best = reserve(&server, json!({ "quantity": 4, "adjacent": true })).json();
    assert_eq!(ids(&best), ["1-3", "1-4", "1-5", "1-6"]);
    let taken = reserve(&server, json!({ "units": ["1-6", "2-1"] }));
    assert_eq!((taken.status, taken.json()["reason"].clone()), (409, json!("units_unavailable")));
    let id = best["reservation_id"].as_str().unwrap().to_owned();
    answered(&server, &Call::post(format!("/v1/reservations/{id}/confirm")).json(&json!({})));

    // Another instance, which has never seen any of it.
    server.kill();
    server.restart();
    let back = json!({ "units": ["1-4"], "reason": "refunded" });
    answered(&server, &Call::post(format!("/v1/reservations/{id}/return")).json(&back));
    let item = answered(&server, &Call::get("/v1/inventory/hall"));
    assert_eq!((&item["held_units"], &item["confirmed_sold"]), (&json!(2), &json!(3)), "{item}");
    assert_eq!((&item["total_units"], &item["available"]), (&json!(600), &json!(595)), "{item}");
    let sold = answered(&server, &Call::get("/v1/inventory/hall/units").query("status=sold"));
    let sold: Vec<&Value> = sold["data"].as_array().unwrap().iter().map(|unit| &unit["unit_id"]).collect();
    assert_eq!(sold, ["1-3", "1-5", "1-6"]);
    let one = answered(&server, &Call::get("/v1/inventory/hall/units/1-4"));
    assert_eq!((&one["status"], &one["version"], &one["row"]), (&json!("available"), &json!(4), &json!("1")));
    let history = answered(&server, &Call::get("/v1/inventory/hall/units/1-4/events"));
    let kinds: Vec<&Value> = history["data"].as_array().unwrap().iter().map(|event| &event["type"]).collect();
    let moved = ["units.added", "reservation.created", "reservation.confirmed", "reservation.returned"];
    assert_eq!(kinds, moved);
    assert_eq!(history["data"][0]["units"].as_array().unwrap().len(), 1);
    let unknown = ask(&server, &Call::get("/v1/inventory/hall/units/1-31/events"));
    assert_eq!((unknown.status, &unknown.json()["reason"]), (404, &json!("unknown_unit")));
    let map = answered(&server, &Call::get("/v1/inventory/hall/seat-map"));
    assert_eq!(map["count"], 600, "{map}");
    let verdict = verify(&server, &database.url());
    assert_eq!((&verdict["adds_up"], &verdict["units"]), (&true.into(), &600.into()), "{verdict}");
}
