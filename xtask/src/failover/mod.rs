//! `cargo xtask failover`: the loss of a primary. A database with a synchronous standby, two servers over it under load; the
//! primary is killed without a word, the standby promoted, the load goes on. Then every answer that was ever acknowledged is
//! held against the new primary, what was unknown is asked again with its key, and the events are read again. A new standby is
//! made of the new primary, and the next round kills that.
//!
//! A Galera cluster has no primary: three servers over its three nodes are under load, and one node after the other is killed or cut off,
//! and joins again.
//!
//! All of it runs on one machine, so what is lost is the server and its disk, not the network in between, and both read one clock.

mod events;
mod forward;
mod galera;
mod mariadb;
mod postgres;

use crate::clock::wall_millis;
use crate::database::make_readable;
use crate::rng::Rng;
use crate::spawn::{
    Build, Launch, Readiness, START_TIMEOUT, Server, metric, scratch, server_binary, verify_store,
};
use crate::workload::{Depth, Fleet, RecoveryWatch, Tolerance};
use crate::{Outcome, fail};
use clap::{Args, ValueEnum, value_parser};
use events::Events;
use galera::GaleraCluster;
use mariadb::MariaDbPair;
use postgres::PostgresPair;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections of buyers, each with one request in flight.
const CLIENTS: usize = 24;
/// Servers over a database with a standby.
const SERVERS: usize = 2;
/// Load before the kill, in milliseconds.
const LOAD_MILLIS: (u64, u64) = (200, 1_500);
/// Load after both servers have had a success again.
const GO_ON: Duration = Duration::from_millis(700);
/// Longest that a server may stay without a success once the standby is promoted.
const RECOVER_TIMEOUT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(5);
const PROGRESS_EVERY: u64 = 5;
const ALARMS: &str = "stockhold_invariant_alarms_total";

/// How the harness is run.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Only this database; all when left out
    #[arg(long, value_enum)]
    store: Option<Kind>,
    /// How often the primary of each database is killed
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u64).range(1..))]
    rounds: u64,
    /// For how many minutes the primary of each database is killed, instead of a number of rounds
    #[arg(long, conflicts_with = "rounds", value_parser = value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// Repeats a run's choices; the moments at which kills hit stay the machine's
    #[arg(long)]
    seed: Option<u64>,
    /// Where the temporary data goes
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
}

impl Options {
    /// A run of `cargo xtask prove`.
    pub(crate) fn of(rounds: u64, seed: u64, server: &Path) -> Self {
        Self {
            store: None,
            rounds,
            minutes: None,
            seed: Some(seed),
            disk: None,
            server: Some(server.to_owned()),
        }
    }
}

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Postgres,
    Mariadb,
    Galera,
}

/// A primary with a synchronous standby, or a cluster.
trait Databases {
    /// The address of each server's database. It never changes: that of a pair leads to its current primary.
    fn urls(&self) -> Vec<String>;

    /// What it is, for the report.
    fn name(&self) -> &str;

    /// Kills all processes of the primary at once.
    fn kill(&mut self) -> Outcome<PrimaryLoss>;

    /// Makes the standby the primary, and lets it commit without a standby of its own.
    fn promote(&mut self) -> Outcome<()>;

    /// Makes a new standby. When it returns, both have all commits, and every later commit is on both before it is answered.
    fn stand_by(&mut self) -> Outcome<()>;
}

/// How a primary is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrimaryLoss {
    /// The process is killed. Its machine closes the connections.
    Process,
    /// The machine is gone too: connections to it stay open without an answer.
    Machine,
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let binary = server_binary(options.server.as_deref(), Build::Dev)?;
    let seed = options.seed.unwrap_or_else(wall_millis);
    println!("seed {seed}, {CLIENTS} connections");
    for kind in [Kind::Postgres, Kind::Mariadb, Kind::Galera] {
        if options.store.is_none_or(|only| only == kind) {
            rounds(options, kind, seed, &binary).map_err(|error| format!("seed {seed}: {error}"))?;
        }
    }
    println!("0 lost, 0 oversold, 0 returned twice");
    Ok(())
}

