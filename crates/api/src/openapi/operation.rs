//! One operation of the document: its row of the route table, with parameters, examples and links.

use super::schema::{always, etag, header_key, named, object, with};
use super::{problems, profiles};
use crate::field::QueryShape;
use crate::problem::{self, Reason, grouped};
use crate::routes::{self, Body, Content, Preconditions, RequiredScope, RouteId, RouteSpec};
use serde_json::{Map, Value, json};
use stockhold_service::Scope;

/// What a rate limit says, if the caller has one.
pub(crate) const RATE_HEADERS: [&str; 2] = ["RateLimit", "RateLimit-Policy"];

/// One operation of the document.
pub(crate) struct Operation {
    pub(crate) route: &'static RouteSpec,
    parameters: Vec<Value>,
    body_examples: Value,
    response_examples: Value,
    links: Option<Value>,
}

impl Operation {
    /// The operation of a route.
    pub(crate) fn of(route: RouteId) -> Self {
        Self {
            route: route.spec(),
            parameters: Vec::new(),
            body_examples: json!({}),
            response_examples: json!({}),
            links: None,
        }
    }

    /// A parameter of the path or the query.
    pub(crate) fn parameter(mut self, parameter: Value) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// The parameters of the query.
    pub(crate) fn query<Q: QueryShape>(mut self) -> Self {
        self.parameters.extend(Q::parameters().into_iter().map(|(name, schema)| in_query(name, schema)));
        self
    }

    /// Examples of the request's body, by name.
    pub(crate) fn requests(mut self, examples: Value) -> Self {
        self.body_examples = examples;
        self
    }

    /// Examples of the response's body, by name.
    pub(crate) fn responds(mut self, examples: Value) -> Self {
        self.response_examples = examples;
        self
    }

    /// The operations that can follow, and what they take from the response.
    pub(crate) fn links(mut self, links: Value) -> Self {
        self.links = Some(links);
        self
    }

    /// As the document has it.
    pub(crate) fn document(self) -> Value {
        let route = self.route;
        let mut operation = json!({
            "operationId": route.operation,
            "tags": [route.tag.name()],
            "summary": route.summary,
            "description": format!("{}{}", route.description, scope_sentence(route)),
        });
        let mut parameters = self.parameters;
        parameters.extend(headers_of(route).into_iter().map(|name| component("parameters", name)));
        operation["parameters"] = parameters.into();
        if let Some(body) = request_body(route.body, &self.body_examples) {
            operation["requestBody"] = body;
        }
        let mut responses = Map::new();
        for one in route.responses {
            responses
                .insert(one.status.to_string(), response(one, &self.response_examples, self.links.as_ref()));
        }
        responses.extend(refusals(route));
        operation["responses"] = responses.into();
        operation["security"] = security(route);
        operation
    }
}

/// The refusals and failures of a route, by status.
fn refusals(route: &RouteSpec) -> Map<String, Value> {
    let reasons = route.reasons();
    if let Some(profile) = route.profile {
        return profiles::error_responses(profile, &reasons);
    }
    let by_status = reasons.chunk_by(|a, b| a.status() == b.status());
    by_status
        .filter_map(|with_status| Some((with_status.first()?.status().to_string(), answer_of(with_status))))
        .collect()
}

/// What a caller has to present. `{}` stands for nothing: a server without credentials asks for none.
fn security(route: &RouteSpec) -> Value {
    let scopes: Vec<_> = match route.scope {
        RequiredScope::Open => return json!([]),
        RequiredScope::One(scope) => vec![scope.name()],
        RequiredScope::EachCommand => Vec::new(),
    };
    json!([{ "Bearer": scopes }, {}])
}

/// The sentence about a route's scope, as the last one of its description.
fn scope_sentence(route: &RouteSpec) -> String {
    let token = if route.hold_token { ", or the hold token of the reservation" } else { "" };
    match route.scope {
        RequiredScope::Open => String::new(),
        RequiredScope::One(scope) => format!("\n\nScope: `{}`{token}.", scope.name()),
        RequiredScope::EachCommand => {
            let (reserve, stock) = (Scope::ReservationsWrite.name(), Scope::InventoryWrite.name());
            format!("\n\nScope: each command needs the scope of its own route, `{reserve}` or `{stock}`.")
        }
    }
}

