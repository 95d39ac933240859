//! Compares the table of records with what their events lead to.

use super::AuditSession;
use crate::engine::DbError;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{Record, RecordKey};

/// Records that are read at a time: each may have 64 KiB.
const RECORDS_AT_ONCE: usize = 100;

/// What a comparison found.
pub(super) struct RecordComparison {
    /// The records that are there, deleted ones included.
    pub(super) there: BTreeSet<RecordKey>,
    /// What differs. No finding shows a value.
    pub(super) findings: Vec<String>,
}

/// Compares all records with those that the events led to. If events were archived (`partial`), a record without any event is
/// taken as it is. Of those `without_values`, only an archive tells what they are, and it has no values.
pub(super) async fn compare<S: AuditSession>(
    session: &mut S,
    mut meant: BTreeMap<RecordKey, Record>,
    without_values: &BTreeSet<RecordKey>,
    partial: bool,
) -> Result<RecordComparison, DbError> {
    let (mut there, mut findings) = (BTreeSet::new(), Vec::new());
    let mut after = None;
    loop {
        let rows = session.record_rows(after.as_ref(), RECORDS_AT_ONCE).await?;
        let more = rows.len() == RECORDS_AT_ONCE;
        after = rows.last().map(|record| record.key.clone());
        for record in rows {
            let right = match meant.remove(&record.key) {
                Some(expected) if without_values.contains(&record.key) => {
                    (expected.version, expected.value.is_some()) == (record.version, record.value.is_some())
                }
                Some(expected) => expected == record,
                None => partial,
            };
            if !right {
                findings.push(format!("{:?} is not as its events left it", record.key));
            }
            there.insert(record.key);
        }
        if !more {
            break;
        }
    }
    findings.extend(meant.keys().map(|key| format!("{key:?} is not there")));
    Ok(RecordComparison { there, findings })
}
