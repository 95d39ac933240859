//! One request: every try sends the same bytes and the same key.

use super::Error;
use crate::field::QueryShape;
use bytes::Bytes;
use serde::Serialize;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};

#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) body: Option<Bytes>,
    pub(super) key: Option<String>,
    pub(super) if_match: Option<u64>,
    pub(super) headers: Vec<(String, String)>,
}

impl Request {
    pub(super) fn new(method: &str, path: String) -> Self {
        Self { method: method.to_owned(), path, body: None, key: None, if_match: None, headers: Vec::new() }
    }

    pub(super) fn json(mut self, body: &impl Serialize) -> Result<Self, Error> {
        let bytes = serde_json::to_vec(body).map_err(|error| Error::Unsendable(error.to_string()))?;
        self.body = Some(bytes.into());
        Ok(self)
    }

    pub(super) fn bytes(mut self, body: &[u8]) -> Self {
        self.body = Some(Bytes::copy_from_slice(body));
        self
    }

    /// Adds the parameters of a query.
    pub(super) fn query(mut self, query: &impl QueryShape) -> Self {
        for (name, value) in query.given() {
            push_parameter(&mut self.path, name, Some(&value));
        }
        self
    }

    /// Uses the caller's key, or generates one.
    pub(super) fn key(mut self, key: Option<&str>) -> Self {
        self.key = Some(key.map_or_else(fresh_key, quoted));
        self
    }

    pub(super) fn if_match(mut self, version: u64) -> Self {
        self.if_match = Some(version);
        self
    }

    pub(super) fn headers(mut self, headers: &[(&str, &str)]) -> Self {
        self.headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self
    }

    /// Whether the request may be repeated. A precondition alone can't tell an earlier success of the same request from another
    /// caller's change, but an idempotency key can.
    pub(super) fn repeatable(&self) -> bool {
        self.if_match.is_none() || self.key.is_some()
    }
}

/// Keys are sent quoted, so that a quotation mark in a key is escaped.
fn quoted(key: &str) -> String {
    let mut text = String::with_capacity(key.len() + 2);
    text.push('"');
    for c in key.chars() {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
    text
}

/// 128 bits that no other key has: the standard library's hash seeds are random.
pub(super) fn fresh_key() -> String {
    let random = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}", random(), random())
}

/// Appends a path segment or a query value. Everything is percent-encoded except the unreserved characters of RFC
/// 3986.
pub(super) fn push_encoded(path: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            path.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

pub(super) fn push_location(path: &mut String, location: Option<&str>) {
    push_parameter(path, "location", location);
}

/// Appends a query parameter, if it has a value.
pub(super) fn push_parameter(path: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(name);
        path.push('=');
        push_encoded(path, value);
    }
}

/// A number from 0 up to but not including `bound`, for jitter.
pub(super) fn random_below(bound: u64) -> u64 {
    RandomState::new().hash_one(()).checked_rem(bound).unwrap_or(0)
}
