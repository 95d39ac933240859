//! Idempotency keys in the index, in sorted runs with a filter each.

use crate::error::IndexError;
use crate::index::runs::{self, Run, RunKind};
use crate::index::throttle::WriteThrottle;
use rusqlite::{Connection, Transaction};
use stockhold_domain::{KeyHash, KeyRecord};
use stockhold_store::codec::{self, Reader};

/// The runs of used keys. A key can't be used again while a run has it. But a power cut may bring back a deleted run,
/// beside the run with a later use of the same key.
pub(crate) struct KeyRuns;

impl RunKind for KeyRuns {
    const NAME: &'static str = "key";
    /// A page has at most 7.5 KB, which a lookup reads and checks. Two of them fill a page of the database.
    const PER_PAGE: usize = 128;
    const FILTERED: bool = true;
}

/// Sorts the records, and writes them as a run with its filter.
pub(crate) fn write_run(
    db: &Connection,
    records: &mut [KeyRecord],
    throttle: WriteThrottle,
) -> rusqlite::Result<Run> {
    records.sort_unstable_by_key(|record| record.hash);
    let newest = records.iter().map(|record| record.at.micros()).max().unwrap_or(i64::MIN);
    runs::write::<KeyRuns, _>(
        db,
        records,
        newest,
        throttle,
        |record| record.hash.0,
        |record, data| {
            codec::put_key_record(data, record);
        },
    )
}

/// Finds the last use of a key.
pub(crate) fn find(read: &Transaction<'_>, hash: KeyHash) -> Result<Option<KeyRecord>, IndexError> {
    let mut last: Option<KeyRecord> = None;
    runs::lookup::<KeyRuns>(read, hash.0, |found, bytes| {
        if found == hash.0 {
            let record = codec::key_record(&mut Reader::new(bytes))?;
            if last.as_ref().is_none_or(|last| last.at < record.at) {
                last = Some(record);
            }
        }
        Ok(())
    })?;
    Ok(last)
}
