//! The parsers of this crate's files, for `stockhold_store::mutate` and for `fuzz/`. Where a checksum stands before what is
//! parsed it is made to fit: what gets past it must do no harm either.

use crate::index;
use crate::index::filter::Filter;
use crate::index::postings::Mention;
use crate::index::runs;
use crate::log::batch;
use crate::log::sync_marker;
use crate::log::wal;
use stockhold_domain::KeyHash;
use stockhold_store::codec::{self, Reader};
use stockhold_store::mutate::Parser;

/// Bytes of an id before the data of a row.
const ID: usize = 16;

/// All of them.
pub const PARSERS: [Parser; 6] = [
    ("batch", batch::parse),
    ("mark", sync_marker::parse),
    ("write-ahead log", wal::parse),
    ("reservation row", |bytes| {
        let Some((id, data)) = bytes.split_first_chunk::<ID>() else { return };
        // Refused or read; nothing else can be asserted of any bytes.
        drop(index::decode_hold(*id, data, index::checksum::row_sum(id, data)));
    }),
    ("page of a run", |bytes| {
        for (_, framed) in runs::records(bytes) {
            let record = framed.get(2..).unwrap_or_default();
            drop(codec::key_record(&mut Reader::new(record)));
            drop(Mention::read(record));
        }
    }),
    ("filter", |bytes| {
        if let Some(filter) = Filter::from_bytes(bytes) {
            assert_eq!(filter.to_bytes(), bytes, "one filter has one form");
            filter.may_have(&KeyHash(u128::MAX).into());
        }
    }),
];
