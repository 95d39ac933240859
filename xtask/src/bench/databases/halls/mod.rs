//! Halls: items whose units have ids. Claims of any unit of a hall, as fast as they go, beside one transaction per request
//! that locks a counter row; the same at a steady rate, with what it waits for; and a crowd that wants the last two units.
//!
//! Every round has halls of its own, since what one has claimed no other can.

pub(super) mod locks;
mod report;

use super::report::Series;
use super::store::Store;
use super::{CONNECTIONS, Options, Rivals, WARM_UP, tried};
use crate::bench::counter_audit::CounterAudit;
use crate::bench::lab::TTL_SECONDS;
use crate::bench::promise::PER_SECOND;
use crate::http::Request;
use crate::load::crowd::{LastUnitsReserves, crowd};
use crate::load::http::{Reserves, Script, seat, sku};
use crate::load::open::{latency, millis, open};
use crate::load::{Plan, Run, closed};
use crate::rng::Rng;
use crate::spawn::Server;
use crate::{Outcome, fail};
use locks::LockWaits;
use report::{EmbeddedResults, SteadyRound, UnitResults};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Halls that are claimed as fast as it goes, and at a steady rate: a family, numbered by the rounds.
const HALL: &str = "hall";
const UNITS: usize = 100_000;
/// The embedded store would have claimed all of a hall in two seconds.
const BRIEF: Plan = Plan { warm_up: Duration::from_millis(200), measure: Duration::from_secs(1) };
/// Halls whose units are asked for by their ids.
const NAMED: &str = "named";
/// Halls with next to nothing.
const PAIR: &str = "pair";
const LAST_UNITS: usize = 2;
const BUYERS: usize = 1_000;
/// Units that one request adds.
const AT_ONCE: usize = 10_000;
const ROW_UNITS: usize = 50;
/// The rivals that lock a counter row.
const COUNTER: &str = "FOR UPDATE";

/// All of it over a database.
pub(super) fn over(rivals: &impl Rivals, store: &Store<'_>, options: &Options) -> Outcome<String> {
    let plan = Plan { warm_up: WARM_UP, measure: Duration::from_secs(options.seconds) };
    let with_counter = |forms: &'static [&'static str]| -> Vec<&'static str> {
        forms.iter().copied().filter(|form| form.starts_with(COUNTER)).collect()
    };
    let (forms, procedures) = (with_counter(rivals.forms()), with_counter(rivals.procedures()));
    let mut taken = UnitResults::default();
    for round in 1..=options.rounds {
        let mut rng = Rng::new(round);
        let number = usize::try_from(round)? - 1;
        let server = store.serve(None)?;
        build(&server, HALL, number, UNITS)?;
        rivals.settle()?;
        let (claimed, steady) = steady(rivals, &server, number, plan, rng.next())?;
        let left = (UNITS as u64).saturating_sub(claimed);
        let any = Reserves::new(HALL, 1, TTL_SECONDS, Rng::new(rng.next())).first(left);
        let run = claims(&server, (HALL, number), plan, any)?;
        let crowd = last_units(&server, number, rng.next())?;
        server.stop()?;
        println!(
            "round {round}: {:.0} claims/s; at {PER_SECOND}/s p95 {:.1} ms, p99 {:.1} ms; the crowd's p99 {crowd:.1} ms",
            run.rate, steady.p95, steady.p99
        );
        taken.rates.push(run.rate);
        taken.steady.push(steady);
        taken.crowds.push(crowd);
        tried(rivals, &forms, options.seconds, &mut taken.counters)?;
        tried(rivals, &procedures, options.seconds, &mut taken.procedures)?;
    }
    Ok(report::over(&taken))
}

/// Claims beside reserves of counted stock, and the crowd, on a store without a database.
pub(super) fn embedded(store: &Store<'_>, options: &Options) -> Outcome<String> {
    let mut taken = EmbeddedResults::default();
    for round in 1..=options.rounds {
        let mut rng = Rng::new(round);
        let number = usize::try_from(round)? - 1;
        let counted = store.reserves(None, CONNECTIONS, BRIEF, rng.next())?.rate;
        let server = store.serve(None)?;
        build(&server, HALL, number, UNITS)?;
        let any = Reserves::new(HALL, 1, TTL_SECONDS, Rng::new(rng.next())).first(UNITS as u64);
        let any = claims(&server, (HALL, number), BRIEF, any)?.rate;
        build(&server, NAMED, number, UNITS)?;
        let named = Reserves::of_seats(NAMED, UNITS, TTL_SECONDS, Rng::new(rng.next())).first(UNITS as u64);
        let named = claims(&server, (NAMED, number), BRIEF, named)?.rate;
        let crowd = last_units(&server, number, rng.next())?;
        server.stop()?;
        println!(
            "round {round}: {counted:.0} reserves/s of counted stock, {any:.0} claims/s of any unit, {named:.0} of one \
             by its id; the crowd's p99 {crowd:.1} ms"
        );
        taken.any.push(counted / any);
        taken.named.push(counted / named);
        taken.crowds.push(crowd);
    }
    Ok(report::embedded(&taken))
}

