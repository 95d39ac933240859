//! `cargo xtask deliveries`: what sinks and webhooks deliver, and what they cost. With `--kills`: two servers over one database, of which
//! the one that serves the sinks is killed again and again, and consumers that have to get every event.
//!
//! The server runs on one core. Brokers, receivers and the load run on the other one.

mod cost;
mod kills;
mod latency;
mod nats;
mod rates;
mod receiver;
mod system;

use crate::Outcome;
use crate::bench::{describe, provenance};
use crate::database::make_readable;
use crate::http::{Connection, Request};
use crate::load::{LOAD_CPU, pin, raise_open_files};
use crate::spawn::{Build, Server, metric, scratch, server_binary};
use clap::{Args, value_parser};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use system::Kind;

/// How often something that is waited for is looked at.
const POLL: Duration = Duration::from_millis(10);
/// Longest wait for something that has to come.
const PATIENCE: Duration = Duration::from_mins(2);

/// What is measured.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The server; without it, a release build, or with `--kills` a build with checked arithmetic
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Only these sinks
    #[arg(long, value_enum, value_delimiter = ',')]
    sinks: Vec<Kind>,
    /// Events that each sink has to deliver
    #[arg(long, default_value_t = 200_000, value_parser = value_parser!(u64).range(1_000..))]
    events: u64,
    /// Rounds; medians are reported
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u64).range(1..))]
    rounds: u64,
    /// Seconds of each measurement under load
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Kill the server that serves the sinks so often, on each database, and measure nothing
    #[arg(long, value_name = "COUNT")]
    kills: Option<u64>,
}

impl Options {
    /// Whether it measures.
    pub(crate) fn measures(&self) -> bool {
        self.kills.is_none()
    }

    /// A run of `cargo xtask prove`.
    pub(crate) fn of_kills(count: u64, server: &Path) -> Self {
        Self {
            server: Some(server.to_owned()),
            sinks: Vec::new(),
            events: 0,
            rounds: 0,
            seconds: 0,
            kills: Some(count),
        }
    }
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    if let Some(count) = options.kills {
        let binary = server_binary(options.server.as_deref(), Build::Dev)?;
        return kills::run(count, &binary);
    }
    raise_open_files()?;
    let binary = server_binary(options.server.as_deref(), Build::Dist)?;
    let folder = scratch(None, "stockhold-deliveries-")?;
    make_readable(folder.path())?;
    println!("{}", provenance()?);
    for line in describe(folder.path())? {
        println!("{line}");
    }
    pin(LOAD_CPU)?;
    let kinds = if options.sinks.is_empty() { Kind::ALL.to_vec() } else { options.sinks.clone() };
    rates::measure(options, &kinds, folder.path(), &binary)?;
    if options.sinks.is_empty() {
        latency::measure(options, folder.path(), &binary)?;
        cost::measure(options, folder.path(), &binary)?;
    }
    Ok(())
}

/// A figure and what it was in each round.
fn row(name: &str, rounds: &[f64]) -> String {
    let shown = |value: f64| if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") };
    let all: Vec<String> = rounds.iter().map(|value| shown(*value)).collect();
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    format!("| {name} | {} | {} |", shown(sorted[sorted.len() / 2]), all.join(", "))
}

/// Makes an item of so many units.
fn stock(address: SocketAddr, sku: &str, units: u64) -> Outcome<()> {
    let body = Some(format!(r#"{{"total_units":{units}}}"#));
    let request =
        Request { method: "PUT", path: format!("/v1/inventory/{sku}"), key: None, if_match: None, body };
    asked(address, &request, 201).map(drop)
}

/// Sends a request that has to be answered with this status.
fn asked(address: SocketAddr, request: &Request, status: u16) -> Outcome<serde_json::Value> {
    let answer = Connection::open(address)?.call(request)?;
    if answer.status == status {
        return Ok(answer.json());
    }
    crate::fail(format!("{} {}: {}", request.method, request.path, answer.brief()))
}

/// Messages that a server has delivered to a sink since its start.
fn delivered(server: &Server, sink: &str) -> Outcome<u64> {
    let name = format!("stockhold_relay_delivered_total{{sink=\"{sink}\"}}");
    Ok(metric(server.admin, &name)?.unwrap_or(0))
}

/// Waits until it is so.
fn wait_until(what: &str, mut is_so: impl FnMut() -> Outcome<bool>) -> Outcome<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > deadline {
            return crate::fail(format!("not within {PATIENCE:?}: {what}"));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
