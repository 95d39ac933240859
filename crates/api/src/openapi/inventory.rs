//! The operations on items, and on the sale of them.

use super::lists::{limit, starting_after};
use super::operation::{Answer, Operation, in_query};
use super::reservations::{at_location, example, sku};
use super::samples::{at, item, label as made_label, written};
use super::schema::label;
use crate::encode;
use crate::problem::Reason;
use serde_json::{Value, json};
use stockhold_domain::Scope;

const TAG: &str = "Inventory";
const SALE: &str = "Sale";

/// Those on items.
pub(super) fn operations() -> Vec<Operation> {
    vec![set(), one(), list(), adjust(), available()]
}

/// A path under one item.
fn on_one(method: &'static str, path: &'static str, operation: &'static str, tag: &'static str) -> Operation {
    Operation::new(method, path, operation, tag).parameter(sku()).parameter(at_location())
}

fn shown() -> Value {
    json!({ "item": example("An item", written(|out| encode::item(out, &item()))) })
}

fn with_etag(status: u16, description: &str) -> Answer {
    Answer::new(status, description).json("Item", shown()).header("ETag", "ETag")
}

/// What can be done with the item of an answer.
fn next() -> Value {
    let link = |operation: &str, description: &str, body: Option<Value>| {
        let mut link = json!({
            "operationId": operation,
            "parameters": { "sku": "$response.body#/sku", "location": "$response.body#/location" },
            "description": description,
        });
        if let Some(body) = body {
            link["requestBody"] = body;
        }
        link
    };
    json!({
        "read": link("get_item", "Read it.", None),
        "availability": link("get_availability", "Read what of it is to be had.", None),
        "reserve": link("reserve", "Hold a unit of it.", Some(json!({ "owner_id": "cart-7" }))),
        "adjust": link("adjust_stock", "Move its total.", Some(json!({ "delta": 24, "reason": "delivery 88" }))),
        "pause": link("pause_item", "Stop selling it.", None),
        "resume": link("resume_item", "Go on selling it.", None),
    })
}

fn available() -> Operation {
    let shown = written(|out| encode::availability(out, &item(), at(1)));
    on_one("get", "/v1/inventory/{sku}/available", "get_availability", TAG)
        .does(
            "Read an item's availability",
            "What of it is to be had now. Served from memory; it shows only what is durable.",
        )
        .answers(
            Answer::new(200, "Its availability.")
                .json("Availability", json!({ "availability": example("What is to be had", shown) })),
        )
        .refuses(&[Reason::UnknownItem])
        .reads()
}

fn set() -> Operation {
    on_one("put", "/v1/inventory/{sku}", "set_stock", TAG)
        .does(
            "Create an item, or set its stock",
            "Sets the total and the settings that are named; the others stay. `null` takes back a time to live, a longest \
             hold or the metadata. The total can't go below what is sold and held. A change raises `version`, which is the `ETag`; setting what is set already changes nothing.",
        )
        .conditional()
        .creating()
        .takes(
            "StockRequest",
            json!({
                "total": example("So many units", json!({ "total_units": 100 })),
                "settings": example("Units and settings", json!({
                    "total_units": 100, "safety_stock": 5, "default_ttl_seconds": 300, "max_hold_seconds": 1800,
                    "metadata": { "shelf": "B4" },
                })),
                "taken_back": example("The service's time to live again", json!({
                    "total_units": 100, "default_ttl_seconds": null,
                })),
            }),
        )
        .answers(with_etag(201, "The item, which is new.").links(next()))
        .answers(with_etag(200, "The item, which was there before.").links(next()))
        .refuses(&[Reason::BelowCommitted])
        .writes()
}

fn one() -> Operation {
    on_one("get", "/v1/inventory/{sku}", "get_item", TAG)
        .does("Read an item", "Its figures and settings, with its version as `ETag`.")
        .answers(with_etag(200, "The item."))
        .refuses(&[Reason::UnknownItem])
        .reads()
}

