//! The operations on webhook endpoints, and what their answers look like.

use super::lists::{limit as page_limit, starting_after};
use super::operation::{Operation, in_path, in_query};
use super::reservations::example;
use super::samples::{event_id, written};
use super::schema::{
    Member, always, array, closed, counter, flag, integer, key, label, maybe, named, nullable, object,
    request_time, text, time, uuid, word,
};
use crate::EventType;
use crate::decode::{ROTATION_OVERLAP_SECONDS, WEBHOOK_ENTRIES};
use crate::encode::{self, Delivery, DeliveryStatus, WebhookTest};
use crate::routes::RouteId;
use crate::webhook_record::{
    EndpointSecret, FailedDelivery, StoredSecret, WEBHOOKS, WebhookProgress, WebhookRecord, WebhookStatus,
};
use serde_json::{Value, json};
use stockhold_domain::limits::POSITION;
use stockhold_domain::{EventId, Instant};
use stockhold_service::{MAX_RATE, MAX_ROLL_OVERLAP_SECONDS, Scope, WebhookSecret};

/// The id of the endpoint in examples.
pub(super) const ID: &str = "01a212ce-ea56-7d81-82da-d02f932e6add";
/// Longest address, in bytes.
const URL_BYTES: usize = 2_048;

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        create(),
        list(),
        one(),
        update(),
        on_one(RouteId::DeleteWebhook),
        test(),
        rotate(),
        deliveries(),
        retry(),
        replay(),
    ]
}

/// Their schemas, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        (
            "WebhookRequest",
            closed("Where events are sent to, and which.", {
                let mut members = vec![always("url", url())];
                members.extend(filters());
                members.push(maybe("rate_limit", rate_limit("Default: as many as it takes.")));
                members.push(maybe("idempotency_key", key()));
                members
            }),
        ),
        (
            "WebhookChange",
            closed("What is to change.", {
                let mut members = vec![maybe("url", url())];
                members.extend(filters());
                let rate_limit = rate_limit("`null`: as many as it takes.");
                members.push(maybe("rate_limit", nullable(rate_limit)));
                members.push(maybe("status", status()));
                members
            }),
        ),
        ("Webhook", object("A webhook endpoint.", shown())),
        ("NewWebhook", {
            let mut members = shown();
            members.push(maybe("secret", secret()));
            object("A new webhook endpoint. The answer to a repeated request has no `secret`.", members)
        }),
        (
            "WebhookList",
            object(
                "The endpoints.",
                vec![always("data", array(named("Webhook"), 0, WEBHOOKS, "In the order of their creation."))],
            ),
        ),
        ("WebhookTest", test_result()),
        (
            "RotateRequest",
            closed(
                "How long older secrets sign.",
                vec![
                    maybe(
                        "overlap_seconds",
                        integer(
                            0,
                            u64::from(MAX_ROLL_OVERLAP_SECONDS),
                            &format!("Seconds from now on. Default: {ROTATION_OVERLAP_SECONDS}."),
                        ),
                    ),
                    maybe("idempotency_key", key()),
                ],
            ),
        ),
        (
            "WebhookSecret",
            object(
                "The new secret. The answer to a repeated request has none.",
                vec![maybe("secret", secret())],
            ),
        ),
        ("Delivery", delivery()),
        (
            "DeliveryPage",
            object(
                "A page of deliveries.",
                vec![
                    always("data", array(named("Delivery"), 0, usize::MAX, "The deliveries.")),
                    always("has_more", flag("Whether there is a next page.")),
                    maybe("next_cursor", text("`starting_after` of the next page.")),
                ],
            ),
        ),
        ("WebhookReplayRequest", replay_request()),
        (
            "WebhookReplay",
            object(
                "What is delivered again.",
                vec![
                    always("from_position", counter("The first event.")),
                    always("to_position", counter("The last event.")),
                    maybe(
                        "deliveries",
                        counter("With `only: \"failed\"`: how many deliveries are tried again."),
                    ),
                ],
            ),
        ),
    ]
}

fn test_result() -> Value {
    let what = "What stands behind the status of the last answer, or what was wrong if there was none.";
    object(
        "What a test came to.",
        vec![
            always("event_id", uuid("The id of the message, as `webhook-id` has it.")),
            always("delivered", flag("Whether the endpoint answered with a status from 200 to 299.")),
            maybe("response_status", response_status()),
            maybe("error", text(what)),
        ],
    )
}

fn url() -> Value {
    json!({
        "type": "string", "format": "uri", "minLength": 1, "maxLength": URL_BYTES,
        "description": "Where events are sent to: https, without a user name. Its name must lead to public addresses only.",
    })
}

