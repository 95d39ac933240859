//! `verify` while servers go on.

use super::Bench;
use super::nodes::{alone, move_shard, shard_of};
use crate::audit::Shop;
use crate::fixture::{run, stock};
use crate::support::Session;
use crate::workload::mixed;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use stockhold_conformance::{Maker, maker};
use stockhold_sql::{AuditError, verify};
use stockhold_store::Store;

/// Recounts beside callers, at least.
const LEAST: usize = 3;

#[test]
fn a_recount_adds_up_while_callers_at_two_servers_go_on() {
    let Some(bench) = Bench::new() else { return };
    let stores = [bench.store(), bench.store()];
    let (url, options) = (bench.url(), bench.options());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let recounts = scope.spawn(|| {
            let mut events = Vec::new();
            while !done.load(Ordering::SeqCst) {
                let verdict = verify(&url, &options, |_| ()).unwrap();
                assert_eq!((verdict.drift, &verdict.findings), (0, &Vec::new()));
                events.push(verdict.events);
            }
            events
        });
        let calls = scope.spawn(|| {
            let each: [&dyn Store; 2] = [&*stores[0], &*stores[1]];
            mixed(&each, 43, 120);
        });
        let calls = calls.join();
        done.store(true, Ordering::SeqCst);
        let events = recounts.join().unwrap();
        calls.unwrap();
        assert!(events.len() >= LEAST && events.is_sorted(), "{events:?}");
    });
}

#[test]
fn a_recount_during_which_a_shard_moves_is_refused() {
    let Some(bench) = alone() else { return };
    let store = bench.store();
    let mut maker = Maker::new(630, "moving-");
    let item = stock(&*store, &mut maker, "a", 100);
    run(&*store, maker.wrap(maker::reserve_for(600, &[(&item, 1)]))).unwrap();
    let (url, mut moved) = (bench.url(), false);
    let move_once = || {
        let mut other = Session::open(&url);
        let shard = other.text(&shard_of(&item));
        move_shard(&mut other, &shard);
    };
    let refused = verify(&url, &bench.options(), |_| {
        if !moved {
            // A thread of its own: the recount runs on the runtime of this one.
            thread::scope(|scope| scope.spawn(move_once).join().unwrap());
            moved = true;
        }
    });
    assert!(matches!(&refused, Err(AuditError::Refused(why)) if why.contains("run it again")), "{refused:?}");
    let verdict = verify(&bench.url(), &bench.options(), |_| ()).unwrap();
    assert_eq!((verdict.drift, &verdict.findings), (0, &Vec::new()));
}
