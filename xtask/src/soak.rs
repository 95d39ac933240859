//! `cargo xtask soak`: full load for minutes, of everything that a day brings: reserves, confirms, releases, holds that
//! expire, looks at the stock; checkpoints and the index come with it. Every half minute is measured by itself, and the
//! command fails when the later ones are worse than the earlier ones, or when the books don't balance.

use crate::bench::{Contents, DataSet, HOT, Lab, Scale, anonymous, describe, figures_of};
use crate::load::http::{Reserves, sku};
use crate::load::mix::Mix;
use crate::load::{LOAD_CPU, Plan, Run, closed, pin, raise_open_files};
use crate::rng::Rng;
use crate::spawn::{Build, scratch, server_binary, verify};
use crate::{Outcome, fail};
use clap::Args;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 64;
/// Time to live of every hold. Holds that are neither confirmed nor released expire under load.
const TTL_SECONDS: u64 = 20;
/// Longest wait for the last holds to expire.
const LAST_EXPIRY: Duration = Duration::from_secs(TTL_SECONDS + 60);
const POLL: Duration = Duration::from_millis(100);
/// Windows at the beginning that count for nothing: memory fills, and the first holds fall due.
const FIRST: usize = 2;
/// How much worse the later half may be than the earlier one. Machines are shared; what drifts doubles sooner or later.
const RATE_KEPT: f64 = 0.75;
const LATENCY_KEPT: f64 = 2.0;
/// What memory may grow by: bytes for each request with a key, since keys are kept for a day (their filters), and once.
const BYTES_A_REQUEST: f64 = 8.0;
const BYTES_ONCE: f64 = 128e6;

/// How the soak is run.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How long; a minute writes some two gigabytes
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Seconds of one line of the report
    #[arg(long, default_value_t = 30.0)]
    window: f64,
    /// Start with a thousandth of the data, to find out whether everything runs
    #[arg(long)]
    trial: bool,
    /// Where the temporary data goes
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
}

/// What one line of the report says.
#[derive(Clone, Copy, Debug)]
struct Window {
    rate: f64,
    p50_millis: f64,
    p99_millis: f64,
    longest_millis: f64,
    /// Bytes.
    memory: f64,
    /// Requests with a key in it.
    keyed: f64,
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let length = Duration::try_from_secs_f64(options.minutes * 60.0)?;
    let window = Duration::try_from_secs_f64(options.window)?;
    if window.is_zero() || length < window {
        return fail("the soak is shorter than one window");
    }
    let binary = server_binary(options.server.as_deref(), Build::Dist)?;
    let folder = scratch(options.disk.as_deref(), "stockhold-soak-")?;
    raise_open_files()?;
    pin(LOAD_CPU)?;
    println!("{}", describe(folder.path())?.join("\n"));
    let scale = if options.trial { Scale::TRIAL } else { Scale::FULL };
    let lab = Lab::open(&binary, folder.path(), scale)?;
    let Contents { active, keys, .. } = scale.usual;
    println!("beforehand: {active} active holds, {keys} keys");

    let running = lab.serve(DataSet::Usual, None)?;
    let (address, pid) = (running.server.address, running.server.process.pid());
    let before = figures_of(address, HOT, 1)?;
    let reserves = Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(1));
    let mut mix = Mix::new(reserves, &format!("/v1/inventory/{}", sku(HOT, 0)), CONNECTIONS, Rng::new(2));
    let mut windows = Vec::new();
    let began = Instant::now();
    while began.elapsed() < length {
        let plan = Plan { warm_up: Duration::ZERO, measure: window };
        let keyed = mix.keyed();
        let run = closed(address, CONNECTIONS, plan, Some(pid), &mut mix)?;
        let window = Window::of(&run, anonymous(pid)?, mix.keyed() - keyed);
        println!("{:>6.0} s: {}", began.elapsed().as_secs_f64(), window.words(&run));
        windows.push(window);
    }
    println!(
        "{} reserved, {} confirmed, {} released, {} confirms too late, {} looks",
        mix.reserved, mix.confirmed, mix.released, mix.late, mix.looked
    );

    let over = Instant::now();
    loop {
        let now = figures_of(address, HOT, 1)?;
        if now.sold != before.sold + mix.confirmed {
            return fail(format!(
                "drift: {} confirms were acknowledged, and {} units sold",
                mix.confirmed, now.sold
            ));
        }
        if (now.held, now.active) == (before.held, before.active) {
            break;
        }
        if over.elapsed() > LAST_EXPIRY {
            return fail(format!("drift: {before:?} became {now:?}, and all holds should have ended"));
        }
        std::thread::sleep(POLL);
    }
    running.server.stop()?;
    verify(&binary, &running.data)?;
    drop(running.folder);
    println!("the books balance, and verify finds nothing");
    match drift(&windows) {
        Some(what) => fail(what),
        None => Ok(()),
    }
}

