//! Events as they leave for other systems: `CloudEvents` 1.0 in JSON. <https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md>

use super::event::{event, event_type, traceparent};
use super::json::{Object, put_text};
use crate::inventory_event::InventoryEvent;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use stockhold_domain::{Event, EventId, Instant, ItemKey, Mode, Scope, Transition};
use stockhold_store::EventRow;

/// The beginning of every type.
pub const CLOUD_EVENT_PREFIX: &str = "stockhold.";
/// The media type.
pub const CLOUD_EVENT_CONTENT: &str = "application/cloudevents+json";
/// The type of the message of a test of a webhook endpoint.
const TEST: &str = "webhook.test";
/// What a path segment keeps as it is: the unreserved characters of RFC 3986.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An event of the feed.
pub fn cloud_event(out: &mut Vec<u8>, row: &EventRow, source: &str) {
    let mut object = open_cloud_event(out, source, event_type(&row.event));
    object.uuid("id", row.event.id.as_u128());
    object.time("time", row.event.at);
    put_subject(&mut object, &event_subject(&row.event));
    object.text("position", &row.position.to_string());
    if let Some(sequence) = only_sequence(&row.event) {
        object.text("sequence", &sequence.to_string());
    }
    if let Some(trace) = &row.event.origin.trace {
        put_text(object.value("traceparent"), &traceparent(trace));
    }
    event(object.value("data"), row);
    object.close();
}

/// An event that is derived from the state of an item.
pub fn inventory_cloud_event(out: &mut Vec<u8>, derived: &InventoryEvent, source: &str) {
    let mut object = open_cloud_event(out, source, derived.kind.name());
    object.uuid("id", derived.id);
    object.time("time", derived.at);
    put_subject(&mut object, &item_subject(&derived.item.key));
    object.text("position", &derived.position.to_string());
    let figures = &derived.item.figures;
    let counted = derived.item.mode == Mode::Counted;
    if counted {
        object.text("sequence", &figures.sequence.to_string());
    }
    let mut data = Object::open(object.value("data"));
    super::text_of(&mut data, &derived.item.key);
    data.number("available", derived.item.available());
    data.number("held_units", figures.held);
    data.number("confirmed_sold", figures.confirmed_sold);
    data.number("on_hand", figures.total_units.saturating_sub(figures.fulfilled));
    if counted {
        data.number("sequence", figures.sequence);
    }
    data.close();
    object.close();
}

/// The message of a test of a webhook endpoint. It is no event of the feed.
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

/// What an event is about: the reservation, or the item as `location/sku`, percent-encoded.
pub fn event_subject(event: &Event) -> String {
    match &event.transition {
        Transition::Hold { hold, .. } => hold.id.to_string(),
        Transition::Stock { item, .. } => item_subject(&item.key),
        Transition::Sale { scope: Scope::Everything, .. } => "sale".to_owned(),
        Transition::Sale { scope: Scope::Location(location), .. } => path_segment(location.as_str()),
        Transition::Sale { scope: Scope::Item(key), .. } => item_subject(key),
        Transition::Limit { limit } => format!("limits/{}", path_segment(limit.id.as_str())),
        Transition::Record { record, .. } => {
            format!("{}/{}", record.key.kind.name(), path_segment(record.key.id.as_str()))
        }
    }
}

/// An item as a subject.
pub fn item_subject(key: &ItemKey) -> String {
    format!("{}/{}", path_segment(key.location()), path_segment(key.sku()))
}

/// A text as one segment of a path, percent-encoded.
pub fn path_segment(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

pub(super) fn open_cloud_event<'o>(out: &'o mut Vec<u8>, source: &str, kind: &str) -> Object<'o> {
    let mut object = Object::open(out);
    object.word("specversion", "1.0");
    object.text("source", source);
    let out = object.value("type");
    out.push(b'"');
    out.extend_from_slice(CLOUD_EVENT_PREFIX.as_bytes());
    out.extend_from_slice(kind.as_bytes());
    out.push(b'"');
    object.word("datacontenttype", "application/json");
    object
}

fn put_subject(object: &mut Object<'_>, subject: &str) {
    object.text("subject", subject);
    object.text("partitionkey", subject);
}

/// The sequence of the item, if the event concerns one counted item alone.
fn only_sequence(event: &Event) -> Option<u64> {
    match &event.transition {
        Transition::Hold { hold, figures, .. } => match (&*hold.lines, &**figures) {
            ([line], [figures]) if line.units.is_none() => Some(figures.sequence),
            _ => None,
        },
        Transition::Stock { item, .. } if item.mode == Mode::Counted => Some(item.figures.sequence),
        Transition::Stock { .. }
        | Transition::Sale { .. }
        | Transition::Limit { .. }
        | Transition::Record { .. } => None,
    }
}
