//! The operations on reservations.

use super::answers::STATUSES;
use super::lists::{limit, starting_after};
use super::operation::{Answer, Operation, in_path, in_query};
use super::samples::{basket, cart, extended, released, reservation, returned, seats, sold, written};
use super::schema::{label, location, uuid, with, word};
use crate::decode::BASKET_BODY_BYTES;
use crate::encode;
use crate::problem::Reason;
use serde_json::{Value, json};

const TAG: &str = "Reservations";
/// An id for the examples.
const ID: &str = "018bcfe5-6800-7fff-bfff-ffffffffffff";

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    vec![reserve(), reserve_basket(), one(), list(), confirm(), extend(), release(), take_back()]
}

/// Why a reservation can't move any more.
const ENDED: [Reason; 3] =
    [Reason::ReservationConfirmed, Reason::ReservationCancelled, Reason::ReservationExpired];

pub(super) fn sku() -> Value {
    in_path("sku", label("What: a SKU, percent-encoded (a slash in it is `%2F`)."), "tea")
}

pub(super) fn at_location() -> Value {
    in_query("location", location("Where it is stocked."))
}

pub(super) fn example(summary: &str, value: Value) -> Value {
    json!({ "summary": summary, "value": value })
}

fn id() -> Value {
    in_path("reservation_id", uuid("The reservation's id, as the reserve was answered with it."), ID)
}

/// A path under one reservation.
pub(super) fn on_one(method: &'static str, path: &'static str, operation: &'static str) -> Operation {
    Operation::new(method, path, operation, TAG).parameter(id()).refuses(&[Reason::UnknownReservation])
}

fn shown(description: &str, examples: Value) -> Answer {
    Answer::new(200, description).json("Reservation", examples)
}

/// What can be done with the reservation of an answer.
fn next() -> Value {
    let link = |operation: &str, description: &str, body: Option<Value>| {
        let mut link = json!({
            "operationId": operation,
            "parameters": { "reservation_id": "$response.body#/reservation_id" },
            "description": description,
        });
        if let Some(body) = body {
            link["requestBody"] = body;
        }
        link
    };
    json!({
        "read": link("get_reservation", "Read it.", None),
        "history": link("get_reservation_events", "Read what happened to it.", None),
        "confirm": link("confirm", "Sell its units.", None),
        "extend": link("extend", "Keep it for longer.", Some(json!({ "ttl_seconds": 600 }))),
        "release": link("release", "Give its units back.", None),
        "return": link("return_units", "Take sold units back.", Some(json!({ "reason": "damaged" }))),
    })
}

fn reserve() -> Operation {
    Operation::new("post", "/v1/inventory/{sku}/reserve", "reserve", TAG)
        .does(
            "Reserve units of one item",
            "Holds units for a time. They are nobody else's until the hold is confirmed, released or expires. Both \
             reserves are one operation for idempotency keys.",
        )
        .parameter(sku())
        .parameter(at_location())
        .keyed()
        .takes(
            "ReserveRequest",
            json!({
                "two": example("Two units for five minutes", json!({
                    "owner_id": "cart-7", "quantity": 2, "ttl_seconds": 300, "channel": "web",
                    "customer_id": "customer-41", "metadata": { "gift": true },
                })),
                "least": example("One unit for as long as the item's holds last", json!({ "owner_id": "cart-7" })),
                "partial": example("What there is of five", json!({
                    "owner_id": "cart-7", "quantity": 5, "fulfilment": "partial",
                })),
                "seats": example("Two seats by their ids", json!({ "owner_id": "cart-7", "units": ["A-12", "A-13"] })),
                "best": example("The best four together, or two and two", json!({
                    "owner_id": "cart-7", "quantity": 4, "adjacent": true, "sections": ["stalls", "balcony"],
                    "min_together": 2,
                })),
            }),
        )
        .answers(
            shown("The reservation.", json!({
                "active": example("Held", reservation(&cart())),
                "seats": example("Seats held", reservation(&seats())),
            }))
                .replayable()
                .links(next()),
        )
        .refuses(&[
            Reason::UnknownItem,
            Reason::SalePaused,
            Reason::QuantityLimit,
            Reason::InsufficientInventory,
            Reason::UnitsUnavailable,
        ])
        .writes()
}

