//! Serves one stock master: follows the feed, and does what is due.

use super::decrements::PendingDecrements;
use super::options::StockMasterOptions;
use super::owned_items::OwnedItems;
use super::source::Source;
use crate::feed::{BATCH, Feed, FeedRead};
use crate::lease::{Lease, LeaseState, RENEW_INTERVAL, Standby, acquire};
use crate::records::RelayRecords;
use std::sync::Arc;
use std::time::Duration;
use stockhold_api::delivery_state::DeliveryFailure;
use stockhold_api::stock_master_record::{ReportRecord, StockMasterFailures, StockMasterRecord};
use stockhold_domain::{ItemKey, RecordKind, Transition};
use stockhold_store::{EventRow, Failure, ItemPageRequest, Query, QueryResult};
use tokio::sync::watch;
use tokio::time::Instant;

/// How often the record is looked at, if nothing else is due.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for new events.
const LONGEST_WAIT: Duration = Duration::from_millis(200);
/// Items that are read at a time.
const ITEM_PAGE: usize = 1_000;
/// How often a failure that stays the same is written, in microseconds.
const FAILURE_INTERVAL_MICROS: i64 = 30_000_000;
/// Events without effect for the stock master after which its position is written, so that an archive is not held back.
const PASSED_EVENTS: u64 = 10_000;

/// The task of a stock master.
pub(crate) struct Worker {
    pub(crate) options: StockMasterOptions,
    pub(crate) instance: Arc<str>,
    pub(crate) is_shared: bool,
    pub(crate) feed: Feed,
    pub(crate) records: Arc<RelayRecords>,
    /// Becomes true when the relay stops.
    pub(crate) stop: watch::Receiver<bool>,
}

/// Why a service ended.
#[derive(Debug)]
pub(super) enum ServiceEnd {
    /// An operator has changed the record: it goes on from there.
    Changed,
    /// Another instance serves the stock master.
    Lost,
    /// The relay stops.
    Stopped,
    /// The store did not answer.
    Store(Failure),
}

impl From<Failure> for ServiceEnd {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}

/// Ends the service if somebody else has changed the record.
pub(super) fn proceed(state: LeaseState) -> Result<(), ServiceEnd> {
    match state {
        LeaseState::Kept => Ok(()),
        LeaseState::Changed => Err(ServiceEnd::Changed),
        LeaseState::Lost => Err(ServiceEnd::Lost),
    }
}

/// When things are due, and what was found. It outlives a service, which ends whenever an operator asks for something.
pub(super) struct WorkerState {
    pub(super) push: Instant,
    pub(super) pull: Instant,
    pub(super) reconcile: Instant,
    check: Instant,
    /// What was found since the last report.
    pub(super) report: ReportRecord,
}

/// What a service knows besides the record.
pub(super) struct Service<'a> {
    pub(super) worker: &'a Worker,
    pub(super) source: &'a Source,
    pub(super) lease: Lease<'a, StockMasterRecord>,
    pub(super) items: OwnedItems,
    pub(super) pending: PendingDecrements,
    /// The last event that was read.
    pub(super) scanned: u64,
    /// The newest version of the record that was seen in the feed.
    seen_version: u64,
    /// The failures that the stored record shows, as far as this service knows.
    shown_failures: StockMasterFailures,
    pub(super) state: &'a mut WorkerState,
}

