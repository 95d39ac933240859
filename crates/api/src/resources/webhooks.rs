//! Webhook endpoints: where events are sent to. What is sent is in [`super::deliveries`].

use super::texts;
use crate::field::{
    IDEMPOTENCY_KEY, Kind, LABEL, OneOf, Text, UUID, Whole, entry, form, list, one_of, text, whole, words,
};
use crate::openapi::operation::{Operation, in_path};
use crate::openapi::reservations::example;
use crate::openapi::samples::{event_id, to_value};
use crate::openapi::schema::label;
use crate::problem::Reason;
use crate::routes::row::{self, NO_STORE, REPLAYED, empty, optional, required};
use crate::routes::table::PLAIN;
use crate::routes::{Access, RequiredScope, Response, RouteId, RouteSpec, Tag};
use crate::webhook_record::{WEBHOOKS, WebhookRecord, WebhookStatus};
use crate::{EventType, event_types_named};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use stockhold_api_macros::shape;
use stockhold_domain::{EventId, Instant, Label, Patch};
use stockhold_service::{MAX_RATE, MAX_ROLL_OVERLAP_SECONDS, Scope, WebhookSecret as SecretText};

/// Most types, SKUs or locations that an endpoint names.
const ENTRIES: usize = 100;
/// How long older secrets sign after a rotation that does not say it, in seconds: a day.
const OVERLAP_SECONDS: u32 = 86_400;
/// Longest address, in bytes.
const URL_BYTES: usize = 2_048;
/// The id of the endpoint in examples.
pub(crate) const ID: &str = "01a212ce-ea56-7d81-82da-d02f932e6add";

const _: () = assert!(OVERLAP_SECONDS == 86_400, "the description of the rotation says so");

/// An address. What it may be is checked by the sender of webhooks.
const URL: Text = text(1..=URL_BYTES)
    .ascii()
    .pattern("")
    .format("uri")
    .check(|_| true, "an address like https://shop.example/hook");
const RATE: Whole = whole(1..=MAX_RATE as u64);
const OVERLAP: Whole = whole(0..=MAX_ROLL_OVERLAP_SECONDS as u64).of("seconds");
const SECRET: Text = form("^whsec_[A-Za-z0-9+/]{43}=$");
const SCOPE: OneOf = one_of(|| Scope::ALL.iter().map(|scope| scope.name()).collect());
/// The status of an answer of an endpoint.
pub(super) const RESPONSE_STATUS: Whole = whole(100..=999);

words! {
    WebhookStatus { Enabled = "enabled", Disabled = "disabled", }
}

/// The name of a type of events, or a pattern.
#[derive(Clone, Copy)]
struct EventTypeName;

impl Kind<String> for EventTypeName {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<String, D::Error> {
        let name = String::deserialize(from)?;
        if event_types_named(&name).next().is_some() {
            return Ok(name);
        }
        let known: Vec<_> = EventType::ALL.iter().map(|kind| kind.name()).collect();
        let known = known.join(", ");
        Err(D::Error::custom(format_args!(
            "must be a type of events or a pattern like reservation.*; the types are {known}"
        )))
    }

    fn write<S: Serializer>(&self, value: &String, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value)
    }

    fn schema(&self, description: &str) -> Value {
        let names: Vec<_> = EventType::ALL.iter().map(|kind| kind.name()).collect();
        let groups: BTreeSet<_> = names.iter().filter_map(|name| Some(name.split_once('.')?.0)).collect();
        let pattern = format!(
            "^(stockhold\\.)?({}|({})\\.\\*)$",
            names.join("|").replace('.', "\\."),
            groups.into_iter().collect::<Vec<_>>().join("|")
        );
        json!({ "type": "string", "pattern": pattern, "description": description })
    }
}

