//! The operations on event sinks, and what their answers look like.

use super::operation::{Operation, in_path};
use super::reservations::example;
use super::samples::{event_id, written};
use super::schema::{
    always, array, closed, counter, integer, label, maybe, named, object, request_time, text, time, uuid,
    word,
};
use crate::delivery_state::{DeliveryFailure, DeliveryState};
use crate::encode;
use crate::printable::QUOTE_CHARS;
use crate::routes::RouteId;
use crate::sink_record::{ReplayRange, SinkFailure, SinkRecord, SinkStatus};
use serde_json::{Value, json};
use stockhold_domain::limits::POSITION;

/// Most sinks that an answer can have: there is no bound but that of the configuration.
const SINKS: usize = 1_000;

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        list(),
        skip(),
        replay(),
        on_one(RouteId::InitSink, "warehouse"),
        on_one(RouteId::ForgetSink, "old_ledger"),
    ]
}

/// Their schemas, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let position = "The newest event that was delivered, or left out by the filter, with all before it.";
    let lag = json!({
        "type": "number", "minimum": 0,
        "description": "The age of the oldest event that it has not got, in seconds; 0 if it has all.",
    });
    vec![
        (
            "SinkList",
            object(
                "The sinks.",
                vec![always("data", array(named("Sink"), 0, SINKS, "In the order of their names."))],
            ),
        ),
        (
            "Sink",
            object(
                "A system that events are delivered to.",
                vec![
                    always("name", label("Its name in the configuration.")),
                    always(
                        "kind",
                        word(
                            &["file", "nats", "rabbitmq", "kafka", "clickhouse", "redis", "notifications"],
                            "What it is.",
                        ),
                    ),
                    always("state", delivery_state()),
                    always("position", counter(position)),
                    always("lag_events", counter("Events that it has not got yet.")),
                    always("lag_seconds", lag),
                    maybe("last_error", named("SinkError")),
                    maybe(
                        "put_aside",
                        counter(
                            "Events of which a part could not be delivered while others could: a mail whose server does not take it for \
                             its recipient. They are tried again, and given up after five days. Absent: none.",
                        ),
                    ),
                    maybe("instance", label("The instance that serves it.")),
                ],
            ),
        ),
        (
            "SinkError",
            object(
                "The failure that keeps a sink from getting events.",
                vec![
                    always("at", time("When the last attempt failed.")),
                    always("message", failure_message()),
                    maybe("next_attempt_at", time(NEXT_ATTEMPT)),
                    maybe("action", text(ACTION)),
                    always("event_id", uuid("The event that it does not take.")),
                    always("position", counter("The position of that event.")),
                    always("attempts", counter("Failed attempts.")),
                ],
            ),
        ),
        (
            "SkipRequest",
            closed(
                "Which event the sink skips.",
                vec![always("position", event_position("The position of `last_error`."))],
            ),
        ),
        ("ReplayRequest", {
            let mut either = closed(
                "Where the replay begins: one of the two.",
                vec![
                    maybe("from_position", event_position("The first event to deliver again.")),
                    maybe("since", request_time("Deliver again what was decided at this instant or later.")),
                ],
            );
            either["oneOf"] = json!([{ "required": ["from_position"] }, { "required": ["since"] }]);
            either
        }),
        (
            "SinkReplay",
            object(
                "The events that are delivered again. New events follow.",
                vec![
                    always("from_position", counter("The first one.")),
                    always("to_position", counter("The newest one at the time of the request.")),
                ],
            ),
        ),
    ]
}

/// What `next_attempt_at` of a failure is.
pub(super) const NEXT_ATTEMPT: &str = "When the next attempt is due.";
/// What `action` of a failure is.
pub(super) const ACTION: &str = "Who has to do what before it goes on. Absent: it may go on by itself.";

/// The state of what works with another system.
pub(super) fn delivery_state() -> Value {
    word(
        &DeliveryState::ALL.map(DeliveryState::name),
        "`running`; `retrying`: the last attempt failed, and the next one may succeed; `blocked`: nothing goes on before somebody does \
         what `last_error.action` says; `standby`: no instance serves it.",
    )
}

/// What the other system said.
pub(super) fn failure_message() -> Value {
    text(&format!(
        "What the other system said, at most {QUOTE_CHARS} printable characters, or what happened."
    ))
}

/// The position of an event.
fn event_position(description: &str) -> Value {
    integer(1, POSITION, description)
}

fn on_one(route: RouteId, name: &'static str) -> Operation {
    Operation::of(route).parameter(in_path("sink", label("The sink's name."), name))
}

fn list() -> Operation {
    let error = SinkFailure {
        failure: DeliveryFailure::new(1_795_627_174_558_536, "no queue takes the event: NO_ROUTE (312)")
            .with_action(Some(
                "the operator of RabbitMQ has to bind a queue to the exchange, or skip the event",
            ))
            .with_next_attempt(1_795_627_184_558_536),
        event_id: event_id(1).to_string(),
        position: 2_011,
        attempts: 3,
    };
    let record = |kind: &str, position| SinkRecord {
        kind: kind.to_owned(),
        position,
        holder: Some("shop-1".to_owned()),
        ..SinkRecord::default()
    };
    let sink = |name: &str, record, lag_events, lag_millis| SinkStatus {
        name: name.to_owned(),
        record,
        lag_events,
        lag_millis,
    };
    let blocked = SinkRecord { last_error: Some(error), ..record("rabbitmq", 2_010) };
    let all = [sink("ledger", record("file", 2_411), 0, 0), sink("orders", blocked, 401, 12_400)];
    Operation::of(RouteId::ListSinks).responds(json!({
        "blocked": example("One sink is blocked", written(|out| encode::sinks(out, &all))),
    }))
}

fn skip() -> Operation {
    on_one(RouteId::SkipEvent, "orders").requests(
        json!({ "event": example("The event that the sink does not take", json!({ "position": 2_011 })) }),
    )
}

fn replay() -> Operation {
    let range = ReplayRange { from: 1_800, to: 2_411 };
    on_one(RouteId::ReplaySink, "ledger")
        .requests(json!({
            "position": example("From an event on", json!({ "from_position": 1_800 })),
            "since": example("From an instant on", json!({ "since": "2026-11-24T09:30:00.000Z" })),
        }))
        .responds(json!({
            "range": example("What is delivered again", written(|out| encode::sink_replay(out, range))),
        }))
}
