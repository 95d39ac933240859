//! What is swept, and how each point is measured.

use super::plot::{Curve, Panel, PlotSeries};
use crate::Outcome;
use crate::bench::{
    COLD, Contents, DataSet, HOT, Lab, ServerOnData, Setup, TTL_SECONDS, anonymous, drive, fill, timed_start,
    until_idle,
};
use crate::load::http::{Baskets, Reserves};
use crate::load::{Plan, Run};
use crate::rng::Rng;
use crate::shim::DiskFault;

const CONNECTIONS: usize = 64;

/// The points of every curve.
pub(super) struct Ranges {
    connections: &'static [usize],
    holds: &'static [u64],
    items: &'static [usize],
    basket: &'static [usize],
    /// Milliseconds added to every sync.
    delay: &'static [u64],
}

impl Ranges {
    pub(super) const FULL: Self = Self {
        connections: &[1, 4, 16, 64, 256, 1_024, 4_096],
        holds: &[1_000, 10_000, 100_000, 1_000_000, 10_000_000],
        items: &[1, 10, 100, 1_000, 10_000, 100_000, 1_000_000],
        basket: &[1, 10, 100, 1_000],
        delay: &[0, 1, 5],
    };
    pub(super) const SHORT: Self = Self {
        connections: &[1, 16, 256, 4_096],
        holds: &[1_000, 100_000, 1_000_000],
        items: &[1, 1_000, 100_000],
        ..Self::FULL
    };
    pub(super) const TRIAL: Self = Self {
        connections: &[1, 8],
        holds: &[100, 1_000],
        items: &[1, 10],
        basket: &[1, 10],
        delay: &[0, 1],
    };
}

/// One of the sweeps.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sweep {
    Connections,
    Holds,
    Items,
    Basket,
    Delay,
}

impl Sweep {
    pub(super) const ALL: [Self; 5] =
        [Self::Connections, Self::Holds, Self::Items, Self::Basket, Self::Delay];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Holds => "holds",
            Self::Items => "items",
            Self::Basket => "basket",
            Self::Delay => "delay",
        }
    }

    /// Measures every point, one after the other.
    pub(super) fn measure(self, lab: &Lab, ranges: &Ranges, plan: Plan) -> Outcome<Vec<Curve>> {
        match self {
            Self::Connections => connections(lab, ranges.connections, plan),
            Self::Holds => holds(lab, ranges.holds, plan),
            Self::Items => items(lab, ranges.items, plan),
            Self::Basket => basket(lab, ranges.basket, plan),
            Self::Delay => delay(lab, ranges.delay, plan),
        }
    }
}

/// A line of values as they come.
fn series(name: impl Into<String>, values: &[f64]) -> PlotSeries {
    PlotSeries { name: name.into(), values: values.iter().map(|value| Some(*value)).collect() }
}

/// Rate above, latency below.
fn rates(
    what: &'static str,
    names: &[String],
    runs: &[Vec<Run>],
    times: impl Fn(usize) -> f64,
) -> Vec<Panel> {
    let line = |value: &dyn Fn(usize, &Run) -> f64| {
        names
            .iter()
            .zip(runs)
            .map(|(name, runs)| {
                let values: Vec<f64> = runs.iter().enumerate().map(|(nth, run)| value(nth, run)).collect();
                series(name.as_str(), &values)
            })
            .collect()
    };
    vec![
        Panel { title: what, log: false, series: line(&|nth, run| run.rate * times(nth)) },
        Panel { title: "p99 ms", log: true, series: line(&|_, run| run.micros(99.0) / 1_000.0) },
    ]
}

fn say(sweep: &str, point: impl std::fmt::Display, run: &Run) {
    println!(
        "{sweep} {point}: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms, server core {:.0} %, load core {:.0} %",
        run.rate,
        run.micros(50.0) / 1_000.0,
        run.micros(99.0) / 1_000.0,
        run.server_cpu * 100.0,
        run.load_cpu * 100.0,
    );
}

fn connections(lab: &Lab, points: &[usize], plan: Plan) -> Outcome<Vec<Curve>> {
    let mut runs = Vec::new();
    for connections in points {
        let run = lab.reserves(Setup::hot(*connections), plan, *connections as u64)?.run;
        say("connections", connections, &run);
        runs.push(run);
    }
    Ok(vec![Curve {
        name: "connections",
        title: "Durable reserves of one hot SKU, by connections",
        along: "connections",
        points: points.iter().map(ToString::to_string).collect(),
        panels: rates("reserves/s", &["one hot SKU".to_owned()], &[runs], |_| 1.0),
    }])
}

