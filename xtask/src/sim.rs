//! Runs the simulator that is in the server's binary, and says which commit it was when it fails; or the seeded runner over
//! whole stores, with their threads and files.

use crate::spawn::server_binary;
use crate::{Outcome, fail};
use clap::{Args, value_parser};
use std::path::Path;
use std::process::Command;
use stockhold_embedded::testing::Bench;
use stockhold_sim::whole;

/// Steps of one history of a whole store.
const WHOLE_STEPS: u32 = 80;
/// Histories of whole stores when nobody says how many.
const WHOLE_HISTORIES: u64 = 200;

/// What is run.
#[derive(Args)]
pub(crate) struct Options {
    /// Run whole stores, with their threads and files
    #[arg(long)]
    whole: bool,
    /// Their first seed
    #[arg(long, requires = "whole", default_value_t = 1)]
    seed: u64,
    /// How many
    #[arg(long, requires = "whole", default_value_t = WHOLE_HISTORIES, value_parser = value_parser!(u64).range(1..))]
    histories: u64,
    /// Steps of each
    #[arg(long, requires = "whole", default_value_t = WHOLE_STEPS)]
    steps: u32,
    /// What `stockhold sim` is given, behind `--`
    #[arg(last = true, conflicts_with = "whole")]
    sim: Vec<String>,
}

/// Runs histories and prints what happened.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    if options.whole {
        return run_whole(options.seed, options.histories, options.steps);
    }
    let arguments: Vec<&str> = options.sim.iter().map(String::as_str).collect();
    run_sim(&server_binary(None)?, &arguments)
}

/// Runs `stockhold sim`.
pub(crate) fn run_sim(server: &Path, arguments: &[&str]) -> Outcome<()> {
    let status = Command::new(server).arg("sim").args(arguments).status()?;
    if status.success() {
        Ok(())
    } else {
        fail(format!("stockhold sim ended with {status}; commit {}", commit()))
    }
}

fn run_whole(first: u64, histories: u64, steps: u32) -> Outcome<()> {
    let mut all = whole::Counters::default();
    for done in 0..histories {
        let seed = first.wrapping_add(done);
        match whole::run(&mut Bench::new(), seed, steps) {
            Ok(counters) => all.add(counters),
            Err(what) => {
                let again = format!("cargo xtask sim --whole --seed {seed} --histories 1 --steps {steps}");
                return fail(format!("{what}\ncommit {}\nrun it again: {again}", commit()));
            }
        }
    }
    let whole::Counters { commands, crashes, unanswered, kept, replays, expired } = all;
    println!("{histories} histories from seed {first}, {commands} commands, {crashes} crashes, 0 violations");
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
