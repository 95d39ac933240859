//! Encoding of records. A mandatory field has a fixed place. An optional field has a tag ([`put_field`]), so a new one
//! changes no existing bytes.

use super::changes::put_hold_change;
use super::details::{put_details, put_line_details};
use super::limits::{put_limit, put_limit_effects};
use super::pools::put_pools;
use super::settings::put_settings;
use super::terms::put_optional_terms;
use super::{EVENT_VERSION, units};
use stockhold_domain::{
    Closing, Event, Hold, HoldTerms, Item, ItemKey, KeyRecord, KeyTarget, Label, Line, Mode, Origin, Record,
    RecordChange, RecordKey, RecordKind, RequestId, Scope, Seconds, Status, StockChange, StockCounters,
    Trace, Transition,
};

/// Ends the tagged fields of a record.
pub(super) const END_OF_FIELDS: u8 = 0;

/// Appends an unsigned integer.
pub fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

#[expect(clippy::cast_sign_loss, reason = "zigzag")]
pub(super) fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_u64(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends an id.
pub fn put_u128(out: &mut Vec<u8>, value: u128) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a text.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_u64(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        None => out.push(0),
        Some(value) => {
            out.push(1);
            put(out, value);
        }
    }
}

/// Appends an optional field, if it is present: its tag, then its value. Fields are written in ascending order of their
/// tags, which begin at 1, and [`end_fields`] follows the last one.
pub(super) fn put_field<T>(out: &mut Vec<u8>, tag: u8, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    if let Some(value) = value {
        out.push(tag);
        put(out, value);
    }
}

/// As [`put_field`], for a label.
pub(super) fn put_label_field(out: &mut Vec<u8>, tag: u8, label: Option<&Label>) {
    put_field(out, tag, label.map(Label::as_str), put_text);
}

/// Ends the optional fields of a record.
pub(super) fn end_fields(out: &mut Vec<u8>) {
    out.push(END_OF_FIELDS);
}

pub(super) fn put_label(out: &mut Vec<u8>, label: Option<&Label>) {
    put_option(out, label.map(Label::as_str), put_text);
}

pub(super) fn put_seconds(out: &mut Vec<u8>, seconds: Seconds) {
    put_u64(out, u64::from(seconds.get()));
}

pub(super) fn put_key(out: &mut Vec<u8>, key: &ItemKey) {
    put_text(out, key.location());
    put_text(out, key.sku());
}

/// Appends an event.
pub fn put_event(out: &mut Vec<u8>, event: &Event) {
    out.push(EVENT_VERSION);
    put_u128(out, event.id.as_u128());
    put_i64(out, event.at.micros());
    let Origin { actor, key_id, request_id, trace } = &event.origin;
    put_text(out, actor.as_str());
    match request_id {
        RequestId::Made(id) => {
            out.push(0);
            put_u128(out, *id);
        }
        RequestId::Given(text) => {
            out.push(1);
            put_text(out, text.as_str());
        }
    }
    put_field(out, 1, event.previous, |out, id| put_u128(out, id.as_u128()));
    put_field(out, 2, *trace, |out, Trace { trace_id, span_id, flags }| {
        put_u128(out, trace_id);
        put_u64(out, span_id);
        out.push(flags);
    });
    put_field(out, 3, *key_id, put_u128);
    end_fields(out);
    put_transition(out, &event.transition);
}

fn put_transition(out: &mut Vec<u8>, transition: &Transition) {
    match transition {
        Transition::Hold { change, hold, figures, limits } => {
            put_hold_change(out, change);
            put_hold(out, hold);
            for figures in figures {
                put_figures(out, figures);
            }
            put_option(out, limits.as_deref(), put_limit_effects);
        }
        Transition::Stock { change, item } => {
            match change {
                StockChange::Set => out.push(16),
                StockChange::Adjusted { delta, reason, supply_id } => {
                    out.push(17);
                    put_i64(out, *delta);
                    put_text(out, reason.as_str());
                    put_label_field(out, 1, supply_id.as_ref());
                    end_fields(out);
                }
                StockChange::UnitsAdded(units) => {
                    out.push(18);
                    units::put_added(out, units);
                }
                StockChange::UnitsRetired(units) => {
                    out.push(19);
                    put_u64(out, units.len() as u64);
                    units.iter().for_each(|unit| put_text(out, unit.as_str()));
                }
                StockChange::Deleted => out.push(20),
                StockChange::PoolSet { pool } => {
                    out.push(21);
                    put_text(out, pool.as_str());
                }
                StockChange::PoolDeleted { pool } => {
                    out.push(22);
                    put_text(out, pool.as_str());
                }
                StockChange::PoolReleased { pool } => {
                    out.push(23);
                    put_text(out, pool.as_str());
                }
                StockChange::UnitsPooled { pool, units } => {
                    out.push(24);
                    put_label_field(out, 1, pool.as_ref());
                    end_fields(out);
                    units::put_pooled(out, units);
                }
            }
            put_item(out, item);
        }
        Transition::Sale { scope, paused, reason } => {
            out.push(32);
            put_scope(out, scope);
            out.push(u8::from(*paused));
            put_label_field(out, 1, reason.as_ref());
            end_fields(out);
        }
        Transition::Limit { limit } => {
            out.push(64);
            put_limit(out, limit);
        }
        Transition::Record { change, record } => {
            out.push(48);
            put_record_change(out, *change);
            put_record(out, record);
        }
    }
}

