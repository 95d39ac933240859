//! Counters and latencies of routes and commands. A worker registers each metric once and then finds it by a number,
//! so a request needs no look-up by name.

use super::admission::Admission;
use super::admission::connections::{self, Connections};
use super::route::Route;
use metrics::{Counter, Histogram};
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stockhold_api::problem::Reason;
use stockhold_api::routes::RouteId;
use stockhold_domain::{CommandKind, Outcome};
use stockhold_store::Failure;

/// Describes each metric.
pub(crate) fn describe() {
    metrics::describe_counter!("stockhold_requests_total", "Requests by route and outcome");
    metrics::describe_histogram!(
        "stockhold_request_seconds",
        "Time from a request's headers to its response"
    );
    metrics::describe_counter!(
        "stockhold_commands_total",
        "Commands that were handed to the store, by what they are and what became of them: done, replayed, or the \
         reason of the refusal"
    );
    metrics::describe_histogram!("stockhold_batch_commands", "Commands in one POST /v1/commands");
    metrics::describe_counter!(
        "stockhold_slow_consumers_total",
        "Connections that were cut because their answers were not read in time"
    );
    metrics::describe_gauge!(
        "stockhold_unindexed_events",
        "Events and lines of theirs that are durable and that the index does not have yet"
    );
    metrics::describe_gauge!(
        "stockhold_sweeper_lag_seconds",
        "How long the earliest hold that is still active has been due; 0 when none is"
    );
    metrics::describe_gauge!("stockhold_free_disk_bytes", "Free bytes on the data directory's disk");
    metrics::describe_gauge!("stockhold_connections", "Connections to the API that are open");
    metrics::describe_gauge!("stockhold_event_streams", "Event streams that are open");
    metrics::describe_gauge!(
        "stockhold_bytes_in_flight",
        "Bytes of long requests and long answers that are being worked on"
    );
    metrics::describe_counter!(
        super::tls::FAILED,
        "TLS handshakes that failed, took too long or made room for others; also plain HTTP that was sent to a port with TLS"
    );
    connections::describe();
    metrics::counter!("stockhold_slow_consumers_total").increment(0);
    metrics::counter!(super::tls::FAILED).increment(0);
}

/// The values of the workers that the admin listener shows.
#[derive(Clone, Debug)]
pub(crate) struct WorkerGauges {
    pub(super) draining: Arc<AtomicBool>,
    pub(super) connections: Arc<Connections>,
    pub(super) admission: Admission,
}

impl WorkerGauges {
    /// Whether the server is stopping.
    pub(super) fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Sets the gauges.
    #[expect(clippy::cast_precision_loss, reason = "gauges")]
    pub(super) fn set(&self) {
        metrics::gauge!("stockhold_connections").set(self.connections.count() as f64);
        metrics::gauge!("stockhold_event_streams").set(self.admission.event_streams.count() as f64);
        metrics::gauge!("stockhold_bytes_in_flight").set(self.admission.memory.used() as f64);
    }
}

/// Outcomes of requests: the first digit of the status.
const CLASSES: [&str; 4] = ["done", "redirected", "refused", "failed"];
/// Outcomes of commands that come before the reasons.
const DONE: [&str; 2] = ["done", "replayed"];

/// The metrics of one worker.
pub(super) struct RouteMetrics {
    /// Indexed by [`RouteId`]. Routes with the same name share their metrics.
    routes: Vec<([Counter; CLASSES.len()], Histogram)>,
    missed: Counter,
    commands: Vec<Vec<OnceCell<Counter>>>,
    batch: Histogram,
}

impl RouteMetrics {
    pub(super) fn new() -> Self {
        let routes = RouteId::ALL.iter().map(|route| {
            let name = route.spec().metric;
            let counters = CLASSES.map(
                |class| metrics::counter!("stockhold_requests_total", "route" => name, "outcome" => class),
            );
            (counters, metrics::histogram!("stockhold_request_seconds", "route" => name))
        });
        let outcomes = || (0..DONE.len() + Reason::ALL.len()).map(|_| OnceCell::new()).collect();
        Self {
            routes: routes.collect(),
            missed: metrics::counter!("stockhold_requests_total", "route" => "none", "outcome" => "refused"),
            commands: CommandKind::ALL.iter().map(|_| outcomes()).collect(),
            batch: metrics::histogram!("stockhold_batch_commands"),
        }
    }

    pub(super) fn record(&self, route: Option<Route<'_>>, status: u16, took: Duration) {
        let found = route.and_then(|route| self.routes.get(route.id as usize));
        let Some((counters, histogram)) = found else {
            self.missed.increment(1);
            return;
        };
        let class = usize::from(status / 100).saturating_sub(2);
        if let Some(counter) = counters.get(class) {
            counter.increment(1);
        }
        histogram.record(took);
    }

    /// Counts a command. A failure of the store is an outcome too.
    pub(super) fn command(&self, kind: CommandKind, outcome: Result<&Outcome, &Failure>) {
        let reason = match outcome {
            Ok(Outcome::Done(_)) => return self.count(kind, 0, DONE[0]),
            Ok(Outcome::Replayed(_)) => return self.count(kind, 1, DONE[1]),
            Ok(Outcome::Refused(rejection)) => Reason::of(rejection),
            Ok(Outcome::Later) => Reason::Internal,
            Err(failure) => Reason::from(failure),
        };
        self.count(kind, DONE.len() + reason as usize, reason.name());
    }

    fn count(&self, kind: CommandKind, at: usize, outcome: &'static str) {
        let found = self.commands.get(kind as usize).and_then(|outcomes| outcomes.get(at));
        if let Some(counter) = found {
            let name = kind.name();
            let make =
                || metrics::counter!("stockhold_commands_total", "command" => name, "outcome" => outcome);
            counter.get_or_init(make).increment(1);
        }
    }

    /// Records the size of a batch.
    #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
    pub(super) fn batch(&self, commands: usize) {
        self.batch.record(commands as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places() {
        for (place, kind) in CommandKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, place);
        }
        for (place, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, place);
        }
    }
}
