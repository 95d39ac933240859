//! The project's own commands, run as `cargo xtask …`: measurements, and everything that tries to break a server. They
//! drive the server's binary over HTTP like any other client and link none of its crates. They start all that they need on
//! private ports of 127.0.0.1 in temporary folders, and end only what they started.
#![expect(clippy::cast_precision_loss, reason = "figures are printed to four digits")]

mod bench;
mod bugs;
mod clock;
mod crash;
mod curves;
mod database;
mod deliveries;
mod failover;
mod faults;
mod grpc;
mod http;
mod load;
mod powercut;
mod process_end;
mod prove;
mod rng;
mod shim;
mod sim;
mod soak;
mod source;
mod spawn;
mod workload;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The allocator of the server: baselines that run in this process must not be slower because of theirs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The result of a command. An error is only ever printed.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// An error with this text.
pub(crate) fn fail<T>(text: impl Into<String>) -> Outcome<T> {
    Err(text.into().into())
}

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Measures Stockhold and tries to break it", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the figures: ratios in one run on one machine, with the books audited after each
    Bench(bench::Options),
    /// Measure the stores over PostgreSQL and MariaDB beside one transaction per request on the same servers
    Databases(bench::databases::Options),
    /// Measure what a gate gives and costs, and count what the two usual designs lose when they are killed
    Gate(bench::gate::Options),
    /// Measure what sinks and webhooks deliver and cost, or kill the server that serves sinks
    Deliveries(deliveries::Options),
    /// Measure rates, latency, memory and restart over ranges, and plot them
    Curves(curves::Options),
    /// Full load for minutes; fails when rate, latency or memory drifts
    Soak(soak::Options),
    /// Kill −9, fault points, failing disks and clocks under real HTTP load: restart, and audit every acknowledged answer
    Crash(crash::Options),
    /// Failing syncs, a full disk, flipped bytes, a second server, and stopping under load
    Faults(faults::Options),
    /// Random histories with every fault on the embedded store, step by step, against the reference model
    Sim(sim::Options),
    /// Images of the disk as power cuts under load leave it, each started and audited
    Powercut(powercut::Options),
    /// The primary of a replicated database killed under the load of two servers, its standby promoted, every answer audited
    Failover(failover::Options),
    /// Mistakes that are patched into a copy of the code, each of which the tests have to catch
    Bugs(bugs::Options),
    /// Compile the `.proto` files: the descriptor set of the server and the Rust client, which are committed
    Grpc,
    /// Everything that tries to break a server, in one run
    Prove(prove::Options),
}

impl Command {
    /// Whether it measures, with baselines in this process.
    fn measures(&self) -> bool {
        match self {
            Self::Bench(_) | Self::Databases(_) | Self::Gate(_) | Self::Curves(_) | Self::Soak(_) => true,
            Self::Deliveries(options) => options.measures(),
            _ => false,
        }
    }
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let result = match command {
        _ if command.measures() && cfg!(debug_assertions) => in_dist(),
        Command::Bench(options) => bench::run(&options),
        Command::Databases(options) => bench::databases::run(&options),
        Command::Gate(options) => bench::gate::run(&options),
        Command::Deliveries(options) => deliveries::run(&options),
        Command::Curves(options) => curves::run(&options),
        Command::Soak(options) => soak::run(&options),
        Command::Crash(options) => crash::run(&options),
        Command::Faults(options) => faults::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Powercut(options) => powercut::run(&options),
        Command::Failover(options) => failover::run(&options),
        Command::Bugs(options) => bugs::run(&options),
        Command::Grpc => grpc::run(),
        Command::Prove(options) => prove::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the same command in a build that is optimised as the server is that it measures.
fn in_dist() -> Outcome<()> {
    let mut command = spawn::cargo();
    command.args(["run", "--profile", "dist", "--quiet", "--locked", "--package", "xtask", "--"]);
    command.args(std::env::args_os().skip(1)).current_dir(std::env::current_dir()?);
    let status = command.status()?;
    if status.success() { Ok(()) } else { fail(format!("the optimised build of xtask ended with {status}")) }
}
