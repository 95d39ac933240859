//! An endpoint as its deliverer sees it.

use super::http::{AttemptResult, EndpointUrl, SignedHeaders, WebhookClient};
use crate::filter::{EventFilter, TypeFilter};
use bytes::Bytes;
use std::time::Duration;
use stockhold_api::webhook_record::WebhookRecord;
use stockhold_domain::Instant;

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

/// Sends a message once, signed by all secrets that are valid.
pub(crate) async fn attempt(
    client: &Result<WebhookClient, String>,
    record: &WebhookRecord,
    id: &str,
    body: Bytes,
    now: Instant,
) -> AttemptResult {
    let url =
        client.as_ref().map_err(Clone::clone).and_then(|client| Ok((client, client.check_url(&record.url)?)));
    let (client, url): (&WebhookClient, EndpointUrl) = match url {
        Ok(checked) => checked,
        Err(what) => return AttemptResult::Failed(what),
    };
    let timestamp = u64::try_from(now.micros() / 1_000_000).unwrap_or(0);
    let signatures: Vec<_> = record.secrets_at(now).map(|secret| secret.sign(id, timestamp, &body)).collect();
    let headers = SignedHeaders { id, timestamp, signatures: &signatures.join(" ") };
    client.send(&url, &headers, body).await
}
