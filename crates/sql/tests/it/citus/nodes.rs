//! What happens to nodes of a cluster while callers go on: a worker is killed, a shard moves, a hot SKU gets a shard of its own.

use super::Bench;
use crate::audit::Shop;
use crate::crashes::nothing_acknowledged_is_lost;
use crate::fixture::{events, item, reservation, run, stock};
use crate::support::Session;
use crate::support::citus::{Cluster, TRUST_ALL};
use crate::workload::{books_balance, mixed};
use core::cell::Cell;
use std::sync::Arc;
use std::thread;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{ItemKey, bucket_of};
use stockhold_store::Store;

/// A database on a cluster of the test's own.
pub(super) fn alone() -> Option<Bench> {
    Some(Bench::on(&Arc::new(Cluster::start(true, TRUST_ALL)?)))
}

#[test]
fn a_worker_that_is_killed_under_load_loses_nothing_that_was_acknowledged() {
    let Some(mut bench) = alone() else { return };
    let stores = [bench.store(), bench.store()];
    let turn = Cell::new(0);
    nothing_acknowledged_is_lost(&[&*stores[0], &*stores[1]], || {
        let worker = bench.cluster.worker(turn.get() % 2);
        turn.set(turn.get() + 1);
        worker.stop();
        worker.run();
    });
    drop(stores);
    bench.audit();
}

#[test]
fn a_coordinator_that_is_killed_under_load_loses_nothing_that_was_acknowledged() {
    let Some(mut bench) = alone() else { return };
    let stores = [bench.store(), bench.store()];
    nothing_acknowledged_is_lost(&[&*stores[0], &*stores[1]], || {
        bench.cluster.coordinator().stop();
        bench.cluster.coordinator().run();
    });
    drop(stores);
    bench.session = Session::open(&bench.url());
    bench.audit();
}

/// Moves a shard, and those that go with it, to the other worker.
pub(super) fn move_shard(session: &mut Session, shard: &str) {
    let statement = moving(session, shard);
    session.run(&statement);
}

/// The statement that moves a shard, and those that go with it, to the other worker.
pub(super) fn moving(session: &mut Session, shard: &str) -> String {
    let node = |is: &str| {
        format!(
            "SELECT format('%L, %s', n.nodename, n.nodeport) FROM pg_dist_node n JOIN citus_shards s
                ON (n.nodename, n.nodeport) {is} (s.nodename, s.nodeport)
             WHERE n.groupid <> 0 AND s.shardid = {shard}"
        )
    };
    let (from, to) = (session.text(&node("=")), session.text(&node("<>")));
    format!("SELECT citus_move_shard_placement({shard}, {from}, {to}, 'block_writes')")
}

/// The statement that gives the bucket of an item a shard of its own.
pub(super) fn isolating(item: &ItemKey) -> String {
    format!(
        "SELECT isolate_tenant_to_new_shard('stockhold.items', {}, 'CASCADE', shard_transfer_mode => 'block_writes')",
        bucket_of(item)
    )
}

/// A query for the shard of an item.
pub(super) fn shard_of(item: &ItemKey) -> String {
    format!("SELECT get_shard_id_for_distribution_column('stockhold.items', {})", bucket_of(item))
}

#[test]
fn a_hot_sku_that_gets_a_shard_of_its_own_and_moves_under_load_is_sold_once() {
    let Some(mut bench) = alone() else { return };
    let stores = [bench.store(), bench.store()];
    let mut makers: Vec<Maker> = (0..4).map(|n| Maker::new(700 + n, "moved-")).collect();
    let hot = stock(&*stores[0], &mut makers[0], "hot", 150);
    let mut other = Session::open(&bench.url());
    let acknowledged: Vec<_> = thread::scope(|scope| {
        let callers: Vec<_> = makers
            .iter_mut()
            .enumerate()
            .map(|(n, maker)| {
                let (store, hot) = (&stores[n % 2], &hot);
                scope.spawn(move || {
                    let mut told = Vec::new();
                    for _ in 0..100 {
                        let reserve = maker.wrap(maker::reserve_for(600, &[(hot, 1)]));
                        told.extend(reservation(&run(&**store, reserve)).cloned());
                    }
                    told
                })
            })
            .collect();
        other.run(&isolating(&hot));
        let shard = other.text(&shard_of(&hot));
        move_shard(&mut other, &shard);
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    assert_eq!(acknowledged.len(), 150);
    assert_eq!(item(&*stores[0], &hot).unwrap().figures.held, 150);
    books_balance(&*stores[1], &events(&*stores[1]), &acknowledged);
    drop(stores);
    bench.audit();
}

#[test]
fn callers_at_two_servers_go_on_while_every_shard_moves() {
    let Some(mut bench) = alone() else { return };
    let stores = [bench.store(), bench.store()];
    let mut other = Session::open(&bench.url());
    let shards = other
        .texts("SELECT DISTINCT shardid FROM citus_shards WHERE table_name = 'stockhold.items'::regclass");
    thread::scope(|scope| {
        let moves = scope.spawn(move || {
            for shard in shards {
                move_shard(&mut other, &shard);
            }
        });
        let each: [&dyn Store; 2] = [&*stores[0], &*stores[1]];
        mixed(&each, 41, 60);
        moves.join().unwrap();
    });
    drop(stores);
    bench.audit();
}