/// One server that is given more and more; what is measured stays in it.
fn holds(lab: &Lab, points: &[u64], plan: Plan) -> Outcome<Vec<Curve>> {
    let ServerOnData { mut server, data, folder: _folder } = lab.serve_empty()?;
    let mut have = Contents::default();
    let (mut runs, mut fresh, mut loaded, mut seconds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for point in points {
        let want = Contents { items: 1_000, active: *point, keys: *point, closed: 0 };
        fill(&server, have, want)?;
        have = want;
        until_idle(server.process.pid())?;
        fresh.push(anonymous(server.process.pid())? as f64 / f64::from(1 << 20));
        server.stop()?;
        let (took, started) = timed_start(&lab.bases.binary, &data)?;
        server = started;
        until_idle(server.process.pid())?;
        loaded.push(anonymous(server.process.pid())? as f64 / f64::from(1 << 20));
        seconds.push(took);
        let mut reserves = Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(*point));
        let made = |_: &Reserves, run: &Run| (run.answered, 0);
        let run = drive(&server, (HOT, 1), CONNECTIONS, plan, &mut reserves, made)?;
        say("holds", point, &run);
        println!(
            "holds {point}: start {took:.2} s, anonymous memory {:.0} MiB",
            loaded.last().unwrap_or(&0.0)
        );
        runs.push(run);
    }
    server.stop()?;
    let names = points.iter().map(|point| short(*point)).collect::<Vec<_>>();
    Ok(vec![
        Curve {
            name: "holds",
            title: "Durable reserves, by active holds",
            along: "active holds",
            points: names.clone(),
            panels: rates("reserves/s", &["64 connections".to_owned()], &[runs], |_| 1.0),
        },
        Curve {
            name: "memory",
            title: "Memory and restart, by active holds",
            along: "active holds",
            points: names,
            panels: vec![
                Panel {
                    title: "anonymous memory MiB",
                    log: true,
                    series: vec![series("just made", &fresh), series("after a restart", &loaded)],
                },
                Panel { title: "restart s", log: true, series: vec![series("until ready", &seconds)] },
            ],
        },
    ])
}

fn items(lab: &Lab, points: &[usize], plan: Plan) -> Outcome<Vec<Curve>> {
    let running = lab.serve_empty()?;
    let mut have = Contents::default();
    let mut runs = Vec::new();
    for point in points {
        let want = Contents { items: *point, ..have };
        fill(&running.server, have, want)?;
        have = want;
        let mut reserves = Reserves::new(COLD, *point, TTL_SECONDS, Rng::new(*point as u64));
        let made = |_: &Reserves, run: &Run| (run.answered, 0);
        let run = drive(&running.server, (COLD, *point), CONNECTIONS, plan, &mut reserves, made)?;
        say("items", point, &run);
        runs.push(run);
    }
    running.stop()?;
    Ok(vec![Curve {
        name: "items",
        title: "Durable reserves over all items evenly, by items",
        along: "items",
        points: points.iter().map(|point| short(*point as u64)).collect(),
        panels: rates("reserves/s", &["64 connections".to_owned()], &[runs], |_| 1.0),
    }])
}

fn basket(lab: &Lab, points: &[usize], plan: Plan) -> Outcome<Vec<Curve>> {
    let mut runs = Vec::new();
    for lines in points {
        let running = lab.serve(DataSet::Usual, None)?;
        let mut baskets = Baskets::new(COLD, *lines, TTL_SECONDS, Rng::new(*lines as u64));
        let made = |_: &Baskets, run: &Run| (run.answered * *lines as u64, 0);
        let run = drive(&running.server, (COLD, *lines), CONNECTIONS, plan, &mut baskets, made)?;
        say("basket", lines, &run);
        running.stop()?;
        runs.push(run);
    }
    let names = ["64 connections".to_owned()];
    let mut panels = rates("lines/s", &names, &[runs.clone()], |nth| points[nth] as f64);
    panels.insert(0, rates("baskets/s", &names, &[runs], |_| 1.0).swap_remove(0));
    Ok(vec![Curve {
        name: "basket",
        title: "Baskets, by lines: each is one reservation, all or nothing",
        along: "lines in a basket",
        points: points.iter().map(ToString::to_string).collect(),
        panels,
    }])
}

fn delay(lab: &Lab, points: &[u64], plan: Plan) -> Outcome<Vec<Curve>> {
    let crowds = [64, 512];
    let mut runs = crowds.map(|_| Vec::new());
    for millis in points {
        for (connections, runs) in crowds.into_iter().zip(&mut runs) {
            let disk = (*millis > 0).then_some(DiskFault::SyncDelay(millis * 1_000));
            let run = lab.reserves(Setup { disk, ..Setup::hot(connections) }, plan, *millis)?.run;
            say("delay", format_args!("{millis} ms, {connections} connections"), &run);
            runs.push(run);
        }
    }
    let names = crowds.map(|connections| format!("{connections} connections"));
    Ok(vec![Curve {
        name: "delay",
        title: "Durable reserves on slower disks",
        along: "ms added to every sync",
        points: points.iter().map(ToString::to_string).collect(),
        panels: rates("reserves/s", &names, &runs, |_| 1.0),
    }])
}

/// A round number of things.
fn short(number: u64) -> String {
    match number {
        number if number >= 1_000_000 => format!("{} M", number / 1_000_000),
        number if number >= 1_000 => format!("{} k", number / 1_000),
        number => number.to_string(),
    }
}
