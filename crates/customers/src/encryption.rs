//! Authenticated encryption (AES-256-GCM) with random nonces. What is encrypted is bound to its customer and its purpose, so that
//! no ciphertext can be put in the place of another.
//!
//! The value of a row: a byte with the version of the form, the length of the id of the wrapping key in one byte, that id, the wrapped
//! data key, and the encrypted profile.

use crate::keyring::{KEY_ID_BYTES, Keyring, UnwrapError};
use crate::profile::Profile;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use stockhold_domain::Label;

/// Length of a key, in bytes.
pub(crate) const KEY_BYTES: usize = 32;
/// Length of the tag that authenticates a ciphertext, in bytes.
const TAG_BYTES: usize = 16;
/// Length of a wrapped data key, in bytes.
const WRAPPED_BYTES: usize = NONCE_LEN + KEY_BYTES + TAG_BYTES;
/// The version of the form of a row's value.
const FORM: u8 = 1;

/// What a ciphertext is for. It is part of what is authenticated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// The data key of a customer.
    DataKey,
    /// The profile of a customer.
    Profile,
    /// The references of a payment.
    PaymentMethod,
}

/// A key that encrypts.
pub(crate) struct SecretKey(LessSafeKey);

impl SecretKey {
    /// A key of [`KEY_BYTES`]. `None` for another length.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        UnboundKey::new(&AES_256_GCM, bytes).ok().map(|key| Self(LessSafeKey::new(key)))
    }

    /// Encrypts with a random nonce, which stands before the ciphertext. `None` if the system has no random numbers. A key may
    /// encrypt some 4 billion times: with random nonces of 96 bits a repeated one is improbable until then.
    pub(crate) fn encrypt(&self, purpose: Purpose, customer: &Label, plain: &[u8]) -> Option<Vec<u8>> {
        let nonce: [u8; NONCE_LEN] = random()?;
        let mut text = plain.to_vec();
        let aad = Aad::from(bound_to(purpose, customer));
        self.0.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut text).ok()?;
        Some([&nonce[..], &text].concat())
    }

    /// Decrypts. `None` if it is not what was encrypted with this key for this purpose and customer.
    pub(crate) fn decrypt(&self, purpose: Purpose, customer: &Label, cipher: &[u8]) -> Option<Vec<u8>> {
        let (nonce, text) = cipher.split_first_chunk::<NONCE_LEN>()?;
        let mut text = text.to_vec();
        let aad = Aad::from(bound_to(purpose, customer));
        let length = self.0.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

fn bound_to(purpose: Purpose, customer: &Label) -> Vec<u8> {
    let purpose: &[u8] = match purpose {
        Purpose::DataKey => b"stockhold data key of customer\0",
        Purpose::Profile => b"stockhold profile of customer\0",
        Purpose::PaymentMethod => b"stockhold payment method of customer\0",
    };
    [purpose, customer.as_str().as_bytes()].concat()
}

/// The data key of a customer.
pub(crate) struct DataKey {
    bytes: [u8; KEY_BYTES],
    key: SecretKey,
}

impl DataKey {
    /// A new key. `None` if the system has no random numbers.
    pub(crate) fn generate() -> Option<Self> {
        Self::from_bytes(&random::<KEY_BYTES>()?)
    }

    /// `None` for another length.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self { bytes: bytes.try_into().ok()?, key: SecretKey::new(bytes)? })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Encrypts something of the customer.
    pub(crate) fn encrypt(&self, purpose: Purpose, customer: &Label, plain: &[u8]) -> Option<Vec<u8>> {
        self.key.encrypt(purpose, customer, plain)
    }

    /// Decrypts something of the customer.
    pub(crate) fn decrypt(&self, purpose: Purpose, customer: &Label, cipher: &[u8]) -> Option<Vec<u8>> {
        self.key.decrypt(purpose, customer, cipher)
    }
}

/// The parts of a row's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowParts<'a> {
    /// The id of the key that has wrapped the data key.
    pub(crate) key_id: &'a str,
    wrapped: &'a [u8],
    profile: &'a [u8],
}

