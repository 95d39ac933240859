//! Has a deliverer for each enabled endpoint.

use super::SharedClient;
use super::deliverer::Deliverer;
use super::endpoint::Endpoint;
use crate::feed::Feed;
use crate::records::RelayRecords;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use stockhold_api::webhook_record::{WebhookRecord, WebhookStatus};
use stockhold_store::Failure;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How often the settings of the endpoints are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Watches the settings of all endpoints.
pub(crate) struct Supervisor {
    pub(crate) source: Arc<str>,
    pub(crate) instance: Arc<str>,
    pub(crate) is_shared: bool,
    pub(crate) client: SharedClient,
    pub(crate) feed: Feed,
    pub(crate) records: Arc<RelayRecords>,
    /// Becomes true when the relay stops.
    pub(crate) stop: watch::Receiver<bool>,
}

/// A deliverer that runs.
struct Running {
    /// `None` ends it.
    endpoint: watch::Sender<Option<Arc<Endpoint>>>,
    task: JoinHandle<()>,
}

impl Supervisor {
    /// Runs until the relay stops.
    pub(crate) async fn run(self) {
        let mut running: HashMap<String, Running> = HashMap::new();
        let mut looked_at = None;
        let mut stop = self.stop.clone();
        loop {
            // Settings change with an event, so without new events there is nothing to read.
            let newest = self.feed.0.newest();
            if looked_at != Some(newest) {
                match self.look(&mut running).await {
                    Ok(is_done) => looked_at = is_done.then_some(newest),
                    Err(error) => tracing::warn!(%error, "the settings of webhooks can't be read"),
                }
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        for (_, one) in running {
            one.endpoint.send_replace(None);
            if let Err(error) = one.task.await {
                tracing::error!(%error, "a deliverer of webhooks ended");
            }
        }
    }

    /// Starts, changes and ends deliverers. Returns false if one has to end before it can be started again.
    async fn look(&self, running: &mut HashMap<String, Running>) -> Result<bool, Failure> {
        running.retain(|_, one| !one.task.is_finished());
        let mut enabled = HashMap::new();
        for (id, record, version) in self.records.read_all::<WebhookRecord>().await? {
            if record.status != WebhookStatus::Enabled {
                continue;
            }
            enabled.insert(id, Arc::new(Endpoint::new(record, version)));
        }
        for (id, one) in &*running {
            if !enabled.contains_key(id) {
                one.endpoint.send_replace(None);
            }
        }
        let mut is_done = true;
        for (id, endpoint) in enabled {
            match running.get(&id) {
                Some(one) => {
                    one.endpoint.send_if_modified(|known| {
                        is_done &= known.is_some();
                        let is_new = known.as_ref().is_some_and(|known| known.version != endpoint.version);
                        if is_new {
                            *known = Some(endpoint);
                        }
                        is_new
                    });
                }
                None => {
                    let one = self.start(id.clone(), endpoint);
                    running.insert(id, one);
                }
            }
        }
        Ok(is_done)
    }

    fn start(&self, id: String, endpoint: Arc<Endpoint>) -> Running {
        let (sender, endpoint) = watch::channel(Some(endpoint));
        let deliverer = Deliverer {
            id,
            endpoint,
            source: Arc::clone(&self.source),
            instance: Arc::clone(&self.instance),
            is_shared: self.is_shared,
            feed: self.feed.clone(),
            records: Arc::clone(&self.records),
            client: self.client.clone(),
        };
        Running { endpoint: sender, task: tokio::task::spawn_local(deliverer.run()) }
    }
}
