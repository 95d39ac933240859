//! The refusals and failures of the profiles: a status and a word that their clients know, for each reason.

use super::Profile;
use crate::encode::json::Object;
use crate::problem::{Problem, Reason};

/// The status and the word of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorCode {
    /// The HTTP status.
    pub status: u16,
    /// The word, `error` in the body.
    pub word: &'static str,
}

const INVALID_REQUEST: &str = "INVALID_REQUEST";

impl ErrorCode {
    /// What a profile calls a reason.
    pub const fn of(profile: Profile, reason: Reason) -> Self {
        let (status, word) = match reason {
            Reason::InvalidRequest
            | Reason::ModeMismatch
            | Reason::TtlTooLong
            | Reason::CustomerRequired
            | Reason::QuantityLimit => (400, INVALID_REQUEST),
            Reason::RequestTimeout
            | Reason::TooLarge
            | Reason::UnsupportedMediaType
            | Reason::HeadersTooLarge
            | Reason::MisdirectedRequest => (reason.status(), INVALID_REQUEST),
            // The hub's key is its order.
            Reason::IdempotencyMismatch => match profile {
                Profile::Hub => (409, "ORDER_MISMATCH"),
                Profile::Storefront => (400, INVALID_REQUEST),
            },
            Reason::Unauthenticated => (401, "UNAUTHORIZED"),
            Reason::Forbidden => (403, "FORBIDDEN"),
            Reason::UnknownItem
            | Reason::UnknownReservation
            | Reason::UnknownUnit
            | Reason::UnknownSupply
            | Reason::UnknownLimit
            | Reason::UnknownPool
            | Reason::UnknownOrder
            | Reason::UnknownCustomer
            | Reason::UnknownKey
            | Reason::UnknownRoute => (404, "NOT_FOUND"),
            Reason::MethodNotAllowed => (405, "METHOD_NOT_ALLOWED"),
            Reason::InsufficientInventory | Reason::UnitsUnavailable => (409, "INSUFFICIENT_STOCK"),
            Reason::SalePaused => (409, "SALE_PAUSED"),
            Reason::LimitExceeded | Reason::ExtensionLimit => (409, "LIMIT"),
            Reason::ReservationExpired => (409, "EXPIRED"),
            Reason::ReservationCancelled => (409, "RELEASED"),
            Reason::ReservationConfirmed => match profile {
                Profile::Hub => (409, "CONFIRMED"),
                Profile::Storefront => (409, "COMMITTED"),
            },
            Reason::PaymentInProgress => (409, "PAYMENT_IN_PROGRESS"),
            Reason::RateLimited => (429, "RATE_LIMITED"),
            Reason::Overloaded | Reason::Unavailable | Reason::OutcomeUnknown => match profile {
                Profile::Hub => (503, "UNAVAILABLE"),
                Profile::Storefront => (503, "ERROR"),
            },
            // No route of a profile answers with the reasons behind `Internal`.
            Reason::Internal
            | Reason::UnitInUse
            | Reason::StockOwnedElsewhere
            | Reason::ItemInUse
            | Reason::TooManyLimits
            | Reason::TooManyPools
            | Reason::PaymentDeclined
            | Reason::PriceMissing
            | Reason::PaymentMethodMissing
            | Reason::EncryptionKeyMissing
            | Reason::PaymentNotCaptured
            | Reason::RefundExceedsCaptured
            | Reason::InvalidSignature
            | Reason::SplitExceedsHeld
            | Reason::ReservationNotConfirmed
            | Reason::FulfilExceedsSold
            | Reason::FulfilExceedsOnHand
            | Reason::ReturnExceedsSold
            | Reason::BelowCommitted
            | Reason::KeyEnded
            | Reason::GateNotConfigured
            | Reason::ArchiveFailed
            | Reason::UnknownSink
            | Reason::UnknownWebhook
            | Reason::UnknownDelivery
            | Reason::TooManyWebhooks
            | Reason::WebhookDisabled
            | Reason::SinkInUse
            | Reason::SinkFailed
            | Reason::PreconditionFailed
            | Reason::PositionOutOfRange => (500, "ERROR"),
        };
        Self { status, word }
    }

    /// The words of these reasons, each once, by status.
    pub(crate) fn of_all(profile: Profile, reasons: &[Reason]) -> Vec<Self> {
        let mut codes: Vec<_> = reasons.iter().map(|reason| Self::of(profile, *reason)).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }
}

/// Writes an error: `{error, detail, field?}` of the hub, and `{error, detail?}` of the storefront, which has a detail only where the
/// request is wrong. Returns the status.
pub fn write_error(out: &mut Vec<u8>, profile: Profile, problem: &Problem) -> u16 {
    let ErrorCode { status, word } = ErrorCode::of(profile, problem.reason());
    let mut object = Object::open(out);
    object.word("error", word);
    match profile {
        Profile::Hub => {
            object.text("detail", &detail(profile, problem));
            object.optional_text("field", field(problem).as_deref());
        }
        Profile::Storefront => {
            if word == INVALID_REQUEST {
                object.text("detail", &detail(profile, problem));
            }
        }
    }
    object.close();
    status
}

/// The detail of a problem. Where the native one names members that the profile does not have, it has words of its own.
fn detail(profile: Profile, problem: &Problem) -> String {
    match (profile, problem.reason()) {
        (Profile::Hub, Reason::IdempotencyMismatch) => {
            "The order holds this SKU at this hub with another qty or for another user_id. Nothing was done. Release that \
             reservation first, or send the values that it was made with."
                .to_owned()
        }
        (Profile::Hub, Reason::UnknownRoute) => {
            "There is no such path. The profile has /stock/{hub_id}/{sku}, /reserve, /confirm and /release.".to_owned()
        }
        (Profile::Storefront, Reason::CustomerRequired) => {
            "A limit counts units for each customer, and the request names none. Send customerId.".to_owned()
        }
        (Profile::Storefront, Reason::TtlTooLong) => {
            let most = problem.max_ttl().map(|max| format!(", which is {} seconds", max.get()));
            format!("ttl is above the longest hold{}.", most.unwrap_or_default())
        }
        (Profile::Hub | Profile::Storefront, _) => problem.detail().to_owned(),
    }
}

/// The member of a hub's request that is wrong, the parameter of its path or its header.
fn field(problem: &Problem) -> Option<String> {
    match problem.reason() {
        Reason::QuantityLimit => Some("qty".to_owned()),
        _ => problem.first_pointer().map(hub_member),
    }
    .filter(|name| !name.is_empty())
}

/// The rules name the members of native requests.
fn hub_member(pointer: &str) -> String {
    let name = pointer.trim_start_matches('/');
    match name {
        "quantity" => "qty",
        "location" => "hub_id",
        "owner_id" => "order_id",
        "customer_id" => "user_id",
        other => other,
    }
    .to_owned()
}
