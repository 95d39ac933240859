//! The operations on reservations.

use super::answers::STATUSES;
use super::lists::{limit, starting_after};
use super::operation::{Operation, in_path, in_query};
use super::samples::{
    EXAMPLE_IDS, amended, basket, cart, extended, fulfilled, merged, paying, released, reservation, returned,
    seats, sold, split_off, transferred, written,
};
use super::schema::{label, location, moment, uuid, with, word};
use crate::encode;
use crate::routes::RouteId;
use serde_json::{Value, json};

/// All of them.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        reserve(),
        reserve_basket(),
        one(),
        list(),
        amend(),
        extend(),
        transfer(),
        split(),
        merge(),
        open_payment(),
        close_payment(),
        confirm(),
        fulfil(),
        return_units(),
        release(),
    ]
}

pub(crate) fn sku() -> Value {
    sku_like("tea")
}

/// A SKU in the path, with its example.
pub(crate) fn sku_like(example: &str) -> Value {
    in_path("sku", label("The SKU, percent-encoded (a slash in it is `%2F`)."), example)
}

pub(crate) fn at_location() -> Value {
    in_query("location", location("Where the item is stocked."))
}

pub(crate) fn example(summary: &str, value: Value) -> Value {
    json!({ "summary": summary, "value": value })
}

/// An example of a request with other parameters than the examples of the parameters themselves.
pub(crate) fn example_at(summary: &str, parameters: Value, value: Value) -> Value {
    json!({ "summary": summary, "value": value, "x-parameters": parameters })
}

/// A path under one reservation.
pub(crate) fn on_one(route: RouteId) -> Operation {
    Operation::of(route).parameter(in_path("reservation_id", uuid("The reservation's id."), EXAMPLE_IDS[0]))
}

/// The operations that can follow on a reservation.
fn next() -> Value {
    let link = |operation: &str, description: &str| {
        json!({
            "operationId": operation,
            "parameters": { "reservation_id": "$response.body#/reservation_id" },
            "description": description,
        })
    };
    json!({
        "read": link("get_reservation", "Read it."),
        "history": link("get_reservation_events", "Read its history."),
        "confirm": link("confirm", "Sell its units."),
        "extend": link("extend", "Move its deadline."),
        "amend": link("amend", "Change it."),
        "transfer": link("transfer", "Give it to a customer."),
        "pay": link("open_payment", "Keep it while it is paid for."),
        "end_payment": link("close_payment", "End its payment window."),
        "fulfil": link("fulfil", "Record that its units left the shelf."),
        "release": link("release", "Put its units back into stock."),
        "return": link("return_units", "Put sold units back into stock."),
    })
}

fn reserve() -> Operation {
    Operation::of(RouteId::Reserve)
        .parameter(sku())
        .parameter(at_location())
        .requests(json!({
            "two": example("Two units for five minutes", json!({
                "owner_id": "cart-7", "quantity": 2, "ttl_seconds": 300, "channel": "web",
                "customer_id": "customer-41", "metadata": { "gift": true },
            })),
            "least": example("One unit, with the item's default time to live", json!({ "owner_id": "cart-7" })),
            "partial": example("Up to five units, as many as are available", json!({
                "owner_id": "cart-7", "quantity": 5, "fulfilment": "partial",
            })),
            "pool": example("A unit that is set aside in a pool", json!({ "owner_id": "cart-7", "pool": "vip" })),
            "seats": example_at("Two seats by their ids", json!({ "sku": "concert" }), json!({ "owner_id": "cart-7", "units": ["A-12", "A-13"] })),
            "best": example_at("The best four seats together, or two and two", json!({ "sku": "concert" }), json!({
                "owner_id": "cart-7", "quantity": 4, "adjacent": true, "sections": ["stalls", "balcony"],
                "min_together": 2,
            })),
        }))
        .responds(json!({
            "active": example("Held", reservation(&cart())),
            "seats": example("Seats held", reservation(&seats())),
        }))
        .links(next())
}

fn reserve_basket() -> Operation {
    Operation::of(RouteId::ReserveBasket)
        .requests(json!({
            "basket": example("Two items at two locations", json!({
                "owner_id": "cart-7", "ttl_seconds": 300, "fulfilment": "partial", "lines": [
                    { "sku": "tea", "quantity": 2 },
                    { "sku": "cup", "location": "hub-9", "quantity": 6 },
                ],
            })),
        }))
        .responds(json!({ "active": example("Held, one item in part", reservation(&basket())) }))
        .links(next())
}

fn one() -> Operation {
    on_one(RouteId::GetReservation).responds(json!({
        "active": example("Held", reservation(&cart())),
        "cancelled": example("Released", reservation(&released())),
    }))
}

