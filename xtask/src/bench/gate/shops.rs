//! The two usual designs, each as a shop that is killed while it sells 1,000 units, and started again.
//!
//! *A counter in Redis, rows written behind*: a buyer gets a unit when the counter allows it. The row is written a moment later, in a
//! batch. After a crash, the counter is set from the rows, as such shops do. *Row locks*: each buyer is a transaction that locks the row
//! of the item. Both say `sold` to the buyer when they mean it, and the parent counts what it was told.

use super::super::databases::Postgres;
use super::super::redis::Redis;
use crate::{Outcome, fail};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, LocalSet};
use tokio_postgres::{Client, NoTls};

/// Units that there are.
const UNITS: u64 = 1_000;
/// Buyers of each of the two lives of the shop.
const BUYERS: u64 = 2_000;
/// Sales after which the shop is killed.
const KILLED_AFTER: u64 = 500;
/// Buyers at once.
const AT_ONCE: usize = 32;
/// How long rows wait to be written together.
const WRITE_BEHIND: Duration = Duration::from_millis(100);
/// What a shop says when a buyer has a unit.
const SOLD: &str = "sold";

const COUNTER: &str = "counter";
const TAKE: &str =
    "if tonumber(redis.call('GET', KEYS[1])) > 0 then return redis.call('DECR', KEYS[1]) else return -1 end";

const TABLES: &str = "
DROP TABLE IF EXISTS shop_sales; DROP TABLE IF EXISTS shop_stock;
CREATE TABLE shop_stock (sku text PRIMARY KEY, units_left bigint NOT NULL);
CREATE TABLE shop_sales (buyer bigint PRIMARY KEY)";

/// A usual design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Design {
    /// A counter in Redis, rows written behind.
    RedisCounter,
    /// A row lock for each buyer.
    RowLock,
}

/// A shop that runs in a process of its own.
#[derive(Clone, Debug)]
pub(super) struct Shop {
    design: Design,
    redis: u16,
    postgres: String,
    buyers: (u64, u64),
}

impl std::str::FromStr for Shop {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(',').collect();
        let [design, redis, postgres, first, last] = *parts else { return Err("five parts".to_owned()) };
        let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
        Ok(Self {
            design: if design == "redis" { Design::RedisCounter } else { Design::RowLock },
            redis: redis.parse().map_err(|_| "a port".to_owned())?,
            postgres: postgres.to_owned(),
            buyers: (number(first)?, number(last)?),
        })
    }
}

