//! Units with ids: their selection in a request, and new units.

use super::Invalid;
use super::body;
use super::explain::clip;
use super::field::{Flag, JsonObject, Position, Quantity, Text, Together, given};
use super::{both, item, path};
use crate::{cursor, problem};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};
use std::collections::HashSet;
use std::fmt;
use stockhold_domain::limits::{ATTRIBUTES, LINE_UNITS, SECTIONS, UNITS_AT_ONCE};
use stockhold_domain::{
    AddUnits, Attribute, Attributes, BestAvailable, Command, ItemKey, Label, NewUnit, RetireUnit,
    UnitSelection,
};
use stockhold_store::{UnitFilter, UnitState};

/// Longest body of `POST /v1/inventory/{sku}/units` in bytes.
pub const UNITS_BODY_BYTES: usize = 8 * 1024 * 1024;

/// The units of a requested line.
#[derive(Default)]
pub(super) struct LineUnits {
    pub(super) quantity: Option<Quantity>,
    pub(super) units: Option<Vec<Text>>,
    pub(super) adjacent: Option<Flag>,
    pub(super) sections: Option<Vec<Text>>,
    pub(super) min_together: Option<Together>,
    pub(super) attributes: Option<AttributesField>,
}

impl LineUnits {
    /// The members that select units, and whether each is given.
    pub(super) fn chosen(&self) -> [(&'static str, bool); 4] {
        [
            ("adjacent", self.adjacent.is_some()),
            ("sections", self.sections.is_some()),
            ("min_together", self.min_together.is_some()),
            ("attributes", self.attributes.is_some()),
        ]
    }

    /// Whether the line asks for a number of units only.
    pub(super) fn is_plain(&self) -> bool {
        self.units.is_none() && self.chosen().iter().all(|(_, given)| !given)
    }

    /// All members, and whether each is given.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static str, bool)> {
        [("quantity", self.quantity.is_some()), ("units", self.units.is_some())]
            .into_iter()
            .chain(self.chosen())
    }
}

/// The number of units and their selection. `prefix` is the pointer of the object.
pub(super) fn wish(wish: LineUnits, prefix: &str) -> Result<(u64, Option<UnitSelection>), Invalid> {
    let chosen = wish.chosen();
    let LineUnits { quantity, units, adjacent, sections, min_together, attributes } = wish;
    if let Some(units) = units {
        if let Some((name, _)) = chosen.iter().find(|(_, given)| *given) {
            let detail = "can't be combined with units: leave out one of them";
            return Err(Invalid::new(format!("{prefix}/{name}"), detail));
        }
        let units = named(units, &format!("{prefix}/units"))?;
        let count = units.len() as u64;
        if quantity.is_some_and(|quantity| quantity.0 != count) {
            let detail = format!("must be left out, or be the number of named units, which is {count}");
            return Err(Invalid::new(format!("{prefix}/quantity"), detail));
        }
        return Ok((count, Some(UnitSelection::Named(units))));
    }
    let quantity = quantity.map_or(1, |quantity| quantity.0);
    if !chosen.iter().any(|(_, given)| *given) {
        return Ok((quantity, None));
    }
    let sections = match sections {
        None => Vec::new(),
        Some(sections) => {
            let count = sections.len();
            if !(1..=SECTIONS).contains(&count) {
                let detail = format!("must have 1 to {SECTIONS} sections, found {count}");
                return Err(Invalid::new(format!("{prefix}/sections"), detail));
            }
            sections.into_iter().map(|section| section.0).collect()
        }
    };
    let best = BestAvailable {
        adjacent: adjacent.is_some_and(|adjacent| adjacent.0),
        sections,
        min_together: min_together.map(|together| together.0),
        attributes: attributes.map(|attributes| attributes.0).unwrap_or_default(),
    };
    Ok((quantity, Some(UnitSelection::BestAvailable(best))))
}

/// Units by their ids, each named once.
pub(super) fn named(units: Vec<Text>, pointer: &str) -> Result<Vec<Label>, Invalid> {
    let count = units.len() as u64;
    if !(1..=LINE_UNITS).contains(&count) {
        let (most, found) = (problem::grouped(LINE_UNITS), problem::grouped(count));
        return Err(Invalid::new(pointer, format!("must name 1 to {most} units, found {found}")));
    }
    let units: Vec<Label> = units.into_iter().map(|unit| unit.0).collect();
    let mut seen = HashSet::with_capacity(units.len());
    if let Some((at, unit)) = units.iter().enumerate().find(|(_, unit)| !seen.insert(*unit)) {
        let detail = format!("names \"{}\" twice", clip(unit.as_str()));
        return Err(Invalid::new(format!("{pointer}/{at}"), detail));
    }
    Ok(units)
}

/// Attributes of units: an object of booleans, whole numbers and texts.
pub(super) struct AttributesField(pub(super) Attributes);

impl<'de> Deserialize<'de> for AttributesField {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = AttributesField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of at most 16 members, each a label, a whole number, true or false")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AttributesField, A::Error> {
                let mut all: Vec<(Label, Attribute)> = Vec::new();
                while let Some((Text(name), Value(value))) = map.next_entry()? {
                    if all.len() == ATTRIBUTES {
                        return Err(A::Error::invalid_length(all.len() + 1, &self));
                    }
                    if all.iter().any(|(known, _)| *known == name) {
                        // The text is the parser's own, so that `explain` reports it like a field that is given twice.
                        return Err(A::Error::custom(format_args!("duplicate field `{}`", name.as_str())));
                    }
                    all.push((name, value));
                }
                Ok(AttributesField(Attributes::new(all)))
            }
        }
        from.deserialize_map(Members)
    }
}

