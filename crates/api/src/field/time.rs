//! Instants.

use super::{FieldValue, Kind};
use crate::encode::instant_text;
use crate::openapi::schema;
use serde::Serializer;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde_json::Value;
use std::fmt;
use stockhold_domain::Instant;

/// An instant that a caller sends, in any offset from UTC.
pub(crate) const GIVEN_TIME: GivenTime = GivenTime;

pub(crate) struct GivenTime;

impl Kind<Instant> for GivenTime {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<Instant, D::Error> {
        Instant::read(from)
    }

    fn write<S: Serializer>(&self, value: &Instant, to: S) -> Result<S::Ok, S::Error> {
        value.write(to)
    }

    fn schema(&self, description: &str) -> Value {
        schema::request_time(description)
    }
}

/// As the server writes it, with milliseconds and in UTC.
impl FieldValue for Instant {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(TimeVisitor)
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&instant_text(*self))
    }

    fn schema(description: &str) -> Value {
        schema::time(description)
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Instant;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time like 2027-01-31T12:00:00Z (RFC 3339), from 1970 on")
    }

    /// Fractions of a microsecond are cut.
    fn visit_str<E: Error>(self, text: &str) -> Result<Instant, E> {
        let micros = text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond);
        let micros = micros.filter(|micros| *micros >= 0);
        micros.map(Instant::from_micros).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}
