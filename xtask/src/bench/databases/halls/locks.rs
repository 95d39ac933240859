//! How long a SQL store's batches took to get their locks and read their state, as the server itself counts it: without its
//! histogram's finer points, so only against the bounds that it has.

use crate::http::{Connection, Request};
use crate::{Outcome, fail};
use std::net::SocketAddr;

const HISTOGRAM: &str = "stockhold_database_lock_wait_seconds";
/// Two of its bounds.
const SHORT: &str = "0.001";
const LONG: &str = "0.005";

/// Batches that got their locks, and those of them that did within a millisecond and within five.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::bench::databases) struct LockWaits {
    pub(in crate::bench::databases) all: u64,
    pub(super) short: u64,
    pub(super) not_long: u64,
}

impl LockWaits {
    /// Since the server was started.
    pub(in crate::bench::databases) fn read(admin: SocketAddr) -> Outcome<Self> {
        let answer = Connection::open(admin)?.call(&Request::get("/metrics"))?;
        Self::of(&String::from_utf8_lossy(&answer.body))
    }

    fn of(text: &str) -> Outcome<Self> {
        let count = |name: String| -> Outcome<u64> {
            match text.lines().find_map(|line| line.strip_prefix(&name)?.trim().parse().ok()) {
                Some(count) => Ok(count),
                None => fail(format!("the server's metrics have no {name}")),
            }
        };
        let within = |bound| count(format!("{HISTOGRAM}_bucket{{le=\"{bound}\"}} "));
        Ok(Self {
            all: count(format!("{HISTOGRAM}_count "))?,
            short: within(SHORT)?,
            not_long: within(LONG)?,
        })
    }

    /// Those that came after `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            all: self.all - before.all,
            short: self.short - before.short,
            not_long: self.not_long - before.not_long,
        }
    }

    /// Percent that took a millisecond at most.
    pub(super) fn short_percent(self) -> f64 {
        self.percent(self.short)
    }

    /// Percent that took five at most.
    pub(super) fn not_long_percent(self) -> f64 {
        self.percent(self.not_long)
    }

    fn percent(self, some: u64) -> f64 {
        some as f64 * 100.0 / self.all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_counted_against_bounds_of_the_histogram() {
        let text = |all, short, not_long| {
            format!(
                "# TYPE {HISTOGRAM} histogram\n{HISTOGRAM}_bucket{{le=\"0.0001\"}} 0\n\
                 {HISTOGRAM}_bucket{{le=\"0.001\"}} {short}\n{HISTOGRAM}_bucket{{le=\"0.005\"}} {not_long}\n\
                 {HISTOGRAM}_bucket{{le=\"+Inf\"}} {all}\n{HISTOGRAM}_sum 1.5\n{HISTOGRAM}_count {all}\n"
            )
        };
        let [before, after] =
            [text(10, 5, 10), text(210, 197, 209)].map(|text| LockWaits::of(&text).unwrap());
        let phases = after.since(before);
        assert_eq!(phases, LockWaits { all: 200, short: 192, not_long: 199 });
        assert_eq!((phases.short_percent(), phases.not_long_percent()), (96.0, 99.5));
        assert!(LockWaits::of("").is_err());
    }
}
