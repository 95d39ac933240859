//! The command line. Doc comments here are the help texts.
#![expect(clippy::doc_markdown, reason = "help texts are plain text")]

mod verify;

use crate::config::Flags;
use crate::{exit, serve};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Inventory reservation: time-bounded holds on stock that are never promised twice.
#[derive(Parser)]
#[command(name = "stockhold", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service on a data directory
    ///
    /// Starts with no configuration: the API on http://127.0.0.1:8101, health and metrics on http://127.0.0.1:8102, the
    /// data in ./stockhold-data. Everything that is answered has been synced to the disk. SIGTERM drains and ends with 0.
    ///
    /// Try it:
    ///   curl --json '{"total_units": 10}' -X PUT http://127.0.0.1:8101/v1/inventory/shirt
    ///   curl --json '{"owner_id": "cart-1"}' http://127.0.0.1:8101/v1/inventory/shirt/reserve
    ///
    /// Exit codes: 0 drained, 1 could not start, 2 configuration not understood, 3 data directory damaged, in use or of a
    /// newer version, 4 the store failed while serving (a restart recovers).
    #[command(verbatim_doc_comment)]
    Serve {
        #[command(flatten)]
        flags: Flags,
    },
    /// Recount everything and say whether it adds up
    ///
    /// Folds every event from the first one, and holds the rules' invariants and the index against what comes of it. Reads
    /// only; a server may be running on the directory.
    ///
    /// Exit codes: 0 it adds up, 1 it does not or can't be read, 3 the data is damaged.
    Verify(verify::Verify),
    /// Print every setting in force and where it came from
    ///
    /// Flags go before STOCKHOLD_* variables (STOCKHOLD_LISTEN=127.0.0.1:9000), those before stockhold.toml, that before
    /// defaults. Unknown keys are errors.
    Config {
        #[command(flatten)]
        flags: Flags,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs what the command line asks for.
pub(crate) fn run() -> ExitCode {
    match Cli::parse().command {
        Command::Serve { flags } => match flags.load() {
            Ok(loaded) => serve::serve(&loaded.config),
            Err(error) => exit::because(exit::USAGE, error),
        },
        Command::Verify(verify) => verify.run(),
        Command::Config { flags, json } => config(&flags, json),
    }
}

fn config(flags: &Flags, json: bool) -> ExitCode {
    let loaded = match flags.load() {
        Ok(loaded) => loaded,
        Err(error) => return exit::because(exit::USAGE, error),
    };
    let entries = loaded.entries();
    if json {
        let object: serde_json::Map<_, _> = entries
            .into_iter()
            .map(|(key, value, from)| (key, serde_json::json!({ "value": value, "from": from })))
            .collect();
        println!("{:#}", serde_json::Value::Object(object));
    } else {
        for (key, value, from) in entries {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            println!("{key:<22} {value:<28} {from}");
        }
    }
    ExitCode::from(exit::DONE)
}
