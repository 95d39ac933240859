//! The schema and an example of every problem. Both matches are exhaustive, and the examples are written by the code
//! that answers: a new reason does not compile until it is described.

use super::samples::{cart, declined, id, item_key, label, paying, request_id, shop_key, written};
use super::schema::{
    Member, always, array, counter, flag, integer, label as label_schema, maybe, named, object, quantity,
    text, time, units,
};
use crate::decode::{BODY_BYTES, Invalid, MAX_FAULTS};
use crate::problem::{HEAD_BYTES, Problem, Reason};
use serde_json::{Map, Value, json};
use stockhold_domain::limits::{BASKET_LINES, LINE_QUANTITY, SECTIONS, SOURCE_PAIRS};
use stockhold_domain::{
    ExceededLimit, Mode, Rejection, Scope, Seconds, Shortage, UnavailableUnits, UnitStatus,
};
use stockhold_service::{CredentialFault, MissingPermission};
use stockhold_store::Failure;

/// What the schema of a reason's problems is called.
pub(super) fn schema_name(reason: Reason) -> String {
    answer_name(reason) + "Problem"
}

/// What the answer with a reason's problem is called.
pub(super) fn answer_name(reason: Reason) -> String {
    let words = reason.name().split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    words.collect()
}

/// The schema of a reason's problems.
pub(super) fn schema(reason: Reason) -> Value {
    let mut members = common(reason);
    members.extend(own(reason));
    let again = if reason.retryable() { "may" } else { "must not" };
    object(&format!("{}. A program {again} retry the same request.", reason.title()), members)
}

/// The schema of a problem of any of these reasons.
pub(super) fn one_of(reasons: &[Reason]) -> Value {
    let schema = |reason: &Reason| named(&schema_name(*reason));
    if let [only] = reasons {
        return schema(only);
    }
    let mapping: Map<_, _> =
        reasons.iter().map(|reason| (reason.name().to_owned(), schema(reason)["$ref"].clone())).collect();
    let schemas: Vec<_> = reasons.iter().map(schema).collect();
    json!({ "oneOf": schemas, "discriminator": { "propertyName": "reason", "mapping": mapping } })
}

/// The schema of any problem, for readers that do not look at the reason.
pub(super) fn any() -> Value {
    let names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    let members = vec![
        always("type", text("Path of the reason's page on this server.")),
        always("title", text("The reason in a few words.")),
        always("status", integer(400, 599, "The HTTP status.")),
        always("detail", text("What happened, with the figures, and what to do next.")),
        always("reason", super::schema::word(&names, "The reason's name: what programs decide by.")),
        always("retryable", flag("Whether a program may retry the same request.")),
        always("request_id", label_schema("What the request is called in the server's log.")),
    ];
    object(
        "Why something was not done (RFC 9457). Every reason has a schema of its own with what else it carries.",
        members,
    )
}

fn common(reason: Reason) -> Vec<Member> {
    let fixed = |value: Value, description: &str| json!({ "const": value, "description": description });
    let word = |value: &str, description: &str| json!({ "type": "string", "const": value, "description": description });
    vec![
        always("type", word(&format!("/problems/{}", reason.name()), "Path of the reason's page.")),
        always("title", text("The reason in a few words.")),
        always("status", fixed(reason.status().into(), "The HTTP status.")),
        always("detail", text("What happened, with the figures, and what to do next.")),
        always("reason", word(reason.name(), "The reason's name: what programs decide by.")),
        always(
            "retryable",
            fixed(reason.retryable().into(), "Whether a program may retry the same request."),
        ),
        always("request_id", label_schema("What the request is called in the server's log.")),
    ]
}

/// The item is the one with too many requested units. It is absent if the units with ids of all lines together are too many.
fn too_many() -> Vec<Member> {
    vec![
        maybe(
            "sku",
            label_schema("The item's SKU; absent where it is the units with ids of all lines together."),
        ),
        maybe("location", label_schema("The item's location; absent like its SKU.")),
        always(
            "requested_quantity",
            counter(
                "Units that were requested, summed over the item's lines, or units with ids over all lines.",
            ),
        ),
        always(
            "limit",
            quantity(
                "The most that one reservation may hold: of the item, or of units with ids over all its lines.",
            ),
        ),
    ]
}