impl Shop {
    /// Sells to all buyers, and says who got a unit.
    pub(super) fn sell(&self) -> Outcome<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            match self.design {
                Design::RedisCounter => self.sell_by_counter().await,
                Design::RowLock => self.sell_by_row_lock().await,
            }
        })
    }

    async fn postgres(&self) -> Outcome<Client> {
        let (client, connection) = tokio_postgres::connect(&self.postgres, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn sell_by_counter(&self) -> Outcome<()> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}/", self.redis))?;
        let mut redis = client.get_multiplexed_async_connection().await?;
        let postgres = self.postgres().await?;
        let sold: i64 = postgres.query_one("SELECT count(*) FROM shop_sales", &[]).await?.get(0);
        let left = UNITS.saturating_sub(sold.unsigned_abs());
        let () = redis::cmd("SET").arg(COUNTER).arg(left).query_async(&mut redis).await?;
        let (send, mut receive) = mpsc::unbounded_channel::<i64>();
        let writer = tokio::spawn(async move {
            while let Some(first) = receive.recv().await {
                tokio::time::sleep(WRITE_BEHIND).await;
                let mut buyers = vec![first];
                while let Ok(buyer) = receive.try_recv() {
                    buyers.push(buyer);
                }
                let insert = "INSERT INTO shop_sales SELECT unnest($1::bigint[]) ON CONFLICT DO NOTHING";
                postgres.execute(insert, &[&buyers]).await?;
            }
            Ok::<_, tokio_postgres::Error>(())
        });
        let sender = send.clone();
        self.at_once(move |buyer| {
            let (mut redis, send) = (redis.clone(), sender.clone());
            async move {
                let left: i64 =
                    redis::cmd("EVAL").arg(TAKE).arg(1).arg(COUNTER).query_async(&mut redis).await?;
                if left >= 0 {
                    send.send(buyer.cast_signed())?;
                }
                Ok(left >= 0)
            }
        })
        .await?;
        drop(send);
        Ok(writer.await??)
    }

    async fn sell_by_row_lock(&self) -> Outcome<()> {
        let (give, take) = mpsc::channel(AT_ONCE);
        for _ in 0..AT_ONCE {
            give.send(self.postgres().await?).await?;
        }
        let pool = Arc::new(tokio::sync::Mutex::new(take));
        self.at_once(move |buyer| {
            let (pool, give) = (Arc::clone(&pool), give.clone());
            async move {
                let mut client = pool.lock().await.recv().await.ok_or("no connection")?;
                let transaction = client.transaction().await?;
                let lock = "SELECT units_left FROM shop_stock WHERE sku = 'hot' FOR UPDATE";
                let left: i64 = transaction.query_one(lock, &[]).await?.get(0);
                if left > 0 {
                    transaction
                        .execute("UPDATE shop_stock SET units_left = units_left - 1 WHERE sku = 'hot'", &[])
                        .await?;
                    transaction
                        .execute("INSERT INTO shop_sales VALUES ($1)", &[&buyer.cast_signed()])
                        .await?;
                }
                transaction.commit().await?;
                give.send(client).await?;
                Ok(left > 0)
            }
        })
        .await
    }

    /// Serves the buyers, some at once.
    async fn at_once<F>(&self, serve: impl Fn(u64) -> F + 'static) -> Outcome<()>
    where
        F: Future<Output = Outcome<bool>> + 'static,
    {
        let (serve, next, last) = (Rc::new(serve), Rc::new(AtomicU64::new(self.buyers.0)), self.buyers.1);
        let local = LocalSet::new();
        local
            .run_until(async move {
                let mut queues = JoinSet::new();
                for _ in 0..AT_ONCE {
                    let (serve, next) = (Rc::clone(&serve), Rc::clone(&next));
                    queues.spawn_local(async move {
                        loop {
                            let buyer = next.fetch_add(1, Ordering::Relaxed);
                            if buyer > last {
                                return Outcome::Ok(());
                            }
                            if serve(buyer).await? {
                                let mut out = std::io::stdout().lock();
                                writeln!(out, "{SOLD} {buyer}")?;
                                out.flush()?;
                            }
                        }
                    });
                }
                while let Some(done) = queues.join_next().await {
                    done??;
                }
                Ok(())
            })
            .await
    }
}

/// Kills a shop in the middle of the sale, starts it again, and says what became of the units.
pub(super) fn under_a_kill(design: Design, redis: &Redis, postgres: &Postgres) -> Outcome<String> {
    postgres.run(&format!("{TABLES}; INSERT INTO shop_stock VALUES ('hot', {UNITS})"))?;
    let began = Instant::now();
    let mut told = BTreeSet::new();
    for (life, first) in [(1, 1), (2, BUYERS + 1)] {
        let word = if design == Design::RedisCounter { "redis" } else { "locks" };
        let (port, url, last) = (redis.address.port(), postgres.client_url(), first + BUYERS - 1);
        let mut child = Command::new(std::env::current_exe()?)
            .args(["gate", "--shop", &format!("{word},{port},{url},{first},{last}")])
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().ok_or("no output")?;
        for line in BufReader::new(out).lines() {
            let line = line?;
            let buyer = line.strip_prefix(SOLD).and_then(|buyer| buyer.trim().parse::<u64>().ok());
            if !told.insert(buyer.ok_or_else(|| format!("the shop said {line:?}"))?) {
                return fail(format!("told twice: {line}"));
            }
            if life == 1 && told.len() as u64 == KILLED_AFTER {
                child.kill()?;
            }
        }
        let status = child.wait()?;
        if life == 2 && !status.success() {
            return fail(format!("the second shop ended with {status}"));
        }
    }
    let rows: u64 = postgres.run("SELECT count(*) FROM shop_sales")?.parse()?;
    let known = postgres.run("SELECT string_agg(buyer::text, ',') FROM shop_sales")?;
    let known: BTreeSet<u64> = known.split(',').filter_map(|buyer| buyer.parse().ok()).collect();
    let lost = told.iter().filter(|buyer| !known.contains(buyer)).count();
    let oversold = (told.len() as u64).saturating_sub(UNITS);
    Ok(format!(
        "{design:?}: {UNITS} units, {} buyers were told that they have one, {rows} rows; {oversold} oversold, {lost} without a row; {:.1} s",
        told.len(),
        began.elapsed().as_secs_f64()
    ))
}
