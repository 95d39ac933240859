//! The simulated clocks: real time, which nobody in the simulation can read, the wall clock, which may be set, and the
//! one of the store: wall time at its start, carried on by a monotonic clock that drifts and stands still.

use stockhold_domain::Instant;
use stockhold_store::conformance::START;

/// A monotonic clock that is off by so many parts of a million.
const DRIFTS: [i64; 5] = [0, 50, -50, 500, -500];
const MILLION: i64 = 1_000_000;
/// How far the wall clock may be from real time, in microseconds: two hours.
const WALL_ERROR: i64 = 7_200 * MILLION;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    real: i64,
    shown: i64,
    wall_error: i64,
    drift: i64,
    /// The latest that the store's clock has ever shown.
    newest: i64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let start = START.micros();
        Self { real: start, shown: start, wall_error: 0, drift: 0, newest: start }
    }

    /// What the store's clock shows.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_micros(self.shown)
    }

    /// The latest that it has ever shown.
    pub(crate) fn newest(&self) -> Instant {
        Instant::from_micros(self.newest)
    }

    /// Time passes, in microseconds.
    pub(crate) fn advance(&mut self, micros: i64) {
        self.real += micros;
        // In this order no product passes an `i64`.
        self.show(self.shown + micros + micros / MILLION * self.drift);
    }

    /// Time passes and the machine does not notice.
    pub(crate) fn freeze(&mut self, micros: i64) {
        self.real += micros;
    }

    /// The store's clock steps.
    pub(crate) fn step(&mut self, micros: i64) {
        self.show(self.shown + micros);
    }

    /// The wall clock is set; the store sees it when it starts.
    pub(crate) fn step_wall(&mut self, micros: i64) {
        self.wall_error = (self.wall_error + micros).clamp(-WALL_ERROR, WALL_ERROR);
    }

    /// The monotonic clock runs at another speed from now on.
    pub(crate) fn drift(&mut self, n: u8) {
        self.drift = DRIFTS[usize::from(n) % DRIFTS.len()];
    }

    /// The store starts and reads the wall clock.
    pub(crate) fn restart(&mut self) {
        self.show(self.real + self.wall_error);
    }

    fn show(&mut self, micros: i64) {
        self.shown = micros;
        self.newest = self.newest.max(micros);
    }
}
