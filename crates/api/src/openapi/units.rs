//! The operations on units with ids.

use super::lists::{limit, starting_after};
use super::operation::{Answer, Operation, component, in_path, in_query};
use super::reservations::{at_location, example, sku};
use super::samples::{concert, pool, unit_history, written};
use super::schema::{flag, label, with, word};
use crate::decode::UNITS_BODY_BYTES;
use crate::encode;
use crate::problem::Reason;
use serde_json::json;
use stockhold_store::{SeatMap, UNIT_HISTORY_LIMIT};

const TAG: &str = "Inventory";
// As the text of a history says.
const _: () = assert!(UNIT_HISTORY_LIMIT == 64);

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    vec![add(), list(), one(), history(), retire(), seat_map()]
}

fn on_one(method: &'static str, path: &'static str, operation: &'static str) -> Operation {
    Operation::new(method, path, operation, TAG)
        .parameter(sku())
        .parameter(at_location())
        .refuses(&[Reason::UnknownItem])
}

fn add() -> Operation {
    let added = written(|out| encode::added(out, &concert(), 2, 1));
    on_one("post", "/v1/inventory/{sku}/units", "add_units")
        .does(
            "Add units with ids",
            "To an item of mode `units`: seats, slots, serial numbers. What is there already and the same stays; when one \
             that is there differs, nothing is added. A unit is never changed: retire it, and add it anew.",
        )
        .takes_up_to(
            UNITS_BODY_BYTES,
            "UnitsRequest",
            json!({
                "row": example("Two seats of a row", json!({ "units": [
                    { "unit_id": "A-12", "section": "stalls", "row": "A", "number": "12" },
                    { "unit_id": "A-13", "section": "stalls", "row": "A", "number": "13", "attributes": { "aisle": true } },
                ] })),
                "slots": example("Slots of a day", json!({ "units": [
                    { "unit_id": "09:00", "position": 540 }, { "unit_id": "09:30", "position": 570 },
                ] })),
            }),
        )
        .answers(
            Answer::new(200, "What became of them.")
                .json("UnitsAnswer", json!({ "added": example("Two new ones", added) })),
        )
        .writes()
}

fn list() -> Operation {
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        for unit in pool().iter() {
            encode::unit(list.entry(out), unit);
        }
        list.close_page(out, false, None);
    });
    on_one("get", "/v1/inventory/{sku}/units", "list_units")
        .does(
            "List units with ids",
            "In the order of their claims, each with where it stands and who has it.",
        )
        .parameter(in_query("status", word(&["available", "held", "sold"], "Only those that stand so.")))
        .parameter(in_query("section", label("Only those of this section.")))
        .parameter(limit())
        .parameter(starting_after())
        .answers(
            Answer::new(200, "A page.").json("UnitPage", json!({ "page": example("All there is", page) })),
        )
        .reads()
}

/// A path under one unit.
fn on_unit(method: &'static str, path: &'static str, operation: &'static str) -> Operation {
    on_one(method, path, operation)
        .parameter(in_path("unit_id", label("The unit's id, percent-encoded."), "A-12"))
        .refuses(&[Reason::UnknownUnit])
}

fn one() -> Operation {
    let unit = pool().iter().next().map(|unit| written(|out| encode::unit(out, unit)));
    on_unit("get", "/v1/inventory/{sku}/units/{unit_id}", "get_unit")
        .does("Read a unit", "Where it stands, and who has it.")
        .answers(Answer::new(200, "The unit.").json("Unit", json!({ "held": example("Held", json!(unit)) })))
        .reads()
}

fn history() -> Operation {
    let rows = unit_history();
    let rows: Vec<_> = rows.iter().map(|row| written(|out| encode::event(out, row))).collect();
    on_unit("get", "/v1/inventory/{sku}/units/{unit_id}/events", "get_unit_events")
        .tagged("Events")
        .does(
            "Read a unit's history",
            "What moved it since it was added, the oldest first: added, held, sold, given back or run out, returned. The newest \
             64 at most. A database leaves out events that were archived, and those from before its schema kept histories.",
        )
        .answers(
            Answer::new(200, "Its events.")
                .json("UnitHistory", json!({ "held": example("Added and held", json!({ "data": rows })) })),
        )
        .reads()
}

fn retire() -> Operation {
    on_unit("delete", "/v1/inventory/{sku}/units/{unit_id}", "retire_unit")
        .does("Retire a unit", "Lets go of a unit that nobody holds or has bought.")
        .answers(Answer::new(204, "It is gone."))
        .refuses(&[Reason::UnitInUse])
        .writes()
}

fn seat_map() -> Operation {
    let map = |layout| written(|out| encode::seat_map(out, &SeatMap::of(&concert(), &pool(), layout)));
    let wanted =
        with(flag("Whether `layout` is shown: the units themselves, which seldom change."), "default", true);
    on_one("get", "/v1/inventory/{sku}/seat-map", "get_seat_map")
        .does(
            "Read the seat map of an item",
            "Where every unit stands, in two bits each: a hundred thousand take 34 kB without `layout`. Read the layout once, \
             then poll with `layout=false` and `If-None-Match`; when `version` is another, units came or went.",
        )
        .parameter(in_query("layout", wanted))
        .parameter(component("parameters", "MapIfNoneMatch"))
        .answers(
            Answer::new(200, "The map.")
                .json(
                    "SeatMap",
                    json!({
                        "whole": example("With its layout", map(true)),
                        "states": example("Where they stand alone", map(false)),
                    }),
                )
                .header("ETag", "MapETag"),
        )
        .answers(Answer::new(304, "It is as it was.").header("ETag", "MapETag"))
        .reads()
}
