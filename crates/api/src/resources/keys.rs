//! API keys: everything about a key, never its digest, and the key itself only once.

use super::texts;
use crate::encode;
use crate::field::{
    FieldValue, GIVEN_TIME, IDEMPOTENCY_KEY, KEY_CURSOR, Kind, LabelText, PAGE_SIZE, Text, Whole, entry,
    form, label_text, list, whole,
};
use crate::openapi::operation::{Operation, in_path};
use crate::openapi::reservations::example;
use crate::openapi::samples::{rolled_key, shop_key, to_value, written};
use crate::openapi::schema::word;
use crate::problem::Reason;
use crate::routes::row::{self, KEY_LOCATION, NO_STORE, REPLAYED, empty, optional, required};
use crate::routes::table::PLAIN;
use crate::routes::{Access, RequiredScope, Response, Restriction, RouteId, RouteSpec, Tag};
use serde::{Deserializer, Serializer};
use serde_json::{Value, json};
use stockhold_api_macros::shape;
use stockhold_domain::limits::LABEL_BYTES;
use stockhold_domain::{Instant, Label};
use stockhold_service::{
    KeyId, KeyRecord, MAX_KEY_ENTRIES, MAX_RATE, MAX_ROLL_OVERLAP_SECONDS, NewApiKey as KeyText, NewKeySpec,
    Scope,
};

/// A principal: it has to fit into the actor of an event behind `key:`.
const PRINCIPAL: LabelText = label_text(LABEL_BYTES - "key:".len());
const NETWORK: LabelText = label_text(LABEL_BYTES).format("cidr");
const RATE: Whole = whole(1..=MAX_RATE as u64);
const OVERLAP: Whole = whole(0..=MAX_ROLL_OVERLAP_SECONDS as u64).of("seconds");
const KEY: Text = form("^sh_live_[0-9A-Za-z]{33}$");

/// The name of a scope. A request is checked for what its caller may give.
#[derive(Clone, Copy)]
struct ScopeName;

impl Kind<Label> for ScopeName {
    fn read<'de, D: Deserializer<'de>>(&self, from: D) -> Result<Label, D::Error> {
        Label::read(from)
    }

    fn write<S: Serializer>(&self, value: &Label, to: S) -> Result<S::Ok, S::Error> {
        value.write(to)
    }

    fn schema(&self, _: &str) -> Value {
        let names: Vec<_> = Scope::ALL.iter().map(|scope| scope.name()).collect();
        let described = |scope: &Scope| format!("`{}`: {}", scope.name(), scope.description());
        word(&names, &Scope::ALL.iter().map(described).collect::<Vec<_>>().join(" "))
    }
}

/// What a new API key shall be.
#[shape(request)]
pub struct KeyRequest {
    /// What people call the key.
    pub name: Label,
    /// The caller that the key stands for. It owns idempotency keys and reservations, and outlives the key. Several keys may stand for
    /// one.
    #[is(PRINCIPAL)]
    pub principal: Label,
    /// What the key may do. Writing does not include reading.
    #[is(list(1..=MAX_KEY_ENTRIES).of(ScopeName))]
    pub scopes: Vec<Label>,
    /// Only items at these locations. Absent: all.
    #[is(list(1..=MAX_KEY_ENTRIES).each("A location."))]
    pub locations: Option<Vec<Label>>,
    /// Only reservations of these sales channels. Absent: all. A reserve that names none gets the channel if there is only one.
    #[is(list(1..=MAX_KEY_ENTRIES).each("A sales channel."))]
    pub channels: Option<Vec<Label>>,
    /// Only reservations that this principal made. Absent: false.
    pub own_reservations_only: Option<bool>,
    /// When the key ends by itself, in the future. Absent: never.
    #[is(GIVEN_TIME)]
    pub expires_at: Option<Instant>,
    /// The networks that the key may be used from. Absent: every one.
    #[is(list(1..=MAX_KEY_ENTRIES).of(NETWORK).each("A network like `192.0.2.0/24` or `2001:db8::/32`, or an address."))]
    pub allowed_cidrs: Option<Vec<Label>>,
    /// How often the key may be used.
    pub rate_limit: Option<RateLimit>,
    /// The idempotency key, in place of the header. A different key in the header is `invalid_request`.
    #[is(IDEMPOTENCY_KEY)]
    pub idempotency_key: Option<String>,
}

