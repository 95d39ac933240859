//! The operations that answer with documents about the server, and those of its admin listener.

use super::operation::{Operation, component, in_path};
use super::schema::word;
use crate::problem::Reason;
use crate::routes::RouteId;
use serde_json::{Value, json};
use stockhold_store::StartStep;

/// The tag of the admin listener.
pub(super) const ADMIN: &str = "Admin";

const PLAIN: &str = "text/plain; charset=utf-8";
/// The exposition format of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Those of the API's listener.
pub(super) fn operations() -> Vec<Operation> {
    let reasons: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    let reason = in_path("reason", word(&reasons, "The reason's name."), Reason::UnknownItem.name());
    vec![
        Operation::of(RouteId::GetOpenApi),
        Operation::of(RouteId::GetDocs),
        Operation::of(RouteId::GetProblem).parameter(reason),
        Operation::of(RouteId::GetIndex),
    ]
}

/// Those of the admin listener, each with its path.
pub(super) fn admin() -> Vec<(&'static str, Value)> {
    let one = |id: &str, summary: &str, description: &str, more: Value| {
        let kind = if id == "get_metrics" { METRICS } else { PLAIN };
        let mut responses = json!({
            "200": plain(kind, description),
            "405": component("responses", "MethodNotAllowed"),
            "default": component("responses", "Other"),
        });
        if let Value::Object(more) = more {
            for (status, response) in more {
                responses[status] = response;
            }
        }
        json!({
            "servers": [{
                "url": "http://{address}", "description": "The admin listener.",
                "variables": { "address": { "default": "127.0.0.1:8102", "description": "`--admin-listen`" } },
            }],
            "get": {
                "operationId": id, "tags": [ADMIN], "summary": summary, "description": description,
                "responses": responses,
            },
        })
    };
    let none = json!({});
    vec![
        ("/livez", one("get_livez", "Is it alive", "The process answers.", none.clone())),
        (
            "/startupz",
            one("get_startupz", "Has it started", "The store is open, and the API listens.", startup()),
        ),
        (
            "/readyz",
            one(
                "get_readyz",
                "Is it ready",
                "The server takes commands. When the disk is nearly full, only new reservations are refused; the body says \
                 so.",
                json!({
                    "503": plain(PLAIN, "The server takes no commands: it is starting or stopping, or its store can't work. The body says why."),
                }),
            ),
        ),
        ("/metrics", one("get_metrics", "Read the metrics", "Metrics in Prometheus' text format.", none)),
    ]
}

/// The answers of the startup probe, with the progress of the start.
fn startup() -> Value {
    let steps = StartStep::ALL.map(StartStep::name);
    let answer = |description: &str, example: Value| {
        let schema = json!({
            "type": "object",
            "required": ["started"],
            "properties": {
                "started": { "type": "boolean", "description": "Whether the start has ended." },
                "step": word(&steps, "What the start does now."),
                "done": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "Records of the step that are done.",
                },
                "total": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "Records that the step has. Missing if that is not known.",
                },
            },
        });
        json!({
            "description": description,
            "content": { "application/json": {
                "schema": schema,
                "examples": { "progress": { "summary": description, "value": example } },
            } },
        })
    };
    json!({
        "200": answer("The store is open, and the API listens.", json!({ "started": true })),
        "503": answer(
            "The store is being opened. The body says how far it is.",
            json!({ "started": false, "step": "load_items", "done": 120_000, "total": 1_000_000 }),
        ),
    })
}

fn plain(kind: &str, description: &str) -> Value {
    json!({ "description": description, "content": { kind: { "schema": { "type": "string" } } } })
}
