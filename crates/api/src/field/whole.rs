//! Whole numbers within bounds.

use super::Kind;
use crate::openapi::schema::integer;
use crate::problem::grouped;
use serde::Serializer;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde_json::Value;
use std::fmt;
use std::ops::RangeInclusive;
use stockhold_domain::limits::POSITION;

/// Whole numbers within bounds.
#[derive(Clone, Copy)]
pub(crate) struct Whole {
    least: u64,
    most: u64,
    unit: &'static str,
    default: Option<u64>,
}

/// Whole numbers from the first to the last of these.
pub(crate) const fn whole(bounds: RangeInclusive<u64>) -> Whole {
    Whole { least: *bounds.start(), most: *bounds.end(), unit: "", default: None }
}

/// The position of an event.
pub(crate) const EVENT_POSITION: Whole = whole(1..=POSITION);

impl Whole {
    /// What is counted, for errors.
    pub(crate) const fn of(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// What is meant where none is given, for the document.
    pub(crate) const fn or(self, default: u64) -> Self {
        Self { default: Some(default), ..self }
    }
}

impl<T: Copy + TryFrom<u64> + Into<u64>> Kind<T> for Whole {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<T, D::Error> {
        let number = from.deserialize_u64(WholeVisitor(*self))?;
        T::try_from(number)
            .map_err(|_| D::Error::invalid_value(Unexpected::Unsigned(number), &WholeVisitor(*self)))
    }

    fn write<S: Serializer>(&self, value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64((*value).into())
    }

    fn schema(&self, description: &str) -> Value {
        let mut schema = integer(self.least, self.most, description);
        if let Some(default) = self.default {
            schema["default"] = default.into();
        }
        schema
    }
}

struct WholeVisitor(Whole);

impl Visitor<'_> for WholeVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Whole { least, most, unit, .. } = self.0;
        let of = if unit.is_empty() { "" } else { " of " };
        write!(f, "a whole number{of}{unit} from {} to {}", grouped(least), grouped(most))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        if (self.0.least..=self.0.most).contains(&number) {
            return Ok(number);
        }
        Err(E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}
