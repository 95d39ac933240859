//! A secret of the configuration.

use serde::{Serialize, Serializer};
use std::fmt;

/// A text that is shown nowhere: not when it is printed, not for debugging, not in `stockhold config`.
#[derive(Clone)]
pub struct SecretText(String);

impl SecretText {
    /// Takes a secret.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret, to be used and not to be shown.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(hidden)")
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("(hidden)")
    }
}
