//! The operations on pools, and what requests and answers of them look like.

use super::operation::{Operation, in_path};
use super::reservations::{at_location, example, sku, sku_like};
use super::samples::{at, item, pool, written};
use super::schema::{
    Member, always, array, closed, flag, label, maybe, named, object, quantity, request_time, seconds, time,
    units, with,
};
use crate::encode;
use crate::routes::RouteId;
use serde_json::{Value, json};
use stockhold_domain::limits::{POOLS, SECTIONS, UNITS_AT_ONCE};

// The route's description names the number.
const _: () = assert!(POOLS == 16 && UNITS_AT_ONCE == 10_000);

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    vec![set(), list(), delete(), put_units(), take_units()]
}

/// Their schemas, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("PoolRequest", closed("Units that are set aside, and until when.", request())),
        ("PoolUnitsRequest", units_request()),
        ("Pool", object("A part of an item's stock that is set aside.", shown())),
        (
            "PoolList",
            object(
                "The pools of an item.",
                vec![always(
                    "data",
                    array(named("Pool"), 0, POOLS, "The pools, in the order of their names."),
                )],
            ),
        ),
        (
            "LinePool",
            object(
                "Units of a line that were drawn from a pool.",
                vec![always("pool", label("Which pool.")), always("quantity", quantity("How many of them."))],
            ),
        ),
    ]
}

/// What of a line was drawn from pools.
pub(super) fn draws() -> [Member; 2] {
    [
        maybe(
            "pool_quantity",
            quantity(
                "Units that were drawn from pools; absent when none were. The others are general stock. A line that loses units \
                 loses general stock first.",
            ),
        ),
        maybe(
            "pools",
            array(
                named("LinePool"),
                1,
                POOLS,
                "The pools that `pool_quantity` was drawn from; absent when it is only the `pool` of the reservation. A merge can \
                 bring others.",
            ),
        ),
    ]
}

fn on_pool(route: RouteId) -> Operation {
    Operation::of(route)
        .parameter(sku())
        .parameter(in_path("pool", label("The name of the pool, unique within the item."), "vip"))
        .parameter(at_location())
}

/// A path under a pool of an item whose units have ids.
fn on_pool_of_units(route: RouteId) -> Operation {
    Operation::of(route)
        .parameter(sku_like("concert"))
        .parameter(in_path("pool", label("The name of the pool, unique within the item."), "press"))
        .parameter(at_location())
}

fn set() -> Operation {
    on_pool(RouteId::SetPool)
        .requests(json!({
            "presale": example("Units for a presale. The rest is released when it ends", json!({
                "allocated": 20, "releases_at": encode::time(at(604_800)),
            })),
            "quota": example("A quota that is not refilled from general stock", json!({
                "allocated": 20, "fallback": false,
            })),
            "idle": example("Units that are released when nobody has drawn any for an hour", json!({
                "allocated": 20, "idle_release_seconds": 3_600,
            })),
        }))
        .responds(json!({ "pool": example("The pool", written(|out| encode::pool(out, &pool()))) }))
}

fn list() -> Operation {
    Operation::of(RouteId::ListPools).parameter(sku()).parameter(at_location()).responds(
        json!({ "pools": example("The pools of an item", written(|out| encode::pools(out, &item()))) }),
    )
}

fn delete() -> Operation {
    on_pool(RouteId::DeletePool)
}

fn put_units() -> Operation {
    on_pool_of_units(RouteId::PutIntoPool)
        .requests(json!({
            "units": example("Two seats for the press", json!({ "units": ["A-16", "A-17"] })),
        }))
        .responds(json!({ "pool": example("The pool", written(|out| encode::pool(out, &pool()))) }))
}

fn take_units() -> Operation {
    on_pool_of_units(RouteId::TakeOutOfPool)
        .requests(json!({
            "units": example("One seat for everyone", json!({ "units": ["A-17"] })),
            "sections": example("All seats of a section", json!({ "sections": ["stalls"] })),
        }))
        .responds(json!({ "pool": example("The pool", written(|out| encode::pool(out, &pool()))) }))
}

fn units_request() -> Value {
    let names = |of: &str, most: usize, description: &str| {
        with(array(label(of), 1, most, description), "uniqueItems", true)
    };
    let members = vec![
        maybe("units", names("A unit's id.", UNITS_AT_ONCE, "These units.")),
        maybe(
            "sections",
            names("A section.", SECTIONS, "All units of these sections: at most 10,000 units together."),
        ),
    ];
    exactly_one(closed("Units with ids: `units` or `sections`.", members), &["units", "sections"])
}

/// An object that has one of these members and not another.
fn exactly_one(mut object: Value, members: &[&str]) -> Value {
    object["oneOf"] = members.iter().map(|member| json!({ "required": [member] })).collect();
    object
}

fn request() -> Vec<Member> {
    vec![
        maybe(
            "allocated",
            units(
                "Units that are set aside, those that were drawn and are still held or sold included. Required where units are \
                 counted. Where units have ids it must be left out.",
            ),
        ),
        maybe(
            "fallback",
            flag(
                "Whether a reserve that names the pool gets general stock when the pool has too few units. Default: `true`.",
            ),
        ),
        maybe(
            "releases_at",
            request_time(
                "When the free units go to general sale. A past time releases the pool at once. Default: never.",
            ),
        ),
        maybe(
            "idle_release_seconds",
            seconds(
                "The free units go to general sale when this long nothing was drawn from the pool, counted from this request or \
                 from the latest draw. Default: never.",
            ),
        ),
    ]
}

fn shown() -> Vec<Member> {
    vec![
        always("pool", label("Its name.")),
        always(
            "allocated",
            units(
                "Units that are set aside, those that were drawn included. Of a released pool: the units that were drawn and have \
                 not come back. Where units have ids, it is the number of units in the pool.",
            ),
        ),
        always("held", units("Units of the pool in active reservations.")),
        always("sold", units("Units of the pool that were sold, less returns.")),
        always("free", units("Units that can be drawn: `allocated` − `held` − `sold`.")),
        always(
            "fallback",
            flag(
                "Whether a reserve that names the pool gets general stock when the pool has too few units. After its release it \
                 does in any case.",
            ),
        ),
        maybe("releases_at", time("When its free units go to general sale.")),
        maybe(
            "idle_release_seconds",
            seconds("How long nothing is drawn before its free units go to general sale."),
        ),
        maybe("released_at", time("When it was released or deleted; absent while it sets units aside.")),
    ]
}

/// The pool of an event, as it is after it.
pub(super) fn of_event() -> Vec<Member> {
    vec![
        always("lines", array(named("EventItem"), 1, 1, "The item's figures.")),
        always("pool", named("Pool")),
        always("item", named("Item")),
    ]
}
