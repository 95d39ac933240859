//! Checkouts with the test provider: a process of its own, whose ledger is compared with the reservations at the end.

mod flows;
mod kills;
mod shared;
mod stripe;

use crate::support::{Running, Server, free_port, stockhold, wait_for};
use serde_json::{Value, json};
use std::path::Path;
use stockhold_api::client::Client;

pub(crate) use shared::two_instances_pay_each_payment_once;

/// A running test provider.
pub(crate) struct Provider {
    url: String,
    _process: Running,
}

impl Provider {
    /// Starts it. Its webhooks go to this server port.
    pub(crate) fn start(dir: &Path, port: u16, webhook: Option<&str>) -> Self {
        let mut command = stockhold(dir);
        command.args(["test-provider", "--ledger", "ledger", "--listen"]).arg(format!("127.0.0.1:{port}"));
        if let Some(webhook) = webhook {
            command.args(["--webhook", webhook]);
        }
        let mut process = Running::start(&mut command);
        let line = process.line();
        assert!(line.contains("listens on"), "{line}");
        Self { url: format!("http://127.0.0.1:{port}"), _process: process }
    }

    /// What the buyer does.
    pub(crate) fn complete(&self, provider_ref: &str, outcome: &str) {
        let path = format!("/payments/{provider_ref}/complete");
        let (status, body) = call(&self.url, "POST", &path, Some(&json!({ "outcome": outcome })), &[]);
        assert_eq!(status, 200, "{body}");
    }

    /// Its payments.
    pub(crate) fn ledger(&self) -> Vec<Value> {
        call(&self.url, "GET", "/payments", None, &[]).1["data"].as_array().unwrap().clone()
    }
}

/// A configuration with a test provider at this port.
pub(crate) fn configure(dir: &Path, port: u16) {
    let text = format!(
        "[providers.test]\nurl = \"http://127.0.0.1:{port}\"\ntimeout_seconds = 1\n[checkout]\nretry_base_ms = 50\n\
         retry_max_ms = 500\n"
    );
    std::fs::write(dir.join("stockhold.toml"), text).unwrap();
}

/// A server with its provider, whose webhooks it gets.
pub(crate) fn shop(dir: &Path) -> (Server, Provider) {
    let port = free_port();
    configure(dir, port);
    let server = Server::with_variables(dir, "data", &[]);
    let webhook = format!("{}/v1/providers/test/webhook", server.url());
    let provider = Provider::start(dir, port, Some(&webhook));
    (server, provider)
}

/// A request, and the status and the JSON of its answer.
pub(crate) fn call(
    base: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
    headers: &[(&str, &str)],
) -> (u16, Value) {
    try_call(base, method, path, body, headers).unwrap_or_else(|| panic!("{method} {path} got no answer"))
}

/// The same, of a server that may be killed meanwhile.
pub(crate) fn try_call(
    base: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
    headers: &[(&str, &str)],
) -> Option<(u16, Value)> {
    let client = Client::new(base).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let body = body.map(Value::to_string).unwrap_or_default();
    let raw = runtime.block_on(client.send_raw_with(method, path, headers, body.as_bytes())).ok()?;
    Some((raw.status, serde_json::from_slice(&raw.body).unwrap_or(Value::Null)))
}

/// Sets an item with a price of 1,000 a unit.
pub(crate) fn priced_item(server: &Server, sku: &str, total: u64) {
    let body = json!({ "total_units": total, "price": { "unit_amount": 1_000, "currency": "eur" } });
    let (status, answer) = call(&server.url(), "PUT", &format!("/v1/inventory/{sku}"), Some(&body), &[]);
    assert!(status == 200 || status == 201, "{answer}");
}

/// Holds units. Returns the reservation's id.
pub(crate) fn hold(base: &str, sku: &str, quantity: u64) -> Option<String> {
    let body = json!({ "owner_id": "buyer", "quantity": quantity, "ttl_seconds": 60 });
    let (status, answer) = try_call(base, "POST", &format!("/v1/inventory/{sku}/reserve"), Some(&body), &[])?;
    (status == 200).then(|| answer["reservation_id"].as_str().unwrap().to_owned())
}

/// A checkout with a payment method.
pub(crate) fn checkout(method: &str) -> Value {
    json!({ "payment_method": { "provider": "test", "method_ref": method } })
}

/// Reads a reservation.
pub(crate) fn reservation(server: &Server, id: &str) -> Value {
    call(&server.url(), "GET", &format!("/v1/reservations/{id}"), None, &[]).1
}

/// Waits until the payment of a reservation has a state.
pub(crate) fn wait_for_state(server: &Server, id: &str, state: &str) -> Value {
    wait_for(state, || Some(reservation(server, id)).filter(|shown| shown["payment"]["state"] == state))
}

/// Waits until no payment goes on, and compares the ledger of the provider with the reservations: money is there exactly where an order
/// is, nobody was charged twice, and nothing stays authorized.
pub(crate) fn compare(server: &Server, provider: &Provider, ids: &[String]) {
    const UNDER_WAY: [&str; 6] = ["pending", "processing", "authorized", "capturing", "voiding", "refunding"];
    wait_for("the payments to come to rest", || {
        let is_under_way = |id: &String| {
            let state = reservation(server, id)["payment"]["state"].clone();
            state.as_str().is_some_and(|state| UNDER_WAY.contains(&state))
        };
        (!ids.iter().any(is_under_way)).then_some(())
    });
    let ledger = provider.ledger();
    for id in ids {
        let mut shown = reservation(server, id);
        if let Some(replacement) = shown["replaced_by"].as_str() {
            shown = reservation(server, replacement);
        }
        let payments: Vec<&Value> =
            ledger.iter().filter(|payment| payment["reservation_id"] == id.as_str()).collect();
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let net =
            |payment: &&Value| number(&payment["captured_amount"]) - number(&payment["refunded_amount"]);
        let theirs: u64 = payments.iter().map(net).sum();
        let order = &shown["order"];
        let is_paid =
            ["paid", "partially_refunded", "refunded"].iter().any(|status| order["status"] == *status);
        let ours = if is_paid { number(&order["amount"]) - number(&order["refunded_amount"]) } else { 0 };
        assert_eq!(theirs, ours, "{shown}\n{payments:?}");
        let charged = payments.iter().filter(|payment| number(&payment["captured_amount"]) > 0).count();
        assert!(charged <= 1, "charged twice: {payments:?}");
        assert!(!payments.iter().any(|payment| payment["state"] == "authorized"), "{shown}\n{payments:?}");
    }
}
