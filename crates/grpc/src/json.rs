//! Messages as JSON values, as the HTTP API has them: the fields' names, times of RFC 3339, numbers as numbers.

use crate::fault::Fault;
use prost_reflect::prost_types::Timestamp;
use prost_reflect::{DynamicMessage, FieldDescriptor, ReflectMessage, Value as Field};
use serde_json::{Map, Number, Value};

const TIMESTAMP: &str = "google.protobuf.Timestamp";
const STRUCT: &str = "google.protobuf.Struct";
/// The field whose entries are names of fields to clear.
const CLEAR: &str = "clear";
/// Whole numbers up to it are exact as `double`, which is how a `google.protobuf.Value` has them.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The members of a message. A field without a value is left out, and one that `clear` names is `null`.
pub(crate) fn members(message: &DynamicMessage, pointer: &str) -> Result<Map<String, Value>, Fault> {
    if let Some(unknown) = message.unknown_fields().next() {
        let detail =
            format!("has a field with the number {}, which this server does not know", unknown.number());
        return Err(Fault::new(pointer, detail));
    }
    let mut out = Map::new();
    for field in message.descriptor().fields() {
        let absent =
            if field.supports_presence() { !message.has_field(&field) } else { is_empty(message, &field) };
        if absent {
            continue;
        }
        let pointer = format!("{pointer}/{}", field.name());
        let value = message.get_field(&field);
        if field.name() == CLEAR {
            clear(&mut out, &value, message, &pointer)?;
            continue;
        }
        out.insert(field.name().to_owned(), json(&value, &pointer)?);
    }
    Ok(out)
}

/// Whether a field is a list or a map without entries. A number of 0 is a value.
fn is_empty(message: &DynamicMessage, field: &FieldDescriptor) -> bool {
    (field.is_list() || field.is_map() || field.kind() == prost_reflect::Kind::String)
        && !message.has_field(field)
}

fn clear(
    out: &mut Map<String, Value>,
    names: &Field,
    message: &DynamicMessage,
    pointer: &str,
) -> Result<(), Fault> {
    for (number, name) in names.as_list().unwrap_or_default().iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        let at = || format!("{pointer}/{number}");
        if message.descriptor().get_field_by_name(name).is_none() {
            return Err(Fault::new(at(), "must be the name of a field of this message".to_owned()));
        }
        if out.insert(name.to_owned(), Value::Null).is_some() {
            return Err(Fault::new(at(), "names a field that has a value: leave out one of them".to_owned()));
        }
    }
    Ok(())
}

fn json(field: &Field, pointer: &str) -> Result<Value, Fault> {
    Ok(match field {
        Field::Bool(yes) => Value::Bool(*yes),
        Field::I32(number) => Value::from(*number),
        Field::I64(number) => Value::from(*number),
        Field::U32(number) => Value::from(*number),
        Field::U64(number) => Value::from(*number),
        Field::F32(number) => double(f64::from(*number), pointer)?,
        Field::F64(number) => double(*number, pointer)?,
        Field::String(text) => Value::String(text.clone()),
        Field::List(values) => {
            let each = values.iter().enumerate().map(|(n, value)| json(value, &format!("{pointer}/{n}")));
            Value::Array(each.collect::<Result<_, _>>()?)
        }
        Field::Message(message) => match message.descriptor().full_name() {
            TIMESTAMP => Value::String(time(message, pointer)?),
            STRUCT => structure(message, pointer)?,
            _ => Value::Object(members(message, pointer)?),
        },
        Field::Bytes(_) | Field::EnumNumber(_) | Field::Map(_) => {
            return Err(Fault::new(pointer, "has a type that no field of this API has".to_owned()));
        }
    })
}

/// A number of a `google.protobuf.Value`. A whole number is written without a point, as a caller of the HTTP API writes it.
fn double(number: f64, pointer: &str) -> Result<Value, Fault> {
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within the exact numbers")]
        return Ok(Value::from(number as i64));
    }
    let number = Number::from_f64(number).map(Value::Number);
    number.ok_or_else(|| Fault::new(pointer, "must be a finite number".to_owned()))
}

/// A time as RFC 3339 has it.
fn time(message: &DynamicMessage, pointer: &str) -> Result<String, Fault> {
    let fault = || Fault::new(pointer, "must be a time from 0001-01-01 to 9999-12-31".to_owned());
    let stamp: Timestamp = message.transcode_to().map_err(|_| fault())?;
    let text = serde_json::to_value(message).ok().and_then(|value| value.as_str().map(str::to_owned));
    text.filter(|_| (0..1_000_000_000).contains(&stamp.nanos)).ok_or_else(fault)
}

/// A `google.protobuf.Struct`.
fn structure(message: &DynamicMessage, pointer: &str) -> Result<Value, Fault> {
    let fault =
        || Fault::new(pointer, "has a value without a kind, or a number that is not finite".to_owned());
    let mut value = serde_json::to_value(message).map_err(|_| fault())?;
    whole_numbers(&mut value);
    Ok(value)
}

fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().and_then(|number| double(number, "").ok()) {
                *value = whole;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(whole_numbers),
        Value::Object(values) => values.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