impl<'a> RowParts<'a> {
    /// Reads a row's value. `None` if it has another form.
    pub(crate) fn of(value: &'a [u8]) -> Option<Self> {
        let (form, rest) = value.split_first()?;
        let (length, rest) = rest.split_first()?;
        let (key_id, rest) = rest.split_at_checked(usize::from(*length))?;
        let (wrapped, profile) = rest.split_at_checked(WRAPPED_BYTES)?;
        (*form == FORM).then_some(Self { key_id: str::from_utf8(key_id).ok()?, wrapped, profile })
    }

    /// The data key.
    pub(crate) fn data_key(&self, keyring: &Keyring, customer: &Label) -> Result<DataKey, UnwrapError> {
        keyring.unwrap(customer, self.key_id, self.wrapped)
    }

    /// The profile.
    pub(crate) fn profile(&self, data_key: &DataKey, customer: &Label) -> Option<Profile> {
        Profile::from_bytes(&data_key.decrypt(Purpose::Profile, customer, self.profile)?)
    }

    /// The same with the data key wrapped by the first key. `None` if there is no key or no random number.
    pub(crate) fn rewrapped(
        &self,
        keyring: &Keyring,
        customer: &Label,
        data_key: &DataKey,
    ) -> Option<Vec<u8>> {
        value(keyring, customer, data_key, self.profile)
    }
}

/// The value of a row. `None` if there is no key or no random number.
pub(crate) fn row_value(
    keyring: &Keyring,
    customer: &Label,
    data_key: &DataKey,
    profile: &Profile,
) -> Option<Vec<u8>> {
    let profile = data_key.encrypt(Purpose::Profile, customer, &profile.to_bytes())?;
    value(keyring, customer, data_key, &profile)
}

fn value(keyring: &Keyring, customer: &Label, data_key: &DataKey, profile: &[u8]) -> Option<Vec<u8>> {
    const { assert!(KEY_ID_BYTES <= u8::MAX as usize, "the length of an id has one byte") };
    let (key_id, wrapped) = keyring.wrap(customer, data_key)?;
    let length = u8::try_from(key_id.len()).ok()?;
    Some([&[FORM, length], key_id.as_bytes(), &wrapped, profile].concat())
}

/// Random bytes. `None` if the system has none.
pub(crate) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    #[test]
    fn a_ciphertext_is_bound_to_its_customer_and_purpose_and_every_bit_of_it() {
        let [anna, ben] = ["anna", "ben"].map(|id| Label::new(id).unwrap());
        let key = DataKey::generate().unwrap();
        let cipher = key.encrypt(Purpose::Profile, &anna, b"plain").unwrap();
        assert_eq!(key.decrypt(Purpose::Profile, &anna, &cipher).as_deref(), Some(&b"plain"[..]));
        assert_ne!(key.encrypt(Purpose::Profile, &anna, b"plain").unwrap(), cipher, "another nonce");
        assert_eq!(key.decrypt(Purpose::Profile, &ben, &cipher), None);
        assert_eq!(key.decrypt(Purpose::PaymentMethod, &anna, &cipher), None);
        assert_eq!(DataKey::generate().unwrap().decrypt(Purpose::Profile, &anna, &cipher), None);
        for bit in 0..cipher.len() * 8 {
            let mut changed = cipher.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.decrypt(Purpose::Profile, &anna, &changed), None, "bit {bit}");
        }
        for length in 0..cipher.len() {
            assert_eq!(key.decrypt(Purpose::Profile, &anna, &cipher[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_damaged_row_is_no_row() {
        let anna = Label::new("anna").unwrap();
        let keyring = Keyring::parse([KEY]).unwrap();
        let data_key = DataKey::generate().unwrap();
        let profile = Profile { email: Some("anna@example.com".to_owned()), ..Profile::default() };
        let value = row_value(&keyring, &anna, &data_key, &profile).unwrap();
        let read = |value: &[u8]| {
            let parts = RowParts::of(value)?;
            parts.profile(&parts.data_key(&keyring, &anna).ok()?, &anna)
        };
        assert_eq!(read(&value), Some(profile));
        for byte in 0..value.len() {
            let mut changed = value.clone();
            changed[byte] ^= 0x10;
            assert_eq!(read(&changed), None, "byte {byte}");
            assert_eq!(read(&value[..byte]), None, "{byte} bytes");
        }
    }
}
