//! The bodies of answers, as [`crate::encode`] writes them. They may gain members: readers ignore members that
//! they do not know.

use super::schema::{
    always, array, counter, flag, integer, label, maybe, metadata, named, object, quantity, seconds, text,
    time, units, uuid, word,
};
use serde_json::{Value, json};
use stockhold_domain::limits::{
    BASKET_LINES, LINE_QUANTITY, POSITION, RELATED_RESERVATIONS, SECTIONS, SUPPLIES,
};

/// All of them, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("Reservation", reservation()),
        ("ReservationLine", line()),
        ("Payment", payment()),
        ("Item", item()),
        ("Supply", super::requests::supply()),
        ("Availability", availability()),
        ("Sale", sale()),
        ("PausedScope", paused_scope()),
        ("FieldError", field_error()),
        ("ItemName", item_name()),
        ("Shortage", shortage()),
        ("LineUnit", line_unit()),
        ("TakenUnits", taken()),
        ("Unit", unit()),
        ("UnitsAnswer", units_answer()),
        ("SeatMap", seat_map()),
        ("SeatLayout", seat_layout()),
        ("SeatRow", seat_row()),
        ("SeatAttributes", seat_attributes()),
    ]
}

/// The states of a reservation.
pub(super) const STATUSES: [&str; 4] = ["active", "confirmed", "cancelled", "expired"];

fn reservation() -> Value {
    let [amount, currency] = super::prices::of_reservation();
    let lines = array(
        named("ReservationLine"),
        1,
        BASKET_LINES,
        "One line for each item, in the order of the request.",
    );
    object(
        "One hold by one owner on one or more items. They share one deadline and end together.",
        vec![
            always("reservation_id", uuid("Its id, a UUIDv7.")),
            always(
                "status",
                word(
                    &STATUSES,
                    "`active`: its units are held. `confirmed`: they are sold. `cancelled`: it was released. \
                     `expired`: the deadline has passed. All but `active` are final.",
                ),
            ),
            always("owner_id", label("The owner.")),
            always("lines", lines),
            always("quantity", integer(1, LINE_QUANTITY * BASKET_LINES as u64, "Units over all lines.")),
            amount,
            currency,
            always("created_at", time("When it was made.")),
            always(
                "expires_at",
                time(
                    "The deadline. The hold is active while the time is before it. Rounded up to the next millisecond.",
                ),
            ),
            always("max_expires_at", time("The latest deadline that extensions can reach.")),
            maybe("confirmed_at", time("When it was confirmed.")),
            maybe("closed_at", time("When its final state was reached.")),
            maybe("close_reason", label("Why it was released, as the caller said it.")),
            maybe("order_id", label("The order that it became.")),
            always("version", counter("+1 for each change of the reservation, from 1; the `ETag`.")),
            maybe("payment", named("Payment")),
            maybe("order", named("OrderSummary")),
            maybe("split_from", uuid("The reservation from which this one was split off.")),
            maybe("split_into", related("The reservations that were split off.")),
            maybe("merged_from", related("The reservations that were merged into this one.")),
            maybe("merged_into", uuid("The reservation that took the lines of this one.")),
            maybe("replaces", uuid("The expired reservation whose units this one took again.")),
            maybe("replaced_by", uuid("The reservation that took the units again after the deadline.")),
            maybe("channel", label("The sales channel.")),
            maybe("pool", label("The pool that its lines draw from before general stock.")),
            maybe("customer_id", label("The buyer.")),
            maybe("session_id", label("The buyer's session.")),
            maybe("metadata", metadata()),
            maybe("hold_token", hold_token()),
        ],
    )
}

fn related(description: &str) -> Value {
    array(uuid("A reservation."), 1, RELATED_RESERVATIONS, description)
}

