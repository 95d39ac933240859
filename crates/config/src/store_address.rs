//! Where the data is: the data directory, or a database's address. An address may contain a password and never shows it.

use serde::{Serialize, Serializer};
use std::fmt;
use std::net::Ipv6Addr;

/// The address that means the data directory.
pub(crate) const EMBEDDED: &str = "embedded";

/// Where the data is. It is displayed and serialized without its password.
#[derive(Clone)]
pub struct StoreAddress(String);

impl StoreAddress {
    /// The embedded store in the data directory.
    pub fn embedded() -> Self {
        Self(EMBEDDED.to_owned())
    }

    /// Whether the data is in the data directory and not in a database.
    pub fn is_embedded(&self) -> bool {
        self.0 == EMBEDDED
    }

    /// The address, password included.
    pub fn url(&self) -> &str {
        &self.0
    }

    /// Checks that there is a store of this kind.
    pub fn check(&self, key: &str) -> Result<(), String> {
        let known = ["postgres://", "postgresql://", "mysql://", "mariadb://"];
        if self.is_embedded() || known.iter().any(|scheme| self.0.starts_with(scheme)) {
            return Ok(());
        }
        Err(format!("{key} {self}: must be {EMBEDDED}, or begin with {}", known.join(", ")))
    }
}

impl From<String> for StoreAddress {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for StoreAddress {
    /// Shows no options, and nothing that could be a password. A password may contain any of the characters that separate the parts
    /// of an address, and it may be among the options. If the parts are not certain, none of them is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, rest)) = self.0.split_once("://").filter(|(scheme, _)| is_name(scheme)) else {
            return f.write_str(if is_name(&self.0) { &self.0 } else { HIDDEN });
        };
        write!(f, "{scheme}://")?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let shown_place = |place| if is_place(place) { place } else { HIDDEN };
        match place.rsplit_once('@') {
            // The @ belongs to an option, or to a password that contains a question mark.
            _ if options.contains('@') => f.write_str(HIDDEN),
            // These are not options: the question mark belongs to a password.
            _ if !options.is_empty() && !options.contains('=') => f.write_str(HIDDEN),
            Some((user, place)) => {
                let user = user.split_once(':').map_or(user, |(user, _)| user);
                let user = if is_name(user) { user } else { HIDDEN };
                write!(f, "{user}:{HIDDEN}@{}", shown_place(place))
            }
            None => f.write_str(shown_place(place)),
        }
    }
}

/// Shown instead of a part that may contain a password.
const HIDDEN: &str = "***";

/// Whether the text can only be a user or a kind of database.
fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || "-._%+".contains(c))
}

/// Whether the text can only be hosts with their ports and a database's name.
fn is_place(text: &str) -> bool {
    let (hosts, database) = text.split_once('/').unwrap_or((text, ""));
    let is_host = |host: &str| {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port),
            _ => (host, ""),
        };
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        port.bytes().all(|digit| digit.is_ascii_digit())
            && address.map_or_else(|| is_name(name), |address| address.parse::<Ipv6Addr>().is_ok())
    };
    hosts.split(',').all(is_host) && is_name(database)
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for StoreAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_what_could_be_a_password() {
        for (address, shown) in [
            ("embedded", "embedded"),
            ("embeded", "embeded"),
            ("postgres://db/shop", "postgres://db/shop"),
            ("postgres://shop@db/shop", "postgres://shop:***@db/shop"),
            ("mysql://shop:hunter2@db:3306/shop", "mysql://shop:***@db:3306/shop"),
            ("postgres://shop:hunter2@[::1]:5432/shop", "postgres://shop:***@[::1]:5432/shop"),
            (
                "postgres://shop:hunter2@db1.x,db2.x:5433/shop?target_session_attrs=read-write",
                "postgres://shop:***@db1.x,db2.x:5433/shop",
            ),
            ("postgres://db/shop?user=shop&password=hunter2", "postgres://db/shop"),
            ("postgres://db/shop?user=shop&password=hunter2@x", "postgres://***"),
            ("postgres://shop@db/shop?password=x@hunter2", "postgres://***"),
            ("postgres://shop@db/shop?password=x@y@hunter2@z?hunter2", "postgres://***"),
            ("postgres://shop:hunter2?x@db/shop", "postgres://***"),
            ("postgres://shop:x?hunter2@db/shop", "postgres://***"),
            ("postgres://shop:x@hunter2@db/shop", "postgres://shop:***@db/shop"),
            ("postgres://shop:x/hunter2@db/shop", "postgres://shop:***@db/shop"),
            ("postgres://shop:x@y/hunter2?z@db/shop", "postgres://***"),
            ("postgres://db/shop&password=hunter2@x/y", "postgres://***:***@x/y"),
            ("postgres://db/shop&password=hunter2", "postgres://***"),
            ("postgres://shop@db/shop;password=hunter2", "postgres://shop:***@***"),
            ("postgres://shop@db/shop#hunter2", "postgres://shop:***@***"),
            ("postgres://shop:hunter2", "postgres://***"),
            ("postgres://shop:hunter2/shop", "postgres://***"),
            ("postgres://shop:hunter2?x", "postgres://***"),
            ("postgres://shop:12?hunter2", "postgres://***"),
            ("postgres://[hunter2]/shop", "postgres://***"),
            ("postgres:/shop:hunter2@db", "***"),
            ("shop:hunter2@db://x", "***"),
            ("host=db password=hunter2", "***"),
            ("shop/hunter2", "***"),
        ] {
            assert_eq!(StoreAddress(address.to_owned()).to_string(), shown, "{address}");
            assert!(!shown.contains("hunter2"));
        }
    }
}
