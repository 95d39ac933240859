//! Refusals and failures as `application/problem+json`: one reason each, with the figures that a caller needs next.
//!
//! The one place where an outcome becomes a status. It must never repeat a rule, and never show internal errors: those
//! are for the log.

mod access;
mod page;
mod reason;
mod refusal;
mod write;

pub use page::page_html;
pub use reason::Reason;

use crate::decode::{Fault, FaultLocation, Invalid, MAX_FAULTS};
use crate::encode::time;
use std::fmt::Write;
use stockhold_domain::{
    ExceededLimit, Hold, Instant, ItemKey, Label, Mode, SaleWindow, Scope, Seconds, Shortage, Status,
    UnavailableUnits, UnitStatus,
};
use stockhold_service::{CredentialFault, MissingPermission};
use stockhold_store::Failure;

/// The media type of a problem.
pub const CONTENT_TYPE: &str = "application/problem+json";
/// Faults, items and shortages that a sentence names; the fields name all.
const NAMED_IN_DETAIL: usize = 3;

/// Bytes that the request line and the headers may have together.
pub const HEAD_BYTES: usize = 16 * 1024;
/// What the admin listener answers, beside the pages of problems.
pub const ADMIN_PATHS: [&str; 4] = ["/livez", "/readyz", "/startupz", "/metrics"];

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    reason: Reason,
    detail: String,
    fields: Fields,
}

/// What a reason carries beyond what all do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fields {
    None,
    Errors(Vec<Fault>),
    Items(Vec<ItemKey>),
    Scope(Scope),
    Quantity {
        item: Option<ItemKey>,
        requested: u64,
        limit: u64,
    },
    UnavailableUnits(Vec<UnavailableUnits>),
    /// Which item, the unit's id, and where it stands.
    Unit {
        unit: Box<(ItemKey, Label, Option<UnitStatus>)>,
        shows_holder: bool,
    },
    Shortages(Vec<Shortage>),
    ExpiresAt(Instant),
    MaxExpiresAt(Instant),
    MaxTtl(Seconds),
    Mode(ItemKey, Mode),
    NewestPosition(u64),
    ArchivedThrough(u64),
    ReturnExceeds {
        item: ItemKey,
        requested: u64,
        sold: u64,
    },
    BelowCommitted {
        confirmed_sold: u64,
        held: u64,
        total_units: u64,
        set_aside: u64,
    },
    Pool {
        item: ItemKey,
        pool: Label,
    },
    ItemLimit {
        item: ItemKey,
        limit: u64,
    },
    ItemInUse {
        confirmed_sold: u64,
        held: u64,
        units: u64,
    },
    LimitId(Label),
    ExceededLimits(Vec<ExceededLimit>),
    SaleWindow {
        item: ItemKey,
        window: SaleWindow,
    },
    OnHand {
        item: ItemKey,
        requested: u64,
        on_hand: u64,
    },
    Supply {
        item: ItemKey,
        supply_id: Label,
    },
    StockMaster {
        item: ItemKey,
        stock_master: Label,
    },
    Version(u64),
    Limit(u64),
    Confirmed {
        order_id: Option<Label>,
        payment_id: Option<Label>,
    },
    Payment {
        payment_id: Label,
        until: Instant,
    },
    /// Of a declined payment: the payment, and the code of the provider.
    Declined {
        payment_id: Label,
        provider_code: Option<Label>,
    },
    Refundable(u64),
    SplitExceeds {
        item: ItemKey,
        requested: u64,
        held: u64,
    },
    FulfilExceeds {
        item: ItemKey,
        requested: u64,
        unfulfilled: u64,
    },
    /// The fields of the refusal because of which an expired reservation did not get its units again.
    NotReacquired(Box<Fields>),
    /// The fields of the refusal to show the answer to a request that took effect before.
    Replayed(Box<Fields>),
    Credential(CredentialFault),
    Missing(MissingPermission),
    RetryAfterSeconds(u64),
}

impl Problem {
    /// Which reason; its status and headers go with it.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// What happened, in a sentence or two.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The events after a position were requested, and some of them are archived.
    pub fn archived(after: u64, through: u64) -> Self {
        let detail = format!(
            "The events after position {after} are not complete here: events up to position {through} are archived. Read \
             those from the archive, and continue here with after={through}."
        );
        Self { reason: Reason::PositionOutOfRange, detail, fields: Fields::ArchivedThrough(through) }
    }

    /// The events after a position were requested that no event has yet.
    pub fn beyond_newest(after: u64, newest: u64) -> Self {
        let detail = format!(
            "Position {after} is beyond the newest event, which is at position {newest}. The position comes from another \
             history, for example from before a restore. Compare your events with GET /v1/events, and continue with \
             after={newest}."
        );
        Self { reason: Reason::PositionOutOfRange, detail, fields: Fields::NewestPosition(newest) }
    }

