//! What a client asks, and how it is written down. An operation renders to the same request each time, which is what
//! makes it safe to repeat.

use super::known_reservation::KnownReservation;
use super::{Stock, seat};
use crate::http::Request;
use crate::rng::uuid;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// One request of a client. Reservations are named by their index in what the client knows.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Reserve(Reserve),
    Confirm {
        at: usize,
        order: Option<u64>,
    },
    Release {
        at: usize,
    },
    Extend {
        at: usize,
        ttl: u64,
    },
    Return {
        at: usize,
        number: u64,
        lines: Vec<(usize, u64)>,
    },
    Adjust {
        sku: usize,
        delta: i64,
        number: u64,
    },
    /// The client's own item is made, with so many units.
    Make {
        total: u64,
    },
    /// The client's own item is deleted.
    Delete {
        number: u64,
    },
    /// A reserve that was answered, again.
    Replay {
        at: usize,
    },
}

/// The path of the item that only this client makes and deletes.
pub(super) fn own_item(client: u64) -> String {
    format!("/v1/inventory/own-{client}")
}

/// A reserve: the number makes its key and its owner.
#[derive(Clone, Debug)]
pub(super) struct Reserve {
    pub(super) number: u64,
    pub(super) basket: bool,
    pub(super) partial: bool,
    pub(super) ttl: u64,
    /// (SKU, quantity), each SKU once.
    pub(super) lines: Vec<(usize, u64)>,
    /// Of units with ids: these, from this one on; or any.
    pub(super) first_seat: Option<u64>,
}

impl Op {
    /// The request, by a client whose keys start with `client`.
    pub(super) fn request(&self, client: u64, stock: &[Stock], known: &[KnownReservation]) -> Request {
        let key = |number: u64| Some(uuid(client, number));
        let on = |at: usize, verb: &str| format!("/v1/reservations/{}{verb}", known[at].id);
        let post =
            |path: String, key: Option<String>, body| Request { method: "POST", path, key, body: Some(body) };
        match self {
            Self::Reserve(reserve) => reserve.request(client, stock),
            Self::Replay { at } => known[*at].request.request(client, stock),
            Self::Confirm { at, order } => match order {
                Some(order) => {
                    post(on(*at, "/confirm"), None, json!({"order_id": format!("order-{order}")}).to_string())
                }
                None => Request { method: "POST", path: on(*at, "/confirm"), key: None, body: None },
            },
            Self::Release { at } => Request { method: "DELETE", path: on(*at, ""), key: None, body: None },
            Self::Extend { at, ttl } => {
                post(on(*at, "/extend"), None, json!({"ttl_seconds": ttl}).to_string())
            }
            Self::Return { at, number, lines } => {
                let lines: Vec<_> = lines
                    .iter()
                    .map(|(sku, quantity)| json!({"sku": stock[*sku].sku, "quantity": quantity}))
                    .collect();
                post(
                    on(*at, "/return"),
                    key(*number),
                    json!({"lines": lines, "reason": "harness"}).to_string(),
                )
            }
            Self::Make { total } => Request {
                method: "PUT",
                path: own_item(client),
                key: None,
                body: Some(json!({"total_units": total}).to_string()),
            },
            Self::Delete { number } => {
                Request { method: "DELETE", path: own_item(client), key: key(*number), body: None }
            }
            Self::Adjust { sku, delta, number } => post(
                format!("/v1/inventory/{}/adjust", stock[*sku].sku),
                key(*number),
                json!({"delta": delta, "reason": "harness"}).to_string(),
            ),
        }
    }
}

impl Reserve {
    fn request(&self, client: u64, stock: &[Stock]) -> Request {
        let owner = uuid(self.number, client);
        let fulfilment = if self.partial { "partial" } else { "all" };
        let (path, body) = if self.basket {
            let lines: Vec<_> = self.lines.iter().map(|line| self.line(*line, stock)).collect();
            let body =
                json!({"owner_id": owner, "lines": lines, "ttl_seconds": self.ttl, "fulfilment": fulfilment});
            ("/v1/reservations".to_owned(), body)
        } else {
            let mut body = self.line(self.lines[0], stock);
            body["owner_id"] = owner.into();
            body["ttl_seconds"] = self.ttl.into();
            body["fulfilment"] = fulfilment.into();
            let sku = body.as_object_mut().and_then(|body| body.remove("sku"));
            let sku = sku.as_ref().and_then(Value::as_str).unwrap_or_default();
            (format!("/v1/inventory/{sku}/reserve"), body)
        };
        Request { method: "POST", path, key: Some(uuid(client, self.number)), body: Some(body.to_string()) }
    }

    fn line(&self, line: (usize, u64), stock: &[Stock]) -> Value {
        let (Stock { sku, .. }, quantity) = (&stock[line.0], line.1);
        match self.named(line, stock) {
            Some(units) => json!({"sku": sku, "units": units}),
            None => json!({"sku": sku, "quantity": quantity}),
        }
    }

    /// The ids of the units that a line asks for, where it names them.
    pub(super) fn named(&self, (sku, quantity): (usize, u64), stock: &[Stock]) -> Option<BTreeSet<String>> {
        let Stock { total, seats, .. } = &stock[sku];
        let first = self.first_seat.filter(|_| *seats)?;
        Some((first..first + quantity).map(|n| seat(n % total)).collect())
    }

    /// The status of its success.
    pub(super) fn status(&self) -> u16 {
        if self.basket { 201 } else { 200 }
    }
}
