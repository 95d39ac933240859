//! The secrets of the service that a store has: the key that signs hold tokens, and the secrets of webhooks. With a key in the
//! configuration they are stored encrypted. What is in clear, or encrypted with an older key, is written again at a start and with the
//! data keys of customers.

use stockhold_api::webhook_record::WebhookRecord;
use stockhold_customers::{Keyring, SealError, SecretKind};
use stockhold_domain::{
    Command, Envelope, EventId, Label, Origin, Record, RecordChange, RecordKind, RecordValue, RequestId,
    SetRecord,
};
use stockhold_service::{HoldTokenKey, Principal};
use stockhold_store::clock::Clock;
use stockhold_store::ids::IdSource;
use stockhold_store::{Failure, Query, QueryResult, Request, Store};

/// Records that are read at a time.
const PAGE: usize = 256;

/// What became of the secrets of a store.
#[derive(Debug, Default)]
pub(crate) struct Resealed {
    /// Records that were written again.
    pub(crate) written: u64,
    /// Records with a secret that can't be read, and why.
    pub(crate) unreadable: Vec<(String, SealError)>,
}

/// Encrypts with the first key what is not. Another writer of the same record does it, too, so a lost race is no loss.
pub(crate) async fn reseal(
    store: &dyn Store,
    clock: &dyn Clock,
    keyring: &Keyring,
) -> Result<Resealed, Failure> {
    let mut ids = IdSource::from_system().map_err(|error| Failure::Internal(error.to_string()))?;
    let mut done = Resealed::default();
    for kind in [RecordKind::SigningKey, RecordKind::Webhook] {
        let mut after: Option<Label> = None;
        loop {
            let query = Query::Records { kind, after, limit: PAGE };
            let QueryResult::Records(page) = stockhold_store::query(store, query).await? else {
                return Err(Failure::Internal("the store answered another question".to_owned()));
            };
            let is_last = page.len() < PAGE;
            after = page.last().map(|record| record.key.id.clone());
            for record in page {
                match resealed(&record, keyring) {
                    Ok(None) => {}
                    Ok(Some(value)) => {
                        write(store, clock, &mut ids, &record, value).await?;
                        done.written += 1;
                    }
                    Err(error) => done.unreadable.push((record.key.id.as_str().to_owned(), error)),
                }
            }
            if is_last {
                break;
            }
        }
    }
    Ok(done)
}

/// The value of a record with its secrets encrypted by the first key. `None` if nothing is to be written.
fn resealed(record: &Record, keyring: &Keyring) -> Result<Option<RecordValue>, SealError> {
    let Some(value) = &record.value else { return Ok(None) };
    let bytes = match record.key.kind {
        RecordKind::SigningKey => {
            let key = open_key(&record.key.id, value.as_bytes(), keyring)?;
            let text = str::from_utf8(value.as_bytes()).unwrap_or_default();
            if is_sealed_key(value.as_bytes()) && keyring.is_newest(text) {
                return Ok(None);
            }
            let Some(sealed) = keyring.seal(SecretKind::HoldTokenKey, &record.key.id, &key)? else {
                return Ok(None);
            };
            sealed.into_bytes()
        }
        _ => {
            let Ok(mut webhook) = WebhookRecord::from_bytes(value.as_bytes()) else { return Ok(None) };
            for secret in &webhook.secrets {
                secret.secret.open(&record.key.id, keyring)?;
            }
            if !webhook.seal(&record.key.id, keyring)? {
                return Ok(None);
            }
            webhook.to_bytes()
        }
    };
    RecordValue::new(&bytes).map(Some).map_err(|_| SealError::Damaged)
}

/// The stored form of the key that signs hold tokens.
pub(crate) fn stored_key(
    id: &Label,
    key: &[u8; HoldTokenKey::BYTES],
    keyring: &Keyring,
) -> Result<Vec<u8>, SealError> {
    let sealed = keyring.seal(SecretKind::HoldTokenKey, id, key)?;
    Ok(sealed.map_or_else(|| key.to_vec(), String::into_bytes))
}

/// The key that signs hold tokens, from its stored form.
pub(crate) fn open_key(
    id: &Label,
    stored: &[u8],
    keyring: &Keyring,
) -> Result<[u8; HoldTokenKey::BYTES], SealError> {
    let key = if is_sealed_key(stored) {
        let text = str::from_utf8(stored).map_err(|_| SealError::Damaged)?;
        keyring.unseal(SecretKind::HoldTokenKey, id, text)?
    } else {
        stored.to_vec()
    };
    key.try_into().map_err(|_| SealError::Damaged)
}

/// A key in clear is random bytes of one length, and a sealed one is longer.
fn is_sealed_key(stored: &[u8]) -> bool {
    stored.len() != HoldTokenKey::BYTES
}

async fn write(
    store: &dyn Store,
    clock: &dyn Clock,
    ids: &mut IdSource,
    record: &Record,
    value: RecordValue,
) -> Result<(), Failure> {
    let now = clock.now();
    let command = Command::SetRecord(SetRecord {
        key: record.key.clone(),
        expected_version: record.version,
        value: Some(value),
        change: RecordChange::Silent,
    });
    let request_id = RequestId::Made(EventId::new(now, ids.random()).as_u128());
    let envelope = Envelope {
        access: stockhold_domain::Access::Unrestricted,
        command,
        key: None,
        fresh: ids.generate(now, 0),
        origin: Origin { actor: Principal::system().actor, key_id: None, request_id, trace: None },
    };
    stockhold_store::call(store, Request::Command(Box::new(envelope))).await.map(drop)
}
