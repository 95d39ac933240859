//! Delivers to one endpoint.
//!
//! What must never happen: an event that is neither behind the position, nor on its way, nor among the exceptions. So an event is
//! passed by the position only in the write that has its failure, and a failed delivery leaves the exceptions only after it succeeded.

use super::SharedClient;
use super::endpoint::{Endpoint, attempt};
use super::http::AttemptResult;
use super::schedule::{PROBE_INTERVAL, pause_after};
use crate::feed::{BATCH, Feed, FeedRead};
use crate::lease::{Lease, LeaseState, RENEW_INTERVAL, acquire};
use crate::records::RelayRecords;
use bytes::Bytes;
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use stockhold_api::encode;
use stockhold_api::webhook_record::{
    FailedDelivery, Failing, ReplayProgress, WebhookProgress, WebhookRecord, WebhookStatus,
};
use stockhold_domain::{Instant, RecordChange};
use stockhold_store::{EventRow, Failure};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Deliveries to one endpoint that are on their way at once.
const AT_ONCE: usize = 32;
/// How often the progress is written if it has changed, and looked at otherwise.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for new events, before other work is looked at.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// How long the end of the task waits for deliveries that are on their way.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// Events that the filter leaves out after which the position is written although nothing was delivered.
const PASSED_EVENTS: u64 = 10_000;
/// The status that says that an endpoint is gone for good.
const GONE: u16 = 410;

/// The task of an endpoint.
pub(crate) struct Deliverer {
    pub(crate) id: String,
    /// `None` ends the task.
    pub(crate) endpoint: watch::Receiver<Option<Arc<Endpoint>>>,
    pub(crate) source: Arc<str>,
    pub(crate) instance: Arc<str>,
    pub(crate) is_shared: bool,
    pub(crate) feed: Feed,
    pub(crate) records: Arc<RelayRecords>,
    pub(crate) client: SharedClient,
}

/// Why the work with a lease ended.
enum WorkEnd {
    /// Somebody else has changed the progress: it goes on from there.
    Changed,
    /// Another instance delivers.
    Lost,
    /// The endpoint was disabled or deleted, or the relay stops.
    Ended,
    /// The store does not answer.
    Store(Failure),
}

impl From<Failure> for WorkEnd {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}

/// What a delivery is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// An event after the position.
    New,
    /// An event of the exceptions.
    Retry,
    /// An event that is sent again.
    Replay,
}

/// A delivery that has ended.
struct Attempted {
    purpose: Purpose,
    event_id: String,
    position: u64,
    result: AttemptResult,
}

/// What is known beside the progress that is written.
struct Work {
    endpoint: Arc<Endpoint>,
    /// Read and not yet on their way.
    waiting: VecDeque<EventRow>,
    /// The newest event that was read.
    scanned: u64,
    /// Positions of new events that are on their way.
    new_on_way: BTreeSet<u64>,
    /// Events of the exceptions that are on their way.
    retries_on_way: HashSet<String>,
    /// The same for events that are sent again.
    replay_waiting: VecDeque<EventRow>,
    replay_scanned: u64,
    replay_on_way: BTreeSet<u64>,
    on_way: JoinSet<Attempted>,
    /// When this work began, in microseconds since 1970.
    serving_since: i64,
    /// Whether the progress has changed since it was written.
    has_changed: bool,
    checked_at: tokio::time::Instant,
    /// When the rate limit allows the next delivery.
    next_allowed: tokio::time::Instant,
}

