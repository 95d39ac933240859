//! Messages at random, read in two ways: from their bytes, and as trees of values by the library.

use super::*;
use crate::method::Method;
use prost::Message;
use prost_reflect::{Kind, ReflectMessage, Value as Field};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A small generator (xorshift), so that a failure names its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn text(&mut self) -> String {
        let texts = ["", "a", "b\"c\\", "\u{e9}\n", "stock.set", "0198f2c4-6f3a-7c3e-9b1d-2f4a5b6c7d8e"];
        texts[usize::try_from(self.below(texts.len() as u64)).unwrap()].to_owned()
    }

    fn number(&mut self) -> u64 {
        match self.below(3) {
            0 => 0,
            1 => u64::MAX >> 1,
            _ => self.below(1_000),
        }
    }

    fn message(&mut self, descriptor: &MessageDescriptor, depth: u32) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        for field in descriptor.fields() {
            if self.below(3) == 0 || field.name() == CLEAR {
                continue;
            }
            let value = if field.is_list() {
                Field::List((0..self.below(4)).map(|_| self.value(&field.kind(), depth)).collect())
            } else {
                self.value(&field.kind(), depth)
            };
            message.set_field(&field, value);
        }
        message
    }

    fn value(&mut self, kind: &Kind, depth: u32) -> Field {
        match kind {
            Kind::Bool => Field::Bool(self.below(2) == 0),
            Kind::Int64 => Field::I64(self.number().cast_signed().wrapping_neg()),
            Kind::Uint64 => Field::U64(self.number()),
            Kind::Uint32 => Field::U32(u32::try_from(self.below(1 << 32)).unwrap()),
            Kind::Double => Field::F64([0.0, -1.5, 7.0][usize::try_from(self.below(3)).unwrap()]),
            Kind::String => Field::String(self.text()),
            Kind::Message(message) if message.full_name() == "google.protobuf.Struct" => {
                let value = json!({ "a": [1, 0.5, null], "b": { "c": self.text() } });
                Field::Message(DynamicMessage::deserialize(message.clone(), value).unwrap())
            }
            Kind::Message(message) if message.full_name() == "google.protobuf.Timestamp" => {
                let value = json!("2027-01-31T12:00:00.250Z");
                Field::Message(DynamicMessage::deserialize(message.clone(), value).unwrap())
            }
            Kind::Message(message) if depth > 0 => Field::Message(self.message(message, depth - 1)),
            Kind::Message(message) => Field::Message(DynamicMessage::new(message.clone())),
            other => panic!("a type that no field has: {other:?}"),
        }
    }
}

/// The members as the library has them.
fn by_library(message: &DynamicMessage) -> Value {
    let mut out = Map::new();
    for field in message.descriptor().fields() {
        let is_empty = (field.is_list() || field.kind() == Kind::String) && !message.has_field(&field);
        let is_absent = if field.supports_presence() { !message.has_field(&field) } else { is_empty };
        if !is_absent {
            out.insert(field.name().to_owned(), value_by_library(&message.get_field(&field)));
        }
    }
    Value::Object(out)
}

fn value_by_library(field: &Field) -> Value {
    match field {
        Field::Bool(yes) => json!(yes),
        Field::I64(number) => json!(number),
        Field::U64(number) => json!(number),
        Field::U32(number) => json!(number),
        Field::F64(number) => serde_json::from_str(&number_text(*number, "").unwrap()).unwrap(),
        Field::String(text) => json!(text),
        Field::List(values) => values.iter().map(value_by_library).collect(),
        Field::Message(message) => match message.descriptor().full_name() {
            "google.protobuf.Timestamp" => json!(time(message, "").unwrap()),
            "google.protobuf.Struct" => structure(message, "").unwrap(),
            _ => by_library(message),
        },
        other => panic!("{other:?}"),
    }
}

fn by_bytes(shape: &'static MessageShape, bytes: &[u8]) -> Value {
    let mut out = vec![b'{'];
    Members::read(shape, bytes).unwrap().write_members(&mut out, true).unwrap();
    out.push(b'}');
    serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&out)))
}

#[test]
fn random_messages_are_the_same_by_bytes_and_by_the_library() {
    let methods: BTreeMap<_, _> = Method::all().collect();
    for seed in 1..400_u32 {
        let mut random = Random(u64::from(seed) * 0x9e37_79b9);
        for (path, method) in &methods {
            let message = random.message(&method.input, 3);
            let bytes = message.encode_to_vec();
            assert_eq!(by_bytes(method.shape, &bytes), by_library(&message), "{path}, seed {seed}");
        }
    }
}

#[test]
fn parts_that_stand_apart_are_one_value() {
    let (_, method) = Method::all().find(|(path, _)| path.ends_with("/SetStock")).unwrap();
    let part = |value| DynamicMessage::deserialize(method.input.clone(), value).unwrap().encode_to_vec();
    let parts = [
        part(json!({ "sku": "a", "price": { "unit_amount": 5, "currency": "usd" } })),
        part(json!({ "sku": "b", "incoming": [{ "supply_id": "x", "quantity": 1 }] })),
        part(json!({ "price": { "unit_amount": 7 }, "incoming": [{ "supply_id": "y", "quantity": 2 }] })),
    ];
    let bytes = parts.concat();
    let message = DynamicMessage::decode(method.input.clone(), &*bytes).unwrap();
    let read = by_bytes(method.shape, &bytes);
    assert_eq!(read, by_library(&message));
    assert_eq!((&read["sku"], read["incoming"].as_array().unwrap().len()), (&json!("b"), 2));
}

#[test]
fn changed_bytes_are_refused_or_read_as_the_library_reads_them() {
    let (_, method) = Method::all().find(|(path, _)| path.ends_with("/Reserve")).unwrap();
    let bytes = Random(7).message(&method.input, 3).encode_to_vec();
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[place] ^= 1 << bit;
            let mut out = vec![b'{'];
            let read =
                Members::read(method.shape, &changed).and_then(|read| read.write_members(&mut out, true));
            // The library also checks values that do not count, because a later one replaces them.
            let Ok(message) = DynamicMessage::decode(method.input.clone(), &*changed) else { continue };
            if read.is_ok() {
                out.push(b'}');
                let read: Value = serde_json::from_slice(&out).unwrap();
                assert_eq!(read, by_library(&message), "byte {place}, bit {bit}");
            }
        }
    }
}

#[test]
fn a_fault_names_its_field() {
    let (_, method) = Method::all().find(|(path, _)| path.ends_with("/Reserve")).unwrap();
    // Line 1 has a SKU that is no UTF-8.
    let line = method.shape.field("lines").map(|field| field.number).unwrap();
    let key = u8::try_from(line << 3 | 2).unwrap();
    let bytes = [key, 0, key, 3, 0x0a, 1, 0xff];
    let mut out = Vec::new();
    let fault = Members::read(method.shape, &bytes).unwrap().write_members(&mut out, true).unwrap_err();
    assert_eq!(fault.pointer, "/lines/1/sku");
    // A number where a text has to be, and a length beyond the end.
    for bytes in [&[0x08, 1][..], &[0x0a, 9, b'a']] {
        let fault = Members::read(method.shape, bytes).map(drop).unwrap_err();
        assert!(fault.detail.contains("is not a stockhold.v1.ReserveRequest"), "{fault:?}");
    }
}
