//! The simulated clocks. Real time can't be read by anything in the simulation. The wall clock can be set. The store's
//! clock starts with the wall clock and then follows a monotonic clock, which can drift and stop.

use stockhold_domain::Instant;
use stockhold_model::START;

/// Drift of a monotonic clock, in parts per million.
const DRIFTS: [i64; 5] = [0, 50, -50, 500, -500];
const MILLION: i64 = 1_000_000;
/// Largest distance of the wall clock from real time, in microseconds: two hours.
const WALL_ERROR: i64 = 7_200 * MILLION;

/// All clocks of the simulation.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    real: i64,
    shown: i64,
    wall_error: i64,
    drift: i64,
    /// The latest instant that the store's clock ever showed.
    newest: i64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let start = START.micros();
        Self { real: start, shown: start, wall_error: 0, drift: 0, newest: start }
    }

    /// The store's clock now.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_micros(self.shown)
    }

    /// The latest instant that it ever showed.
    pub(crate) fn newest(&self) -> Instant {
        Instant::from_micros(self.newest)
    }

    /// Moves time forward, in microseconds.
    pub(crate) fn advance(&mut self, micros: i64) {
        self.real += micros;
        // In this order no product exceeds an `i64`.
        self.show(self.shown + micros + micros / MILLION * self.drift);
    }

    /// Moves time forward while the machine stands still.
    pub(crate) fn freeze(&mut self, micros: i64) {
        self.real += micros;
    }

    /// Steps the store's clock.
    pub(crate) fn step(&mut self, micros: i64) {
        self.show(self.shown + micros);
    }

    /// Sets the wall clock. The store reads it at its next start.
    pub(crate) fn step_wall(&mut self, micros: i64) {
        self.wall_error = (self.wall_error + micros).clamp(-WALL_ERROR, WALL_ERROR);
    }

    /// Changes the speed of the monotonic clock.
    pub(crate) fn drift(&mut self, n: u8) {
        self.drift = DRIFTS[usize::from(n) % DRIFTS.len()];
    }

    /// Starts the store's clock from the wall clock.
    pub(crate) fn restart(&mut self) {
        self.show(self.real + self.wall_error);
    }

    fn show(&mut self, micros: i64) {
        self.shown = micros;
        self.newest = self.newest.max(micros);
    }
}
