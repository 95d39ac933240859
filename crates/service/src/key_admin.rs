//! Making, rolling and revoking API keys. Pure: the caller stores the records and shows the new key.

use crate::api_key::NewApiKey;
use crate::client_address::network;
use crate::key_record::{KeyId, KeyRecord, UnknownParts};
use crate::permission::MissingPermission;
use crate::principal::Principal;
use crate::rate_limit::RateLimit;
use crate::scope::ScopeSet;
use std::io;
use std::sync::Arc;
use stockhold_domain::{Instant, Label, Restrictions};

/// Longest time that a rolled key may stay valid, in seconds: 30 days.
pub const MAX_ROLL_OVERLAP_SECONDS: u32 = 2_592_000;
/// Most scopes, locations, channels or networks that a request names for one key.
pub const MAX_KEY_ENTRIES: usize = 256;

/// What a new key shall be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewKeySpec {
    /// What people call it.
    pub name: String,
    /// The caller that it stands for.
    pub principal: String,
    /// Names of scopes; at least one.
    pub scopes: Vec<String>,
    /// Restricts it to these locations.
    pub locations: Option<Vec<String>>,
    /// Restricts it to these sales channels.
    pub channels: Option<Vec<String>>,
    /// Restricts it to reservations of its principal.
    pub own_reservations_only: bool,
    /// When it ends by itself.
    pub expires_at: Option<Instant>,
    /// The networks that it may be used from.
    pub allowed_cidrs: Option<Vec<String>>,
    /// How often it may be used, as `per_second` and `burst`.
    pub rate_limit: Option<(u32, u32)>,
}

/// Why a key is not made, rolled or revoked.
#[derive(Debug)]
pub enum KeyAdminError {
    /// A member of the request is wrong: a JSON pointer to it, and what is wrong.
    Invalid(String, String),
    /// The caller would give, or get by a roll, what it lacks.
    Missing(MissingPermission),
    /// The key has ended.
    Ended,
    /// There were no random bytes.
    Random(io::Error),
}

#[expect(clippy::needless_pass_by_value, reason = "errors and texts are passed as they are")]
fn invalid(pointer: &str, detail: impl ToString) -> KeyAdminError {
    KeyAdminError::Invalid(pointer.to_owned(), detail.to_string())
}

/// A new key: its record, and its text, which is shown once.
pub type MadeKey = (KeyRecord, NewApiKey);

/// Makes a key for a caller.
pub fn create_key(caller: &Principal, spec: &NewKeySpec, now: Instant) -> Result<MadeKey, KeyAdminError> {
    let name = Label::new(&spec.name).map_err(|error| invalid("/name", error))?;
    let principal = Label::new(&spec.principal).map_err(|error| invalid("/principal", error))?;
    let mut scopes = Vec::with_capacity(spec.scopes.len());
    for (number, text) in spec.scopes.iter().enumerate() {
        let scope = crate::scope::Scope::from_name(text)
            .map_err(|error| invalid(&format!("/scopes/{number}"), error))?;
        scopes.push(scope);
    }
    let scopes: ScopeSet = scopes.into_iter().collect();
    if scopes.is_empty() {
        return Err(invalid("/scopes", "must name at least one scope"));
    }
    check_length("/scopes", spec.scopes.len())?;
    let restrictions = Restrictions {
        locations: labels("/locations", spec.locations.as_deref())?,
        channels: labels("/channels", spec.channels.as_deref())?,
        own_reservations_only: spec.own_reservations_only,
    };
    let mut allowed_networks = Vec::new();
    if let Some(cidrs) = &spec.allowed_cidrs {
        check_length("/allowed_cidrs", cidrs.len())?;
        for (number, text) in cidrs.iter().enumerate() {
            let read = network(text).map_err(|error| invalid(&format!("/allowed_cidrs/{number}"), error))?;
            allowed_networks.push(read);
        }
    }
    if let Some((per_second, burst)) = spec.rate_limit {
        RateLimit::new(per_second, burst).map_err(|error| invalid("/rate_limit", error))?;
    }
    if spec.expires_at.is_some_and(|at| at <= now) {
        return Err(invalid("/expires_at", "must be in the future"));
    }
    if Principal::of_key(0, &principal, scopes, Restrictions::default()).is_none() {
        return Err(invalid("/principal", "must have at most 124 bytes"));
    }
    may_give(caller, scopes, &restrictions)?;
    let text = NewApiKey::generate().map_err(KeyAdminError::Random)?;
    let digest = text.digest();
    let record = KeyRecord {
        key_id: KeyId::of(digest),
        name,
        principal,
        scopes,
        restrictions,
        expires_at: spec.expires_at,
        allowed_networks,
        rate_limit: spec.rate_limit,
        created_at: now,
        last_used_at: None,
        revoked_at: None,
        rolled_from: None,
        digest,
        unknown: UnknownParts::default(),
    };
    Ok((record, text))
}

