//! Charges: payments that the service takes itself. A charge is part of its reservation. Only the rules change it, so the history of the
//! reservation is the history of its charge.

use crate::label::Label;
use crate::limits::{PROVIDER_REF_BYTES, SEALED_METHOD_BYTES};
use crate::price::Currency;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// The name that a payment provider gave to something: 1 to [`PROVIDER_REF_BYTES`] bytes of visible ASCII.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProviderRef(Arc<str>);

impl ProviderRef {
    /// Checks and takes a text. `None` if it is empty or too long, or has another character than visible ASCII.
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=PROVIDER_REF_BYTES).contains(&text.len());
        (fits && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// When the provider moves the money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureMethod {
    /// The money is reserved, the reservation is confirmed, and then the money is moved.
    #[default]
    AfterConfirm,
    /// The money is moved at once, and then the reservation is confirmed.
    ChargeThenConfirm,
}

/// What becomes of the hold when the payment is declined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDecline {
    /// It is released.
    #[default]
    Release,
    /// It is kept until its deadline, for another payment.
    Keep,
}

/// An amount beside the lines, such as postage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraAmount {
    /// What it is for.
    pub name: Label,
    /// The amount, in the smallest unit of the currency.
    pub amount: u64,
}

/// How the provider finds the payment method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentMethod {
    /// As the caller named it.
    Named {
        /// The customer, as the provider names it.
        customer_ref: Option<ProviderRef>,
        /// The payment method, as the provider names it.
        method_ref: ProviderRef,
    },
    /// As it is stored for a customer.
    Customer {
        /// The customer.
        customer_id: Label,
        /// The same names, encrypted. `None`: the customer has no payment method.
        sealed: Option<SealedRefs>,
    },
}

/// Names of a payment provider, encrypted with a key of the customer: 1 to [`SEALED_METHOD_BYTES`] bytes. Without the key, nobody can
/// read them.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedRefs(Arc<[u8]>);

impl SealedRefs {
    /// Takes encrypted bytes. `None` if they are none or too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (1..=SEALED_METHOD_BYTES).contains(&bytes.len()).then(|| Self(bytes.into()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SealedRefs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedRefs({} bytes)", self.0.len())
    }
}

/// What the caller of a checkout says about its payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckoutTerms {
    /// The payment provider.
    pub provider: Label,
    /// The payment method.
    pub method: PaymentMethod,
    /// When the provider moves the money.
    pub capture: CaptureMethod,
    /// What becomes of the hold when the payment is declined.
    pub on_decline: OnDecline,
    /// Where the provider sends the buyer back to.
    pub return_url: Option<Arc<str>>,
    /// What the provider shows to the buyer.
    pub description: Option<Arc<str>>,
    /// Amounts beside the lines, at most [`crate::limits::EXTRA_AMOUNTS`].
    pub extra: Box<[ExtraAmount]>,
    /// Whether the service notifies the buyer.
    pub notify: bool,
}

/// The state of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeState {
    /// The provider is asked for the money.
    Pending,
    /// The buyer has to do something, such as to confirm the payment at the bank.
    RequiresAction,
    /// The provider needs time.
    Processing,
    /// The money is reserved, and the reservation is confirmed. The provider is asked to move the money.
    Authorized,
    /// The same, after a request that was not answered or failed.
    Capturing,
    /// The money was moved.
    Captured,
    /// The provider declined the payment.
    Declined,
    /// The provider is asked to end the payment.
    Voiding,
    /// The payment was ended. No money is moved.
    Voided,
    /// The provider is asked to give money back.
    Refunding,
    /// All of the money was given back.
    Refunded,
    /// The provider has refused a refund [`crate::limits::REFUND_REFUSALS`] times.
    RefundFailed,
}

impl ChargeState {
    /// Whether nothing is left to do.
    pub const fn is_at_rest(self) -> bool {
        match self {
            Self::Captured | Self::Declined | Self::Voided | Self::Refunded | Self::RefundFailed => true,
            Self::Pending
            | Self::RequiresAction
            | Self::Processing
            | Self::Authorized
            | Self::Capturing
            | Self::Voiding
            | Self::Refunding => false,
        }
    }
}

/// A refund that the provider has not confirmed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRefund {
    /// The amount, at least 1.
    pub amount: u64,
    /// Why.
    pub reason: Label,
}

/// A payment that the service takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Its state.
    pub state: ChargeState,
    /// What the caller said.
    pub terms: Arc<CheckoutTerms>,
    /// The order that the reservation becomes.
    pub order_id: Label,
    /// The amount of all lines and extras.
    pub amount: u64,
    /// The currency.
    pub currency: Currency,
    /// The payment, as the provider names it. `None` until the provider has told it.
    pub provider_ref: Option<ProviderRef>,
    /// Whether the reservation gets its units again if the money comes after its end.
    pub reacquires: bool,
    /// Money that was moved.
    pub captured: u64,
    /// Money that was given back.
    pub refunded: u64,
    /// Keys with which the provider was asked for a capture. A request whose answer is unknown is repeated with the same key.
    pub capture_attempts: u32,
    /// Keys with which the provider was asked for refunds.
    pub refund_attempts: u32,
    /// When the first request with the latest key may have been sent.
    pub attempted_at: Instant,
    /// Refunds that are to be made, in their order, at most [`crate::limits::PENDING_REFUNDS`].
    pub refunds: Vec<PendingRefund>,
    /// Requests in this state that brought nothing new.
    pub tries: u32,
    /// How often the provider refused the first of `refunds`.
    pub refusals: u32,
    /// The code of the latest failure.
    pub error: Option<Label>,
    /// When the provider is asked next. `None` exactly when nothing is left to do.
    pub due_at: Option<Instant>,
}

impl CheckoutTerms {
    /// The customer whose stored payment method is used.
    pub fn customer_id(&self) -> Option<&Label> {
        match &self.method {
            PaymentMethod::Customer { customer_id, .. } => Some(customer_id),
            PaymentMethod::Named { .. } => None,
        }
    }
}

impl Charge {
    /// Whether the money of a confirmed reservation has not been moved yet.
    pub fn awaits_capture(&self) -> bool {
        matches!(self.state, ChargeState::Authorized | ChargeState::Capturing)
    }

    /// Begins a state. What waits for nobody is due at once.
    pub(crate) fn enter(&mut self, state: ChargeState, at: Instant) {
        self.state = state;
        self.tries = 0;
        self.attempted_at = at;
        self.due_at = (!state.is_at_rest()).then_some(at);
    }

    /// Money that can still be given back: neither refunded nor going to be.
    pub fn refundable(&self) -> u64 {
        let pending: u64 = self.refunds.iter().map(|refund| refund.amount).sum();
        self.captured.saturating_sub(self.refunded).saturating_sub(pending)
    }
}

/// The state of an order: of a reservation that was confirmed by a checkout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderStatus {
    /// The money is reserved and not moved yet.
    Authorized,
    /// The money was moved.
    Paid,
    /// The money could not be moved, and the units were returned.
    Cancelled,
    /// Some of the money was given back.
    PartiallyRefunded,
    /// All of the money was given back.
    Refunded,
}
