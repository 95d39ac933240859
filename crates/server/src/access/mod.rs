//! Access control: what a server was configured with, and the state that all workers share. The rules are in
//! [`stockhold_service`]. This module binds them to the store, to the configuration and to HTTP.

mod cross_origin;
mod hosts;
mod issuer_keys;
mod key_table;
mod settings;
mod shared_limits;

pub(crate) use cross_origin::{CrossOrigin, Header};
pub(crate) use hosts::AllowedHosts;
pub(crate) use issuer_keys::IssuerKeysTask;
pub(crate) use key_table::KeyTableTask;
pub(crate) use shared_limits::{SharedLimits, keep_connected};

use std::collections::BTreeMap;
use std::fmt::Display;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, Instant as Monotonic};
use stockhold_api::profiles::Profile;
use stockhold_domain::{Instant, Label};
use stockhold_service::{
    Authenticator, Caller, CheckTime, KeyRecord, ListenerPrincipal, PrincipalKind, RateLimit, RateLimiter,
    RateStatus, TrustedProxies, rate_key,
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
    pub(crate) hosts: AllowedHosts,
    /// The principals of the profiles' own listeners, as far as they are configured.
    profile_principals: BTreeMap<Profile, ListenerPrincipal>,
    limits: RateLimits,
    /// The limits of all instances, if they share them.
    shared: Option<SharedLimits>,
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
        (cross_origin, hosts): (CrossOrigin, AllowedHosts),
        profile_principals: BTreeMap<Profile, ListenerPrincipal>,
        limits: RateLimits,
        shared: Option<SharedLimits>,
    ) -> Self {
        Self {
            authenticator,
            proxies,
            cross_origin,
            hosts,
            profile_principals,
            limits,
            shared,
            principals: RateLimiter::default(),
            addresses: RateLimiter::default(),
            log_lines: RateLimiter::default(),
            begun: Monotonic::now(),
        }
    }

    /// The principal of the listener that serves a profile alone. `None` when its clients need the credentials of the API.
    pub(crate) fn profile_principal(&self, profile: Profile) -> Option<&ListenerPrincipal> {
        self.profile_principals.get(&profile)
    }

    /// Takes a token from the allowance of a caller. `None` when the caller has no limit.
    pub(crate) async fn count_request(&self, caller: &Caller) -> Option<RateVerdict> {
        Some(self.take_of_caller(caller, self.limit_of(caller)?, 1).await)
    }

    /// Takes the tokens of a batch or of a long page beyond the one of its request. It takes the burst at most, so that it is possible
    /// after a rest.
    pub(crate) async fn count_batch(&self, caller: &Caller, tokens: usize) -> Option<RateVerdict> {
        let limit = self.limit_of(caller)?;
        let all = u32::try_from(tokens).unwrap_or(u32::MAX).min(limit.burst());
        Some(self.take_of_caller(caller, limit, all.saturating_sub(1)).await)
    }

    async fn take_of_caller(&self, caller: &Caller, limit: RateLimit, tokens: u32) -> RateVerdict {
        self.take("principal", &self.principals, caller.principal.actor.clone(), limit, tokens).await
    }

    /// Takes tokens from the allowance of a caller: in Redis if limits are shared there and Redis answers, and in memory otherwise.
    async fn take<K: Hash + Eq + Display>(
        &self,
        policy: &'static str,
        table: &RateLimiter<K>,
        caller: K,
        limit: RateLimit,
        tokens: u32,
    ) -> RateVerdict {
        let status = match &self.shared {
            None => table.take(caller, limit, tokens, self.now()),
            // Boxed, so that requests without a shared limit are not larger for it.
            Some(shared) => Box::pin(self.take_shared(shared, policy, table, caller, limit, tokens)).await,
        };
        RateVerdict { policy, limit, status }
    }

    async fn take_shared<K: Hash + Eq + Display>(
        &self,
        shared: &SharedLimits,
        policy: &'static str,
        table: &RateLimiter<K>,
        caller: K,
        limit: RateLimit,
        tokens: u32,
    ) -> RateStatus {
        // The table has what Redis said last. A caller without an allowance there has none in Redis, so a flood of requests ends here.
        if let Some(refused) = table.refusal(&caller, limit, tokens, self.now()) {
            return refused;
        }
        match shared.take(&format!("stockhold:rate:{policy}:{caller}"), limit, tokens).await {
            Some(status) => {
                table.raise(caller, status.reset_after, self.now());
                status
            }
            None => table.take(caller, limit, tokens, self.now()),
        }
    }

    fn limit_of(&self, caller: &Caller) -> Option<RateLimit> {
        match caller.principal.kind {
            PrincipalKind::Root | PrincipalKind::Anonymous | PrincipalKind::System => None,
            PrincipalKind::Key(_) | PrincipalKind::Jwt | PrincipalKind::Hold(_) | PrincipalKind::Listener => {
                caller.rate_limit.or(self.limits.principal)
            }
        }
    }

    /// Takes a token from the allowance of an address, for a refused credential or a request that needs none. `None` when the address
    /// is not limited.
    pub(crate) async fn count_address(&self, client: IpAddr) -> Option<RateVerdict> {
        Some(self.take_of_address(client, self.limit_of_address(client)?, 1).await)
    }

    /// Whether an address has used up its allowance of refused credentials.
    pub(crate) async fn is_exhausted(&self, client: IpAddr) -> bool {
        let Some(limit) = self.limit_of_address(client) else { return false };
        // The table is asked first, so that a flood of guesses does not reach Redis.
        self.addresses.refusal(&rate_key(client), limit, 1, self.now()).is_some()
            || self.take_of_address(client, limit, 0).await.status.remaining == 0
    }

    /// The limit of addresses. Callers on this machine have none, unless a proxy tells their addresses.
    fn limit_of_address(&self, client: IpAddr) -> Option<RateLimit> {
        (!client.is_loopback() || !self.proxies.is_empty()).then_some(self.limits.address)
    }

    async fn take_of_address(&self, client: IpAddr, limit: RateLimit, tokens: u32) -> RateVerdict {
        self.take("address", &self.addresses, rate_key(client), limit, tokens).await
    }

    /// The network that bounds by address count for. `None` for an address that many callers share: this machine, or a trusted proxy.
    pub(crate) fn counted_network(&self, address: IpAddr) -> Option<IpAddr> {
        self.proxies.counted_network(address)
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

    /// When a credential is checked, with the wall time of the request.
    pub(crate) fn check_time(&self, wall: Instant) -> CheckTime {
        CheckTime { wall, steady: self.now() }
    }

    /// Adds or replaces an API key, as it is now.
    pub(crate) fn add_key(&self, record: KeyRecord) {
        self.authenticator.add_key(record, self.now());
    }

    /// The time since the start, by a clock that never steps.
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}