    /// There is no such path.
    pub fn unknown_route(path: &str) -> Self {
        if ADMIN_PATHS.contains(&path) {
            let detail = format!("{path} is on the admin listener. `stockhold config` shows its address.");
            return Self::plain(Reason::UnknownRoute, detail);
        }
        let path = crate::decode::clip(path);
        Self::plain(
            Reason::UnknownRoute,
            format!("There is no path {path}. / lists the paths, /docs describes them."),
        )
    }

    /// There is no such path on the admin listener.
    pub fn unknown_admin_route(path: &str) -> Self {
        let path = crate::decode::clip(path);
        let detail = format!(
            "There is no path {path} on the admin listener. It has /livez, /readyz, /startupz and /metrics."
        );
        Self::plain(Reason::UnknownRoute, detail)
    }

    /// There is no such order.
    pub fn unknown_order(id: &Label) -> Self {
        let detail = format!("There is no order \"{id}\" of a checkout. GET /v1/orders lists the orders.");
        Self::plain(Reason::UnknownOrder, detail)
    }

    /// There is no such customer.
    pub fn unknown_customer(id: &Label) -> Self {
        let detail = format!("There is no customer \"{id}\". PUT /v1/customers/{{customer_id}} creates one.");
        Self::plain(Reason::UnknownCustomer, detail)
    }

    /// The customer has another version, or exists although it should not. `None` stands for a customer that does not exist.
    pub fn customer_changed(version: Option<u64>) -> Self {
        let (detail, fields) = match version {
            Some(version) => (
                format!(
                    "The version is {version}, which does not meet If-Match or If-None-Match. Read the customer again and repeat the \
                     change with If-Match: \"{version}\"."
                ),
                Fields::Version(version),
            ),
            None => (
                "The customer does not exist, so it has no version to match. PUT without If-Match creates it.".to_owned(),
                Fields::None,
            ),
        };
        Self { reason: Reason::PreconditionFailed, detail, fields }
    }

    /// A customer can't be erased while this payment is under way.
    pub fn customer_in_payment(customer_id: &Label, hold: &Hold) -> Self {
        let detail = format!(
            "The payment of reservation {} is under way, and needs the data of customer \"{customer_id}\". Wait for its end, or give it \
             up with POST /v1/reservations/{0}/checkout/cancel. Then erase the customer.",
            hold.id
        );
        let fields = match &hold.details().payment {
            Some(payment) => Fields::Payment { payment_id: payment.id.clone(), until: payment.until },
            None => Fields::None,
        };
        Self { reason: Reason::PaymentInProgress, detail, fields }
    }

    /// Personal data can't be encrypted or read. `key_id` is the key that is missing, if it is a certain one.
    pub fn encryption_key_missing(key_id: Option<&str>) -> Self {
        let how = "Set customers.encryption_keys in stockhold.toml, or STOCKHOLD_CUSTOMERS_ENCRYPTION_KEYS";
        let detail = match key_id {
            None => format!(
                "Customers are encrypted, and this server has no key for that. {how}, to \"k1:KEY\", where KEY is the output of \
                 `openssl rand -base64 32`. Then restart the server."
            ),
            Some(id) => format!(
                "The data of this customer is encrypted with key {id}, which this server does not have. {how}, so that it has this key \
                 too, and restart the server."
            ),
        };
        Self::plain(Reason::EncryptionKeyMissing, detail)
    }

    /// The provider declined the payment of a reservation, or it was ended without money.
    pub fn payment_declined(hold: &Hold) -> Self {
        let payment_id = hold.details().payment.as_ref().map(|payment| payment.id.clone());
        let provider_code = hold.charge().and_then(|charge| charge.error.clone());
        let code = provider_code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
        let detail = match hold.status {
            Status::Active => format!(
                "The payment of reservation {} was declined{code}. Its units are held until {}. Try another payment with a new \
                 idempotency key.",
                hold.id,
                time(hold.expires_at)
            ),
            _ => format!(
                "The payment of reservation {} was declined{code}, and its units are available again. Make a new reservation.",
                hold.id
            ),
        };
        let fields = match payment_id {
            Some(payment_id) => Fields::Declined { payment_id, provider_code },
            None => Fields::None,
        };
        Self { reason: Reason::PaymentDeclined, detail, fields }
    }

    /// The webhook of a payment provider is not signed as it should be.
    pub fn invalid_signature(what: &str) -> Self {
        let detail = format!("The signature of the webhook is not valid: {what}.");
        Self::plain(Reason::InvalidSignature, detail)
    }

