//! The optional terms of a reservation, as tagged fields. This is the only place that lists them for stores: a new term gets
//! the next tag here.

use super::read::{DecodeError, Reader};
use super::write::{end_fields, put_field, put_label_field, put_text};
use stockhold_domain::OptionalTerms;

const CHANNEL: u8 = 1;
const CUSTOMER_ID: u8 = 2;
const SESSION_ID: u8 = 3;
const METADATA: u8 = 4;
const POOL: u8 = 5;

/// Appends the optional terms that are present.
pub(super) fn put_optional_terms(out: &mut Vec<u8>, terms: Option<&OptionalTerms>) {
    if let Some(OptionalTerms { channel, pool, customer_id, session_id, metadata }) = terms {
        put_label_field(out, CHANNEL, channel.as_ref());
        put_label_field(out, CUSTOMER_ID, customer_id.as_ref());
        put_label_field(out, SESSION_ID, session_id.as_ref());
        put_field(out, METADATA, metadata.as_deref(), put_text);
        put_label_field(out, POOL, pool.as_ref());
    }
    end_fields(out);
}

/// Reads them; `None` when none is present.
pub(super) fn optional_terms(reader: &mut Reader<'_>) -> Result<Option<Box<OptionalTerms>>, DecodeError> {
    let mut terms: Option<Box<OptionalTerms>> = None;
    reader.fields(|reader, tag| {
        let terms = terms.get_or_insert_default();
        match tag {
            CHANNEL => terms.channel = Some(reader.label()?),
            CUSTOMER_ID => terms.customer_id = Some(reader.label()?),
            SESSION_ID => terms.session_id = Some(reader.label()?),
            METADATA => terms.metadata = Some(reader.shared_text()?),
            POOL => terms.pool = Some(reader.label()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(terms)
}
