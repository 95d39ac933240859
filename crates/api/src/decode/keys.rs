//! The requests of the management of API keys.

use super::explain::clip;
use super::{Invalid, body, both, path};
use crate::cursor;
use crate::field::{QueryShape, page_size};
use crate::resources::keys::{KeyRequest, KeysQuery, RollRequest};
use stockhold_service::KeyId;

/// `POST /v1/keys`
pub fn create_key(query: Option<&str>, body: &[u8]) -> Result<KeyRequest, Invalid> {
    let ((), body) = both(path::no_query(query), body::read_request(body))?;
    Ok(body)
}

/// `POST /v1/keys/{key_id}/roll`; an empty body is `{}`.
pub fn roll_key(id: &str, query: Option<&str>, body: &[u8]) -> Result<(KeyId, RollRequest), Invalid> {
    both(key(id, query), body::read_request_or_default(body))
}

/// `GET /v1/keys/{key_id}` and `DELETE /v1/keys/{key_id}`
pub fn key(id: &str, query: Option<&str>) -> Result<KeyId, Invalid> {
    let id = KeyId::parse(id).ok_or_else(|| {
        // A caller may have sent the key itself by mistake, which must not be repeated.
        let found = if id.starts_with("key_") { format!(", found \"{}\"", clip(id)) } else { String::new() };
        let detail =
            format!("must be key_ and 32 lowercase hexadecimal digits, as GET /v1/keys lists it{found}");
        Invalid::path("/key_id", detail)
    });
    let (id, ()) = both(id, path::no_query(query))?;
    Ok(id)
}

/// `GET /v1/keys`: the last key of the page before, and the most entries.
pub fn keys(query: Option<&str>) -> Result<(Option<KeyId>, usize), Invalid> {
    let KeysQuery { limit, starting_after } = KeysQuery::of_query(query)?;
    Ok((starting_after.as_deref().and_then(cursor::key), page_size(limit)))
}
