//! The operations that answer with documents about the server, and those of its admin listener.

use super::operation::{Operation, in_path};
use super::schema::word;
use crate::problem::Reason;
use crate::routes::RouteId;
use serde_json::{Value, json};

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
        let mut responses = json!({ "200": plain(kind, description) });
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
        ("/startupz", one("get_startupz", "Has it started", "It has started.", none.clone())),
        (
            "/readyz",
            one(
                "get_readyz",
                "Is it ready",
                "The server takes commands. When the disk is nearly full, only new reservations are refused; the body says \
                 so.",
                json!({
                    "503": plain(PLAIN, "The server takes no commands: it is stopping, or its store can't work. The body says why."),
                }),
            ),
        ),
        ("/metrics", one("get_metrics", "Read the metrics", "Metrics in Prometheus' text format.", none)),
    ]
}

fn plain(kind: &str, description: &str) -> Value {
    json!({ "description": description, "content": { kind: { "schema": { "type": "string" } } } })
}
