//! Encoding of units with ids: in events, in holds, and alone.

use super::read::{DecodeError, Reader};
use super::write::{end_fields, put_i64, put_label_field, put_text, put_u64, put_u128};
use stockhold_domain::{
    Attribute, Attributes, Label, LineUnit, LineUnits, Place, PooledUnit, ReservationId, Unit, UnitStatus,
    limits,
};

type Read<T> = Result<T, DecodeError>;

const RETURNED: u8 = 1;
const FULFILLED: u8 = 2;
/// The name of a pool follows.
const POOLED: u8 = 4;

/// The tag of a unit's pool.
const POOL: u8 = 1;

/// Appends the units of a line.
pub(super) fn put_line_units(out: &mut Vec<u8>, units: &LineUnits) {
    put_line_units_list(out, units.all());
}

/// Appends units of a line.
pub(super) fn put_line_units_list(out: &mut Vec<u8>, units: &[LineUnit]) {
    put_u64(out, units.len() as u64);
    for LineUnit { id, version, fulfilled, returned, pool } in units {
        put_text(out, id.as_str());
        put_u64(out, *version);
        let pooled = u8::from(pool.is_some()) * POOLED;
        out.push((u8::from(*returned) * RETURNED) | (u8::from(*fulfilled) * FULFILLED) | pooled);
        if let Some(pool) = pool {
            put_text(out, pool.as_str());
        }
    }
}

pub(super) fn line_units(reader: &mut Reader<'_>) -> Read<LineUnits> {
    line_units_list(reader).map(LineUnits::new)
}

pub(super) fn line_units_list(reader: &mut Reader<'_>) -> Read<Vec<LineUnit>> {
    let count = reader.count(limits::LINE_UNITS)?;
    let unit = |reader: &mut Reader<'_>| {
        let (id, version, flags) = (reader.label()?, reader.u64()?, reader.byte("flags of a unit")?);
        if flags > RETURNED | FULFILLED | POOLED {
            return Err(reader.bad("flags of a unit"));
        }
        let pool = if flags & POOLED == 0 { None } else { Some(reader.label()?) };
        Ok(LineUnit { id, version, fulfilled: flags & FULFILLED != 0, returned: flags & RETURNED != 0, pool })
    };
    (0..count).map(|_| unit(reader)).collect()
}

/// Appends units that an event puts into a pool or takes out of one.
pub(super) fn put_pooled(out: &mut Vec<u8>, units: &[PooledUnit]) {
    put_u64(out, units.len() as u64);
    for PooledUnit { id, version } in units {
        put_text(out, id.as_str());
        put_u64(out, *version);
    }
}

pub(super) fn pooled(reader: &mut Reader<'_>) -> Read<Vec<PooledUnit>> {
    let count = reader.count(limits::UNITS_AT_ONCE as u64)?;
    (0..count).map(|_| Ok(PooledUnit { id: reader.label()?, version: reader.u64()? })).collect()
}

/// Appends added units. Their status and version are those of every new unit and are left out, and they are in no pool.
pub(super) fn put_added(out: &mut Vec<u8>, units: &[Unit]) {
    put_u64(out, units.len() as u64);
    for unit in units {
        put_text(out, unit.id.as_str());
        put_place(out, &unit.place);
    }
}

pub(super) fn added(reader: &mut Reader<'_>) -> Read<Vec<Unit>> {
    let count = reader.count(limits::UNITS_AT_ONCE as u64)?;
    let unit = |reader: &mut Reader<'_>| {
        let (id, place) = (reader.label()?, place(reader)?);
        Ok(Unit { id, place, status: UnitStatus::Available, version: 1, pool: None })
    };
    (0..count).map(|_| unit(reader)).collect()
}

/// Appends a unit.
pub fn put_unit(out: &mut Vec<u8>, unit: &Unit) {
    put_text(out, unit.id.as_str());
    put_place(out, &unit.place);
    match unit.status {
        UnitStatus::Available => out.push(0),
        UnitStatus::Held(id) => {
            out.push(1);
            put_u128(out, id.as_u128());
        }
        UnitStatus::Sold(id) => {
            out.push(2);
            put_u128(out, id.as_u128());
        }
        UnitStatus::Fulfilled(id) => {
            out.push(3);
            put_u128(out, id.as_u128());
        }
    }
    put_u64(out, unit.version);
    put_label_field(out, POOL, unit.pool.as_ref());
    end_fields(out);
}

/// Reads a unit.
pub fn unit(reader: &mut Reader<'_>) -> Read<Unit> {
    let mut unit = Unit {
        id: reader.label()?,
        place: place(reader)?,
        status: match reader.byte("status of a unit")? {
            0 => UnitStatus::Available,
            1 => UnitStatus::Held(ReservationId::from_u128(reader.u128()?)),
            2 => UnitStatus::Sold(ReservationId::from_u128(reader.u128()?)),
            3 => UnitStatus::Fulfilled(ReservationId::from_u128(reader.u128()?)),
            _ => return Err(reader.bad("status of a unit")),
        },
        version: reader.u64()?,
        pool: None,
    };
    reader.fields(|reader, tag| {
        unit.pool = Some(reader.label()?);
        Ok(tag == POOL)
    })?;
    Ok(unit)
}

fn put_place(out: &mut Vec<u8>, place: &Place) {
    put_u64(out, place.position);
    put_attributes(out, &place.attributes);
    put_label_field(out, 1, place.section.as_ref());
    put_label_field(out, 2, place.row.as_ref());
    put_label_field(out, 3, place.number.as_ref());
    end_fields(out);
}

fn place(reader: &mut Reader<'_>) -> Read<Place> {
    let mut place = Place { position: reader.u64()?, attributes: attributes(reader)?, ..Place::default() };
    reader.fields(|reader, tag| {
        match tag {
            1 => place.section = Some(reader.label()?),
            2 => place.row = Some(reader.label()?),
            3 => place.number = Some(reader.label()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(place)
}

/// Appends the attributes of a unit.
pub fn put_attributes(out: &mut Vec<u8>, attributes: &Attributes) {
    put_u64(out, attributes.all().len() as u64);
    for (name, value) in attributes.all() {
        put_text(out, name.as_str());
        match value {
            Attribute::Flag(yes) => out.push(u8::from(*yes)),
            Attribute::Number(number) => {
                out.push(2);
                put_i64(out, *number);
            }
            Attribute::Text(text) => {
                out.push(3);
                put_text(out, text.as_str());
            }
        }
    }
}

/// Reads the attributes of a unit.
pub fn attributes(reader: &mut Reader<'_>) -> Read<Attributes> {
    let count = reader.count(limits::ATTRIBUTES as u64)?;
    let mut all: Vec<(Label, Attribute)> = Vec::with_capacity(count);
    for _ in 0..count {
        let name = reader.label()?;
        // Attributes are written in order of their names, so that a record has one encoding.
        if all.last().is_some_and(|(before, _)| *before >= name) {
            return Err(reader.bad("attributes in their order"));
        }
        let value = match reader.byte("attribute")? {
            0 => Attribute::Flag(false),
            1 => Attribute::Flag(true),
            2 => Attribute::Number(reader.i64()?),
            3 => Attribute::Text(reader.label()?),
            _ => return Err(reader.bad("attribute")),
        };
        all.push((name, value));
    }
    Ok(Attributes::new(all))
}
