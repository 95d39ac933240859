//! Settings of access control: credentials, browsers' origins, proxies and rate limits.

use crate::secret::SecretText;
use serde::Serialize;
use std::path::PathBuf;
use stockhold_service::{
    ForwardedHeader, IssuerConfig, ListenerPrincipal, ListenerPrincipalSpec, MIN_ROOT_KEY_CHARS, RateLimit,
    RootKey, TrustedProxies,
};

/// Rate of an address without a good credential, in requests a second.
pub(crate) const ADDRESS_PER_SECOND: u32 = 10;
/// Requests that an address without a good credential may send at once.
pub(crate) const ADDRESS_BURST: u32 = 20;

/// Settings of access control.
#[derive(Clone, Debug, Serialize)]
pub struct AccessSettings {
    /// The root key, which has every scope.
    pub root_key: Option<SecretText>,
    /// File with the root key.
    pub root_key_file: Option<PathBuf>,
    /// Origins whose pages may call the API from a browser.
    pub allowed_origins: Vec<String>,
    /// Names under which callers without a credential may reach the server, besides addresses and `localhost`.
    pub allowed_hosts: Vec<String>,
    /// Networks of proxies whose forwarding header is believed.
    pub trusted_proxies: Vec<String>,
    /// The forwarding header of those proxies: `x-forwarded-for` or `forwarded`.
    pub forwarded_header: String,
    /// Issuers of tokens (JWT).
    pub issuers: Vec<IssuerSettings>,
    /// Rate limits.
    pub rate_limits: RateLimitSettings,
}

/// An issuer of tokens (JWT).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IssuerSettings {
    /// The claim `iss` of its tokens.
    pub issuer: String,
    /// What the claim `aud` has to be or contain.
    pub audience: String,
    /// Signature algorithms.
    pub algorithms: Vec<String>,
    /// Address of its JWK set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_url: Option<String>,
    /// File with its JWK set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
    /// File with its public key in PEM form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key_file: Option<PathBuf>,
    /// The claim with the scopes.
    pub scopes_claim: String,
    /// The claim with the caller's name.
    pub principal_claim: String,
    /// The claim with the locations that the caller may see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locations_claim: Option<String>,
}

/// [`RateLimitSettings::redis_timeout_ms`] unless it is configured: several round trips in one network.
const REDIS_TIMEOUT_MS: u64 = 20;
/// A longer wait would hold up every request.
const LONGEST_REDIS_TIMEOUT_MS: u64 = 10_000;

/// Rate limits.
#[derive(Clone, Debug, Serialize)]
pub struct RateLimitSettings {
    /// Of every principal whose credential has no limit of its own.
    pub principal: Option<Rate>,
    /// Of requests without a good credential, by address.
    pub address: Rate,
    /// Address of the Redis server in which instances share the limits. It may have a password.
    pub redis: Option<SecretText>,
    /// Longest wait for an answer of that server, in milliseconds. A check that gets none is decided in memory.
    pub redis_timeout_ms: u64,
}

/// A rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// Requests a second over time, 1 to 1,000,000.
    pub per_second: u32,
    /// Requests at once, 1 to 1,000,000.
    pub burst: u32,
}

/// The principal of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PrincipalSettings {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// The locations that it may see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locations: Option<Vec<String>>,
    /// The networks of its clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_cidrs: Option<Vec<String>>,
}

impl PrincipalSettings {
    /// The principal. An error begins with the setting and the member that it is about.
    pub fn to_principal(&self, key: &str) -> Result<ListenerPrincipal, String> {
        let spec = ListenerPrincipalSpec {
            name: self.name.clone(),
            scopes: self.scopes.clone(),
            locations: self.locations.clone(),
            allowed_cidrs: self.allowed_cidrs.clone(),
        };
        ListenerPrincipal::new(&spec).map_err(|(member, what)| format!("{key}.{member}: {what}"))
    }
}

impl Default for AccessSettings {
    fn default() -> Self {
        Self {
            root_key: None,
            root_key_file: None,
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            trusted_proxies: Vec::new(),
            forwarded_header: ForwardedHeader::XForwardedFor.name().to_owned(),
            issuers: Vec::new(),
            rate_limits: RateLimitSettings {
                principal: None,
                address: Rate { per_second: ADDRESS_PER_SECOND, burst: ADDRESS_BURST },
                redis: None,
                redis_timeout_ms: REDIS_TIMEOUT_MS,
            },
        }
    }
}

impl IssuerSettings {
    /// The claim with the scopes, if none is configured.
    pub(crate) const SCOPES_CLAIM: &'static str = "scope";
    /// The claim with the caller's name, if none is configured.
    pub(crate) const PRINCIPAL_CLAIM: &'static str = "sub";

    /// What tokens of the issuer are checked with.
    pub fn to_config(&self) -> IssuerConfig {
        IssuerConfig {
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
            algorithms: self.algorithms.clone(),
            scopes_claim: self.scopes_claim.clone(),
            principal_claim: self.principal_claim.clone(),
            locations_claim: self.locations_claim.clone(),
        }
    }

    fn check(&self) -> Result<(), String> {
        let sources = [self.jwks_url.is_some(), self.jwks_file.is_some(), self.public_key_file.is_some()];
        if sources.into_iter().filter(|is_set| *is_set).count() != 1 {
            return Err("needs exactly one of jwks_url, jwks_file and public_key_file".to_owned());
        }
        if let Some(url) = &self.jwks_url {
            check_jwks_url(url)?;
        }
        stockhold_service::Issuer::new(self.to_config()).map(drop).map_err(|error| error.to_string())
    }
}

