//! The operations that answer with documents about the server, and those of its admin listener.

use super::operation::{Answer, Operation, in_path};
use super::schema::word;
use crate::problem::Reason;
use serde_json::{Value, json};

/// The tag of what is told about the server.
const ABOUT: &str = "About";
/// The tag of the admin listener.
const ADMIN: &str = "Admin";

const HTML: &str = "text/html; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
/// The exposition format of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Those of the API's listener.
pub(super) fn operations() -> Vec<Operation> {
    let reasons: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    vec![
        Operation::new("get", "/openapi.json", "get_openapi", ABOUT)
            .does("Read the contract", "This document.")
            .answers(Answer::new(200, "An OpenAPI 3.1 document.").content(
                "application/json",
                json!({ "type": "object", "required": ["openapi", "info", "paths"] }),
                json!({}),
            )),
        page(
            "/docs",
            "get_docs",
            "Browse the contract",
            "The contract as a page for a browser. It works offline.",
        ),
        page(
            "/problems/{reason}",
            "get_problem",
            "Read the page of a reason",
            "What it means, why it happens and what to do. A problem's `type` leads here.",
        )
        .parameter(in_path("reason", word(&reasons, "The reason's name."), Reason::UnknownItem.name()))
        .refuses(&[Reason::UnknownRoute]),
        Operation::new("get", "/", "get_index", ABOUT)
            .does("List the routes", "The routes at a glance, for a terminal.")
            .answers(text("The routes.")),
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
                "It takes commands. When it turns new reservations away for want of disk space, and all else goes on, the \
                 body says so.",
                json!({
                    "503": plain(PLAIN, "It takes no commands: it is stopping, or its store can't work; the body says why."),
                }),
            ),
        ),
        ("/metrics", one("get_metrics", "Read the metrics", "Metrics in Prometheus' text format.", none)),
    ]
}

fn page(path: &'static str, id: &'static str, summary: &'static str, description: &'static str) -> Operation {
    let html = Answer::new(200, "A page.").content(HTML, json!({ "type": "string" }), json!({}));
    Operation::new("get", path, id, ABOUT).does(summary, description).answers(html)
}

fn text(description: &str) -> Answer {
    Answer::new(200, description).content(PLAIN, json!({ "type": "string" }), json!({}))
}

fn plain(kind: &str, description: &str) -> Value {
    json!({ "description": description, "content": { kind: { "schema": { "type": "string" } } } })
}
