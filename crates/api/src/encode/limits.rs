//! Limits as JSON, what they count, and what changes of reservations did to them.

use super::json::{Object, array, put_text};
use crate::resources::limits::{EventLimit, LimitUsage};
use stockhold_domain::{CounterKey, Label, Limit, LimitCounter, LimitEffects, LineCount};

/// A limit. One that was deleted has only its id and its version.
pub fn limit(out: &mut Vec<u8>, limit: &Limit) {
    super::shape(out, &EventLimit::from(limit));
}

/// What a limit counts for a subject, or for all together.
pub fn limit_usage(out: &mut Vec<u8>, limit: &Limit, subject: Option<&Label>, counter: LimitCounter) {
    super::shape(out, &LimitUsage::of(limit, subject, counter));
}

/// The limits that count units of a line.
pub(super) fn put_counted(object: &mut Object<'_>, counted: &[LineCount]) {
    if counted.is_empty() {
        return;
    }
    array(object.value("limits"), counted, |out, LineCount { key, units }| {
        let mut object = Object::open(out);
        put_counter_key(&mut object, key);
        object.number("quantity", u64::from(*units));
        object.close();
    });
}

/// What an event of a reservation did to limits.
pub(super) fn put_effects(object: &mut Object<'_>, effects: &LimitEffects) {
    if !effects.counters.is_empty() {
        array(object.value("limit_counters"), &effects.counters, |out, (key, counter)| {
            let mut object = Object::open(out);
            put_counter_key(&mut object, key);
            object.number("held", counter.held);
            object.number("sold", counter.sold);
            object.close();
        });
    }
    if !effects.overridden.is_empty() {
        array(object.value("limits_overridden"), &effects.overridden, |out, id| put_text(out, id.as_str()));
    }
}

fn put_counter_key(object: &mut Object<'_>, key: &CounterKey) {
    object.text("limit_id", key.limit.as_str());
    object.number("generation", key.generation);
    object.optional_text("subject", key.subject.name().map(Label::as_str));
}
