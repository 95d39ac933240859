//! Rate limits: the generic cell rate algorithm (GCRA), a leaky bucket that keeps one instant for each caller.
//!
//! A caller may send `burst` requests at once, and `per_second` requests a second over time. The table of callers is bounded:
//! the least recently used one is forgotten. A forgotten caller starts with a full burst again.
//!
//! The same arithmetic may be done elsewhere, for limits that several instances share. [`RateLimit::cost`],
//! [`RateLimit::tolerance`] and [`RateLimit::status`] are for that, and [`RateLimiter::raise`] takes over what was found there.

use lru::LruCache;
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

/// Callers that one table remembers.
pub const MAX_TRACKED_CALLERS: usize = 65_536;
/// Highest rate, in requests a second, and longest burst, in requests, that can be configured.
pub const MAX_RATE: u32 = 1_000_000;
const NANOS: u64 = 1_000_000_000;

/// How often a caller may send requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Nanoseconds between two requests at the steady rate.
    interval: u64,
    burst: u32,
}

/// Why a limit can't be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLimitError {
    /// `per_second` is not 1 to 1,000,000; the value found.
    PerSecond(u32),
    /// `burst` is not 1 to 1,000,000; the value found.
    Burst(u32),
}

impl fmt::Display for RateLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, found) = match self {
            Self::PerSecond(found) => ("per_second", found),
            Self::Burst(found) => ("burst", found),
        };
        write!(f, "{name} must be a whole number from 1 to {MAX_RATE}, found {found}")
    }
}

impl std::error::Error for RateLimitError {}

impl From<RateLimitError> for io::Error {
    fn from(error: RateLimitError) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}

impl RateLimit {
    /// A limit of so many requests a second, and so many at once.
    pub fn new(per_second: u32, burst: u32) -> Result<Self, RateLimitError> {
        if !(1..=MAX_RATE).contains(&per_second) {
            return Err(RateLimitError::PerSecond(per_second));
        }
        if !(1..=MAX_RATE).contains(&burst) {
            return Err(RateLimitError::Burst(burst));
        }
        Ok(Self { interval: NANOS / u64::from(per_second), burst })
    }

    /// Most requests at once.
    pub const fn burst(self) -> u32 {
        self.burst
    }

    /// The time in which a caller that sends at the steady rate may send a burst's worth of requests, in whole seconds.
    pub fn window_seconds(self) -> u64 {
        self.tolerance().div_ceil(NANOS).max(1)
    }

    /// What so many tokens cost, in nanoseconds. More tokens than the burst cost as much as the burst.
    pub fn cost(self, tokens: u32) -> u64 {
        self.interval * u64::from(tokens.min(self.burst))
    }

    /// What a whole burst costs, in nanoseconds: at most 10¹⁵.
    pub fn tolerance(self) -> u64 {
        self.cost(self.burst)
    }

    /// The status after a decision about a request that costs `cost`. `used` are the nanoseconds until the caller has its whole
    /// burst again, after the decision.
    pub fn status(self, allowed: bool, used: u64, cost: u64) -> RateStatus {
        let tolerance = self.tolerance();
        let wait = if allowed { 0 } else { used.saturating_add(cost).saturating_sub(tolerance) };
        RateStatus {
            allowed,
            remaining: u32::try_from(tolerance.saturating_sub(used) / self.interval).unwrap_or(u32::MAX),
            retry_after: Duration::from_nanos(wait),
            reset_after: Duration::from_nanos(used),
        }
    }
}

/// What a table answers for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStatus {
    /// Whether the request may go on.
    pub allowed: bool,
    /// Requests that the caller may still send at once.
    pub remaining: u32,
    /// How long until this request would be allowed; zero if it is.
    pub retry_after: Duration,
    /// How long until the caller has its whole burst again.
    pub reset_after: Duration,
}

/// The rates of many callers, each known by a `K`.
pub struct RateLimiter<K: Hash + Eq> {
    /// The instant at which each caller has its whole burst again, in nanoseconds of the clock that the calls bring.
    full_at: Mutex<LruCache<K, u64>>,
}

