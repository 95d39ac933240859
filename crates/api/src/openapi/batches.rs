//! The operations that take many at once.

use super::operation::Operation;
use super::problems;
use super::requests::{
    ADJUSTMENT, PARTIES, adjust_members, amend_members, at_least_one, basket, confirm_members, merge_members,
    parties, payment_members, return_members, sale_members, single, split_members, stock_members, ttl,
    with_count,
};
use super::reservations::example;
use super::samples::{EXAMPLE_IDS, at, cart, item, item_key, request_id, written};
use super::schema::{
    Member, always, array, closed, flag, integer, key, label, location, maybe, named, object, time, units,
    uuid, with,
};
use crate::decode::{COMMANDS, ITEMS, LOCATIONS, MAX_VERSION};
use crate::encode;
use crate::problem::Reason;
use crate::routes::RouteId;
use serde_json::{Value, json};

/// Reasons that one command of a batch can be answered with.
const REFUSALS: [Reason; 34] = [
    Reason::InvalidRequest,
    Reason::Forbidden,
    Reason::UnknownItem,
    Reason::UnknownReservation,
    Reason::InsufficientInventory,
    Reason::UnitsUnavailable,
    Reason::BelowCommitted,
    Reason::StockOwnedElsewhere,
    Reason::SalePaused,
    Reason::ReservationExpired,
    Reason::ReservationCancelled,
    Reason::ReservationConfirmed,
    Reason::ReservationNotConfirmed,
    Reason::PaymentInProgress,
    Reason::PriceMissing,
    Reason::PaymentMethodMissing,
    Reason::EncryptionKeyMissing,
    Reason::SplitExceedsHeld,
    Reason::LimitExceeded,
    Reason::CustomerRequired,
    Reason::FulfilExceedsSold,
    Reason::FulfilExceedsOnHand,
    Reason::UnknownSupply,
    Reason::ReturnExceedsSold,
    Reason::PreconditionFailed,
    Reason::ExtensionLimit,
    Reason::IdempotencyMismatch,
    Reason::ModeMismatch,
    Reason::TtlTooLong,
    Reason::QuantityLimit,
    Reason::Internal,
    Reason::Overloaded,
    Reason::Unavailable,
    Reason::OutcomeUnknown,
];

/// That on reservations.
pub(super) fn of_reservations() -> Vec<Operation> {
    vec![commands()]
}

/// That on items.
pub(super) fn of_items() -> Vec<Operation> {
    vec![availability()]
}

/// Their schemas, by name.
#[expect(clippy::too_many_lines, reason = "one entry for each schema")]
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let mut all = commands_by_name();
    all.extend([
        (
            "CommandsRequest",
            closed(
                "Commands, decided in this order, each on its own.",
                vec![always("commands", array(named("Command"), 1, COMMANDS, "The commands."))],
            ),
        ),
        ("Command", command()),
        (
            "CommandsAnswer",
            object(
                "What became of each command, in their order.",
                vec![always("results", array(named("CommandResult"), 1, COMMANDS, "One for each command."))],
            ),
        ),
        ("CommandResult", result()),
        ("CommandProblem", with(problems::one_of(&REFUSALS), "description", "Why a command was not done.")),
        (
            "AvailabilityRequest",
            json!({
                "description": "Items to look up, or one SKU at several locations.",
                "oneOf": [named("ItemsRequest"), named("LocationsRequest")],
            }),
        ),
        (
            "LocationsRequest",
            closed(
                "One SKU at several locations.",
                vec![
                    always("sku", label("What.")),
                    always(
                        "locations",
                        with(
                            array(label("A location."), 1, LOCATIONS, "Where, each location once."),
                            "uniqueItems",
                            true,
                        ),
                    ),
                ],
            ),
        ),
        (
            "ItemsRequest",
            closed(
                "Items to look up.",
                vec![always(
                    "items",
                    array(named("ItemRequest"), 1, ITEMS, "The items, each as often as you like."),
                )],
            ),
        ),
        (
            "ItemRequest",
            closed("Which item.", vec![always("sku", label("What.")), maybe("location", location("Where."))]),
        ),
        (
            "AvailabilityAnswer",
            json!({
                "description": "As was asked: items, or one SKU at several locations.",
                "oneOf": [named("ItemsAvailability"), named("LocationsAvailability")],
            }),
        ),
        (
            "LocationsAvailability",
            object(
                "The availability of a SKU over several locations.",
                vec![
                    always("sku", label("What.")),
                    always("available", units("Units that are available at all of the locations together.")),
                    always(
                        "locations",
                        array(
                            named("LocationAvailability"),
                            1,
                            LOCATIONS,
                            "One entry for each requested location, in the same order.",
                        ),
                    ),
                ],
            ),
        ),
        (
            "LocationAvailability",
            object(
                "What is available at one location, or that it does not stock the SKU.",
                vec![
                    always("location", label("Where.")),
                    maybe("available", units("Available units. Absent when the location does not stock the SKU.")),
                    maybe("as_of", time("When this was true. Absent when the location does not stock the SKU.")),
                    maybe(
                        "unknown",
                        json!({ "type": "boolean", "const": true, "description": "The location does not stock the SKU." }),
                    ),
                ],
            ),
        ),
        (
            "ItemsAvailability",
            object(
                "One entry for each requested item, in the same order.",
                vec![always("items", array(named("AvailabilityEntry"), 1, ITEMS, "The items."))],
            ),
        ),
        (
            "AvailabilityEntry",
            json!({
                "description": "An item's availability, or that the item does not exist.",
                "oneOf": [named("Availability"), named("UnknownItem")],
            }),
        ),
        (
            "UnknownItem",
            object(
                "An item that does not exist.",
                vec![
                    always("sku", label("What.")),
                    always("location", label("Where.")),
                    always(
                        "unknown",
                        json!({ "type": "boolean", "const": true, "description": "There is no such item." }),
                    ),
                ],
            ),
        ),
    ]);
    all
}

