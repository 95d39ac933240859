//! API keys as JSON: everything about a key, never its digest, and the key itself only once.

use super::json::{Object, array, put_text};
use stockhold_domain::{Label, RecordValue};
use stockhold_service::{KeyRecord, NewApiKey};

/// An API key.
pub fn key(out: &mut Vec<u8>, key: &KeyRecord) {
    put(out, key, None);
}

/// An API key that was just made, with its text. No other answer has it.
pub fn new_key(out: &mut Vec<u8>, key: &KeyRecord, text: &NewApiKey) {
    put(out, key, Some(text.reveal()));
}

fn put(out: &mut Vec<u8>, key: &KeyRecord, text: Option<&str>) {
    let mut object = Object::open(out);
    object.text("key_id", &key.key_id.to_string());
    members(&mut object, key);
    object.optional_text("key", text);
    object.close();
}

/// What the event of a key shows of it. A value that can't be read is left out: nothing of it may be shown.
pub(super) fn of_event(object: &mut Object<'_>, value: Option<&RecordValue>) {
    if let Some(key) = value.and_then(|value| KeyRecord::from_bytes(value.as_bytes()).ok()) {
        members(object, &key);
    }
}

/// Everything but the id, the digest and the key.
fn members(object: &mut Object<'_>, key: &KeyRecord) {
    object.text("name", key.name.as_str());
    object.text("principal", key.principal.as_str());
    array(object.value("scopes"), key.scopes.iter(), |out, scope| put_text(out, scope.name()));
    for (name, labels) in
        [("locations", &key.restrictions.locations), ("channels", &key.restrictions.channels)]
    {
        if let Some(labels) = labels {
            array(object.value(name), labels.iter(), |out, label: &Label| put_text(out, label.as_str()));
        }
    }
    if key.restrictions.own_reservations_only {
        object.flag("own_reservations_only", true);
    }
    if !key.allowed_networks.is_empty() {
        array(object.value("allowed_cidrs"), &key.allowed_networks, |out, network| {
            put_text(out, &network.to_string());
        });
    }
    if let Some((per_second, burst)) = key.rate_limit {
        let mut limit = Object::open(object.value("rate_limit"));
        limit.number("per_second", u64::from(per_second));
        limit.number("burst", u64::from(burst));
        limit.close();
    }
    object.time("created_at", key.created_at);
    for (name, at) in
        [("expires_at", key.expires_at), ("last_used_at", key.last_used_at), ("revoked_at", key.revoked_at)]
    {
        if let Some(at) = at {
            object.time(name, at);
        }
    }
    if let Some(old) = key.rolled_from {
        object.text("rolled_from", &old.to_string());
    }
}
