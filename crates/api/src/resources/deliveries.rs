//! Deliveries of events to webhook endpoints.

use super::webhooks::{RESPONSE_STATUS, WEBHOOK_ROUTE, on_one};
use crate::EventType;
use crate::cursor;
use crate::decode::{EventBound, Invalid};
use crate::field::{
    EVENT_POSITION, GIVEN_TIME, PAGE_SIZE, POSITION_CURSOR, UUID, entry, list, page_size, words,
};
use crate::openapi::operation::{Operation, in_path};
use crate::openapi::reservations::example;
use crate::openapi::samples::{event_id, to_value};
use crate::openapi::schema::label;
use crate::problem::Reason;
use crate::routes::row::{self, empty, required};
use crate::routes::{Access, RouteId, RouteSpec};
use crate::webhook_record::{FailedDelivery, WebhookProgress};
use serde_json::{Value, json};
use stockhold_api_macros::shape;
use stockhold_domain::{Event, EventId, Instant};

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

/// Which events of a range are delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// Those whose delivery was given up.
    Failed,
    /// All of them.
    All,
}

words! {
    DeliveryStatus { Pending = "pending", Succeeded = "succeeded", Failed = "failed", }
    Replayed { Failed = "failed", All = "all", }
}

/// The delivery of an event to an endpoint.
#[shape(answer)]
pub struct Delivery {
    /// Its id, which is that of the event.
    #[is(UUID)]
    pub delivery_id: String,
    /// The event.
    #[is(UUID)]
    pub event_id: String,
    /// The position of the event.
    pub position: u64,
    /// The type of the event. Absent: the event was archived.
    pub r#type: Option<String>,
    /// `pending`: it failed and is tried again; `succeeded`; `failed`: it was given up.
    pub status: DeliveryStatus,
    /// Attempts that failed. Absent: it succeeded.
    pub attempts: Option<u64>,
    /// The status of the answer, if there was one.
    #[is(RESPONSE_STATUS)]
    pub response_status: Option<u16>,
    /// What stands behind the status of the last answer, or what was wrong if there was none.
    pub error: Option<String>,
    /// When it is tried again.
    pub next_attempt_at: Option<Instant>,
    /// When the event was decided. Absent: the event was archived.
    pub created_at: Option<Instant>,
}

/// A page of deliveries.
#[shape(answer)]
pub struct DeliveryPage {
    /// The deliveries.
    #[is(list(0..=usize::MAX))]
    pub data: Vec<Delivery>,
    /// Whether there is a next page.
    pub has_more: bool,
    /// `starting_after` of the next page.
    pub next_cursor: Option<String>,
}

/// Which deliveries.
#[shape(query)]
pub struct DeliveriesQuery {
    /// Only deliveries with this status. Default: all.
    pub status: Option<DeliveryStatus>,
    /// Most entries of the page.
    #[is(PAGE_SIZE)]
    pub limit: Option<u16>,
    /// The `next_cursor` of the previous page. Its content is opaque.
    #[is(POSITION_CURSOR)]
    pub starting_after: Option<String>,
}

/// Which events: from a position or an instant on, to a position or an instant.
#[shape(request, one_of(from_position, since), not_both(to_position, until))]
pub struct WebhookReplayRequest {
    /// The first event.
    #[is(EVENT_POSITION)]
    pub from_position: Option<u64>,
    /// Events that were decided at this instant or later.
    #[is(GIVEN_TIME)]
    pub since: Option<Instant>,
    /// The last event. Default: the newest that was delivered.
    #[is(EVENT_POSITION)]
    pub to_position: Option<u64>,
    /// Events that were decided at this instant or before.
    #[is(GIVEN_TIME)]
    pub until: Option<Instant>,
    /// `failed`: only those whose delivery was given up. Default: `all`.
    pub only: Option<Replayed>,
}

/// Events that are to be delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRange {
    /// The first.
    pub from: EventBound,
    /// The last. `None`: the newest that was delivered.
    pub to: Option<EventBound>,
    /// Whether only those are meant whose delivery failed.
    pub only_failed: bool,
}

/// What is delivered again.
#[shape(answer)]
pub struct WebhookReplay {
    /// The first event.
    pub from_position: u64,
    /// The last event.
    pub to_position: u64,
    /// With `only: "failed"`: how many deliveries are tried again.
    pub deliveries: Option<u64>,
}

impl Delivery {
    /// A delivery that failed, and its event, if that was not archived.
    pub fn of(status: DeliveryStatus, failed: &FailedDelivery, event: Option<&Event>) -> Self {
        Self {
            delivery_id: failed.event_id.clone(),
            event_id: failed.event_id.clone(),
            position: failed.position,
            r#type: event.and_then(type_of),
            status,
            attempts: Some(failed.attempts.into()).filter(|attempts| *attempts > 0),
            response_status: failed.status,
            error: failed.error.clone(),
            next_attempt_at: failed.next_at.map(Instant::from_micros),
            created_at: event.map(|event| event.at),
        }
    }

    /// A delivery that succeeded.
    pub fn succeeded(position: u64, event: &Event) -> Self {
        let id = event.id.to_string();
        Self {
            delivery_id: id.clone(),
            event_id: id,
            position,
            r#type: type_of(event),
            status: DeliveryStatus::Succeeded,
            attempts: None,
            response_status: None,
            error: None,
            next_attempt_at: None,
            created_at: Some(event.at),
        }
    }
}

