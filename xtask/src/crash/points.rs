//! Every named fault point of the sources (`stockhold_store::fault`), with every action that it knows: kill, panic, pause,
//! and error where the step can fail. The server has to be built with the points. A point that is never reached, or where an action never happened, fails the run.

use super::{AFTERWARDS, Harness, Options, ServerFate, ended_in_order, fate};
use crate::rng::Rng;
use crate::source::{fault_points, has_all_fault_points};
use crate::spawn::{Build, Launch, Readiness, START_TIMEOUT, STOP_TIMEOUT, Server, server_binary, verify};
use crate::workload::{Depth, Tolerance};
use crate::{Outcome, fail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest load until the point is reached; then the server gets SIGTERM, which reaches the points of a stop.
const PATIENCE: Duration = Duration::from_secs(4);
/// Longest time without load after that. It is longer than the shortest holds of the load, because a
/// reserve that finds too few units expires what is due of its item, which can leave the sweeper nothing to do under load.
const IDLE: Duration = Duration::from_secs(4);
/// Load where the point lies in a start or a stop.
const BRIEFLY: Duration = Duration::from_millis(150);
const PAUSE_MILLIS: u64 = 60;
/// After a pause the load goes on so long, in milliseconds.
const AFTER_PAUSE: (u64, u64) = (10, 150);
/// A point is hit at one of its first so many times; at the first when that was too late.
const TIMES: u64 = 12;
/// Longest time until a store that is in trouble says so. A thread that panics has to unwind first, which takes 100 ms on a busy machine.
const TROUBLE_SHOWS: Duration = Duration::from_millis(500);
const CLIENTS: usize = 16;
/// Requests of each client right before a kill.
const FRESH: usize = 8;
/// Tries of one point with one action.
const TRIES: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Kill,
    Panic,
    Pause,
    Error,
}

impl Action {
    fn order(self) -> String {
        match self {
            Self::Kill => "kill".to_owned(),
            Self::Panic => "panic".to_owned(),
            Self::Pause => format!("pause:{PAUSE_MILLIS}"),
            Self::Error => "error".to_owned(),
        }
    }
}

pub(super) fn run(options: &Options, seed: u64) -> Outcome<()> {
    let points = fault_points()?;
    if !points.keys().any(|name| name.starts_with(&options.point)) {
        return fail(format!("no fault point begins with {:?}", options.point));
    }
    let binary = server_binary(None, Build::Dev)?;
    has_all_fault_points(&binary, &points)?;
    // Few clients: most of the time goes into starts, and audits grow with the history.
    let options = &Options { connections: options.connections.min(CLIENTS), ..options.clone() };
    let mut harness = Harness::new(options, seed, &binary)?;
    let mut noted = FaultHits { file: harness.folder.path().join("hits"), ..FaultHits::default() };
    let result = rounds(&mut harness, options, &points, &mut noted);
    let server = harness.keep_folder_on_error(result)?;
    noted.take();
    let reached: BTreeSet<&str> = noted.reached.keys().map(String::as_str).collect();
    let never: Vec<&String> = points
        .keys()
        .filter(|name| name.starts_with(&options.point) && !reached.contains(name.as_str()))
        .collect();
    println!(
        "{} fault points, reached in {} processes; {} actions happened there",
        points.len(),
        noted.reached.values().sum::<u64>(),
        noted.happened.values().sum::<u64>(),
    );
    if !never.is_empty() {
        return fail(format!("never reached: {never:?}"));
    }
    harness.end(server, "fault points")
}

fn rounds(
    harness: &mut Harness,
    options: &Options,
    points: &BTreeMap<String, String>,
    seen: &mut FaultHits,
) -> Outcome<Server> {
    let mut server = harness.begin()?;
    for (point, rest) in points.iter().filter(|(name, _)| name.starts_with(&options.point)) {
        let mut actions = vec![Action::Kill, Action::Panic, Action::Pause];
        if rest.starts_with(" =>") {
            actions.push(Action::Error);
        }
        if options.short {
            actions = vec![actions[harness.rng.index(actions.len())]];
        }
        for action in actions {
            // So that the start after the kill has something to apply.
            harness.fleet.answers_everything(server.address, FRESH)?;
            server.process.kill()?;
            let hurt = hurt(harness, point, action, seen).and_then(|()| {
                let launch = Launch { env: seen.env(""), ..harness.launch.clone() };
                harness.recover(&launch)
            });
            server = hurt.map_err(|error| format!("{point}, {action:?}: {error}"))?;
        }
    }
    Ok(server)
}

