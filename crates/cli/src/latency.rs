//! How long answers took, by kind of request, for the reports of `replay` and `bench`.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Longest time that is recorded, in microseconds: one hour. Longer times count as this.
const LONGEST_MICROS: u64 = 3_600_000_000;
/// Significant digits of a recorded time.
const DIGITS: u8 = 3;

/// Kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Reserve a basket.
    Reserve,
    /// Change a cart.
    Amend,
    /// Give a cart to a customer.
    Transfer,
    /// Split a cart.
    Split,
    /// Merge two carts.
    Merge,
    /// Open a payment window.
    OpenPayment,
    /// Close a payment window.
    ClosePayment,
    /// Confirm a reservation.
    Confirm,
    /// Take the payment of a reservation.
    Checkout,
    /// Fulfil sold units.
    Fulfil,
    /// Return units.
    Return,
    /// Adjust a stock.
    Adjust,
    /// Read an availability.
    Available,
    /// Many commands in one request.
    Commands,
}

impl RequestKind {
    /// The kinds that a replay sends.
    pub(super) const OF_REPLAY: &'static [Self] = &[
        Self::Reserve,
        Self::Amend,
        Self::Transfer,
        Self::Split,
        Self::Merge,
        Self::OpenPayment,
        Self::ClosePayment,
        Self::Confirm,
        Self::Fulfil,
        Self::Return,
        Self::Adjust,
    ];

    /// Its name in the reports' JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Amend => "amend",
            Self::Transfer => "transfer",
            Self::Split => "split",
            Self::Merge => "merge",
            Self::OpenPayment => "open_payment",
            Self::ClosePayment => "close_payment",
            Self::Confirm => "confirm",
            Self::Checkout => "checkout",
            Self::Fulfil => "fulfil",
            Self::Return => "return",
            Self::Adjust => "adjust",
            Self::Available => "available",
            Self::Commands => "commands",
        }
    }
}

/// One histogram for each kind.
#[derive(Debug)]
pub(super) struct Latencies(Vec<(RequestKind, Histogram<u64>)>);

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
    /// Empty histograms.
    pub(super) fn new(kinds: &[RequestKind]) -> Result<Self, String> {
        let new = |kind: &RequestKind| {
            let histogram = Histogram::new_with_bounds(1, LONGEST_MICROS, DIGITS);
            histogram.map(|histogram| (*kind, histogram)).map_err(|error| format!("a histogram: {error}"))
        };
        Ok(Self(kinds.iter().map(new).collect::<Result<_, _>>()?))
    }

    /// Records one answer.
    pub(super) fn add(&mut self, kind: RequestKind, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some((_, histogram)) = self.0.iter_mut().find(|(known, _)| *known == kind) {
            histogram.saturating_record(micros);
        }
    }

    /// Adds the records of another with the same kinds.
    pub(super) fn merge(&mut self, other: &Self) -> Result<(), String> {
        for (kind, theirs) in &other.0 {
            if let Some((_, ours)) = self.0.iter_mut().find(|(known, _)| known == kind) {
                ours.add(theirs).map_err(|error| format!("a histogram: {error}"))?;
            }
        }
        Ok(())
    }

    /// The percentiles of all kinds with at least one record.
    pub(super) fn percentiles(&self) -> Vec<Percentiles> {
        let asked = self.0.iter().filter(|(_, histogram)| !histogram.is_empty());
        asked
            .map(|(kind, histogram)| Percentiles {
                step: kind.name(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_are_merged_are_as_one() {
        let mut one = Latencies::new(RequestKind::OF_REPLAY).unwrap();
        let mut two = Latencies::new(RequestKind::OF_REPLAY).unwrap();
        for millis in 1..=50 {
            one.add(RequestKind::Reserve, Duration::from_millis(millis));
            two.add(RequestKind::Reserve, Duration::from_millis(millis + 50));
        }
        two.add(RequestKind::Available, Duration::from_millis(1));
        one.merge(&two).unwrap();
        let told = one.percentiles();
        assert_eq!(told.len(), 1, "a kind that is not kept is left out");
        assert_eq!((told[0].step, told[0].count), ("reserve", 100));
        assert!((told[0].p50_ms - 50.0).abs() < 0.1, "{}", told[0].p50_ms);
        assert!((told[0].max_ms - 100.0).abs() < 0.2, "{}", told[0].max_ms);
    }
}
