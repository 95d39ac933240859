//! Runs the simulator that is in the server, or the seeded runner over whole stores, and says which commit it was when
//! one fails.

use crate::spawn::{Build, cargo, server_binary};
use crate::{Outcome, fail};
use clap::Args;
use std::path::Path;
use std::process::Command;

/// What is run.
#[derive(Args)]
pub(crate) struct Options {
    /// Run whole stores, with their threads and files
    #[arg(long)]
    whole: bool,
    /// What `stockhold sim`, or the runner of whole stores, is given, behind `--`
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Runs histories and prints what happened.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let arguments: Vec<&str> = options.arguments.iter().map(String::as_str).collect();
    if options.whole { run_whole(&arguments) } else { run_sim(&server_binary(None, Build::Dev)?, &arguments) }
}

/// Runs `stockhold sim`.
pub(crate) fn run_sim(server: &Path, arguments: &[&str]) -> Outcome<()> {
    succeeded("stockhold sim", Command::new(server).arg("sim").args(arguments))
}

fn run_whole(arguments: &[&str]) -> Outcome<()> {
    let example =
        ["run", "--quiet", "--locked", "--package", "stockhold-conformance", "--example", "whole", "--"];
    let mut command = cargo();
    command.args(example).args(arguments);
    succeeded("the runner of whole stores", &mut command)
}

fn succeeded(name: &str, command: &mut Command) -> Outcome<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { fail(format!("{name} ended with {status}; commit {}", commit())) }
}

/// The commit of the working tree, and whether files differ from it.
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
