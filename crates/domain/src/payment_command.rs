//! Commands about payments: of windows that the caller opens, and of charges that the service takes.

use crate::charge::{CheckoutTerms, ProviderRef};
use crate::event::Disposition;
use crate::id::ReservationId;
use crate::label::Label;
use crate::precondition::Precondition;
use crate::sale_selection::SaleSelection;
use crate::time::Seconds;

/// See [`crate::Command::OpenPayment`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPayment {
    /// Which reservation.
    pub id: ReservationId,
    /// The payment, as the caller names it.
    pub payment_id: Label,
    /// Length of the window from now. Without it: [`Seconds::DEFAULT_PAYMENT`] or the longest that the items allow, if that is less.
    pub window: Option<Seconds>,
    /// The precondition on the version of the reservation.
    pub expected: Option<Precondition>,
}

/// See [`crate::Command::ClosePayment`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosePayment {
    /// Which reservation.
    pub id: ReservationId,
    /// The payment whose window is closed. `None` means the open one.
    pub payment_id: Option<Label>,
    /// Why.
    pub reason: Option<Label>,
}

/// See [`crate::Command::StartCheckout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartCheckout {
    /// Which reservation.
    pub id: ReservationId,
    /// How it is paid.
    pub request: CheckoutRequest,
    /// The precondition on the version of the reservation.
    pub expected: Option<Precondition>,
}

/// How a reservation is paid, and what it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckoutRequest {
    /// The order that the reservation becomes. Without it, the order gets a new id.
    pub order_id: Option<Label>,
    /// How it is paid.
    pub terms: CheckoutTerms,
    /// Length of the payment window from now, cut to what the items leave. Without it: [`Seconds::DEFAULT_PAYMENT`].
    pub window: Option<Seconds>,
}

/// See [`crate::Command::AdvancePayment`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvancePayment {
    /// Which reservation.
    pub id: ReservationId,
    /// What happened.
    pub step: PaymentStep,
}

/// What moves a payment on that the service takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentStep {
    /// The provider was asked.
    Reported {
        /// The version of the reservation that the request was made for. Nothing happens if it has another one.
        version: u64,
        /// What the provider said.
        report: ProviderReport,
        /// Milliseconds until the provider is asked again, if the payment needs that.
        wait_ms: u64,
    },
    /// The caller gives the payment up. Its hold is released as soon as the provider has ended the payment.
    Cancel,
    /// A failed refund is tried again.
    RetryRefund,
    /// The provider has said that something changed: it is asked now.
    Wake,
}

/// What is known about a payment after a request to its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderReport {
    /// Nothing: no answer came, or one that says nothing about the payment.
    NoAnswer {
        /// A code of what came instead.
        error: Label,
    },
    /// The request failed, and it is certain that it has no effect. It can be made again with a new key.
    Failed {
        /// A code of the failure.
        error: Label,
    },
    /// The buyer has to do something.
    RequiresAction {
        /// The payment, as the provider names it.
        provider_ref: ProviderRef,
    },
    /// The provider needs time.
    Processing {
        /// The payment, as the provider names it.
        provider_ref: ProviderRef,
    },
    /// The money is reserved.
    Authorized {
        /// The payment, as the provider names it.
        provider_ref: ProviderRef,
    },
    /// The money was moved.
    Captured {
        /// The payment, as the provider names it.
        provider_ref: ProviderRef,
        /// How much.
        amount: u64,
    },
    /// The payment was declined, or its capture was.
    Declined {
        /// The code of the provider.
        error: Label,
    },
    /// The payment was ended, or it was never made and can't be made any more.
    Cancelled,
    /// The first of the pending refunds was made.
    Refunded,
    /// The provider refused the first of the pending refunds.
    RefundRefused {
        /// The code of the provider.
        error: Label,
    },
}

/// See [`crate::Command::Refund`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    /// Which reservation.
    pub id: ReservationId,
    /// How much.
    pub selection: RefundSelection,
    /// Why.
    pub reason: Label,
}

/// How much is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundSelection {
    /// All that can be given back.
    Rest,
    /// This amount, at least 1.
    Amount(u64),
    /// What these units cost. They are returned in the same commit.
    Lines {
        /// Which units.
        selection: SaleSelection,
        /// What becomes of them.
        disposition: Disposition,
    },
}
