//! Pages of lists: their parameters and their schemas.

use super::operation::in_query;
use super::schema::{Member, always, array, flag, integer, maybe, named, object, text, with};
use crate::decode::{PAGE_DEFAULT, PAGE_LIMIT};
use serde_json::{Value, json};
use stockhold_store::UNIT_HISTORY_LIMIT;

/// Their schemas, by name.
pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("ReservationPage", page("Reservation", "Reservations, the newest first.", next())),
        ("OrderPage", page("Order", "Orders, the newest reservation first.", next())),
        ("ItemPage", page("Item", "Items in order of location and SKU, byte by byte.", next())),
        ("UnitPage", page("Unit", "Units of an item, in the order of their claims.", next())),
        ("LimitPage", page("Limit", "Limits, in the order of their ids.", next())),
        (
            "LimitUsagePage",
            page(
                "LimitUsage",
                "What a limit counts for each subject, in the order of their names. A subject that has \
             nothing is left out.",
                next(),
            ),
        ),
        ("ApiKeyPage", page("ApiKey", "API keys, in the order of their ids.", next())),
        ("EventPage", page("Event", "Events, the oldest first.", onwards())),
        (
            "UnitHistory",
            object(
                "The history of a unit since it was added.",
                vec![always(
                    "data",
                    array(
                        named("Event"),
                        0,
                        UNIT_HISTORY_LIMIT,
                        "The newest events that moved it, the oldest of them first. Of units that were added together only this \
                         one is shown.",
                    ),
                )],
            ),
        ),
        (
            "History",
            object(
                "The history of a reservation.",
                vec![always(
                    "data",
                    array(named("Event"), 1, usize::MAX, "All of its events, the oldest first."),
                )],
            ),
        ),
    ]
}

fn next() -> Member {
    maybe("next_cursor", text("The `starting_after` of the next page. Absent on the last page."))
}

fn onwards() -> Member {
    let digits = json!({
        "type": "string", "pattern": "^[0-9]{1,20}$",
        "description": "The `after` of the next page, also on the last page: the last position that was read.",
    });
    always("next_cursor", digits)
}

fn page(schema: &str, description: &str, next: Member) -> Value {
    object(
        description,
        vec![
            always(
                "data",
                array(
                    named(schema),
                    0,
                    PAGE_LIMIT,
                    "The entries. May be fewer than `limit`, even none, although more follow.",
                ),
            ),
            always("has_more", flag("Whether more entries follow.")),
            next,
        ],
    )
}

/// How many.
pub(crate) fn limit() -> Value {
    let limit = integer(1, PAGE_LIMIT as u64, "Most entries of the page.");
    in_query("limit", with(limit, "default", PAGE_DEFAULT))
}

/// From where.
pub(crate) fn starting_after() -> Value {
    in_query("starting_after", text("The `next_cursor` of the previous page. Its content is opaque."))
}
