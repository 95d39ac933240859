//! `cargo xtask databases --citus`: the store over a Citus cluster (a coordinator and two workers) beside the same PostgreSQL alone.
//!
//! All of it shares the processors of one machine, so the ratios say what the cluster costs, and not what more machines give.

use super::super::counter_audit::{COLD, HOT};
use super::super::lab::{TTL_SECONDS, run as drive};
use super::halls::locks::LockWaits;
use super::postgres::Postgres;
use super::report::middle;
use super::store::Store;
use super::{FILLED_ITEMS, Lab, WARM_UP, finish};
use crate::load::http::{Baskets, Reserves};
use crate::load::{Plan, Run};
use crate::rng::Rng;
use crate::{Outcome, fail};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names the directory of the programs of a PostgreSQL that has Citus.
const VARIABLE: &str = "STOCKHOLD_TEST_CITUS";
const WORKERS: usize = 2;
/// Shards of the cluster: four for each worker.
const SHARDS: &str = "8";
/// SKUs that are reserved evenly.
const SKUS: usize = 8;
const NODE_SETTINGS: [&str; 5] = [
    "shared_preload_libraries=citus",
    "max_prepared_transactions=300",
    "max_connections=300",
    "citus.node_conninfo=sslmode=disable",
    "citus.enable_statistics_collection=off",
];

/// The worker of each SKU.
const PLACES: &str = "
    WITH placed AS MATERIALIZED (SELECT sku, bucket FROM stockhold.items WHERE sku LIKE 'hue-%')
    SELECT sku || ' ' || nodeport FROM placed JOIN (SELECT DISTINCT shardid, nodeport FROM citus_shards) AS shards
      ON shardid = get_shard_id_for_distribution_column('stockhold.items', bucket) ORDER BY sku";

/// A database under measurement, and the nodes that it consists of.
struct Contender<'a> {
    store: Store<'a>,
    nodes: Vec<Postgres>,
}

/// What reserves of some SKUs came to.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    reserves: f64,
    batches: f64,
    /// Seconds of the processors that the nodes have had for a batch, and for a reserve.
    batch_cost: f64,
    reserve_cost: f64,
}

/// One figure of both contenders in each round.
#[derive(Default)]
struct Pairs(Vec<[f64; 2]>);

impl Pairs {
    fn row(&self, text: &mut String, what: &str, scale: f64, must: &str) -> Outcome<()> {
        let column = |of: usize| middle(&self.0.iter().map(|pair| pair[of]).collect::<Vec<_>>()).0 * scale;
        let mut ratios: Vec<f64> = self.0.iter().map(|[one, other]| other / one).collect();
        ratios.sort_by(f64::total_cmp);
        let (lowest, highest) = (ratios.first().copied(), ratios.last().copied());
        writeln!(
            text,
            "| {what} | {:.1} | {:.1} | {:.2} × | {:.2}–{:.2} | {must} |",
            column(0),
            column(1),
            middle(&ratios).0,
            lowest.unwrap_or(f64::NAN),
            highest.unwrap_or(f64::NAN),
        )?;
        Ok(())
    }
}

/// Measures.
pub(super) fn run(lab: &Lab<'_>) -> Outcome<()> {
    let Some(binaries) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
        return fail(format!(
            "{VARIABLE} has to name the directory of programs of a PostgreSQL that has Citus"
        ));
    };
    let alone = Postgres::start_as(&lab.folder.join("alone"), &binaries, &[])?;
    let cluster = cluster(lab.folder, &binaries)?;
    distribute(lab.binary, &cluster[0].client_url())?;
    let alone = Contender {
        store: lab.store("PostgreSQL", "server-alone", Some(alone.client_url()))?,
        nodes: vec![alone],
    };
    let cluster = Contender {
        store: lab.store("Citus", "server-cluster", Some(cluster[0].client_url()))?,
        nodes: cluster,
    };
    for node in alone.nodes.iter().chain(&cluster.nodes) {
        node.run("ANALYZE")?;
    }
    let plan = Plan { warm_up: WARM_UP, measure: Duration::from_secs(lab.options.seconds) };
    let tables = rounds(lab, plan, &alone, &cluster)?;
    alone.store.verify()?;
    finish(&cluster.store, &tables)
}

/// A coordinator and its workers.
fn cluster(folder: &Path, binaries: &Path) -> Outcome<Vec<Postgres>> {
    let mut nodes = Vec::new();
    for number in 0..=WORKERS {
        let node = Postgres::start_as(&folder.join(format!("node-{number}")), binaries, &NODE_SETTINGS)?;
        node.run("CREATE EXTENSION citus")?;
        nodes.push(node);
    }
    let coordinator = &nodes[0];
    coordinator.run(&format!("SELECT citus_set_coordinator_host('127.0.0.1', {})", coordinator.port()))?;
    for worker in &nodes[1..] {
        coordinator.run(&format!("SELECT citus_add_node('127.0.0.1', {})", worker.port()))?;
    }
    Ok(nodes)
}

fn distribute(binary: &Path, url: &str) -> Outcome<()> {
    let mut migrate = std::process::Command::new(binary);
    migrate.args(["migrate", "--distribute", "--shards", SHARDS]).env("STOCKHOLD_STORE", url);
    crate::database::done(&mut migrate).map(drop)
}

