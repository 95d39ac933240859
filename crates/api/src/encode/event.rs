//! Events as JSON: the change, the caller, and the state after it.

use super::json::{Object, array, put_text};
use super::terms::put_optional_terms;
use super::{checkout, item, limits, pools, put_line_details, put_related, status, text_of, units};
use crate::EventType;
use crate::resources::keys::ApiKeyFields;
use crate::resources::webhooks::EndpointEventFields;
use crate::sink_record::SinkRecord;
use crate::stock_master_record::ReportRecord;
use crate::webhook_record::WebhookRecord;
use stockhold_domain::{
    Disposition, Event, Hold, HoldChange, Label, Line, LineChange, Mode, MovedUnits, Parties, Record,
    RecordChange, RecordValue, RequestId, Scope, StockChange, StockCounters, Trace, Transition,
};
use stockhold_service::{KeyId, KeyRecord};
use stockhold_store::EventRow;

/// The event's type, for example `reservation.created`. Events without a type are shown to nobody.
pub fn event_type(event: &Event) -> &'static str {
    EventType::of(event).map_or("record.changed", EventType::name)
}

/// An event.
pub fn event(out: &mut Vec<u8>, row: &EventRow) {
    let event = &row.event;
    let mut object = Object::open(out);
    object.uuid("id", event.id.as_u128());
    object.number("position", row.position);
    object.word("type", event_type(event));
    object.time("time", event.at);
    match &event.transition {
        Transition::Hold { change, hold, figures, limits: effects } => {
            moved(&mut object, change, hold, figures);
            if let Some(effects) = effects {
                limits::put_effects(&mut object, effects);
            }
        }
        Transition::Stock { change, item: after } => {
            array(object.value("lines"), [after], |out, after| {
                let mut object = Object::open(out);
                text_of(&mut object, &after.key);
                put_figures(&mut object, &after.figures, after.mode == Mode::Counted);
                object.close();
            });
            match change {
                StockChange::Set | StockChange::Deleted => {}
                StockChange::Adjusted { delta, reason, supply_id } => {
                    object.raw("delta", &delta.to_string());
                    object.text("reason", reason.as_str());
                    object.optional_text("supply_id", supply_id.as_ref().map(Label::as_str));
                }
                StockChange::UnitsAdded(all) => units::new(object.value("units"), all),
                StockChange::PoolSet { pool }
                | StockChange::PoolDeleted { pool }
                | StockChange::PoolReleased { pool } => {
                    if let Some(pool) = after.pools.get(pool) {
                        pools::pool(object.value("pool"), pool);
                    }
                }
                StockChange::UnitsPooled { pool, units } => {
                    object.optional_text("to_pool", pool.as_ref().map(Label::as_str));
                    array(object.value("unit_ids"), &**units, |out, unit| put_text(out, unit.id.as_str()));
                }
                StockChange::UnitsRetired(units) => {
                    array(object.value("unit_ids"), &**units, |out, unit| put_text(out, unit.as_str()));
                }
            }
            item(object.value("item"), after);
        }
        Transition::Sale { scope, reason, .. } => {
            put_scope(&mut object, scope);
            object.optional_text("reason", reason.as_ref().map(Label::as_str));
        }
        Transition::Limit { limit } => limits::limit(object.value("limit"), limit),
        Transition::Record { change, record } => put_record(&mut object, *change, record),
    }
    if let Some(previous) = event.previous {
        object.uuid("previous_event_id", previous.as_u128());
    }
    object.text("actor", event.origin.actor.as_str());
    if let Some(id) = event.origin.key_id {
        object.text("actor_key_id", &KeyId::from_u128(id).to_string());
    }
    match &event.origin.request_id {
        RequestId::Made(bits) => object.uuid("request_id", *bits),
        RequestId::Given(text) => object.text("request_id", text.as_str()),
    }
    if let Some(trace) = &event.origin.trace {
        put_text(object.value("traceparent"), &traceparent(trace));
    }
    object.close();
}

