//! Events at the systems that they are delivered to: real ones, which go down, refuse and come back.

mod brokers;
mod cache;
mod clickhouse;
mod faults;
mod files;
mod kafka;
mod proxy;
mod rabbitmq;
mod sasl;
mod tls;
mod tls_proxy;
mod users;

use crate::support::{Server, wait_for};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use stockhold_api::client::At;
use stockhold_api::wire::{Stock, Terms};

/// Makes an item.
pub(crate) fn stock(server: &Server, sku: &str, total: u64) {
    let stock = Stock { total_units: Some(total), ..Stock::default() };
    server.ask(async |client| client.put_stock(At { sku, location: None }, &stock, None).await).unwrap();
}

/// Reserves one unit so many times, and confirms every second hold.
pub(crate) fn sell(server: &Server, sku: &str, times: usize) {
    let terms = Terms { owner_id: "cart".to_owned(), ..Terms::default() };
    server.ask(async |client| {
        for n in 0..times {
            let hold = client.reserve(At { sku, location: None }, 1, &terms, None).await.unwrap();
            if n % 2 == 0 {
                client.confirm(hold.reservation_id, None, None).await.unwrap();
            }
        }
    });
}

/// The events of the feed, by their ids, as the API shows them.
pub(crate) fn feed(server: &Server) -> BTreeMap<String, u64> {
    server.ask(async |client| {
        let (mut after, mut all) = (0, BTreeMap::new());
        loop {
            let page = client.events(after, Some(1_000), &[]).await.unwrap();
            all.extend(page.data.iter().map(|event| (event.id.to_string(), event.position)));
            after = page.next_cursor.unwrap().parse().unwrap();
            if !page.has_more {
                return all;
            }
        }
    })
}

/// Checks delivered events against the feed: each is there, none is invented, and the first deliveries of one subject are in their order.
#[track_caller]
pub(crate) fn check(delivered: &[Value], feed: &BTreeMap<String, u64>) {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    for event in delivered {
        assert_eq!(event["specversion"], "1.0");
        if event["type"].as_str().unwrap().starts_with("stockhold.inventory.") {
            continue;
        }
        let (id, subject) = (event["id"].as_str().unwrap(), event["subject"].as_str().unwrap());
        let position: u64 = event["position"].as_str().unwrap().parse().unwrap();
        assert_eq!(feed.get(id), Some(&position), "{event}");
        assert_eq!(event["data"]["position"], position);
        if seen.insert(id, position).is_none() {
            let before = newest.insert(subject, position);
            assert!(before.is_none_or(|before| before < position), "{subject}: {before:?} before {position}");
        }
    }
    let missing: Vec<_> = feed.keys().filter(|id| !seen.contains_key(id.as_str())).collect();
    assert!(missing.is_empty(), "{} of {} events are missing", missing.len(), feed.len());
}

/// The variables of a sink that begins with the first event.
fn variables(name: &str, kind: &str, url: &str) -> Vec<(String, String)> {
    let members = [("KIND", kind), ("START", "beginning"), ("URL", url)];
    members.map(|(member, value)| variable(name, member, value)).into()
}

/// The variable of a member of a sink.
fn variable(name: &str, member: &str, value: &str) -> (String, String) {
    (format!("STOCKHOLD_SINKS__{}__{member}", name.to_uppercase()), value.to_owned())
}

/// A server with these variables.
fn server_with(dir: &Path, variables: &[(String, String)]) -> Server {
    let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    Server::with_variables(dir, "data", &variables)
}

/// Waits until a sink does not work because of an error, and returns its text.
fn wait_for_error(server: &Server, name: &str) -> String {
    wait_for("an error", || {
        let sink = sink(server, name);
        let message = sink["last_error"]["message"].as_str()?.to_owned();
        (sink["state"] == "retrying" || sink["state"] == "blocked").then_some(message)
    })
}

/// A sink as the API shows it.
pub(crate) fn sink(server: &Server, name: &str) -> Value {
    let sinks = crate::ctl::json(server, &["sinks", "list"]);
    let all = sinks["data"].as_array().unwrap();
    all.iter().find(|sink| sink["name"] == name).cloned().unwrap_or_else(|| panic!("no {name} in {all:?}"))
}

/// Waits until a sink has all events.
pub(crate) fn wait_until_delivered(server: &Server, name: &str) {
    let newest = *feed(server).values().max().unwrap();
    wait_for("the events to be delivered", || {
        let sink = sink(server, name);
        (sink["lag_events"] == 0 && sink["position"].as_u64().unwrap() >= newest).then_some(())
    });
}

/// Waits until a sink has this state.
fn wait_for_state(server: &Server, name: &str, state: &str) -> Value {
    wait_for(state, || Some(sink(server, name)).filter(|sink| sink["state"] == state))
}
