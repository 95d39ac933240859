//! The root key: a secret of the configuration that may do everything. It exists to make the first API keys and is never
//! stored.

use ring::digest::{Digest, SHA256, digest};
use std::fmt;

/// Fewest characters of a root key.
pub const MIN_ROOT_KEY_CHARS: usize = 32;

/// The root key of this server. It keeps a digest only.
#[derive(Clone)]
pub struct RootKey {
    digest: Digest,
}

/// Why a text can't be the root key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootKeyError {
    /// There is nothing in it.
    Empty,
    /// It has fewer than [`MIN_ROOT_KEY_CHARS`] characters; the number found.
    TooShort(usize),
    /// It has a space, a line break or another character that no header can carry.
    Character,
    /// It starts like a credential of another kind, which would be read as such.
    OtherKind,
}

impl fmt::Display for RootKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the root key is empty"),
            Self::TooShort(chars) => write!(
                f,
                "the root key has {chars} characters, at least {MIN_ROOT_KEY_CHARS} are needed; make one with: openssl rand -hex 32"
            ),
            Self::Character => f.write_str("the root key has a character other than visible ASCII"),
            Self::OtherKind => f.write_str(
                "the root key looks like a credential of another kind; make one with: openssl rand -hex 32",
            ),
        }
    }
}

impl std::error::Error for RootKeyError {}

impl RootKey {
    /// Takes the root key of the configuration. White space around it is ignored, because files end with a line break.
    pub fn new(text: &str) -> Result<Self, RootKeyError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(RootKeyError::Empty);
        }
        let chars = text.chars().count();
        if chars < MIN_ROOT_KEY_CHARS {
            return Err(RootKeyError::TooShort(chars));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(RootKeyError::Character);
        }
        // Three parts with dots between them are read as a JWT.
        if text.starts_with("sh_") || text.split('.').count() == 3 {
            return Err(RootKeyError::OtherKind);
        }
        Ok(Self { digest: digest(&SHA256, text.as_bytes()) })
    }

    /// Whether this is the root key. Digests are compared, so the time that it takes says nothing about the key.
    pub fn matches(&self, text: &str) -> bool {
        digest(&SHA256, text.as_bytes()).as_ref() == self.digest.as_ref()
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RootKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn only_long_keys_are_taken() {
        let refused = |text: &str| RootKey::new(text).unwrap_err();
        assert_eq!(refused(""), RootKeyError::Empty);
        assert_eq!(refused(" \n"), RootKeyError::Empty);
        assert_eq!(refused(&GOOD[1..]), RootKeyError::TooShort(31));
        assert_eq!(refused(&format!("{GOOD} x")), RootKeyError::Character);
        assert_eq!(refused(&format!("sh_live_{GOOD}")), RootKeyError::OtherKind);
        assert_eq!(refused(&format!("{GOOD}.{GOOD}.{GOOD}")), RootKeyError::OtherKind);
    }

    #[test]
    fn it_matches_itself_only_and_shows_nothing() {
        let key = RootKey::new(&format!("{GOOD}\n")).unwrap();
        assert!(key.matches(GOOD));
        assert!(!key.matches(&GOOD.to_uppercase()) && !key.matches("") && !key.matches(&format!("{GOOD}0")));
        assert_eq!(format!("{key:?}"), "RootKey");
    }
}
