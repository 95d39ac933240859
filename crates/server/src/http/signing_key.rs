//! The key that signs hold tokens. The store makes it when the first token is asked for, and keeps it.

use super::request_error::RequestError;
use super::worker::{RequestContext, Worker};
use crate::secrets_at_rest::{open_key, stored_key};
use stockhold_api::problem::Problem;
use stockhold_domain::{
    Command, Label, Outcome, Record, RecordChange, RecordKey, RecordKind, RecordValue, Rejection, SetRecord,
};
use stockhold_service::{HoldTokenKey, random_bytes};
use stockhold_store::{Query, QueryResult};

/// The id of the key's record.
const RECORD_ID: &str = "hold_tokens";

impl Worker {
    /// The key that signs hold tokens. It is made if the store has none.
    pub(super) async fn hold_token_key(
        &self,
        context: RequestContext<'_>,
    ) -> Result<HoldTokenKey, RequestError> {
        if let Some(key) = self.load_hold_token_key().await? {
            return Ok(key);
        }
        let bytes = random_bytes::<{ HoldTokenKey::BYTES }>();
        let bytes = bytes.map_err(|error| RequestError::internal(error.to_string()))?;
        let stored = stored_key(&record_key()?.id, &bytes, self.customers.keyring())
            .map_err(|error| RequestError::internal(error.to_string()))?;
        let command = Command::SetRecord(SetRecord {
            key: record_key()?,
            expected_version: 0,
            value: Some(value(&stored)?),
            change: RecordChange::Silent,
        });
        match self.run(context, command, None).await? {
            // Another instance was quicker: its key counts.
            Outcome::Done(_) | Outcome::Replayed(_) | Outcome::Refused(Rejection::RecordChanged { .. }) => {}
            Outcome::Refused(rejection) => return Err(Problem::from(rejection).into()),
            Outcome::Later => {
                return Err(RequestError::internal("a store answered that it will answer later"));
            }
        }
        self.load_hold_token_key()
            .await?
            .ok_or_else(|| RequestError::internal("the signing key is not there"))
    }

    /// The key that signs hold tokens, if the store has one.
    pub(super) async fn load_hold_token_key(&self) -> Result<Option<HoldTokenKey>, RequestError> {
        if let Some(key) = self.access.authenticator.hold_token_key() {
            return Ok(Some(key));
        }
        let QueryResult::Record(record) = self.find(Query::Record(record_key()?)).await? else {
            return Err(RequestError::wrong_answer());
        };
        let Some(Record { value: Some(value), .. }) = record else { return Ok(None) };
        let bytes = open_key(&record_key()?.id, value.as_bytes(), self.customers.keyring())
            .map_err(|error| RequestError::internal(format!("the signing key of hold tokens: {error}")))?;
        let key = HoldTokenKey::new(&bytes);
        self.access.authenticator.set_hold_token_key(key.clone());
        Ok(Some(key))
    }
}

fn record_key() -> Result<RecordKey, RequestError> {
    let id = Label::new(RECORD_ID).map_err(|error| RequestError::internal(error.to_string()))?;
    Ok(RecordKey { kind: RecordKind::SigningKey, id })
}

fn value(bytes: &[u8]) -> Result<RecordValue, RequestError> {
    RecordValue::new(bytes).map_err(|error| RequestError::internal(format!("{error:?}")))
}