impl Deliverer {
    /// Delivers whenever it can have the lease, until the endpoint ends.
    pub(crate) async fn run(mut self) {
        let (records, id, instance) =
            (Arc::clone(&self.records), self.id.clone(), Arc::clone(&self.instance));
        let mut standby = None;
        loop {
            let Some(endpoint) = self.current() else { return };
            let fresh = || WebhookProgress::of(&endpoint.record);
            let prepare = |progress: &mut WebhookProgress| progress.follow(&endpoint.record);
            let names = (id.as_str(), &*instance);
            let taken =
                acquire(&records, names, self.is_shared, &mut standby, async || Ok(fresh()), prepare).await;
            match taken {
                Ok(Some(mut lease)) => loop {
                    match self.work(&mut lease).await {
                        WorkEnd::Changed => {}
                        WorkEnd::Lost => break,
                        WorkEnd::Ended => return lease.leave().await,
                        WorkEnd::Store(error) => {
                            tracing::warn!(webhook = id, %error, "a webhook waits for the store");
                            break;
                        }
                    }
                },
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(webhook = id, %error, "the progress of a webhook can't be read or written");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RECORD_INTERVAL) => {}
                changed = self.endpoint.changed() => if changed.is_err() { return },
            }
        }
    }

    fn current(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.borrow().clone()
    }

    /// Delivers from the progress of the lease on.
    async fn work(&mut self, lease: &mut Lease<'_, WebhookProgress>) -> WorkEnd {
        let Some(endpoint) = self.current() else { return WorkEnd::Ended };
        let now = tokio::time::Instant::now();
        let mut work = Work {
            endpoint,
            waiting: VecDeque::new(),
            scanned: lease.record.position,
            new_on_way: BTreeSet::new(),
            retries_on_way: HashSet::new(),
            replay_waiting: VecDeque::new(),
            replay_scanned: lease.record.replay.map_or(0, |replay| replay.position),
            replay_on_way: BTreeSet::new(),
            on_way: JoinSet::new(),
            serving_since: self.records.clocks.wall.now().micros(),
            has_changed: false,
            checked_at: now,
            next_allowed: now,
        };
        loop {
            if let Err(end) = self.step(lease, &mut work).await {
                if matches!(end, WorkEnd::Ended) {
                    // What is on its way is waited for, so that less is sent twice.
                    let until = tokio::time::Instant::now() + LAST_WAIT;
                    while let Ok(Some(Ok(attempted))) =
                        tokio::time::timeout_at(until, work.on_way.join_next()).await
                    {
                        let _ = self.settle(lease, &mut work, attempted).await;
                    }
                }
                return end;
            }
        }
    }

    /// Sends what can be sent, and waits for what comes first.
    async fn step(&mut self, lease: &mut Lease<'_, WebhookProgress>, work: &mut Work) -> Result<(), WorkEnd> {
        match self.current() {
            None => return Err(WorkEnd::Ended),
            Some(endpoint) if endpoint.record.enabled_after != work.endpoint.record.enabled_after => {
                // It was disabled and enabled again within a second.
                return Err(WorkEnd::Lost);
            }
            Some(endpoint) => work.endpoint = endpoint,
        }
        self.send_more(lease, work).await?;
        let pause = work.pause(&lease.record, self.records.clocks.wall.now());
        let has_room = work.on_way.len() < AT_ONCE && !is_full(&lease.record);
        let waits_for_events = has_room && work.waiting.is_empty();
        tokio::select! {
            Some(done) = work.on_way.join_next() => {
                match done {
                    Ok(attempted) => self.settle(lease, work, attempted).await?,
                    // What was on its way is sent again from the progress.
                    Err(error) => {
                        tracing::error!(webhook = self.id, %error, "a delivery ended without a result");
                        return Err(WorkEnd::Changed);
                    }
                }
            }
            () = self.feed.wait_after(work.scanned, LONGEST_WAIT), if waits_for_events => {}
            () = tokio::time::sleep(pause) => {}
            _ = self.endpoint.changed() => {}
        }
        if work.checked_at.elapsed() >= RECORD_INTERVAL {
            self.keep_progress(lease, work).await?;
        }
        Ok(())
    }

    /// Puts deliveries on their way while there is room: exceptions that are due, events that are sent again, and new ones.
    async fn send_more(
        &self,
        lease: &mut Lease<'_, WebhookProgress>,
        work: &mut Work,
    ) -> Result<(), WorkEnd> {
        while work.on_way.len() < AT_ONCE && tokio::time::Instant::now() >= work.next_allowed {
            let now = self.records.clocks.wall.now();
            if let Some((event_id, position)) = work.due(&lease.record, now) {
                self.send_retry(lease, work, event_id, position).await?;
                continue;
            }
            if is_full(&lease.record) {
                break;
            }
            if lease.record.replay.is_some() && self.send_replayed(lease, work).await? {
                continue;
            }
            if !self.send_new(lease, work).await? {
                break;
            }
        }
        Ok(())
    }

    /// Sends an event of the exceptions again.
    async fn send_retry(
        &self,
        lease: &mut Lease<'_, WebhookProgress>,
        work: &mut Work,
        event_id: String,
        position: u64,
    ) -> Result<(), WorkEnd> {
        let found = match self.feed.after(position - 1, 1).await? {
            FeedRead::Events(rows) => rows.into_iter().find(|row| row.event.id.to_string() == event_id),
            FeedRead::Archived(_) => None,
        };
        match found {
            Some(row) => {
                work.retries_on_way.insert(event_id);
                self.send(work, Purpose::Retry, &row);
            }
            None => {
                let Some(at) = lease.record.pending.iter().position(|one| one.event_id == event_id) else {
                    return Ok(());
                };
                let mut gone = lease.record.pending.remove(at);
                gone.error = Some(FailedDelivery::error_text("the event was archived"));
                lease.record.give_up(gone);
                work.has_changed = true;
            }
        }
        Ok(())
    }

    /// Sends a new event. Returns false if none was read.
    async fn send_new(
        &self,
        lease: &mut Lease<'_, WebhookProgress>,
        work: &mut Work,
    ) -> Result<bool, WorkEnd> {
        if work.waiting.is_empty() {
            let Some((rows, last)) = self.read(&work.endpoint, work.scanned, u64::MAX).await? else {
                return Ok(false);
            };
            work.waiting.extend(rows);
            work.scanned = last;
            work.note_position(&mut lease.record);
        }
        let Some(row) = work.waiting.pop_front() else { return Ok(false) };
        work.new_on_way.insert(row.position);
        self.send(work, Purpose::New, &row);
        Ok(true)
    }

    /// Sends an event of the replay. Returns false if none was read.
    async fn send_replayed(
        &self,
        lease: &mut Lease<'_, WebhookProgress>,
        work: &mut Work,
    ) -> Result<bool, WorkEnd> {
        let Some(replay) = lease.record.replay else { return Ok(false) };
        if work.replay_waiting.is_empty() && work.replay_scanned < replay.through {
            match self.read(&work.endpoint, work.replay_scanned, replay.through).await? {
                Some((rows, last)) => {
                    work.replay_waiting.extend(rows);
                    work.replay_scanned = last.min(replay.through);
                }
                None => work.replay_scanned = replay.through,
            }
        }
        let Some(row) = work.replay_waiting.pop_front() else {
            work.note_replay(&mut lease.record);
            return Ok(false);
        };
        work.replay_on_way.insert(row.position);
        self.send(work, Purpose::Replay, &row);
        Ok(true)
    }

    /// The events after a position that the filter does not leave out, and the last position that was read. `None`: there are none.
    async fn read(
        &self,
        endpoint: &Endpoint,
        after: u64,
        through: u64,
    ) -> Result<Option<(Vec<EventRow>, u64)>, Failure> {
        match self.feed.after(after, BATCH).await? {
            FeedRead::Events(rows) => Ok(rows.last().map(|row| row.position).map(|last| {
                let wanted = |row: &EventRow| row.position <= through && endpoint.filter.has(&row.event);
                (rows.into_iter().filter(wanted).collect(), last)
            })),
            FeedRead::Archived(last) => {
                tracing::error!(
                    webhook = self.id,
                    from = after + 1,
                    through = last,
                    "these events were archived before the webhook got them: it goes on behind them"
                );
                Ok(Some((Vec::new(), last)))
            }
        }
    }

    fn send(&self, work: &mut Work, purpose: Purpose, row: &EventRow) {
        let mut body = Vec::with_capacity(1_024);
        encode::cloud_event(&mut body, row, &self.source);
        let (client, endpoint, position) = (self.client.clone(), Arc::clone(&work.endpoint), row.position);
        let (event_id, now) = (row.event.id.to_string(), self.records.clocks.wall.now());
        let id = self.id.clone();
        work.on_way.spawn_local(async move {
            let result = attempt(&client, (&id, &endpoint.record), &event_id, Bytes::from(body), now).await;
            Attempted { purpose, event_id, position, result }
        });
        work.next_allowed = tokio::time::Instant::now() + work.endpoint.interval();
    }

    /// Notes what a delivery came to.
    async fn settle(
        &self,
        lease: &mut Lease<'_, WebhookProgress>,
        work: &mut Work,
        attempted: Attempted,
    ) -> Result<(), WorkEnd> {
        let now = self.records.clocks.wall.now();
        match attempted.purpose {
            Purpose::New => {
                work.new_on_way.remove(&attempted.position);
            }
            Purpose::Retry => {
                work.retries_on_way.remove(&attempted.event_id);
            }
            Purpose::Replay => {
                work.replay_on_way.remove(&attempted.position);
            }
        }
        let is_gone = matches!(attempted.result, AttemptResult::Answered { status: GONE, .. });
        let has_succeeded = note_result(&mut lease.record, attempted, now, work.serving_since);
        work.has_changed = true;
        work.note_position(&mut lease.record);
        work.note_replay(&mut lease.record);
        let result = if has_succeeded { "succeeded" } else { "failed" };
        metrics::counter!("stockhold_webhook_attempts_total", "webhook" => self.id.clone(), "result" => result)
            .increment(1);
        if is_gone {
            self.disable(lease, work, "the endpoint answered with status 410").await?;
        } else if lease.record.failing.as_ref().is_some_and(Failing::is_for_good) {
            let why = format!("no delivery has succeeded for {} days", Failing::DAYS);
            self.disable(lease, work, &why).await?;
        }
        Ok(())
    }

    /// Disables the endpoint. Nothing waits for it any more.
    async fn disable(
        &self,
        lease: &mut Lease<'_, WebhookProgress>,
        work: &mut Work,
        reason: &str,
    ) -> Result<(), WorkEnd> {
        let Some((mut record, version)) = self.records.read::<WebhookRecord>(&self.id).await? else {
            return Err(WorkEnd::Ended);
        };
        if record.enabled_after != work.endpoint.record.enabled_after
            || record.status == WebhookStatus::Disabled
        {
            return Err(WorkEnd::Lost);
        }
        record.status = WebhookStatus::Disabled;
        record.disabled_reason = Some(reason.to_owned());
        record.updated_at = self.records.clocks.wall.now().micros();
        let change = RecordChange::EndpointDisabled;
        if self.records.write(&self.id, Some(&record), version, change).await?.is_none() {
            // The settings have changed meanwhile. The next failure looks again.
            return Ok(());
        }
        tracing::warn!(webhook = self.id, reason, "a webhook was disabled");
        for delivery in std::mem::take(&mut lease.record.pending) {
            lease.record.give_up(delivery);
        }
        lease.record.replay = None;
        work.has_changed = true;
        // Who reads that the endpoint is disabled finds its failed deliveries soon, also while others are still on their way.
        self.keep_progress(lease, work).await?;
        Err(WorkEnd::Ended)
    }

    /// Writes the progress if it has changed or the lease is due, and otherwise looks whether somebody else has changed it.
    async fn keep_progress(
        &self,
        lease: &mut Lease<'_, WebhookProgress>,
        work: &mut Work,
    ) -> Result<(), WorkEnd> {
        work.checked_at = tokio::time::Instant::now();
        let is_due = self.is_shared && lease.age() >= RENEW_INTERVAL;
        let reached = work.reached();
        let has_passed = reached.saturating_sub(lease.record.position) >= PASSED_EVENTS;
        let state = if work.has_changed || has_passed || is_due {
            lease.record.position = reached.max(lease.record.position);
            lease.record.forget_old(self.records.clocks.wall.now());
            work.has_changed = false;
            lease.write().await?
        } else {
            lease.check().await?
        };
        match state {
            LeaseState::Kept => Ok(()),
            LeaseState::Changed => Err(WorkEnd::Changed),
            LeaseState::Lost => Err(WorkEnd::Lost),
        }
    }
}

