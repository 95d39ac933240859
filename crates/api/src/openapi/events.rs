//! The operations on events, and what events look like.

use super::lists::limit;
use super::operation::{Operation, component, in_query};
use super::reservations::{example, on_one};
use super::samples::{cart, event_id, happened, history, item, item_key, label as made_label};
use super::schema::{
    Member, always, array, counter, integer, label, maybe, metadata, named, object, quantity, text, time,
    units, uuid, word,
};
use crate::EventType;
use crate::decode::{EVENTS_EXAMINED, EventFormat, PAGE_LIMIT};
use crate::encode;
use crate::field::{FieldValue, ObjectShape, Part};
use crate::resources::keys::ApiKeyFields;
use crate::resources::webhooks::EndpointEventFields;
use crate::routes::RouteId;
use serde_json::{Map, Value, json};
use stockhold_domain::limits::{BASKET_LINES, LIMITS, LINE_QUANTITY, MERGE_SOURCES};
use stockhold_domain::{Scope, StockChange, Transition};
use stockhold_service::KeyId;

/// The types of these names, and those that begin with one of these words.
fn types_of(subjects: &[&str]) -> Vec<&'static str> {
    let of_them = |name: &&str| {
        // The type of a reconciliation begins as those of stock do, and its events have other members.
        let subject = if OF_RECONCILIATIONS.contains(name) { Some(*name) } else { name.split('.').next() };
        subject.is_some_and(|subject| subjects.contains(&subject))
    };
    EventType::ALL.iter().map(|kind| kind.name()).filter(of_them).collect()
}

const OF_RESERVATIONS: &[&str] = &["reservation"];
const OF_STOCK: &[&str] = &["stock", "units"];
const OF_POOLS: &[&str] = &["pool"];
const OF_SALES: &[&str] = &["sale"];
const OF_LIMITS: &[&str] = &["limit"];
const OF_KEYS: &[&str] = &["access"];
const OF_SINKS: &[&str] = &["sink"];
const OF_RECONCILIATIONS: &[&str] = &["stock.reconciled"];
const OF_ENDPOINTS: &[&str] = &["endpoint"];

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    vec![all(), stream(), of_one()]
}

/// Their schemas, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("Event", event()),
        ("ReservationEvent", of_reservation()),
        ("StockEvent", of_stock()),
        (
            "PoolEvent",
            framed(
                "What became of a pool of an item, as it is after the event. `pool.set`: it was created or replaced. `pool.deleted`: \
                 an operator deleted it. `pool.released`: its time came. After a deletion or a release it has only the units \
                 that were drawn from it.",
                OF_POOLS,
                super::pools::of_event(),
            ),
        ),
        ("SaleEvent", of_sale()),
        (
            "LimitEvent",
            framed(
                "What an operator did to a limit, as it is after the event.",
                OF_LIMITS,
                vec![always("limit", named("EventLimit"))],
            ),
        ),
        ("KeyEvent", of_key()),
        (
            "SinkEvent",
            framed(
                "What an operator did to a sink of events.",
                OF_SINKS,
                vec![
                    always("sink", label("The sink's name.")),
                    always("skipped_position", counter("The position of the skipped event.")),
                ],
            ),
        ),
        (
            "ReconciliationEvent",
            framed(
                "A comparison with a stock master has found something.",
                OF_RECONCILIATIONS,
                vec![
                    always("stock_master", label("The name of the stock master.")),
                    always("counts", named("FindingCounts")),
                ],
            ),
        ),
        (
            "EndpointEvent",
            framed(
                "What became of a webhook endpoint. It never shows a secret.",
                OF_ENDPOINTS,
                with_fields::<EndpointEventFields>(always("webhook_id", uuid("The endpoint's id."))),
            ),
        ),
        ("EventLine", line()),
        ("EventItem", figures("An item as it is after the event.", Vec::new())),
        ("LineBefore", moved_line("A line as it was before the event.", "which units it had")),
        ("EventParties", parties()),
        ("MovedLine", {
            let mut line = moved_line("Units that the event moved.", "which units");
            line["properties"]["fulfilled_quantity"] =
                quantity("When returned: those of them that had left the shelf; absent when none had.");
            line
        }),
        ("NewUnit", {
            let mut members = vec![always("unit_id", label("Its id."))];
            members.extend(super::answers::place());
            object("A unit that is new.", members)
        }),
    ]
}

