//! What an operator does: a second server on the same data, and a stop under load.

use super::FaultTest;
use crate::rng::Rng;
use crate::spawn::{Launch, Readiness, STOP_TIMEOUT, Server};
use crate::workload::{CLIENTS, Depth, Fleet, Tolerance};
use crate::{Outcome, fail};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest that a second server may take to refuse.
const REFUSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Operations of each client on a server that goes on, or starts again.
const AFTERWARDS: usize = 50;
const STOPS: u64 = 20;
/// The load lasts this long before the stop, in milliseconds.
const LOAD_MILLIS: (u64, u64) = (20, 200);

/// A second server on the same data is refused with a message, and the first goes on.
pub(super) fn second_server(bench: &FaultTest<'_>) -> Outcome<()> {
    let folder = bench.room("second")?;
    let launch = Launch::new(bench.binary, &folder.join("data"));
    let first = Server::start(&launch)?;
    let mut fleet = Fleet::new(bench.seed, CLIENTS, false);
    fleet.set_stock(first.address)?;

    let mut second = Server::spawn(&Launch { log: folder.join("second.log"), ..launch })?;
    let Readiness::Ended(status) = second.until_ready(REFUSE_TIMEOUT)? else {
        return fail("a second server serves the same data");
    };
    let said = second.process.log_tail();
    if status.code().is_none_or(|code| code == 0) || said.contains("panicked") || !said.contains("data") {
        return fail(format!("the second server ended with {status} and said: {said}"));
    }
    fleet.answers_everything(first.address, AFTERWARDS)?;
    fleet.audit(first.address, Depth::Everything)?;
    first.stop()?;
    println!("second: refused with {status}: {said}; the first went on");
    Ok(())
}

/// A server that is told to stop answers everything that was sent before, ends with 0, and has kept it all.
pub(super) fn drain(bench: &FaultTest<'_>) -> Outcome<()> {
    let folder = bench.room("drain")?;
    let launch = Launch::new(bench.binary, &folder.join("data"));
    let mut fleet = Fleet::new(bench.seed, CLIENTS, false);
    let mut rng = Rng::new(bench.seed);
    let mut slowest = Duration::ZERO;
    for number in 0..STOPS {
        let mut server = Server::start(&launch)?;
        if number == 0 {
            fleet.set_stock(server.address)?;
        }
        fleet.resolve(server.address)?;
        let wait = Duration::from_millis(rng.between(LOAD_MILLIS.0, LOAD_MILLIS.1));
        let stop = AtomicBool::new(false);
        let address = server.address;
        let (told, status) = std::thread::scope(|scope| {
            let load = scope.spawn(|| fleet.load(address, &stop, Tolerance::Stopping));
            std::thread::sleep(wait);
            let told = Instant::now();
            let status = server.process.terminate().and_then(|()| server.process.wait(STOP_TIMEOUT));
            slowest = slowest.max(told.elapsed());
            stop.store(true, Ordering::Relaxed);
            load.join().unwrap_or_else(|_| fail("the load panicked"))?;
            Outcome::Ok((told, status?))
        })?;
        if !status.success() {
            return fail(format!("stop {number}: {status}\n{}", server.process.log_tail()));
        }
        let cut_off = fleet.cut_off(told);
        if cut_off > 0 {
            return fail(format!("stop {number}: {cut_off} requests sent before it were never answered"));
        }
    }
    let server = Server::start(&launch)?;
    fleet.resolve(server.address)?;
    fleet.answers_everything(server.address, AFTERWARDS)?;
    fleet.audit(server.address, Depth::Everything)?;
    server.stop()?;
    println!("drain: {STOPS} stops under load, the slowest {slowest:?}; {}; nothing lost", fleet.counts());
    Ok(())
}
