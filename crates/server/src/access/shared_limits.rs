//! Rate limits that instances share in Redis.
//!
//! A check is one script that does the arithmetic of [`stockhold_service::RateLimiter`] on the Redis server, with that server's
//! clock. The request waits for the answer as it waits for the store: it is parked, and its worker's thread serves other requests
//! meanwhile. All workers use one connection, whose requests are pipelined, so a check adds one round trip and no limit on
//! throughput. An allowance that an instance fetches in advance would save the round trip, and would make limits inexact: the tokens
//! that one instance holds are missing at the others.
//!
//! Redis never decides whether a request is served at all. A check that has no answer in time is decided in memory.
//! After [`MAX_FAILURES`] of them in a row nobody asks Redis until the task has connected again, which it tries once in
//! [`RECONNECT_PAUSE`]. No request ever waits for a connection.
//!
//! The address of Redis may have a password. It is in no error, log line or metric.

use super::Access;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Script};
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stockhold_service::{RateLimit, RateStatus};
use tokio::sync::watch;
use tokio::time::timeout;

/// Failed checks in a row after which Redis counts as away.
const MAX_FAILURES: u32 = 5;
/// Pause after Redis went away and after each try to connect that failed.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Longest time of one try to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

const CONNECTED: &str = "stockhold_rate_limits_shared";
const FAILURES: &str = "stockhold_rate_limit_failures_total";

/// Rate limits in Redis, shared by all workers.
pub(crate) struct SharedLimits {
    client: Client,
    script: Script,
    /// Longest wait of a request for a check.
    timeout: Duration,
    /// The connection, while Redis decides.
    connection: watch::Sender<Option<MultiplexedConnection>>,
    /// Failed checks since the last good one.
    failures: AtomicU32,
}

impl SharedLimits {
    /// Limits in the Redis server with this address. It connects to nothing yet.
    pub(crate) fn new(url: &str, timeout: Duration) -> Result<Self, String> {
        metrics::describe_gauge!(
            CONNECTED,
            "1 while rate limits are shared in Redis, 0 while each instance counts by itself because Redis is away"
        );
        metrics::describe_counter!(
            FAILURES,
            format!(
                "Checks of a rate limit that Redis did not answer within {} ms, or answered with an error",
                timeout.as_millis()
            )
        );
        metrics::gauge!(CONNECTED).set(0.0);
        metrics::counter!(FAILURES).increment(0);
        Ok(Self {
            client: Client::open(url)
                .map_err(|_| "rate_limits.redis: is no address of a Redis server".to_owned())?,
            script: Script::new(include_str!("rate_limit.lua")),
            timeout,
            connection: watch::Sender::new(None),
            failures: AtomicU32::new(0),
        })
    }

    /// Takes tokens from the allowance of a caller. `None` if Redis does not decide.
    pub(crate) async fn take(&self, caller: &str, limit: RateLimit, tokens: u32) -> Option<RateStatus> {
        let mut connection = self.connection.borrow().clone()?;
        let cost = limit.cost(tokens);
        let mut check = self.script.key(caller);
        check.arg(cost).arg(limit.tolerance());
        let answer = timeout(self.timeout, check.invoke_async::<(bool, u64)>(&mut connection)).await;
        match answer {
            Ok(Ok((allowed, used))) => {
                // Most checks find a zero, and then the workers do not take the counter from each other.
                if self.failures.load(Ordering::Relaxed) != 0 {
                    self.failures.store(0, Ordering::Relaxed);
                }
                Some(limit.status(allowed, used, cost))
            }
            Ok(Err(error)) => self.failed(&error.to_string()),
            Err(_) => self.failed(&no_answer_within(self.timeout)),
        }
    }

    /// Counts a failed check. After too many in a row, Redis decides no more.
    fn failed<T>(&self, why: &str) -> Option<T> {
        metrics::counter!(FAILURES).increment(1);
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures >= MAX_FAILURES && self.connection.send_replace(None).is_some() {
            log_away(why);
        }
        None
    }

    /// Connects, and makes the script known to the server.
    async fn connect(&self) -> Result<MultiplexedConnection, String> {
        // A check has a time-out of its own.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connect = async {
            let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
            self.script.load_async(&mut connection).await?;
            Ok(connection)
        };
        let connected = timeout(CONNECT_TIMEOUT, connect).await;
        let connected = connected.map_err(|_| no_answer_within(CONNECT_TIMEOUT))?;
        connected.map_err(|error: redis::RedisError| error.to_string())
    }

    /// Keeps the connection for as long as the server runs.
    async fn keep_connected(&self) -> Infallible {
        // Whether the log says that Redis is away.
        let mut is_away = false;
        loop {
            match self.connect().await {
                Ok(connection) => {
                    self.failures.store(0, Ordering::Relaxed);
                    self.connection.send_replace(Some(connection));
                    metrics::gauge!(CONNECTED).set(1.0);
                    tracing::info!("rate limits are shared in Redis");
                    // It fails only when the sender is gone, which is a part of `self`.
                    let _ = self.connection.subscribe().wait_for(Option::is_none).await;
                }
                Err(why) if !is_away => log_away(&why),
                Err(_) => {}
            }
            is_away = true;
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }
}

/// Keeps the connection to Redis, if rate limits are shared. It does nothing otherwise.
pub(crate) async fn keep_connected(access: Arc<Access>) -> Infallible {
    match &access.shared {
        Some(shared) => shared.keep_connected().await,
        None => pending().await,
    }
}

fn log_away(why: &str) {
    metrics::gauge!(CONNECTED).set(0.0);
    tracing::warn!(why, "Redis is away: rate limits count at each instance alone");
}

fn no_answer_within(time: Duration) -> String {
    format!("no answer within {} ms", time.as_millis())
}
