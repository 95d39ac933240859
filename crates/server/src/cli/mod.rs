//! The command line. Doc comments here are the help texts.
#![expect(clippy::doc_markdown, reason = "help texts are plain text")]

mod verify;

mod demo;
mod replay;

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
    /// Starts with no configuration: the API on http://127.0.0.1:8101, health and metrics on
    /// http://127.0.0.1:8102, the data in ./stockhold-data. Everything that is answered has been synced
    /// to the disk. SIGTERM drains and ends with 0.
    ///
    /// Try it:
    ///   curl --json '{"total_units": 10}' -X PUT http://127.0.0.1:8101/v1/inventory/shirt
    ///   curl --json '{"owner_id": "cart-1"}' http://127.0.0.1:8101/v1/inventory/shirt/reserve
    ///
    /// Exit codes: 0 drained, 1 could not start, 2 configuration not understood, 3 data directory damaged,
    /// in use or of a newer version, 4 the store failed while serving (a restart recovers).
    #[command(verbatim_doc_comment)]
    Serve {
        #[command(flatten)]
        flags: Flags,
    },
    /// Recount everything and say whether it adds up
    ///
    /// Folds every event from the first one, and holds the rules' invariants and the index against what
    /// comes of it. Reads only; a server may be running on the directory.
    ///
    /// Exit codes: 0 it adds up, 1 it does not or can't be read, 3 the data is damaged.
    Verify(verify::Verify),
    /// Drive past orders through a running server, then audit what it did with them
    ///
    /// Reads CSV files of order lines. All lines of one order are one basket: it is held for its customer
    /// and confirmed. An order whose name starts with C is a cancellation: units of what that customer
    /// bought in this replay come back as returns of those reservations, the latest first; what was
    /// bought before, or was refused, as an adjustment of the stock. A negative quantity in any other
    /// order is a write-off: an adjustment down, which the server refuses when so much is not free. Names
    /// are taken without blanks around them. Lines that can't be used, and what is not goods, are counted
    /// and listed with file and line, never skipped silently.
    ///
    /// Orders go out in the order of time, so many at once (--connections); those of one customer wait
    /// for each other, those of nobody for none. Items that the server does not know are made first
    /// (--stock or --stock-percent); those it knows are left as they are.
    ///
    /// When the server goes away, the replay sends the same requests with the same keys until it is back
    /// (--patience). When the replay itself is cut, give the same command again within the time that keys
    /// are kept: what was done is not done twice. Orders that were refused are tried again, unless a
    /// cancellation was booked on that.
    ///
    /// The report ends with the audit: for every SKU, what the server has as sold, held and in total must
    /// be what the replay was told, to the unit. Figures are absolute: for stock that others sell from
    /// too they differ, so use a fresh data directory or a --location of its own.
    ///
    /// Try it:
    ///   stockhold serve --data-dir /tmp/rehearsal &
    ///   stockhold replay orders.csv --stock-percent 80
    ///   stockhold replay 2011-11-*.csv --speed 600 --fulfilment partial
    ///   stockhold replay shop.csv --order-column order_id --sku-column sku --quantity-column qty \
    ///     --time-column created_at --customer-column email --json
    ///
    /// Exit codes: 0 the books balance, 1 they don't or the replay could not be finished, 2 files or
    /// flags not understood.
    #[command(verbatim_doc_comment)]
    Replay(replay::Args),
    /// Watch a sale that runs itself: too many buyers, a killed server, and the audit
    ///
    /// Starts a server of its own on free ports of this machine, with its data in a temporary directory.
    /// A crowd of buyers asks for too few units at once. Some pay, some change their minds, some walk
    /// away and their holds expire; late buyers get what came back. In the middle the server is killed
    /// (kill -9) and started again on the same data. The audit counts: every sale that a buyer was told
    /// of is there, nothing is sold twice, every hold has ended.
    ///
    /// Try it:
    ///   stockhold demo
    ///   stockhold demo --buyers 5000 --units 300 --seed 7
    ///
    /// Exit codes: 0 the audit is right, 1 it is not or the demo could not run.
    #[command(verbatim_doc_comment)]
    Demo(demo::Args),
    /// Print every setting in force and where it came from
    ///
    /// Flags go before STOCKHOLD_* variables (STOCKHOLD_LISTEN=127.0.0.1:9000), those before
    /// stockhold.toml, that before defaults. Unknown keys are errors.
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
        Command::Replay(args) => replay::run(&args),
        Command::Demo(args) => demo::run(&args),
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
