//! Compares limits with what their events lead to, and recounts what they count from the reservations.

use super::Verifier;
use crate::audit::AuditSession;
use crate::engine::{CountedHoldRow, DbError, limit_from, live_generation, queued_under_limits};
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{CounterKey, Hold, Label, LimitCounter, LimitSet, ReservationId, Status};

/// Limits that are read at a time: each may have some hundred kilobytes.
const LIMITS_AT_ONCE: usize = 100;
/// Counters that are read at a time.
const COUNTERS_AT_ONCE: usize = 2_000;

/// What limits count, by the reservations that are kept and by those that were archived. Uses memory for every subject of a limit.
#[derive(Debug, Default)]
pub(super) struct CountedUnits {
    counters: BTreeMap<CounterKey, LimitCounter>,
    /// Rows that the queues of counters should have.
    queued: u64,
}

impl CountedUnits {
    /// Counts a reservation.
    pub(super) fn add(&mut self, hold: &Hold, limits: &LimitSet) {
        for count in hold.lines.iter().flat_map(|line| &line.details().counted) {
            if limits.current(&count.key).is_none() {
                continue;
            }
            let units = u64::from(count.units);
            match hold.status {
                Status::Active => self.counters.entry(count.key.clone()).or_default().held += units,
                Status::Confirmed => self.counters.entry(count.key.clone()).or_default().sold += units,
                Status::Cancelled | Status::Expired => {}
            }
        }
    }
}

impl<S: AuditSession> Verifier<'_, S> {
    /// Every limit is as its events left it. If events were archived, a limit without any event is taken as it is.
    pub(super) async fn limits(&mut self) -> Result<(), DbError> {
        let mut there = BTreeSet::new();
        let mut after: Option<Label> = None;
        loop {
            let rows = self.session.limit_rows(after.as_ref(), LIMITS_AT_ONCE).await?;
            let more = rows.len() == LIMITS_AT_ONCE;
            after = rows.last().map(|row| row.id.clone());
            for row in rows {
                match limit_from(&row.body) {
                    Err(what) => self.find(format!("limit {:?}: {what}", row.id)),
                    Ok(limit) => {
                        let columns = (&row.id, row.version, row.generation);
                        if columns != (&limit.id, limit.version, live_generation(&limit)) {
                            self.find(format!("limit {:?}: its columns are not what it is", row.id));
                        }
                        match self.ledger.limits.get(&row.id) {
                            Some(expected) if *expected == limit => {}
                            None if self.ledger.partial => self.ledger.limits.put(limit),
                            _ => self.find(format!("limit {:?} is not as its events left it", row.id)),
                        }
                    }
                }
                there.insert(row.id);
            }
            if !more {
                break;
            }
        }
        let missing = self.ledger.limits.iter().filter(|limit| !there.contains(&limit.id));
        let missing: Vec<String> =
            missing.map(|limit| format!("limit {:?} is not there", limit.id)).collect();
        for what in missing {
            self.find(what);
        }
        Ok(())
    }

    /// Active reservations are in the queues of the counters that count them.
    pub(super) async fn counted_holds(&mut self, active: &[&Hold]) -> Result<(), DbError> {
        let meant: BTreeSet<CountedHoldRow<'_>> =
            active.iter().flat_map(|hold| queued_under_limits(Some(hold))).collect();
        if meant.is_empty() {
            return Ok(());
        }
        self.counted.queued += meant.len() as u64;
        let rows: Vec<CountedHoldRow<'_>> = meant.iter().copied().collect();
        let found = self.session.counted_holds_of(&rows).await?;
        let found: BTreeSet<CountedHoldRow<'_>> =
            found.iter().map(|(key, deadline)| CountedHoldRow { key, deadline: *deadline }).collect();
        let wrong: BTreeSet<ReservationId> = meant.difference(&found).map(|row| row.deadline.1).collect();
        for id in wrong {
            self.find(format!("reservation {id}: the queue of a limit's counter does not have it"));
        }
        Ok(())
    }

    /// Every counter of a current generation counts the units of the reservations, and is as its events left it.
    pub(super) async fn counters(&mut self) -> Result<(), DbError> {
        self.archived_counters().await?;
        let mut after: Option<CounterKey> = None;
        loop {
            let rows = self.session.counter_rows(after.as_ref(), COUNTERS_AT_ONCE).await?;
            let more = rows.len() == COUNTERS_AT_ONCE;
            after = rows.last().map(|(key, _)| key.clone());
            for (key, counter) in rows {
                // Counters of ended generations are deleted some time later.
                if self.ledger.limits.current(&key).is_none() {
                    continue;
                }
                let sum = self.counted.counters.remove(&key).unwrap_or_default();
                if sum != counter {
                    self.find(format!("{key:?} counts {counter:?}, and its reservations have {sum:?}"));
                }
                let came = self.ledger.counters.get(&key);
                let is_known = came != LimitCounter::default() || !self.ledger.partial;
                if is_known && came != counter {
                    self.find(format!("{key:?} is {counter:?}, and its events lead to {came:?}"));
                }
            }
            if !more {
                break;
            }
        }
        for (key, sum) in core::mem::take(&mut self.counted.counters) {
            self.find(format!("{key:?} is not there, and its reservations have {sum:?}"));
        }
        let (all, queued) = (self.session.counted_hold_count().await?, self.counted.queued);
        if all != queued {
            self.find(format!(
                "the queues of counters have {all} rows, and {queued} are of active reservations"
            ));
        }
        Ok(())
    }

    /// Adds the units that archived reservations have sold.
    async fn archived_counters(&mut self) -> Result<(), DbError> {
        let mut after: Option<CounterKey> = None;
        loop {
            let rows = self.session.archived_counter_rows(after.as_ref(), COUNTERS_AT_ONCE).await?;
            let more = rows.len() == COUNTERS_AT_ONCE;
            after = rows.last().map(|(key, _)| key.clone());
            for (key, sold) in rows {
                if self.ledger.limits.current(&key).is_some() {
                    self.counted.counters.entry(key).or_default().sold += sold;
                }
            }
            if !more {
                return Ok(());
            }
        }
    }
}
