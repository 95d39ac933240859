//! One hold for each order, SKU and hub: repeated and concurrent requests, other quantities and users, ended holds, a crash in between.

use super::{ProfileServer, connect, data, held_and_sold, hub_reserve, refused, stock};
use crate::api::wire::Call;
use crate::support::Server;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Barrier;

const CALLERS: usize = 32;

/// Reserves for one order from many connections at once, spread over these ports: the ids of the holds that were answered.
pub(crate) fn reserve_at_once(ports: &[u16], call: &Call) -> BTreeSet<String> {
    let (begin, calls) = (Barrier::new(CALLERS), (0..CALLERS));
    std::thread::scope(|scope| {
        let begin = &begin;
        let callers: Vec<_> = calls
            .map(|number| {
                let port = ports[number % ports.len()];
                scope.spawn(move || {
                    let mut wire = connect(port);
                    begin.wait();
                    let made = data(&wire.ask(call));
                    assert_eq!(made["status"], "reserved");
                    made["reservation_id"].as_str().unwrap().to_owned()
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    })
}

/// Concurrent requests of one order make one hold, also after each of several holds has ended.
pub(crate) fn one_hold_at_a_time(servers: &[&Server]) {
    let ports: Vec<_> = servers.iter().map(|server| server.ports()[0]).collect();
    let wire = &mut connect(ports[0]);
    stock(wire, "hub-1", "milk", 1_000);
    let call = hub_reserve("hub-1", "milk", 3, "order-1", "user-1");
    let mut all = BTreeSet::new();
    for round in 1..=5 {
        let ids = reserve_at_once(&ports, &call);
        assert_eq!(ids.len(), 1, "round {round}: {ids:?}");
        assert_eq!(held_and_sold(wire, "hub-1", "milk"), (3, 0));
        let id = ids.first().unwrap().clone();
        assert!(all.insert(id.clone()), "a new hold after the last one has ended");
        // Another server than the one before goes on with the chain of ended holds.
        let port = ports[round % ports.len()];
        data(&connect(port).ask(&Call::post("/hub/release").json(&json!({ "reservation_id": id }))));
    }
    assert_eq!(held_and_sold(wire, "hub-1", "milk"), (0, 0));
}

#[test]
fn an_order_has_one_hold_however_many_ask_for_it() {
    let server = ProfileServer::start();
    one_hold_at_a_time(&[&server.server]);
}

#[test]
fn hub_order_and_sku_make_a_hold_of_their_own() {
    let server = ProfileServer::start();
    let wire = &mut server.api();
    for (hub, sku) in [("hub-1", "milk"), ("hub-1", "eggs"), ("hub-2", "milk")] {
        stock(wire, hub, sku, 10);
    }
    let mut id = |hub: &str, sku: &str, order: &str| {
        data(&wire.ask(&hub_reserve(hub, sku, 1, order, "user-1")))["reservation_id"].to_string()
    };
    let all = [
        id("hub-1", "milk", "order-1"),
        id("hub-1", "eggs", "order-1"),
        id("hub-2", "milk", "order-1"),
        id("hub-1", "milk", "order-2"),
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(id("hub-1", "milk", "order-1"), all[0]);
}

#[test]
fn another_quantity_or_user_is_a_mismatch_while_the_hold_counts() {
    let server = ProfileServer::start();
    let wire = &mut server.api();
    stock(wire, "hub-1", "milk", 10);
    let reserve = |qty: u64, user: &str| hub_reserve("hub-1", "milk", qty, "order-1", user);
    let first = data(&wire.ask(&reserve(2, "user-1")));
    let id = |made: &Value| json!({ "reservation_id": made["reservation_id"] });
    let said = refused(&wire.ask(&reserve(3, "user-1")), 409, "ORDER_MISMATCH");
    assert!(said["detail"].as_str().unwrap().contains("qty"), "{said}");
    refused(&wire.ask(&reserve(2, "user-2")), 409, "ORDER_MISMATCH");
    assert_eq!(data(&wire.ask(&reserve(2, "user-1")))["reservation_id"], first["reservation_id"]);
    // After its end the order may want something else.
    data(&wire.ask(&Call::post("/hub/release").json(&id(&first))));
    let second = data(&wire.ask(&reserve(3, "user-2")));
    assert_ne!(second["reservation_id"], first["reservation_id"]);
    refused(&wire.ask(&reserve(2, "user-1")), 409, "ORDER_MISMATCH");
    data(&wire.ask(&Call::post("/hub/confirm").json(&id(&second))));
    refused(&wire.ask(&reserve(2, "user-1")), 409, "ORDER_MISMATCH");
    assert_eq!(data(&wire.ask(&reserve(3, "user-2")))["status"], "confirmed");
    assert_eq!(held_and_sold(wire, "hub-1", "milk"), (0, 3));
}

#[test]
fn a_refused_order_is_judged_afresh() {
    let server = ProfileServer::start();
    let wire = &mut server.api();
    stock(wire, "hub-1", "milk", 1);
    let reserve = hub_reserve("hub-1", "milk", 2, "order-1", "user-1");
    refused(&wire.ask(&reserve), 409, "INSUFFICIENT_STOCK");
    stock(wire, "hub-1", "milk", 2);
    data(&wire.ask(&reserve));
}

#[test]
fn a_crash_in_between_changes_nothing() {
    let mut server = ProfileServer::start();
    let wire = &mut server.api();
    stock(wire, "hub-1", "milk", 10);
    let call = hub_reserve("hub-1", "milk", 2, "order-1", "user-1");
    let ended = data(&wire.ask(&call));
    data(&wire.ask(&Call::post("/hub/release").json(&json!({ "reservation_id": ended["reservation_id"] }))));
    let held = data(&wire.ask(&call));
    server.server.kill();
    server.server.restart();
    let wire = &mut server.api();
    let again = data(&wire.ask(&call));
    assert_eq!(again["reservation_id"], held["reservation_id"], "it finds the end of the chain again");
    let sold = Call::post("/hub/confirm").json(&json!({ "reservation_id": held["reservation_id"] }));
    data(&wire.ask(&sold));
    server.server.kill();
    server.server.restart();
    let wire = &mut server.api();
    data(&wire.ask(&sold));
    assert_eq!(data(&wire.ask(&call))["status"], "confirmed");
    assert_eq!(held_and_sold(wire, "hub-1", "milk"), (0, 2));
}

/// Retries of an order must not become slow because it was given up many times.
#[test]
fn an_order_that_was_given_up_often() {
    let server = ProfileServer::start();
    let wire = &mut server.api();
    stock(wire, "hub-1", "milk", 10);
    let call = hub_reserve("hub-1", "milk", 1, "order-1", "user-1");
    let mut ids = BTreeSet::new();
    for _ in 0..50 {
        let made = data(&wire.ask(&call));
        assert!(ids.insert(made["reservation_id"].to_string()));
        data(
            &wire.ask(&Call::post("/hub/release").json(&json!({ "reservation_id": made["reservation_id"] }))),
        );
    }
    // A worker that has not seen the order walks the whole chain.
    for _ in 0..8 {
        ids.insert(data(&server.api().ask(&call))["reservation_id"].to_string());
    }
    assert_eq!(ids.len(), 51);
    assert_eq!(held_and_sold(wire, "hub-1", "milk"), (1, 0));
}