/// How often a key may be used, on each instance, or on all of them together if they share rate limits.
#[shape(request)]
pub struct RateLimit {
    /// Requests a second over time.
    #[is(RATE)]
    pub per_second: u32,
    /// Requests at once after a rest.
    #[is(RATE)]
    pub burst: u32,
}

/// When the old key ends.
#[shape(request)]
#[derive(Default)]
pub struct RollRequest {
    /// How long the old key stays valid, in seconds, at most 30 days. Default: 0, which ends it now. An earlier `expires_at` of the old
    /// key stays.
    #[is(OVERLAP, default)]
    pub expire_old_in_seconds: u32,
    /// The idempotency key, in place of the header. A different key in the header is `invalid_request`.
    #[is(IDEMPOTENCY_KEY)]
    pub idempotency_key: Option<String>,
}

/// What answers and events show of a key, without its id.
#[shape(answer)]
pub struct ApiKeyFields {
    /// What people call the key.
    pub name: Label,
    /// The caller that the key stands for.
    pub principal: Label,
    /// What the key may do.
    #[is(list(0..=usize::MAX).of(ScopeName))]
    pub scopes: Vec<Label>,
    /// Only items at these locations. Absent: all.
    #[is(list(1..=MAX_KEY_ENTRIES).each("A location."))]
    pub locations: Option<Vec<Label>>,
    /// Only reservations of these sales channels. Absent: all. A reserve that names none gets the channel if there is only one.
    #[is(list(1..=MAX_KEY_ENTRIES).each("A sales channel."))]
    pub channels: Option<Vec<Label>>,
    /// Only reservations that this principal made. Absent: false.
    pub own_reservations_only: Option<bool>,
    /// The networks that the key may be used from. Absent: every one.
    #[is(list(1..=MAX_KEY_ENTRIES).of(NETWORK).each("A network like `192.0.2.0/24` or `2001:db8::/32`, or an address."))]
    pub allowed_cidrs: Option<Vec<Label>>,
    /// How often the key may be used.
    pub rate_limit: Option<RateLimit>,
    /// When the key was made.
    pub created_at: Instant,
    /// When the key ends by itself.
    pub expires_at: Option<Instant>,
    /// When the key was last used, at most an hour out of date. Absent: never.
    pub last_used_at: Option<Instant>,
    /// When the key was revoked, or ended by a roll without an overlap.
    pub revoked_at: Option<Instant>,
    /// The key that this one replaced.
    pub rolled_from: Option<KeyId>,
}

/// An API key, without the key itself.
#[shape(answer)]
pub struct ApiKey {
    /// The key's id. It is no secret.
    pub key_id: KeyId,
    /// Everything about it.
    #[is(flat)]
    pub fields: ApiKeyFields,
}

/// An API key that was just made.
#[shape(answer, private)]
pub struct NewApiKey {
    /// The key's id. It is no secret.
    pub key_id: KeyId,
    /// Everything about it.
    #[is(flat)]
    pub fields: ApiKeyFields,
    /// The key, for `Authorization: Bearer`. It is shown this once. Absent in the answer to a repeated request.
    #[is(KEY)]
    pub key: Option<String>,
}

/// Which keys.
#[shape(query)]
pub struct KeysQuery {
    /// Most entries of the page.
    #[is(PAGE_SIZE)]
    pub limit: Option<u16>,
    /// The `next_cursor` of the previous page. Its content is opaque.
    #[is(KEY_CURSOR)]
    pub starting_after: Option<String>,
}

