//! The table of API keys: a task reads all keys of the store again and again, so that a key that another instance has revoked
//! ends here too. The same task writes when keys were last used, and deletes keys that ended longer ago than lists show. Before it
//! deletes any, the store has a mark that there was a key once. Nothing deletes the mark, so an API with a key never opens again.

use super::Access;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use stockhold_domain::{
    Command, Envelope, EventId, Instant, Label, Origin, Record, RecordChange, RecordKey, RecordKind,
    RecordValue, RequestId, SetRecord,
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
/// How far the stored time of the last use may be from it, in microseconds.
const LAST_USED_LAG_MICROS: u64 = 3_600_000_000;

/// The task's view of the server.
pub(crate) struct KeyTableTask {
    pub(crate) access: Arc<Access>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: IdSource,
    /// Whether the store has the mark that there was a key, as far as this task knows.
    is_marked: bool,
}

impl KeyTableTask {
    pub(crate) fn new(
        access: Arc<Access>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: IdSource,
    ) -> Self {
        Self { access, store, clock, ids, is_marked: false }
    }

    /// Reads the keys once.
    pub(crate) async fn refresh(&mut self) -> Result<(), Failure> {
        // The time before the read: what was revoked later may be missing.
        let (at, wall) = (self.access.now(), self.clock.now());
        let reading = read_all(&*self.store);
        let records = tokio::time::timeout(READ_TIMEOUT, reading)
            .await
            .unwrap_or_else(|_| Err(Failure::Unavailable("the API keys were not read in time".to_owned())))?;
        let mut keys = Vec::with_capacity(records.len());
        let (mut stale, mut long_ended) = (Vec::new(), Vec::new());
        for record in &records {
            let Some(value) = &record.value else { continue };
            match KeyRecord::from_bytes(value.as_bytes()) {
                Ok(key) if !key.is_listed(wall) => long_ended.push(record),
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
        self.is_marked = self.is_marked || self.has_mark().await?;
        if self.is_marked || !records.is_empty() {
            self.access.authenticator.require_credentials();
        }
        self.access.authenticator.refresh_keys(keys, at);
        // The rest follows in the next rounds. The table must not grow old meanwhile.
        let writes = async {
            if !self.is_marked && !records.is_empty() {
                self.write_mark().await;
            }
            for (record, key) in stale.into_iter().take(WRITES_AT_ONCE) {
                self.write(record, RecordValue::new(&key.to_bytes()).ok()).await;
            }
            // The mark counts once it was read.
            let deletes = if self.is_marked { WRITES_AT_ONCE } else { 0 };
            for record in long_ended.into_iter().take(deletes) {
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

    /// Whether the store has the mark that there was a key.
    async fn has_mark(&self) -> Result<bool, Failure> {
        let query = Query::Record(mark()?);
        match tokio::time::timeout(READ_TIMEOUT, stockhold_store::query(&*self.store, query)).await {
            Ok(Ok(QueryResult::Record(record))) => Ok(record.is_some()),
            Ok(Ok(_)) => Err(Failure::Internal("the store answered another question".to_owned())),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::Unavailable("the API keys were not read in time".to_owned())),
        }
    }

    async fn write_mark(&mut self) {
        let Ok(key) = mark() else { return };
        self.set(SetRecord {
            key,
            expected_version: 0,
            value: RecordValue::new(b"1").ok(),
            change: RecordChange::Silent,
        })
        .await;
    }

    /// Writes the record of a key, or deletes it. If somebody else has changed it meanwhile, the next round tries again.
    async fn write(&mut self, record: &Record, value: Option<RecordValue>) {
        let (key, expected_version) = (record.key.clone(), record.version);
        self.set(SetRecord { key, expected_version, value, change: RecordChange::Silent }).await;
    }

    async fn set(&mut self, set: SetRecord) {
        let now = self.clock.now();
        let request_id = RequestId::Made(EventId::new(now, self.ids.random()).as_u128());
        let envelope = Envelope {
            access: stockhold_domain::Access::Unrestricted,
            command: Command::SetRecord(set),
            key: None,
            fresh: self.ids.generate(now, 0),
            origin: Origin { actor: Principal::system().actor, key_id: None, request_id, trace: None },
        };
        if let Err(error) = stockhold_store::call(&*self.store, Request::Command(Box::new(envelope))).await {
            tracing::debug!(%error, "a record of API keys was not written");
        }
    }
}

/// The name of the mark that there was a key.
fn mark() -> Result<RecordKey, Failure> {
    let id = Label::new("required").map_err(|error| Failure::Internal(error.to_string()))?;
    Ok(RecordKey { kind: RecordKind::Credentials, id })
}

/// Whether the stored time of the last use is to be written again.
fn is_behind(written: Option<Instant>, used: Instant) -> bool {
    written.is_none_or(|written| used.micros().abs_diff(written.micros()) >= LAST_USED_LAG_MICROS)
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
    use crate::access::{AllowedHosts, CrossOrigin, RateLimits};
    use std::collections::BTreeMap;
    use stockhold_embedded::{EmbeddedStore, Options};
    use stockhold_service::{Authenticator, NewKeySpec, RateLimit, TrustedProxies, create_key, revoke_key};
    use stockhold_store::clock::WallClock;

    fn task(store: &Arc<EmbeddedStore>) -> KeyTableTask {
        let limits = RateLimits { principal: None, address: RateLimit::new(1, 1).unwrap() };
        let access = Access::new(
            Authenticator::new(None, Vec::new()),
            TrustedProxies::default(),
            (CrossOrigin::default(), AllowedHosts::default()),
            BTreeMap::new(),
            limits,
            None,
        );
        let ids = IdSource::from_system().unwrap();
        KeyTableTask::new(Arc::new(access), store.clone(), Arc::new(WallClock), ids)
    }

    /// An instance that starts later.
    async fn is_open_after_a_start(store: &Arc<EmbeddedStore>) -> bool {
        let mut later = task(store);
        later.refresh().await.unwrap();
        !later.access.authenticator.is_required()
    }

    #[tokio::test]
    async fn an_api_with_a_key_does_not_open_when_the_key_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(EmbeddedStore::open(dir.path(), Options::default()).unwrap());
        assert!(is_open_after_a_start(&store).await, "there never was a key");
        let long_ago = Instant::from_micros(WallClock.now().micros() - 31 * 86_400 * 1_000_000);
        let spec = NewKeySpec {
            name: "A key".to_owned(),
            principal: "shop".to_owned(),
            scopes: vec!["inventory:read".to_owned()],
            ..NewKeySpec::default()
        };
        let (key, _) = create_key(&Principal::root(), &spec, long_ago).unwrap();
        let key = revoke_key(&key, long_ago);
        let id = Label::new(&key.key_id.to_string()).unwrap();
        let mut housekeeper = task(&store);
        housekeeper
            .set(SetRecord {
                key: RecordKey { kind: RecordKind::ApiKey, id },
                expected_version: 0,
                value: RecordValue::new(&key.to_bytes()).ok(),
                change: RecordChange::KeyCreated,
            })
            .await;
        // The first round writes the mark, and the second one reads it and deletes the key.
        housekeeper.refresh().await.unwrap();
        assert_eq!(read_all(&*store).await.unwrap().len(), 1, "not before the mark is there");
        housekeeper.refresh().await.unwrap();
        assert!(read_all(&*store).await.unwrap().is_empty(), "it ended long ago");
        assert!(!is_open_after_a_start(&store).await);
    }

    #[test]
    fn a_last_use_is_written_once_an_hour_at_most() {
        let at = |micros: i64| Instant::from_micros(1_800_000_000_000_000 + micros);
        assert!(is_behind(None, at(0)), "the first use");
        for later in [-1, 0, 1, 3_599_999_999] {
            assert!(!is_behind(Some(at(0)), at(later)), "{later} µs later");
        }
        assert!(is_behind(Some(at(0)), at(3_600_000_000)));
        assert!(is_behind(Some(at(3_600_000_000)), at(0)), "written by a clock that was ahead");
    }
}
