//! The deterministic simulator. A seed generates a history: callers that retry; a network that loses, repeats and
//! reorders messages; clocks that step, drift and stop; a disk that fails and loses data; and crashes at every stage
//! of a commit. The embedded store executes it one step at a time on one thread (see [`stockhold_embedded::stepped`]).
//! Rules, core, memory, index folding, filters, encoding and recovery are the real ones. Disk and index are simulated.
//! The invariants are checked after every step.
//!
//! Everything follows from the seed, so two runs of a history have the same trace. It never reads a clock, and nothing
//! may depend on the order of a hash map.
//!
//! Not simulated: SQLite itself, the store's threads, and queries of lists and events (see `stockhold_conformance::whole` and the
//! embedded tests).
//!
//! Reading order: `step` (the steps of a history), `workload` (generates them), `world` (executes them), `checker`
//! (checks the invariants), `shrink` (shortens a failing history).

mod clock;
mod counters;
mod flaw;
mod network;
mod step;
mod trace;

mod workload;

mod checker;
mod world;

mod shrink;

pub use counters::{Count, Counters};
pub use flaw::Flaw;
pub use trace::TraceHash;

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Default number of steps of a history.
pub const STEPS: u32 = 600;
/// Number of histories after which every counter must be above zero.
pub const ENOUGH: u64 = 400;

/// The result of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Counts of what happened.
    pub counters: Counters,
    /// The hash over all answers and commits.
    pub trace: TraceHash,
}

/// A history in which an invariant was broken.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// The number of steps that it should have.
    pub steps: u32,
    /// The step at which it failed. It is `steps` when the end of the history failed.
    pub at: usize,
    /// The invariant, and how it was broken.
    pub what: String,
    /// The shortest history that was found to break it, with its notes.
    pub history: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, steps, at, what, history } = self;
        writeln!(f, "seed {seed}, step {at} of {steps}: {what}\n\nthe history, shrunk:")?;
        for line in history {
            writeln!(f, "{line}")?;
        }
        write!(f, "\nagain: stockhold sim --seed {seed} --steps {steps}")
    }
}

impl std::error::Error for Failure {}

/// Runs the history of a seed.
pub fn history(seed: u64, steps: u32) -> Result<Run, Box<Failure>> {
    run(seed, steps, None)
}

/// Runs the history of a seed with a flaw.
pub fn broken_history(flaw: Flaw, seed: u64, steps: u32) -> Result<Run, Box<Failure>> {
    run(seed, steps, Some(flaw))
}

fn run(seed: u64, steps: u32, flaw: Option<Flaw>) -> Result<Run, Box<Failure>> {
    let made = workload::history(seed, steps);
    match world::run(seed, &made, flaw, false) {
        Ok((counters, trace)) => Ok(Run { counters, trace }),
        Err(stop) => {
            let shrunk = shrink::shrink(seed, &made, flaw, stop.broken.rule);
            let again = world::run(seed, &shrunk, flaw, true).err();
            let history = again.map(|again| {
                let mut notes = again.notes;
                notes.push(format!("      {}", again.broken));
                notes
            });
            Err(Box::new(Failure {
                seed,
                steps,
                at: stop.step,
                what: stop.broken.to_string(),
                history: history.unwrap_or_default(),
            }))
        }
    }
}

/// The result of many histories.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// Number of histories.
    pub histories: u64,
    /// Counts of what happened in them.
    pub counters: Counters,
}

impl Runs {
    /// Years that passed on the simulated clocks while a store served.
    pub fn service_years(&self) -> f64 {
        const YEAR: f64 = 365.25 * 24.0 * 3_600.0;
        #[expect(clippy::cast_precision_loss, reason = "printed to one digit")]
        let seconds = self.counters.get(Count::Seconds) as f64;
        seconds / YEAR
    }

    /// The counters that are zero and should not be after this many histories.
    pub fn missing(&self) -> Vec<&'static str> {
        if self.histories < ENOUGH { Vec::new() } else { self.counters.missing() }
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let years = self.service_years();
        let (histories, recoveries) = (self.histories, self.counters.get(Count::Recoveries));
        write!(f, "{}", self.counters)?;
        write!(f, "{histories} histories, {years:.1} service-years, {recoveries} recoveries, 0 violations")
    }
}

/// Runs histories with the seeds from `first` on, on `threads` threads. `go_on` gets the number of started histories
/// and decides whether another one starts. The first failure ends the run.
pub fn fresh_seeds(
    first: u64,
    steps: u32,
    threads: usize,
    go_on: &(dyn Fn(u64) -> bool + Sync),
) -> Result<Runs, Box<Failure>> {
    let begun = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let all = Mutex::new(Ok(Runs::default()));
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let n = begun.fetch_add(1, Ordering::Relaxed);
            if !go_on(n) {
                return;
            }
            let run = history(first.wrapping_add(n), steps);
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            match (run, &mut *all) {
                (Ok(run), Ok(runs)) => {
                    runs.histories += 1;
                    runs.counters.add(&run.counters);
                }
                (Err(failure), Ok(_)) => {
                    failed.store(true, Ordering::Relaxed);
                    *all = Err(failure);
                }
                (_, Err(_)) => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}
