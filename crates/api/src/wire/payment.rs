//! The payment of a reservation.

use super::form;
use serde::Deserialize;
use stockhold_domain::Instant;

/// A payment window of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Payment {
    /// The payment, as the caller named it.
    pub payment_id: String,
    /// Whether the payment is under way.
    pub state: PaymentState,
    /// When the window ends.
    #[serde(deserialize_with = "form::time")]
    pub until: Instant,
}

/// The state of a payment window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentState {
    /// The payment is under way.
    Open,
    /// The reservation was confirmed, or the window was closed.
    Closed,
    /// The reservation expired in the window.
    Lapsed,
}
