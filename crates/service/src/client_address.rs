//! The address of a caller behind proxies.
//!
//! Anybody can send a forwarding header. So it counts only when the connection comes from a trusted proxy, and then the address
//! is the rightmost one that is no trusted proxy: everything to its left was written by somebody who is not trusted.

use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The one forwarding header that is read. The others are ignored, because a proxy that sets one of them leaves the others as
/// the caller sent them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`: addresses with commas between them.
    XForwardedFor,
    /// `Forwarded`: RFC 7239.
    Forwarded,
}

impl ForwardedHeader {
    /// The header's name in the configuration and on the wire, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        }
    }

    /// The header of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::XForwardedFor, Self::Forwarded].into_iter().find(|header| header.name() == name)
    }

    /// The address in one element of the header.
    fn address(self, element: &str) -> Option<IpAddr> {
        match self {
            Self::XForwardedFor => host(element.trim()),
            Self::Forwarded => {
                let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
                let (_, node) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
                host(node.trim().trim_matches('"'))
            }
        }
    }
}

/// An address, also in brackets and with a port behind it.
fn host(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address.ip());
    }
    text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

/// The proxies whose forwarding header is believed.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies {
    networks: Vec<IpNet>,
    header: Option<ForwardedHeader>,
}

/// A text that is no network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkError(String);

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no network: write an address and the length of its prefix, like 10.0.0.0/8 or fd00::/8",
            self.0
        )
    }
}

impl std::error::Error for NetworkError {}

/// Reads a network. A single address is the network of itself.
pub fn network(text: &str) -> Result<IpNet, NetworkError> {
    let parsed = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    parsed.map_err(|_| NetworkError(text.chars().take(64).collect()))
}

impl TrustedProxies {
    /// The proxies in these networks, which set this header.
    pub fn new(networks: &[String], header: ForwardedHeader) -> Result<Self, NetworkError> {
        let networks = networks.iter().map(|text| network(text)).collect::<Result<_, _>>()?;
        Ok(Self { networks, header: Some(header) })
    }

    /// Whether there is any.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// The header to read, if a connection from this address may set it.
    pub fn header_of(&self, peer: IpAddr) -> Option<ForwardedHeader> {
        self.header.filter(|_| self.trusts(canonical(peer)))
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// The network that bounds by address count for. `None` for an address that many callers share: this machine, or one of these
    /// proxies.
    pub fn counted_network(&self, address: IpAddr) -> Option<IpAddr> {
        let address = canonical(address);
        (!address.is_loopback() && !self.trusts(address)).then(|| rate_key(address))
    }

    /// The caller's address: of the connection's peer, and of what the forwarding header says if the peer is trusted. `values`
    /// are the values of all headers of that name, in their order. An element that is no address ends the search, because
    /// nothing to its left can be believed: the proxy that wrote it is then the caller.
    pub fn client_address<'a>(
        &self,
        peer: IpAddr,
        values: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> IpAddr {
        let mut client = canonical(peer);
        let Some(header) = self.header_of(client) else { return client };
        let elements = values.rev().flat_map(|value| value.rsplit(|byte| *byte == b','));
        for element in elements {
            let address = std::str::from_utf8(element).ok().and_then(|element| header.address(element));
            let Some(address) = address.map(canonical) else { break };
            client = address;
            if !self.trusts(client) {
                break;
            }
        }
        client
    }
}

/// An IPv4 address that is written as an IPv6 one is the IPv4 address.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// What counts as one caller for rate limits: an IPv4 address, or the /64 network of an IPv6 address, which one household or
/// server has for itself.
pub fn rate_key(address: IpAddr) -> IpAddr {
    match canonical(address) {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(header: ForwardedHeader) -> TrustedProxies {
        TrustedProxies::new(&["10.0.0.0/8".to_owned(), "fd00::1".to_owned()], header).unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[track_caller]
    fn check(header: ForwardedHeader, peer: &str, values: &[&str], expected: &str) {
        let found =
            proxies(header).client_address(address(peer), values.iter().map(|value| value.as_bytes()));
        assert_eq!(found, address(expected));
    }

    #[test]
    fn x_forwarded_for() {
        let check =
            |peer, values: &[&str], expected| check(ForwardedHeader::XForwardedFor, peer, values, expected);
        check("10.0.0.1", &["203.0.113.7"], "203.0.113.7");
        check("10.0.0.1", &["203.0.113.7, 10.2.3.4"], "203.0.113.7");
        // What the caller wrote itself stands on the left.
        check("10.0.0.1", &["198.51.100.1, 203.0.113.7"], "203.0.113.7");
        check("10.0.0.1", &["198.51.100.1", "203.0.113.7"], "203.0.113.7");
        check("10.0.0.1", &["198.51.100.1, junk, 10.0.0.9"], "10.0.0.9");
        // Somebody who is no proxy is believed nothing.
        check("203.0.113.9", &["10.0.0.1"], "203.0.113.9");
        check("10.0.0.1", &[], "10.0.0.1");
        check("10.0.0.1", &[""], "10.0.0.1");
        check("10.0.0.1", &["10.0.0.2, 10.0.0.3"], "10.0.0.2");
        check("fd00::1", &["2001:db8::7"], "2001:db8::7");
        check("::ffff:10.0.0.1", &["::ffff:203.0.113.7"], "203.0.113.7");
        check("10.0.0.1", &["203.0.113.7:4711"], "203.0.113.7");
        check("10.0.0.1", &["[2001:db8::7]:4711"], "2001:db8::7");
    }

    #[test]
    fn forwarded() {
        let check =
            |peer, values: &[&str], expected| check(ForwardedHeader::Forwarded, peer, values, expected);
        check("10.0.0.1", &["for=203.0.113.7"], "203.0.113.7");
        check("10.0.0.1", &["for=198.51.100.1, For=\"[2001:db8::7]:80\";proto=https"], "2001:db8::7");
        check("10.0.0.1", &["proto=https;by=10.0.0.1;for=203.0.113.7, for=10.0.0.2"], "203.0.113.7");
        check("10.0.0.1", &["for=203.0.113.7, for=unknown"], "10.0.0.1");
        check("10.0.0.1", &["203.0.113.7"], "10.0.0.1");
    }

    #[test]
    fn networks() {
        assert!(network("10.0.0.1").is_ok() && network("::/0").is_ok());
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "proxy.example"] {
            assert!(network(wrong).unwrap_err().to_string().contains("10.0.0.0/8"), "{wrong}");
        }
        assert_eq!(
            TrustedProxies::default().client_address(address("10.0.0.1"), std::iter::empty()),
            address("10.0.0.1")
        );
    }

    #[test]
    fn addresses_that_count_as_one_caller() {
        assert_eq!(rate_key(address("::ffff:203.0.113.7")), address("203.0.113.7"));
        assert_eq!(rate_key(address("2001:db8:1:2:3:4:5:6")), address("2001:db8:1:2::"));
    }
}