fn event() -> Value {
    let kinds = [
        (OF_RESERVATIONS, "ReservationEvent"),
        (OF_STOCK, "StockEvent"),
        (OF_POOLS, "PoolEvent"),
        (OF_SALES, "SaleEvent"),
        (OF_LIMITS, "LimitEvent"),
        (OF_KEYS, "KeyEvent"),
        (OF_SINKS, "SinkEvent"),
        (OF_RECONCILIATIONS, "ReconciliationEvent"),
        (OF_ENDPOINTS, "EndpointEvent"),
    ];
    let mapping: Map<_, _> = kinds
        .iter()
        .flat_map(|(subjects, schema)| {
            types_of(subjects).into_iter().map(|kind| (kind.to_owned(), named(schema)["$ref"].clone()))
        })
        .collect();
    json!({
        "description": "A change, written together with its effect and never modified. Its `type` says which kind. More \
            types may be added.",
        "oneOf": kinds.map(|(_, schema)| named(schema)),
        "discriminator": { "propertyName": "type", "mapping": mapping },
    })
}

/// What all events have in common around their own.
fn framed(description: &str, subjects: &[&str], own: Vec<Member>) -> Value {
    let mut members = vec![
        always("id", uuid("The event's id, a UUIDv7.")),
        always(
            "position",
            counter("Its place among all events: from 1, without gaps, in the order of commits."),
        ),
        always("type", word(&types_of(subjects), "The kind of event.")),
        always("time", time("When it was decided.")),
    ];
    members.extend(own);
    members.extend([
        maybe("previous_event_id", uuid("The reservation's event before this one.")),
        always("actor", label("Who asked.")),
        maybe("actor_key_id", KeyId::schema("The API key that the caller used, if it used one.")),
        always("request_id", label("What the request was called.")),
        maybe("traceparent", text("The caller's W3C trace context.")),
    ]);
    object(description, members)
}

fn of_reservation() -> Value {
    let most = LINE_QUANTITY * BASKET_LINES as u64;
    framed(
        "What became of a reservation, as it is after the event.",
        OF_RESERVATIONS,
        vec![
            always("reservation_id", uuid("Which reservation.")),
            always("owner_id", label("The owner.")),
            always("status", word(&super::answers::STATUSES, "Where it stands.")),
            always("quantity", integer(0, most, "Units over all lines.")),
            always(
                "lines",
                array(
                    named("EventLine"),
                    1,
                    2 * BASKET_LINES,
                    "Its lines, each with its item's figures. A line that the event removed is at the end, with quantity 0.",
                ),
            ),
            always("expires_at", time("The deadline.")),
            always("version", counter("The reservation's version.")),
            maybe(
                "max_expires_at",
                time("When made or amended: the latest deadline that extensions can reach."),
            ),
            maybe("channel", label("When made or amended: the sales channel.")),
            maybe("pool", label("When made or amended: the pool that it draws from.")),
            maybe("customer_id", label("When made or amended: the buyer.")),
            maybe("session_id", label("When made or amended: the buyer's session.")),
            maybe("metadata", metadata()),
            maybe(
                "lines_before",
                array(
                    named("LineBefore"),
                    1,
                    BASKET_LINES,
                    "When amended, split or merged: the lines before.",
                ),
            ),
            maybe("split_from", uuid("When made by a split: the reservation that was split.")),
            maybe("split_into", uuid("When split: the new reservation.")),
            maybe("merged_from", array(uuid("A reservation."), 1, MERGE_SOURCES, "When merged: the others.")),
            maybe("merged_into", uuid("When it ended in a merge: the reservation that took its lines.")),
            maybe("replaces", uuid("When made in place of an expired reservation: that one.")),
            maybe("replaced_by", uuid("When replaced: the reservation that took the units again.")),
            maybe("from", named("EventParties")),
            maybe("to", named("EventParties")),
            maybe(
                "payment_id",
                label("When a payment window was opened or closed, or when confirmed: the payment."),
            ),
            maybe("until", time("When a payment window was opened or closed: its end.")),
            maybe("payment", named("Payment")),
            maybe("order", named("OrderSummary")),
            maybe("order_id", label("When confirmed: the order.")),
            maybe(
                "fulfilled",
                array(named("MovedLine"), 1, BASKET_LINES, "When fulfilled: what left the shelf."),
            ),
            maybe("returned", array(named("MovedLine"), 1, BASKET_LINES, "When returned: what came back.")),
            maybe(
                "limit_counters",
                array(named("LimitCounter"), 1, usize::MAX, "The counters of limits that the event moved."),
            ),
            maybe(
                "limits_overridden",
                array(
                    label("A limit's id."),
                    1,
                    LIMITS,
                    "The limits that were passed by and would have refused.",
                ),
            ),
            maybe("disposition", word(&["restock", "write_off"], "When returned: what became of the units.")),
            maybe("reason", label("When cancelled or returned, or when a payment window was closed: why.")),
        ],
    )
}