impl KeyRequest {
    /// What the key shall be. Its scopes, networks and time are not checked yet.
    pub fn spec(&self) -> NewKeySpec {
        NewKeySpec {
            name: self.name.to_string(),
            principal: self.principal.to_string(),
            scopes: texts(&self.scopes),
            locations: self.locations.as_deref().map(texts),
            channels: self.channels.as_deref().map(texts),
            own_reservations_only: self.own_reservations_only.unwrap_or_default(),
            expires_at: self.expires_at,
            allowed_cidrs: self.allowed_cidrs.as_deref().map(texts),
            rate_limit: self.rate_limit.as_ref().map(|limit| (limit.per_second, limit.burst)),
        }
    }

    /// What the request asks for, as bytes that are the same for the same meaning. Fingerprints of idempotency keys are made of it, so a
    /// change of its form makes repeated requests from before the change mismatch.
    pub fn meaning(&self) -> Vec<u8> {
        let set = |labels: &Vec<Label>| {
            let mut texts = texts(labels);
            texts.sort_unstable();
            texts.dedup();
            texts
        };
        let members = json!([
            self.name.as_str(),
            self.principal.as_str(),
            set(&self.scopes),
            self.locations.as_ref().map(set),
            self.channels.as_ref().map(set),
            self.own_reservations_only.unwrap_or_default(),
            self.expires_at.map(Instant::micros),
            self.allowed_cidrs.as_ref().map(set),
            self.rate_limit.as_ref().map(|limit| (limit.per_second, limit.burst)),
        ]);
        members.to_string().into_bytes()
    }
}

impl RollRequest {
    /// What the request asks for; see [`KeyRequest::meaning`].
    pub fn meaning(&self, id: KeyId) -> Vec<u8> {
        json!([id.to_string(), self.expire_old_in_seconds]).to_string().into_bytes()
    }
}

impl From<&KeyRecord> for ApiKeyFields {
    fn from(key: &KeyRecord) -> Self {
        let restrictions = &key.restrictions;
        let named = |label: String| Label::new(&label).ok();
        let networks: Vec<_> =
            key.allowed_networks.iter().filter_map(|network| named(network.to_string())).collect();
        Self {
            name: key.name.clone(),
            principal: key.principal.clone(),
            scopes: key.scopes.iter().filter_map(|scope| named(scope.name().to_owned())).collect(),
            locations: restrictions.locations.as_ref().map(|labels| labels.iter().cloned().collect()),
            channels: restrictions.channels.as_ref().map(|labels| labels.iter().cloned().collect()),
            own_reservations_only: restrictions.own_reservations_only.then_some(true),
            allowed_cidrs: Some(networks).filter(|networks| !networks.is_empty()),
            rate_limit: key.rate_limit.map(|(per_second, burst)| RateLimit { per_second, burst }),
            created_at: key.created_at,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            revoked_at: key.revoked_at,
            rolled_from: key.rolled_from,
        }
    }
}

impl From<&KeyRecord> for ApiKey {
    fn from(key: &KeyRecord) -> Self {
        Self { key_id: key.key_id, fields: key.into() }
    }
}

impl NewApiKey {
    /// A key that was just made, with its text if this request made it.
    pub fn of(key: &KeyRecord, text: Option<&KeyText>) -> Self {
        Self { key_id: key.key_id, fields: key.into(), key: text.map(|text| text.reveal().to_owned()) }
    }
}

pub(crate) const CREATE_KEY: RouteSpec = RouteSpec {
    metric: "create_key",
    tag: Tag::Access,
    summary: "Create an API key",
    description: "The answer has the key as `key`. It is shown this once: the server keeps a digest only. Nobody gives a \
        scope, a location or a channel that they lack. The key works at once on every instance. On a server without \
        credentials the first key makes credentials necessary for every route, so start it with a root key first.\n\nA \
        request that is repeated with its idempotency key makes no second key. Its answer has the key's fields without \
        `key`: if the first answer was lost, revoke the key and create another one.",
    body: required("KeyRequest"),
    idempotency_key: true,
    access: Access::Write,
    scope: RequiredScope::One(Scope::KeysAdmin),
    responses: &[Response {
        headers: &[KEY_LOCATION, NO_STORE, REPLAYED],
        ..row::json(201, "The key. `key` is absent if the request was repeated.", "NewApiKey")
    }],
    restriction: Restriction::ByKey,
    ..PLAIN
};