impl Worker {
    /// Serves the stock master whenever it can have it, until the relay stops.
    pub(crate) async fn run(self) {
        let name = self.options.name.as_str();
        let source = match Source::new(&self.options) {
            Ok(source) => source,
            Err(error) => {
                return tracing::error!(stock_master = name, error, "the stock master can't be served");
            }
        };
        let now = Instant::now();
        let mut state = WorkerState {
            push: now,
            pull: now,
            reconcile: now + self.options.reconcile,
            check: now,
            report: ReportRecord::default(),
        };
        let mut standby: Option<Standby> = None;
        let mut stop = self.stop.clone();
        loop {
            match self.take(&mut standby).await {
                Ok(Some(lease)) => match self.serve(&source, lease, &mut state).await {
                    ServiceEnd::Changed => continue,
                    ServiceEnd::Stopped => return,
                    ServiceEnd::Lost => {
                        tracing::info!(stock_master = name, "another instance serves the stock master");
                    }
                    ServiceEnd::Store(error) => {
                        tracing::warn!(stock_master = name, %error, "the stock master waits for the store");
                    }
                },
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(stock_master = name, %error, "the record of the stock master can't be read or written");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RECORD_INTERVAL) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Takes the stock master if no other instance serves it. A new one begins with the sales after now.
    async fn take(
        &self,
        standby: &mut Option<Standby>,
    ) -> Result<Option<Lease<'_, StockMasterRecord>>, Failure> {
        let first = async || {
            let position = self.feed.newest().await?;
            Ok(StockMasterRecord {
                position,
                compared: position,
                orders_compared_at: self.records.clocks.store.now().micros(),
                ..StockMasterRecord::default()
            })
        };
        let kind = self.options.kind.name();
        let prepare = |record: &mut StockMasterRecord| kind.clone_into(&mut record.kind);
        acquire(&self.records, (&self.options.name, &self.instance), self.is_shared, standby, first, prepare)
            .await
    }

    async fn serve<'a>(
        &'a self,
        source: &'a Source,
        lease: Lease<'a, StockMasterRecord>,
        state: &'a mut WorkerState,
    ) -> ServiceEnd {
        let mut service = Service {
            worker: self,
            source,
            items: OwnedItems::new(&self.options.name),
            pending: PendingDecrements::default(),
            scanned: lease.record.position,
            seen_version: 0,
            shown_failures: lease.record.failures.clone(),
            state,
            lease,
        };
        let end = match service.run().await {
            Ok(()) => ServiceEnd::Stopped,
            Err(end) => end,
        };
        if matches!(end, ServiceEnd::Stopped) {
            service.lease.leave().await;
        }
        end
    }
}

