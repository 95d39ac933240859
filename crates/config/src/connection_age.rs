//! The age of connections.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Shortest and longest age of a connection, in seconds.
const SHORTEST_SECONDS: u64 = 1;
const LONGEST_SECONDS: u64 = 86_400;
const DEFAULT_SECONDS: u64 = 600;

/// The age at which a client of HTTP/2 is asked to connect again, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionAge(u64);

impl ConnectionAge {
    /// The age as a duration.
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0)
    }
}

impl Default for ConnectionAge {
    fn default() -> Self {
        Self(DEFAULT_SECONDS)
    }
}

impl FromStr for ConnectionAge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = text.split_at(text.len() - usize::from(text.ends_with(['s', 'm', 'h'])));
        let factor = match unit {
            "s" => Some(1),
            "m" => Some(60),
            "h" => Some(3_600),
            _ => None,
        };
        let number = Some(number).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        let number = number.and_then(|number| number.parse::<u64>().ok());
        let seconds = number.zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
        seconds
            .filter(|seconds| (SHORTEST_SECONDS..=LONGEST_SECONDS).contains(seconds))
            .map(Self)
            .ok_or_else(|| format!("must be a time from 1s to 24h, like 90s, 10m or 1h, found {text:?}"))
    }
}

impl fmt::Display for ConnectionAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            seconds if seconds % 3_600 == 0 => write!(f, "{}h", seconds / 3_600),
            seconds if seconds % 60 == 0 => write!(f, "{}m", seconds / 60),
            seconds => write!(f, "{seconds}s"),
        }
    }
}

impl Serialize for ConnectionAge {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (text, seconds, shown) in [("90s", 90, "90s"), ("10m", 600, "10m"), ("24h", 86_400, "24h")] {
            let age: ConnectionAge = text.parse().unwrap();
            assert_eq!((age.duration(), age.to_string().as_str()), (Duration::from_secs(seconds), shown));
        }
        for text in ["", "s", "10", "0s", "25h", "+1m", "1.5m", "10 m", "99999999999999999999h"] {
            let error = text.parse::<ConnectionAge>().unwrap_err();
            assert!(error.contains("from 1s to 24h"), "{text}: {error}");
        }
    }
}
