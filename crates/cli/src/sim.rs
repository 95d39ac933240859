//! `stockhold sim`: runs the store of this program through histories with faults. It must never hide a failure: the first failure ends
//! the run, with its seed and the history that shows it.

use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use stockhold_config::exit;
use stockhold_sim::{Counters, ENOUGH, Run, Runs, STEPS, fresh_seeds, history};
use stockhold_store::clock::{Clock, WallClock};

/// Histories of a run without --histories and --minutes: enough that every kind of fault must have happened.
const HISTORIES: u64 = ENOUGH;
/// Most steps of one history: all commands of a history are in memory.
const MOST_STEPS: u32 = 1_000_000;
/// Most threads that run histories.
const MOST_THREADS: u16 = 1_024;

#[derive(Args)]
pub(super) struct SimArgs {
    /// Run only the history of this seed and print its trace hash. With --minutes or --histories, begin with this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Steps of one history
    #[arg(long, value_name = "K", default_value_t = STEPS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_STEPS)))]
    steps: u32,
    /// Run new seeds for this many minutes
    #[arg(long, value_name = "M", conflicts_with = "histories", value_parser = clap::value_parser!(u64).range(1..=10_080))]
    minutes: Option<u64>,
    /// Run this many new seeds [default: 400]
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u64).range(1..))]
    histories: Option<u64>,
    /// Threads that run histories [default: one per processor]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_THREADS)))]
    threads: Option<u16>,
    /// The counters as JSON
    #[arg(long)]
    json: bool,
}

const _: () = assert!(HISTORIES == 400);

/// Runs histories and reports what happened in them.
pub(super) fn run(args: &SimArgs) -> ExitCode {
    let alone = args.minutes.is_none() && args.histories.is_none();
    match args.seed {
        Some(seed) if alone => one(args, seed),
        first => many(args, first.unwrap_or_else(clock_seed)),
    }
}

fn one(args: &SimArgs, seed: u64) -> ExitCode {
    let Run { counters, trace } = match history(seed, args.steps) {
        Ok(run) => run,
        Err(failure) => return broken(&failure),
    };
    if args.json {
        println!("{}", json!({ "seed": seed, "counters": counted(&counters), "trace": trace.to_string() }));
    } else {
        println!("{counters}trace {trace}");
    }
    ExitCode::from(exit::DONE)
}

fn many(args: &SimArgs, first: u64) -> ExitCode {
    let bar = match (args.minutes, args.histories) {
        (None, histories) => ProgressBar::new(histories.unwrap_or(HISTORIES)),
        (Some(_), _) => ProgressBar::new_spinner(),
    };
    let begun = Instant::now();
    let go_on = |done: u64| {
        bar.set_position(done);
        match args.minutes {
            Some(minutes) => begun.elapsed() < Duration::from_mins(minutes),
            None => done < args.histories.unwrap_or(HISTORIES),
        }
    };
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let runs = fresh_seeds(first, args.steps, args.threads.map_or_else(cores, usize::from), &go_on);
    bar.finish_and_clear();
    let runs = match runs {
        Ok(runs) => runs,
        Err(failure) => return broken(&failure),
    };
    if args.json {
        println!("{}", told(first, &runs));
    } else {
        println!("{runs}, from seed {first} on");
    }
    match &*runs.missing() {
        [] => ExitCode::from(exit::DONE),
        missing => {
            let why = format!("never happened in {} histories: {}", runs.histories, missing.join(", "));
            exit::because(exit::FAILED, why)
        }
    }
}

fn told(first: u64, runs: &Runs) -> Value {
    json!({
        "first_seed": first,
        "histories": runs.histories,
        "service_years": runs.service_years(),
        "violations": 0,
        "counters": counted(&runs.counters),
    })
}

fn counted(counters: &Counters) -> Map<String, Value> {
    counters.iter().map(|(text, count)| (text.to_owned(), count.into())).collect()
}

fn broken(failure: &stockhold_sim::Failure) -> ExitCode {
    exit::because(exit::FAILED, format!("{failure}\nversion {}", env!("CARGO_PKG_VERSION")))
}

fn clock_seed() -> u64 {
    WallClock.now().micros().cast_unsigned()
}
