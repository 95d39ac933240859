//! Schemas as people read them: a member a row, bounds in words, named schemas as links.

use super::html::{Field, escaped, fields, inline};
use crate::problem::grouped;
use serde_json::Value;
use std::fmt::Write;

/// Appends a section for every named schema.
pub(super) fn all(out: &mut String, schemas: &Value) {
    out.push_str("<h2 id=\"schemas\">Schemas</h2>\n");
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        let name = escaped(name);
        // Writing to a String does not fail.
        let _ = writeln!(out, "<details class=\"schema\" id=\"schema-{name}\"><summary>{name}</summary>");
        let _ = writeln!(out, "<p>{}</p>", inline(described(schema)));
        body(out, schema);
        out.push_str("</details>\n");
    }
}

/// Appends a schema's members, or what it may be.
pub(super) fn body(out: &mut String, schema: &Value) {
    if let Some(one_of) = schema["oneOf"].as_array() {
        let links: Vec<_> = one_of.iter().map(kind).collect();
        let _ = writeln!(out, "<p>One of {}.</p>", links.join(", "));
        return;
    }
    let Some(members) = schema["properties"].as_object() else {
        let _ = writeln!(out, "<p class=\"facts\">{}</p>", facts(schema));
        return;
    };
    let required = schema["required"].as_array();
    let asked = schema["additionalProperties"] == false;
    fields(
        out,
        members.iter().map(|(name, member)| {
            let must = required.is_some_and(|names| names.iter().any(|known| known == name));
            Field {
                name,
                tags: tags(member, must, asked),
                description: described(member),
                facts: facts(member),
            }
            .row()
        }),
    );
    if asked {
        out.push_str("<p class=\"small soft\">Other members are refused.</p>\n");
    }
}

/// What a reader sees first: the type, and whether it may be missing. What is asked for is required or not; what is
/// answered is there or may be missing.
pub(super) fn tags(schema: &Value, must: bool, asked: bool) -> Vec<String> {
    let mut tags = vec![kind(schema)];
    match (must, asked) {
        (true, true) => tags.push("<span class=\"must\">required</span>".to_owned()),
        (true, false) => {}
        (false, _) => tags.push("optional".to_owned()),
    }
    tags
}

/// Its description.
pub(super) fn described(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// Its type as HTML.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let name = escaped(name);
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    if schema["type"] == "array" {
        return format!("array of {}", kind(&schema["items"]));
    }
    let kinds =
        schema["type"].as_array().map(|kinds| kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>());
    let word = match (&schema["format"], &schema["type"], kinds.as_deref()) {
        (Value::String(format), ..) if matches!(format.as_str(), "date-time" | "uuid") => format.as_str(),
        (_, Value::String(kind), _) => kind.as_str(),
        (.., Some(kinds)) => return escaped(&kinds.join(" or ")),
        _ if schema["oneOf"].is_array() => "one of several",
        _ => match &schema["const"] {
            Value::Bool(_) => "boolean",
            Value::Number(_) => "integer",
            _ => "any",
        },
    };
    escaped(word)
}

/// Its bounds in words, as HTML.
pub(super) fn facts(schema: &Value) -> String {
    let mut facts = Vec::new();
    let code = |value: &Value| match value {
        Value::String(text) => format!("<code>{}</code>", escaped(text)),
        other => format!("<code>{}</code>", escaped(&other.to_string())),
    };
    if let Some(words) = schema["enum"].as_array() {
        facts.push(words.iter().map(code).collect::<Vec<_>>().join(" · "));
    }
    if !schema["const"].is_null() {
        facts.push(format!("always {}", code(&schema["const"])));
    }
    let number = |value: &Value| match (value.as_u64(), value.as_i64()) {
        (Some(number), _) => grouped(number),
        (None, Some(number)) => format!("−{}", grouped(number.unsigned_abs())),
        (None, None) => value.to_string(),
    };
    match (&schema["minimum"], &schema["maximum"]) {
        (Value::Null, Value::Null) => {}
        (least, Value::Null) => facts.push(format!("at least {}", number(least))),
        (Value::Null, most) => facts.push(format!("at most {}", number(most))),
        (least, most) => facts.push(format!("{} to {}", number(least), number(most))),
    }
    if !schema["not"]["const"].is_null() {
        facts.push(format!("not {}", code(&schema["not"]["const"])));
    }
    match (&schema["x-max-bytes"], &schema["minLength"]) {
        (Value::Null, _) => {}
        (most, Value::Null) => facts.push(format!("at most {} bytes", number(most))),
        (most, least) => facts.push(format!("{} to {} bytes", number(least), number(most))),
    }
    match (&schema["minItems"], &schema["maxItems"]) {
        (Value::Null, Value::Null) => {}
        (Value::Null, most) => facts.push(format!("at most {} of them", number(most))),
        (least, Value::Null) => facts.push(format!("at least {} of them", number(least))),
        (least, most) => facts.push(format!("{} to {} of them", number(least), number(most))),
    }
    if !schema["default"].is_null() {
        facts.push(format!("{} when left out", code(&schema["default"])));
    }
    facts.join(" · ")
}
