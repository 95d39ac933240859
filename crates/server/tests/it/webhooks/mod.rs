//! Webhooks: an application that gets them, fails, and comes back.

mod deliveries;
mod endpoints;

use crate::support::Server;
use serde_json::Value;
use stockhold_api::client::Raw;

/// A server that may send webhooks to this machine.
pub(crate) fn server(dir: &tempfile::TempDir) -> Server {
    Server::with_variables(dir.path(), "data", &[("STOCKHOLD_WEBHOOK_ALLOWED_NETWORKS", "127.0.0.1/32")])
}

/// Sends a request to the API.
pub(crate) fn call(server: &Server, method: &str, path: &str, body: &Value) -> Raw {
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
    server.ask(async |client| client.send_raw(method, path, &body).await).unwrap()
}

/// The body of an answer with this status.
#[track_caller]
pub(crate) fn answer(raw: &Raw, status: u16) -> Value {
    assert_eq!(raw.status, status, "{}", String::from_utf8_lossy(&raw.body));
    if raw.body.is_empty() { Value::Null } else { serde_json::from_slice(&raw.body).unwrap() }
}

/// Creates an endpoint: its path and its secret.
pub(crate) fn create(server: &Server, request: &Value) -> (String, String) {
    let made = answer(&call(server, "POST", "/v1/webhooks", request), 201);
    let path = format!("/v1/webhooks/{}", made["webhook_id"].as_str().unwrap());
    (path, made["secret"].as_str().unwrap().to_owned())
}

/// The deliveries of an endpoint with a status.
pub(crate) fn deliveries(server: &Server, path: &str, status: &str) -> Vec<Value> {
    let page = call(server, "GET", &format!("{path}/deliveries?status={status}"), &Value::Null);
    answer(&page, 200)["data"].as_array().unwrap().clone()
}