impl Work {
    /// Every event up to here is done or among the exceptions.
    fn reached(&self) -> u64 {
        let on_way = self.new_on_way.first().copied();
        let waiting = self.waiting.front().map(|row| row.position);
        on_way.into_iter().chain(waiting).min().map_or(self.scanned, |first| first - 1)
    }

    /// Moves the position if something was delivered. The write of a position is an event too, so events that the filter leaves out do
    /// not move it by themselves.
    fn note_position(&self, progress: &mut WebhookProgress) {
        if self.has_changed {
            progress.position = self.reached().max(progress.position);
        }
    }

    /// Moves the position of the replay, and ends it when all was sent.
    fn note_replay(&mut self, progress: &mut WebhookProgress) {
        let Some(replay) = progress.replay else { return };
        let on_way = self.replay_on_way.first().copied();
        let waiting = self.replay_waiting.front().map(|row| row.position);
        let first = on_way.into_iter().chain(waiting).min();
        let position = first.map_or(self.replay_scanned, |first| first - 1).max(replay.position);
        progress.replay = (position < replay.through).then_some(ReplayProgress { position, ..replay });
        self.has_changed |= progress.replay != Some(replay);
    }

    /// A delivery of the exceptions that is due.
    fn due(&self, progress: &WebhookProgress, now: Instant) -> Option<(String, u64)> {
        let is_free = |one: &&FailedDelivery| !self.retries_on_way.contains(&one.event_id);
        let due = progress.pending.iter().filter(is_free).min_by_key(|one| due_at(progress, one, now))?;
        (due_at(progress, due, now) <= now.micros()).then(|| (due.event_id.clone(), due.position))
    }

