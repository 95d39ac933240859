//! One operation of the document: what is asked, what is answered, and every reason that may stand against it.

use super::problems;
use super::schema::{etag, header_key, named};
use crate::decode::BODY_BYTES;
use crate::problem::{self, Reason, grouped};
use serde_json::{Map, Value, json};

/// Reasons that stand in front of every route: a body that it does not take, that does not come or that there is no room
/// for, and what breaks.
const EVERYWHERE: [Reason; 6] = [
    Reason::InvalidRequest,
    Reason::RequestTimeout,
    Reason::TooLarge,
    Reason::UnsupportedMediaType,
    Reason::Internal,
    Reason::Overloaded,
];

/// See the module.
pub(super) struct Operation {
    /// In lower case.
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    description: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: Vec<Answer>,
    reasons: Vec<Reason>,
}

impl Operation {
    /// With the place where it is, and what it is called.
    pub(super) fn new(method: &'static str, path: &'static str, id: &'static str, tag: &'static str) -> Self {
        Self {
            method,
            path,
            id,
            tag,
            summary: "",
            description: "",
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            reasons: Vec::new(),
        }
    }

    /// Under another heading than its path's.
    pub(super) fn tagged(mut self, tag: &'static str) -> Self {
        self.tag = tag;
        self
    }

    /// What it does in a few words, and in more.
    pub(super) fn does(mut self, summary: &'static str, description: &'static str) -> Self {
        (self.summary, self.description) = (summary, description);
        self
    }

    /// A parameter of the path or the query.
    pub(super) fn parameter(mut self, parameter: Value) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// The command may carry an idempotency key.
    pub(super) fn keyed(mut self) -> Self {
        self.reasons.push(Reason::IdempotencyMismatch);
        self.parameter(component("parameters", "IdempotencyKey"))
    }

    /// The change may name the item's version.
    pub(super) fn conditional(mut self) -> Self {
        self.reasons.push(Reason::PreconditionFailed);
        self.parameter(component("parameters", "IfMatch"))
    }

    /// The change may be meant for an item that is not there yet.
    pub(super) fn creating(self) -> Self {
        self.parameter(component("parameters", "IfNoneMatch"))
    }

    /// It takes a body of this schema.
    pub(super) fn takes(self, schema: &str, examples: Value) -> Self {
        self.body(schema, true, BODY_BYTES, &examples)
    }

    /// It takes a body of this schema, or none.
    pub(super) fn may_take(self, schema: &str, examples: Value) -> Self {
        self.body(schema, false, BODY_BYTES, &examples)
    }

    /// It takes a body of this schema and at most so many bytes.
    pub(super) fn takes_up_to(self, bytes: usize, schema: &str, examples: Value) -> Self {
        self.body(schema, true, bytes, &examples)
    }

    fn body(mut self, schema: &str, required: bool, bytes: usize, examples: &Value) -> Self {
        let or_none = if required { "" } else { " May be left out." };
        self.body = Some(json!({
            "description": format!("UTF-8 JSON of at most {} bytes, uncompressed.{or_none}", grouped(bytes as u64)),
            "required": required,
            "content": { "application/json": { "schema": named(schema), "examples": examples } },
        }));
        self
    }

    /// What it is answered with when it goes well.
    pub(super) fn answers(mut self, answer: Answer) -> Self {
        self.answers.push(answer);
        self
    }

    /// What may stand against it beside what may always.
    pub(super) fn refuses(mut self, reasons: &[Reason]) -> Self {
        self.reasons.extend_from_slice(reasons);
        self
    }

    /// It changes something: the store may be unable to say whether.
    pub(super) fn writes(self) -> Self {
        self.reads().refuses(&[Reason::OutcomeUnknown])
    }

    /// It asks the store.
    pub(super) fn reads(self) -> Self {
        self.refuses(&[Reason::Unavailable])
    }

