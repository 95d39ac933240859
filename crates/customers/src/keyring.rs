//! The keys of the configuration. The first one wraps, and all of them unwrap, so that a key can be replaced.

use crate::encryption::{DataKey, KEY_BYTES, Purpose, SecretKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use stockhold_domain::Label;

/// Maximum number of keys.
pub const MAX_KEYS: usize = 16;
/// Longest id of a key, in bytes.
pub(crate) const KEY_ID_BYTES: usize = 32;

/// Keys that wrap the data keys of customers and the secrets of the service. It may be empty: then no personal data is taken, and secrets
/// are stored in clear.
#[derive(Default)]
pub struct Keyring {
    keys: Vec<WrappingKey>,
}

pub(crate) struct WrappingKey {
    pub(crate) id: String,
    pub(crate) key: SecretKey,
}

/// Why a list of keys is not taken. It never shows a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyringError(String);

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for KeyringError {}

/// Shows the ids only.
impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<&str> = self.keys.iter().map(|key| key.id.as_str()).collect();
        f.debug_tuple("Keyring").field(&ids).finish()
    }
}

impl Keyring {
    /// Reads keys of the form `id:base64 of 32 bytes`. The first one encrypts, and all of them decrypt.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, KeyringError> {
        let mut keys: Vec<WrappingKey> = Vec::new();
        for (number, text) in texts.into_iter().enumerate() {
            let key = WrappingKey::parse(text)
                .map_err(|what| KeyringError(format!("key {}: {what}", number + 1)))?;
            if keys.iter().any(|known| known.id == key.id) {
                return Err(KeyringError(format!(
                    "the id {} stands for two keys: each needs one of its own",
                    key.id
                )));
            }
            keys.push(key);
        }
        if keys.len() > MAX_KEYS {
            return Err(KeyringError(format!("has {} keys, and may have at most {MAX_KEYS}", keys.len())));
        }
        Ok(Self { keys })
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Encrypts a data key with the first key. Returns the id of that key too. `None` if there is no key or no random number.
    pub(crate) fn wrap(&self, customer: &Label, data_key: &DataKey) -> Option<(&str, Vec<u8>)> {
        let first = self.first()?;
        let wrapped = first.key.encrypt(Purpose::DataKey, customer, data_key.as_bytes())?;
        Some((&first.id, wrapped))
    }

    /// Decrypts a data key.
    pub(crate) fn unwrap(
        &self,
        customer: &Label,
        key_id: &str,
        wrapped: &[u8],
    ) -> Result<DataKey, UnwrapError> {
        let known = self.key(key_id).ok_or(UnwrapError::UnknownKey)?;
        let bytes = known.key.decrypt(Purpose::DataKey, customer, wrapped).ok_or(UnwrapError::Damaged)?;
        DataKey::from_bytes(&bytes).ok_or(UnwrapError::Damaged)
    }

    /// The id of the key that encrypts.
    pub fn first_id(&self) -> Option<&str> {
        self.first().map(|key| key.id.as_str())
    }

    /// The key that encrypts.
    pub(crate) fn first(&self) -> Option<&WrappingKey> {
        self.keys.first()
    }

    pub(crate) fn key(&self, id: &str) -> Option<&WrappingKey> {
        self.keys.iter().find(|key| key.id == id)
    }
}

/// Why a data key can't be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnwrapError {
    /// The key that encrypted it is not configured.
    UnknownKey,
    /// It is not what was written, or another key has the id.
    Damaged,
}

impl WrappingKey {
    fn parse(text: &str) -> Result<Self, String> {
        let form = || {
            format!(
                "must be id:key, with an id of 1 to {KEY_ID_BYTES} letters, digits, - and _, and a key of {KEY_BYTES} \
                 random bytes in base64. Make one with: openssl rand -base64 {KEY_BYTES}"
            )
        };
        let (id, key) = text.split_once(':').ok_or_else(form)?;
        let is_id = (1..=KEY_ID_BYTES).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if !is_id {
            return Err(form());
        }
        let bytes = STANDARD.decode(key).map_err(|_| form())?;
        let key = SecretKey::new(&bytes).ok_or_else(form)?;
        Ok(Self { id: id.to_owned(), key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const TWO: &str = "k2:Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";

    #[test]
    fn a_wrong_key_is_refused_and_not_shown() {
        for wrong in [
            "",
            "k1",
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            ":AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "k1:AAECAwQF",
            "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8AAA==",
            "k1:!",
            "k 1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        ] {
            let error = Keyring::parse([wrong]).unwrap_err().to_string();
            assert!(error.contains("openssl rand -base64 32"), "{error}");
            assert!(!error.contains("AAEC"), "{error}");
        }
        let twice = Keyring::parse([ONE, ONE]).unwrap_err().to_string();
        assert!(twice.contains("k1") && !twice.contains("AAEC"), "{twice}");
        let many: Vec<String> = (0..=MAX_KEYS).map(|n| ONE.replace("k1", &format!("n{n}"))).collect();
        assert!(Keyring::parse(many.iter().map(String::as_str)).is_err());
        let shown = format!("{:?}", Keyring::parse([ONE, TWO]).unwrap());
        assert_eq!(shown, r#"Keyring(["k1", "k2"])"#);
    }

    #[test]
    fn the_first_key_wraps_and_all_unwrap_for_the_same_customer_only() {
        let [anna, ben] = ["anna", "ben"].map(|id| Label::new(id).unwrap());
        let data_key = DataKey::generate().unwrap();
        let old = Keyring::parse([ONE]).unwrap();
        let (id, wrapped) = old.wrap(&anna, &data_key).unwrap();
        assert_eq!(id, "k1");
        let both = Keyring::parse([TWO, ONE]).unwrap();
        assert_eq!(both.wrap(&anna, &data_key).unwrap().0, "k2");
        assert_eq!(both.unwrap(&anna, "k1", &wrapped).unwrap().as_bytes(), data_key.as_bytes());
        assert_eq!(both.unwrap(&ben, "k1", &wrapped).err(), Some(UnwrapError::Damaged));
        assert_eq!(both.unwrap(&anna, "k2", &wrapped).err(), Some(UnwrapError::Damaged));
        let new = Keyring::parse([TWO]).unwrap();
        assert_eq!(new.unwrap(&anna, "k1", &wrapped).err(), Some(UnwrapError::UnknownKey));
        assert!(Keyring::default().wrap(&anna, &data_key).is_none());
    }
}
