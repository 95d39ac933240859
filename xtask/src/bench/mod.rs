//! `cargo xtask bench`: SPEC's figures in one command. Every round measures every part once, so that a machine that
//! changes its mind hits numerator and denominator alike. Nothing is written unless asked.

mod due;
mod figures;
mod machine;
mod probe;
mod redis;
mod report;
mod subject;

use crate::load::{LOAD_CPU, Plan, Run, pin};
use crate::shim::Trick;
use crate::spawn::{scratch, server_binary};
use crate::{Outcome, fail};
use clap::Args;
use figures::{DUE_P99, DUE_SECONDS, FIGURES, Measurement, Reading, Round};
use report::Row;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use subject::{Measured, STOCK, Setup, Subject, TTL_SECONDS};

const FULL: Effort = Effort {
    rounds: 5,
    plan: Plan { warm_up: Duration::from_secs(1), measure: Duration::from_secs(4) },
    sync: Duration::from_secs(1),
};
const QUICK: Effort = Effort {
    rounds: 3,
    plan: Plan { warm_up: Duration::from_millis(300), measure: Duration::from_secs(1) },
    sync: Duration::from_millis(300),
};
/// What G10 adds to every sync, in microseconds.
const ADDED_DELAY_MICROS: u64 = 1_000;

/// How the benchmark is run.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Three short rounds instead of five: for a first look, not for the record
    #[arg(long)]
    quick: bool,
    /// Only these figures: G1, G2, G3, G9, G10, G11, due
    #[arg(long, value_delimiter = ',')]
    figures: Vec<String>,
    /// Write the results between the markers of this file, docs/performance.md for instance
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Where the temporary data goes: the disk that is measured
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
}

#[derive(Clone, Copy)]
struct Effort {
    rounds: u64,
    plan: Plan,
    sync: Duration,
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let wanted = |id: &str| {
        let asked = |name: &String| id.to_lowercase().trim_end_matches(['a', 'b']) == name.to_lowercase();
        options.figures.is_empty() || options.figures.iter().any(asked)
    };
    let chosen: Vec<_> = FIGURES.iter().filter(|figure| wanted(figure.id)).collect();
    let with_due = wanted(DUE_SECONDS.id);
    if chosen.is_empty() && !with_due {
        return fail(format!("no such figure: {}", options.figures.join(",")));
    }
    let binary = server_binary(options.server.as_deref())?;
    let folder = scratch(options.disk.as_deref(), "stockhold-bench-")?;
    pin(LOAD_CPU)?;
    let effort = if options.quick { QUICK } else { FULL };

    let machine = machine::describe(folder.path())?;
    println!("{}", machine.join("\n"));
    println!("preparing {} closed reservations and {} SKUs", subject::CLOSED_BEFORE, subject::SPREAD);
    let subject = Subject::prepare(&binary, folder.path())?;

    let needs: BTreeSet<Measurement> = chosen.iter().flat_map(|figure| figure.needs).copied().collect();
    let mut rounds = Vec::new();
    let mut crowds = Vec::new();
    for number in 1..=effort.rounds {
        let mut round = Round::new();
        for measurement in &needs {
            let reading = measure(*measurement, &subject, effort, number, &mut round)?;
            println!(
                "round {number}/{}: {}: {:.0}/s, p50 {:.1} µs, p99 {:.1} µs, server core {:.0} %, load core {:.0} %, others {:.0} %",
                effort.rounds,
                measurement.name(),
                reading.rate,
                reading.p50,
                reading.p99,
                reading.server_cpu * 100.0,
                reading.load_cpu * 100.0,
                reading.other_cpu * 100.0,
            );
        }
        if with_due {
            let crowd = due::measure(&subject, number)?;
            println!(
                "round {number}/{}: {} due at once: reclaimed in {:.2} s, p99 of {} reserves/s {:.2} ms",
                effort.rounds,
                due::HOLDS,
                crowd.seconds,
                due::STEADY_PER_SECOND,
                crowd.p99_millis,
            );
            crowds.push(crowd);
        }
        rounds.push(round);
    }

