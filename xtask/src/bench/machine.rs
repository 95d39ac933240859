//! What the figures were measured on and with.

use super::probe;
use crate::Outcome;
use crate::load::{LOAD_CPU, SERVER_CPU};
use crate::spawn::workspace;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PROBE: Duration = Duration::from_secs(1);

/// The lines that stand above the figures.
pub(crate) fn describe(folder: &Path) -> Outcome<Vec<String>> {
    let cpus = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let sync = probe::sync(folder, PROBE)?;
    let micros = |percentile| sync.value_at_percentile(percentile) as f64 / 1_000.0;
    Ok(vec![
        format!("machine: {}, {cores} cores", model.map_or("unknown processor", |(_, name)| name)),
        format!("pinned with taskset: server on core {SERVER_CPU}, load on core {LOAD_CPU}"),
        format!("fdatasync on the same directory: p50 {:.0} µs, p99 {:.0} µs", micros(50.0), micros(99.0)),
    ])
}

/// When, and of which commit.
pub(crate) fn provenance() -> Outcome<String> {
    let git = |arguments: &[&str]| -> Outcome<String> {
        let output = Command::new("git").args(arguments).current_dir(workspace()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = if git(&["status", "--porcelain"])?.is_empty() { "" } else { " with local changes" };
    let now = jiff::Timestamp::now().to_string();
    let date = now.get(..10).unwrap_or(&now);
    Ok(format!("{date}, commit {commit}{changed}"))
}
