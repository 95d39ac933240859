//! Checkouts, refunds and orders.

use super::payment::OrderSummary;
use super::{Line, RequestedLine, form};
use serde::{Deserialize, Serialize};
use stockhold_domain::{Instant, ReservationId};

/// How a reservation is paid.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CheckoutRequest {
    /// Who pays how. Not together with a customer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_method: Option<PaymentMethod>,
    /// The customer whose stored payment method is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customer_id: Option<String>,
    /// `after_confirm`, the default, or `charge_then_confirm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
    /// `release`, the default, or `keep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_decline: Option<String>,
    /// Whether the buyer is notified by mail and push.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub notify: bool,
    /// The order that the reservation becomes; a new id when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_id: Option<String>,
    /// Length of the payment window in seconds; 900 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<u32>,
    /// Where the provider sends the buyer back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub return_url: Option<String>,
    /// What the provider shows to the buyer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Amounts beside the lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<ExtraAmount>,
}

/// Who pays how, as the provider names it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PaymentMethod {
    /// The provider.
    pub provider: String,
    /// The payment method.
    pub method_ref: String,
    /// The customer, if the method is stored with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customer_ref: Option<String>,
}

/// An amount beside the lines, such as postage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraAmount {
    /// What it is for.
    pub name: String,
    /// The amount, in the smallest unit of the currency.
    pub amount: u64,
}

/// How much is given back. Without an amount, lines and units: all that is left.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RefundRequest {
    /// An amount. Not together with lines or units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<u64>,
    /// What these units cost. They are returned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<RequestedLine>,
    /// What these units with ids cost. They are returned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<String>,
    /// Why, for the record.
    pub reason: String,
}

/// An order: what a reservation became by a checkout.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Order {
    /// The order and its money.
    #[serde(flatten)]
    pub summary: OrderSummary,
    /// Amounts beside the lines.
    #[serde(default)]
    pub extra: Vec<ExtraAmount>,
    /// The reservation.
    #[serde(deserialize_with = "form::id")]
    pub reservation_id: ReservationId,
    /// The owner of the reservation.
    pub owner_id: String,
    /// The buyer.
    pub customer_id: Option<String>,
    /// The payment.
    pub payment_id: String,
    /// What was bought.
    pub lines: Vec<Line>,
    /// When the reservation was confirmed.
    #[serde(deserialize_with = "form::time")]
    pub created_at: Instant,
}