/// Replaces a key by a new one with the same rights. The old one ends after so many seconds. Returns the new key and the old
/// one's record as it is then.
pub fn roll_key(
    caller: &Principal,
    old: &KeyRecord,
    expire_old_in_seconds: u32,
    now: Instant,
) -> Result<(MadeKey, KeyRecord), KeyAdminError> {
    if expire_old_in_seconds > MAX_ROLL_OVERLAP_SECONDS {
        return Err(invalid("/expire_old_in_seconds", "must be a whole number from 0 to 2,592,000"));
    }
    // First, so that a caller learns nothing of a key that it may not manage.
    may_give(caller, old.scopes, &old.restrictions)?;
    if old.has_ended(now) {
        return Err(KeyAdminError::Ended);
    }
    let text = NewApiKey::generate().map_err(KeyAdminError::Random)?;
    let digest = text.digest();
    let made = KeyRecord {
        key_id: KeyId::of(digest),
        created_at: now,
        last_used_at: None,
        rolled_from: Some(old.key_id),
        digest,
        ..old.clone()
    };
    let mut ended = old.clone();
    if expire_old_in_seconds == 0 {
        ended.revoked_at = Some(now);
    } else {
        let at =
            Instant::from_micros(now.micros().saturating_add(i64::from(expire_old_in_seconds) * 1_000_000));
        ended.expires_at = Some(old.expires_at.map_or(at, |already| already.min(at)));
    }
    Ok(((made, text), ended))
}

/// Ends a key now. A key that was revoked before stays as it is.
pub fn revoke_key(old: &KeyRecord, now: Instant) -> KeyRecord {
    KeyRecord { revoked_at: Some(old.revoked_at.unwrap_or(now)), ..old.clone() }
}

/// Whether a caller may see and end a key: one that is restricted manages the keys within its own restrictions.
pub fn may_manage(caller: &Principal, key: &KeyRecord) -> Result<(), MissingPermission> {
    let (own, of_key) = (&caller.restrictions, &key.restrictions);
    are_within(of_key.locations.as_ref(), own.locations.as_ref()).map_err(MissingPermission::Location)?;
    are_within(of_key.channels.as_ref(), own.channels.as_ref()).map_err(MissingPermission::Channel)
}

/// Nobody gives what they lack.
fn may_give(caller: &Principal, scopes: ScopeSet, wanted: &Restrictions) -> Result<(), KeyAdminError> {
    if let Some(scope) = scopes.first_missing_in(caller.scopes) {
        return Err(KeyAdminError::Missing(MissingPermission::Scope(scope)));
    }
    let own = &caller.restrictions;
    are_within(wanted.locations.as_ref(), own.locations.as_ref())
        .map_err(|lacking| KeyAdminError::Missing(MissingPermission::Location(lacking)))?;
    are_within(wanted.channels.as_ref(), own.channels.as_ref())
        .map_err(|lacking| KeyAdminError::Missing(MissingPermission::Channel(lacking)))?;
    if own.own_reservations_only && !wanted.own_reservations_only {
        return Err(invalid(
            "/own_reservations_only",
            "must be true: the caller's own key has this restriction",
        ));
    }
    Ok(())
}

/// Checks that a list is within the caller's list. The error is what is not, or `None` when everything was wanted.
fn are_within(wanted: Option<&Arc<[Label]>>, own: Option<&Arc<[Label]>>) -> Result<(), Option<Label>> {
    let Some(own) = own else { return Ok(()) };
    let wanted = wanted.ok_or(None)?;
    match wanted.iter().find(|label| !own.contains(label)) {
        Some(lacking) => Err(Some(lacking.clone())),
        None => Ok(()),
    }
}

fn labels(pointer: &str, texts: Option<&[String]>) -> Result<Option<Arc<[Label]>>, KeyAdminError> {
    let Some(texts) = texts else { return Ok(None) };
    check_length(pointer, texts.len())?;
    let mut labels = Vec::with_capacity(texts.len());
    for (number, text) in texts.iter().enumerate() {
        labels.push(Label::new(text).map_err(|error| invalid(&format!("{pointer}/{number}"), error))?);
    }
    labels.sort_unstable();
    labels.dedup();
    Ok(Some(labels.into()))
}

fn check_length(pointer: &str, length: usize) -> Result<(), KeyAdminError> {
    if length == 0 {
        return Err(invalid(pointer, "must not be empty: leave it out for no restriction"));
    }
    if length > MAX_KEY_ENTRIES {
        return Err(invalid(pointer, format!("must have at most {MAX_KEY_ENTRIES} entries, found {length}")));
    }
    Ok(())
}
