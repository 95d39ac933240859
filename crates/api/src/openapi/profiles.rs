//! The operations of the profiles, and what their requests, answers and errors look like. Examples of answers and errors are written
//! by the code that answers.

use super::operation::{Operation, component, in_path, refusal_headers};
use super::problems;
use super::reservations::{example, sku};
use super::samples::{EXAMPLE_IDS, at, cart, item, sold, written};
use super::schema::{
    always, flag, integer, label, maybe, named, nullable, object, quantity, seconds, text, units, uuid, word,
};
use crate::decode::Invalid;
use crate::problem::{Problem, Reason};
use crate::profiles::{ErrorCode, Profile, Shape, hub, write_error, write_reservation};
use crate::routes::{RouteId, RouteSpec};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use stockhold_domain::Hold;
use stockhold_domain::limits::TTL_CEILING_SECONDS;

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    let reservation = || json!({ "reservation_id": EXAMPLE_IDS[0] });
    let storefront_reservation = || json!({ "reservationId": EXAMPLE_IDS[0] });
    let ended = |summary: &str, body: Value| json!({ "one": example(summary, body) });
    let shown = |shape: Shape, hold: &Hold| written(|out| write_reservation(out, shape, hold));
    let done = || json!({ "done": example("It was done", shown(Shape::StorefrontDone, &cart())) });
    vec![
        hub_stock(),
        hub_reserve(),
        Operation::of(RouteId::HubConfirm)
            .requests(ended("The order was paid", reservation()))
            .responds(json!({ "sold": example("Sold", shown(Shape::HubConfirmed, &sold())) })),
        Operation::of(RouteId::HubRelease)
            .requests(ended("The order was given up", reservation()))
            .responds(json!({ "free": example("Available again", shown(Shape::HubReleased, &cart())) })),
        Operation::of(RouteId::StorefrontReserve)
            .requests(json!({
                "one_unit": example("One unit, for as long as the item says", json!({
                    "sku": "tea", "qty": 1, "sessionId": "session-9",
                })),
                "two_units": example("Two units for five minutes", json!({
                    "sku": "tea", "qty": 2, "ttl": 300, "sessionId": "session-9", "customerId": "customer-41", "source": "app",
                })),
            }))
            .responds(json!({ "held": example("Held", shown(Shape::StorefrontReservation, &cart())) })),
        Operation::of(RouteId::StorefrontCommit)
            .requests(ended("The order was paid", storefront_reservation()))
            .responds(done()),
        Operation::of(RouteId::StorefrontExtend)
            .requests(json!({
                "five": example("Five minutes from now", json!({ "reservationId": EXAMPLE_IDS[0], "ttl": 300 })),
                "default": example("As long as a new hold", storefront_reservation()),
            }))
            .responds(done()),
        Operation::of(RouteId::StorefrontRelease)
            .requests(ended("The cart was emptied", storefront_reservation()))
            .responds(done()),
    ]
}

fn hub_stock() -> Operation {
    let stock = written(|out| hub::write_stock(out, &item()));
    Operation::of(RouteId::HubStock)
        .parameter(in_path("hub_id", label("The hub: a location, percent-encoded."), "default"))
        .parameter(sku())
        .responds(json!({ "stock": example("Without a gate", stock) }))
}

fn hub_reserve() -> Operation {
    let known = |hold: &Hold| written(|out| hub::write_known(out, hold, at(280)));
    Operation::of(RouteId::HubReserve)
        .requests(json!({
            "two": example("Two units of one SKU", json!({
                "hub_id": "default", "sku": "tea", "qty": 2, "order_id": "order-1001", "user_id": "customer-41",
            })),
        }))
        .responds(json!({
            "new": example("Held", written(|out| hub::write_new(out, &cart(), hub::HOLD))),
            "known": example("The same order again, a moment later", known(&cart())),
            "sold": example("The same order again, after it was confirmed", known(&sold())),
        }))
}

/// Their schemas, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let mut schemas = hub_schemas();
    schemas.extend(storefront_schemas());
    schemas
}

fn hub_schemas() -> Vec<(&'static str, Value)> {
    let id = || always("reservation_id", uuid("The reservation's id."));
    let data = |description: &str, members| {
        object("An answer of the hub's profile.", vec![always("data", object(description, members))])
    };
    let ended = |status: &str| {
        data("The reservation.", vec![id(), always("status", word(&[status], "What became of it."))])
    };
    let most = u64::from(TTL_CEILING_SECONDS);
    vec![
        (
            "HubReserveRequest",
            object(
                "What an order wants of one SKU at one hub.",
                vec![
                    always("hub_id", label("The hub.")),
                    always("sku", label("The SKU.")),
                    always("qty", quantity("Units.")),
                    always("order_id", label("The order.")),
                    always("user_id", label("The buyer.")),
                ],
            ),
        ),
        ("HubReservationRequest", object("A reservation of a hub.", vec![id()])),
        (
            "HubStock",
            data(
                "The stock of one SKU at one hub.",
                vec![
                    always("hub_id", label("The hub.")),
                    always("sku", label("The SKU.")),
                    always("available", units("Units that can be reserved now.")),
                    always("partitioned", flag("Always `false`: the stock is one number.")),
                    always("buckets", integer(1, 1, "Always 1.")),
                ],
            ),
        ),
        (
            "HubReservation",
            data(
                "The reservation.",
                vec![
                    id(),
                    always("status", word(&["reserved", "confirmed"], "Its status.")),
                    always(
                        "ttl_seconds",
                        integer(0, most, "Whole seconds until it expires; 0 once it is confirmed."),
                    ),
                ],
            ),
        ),
        ("HubConfirmed", ended("confirmed")),
        ("HubReleased", ended("released")),
        (
            "HubError",
            object(
                "Why something was not done.",
                vec![
                    always("error", word(&words(Profile::Hub), "What programs decide by.")),
                    always("detail", text("What happened, and what to do next.")),
                    maybe("field", text("The member, parameter or header that is wrong.")),
                ],
            ),
        ),
    ]
}

