//! Databases that stop working while they are served: 503 with when to come again as long as it lasts, and everything as before
//! when it is over, without a restart of the server.

use super::postgresql::pgbouncer::PgBouncer;
use super::used::verify;
use super::{Database, PASSWORD, Postgres};
use crate::support::{Server, wait_for};
use std::collections::BTreeMap;
use stockhold_api::client::{At, Client};
use stockhold_api::wire::{Problem, Reservation, Stock};
use tokio::task::JoinSet;

const AT: At<'static> = At { sku: "shirt", location: None };
const BUYERS: u32 = 16;

fn stocked(url: &str) -> Server {
    let server = Server::over(url);
    let stock = Stock { total_units: Some(1_000_000), ..Stock::default() };
    server.ask(async |client| client.put_stock(AT, &stock, None).await).unwrap();
    server
}

/// What one reserve came to: the reservation, or the reason why not.
async fn reserve(client: &Client, key: &str) -> Result<Reservation, String> {
    let headers = [("idempotency-key", key)];
    let body = br#"{"owner_id":"cart","ttl_seconds":1800}"#;
    let raw = client.send_raw_with("POST", "/v1/inventory/shirt/reserve", &headers, body).await;
    let raw = raw.map_err(|error| error.to_string())?;
    if raw.status == 200 {
        return Ok(serde_json::from_slice(&raw.body).unwrap());
    }
    let problem: Problem = serde_json::from_slice(&raw.body).unwrap();
    assert_eq!(raw.status, 503, "{problem:?}");
    assert!(
        problem.retryable
            && ["unavailable", "outcome_unknown", "overloaded"].contains(&problem.reason.as_str()),
        "{problem:?}"
    );
    let again: u64 = raw.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!(again >= 1);
    assert!(!problem.detail.contains(PASSWORD));
    Err(problem.reason)
}

fn readiness(server: &Server) -> (u16, String) {
    let admin = Client::new(&server.admin_url()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let raw = runtime.block_on(admin.send_raw("GET", "/readyz", b"")).unwrap();
    (raw.status, String::from_utf8_lossy(&raw.body).into_owned())
}

/// Until a reserve is answered as it should.
fn wait_until_served(server: &Server, key: &str) -> Reservation {
    wait_for("service as before", || server.ask(async |client| reserve(client, key).await).ok())
}

/// Until nothing works and the server says so.
fn wait_until_out(server: &Server, says: &str) {
    let mut number = 0;
    wait_for("the server to notice", || {
        number += 1;
        let told = server.ask(async |client| reserve(client, &format!("out-{number}")).await);
        let (status, why) = readiness(server);
        (told.is_err() && status == 503 && why.contains(says)).then_some(())
    });
    assert!(!readiness(server).1.contains(PASSWORD));
}

fn ends_well<D: Database>(server: &Server, database: &D) {
    wait_for("readiness", || (readiness(server).0 == 200).then_some(()));
    verify(server, &database.url());
    assert!(!server.log().contains(PASSWORD), "{}", server.log());
}

/// Asks for one unit after the other, each until it is answered; what was answered.
async fn buyer(
    url: String,
    name: u32,
    until: std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> BTreeMap<String, Reservation> {
    let client = Client::new(&url).unwrap();
    let mut answered = BTreeMap::new();
    let mut number = 0;
    while !until.load(std::sync::atomic::Ordering::SeqCst) {
        let key = format!("{name}-{number}");
        match reserve(&client, &key).await {
            Ok(hold) => {
                answered.insert(key, hold);
                number += 1;
            }
            // The same again: it converges.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
        }
    }
    answered
}

pub(super) fn a_server_that_restarts_under_load_loses_nothing_that_was_answered<D: Database>(
    database: &mut D,
) {
    let server = stocked(&database.url());
    let until = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let url = server.url();
    let load = std::thread::spawn({
        let until = std::sync::Arc::clone(&until);
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut buyers = JoinSet::new();
                for name in 0..BUYERS {
                    buyers.spawn(buyer(url.clone(), name, std::sync::Arc::clone(&until)));
                }
                buyers.join_all().await
            })
        }
    });
    let reserved = |server: &Server| server.item("shirt").map_or(0, |item| item.held_units);
    for round in 1..=2 {
        let before = reserved(&server);
        wait_for("some load", || (reserved(&server) > before + 100).then_some(()));
        database.kill();
        wait_until_out(&server, "");
        database.run();
        wait_until_served(&server, &format!("after-{round}"));
    }
    until.store(true, std::sync::atomic::Ordering::SeqCst);
    let answered = load.join().unwrap();
    let mut units = 0;
    server.ask(async |client| {
        for hold in answered.iter().flat_map(BTreeMap::values) {
            assert_eq!(client.reservation(hold.reservation_id).await.unwrap(), *hold);
            units += 1;
        }
    });
    assert!(units > 200, "{units}");
    assert!(reserved(&server) >= units);
    ends_well(&server, database);
}

pub(super) fn a_server_that_becomes_read_only_is_waited_for<D: Database>(database: &mut D) {
    let server = stocked(&database.url());
    wait_until_served(&server, "before");
    database.read_only(true);
    wait_until_out(&server, "read-only");
    database.read_only(false);
    wait_until_served(&server, "after");
    ends_well(&server, database);
}

pub(super) fn rights_that_are_taken_away_and_given_back<D: Database>(database: &mut D) {
    let server = stocked(&database.url());
    wait_until_served(&server, "before");
    database.may_insert(false);
    // Reading goes on, so it is ready; whoever wants to write is told.
    let told = wait_for("a refusal", || server.ask(async |client| reserve(client, "without").await).err());
    assert!(["unavailable", "outcome_unknown"].contains(&told.as_str()), "{told}");
    let log = wait_for("a line in the log", || Some(server.log()).filter(|log| log.contains("denied")));
    assert!(!log.contains("an invariant is broken"), "{log}");
    assert!(server.item("shirt").is_some());
    database.may_insert(true);
    wait_until_served(&server, "without");
    ends_well(&server, database);
}

pub(super) fn a_server_that_lets_nobody_in_is_waited_for<D: Database>(database: &mut D) {
    let server = stocked(&database.url());
    wait_until_served(&server, "before");
    database.lets_in(false);
    wait_until_out(&server, "");
    database.lets_in(true);
    wait_until_served(&server, "after");
    ends_well(&server, database);
}

/// A pool mode that changes is like a pooler that comes between.
#[test]
fn a_pooler_that_comes_between_is_named_once_and_breaks_no_invariant() {
    let database = Postgres::start();
    let pooler = PgBouncer::start(&database.server, "shop", "pool_mode = session");
    let server = stocked(&pooler.url(database.database.name()));
    wait_until_served(&server, "before");
    pooler.reload("pool_mode = transaction\nmax_prepared_statements = 0");
    wait_until_out(&server, "PgBouncer");
    pooler.reload("pool_mode = session");
    wait_until_served(&server, "after");
    let log = server.log_with(&["a pooler such as PgBouncer"]);
    assert_eq!(log.matches("a pooler such as PgBouncer").count(), 1, "{log}");
    assert!(server.metrics().contains("stockhold_invariant_alarms_total 0"), "{log}");
    ends_well(&server, &database);
}
