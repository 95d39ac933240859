//! The operations of checkouts, refunds and orders, and what their answers look like.

use super::lists::{limit as page_limit, starting_after};
use super::operation::{Operation, in_path, in_query};
use super::requests::sale_members;
use super::reservations::{example, on_one};
use super::samples::{checked_out, given_up, needs_action, refunding, reservation, written};
use super::schema::{
    Member, NO_CONTROL, always, array, closed, integer, label, maybe, named, object, text, time, uuid, word,
};
use crate::encode::{self, BuyerAction};
use crate::routes::RouteId;
use serde_json::{Value, json};
use stockhold_domain::limits::{
    AMOUNT, BASKET_LINES, EXTRA_AMOUNTS, PAYMENT_CEILING_SECONDS, PAYMENT_DESCRIPTION_BYTES,
    PROVIDER_REF_BYTES, RETURN_URL_BYTES,
};

const ORDER_STATUSES: [&str; 5] = ["authorized", "paid", "cancelled", "partially_refunded", "refunded"];

/// All of them.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        start(),
        on_one(RouteId::GetCheckout)
            .responds(json!({ "action": example("The buyer has to go to the bank", needs_action()) })),
        on_one(RouteId::CancelCheckout)
            .responds(json!({ "ending": example("The provider is asked to end the payment", reservation(&given_up())) })),
        refund(),
        on_one(RouteId::RetryRefund)
            .responds(json!({ "again": example("The provider is asked again", reservation(&refunding())) })),
        list(),
        Operation::of(RouteId::GetOrder)
            .parameter(in_path("order_id", label("The order's id."), "order-1002"))
            .responds(json!({ "paid": example("Paid", written(|out| encode::order(out, &checked_out()))) })),
        webhook(),
    ]
}

/// Their schemas, by name.
pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        (
            "CheckoutRequest",
            with_one_method(super::requests::keyed("How the reservation is paid.", checkout_members())),
        ),
        (
            "AutoCheckout",
            with_one_method(closed(
                "How the reservation is paid, if Stockhold is to take the payment at once. It begins in the same commit, and goes on by \
                 itself. The answer does not wait for it. It needs the scope `checkout:write`, and a price of every line.",
                checkout_members(),
            )),
        ),
        ("PaymentMethod", payment_method()),
        (
            "ExtraAmount",
            closed(
                "An amount beside the lines.",
                vec![always("name", label("What it is for.")), always("amount", amount("The amount."))],
            ),
        ),
        ("RefundRequest", refund_request()),
        ("Order", object("What a reservation became by a checkout.", order_members())),
        ("OrderSummary", object("What a reservation says of its order.", order_summary())),
        ("NextAction", next_action()),
        ("ProviderWebhook", json!({ "type": "object", "description": "As the provider sends it." })),
        (
            "Received",
            object("The webhook was taken.", vec![always("received", super::schema::flag("Always true."))]),
        ),
    ]
}

fn amount(description: &str) -> Value {
    integer(0, AMOUNT, &format!("{description} In the smallest unit of the currency."))
}

pub(crate) fn provider_name(description: &str) -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": PROVIDER_REF_BYTES, "pattern": "^[!-~]+$", "description": description,
    })
}

fn payment_method() -> Value {
    closed(
        "Who pays how, as the provider names it.",
        vec![
            always(
                "provider",
                label("The provider: one that the server is configured with, such as `stripe` or `test`."),
            ),
            always("method_ref", provider_name("The payment method, such as `pm_…`.")),
            maybe(
                "customer_ref",
                provider_name("The customer, such as `cus_…`, if the method is stored with one."),
            ),
        ],
    )
}

/// A checkout with a payment method or a customer, and never with both.
fn with_one_method(mut checkout: Value) -> Value {
    checkout["oneOf"] = json!([{ "required": ["payment_method"] }, { "required": ["customer_id"] }]);
    checkout
}

fn checkout_members() -> Vec<Member> {
    let return_url = json!({
        "type": "string", "maxLength": RETURN_URL_BYTES, "pattern": "^https?://[!-~]+$",
        "description": "Where the provider sends the buyer back to. Without it, a payment that needs the buyer is declined.",
    });
    let description = json!({
        "type": "string", "minLength": 1, "maxLength": PAYMENT_DESCRIPTION_BYTES,
        "x-max-bytes": PAYMENT_DESCRIPTION_BYTES, "pattern": NO_CONTROL,
        "description": "What the provider shows to the buyer, at most 1,000 bytes.",
    });
    let window = "The length of the payment window from now, in seconds, cut to what `max_payment_seconds` leaves. Default: 900.";
    vec![
        maybe("payment_method", named("PaymentMethod")),
        maybe(
            "customer_id",
            label(
                "The customer whose stored payment method is used, instead of `payment_method`: that at the first of the providers `stripe` \
                 and `test` that the server is configured with and the customer has a method at.",
            ),
        ),
        maybe("order_id", label("The order that the reservation becomes. Default: a new id.")),
        maybe(
            "capture",
            word(
                &["after_confirm", "charge_then_confirm"],
                "`after_confirm`, the default: the money is moved after the confirm. `charge_then_confirm`: before it.",
            ),
        ),
        maybe(
            "on_decline",
            word(
                &["release", "keep"],
                "`release`, the default: a declined payment releases the hold. `keep`: the hold stays for another payment.",
            ),
        ),
        maybe(
            "notify",
            super::schema::flag(
                "Whether the buyer is notified by mail and push of what becomes of the order, if the server is configured for it. The \
                 reservation needs a `customer_id`. Default: false.",
            ),
        ),
        maybe("window_seconds", integer(1, PAYMENT_CEILING_SECONDS.into(), window)),
        maybe("return_url", return_url),
        maybe("description", description),
        maybe(
            "extra",
            array(named("ExtraAmount"), 0, EXTRA_AMOUNTS, "Amounts beside the lines, such as postage."),
        ),
    ]
}

