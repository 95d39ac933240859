//! `cargo xtask gate`: what a gate gives and costs, and how the two usual designs fare under a kill.
//!
//! Redis runs on one core; the two servers and their callers run on the other. PostgreSQL is not pinned. Everything is started here, on private ports.
//! The script that redis-benchmark repeats is the one that the servers send: it is read from the slow log of Redis.

mod load;
mod shops;

use super::databases::Postgres;
use super::machine::{describe, provenance};
use super::redis::Redis;
use crate::database::{done, make_readable};
use crate::http::{Connection, Request};
use crate::load::{LOAD_CPU, pin, raise_open_files};
use crate::spawn::{Build, Launch, Server, scratch, server_binary};
use crate::{Outcome, fail};
use load::hammer;
use shops::{Design, Shop};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Connections of the callers of each server, and of redis-benchmark.
const CONNECTIONS: usize = 64;
/// Requests of redis-benchmark.
const BENCHMARK_REQUESTS: u64 = 200_000;
/// The item that is sold out.
const SOLD_OUT: &str = "sold-out";
/// Items that never are, with and without the gate.
const PLENTY: [&str; 2] = ["plenty-gated", "plenty"];
/// Refusals a second at which the work of the database is measured.
const RATES: [u64; 4] = [10, 100, 1_000, 5_000];

/// How the gate is measured.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// The server; without it, a release build
    #[arg(long, value_name = "FILE")]
    bin: Option<PathBuf>,
    /// Rounds; medians are reported
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds that each part of a round is measured
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Only the two usual designs under a kill
    #[arg(long)]
    only_designs: bool,
    /// For the command itself: be the shop of one of the usual designs until it is killed
    #[arg(long, hide = true, value_name = "DESIGN,REDIS,POSTGRES,FIRST,LAST")]
    shop: Option<Shop>,
}

pub(crate) fn run(options: &Options) -> Outcome<()> {
    if let Some(shop) = &options.shop {
        return shop.sell();
    }
    raise_open_files()?;
    let folder = scratch(None, "stockhold-gate-")?;
    make_readable(folder.path())?;
    println!("{}", provenance()?);
    for line in describe(folder.path())? {
        println!("{line}");
    }
    let postgres = Postgres::start(folder.path())?;
    let redis = Redis::start(folder.path())?;
    if !options.only_designs {
        let binary = server_binary(options.bin.as_deref(), Build::Dist)?;
        pin(LOAD_CPU)?;
        figures(options, folder.path(), &binary, &postgres, &redis)?;
    }
    for design in [Design::RedisCounter, Design::RowLock] {
        println!("{}", shops::under_a_kill(design, &redis, &postgres)?);
    }
    Ok(())
}

/// Two servers over one database and one Redis.
struct Pair {
    servers: [Server; 2],
}

impl Pair {
    fn start(folder: &Path, binary: &Path, postgres: &Postgres, redis: Option<&Redis>) -> Outcome<Self> {
        let start = |name: &str| {
            let mut env = vec![("STOCKHOLD_STORE".to_owned(), postgres.client_url())];
            if let Some(redis) = redis {
                env.push(("STOCKHOLD_GATE".to_owned(), format!("redis://{}", redis.address)));
            }
            let data = folder.join(name);
            Server::start(&Launch { cpu: Some(LOAD_CPU), env, ..Launch::new(binary, &data) })
        };
        Ok(Self { servers: [start("one")?, start("two")?] })
    }

    fn addresses(&self) -> [SocketAddr; 2] {
        [self.servers[0].address, self.servers[1].address]
    }

    fn stop(self) -> Outcome<()> {
        self.servers.into_iter().try_for_each(Server::stop)
    }
}

