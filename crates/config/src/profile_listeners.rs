//! Checks of the listeners that serve one profile alone: their addresses, and the principals that their clients act as.

use crate::access::PrincipalSettings;
use crate::settings::Config;
use std::net::SocketAddr;

/// A listener of a profile, as it is configured.
struct ProfileListener<'a> {
    listen_key: &'static str,
    address: Option<SocketAddr>,
    principal_key: &'static str,
    principal: Option<&'a PrincipalSettings>,
}

impl Config {
    fn profile_listeners(&self) -> [ProfileListener<'_>; 2] {
        [
            ProfileListener {
                listen_key: "hub_listen",
                address: self.hub_listen,
                principal_key: "hub_principal",
                principal: self.hub_principal.as_ref(),
            },
            ProfileListener {
                listen_key: "storefront_listen",
                address: self.storefront_listen,
                principal_key: "storefront_principal",
                principal: self.storefront_principal.as_ref(),
            },
        ]
    }

    /// Checks the listeners of profiles. An error has the key that it is about.
    pub(crate) fn check_profile_listeners(&self) -> Result<(), (&'static str, String)> {
        let mut taken = vec![("listen", self.listen), ("admin_listen", self.admin_listen)];
        for listener in self.profile_listeners() {
            let ProfileListener { listen_key, address, principal_key, principal } = listener;
            if let Some(principal) = principal {
                principal.to_principal(principal_key).map_err(|what| (principal_key, what))?;
            }
            let Some(address) = address else { continue };
            if address.port() != 0
                && let Some((other, _)) = taken.iter().find(|(_, other)| *other == address)
            {
                let what = format!("{other} and {listen_key} are both {address}: give each its own port");
                return Err((listen_key, what));
            }
            taken.push((listen_key, address));
            if address.ip().is_loopback() {
                continue;
            }
            if principal.is_none() {
                let what = format!(
                    "{listen_key} {address}: without a principal the listener binds to loopback only, because its clients send no \
                     credentials; set [{principal_key}] with name, scopes, and the locations and allowed_cidrs of these clients"
                );
                return Err((listen_key, what));
            }
            if self.tls().is_none() && !self.plain_http {
                let what = format!(
                    "{listen_key} {address}: without TLS the listener binds to loopback only; set tls_cert and tls_key, or plain_http \
                     if the network between it and its clients is trusted"
                );
                return Err((listen_key, what));
            }
        }
        Ok(())
    }

    /// Warnings about listeners that every network reaches.
    pub(crate) fn open_listeners(&self) -> impl Iterator<Item = String> {
        let open = |listener: ProfileListener<'_>| {
            let address = listener.address.filter(|address| !address.ip().is_loopback())?;
            let principal = listener.principal.filter(|principal| principal.allowed_cidrs.is_none())?;
            Some(format!(
                "{} {address}: everybody who reaches it acts as {:?}, because {} has no allowed_cidrs",
                listener.listen_key, principal.name, listener.principal_key
            ))
        };
        let [hub, storefront] = self.profile_listeners().map(open);
        hub.into_iter().chain(storefront)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal() -> PrincipalSettings {
        PrincipalSettings {
            name: "riders".to_owned(),
            scopes: vec!["reservations:write".to_owned()],
            ..PrincipalSettings::default()
        }
    }

    fn everywhere() -> Config {
        Config {
            hub_listen: Some(([0, 0, 0, 0], 8111).into()),
            hub_principal: Some(principal()),
            plain_http: true,
            ..Config::default()
        }
    }

    #[test]
    fn an_address_that_others_reach_needs_a_principal_and_tls() {
        let check = Config::check_profile_listeners;
        assert_eq!(check(&everywhere()), Ok(()));
        let (key, what) = check(&Config { hub_principal: None, ..everywhere() }).unwrap_err();
        assert_eq!(key, "hub_listen");
        assert!(what.contains("without a principal") && what.contains("[hub_principal]"), "{what}");
        let (key, what) = check(&Config { plain_http: false, ..everywhere() }).unwrap_err();
        assert!(key == "hub_listen" && what.contains("tls_cert"), "{what}");
        let loopback = Some(([127, 0, 0, 1], 8111).into());
        let local = Config { hub_principal: None, plain_http: false, hub_listen: loopback, ..everywhere() };
        assert_eq!(check(&local), Ok(()));
    }

    #[test]
    fn each_listener_has_an_address_of_its_own() {
        let api = Config::default().listen;
        let (key, what) = Config { storefront_listen: Some(api), ..Config::default() }
            .check_profile_listeners()
            .unwrap_err();
        assert!(key == "storefront_listen" && what.contains("listen and storefront_listen"), "{what}");
        let same = Config { storefront_listen: everywhere().hub_listen, ..everywhere() };
        assert_eq!(same.check_profile_listeners().unwrap_err().0, "storefront_listen");
    }

    #[test]
    fn a_wrong_principal_is_refused_without_an_address_too() {
        let wrong = PrincipalSettings { scopes: Vec::new(), ..principal() };
        let config = Config { storefront_principal: Some(wrong), ..Config::default() };
        let (key, what) = config.check_profile_listeners().unwrap_err();
        assert!(key == "storefront_principal" && what.starts_with("storefront_principal.scopes: "), "{what}");
    }

    #[test]
    fn a_listener_for_every_network_is_told() {
        let [warning] = &everywhere().open_listeners().collect::<Vec<_>>()[..] else { panic!("one warning") };
        assert!(warning.contains("0.0.0.0:8111") && warning.contains("allowed_cidrs"), "{warning}");
        let some = PrincipalSettings { allowed_cidrs: Some(vec!["10.0.0.0/8".to_owned()]), ..principal() };
        assert_eq!(Config { hub_principal: Some(some), ..everywhere() }.open_listeners().count(), 0);
        assert_eq!(Config::default().open_listeners().count(), 0);
    }
}
