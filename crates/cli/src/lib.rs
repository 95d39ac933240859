//! The command line of `stockhold`: all commands, their help texts (the doc comments below) and the tools.
//!
//! The server itself is not here: `run` is given the function that starts it, so that the server can depend on this crate.
#![expect(clippy::doc_markdown, reason = "help texts are plain text")]

#[macro_use]
mod out;

mod archive;
mod audit_errors;
mod backup;
mod copy;
mod migrate;
mod test_provider;
mod verify;

mod admin;
mod client;
mod credentials;
mod csv_lines;
mod latency;
mod plural;
mod price;
mod seat_map;
mod server;
mod spreadsheet;
mod table;

mod ctl;
mod export;
mod import;
mod listen;

mod bench;
mod demo;
mod replay;
mod sim;

mod doctor;
mod event_files;
mod manual;

pub use archive::Consumers;
pub use event_files::{EventFiles, OpenFilesError};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use stockhold_config::{Config, Flags, exit, standard_error};

/// Inventory reservation: holds on stock with a deadline, and no unit promised twice
///
/// Start a server with `stockhold serve`. Then try `stockhold ctl stock set shirt --total 10` and `stockhold ctl reserve shirt
/// --owner cart-1` in another terminal. Or watch `stockhold demo`.
///
/// Exit codes of all commands: 0 done; 1 failed, refused, or a check found an error; 2 invalid command line, configuration or input
/// file; 3 the data directory is damaged, in use or of a newer version; 4 the store failed while serving; 5 no answer from a server; 6
/// done, except for what is listed.
#[derive(Parser)]
#[command(name = "stockhold", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service
    ///
    /// Needs no configuration: the API listens on http://127.0.0.1:8101, health and metrics on http://127.0.0.1:8102, and the data is
    /// in ./stockhold-data. Every answer is synced to the disk before it is sent. SIGTERM stops the server after all requests are
    /// answered.
    ///
    /// Try it:
    ///   curl --json '{"total_units": 10}' -X PUT http://127.0.0.1:8101/v1/inventory/shirt
    ///   curl --json '{"owner_id": "cart-1"}' http://127.0.0.1:8101/v1/inventory/shirt/reserve
    ///
    /// Exit codes: 0 stopped in order, 1 could not start, 2 invalid configuration, 3 the data directory is damaged, in use or of a newer
    /// version, 4 the store failed while serving (a restart recovers it).
    #[command(verbatim_doc_comment)]
    Serve {
        #[command(flatten)]
        flags: Flags,
        /// For this start: if the clock was ahead and is corrected, let the time of the embedded store run on from its newest commit,
        /// instead of standing still until the clock has caught up
        #[arg(long)]
        accept_clock_step: bool,
    },
    /// Recount everything and compare it with what the store has
    ///
    /// Reads every event from the first one, and checks the invariants of the rules and the index against the result. Of a database it
    /// checks every table. It only reads, and a server may be running, unless it repairs positions. If events have been archived, it begins with the totals that
    /// the archive left.
    ///
    /// Try it:
    ///   stockhold verify --data-dir /srv/stockhold
    ///   stockhold verify --json
    ///   STOCKHOLD_STORE=postgres://stockhold:secret@db/shop stockhold verify
    ///
    /// Exit codes: 0 everything is consistent, 1 it is not or can't be read, 2 invalid configuration, 3 the data is damaged or of
    /// another version.
    #[command(verbatim_doc_comment)]
    Verify(verify::VerifyArgs),
    /// Write old events to files, and remove them and what had ended by then from the store
    ///
    /// Takes the events that are older than --older-than, from the oldest on, and writes them as JSON lines, in the form
    /// of the API, to files that are named by their positions once they are synced. With --drop the events and the
    /// reservations that had ended by then leave the store. Their totals stay: `stockhold verify` still works, and
    /// positions continue. A reader that asks for a removed event gets the first existing position. The server does
    /// not know removed reservations: a sale that was removed can't be returned. Active reservations never leave. If the
    /// command is interrupted, give it again: it continues.
    ///
    /// If a server uses the data directory of the embedded store, it is asked to do it, with the key of STOCKHOLD_API_KEY.
    /// A database is archived while servers run, and idempotency keys of that age leave it too.
    ///
    /// Try it:
    ///   stockhold archive --older-than 90d --to /mnt/archive
    ///   stockhold archive --older-than 90d --to /mnt/archive --drop --json
    ///
    /// Exit codes: 0 done, 1 reading or writing failed or the totals are not consistent, 2 invalid configuration or command line, 3 the
    /// database has a schema that this version does not know.
    #[command(verbatim_doc_comment)]
    Archive(archive::ArchiveArgs),
    /// Copy the data while the server runs, or update an earlier copy
    ///
    /// Copies the log batch by batch, up to the last batch that exists when the backup begins, and checks each batch against its
    /// checksum. Everything that was answered before is in the copy. The server continues meanwhile. If the target directory has an
    /// earlier backup, only what is new is copied. At the end the copy is synced and recounted (--no-verify skips the recount, which
    /// takes long for a long log).
    ///
    /// To restore: stop the server, copy the backup's files into an empty directory, and run `stockhold serve --data-dir` on that
    /// directory. The first start builds the index again. Never start a server on the backup itself: you could not extend it
    /// afterwards.
    ///
    /// It copies data directories. If the store is a database, use the database's own tools.
    ///
    /// Try it:
    ///   stockhold backup --data-dir /srv/stockhold --to /mnt/backup/stockhold
    ///   stockhold backup --to /mnt/backup/stockhold --no-verify --json
    ///
    /// Exit codes: 0 the copy is complete, 1 it could not be made or is not consistent, 2 invalid configuration, or the store is a
    /// database and no --data-dir is given, 3 the data or the copy is damaged, or a server uses the copy.
    #[command(verbatim_doc_comment)]
    Backup(backup::BackupArgs),
    /// Copy a whole store into an empty database
    ///
    /// Copies from a data directory or a database to another database: every event with its position, and so all items, reservations
    /// (with their ids and histories), sales, holds and pauses; and the idempotency keys that must still be kept. Stop the servers
    /// first. A data directory in use is refused. What servers of a database answer during the copy is not copied. At the end the copy
    /// is recounted. If the command is interrupted, empty the database and begin again.
    ///
    /// Try it:
    ///   stockhold copy --data-dir ./stockhold-data --to postgres://stockhold:secret@db/shop
    ///   STOCKHOLD_COPY_TO=mysql://stockhold:secret@db/shop stockhold copy
    ///
    /// Exit codes: 0 everything is copied and consistent, 1 reading or writing failed, or the database is not empty, 2 invalid
    /// configuration or command line, 3 the data is damaged or in use.
    #[command(verbatim_doc_comment)]
    Copy(copy::CopyArgs),
    /// Bring a database's schema up to date
    ///
    /// `serve` does this when it starts. If the server's user may not create tables, run this command as a user who may, and grant the
    /// server's user SELECT, INSERT, UPDATE and DELETE. Several instances that start at once wait for each other. A newer schema is not
    /// changed.
    ///
    /// With --distribute it also spreads the tables over the workers of a Citus cluster (docs/operating.md). Stop the servers before.
    ///
    /// Try it:
    ///   STOCKHOLD_STORE=postgres://owner:secret@db/shop stockhold migrate
    ///   STOCKHOLD_STORE=postgres://owner:secret@coordinator/shop stockhold migrate --distribute --shards 8
    ///
    /// Exit codes: 0 the schema is up to date, 1 it could not be created, 2 invalid configuration, 3 the schema is newer than this
    /// version knows.
    #[command(verbatim_doc_comment)]
    Migrate(migrate::MigrateArgs),
    /// Reserve, confirm, set stock and more from a shell
    ///
    /// Each command is one request to a running server. Commands that are not safe to repeat (reserve, confirm, extend, return, stock
    /// adjust) carry an idempotency key: yours (--key), or a new one, which is printed to standard error. The same command with the
    /// same key takes effect once. Answers are shown for people, or with --json as the server sent them.
    ///
    /// Try it:
    ///   stockhold ctl stock set shirt --total 10
    ///   stockhold ctl reserve shirt --quantity 2 --owner cart-1 --ttl 600
    ///   stockhold ctl confirm 0198f2c4-6f3a-7c3e-9b1d-2f4a5b6c7d8e --order order-1
    ///   stockhold ctl list --owner cart-1 --json
    ///   stockhold ctl events --follow
    ///
    /// Exit codes: 0 done, 1 refused (standard error says the reason and what to do) or an unexpected answer, 2 invalid command line, 5
    /// no answer: the command may have taken effect, and is safe to repeat with its --key.
    #[command(verbatim_doc_comment)]
    Ctl(ctl::CtlArgs),
    /// Create, list, show, roll and revoke the API keys of a running server
    ///
    /// The server has to know the caller, with the scope keys:admin. The root key (STOCKHOLD_ROOT_KEY of the server) has it, and makes
    /// the first keys. Give the credential as STOCKHOLD_API_KEY: command lines can be read by others.
    ///
    /// A new key is printed to standard output, this once; everything else goes to standard error. The server keeps a digest only.
    ///
    /// Try it:
    ///   export STOCKHOLD_API_KEY=... # the root key
    ///   stockhold keys create "Shop, production" --principal shop --scope reservations:write --scope inventory:read
    ///   stockhold keys list
    ///   stockhold keys roll KEY_ID --expire-old-in 3600
    ///   stockhold keys revoke KEY_ID
    ///
    /// Exit codes: 0 done, 1 refused, 2 invalid command line, 5 no answer from the server.
    #[command(verbatim_doc_comment)]
    Keys(ctl::KeysArgs),
    /// Load items, units, pools or limits from a file into a running server
    ///
    /// Each row sets one item: sku and total_units, and optionally location, safety_stock, default_ttl_seconds, max_hold_seconds,
    /// max_payment_seconds, oversell_allowance, gated (true or false), sale_starts_at, sale_ends_at, incoming (a JSON array), price (such as "1999 usd", or a JSON object),
    /// low_stock, stock_master and metadata.
    /// A value that is left out or empty stays unchanged. In JSON lines, null clears a setting that an item may have or not.
    /// The first line of a CSV file names the columns (--column maps your names to ours). Other columns of `export items` are ignored.
    /// Any other column is an error unless --ignore names it.
    ///
    /// If items sell already: total_units counts all units that exist, including sold ones, and a total below what is sold and held is
    /// refused. If your number counts unsold units, use --stock unsold: the units that are sold here are added to it. If it is a count
    /// of the shelf, use the columns on_hand and fulfilled_units_seen instead. To leave existing items unchanged, use --existing keep.
    ///
    /// With --units SKU the rows of a CSV file are units of that item (seats, slots, serial numbers): unit_id, and optionally section,
    /// row, number, position, attributes and pool. The item is created if it does not exist. Units that exist and are the same stay
    /// unchanged, so that an interrupted run is simply given again.
    ///
    /// With --pools or --limits the rows are JSON lines of `export pools` or `export limits`. Each replaces one pool or one limit.
    /// Import the items of the pools first.
    ///
    /// Every row that can't be used is reported with its line and column, and left out. After more than --max-errors such rows the
    /// import stops. The report counts all rows.
    ///
    /// If the import is interrupted, the same command continues where it stopped: the progress is in a file beside the input (--state),
    /// which the import removes at its end. Rows around the interruption may be sent twice, which changes nothing. Memory does not grow
    /// with the file.
    ///
    /// Try it:
    ///   stockhold import items.csv --dry-run
    ///   stockhold import items.csv
    ///   stockhold import seats.csv --units concert
    ///   stockhold import pools.jsonl --pools
    ///   stockhold import erp.csv --delimiter ';' --column sku=ArtNr --column total_units=Menge
    ///   stockhold export items --server http://127.0.0.1:9001 | stockhold import - --format jsonl
    ///
    /// Exit codes: 0 every row is imported, 1 stopped (too many bad rows, or an interrupt), 2 invalid file or command line, 5 no answer
    /// from the server, 6 done, but rows were left out.
    #[command(verbatim_doc_comment)]
    Import(import::ImportArgs),
    /// Write items, units, pools, limits, reservations or events of a running server to a file
    ///
    /// JSON lines have everything that the API answers. CSV has the columns of docs/cli.md. Items can be imported elsewhere: the stock
    /// settings are the same there; sales and holds are not copied (see `import --stock unsold`). Pools and limits can be imported from
    /// JSON lines. Reservations and events in CSV have one row for each line of a basket.
    ///
    /// Try it:
    ///   stockhold export items --out items.csv
    ///   stockhold export reservations --status confirmed --out sold.jsonl
    ///   stockhold export events --after 0 | grep reservation.expired
    ///
    /// Exit codes: 0 everything is written, 1 refused or not writable, 2 invalid command line, 5 no answer from the server: what is
    /// written stays, and standard error says how to continue.
    #[command(verbatim_doc_comment)]
    Export(export::ExportArgs),
    /// Send the events of a running server to an application on this machine, as webhooks
    ///
    /// For developers: your application gets each event as a webhook would bring it, signed and as a CloudEvent, and the server needs no
    /// endpoint for it. Each line of the output is an event and what the application answered. A delivery that fails is not repeated.
    /// The command goes on when the server restarts. It needs a key with the scope events:read. Events that sinks and webhooks derive
    /// from the state of items (inventory.updated and the like) are not part of it.
    ///
    /// Try it:
    ///   stockhold listen --forward-to http://localhost:3000/hook
    ///   stockhold listen --forward-to http://localhost:3000/hook --types reservation.* --from 1
    ///
    /// Exit codes: 0 standard output was closed, 1 refused, 2 invalid command line, 5 no answer from the server for a day.
    #[command(verbatim_doc_comment)]
    Listen(listen::ListenArgs),
    /// Measure a running server: throughput, latency, and what limits it
    ///
    /// Creates SKUs of its own with plenty of stock, reserves (confirms, reads) them for a while, and reports operations a second,
    /// latency percentiles, refusals by reason, what limited the result, the server's durability, what is left behind, and whether the
    /// server's counters agree with the answers that the bench received. Every command carries an idempotency key and a time to live.
    ///
    /// Closed loop (default): each of the --connections sends its next request when it has its answer. Open loop (--rate): requests are
    /// sent at a fixed rate, and latency counts from the planned time of a request, so that a stall counts for every request that it
    /// delayed.
    ///
    /// If the generator and the server run on one machine, they share its processors: read "Limited by".
    ///
    /// Try it:
    ///   stockhold bench
    ///   stockhold bench --mix reserve-confirm --rate 1400 --duration 30
    ///   stockhold bench --mix commands --batch 512 --connections 4 --json
    ///   stockhold bench --mix available --skus 1000
    ///
    /// Exit codes: 0 measured and the counters agree, 1 they don't agree or nothing succeeded, 2 invalid command line, 5 no answer from
    /// the server.
    #[command(verbatim_doc_comment)]
    Bench(bench::BenchArgs),
    /// Send past orders to a running server, then audit what it did with them
    ///
    /// Reads CSV files of order lines. All lines of one order are one basket: it is held for its customer and confirmed. An order whose
    /// name starts with C is a cancellation. Units that the customer bought in this replay are returned to those reservations, the
    /// latest first. Units that were bought before, or refused, become an adjustment of the stock. A negative quantity in any other
    /// order is a write-off: an adjustment down, which the server refuses if fewer units are free. Blanks around names are removed.
    /// Lines that can't be used, and lines that are not goods, are counted and listed with file and line.
    ///
    /// Orders are sent in the order of time, --connections at once. Orders of one customer wait for each other. Orders without a
    /// customer wait for nothing. Items that the server does not know are created first (--stock or --stock-percent). Existing items
    /// stay as they are.
    ///
    /// If the server goes away, the replay sends the same requests with the same keys until it is back (--patience). If the replay
    /// itself is interrupted, give the same command again within the time that keys are kept: nothing is done twice. Orders that were
    /// refused are tried again, unless a cancellation was booked because of the refusal.
    ///
    /// The report ends with the audit: for every SKU, the server's sold, held and total units must be exactly what the replay's answers
    /// add up to. The numbers are absolute. If others sell from the same stock, they differ: use a fresh data directory or a --location
    /// of its own.
    ///
    /// Try it:
    ///   stockhold serve --data-dir /tmp/rehearsal &
    ///   stockhold replay orders.csv --stock-percent 80
    ///   stockhold replay 2011-11-*.csv --speed 600 --fulfilment partial
    ///   stockhold replay shop.csv --order-column order_id --sku-column sku --quantity-column qty \
    ///     --time-column created_at --customer-column email --json
    ///
    /// Exit codes: 0 the audit is balanced, 1 it is not or the replay could not be finished, 2 invalid files or command line, 5 no
    /// answer from the server.
    #[command(verbatim_doc_comment)]
    Replay(replay::ReplayArgs),
    /// Watch a sale with too many buyers, a killed server, and an audit
    ///
    /// Starts a server of its own on free ports of this machine, with its data in a temporary directory. Many buyers ask for too few
    /// units at once. Some pay, some cancel, some do nothing and their holds expire. Late buyers get the units that came back. In the
    /// middle of the sale the server is killed (kill -9) and started again on the same data. The audit checks that every confirmed
    /// sale exists, that no unit is sold twice, and that every hold has ended.
    ///
    /// Try it:
    ///   stockhold demo
    ///   stockhold demo --buyers 5000 --units 300 --seed 7
    ///   stockhold demo --seats
    ///   stockhold demo --gate
    ///   stockhold demo --checkout
    ///
    /// With --checkout, buyers pay too. A test provider declines, times out and answers twice, and the server is killed three times. The
    /// provider's ledger stands beside the orders at the end.
    ///
    /// With --gate, two servers over one PostgreSQL and one Redis sell behind a gate. The demo starts both, if they are installed.
    ///
    /// Exit codes: 0 the audit is right, 1 it is not or the demo could not run.
    #[command(verbatim_doc_comment)]
    Demo(demo::DemoArgs),
    /// Run the test provider: a payment provider for trying a checkout out
    ///
    /// It takes the payments of a server with [providers.test] in its configuration, and does what the payment method says: approve,
    /// decline, require_action, timeout_before, timeout_after, answer_twice, error_remembered, capture_fails or
    /// refund_fails_three_times. Its ledger is a file, so that payments survive its end and that of the server. GET /payments shows
    /// them. POST /payments/{ref}/complete with {"outcome": "approve"} or "decline" is what the buyer does.
    ///
    /// Try it:
    ///   stockhold test-provider
    ///   stockhold test-provider --webhook http://127.0.0.1:8101/v1/providers/test/webhook
    ///
    /// Exit codes: 1 it can't listen, or its ledger can't be read.
    #[command(verbatim_doc_comment)]
    TestProvider(test_provider::TestProviderArgs),
    /// Run the simulator: the store under every kind of fault at once
    ///
    /// A seed makes a history of callers that retry, a network that loses, repeats and reorders messages, clocks that jump, drift and
    /// stop, a disk that fails and forgets, and crashes at every point of a commit. The embedded store of this program runs through the
    /// history step by step, in memory, and every step is compared with a simple model of the rules. The seed alone decides what
    /// happens: the same seed ends with the same trace hash. The command ends with counters of what happened.
    ///
    /// A broken promise ends the run. The output has the seed and the shortest history that still shows the error.
    ///
    /// Try it:
    ///   stockhold sim --seed 7
    ///   stockhold sim --seed 7 --steps 5000
    ///   stockhold sim --minutes 10
    ///
    /// Exit codes: 0 every promise was kept and every kind of fault happened, 1 a promise was broken or a kind of fault never happened, 2
    /// invalid command line.
    #[command(verbatim_doc_comment)]
    Sim(sim::SimArgs),
    /// Check this machine, the configuration, the data directory and a running server
    ///
    /// Give it the flags, variables and directory of `serve`. Each finding says what to do. It writes one file beside the data to
    /// measure the disk's syncs (--no-disk skips this) and changes nothing else. It does not check a database: `stockhold verify` does.
    ///
    /// Try it:
    ///   stockhold doctor
    ///   stockhold doctor --data-dir /srv/stockhold --json
    ///
    /// Exit codes: 0 nothing is wrong (there may be warnings), 1 something is wrong.
    #[command(verbatim_doc_comment)]
    Doctor(doctor::DoctorArgs),
    /// Print every setting in force and where it came from
    ///
    /// Flags override STOCKHOLD_* variables (STOCKHOLD_LISTEN=127.0.0.1:9000), variables override stockhold.toml, and the file overrides
    /// defaults. An unknown key of the file is an error. An unknown variable is ignored with a warning.
    ///
    /// Try it:
    ///   STOCKHOLD_THREADS=4 stockhold config --data-dir /srv/stockhold
    ///   stockhold config --json
    ///
    /// Exit codes: 0 printed, 2 a setting is invalid; standard error says which one, and its file and line.
    #[command(verbatim_doc_comment)]
    Config {
        #[command(flatten)]
        flags: Flags,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print completions for a shell
    ///
    /// Try it:
    ///   stockhold completions bash > ~/.local/share/bash-completion/completions/stockhold
    ///   stockhold completions zsh > ~/.zfunc/_stockhold
    ///   stockhold completions fish > ~/.config/fish/completions/stockhold.fish
    ///
    /// Exit codes: 0 printed, 2 invalid command line.
    #[command(verbatim_doc_comment)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    ///
    /// Without a directory the main page goes to standard output. With a directory, every command gets a page there.
    ///
    /// Try it:
    ///   stockhold man | man -l -
    ///   stockhold man ~/.local/share/man/man1
    ///
    /// Exit codes: 0 written, 1 they could not be written, 2 invalid command line.
    #[command(verbatim_doc_comment)]
    Man {
        /// Directory for the pages. It is created if it does not exist
        dir: Option<PathBuf>,
    },
}

