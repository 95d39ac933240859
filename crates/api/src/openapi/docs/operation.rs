//! One operation for people: its description, its parameters and body, calls to copy, its answers and its refusals.

use super::html::{Field, escaped, fields, inline, markdown, sample};
use super::schema::{described, facts, kind, tags};
use crate::openapi::operation::RATE_HEADERS;
use crate::openapi::samples::EXAMPLE_IDS;
use crate::problem::Reason;
use crate::routes::RouteId;
use serde_json::Value;
use std::fmt::Write;

/// Where a server is that nobody has configured; the page's script puts in where this one is.
const BASE: &str = "<span class=\"base\">http://127.0.0.1:8101</span>";
/// The same for the admin listener.
const ADMIN_BASE: &str = "http://127.0.0.1:8102";

/// Longest body that a call shows in one line, in bytes.
const LINE: usize = 80;

/// Reasons that say little about the operation.
const EVERYWHERE: [&str; 10] = [
    Reason::InvalidRequest.name(),
    Reason::Unauthenticated.name(),
    Reason::Forbidden.name(),
    Reason::TooLarge.name(),
    Reason::UnsupportedMediaType.name(),
    Reason::RateLimited.name(),
    Reason::Internal.name(),
    Reason::Overloaded.name(),
    Reason::Unavailable.name(),
    Reason::OutcomeUnknown.name(),
];

/// An operation and its place in the document.
pub(super) struct Place<'d> {
    pub(super) document: &'d Value,
    pub(super) path: &'d str,
    pub(super) method: &'d str,
    pub(super) operation: &'d Value,
    /// Whether it is on the admin listener.
    pub(super) admin: bool,
}

