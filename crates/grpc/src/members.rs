//! Reads a message from its bytes and writes it as JSON text, as the HTTP API has it: the fields' names, times of RFC 3339, numbers as
//! numbers. No tree of values is built in between, since every request comes through here.

use crate::fault::Fault;
use crate::json::{number_text, structure, time};
use crate::shape::{FieldKind, FieldShape, MessageShape};
use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};
use prost_reflect::{DynamicMessage, MessageDescriptor};
use std::io::Write;

/// The field whose entries are names of fields to clear.
const CLEAR: &str = "clear";

/// Where a value is, for the pointer of a fault. The text is made only if there is a fault.
#[derive(Clone, Copy)]
struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Name(&'a str),
    Number(usize),
}

impl<'a> Place<'a> {
    const ROOT: Self = Self { parent: None, step: Step::Root };

    fn name(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Name(name) }
    }

    fn number(&'a self, number: usize) -> Self {
        Self { parent: Some(self), step: Step::Number(number) }
    }

    fn pointer(&self) -> String {
        let mut out = self.parent.map_or_else(String::new, Place::pointer);
        match self.step {
            Step::Root => {}
            Step::Name(name) => out.extend(["/", name]),
            Step::Number(number) => out.extend(["/", &number.to_string()]),
        }
        out
    }
}

/// A value as the message has it.
#[derive(Clone, Copy, Debug)]
enum Piece<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

/// A value, and the field that it is of.
type FieldPiece<'m> = (&'static FieldShape, Piece<'m>);

/// The fields of a message, each with the values that it has.
pub(crate) struct Members<'m> {
    shape: &'static MessageShape,
    /// In the order of the numbers of the fields.
    pieces: Vec<FieldPiece<'m>>,
}

/// A field that has a value.
pub(crate) enum FieldText {
    Text(String),
    /// Several texts, or a number, or a flag: as a query has it.
    Other(String),
}

impl<'m> Members<'m> {
    /// Reads a message. A field that this server does not know is a fault, because it would be ignored silently.
    pub(crate) fn read(shape: &'static MessageShape, message: &'m [u8]) -> Result<Self, Fault> {
        Self::read_at(shape, message, Place::ROOT)
    }

    fn read_at(shape: &'static MessageShape, message: &'m [u8], place: Place<'_>) -> Result<Self, Fault> {
        let broken =
            |what: &str| Fault::new(place.pointer(), format!("is not a {}: {what}", shape.full_name));
        let mut pieces = Vec::new();
        let mut rest = message;
        while rest.has_remaining() {
            let (number, wire_type) = decode_key(&mut rest).map_err(|error| broken(&error.to_string()))?;
            let piece = match wire_type {
                WireType::Varint => {
                    Piece::Number(decode_varint(&mut rest).map_err(|error| broken(&error.to_string()))?)
                }
                WireType::SixtyFourBit if rest.len() >= 8 => Piece::Number(rest.get_u64_le()),
                WireType::ThirtyTwoBit if rest.len() >= 4 => Piece::Number(u64::from(rest.get_u32_le())),
                WireType::LengthDelimited => {
                    let length = decode_varint(&mut rest).map_err(|error| broken(&error.to_string()))?;
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    let (bytes, after) =
                        rest.split_at_checked(length).ok_or_else(|| broken("it ends too early"))?;
                    rest = after;
                    Piece::Bytes(bytes)
                }
                WireType::SixtyFourBit | WireType::ThirtyTwoBit => return Err(broken("it ends too early")),
                WireType::StartGroup | WireType::EndGroup => return Err(broken("it has a group")),
            };
            let Some(field) = shape.numbered_field(number) else {
                let detail = format!("has a field with the number {number}, which this server does not know");
                return Err(Fault::new(place.pointer(), detail));
            };
            if !fits(field, wire_type) {
                let detail =
                    format!("is not a {}: the field {} has another type", shape.full_name, field.name);
                return Err(Fault::new(place.pointer(), detail));
            }
            pieces.push((field, piece));
        }
        // Values of one field may stand apart.
        pieces.sort_by_key(|(field, _): &FieldPiece<'_>| field.number);
        Ok(Self { shape, pieces })
    }

    /// Takes a field out.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<FieldText>, Fault> {
        let Some(field) = self.shape.field(name) else { return Ok(None) };
        let values = self.take_pieces(field);
        if values.is_empty() {
            return Ok(None);
        }
        field_text(field, &values).map(Some)
    }

