//! What is stored of a webhook endpoint, in two records. The routes of webhooks write the settings. The instance that delivers writes the
//! progress, and so do the routes that repeat deliveries.
//!
//! There is no row for each event. An endpoint is a position and the exceptions to it: deliveries up to the position that wait for
//! their next attempt, and those that were given up.

use crate::printable::quote_of;
use serde::{Deserialize, Serialize};
use std::fmt;
use stockhold_customers::{Keyring, SealError, SecretKind};
use stockhold_domain::{Instant, Label};
use stockhold_service::{Scope, ScopeSet, WebhookSecret};

/// Most endpoints.
pub const WEBHOOKS: usize = 100;
/// Most characters of a failure that are stored.
const ERROR_CHARS: usize = 60;

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

/// A secret of an endpoint, as it is stored. Its `Debug` does not show the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredSecret {
    /// In clear.
    Clear(WebhookSecret),
    /// Encrypted with a key of the configuration.
    Sealed(String),
}

impl StoredSecret {
    /// The secret of an endpoint with this id.
    pub fn open(&self, id: &Label, keyring: &Keyring) -> Result<WebhookSecret, SealError> {
        match self {
            Self::Clear(secret) => Ok(secret.clone()),
            Self::Sealed(text) => {
                let bytes = keyring.unseal(SecretKind::WebhookSecret, id, text)?;
                let text = str::from_utf8(&bytes).map_err(|_| SealError::Damaged)?;
                WebhookSecret::parse(text).map_err(|_| SealError::Damaged)
            }
        }
    }