fn rounds(options: &Options, kind: Kind, seed: u64, binary: &Path) -> Outcome<()> {
    let mut folder = scratch(options.disk.as_deref(), "stockhold-failover-")?;
    make_readable(folder.path())?;
    let began = Instant::now();
    let result = (|| {
        let databases: Box<dyn Databases> = match kind {
            Kind::Postgres => Box::new(PostgresPair::start(folder.path())?),
            Kind::Mariadb => Box::new(MariaDbPair::start(folder.path())?),
            Kind::Galera => Box::new(GaleraCluster::start(folder.path())?),
        };
        let mut bench = FailoverTest::start(databases, folder.path(), seed, binary)?;
        let mut times = Times::default();
        let until = options.minutes.map(|minutes| began + Duration::from_mins(minutes));
        let goes_on = |round| until.map_or(round <= options.rounds, |until| Instant::now() < until);
        for round in (1..).take_while(|round| goes_on(*round)) {
            bench.round(&mut times).map_err(|error| format!("round {round}: {error}"))?;
            if round % PROGRESS_EVERY == 0 {
                println!("{kind:?}, round {round}: {}", bench.fleet.counts());
            }
        }
        bench.end(&times, began)
    })();
    result.map_err(|error| {
        folder.disable_cleanup(true);
        format!("{kind:?}: data and logs kept in {}:\n{error}", folder.path().display()).into()
    })
}

/// What was measured, a value each round.
#[derive(Debug, Default)]
struct Times(Vec<Time>);

#[derive(Clone, Copy, Debug)]
struct Time {
    loss: PrimaryLoss,
    /// From the kill until the standby was the primary.
    promoted: Duration,
    /// From the kill to the first success.
    first: Duration,
    /// From the kill until every server had one.
    all: Duration,
}

/// A database, its servers and their buyers.
struct FailoverTest {
    databases: Box<dyn Databases>,
    servers: Vec<Server>,
    addresses: Vec<SocketAddr>,
    fleet: Fleet,
    events: Events,
    rng: Rng,
    binary: PathBuf,
}

impl FailoverTest {
    fn start(mut databases: Box<dyn Databases>, folder: &Path, seed: u64, binary: &Path) -> Outcome<Self> {
        databases.stand_by()?;
        let mut servers = Vec::new();
        for (number, url) in databases.urls().into_iter().enumerate() {
            let mut launch = Launch::new(binary, &folder.join(format!("server-{number}")));
            launch.env.push(("STOCKHOLD_STORE".to_owned(), url));
            servers.push(Server::start(&launch)?);
        }
        let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
        let fleet = Fleet::new(seed, CLIENTS, true);
        fleet.set_stock(addresses[0])?;
        let (events, rng, binary) = (Events::default(), Rng::new(seed), binary.to_owned());
        Ok(Self { databases, servers, addresses, fleet, events, rng, binary })
    }

    fn round(&mut self, times: &mut Times) -> Outcome<()> {
        self.fleet.operate(self.addresses[0], Tolerance::Failover)?;
        self.kill_under_load(times)?;
        self.fleet.resolve(self.addresses[0])?;
        self.fleet.audit(self.addresses[1], Depth::Everything)?;
        self.events.audit(self.addresses[0], self.fleet.known())?;
        for server in &mut self.servers {
            if let Some(status) = server.process.ended()? {
                return fail(format!("a server ended: {status}\n{}", server.process.log_tail()));
            }
            let alarms = alarms(server.admin)?;
            if alarms != 0.0 {
                return fail(format!("{alarms} invariant alarms\n{}", server.process.log_tail()));
            }
        }
        self.databases.stand_by()?;
        for server in &mut self.servers {
            if let Readiness::Ended(status) = server.until_ready(START_TIMEOUT)? {
                return fail(format!("a server ended: {status}\n{}", server.process.log_tail()));
            }
        }
        Ok(())
    }