/// Makes a hall.
fn build(server: &Server, family: &str, number: usize, units: usize) -> Outcome<()> {
    let path = format!("/v1/inventory/{}", sku(family, number));
    let send = |method, path: String, body: serde_json::Value, status: &'static [u16]| {
        let request = Request { method, path, key: None, if_match: None, body: Some(body.to_string()) };
        closed(server.address, 1, Plan::ALL, None, &mut Script::new(std::iter::once(request), status))
    };
    send("PUT", path.clone(), json!({"mode": "units", "max_hold_seconds": TTL_SECONDS}), &[201])?;
    for first in (0..units).step_by(AT_ONCE) {
        let seat = |n: usize| {
            let row = n / ROW_UNITS + 1;
            json!({"unit_id": seat(n), "section": "stalls", "row": row.to_string()})
        };
        let seats: Vec<_> = (first..units.min(first + AT_ONCE)).map(seat).collect();
        send("POST", format!("{path}/units"), json!({"units": seats}), &[200])?;
    }
    Ok(())
}

/// Claims at a steady rate, open loop; how many there were, and what they felt.
fn steady(
    rivals: &impl Rivals,
    server: &Server,
    number: usize,
    plan: Plan,
    seed: u64,
) -> Outcome<(u64, SteadyRound)> {
    let address = server.address;
    rivals.watch()?;
    let unwatched = LockWaits::read(server.admin)?;
    let books = CounterAudit::open(address, HALL, number + 1)?;
    let stop = AtomicBool::new(false);
    let (samples, begin, locks) = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut claims = Reserves::new(HALL, 1, TTL_SECONDS, Rng::new(seed)).only(number);
            open(address, CONNECTIONS, PER_SECOND, &stop, &mut claims)
        });
        std::thread::sleep(plan.warm_up);
        let begin = Instant::now();
        let before = LockWaits::read(server.admin);
        std::thread::sleep(plan.measure);
        let after = LockWaits::read(server.admin);
        stop.store(true, Ordering::Relaxed);
        let samples = load.join().unwrap_or_else(|_| fail("the steady load panicked"))?;
        Outcome::Ok((samples, begin, after?.since(before?)))
    })?;
    let claimed = samples.len() as u64;
    books.audit(claimed, 0)?;
    let batches = LockWaits::read(server.admin)?.since(unwatched).all;
    let watched = rivals.watched()?;
    let latency = latency(&samples, begin)?;
    let [p95, p99] = [0.95, 0.99].map(|quantile| millis(&latency, quantile));
    Ok((claimed, SteadyRound { p95, p99, locks, batches, watched }))
}

/// Claims of a hall as fast as they go, until there is nothing left at the latest.
fn claims(
    server: &Server,
    (family, number): (&'static str, usize),
    plan: Plan,
    traffic: Reserves,
) -> Outcome<Run> {
    let books = CounterAudit::open(server.address, family, number + 1)?;
    let mut claims = traffic.only(number);
    let run = closed(server.address, CONNECTIONS, plan, Some(server.process.pid()), &mut claims)?;
    books.audit(run.answered, 0)?;
    Ok(run)
}

/// The last units of a hall, and a crowd that wants them: the 99th percentile of all answers in milliseconds.
fn last_units(server: &Server, number: usize, seed: u64) -> Outcome<f64> {
    build(server, PAIR, number, LAST_UNITS)?;
    let books = CounterAudit::open(server.address, PAIR, number + 1)?;
    let mut rush = LastUnitsReserves::new(Reserves::new(PAIR, 1, TTL_SECONDS, Rng::new(seed)).only(number));
    let latency = crowd(server.address, BUYERS, &mut rush)?;
    let LastUnitsReserves { held, refused, .. } = rush;
    if (held, refused) != (LAST_UNITS as u64, (BUYERS - LAST_UNITS) as u64) {
        return fail(format!("void: {held} holds and {refused} refusals of {LAST_UNITS} units"));
    }
    books.audit(held, 0)?;
    Ok(millis(&latency, 0.99))
}