/// Each command, by the name of its schema.
fn commands_by_name() -> Vec<(&'static str, Value)> {
    vec![
        ("ReserveCommand", op("reserve", "Hold units of one item.", single())),
        ("BasketCommand", op("reserve", "Hold units of several items.", basket())),
        ("ConfirmCommand", on_one("confirm", "Sell a reservation's units.", confirm_members())),
        (
            "ReleaseCommand",
            on_one(
                "release",
                "Give a reservation's units back.",
                vec![maybe("reason", label("Why, kept as `close_reason`."))],
            ),
        ),
        (
            "ExtendCommand",
            on_one("extend", "Keep a reservation for longer.", vec![always("ttl_seconds", ttl())]),
        ),
        ("AmendCommand", on_one_version("amend", "Change a reservation.", amend_members())),
        (
            "TransferCommand",
            at_least_one(
                on_one_version("transfer", "Give a reservation to another owner or customer.", parties()),
                PARTIES,
            ),
        ),
        ("SplitCommand", on_one_version("split", "Move units into a new reservation.", split_members())),
        ("MergeCommand", on_one_version("merge", "Add the lines of other reservations.", merge_members())),
        (
            "OpenPaymentCommand",
            on_one_version("open_payment", "Keep a reservation while it is paid for.", payment_members()),
        ),
        (
            "ClosePaymentCommand",
            on_one(
                "close_payment",
                "End the payment window of a reservation.",
                vec![
                    maybe("payment_id", label("The payment. Default: that of the open window.")),
                    maybe("reason", label("Why, for the record.")),
                ],
            ),
        ),
        (
            "FulfilCommand",
            on_one("fulfil", "Record that sold units left the shelf.", sale_members("fulfilled")),
        ),
        ("ReturnCommand", on_one("return", "Take back sold units.", return_members())),
        (
            "SetStockCommand",
            with_count(on_item(
                "set_stock",
                "Create an item, or change its stock and settings.",
                stock_members(),
            )),
        ),
        (
            "AdjustStockCommand",
            at_least_one(
                on_item("adjust_stock", "Change an item's total by a difference.", adjust_members()),
                ADJUSTMENT,
            ),
        ),
    ]
}

fn command() -> Value {
    let all = [
        "ReserveCommand",
        "BasketCommand",
        "ConfirmCommand",
        "ReleaseCommand",
        "ExtendCommand",
        "AmendCommand",
        "TransferCommand",
        "SplitCommand",
        "MergeCommand",
        "OpenPaymentCommand",
        "ClosePaymentCommand",
        "FulfilCommand",
        "ReturnCommand",
        "SetStockCommand",
        "AdjustStockCommand",
    ];
    json!({
        "description": "One command. It is judged and answered as the single route would; it can't name a reservation that \
            is made in the same call.",
        "oneOf": all.map(named),
    })
}

/// A command by its `op`.
fn op(word: &str, description: &str, mut members: Vec<Member>) -> Value {
    members.insert(0, always("op", json!({ "type": "string", "const": word, "description": "What to do." })));
    closed(description, members)
}

