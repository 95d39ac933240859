//! Cross-origin requests of browsers (CORS, <https://fetch.spec.whatwg.org/#http-cors-protocol>): the origins whose pages may
//! call the API. Credentials are sent in the `Authorization` header, so cookies are never allowed.

use std::fmt;

/// The methods that a page of an allowed origin may use.
const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
/// The request headers that a page may set.
const HEADERS: &str = "authorization, content-type, idempotency-key, if-match, if-none-match, last-event-id, traceparent, \
                       x-request-id";
/// The response headers that a page may read.
const EXPOSED: &str =
    "Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, ETag, Idempotent-Replayed, Location";
/// How long a browser remembers the answer of a preflight, in seconds.
const MAX_AGE_SECONDS: &str = "600";

/// A header of a response.
pub(crate) type Header = (&'static str, std::borrow::Cow<'static, str>);

/// The origins whose pages may call the API.
#[derive(Clone, Debug, Default)]
pub(crate) struct CrossOrigin {
    allowed: Vec<String>,
}

/// A text that is no origin.
#[derive(Debug)]
pub(crate) struct OriginError(String);

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no origin: write a scheme, a host and, if needed, a port, like https://shop.example",
            self.0
        )
    }
}

impl CrossOrigin {
    /// The pages of these origins.
    pub(crate) fn new(origins: &[String]) -> Result<Self, OriginError> {
        match origins.iter().find(|origin| !is_origin(origin)) {
            Some(wrong) => Err(OriginError(wrong.clone())),
            None => Ok(Self { allowed: origins.to_vec() }),
        }
    }

    /// Whether pages of an origin may call the API.
    pub(crate) fn allows(&self, origin: &[u8]) -> bool {
        self.allowed.iter().any(|allowed| allowed.as_bytes() == origin)
    }

    /// Adds the headers of a response to a request with this origin, or with none.
    pub(crate) fn add_headers(&self, origin: Option<&[u8]>, headers: &mut Vec<Header>) {
        if self.allowed.is_empty() {
            return;
        }
        // Also on answers for other origins, because a cache must not give those to an allowed one.
        headers.push(("vary", "Origin".into()));
        if let Some(allowed) = self.allowed.iter().find(|allowed| Some(allowed.as_bytes()) == origin) {
            headers.push(("access-control-allow-origin", allowed.clone().into()));
            headers.push(("access-control-expose-headers", EXPOSED.into()));
        }
    }

    /// The additional headers of the answer to a preflight of an allowed origin.
    pub(crate) fn preflight() -> Vec<Header> {
        vec![
            ("access-control-allow-methods", METHODS.into()),
            ("access-control-allow-headers", HEADERS.into()),
            ("access-control-max-age", MAX_AGE_SECONDS.into()),
        ]
    }
}

/// Whether a text is an origin as browsers send it: no path, no user, no trailing slash, in lower case.
fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return false };
    if !matches!(scheme, "http" | "https") || authority.is_empty() {
        return false;
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_default_port = matches!((scheme, port), ("http", Some("80")) | ("https", Some("443")));
    let is_host = |byte: u8| {
        byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || matches!(byte, b'.' | b'-' | b'_' | b'[' | b']' | b':')
    };
    !host.is_empty()
        && host.bytes().all(is_host)
        && port.is_none_or(|port| port.parse::<u16>().is_ok() && !port.starts_with('+'))
        && !is_default_port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_send_them() {
        for good in
            ["https://shop.example", "http://localhost:3000", "https://[2001:db8::1]:8443", "http://10.0.0.1"]
        {
            assert!(CrossOrigin::new(&[good.to_owned()]).is_ok(), "{good}");
        }
        for bad in [
            "",
            "*",
            "null",
            "shop.example",
            "https://shop.example/",
            "https://Shop.example",
            "https://a@shop.example",
            "https://shop.example:443",
            "https://shop.example:x",
            "ftp://shop.example",
            "https://",
        ] {
            assert!(CrossOrigin::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_allowed_origins_get_the_headers() {
        let mut headers = Vec::new();
        CrossOrigin::default().add_headers(Some(b"https://shop.example"), &mut headers);
        assert!(headers.is_empty());
        let cross_origin = CrossOrigin::new(&["https://shop.example".to_owned()]).unwrap();
        cross_origin.add_headers(Some(b"https://evil.example"), &mut headers);
        assert_eq!(headers, [("vary", "Origin".into())]);
        headers.clear();
        cross_origin.add_headers(Some(b"https://shop.example"), &mut headers);
        assert_eq!(headers[1], ("access-control-allow-origin", "https://shop.example".into()));
    }
}
