//! The bodies of requests. They name what [`crate::decode`] takes, with the bounds that it judges by.

use super::schema::{
    Member, always, array, closed, flag, integer, key, label, location, maybe, metadata, named, nullable,
    quantity, request_time, seconds, units, uuid, with, word,
};
use serde_json::{Value, json};
use stockhold_domain::limits::{
    ATTRIBUTES, BASKET_LINES, BASKET_UNITS, DEFAULT_MAX_HOLD_SECONDS, DEFAULT_MAX_PAYMENT_SECONDS,
    DEFAULT_PAYMENT_SECONDS, DEFAULT_TTL_SECONDS, LINE_UNITS, MERGE_SOURCES, PAYMENT_CEILING_SECONDS,
    POSITION, SECTIONS, SOURCE_LOCATIONS, SOURCE_PAIRS, SUPPLIES, TOTAL_UNITS, UNITS_AT_ONCE,
};

/// All of them, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("ReserveRequest", reserve()),
        ("BasketRequest", closed("What to hold, over several items: all of it or none.", basket())),
        ("LineRequest", line()),
        ("AmendedLineRequest", amended_line()),
        ("SourceRequest", source()),
        ("HeldLineRequest", held_line()),
        ("UnitsRequest", units_request()),
        ("UnitRequest", unit_request()),
        ("ConfirmRequest", keyed("The order, if there is one.", confirm_members())),
        ("AmendRequest", keyed("What changes.", amend_members())),
        (
            "TransferRequest",
            at_least_one(keyed("Who the reservation is for afterwards.", parties()), PARTIES),
        ),
        ("SplitRequest", keyed("The units of the new reservation.", split_members())),
        ("MergeRequest", keyed("The reservations that are merged into this one.", merge_members())),
        ("PaymentRequest", keyed("The payment, and how long it may take.", payment_members())),
        ("FulfilRequest", keyed("The units that left the shelf.", sale_members("fulfilled"))),
        ("ExtendRequest", keyed("How much longer.", vec![always("ttl_seconds", ttl())])),
        ("ReturnRequest", keyed("The returned units and the reason.", return_members())),
        ("StockRequest", stock()),
        ("AdjustRequest", adjust()),
        ("SaleRequest", closed("Why.", vec![maybe("reason", label("Why, for the record."))])),
    ]
}

fn reserve() -> Value {
    let mut members = vec![owner(), maybe("quantity", quantity("Units to hold. Default: 1."))];
    members.extend(which());
    members.extend(terms());
    closed("What to hold of one item, for whom and how long.", members)
}

/// The members of a reserve over several items.
pub(super) fn basket() -> Vec<Member> {
    let lines = array(
        named("LineRequest"),
        1,
        BASKET_LINES,
        &format!(
            "The items. Lines of the same item are added up first and answered as one; a line with a `source` stands for itself. All \
             lines together may hold {BASKET_UNITS} units with ids; more is `quantity_limit`."
        ),
    );
    let mut members = vec![owner(), always("lines", lines)];
    members.extend(terms());
    members
}

fn owner() -> Member {
    always("owner_id", label("The owner of the hold: the caller's name of an order, a cart or a session."))
}

/// The members of a reserve of one item in a batch.
pub(super) fn single() -> Vec<Member> {
    let mut members = vec![owner()];
    members.extend(wish());
    members.push(line_source());
    members.extend(which());
    members.extend(terms());
    members
}

/// What both reserves have in common.
fn terms() -> Vec<Member> {
    vec![
        maybe(
            "ttl_seconds",
            seconds(&format!(
                "The time to live of the hold, in seconds. More than the item's `max_hold_seconds` is `ttl_too_long`. \
                 Default: the item's `default_ttl_seconds`, else its location's, else the service's \
                 ({DEFAULT_TTL_SECONDS} unless configured). With several items the shortest default applies. An item of \
                 which `fulfilment: partial` holds nothing does not count."
            )),
        ),
        fulfilment(),
        maybe(
            "hold_token",
            flag(
                "Whether the answer has a `hold_token`, with which a browser can get, extend, shrink and release this reservation and \
                 nothing else. Default: `false`.",
            ),
        ),
        override_limits(),
        maybe("auto_checkout", named("AutoCheckout")),
        maybe("channel", label("The sales channel, shown again. Limits may count for it.")),
        maybe(
            "pool",
            label(
                "The pool of the items that the lines draw from. What it has too few of comes from general stock, unless its `fallback` is \
                 `false`. Items without a pool of that name give general stock; if no item has it, the request is invalid. \
                 Without `pool`, no pool gives anything.",
            ),
        ),
        maybe("customer_id", label("The buyer, shown again. Limits may count for them.")),
        maybe("session_id", label("The buyer's session, shown again.")),
        maybe("metadata", metadata()),
        maybe("idempotency_key", key()),
    ]
}