impl Service<'_> {
    /// Does what is due until the relay stops or the lease ends.
    async fn run(&mut self) -> Result<(), ServiceEnd> {
        self.load_items().await?;
        loop {
            if *self.worker.stop.borrow() {
                self.pass_events();
                let _ = self.lease.write().await;
                return Ok(());
            }
            self.follow().await?;
            self.push_if_due().await?;
            if let Some(request) = self.lease.record.request.clone() {
                self.answer_request(&request).await?;
            }
            let now = Instant::now();
            if now >= self.state.pull {
                self.pull(false).await?;
                self.state.pull = Instant::now() + self.worker.options.pull;
            }
            if now >= self.state.reconcile {
                self.compare_orders(false).await?;
                self.finish_report(None).await?;
                // What was compared is not compared again after a crash, and keeps no event from an archive.
                proceed(self.lease.write().await?)?;
                self.state.reconcile = Instant::now() + self.worker.options.reconcile;
            }
            self.keep_record().await?;
            let longest = LONGEST_WAIT.min(self.worker.options.push);
            self.worker.feed.wait_after(self.scanned, longest).await;
        }
    }

    /// Reads the items that the stock master owns, and then all events that are older than the items: from then on, items and events
    /// are as of one position.
    async fn load_items(&mut self) -> Result<(), ServiceEnd> {
        let mut after: Option<ItemKey> = None;
        loop {
            let request = ItemPageRequest { location: None, after, limit: ITEM_PAGE };
            let store = &*self.worker.records.store;
            let QueryResult::ItemPage(page) = stockhold_store::query(store, Query::ItemPage(request)).await?
            else {
                return Err(wrong_answer().into());
            };
            let is_last = page.len() < ITEM_PAGE;
            after = page.last().map(|item| item.key.clone());
            for item in &page {
                self.items.add_listed(item);
            }
            self.renew().await?;
            if is_last {
                break;
            }
        }
        // The feed of a database numbers events after their commit. Once it has this write, it has all that was committed before.
        proceed(self.lease.write().await?)?;
        let barrier = self.lease.version();
        loop {
            self.follow().await?;
            if self.seen_version >= barrier {
                return Ok(());
            }
            self.worker.feed.wait_after(self.scanned, LONGEST_WAIT).await;
            if *self.worker.stop.borrow() {
                return Err(ServiceEnd::Stopped);
            }
        }
    }

    /// Reads the feed to its end.
    pub(super) async fn follow(&mut self) -> Result<(), ServiceEnd> {
        loop {
            let rows = match self.worker.feed.after(self.scanned, BATCH).await? {
                FeedRead::Events(rows) => rows,
                FeedRead::Archived(through) => {
                    tracing::error!(
                        stock_master = self.worker.options.name,
                        from = self.scanned + 1,
                        through,
                        "these events were archived before the stock master was told of their sales"
                    );
                    self.scanned = through;
                    self.lease.record.position = self.lease.record.position.max(through);
                    continue;
                }
            };
            let is_last = rows.len() < BATCH;
            for row in &rows {
                self.note(row);
            }
            self.renew().await?;
            if is_last {
                return Ok(());
            }
        }
    }

    fn note(&mut self, row: &EventRow) {
        let record = &self.lease.record;
        // After a start, the first event behind the position may be booked in part.
        let booked_part = if row.position == record.position + 1 { record.part } else { 0 };
        self.pending.note(row, booked_part, &self.items, self.worker.options.decrement_at);
        match &row.event.transition {
            Transition::Hold { hold, figures, .. } => {
                for (line, figures) in hold.lines.iter().zip(figures) {
                    self.items.note_counters(&line.item, figures);
                }
            }
            Transition::Stock { change, item } => {
                if self.items.note_stock(row.position, change, item) {
                    self.pending.forget(&item.key);
                }
            }
            Transition::Record { record, .. } => {
                let key = &record.key;
                if key.kind == RecordKind::StockMaster && key.id.as_str() == self.worker.options.name {
                    self.seen_version = self.seen_version.max(record.version);
                }
            }
            Transition::Sale { .. } | Transition::Limit { .. } => {}
        }
        self.scanned = row.position;
    }

    /// Moves the position over events that have nothing to be told.
    pub(super) fn pass_events(&mut self) {
        let has_nothing = self.pending.is_empty() && self.lease.record.batch.is_none();
        if has_nothing || !self.source.takes_decrements() {
            let record = &mut self.lease.record;
            if record.position < self.scanned {
                (record.position, record.part) = (self.scanned, 0);
            }
        }
    }

    /// Writes the record if it is due, and otherwise looks whether somebody has changed it.
    async fn keep_record(&mut self) -> Result<(), ServiceEnd> {
        if Instant::now() < self.state.check {
            return Ok(());
        }
        self.state.check = Instant::now() + RECORD_INTERVAL;
        let has_passed = self.scanned - self.lease.record.position >= PASSED_EVENTS;
        let is_due = self.worker.is_shared && self.lease.age() >= RENEW_INTERVAL;
        let is_news = is_news(&self.lease.record.failures, &self.shown_failures);
        if has_passed || is_due || is_news {
            self.shown_failures = self.lease.record.failures.clone();
            self.pass_events();
            return proceed(self.lease.write().await?);
        }
        proceed(self.lease.check().await?)
    }

    /// Renews the lease if it is due.
    pub(super) async fn renew(&mut self) -> Result<(), ServiceEnd> {
        if self.worker.is_shared && self.lease.age() >= RENEW_INTERVAL {
            proceed(self.lease.write().await?)?;
        }
        Ok(())
    }

    /// Waits for a call to the stock master, and keeps the lease meanwhile.
    pub(super) async fn wait_for<T>(&mut self, call: impl Future<Output = T>) -> Result<T, ServiceEnd> {
        let mut call = std::pin::pin!(call);
        let mut stop = self.worker.stop.clone();
        loop {
            tokio::select! {
                result = &mut call => return Ok(result),
                () = tokio::time::sleep(RECORD_INTERVAL) => self.renew().await?,
                _ = stop.wait_for(|stop| *stop) => return Err(ServiceEnd::Stopped),
            }
        }
    }

    /// Counts a call that failed. It is tried again after a pause.
    pub(super) fn failure(&self, what: &str, action: Option<&str>, pause: Duration) -> DeliveryFailure {
        let now = self.worker.records.clocks.wall.now().micros();
        let stock_master = &self.worker.options.name;
        tracing::warn!(stock_master, error = what, action, "a call to the stock master failed");
        metrics::counter!("stockhold_stock_master_failures_total", "stock_master" => stock_master.clone())
            .increment(1);
        let next = now.saturating_add(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX));
        DeliveryFailure::new(now, what).with_action(action).with_next_attempt(next)
    }
}

/// Whether failures say something else than those that were written, or are much newer.
fn is_news(failures: &StockMasterFailures, written: &StockMasterFailures) -> bool {
    let pairs = [
        (&failures.decrements, &written.decrements),
        (&failures.figures, &written.figures),
        (&failures.orders, &written.orders),
    ];
    pairs.into_iter().any(|pair| match pair {
        (Some(one), Some(other)) => {
            (&one.message, &one.action) != (&other.message, &other.action)
                || one.at - other.at > FAILURE_INTERVAL_MICROS
        }
        (one, other) => one.is_some() != other.is_some(),
    })
}

pub(super) fn wrong_answer() -> Failure {
    Failure::Internal("the store answered another question".to_owned())
}
