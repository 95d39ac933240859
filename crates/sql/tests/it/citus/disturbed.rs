//! Mixed traffic at two servers while the cluster is disturbed all the time: workers and the coordinator are killed, shards move, hot
//! SKUs get shards of their own. The long form is half an hour and more: `STOCKHOLD_TEST_CITUS_MINUTES` says how long.

use super::Bench;
use super::nodes::{alone, isolating, moving};
use crate::audit::{Shop, adds_up};
use crate::fixture::{Desk, events, reservation, stock};
use crate::support::Session;
use crate::workload::{Stores, books_balance, makers, some_commands};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use stockhold_conformance::{Maker, Random};
use stockhold_domain::{Envelope, Hold, ItemKey, Outcome, ReservationId};
use stockhold_sql::{Options, postgres, verify};
use stockhold_store::{EventRow, Failure, Query, QueryResult, Store};

const VARIABLE: &str = "STOCKHOLD_TEST_CITUS_MINUTES";
const CALLERS: usize = 6;
const ITEMS: usize = 8;
const UNITS: u64 = 40;
/// Disturbances of the short form: each kind once.
const SHORT: usize = 5;
/// Between two disturbances.
const PAUSE: Duration = Duration::from_secs(1);
/// Before a request that failed is sent again.
const AGAIN: Duration = Duration::from_millis(20);
const EVENTS_AT_ONCE: usize = 200;

/// What has been done to the cluster, by kind: workers killed, coordinators killed, shards moved, SKUs isolated, recounts.
type Done = [usize; 5];

#[test]
fn nothing_is_lost_or_oversold_while_nodes_are_killed_and_shards_move() {
    let Some(mut bench) = alone() else { return };
    let options = Options { connections: 4, most_connections: 8, ..Options::default() };
    let stores = [(); 2].map(|()| postgres::open(&bench.url(), options.clone()).expect("the store connects"));
    let each: [&dyn Store; 2] = [&stores[0], &stores[1]];
    let mut makers = makers(CALLERS, 77, "disturbed-");
    let items: Vec<ItemKey> =
        (0..ITEMS).map(|n| stock(each[0], &mut makers[0], &format!("i{n}"), UNITS)).collect();
    let (known, over) = (Mutex::default(), AtomicBool::new(false));
    let (acknowledged, read, done) = thread::scope(|scope| {
        let reader = scope.spawn(|| read_along(&each, &over));
        let callers = makers.iter_mut().enumerate().map(|(n, maker)| {
            let (store, items, known, over) = (each[n % 2], &items, &known, &over);
            scope.spawn(move || call(store, maker, 770 + n as u64, items, known, over))
        });
        let callers: Vec<_> = callers.collect();
        let done = catch_unwind(AssertUnwindSafe(|| disturb(&bench, &items)));
        over.store(true, Ordering::SeqCst);
        let told = callers.into_iter().flat_map(|caller| caller.join().unwrap());
        (told.collect::<Vec<Hold>>(), reader.join().unwrap(), done.unwrap_or_else(|why| resume_unwind(why)))
    });
    drop(stores);
    bench.session = Session::open(&bench.url());
    // A store that sweeps nothing, so that nothing moves any more.
    let store = postgres::open(&bench.url(), Options { sweep_every: None, ..options }).unwrap();
    let rows = events(&store);
    assert!(read[..] == rows[..read.len()], "what was read while it grew is what the feed has");
    books_balance(&store, &rows, &acknowledged);
    drop(store);
    bench.audit();
    let verdict = adds_up(&bench);
    assert!(done.iter().all(|times| *times > 0), "{done:?}");
    println!(
        "{done:?}: workers killed, coordinators killed, shards moved, SKUs isolated, recounts; {} reservations acknowledged, {} events",
        acknowledged.len(),
        verdict.events
    );
}

/// Commands until it is over, each repeated under its key until it is answered. The reservations that it was told of.
fn call(
    store: &dyn Store,
    maker: &mut Maker,
    seed: u64,
    items: &[ItemKey],
    known: &Mutex<Vec<ReservationId>>,
    over: &AtomicBool,
) -> Vec<Hold> {
    let mut random = Random::new(seed);
    let mut told = Vec::new();
    for round in 0.. {
        if over.load(Ordering::SeqCst) {
            break;
        }
        let commands = some_commands(maker, &mut random, &format!("{seed}-{round}"), items, known);
        for outcome in insist(store, maker, commands) {
            if let Some(hold) = reservation(&Ok(outcome)) {
                known.lock().unwrap().push(hold.id);
                told.push(hold.clone());
            }
        }
    }
    told
}