/// Where events are sent to, and which.
#[shape(request)]
pub struct WebhookRequest {
    /// Where events are sent to: https, without a user name. Its name must lead to public addresses only.
    #[is(URL)]
    pub url: String,
    /// Only events of these types; empty for all.
    #[is(list(0..=ENTRIES).of(EventTypeName).each("A type like `reservation.confirmed`, or a pattern like `reservation.*`."))]
    pub types: Option<Vec<String>>,
    /// Only events of these SKUs; empty for all.
    #[is(list(0..=ENTRIES).each("A SKU."))]
    pub skus: Option<Vec<Label>>,
    /// Only events of these locations; empty for all.
    #[is(list(0..=ENTRIES).each("A location."))]
    pub locations: Option<Vec<Label>>,
    /// Most deliveries in a second. Default: as many as it takes.
    #[is(RATE)]
    pub rate_limit: Option<u32>,
    /// The idempotency key, in place of the header. A different key in the header is `invalid_request`.
    #[is(IDEMPOTENCY_KEY)]
    pub idempotency_key: Option<String>,
}

/// What is to change.
#[shape(request)]
pub struct WebhookChange {
    /// Where events are sent to: https, without a user name. Its name must lead to public addresses only.
    #[is(URL)]
    pub url: Option<String>,
    /// Only events of these types; empty for all.
    #[is(list(0..=ENTRIES).of(EventTypeName).each("A type like `reservation.confirmed`, or a pattern like `reservation.*`."))]
    pub types: Option<Vec<String>>,
    /// Only events of these SKUs; empty for all.
    #[is(list(0..=ENTRIES).each("A SKU."))]
    pub skus: Option<Vec<Label>>,
    /// Only events of these locations; empty for all.
    #[is(list(0..=ENTRIES).each("A location."))]
    pub locations: Option<Vec<Label>>,
    /// Most deliveries in a second. `null`: as many as it takes.
    #[is(RATE)]
    pub rate_limit: Patch<u32>,
    /// Whether it gets events.
    pub status: Option<WebhookStatus>,
}

/// A webhook endpoint.
#[shape(answer)]
pub struct Webhook {
    /// Its id.
    #[is(UUID)]
    pub webhook_id: String,
    /// Where events are sent to.
    pub url: String,
    /// Only events of these types; empty for all.
    #[is(list(0..=ENTRIES).of(LABEL).each("One of them."))]
    pub types: Vec<String>,
    /// Only events of these SKUs; empty for all.
    #[is(list(0..=ENTRIES).of(LABEL).each("One of them."))]
    pub skus: Vec<String>,
    /// Only events of these locations; empty for all.
    #[is(list(0..=ENTRIES).of(LABEL).each("One of them."))]
    pub locations: Vec<String>,
    /// Most deliveries in a second. Absent: as many as it takes.
    #[is(RATE)]
    pub rate_limit: Option<u32>,
    /// Whether it gets events.
    pub status: WebhookStatus,
    /// Why the server disabled it.
    pub disabled_reason: Option<String>,
    /// The scopes of its creator, which a caller needs to change, test or replay it.
    #[is(list(0..=Scope::ALL.len()).of(SCOPE).each("A scope."))]
    pub scopes: Vec<String>,
    /// When it was created.
    pub created_at: Instant,
    /// When its settings were changed last.
    pub updated_at: Instant,
}

/// A new webhook endpoint. The answer to a repeated request has no `secret`.
#[shape(answer, private)]
pub struct NewWebhook {
    /// The endpoint.
    #[is(flat)]
    pub webhook: Webhook,
    /// The secret that signs: the base64 of 32 bytes behind `whsec_`.
    #[is(SECRET)]
    pub secret: Option<String>,
}

/// The endpoints.
#[shape(answer)]
pub struct WebhookList {
    /// In the order of their creation.
    #[is(list(0..=WEBHOOKS))]
    pub data: Vec<Webhook>,
}

/// What a test came to.
#[shape(answer)]
pub struct WebhookTest {
    /// The id of the message, as `webhook-id` has it.
    #[is(UUID)]
    pub event_id: String,
    /// Whether the endpoint answered with a status from 200 to 299.
    pub delivered: bool,
    /// The status of the answer, if there was one.
    #[is(RESPONSE_STATUS)]
    pub response_status: Option<u16>,
    /// What stands behind the status of the last answer, or what was wrong if there was none.
    pub error: Option<String>,
}

/// How long older secrets sign.
#[shape(request)]
#[derive(Default)]
pub struct RotateRequest {
    /// Seconds from now on. Default: 86400.
    #[is(OVERLAP)]
    pub overlap_seconds: Option<u32>,
    /// The idempotency key, in place of the header. A different key in the header is `invalid_request`.
    #[is(IDEMPOTENCY_KEY)]
    pub idempotency_key: Option<String>,
}

