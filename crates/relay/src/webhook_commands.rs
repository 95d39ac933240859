//! What operators do with webhooks, besides their settings.

use crate::feed::FeedRead;
use crate::relay::Relay;
use crate::webhooks::{AttemptResult, attempt, filter};
use bytes::Bytes;
use stockhold_api::encode::cloud_event_of_test;
use stockhold_api::resources::deliveries::{Delivery, DeliveryStatus, WebhookReplay};
use stockhold_api::resources::webhooks::WebhookTest;
use stockhold_api::webhook_record::{FailedDelivery, ReplayProgress, WebhookProgress, WebhookRecord};
use stockhold_domain::{EventId, RecordChange};
use stockhold_store::{EventRow, Failure};

/// Tries of a change of a record that its holder changes at the same time.
const TRIES: usize = 20;
/// How long deliveries that succeeded are shown, in microseconds: 7 days.
const SUCCEEDED_MICROS: i64 = 7 * 86_400 * 1_000_000;
/// Events that are read at a time for a page of deliveries.
const EVENTS_AT_ONCE: u64 = 256;
/// Most reads for a page of deliveries.
const READS: usize = 16;

/// Which deliveries a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Only those with this status.
    pub status: Option<DeliveryStatus>,
    /// Of those that succeeded: only events before this position.
    pub before: Option<u64>,
    /// Most deliveries that succeeded.
    pub limit: usize,
}

/// Why a command of an operator was not done.
#[derive(Debug)]
pub enum WebhookCommandError {
    /// The endpoint has no delivery of this id that is pending or failed.
    UnknownDelivery,
    /// No event that the endpoint has got is in the range. Which positions can be delivered again: the first and the last.
    OutOfRange(u64, u64),
    /// The store did not answer.
    Store(Failure),
}

impl From<Failure> for WebhookCommandError {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}

impl Relay {
    /// Checks the address of an endpoint. The text says what is wrong.
    pub fn check_webhook_url(&self, url: &str) -> Result<(), String> {
        match self.webhook_client.get() {
            Ok(client) => client.check_url(url).map(|_| ()),
            Err(what) => Err(format!("can't be checked: {what}")),
        }
    }

    /// Sends a message that is no event of the feed, and waits for the answer.
    pub async fn test_webhook(
        &self,
        webhook_id: &str,
        record: &WebhookRecord,
        event_id: EventId,
    ) -> WebhookTest {
        let now = self.records.clocks.wall.now();
        let mut body = Vec::new();
        cloud_event_of_test(&mut body, event_id, webhook_id, now, self.source());
        let id = event_id.to_string();
        match attempt(&self.webhook_client, (webhook_id, record), &id, Bytes::from(body), now).await {
            AttemptResult::Answered { status, .. } if (200..300).contains(&status) => {
                WebhookTest::of(event_id, Some(status), None)
            }
            AttemptResult::Answered { status, reason, .. } => {
                WebhookTest::of(event_id, Some(status), Some(FailedDelivery::error_text(&reason)))
            }
            AttemptResult::Failed(what) => {
                WebhookTest::of(event_id, None, Some(FailedDelivery::error_text(&what)))
            }
        }
    }

    /// Deliveries that are pending or failed, and a page of those that succeeded, with the position that the next page begins before.
    pub async fn webhook_deliveries(
        &self,
        id: &str,
        record: &WebhookRecord,
        page: DeliveryFilter,
    ) -> Result<(Vec<Delivery>, Option<u64>), WebhookCommandError> {
        let found = self.records.read::<WebhookProgress>(id).await?;
        let progress = found.map_or_else(|| WebhookProgress::of(record), |(progress, _)| progress);
        let mut all = Vec::new();
        if page.before.is_none() {
            let lists =
                [(DeliveryStatus::Pending, &progress.pending), (DeliveryStatus::Failed, &progress.failed)];
            for (status, list) in lists {
                if page.status.is_some_and(|wanted| wanted != status) {
                    continue;
                }
                for delivery in list {
                    let row = self.event_of(delivery).await?;
                    all.push(Delivery::of(status, delivery, row.as_ref().map(|row| &row.event)));
                }
            }
        }
        let next = match page.status {
            None | Some(DeliveryStatus::Succeeded) => {
                self.put_succeeded(&mut all, record, &progress, page).await?
            }
            Some(DeliveryStatus::Pending | DeliveryStatus::Failed) => None,
        };
        Ok((all, next))
    }