fn moved(object: &mut Object<'_>, change: &HoldChange, hold: &Hold, figures: &[StockCounters]) {
    object.uuid("reservation_id", hold.id.as_u128());
    object.text("owner_id", hold.terms.reserve.owner_id.as_str());
    object.word("status", status(hold.status));
    object.number("quantity", hold.quantity());
    let pool = hold.terms.reserve.pool();
    array(object.value("lines"), hold.lines.iter().zip(figures), |out, line| put_line(out, line, pool));
    object.time("expires_at", hold.expires_at);
    object.number("version", hold.version);
    let closing = hold.closing.as_deref();
    match change {
        HoldChange::Created | HoldChange::CreatedBySplit => {
            object.time("max_expires_at", hold.terms.max_expires_at);
            put_optional_terms(object, hold.terms.reserve.optional.as_deref());
            put_related(object, hold.details());
        }
        HoldChange::Extended | HoldChange::Expired => {}
        HoldChange::Confirmed => {
            let order_id = closing.and_then(|closing| closing.order_id.as_ref());
            object.optional_text("order_id", order_id.map(Label::as_str));
            let payment = hold.details().payment.as_ref();
            object.optional_text("payment_id", payment.map(|payment| payment.id.as_str()));
            checkout::put_order(object, hold);
        }
        HoldChange::Cancelled => {
            let reason = closing.and_then(|closing| closing.reason.as_ref());
            object.optional_text("reason", reason.map(Label::as_str));
        }
        HoldChange::Amended { lines } => {
            put_lines_before(object, hold, lines);
            object.time("max_expires_at", hold.terms.max_expires_at);
            put_optional_terms(object, hold.terms.reserve.optional.as_deref());
        }
        HoldChange::Split { lines, into } => {
            put_lines_before(object, hold, lines);
            object.uuid("split_into", into.as_u128());
        }
        HoldChange::Merged { lines, from } => {
            put_lines_before(object, hold, lines);
            array(object.value("merged_from"), &**from, |out, id| put_text(out, &id.to_string()));
        }
        HoldChange::MergedAway | HoldChange::Replaced => put_related(object, hold.details()),
        HoldChange::Transferred { from } => {
            put_parties(object.value("from"), from);
            let optional = hold.terms.reserve.optional.as_deref();
            let to = Parties {
                owner_id: hold.terms.reserve.owner_id.clone(),
                customer_id: optional.and_then(|optional| optional.customer_id.clone()),
                session_id: optional.and_then(|optional| optional.session_id.clone()),
            };
            put_parties(object.value("to"), &to);
        }
        HoldChange::PaymentOpened { .. } | HoldChange::PaymentAdvanced { .. } => put_payment(object, hold),
        HoldChange::PaymentClosed { reason } => {
            put_payment(object, hold);
            object.optional_text("reason", reason.as_ref().map(Label::as_str));
        }
        HoldChange::Fulfilled { lines } => put_moved(object.value("fulfilled"), hold, lines, &[]),
        HoldChange::Returned { lines, fulfilled, disposition, reason } => {
            put_moved(object.value("returned"), hold, lines, fulfilled);
            object.word("disposition", disposition_name(*disposition));
            object.text("reason", reason.as_str());
        }
    }
}

/// A disposition as requests and events name it.
pub(crate) fn disposition_name(disposition: Disposition) -> &'static str {
    match disposition {
        Disposition::Restock => "restock",
        Disposition::WriteOff => "write_off",
    }
}

fn put_payment(object: &mut Object<'_>, hold: &Hold) {
    if let Some(payment) = &hold.details().payment {
        object.text("payment_id", payment.id.as_str());
        object.time("until", payment.until);
        if payment.charge.is_some() {
            checkout::put_payment(object.value("payment"), payment, hold.details().authorizations, None);
            checkout::put_order(object, hold);
        }
    }
}

fn put_parties(out: &mut Vec<u8>, parties: &Parties) {
    let mut object = Object::open(out);
    object.text("owner_id", parties.owner_id.as_str());
    object.optional_text("customer_id", parties.customer_id.as_ref().map(Label::as_str));
    object.optional_text("session_id", parties.session_id.as_ref().map(Label::as_str));
    object.close();
}

/// The lines before the event. New lines are not among them.
fn put_lines_before(object: &mut Object<'_>, hold: &Hold, changes: &[LineChange]) {
    let lines = hold.lines.iter().zip(changes).filter(|(_, change)| change.quantity_before > 0);
    array(object.value("lines_before"), lines, |out, (line, change)| {
        let mut object = Object::open(out);
        text_of(&mut object, &line.item);
        object.number("quantity", u64::from(change.quantity_before));
        if line.units.is_some() {
            let kept = line.units().iter().take(usize::try_from(change.kept).unwrap_or(usize::MAX));
            array(object.value("units"), kept.chain(&*change.released), |out, unit| {
                put_text(out, unit.id.as_str());
            });
        }
        object.close();
    });
}