    /// There is no such sink.
    pub fn unknown_sink(name: &str) -> Self {
        let detail = format!("There is no sink \"{name}\". GET /v1/sinks lists the sinks.");
        Self::plain(Reason::UnknownSink, detail)
    }

    /// There is no such webhook endpoint.
    pub fn unknown_webhook(id: &str) -> Self {
        let detail = format!("There is no webhook endpoint \"{id}\". GET /v1/webhooks lists the endpoints.");
        Self::plain(Reason::UnknownWebhook, detail)
    }

    /// The endpoint has no such delivery that is pending or failed.
    pub fn unknown_delivery(id: &str) -> Self {
        let detail = format!(
            "The endpoint has no delivery \"{id}\" that is pending or failed. GET /v1/webhooks/{{webhook_id}}/deliveries lists them."
        );
        Self::plain(Reason::UnknownDelivery, detail)
    }

    /// There are as many webhook endpoints as there may be.
    pub fn too_many_webhooks(most: usize) -> Self {
        let detail =
            format!("There are {most} webhook endpoints. Delete endpoints that are no longer needed.");
        Self::plain(Reason::TooManyWebhooks, detail)
    }

    /// Nothing is delivered to a disabled endpoint.
    pub fn webhook_disabled(id: &str) -> Self {
        let detail = format!(
            "The webhook endpoint \"{id}\" is disabled, so nothing is delivered to it. Enable it with PATCH and {{\"status\": \"enabled\"}} first."
        );
        Self::plain(Reason::WebhookDisabled, detail)
    }

    /// The sink is configured, so its position can't be deleted.
    pub fn sink_in_use(name: &str) -> Self {
        let detail = format!(
            "The sink \"{name}\" is in use. Remove it from the configuration of every server and restart them. Then delete its \
             position."
        );
        Self::plain(Reason::SinkInUse, detail)
    }

    /// The other system can't be reached, or does not do what it is asked for.
    pub fn sink_failed(name: &str, what: &str) -> Self {
        Self::plain(Reason::SinkFailed, format!("The sink \"{name}\" failed: {what}."))
    }

    /// The archive can't be written or read, or does not belong to the store.
    pub fn archive_failed(what: &str) -> Self {
        Self::plain(Reason::ArchiveFailed, format!("The archive can't be made: {what}."))
    }

    /// There is no gate to reload.
    pub fn no_gate() -> Self {
        let detail = "This server runs without a gate: there is nothing to reload.";
        Self::plain(Reason::GateNotConfigured, detail.to_owned())
    }

    /// The archive may not be written to the directory that the request names.
    pub fn other_archive_directory() -> Self {
        let detail = "The server writes archives to the directory of its setting `archive.dir`, or below it. `to` is no such directory, or \
                      the setting is missing.";
        Self::plain(Reason::Forbidden, detail.to_owned())
    }

    /// The caller sent more requests than it may.
    pub fn rate_limited(retry_after_seconds: u64) -> Self {
        let detail = format!(
            "The caller sent more requests than its rate limit allows. Nothing was done. Try again after {} s.",
            grouped(retry_after_seconds)
        );
        Self { reason: Reason::RateLimited, detail, fields: Fields::RetryAfterSeconds(retry_after_seconds) }
    }

    /// The `Retry-After` of this answer, in seconds.
    pub fn retry_after(&self) -> Option<u64> {
        match self.fields {
            Fields::RetryAfterSeconds(seconds) => Some(seconds),
            _ => self.reason.retry_after().map(u64::from),
        }
    }

    /// The longest time to live that the request could have, if its own was too long.
    pub(crate) fn max_ttl(&self) -> Option<Seconds> {
        match self.fields {
            Fields::MaxTtl(max) => Some(max),
            _ => None,
        }
    }

    /// The place of the first fault of the request, if the request is wrong.
    pub(crate) fn first_pointer(&self) -> Option<&str> {
        match &self.fields {
            Fields::Errors(errors) => errors.first().map(|fault| &*fault.pointer),
            _ => None,
        }
    }

    /// The path takes other methods; `allowed` is the content of the `Allow` header.
    pub fn method_not_allowed(method: &str, allowed: &str) -> Self {
        let method = crate::decode::clip(method);
        Self::plain(Reason::MethodNotAllowed, format!("This path does not take {method}. Use {allowed}."))
    }

    /// The body is longer than the route takes, in bytes.
    pub fn too_large(limit: usize) -> Self {
        let limit = limit as u64;
        let detail =
            format!("The body may have at most {} bytes. Send several smaller requests.", grouped(limit));
        Self { reason: Reason::TooLarge, detail, fields: Fields::Limit(limit) }
    }

