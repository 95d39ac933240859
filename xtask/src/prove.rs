//! `cargo xtask prove`: all of the proof in one run, each part with its figures; the first that fails ends it. The short form
//! fits into the test command, the long one takes as long as it is given.

use crate::spawn::server_binary;
use crate::{Outcome, bugs, crash, failover, faults, powercut, sim};
use clap::Args;
use std::time::Instant;
use stockhold_sim::ENOUGH;

/// How much is proved.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// A few minutes: every fault point once, a tenth of the seeded bugs in the tests
    #[arg(long, conflicts_with = "long")]
    short: bool,
    /// An hour or more: everything many times
    #[arg(long)]
    long: bool,
}

/// How often each part is run.
struct Amounts {
    kills: u64,
    disk_faults: u64,
    jumps: u64,
    images: u64,
    flips: u64,
    histories: u64,
    /// Of each database.
    failovers: u64,
    /// One seeded bug in so many.
    bugs: usize,
}

const SHORT: Amounts = Amounts {
    kills: 25,
    disk_faults: 14,
    jumps: 5,
    images: 40,
    flips: 6,
    histories: ENOUGH,
    failovers: 2,
    bugs: 10,
};
const USUAL: Amounts = Amounts {
    kills: 200,
    disk_faults: 70,
    jumps: 20,
    images: 300,
    flips: 20,
    histories: 1_000,
    failovers: 25,
    bugs: 1,
};
const LONG: Amounts = Amounts {
    kills: 2_000,
    disk_faults: 350,
    jumps: 100,
    images: 3_000,
    flips: 100,
    histories: 10_000,
    failovers: 50,
    bugs: 1,
};

// With fewer the simulator does not insist that every kind of fault has happened.
const _: () = assert!(SHORT.histories >= ENOUGH && USUAL.histories >= ENOUGH && LONG.histories >= ENOUGH);

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let amounts = match options {
        Options { short: true, .. } => &SHORT,
        Options { long: true, .. } => &LONG,
        Options { .. } => &USUAL,
    };
    let began = Instant::now();
    let server = server_binary(None)?;
    part("crashes", || {
        let Amounts { kills, disk_faults, jumps, .. } = *amounts;
        crash::run(&crash::Options::of(kills, disk_faults, jumps, options.short, &server))
    })?;
    part("power cuts", || powercut::run(&powercut::Options::of(amounts.images, &server)))?;
    part("faults", || faults::run(&faults::Options::of(amounts.flips, &server)))?;
    part("histories", || sim::run_sim(&server, &["--histories", &amounts.histories.to_string()]))?;
    part("failovers", || failover::run(&failover::Options::of(amounts.failovers, &server)))?;
    part("seeded bugs", || bugs::run(&bugs::Options::of(amounts.bugs, options.short)))?;
    println!("\nproved in {} s", began.elapsed().as_secs());
    Ok(())
}

fn part(name: &str, run: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
    println!("\n== {name}");
    run().map_err(|error| format!("{name}: {error}").into())
}
