//! `stockhold test-provider`: a payment provider for trying a checkout out.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use stockhold_checkout::test_provider::{TestProviderServer, serve};
use stockhold_config::exit;
use tokio::net::TcpListener;

/// The longest delay of an answer, in milliseconds.
const LONGEST_DELAY_MS: u64 = 60_000;

#[derive(Args)]
pub(crate) struct TestProviderArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// File of the ledger. It is continued if it exists
    #[arg(long, value_name = "FILE", default_value = "./test-provider.ledger")]
    ledger: PathBuf,
    /// Where its webhooks are sent to, such as <http://127.0.0.1:8101/v1/providers/test/webhook>
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// How long every answer takes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=LONGEST_DELAY_MS))]
    delay_ms: u64,
}

pub(crate) fn run(args: &TestProviderArgs) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::because(exit::FAILED, error),
    };
    runtime.block_on(async {
        let listener = match TcpListener::bind(args.listen).await {
            Ok(listener) => listener,
            Err(error) => {
                return exit::because(exit::FAILED, format!("listening on {}: {error}", args.listen));
            }
        };
        let address = listener.local_addr().unwrap_or(args.listen);
        println!("The test provider listens on http://{address}. GET /payments shows its ledger.");
        let options = TestProviderServer {
            ledger: &args.ledger,
            webhook: args.webhook.clone(),
            delay: Duration::from_millis(args.delay_ms),
        };
        match serve(listener, options).await {
            Ok(never) => match never {},
            Err(error) => exit::because(exit::FAILED, format!("{}: {error}", args.ledger.display())),
        }
    })
}