fn refund_request() -> Value {
    let mut schema = super::requests::keyed("How much is given back, and why.", refund_members());
    let units = json!({ "anyOf": [{ "required": ["lines"] }, { "required": ["units"] }] });
    schema["dependentSchemas"] = json!({ "disposition": units, "amount": { "not": units } });
    schema
}

fn refund_members() -> Vec<Member> {
    let mut members =
        vec![maybe("amount", integer(1, AMOUNT, "How much. Not together with `lines` or `units`."))];
    members.extend(sale_members("refunded"));
    members.push(maybe(
        "disposition",
        word(
            &["restock", "write_off"],
            "With `lines` or `units`: what becomes of the units. `restock`, the default: they can be sold again.",
        ),
    ));
    members.push(always("reason", label("Why, for the record.")));
    members
}

fn order_summary() -> Vec<Member> {
    vec![
        always("order_id", label("The order.")),
        always("status", word(&ORDER_STATUSES, "What became of its money.")),
        always("amount", amount("What it costs: all lines and extras.")),
        always("refunded_amount", amount("What was given back.")),
        always("currency", label("The three letters of the currency, in lower case.")),
    ]
}

fn order_members() -> Vec<Member> {
    let mut members = order_summary();
    members.extend([
        maybe("extra", array(named("ExtraAmount"), 1, EXTRA_AMOUNTS, "Amounts beside the lines.")),
        always("reservation_id", uuid("The reservation.")),
        always("owner_id", label("The owner of the reservation.")),
        maybe("customer_id", label("The customer who pays, or else who it was reserved for.")),
        always("payment_id", label("The payment.")),
        always("lines", array(named("ReservationLine"), 1, BASKET_LINES, "What was bought.")),
        always("created_at", time("When the reservation was confirmed.")),
    ]);
    members
}

fn next_action() -> Value {
    object(
        "What the buyer has to do before the payment goes on.",
        vec![
            always(
                "type",
                word(
                    &["redirect", "provider_sdk"],
                    "`redirect`: go to `url`. `provider_sdk`: use the provider's library.",
                ),
            ),
            maybe("url", text("The address to go to.")),
            maybe("client_secret", text("What the provider's library needs. It is for the buyer only.")),
        ],
    )
}

/// The members of a payment that the service takes.
pub(crate) fn of_payment() -> Vec<Member> {
    vec![
        maybe("provider", label("The provider, if Stockhold takes the payment.")),
        maybe("provider_ref", provider_name("The payment, as the provider names it.")),
        maybe("attempt", super::schema::counter("How often the present step was asked for with a new key.")),
        maybe("amount", amount("What is to be paid.")),
        maybe("currency", label("The three letters of the currency, in lower case.")),
        maybe("captured_amount", amount("What was taken.")),
        maybe("refunded_amount", amount("What was given back.")),
        maybe("notify", super::schema::flag("Whether the buyer is notified. Absent if not.")),
        maybe("error", label("The code of the latest failure.")),
        maybe("next_action", named("NextAction")),
    ]
}

fn start() -> Operation {
    on_one(RouteId::StartCheckout)
        .requests(json!({
            "stored": example("A stored payment method", json!({
                "payment_method": { "provider": "test", "method_ref": "approve" },
                "extra": [{ "name": "postage", "amount": 490 }],
            })),
            "customer": example("The stored method of a customer", json!({ "customer_id": "anna" })),
            "keep": example("Keep the hold if the card is declined", json!({
                "payment_method": { "provider": "test", "method_ref": "decline" },
                "on_decline": "keep", "order_id": "order-1002",
            })),
        }))
        .responds(json!({
            "paid": example("Confirmed and paid", reservation(&checked_out())),
            "action": example("The buyer has to go to the bank", needs_action()),
        }))
}

fn refund() -> Operation {
    on_one(RouteId::Refund)
        .requests(json!({
            "amount": example("An amount", json!({ "amount": 500, "reason": "late" })),
            "units": example("A packet that came back", json!({
                "lines": [{ "sku": "tea", "quantity": 1 }], "reason": "damaged",
            })),
            "rest": example("All that is left", json!({ "reason": "order cancelled" })),
        }))
        .responds(json!({ "refund": example("Before the refund is made", reservation(&refunding())) }))
}

fn list() -> Operation {
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        encode::order(list.entry(out), &checked_out());
        list.close_page(out, true, Some("00000000000000000000000000000029"));
    });
    Operation::of(RouteId::ListOrders)
        .parameter(in_query("status", word(&ORDER_STATUSES, "Only those with this status now.")))
        .parameter(in_query("customer_id", label("Only those of this customer.")))
        .parameter(page_limit())
        .parameter(starting_after())
        .responds(json!({ "page": example("A page that is not the last", page) }))
}

fn webhook() -> Operation {
    Operation::of(RouteId::ProviderWebhook)
        .parameter(in_path("provider", label("The provider: `stripe` or `test`."), "test"))
        .requests(json!({
            "test": example("Of the test provider", json!({ "reservation_id": super::samples::EXAMPLE_IDS[0] })),
        }))
        .responds(json!({ "received": example("Taken", json!({ "received": true })) }))
}

/// What the examples of a payment that needs its buyer show.
pub(crate) fn redirect() -> BuyerAction {
    BuyerAction::Redirect { url: "http://127.0.0.1:8090/action/pay-1".to_owned() }
}
