//! A crowd falling due: 100,000 holds whose deadlines lie in one second, while reserves go on at a steady rate on
//! another SKU. Measured: how long until all are reclaimed, and what the reserves feel meanwhile.

use super::subject::{DUE, HOT, Subject, TTL_SECONDS, audit, available};
use crate::clock::wall_millis;
use crate::http::Connection;
use crate::load::http::{Reserves, sku};
use crate::load::open::{Sample, open};
use crate::load::{LOAD_CPU, Plan, closed, histogram, pin};
use crate::rng::Rng;
use crate::{Outcome, fail};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Holds that fall due at once.
pub(super) const HOLDS: u64 = 100_000;
/// Reserves per second meanwhile.
pub(super) const STEADY_PER_SECOND: u32 = 1_000;

const CONNECTIONS: usize = 64;
const STEADY_CONNECTIONS: usize = 64;
/// From the first hold until the second in which all fall due.
const AHEAD: Duration = Duration::from_secs(30);
/// The steady load starts this long before that second.
const LEAD_IN: Duration = Duration::from_secs(2);
/// The steady load goes on this long after the last is reclaimed, so that what follows is felt as well.
const LEAD_OUT: Duration = Duration::from_secs(1);
const GIVE_UP: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(10);

/// What one round gave.
pub(super) struct Reclaimed {
    /// From the start of the second in which all fall due until none was active.
    pub(super) seconds: f64,
    /// 99th percentile of the reserves from that start until a second after the end, from their intended send time.
    pub(super) p99_millis: f64,
}

/// One round on a fresh copy of the prepared data.
pub(super) fn measure(subject: &Subject, seed: u64) -> Outcome<Reclaimed> {
    let (server, _folder) = subject.fresh(None)?;
    let due = wall_millis() + u64::try_from(AHEAD.as_millis())?;
    let start = Instant::now();
    let due_instant = start + AHEAD;
    let mut crowd = Reserves::new(DUE, 1, AHEAD.as_secs(), Rng::new(seed)).due(due).keep(HOLDS);
    closed(server.address, CONNECTIONS, Plan::ALL, None, &mut crowd)?;
    if start.elapsed() + LEAD_IN + LEAD_IN > AHEAD {
        return fail(format!("{HOLDS} holds took too long to make: they would not fall due at once"));
    }
    audit(&server, DUE, 1, HOLDS)?;

    std::thread::sleep((AHEAD.saturating_sub(LEAD_IN)).saturating_sub(start.elapsed()));
    let stop = AtomicBool::new(false);
    let address = server.address;
    let (reclaimed, samples) = std::thread::scope(|scope| {
        let steady = scope.spawn(|| -> Outcome<Vec<Sample>> {
            pin(LOAD_CPU)?;
            let mut reserves = Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(seed ^ 1));
            open(address, STEADY_CONNECTIONS, STEADY_PER_SECOND, &stop, &mut reserves)
        });
        let reclaimed = until_reclaimed(&mut Connection::open(address)?, due_instant);
        std::thread::sleep(LEAD_OUT);
        stop.store(true, Ordering::Relaxed);
        let samples = steady.join().unwrap_or_else(|_| fail("the steady load panicked"))?;
        Outcome::Ok((reclaimed?, samples))
    })?;
    audit(&server, DUE, 1, 0)?;
    audit(&server, HOT, 1, samples.len() as u64)?;
    server.stop()?;

    let mut latency = histogram()?;
    for sample in samples.iter().filter(|sample| sample.intended >= due_instant) {
        latency.record(u64::try_from(sample.latency.as_nanos())?.max(1))?;
    }
    Ok(Reclaimed {
        seconds: (reclaimed - due_instant).as_secs_f64(),
        p99_millis: latency.value_at_quantile(0.99) as f64 / 1e6,
    })
}

/// When the crowd was gone.
fn until_reclaimed(client: &mut Connection, due: Instant) -> Outcome<Instant> {
    let sku = sku(DUE, 0);
    loop {
        let active = available(client, &sku)?.active_reservations;
        let now = Instant::now();
        if active < HOLDS && now < due {
            return fail(format!("{} holds ended before their deadline", HOLDS - active));
        }
        if active == 0 {
            return Ok(now);
        }
        if now > due + GIVE_UP {
            return fail(format!("{active} holds are still active {GIVE_UP:?} after their deadline"));
        }
        std::thread::sleep(POLL);
    }
}
