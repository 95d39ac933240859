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

/// How many lines a second the log gets about all refused credentials.
const ALL_LOG_LINES_PER_SECOND: u32 = 10;

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

    /// Takes a token from the allowance of a caller. `None` when the caller has no limit.
    pub(crate) fn count_request(&self, caller: &Caller) -> Option<RateVerdict> {
        Some(self.take_of_caller(caller, self.limit_of(caller)?, 1))
    }

    /// Takes the tokens of a batch beyond the one of its request. A batch takes the burst at most, so that it is possible
    /// after a rest.
    pub(crate) fn count_batch(&self, caller: &Caller, commands: usize) -> Option<RateVerdict> {
        let limit = self.limit_of(caller)?;
        let all = u32::try_from(commands).unwrap_or(u32::MAX).min(limit.burst());
        Some(self.take_of_caller(caller, limit, all.saturating_sub(1)))
    }

    fn take_of_caller(&self, caller: &Caller, limit: RateLimit, tokens: u32) -> RateVerdict {
        let status = self.principals.take(caller.principal.actor.clone(), limit, tokens, self.now());
        RateVerdict { policy: "principal", limit, status }
    }

    fn limit_of(&self, caller: &Caller) -> Option<RateLimit> {
        match caller.principal.kind {
            PrincipalKind::Root | PrincipalKind::Anonymous | PrincipalKind::System => None,
            PrincipalKind::Key(_) | PrincipalKind::Jwt | PrincipalKind::Hold(_) => {
                caller.rate_limit.or(self.limits.principal)
            }
        }
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
        let may = |subject: &str, per_second: u32| {
            let limit = RateLimit::new(per_second, per_second);
            limit.is_ok_and(|limit| self.log_lines.take(subject.to_owned(), limit, 1, self.now()).allowed)
        };
        // No key id and no issuer is empty.
        may(subject, LOG_LINES_PER_SECOND) && may("", ALL_LOG_LINES_PER_SECOND)
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}
