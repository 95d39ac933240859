//! Members that are one of some words.

use super::Kind;
use crate::openapi::schema;
use serde::Serializer;
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;

/// A type whose values are words.
pub(crate) trait Words: Copy + PartialEq + 'static {
    /// Every value and its word, in the order of the document.
    const ALL: &'static [(Self, &'static str)];

    /// The word of a value.
    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(value, _)| *value == self).map_or("", |(_, word)| word)
    }

    /// The value of a word.
    fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(value, _)| *value)
    }
}

/// Says which words the values of a type are, once for requests, answers and the document.
macro_rules! words {
    ($($type:ty { $($variant:ident = $word:literal,)+ })+) => {$(
        impl $crate::field::Words for $type {
            const ALL: &'static [(Self, &'static str)] = &[$((Self::$variant, $word)),+];
        }

        // A variant without a word does not compile.
        const _: fn($type) = |value| match value { $(<$type>::$variant => {})+ };

        impl $crate::field::FieldValue for $type {
            fn read<'de, D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::field::read_word(from)
            }

            fn write<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str($crate::field::Words::word(*self))
            }

            fn schema(description: &str) -> ::serde_json::Value {
                $crate::openapi::schema::word(&[$($word),+], description)
            }
        }
    )+};
}

pub(crate) use words;

/// Reads a word.
pub(crate) fn read_word<'de, T: Words, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    from.deserialize_str(WordVisitor(PhantomData))
}

struct WordVisitor<T>(PhantomData<T>);

impl<T: Words> Visitor<'_> for WordVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = T::ALL.len();
        for (place, (_, word)) in T::ALL.iter().enumerate() {
            let before = match place {
                0 => "",
                _ if place + 1 == count => " or ",
                _ => ", ",
            };
            write!(f, "{before}\"{word}\"")?;
        }
        Ok(())
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<T, E> {
        T::of_word(word).ok_or_else(|| E::invalid_value(Unexpected::Str(word), &self))
    }
}

/// Words of an answer that have no type of their own.
#[derive(Clone, Copy)]
pub(crate) struct OneOf(fn() -> Vec<&'static str>);

/// One of these words in an answer.
pub(crate) const fn one_of(words: fn() -> Vec<&'static str>) -> OneOf {
    OneOf(words)
}

impl Kind<String> for OneOf {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<String, D::Error> {
        String::deserialize(from)
    }

    fn write<S: Serializer>(&self, value: &String, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value)
    }

    fn schema(&self, description: &str) -> Value {
        schema::word(&(self.0)(), description)
    }
}
