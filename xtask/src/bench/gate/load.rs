//! Callers that send one request after another, and callers that send at a rate. One thread for each connection.

use crate::http::{Connection, Request};
use crate::{Outcome, fail};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Connections that send at a rate.
const STEADY_CONNECTIONS: u64 = 16;

/// What calls were answered with.
pub(super) struct CallCounts {
    by_status: BTreeMap<u16, u64>,
    time: Duration,
}

impl CallCounts {
    /// Answers a second.
    pub(super) fn rate(&self) -> f64 {
        self.by_status.values().sum::<u64>() as f64 / self.time.as_secs_f64()
    }

    /// An error unless all answers have this status.
    pub(super) fn expect(&self, what: &str, status: u16) -> Outcome<()> {
        if self.by_status.keys().all(|known| *known == status) && !self.by_status.is_empty() {
            return Ok(());
        }
        fail(format!("{what}: answers by status are {:?}, expected {status}", self.by_status))
    }
}

/// Sends from `connections` connections to each address for a time. `make` makes the request of a number, which is different for each.
pub(super) fn hammer(
    addresses: &[SocketAddr],
    connections: usize,
    time: Duration,
    make: impl Fn(u64) -> Request + Sync,
) -> Outcome<CallCounts> {
    let count = addresses.len() * connections;
    let number = AtomicU64::new(1);
    let began = Instant::now();
    let caller = |place: usize| -> Outcome<BTreeMap<u16, u64>> {
        let mut connection = Connection::open(addresses[place % addresses.len()])?;
        let mut by_status = BTreeMap::new();
        while began.elapsed() < time {
            let answer = connection.call(&make(number.fetch_add(1, Ordering::Relaxed)))?;
            *by_status.entry(answer.status).or_default() += 1;
        }
        Ok(by_status)
    };
    let found = in_threads(count, &caller)?;
    Ok(CallCounts { by_status: found, time: began.elapsed() })
}

/// Sends so many requests a second for a time, to all addresses in turn.
pub(super) fn steadily(
    addresses: &[SocketAddr],
    rate: u64,
    time: Duration,
    make: impl Fn(u64) -> Request + Sync,
) -> Outcome<CallCounts> {
    let began = Instant::now();
    let connections = STEADY_CONNECTIONS.min(rate);
    let caller = |place: usize| -> Outcome<BTreeMap<u16, u64>> {
        let mut connection = Connection::open(addresses[place % addresses.len()])?;
        let mut by_status = BTreeMap::new();
        for turn in 0.. {
            let number = turn * connections + place as u64;
            let due = Duration::from_secs_f64(number as f64 / rate as f64);
            if due >= time {
                return Ok(by_status);
            }
            std::thread::sleep(due.saturating_sub(began.elapsed()));
            let answer = connection.call(&make(number + 1))?;
            *by_status.entry(answer.status).or_default() += 1;
        }
        Ok(by_status)
    };
    let count = usize::try_from(connections).unwrap_or(1);
    let found = in_threads(count, &caller)?;
    Ok(CallCounts { by_status: found, time: began.elapsed() })
}

fn in_threads(
    count: usize,
    caller: &(impl Fn(usize) -> Outcome<BTreeMap<u16, u64>> + Sync),
) -> Outcome<BTreeMap<u16, u64>> {
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..count).map(|place| scope.spawn(move || caller(place))).collect();
        let mut all = BTreeMap::new();
        for one in callers {
            let by_status = one.join().unwrap_or_else(|_| fail("a caller panicked"))?;
            for (status, count) in by_status {
                *all.entry(status).or_default() += count;
            }
        }
        Ok(all)
    })
}
