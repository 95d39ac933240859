//! What sinks cost the callers: reserves a second with sinks and a webhook, and without.
//!
//! The thread of the relay, what it starts, and the threads that read events for it are held to the other core. The load is there too,
//! so the rate falls when the load gets less of its core. The time of the server's own threads for one reserve does not depend on that, so
//! it is measured as well.

use super::rates::{launch, ready_system, webhook, webhook_variables};
use super::system::{Kind, System};
use super::{Options, receiver, row, stock};
use crate::bench::{HOT, TTL_SECONDS};
use crate::load::http::{Reserves, sku};
use crate::load::{LOAD_CPU, Plan, closed};
use crate::rng::Rng;
use crate::spawn::Server;
use crate::{Outcome, fail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::path::Path;
use std::time::Duration;

const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_secs(2);
/// The thread of the relay, and those that read lists and events. In these runs nobody else asks for any.
const RELAY: [&str; 2] = ["relay", "lister"];
/// The sinks that run meanwhile, beside a webhook.
const KINDS: [Kind; 3] = [Kind::File, Kind::Nats, Kind::Rabbitmq];

/// What one run gave.
struct Cost {
    rate: f64,
    /// Time of the processor that the threads of the server took for a reserve, without the relay's, in microseconds.
    micros: f64,
}

/// Measures it.
pub(super) fn measure(options: &Options, folder: &Path, binary: &Path) -> Outcome<()> {
    let (mut rates, mut times) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let here = folder.join(format!("cost-{round}"));
        std::fs::create_dir_all(&here)?;
        let systems =
            KINDS.iter().map(|kind| ready_system(*kind, &here, binary)).collect::<Outcome<Vec<_>>>()?;
        let seconds = Duration::from_secs(options.seconds);
        let without = one(&here.join("without"), binary, &[], seconds, round)?;
        let with = one(&here.join("with"), binary, &systems, seconds, round)?;
        rates.push(with.rate / without.rate);
        times.push(with.micros / without.micros);
        drop(systems);
        std::fs::remove_dir_all(&here)?;
    }
    println!(
        "\nWith sinks for files, NATS and RabbitMQ and a webhook ÷ without any:\n\n| figure | median | rounds |\n|---|---:|---|"
    );
    println!("{}", row("reserves/s, load and relay on one core", &rates));
    println!("{}", row("processor time of the server's other threads for a reserve", &times));
    Ok(())
}

fn one(data: &Path, binary: &Path, systems: &[System], time: Duration, seed: u64) -> Outcome<Cost> {
    let mut env = webhook_variables();
    env.extend(systems.iter().flat_map(System::variables));
    let server = Server::start(&launch(binary, data, env))?;
    let pid = server.process.pid();
    hold_relay(pid)?;
    if !systems.is_empty() {
        let receiver = receiver::listen(|_| {})?;
        webhook(&server, &format!("http://{receiver}/"))?;
    }
    stock(server.address, &sku(HOT, 0), 1_000_000_000)?;
    let mut reserves = Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(seed));
    let warm = Plan { warm_up: Duration::ZERO, measure: WARM_UP };
    closed(server.address, CONNECTIONS, warm, None, &mut reserves)?;
    let before = other_threads(pid)?;
    let plan = Plan { warm_up: Duration::ZERO, measure: time };
    let run = closed(server.address, CONNECTIONS, plan, Some(pid), &mut reserves)?;
    let used = other_threads(pid)?.saturating_sub(before);
    server.stop()?;
    Ok(Cost { rate: run.rate, micros: used.as_secs_f64() * 1e6 / run.answered as f64 })
}

/// The directory, name and allowed cores of each thread of a process.
fn threads(pid: u32) -> Outcome<Vec<(std::path::PathBuf, String, String)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        // A thread may end meanwhile.
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else { continue };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        all.push((
            entry.path(),
            field("Name:").trim().to_owned(),
            field("Cpus_allowed_list:").trim().to_owned(),
        ));
    }
    Ok(all)
}

/// Holds the threads of the relay to the core of the load. Threads that they start from now on are there too.
fn hold_relay(pid: u32) -> Outcome<()> {
    let mut core = CpuSet::new();
    core.set(LOAD_CPU);
    let all = threads(pid)?;
    for wanted in RELAY {
        let mut of_relay = all.iter().filter(|(_, name, _)| name == wanted).peekable();
        if of_relay.peek().is_none() {
            return fail(format!("no thread of the server is called {wanted}"));
        }
        for (path, ..) in of_relay {
            let id = path.file_name().and_then(|name| name.to_str()?.parse().ok()).and_then(Pid::from_raw);
            sched_setaffinity(id, &core)?;
        }
    }
    Ok(())
}

/// Processor time of the threads that are not on the core of the load.
fn other_threads(pid: u32) -> Outcome<Duration> {
    let mut nanos = 0;
    for (path, _, cores) in threads(pid)? {
        if cores == LOAD_CPU.to_string() {
            continue;
        }
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        nanos += text.split_whitespace().next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}