fn moved_line(description: &str, which: &str) -> Value {
    object(
        description,
        vec![
            always("sku", label("What.")),
            always("location", label("Where.")),
            always("quantity", quantity("Units.")),
            maybe(
                "units",
                array(label("A unit's id."), 1, usize::MAX, &format!("Where units have ids: {which}.")),
            ),
        ],
    )
}

fn parties() -> Value {
    object(
        "When transferred: who the reservation was for, and who it is for.",
        vec![
            always("owner_id", label("The owner.")),
            maybe("customer_id", label("The buyer.")),
            maybe("session_id", label("The buyer's session.")),
        ],
    )
}

fn of_stock() -> Value {
    framed(
        "What an operator did to an item, as it is after the event.",
        OF_STOCK,
        vec![
            always("lines", array(named("EventItem"), 1, 1, "The item's figures.")),
            maybe(
                "delta",
                json!({
                    "type": "integer", "format": "int64", "description": "When adjusted: by how much the total moved.",
                }),
            ),
            maybe("reason", label("When adjusted: why.")),
            maybe("supply_id", label("When adjusted for a delivery that arrived: which.")),
            maybe("units", array(named("NewUnit"), 1, usize::MAX, "When units were added: which.")),
            maybe(
                "unit_ids",
                array(
                    label("A unit's id."),
                    1,
                    usize::MAX,
                    "When units were retired or changed their pool: which.",
                ),
            ),
            maybe(
                "to_pool",
                label("When units were put into a pool: which; absent when they became general stock."),
            ),
            always("item", named("Item")),
        ],
    )
}

fn of_sale() -> Value {
    framed(
        "That a sale was paused or resumed.",
        OF_SALES,
        vec![
            always("scope", word(&["item", "location", "everything"], "What it concerns.")),
            maybe("sku", label("The item's SKU, when it concerns an item.")),
            maybe("location", label("The location, when it concerns one or an item there.")),
            maybe("reason", label("Why.")),
        ],
    )
}

fn of_key() -> Value {
    framed(
        "What became of an API key, as it is after the event. `access.key_created`: it was created. `access.key_rolled`: it was \
         created and replaces the key `rolled_from`. `access.key_revoked`: it was revoked, or a roll set its end: `revoked_at` or \
         `expires_at` says when. Shown to callers with the scope `keys:admin` only.",
        OF_KEYS,
        with_fields::<ApiKeyFields>(always("key_id", KeyId::schema("Which key."))),
    )
}

/// An id, and what is shown of its record. It is absent if the record was deleted, or written in a form that this version can't read.
fn with_fields<S: ObjectShape>(id: Member) -> Vec<Member> {
    let fields = S::members(Part::Optional).into_iter();
    std::iter::once(id).chain(fields.map(|member| maybe(member.name, member.schema))).collect()
}

fn line() -> Value {
    let [pool_quantity, pools] = super::pools::draws();
    let [unit_amount, discount, amount, currency] = super::prices::of_line();
    figures(
        "A line of a reservation, with its item as it is after the event.",
        vec![
            always("quantity", integer(0, LINE_QUANTITY, "Units granted.")),
            always("requested_quantity", integer(0, LINE_QUANTITY, "Requested units.")),
            maybe(
                "fulfilled_quantity",
                quantity("Units that left the shelf and did not come back; absent when none did."),
            ),
            maybe(
                "returned_quantity",
                quantity("Units that came back after the sale; absent when none did."),
            ),
            super::answers::backordered(),
            super::answers::promised(),
            pool_quantity,
            pools,
            super::answers::line_limits(),
            unit_amount,
            discount,
            amount,
            currency,
            maybe("units", array(named("LineUnit"), 1, usize::MAX, "Where units have ids: which.")),
        ],
    )
}

