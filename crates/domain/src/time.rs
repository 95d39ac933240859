//! Instants and durations of the rules. Arithmetic saturates. A deadline is rounded up, so it is never earlier than
//! requested.

use crate::limits::{
    DEFAULT_MAX_HOLD_SECONDS, DEFAULT_MAX_PAYMENT_SECONDS, DEFAULT_PAYMENT_SECONDS, DEFAULT_TTL_SECONDS,
    GRACE_AFTER_PAYMENT_SECONDS, TTL_CEILING_SECONDS, TTL_MIN_SECONDS,
};
use core::fmt;

/// A point in time: microseconds since 1970-01-01T00:00:00Z on the store's clock. Never read inside the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(i64);

const MILLI: i64 = 1_000;
const SECOND: i64 = 1_000_000;

impl Instant {
    /// From microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// From milliseconds since the epoch; saturates.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(MILLI))
    }

    /// Microseconds since the epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the epoch, rounded down.
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(MILLI)
    }

    /// The deadline after so many seconds, rounded up to a whole millisecond. It saturates at the last whole
    /// millisecond.
    pub const fn deadline(self, seconds: Seconds) -> Self {
        let exact = self.0.saturating_add(seconds.get() as i64 * SECOND);
        match exact.rem_euclid(MILLI) {
            0 => Self(exact),
            past => match exact.checked_add(MILLI - past) {
                Some(up) => Self(up),
                None => Self(exact - past),
            },
        }
    }
}

/// A time to live or a longest hold: [`TTL_MIN_SECONDS`] to [`TTL_CEILING_SECONDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(u32);

/// A number of seconds outside the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondsError;

impl Seconds {
    /// [`DEFAULT_TTL_SECONDS`].
    pub const DEFAULT_TTL: Self = Self(DEFAULT_TTL_SECONDS);
    /// [`DEFAULT_MAX_HOLD_SECONDS`].
    pub const DEFAULT_MAX_HOLD: Self = Self(DEFAULT_MAX_HOLD_SECONDS);
    /// [`DEFAULT_MAX_PAYMENT_SECONDS`].
    pub const DEFAULT_MAX_PAYMENT: Self = Self(DEFAULT_MAX_PAYMENT_SECONDS);
    /// [`DEFAULT_PAYMENT_SECONDS`].
    pub const DEFAULT_PAYMENT: Self = Self(DEFAULT_PAYMENT_SECONDS);
    /// [`GRACE_AFTER_PAYMENT_SECONDS`].
    pub const GRACE_AFTER_PAYMENT: Self = Self(GRACE_AFTER_PAYMENT_SECONDS);

    /// Checks the bounds.
    pub const fn new(seconds: u64) -> Result<Self, SecondsError> {
        if seconds < TTL_MIN_SECONDS as u64 || seconds > TTL_CEILING_SECONDS as u64 {
            return Err(SecondsError);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most TTL_CEILING_SECONDS")]
        Ok(Self(seconds as u32))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for SecondsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be between {TTL_MIN_SECONDS} and {TTL_CEILING_SECONDS} seconds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn deadlines_are_whole_milliseconds_rounded_up() {
        let one = Seconds::new(1).unwrap();
        let check = |now: i64, deadline: i64| {
            assert_eq!(Instant::from_micros(now).deadline(one), Instant::from_micros(deadline));
        };
        check(0, 1_000_000);
        check(1, 1_001_000);
        check(999, 1_001_000);
        check(1_000, 1_001_000);
        check(-1, 1_000_000);
        check(i64::MAX, i64::MAX - 807);
    }

    #[test]
    fn seconds_have_bounds() {
        assert_eq!(Seconds::new(0), Err(SecondsError));
        assert_eq!(Seconds::new(1).map(Seconds::get), Ok(1));
        assert_eq!(Seconds::new(2_592_000).map(Seconds::get), Ok(2_592_000));
        assert_eq!(Seconds::new(2_592_001), Err(SecondsError));
        assert_eq!(Seconds::new(u64::MAX), Err(SecondsError));
    }

    #[test]
    fn an_error_says_what_would_be_right() {
        assert_eq!(SecondsError.to_string(), "must be between 1 and 2592000 seconds");
    }
}
