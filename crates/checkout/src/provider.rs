//! What a payment provider can be asked for, and what it can say.

use std::future::Future;
use std::pin::Pin;
use stockhold_api::encode::BuyerAction;
use stockhold_customers::ProviderMethod;
use stockhold_domain::{Charge, Instant, ProviderRef, ReservationId};

/// The answer to a request to a provider, later.
pub(crate) type ProviderFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProviderError>> + Send + 'a>>;

/// A payment that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaymentRequest<'a> {
    pub(crate) reservation_id: ReservationId,
    pub(crate) payment_id: &'a str,
    pub(crate) charge: &'a Charge,
    /// The payment method. `None` if the customer was erased who had it.
    pub(crate) method: Option<&'a ProviderMethod>,
    /// How many keys payments of the reservation had, this one included.
    pub(crate) attempt: u32,
    /// The idempotency key.
    pub(crate) key: &'a str,
    /// The request was not sent before this time of the wall clock.
    pub(crate) sent_after: Instant,
}

/// A refund that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefundRequest<'a> {
    pub(crate) provider_ref: &'a ProviderRef,
    pub(crate) amount: u64,
    /// How many keys refunds of the payment had, this one included.
    pub(crate) attempt: u32,
    /// The idempotency key.
    pub(crate) key: &'a str,
}

/// A payment as a provider shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderPayment {
    pub(crate) provider_ref: ProviderRef,
    pub(crate) state: ProviderState,
}

/// The state of a payment at its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProviderState {
    RequiresAction(BuyerAction),
    Processing,
    Authorized,
    Captured(u64),
    /// It failed, and can't succeed any more.
    Declined(String),
    Cancelled,
}

/// Why a request to a provider has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProviderError {
    /// The request may or may not have an effect: there was no answer.
    NoAnswer(String),
    /// The provider failed. It may give the same answer again to the same key.
    Failed(String),
    /// The provider declines the payment, the capture or the refund.
    Declined(String),
    /// The request is wrong as it is.
    Refused(String),
    /// The provider does not accept the credential.
    Unauthorized,
}

/// The headers of a webhook that a provider signs with.
#[derive(Clone, Copy, Debug, Default)]
pub struct WebhookHeaders<'a> {
    /// `Stripe-Signature`
    pub stripe_signature: Option<&'a str>,
}

/// A payment provider.
pub(crate) trait PaymentProvider: Send + Sync {
    /// Asks for a payment with a payment method, or repeats the request with the same key.
    fn authorize<'a>(
        &'a self,
        request: &'a PaymentRequest<'a>,
        method: &'a ProviderMethod,
    ) -> ProviderFuture<'a, ProviderPayment>;

    /// Reads a payment.
    fn retrieve<'a>(&'a self, provider_ref: &'a ProviderRef) -> ProviderFuture<'a, ProviderPayment>;

    /// Looks for the payment of a request among those of the customer, if the customer is known, and else among all.
    fn find<'a>(&'a self, request: &'a PaymentRequest<'a>) -> ProviderFuture<'a, Option<ProviderPayment>>;

    /// Moves the money of an authorized payment.
    fn capture<'a>(
        &'a self,
        provider_ref: &'a ProviderRef,
        amount: u64,
        key: &'a str,
    ) -> ProviderFuture<'a, ProviderPayment>;

    /// Ends a payment whose money was not moved.
    fn void<'a>(&'a self, provider_ref: &'a ProviderRef, key: &'a str)
    -> ProviderFuture<'a, ProviderPayment>;

    /// Gives money back.
    fn refund<'a>(&'a self, request: &'a RefundRequest<'a>) -> ProviderFuture<'a, ()>;

    /// Whether a refund was made that was asked for with this attempt.
    fn has_refunded<'a>(&'a self, request: &'a RefundRequest<'a>) -> ProviderFuture<'a, bool>;

    /// Checks the signature of a webhook. Returns the reservation that it is about, if it names one.
    fn read_webhook(
        &self,
        headers: WebhookHeaders<'_>,
        body: &[u8],
        now: Instant,
    ) -> Result<Option<ReservationId>, String>;
}

/// The reservation that a webhook names.
pub(crate) fn reservation_id(text: &str) -> Option<ReservationId> {
    text.parse().ok()
}
