//! The relay: its thread, and what operators do with sinks.

use crate::feed::{Feed, FeedRead};
use crate::lease::RENEW_INTERVAL;
use crate::options::RelayOptions;
use crate::records::RelayRecords;
use crate::runner::Runner;
use crate::sinks;
use crate::status::lag;
use crate::stock_masters::{self, StockMasterOptions};
use crate::webhooks::{SharedClient, Supervisor};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use stockhold_api::resources::sinks::{Sink, SinkReplay};
use stockhold_api::sink_record::{SinkRecord, SkippedEvent};
use stockhold_domain::{Instant, RecordChange};
use stockhold_store::clock::Clocks;
use stockhold_store::ids::IdSource;
use stockhold_store::{Failure, Store};
use tokio::sync::watch;
use tokio::task::LocalSet;

/// Tries of a change of a record that its holder changes at the same time.
const TRIES: usize = 20;

/// Delivers the events of a store to sinks, from a thread of its own.
pub struct Relay {
    options: Arc<RelayOptions>,
    pub(crate) feed: Feed,
    pub(crate) records: Arc<RelayRecords>,
    pub(crate) webhook_client: SharedClient,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Why a command of an operator was not done.
#[derive(Debug)]
pub enum SinkCommandError {
    /// The store has no sink of this name, and none is configured here.
    UnknownSink,
    /// The sink is configured, so its position can't be forgotten.
    InUse,
    /// The position is not that of the event that the sink refuses. What it refuses, if anything.
    NotRefused(Option<u64>),
    /// No event that the sink has got is in the range. Which positions can be replayed from: the first and the last.
    OutOfRange(u64, u64),
    /// The other system can't be reached, or refuses.
    SinkFailed(String),
    /// The store did not answer.
    Store(Failure),
}

impl From<Failure> for SinkCommandError {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}

impl Relay {
    /// Starts the relay.
    pub fn start(store: Arc<dyn Store>, clocks: Clocks, options: RelayOptions) -> io::Result<Self> {
        let ids = IdSource::from_system().map_err(|error| io::Error::other(error.to_string()))?;
        let options = Arc::new(options);
        let records = Arc::new(RelayRecords::new(Arc::clone(&store), clocks, ids));
        let (stop, stopped) = watch::channel(false);
        let webhook_client =
            SharedClient::new(options.webhooks.client(), Arc::clone(&options.webhooks.keyring));
        let mut relay = Self { options, feed: Feed(store), records, webhook_client, stop, thread: None };
        describe();
        let runners = relay.runners(&stopped);
        let stock_masters = relay.stock_master_workers(&stopped);
        let supervisor = relay.supervisor(stopped);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = move || {
            let tasks = LocalSet::new();
            let mut running: Vec<_> =
                runners.into_iter().map(|runner| tasks.spawn_local(runner.run())).collect();
            running.push(tasks.spawn_local(supervisor.run()));
            running.extend(stock_masters.into_iter().map(|worker| tasks.spawn_local(worker.run())));
            tasks.block_on(&runtime, async {
                for task in running {
                    if let Err(error) = task.await {
                        tracing::error!(%error, "a task of the relay ended");
                    }
                }
            });
        };
        relay.thread = Some(std::thread::Builder::new().name("relay".to_owned()).spawn(work)?);
        Ok(relay)
    }

    /// The `source` of every event.
    pub fn source(&self) -> &str {
        &self.options.source
    }

    /// Reads the certificates of webhooks again. Sinks read their files at each connection.
    pub fn reload_files(&self) {
        self.webhook_client.replace(self.options.webhooks.client());
    }

    fn runners(&self, stop: &watch::Receiver<bool>) -> Vec<Runner> {
        let runner = |sink| Runner {
            sink: sinks::sink(&self.options, sink, &self.feed.0),
            options: sink.clone(),
            source: self.options.source.as_str().into(),
            instance: self.options.instance.as_str().into(),
            is_shared: self.options.is_shared,
            feed: self.feed.clone(),
            records: Arc::clone(&self.records),
            stop: stop.clone(),
        };
        self.options.sinks.iter().map(runner).collect()
    }

    fn stock_master_workers(&self, stop: &watch::Receiver<bool>) -> Vec<stock_masters::Worker> {
        let worker = |options: &StockMasterOptions| stock_masters::Worker {
            options: options.clone(),
            instance: self.options.instance.as_str().into(),
            is_shared: self.options.is_shared,
            feed: self.feed.clone(),
            records: Arc::clone(&self.records),
            stop: stop.clone(),
        };
        self.options.stock_masters.iter().map(worker).collect()
    }

    /// Whether other instances may serve the same store.
    pub(crate) fn is_shared(&self) -> bool {
        self.options.is_shared
    }

    /// The stock masters that are configured here.
    pub(crate) fn stock_master_options(&self) -> &[StockMasterOptions] {
        &self.options.stock_masters
    }

    fn supervisor(&self, stop: watch::Receiver<bool>) -> Supervisor {
        Supervisor {
            source: self.options.source.as_str().into(),
            instance: self.options.instance.as_str().into(),
            is_shared: self.options.is_shared,
            client: self.webhook_client.clone(),
            feed: self.feed.clone(),
            records: Arc::clone(&self.records),
            stop,
        }
    }

