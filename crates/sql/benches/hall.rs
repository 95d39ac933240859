//! How fast any units of one hall are claimed over a PostgreSQL of the benchmark's own, by one and by two instances: callers that
//! each wait for their answer, beside one transaction per request that locks the hall's counter row and takes the next unit.
//!
//! `cargo bench -p stockhold-sql --bench hall` prints claims a second: median and worst of the rounds.

#[path = "../tests/support/mod.rs"]
#[expect(dead_code, reason = "tests use the rest of it")]
mod support;

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod callers;

use callers::{done, rate, reserve};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stockhold_conformance::{Maker, maker};
use stockhold_domain::ItemKey;
use stockhold_sql::{Options, open};
use stockhold_store::Store;
use support::Server;

/// Callers of one instance that wait at once.
const CALLERS: usize = 64;
/// How long one round is measured.
const ROUND: Duration = Duration::from_secs(2);
/// Rounds of each, in turns.
const ROUNDS: usize = 3;
/// Units that the hall has.
const UNITS: usize = 100_000;
/// Units of one command.
const AT_ONCE: usize = 10_000;
/// Connections that the rival is tried with.
const RIVAL_CONNECTIONS: [usize; 3] = [1, 8, 32];

fn hall(store: &dyn Store, maker: &mut Maker) -> ItemKey {
    let hall = maker.item("hall");
    done(store, maker.wrap(maker::create_unit_item(&hall)));
    for first in (0..UNITS).step_by(AT_ONCE) {
        let ids: Vec<String> = (first..first + AT_ONCE).map(|n| format!("seat-{n}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        done(store, maker.wrap(maker::add_units(&hall, maker::row("stalls", "A", &ids))));
    }
    hall
}

/// What a program does that has a counter for the hall: lock it, take the next unit, write the reservation and its key.
const RIVAL: &str = "
    WITH counter AS (
        SELECT sku FROM rival.halls WHERE sku = 'hall' AND held < total FOR UPDATE
    ), next AS (
        SELECT id FROM rival.seats WHERE sku = (SELECT sku FROM counter) AND holder IS NULL ORDER BY id LIMIT 1
    ), taken AS (
        UPDATE rival.seats SET holder = $1::uuid WHERE sku = 'hall' AND id = (SELECT id FROM next) RETURNING sku
    ), counted AS (
        UPDATE rival.halls SET held = held + 1 WHERE sku = (SELECT sku FROM taken)
    ), made AS (
        INSERT INTO rival.reservations SELECT $1::uuid, sku, $2::text, now() + interval '1800 s' FROM taken
    )
    INSERT INTO rival.keys SELECT $2::text, $1::uuid FROM taken";

/// The same in statements of their own: the one above does not see what it waited for.
const LOCK: &str = "SELECT held FROM rival.halls WHERE sku = 'hall' FOR UPDATE";

fn rival(url: &str, connections: usize, ids: &mut u128) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..connections {
            let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let statements = (client.prepare(LOCK).await.unwrap(), client.prepare(RIVAL).await.unwrap());
            clients.push((client, statements));
        }
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for (client, (lock, take)) in clients {
            *ids += 1 << 64;
            let first = *ids;
            tasks.spawn(async move {
                let mut done = 0_u64;
                while begun.elapsed() < ROUND {
                    let id = uuid::Uuid::from_u128(first + u128::from(done));
                    // Sent together, answered one after the other.
                    let key = id.to_string();
                    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&id, &key];
                    let (begun, locked, taken, committed) = tokio::join!(
                        biased;
                        client.batch_execute("BEGIN"),
                        client.query_one(&lock, &[]),
                        client.execute(&take, &values),
                        client.batch_execute("COMMIT"),
                    );
                    begun.unwrap();
                    locked.unwrap();
                    assert_eq!(taken.unwrap(), 1);
                    committed.unwrap();
                    done += 1;
                }
                usize::try_from(done).unwrap()
            });
        }
        let done: usize = tasks.join_all().await.into_iter().sum();
        rate(done, begun.elapsed())
    })
}

fn say(what: &str, mut rates: Vec<f64>) {
    rates.sort_by(f64::total_cmp);
    println!("{what:<56} {:>9.0} /s   worst {:>9.0}", rates[rates.len() / 2], rates[0]);
}

fn main() {
    let server = Arc::new(Server::start());
    let database = server.database();
    let mut session = support::Session::open(&database.url);
    session.run(&format!(
        "CREATE SCHEMA rival;
         CREATE TABLE rival.halls (sku text PRIMARY KEY, total bigint, held bigint) WITH (fillfactor = 50);
         INSERT INTO rival.halls VALUES ('hall', {UNITS}, 0);
         CREATE TABLE rival.seats (sku text, id bigint, holder uuid, PRIMARY KEY (sku, id));
         INSERT INTO rival.seats SELECT 'hall', n FROM generate_series(1, {UNITS}) n;
         CREATE INDEX ON rival.seats (sku, id) WHERE holder IS NULL;
         CREATE TABLE rival.reservations (id uuid PRIMARY KEY, sku text, owner text, expires_at timestamptz);
         CREATE TABLE rival.keys (key text PRIMARY KEY, id uuid)"
    ));
    let instances = [(); 2].map(|()| open(&database.url, Options::default()).unwrap());
    let mut makers = [Maker::new(1, "bench-"), Maker::new(2, "bench-")];
    let added = Instant::now();
    let hall = [hall(&*instances[0], &mut makers[0])];
    println!("{UNITS} units added in {:.1} s", added.elapsed().as_secs_f64());
    session.run("VACUUM ANALYZE");
    let (mut one, mut two, mut ids) = (Vec::new(), Vec::new(), 0);
    // Of each instance its own.
    let mut keys = [0, 1 << 63];
    let mut rivals = RIVAL_CONNECTIONS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        one.push(reserve(&*instances[0], &mut makers[0], &hall, CALLERS, ROUND, &mut keys[0]));
        two.push(std::thread::scope(|scope| {
            let claiming = instances.iter().zip(&mut makers).zip(&mut keys).map(|((store, maker), keys)| {
                let hall = &hall;
                scope.spawn(move || reserve(&**store, maker, hall, CALLERS, ROUND, keys))
            });
            let claiming: Vec<_> = claiming.collect();
            claiming.into_iter().map(|claims| claims.join().unwrap()).sum()
        }));
        for (rates, connections) in rivals.iter_mut().zip(RIVAL_CONNECTIONS) {
            rates.push(rival(&database.url, connections, &mut ids));
        }
    }
    println!(
        "any one of {UNITS} units; {CALLERS} callers an instance, key and deadline on every claim, fsync on"
    );
    say("one instance", one);
    say("two instances", two);
    for (rates, connections) in rivals.into_iter().zip(RIVAL_CONNECTIONS) {
        say(&format!("a counter row for each request, {connections} connections"), rates);
    }
    drop(instances);
    let verdict = stockhold_sql::verify(&database.url, &Options::default(), |_| ()).unwrap();
    assert_eq!(verdict.findings, Vec::<String>::new());
    println!("and `verify` says that it adds up");
}
