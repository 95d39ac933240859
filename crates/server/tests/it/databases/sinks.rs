//! A sink over a database that two instances share: one serves it, and the other one takes it when the first is killed.

use super::Database;
use crate::ctl::{done, refused};
use crate::sinks::{check, feed, sell, sink, stock, wait_until_delivered};
use crate::support::Server;
use serde_json::Value;

/// How often the first instance is killed. From the second time on, it is the one that serves the sink.
const KILLS: usize = 2;

pub(super) fn every_event_is_delivered_over_kills<D: Database>(database: &mut D) {
    let (url, out) = (database.url(), tempfile::tempdir().unwrap());
    let path = out.path().display().to_string();
    let variables = [
        ("STOCKHOLD_SINKS__LEDGER__KIND", "file"),
        ("STOCKHOLD_SINKS__LEDGER__START", "beginning"),
        ("STOCKHOLD_SINKS__LEDGER__PATH", path.as_str()),
    ];
    let mut servers = [Server::over_with(&url, &variables), Server::over_with(&url, &variables)];
    stock(&servers[0], "tee", 1_000);
    for _ in 0..KILLS {
        sell(&servers[0], "tee", 30);
        servers[0].kill();
        sell(&servers[1], "tee", 20);
        wait_until_delivered(&servers[1], "ledger");
        servers[0].restart();
        servers[0].wait_until_ready();
        servers.swap(0, 1);
        assert_eq!(sink(&servers[0], "ledger"), sink(&servers[1], "ledger"), "every instance shows the same");
    }
    let files = std::fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.map(|file| std::fs::read_to_string(file).unwrap());
    // Each instance that served the sink has files of its own, and the last line of a killed one may be torn.
    let events = texts.flat_map(|text| {
        let events = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        events.collect::<Vec<Value>>()
    });
    let mut delivered: Vec<_> = events.collect();
    delivered.sort_by_key(|event| event["position"].as_str().unwrap().parse::<u64>().unwrap());
    check(&delivered, &feed(&servers[0]));

    // A server without the sink can't forget it while another one serves it.
    let other = Server::over(&url);
    refused(&other, &["sinks", "forget", "ledger"], &["sink_in_use"]);
    for server in &mut servers {
        assert!(server.terminate().success());
    }
    done(&other, &["sinks", "forget", "ledger"]);
    assert!(done(&other, &["sinks", "list"]).contains("There are no sinks"));
}