    /// What came can't be read as a request, or not to its end.
    pub fn unreadable(why: &str) -> Self {
        let detail = format!("The request can't be read: it {why}. The connection is closed.");
        let errors = Invalid::new("", why).errors;
        Self { reason: Reason::InvalidRequest, detail, fields: Fields::Errors(errors) }
    }

    /// What came stopped before it was a whole request.
    pub fn late() -> Self {
        let detail = "The request did not arrive in time. Nothing was done, and the connection is closed. Send the whole \
                      request again on a new connection.";
        Self::plain(Reason::RequestTimeout, detail.to_owned())
    }

    /// The request line and the headers are longer than they may be, in bytes.
    pub fn head_too_large(limit: usize) -> Self {
        let limit = limit as u64;
        let detail = format!(
            "The request line and the headers may have at most {} bytes, and at most 100 headers are read. Send fewer or \
             shorter headers.",
            grouped(limit)
        );
        Self { reason: Reason::HeadersTooLarge, detail, fields: Fields::Limit(limit) }
    }

    /// More event streams are open than there may be.
    pub fn too_many_streams(limit: usize) -> Self {
        let detail = format!(
            "{} event streams are open, which is the limit. Try again after the time in Retry-After, or read \
             GET /v1/events.",
            grouped(limit as u64)
        );
        Self::plain(Reason::Overloaded, detail)
    }

    /// The caller has more event streams than one may have.
    pub fn too_many_own_streams(limit: usize) -> Self {
        let detail = format!(
            "The caller has {} event streams, which is the limit for one. Close some of them, or read GET /v1/events.",
            grouped(limit as u64)
        );
        Self::plain(Reason::Overloaded, detail)
    }

    /// The body is not JSON by its `Content-Type`.
    pub fn unsupported_media_type(found: &str) -> Self {
        let found = crate::decode::clip(found);
        Self::plain(
            Reason::UnsupportedMediaType,
            format!("The body's type is \"{found}\". Send JSON with Content-Type: application/json."),
        )
    }

    /// The body is compressed.
    pub fn compressed(encoding: &str) -> Self {
        let encoding = crate::decode::clip(encoding);
        Self::plain(
            Reason::UnsupportedMediaType,
            format!("The body has Content-Encoding: {encoding}. Send it uncompressed."),
        )
    }

    /// Something broke in here.
    pub fn internal() -> Self {
        Self::plain(
            Reason::Internal,
            "Stockhold failed. The request may or may not have taken effect. Repeat it with the same idempotency key. If \
             it fails again, look for this request_id in the log."
                .to_owned(),
        )
    }

    fn plain(reason: Reason, detail: String) -> Self {
        Self { reason, detail, fields: Fields::None }
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self::invalid("The request is invalid", invalid)
    }
}

impl Problem {
    /// All that is wrong with a request, behind what that comes to.
    fn invalid(lead: &str, mut invalid: Invalid) -> Self {
        invalid.errors.truncate(MAX_FAULTS);
        let mut detail = lead.to_owned();
        for (n, error) in invalid.errors.iter().take(NAMED_IN_DETAIL).enumerate() {
            detail.push_str(if n == 0 { ": " } else { "; " });
            let name = error.pointer.trim_start_matches('/');
            // Writing to a String does not fail.
            let _ = match error.location {
                FaultLocation::Body if name.is_empty() => write!(detail, "the body "),
                FaultLocation::Body => write!(detail, "{} ", error.pointer),
                FaultLocation::Path => write!(detail, "{name} in the path "),
                FaultLocation::Query => write!(detail, "query parameter {name} "),
                FaultLocation::Header => write!(detail, "header {name} "),
            };
            detail.push_str(&error.detail);
        }
        detail.push('.');
        Self { reason: Reason::InvalidRequest, detail, fields: Fields::Errors(invalid.errors) }
    }
}

impl From<&Failure> for Problem {
    fn from(failure: &Failure) -> Self {
        let detail = match failure {
            Failure::Overloaded => {
                "The server is overloaded. Nothing was done. Try again after the time in Retry-After."
            }
            Failure::Unavailable(_) => {
                "The store can't work now. Nothing was done. /readyz on the admin listener says why. Try again after the \
                 time in Retry-After."
            }
            Failure::OutcomeUnknown => {
                "It is not known whether the request took effect. Repeat it with the same idempotency key: it takes \
                 effect once in any case."
            }
            Failure::Internal(_) => return Self::internal(),
        };
        Self::plain(failure.into(), detail.to_owned())
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