    /// Encrypts it with the first key, if there is one and it is not. Returns whether it is another text now.
    fn seal(&mut self, id: &Label, keyring: &Keyring) -> Result<bool, SealError> {
        if matches!(&*self, Self::Sealed(text) if keyring.is_newest(text)) {
            return Ok(false);
        }
        let secret = self.open(id, keyring)?;
        match keyring.seal(SecretKind::WebhookSecret, id, secret.reveal().as_bytes())? {
            Some(sealed) => {
                *self = Self::Sealed(sealed);
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

/// A secret of an endpoint, and when it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointSecret {
    /// The secret.
    #[serde(with = "secret_text")]
    pub secret: StoredSecret,
    /// The last moment at which it signs, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<i64>,
}

mod secret_text {
    use super::StoredSecret;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use stockhold_customers::is_sealed;
    use stockhold_service::WebhookSecret;

    pub(super) fn serialize<S: Serializer>(secret: &StoredSecret, to: S) -> Result<S::Ok, S::Error> {
        match secret {
            StoredSecret::Clear(secret) => to.serialize_str(&secret.reveal()),
            StoredSecret::Sealed(text) => to.serialize_str(text),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<StoredSecret, D::Error> {
        let text = String::deserialize(from)?;
        if is_sealed(&text) {
            return Ok(StoredSecret::Sealed(text));
        }
        WebhookSecret::parse(&text).map(StoredSecret::Clear).map_err(D::Error::custom)
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

    /// The secrets of the endpoint with this id that sign at an instant.
    pub fn secrets_at(
        &self,
        id: &Label,
        now: Instant,
        keyring: &Keyring,
    ) -> Result<Vec<WebhookSecret>, SealError> {
        let valid = |secret: &&EndpointSecret| secret.ends_at.is_none_or(|end| now.micros() <= end);
        self.secrets.iter().filter(valid).map(|secret| secret.secret.open(id, keyring)).collect()
    }

    /// Encrypts the secrets of the endpoint with this id by the first key, if there is one. Returns whether the record has changed.
    pub fn seal(&mut self, id: &Label, keyring: &Keyring) -> Result<bool, SealError> {
        let mut has_changed = false;
        for secret in &mut self.secrets {
            has_changed |= secret.secret.seal(id, keyring)?;
        }
        Ok(has_changed)
    }

    /// Signs with a new secret. The older ones end at an instant at the latest.
    pub fn rotate(&mut self, secret: WebhookSecret, older_end_at: Instant, now: Instant) {
        self.secrets.retain(|older| older.ends_at.is_none_or(|end| end > now.micros()));
        for older in &mut self.secrets {
            let end = older.ends_at.unwrap_or(i64::MAX).min(older_end_at.micros());
            older.ends_at = Some(end);
        }
        self.secrets.retain(|older| older.ends_at.is_none_or(|end| end > now.micros()));
        self.secrets.insert(0, EndpointSecret { secret: StoredSecret::Clear(secret), ends_at: None });
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
    /// What stands behind the status, or what was wrong if there was no answer.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl FailedDelivery {
    /// A text of a failure, printable and of bounded length.
    pub fn error_text(text: &str) -> String {
        quote_of(text, ERROR_CHARS)
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

/// Attempts that have failed one after the other, and the time in which they did. Time in which no server delivered, or nothing was to be
/// delivered, says nothing about the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// The attempts.
    pub attempts: u32,
    /// The time between them, in microseconds, without pauses in which there was no attempt to be made.
    pub micros: i64,
    /// When the last one failed, in microseconds since 1970.
    pub last_at: i64,
}

impl Failing {
    /// After so many days an endpoint is disabled.
    pub const DAYS: i64 = 5;
    /// Fewest failed attempts before that.
    pub const ATTEMPTS: u32 = 10;
    /// A longer pause than this is none between two attempts of one delivery, in microseconds: 30 hours.
    pub const LONGEST_PAUSE_MICROS: i64 = 30 * 3_600 * 1_000_000;
    const MICROS: i64 = Self::DAYS * 86_400 * 1_000_000;

    /// Notes an attempt that failed now, of a server that has delivered since an instant.
    pub fn note(&mut self, now: i64, serving_since: i64) {
        if self.attempts > 0 {
            let pause = now.saturating_sub(self.last_at.max(serving_since)).max(0);
            if pause <= Self::LONGEST_PAUSE_MICROS {
                self.micros = self.micros.saturating_add(pause);
            }
        }
        self.attempts = self.attempts.saturating_add(1);
        self.last_at = now;
    }

    /// Whether the endpoint is given up.
    pub fn is_for_good(&self) -> bool {
        self.attempts >= Self::ATTEMPTS && self.micros >= Self::MICROS
    }
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
    /// How long every attempt has failed since the last one that succeeded. `None`: the last one succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
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
            secrets: vec![EndpointSecret {
                secret: StoredSecret::Clear(WebhookSecret::generate().unwrap()),
                ends_at: None,
            }],
            created_at: 1,
            updated_at: 1,
            enabled_after: 7,
            scopes: vec!["events:read".to_owned(), "webhooks:admin".to_owned()],
        }
    }

    #[test]
    fn settings_are_read_as_they_were_written_and_show_no_secret() {
        let record = record();
        let StoredSecret::Clear(secret) = &record.secrets[0].secret else { panic!() };
        let secret = secret.reveal();
        assert_eq!(WebhookRecord::from_bytes(&record.to_bytes()).unwrap(), record);
        assert!(!format!("{record:?}").contains(&secret));
        let damaged = String::from_utf8(record.to_bytes()).unwrap().replace("whsec_", "whsec-");
        let error = WebhookRecord::from_bytes(damaged.as_bytes()).unwrap_err().to_string();
        assert!(!error.contains("whsec-"), "{error}");
    }

    #[test]
    fn older_secrets_sign_until_the_overlap_ends() {
        let mut record = record();
        let (id, none) = (Label::new("id").unwrap(), Keyring::default());
        let signing = |record: &WebhookRecord, now| record.secrets_at(&id, now, &none).unwrap();
        let [old, second, third] = [
            signing(&record, at(1)).remove(0),
            WebhookSecret::generate().unwrap(),
            WebhookSecret::generate().unwrap(),
        ];
        record.rotate(second.clone(), at(200), at(100));
        assert_eq!(signing(&record, at(200)), [second.clone(), old.clone()]);
        assert_eq!(signing(&record, at(201)), std::slice::from_ref(&second));
        // All older ones end together, and none of them lives longer than before.
        record.rotate(third.clone(), at(300), at(150));
        assert_eq!(signing(&record, at(200)), [third.clone(), second.clone(), old.clone()]);
        assert_eq!(signing(&record, at(201)), [third, second]);
        record.rotate(old.clone(), at(160), at(160));
        assert_eq!(signing(&record, at(160)), [old], "no overlap");
    }

    /// Notes failed attempts at these hours, of a server that serves since `serving_since`.
    fn failing(hours: &[i64], serving_since: i64) -> Failing {
        let hour = 3_600 * 1_000_000;
        let mut failing = Failing::default();
        for at in hours {
            failing.note(at * hour, serving_since * hour);
        }
        failing
    }

    #[test]
    fn an_endpoint_is_given_up_after_ten_attempts_in_five_days_in_which_a_server_delivered() {
        let daily = [0, 0, 1, 3, 8, 18, 32, 52, 76];
        assert!(!failing(&daily, 0).is_for_good());
        assert!(failing(&[&daily[..], &[100, 121]].concat(), 0).is_for_good());
        // Ten attempts over four days, nothing to deliver until day 8, and one more.
        let four_days = [&daily[..], &[96]].concat();
        let one_more = failing(&[&four_days[..], &[8 * 24]].concat(), 0);
        assert_eq!(
            (one_more.attempts, one_more.micros / 3_600_000_000, one_more.is_for_good()),
            (11, 96, false)
        );
        // The server was off for six days.
        let mut off = failing(&[0], 0);
        off.note(6 * 24 * 3_600_000_000, 6 * 24 * 3_600_000_000 - 1_000_000);
        assert_eq!((off.micros, off.is_for_good()), (1_000_000, false));
        // Five days and few attempts.
        assert!(!failing(&[0, 24, 48, 72, 96, 120, 144], 0).is_for_good());
    }

    #[test]
    fn secrets_are_sealed_for_their_endpoint_and_sealed_again_by_a_newer_key() {
        let keyring = |keys: &[&str]| Keyring::parse(keys.iter().copied()).unwrap();
        let one = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let two = "k2:Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";
        let [id, other] = ["id", "other"].map(|id| Label::new(id).unwrap());
        let mut record = record();
        let before = record.secrets_at(&id, at(1), &Keyring::default()).unwrap();
        assert_eq!(record.seal(&id, &Keyring::default()), Ok(false));
        assert_eq!(record.seal(&id, &keyring(&[one])), Ok(true));
        assert_eq!(record.seal(&id, &keyring(&[one])), Ok(false));
        let text = String::from_utf8(record.to_bytes()).unwrap();
        assert!(text.contains("sealed:k1:") && !text.contains("whsec_"), "{text}");
        let mut record = WebhookRecord::from_bytes(text.as_bytes()).unwrap();
        assert_eq!(record.seal(&id, &keyring(&[two])), Err(SealError::UnknownKey("k1".to_owned())));
        assert_eq!(record.seal(&id, &keyring(&[two, one])), Ok(true));
        assert_eq!(record.secrets_at(&id, at(1), &keyring(&[two])).unwrap(), before);
        assert_eq!(record.secrets_at(&other, at(1), &keyring(&[two])), Err(SealError::Damaged));
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
