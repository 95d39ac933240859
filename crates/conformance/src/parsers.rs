//! The parsers of this crate, for [`crate::mutate`] and for `fuzz/`. Each asserts that a record that was read is written as
//! the same bytes.

use crate::mutate::Parser;
use stockhold_store::codec::{self, DecodeError, Reader};

/// Reads one record, and asserts that it is written as the same bytes.
fn round_trip<T>(
    bytes: &[u8],
    read: fn(&mut Reader<'_>) -> Result<T, DecodeError>,
    write: fn(&mut Vec<u8>, &T),
) {
    let mut reader = Reader::new(bytes);
    let Ok(record) = read(&mut reader) else { return };
    if reader.finish().is_err() {
        return;
    }
    let mut written = Vec::new();
    write(&mut written, &record);
    assert_eq!(written, bytes, "one record has one form");
}

/// Reads a hold, and asserts that skipping it ends at the same byte.
fn hold(bytes: &[u8]) {
    round_trip(bytes, codec::hold, codec::put_hold);
    let mut reader = Reader::new(bytes);
    if codec::hold(&mut reader).is_ok() {
        let mut skipping = Reader::new(bytes);
        assert_eq!(codec::hold_if(&mut skipping, |_| false), Ok(None));
        assert_eq!(skipping.left(), reader.left(), "reading and skipping end at the same byte");
    }
}

/// All parsers of this crate.
pub const PARSERS: [Parser; 5] = [
    ("event", |bytes| round_trip(bytes, codec::event, codec::put_event)),
    ("hold", hold),
    ("item", |bytes| round_trip(bytes, codec::item, codec::put_item)),
    ("key record", |bytes| round_trip(bytes, codec::key_record, codec::put_key_record)),
    ("record", |bytes| round_trip(bytes, codec::record, codec::put_record)),
];
