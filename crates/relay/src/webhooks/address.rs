//! Which addresses webhooks may be sent to. A caller who may create endpoints must not reach what only the server can reach: itself, its
//! network, the metadata of its cloud.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses that are allowed beside those that every machine of the Internet reaches.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllowedNetworks(pub(crate) Vec<IpNet>);

impl AllowedNetworks {
    /// Whether an operator has allowed an address. Only there webhooks may be sent without TLS.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Whether webhooks may be sent to an address.
    pub(crate) fn permit(&self, address: IpAddr) -> bool {
        is_global(address) || self.has(address)
    }
}

/// Networks of IPv4 that are no unicast of the Internet: <https://www.iana.org/assignments/iana-ipv4-special-registry>, and multicast.
const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];
/// The unicast of the Internet in IPv6. All else is reserved, local, or multicast.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// Networks in [`GLOBAL_V6`] that are for special purposes, or have an address of IPv4 inside:
/// <https://www.iana.org/assignments/iana-ipv6-special-registry>.
const SPECIAL_V6: [(Ipv6Addr, u32); 4] = [
    // Protocol assignments, Teredo and benchmarking among them.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // Documentation.
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    // Documentation.
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Whether an address is unicast that every machine of the Internet reaches.
fn is_global(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            !SPECIAL_V4.iter().any(|(network, length)| (bits ^ network.to_bits()) >> (32 - length) == 0)
        }
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let is_in =
                |(network, length): &(Ipv6Addr, u32)| (bits ^ network.to_bits()) >> (128 - length) == 0;
            is_in(&GLOBAL_V6) && !SPECIAL_V6.iter().any(is_in)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_internet_are_permitted_and_no_others() {
        let none = AllowedNetworks::default();
        let permitted = |address: &str| none.permit(address.parse().unwrap());
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "172.32.0.1",
            "2606:4700:4700::1111",
            "::ffff:8.8.8.8",
        ] {
            assert!(permitted(address), "{address}");
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!permitted(address), "{address}");
        }
    }

    #[test]
    fn an_operator_allows_networks() {
        let allowed = AllowedNetworks(vec!["127.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()]);
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "fd00::1"] {
            assert!(allowed.permit(address.parse().unwrap()), "{address}");
        }
        assert!(!allowed.permit("10.0.0.1".parse().unwrap()));
        assert!(!allowed.has("8.8.8.8".parse().unwrap()), "it is global, and not among the networks");
    }
}
