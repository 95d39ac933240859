//! The value of a row: a byte with the version of the form, the length of the id of the wrapping key in one byte, that id, the wrapped
//! data key, and the encrypted profile.

use crate::encryption::{DataKey, ENCRYPTED_KEY_BYTES, Purpose};
use crate::keyring::{KEY_ID_BYTES, Keyring, UnwrapError};
use crate::profile::Profile;
use stockhold_domain::Label;

/// The version of the form.
const FORM: u8 = 1;

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
        let (wrapped, profile) = rest.split_at_checked(ENCRYPTED_KEY_BYTES)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

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