/// Appends a hold: its id, the length of the rest in 4 bytes, and the rest. The length lets a reader skip the hold.
pub fn put_hold(out: &mut Vec<u8>, hold: &Hold) {
    put_u128(out, hold.id.as_u128());
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    put_hold_body(out, hold);
    // A hold's body is bounded by the limits on lines, units and texts, far below 4 GiB.
    let length = u32::try_from(out.len() - length_at - 4).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(length_at..length_at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

fn put_hold_body(out: &mut Vec<u8>, hold: &Hold) {
    put_status(out, hold.status);
    put_i64(out, hold.expires_at.micros());
    let HoldTerms { reserve, created_at, max_expires_at } = &*hold.terms;
    put_text(out, reserve.owner_id.as_str());
    put_i64(out, created_at.micros());
    put_i64(out, max_expires_at.micros());
    put_optional_terms(out, reserve.optional.as_deref());
    put_u64(out, hold.lines.len() as u64);
    for Line { item, requested, quantity, fulfilled, returned, sequence, units, details } in &*hold.lines {
        put_key(out, item);
        put_u64(out, u64::from(*requested));
        put_u64(out, u64::from(*quantity));
        put_u64(out, u64::from(*returned));
        put_u64(out, *sequence);
        put_field(out, 1, units.as_deref(), units::put_line_units);
        put_field(out, 2, Some(u64::from(*fulfilled)).filter(|units| *units > 0), put_u64);
        put_field(out, 3, details.as_deref(), put_line_details);
        end_fields(out);
    }
    put_u64(out, hold.version);
    put_u128(out, hold.last_event.as_u128());
    put_field(out, 1, hold.closing.as_deref(), |out, Closing { at, reason, order_id }| {
        put_i64(out, at.micros());
        put_label_field(out, 1, reason.as_ref());
        put_label_field(out, 2, order_id.as_ref());
        end_fields(out);
    });
    put_field(out, 2, hold.details.as_deref(), put_details);
    end_fields(out);
}

pub(super) fn put_status(out: &mut Vec<u8>, status: Status) {
    out.push(match status {
        Status::Active => 0,
        Status::Confirmed => 1,
        Status::Cancelled => 2,
        Status::Expired => 3,
    });
}

fn put_figures(out: &mut Vec<u8>, figures: &StockCounters) {
    let StockCounters {
        total_units,
        confirmed_sold,
        fulfilled,
        held,
        held_under_payment,
        active,
        sequence,
        at,
    } = figures;
    for figure in [total_units, confirmed_sold, fulfilled, held, held_under_payment, active, sequence] {
        put_u64(out, *figure);
    }
    put_i64(out, at.micros());
}

/// Appends an item.
pub fn put_item(out: &mut Vec<u8>, item: &Item) {
    put_key(out, &item.key);
    put_mode(out, item.mode);
    put_figures(out, &item.figures);
    put_u64(out, item.version);
    out.push(u8::from(item.paused));
    put_i64(out, item.created_at.micros());
    put_settings(out, &item.settings);
    put_pools(out, &item.pools);
}

pub(super) fn put_mode(out: &mut Vec<u8>, mode: Mode) {
    out.push(match mode {
        Mode::Counted => 0,
        Mode::Units => 1,
    });
}

pub(super) fn put_scope(out: &mut Vec<u8>, scope: &Scope) {
    match scope {
        Scope::Everything => out.push(0),
        Scope::Location(location) => {
            out.push(1);
            put_text(out, location.as_str());
        }
        Scope::Item(key) => {
            out.push(2);
            put_key(out, key);
        }
    }
}

/// Appends a used key.
pub fn put_key_record(out: &mut Vec<u8>, record: &KeyRecord) {
    put_u128(out, record.hash.0);
    put_u128(out, record.fingerprint.0);
    match &record.target {
        KeyTarget::Reservation(id) => {
            out.push(0);
            put_u128(out, id.as_u128());
        }
        KeyTarget::Item(key) => {
            out.push(1);
            put_key(out, key);
        }
        KeyTarget::Record(key) => {
            out.push(2);
            put_record_key(out, key);
        }
    }
    put_i64(out, record.at.micros());
}

/// Appends a record. A deleted one has no value.
pub fn put_record(out: &mut Vec<u8>, record: &Record) {
    put_record_key(out, &record.key);
    put_u64(out, record.version);
    put_field(out, 1, record.value.as_ref(), |out, value| put_bytes(out, value.as_bytes()));
    end_fields(out);
}

pub(super) fn put_record_key(out: &mut Vec<u8>, key: &RecordKey) {
    out.push(match key.kind {
        RecordKind::ApiKey => 0,
        RecordKind::SigningKey => 1,
        RecordKind::Sink => 2,
        RecordKind::Webhook => 3,
        RecordKind::WebhookProgress => 4,
        RecordKind::StockMaster => 5,
        RecordKind::Reconciliation => 6,
        RecordKind::Credentials => 7,
    });
    put_text(out, key.id.as_str());
}

pub(super) fn put_record_change(out: &mut Vec<u8>, change: RecordChange) {
    out.push(match change {
        RecordChange::Silent => 0,
        RecordChange::KeyCreated => 1,
        RecordChange::KeyRolled => 2,
        RecordChange::KeyRevoked => 3,
        RecordChange::SinkEventSkipped => 4,
        RecordChange::EndpointCreated => 5,
        RecordChange::EndpointChanged => 6,
        RecordChange::EndpointDeleted => 7,
        RecordChange::EndpointDisabled => 8,
        RecordChange::EndpointSecretRotated => 9,
        RecordChange::StockReconciled => 10,
    });
}