fn filters() -> [Member; 3] {
    let names: Vec<_> = EventType::ALL.iter().map(|kind| kind.name()).collect();
    let groups: std::collections::BTreeSet<_> =
        names.iter().filter_map(|name| Some(name.split_once('.')?.0)).collect();
    let pattern = format!(
        "^(stockhold\\.)?({}|({})\\.\\*)$",
        names.join("|").replace('.', "\\."),
        groups.into_iter().collect::<Vec<_>>().join("|")
    );
    let kind = json!({
        "type": "string", "pattern": pattern,
        "description": "A type like `reservation.confirmed`, or a pattern like `reservation.*`.",
    });
    [
        maybe("types", array(kind, 0, WEBHOOK_ENTRIES, "Only events of these types; empty for all.")),
        maybe(
            "skus",
            array(label("A SKU."), 0, WEBHOOK_ENTRIES, "Only events of these SKUs; empty for all."),
        ),
        maybe(
            "locations",
            array(label("A location."), 0, WEBHOOK_ENTRIES, "Only events of these locations; empty for all."),
        ),
    ]
}

fn scopes() -> Value {
    let names: Vec<&str> = Scope::ALL.iter().map(|scope| scope.name()).collect();
    array(
        word(&names, "A scope."),
        0,
        names.len(),
        "The scopes of its creator, which a caller needs to change, test or replay it.",
    )
}

fn rate_limit(default: &str) -> Value {
    integer(1, u64::from(MAX_RATE), &format!("Most deliveries in a second. {default}"))
}

fn status() -> Value {
    word(&["enabled", "disabled"], "Whether it gets events.")
}

fn secret() -> Value {
    json!({
        "type": "string", "pattern": "^whsec_[A-Za-z0-9+/]{43}=$",
        "description": "The secret that signs: the base64 of 32 bytes behind `whsec_`.",
    })
}

fn response_status() -> Value {
    integer(100, 999, "The status of the answer, if there was one.")
}

fn shown() -> Vec<Member> {
    let list = |what: &str| array(label("One of them."), 0, WEBHOOK_ENTRIES, what);
    vec![
        always("webhook_id", uuid("Its id.")),
        always("url", text("Where events are sent to.")),
        always("types", list("Only events of these types; empty for all.")),
        always("skus", list("Only events of these SKUs; empty for all.")),
        always("locations", list("Only events of these locations; empty for all.")),
        maybe("rate_limit", rate_limit("Absent: as many as it takes.")),
        always("status", status()),
        maybe("disabled_reason", text("Why the server disabled it.")),
        always("scopes", scopes()),
        always("created_at", time("When it was created.")),
        always("updated_at", time("When its settings were changed last.")),
    ]
}

fn delivery() -> Value {
    object(
        "The delivery of an event to an endpoint.",
        vec![
            always("delivery_id", uuid("Its id, which is that of the event.")),
            always("event_id", uuid("The event.")),
            always("position", counter("The position of the event.")),
            maybe("type", text("The type of the event. Absent: the event was archived.")),
            always(
                "status",
                word(
                    &DeliveryStatus::ALL.map(DeliveryStatus::name),
                    "`pending`: it failed and is tried again; `succeeded`; `failed`: it was given up.",
                ),
            ),
            maybe("attempts", counter("Attempts that failed. Absent: it succeeded.")),
            maybe("response_status", response_status()),
            maybe(
                "error",
                text(
                    "What stands behind the status of the last answer, or what was wrong if there was none.",
                ),
            ),
            maybe("next_attempt_at", time("When it is tried again.")),
            maybe("created_at", time("When the event was decided. Absent: the event was archived.")),
        ],
    )
}

fn replay_request() -> Value {
    let position = |description: &str| integer(1, POSITION, description);
    let mut request = closed(
        "Which events: from a position or an instant on, to a position or an instant.",
        vec![
            maybe("from_position", position("The first event.")),
            maybe("since", request_time("Events that were decided at this instant or later.")),
            maybe("to_position", position("The last event. Default: the newest that was delivered.")),
            maybe("until", request_time("Events that were decided at this instant or before.")),
            maybe(
                "only",
                word(&["failed", "all"], "`failed`: only those whose delivery was given up. Default: `all`."),
            ),
        ],
    );
    request["oneOf"] = json!([{ "required": ["from_position"] }, { "required": ["since"] }]);
    request["not"] = json!({ "required": ["to_position", "until"] });
    request
}

fn sample_secret() -> WebhookSecret {
    WebhookSecret::from_bytes(&[7; 32])
}

fn sample() -> WebhookRecord {
    WebhookRecord {
        url: "https://shop.example/hook".to_owned(),
        types: vec!["reservation.*".to_owned()],
        skus: Vec::new(),
        locations: Vec::new(),
        rate_limit: Some(50),
        status: WebhookStatus::Enabled,
        disabled_reason: None,
        secrets: vec![EndpointSecret { secret: StoredSecret::Clear(sample_secret()), ends_at: None }],
        created_at: 1_795_627_174_558_536,
        updated_at: 1_795_627_174_558_536,
        enabled_after: 2_010,
        scopes: vec![Scope::EventsRead.name().to_owned(), Scope::WebhooksAdmin.name().to_owned()],
    }
}

