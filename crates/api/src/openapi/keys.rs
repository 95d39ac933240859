//! The operations on API keys, and what requests and answers of them look like.

use super::lists::{limit, starting_after};
use super::operation::{Operation, in_path};
use super::reservations::example;
use super::samples::{rolled_key, shop_key, written};
use super::schema::{
    Member, always, array, closed, flag, integer, key as idempotency_key, label, maybe, named, object,
    request_time, time, with, word,
};
use crate::encode;
use crate::routes::RouteId;
use serde_json::{Value, json};
use stockhold_service::{KeyRecord, MAX_KEY_ENTRIES, MAX_RATE, MAX_ROLL_OVERLAP_SECONDS, Scope};

/// Longest name of a principal, in bytes: it has to fit into the actor of an event behind `key:`.
const PRINCIPAL_BYTES: usize = stockhold_domain::limits::LABEL_BYTES - "key:".len();

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    vec![create(), list(), one(), roll(), revoke()]
}

/// Their schemas, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("KeyRequest", key_request()),
        ("RollRequest", roll_request()),
        ("RateLimit", rate_limit()),
        ("ApiKey", object("An API key, without the key itself.", key_members())),
        ("NewApiKey", new_key()),
    ]
}

fn on_one(route: RouteId) -> Operation {
    let id = shop_key().key_id.to_string();
    Operation::of(route).parameter(in_path("key_id", key_id("The key's id."), &id))
}

/// The operations that can follow on a key.
fn next() -> Value {
    let link = |operation: &str, description: &str| {
        json!({
            "operationId": operation, "parameters": { "key_id": "$response.body#/key_id" }, "description": description,
        })
    };
    json!({
        "read": link("get_key", "Read what it may do."),
        "roll": link("roll_key", "Replace it by a new one."),
        "revoke": link("revoke_key", "End it."),
    })
}

fn shown(key: &KeyRecord) -> Value {
    written(|out| encode::key(out, key))
}

/// A key as the answer to its creation shows it. The text is the form of a key and none that a server could have made.
fn shown_once(key: &KeyRecord) -> Value {
    let mut shown = shown(key);
    shown["key"] = json!(format!("sh_live_{}", "0".repeat(33)));
    shown
}

fn create() -> Operation {
    Operation::of(RouteId::CreateKey)
        .requests(json!({
            "shop": example("A shop's backend", json!({
                "name": "Shop, production", "principal": "shop",
                "scopes": ["reservations:write", "reservations:read", "inventory:read"],
            })),
            "store": example("A store with its own stock, for a year, from its network only", json!({
                "name": "Store in Hamburg", "principal": "hamburg",
                "scopes": ["reservations:write", "inventory:read", "inventory:write"],
                "locations": ["hub-9"], "channels": ["store"], "expires_at": "2099-12-31T00:00:00Z",
                "allowed_cidrs": ["192.0.2.0/24"], "rate_limit": { "per_second": 200, "burst": 400 },
            })),
        }))
        .responds(json!({
            "made": example("The key, shown once", shown_once(&shop_key())),
            "replayed": example("The answer to a repeated request", shown(&shop_key())),
        }))
        .links(next())
}

fn list() -> Operation {
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        encode::key(list.entry(out), &shop_key());
        list.close_page(out, false, None);
    });
    Operation::of(RouteId::ListKeys)
        .parameter(limit())
        .parameter(starting_after())
        .responds(json!({ "page": example("The last page", page) }))
}

fn one() -> Operation {
    on_one(RouteId::GetKey).responds(json!({ "key": example("A key", shown(&shop_key())) })).links(next())
}

fn roll() -> Operation {
    on_one(RouteId::RollKey)
        .requests(json!({
            "overlap": example("The old key works for another hour", json!({ "expire_old_in_seconds": 3_600 })),
        }))
        .responds(json!({ "rolled": example("The new key, shown once", shown_once(&rolled_key())) }))
        .links(next())
}

fn revoke() -> Operation {
    on_one(RouteId::RevokeKey)
}

/// The id of a key.
pub(super) fn key_id(description: &str) -> Value {
    json!({ "type": "string", "pattern": "^key_[0-9a-f]{32}$", "description": description })
}