    /// The time until there is something to send or to write, if nothing else happens.
    fn pause(&self, progress: &WebhookProgress, now: Instant) -> Duration {
        if self.on_way.len() >= AT_ONCE {
            return RECORD_INTERVAL;
        }
        let is_free = |one: &&FailedDelivery| !self.retries_on_way.contains(&one.event_id);
        let next = progress.pending.iter().filter(is_free).map(|one| due_at(progress, one, now)).min();
        let due = next.map(|next| Duration::from_micros(u64::try_from(next - now.micros()).unwrap_or(0)));
        let is_reading = progress.replay.is_some_and(|replay| self.replay_scanned < replay.through);
        let has_more = is_reading || !self.waiting.is_empty() || !self.replay_waiting.is_empty();
        let more = (has_more && !is_full(progress)).then_some(Duration::ZERO);
        let allowed = self.next_allowed.saturating_duration_since(tokio::time::Instant::now());
        due.into_iter()
            .chain(more)
            .min()
            .map_or(RECORD_INTERVAL, |pause| pause.max(allowed))
            .min(RECORD_INTERVAL)
    }
}

/// When a delivery of the exceptions is due. While no new event is sent, the oldest is tried again soon: only a success goes on.
fn due_at(progress: &WebhookProgress, delivery: &FailedDelivery, now: Instant) -> i64 {
    if delivery.at > now.micros() {
        // The clock was set back after the last attempt. The next one plans anew.
        return now.micros();
    }
    let scheduled = delivery.next_at.unwrap_or(i64::MAX);
    let is_probe = is_full(progress)
        && progress.pending.iter().min_by_key(|one| one.position).is_some_and(|oldest| oldest == delivery);
    if is_probe { scheduled.min(delivery.at.saturating_add(micros(PROBE_INTERVAL))) } else { scheduled }
}

