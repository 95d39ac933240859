//! The encoding of `body` and `history` columns, the same in every dialect, and the buckets of rows that belong to no item.

use super::db_error::DbError;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    Attributes, BUCKETS, Event, Hold, Item, KeyHash, KeyRecord, Label, Limit, Pools, ReservationId, Settings,
    Subject,
};
use stockhold_store::codec::{self, DecodeError, Reader};
use stockhold_store::{EventRow, UNIT_HISTORY_LIMIT};

/// What compressed events begin with. Others begin with an id, which says the time: no such byte comes before the year 6429.
const COMPRESSED: u8 = 0xff;
/// Bytes of events that are worth compressing. PostgreSQL would do it as well, at five times the cost.
const COMPRESSED_FROM: usize = 1_024;
/// The bytes of most events, for room to begin with.
const EVENT_BYTES: usize = 256;
/// Bytes that no batch of events has: what claims more is damaged.
const EVENTS_BYTES: usize = 1 << 30;
/// The kinds of subjects, in their order.
const EVERYONE: u8 = 0;
const CUSTOMER: u8 = 1;
const OWNER: u8 = 2;
/// Bytes of one serial in a history.
const SERIAL_BYTES: usize = 8;
/// Bytes that the history of a unit has at most: the newest serials.
pub(crate) const UNIT_HISTORY_BYTES: usize = UNIT_HISTORY_LIMIT * SERIAL_BYTES;

/// A key is found by its digest alone, so its bucket comes from that.
pub(crate) fn key_bucket(hash: KeyHash) -> u16 {
    ReservationId::from_u128(hash.0).bucket()
}

/// A batch of events is found by its serial alone.
pub(crate) fn event_bucket(serial: u64) -> u16 {
    u16::try_from(serial % u64::from(BUCKETS)).unwrap_or(0)
}

/// A reservation.
pub(crate) fn hold_body(hold: &Hold) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::put_hold(&mut bytes, hold);
    bytes
}

/// The SKU of its first line, which lists find a reservation by.
pub(crate) fn first_sku(hold: &Hold) -> &str {
    hold.lines.first().map_or("", |line| line.item.sku())
}

/// The other SKUs that lists find a reservation by.
pub(crate) fn further_skus(hold: &Hold) -> BTreeSet<&str> {
    let first = first_sku(hold);
    hold.lines.iter().skip(1).map(|line| line.item.sku()).filter(|sku| *sku != first).collect()
}

/// An item.
pub(crate) fn item_body(item: &Item) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::put_item(&mut bytes, item);
    bytes
}

/// An item from its bytes.
pub(crate) fn item_from(body: &[u8]) -> Result<Item, DbError> {
    whole(body, codec::item)
}

/// The settings of an item.
pub(crate) fn settings_body(settings: &Settings) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::put_settings(&mut bytes, settings);
    bytes
}

/// The settings of an item from their bytes and from the column of the allowance, which the database checks.
pub(crate) fn settings_from(body: &[u8], oversell_allowance: u64) -> Result<Settings, DbError> {
    Ok(Settings { oversell_allowance, ..whole(body, codec::settings)? })
}

/// The pools of an item. `None` if it has none.
pub(crate) fn pools_body(pools: &Pools) -> Option<Vec<u8>> {
    if pools.all().is_empty() {
        return None;
    }
    let mut bytes = Vec::new();
    codec::put_pools(&mut bytes, pools);
    Some(bytes)
}

/// The pools of an item from their bytes.
pub(crate) fn pools_from(body: Option<&[u8]>) -> Result<Pools, DbError> {
    body.map_or_else(|| Ok(Pools::default()), |body| whole(body, codec::pools))
}

/// Units by pools. `None` if there are none.
pub(crate) fn pool_units_body(units: &BTreeMap<Label, u64>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for (pool, units) in units {
        codec::put_text(&mut bytes, pool.as_str());
        codec::put_u64(&mut bytes, *units);
    }
    (!bytes.is_empty()).then_some(bytes)
}

/// Units by pools from their bytes.
pub(crate) fn pool_units_from(body: Option<&[u8]>) -> Result<BTreeMap<Label, u64>, DbError> {
    let mut units = BTreeMap::new();
    let mut reader = Reader::new(body.unwrap_or_default());
    while reader.left() > 0 {
        let pool = Label::new(reader.text()?);
        let pool = pool.map_err(|error| DbError::InvariantViolated(format!("the name of a pool {error}")))?;
        units.insert(pool, reader.u64()?);
    }
    Ok(units)
}

/// What a unit is like.
pub(crate) fn attributes_body(attributes: &Attributes) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::put_attributes(&mut bytes, attributes);
    bytes
}

/// What a unit is like from its bytes.
pub(crate) fn attributes_from(body: &[u8]) -> Result<Attributes, DbError> {
    whole(body, codec::attributes)
}

/// A used key.
pub(crate) fn key_body(record: &KeyRecord) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::put_key_record(&mut bytes, record);
    bytes
}

/// A limit.
pub(crate) fn limit_body(limit: &Limit) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::put_limit(&mut bytes, limit);
    bytes
}

/// A limit from its bytes.
pub(crate) fn limit_from(body: &[u8]) -> Result<Limit, DbError> {
    whole(body, codec::limit)
}

/// The first generation of a limit whose counters are in use.
pub(crate) fn live_generation(limit: &Limit) -> u64 {
    // The next generation of a deleted limit begins with a later version.
    if limit.terms.is_some() { limit.generation } else { limit.version }
}

