//! The clock of a store. The rules never read a clock; stores read this one and pass the time to the rules.

use std::sync::Mutex;
use std::time::{Instant as Monotonic, SystemTime, UNIX_EPOCH};
use stockhold_domain::Instant;

/// A clock. It may be wrong and may step back: a store never uses a time before the newest one that it has committed.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Instant;
}

/// The wall time at the start, advanced by the monotonic clock, so that a step of the wall clock moves no deadline.
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

/// A clock that a test or a simulation sets.
#[derive(Debug)]
pub struct ManualClock(Mutex<Instant>);

impl ManualClock {
    /// A clock that shows `now` until it is set.
    pub fn new(now: Instant) -> Self {
        Self(Mutex::new(now))
    }

    /// Sets the time, forwards or back.
    pub fn set(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = now;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