/// The command line with help texts that are wrapped at the terminal's width: in the source their paragraphs are broken into lines, and
/// their examples must keep theirs.
fn command_line() -> clap::Command {
    reflow_help(Cli::command())
}

fn reflow_help(mut command: clap::Command) -> clap::Command {
    if let Some(text) = command.get_long_about().map(|text| reflow(&text.to_string())) {
        command = command.long_about(text);
    }
    let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    names.iter().fold(command, |command, name| command.mut_subcommand(name, reflow_help))
}

/// Joins the lines of each paragraph. Indented lines are examples, and stay lines.
fn reflow(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_paragraph = false;
    for line in text.lines() {
        let is_text = !line.is_empty() && !line.starts_with(' ');
        if !out.is_empty() {
            out.push(if in_paragraph && is_text { ' ' } else { '\n' });
        }
        out.push_str(line);
        in_paragraph = is_text;
    }
    out
}

/// What starts the server: with a configuration, and with or without `--accept-clock-step`.
pub type Serve = fn(&Config, bool) -> ExitCode;

/// Runs the command that the process's arguments name. `serve` starts the server: this crate does not know it.
pub fn run(serve: Serve) -> ExitCode {
    let arguments = command_line().get_matches();
    let code = match Cli::from_arg_matches(&arguments) {
        Ok(cli) => out::code(execute(cli.command, serve)),
        Err(error) => error.exit(),
    };
    standard_error::finish();
    code
}

