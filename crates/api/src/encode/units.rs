//! Units with ids as JSON: in lines, in lists, and in the seat map, which has the status of each in two bits.

use super::json::{Object, array, put_number, put_text};
use stockhold_domain::{Attribute, Attributes, Item, Label, LineUnit, Place, Unit, UnitStatus};
use stockhold_store::SeatMap;

/// The units of a line, with their versions.
pub(super) fn of_line(out: &mut Vec<u8>, units: &[LineUnit]) {
    array(out, units, |out, unit| {
        let mut object = Object::open(out);
        object.text("unit_id", unit.id.as_str());
        object.number("version", unit.version);
        if unit.fulfilled {
            object.flag("fulfilled", true);
        }
        if unit.returned {
            object.flag("returned", true);
        }
        object.optional_text("pool", unit.pool.as_ref().map(Label::as_str));
        object.close();
    });
}

/// A unit. The reservation that has it is left out for readers that may not know.
pub fn unit(out: &mut Vec<u8>, unit: &Unit, shows_holder: bool) {
    let mut object = Object::open(out);
    object.text("unit_id", unit.id.as_str());
    object.word("status", status_name(unit.status));
    if matches!(unit.status, UnitStatus::Fulfilled(_)) {
        object.flag("fulfilled", true);
    }
    object.number("version", unit.version);
    place(&mut object, &unit.place);
    object.optional_text("pool", unit.pool.as_ref().map(Label::as_str));
    if let Some(id) = unit.status.holder().filter(|_| shows_holder) {
        object.uuid("reservation_id", id.as_u128());
    }
    object.close();
}

/// A unit's status as answers name it. A unit that left the shelf is still sold.
pub(crate) fn status_name(status: UnitStatus) -> &'static str {
    match status {
        UnitStatus::Available => "available",
        UnitStatus::Held(_) => "held",
        UnitStatus::Sold(_) | UnitStatus::Fulfilled(_) => "sold",
    }
}

/// Units that an event added.
pub(super) fn new(out: &mut Vec<u8>, units: &[Unit]) {
    array(out, units, |out, unit| {
        let mut object = Object::open(out);
        object.text("unit_id", unit.id.as_str());
        place(&mut object, &unit.place);
        object.close();
    });
}

fn place(object: &mut Object<'_>, place: &Place) {
    object.number("position", place.position);
    object.optional_text("section", place.section.as_ref().map(Label::as_str));
    object.optional_text("row", place.row.as_ref().map(Label::as_str));
    object.optional_text("number", place.number.as_ref().map(Label::as_str));
    if !place.attributes.all().is_empty() {
        attributes(object.value("attributes"), &place.attributes);
    }
}

fn attributes(out: &mut Vec<u8>, attributes: &Attributes) {
    out.push(b'{');
    for (n, (name, value)) in attributes.all().iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        put_text(out, name.as_str());
        out.push(b':');
        match value {
            Attribute::Flag(yes) => out.extend_from_slice(if *yes { b"true" } else { b"false" }),
            Attribute::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Attribute::Text(text) => put_text(out, text.as_str()),
        }
    }
    out.push(b'}');
}

/// The result of adding units.
pub fn added(out: &mut Vec<u8>, item: &Item, added: u32, unchanged: u32) {
    let mut object = Object::open(out);
    object.number("added", u64::from(added));
    object.number("unchanged", u64::from(unchanged));
    object.number("total_units", item.figures.total_units);
    object.number("version", item.version);
    object.close();
}

/// The `ETag` of a seat map. It changes with every unit that is added, changed or removed.
pub fn map_etag(map: &SeatMap) -> String {
    let layout = if map.layout.is_some() { "" } else { "s" };
    format!("\"{}-{}{layout}\"", map.item.version, map.states.moves)
}

/// A seat map. `states` is base64 of two bits for each unit in claim order: 0 available, 1 held, 2 sold, 3 available in a
/// pool only. A byte has
/// four units, the first in its lowest bits. `layout` lists the same units in the same order, in columns.
pub fn seat_map(out: &mut Vec<u8>, map: &SeatMap) {
    let mut object = Object::open(out);
    object.text("sku", map.item.key.sku());
    object.text("location", map.item.key.location());
    object.number("version", map.item.version);
    object.number("count", map.states.count as u64);
    let sold = map.item.figures.confirmed_sold;
    let held = map.item.figures.held;
    let set_aside = map.item.pools.set_aside();
    let taken = sold.saturating_add(held).saturating_add(set_aside);
    object.number("available", (map.states.count as u64).saturating_sub(taken));
    object.number("held", held);
    object.number("sold", sold);
    object.number("set_aside", set_aside);
    states(object.value("states"), map);
    if let Some(units) = &map.layout {
        layout(object.value("layout"), units);
    }
    object.close();
}

