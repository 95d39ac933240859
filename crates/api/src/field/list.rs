//! Arrays within bounds.

use super::{ByType, Kind};
use crate::openapi::schema::array;
use serde::Serializer;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

/// Arrays with so many entries.
#[derive(Clone, Copy)]
pub(crate) struct ListOf<K> {
    least: usize,
    most: usize,
    entry: K,
    entry_description: &'static str,
    instead_of_none: &'static str,
}

/// Arrays with at least the first and at most the last number of entries.
pub(crate) const fn list(entries: RangeInclusive<usize>) -> ListOf<ByType> {
    ListOf {
        least: *entries.start(),
        most: *entries.end(),
        entry: ByType,
        entry_description: "",
        instead_of_none: "",
    }
}

impl<K> ListOf<K> {
    /// The values that an entry takes.
    pub(crate) fn of<E>(self, entry: E) -> ListOf<E> {
        let Self { least, most, entry_description, instead_of_none, .. } = self;
        ListOf { least, most, entry, entry_description, instead_of_none }
    }

    /// What one entry is, for the document.
    pub(crate) fn each(self, entry_description: &'static str) -> Self {
        Self { entry_description, ..self }
    }

    /// What to do instead of sending no entries, for the error.
    pub(crate) fn instead_of_none(self, instead_of_none: &'static str) -> Self {
        Self { instead_of_none, ..self }
    }
}

impl<T, K: Kind<T>> Kind<Vec<T>> for ListOf<K> {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<Vec<T>, D::Error> {
        let mut count = 0;
        let entries =
            from.deserialize_seq(ListVisitor { list: self, count: &mut count, entry: PhantomData })?;
        if count > self.most {
            let most = self.most;
            return Err(D::Error::custom(format_args!("must have at most {most} entries, and has {count}")));
        }
        if count < self.least {
            let Self { least, instead_of_none, .. } = self;
            let entries = if *least == 1 { "entry" } else { "entries" };
            let or = if instead_of_none.is_empty() { "" } else { ", or " };
            return Err(D::Error::custom(format_args!(
                "must have at least {least} {entries}{or}{instead_of_none}"
            )));
        }
        Ok(entries)
    }

    fn write<S: Serializer>(&self, value: &Vec<T>, to: S) -> Result<S::Ok, S::Error> {
        let mut sequence = to.serialize_seq(Some(value.len()))?;
        for entry in value {
            sequence.serialize_element(&Written { entry, kind: &self.entry })?;
        }
        sequence.end()
    }

    fn schema(&self, description: &str) -> Value {
        array(self.entry.schema(self.entry_description), self.least, self.most, description)
    }
}

struct ListVisitor<'a, T, K> {
    list: &'a ListOf<K>,
    count: &'a mut usize,
    entry: PhantomData<T>,
}

impl<'de, T, K: Kind<T>> Visitor<'de> for ListVisitor<'_, T, K> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) =
            from.next_element_seed(Entry { kind: &self.list.entry, value: PhantomData })?
        {
            *self.count += 1;
            // What is too much is counted for the error, and not kept.
            if *self.count <= self.list.most {
                entries.push(entry);
            }
        }
        Ok(entries)
    }
}

struct Entry<'a, T, K> {
    kind: &'a K,
    value: PhantomData<T>,
}

impl<'de, T, K: Kind<T>> DeserializeSeed<'de> for Entry<'_, T, K> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        self.kind.read(from)
    }
}

struct Written<'a, T, K> {
    entry: &'a T,
    kind: &'a K,
}

impl<T, K: Kind<T>> serde::Serialize for Written<'_, T, K> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.kind.write(self.entry, to)
    }
}