/// Keys that anybody on the way could replace are no keys, so `http` is for this machine only. An error repeats nothing of the address,
/// because it may have a password.
fn check_jwks_url(url: &str) -> Result<(), &'static str> {
    let authority = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    if authority.is_some_and(|authority| authority.contains('@')) {
        return Err("jwks_url must have no user and no password: a set of public keys is no secret");
    }
    let is_loopback = ["http://127.0.0.1", "http://localhost", "http://[::1]"].iter().any(|start| {
        url.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
    });
    if url.starts_with("https://") || is_loopback {
        return Ok(());
    }
    Err("jwks_url must begin with https:// (http:// is allowed for 127.0.0.1, localhost and [::1] only)")
}

/// Checks the address of a Redis server. An error repeats nothing of it, because it may have a password.
fn check_redis_url(url: &str) -> Result<(), &'static str> {
    const FORM: &str = "must be like redis://USER:PASSWORD@HOST:PORT/DATABASE or, with TLS, rediss://USER:PASSWORD@HOST:PORT/DATABASE";
    let is_tcp = ["redis://", "rediss://"].iter().any(|scheme| url.starts_with(scheme));
    // A fragment would turn the check of certificates off.
    if is_tcp && !url.contains('#') && redis::Client::open(url).is_ok() { Ok(()) } else { Err(FORM) }
}

impl Rate {
    /// The limit.
    pub fn to_limit(self) -> Result<RateLimit, String> {
        RateLimit::new(self.per_second, self.burst).map_err(|error| error.to_string())
    }
}

impl AccessSettings {
    /// Whether the configuration has a credential. There may be API keys in the store besides.
    pub fn has_credentials(&self) -> bool {
        self.root_key.is_some() || self.root_key_file.is_some() || !self.issuers.is_empty()
    }

    /// The root key, from its file if it has one.
    pub fn read_root_key(&self) -> Result<Option<RootKey>, String> {
        let text = match (&self.root_key, &self.root_key_file) {
            (Some(text), _) => text.expose().to_owned(),
            (None, Some(file)) => std::fs::read_to_string(file)
                .map_err(|error| format!("root_key_file {}: {error}", file.display()))?,
            (None, None) => return Ok(None),
        };
        let name = if self.root_key.is_some() { "root_key" } else { "root_key_file" };
        RootKey::new(&text).map(Some).map_err(|error| format!("{name}: {error}"))
    }

    /// The proxies whose forwarding header is believed.
    pub fn proxies(&self) -> Result<TrustedProxies, (&'static str, String)> {
        let header = ForwardedHeader::from_name(&self.forwarded_header).ok_or_else(|| {
            let names =
                [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded].map(ForwardedHeader::name);
            let what = format!(
                "forwarded_header: must be {}, found {:?}",
                names.join(" or "),
                self.forwarded_header
            );
            ("forwarded_header", what)
        })?;
        TrustedProxies::new(&self.trusted_proxies, header)
            .map_err(|error| ("trusted_proxies", format!("trusted_proxies: {error}")))
    }

    /// Checks everything but files. An error has the key that it is about.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.root_key.is_some() && self.root_key_file.is_some() {
            return Err((
                "root_key_file",
                "root_key and root_key_file are both set: give one of them".to_owned(),
            ));
        }
        if let Some(text) = &self.root_key {
            RootKey::new(text.expose()).map_err(|error| ("root_key", format!("root_key: {error}")))?;
        }
        self.proxies()?;
        for issuer in &self.issuers {
            issuer.check().map_err(|what| ("issuers", format!("issuers: {:?}: {what}", issuer.issuer)))?;
        }
        let names: std::collections::BTreeSet<_> = self.issuers.iter().map(|issuer| &issuer.issuer).collect();
        if names.len() < self.issuers.len() {
            return Err(("issuers", "issuers: two have the same name".to_owned()));
        }
        let limits = &self.rate_limits;
        for (name, rate) in [("principal", limits.principal), ("address", Some(limits.address))] {
            if let Some(rate) = rate {
                rate.to_limit().map_err(|what| ("rate_limits", format!("rate_limits.{name}: {what}")))?;
            }
        }
        let (timeout, most) = (limits.redis_timeout_ms, LONGEST_REDIS_TIMEOUT_MS);
        if !(1..=most).contains(&timeout) {
            let what = format!("rate_limits.redis_timeout_ms {timeout}: must be 1 to {most}");
            return Err(("rate_limits", what));
        }
        if let Some(url) = &limits.redis {
            check_redis_url(url.expose())
                .map_err(|what| ("rate_limits", format!("rate_limits.redis: {what}")))?;
        }
        Ok(())
    }
}

/// The advice for a server without credentials that everybody could reach.
pub fn credentials_hint() -> String {
    format!(
        "set STOCKHOLD_ROOT_KEY to a secret of at least {MIN_ROOT_KEY_CHARS} characters (openssl rand -hex 32), and make API keys with it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_redis_servers() {
        for url in [
            "redis://cache",
            "redis://127.0.0.1:6379/3",
            "redis://:hunter2@[::1]:6379",
            "redis://shop:hunter%2F2@cache.internal:6380/0?protocol=resp3",
            "rediss://shop:hunter2@cache.internal",
        ] {
            assert_eq!(check_redis_url(url), Ok(()), "{url}");
        }
        for url in [
            "",
            "cache:6379",
            "http://cache",
            "redis+unix:///run/redis.sock",
            "redis://",
            "redis://cache:port",
            "redis://:hunter/2@cache",
            "redis://cache/hunter2",
            "rediss://cache#insecure",
        ] {
            let what = check_redis_url(url).unwrap_err();
            assert!(!what.contains("hunter"), "{what}");
        }
    }
}