fn type_of(event: &Event) -> Option<String> {
    EventType::of(event).map(|kind| kind.name().to_owned())
}

impl DeliveryPage {
    /// A page, and the position that the next one begins before.
    pub fn of(data: Vec<Delivery>, next: Option<u64>) -> Self {
        Self { data, has_more: next.is_some(), next_cursor: next.map(|next| next.to_string()) }
    }
}

impl DeliveriesQuery {
    /// The position that the page begins before.
    pub fn before(&self) -> Option<u64> {
        self.starting_after.as_deref().and_then(cursor::position)
    }

    /// Most deliveries that succeeded.
    pub fn page_size(&self) -> usize {
        page_size(self.limit)
    }
}

impl WebhookReplayRequest {
    /// The events that it means.
    pub(crate) fn range(&self) -> Result<EventRange, Invalid> {
        Ok(EventRange {
            from: EventBound::first(self.from_position, self.since)?,
            to: EventBound::last(self.to_position, self.until)?,
            only_failed: self.only == Some(Replayed::Failed),
        })
    }
}

pub(crate) const LIST_DELIVERIES: RouteSpec = RouteSpec {
    metric: "deliveries",
    summary: "List deliveries of a webhook endpoint",
    description: "First those that wait for their next attempt (`pending`), then those that were given up in the last 30 days (`failed`, at \
        most 150), then those that succeeded in the last 7 days, the newest first, in pages. Those that succeeded are found in the \
        events: every event that the endpoint has passed, that its filters leave now, and that is neither pending nor failed.",
    access: Access::Read,
    responses: &[row::json(200, "A page of deliveries.", "DeliveryPage")],
    own_reasons: &[Reason::UnknownWebhook],
    ..WEBHOOK_ROUTE
};

pub(crate) const RETRY_DELIVERY: RouteSpec = RouteSpec {
    metric: "retry_delivery",
    summary: "Try a delivery again now",
    description: "One that is pending is tried at once. One that was given up becomes pending again, with all its attempts.",
    access: Access::Write,
    responses: &[empty(204, "It is tried again.")],
    own_reasons: &[Reason::UnknownWebhook, Reason::UnknownDelivery, Reason::WebhookDisabled],
    ..WEBHOOK_ROUTE
};

pub(crate) const REPLAY_WEBHOOK: RouteSpec = RouteSpec {
    metric: "replay_webhook",
    summary: "Deliver events to a webhook endpoint again",
    description: "Delivers the events of a range again that the filters leave, beside new ones, with their ids. A replay that is under way is \
        replaced. With `only: \"failed\"` only those are delivered again that were given up, as many as may be pending at once; \
        `deliveries` says how many.",
    body: required("WebhookReplayRequest"),
    access: Access::Write,
    responses: &[row::json(202, "What is delivered again.", "WebhookReplay")],
    own_reasons: &[Reason::UnknownWebhook, Reason::WebhookDisabled],
    ..WEBHOOK_ROUTE
};

const _: () = assert!(WebhookProgress::FAILED == 150, "the description of the list says so");

/// The operations of the document.
pub(crate) fn operations() -> Vec<Operation> {
    vec![list_all(), retry(), replay()]
}

/// The schemas of the document, by name.
pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        entry::<Delivery>(),
        entry::<DeliveryPage>(),
        entry::<WebhookReplayRequest>(),
        entry::<WebhookReplay>(),
    ]
}

fn sample(status: DeliveryStatus, id: EventId, position: u64) -> Delivery {
    let at = 1_795_627_174_558_536;
    let has_failed = status != DeliveryStatus::Succeeded;
    let next = (status == DeliveryStatus::Pending).then_some(at + 300_000_000);
    Delivery {
        delivery_id: id.to_string(),
        event_id: id.to_string(),
        position,
        r#type: Some(EventType::ReservationConfirmed.name().to_owned()),
        status,
        attempts: has_failed.then_some(2),
        response_status: has_failed.then_some(500),
        error: None,
        next_attempt_at: next.map(Instant::from_micros),
        created_at: Some(Instant::from_micros(at)),
    }
}

fn list_all() -> Operation {
    let all = vec![
        sample(DeliveryStatus::Pending, event_id(3), 2_013),
        sample(DeliveryStatus::Failed, event_id(1), 2_011),
        sample(DeliveryStatus::Succeeded, event_id(2), 2_012),
    ];
    on_one(RouteId::ListDeliveries)
        .query::<DeliveriesQuery>()
        .responds(json!({ "page": example("One of each", to_value(&DeliveryPage::of(all, None))) }))
}

fn retry() -> Operation {
    on_one(RouteId::RetryDelivery).parameter(in_path(
        "delivery_id",
        label("The delivery's id."),
        "019303a1-5b40-7c3e-9d51-3f0a6c1e8b27",
    ))
}

fn replay() -> Operation {
    let range = WebhookReplay { from_position: 1_800, to_position: 2_411, deliveries: None };
    let failed = WebhookReplay { from_position: 1, to_position: 2_411, deliveries: Some(7) };
    on_one(RouteId::ReplayWebhook)
        .requests(json!({
            "outage": example("What was decided during an outage", json!({
                "since": "2026-11-24T09:30:00.000Z", "until": "2026-11-24T10:15:00.000Z",
            })),
            "failed": example("What was given up", json!({ "from_position": 1, "only": "failed" })),
        }))
        .responds(json!({
            "range": example("A range", to_value(&range)),
            "failed": example("Failed deliveries", to_value(&failed)),
        }))
}