fn payment() -> Value {
    let mut members = vec![
        always("payment_id", label("The payment, as the caller named it, or as a checkout named it.")),
        always(
            "state",
            word(
                &[
                    "open",
                    "closed",
                    "lapsed",
                    "pending",
                    "requires_action",
                    "processing",
                    "authorized",
                    "capturing",
                    "captured",
                    "declined",
                    "voiding",
                    "voided",
                    "refunding",
                    "refunded",
                    "refund_failed",
                ],
                "Of a window of the caller: `open`: the payment is under way. `closed`: the reservation was confirmed, or the window was \
                 closed. `lapsed`: the reservation expired in the window. The others are of a checkout: `captured`: the money was taken. \
                 `voiding` and `voided`: the payment is or was ended without money. `refund_failed`: the provider refused a refund ten \
                 times.",
            ),
        ),
        always("until", time("When the window ends.")),
    ];
    members.extend(super::checkouts::of_payment());
    object(
        "The latest payment of a reservation. Of a confirmed one: the payment that it was confirmed with; absent if there was none.",
        members,
    )
}

fn hold_token() -> Value {
    json!({
        "type": "string", "maxLength": 128,
        "description": "The hold token, if the reserve asked for one: a credential for this reservation, as \
            `Authorization: Bearer`. It ends with the reservation.",
    })
}

fn line() -> Value {
    let [pool_quantity, pools] = super::pools::draws();
    let [unit_amount, discount, amount, currency] = super::prices::of_line();
    object(
        "An item of a reservation.",
        vec![
            always("sku", label("What.")),
            always("location", label("Where.")),
            always(
                "quantity",
                quantity("Units granted; fewer than requested only with `fulfilment: partial`."),
            ),
            always("requested_quantity", quantity("Requested units.")),
            maybe("sequence", counter("The item's sequence at the line's latest transition.")),
            maybe(
                "fulfilled_quantity",
                quantity("Units that left the shelf and did not come back; absent when none did."),
            ),
            maybe(
                "returned_quantity",
                quantity("Units that came back after the sale; absent when none did."),
            ),
            backordered(),
            promised(),
            pool_quantity,
            pools,
            line_limits(),
            unit_amount,
            discount,
            amount,
            currency,
            maybe(
                "units",
                array(named("LineUnit"), 1, usize::MAX, "Where units have ids: which, as they were granted."),
            ),
        ],
    )
}

/// Units of a line that were not there when it got them.
pub(super) fn backordered() -> super::schema::Member {
    maybe(
        "backordered_quantity",
        quantity(
            "Units that were not there when the line got them, which the item's `oversell_allowance` permits; absent when \
             all were. A line that loses units loses these first.",
        ),
    )
}

/// The limits that count units of a line.
pub(super) fn line_limits() -> super::schema::Member {
    maybe("limits", array(named("LineLimit"), 1, usize::MAX, "The limits that count units of the line."))
}

/// When they are expected.
pub(super) fn promised() -> super::schema::Member {
    maybe(
        "promised_at",
        time(
            "The first date by which the item's `incoming` deliveries covered its backorder when the line got its latest \
             backordered units; absent when they did not.",
        ),
    )
}

fn line_unit() -> Value {
    object(
        "A unit of a reservation.",
        vec![
            always("unit_id", label("Its id.")),
            always("version", counter("Its version at the line's latest transition of it.")),
            maybe("fulfilled", flag("It left the shelf; absent when it did not.")),
            maybe("returned", flag("It came back after the sale; absent when it did not.")),
            maybe(
                "pool",
                label(
                    "The pool that it was drawn from; absent when it was general stock, or when it came back after the pool had been \
                     released.",
                ),
            ),
        ],
    )
}

fn taken() -> Value {
    object(
        "Units of an item that can't be had.",
        vec![
            always("sku", label("What.")),
            always("location", label("Where.")),
            always(
                "units",
                array(label("A unit's id."), 1, usize::MAX, "Those that are held, sold or unknown."),
            ),
        ],
    )
}

/// Where units are, in lists and events.
pub(super) fn place() -> Vec<super::schema::Member> {
    vec![
        always("position", integer(0, POSITION, "Its place in the order of claims.")),
        maybe("section", label("Part of the hall.")),
        maybe("row", label("Row of the section.")),
        maybe("number", label("What is painted on it.")),
        maybe("attributes", super::requests::attributes("What it is like.")),
    ]
}