fn override_limits() -> Member {
    maybe(
        "override_limits",
        flag(
            "Whether limits are passed by, which needs the scope `limits:override`. The units are counted all the same, and the \
             event names the limits in `limits_overridden`. Default: `false`.",
        ),
    )
}

fn fulfilment() -> Member {
    maybe(
        "fulfilment",
        word(
            &["all", "partial"],
            "`all`, the default: every line in full, or nothing. `partial`: each line gets what is available, and \
             lines that get nothing are left out. If all lines get nothing, the answer is `insufficient_inventory`.",
        ),
    )
}

fn line() -> Value {
    let mut members = Vec::from(wish());
    members.push(line_source());
    members.extend(which());
    closed("An item and how many units of it, or which. Or a SKU and the locations that may give.", members)
}

fn line_source() -> Member {
    maybe("source", named("SourceRequest"))
}

/// The locations that may give the units of a line.
fn source() -> Value {
    let locations = array(
        label("A location."),
        1,
        SOURCE_LOCATIONS,
        "The locations that may give, each once. One that does not stock the SKU, is paused or is outside its sale window gives \
         nothing.",
    );
    let locations = with(locations, "uniqueItems", true);
    let strategy = word(
        &["priority", "most_stock", "single"],
        "`priority`, the default: in the order given, each gives what it has. `most_stock`: the location with the most units first, \
         of several with as many the first given. `single`: the first that can give the whole line; with `fulfilment: partial`, if \
         none can, the one that can give most.",
    );
    let description = format!(
        "In place of `location`: several locations that may give units of counted stock. The answer has one line for each item that \
         gives. All lines of a request may name {SOURCE_PAIRS} items together. Not together with the fields that select units."
    );
    closed(&description, vec![always("locations", locations), maybe("strategy", strategy)])
}

fn amended_line() -> Value {
    let mut members = Vec::from(wish());
    members.extend(which());
    closed("An item and how many units of it, or which.", members)
}

fn held_line() -> Value {
    let mut members = Vec::from(wish());
    members.push(maybe("units", unit_ids("For units with ids: which units.")));
    closed("An item of the reservation, and how many of its units, or which.", members)
}

/// A body with an idempotency key.
pub(super) fn keyed(description: &str, mut members: Vec<Member>) -> Value {
    members.push(maybe("idempotency_key", key()));
    closed(description, members)
}

/// The members of a transfer: one of them at least.
pub(super) const PARTIES: &[&str] = &["owner_id", "customer_id", "session_id"];

/// What an adjustment says beside its difference: one of them at least.
pub(super) const ADJUSTMENT: &[&str] = &["reason", "supply_id"];

/// An object that has at least one of these members.
pub(super) fn at_least_one(mut object: Value, members: &[&str]) -> Value {
    object["anyOf"] = members.iter().map(|member| json!({ "required": [member] })).collect();
    object
}

/// Units by their ids.
fn unit_ids(description: &str) -> Value {
    with(array(label("A unit's id."), 1, most_units(), description), "uniqueItems", true)
}

fn most_units() -> usize {
    usize::try_from(LINE_UNITS).unwrap_or(usize::MAX)
}

/// Which units, where they have ids.
fn which() -> Vec<Member> {
    vec![
        maybe(
            "units",
            unit_ids(
                "These units, all of them. `quantity` is left out or is their number. Not together with the fields below.",
            ),
        ),
        maybe(
            "adjacent",
            flag("The best units side by side in one row, without leaving a single unit over."),
        ),
        maybe(
            "sections",
            array(label("A section."), 1, SECTIONS, "Only units of these sections, in order of preference."),
        ),
        maybe(
            "min_together",
            integer(
                1,
                LINE_UNITS,
                "If one run is not available: several runs of at least this many units each.",
            ),
        ),
        maybe("attributes", attributes("Only units with all of these attributes.")),
    ]
}

/// What units are like.
pub(super) fn attributes(description: &str) -> Value {
    let mut value = label("Yes or no, a whole number of 64 bits, or a label.");
    value["type"] = json!(["boolean", "integer", "string"]);
    value["minimum"] = i64::MIN.into();
    value["maximum"] = i64::MAX.into();
    json!({
        "type": "object", "maxProperties": ATTRIBUTES, "description": description,
        "propertyNames": label("An attribute's name."), "additionalProperties": value,
    })
}

fn units_request() -> Value {
    closed(
        "Units to add.",
        vec![always("units", array(named("UnitRequest"), 1, UNITS_AT_ONCE, "The units, each id once."))],
    )
}

fn unit_request() -> Value {
    closed(
        "A unit: a seat, a slot, a serial number.",
        vec![
            always("unit_id", label("Its id, unique within the item.")),
            maybe("section", label("The section of the venue.")),
            maybe("row", label("Row of the section.")),
            maybe("number", label("The number on the seat.")),
            maybe(
                "position",
                integer(
                    0,
                    POSITION,
                    "Units are claimed in this order, ties in the order of their ids; two of a row are adjacent when their \
                     positions follow each other. When left out: the one after the highest.",
                ),
            ),
            maybe("attributes", attributes("What it is like: `accessible`, `aisle`, …")),
        ],
    )
}

