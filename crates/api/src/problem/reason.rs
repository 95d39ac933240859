//! The reasons, and what goes with each: status, title, whether to try again, and its page.

use stockhold_domain::{AccessDenied, Rejection};
use stockhold_store::Failure;

/// Declares the reasons in one table, so that none lacks a part.
macro_rules! reasons {
    ($($reason:ident $name:literal $status:literal $retryable:literal $title:literal)+) => {
        /// Why something was not done.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = $title] $reason,)+
        }

        impl Reason {
            /// All of them, by status.
            pub const ALL: &[Self] = &[$(Self::$reason),+];

            /// Its name in answers, paths and metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$reason => $name),+ }
            }

            /// By its name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$reason),)+ _ => None }
            }

            /// The status that it is answered with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$reason => $status),+ }
            }

            /// Whether a program may retry the same request. It never may where a person has to decide.
            pub const fn retryable(self) -> bool {
                match self { $(Self::$reason => $retryable),+ }
            }

            /// What it is called in a few words.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$reason => $title),+ }
            }

            /// Its page in Markdown: what it means, why it happens, what to do.
            pub const fn page(self) -> &'static str {
                match self { $(Self::$reason => include_str!(concat!("../../problems/", $name, ".md"))),+ }
            }
        }
    };
}

reasons! {
    InvalidRequest "invalid_request" 400 false "The request is invalid"
    PositionOutOfRange "position_out_of_range" 400 false "No such position of events"
    InvalidSignature "invalid_signature" 400 false "The signature is not valid"
    Unauthenticated "unauthenticated" 401 false "A credential is needed"
    PaymentDeclined "payment_declined" 402 false "The payment was declined"
    Forbidden "forbidden" 403 false "Forbidden"
    UnknownItem "unknown_item" 404 false "No such item"
    UnknownReservation "unknown_reservation" 404 false "No such reservation"
    UnknownUnit "unknown_unit" 404 false "No such unit"
    UnknownSupply "unknown_supply" 404 false "No such delivery"
    UnknownLimit "unknown_limit" 404 false "No such limit"
    UnknownPool "unknown_pool" 404 false "No such pool"
    UnknownSink "unknown_sink" 404 false "No such sink"
    UnknownWebhook "unknown_webhook" 404 false "No such webhook endpoint"
    UnknownDelivery "unknown_delivery" 404 false "No such delivery"
    UnknownOrder "unknown_order" 404 false "No such order"
    UnknownCustomer "unknown_customer" 404 false "No such customer"
    UnknownKey "unknown_key" 404 false "No such API key"
    UnknownRoute "unknown_route" 404 false "No such path"
    MethodNotAllowed "method_not_allowed" 405 false "The path does not take this method"
    RequestTimeout "request_timeout" 408 true "The request did not arrive in time"
    InsufficientInventory "insufficient_inventory" 409 false "Too little is left"
    UnitsUnavailable "units_unavailable" 409 false "Units are not available"
    UnitInUse "unit_in_use" 409 false "The unit is held or sold"
    ItemInUse "item_in_use" 409 false "The item is in use"
    SalePaused "sale_paused" 409 false "The sale is paused"
    LimitExceeded "limit_exceeded" 409 false "A limit leaves too few units"
    TooManyLimits "too_many_limits" 409 false "There are as many limits as there may be"
    TooManyPools "too_many_pools" 409 false "The item has as many pools as it may have"
    ReservationExpired "reservation_expired" 409 false "The reservation has expired"
    ReservationCancelled "reservation_cancelled" 409 false "The reservation was released"
    ReservationConfirmed "reservation_confirmed" 409 false "The reservation is confirmed"
    PaymentInProgress "payment_in_progress" 409 false "A payment is in progress"
    PriceMissing "price_missing" 409 false "A line has no price"
    PaymentNotCaptured "payment_not_captured" 409 false "No money was taken"
    RefundExceedsCaptured "refund_exceeds_captured" 409 false "More would be refunded than was taken"
    PaymentMethodMissing "payment_method_missing" 409 false "The customer has no payment method"
    EncryptionKeyMissing "encryption_key_missing" 409 false "No encryption key is configured"
    SplitExceedsHeld "split_exceeds_held" 409 false "More would be split off than is held"
    ReservationNotConfirmed "reservation_not_confirmed" 409 false "The reservation was never confirmed"
    FulfilExceedsSold "fulfil_exceeds_sold" 409 false "More would be fulfilled than was sold"
    FulfilExceedsOnHand "fulfil_exceeds_on_hand" 409 false "More would leave the shelf than is on it"
    ReturnExceedsSold "return_exceeds_sold" 409 false "More would be returned than was sold"
    ExtensionLimit "extension_limit" 409 false "The deadline can't be later"
    StockOwnedElsewhere "stock_owned_elsewhere" 409 false "An external system owns the total"
    BelowCommitted "below_committed" 409 false "Less would exist than is promised"
    GateNotConfigured "gate_not_configured" 409 false "No gate is configured"
    ArchiveFailed "archive_failed" 409 false "The archive can't be made"
    SinkInUse "sink_in_use" 409 false "The sink is in use"
    TooManyWebhooks "too_many_webhooks" 409 false "There are as many webhook endpoints as there may be"
    WebhookDisabled "webhook_disabled" 409 false "The webhook endpoint is disabled"
    KeyEnded "key_ended" 409 false "The API key has ended"
    PreconditionFailed "precondition_failed" 412 false "The version is not as expected"
    TooLarge "too_large" 413 false "The request is too large"
    UnsupportedMediaType "unsupported_media_type" 415 false "The body is not JSON"
    MisdirectedRequest "misdirected_request" 421 false "The server has another name"
    IdempotencyMismatch "idempotency_mismatch" 422 false "The idempotency key was used for another request"
    ModeMismatch "mode_mismatch" 422 false "The item has the other mode"
    TtlTooLong "ttl_too_long" 422 false "The time to live is too long"
    CustomerRequired "customer_required" 422 false "A customer is needed"
    QuantityLimit "quantity_limit" 422 false "More than one reservation may hold"
    RateLimited "rate_limited" 429 true "Too many requests"
    HeadersTooLarge "headers_too_large" 431 false "The headers are too large"
    Internal "internal" 500 true "Internal error"
    SinkFailed "sink_failed" 502 false "The sink can't be reached"
    Overloaded "overloaded" 503 true "The server is overloaded"
    Unavailable "unavailable" 503 true "The store can't work now"
    OutcomeUnknown "outcome_unknown" 503 true "The outcome is unknown"
}

