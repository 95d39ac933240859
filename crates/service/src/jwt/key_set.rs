//! The public keys of an issuer: a JWK set (RFC 7517), or one key in a PEM file.

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// Most keys of a set that are used.
const MAX_KEYS: usize = 64;

/// Public keys, each with its id if it has one.
#[derive(Clone, Debug, Default)]
pub(super) struct KeySet {
    keys: Vec<PublicKey>,
}

#[derive(Clone, Debug)]
struct PublicKey {
    kid: Option<String>,
    /// The one algorithm that the key is for, if its set says so.
    algorithm: Option<Algorithm>,
    key: DecodingKey,
}

/// Why keys can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySetError {
    /// It is no JWK set.
    NotASet,
    /// No key of the set is of the family that the issuer's algorithms need.
    NoKey,
    /// It is no public key in PEM form of that family.
    NotAKey,
}

impl fmt::Display for KeySetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotASet => "is no JWK set: a JSON object with a list `keys`",
            Self::NoKey => "has no key for the configured algorithms",
            Self::NotAKey => "is no public key in PEM form for the configured algorithms",
        })
    }
}

impl std::error::Error for KeySetError {}

#[derive(Deserialize)]
struct JwkSetDocument {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a JWK set. Keys of other families, for encryption, or of unknown types are skipped, because an issuer may publish
    /// them for others.
    pub(super) fn from_jwks(json: &[u8], family: AlgorithmFamily) -> Result<Self, KeySetError> {
        let document: JwkSetDocument = serde_json::from_slice(json).map_err(|_| KeySetError::NotASet)?;
        let keys: Vec<PublicKey> =
            document.keys.into_iter().filter_map(|value| public_key(value, family)).take(MAX_KEYS).collect();
        if keys.is_empty() { Err(KeySetError::NoKey) } else { Ok(Self { keys }) }
    }

    /// Reads one key in PEM form.
    pub(super) fn from_pem(pem: &[u8], family: AlgorithmFamily) -> Result<Self, KeySetError> {
        let key = match family {
            AlgorithmFamily::Rsa => DecodingKey::from_rsa_pem(pem),
            AlgorithmFamily::Ec => DecodingKey::from_ec_pem(pem),
            AlgorithmFamily::Ed => DecodingKey::from_ed_pem(pem),
            AlgorithmFamily::Hmac => return Err(KeySetError::NotAKey),
        };
        let key = key.map_err(|_| KeySetError::NotAKey)?;
        Ok(Self { keys: vec![PublicKey { kid: None, algorithm: None, key }] })
    }

    /// The key that a token names. A token without `kid` uses the only key there is.
    pub(super) fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let found = match (kid, self.keys.as_slice()) {
            // A PEM file gives no id, so it can't contradict the token's.
            (_, [only]) if only.kid.is_none() => only,
            (None, [only]) => only,
            (None, _) => return None,
            (Some(kid), keys) => keys.iter().find(|key| key.kid.as_deref() == Some(kid))?,
        };
        found.algorithm.is_none_or(|only| only == algorithm).then_some(&found.key)
    }
}

fn public_key(value: Value, family: AlgorithmFamily) -> Option<PublicKey> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let of_family = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => family == AlgorithmFamily::Rsa,
        AlgorithmParameters::EllipticCurve(_) => family == AlgorithmFamily::Ec,
        AlgorithmParameters::OctetKeyPair(_) => family == AlgorithmFamily::Ed,
        _ => false,
    };
    let for_signatures =
        jwk.common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature);
    if !of_family || !for_signatures {
        return None;
    }
    let algorithm = match jwk.common.key_algorithm {
        None => None,
        // A key for an algorithm that is not known here is of no use here.
        Some(algorithm) => Some(algorithm.to_string().parse::<Algorithm>().ok()?),
    };
    Some(PublicKey { kid: jwk.common.key_id.clone(), algorithm, key: DecodingKey::from_jwk(&jwk).ok()? })
}