fn on_one(route: RouteId) -> Operation {
    Operation::of(route).parameter(in_path("webhook_id", label("The endpoint's id."), ID))
}

fn create() -> Operation {
    let request = json!({ "url": "https://shop.example/hook", "types": ["reservation.*"], "rate_limit": 50 });
    Operation::of(RouteId::CreateWebhook).requests(json!({ "reservations": example("All of reservations", request) })).responds(
        json!({
            "new": example("The endpoint, with the secret that is shown this once", written(|out| encode::with_secret(out, ID, &sample()))),
        }),
    )
}

fn list() -> Operation {
    let all = [(ID.to_owned(), sample())];
    Operation::of(RouteId::ListWebhooks)
        .responds(json!({ "one": example("One endpoint", written(|out| encode::webhooks(out, &all))) }))
}

fn one() -> Operation {
    let disabled = WebhookRecord {
        status: WebhookStatus::Disabled,
        disabled_reason: Some("the endpoint answered with status 410".to_owned()),
        ..sample()
    };
    on_one(RouteId::GetWebhook).responds(json!({
        "enabled": example("It gets events", written(|out| encode::webhook(out, ID, &sample()))),
        "disabled": example("The server has disabled it", written(|out| encode::webhook(out, ID, &disabled))),
    }))
}

fn update() -> Operation {
    let changed = WebhookRecord { rate_limit: None, ..sample() };
    on_one(RouteId::UpdateWebhook)
        .requests(json!({
            "enable": example("It gets events again", json!({ "status": "enabled" })),
            "rate": example("Without a limit of its rate", json!({ "rate_limit": null })),
        }))
        .responds(json!({ "changed": example("After the change", written(|out| encode::webhook(out, ID, &changed))) }))
}

fn test() -> Operation {
    let took = WebhookTest { status: Some(204), error: None };
    let away = WebhookTest { status: None, error: Some("Connection refused (os error 111)".to_owned()) };
    let shown = |test: &WebhookTest| written(|out| encode::webhook_test(out, event_id(4), test));
    on_one(RouteId::TestWebhook).responds(json!({
        "delivered": example("It took the message", shown(&took)),
        "away": example("It can't be reached", shown(&away)),
    }))
}

fn rotate() -> Operation {
    on_one(RouteId::RotateWebhook)
        .requests(json!({ "hour": example("Older secrets sign for an hour more", json!({ "overlap_seconds": 3_600 })) }))
        .responds(json!({
            "secret": example("The new secret", written(|out| encode::webhook_secret(out, Some(&sample_secret())))),
        }))
}

fn sample_delivery(status: DeliveryStatus, id: EventId, position: u64) -> Delivery {
    let at = 1_795_627_174_558_536;
    let has_failed = status != DeliveryStatus::Succeeded;
    Delivery {
        status,
        kind: Some(EventType::ReservationConfirmed.name()),
        created_at: Some(Instant::from_micros(at)),
        delivery: FailedDelivery {
            event_id: id.to_string(),
            position,
            attempts: if has_failed { 2 } else { 0 },
            at,
            next_at: (status == DeliveryStatus::Pending).then_some(at + 300_000_000),
            status: has_failed.then_some(500),
            error: None,
        },
    }
}

fn deliveries() -> Operation {
    let statuses = DeliveryStatus::ALL.map(DeliveryStatus::name);
    let all = [
        sample_delivery(DeliveryStatus::Pending, event_id(3), 2_013),
        sample_delivery(DeliveryStatus::Failed, event_id(1), 2_011),
        sample_delivery(DeliveryStatus::Succeeded, event_id(2), 2_012),
    ];
    on_one(RouteId::ListDeliveries)
        .parameter(in_query("status", word(&statuses, "Only deliveries with this status. Default: all.")))
        .parameter(page_limit())
        .parameter(starting_after())
        .responds(json!({
            "page": example("One of each", written(|out| encode::deliveries(out, &all, None))),
        }))
}

fn retry() -> Operation {
    on_one(RouteId::RetryDelivery).parameter(in_path(
        "delivery_id",
        label("The delivery's id."),
        "019303a1-5b40-7c3e-9d51-3f0a6c1e8b27",
    ))
}

fn replay() -> Operation {
    on_one(RouteId::ReplayWebhook)
        .requests(json!({
            "outage": example("What was decided during an outage", json!({
                "since": "2026-11-24T09:30:00.000Z", "until": "2026-11-24T10:15:00.000Z",
            })),
            "failed": example("What was given up", json!({ "from_position": 1, "only": "failed" })),
        }))
        .responds(json!({
            "range": example("A range", written(|out| encode::webhook_replay(out, 1_800, 2_411, None))),
            "failed": example("Failed deliveries", written(|out| encode::webhook_replay(out, 1, 2_411, Some(7)))),
        }))
}

const _: () = assert!(WebhookProgress::FAILED == 150, "the description of the list says so");
