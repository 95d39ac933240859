//! Units with ids: in events, in holds, and each by itself.

use super::read::{DecodeError, Reader};
use super::write::{put_i64, put_label, put_text, put_u64, put_u128};
use stockhold_domain::{
    Attribute, Attributes, Event, Label, Line, LineUnit, LineUnits, Mode, Place, ReservationId, StockChange,
    Transition, Unit, UnitStatus, limits,
};

type Read<T> = Result<T, DecodeError>;

/// Whether an event says anything of units with ids: those who know only counted stock can't read it.
pub fn has_units(event: &Event) -> bool {
    match &event.transition {
        Transition::Hold { hold, .. } => hold.lines.iter().any(|line| line.units.is_some()),
        Transition::Stock { change, item } => {
            item.mode == Mode::Units
                || matches!(change, StockChange::UnitsAdded(_) | StockChange::UnitRetired(_))
        }
        Transition::Sale { .. } => false,
    }
}

/// Appends the units of a line, none where they are counted.
pub(super) fn put_line_units(out: &mut Vec<u8>, line: &Line) {
    put_u64(out, line.units().len() as u64);
    for LineUnit { id, version, returned } in line.units() {
        put_text(out, id.as_str());
        put_u64(out, *version);
        out.push(u8::from(*returned));
    }
}

pub(super) fn line_units(reader: &mut Reader<'_>) -> Read<Option<LineUnits>> {
    let count = reader.count(limits::LINE_UNITS)?;
    let units = (0..count)
        .map(|_| Ok(LineUnit { id: reader.label()?, version: reader.u64()?, returned: reader.flag()? }));
    let units = units.collect::<Read<Vec<_>>>()?;
    Ok((!units.is_empty()).then(|| LineUnits::new(units)))
}

/// Appends which units of each line came back.
pub(super) fn put_back(out: &mut Vec<u8>, lines: &[Box<[u32]>]) {
    put_u64(out, lines.len() as u64);
    for units in lines {
        put_u64(out, units.len() as u64);
        for unit in units {
            put_u64(out, u64::from(*unit));
        }
    }
}

pub(super) fn back(reader: &mut Reader<'_>) -> Read<Box<[Box<[u32]>]>> {
    let lines = reader.lines()?;
    let mut all = Vec::with_capacity(lines);
    for _ in 0..lines {
        let units = reader.count(limits::LINE_UNITS)?;
        all.push((0..units).map(|_| reader.u32()).collect::<Read<Box<[u32]>>>()?);
    }
    Ok(all.into())
}

/// Appends units that were added: where they stand and their version are what they are for every new one.
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
        Ok(Unit { id: reader.label()?, place: place(reader)?, status: UnitStatus::Available, version: 1 })
    };
    (0..count).map(|_| unit(reader)).collect()
}

/// Appends a unit as it stands.
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
    }
    put_u64(out, unit.version);
}

/// Reads a unit as it stands.
pub fn unit(reader: &mut Reader<'_>) -> Read<Unit> {
    Ok(Unit {
        id: reader.label()?,
        place: place(reader)?,
        status: match reader.byte("status of a unit")? {
            0 => UnitStatus::Available,
            1 => UnitStatus::Held(ReservationId::from_u128(reader.u128()?)),
            2 => UnitStatus::Sold(ReservationId::from_u128(reader.u128()?)),
            _ => return Err(reader.bad("status of a unit")),
        },
        version: reader.u64()?,
    })
}

fn put_place(out: &mut Vec<u8>, place: &Place) {
    put_u64(out, place.position);
    for label in [&place.section, &place.row, &place.number] {
        put_label(out, label.as_ref());
    }
    put_attributes(out, &place.attributes);
}

fn place(reader: &mut Reader<'_>) -> Read<Place> {
    Ok(Place {
        position: reader.u64()?,
        section: reader.option(Reader::label)?,
        row: reader.option(Reader::label)?,
        number: reader.option(Reader::label)?,
        attributes: attributes(reader)?,
    })
}

/// Appends what a unit is like.
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

/// Reads what a unit is like.
pub fn attributes(reader: &mut Reader<'_>) -> Read<Attributes> {
    let count = reader.count(limits::ATTRIBUTES as u64)?;
    let mut all: Vec<(Label, Attribute)> = Vec::with_capacity(count);
    for _ in 0..count {
        let name = reader.label()?;
        // They are written in their order, and one record has one form.
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
