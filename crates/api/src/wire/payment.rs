//! The payment of a reservation.

use super::form;
use serde::Deserialize;
use stockhold_domain::Instant;

/// The latest payment of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Payment {
    /// The payment, as the caller named it.
    pub payment_id: String,
    /// Whether the payment is under way.
    pub state: PaymentState,
    /// When the window ends.
    #[serde(deserialize_with = "form::time")]
    pub until: Instant,
    /// The provider, if Stockhold takes the payment.
    pub provider: Option<String>,
    /// The payment, as the provider names it.
    pub provider_ref: Option<String>,
    /// How often the present step was asked for with a new key.
    pub attempt: Option<u32>,
    /// What is to be paid, in the smallest unit of the currency.
    pub amount: Option<u64>,
    /// The three letters of the currency.
    pub currency: Option<String>,
    /// What was taken.
    pub captured_amount: Option<u64>,
    /// What was given back.
    pub refunded_amount: Option<u64>,
    /// Whether the buyer is notified.
    #[serde(default)]
    pub notify: bool,
    /// The code of the latest failure.
    pub error: Option<String>,
    /// What the buyer has to do before the payment goes on.
    pub next_action: Option<NextAction>,
}

/// What a buyer has to do before a payment goes on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NextAction {
    /// Go to an address.
    Redirect {
        /// The address.
        url: String,
    },
    /// Use the provider's own library.
    ProviderSdk {
        /// What the library needs. A secret of the buyer.
        client_secret: String,
    },
}

/// The order that a reservation became by a checkout.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OrderSummary {
    /// The order.
    pub order_id: String,
    /// What became of its money: `authorized`, `paid`, `cancelled`, `partially_refunded` or `refunded`.
    pub status: String,
    /// What it costs: all lines and extras.
    pub amount: u64,
    /// What was given back.
    pub refunded_amount: u64,
    /// The three letters of the currency.
    pub currency: String,
}

/// The state of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentState {
    /// The payment is under way.
    Open,
    /// The reservation was confirmed, or the window was closed.
    Closed,
    /// The reservation expired in the window.
    Lapsed,
    /// Of a checkout, as the other states: the provider is asked for the money.
    Pending,
    /// The buyer has to do something.
    RequiresAction,
    /// The provider needs time.
    Processing,
    /// The money is reserved.
    Authorized,
    /// The provider is asked again to move the money.
    Capturing,
    /// The money was moved.
    Captured,
    /// The provider declined the payment.
    Declined,
    /// The payment is to be ended.
    Voiding,
    /// The payment was ended.
    Voided,
    /// Money is to be given back.
    Refunding,
    /// All of the money was given back.
    Refunded,
    /// The provider has refused a refund ten times.
    RefundFailed,
}
