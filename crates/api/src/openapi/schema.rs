//! The pieces that schemas are made of. Every bound comes from the constant that the server judges by.
//!
//! JSON Schema counts characters where Stockhold counts bytes: `maxLength` says what can never fit, `x-max-bytes` what
//! is meant.

use serde_json::{Map, Value, json};
use stockhold_domain::limits::{
    KEY_BYTES, LABEL_BYTES, LINE_QUANTITY, METADATA_BYTES, TOTAL_UNITS, TTL_CEILING_SECONDS, TTL_MIN_SECONDS,
};

/// What `char::is_control` refuses.
pub(crate) const NO_CONTROL: &str = r"^[^\u0000-\u001f\u007f-\u009f]+$";
/// An idempotency key as a header has it: bare, or quoted as RFC 8941 quotes.
const HEADER_KEY: &str = concat!(
    r#"^(?:[^"\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*"#,
    r#"|"(?:[^"\\\u0000-\u001f\u007f-\u009f]|\\["\\])+")$"#
);
/// `YYYY-MM-DDThh:mm:ss.mmmZ`.
const TIME: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$";
/// As [`TIME`], with any offset and up to six digits of a fraction. No leap seconds.
const MOMENT: &str =
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$";
/// As [`MOMENT`], from 1970 on and with up to nine digits of a fraction.
const REQUEST_TIME: &str = concat!(
    r"^(19[7-9][0-9]|[2-9][0-9]{3})-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-5][0-9]",
    r"(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$"
);
/// An item's version in quotation marks; 19 digits are more than any item lives to see.
const ETAG: &str = r#"^"[0-9]{1,19}"$"#;

/// A member of an object: name, schema, whether it is always there.
pub(crate) type Member = (&'static str, Value, bool);

/// A member that is always there.
pub(crate) fn always(name: &'static str, schema: Value) -> Member {
    (name, schema, true)
}

/// A member that may be left out.
pub(crate) fn maybe(name: &'static str, schema: Value) -> Member {
    (name, schema, false)
}

/// An object. What the server writes may gain members; what it reads may not have others.
pub(crate) fn object(description: &str, members: Vec<Member>) -> Value {
    let required: Vec<_> = members.iter().filter(|member| member.2).map(|member| member.0).collect();
    let properties: Map<_, _> =
        members.into_iter().map(|(name, schema, _)| (name.to_owned(), schema)).collect();
    let mut object = json!({ "type": "object", "description": description, "properties": properties });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

/// An object that a request may have: any other member is refused.
pub(crate) fn closed(description: &str, members: Vec<Member>) -> Value {
    let mut object = object(description, members);
    object["additionalProperties"] = false.into();
    object
}

/// One of the document's own schemas.
pub(crate) fn named(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// A label: a SKU, a location, an owner, …
pub(crate) fn label(description: &str) -> Value {
    long_label(LABEL_BYTES, description)
}

/// A text of at most so many bytes without control characters.
pub(crate) fn long_label(bytes: usize, description: &str) -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": bytes, "pattern": NO_CONTROL,
        "x-max-bytes": bytes, "description": description,
    })
}

/// A location that is `default` when it is left out. The keyword `default` is for parameters only: generators of typed
/// clients take a member with a default for a required one.
pub(crate) fn location(description: &str) -> Value {
    label(&format!("{description} Default: `{}`.", stockhold_domain::Label::DEFAULT_LOCATION))
}

/// An idempotency key in a body.
pub(crate) fn key() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": KEY_BYTES, "pattern": NO_CONTROL,
        "x-max-bytes": KEY_BYTES,
        "description": "The idempotency key, in place of the header. A different key in the header is `invalid_request`.",
    })
}

/// An idempotency key in the header.
pub(crate) fn header_key() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": KEY_BYTES, "pattern": HEADER_KEY,
        "x-max-bytes": KEY_BYTES,
    })
}

/// An item's version as `ETag` and `If-Match` have it.
pub(crate) fn etag() -> Value {
    json!({ "type": "string", "pattern": ETAG })
}

/// An instant.
pub(crate) fn time(description: &str) -> Value {
    json!({ "type": "string", "format": "date-time", "pattern": TIME, "description": description })
}

/// An instant in the body of a request.
pub(crate) fn request_time(description: &str) -> Value {
    let description = format!(
        "{description} RFC 3339 with seconds and an offset, from 1970 on. Digits below a microsecond are cut."
    );
    json!({ "type": "string", "format": "date-time", "pattern": REQUEST_TIME, "description": description })
}

/// An instant in the query of a request.
pub(crate) fn moment(description: &str) -> Value {
    let description = format!(
        "{description} RFC 3339 with seconds, up to six digits of a fraction, and `Z` or an offset whose `+` is written as `%2B`."
    );
    json!({ "type": "string", "format": "date-time", "pattern": MOMENT, "description": description })
}

/// A UUID.
pub(crate) fn uuid(description: &str) -> Value {
    json!({ "type": "string", "format": "uuid", "description": description })
}

/// Any text.
pub(crate) fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

/// One of these words.
pub(crate) fn word(words: &[&str], description: &str) -> Value {
    json!({ "type": "string", "enum": words, "description": description })
}

/// Yes or no.
pub(crate) fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// A whole number within bounds.
pub(crate) fn integer(least: u64, most: u64, description: &str) -> Value {
    let format = if most > i32::MAX as u64 { "int64" } else { "int32" };
    json!({ "type": "integer", "format": format, "minimum": least, "maximum": most, "description": description })
}

/// Any whole number.
pub(crate) fn whole(description: &str) -> Value {
    json!({ "type": "integer", "format": "int64", "description": description })
}

/// A whole number that only grows.
pub(crate) fn counter(description: &str) -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": 0, "description": description })
}

/// Units of an item, as its figures have them.
pub(crate) fn units(description: &str) -> Value {
    integer(0, TOTAL_UNITS, description)
}

/// Units that a line asks for or has.
pub(crate) fn quantity(description: &str) -> Value {
    integer(1, LINE_QUANTITY, description)
}

/// The same, or `null`.
pub(crate) fn nullable(mut schema: Value) -> Value {
    schema["type"] = json!([schema["type"], "null"]);
    schema
}

/// A time to live or a longest hold.
pub(crate) fn seconds(description: &str) -> Value {
    integer(TTL_MIN_SECONDS.into(), TTL_CEILING_SECONDS.into(), description)
}

/// The caller's own data.
pub(crate) fn metadata() -> Value {
    json!({
        "type": "object", "additionalProperties": true, "x-max-bytes": METADATA_BYTES,
        "description": format!(
            "The caller's own data: a JSON object of at most {} bytes without whitespace. Numbers keep their digits.",
            crate::problem::grouped(METADATA_BYTES as u64)
        ),
    })
}

/// An array.
pub(crate) fn array(items: Value, least: usize, most: usize, description: &str) -> Value {
    let mut array = json!({ "type": "array", "items": items, "description": description });
    if least > 0 {
        array["minItems"] = least.into();
    }
    if most < usize::MAX {
        array["maxItems"] = most.into();
    }
    array
}

/// A schema with one more keyword.
pub(crate) fn with(mut schema: Value, keyword: &str, value: impl Into<Value>) -> Value {
    schema[keyword] = value.into();
    schema
}
