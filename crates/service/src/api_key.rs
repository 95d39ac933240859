//! The text of an API key: `sh_live_`, 160 random bits and a checksum.
//!
//! The prefix lets secret scanners find keys that were published. The checksum tells a mistyped key from an unknown one without
//! a look at the store. Only the SHA-256 digest of a key is stored. A plain digest is enough, because 160 random bits can't be
//! guessed.

use crate::secret::random_bytes;
use ring::digest::{SHA256, digest};
use std::fmt;
use std::io;

/// What every API key starts with.
const PREFIX: &str = "sh_live_";
/// Random bytes of a key.
const SECRET_BYTES: usize = 20;
/// Base 62 digits of [`SECRET_BYTES`] bytes: the smallest number of digits that holds all values.
const SECRET_DIGITS: usize = 27;
/// Base 62 digits of a CRC-32.
const CHECKSUM_DIGITS: usize = 6;
/// Bytes of a key's text.
const KEY_BYTES: usize = PREFIX.len() + SECRET_DIGITS + CHECKSUM_DIGITS;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The SHA-256 digest of an API key: what a store keeps instead of the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// The digest as 64 hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut hex, byte| {
            for digit in [byte >> 4, byte & 15] {
                hex.extend(char::from_digit(u32::from(digit), 16));
            }
            hex
        })
    }
}

impl KeyDigest {
    /// Reads 64 hexadecimal digits.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let digits: Vec<u32> = hex.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::try_from(pair[0] << 4 | pair[1]).ok()?;
        }
        Some(Self(bytes))
    }

    /// The first 128 bits.
    pub(crate) fn first_half(self) -> u128 {
        self.0.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
    }
}

/// Shows nothing: a digest is of no use in a log.
impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest")
    }
}

/// An API key that a caller sent, well formed. Whether it exists is another question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiKey {
    digest: KeyDigest,
}

/// Why a text is no API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiKeyError {
    /// It does not start like a key, or has another length or other characters.
    Form,
    /// Its checksum does not fit: it was mistyped or cut.
    Checksum,
}

impl fmt::Display for ApiKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => write!(
                f,
                "is no API key: a key is {PREFIX} and {} letters and digits",
                KEY_BYTES - PREFIX.len()
            ),
            Self::Checksum => f.write_str("is an API key with a typing error: its checksum is wrong"),
        }
    }
}

impl std::error::Error for ApiKeyError {}

impl ApiKey {
    /// Whether a text starts as API keys do, so that it can't be another kind of credential.
    pub fn has_prefix(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Checks the form of a key and takes its digest.
    pub fn parse(text: &str) -> Result<Self, ApiKeyError> {
        let digits = text.strip_prefix(PREFIX).ok_or(ApiKeyError::Form)?;
        if digits.len() != SECRET_DIGITS + CHECKSUM_DIGITS
            || !digits.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return Err(ApiKeyError::Form);
        }
        let (secret, checksum) = digits.split_at(SECRET_DIGITS);
        if checksum_of(secret) != checksum.as_bytes() {
            return Err(ApiKeyError::Checksum);
        }
        Ok(Self { digest: digest_of(text) })
    }

    /// What the key is found by.
    pub fn digest(self) -> KeyDigest {
        self.digest
    }
}

/// A key that was just made. It is the only value that has the key's text, which is shown once.
pub struct NewApiKey {
    text: String,
}

impl NewApiKey {
    /// Makes a key of random bytes.
    pub fn generate() -> io::Result<Self> {
        let mut text = String::with_capacity(KEY_BYTES);
        text.push_str(PREFIX);
        let secret = base62(&random_bytes::<SECRET_BYTES>()?, SECRET_DIGITS);
        text.push_str(&secret);
        text.extend(checksum_of(&secret).map(char::from));
        Ok(Self { text })
    }

    /// The key's text, for the answer to the request that made it.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// What the key is found by.
    pub fn digest(&self) -> KeyDigest {
        digest_of(&self.text)
    }
}

impl fmt::Debug for NewApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewApiKey")
    }
}

fn digest_of(text: &str) -> KeyDigest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    KeyDigest(bytes)
}

/// The checksum in base 62, with leading zeros. Every request with a key needs it, so it takes no memory.
fn checksum_of(secret: &str) -> [u8; CHECKSUM_DIGITS] {
    let mut number = crc32fast::hash(secret.as_bytes());
    let mut digits = [b'0'; CHECKSUM_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[(number % 62) as usize];
        number /= 62;
    }
    digits
}

/// The number that the bytes are, in base 62, with leading zeros.
fn base62(bytes: &[u8], digits: usize) -> String {
    let mut number = bytes.to_vec();
    let mut reversed = Vec::with_capacity(digits);
    for _ in 0..digits {
        // Long division by 62: the remainder is the next digit from the right.
        let remainder = number.iter_mut().fold(0_u32, |remainder, byte| {
            let dividend = remainder << 8 | u32::from(*byte);
            *byte = u8::try_from(dividend / 62).unwrap_or(u8::MAX);
            dividend % 62
        });
        reversed.push(ALPHABET[remainder as usize]);
    }
    reversed.iter().rev().map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_key_is_read_again() {
        let made = NewApiKey::generate().unwrap();
        let text = made.reveal().to_owned();
        assert_eq!(text.len(), KEY_BYTES);
        assert_eq!(ApiKey::parse(&text).map(ApiKey::digest), Ok(made.digest()));
        assert_ne!(NewApiKey::generate().unwrap().reveal(), text);
    }

    #[test]
    fn one_wrong_character_is_told_apart_from_an_unknown_key() {
        let text = NewApiKey::generate().unwrap().reveal().to_owned();
        for at in PREFIX.len()..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'a' { b'b' } else { b'a' };
            let wrong = String::from_utf8(wrong).unwrap();
            assert_eq!(ApiKey::parse(&wrong), Err(ApiKeyError::Checksum), "{at}");
        }
        for form in
            ["", "sh_live_", &text[..text.len() - 1], &format!("{text}0"), &text.replace("live", "test")]
        {
            assert_eq!(ApiKey::parse(form), Err(ApiKeyError::Form), "{form}");
        }
        assert_eq!(ApiKey::parse(&format!("{}-", &text[..text.len() - 1])), Err(ApiKeyError::Form));
    }

    #[test]
    fn numbers_in_base_62() {
        assert_eq!(base62(&[0; 20], SECRET_DIGITS), "0".repeat(SECRET_DIGITS));
        assert_eq!(base62(&61_u32.to_be_bytes(), CHECKSUM_DIGITS), "00000z");
        assert_eq!(base62(&62_u32.to_be_bytes(), CHECKSUM_DIGITS), "000010");
        // 2^32 - 1 is the largest checksum, and 2^160 - 1 the largest secret: both fit.
        assert_eq!(base62(&u32::MAX.to_be_bytes(), CHECKSUM_DIGITS), "4gfFC3");
        assert!(base62(&[255; 20], SECRET_DIGITS + 1).starts_with('0'));
    }

    #[test]
    fn nothing_shows_a_key() {
        let made = NewApiKey::generate().unwrap();
        let shown = format!("{made:?} {:?} {:?}", made.digest(), ApiKey::parse(made.reveal()));
        assert!(
            !shown.contains(&made.reveal()[PREFIX.len()..]) && !shown.contains(&made.digest().to_hex()),
            "{shown}"
        );
        assert_eq!(KeyDigest::from_hex(&made.digest().to_hex()), Some(made.digest()));
        assert_eq!(KeyDigest::from_hex("00"), None);
    }
}