fn list() -> Operation {
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        encode::reservation(list.entry(out), &cart());
        list.close_page(out, true, Some("00000000000000000000000000000029"));
    });
    Operation::of(RouteId::ListReservations)
        .parameter(in_query("owner_id", label("Only this owner's.")))
        .parameter(in_query("sku", label("Only those with a line of this SKU.")))
        .parameter(in_query(
            "location",
            label("Only those with a line at this location. With `sku`: the same line has both."),
        ))
        .parameter(in_query("status", word(&STATUSES, "Only those with this status now.")))
        .parameter(in_query("order_id", label("Only those that were confirmed for this order.")))
        .parameter(in_query("customer_id", label("Only those of this customer.")))
        .parameter(in_query("created_after", moment("Only those that were created at this time or later.")))
        .parameter(in_query(
            "created_before",
            moment("Only those that were created before this time. Later than `created_after`."),
        ))
        .parameter(limit())
        .parameter(starting_after())
        .responds(json!({ "page": example("A page that is not the last", page) }))
}

fn amend() -> Operation {
    on_one(RouteId::Amend)
        .requests(json!({
            "lines": example("One packet less, and two cups", json!({ "lines": [
                { "sku": "tea", "quantity": 1 }, { "sku": "cup", "location": "hub-9", "quantity": 2 },
            ] })),
            "rest": example("Ten minutes from now, with other metadata", json!({
                "ttl_seconds": 600, "metadata": { "gift": false },
            })),
        }))
        .responds(json!({ "amended": example("Changed", reservation(&amended())) }))
}

fn transfer() -> Operation {
    on_one(RouteId::Transfer)
        .requests(json!({
            "login": example("A guest who has logged in", json!({ "customer_id": "customer-90", "session_id": null })),
        }))
        .responds(json!({ "transferred": example("Transferred", reservation(&transferred())) }))
}

fn split() -> Operation {
    on_one(RouteId::Split)
        .requests(json!({
            "one": example("One packet", json!({ "lines": [{ "sku": "tea", "quantity": 1 }] })),
        }))
        .responds(json!({ "new": example("The new reservation", reservation(&split_off())) }))
}

fn merge() -> Operation {
    on_one(RouteId::Merge)
        .requests(json!({ "one": example("Another reservation", json!({ "from": [EXAMPLE_IDS[1]] })) }))
        .responds(json!({ "merged": example("Merged", reservation(&merged())) }))
}

fn open_payment() -> Operation {
    on_one(RouteId::OpenPayment)
        .requests(json!({
            "window": example("Fifteen minutes", json!({ "payment_id": "payment-55", "window_seconds": 900 })),
        }))
        .responds(json!({ "open": example("While it is paid for", reservation(&paying())) }))
}

fn close_payment() -> Operation {
    on_one(RouteId::ClosePayment)
        .parameter(in_query("payment_id", label("The payment. Default: that of the open window.")))
        .parameter(with(in_query("reason", label("Why, for the record.")), "example", "card declined"))
}

fn fulfil() -> Operation {
    on_one(RouteId::Fulfil)
        .requests(json!({
            "some": example("One packet", json!({ "lines": [{ "sku": "tea", "quantity": 1 }] })),
            "all": example("All units that have not left the shelf", json!({})),
        }))
        .responds(json!({ "fulfilled": example("One packet has left the shelf", reservation(&fulfilled())) }))
}

fn confirm() -> Operation {
    on_one(RouteId::Confirm)
        .requests(json!({
            "order": example("For an order", json!({ "order_id": "order-1001" })),
            "late": example("A payment that came late", json!({
                "order_id": "order-1001", "payment_id": "payment-55", "if_expired": "reacquire",
            })),
        }))
        .responds(json!({ "confirmed": example("Sold", reservation(&sold())) }))
}

fn extend() -> Operation {
    on_one(RouteId::Extend)
        .requests(json!({ "ten": example("Ten minutes from now", json!({ "ttl_seconds": 600 })) }))
        .responds(json!({ "active": example("Held for longer", reservation(&extended(660))) }))
}

fn release() -> Operation {
    on_one(RouteId::Release).parameter(with(
        in_query("reason", label("Why. Shown as `close_reason`.")),
        "example",
        "cart emptied",
    ))
}

fn return_units() -> Operation {
    on_one(RouteId::ReturnUnits)
        .requests(json!({
            "some": example("One unit of one item", json!({
                "lines": [{ "sku": "tea", "quantity": 1 }], "disposition": "write_off", "reason": "damaged",
            })),
            "rest": example("All units that have not been returned", json!({ "reason": "order cancelled" })),
        }))
        .responds(json!({ "returned": example("One unit returned", reservation(&returned())) }))
}