/// A command on an existing reservation.
fn on_one(word: &str, description: &str, members: Vec<Member>) -> Value {
    let mut all = vec![always("reservation_id", uuid("The reservation's id."))];
    all.extend(members);
    all.push(maybe("idempotency_key", key()));
    op(word, description, all)
}

/// The same with the version that the reservation must have.
fn on_one_version(word: &str, description: &str, mut members: Vec<Member>) -> Value {
    members.push(if_version());
    on_one(word, description, members)
}

/// In place of the header `If-Match`.
fn if_version() -> Member {
    maybe(
        "if_version",
        integer(
            1,
            MAX_VERSION,
            "The version that it must have, in place of `If-Match`. With another version the answer is `precondition_failed`.",
        ),
    )
}

/// A command on an item.
fn on_item(word: &str, description: &str, members: Vec<Member>) -> Value {
    let mut all =
        vec![always("sku", label("The item's SKU.")), maybe("location", location("Where it is stocked."))];
    all.extend(members);
    all.push(if_version());
    op(word, description, all)
}

fn result() -> Value {
    object(
        "What became of one command: what the single route would have answered.",
        vec![
            always(
                "status",
                integer(
                    200,
                    599,
                    "The status that the single route would have had; 201 for every reserve and split and for an item that was created.",
                ),
            ),
            maybe("replayed", flag("True when its key was used before: nothing was done again.")),
            maybe(
                "reservation",
                with(
                    named("Reservation"),
                    "description",
                    "When a command on a reservation took effect: the reservation after it, or the new one of a reserve or a split.",
                ),
            ),
            maybe(
                "item",
                with(named("Item"), "description", "When the stock was set or adjusted: the item after it."),
            ),
            maybe("problem", with(named("CommandProblem"), "description", "When it did not.")),
        ],
    )
}

fn commands() -> Operation {
    let [id, other] = EXAMPLE_IDS;
    let results = written(|out| {
        let mut list = encode::List::open(out, "results");
        encode::result_reservation(list.entry(out), 201, false, &cart(), None);
        encode::result_nothing(list.entry(out), 204, true);
        encode::result_problem(
            list.entry(out),
            &problems::made(Reason::InsufficientInventory),
            &request_id(),
        );
        list.close(out);
    });
    Operation::of(RouteId::RunCommands)
        .requests(json!({
            "mixed": example("Commands on stock and on reservations", json!({
                "commands": [
                    { "op": "set_stock", "sku": "tea", "total_units": 120 },
                    { "op": "adjust_stock", "sku": "tea", "delta": -3, "reason": "broken", "idempotency_key": "count-7" },
                    { "op": "reserve", "owner_id": "cart-8", "sku": "tea", "idempotency_key": "cart-8-1" },
                    { "op": "reserve", "owner_id": "cart-9", "ttl_seconds": 300, "lines": [
                        { "sku": "tea", "quantity": 2 }, { "sku": "cup", "location": "hub-9" },
                    ] },
                    { "op": "extend", "reservation_id": id, "ttl_seconds": 600 },
                    { "op": "amend", "reservation_id": id, "lines": [{ "sku": "tea", "quantity": 3 }], "if_version": 2 },
                    { "op": "confirm", "reservation_id": id, "order_id": "order-1001" },
                    { "op": "release", "reservation_id": other, "reason": "cart emptied" },
                ],
            })),
        }))
        .responds(json!({
            "mixed": example("A reserve that holds, a release that is a replay, a reserve that is refused", results),
        }))
}

fn availability() -> Operation {
    let shown = written(|out| {
        let mut list = encode::List::open(out, "items");
        encode::availability(list.entry(out), &item(), at(1));
        encode::unknown_item(list.entry(out), &item_key("hub-9", "cup"));
        list.close(out);
    });
    let (tea, nowhere) = (item(), item_key("hub-9", item().key.sku()));
    let of_locations = written(|out| {
        let items = [(&tea.key, Some(&tea)), (&nowhere, None)];
        encode::availability_at(out, tea.key.sku(), &items, at(1));
    });
    Operation::of(RouteId::GetAvailabilities)
        .requests(json!({
            "two": example("Two items", json!({
                "items": [{ "sku": "tea" }, { "sku": "cup", "location": "hub-9" }],
            })),
            "locations": example("One SKU at two locations", json!({
                "sku": tea.key.sku(), "locations": [tea.key.location(), nowhere.location()],
            })),
        }))
        .responds(json!({
            "two": example("One item that exists and one that does not", shown),
            "locations": example("A location that stocks the SKU and one that does not", of_locations),
        }))
}
