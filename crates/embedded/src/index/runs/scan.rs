//! Reads every record of a run, for a recount. A lookup reads one page of a run and would not notice damage elsewhere.

use super::{LENGTH_BYTES, Run, RunKind, page, page_id, page_of, records};
use crate::error::IndexError;
use rusqlite::Connection;
use stockhold_domain::KeyHash;

/// Calls back for every record of a run in the order of the hashes. Checks the checksum of each page, and that each
/// record fits its page, the order, the filter and the number of records of the run.
pub(crate) fn for_each_record<K: RunKind>(
    db: &Connection,
    run: &Run,
    mut each: impl FnMut(&[u8]) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let odd = |what: &str| IndexError::Damaged(format!("{} run {}: {what}", K::NAME, run.number));
    let (mut before, mut found) = (0, 0);
    for number in 0..1_u128 << run.bits {
        let data = page::<K>(db, page_id(run.number, number))?;
        let mut bytes = 0;
        for (hash, framed) in records(&data) {
            if page_of(hash, run.bits) != number || hash < before {
                return Err(odd("a record stands where it is not looked for"));
            }
            if K::FILTERED && !run.filter.may_contain(&KeyHash(hash).into()) {
                return Err(odd("its filter rules out a record that it has"));
            }
            (before, found, bytes) = (hash, found + 1, bytes + framed.len());
            each(framed.get(LENGTH_BYTES..).unwrap_or_default())?;
        }
        if bytes != data.len() {
            return Err(odd("a page does not end with a record"));
        }
    }
    // Postings are joined when runs are merged, so a run may have fewer records than were written.
    if found > run.records || K::FILTERED && found != run.records {
        return Err(odd(&format!("it has {found} records where {} were written", run.records)));
    }
    Ok(())
}