    /// Takes a text out.
    pub(crate) fn take_text(&mut self, name: &str) -> Result<Option<String>, Fault> {
        Ok(self.take(name)?.map(|taken| match taken {
            FieldText::Text(text) | FieldText::Other(text) => text,
        }))
    }

    /// Takes a flag out. Absent is false.
    pub(crate) fn take_flag(&mut self, name: &str) -> Result<bool, Fault> {
        Ok(self.take_text(name)?.is_some_and(|text| text == "true"))
    }

    /// The other fields, in the order of their numbers.
    pub(crate) fn into_texts(mut self) -> Result<Vec<(&'static str, String)>, Fault> {
        let mut all = Vec::new();
        for field in &self.shape.fields {
            let values = self.take_pieces(field);
            if values.is_empty() {
                if field.has_default {
                    all.push((field.name.as_str(), default_of(field).to_owned()));
                }
                continue;
            }
            let (FieldText::Text(text) | FieldText::Other(text)) = field_text(field, &values)?;
            all.push((field.name.as_str(), text));
        }
        Ok(all)
    }

    /// The only message that is in it: its name and its fields.
    pub(crate) fn only_message(self) -> Result<Option<(&'static str, Self)>, Fault> {
        let Some((field, Piece::Bytes(bytes))) = self.pieces.last() else { return Ok(None) };
        let FieldKind::Message(number) = field.kind else { return Ok(None) };
        let Some(shape) = MessageShape::numbered(number) else { return Ok(None) };
        let inner = Self::read_at(shape, bytes, Place::ROOT.name(&field.name))?;
        Ok(Some((field.name.as_str(), inner)))
    }

    /// Writes the fields as members of an object that is open. `is_first`: nothing is in it yet.
    pub(crate) fn write_members(&self, out: &mut Vec<u8>, is_first: bool) -> Result<(), Fault> {
        self.write_at(out, is_first, Place::ROOT)
    }

    fn write_at(&self, out: &mut Vec<u8>, mut is_first: bool, place: Place<'_>) -> Result<(), Fault> {
        let mut rest = self.pieces.as_slice();
        let mut open = |out: &mut Vec<u8>, name: &str| {
            out.extend_from_slice(if is_first { b"\"" } else { b",\"" });
            is_first = false;
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
        };
        for field in &self.shape.fields {
            let count = rest.iter().take_while(|(of, _)| of.number == field.number).count();
            let (values, after) = rest.split_at(count);
            rest = after;
            if field.name == CLEAR && !values.is_empty() {
                for name in self.cleared(values, place)? {
                    open(out, name);
                    out.extend_from_slice(b"null");
                }
            } else if field.is_implicit_text && matches!(values.last(), Some((_, Piece::Bytes([])))) {
                // An empty text of such a field is as if it were absent.
            } else if !values.is_empty() {
                open(out, &field.name);
                write_values(out, field, values, place.name(&field.name))?;
            } else if field.has_default {
                open(out, &field.name);
                out.extend_from_slice(default_of(field).as_bytes());
            }
        }
        Ok(())
    }