/// How callers show who they are.
pub(crate) fn security_schemes() -> Value {
    json!({
        "Bearer": {
            "type": "http", "scheme": "bearer",
            "description": "An API key (`sh_live_…`), the token of a configured issuer (JWT), the hold token of one reservation, \
                or the root key. A server without credentials needs none, and listens on loopback only.",
        },
    })
}

/// The headers that a route reads, by the names of their components.
fn headers_of(route: &RouteSpec) -> Vec<&'static str> {
    let mut headers = Vec::new();
    if route.idempotency_key {
        headers.push("IdempotencyKey");
    }
    match route.preconditions {
        Preconditions::None => {}
        Preconditions::IfMatch => headers.push("IfMatch"),
        Preconditions::IfMatchOrAbsent => headers.extend(["IfMatch", "IfNoneMatch"]),
        Preconditions::Cached => headers.push("MapIfNoneMatch"),
    }
    headers.extend(["RequestId", "TraceParent"]);
    headers
}

fn request_body(body: Body, examples: &Value) -> Option<Value> {
    let (schema, limit, required) = match body {
        Body::None => return None,
        Body::Optional { schema, limit } => (schema, limit, false),
        Body::Required { schema, limit } => (schema, limit, true),
    };
    let or_none = if required { "" } else { " Optional." };
    Some(json!({
        "description": format!("UTF-8 JSON of at most {} bytes, uncompressed.{or_none}", grouped(limit as u64)),
        "required": required,
        "content": { "application/json": { "schema": named(schema), "examples": examples } },
    }))
}

/// A response of a request that succeeds.
fn response(response: &routes::Response, examples: &Value, links: Option<&Value>) -> Value {
    let mut headers = json!({ "X-Request-Id": component("headers", "RequestId") });
    put_rate_headers(&mut headers);
    for (name, component_name) in response.headers {
        headers[name] = component("headers", component_name);
    }
    let mut document = json!({ "description": response.description, "headers": headers });
    let text = || json!({ "type": "string" });
    let (kind, schema) = match response.content {
        Content::None => return document,
        Content::Json(schema) => ("application/json", named(schema)),
        Content::OpenApi => {
            let members = vec![
                always("openapi", super::schema::text("The version of OpenAPI.")),
                always("info", json!({ "type": "object" })),
                always("paths", json!({ "type": "object" })),
            ];
            ("application/json", object("An OpenAPI document.", members))
        }
        Content::Text(kind) if kind == routes::EVENT_STREAM => {
            (kind, with(text(), "description", "Each `data` line is an `Event`."))
        }
        Content::Text(kind) => (kind, text()),
    };
    let mut media = json!({ "schema": schema });
    if examples.as_object().is_some_and(|examples| !examples.is_empty()) {
        media["examples"] = examples.clone();
    }
    document["content"] = json!({ kind: media });
    if let Some(links) = links {
        document["links"] = links.clone();
    }
    document
}

/// The headers of a caller with a rate limit.
fn put_rate_headers(headers: &mut Value) {
    for name in RATE_HEADERS {
        headers[name] = component("headers", &name.replace('-', ""));
    }
}

/// The answers that have a status in common.
fn refusal(reasons: &[Reason]) -> Value {
    let schema = problems::one_of(reasons);
    let examples: Map<_, _> = reasons
        .iter()
        .map(|reason| (reason.name().to_owned(), component("examples", reason.name())))
        .collect();
    let titles: Vec<_> =
        reasons.iter().map(|reason| format!("`{}`: {}.", reason.name(), reason.title())).collect();
    json!({
        "description": titles.join(" "),
        "headers": refusal_headers(reasons),
        "content": { problem::CONTENT_TYPE: { "schema": schema, "examples": examples } },
    })
}

/// The headers of the answers of these reasons.
pub(crate) fn refusal_headers(reasons: &[Reason]) -> Value {
    let mut headers = json!({ "X-Request-Id": component("headers", "RequestId") });
    if reasons.contains(&Reason::Unauthenticated) {
        headers["WWW-Authenticate"] = component("headers", "WwwAuthenticate");
    }
    put_rate_headers(&mut headers);
    if reasons.iter().all(|reason| reason.retry_after().is_some() || *reason == Reason::RateLimited) {
        headers["Retry-After"] = component("headers", "RetryAfter");
    }
    if reasons.contains(&Reason::MethodNotAllowed) {
        headers["Allow"] = component("headers", "Allow");
    }
    headers
}