    fn kill_under_load(&mut self, times: &mut Times) -> Outcome<()> {
        let before = Duration::from_millis(self.rng.between(LOAD_MILLIS.0, LOAD_MILLIS.1));
        let servers = self.servers.len();
        let (stop, watch) = (AtomicBool::new(false), RecoveryWatch::new(servers));
        let (fleet, events, databases, addresses) =
            (&mut self.fleet, &mut self.events, &mut self.databases, &self.addresses);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| fleet.load_through_failover(addresses, &stop, &watch));
            let reader = scope.spawn(|| events.follow(addresses, &stop));
            let result = (|| {
                std::thread::sleep(before);
                let loss = databases.kill()?;
                let killed = Instant::now();
                watch.begin();
                databases.promote()?;
                let promoted = killed.elapsed();
                let firsts = until_well(&watch, servers)?;
                let first = firsts.iter().min().copied().unwrap_or_default();
                let all = firsts.iter().max().copied().unwrap_or_default();
                times.0.push(Time { loss, promoted, first, all });
                std::thread::sleep(GO_ON);
                Ok(())
            })();
            stop.store(true, Ordering::Relaxed);
            load.join().unwrap_or_else(|_| fail("the load panicked"))?;
            reader.join().unwrap_or_else(|_| fail("the reader panicked"))?;
            result
        })
    }

    fn end(self, times: &Times, began: Instant) -> Outcome<()> {
        for server in self.servers {
            server.stop()?;
        }
        let mut urls = self.databases.urls();
        urls.dedup();
        for url in urls {
            verify_store(&self.binary, &url)?;
        }
        println!("{}: {} rounds in {} s", self.databases.name(), times.0.len(), began.elapsed().as_secs());
        for (loss, words) in [
            (PrimaryLoss::Process, "processes killed"),
            (PrimaryLoss::Machine, "machines gone without a word"),
        ] {
            let of: Vec<Time> = times.0.iter().filter(|time| time.loss == loss).copied().collect();
            if !of.is_empty() {
                println!(
                    "  {} {words}; after that, in s (median, worst): promoted {}; first success {}; on all servers {}",
                    of.len(),
                    spread(&of, |time| time.promoted),
                    spread(&of, |time| time.first),
                    spread(&of, |time| time.all),
                );
            }
        }
        println!(
            "  {} reservations known, {} events read; {}",
            self.fleet.known(),
            self.events.count(),
            self.fleet.counts()
        );
        Ok(())
    }
}

/// How long each server took.
fn until_well(watch: &RecoveryWatch, servers: usize) -> Outcome<Vec<Duration>> {
    let deadline = Instant::now() + RECOVER_TIMEOUT;
    loop {
        let firsts = watch.firsts();
        if firsts.len() == servers {
            return Ok(firsts);
        }
        if Instant::now() > deadline {
            let well = firsts.len();
            return fail(format!("{well} of {servers} servers had a success within {RECOVER_TIMEOUT:?}"));
        }
        std::thread::sleep(POLL);
    }
}

/// Median and worst, in seconds.
fn spread(times: &[Time], of: impl Fn(&Time) -> Duration) -> String {
    let mut times: Vec<Duration> = times.iter().map(of).collect();
    times.sort_unstable();
    let at = |index: usize| times.get(index).copied().unwrap_or_default().as_secs_f64();
    format!("{:.2}, {:.2}", at(times.len() / 2), at(times.len().saturating_sub(1)))
}

/// Broken invariants that a server has counted.
fn alarms(admin: SocketAddr) -> Outcome<f64> {
    metric(admin, ALARMS)?.ok_or_else(|| format!("no {ALARMS} among the metrics").into())
}
