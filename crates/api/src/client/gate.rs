//! The calls on the gate.

use super::Client;
use super::attempt::Error;
use super::request::{Request, push_parameter};
use crate::wire::{Gate, GateReload};

impl Client {
    /// The state of the gate.
    pub async fn gate(&self) -> Result<Gate, Error> {
        self.http.read(Request::new("GET", "/v1/gate".to_owned())).await
    }

    /// Writes the gate's counters anew: of one item, of the items at a location, or of all gated items.
    pub async fn reload_gate(&self, sku: Option<&str>, location: Option<&str>) -> Result<GateReload, Error> {
        let mut path = "/v1/gate/reload".to_owned();
        push_parameter(&mut path, "sku", sku);
        push_parameter(&mut path, "location", location);
        self.http.read(Request::new("POST", path)).await
    }
}
