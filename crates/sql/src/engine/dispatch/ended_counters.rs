//! Deletes the counters of ended generations of limits, some at a time. Nothing reads them any more.

use crate::engine::db_error::DbError;
use crate::engine::dialect::{LockSet, Session};
use crate::engine::encoding::live_generation;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use stockhold_domain::Label;

/// Maximum number of counters that one statement deletes, which takes a few milliseconds.
const COUNTERS_AT_ONCE: usize = 2_000;
/// Maximum number of limits whose ended generations are looked for in one run.
const LIMITS_AT_ONCE: usize = 100;

/// The limits whose ended generations were deleted, each with the generation that is in use.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedCounters(Arc<Mutex<BTreeMap<Label, u64>>>);

impl EndedCounters {
    /// Deletes counters. Returns whether there may be more.
    pub(super) async fn forget<S: Session>(&self, session: &mut S) -> Result<bool, DbError> {
        let rows = session.read(&LockSet { limits: true, ..LockSet::default() }).await?;
        let limits = rows.limits.unwrap_or_default();
        let with_ended = limits.iter().map(|limit| (&limit.id, live_generation(limit)));
        let with_ended =
            with_ended.filter(|(id, generation)| *generation > 1 && !self.is_done(id, *generation));
        for (number, (id, generation)) in with_ended.enumerate() {
            if number == LIMITS_AT_ONCE
                || session.forget_counters(id, generation, COUNTERS_AT_ONCE).await? == COUNTERS_AT_ONCE
            {
                return Ok(true);
            }
            self.done(id, generation);
        }
        Ok(false)
    }

    fn is_done(&self, id: &Label, generation: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id) == Some(&generation)
    }

    fn done(&self, id: &Label, generation: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), generation);
    }
}
