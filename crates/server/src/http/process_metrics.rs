//! What the operating system says of this process, under the names that Prometheus' client libraries use, and its lost log lines. It is
//! read at each scrape. What can't be read is not shown.

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Duration;
use stockhold_config::standard_error;
use stockhold_domain::Instant;

const CPU: &str = "process_cpu_seconds_total";
const RESIDENT: &str = "process_resident_memory_bytes";
const VIRTUAL: &str = "process_virtual_memory_bytes";
const OPEN_FDS: &str = "process_open_fds";
const MAX_FDS: &str = "process_max_fds";
const START: &str = "process_start_time_seconds";
const LINES_DROPPED: &str = "stockhold_log_lines_dropped_total";

/// Says what each metric is. `started` is when the process started.
#[expect(clippy::cast_precision_loss, reason = "gauges")]
pub(crate) fn describe(started: Instant) {
    // A gauge: a counter of this library is a whole number.
    metrics::describe_gauge!(CPU, "Processor time used, in the program and in the kernel");
    metrics::describe_gauge!(RESIDENT, "Resident memory");
    metrics::describe_gauge!(VIRTUAL, "Virtual memory");
    metrics::describe_gauge!(OPEN_FDS, "Open file descriptors");
    metrics::describe_gauge!(MAX_FDS, "Most file descriptors that may be open");
    metrics::describe_gauge!(START, "Start of the process, in seconds since 1970");
    metrics::describe_counter!(
        LINES_DROPPED,
        "Log lines that were not written: the reader of standard error is too slow, hangs or is gone"
    );
    metrics::gauge!(START).set(started.micros() as f64 / 1e6);
}

/// Sets them to what is now.
#[expect(clippy::cast_precision_loss, reason = "gauges")]
pub(super) fn set() {
    metrics::counter!(LINES_DROPPED).absolute(standard_error::dropped_lines());
    let cpu = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
    metrics::gauge!(CPU).set(cpu.unwrap_or_default().as_secs_f64());
    if let Ok(status) = fs::read_to_string("/proc/self/status") {
        for (name, field) in [(RESIDENT, "VmRSS"), (VIRTUAL, "VmSize")] {
            if let Some(bytes) = bytes_of(&status, field) {
                metrics::gauge!(name).set(bytes as f64);
            }
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // The directory that is read is open itself.
        metrics::gauge!(OPEN_FDS).set(open.count().saturating_sub(1) as f64);
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        metrics::gauge!(MAX_FDS).set(most as f64);
    }
}

/// A field of `/proc/self/status` that is given in kB, which are 1,024 bytes there.
fn bytes_of(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_bytes() {
        let status =
            "Name:\tstockhold\nVmSize:\t   20 kB\nVmRSSx:\t 1 kB\nVmRSS:\t       3 kB\nThreads:\t4\n";
        assert_eq!(bytes_of(status, "VmSize"), Some(20 * 1024));
        assert_eq!(bytes_of(status, "VmRSS"), Some(3 * 1024));
        assert_eq!((bytes_of(status, "Threads"), bytes_of(status, "VmData")), (None, None));
    }
}