fn execute(command: Command, serve: Serve) -> ExitCode {
    match command {
        Command::Serve { flags, accept_clock_step } => match flags.load() {
            Ok(loaded) => serve(&loaded.config, accept_clock_step),
            Err(error) => exit::because(exit::USAGE, error),
        },
        Command::Verify(verify) => verify.run(),
        Command::Archive(args) => archive::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Keys(args) => ctl::run_keys(&args),
        Command::Import(args) => import::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Listen(args) => listen::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::TestProvider(args) => test_provider::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions { shell } => manual::completions(command_line(), shell),
        Command::Man { dir } => manual::man(command_line(), dir.as_deref()),
        Command::Config { flags, json } => config(&flags, json),
    }
}

fn config(flags: &Flags, json: bool) -> ExitCode {
    let loaded = match flags.load() {
        Ok(loaded) => loaded,
        Err(error) => return exit::because(exit::USAGE, error),
    };
    for warning in loaded.config.warnings() {
        eprintln!("stockhold: {warning}");
    }
    let entries = loaded.entries();
    if json {
        let object: serde_json::Map<_, _> = entries
            .into_iter()
            .map(|(key, value, from)| (key, serde_json::json!({ "value": value, "from": from })))
            .collect();
        println!("{:#}", serde_json::Value::Object(object));
    } else {
        for (key, value, from) in entries {
            let value = match value {
                serde_json::Value::Null => "none".to_owned(),
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            println!("{key:<22} {value:<28} {from}");
        }
    }
    ExitCode::from(exit::DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_joined_and_examples_are_not() {
        let text = "One\ntwo\n\nTry it:\n  a\n  b\n\nThree\nfour";
        assert_eq!(reflow(text), "One two\n\nTry it:\n  a\n  b\n\nThree four");
        command_line().debug_assert();
    }
}
