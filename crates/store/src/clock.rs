//! The clocks of a process. The rules never read a clock; stores read this one and pass the time to the rules.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as Monotonic, SystemTime, UNIX_EPOCH};
use stockhold_domain::Instant;

/// A clock. It may be wrong and may step back: a store never uses a time before the newest one that it has committed.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Instant;
}

/// The clocks of a process that serves a store.
#[derive(Clone)]
pub struct Clocks {
    /// What is compared with the clocks of others: credentials, signatures, and the times in records of the service. It follows every
    /// correction of the system's clock.
    pub wall: Arc<dyn Clock>,
    /// What is compared with the instants of the store: deadlines, windows, and the times of events.
    pub store: Arc<dyn Clock>,
}

impl Clocks {
    /// Those over a database, which decides by its own clock: the wall clock of this machine is as near to that as can be.
    pub fn of_database() -> Self {
        Self { wall: Arc::new(WallClock), store: Arc::new(WallClock) }
    }
}

impl fmt::Debug for Clocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clocks").finish_non_exhaustive()
    }
}

/// The wall clock of the system, read each time. It may step, both ways.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    #[expect(clippy::disallowed_methods, reason = "this is the Clock")]
    fn now(&self) -> Instant {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Instant::from_micros(micros(wall))
    }
}

/// The wall time at the start, advanced by the monotonic clock. A step of the wall clock does not move it, and it never falls.
#[derive(Debug)]
pub struct SteadyClock {
    started: Monotonic,
    /// The time at the start and what it was advanced by since, in microseconds since 1970.
    base: AtomicI64,
    /// The earliest time that is shown, in microseconds since 1970.
    floor: AtomicI64,
}

impl SteadyClock {
    /// Reads the wall clock once.
    pub fn start() -> Self {
        let base = AtomicI64::new(WallClock.now().micros());
        Self { started: Monotonic::now(), base, floor: AtomicI64::new(i64::MIN) }
    }

    /// Moves the time forward.
    pub fn advance(&self, by: Duration) {
        self.base.fetch_add(micros(by), Ordering::Relaxed);
    }

    /// Shows no time before this one from now on: if it is in the future, time stands still until then.
    pub fn stand_until(&self, floor: Instant) {
        self.floor.fetch_max(floor.micros(), Ordering::Relaxed);
    }

    /// How long the time stands still yet.
    pub fn stands_still_for(&self) -> Duration {
        let left = self.floor.load(Ordering::Relaxed).saturating_sub(self.running().micros());
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }

    /// The time that it would show if it did not stand still.
    pub fn running(&self) -> Instant {
        let base = self.base.load(Ordering::Relaxed);
        Instant::from_micros(base.saturating_add(micros(self.started.elapsed())))
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Instant {
        self.running().max(Instant::from_micros(self.floor.load(Ordering::Relaxed)))
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

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// A length of time as a person says it, in its two largest units: `2 h 3 min`.
pub fn in_words(time: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let seconds = time.as_secs();
    let first = UNITS.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(UNITS.len() - 1);
    let mut rest = seconds;
    let mut words = Vec::new();
    for (unit, name) in UNITS.iter().skip(first).take(2) {
        let count = rest / unit;
        rest %= unit;
        if count > 0 || words.is_empty() {
            words.push(format!("{count} {name}"));
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn since(earlier: Instant, later: Instant) -> Duration {
        Duration::from_micros(u64::try_from(later.micros() - earlier.micros()).unwrap())
    }

    #[test]
    fn a_steady_clock_starts_at_the_wall_time_and_is_advanced() {
        let before = WallClock.now();
        let clock = SteadyClock::start();
        let begun = clock.now();
        assert!(before <= begun && begun <= WallClock.now(), "{before:?} {begun:?}");
        clock.advance(2 * HOUR);
        let gone = since(begun, clock.now());
        assert!(gone >= 2 * HOUR && gone < 3 * HOUR, "{gone:?}");
        assert_eq!(clock.stands_still_for(), Duration::ZERO);
    }

    #[test]
    fn a_steady_clock_stands_still_until_it_has_come_to_its_floor() {
        let clock = SteadyClock::start();
        let floor = Instant::from_micros(clock.now().micros() + micros(2 * HOUR));
        clock.stand_until(floor);
        assert_eq!((clock.now(), clock.now()), (floor, floor));
        let left = clock.stands_still_for();
        assert!(left > HOUR && left <= 2 * HOUR, "{left:?}");
        // A lower floor changes nothing: time never falls.
        clock.stand_until(Instant::from_micros(0));
        clock.advance(HOUR);
        assert_eq!(clock.now(), floor, "there is an hour left");
        assert!(clock.stands_still_for() <= HOUR);
        clock.advance(2 * HOUR);
        assert!(clock.now() > floor);
        assert_eq!(clock.stands_still_for(), Duration::ZERO);
    }

    #[test]
    fn lengths_of_time_in_words() {
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (90, "1 min 30 s"),
            (7_200, "2 h"),
            (7_380, "2 h 3 min"),
            (7_439, "2 h 3 min"),
            (86_400 + 60, "1 d"),
            (400_000, "4 d 15 h"),
        ] {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
        assert_eq!(in_words(Duration::from_millis(1_900)), "1 s");
    }
}
