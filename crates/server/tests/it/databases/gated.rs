//! A drop behind a gate, over a database that two instances share.

use super::used::verify;
use super::{Database, PASSWORD};
use crate::access::redis::Redis;
use crate::api::wire::{Call, Wire};
use crate::support::{Server, said, stockhold, wait_for};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Units of the drop.
const UNITS: usize = 200;
/// Buyers, of whom each tries once.
const BUYERS: usize = 6_000;
/// Connections to each instance.
const CONNECTIONS: usize = 8;

fn connect(server: &Server) -> Wire {
    Wire::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, server.ports()[0])))
}

fn gate(server: &Server) -> Value {
    connect(server).ask(&Call::get("/v1/gate")).json()
}

/// Waits until an instance's gate admits as many units of the item.
fn wait_for_units(server: &Server, units: u64) {
    wait_for("the gate's counter", || {
        let shown = gate(server);
        (shown["connected"] == true && shown["items"][0]["units"] == units).then_some(())
    });
}

/// Buys for buyers until there are no more: how many were served.
fn buy(server: &Server, next: &AtomicUsize, until: usize) -> usize {
    let mut wire = connect(server);
    let mut sales = 0;
    loop {
        let buyer = next.fetch_add(1, Ordering::Relaxed);
        if buyer >= until {
            return sales;
        }
        let call =
            Call::post("/v1/inventory/drop/reserve").json(&json!({ "owner_id": format!("b-{buyer}") }));
        let answer = wire.ask(&call);
        match answer.status {
            200 | 201 => sales += 1,
            409 => assert_eq!(answer.json()["reason"], "insufficient_inventory", "{answer:?}"),
            other => panic!("{other}: {answer:?}"),
        }
    }
}

/// Lets buyers up to this one try at all servers at once: how many were served.
fn crowd(servers: &[&Server], next: &AtomicUsize, until: usize) -> usize {
    std::thread::scope(|scope| {
        let buyers: Vec<_> = servers
            .iter()
            .flat_map(|server| (0..CONNECTIONS).map(|_| scope.spawn(|| buy(server, next, until))))
            .collect();
        buyers.into_iter().map(|buyer| buyer.join().unwrap()).sum()
    })
}

pub(super) fn a_drop_sells_exactly_what_there_is<D: Database>(database: &mut D) {
    let mut redis = Redis::plain();
    let url = redis.url();
    let start = || Server::over_with(&database.url(), &[("STOCKHOLD_GATE", &url)]);
    let mut servers = [start(), start()];
    let item = json!({ "total_units": UNITS, "gated": true });
    let put = connect(&servers[0]).ask(&Call::put("/v1/inventory/drop").json(&item));
    assert_eq!(put.status, 201, "{put:?}");
    for server in &servers {
        wait_for_units(server, UNITS as u64);
    }
    let next = AtomicUsize::new(0);
    // Fewer than there are units: all are served, though Redis loses everything.
    let mut served = crowd(&servers.each_ref(), &next, UNITS / 4);
    next.store(UNITS / 4, Ordering::Relaxed);
    assert_eq!(redis.command("FLUSHALL"), "+OK\r\n");
    served += crowd(&servers.each_ref(), &next, UNITS / 2);
    assert_eq!(served, UNITS / 2);
    next.store(UNITS / 2, Ordering::Relaxed);
    // One instance is killed, and Redis too. The other one goes on.
    servers[1].kill();
    redis.kill();
    served += crowd(&[&servers[0]], &next, UNITS * 3 / 4);
    assert_eq!(served, UNITS * 3 / 4);
    next.store(UNITS * 3 / 4, Ordering::Relaxed);
    redis.restart();
    servers[1].restart();
    for server in &servers {
        wait_for_units(server, UNITS as u64 / 4);
    }
    served += crowd(&servers.each_ref(), &next, BUYERS);
    assert_eq!(served, UNITS, "everything is sold, and nothing twice");
    let refused: u64 = servers.iter().map(|server| gate(server)["refusals"].as_u64().unwrap()).sum();
    assert!(refused > 0, "the gate refuses by itself");
    let shown = connect(&servers[0]).ask(&Call::get("/v1/inventory/drop")).json();
    assert_eq!((&shown["held_units"], &shown["available"]), (&UNITS.into(), &0.into()), "{shown}");
    let verdict = verify(&servers[0], &database.url());
    assert_eq!((&verdict["adds_up"], &verdict["drift"]), (&true.into(), &0.into()));
}

pub(super) fn what_an_operator_sees_of_a_gate<D: Database>(database: &mut D) {
    let redis = Redis::start(&["--port", "PORT", "--requirepass", PASSWORD]);
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port());
    let server = Server::over_with(&database.url(), &[("STOCKHOLD_GATE", &url)]);
    let ctl = |arguments: &[&str]| {
        let output =
            stockhold(server.dir()).arg("ctl").args(arguments).args(["--server", &server.url()]).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        said(&output)
    };
    ctl(&["stock", "set", "drop", "--total", "1", "--gated", "true"]);
    wait_for_units(&server, 1);
    assert!(ctl(&["gate", "reload"]).contains("reloaded       1"), "{}", ctl(&["gate", "reload"]));
    assert!(ctl(&["gate", "reload", "--sku", "other"]).contains("reloaded       0"));
    let mut wire = connect(&server);
    let reserve = Call::post("/v1/inventory/drop/reserve").json(&json!({ "owner_id": "ann" }));
    assert_eq!(wire.ask(&reserve).status, 200);
    // One request in 50 ms asks the store, so one of a few is the gate's own.
    let refused = wait_for("a refusal by the gate", || {
        let refused = wire.ask(&reserve).json();
        (refused["approximate"] == true).then_some(refused)
    });
    assert_eq!((&refused["available"], &refused["lines"][0]["approximate"]), (&0.into(), &true.into()));
    let keyed = wire.ask(&reserve.clone().key("k"));
    assert_eq!((keyed.status, keyed.json()["approximate"].as_bool()), (409, None), "{keyed:?}");
    let shown = ctl(&["gate", "show"]);
    assert!(
        shown.lines().any(|line| line.split_whitespace().take(3).eq(["drop", "default", "0"])),
        "{shown}"
    );
    let metrics = server.metrics();
    for line in ["stockhold_gate_connected 1", "stockhold_gate_corrections_total 0"] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    assert!(!metrics.contains(PASSWORD) && !server.log().contains(PASSWORD), "{}", server.log());
}

pub(super) fn a_server_without_a_gate_says_so<D: Database>(database: &mut D) {
    let server = Server::over(&database.url());
    let mut wire = connect(&server);
    assert_eq!(gate(&server), json!({ "enabled": false }));
    let reload = wire.ask(&Call::post("/v1/gate/reload"));
    assert_eq!((reload.status, &reload.json()["reason"]), (409, &"gate_not_configured".into()));
    let item = json!({ "total_units": 1, "gated": true });
    assert_eq!(wire.ask(&Call::put("/v1/inventory/drop").json(&item)).status, 201);
    let reserve = Call::post("/v1/inventory/drop/reserve").json(&json!({ "owner_id": "ann" }));
    assert_eq!([wire.ask(&reserve).status, wire.ask(&reserve).status], [200, 409]);
}
