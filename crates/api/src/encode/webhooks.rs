//! Webhook endpoints and their deliveries as JSON.

use super::cloud_event::open_cloud_event;
use super::json::{Object, array, put_text};
use crate::webhook_record::{FailedDelivery, StoredSecret, WebhookRecord, WebhookStatus};
use stockhold_domain::{EventId, Instant, RecordValue};
use stockhold_service::WebhookSecret;

/// The type of the message of a test.
const TEST: &str = "webhook.test";

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// It failed, and is tried again.
    Pending,
    /// It was confirmed.
    Succeeded,
    /// It was given up.
    Failed,
}

impl DeliveryStatus {
    /// Every status.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Succeeded, Self::Failed];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// A delivery as its readers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// What became of it.
    pub status: DeliveryStatus,
    /// The type of the event. `None` if the event was archived.
    pub kind: Option<&'static str>,
    /// When the event was decided. `None` if the event was archived.
    pub created_at: Option<Instant>,
    /// The event, and what went wrong.
    pub delivery: FailedDelivery,
}

/// What a test of an endpoint came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookTest {
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// What stands behind the status, or what was wrong if there was none.
    pub error: Option<String>,
}

impl WebhookTest {
    /// Whether the endpoint confirmed the message.
    pub fn is_delivered(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

/// An endpoint, without its secret.
pub fn webhook(out: &mut Vec<u8>, id: &str, record: &WebhookRecord) {
    let mut object = Object::open(out);
    put_webhook(&mut object, id, record);
    object.close();
}

/// An endpoint with its secret, for the one who has just made it.
pub fn with_secret(out: &mut Vec<u8>, id: &str, record: &WebhookRecord) {
    let mut object = Object::open(out);
    put_webhook(&mut object, id, record);
    // One that was read from the store encrypted has been shown before.
    if let Some(StoredSecret::Clear(newest)) = record.secrets.first().map(|newest| &newest.secret) {
        object.text("secret", &newest.reveal());
    }
    object.close();
}

/// A secret, for the one who has just made it. `None` for a repeated request.
pub fn webhook_secret(out: &mut Vec<u8>, secret: Option<&WebhookSecret>) {
    let mut object = Object::open(out);
    object.optional_text("secret", secret.map(WebhookSecret::reveal).as_deref());
    object.close();
}

/// The endpoints.
pub fn webhooks(out: &mut Vec<u8>, all: &[(String, WebhookRecord)]) {
    let mut object = Object::open(out);
    array(object.value("data"), all, |out, (id, record)| webhook(out, id, record));
    object.close();
}

fn put_webhook(object: &mut Object<'_>, id: &str, record: &WebhookRecord) {
    object.text("webhook_id", id);
    object.text("url", &record.url);
    let lists = [("types", &record.types), ("skus", &record.skus), ("locations", &record.locations)];
    for (name, list) in lists {
        array(object.value(name), list, |out, text| put_text(out, text));
    }
    if let Some(rate_limit) = record.rate_limit {
        object.number("rate_limit", rate_limit.into());
    }
    object.word("status", record.status.name());
    object.optional_text("disabled_reason", record.disabled_reason.as_deref());
    array(object.value("scopes"), record.scopes().iter(), |out, scope| put_text(out, scope.name()));
    object.time("created_at", Instant::from_micros(record.created_at));
    object.time("updated_at", Instant::from_micros(record.updated_at));
}

/// A page of deliveries.
pub fn deliveries(out: &mut Vec<u8>, all: &[Delivery], next_cursor: Option<&str>) {
    let mut object = Object::open(out);
    array(object.value("data"), all, delivery);
    object.flag("has_more", next_cursor.is_some());
    object.optional_text("next_cursor", next_cursor);
    object.close();
}

fn delivery(out: &mut Vec<u8>, Delivery { status, kind, created_at, delivery }: &Delivery) {
    let mut object = Object::open(out);
    object.text("delivery_id", &delivery.event_id);
    object.text("event_id", &delivery.event_id);
    object.number("position", delivery.position);
    object.optional_text("type", *kind);
    object.word("status", status.name());
    if delivery.attempts > 0 {
        object.number("attempts", delivery.attempts.into());
    }
    if let Some(status) = delivery.status {
        object.number("response_status", status.into());
    }
    object.optional_text("error", delivery.error.as_deref());
    if let Some(next_at) = delivery.next_at {
        object.time("next_attempt_at", Instant::from_micros(next_at));
    }
    if let Some(created_at) = created_at {
        object.time("created_at", *created_at);
    }
    object.close();
}

/// What is delivered again.
pub fn webhook_replay(out: &mut Vec<u8>, from: u64, to: u64, deliveries: Option<u64>) {
    let mut object = Object::open(out);
    object.number("from_position", from);
    object.number("to_position", to);
    if let Some(deliveries) = deliveries {
        object.number("deliveries", deliveries);
    }
    object.close();
}

/// What a test came to.
pub fn webhook_test(out: &mut Vec<u8>, id: EventId, test: &WebhookTest) {
    let mut object = Object::open(out);
    object.uuid("event_id", id.as_u128());
    object.flag("delivered", test.is_delivered());
    if let Some(status) = test.status {
        object.number("response_status", status.into());
    }
    object.optional_text("error", test.error.as_deref());
    object.close();
}

/// The message of a test. It is no event of the feed.
pub fn cloud_event_of_test(out: &mut Vec<u8>, id: EventId, webhook_id: &str, at: Instant, source: &str) {
    let mut object = open_cloud_event(out, source, TEST);
    object.uuid("id", id.as_u128());
    object.time("time", at);
    object.text("subject", webhook_id);
    let mut data = Object::open(object.value("data"));
    data.text("webhook_id", webhook_id);
    data.close();
    object.close();
}

/// What an event shows of an endpoint.
pub(super) fn of_event(object: &mut Object<'_>, value: Option<&RecordValue>) {
    let record = value.and_then(|value| WebhookRecord::from_bytes(value.as_bytes()).ok());
    if let Some(record) = record {
        // The query of an address may hold a secret.
        object.text("url", record.url.split('?').next().unwrap_or_default());
        object.flag("enabled", record.status == WebhookStatus::Enabled);
        object.optional_text("reason", record.disabled_reason.as_deref());
    }
}
