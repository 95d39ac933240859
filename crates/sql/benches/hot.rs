//! How fast one hot item is reserved over a PostgreSQL of the benchmark's own: callers that each wait for their answer, by the
//! size that batches may have, beside the best that one transaction per request does on the same server; and how soon a crowd
//! of holds that fall due at once is swept.
//!
//! `cargo bench -p stockhold-sql` prints reservations a second: median and worst of the rounds.

#[path = "../tests/support/mod.rs"]
#[expect(dead_code, reason = "tests use the rest of it")]
mod support;

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use stockhold_domain::{Command, ItemKey, Outcome};
use stockhold_sql::{Options, open};
use stockhold_store::conformance::{Maker, maker};
use stockhold_store::{Answer, Ask, Failure, Inbox, ReplyTo, Store, Work};
use support::Server;

/// Callers that wait at once.
const CALLERS: usize = 64;
/// How long one round is measured.
const ROUND: Duration = Duration::from_secs(2);
/// Rounds of each, in turns.
const ROUNDS: usize = 3;
/// Connections that the rival is tried with.
const RIVAL_CONNECTIONS: [usize; 3] = [1, 8, 32];

#[derive(Default)]
struct Answers {
    put: Mutex<(usize, bool)>,
    flushed: Condvar,
}

impl Inbox for Answers {
    fn put(&self, _: u64, answer: Result<Answer, Failure>) {
        let Ok(Answer::Outcome(Outcome::Done(_))) = answer else { panic!("{answer:?}") };
        self.put.lock().unwrap().0 += 1;
    }

    fn flush(&self) {
        self.put.lock().unwrap().1 = true;
        self.flushed.notify_one();
    }
}

impl Answers {
    fn take(&self) -> usize {
        let put = self.flushed.wait_while(self.put.lock().unwrap(), |(_, flushed)| !*flushed);
        let (count, _) = std::mem::take(&mut *put.unwrap());
        count
    }
}

/// Reserves with as many callers as there are items to choose from, for a round.
fn reserve(store: &dyn Store, maker: &mut Maker, items: &[ItemKey], keys: &mut u64) -> f64 {
    let answers = Arc::new(Answers::default());
    let (mut asked, mut answered) = (0_u64, 0_u64);
    let mut ask = |count: usize, asked: &mut u64| {
        for _ in 0..count {
            *asked += 1;
            *keys += 1;
            let item = &items[usize::try_from(*keys).unwrap() % items.len()];
            let command = maker::reserve_for(600, &[(item, 1)]);
            let envelope = maker.keyed(&format!("{keys:032}"), command);
            let reply = ReplyTo { inbox: answers.clone(), ticket: *asked };
            store.submit(Work { ask: Ask::Command(Box::new(envelope)), reply });
        }
        store.kick();
    };
    let begun = Instant::now();
    ask(CALLERS, &mut asked);
    let mut took = begun.elapsed();
    while answered < asked {
        let count = answers.take();
        answered += count as u64;
        took = begun.elapsed();
        if took < ROUND {
            ask(count, &mut asked);
        }
    }
    rate(answered, took)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark")]
fn rate(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

fn stock(store: &dyn Store, maker: &mut Maker, name: &str) -> ItemKey {
    let item = maker.item(name);
    let answers = Arc::new(Answers::default());
    let command = Command::SetStock(maker::stock_of(&item, 1_000_000_000));
    let reply = ReplyTo { inbox: answers.clone(), ticket: 0 };
    store.submit(Work { ask: Ask::Command(Box::new(maker.wrap(command))), reply });
    store.kick();
    answers.take();
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
                u64::try_from(done).unwrap()
            });
        }
        let done: u64 = tasks.join_all().await.into_iter().sum();
        rate(done, begun.elapsed())
    })
}

/// Holds that fall due at once.
const CROWD: usize = 100_000;

/// How long the sweeper takes for a crowd, from the moment that it falls due.
fn sweep_crowd(url: &str, session: &mut support::Session, maker: &mut Maker) -> Duration {
    session.run("CREATE TABLE rival.ahead AS SELECT 0::bigint AS micros");
    let clock =
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + (SELECT micros FROM rival.ahead)";
    let store = open(url, Options { clock: Some(clock.to_owned()), ..Options::default() }).unwrap();
    let items: Vec<ItemKey> = (0..100).map(|n| stock(&*store, maker, &format!("crowd{n}"))).collect();
    let answers = Arc::new(Answers::default());
    for some in 0..CROWD / 1_000 {
        for n in 0..1_000 {
            let command = maker::reserve_for(600, &[(&items[(some + n) % items.len()], 1)]);
            let reply = ReplyTo { inbox: answers.clone(), ticket: 0 };
            store.submit(Work { ask: Ask::Command(Box::new(maker.wrap(command))), reply });
        }
        store.kick();
        let mut answered = 0;
        while answered < 1_000 {
            answered += answers.take();
        }
    }
    session.run("UPDATE rival.ahead SET micros = 600000000");
    let begun = Instant::now();
    session.wait_for("SELECT NOT EXISTS (SELECT FROM stockhold.active_lines WHERE sku LIKE 'bench-crowd%')");
    begun.elapsed()
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
        together.push(reserve(&*combining, &mut maker, &hot, &mut keys));
        one_by_one.push(reserve(&*alone, &mut maker, &hot, &mut keys));
        spread.push(reserve(&*combining, &mut maker, &cold, &mut keys));
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
    // Their sweepers would do the same by another clock.
    drop((combining, alone));
    let took = sweep_crowd(&database.url, &mut session, &mut maker);
    println!("{CROWD} holds on 100 items that fell due at once were expired in {:.1} s", took.as_secs_f64());
}
