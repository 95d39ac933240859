//! Idempotency keys in the index, in sorted runs with a filter each. See [`crate::runs`].

use crate::index::{Damage, Pace};
use crate::runs::{self, Kind, Run};
use rusqlite::Connection;
use stockhold_domain::{KeyHash, KeyRecord};
use stockhold_store::codec::{self, Reader};

/// Runs of used keys. A key stands in one run only: while a run has it, it can't be used for anything else.
pub(crate) struct Keys;

impl Kind for Keys {
    const NAME: &'static str = "key";
    /// About 10 KB, which a look-up reads and checks.
    const PER_PAGE: usize = 128;
    const FILTERED: bool = true;
}

/// Writes a run of keys and its filter. `records` are sorted here.
pub(crate) fn write_run(db: &Connection, records: &mut [KeyRecord], pace: Pace) -> rusqlite::Result<Run> {
    records.sort_unstable_by_key(|record| record.hash);
    let newest = records.iter().map(|record| record.at.micros()).max().unwrap_or(i64::MIN);
    runs::write::<Keys, _>(
        db,
        records,
        newest,
        pace,
        |record| record.hash.0,
        |record, data| {
            codec::put_key_record(data, record);
        },
    )
}

/// Finds a key in whatever run has it.
pub(crate) fn find(db: &Connection, hash: KeyHash) -> Result<Option<KeyRecord>, Damage> {
    let mut record = None;
    runs::look_up::<Keys>(db, hash.0, |found, bytes| {
        if found == hash.0 {
            record = Some(codec::key_record(&mut Reader::new(bytes))?);
        }
        Ok(record.is_none())
    })?;
    Ok(record)
}
