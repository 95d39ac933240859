//! `cargo xtask databases`: the stores over PostgreSQL and MariaDB (G6 and G7), over HTTP through the binary, beside the best that
//! one transaction per request does on the same server.
//!
//! Every round measures every part once, in turns. The database, the server and the load generator share the machine, for the
//! rivals as for the store: nothing is pinned. A rival's request does what ours does: stock, reservation and key in one durable
//! transaction; it has no HTTP and no JSON to pay for, and no due holds to look for. All rounds grow the same tables.
//!
//! With `--halls` it is items whose units have ids. With `--citus` it is a Citus cluster beside the same PostgreSQL alone.

mod citus;
mod halls;
mod mariadb;
mod postgres;
mod report;
mod store;

pub(crate) use mariadb::MariaDb;
pub(crate) use postgres::Postgres;

use super::base::{Contents, fill};
use super::machine::{describe, provenance};
use crate::database::make_readable;
use crate::load::{Plan, raise_open_files};
use crate::rng::Rng;
use crate::spawn::{Build, scratch, server_binary};
use crate::{Outcome, fail};
use report::{DatabaseResults, Series};
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Store;

/// Connections of the store's callers.
const CONNECTIONS: usize = 64;
/// Connections that rivals are tried with: each is one caller.
const RIVAL_CONNECTIONS: [usize; 3] = [1, 8, 32];
/// SKUs of the cold family.
const FILLED_ITEMS: usize = 100;
/// How long everything runs before it is measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// A lock that is waited for longer than this is a long wait.
const LONG_WAIT_MILLIS: u64 = 5;
/// A statement that claims units is slow where it takes longer.
const SLOW_CLAIM_MILLIS: u64 = 1;

/// How the databases are measured.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// Items whose units have ids: claims of any unit of a hall of 100,000 beside a counter row (on the embedded store beside counted
    /// stock), at a steady rate, and 1,000 buyers of two units
    #[arg(long)]
    halls: bool,
    /// A Citus cluster of a coordinator and two workers beside the same PostgreSQL alone. `STOCKHOLD_TEST_CITUS` names the directory of
    /// the programs of a PostgreSQL that has Citus
    #[arg(long, conflicts_with_all = ["halls", "only"])]
    citus: bool,
    /// Only this one; embedded is for halls
    #[arg(long, value_parser = ["postgresql", "mariadb", "embedded"])]
    only: Option<String>,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// Seconds that each part of a round is measured
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Connections of the store's callers, an even number; halls have 64
    #[arg(long, default_value_t = CONNECTIONS, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(2..=4096))]
    connections: usize,
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
    /// Has the planner know what is in the tables, as it does some time after they were filled.
    fn settle(&self) -> Outcome<()>;
    /// Begins to watch how long locks are waited for, and how long claims take.
    fn watch(&self) -> Outcome<()>;
    /// Ends it.
    fn watched(&self) -> Outcome<Watched>;
}

/// What a database says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Watched {
    /// Locks that were waited for longer than [`LONG_WAIT_MILLIS`], or may have been.
    long_waits: u64,
    /// Statements that claim free units and took longer than [`SLOW_CLAIM_MILLIS`], from its having read them to its answer.
    slow_claims: u64,
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
    let wanted = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    if !options.connections.is_multiple_of(2) {
        return fail("--connections must be even: two servers have half of them each");
    }
    if !options.halls && !wanted("postgresql") && !wanted("mariadb") {
        return fail("the embedded store is measured with --halls here, and by `cargo xtask bench`");
    }
    let binary = server_binary(options.server.as_deref(), Build::Dist)?;
    let folder = scratch(options.disk.as_deref(), "stockhold-databases-")?;
    make_readable(folder.path())?;
    raise_open_files()?;
    println!("{}\n{}", provenance()?, describe(folder.path())?.join("\n"));
    let lab = Lab { binary: &binary, folder: folder.path(), options };
    if options.citus {
        return citus::run(&lab);
    }
    if options.halls && wanted("embedded") {
        lab.embedded()?;
    }
    if wanted("postgresql") {
        lab.over(&postgres::Postgres::start(folder.path())?, &G6)?;
    }
    if wanted("mariadb") {
        lab.over(&mariadb::MariaDb::start(folder.path())?, &G7)?;
    }
    Ok(())
}

