//! Events as they leave for other systems: the envelope, and what webhooks bring.

use super::reservations::example;
use super::samples::{at, event_id, history, item, written};
use super::schema::{always, counter, label, maybe, named, object, text, time, units, uuid, with, word};
use crate::encode::{self, CLOUD_EVENT_CONTENT, CLOUD_EVENT_PREFIX};
use crate::{InventoryEvent, InventoryEventType};
use serde_json::{Value, json};
use stockhold_store::EventRow;

/// The default of the setting `source`.
const SOURCE: &str = "stockhold";
/// The endpoint of the examples.
const ENDPOINT: &str = "01930000-0000-7000-8000-0000000000e1";

/// The schemas, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("CloudEvent", envelope(named("Event"), "An event of the feed.")),
        ("TestCloudEvent", envelope(named("WebhookTestData"), "A message that an operator has had sent.")),
        ("InventoryCloudEvent", envelope(named("InventoryData"), INVENTORY)),
        (
            "WebhookTestData",
            object("What the test is about.", vec![always("webhook_id", uuid("The endpoint's id."))]),
        ),
        (
            "InventoryData",
            object(
                "The figures of an item.",
                vec![
                    always("sku", label("What.")),
                    always("location", label("Where.")),
                    always("available", units("Units that can be reserved.")),
                    always("held_units", units("Units in active reservations.")),
                    always("confirmed_sold", units("Units sold, less returns.")),
                    always("on_hand", units("Units that have not left the shelf.")),
                    maybe(
                        "sequence",
                        counter("Transitions of the item so far. Absent where units have ids."),
                    ),
                ],
            ),
        ),
    ]
}

const INVENTORY: &str = "An event that is derived from the state of an item, for sinks only. `inventory.updated`: its figures have \
    changed. `inventory.low`: `available` has fallen to `low_stock` or below it. `inventory.depleted`: no unit is left to \
    reserve. `inventory.replenished`: there are units again.";

fn envelope(data: Value, description: &str) -> Value {
    object(
        &format!("{description} CloudEvents 1.0 in JSON."),
        vec![
            always("specversion", word(&["1.0"], "The version of CloudEvents.")),
            always("id", uuid("The event's id. An event that comes again has the same one.")),
            always("source", text("The setting `source` of the server.")),
            always("type", text(&format!("`{CLOUD_EVENT_PREFIX}` and the type of the event."))),
            always("datacontenttype", word(&["application/json"], "What `data` is.")),
            always("time", time("When the event was decided.")),
            always(
                "subject",
                text(
                    "What it is about: the id of the reservation, or the item as `location/sku`, percent-encoded.",
                ),
            ),
            maybe("partitionkey", text("The same. Events of one subject belong in one partition.")),
            maybe(
                "position",
                number(
                    "Its position in the feed. Of a derived event: that of the newest one that it covers.",
                ),
            ),
            maybe(
                "sequence",
                number(
                    "The item's sequence, where exactly one counted item is concerned. Of two events, the higher one is newer.",
                ),
            ),
            maybe("traceparent", text("The trace of the request, as W3C writes it.")),
            always("data", data),
        ],
    )
}

/// A whole number as text: extensions of `CloudEvents` have 32 bits.
fn number(description: &str) -> Value {
    with(text(description), "pattern", "^[0-9]+$")
}

/// What the document says under `webhooks`.
pub(super) fn webhooks() -> Value {
    let events = history().iter().map(of_row).collect::<Vec<_>>();
    let examples = json!({
        "created": example("A hold was made", events[0].clone()),
        "confirmed": example("It was sold", events[events.len() - 1].clone()),
    });
    let test = written(|out| encode::cloud_event_of_test(out, event_id(1), ENDPOINT, at(0), SOURCE));
    let derived = InventoryEvent {
        kind: InventoryEventType::Low,
        id: event_id(2).as_u128(),
        at: at(0),
        position: 41,
        item: item(),
    };
    let low = written(|out| encode::inventory_cloud_event(out, &derived, SOURCE));
    json!({
        "event": request(
            "An event of the feed",
            "Sent to each webhook endpoint whose filters the event passes, once or more. Answer with a status from 200 to 299 \
             when you have it.",
            "CloudEvent",
            examples,
        ),
        "test": request(
            "A test",
            "Sent by `POST /v1/webhooks/{webhook_id}/test`. It is no event of the feed.",
            "TestCloudEvent",
            json!({ "test": example("A test", test) }),
        ),
        "inventory": request(
            "A derived event of a sink",
            "Sinks get these beside the events of the feed. Webhook endpoints do not.",
            "InventoryCloudEvent",
            json!({ "low": example("The stock of an item is low", low) }),
        ),
    })
}

fn of_row(row: &EventRow) -> Value {
    written(|out| encode::cloud_event(out, row, SOURCE))
}

fn request(summary: &str, description: &str, schema: &str, examples: Value) -> Value {
    let header = |name: &str, description: &str| json!({ "name": name, "in": "header", "required": true, "description": description, "schema": { "type": "string" } });
    json!({
        "post": {
            "summary": summary,
            "description": description,
            "parameters": [
                header("webhook-id", "The event's id."),
                header("webhook-timestamp", "When it was sent, in seconds since 1970."),
                header("webhook-signature", "Signatures as Standard Webhooks has them: `v1,` and base64, a space between two."),
            ],
            "requestBody": {
                "required": true,
                "content": { CLOUD_EVENT_CONTENT: { "schema": named(schema), "examples": examples } },
            },
            "responses": { "2XX": { "description": "You have it." } },
        },
    })
}
