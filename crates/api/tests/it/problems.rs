//! How refusals are told: every kind, whole.

use crate::samples::{at, id, key, label, written};
use std::collections::BTreeSet;
use stockhold_api::decode::Invalid;
use stockhold_api::problem::{Problem, Reason, page_html};
use stockhold_api::wire;
use stockhold_domain::{FieldError, Rejection, RequestId, Scope, Shortage, UnavailableUnits, UnitStatus};
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
    Shortage { item: key("default", sku), requested, available, next_expiry_at: next.map(at) }
}

#[test]
fn shortages() {
    check(
        Rejection::InsufficientInventory(vec![short("tea", 5_000, 2, Some(1_500))]),
        Reason::InsufficientInventory,
        "Too little is left: 2 of the 5,000 requested units of item \"tea\" at location \"default\". Holds fall \
         due: try again after 2023-11-14T22:13:21.500Z, or ask for less.",
        concat!(
            r#","lines":[{"sku":"tea","location":"default","requested_quantity":5000,"available":2,"#,
            r#""next_expiry_at":"2023-11-14T22:13:21.500Z"}],"available":2,"#,
            r#""next_expiry_at":"2023-11-14T22:13:21.500Z""#
        ),
    );
    check(
        Rejection::InsufficientInventory(vec![short("tea", 1, 0, None)]),
        Reason::InsufficientInventory,
        "Too little is left: none of the 1 requested unit of item \"tea\" at location \"default\". No hold that \
         falls due could make up for it: ask for less.",
        concat!(
            r#","lines":[{"sku":"tea","location":"default","requested_quantity":1,"available":0}],"#,
            r#""available":0"#
        ),
    );
    check(
        Rejection::InsufficientInventory(vec![short("a", 2, 1, Some(9)), short("b", 2, 0, Some(3))]),
        Reason::InsufficientInventory,
        "Too little is left: 1 of the 2 requested units of item \"a\" at location \"default\", none of the 2 \
         requested units of item \"b\" at location \"default\". Holds fall due: try again after \
         2023-11-14T22:13:20.009Z, or ask for less.",
        concat!(
            r#","lines":[{"sku":"a","location":"default","requested_quantity":2,"available":1,"#,
            r#""next_expiry_at":"2023-11-14T22:13:20.009Z"},{"sku":"b","location":"default","#,
            r#""requested_quantity":2,"available":0,"next_expiry_at":"2023-11-14T22:13:20.003Z"}]"#
        ),
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
    let paused = "is paused: no new reservation is made until it is resumed. Those that exist can be confirmed, \
                  extended and released. Try again later.";
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
        "1,000,001 units of item \"tea\" at location \"hub\" were requested; one reservation may hold at most \
         1,000,000. Ask for less, or make several reservations.",
        r#","sku":"tea","location":"hub","requested_quantity":1000001,"limit":1000000"#,
    );
    check(
        Rejection::QuantityLimit { item: Some(key("hub", "hall")), requested: 2_000_000, limit: 10_000 },
        Reason::QuantityLimit,
        "2,000,000 units of item \"hall\" at location \"hub\" were requested; one reservation may hold at most \
         10,000. Ask for less, or make several reservations.",
        r#","sku":"hall","location":"hub","requested_quantity":2000000,"limit":10000"#,
    );
    check(
        Rejection::QuantityLimit { item: None, requested: 20_000_000, limit: 10_000 },
        Reason::QuantityLimit,
        "20,000,000 units with ids, of all lines together, were requested; one reservation may hold at most 10,000. \
         Ask for less, or make several reservations.",
        r#","requested_quantity":20000000,"limit":10000"#,
    );
    check(
        Rejection::BelowCommitted { confirmed_sold: 1_200, held: 34, total_units: 2_000 },
        Reason::BelowCommitted,
        "Sold: 1,200 units, held: 34 units, so the total can't go below 1,234; it stays at 2,000. Set 1,234 or more, \
         or release holds first.",
        r#","confirmed_sold":1200,"held_units":34,"total_units":2000"#,
    );
    check(
        Rejection::PreconditionFailed { version: Some(4) },
        Reason::PreconditionFailed,
        "The item is there, at version 4, and that is not what If-Match or If-None-Match asks for. Read it again and \
         repeat the change with If-Match: \"4\".",
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
        "The body is sent with Content-Encoding: gzip. Send it as it is, uncompressed.",
        "",
    );
    check(
        Problem::unknown_route("/readyz"),
        Reason::UnknownRoute,
        "/readyz is on the admin listener, which has an address of its own (`stockhold config`).",
        "",
    );
    check(
        Problem::beyond_newest("/after", 41, 40),
        Reason::InvalidRequest,
        "The newest event is at position 40, and 41 is beyond it: whoever has seen that position has seen a history that \
         is not this one's, as after a restore from a backup. What happened here up to 41 would be missed. Compare what \
         was seen with GET /v1/events, put right what is not in it, and go on after 40.",
        r#","errors":[{"pointer":"/after","detail":"is 41, and the newest event is at 40"}]"#,
    );
}