fn figures(description: &str, own: Vec<Member>) -> Value {
    let mut members = vec![always("sku", label("What.")), always("location", label("Where."))];
    members.extend(own);
    members.extend([
        maybe("sequence", counter("The item's sequence; absent where units have versions of their own.")),
        always("total_units", units("Units that exist.")),
        always("confirmed_sold", units("Units sold, less returns.")),
        always("fulfilled_units", units("Sold units that have left the shelf.")),
        always("held_units", units("Units in active reservations.")),
        always("held_under_payment", units("Those of them whose reservation has an open payment window.")),
        always("active_reservations", counter("Active reservations with a line on the item.")),
    ]);
    object(description, members)
}

fn of_one() -> Operation {
    let rows: Vec<_> = history().iter().map(shown).collect();
    on_one(RouteId::GetReservationEvents)
        .responds(json!({ "history": example("Created and confirmed", json!({ "data": rows })) }))
}

fn all() -> Operation {
    let key = item_key("default", "tea");
    let change = StockChange::Adjusted { delta: 24, reason: made_label("delivery 88"), supply_id: None };
    let sale = Transition::Sale { scope: Scope::Item(key), paused: true, reason: Some(made_label("count")) };
    let rows = [
        happened(7, event_id(7), Transition::Stock { change, item: item() }),
        happened(8, cart().last_event, history().swap_remove(0).event.transition),
        happened(9, event_id(9), sale),
    ];
    let data: Vec<_> = rows.iter().map(shown).collect();
    let page = json!({ "data": data, "has_more": true, "next_cursor": "9" });
    Operation::of(RouteId::ListEvents)
        .parameter(after("Only events after this position. Default: 0, from the first event."))
        .parameter(tail())
        .parameter(limit())
        .parameter(types())
        .responds(json!({ "page": example("A delivery, a reserve, a pause", page) }))
}

fn stream() -> Operation {
    let stream = history().into_iter().map(|row| {
        let kind = encode::event_type(&row.event);
        format!("id: {}\nevent: {kind}\ndata: {}\n\n", row.position, shown(&row))
    });
    let begins = "retry: 1000\nid: 7\n\n".to_owned();
    let stream: String = std::iter::once(begins).chain(stream).collect();
    Operation::of(RouteId::StreamEvents)
        .parameter(after(
            "Begin after this position; 0 is from the first event. Default: after the newest event.",
        ))
        .parameter(types())
        .parameter(format())
        .parameter(component("parameters", "LastEventId"))
        .responds(json!({ "events": example("Two events", stream.into()) }))
}

fn after(description: &str) -> Value {
    let position =
        json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX, "description": description });
    in_query("after", position)
}

fn tail() -> Value {
    let tail = integer(
        1,
        PAGE_LIMIT as u64,
        "The newest events, at most this many, the oldest of them first. With `type`: of these types, among the newest \
         4,096. Not beside `after` and `limit`.",
    );
    in_query("tail", tail)
}

// The texts of these operations say so.
const _: () = assert!(EVENTS_EXAMINED == 4_096);

fn types() -> Value {
    let names: Vec<_> = EventType::ALL.iter().map(|kind| kind.name()).collect();
    let schema = json!({
        "type": "array",
        "minItems": 1,
        "items": { "type": "string", "enum": names },
        "description": "Only events of these types, with commas between them. Default: all types, also those that are added later.",
    });
    let mut types = in_query("type", schema);
    types["style"] = "form".into();
    types["explode"] = false.into();
    types
}

fn format() -> Value {
    let schema = json!({
        "type": "string",
        "enum": EventFormat::ALL.map(EventFormat::name),
        "default": EventFormat::default().name(),
        "description": "How the events are written: as in pages of events, or as CloudEvents 1.0 in JSON, which webhooks and sinks \
            get.",
    });
    in_query("format", schema)
}

fn shown(row: &stockhold_store::EventRow) -> Value {
    super::samples::written(|out| encode::event(out, row))
}
