//! `Commands` and `WatchEvents`.

use super::caller::{Caller, json};
use super::{GrpcServer, block_on};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio_stream::StreamExt;
use tonic::Code;

#[test]
fn commands_have_one_result_each_in_their_order() {
    let server = GrpcServer::start();
    block_on(async {
        let caller = Caller::new(&server.address);
        let mut commands = vec![json!({ "set_stock": { "sku": "tea", "total_units": 500 } })];
        commands.extend((0..1_000).map(|n| {
            json!({ "reserve": { "owner_id": format!("cart-{n}"), "lines": [{ "sku": "tea" }], "idempotency_key": format!("k-{n}") } })
        }));
        commands.push(
            json!({ "adjust_stock": { "sku": "tea", "delta": 1, "reason": "found", "expected_version": 1 } }),
        );
        let inputs: Vec<_> = commands.into_iter().map(|command| caller.input("Commands", command)).collect();
        let mut results = caller.stream("Commands", tokio_stream::iter(inputs)).await.unwrap();
        let mut all: Vec<Value> = Vec::new();
        while let Some(result) = results.message().await.unwrap() {
            all.push(json(&result));
        }
        assert_eq!(all.len(), 1_002);
        assert_eq!(all[0]["item"]["total_units"], 500);
        for (n, result) in all[1..=500].iter().enumerate() {
            assert_eq!(result["reservation"]["owner_id"], format!("cart-{n}"), "{result}");
        }
        assert!(
            all[501..=1_000].iter().all(|result| result["problem"]["reason"] == "insufficient_inventory")
        );
        assert_eq!(all[1_001]["problem"]["reason"], "precondition_failed");
    });
}

#[test]
fn a_message_that_is_no_command_ends_the_stream_after_the_results_before_it() {
    let server = GrpcServer::start();
    block_on(async {
        let caller = Caller::new(&server.address);
        let commands = [json!({ "set_stock": { "sku": "tea", "total_units": 1 } }), json!({})];
        let inputs = commands.map(|command| caller.input("Commands", command));
        let mut results = caller.stream("Commands", tokio_stream::iter(inputs)).await.unwrap();
        assert_eq!(json(&results.message().await.unwrap().unwrap())["item"]["total_units"], 1);
        let status = results.message().await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    });
}

#[test]
fn the_server_stops_reading_commands_while_results_are_not_read() {
    const COMMANDS: usize = 200_000;
    let server = GrpcServer::start();
    block_on(async {
        let caller = Caller::new(&server.address);
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let command = caller.input("Commands", json!({ "set_stock": { "sku": "tea", "total_units": 1 } }));
        let commands = tokio_stream::iter(0..COMMANDS).map(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            command.clone()
        });
        let mut results = caller.stream("Commands", commands).await.unwrap();
        // Until nothing more is taken for a second.
        let mut before = usize::MAX;
        while before != sent.load(Ordering::Relaxed) {
            before = sent.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!((1..COMMANDS).contains(&before), "{before} commands were taken");
        let mut read = 0;
        while results.message().await.unwrap().is_some() {
            read += 1;
        }
        assert_eq!(read, COMMANDS);
    });
}

#[test]
fn events_go_on_after_a_crash_at_the_position_that_was_read_last() {
    let mut server = GrpcServer::start();
    let stock = |total: u64| json!({ "sku": "tea", "total_units": total });
    let position = block_on(async {
        let caller = Caller::new(&server.address);
        let mut events = caller.watch("WatchEvents", json!({ "after": 0 })).await.unwrap();
        assert_eq!(json(&events.message().await.unwrap().unwrap()).get("event"), None);
        for total in 1..=3 {
            caller.call("SetStock", stock(total)).await.unwrap();
            let answer = json(&events.message().await.unwrap().unwrap());
            assert_eq!(
                (&answer["position"], &answer["event"]["type"]),
                (&json!(total), &json!("stock.set")),
                "{answer}"
            );
        }
        caller.call("SetStock", stock(4)).await.unwrap();
        3
    });
    server.server.kill();
    server.server.restart();
    block_on(async {
        let caller = Caller::new(&server.address);
        let request = json!({ "after": position, "type": ["stock.set"] });
        let mut events = caller.watch("WatchEvents", request).await.unwrap();
        assert_eq!(json(&events.message().await.unwrap().unwrap())["position"], 3);
        for total in 4..=5 {
            let answer = json(&events.message().await.unwrap().unwrap());
            assert_eq!(
                (&answer["position"], &answer["event"]["item"]["total_units"]),
                (&json!(total), &json!(total)),
                "{answer}"
            );
            caller.call("SetStock", stock(total + 1)).await.unwrap();
        }
        let beyond = caller.watch("WatchEvents", json!({ "after": 99 })).await.unwrap_err();
        assert_eq!(beyond.code(), Code::OutOfRange);
    });
}
