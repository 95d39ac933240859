//! Types whose values a member takes as they are.

use super::{Kind, ObjectShape, reference};
use crate::openapi::checkouts::provider_name;
use crate::openapi::schema;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, Unexpected, Visitor};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::fmt;
use stockhold_domain::{Label, ProviderRef};
use stockhold_service::KeyId;

/// A type that says itself how its values are read, written and described.
pub(crate) trait FieldValue: Sized {
    /// Reads and checks a value.
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;
    /// Writes a value.
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;
    /// The schema of such a value.
    fn schema(description: &str) -> Value;
}

/// All values of the type.
pub(crate) struct ByType;

impl<T: FieldValue> Kind<T> for ByType {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<T, D::Error> {
        T::read(from)
    }

    fn write<S: Serializer>(&self, value: &T, to: S) -> Result<S::Ok, S::Error> {
        value.write(to)
    }

    fn schema(&self, description: &str) -> Value {
        T::schema(description)
    }
}

impl<T: ObjectShape + Serialize + DeserializeOwned> FieldValue for T {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.serialize(to)
    }

    fn schema(_: &str) -> Value {
        reference::<T>()
    }
}

impl FieldValue for Label {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Label;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of 1 to 128 bytes without control characters")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Label, E> {
                Label::new(text).map_err(E::custom)
            }
        }
        from.deserialize_str(Text)
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }

    fn schema(description: &str) -> Value {
        schema::label(description)
    }
}

const _: () = assert!(stockhold_domain::limits::LABEL_BYTES == 128);

impl FieldValue for ProviderRef {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = ProviderRef;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of 1 to 255 visible ASCII characters")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ProviderRef, E> {
                ProviderRef::new(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        from.deserialize_str(Name)
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }

    fn schema(description: &str) -> Value {
        provider_name(description)
    }
}

impl FieldValue for KeyId {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("must be key_ and 32 lowercase hexadecimal digits"))
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }

    fn schema(description: &str) -> Value {
        json!({ "type": "string", "pattern": "^key_[0-9a-f]{32}$", "description": description })
    }
}

/// A type that serde reads and writes as the API does.
macro_rules! plain_values {
    ($($type:ty: $schema:expr,)+) => {$(
        impl $crate::field::FieldValue for $type {
            fn read<'de, D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                ::serde::Deserialize::deserialize(from)
            }

            fn write<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                ::serde::Serialize::serialize(self, to)
            }

            fn schema(description: &str) -> ::serde_json::Value {
                $schema(description)
            }
        }
    )+};
}

pub(crate) use plain_values;

plain_values! {
    String: schema::text,
    u64: schema::counter,
    i64: schema::whole,
}

impl FieldValue for bool {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Flag;
        impl Visitor<'_> for Flag {
            type Value = bool;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false")
            }

            fn visit_bool<E: Error>(self, flag: bool) -> Result<bool, E> {
                Ok(flag)
            }
        }
        from.deserialize_bool(Flag)
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bool(*self)
    }

    fn schema(description: &str) -> Value {
        schema::flag(description)
    }
}

/// A number of at least 0 with three digits of a fraction.
pub(crate) const NUMBER: Number = Number;

pub(crate) struct Number;

impl Kind<f64> for Number {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<f64, D::Error> {
        f64::deserialize(from)
    }

    fn write<S: Serializer>(&self, value: &f64, to: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(format!("{value:.3}")).map_err(S::Error::custom)?.serialize(to)
    }

    fn schema(&self, description: &str) -> Value {
        json!({ "type": "number", "minimum": 0, "description": description })
    }
}
