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
mod verify;

mod admin;
mod client;
mod csv_lines;
mod latency;
mod plural;
mod seat_map;
mod server;
mod table;

mod ctl;
mod export;
mod import;

mod bench;
mod demo;
mod replay;
mod sim;

mod doctor;
mod manual;

use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use stockhold_config::{Config, Flags, exit};

/// Inventory reservation: time-bounded holds on stock that are never promised twice.
///
/// Start with `stockhold serve`, then try `stockhold ctl stock set shirt --total 10` and `stockhold
/// ctl reserve shirt --owner cart-1` in another terminal, or watch `stockhold demo`.
///
/// Exit codes of all commands: 0 done; 1 not done, refused, or not right; 2 command line,
/// configuration or input file not understood; 3 data directory damaged, in use or of a newer
/// version; 4 the store failed while serving; 5 no answer from a server; 6 done but for what is
/// listed.
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
    /// Exit codes: 0 drained, 1 could not start, 2 configuration not understood, 3 data directory
    /// damaged, in use or of a newer version, 4 the store failed while serving (a restart recovers).
    #[command(verbatim_doc_comment)]
    Serve {
        #[command(flatten)]
        flags: Flags,
    },
    /// Recount everything and say whether it adds up
    ///
    /// Folds every event from the first one, and holds the rules' invariants and the index against what
    /// comes of it; of a database, every table. Reads only; a server may be running on the directory or
    /// the database. Where events have been archived it goes on from what they came to.
    ///
    /// Try it:
    ///   stockhold verify --data-dir /srv/stockhold
    ///   stockhold verify --json
    ///   STOCKHOLD_STORE=postgres://stockhold:secret@db/shop stockhold verify
    ///
    /// Exit codes: 0 it adds up, 1 it does not or can't be read, 2 configuration not understood, 3 the
    /// data is damaged or of another version.
    #[command(verbatim_doc_comment)]
    Verify(verify::VerifyArgs),
    /// Write what is old and over to files, and let it leave the database
    ///
    /// What is over: events older than the age, the oldest first, and the reservations that had ended by
    /// then. It is written as JSON lines, as the API shows it, to files named by the first position in
    /// them; synced; and with --drop it leaves the database, in small transactions and while servers go
    /// on, together with idempotency keys of that age. What it came to stays: `stockhold verify` adds up
    /// afterwards, and positions go on as they were. A reader of events that asks for what has left is
    /// told where to begin. Reservations that have left are unknown to the server: a sale that left can
    /// no longer be returned. Cut off, the same command goes on where it stopped.
    ///
    /// For databases; the embedded store keeps everything.
    ///
    /// Try it:
    ///   stockhold archive --older-than 90d --to /mnt/archive
    ///   stockhold archive --older-than 90d --to /mnt/archive --drop --json
    ///
    /// Exit codes: 0 done, 1 it could not be written or read, or the books do not add up, 2 configuration
    /// or command line not understood, 3 the database has another schema than this version knows.
    #[command(verbatim_doc_comment)]
    Archive(archive::ArchiveArgs),
    /// Copy the data while the server runs, and go on with an earlier copy
    ///
    /// Copies the log batch by batch, each held against its checksum, up to the last batch that is there
    /// when the backup begins: everything that was answered before is in it. The server goes on
    /// meanwhile. On a directory that holds an earlier backup only what is new is copied. Ends with a
    /// sync, and a recount of the copy (leave that out with --no-verify when the log is long).
    ///
    /// To restore: stop the server, copy the backup's files into an empty directory, and `stockhold serve
    /// --data-dir` on that. The first start makes the index anew. Don't start a server on the backup
    /// itself: after that it can't be gone on with.
    ///
    /// Try it:
    ///   stockhold backup --data-dir /srv/stockhold --to /mnt/backup/stockhold
    ///   stockhold backup --to /mnt/backup/stockhold --no-verify --json
    ///
    /// Copies data directories. Where the store is a database, its own tools back it up.
    ///
    /// Exit codes: 0 the copy is whole, 1 it could not be made or does not add up, 2 configuration not
    /// understood, or the store is a database and no --data-dir is named, 3 the data or the copy is
    /// damaged, or a server uses the copy.
    #[command(verbatim_doc_comment)]
    Backup(backup::BackupArgs),
    /// Take everything that a store has over into an empty database
    ///
    /// From a data directory or a database to another database: every event under its position, and so
    /// items, reservations with their ids and histories, sales, holds and pauses as they are; and the
    /// idempotency keys that are still to be kept. Stop the servers first: a data directory in use is
    /// refused, and what is answered by a database's servers meanwhile stays behind. Ends with a recount of
    /// what was taken over. Cut off, empty the database and begin again.
    ///
    /// Try it:
    ///   stockhold copy --data-dir ./stockhold-data --to postgres://stockhold:secret@db/shop
    ///   STOCKHOLD_COPY_TO=mysql://stockhold:secret@db/shop stockhold copy
    ///
    /// Exit codes: 0 all of it is there and adds up, 1 it could not be read or written, or the database is
    /// not empty, 2 configuration or command line not understood, 3 the data is damaged or in use.
    #[command(verbatim_doc_comment)]
    Copy(copy::CopyArgs),
    /// Bring a database's schema up to date, and do nothing else
    ///
    /// `serve` does so by itself when it starts. Where its user may not make tables, run this as one who
    /// may, and let the other select, insert, update and delete. Instances that start at once wait for
    /// each other; a newer schema is left alone.
    ///
    /// Try it:
    ///   STOCKHOLD_STORE=postgres://owner:secret@db/shop stockhold migrate
    ///
    /// Exit codes: 0 the schema is up to date, 1 it could not be made, 2 configuration not understood, 3
    /// the schema is newer than this version knows.
    #[command(verbatim_doc_comment)]
    Migrate(migrate::MigrateArgs),
    /// Reserve, confirm, set stock and so on from a shell
    ///
    /// Each command is one request to a running server. Commands that are not harmless to repeat (reserve,
    /// confirm, extend, return, stock adjust) carry an idempotency key, yours (--key) or a fresh one
    /// that is printed to standard error: the same command with the same key takes effect once. Answers
    /// are told for people, or with --json as the server gave them.
    ///
    /// Try it:
    ///   stockhold ctl stock set shirt --total 10
    ///   stockhold ctl reserve shirt --quantity 2 --owner cart-1 --ttl 600
    ///   stockhold ctl confirm 0198f2c4-6f3a-7c3e-9b1d-2f4a5b6c7d8e --order order-1
    ///   stockhold ctl list --owner cart-1 --json
    ///   stockhold ctl events --follow
    ///
    /// Exit codes: 0 done, 1 refused (standard error says the reason and what to do) or the answer is
    /// odd, 2 command line not understood, 5 no answer: the command may have taken effect, and is safe to
    /// repeat with its --key.
    #[command(verbatim_doc_comment)]
    Ctl(ctl::CtlArgs),
    /// Load items from a CSV or JSON lines file into a running server
    ///
    /// Each row sets one item: sku and total_units, and what else it names of location, safety_stock,
    /// default_ttl_seconds, max_hold_seconds and metadata; what it leaves out or empty stays as it is (in
    /// JSON lines, null takes back the last three). CSV names its columns in the first line (--column gives
    /// yours our names). What an `export items` has besides is understood and passed over, anything else is
    /// an error (--ignore passes it over).
    ///
    /// Items that sell already: total_units counts all units that exist, sold ones included, and a total
    /// below what is sold and held is refused. When your number is what is on the shelf, say --stock
    /// on-hand: what is sold here is added to it. To leave items alone that are there, say --existing
    /// keep.
    ///
    /// With --units SKU the rows are units of that item (seats, slots, serial numbers) in CSV: unit_id, and
    /// section, row, number, position and attributes where it has them. The item is made if it is not
    /// there; units that are there and the same stay, so a run that was cut is run again.
    ///
    /// Every row that can't be used is told with its line and column, and left out; after --max-errors of
    /// them the import stops. Nothing is skipped silently: the report counts all rows.
    ///
    /// When it is cut, the same command goes on where it stopped: how far it is stands in a file beside
    /// the input (--state), which the end of the import removes. Rows around the cut may be sent twice,
    /// which changes nothing. Memory does not grow with the file.
    ///
    /// Try it:
    ///   stockhold import items.csv --dry-run
    ///   stockhold import items.csv
    ///   stockhold import seats.csv --units concert
    ///   stockhold import erp.csv --delimiter ';' --column sku=ArtNr --column total_units=Menge
    ///   stockhold export items --server http://127.0.0.1:9001 | stockhold import - --format jsonl
    ///
    /// Exit codes: 0 every row is in, 1 stopped (too many bad rows, an interrupt), 2 file or flags not
    /// understood, 5 no answer from the server, 6 done, but rows were left out.
    #[command(verbatim_doc_comment)]
    Import(import::ImportArgs),
    /// Write items, reservations or events of a running server to a file
    ///
    /// JSON lines have everything that the API answers; CSV has the columns of docs/cli.md. Items can be
    /// imported elsewhere: stock settings are the same there, sales and holds are not carried over (see
    /// `import --stock on-hand`). Reservations and events in CSV have one row for each line of a basket.
    ///
    /// Try it:
    ///   stockhold export items --out items.csv
    ///   stockhold export reservations --status confirmed --out sold.jsonl
    ///   stockhold export events --after 0 | grep reservation.expired
    ///
    /// Exit codes: 0 everything is written, 1 it could not be written or was refused, 2 command line not
    /// understood, 5 no answer from the server; the message says how to go on.
    #[command(verbatim_doc_comment)]
    Export(export::ExportArgs),
    /// Measure a running server: throughput, latency, and what limits it
    ///
    /// Makes SKUs of its own with plenty of stock, reserves (sells, reads) them for a while, and reports
    /// operations a second, latency percentiles, refusals by reason, what the figures were limited by,
    /// the server's durability, what it left behind, and whether the server's books agree with what it
    /// was told. Every command carries an idempotency key and a time to live.
    ///
    /// Closed loop (default): as fast as --connections get their answers. Open loop (--rate): at a fixed
    /// rate, and latency counts from the moment that a request was to be sent, so that a stall counts for
    /// all that waited.
    ///
    /// The generator and the server share a machine's processors when they run on one: read "Limited by".
    ///
    /// Try it:
    ///   stockhold bench
    ///   stockhold bench --mix reserve-confirm --rate 1400 --duration 30
    ///   stockhold bench --mix commands --batch 512 --connections 4 --json
    ///   stockhold bench --mix available --skus 1000
    ///
    /// Exit codes: 0 measured and the books agree, 1 they don't or nothing succeeded, 2 command line not
    /// understood, 5 no answer from the server.
    #[command(verbatim_doc_comment)]
    Bench(bench::BenchArgs),
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
    /// flags not understood, 5 no answer from the server.
    #[command(verbatim_doc_comment)]
    Replay(replay::ReplayArgs),
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
    ///   stockhold demo --seats
    ///
    /// Exit codes: 0 the audit is right, 1 it is not or the demo could not run.
    #[command(verbatim_doc_comment)]
    Demo(demo::DemoArgs),
    /// Run the simulator: what the store does when everything goes wrong at once
    ///
    /// A seed makes a history of callers that retry, a network that loses, repeats and reorders, clocks
    /// that step, drift and stand still, a disk that fails and forgets, and crashes at every point of a
    /// commit. The embedded store of this program goes through it step by step, in memory, and is held to
    /// its promises at every step against a naive model of the rules. What happens follows from the
    /// seed alone: the same seed ends with the same trace hash. Ends with counters of what really
    /// happened.
    ///
    /// A broken promise ends the run with its seed and the shortest history found that shows it.
    ///
    /// Try it:
    ///   stockhold sim --seed 7
    ///   stockhold sim --seed 7 --steps 5000
    ///   stockhold sim --minutes 10
    ///
    /// Exit codes: 0 every promise was kept and every kind of fault happened, 1 one was broken or a kind
    /// never happened, 2 command line not understood.
    #[command(verbatim_doc_comment)]
    Sim(sim::SimArgs),
    /// Check this machine, the configuration, the data directory and a running server
    ///
    /// Give it the flags, variables and directory that `serve` gets. For each finding it says what to do.
    /// It writes one file beside the data to time the disk's syncs (--no-disk leaves that out) and
    /// changes nothing else. Into a store that is a database it does not look: `stockhold verify` does.
    ///
    /// Try it:
    ///   stockhold doctor
    ///   stockhold doctor --data-dir /srv/stockhold --json
    ///
    /// Exit codes: 0 nothing is wrong (there may be things to look at), 1 something is.
    #[command(verbatim_doc_comment)]
    Doctor(doctor::DoctorArgs),
    /// Print every setting in force and where it came from
    ///
    /// Flags go before STOCKHOLD_* variables (STOCKHOLD_LISTEN=127.0.0.1:9000), those before
    /// stockhold.toml, that before defaults. Unknown keys are errors.
    ///
    /// Try it:
    ///   STOCKHOLD_THREADS=4 stockhold config --data-dir /srv/stockhold
    ///   stockhold config --json
    ///
    /// Exit codes: 0 printed, 2 a setting is not understood; standard error says which and where it
    /// stands.
    #[command(verbatim_doc_comment)]
    Config {
        #[command(flatten)]
        flags: Flags,
        /// As JSON
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
    /// Exit codes: 0 printed, 2 command line not understood.
    #[command(verbatim_doc_comment)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    ///
    /// Without a directory the main page goes to standard output; with one, every command gets a page
    /// there.
    ///
    /// Try it:
    ///   stockhold man | man -l -
    ///   stockhold man ~/.local/share/man/man1
    ///
    /// Exit codes: 0 written, 1 they could not be written, 2 command line not understood.
    #[command(verbatim_doc_comment)]
    Man {
        /// Where to; made if it is not there
        dir: Option<PathBuf>,
    },
}

/// Runs the command that the process's arguments name. `serve` starts the server: this crate does not know it.
pub fn run(serve: fn(&Config) -> ExitCode) -> ExitCode {
    out::code(execute(Cli::parse().command, serve))
}

fn execute(command: Command, serve: fn(&Config) -> ExitCode) -> ExitCode {
    match command {
        Command::Serve { flags } => match flags.load() {
            Ok(loaded) => serve(&loaded.config),
            Err(error) => exit::because(exit::USAGE, error),
        },
        Command::Verify(verify) => verify.run(),
        Command::Archive(args) => archive::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions { shell } => manual::completions(Cli::command(), shell),
        Command::Man { dir } => manual::man(Cli::command(), dir.as_deref()),
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