fn rounds(lab: &Lab<'_>, plan: Plan, alone: &Contender<'_>, cluster: &Contender<'_>) -> Outcome<String> {
    let baskets = basket_skus(&cluster.nodes[0])?;
    let connections = lab.options.connections;
    let (mut hot, mut even): (Vec<[Sample; 2]>, Vec<[Sample; 2]>) = (Vec::new(), Vec::new());
    let mut apart = Pairs::default();
    for round in 1..=lab.options.rounds {
        let seed = |part: u64| Rng::new((round << 8) | part).next();
        let both = |family: (&'static str, usize), part: u64| -> Outcome<[Sample; 2]> {
            let alone = || alone.reserves(family, connections, plan, seed(part));
            let cluster = || cluster.reserves(family, connections, plan, seed(part));
            // What comes first finds the machine at rest: by turns.
            if round % 2 == 0 {
                let cluster = cluster()?;
                return Ok([alone()?, cluster]);
            }
            Ok([alone()?, cluster()?])
        };
        hot.push(both((HOT, 1), 1)?);
        even.push(both((COLD, SKUS), 2)?);
        let basket = |skus: &[String; 2], part| cluster.basket(skus, plan, seed(part));
        apart.0.push([basket(&baskets[0], 3)?, basket(&baskets[1], 4)?]);
        for (what, pair) in [("one hot SKU", hot.last()), ("8 SKUs", even.last())] {
            let Some([alone, cluster]) = pair else { continue };
            println!(
                "round {round}: {what}: {:.0} reserves/s on PostgreSQL, {:.0} on Citus",
                alone.reserves, cluster.reserves
            );
        }
    }
    report(&hot, &even, &apart, connections)
}

fn report(hot: &[[Sample; 2]], even: &[[Sample; 2]], apart: &Pairs, connections: usize) -> Outcome<String> {
    let pairs = |of: &[[Sample; 2]], figure: fn(&Sample) -> f64| {
        Pairs(of.iter().map(|pair| [figure(&pair[0]), figure(&pair[1])]).collect())
    };
    let mut text = format!(
        "{connections} connections, a key on every reserve, medians\n\n\
         | | PostgreSQL | Citus | Citus ÷ PostgreSQL | range | must |\n|---|---:|---:|---:|---:|---:|\n"
    );
    for (what, of, musts) in
        [("one hot SKU", hot, ["", "", "", ""]), ("8 SKUs", even, ["≥ 0.8", "≥ 1.0", "≤ 1.4", ""])]
    {
        let [reserves, batches, batch_cost, reserve_cost] = musts;
        pairs(of, |sample| sample.reserves).row(&mut text, &format!("{what}: reserves/s"), 1.0, reserves)?;
        pairs(of, |sample| sample.batches).row(&mut text, &format!("{what}: batches/s"), 1.0, batches)?;
        let figure = format!("{what}: processor time of the databases, ms a batch");
        pairs(of, |sample| sample.batch_cost).row(&mut text, &figure, 1e3, batch_cost)?;
        let figure = format!("{what}: the same, µs a reserve");
        pairs(of, |sample| sample.reserve_cost).row(&mut text, &figure, 1e6, reserve_cost)?;
    }
    text.push_str(
        "\n| | one worker | two workers | two ÷ one | range | must |\n|---|---:|---:|---:|---:|---:|\n",
    );
    apart.row(&mut text, "a basket of two SKUs, one connection, ms", 1.0, "≤ 2")?;
    Ok(text)
}

/// Two SKUs of one worker, and two of two.
fn basket_skus(coordinator: &Postgres) -> Outcome<[[String; 2]; 2]> {
    let said = coordinator.run(PLACES)?;
    let places: Vec<(&str, &str)> = said.lines().filter_map(|line| line.split_once(' ')).collect();
    let Some((first, at)) = places.first() else { return fail("there are no SKUs at the workers") };
    let other = |same: bool| {
        let found = places.iter().skip(1).find(|(_, place)| (place == at) == same);
        found.map(|(sku, _)| [(*first).to_owned(), (*sku).to_owned()])
    };
    match (other(true), other(false)) {
        (Some(near), Some(far)) => Ok([near, far]),
        _ => fail("the SKUs are not spread over two workers"),
    }
}

impl Contender<'_> {
    fn processor_time(&self) -> Outcome<f64> {
        self.nodes.iter().map(|node| Ok(node.processor_time()?.as_secs_f64())).sum()
    }

    fn reserves(
        &self,
        (family, skus): (&'static str, usize),
        connections: usize,
        plan: Plan,
        seed: u64,
    ) -> Outcome<Sample> {
        let server = self.store.serve(None)?;
        let before = (Instant::now(), self.processor_time()?);
        let mut reserves = Reserves::new(family, skus, TTL_SECONDS, Rng::new(seed));
        let made = |_: &Reserves, run: &Run| (run.answered, 0);
        let run = drive(&server, (family, skus), connections, plan, &mut reserves, made)?;
        let seconds = before.0.elapsed().as_secs_f64();
        // The server is new: it has done nothing before.
        let batches = LockWaits::read(server.admin)?.all as f64;
        let processor = self.processor_time()? - before.1;
        server.stop()?;
        Ok(Sample {
            reserves: run.rate,
            batches: batches / seconds,
            batch_cost: processor / batches,
            reserve_cost: processor / run.answered as f64,
        })
    }

    /// Milliseconds that a basket takes.
    fn basket(&self, skus: &[String; 2], plan: Plan, seed: u64) -> Outcome<f64> {
        let server = self.store.serve(None)?;
        let mut baskets = Baskets::of(skus, TTL_SECONDS, Rng::new(seed));
        let made = |_: &Baskets, run: &Run| (2 * run.answered, 0);
        let run = drive(&server, (COLD, FILLED_ITEMS), 1, plan, &mut baskets, made)?;
        server.stop()?;
        Ok(run.micros(50.0) / 1e3)
    }
}
