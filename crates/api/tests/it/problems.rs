//! The whole text of every kind of refusal.

use crate::samples::{at, id, key, label, written};
use std::collections::BTreeSet;
use stockhold_api::decode::Invalid;
use stockhold_api::problem::{Problem, Reason, page_html};
use stockhold_api::wire;
use stockhold_domain::{
    FieldError, Mode, Rejection, RequestId, SaleWindow, Scope, Shortage, UnavailableUnits, UnitStatus,
};
use stockhold_store::Failure;

/// Asserts the detail, and what stands behind the request id.
#[track_caller]
fn check(problem: impl Into<Problem>, reason: Reason, detail: &str, fields: &str) {
    let problem = problem.into();
    assert_eq!(problem.reason(), reason);
    let json = written(|out| problem.write(out, &RequestId::Given(label("r \"1\""))));
    let head = format!(
        r#"{{"type":"/problems/{name}","title":"{}","status":{},"detail":{},"reason":"{name}","retryable":{},"request_id":"r \"1\"""#,
        reason.title(),
        reason.status(),
        serde_json::to_string(detail).unwrap(),
        reason.retryable(),
        name = reason.name(),
    );
    assert_eq!(json, format!("{head}{fields}}}"));
    let read: wire::Problem = serde_json::from_str(&json).unwrap();
    assert_eq!((&*read.reason, read.status, &*read.detail), (reason.name(), reason.status(), detail));
}

fn short(sku: &str, requested: u64, available: u64, next: Option<i64>) -> Shortage {
    Shortage {
        item: key("default", sku),
        requested,
        available,
        next_expiry_at: next.map(at),
        unknown_sections: Vec::new(),
        approximate: false,
    }
}

#[test]
fn shortages_that_a_gate_knows() {
    let approximate = |line| Shortage { approximate: true, ..line };
    check(
        Rejection::InsufficientInventory(vec![approximate(short("tea", 1, 0, None))]),
        Reason::InsufficientInventory,
        "Sold out. No unit is available of item \"tea\" at location \"default\". The figures come from a gate, which may be \
         behind the store.",
        concat!(
            r#","lines":[{"sku":"tea","location":"default","requested_quantity":1,"available":0,"approximate":true}],"#,
            r#""available":0,"approximate":true"#
        ),
    );
    check(
        Rejection::InsufficientInventory(vec![
            short("a", 2, 1, Some(9)),
            approximate(short("b", 2, 0, None)),
        ]),
        Reason::InsufficientInventory,
        "Too little is left: 1 of the 2 requested units of item \"a\" at location \"default\", 0 of the 2 \
         requested units of item \"b\" at location \"default\". The figures come from a gate, which may be behind the \
         store. Or request less.",
        concat!(
            r#","lines":[{"sku":"a","location":"default","requested_quantity":2,"available":1,"#,
            r#""next_expiry_at":"2023-11-14T22:13:20.009Z"},{"sku":"b","location":"default","#,
            r#""requested_quantity":2,"available":0,"approximate":true}],"approximate":true"#
        ),
    );
    let short: wire::ShortLine = serde_json::from_str(
        r#"{"sku":"b","location":"hub","requested_quantity":2,"available":0,"approximate":true}"#,
    )
    .unwrap();
    assert!(short.approximate);
}

