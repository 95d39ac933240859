//! The bodies of requests that set and adjust items.

use super::requests::{at_least_one, payment_seconds};
use super::schema::{
    Member, always, array, closed, flag, integer, key, label, maybe, metadata, named, nullable, request_time,
    seconds, units, word,
};
use serde_json::{Value, json};
use stockhold_domain::limits::{
    DEFAULT_MAX_HOLD_SECONDS, DEFAULT_MAX_PAYMENT_SECONDS, DEFAULT_TTL_SECONDS, SUPPLIES, TOTAL_UNITS,
};

/// What an adjustment says beside its difference: one of them at least.
pub(super) const ADJUSTMENT: &[&str] = &["reason", "supply_id"];

/// All of them, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![("StockRequest", stock()), ("AdjustRequest", adjust())]
}

fn stock() -> Value {
    with_count(closed("An item's stock and settings. Omitted fields stay unchanged.", stock_members()))
}

/// What a count of the shelf says belongs to the count.
pub(super) fn with_count(mut stock: Value) -> Value {
    stock["dependentRequired"] = json!({ "fulfilled_units_seen": ["on_hand"] });
    stock
}

/// The members that set an item.
#[expect(clippy::too_many_lines, reason = "one entry for each member")]
pub(super) fn stock_members() -> Vec<Member> {
    let settable = "Default: unchanged.";
    let unset = "`null` clears it.";
    vec![
        maybe(
            "total_units",
            units(
                "Units that exist, sold and held ones included. Default: unchanged. A new counted item needs it. With units \
                     that have ids it is their number.",
            ),
        ),
        maybe(
            "on_hand",
            units(
                "Units that were counted on the shelf, in place of `total_units`. The total becomes `on_hand` plus \
                 `fulfilled_units_seen`.",
            ),
        ),
        maybe(
            "fulfilled_units_seen",
            units(
                "The item's `fulfilled_units` as it was read before the count, so that units that were shipped since are not \
                 counted twice. An existing item needs it with `on_hand`. Refused without `on_hand`.",
            ),
        ),
        maybe(
            "mode",
            word(
                &["counted", "units"],
                "`counted`: units are interchangeable. `units`: every unit has an id. A new item is `counted` by default. The \
                     mode never changes.",
            ),
        ),
        maybe(
            "safety_stock",
            units(&format!(
                "Units kept from sale: subtracted from `available`. {settable} A new item has 0."
            )),
        ),
        maybe(
            "oversell_allowance",
            units(&format!(
                "Units that may be held and sold beyond the total, before they are there. Counted items only. Not below what is \
                 backordered. {settable} A new item has 0."
            )),
        ),
        maybe(
            "gated",
            nullable(flag(&format!(
                "Whether a gate in front of the store may refuse its reserves when it is sold out. Counted items only. \
                 Without effect where no gate is configured. {settable} `null` is `false`. A new item has `false`."
            ))),
        ),
        maybe(
            "sale_starts_at",
            nullable(request_time(&format!(
                "When the sale begins: before, a reserve is refused. {settable} {unset}"
            ))),
        ),
        maybe(
            "sale_ends_at",
            nullable(request_time(&format!(
                "When the sale ends: from then on, a reserve is refused. After `sale_starts_at`. {settable} {unset}"
            ))),
        ),
        maybe(
            "incoming",
            nullable(array(
                named("Supply"),
                0,
                SUPPLIES,
                &format!(
                    "Deliveries that are expected, each `supply_id` once, in place of those that were. Lines that are \
                     backordered are promised for their dates. Counted items only. {settable} {unset}"
                ),
            )),
        ),
        maybe(
            "default_ttl_seconds",
            nullable(seconds(&format!(
                "Time to live of a hold that names none, in seconds; more than the longest hold counts as that. \
                     {settable} {unset} A new item uses the service's, \
                     {DEFAULT_TTL_SECONDS} unless configured."
            ))),
        ),
        maybe(
            "max_hold_seconds",
            nullable(seconds(&format!(
                "Longest hold in seconds, extensions included. {settable} {unset} A new item uses the service's, \
                     {DEFAULT_MAX_HOLD_SECONDS} unless configured. Existing reservations keep theirs."
            ))),
        ),
        maybe(
            "max_payment_seconds",
            nullable(payment_seconds(&format!(
                "How long payment windows may keep a hold, in seconds from the first one. {settable} {unset} A new item uses \
                 the service's, {DEFAULT_MAX_PAYMENT_SECONDS} unless configured."
            ))),
        ),
        maybe(
            "price",
            nullable(super::prices::item_price(&format!(
                "What a unit costs. Lines keep the price at which their units were reserved. {settable} {unset}"
            ))),
        ),
        maybe(
            "low_stock",
            nullable(units(&format!(
                "Available units at and below which the stock counts as low: an event says so. {settable} {unset}"
            ))),
        ),
        maybe(
            "stock_master",
            nullable(label(&format!(
                "The external system that owns the total: the name of a table in `[stock_masters]`. Then a request that changes \
                 the total is refused with `stock_owned_elsewhere`, unless it also changes `stock_master` or has `override`. \
                 Counted items only. {settable} {unset}"
            ))),
        ),
        override_owner(),
        maybe("metadata", nullable(own_data())),
    ]
}

/// An item's, which can be taken back.
fn own_data() -> Value {
    let mut schema = metadata();
    let text = schema["description"].as_str().unwrap_or_default();
    schema["description"] = json!(format!("{text} Default: unchanged. `null` clears it."));
    schema
}

fn adjust() -> Value {
    at_least_one(closed("By how much the total moves, and why.", adjust_members()), ADJUSTMENT)
}

/// The members that adjust an item.
pub(super) fn adjust_members() -> Vec<Member> {
    let most = TOTAL_UNITS.cast_signed();
    let delta = json!({
        "type": "integer", "format": "int64", "minimum": -most, "maximum": most, "not": { "const": 0 },
        "description": "Units that arrived (above 0) or left (below 0).",
    });
    vec![
        always("delta", delta),
        maybe(
            "reason",
            label("Why, for the record: a delivery, breakage, a count. Required without `supply_id`."),
        ),
        maybe(
            "supply_id",
            label(
                "The delivery of the item's `incoming` that arrived. `delta` is added to the total and subtracted from the \
                 delivery, which is removed when nothing is left of it. Then `delta` is at least 1, and `reason` is \
                 `received` by default.",
            ),
        ),
        override_owner(),
        maybe("idempotency_key", key()),
    ]
}

fn override_owner() -> Member {
    maybe(
        "override",
        flag(
            "Change the total although an external system owns it. The next pull from that system sets it again. Without it, \
             `false`.",
        ),
    )
}

/// A delivery that is expected, in requests and answers.
pub(super) fn supply() -> Value {
    closed(
        "A delivery that is expected.",
        vec![
            always("supply_id", label("Which delivery.")),
            always("quantity", integer(1, TOTAL_UNITS, "Units that it brings.")),
            always("available_from", request_time("When its units can leave the shelf.")),
        ],
    )
}
