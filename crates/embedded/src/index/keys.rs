//! Idempotency keys in the index, in sorted runs with a filter each. See [`crate::index::runs`].

use crate::error::IndexError;
use crate::index::runs::{self, Run, RunKind};
use crate::index::throttle::WriteThrottle;
use rusqlite::{Connection, Transaction};
use stockhold_domain::{KeyHash, KeyRecord};
use stockhold_store::codec::{self, Reader};

/// Runs of used keys. While a run has a key it can't be used for anything else; but a power cut may bring back a run that was deleted
/// since, beside the one that has what the key was used for after that.
pub(crate) struct KeyRuns;

impl RunKind for KeyRuns {
    const NAME: &'static str = "key";
    /// At most 7.5 KB, which a look-up reads and checks. Two of them fill a page of the index.
    const PER_PAGE: usize = 128;
    const FILTERED: bool = true;
}

/// Writes a run of keys and its filter. `records` are sorted here.
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

/// Finds what a key was used for last.
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
