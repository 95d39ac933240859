//! How many events a second each sink and a webhook deliver, of events that were there before.

use super::system::{Kind, System};
use super::{Options, asked, delivered, receiver, row, stock, wait_until};
use crate::bench::{HOT, TTL_SECONDS};
use crate::http::Request;
use crate::load::http::{Reserves, sku};
use crate::load::{Plan, SERVER_CPU, closed};
use crate::rng::Rng;
use crate::spawn::{Launch, Server, copy_dir};
use crate::{Outcome, fail};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Connections of the callers that make the events.
const CONNECTIONS: usize = 64;
/// Events that a webhook has to deliver. They are fewer, because each is a request.
const WEBHOOK_EVENTS: u64 = 20_000;
/// The part of the events that is not measured, at the beginning: 1 of so many.
const WARM_UP: u64 = 10;

/// Measures the sinks, and a webhook if all are asked for.
pub(super) fn measure(options: &Options, kinds: &[Kind], folder: &Path, binary: &Path) -> Outcome<()> {
    let data = folder.join("events");
    let rng = Rng::new(1);
    make_events(binary, &data, options.events, rng)?;
    println!("\n{} events. Events/s:\n\n| sink | median | rounds |\n|---|---:|---|", options.events);
    for kind in kinds {
        let mut rounds = Vec::new();
        for round in 0..options.rounds {
            let here = folder.join(format!("{}-{round}", kind.name()));
            std::fs::create_dir_all(&here)?;
            rounds.push(of_sink(*kind, &here, binary, &data, options.events)?);
            std::fs::remove_dir_all(&here)?;
        }
        println!("{}", row(kind.name(), &rounds));
    }
    if options.sinks.is_empty() {
        let few = folder.join("few-events");
        make_events(binary, &few, WEBHOOK_EVENTS, Rng::new(2))?;
        let mut rounds = Vec::new();
        for round in 0..options.rounds {
            rounds.push(of_webhook(&folder.join(format!("webhook-{round}")), binary, &few)?);
        }
        println!("{}", row("webhook, one receiver", &rounds));
    }
    Ok(())
}

/// A data directory with so many events.
fn make_events(binary: &Path, data: &Path, events: u64, rng: Rng) -> Outcome<()> {
    let server = Server::start(&launch(binary, data, Vec::new()))?;
    stock(server.address, &sku(HOT, 0), 1_000_000_000)?;
    let mut reserves = Reserves::new(HOT, 1, TTL_SECONDS, rng).first(events);
    closed(server.address, CONNECTIONS, Plan::ALL, None, &mut reserves)?;
    server.stop()
}

/// A server on one core.
pub(super) fn launch(binary: &Path, data: &Path, env: Vec<(String, String)>) -> Launch {
    Launch { cpu: Some(SERVER_CPU), env, ..Launch::new(binary, data) }
}

/// A system that a server has a sink to, with its stream, topics or table.
pub(super) fn ready_system(kind: Kind, folder: &Path, binary: &Path) -> Outcome<System> {
    let system = System::start(kind, folder)?;
    let empty = folder.join("empty");
    let server = Server::start(&launch(binary, &empty, system.variables()))?;
    system.init(binary, server.address)?;
    server.stop()?;
    Ok(system)
}

fn of_sink(kind: Kind, folder: &Path, binary: &Path, events: &Path, count: u64) -> Outcome<f64> {
    let system = ready_system(kind, folder, binary)?;
    let data = copied(events, folder)?;
    let server = Server::start(&launch(binary, &data, system.variables()))?;
    let from = count / WARM_UP;
    let mut first = None;
    let mut seen = (0, Instant::now());
    wait_until("all events are delivered", || {
        let (now, at) = (delivered(&server, kind.name())?, Instant::now());
        if now > seen.0 {
            seen = (now, at);
        }
        if now >= from && first.is_none() {
            first = Some((now, at));
        }
        // What is derived from the events is delivered as well.
        Ok(now >= count && at - seen.1 > Duration::from_secs(1))
    })?;
    server.stop()?;
    let Some((before, began)) = first else { return fail("nothing was delivered") };
    Ok((seen.0 - before) as f64 / (seen.1 - began).as_secs_f64().max(f64::EPSILON))
}

/// A copy of a data directory, in a folder.
fn copied(events: &Path, folder: &Path) -> Outcome<PathBuf> {
    let data = folder.join("data");
    copy_dir(events, &data)?;
    Ok(data)
}

fn of_webhook(folder: &Path, binary: &Path, events: &Path) -> Outcome<f64> {
    std::fs::create_dir_all(folder)?;
    let data = copied(events, folder)?;
    let server = Server::start(&launch(binary, &data, webhook_variables()))?;
    let got = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&got);
    let receiver = receiver::listen(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    })?;
    let path = webhook(&server, &format!("http://{receiver}/"))?;
    let body = Some(r#"{"from_position":1,"only":"all"}"#.to_owned());
    let replay = Request { method: "POST", path: format!("{path}/replay"), key: None, if_match: None, body };
    asked(server.address, &replay, 202)?;
    wait_until("the first events", || Ok(got.load(Ordering::Relaxed) >= WEBHOOK_EVENTS / WARM_UP))?;
    let (before, began) = (got.load(Ordering::Relaxed), Instant::now());
    wait_until("all events", || Ok(got.load(Ordering::Relaxed) >= WEBHOOK_EVENTS))?;
    let rate = (got.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
    server.stop()?;
    Ok(rate)
}

/// A server with these may send webhooks to this machine.
pub(super) fn webhook_variables() -> Vec<(String, String)> {
    vec![("STOCKHOLD_WEBHOOK_ALLOWED_NETWORKS".to_owned(), "127.0.0.1/32".to_owned())]
}

/// Creates a webhook, and returns its path.
pub(super) fn webhook(server: &Server, url: &str) -> Outcome<String> {
    let body = Some(format!(r#"{{"url":"{url}"}}"#));
    let create = Request { method: "POST", path: "/v1/webhooks".to_owned(), key: None, if_match: None, body };
    let made = asked(server.address, &create, 201)?;
    let id = made["webhook_id"].as_str().ok_or("a webhook without an id")?;
    Ok(format!("/v1/webhooks/{id}"))
}
