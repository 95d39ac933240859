//! A reason's page for a browser. It loads nothing from anywhere, so it works offline.

use super::Reason;
use pulldown_cmark::{Parser, html};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;\
    color-scheme:light dark}pre{overflow:auto;padding:1rem;border:1px solid #8884;border-radius:4px}\
    code{font-size:.9em}";

/// The page of a reason as HTML. Pages and titles are this crate's own text, compiled in.
pub fn page_html(reason: Reason) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}: {}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n",
        reason.name(),
        reason.title()
    );
    html::push_html(&mut page, Parser::new(reason.page()));
    page.push_str("</body>\n</html>\n");
    page
}
