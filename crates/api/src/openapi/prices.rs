//! The operation on prices, and what requests and answers say of prices.

use super::operation::Operation;
use super::reservations::example;
use super::samples::{at, item, price, written};
use super::schema::{
    Member, always, array, closed, integer, label, location, maybe, named, object, quantity, request_time,
};
use crate::encode;
use crate::routes::RouteId;
use serde_json::{Value, json};
use std::sync::Arc;
use stockhold_domain::limits::{
    AMOUNT, BASKET_LINES, DISCOUNT_CHANNELS, DISCOUNTS, LINE_QUANTITY, UNIT_AMOUNT,
};
use stockhold_domain::{Item, Settings};

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    vec![quote()]
}

/// Their schemas, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("Discount", discount()),
        (
            "QuoteRequest",
            closed(
                "What a customer thinks of buying.",
                vec![
                    always("lines", array(named("QuoteLineRequest"), 1, BASKET_LINES, "The lines.")),
                    maybe("channel", label("Sales channel. Some discounts are for certain channels only.")),
                ],
            ),
        ),
        (
            "QuoteLineRequest",
            closed(
                "A number of units of an item.",
                vec![
                    always("sku", label("What.")),
                    maybe("location", location("Where.")),
                    maybe("quantity", integer(1, LINE_QUANTITY, "Units. Without it: 1.")),
                ],
            ),
        ),
        (
            "Quote",
            object(
                "What a reserve of these lines would cost now.",
                vec![
                    always(
                        "lines",
                        array(
                            named("QuoteLine"),
                            1,
                            BASKET_LINES,
                            "The lines of the request, in their order.",
                        ),
                    ),
                    maybe(
                        "amount",
                        amount("What the lines cost together; absent unless all of them have a price."),
                    ),
                    maybe("currency", currency("The currency of the amount.")),
                ],
            ),
        ),
        ("QuoteLine", object("A line and what it costs.", quote_line())),
    ]
}

/// What an item costs.
pub(super) fn item_price(description: &str) -> Value {
    closed(
        description,
        vec![
            always(
                "unit_amount",
                integer(
                    0,
                    UNIT_AMOUNT,
                    "Amount of one unit, in the smallest unit of the currency, such as cents.",
                ),
            ),
            always(
                "currency",
                json!({
                    "type": "string", "format": "iso-4217", "pattern": "^[A-Za-z]{3}$",
                    "description": "The three letters of its ISO 4217 code in any case. Answers have lower case.",
                }),
            ),
            maybe(
                "discounts",
                array(
                    named("Discount"),
                    0,
                    DISCOUNTS,
                    "Discounts. The one that takes off most applies. They never add up.",
                ),
            ),
        ],
    )
}

fn discount() -> Value {
    let mut schema = closed(
        "A discount: `percent` or `amount_off`.",
        vec![
            maybe(
                "percent",
                integer(
                    1,
                    100,
                    "What it takes off the line, in hundredths. The result is rounded half up, once.",
                ),
            ),
            maybe(
                "amount_off",
                integer(1, UNIT_AMOUNT, "What it takes off each unit, at most what the unit costs."),
            ),
            maybe("from", request_time("When it begins. Without it, it has begun.")),
            maybe("to", request_time("When it ends, after `from`. Without it, it does not end.")),
            maybe(
                "channels",
                array(
                    label("A channel."),
                    0,
                    DISCOUNT_CHANNELS,
                    "The sales channels that it is for. Without it, or empty: for all.",
                ),
            ),
        ],
    );
    schema["oneOf"] = json!([{ "required": ["percent"] }, { "required": ["amount_off"] }]);
    schema
}

/// What a line costs.
pub(super) fn of_line() -> [Member; 4] {
    [
        maybe(
            "unit_amount",
            integer(
                0,
                UNIT_AMOUNT,
                "Amount of one unit before discounts, in the smallest unit of the currency. Absent when the line has no price, or \
                 when its units have different ones.",
            ),
        ),
        maybe("discount", amount("What a discount takes off the line; absent when it is nothing.")),
        maybe(
            "amount",
            amount(
                "What the line costs, as it was when its units were reserved. A later price does not change it. Absent unless all of \
                 its units had a price.",
            ),
        ),
        maybe("currency", currency("The currency of the amounts.")),
    ]
}

/// What a reservation costs.
pub(super) fn of_reservation() -> [Member; 2] {
    [
        maybe("amount", amount("What all lines cost together; absent unless all of them have a price.")),
        maybe("currency", currency("The currency of the amount.")),
    ]
}

fn quote_line() -> Vec<Member> {
    let mut members = vec![
        always("sku", label("What.")),
        always("location", label("Where.")),
        always("quantity", quantity("Units.")),
    ];
    members.extend(of_line());
    members
}

fn amount(description: &str) -> Value {
    integer(0, AMOUNT, description)
}

fn currency(description: &str) -> Value {
    json!({ "type": "string", "pattern": "^[a-z]{3}$", "description": description })
}

fn quote() -> Operation {
    let tea = item();
    let settings = Settings { price: None, ..(*tea.settings).clone() };
    let cup =
        Item { key: super::samples::item_key("default", "cup"), settings: Arc::new(settings), ..tea.clone() };
    let line = price().of_units(2, None, at(0));
    let all = written(|out| encode::quote(out, &[(&tea, 2)], &[Some(line.clone())]));
    let some = written(|out| encode::quote(out, &[(&tea, 2), (&cup, 1)], &[Some(line), None]));
    Operation::of(RouteId::QuotePrices)
        .requests(json!({
            "one": example("One item", json!({ "lines": [{ "sku": "tea", "quantity": 2 }] })),
            "channel": example("In a channel", json!({
                "lines": [{ "sku": "tea", "quantity": 2 }],
                "channel": "web",
            })),
        }))
        .responds(json!({
            "all": example("All lines have a price", all),
            "some": example("A line without a price, so there is no sum", some),
        }))
}
