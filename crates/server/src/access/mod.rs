//! Access control: what a server was configured with, and the state that all workers share. The rules are in
//! [`stockhold_service`]. This module binds them to the store, to the configuration and to HTTP.

mod cross_origin;
mod issuer_keys;
mod key_table;
mod settings;
mod store_call;

pub(crate) use cross_origin::{CrossOrigin, Header};
pub(crate) use issuer_keys::IssuerKeysTask;
pub(crate) use key_table::KeyTableTask;

use std::net::IpAddr;
use std::time::{Duration, Instant as Monotonic};
use stockhold_domain::Label;
use stockhold_service::{
    Authenticator, Caller, PrincipalKind, RateLimit, RateLimiter, RateStatus, TrustedProxies, rate_key,
};

/// How many lines a second the log gets about one refused credential.
const LOG_LINES_PER_SECOND: u32 = 1;

/// Access control, shared by all workers.
pub(crate) struct Access {
    pub(crate) authenticator: Authenticator,
    pub(crate) proxies: TrustedProxies,
    pub(crate) cross_origin: CrossOrigin,
    limits: RateLimits,
    /// By actor.
    principals: RateLimiter<Label>,
    /// By address. IPv6 addresses count by network.
    addresses: RateLimiter<IpAddr>,
    /// By key id or issuer.
    log_lines: RateLimiter<String>,
    begun: Monotonic,
}

/// The configured rate limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimits {
    /// Of every principal whose credential has no limit of its own.
    pub(crate) principal: Option<RateLimit>,
    /// Of requests with a refused credential or with none, by address.
    pub(crate) address: RateLimit,
}

/// A limit, and what it said about a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateVerdict {
    /// The limit's name in `RateLimit` headers.
    pub(crate) policy: &'static str,
    pub(crate) limit: RateLimit,
    pub(crate) status: RateStatus,
}

impl Access {
    pub(crate) fn new(
        authenticator: Authenticator,
        proxies: TrustedProxies,
        cross_origin: CrossOrigin,
        limits: RateLimits,
    ) -> Self {
        Self {
            authenticator,
            proxies,
            cross_origin,
            limits,
            principals: RateLimiter::default(),
            addresses: RateLimiter::default(),
            log_lines: RateLimiter::default(),
            begun: Monotonic::now(),
        }
    }

    /// Takes tokens from the allowance of a caller. `None` when the caller has no limit.
    pub(crate) fn count_request(&self, caller: &Caller, tokens: u32) -> Option<RateVerdict> {
        let limit = match caller.principal.kind {
            PrincipalKind::Root | PrincipalKind::Anonymous | PrincipalKind::System => return None,
            PrincipalKind::Key(_) | PrincipalKind::Jwt | PrincipalKind::Hold(_) => {
                caller.rate_limit.or(self.limits.principal)?
            }
        };
        let status = self.principals.take(caller.principal.actor.clone(), limit, tokens, self.now());
        Some(RateVerdict { policy: "principal", limit, status })
    }

    /// Takes a token from the allowance of an address whose credential was refused. `None` when addresses are not
    /// limited: for callers on this machine, unless a proxy tells their addresses.
    pub(crate) fn count_refusal(&self, client: IpAddr) -> Option<RateVerdict> {
        self.take_of_address(client, 1)
    }

    /// Whether an address has used up its allowance of refused credentials.
    pub(crate) fn is_exhausted(&self, client: IpAddr) -> bool {
        self.take_of_address(client, 0).is_some_and(|verdict| verdict.status.remaining == 0)
    }

    fn take_of_address(&self, client: IpAddr, tokens: u32) -> Option<RateVerdict> {
        if client.is_loopback() && self.proxies.is_empty() {
            return None;
        }
        let limit = self.limits.address;
        let status = self.addresses.take(rate_key(client), limit, tokens, self.now());
        Some(RateVerdict { policy: "address", limit, status })
    }

    /// Whether the log may get another line about this key id or issuer.
    pub(crate) fn may_log(&self, subject: &str) -> bool {
        let once = RateLimit::new(LOG_LINES_PER_SECOND, 1);
        once.is_ok_and(|limit| self.log_lines.take(subject.to_owned(), limit, 1, self.now()).allowed)
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}
