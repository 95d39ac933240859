//! Where a store's time comes from. The rules never read a clock; stores do, through this.

use std::sync::Mutex;
use std::time::{Instant as Monotonic, SystemTime, UNIX_EPOCH};
use stockhold_domain::Instant;

/// A clock. It may be wrong and it may step: stores floor what it says by the instants they have committed.
pub trait Clock: Send + Sync {
    /// What it shows.
    fn now(&self) -> Instant;
}

/// Wall time as it was at the start, carried on by the monotonic clock: a stepped wall clock moves no deadline.
#[derive(Debug)]
pub struct SteadyClock {
    wall: i64,
    started: Monotonic,
}

impl SteadyClock {
    /// Reads the wall clock once.
    #[expect(clippy::disallowed_methods, reason = "this is the Clock")]
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall: i64::try_from(wall.as_micros()).unwrap_or(i64::MAX), started: Monotonic::now() }
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Instant {
        let passed = i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX);
        Instant::from_micros(self.wall.saturating_add(passed))
    }
}

/// A clock that shows what it is told, for tests and simulations.
#[derive(Debug)]
pub struct ManualClock(Mutex<Instant>);

impl ManualClock {
    /// Shows `now` until told otherwise.
    pub fn new(now: Instant) -> Self {
        Self(Mutex::new(now))
    }

    /// Moves the hands, forwards or back.
    pub fn set(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = now;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