#[test]
fn shortages() {
    check(
        Rejection::InsufficientInventory(vec![short("tea", 5_000, 2, Some(1_500))]),
        Reason::InsufficientInventory,
        "Too little is left: 2 of the 5,000 requested units of item \"tea\" at location \"default\". Units may become \
         available when holds expire, from 2023-11-14T22:13:21.500Z on. Or request less.",
        concat!(
            r#","lines":[{"sku":"tea","location":"default","requested_quantity":5000,"available":2,"#,
            r#""next_expiry_at":"2023-11-14T22:13:21.500Z"}],"available":2,"#,
            r#""next_expiry_at":"2023-11-14T22:13:21.500Z""#
        ),
    );
    check(
        Rejection::InsufficientInventory(vec![short("tea", 1, 0, None)]),
        Reason::InsufficientInventory,
        "Sold out. No unit is available of item \"tea\" at location \"default\". No hold that could expire would help.",
        concat!(
            r#","lines":[{"sku":"tea","location":"default","requested_quantity":1,"available":0}],"#,
            r#""available":0"#
        ),
    );
    check(
        Rejection::InsufficientInventory(vec![short("a", 2, 1, Some(9)), short("b", 2, 0, Some(3))]),
        Reason::InsufficientInventory,
        "Too little is left: 1 of the 2 requested units of item \"a\" at location \"default\", 0 of the 2 \
         requested units of item \"b\" at location \"default\". Units may become available when holds expire, from \
         2023-11-14T22:13:20.009Z on. Or request less.",
        concat!(
            r#","lines":[{"sku":"a","location":"default","requested_quantity":2,"available":1,"#,
            r#""next_expiry_at":"2023-11-14T22:13:20.009Z"},{"sku":"b","location":"default","#,
            r#""requested_quantity":2,"available":0,"next_expiry_at":"2023-11-14T22:13:20.003Z"}]"#
        ),
    );
}

#[test]
fn sections_that_do_not_exist() {
    let unknown = |line: Shortage, sections: &[&str]| Shortage {
        unknown_sections: sections.iter().map(|section| label(section)).collect(),
        ..line
    };
    check(
        Rejection::InsufficientInventory(vec![unknown(short("hall", 2, 0, Some(9)), &["balkony", "box"])]),
        Reason::InsufficientInventory,
        "These sections do not exist: \"balkony\", \"box\" of item \"hall\" at location \"default\". Too little is left: 0 \
         of the 2 requested units of item \"hall\" at location \"default\". Check the names, or choose other sections.",
        concat!(
            r#","lines":[{"sku":"hall","location":"default","requested_quantity":2,"available":0,"#,
            r#""next_expiry_at":"2023-11-14T22:13:20.009Z","unknown_sections":["balkony","box"]}],"available":0,"#,
            r#""next_expiry_at":"2023-11-14T22:13:20.009Z","unknown_sections":["balkony","box"]"#
        ),
    );
}

#[test]
fn a_request_for_the_other_mode() {
    check(
        Rejection::ModeMismatch { item: key("default", "tea"), mode: Mode::Counted },
        Reason::ModeMismatch,
        "Item \"tea\" at location \"default\" counts its units, so they have no ids, sections or rows. The mode never \
         changes. Send a quantity. To sell units with ids, create another item with \"mode\": \"units\".",
        r#","sku":"tea","location":"default","mode":"counted""#,
    );
    check(
        Rejection::ModeMismatch { item: key("hub", "hall"), mode: Mode::Units },
        Reason::ModeMismatch,
        "Item \"hall\" at location \"hub\" has units with ids. The mode never changes, and the total is the number of units. \
         Add and retire units one by one. Only items that count their units can have pools. To count units, create another \
         item.",
        r#","sku":"hall","location":"hub","mode":"units""#,
    );
}

