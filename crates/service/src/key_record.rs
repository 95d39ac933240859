//! API keys as the store has them: everything about a key except the key itself.

use crate::api_key::KeyDigest;
use crate::client_address::{NetworkError, network};
use crate::principal::Principal;
use crate::rate_limit::{RateLimit, RateLimitError};
use crate::scope::{Scope, ScopeSet, UnknownScope};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use stockhold_domain::{Instant, Label, Restrictions};

/// How long ended keys are listed, in seconds: 30 days.
pub const ENDED_KEYS_LISTED_SECONDS: i64 = 2_592_000;

/// The id of an API key: the first half of the key's digest, so that a key is found without an index. It is no secret: a key of
/// 160 random bits can't be found from its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(u128);

const MICROS_PER_SECOND: i64 = 1_000_000;
const KEY_ID_PREFIX: &str = "key_";

impl KeyId {
    /// The id of these 128 bits.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// The id of the key with this digest.
    pub fn of(digest: KeyDigest) -> Self {
        Self(digest.first_half())
    }

    /// Reads an id as answers show it.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix(KEY_ID_PREFIX)?;
        let is_hex = hex.len() == 32 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hex.then(|| u128::from_str_radix(hex, 16).ok())?.map(Self)
    }

    /// The number.
    pub fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEY_ID_PREFIX}{:032x}", self.0)
    }
}

/// An API key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRecord {
    /// Its id.
    pub key_id: KeyId,
    /// What people call it.
    pub name: Label,
    /// The caller that it stands for. Several keys may stand for one.
    pub principal: Label,
    /// What it may do.
    pub scopes: ScopeSet,
    /// What it is restricted to.
    pub restrictions: Restrictions,
    /// When it ends by itself.
    pub expires_at: Option<Instant>,
    /// The networks that it may be used from. Empty: from everywhere.
    pub allowed_networks: Vec<IpNet>,
    /// How often it may be used, as `per_second` and `burst`.
    pub rate_limit: Option<(u32, u32)>,
    /// When it was made.
    pub created_at: Instant,
    /// When it was last used, at most an hour out of date.
    pub last_used_at: Option<Instant>,
    /// When somebody ended it.
    pub revoked_at: Option<Instant>,
    /// The key that it replaced.
    pub rolled_from: Option<KeyId>,
    pub(crate) digest: KeyDigest,
    /// What a later version stored beside this. It is written again as it was, and has no effect here.
    pub(crate) unknown: UnknownParts,
}

/// Parts of a stored key that this version does not know.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UnknownParts {
    scopes: Vec<String>,
    members: serde_json::Map<String, serde_json::Value>,
}

/// Why a stored key can't be read.
#[derive(Debug)]
pub struct KeyRecordError(String);

impl fmt::Display for KeyRecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a stored API key can't be read: {}", self.0)
    }
}

impl std::error::Error for KeyRecordError {}

impl From<KeyRecordError> for String {
    fn from(error: KeyRecordError) -> Self {
        error.to_string()
    }
}

/// The stored form: JSON, so that a later version can add members.
#[derive(Serialize, Deserialize)]
struct StoredKey {
    digest: String,
    name: String,
    principal: String,
    scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    locations: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    channels: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "is_false")]
    own_reservations_only: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    allowed_cidrs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_limit: Option<(u32, u32)>,
    created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_used_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rolled_from: Option<String>,
    #[serde(flatten)]
    unknown: serde_json::Map<String, serde_json::Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(value: &bool) -> bool {
    !value
}