impl Window {
    fn of(run: &Run, memory: u64, keyed: u64) -> Self {
        let millis = |percentile| run.micros(percentile) / 1_000.0;
        Self {
            rate: run.rate,
            p50_millis: millis(50.0),
            p99_millis: millis(99.0),
            longest_millis: millis(100.0),
            memory: memory as f64,
            keyed: keyed as f64,
        }
    }

    fn words(&self, run: &Run) -> String {
        let Self { rate, p50_millis, p99_millis, longest_millis, memory, .. } = self;
        let (memory, server) = (memory / f64::from(1 << 20), run.server_cpu * 100.0);
        let (load, other) = (run.load_cpu * 100.0, run.other_cpu * 100.0);
        format!(
            "{rate:.0}/s, p50 {p50_millis:.2} ms, p99 {p99_millis:.2} ms, longest {longest_millis:.1} ms, anonymous memory {memory:.0} MiB, server core {server:.0} %, load core {load:.0} %, others {other:.0} %"
        )
    }
}

/// What became worse from the earlier half of the windows to the later one.
fn drift(windows: &[Window]) -> Option<String> {
    let counted = windows.get(FIRST..).unwrap_or_default();
    let (earlier, later) = counted.split_at(counted.len() / 2);
    let (Some(first), Some(last)) = (earlier.first(), later.last()) else {
        println!("too short to tell whether anything drifts");
        return None;
    };
    let median = |windows: &[Window], value: fn(&Window) -> f64| {
        let mut values: Vec<f64> = windows.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let both = |value: fn(&Window) -> f64| (median(earlier, value), median(later, value));
    let (rate, later_rate) = both(|window| window.rate);
    if later_rate < rate * RATE_KEPT {
        return Some(format!("drift: {rate:.0}/s became {later_rate:.0}/s"));
    }
    let (p99, later_p99) = both(|window| window.p99_millis);
    if later_p99 > p99 * LATENCY_KEPT {
        return Some(format!("drift: a p99 of {p99:.2} ms became {later_p99:.2} ms"));
    }
    let keyed: f64 = counted.iter().skip(1).map(|window| window.keyed).sum();
    let may = BYTES_ONCE + keyed * BYTES_A_REQUEST;
    let grown = last.memory - first.memory;
    (grown > may).then(|| {
        format!(
            "drift: memory grew by {:.0} MB over {keyed:.0} keys, which take {:.0} MB",
            grown / 1e6,
            may / 1e6
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: Window = Window {
        rate: 50_000.0,
        p50_millis: 1.0,
        p99_millis: 4.0,
        longest_millis: 20.0,
        memory: 1e9,
        keyed: 1e6,
    };

    fn with(change: impl Fn(usize, &mut Window)) -> Option<String> {
        let mut windows = vec![STEADY; 20];
        for (nth, window) in windows.iter_mut().enumerate() {
            change(nth, window);
        }
        drift(&windows)
    }

    #[test]
    fn what_becomes_worse_is_drift_and_what_begins_badly_or_was_once_is_none() {
        assert_eq!(with(|_, _| ()), None);
        assert_eq!(with(|nth, window| window.rate = if nth < FIRST { 1.0 } else { 50_000.0 }), None);
        assert_eq!(with(|nth, window| window.p99_millis = if nth == 15 { 400.0 } else { 4.0 }), None);
        assert_eq!(with(|nth, window| window.memory += nth as f64 * 4e6), None);
        let words = |what: Option<String>| what.unwrap_or_default();
        assert!(words(with(|nth, window| window.rate -= nth as f64 * 2_000.0)).contains("/s became"));
        assert!(words(with(|nth, window| window.p99_millis += nth as f64 * 3.0)).contains("p99"));
        assert!(words(with(|nth, window| window.memory += nth as f64 * 4e7)).contains("memory grew"));
    }
}