    /// The names of the fields to clear: fields of this message that have no value.
    fn cleared(&self, values: &[FieldPiece<'m>], place: Place<'_>) -> Result<Vec<&'static str>, Fault> {
        let place = place.name(CLEAR);
        let mut names: Vec<&'static str> = Vec::with_capacity(values.len());
        for (number, (_, piece)) in values.iter().enumerate() {
            let place = place.number(number);
            let name = text(*piece, place)?;
            let Some(field) = self.shape.field(name) else {
                let detail = "must be the name of a field of this message".to_owned();
                return Err(Fault::new(place.pointer(), detail));
            };
            let is_set = self.pieces.iter().any(|(of, _)| of.number == field.number);
            let has_value = field.has_default || is_set;
            if has_value || names.contains(&field.name.as_str()) {
                let detail = "names a field that has a value: leave out one of them".to_owned();
                return Err(Fault::new(place.pointer(), detail));
            }
            names.push(&field.name);
        }
        Ok(names)
    }

    fn take_pieces(&mut self, field: &FieldShape) -> Vec<FieldPiece<'m>> {
        let first = self.pieces.partition_point(|(of, _)| of.number < field.number);
        let last = self.pieces.partition_point(|(of, _)| of.number <= field.number);
        self.pieces.drain(first..last).collect()
    }
}

/// Whether a field may be written in this way. Numbers of a list may be packed.
fn fits(field: &FieldShape, wire_type: WireType) -> bool {
    let alone = match field.kind {
        FieldKind::Bool | FieldKind::Int64 | FieldKind::Uint64 | FieldKind::Uint32 => WireType::Varint,
        FieldKind::Double => WireType::SixtyFourBit,
        FieldKind::Text | FieldKind::Timestamp(_) | FieldKind::Struct(_) | FieldKind::Message(_) => {
            WireType::LengthDelimited
        }
        FieldKind::Other => return true,
    };
    wire_type == alone || (field.is_list && wire_type == WireType::LengthDelimited)
}

fn default_of(field: &FieldShape) -> &'static str {
    if matches!(field.kind, FieldKind::Bool) { "false" } else { "0" }
}

