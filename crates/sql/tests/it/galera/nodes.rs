//! What happens to nodes while callers at servers on different nodes go on: one is killed, one is cut off from the others.

use super::Bench;
use super::support::Cluster;
use crate::audit::Shop;
use crate::crashes::nothing_acknowledged_is_lost;
use core::cell::Cell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long a node stays cut off at least.
const CUT_OFF_FOR: Duration = Duration::from_secs(2);

#[test]
fn nodes_that_are_killed_under_load_lose_nothing_that_was_acknowledged() {
    let mut bench = Bench::<true>::on(&Arc::new(Cluster::alone()));
    let stores = [bench.store(), bench.store()];
    let turn = Cell::new(0);
    nothing_acknowledged_is_lost(&[&*stores[0], &*stores[1]], || {
        let node = turn.replace(turn.get() + 1);
        bench.cluster.node(node).kill();
        bench.cluster.run(node);
    });
    drop(stores);
    bench.session = bench.session_at(0);
    bench.audit();
}

/// The part without a majority answers nothing.
#[test]
fn a_node_that_is_cut_off_under_load_loses_nothing_and_sells_nothing() {
    let cluster = Arc::new(Cluster::with_links());
    println!("nodes are cut off by {}", cluster.how_cut_off());
    let mut bench = Bench::<true>::on(&cluster);
    let stores = [bench.store(), bench.store()];
    let turn = Cell::new(0);
    nothing_acknowledged_is_lost(&[&*stores[0], &*stores[1]], || {
        let node = turn.replace(turn.get() + 1);
        cluster.cut_off(node, true);
        cluster.wait_until_primary(node, false);
        thread::sleep(CUT_OFF_FOR);
        cluster.cut_off(node, false);
        cluster.wait_until_joined(node);
    });
    drop(stores);
    bench.session = bench.session_at(0);
    bench.audit();
}