impl Place<'_> {
    /// Its name within the page.
    pub(super) fn id(&self) -> &str {
        self.operation["operationId"].as_str().unwrap_or_default()
    }

    pub(super) fn summary(&self) -> &str {
        self.operation["summary"].as_str().unwrap_or_default()
    }

    /// What the page's filter looks at.
    pub(super) fn find(&self) -> String {
        let text = format!("{} {} {} {}", self.method, self.path, self.id(), self.summary());
        escaped(&text.to_lowercase())
    }

    /// Appends the operation.
    pub(super) fn put(&self, out: &mut String) {
        let (id, method) = (self.id(), self.method);
        // Writing to a String does not fail.
        let _ = writeln!(
            out,
            "<article id=\"{id}\" data-find=\"{find}\"><header><h3><a class=\"anchor\" href=\"#{id}\">{summary}</a></h3>\
             <span class=\"method {method}\">{upper}</span><span class=\"path\">{path}</span></header>\n{description}",
            find = self.find(),
            summary = escaped(self.summary()),
            upper = method.to_uppercase(),
            path = escaped(self.path),
            description = markdown(described(self.operation)),
        );
        self.parameters(out);
        self.body(out);
        self.calls(out);
        self.answers(out);
        self.refusals(out);
        out.push_str("</article>\n");
    }

    /// A reference followed, or the value itself.
    fn resolved<'v>(&'v self, value: &'v Value) -> &'v Value {
        let target = value["$ref"].as_str().and_then(|path| self.document.pointer(path.strip_prefix('#')?));
        target.unwrap_or(value)
    }

    fn parameters(&self, out: &mut String) {
        let all: Vec<_> = self.operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| self.resolved(one))
            .collect();
        for (place, title) in [("path", "Path"), ("query", "Query"), ("header", "Headers")] {
            let rows: Vec<_> = all
                .iter()
                .filter(|parameter| parameter["in"] == place && !is_everywhere(parameter))
                .map(|parameter| row(parameter))
                .collect();
            if !rows.is_empty() {
                let _ = writeln!(out, "<h4>{title}</h4>");
                fields(out, rows);
            }
        }
        let everywhere: Vec<_> = all.iter().filter(|parameter| is_everywhere(parameter)).collect();
        if let [_, ..] = everywhere.as_slice() {
            let names: Vec<_> =
                everywhere.iter().filter_map(|parameter| parameter["name"].as_str()).collect();
            let _ = writeln!(
                out,
                "<details class=\"more\"><summary>Headers of every request: {}</summary>",
                names.join(", ")
            );
            fields(out, everywhere.iter().map(|parameter| row(parameter)));
            out.push_str("</details>\n");
        }
    }

    fn body(&self, out: &mut String) {
        let body = &self.operation["requestBody"];
        if body.is_null() {
            return;
        }
        let schema = &body["content"]["application/json"]["schema"];
        let _ = writeln!(
            out,
            "<h4>Body: {}</h4>\n<p class=\"small soft\">{}</p>",
            kind(schema),
            inline(described(body))
        );
        super::schema::body(out, self.resolved(schema));
    }

    fn calls(&self, out: &mut String) {
        out.push_str("<h4>Try it</h4>\n");
        let examples = self.operation["requestBody"]["content"]["application/json"]["examples"].as_object();
        match examples {
            Some(examples) => {
                for (name, example) in examples {
                    let summary = example["summary"].as_str().unwrap_or_default();
                    // A key of its own each: they are other requests.
                    let key = format!("{}-{name}", self.id());
                    sample(out, summary, &self.curl(&key, example));
                }
            }
            None => sample(out, "", &self.curl(self.id(), &Value::Null)),
        }
    }

    /// A call as a shell takes it, as HTML. It works on a fresh server after the calls above it on the page: an id of a
    /// reservation is a shell variable, which a reserve sets first.
    fn curl(&self, key: &str, example: &Value) -> String {
        let mut path = self.path.to_owned();
        let mut query = String::new();
        let mut keyed = false;
        let own = &example["x-parameters"];
        for parameter in self.operation["parameters"].as_array().into_iter().flatten() {
            let parameter = self.resolved(parameter);
            let name = parameter["name"].as_str().unwrap_or_default();
            let value = own[name].as_str().or_else(|| parameter["example"].as_str()).unwrap_or_default();
            match parameter["in"].as_str() {
                Some("path") if name == RESERVATION_ID => path = path.replace("{reservation_id}", "$ID"),
                Some("path") if name == KEY_ID => path = path.replace("{key_id}", "$KEY_ID"),
                Some("path") => path = path.replace(&format!("{{{name}}}"), value),
                Some("query") if !value.is_empty() => {
                    let separator = if query.is_empty() { '?' } else { '&' };
                    let _ = write!(query, "{separator}{name}={}", value.replace(' ', "+"));
                }
                _ => keyed |= name == "Idempotency-Key",
            }
        }
        let base = if self.admin { ADMIN_BASE } else { BASE };
        let target = format!("{base}{}{}", escaped(&path), escaped(&query));
        let target = if query.is_empty() { target } else { format!("\"{target}\"") };
        let body = &example["value"];
        let method = match (self.method, body.is_null()) {
            ("get", _) | ("post", false) => String::new(),
            (method, _) => format!(" -X {}", method.to_uppercase()),
        };
        let (body, variables) = variables_for(body, path.contains("$ID"));
        let mut call = String::new();
        for variable in &variables {
            let _ = writeln!(call, "{}", escaped(&reserve_into(variable)).replace(&escaped(BASE), BASE));
        }
        if [RouteId::Fulfil, RouteId::ReturnUnits].iter().any(|id| id.spec().operation == self.id()) {
            let _ = writeln!(call, "curl -s -X POST {BASE}/v1/reservations/$ID/confirm &gt; /dev/null");
        }
        if path.contains("$KEY_ID") {
            let _ = writeln!(call, "{}", escaped(&create_key()).replace(&escaped(BASE), BASE));
        }
        // A stream does not end by itself.
        let limit = if self.path == RouteId::StreamEvents.spec().path { "N --max-time 2" } else { "" };
        let _ = write!(call, "curl -i{limit}{method} {target}");
        if self.path.starts_with(RouteId::ListKeys.spec().path) {
            let _ = write!(call, " \\\n  -H \"{}\"", escaped(ROOT_KEY_HEADER));
        }
        if keyed {
            // A key that was used for one reservation can't be used for another.
            let _ = if variables.iter().any(|variable| variable == "ID") {
                write!(call, " \\\n  -H \"Idempotency-Key: {key}-$ID\"")
            } else if path.contains("$KEY_ID") {
                write!(call, " \\\n  -H \"Idempotency-Key: {key}-$KEY_ID\"")
            } else {
                write!(call, " \\\n  -H 'Idempotency-Key: {key}'")
            };
        }
        if let Some(body) = body {
            let _ = write!(call, " \\\n  -H 'Content-Type: application/json' \\\n  -d '{}'", escaped(&body));
        }
        call
    }

    fn answers(&self, out: &mut String) {
        out.push_str("<h4>Answers</h4>\n");
        for (status, answer) in self.responses() {
            let Some((_, media)) = media(answer) else {
                let _ = writeln!(
                    out,
                    "<p><span class=\"status s2\">{status}</span> {}</p>",
                    inline(described(answer))
                );
                continue;
            };
            if !is_good(status) && !self.admin {
                continue;
            }
            let class = status.get(..1).unwrap_or_default();
            let _ = writeln!(
                out,
                "<p><span class=\"status s{class}\">{status}</span> {} <span class=\"soft small\">{}</span></p>",
                inline(described(answer)),
                kind(&media["schema"])
            );
            self.headers(out, answer);
            examples(out, media);
        }
    }

    /// The headers of an answer that say something of their own.
    fn headers(&self, out: &mut String, answer: &Value) {
        let own = answer["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| *name != "X-Request-Id" && !RATE_HEADERS.contains(&name.as_str()));
        let rows: Vec<_> = own
            .map(|(name, header)| {
                let header = self.resolved(header);
                Field {
                    name,
                    tags: vec!["header".to_owned()],
                    description: described(header),
                    facts: String::new(),
                }
                .row()
            })
            .collect();
        if !rows.is_empty() {
            fields(out, rows);
        }
    }

    fn refusals(&self, out: &mut String) {
        let mut own = Vec::new();
        let mut everywhere = Vec::new();
        for (status, answer) in self.responses() {
            let Some((_, media)) = media(answer).filter(|_| !is_good(status) && !self.admin) else {
                continue;
            };
            for (name, example) in media["examples"].as_object().into_iter().flatten() {
                let example = self.resolved(example);
                let again = if example["value"]["retryable"] == true { " · retry" } else { "" };
                let row = super::reason(name, status, again, example["summary"].as_str().unwrap_or_default());
                if EVERYWHERE.contains(&name.as_str()) { everywhere.push(row) } else { own.push(row) }
            }
        }
        if own.is_empty() && everywhere.is_empty() {
            return;
        }
        out.push_str("<h4>Reasons why not</h4>\n");
        if !own.is_empty() {
            fields(out, own);
        }
        if !everywhere.is_empty() {
            out.push_str("<details class=\"more\"><summary>Those of most routes</summary>");
            fields(out, everywhere);
            out.push_str("</details>\n");
        }
    }

    /// Statuses and answers, references followed.
    fn responses(&self) -> impl Iterator<Item = (&String, &Value)> {
        let all = self.operation["responses"].as_object().into_iter().flatten();
        all.map(|(status, answer)| (status, self.resolved(answer)))
    }

    /// Whether it may answer with a reason.
    pub(super) fn may_answer(&self, reason: Reason) -> bool {
        self.responses().any(|(_, answer)| {
            !answer["content"][crate::problem::CONTENT_TYPE]["examples"][reason.name()].is_null()
        })
    }
}

