//! Event sinks as JSON.

use super::json::{Object, array};
use crate::delivery_state::DeliveryFailure;
use crate::sink_record::{ReplayRange, SinkRecord, SinkStatus};
use stockhold_domain::{Instant, RecordValue};

/// The sinks.
pub fn sinks(out: &mut Vec<u8>, all: &[SinkStatus]) {
    let mut object = Object::open(out);
    array(object.value("data"), all, sink);
    object.close();
}

/// A sink.
pub fn sink(out: &mut Vec<u8>, SinkStatus { name, record, lag_events, lag_millis }: &SinkStatus) {
    let mut object = Object::open(out);
    object.text("name", name);
    object.text("kind", &record.kind);
    object.word("state", record.state().name());
    object.number("position", record.position);
    object.number("lag_events", *lag_events);
    object.raw("lag_seconds", &format!("{}.{:03}", lag_millis / 1_000, lag_millis % 1_000));
    if let Some(error) = &record.last_error {
        let mut shown = Object::open(object.value("last_error"));
        put_failure(&mut shown, &error.failure);
        shown.text("event_id", &error.event_id);
        shown.number("position", error.position);
        shown.number("attempts", u64::from(error.attempts));
        shown.close();
    }
    if !record.aside.is_empty() {
        object.number("put_aside", record.aside.len() as u64);
    }
    object.optional_text("instance", record.holder.as_deref());
    object.close();
}

/// Why something does not work with another system.
pub(super) fn put_failure(object: &mut Object<'_>, failure: &DeliveryFailure) {
    object.time("at", Instant::from_micros(failure.at));
    object.text("message", &failure.message);
    if let Some(next) = failure.next_at {
        object.time("next_attempt_at", Instant::from_micros(next));
    }
    object.optional_text("action", failure.action.as_deref());
}

/// What a replay delivers again.
pub fn sink_replay(out: &mut Vec<u8>, range: ReplayRange) {
    let mut object = Object::open(out);
    object.number("from_position", range.from);
    object.number("to_position", range.to);
    object.close();
}

/// What an event shows of a sink: the event that was skipped.
pub(super) fn of_event(object: &mut Object<'_>, value: Option<&RecordValue>) {
    let record = value.and_then(|value| SinkRecord::from_bytes(value.as_bytes()).ok());
    if let Some(skipped) = record.as_ref().and_then(|record| record.skipped.last()) {
        object.number("skipped_position", skipped.position);
    }
}