fn wish() -> [Member; 3] {
    [
        always("sku", label("What: a SKU, compared byte by byte.")),
        maybe("location", location("Where it is stocked.")),
        maybe("quantity", quantity("Units. Default: 1.")),
    ]
}

/// The members of a confirm.
pub(super) fn confirm_members() -> Vec<Member> {
    vec![
        maybe("order_id", label("The order. A second confirm may name the same order or none.")),
        maybe(
            "payment_id",
            label(
                "The payment. While a payment window is open, another payment than that of the window is `payment_in_progress`.",
            ),
        ),
        maybe(
            "if_expired",
            word(
                &["refuse", "reacquire"],
                "When the reservation has expired. `refuse`, the default: the answer is `reservation_expired`. \
                 `reacquire`: a new reservation takes the same units again, if they are available, and is confirmed.",
            ),
        ),
        override_limits(),
    ]
}

/// How long an extend asks for.
pub(super) fn ttl() -> Value {
    seconds(
        "Seconds from now. The deadline never gets earlier, and never later than `max_expires_at`: a later one is cut to it.",
    )
}

/// The members of an amend.
pub(super) fn amend_members() -> Vec<Member> {
    let lines = array(
        named("AmendedLineRequest"),
        1,
        BASKET_LINES,
        "All lines of the reservation afterwards. A line that is not named is dropped. A line that asks for a number of units \
         with ids keeps those that it has: fewer give back the last ones, more take the first available ones. Default: the \
         lines stay.",
    );
    let mut data = metadata();
    let text = data["description"].as_str().unwrap_or_default();
    data["description"] =
        json!(format!("{text} Replaces all of it; an empty object clears it. Default: unchanged."));
    vec![
        maybe("lines", lines),
        fulfilment(),
        maybe(
            "ttl_seconds",
            with(ttl(), "description", "Moves the deadline as an extend does. Default: it stays."),
        ),
        maybe("metadata", data),
        override_limits(),
    ]
}

/// The members of a transfer.
pub(super) fn parties() -> Vec<Member> {
    vec![
        maybe("owner_id", label("The new owner. Default: unchanged.")),
        maybe("customer_id", nullable(label("The buyer. Default: unchanged. `null` clears it."))),
        maybe("session_id", nullable(label("The buyer's session. Default: unchanged. `null` clears it."))),
        override_limits(),
    ]
}

/// The members of a split.
pub(super) fn split_members() -> Vec<Member> {
    let description = "The units that move into the new reservation. Not all of them.";
    vec![always("lines", array(named("HeldLineRequest"), 1, BASKET_LINES, description))]
}

/// The members of a merge.
pub(super) fn merge_members() -> Vec<Member> {
    let description =
        "The other reservations, each once. They must be active, without an open payment window.";
    vec![always("from", array(uuid("A reservation."), 1, MERGE_SOURCES, description)), override_limits()]
}

/// The members that open a payment window.
pub(super) fn payment_members() -> Vec<Member> {
    let window = format!(
        "The length of the window from now, in seconds. Default: {DEFAULT_PAYMENT_SECONDS}, or the `max_payment_seconds` of the \
         items if that is less."
    );
    vec![
        always("payment_id", label("The payment, as the caller names it.")),
        maybe("window_seconds", payment_seconds(&window)),
    ]
}

fn payment_seconds(description: &str) -> Value {
    integer(1, u64::from(PAYMENT_CEILING_SECONDS), description)
}

/// The members that name sold units. `what` happens to them.
pub(super) fn sale_members(what: &str) -> Vec<Member> {
    let lines = format!("The {what} items. Without `lines` and `units`: all units that can be {what}.");
    let units = format!(
        "The {what} units. An id that occurs in several lines is refused: send it in `lines`. Not together with `lines`."
    );
    vec![
        maybe("lines", array(named("HeldLineRequest"), 1, BASKET_LINES, &lines)),
        maybe("units", unit_ids(&units)),
    ]
}

/// The members of a return.
pub(super) fn return_members() -> Vec<Member> {
    let mut members = sale_members("returned");
    members.extend([
        maybe(
            "from",
            word(
                &["unfulfilled", "fulfilled"],
                "Only units that have not left the shelf, or only units that have. Default: those that have not come first.",
            ),
        ),
        maybe(
            "disposition",
            word(
                &["restock", "write_off"],
                "`restock`, the default: the units can be sold again. `write_off`: the item's total is lowered by them, and \
                 units with ids are retired.",
            ),
        ),
        always("reason", label("Why, for the record.")),
    ]);
    members
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
