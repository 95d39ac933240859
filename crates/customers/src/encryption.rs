//! Authenticated encryption (AES-256-GCM) with random nonces. What is encrypted is bound to the name of what it belongs to, such as its
//! customer, and to its purpose, so that no ciphertext can be put in the place of another.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use stockhold_domain::Label;

/// Length of a key, in bytes.
pub(crate) const KEY_BYTES: usize = 32;
/// Length of the tag that authenticates a ciphertext, in bytes.
const TAG_BYTES: usize = 16;
/// Length of an encrypted data key, in bytes.
pub(crate) const ENCRYPTED_KEY_BYTES: usize = NONCE_LEN + KEY_BYTES + TAG_BYTES;

/// What a ciphertext is for. It is part of what is authenticated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// The data key of a customer.
    DataKey,
    /// The profile of a customer.
    Profile,
    /// The references of a payment.
    PaymentMethod,
    /// The key that signs hold tokens.
    HoldTokenKey,
    /// The secret of a webhook endpoint.
    WebhookSecret,
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
    pub(crate) fn encrypt(&self, purpose: Purpose, name: &Label, plain: &[u8]) -> Option<Vec<u8>> {
        let nonce: [u8; NONCE_LEN] = random()?;
        let mut text = plain.to_vec();
        let aad = Aad::from(bound_to(purpose, name));
        self.0.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut text).ok()?;
        Some([&nonce[..], &text].concat())
    }

    /// Decrypts. `None` if it is not what was encrypted with this key for this purpose and name.
    pub(crate) fn decrypt(&self, purpose: Purpose, name: &Label, cipher: &[u8]) -> Option<Vec<u8>> {
        let (nonce, text) = cipher.split_first_chunk::<NONCE_LEN>()?;
        let mut text = text.to_vec();
        let aad = Aad::from(bound_to(purpose, name));
        let length = self.0.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

fn bound_to(purpose: Purpose, name: &Label) -> Vec<u8> {
    let purpose: &[u8] = match purpose {
        Purpose::DataKey => b"stockhold data key of customer\0",
        Purpose::Profile => b"stockhold profile of customer\0",
        Purpose::PaymentMethod => b"stockhold payment method of customer\0",
        Purpose::HoldTokenKey => b"stockhold signing key of hold tokens\0",
        Purpose::WebhookSecret => b"stockhold secret of webhook\0",
    };
    [purpose, name.as_str().as_bytes()].concat()
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

/// Random bytes. `None` if the system has none.
pub(crate) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
