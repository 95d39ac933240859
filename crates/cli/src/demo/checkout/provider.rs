//! A test provider of one's own: a child process with its ledger in the demo's directory, killed when it is dropped.

use super::super::server_process::free_ports;
use crate::client::CallError;
use serde::Deserialize;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stockhold_api::client::{Client, Raw};

/// How long a start may take.
const START: Duration = Duration::from_secs(15);
const START_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Tells its port from those that the server tries first.
const PORT_SEED: u32 = 2_000;

/// A payment in the ledger.
#[derive(Debug, Deserialize)]
pub(super) struct LedgerPayment {
    pub(super) reservation_id: String,
    pub(super) state: String,
    pub(super) captured_amount: u64,
    pub(super) refunded_amount: u64,
}

#[derive(Deserialize)]
struct LedgerList {
    data: Vec<LedgerPayment>,
}

pub(super) struct ProviderProcess {
    child: Child,
    client: Client,
}

/// A free port for it.
pub(super) fn choose_port() -> Result<u16, CallError> {
    free_ports(PORT_SEED).map(|[port, _]| port)
}

impl ProviderProcess {
    /// Starts it, and waits until it answers.
    pub(super) async fn start(dir: &Path, port: u16, webhook: &str) -> Result<Self, CallError> {
        let failed = |error: std::io::Error| CallError::Unexpected(format!("starting the provider: {error}"));
        let exe = std::env::current_exe().map_err(failed)?;
        let child = Command::new(exe)
            .args(["test-provider", "--ledger", "provider.ledger", "--webhook", webhook])
            .arg(format!("--listen=127.0.0.1:{port}"))
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let client =
            Client::new(&format!("http://127.0.0.1:{port}"))?.with_patience(NonZeroU32::MIN, TIMEOUT);
        let mut provider = Self { child, client };
        let begun = Instant::now();
        while provider.client.send_raw("GET", "/payments", b"").await.is_err() {
            if begun.elapsed() > START {
                return Err(CallError::Unexpected("the test provider did not start".to_owned()));
            }
            tokio::time::sleep(START_POLL_INTERVAL).await;
        }
        // Somebody else may have taken the port.
        match provider.child.try_wait() {
            Ok(None) => Ok(provider),
            _ => Err(CallError::Unexpected(format!("port {port} was taken: start the demo again"))),
        }
    }

    /// The buyer has been at the bank, and agrees.
    pub(super) async fn approve(&self, provider_ref: &str) -> Result<(), CallError> {
        let path = format!("/payments/{provider_ref}/complete");
        let Raw { status, .. } = self.client.send_raw("POST", &path, br#"{"outcome":"approve"}"#).await?;
        // The payment may have been ended meanwhile.
        if matches!(status, 200 | 409) {
            Ok(())
        } else {
            Err(CallError::Unexpected(format!("the provider answered {path} with {status}")))
        }
    }

    /// Everything in its ledger.
    pub(super) async fn ledger(&self) -> Result<Vec<LedgerPayment>, CallError> {
        let raw = self.client.send_raw("GET", "/payments", b"").await?;
        let list: LedgerList = serde_json::from_slice(&raw.body)
            .map_err(|error| CallError::Unexpected(format!("the ledger of the provider: {error}")))?;
        Ok(list.data)
    }
}

impl Drop for ProviderProcess {
    fn drop(&mut self) {
        // It may have ended already, which is as well.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
