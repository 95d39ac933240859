//! How fast one hot item is reserved over a PostgreSQL of the benchmark's own: callers that each wait for their answer, by the
//! size that batches may have, beside the best that one transaction per request does on the same server.
//!
//! `cargo bench -p stockhold-sql` prints reservations a second: median and worst of the rounds.

#[path = "../tests/support/mod.rs"]
#[expect(dead_code, reason = "tests use the rest of it")]
mod support;

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod callers;

use callers::{done, rate, reserve};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Command, ItemKey};
use stockhold_sql::{Options, open};
use stockhold_store::Store;
use support::Server;

/// Callers that wait at once.
const CALLERS: usize = 64;
/// How long one round is measured.
const ROUND: Duration = Duration::from_secs(2);
/// Rounds of each, in turns.
const ROUNDS: usize = 3;
/// Connections that the rival is tried with.
const RIVAL_CONNECTIONS: [usize; 3] = [1, 8, 32];

fn stock(store: &dyn Store, maker: &mut Maker, name: &str) -> ItemKey {
    let item = maker.item(name);
    done(store, maker.wrap(Command::SetStock(maker::stock_of(&item, 1_000_000_000))));
    item
}

/// One transaction per request: a conditional update, the reservation and its key in one prepared statement.
const RIVAL: &str = "
    WITH taken AS (
        UPDATE rival.stock SET held = held + 1 WHERE sku = 'hot' AND held < total RETURNING sku
    ), made AS (
        INSERT INTO rival.reservations SELECT $1::uuid, sku, $2::text, now() + interval '600 s' FROM taken
    )
    INSERT INTO rival.keys SELECT $2::text, $1::uuid FROM taken";

fn rival(url: &str, connections: usize, ids: &mut u128) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..connections {
            let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let statement = client.prepare(RIVAL).await.unwrap();
            clients.push((client, statement));
        }
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for (client, statement) in clients {
            *ids += 1 << 64;
            let first = *ids;
            tasks.spawn(async move {
                let mut done = 0;
                while begun.elapsed() < ROUND {
                    let id = uuid::Uuid::from_u128(first + done);
                    assert_eq!(client.execute(&statement, &[&id, &id.to_string()]).await.unwrap(), 1);
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
    println!("{what:<48} {:>9.0} /s   worst {:>9.0}", rates[rates.len() / 2], rates[0]);
}

fn main() {
    let server = Arc::new(Server::start());
    let database = server.database();
    let mut session = support::Session::open(&database.url);
    session.run(
        "CREATE SCHEMA rival;
         CREATE TABLE rival.stock (sku text PRIMARY KEY, total bigint, held bigint) WITH (fillfactor = 50);
         INSERT INTO rival.stock VALUES ('hot', 1000000000, 0);
         CREATE TABLE rival.reservations (id uuid PRIMARY KEY, sku text, owner text, expires_at timestamptz);
         CREATE TABLE rival.keys (key text PRIMARY KEY, id uuid)",
    );
    let mut maker = Maker::new(1, "bench-");
    let options = |batch| Options { batch, ..Options::default() };
    let (combining, alone) =
        (open(&database.url, options(256)).unwrap(), open(&database.url, options(1)).unwrap());
    let hot = [stock(&*combining, &mut maker, "hot")];
    let cold: Vec<ItemKey> =
        (0..10_000).map(|n| stock(&*combining, &mut maker, &format!("cold{n}"))).collect();
    let (mut keys, mut ids) = (0, 0);
    let (mut together, mut one_by_one, mut spread) = (Vec::new(), Vec::new(), Vec::new());
    let mut rivals = RIVAL_CONNECTIONS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        together.push(reserve(&*combining, &mut maker, &hot, CALLERS, ROUND, &mut keys));
        one_by_one.push(reserve(&*alone, &mut maker, &hot, CALLERS, ROUND, &mut keys));
        spread.push(reserve(&*combining, &mut maker, &cold, CALLERS, ROUND, &mut keys));
        for (rates, connections) in rivals.iter_mut().zip(RIVAL_CONNECTIONS) {
            rates.push(rival(&database.url, connections, &mut ids));
        }
    }
    println!(
        "{CALLERS} callers, idempotency key and deadline on every reserve, fsync on, server on the same machine"
    );
    say("one hot item, batches of up to 256", together);
    say("one hot item, batches of 1", one_by_one);
    say("10,000 items evenly, batches of up to 256", spread);
    for (rates, connections) in rivals.into_iter().zip(RIVAL_CONNECTIONS) {
        say(&format!("one transaction per request, {connections} connections"), rates);
    }
}