    /// All sinks: those that are configured here, and those that the store has a position of.
    pub async fn statuses(&self) -> Result<Vec<Sink>, Failure> {
        let stored = self.records.read_all::<SinkRecord>().await?;
        let mut records: BTreeMap<_, _> =
            stored.into_iter().map(|(name, record, _)| (name, record)).collect();
        for sink in &self.options.sinks {
            records
                .entry(sink.name.clone())
                .or_insert_with(|| SinkRecord { kind: sink.kind.name().to_owned(), ..SinkRecord::default() });
        }
        let now = self.records.clocks.store.now();
        let mut all = Vec::with_capacity(records.len());
        for (name, mut record) in records {
            let configured = self.options.sinks.iter().find(|sink| sink.name == name);
            if configured.is_none() && !self.options.is_shared {
                // The process that served it was killed, and this one does not.
                record.holder = None;
            }
            let filter = configured.map(|sink| &sink.filter);
            let lag = lag(&self.feed, record.position, filter, now).await?;
            all.push(Sink::of(&name, &record, lag.events, Duration::from_millis(lag.millis)));
        }
        Ok(all)
    }

    /// Has a sink skip the event that it refuses.
    pub async fn skip(&self, name: &str, position: u64) -> Result<(), SinkCommandError> {
        self.change(name, RecordChange::SinkEventSkipped, |record| match &record.last_error {
            Some(refused) if refused.position == position => {
                record.skipped.push(SkippedEvent { event_id: refused.event_id.clone(), position });
                Ok(())
            }
            other => Err(SinkCommandError::NotRefused(other.as_ref().map(|refused| refused.position))),
        })
        .await
    }

    /// Has a sink get the events from a position on again.
    pub async fn replay(&self, name: &str, from: u64) -> Result<SinkReplay, SinkCommandError> {
        let to = self.feed.newest().await?;
        let first = match self.feed.after(0, 1).await? {
            FeedRead::Events(_) => 1,
            FeedRead::Archived(through) => through + 1,
        };
        self.change(name, RecordChange::Silent, |record| {
            if from < first || from > record.position {
                return Err(SinkCommandError::OutOfRange(first, record.position));
            }
            record.position = from - 1;
            record.replays += 1;
            record.replay_through = to;
            record.skipped.clear();
            Ok(())
        })
        .await?;
        Ok(SinkReplay { from_position: from, to_position: to })
    }

    /// The position of the first event that was decided at this instant or later.
    pub async fn position_at(&self, since: Instant) -> Result<u64, Failure> {
        let (mut low, mut high) = (1, self.feed.newest().await? + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.feed.after(middle - 1, 1).await? {
                FeedRead::Archived(through) => low = (through + 1).max(low + 1),
                FeedRead::Events(rows) => match rows.first() {
                    Some(row) if row.event.at < since => low = middle + 1,
                    _ => high = middle,
                },
            }
        }
        Ok(low)
    }

    /// Forgets the position of a sink that is not configured any more.
    pub async fn forget(&self, name: &str) -> Result<(), SinkCommandError> {
        if self.options.sinks.iter().any(|sink| sink.name == name) {
            return Err(SinkCommandError::InUse);
        }
        let (record, version) =
            self.records.read::<SinkRecord>(name).await?.ok_or(SinkCommandError::UnknownSink)?;
        if self.options.is_shared && record.holder.is_some() {
            // A holder that lives writes the record in this time, and the version below is not the newest one any more.
            tokio::time::sleep(RENEW_INTERVAL + RENEW_INTERVAL / 2).await;
        }
        match self.records.write::<SinkRecord>(name, None, version, RecordChange::Silent).await? {
            Some(_) => Ok(()),
            None => Err(SinkCommandError::InUse),
        }
    }

    /// Makes what a sink needs in the other system.
    pub async fn init(&self, name: &str) -> Result<(), SinkCommandError> {
        let options = self.options.sinks.iter().find(|sink| sink.name == name);
        let options = options.ok_or(SinkCommandError::UnknownSink)?;
        let mut sink = sinks::sink(&self.options, options, &self.feed.0);
        sink.init().await.map_err(|error| SinkCommandError::SinkFailed(error.message))
    }

    async fn change(
        &self,
        name: &str,
        change: RecordChange,
        set: impl Fn(&mut SinkRecord) -> Result<(), SinkCommandError>,
    ) -> Result<(), SinkCommandError> {
        for _ in 0..TRIES {
            let (mut record, version) =
                self.records.read(name).await?.ok_or(SinkCommandError::UnknownSink)?;
            set(&mut record)?;
            if self.records.write(name, Some(&record), version, change).await?.is_some() {
                return Ok(());
            }
        }
        Err(SinkCommandError::Store(Failure::Overloaded))
    }
}

/// Ends the tasks and waits for them. Other instances can take the sinks at once then.
impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the relay's thread panicked");
        }
    }
}

fn describe() {
    metrics::describe_counter!("stockhold_relay_delivered_total", "Events that a sink has confirmed");
    metrics::describe_gauge!(
        "stockhold_relay_lag_events",
        "Events of the feed that a sink of this instance has not got yet"
    );
    metrics::describe_counter!(
        "stockhold_webhook_attempts_total",
        "Attempts to deliver to a webhook, by whether it confirmed"
    );
    metrics::describe_counter!(
        "stockhold_stock_master_batches_total",
        "Batches of decrements that a stock master has booked"
    );
    metrics::describe_counter!(
        "stockhold_stock_master_corrections_total",
        "Totals that were set to fit the figure of a stock master"
    );
    metrics::describe_counter!(
        "stockhold_stock_master_failures_total",
        "Calls to a stock master that failed or were refused"
    );
    metrics::describe_counter!(
        "stockhold_stock_master_findings_total",
        "What comparisons with a stock master have found, by its kind"
    );
    metrics::describe_counter!("stockhold_relay_failures_total", "Deliveries that a sink did not confirm");
}
