//! The bytes that stand in `body` and `history` columns, the same in every dialect, and the buckets that rows without an
//! item of their own live in.

use super::dialect::Trouble;
use stockhold_domain::{BUCKETS, Event, Hold, KeyHash, KeyRecord, ReservationId};
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