/// Starts servers that are to be hurt at the point until one is.
fn hurt(harness: &mut Harness, point: &str, action: Action, seen: &mut FaultHits) -> Outcome<()> {
    for attempt in 0..TRIES {
        let starts = point.starts_with("start.");
        let often = attempt == 0 && !starts;
        let nth = if often { harness.rng.between(1, TIMES) } else { 1 };
        // Some steps are only there when the directory is new.
        let fresh = starts && attempt % 2 == 1;
        if attempt > 0 {
            let launch = Launch { env: seen.env(""), ..harness.launch.clone() };
            let mut server = harness.recover(&launch)?;
            harness.fleet.answers_everything(server.address, FRESH)?;
            server.process.kill()?;
        }
        let old = harness.launch.data.clone();
        if fresh {
            harness.launch.data = harness.folder.path().join("fresh");
            std::fs::remove_dir_all(&harness.launch.data).ok();
        }
        seen.take();
        let before = seen.count(point, action);
        let order = format!("{point}={}@{nth}", action.order());
        let ended = attempt_once(harness, action, &order, point, seen, fresh);
        let checked = ended.and_then(|()| {
            seen.take();
            // A directory that was hardly begun has nothing to recount; it has to start.
            let data = &harness.launch.data;
            if fresh { restarts(harness, seen) } else { verify(&harness.launch.binary, data) }
        });
        harness.launch.data = old;
        checked.map_err(|error| format!("{order}: {error}"))?;
        if seen.count(point, action) > before {
            return Ok(());
        }
    }
    fail(format!("it was not reached in {TRIES} tries"))
}

fn restarts(harness: &Harness, seen: &FaultHits) -> Outcome<()> {
    Server::start(&Launch { env: seen.env(""), ..harness.launch.clone() })?.stop()?;
    verify(&harness.launch.binary, &harness.launch.data)
}

