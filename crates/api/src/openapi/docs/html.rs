//! Pieces of HTML, and the frame that all pages stand in. Nothing is loaded from anywhere: style and script are in the
//! page, so it works offline.

use pulldown_cmark::{Parser, html};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
/// What is between the tags of the script that every page has. A server names its hash.
pub const SCRIPT: &str = concat!("\n", include_str!("script.js"));

/// A whole page. The title is escaped here, the body is HTML.
pub(crate) fn page(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <div class=\"bar\"><a class=\"home\" href=\"/docs\"><strong>Stockhold</strong></a>\
         <span class=\"links\"><a href=\"/docs\">API</a><a href=\"/docs#reasons\">Reasons</a>\
         <a href=\"/openapi.json\">openapi.json</a></span></div>\n\
         {body}<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// A text as HTML shows it.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// Markdown as HTML.
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::new();
    html::push_html(&mut out, Parser::new(text));
    out
}

/// Markdown of one paragraph, without the paragraph.
pub(super) fn inline(text: &str) -> String {
    let out = markdown(text);
    let line = out.trim();
    line.strip_prefix("<p>").and_then(|line| line.strip_suffix("</p>")).unwrap_or(line).to_owned()
}

/// Text to copy, with what it is.
pub(super) fn sample(out: &mut String, caption: &str, code: &str) {
    let caption = if caption.is_empty() { String::new() } else { format!("<p>{}</p>", inline(caption)) };
    // Writing to a String does not fail.
    let _ = writeln!(out, "<div class=\"sample\">{caption}<pre><code>{code}</code></pre></div>");
}

/// One row of a list of members, parameters or headers.
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    /// HTML: its type, and where it stands.
    pub(super) tags: Vec<String>,
    /// Markdown.
    pub(super) description: &'a str,
    /// HTML.
    pub(super) facts: String,
}

/// Appends rows.
pub(super) fn fields(out: &mut String, rows: impl IntoIterator<Item = String>) {
    out.push_str("<dl class=\"fields\">\n");
    out.extend(rows);
    out.push_str("</dl>\n");
}

impl Field<'_> {
    /// The row.
    pub(super) fn row(&self) -> String {
        let tags = self.tags.iter().fold(String::new(), |tags, tag| tags + "<span>" + tag + "</span>");
        let facts = if self.facts.is_empty() {
            String::new()
        } else {
            format!("<div class=\"facts\">{}</div>", self.facts)
        };
        format!(
            "<div class=\"field\"><dt><code>{}</code><div class=\"tags\">{tags}</div></dt><dd>{}{facts}</dd></div>\n",
            escaped(self.name),
            inline(self.description)
        )
    }
}
