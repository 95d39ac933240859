//! `cargo xtask faults`: what a disk, a user or an operator can do to a running server, and what may come of it: a
//! refusal or the right answer, never a wrong one, and always a clean recovery.

mod disk;
mod flip;
mod lifecycle;

use crate::shim::DiskFault;
use crate::spawn::{Build, scratch, server_binary};
use crate::workload::Counts;
use crate::{Outcome, fail};
use clap::{Args, value_parser};
use std::path::{Path, PathBuf};

/// Which sync is the first to fail: early and late in a run, at a commit or wherever else it falls.
const FAILING_SYNCS: [u64; 6] = [1, 2, 3, 10, 60, 250];
/// After how many bytes the disk is full.
const ROOM_BYTES: [u64; 4] = [1, 20_000, 400_000, 3_000_000];

/// How the harness is run.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Bytes flipped in each file of each image of the data directory
    #[arg(long, default_value_t = 40, value_parser = value_parser!(u64).range(1..))]
    flips: u64,
    /// Leave out flips of aged data, which takes a minute to make
    #[arg(long)]
    short: bool,
    /// Repeats a run's choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these
    #[arg(long, value_delimiter = ',', value_parser = ["sync", "full", "flip", "second", "drain"])]
    only: Vec<String>,
    /// Where the temporary data goes
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
}

impl Options {
    /// A run of `cargo xtask prove`.
    pub(crate) fn of(flips: u64, short: bool, seed: u64, server: &Path) -> Self {
        Self { flips, short, seed, only: Vec::new(), disk: None, server: Some(server.to_owned()) }
    }
}

/// What every fault test needs.
struct FaultTest<'a> {
    binary: &'a Path,
    folder: &'a Path,
    seed: u64,
}

impl FaultTest<'_> {
    /// A folder of its own for one try.
    fn room(&self, name: &str) -> Outcome<PathBuf> {
        let room = self.folder.join(name);
        std::fs::create_dir_all(&room)?;
        Ok(room)
    }
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let binary = server_binary(options.server.as_deref(), Build::Dev)?;
    let mut folder = scratch(options.disk.as_deref(), "stockhold-faults-")?;
    let path = folder.path().to_owned();
    let bench = FaultTest { binary: &binary, folder: &path, seed: options.seed };
    let faults: [(&str, &dyn Fn() -> Outcome<()>); 5] = [
        ("sync", &|| failing_syncs(&bench)),
        ("full", &|| full_disks(&bench)),
        ("flip", &|| flip::run(&bench, options.flips, options.short)),
        ("second", &|| lifecycle::second_server(&bench)),
        ("drain", &|| lifecycle::drain(&bench)),
    ];
    let mut failed = Vec::new();
    let mut ran = 0;
    for (name, fault) in faults {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
            continue;
        }
        ran += 1;
        if let Err(error) = fault() {
            println!("{name}: VIOLATION: {error}");
            failed.push(name);
        }
    }
    if failed.is_empty() {
        println!("all {ran} held");
        return Ok(());
    }
    folder.disable_cleanup(true);
    fail(format!("{} (data and logs kept in {})", failed.join(", "), path.display()))
}

fn failing_syncs(bench: &FaultTest<'_>) -> Outcome<()> {
    let mut unknown = 0;
    for nth in FAILING_SYNCS {
        unknown += disk::fail(bench, &format!("sync-{nth}"), DiskFault::SyncFails(nth))?.outcome_unknown;
    }
    some_unknown(unknown)
}

fn full_disks(bench: &FaultTest<'_>) -> Outcome<()> {
    let mut unknown = 0;
    for bytes in ROOM_BYTES {
        let counts: Counts = disk::fail(bench, &format!("full-{bytes}"), DiskFault::NoSpaceAfter(bytes))?;
        unknown += counts.outcome_unknown;
    }
    some_unknown(unknown)
}

fn some_unknown(count: u64) -> Outcome<()> {
    if count > 0 { Ok(()) } else { fail("the batch that failed was never answered outcome_unknown") }
}
