//! The metrics of the gate, and the counts that it shows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const CONNECTED: &str = "stockhold_gate_connected";
const REQUESTS: &str = "stockhold_gate_requests_total";
const CORRECTIONS: &str = "stockhold_gate_corrections_total";
const FAILURES: &str = "stockhold_gate_failures_total";
const LAG: &str = "stockhold_gate_lag_seconds";

/// The counts that a [`stockhold_store::GateStatus`] shows, which are metrics too.
#[derive(Default)]
pub(crate) struct GateMeters {
    pub(crate) connected: AtomicBool,
    pub(crate) admitted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) corrections: AtomicU64,
}

impl GateMeters {
    pub(crate) fn new() -> Self {
        metrics::describe_gauge!(
            CONNECTED,
            "1 while the gate's Redis is used, 0 while the store decides alone"
        );
        metrics::describe_counter!(
            REQUESTS,
            "Reserves of gated items: `admitted` by the gate, `refused` by it, `asked` of the store although the gate had no units, \
             `passed` because the gate could not say"
        );
        metrics::describe_counter!(CORRECTIONS, "Counters of the gate that were found wrong and corrected");
        metrics::describe_counter!(FAILURES, "Calls to the gate's Redis that failed or took too long");
        metrics::describe_gauge!(LAG, "Seconds since the gate knew all changes of other instances");
        metrics::gauge!(CONNECTED).set(0.0);
        metrics::counter!(CORRECTIONS).increment(0);
        metrics::counter!(FAILURES).increment(0);
        for result in ["admitted", "refused", "asked", "passed"] {
            metrics::counter!(REQUESTS, "result" => result).increment(0);
        }
        Self::default()
    }

    pub(crate) fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
        metrics::gauge!(CONNECTED).set(f64::from(u8::from(connected)));
    }

    pub(crate) fn admitted(&self, requests: u64) {
        self.admitted.fetch_add(requests, Ordering::Relaxed);
        metrics::counter!(REQUESTS, "result" => "admitted").increment(requests);
    }

    pub(crate) fn refused(&self, requests: u64) {
        self.refused.fetch_add(requests, Ordering::Relaxed);
        metrics::counter!(REQUESTS, "result" => "refused").increment(requests);
    }

    pub(crate) fn asked(requests: u64) {
        metrics::counter!(REQUESTS, "result" => "asked").increment(requests);
    }

    pub(crate) fn passed(requests: u64) {
        metrics::counter!(REQUESTS, "result" => "passed").increment(requests);
    }

    pub(crate) fn corrected(&self, counters: u64) {
        self.corrections.fetch_add(counters, Ordering::Relaxed);
        metrics::counter!(CORRECTIONS).increment(counters);
    }

    pub(crate) fn failed() {
        metrics::counter!(FAILURES).increment(1);
    }

    pub(crate) fn lag(seconds: f64) {
        metrics::gauge!(LAG).set(seconds);
    }
}