/// What the document calls the answer of several reasons that many operations share, if it is one of those.
fn shared_name(reasons: &[Reason]) -> Option<&'static str> {
    match reasons {
        [Reason::Overloaded, Reason::Unavailable] => Some("NotRead"),
        [Reason::Overloaded, Reason::Unavailable, Reason::OutcomeUnknown] => Some("NotWritten"),
        _ => None,
    }
}

/// The answers that have a status in common, by their name if they have one.
fn answer_of(reasons: &[Reason]) -> Value {
    match reasons {
        [only] => component("responses", &problems::answer_name(*only)),
        several => match shared_name(several) {
            Some(name) => component("responses", name),
            None => refusal(several),
        },
    }
}

/// Answers that have a name.
pub(crate) fn responses() -> Map<String, Value> {
    let shared = [
        &[Reason::Overloaded, Reason::Unavailable][..],
        &[Reason::Overloaded, Reason::Unavailable, Reason::OutcomeUnknown][..],
    ];
    let shared =
        shared.into_iter().filter_map(|reasons| Some((shared_name(reasons)?.to_owned(), refusal(reasons))));
    let alone = [
        Reason::InvalidRequest,
        Reason::Unauthenticated,
        Reason::Forbidden,
        Reason::UnknownItem,
        Reason::UnknownReservation,
        Reason::ReservationConfirmed,
        Reason::PaymentDeclined,
        Reason::PaymentNotCaptured,
        Reason::UnknownOrder,
        Reason::UnknownCustomer,
        Reason::EncryptionKeyMissing,
        Reason::UnknownKey,
        Reason::UnknownLimit,
        Reason::TooManyLimits,
        Reason::UnknownRoute,
        Reason::MethodNotAllowed,
        Reason::RequestTimeout,
        Reason::UnitInUse,
        Reason::ItemInUse,
        Reason::KeyEnded,
        Reason::GateNotConfigured,
        Reason::ArchiveFailed,
        Reason::UnknownSink,
        Reason::UnknownWebhook,
        Reason::TooManyWebhooks,
        Reason::WebhookDisabled,
        Reason::SinkInUse,
        Reason::SinkFailed,
        Reason::PreconditionFailed,
        Reason::TooLarge,
        Reason::UnsupportedMediaType,
        Reason::MisdirectedRequest,
        Reason::IdempotencyMismatch,
        Reason::ModeMismatch,
        Reason::RateLimited,
        Reason::HeadersTooLarge,
        Reason::Internal,
        Reason::Overloaded,
    ];
    let alone = alone.into_iter().map(|reason| (problems::answer_name(reason), refusal(&[reason])));
    let other = ("Other".to_owned(), other());
    alone.chain(shared).chain([other]).chain(profiles::responses()).collect()
}

/// Any refusal, for readers that do not look at the reason.
fn other() -> Value {
    let reasons = [Reason::UnknownRoute, Reason::MethodNotAllowed];
    let examples: Map<_, _> = reasons
        .iter()
        .map(|reason| (reason.name().to_owned(), component("examples", reason.name())))
        .collect();
    json!({
        "description": "Any other refusal.",
        "content": { problem::CONTENT_TYPE: { "schema": named("Problem"), "examples": examples } },
    })
}

/// A reference to one of the document's components.
pub(crate) fn component(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

/// A parameter of the path.
pub(crate) fn in_path(name: &str, schema: Value, example: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": schema, "example": example })
}

/// A parameter of the query.
pub(crate) fn in_query(name: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "required": false, "schema": schema })
}

