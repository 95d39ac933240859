//! The project's own commands, run as `cargo xtask …`: the benchmark, the crash harness and the fault harness. They
//! drive the release binary over HTTP like any other client, start all they need on private ports of 127.0.0.1 in
//! temporary folders, and end only what they started.
#![expect(clippy::cast_precision_loss, reason = "figures are printed to four digits")]

mod bench;
mod bugs;
mod clock;
mod crash;
mod curves;
mod database;
mod ends;
mod failover;
mod faults;
mod http;
mod load;
mod powercut;
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

/// The server's: a baseline that runs in here must not be slower for its allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a command comes to: here an error only ever ends the command with its words.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// An error in words.
pub(crate) fn fail<T>(words: impl Into<String>) -> Outcome<T> {
    Err(words.into().into())
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
    /// Measure rates, latency, memory and restart over ranges, and plot them
    Curves(curves::Options),
    /// Full load for minutes, with everything that happens behind it: fails when anything drifts
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
    /// Mistakes put into the code on purpose, each of which the tests have to catch
    Bugs(bugs::Options),
    /// All of the proof in one run
    Prove(prove::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Bench(options) => bench::run(&options),
        Command::Databases(options) => bench::databases::run(&options),
        Command::Curves(options) => curves::run(&options),
        Command::Soak(options) => soak::run(&options),
        Command::Crash(options) => crash::run(&options),
        Command::Faults(options) => faults::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Powercut(options) => powercut::run(&options),
        Command::Failover(options) => failover::run(&options),
        Command::Bugs(options) => bugs::run(&options),
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
