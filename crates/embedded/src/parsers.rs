//! The parsers of the files of this crate, for `stockhold_conformance::mutate` and for `fuzz/`. Checksums before the parsed
//! bytes are made correct, because bytes with a correct checksum must do no harm either.

use crate::index;
use crate::index::filter::BloomFilter;
use crate::index::postings::Posting;
use crate::index::runs;
use crate::log::batch;
use crate::log::sync_marker;
use crate::log::wal;
use stockhold_domain::KeyHash;
use stockhold_store::codec::{self, Reader};

/// The bytes of an id before the data of a row.
const ID: usize = 16;

/// A parser and its name.
type Parser = (&'static str, fn(&[u8]));

/// All parsers.
pub const PARSERS: [Parser; 6] = [
    ("batch", batch::parse),
    ("mark", sync_marker::parse),
    ("write-ahead log", wal::parse),
    ("reservation row", |bytes| {
        let Some((id, data)) = bytes.split_first_chunk::<ID>() else { return };
        // The result is not checked, because any bytes may be refused or parsed.
        drop(index::closed::decode_hold(*id, data, index::checksum::row_sum(id, data)));
    }),
    ("page of a run", |bytes| {
        for (_, framed) in runs::records(bytes) {
            let record = framed.get(2..).unwrap_or_default();
            drop(codec::key_record(&mut Reader::new(record)));
            drop(Posting::read(record));
        }
    }),
    ("filter", |bytes| {
        if let Some(filter) = BloomFilter::from_bytes(bytes) {
            assert_eq!(filter.to_bytes(), bytes, "one filter has one form");
            filter.may_contain(&KeyHash(u128::MAX).into());
        }
    }),
];
