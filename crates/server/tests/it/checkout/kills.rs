//! The server is killed in the middle of payments, again and again.

use super::{checkout, compare, hold, priced_item, shop, try_call};
use crate::support::{said, stockhold};
use serde_json::json;
use std::sync::Mutex;
use std::time::Duration;

const ROUNDS: u64 = 5;
/// Buyers of a round.
const BUYERS: u64 = 24;
const METHODS: [&str; 9] = [
    "approve",
    "decline",
    "require_action",
    "timeout_before",
    "timeout_after",
    "answer_twice",
    "error_remembered",
    "capture_fails",
    "refund_fails_three_times",
];

#[test]
fn the_ledger_and_the_reservations_agree_after_kills() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, provider) = shop(dir.path());
    priced_item(&server, "tea", 10_000);
    let ids = Mutex::new(Vec::new());
    for round in 0..ROUNDS {
        let base = server.url();
        std::thread::scope(|scope| {
            for buyer in 0..BUYERS {
                let (base, ids) = (&base, &ids);
                scope.spawn(move || buy(base, ids, round * BUYERS + buyer));
            }
            // At another place of the payments in each round.
            std::thread::sleep(Duration::from_millis(20 + 60 * round));
            server.kill();
        });
        server.restart();
    }
    let ids = ids.into_inner().unwrap();
    assert!(ids.len() as u64 > BUYERS, "hardly a buyer got a unit: {}", ids.len());
    compare(&server, &provider, &ids);
    assert!(server.terminate().success());
    let output = stockhold(dir.path()).args(["verify", "--data-dir", "data"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

/// One buyer: a hold, a checkout, and then perhaps a refund or a change of mind. The server may go away at any time.
pub(super) fn buy(base: &str, ids: &Mutex<Vec<String>>, number: u64) {
    let Some(id) = hold(base, "tea", 1 + number % 3) else { return };
    ids.lock().unwrap().push(id.clone());
    let method = METHODS[usize::try_from(number).unwrap() % METHODS.len()];
    let mut body = checkout(method);
    body["capture"] = if number.is_multiple_of(2) { "after_confirm" } else { "charge_then_confirm" }.into();
    body["on_decline"] = if number.is_multiple_of(3) { "keep" } else { "release" }.into();
    let key = format!("buyer-{number}");
    let path = format!("/v1/reservations/{id}");
    let pay = || {
        let headers = [("idempotency-key", key.as_str())];
        try_call(base, "POST", &format!("{path}/checkout"), Some(&body), &headers)
    };
    // A client that got no answer repeats the request.
    let answer = pay().or_else(|| {
        std::thread::sleep(Duration::from_millis(400));
        pay()
    });
    match answer {
        Some((202, _)) if method == "require_action" && number.is_multiple_of(4) => {
            try_call(base, "POST", &format!("{path}/checkout/cancel"), None, &[]);
        }
        Some((200, _)) if number.is_multiple_of(5) || method == "refund_fails_three_times" => {
            let refund = json!({ "lines": [{ "sku": "tea", "quantity": 1 }], "reason": "unhappy" });
            try_call(base, "POST", &format!("{path}/refund"), Some(&refund), &[]);
        }
        _ => {}
    }
}
