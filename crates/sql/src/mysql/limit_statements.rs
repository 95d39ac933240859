//! The statements about limits, their counters and the queues of these.

use super::script::{Script, counter_key, hex, id};
use super::statements::{ITEMS_PER_STATEMENT, RowLock, StatementKind, read};
use crate::engine::{CountedHoldRow, subject_column};
use core::fmt::Write;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{CounterKey, Label, Limit, Subject};

/// The version of the limits.
pub(super) const LIMITS_VERSION: &str = "SELECT limits_version FROM stockhold_pauses WHERE location = x''";

/// All limits. In one statement with their version, so that it is theirs.
pub(super) const LIMITS: &str = "SELECT p.limits_version,l.body FROM stockhold_pauses p \
    LEFT JOIN stockhold_limits l ON TRUE WHERE p.location = x''";

/// Counters, in the order of their keys.
pub(super) fn counters(script: &mut Script<StatementKind>, keys: &BTreeSet<CounterKey>, lock: RowLock) {
    const HEAD: &str = "SELECT limit_id,generation,subject,held,sold FROM stockhold_limit_counters \
        FORCE INDEX (PRIMARY) WHERE (limit_id,generation,subject) IN (";
    let kind = if lock == RowLock::Skip { StatementKind::FreeCounters } else { StatementKind::Counters };
    script.add_rows(&read(kind, HEAD, lock.tail()), keys, |text, key| {
        text.push('(');
        counter_key(text, key);
        text.push(')');
    });
}

/// The counters of a generation of a limit in the order of their subjects.
pub(super) fn counter_page(of: &Limit, after: Option<&Subject>, limit: usize) -> String {
    let mut text =
        "SELECT subject,held,sold FROM stockhold_limit_counters FORCE INDEX (PRIMARY) WHERE limit_id="
            .to_owned();
    hex(&mut text, of.id.as_str().as_bytes());
    let _ = write!(text, " AND generation={} AND subject>", of.generation);
    hex(&mut text, &after.map(subject_column).unwrap_or_default());
    let _ = write!(text, " ORDER BY subject LIMIT {limit}");
    text
}

/// Deletes some counters of the generations of a limit before one.
pub(super) fn forget_counters(of: &Label, generation: u64, limit: usize) -> String {
    let mut text = "DELETE FROM stockhold_limit_counters WHERE limit_id=".to_owned();
    hex(&mut text, of.as_str().as_bytes());
    let _ = write!(
        text,
        " AND generation<{generation} ORDER BY generation,subject LIMIT {limit};SELECT ROW_COUNT();\
         DELETE FROM stockhold_archived_counters WHERE limit_id="
    );
    hex(&mut text, of.as_str().as_bytes());
    let _ = write!(text, " AND generation<{generation}");
    text
}

/// The earliest deadlines of the reservations that counters count, each with the counter's number in the list.
pub(super) fn counted_due(script: &mut Script<StatementKind>, depths: &BTreeMap<CounterKey, usize>) {
    let numbered: Vec<_> = depths.iter().enumerate().collect();
    for some in numbered.chunks(ITEMS_PER_STATEMENT) {
        let text = script.add(StatementKind::CountedDue);
        for (nth, (number, (key, depth))) in some.iter().enumerate() {
            if nth > 0 {
                text.push_str(" UNION ALL ");
            }
            let _ = write!(
                text,
                "(SELECT {number},expires_at,id FROM stockhold_counted_holds FORCE INDEX (PRIMARY) \
                 WHERE (limit_id,generation,subject)=("
            );
            counter_key(text, key);
            let _ = write!(text, ") ORDER BY expires_at,id LIMIT {depth})");
        }
    }
}

/// The key of a row in the queue of a counter.
pub(super) fn counted_hold(
    text: &mut String,
    CountedHoldRow { key, deadline: (expires_at, of) }: &CountedHoldRow<'_>,
) {
    counter_key(text, key);
    let _ = write!(text, ",{},", expires_at.micros());
    id(text, *of);
}
