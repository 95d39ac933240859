//! Webhooks: every event of the feed, signed, to the endpoints that callers have created.
//!
//! A supervisor (`supervisor`) reads the settings of all endpoints, and has a task for each enabled one (`deliverer`). The task takes the
//! lease of the endpoint's progress like that of a sink. It sends new events and those that failed before, some at a time and in no
//! order. The progress is a position and the exceptions to it (`stockhold_api::webhook_record`), written at most once in a second.
//!
//! Operators change progress by a write that expects its version (`crate::webhook_commands`). The task then goes on from what they wrote.

mod address;
mod deliverer;
mod endpoint;
mod http;
mod schedule;
mod shared_client;
mod supervisor;

pub(crate) use endpoint::{attempt, filter};
pub(crate) use http::AttemptResult;
pub(crate) use shared_client::SharedClient;
pub(crate) use supervisor::Supervisor;

use address::AllowedNetworks;
use http::{Lookup, SystemLookup, WebhookClient};
use ipnet::IpNet;
use std::path::PathBuf;
use std::sync::Arc;
use stockhold_api::client::ClientAccess;
use stockhold_customers::Keyring;

/// What webhooks are sent with.
#[derive(Clone, Debug, Default)]
pub struct WebhookOptions {
    /// Networks that webhooks may be sent to although they are not public.
    pub allowed_networks: Vec<IpNet>,
    /// Certificates that are trusted instead of the system's, as PEM.
    pub ca_file: Option<PathBuf>,
    /// The keys that the secrets of endpoints are encrypted with.
    pub keyring: Arc<Keyring>,
}

impl WebhookOptions {
    /// Reads the file of certificates, if there is one.
    pub fn check_files(&self) -> Result<(), String> {
        match self.ca_file {
            Some(_) => self.access().check_files(),
            None => Ok(()),
        }
    }

    /// Whom webhooks trust.
    fn access(&self) -> ClientAccess {
        match &self.ca_file {
            Some(file) => ClientAccess::default().with_ca_file(file),
            None => ClientAccess::default(),
        }
    }

    /// The client. It needs certificates, so a system without any has none.
    pub(crate) fn client(&self) -> Result<WebhookClient, String> {
        let access = self.access();
        let lookup: Arc<dyn Lookup> = Arc::new(SystemLookup);
        WebhookClient::new(AllowedNetworks(self.allowed_networks.clone()), &access, &lookup)
    }
}
