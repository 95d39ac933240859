//! `cargo xtask prove`: everything that tries to break a server, in one run. The first part that fails ends the run; at the
//! end it prints the seconds of each part. The short form is part of `scripts/test`, the usual one of `scripts/test-more`, the long
//! one of `scripts/prove`.

use crate::clock::wall_millis;
use crate::source::has_no_fault_points;
use crate::spawn::{Build, server_binary};
use crate::{Outcome, crash, deliveries, failover, faults, powercut, sim};
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;

/// How much is run.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// A minute: kills, failing disks, clocks that jump, power cuts and histories, a few times each
    #[arg(long, conflicts_with = "long")]
    short: bool,
    /// Hours: everything many times, every fault point with every action, aged data too
    #[arg(long)]
    long: bool,
    /// Repeats a run's choices; the moments at which kills hit stay the machine's
    #[arg(long)]
    seed: Option<u64>,
    /// Break this server instead of building one; fault points always use one that is built with them
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Check that this server, which is to be shipped, has no fault points in it
    #[arg(long, value_name = "FILE")]
    shipped: Option<PathBuf>,
}

/// How often each part is run. A part is left out where it is zero.
struct Amounts {
    kills: u64,
    disk_faults: u64,
    jumps: u64,
    images: u64,
    /// Actions at each fault point: one, or all.
    actions: Actions,
    flips: u64,
    histories: u64,
    /// Of each database.
    failovers: u64,
    /// Of the server that serves the sinks, on each database.
    relay_kills: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Actions {
    None,
    One,
    All,
}

const SHORT: Amounts = Amounts {
    kills: 15,
    disk_faults: 7,
    jumps: 2,
    images: 15,
    actions: Actions::None,
    flips: 0,
    histories: HISTORIES_WITH_EVERYTHING,
    failovers: 0,
    relay_kills: 0,
};
// A test of the server has two kills of the server that serves the sinks.
const USUAL: Amounts = Amounts {
    kills: 50,
    disk_faults: 14,
    jumps: 5,
    images: 40,
    actions: Actions::One,
    flips: 3,
    histories: HISTORIES_WITH_EVERYTHING,
    failovers: 1,
    relay_kills: 0,
};
const LONG: Amounts = Amounts {
    kills: 2_000,
    disk_faults: 350,
    jumps: 100,
    images: 3_000,
    actions: Actions::All,
    flips: 100,
    histories: 10_000,
    failovers: 50,
    relay_kills: 200,
};

/// `stockhold_sim::ENOUGH`: with fewer histories the simulator does not insist that every kind of fault has happened.
const HISTORIES_WITH_EVERYTHING: u64 = 400;
const _: () = assert!(
    SHORT.histories >= HISTORIES_WITH_EVERYTHING
        && USUAL.histories >= HISTORIES_WITH_EVERYTHING
        && LONG.histories >= HISTORIES_WITH_EVERYTHING
);

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let amounts = match options {
        Options { short: true, .. } => &SHORT,
        Options { long: true, .. } => &LONG,
        Options { .. } => &USUAL,
    };
    let seed = options.seed.unwrap_or_else(wall_millis);
    let mut parts = Parts::default();
    let server = server_binary(options.server.as_deref(), Build::Dev)?;
    if let Some(shipped) = &options.shipped {
        parts.run("no fault points in what is shipped", || has_no_fault_points(shipped))?;
    }
    let Amounts { kills, disk_faults, jumps, actions, .. } = *amounts;
    let one_action = actions == Actions::One;
    for (name, only) in [
        ("kills", "kills"),
        ("fault points", "points"),
        ("failing disks", "disk"),
        ("clocks that jump", "clock"),
    ] {
        if only == "points" && actions == Actions::None {
            continue;
        }
        let crash = crash::Options::of(only, (kills, disk_faults, jumps), one_action, seed, &server);
        parts.run(name, || crash::run(&crash))?;
    }
    parts.run("power cuts", || powercut::run(&powercut::Options::of(amounts.images, seed, &server)))?;
    if amounts.flips > 0 {
        let faults = faults::Options::of(amounts.flips, one_action, seed, &server);
        parts.run("faults", || faults::run(&faults))?;
    }
    for (name, seed) in
        [("histories from the seed on", seed), ("histories from a new seed on", wall_millis())]
    {
        let (histories, seed) = (amounts.histories.to_string(), seed.to_string());
        parts.run(name, || sim::run_sim(&server, &["--histories", &histories, "--seed", &seed]))?;
    }
    if amounts.failovers > 0 {
        let failovers = failover::Options::of(amounts.failovers, seed, &server);
        parts.run("failovers", || failover::run(&failovers))?;
    }
    if amounts.relay_kills > 0 {
        let deliveries = deliveries::Options::of_kills(amounts.relay_kills, &server);
        parts.run("sinks over kills", || deliveries::run(&deliveries))?;
    }
    parts.print();
    Ok(())
}

/// What was run, with its seconds.
#[derive(Default)]
struct Parts(Vec<(&'static str, u64)>);

impl Parts {
    fn run(&mut self, name: &'static str, run: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
        println!("\n== {name}");
        let began = Instant::now();
        run().map_err(|error| format!("{name}: {error}"))?;
        self.0.push((name, began.elapsed().as_secs()));
        Ok(())
    }

    fn print(&self) {
        println!();
        for (name, seconds) in &self.0 {
            println!("{seconds:>6} s  {name}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HISTORIES_WITH_EVERYTHING;
    use crate::spawn::workspace;

    #[test]
    fn as_many_histories_are_enough_as_the_simulator_says() {
        let simulator = std::fs::read_to_string(workspace().join("crates/sim/src/lib.rs")).unwrap();
        assert!(simulator.contains(&format!("pub const ENOUGH: u64 = {HISTORIES_WITH_EVERYTHING};")));
    }
}
