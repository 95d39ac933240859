//! From the `Authorization` header of a request to its caller.
//!
//! API keys come from a table that a task refreshes from the store. A key that is not in the table may be a new one: the caller
//! of [`Authenticator::authenticate`] then reads it from the store and asks again. So a new key works at once, and a revoked one
//! ends within [`MAX_KEY_TABLE_AGE_SECONDS`] on every instance.

use crate::api_key::ApiKey;
use crate::hold_token::HoldTokenKey;
use crate::jwt::{Issuer, JwtError, VerifiedToken, VerifiedTokens, unverified_issuer};
use crate::key_record::{KeyId, KeyRecord};
use crate::permission::CredentialFault;
use crate::principal::Principal;
use crate::rate_limit::RateLimit;
use crate::root_key::RootKey;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use stockhold_domain::Instant;

/// Oldest table of keys that is trusted, in seconds. With an older one nobody knows which keys were revoked.
pub const MAX_KEY_TABLE_AGE_SECONDS: u64 = 5;
/// Longest credential that is read, in bytes.
const MAX_CREDENTIAL_BYTES: usize = crate::jwt::MAX_TOKEN_BYTES;
/// How old the time of a key's last use on this instance may be, in microseconds.
const USE_LAG_MICROS: u64 = 1_000_000;

/// When a credential is checked, by two clocks.
#[derive(Clone, Copy, Debug)]
pub struct CheckTime {
    /// The wall clock, which may step: credentials end by it.
    pub wall: Instant,
    /// The time of a monotonic clock since its start: the table of keys ages by it.
    pub steady: Duration,
}

/// A caller, and the rate limit of its credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Who it is.
    pub principal: Principal,
    /// Its own rate limit, if its credential has one.
    pub rate_limit: Option<RateLimit>,
}

/// Why a request has no caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthenticationError {
    /// The credential does not count.
    Refused {
        /// What is wrong.
        fault: CredentialFault,
        /// A sentence for the caller.
        why: String,
        /// The id of the key or the name of the issuer, for the log; never a secret.
        subject: Option<String>,
    },
    /// The key is not in the table: read its record from the store, call [`Authenticator::add_key`], and try again once.
    UnknownKey(KeyId),
    /// It is a token that was not seen before: checking its signature costs more than all else. Call [`Authenticator::verify`] unless
    /// the caller has sent too many bad ones.
    UnverifiedToken,
    /// It is a hold token, and the key that signs them is not known here: read it from the store, call
    /// [`Authenticator::set_hold_token_key`], and try again once.
    NoSigningKey,
    /// The credential can't be checked at the moment.
    Unavailable(String),
}

/// Everything that credentials are checked with.
pub struct Authenticator {
    root_key: Option<RootKey>,
    issuers: Vec<Issuer>,
    tokens: VerifiedTokens,
    keys: RwLock<KeyTable>,
    /// Whether there was ever a key. Servers without credentials need not lock the table for it.
    has_keys: AtomicBool,
    hold_tokens: RwLock<Option<HoldTokenKey>>,
    anonymous: Arc<Caller>,
    root: Arc<Caller>,
}

#[derive(Default)]
struct KeyTable {
    keys: HashMap<KeyId, KeyEntry>,
    /// On the monotonic clock of [`CheckTime`].
    refreshed_at: Option<Duration>,
}

struct KeyEntry {
    record: KeyRecord,
    /// The state of the record is at least as new as this, on the monotonic clock of [`CheckTime`].
    known_at: Duration,
    /// When it was last used on this instance, in microseconds since 1970; 0 if it was not.
    used_at: AtomicI64,
    caller: Arc<Caller>,
}

impl Authenticator {
    /// An authenticator of these settings, without API keys so far.
    pub fn new(root_key: Option<RootKey>, issuers: Vec<Issuer>) -> Self {
        let unlimited = |principal| Arc::new(Caller { principal, rate_limit: None });
        Self {
            root_key,
            issuers,
            tokens: VerifiedTokens::default(),
            keys: RwLock::default(),
            has_keys: AtomicBool::new(false),
            hold_tokens: RwLock::default(),
            anonymous: unlimited(Principal::anonymous()),
            root: unlimited(Principal::root()),
        }
    }

    /// The configured issuers.
    pub fn issuers(&self) -> &[Issuer] {
        &self.issuers
    }

    /// Whether callers need a credential: there is a root key, an issuer or an API key, which may have ended.
    pub fn is_required(&self) -> bool {
        self.root_key.is_some() || !self.issuers.is_empty() || self.has_keys.load(Ordering::Relaxed)
    }

    /// The caller of requests without a credential.
    pub fn anonymous(&self) -> Arc<Caller> {
        Arc::clone(&self.anonymous)
    }