const _: () = assert!(ATTRIBUTES == 16);

struct Value(Attribute);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct One;
        impl Visitor<'_> for One {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of 1 to 128 bytes, a whole number of at most 64 bits, true or false")
            }

            fn visit_bool<E: Error>(self, yes: bool) -> Result<Value, E> {
                Ok(Value(Attribute::Flag(yes)))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
                Ok(Value(Attribute::Number(number)))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
                let signed = i64::try_from(number);
                signed
                    .map(|number| Value(Attribute::Number(number)))
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
                Label::new(text).map(|text| Value(Attribute::Text(text))).map_err(E::custom)
            }
        }
        from.deserialize_any(One)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitsBody {
    units: Vec<JsonObject<UnitBody>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitBody {
    unit_id: Text,
    #[serde(default, deserialize_with = "given")]
    section: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    row: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    number: Option<Text>,
    #[serde(default, deserialize_with = "given")]
    position: Option<Position>,
    #[serde(default, deserialize_with = "given")]
    attributes: Option<AttributesField>,
}

/// `POST /v1/inventory/{sku}/units?location=`
pub fn add_units(sku: &str, query: Option<&str>, body: &[u8]) -> Result<Command, Invalid> {
    let (item, body) = both(item(sku, query), body::read::<UnitsBody>(body))?;
    let count = body.units.len();
    if !(1..=UNITS_AT_ONCE).contains(&count) {
        let (most, found) = (problem::grouped(UNITS_AT_ONCE as u64), problem::grouped(count as u64));
        return Err(Invalid::new("/units", format!("must have 1 to {most} units, found {found}")));
    }
    let unit = |JsonObject(unit): JsonObject<UnitBody>| NewUnit {
        id: unit.unit_id.0,
        position: unit.position.map(|position| position.0),
        section: unit.section.map(|text| text.0),
        row: unit.row.map(|text| text.0),
        number: unit.number.map(|text| text.0),
        attributes: unit.attributes.map(|attributes| attributes.0).unwrap_or_default(),
    };
    Ok(Command::AddUnits(AddUnits { item, units: body.units.into_iter().map(unit).collect() }))
}

/// `DELETE /v1/inventory/{sku}/units/{unit_id}?location=`
pub fn retire_unit(sku: &str, unit: &str, query: Option<&str>) -> Result<Command, Invalid> {
    let (item, unit) = self::unit(sku, unit, query)?;
    Ok(Command::RetireUnit(RetireUnit { item, unit }))
}

/// `GET /v1/inventory/{sku}/units/{unit_id}?location=`, and the events under it.
pub fn unit(sku: &str, unit: &str, query: Option<&str>) -> Result<(ItemKey, Label), Invalid> {
    both(item(sku, query), path::label("/unit_id", unit))
}

/// `GET /v1/inventory/{sku}/units?location=&status=&section=&limit=&starting_after=`
pub fn units(sku: &str, query: Option<&str>) -> Result<UnitFilter, Invalid> {
    let mut location = None;
    let (mut status, mut section, mut after, mut limit) = (None, None, None, super::PAGE_DEFAULT);
    let names = ["location", "status", "section", "limit", "starting_after"];
    let parameters = path::parameters(query, &names, |at, text| {
        match at {
            0 => location = Some(super::lists::label(text)?),
            1 => status = Some(standing(text)?),
            2 => section = Some(super::lists::label(text)?),
            3 => limit = super::lists::limit(text)?,
            _ => after = Some(cursor::unit(text).ok_or_else(|| super::lists::no_cursor(text))?),
        }
        Ok(())
    });
    let (sku, ()) = both(path::label("/sku", sku), parameters)?;
    let item = super::key_at(location.as_ref(), &sku);
    Ok(UnitFilter { item, status, section, after, limit })
}

fn standing(text: &str) -> Result<UnitState, String> {
    match text {
        "available" => Ok(UnitState::Available),
        "held" => Ok(UnitState::Held),
        "sold" => Ok(UnitState::Sold),
        _ => Err(format!("must be available, held or sold, found \"{}\"", clip(text))),
    }
}

/// `GET /v1/inventory/{sku}/seat-map?location=&layout=`: the item, and whether the layout is requested.
pub fn seat_map(sku: &str, query: Option<&str>) -> Result<(stockhold_domain::ItemKey, bool), Invalid> {
    let (mut location, mut layout) = (None, true);
    let parameters = path::parameters(query, &["location", "layout"], |at, text| {
        match (at, text) {
            (0, _) => location = Some(super::lists::label(text)?),
            (_, "true") => layout = true,
            (_, "false") => layout = false,
            _ => return Err(format!("must be true or false, found \"{}\"", clip(text))),
        }
        Ok(())
    });
    let (sku, ()) = both(path::label("/sku", sku), parameters)?;
    Ok((super::key_at(location.as_ref(), &sku), layout))
}
