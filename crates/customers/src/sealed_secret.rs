//! Secrets of the service itself, such as the key that signs hold tokens, encrypted by the same keys of the configuration that wrap the
//! data keys of customers: `sealed:ID OF THE KEY:BASE64`. A secret is bound to its kind and its name.

use crate::encryption::Purpose;
use crate::keyring::Keyring;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use stockhold_domain::Label;

/// What every sealed secret begins with.
const PREFIX: &str = "sealed:";

/// What a secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// Signs hold tokens.
    HoldTokenKey,
    /// Signs the deliveries of a webhook endpoint.
    WebhookSecret,
}

/// Why a sealed secret can't be read, or made. It shows nothing of the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealError {
    /// It was sealed by a key with this id, which is not configured.
    UnknownKey(String),
    /// It is not what was written, or the configured key is another one with the same id.
    Damaged,
    /// The system has no random numbers.
    NoRandomNumbers,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey(id) => write!(
                f,
                "the secret was encrypted with key {id}, which customers.encryption_keys does not have"
            ),
            Self::Damaged => f.write_str(
                "the secret is damaged, or customers.encryption_keys has another key with the same id",
            ),
            Self::NoRandomNumbers => f.write_str("the system has no random numbers"),
        }
    }
}

impl std::error::Error for SealError {}

/// Whether a text is a sealed secret.
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(PREFIX)
}

impl Keyring {
    /// Seals a secret with the first key. `None` if there is no key.
    pub fn seal(&self, kind: SecretKind, name: &Label, secret: &[u8]) -> Result<Option<String>, SealError> {
        let Some(first) = self.first() else { return Ok(None) };
        let sealed = first.key.encrypt(purpose(kind), name, secret).ok_or(SealError::NoRandomNumbers)?;
        Ok(Some(format!("{PREFIX}{}:{}", first.id, STANDARD.encode(sealed))))
    }

    /// Reads a sealed secret.
    pub fn unseal(&self, kind: SecretKind, name: &Label, text: &str) -> Result<Vec<u8>, SealError> {
        let (id, sealed) = parts(text).ok_or(SealError::Damaged)?;
        let known = self.key(id).ok_or_else(|| SealError::UnknownKey(id.to_owned()))?;
        let sealed = STANDARD.decode(sealed).map_err(|_| SealError::Damaged)?;
        known.key.decrypt(purpose(kind), name, &sealed).ok_or(SealError::Damaged)
    }

    /// Whether a sealed secret was sealed with the first key, or there is no key to seal it with.
    pub fn is_newest(&self, text: &str) -> bool {
        self.first().is_none_or(|first| parts(text).is_some_and(|(id, _)| id == first.id))
    }
}

fn parts(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix(PREFIX)?.split_once(':')
}

fn purpose(kind: SecretKind) -> Purpose {
    match kind {
        SecretKind::HoldTokenKey => Purpose::HoldTokenKey,
        SecretKind::WebhookSecret => Purpose::WebhookSecret,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const TWO: &str = "k2:Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";

    #[test]
    fn a_secret_is_bound_to_its_kind_and_name_and_the_first_key_seals() {
        let [a, b] = ["a", "b"].map(|name| Label::new(name).unwrap());
        let kind = SecretKind::WebhookSecret;
        let old = Keyring::parse([ONE]).unwrap();
        let sealed = old.seal(kind, &a, b"secret").unwrap().unwrap();
        assert!(is_sealed(&sealed) && sealed.starts_with("sealed:k1:") && !sealed.contains("secret"));
        let both = Keyring::parse([TWO, ONE]).unwrap();
        assert_eq!(both.unseal(kind, &a, &sealed).unwrap(), b"secret");
        assert_eq!(both.unseal(kind, &b, &sealed), Err(SealError::Damaged));
        assert_eq!(both.unseal(SecretKind::HoldTokenKey, &a, &sealed), Err(SealError::Damaged));
        assert_eq!((old.is_newest(&sealed), both.is_newest(&sealed)), (true, false));
        let new = Keyring::parse([TWO]).unwrap();
        assert_eq!(new.unseal(kind, &a, &sealed), Err(SealError::UnknownKey("k1".to_owned())));
        assert_eq!(Keyring::default().seal(kind, &a, b"secret"), Ok(None));
        assert!(Keyring::default().is_newest(&sealed), "nothing can be done");
        for damaged in ["sealed:k1", "sealed:k1:!", "whsec_a", ""] {
            assert_eq!(both.unseal(kind, &a, damaged), Err(SealError::Damaged), "{damaged}");
        }
    }
}
