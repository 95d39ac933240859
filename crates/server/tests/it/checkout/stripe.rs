//! Stripe's HTTP API, as localstripe speaks it: <https://pypi.org/project/localstripe/>. It has no idempotency keys, no declined
//! authorization and no `amount_received`, so those are tested with answers as Stripe documents them (`stockhold_checkout`).

use super::{call, hold, priced_item, reservation, wait_for_state};
use crate::customers;
use crate::support::{Running, Server, free_port, wait_for};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const KEY: &str = "sk_test_12345";

/// A running localstripe.
struct LocalStripe {
    url: String,
    _process: Running,
}

impl LocalStripe {
    fn start() -> Self {
        let port = free_port();
        let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
            root.display().to_string()
        });
        let python = Path::new(&target).join("servers/localstripe/bin/python");
        assert!(python.exists(), "localstripe is not installed: run scripts/servers");
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(python);
        command.args(["-m", "localstripe", "--from-scratch", "--port", &port.to_string()]);
        command.current_dir(dir.path());
        let process = Running::start(&mut command);
        let url = format!("http://127.0.0.1:{port}");
        wait_for("localstripe", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok().then_some(()));
        Self { url, _process: process }
    }

    fn post(&self, path: &str, form: &[(&str, &str)]) -> Value {
        let body: Vec<String> = form.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut command = Command::new("curl");
        command.args(["-s", "-u", &format!("{KEY}:"), "-d", &body.join("&")]);
        let output = command.arg(format!("{}{path}", self.url)).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn get(&self, path: &str) -> Value {
        let mut command = Command::new("curl");
        command.args(["-s", "-u", &format!("{KEY}:")]);
        let output = command.arg(format!("{}{path}", self.url)).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A customer with a stored card: its references.
    fn card(&self, number: &str) -> (String, String) {
        let customer =
            self.post("/v1/customers", &[("description", "buyer")])["id"].as_str().unwrap().to_owned();
        let method = self.post(
            "/v1/payment_methods",
            &[
                ("type", "card"),
                ("card[number]", number),
                ("card[exp_month]", "12"),
                ("card[exp_year]", "2040"),
                ("card[cvc]", "123"),
            ],
        );
        let method = method["id"].as_str().unwrap().to_owned();
        self.post(&format!("/v1/payment_methods/{method}/attach"), &[("customer", &customer)]);
        (customer, method)
    }
}

#[test]
fn a_stored_card_is_charged_captured_and_refunded() {
    let stripe = LocalStripe::start();
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "[providers.stripe]\napi_base = \"{}\"\nwebhook_secret = \"whsec_test\"\n[checkout]\nretry_base_ms = 50\n",
        stripe.url
    );
    std::fs::write(dir.path().join("stockhold.toml"), text).unwrap();
    let variables = [("STOCKHOLD_STRIPE_SECRET_KEY", KEY), (customers::VARIABLE, customers::FIRST_KEY)];
    let server = Server::with_variables(dir.path(), "data", &variables);
    priced_item(&server, "tea", 100);
    let pay = |(customer, method): &(String, String), capture: &str| {
        let id = hold(&server.url(), "tea", 2).unwrap();
        let body = json!({
            "payment_method": { "provider": "stripe", "method_ref": method, "customer_ref": customer },
            "capture": capture,
        });
        let answer =
            call(&server.url(), "POST", &format!("/v1/reservations/{id}/checkout"), Some(&body), &[]);
        (id, answer)
    };
    let good = stripe.card("4242424242424242");
    for capture in ["after_confirm", "charge_then_confirm"] {
        let (id, (status, answer)) = pay(&good, capture);
        assert_eq!((status, &answer["order"]["status"]), (200, &"paid".into()), "{capture}: {answer}");
        let intent = stripe
            .get(&format!("/v1/payment_intents/{}", answer["payment"]["provider_ref"].as_str().unwrap()));
        assert_eq!((&intent["status"], &intent["amount"]), (&"succeeded".into(), &2_000.into()), "{intent}");
        assert_eq!(intent["metadata"]["reservation_id"], id.as_str());
        let refund = json!({ "amount": 500, "reason": "late" });
        call(&server.url(), "POST", &format!("/v1/reservations/{id}/refund"), Some(&refund), &[]);
        let shown = wait_for_state(&server, &id, "captured");
        assert_eq!(shown["payment"]["refunded_amount"], 500, "{shown}");
        let refunds = stripe.get(&format!("/v1/refunds?payment_intent={}", intent["id"].as_str().unwrap()));
        assert_eq!(refunds["data"][0]["amount"], 500, "{refunds}");
    }
    // The same card, stored for a customer.
    let customer = json!({ "provider_refs": { "stripe": { "customer_ref": good.0, "method_ref": good.1 } } });
    assert_eq!(call(&server.url(), "PUT", "/v1/customers/anna", Some(&customer), &[]).0, 201);
    let id = hold(&server.url(), "tea", 1).unwrap();
    let path = format!("/v1/reservations/{id}/checkout");
    let (status, answer) = call(&server.url(), "POST", &path, Some(&json!({ "customer_id": "anna" })), &[]);
    assert_eq!((status, &answer["order"]["status"]), (200, &"paid".into()), "{answer}");
    let provider_ref = answer["payment"]["provider_ref"].as_str().unwrap();
    let intent = stripe.get(&format!("/v1/payment_intents/{provider_ref}"));
    assert_eq!(
        (&intent["customer"], &intent["payment_method"]),
        (&good.0.as_str().into(), &good.1.as_str().into()),
        "{intent}"
    );
    // A card that asks its owner: the buyer gives up, and the payment is ended at Stripe.
    let (id, (status, answer)) = pay(&stripe.card("4000002500003155"), "after_confirm");
    assert_eq!(
        (status, &answer["payment"]["next_action"]["type"]),
        (202, &"provider_sdk".into()),
        "{answer}"
    );
    assert!(!server.log().contains("_secret_"), "a secret of the buyer is in the log");
    call(&server.url(), "POST", &format!("/v1/reservations/{id}/checkout/cancel"), None, &[]);
    wait_for_state(&server, &id, "voided");
    let intent =
        stripe.get(&format!("/v1/payment_intents/{}", answer["payment"]["provider_ref"].as_str().unwrap()));
    assert_eq!(intent["status"], "canceled");
    // A card that is declined.
    let (id, (status, answer)) = pay(&stripe.card("4000000000000341"), "charge_then_confirm");
    assert_eq!((status, &answer["reason"]), (402, &"payment_declined".into()), "{answer}");
    assert_eq!(reservation(&server, &id)["status"], "cancelled");
    assert!(!server.log().contains(KEY), "the key is in the log");
}