fn states(out: &mut Vec<u8>, map: &SeatMap) {
    const UNITS_A_BYTE: usize = 4;
    let has = |words: &[u64], at: usize| words.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0);
    let state = |at: usize| match (has(&map.states.available, at), has(&map.states.sold, at)) {
        _ if at >= map.states.count => 0,
        (true, _) => 0,
        (false, true) => 2_u8,
        (false, false) if has(&map.states.set_aside, at) => 3,
        (false, false) => 1,
    };
    let bytes = (0..map.states.count.div_ceil(UNITS_A_BYTE)).map(|byte| {
        let first = byte * UNITS_A_BYTE;
        (0..UNITS_A_BYTE).fold(0, |bits, n| bits | state(first + n) << (2 * n))
    });
    out.push(b'"');
    put_base64(out, bytes);
    out.push(b'"');
}

/// RFC 4648, with padding.
fn put_base64(out: &mut Vec<u8>, mut bytes: impl Iterator<Item = u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| DIGITS.get((bits & 63) as usize).copied().unwrap_or(b'=');
    while let Some(first) = bytes.next() {
        let (second, third) = (bytes.next(), bytes.next());
        let all =
            u32::from(first) << 16 | u32::from(second.unwrap_or(0)) << 8 | u32::from(third.unwrap_or(0));
        out.extend_from_slice(&[digit(all >> 18), digit(all >> 12)]);
        out.push(second.map_or(b'=', |_| digit(all >> 6)));
        out.push(third.map_or(b'=', |_| digit(all)));
    }
}

fn layout(out: &mut Vec<u8>, units: &[(Label, Place)]) {
    // The rows in the order of their first unit, and the row number of each unit.
    let mut rows: Vec<&Place> = Vec::new();
    let mut known = std::collections::HashMap::new();
    let mut of_units = Vec::with_capacity(units.len());
    for (_, place) in units {
        let row = *known.entry((&place.section, &place.row)).or_insert_with(|| {
            rows.push(place);
            rows.len() - 1
        });
        of_units.push(row);
    }
    let mut object = Object::open(out);
    array(object.value("rows"), rows, |out, place| {
        let mut object = Object::open(out);
        object.optional_text("section", place.section.as_ref().map(Label::as_str));
        object.optional_text("row", place.row.as_ref().map(Label::as_str));
        object.close();
    });
    array(object.value("unit_ids"), units, |out, (id, _)| put_text(out, id.as_str()));
    array(object.value("row_of"), of_units, |out, row| put_number(out, row as u64));
    array(object.value("positions"), units, |out, (_, place)| put_number(out, place.position));
    array(object.value("numbers"), units, |out, (_, place)| {
        put_text(out, place.number.as_ref().map_or("", Label::as_str));
    });
    let with = units.iter().enumerate().filter(|(_, (_, place))| !place.attributes.all().is_empty());
    array(object.value("attributes"), with, |out, (at, (_, place))| {
        let mut object = Object::open(out);
        object.number("unit", at as u64);
        attributes(object.value("attributes"), &place.attributes);
        object.close();
    });
    object.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_s_states_are_read_as_they_were_written() {
        use crate::wire::Stands;
        use stockhold_domain::{
            Instant, ItemKey, Mode, Pools, ReservationId, Settings, StockCounters, UnitIndex,
        };
        let label = |text: &str| Label::new(text).unwrap();
        let id = ReservationId::from_u128(1);
        let mut unit_index = UnitIndex::default();
        let status = |n: u64| match n % 7 {
            0 | 4 => UnitStatus::Held(id),
            2 | 3 => UnitStatus::Sold(id),
            _ => UnitStatus::Available,
        };
        let in_pool = |n: u64| n % 7 == 6;
        let unit = |n: u64| Unit {
            id: label(&n.to_string()),
            place: Place { position: n, ..Place::default() },
            status: status(n),
            version: 1,
            pool: in_pool(n).then(|| label("vip")),
        };
        unit_index.add((0..203).map(unit).collect());
        unit_index.retire(&label("1"));
        let figures = StockCounters { total_units: 202, ..StockCounters::none(Instant::default()) };
        let item = Item {
            key: ItemKey::new(&label("here"), &label("hall")),
            mode: Mode::Units,
            figures,
            settings: Settings::default().into(),
            pools: Pools::default(),
            version: 3,
            paused: false,
            created_at: Instant::default(),
        };
        let mut out = Vec::new();
        seat_map(&mut out, &SeatMap::of(&item, &unit_index, true));
        let read: crate::wire::SeatMap = serde_json::from_slice(&out).unwrap();
        let expected: Vec<_> = (0..203)
            .filter(|n| *n != 1)
            .map(|n| match status(n) {
                UnitStatus::Available if in_pool(n) => Stands::SetAside,
                UnitStatus::Available => Stands::Available,
                UnitStatus::Held(_) => Stands::Held,
                UnitStatus::Sold(_) | UnitStatus::Fulfilled(_) => Stands::Sold,
            })
            .collect();
        assert_eq!(read.stands(), expected);
        assert_eq!(read.layout.unwrap().unit_ids.len(), 202);
    }

    #[test]
    fn base64_is_as_the_standard_has_it() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ] {
            let mut out = Vec::new();
            put_base64(&mut out, bytes.bytes());
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
