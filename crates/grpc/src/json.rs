//! The types of protobuf that JSON has in another form: numbers with a fraction, times, and own data.

use crate::fault::Fault;
use prost_reflect::DynamicMessage;
use prost_reflect::prost_types::Timestamp;
use serde_json::{Number, Value};

/// Whole numbers up to it are exact as `double`, which is how a `google.protobuf.Value` has them.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A `double` as JSON.
pub(crate) fn number_text(number: f64, pointer: &str) -> Result<String, Fault> {
    double(number, pointer).map(|value| value.to_string())
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
pub(crate) fn time(message: &DynamicMessage, pointer: &str) -> Result<String, Fault> {
    let fault = || Fault::new(pointer, "must be a time from 0001-01-01 to 9999-12-31".to_owned());
    let stamp: Timestamp = message.transcode_to().map_err(|_| fault())?;
    let text = serde_json::to_value(message).ok().and_then(|value| value.as_str().map(str::to_owned));
    text.filter(|_| (0..1_000_000_000).contains(&stamp.nanos)).ok_or_else(fault)
}

/// A `google.protobuf.Struct`.
pub(crate) fn structure(message: &DynamicMessage, pointer: &str) -> Result<Value, Fault> {
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