impl<K: Hash + Eq> Default for RateLimiter<K> {
    fn default() -> Self {
        let capacity = NonZeroUsize::new(MAX_TRACKED_CALLERS).unwrap_or(NonZeroUsize::MIN);
        Self { full_at: Mutex::new(LruCache::new(capacity)) }
    }
}

impl<K: Hash + Eq> RateLimiter<K> {
    /// Takes `tokens` from a caller's allowance at the instant `now`, or none if there are too few. More tokens than the
    /// burst are taken as the whole burst, so that a large request is possible after a rest. `now` is the time of a monotonic
    /// clock since its start.
    pub fn take(&self, caller: K, limit: RateLimit, tokens: u32, now: Duration) -> RateStatus {
        let now = nanos(now);
        let cost = limit.cost(tokens);
        let mut table = self.table();
        let full_at = table.get_or_insert_mut(caller, || now);
        let before = (*full_at).max(now);
        let after = before.saturating_add(cost);
        let allowed = after.saturating_sub(now) <= limit.tolerance();
        if allowed {
            *full_at = after;
        }
        let used = if allowed { after } else { before }.saturating_sub(now);
        limit.status(allowed, used, cost)
    }

    /// The refusal of a request for `tokens`, if the caller has fewer of them. Takes none.
    pub fn refusal(&self, caller: &K, limit: RateLimit, tokens: u32, now: Duration) -> Option<RateStatus> {
        let cost = limit.cost(tokens);
        let used = self.table().get(caller)?.saturating_sub(nanos(now));
        (used.saturating_add(cost) > limit.tolerance()).then(|| limit.status(false, used, cost))
    }

    /// Raises what a caller has used so far, because other instances have counted more: its whole burst is back after `reset_after`
    /// at the earliest.
    pub fn raise(&self, caller: K, reset_after: Duration, now: Duration) {
        let full_at = nanos(now).saturating_add(nanos(reset_after));
        let mut table = self.table();
        let known = table.get_or_insert_mut(caller, || full_at);
        *known = full_at.max(*known);
    }

    /// Callers that are remembered.
    pub fn tracked(&self) -> usize {
        self.table().len()
    }

