//! A server that is killed under load and comes back, again and again.

use crate::fixture::{Bench, events, item, reservation, run, stock};
use crate::support::{Server, Session};
use crate::workload::{Stores, books_balance};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Envelope, Hold};
use stockhold_store::{Failure, Store};

const CALLERS: usize = 6;
const EACH: usize = 150;

/// Asks again until there is an answer; whatever came of a failure, the key makes it one effect.
fn insist(store: &dyn Store, maker: &mut Maker, envelope: &Envelope) -> Hold {
    let mut outcome = run(store, envelope.clone());
    loop {
        match outcome {
            Err(Failure::Unavailable(_) | Failure::OutcomeUnknown | Failure::Overloaded) => {
                thread::sleep(Duration::from_millis(10));
                outcome = run(store, maker.again(envelope));
            }
            outcome => return reservation(&outcome).unwrap_or_else(|| panic!("{outcome:?}")).clone(),
        }
    }
}

/// Callers at two stores go on while the server is killed and comes back, three times; everything is there once.
pub(crate) fn nothing_acknowledged_is_lost(stores: Stores<'_>, kill_and_run: impl Fn()) {
    let mut makers: Vec<Maker> = (0..CALLERS as u64).map(|n| Maker::new(300 + n, "crash-")).collect();
    let items = ["a", "b", "c"].map(|name| stock(stores[0], &mut makers[0], name, 100_000));
    let answered = AtomicUsize::new(0);
    let acknowledged: Vec<Hold> = thread::scope(|scope| {
        let callers = makers.iter_mut().enumerate().map(|(n, maker)| {
            let (store, items, answered) = (stores[n % 2], &items, &answered);
            scope.spawn(move || {
                let mut told = Vec::new();
                for turn in 0..EACH {
                    let wants = [(&items[turn % 3], 1), (&items[(turn + 1) % 3], 2)];
                    let reserve = maker.keyed(&format!("{n}-{turn}"), maker::reserve_for(600, &wants));
                    told.push(insist(store, maker, &reserve));
                    answered.fetch_add(1, Ordering::SeqCst);
                }
                told
            })
        });
        let callers: Vec<_> = callers.collect();
        for quarter in 1..4 {
            while answered.load(Ordering::SeqCst) < CALLERS * EACH * quarter / 4 {
                thread::sleep(Duration::from_millis(1));
            }
            kill_and_run();
        }
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    let ids: std::collections::BTreeSet<_> = acknowledged.iter().map(|hold| hold.id).collect();
    assert_eq!(ids.len(), CALLERS * EACH);
    assert_eq!(item(stores[0], &items[0]).unwrap().figures.active, (CALLERS * EACH * 2 / 3) as u64);
    books_balance(stores[1], &events(stores[1]), &acknowledged);
}

#[test]
fn a_server_that_is_killed_under_load_and_comes_back_loses_nothing_that_was_acknowledged() {
    let server = Arc::new(Server::start());
    let bench = Bench::on(&server);
    let stores = [bench.connect(), bench.connect()];
    nothing_acknowledged_is_lost(&[&stores[0], &stores[1]], || {
        server.stop();
        server.run();
    });
    drop(stores);
    Bench { session: Session::open(&bench.database.url), database: bench.database }.audit();
}
