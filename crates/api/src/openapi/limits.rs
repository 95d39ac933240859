//! The operations on limits, and what requests and answers of them look like.

use super::lists::{limit as page_limit, starting_after};
use super::operation::{Operation, in_path, in_query};
use super::reservations::{example, example_at};
use super::samples::{label as made_label, written};
use super::schema::{Member, always, array, closed, counter, label, maybe, named, object, units, word};
use crate::encode;
use crate::routes::RouteId;
use serde_json::{Value, json};
use stockhold_domain::limits::{LIMIT_CHANNELS, LIMIT_TARGETS};
use stockhold_domain::{Limit, LimitCounter, LimitTarget, LimitTerms, LimitedUnits, SubjectKind};

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    vec![set(), list(), one(), usage(), delete()]
}

/// Their schemas, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("LimitRequest", closed("How many units of which items, and for whom.", members(always, maybe))),
        ("LimitItem", limit_item()),
        ("Limit", shown_limit()),
        ("EventLimit", {
            let mut all = vec![always("limit_id", label("Its id.")), always("version", version())];
            all.extend(members(maybe, maybe));
            all.push(maybe("generation", generation()));
            object(
                "A limit as it is after the event. One that was deleted has only its id and its version.",
                all,
            )
        }),
        ("LimitUsage", limit_usage()),
        ("LimitUsageAnswer", json!({ "oneOf": [named("LimitUsage"), named("LimitUsagePage")] })),
        (
            "LineLimit",
            counted(
                "A limit that counts units of the line.",
                vec![always("quantity", counter("How many of them."))],
            ),
        ),
        (
            "LimitCounter",
            counted(
                "A counter of a limit, as it is after the event.",
                vec![
                    always("held", units("Units in active reservations.")),
                    always("sold", units("Units sold, less returns.")),
                ],
            ),
        ),
    ]
}

fn sample() -> Limit {
    Limit {
        id: made_label("drop-7-two-each"),
        version: 3,
        generation: 1,
        terms: Some(
            LimitTerms {
                targets: [LimitTarget::Sku(made_label("tee-s")), LimitTarget::Sku(made_label("tee-m"))]
                    .into(),
                channels: [].into(),
                per: Some(SubjectKind::Customer),
                limit: 2,
                counts: LimitedUnits::HeldAndSold,
            }
            .into(),
        ),
    }
}

/// The id of a limit that examples create and delete.
const QUOTA: &str = "marketplace-tea";

fn on_one(route: RouteId) -> Operation {
    on(route, "drop-7-two-each")
}

fn on(route: RouteId, limit_id: &'static str) -> Operation {
    Operation::of(route).parameter(in_path("limit_id", label("The limit's id."), limit_id))
}

fn set() -> Operation {
    on_one(RouteId::SetLimit)
        .requests(json!({
            "each": example("Two for each customer, of two sizes together", json!({
                "items": [{ "sku": "tee-s" }, { "sku": "tee-m" }], "per": "customer", "limit": 2,
            })),
            "quota": example_at("A quota of a marketplace", json!({ "limit_id": QUOTA }), json!({
                "items": [{ "sku": "tea", "location": "hub-9" }], "channels": ["marketplace"], "limit": 500,
            })),
            "hoarding": example_at("Carts of one owner at a location", json!({ "limit_id": "hub-9-carts" }), json!({
                "items": [{ "location": "hub-9" }], "per": "owner", "limit": 20, "counts": "held",
            })),
        }))
        .responds(json!({ "limit": example("The limit", written(|out| encode::limit(out, &sample()))) }))
}

fn list() -> Operation {
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        encode::limit(list.entry(out), &sample());
        list.close_page(out, false, None);
    });
    Operation::of(RouteId::ListLimits)
        .parameter(page_limit())
        .parameter(starting_after())
        .responds(json!({ "page": example("The last page", page) }))
}

fn one() -> Operation {
    on_one(RouteId::GetLimit)
        .responds(json!({ "limit": example("A limit", written(|out| encode::limit(out, &sample()))) }))
}

fn usage() -> Operation {
    let (ann, counter) = (made_label("ann"), LimitCounter { held: 1, sold: 1 });
    let one = written(|out| encode::limit_usage(out, &sample(), Some(&ann), counter));
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        encode::limit_usage(list.entry(out), &sample(), Some(&ann), counter);
        list.close_page(out, false, None);
    });
    on_one(RouteId::GetLimitUsage)
        .parameter(in_query(
            "subject",
            label("The customer or the owner. Without it: all of them, in pages."),
        ))
        .parameter(page_limit())
        .parameter(starting_after())
        .responds(json!({
            "one": example("Of a customer", one),
            "page": example("Of all customers", page),
        }))
}

fn delete() -> Operation {
    on(RouteId::DeleteLimit, QUOTA)
}

fn version() -> Value {
    counter("It rises by 1 with every change; the `ETag`.")
}

fn generation() -> Value {
    counter(
        "The version with which its counts began at 0: a change of `items`, `channels` or `per` begins anew.",
    )
}

/// What a limit says. `own` makes the members that every limit has, and `default` those of them that a request may leave out.
fn members(
    own: impl Fn(&'static str, Value) -> Member,
    default: impl Fn(&'static str, Value) -> Member,
) -> Vec<Member> {
    let some = "Default: all channels, and reservations without one.";
    vec![
        own(
            "items",
            array(named("LimitItem"), 1, LIMIT_TARGETS, "The items whose units are counted together."),
        ),
        maybe(
            "channels",
            array(
                label("A sales channel."),
                1,
                LIMIT_CHANNELS,
                &format!("Only units sold through these. {some}"),
            ),
        ),
        maybe(
            "per",
            word(
                &["customer", "owner"],
                "`customer`: each `customer_id` has its own count. `owner`: each `owner_id` has. Default: all share one count.",
            ),
        ),
        own("limit", units("The most units. 0 refuses everybody.")),
        default(
            "counts",
            word(
                &["held_and_sold", "held"],
                "`held_and_sold`, the default: units in active reservations, and sold units that did not come back. `held`: only \
                 units in active reservations.",
            ),
        ),
    ]
}

fn limit_item() -> Value {
    super::requests::at_least_one(
        closed(
            "An item with both members, a SKU at every location, or every item at a location. It need not exist yet.",
            vec![maybe("sku", label("The SKU.")), maybe("location", label("The location."))],
        ),
        &["sku", "location"],
    )
}

fn shown_limit() -> Value {
    let mut all = vec![always("limit_id", label("Its id."))];
    all.extend(members(always, always));
    all.extend([always("generation", generation()), always("version", version())]);
    object("How many units of which items, and for whom.", all)
}

fn limit_usage() -> Value {
    object(
        "What a limit counts.",
        vec![
            always("limit_id", label("Which limit.")),
            maybe("subject", label("The customer or the owner. Absent: all together.")),
            always("limit", units("The most units.")),
            always("used", units("The units that are compared with it: `held` and `sold`, or `held` alone.")),
            always("held", units("Units in active reservations.")),
            always("sold", units("Units sold, less returns.")),
        ],
    )
}

fn counted(description: &str, own: Vec<Member>) -> Value {
    let mut all = vec![
        always("limit_id", label("Which limit.")),
        always("generation", counter("Its generation. Counts of an ended generation mean nothing more.")),
        maybe("subject", label("The customer or the owner. Absent: all together.")),
    ];
    all.extend(own);
    object(description, all)
}
