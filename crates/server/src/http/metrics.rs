//! Counters and latencies of the routes, made once per worker so that a request looks nothing up.

use super::route::Route;
use metrics::{Counter, Histogram};
use std::time::Duration;

/// Outcomes that are told apart: by the status's first digit.
const CLASSES: [&str; 4] = ["done", "redirected", "refused", "failed"];

/// See the module.
pub(super) struct RouteMetrics {
    routes: Vec<(&'static str, [Counter; CLASSES.len()], Histogram)>,
    missed: Counter,
}

impl RouteMetrics {
    pub(super) fn new() -> Self {
        let routes = Route::NAMES.map(|name| {
            let counters = CLASSES.map(
                |class| metrics::counter!("stockhold_requests_total", "route" => name, "outcome" => class),
            );
            (name, counters, metrics::histogram!("stockhold_request_seconds", "route" => name))
        });
        Self {
            routes: routes.into(),
            missed: metrics::counter!("stockhold_requests_total", "route" => "none", "outcome" => "refused"),
        }
    }

    pub(super) fn record(&self, route: Option<Route<'_>>, status: u16, took: Duration) {
        let name = route.map(Route::name);
        let Some((_, counters, histogram)) = self.routes.iter().find(|(known, ..)| Some(*known) == name)
        else {
            self.missed.increment(1);
            return;
        };
        let class = usize::from(status / 100).saturating_sub(2);
        if let Some(counter) = counters.get(class) {
            counter.increment(1);
        }
        histogram.record(took);
    }
}
