//! The document as a page for a browser: one file, made once from the document itself.

pub(crate) mod html;
mod operation;
mod schema;

use super::document;
use crate::problem::Reason;
use html::{escaped, fields, inline, markdown, page};
use operation::Place;
use serde_json::Value;
use std::fmt::Write;
use std::sync::LazyLock;

/// The page at `GET /docs`.
pub fn docs_html() -> &'static str {
    static PAGE: LazyLock<String> = LazyLock::new(|| made(document()));
    &PAGE
}

/// The operations that may answer with a reason: id and summary.
pub(crate) fn answered_by(reason: Reason) -> Vec<(&'static str, &'static str)> {
    let all = places(document()).into_iter().filter(|place| place.may_answer(reason));
    all.filter_map(|place| {
        Some((place.operation["operationId"].as_str()?, place.operation["summary"].as_str()?))
    })
    .collect()
}

fn places(document: &Value) -> Vec<Place<'_>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths
        .flat_map(|(path, item)| {
            let admin = !item["servers"].is_null();
            let methods = item.as_object().into_iter().flatten().filter(|(name, _)| *name != "servers");
            methods.map(move |(method, operation)| Place { document, path, method, operation, admin })
        })
        .collect()
}

fn made(document: &Value) -> String {
    let places = places(document);
    let mut body = String::from("<div class=\"layout\">\n");
    routes(&mut body, document, &places);
    body.push_str("<main>\n");
    let info = &document["info"];
    let text = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_default();
    // Writing to a String does not fail.
    let _ = write!(
        body,
        "<h1>Stockhold API</h1>\n<p class=\"soft\">{} Version {}.</p>\n{}",
        escaped(&text(&info["summary"])),
        escaped(&text(&info["version"])),
        markdown(&text(&info["description"]))
    );
    for tag in document["tags"].as_array().into_iter().flatten() {
        let name = escaped(&text(&tag["name"]));
        let id = name.to_lowercase();
        let description = inline(&text(&tag["description"]));
        let _ = writeln!(body, "<h2 id=\"{id}\">{name}</h2>\n<p class=\"soft\">{description}</p>");
        for place in of(&places, &tag["name"]) {
            place.put(&mut body);
        }
    }
    reasons(&mut body);
    schema::all(&mut body, &document["components"]["schemas"]);
    body.push_str("</main>\n</div>\n");
    page("Stockhold API", &body)
}

fn of<'p, 'd>(places: &'p [Place<'d>], tag: &'p Value) -> impl Iterator<Item = &'p Place<'d>> {
    places.iter().filter(move |place| place.operation["tags"][0] == *tag)
}

fn routes(out: &mut String, document: &Value, places: &[Place<'_>]) {
    out.push_str(
        "<nav class=\"routes\"><details id=\"routes\" open><summary>Routes</summary>\n\
         <p class=\"hidden\"><input id=\"filter\" type=\"search\" placeholder=\"Filter\" aria-label=\"Filter routes\"></p>\n",
    );
    for tag in document["tags"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "<h4>{}</h4><ul>", escaped(tag["name"].as_str().unwrap_or_default()));
        for place in of(places, &tag["name"]) {
            let _ = writeln!(
                out,
                "<li data-find=\"{}\"><a href=\"#{}\"><span class=\"method {method}\">{}</span>{}</a></li>",
                place.find(),
                place.id(),
                short(place.method).to_uppercase(),
                escaped(place.summary()),
                method = place.method,
            );
        }
        out.push_str("</ul>\n");
    }
    out.push_str(
        "<h4>More</h4><ul><li><a href=\"#reasons\">Reasons</a></li><li><a href=\"#schemas\">Schemas</a></li></ul>\n\
         </details></nav>\n",
    );
}

/// A method that fits beside a route's name.
fn short(method: &str) -> &str {
    if method == "delete" { "del" } else { method }
}

fn reasons(out: &mut String) {
    out.push_str(
        "<h2 id=\"reasons\">Reasons</h2>\n<p class=\"soft\">Why something was not done. Each has a page: what it means, \
         why it happens, what to do.</p>\n",
    );
    let rows = Reason::ALL.iter().map(|reason| {
        let again = if reason.retryable() { " · retry" } else { "" };
        self::reason(reason.name(), &reason.status().to_string(), again, reason.title())
    });
    fields(out, rows);
}

/// A reason's row, with a link to its page.
fn reason(name: &str, status: &str, again: &str, title: &str) -> String {
    format!(
        "<div class=\"field\"><dt><a href=\"/problems/{name}\"><code>{name}</code></a><div class=\"tags\">\
         <span>{status}{again}</span></div></dt><dd>{}.</dd></div>\n",
        escaped(title)
    )
}