/// The members of a reason beyond those that all reasons have.
#[expect(clippy::too_many_lines, reason = "one arm a reason")]
fn own(reason: Reason) -> Vec<Member> {
    let sku = || always("sku", label_schema("The item's SKU."));
    let location = || always("location", label_schema("The item's location."));
    match reason {
        Reason::InvalidRequest => vec![always(
            "errors",
            array(
                named("FieldError"),
                1,
                MAX_FAULTS,
                "The faults that were found, at most 20. Of one member of the body only the first fault is found.",
            ),
        )],
        Reason::UnknownItem => {
            vec![
                always("items", array(named("ItemName"), 1, BASKET_LINES, "The items that do not exist.")),
                not_reacquired(),
            ]
        }
        Reason::InsufficientInventory => vec![
            always("lines", array(named("Shortage"), 1, SOURCE_PAIRS, "The items that fall short.")),
            not_reacquired(),
            maybe("available", units("With one item: available units.")),
            maybe("next_expiry_at", time("With one item: the deadline of its earliest hold.")),
            maybe(
                "unknown_sections",
                array(
                    label_schema("A section."),
                    1,
                    SECTIONS,
                    "With one item: requested sections that do not exist.",
                ),
            ),
            maybe(
                "approximate",
                flag(
                    "Whether `available` of an item comes from a gate in front of the store, which may be behind the \
                     store. Absent if not.",
                ),
            ),
        ],
        Reason::UnitsUnavailable => vec![
            not_reacquired(),
            maybe(
                "next_expiry_at",
                time(
                    "The earliest time at which holds on all these units may have expired. Absent if one is sold or does \
                      not exist.",
                ),
            ),
            maybe(
                "unknown_units",
                array(label_schema("A unit's id."), 1, usize::MAX, "Those of `units` that do not exist."),
            ),
            always(
                "taken",
                array(named("TakenUnits"), 1, BASKET_LINES, "The items with units that are not available."),
            ),
            always(
                "units",
                array(label_schema("A unit's id."), 1, usize::MAX, "Those units, of all items together."),
            ),
        ],
        Reason::UnknownUnit => vec![sku(), location(), always("unit_id", label_schema("The id."))],
        Reason::UnitInUse => vec![
            sku(),
            location(),
            always("unit_id", label_schema("The unit's id.")),
            always("unit_status", super::schema::word(&["held", "sold"], "Where it stands.")),
            maybe(
                "reservation_id",
                super::schema::uuid("The reservation that has it. Absent for a caller that may not know it."),
            ),
        ],
        Reason::SalePaused => vec![
            always("scope", super::schema::word(&["item", "location", "everything"], "What is paused.")),
            maybe("sku", label_schema("The item's SKU, when an item is paused.")),
            maybe("location", label_schema("The location, when it or an item there is paused.")),
            maybe("starts_at", time("When the sale of the item begins, if it has not begun.")),
            maybe("ended_at", time("When the sale of the item ended, if it has.")),
            not_reacquired(),
        ],
        Reason::ReservationExpired => vec![always("expires_at", time("The deadline that has passed."))],
        Reason::ReturnExceedsSold => vec![
            sku(),
            location(),
            always("requested_quantity", counter("Units in the return.")),
            always(
                "confirmed_sold",
                integer(0, LINE_QUANTITY, "Units of this reservation that are sold and not returned."),
            ),
        ],
        Reason::TtlTooLong => {
            vec![always("max_ttl_seconds", super::schema::seconds("The longest hold of these items."))]
        }
        Reason::ModeMismatch => vec![
            sku(),
            location(),
            always("mode", super::schema::word(&["counted", "units"], "The item's mode.")),
            not_reacquired(),
        ],
        Reason::PositionOutOfRange => vec![
            maybe(
                "newest_position",
                counter("The position of the newest event, when the requested one is beyond it."),
            ),
            maybe(
                "archived_through",
                counter("The last archived position, when the requested one is before it."),
            ),
        ],
        Reason::ExtensionLimit => {
            vec![always("max_expires_at", time("The deadline, as late as it may be."))]
        }
        Reason::BelowCommitted => vec![
            always("confirmed_sold", units("Units sold, less returns.")),
            always("held_units", units("Units in active reservations.")),
            always("total_units", units("Units that exist, unchanged.")),
            always("set_aside", units("Units that pools keep from general sale.")),
            always("free", units("Units that a pool can be given: the total less all of these.")),
        ],
        Reason::UnknownPool => vec![sku(), location(), always("pool", label_schema("The pool."))],
        Reason::TooManyPools => {
            vec![sku(), location(), always("limit", counter("The most pools of an item."))]
        }
        Reason::ItemInUse => vec![
            always("confirmed_sold", units("Units sold, less returns.")),
            always("held_units", units("Units in active reservations.")),
            always("unit_count", units("Units with ids, whatever their status. 0 for a counted item.")),
        ],
        Reason::PreconditionFailed => {
            vec![maybe("version", counter("The current version; absent when there is no such item."))]
        }
        Reason::ReservationConfirmed => vec![
            maybe("order_id", label_schema("The order that it became, if the confirm named one.")),
            maybe("payment_id", label_schema("The payment that it was confirmed with, if it has one.")),
        ],
        Reason::PaymentInProgress => vec![
            always("payment_id", label_schema("The payment whose window is open.")),
            always("until", time("When the window ends.")),
        ],
        Reason::PriceMissing => {
            vec![always("items", array(named("ItemName"), 1, BASKET_LINES, "The items without a price."))]
        }
        Reason::PaymentDeclined => vec![
            always("payment_id", label_schema("The payment.")),
            maybe("provider_code", label_schema("The code of the provider.")),
        ],
        Reason::RefundExceedsCaptured => {
            vec![always("refundable", counter("What can be refunded, in the smallest unit of the currency."))]
        }
        Reason::SplitExceedsHeld => vec![
            sku(),
            location(),
            always("requested_quantity", counter("Units to split off.")),
            always("held_units", integer(0, LINE_QUANTITY, "Units of the item that the reservation holds.")),
        ],
        Reason::FulfilExceedsSold => vec![
            sku(),
            location(),
            always("requested_quantity", counter("Units to fulfil.")),
            always(
                "unfulfilled_units",
                integer(
                    0,
                    LINE_QUANTITY,
                    "Units of this reservation that are sold and neither fulfilled nor returned.",
                ),
            ),
        ],
        Reason::LimitExceeded => vec![
            always(
                "limits",
                array(exceeded_limit(), 1, usize::MAX, "Every limit that leaves too few units."),
            ),
            not_reacquired(),
        ],
        Reason::CustomerRequired => {
            vec![always("limit_id", label_schema("The limit.")), not_reacquired()]
        }
        Reason::UnknownLimit => vec![always("limit_id", label_schema("The id."))],
        Reason::TooManyLimits => vec![always("limit", counter("The most limits."))],
        Reason::FulfilExceedsOnHand => vec![
            sku(),
            location(),
            always("requested_quantity", counter("Units that would leave the shelf.")),
            always("on_hand", units("Units on the shelf.")),
        ],
        Reason::StockOwnedElsewhere => {
            vec![sku(), location(), always("stock_master", label_schema("The system that owns the total."))]
        }
        Reason::UnknownSupply => {
            vec![sku(), location(), always("supply_id", label_schema("The delivery."))]
        }
        Reason::TooLarge => vec![always("limit", counter("Bytes that a body may have here."))],
        Reason::HeadersTooLarge => {
            vec![always("limit", counter("Bytes that the request line and the headers may have."))]
        }
        Reason::QuantityLimit => too_many(),
        Reason::Unauthenticated => {
            let faults = CredentialFault::ALL.map(CredentialFault::name);
            let fault = super::schema::word(&faults, "What is wrong with the credential.");
            vec![always("credential", fault), answer_hidden()]
        }
        Reason::Forbidden => {
            let missing = object(
                "What the credential lacks: one of the members. Absent when a browser's origin is the reason.",
                vec![
                    maybe("scope", super::schema::word(&scope_names(), "The scope.")),
                    maybe(
                        "location",
                        one_or_all("The location; `null` when the request concerns all of them."),
                    ),
                    maybe("channel", one_or_all("The sales channel; `null` when the request names none.")),
                ],
            );
            vec![maybe("missing", missing), answer_hidden()]
        }
        Reason::RateLimited => {
            vec![always("retry_after_seconds", counter("When to try again, as `Retry-After`."))]
        }
        Reason::UnknownReservation
        | Reason::MisdirectedRequest
        | Reason::UnknownKey
        | Reason::KeyEnded
        | Reason::GateNotConfigured
        | Reason::ArchiveFailed
        | Reason::UnknownSink
        | Reason::UnknownOrder
        | Reason::UnknownCustomer
        | Reason::PaymentMethodMissing
        | Reason::EncryptionKeyMissing
        | Reason::PaymentNotCaptured
        | Reason::InvalidSignature
        | Reason::UnknownWebhook
        | Reason::UnknownDelivery
        | Reason::TooManyWebhooks
        | Reason::WebhookDisabled
        | Reason::SinkInUse
        | Reason::SinkFailed
        | Reason::UnknownRoute
        | Reason::MethodNotAllowed
        | Reason::RequestTimeout
        | Reason::ReservationCancelled
        | Reason::ReservationNotConfirmed
        | Reason::UnsupportedMediaType
        | Reason::IdempotencyMismatch
        | Reason::Internal
        | Reason::Overloaded
        | Reason::Unavailable
        | Reason::OutcomeUnknown => Vec::new(),
    }
}

