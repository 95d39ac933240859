//! What the stores of this test program have counted, all of them together.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::sync::OnceLock;

/// A counter or gauge as it is now; 0 when nothing was counted.
pub(crate) fn count(name: &str) -> f64 {
    let rendered = start().render();
    let line = rendered.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().expect("a number"))
}

/// Counts from here on. The first call has to come before what is to be counted.
pub(crate) fn start() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| PrometheusBuilder::new().install_recorder().expect("the only recorder"))
}