fn put(address: SocketAddr, sku: &str, units: u64, gated: bool) -> Outcome<()> {
    let body = Some(format!(r#"{{"total_units":{units},"gated":{gated},"max_hold_seconds":3600}}"#));
    let path = format!("/v1/inventory/{sku}");
    let request = Request { method: "PUT", path, key: None, if_match: None, body };
    let answer = Connection::open(address)?.call(&request)?;
    if answer.status / 100 == 2 { Ok(()) } else { fail(format!("{sku}: {}", answer.brief())) }
}

fn reserve(sku: &str, owner: u64, key: Option<String>) -> Request {
    let body = Some(format!(r#"{{"owner_id":"buyer-{owner}","ttl_seconds":3600}}"#));
    Request { method: "POST", path: format!("/v1/inventory/{sku}/reserve"), key, if_match: None, body }
}

fn figures(
    options: &Options,
    folder: &Path,
    binary: &Path,
    postgres: &Postgres,
    redis: &Redis,
) -> Outcome<()> {
    let seconds = Duration::from_secs(options.seconds);
    let pair = Pair::start(folder, binary, postgres, Some(redis))?;
    let addresses = pair.addresses();
    put(addresses[0], SOLD_OUT, 1, true)?;
    put(addresses[0], PLENTY[0], 1_000_000_000, true)?;
    put(addresses[0], PLENTY[1], 1_000_000_000, false)?;
    let first = Connection::open(addresses[0])?.call(&reserve(SOLD_OUT, 0, None))?;
    if first.status != 200 {
        return fail(format!("the only unit: {}", first.brief()));
    }
    // Counters are loaded when an item becomes gated. The callers warm everything up.
    hammer(&addresses, CONNECTIONS, Duration::from_secs(2), |n| reserve(SOLD_OUT, n, None))?;
    let script = redis.slow_script(|| {
        Connection::open(addresses[0])?.call(&reserve(SOLD_OUT, 1, None))?;
        Ok(())
    })?;
    let mut rows: [Vec<f64>; 6] = Default::default();
    for round in 0..options.rounds {
        let bare = benchmark(redis, &script)?;
        let refusals = hammer(&addresses, CONNECTIONS, seconds, |n| reserve(SOLD_OUT, n, None))?;
        let keyed = hammer(&addresses, CONNECTIONS, seconds, |n| {
            reserve(SOLD_OUT, n, Some(format!("key-{round}-{n}")))
        })?;
        let gated = hammer(&addresses, CONNECTIONS, seconds, |n| reserve(PLENTY[0], n, None))?;
        let plain = hammer(&addresses, CONNECTIONS, seconds, |n| reserve(PLENTY[1], n, None))?;
        for (what, calls, expected) in [
            ("refusals", &refusals, 409),
            ("refusals with keys", &keyed, 409),
            ("holds", &gated, 200),
            ("holds", &plain, 200),
        ] {
            calls.expect(what, expected)?;
        }
        let measured = [
            bare,
            refusals.rate(),
            keyed.rate(),
            refusals.rate() / bare,
            keyed.rate() / bare,
            gated.rate() / plain.rate(),
        ];
        for (row, value) in rows.iter_mut().zip(measured) {
            row.push(value);
        }
    }
    let names = [
        "redis-benchmark, the same script, 64 connections, calls/s",
        "refusals/s, two servers, without keys",
        "refusals/s, two servers, with keys",
        "refusals ÷ redis-benchmark (must 0.8)",
        "refusals with keys ÷ redis-benchmark (must 0.8)",
        "holds through the gate ÷ holds without (must 0.87, which is a cost of 1.15)",
    ];
    println!("\n| figure | median | rounds |\n|---|---:|---|");
    for (name, row) in names.iter().zip(&mut rows) {
        let rounds: Vec<String> = row.iter().map(|value| shown(*value)).collect();
        row.sort_by(f64::total_cmp);
        println!("| {name} | {} | {} |", shown(row[row.len() / 2]), rounds.join(", "));
    }
    let with = database_work(&addresses, postgres, seconds)?;
    pair.stop()?;
    let pair = Pair::start(folder, binary, postgres, None)?;
    let without = database_work(&pair.addresses(), postgres, seconds)?;
    pair.stop()?;
    println!(
        "\nTransactions/s of the database, and seconds of its processors' time in a second, by refusals/s:\n"
    );
    println!(
        "| refusals/s | transactions with the gate | without | processor with | without |\n|---:|---:|---:|---:|---:|"
    );
    for (with, without) in with.iter().zip(&without) {
        println!(
            "| {} | {:.0} | {:.0} | {:.3} | {:.3} |",
            with.rate, with.transactions, without.transactions, with.processor, without.processor
        );
    }
    Ok(())
}

fn shown(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// What the database does in a second at a rate of refusals.
struct DatabaseWork {
    rate: u64,
    transactions: f64,
    processor: f64,
}

/// Measures it without refusals first, and at each of [`RATES`].
fn database_work(
    addresses: &[SocketAddr],
    postgres: &Postgres,
    time: Duration,
) -> Outcome<Vec<DatabaseWork>> {
    let mut all = Vec::new();
    for rate in std::iter::once(0).chain(RATES) {
        // The statistics of the database are behind by up to a second.
        std::thread::sleep(Duration::from_millis(1_200));
        let (began, before) = (Instant::now(), (postgres.transactions()?, postgres.processor_time()?));
        if rate == 0 {
            std::thread::sleep(time);
        } else {
            load::steadily(addresses, rate, time, |n| reserve(SOLD_OUT, n, None))?.expect("refusals", 409)?;
        }
        std::thread::sleep(Duration::from_millis(1_200));
        let seconds = began.elapsed().as_secs_f64();
        // Both questions are transactions of their own.
        let transactions = postgres.transactions()?.saturating_sub(before.0).saturating_sub(2);
        let processor = postgres.processor_time()?.saturating_sub(before.1);
        all.push(DatabaseWork {
            rate,
            transactions: transactions as f64 / seconds,
            processor: processor.as_secs_f64() / seconds,
        });
    }
    Ok(all)
}

/// How often in a second redis-benchmark can call a script.
fn benchmark(redis: &Redis, script: &[String]) -> Outcome<f64> {
    let mut command = crate::spawn::pinned(Path::new("redis-benchmark"), Some(LOAD_CPU));
    command.args(["-h", "127.0.0.1", "-p", &redis.address.port().to_string(), "--csv"]);
    command.args(["-c", &CONNECTIONS.to_string(), "-n", &BENCHMARK_REQUESTS.to_string()]);
    let said = done(command.args(script))?;
    let rate = said.lines().last().and_then(|line| line.split("\",\"").nth(1)?.parse().ok());
    rate.ok_or_else(|| format!("redis-benchmark says no rate: {said}").into())
}