fn exceeded_limit() -> Value {
    object(
        "A limit that leaves too few units.",
        vec![
            always("limit_id", label_schema("Which limit.")),
            maybe("subject", label_schema("The customer or the owner. Absent: all together.")),
            always("limit", units("The most units.")),
            always("used", units("Units that it counts already.")),
            always("requested", counter("Units that the request would add to them.")),
        ],
    )
}

/// Beside the refusal of a confirm with `if_expired: reacquire`.
fn not_reacquired() -> Member {
    maybe(
        "reservation_expired",
        flag(
            "`true` when a confirm with `if_expired: reacquire` found the reservation expired and can't have its units.",
        ),
    )
}

/// A problem of each reason, as it is answered.
pub(super) fn examples() -> Map<String, Value> {
    let one = |reason: &Reason| {
        let value = written(|out| made(*reason).write(out, &request_id()));
        (reason.name().to_owned(), json!({ "summary": reason.title(), "value": value }))
    };
    Reason::ALL.iter().map(one).collect()
}

/// A problem of the reason.
#[expect(clippy::too_many_lines, reason = "one arm for each reason")]
pub(super) fn made(reason: Reason) -> Problem {
    match reason {
        Reason::InvalidRequest => {
            Invalid::new("/quantity", "must be a whole number from 1 to 1,000,000, found \"three\"").into()
        }
        Reason::PositionOutOfRange => Problem::beyond_newest(41, 12),
        Reason::TtlTooLong => match Seconds::new(1_800) {
            Ok(max) => Rejection::TtlTooLong { max }.into(),
            Err(_) => unreachable!("1,800 seconds are a time to live"),
        },
        Reason::Unauthenticated => Problem::unauthenticated(
            CredentialFault::Missing,
            "This request needs a credential. Send it as Authorization: Bearer, followed by an API key or a token.",
        ),
        Reason::Forbidden => {
            Problem::not_permitted(MissingPermission::Scope(stockhold_service::Scope::InventoryWrite))
        }
        Reason::MisdirectedRequest => Problem::foreign_host("stock.example"),
        Reason::RateLimited => Problem::rate_limited(2),
        Reason::ModeMismatch => {
            Rejection::ModeMismatch { item: item_key("default", "tea"), mode: Mode::Counted }.into()
        }
        Reason::UnknownItem => Rejection::UnknownItem(vec![item_key("hub-9", "tea")]).into(),
        Reason::UnknownReservation => Rejection::UnknownReservation(id()).into(),
        Reason::UnknownKey => Problem::unknown_key(shop_key().key_id),
        Reason::GateNotConfigured => Problem::no_gate(),
        Reason::ArchiveFailed => {
            Problem::archive_failed("opening /mnt/archive/archive.lock: Permission denied (os error 13)")
        }
        Reason::UnknownSink => Problem::unknown_sink("ledgr"),
        Reason::UnknownWebhook => Problem::unknown_webhook(crate::resources::webhooks::ID),
        Reason::UnknownDelivery => Problem::unknown_delivery(&super::samples::event_id(1).to_string()),
        Reason::TooManyWebhooks => Problem::too_many_webhooks(crate::webhook_record::WEBHOOKS),
        Reason::WebhookDisabled => Problem::webhook_disabled(crate::resources::webhooks::ID),
        Reason::SinkInUse => Problem::sink_in_use("ledger"),
        Reason::SinkFailed => Problem::sink_failed("orders", "connecting to RabbitMQ: no answer within 10 s"),
        Reason::KeyEnded => Problem::key_ended(shop_key().key_id),
        Reason::UnknownRoute => Problem::unknown_route("/v1/inventry/tea"),
        Reason::MethodNotAllowed => Problem::method_not_allowed("GET", "POST"),
        Reason::RequestTimeout => Problem::late(),
        Reason::InsufficientInventory => Rejection::InsufficientInventory(vec![Shortage {
            item: item_key("default", "tea"),
            requested: 5,
            available: 2,
            next_expiry_at: Some(cart().expires_at),
            unknown_sections: Vec::new(),
            approximate: false,
        }])
        .into(),
        Reason::UnitsUnavailable => Rejection::UnitsUnavailable(vec![UnavailableUnits {
            item: item_key("default", "concert"),
            units: vec![label("A-12"), label("Z-99")],
            unknown: vec![label("Z-99")],
            next_expiry_at: None,
        }])
        .into(),
        Reason::UnknownUnit => {
            Rejection::UnknownUnit { item: item_key("default", "concert"), unit: label("Z-99") }.into()
        }
        Reason::UnitInUse => Rejection::UnitInUse {
            item: item_key("default", "concert"),
            unit: label("A-12"),
            status: UnitStatus::Sold(id()),
        }
        .into(),
        Reason::SalePaused => Rejection::SalePaused(Scope::Item(item_key("default", "tea"))).into(),
        Reason::ReservationExpired => {
            Rejection::ReservationExpired { id: id(), expires_at: cart().expires_at }.into()
        }
        Reason::ReservationCancelled => Rejection::ReservationCancelled(id()).into(),
        Reason::ReservationConfirmed => {
            let (order_id, payment_id) = (Some(label("order-1001")), Some(label("payment-55")));
            Rejection::ReservationConfirmed { id: id(), order_id, payment_id }.into()
        }
        Reason::PaymentInProgress => {
            let payment_id = label("payment-55");
            Rejection::PaymentInProgress { id: id(), payment_id, until: paying().expires_at }.into()
        }
        Reason::PriceMissing => Rejection::PriceMissing(vec![item_key("default", "tea")]).into(),
        Reason::PaymentDeclined => Problem::payment_declined(&declined()),
        Reason::PaymentNotCaptured => Rejection::PaymentNotCaptured(id()).into(),
        Reason::RefundExceedsCaptured => {
            Rejection::RefundExceedsCaptured { id: id(), requested: 2_000, refundable: 1_490 }.into()
        }
        Reason::UnknownOrder => Problem::unknown_order(&label("order-1003")),
        Reason::UnknownCustomer => Problem::unknown_customer(&label("ben")),
        Reason::PaymentMethodMissing => Rejection::PaymentMethodMissing { customer_id: label("ben") }.into(),
        Reason::EncryptionKeyMissing => Problem::encryption_key_missing(None),
        Reason::InvalidSignature => Problem::invalid_signature("it is of another secret"),
        Reason::SplitExceedsHeld => {
            Rejection::SplitExceedsHeld { item: item_key("default", "tea"), requested: 5, held: 2 }.into()
        }
        Reason::FulfilExceedsSold => {
            let item = item_key("default", "tea");
            Rejection::FulfilExceedsSold { item, requested: 5, unfulfilled: 2 }.into()
        }
        Reason::LimitExceeded => Rejection::LimitExceeded(vec![ExceededLimit {
            limit_id: label("drop-7-two-each"),
            limit: 2,
            used: 1,
            requested: 2,
            subject: Some(label("ann")),
        }])
        .into(),
        Reason::CustomerRequired => Rejection::CustomerRequired { limit_id: label("drop-7-two-each") }.into(),
        Reason::UnknownLimit => Rejection::UnknownLimit(label("drop-8")).into(),
        Reason::TooManyLimits => Rejection::TooManyLimits.into(),
        Reason::FulfilExceedsOnHand => {
            Rejection::ExceedsOnHand { item: item_key("default", "tea"), requested: 5, on_hand: 3 }.into()
        }
        Reason::UnknownSupply => {
            Rejection::UnknownSupply { item: item_key("default", "tea"), supply_id: label("po-89") }.into()
        }
        Reason::StockOwnedElsewhere => {
            let (item, stock_master) = (item_key("default", "tea"), label("erp"));
            Rejection::StockOwnedElsewhere { item, stock_master }.into()
        }
        Reason::ReservationNotConfirmed => Rejection::ReservationNotConfirmed(id()).into(),
        Reason::ReturnExceedsSold => {
            Rejection::ReturnExceedsSold { item: item_key("default", "tea"), requested: 5, sold: 3 }.into()
        }
        Reason::ExtensionLimit => {
            Rejection::ExtensionLimit { max_expires_at: cart().terms.max_expires_at }.into()
        }
        Reason::BelowCommitted => {
            Rejection::BelowCommitted { confirmed_sold: 20, held: 3, total_units: 100, set_aside: 12 }.into()
        }
        Reason::UnknownPool => {
            Rejection::UnknownPool { item: item_key("default", "tea"), pool: label("partner-x") }.into()
        }
        Reason::TooManyPools => Rejection::TooManyPools(item_key("default", "tea")).into(),
        Reason::ItemInUse => Rejection::ItemInUse { confirmed_sold: 20, held: 3, units: 0 }.into(),
        Reason::PreconditionFailed => Rejection::PreconditionFailed { version: Some(5) }.into(),
        Reason::TooLarge => Problem::too_large(BODY_BYTES),
        Reason::HeadersTooLarge => Problem::head_too_large(HEAD_BYTES),
        Reason::UnsupportedMediaType => Problem::unsupported_media_type("text/plain"),
        Reason::IdempotencyMismatch => Rejection::IdempotencyMismatch.into(),
        Reason::QuantityLimit => Rejection::QuantityLimit {
            item: Some(item_key("default", "tea")),
            requested: LINE_QUANTITY + 1,
            limit: LINE_QUANTITY,
        }
        .into(),
        Reason::Internal => Problem::internal(),
        Reason::Overloaded => (&Failure::Overloaded).into(),
        Reason::Unavailable => (&Failure::Unavailable(String::new())).into(),
        Reason::OutcomeUnknown => (&Failure::OutcomeUnknown).into(),
    }
}

fn answer_hidden() -> Member {
    let description = "Whether the request took effect before under its idempotency key, so that only its answer is \
                       refused. Absent when it is not so.";
    maybe("replayed", flag(description))
}

fn one_or_all(description: &str) -> Value {
    json!({ "type": ["string", "null"], "description": description })
}

fn scope_names() -> Vec<&'static str> {
    stockhold_service::Scope::ALL.iter().map(|scope| scope.name()).collect()
}
