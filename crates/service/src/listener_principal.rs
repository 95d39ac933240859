//! The principal of a listener whose clients send no credentials: every client of an allowed network acts as it.

use crate::authenticator::Caller;
use crate::client_address::network;
use crate::principal::{Principal, PrincipalKind};
use crate::scope::{Scope, ScopeSet};
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::Arc;
use stockhold_domain::{Label, Restrictions};

/// What is configured of the principal of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerPrincipalSpec {
    /// Its name. Principals of listeners with the same name are the same one.
    pub name: String,
    /// Names of scopes; at least one.
    pub scopes: Vec<String>,
    /// Restricts it to these locations.
    pub locations: Option<Vec<String>>,
    /// The networks of its clients. `None`: every network.
    pub allowed_cidrs: Option<Vec<String>>,
}

/// The principal of a listener.
#[derive(Clone, Debug)]
pub struct ListenerPrincipal {
    caller: Arc<Caller>,
    allowed_networks: Option<Vec<IpNet>>,
}

impl ListenerPrincipal {
    /// The principal that is configured. An error has the member that is wrong, and what is wrong with it.
    pub fn new(spec: &ListenerPrincipalSpec) -> Result<Self, (&'static str, String)> {
        let at = |member: &'static str| move |error: String| (member, error);
        let name = Label::new(&spec.name).map_err(|error| ("name", error.to_string()))?;
        let scopes: Vec<_> = spec
            .scopes
            .iter()
            .map(|name| Scope::from_name(name).map_err(|error| ("scopes", error.to_string())))
            .collect::<Result<_, _>>()?;
        let scopes: ScopeSet = scopes.into_iter().collect();
        if scopes.is_empty() {
            return Err(("scopes", "must name at least one scope".to_owned()));
        }
        let locations = spec.locations.as_deref().map(labels).transpose().map_err(at("locations"))?;
        let networks = spec.allowed_cidrs.as_deref().map(networks).transpose();
        let restrictions = Restrictions { locations, ..Restrictions::default() };
        let actor = Label::new(&format!("listener:{name}"))
            .map_err(|_| ("name", "must have at most 119 bytes".to_owned()))?;
        let principal = Principal { kind: PrincipalKind::Listener, actor, scopes, restrictions };
        Ok(Self {
            caller: Arc::new(Caller { principal, rate_limit: None }),
            allowed_networks: networks.map_err(at("allowed_cidrs"))?,
        })
    }

    /// The caller that every client of the listener is.
    pub fn caller(&self) -> Arc<Caller> {
        Arc::clone(&self.caller)
    }

    /// Whether a client with this address may use the listener.
    pub fn allows_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allowed_networks
            .as_ref()
            .is_none_or(|networks| networks.iter().any(|network| network.contains(&address)))
    }
}

fn labels(texts: &[String]) -> Result<Arc<[Label]>, String> {
    check_not_empty(texts)?;
    let mut labels: Vec<_> = texts
        .iter()
        .map(|text| Label::new(text).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    labels.sort_unstable();
    labels.dedup();
    Ok(labels.into())
}

fn networks(texts: &[String]) -> Result<Vec<IpNet>, String> {
    check_not_empty(texts)?;
    texts.iter().map(|text| network(text).map_err(|error| error.to_string())).collect()
}

/// An empty list is a mistake: it would allow nothing.
fn check_not_empty(texts: &[String]) -> Result<(), String> {
    if texts.is_empty() {
        Err("must not be empty: leave it out for no restriction".to_owned())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn spec() -> ListenerPrincipalSpec {
        ListenerPrincipalSpec {
            name: "riders".to_owned(),
            scopes: texts(&["reservations:write"]),
            locations: Some(texts(&["hub-2", "hub-1", "hub-2"])),
            allowed_cidrs: Some(texts(&["10.1.0.0/16", "192.0.2.7"])),
        }
    }

    #[test]
    fn every_client_is_the_same_caller() {
        let principal = ListenerPrincipal::new(&spec()).unwrap();
        let caller = principal.caller();
        assert_eq!(caller.principal.actor.as_str(), "listener:riders");
        assert_eq!(caller.principal.kind, PrincipalKind::Listener);
        assert!(
            caller.principal.may(Scope::ReservationsWrite) && !caller.principal.may(Scope::InventoryRead)
        );
        assert!(caller.principal.restrictions.allows_location("hub-1"));
        assert!(!caller.principal.restrictions.allows_location("hub-3"));
    }

    #[test]
    fn clients_of_other_networks_are_not_it() {
        let principal = ListenerPrincipal::new(&spec()).unwrap();
        for (address, allowed) in [
            ("10.1.2.3", true),
            ("192.0.2.7", true),
            ("::ffff:10.1.2.3", true),
            ("10.2.0.1", false),
            ("192.0.2.8", false),
            ("::1", false),
        ] {
            assert_eq!(principal.allows_address(address.parse().unwrap()), allowed, "{address}");
        }
        let open = ListenerPrincipal::new(&ListenerPrincipalSpec { allowed_cidrs: None, ..spec() }).unwrap();
        assert!(open.allows_address("203.0.113.9".parse().unwrap()));
    }

    #[test]
    fn a_wrong_member_is_named() {
        for (wrong, member) in [
            (ListenerPrincipalSpec { name: String::new(), ..spec() }, "name"),
            (ListenerPrincipalSpec { name: "x".repeat(120), ..spec() }, "name"),
            (ListenerPrincipalSpec { scopes: Vec::new(), ..spec() }, "scopes"),
            (ListenerPrincipalSpec { scopes: texts(&["everything"]), ..spec() }, "scopes"),
            (ListenerPrincipalSpec { locations: Some(Vec::new()), ..spec() }, "locations"),
            (ListenerPrincipalSpec { locations: Some(texts(&[""])), ..spec() }, "locations"),
            (ListenerPrincipalSpec { allowed_cidrs: Some(Vec::new()), ..spec() }, "allowed_cidrs"),
            (
                ListenerPrincipalSpec { allowed_cidrs: Some(texts(&["10.0.0.0/33"])), ..spec() },
                "allowed_cidrs",
            ),
        ] {
            assert_eq!(ListenerPrincipal::new(&wrong).unwrap_err().0, member, "{wrong:?}");
        }
        let longest = ListenerPrincipalSpec { name: "x".repeat(119), ..spec() };
        assert!(ListenerPrincipal::new(&longest).is_ok());
    }
}