/// Headers that many operations read.
pub(crate) fn parameters() -> Value {
    json!({
        "IdempotencyKey": {
            "name": "Idempotency-Key", "in": "header", "required": false, "schema": header_key(),
            "description": "Makes a retry safe: the same request with the same key takes effect once. The answer to a retry \
                shows the resource as it is now, with `Idempotent-Replayed: true`. A different request with the same key \
                is `idempotency_mismatch`. Bare or quoted. Keys are kept for 24 hours or longer. Refusals are not kept.",
            "example": "order-1001",
        },
        "IfMatch": {
            "name": "If-Match", "in": "header", "required": false,
            "schema": { "type": "string", "pattern": r#"^(\*|(W/)?"[!#-~]*"(, (W/)?"[!#-~]*")*)$"# },
            "description": "The `ETag` of the item or the reservation that the change is meant for, or a list of them, or `*` for any. \
                If it has changed since, the answer is `precondition_failed`, as it is for an item that does not exist.",
            "example": "\"4\"",
        },
        "IfNoneMatch": {
            "name": "If-None-Match", "in": "header", "required": false,
            "schema": { "type": "string", "pattern": r"^\*$" },
            "description": "`*` creates the item and never overwrites one. If the item exists, the answer is \
                `precondition_failed`. Do not send it together with `If-Match`.",
        },
        "MapIfNoneMatch": {
            "name": "If-None-Match", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "The `ETag` of the map that the caller has. If the map has not changed, the answer is 304.",
            "example": "\"4-1207\"",
        },
        "LastEventId": {
            "name": "Last-Event-ID", "in": "header", "required": false,
            "schema": { "type": "string", "pattern": "^[0-9]{1,19}$" },
            "description": "Begin after this position. Clients of server-sent events send it when they reconnect. It \
                overrides `after`.",
        },
        "RequestId": {
            "name": "X-Request-Id", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "The caller's name for the request: 1 to 128 bytes of printable ASCII. It appears in the answer, in \
                problems, in events and in the log. Any other value is ignored and replaced by a UUID.",
            "example": "checkout-7-1",
        },
        "TraceParent": {
            "name": "traceparent", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "The caller's W3C trace context. It is stored in the events of the request. A malformed value is \
                ignored.",
            "example": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        },
    })
}

/// Headers of answers.
pub(crate) fn headers() -> Value {
    json!({
        "RequestId": {
            "required": true, "schema": super::schema::label("The request's name."),
            "description": "The request's name: the caller's `X-Request-Id`, or a UUID.",
        },
        "ETag": {
            "required": true, "schema": etag(),
            "description": "The version of the item or the reservation in quotation marks, for `If-Match`. An item that was deleted and \
                made again has a higher version.",
        },
        "MapETag": {
            "required": true, "schema": { "type": "string", "pattern": "^\"[0-9]{1,19}-[0-9]{1,20}s?\"$" },
            "description": "Changes whenever a unit is added, retired, held, sold or released. For `If-None-Match`.",
        },
        "Location": {
            "required": true, "schema": { "type": "string", "pattern": "^/v1/reservations/[0-9a-f-]{36}$" },
            "description": "Path of the reservation.",
        },
        "KeyLocation": {
            "required": true, "schema": { "type": "string", "pattern": "^/v1/keys/key_[0-9a-f]{32}$" },
            "description": "Path of the key.",
        },
        "WebhookLocation": {
            "required": true, "schema": { "type": "string", "pattern": "^/v1/webhooks/[0-9a-f-]{36}$" },
            "description": "Path of the endpoint.",
        },
        "Replayed": {
            "required": false, "schema": { "type": "string", "const": "true" },
            "description": "`true` when the idempotency key was used before. Nothing was changed by this request.",
        },
        "NoStore": {
            "required": true, "schema": { "type": "string", "const": "no-store" },
            "description": "Proxies must not store the response.",
        },
        "Unchanged": {
            "required": true, "schema": { "type": "string", "const": "no-store, no-transform" },
            "description": "Proxies must not store the response, and must pass it on as it is.",
        },
        "Unbuffered": {
            "required": true, "schema": { "type": "string", "const": "no" },
            "description": "Tells nginx to pass each event on at once.",
        },
        "Vary": {
            "required": true, "schema": { "type": "string", "const": "accept-encoding" },
            "description": "The response depends on the `Accept-Encoding` of the request.",
        },
        "ContentEncoding": {
            "required": false, "schema": { "type": "string", "const": "gzip" },
            "description": "`gzip` if the response is compressed, for a request whose `Accept-Encoding` takes it.",
        },
        "RetryAfter": {
            "required": true, "schema": { "type": "integer", "minimum": 1 },
            "description": "Seconds to wait before sending the same request again.",
        },
        "WwwAuthenticate": {
            "required": true, "schema": { "type": "string" },
            "description": "`Bearer`, and what is wrong with the token (RFC 6750).",
        },
        "RateLimit": {
            "required": false, "schema": { "type": "string" },
            "description": "If the caller has a rate limit: requests that the caller may still send (`r`), and seconds until it may send all again (`t`).",
        },
        "RateLimitPolicy": {
            "required": false, "schema": { "type": "string" },
            "description": "The caller's rate limit, if it has one: requests (`q`) in a window of so many seconds (`w`).",
        },
        "Allow": {
            "required": true, "schema": { "type": "string" },
            "description": "The methods that the path takes.",
        },
    })
}