/// The new secret. The answer to a repeated request has none.
#[shape(answer, private)]
pub struct WebhookSecret {
    /// The secret that signs: the base64 of 32 bytes behind `whsec_`.
    #[is(SECRET)]
    pub secret: Option<String>,
}

/// What events show of an endpoint, without its id.
#[shape(answer)]
pub struct EndpointEventFields {
    /// Where events are sent to. Absent: it was deleted.
    pub url: Option<String>,
    /// Whether it gets events. Absent: it was deleted.
    pub enabled: Option<bool>,
    /// Why the server disabled it.
    pub reason: Option<String>,
}

impl WebhookRequest {
    /// What the request asks for, as bytes that are the same for the same meaning. Fingerprints of idempotency keys are made of it.
    pub fn meaning(&self) -> Vec<u8> {
        let [skus, locations] = [&self.skus, &self.locations].map(|labels| labels.as_deref().map(texts));
        json!([self.url, self.types, skus, locations, self.rate_limit]).to_string().into_bytes()
    }
}

impl From<WebhookRequest> for WebhookChange {
    fn from(request: WebhookRequest) -> Self {
        Self {
            url: Some(request.url),
            types: request.types,
            skus: request.skus,
            locations: request.locations,
            rate_limit: request.rate_limit.map_or(Patch::Keep, Patch::Set),
            status: None,
        }
    }
}

impl WebhookChange {
    /// Sets what it says.
    pub fn apply(self, record: &mut WebhookRecord) {
        record.url = self.url.unwrap_or_else(|| std::mem::take(&mut record.url));
        record.types = self.types.unwrap_or_else(|| std::mem::take(&mut record.types));
        for (labels, list) in [(self.skus, &mut record.skus), (self.locations, &mut record.locations)] {
            if let Some(labels) = labels {
                *list = texts(&labels);
            }
        }
        record.rate_limit = self.rate_limit.over(record.rate_limit);
        record.status = self.status.unwrap_or(record.status);
    }
}

impl RotateRequest {
    /// How long older secrets sign, in seconds.
    pub fn overlap(&self) -> u32 {
        self.overlap_seconds.unwrap_or(OVERLAP_SECONDS)
    }

    /// What the request asks for; see [`WebhookRequest::meaning`].
    pub fn meaning(&self, webhook_id: &Label) -> Vec<u8> {
        json!([webhook_id.as_str(), self.overlap()]).to_string().into_bytes()
    }
}

impl Webhook {
    /// An endpoint, without its secret.
    pub fn of(id: &str, record: &WebhookRecord) -> Self {
        Self {
            webhook_id: id.to_owned(),
            url: record.url.clone(),
            types: record.types.clone(),
            skus: record.skus.clone(),
            locations: record.locations.clone(),
            rate_limit: record.rate_limit,
            status: record.status,
            disabled_reason: record.disabled_reason.clone(),
            scopes: record.scopes().iter().map(|scope| scope.name().to_owned()).collect(),
            created_at: Instant::from_micros(record.created_at),
            updated_at: Instant::from_micros(record.updated_at),
        }
    }
}

impl NewWebhook {
    /// An endpoint with its secret, for the one who has just made it.
    pub fn of(id: &str, record: &WebhookRecord, secret: Option<&SecretText>) -> Self {
        Self { webhook: Webhook::of(id, record), secret: secret.map(SecretText::reveal) }
    }
}

impl WebhookSecret {
    /// A secret, for the one who has just made it. `None` for a repeated request.
    pub fn of(secret: Option<&SecretText>) -> Self {
        Self { secret: secret.map(SecretText::reveal) }
    }
}

impl WebhookTest {
    /// What a message came to: the status of the answer, if there was one, and what was wrong.
    pub fn of(event_id: EventId, status: Option<u16>, error: Option<String>) -> Self {
        Self {
            event_id: event_id.to_string(),
            delivered: status.is_some_and(|status| (200..300).contains(&status)),
            response_status: status,
            error,
        }
    }
}

