//! `stockhold demo --gate`: a drop behind a gate. Two servers over one PostgreSQL and one Redis sell a few units to a crowd, while Redis
//! loses everything and one server is killed.

mod audit;
mod buyers;
mod postgres;
mod redis;

use super::audit::conclude;
use super::server_process::ServerProcess;
use super::{AWAY, CHECK_EVERY, PATIENCE, bug, say};
use crate::client::{CallError, RetryClient};
use crate::table::{Column, table};
use buyers::{BuyerAnswer, GatedSale, LOCATION, SKU};
use postgres::PostgresProcess;
use redis::RedisProcess;
use serde_json::{Value, json};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use stockhold_api::client::At;
use stockhold_api::wire::Stock;
use stockhold_domain::Patch;
use tempfile::TempDir;
use tokio::task::JoinSet;

/// Servers over the one database.
pub(super) const SERVERS: usize = 2;
/// The server that is killed.
const KILLED: usize = 1;
/// How long the counter of the gate may take to be written.
const LOADING: Duration = Duration::from_secs(15);
/// How long buyers try again for units that are left.
const LAST_UNITS: Duration = Duration::from_secs(30);

const COLUMNS: [Column; 3] =
    [Column("REFUSED BY", "layer"), Column("REFUSALS", "refusals"), Column("SHARE", "share")];

/// Sells, breaks things, and audits. `true` if the audit is right.
pub(super) async fn tell(crowd: u32, units: u32, begun: Instant) -> Result<bool, CallError> {
    let (postgres_programs, redis_program) = (postgres::find(), redis::find());
    let missing: Vec<&str> = [
        (redis_program.is_none(), "no redis-server on the PATH"),
        (postgres_programs.is_none(), "no initdb and postgres in /usr/lib/postgresql/*/bin or on the PATH"),
    ]
    .into_iter()
    .filter_map(|(is_missing, what)| is_missing.then_some(what))
    .collect();
    let (Some(postgres_programs), Some(redis_program)) = (postgres_programs, redis_program) else {
        return Err(CallError::Unexpected(format!(
            "the demo with a gate needs Redis and PostgreSQL on this machine, and found {}. Install them, on Debian with \
             `apt-get install redis-server postgresql`",
            missing.join(", and ")
        )));
    };
    let postgres = PostgresProcess::start(&postgres_programs).await?;
    let redis = RedisProcess::start(&redis_program).await?;
    say(begun, format_args!("started PostgreSQL and Redis: {}; {}", postgres.shown(), redis.url()));
    let variables =
        [("STOCKHOLD_STORE".to_owned(), postgres.url()), ("STOCKHOLD_GATE".to_owned(), redis.url())];
    let (mut servers, mut directories) = (Vec::new(), Vec::new());
    for number in 0..SERVERS {
        let directory = directory()?;
        let server = ServerProcess::start(directory.path(), &variables).await?;
        say(begun, format_args!("started server {number}: {} (process {})", server.url(), server.pid()));
        servers.push(server);
        directories.push(directory);
    }
    let mut callers = Vec::new();
    for server in &servers {
        callers.push(RetryClient::without_key(&server.url(), PATIENCE, Box::new(|_| {}))?);
    }
    let sale = Rc::new(GatedSale::new(callers));
    open(&sale, units).await?;
    say(
        begun,
        format_args!("{units} units of {SKU:?} are for sale, gated; both servers have loaded the counter"),
    );

    sell(&sale, crowd, units, &redis, &mut servers, begun).await?;
    let coming = last_units(&sale, units).await?;
    say(begun, format_args!("{coming} buyers tried again, until nothing was left"));

    print!("{}", refusals(&sale));
    let checks = audit::audit(&sale, units.into(), &variables).await?;
    Ok(conclude(begun, &checks, "no unit was lost or sold twice"))
}

fn directory() -> Result<TempDir, CallError> {
    tempfile::tempdir().map_err(|error| CallError::Unexpected(format!("a temporary directory: {error}")))
}

