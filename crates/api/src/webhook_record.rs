//! What is stored of a webhook endpoint, in two records. The routes of webhooks write the settings. The instance that delivers writes the
//! progress, and so do the routes that repeat deliveries.
//!
//! There is no row for each event. An endpoint is a position and the exceptions to it: deliveries up to the position that wait for
//! their next attempt, and those that were given up.

use serde::{Deserialize, Serialize};
use std::fmt;
use stockhold_domain::Instant;
use stockhold_service::{Scope, ScopeSet, WebhookSecret};

/// Most endpoints.
pub const WEBHOOKS: usize = 100;
/// Longest text of a failure that is stored, in bytes.
const ERROR_BYTES: usize = 60;

/// Whether an endpoint gets events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookStatus {
    /// It gets events.
    #[default]
    Enabled,
    /// It gets none, and none wait for it.
    Disabled,
}

impl WebhookStatus {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
        }
    }
}

/// A secret of an endpoint, and when it ends. Its `Debug` does not show the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointSecret {
    /// The secret.
    #[serde(with = "secret_text")]
    pub secret: WebhookSecret,
    /// The last moment at which it signs, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<i64>,
}

mod secret_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use stockhold_service::WebhookSecret;

    pub(super) fn serialize<S: Serializer>(secret: &WebhookSecret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&secret.reveal())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<WebhookSecret, D::Error> {
        let text = String::deserialize(from)?;
        WebhookSecret::parse(&text).map_err(D::Error::custom)
    }
}

/// The settings of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookRecord {
    /// Where events are sent to.
    pub url: String,
    /// Types and patterns of types; empty for all.
    #[serde(default)]
    pub types: Vec<String>,
    /// SKUs; empty for all.
    #[serde(default)]
    pub skus: Vec<String>,
    /// Locations; empty for all.
    #[serde(default)]
    pub locations: Vec<String>,
    /// Most deliveries in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<u32>,
    /// Whether it gets events.
    pub status: WebhookStatus,
    /// Why the server disabled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
    /// The secrets that sign, the newest first.
    pub secrets: Vec<EndpointSecret>,
    /// When it was created, in microseconds since 1970.
    pub created_at: i64,
    /// When its settings were changed last, in microseconds since 1970.
    pub updated_at: i64,
    /// The newest event when it was enabled. It gets the later ones.
    pub enabled_after: u64,
    /// The scopes of the caller that created it. A name that this version does not know has no effect.
    #[serde(default)]
    pub scopes: Vec<String>,
}

impl WebhookRecord {
    /// The bytes to store.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads stored bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WebhookRecordError> {
        serde_json::from_slice(bytes).map_err(WebhookRecordError)
    }

    /// The scopes of the caller that created it.
    pub fn scopes(&self) -> ScopeSet {
        self.scopes.iter().filter_map(|name| Scope::from_name(name).ok()).collect()
    }

    /// Whether it may get the events about API keys.
    pub fn may_get_access_events(&self) -> bool {
        self.scopes().contains(Scope::KeysAdmin)
    }

    /// The secrets that sign at an instant.
    pub fn secrets_at(&self, now: Instant) -> impl Iterator<Item = &WebhookSecret> {
        let valid = move |secret: &&EndpointSecret| secret.ends_at.is_none_or(|end| now.micros() <= end);
        self.secrets.iter().filter(valid).map(|secret| &secret.secret)
    }

    /// Signs with a new secret. The older ones end at an instant at the latest.
    pub fn rotate(&mut self, secret: WebhookSecret, older_end_at: Instant, now: Instant) {
        self.secrets.retain(|older| older.ends_at.is_none_or(|end| end > now.micros()));
        for older in &mut self.secrets {
            let end = older.ends_at.unwrap_or(i64::MAX).min(older_end_at.micros());
            older.ends_at = Some(end);
        }
        self.secrets.retain(|older| older.ends_at.is_none_or(|end| end > now.micros()));
        self.secrets.insert(0, EndpointSecret { secret, ends_at: None });
        self.updated_at = now.micros();
    }
}

/// A delivery that failed. Short names, because a record has up to some hundred of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedDelivery {
    /// The id of the event, which is that of the delivery too.
    #[serde(rename = "e")]
    pub event_id: String,
    /// The position of the event.
    #[serde(rename = "p")]
    pub position: u64,
    /// Attempts so far.
    #[serde(rename = "n")]
    pub attempts: u32,
    /// When the last attempt ended, in microseconds since 1970.
    #[serde(rename = "a")]
    pub at: i64,
    /// When the next attempt is due, in microseconds since 1970. `None` once it was given up.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<i64>,
    /// The status of the last answer, if there was one.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What was wrong, if there was no answer.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl FailedDelivery {
    /// A text of a failure without control characters and of bounded length.
    pub fn error_text(text: &str) -> String {
        crate::sink_record::bounded_text(text, ERROR_BYTES)
    }
}

/// Events that are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayProgress {
    /// The newest event that was sent again.
    pub position: u64,
    /// The last event to send again.
    pub through: u64,
}

/// How far the deliveries of an endpoint have come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookProgress {
    /// Every event up to here was delivered, left out by the filter, or is in one of the lists below.
    pub position: u64,
    /// `enabled_after` of the settings that it is about.
    pub enabled_after: u64,
    /// The instance that delivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// When the first delivery failed after the last one that succeeded, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<i64>,
    /// Deliveries that are tried again.
    #[serde(default)]
    pub pending: Vec<FailedDelivery>,
    /// Deliveries that were given up, the oldest first.
    #[serde(default)]
    pub failed: Vec<FailedDelivery>,
    /// Events that are sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayProgress>,
}

