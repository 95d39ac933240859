//! Runs the simulator: one history of a seed, or fresh seeds for a time; or the seeded runner over whole stores. It must
//! never hide a failure: the first one ends the run with its seed, the commit and the history that shows it.

use crate::{Outcome, fail};
use clap::Args;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stockhold_embedded::testing::Bench;
use stockhold_sim::{STEPS, fresh_seeds, history, whole};

/// Steps of one history of a whole store.
const WHOLE_STEPS: u32 = 80;

/// What is run.
#[derive(Args)]
pub(crate) struct Options {
    /// Run the history of this seed alone and end with its trace; with `--minutes` or `--histories`, begin with it
    #[arg(long)]
    seed: Option<u64>,
    /// Steps of one history
    #[arg(long)]
    steps: Option<u32>,
    /// Run fresh seeds for so many minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// Run so many fresh seeds [default: 200]
    #[arg(long)]
    histories: Option<u64>,
    /// Threads that run histories [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
    /// Run a whole store in each history instead, with its threads and files
    #[arg(long)]
    whole: bool,
}

impl Options {
    /// So many fresh histories.
    pub(crate) fn of(histories: u64) -> Self {
        let histories = Some(histories);
        Self { seed: None, steps: None, minutes: None, histories, threads: None, whole: false }
    }
}

/// Histories that are run when nobody says how many.
const HISTORIES: u64 = 200;

/// Runs histories and prints what happened.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let first = options.seed.unwrap_or_else(clock_seed);
    let begun = Instant::now();
    let until = options.minutes.map(Duration::from_mins);
    let histories = options.histories.unwrap_or(HISTORIES);
    let go_on = move |done: u64| until.map_or(done < histories, |until| begun.elapsed() < until);
    if options.whole {
        return run_whole(first, options.steps.unwrap_or(WHOLE_STEPS), &go_on);
    }
    let steps = options.steps.unwrap_or(STEPS);
    let told = |failure| fail(format!("{failure}\ncommit {}", commit()));
    if options.seed.is_some() && options.minutes.is_none() && options.histories.is_none() {
        let run = match history(first, steps) {
            Ok(run) => run,
            Err(failure) => return told(failure),
        };
        println!("{}trace {}", run.counters, run.trace);
        return Ok(());
    }
    let threads = options.threads.or_else(|| std::thread::available_parallelism().ok().map(Into::into));
    let runs = match fresh_seeds(first, steps, threads.unwrap_or(1), &go_on) {
        Ok(runs) => runs,
        Err(failure) => return told(failure),
    };
    println!("{runs}, from seed {first} on");
    match &*runs.missing() {
        [] => Ok(()),
        missing => fail(format!("never happened in {} histories: {}", runs.histories, missing.join(", "))),
    }
}

fn run_whole(first: u64, steps: u32, go_on: &dyn Fn(u64) -> bool) -> Outcome<()> {
    let mut all = whole::Counters::default();
    let mut done = 0;
    while go_on(done) {
        let seed = first.wrapping_add(done);
        match whole::run(&mut Bench::new(), seed, steps) {
            Ok(counters) => all.add(counters),
            Err(what) => {
                let again = format!("cargo xtask sim --whole --seed {seed} --histories 1 --steps {steps}");
                return fail(format!("{what}\ncommit {}\nrun it again: {again}", commit()));
            }
        }
        done += 1;
    }
    let whole::Counters { commands, crashes, unanswered, kept, replays, expired } = all;
    println!("{done} histories from seed {first}, {commands} commands, {crashes} crashes, 0 violations");
    println!(
        "{unanswered} commands unanswered by a crash, {kept} of them kept; {replays} replays, {expired} expired"
    );
    Ok(())
}

/// What is checked out, and whether it was changed since.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "HEAD"]), git(&["status", "--porcelain"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit}, with changes"),
        _ => "unknown".to_owned(),
    }
}

#[expect(clippy::disallowed_methods, reason = "a seed, not a time")]
fn clock_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(since.subsec_nanos()) ^ since.as_secs()
}