    /// Replaces the table of keys by all keys of the store, as they were at a time of the monotonic clock.
    pub fn refresh_keys(&self, records: Vec<KeyRecord>, at: Duration) {
        let entries =
            records.into_iter().filter_map(|record| Some((record.key_id, KeyEntry::new(record, at)?)));
        let mut keys: HashMap<_, _> = entries.collect();
        let mut table = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        for (id, old) in std::mem::take(&mut table.keys) {
            if old.known_at > at {
                // It was changed here while the store was read.
                keys.insert(id, old);
            } else if let Some(entry) = keys.get(&id) {
                entry.used_at.store(old.used_at.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        if !keys.is_empty() {
            self.require_credentials();
        }
        *table = KeyTable { keys, refreshed_at: Some(at) };
    }

    /// From now on callers need a credential. A store with a key, even one that can't be read, never opens the API again.
    pub fn require_credentials(&self) {
        self.has_keys.store(true, Ordering::Relaxed);
    }

    /// Adds or replaces one key, as it was at a time of the monotonic clock.
    pub fn add_key(&self, record: KeyRecord, at: Duration) {
        let key_id = record.key_id;
        if let Some(entry) = KeyEntry::new(record, at) {
            let mut table = self.keys.write().unwrap_or_else(PoisonError::into_inner);
            // Another request may have read or written a newer state meanwhile.
            if table.keys.get(&key_id).is_none_or(|known| known.known_at <= at) {
                table.keys.insert(key_id, entry);
            }
            drop(table);
            self.require_credentials();
        }
    }

    /// When a key was last used on this instance.
    pub fn last_use(&self, id: KeyId) -> Option<Instant> {
        let used = self.read_keys().keys.get(&id)?.used_at.load(Ordering::Relaxed);
        (used > 0).then(|| Instant::from_micros(used))
    }

    /// The key that signs hold tokens, if it is known here.
    pub fn hold_token_key(&self) -> Option<HoldTokenKey> {
        self.hold_tokens.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the key that signs hold tokens.
    pub fn set_hold_token_key(&self, key: HoldTokenKey) {
        *self.hold_tokens.write().unwrap_or_else(PoisonError::into_inner) = Some(key);
    }

    /// The caller of a request. `address` is the caller's, behind trusted proxies.
    pub fn authenticate(
        &self,
        authorization: Option<&[u8]>,
        address: IpAddr,
        now: CheckTime,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        match self.look_up(authorization, address, now) {
            Err(AuthenticationError::UnverifiedToken) => self.verify(authorization, now.wall),
            found => found,
        }
    }

    /// The same, except that the signature of a token that was not seen before is not checked.
    pub fn look_up(
        &self,
        authorization: Option<&[u8]>,
        address: IpAddr,
        now: CheckTime,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        let Some(authorization) = authorization else {
            if !self.is_required() {
                return Ok(Arc::clone(&self.anonymous));
            }
            let why = "This request needs a credential. Send it as Authorization: Bearer, followed by an API key or a token.";
            return Err(refused(CredentialFault::Missing, why));
        };
        let credential = bearer(authorization)?;
        if ApiKey::has_prefix(credential) {
            return self.by_api_key(credential, address, now);
        }
        if HoldTokenKey::has_prefix(credential) {
            return self.by_hold_token(credential);
        }
        // No root key has this form. So its digest is not taken of a token, which is long.
        if credential.split('.').count() == 3 {
            return self.by_seen_token(credential, now.wall);
        }
        if self.root_key.as_ref().is_some_and(|root| root.matches(credential)) {
            return Ok(Arc::clone(&self.root));
        }
        Err(refused(
            CredentialFault::Malformed,
            "The credential is no API key, no token and not the root key.",
        ))
    }

    fn by_api_key(
        &self,
        text: &str,
        address: IpAddr,
        now: CheckTime,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        let key = ApiKey::parse(text)
            .map_err(|error| refused(CredentialFault::Malformed, &format!("The credential {error}.")))?;
        let key_id = KeyId::of(key.digest());
        let table = self.read_keys();
        let age = table.refreshed_at.map(|at| now.steady.saturating_sub(at));
        if age.is_none_or(|age| age > Duration::from_secs(MAX_KEY_TABLE_AGE_SECONDS)) {
            return Err(AuthenticationError::Unavailable(
                "the API keys could not be read in time".to_owned(),
            ));
        }
        let entry = table.keys.get(&key_id).ok_or(AuthenticationError::UnknownKey(key_id))?;
        let fault = if entry.record.digest != key.digest() {
            Some((CredentialFault::Unknown, UNKNOWN_KEY.to_owned()))
        } else if entry.record.revoked_at.is_some() {
            Some((CredentialFault::Revoked, "The API key was revoked.".to_owned()))
        } else if entry.record.has_ended(now.wall) {
            Some((CredentialFault::Expired, "The API key has expired.".to_owned()))
        } else if !entry.record.allows_address(address) {
            Some((CredentialFault::Network, format!("The API key may not be used from {address}.")))
        } else {
            None
        };
        if let Some((fault, why)) = fault {
            return Err(AuthenticationError::Refused { fault, why, subject: Some(key_id.to_string()) });
        }
        // Written once a second at most, so that processors do not fight over it.
        let wall = now.wall.micros();
        if wall.abs_diff(entry.used_at.load(Ordering::Relaxed)) > USE_LAG_MICROS {
            entry.used_at.store(wall, Ordering::Relaxed);
        }
        Ok(Arc::clone(&entry.caller))
    }

    fn by_hold_token(&self, text: &str) -> Result<Arc<Caller>, AuthenticationError> {
        let keys = self.hold_tokens.read().unwrap_or_else(PoisonError::into_inner);
        let Some(key) = keys.as_ref() else { return Err(AuthenticationError::NoSigningKey) };
        let principal = key.verify(text).ok().and_then(Principal::of_hold);
        let principal =
            principal.ok_or_else(|| refused(CredentialFault::Malformed, "The hold token is not valid."))?;
        Ok(Arc::new(Caller { principal, rate_limit: None }))
    }

    fn by_seen_token(&self, token: &str, now: Instant) -> Result<Arc<Caller>, AuthenticationError> {
        let keys_version = |name: &str| self.issuer(name).map(Issuer::keys_version);
        let seen = self.tokens.find(token, seconds(now), keys_version);
        seen.map(|token| bearer_of(&token)).ok_or(AuthenticationError::UnverifiedToken)
    }

    /// Checks the signature of a token that was not seen before, and remembers it.
    pub fn verify(
        &self,
        authorization: Option<&[u8]>,
        now: Instant,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        let token = bearer(authorization.unwrap_or_default())?;
        let name = unverified_issuer(token).ok_or_else(|| {
            refused(CredentialFault::Malformed, "The token is no JWT, or its claims can't be read.")
        })?;
        let issuer = self.issuer(&name).ok_or_else(|| refused_token(&JwtError::UnknownIssuer, None))?;
        let checked = issuer.verify(token, seconds(now)).map_err(|error| match error {
            JwtError::KeysUnavailable => AuthenticationError::Unavailable(error.to_string()),
            other => refused_token(&other, Some(issuer.name())),
        })?;
        Ok(bearer_of(&self.tokens.insert(token, checked)))
    }

    fn issuer(&self, name: &str) -> Option<&Issuer> {
        self.issuers.iter().find(|issuer| issuer.name() == name)
    }

    fn read_keys(&self) -> std::sync::RwLockReadGuard<'_, KeyTable> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The caller with a token.
fn bearer_of(token: &VerifiedToken) -> Arc<Caller> {
    Arc::new(Caller { principal: token.principal.clone(), rate_limit: None })
}

fn seconds(now: Instant) -> u64 {
    u64::try_from(now.micros() / 1_000_000).unwrap_or(0)
}

/// The text for a key that nobody knows.
pub(crate) const UNKNOWN_KEY: &str = "There is no such API key.";

impl KeyEntry {
    /// `None` when the record's principal or limit can't be used, which the creation of keys prevents.
    fn new(record: KeyRecord, known_at: Duration) -> Option<Self> {
        let caller = Caller { principal: record.to_principal()?, rate_limit: record.limit().ok()? };
        Some(Self { record, known_at, used_at: AtomicI64::new(0), caller: Arc::new(caller) })
    }
}

/// The refusal of a key that the store does not have either.
pub fn unknown_key(id: KeyId) -> AuthenticationError {
    let (fault, subject) = (CredentialFault::Unknown, Some(id.to_string()));
    AuthenticationError::Refused { fault, why: UNKNOWN_KEY.to_owned(), subject }
}

fn bearer(authorization: &[u8]) -> Result<&str, AuthenticationError> {
    let malformed = |why: &str| refused(CredentialFault::Malformed, why);
    let text = std::str::from_utf8(authorization).map_err(|_| malformed("The credential is no text."))?;
    let scheme = text.get(.."Bearer ".len()).filter(|scheme| scheme.eq_ignore_ascii_case("Bearer "));
    let credential = scheme.map(|scheme| text[scheme.len()..].trim());
    let credential = credential
        .filter(|credential| !credential.is_empty())
        .ok_or_else(|| malformed("The Authorization header must be Bearer, a space and a credential."))?;
    if credential.len() > MAX_CREDENTIAL_BYTES {
        return Err(malformed("The credential is longer than 8,192 bytes."));
    }
    Ok(credential)
}

fn refused(fault: CredentialFault, why: &str) -> AuthenticationError {
    AuthenticationError::Refused { fault, why: why.to_owned(), subject: None }
}

fn refused_token(error: &JwtError, issuer: Option<&str>) -> AuthenticationError {
    let fault = match error {
        JwtError::Expired => CredentialFault::Expired,
        JwtError::UnknownIssuer | JwtError::UnknownKey => CredentialFault::Unknown,
        _ => CredentialFault::Malformed,
    };
    let text = error.to_string();
    let mut why = text.get(..1).unwrap_or_default().to_uppercase();
    why.push_str(text.get(1..).unwrap_or_default());
    why.push('.');
    AuthenticationError::Refused { fault, why, subject: issuer.map(str::to_owned) }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("issuers", &self.issuers).finish_non_exhaustive()
    }
}
