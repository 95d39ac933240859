//! The periodic jobs and their schedules: sweeping, numbering events, deleting old idempotency keys.

use super::ended_counters::EndedCounters;
use crate::engine::db_error::DbError;
use crate::engine::dialect::Session;
use crate::engine::sessions::within_deadline;
use core::time::Duration;
use stockhold_domain::Instant;
use tokio::time::Instant as Moment;

/// How soon the events are numbered that this instance has committed.
const NUMBERED_WITHIN: Duration = Duration::from_millis(200);
/// How often events of other instances are numbered.
const NUMBERED_ANYWAY: Duration = Duration::from_secs(1);
/// How often old keys are deleted and active reservations are counted.
const KEYS_EVERY: Duration = Duration::from_mins(1);
/// Maximum number of keys that one statement deletes, which takes a few milliseconds.
const KEYS_AT_ONCE: usize = 2_000;
/// How long an item with too little stock is expected to have too little again.
const SHORT_FOR: Duration = Duration::from_secs(10);

/// All periodic jobs.
pub(super) struct PeriodicJobs {
    pub(super) sweep: PeriodicJob,
    pub(super) number: PeriodicJob,
    pub(super) keys: PeriodicJob,
    pub(super) short: PeriodicJob,
    pub(super) ended_counters: EndedCounters,
}

/// One periodic job. It never runs twice at the same time.
pub(super) struct PeriodicJob {
    every: Option<Duration>,
    next: Moment,
    pub(super) at_work: bool,
}

impl PeriodicJob {
    fn new(every: Option<Duration>) -> Self {
        Self { every, next: Moment::now(), at_work: false }
    }

    /// Whether to start it now.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.every.is_some() && !self.at_work && self.next <= now
    }

    /// When to start it next.
    pub(super) fn when(&self) -> Option<Moment> {
        (self.every.is_some() && !self.at_work).then_some(self.next)
    }

    /// A run has ended. The next one starts after the pause, or at once if there is `more` to do.
    pub(super) fn done(&mut self, more: bool) {
        let now = Moment::now();
        self.at_work = false;
        self.next = if more { now } else { now + self.every.unwrap_or_default() };
    }

    /// Schedules the next run within a pause.
    fn within(&mut self, pause: Duration) {
        self.next = self.next.min(Moment::now() + pause);
    }
}

impl PeriodicJobs {
    pub(super) fn new(sweep_every: Option<Duration>) -> Self {
        Self {
            sweep: PeriodicJob::new(sweep_every),
            number: PeriodicJob::new(Some(NUMBERED_ANYWAY)),
            keys: PeriodicJob::new(Some(KEYS_EVERY)),
            short: PeriodicJob::new(Some(SHORT_FOR)),
            ended_counters: EndedCounters::default(),
        }
    }

    /// Schedules the numbering of new events.
    pub(super) fn number_soon(&mut self) {
        self.number.within(NUMBERED_WITHIN);
    }

    /// When the next job starts. A job that is due and waits for a connection starts when one is returned.
    pub(super) fn next(&self, now: Moment) -> Option<Moment> {
        let jobs = [&self.sweep, &self.number, &self.keys, &self.short];
        jobs.into_iter().filter_map(PeriodicJob::when).filter(|when| *when > now).min()
    }
}

/// Deletes idempotency keys that are older than the longest retention of any instance, and counters of limits that are in use no more.
/// Returns whether there may be more. If not, updates the metric of active reservations.
pub(super) async fn forget_old<S: Session>(
    session: &mut S,
    counters: &EndedCounters,
    retention: Duration,
    deadline: Duration,
) -> Result<bool, DbError> {
    within_deadline(deadline, async {
        // By the store's own clock, which is what the keys' instants were read from.
        let (now, _) = session.overdue(None, 1).await?;
        let retention = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
        let retention = session.keep_keys(retention).await?;
        let before = Instant::from_micros(now.micros().saturating_sub(retention));
        let more_keys = session.forget_keys(before, KEYS_AT_ONCE).await? == KEYS_AT_ONCE;
        let more = counters.forget(session).await? || more_keys;
        if !more {
            crate::engine::meters::active_holds(session.active_holds().await?);
        }
        Ok(more)
    })
    .await
}
