//! Who calls, and what they may do. This crate stands between the wire and the store: HTTP and every later protocol turn
//! their headers into a credential, and get a [`Principal`] or a refusal.
//!
//! It never does I/O. API keys are looked up in a table that a task refreshes from the store, the keys of an issuer in a set that
//! a task fetches. So it can be called on any thread, also in the middle of a request.
//!
//! No secret may leave this crate: types that hold one have no `Display`, and their `Debug` shows nothing of it.

mod permission;
mod principal;
mod scope;

mod authenticator;
mod key_admin;
mod key_record;

mod api_key;
mod hold_token;
mod root_key;
mod secret;
mod webhook_signature;

mod jwt;

mod client_address;
mod listener_principal;
mod rate_limit;

pub use api_key::{ApiKey, ApiKeyError, KeyDigest, NewApiKey};
pub use authenticator::{
    AuthenticationError, Authenticator, Caller, CheckTime, MAX_KEY_TABLE_AGE_SECONDS, unknown_key,
};
pub use client_address::{ForwardedHeader, NetworkError, TrustedProxies, network, rate_key};
pub use hold_token::{HoldTokenClaims, HoldTokenError, HoldTokenKey};
pub use jwt::{
    Issuer, IssuerConfig, IssuerError, JwtError, KeySetError, MAX_TOKEN_BYTES, VerifiedToken, VerifiedTokens,
    unverified_issuer,
};
pub use key_admin::{
    KeyAdminError, MAX_KEY_ENTRIES, MAX_ROLL_OVERLAP_SECONDS, MadeKey, NewKeySpec, create_key, may_manage,
    revoke_key, roll_key,
};
pub use key_record::{ENDED_KEYS_LISTED_SECONDS, KeyId, KeyRecord, KeyRecordError};
pub use listener_principal::{ListenerPrincipal, ListenerPrincipalSpec};
pub use permission::{CredentialFault, MissingPermission};
pub use principal::{Principal, PrincipalKind};
pub use rate_limit::{MAX_RATE, MAX_TRACKED_CALLERS, RateLimit, RateLimitError, RateLimiter, RateStatus};
pub use root_key::{MIN_ROOT_KEY_CHARS, RootKey, RootKeyError};
pub use scope::{Scope, ScopeSet, UnknownScope};
pub use secret::random_bytes;
pub use webhook_signature::{WebhookSecret, WebhookSecretError};
