//! `cargo xtask databases`: the stores over PostgreSQL and MariaDB (G6 and G7), over HTTP through the binary, beside the best that
//! one transaction per request does on the same server.
//!
//! Every round measures every part once, in turns. The database, the server and whoever drives it share the machine, for the
//! rivals as for the store: nothing is pinned. A rival's request does what ours does: stock, reservation and key in one durable
//! transaction; it has no HTTP and no JSON to pay for, and no due holds to look for. All rounds grow the same tables.

mod machine;
mod mariadb;
mod postgres;
mod report;

use super::base::{Contents, fill, start};
use super::books::{Books, HOT};
use super::lab::{TTL_SECONDS, run as drive};
use super::machine::{describe, provenance};
use super::promise;
use crate::load::http::Reserves;
use crate::load::{Plan, Run, closed, raise_open_files};
use crate::rng::Rng;
use crate::spawn::{Launch, Server, scratch, server_binary};
use crate::{Outcome, fail};
use report::{Series, Taken};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Connections of the store's callers.
const CONNECTIONS: usize = 64;
/// Connections that rivals are tried with: each is one caller.
const RIVAL_CONNECTIONS: [usize; 3] = [1, 8, 32];
/// The server's setting of how many commands go into one transaction.
const BATCH_VARIABLE: &str = "STOCKHOLD_STORE_BATCH";

/// How the databases are measured.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Only this one: postgresql or mariadb
    #[arg(long, value_parser = ["postgresql", "mariadb"])]
    only: Option<String>,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// Seconds that each part of a round is measured
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Closed reservations beforehand
    #[arg(long, default_value_t = 100_000)]
    closed: u64,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Where the temporary data goes: the disk that is measured
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
}

/// A database server of the benchmark's own, with the rivals' tables beside the store's.
trait Rivals {
    /// Product and version.
    fn name(&self) -> &str;
    /// How the store reaches it.
    fn url(&self) -> String;
    /// Makes the rivals' tables, with so many reservations in them.
    fn prepare(&self, closed: u64) -> Outcome<()>;
    /// Ways to reserve by one transaction, as a program would.
    fn forms(&self) -> &'static [&'static str];
    /// Ways that keep the program in the database, for comparison.
    fn procedures(&self) -> &'static [&'static str];
    /// Transactions per second by one of them.
    fn measure(&self, form: &str, connections: usize, seconds: u64) -> Outcome<f64>;
    /// Units held, reservations and keys that the rivals have made since they were prepared.
    fn made(&self) -> Outcome<[u64; 3]>;
}

/// What must be, and what should.
struct Limits {
    figure: &'static str,
    rival: [f64; 2],
    alone: [f64; 2],
}

const G6: Limits = Limits { figure: "G6", rival: [4.0, 8.0], alone: [4.0, 10.0] };
const G7: Limits = Limits { figure: "G7", rival: [3.0, 6.0], alone: [3.0, 8.0] };

/// Measures.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let binary = server_binary(options.server.as_deref())?;
    let folder = scratch(options.disk.as_deref(), "stockhold-databases-")?;
    machine::let_in(folder.path())?;
    raise_open_files()?;
    println!("{}\n{}", provenance()?, describe(folder.path())?.join("\n"));
    let wanted = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    if wanted("postgresql") {
        let rivals = postgres::Postgres::start(folder.path())?;
        of(&rivals, &binary, folder.path(), options, &G6)?;
    }
    if wanted("mariadb") {
        let rivals = mariadb::MariaDb::start(folder.path())?;
        of(&rivals, &binary, folder.path(), options, &G7)?;
    }
    Ok(())
}

