//! The longest row of the routes of API keys, without its path.

use super::row::{KEY_LOCATION, NO_STORE, REPLAYED, json, required};
use super::table::PLAIN;
use super::{Access, RequiredScope, Response, RouteSpec, Tag};
use stockhold_service::Scope;

pub(super) const CREATE_KEY: RouteSpec = RouteSpec {
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
        ..json(201, "The key. `key` is absent if the request was repeated.", "NewApiKey")
    }],
    ..PLAIN
};