/// Where it is measured, and how.
struct Lab<'a> {
    binary: &'a Path,
    folder: &'a Path,
    options: &'a Options,
}

impl Lab<'_> {
    fn over(&self, rivals: &impl Rivals, limits: &Limits) -> Outcome<()> {
        rivals.prepare(self.options.closed)?;
        let store = self.store(rivals.name(), "server", Some(rivals.url()))?;
        let tables = if self.options.halls {
            halls::over(rivals, &store, self.options)?
        } else {
            of(rivals, &store, self.options, limits)?
        };
        let [held, reservations, keys] = rivals.made()?;
        if held != reservations || held != keys || held == 0 {
            return fail(format!(
                "void: the rivals hold {held} units by {reservations} reservations and {keys} keys"
            ));
        }
        finish(&store, &tables)
    }

    fn embedded(&self) -> Outcome<()> {
        let store = self.store("embedded store", "embedded", None)?;
        finish(&store, &halls::embedded(&store, self.options)?)
    }

    /// A store with what is closed beforehand.
    fn store(&self, name: &str, data: &str, url: Option<String>) -> Outcome<Store<'_>> {
        let closed = self.options.closed;
        println!("\n{name}: {closed} closed reservations beforehand");
        let store = Store { binary: self.binary, data: self.folder.join(data), url };
        let server = store.serve(None)?;
        fill(&server, Contents::default(), Contents { items: FILLED_ITEMS, active: 0, keys: 0, closed })?;
        server.stop()?;
        Ok(store)
    }
}

fn finish(store: &Store<'_>, tables: &str) -> Outcome<()> {
    store.verify()?;
    println!("\n{tables}\nevery run was audited, and `stockhold verify` says that it adds up");
    Ok(())
}

fn of(rivals: &impl Rivals, store: &Store<'_>, options: &Options, limits: &Limits) -> Outcome<String> {
    let plan = Plan { warm_up: WARM_UP, measure: Duration::from_secs(options.seconds) };
    let mut taken = DatabaseResults::default();
    for round in 1..=options.rounds {
        let seed = |part: u64| Rng::new((round << 8) | part).next();
        // What comes first finds the database at rest: by turns.
        let two_first = round % 2 == 0;
        if two_first {
            taken.two.push(store.two_servers(options.connections, plan, seed(3))?);
        }
        let run = store.reserves(None, options.connections, plan, seed(1))?;
        let (p50, p99) = (run.micros(50.0) / 1e3, run.micros(99.0) / 1e3);
        taken.together.push(run.rate);
        taken.alone.push(store.reserves(Some(1), options.connections, plan, seed(2))?.rate);
        if !two_first {
            taken.two.push(store.two_servers(options.connections, plan, seed(3))?);
        }
        println!("round {round}: {:.0}/s, p50 {p50:.1} ms, p99 {p99:.1} ms", run.rate);
        tried(rivals, rivals.forms(), options.seconds, &mut taken.forms)?;
        tried(rivals, rivals.procedures(), options.seconds, &mut taken.procedures)?;
    }
    taken.steady = store.steady(plan, Rng::new(options.rounds).next())?;
    report::of(&taken, limits, options.connections)
}

/// Measures every one of these forms with every number of connections once.
fn tried(rivals: &impl Rivals, forms: &[&'static str], seconds: u64, taken: &mut Vec<Series>) -> Outcome<()> {
    let ways = forms.iter().flat_map(|form| RIVAL_CONNECTIONS.map(|connections| (*form, connections)));
    taken.resize_with(forms.len() * RIVAL_CONNECTIONS.len(), Series::default);
    for (series, (form, connections)) in taken.iter_mut().zip(ways) {
        series.name = format!("{form}, {connections} connections");
        series.rates.push(rivals.measure(form, connections, seconds)?);
    }
    Ok(())
}

/// Three figures in one line.
fn three(text: &str) -> Outcome<[u64; 3]> {
    let figures: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    <[u64; 3]>::try_from(figures).map_err(|found| format!("three figures, found {found:?}").into())
}
