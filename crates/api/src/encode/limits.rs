//! Limits as JSON, what they count, and what changes of reservations did to them.

use super::json::{Object, array, put_text};
use stockhold_domain::{
    CounterKey, Label, Limit, LimitCounter, LimitEffects, LimitTarget, LimitTerms, LimitedUnits, LineCount,
    SubjectKind,
};

/// A limit. One that was deleted has only its id and its version.
pub fn limit(out: &mut Vec<u8>, limit: &Limit) {
    let mut object = Object::open(out);
    object.text("limit_id", limit.id.as_str());
    if let Some(terms) = &limit.terms {
        put_terms(&mut object, terms);
        object.number("generation", limit.generation);
    }
    object.number("version", limit.version);
    object.close();
}

fn put_terms(object: &mut Object<'_>, terms: &LimitTerms) {
    array(object.value("items"), &terms.targets, |out, target| {
        let mut object = Object::open(out);
        match target {
            LimitTarget::Sku(sku) => object.text("sku", sku.as_str()),
            LimitTarget::Location(location) => object.text("location", location.as_str()),
            LimitTarget::Item(key) => super::text_of(&mut object, key),
        }
        object.close();
    });
    if !terms.channels.is_empty() {
        array(object.value("channels"), &terms.channels, |out, channel| put_text(out, channel.as_str()));
    }
    if let Some(per) = terms.per {
        object.word("per", subject_kind(per));
    }
    object.number("limit", terms.limit);
    object.word("counts", limited_units(terms.counts));
}

/// For whom a limit counts, as requests and answers name it.
pub(crate) fn subject_kind(per: SubjectKind) -> &'static str {
    match per {
        SubjectKind::Customer => "customer",
        SubjectKind::Owner => "owner",
    }
}

/// Which units count, as requests and answers name it.
pub(crate) fn limited_units(counts: LimitedUnits) -> &'static str {
    match counts {
        LimitedUnits::HeldAndSold => "held_and_sold",
        LimitedUnits::Held => "held",
    }
}

/// What a limit counts for a subject, or for all together.
pub fn limit_usage(out: &mut Vec<u8>, limit: &Limit, subject: Option<&Label>, counter: LimitCounter) {
    let mut object = Object::open(out);
    object.text("limit_id", limit.id.as_str());
    object.optional_text("subject", subject.map(Label::as_str));
    if let Some(terms) = &limit.terms {
        object.number("limit", terms.limit);
        object.number("used", counter.used(terms.counts));
    }
    object.number("held", counter.held);
    object.number("sold", counter.sold);
    object.close();
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