/// After a full queue: it drains in much less.
const OVERLOADED_SECONDS: u32 = 1;
/// After trouble with the store: a restart or a failover takes about so long.
const UNAVAILABLE_SECONDS: u32 = 5;
/// After a lost commit: the answer is known as soon as the store works again.
const UNKNOWN_SECONDS: u32 = 1;

impl Reason {
    /// The `Retry-After` that goes with it, in seconds.
    pub const fn retry_after(self) -> Option<u32> {
        match self {
            Self::Overloaded => Some(OVERLOADED_SECONDS),
            Self::Unavailable => Some(UNAVAILABLE_SECONDS),
            Self::OutcomeUnknown => Some(UNKNOWN_SECONDS),
            _ => None,
        }
    }

    /// What a refusal of the rules is called.
    pub fn of(rejection: &Rejection) -> Self {
        match rejection {
            Rejection::InvalidRequest(_) => Self::InvalidRequest,
            Rejection::TtlTooLong { .. } => Self::TtlTooLong,
            Rejection::ModeMismatch { .. } => Self::ModeMismatch,
            Rejection::UnknownItem(_) => Self::UnknownItem,
            Rejection::SalePaused(_) | Rejection::OutsideSaleWindow { .. } => Self::SalePaused,
            Rejection::CustomerRequired { .. } => Self::CustomerRequired,
            Rejection::LimitExceeded(_) => Self::LimitExceeded,
            Rejection::UnknownLimit(_) => Self::UnknownLimit,
            Rejection::TooManyLimits => Self::TooManyLimits,
            Rejection::UnknownPool { .. } => Self::UnknownPool,
            Rejection::TooManyPools(_) => Self::TooManyPools,
            Rejection::ExceedsOnHand { .. } => Self::FulfilExceedsOnHand,
            Rejection::UnknownSupply { .. } => Self::UnknownSupply,
            Rejection::QuantityLimit { .. } => Self::QuantityLimit,
            Rejection::UnitsUnavailable(_) => Self::UnitsUnavailable,
            Rejection::UnknownUnit { .. } => Self::UnknownUnit,
            Rejection::UnitInUse { .. } => Self::UnitInUse,
            Rejection::ItemInUse { .. } => Self::ItemInUse,
            Rejection::InsufficientInventory(_) => Self::InsufficientInventory,
            Rejection::IdempotencyMismatch => Self::IdempotencyMismatch,
            Rejection::UnknownReservation(_) => Self::UnknownReservation,
            Rejection::ReservationConfirmed { .. } => Self::ReservationConfirmed,
            Rejection::ReservationCancelled(_) => Self::ReservationCancelled,
            Rejection::ReservationExpired { .. } => Self::ReservationExpired,
            Rejection::ReservationNotConfirmed(_) => Self::ReservationNotConfirmed,
            Rejection::ExtensionLimit { .. } => Self::ExtensionLimit,
            Rejection::PaymentInProgress { .. } => Self::PaymentInProgress,
            Rejection::PriceMissing(_) => Self::PriceMissing,
            Rejection::PaymentMethodMissing { .. } => Self::PaymentMethodMissing,
            Rejection::PaymentNotCaptured(_) => Self::PaymentNotCaptured,
            Rejection::RefundExceedsCaptured { .. } => Self::RefundExceedsCaptured,
            Rejection::SplitExceedsHeld { .. } => Self::SplitExceedsHeld,
            Rejection::FulfilExceedsSold { .. } => Self::FulfilExceedsSold,
            // The refusal of the reserve that would have taken the units again.
            Rejection::NotReacquired { refusal, .. } => Self::of(refusal),
            Rejection::ReturnExceedsSold { .. } => Self::ReturnExceedsSold,
            Rejection::StockOwnedElsewhere { .. } => Self::StockOwnedElsewhere,
            Rejection::BelowCommitted { .. } => Self::BelowCommitted,
            Rejection::AccessDenied { denied: AccessDenied::Transferred | AccessDenied::Ended, .. } => {
                Self::Unauthenticated
            }
            Rejection::AccessDenied {
                denied:
                    AccessDenied::Location(_)
                    | AccessDenied::Channel(_)
                    | AccessDenied::Everything
                    | AccessDenied::NotForHolders,
                ..
            } => Self::Forbidden,
            Rejection::PreconditionFailed { .. } | Rejection::RecordChanged { .. } => {
                Self::PreconditionFailed
            }
        }
    }
}

impl From<&Failure> for Reason {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Overloaded => Self::Overloaded,
            Failure::Unavailable(_) => Self::Unavailable,
            Failure::OutcomeUnknown => Self::OutcomeUnknown,
            Failure::Internal(_) => Self::Internal,
        }
    }
}