    let mut rows: Vec<Row> = chosen
        .into_iter()
        .map(|figure| Row { figure, values: rounds.iter().filter_map(figure.value).collect() })
        .collect();
    if with_due {
        rows.push(Row { figure: &DUE_SECONDS, values: crowds.iter().map(|crowd| crowd.seconds).collect() });
        rows.push(Row { figure: &DUE_P99, values: crowds.iter().map(|crowd| crowd.p99_millis).collect() });
    }
    finish(options, effort, &machine, &rows, &rounds)
}

/// Takes one measurement into the round. Those that compare with another take it from the same round.
fn measure<'a>(
    measurement: Measurement,
    subject: &Subject,
    effort: Effort,
    seed: u64,
    round: &'a mut Round,
) -> Outcome<&'a Reading> {
    let plan = effort.plan;
    let redis = |persistence| redis::measure(&subject.folder, persistence, STOCK, TTL_SECONDS, plan, seed);
    let reserve = |connections, skus, disk| subject.measure(Setup { connections, skus, disk }, plan, seed);
    let reading = match measurement {
        Measurement::RedisOff => reading(&redis(redis::Persistence::Off)?),
        Measurement::RedisAlways => reading(&redis(redis::Persistence::Always)?),
        Measurement::Hot64 => reading(&reserve(64, 1, None)?.run),
        Measurement::Spread64 => reading(&reserve(64, subject::SPREAD, None)?.run),
        Measurement::SyncOff64 => reading(&reserve(64, 1, Some(Trick::SyncOff))?.run),
        Measurement::Hot512 => reading(&reserve(512, 1, None)?.run),
        Measurement::Delay512 => reading(&reserve(512, 1, Some(Trick::SyncDelay(ADDED_DELAY_MICROS)))?.run),
        Measurement::One => {
            let Measured { run, request_bytes, answer_bytes } = reserve(1, 1, None)?;
            let trip = probe::round_trip(request_bytes, answer_bytes, plan)?;
            round.insert(Measurement::RoundTrip, reading(&trip));
            reading(&run)
        }
        Measurement::RoundTrip => match round.get(&measurement) {
            Some(taken) => *taken,
            None => return fail("the round trip is taken with the sizes of the one connection's messages"),
        },
        Measurement::Sync => {
            let times = probe::sync(&subject.folder, effort.sync)?;
            let micros = |percentile| times.value_at_percentile(percentile) as f64 / 1_000.0;
            let rate = 1e9 / times.mean().max(1.0);
            Reading {
                rate,
                p50: micros(50.0),
                p99: micros(99.0),
                load_cpu: 0.0,
                server_cpu: 0.0,
                other_cpu: 0.0,
            }
        }
    };
    round.insert(measurement, reading);
    round.get(&measurement).ok_or_else(|| "the reading is gone".into())
}

fn reading(run: &Run) -> Reading {
    Reading {
        rate: run.rate,
        p50: run.micros(50.0),
        p99: run.micros(99.0),
        load_cpu: run.load_cpu,
        server_cpu: run.server_cpu,
        other_cpu: run.other_cpu,
    }
}

fn finish(
    options: &Options,
    effort: Effort,
    machine: &[String],
    rows: &[Row],
    rounds: &[Round],
) -> Outcome<()> {
    let mut tables = report::figures(rows);
    if rounds.first().is_some_and(|round| !round.is_empty()) {
        tables.push('\n');
        tables.push_str(&report::measurements(rounds));
    }
    if let Some(noise) = report::noise(rounds) {
        tables.push('\n');
        tables.push_str(&noise);
        tables.push('\n');
    }
    println!("\n{tables}\nevery run was audited: what was acknowledged is what is held");
    let Some(path) = &options.write else { return Ok(()) };
    let quick = if options.quick { " --quick" } else { "" };
    let figures = match options.figures.as_slice() {
        [] => String::new(),
        some => format!(" --figures {}", some.join(",")),
    };
    let provenance = machine::provenance()?;
    let rounds = effort.rounds;
    let machine = machine.join("\n- ");
    let text = format!(
        "`cargo xtask bench{quick}{figures}`, {rounds} rounds, {provenance}\n\n- {machine}\n\n{tables}"
    );
    report::write(path, &text)
}
