//! `stockhold demo --checkout`: a sale whose money Stockhold takes. The payment provider declines, times out and answers twice, and the
//! server is killed three times. At the end, the ledger of the provider stands beside the orders.

mod audit;
mod buyers;
mod provider;

use super::audit::conclude;
use super::server_process::ServerProcess;
use super::{AWAY, CHECK_EVERY, PATIENCE, bug, say};
use crate::client::{CallError, RetryClient};
use buyers::{LOCATION, PRICE, PaidSale, SKU};
use provider::ProviderProcess;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use stockhold_api::client::At;
use stockhold_api::wire::{Price, Stock};
use stockhold_domain::Patch;
use tokio::task::JoinSet;

/// How often the server is killed.
const KILLS: u64 = 3;
/// How long the sale may take.
const SALE: Duration = Duration::from_mins(2);

/// Sells, breaks things, and audits. `true` if the audit is right.
pub(super) async fn tell(
    (crowd, units, seed): (u32, u32, u64),
    is_killed: bool,
    begun: Instant,
) -> Result<bool, CallError> {
    let dir = tempfile::tempdir()
        .map_err(|error| CallError::Unexpected(format!("a temporary directory: {error}")))?;
    let port = provider::choose_port()?;
    configure(dir.path(), port)?;
    let mut server = ServerProcess::start(dir.path(), &[]).await?;
    let webhook = format!("{}/v1/providers/test/webhook", server.url());
    let provider = ProviderProcess::start(dir.path(), port, &webhook).await?;
    say(
        begun,
        format_args!(
            "started a server: {} (process {}), and a test provider on port {port}",
            server.url(),
            server.pid()
        ),
    );
    let caller = RetryClient::without_key(&server.url(), PATIENCE, Box::new(|_| {}))?;
    let price = Price { unit_amount: PRICE, currency: "eur".to_owned(), discounts: Vec::new() };
    let stock = Stock { total_units: Some(units.into()), price: Patch::Set(price), ..Stock::default() };
    let at = At { sku: SKU, location: Some(LOCATION) };
    caller.ask(async |client| client.put_stock(at, &stock, None).await).await?;
    say(begun, format_args!("{units} units of {SKU:?} are for sale, {PRICE} cents each"));
    let sale = PaidSale::new(caller, provider, seed);
    sell(&sale, (crowd, units), &mut server, is_killed, begun).await?;
    let checks = audit::audit(&sale, units.into()).await?;
    Ok(conclude(
        begun,
        &checks,
        "everybody who was charged has the goods or the money back, and nobody was charged twice",
    ))
}

/// The server's configuration. The demo is not to wait long for a provider that does not answer.
fn configure(dir: &Path, port: u16) -> Result<(), CallError> {
    let text = format!(
        "[providers.test]\nurl = \"http://127.0.0.1:{port}\"\ntimeout_seconds = 1\n\
         [checkout]\nretry_base_ms = 50\nretry_max_ms = 1000\n"
    );
    std::fs::write(dir.join("stockhold.toml"), text)
        .map_err(|error| CallError::Unexpected(format!("the configuration of the server: {error}")))
}

/// All buyers buy at once, until every unit is sold. The server is killed in between.
async fn sell(
    sale: &Rc<PaidSale>,
    (crowd, units): (u32, u32),
    server: &mut ServerProcess,
    is_killed: bool,
    begun: Instant,
) -> Result<(), CallError> {
    let started = Instant::now();
    let mut buyers = JoinSet::new();
    for buyer in 0..crowd {
        let sale = Rc::clone(sale);
        buyers.spawn_local(async move { sale.buy(buyer).await });
    }
    say(begun, format_args!("{crowd} buyers reserve and pay at once"));
    let units = u64::from(units);
    let incidents = async {
        let mut kills = if is_killed { 0 } else { KILLS };
        // With fewer buyers than units, all buyers end and units are left.
        while sale.sold() < units && started.elapsed() < SALE && !sale.is_over.get() {
            if kills < KILLS && sale.sold() >= units * (kills + 1) / (KILLS + 1) {
                kills += 1;
                kill(sale, server, begun).await?;
            }
            tokio::time::sleep(CHECK_EVERY).await;
        }
        sale.is_over.set(true);
        Ok::<(), CallError>(())
    };
    let buying = async {
        while let Some(done) = buyers.join_next().await {
            done.map_err(|error| bug(&error))??;
        }
        sale.is_over.set(true);
        Ok::<(), CallError>(())
    };
    tokio::try_join!(incidents, buying)?;
    say(
        begun,
        format_args!(
            "{} payments succeeded, {} were declined, {} were given up at the bank, {} could not be captured; {} units came back \
             with their money",
            sale.paid.borrow().len(),
            sale.declined.get(),
            sale.given_up.get(),
            sale.failed.get(),
            sale.given_back.get()
        ),
    );
    Ok(())
}

async fn kill(sale: &PaidSale, server: &mut ServerProcess, begun: Instant) -> Result<(), CallError> {
    let (pid, sold) = (server.pid(), sale.sold());
    server.kill()?;
    say(
        begun,
        format_args!("kill -9 {pid}: the server is killed among payments; {sold} units are sold and paid"),
    );
    tokio::time::sleep(AWAY).await;
    let away = Instant::now();
    server.restart().await?;
    say(
        begun,
        format_args!(
            "started again (process {}): ready after {} ms; payments go on by themselves",
            server.pid(),
            away.elapsed().as_millis()
        ),
    );
    Ok(())
}
