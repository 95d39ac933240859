//! One configured issuer, and the check of its tokens.

use super::claims::{Claims, NotANumber};
use super::key_set::{KeySet, KeySetError};
use super::{JwtError, MAX_TOKEN_BYTES, NOT_BEFORE_LEEWAY_SECONDS, VerifiedToken, ring_provider};
use crate::principal::Principal;
use crate::scope::{Scope, ScopeSet};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, AlgorithmFamily, Validation};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use stockhold_domain::{Label, Restrictions};

/// The settings of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerConfig {
    /// The claim `iss` of its tokens.
    pub issuer: String,
    /// What the claim `aud` has to be or contain.
    pub audience: String,
    /// The signature algorithms that its tokens may have. All need keys of one kind.
    pub algorithms: Vec<String>,
    /// The claim with the scopes.
    pub scopes_claim: String,
    /// The claim with the caller's name.
    pub principal_claim: String,
    /// The claim with the locations that the caller may see. Without it, callers are not restricted.
    pub locations_claim: Option<String>,
}

/// Why an issuer can't be configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssuerError {
    /// `issuer` or `audience` is empty.
    Empty(&'static str),
    /// `issuer` has a `#`, which separates it from the caller's name in events.
    Separator,
    /// An algorithm is not known, or needs a shared secret.
    Algorithm(String),
    /// There is no algorithm.
    NoAlgorithm,
    /// The algorithms need keys of different kinds.
    MixedFamilies,
}

impl fmt::Display for IssuerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty(name) => write!(f, "{name} must not be empty"),
            Self::Separator => f.write_str("issuer must not have a #"),
            Self::Algorithm(name) => write!(
                f,
                "algorithm {name:?} is not accepted; use RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA"
            ),
            Self::NoAlgorithm => f.write_str("algorithms must name at least one"),
            Self::MixedFamilies => {
                f.write_str("algorithms must all need one kind of key: RS and PS together, or ES, or EdDSA")
            }
        }
    }
}

impl std::error::Error for IssuerError {}

/// An issuer with its keys of the moment.
pub struct Issuer {
    config: IssuerConfig,
    family: AlgorithmFamily,
    validation: Validation,
    keys: RwLock<CurrentKeys>,
    /// Whether a token named a key that the set does not have.
    misses_key: AtomicBool,
}

#[derive(Default)]
struct CurrentKeys {
    /// `None` when they were never fetched, or are too old.
    set: Option<Arc<KeySet>>,
    /// Raised by each change, so that tokens are checked again.
    version: u64,
    /// The bytes that the set was read from.
    source: Vec<u8>,
}

impl Issuer {
    /// An issuer without keys so far.
    pub fn new(config: IssuerConfig) -> Result<Self, IssuerError> {
        ring_provider::install();
        for (name, text) in [("issuer", &config.issuer), ("audience", &config.audience)] {
            if text.is_empty() {
                return Err(IssuerError::Empty(name));
            }
        }
        if config.issuer.contains('#') {
            return Err(IssuerError::Separator);
        }
        let mut algorithms = Vec::new();
        for name in &config.algorithms {
            let known = name.parse::<Algorithm>().ok().filter(|one| one.family() != AlgorithmFamily::Hmac);
            algorithms.push(known.ok_or_else(|| IssuerError::Algorithm(name.clone()))?);
        }
        let family = algorithms.first().ok_or(IssuerError::NoAlgorithm)?.family();
        if algorithms.iter().any(|algorithm| algorithm.family() != family) {
            return Err(IssuerError::MixedFamilies);
        }
        // Times are checked below: the clock is given, and the two leeways differ.
        let mut validation = Validation::new_for_family(family);
        validation.algorithms = algorithms;
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        Ok(Self { config, family, validation, keys: RwLock::default(), misses_key: AtomicBool::new(false) })
    }

    /// The claim `iss` of its tokens.
    pub fn name(&self) -> &str {
        &self.config.issuer
    }

    /// Replaces the keys by those of a JWK set. Returns whether they changed.
    pub fn set_jwks(&self, json: &[u8]) -> Result<bool, KeySetError> {
        self.replace(json, KeySet::from_jwks(json, self.family)?)
    }

    /// Replaces the keys by the one of a PEM file. Returns whether it changed.
    pub fn set_public_key(&self, pem: &[u8]) -> Result<bool, KeySetError> {
        self.replace(pem, KeySet::from_pem(pem, self.family)?)
    }

    #[expect(clippy::unnecessary_wraps, reason = "both callers return it")]
    fn replace(&self, source: &[u8], set: KeySet) -> Result<bool, KeySetError> {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if keys.set.is_some() && keys.source == source {
            return Ok(false);
        }
        *keys = CurrentKeys { set: Some(Arc::new(set)), version: keys.version + 1, source: source.to_vec() };
        Ok(true)
    }

    /// Whether a token named a key that is not in the set: the issuer may have new keys.
    pub fn misses_key(&self) -> bool {
        self.misses_key.load(Ordering::Relaxed)
    }

    /// Forgets that a key was missed, before the set is fetched again.
    pub fn clear_missed_key(&self) {
        self.misses_key.store(false, Ordering::Relaxed);
    }

