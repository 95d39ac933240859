//! Redis as a cluster, and as a primary with a replica that sentinels watch.

use crate::redis_server::RedisServer;
use crate::world::GateWorld;
use std::process::Command as Process;
use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};
use stockhold_conformance::Maker;
use stockhold_conformance::maker::{reserve, stock_of};
use stockhold_domain::{Command, ItemKey, Outcome, Patch, SetStock};
use stockhold_gate::GateOptions;

/// Creates gated items with one unit each, and buys each of them twice: the second time it is sold out.
fn sells_each_once(world: &GateWorld, maker: &mut Maker, names: &[&str]) {
    let items: Vec<ItemKey> = names.iter().map(|name| maker.item(name)).collect();
    for item in &items {
        let set = SetStock { gated: Patch::Set(true), ..stock_of(item, 1) };
        assert!(matches!(world.run(0, maker.wrap(Command::SetStock(set))), Ok(Outcome::Done(_))));
    }
    for item in &items {
        world.wait_for_units(0, item, 1);
    }
    let all: Vec<_> = items.iter().map(|item| (item, 1)).collect();
    assert!(
        matches!(world.run(0, maker.wrap(reserve(&all))), Ok(Outcome::Done(_))),
        "a basket over all nodes"
    );
    for item in &items {
        world.wait_for_units(0, item, 0);
        assert!(matches!(world.run(0, maker.wrap(reserve(&[(item, 1)]))), Ok(Outcome::Refused(_))));
    }
}

/// Three nodes of a cluster, and its address.
fn cluster() -> (Vec<RedisServer>, String) {
    let nodes: Vec<_> = (0..3).map(|_| RedisServer::start_with(&["--cluster-enabled", "yes"])).collect();
    let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let made = Process::new("redis-cli")
        .args(["--cluster", "create"])
        .args(&addresses)
        .args(["--cluster-replicas", "0", "--cluster-yes"])
        .output()
        .expect("redis-cli does not start: scripts/servers installs it");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
    let url = format!("redis+cluster://{}", addresses.join(","));
    (nodes, url)
}

#[test]
fn items_spread_over_a_cluster() {
    let (nodes, url) = cluster();
    let spare = Arc::new(RedisServer::start());
    let world = GateWorld::refusing_at(spare, url, GateOptions::ASK_INTERVAL);
    let mut maker = Maker::new(5, "cluster");
    let names: Vec<String> = (0..12).map(|number| format!("item-{number}")).collect();
    sells_each_once(&world, &mut maker, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let counters: Vec<u64> = nodes.iter().map(|node| node.run(&["DBSIZE"])).collect();
    assert_eq!(counters.iter().sum::<u64>(), 12);
    assert!(counters.iter().all(|counters| *counters > 0), "{counters:?}");
}

#[test]
fn a_lost_node_of_a_cluster_leaves_the_store_to_decide() {
    let (mut nodes, url) = cluster();
    let spare = Arc::new(RedisServer::start());
    let world = GateWorld::refusing_at(spare, url, GateOptions::ASK_INTERVAL);
    let mut maker = Maker::new(6, "lost-node");
    let items: Vec<ItemKey> = (0..12).map(|number| maker.item(&format!("item-{number}"))).collect();
    for item in &items {
        let set = SetStock { gated: Patch::Set(true), ..stock_of(item, 2) };
        assert!(matches!(world.run(0, maker.wrap(Command::SetStock(set))), Ok(Outcome::Done(_))));
        world.wait_for_units(0, item, 2);
    }
    let mut buy = |item| world.run(0, maker.wrap(reserve(&[(item, 1)])));
    assert!(items.iter().all(|item| matches!(buy(item), Ok(Outcome::Done(_)))));
    nodes[0].kill();
    assert!(items.iter().all(|item| matches!(buy(item), Ok(Outcome::Done(_)))), "the second unit of each");
    assert!(items.iter().all(|item| matches!(buy(item), Ok(Outcome::Refused(_)))), "there is no third one");
}

#[test]
fn a_failover_by_sentinels_is_followed() {
    let mut primary = RedisServer::start();
    let replica = RedisServer::start_with(&["--replicaof", &format!("127.0.0.1 {}", primary.port())]);
    let settings = tempfile::tempdir().unwrap();
    let file = settings.path().join("sentinel.conf");
    let watched = format!(
        "sentinel monitor shop 127.0.0.1 {} 1\nsentinel down-after-milliseconds shop 500\n\
         sentinel failover-timeout shop 2000\n",
        primary.port()
    );
    std::fs::write(&file, watched).unwrap();
    let sentinel = RedisServer::start_with(&[file.to_str().unwrap(), "--sentinel"]);
    wait("the sentinel knows the replica", || {
        let known: Vec<Vec<String>> = sentinel.run(&["SENTINEL", "REPLICAS", "shop"]);
        known.len() == 1 && known[0].contains(&"slave".to_owned())
    });
    let url = format!("redis+sentinel://127.0.0.1:{}/shop", sentinel.port());
    let spare = Arc::new(RedisServer::start());
    let world = GateWorld::refusing_at(spare, url, GateOptions::ASK_INTERVAL);
    let mut maker = Maker::new(5, "sentinel");
    sells_each_once(&world, &mut maker, &["before"]);
    primary.kill();
    wait("the replica is the primary", || {
        let role = replica.try_run::<String>(&["INFO", "replication"]);
        role.is_ok_and(|role| role.contains("role:master"))
    });
    world.wait_for(0, "the new primary", |status| {
        status.connected && status.items.iter().all(|item| item.counter.is_some())
    });
    sells_each_once(&world, &mut maker, &["after"]);
}

#[track_caller]
fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Monotonic::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_mins(1), "waiting: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
