//! The open loop: requests leave at a fixed rate whatever the server does, and latency counts from the moment a request
//! was meant to leave, so that a stall is felt by everything that should have been sent during it.

use super::{Traffic, Wire, chunk, histogram};
use crate::http::ANSWER_TIMEOUT;
use crate::{Outcome, fail};
use hdrhistogram::Histogram;
use mio::{Events, Poll};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One answer: when its request was meant to leave, and how long after that it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) intended: Instant,
    pub(crate) latency: Duration,
}

/// Runs on the calling thread until `stop`; then waits for what is in flight.
pub(crate) fn open(
    address: SocketAddr,
    connections: usize,
    per_second: u32,
    stop: &AtomicBool,
    traffic: &mut dyn Traffic,
) -> Outcome<Vec<Sample>> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(connections);
    let mut wires =
        (0..connections).map(|index| Wire::open(address, index, &poll)).collect::<Outcome<Vec<Wire>>>()?;
    let mut free: Vec<usize> = (0..connections).collect();
    let (mut request, mut chunk) = (Vec::new(), chunk());
    let mut samples = Vec::new();

    let interval = Duration::from_secs(1) / per_second;
    let mut next = Instant::now();
    let mut last = next;
    loop {
        let stopped = stop.load(Ordering::Relaxed);
        while !stopped && next <= Instant::now() {
            // Without a free connection the request waits here and its latency grows.
            let Some(index) = free.pop() else { break };
            request.clear();
            traffic.request(index, &mut request);
            wires[index].send(&request, next)?;
            next += interval;
        }
        if stopped && free.len() == connections {
            return Ok(samples);
        }
        let wait = next.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        poll.poll(&mut events, Some(wait))?;
        for event in &events {
            let index = event.token().0;
            if let Some(intended) = wires[index].receive(index, &mut chunk, traffic)? {
                last = Instant::now();
                samples.push(Sample { intended, latency: last - intended });
                free.push(index);
            }
        }
        if free.len() < connections && last.elapsed() > ANSWER_TIMEOUT {
            return fail(format!("requests were not answered within {ANSWER_TIMEOUT:?}"));
        }
    }
}

/// Latencies in nanoseconds of what was meant to leave at that moment or after it.
pub(crate) fn latency(samples: &[Sample], from: Instant) -> Outcome<Histogram<u64>> {
    let mut latency = histogram()?;
    for sample in samples.iter().filter(|sample| sample.intended >= from) {
        latency.record(u64::try_from(sample.latency.as_nanos())?.max(1))?;
    }
    Ok(latency)
}

/// A quantile of them in milliseconds.
pub(crate) fn millis(latency: &Histogram<u64>, quantile: f64) -> f64 {
    latency.value_at_quantile(quantile) as f64 / 1e6
}
