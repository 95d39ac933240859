//! What all deliverers use: the client, which is made anew when its file of certificates is read again, and the keys of secrets.

use super::http::WebhookClient;
use std::sync::{Arc, PoisonError, RwLock};
use stockhold_customers::Keyring;

/// The client in force, or why there is none: it needs certificates, so a system without any has none.
#[derive(Clone)]
pub(crate) struct SharedClient {
    client: Arc<RwLock<Result<WebhookClient, String>>>,
    keyring: Arc<Keyring>,
}

impl SharedClient {
    pub(crate) fn new(made: Result<WebhookClient, String>, keyring: Arc<Keyring>) -> Self {
        if let Err(error) = &made {
            tracing::warn!(error, "webhooks can't be sent");
        }
        Self { client: Arc::new(RwLock::new(made)), keyring }
    }

    /// The client in force.
    pub(crate) fn get(&self) -> Result<WebhookClient, String> {
        self.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The keys that the secrets of endpoints are encrypted with.
    pub(crate) fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Puts another one in force. One that could not be made changes nothing.
    pub(crate) fn replace(&self, made: Result<WebhookClient, String>) {
        match made {
            Ok(client) => *self.client.write().unwrap_or_else(PoisonError::into_inner) = Ok(client),
            Err(error) => {
                tracing::warn!(
                    error,
                    "the certificates of webhooks can't be used: the last good ones stay in force"
                );
            }
        }
    }
}
