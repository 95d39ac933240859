//! Who may not change anything here: a browser, on behalf of a page that is not the server's own. Without credentials the
//! server trusts whoever reaches it, and any page that is open on the same machine reaches it through its reader's browser:
//! by a cross-site form, or under a name that points to this address. Browsers say so in `Origin`, programs send none.

use super::asked::{Asked, Given};
use std::borrow::Cow;
use std::net::IpAddr;

/// The foreign origin of a request that would change something, if it has one.
pub(super) fn foreign_origin<'a>(asked: &Asked<'a>) -> Option<Cow<'a, str>> {
    if asked.origin == Given::Not || matches!(asked.method, "GET" | "HEAD") {
        return None;
    }
    let Given::Once(origin) = asked.origin else { return Some("two origins".into()) };
    let shown = String::from_utf8_lossy(origin);
    let own = match asked.host {
        Given::Once(host) => is_own(&shown, &String::from_utf8_lossy(host)),
        Given::Not | Given::Twice => false,
    };
    (!own).then_some(shown)
}

/// Whether the origin is the address that the request was sent to, and that by a name which nobody else can point here.
fn is_own(origin: &str, host: &str) -> bool {
    let Some(authority) = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) else {
        return false;
    };
    if !authority.eq_ignore_ascii_case(host) {
        return false;
    }
    let (name, _) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').unwrap_or((bracketed, "")),
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_pages_may_change_something() {
        let check = |method, origin: &'static str, host: &'static str| {
            let (origin, host) = (Given::Once(origin.as_bytes()), Given::Once(host.as_bytes()));
            foreign_origin(&Asked { method, host, origin, ..Asked::default() }).is_none()
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
        let twice = Asked { method: "PUT", origin: Given::Twice, ..Asked::default() };
        assert!(foreign_origin(&twice).is_some());
        assert!(foreign_origin(&Asked { method: "PUT", ..Asked::default() }).is_none());
        let nowhere = Asked { origin: Given::Once(b"http://127.0.0.1"), ..twice };
        assert!(foreign_origin(&nowhere).is_some());
    }
}
