//! Writes JSON as a message, in one pass: every answer of a route is encoded here, so it builds no tree in between.

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::prost_types::{ListValue, Struct, Timestamp, Value as AnyValue, value::Kind as AnyKind};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// The object that follows, appended as a message. Members that the message does not have are left out.
pub(crate) struct MessageSeed<'a> {
    pub(crate) descriptor: &'a MessageDescriptor,
    pub(crate) out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for MessageSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MessageSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object for {}", self.descriptor.full_name())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            match self.descriptor.get_field_by_name(&name) {
                Some(field) => members.next_value_seed(FieldSeed { field: &field, out: self.out })?,
                None => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The value that follows, appended as a field.
struct FieldSeed<'a> {
    field: &'a FieldDescriptor,
    out: &'a mut Vec<u8>,
}

impl FieldSeed<'_> {
    fn put_varint(self, number: u64) {
        encode_key(self.field.number(), WireType::Varint, self.out);
        encode_varint(number, self.out);
    }

    fn put_bytes(self, bytes: &[u8]) {
        encode_key(self.field.number(), WireType::LengthDelimited, self.out);
        encode_varint(bytes.len() as u64, self.out);
        self.out.extend_from_slice(bytes);
    }

    fn put_double(self, number: f64) {
        encode_key(self.field.number(), WireType::SixtyFourBit, self.out);
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    fn misfit<E: Error>(&self, found: &str) -> E {
        E::custom(format_args!("the field {} can't be {found}", self.field.full_name()))
    }
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of {}", self.field.full_name())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, yes: bool) -> Result<(), E> {
        match self.field.kind() {
            Kind::Bool => self.put_varint(u64::from(yes)),
            _ => return Err(self.misfit("a boolean")),
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        match self.field.kind() {
            Kind::Uint64 | Kind::Int64 => self.put_varint(number),
            #[expect(clippy::cast_precision_loss, reason = "the field is a double")]
            Kind::Double => self.put_double(number as f64),
            _ => return Err(self.misfit("a number")),
        }
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        match self.field.kind() {
            Kind::Int64 => self.put_varint(number.cast_unsigned()),
            #[expect(clippy::cast_precision_loss, reason = "the field is a double")]
            Kind::Double => self.put_double(number as f64),
            _ => return Err(self.misfit("a negative number")),
        }
        Ok(())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        match self.field.kind() {
            Kind::Double => self.put_double(number),
            _ => return Err(self.misfit("a fraction")),
        }
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.field.kind() {
            Kind::String => self.put_bytes(text.as_bytes()),
            Kind::Message(message) if message.full_name() == "google.protobuf.Timestamp" => {
                let stamp: Timestamp = text.parse().map_err(|_| self.misfit::<E>("this text"))?;
                self.put_bytes(&stamp.encode_to_vec());
            }
            _ => return Err(self.misfit("a text")),
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        if !self.field.is_list() {
            return Err(self.misfit("a list"));
        }
        // Every reader takes the elements of a list one by one, also those of numbers.
        while elements.next_element_seed(FieldSeed { field: self.field, out: self.out })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Kind::Message(descriptor) = self.field.kind() else { return Err(self.misfit("an object")) };
        let mut inner = Vec::new();
        if descriptor.full_name() == "google.protobuf.Struct" {
            let mut fields = Struct::default();
            while let Some((name, value)) = members.next_entry::<String, Value>()? {
                fields.fields.insert(name, any(value));
            }
            inner = fields.encode_to_vec();
        } else {
            MessageSeed { descriptor: &descriptor, out: &mut inner }.visit_map(members)?;
        }
        self.put_bytes(&inner);
        Ok(())
    }
}

fn any(value: Value) -> AnyValue {
    let kind = match value {
        Value::Null => AnyKind::NullValue(0),
        Value::Bool(yes) => AnyKind::BoolValue(yes),
        Value::Number(number) => AnyKind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => AnyKind::StringValue(text),
        Value::Array(values) => {
            AnyKind::ListValue(ListValue { values: values.into_iter().map(any).collect() })
        }
        Value::Object(members) => {
            let fields = members.into_iter().map(|(name, value)| (name, any(value))).collect();
            AnyKind::StructValue(Struct { fields })
        }
    };
    AnyValue { kind: Some(kind) }
}
