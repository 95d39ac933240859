//! A crowd falling due: 100,000 holds whose deadlines lie in one second, while reserves go on at a steady rate on
//! another SKU. Measured: how long until all are reclaimed, and what the reserves feel meanwhile.

use super::counter_audit::{CounterAudit, DUE, HOT};
use super::lab::{DataSet, Lab, TTL_SECONDS};
use crate::clock::wall_millis;
use crate::http::{Connection, Request};
use crate::load::http::{Reserves, sku};
use crate::load::open::{Sample, latency, millis, open};
use crate::load::{LOAD_CPU, Plan, closed, pin};
use crate::rng::Rng;
use crate::{Outcome, fail};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Reserves per second meanwhile.
pub(super) const STEADY_PER_SECOND: u32 = 1_000;

const CONNECTIONS: usize = 64;
const STEADY_CONNECTIONS: usize = 64;
/// The steady load starts this long before that second.
const LEAD_IN: Duration = Duration::from_secs(2);
/// The steady load goes on this long after the last is reclaimed, so that what follows is felt as well.
const LEAD_OUT: Duration = Duration::from_secs(1);
const GIVE_UP: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(10);

/// What one round gave.
pub(super) struct ExpiryRound {
    /// From the start of the second in which all fall due until none was active.
    pub(super) seconds: f64,
    /// Percentiles of the reserves from that start until a second after the end, from their intended send time.
    pub(super) p50_millis: f64,
    pub(super) p99_millis: f64,
}

/// One round on a fresh copy of the prepared data.
pub(super) fn measure(lab: &Lab, seed: u64) -> Outcome<ExpiryRound> {
    let (holds, ahead) = (lab.scale.crowd, lab.scale.ahead);
    let running = lab.serve(DataSet::Usual, None)?;
    let server = &running.server;
    let (due_books, hot_books) =
        (CounterAudit::open(server.address, DUE, 1)?, CounterAudit::open(server.address, HOT, 1)?);
    let due = wall_millis() + u64::try_from(ahead.as_millis())?;
    let start = Instant::now();
    let due_instant = start + ahead;
    let mut crowd = Reserves::new(DUE, 1, ahead.as_secs(), Rng::new(seed)).due(due).keep(holds);
    closed(server.address, CONNECTIONS, Plan::ALL, None, &mut crowd)?;
    if start.elapsed() + LEAD_IN + LEAD_IN > ahead {
        return fail(format!("{holds} holds took too long to make: they would not fall due at once"));
    }
    due_books.audit(holds, 0)?;

    std::thread::sleep(ahead.saturating_sub(LEAD_IN).saturating_sub(start.elapsed()));
    let stop = AtomicBool::new(false);
    let address = server.address;
    let mut client = Connection::open(address)?;
    let (reclaimed, samples) = std::thread::scope(|scope| {
        let steady = scope.spawn(|| -> Outcome<Vec<Sample>> {
            pin(LOAD_CPU)?;
            let mut reserves = Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(seed ^ 1));
            open(address, STEADY_CONNECTIONS, STEADY_PER_SECOND, &stop, &mut reserves)
        });
        let reclaimed = until_reclaimed(&mut client, holds, due_instant);
        std::thread::sleep(LEAD_OUT);
        stop.store(true, Ordering::Relaxed);
        let samples = steady.join().unwrap_or_else(|_| fail("the steady load panicked"))?;
        Outcome::Ok((reclaimed?, samples))
    })?;
    due_books.audit(0, 0)?;
    hot_books.audit(samples.len() as u64, 0)?;
    running.stop()?;

    let latency = latency(&samples, due_instant)?;
    Ok(ExpiryRound {
        seconds: (reclaimed - due_instant).as_secs_f64(),
        p50_millis: millis(&latency, 0.5),
        p99_millis: millis(&latency, 0.99),
    })
}

/// When the crowd was gone.
fn until_reclaimed(client: &mut Connection, holds: u64, due: Instant) -> Outcome<Instant> {
    let look = Request::get(format!("/v1/inventory/{}/available", sku(DUE, 0)));
    loop {
        let answer = client.call(&look)?;
        let Some(active) = answer.json()["active_reservations"].as_u64() else {
            return fail(format!("available: {}", answer.brief()));
        };
        let now = Instant::now();
        if active < holds && now < due {
            return fail(format!("{} holds ended before their deadline", holds - active));
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
