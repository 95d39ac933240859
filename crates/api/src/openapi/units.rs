//! The operations on units with ids.

use super::lists::{limit, starting_after};
use super::operation::{Operation, in_path, in_query};
use super::reservations::{at_location, example, example_at, sku_like};
use super::samples::{concert, unit_history, unit_index, written};
use super::schema::{flag, label, with, word};
use crate::encode;
use crate::routes::RouteId;
use serde_json::json;
use stockhold_store::{SeatMap, UNIT_HISTORY_LIMIT};

// The route's description names the number.
const _: () = assert!(UNIT_HISTORY_LIMIT == 64);

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    vec![add(), list(), one(), history(), retire(), seat_map()]
}

fn add() -> Operation {
    let added = written(|out| encode::added(out, &concert(), 2, 1));
    let seat = |number: u32| {
        let mut seat = json!({
            "unit_id": format!("A-{number}"), "section": "stalls", "row": "A", "number": number.to_string(),
        });
        if number == 12 {
            seat["attributes"] = json!({ "aisle": true });
        }
        seat
    };
    let seats: Vec<_> = (12..=18).map(seat).collect();
    on_units(RouteId::AddUnits)
        .requests(json!({
            "row": example("Seats of a row", json!({ "units": seats })),
            "slots": example_at("Slots of a day", json!({ "sku": "room-1" }), json!({ "units": [
                { "unit_id": "09:00", "position": 540 }, { "unit_id": "09:30", "position": 570 },
            ] })),
        }))
        .responds(json!({ "added": example("Two new units", added) }))
}

fn list() -> Operation {
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        for unit in unit_index().iter() {
            encode::unit(list.entry(out), unit, true);
        }
        list.close_page(out, false, None);
    });
    on_units(RouteId::ListUnits)
        .parameter(in_query("status", word(&["available", "held", "sold"], "Only units with this status.")))
        .parameter(in_query("section", label("Only units of this section.")))
        .parameter(limit())
        .parameter(starting_after())
        .responds(json!({ "page": example("The last page", page) }))
}

/// A path under one item whose units have ids.
fn on_units(route: RouteId) -> Operation {
    Operation::of(route).parameter(sku_like("concert")).parameter(at_location())
}

/// A path under one unit.
fn on_unit(route: RouteId, unit: &str) -> Operation {
    on_units(route).parameter(in_path("unit_id", label("The unit's id, percent-encoded."), unit))
}

fn one() -> Operation {
    let unit = unit_index().iter().next().map(|unit| written(|out| encode::unit(out, unit, true)));
    on_unit(RouteId::GetUnit, "A-12").responds(json!({ "held": example("Held", json!(unit)) }))
}

fn history() -> Operation {
    let rows = unit_history();
    let rows: Vec<_> = rows.iter().map(|row| written(|out| encode::event(out, row))).collect();
    on_unit(RouteId::GetUnitEvents, "A-12")
        .responds(json!({ "held": example("Added and held", json!({ "data": rows })) }))
}

fn retire() -> Operation {
    on_unit(RouteId::RetireUnit, "A-18")
}

fn seat_map() -> Operation {
    let map = |layout| written(|out| encode::seat_map(out, &SeatMap::of(&concert(), &unit_index(), layout)));
    let layout = flag("Whether to show `layout`: the units themselves, which change rarely.");
    on_units(RouteId::GetSeatMap).parameter(in_query("layout", with(layout, "default", true))).responds(
        json!({
            "whole": example("With the layout", map(true)),
            "states": example("Statuses only", map(false)),
        }),
    )
}
