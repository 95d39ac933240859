//! `cargo xtask bench`: SPEC's figures in one command. Every round measures every part once, so that a machine that
//! changes its mind hits numerator and denominator alike. What compares with a baseline starts the baseline itself.

mod base;
mod counter_audit;
mod lab;

mod figures;
mod measure;

mod access;

pub(crate) mod databases;
mod due;
pub(crate) mod gate;
mod promise;
mod quarter;
mod weight;

mod hello;
mod minimal_store;
mod probe;
mod redis;

mod machine;
mod report;

pub(crate) use base::{Contents, fill, until_idle};
pub(crate) use counter_audit::{COLD, HOT, figures as figures_of};
pub(crate) use lab::{DataSet, Lab, Scale, ServerOnData, Setup, TTL_SECONDS, run as drive};
pub(crate) use machine::{describe, provenance};
pub(crate) use report::write;
pub(crate) use weight::{anonymous, timed_start};

use crate::load::{LOAD_CPU, Plan, pin, raise_open_files};
use crate::spawn::{Build, scratch, server_binary, workspace};
use crate::{Outcome, fail};
use clap::Args;
use figures::{FIGURES, Figure, Measurement, Reading, Round};
use report::Row;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Where the figures of a whole run are written.
const RESULTS: &str = "docs/performance.md";
/// What the results stand between.
const MARKERS: &str = "results";

/// For the record.
const FULL: Effort = Effort {
    rounds: 5,
    plan: Plan { warm_up: Duration::from_secs(1), measure: Duration::from_secs(4) },
    sync: Duration::from_secs(1),
    scale: Scale::FULL,
};
/// For a first look.
const QUICK: Effort = Effort {
    rounds: 3,
    plan: Plan { warm_up: Duration::from_millis(200), measure: Duration::from_secs(1) },
    sync: Duration::from_millis(300),
    scale: Scale::TENTH,
};
/// For finding out whether everything runs.
const TRIAL: Effort = Effort {
    rounds: 1,
    plan: Plan { warm_up: Duration::from_millis(200), measure: Duration::from_millis(1_300) },
    sync: Duration::from_millis(50),
    scale: Scale::TRIAL,
};

/// How the benchmark is run.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Three short rounds on a tenth of the data instead of five on all of it: for a first look, not for the record
    #[arg(long)]
    quick: bool,
    /// One round on next to nothing, to find out whether everything runs: its figures mean nothing
    #[arg(long, conflicts_with_all = ["quick", "write"])]
    trial: bool,
    /// Only these figures: G1 to G5, G8 to G14, access, promise, due
    #[arg(long, value_delimiter = ',')]
    figures: Vec<String>,
    /// Write the results between the markers of this file [default for a whole run: docs/performance.md]
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Where the temporary data goes: the disk that is measured
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
}

/// How much is done for a figure.
#[derive(Clone, Copy, Debug)]
struct Effort {
    rounds: u64,
    plan: Plan,
    sync: Duration,
    scale: Scale,
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let known = |name: &String| FIGURES.iter().any(|figure| figure.number().eq_ignore_ascii_case(name));
    if let Some(unknown) = options.figures.iter().find(|name| !known(name)) {
        return fail(format!("no such figure: {unknown}"));
    }
    let wanted = |figure: &&Figure| {
        let asked = |name: &String| figure.number().eq_ignore_ascii_case(name);
        options.figures.is_empty() || options.figures.iter().any(asked)
    };
    let chosen: Vec<&Figure> = FIGURES.iter().filter(wanted).collect();
    let effort = match (options.quick, options.trial) {
        (true, _) => QUICK,
        (_, true) => TRIAL,
        _ => FULL,
    };
    let binary = server_binary(options.server.as_deref(), Build::Dist)?;
    let folder = scratch(options.disk.as_deref(), "stockhold-bench-")?;
    raise_open_files()?;
    pin(LOAD_CPU)?;

    let mut machine = describe(folder.path())?;
    if chosen.iter().any(|figure| figure.made.needs().iter().any(|needed| needed.is_redis())) {
        machine.push(format!("Redis {}", redis::version()?));
    }
    println!("{}", machine.join("\n"));
    let lab = Lab::open(&binary, folder.path(), effort.scale)?;
    let needs: BTreeSet<Measurement> =
        chosen.iter().flat_map(|figure| figure.made.needs()).map(Measurement::taken_with).collect();
    let mut rounds = Vec::new();
    for number in 1..=effort.rounds {
        let mut round = Round::new();
        for measurement in &needs {
            measure::take(*measurement, &lab, &effort, number, &mut round)?;
            let taken = round.iter().filter(|(taken, _)| taken.taken_with() == *measurement);
            for (taken, reading) in taken {
                println!("round {number}/{}: {}: {}", effort.rounds, taken.name(), words(reading));
            }
        }
        rounds.push(round);
    }

    let rows: Vec<Row> = chosen
        .into_iter()
        .map(|figure| Row {
            figure,
            values: rounds.iter().filter_map(|round| figure.made.value(round)).collect(),
        })
        .collect();
    finish(options, &effort, &machine, &rows, &rounds)
}

/// A reading in one line.
fn words(reading: &Reading) -> String {
    let Reading { value, unit, p50, p99, load_cpu, server_cpu, other_cpu } = reading;
    let percentiles =
        if *p99 > 0.0 { format!(", p50 {p50:.1} µs, p99 {p99:.1} µs") } else { String::new() };
    let cores = if *load_cpu > 0.0 {
        let (server, load, other) = (server_cpu * 100.0, load_cpu * 100.0, other_cpu * 100.0);
        format!(", server core {server:.0} %, load core {load:.0} %, others {other:.0} %")
    } else {
        String::new()
    };
    format!("{value:.*}{unit}{percentiles}{cores}", usize::from(*value < 100.0) * 2)
}

fn finish(
    options: &Options,
    effort: &Effort,
    machine: &[String],
    rows: &[Row],
    rounds: &[Round],
) -> Outcome<()> {
    let mut tables = report::figures(rows);
    tables.push('\n');
    tables.push_str(&report::measurements(rounds));
    if let Some(noise) = report::noise(rounds) {
        tables.push('\n');
        tables.push_str(&noise);
        tables.push('\n');
    }
    println!("\n{tables}\nevery run was audited: what was acknowledged is what is held and sold");
    let whole = options.figures.is_empty() && !options.quick && !options.trial;
    let path = options.write.clone().or_else(|| whole.then(|| workspace().join(RESULTS)));
    let Some(path) = path else { return Ok(()) };
    let quick = if options.quick { " --quick" } else { "" };
    let figures = match options.figures.as_slice() {
        [] => String::new(),
        some => format!(" --figures {}", some.join(",")),
    };
    let Contents { active, keys, closed, .. } = effort.scale.usual;
    let less = if options.quick { ": a tenth of what the names of the figures speak of" } else { "" };
    let (provenance, rounds, machine) = (provenance()?, effort.rounds, machine.join("\n- "));
    let text = format!(
        "`cargo xtask bench{quick}{figures}`, {rounds} rounds, {provenance}\n\n- {machine}\n- beforehand: {active} active holds, {keys} keys, {closed} closed reservations{less}\n\n{tables}"
    );
    write(&path, MARKERS, &text)
}
