//! A reason's page for a browser. It loads nothing from anywhere, so it works offline.

use super::Reason;
use crate::openapi::{answered_by, html};
use std::fmt::Write;

/// The page of a reason as HTML. Pages and titles are this crate's own text, compiled in.
pub fn page_html(reason: Reason) -> String {
    let (name, title, status) = (reason.name(), reason.title(), reason.status());
    let (class, again) =
        if reason.retryable() { ("ok", "Programs may retry") } else { ("no", "Programs must not retry") };
    let mut body = format!(
        "<main class=\"page\">\n<p class=\"soft\"><a href=\"/docs#reasons\">Reasons</a> / <code>{name}</code></p>\n\
         <h1>{title}</h1>\n<div class=\"chips\"><span class=\"chip\">Status {status}</span>\
         <span class=\"chip {class}\">{again}</span>"
    );
    if let Some(seconds) = reason.retry_after() {
        // Writing to a String does not fail.
        let _ = write!(body, "<span class=\"chip\">Retry-After: {seconds} s</span>");
    }
    body.push_str("</div>\n");
    body.push_str(&html::markdown(explanation(reason)));
    body.push_str("<h2>Answered by</h2>\n");
    body.push_str(&operations(reason));
    body.push_str("</main>\n");
    html::page(&format!("{name}: {title}"), &body)
}

/// The page without its head, whose parts are shown in another way.
fn explanation(reason: Reason) -> &'static str {
    let page = reason.page();
    page.find("\n## ").and_then(|at| page.get(at..)).unwrap_or(page)
}

fn operations(reason: Reason) -> String {
    let found = answered_by(reason);
    let everywhere = match reason {
        Reason::UnknownRoute => "<p>Any unknown path.</p>\n",
        Reason::MethodNotAllowed => "<p>Any path, with a method that it does not take.</p>\n",
        _ => "",
    };
    let links = found.iter().fold(String::new(), |mut links, (id, summary)| {
        // Writing to a String does not fail.
        let _ = writeln!(links, "<li><a href=\"/docs#{id}\">{}</a></li>", html::escaped(summary));
        links
    });
    if links.is_empty() { everywhere.to_owned() } else { format!("{everywhere}<ul>\n{links}</ul>\n") }
}