    /// As the document has it.
    pub(super) fn document(self) -> Value {
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "description": self.description,
        });
        let mut parameters = self.parameters;
        parameters.extend(["RequestId", "TraceParent"].map(|name| component("parameters", name)));
        operation["parameters"] = parameters.into();
        if let Some(body) = self.body {
            operation["requestBody"] = body;
        }
        let mut responses = Map::new();
        for answer in self.answers {
            responses.insert(answer.status.to_string(), answer.document());
        }
        let changes = self.method != "get";
        let may = |reason: &Reason| {
            EVERYWHERE.contains(reason)
                || self.reasons.contains(reason)
                || (changes && *reason == Reason::Forbidden)
        };
        let reasons: Vec<_> = Reason::ALL.iter().copied().filter(may).collect();
        for with_status in reasons.chunk_by(|a, b| a.status() == b.status()) {
            if let Some(first) = with_status.first() {
                responses.insert(first.status().to_string(), answer_of(with_status));
            }
        }
        operation["responses"] = responses.into();
        operation
    }
}

/// An answer of something that went well.
pub(super) struct Answer {
    status: u16,
    response: Value,
}

impl Answer {
    /// With its status.
    pub(super) fn new(status: u16, description: &str) -> Self {
        let headers = json!({ "X-Request-Id": component("headers", "RequestId") });
        Self { status, response: json!({ "description": description, "headers": headers }) }
    }

    /// JSON of this schema.
    pub(super) fn json(self, schema: &str, examples: Value) -> Self {
        self.content("application/json", named(schema), examples)
    }

    /// A body of any type.
    pub(super) fn content(mut self, kind: &str, schema: Value, examples: Value) -> Self {
        let mut media = json!({ "schema": schema });
        if examples.as_object().is_some_and(|examples| !examples.is_empty()) {
            media["examples"] = examples;
        }
        self.response["content"] = json!({ kind: media });
        self
    }

    /// A header of its own.
    pub(super) fn header(mut self, name: &str, component_name: &str) -> Self {
        self.response["headers"][name] = component("headers", component_name);
        self
    }

    /// It may be a replay under an idempotency key.
    pub(super) fn replayable(self) -> Self {
        self.header("Idempotent-Replayed", "Replayed")
    }

    /// What can be asked next, with what of this answer.
    pub(super) fn links(mut self, links: Value) -> Self {
        self.response["links"] = links;
        self
    }

