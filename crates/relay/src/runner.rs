//! Serves one sink: reads the feed, delivers, moves the position.

use crate::feed::{Feed, FeedRead};
use crate::inventory::{FLUSH_INTERVAL, Inventory};
use crate::lease::{Lease, LeaseState, RENEW_INTERVAL, Standby, acquire};
use crate::message::Message;
use crate::options::{SinkOptions, SinkStart};
use crate::records::RelayRecords;
use crate::sink::{DeliveryError, Sink};
use std::sync::Arc;
use std::time::Duration;
use stockhold_api::delivery_state::DeliveryFailure;
use stockhold_api::sink_record::{AsideEvent, SinkFailure, SinkRecord};
use stockhold_store::{EventRow, Failure};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How often the record of a sink is looked at and, if the position has moved, written.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after the first failed delivery. It doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Pause before a message is sent again although somebody has to act first.
const FIRST_REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause before a delivery is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How often events that were put aside are tried again.
const ASIDE_INTERVAL: Duration = Duration::from_mins(10);
/// How long they are tried, in microseconds: 5 days, as long as mail servers try.
const ASIDE_MICROS: i64 = 5 * 86_400 * 1_000_000;
/// Longest wait for new events, before other work is looked at.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// Events after which the position is written before [`RECORD_INTERVAL`] is over, or although nothing was delivered. After a crash, about so
/// many are delivered again at most, and an archive is not held back by events without effect for the sink.
const PASSED_EVENTS: u64 = 10_000;

/// The task of a sink.
pub(crate) struct Runner {
    pub(crate) options: SinkOptions,
    pub(crate) source: Arc<str>,
    pub(crate) instance: Arc<str>,
    pub(crate) is_shared: bool,
    pub(crate) feed: Feed,
    pub(crate) records: Arc<RelayRecords>,
    pub(crate) sink: Box<dyn Sink>,
    /// Becomes true when the relay stops.
    pub(crate) stop: watch::Receiver<bool>,
}

/// Why a service of a sink ended.
enum ServiceEnd {
    /// An operator has changed the record: it goes on from there.
    Changed,
    /// Another instance serves the sink.
    Lost,
    /// The relay stops.
    Stopped,
}

impl LeaseState {
    /// Ends the service if somebody else has changed the record.
    fn proceed(self) -> Result<(), StepEnd> {
        match self {
            Self::Kept => Ok(()),
            Self::Changed => Err(StepEnd::Service(ServiceEnd::Changed)),
            Self::Lost => Err(StepEnd::Service(ServiceEnd::Lost)),
        }
    }
}

/// What a service knows besides the record.
struct Progress {
    /// The newest event that was read.
    scanned: u64,
    /// Whether something was delivered since the position was written.
    has_delivered: bool,
    inventory: Inventory,
    flushed_at: Instant,
    checked_at: Instant,
    /// When events that were put aside are tried again.
    aside_at: Instant,
    /// The events after those that are being delivered.
    ahead: Option<ReadAhead>,
}

impl Progress {
    /// The position up to which nothing has to be read again.
    fn reached(&self) -> u64 {
        self.inventory.covered_through().unwrap_or(self.scanned).min(self.scanned)
    }
}

/// A read that runs while the events before it are delivered.
struct ReadAhead {
    after: u64,
    read: JoinHandle<Result<FeedRead, Failure>>,
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.read.abort();
    }
}

