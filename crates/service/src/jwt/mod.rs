//! Tokens of identity providers: JWT (RFC 7519), as access tokens of RFC 9068 and plain ones.
//!
//! Only asymmetric signatures are accepted, and the algorithms are those of the configuration, never of the token alone. A key
//! comes only from the configured set of the issuer that the token names: what a token says about keys (`jku`, `x5u`, `jwk`) is
//! ignored.

mod cache;
mod claims;
mod issuer;
mod key_set;
mod ring_provider;

pub use cache::VerifiedTokens;
pub use claims::unverified_issuer;
pub use issuer::{Issuer, IssuerConfig, IssuerError};
pub use key_set::KeySetError;

use crate::principal::Principal;
use std::fmt;

/// Longest token that is read, in bytes.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// A token whose signature and claims were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedToken {
    /// The caller.
    pub principal: Principal,
    /// When it ends, in seconds since 1970.
    pub expires_at: u64,
    /// The name of its issuer.
    pub(crate) issuer: String,
    /// The version of the issuer's key set that it was checked with.
    pub(crate) keys_version: u64,
}

/// Why a token is refused. The texts go to the caller, so they repeat nothing of the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwtError {
    /// It is no token of the expected form; what is wrong.
    Malformed(&'static str),
    /// No issuer with this name is configured.
    UnknownIssuer,
    /// The issuer has no key with the token's `kid`. Its set may be out of date.
    UnknownKey,
    /// The signature is wrong.
    Signature,
    /// It is for another audience.
    Audience,
    /// Its `exp` is past.
    Expired,
    /// Its `nbf` is more than 30 seconds ahead.
    NotYetValid,
    /// The issuer's keys were never fetched, or are too old: it can't be checked now.
    KeysUnavailable,
}

/// Tolerance for the clock of an issuer that is ahead, in seconds.
pub(crate) const NOT_BEFORE_LEEWAY_SECONDS: u64 = 30;

impl fmt::Display for JwtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => f.write_str(what),
            Self::UnknownIssuer => f.write_str("the token's issuer is not configured here"),
            Self::UnknownKey => f.write_str("the token's issuer has no key with this kid"),
            Self::Signature => f.write_str("the token's signature is wrong"),
            Self::Audience => f.write_str("the token is for another audience"),
            Self::Expired => f.write_str("the token has expired"),
            Self::NotYetValid => f.write_str("the token is not valid yet"),
            Self::KeysUnavailable => {
                f.write_str("the keys of the token's issuer are not available at the moment")
            }
        }
    }
}

impl std::error::Error for JwtError {}
