//! The profiles: what their requests become, what is refused with which word, and what their answers look like.

use crate::samples::{ID, at, hold, id, item, key, label, refused, written};
use stockhold_api::decode::Invalid;
use stockhold_api::problem::{Problem, Reason};
use stockhold_api::profiles::hub::{self, HOLD};
use stockhold_api::profiles::{ErrorCode, Profile, Shape, storefront, write_error, write_reservation};
use stockhold_domain::{Command, Hold, Rejection, ReserveTerms, Seconds, Status};
use stockhold_store::Failure;

const HUB_RESERVE: &str =
    r#"{"hub_id":"hub-1","sku":"tea","qty":2,"order_id":"order-1","user_id":"user-9","app":{"version":[3]}}"#;

fn error(profile: Profile, problem: &Problem) -> (u16, String) {
    let mut status = 0;
    let body = written(|out| status = write_error(out, profile, problem));
    (status, body)
}

#[test]
fn a_reserve_of_a_hub() {
    let line = hub::reserve(HUB_RESERVE.as_bytes()).unwrap();
    let reserve = line.reserve();
    assert_eq!(reserve.ttl, Some(HOLD));
    let [only] = reserve.basket.lines() else { panic!("{:?}", reserve.basket) };
    assert_eq!((&only.item, only.quantity), (&key("hub-1", "tea"), 2));
    assert_eq!(reserve.terms.owner_id, label("order-1"));
    let optional = reserve.terms.optional.unwrap();
    assert_eq!(optional.customer_id, Some(label("user-9")));
    assert_eq!((optional.session_id, optional.metadata, optional.channel), (None, None, None));
}

#[test]
fn keys_of_a_hub_name_hub_order_sku_and_the_hold_that_ended() {
    let of = |hub: &str, order: &str, sku: &str, user: &str| {
        let body =
            serde_json::json!({ "hub_id": hub, "sku": sku, "qty": 1, "order_id": order, "user_id": user });
        hub::reserve(body.to_string().as_bytes()).unwrap()
    };
    let one = of("h", "o", "s", "u");
    assert_eq!(one.key(None), of("h", "o", "s", "another").key(None));
    assert_eq!(one.key(Some(id())), of("h", "o", "s", "another").key(Some(id())));
    let all = [
        one.key(None),
        one.key(Some(id())),
        of("ho", "o", "s", "u").key(None),
        of("h", "oo", "s", "u").key(None),
        of("h", "o", "os", "u").key(None),
        of("o", "h", "s", "u").key(None),
        of("h", "o", &format!("s{ID}"), "u").key(None),
    ];
    for (number, key) in all.iter().enumerate() {
        assert!(!all[number + 1..].contains(key), "{all:?}");
    }
}

