//! A disk that stops working under load. The batch that hits it is answered `outcome_unknown`, everything after it
//! `unavailable`, nothing is acknowledged that is gone after the restart, and the process ends with an error.

use super::FaultTest;
use crate::shim::{DiskFault, Shim};
use crate::spawn::{Launch, STOP_TIMEOUT, Server, verify};
use crate::workload::{CLIENTS, Counts, Depth, Fleet, Tolerance};
use crate::{Outcome, fail as failed};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The disk works this long under load before it stops.
const HEALTHY: Duration = Duration::from_millis(150);
/// Operations of each client after the restart.
const AFTERWARDS: usize = 50;

/// One disk that fails in one way; what the clients saw.
pub(super) fn fail(bench: &FaultTest<'_>, name: &str, trick: DiskFault) -> Outcome<Counts> {
    let folder = bench.room(name)?;
    let shim = Shim::prepare(&folder, trick)?;
    let healthy = Launch::new(bench.binary, &folder.join("data"));
    let mut server = Server::start(&Launch { env: shim.env(), ..healthy.clone() })?;
    let mut fleet = Fleet::new(bench.seed, CLIENTS, false);
    fleet.set_stock(server.address)?;

    let stop = AtomicBool::new(false);
    let address = server.address;
    let status = std::thread::scope(|scope| {
        let load = scope.spawn(|| fleet.load(address, &stop, Tolerance::Failure));
        std::thread::sleep(HEALTHY);
        let armed = shim.arm();
        let status = server.process.wait(STOP_TIMEOUT);
        stop.store(true, Ordering::Relaxed);
        load.join().unwrap_or_else(|_| failed("the load panicked"))?;
        armed.and(status)
    })
    .map_err(|error| format!("{name}: {error}"))?;
    let log = server.process.log();
    if shim.fired()? == 0 {
        return failed(format!("{name}: the fault never happened\n{}", server.process.log_tail()));
    }
    if status.code().is_none_or(|code| code == 0) || log.contains("panicked") {
        return failed(format!("{name}: ended with {status}\n{}", server.process.log_tail()));
    }
    let seen = fleet.counts();

    let server = Server::start(&healthy)?;
    let recovered = fleet
        .resolve(server.address)
        .and_then(|()| fleet.audit(server.address, Depth::Everything))
        .and_then(|()| fleet.answers_everything(server.address, AFTERWARDS))
        .and_then(|()| fleet.audit(server.address, Depth::Everything))
        .and_then(|()| server.stop())
        .and_then(|()| verify(bench.binary, &healthy.data));
    recovered.map_err(|error| format!("{name}, after the restart: {error}"))?;
    println!("{name}: {status}; {seen}; recovered, nothing lost of {}", fleet.known());
    Ok(seen)
}
