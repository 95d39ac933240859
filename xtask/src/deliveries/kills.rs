//! Two servers over one database, whose sinks write files and publish to NATS. Under load, the server that serves the sinks is killed, and the
//! other one has to take them over. At the end, a consumer that takes the first event of each id has every event of the feed, those of
//! one subject in their order, and nothing that is not in the feed.

use super::system::{Kind, System};
use super::{nats, stock, wait_until};
use crate::bench::databases::{MariaDb, Postgres};
use crate::database::make_readable;
use crate::http::{Connection, Request};
use crate::spawn::{Launch, Server, scratch, verify_store};
use crate::{Outcome, fail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Buyers, each with one request at a time.
const BUYERS: usize = 8;
/// Pause of a buyer between two requests, so that a run of many kills has a feed that can be compared.
const PAUSE: Duration = Duration::from_millis(10);
/// Pause of a buyer whose server is gone.
const GONE: Duration = Duration::from_millis(50);
/// Load before each kill.
const LOAD: Duration = Duration::from_millis(700);
/// Longest that the other server may take until it serves the sinks.
const TAKE_OVER: Duration = Duration::from_secs(10);
const SKUS: usize = 5;
const TTL_SECONDS: u64 = 600;
const PAGE: usize = 1_000;

/// An event as a consumer remembers it.
struct Seen {
    id: String,
    subject: String,
    position: u64,
}

type Delivered = Arc<Mutex<Vec<Seen>>>;

/// Kills so often on each database.
pub(super) fn run(count: u64, binary: &Path) -> Outcome<()> {
    for name in ["PostgreSQL", "MariaDB"] {
        let mut folder = scratch(None, "stockhold-relay-kills-")?;
        make_readable(folder.path())?;
        let ran = (|| {
            let path = folder.path();
            if name == "PostgreSQL" {
                let database = Postgres::start(path)?;
                on(&database.client_url(), count, path, binary)
            } else {
                let database = MariaDb::start(path)?;
                on(&database.client_url(), count, path, binary)
            }
        })();
        if let Err(error) = ran {
            folder.disable_cleanup(true);
            return fail(format!("{name}: data and logs kept in {}:\n{error}", folder.path().display()));
        }
        println!("{name}: {}", ran?);
    }
    Ok(())
}

fn on(url: &str, count: u64, folder: &Path, binary: &Path) -> Outcome<String> {
    let systems = [System::start(Kind::File, folder)?, System::start(Kind::Nats, folder)?];
    let launches = [0, 1].map(|number| {
        let mut launch = Launch::new(binary, &folder.join(format!("server-{number}")));
        launch.env = systems.iter().flat_map(System::variables).collect();
        launch.env.push(("STOCKHOLD_STORE".to_owned(), url.to_owned()));
        launch
    });
    let mut servers = [Server::start(&launches[0])?, Server::start(&launches[1])?];
    let published = Delivered::default();
    let takes = Arc::clone(&published);
    systems[1].init(binary, servers[0].address)?;
    nats::subscribe(&systems[1].url, move |event| {
        takes.lock().unwrap_or_else(PoisonError::into_inner).extend(seen(event));
    })?;
    for number in 0..SKUS {
        stock(servers[0].address, &format!("item-{number}"), 1_000_000_000)?;
    }
    wait_until("an instance serves each sink", || Ok(holders(servers[0].address).len() == systems.len()))?;

    let stop = AtomicBool::new(false);
    let addresses = Mutex::new([servers[0].address, servers[1].address]);
    let (mut done, mut longest) = (0, Duration::ZERO);
    let granted = std::thread::scope(|scope| {
        let (stop, addresses) = (&stop, &addresses);
        let buyers: Vec<_> =
            (0..BUYERS).map(|buyer| scope.spawn(move || buy(buyer, addresses, stop))).collect();
        let killed = (|| {
            let mut next = 0;
            while done < count {
                std::thread::sleep(LOAD);
                let other = servers[1 - next].address;
                let before = holders(other);
                servers[next].process.kill()?;
                let at = Instant::now();
                if let Some(time) = taken_over(other, &before, at) {
                    (done, longest) = (done + 1, longest.max(time));
                } else if done > 0 {
                    return fail(format!(
                        "kill {}: nobody took the sinks of {before:?} within {TAKE_OVER:?}",
                        done + 1
                    ));
                }
                servers[next] = Server::start(&launches[next])?;
                addresses.lock().unwrap_or_else(PoisonError::into_inner)[next] = servers[next].address;
                next = 1 - next;
            }
            Ok(())
        })();
        stop.store(true, Ordering::Relaxed);
        let granted =
            buyers.into_iter().map(|buyer| buyer.join().unwrap_or_else(|_| fail("a buyer panicked")));
        let granted = granted.sum::<Outcome<u64>>()?;
        killed.map(|()| granted)
    })?;

    let feed = feed(servers[0].address)?;
    let newest = feed.keys().next_back().copied().unwrap_or(0);
    wait_until("the sinks have all events", || {
        let sinks = sinks(servers[0].address)?;
        let all =
            sinks.iter().all(|sink| sink["position"].as_u64().is_some_and(|position| position >= newest));
        Ok(all && sinks.len() == systems.len())
    })?;
    if (feed.len() as u64) < granted {
        return fail(format!("{granted} reserves were granted, and the feed has {} events", feed.len()));
    }
    let files = in_files(Path::new(&systems[0].url))?;
    let of_files = compare("files", files, &feed, false)?;
    let published = std::mem::take(&mut *published.lock().unwrap_or_else(PoisonError::into_inner));
    let of_nats = compare("NATS", published, &feed, true)?;
    for server in servers {
        server.stop()?;
    }
    verify_store(binary, url)?;
    Ok(format!(
        "{count} kills, {granted} reserves, {} events, 0 missing, 0 invented; delivered again: {of_files} to files, {of_nats} to NATS; \
         longest time until the sinks were served again: {:.1} s",
        feed.len(),
        longest.as_secs_f64()
    ))
}

/// Reserves, and confirms every second hold, at whichever server answers. Returns how many reserves were granted.
fn buy(buyer: usize, addresses: &Mutex<[SocketAddr; 2]>, stop: &AtomicBool) -> Outcome<u64> {
    let (mut turn, mut granted) = (buyer, 0);
    while !stop.load(Ordering::Relaxed) {
        let address = addresses.lock().unwrap_or_else(PoisonError::into_inner)[turn % 2];
        turn += 1;
        let Ok(mut connection) = Connection::open(address) else {
            std::thread::sleep(GONE);
            continue;
        };
        while !stop.load(Ordering::Relaxed) {
            let path = format!("/v1/inventory/item-{}/reserve", turn % SKUS);
            let body = format!(r#"{{"owner_id":"buyer-{buyer}","ttl_seconds":{TTL_SECONDS}}}"#);
            // Without an answer, the server is gone.
            let Ok(answer) = connection.call(&post(path, body)) else { break };
            turn += 2;
            let made = answer.json();
            let Some(id) = made["reservation_id"].as_str() else {
                if answer.status == 503 {
                    break;
                }
                return fail(format!("reserve: {}", answer.brief()));
            };
            granted += 1;
            if turn % 4 < 2 {
                let confirm = post(format!("/v1/reservations/{id}/confirm"), "{}".to_owned());
                if connection.call(&confirm).is_err() {
                    break;
                }
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(granted)
}

fn post(path: String, body: String) -> Request {
    Request { method: "POST", path, key: None, if_match: None, body: Some(body) }
}

fn sinks(address: SocketAddr) -> Outcome<Vec<Value>> {
    let answer = super::asked(address, &Request::get("/v1/sinks"), 200)?;
    Ok(answer["data"].as_array().cloned().unwrap_or_default())
}

/// The instance that serves each sink.
fn holders(address: SocketAddr) -> BTreeMap<String, String> {
    // A server whose database is busy is asked again.
    let sinks = sinks(address).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let holder = |sink: &Value| Some((text(&sink["name"])?, text(&sink["instance"])?));
    sinks.iter().filter(|sink| sink["state"] == "running").filter_map(holder).collect()
}

/// The time until every sink had another instance than before. `None` if that does not happen, because another server was killed.
fn taken_over(address: SocketAddr, before: &BTreeMap<String, String>, at: Instant) -> Option<Duration> {
    while at.elapsed() < TAKE_OVER {
        let now = holders(address);
        let is_other =
            |(name, instance): (&String, &String)| before.get(name).is_some_and(|was| was != instance);
        if now.len() == before.len() && now.iter().all(is_other) {
            return Some(at.elapsed());
        }
        std::thread::sleep(GONE);
    }
    None
}

/// An event of the feed. Those that are derived from it have ids of their own.
fn seen(event: &Value) -> Option<Seen> {
    let text = |name: &str| event[name].as_str().map(str::to_owned);
    if text("type")?.starts_with("stockhold.inventory.") {
        return None;
    }
    Some(Seen { id: text("id")?, subject: text("subject")?, position: text("position")?.parse().ok()? })
}

/// The whole feed: ids by position.
fn feed(address: SocketAddr) -> Outcome<BTreeMap<u64, String>> {
    let mut all = BTreeMap::new();
    let mut after = 0;
    loop {
        let page =
            super::asked(address, &Request::get(format!("/v1/events?after={after}&limit={PAGE}")), 200)?;
        for event in page["data"].as_array().into_iter().flatten() {
            let (Some(position), Some(id)) = (event["position"].as_u64(), event["id"].as_str()) else {
                return fail(format!("an event without position or id: {event}"));
            };
            all.insert(position, id.to_owned());
        }
        after = page["next_cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(after);
        if page["has_more"] != true {
            return Ok(all);
        }
    }
}

/// What is in the files of both instances. The last line of a killed one may be torn: its events were delivered again.
fn in_files(folder: &Path) -> Outcome<Vec<Seen>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let text = std::fs::read_to_string(entry?.path())?;
        for line in text.lines() {
            all.extend(serde_json::from_str(line).ok().as_ref().and_then(seen));
        }
    }
    Ok(all)
}

/// Compares what was delivered with the feed, and returns how many events were delivered again.
fn compare(what: &str, delivered: Vec<Seen>, feed: &BTreeMap<u64, String>, is_ordered: bool) -> Outcome<u64> {
    let known: BTreeMap<&str, u64> = feed.iter().map(|(position, id)| (id.as_str(), *position)).collect();
    let (mut first, mut newest, mut again) = (BTreeMap::new(), BTreeMap::new(), 0);
    for event in delivered {
        match known.get(event.id.as_str()) {
            Some(position) if *position == event.position => {}
            other => {
                return fail(format!(
                    "{what}: {} is at {other:?} in the feed, and came with {}",
                    event.id, event.position
                ));
            }
        }
        if first.insert(event.id, event.position).is_some() {
            again += 1;
            continue;
        }
        let before = newest.insert(event.subject, event.position).unwrap_or(0);
        if is_ordered && before > event.position {
            return fail(format!("{what}: {before} came before {} of the same subject", event.position));
        }
    }
    let missing = feed.values().filter(|id| !first.contains_key(*id)).count();
    if missing > 0 {
        return fail(format!("{what}: {missing} of {} events are missing", feed.len()));
    }
    Ok(again)
}
