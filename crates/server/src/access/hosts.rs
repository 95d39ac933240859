//! The names under which callers without a credential may reach the server. A page that is open in a browser on the same machine can
//! let a name of its own lead to this address (DNS rebinding), and then reads what it likes as a page of that name. It can't do so with
//! an address, with `localhost` or with a name that the operator controls.

use std::fmt;
use std::net::IpAddr;

/// The names besides addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllowedHosts(Vec<String>);

/// A text that is no name of a host.
#[derive(Debug)]
pub(crate) struct HostError(String);

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no name of a host: write it without a scheme and without a port, like stock.example",
            self.0
        )
    }
}

impl AllowedHosts {
    /// These names, each without a port.
    pub(crate) fn new(names: &[String]) -> Result<Self, HostError> {
        match names.iter().find(|name| !is_name(name)) {
            Some(wrong) => Err(HostError(wrong.clone())),
            None => Ok(Self(names.to_vec())),
        }
    }

    /// Whether the value of a `Host` header names an address, `localhost` or an allowed name.
    pub(crate) fn allows(&self, host: &str) -> bool {
        let (name, port) = match host.strip_prefix('[') {
            Some(bracketed) => match bracketed.split_once(']') {
                Some((name, port)) => (name, port),
                None => return false,
            },
            None => host.split_once(':').map_or((host, ""), |(name, _)| (name, &host[name.len()..])),
        };
        let is_port = port.is_empty()
            || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        let is_known = name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok()
            || self.0.iter().any(|allowed| name.eq_ignore_ascii_case(allowed));
        is_port && is_known
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !text.is_empty() && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_localhost_and_allowed_names_lead_here() {
        let hosts = AllowedHosts::new(&["stock.example".to_owned()]).unwrap();
        for good in [
            "127.0.0.1",
            "127.0.0.1:8101",
            "10.1.2.3:80",
            "[::1]",
            "[::1]:8101",
            "localhost",
            "LOCALHOST:8101",
            "stock.example",
            "Stock.Example:443",
        ] {
            assert!(hosts.allows(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:8101",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8101",
            "a.stock.example",
            "stock.example:80:80",
            "stock.example:x",
            "[::1",
            "[::1]evil.example",
            "localhost ",
        ] {
            assert!(!hosts.allows(bad), "{bad}");
        }
        assert!(!AllowedHosts::default().allows("stock.example"));
    }

    #[test]
    fn names_have_no_scheme_and_no_port() {
        for bad in ["", "https://stock.example", "stock.example:443", "[::1]", "*", "stock.example/"] {
            assert!(AllowedHosts::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
