//! The parameters of lists.

use super::{Kind, Whole, whole};
use crate::cursor;
use crate::decode::{PAGE_DEFAULT, PAGE_LIMIT};
use crate::openapi::schema;
use serde::Serializer;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde_json::Value;
use std::fmt;

/// Most entries of a page.
pub(crate) const PAGE_SIZE: Whole = whole(1..=PAGE_LIMIT as u64).or(PAGE_DEFAULT as u64);

/// The cursor of a list in the order of labels.
pub(crate) const LABEL_CURSOR: Cursor = Cursor(|text| cursor::label(text).is_some());

/// The cursor of a list in the order of the ids of API keys.
pub(crate) const KEY_CURSOR: Cursor = Cursor(|text| cursor::key(text).is_some());

/// The cursor of a list in the order of the positions of events.
pub(crate) const POSITION_CURSOR: Cursor = Cursor(|text| cursor::position(text).is_some());

/// Cursors: texts that are opaque to callers, for which this function is true.
pub(crate) struct Cursor(fn(&str) -> bool);

/// The number of entries that a page may have.
pub(crate) fn page_size(limit: Option<u16>) -> usize {
    limit.map_or(PAGE_DEFAULT, usize::from)
}

impl Kind<String> for Cursor {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<String, D::Error> {
        from.deserialize_str(CursorVisitor(self.0))
    }

    fn write<S: Serializer>(&self, value: &String, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value)
    }

    fn schema(&self, description: &str) -> Value {
        schema::text(description)
    }
}

struct CursorVisitor(fn(&str) -> bool);

impl Visitor<'_> for CursorVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the next_cursor of a page of this list")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        if (self.0)(text) { Ok(text.to_owned()) } else { Err(E::invalid_value(Unexpected::Str(text), &self)) }
    }
}
