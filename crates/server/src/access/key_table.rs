//! The table of API keys: a task reads all keys of the store again and again, so that a key that another instance has revoked
//! ends here too. The same task writes when keys were last used, and deletes keys that ended longer ago than lists show.

use super::Access;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use stockhold_domain::{
    Command, Envelope, EventId, Instant, Label, Origin, Record, RecordChange, RecordKind, RecordValue,
    RequestId, SetRecord,
};
use stockhold_service::{KeyRecord, Principal};
use stockhold_store::clock::Clock;
use stockhold_store::ids::IdSource;
use stockhold_store::{Failure, Query, QueryResult, Request, Store};

/// How often the keys are read. It is well below [`stockhold_service::MAX_KEY_TABLE_AGE_SECONDS`].
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for the keys.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time of one round for its writes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Most times of last use that one round writes, and most keys that it deletes.
const WRITES_AT_ONCE: usize = 16;
/// Keys that are read at a time.
const PAGE: usize = 256;
/// How far the stored time of the last use may be behind, in microseconds.
const LAST_USED_LAG_MICROS: i64 = 3_600_000_000;

/// The task's view of the server.
pub(crate) struct KeyTableTask {
    pub(crate) access: Arc<Access>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: IdSource,
}

impl KeyTableTask {
    /// Reads the keys once.
    pub(crate) async fn refresh(&mut self) -> Result<(), Failure> {
        // The instant before the read: what was revoked later may be missing.
        let at = self.clock.now();
        let reading = read_all(&*self.store);
        let records = tokio::time::timeout(READ_TIMEOUT, reading)
            .await
            .unwrap_or_else(|_| Err(Failure::Unavailable("the API keys were not read in time".to_owned())))?;
        let mut keys = Vec::with_capacity(records.len());
        let (mut stale, mut long_ended) = (Vec::new(), Vec::new());
        for record in &records {
            let Some(value) = &record.value else { continue };
            match KeyRecord::from_bytes(value.as_bytes()) {
                Ok(key) if !key.is_listed(at) => long_ended.push(record),
                Ok(key) => {
                    if let Some(used) = self.unwritten_use(&key) {
                        let mut used_key = key.clone();
                        used_key.last_used_at = Some(used);
                        stale.push((record, used_key));
                    }
                    keys.push(key);
                }
                Err(error) => tracing::error!(id = record.key.id.as_str(), %error, "an API key is ignored"),
            }
        }
        if !records.is_empty() {
            self.access.authenticator.require_credentials();
        }
        self.access.authenticator.refresh_keys(keys, at);
        // The rest follows in the next rounds. The table must not grow old meanwhile.
        let writes = async {
            for (record, key) in stale.into_iter().take(WRITES_AT_ONCE) {
                self.write(record, RecordValue::new(&key.to_bytes()).ok()).await;
            }
            for record in long_ended.into_iter().take(WRITES_AT_ONCE) {
                self.write(record, None).await;
            }
        };
        let _ = tokio::time::timeout(WRITE_TIMEOUT, writes).await;
        Ok(())
    }

    /// Reads the keys for as long as the server runs.
    pub(crate) async fn run(mut self) -> Infallible {
        let mut is_failing = false;
        loop {
            tokio::time::sleep(REFRESH_INTERVAL).await;
            match self.refresh().await {
                Ok(()) => {
                    if is_failing {
                        tracing::info!("the API keys are read again");
                    }
                    is_failing = false;
                }
                Err(error) => {
                    if !is_failing {
                        tracing::warn!(%error, "the API keys can't be read");
                    }
                    is_failing = true;
                }
            }
        }
    }

    /// When a key was used, if the store does not know that closely enough.
    fn unwritten_use(&self, key: &KeyRecord) -> Option<Instant> {
        let used = self.access.authenticator.last_use(key.key_id)?;
        is_behind(key.last_used_at, used).then_some(used)
    }

    /// Writes the record of a key, or deletes it. If somebody else has changed it meanwhile, the next round tries again.
    async fn write(&mut self, record: &Record, value: Option<RecordValue>) {
        let now = self.clock.now();
        let command = Command::SetRecord(SetRecord {
            key: record.key.clone(),
            expected_version: record.version,
            value,
            change: RecordChange::Silent,
        });
        let request_id = RequestId::Made(EventId::new(now, self.ids.random()).as_u128());
        let envelope = Envelope {
            access: stockhold_domain::Access::Unrestricted,
            command,
            key: None,
            fresh: self.ids.generate(now, 0),
            origin: Origin { actor: Principal::system().actor, key_id: None, request_id, trace: None },
        };
        if let Err(error) = stockhold_store::call(&*self.store, Request::Command(Box::new(envelope))).await {
            tracing::debug!(%error, "the record of an API key was not written");
        }
    }
}

/// Whether the stored time of the last use is to be written again.
fn is_behind(written: Option<Instant>, used: Instant) -> bool {
    written.is_none_or(|written| used.micros().saturating_sub(written.micros()) >= LAST_USED_LAG_MICROS)
}

/// All API keys of the store.
async fn read_all(store: &dyn Store) -> Result<Vec<Record>, Failure> {
    let mut all: Vec<Record> = Vec::new();
    let mut after: Option<Label> = None;
    loop {
        let query = Query::Records { kind: RecordKind::ApiKey, after, limit: PAGE };
        let QueryResult::Records(page) = stockhold_store::query(store, query).await? else {
            return Err(Failure::Internal("the store answered another question".to_owned()));
        };
        let is_last = page.len() < PAGE;
        after = page.last().map(|record| record.key.id.clone());
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_use_is_written_once_an_hour_at_most() {
        let at = |micros: i64| Instant::from_micros(1_800_000_000_000_000 + micros);
        assert!(is_behind(None, at(0)), "the first use");
        for later in [-1, 0, 1, 3_599_999_999] {
            assert!(!is_behind(Some(at(0)), at(later)), "{later} µs later");
        }
        assert!(is_behind(Some(at(0)), at(3_600_000_000)));
    }
}