#[test]
fn items_and_sales() {
    check(
        Rejection::UnknownItem(vec![key("hub", "tea")]),
        Reason::UnknownItem,
        "There is no item \"tea\" at location \"hub\". Check the SKU and the location, or create the item with \
         PUT /v1/inventory/{sku}.",
        r#","items":[{"sku":"tea","location":"hub"}]"#,
    );
    let many = ["a", "b", "c", "d", "e"].map(|sku| key("h", sku)).to_vec();
    let problem = Problem::from(Rejection::UnknownItem(many));
    assert!(problem.detail().contains("item \"c\" at location \"h\", and 2 more."), "{}", problem.detail());
    let paused = "is paused. No new reservations are made until it is resumed. Existing ones can be confirmed, \
                  extended and released.";
    for (scope, what, fields) in [
        (Scope::Everything, "The sale of everything", r#","scope":"everything""#),
        (
            Scope::Location(label("hub")),
            "The sale at location \"hub\"",
            r#","scope":"location","location":"hub""#,
        ),
        (
            Scope::Item(key("hub", "tea")),
            "The sale of item \"tea\" at location \"hub\"",
            r#","scope":"item","sku":"tea","location":"hub""#,
        ),
    ] {
        check(Rejection::SalePaused(scope), Reason::SalePaused, &format!("{what} {paused}"), fields);
    }
    check(
        Rejection::QuantityLimit { item: Some(key("hub", "tea")), requested: 1_000_001, limit: 1_000_000 },
        Reason::QuantityLimit,
        "1,000,001 units of item \"tea\" at location \"hub\" were requested. One reservation may hold at most \
         1,000,000. Request less, or make several reservations.",
        r#","sku":"tea","location":"hub","requested_quantity":1000001,"limit":1000000"#,
    );
    check(
        Rejection::QuantityLimit { item: Some(key("hub", "hall")), requested: 2_000_000, limit: 10_000 },
        Reason::QuantityLimit,
        "2,000,000 units of item \"hall\" at location \"hub\" were requested. One reservation may hold at most \
         10,000. Request less, or make several reservations.",
        r#","sku":"hall","location":"hub","requested_quantity":2000000,"limit":10000"#,
    );
    check(
        Rejection::QuantityLimit { item: None, requested: 20_000_000, limit: 10_000 },
        Reason::QuantityLimit,
        "20,000,000 units with ids in all lines together were requested. One reservation may hold at most 10,000. \
         Request less, or make several reservations.",
        r#","requested_quantity":20000000,"limit":10000"#,
    );
    check(
        Rejection::BelowCommitted { confirmed_sold: 1_200, held: 34, total_units: 2_000, set_aside: 60 },
        Reason::BelowCommitted,
        "Sold: 1,200 units, held: 34 units, set aside by pools: 60 units, free: 706. Nothing was changed, the total stays at \
         2,000. The total and the oversell allowance together can't be below 1,294, and the total not below what has left the \
         shelf or what pools have. A pool can't have less than was drawn from it, and can be given only free units. Set \
         another number, or release reservations or pools first.",
        r#","confirmed_sold":1200,"held_units":34,"total_units":2000,"set_aside":60,"free":706"#,
    );
    check(
        Rejection::UnknownPool { item: key("hub", "tea"), pool: label("vip") },
        Reason::UnknownPool,
        "Item \"tea\" at location \"hub\" has no pool \"vip\". GET /v1/inventory/{sku}/pools lists its pools.",
        r#","sku":"tea","location":"hub","pool":"vip""#,
    );
    check(
        Rejection::TooManyPools(key("hub", "tea")),
        Reason::TooManyPools,
        "Item \"tea\" at location \"hub\" has 16 pools. Delete one that is no longer needed. A released pool counts until the \
         units that were drawn from it have come back.",
        r#","sku":"tea","location":"hub","limit":16"#,
    );
    check(
        Rejection::ItemInUse { confirmed_sold: 1, held: 0, units: 1_200 },
        Reason::ItemInUse,
        "The item can't be deleted. It has 1 unit sold (return them), 1,200 units existing with an id (retire them). Delete \
         the item after that.",
        r#","confirmed_sold":1,"held_units":0,"unit_count":1200"#,
    );
    check(
        Rejection::PreconditionFailed { version: Some(4) },
        Reason::PreconditionFailed,
        "The version is 4, which does not meet If-Match or If-None-Match. Read it again and repeat the change with \
         If-Match: \"4\".",
        r#","version":4"#,
    );
    check(
        Rejection::PreconditionFailed { version: None },
        Reason::PreconditionFailed,
        "The item does not exist, so it has no version to match. PUT without If-Match creates it.",
        "",
    );
}

#[test]
fn what_is_said_of_where_and_how_something_was_sent() {
    check(
        Problem::compressed("gzip"),
        Reason::UnsupportedMediaType,
        "The body has Content-Encoding: gzip. Send it uncompressed.",
        "",
    );
    check(
        Problem::unknown_route("/readyz"),
        Reason::UnknownRoute,
        "/readyz is on the admin listener. `stockhold config` shows its address.",
        "",
    );
    check(
        Problem::beyond_newest(41, 40),
        Reason::PositionOutOfRange,
        "Position 41 is beyond the newest event, which is at position 40. The position comes from another history, for \
         example from before a restore. Compare your events with GET /v1/events, and continue with after=40.",
        r#","newest_position":40"#,
    );
    check(
        Problem::archived(3, 7),
        Reason::PositionOutOfRange,
        "The events after position 3 are not complete here: events up to position 7 are archived. Read those from the \
         archive, and continue here with after=7.",
        r#","archived_through":7"#,
    );
}

#[test]
fn reservations() {
    let name = id().to_string();
    let named = |text: &str| text.replace("ID", &name);
    check(
        Rejection::UnknownReservation(id()),
        Reason::UnknownReservation,
        &named("There is no reservation ID. Check the id in the answer to the reserve."),
        "",
    );
    check(
        Rejection::ReservationConfirmed { id: id(), order_id: None, payment_id: None },
        Reason::ReservationConfirmed,
        &named(
            "Reservation ID is confirmed without an order. To return sold units, use POST \
             /v1/reservations/ID/return.",
        ),
        "",
    );
    check(
        Rejection::ReservationConfirmed {
            id: id(),
            order_id: Some(label("o-1")),
            payment_id: Some(label("p-1")),
        },
        Reason::ReservationConfirmed,
        &named(
            "Reservation ID is confirmed for order \"o-1\" with payment \"p-1\". To return sold units, use POST \
             /v1/reservations/ID/return.",
        ),
        r#","order_id":"o-1","payment_id":"p-1""#,
    );
}

#[test]
fn changed_reservations() {
    let name = id().to_string();
    let named = |text: &str| text.replace("ID", &name);
    check(
        Rejection::PaymentInProgress { id: id(), payment_id: label("p-1"), until: at(1) },
        Reason::PaymentInProgress,
        &named(
            "Payment \"p-1\" of reservation ID is open until 2023-11-14T22:13:20.001Z. Confirm the reservation with this \
             payment_id, or close the payment with DELETE /v1/reservations/ID/payment, and try again. The payment of a checkout goes on \
             by itself: wait for it, or give it up with POST /v1/reservations/ID/checkout/cancel.",
        ),
        r#","payment_id":"p-1","until":"2023-11-14T22:13:20.001Z""#,
    );
    check(
        Rejection::SplitExceedsHeld { item: key("hub", "tea"), requested: 1_200, held: 1 },
        Reason::SplitExceedsHeld,
        "The split has 1,200 units of item \"tea\" at location \"hub\", but the reservation holds 1. Split off 1 or fewer.",
        r#","sku":"tea","location":"hub","requested_quantity":1200,"held_units":1"#,
    );
    check(
        Rejection::FulfilExceedsSold { item: key("hub", "tea"), requested: 1, unfulfilled: 0 },
        Reason::FulfilExceedsSold,
        "1 unit of item \"tea\" at location \"hub\" would be fulfilled, but only 0 of this reservation are sold and neither \
         fulfilled nor returned. Fulfil 0 or fewer.",
        r#","sku":"tea","location":"hub","requested_quantity":1,"unfulfilled_units":0"#,
    );
    for (window, detail, field) in [
        (
            SaleWindow::NotStarted(at(1)),
            "The sale of item \"tea\" at location \"hub\" begins at 2023-11-14T22:13:20.001Z. Try again then.",
            r#""starts_at":"2023-11-14T22:13:20.001Z""#,
        ),
        (
            SaleWindow::Ended(at(1)),
            "The sale of item \"tea\" at location \"hub\" ended at 2023-11-14T22:13:20.001Z. No new reservations are made. \
             Existing ones can be confirmed, extended and released.",
            r#""ended_at":"2023-11-14T22:13:20.001Z""#,
        ),
    ] {
        check(
            Rejection::OutsideSaleWindow { item: key("hub", "tea"), window },
            Reason::SalePaused,
            detail,
            &format!(r#","scope":"item","sku":"tea","location":"hub",{field}"#),
        );
    }
    check(
        Rejection::ExceedsOnHand { item: key("hub", "tea"), requested: 5, on_hand: 3 },
        Reason::FulfilExceedsOnHand,
        "5 units of item \"tea\" at location \"hub\" would leave the shelf, but only 3 are on it: the others are backordered. \
         Move 3 or fewer, or receive the delivery first.",
        r#","sku":"tea","location":"hub","requested_quantity":5,"on_hand":3"#,
    );
    check(
        Rejection::UnknownSupply { item: key("hub", "tea"), supply_id: label("po-1") },
        Reason::UnknownSupply,
        "No delivery \"po-1\" is expected of item \"tea\" at location \"hub\". `incoming` of the item lists those that are.",
        r#","sku":"tea","location":"hub","supply_id":"po-1""#,
    );
    check(
        Rejection::StockOwnedElsewhere { item: key("hub", "tea"), stock_master: label("erp") },
        Reason::StockOwnedElsewhere,
        "The total of item \"tea\" at location \"hub\" is owned by the stock master \"erp\". Change it there, or send \
         `override` to change it here until the next pull.",
        r#","sku":"tea","location":"hub","stock_master":"erp""#,
    );
    let refusal = Box::new(Rejection::SalePaused(Scope::Location(label("hub"))));
    check(
        Rejection::NotReacquired { id: id(), refusal },
        Reason::SalePaused,
        &named(
            "Reservation ID has expired, and its units can't be taken again. The sale at location \"hub\" is paused. No new \
             reservations are made until it is resumed. Existing ones can be confirmed, extended and released.",
        ),
        r#","reservation_expired":true,"scope":"location","location":"hub""#,
    );
}

#[test]
fn ended_reservations() {
    let name = id().to_string();
    let named = |text: &str| text.replace("ID", &name);
    check(
        Rejection::ReservationCancelled(id()),
        Reason::ReservationCancelled,
        &named("Reservation ID was released and its units are available again. Make a new reservation."),
        "",
    );
    check(
        Rejection::ReservationExpired { id: id(), expires_at: at(1) },
        Reason::ReservationExpired,
        &named(
            "Reservation ID expired at 2023-11-14T22:13:20.001Z and its units are available again. Make a new reservation.",
        ),
        r#","expires_at":"2023-11-14T22:13:20.001Z""#,
    );
    check(
        Rejection::ReservationNotConfirmed(id()),
        Reason::ReservationNotConfirmed,
        &named(
            "Reservation ID is not confirmed, so it has no sold units to fulfil or return. To release it, use DELETE /v1/reservations/ID.",
        ),
        "",
    );
    check(
        Rejection::ExtensionLimit { max_expires_at: at(2) },
        Reason::ExtensionLimit,
        "The deadline of this reservation can't be later than 2023-11-14T22:13:20.002Z. Confirm it before \
         then, or make a new reservation.",
        r#","max_expires_at":"2023-11-14T22:13:20.002Z""#,
    );
    check(
        Rejection::ReturnExceedsSold { item: key("h", "tea"), requested: 5, sold: 3 },
        Reason::ReturnExceedsSold,
        "The return has 5 units of item \"tea\" at location \"h\", but only 3 of this reservation are sold and not yet \
         returned. Return 3 or fewer.",
        r#","sku":"tea","location":"h","requested_quantity":5,"confirmed_sold":3"#,
    );
    check(
        Rejection::IdempotencyMismatch,
        Reason::IdempotencyMismatch,
        "This idempotency key was used for another request. Nothing was done. Repeat that request unchanged to see \
         its answer, or send a new key.",
        "",
    );
}

#[test]
fn requests_that_are_wrong() {
    let error =
        |pointer: &str, detail: &str| FieldError { pointer: pointer.into(), detail: detail.to_owned() };
    check(
        Rejection::InvalidRequest(error("/pool", "is no pool")),
        Reason::InvalidRequest,
        "The request is not possible: /pool is no pool.",
        r#","errors":[{"in":"body","pointer":"/pool","detail":"is no pool"}]"#,
    );
    check(
        Invalid {
            errors: vec![
                error("", "must be a \"JSON\" object").into(),
                error("/sku", "must not be empty").into(),
            ],
        },
        Reason::InvalidRequest,
        "The request is invalid: the body must be a \"JSON\" object; sku in the path must not be empty.",
        concat!(
            r#","errors":[{"in":"body","pointer":"","detail":"must be a \"JSON\" object"},"#,
            r#"{"in":"path","pointer":"/sku","detail":"must not be empty"}]"#
        ),
    );
    let route = "There is no path /x\"y. / lists the paths, /docs describes them.";
    check(Problem::unknown_route("/x\"y"), Reason::UnknownRoute, route, "");
    let admin = "There is no path /x on the admin listener. It has /livez, /readyz, /startupz and /metrics.";
    check(Problem::unknown_admin_route("/x"), Reason::UnknownRoute, admin, "");
    let origin = "A browser sent this request for a page of \"http://x\". Pages of other origins may not change anything, so \
                  nothing was done. Send the request from a server, without an Origin header.";
    check(Problem::foreign_origin("http://x"), Reason::Forbidden, origin, "");
    let head = "The request line and the headers may have at most 16,384 bytes, and at most 100 headers are read. Send \
                fewer or shorter headers.";
    check(Problem::head_too_large(16_384), Reason::HeadersTooLarge, head, r#","limit":16384"#);
    let unread = "The request can't be read: it is no HTTP. The connection is closed.";
    let errors = r#","errors":[{"in":"body","pointer":"","detail":"is no HTTP"}]"#;
    check(Problem::unreadable("is no HTTP"), Reason::InvalidRequest, unread, errors);
    let streams = "256 event streams are open, which is the limit. Try again after the time in Retry-After, or read \
                   GET /v1/events.";
    check(Problem::too_many_streams(256), Reason::Overloaded, streams, "");
    let method = "This path does not take PATCH. Use GET, PUT.";
    check(Problem::method_not_allowed("PATCH", "GET, PUT"), Reason::MethodNotAllowed, method, "");
    let large = "The body may have at most 65,536 bytes. Send several smaller requests.";
    check(Problem::too_large(65_536), Reason::TooLarge, large, r#","limit":65536"#);
    let media = "The body's type is \"text/plain\". Send JSON with Content-Type: application/json.";
    check(Problem::unsupported_media_type("text/plain"), Reason::UnsupportedMediaType, media, "");
}

#[test]
fn failures_say_nothing_of_the_inside() {
    for (failure, reason) in [
        (Failure::Overloaded, Reason::Overloaded),
        (Failure::Unavailable("/secret/path".to_owned()), Reason::Unavailable),
        (Failure::OutcomeUnknown, Reason::OutcomeUnknown),
        (Failure::Internal("/secret/path".to_owned()), Reason::Internal),
    ] {
        let problem = Problem::from(&failure);
        let json = written(|out| problem.write(out, &RequestId::Made(id().as_u128())));
        assert_eq!(problem.reason(), reason);
        assert!(!json.contains("secret"), "{json}");
        assert!(json.ends_with(r#""request_id":"018bcfe5-6800-7fff-bfff-ffffffffffff"}"#), "{json}");
        assert_eq!(reason.retry_after().is_some(), reason.status() == 503);
    }
}

#[test]
fn units() {
    let units = |sku, ids: &[&str]| UnavailableUnits {
        item: key("default", sku),
        units: ids.iter().map(|id| label(id)).collect(),
        unknown: ids.iter().filter(|id| id.starts_with('?')).map(|id| label(id)).collect(),
        next_expiry_at: ids.contains(&"1").then(|| at(90)),
    };
    check(
        Rejection::UnitsUnavailable(vec![units("a", &["1", "2", "3", "4"]), units("b", &["\"", "?"])]),
        Reason::UnitsUnavailable,
        "These units are held or sold: \"1\", \"2\", \"3\", and 1 more of item \"a\" at location \"default\", \"\"\" of item \
         \"b\" at location \"default\". These units do not exist: \"?\" of item \"b\" at location \"default\". Check the ids. \
         Nothing was held. Choose other units.",
        concat!(
            r#","taken":[{"sku":"a","location":"default","units":["1","2","3","4"]},"#,
            r#"{"sku":"b","location":"default","units":["\"","?"]}],"units":["1","2","3","4","\"","?"],"unknown_units":["?"]"#
        ),
    );
    check(
        Rejection::UnknownUnit { item: key("default", "a"), unit: label("1") },
        Reason::UnknownUnit,
        "Item \"a\" at location \"default\" has no unit \"1\". GET /v1/inventory/{sku}/units lists its units.",
        r#","sku":"a","location":"default","unit_id":"1""#,
    );
    check(
        Rejection::UnitInUse { item: key("default", "a"), unit: label("1"), status: UnitStatus::Held(id()) },
        Reason::UnitInUse,
        "Unit \"1\" of item \"a\" at location \"default\" is held. It can be retired when its reservation was released or has \
         expired.",
        concat!(
            r#","sku":"a","location":"default","unit_id":"1","unit_status":"held","#,
            r#""reservation_id":"018bcfe5-6800-7fff-bfff-ffffffffffff""#
        ),
    );
}

#[test]
fn programs_retry_what_is_not_the_request_s_fault() {
    for reason in Reason::ALL {
        assert_eq!(reason.retryable(), matches!(reason.status(), 408 | 429 | 500 | 503), "{reason:?}");
        assert_eq!(reason.retry_after().is_some(), reason.status() == 503, "{reason:?}");
        assert_eq!(Reason::from_name(reason.name()), Some(*reason));
    }
    let names: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(names.len(), Reason::ALL.len());
    assert_eq!(Reason::from_name("nonsense"), None);
}

#[test]
fn every_reason_has_a_page_whose_example_is_a_problem_of_its_own() {
    for reason in Reason::ALL {
        let page = reason.page();
        let name = reason.name();
        let mut headings = page.lines().filter(|line| line.starts_with('#'));
        assert_eq!(headings.next(), Some(&*format!("# {name}: {}", reason.title())));
        let rest: Vec<_> = headings.collect();
        assert_eq!(rest, ["## What it means", "## Why it happens", "## What to do", "## Example"], "{name}");
        let again = if reason.retryable() { "may" } else { "must not" };
        let line = format!("Status {}. A program {again} retry the same request.", reason.status());
        assert!(page.lines().any(|found| found == line), "{name}: {line}");

        let example = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect(name);
        let problem: wire::Problem =
            serde_json::from_str(example).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(problem.kind, format!("/problems/{name}"));
        assert_eq!((&*problem.reason, &*problem.title), (name, reason.title()));
        assert_eq!((problem.status, problem.retryable), (reason.status(), reason.retryable()), "{name}");

        let html = page_html(*reason);
        assert!(html.starts_with("<!doctype html>"), "{name}");
        assert!(html.contains(&format!("<title>{name}: ")), "{name}");
        assert!(html.contains("<h2>What to do</h2>") && html.contains("<pre>"), "{name}");
    }
}
