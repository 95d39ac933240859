//! What is wrong with a body that could not be read, in the words of somebody who has to put it right.
//!
//! The parser's messages are cut where its own format puts the parts, never where a caller's text could; what a
//! caller wrote is shown clipped.

use super::Invalid;
use super::field::Object;
use serde::Deserialize;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};
use std::fmt::Write;

/// Longest piece of a caller's text that a detail or a pointer repeats, in bytes.
const CLIP_BYTES: usize = 64;
const TWO_TO_THE_63: f64 = 9_223_372_036_854_775_808.0;

/// Reads the body a second time, slowly. `error` is what the first time said, for want of a better explanation.
pub(super) fn explain<'a, T: Deserialize<'a>>(body: &'a [u8], error: &serde_json::Error) -> Invalid {
    if body.trim_ascii().is_empty() {
        return Invalid::new("", "must be a JSON object, found an empty body");
    }
    let mut from = serde_json::Deserializer::from_slice(body);
    match serde_path_to_error::deserialize::<_, Object<T>>(&mut from) {
        Err(found) => {
            let (mut at, ends_in) = pointer(found.path());
            let detail = detail(found.inner(), &mut at, ends_in.as_deref());
            Invalid::new(at, detail)
        }
        Ok(_) => match from.end() {
            Err(trailing) => {
                let (line, column) = (trailing.line(), trailing.column());
                let detail =
                    format!("must be one JSON object, found more behind it at line {line}, column {column}");
                Invalid::new("", detail)
            }
            Ok(()) => Invalid::new("", format!("can't be read: {}", message(error))),
        },
    }
}

/// The path as a JSON pointer, and its last member's name.
fn pointer(path: &Path) -> (String, Option<String>) {
    let mut pointer = String::new();
    let mut last = None;
    for segment in path {
        last = None;
        match segment {
            Segment::Seq { index } => {
                // Writing to a String does not fail.
                let _ = write!(pointer, "/{index}");
            }
            Segment::Map { key } | Segment::Enum { variant: key } => {
                push(&mut pointer, key);
                last = Some(key.clone());
            }
            Segment::Unknown => {}
        }
    }
    (pointer, last)
}

/// Appends a member's name, escaped as RFC 6901 asks.
pub(super) fn push(pointer: &mut String, name: &str) {
    pointer.push('/');
    for c in clip(name).chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}

fn detail(error: &serde_json::Error, pointer: &mut String, ends_in: Option<&str>) -> String {
    let message = message(error);
    if error.classify() != Category::Data {
        let (line, column) = (error.line(), error.column());
        return format!("is not valid JSON: {message} at line {line}, column {column}");
    }
    let mut at = |name: &str| {
        if ends_in != Some(name) {
            push(pointer, name);
        }
    };
    if let Some(name) = quoted(&message, "missing field `") {
        at(name);
        return "is required".to_owned();
    }
    if let Some(name) = quoted(&message, "duplicate field `") {
        at(name);
        return "is given twice".to_owned();
    }
    if let Some(rest) = message.strip_prefix("unknown field `")
        && let Some((name, fields)) = rest.rsplit_once("`, expected ")
    {
        at(name);
        let fields = fields.strip_prefix("one of ").unwrap_or(fields).split(", ");
        let fields = fields.collect::<Vec<_>>().join(", ");
        return format!("is not a field here; the fields are {fields}");
    }
    let mismatch = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((unexpected, expected)) = mismatch.and_then(|rest| rest.rsplit_once(", expected ")) {
        let expected = if expected == "a sequence" { "an array" } else { expected };
        return format!("must be {expected}, found {}", found(unexpected));
    }
    message
}

/// The error's text without its position.
pub(super) fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).map(str::to_owned).unwrap_or(text)
}

fn quoted<'m>(message: &'m str, prefix: &str) -> Option<&'m str> {
    message.strip_prefix(prefix)?.strip_suffix('`')
}

/// The parser's name of a value in the words of JSON.
fn found(unexpected: &str) -> String {
    let number = ["integer `", "floating point `", "boolean `"];
    if let Some(value) = number.iter().find_map(|kind| quoted(unexpected, kind)) {
        // What no integer holds has lost its digits on the way here.
        let large = value.parse::<f64>().is_ok_and(|value| value.abs() >= TWO_TO_THE_63);
        return if large { "a number far beyond that".to_owned() } else { value.to_owned() };
    }
    match unexpected {
        "map" => "an object".to_owned(),
        "sequence" => "an array".to_owned(),
        other => clip(other.strip_prefix("string ").unwrap_or(other)).into_owned(),
    }
}

/// A text, or its beginning when it is long.
pub(crate) fn clip(text: &str) -> std::borrow::Cow<'_, str> {
    if text.len() <= CLIP_BYTES {
        return text.into();
    }
    let end = (0..=CLIP_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default()).into()
}