    /// Drops the keys: they are too old to be trusted.
    pub fn drop_keys(&self) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        *keys = CurrentKeys { version: keys.version + 1, ..CurrentKeys::default() };
    }

    /// The version of the keys: it changes with them.
    pub fn keys_version(&self) -> u64 {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).version
    }

    /// Checks a token of this issuer at an instant, in seconds since 1970.
    pub fn verify(&self, token: &str, now_seconds: u64) -> Result<VerifiedToken, JwtError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(JwtError::Malformed("the token is longer than 8,192 bytes"));
        }
        let header =
            jsonwebtoken::decode_header(token).map_err(|_| JwtError::Malformed("the token is no JWT"))?;
        if !header.typ.as_deref().is_none_or(is_access_token) {
            return Err(JwtError::Malformed("the token's typ is neither JWT nor at+jwt"));
        }
        // A token may demand that the reader understands an extension. This one understands none.
        if header.crit.is_some() {
            return Err(JwtError::Malformed("the token has critical headers, which are not supported"));
        }
        if !self.validation.algorithms.contains(&header.alg) {
            return Err(JwtError::Malformed("the token's algorithm is not configured for its issuer"));
        }
        let (set, keys_version) = {
            let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            (keys.set.clone().ok_or(JwtError::KeysUnavailable)?, keys.version)
        };
        let key = set.find(header.kid.as_deref(), header.alg).ok_or_else(|| {
            self.misses_key.store(true, Ordering::Relaxed);
            JwtError::UnknownKey
        })?;
        let decoded = jsonwebtoken::decode::<Claims>(token, key, &self.validation);
        let claims = decoded.map_err(|error| self::error(error.kind()))?.claims;
        self.check(&claims, now_seconds, keys_version)
    }

    fn check(&self, claims: &Claims, now: u64, keys_version: u64) -> Result<VerifiedToken, JwtError> {
        if !claims.has("iss", self.name()) || claims.text("iss").is_none() {
            return Err(JwtError::UnknownIssuer);
        }
        if !claims.has("aud", &self.config.audience) {
            return Err(JwtError::Audience);
        }
        let expires_at = match claims.seconds("exp") {
            Ok(Some(at)) => at,
            Err(NotANumber) => return Err(JwtError::Malformed("the token's exp is no number")),
            Ok(None) => return Err(JwtError::Malformed("the token has no exp")),
        };
        if now >= expires_at {
            return Err(JwtError::Expired);
        }
        match claims.seconds("nbf") {
            Err(NotANumber) => return Err(JwtError::Malformed("the token's nbf is no number")),
            Ok(Some(at)) if at > now.saturating_add(NOT_BEFORE_LEEWAY_SECONDS) => {
                return Err(JwtError::NotYetValid);
            }
            Ok(_) => {}
        }
        let name = claims.text(&self.config.principal_claim).filter(|name| !name.is_empty());
        let name =
            name.ok_or(JwtError::Malformed("the token lacks the configured claim with the caller's name"))?;
        let scopes = claims.words(&self.config.scopes_claim).unwrap_or_default();
        let scopes: ScopeSet = scopes.into_iter().filter_map(|word| Scope::from_name(word).ok()).collect();
        let locations = match &self.config.locations_claim {
            None => None,
            // A token that lacks the claim must not see more than one that has it.
            Some(claim) => Some(self.locations(claims, claim)?),
        };
        let restrictions = Restrictions { locations, ..Restrictions::default() };
        let principal = Principal::of_token(self.name(), name, scopes, restrictions).ok_or(
            JwtError::Malformed("the token's issuer and caller's name have more than 123 bytes together"),
        )?;
        Ok(VerifiedToken { principal, expires_at, issuer: self.name().to_owned(), keys_version })
    }

    #[expect(clippy::unused_self, reason = "a part of the check")]
    fn locations(&self, claims: &Claims, claim: &str) -> Result<Arc<[Label]>, JwtError> {
        let words = claims.words(claim).unwrap_or_default();
        let mut locations = Vec::with_capacity(words.len());
        for word in words {
            locations.push(
                Label::new(word).map_err(|_| JwtError::Malformed("a location of the token is no label"))?,
            );
        }
        locations.sort_unstable();
        locations.dedup();
        Ok(locations.into())
    }
}

/// RFC 7515, 4.1.9: a `typ` without a slash leaves `application/` out, and case does not matter.
fn is_access_token(typ: &str) -> bool {
    let short = typ.get(.."application/".len()).filter(|start| start.eq_ignore_ascii_case("application/"));
    let name = short.map_or(typ, |start| &typ[start.len()..]);
    name.eq_ignore_ascii_case("jwt") || name.eq_ignore_ascii_case("at+jwt")
}

fn error(kind: &ErrorKind) -> JwtError {
    match kind {
        ErrorKind::InvalidSignature => JwtError::Signature,
        ErrorKind::InvalidAlgorithm => JwtError::Malformed("the token's algorithm does not fit its key"),
        _ => JwtError::Malformed("the token's claims can't be read"),
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("name", &self.name()).finish_non_exhaustive()
    }
}
