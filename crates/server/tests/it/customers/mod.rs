//! Customers: personal data that is encrypted, rotated and erased, and checkouts with stored payment methods.

mod checkouts;
mod keys;
mod rest;
mod routes;
mod service_secrets;
mod shared;

use crate::support::Server;
use serde_json::{Value, json};
use std::path::Path;
use stockhold_api::client::Client;

pub(crate) use shared::two_instances_share_customers;

/// Two keys of a configuration.
pub(crate) const FIRST_KEY: &str = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SECOND_KEY: &str = "k2:Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";
/// The variable with the keys.
pub(crate) const VARIABLE: &str = "STOCKHOLD_CUSTOMERS_ENCRYPTION_KEYS";
/// A text that must be nowhere in plain text.
const EMAIL: &str = "anna.personal@example.com";

/// An answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    etag: Option<String>,
    body: Value,
}

impl Answer {
    fn reason(&self) -> (u16, &str) {
        (self.status, self.body["reason"].as_str().unwrap_or_default())
    }
}

/// Sends a request.
fn send(base: &str, method: &str, path: &str, body: Option<&Value>, headers: &[(&str, &str)]) -> Answer {
    let client = Client::new(base).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let body = body.map(Value::to_string).unwrap_or_default();
    let raw = runtime.block_on(client.send_raw_with(method, path, headers, body.as_bytes())).unwrap();
    Answer {
        status: raw.status,
        etag: raw.headers.get("etag").map(|tag| tag.to_str().unwrap().to_owned()),
        body: serde_json::from_slice(&raw.body).unwrap_or(Value::Null),
    }
}

fn put(server: &Server, id: &str, body: &Value) -> Answer {
    send(&server.url(), "PUT", &format!("/v1/customers/{id}"), Some(body), &[])
}

fn get(server: &Server, id: &str) -> Answer {
    send(&server.url(), "GET", &format!("/v1/customers/{id}"), None, &[])
}

fn delete(server: &Server, id: &str) -> Answer {
    send(&server.url(), "DELETE", &format!("/v1/customers/{id}"), None, &[])
}

/// A customer with a payment method of the test provider.
fn anna(method: &str) -> Value {
    json!({
        "provider_refs": { "test": { "method_ref": method, "customer_ref": "cus_personal" } },
        "email": EMAIL, "push_token": "token:personal", "locale": "de-CH",
    })
}

/// Stores a customer.
pub(crate) fn store_one(server: &Server) {
    assert_eq!(put(server, "anna", &anna("approve")).status, 201);
}

/// Expects the customer of [`store_one`].
pub(crate) fn expect_it(server: &Server) {
    assert_eq!(get(server, "anna").body["email"], EMAIL);
}

/// A server with these keys, separated by commas.
fn server(dir: &Path, keys: &str) -> Server {
    Server::with_variables(dir, "data", &[(VARIABLE, keys)])
}
