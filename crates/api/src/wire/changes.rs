//! What changes a reservation.

use super::{Patch, RequestedLine, Wish, form, is_all};
use serde::Serialize;
use stockhold_domain::ReservationId;

/// A line of a reservation after an amend.
#[derive(Clone, Debug, Serialize)]
pub struct AmendedLine {
    /// The SKU.
    pub sku: String,
    /// The location; `default` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// How many units, or which.
    #[serde(flatten)]
    pub wish: Wish,
}

impl From<RequestedLine> for AmendedLine {
    fn from(line: RequestedLine) -> Self {
        let RequestedLine { sku, location, quantity } = line;
        Self { sku, location, wish: Wish { quantity: Some(quantity), ..Wish::default() } }
    }
}

/// What an amend changes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Amendment {
    /// All lines afterwards. `None` keeps the lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<AmendedLine>>,
    /// Take what is available if it is less than requested.
    #[serde(rename = "fulfilment", skip_serializing_if = "is_all", serialize_with = "form::fulfilment")]
    pub partial: bool,
    /// Moves the deadline to this many seconds from now. `None` keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u32>,
    /// All of the metadata afterwards: an object. An empty one clears it. `None` keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
    /// Take the units although limits refuse them. It needs the scope `limits:override`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub override_limits: bool,
}

/// Who a reservation is for after a transfer. One of the fields at least is set or cleared.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Recipient {
    /// The owner. `None` keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
    /// The buyer.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::setting")]
    pub customer_id: Patch<String>,
    /// The buyer's session.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::setting")]
    pub session_id: Patch<String>,
    /// Take the units although limits refuse them. It needs the scope `limits:override`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub override_limits: bool,
}

/// What a merge says.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MergeRequest {
    /// The holds that give their lines and end.
    #[serde(serialize_with = "form::put_ids")]
    pub from: Vec<ReservationId>,
    /// Take the units although limits refuse them. It needs the scope `limits:override`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub override_limits: bool,
}

/// A payment whose window is opened.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PaymentWindow {
    /// The payment, as the caller names it.
    pub payment_id: String,
    /// Length of the window from now in seconds; the service's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<u32>,
}

/// What a confirm says.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Confirmation {
    /// The order that the reservation becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_id: Option<String>,
    /// The payment. While a payment window is open, it must be that of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_id: Option<String>,
    /// Take the same units again, in a new reservation, if this one has expired.
    #[serde(rename = "if_expired", skip_serializing_if = "std::ops::Not::not", serialize_with = "reacquire")]
    pub reacquire: bool,
    /// Take the units although limits refuse them. It needs the scope `limits:override`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub override_limits: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn reacquire<S: serde::Serializer>(_: &bool, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str("reacquire")
}

/// Sold units that leave the shelf. Without lines and units: all that have not.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Shipment {
    /// A number of units of each item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<RequestedLine>>,
    /// Units by their ids, from any line. Not together with `lines`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<Vec<String>>,
}

/// Sold units that come back. Without lines and units: all of them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReturnedUnits {
    /// A number of units of each item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<RequestedLine>>,
    /// Units by their ids, from any line. Not together with `lines`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<Vec<String>>,
    /// Only `unfulfilled` or only `fulfilled` units. Without it: unfulfilled ones come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<ReturnFrom>,
    /// What becomes of the units.
    #[serde(skip_serializing_if = "Disposition::is_restock")]
    pub disposition: Disposition,
    /// Why.
    pub reason: String,
}

/// The sold units that a return takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnFrom {
    /// Units that have not left the shelf.
    Unfulfilled,
    /// Units that have left the shelf.
    Fulfilled,
}

/// What becomes of returned units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// They can be sold again.
    #[default]
    Restock,
    /// They are taken off the total.
    WriteOff,
}

impl Disposition {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    fn is_restock(&self) -> bool {
        *self == Self::Restock
    }
}