impl From<&WebhookRecord> for EndpointEventFields {
    fn from(record: &WebhookRecord) -> Self {
        Self {
            // The query of an address may hold a secret.
            url: record.url.split('?').next().map(str::to_owned),
            enabled: Some(record.status == WebhookStatus::Enabled),
            reason: record.disabled_reason.clone(),
        }
    }
}

/// What the routes have in common.
pub(super) const WEBHOOK_ROUTE: RouteSpec =
    RouteSpec { tag: Tag::Events, scope: RequiredScope::One(Scope::WebhooksAdmin), ..PLAIN };

pub(crate) const CREATE_WEBHOOK: RouteSpec = RouteSpec {
    metric: "create_webhook",
    summary: "Create a webhook endpoint",
    description: "The endpoint gets every event from now on that the filters leave, as a POST with a CloudEvent, signed as Standard \
        Webhooks defines it. The answer has the secret that signs as `secret`. It is shown this once: a \
        repeated request under the same idempotency key gets the endpoint as it is then, without a secret, \
        or `unknown_webhook` if it was deleted since. If the first answer was lost, `rotate` makes another secret.\n\nThe endpoint \
        keeps the scopes of its creator. Only a caller that has all of them changes, tests or replays it. The types \
        `access.*` need `keys:admin`: without it, an endpoint without `types` does not get them.\n\nThe address must be https, and \
        its name must lead to public addresses only. The operator of the server may allow other networks.",
    body: required("WebhookRequest"),
    idempotency_key: true,
    access: Access::Write,
    responses: &[Response {
        headers: &[("Location", "WebhookLocation"), NO_STORE, REPLAYED],
        ..row::json(201, "The endpoint with its secret.", "NewWebhook")
    }],
    own_reasons: &[Reason::UnknownWebhook, Reason::TooManyWebhooks],
    ..WEBHOOK_ROUTE
};

pub(crate) const LIST_WEBHOOKS: RouteSpec = RouteSpec {
    metric: "webhooks",
    summary: "List webhook endpoints",
    description: "All endpoints, without their secrets.",
    access: Access::Read,
    responses: &[row::json(200, "The endpoints, in the order of their creation.", "WebhookList")],
    ..WEBHOOK_ROUTE
};

pub(crate) const GET_WEBHOOK: RouteSpec = RouteSpec {
    metric: "webhook",
    summary: "Read a webhook endpoint",
    description: "An endpoint, without its secret.",
    access: Access::Read,
    responses: &[row::json(200, "The endpoint.", "Webhook")],
    own_reasons: &[Reason::UnknownWebhook],
    ..WEBHOOK_ROUTE
};

pub(crate) const UPDATE_WEBHOOK: RouteSpec = RouteSpec {
    metric: "update_webhook",
    summary: "Change a webhook endpoint",
    description: "Members that are left out stay as they are. While an endpoint is disabled, it gets nothing and nothing waits for it. \
        One that is enabled again gets the events from then on. `replay` brings those that it missed.",
    body: required("WebhookChange"),
    access: Access::Write,
    responses: &[row::json(200, "The endpoint after the change.", "Webhook")],
    own_reasons: &[Reason::UnknownWebhook],
    ..WEBHOOK_ROUTE
};

pub(crate) const DELETE_WEBHOOK: RouteSpec = RouteSpec {
    metric: "delete_webhook",
    summary: "Delete a webhook endpoint",
    description: "Nothing is delivered to it any more. What is on its way may still arrive.",
    access: Access::Write,
    responses: &[empty(204, "It is deleted.")],
    own_reasons: &[Reason::UnknownWebhook],
    ..WEBHOOK_ROUTE
};

pub(crate) const TEST_WEBHOOK: RouteSpec = RouteSpec {
    metric: "test_webhook",
    summary: "Send a test to a webhook endpoint",
    description: "Sends a message of type `stockhold.webhook.test` once, whatever the filters say and whether the endpoint is enabled or \
        not, and answers with what came back. It is no event of the feed.",
    access: Access::Write,
    responses: &[row::json(202, "What the endpoint answered.", "WebhookTest")],
    own_reasons: &[Reason::UnknownWebhook],
    ..WEBHOOK_ROUTE
};

