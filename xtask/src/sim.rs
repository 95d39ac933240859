//! Runs the seeded runner on the embedded store: many histories, each from a seed of its own, and says what really
//! happened in them. It must never hide a failure: the first one ends the run with its seed.

use crate::{Outcome, fail};
use clap::Args;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stockhold_embedded::testing::Bench;
use stockhold_sim::{Counters, run as history};

/// What is run.
#[derive(Args)]
pub(crate) struct Options {
    /// Histories to run
    #[arg(long, default_value_t = 200)]
    histories: u64,
    /// Run until this many minutes have passed instead
    #[arg(long)]
    minutes: Option<u64>,
    /// Seed of the first history; they count up from it [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Steps of one history
    #[arg(long, default_value_t = 80)]
    steps: u32,
}

/// Runs histories and prints what happened.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let first = options.seed.unwrap_or_else(clock_seed);
    let begun = Instant::now();
    let until = options.minutes.map(Duration::from_mins);
    let mut all = Counters::default();
    let mut done = 0;
    while until.map_or(done < options.histories, |until| begun.elapsed() < until) {
        let seed = first.wrapping_add(done);
        match history(&mut Bench::new(), seed, options.steps) {
            Ok(counters) => all.add(counters),
            Err(what) => {
                let again = format!("cargo xtask sim --seed {seed} --histories 1 --steps {}", options.steps);
                return fail(format!("{what}\nrun it again: {again}"));
            }
        }
        done += 1;
    }
    let Counters { commands, crashes, unanswered, kept, replays, expired } = all;
    println!("{done} histories from seed {first}, {commands} commands, {crashes} crashes, 0 violations");
    println!(
        "{unanswered} commands unanswered by a crash, {kept} of them kept; {replays} replays, {expired} expired"
    );
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a seed, not a time")]
fn clock_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(since.subsec_nanos()) ^ since.as_secs()
}