fn list() -> Operation {
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        encode::item(list.entry(out), &item());
        list.close_page(out, false, None);
    });
    Operation::new("get", "/v1/inventory", "list_items", TAG)
        .does("List items", "In order of location and SKU, byte by byte.")
        .parameter(in_query("location", label("Only what is stocked here.")))
        .parameter(limit())
        .parameter(starting_after())
        .answers(
            Answer::new(200, "A page.").json("ItemPage", json!({ "page": example("All there is", page) })),
        )
        .reads()
}

fn adjust() -> Operation {
    on_one("post", "/v1/inventory/{sku}/adjust", "adjust_stock", TAG)
        .does(
            "Adjust an item's stock",
            "Moves the total by a difference: deliveries, shrinkage, counts. It can't go below what is sold and held. Send \
             an idempotency key: an adjustment that is repeated without one is another adjustment.",
        )
        .keyed()
        .conditional()
        .takes(
            "AdjustRequest",
            json!({
                "delivery": example("Units arrived", json!({ "delta": 24, "reason": "delivery 88" })),
                "broken": example("Units left", json!({ "delta": -1, "reason": "broken" })),
            }),
        )
        .answers(with_etag(200, "The item.").replayable())
        .refuses(&[Reason::UnknownItem, Reason::BelowCommitted])
        .writes()
}

/// Those on the sale of items.
pub(super) fn sales() -> Vec<Operation> {
    let everything = "Of one location, or of everything when `location` is left out. Reservations that exist can still be \
        confirmed, extended, released and returned, and still expire. It survives a restart.";
    let item = "Reservations that exist can still be confirmed, extended, released and returned, and still expire. A \
        pause changes neither the item's version nor its sequence.";
    let resumed = "What else is paused stays so: the item's location, or everything.";
    let location = || in_query("location", label("Only what is stocked here."));
    let sale = |operation: Operation, paused: bool| {
        let why = if paused { "count" } else { "counted" };
        let also = vec![Scope::Location(made_label("hub-9"))];
        let sale = encode::Sale { paused, also: Some(also), has_items: None };
        let shown = written(|out| encode::sale(out, &sale));
        operation
            .may_take("SaleRequest", json!({ "why": example("With a reason", json!({ "reason": why })) }))
            .answers(
                Answer::new(200, "As it is now.")
                    .json("Sale", json!({ "sale": example("As it is now", shown) })),
            )
            .writes()
    };
    let of_one = |path, id| on_one("post", path, id, SALE).refuses(&[Reason::UnknownItem]);
    let paused = encode::Sale { paused: false, also: Some(vec![Scope::Everything]), has_items: Some(true) };
    let shown = written(|out| encode::sale(out, &paused));
    vec![
        Operation::new("get", "/v1/sale", "get_sale", SALE)
            .does(
                "Read what is paused",
                "Of everything, with the locations that are paused by themselves; or of one location. An item says itself \
                 whether it is paused.",
            )
            .parameter(location())
            .answers(
                Answer::new(200, "As it is now.")
                    .json("Sale", json!({ "sale": example("A location, while everything is paused", shown) })),
            )
            .reads(),
        sale(of_one("/v1/inventory/{sku}/pause", "pause_item").does("Pause the sale of an item", item), true),
        sale(
            of_one("/v1/inventory/{sku}/resume", "resume_item").does("Resume the sale of an item", resumed),
            false,
        ),
        sale(
            Operation::new("post", "/v1/sale/pause", "pause_sale", SALE)
                .does("Pause the sale of a location or of everything", everything)
                .parameter(location()),
            true,
        ),
        sale(
            Operation::new("post", "/v1/sale/resume", "resume_sale", SALE)
                .does(
                    "Resume the sale of a location or of everything",
                    "What was paused by itself stays so: an item, or a location when everything is resumed.",
                )
                .parameter(location()),
            false,
        ),
    ]
}
