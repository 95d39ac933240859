//! Queries: shapes whose members are parameters. Every one is optional, and each is given at most once.

use super::Kind;
use crate::decode::{Invalid, mismatch, parameters};
use serde::de::value::Error as ValueError;
use serde::de::{Deserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// The parameters of a query. `#[shape(query)]` implements it.
pub(crate) trait QueryShape: Default {
    /// The names, in the order of the document.
    const NAMES: &'static [&'static str];

    /// Reads the value of the parameter at this place of the names.
    fn set(&mut self, place: usize, text: &str) -> Result<(), String>;

    /// The values that are given, as texts, with their names.
    #[cfg(feature = "client")]
    fn given(&self) -> Vec<(&'static str, String)>;

    /// Names and schemas.
    fn parameters() -> Vec<(&'static str, Value)>;

    /// Reads a query.
    fn of_query(query: Option<&str>) -> Result<Self, Invalid> {
        let mut read = Self::default();
        parameters(query, Self::NAMES, |place, text| read.set(place, text))?;
        Ok(read)
    }
}

/// Reads a parameter.
pub(crate) fn of_text<T, K: Kind<T>>(kind: &K, text: &str) -> Result<T, String> {
    kind.read(QueryText(text)).map_err(|error| {
        let message = error.to_string();
        mismatch(&message).unwrap_or(message)
    })
}

/// Writes a parameter.
#[cfg(feature = "client")]
pub(crate) fn to_text<T, K: Kind<T>>(kind: &K, value: &T) -> String {
    match kind.write(value, serde_json::value::Serializer) {
        Ok(Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(error) => unreachable!("a parameter that has no form: {error}"),
    }
}

/// A value of a query. It is a number if one is wanted.
struct QueryText<'a>(&'a str);

impl<'de> Deserializer<'de> for QueryText<'de> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_str(self.0)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        // Digits alone: no sign, no blanks.
        let digits = self.0.bytes().all(|byte| byte.is_ascii_digit());
        match self.0.parse().ok().filter(|_| digits) {
            Some(number) => visitor.visit_u64(number),
            None => visitor.visit_str(self.0),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        match self.0 {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            other => visitor.visit_str(other),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}
