//! The optional terms of a reservation in answers and events.

use super::json::Object;
use stockhold_domain::{Label, OptionalTerms};

/// Adds the optional terms that are present.
pub(super) fn put_optional_terms(object: &mut Object<'_>, terms: Option<&OptionalTerms>) {
    let Some(OptionalTerms { channel, pool, customer_id, session_id, metadata }) = terms else { return };
    object.optional_text("channel", channel.as_ref().map(Label::as_str));
    object.optional_text("pool", pool.as_ref().map(Label::as_str));
    object.optional_text("customer_id", customer_id.as_ref().map(Label::as_str));
    object.optional_text("session_id", session_id.as_ref().map(Label::as_str));
    if let Some(metadata) = metadata {
        object.raw("metadata", metadata);
    }
}
