//! Explains the errors of a body that could not be read, in words that help to correct it.
//!
//! The parser's messages are split only at places that its own format defines, never inside a caller's text. A
//! caller's text is shortened.

use super::field::JsonObject;
use super::{Invalid, MAX_FAULTS};
use serde::de::value::MapDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment};
use std::borrow::Cow;
use std::fmt::{self, Write};

/// Longest piece of a caller's text that a detail or a pointer repeats, in bytes.
const CLIP_BYTES: usize = 64;
const TWO_TO_THE_63: f64 = 9_223_372_036_854_775_808.0;

/// Most members of a body that are looked at for faults; no request has as many fields.
const MEMBERS: usize = 64;

/// Reads the body again, slowly, to find its faults. `error` is the parser's first error.
pub(super) fn explain<'a, T: Deserialize<'a>>(body: &'a [u8], error: &serde_json::Error) -> Invalid {
    if body.trim_ascii().is_empty() {
        return Invalid::new("", "must be a JSON object, found an empty body");
    }
    let mut from = serde_json::Deserializer::from_slice(body);
    match serde_path_to_error::deserialize::<_, JsonObject<T>>(&mut from) {
        Err(found) => {
            let (pointer, detail) = fault(&found);
            let mut invalid = Invalid::new(pointer, detail);
            if found.inner().classify() == Category::Data {
                add_faults_of_other_members::<T>(body, &mut invalid);
            }
            invalid
        }
        Ok(_) => match from.end() {
            Err(trailing) => {
                let (line, column) = (trailing.line(), trailing.column());
                let detail =
                    format!("must be one JSON object, found more text at line {line}, column {column}");
                Invalid::new("", detail)
            }
            Ok(()) => Invalid::new("", format!("can't be read: {}", message(error))),
        },
    }
}

/// A fault's pointer and what is wrong.
fn fault(error: &serde_path_to_error::Error<serde_json::Error>) -> (String, String) {
    let (mut at, ends_in) = pointer(error.path());
    let detail = detail(error.inner(), &mut at, ends_in.as_deref());
    (at, detail)
}

/// Reads each member of the body alone, so that one fault does not hide those of the other members, and then looks for
/// members that are missing.
fn add_faults_of_other_members<'a, T: Deserialize<'a>>(body: &'a [u8], invalid: &mut Invalid) {
    let Ok(Members(members)) = serde_json::from_slice::<Members<'a>>(body) else { return };
    let mut good = Vec::new();
    for member in members {
        let Err(error) = read_members::<T>(std::slice::from_ref(&member)) else {
            good.push(member);
            continue;
        };
        let (at, detail) = fault(&error);
        if is_missing(&error).is_some() && !at.starts_with(&pointer_to(&member.0)) {
            good.push(member);
            continue;
        }
        add(invalid, at, detail);
        // The member exists and its value is wrong.
        good.extend(placeholder::<T>(&member.0));
    }
    while let Err(error) = read_members::<T>(&good) {
        let Some(name) = is_missing(&error) else { return };
        let (at, detail) = fault(&error);
        add(invalid, at, detail);
        let Some(placeholder) = placeholder::<T>(&name) else { return };
        good.push(placeholder);
    }
}

/// Adds a fault, unless there is one at its place.
fn add(invalid: &mut Invalid, at: String, detail: String) {
    let known = invalid.errors.iter().any(|fault| *fault.pointer == *at);
    if !known && invalid.errors.len() < MAX_FAULTS {
        invalid.errors.extend(Invalid::new(at, detail).errors);
    }
}

fn pointer_to(name: &str) -> String {
    let mut pointer = String::new();
    push(&mut pointer, name);
    pointer
}

/// The missing member, if that is the error.
fn is_missing(error: &serde_path_to_error::Error<serde_json::Error>) -> Option<String> {
    quoted(&message(error.inner()), "missing field `").map(str::to_owned)
}

/// A member with this name and a value that its field takes.
fn placeholder<'a, T: Deserialize<'a>>(name: &str) -> Option<Member<'a>> {
    const VALUES: [&str; 6] =
        ["\"x\"", "1", "[]", "\"018bcfe5-6800-7fff-bfff-ffffffffffff\"", "\"reserve\"", "{}"];
    let values = VALUES.iter().filter_map(|value| serde_json::from_str::<&'static RawValue>(value).ok());
    let mut members = values.map(|value| (Cow::Owned(name.to_owned()), value));
    members.find(|member| match read_members::<T>(std::slice::from_ref(member)) {
        Ok(_) => true,
        // Another member of the body is missing, and not one within the value.
        Err(error) => {
            let at = fault(&error).0;
            is_missing(&error).is_some_and(|missing| missing != name && at == pointer_to(&missing))
        }
    })
}

/// A member of the body.
type Member<'a> = (Cow<'a, str>, &'a RawValue);

/// Reads a body that has only these members.
fn read_members<'a, T: Deserialize<'a>>(
    members: &[Member<'a>],
) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
    let members = members.iter().map(|(name, value)| (&**name, *value));
    serde_path_to_error::deserialize(MapDeserializer::new(members))
}

/// The members of a JSON object, in order. A repeated name is kept.
struct Members<'a>(Vec<Member<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if members.len() < MEMBERS {
                        members.push((Cow::Owned(name), value));
                    }
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(All)
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
        // A shape's member is the last one of the path.
        if !name.is_empty() {
            at(name);
        }
        let fields = fields.strip_prefix("one of ").unwrap_or(fields).split(", ");
        let fields = fields.collect::<Vec<_>>().join(", ");
        return format!("is not a field here; the fields are {fields}");
    }
    mismatch(&message).unwrap_or(message)
}

/// What is wrong with a value, from the parser's message, if it is the value that is wrong.
pub(crate) fn mismatch(message: &str) -> Option<String> {
    let rest = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "))?;
    let (unexpected, expected) = rest.rsplit_once(", expected ")?;
    let expected = if expected == "a sequence" { "an array" } else { expected };
    Some(format!("must be {expected}, found {}", found(unexpected)))
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
        // A number that fits no integer type was rounded by the parser, so its text is used.
        let large = value.parse::<f64>().is_ok_and(|value| value.abs() >= TWO_TO_THE_63);
        return if large { "a number that is too large".to_owned() } else { value.to_owned() };
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