#[test]
fn wrong_requests_of_a_hub_name_the_member() {
    let wrong = |body: &str, expected: &[(&str, &str)]| refused(hub::reserve(body.as_bytes()), expected);
    let with = |member: &str, value: &str| {
        let members = [
            ("hub_id", "\"h\""),
            ("sku", "\"s\""),
            ("qty", "1"),
            ("order_id", "\"o\""),
            ("user_id", "\"u\""),
        ];
        let members =
            members.map(|(name, good)| format!("\"{name}\":{}", if name == member { value } else { good }));
        format!("{{{}}}", members.join(","))
    };
    let quantity = "must be a whole number from 1 to 1,000,000, found ";
    for (value, found) in [
        ("0", "0"),
        ("-1", "-1"),
        ("1.5", "1.5"),
        ("2.0", "2.0"),
        ("\"2\"", "\"2\""),
        ("null", "null"),
        ("[]", "an array"),
        ("{}", "an object"),
        ("true", "true"),
        ("1e300", "a number that is too large"),
        ("18446744073709551616", "a number that is too large"),
    ] {
        wrong(&with("qty", value), &[("/qty", &format!("{quantity}{found}"))]);
    }
    for name in ["hub_id", "sku", "order_id", "user_id"] {
        let pointer = format!("/{name}");
        let text = "must be a string of 1 to 128 bytes without control characters, found ";
        wrong(&with(name, "7"), &[(&pointer, &format!("{text}7"))]);
        wrong(&with(name, "null"), &[(&pointer, &format!("{text}null"))]);
    }
    for body in ["", "[]", "7", "NaN", r#"{"qty":NaN}"#, "{", "\u{0}"] {
        let Invalid { errors } = hub::reserve(body.as_bytes()).unwrap_err();
        assert!(!errors.is_empty() && errors.iter().all(|fault| !fault.detail.is_empty()), "{body}");
    }
    let all = hub::reserve(b"{}").unwrap_err().errors;
    let pointers: Vec<_> = all.iter().map(|fault| &*fault.pointer).collect();
    assert_eq!(pointers, ["/hub_id", "/sku", "/qty", "/order_id", "/user_id"]);
    refused(
        hub::confirm(br#"{"reservation_id":"7"}"#),
        &[("/reservation_id", "must be a UUID like 018bcfe5-6800-7fff-bfff-ffffffffffff, found \"7\"")],
    );
    assert_eq!(hub::stock("hub%201", "a%2Fb").unwrap(), key("hub 1", "a/b"));
    assert_eq!(hub::stock("%", "%00").unwrap_err().errors.len(), 2);
}

#[test]
fn a_hold_is_that_of_the_request_when_quantity_and_user_are() {
    let line = hub::reserve(HUB_RESERVE.as_bytes()).unwrap();
    let made = |quantity: u32, user: Option<&str>| {
        let mut hold = hold();
        let mut lines = hold.lines.to_vec();
        lines.truncate(1);
        lines[0].quantity = quantity;
        hold.lines = lines.into();
        let mut terms = (*hold.terms).clone();
        let mut optional = terms.reserve.optional.map(|optional| *optional).unwrap_or_default();
        optional.customer_id = user.map(label);
        terms.reserve = ReserveTerms::new(label("order-1"), optional);
        Hold { terms: terms.into(), ..hold }
    };
    assert!(line.is_held_by(&made(2, Some("user-9"))));
    assert!(!line.is_held_by(&made(3, Some("user-9"))));
    assert!(!line.is_held_by(&made(2, Some("user-8"))));
    assert!(!line.is_held_by(&made(2, None)));
}

#[test]
fn answers_of_a_hub() {
    let stock = written(|out| hub::write_stock(out, &item()));
    assert!(stock.starts_with(r#"{"data":{"hub_id":""#), "{stock}");
    assert!(stock.ends_with(r#""partitioned":false,"buckets":1}}"#), "{stock}");
    let reservation = |status: &str, ttl: u32| {
        format!(r#"{{"data":{{"reservation_id":"{ID}","status":"{status}","ttl_seconds":{ttl}}}}}"#)
    };
    let new = written(|out| hub::write_new(out, &hold(), Seconds::new(12).unwrap()));
    assert_eq!(new, reservation("reserved", 12));
    let known = |status: Status, millis: i64| {
        let hold = Hold { status, expires_at: at(30_000), ..hold() };
        written(|out| hub::write_known(out, &hold, at(millis)))
    };
    assert_eq!(known(Status::Active, 1), reservation("reserved", 29));
    assert_eq!(known(Status::Active, 29_001), reservation("reserved", 0));
    assert_eq!(known(Status::Active, 99_000), reservation("reserved", 0), "never less than nothing");
    assert_eq!(known(Status::Confirmed, 1), reservation("confirmed", 0));
    let ended = |status: &str| format!(r#"{{"data":{{"reservation_id":"{ID}","status":"{status}"}}}}"#);
    let shown = |shape: Shape| written(|out| write_reservation(out, shape, &hold()));
    assert_eq!(shown(Shape::HubConfirmed), ended("confirmed"));
    assert_eq!(shown(Shape::HubReleased), ended("released"));
    assert_eq!(shown(Shape::StorefrontReservation), format!(r#"{{"reservationId":"{ID}"}}"#));
    assert_eq!(shown(Shape::StorefrontDone), r#"{"ok":true}"#);
}

#[test]
fn requests_of_a_storefront() {
    let read = |body: &str| match storefront::reserve(body.as_bytes()).unwrap().command {
        Command::Reserve(reserve) => reserve,
        other => panic!("{other:?}"),
    };
    let full = read(
        r#"{"sku":"tea","qty":2,"ttl":300,"sessionId":"s-1","customerId":"c-1","source":"a \"b\" \u00e9","cart":1}"#,
    );
    let [only] = full.basket.lines() else { panic!("{:?}", full.basket) };
    assert_eq!((&only.item, only.quantity, full.ttl), (&key("default", "tea"), 2, Seconds::new(300).ok()));
    assert_eq!(full.terms.owner_id, label("s-1"));
    let optional = full.terms.optional.unwrap();
    assert_eq!((optional.session_id, optional.customer_id), (Some(label("s-1")), Some(label("c-1"))));
    assert_eq!(optional.metadata.as_deref(), Some("{\"source\":\"a \\\"b\\\" \u{e9}\"}"));
    let least = read(r#"{"sku":"tea","qty":1,"sessionId":"s-1","ttl":null,"customerId":null,"source":null}"#);
    assert_eq!(least.ttl, None);
    let optional = least.terms.optional.clone().unwrap();
    assert_eq!((optional.customer_id, optional.metadata), (None, None));
    assert_eq!(least, read(r#"{"sku":"tea","qty":1,"sessionId":"s-1"}"#), "null counts as left out");

    let one = format!(r#"{{"reservationId":"{ID}"}}"#);
    let command = |keyed: Result<stockhold_api::decode::Keyed<'_>, Invalid>| keyed.unwrap().command;
    assert!(
        matches!(command(storefront::commit(one.as_bytes())), Command::Confirm(confirm) if confirm.id == id())
    );
    assert!(
        matches!(command(storefront::release(one.as_bytes())), Command::Release(release) if release.id == id())
    );
    let default = Seconds::new(77).unwrap();
    let extend = |body: &str| match storefront::extend(body.as_bytes()).unwrap().command(default) {
        Command::Extend(extend) => extend.ttl.get(),
        other => panic!("{other:?}"),
    };
    assert_eq!(extend(&one), 77);
    assert_eq!(extend(&format!(r#"{{"reservationId":"{ID}","ttl":5}}"#)), 5);
    refused(
        storefront::reserve(br#"{"sku":7,"ttl":0,"sessionId":""}"#).map(drop),
        &[
            ("/sku", "must be a string of 1 to 128 bytes without control characters, found 7"),
            ("/ttl", "must be a whole number of seconds from 1 to 2,592,000, found 0"),
            ("/sessionId", "must not be empty"),
            ("/qty", "is required"),
        ],
    );
}

#[test]
fn errors_have_the_words_that_clients_know() {
    use Profile::{Hub, Storefront};
    for (profile, reason, status, word) in [
        (Hub, Reason::InvalidRequest, 400, "INVALID_REQUEST"),
        (Hub, Reason::QuantityLimit, 400, "INVALID_REQUEST"),
        (Hub, Reason::UnknownItem, 404, "NOT_FOUND"),
        (Hub, Reason::UnknownReservation, 404, "NOT_FOUND"),
        (Hub, Reason::UnknownRoute, 404, "NOT_FOUND"),
        (Hub, Reason::InsufficientInventory, 409, "INSUFFICIENT_STOCK"),
        (Hub, Reason::UnitsUnavailable, 409, "INSUFFICIENT_STOCK"),
        (Hub, Reason::ReservationExpired, 409, "EXPIRED"),
        (Hub, Reason::ReservationCancelled, 409, "RELEASED"),
        (Hub, Reason::ReservationConfirmed, 409, "CONFIRMED"),
        (Hub, Reason::SalePaused, 409, "SALE_PAUSED"),
        (Hub, Reason::IdempotencyMismatch, 409, "ORDER_MISMATCH"),
        (Hub, Reason::Overloaded, 503, "UNAVAILABLE"),
        (Hub, Reason::Unavailable, 503, "UNAVAILABLE"),
        (Hub, Reason::OutcomeUnknown, 503, "UNAVAILABLE"),
        (Hub, Reason::TooLarge, 413, "INVALID_REQUEST"),
        (Storefront, Reason::InsufficientInventory, 409, "INSUFFICIENT_STOCK"),
        (Storefront, Reason::ReservationExpired, 409, "EXPIRED"),
        (Storefront, Reason::ReservationCancelled, 409, "RELEASED"),
        (Storefront, Reason::ReservationConfirmed, 409, "COMMITTED"),
        (Storefront, Reason::LimitExceeded, 409, "LIMIT"),
        (Storefront, Reason::ExtensionLimit, 409, "LIMIT"),
        (Storefront, Reason::SalePaused, 409, "SALE_PAUSED"),
        (Storefront, Reason::UnknownItem, 404, "NOT_FOUND"),
        (Storefront, Reason::IdempotencyMismatch, 400, "INVALID_REQUEST"),
        (Storefront, Reason::TtlTooLong, 400, "INVALID_REQUEST"),
        (Storefront, Reason::CustomerRequired, 400, "INVALID_REQUEST"),
        (Storefront, Reason::Internal, 500, "ERROR"),
        (Storefront, Reason::OutcomeUnknown, 503, "ERROR"),
    ] {
        assert_eq!(ErrorCode::of(profile, reason), ErrorCode { status, word }, "{profile:?} {reason:?}");
    }
}

#[test]
fn errors_are_written_in_the_shape_of_their_profile() {
    use Profile::{Hub, Storefront};
    let invalid = Problem::from(Invalid::new("/qty", "is wrong"));
    let detail = "The request is invalid: /qty is wrong.";
    assert_eq!(
        error(Hub, &invalid),
        (400, format!(r#"{{"error":"INVALID_REQUEST","detail":"{detail}","field":"qty"}}"#))
    );
    assert_eq!(
        error(Storefront, &invalid),
        (400, format!(r#"{{"error":"INVALID_REQUEST","detail":"{detail}"}}"#))
    );
    // A body that is no object has no member to name.
    let (_, body) = error(Hub, &Problem::from(Invalid::new("", "must be a JSON object")));
    assert!(!body.contains("field"), "{body}");
    let unknown = Problem::from(Rejection::UnknownReservation(id()));
    let (status, body) = error(Hub, &unknown);
    assert!(status == 404 && body.starts_with(r#"{"error":"NOT_FOUND","detail":""#), "{body}");
    assert_eq!(error(Storefront, &unknown), (404, r#"{"error":"NOT_FOUND"}"#.to_owned()));
    let mismatch = Problem::from(Rejection::IdempotencyMismatch);
    let (_, body) = error(Hub, &mismatch);
    assert!(body.contains("ORDER_MISMATCH") && !body.contains("idempotency"), "{body}");
    let too_many = Rejection::QuantityLimit { item: Some(key("h", "s")), requested: 9, limit: 1 };
    assert!(error(Hub, &Problem::from(too_many)).1.contains(r#""field":"qty""#));
    let too_long = Problem::from(Rejection::TtlTooLong { max: HOLD });
    let said =
        r#"{"error":"INVALID_REQUEST","detail":"ttl is above the longest hold, which is 30 seconds."}"#;
    assert_eq!(error(Storefront, &too_long), (400, said.to_owned()));
    let nobody = Problem::from(Rejection::CustomerRequired { limit_id: label("l") });
    assert!(error(Storefront, &nobody).1.contains("customerId"));
    let away = Problem::from(&Failure::Unavailable("x".to_owned()));
    assert_eq!(error(Storefront, &away), (503, r#"{"error":"ERROR"}"#.to_owned()));
}

#[test]
fn paths_belong_to_a_profile_by_their_first_segment() {
    assert_eq!(Profile::of_path("/hub/reserve"), Some(Profile::Hub));
    assert_eq!(Profile::of_path("/hub"), Some(Profile::Hub));
    assert_eq!(Profile::of_path("/storefront/x/y"), Some(Profile::Storefront));
    for other in ["/hubs", "/hubs/reserve", "/v1/hub", "hub/reserve", "/", ""] {
        assert_eq!(Profile::of_path(other), None, "{other}");
    }
    assert_eq!(Profile::Hub.below("/hub/stock/a/b"), Some("/stock/a/b"));
    assert_eq!(Profile::Hub.below("/storefront/reserve"), None);
}
