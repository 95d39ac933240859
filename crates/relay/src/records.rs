//! Reads and writes the records of sinks and of webhooks.

use std::sync::{Arc, Mutex, PoisonError};
use stockhold_api::sink_record::SinkRecord;
use stockhold_api::webhook_record::{WebhookProgress, WebhookRecord};
use stockhold_domain::{
    Access, Command, Envelope, EventId, Label, Origin, Outcome, RecordChange, RecordKey, RecordKind,
    RecordValue, Rejection, Reply, RequestId, SetRecord,
};
use stockhold_service::Principal;
use stockhold_store::clock::Clocks;
use stockhold_store::ids::IdSource;
use stockhold_store::{Answer, Failure, Query, QueryResult, Request, Store};

/// Records that are read at a time.
const PAGE: usize = 256;

/// A kind of record that the relay reads and writes.
pub(crate) trait StoredRecord: Sized {
    /// Its kind.
    const KIND: RecordKind;

    /// The bytes to store.
    fn to_stored(&self) -> Vec<u8>;

    /// Reads stored bytes.
    fn from_stored(bytes: &[u8]) -> Result<Self, String>;
}

impl StoredRecord for SinkRecord {
    const KIND: RecordKind = RecordKind::Sink;

    fn to_stored(&self) -> Vec<u8> {
        self.to_bytes()
    }

    fn from_stored(bytes: &[u8]) -> Result<Self, String> {
        Self::from_bytes(bytes).map_err(|error| error.to_string())
    }
}

impl StoredRecord for WebhookRecord {
    const KIND: RecordKind = RecordKind::Webhook;

    fn to_stored(&self) -> Vec<u8> {
        self.to_bytes()
    }

    fn from_stored(bytes: &[u8]) -> Result<Self, String> {
        Self::from_bytes(bytes).map_err(|error| error.to_string())
    }
}

impl StoredRecord for WebhookProgress {
    const KIND: RecordKind = RecordKind::WebhookProgress;

    fn to_stored(&self) -> Vec<u8> {
        self.to_bytes()
    }

    fn from_stored(bytes: &[u8]) -> Result<Self, String> {
        Self::from_bytes(bytes).map_err(|error| error.to_string())
    }
}

/// The records of a store that the relay reads and writes.
pub(crate) struct RelayRecords {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clocks: Clocks,
    ids: Mutex<IdSource>,
}

impl RelayRecords {
    pub(crate) fn new(store: Arc<dyn Store>, clocks: Clocks, ids: IdSource) -> Self {
        Self { store, clocks, ids: Mutex::new(ids) }
    }

    /// A record and its version. `None` if there is none.
    pub(crate) async fn read<R: StoredRecord>(&self, name: &str) -> Result<Option<(R, u64)>, Failure> {
        let query = Query::Record(key::<R>(name)?);
        match stockhold_store::query(&*self.store, query).await? {
            QueryResult::Record(None) => Ok(None),
            QueryResult::Record(Some(record)) => {
                let Some(value) = &record.value else { return Ok(None) };
                Ok(Some((parse(value)?, record.version)))
            }
            _ => Err(wrong_answer()),
        }
    }

    /// All records of a kind with their versions, in the order of their names.
    pub(crate) async fn read_all<R: StoredRecord>(&self) -> Result<Vec<(String, R, u64)>, Failure> {
        let mut all = Vec::new();
        let mut after: Option<Label> = None;
        loop {
            let query = Query::Records { kind: R::KIND, after, limit: PAGE };
            let QueryResult::Records(page) = stockhold_store::query(&*self.store, query).await? else {
                return Err(wrong_answer());
            };
            let is_last = page.len() < PAGE;
            after = page.last().map(|record| record.key.id.clone());
            for record in page {
                if let Some(value) = &record.value {
                    all.push((record.key.id.as_str().to_owned(), parse(value)?, record.version));
                }
            }
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Writes a record if it still has the version, and returns its new version. `None`: somebody else has changed it.
    pub(crate) async fn write<R: StoredRecord>(
        &self,
        name: &str,
        record: Option<&R>,
        expected_version: u64,
        change: RecordChange,
    ) -> Result<Option<u64>, Failure> {
        let value = match record {
            Some(record) => Some(
                RecordValue::new(&record.to_stored())
                    .map_err(|error| Failure::Internal(format!("the record {name} {error}")))?,
            ),
            None => None,
        };
        let command = Command::SetRecord(SetRecord { key: key::<R>(name)?, expected_version, value, change });
        match self.submit(command).await? {
            Outcome::Done(Reply::Record(record)) => Ok(Some(record.version)),
            Outcome::Refused(Rejection::RecordChanged { .. }) => Ok(None),
            _ => Err(wrong_answer()),
        }
    }

    /// Has a command decided, in the name of the service.
    pub(crate) async fn submit(&self, command: Command) -> Result<Outcome, Failure> {
        let request = Request::Command(Box::new(self.envelope(command)));
        match stockhold_store::call(&*self.store, request).await? {
            Answer::Outcome(outcome) => Ok(outcome),
            _ => Err(wrong_answer()),
        }
    }

    /// Has commands decided in their order, each on its own.
    pub(crate) async fn submit_all(
        &self,
        commands: Vec<Command>,
    ) -> Result<Vec<Result<Outcome, Failure>>, Failure> {
        let envelopes = commands.into_iter().map(|command| self.envelope(command)).collect();
        match stockhold_store::call(&*self.store, Request::Commands(envelopes)).await? {
            Answer::Outcomes(outcomes) => Ok(outcomes),
            _ => Err(wrong_answer()),
        }
    }

    /// A new id.
    pub(crate) fn new_id(&self) -> String {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        EventId::new(self.clocks.store.now(), ids.random()).to_string()
    }

    fn envelope(&self, command: Command) -> Envelope {
        let now = self.clocks.store.now();
        let (request, fresh) = {
            let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
            (EventId::new(now, ids.random()), ids.generate(now, 0))
        };
        Envelope {
            access: Access::Unrestricted,
            command,
            key: None,
            fresh,
            origin: Origin {
                actor: Principal::system().actor,
                key_id: None,
                request_id: RequestId::Made(request.as_u128()),
                trace: None,
            },
        }
    }
}

fn key<R: StoredRecord>(name: &str) -> Result<RecordKey, Failure> {
    Ok(RecordKey { kind: R::KIND, id: label(name)? })
}

/// A text as a label. The names in the configuration are labels.
pub(crate) fn label(text: &str) -> Result<Label, Failure> {
    Label::new(text).map_err(|error| Failure::Internal(format!("{text:?}: {error}")))
}

fn parse<R: StoredRecord>(value: &RecordValue) -> Result<R, Failure> {
    R::from_stored(value.as_bytes()).map_err(Failure::Internal)
}

fn wrong_answer() -> Failure {
    Failure::Internal("the store answered another question".to_owned())
}
