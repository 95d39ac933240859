//! Answers: the JSON of the HTTP API becomes messages.

use crate::descriptors::POOL;
use crate::method::Method;
use crate::wire::MessageSeed;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, Value as Field};
use serde::Deserialize;
use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;
use stockhold_api::routes::RouteId;

/// An answer that does not fit its message. It is a defect of the server.
#[derive(Debug)]
pub struct AnswerError(String);

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer can't be written as a message: {}", self.0)
    }
}

impl<E: std::error::Error> From<E> for AnswerError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// The answer of a method. `json` is empty where the route answers without a body.
pub fn answer(method: &Method, json: &[u8]) -> Result<Vec<u8>, AnswerError> {
    if json.is_empty() {
        return Ok(Vec::new());
    }
    if method.route == RouteId::ListEvents {
        let mut value: Value = serde_json::from_slice(json)?;
        value.get_mut("data").and_then(Value::as_array_mut).into_iter().flatten().for_each(name_pool);
        return encode(&method.output, value);
    }
    encode(&method.output, &mut serde_json::Deserializer::from_slice(json))
}

/// An event of a pool has the pool where other events have its name, and a field has one type.
fn name_pool(event: &mut Value) {
    if let Value::Object(members) = event
        && members.get("pool").is_some_and(Value::is_object)
        && let Some(pool) = members.remove("pool")
    {
        members.insert("pool_state".to_owned(), pool);
    }
}

/// Members that the messages do not have yet are left out.
fn encode<'de, D: serde::Deserializer<'de>>(
    descriptor: &MessageDescriptor,
    json: D,
) -> Result<Vec<u8>, AnswerError>
where
    D::Error: std::error::Error,
{
    let mut out = Vec::with_capacity(MESSAGE_ROOM);
    MessageSeed { descriptor, out: &mut out }.deserialize(json)?;
    Ok(out)
}

/// Capacity for a message, in bytes. Hardly any is longer.
const MESSAGE_ROOM: usize = 512;

/// The results of commands, in their order.
#[derive(Deserialize)]
pub struct CommandResults<'a> {
    #[serde(borrow)]
    results: Vec<&'a RawValue>,
}

impl<'a> CommandResults<'a> {
    /// Reads the answer of `POST /v1/commands`.
    pub fn read(json: &'a [u8]) -> Result<Self, AnswerError> {
        Ok(serde_json::from_slice(json)?)
    }

    /// Each result as a message of `Commands`.
    pub fn messages(&self, method: &Method) -> impl Iterator<Item = Result<Vec<u8>, AnswerError>> {
        let each = self.results.iter();
        each.map(|result| encode(&method.output, &mut serde_json::Deserializer::from_str(result.get())))
    }
}

/// An answer of `WatchEvents` with an event.
pub fn event_answer(method: &Method, position: u64, event: &[u8]) -> Result<Vec<u8>, AnswerError> {
    let descriptor = POOL.get_message_by_name("stockhold.v1.Event");
    let descriptor = descriptor.ok_or_else(|| AnswerError("there is no message Event".to_owned()))?;
    let mut event: Value = serde_json::from_slice(event)?;
    name_pool(&mut event);
    let event = DynamicMessage::decode(descriptor.clone(), &*encode(&descriptor, event)?)?;
    let mut answer = DynamicMessage::new(method.output.clone());
    answer.set_field_by_name("position", Field::U64(position));
    answer.set_field_by_name("event", Field::Message(event));
    Ok(answer.encode_to_vec())
}

/// An answer of `WatchEvents` that only says how far the stream is.
pub fn position_answer(method: &Method, position: u64) -> Vec<u8> {
    let mut answer = DynamicMessage::new(method.output.clone());
    answer.set_field_by_name("position", Field::U64(position));
    answer.encode_to_vec()
}