/// The units that an event moved, line by line, with how many of them had been fulfilled.
fn put_moved(out: &mut Vec<u8>, hold: &Hold, moved: &[MovedUnits], fulfilled: &[u32]) {
    let fulfilled = fulfilled.iter().copied().chain(std::iter::repeat(0));
    let lines = hold.lines.iter().zip(moved).zip(fulfilled).filter(|((_, moved), _)| moved.quantity > 0);
    array(out, lines, |out, ((line, moved), fulfilled)| {
        let mut object = Object::open(out);
        text_of(&mut object, &line.item);
        object.number("quantity", u64::from(moved.quantity));
        if fulfilled > 0 {
            object.number("fulfilled_quantity", u64::from(fulfilled));
        }
        if line.units.is_some() {
            let unit = |place: &u32| line.units().get(usize::try_from(*place).ok()?);
            array(object.value("units"), moved.places.iter().filter_map(unit), |out, unit| {
                put_text(out, unit.id.as_str());
            });
        }
        object.close();
    });
}

/// `pool` is the one that the reservation names.
fn put_line(out: &mut Vec<u8>, (line, figures): (&Line, &StockCounters), pool: Option<&Label>) {
    let mut object = Object::open(out);
    text_of(&mut object, &line.item);
    object.number("quantity", u64::from(line.quantity));
    object.number("requested_quantity", u64::from(line.requested));
    if line.fulfilled > 0 {
        object.number("fulfilled_quantity", u64::from(line.fulfilled));
    }
    if line.returned > 0 {
        object.number("returned_quantity", u64::from(line.returned));
    }
    put_line_details(&mut object, line, pool);
    if line.units.is_some() {
        units::of_line(object.value("units"), line.units());
    }
    put_figures(&mut object, figures, line.units.is_none());
    object.close();
}

/// The counters of an item after the event.
fn put_figures(object: &mut Object<'_>, figures: &StockCounters, counted: bool) {
    if counted {
        object.number("sequence", figures.sequence);
    }
    object.number("total_units", figures.total_units);
    object.number("confirmed_sold", figures.confirmed_sold);
    object.number("fulfilled_units", figures.fulfilled);
    object.number("held_units", figures.held);
    object.number("held_under_payment", figures.held_under_payment);
    object.number("active_reservations", figures.active);
}

fn put_scope(object: &mut Object<'_>, scope: &Scope) {
    match scope {
        Scope::Everything => object.word("scope", "everything"),
        Scope::Location(location) => {
            object.word("scope", "location");
            object.text("location", location.as_str());
        }
        Scope::Item(key) => {
            object.word("scope", "item");
            text_of(object, key);
        }
    }
}

/// A trace as its header has it.
pub fn traceparent(trace: &Trace) -> String {
    format!("00-{:032x}-{:016x}-{:02x}", trace.trace_id, trace.span_id, trace.flags)
}

/// What an event shows of a record. The value may be a secret: of an API key everything but its digest is shown. A value that can't be read
/// is left out: nothing of it may be shown.
fn put_record(object: &mut Object<'_>, change: RecordChange, record: &Record) {
    let id = record.key.id.as_str();
    let value = record.value.as_ref().map(RecordValue::as_bytes);
    match change {
        RecordChange::Silent => {}
        RecordChange::KeyCreated | RecordChange::KeyRolled | RecordChange::KeyRevoked => {
            object.text("key_id", id);
            if let Some(key) = value.and_then(|value| KeyRecord::from_bytes(value).ok()) {
                object.members_of(&ApiKeyFields::from(&key));
            }
        }
        RecordChange::SinkEventSkipped => {
            object.text("sink", id);
            let sink = value.and_then(|value| SinkRecord::from_bytes(value).ok());
            if let Some(skipped) = sink.as_ref().and_then(|sink| sink.skipped.last()) {
                object.number("skipped_position", skipped.position);
            }
        }
        RecordChange::EndpointCreated
        | RecordChange::EndpointChanged
        | RecordChange::EndpointDeleted
        | RecordChange::EndpointDisabled
        | RecordChange::EndpointSecretRotated => {
            object.text("webhook_id", id);
            if let Some(webhook) = value.and_then(|value| WebhookRecord::from_bytes(value).ok()) {
                object.members_of(&EndpointEventFields::from(&webhook));
            }
        }
        RecordChange::StockReconciled => {
            object.text("stock_master", id);
            if let Some(report) = value.and_then(|value| ReportRecord::from_bytes(value).ok()) {
                super::shape(object.value("counts"), &report.counts);
            }
        }
    }
}