impl Runner {
    /// Serves the sink whenever it can have it, until the relay stops.
    pub(crate) async fn run(mut self) {
        let records = Arc::clone(&self.records);
        let (options, instance) = (self.options.clone(), Arc::clone(&self.instance));
        let names = (options.name.as_str(), &*instance);
        let mut standby: Option<Standby> = None;
        let mut stop = self.stop.clone();
        loop {
            let first = async || {
                let position = match options.start {
                    SinkStart::Beginning => 0,
                    SinkStart::Now => self.feed.newest().await?,
                };
                Ok(SinkRecord { position, ..SinkRecord::default() })
            };
            let prepare = |record: &mut SinkRecord| options.kind.name().clone_into(&mut record.kind);
            let taken = acquire(&records, names, self.is_shared, &mut standby, first, prepare).await;
            match taken {
                Ok(Some(mut lease)) => loop {
                    match self.serve(&mut lease).await {
                        ServiceEnd::Changed => {}
                        ServiceEnd::Lost => {
                            tracing::info!(sink = names.0, "another instance serves the sink");
                            break;
                        }
                        ServiceEnd::Stopped => return lease.leave().await,
                    }
                },
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(sink = names.0, %error, "the record of the sink can't be read or written");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RECORD_INTERVAL) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Delivers from the position of the record on.
    async fn serve(&mut self, lease: &mut Lease<'_, SinkRecord>) -> ServiceEnd {
        let now = Instant::now();
        let mut progress = Progress {
            scanned: lease.record.position,
            has_delivered: false,
            inventory: Inventory::default(),
            flushed_at: now,
            // The first delivery is written at once: an instance that always ends within a second gets on, too.
            checked_at: now.checked_sub(RECORD_INTERVAL).unwrap_or(now),
            // Whatever was in their way may have been mended before this start.
            aside_at: now,
            ahead: None,
        };
        loop {
            if *self.stop.borrow() {
                // What is not written is delivered again.
                let _ = self.save(lease, &progress, None).await;
                return ServiceEnd::Stopped;
            }
            match self.step(lease, &mut progress).await {
                Ok(()) => {}
                Err(StepEnd::Service(end)) => return end,
                Err(StepEnd::Store(error)) => {
                    tracing::warn!(sink = self.options.name, %error, "the sink waits for the store");
                    tokio::time::sleep(RECORD_INTERVAL).await;
                    // Derived events may be lost with the step, so it goes on from the record.
                    return ServiceEnd::Changed;
                }
            }
        }
    }

    /// Reads what is new, delivers it, and keeps the record.
    async fn step(
        &mut self,
        lease: &mut Lease<'_, SinkRecord>,
        progress: &mut Progress,
    ) -> Result<(), StepEnd> {
        if Instant::now() >= progress.aside_at {
            progress.aside_at = Instant::now() + ASIDE_INTERVAL;
            self.deliver_aside(lease, progress).await?;
        }
        let rows = match self.read(progress).await? {
            FeedRead::Events(rows) => rows,
            FeedRead::Archived(through) => {
                tracing::error!(
                    sink = self.options.name,
                    from = progress.scanned + 1,
                    through,
                    "these events were archived before the sink got them: it goes on behind them"
                );
                progress.scanned = through;
                return Ok(());
            }
        };
        let mut messages = Vec::with_capacity(rows.len());
        let last = rows.last().map_or(progress.scanned, |row| row.position);
        let batch = self.sink.batch_events();
        let is_last_page = rows.len() < batch;
        if !is_last_page {
            let feed = self.feed.clone();
            let read = tokio::task::spawn_local(async move { feed.after(last, batch).await });
            progress.ahead = Some(ReadAhead { after: last, read });
        }
        for row in rows {
            progress.inventory.note(&row, &self.options.filter);
            if self.options.filter.has(&row.event) {
                messages.push(self.message(lease, row));
            }
        }
        let is_due = progress.flushed_at.elapsed() >= FLUSH_INTERVAL;
        let covered = progress.inventory.covered_through();
        if is_due && covered.is_some() {
            let derived = progress.inventory.flush(&*self.feed.0, &self.options.filter).await?;
            messages.extend(derived.into_iter().map(|event| Message::of_inventory(event, &self.source)));
            progress.flushed_at = Instant::now();
        }
        let has_messages = !messages.is_empty();
        if has_messages {
            self.deliver(lease, progress, &messages, covered).await?;
            progress.has_delivered = true;
        }
        progress.scanned = last;
        self.count(messages.len());
        let has_passed_many = progress.reached().saturating_sub(lease.record.position) >= PASSED_EVENTS;
        if has_passed_many || progress.checked_at.elapsed() >= RECORD_INTERVAL {
            self.keep_record(lease, progress, None).await?;
        }
        if is_last_page {
            let wait =
                if progress.inventory.covered_through().is_some() { FLUSH_INTERVAL } else { LONGEST_WAIT };
            self.feed.wait_after(progress.scanned, wait).await;
        }
        Ok(())
    }

    /// The events after those that were read.
    async fn read(&self, progress: &mut Progress) -> Result<FeedRead, Failure> {
        match progress.ahead.take().filter(|ahead| ahead.after == progress.scanned) {
            Some(mut ahead) => {
                (&mut ahead.read).await.unwrap_or_else(|error| Err(Failure::Internal(error.to_string())))
            }
            None => self.feed.after(progress.scanned, self.sink.batch_events()).await,
        }
    }

    fn message(&self, lease: &Lease<'_, SinkRecord>, row: EventRow) -> Message {
        let is_replayed = row.position <= lease.record.replay_through;
        Message::of_row(row, &self.source, is_replayed.then_some(lease.record.replays))
    }

    /// Delivers messages until all are confirmed. After a crash, the events behind `covered` have to be read again for the derived ones
    /// among the messages.
    async fn deliver(
        &mut self,
        lease: &mut Lease<'_, SinkRecord>,
        progress: &mut Progress,
        messages: &[Message],
        covered: Option<u64>,
    ) -> Result<(), StepEnd> {
        let mut stop = self.stop.clone();
        let mut rest = messages;
        let mut attempts = 0;
        while let Some(next) = rest.first() {
            if is_skipped(lease, next) {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            // After a failure, one message is tried alone: others that were sent with it would come again with each attempt.
            let whole = rest.iter().position(|message| is_skipped(lease, message)).unwrap_or(rest.len());
            let part = rest.get(..if attempts == 0 { whole } else { 1 }).unwrap_or(rest);
            let failed = {
                let mut delivery = self.sink.deliver(part);
                loop {
                    tokio::select! {
                        result = &mut delivery => break result,
                        () = tokio::time::sleep(RECORD_INTERVAL) => renew(lease).await?,
                        _ = stop.wait_for(|stop| *stop) => return Err(StepEnd::Service(ServiceEnd::Stopped)),
                    }
                }
            };
            let aside = self.sink.put_aside(self.records.clocks.wall.now().micros());
            progress.has_delivered |= !aside.is_empty();
            self.keep_aside(lease, aside);
            let Err(error) = failed else {
                rest = rest.get(part.len()..).unwrap_or_default();
                attempts = 0;
                continue;
            };
            attempts = if error.confirmed > 0 { 1 } else { attempts + 1 };
            rest = rest.get(error.confirmed..).unwrap_or_default();
            let Some(failed) = rest.first() else { break };
            let pause = pause_after(attempts, error.action.is_some());
            let now = self.records.clocks.wall.now().micros();
            note_failure(lease, failed, &error, (attempts, pause), now);
            tracing::warn!(sink = self.options.name, attempts, error = error.message, "a delivery failed");
            let sink = self.options.name.clone();
            metrics::counter!("stockhold_relay_failures_total", "sink" => sink).increment(1);
            let reached = failed.position - 1;
            self.keep_record(lease, progress, Some(covered.map_or(reached, |first| first.min(reached))))
                .await?;
            self.pause(lease, pause).await?;
        }
        if lease.record.last_error.take().is_some() {
            progress.has_delivered = true;
            // What was in the way of the others may be mended too.
            progress.aside_at = Instant::now();
        }
        Ok(())
    }

    /// Remembers what was put aside, as much as there is room for.
    fn keep_aside(&self, lease: &mut Lease<'_, SinkRecord>, events: Vec<AsideEvent>) {
        let aside = &mut lease.record.aside;
        aside.extend(events);
        for gone in aside.drain(..aside.len().saturating_sub(SinkRecord::ASIDE)) {
            let (sink, event_id, part) = (&self.options.name, &gone.event_id, &gone.part);
            tracing::error!(sink, event_id, part, "too many events were put aside: the oldest is given up");
        }
    }

    /// Tries events again that were put aside. Those that are still not taken stay where they are, for [`ASIDE_MICROS`] at most.
    async fn deliver_aside(
        &mut self,
        lease: &mut Lease<'_, SinkRecord>,
        progress: &mut Progress,
    ) -> Result<(), StepEnd> {
        let mut stop = self.stop.clone();
        for event in lease.record.aside.clone() {
            let found = match self.feed.after(event.position - 1, 1).await? {
                FeedRead::Events(rows) => {
                    rows.into_iter().find(|row| row.event.id.to_string() == event.event_id)
                }
                FeedRead::Archived(_) => None,
            };
            let is_done = match found {
                None => true,
                Some(row) => {
                    let message = self.message(lease, row);
                    let mut delivery = self.sink.deliver_aside(&message, &event);
                    loop {
                        tokio::select! {
                            result = &mut delivery => break result,
                            () = tokio::time::sleep(RECORD_INTERVAL) => renew(lease).await?,
                            _ = stop.wait_for(|stop| *stop) => return Err(StepEnd::Service(ServiceEnd::Stopped)),
                        }
                    }
                    .unwrap_or_else(|error| {
                        let sink = &self.options.name;
                        tracing::debug!(sink, error = error.message, "an event stays aside");
                        false
                    })
                }
            };
            let is_old = self.records.clocks.wall.now().micros() - event.at > ASIDE_MICROS;
            if is_old && !is_done {
                let (sink, event_id, part) = (&self.options.name, &event.event_id, &event.part);
                tracing::error!(
                    sink,
                    event_id,
                    part,
                    "a part of an event was not taken for 5 days: it is given up"
                );
            }
            if is_done || is_old {
                lease.record.aside.retain(|other| *other != event);
                progress.has_delivered = true;
            }
        }
        Ok(())
    }

    /// Waits before a delivery is tried again. Watches the record meanwhile.
    async fn pause(&mut self, lease: &mut Lease<'_, SinkRecord>, pause: Duration) -> Result<(), StepEnd> {
        let until = Instant::now() + pause;
        let mut stop = self.stop.clone();
        while Instant::now() < until {
            let next = until.min(Instant::now() + RECORD_INTERVAL);
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                _ = stop.wait_for(|stop| *stop) => return Err(StepEnd::Service(ServiceEnd::Stopped)),
            }
            renew(lease).await?;
        }
        Ok(())
    }

    /// Writes the record if it says something new or is due to be renewed, and otherwise looks whether somebody has changed it.
    async fn keep_record(
        &self,
        lease: &mut Lease<'_, SinkRecord>,
        progress: &mut Progress,
        position: Option<u64>,
    ) -> Result<(), StepEnd> {
        progress.checked_at = Instant::now();
        self.gauge_lag(progress);
        let state = self.save(lease, progress, position).await?;
        if state == LeaseState::Kept {
            progress.has_delivered = false;
        }
        state.proceed()
    }

    async fn save(
        &self,
        lease: &mut Lease<'_, SinkRecord>,
        progress: &Progress,
        position: Option<u64>,
    ) -> Result<LeaseState, Failure> {
        let reached = position.unwrap_or_else(|| progress.reached()).max(lease.record.position);
        let has_passed = reached - lease.record.position >= PASSED_EVENTS;
        let is_due = self.is_shared && lease.age() >= RENEW_INTERVAL;
        // The write of a position is an event too, which must not be a reason to write the next one.
        if position.is_some() || progress.has_delivered || has_passed || is_due {
            lease.record.position = reached;
            lease.record.skipped.retain(|skipped| skipped.position > reached);
            return lease.write().await;
        }
        lease.check().await
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge")]
    fn gauge_lag(&self, progress: &Progress) {
        let behind = self.feed.0.newest().saturating_sub(progress.scanned);
        let sink = self.options.name.clone();
        metrics::gauge!("stockhold_relay_lag_events", "sink" => sink).set(behind as f64);
    }

    fn count(&self, delivered: usize) {
        let sink = self.options.name.clone();
        metrics::counter!("stockhold_relay_delivered_total", "sink" => sink).increment(delivered as u64);
    }
}

/// Renews the lease, or looks whether somebody has changed the record.
async fn renew(lease: &mut Lease<'_, SinkRecord>) -> Result<(), StepEnd> {
    let state = if lease.age() >= RENEW_INTERVAL { lease.write().await? } else { lease.check().await? };
    state.proceed()
}

/// Whether an operator has had the sink skip this message.
fn is_skipped(lease: &Lease<'_, SinkRecord>, message: &Message) -> bool {
    let skipped = &lease.record.skipped;
    !skipped.is_empty() && skipped.iter().any(|skipped| skipped.event_id == message.id.to_string())
}

/// The pause after so many failed attempts. `has_action`: somebody has to act first.
fn pause_after(attempts: u32, has_action: bool) -> Duration {
    let first = if has_action { FIRST_REFUSED_PAUSE } else { FIRST_PAUSE };
    first.saturating_mul(1 << attempts.saturating_sub(1).min(8)).min(LONGEST_PAUSE)
}

fn note_failure(
    lease: &mut Lease<'_, SinkRecord>,
    message: &Message,
    error: &DeliveryError,
    (attempts, pause): (u32, Duration),
    now: i64,
) {
    let next = now.saturating_add(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX));
    let failure = DeliveryFailure::new(now, &error.message).with_action(error.action.as_deref());
    lease.record.last_error = Some(SinkFailure {
        failure: failure.with_next_attempt(next),
        event_id: message.id.to_string(),
        position: message.position,
        attempts,
    });
}

/// Why a step ended early.
enum StepEnd {
    Service(ServiceEnd),
    Store(Failure),
}

impl From<Failure> for StepEnd {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}
