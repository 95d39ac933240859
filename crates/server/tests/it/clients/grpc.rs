//! gRPC with the scenarios that all clients share.

use super::grpc_proxy::LossyHttp2Proxy;
use super::scenarios::{Outcome, Run};
use crate::grpc::caller::{Caller, problem};
use crate::grpc::{GrpcServer, block_on};
use serde_json::{Value, json};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Most tries of one call.
const TRIES: u32 = 5;

#[test]
fn its_scenarios_end_with_the_same_counters_through_a_proxy_that_loses_answers() {
    let server = GrpcServer::start();
    let proxy = LossyHttp2Proxy::start(&server.address);
    block_on(async {
        let client = Retrying { caller: Caller::new(&proxy.address), keys: Cell::new(0) };
        let run = Run::new();
        assert_eq!(run.perform(async |step| client.perform(step).await).await, 14);
        let read = async |item: &Value| {
            let place = match item.get("location") {
                Some(location) => json!({ "sku": item["sku"], "location": location }),
                None => json!({ "sku": item["sku"] }),
            };
            client.call("GetItem", place, None).await.unwrap()
        };
        assert!(run.compare_counters(read).await >= 14);
    });
    assert!(proxy.lost() >= 50, "{}", proxy.lost());
}

/// Calls with an idempotency key, and repeats what has no answer.
struct Retrying {
    caller: Caller,
    keys: Cell<u64>,
}

impl Retrying {
    async fn perform(&self, step: &Value) -> Outcome {
        if let Some(seconds) = step["wait"].as_f64() {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            return Ok(json!({}));
        }
        if step["hold"].is_object() {
            return self.hold(step).await;
        }
        let operation = step["call"].as_str().unwrap();
        let mut request = step.get("body").cloned().unwrap_or_else(|| json!({}));
        let at = step.get("at").cloned().unwrap_or_else(|| json!({}));
        if operation == "reserve" {
            request = reserve(request, &at);
        } else {
            for (name, value) in at.as_object().unwrap() {
                request[name] = value.clone();
            }
        }
        if let Some(version) = step.get("version") {
            request["expected_version"] = version.clone();
        }
        self.call(&method(operation), request, step["key"].as_str()).await
    }

    /// A hold for as long as a closure of a client would run.
    async fn hold(&self, step: &Value) -> Outcome {
        let mut request = step["hold"].clone();
        let sku = request.as_object_mut().unwrap().remove("sku").unwrap();
        let begun = self.call("Reserve", reserve(request, &json!({ "sku": sku })), None).await?;
        let id = json!({ "reservation_id": begun["reservation_id"] });
        let ttl = step["hold"]["ttl_seconds"].as_u64().unwrap();
        let ends = Instant::now() + Duration::from_secs_f64(step["seconds"].as_f64().unwrap());
        loop {
            let left = ends.saturating_duration_since(Instant::now());
            let third = Duration::from_secs(ttl) / 3;
            tokio::time::sleep(left.min(third)).await;
            if left <= third {
                break;
            }
            let extend = json!({ "reservation_id": begun["reservation_id"], "ttl_seconds": ttl });
            self.call("Extend", extend, None).await?;
        }
        let last = if step["ends"] == "confirms" { "Confirm" } else { "Release" };
        self.call(last, id, None).await?;
        Ok(begun)
    }

    async fn call(&self, method: &str, request: Value, key: Option<&str>) -> Outcome {
        self.keys.set(self.keys.get() + 1);
        let own = format!("{}-{}", self.caller.method(method).name(), self.keys.get());
        let caller = self.caller.with("idempotency-key", key.unwrap_or(&own));
        let mut tries = 0;
        loop {
            tries += 1;
            match caller.call(method, request.clone()).await {
                Ok(answer) => return Ok(answer),
                // Only the server gives details.
                Err(status) if !status.details().is_empty() => return Err(problem(&caller, &status)),
                Err(status) => assert!(tries < TRIES, "{method} {request}: {status:?}"),
            }
        }
    }
}

/// A reserve of one line.
fn reserve(mut request: Value, at: &Value) -> Value {
    let mut line = at.clone();
    if let Some(quantity) = request.as_object_mut().unwrap().remove("quantity") {
        line["quantity"] = quantity;
    }
    request["lines"] = json!([line]);
    request
}

/// The method of an operation.
fn method(operation: &str) -> String {
    let words = operation.trim_end_matches("_basket").split('_');
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}
