//! How long answers took, by kind of request.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Longest time that is told apart from longer ones, in microseconds: an hour.
const LONGEST_MICROS: u64 = 3_600_000_000;
/// Digits of a time that are right.
const DIGITS: u8 = 3;

/// The kinds of request that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A basket is held.
    Reserve,
    /// A hold is confirmed.
    Confirm,
    /// Units come back.
    Return,
    /// A total is moved.
    Adjust,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Latencies([(Kind, Histogram<u64>); 4]);

/// Times of one kind of request, in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Percentiles {
    pub(super) step: &'static str,
    pub(super) count: u64,
    pub(super) p50_ms: f64,
    pub(super) p90_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
    pub(super) max_ms: f64,
}

impl Latencies {
    /// None yet.
    pub(super) fn new() -> Result<Self, String> {
        let new = |kind| {
            let histogram = Histogram::new_with_bounds(1, LONGEST_MICROS, DIGITS);
            histogram.map(|histogram| (kind, histogram)).map_err(|error| format!("a histogram: {error}"))
        };
        Ok(Self([new(Kind::Reserve)?, new(Kind::Confirm)?, new(Kind::Return)?, new(Kind::Adjust)?]))
    }

    /// Notes one answer.
    pub(super) fn add(&mut self, kind: Kind, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some((_, histogram)) = self.0.iter_mut().find(|(known, _)| *known == kind) {
            histogram.saturating_record(micros);
        }
    }

    /// All kinds that were asked for.
    pub(super) fn percentiles(&self) -> Vec<Percentiles> {
        let asked = self.0.iter().filter(|(_, histogram)| !histogram.is_empty());
        asked
            .map(|(kind, histogram)| Percentiles {
                step: match kind {
                    Kind::Reserve => "reserve",
                    Kind::Confirm => "confirm",
                    Kind::Return => "return",
                    Kind::Adjust => "adjust",
                },
                count: histogram.len(),
                p50_ms: millis(histogram.value_at_quantile(0.5)),
                p90_ms: millis(histogram.value_at_quantile(0.9)),
                p99_ms: millis(histogram.value_at_quantile(0.99)),
                p999_ms: millis(histogram.value_at_quantile(0.999)),
                max_ms: millis(histogram.max()),
            })
            .collect()
    }
}

fn millis(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64() * 1_000.0
}
