//! The commands that change a reservation or its sale, as requests. Each has a key.

use super::Stock;
use super::known_reservation::KnownReservation;
use crate::http::Request;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A change of one reservation.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Amend(Amend),
    Transfer {
        owner: String,
        /// Cleared when it is `None`.
        customer: Option<String>,
        if_match: Option<u64>,
    },
    Split {
        lines: Vec<(usize, u64)>,
        if_match: Option<u64>,
    },
    Merge {
        from: Vec<usize>,
        if_match: Option<u64>,
    },
    OpenPayment {
        payment: String,
        window: u64,
        if_match: Option<u64>,
    },
    ClosePayment {
        payment: Option<String>,
    },
    Fulfil {
        /// Everything that is left, when it is `None`.
        lines: Option<Vec<(usize, u64)>>,
    },
    Return {
        lines: Vec<(usize, u64)>,
        from: Option<ReturnFrom>,
        write_off: bool,
    },
}

/// Which sold units come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReturnFrom {
    Unfulfilled,
    Fulfilled,
}

/// All lines of a reservation afterwards, and other terms.
#[derive(Clone, Debug)]
pub(super) struct Amend {
    /// The lines stay when it is `None`.
    pub(super) lines: Option<Vec<AmendedLine>>,
    pub(super) partial: bool,
    pub(super) ttl: Option<u64>,
    pub(super) note: Option<u64>,
    pub(super) if_match: Option<u64>,
}

/// A line of an amend.
#[derive(Clone, Debug)]
pub(super) struct AmendedLine {
    pub(super) sku: usize,
    pub(super) quantity: u64,
    /// The units, where they are named.
    pub(super) units: Option<BTreeSet<String>>,
}

impl Change {
    /// The request on the reservation at `at`.
    pub(super) fn request(
        &self,
        at: usize,
        key: String,
        stock: &[Stock],
        known: &[KnownReservation],
    ) -> Request {
        let (method, end, body) = match self {
            Self::Amend(amend) => ("PATCH", String::new(), Some(amend.body(stock))),
            Self::Transfer { owner, customer, .. } => {
                ("POST", "/transfer".to_owned(), Some(json!({"owner_id": owner, "customer_id": customer})))
            }
            Self::Split { lines, .. } => {
                ("POST", "/split".to_owned(), Some(json!({"lines": counted(lines, stock)})))
            }
            Self::Merge { from, .. } => {
                let from: Vec<&str> = from.iter().map(|at| known[*at].id.as_str()).collect();
                ("POST", "/merge".to_owned(), Some(json!({"from": from})))
            }
            Self::OpenPayment { payment, window, .. } => {
                let body = json!({"payment_id": payment, "window_seconds": window});
                ("POST", "/payment".to_owned(), Some(body))
            }
            Self::ClosePayment { payment } => {
                let payment = payment.iter().map(|payment| format!("&payment_id={payment}"));
                ("DELETE", format!("/payment?reason=declined{}", payment.collect::<String>()), None)
            }
            Self::Fulfil { lines } => {
                let body = lines.as_ref().map(|lines| json!({"lines": counted(lines, stock)}));
                ("POST", "/fulfil".to_owned(), body)
            }
            Self::Return { lines, from, write_off } => {
                let mut body = json!({"lines": counted(lines, stock), "reason": "harness"});
                match from {
                    Some(ReturnFrom::Unfulfilled) => body["from"] = "unfulfilled".into(),
                    Some(ReturnFrom::Fulfilled) => body["from"] = "fulfilled".into(),
                    None => {}
                }
                if *write_off {
                    body["disposition"] = "write_off".into();
                }
                ("POST", "/return".to_owned(), Some(body))
            }
        };
        let path = format!("/v1/reservations/{}{end}", known[at].id);
        let body = body.map(|body: Value| body.to_string());
        Request { method, path, key: Some(key), if_match: self.if_match(), body }
    }

    /// The name of its kind in reports.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Amend(_) => "amend",
            Self::Transfer { .. } => "transfer",
            Self::Split { .. } => "split",
            Self::Merge { .. } => "merge",
            Self::OpenPayment { .. } => "open_payment",
            Self::ClosePayment { .. } => "close_payment",
            Self::Fulfil { .. } => "fulfil",
            Self::Return { write_off: false, .. } => "return",
            Self::Return { write_off: true, .. } => "write_off",
        }
    }

    /// The status of its success.
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::Split { .. } => 201,
            Self::ClosePayment { .. } => 204,
            _ => 200,
        }
    }

    /// The version that it demands.
    pub(super) fn if_match(&self) -> Option<u64> {
        match self {
            Self::Amend(amend) => amend.if_match,
            Self::Transfer { if_match, .. }
            | Self::Split { if_match, .. }
            | Self::Merge { if_match, .. }
            | Self::OpenPayment { if_match, .. } => *if_match,
            Self::ClosePayment { .. } | Self::Fulfil { .. } | Self::Return { .. } => None,
        }
    }
}

impl Amend {
    fn body(&self, stock: &[Stock]) -> Value {
        let mut body = json!({});
        if let Some(lines) = &self.lines {
            let line = |line: &AmendedLine| match &line.units {
                Some(units) => json!({"sku": stock[line.sku].sku, "units": units}),
                None => json!({"sku": stock[line.sku].sku, "quantity": line.quantity}),
            };
            body["lines"] = lines.iter().map(line).collect();
        }
        if self.partial {
            body["fulfilment"] = "partial".into();
        }
        if let Some(ttl) = self.ttl {
            body["ttl_seconds"] = ttl.into();
        }
        if let Some(note) = self.note {
            body["metadata"] = json!({ "note": note });
        }
        body
    }
}

fn counted(lines: &[(usize, u64)], stock: &[Stock]) -> Value {
    let line = |(sku, quantity): &(usize, u64)| json!({"sku": stock[*sku].sku, "quantity": quantity});
    lines.iter().map(line).collect()
}
