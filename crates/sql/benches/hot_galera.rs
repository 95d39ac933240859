//! How fast items are reserved over a Galera cluster of the benchmark's own, by two servers at one node and by two servers at two nodes:
//! one hot item, and items of which each is sold at one node only. All nodes and servers share the machine.
//!
//! `cargo bench -p stockhold-sql --bench hot_galera` prints reservations a second, and the ratio to two servers at one node: median and
//! worst of the rounds.

#[path = "../tests/support/galera.rs"]
#[expect(dead_code, reason = "tests use the rest of it")]
mod galera;
#[path = "../tests/support/mysql.rs"]
#[expect(dead_code, reason = "tests use the rest of it")]
mod mariadb;
#[path = "../tests/support/ports.rs"]
mod ports;
/// As the tests name them.
mod mysql {
    pub(crate) use super::mariadb as support;
}
mod support {
    pub(crate) use super::ports;
}

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod callers;

use callers::{done, reserve};
use galera::Cluster;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Command, ItemKey};
use stockhold_sql::{Options, open};
use stockhold_store::Store;

/// Callers that wait at once at each server.
const CALLERS: usize = 32;
/// How long one round is measured.
const ROUND: Duration = Duration::from_secs(3);
/// Rounds of each, in turns.
const ROUNDS: usize = 3;
/// Items that each server sells, where they do not sell the same.
const ITEMS: usize = 100;

fn stock(store: &dyn Store, maker: &mut Maker, name: &str) -> ItemKey {
    let item = maker.item(name);
    done(store, maker.wrap(Command::SetStock(maker::stock_of(&item, 1_000_000_000))));
    item
}

/// What two servers reserve at the same time.
fn together(
    stores: [&Arc<dyn Store>; 2],
    items: [&[ItemKey]; 2],
    makers: &mut [Maker; 2],
    round: u64,
) -> f64 {
    thread::scope(|scope| {
        let running: Vec<_> = stores
            .into_iter()
            .zip(items)
            .zip(makers)
            .enumerate()
            .map(|(number, ((store, items), maker))| {
                let mut keys = (round * 2 + number as u64) << 32;
                scope.spawn(move || reserve(&**store, maker, items, CALLERS, ROUND, &mut keys))
            })
            .collect();
        running.into_iter().map(|running| running.join().unwrap()).sum()
    })
}

fn median(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0])
}

fn main() {
    let cluster = Cluster::alone();
    let database = cluster.database();
    let at = |node: usize| open(&cluster.node(node).url("stockhold", &database), Options::default()).unwrap();
    let (first, second, other) = (at(0), at(0), at(1));
    let mut makers = [Maker::new(1, "bench-"), Maker::new(2, "bench-")];
    let hot = [stock(&*first, &mut makers[0], "hot")];
    let mut items = |name: &str| -> Vec<ItemKey> {
        (0..ITEMS).map(|n| stock(&*first, &mut makers[0], &format!("{name}{n}"))).collect()
    };
    let (of_one, of_other) = (items("one"), items("other"));
    let cases: [(&str, [&[ItemKey]; 2]); 2] =
        [("one hot item", [&hot, &hot]), ("items of which each is sold by one server", [&of_one, &of_other])];
    println!("2 servers, {CALLERS} callers at each, idempotency key and deadline on every reserve, fsync on");
    let mut round = 0;
    for (name, items) in cases {
        let (mut rates, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
        for _ in 0..ROUNDS {
            let mut measure = |stores| {
                round += 1;
                together(stores, items, &mut makers, round)
            };
            let pair = [measure([&first, &second]), measure([&first, &other])];
            ratios.push(pair[1] / pair[0]);
            pair.into_iter().zip(&mut rates).for_each(|(rate, rates)| rates.push(rate));
        }
        for (rates, nodes) in rates.into_iter().zip(["one node", "two nodes"]) {
            let (rate, worst) = median(rates);
            println!("{name:<42} {nodes:<10} {rate:>9.0} /s   worst {worst:>9.0}");
        }
        let (ratio, worst) = median(ratios);
        println!("{name:<42} two nodes ÷ one node {ratio:.2}   worst {worst:.2}");
    }
}