/// The values of a field as a query has them.
fn field_text(field: &FieldShape, values: &[FieldPiece<'_>]) -> Result<FieldText, Fault> {
    let place = Place::ROOT;
    let place = place.name(&field.name);
    match (&field.kind, field.is_list, values.last()) {
        (FieldKind::Text, false, Some((_, piece))) => Ok(FieldText::Text(text(*piece, place)?.to_owned())),
        (FieldKind::Text, true, _) => {
            let texts = values.iter().map(|(_, piece)| text(*piece, place)).collect::<Result<Vec<_>, _>>()?;
            Ok(FieldText::Other(texts.join(",")))
        }
        (FieldKind::Timestamp(descriptor), false, Some((_, Piece::Bytes(bytes)))) => {
            Ok(FieldText::Text(time(&decoded(descriptor, bytes, place)?, &place.pointer())?))
        }
        _ => {
            let mut out = Vec::new();
            write_values(&mut out, field, values, place)?;
            Ok(FieldText::Other(String::from_utf8_lossy(&out).into_owned()))
        }
    }
}

fn write_values(
    out: &mut Vec<u8>,
    field: &FieldShape,
    values: &[FieldPiece<'_>],
    place: Place<'_>,
) -> Result<(), Fault> {
    if !field.is_list {
        return match (&field.kind, values) {
            // Parts of one message that stand apart are one message.
            (FieldKind::Message(_) | FieldKind::Timestamp(_) | FieldKind::Struct(_), [_, _, ..]) => {
                let parts = values.iter().filter_map(|(_, piece)| match piece {
                    Piece::Bytes(bytes) => Some(*bytes),
                    Piece::Number(_) => None,
                });
                write_value(out, &field.kind, Piece::Bytes(&parts.collect::<Vec<_>>().concat()), place)
            }
            // Of several values, the last one counts.
            (kind, [.., (_, last)]) => write_value(out, kind, *last, place),
            (_, []) => Ok(()),
        };
    }
    out.push(b'[');
    let mut number = 0;
    for (_, piece) in values {
        for piece in unpacked(&field.kind, *piece, place)? {
            if number > 0 {
                out.push(b',');
            }
            write_value(out, &field.kind, piece, place.number(number))?;
            number += 1;
        }
    }
    out.push(b']');
    Ok(())
}

/// The values of a piece of a list: numbers may be packed.
fn unpacked<'m>(kind: &FieldKind, piece: Piece<'m>, place: Place<'_>) -> Result<Vec<Piece<'m>>, Fault> {
    let is_number = matches!(
        kind,
        FieldKind::Bool | FieldKind::Int64 | FieldKind::Uint64 | FieldKind::Uint32 | FieldKind::Double
    );
    let Piece::Bytes(mut rest) = piece else { return Ok(vec![piece]) };
    if !is_number {
        return Ok(vec![piece]);
    }
    let broken = || Fault::new(place.pointer(), "is a list that ends too early".to_owned());
    let mut all = Vec::new();
    while rest.has_remaining() {
        all.push(Piece::Number(match kind {
            FieldKind::Double if rest.len() >= 8 => rest.get_u64_le(),
            FieldKind::Double => return Err(broken()),
            _ => decode_varint(&mut rest).map_err(|_| broken())?,
        }));
    }
    Ok(all)
}

fn write_value(out: &mut Vec<u8>, kind: &FieldKind, piece: Piece<'_>, place: Place<'_>) -> Result<(), Fault> {
    // Writing to a Vec does not fail.
    match (kind, piece) {
        (FieldKind::Bool, Piece::Number(number)) => {
            out.extend_from_slice(if number == 0 { b"false" } else { b"true" });
        }
        (FieldKind::Int64, Piece::Number(number)) => drop(write!(out, "{}", number.cast_signed())),
        (FieldKind::Uint64, Piece::Number(number)) => drop(write!(out, "{number}")),
        #[expect(clippy::cast_possible_truncation, reason = "a reader of protobuf keeps the low bits")]
        (FieldKind::Uint32, Piece::Number(number)) => drop(write!(out, "{}", number as u32)),
        (FieldKind::Double, Piece::Number(bits)) => {
            out.extend_from_slice(number_text(f64::from_bits(bits), &place.pointer())?.as_bytes());
        }
        (FieldKind::Text, piece) => drop(serde_json::to_writer(out, text(piece, place)?)),
        (FieldKind::Timestamp(descriptor), Piece::Bytes(bytes)) => {
            let text = time(&decoded(descriptor, bytes, place)?, &place.pointer())?;
            drop(serde_json::to_writer(out, &text));
        }
        (FieldKind::Struct(descriptor), Piece::Bytes(bytes)) => {
            let value = structure(&decoded(descriptor, bytes, place)?, &place.pointer())?;
            drop(serde_json::to_writer(out, &value));
        }
        (FieldKind::Message(number), Piece::Bytes(bytes)) => {
            let shape = MessageShape::numbered(*number)
                .ok_or_else(|| Fault::new(place.pointer(), "is of an unknown type".to_owned()))?;
            out.push(b'{');
            Members::read_at(shape, bytes, place)?.write_at(out, true, place)?;
            out.push(b'}');
        }
        _ => return Err(Fault::new(place.pointer(), "has a type that no field of this API has".to_owned())),
    }
    Ok(())
}

fn text<'m>(piece: Piece<'m>, place: Place<'_>) -> Result<&'m str, Fault> {
    let fault = || Fault::new(place.pointer(), "must be a text in UTF-8".to_owned());
    match piece {
        Piece::Bytes(bytes) => std::str::from_utf8(bytes).map_err(|_| fault()),
        Piece::Number(_) => Err(fault()),
    }
}

fn decoded(descriptor: &MessageDescriptor, bytes: &[u8], place: Place<'_>) -> Result<DynamicMessage, Fault> {
    DynamicMessage::decode(descriptor.clone(), bytes)
        .map_err(|error| Fault::new(place.pointer(), format!("is not a {}: {error}", descriptor.full_name())))
}

#[cfg(test)]
mod tests;
