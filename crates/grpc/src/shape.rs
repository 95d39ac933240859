//! What fields a message has, in the form in which reading one needs it. Descriptors are looked up once, at the first call.

use crate::descriptors::POOL;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use std::collections::HashMap;
use std::sync::LazyLock;

const TIMESTAMP: &str = "google.protobuf.Timestamp";
const STRUCT: &str = "google.protobuf.Struct";

/// All messages of the contract.
static SHAPES: LazyLock<Shapes> = LazyLock::new(Shapes::new);

struct Shapes {
    all: Vec<MessageShape>,
    by_name: HashMap<String, usize>,
}

/// A message.
#[derive(Debug)]
pub(crate) struct MessageShape {
    pub(crate) full_name: String,
    /// The fields, in the order of their numbers.
    pub(crate) fields: Vec<FieldShape>,
}

/// A field of a message.
#[derive(Debug)]
pub(crate) struct FieldShape {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) kind: FieldKind,
    pub(crate) is_list: bool,
    /// Whether its absence means a value: 0 or false.
    pub(crate) has_default: bool,
    /// Whether it is a text of which an empty one counts as absent.
    pub(crate) is_implicit_text: bool,
}

/// The type of a field.
#[derive(Debug)]
pub(crate) enum FieldKind {
    Bool,
    Int64,
    Uint64,
    Uint32,
    Double,
    Text,
    Timestamp(MessageDescriptor),
    Struct(MessageDescriptor),
    /// A message of the contract, by its number.
    Message(usize),
    /// A type that no field of this API has.
    Other,
}

impl MessageShape {
    /// The shape of a message of the contract.
    pub(crate) fn of(descriptor: &MessageDescriptor) -> Option<&'static Self> {
        let number = SHAPES.by_name.get(descriptor.full_name())?;
        SHAPES.all.get(*number)
    }

    /// The shape with this number.
    pub(crate) fn numbered(number: usize) -> Option<&'static Self> {
        SHAPES.all.get(number)
    }

    /// The field with this number.
    pub(crate) fn numbered_field(&self, number: u32) -> Option<&FieldShape> {
        let place = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(place)
    }

    /// The field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&FieldShape> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Shapes {
    fn new() -> Self {
        let messages: Vec<_> = POOL.all_messages().collect();
        let names = messages.iter().enumerate();
        let by_name: HashMap<_, _> = names.map(|(n, message)| (message.full_name().to_owned(), n)).collect();
        let shape = |message: &MessageDescriptor| {
            let mut fields: Vec<_> = message.fields().map(|field| field_shape(&field, &by_name)).collect();
            fields.sort_by_key(|field| field.number);
            MessageShape { full_name: message.full_name().to_owned(), fields }
        };
        Self { all: messages.iter().map(shape).collect(), by_name }
    }
}

fn field_shape(field: &FieldDescriptor, by_name: &HashMap<String, usize>) -> FieldShape {
    let kind = match field.kind() {
        Kind::Bool => FieldKind::Bool,
        Kind::Int64 => FieldKind::Int64,
        Kind::Uint64 => FieldKind::Uint64,
        Kind::Uint32 => FieldKind::Uint32,
        Kind::Double => FieldKind::Double,
        Kind::String => FieldKind::Text,
        Kind::Message(_) if field.is_map() => FieldKind::Other,
        Kind::Message(message) => match message.full_name() {
            TIMESTAMP => FieldKind::Timestamp(message),
            STRUCT => FieldKind::Struct(message),
            name => by_name.get(name).map_or(FieldKind::Other, |number| FieldKind::Message(*number)),
        },
        _ => FieldKind::Other,
    };
    let is_list = field.is_list();
    let is_implicit = !field.supports_presence() && !is_list;
    let is_text = matches!(kind, FieldKind::Text);
    FieldShape {
        number: field.number(),
        name: field.name().to_owned(),
        has_default: is_implicit && !is_text,
        is_implicit_text: is_implicit && is_text,
        kind,
        is_list,
    }
}
