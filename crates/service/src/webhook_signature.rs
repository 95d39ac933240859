//! Signatures of webhooks, as Standard Webhooks defines them: <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>.

use crate::secret::random_bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use std::fmt;
use std::io;

/// What the text of every secret starts with.
const PREFIX: &str = "whsec_";
/// Bytes of a new secret.
const SECRET_BYTES: usize = 32;
/// Fewest bytes of a secret, by the specification.
const MIN_SECRET_BYTES: usize = 24;
/// Most bytes of a secret, by the specification.
const MAX_SECRET_BYTES: usize = 64;

/// The secret that a sender of webhooks shares with a receiver.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

/// A text is no secret of webhooks. It does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookSecretError;

impl fmt::Display for WebhookSecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "must be {PREFIX} and the base64 of {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} random bytes, for example of: \
             echo {PREFIX}$(openssl rand -base64 {SECRET_BYTES})"
        )
    }
}

impl std::error::Error for WebhookSecretError {}

/// Shows nothing of the secret.
impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

impl WebhookSecret {
    /// A new secret.
    pub fn generate() -> io::Result<Self> {
        Ok(Self::from_bytes(&random_bytes()?))
    }

    /// A secret of these bytes, which have to be random.
    pub fn from_bytes(bytes: &[u8; SECRET_BYTES]) -> Self {
        Self(bytes.to_vec())
    }

    /// Reads the text of a secret.
    pub fn parse(text: &str) -> Result<Self, WebhookSecretError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(WebhookSecretError)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| WebhookSecretError)?;
        let is_long_enough = (MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&bytes.len());
        is_long_enough.then_some(Self(bytes)).ok_or(WebhookSecretError)
    }

    /// The text, for the one who has to know it.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// The signature of a message for the header `webhook-signature`. The time is in seconds since 1970, as the header
    /// `webhook-timestamp` has it.
    pub fn sign(&self, id: &str, timestamp_seconds: u64, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let mut signing = hmac::Context::with_key(&key);
        signing.update(format!("{id}.{timestamp_seconds}.").as_bytes());
        signing.update(body);
        format!("v1,{}", STANDARD.encode(signing.sign()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_other_implementations() {
        // From the tests of the reference implementations.
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature =
            secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_is_read_as_it_was_shown_and_never_printed() {
        let secret = WebhookSecret::generate().unwrap();
        let text = secret.reveal();
        assert_eq!(WebhookSecret::parse(&text), Ok(secret.clone()));
        assert_eq!(format!("{secret:?}"), "WebhookSecret");
        assert_ne!(WebhookSecret::generate().unwrap(), secret);
        let short = format!("whsec_{}", STANDARD.encode([1; 23]));
        let long = format!("whsec_{}", STANDARD.encode([1; 65]));
        for wrong in ["", "whsec_", "whsec_***", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &short, &long] {
            let error = WebhookSecret::parse(wrong).unwrap_err().to_string();
            assert!(wrong.is_empty() || wrong == "whsec_" || !error.contains(wrong), "{error}");
        }
    }
}
