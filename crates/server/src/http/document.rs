//! The long documents of the API, compressed for clients that accept gzip. Each is compressed once, at the first request for it.

use super::page_headers::HTML;
use super::reply::{self, Reply};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::sync::LazyLock;
use stockhold_api::openapi;

/// 200 and the OpenAPI document. `accepted` is the request's `Accept-Encoding`.
pub(super) fn openapi(accepts_gzip: bool) -> Reply {
    static COMPRESSED: LazyLock<Vec<u8>> = LazyLock::new(|| gzip(openapi::text()));
    document(openapi::text(), openapi::CONTENT_TYPE, &COMPRESSED, accepts_gzip)
}

/// 200 and the page for people.
pub(super) fn docs(accepts_gzip: bool) -> Reply {
    static COMPRESSED: LazyLock<Vec<u8>> = LazyLock::new(|| gzip(openapi::docs_html()));
    document(openapi::docs_html(), HTML, &COMPRESSED, accepts_gzip)
}

fn document(
    text: &'static str,
    kind: &'static str,
    compressed: &'static LazyLock<Vec<u8>>,
    accepts_gzip: bool,
) -> Reply {
    let mut reply = if accepts_gzip { reply::compressed(compressed, kind) } else { reply::page(text, kind) };
    // Caches must not give the compressed form to other clients.
    reply.headers.push(("vary", "accept-encoding".into()));
    reply
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 4), Compression::best());
    // Writing to memory does not fail.
    let _ = encoder.write_all(text.as_bytes());
    encoder.finish().unwrap_or_default()
}

/// Whether a value of `Accept-Encoding` takes gzip (RFC 9110, section 12.5.3).
pub(super) fn accepts_gzip(value: &[u8]) -> bool {
    let mut any = false;
    for item in value.split(|byte| *byte == b',') {
        let mut parts = item.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let coding = parts.next().unwrap_or_default();
        let refused = parts.any(|weight| {
            let zero = weight.strip_prefix(b"q=").or_else(|| weight.strip_prefix(b"Q="));
            zero.is_some_and(|zero| !zero.is_empty() && zero.iter().all(|byte| matches!(byte, b'0' | b'.')))
        });
        if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") {
            return !refused;
        }
        any |= coding == b"*" && !refused;
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_gzip() {
        for (value, accepts) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5, br", true),
            ("x-gzip", true),
            ("*", true),
            ("*;q=0.1, identity", true),
            ("br, deflate", false),
            ("gzip;q=0", false),
            ("gzip ; q=0.000, *", false),
            ("*;q=0", false),
            ("identity", false),
            ("gzipped", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(value.as_bytes()), accepts, "{value:?}");
        }
    }
}