fn insist(store: &dyn Store, maker: &mut Maker, mut commands: Vec<Envelope>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    loop {
        let answers = Desk::new().send(store, commands.clone()).outcomes();
        let mut again = Vec::new();
        for (command, answer) in commands.iter().zip(answers) {
            match answer {
                Ok(outcome) => outcomes.push(outcome),
                Err(Failure::Internal(why)) => panic!("{why}: {command:?}"),
                Err(Failure::Unavailable(_) | Failure::OutcomeUnknown | Failure::Overloaded) => {
                    again.push(maker.again(command));
                }
            }
        }
        if again.is_empty() {
            return outcomes;
        }
        commands = again;
        thread::sleep(AGAIN);
    }
}

/// Reads events as they come, at one store after the other, until it is over. A page that fails is asked for again.
fn read_along(stores: Stores<'_>, over: &AtomicBool) -> Vec<EventRow> {
    let mut seen: Vec<EventRow> = Vec::new();
    for store in stores.iter().copied().cycle() {
        if over.load(Ordering::SeqCst) {
            break;
        }
        let after = seen.last().map_or(0, |row| row.position);
        match Desk::new().find(store, Query::Events { after, limit: EVENTS_AT_ONCE }) {
            Ok(QueryResult::Events(rows)) => seen.extend(rows),
            Ok(other) => panic!("answered with {other:?}"),
            Err(Failure::Internal(why)) => panic!("{why}"),
            Err(_) => thread::sleep(AGAIN),
        }
    }
    seen
}

/// One disturbance after the other, of all kinds in turn, until each was there once and the time is over.
fn disturb(bench: &Bench, items: &[ItemKey]) -> Done {
    let until = std::env::var(VARIABLE).ok().map(|minutes| {
        let minutes: u64 = minutes.parse().unwrap_or_else(|_| panic!("{VARIABLE} is a number of minutes"));
        Instant::now() + Duration::from_secs(60 * minutes)
    });
    let mut random = Random::new(7);
    let mut done = Done::default();
    for turn in 0.. {
        let enough = until.map_or(turn >= SHORT, |until| Instant::now() > until);
        if enough && done.iter().all(|times| *times > 0) {
            break;
        }
        thread::sleep(PAUSE);
        let kind = turn % done.len();
        let succeeded = match kind {
            0 | 1 => {
                let worker = usize::try_from(random.below(2)).unwrap();
                let node = if kind == 0 { bench.cluster.worker(worker) } else { bench.cluster.coordinator() };
                node.stop();
                node.run();
                true
            }
            2 => shard_moves(bench, &mut random),
            3 => {
                // The first time it is split off; later it is alone already, and the statement is refused.
                let item = &items[turn / done.len() % items.len()];
                tidied(bench).try_run(&isolating(item)).is_ok()
            }
            _ => recounted(bench),
        };
        done[kind] += usize::from(succeeded);
    }
    done
}

/// A session in which nothing is left of moves that were interrupted.
fn tidied(bench: &Bench) -> Session {
    let mut session = Session::open(&bench.url());
    // Refused while one goes on.
    let _ = session.try_run("CALL citus_cleanup_orphaned_resources()");
    session
}

fn shard_moves(bench: &Bench, random: &mut Random) -> bool {
    let mut session = tidied(bench);
    let shards = session
        .texts("SELECT DISTINCT shardid FROM citus_shards WHERE table_name = 'stockhold.items'::regclass");
    let shard = &shards[usize::try_from(random.below(shards.len() as u64)).unwrap()];
    let statement = moving(&mut session, shard);
    session.try_run(&statement).is_ok()
}

/// A recount beside the callers: it may fail to read, as a worker comes back, and what it has read adds up.
fn recounted(bench: &Bench) -> bool {
    match verify(&bench.url(), &Options::default(), |_| ()) {
        Ok(verdict) => {
            assert_eq!((verdict.drift, &verdict.findings), (0, &Vec::new()));
            true
        }
        Err(_) => false,
    }
}
