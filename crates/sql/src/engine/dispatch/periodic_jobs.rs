//! What is done behind the requests, each by its own clock: numbering events, forgetting old keys.

use crate::engine::db_error::DbError;
use crate::engine::dialect::Session;
use crate::engine::sessions::within_deadline;
use core::time::Duration;
use stockhold_domain::Instant;
use tokio::time::Instant as Moment;

/// How soon events are numbered that this instance has committed.
const NUMBERED_WITHIN: Duration = Duration::from_millis(200);
/// How often it is looked for events that other instances have committed and not numbered.
const NUMBERED_ANYWAY: Duration = Duration::from_secs(1);
/// How often old keys are looked for, and active reservations counted.
const KEYS_EVERY: Duration = Duration::from_mins(1);
/// Most keys that are forgotten at once: a statement of some milliseconds.
const KEYS_AT_ONCE: usize = 2_000;
/// How long what fell short is expected to fall short again.
const SHORT_FOR: Duration = Duration::from_secs(10);

/// What is due to be done, and when the next is.
pub(super) struct PeriodicJobs {
    pub(super) sweep: PeriodicJob,
    pub(super) number: PeriodicJob,
    pub(super) keys: PeriodicJob,
    pub(super) short: PeriodicJob,
}

/// Something done again and again, once at a time.
pub(super) struct PeriodicJob {
    every: Option<Duration>,
    next: Moment,
    pub(super) at_work: bool,
}

impl PeriodicJob {
    fn new(every: Option<Duration>) -> Self {
        Self { every, next: Moment::now(), at_work: false }
    }

    /// Whether it is to be begun now.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.every.is_some() && !self.at_work && self.next <= now
    }

    /// When it is to be begun.
    pub(super) fn when(&self) -> Option<Moment> {
        (self.every.is_some() && !self.at_work).then_some(self.next)
    }

    /// It is done; the next comes after its pause, or at once if there is more to do.
    pub(super) fn done(&mut self, more: bool) {
        let now = Moment::now();
        self.at_work = false;
        self.next = if more { now } else { now + self.every.unwrap_or_default() };
    }

    /// Brings it forward.
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
        }
    }

    /// There are new events.
    pub(super) fn number_soon(&mut self) {
        self.number.within(NUMBERED_WITHIN);
    }

    /// When the next is to be begun. What is due and waits for a connection is begun when one comes back.
    pub(super) fn next(&self, now: Moment) -> Option<Moment> {
        let jobs = [&self.sweep, &self.number, &self.keys, &self.short];
        jobs.into_iter().filter_map(PeriodicJob::when).filter(|when| *when > now).min()
    }
}

/// Forgets old keys: those that no instance over the database promises to know, whatever its own settings are. Whether there
/// may be more; if not, counts active reservations for whoever watches.
pub(super) async fn forget_keys<S: Session>(
    session: &mut S,
    retention: Duration,
    deadline: Duration,
) -> Result<bool, DbError> {
    within_deadline(deadline, async {
        // By the store's own clock, which is what the keys' instants were read from.
        let (now, _) = session.overdue(1).await?;
        let retention = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
        let retention = session.keep_keys(retention).await?;
        let before = Instant::from_micros(now.micros().saturating_sub(retention));
        let more = session.forget_keys(before, KEYS_AT_ONCE).await? == KEYS_AT_ONCE;
        if !more {
            crate::engine::meters::active_holds(session.active_holds().await?);
        }
        Ok(more)
    })
    .await
}