impl KeyRecord {
    /// The bytes to store.
    pub fn to_bytes(&self) -> Vec<u8> {
        let texts = |labels: &Arc<[Label]>| labels.iter().map(ToString::to_string).collect();
        let known_scopes = self.scopes.iter().map(|scope| scope.name().to_owned());
        let stored = StoredKey {
            digest: self.digest.to_hex(),
            name: self.name.to_string(),
            principal: self.principal.to_string(),
            scopes: known_scopes.chain(self.unknown.scopes.iter().cloned()).collect(),
            locations: self.restrictions.locations.as_ref().map(texts),
            channels: self.restrictions.channels.as_ref().map(texts),
            own_reservations_only: self.restrictions.own_reservations_only,
            expires_at: self.expires_at.map(Instant::micros),
            allowed_cidrs: self.allowed_networks.iter().map(ToString::to_string).collect(),
            rate_limit: self.rate_limit,
            created_at: self.created_at.micros(),
            last_used_at: self.last_used_at.map(Instant::micros),
            revoked_at: self.revoked_at.map(Instant::micros),
            rolled_from: self.rolled_from.map(|id| id.to_string()),
            unknown: self.unknown.members.clone(),
        };
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Reads stored bytes. A scope or a member that this version does not know has no effect, and is kept for later versions.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyRecordError> {
        let stored: StoredKey =
            serde_json::from_slice(bytes).map_err(|error| KeyRecordError(error.to_string()))?;
        let digest =
            KeyDigest::from_hex(&stored.digest).ok_or_else(|| KeyRecordError("its digest".to_owned()))?;
        let networks =
            stored.allowed_cidrs.iter().map(|text| network(text)).collect::<Result<_, NetworkError>>();
        let is_unknown = |name: &&String| Scope::from_name(name).is_err();
        let unknown = UnknownParts {
            scopes: stored.scopes.iter().filter(is_unknown).cloned().collect(),
            members: stored.unknown,
        };
        Ok(Self {
            key_id: KeyId::of(digest),
            name: label(&stored.name)?,
            principal: label(&stored.principal)?,
            scopes: stored.scopes.iter().filter_map(|name| Scope::from_name(name).ok()).collect(),
            restrictions: Restrictions {
                locations: stored.locations.map(|texts| labels(&texts)).transpose()?,
                channels: stored.channels.map(|texts| labels(&texts)).transpose()?,
                own_reservations_only: stored.own_reservations_only,
            },
            expires_at: stored.expires_at.map(Instant::from_micros),
            allowed_networks: networks.map_err(|error| KeyRecordError(error.to_string()))?,
            rate_limit: stored.rate_limit,
            created_at: Instant::from_micros(stored.created_at),
            last_used_at: stored.last_used_at.map(Instant::from_micros),
            revoked_at: stored.revoked_at.map(Instant::from_micros),
            rolled_from: stored.rolled_from.as_deref().and_then(KeyId::parse),
            digest,
            unknown,
        })
    }

    /// Whether the key counts no more at an instant.
    pub fn has_ended(&self, now: Instant) -> bool {
        self.revoked_at.is_some() || self.expires_at.is_some_and(|at| at <= now)
    }

    /// When the key ended, if it counts no more at an instant.
    pub fn ended_at(&self, now: Instant) -> Option<Instant> {
        let expired_at = self.expires_at.filter(|at| *at <= now);
        self.revoked_at.into_iter().chain(expired_at).min()
    }

    /// Whether the key is in lists at an instant: those that ended long ago are left out.
    pub fn is_listed(&self, now: Instant) -> bool {
        let age = self.ended_at(now).map(|at| now.micros().saturating_sub(at.micros()));
        age.is_none_or(|age| age < ENDED_KEYS_LISTED_SECONDS * MICROS_PER_SECOND)
    }

    /// Whether the key may be used from an address.
    pub fn allows_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allowed_networks.is_empty()
            || self.allowed_networks.iter().any(|network| network.contains(&address))
    }

    /// The rate limit, if one is set.
    pub fn limit(&self) -> Result<Option<RateLimit>, RateLimitError> {
        self.rate_limit.map(|(per_second, burst)| RateLimit::new(per_second, burst)).transpose()
    }

    /// The caller that the key stands for.
    pub fn to_principal(&self) -> Option<Principal> {
        Principal::of_key(self.key_id.as_u128(), &self.principal, self.scopes, self.restrictions.clone())
    }
}

fn label(text: &str) -> Result<Label, KeyRecordError> {
    Label::new(text).map_err(|error| KeyRecordError(error.to_string()))
}

fn labels(texts: &[String]) -> Result<Arc<[Label]>, KeyRecordError> {
    texts.iter().map(|text| label(text)).collect()
}

impl From<UnknownScope> for KeyRecordError {
    fn from(error: UnknownScope) -> Self {
        Self(error.to_string())
    }
}
