//! `cargo xtask bugs`: mistakes that a programmer could make in the product, kept as patches under `xtask/bugs/`. Each is
//! applied to a copy of the tree, and the tests of the crates that its header names have to fail. A patch that no longer
//! applies, that does not build or that the tests pass fails the run; so do tests that fail without any patch.
//! The working tree itself is never changed.

mod copy;
mod patch;

use crate::process_end::wait_within;
use crate::spawn::{Process, cargo};
use crate::{Outcome, fail};
use clap::Args;
use copy::TreeCopy;
use patch::Patch;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest that the tests of one crate may run. Tests that a bug keeps from ending have caught it.
const TEST_TIMEOUT: Duration = Duration::from_mins(10);
const SUMMARY_CHARS: usize = 160;
/// Lines that are shown of tests that fail where they should pass.
const LOG_LINES: usize = 80;

/// How it is run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// Only patches whose names contain one of these
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    bug: Vec<String>,
}

/// Runs all of them, or those that the options name.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let began = Instant::now();
    let all = patch::read_all()?;
    let patches = selected(&all, &options.bug)?;
    let copy = TreeCopy::make()?;
    let crates: BTreeSet<&str> = patches.iter().flat_map(|patch| &patch.crates).map(String::as_str).collect();
    println!("{} of {} patches against the tests of {crates:?}", patches.len(), all.len());
    for name in &crates {
        if let TestRun::Failed(log) = run_tests(&copy, name)? {
            return fail(format!(
                "the tests of {name} fail without a patch: {}\n{}",
                summary(&log),
                last_lines(&log)
            ));
        }
    }
    let mut survivors = Vec::new();
    for patch in patches {
        copy.apply(&patch.path)?;
        let caught = caught_by(&copy, patch);
        copy.revert(&patch.path)?;
        for (name, caught) in caught? {
            match caught {
                Some(test) => println!("{}: caught by {name}: {test}", patch.name),
                None => {
                    println!("{}: SURVIVED the tests of {name}", patch.name);
                    survivors.push(format!("{} ({name})", patch.name));
                }
            }
        }
    }
    println!("{} s", began.elapsed().as_secs());
    if survivors.is_empty() {
        return Ok(());
    }
    fail(format!("{} survived: {}", survivors.len(), survivors.join(", ")))
}

/// For each crate that has to catch the patch: the test that did, or none.
fn caught_by<'a>(copy: &TreeCopy, patch: &'a Patch) -> Outcome<Vec<(&'a str, Option<String>)>> {
    let mut results = Vec::new();
    for name in &patch.crates {
        let caught = match run_tests(copy, name).map_err(|error| format!("{}: {error}", patch.name))? {
            TestRun::Passed => None,
            TestRun::Failed(log) => Some(summary(&log)),
        };
        results.push((name.as_str(), caught));
    }
    Ok(results)
}

/// The patches to run: all, or those whose names contain one of the texts. A text that matches nothing is an error.
fn selected<'a>(all: &'a [Patch], texts: &[String]) -> Outcome<Vec<&'a Patch>> {
    if let Some(text) = texts.iter().find(|text| !all.iter().any(|patch| patch.name.contains(*text))) {
        return fail(format!("no patch has {text:?} in its name"));
    }
    let matches = |patch: &&Patch| texts.is_empty() || texts.iter().any(|text| patch.name.contains(text));
    Ok(all.iter().filter(matches).collect())
}

/// What the tests of a crate said.
#[derive(Debug)]
enum TestRun {
    Passed,
    /// With everything that they printed.
    Failed(String),
}

/// Builds and runs the tests of one crate in the copy. An error when they do not build: that catches nothing.
fn run_tests(copy: &TreeCopy, name: &str) -> Outcome<TestRun> {
    let test = |arguments: &[&str]| {
        let mut command = cargo();
        command.args(["test", "--quiet", "--package", name]).args(arguments);
        in_copy(command, copy)
    };
    let built = test(&["--no-run"]).output()?;
    if !built.status.success() {
        return fail(format!("does not build:\n{}", last_lines(&String::from_utf8_lossy(&built.stderr))));
    }
    let log = copy.folder().join("tests.log");
    std::fs::remove_file(&log).ok();
    let mut process = Process::start(test(&[]), &log)?;
    match wait_within(&mut process, TEST_TIMEOUT)? {
        Some(status) if status.success() => Ok(TestRun::Passed),
        Some(_) => Ok(TestRun::Failed(process.log())),
        None => Ok(TestRun::Failed(format!("{}\nno end within {TEST_TIMEOUT:?}", process.log()))),
    }
}

fn in_copy(mut command: Command, copy: &TreeCopy) -> Command {
    command
        .current_dir(copy.tree())
        .env("CARGO_TARGET_DIR", copy.folder().join("target"))
        .env("CARGO_INCREMENTAL", "1")
        // One failure is enough: nobody reads the smallest counterexample.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("RUST_BACKTRACE", "0");
    // Cargo runs this program with variables of this workspace, which the copy must not see.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") || name == Path::new("CARGO_MANIFEST_DIR") {
            command.env_remove(name);
        }
    }
    command
}

/// The end of a log.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n")
}

/// The name of the first test that failed, or the last line.
fn summary(log: &str) -> String {
    // Cargo's quiet form lists failed tests only as headings of their output.
    let failed = log.lines().find_map(|line| line.strip_prefix("---- ")?.strip_suffix(" stdout ----"));
    let line = failed.or_else(|| log.lines().last()).unwrap_or_default();
    line.chars().take(SUMMARY_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_selects_patches_and_one_that_selects_none_is_an_error() {
        let names = ["a-one", "a-two", "b-one", "b-three", "b-two"];
        let all: Vec<Patch> = names.iter().map(|name| Patch::parse(name.as_ref(), TEXT).unwrap()).collect();
        let run = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
            selected(&all, &texts)
                .map(|patches| patches.into_iter().map(|patch| patch.name.as_str()).collect::<Vec<_>>())
        };
        assert_eq!(run(&[]).unwrap(), names);
        assert_eq!(run(&["two", "b-t"]).unwrap(), ["a-two", "b-three", "b-two"]);
        assert!(run(&["two", "typo"]).is_err());
    }

    const TEXT: &str = "Description: d\nCaught-by: domain\n\ndiff --git a/x b/x\n";

    #[test]
    fn the_summary_names_the_test_that_failed() {
        let log = "\nrunning 2 tests\n.F\nfailures:\n\n---- keys::replays stdout ----\n\npanicked\n";
        assert_eq!(summary(log), "keys::replays");
        assert_eq!(summary("a\nno end within 5s"), "no end within 5s");
    }
}