    fn table(&self) -> MutexGuard<'_, LruCache<K, u64>> {
        self.full_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl<K: Hash + Eq> fmt::Debug for RateLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter").field("tracked", &self.tracked()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn limit(per_second: u32, burst: u32) -> RateLimit {
        RateLimit::new(per_second, burst).unwrap()
    }

    #[test]
    fn a_burst_and_then_the_steady_rate() {
        let (limiter, limit) = (RateLimiter::default(), limit(10, 20));
        for n in 0..20 {
            let status = limiter.take("a", limit, 1, millis(5_000));
            assert_eq!((status.allowed, status.remaining), (true, 19 - n));
        }
        let refused = limiter.take("a", limit, 1, millis(5_000));
        assert_eq!((refused.allowed, refused.remaining), (false, 0));
        assert_eq!((refused.retry_after, refused.reset_after), (millis(100), millis(2_000)));
        // Refused requests cost nothing.
        assert!(!limiter.take("a", limit, 1, millis(5_099)).allowed);
        assert!(limiter.take("a", limit, 1, millis(5_100)).allowed);
        assert!(!limiter.take("a", limit, 1, millis(5_100)).allowed);
        // Over ten seconds the caller gets ten a second, however often it asks.
        let allowed =
            (0..10_000).filter(|ms| limiter.take("a", limit, 1, millis(5_101 + ms)).allowed).count();
        assert_eq!(allowed, 100);
    }

    #[test]
    fn callers_do_not_share() {
        let (limiter, limit) = (RateLimiter::default(), limit(1, 1));
        assert!(limiter.take("a", limit, 1, millis(0)).allowed);
        assert!(!limiter.take("a", limit, 1, millis(0)).allowed);
        assert!(limiter.take("b", limit, 1, millis(0)).allowed);
    }

    #[test]
    fn many_tokens_at_once() {
        let (limiter, limit) = (RateLimiter::default(), limit(10, 20));
        assert_eq!(limiter.take("a", limit, 15, millis(0)).remaining, 5);
        let refused = limiter.take("a", limit, 15, millis(0));
        assert_eq!((refused.allowed, refused.remaining, refused.retry_after), (false, 5, millis(1_000)));
        // More than the burst is the burst: possible after a rest.
        assert!(!limiter.take("a", limit, 1_000, millis(1_499)).allowed);
        assert!(limiter.take("a", limit, 1_000, millis(1_500)).allowed);
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_least_recently_used() {
        let (limiter, limit) = (RateLimiter::default(), limit(1, 1));
        let count = u32::try_from(MAX_TRACKED_CALLERS).unwrap();
        for caller in 0..count {
            assert!(limiter.take(caller, limit, 1, millis(0)).allowed);
        }
        // Caller 0 is used again, so caller 1 is the one that goes.
        assert!(!limiter.take(0, limit, 1, millis(0)).allowed);
        assert!(limiter.take(count, limit, 1, millis(0)).allowed);
        assert_eq!(limiter.tracked(), MAX_TRACKED_CALLERS);
        assert!(!limiter.take(0, limit, 1, millis(0)).allowed);
        assert!(limiter.take(1, limit, 1, millis(0)).allowed);
    }

    #[test]
    fn a_clock_that_goes_back_lets_nobody_pass_twice() {
        let (limiter, limit) = (RateLimiter::default(), limit(1, 1));
        assert!(limiter.take("a", limit, 1, millis(10_000)).allowed);
        assert!(!limiter.take("a", limit, 1, millis(0)).allowed);
        assert!(limiter.take("a", limit, 1, millis(11_000)).allowed);
    }

    #[test]
    fn a_refusal_is_foretold_and_takes_nothing() {
        let (limiter, limit) = (RateLimiter::default(), limit(10, 20));
        assert_eq!(limiter.refusal(&"a", limit, 1, millis(0)), None, "an unknown caller has its whole burst");
        limiter.take("a", limit, 18, millis(0));
        assert_eq!(limiter.refusal(&"a", limit, 2, millis(0)), None);
        let foretold = limiter.refusal(&"a", limit, 3, millis(0)).unwrap();
        assert_eq!(foretold, limiter.take("a", limit, 3, millis(0)));
        assert_eq!((foretold.allowed, foretold.remaining), (false, 2));
    }

    #[test]
    fn what_others_have_counted_is_never_lowered() {
        let (limiter, limit) = (RateLimiter::default(), limit(10, 20));
        limiter.raise("a", millis(1_500), millis(0));
        assert_eq!(limiter.take("a", limit, 0, millis(0)).remaining, 5);
        limiter.raise("a", millis(100), millis(0));
        assert_eq!(limiter.take("a", limit, 0, millis(0)).remaining, 5);
        limiter.raise("a", millis(2_000), millis(0));
        assert!(!limiter.take("a", limit, 1, millis(99)).allowed);
        assert!(limiter.take("a", limit, 1, millis(100)).allowed);
    }

    #[test]
    fn bounds_of_the_configuration() {
        assert_eq!(RateLimit::new(0, 1), Err(RateLimitError::PerSecond(0)));
        assert_eq!(RateLimit::new(1, 0), Err(RateLimitError::Burst(0)));
        assert_eq!(RateLimit::new(1, MAX_RATE + 1), Err(RateLimitError::Burst(MAX_RATE + 1)));
        assert_eq!(limit(10, 20).window_seconds(), 2);
        assert_eq!(limit(1_000_000, 1).window_seconds(), 1);
        // The largest limit does not overflow.
        let largest = limit(1, MAX_RATE);
        assert!(RateLimiter::default().take((), largest, MAX_RATE, Duration::from_secs(1 << 30)).allowed);
    }
}
