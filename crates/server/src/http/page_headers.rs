//! The headers of pages for people. A page loads nothing, runs its own script only, and is shown in no other page, so that nobody can have a
//! person click on it unawares.

use crate::access::Header;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use std::sync::LazyLock;
use stockhold_api::openapi::PAGE_SCRIPT;

/// What a page may do: its own style, and the one script that every page has.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let script = STANDARD.encode(digest(&SHA256, PAGE_SCRIPT.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
});

/// The type of a page.
pub(super) const HTML: &str = "text/html; charset=utf-8";

/// The headers of a page or a document of this type.
pub(super) fn page_headers(kind: &str) -> Vec<Header> {
    let mut headers = vec![("x-content-type-options", "nosniff".into())];
    if kind == HTML {
        headers.push(("content-security-policy", POLICY.as_str().into()));
        headers.push(("x-frame-options", "DENY".into()));
        headers.push(("referrer-policy", "no-referrer".into()));
    }
    headers
}
