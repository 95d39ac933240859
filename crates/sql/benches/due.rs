//! How soon a crowd of holds that fall due at once comes back, and how long others wait for the same items meanwhile, over a
//! PostgreSQL and a MariaDB of the benchmark's own.
//!
//! `cargo bench -p stockhold-sql --bench due` prints both, for a crowd on a hundred items and for one on a single item.

#[path = "../tests/support/mysql.rs"]
#[expect(dead_code, reason = "tests use the rest of it")]
mod mariadb;
#[path = "../tests/support/mod.rs"]
#[expect(dead_code, reason = "tests use the rest of it")]
mod postgres;

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod callers;

use callers::{Answers, submit};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Command, Envelope, ItemKey};
use stockhold_sql::{Options, open};
use stockhold_store::Store;

/// Holds that fall due at once.
const CROWD: usize = 100_000;
/// Callers that go on reserving, each of which waits for its answer.
const CALLERS: u64 = 16;
/// How long the crowd's holds last, in seconds; the clock is moved ahead by as much.
const TTL: u64 = 600;
/// How long others' do: past that.
const LONG_TTL: u64 = 1_800;

fn all(store: &dyn Store, envelopes: Vec<Envelope>) {
    let (answers, count) = (Arc::new(Answers::default()), envelopes.len());
    for envelope in envelopes {
        submit(store, &answers, 0, envelope);
    }
    store.flush();
    let mut answered = 0;
    while answered < count {
        answered += answers.take().len();
    }
}

/// Reserves until told to stop: how long each answer took.
fn reserve(store: &dyn Store, maker: &mut Maker, items: &[ItemKey], stop: &AtomicBool) -> Vec<Duration> {
    let answers = Arc::new(Answers::default());
    let (mut asked, mut waiting, mut took) = (0, BTreeMap::new(), Vec::new());
    let mut ask = |count: usize, waiting: &mut BTreeMap<u64, Instant>| {
        for _ in 0..count {
            asked += 1;
            let item = &items[usize::try_from(asked).unwrap() % items.len()];
            let envelope = maker.keyed(&asked.to_string(), maker::reserve_for(LONG_TTL, &[(item, 1)]));
            waiting.insert(asked, Instant::now());
            submit(store, &answers, asked, envelope);
        }
        store.flush();
    };
    ask(usize::try_from(CALLERS).unwrap(), &mut waiting);
    while !waiting.is_empty() {
        let done = answers.take();
        took.extend(done.iter().filter_map(|ticket| waiting.remove(ticket)).map(|since| since.elapsed()));
        if !stop.load(Ordering::SeqCst) {
            ask(done.len(), &mut waiting);
        }
    }
    took
}

/// One crowd. `fall_due` moves the clock, `wait` waits until nothing is overdue.
fn crowd(store: &dyn Store, (name, spread): (&str, usize), fall_due: impl FnOnce(), wait: impl FnOnce()) {
    let mut maker = Maker::new(spread as u64, &format!("crowd{spread}-"));
    let items: Vec<ItemKey> = (0..spread).map(|n| maker.item(&n.to_string())).collect();
    let stock = |item| Command::SetStock(maker::stock_of(item, 1_000_000_000));
    let stocked = items.iter().map(|item| maker.wrap(stock(item))).collect();
    all(store, stocked);
    for some in 0..CROWD / 1_000 {
        let reserve = |n: usize| maker::reserve_for(TTL, &[(&items[(some * 1_000 + n) % spread], 1)]);
        let envelopes = (0..1_000).map(|n| maker.wrap(reserve(n))).collect();
        all(store, envelopes);
    }
    let stop = AtomicBool::new(false);
    let mut took = std::thread::scope(|scope| {
        let reserving = scope.spawn(|| reserve(store, &mut maker, &items, &stop));
        fall_due();
        let begun = Instant::now();
        wait();
        let reclaimed = begun.elapsed().as_secs_f64();
        stop.store(true, Ordering::SeqCst);
        println!("{name}: {CROWD} holds on {spread} items, due at once: all came back in {reclaimed:.1} s");
        reserving.join().unwrap()
    });
    took.sort_unstable();
    let millis =
        |share: usize| took[(took.len() * share / 1_000).min(took.len() - 1)].as_secs_f64() * 1_000.0;
    println!(
        "    {} reserves of the same items meanwhile, {CALLERS} callers: p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
        took.len(),
        millis(500),
        millis(990),
        millis(1_000)
    );
}

fn main() {
    for spread in [100, 1] {
        let server = Arc::new(postgres::Server::start());
        let database = server.database();
        let mut session = postgres::Session::open(&database.url);
        session.run("CREATE TABLE public.ahead AS SELECT 0::bigint AS micros");
        let clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + (SELECT micros FROM public.ahead)";
        let options = Options { clock: Some(clock.to_owned()), ..Options::default() };
        let store = open(&database.url, options).unwrap();
        let mut moves = postgres::Session::open(&database.url);
        crowd(
            &*store,
            ("PostgreSQL", spread),
            || moves.run(&format!("UPDATE public.ahead SET micros = {TTL}000000")),
            || {
                session.wait_for(&format!(
                    "SELECT NOT EXISTS (SELECT FROM stockhold.active_lines WHERE leads AND expires_at <= ({clock}))"
                ));
            },
        );
    }
    for spread in [100, 1] {
        let server = Arc::new(mariadb::Server::start(&["--innodb-buffer-pool-size=512M"]));
        let database = server.database();
        let mut session = database.session();
        session.run("CREATE TABLE ahead AS SELECT CAST(0 AS SIGNED) AS micros");
        let clock =
            "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) + (SELECT micros FROM ahead)";
        let options = Options { clock: Some(clock.to_owned()), ..Options::default() };
        let store = open(&database.url(), options).unwrap();
        let mut moves = database.session();
        crowd(
            &*store,
            ("MariaDB", spread),
            || moves.run(&format!("UPDATE ahead SET micros = {TTL}000000")),
            || {
                session.wait_for(&format!(
                    "SELECT NOT EXISTS (SELECT 1 FROM stockhold_active_lines WHERE due <= ({clock}))"
                ));
            },
        );
    }
}
