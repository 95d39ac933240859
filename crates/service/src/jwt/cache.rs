//! Tokens that were checked already, so that the signature of each is checked once.

use super::VerifiedToken;
use lru::LruCache;
use ring::digest::{SHA256, digest};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

/// Tokens that are remembered. The least recently used one is forgotten.
const MAX_TOKENS: usize = 65_536;

/// Tokens that were checked, by their SHA-256 digests: the tokens themselves are not kept.
pub struct VerifiedTokens {
    tokens: Mutex<LruCache<[u8; 32], Arc<VerifiedToken>>>,
}

impl Default for VerifiedTokens {
    fn default() -> Self {
        let capacity = NonZeroUsize::new(MAX_TOKENS).unwrap_or(NonZeroUsize::MIN);
        Self { tokens: Mutex::new(LruCache::new(capacity)) }
    }
}

impl VerifiedTokens {
    /// What is known of a token that has not expired, if its issuer's keys are still those that it was checked with. `keys_version`
    /// gives the version of an issuer's keys, if there is such an issuer. Nothing of the token is decoded.
    pub fn find(
        &self,
        token: &str,
        now_seconds: u64,
        keys_version: impl FnOnce(&str) -> Option<u64>,
    ) -> Option<Arc<VerifiedToken>> {
        let digest = digest_of(token);
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tokens.get(&digest)?;
        if known.expires_at > now_seconds && keys_version(&known.issuer) == Some(known.keys_version) {
            return Some(Arc::clone(known));
        }
        tokens.pop(&digest);
        None
    }

    /// Remembers a token.
    pub fn insert(&self, token: &str, verified: VerifiedToken) -> Arc<VerifiedToken> {
        let verified = Arc::new(verified);
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.put(digest_of(token), Arc::clone(&verified));
        verified
    }
}

fn digest_of(token: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

impl fmt::Debug for VerifiedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VerifiedTokens")
    }
}
