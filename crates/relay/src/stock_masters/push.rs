//! Tells a stock master of sales.

use super::decrements::BatchBuilder;
use super::source::BookingResult;
use super::worker::{Service, ServiceEnd, proceed};
use crate::feed::{BATCH, FeedRead};
use std::time::Duration;
use tokio::time::Instant;

/// Pause after the first attempt without an answer. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const ACT_ON_REFUSAL: &str =
    "have the stock master take the batch, or count it as booked with stockhold ctl reconcile --accept-batch";
/// Longest pause, and the pause after a refusal.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Service<'_> {
    /// Sends a batch if one is due.
    pub(super) async fn push_if_due(&mut self) -> Result<(), ServiceEnd> {
        if !self.source.takes_decrements() {
            return Ok(());
        }
        let has_batch = self.lease.record.batch.is_some();
        if !has_batch && self.pending.is_empty() {
            // The next sale begins a new batch.
            self.state.push = Instant::now() + self.worker.options.push;
            return Ok(());
        }
        if Instant::now() < self.state.push {
            return Ok(());
        }
        if !has_batch {
            self.store_batch().await?;
        }
        self.send_batch().await
    }

    /// Stores the batch of the events behind the position, so that it is the same after a crash.
    async fn store_batch(&mut self) -> Result<(), ServiceEnd> {
        let decrement_at = self.worker.options.decrement_at;
        let record = &self.lease.record;
        let mut builder = BatchBuilder::new(record.position, record.part);
        while builder.through() < self.scanned && !builder.is_full() {
            let FeedRead::Events(rows) = self.worker.feed.after(builder.through(), BATCH).await? else {
                break;
            };
            let mut new = rows.iter().take_while(|row| row.position <= self.scanned).peekable();
            if new.peek().is_none() {
                break;
            }
            for row in new {
                if builder.is_full() {
                    break;
                }
                builder.add(row, &self.items, decrement_at);
            }
            self.renew().await?;
        }
        let batch = builder.finish(self.worker.records.new_id());
        if batch.lines.is_empty() {
            // Sales and returns that cancel each other out.
            (self.lease.record.position, self.lease.record.part) = (batch.through, batch.part);
            return Ok(());
        }
        self.lease.record.batch = Some(batch);
        proceed(self.lease.write().await?)
    }

    async fn send_batch(&mut self) -> Result<(), ServiceEnd> {
        let Some(mut batch) = self.lease.record.batch.clone() else { return Ok(()) };
        if batch.refused.take().is_some() {
            // From now on its outcome is not known, also after a crash.
            if let Some(stored) = &mut self.lease.record.batch {
                stored.refused = None;
            }
            proceed(self.lease.write().await?)?;
        }
        let (source, sent) = (self.source, batch.clone());
        let result = self.wait_for(source.book(&sent)).await?;
        let name = self.worker.options.name.clone();
        match result {
            BookingResult::Booked => {
                metrics::counter!("stockhold_stock_master_batches_total", "stock_master" => name)
                    .increment(1);
                self.pending.book(&batch);
                (self.lease.record.position, self.lease.record.part) = (batch.through, batch.part);
                self.lease.record.booked = Some(batch.batch_id);
                self.lease.record.batch = None;
                self.lease.record.failures.decrements = None;
                self.pass_events();
                self.state.push = Instant::now() + self.worker.options.push;
                proceed(self.lease.write().await?)
            }
            BookingResult::Refused(what) => {
                let failure = self.failure(&what, Some(ACT_ON_REFUSAL), LONGEST_PAUSE);
                batch.attempts = batch.attempts.saturating_add(1);
                batch.refused = Some(failure.message.clone());
                self.lease.record.failures.decrements = Some(failure);
                self.lease.record.batch = Some(batch);
                self.state.push = Instant::now() + LONGEST_PAUSE;
                proceed(self.lease.write().await?)
            }
            BookingResult::Unknown(error) => {
                let pause = FIRST_PAUSE.saturating_mul(1 << batch.attempts.min(10)).min(LONGEST_PAUSE);
                let failure = self.failure(error.message(), error.action(), pause);
                self.lease.record.failures.decrements = Some(failure);
                batch.attempts = batch.attempts.saturating_add(1);
                let is_first = batch.attempts == 1;
                self.lease.record.batch = Some(batch);
                self.state.push = Instant::now() + pause;
                // Of the failures that follow, those that say something new are written soon.
                if is_first { proceed(self.lease.write().await?) } else { Ok(()) }
            }
        }
    }
}
