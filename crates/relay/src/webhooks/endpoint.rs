//! An endpoint as its deliverer sees it.

use super::SharedClient;
use super::http::{AttemptResult, SignedHeaders};
use crate::filter::{EventFilter, TypeFilter};
use bytes::Bytes;
use std::time::Duration;
use stockhold_api::webhook_record::WebhookRecord;
use stockhold_customers::SealError;
use stockhold_domain::{Instant, Label};

/// An enabled endpoint.
pub(crate) struct Endpoint {
    pub(crate) record: WebhookRecord,
    pub(crate) version: u64,
    pub(crate) filter: EventFilter,
}

impl Endpoint {
    pub(crate) fn new(record: WebhookRecord, version: u64) -> Self {
        let filter = filter(&record);
        Self { record, version, filter }
    }

    /// The shortest time between two deliveries.
    pub(crate) fn interval(&self) -> Duration {
        self.record.rate_limit.map_or(Duration::ZERO, |rate| Duration::from_secs(1) / rate.max(1))
    }
}

/// Which events an endpoint gets. A type that this version does not know has no effect.
pub(crate) fn filter(record: &WebhookRecord) -> EventFilter {
    let types = TypeFilter::of_feed(&record.types);
    let types = if record.may_get_access_events() { types } else { types.without_access() };
    EventFilter { types, skus: record.skus.clone(), locations: record.locations.clone() }
}

/// Sends a message once to an endpoint, signed by all secrets that are valid.
pub(crate) async fn attempt(
    client: &SharedClient,
    (webhook_id, record): (&str, &WebhookRecord),
    id: &str,
    body: Bytes,
    now: Instant,
) -> AttemptResult {
    let checked = client.get().and_then(|client| {
        let url = client.check_url(&record.url)?;
        Ok((client, url))
    });
    let (sender, url) = match checked {
        Ok(checked) => checked,
        Err(what) => return AttemptResult::Failed(what),
    };
    let secrets = Label::new(webhook_id)
        .map_err(|_| SealError::Damaged)
        .and_then(|webhook_id| record.secrets_at(&webhook_id, now, client.keyring()));
    let secrets = match secrets {
        Ok(secrets) => secrets,
        Err(error) => {
            tracing::error!(webhook = webhook_id, %error, "a webhook can't be signed");
            return AttemptResult::Failed("the secret of the endpoint can't be read".to_owned());
        }
    };
    let timestamp = u64::try_from(now.micros() / 1_000_000).unwrap_or(0);
    let signatures: Vec<_> = secrets.iter().map(|secret| secret.sign(id, timestamp, &body)).collect();
    let headers = SignedHeaders { id, timestamp, signatures: &signatures.join(" ") };
    sender.send(&url, &headers, body, now).await
}
