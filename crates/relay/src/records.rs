//! Reads and writes the records of sinks.

use std::sync::{Arc, Mutex, PoisonError};
use stockhold_api::sink_record::SinkRecord;
use stockhold_domain::{
    Command, Envelope, EventId, Label, Origin, Outcome, RecordChange, RecordKey, RecordKind, RecordValue,
    Rejection, RequestId, SetRecord,
};
use stockhold_service::Principal;
use stockhold_store::clock::Clock;
use stockhold_store::ids::IdSource;
use stockhold_store::{Answer, Failure, Query, QueryResult, Request, Store};

/// Records that are read at a time.
const PAGE: usize = 256;

/// A record and its version. Version 0: there is none.
pub(crate) type Versioned = (SinkRecord, u64);

/// The records of sinks in a store.
pub(crate) struct SinkRecords {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    ids: Mutex<IdSource>,
}

impl SinkRecords {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, ids: IdSource) -> Self {
        Self { store, clock, ids: Mutex::new(ids) }
    }

    /// The record of a sink. `None` if there is none.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<Versioned>, Failure> {
        let query = Query::Record(key(name)?);
        match stockhold_store::query(&*self.store, query).await? {
            QueryResult::Record(None) => Ok(None),
            QueryResult::Record(Some(record)) => {
                let Some(value) = &record.value else { return Ok(None) };
                Ok(Some((parse(value)?, record.version)))
            }
            _ => Err(wrong_answer()),
        }
    }

    /// The records of all sinks, in the order of their names.
    pub(crate) async fn read_all(&self) -> Result<Vec<(String, SinkRecord)>, Failure> {
        let mut all = Vec::new();
        let mut after: Option<Label> = None;
        loop {
            let query = Query::Records { kind: RecordKind::Sink, after, limit: PAGE };
            let QueryResult::Records(page) = stockhold_store::query(&*self.store, query).await? else {
                return Err(wrong_answer());
            };
            let is_last = page.len() < PAGE;
            after = page.last().map(|record| record.key.id.clone());
            for record in page {
                if let Some(value) = &record.value {
                    all.push((record.key.id.as_str().to_owned(), parse(value)?));
                }
            }
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Writes a record if it still has the version, and returns its new version. `None`: somebody else has changed it.
    pub(crate) async fn write(
        &self,
        name: &str,
        record: Option<&SinkRecord>,
        expected_version: u64,
        change: RecordChange,
    ) -> Result<Option<u64>, Failure> {
        let value = match record {
            Some(record) => Some(
                RecordValue::new(&record.to_bytes())
                    .map_err(|error| Failure::Internal(format!("the record of the sink {name} {error}")))?,
            ),
            None => None,
        };
        let command = Command::SetRecord(SetRecord { key: key(name)?, expected_version, value, change });
        let now = self.clock.now();
        let (request, fresh) = {
            let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
            (EventId::new(now, ids.random()), ids.generate(now, 0))
        };
        let envelope = Envelope {
            command,
            key: None,
            fresh,
            origin: Origin {
                actor: Principal::system().actor,
                key_id: None,
                request_id: RequestId::Made(request.as_u128()),
                trace: None,
            },
        };
        match stockhold_store::call(&*self.store, Request::Command(Box::new(envelope))).await? {
            Answer::Outcome(Outcome::Done(stockhold_domain::Reply::Record(record))) => {
                Ok(Some(record.version))
            }
            Answer::Outcome(Outcome::Refused(Rejection::RecordChanged { .. })) => Ok(None),
            _ => Err(wrong_answer()),
        }
    }
}

fn key(name: &str) -> Result<RecordKey, Failure> {
    Ok(RecordKey { kind: RecordKind::Sink, id: label(name)? })
}

fn label(text: &str) -> Result<Label, Failure> {
    Label::new(text).map_err(|error| Failure::Internal(format!("{text:?}: {error}")))
}

fn parse(value: &RecordValue) -> Result<SinkRecord, Failure> {
    SinkRecord::from_bytes(value.as_bytes()).map_err(|error| Failure::Internal(error.to_string()))
}

fn wrong_answer() -> Failure {
    Failure::Internal("the store answered another question".to_owned())
}
