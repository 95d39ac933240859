//! The profiles over the real server: hubs and storefronts, on the API's listener and on listeners of their own.

mod hub;
mod listeners;
pub(crate) mod orders;
mod storefront;

use crate::api::wire::{Answer, Call, Wire};
use crate::support::{Server, free_port};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};

/// A server with listeners for both profiles.
pub(super) struct ProfileServer {
    pub(super) server: Server,
    hub_port: u16,
    storefront_port: u16,
    /// Removed with the server.
    _dir: tempfile::TempDir,
}

impl ProfileServer {
    pub(super) fn start() -> Self {
        Self::configured("")
    }

    /// One with these lines in its configuration file.
    pub(super) fn configured(settings: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (hub_port, storefront_port) = (free_port(), free_port());
        std::fs::write(dir.path().join("stockhold.toml"), settings).unwrap();
        let address = |port: u16| format!("127.0.0.1:{port}");
        let variables = [
            ("STOCKHOLD_HUB_LISTEN", address(hub_port)),
            ("STOCKHOLD_STOREFRONT_LISTEN", address(storefront_port)),
        ];
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
        let server = Server::with_variables(dir.path(), "data", &variables);
        Self { server, hub_port, storefront_port, _dir: dir }
    }

    /// A connection to the API.
    pub(super) fn api(&self) -> Wire {
        connect(self.server.ports()[0])
    }

    /// A connection to the hub's own listener.
    pub(super) fn hub(&self) -> Wire {
        connect(self.hub_port)
    }

    /// A connection to the storefront's own listener.
    pub(super) fn storefront(&self) -> Wire {
        connect(self.storefront_port)
    }
}

fn connect(port: u16) -> Wire {
    Wire::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// Makes an item, or sets its stock, with these settings.
#[track_caller]
pub(super) fn stock_with(wire: &mut Wire, location: &str, sku: &str, settings: &Value) {
    let answer = wire.ask(&Call::put(format!("/v1/inventory/{sku}?location={location}")).json(settings));
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
}

#[track_caller]
pub(super) fn stock(wire: &mut Wire, location: &str, sku: &str, total: u64) {
    stock_with(wire, location, sku, &json!({ "total_units": total }));
}

/// Units of an item that are held and sold.
#[track_caller]
pub(super) fn held_and_sold(wire: &mut Wire, location: &str, sku: &str) -> (u64, u64) {
    let item = wire.ask(&Call::get(format!("/v1/inventory/{sku}?location={location}"))).json();
    (item["held_units"].as_u64().unwrap(), item["confirmed_sold"].as_u64().unwrap())
}

pub(super) fn hub_reserve(hub: &str, sku: &str, qty: u64, order: &str, user: &str) -> Call {
    let body = json!({ "hub_id": hub, "sku": sku, "qty": qty, "order_id": order, "user_id": user });
    Call::post("/hub/reserve").json(&body)
}

/// The data of a good answer of a hub.
#[track_caller]
pub(super) fn data(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.json();
    assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
    body["data"].clone()
}

/// Asserts the status and the word of a refusal; its body.
#[track_caller]
pub(super) fn refused(answer: &Answer, status: u16, word: &str) -> Value {
    let body = answer.json();
    assert_eq!((answer.status, &body["error"]), (status, &json!(word)), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    body
}
