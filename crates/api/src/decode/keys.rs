//! The requests of the management of API keys.

use super::body::{self, KeyBody, RollBody};
use super::explain::clip;
use super::field::{JsonObject, Text};
use super::lists::{PAGE_DEFAULT, limit, no_cursor};
use super::{Invalid, both, path};
use crate::cursor;
use serde_json::json;
use std::borrow::Cow;
use stockhold_domain::Instant;
use stockhold_service::{KeyId, NewKeySpec};

/// A request for a new API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateKey<'a> {
    /// What the key shall be. Its scopes, networks and time are not checked yet.
    pub spec: NewKeySpec,
    /// The body's `idempotency_key`.
    pub idempotency_key: Option<Cow<'a, str>>,
}

/// A request to replace an API key by a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollKey<'a> {
    /// Which key.
    pub key_id: KeyId,
    /// How long the replaced key stays valid, in seconds; 0 ends it now.
    pub expire_old_in_seconds: u32,
    /// The body's `idempotency_key`.
    pub idempotency_key: Option<Cow<'a, str>>,
}

/// A page of the list of API keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPage {
    /// The last key of the page before.
    pub after: Option<KeyId>,
    /// Most entries.
    pub limit: usize,
}

impl CreateKey<'_> {
    /// What the request asks for, as bytes that are the same for the same meaning. Fingerprints of idempotency keys are made of
    /// it, so a change of its form makes repeated requests from before the change mismatch.
    pub fn meaning(&self) -> Vec<u8> {
        let NewKeySpec {
            name,
            principal,
            scopes,
            locations,
            channels,
            own_reservations_only,
            expires_at,
            allowed_cidrs,
            rate_limit,
        } = &self.spec;
        let set = |texts: &Vec<String>| {
            let mut texts = texts.clone();
            texts.sort_unstable();
            texts.dedup();
            texts
        };
        let members = json!([
            name,
            principal,
            set(scopes),
            locations.as_ref().map(set),
            channels.as_ref().map(set),
            own_reservations_only,
            expires_at.map(Instant::micros),
            allowed_cidrs.as_ref().map(set),
            rate_limit,
        ]);
        members.to_string().into_bytes()
    }
}

impl RollKey<'_> {
    /// What the request asks for; see [`CreateKey::meaning`].
    pub fn meaning(&self) -> Vec<u8> {
        json!([self.key_id.to_string(), self.expire_old_in_seconds]).to_string().into_bytes()
    }
}

/// `POST /v1/keys`
pub fn create_key<'a>(query: Option<&str>, body: &'a [u8]) -> Result<CreateKey<'a>, Invalid> {
    let ((), body) = both(path::no_query(query), body::read::<KeyBody<'a>>(body))?;
    let text = |text: Text| text.0.to_string();
    let texts = |texts: Vec<Text>| texts.into_iter().map(text).collect();
    let spec = NewKeySpec {
        name: text(body.name),
        principal: text(body.principal),
        scopes: texts(body.scopes),
        locations: body.locations.map(texts),
        channels: body.channels.map(texts),
        own_reservations_only: body.own_reservations_only.is_some_and(|flag| flag.0),
        expires_at: body.expires_at.map(|at| at.0),
        allowed_cidrs: body.allowed_cidrs.map(texts),
        rate_limit: body.rate_limit.map(|JsonObject(limit)| (limit.per_second.0, limit.burst.0)),
    };
    Ok(CreateKey { spec, idempotency_key: body.idempotency_key.map(|key| key.0) })
}

/// `POST /v1/keys/{key_id}/roll`; an empty body is `{}`.
pub fn roll_key<'a>(id: &str, query: Option<&str>, body: &'a [u8]) -> Result<RollKey<'a>, Invalid> {
    let (key_id, body) = both(key(id, query), body::read_or_default::<RollBody<'a>>(body))?;
    let expire_old_in_seconds = body.expire_old_in_seconds.map_or(0, |seconds| seconds.0);
    Ok(RollKey { key_id, expire_old_in_seconds, idempotency_key: body.idempotency_key.map(|key| key.0) })
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

/// `GET /v1/keys?limit=&starting_after=`
pub fn keys(query: Option<&str>) -> Result<KeyPage, Invalid> {
    let mut page = KeyPage { after: None, limit: PAGE_DEFAULT };
    path::parameters(query, &["limit", "starting_after"], |at, text| {
        match at {
            0 => page.limit = limit(text)?,
            _ => page.after = Some(cursor::key(text).ok_or_else(|| no_cursor(text))?),
        }
        Ok(())
    })?;
    Ok(page)
}