fn storefront_schemas() -> Vec<(&'static str, Value)> {
    let id = || always("reservationId", uuid("The reservation's id."));
    let ttl = |description: &str| maybe("ttl", nullable(seconds(description)));
    vec![
        (
            "StorefrontReserveRequest",
            object(
                "What a session wants of one SKU.",
                vec![
                    always("sku", label("The SKU.")),
                    always("qty", quantity("Units.")),
                    ttl("Seconds until it expires. Absent: as the item says."),
                    always("sessionId", label("The session.")),
                    maybe("customerId", nullable(label("The buyer."))),
                    maybe(
                        "source",
                        nullable(label("Where it comes from. It is kept in the reservation's metadata.")),
                    ),
                ],
            ),
        ),
        ("StorefrontReservationRequest", object("A reservation.", vec![id()])),
        (
            "StorefrontExtendRequest",
            object(
                "A later deadline.",
                vec![id(), ttl("Seconds from now. Absent: as long as a new hold without `ttl`.")],
            ),
        ),
        ("StorefrontReservation", object("The reservation.", vec![id()])),
        ("StorefrontDone", object("It was done.", vec![always("ok", flag("Always true."))])),
        (
            "StorefrontError",
            object(
                "Why something was not done.",
                vec![
                    always("error", word(&words(Profile::Storefront), "What programs decide by.")),
                    maybe("detail", text("What is wrong with the request; with `INVALID_REQUEST` only.")),
                ],
            ),
        ),
    ]
}

/// The words of all errors of a profile.
fn words(profile: Profile) -> Vec<&'static str> {
    let routes = RouteId::ALL.iter().map(|id| id.spec()).filter(|row| row.profile == Some(profile));
    let reasons = routes.flat_map(RouteSpec::reasons).chain(OF_NO_ROUTE);
    let mut words: Vec<_> = reasons.map(|reason| ErrorCode::of(profile, reason).word).collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// Reasons of requests that have no route.
const OF_NO_ROUTE: [Reason; 2] = [Reason::UnknownRoute, Reason::MethodNotAllowed];

/// The errors of a route of a profile, by status.
pub(super) fn error_responses(profile: Profile, reasons: &[Reason]) -> Map<String, Value> {
    let shared = shared_reasons(profile);
    let by_status = by_status(profile, reasons).into_iter().map(|(status, reasons)| {
        let response = if shared.contains(&reasons) {
            component("responses", &response_name(profile, status, &reasons))
        } else {
            error_response(profile, &reasons)
        };
        (status.to_string(), response)
    });
    by_status.collect()
}

/// Errors that several routes of a profile share, by their names.
pub(super) fn responses() -> impl Iterator<Item = (String, Value)> {
    Profile::ALL.into_iter().flat_map(|profile| {
        shared_reasons(profile).into_iter().filter_map(move |reasons| {
            let status = ErrorCode::of(profile, *reasons.first()?).status;
            Some((response_name(profile, status, &reasons), error_response(profile, &reasons)))
        })
    })
}

/// The reasons with a status, for each status.
fn by_status(profile: Profile, reasons: &[Reason]) -> BTreeMap<u16, Vec<Reason>> {
    let mut by_status: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for reason in reasons {
        by_status.entry(ErrorCode::of(profile, *reason).status).or_default().push(*reason);
    }
    by_status
}

/// The reasons of errors that more than one route of a profile has.
fn shared_reasons(profile: Profile) -> Vec<Vec<Reason>> {
    let routes = RouteId::ALL.iter().map(|id| id.spec()).filter(|row| row.profile == Some(profile));
    let all: Vec<_> = routes.flat_map(|row| by_status(profile, &row.reasons()).into_values()).collect();
    let mut shared: Vec<Vec<Reason>> = Vec::new();
    for reasons in &all {
        if !shared.contains(reasons) && all.iter().filter(|other| *other == reasons).count() > 1 {
            shared.push(reasons.clone());
        }
    }
    shared
}

fn response_name(profile: Profile, status: u16, reasons: &[Reason]) -> String {
    let profile = schema_prefix(profile);
    match reasons {
        [only] => format!("{profile}{}", problems::answer_name(*only)),
        _ => format!("{profile}{status}"),
    }
}

const fn schema_prefix(profile: Profile) -> &'static str {
    match profile {
        Profile::Hub => "Hub",
        Profile::Storefront => "Storefront",
    }
}

/// A problem of the reason, about members that the profiles have.
fn made(reason: Reason) -> Problem {
    match reason {
        Reason::InvalidRequest => {
            Invalid::new("/qty", "must be a whole number from 1 to 1,000,000, found \"three\"").into()
        }
        other => problems::made(other),
    }
}

fn error_response(profile: Profile, reasons: &[Reason]) -> Value {
    let words: Vec<_> =
        ErrorCode::of_all(profile, reasons).iter().map(|code| format!("`{}`.", code.word)).collect();
    let examples: Map<_, _> = reasons
        .iter()
        .map(|reason| {
            let shown = written(|out| {
                write_error(out, profile, &made(*reason));
            });
            (reason.name().to_owned(), example(reason.title(), shown))
        })
        .collect();
    let schema = format!("{}Error", schema_prefix(profile));
    json!({
        "description": words.join(" "),
        "headers": refusal_headers(reasons),
        "content": { "application/json": { "schema": named(&schema), "examples": examples } },
    })
}
