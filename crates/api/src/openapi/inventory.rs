//! The operations on items, and on the sale of them.

use super::lists::{limit, starting_after};
use super::operation::{Operation, in_query};
use super::reservations::{at_location, example, example_at, sku, sku_like};
use super::samples::{at, item, label as made_label, written};
use super::schema::label;
use crate::encode;
use crate::routes::RouteId;
use serde_json::{Value, json};
use stockhold_domain::Scope;

/// Those on items.
pub(super) fn operations() -> Vec<Operation> {
    vec![set(), one(), list(), adjust(), delete(), available()]
}

/// A path under one item.
fn on_one(route: RouteId) -> Operation {
    Operation::of(route).parameter(sku()).parameter(at_location())
}

fn shown() -> Value {
    json!({ "item": example("An item", written(|out| encode::item(out, &item()))) })
}

/// The operations that can follow on an item.
fn next() -> Value {
    let link = |operation: &str, description: &str| {
        json!({
            "operationId": operation,
            "parameters": { "sku": "$response.body#/sku", "location": "$response.body#/location" },
            "description": description,
        })
    };
    json!({
        "read": link("get_item", "Read it."),
        "availability": link("get_availability", "Read how many units are available."),
        "reserve": link("reserve", "Hold a unit of it."),
        "adjust": link("adjust_stock", "Change its total."),
        "delete": link("delete_item", "Delete it, if it is not in use."),
        "pause": link("pause_item", "Refuse new reservations."),
        "resume": link("resume_item", "Accept new reservations again."),
    })
}

fn available() -> Operation {
    let shown = written(|out| encode::availability(out, &item(), at(1)));
    on_one(RouteId::GetAvailability)
        .responds(json!({ "availability": example("The item's availability", shown) }))
}

fn set() -> Operation {
    on_one(RouteId::SetStock)
        .requests(json!({
            "total": example("The total", json!({ "total_units": 100 })),
            "settings": example("The total and settings", json!({
                "total_units": 100, "safety_stock": 5, "default_ttl_seconds": 300, "max_hold_seconds": 1800,
                "metadata": { "shelf": "B4" },
            })),
            "elsewhere": example_at(
                "An item at another location",
                json!({ "sku": "cup", "location": "hub-9" }),
                json!({ "total_units": 50 }),
            ),
            "with_ids": example_at(
                "An item whose units have ids",
                json!({ "sku": "concert" }),
                json!({ "mode": "units" }),
            ),
            "mistake": example_at("A mistyped SKU", json!({ "sku": "shrit" }), json!({ "total_units": 1 })),
            "slots": example_at("Slots of a day", json!({ "sku": "room-1" }), json!({ "mode": "units" })),
            "cleared": example("Clear the item's own time to live", json!({
                "total_units": 100, "default_ttl_seconds": null,
            })),
        }))
        .responds(shown())
        .links(next())
}

fn one() -> Operation {
    on_one(RouteId::GetItem).responds(shown())
}

fn list() -> Operation {
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        encode::item(list.entry(out), &item());
        list.close_page(out, false, None);
    });
    Operation::of(RouteId::ListItems)
        .parameter(in_query("location", label("Only items at this location.")))
        .parameter(limit())
        .parameter(starting_after())
        .responds(json!({ "page": example("The last page", page) }))
}

fn adjust() -> Operation {
    on_one(RouteId::AdjustStock)
        .requests(json!({
            "delivery": example("Units arrived", json!({ "delta": 24, "reason": "delivery 88" })),
            "broken": example("Units left", json!({ "delta": -1, "reason": "broken" })),
        }))
        .responds(shown())
}

fn delete() -> Operation {
    Operation::of(RouteId::DeleteItem).parameter(sku_like("shrit")).parameter(at_location())
}

/// Those on the sale of items.
pub(super) fn sales() -> Vec<Operation> {
    let location = || in_query("location", label("Only this location."));
    let sale = |operation: Operation, paused: bool| {
        let why = if paused { "count" } else { "counted" };
        let also = vec![Scope::Location(made_label("hub-9"))];
        let sale = encode::SaleState { paused, also: Some(also), has_items: None };
        let shown = written(|out| encode::sale(out, &sale));
        operation
            .requests(json!({ "why": example("With a reason", json!({ "reason": why })) }))
            .responds(json!({ "sale": example("The current state", shown) }))
    };
    let paused =
        encode::SaleState { paused: false, also: Some(vec![Scope::Everything]), has_items: Some(true) };
    let shown = written(|out| encode::sale(out, &paused));
    vec![
        Operation::of(RouteId::GetSale)
            .parameter(location())
            .responds(json!({ "sale": example("A location, while everything is paused", shown) })),
        sale(on_one(RouteId::PauseItem), true),
        sale(on_one(RouteId::ResumeItem), false),
        sale(Operation::of(RouteId::PauseSale).parameter(location()), true),
        sale(Operation::of(RouteId::ResumeSale).parameter(location()), false),
    ]
}