#[test]
fn reservations() {
    let name = id().to_string();
    let named = |text: &str| text.replace("ID", &name);
    check(
        Rejection::UnknownReservation(id()),
        Reason::UnknownReservation,
        &named("There is no reservation ID. Check the id that the reserve was answered with."),
        "",
    );
    check(
        Rejection::ReservationConfirmed { id: id(), order_id: None },
        Reason::ReservationConfirmed,
        &named(
            "Reservation ID is confirmed without an order and stays so. To give sold units back, use POST \
             /v1/reservations/ID/return.",
        ),
        "",
    );
    check(
        Rejection::ReservationConfirmed { id: id(), order_id: Some(label("o-1")) },
        Reason::ReservationConfirmed,
        &named(
            "Reservation ID is confirmed for order \"o-1\" and stays so. To give sold units back, use POST \
             /v1/reservations/ID/return.",
        ),
        r#","order_id":"o-1""#,
    );
    check(
        Rejection::ReservationCancelled(id()),
        Reason::ReservationCancelled,
        &named("Reservation ID was released and its units are free again. Make a new reservation."),
        "",
    );
    check(
        Rejection::ReservationExpired { id: id(), expires_at: at(1) },
        Reason::ReservationExpired,
        &named(
            "Reservation ID fell due at 2023-11-14T22:13:20.001Z and its units are free again. Make a new reservation.",
        ),
        r#","expires_at":"2023-11-14T22:13:20.001Z""#,
    );
    check(
        Rejection::ReservationNotConfirmed(id()),
        Reason::ReservationNotConfirmed,
        &named(
            "Reservation ID is not confirmed, so nothing of it is sold and nothing can come back. A hold is given up with DELETE /v1/reservations/ID.",
        ),
        "",
    );
    check(
        Rejection::ExtensionLimit { max_expires_at: at(2) },
        Reason::ExtensionLimit,
        "The deadline is 2023-11-14T22:13:20.002Z, the latest that this reservation may have. Confirm it before \
         then, or make a new reservation.",
        r#","max_expires_at":"2023-11-14T22:13:20.002Z""#,
    );
    check(
        Rejection::ReturnExceedsSold { item: key("h", "tea"), requested: 5, sold: 3 },
        Reason::ReturnExceedsSold,
        "5 units of item \"tea\" at location \"h\" should come back; of this reservation 3 can: so many were sold and \
         have not come back yet.",
        r#","sku":"tea","location":"h","requested_quantity":5,"confirmed_sold":3"#,
    );
    check(
        Rejection::IdempotencyMismatch,
        Reason::IdempotencyMismatch,
        "This idempotency key was used before for another request, and nothing was done. Repeat that request \
         unchanged to see its answer, or use a new key for a new one.",
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
        "This is not possible: /pool is no pool.",
        r#","errors":[{"pointer":"/pool","detail":"is no pool"}]"#,
    );
    check(
        Invalid { errors: vec![error("", "must be a \"JSON\" object"), error("/sku", "must not be empty")] },
        Reason::InvalidRequest,
        "The request can't be understood: the body must be a \"JSON\" object; /sku must not be empty.",
        concat!(
            r#","errors":[{"pointer":"","detail":"must be a \"JSON\" object"},"#,
            r#"{"pointer":"/sku","detail":"must not be empty"}]"#
        ),
    );
    let route = "There is nothing at /x\"y. The paths are listed at / and described at /docs.";
    check(Problem::unknown_route("/x\"y"), Reason::UnknownRoute, route, "");
    let admin = "There is nothing at /x. Here are /livez, /readyz, /startupz and /metrics.";
    check(Problem::unknown_admin_route("/x"), Reason::UnknownRoute, admin, "");
    let origin = "A browser sent this for a page of \"http://x\", and nothing was done: pages of other origins may not \
                  change anything here. Send it from a server, without an Origin header.";
    check(Problem::foreign_origin("http://x"), Reason::Forbidden, origin, "");
    let head = "The request line and the headers may have at most 16,384 bytes, and be at most 100. Send fewer or \
                shorter headers.";
    check(Problem::head_too_large(16_384), Reason::TooLarge, head, r#","limit":16384"#);
    let unread = "What was sent can't be read: it is no HTTP. The connection is closed.";
    let errors = r#","errors":[{"pointer":"","detail":"is no HTTP"}]"#;
    check(Problem::unreadable("is no HTTP"), Reason::InvalidRequest, unread, errors);
    let streams = "256 event streams are open, which is as many as there may be. Try again after the time in Retry-After, \
                   or read GET /v1/events.";
    check(Problem::too_many_streams(256), Reason::Overloaded, streams, "");
    let method = "PATCH is not possible here. Use GET, PUT.";
    check(Problem::method_not_allowed("PATCH", "GET, PUT"), Reason::MethodNotAllowed, method, "");
    let large = "The body may have at most 65,536 bytes. Send less at a time.";
    check(Problem::too_large(65_536), Reason::TooLarge, large, r#","limit":65536"#);
    let media = "The body is sent as \"text/plain\". Send JSON, with Content-Type: application/json.";
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
    };
    check(
        Rejection::UnitsUnavailable(vec![units("a", &["1", "2", "3", "4"]), units("b", &["\""])]),
        Reason::UnitsUnavailable,
        "Units are held, sold or unknown: \"1\", \"2\", \"3\", and 1 more of item \"a\" at location \"default\", \"\"\" of item \
         \"b\" at location \"default\". Nothing was held. Choose others, or try again later: holds that are not confirmed come \
         back.",
        concat!(
            r#","taken":[{"sku":"a","location":"default","units":["1","2","3","4"]},"#,
            r#"{"sku":"b","location":"default","units":["\""]}],"units":["1","2","3","4","\""]"#
        ),
    );
    check(
        Rejection::UnknownUnit { item: key("default", "a"), unit: label("1") },
        Reason::UnknownUnit,
        "Item \"a\" at location \"default\" has no unit \"1\". GET /v1/inventory/{sku}/units lists those it has.",
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
fn reasons_agree_with_the_rules_on_what_to_try_again() {
    for rejection in [
        Rejection::SalePaused(Scope::Everything),
        Rejection::InsufficientInventory(Vec::new()),
        Rejection::UnitsUnavailable(Vec::new()),
        Rejection::UnitInUse { item: key("h", "s"), unit: label("u"), status: UnitStatus::Sold(id()) },
        Rejection::IdempotencyMismatch,
        Rejection::UnknownReservation(id()),
        Rejection::ReservationExpired { id: id(), expires_at: at(0) },
        Rejection::QuantityLimit { item: Some(key("h", "s")), requested: 0, limit: 0 },
    ] {
        assert_eq!(Reason::of(&rejection).retryable(), rejection.retryable(), "{rejection:?}");
    }
    for reason in Reason::ALL {
        // Neither has anything to do with what was asked.
        let server_side = matches!(reason.status(), 408 | 429 | 500 | 503);
        let stock =
            matches!(reason, Reason::InsufficientInventory | Reason::UnitsUnavailable | Reason::SalePaused);
        assert_eq!(reason.retryable(), server_side || stock, "{reason:?}");
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
        let again = if reason.retryable() { "may succeed later" } else { "will be refused again" };
        let line = format!("Status {}. The same request, unchanged, {again}.", reason.status());
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