pub(crate) const LIST_KEYS: RouteSpec = RouteSpec {
    metric: "keys",
    tag: Tag::Access,
    summary: "List API keys",
    description: "In the order of their ids, which is random. Keys that were revoked or have expired are listed for 30 days \
        after their end.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::KeysAdmin),
    restriction: Restriction::ByKey,
    responses: &[row::json(200, "A page of keys.", "ApiKeyPage")],
    ..PLAIN
};

pub(crate) const GET_KEY: RouteSpec = RouteSpec {
    metric: "key",
    tag: Tag::Access,
    summary: "Read an API key",
    description: "Everything about the key except the key itself. Ended keys can be read too.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::KeysAdmin),
    restriction: Restriction::ByKey,
    responses: &[row::json(200, "The key.", "ApiKey")],
    own_reasons: &[Reason::UnknownKey],
    ..PLAIN
};

pub(crate) const ROLL_KEY: RouteSpec = RouteSpec {
    metric: "roll_key",
    tag: Tag::Access,
    summary: "Replace an API key",
    description: "Creates a key with the same principal, scopes, restrictions and end, and ends the old one after \
        `expire_old_in_seconds`, at once by default. The principal stays, and so do its idempotency keys and its reservations. \
        Nobody gets a scope, a location or a channel by a roll that they lack. An ended key can't be rolled.\n\nA request \
        that is repeated with its idempotency key makes no second key. Its answer has no `key`, like that of `create_key`. If \
        the old key did not get its end before, it gets it now.",
    body: optional("RollRequest"),
    idempotency_key: true,
    access: Access::Write,
    scope: RequiredScope::One(Scope::KeysAdmin),
    restriction: Restriction::ByKey,
    responses: &[Response {
        headers: &[KEY_LOCATION, NO_STORE, REPLAYED],
        ..row::json(201, "The new key. `key` is absent if the request was repeated.", "NewApiKey")
    }],
    own_reasons: &[Reason::UnknownKey, Reason::KeyEnded],
    ..PLAIN
};

pub(crate) const REVOKE_KEY: RouteSpec = RouteSpec {
    metric: "revoke_key",
    tag: Tag::Access,
    summary: "Revoke an API key",
    description: "This instance refuses the key at once, every other one within 5 seconds, in open event streams too. Revoking \
        a key that has ended gives the same answer and changes nothing.",
    access: Access::Write,
    scope: RequiredScope::One(Scope::KeysAdmin),
    restriction: Restriction::ByKey,
    responses: &[empty(204, "The key has ended.")],
    own_reasons: &[Reason::UnknownKey],
    ..PLAIN
};

/// The operations of the document.
pub(crate) fn operations() -> Vec<Operation> {
    vec![create(), list_all(), one(), roll(), revoke()]
}

/// The schemas of the document, by name.
pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        entry::<KeyRequest>(),
        entry::<RollRequest>(),
        entry::<RateLimit>(),
        entry::<ApiKey>(),
        entry::<NewApiKey>(),
    ]
}

fn on_one(route: RouteId) -> Operation {
    let id = shop_key().key_id.to_string();
    Operation::of(route).parameter(in_path("key_id", KeyId::schema("The key's id."), &id))
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
    to_value(&ApiKey::from(key))
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

fn list_all() -> Operation {
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        encode::shape(list.entry(out), &ApiKey::from(&shop_key()));
        list.close_page(out, false, None);
    });
    Operation::of(RouteId::ListKeys)
        .query::<KeysQuery>()
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