fn attempt_once(
    harness: &mut Harness,
    action: Action,
    order: &str,
    point: &str,
    seen: &FaultHits,
    fresh: bool,
) -> Outcome<()> {
    let launch = harness.hurting(seen.env(order));
    let mut server = Server::spawn(&launch)?;
    match server.until_ready(START_TIMEOUT)? {
        Readiness::Ended(status) => return ended_as_ordered(&server, status, action),
        Readiness::Ready if fresh => {}
        Readiness::Ready => {
            let starts = point.starts_with("start.");
            let soon = starts || point.starts_with("stop.") || point == "checkpoint.last";
            let address = server.address;
            harness.fleet.operate(address, tolerance(action))?;
            let fate = harness.under_load(&mut server, tolerance(action), |server, rng| {
                let until = Instant::now() + if soon { BRIEFLY } else { PATIENCE };
                while Instant::now() < until && !seen.happened_now(point, action) {
                    if let Some(status) = server.process.ended()? {
                        return Ok(Some(ServerFate::Ended(status)));
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                if starts && !seen.happened_now(point, action) {
                    // The next start has something to apply then.
                    server.process.kill()?;
                    return Ok(Some(ServerFate::Killed));
                }
                after(server, action, seen.happened_now(point, action), rng)
            })?;
            match fate {
                Some(ServerFate::Ended(status)) => return ended_as_ordered(&server, status, action),
                Some(ServerFate::Killed) => return Ok(()),
                Some(ServerFate::Serves) | None => {}
            }
            if action == Action::Pause || !seen.happened_now(point, action) {
                // Nothing came between requests and their answers.
                harness.fleet.all_answered()?;
            }
            if point.starts_with("sweep.") && !seen.happened_now(point, action) {
                wait_idle(&mut server, action, point, seen)?;
                let happened = seen.happened_now(point, action);
                let fate = after(&mut server, action, happened, &mut harness.rng)?;
                if let Some(ServerFate::Ended(status)) = fate {
                    return ended_as_ordered(&server, status, action);
                }
            }
            if seen.happened_now(point, action) && action != Action::Pause {
                // It goes on: then it has to do its work.
                harness.fleet.resolve(address)?;
                harness.fleet.answers_everything(address, AFTERWARDS)?;
                harness.fleet.audit(address, Depth::Recent)?;
            }
        }
    }
    server.process.terminate()?;
    let status = server.process.wait(STOP_TIMEOUT)?;
    if status.success() && action != Action::Kill {
        return Ok(());
    }
    if !seen.happened_now(point, action) && status.success() {
        return Ok(());
    }
    ended_as_ordered(&server, status, action)
}

/// Waits without load until the action has happened or the server has ended.
fn wait_idle(server: &mut Server, action: Action, point: &str, seen: &FaultHits) -> Outcome<()> {
    let until = Instant::now() + IDLE;
    while Instant::now() < until && !seen.happened_now(point, action) && server.process.ended()?.is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn tolerance(action: Action) -> Tolerance {
    match action {
        Action::Kill | Action::Pause => Tolerance::None,
        Action::Panic | Action::Error => Tolerance::Failure,
    }
}

/// Waits for the consequences once the point was reached, or the time for it is over.
fn after(server: &mut Server, action: Action, happened: bool, rng: &mut Rng) -> Outcome<Option<ServerFate>> {
    match action {
        _ if !happened => Ok(None),
        Action::Pause => {
            std::thread::sleep(Duration::from_millis(rng.between(AFTER_PAUSE.0, AFTER_PAUSE.1)));
            Ok(None)
        }
        Action::Kill => server.process.wait(STOP_TIMEOUT).map(|status| Some(ServerFate::Ended(status))),
        Action::Panic | Action::Error => {
            let until = Instant::now() + TROUBLE_SHOWS;
            while Instant::now() < until && server.is_ready() {
                std::thread::sleep(Duration::from_millis(5));
            }
            fate(server).map(Some)
        }
    }
}

fn ended_as_ordered(server: &Server, status: std::process::ExitStatus, action: Action) -> Outcome<()> {
    match action {
        Action::Kill if status.code().is_none() => Ok(()),
        Action::Kill | Action::Pause => fail(format!("ended with {status}\n{}", server.process.log_tail())),
        Action::Panic => ended_in_order(server, status, true),
        Action::Error => ended_in_order(server, status, false),
    }
}

/// The points that servers reached, from the file of `FAULT_HITS`.
#[derive(Default)]
struct FaultHits {
    file: PathBuf,
    /// By point: processes that reached it.
    reached: BTreeMap<String, u64>,
    /// By point and order: how often it happened.
    happened: BTreeMap<String, u64>,
}

impl FaultHits {
    fn env(&self, order: &str) -> Vec<(String, String)> {
        vec![
            ("FAULT_HITS".to_owned(), self.file.display().to_string()),
            ("FAULT_POINTS".to_owned(), order.to_owned()),
        ]
    }

    /// Reads the file so far and removes it.
    fn take(&mut self) {
        for line in said(&self.file).lines() {
            let counts = if line.contains(' ') { &mut self.happened } else { &mut self.reached };
            *counts.entry(line.to_owned()).or_default() += 1;
        }
        std::fs::remove_file(&self.file).ok();
    }

    fn count(&self, point: &str, action: Action) -> u64 {
        self.happened.get(&format!("{point} {}", action.order())).copied().unwrap_or_default()
    }

    /// Whether it happened since the file was last read.
    fn happened_now(&self, point: &str, action: Action) -> bool {
        let wanted = format!("{point} {}", action.order());
        said(&self.file).lines().any(|line| line == wanted)
    }
}

fn said(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}