    /// Adds deliveries that succeeded, the newest first: events up to the position that the filter has and that are no exceptions.
    async fn put_succeeded(
        &self,
        all: &mut Vec<Delivery>,
        record: &WebhookRecord,
        progress: &WebhookProgress,
        page: DeliveryFilter,
    ) -> Result<Option<u64>, WebhookCommandError> {
        let filter = filter(record);
        let oldest = self.records.clocks.store.now().micros() - SUCCEEDED_MICROS;
        let mut before = page.before.unwrap_or(u64::MAX).min(progress.position + 1);
        let mut left = page.limit;
        for _ in 0..READS {
            if before <= record.enabled_after + 1 {
                return Ok(None);
            }
            let after = (before - 1).saturating_sub(EVENTS_AT_ONCE).max(record.enabled_after);
            let count = usize::try_from(before - 1 - after).unwrap_or(0);
            let FeedRead::Events(rows) = self.feed.after(after, count).await? else { return Ok(None) };
            for row in rows.iter().rev() {
                if row.event.at.micros() < oldest {
                    return Ok(None);
                }
                if left == 0 {
                    return Ok(Some(before));
                }
                before = row.position;
                let event_id = row.event.id.to_string();
                if filter.has(&row.event) && !progress.is_exception(&event_id) {
                    all.push(Delivery::succeeded(row.position, &row.event));
                    left -= 1;
                }
            }
            before = after + 1;
        }
        Ok(Some(before))
    }

    /// The event of a delivery. `None` if it was archived.
    async fn event_of(&self, delivery: &FailedDelivery) -> Result<Option<EventRow>, Failure> {
        match self.feed.after(delivery.position.saturating_sub(1), 1).await? {
            FeedRead::Events(rows) => {
                Ok(rows.into_iter().next().filter(|row| row.position == delivery.position))
            }
            FeedRead::Archived(_) => Ok(None),
        }
    }

    /// Has a delivery that is pending or failed tried again now.
    pub async fn retry_delivery(
        &self,
        id: &str,
        record: &WebhookRecord,
        delivery_id: &str,
    ) -> Result<(), WebhookCommandError> {
        let now = self.records.clocks.wall.now().micros();
        self.change_progress(id, record, |progress| {
            if let Some(pending) = progress.pending.iter_mut().find(|one| one.event_id == delivery_id) {
                pending.next_at = Some(now);
                return Ok(());
            }
            let at = progress.failed.iter().position(|one| one.event_id == delivery_id);
            let failed = progress.failed.remove(at.ok_or(WebhookCommandError::UnknownDelivery)?);
            progress.pending.push(anew(failed, now));
            Ok(())
        })
        .await
    }

    /// Has events delivered again: all of a range, or those whose delivery failed.
    pub async fn replay_webhook(
        &self,
        id: &str,
        record: &WebhookRecord,
        (from, to): (u64, Option<u64>),
        only_failed: bool,
    ) -> Result<WebhookReplay, WebhookCommandError> {
        let first = match self.feed.after(0, 1).await? {
            FeedRead::Events(_) => 1,
            FeedRead::Archived(through) => through + 1,
        };
        let now = self.records.clocks.wall.now().micros();
        let mut replay = WebhookReplay { from_position: from, to_position: 0, deliveries: None };
        self.change_progress(id, record, |progress| {
            let to = to.unwrap_or(progress.position).min(progress.position);
            if from < first || from > to {
                return Err(WebhookCommandError::OutOfRange(first, progress.position));
            }
            replay.to_position = to;
            if !only_failed {
                progress.replay = Some(ReplayProgress { position: from - 1, through: to });
                return Ok(());
            }
            let room = WebhookProgress::PENDING.saturating_sub(progress.pending.len());
            let is_wanted = |failed: &FailedDelivery| (from..=to).contains(&failed.position);
            let wanted: Vec<_> =
                progress.failed.iter().filter(|one| is_wanted(one)).take(room).cloned().collect();
            progress.failed.retain(|failed| !wanted.contains(failed));
            replay.deliveries = Some(wanted.len() as u64);
            progress.pending.extend(wanted.into_iter().map(|failed| anew(failed, now)));
            Ok(())
        })
        .await?;
        Ok(replay)
    }

    /// Deletes the progress of an endpoint that was deleted.
    pub async fn forget_webhook(&self, id: &str) -> Result<(), Failure> {
        for _ in 0..TRIES {
            let Some((_, version)) = self.records.read::<WebhookProgress>(id).await? else { return Ok(()) };
            let deleted =
                self.records.write::<WebhookProgress>(id, None, version, RecordChange::Silent).await?;
            if deleted.is_some() {
                return Ok(());
            }
        }
        Err(Failure::Overloaded)
    }

    async fn change_progress(
        &self,
        id: &str,
        record: &WebhookRecord,
        mut set: impl FnMut(&mut WebhookProgress) -> Result<(), WebhookCommandError>,
    ) -> Result<(), WebhookCommandError> {
        for _ in 0..TRIES {
            let found = self.records.read::<WebhookProgress>(id).await?;
            let (mut progress, version) = found.unwrap_or_else(|| (WebhookProgress::of(record), 0));
            // Its deliverer may not know yet that it was enabled again.
            progress.follow(record);
            set(&mut progress)?;
            if self.records.write(id, Some(&progress), version, RecordChange::Silent).await?.is_some() {
                return Ok(());
            }
        }
        Err(WebhookCommandError::Store(Failure::Overloaded))
    }
}

/// A delivery that was given up, with all attempts before it again.
fn anew(failed: FailedDelivery, now: i64) -> FailedDelivery {
    FailedDelivery { attempts: 0, next_at: Some(now), ..failed }
}