fn unit() -> Value {
    let mut members = vec![
        always("unit_id", label("Its id.")),
        always("status", word(&["available", "held", "sold"], "Where it stands.")),
        maybe("fulfilled", flag("`true` when it is sold and has left the shelf.")),
        always("version", counter("Its transitions so far: +1 for each, without gaps.")),
    ];
    members.extend(place());
    members.push(maybe(
        "pool",
        label("The pool that it is set aside for. A unit that is held or sold keeps the pool that it was drawn from."),
    ));
    members.push(maybe("reservation_id", uuid("The reservation that holds or bought it.")));
    object("A unit of an item whose units have ids.", members)
}

fn units_answer() -> Value {
    object(
        "What became of units that were posted.",
        vec![
            always("added", counter("Units that are new.")),
            always("unchanged", counter("Units that were there, the same.")),
            always("total_units", units("Units that exist now.")),
            always("version", counter("The item's version.")),
        ],
    )
}

fn seat_map() -> Value {
    object(
        "Where every unit of an item stands.",
        vec![
            always("sku", label("What.")),
            always("location", label("Where.")),
            always("version", counter("The item's version: the layout is another when it is.")),
            always("count", units("Units that exist.")),
            always("available", units("Units that are free for everyone.")),
            always("held", units("Units that are held.")),
            always("sold", units("Units that are sold.")),
            always("set_aside", units("Units that are free in pools only.")),
            always(
                "states",
                text(
                    "Two bits for each unit in the order of their claims: 0 available, 1 held, 2 sold, 3 available in \
                     a pool only. Four units a byte, the first in its lowest bits; in base64.",
                ),
            ),
            maybe("layout", named("SeatLayout")),
        ],
    )
}

fn seat_layout() -> Value {
    let column = |items: Value, description: &str| array(items, 0, usize::MAX, description);
    object(
        "The units themselves, in the same order, in columns.",
        vec![
            always("rows", column(named("SeatRow"), "The rows there are.")),
            always("unit_ids", column(label("A unit's id."), "The units' ids.")),
            always("row_of", column(counter("A number."), "Which of the rows each unit is in, from 0.")),
            always("positions", column(counter("A position."), "The units' positions.")),
            always("numbers", column(text("A number."), "What is painted on each; empty when nothing is.")),
            always("attributes", column(named("SeatAttributes"), "The units that are like something.")),
        ],
    )
}

fn seat_row() -> Value {
    object(
        "A row.",
        vec![maybe("section", label("Part of the hall.")), maybe("row", label("Row of the section."))],
    )
}

fn seat_attributes() -> Value {
    object(
        "What a unit is like.",
        vec![
            always("unit", counter("Which of the units, from 0.")),
            always("attributes", super::requests::attributes("What it is like.")),
        ],
    )
}

fn item() -> Value {
    object(
        "One SKU at one location, with its stock figures. `available` is `total_units` + `oversell_allowance` − \
         `confirmed_sold` − `held_units` − `safety_stock` − `set_aside`, never below 0.",
        vec![
            always("sku", label("What is sold.")),
            always("location", label("Where it is stocked.")),
            always("mode", word(&["counted", "units"], "Whether units are counted or have ids.")),
            always("total_units", units("Units that exist.")),
            always("confirmed_sold", units("Units sold, less returns.")),
            always("fulfilled_units", units("Sold units that have left the shelf.")),
            always(
                "unfulfilled_units",
                units("Sold units that have not left the shelf: `confirmed_sold` − `fulfilled_units`."),
            ),
            always("on_hand", units("Units on the shelf: `total_units` − `fulfilled_units`.")),
            always("held_units", units("Units in active reservations.")),
            always(
                "held_under_payment",
                units("Those of `held_units` whose reservation has an open payment window."),
            ),
            always("safety_stock", units("Units kept from sale.")),
            always("set_aside", units("Units that pools keep from general sale: those that are not drawn.")),
            always(
                "oversell_allowance",
                units("Units that may be held and sold beyond the total, before they are there."),
            ),
            always("backordered", units("Units that are held, sold and set aside beyond the total.")),
            always(
                "available",
                units("Units that a reserve without a pool can have now, the allowance included."),
            ),
            always(
                "available_now",
                units("Units that a reserve without a pool can have now and that are there."),
            ),
            always("active_reservations", counter("Active reservations with a line on the item.")),
            always(
                "paused",
                flag("Whether its sale is paused by itself; a location or everything may be paused too."),
            ),
            maybe("sequence", counter("Transitions so far: +1 for each, without gaps.")),
            always("version", counter("+1 for every change by an operator; the `ETag`.")),
            maybe(
                "default_ttl_seconds",
                seconds("Time to live of a hold that names none, if the item has one of its own."),
            ),
            maybe("max_hold_seconds", seconds("Longest hold, if the item has one of its own.")),
            maybe(
                "max_payment_seconds",
                seconds("How long payment windows may keep a hold, if the item has a limit of its own."),
            ),
            maybe("sale_starts_at", time("When its sale begins. Before, a reserve is refused.")),
            maybe("sale_ends_at", time("When its sale ends. From then on, a reserve is refused.")),
            maybe(
                "incoming",
                array(named("Supply"), 1, SUPPLIES, "Deliveries that are expected, in order of their dates."),
            ),
            maybe(
                "gated",
                flag("Whether a gate may refuse its reserves when it is sold out. Absent if not."),
            ),
            maybe(
                "price",
                super::prices::item_price("What a unit costs. Absent when the item has no price."),
            ),
            maybe("low_stock", units("Available units at and below which the stock counts as low.")),
            maybe(
                "stock_master",
                label("The external system that owns the total. Absent when this service owns it."),
            ),
            always("created_at", time("When it was created.")),
            always("updated_at", time("When its figures last changed.")),
            maybe("metadata", metadata()),
        ],
    )
}

