//! Access control as it is configured.

use super::{Access, AllowedHosts, CrossOrigin, RateLimits, SharedLimits};
use std::collections::BTreeMap;
use std::time::Duration;
use stockhold_api::profiles::Profile;
use stockhold_config::{Config, IssuerSettings};
use stockhold_service::{Authenticator, Issuer};

impl Access {
    /// Access control as it is configured, without the API keys of the store so far. An error is a text for the operator.
    pub(crate) fn from_config(config: &Config) -> Result<Self, String> {
        let settings = &config.access;
        let issuers = settings.issuers.iter().map(issuer).collect::<Result<Vec<_>, String>>()?;
        let authenticator = Authenticator::new(settings.read_root_key()?, issuers);
        let proxies = settings.proxies().map_err(|(_, what)| what)?;
        let cross_origin = CrossOrigin::new(&settings.allowed_origins)
            .map_err(|error| format!("allowed_origins: {error}"))?;
        let hosts =
            AllowedHosts::new(&settings.allowed_hosts).map_err(|error| format!("allowed_hosts: {error}"))?;
        let limits = RateLimits {
            principal: settings.rate_limits.principal.map(stockhold_config::Rate::to_limit).transpose()?,
            address: settings.rate_limits.address.to_limit()?,
        };
        let redis = settings.rate_limits.redis.as_ref();
        let redis_timeout = Duration::from_millis(settings.rate_limits.redis_timeout_ms);
        let shared = redis.map(|url| SharedLimits::new(url.expose(), redis_timeout)).transpose()?;
        let principals = [
            (Profile::Hub, "hub_principal", &config.hub_principal),
            (Profile::Storefront, "storefront_principal", &config.storefront_principal),
        ];
        let mut profile_principals = BTreeMap::new();
        for (profile, key, principal) in principals {
            if let Some(principal) = principal {
                profile_principals.insert(profile, principal.to_principal(key)?);
            }
        }
        Ok(Self::new(authenticator, proxies, (cross_origin, hosts), profile_principals, limits, shared))
    }
}

/// An issuer with the keys of its file. The keys of an address are fetched later.
fn issuer(settings: &IssuerSettings) -> Result<Issuer, String> {
    let name = &settings.issuer;
    let issuer = Issuer::new(settings.to_config()).map_err(|error| format!("issuers: {name:?}: {error}"))?;
    let read = |file: &std::path::Path| {
        std::fs::read(file).map_err(|error| format!("issuers: {name:?}: {}: {error}", file.display()))
    };
    if let Some(file) = &settings.jwks_file {
        issuer
            .set_jwks(&read(file)?)
            .map_err(|error| format!("issuers: {name:?}: {} {error}", file.display()))?;
    }
    if let Some(file) = &settings.public_key_file {
        issuer
            .set_public_key(&read(file)?)
            .map_err(|error| format!("issuers: {name:?}: {} {error}", file.display()))?;
    }
    Ok(issuer)
}
