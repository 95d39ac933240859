//! Texts of some form.

use super::{FieldValue, Kind};
use crate::decode::check_key;
use crate::openapi::schema::NO_CONTROL;
use serde::Serializer;
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use std::ops::RangeInclusive;
use stockhold_domain::Label;
use stockhold_domain::limits::{KEY_BYTES, LABEL_BYTES};

/// Texts of some form. JSON Schema counts characters where Stockhold counts bytes: `maxLength` says what can never fit, `x-max-bytes`
/// what is meant.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    format: Option<&'static str>,
    least: usize,
    most: usize,
    pattern: &'static str,
    counts_bytes: bool,
    /// What the reader checks, if the rules do not do it later, and what would be right.
    check: Option<Check>,
}

/// Whether a text is right, and what would be.
type Check = (fn(&str) -> bool, &'static str);

/// Texts of so many bytes without control characters.
pub(crate) const fn text(bytes: RangeInclusive<usize>) -> Text {
    Text {
        format: None,
        least: *bytes.start(),
        most: *bytes.end(),
        pattern: NO_CONTROL,
        counts_bytes: true,
        check: None,
    }
}

/// ASCII texts that match.
pub(crate) const fn form(pattern: &'static str) -> Text {
    text(0..=usize::MAX).ascii().pattern(pattern)
}

/// An id in an answer.
pub(crate) const UUID: Text = form("").format("uuid");

/// A label in an answer.
pub(crate) const LABEL: Text = text(1..=LABEL_BYTES);

impl Text {
    /// Only texts that match; all, if it is empty.
    pub(crate) const fn pattern(self, pattern: &'static str) -> Self {
        Self { pattern, ..self }
    }

    /// ASCII texts, which have as many bytes as characters.
    pub(crate) const fn ascii(self) -> Self {
        Self { counts_bytes: false, ..self }
    }

    /// The keyword `format`.
    pub(crate) const fn format(self, format: &'static str) -> Self {
        Self { format: Some(format), ..self }
    }

    /// Refuses other texts while a request is read. `expects` says what would be right.
    pub(crate) const fn check(self, is_right: fn(&str) -> bool, expects: &'static str) -> Self {
        Self { check: Some((is_right, expects)), ..self }
    }
}

impl Kind<String> for Text {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<String, D::Error> {
        match self.check {
            Some((is_right, expects)) => from.deserialize_str(TextVisitor { is_right, expects }),
            None => String::deserialize(from),
        }
    }

    fn write<S: Serializer>(&self, value: &String, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value)
    }

    fn schema(&self, description: &str) -> Value {
        self.described(description)
    }
}

impl Text {
    fn described(&self, description: &str) -> Value {
        let mut schema = Map::new();
        let mut put = |keyword: &str, value: Value| schema.insert(keyword.to_owned(), value);
        put("type", "string".into());
        if let Some(format) = self.format {
            put("format", format.into());
        }
        if self.most < usize::MAX {
            put("minLength", self.least.into());
            put("maxLength", self.most.into());
        }
        if !self.pattern.is_empty() {
            put("pattern", self.pattern.into());
        }
        if self.counts_bytes {
            put("x-max-bytes", self.most.into());
        }
        put("description", description.into());
        schema.into()
    }
}

/// Labels with more to say of them in the document.
#[derive(Clone, Copy)]
pub(crate) struct LabelText {
    most: usize,
    format: Option<&'static str>,
}

/// Labels of at most so many bytes. The reader refuses those that are no labels.
pub(crate) const fn label_text(most: usize) -> LabelText {
    LabelText { most, format: None }
}

impl LabelText {
    /// The keyword `format`.
    pub(crate) const fn format(self, format: &'static str) -> Self {
        Self { format: Some(format), ..self }
    }
}

impl Kind<Label> for LabelText {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<Label, D::Error> {
        Label::read(from)
    }

    fn write<S: Serializer>(&self, value: &Label, to: S) -> Result<S::Ok, S::Error> {
        value.write(to)
    }

    fn schema(&self, description: &str) -> Value {
        Text { format: self.format, ..text(1..=self.most) }.described(description)
    }
}

/// An idempotency key in a body.
pub(crate) const IDEMPOTENCY_KEY: IdempotencyKey = IdempotencyKey;

pub(crate) struct IdempotencyKey;

impl Kind<String> for IdempotencyKey {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<String, D::Error> {
        from.deserialize_str(KeyVisitor)
    }

    fn write<S: Serializer>(&self, value: &String, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value)
    }

    fn schema(&self, description: &str) -> Value {
        text(1..=KEY_BYTES).described(description)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string of 1 to 255 bytes without control characters")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        check_key(text).map_err(E::custom)?;
        Ok(text.to_owned())
    }
}

struct TextVisitor {
    is_right: fn(&str) -> bool,
    expects: &'static str,
}

impl Visitor<'_> for TextVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expects)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        if (self.is_right)(text) {
            return Ok(text.to_owned());
        }
        Err(E::invalid_value(Unexpected::Other("another text"), &self))
    }
}