pub(crate) const ROTATE_WEBHOOK: RouteSpec = RouteSpec {
    metric: "rotate_webhook",
    summary: "Replace the secret of a webhook endpoint",
    description: "Makes a new secret, which is shown this once: a repeated request under the same idempotency key makes none and shows none. Until the overlap ends, each delivery has a signature by the new secret and \
        one by each older secret. All older secrets end with the overlap.",
    body: optional("RotateRequest"),
    idempotency_key: true,
    access: Access::Write,
    responses: &[Response {
        headers: &[NO_STORE, REPLAYED],
        ..row::json(200, "The new secret.", "WebhookSecret")
    }],
    own_reasons: &[Reason::UnknownWebhook],
    ..WEBHOOK_ROUTE
};

/// The operations of the document.
pub(crate) fn operations() -> Vec<Operation> {
    vec![create(), list_all(), one(), update(), on_one(RouteId::DeleteWebhook), test(), rotate()]
}

/// The schemas of the document, by name.
pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        entry::<WebhookRequest>(),
        entry::<WebhookChange>(),
        entry::<Webhook>(),
        entry::<NewWebhook>(),
        entry::<WebhookList>(),
        entry::<WebhookTest>(),
        entry::<RotateRequest>(),
        entry::<WebhookSecret>(),
    ]
}

fn sample_secret() -> String {
    SecretText::from_bytes(&[7; 32]).reveal()
}

fn sample() -> Webhook {
    let at = Instant::from_micros(1_795_627_174_558_536);
    Webhook {
        webhook_id: ID.to_owned(),
        url: "https://shop.example/hook".to_owned(),
        types: vec!["reservation.*".to_owned()],
        skus: Vec::new(),
        locations: Vec::new(),
        rate_limit: Some(50),
        status: WebhookStatus::Enabled,
        disabled_reason: None,
        scopes: [Scope::EventsRead, Scope::WebhooksAdmin].map(|scope| scope.name().to_owned()).into(),
        created_at: at,
        updated_at: at,
    }
}

pub(super) fn on_one(route: RouteId) -> Operation {
    Operation::of(route).parameter(in_path("webhook_id", label("The endpoint's id."), ID))
}

fn create() -> Operation {
    let request = json!({ "url": "https://shop.example/hook", "types": ["reservation.*"], "rate_limit": 50 });
    let new = NewWebhook { webhook: sample(), secret: Some(sample_secret()) };
    Operation::of(RouteId::CreateWebhook)
        .requests(json!({ "reservations": example("All of reservations", request) }))
        .responds(json!({
            "new": example("The endpoint, with the secret that is shown this once", to_value(&new)),
        }))
}

fn list_all() -> Operation {
    let all = WebhookList { data: vec![sample()] };
    Operation::of(RouteId::ListWebhooks).responds(json!({ "one": example("One endpoint", to_value(&all)) }))
}

fn one() -> Operation {
    let disabled = Webhook {
        status: WebhookStatus::Disabled,
        disabled_reason: Some("the endpoint answered with status 410".to_owned()),
        ..sample()
    };
    on_one(RouteId::GetWebhook).responds(json!({
        "enabled": example("It gets events", to_value(&sample())),
        "disabled": example("The server has disabled it", to_value(&disabled)),
    }))
}

fn update() -> Operation {
    let changed = Webhook { rate_limit: None, ..sample() };
    on_one(RouteId::UpdateWebhook)
        .requests(json!({
            "enable": example("It gets events again", json!({ "status": "enabled" })),
            "rate": example("Without a limit of its rate", json!({ "rate_limit": null })),
        }))
        .responds(json!({ "changed": example("After the change", to_value(&changed)) }))
}

fn test() -> Operation {
    let took = WebhookTest::of(event_id(4), Some(204), None);
    let away = WebhookTest::of(event_id(4), None, Some("Connection refused (os error 111)".to_owned()));
    on_one(RouteId::TestWebhook).responds(json!({
        "delivered": example("It took the message", to_value(&took)),
        "away": example("It can't be reached", to_value(&away)),
    }))
}

fn rotate() -> Operation {
    let new = WebhookSecret { secret: Some(sample_secret()) };
    on_one(RouteId::RotateWebhook)
        .requests(json!({ "hour": example("Older secrets sign for an hour more", json!({ "overlap_seconds": 3_600 })) }))
        .responds(json!({ "secret": example("The new secret", to_value(&new)) }))
}
