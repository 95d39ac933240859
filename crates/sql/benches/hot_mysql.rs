//! How fast one hot item is reserved over a MariaDB of the benchmark's own: callers that each wait for their answer, by the
//! size that batches may have, beside the best that one transaction per request does on the same server.
//!
//! `cargo bench -p stockhold-sql --bench hot_mysql` prints reservations a second: median and worst of the rounds.

#[path = "../tests/support/mysql.rs"]
#[expect(dead_code, reason = "tests use the rest of it")]
mod support;

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod callers;

use callers::{done, rate, reserve};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
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

/// One transaction per request: a conditional update, the reservation and its key, prepared, in one transaction.
async fn rival_reserve(conn: &mut Conn, id: &[u8]) {
    conn.query_drop("START TRANSACTION").await.unwrap();
    conn.exec_drop("UPDATE rival_stock SET held = held + 1 WHERE sku = 'hot' AND held < total", ())
        .await
        .unwrap();
    assert_eq!(conn.affected_rows(), 1);
    conn.exec_drop(
        "INSERT INTO rival_reservations VALUES (?, 'hot', ?, SYSDATE(6) + INTERVAL 600 SECOND)",
        (id, id),
    )
    .await
    .unwrap();
    conn.exec_drop("INSERT INTO rival_keys VALUES (?, ?)", (id, id)).await.unwrap();
    conn.query_drop("COMMIT").await.unwrap();
}

fn rival(url: &str, connections: usize, ids: &mut u128) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut conns = Vec::new();
        for _ in 0..connections {
            conns.push(Conn::from_url(url).await.unwrap());
        }
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for mut conn in conns {
            *ids += 1 << 64;
            let first = *ids;
            tasks.spawn(async move {
                let mut done = 0;
                while begun.elapsed() < ROUND {
                    rival_reserve(&mut conn, &(first + done).to_be_bytes()).await;
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
    let server = Arc::new(Server::start(&["--innodb-buffer-pool-size=512M"]));
    let database = server.database();
    let mut session = database.session();
    session.run(
        "CREATE TABLE rival_stock (sku VARBINARY(128) PRIMARY KEY, total BIGINT, held BIGINT);
         INSERT INTO rival_stock VALUES ('hot', 1000000000, 0);
         CREATE TABLE rival_reservations
             (id BINARY(16) PRIMARY KEY, sku VARBINARY(128), owner VARBINARY(128), expires_at DATETIME(6));
         CREATE TABLE rival_keys (hash BINARY(16) PRIMARY KEY, id BINARY(16))",
    );
    let mut maker = Maker::new(1, "bench-");
    let options = |batch| Options { batch, ..Options::default() };
    let url = database.url();
    let (combining, alone) = (open(&url, options(256)).unwrap(), open(&url, options(1)).unwrap());
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
            rates.push(rival(&url, connections, &mut ids));
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
