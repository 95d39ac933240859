//! What users are promised anywhere: reserves and looks at the stock at a steady rate, open loop, on one server.

use super::counter_audit::{CounterAudit, HOT};
use super::lab::{DataSet, Lab, TTL_SECONDS};
use crate::load::http::{Reserves, sku};
use crate::load::open::{Sample, latency, millis, open};
use crate::load::reads::Constant;
use crate::load::{LOAD_CPU, Plan, Traffic, pin};
use crate::rng::Rng;
use crate::spawn::Server;
use crate::{Outcome, fail};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Instant;

/// Reserves per second, and as many looks at the stock.
pub(super) const PER_SECOND: u32 = 1_400;

const CONNECTIONS: usize = 64;

/// 50th and 99th percentile in milliseconds from the intended send time, of reserves and of looks.
pub(super) fn measure(lab: &Lab, plan: Plan, seed: u64) -> Outcome<[(f64, f64); 2]> {
    let running = lab.serve(DataSet::Usual, None)?;
    let measured = on(&running.server, plan, seed)?;
    running.stop()?;
    Ok(measured)
}

/// The same of a server that runs, and has the hot SKU.
pub(super) fn on(server: &Server, plan: Plan, seed: u64) -> Outcome<[(f64, f64); 2]> {
    let address = server.address;
    let books = CounterAudit::open(address, HOT, 1)?;
    let stop = AtomicBool::new(false);
    let begin = Instant::now() + plan.warm_up;
    let (reserves, looks) = std::thread::scope(|scope| {
        let reserves = Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(seed));
        let looks = Constant::get(&format!("/v1/inventory/{}/available", sku(HOT, 0)));
        let reserves = steady(scope, address, &stop, reserves);
        let looks = steady(scope, address, &stop, looks);
        std::thread::sleep(plan.warm_up + plan.measure);
        stop.store(true, Ordering::Relaxed);
        let end = |thread: ScopedJoinHandle<'_, Outcome<Vec<Sample>>>| {
            thread.join().unwrap_or_else(|_| fail("the steady load panicked"))
        };
        Outcome::Ok((end(reserves)?, end(looks)?))
    })?;
    books.audit(reserves.len() as u64, 0)?;
    Ok([percentiles(&reserves, begin)?, percentiles(&looks, begin)?])
}

fn steady<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    address: SocketAddr,
    stop: &'scope AtomicBool,
    mut traffic: impl Traffic + Send + 'scope,
) -> ScopedJoinHandle<'scope, Outcome<Vec<Sample>>> {
    scope.spawn(move || {
        pin(LOAD_CPU)?;
        open(address, CONNECTIONS, PER_SECOND, stop, &mut traffic)
    })
}

fn percentiles(samples: &[Sample], begin: Instant) -> Outcome<(f64, f64)> {
    let latency = latency(samples, begin)?;
    Ok((millis(&latency, 0.5), millis(&latency, 0.99)))
}
