//! The bytes that stand in `body` and `history` columns, the same in every dialect, and the buckets that rows without an
//! item of their own live in.

use super::dialect::Trouble;
use std::collections::BTreeSet;
use stockhold_domain::{Attributes, BUCKETS, Event, Hold, Item, KeyHash, KeyRecord, ReservationId};
use stockhold_store::EventRow;
use stockhold_store::codec::{self, DecodeError, Reader};

/// Bytes of one serial in a reservation's history.
const SERIAL_BYTES: usize = 8;

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
pub(crate) fn item_from(body: &[u8]) -> Result<Item, Trouble> {
    whole(body, codec::item)
}

/// What a unit is like.
pub(crate) fn attributes_body(attributes: &Attributes) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::put_attributes(&mut bytes, attributes);
    bytes
}

/// What a unit is like from its bytes.
pub(crate) fn attributes_from(body: &[u8]) -> Result<Attributes, Trouble> {
    whole(body, codec::attributes)
}

/// A used key.
pub(crate) fn key_body(record: &KeyRecord) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::put_key_record(&mut bytes, record);
    bytes
}

/// A batch of events, one after the other.
pub(crate) fn events_body(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for event in events {
        codec::put_event(&mut bytes, event);
    }
    bytes
}

/// A reservation from its bytes.
pub(crate) fn hold_from(body: &[u8]) -> Result<Hold, Trouble> {
    whole(body, codec::hold)
}

/// A used key from its bytes.
pub(crate) fn key_from(body: &[u8]) -> Result<KeyRecord, Trouble> {
    whole(body, codec::key_record)
}

fn whole<T>(body: &[u8], read: fn(&mut Reader<'_>) -> Result<T, DecodeError>) -> Result<T, Trouble> {
    let mut reader = Reader::new(body);
    let value = read(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// The events of a batch, of which the last has this position.
pub(crate) fn events_from(body: &[u8], last_position: i64, count: i64) -> Result<Vec<EventRow>, Trouble> {
    let mut reader = Reader::new(body);
    let mut rows = Vec::new();
    for position in last_position.saturating_sub(count).saturating_add(1)..=last_position {
        let event = codec::event(&mut reader)?;
        let position = u64::try_from(position)
            .map_err(|_| Trouble::Alarm(format!("an event has position {position}")))?;
        rows.push(EventRow { position, event });
    }
    reader.finish()?;
    Ok(rows)
}

/// A reservation's history: the serials of its batches of events, each 8 bytes, big-endian.
pub(crate) fn serials_from(history: &[u8]) -> Result<Vec<u64>, Trouble> {
    let chunks = history.chunks_exact(SERIAL_BYTES);
    if !chunks.remainder().is_empty() {
        return Err(Trouble::Alarm(format!("a history has {} bytes", history.len())));
    }
    Ok(chunks.map(|chunk| chunk.iter().fold(0, |serial, byte| (serial << 8) | u64::from(*byte))).collect())
}
