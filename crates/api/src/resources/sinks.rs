//! Event sinks: the systems that events are delivered to.

use crate::decode::{EventBound, Invalid};
use crate::delivery_state::DeliveryState;
use crate::field::{EVENT_POSITION, GIVEN_TIME, LABEL, NUMBER, OneOf, UUID, entry, list, one_of, words};
use crate::openapi::operation::{Operation, in_path};
use crate::openapi::reservations::example;
use crate::openapi::samples::{event_id, to_value};
use crate::openapi::schema::label;
use crate::printable::QUOTE_CHARS;
use crate::problem::Reason;
use crate::routes::row::{self, empty, required};
use crate::routes::table::PLAIN;
use crate::routes::{Access, RequiredScope, RouteId, RouteSpec, Tag};
use crate::sink_record::{SinkFailure, SinkRecord};
use serde_json::{Value, json};
use std::time::Duration;
use stockhold_api_macros::shape;
use stockhold_domain::Instant;
use stockhold_service::Scope;

/// Most sinks that an answer can have: there is no bound but that of the configuration.
const SINKS: usize = 1_000;

const KINDS: OneOf =
    one_of(|| vec!["file", "nats", "rabbitmq", "kafka", "clickhouse", "redis", "notifications"]);

words! {
    DeliveryState { Running = "running", Retrying = "retrying", Blocked = "blocked", Standby = "standby", }
}

const _: () = assert!(QUOTE_CHARS == 256, "the descriptions of messages say so");

/// The sinks.
#[shape(answer)]
pub struct SinkList {
    /// In the order of their names.
    #[is(list(0..=SINKS))]
    pub data: Vec<Sink>,
}

/// A system that events are delivered to.
#[shape(answer)]
pub struct Sink {
    /// Its name in the configuration.
    #[is(LABEL)]
    pub name: String,
    /// What it is.
    #[is(KINDS)]
    pub kind: String,
    /// `running`; `retrying`: the last attempt failed, and the next one may succeed; `blocked`: nothing goes on before somebody does
    /// what `last_error.action` says; `standby`: no instance serves it.
    pub state: DeliveryState,
    /// The newest event that was delivered, or left out by the filter, with all before it.
    pub position: u64,
    /// Events that it has not got yet.
    pub lag_events: u64,
    /// The age of the oldest event that it has not got, in seconds; 0 if it has all.
    #[is(NUMBER)]
    pub lag_seconds: f64,
    /// The failure that keeps it from getting events.
    pub last_error: Option<SinkError>,
    /// Events of which a part could not be delivered while others could: a mail whose server does not take it for its recipient. They
    /// are tried again, and given up after five days. Absent: none.
    pub put_aside: Option<u64>,
    /// The instance that serves it.
    #[is(LABEL)]
    pub instance: Option<String>,
}

/// The failure that keeps a sink from getting events.
#[shape(answer)]
pub struct SinkError {
    /// When the last attempt failed.
    pub at: Instant,
    /// What the other system said, at most 256 printable characters, or what happened.
    pub message: String,
    /// When the next attempt is due.
    pub next_attempt_at: Option<Instant>,
    /// Who has to do what before it goes on. Absent: it may go on by itself.
    pub action: Option<String>,
    /// The event that it does not take.
    #[is(UUID)]
    pub event_id: String,
    /// The position of that event.
    pub position: u64,
    /// Failed attempts.
    pub attempts: u64,
}

/// Which event the sink skips.
#[shape(request)]
pub struct SkipRequest {
    /// The position of `last_error`.
    #[is(EVENT_POSITION)]
    pub position: u64,
}

/// Where the replay begins: one of the two.
#[shape(request, one_of(from_position, since))]
pub struct ReplayRequest {
    /// The first event to deliver again.
    #[is(EVENT_POSITION)]
    pub from_position: Option<u64>,
    /// Deliver again what was decided at this instant or later.
    #[is(GIVEN_TIME)]
    pub since: Option<Instant>,
}

/// The events that are delivered again. New events follow.
#[shape(answer)]
pub struct SinkReplay {
    /// The first one.
    pub from_position: u64,
    /// The newest one at the time of the request.
    pub to_position: u64,
}

impl ReplayRequest {
    /// The first event to deliver again.
    pub(crate) fn from(&self) -> Result<EventBound, Invalid> {
        EventBound::first(self.from_position, self.since)
    }
}

impl Sink {
    /// A sink, the events of the feed that it has not got yet, and the age of the oldest of them.
    pub fn of(name: &str, record: &SinkRecord, lag_events: u64, lag: Duration) -> Self {
        let put_aside = record.aside.len() as u64;
        Self {
            name: name.to_owned(),
            kind: record.kind.clone(),
            state: record.state(),
            position: record.position,
            lag_events,
            lag_seconds: lag.as_secs_f64(),
            last_error: record.last_error.as_ref().map(SinkError::from),
            put_aside: Some(put_aside).filter(|count| *count > 0),
            instance: record.holder.clone(),
        }
    }
}

impl From<&SinkFailure> for SinkError {
    fn from(error: &SinkFailure) -> Self {
        let failure = &error.failure;
        Self {
            at: Instant::from_micros(failure.at),
            message: failure.message.clone(),
            next_attempt_at: failure.next_at.map(Instant::from_micros),
            action: failure.action.clone(),
            event_id: error.event_id.clone(),
            position: error.position,
            attempts: error.attempts.into(),
        }
    }
}