/// A subject as its column has it: its kind, then its name, so that the bytes have the order of subjects.
pub(crate) fn subject_column(subject: &Subject) -> Vec<u8> {
    let (kind, name) = match subject {
        Subject::Everyone => (EVERYONE, ""),
        Subject::Customer(name) => (CUSTOMER, name.as_str()),
        Subject::Owner(name) => (OWNER, name.as_str()),
    };
    let mut bytes = vec![kind];
    bytes.extend_from_slice(name.as_bytes());
    bytes
}

/// A subject from its column.
pub(crate) fn subject_from(column: &[u8]) -> Result<Subject, DbError> {
    let name = |name: &[u8]| core::str::from_utf8(name).ok().and_then(|name| Label::new(name).ok());
    let subject = match column {
        [EVERYONE] => Some(Subject::Everyone),
        [CUSTOMER, rest @ ..] => name(rest).map(Subject::Customer),
        [OWNER, rest @ ..] => name(rest).map(Subject::Owner),
        _ => None,
    };
    subject.ok_or_else(|| DbError::InvariantViolated("a counter's subject can't be read".to_owned()))
}

/// Events, one after the other.
pub(crate) fn events_body(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(events.len() * EVENT_BYTES);
    for event in events {
        codec::put_event(&mut bytes, event);
    }
    bytes
}

/// Events, compressed when they are many.
pub(crate) fn packed_events_body(events: &[Event]) -> Vec<u8> {
    let plain = events_body(events);
    if plain.len() < COMPRESSED_FROM {
        return plain;
    }
    let mut packed = lz4_flex::compress_prepend_size(&plain);
    packed.insert(0, COMPRESSED);
    packed
}

/// Events as they were before they were compressed, if they were.
fn plain_events(body: &[u8]) -> Result<Cow<'_, [u8]>, DbError> {
    let Some((&COMPRESSED, packed)) = body.split_first() else { return Ok(Cow::Borrowed(body)) };
    let broken =
        |what: &dyn core::fmt::Display| DbError::InvariantViolated(format!("events can't be read: {what}"));
    let (size, _) = lz4_flex::block::uncompressed_size(packed).map_err(|error| broken(&error))?;
    if size > EVENTS_BYTES {
        return Err(broken(&format_args!("they say that they are {size} bytes")));
    }
    lz4_flex::decompress_size_prepended(packed).map(Cow::Owned).map_err(|error| broken(&error))
}

/// A reservation from its bytes.
pub(crate) fn hold_from(body: &[u8]) -> Result<Hold, DbError> {
    whole(body, codec::hold)
}

/// A used key from its bytes.
pub(crate) fn key_from(body: &[u8]) -> Result<KeyRecord, DbError> {
    whole(body, codec::key_record)
}

fn whole<T>(body: &[u8], read: fn(&mut Reader<'_>) -> Result<T, DecodeError>) -> Result<T, DbError> {
    let mut reader = Reader::new(body);
    let value = read(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// The events of a batch, of which the last has this position.
pub(crate) fn events_from(body: &[u8], last_position: i64, count: i64) -> Result<Vec<EventRow>, DbError> {
    let plain = plain_events(body)?;
    let mut reader = Reader::new(&plain);
    let mut rows = Vec::new();
    for position in last_position.saturating_sub(count).saturating_add(1)..=last_position {
        let event = codec::event(&mut reader)?;
        let position = u64::try_from(position)
            .map_err(|_| DbError::InvariantViolated(format!("an event has position {position}")))?;
        rows.push(EventRow { position, event });
    }
    reader.finish()?;
    Ok(rows)
}

/// The history of a reservation or a unit: the serials of its batches of events, each 8 bytes, big-endian.
pub(crate) fn serials_from(history: &[u8]) -> Result<Vec<u64>, DbError> {
    let chunks = history.chunks_exact(SERIAL_BYTES);
    if !chunks.remainder().is_empty() {
        return Err(DbError::InvariantViolated(format!("a history has {} bytes", history.len())));
    }
    Ok(chunks.map(|chunk| chunk.iter().fold(0, |serial, byte| (serial << 8) | u64::from(*byte))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_conformance::Maker;
    use stockhold_domain::Command;
    use stockhold_domain::{Scope, Transition};

    fn events(count: usize) -> Vec<Event> {
        let mut maker = Maker::new(1, "");
        let event = |_| {
            let envelope = maker.wrap(Command::Sweep);
            Event {
                id: envelope.fresh.event,
                at: stockhold_domain::Instant::from_micros(7),
                origin: envelope.origin,
                previous: None,
                transition: Transition::Sale { scope: Scope::Everything, paused: true, reason: None },
            }
        };
        (0..count).map(event).collect()
    }

    fn read(body: &[u8], count: i64) -> Result<Vec<Event>, DbError> {
        Ok(events_from(body, count, count)?.into_iter().map(|row| row.event).collect())
    }

    #[test]
    fn events_are_read_in_whatever_form_they_stand() {
        let (few, many) = (events(1), events(100));
        assert_eq!(packed_events_body(&few), events_body(&few));
        let packed = packed_events_body(&many);
        assert_eq!(packed.first(), Some(&COMPRESSED));
        assert!(packed.len() < events_body(&many).len());
        for (body, count, events) in
            [(events_body(&few), 1, few), (packed, 100, many.clone()), (events_body(&many), 100, many)]
        {
            assert_eq!(read(&body, count).unwrap(), events);
        }
    }

    #[test]
    fn events_that_were_damaged_are_an_alarm_and_cost_no_memory() {
        let packed = packed_events_body(&events(100));
        let huge = [&[COMPRESSED][..], &u32::MAX.to_le_bytes()].concat();
        let cut = packed[..packed.len() / 2].to_vec();
        for body in [huge, cut, vec![COMPRESSED], Vec::new()] {
            assert!(matches!(read(&body, 100), Err(DbError::InvariantViolated(_))), "{body:?}");
        }
    }
}
