//! The keys that personal data is encrypted with: the table `[customers]`.

use crate::secret::SecretText;
use crate::values::{Value, split_list};
use serde::Serialize;
use stockhold_customers::Keyring;

/// The members of `[customers]`.
pub(crate) const CUSTOMER_KEYS: [&str; 1] = ["encryption_keys"];
/// The variable that sets the keys, with commas between them.
pub(crate) const ENCRYPTION_KEYS_VARIABLE: &str = "CUSTOMERS_ENCRYPTION_KEYS";

/// How personal data of customers is kept.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CustomerSettings {
    /// The keys: `id:base64 of 32 bytes`. The first one encrypts, and all of them decrypt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub encryption_keys: Vec<SecretText>,
}

impl CustomerSettings {
    /// Sets the keys. An error repeats nothing of them.
    pub(crate) fn set(&mut self, value: &Value, from_file: bool) -> Result<(), String> {
        let list = match value {
            Value::Text(text) if !from_file => split_list(text),
            other => other.clone(),
        };
        let Value::List(keys) = list else {
            return Err(
                "must be a list of keys in brackets, each in quotation marks: [\"id:base64 of 32 bytes\"]"
                    .to_owned(),
            );
        };
        self.encryption_keys = keys.into_iter().map(SecretText::new).collect();
        Ok(())
    }

    /// The keys, checked.
    pub(crate) fn keyring(&self) -> Result<Keyring, String> {
        Keyring::parse(self.encryption_keys.iter().map(SecretText::expose))
            .map_err(|error| format!("encryption_keys: {error}"))
    }
}