pub(crate) const LIST_SINKS: RouteSpec = RouteSpec {
    metric: "sinks",
    tag: Tag::Events,
    summary: "List event sinks",
    description: "The systems that events are delivered to: those of the configuration of this server, and those that the store has a \
        position of. Every instance shows the same. A sink that is `blocked` refuses an event for good, and nothing behind it is sent.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::EventsRead),
    responses: &[row::json(200, "The sinks, in the order of their names.", "SinkList")],
    ..PLAIN
};

pub(crate) const SKIP_EVENT: RouteSpec = RouteSpec {
    metric: "skip_event",
    tag: Tag::Events,
    summary: "Have a sink skip an event",
    description: "Skips the event that the sink refuses, and goes on behind it. `position` is that of `last_error`. The event \
        is not delivered to this sink. The skip is an event itself, `sink.event_skipped`.",
    body: required("SkipRequest"),
    access: Access::Write,
    scope: RequiredScope::One(Scope::WebhooksAdmin),
    responses: &[empty(204, "The sink goes on behind the event.")],
    own_reasons: &[Reason::UnknownSink],
    ..PLAIN
};

pub(crate) const REPLAY_SINK: RouteSpec = RouteSpec {
    metric: "replay_sink",
    tag: Tag::Events,
    summary: "Deliver events to a sink again",
    description: "Sets the sink back to a position, or to the first event since an instant. It gets everything from there on again, and \
        then new events.",
    body: required("ReplayRequest"),
    access: Access::Write,
    scope: RequiredScope::One(Scope::WebhooksAdmin),
    responses: &[row::json(202, "The events that are delivered again.", "SinkReplay")],
    own_reasons: &[Reason::UnknownSink],
    ..PLAIN
};

pub(crate) const INIT_SINK: RouteSpec = RouteSpec {
    metric: "init_sink",
    tag: Tag::Events,
    summary: "Create what a sink needs",
    description: "Creates in the other system what events are delivered to, if it does not exist: the stream of a `nats`, the exchange \
        of a `rabbitmq`. Does nothing for other kinds.",
    access: Access::Write,
    scope: RequiredScope::One(Scope::WebhooksAdmin),
    responses: &[empty(204, "It exists.")],
    own_reasons: &[Reason::UnknownSink, Reason::SinkFailed],
    ..PLAIN
};

pub(crate) const FORGET_SINK: RouteSpec = RouteSpec {
    metric: "forget_sink",
    tag: Tag::Events,
    summary: "Forget a removed sink",
    description: "Deletes the position of a sink that is not in the configuration any more. A sink of this name begins anew if it is \
        configured again.",
    access: Access::Write,
    scope: RequiredScope::One(Scope::WebhooksAdmin),
    responses: &[empty(204, "The position is deleted.")],
    own_reasons: &[Reason::UnknownSink, Reason::SinkInUse],
    ..PLAIN
};

/// The operations of the document.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        list_all(),
        skip(),
        replay(),
        on_one(RouteId::InitSink, "warehouse"),
        on_one(RouteId::ForgetSink, "old_ledger"),
    ]
}

/// The schemas of the document, by name.
pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        entry::<SinkList>(),
        entry::<Sink>(),
        entry::<SinkError>(),
        entry::<SkipRequest>(),
        entry::<ReplayRequest>(),
        entry::<SinkReplay>(),
    ]
}

fn on_one(route: RouteId, name: &'static str) -> Operation {
    Operation::of(route).parameter(in_path("sink", label("The sink's name."), name))
}

fn list_all() -> Operation {
    let ledger = Sink {
        name: "ledger".to_owned(),
        kind: "file".to_owned(),
        state: DeliveryState::Running,
        position: 2_411,
        lag_events: 0,
        lag_seconds: 0.0,
        last_error: None,
        put_aside: None,
        instance: Some("shop-1".to_owned()),
    };
    let action = "the operator of RabbitMQ has to bind a queue to the exchange, or skip the event";
    let error = SinkError {
        at: Instant::from_micros(1_795_627_174_558_536),
        message: "no queue takes the event: NO_ROUTE (312)".to_owned(),
        next_attempt_at: Some(Instant::from_micros(1_795_627_184_558_536)),
        action: Some(action.to_owned()),
        event_id: event_id(1).to_string(),
        position: 2_011,
        attempts: 3,
    };
    let orders = Sink {
        name: "orders".to_owned(),
        kind: "rabbitmq".to_owned(),
        state: DeliveryState::Blocked,
        position: 2_010,
        lag_events: 401,
        lag_seconds: 12.4,
        last_error: Some(error),
        ..ledger.clone()
    };
    let all = SinkList { data: vec![ledger, orders] };
    Operation::of(RouteId::ListSinks)
        .responds(json!({ "blocked": example("One sink is blocked", to_value(&all)) }))
}

fn skip() -> Operation {
    on_one(RouteId::SkipEvent, "orders").requests(
        json!({ "event": example("The event that the sink does not take", json!({ "position": 2_011 })) }),
    )
}

fn replay() -> Operation {
    let range = SinkReplay { from_position: 1_800, to_position: 2_411 };
    on_one(RouteId::ReplaySink, "ledger")
        .requests(json!({
            "position": example("From an event on", json!({ "from_position": 1_800 })),
            "since": example("From an instant on", json!({ "since": "2026-11-24T09:30:00.000Z" })),
        }))
        .responds(json!({ "range": example("What is delivered again", to_value(&range)) }))
}