    fn document(self) -> Value {
        self.response
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
    let mut headers = json!({ "X-Request-Id": component("headers", "RequestId") });
    if reasons.iter().all(|reason| reason.retry_after().is_some()) {
        headers["Retry-After"] = component("headers", "RetryAfter");
    }
    if reasons.contains(&Reason::MethodNotAllowed) {
        headers["Allow"] = component("headers", "Allow");
    }
    json!({
        "description": titles.join(" "),
        "headers": headers,
        "content": { problem::CONTENT_TYPE: { "schema": schema, "examples": examples } },
    })
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

/// Answers that have a name. No operation has that to a method that its path does not take.
pub(super) fn responses() -> Map<String, Value> {
    let shared = [
        &[Reason::Overloaded, Reason::Unavailable][..],
        &[Reason::Overloaded, Reason::Unavailable, Reason::OutcomeUnknown][..],
    ];
    let shared =
        shared.into_iter().filter_map(|reasons| Some((shared_name(reasons)?.to_owned(), refusal(reasons))));
    let alone = [
        Reason::InvalidRequest,
        Reason::Forbidden,
        Reason::UnknownItem,
        Reason::UnknownReservation,
        Reason::UnknownRoute,
        Reason::MethodNotAllowed,
        Reason::RequestTimeout,
        Reason::ReservationConfirmed,
        Reason::BelowCommitted,
        Reason::UnitInUse,
        Reason::PreconditionFailed,
        Reason::TooLarge,
        Reason::UnsupportedMediaType,
        Reason::IdempotencyMismatch,
        Reason::Internal,
        Reason::Overloaded,
    ];
    let alone = alone.into_iter().map(|reason| (problems::answer_name(reason), refusal(&[reason])));
    alone.chain(shared).collect()
}

/// A reference to one of the document's components.
pub(super) fn component(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

/// A parameter of the path.
pub(super) fn in_path(name: &str, schema: Value, example: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": schema, "example": example })
}

/// A parameter of the query.
pub(super) fn in_query(name: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "required": false, "schema": schema })
}

/// Headers that many operations read.
pub(super) fn parameters() -> Value {
    json!({
        "IdempotencyKey": {
            "name": "Idempotency-Key", "in": "header", "required": false, "schema": header_key(),
            "description": "Makes a retry safe: the same request under the same key takes effect once, and the retry is \
                answered with what the first one made, as it is now, and `Idempotent-Replayed: true`. Another request \
                under the same key is `idempotency_mismatch`. Bare or quoted. Keys are kept for 24 hours or longer; \
                refusals are not remembered.",
            "example": "order-1001",
        },
        "IfMatch": {
            "name": "If-Match", "in": "header", "required": false,
            "schema": { "type": "string", "pattern": r#"^(\*|(W/)?"[!#-~]*"(, (W/)?"[!#-~]*")*)$"# },
            "description": "The `ETag` of the item that the change is meant for, several of them, or `*` for any: if \
                somebody changed the item in between, or there is none, it is `precondition_failed`.",
            "example": "\"4\"",
        },
        "IfNoneMatch": {
            "name": "If-None-Match", "in": "header", "required": false,
            "schema": { "type": "string", "const": "*" },
            "description": "`*` creates the item and never overwrites one: if there is one, it is \
                `precondition_failed`. Not together with `If-Match`.",
        },
        "MapIfNoneMatch": {
            "name": "If-None-Match", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "The `ETag` of the map that the caller has: if it is that still, the answer is 304.",
            "example": "\"4-1207\"",
        },
        "LastEventId": {
            "name": "Last-Event-ID", "in": "header", "required": false,
            "schema": { "type": "string", "pattern": "^[0-9]{1,19}$" },
            "description": "Begin after this position. Clients of server-sent events send it by themselves when they come \
                back; it goes before `after`.",
        },
        "RequestId": {
            "name": "X-Request-Id", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "What the caller calls the request: 1 to 128 bytes of printable ASCII, shown in the answer, in \
                problems, events and the log. Anything else is passed over and a UUID takes its place.",
            "example": "checkout-7-1",
        },
        "TraceParent": {
            "name": "traceparent", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "The caller's W3C trace context, kept in the events that the request makes. What is not well \
                formed is passed over.",
            "example": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        },
    })
}

/// Headers of answers.
pub(super) fn headers() -> Value {
    json!({
        "RequestId": {
            "required": true, "schema": super::schema::label("What the request is called."),
            "description": "What the request is called: as the caller said in `X-Request-Id`, or a UUID.",
        },
        "ETag": {
            "required": true, "schema": etag(),
            "description": "The item's version in quotation marks, for `If-Match`.",
        },
        "MapETag": {
            "required": true, "schema": { "type": "string", "pattern": "^\"[0-9]{1,19}-[0-9]{1,20}s?\"$" },
            "description": "Another one whenever a unit has moved, come or gone; for `If-None-Match`.",
        },
        "Location": {
            "required": true, "schema": { "type": "string", "pattern": "^/v1/reservations/[0-9a-f-]{36}$" },
            "description": "Path of the reservation.",
        },
        "Replayed": {
            "required": false, "schema": { "type": "string", "const": "true" },
            "description": "`true` when the idempotency key was used before: nothing was done again.",
        },
        "NoStore": {
            "required": true, "schema": { "type": "string", "const": "no-store" },
            "description": "What lies between must not keep it.",
        },
        "RetryAfter": {
            "required": true, "schema": { "type": "integer", "minimum": 1 },
            "description": "Seconds to wait before the same request is worth another try.",
        },
        "Allow": {
            "required": true, "schema": { "type": "string" },
            "description": "The methods that the path takes.",
        },
    })
}
