//! Metadata: the caller's own JSON object in canonical form (members sorted by name, no whitespace, shortest escapes),
//! so that equal objects are equal requests. Numbers keep their digits.

use super::JSON_DEPTH;
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use stockhold_domain::limits::METADATA_BYTES;

/// The depth of metadata within a body.
const METADATA_DEPTH: usize = 2;

pub(super) struct Metadata(pub(super) Arc<str>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(from)?;
        canonical(raw.get()).map(Metadata).map_err(D::Error::custom)
    }
}

fn canonical(text: &str) -> Result<Arc<str>, Cow<'static, str>> {
    let kind = match text.as_bytes().first() {
        Some(b'{') => None,
        Some(b'[') => Some("an array"),
        Some(b'"') => Some("a string"),
        Some(b't' | b'f') => Some("a boolean"),
        Some(b'n') => Some("null"),
        _ => Some("a number"),
    };
    if let Some(kind) = kind {
        return Err(format!("must be a JSON object, found {kind}").into());
    }
    let mut out = String::with_capacity(text.len().min(METADATA_BYTES));
    let mut scan = Scan { text, at: 0 };
    scan.value(&mut out, METADATA_DEPTH)?;
    check_length(&out)?;
    Ok(out.into())
}

fn check_length(out: &str) -> Result<(), Cow<'static, str>> {
    if out.len() > METADATA_BYTES {
        return Err("is longer than 2,048 bytes without whitespace".into());
    }
    Ok(())
}

const _: () = assert!(METADATA_BYTES == 2_048);

/// A reader of text that is known to be one JSON value.
struct Scan<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Scan<'t> {
    fn value(&mut self, out: &mut String, depth: usize) -> Result<(), Cow<'static, str>> {
        match self.peek() {
            Some(b'{') => self.object(out, depth),
            Some(b'[') => self.array(out, depth),
            Some(b'"') => {
                let text = self.string()?;
                put_string(out, &text)
            }
            _ => {
                let word = self.word();
                // Common parsers must be able to read it.
                if word.parse().is_ok_and(f64::is_infinite) {
                    let word = super::explain::clip(word);
                    return Err(format!("has a number that is out of range: {word}").into());
                }
                out.push_str(word);
                Ok(())
            }
        }
    }

    fn object(&mut self, out: &mut String, depth: usize) -> Result<(), Cow<'static, str>> {
        check_depth(depth)?;
        self.at += 1;
        let mut members = BTreeMap::new();
        while self.peek() == Some(b'"') {
            let name = self.string()?;
            self.skip(b':');
            let mut value = String::new();
            self.value(&mut value, depth + 1)?;
            check_length(&value)?;
            if members.contains_key(&name) {
                return Err(format!("has the member \"{}\" twice", super::explain::clip(&name)).into());
            }
            members.insert(name, value);
            self.skip(b',');
        }
        self.skip(b'}');
        out.push('{');
        for (n, (name, value)) in members.iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            put_string(out, name)?;
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        Ok(())
    }

    fn array(&mut self, out: &mut String, depth: usize) -> Result<(), Cow<'static, str>> {
        check_depth(depth)?;
        self.at += 1;
        out.push('[');
        let mut first = true;
        while !matches!(self.peek(), Some(b']') | None) {
            if !first {
                out.push(',');
            }
            first = false;
            self.value(out, depth + 1)?;
            check_length(out)?;
            self.skip(b',');
        }
        self.skip(b']');
        out.push(']');
        Ok(())
    }

    /// The string that begins here, without its escapes.
    fn string(&mut self) -> Result<Cow<'t, str>, Cow<'static, str>> {
        let rest = self.rest();
        let mut escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        });
        let text = end.and_then(|end| rest.get(..end + 2)).unwrap_or(rest);
        self.at += text.len();
        let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
        if !inner.contains('\\') {
            return Ok(inner.into());
        }
        serde_json::from_str::<String>(text).map(Cow::Owned).map_err(|error| {
            format!("has a string that is not valid JSON: {}", super::explain::message(&error)).into()
        })
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is not whitespace. Skips whitespace before it.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        self.rest().bytes().next()
    }

    fn skip(&mut self, byte: u8) {
        if self.peek() == Some(byte) {
            self.at += 1;
        }
    }
}

fn check_depth(depth: usize) -> Result<(), Cow<'static, str>> {
    if depth > JSON_DEPTH {
        return Err("makes the body more than 32 levels deep".into());
    }
    Ok(())
}

const _: () = assert!(JSON_DEPTH == 32);

fn put_string(out: &mut String, text: &str) -> Result<(), Cow<'static, str>> {
    let escaped = serde_json::to_string(text).map_err(|error| error.to_string())?;
    out.push_str(&escaped);
    Ok(())
}
