//! Settings that `null` clears.

use super::Kind;
use serde::Serializer;
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;
use std::marker::PhantomData;
use stockhold_domain::Patch;

/// Whether a setting is left out.
pub(crate) fn is_kept<T>(patch: &Patch<T>) -> bool {
    matches!(patch, Patch::Keep)
}

/// Reads a setting that is given.
pub(crate) fn read_patch<'de, T, K: Kind<T>, D: Deserializer<'de>>(
    kind: &K,
    from: D,
) -> Result<Patch<T>, D::Error> {
    from.deserialize_option(PatchVisitor { kind, value: PhantomData })
}

/// Writes a setting that is given.
pub(crate) fn write_patch<T, K: Kind<T>, S: Serializer>(
    kind: &K,
    patch: &Patch<T>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match patch {
        Patch::Set(value) => kind.write(value, to),
        Patch::Keep | Patch::Clear => to.serialize_none(),
    }
}

struct PatchVisitor<'a, T, K> {
    kind: &'a K,
    value: PhantomData<T>,
}

impl<'de, T, K: Kind<T>> Visitor<'de> for PatchVisitor<'_, T, K> {
    type Value = Patch<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E: Error>(self) -> Result<Patch<T>, E> {
        Ok(Patch::Clear)
    }

    fn visit_unit<E: Error>(self) -> Result<Patch<T>, E> {
        Ok(Patch::Clear)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Patch<T>, D::Error> {
        self.kind.read(from).map(Patch::Set)
    }
}