/// Whether so many deliveries wait for their next attempt that no new event is sent.
fn is_full(progress: &WebhookProgress) -> bool {
    progress.pending.len() >= WebhookProgress::PENDING
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Notes the result of an attempt. Returns whether it succeeded.
fn note_result(
    progress: &mut WebhookProgress,
    attempted: Attempted,
    now: Instant,
    serving_since: i64,
) -> bool {
    let Attempted { event_id, position, result, .. } = attempted;
    let at = progress.pending.iter().position(|one| one.event_id == event_id);
    let known = at.map(|at| progress.pending.remove(at));
    progress.failed.retain(|failed| failed.event_id != event_id);
    let (status, retry_after, error) = match result {
        AttemptResult::Answered { status, .. } if (200..300).contains(&status) => {
            if progress.failing.take().is_some() {
                // It takes deliveries again, so none has to wait.
                for one in &mut progress.pending {
                    one.next_at = Some(now.micros());
                }
            }
            return true;
        }
        AttemptResult::Answered { status, reason, retry_after } => {
            (Some(status), retry_after, Some(FailedDelivery::error_text(&reason)))
        }
        AttemptResult::Failed(what) => (None, None, Some(FailedDelivery::error_text(&what))),
    };
    progress.failing.get_or_insert_default().note(now.micros(), serving_since);
    let attempts = known.map_or(0, |known| known.attempts) + 1;
    let random = RandomState::new().hash_one(&event_id);
    let pause = pause_after(attempts, retry_after, random);
    let next_at = pause.map(|pause| now.micros().saturating_add(micros(pause)));
    let failed = FailedDelivery { event_id, position, attempts, at: now.micros(), next_at, status, error };
    if next_at.is_some() && status != Some(GONE) {
        progress.pending.push(failed);
    } else {
        progress.give_up(failed);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_does_not_wait_for_a_clock_that_was_set_back() {
        let (now, hour) = (Instant::from_micros(1_800_000_000_000_000), 3_600_000_000);
        let failed = |at: i64| FailedDelivery {
            event_id: String::new(),
            position: 1,
            attempts: 1,
            at: now.micros() + at,
            next_at: Some(now.micros() + at + hour),
            status: None,
            error: None,
        };
        let due = |at| due_at(&WebhookProgress::default(), &failed(at), now) - now.micros();
        assert_eq!(due(-hour / 2), hour / 2);
        assert_eq!(due(2 * hour), 0, "its last attempt is in the future");
    }
}
