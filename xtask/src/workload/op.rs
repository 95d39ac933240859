//! What a client asks, and how it is written down. An operation renders to the same request each time, which is what
//! makes it safe to repeat.

use super::change::Change;
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
    Confirm(Confirm),
    Release {
        at: usize,
    },
    Extend {
        at: usize,
        ttl: u64,
        /// Of its key; without one it may move the deadline each time that it is sent.
        number: Option<u64>,
    },
    /// A change of a reservation that has a key.
    Change {
        at: usize,
        number: u64,
        change: Change,
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
    /// The request that made a reservation, again.
    Replay {
        at: usize,
    },
    /// A change that was acknowledged, again.
    ChangeAgain(Box<Acknowledged>),
}

/// A request with a key that was acknowledged, and what its success was.
#[derive(Clone, Debug)]
pub(super) struct Acknowledged {
    pub(super) request: Request,
    pub(super) status: u16,
    /// The reservation in its answer.
    pub(super) at: usize,
}

/// A confirm, in the words of its body.
#[derive(Clone, Debug)]
pub(super) struct Confirm {
    pub(super) at: usize,
    pub(super) order: Option<u64>,
    pub(super) payment: Option<String>,
    /// If the reservation has expired, its units are taken again. Such a confirm has a key.
    pub(super) reacquire: bool,
    /// Of its key.
    pub(super) number: Option<u64>,
}

/// The path of the item that only this client makes and deletes.
pub(super) fn own_item(client: u64) -> String {
    format!("/v1/inventory/own-{client}")
}

/// A reserve: the number makes its key and its owner.
#[derive(Clone, Debug)]
pub(super) struct Reserve {
    pub(super) client: u64,
    pub(super) number: u64,
    pub(super) basket: bool,
    pub(super) partial: bool,
    pub(super) ttl: u64,
    pub(super) customer: Option<String>,
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
        let request = |method, path: String, key, body| Request { method, path, key, if_match: None, body };
        match self {
            Self::Reserve(reserve) => reserve.request(stock),
            Self::Replay { at } => known[*at].made_by.request.clone(),
            Self::ChangeAgain(again) => again.request.clone(),
            Self::Change { at, number, change } => change.request(*at, uuid(client, *number), stock, known),
            Self::Confirm(confirm) => {
                let number = confirm.number.and_then(key);
                request("POST", on(confirm.at, "/confirm"), number, confirm.body())
            }
            Self::Release { at } => request("DELETE", on(*at, ""), None, None),
            Self::Extend { at, ttl, number } => {
                let body = json!({"ttl_seconds": ttl}).to_string();
                request("POST", on(*at, "/extend"), number.and_then(key), Some(body))
            }
            Self::Make { total } => {
                request("PUT", own_item(client), None, Some(json!({"total_units": total}).to_string()))
            }
            Self::Delete { number } => request("DELETE", own_item(client), key(*number), None),
            Self::Adjust { sku, delta, number } => request(
                "POST",
                format!("/v1/inventory/{}/adjust", stock[*sku].sku),
                key(*number),
                Some(json!({"delta": delta, "reason": "harness"}).to_string()),
            ),
        }
    }

    /// The name of its kind in reports.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Reserve(_) => "reserve",
            Self::Confirm(Confirm { reacquire: true, .. }) => "reacquire",
            Self::Confirm(_) => "confirm",
            Self::Release { .. } => "release",
            Self::Extend { .. } => "extend",
            Self::Change { change, .. } => change.kind(),
            Self::Adjust { .. } => "adjust",
            Self::Make { .. } => "make",
            Self::Delete { .. } => "delete",
            Self::Replay { .. } | Self::ChangeAgain(_) => "replay",
        }
    }
}

impl Confirm {
    fn body(&self) -> Option<String> {
        let mut body = serde_json::Map::new();
        if let Some(order) = self.order {
            body.insert("order_id".to_owned(), format!("order-{order}").into());
        }
        if let Some(payment) = &self.payment {
            body.insert("payment_id".to_owned(), payment.as_str().into());
        }
        if self.reacquire {
            body.insert("if_expired".to_owned(), "reacquire".into());
        }
        (!body.is_empty()).then(|| Value::Object(body).to_string())
    }
}

impl Reserve {
    pub(super) fn request(&self, stock: &[Stock]) -> Request {
        let owner = self.owner();
        let fulfilment = if self.partial { "partial" } else { "all" };
        let (path, mut body) = if self.basket {
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
        if let Some(customer) = &self.customer {
            body["customer_id"] = customer.as_str().into();
        }
        let key = Some(uuid(self.client, self.number));
        Request { method: "POST", path, key, if_match: None, body: Some(body.to_string()) }
    }

    pub(super) fn owner(&self) -> String {
        uuid(self.number, self.client)
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