/// Creates the item, and waits until the gates of all servers have its counter.
async fn open(sale: &GatedSale, units: u32) -> Result<(), CallError> {
    let stock = Stock { total_units: Some(units.into()), gated: Patch::Set(true), ..Stock::default() };
    let at = At { sku: SKU, location: Some(LOCATION) };
    sale.caller(0).ask(async |client| client.put_stock(at, &stock, None).await).await?;
    let begun = Instant::now();
    for server in 0..SERVERS {
        loop {
            let gate = sale.caller(server).ask(async |client| client.gate().await).await?;
            let counted = gate.items.iter().flatten().next().and_then(|item| item.units);
            if gate.connected == Some(true) && counted == Some(units.into()) {
                break;
            }
            if begun.elapsed() > LOADING {
                return Err(CallError::Unexpected(format!(
                    "the gate of server {server} does not count the units: {gate:?}"
                )));
            }
            tokio::time::sleep(CHECK_EVERY * 10).await;
        }
    }
    Ok(())
}

/// All buyers ask at once. After a quarter of the units Redis is flushed, after half of them a server is killed.
async fn sell(
    sale: &Rc<GatedSale>,
    crowd: u32,
    units: u32,
    redis: &RedisProcess,
    servers: &mut [ServerProcess],
    begun: Instant,
) -> Result<(), CallError> {
    let started = Instant::now();
    let mut buyers = JoinSet::new();
    for buyer in 0..crowd {
        let sale = Rc::clone(sale);
        buyers.spawn_local(async move { sale.buy(buyer).await });
    }
    let is_over = Cell::new(false);
    let incidents = async {
        let is_reached = async |held: u32| {
            while sale.held() < u64::from(held) && !is_over.get() {
                tokio::time::sleep(CHECK_EVERY).await;
            }
        };
        is_reached(units / 4).await;
        redis.flush().await?;
        say(begun, format_args!("flushed Redis: the counter is lost; {} buyers hold a unit", sale.held()));
        is_reached(units / 2).await;
        let Some(server) = servers.get_mut(KILLED) else { return Ok(()) };
        let (pid, held) = (server.pid(), sale.held());
        server.kill()?;
        say(begun, format_args!("kill -9 {pid}: server {KILLED} is killed; {held} buyers hold a unit"));
        tokio::time::sleep(AWAY).await;
        let away = Instant::now();
        server.restart().await?;
        sale.came_back();
        say(
            begun,
            format_args!("started server {KILLED} again: ready after {} ms", away.elapsed().as_millis()),
        );
        Ok::<(), CallError>(())
    };
    let served = async {
        while let Some(done) = buyers.join_next().await {
            done.map_err(|error| bug(&error))??;
        }
        is_over.set(true);
        Ok::<(), CallError>(())
    };
    tokio::try_join!(incidents, served)?;
    let seconds = started.elapsed().as_secs_f64();
    say(
        begun,
        format_args!(
            "{} buyers have asked: {} hold a unit, {} were refused ({seconds:.1} s, {:.0} buyers/s)",
            crowd,
            sale.held(),
            sale.refused(),
            f64::from(crowd) / seconds
        ),
    );
    say(
        begun,
        format_args!(
            "{} requests had no answer because of the kill; their buyers looked for their holds, and found {}",
            sale.unanswered.get(),
            sale.found.get()
        ),
    );
    Ok(())
}

/// Refused buyers ask again while units are left: a kill can leave the gate's number too low for a moment.
async fn last_units(sale: &GatedSale, units: u32) -> Result<u64, CallError> {
    let begun = Instant::now();
    let (mut tried, mut again) = (0, sale.refused_buyers().into_iter());
    while sale.held() < u64::from(units) && begun.elapsed() < LAST_UNITS {
        let Some(buyer) = again.next() else { break };
        tried += 1;
        if sale.buy(buyer).await? == BuyerAnswer::Refused {
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }
    Ok(tried)
}

/// The table of what each layer refused.
fn refusals(sale: &GatedSale) -> String {
    let (gate, database) = (sale.refused_by_gate.get(), sale.refused_by_database.get());
    let all = gate + database;
    let row = |layer: &str, refusals: u64| {
        // Rounded to the nearest tenth of a percent.
        let tenths = (refusals * 1_000 + all / 2).checked_div(all).unwrap_or(0);
        json!({ "layer": layer, "refusals": refusals, "share": format!("{}.{} %", tenths / 10, tenths % 10) })
    };
    let rows = [row("gate (Redis)", gate), row("database (PostgreSQL)", database)];
    table(&COLUMNS, &rows.iter().collect::<Vec<&Value>>())
}