/// The name of the parameter that is an id of an earlier answer.
const RESERVATION_ID: &str = "reservation_id";
/// The name of the parameter that is the id of an API key.
const KEY_ID: &str = "key_id";
/// The header of calls that manage API keys. Without a root key there is nobody who may give the first key.
const ROOT_KEY_HEADER: &str = "Authorization: Bearer $STOCKHOLD_ROOT_KEY";

/// A body as a shell takes it between single quotes, and the variables that hold ids of reservations: one for each id in
/// the body, `ID` at least when the path needs it.
fn variables_for(body: &Value, in_path: bool) -> (Option<String>, Vec<String>) {
    let mut variables = Vec::new();
    if in_path {
        variables.push("ID".to_owned());
    }
    if body.is_null() {
        return (None, variables);
    }
    let line = body.to_string();
    let text = if line.len() > LINE { format!("{body:#}") } else { line };
    let mut text = text.replace('\'', r"'\''");
    for (number, id) in EXAMPLE_IDS.iter().enumerate().filter(|(_, id)| body.to_string().contains(**id)) {
        let variable = if number == 0 { "ID".to_owned() } else { format!("ID{}", number + 1) };
        text = text.replace(id, &format!("'\"${variable}\"'"));
        variables.push(variable);
    }
    (Some(text), variables)
}

/// A reserve whose id goes into a shell variable.
fn reserve_into(variable: &str) -> String {
    format!(
        "{variable}=$(curl -s {BASE}/v1/inventory/tea/reserve -H 'Content-Type: application/json' \\\n  \
         -d '{{\"owner_id\":\"cart-7\",\"quantity\":2,\"ttl_seconds\":60}}' | sed 's/.*\"reservation_id\":\"\\([^\"]*\\)\".*/\\1/')"
    )
}

/// The creation of a key whose id goes into a shell variable.
fn create_key() -> String {
    format!(
        "KEY_ID=$(curl -s {BASE}{} -H \"{ROOT_KEY_HEADER}\" \\\n  -H 'Content-Type: application/json' \\\n  \
         -d '{{\"name\":\"Example\",\"principal\":\"example\",\"scopes\":[\"inventory:read\"]}}' | sed \
         's/.*\"key_id\":\"\\([^\"]*\\)\".*/\\1/')",
        RouteId::CreateKey.spec().path
    )
}

/// A parameter's row.
fn row(parameter: &Value) -> String {
    let schema = &parameter["schema"];
    let own = described(parameter);
    Field {
        name: parameter["name"].as_str().unwrap_or_default(),
        tags: tags(schema, parameter["required"] == true, true),
        description: if own.is_empty() { described(schema) } else { own },
        facts: facts(schema),
    }
    .row()
}

/// Whether a parameter says nothing about its operation.
fn is_everywhere(parameter: &Value) -> bool {
    parameter["name"] == "X-Request-Id" || parameter["name"] == "traceparent"
}

fn is_good(status: &str) -> bool {
    status.starts_with('2')
}

/// The media type of an answer's body and what is said of it.
fn media(answer: &Value) -> Option<(&String, &Value)> {
    answer["content"].as_object()?.iter().next()
}

fn examples(out: &mut String, media: &Value) {
    for example in media["examples"].as_object().into_iter().flat_map(serde_json::Map::values) {
        let mut shown = String::new();
        let value = &example["value"];
        let text = value.as_str().map_or_else(|| format!("{value:#}"), str::to_owned);
        sample(&mut shown, "", &escaped(&text));
        let summary = inline(example["summary"].as_str().unwrap_or("Example"));
        let _ = writeln!(out, "<details class=\"more\"><summary>{summary}</summary>{shown}</details>");
    }
}
