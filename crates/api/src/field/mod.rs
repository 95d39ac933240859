//! Members of shapes: how one value is read from a request or an answer, written, and described in the document. Bounds, the words of
//! an error and the schema come from one declaration.
//!
//! An expectation must not contain `, expected `, because [`crate::decode`] splits the parser's messages there.

mod list;
mod paging;
mod patch;
mod query;
mod strict;
mod text;
mod time;
mod values;
mod whole;
mod words;

pub(crate) use list::list;
pub(crate) use paging::{KEY_CURSOR, LABEL_CURSOR, PAGE_SIZE, POSITION_CURSOR, page_size};
pub(crate) use patch::{is_kept, read_patch, write_patch};
pub(crate) use query::{QueryShape, of_text, to_text};
pub(crate) use strict::RequestBody;
pub(crate) use text::{IDEMPOTENCY_KEY, LABEL, LabelText, Text, UUID, form, label_text, text};
pub(crate) use time::GIVEN_TIME;
pub(crate) use values::{ByType, FieldValue, NUMBER, plain_values};
pub(crate) use whole::{EVENT_POSITION, Whole, whole};
pub(crate) use words::{OneOf, Words, one_of, read_word, words};

use crate::openapi::schema::{closed, named, object};
use serde::{Deserializer, Serializer};
use serde_json::{Value, json};

/// The values that a member takes, which are more or fewer than those of its type.
pub(crate) trait Kind<T> {
    /// Reads and checks a value.
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<T, D::Error>;
    /// Writes a value.
    fn write<S: Serializer>(&self, value: &T, to: S) -> Result<S::Ok, S::Error>;
    /// The schema of such a value.
    fn schema(&self, description: &str) -> Value;
}

/// An object of the API. `#[shape]` implements it.
pub(crate) trait ObjectShape {
    /// Its name in the document.
    const NAME: &'static str;
    /// Its members, in order.
    fn members(part: Part) -> Vec<MemberSchema>;
    /// Its schema.
    fn schema() -> Value;
}

/// What members are part of.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// An object that callers send: a member with a default may be left out.
    Request,
    /// An object that the server sends: a member with a default is there.
    Answer,
    /// An object that has all of them or none.
    Optional,
}

impl Part {
    /// Whether a member has to be there.
    pub(crate) fn requires(self, is_optional: bool, has_default: bool) -> bool {
        match self {
            Self::Request => !is_optional && !has_default,
            Self::Answer => !is_optional,
            Self::Optional => false,
        }
    }

    /// For the members of a shape within this one.
    pub(crate) fn of_flat(self, is_optional: bool) -> Self {
        if is_optional { Self::Optional } else { self }
    }
}

/// A member in the schema of its object.
pub(crate) struct MemberSchema {
    pub(crate) name: &'static str,
    pub(crate) schema: Value,
    pub(crate) is_required: bool,
}

/// The schema of an object. A rule is a keyword, and the members that it is about.
pub(crate) fn object_schema<S: ObjectShape>(
    description: &str,
    is_request: bool,
    rules: &[(&str, &[&str])],
) -> Value {
    let members = S::members(if is_request { Part::Request } else { Part::Answer });
    let members =
        members.into_iter().map(|member| (member.name, member.schema, member.is_required)).collect();
    let mut schema = if is_request { closed(description, members) } else { object(description, members) };
    for (keyword, members) in rules {
        schema[*keyword] = if *keyword == "not" {
            json!({ "required": members })
        } else {
            members.iter().map(|member| json!({ "required": [member] })).collect()
        };
    }
    schema
}

/// The name and the schema of a shape, for the document.
pub(crate) fn entry<S: ObjectShape>() -> (&'static str, Value) {
    (S::NAME, S::schema())
}

/// What a member says that is a shape: the document has the shape once.
pub(crate) fn reference<S: ObjectShape>() -> Value {
    named(S::NAME)
}
