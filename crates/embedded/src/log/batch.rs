//! The content of one commit, and its bytes. The checksum of a batch covers the checksum of the batch before it. A row
//! that is missing, moved or duplicated is therefore detected like a row whose bytes have changed.

use stockhold_domain::{Event, Instant, KeyRecord};
use stockhold_store::codec::{self, DecodeError, Reader};

/// The version of the bytes of a batch. It is their first byte.
const FORMAT: u8 = 1;

/// The content of one commit.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The number of the batch. Numbers start at 1 and have no gaps.
    pub(crate) number: u64,
    /// The position of its first event, or of the next event if it has none.
    pub(crate) position: u64,
    /// The time of its newest decision.
    pub(crate) at: Instant,
    /// The events.
    pub(crate) events: Vec<Event>,
    /// The idempotency keys that were used.
    pub(crate) keys: Vec<KeyRecord>,
}

impl Batch {
    /// The position after its last event.
    pub(crate) fn next_position(&self) -> u64 {
        self.position + self.events.len() as u64
    }
}

/// A batch as a row of the log.
#[derive(Clone, Debug)]
pub(crate) struct BatchRow {
    pub(crate) number: u64,
    pub(crate) position: u64,
    pub(crate) events: u64,
    pub(crate) at: i64,
    pub(crate) data: Vec<u8>,
    pub(crate) sum: u32,
}

/// Encodes a batch and returns its checksum. `previous` is the checksum of the batch before it, and 0 for the first
/// batch.
pub(crate) fn encode(batch: &Batch, previous: u32, data: &mut Vec<u8>) -> u32 {
    data.clear();
    data.push(FORMAT);
    codec::put_u64(data, batch.events.len() as u64);
    for event in &batch.events {
        codec::put_event(data, event);
    }
    codec::put_u64(data, batch.keys.len() as u64);
    for key in &batch.keys {
        codec::put_key_record(data, key);
    }
    checksum(previous, [batch.number, batch.position, batch.events.len() as u64], batch.at.micros(), data)
}

fn checksum(previous: u32, numbers: [u64; 3], at: i64, data: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&previous.to_le_bytes());
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(&at.to_le_bytes());
    hasher.update(data);
    hasher.finalize()
}

/// Checks the checksum of a row and decodes its batch.
pub(crate) fn decode(row: &BatchRow, previous: u32) -> Result<Batch, String> {
    let found = checksum(previous, [row.number, row.position, row.events], row.at, &row.data);
    if found != row.sum {
        return Err(format!("the checksum of batch {} does not fit", row.number));
    }
    decode_body(row).map_err(|error| format!("batch {}: {error}", row.number))
}

/// A parser for tests: decodes a batch of any bytes with a correct checksum.
pub(crate) fn parse(bytes: &[u8]) {
    let mut row = BatchRow { number: 1, position: 1, events: 1, at: 0, data: bytes.to_vec(), sum: 0 };
    row.sum = checksum(0, [row.number, row.position, row.events], row.at, &row.data);
    let Ok(batch) = decode(&row, 0) else { return };
    let mut again = Vec::new();
    assert_eq!((encode(&batch, 0, &mut again), &*again), (row.sum, bytes), "one batch has one form");
}

fn decode_body(row: &BatchRow) -> Result<Batch, DecodeError> {
    let (format, body) = row.data.split_first().ok_or(DecodeError { what: "batch", left: 0 })?;
    if *format != FORMAT {
        return Err(DecodeError { what: "batch of a known format", left: body.len() });
    }
    let mut reader = Reader::new(body);
    let events = (0..reader.u64()?).map(|_| codec::event(&mut reader)).collect::<Result<Vec<_>, _>>()?;
    let keys = (0..reader.u64()?).map(|_| codec::key_record(&mut reader)).collect::<Result<Vec<_>, _>>()?;
    if events.len() as u64 != row.events {
        return Err(DecodeError { what: "number of events", left: 0 });
    }
    reader.finish()?;
    Ok(Batch { number: row.number, position: row.position, at: Instant::from_micros(row.at), events, keys })
}
