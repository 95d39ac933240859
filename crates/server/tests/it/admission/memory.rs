//! The memory that all share: callers without a credential, and one principal, take a part of it.

use super::{MANY, PROXIES, ask_with, from, metric};
use crate::access::{connect, key, with_key};
use crate::api::wire::{Call, Wire};
use crate::support::{Server, wait_for};
use serde_json::json;
use tempfile::TempDir;

const MEMORY: u64 = 64 << 20;
const LONG: usize = 8 << 20;

/// Sends all of a request but its last byte.
fn almost(server: &Server, call: &Call) -> Wire {
    let mut wire = connect(server);
    let bytes = call.bytes();
    wire.send_what_is_taken(&bytes[..bytes.len() - 1]);
    wire
}

fn in_flight(server: &Server) -> u64 {
    metric(server, "stockhold_bytes_in_flight")
}

#[test]
fn one_principal_leaves_memory_for_others() {
    let dir = TempDir::new().unwrap();
    let server = crate::access::server(&dir, "");
    let scopes = json!({ "scopes": ["inventory:write"] });
    let [one, other] = ["one", "other"].map(|name| key(&server, name, &scopes));
    let long = with_key(Call::post("/v1/commands").body(vec![b' '; LONG]), &one);
    let mut held: Vec<_> = (0..8).map(|_| almost(&server, &long)).collect();
    wait_for("the memory to be taken", || (in_flight(&server) > MEMORY / 2 - LONG as u64).then_some(()));
    assert!(in_flight(&server) <= MEMORY / 2);
    let commands = json!({ "commands": [{ "op": "set_stock", "sku": "tea", "total_units": 1 }] });
    let padded = format!("{}{commands}", " ".repeat(LONG - 1_000));
    let answer = ask_with(&server, &other, Call::post("/v1/commands").body(padded));
    assert_eq!(answer.status, 200, "{answer:?}");
    let turned_away =
        held.iter_mut().map(|wire| wire.answer().status).filter(|status| *status == 503).count();
    assert!(turned_away >= 4, "{turned_away} of 8 were turned away");
    wait_for("the memory to be free", || (in_flight(&server) == 0).then_some(()));
}

/// A body is read when its caller is known, so somebody without a credential sends none.
#[test]
fn a_long_body_without_a_credential_is_not_read() {
    let dir = TempDir::new().unwrap();
    let server = crate::access::server(&dir, "");
    let long = Call::post("/v1/commands").body(vec![b' '; LONG]);
    for call in [long.clone(), long.header("Upgrade", "none")] {
        let mut wire = connect(&server);
        wire.send(&call.head());
        let answer = wire.answer();
        assert_eq!(answer.status, 401, "{answer:?}");
        assert!(in_flight(&server) == 0);
    }
}

#[test]
fn webhooks_without_a_known_caller_hold_a_part_of_the_memory() {
    const WEBHOOK: &str = "/v1/providers/stripe/webhook";
    let dir = TempDir::new().unwrap();
    let stripe = "[providers.stripe]\nsecret_key = \"sk_test_1\"\nwebhook_secret = \"whsec_1\"\n";
    let server = crate::access::server(&dir, &format!("{PROXIES}{MANY}{stripe}"));
    let webhook = Call::post(WEBHOOK).header("Stripe-Signature", "t=1,v1=00").body(vec![b' '; 1 << 20]);
    // One address, and then many.
    let mut held: Vec<_> = (0..16).map(|_| almost(&server, &from("203.0.113.1", webhook.clone()))).collect();
    wait_for("the memory to be taken", || (in_flight(&server) > 3 << 20).then_some(()));
    assert!(in_flight(&server) <= MEMORY / 16);
    held.extend((2..80).map(|n| almost(&server, &from(&format!("203.0.113.{n}"), webhook.clone()))));
    wait_for("the memory to be taken", || (in_flight(&server) > MEMORY / 4 - (2 << 20)).then_some(()));
    assert!(in_flight(&server) <= MEMORY / 4);
    // Others have theirs.
    let body = format!(
        "{}{}",
        " ".repeat(500_000),
        json!({ "commands": [{ "op": "set_stock", "sku": "tea", "total_units": 1 }] })
    );
    assert_eq!(ask_with(&server, crate::access::ROOT, Call::post("/v1/commands").body(body)).status, 200);
    // Without a signature nothing is read.
    let mut wire = connect(&server);
    wire.send(&Call::post(WEBHOOK).body(vec![b' '; 1 << 20]).head());
    assert_eq!(wire.answer().status, 400);
    drop(held);
}

/// Whoever has a cart has a token, so tokens share what callers without a credential have.
#[test]
fn hold_tokens_leave_memory_for_others() {
    let dir = TempDir::new().unwrap();
    let server = crate::access::server(&dir, "");
    let ask = |call: Call| ask_with(&server, crate::access::ROOT, call);
    assert_eq!(ask(Call::put("/v1/inventory/tea").json(&json!({ "total_units": 9 }))).status, 201);
    let mut held = Vec::new();
    for owner in ["one", "other"] {
        let reserve = json!({ "owner_id": owner, "hold_token": true });
        let made = ask(Call::post("/v1/inventory/tea/reserve").json(&reserve)).json();
        let path = format!("/v1/reservations/{}", made["reservation_id"].as_str().unwrap());
        let amend = Call::new("PATCH", path).body(vec![b' '; 1 << 20]);
        let amend = with_key(amend, made["hold_token"].as_str().unwrap());
        held.extend((0..32).map(|_| almost(&server, &amend)));
    }
    wait_for("the memory to be taken", || (in_flight(&server) > MEMORY / 4 - (2 << 20)).then_some(()));
    assert!(in_flight(&server) <= MEMORY / 4);
    let commands = json!({ "commands": [{ "op": "set_stock", "sku": "mint", "total_units": 1 }] });
    let padded = format!("{}{commands}", " ".repeat(LONG - 1_000));
    assert_eq!(ask(Call::post("/v1/commands").body(padded)).status, 200);
    drop(held);
}
