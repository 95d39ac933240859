//! What one commit writes, and its bytes. The checksum of a batch covers the one before it, so that a row that is gone,
//! moved or put in twice is found as surely as one whose bytes have changed.

use stockhold_domain::bug;
use stockhold_domain::{Event, Instant, KeyRecord};
use stockhold_store::codec::{self, DecodeError, Reader};

/// Version of the bytes of a batch that is about counted stock alone: what every version of the program reads.
const FORMAT: u8 = 1;
/// Version of one that says anything of units with ids.

/// What one commit did.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Its number: dense from 1.
    pub(crate) number: u64,
    /// Position of its first event, or of the next one when it has none.
    pub(crate) position: u64,
    /// The newest instant that it was decided at.
    pub(crate) at: Instant,
    /// What happened.
    pub(crate) events: Vec<Event>,
    /// Which keys were used.
    pub(crate) keys: Vec<KeyRecord>,
}

impl Batch {
    /// The position after its last event.
    pub(crate) fn next_position(&self) -> u64 {
        self.position + self.events.len() as u64
    }
}

/// A batch as it stands in the log.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) number: u64,
    pub(crate) position: u64,
    pub(crate) events: u64,
    pub(crate) at: i64,
    pub(crate) data: Vec<u8>,
    pub(crate) sum: u32,
}

/// Writes a batch; `previous` is the checksum of the one before it (0 before the first).
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

/// Reads a batch whose checksum fits.
pub(crate) fn decode(row: &Row, previous: u32) -> Result<Batch, String> {
    let found = checksum(previous, [row.number, row.position, row.events], row.at, &row.data);
    if found != row.sum && !bug!("a-batch-s-checksum-is-not-checked") {
        return Err(format!("the checksum of batch {} does not fit", row.number));
    }
    read(row).map_err(|error| format!("batch {}: {error}", row.number))
}

/// See [`crate::parsers`]: a batch of any bytes, with a checksum that fits.
#[cfg(feature = "testing")]
pub(crate) fn parse(bytes: &[u8]) {
    let mut row = Row { number: 1, position: 1, events: 1, at: 0, data: bytes.to_vec(), sum: 0 };
    row.sum = checksum(0, [row.number, row.position, row.events], row.at, &row.data);
    let Ok(batch) = decode(&row, 0) else { return };
    let mut again = Vec::new();
    assert_eq!((encode(&batch, 0, &mut again), &*again), (row.sum, bytes), "one batch has one form");
}

fn read(row: &Row) -> Result<Batch, DecodeError> {
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