fn of(rivals: &impl Rivals, binary: &Path, folder: &Path, options: &Options, limits: &Limits) -> Outcome<()> {
    println!("\n{}: {} closed reservations beforehand", rivals.name(), options.closed);
    rivals.prepare(options.closed)?;
    let store = Store { binary, folder, url: rivals.url() };
    let server = store.serve(None)?;
    let contents = Contents { items: 100, active: 0, keys: 0, closed: options.closed };
    fill(&server, Contents::default(), contents)?;
    server.stop()?;

    let plan = Plan { warm_up: Duration::from_secs(1), measure: Duration::from_secs(options.seconds) };
    let mut taken = Taken::default();
    for round in 1..=options.rounds {
        let seed = |part: u64| Rng::new((round << 8) | part).next();
        let run = store.reserves(None, plan, seed(1))?;
        let (p50, p99) = (run.micros(50.0) / 1e3, run.micros(99.0) / 1e3);
        taken.together.push(run.rate);
        taken.alone.push(store.reserves(Some(1), plan, seed(2))?.rate);
        taken.two.push(store.two_servers(plan, seed(3))?);
        println!("round {round}: {:.0}/s, p50 {p50:.1} ms, p99 {p99:.1} ms", run.rate);
        for (forms, of) in [(rivals.forms(), &mut taken.forms), (rivals.procedures(), &mut taken.procedures)]
        {
            let ways =
                forms.iter().flat_map(|form| RIVAL_CONNECTIONS.map(|connections| (*form, connections)));
            of.resize_with(forms.len() * RIVAL_CONNECTIONS.len(), Series::default);
            for (series, (form, connections)) in of.iter_mut().zip(ways) {
                series.name = format!("{form}, {connections} connections");
                series.rates.push(rivals.measure(form, connections, options.seconds)?);
            }
        }
    }
    let [held, reservations, keys] = rivals.made()?;
    if held != reservations || held != keys || held == 0 {
        return fail(format!(
            "void: the rivals hold {held} units by {reservations} reservations and {keys} keys"
        ));
    }
    taken.steady = store.steady(plan, Rng::new(options.rounds).next())?;
    store.verify()?;
    println!(
        "\n{}\nevery run was audited, and `stockhold verify` says that it adds up",
        report::of(&taken, limits)?
    );
    Ok(())
}

/// The binary over the database.
struct Store<'a> {
    binary: &'a Path,
    folder: &'a Path,
    url: String,
}

impl Store<'_> {
    fn serve(&self, batch: Option<usize>) -> Outcome<Server> {
        let mut launch = Launch::new(self.binary, &self.folder.join("server"));
        launch.env.push(("STOCKHOLD_STORE".to_owned(), self.url.clone()));
        if let Some(batch) = batch {
            launch.env.push((BATCH_VARIABLE.to_owned(), batch.to_string()));
        }
        start(&launch)
    }

    fn reserves(&self, batch: Option<usize>, plan: Plan, seed: u64) -> Outcome<Run> {
        let server = self.serve(batch)?;
        let mut reserves = Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(seed));
        let made = |_: &Reserves, run: &Run| (run.answered, 0);
        let run = drive(&server, (HOT, 1), CONNECTIONS, plan, &mut reserves, made)?;
        server.stop()?;
        Ok(run)
    }

    /// Reserves of one SKU by half of the connections at each of two servers, together a second.
    fn two_servers(&self, plan: Plan, seed: u64) -> Outcome<f64> {
        let servers = [self.serve(None)?, self.serve(None)?];
        let books = Books::open(servers[0].address, HOT, 1)?;
        let halves = std::thread::scope(|scope| {
            let halves = servers.each_ref().map(|server| {
                let mut reserves =
                    Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(seed ^ u64::from(server.address.port())));
                scope.spawn(move || {
                    closed(server.address, CONNECTIONS / 2, plan, Some(server.process.pid()), &mut reserves)
                })
            });
            halves.map(|half| half.join().unwrap_or_else(|_| fail("the load panicked")))
        });
        let (mut rate, mut answered) = (0.0, 0);
        for half in halves {
            let half = half?;
            rate += half.rate;
            answered += half.answered;
        }
        books.audit(answered, 0)?;
        for server in servers {
            server.stop()?;
        }
        Ok(rate)
    }

    fn steady(&self, plan: Plan, seed: u64) -> Outcome<[(f64, f64); 2]> {
        let server = self.serve(None)?;
        let measured = promise::on(&server, plan, seed)?;
        server.stop()?;
        Ok(measured)
    }

    fn verify(&self) -> Outcome<()> {
        let mut command = Command::new(self.binary);
        let output = command.arg("verify").env("STOCKHOLD_STORE", &self.url).output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        fail(format!("verify: {}\n{}", output.status, String::from_utf8_lossy(&said)))
    }
}
