//! `cargo xtask prove`: all of the proof in one run, each part with its figures; the first that fails ends it. The short form
//! fits into the test command, the long one takes as long as it is given.

use crate::clock::wall_millis;
use crate::spawn::server_binary;
use crate::{Outcome, bugs, crash, failover, faults, powercut, sim};
use clap::Args;
use std::time::Instant;
use stockhold_sim::ENOUGH;

/// How much is proved.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// A few minutes: every fault point once, a seeded bug of each kind
    #[arg(long, conflicts_with = "long")]
    short: bool,
    /// An hour or more: everything many times
    #[arg(long)]
    long: bool,
    /// Repeats a run's choices; the moments at which kills hit stay the machine's
    #[arg(long)]
    seed: Option<u64>,
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
    /// All when there are none.
    bugs: &'static [&'static str],
}

const SHORT: Amounts = Amounts {
    kills: 25,
    disk_faults: 14,
    jumps: 5,
    images: 40,
    flips: 6,
    histories: ENOUGH,
    failovers: 2,
    bugs: &[
        "a-confirm-succeeds-at-its-deadline",
        "a-merge-loses-a-key",
        "a-refusal-is-answered-before-what-it-saw-is-durable",
        "a-start-forgets-pauses",
        "keys-are-everybody-s",
        "the-mark-is-not-read",
    ],
};
const USUAL: Amounts = Amounts {
    kills: 200,
    disk_faults: 70,
    jumps: 20,
    images: 300,
    flips: 20,
    histories: 1_000,
    failovers: 25,
    bugs: &[],
};
const LONG: Amounts = Amounts {
    kills: 2_000,
    disk_faults: 350,
    jumps: 100,
    images: 3_000,
    flips: 100,
    histories: 10_000,
    failovers: 50,
    bugs: &[],
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
    let seed = options.seed.unwrap_or_else(wall_millis);
    let server = server_binary(None)?;
    part("crashes", || {
        let Amounts { kills, disk_faults, jumps, .. } = *amounts;
        crash::run(&crash::Options::of(kills, disk_faults, jumps, options.short, seed, &server))
    })?;
    part("power cuts", || powercut::run(&powercut::Options::of(amounts.images, seed, &server)))?;
    part("faults", || faults::run(&faults::Options::of(amounts.flips, seed, &server)))?;
    let histories = amounts.histories.to_string();
    part("histories", || sim::run_sim(&server, &["--histories", &histories, "--seed", &seed.to_string()]))?;
    part("failovers", || failover::run(&failover::Options::of(amounts.failovers, seed, &server)))?;
    part("seeded bugs", || bugs::run(&bugs::Options::of(amounts.bugs, options.short)))?;
    println!("\nproved in {} s", began.elapsed().as_secs());
    Ok(())
}

fn part(name: &str, run: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
    println!("\n== {name}");
    run().map_err(|error| format!("{name}: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::SHORT;
    use crate::source::literals;

    #[test]
    fn the_seeded_bugs_of_the_short_form_are_there() {
        let all = literals("bug").unwrap();
        assert!(SHORT.bugs.iter().all(|name| all.contains_key(*name)), "{all:?}");
    }
}
