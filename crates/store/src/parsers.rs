//! The parsers of this crate, for [`crate::mutate`] and for `fuzz/`. What is read is written again as the same bytes.

use crate::codec::{self, DecodeError, Reader};
use crate::mutate::Parser;

/// Reads one record, and holds that it is written as it was read.
fn again<T>(bytes: &[u8], read: fn(&mut Reader<'_>) -> Result<T, DecodeError>, write: fn(&mut Vec<u8>, &T)) {
    let mut reader = Reader::new(bytes);
    let Ok(record) = read(&mut reader) else { return };
    if reader.finish().is_err() {
        return;
    }
    let mut written = Vec::new();
    write(&mut written, &record);
    assert_eq!(written, bytes, "one record has one form");
}

/// A hold, and that it ends where it does too when it is passed by.
fn hold(bytes: &[u8]) {
    again(bytes, codec::hold, codec::put_hold);
    let mut reader = Reader::new(bytes);
    if codec::hold(&mut reader).is_ok() {
        let mut passing = Reader::new(bytes);
        assert_eq!(codec::hold_if(&mut passing, |_| false), Ok(None));
        assert_eq!(passing.left(), reader.left(), "both end at one place");
    }
}

/// All of them.
pub const PARSERS: [Parser; 4] = [
    ("event", |bytes| again(bytes, codec::event, codec::put_event)),
    ("hold", hold),
    ("item", |bytes| again(bytes, codec::item, codec::put_item)),
    ("key record", |bytes| again(bytes, codec::key_record, codec::put_key_record)),
];