fn scope() -> Value {
    let names: Vec<_> = Scope::ALL.iter().map(|scope| scope.name()).collect();
    let all: Vec<_> =
        Scope::ALL.iter().map(|scope| format!("`{}`: {}", scope.name(), scope.description())).collect();
    word(&names, &all.join(" "))
}

fn scopes() -> Value {
    array(scope(), 1, MAX_KEY_ENTRIES, "What the key may do. Writing does not include reading.")
}

fn restrictions() -> [Member; 3] {
    let labels = |one: &str, all: &str| array(label(one), 1, MAX_KEY_ENTRIES, all);
    [
        maybe("locations", labels("A location.", "Only items at these locations. Absent: all.")),
        maybe(
            "channels",
            labels(
                "A sales channel.",
                "Only reservations of these sales channels. Absent: all. A reserve that names none gets the channel if there is \
                 only one.",
            ),
        ),
        maybe("own_reservations_only", flag("Only reservations that this principal made. Absent: false.")),
    ]
}

fn networks() -> Member {
    maybe(
        "allowed_cidrs",
        array(
            with(label("A network like `192.0.2.0/24` or `2001:db8::/32`, or an address."), "format", "cidr"),
            1,
            MAX_KEY_ENTRIES,
            "The networks that the key may be used from. Absent: every one.",
        ),
    )
}

fn rate_limit() -> Value {
    let most = u64::from(MAX_RATE);
    closed(
        "How often a key may be used, on each instance, or on all of them together if they share rate limits.",
        vec![
            always("per_second", integer(1, most, "Requests a second over time.")),
            always("burst", integer(1, most, "Requests at once after a rest.")),
        ],
    )
}

fn key_request() -> Value {
    let principal = "The caller that the key stands for. It owns idempotency keys and reservations, and outlives the key. Several \
                     keys may stand for one.";
    let principal = with(label(principal), "maxLength", PRINCIPAL_BYTES);
    let principal = with(principal, "x-max-bytes", PRINCIPAL_BYTES);
    let mut members = vec![
        always("name", label("What people call the key.")),
        always("principal", principal),
        always("scopes", scopes()),
    ];
    members.extend(restrictions());
    members.extend([
        maybe("expires_at", request_time("When the key ends by itself, in the future. Absent: never.")),
        networks(),
        maybe("rate_limit", named("RateLimit")),
        maybe("idempotency_key", idempotency_key()),
    ]);
    closed("What a new API key shall be.", members)
}

fn roll_request() -> Value {
    let most = u64::from(MAX_ROLL_OVERLAP_SECONDS);
    let overlap = integer(
        0,
        most,
        "How long the old key stays valid, in seconds, at most 30 days. Default: 0, which ends it now. An earlier `expires_at` \
         of the old key stays.",
    );
    closed(
        "When the old key ends.",
        vec![maybe("expire_old_in_seconds", overlap), maybe("idempotency_key", idempotency_key())],
    )
}

/// What answers and events show of a key, without its id.
pub(super) fn fields(requirement: impl Fn(&'static str, Value) -> Member) -> Vec<Member> {
    let mut members = vec![
        requirement("name", label("What people call the key.")),
        requirement("principal", label("The caller that the key stands for.")),
        requirement("scopes", array(scope(), 0, usize::MAX, "What the key may do.")),
    ];
    members.extend(restrictions());
    members.extend([
        networks(),
        maybe("rate_limit", named("RateLimit")),
        requirement("created_at", time("When the key was made.")),
        maybe("expires_at", time("When the key ends by itself.")),
        maybe(
            "last_used_at",
            time("When the key was last used, at most an hour out of date. Absent: never."),
        ),
        maybe("revoked_at", time("When the key was revoked, or ended by a roll without an overlap.")),
        maybe("rolled_from", key_id("The key that this one replaced.")),
    ]);
    members
}

fn key_members() -> Vec<Member> {
    let mut members = vec![always("key_id", key_id("The key's id. It is no secret."))];
    members.extend(fields(always));
    members
}

fn new_key() -> Value {
    let mut members = key_members();
    members.push(maybe(
        "key",
        json!({
            "type": "string", "pattern": "^sh_live_[0-9A-Za-z]{33}$",
            "description": "The key, for `Authorization: Bearer`. It is shown this once. Absent in the answer to a repeated request.",
        }),
    ));
    object("An API key that was just made.", members)
}
