//! What is read off while a run is measured: latencies, and who used the processors. Clocks are read at both ends of
//! the measurement only, so that reading them costs the run nothing.

use crate::{Outcome, fail};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Latencies are kept in nanoseconds to three digits.
const HISTOGRAM_DIGITS: u8 = 3;

/// A histogram for latencies in nanoseconds.
pub(crate) fn histogram() -> Outcome<Histogram<u64>> {
    Ok(Histogram::new(HISTOGRAM_DIGITS)?)
}

/// What a run gave.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Answers over the whole run, warm-up included: what the books must show.
    pub(crate) answered: u64,
    /// Operations per second while measuring.
    pub(crate) rate: f64,
    /// Seconds that were measured.
    pub(crate) seconds: f64,
    /// Latencies in nanoseconds while measuring, of the answers that counted.
    pub(crate) latency: Histogram<u64>,
    /// Share of its core that the generator used while measuring.
    pub(crate) load_cpu: f64,
    /// Share of its core that the server used while measuring.
    pub(crate) server_cpu: f64,
    /// What everybody else used meanwhile, in cores. A figure taken on a busy machine is worth little.
    pub(crate) other_cpu: f64,
}

impl Run {
    /// A percentile of the latency in microseconds.
    pub(crate) fn micros(&self, percentile: f64) -> f64 {
        self.latency.value_at_percentile(percentile) as f64 / 1_000.0
    }

    /// Answers per second that counted and came within so long.
    pub(crate) fn rate_within(&self, limit: Duration) -> f64 {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.latency.count_between(0, limit) as f64 / self.seconds
    }
}

/// Processor time used until a moment.
#[derive(Clone, Copy)]
struct Clocks {
    at: Instant,
    load: Duration,
    server: Duration,
    machine: Duration,
}

pub(super) struct Meter {
    server: Option<u32>,
    latency: Histogram<u64>,
    operations: u64,
    begin: Option<Clocks>,
    end: Option<Clocks>,
}

impl Meter {
    /// For a run against the process `server`, when there is one.
    pub(super) fn new(server: Option<u32>) -> Outcome<Self> {
        Ok(Self { server, latency: histogram()?, operations: 0, begin: None, end: None })
    }

    /// An answer while measuring, and the operations that it stands for when it counts. The first begins the measurement and
    /// is not part of it; the one that ends it is: what lies between two answers is measured whole.
    pub(super) fn record(&mut self, now: Instant, latency: Duration, operations: Option<u64>) -> Outcome<()> {
        if self.begin.is_none() {
            self.begin = Some(self.clocks(now)?);
            return Ok(());
        }
        let (Some(operations), None) = (operations, self.end) else { return Ok(()) };
        self.operations += operations;
        Ok(self.latency.record(u64::try_from(latency.as_nanos())?.max(1))?)
    }

    /// Whether anything was measured.
    pub(super) fn has_counted(&self) -> bool {
        self.operations > 0
    }

    /// A connection stops; the first that does ends the measurement.
    pub(super) fn stop(&mut self, now: Instant) -> Outcome<()> {
        if self.end.is_none() {
            self.end = Some(self.clocks(now)?);
        }
        Ok(())
    }

    pub(super) fn finish(self, answered: u64) -> Outcome<Run> {
        let (Some(begin), Some(end)) = (self.begin, self.end) else {
            return fail("nothing was answered while measuring");
        };
        let seconds = (end.at - begin.at).as_secs_f64().max(f64::EPSILON);
        let load_cpu = end.load.saturating_sub(begin.load).as_secs_f64() / seconds;
        let server_cpu = end.server.saturating_sub(begin.server).as_secs_f64() / seconds;
        let machine = end.machine.saturating_sub(begin.machine).as_secs_f64() / seconds;
        Ok(Run {
            answered,
            rate: self.operations as f64 / seconds,
            seconds,
            latency: self.latency,
            load_cpu,
            server_cpu,
            other_cpu: self.server.map_or(0.0, |_| (machine - load_cpu - server_cpu).max(0.0)),
        })
    }

    fn clocks(&self, at: Instant) -> Outcome<Clocks> {
        let load = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime))?;
        let server = self.server.map_or(Ok(Duration::ZERO), process_time)?;
        Ok(Clocks { at, load, server, machine: machine_time()? })
    }
}

/// Processor time that a process has used.
pub(crate) fn process_time(pid: u32) -> Outcome<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The program's name is in parentheses and may contain any character, so fields are counted after it.
    ticks(text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2))
}

/// Processor time that all programs have used, interrupts left out.
fn machine_time() -> Outcome<Duration> {
    let text = std::fs::read_to_string("/proc/stat")?;
    ticks(text.split_whitespace().skip(1).take(3))
}

fn ticks<'a>(fields: impl Iterator<Item = &'a str>) -> Outcome<Duration> {
    let mut sum = 0;
    for field in fields {
        sum += field.parse::<u64>()?;
    }
    Ok(Duration::from_secs_f64(sum as f64 / rustix::param::clock_ticks_per_second() as f64))
}