impl WebhookProgress {
    /// Deliveries that may wait for their next attempt. With more, no new event is sent until one of them is done.
    pub const PENDING: usize = 100;
    /// Deliveries that are remembered as given up. The oldest are forgotten first.
    pub const FAILED: usize = 150;
    /// How long a delivery is remembered as given up, in microseconds: 30 days.
    pub const FAILED_MICROS: i64 = 30 * 86_400 * 1_000_000;

    /// That of an endpoint which has got nothing yet.
    pub fn of(record: &WebhookRecord) -> Self {
        let enabled_after = record.enabled_after;
        Self { position: enabled_after, enabled_after, ..Self::default() }
    }

    /// Begins anew if the endpoint was enabled again: what happened while it was disabled waits for a replay.
    pub fn follow(&mut self, record: &WebhookRecord) {
        if self.enabled_after != record.enabled_after {
            let (holder, failed) = (self.holder.take(), std::mem::take(&mut self.failed));
            *self = Self { holder, failed, ..Self::of(record) };
        }
    }

    /// The bytes to store.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads stored bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WebhookRecordError> {
        serde_json::from_slice(bytes).map_err(WebhookRecordError)
    }

    /// Gives a delivery up.
    pub fn give_up(&mut self, delivery: FailedDelivery) {
        self.failed.push(FailedDelivery { next_at: None, ..delivery });
        let oldest = self.failed.len().saturating_sub(Self::FAILED);
        self.failed.drain(..oldest);
    }

    /// Forgets deliveries that were given up long ago.
    pub fn forget_old(&mut self, now: Instant) {
        self.failed.retain(|failed| now.micros() - failed.at < Self::FAILED_MICROS);
    }

    /// Whether an event is one of the exceptions.
    pub fn is_exception(&self, event_id: &str) -> bool {
        self.pending.iter().chain(&self.failed).any(|delivery| delivery.event_id == event_id)
    }
}

/// The bytes of a record can't be read.
#[derive(Debug)]
pub struct WebhookRecordError(serde_json::Error);

impl fmt::Display for WebhookRecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A message of serde could repeat a value.
        write!(f, "the record of a webhook can't be read: line {}, column {}", self.0.line(), self.0.column())
    }
}

impl std::error::Error for WebhookRecordError {}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::limits::RECORD_BYTES;

    fn at(seconds: i64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    fn record() -> WebhookRecord {
        WebhookRecord {
            url: "https://shop.example/hook".to_owned(),
            types: vec!["reservation.*".to_owned()],
            skus: Vec::new(),
            locations: Vec::new(),
            rate_limit: Some(10),
            status: WebhookStatus::Enabled,
            disabled_reason: None,
            secrets: vec![EndpointSecret { secret: WebhookSecret::generate().unwrap(), ends_at: None }],
            created_at: 1,
            updated_at: 1,
            enabled_after: 7,
            scopes: vec!["events:read".to_owned(), "webhooks:admin".to_owned()],
        }
    }

    #[test]
    fn settings_are_read_as_they_were_written_and_show_no_secret() {
        let record = record();
        let secret = record.secrets[0].secret.reveal();
        assert_eq!(WebhookRecord::from_bytes(&record.to_bytes()).unwrap(), record);
        assert!(!format!("{record:?}").contains(&secret));
        let damaged = String::from_utf8(record.to_bytes()).unwrap().replace("whsec_", "whsec-");
        let error = WebhookRecord::from_bytes(damaged.as_bytes()).unwrap_err().to_string();
        assert!(!error.contains("whsec-"), "{error}");
    }

    #[test]
    fn older_secrets_sign_until_the_overlap_ends() {
        let mut record = record();
        let [old, second, third] = [
            record.secrets[0].secret.clone(),
            WebhookSecret::generate().unwrap(),
            WebhookSecret::generate().unwrap(),
        ];
        record.rotate(second.clone(), at(200), at(100));
        assert_eq!(record.secrets_at(at(200)).collect::<Vec<_>>(), [&second, &old]);
        assert_eq!(record.secrets_at(at(201)).collect::<Vec<_>>(), [&second]);
        // All older ones end together, and none of them lives longer than before.
        record.rotate(third.clone(), at(300), at(150));
        assert_eq!(record.secrets_at(at(200)).collect::<Vec<_>>(), [&third, &second, &old]);
        assert_eq!(record.secrets_at(at(201)).collect::<Vec<_>>(), [&third, &second]);
        record.rotate(old.clone(), at(160), at(160));
        assert_eq!(record.secrets_at(at(160)).collect::<Vec<_>>(), [&old], "no overlap");
    }

    #[test]
    fn the_fullest_progress_fits_into_a_record() {
        let delivery = FailedDelivery {
            event_id: "01a212ce-ea56-7d81-82da-d02f932e6add".to_owned(),
            position: u64::MAX >> 11,
            attempts: 10,
            at: 1_795_627_174_558_536,
            next_at: Some(1_795_627_174_558_536),
            status: Some(500),
            error: Some(FailedDelivery::error_text(&"x".repeat(100))),
        };
        let mut progress = WebhookProgress { holder: Some("h".repeat(100)), ..WebhookProgress::default() };
        // As many may be on their way when the list becomes full.
        progress.pending = vec![delivery.clone(); WebhookProgress::PENDING + 32];
        for _ in 0..2 * WebhookProgress::FAILED {
            progress.give_up(delivery.clone());
        }
        assert_eq!(progress.failed.len(), WebhookProgress::FAILED);
        let bytes = progress.to_bytes();
        assert!(bytes.len() < RECORD_BYTES, "{}", bytes.len());
        assert_eq!(WebhookProgress::from_bytes(&bytes).unwrap(), progress);
        progress.forget_old(Instant::from_micros(delivery.at + WebhookProgress::FAILED_MICROS));
        assert_eq!(progress.failed, []);
    }
}