fn availability() -> Value {
    object(
        "An item's availability.",
        vec![
            always("sku_id", label("The SKU, by its longer name.")),
            always("sku", label("What.")),
            always("location", label("Where.")),
            always(
                "available",
                units(
                    "Units that a reserve without a pool can have now. Never too high; between a hold's deadline and \
                its expiry a moment later it may be too low.",
                ),
            ),
            always("available_now", units("Those of them that are there: without the `oversell_allowance`.")),
            always("active_reservations", counter("Active reservations with a line on the item.")),
            always("held_units", units("Units in active reservations.")),
            maybe("sequence", counter("Transitions of the item so far.")),
            always("as_of", time("When this was true.")),
        ],
    )
}

fn sale() -> Value {
    object(
        "How a sale stands. Something new can be reserved of what is not paused by itself, when nothing that it is part of \
         is paused either.",
        vec![
            always("paused", flag("Whether it is paused by itself.")),
            maybe(
                "also_paused",
                array(
                    named("PausedScope"),
                    0,
                    usize::MAX,
                    "What else is paused that bears on it: for an item its location and everything, for a location \
                     everything, for everything the locations that are paused by themselves. Items that are, say so. \
                     Absent when it could not be read.",
                ),
            ),
            maybe(
                "has_items",
                flag("Of a location: whether anything is stocked there. If nothing is, is its name right?"),
            ),
        ],
    )
}

fn paused_scope() -> Value {
    object(
        "Something that is paused.",
        vec![
            always("scope", word(&["location", "everything"], "What it is.")),
            maybe("location", label("The location.")),
        ],
    )
}

fn field_error() -> Value {
    object(
        "What is wrong with one field.",
        vec![
            always("in", word(&["body", "path", "query", "header"], "The part of the request.")),
            always(
                "pointer",
                text(
                    "A JSON Pointer (RFC 6901) into the body, empty for the whole body. In other parts: `/` and the name of \
                     the parameter or header.",
                ),
            ),
            always("detail", text("What is wrong, and what would be right.")),
        ],
    )
}

fn item_name() -> Value {
    object("Which item.", vec![always("sku", label("What.")), always("location", label("Where."))])
}

fn shortage() -> Value {
    object(
        "An item that falls short.",
        vec![
            always("sku", label("What.")),
            always("location", label("Where.")),
            always("requested_quantity", quantity("Requested units, added up over the item's lines.")),
            always("available", units("Available units.")),
            maybe(
                "next_expiry_at",
                time("The deadline of the earliest hold on the item. Absent if there is none."),
            ),
            maybe(
                "unknown_sections",
                array(label("A section."), 1, SECTIONS, "Requested sections that do not exist."),
            ),
            maybe(
                "approximate",
                flag(
                    "Whether `available` comes from a gate in front of the store, which may be behind the store. Absent \
                     if not.",
                ),
            ),
        ],
    )
}
