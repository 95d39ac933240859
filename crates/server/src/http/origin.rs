//! Refuses changes that a browser sends for a page of another origin. Without credentials the server trusts every caller,
//! and any page that is open on the same machine can reach it through the browser: with a cross-site form, or under a name
//! that resolves to this address. Browsers send `Origin` with such requests; programs send none.

use super::request_head::{RequestHead, SingleHeader};
use crate::access::{AllowedHosts, CrossOrigin};
use std::borrow::Cow;

/// The foreign origin of a request that would change something, if it has one.
pub(super) fn foreign_origin<'a>(
    head: &RequestHead<'a>,
    allowed: &CrossOrigin,
    hosts: &AllowedHosts,
) -> Option<Cow<'a, str>> {
    if head.origin == SingleHeader::Absent || matches!(head.method, "GET" | "HEAD") {
        return None;
    }
    let SingleHeader::Value(origin) = head.origin else { return Some("two origins".into()) };
    if allowed.allows(origin) {
        return None;
    }
    let shown = String::from_utf8_lossy(origin);
    let own = match head.host {
        SingleHeader::Value(host) => is_own(&shown, &String::from_utf8_lossy(host), hosts),
        SingleHeader::Absent | SingleHeader::Repeated => false,
    };
    (!own).then_some(shown)
}

/// Whether the origin is the address that the request was sent to, under a name that nobody else can point to this
/// server.
fn is_own(origin: &str, host: &str, hosts: &AllowedHosts) -> bool {
    let Some(authority) = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) else {
        return false;
    };
    authority.eq_ignore_ascii_case(host) && hosts.allows(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_pages_may_change_something() {
        let check = |method, origin: &'static str, host: &'static str| {
            let (origin, host) =
                (SingleHeader::Value(origin.as_bytes()), SingleHeader::Value(host.as_bytes()));
            let head = RequestHead { method, host, origin, ..RequestHead::default() };
            foreign_origin(&head, &CrossOrigin::default(), &AllowedHosts::default()).is_none()
        };
        for (origin, host) in [
            ("http://127.0.0.1:8101", "127.0.0.1:8101"),
            ("http://localhost:9000", "LocalHost:9000"),
            ("http://[::1]:8101", "[::1]:8101"),
            ("https://127.0.0.1", "127.0.0.1"),
        ] {
            assert!(check("POST", origin, host), "{origin} to {host}");
        }
        for (origin, host) in [
            ("http://evil.example:8101", "evil.example:8101"),
            ("http://evil.example", "127.0.0.1:8101"),
            ("http://localhost:3000", "localhost:8101"),
            ("http://127.0.0.1:8101", "localhost:8101"),
            ("http://localhost.evil.example:8101", "localhost.evil.example:8101"),
            ("http://127.0.0.1.evil.example", "127.0.0.1.evil.example"),
            ("null", "127.0.0.1:8101"),
            ("", "127.0.0.1:8101"),
            ("file://", "127.0.0.1:8101"),
        ] {
            assert!(!check("POST", origin, host), "{origin} to {host}");
            assert!(!check("DELETE", origin, host), "{origin} to {host}");
            assert!(check("GET", origin, host), "{origin} to {host}");
        }
        let twice = RequestHead { method: "PUT", origin: SingleHeader::Repeated, ..RequestHead::default() };
        assert!(foreign_origin(&twice, &CrossOrigin::default(), &AllowedHosts::default()).is_some());
        assert!(
            foreign_origin(
                &RequestHead { method: "PUT", ..RequestHead::default() },
                &CrossOrigin::default(),
                &AllowedHosts::default()
            )
            .is_none()
        );
        let nowhere = RequestHead { origin: SingleHeader::Value(b"http://127.0.0.1"), ..twice };
        assert!(foreign_origin(&nowhere, &CrossOrigin::default(), &AllowedHosts::default()).is_some());
    }
}