fn reserve_basket() -> Operation {
    Operation::new("post", "/v1/reservations", "reserve_basket", TAG)
        .does(
            "Reserve several items at once",
            "Holds units of up to 2,000 items, atomically: every line in full, or nothing (`fulfilment: partial` takes \
             what there is). Lines that name the same item are summed. All lines share one deadline and one fate.",
        )
        .keyed()
        .takes_up_to(
            BASKET_BODY_BYTES,
            "BasketRequest",
            json!({
                "basket": example("Two items at two locations", json!({
                    "owner_id": "cart-7", "ttl_seconds": 300, "fulfilment": "partial", "lines": [
                        { "sku": "tea", "quantity": 2 },
                        { "sku": "cup", "location": "hub-9", "quantity": 6 },
                    ],
                })),
            }),
        )
        .answers(
            Answer::new(201, "The reservation.")
                .json("Reservation", json!({ "active": example("Held, one item in part", reservation(&basket())) }))
                .header("Location", "Location")
                .replayable()
                .links(next()),
        )
        .refuses(&[
            Reason::UnknownItem,
            Reason::SalePaused,
            Reason::QuantityLimit,
            Reason::InsufficientInventory,
            Reason::UnitsUnavailable,
        ])
        .writes()
}

fn one() -> Operation {
    on_one("get", "/v1/reservations/{reservation_id}", "get_reservation")
        .does("Read a reservation", "Whatever its status is; reservations are kept after they have ended.")
        .answers(shown(
            "The reservation.",
            json!({
                "active": example("Held", reservation(&cart())),
                "cancelled": example("Released", reservation(&released())),
            }),
        ))
        .reads()
}

fn list() -> Operation {
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        encode::reservation(list.entry(out), &cart());
        list.close_page(out, true, Some("00000000000000000000000000000029"));
    });
    Operation::new("get", "/v1/reservations", "list_reservations", TAG)
        .does(
            "List reservations",
            "The newest first; those that all filters apply to. A `sku` without a `location` matches every location.",
        )
        .parameter(in_query("owner_id", label("Whose they are.")))
        .parameter(in_query("sku", label("One of their lines is of this SKU.")))
        .parameter(in_query("location", label("One of their lines is at this location; with a `sku`, that line is.")))
        .parameter(in_query("status", word(&STATUSES, "What their status is now.")))
        .parameter(limit())
        .parameter(starting_after())
        .answers(
            Answer::new(200, "A page.")
                .json("ReservationPage", json!({ "page": example("A page with more behind it", page) })),
        )
        .reads()
}

fn confirm() -> Operation {
    on_one("post", "/v1/reservations/{reservation_id}/confirm", "confirm")
        .does(
            "Confirm a reservation",
            "Its units are sold. Confirming again with the same order, or none, answers the same and does nothing more.",
        )
        .keyed()
        .may_take("ConfirmRequest", json!({
            "order": example("For an order", json!({ "order_id": "order-1001" })),
        }))
        .answers(
            shown("The reservation, confirmed.", json!({ "confirmed": example("Sold", reservation(&sold())) }))
                .replayable(),
        )
        .refuses(&ENDED)
        .writes()
}

fn extend() -> Operation {
    on_one("post", "/v1/reservations/{reservation_id}/extend", "extend")
        .does(
            "Extend a reservation",
            "Moves the deadline to `ttl_seconds` from now, unless it is later already, and never past `max_expires_at`.",
        )
        .keyed()
        .takes("ExtendRequest", json!({ "ten": example("Ten minutes from now", json!({ "ttl_seconds": 600 })) }))
        .answers(
            shown("The reservation.", json!({ "active": example("Held for longer", reservation(&extended(660))) }))
                .replayable(),
        )
        .refuses(&ENDED)
        .refuses(&[Reason::ExtensionLimit])
        .writes()
}

fn release() -> Operation {
    on_one("delete", "/v1/reservations/{reservation_id}", "release")
        .does(
            "Release a reservation",
            "Gives its units back. One that was released or has expired before is answered the same, and nothing is done.",
        )
        .parameter(with(
            in_query("reason", label("Why, kept as `close_reason`.")),
            "example",
            "cart emptied",
        ))
        .keyed()
        .answers(Answer::new(204, "Its units are free.").replayable())
        .refuses(&[Reason::ReservationConfirmed])
        .writes()
}

fn take_back() -> Operation {
    on_one("post", "/v1/reservations/{reservation_id}/return", "return_units")
        .does(
            "Return sold units",
            "Units of a confirmed reservation come back into stock; the reservation stays confirmed and its lines show \
             `returned_quantity`. Send an idempotency key: a return that is repeated without one is another return.",
        )
        .keyed()
        .takes(
            "ReturnRequest",
            json!({
                "some": example("One unit of one item", json!({
                    "lines": [{ "sku": "tea", "quantity": 1 }], "reason": "damaged",
                })),
                "rest": example("Everything that has not come back", json!({ "reason": "order cancelled" })),
            }),
        )
        .answers(
            shown("The reservation.", json!({ "returned": example("One unit is back", reservation(&returned())) }))
                .replayable(),
        )
        .refuses(&[Reason::ReservationNotConfirmed, Reason::ReturnExceedsSold])
        .writes()
}
