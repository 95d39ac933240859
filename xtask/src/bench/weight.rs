//! What a hold weighs in memory, and how long a start takes.

use super::base::{Contents, PREPARED_TTL_SECONDS, START, fill, launch, start, until_idle};
use super::counter_audit::HOT;
use super::lab::{Lab, ServerOnData};
use crate::Outcome;
use crate::load::commands::Commands;
use crate::load::{Plan, closed};
use crate::rng::Rng;
use crate::spawn::{Readiness, Server};
use std::path::Path;
use std::time::Instant;

/// Commands in a request: few, since what large requests leave with the allocator is no hold's.
const BATCH: usize = 64;
const CONNECTIONS: usize = 4;

/// Bytes of anonymous memory a process has.
pub(crate) fn anonymous(pid: u32) -> Outcome<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("no RssAnon in /proc/…/status")?;
    Ok(kib.parse::<u64>()? << 10)
}

/// Bytes of anonymous memory for each of so many active holds with owners and keys of 36 bytes: what a server has more than
/// before it had them, the larger of while they are new and after a restart.
pub(super) fn active_hold(lab: &Lab, holds: u64) -> Outcome<f64> {
    let ServerOnData { server, data, folder } = lab.serve_empty()?;
    let few = Contents { items: 1, ..Contents::default() };
    fill(&server, Contents::default(), few)?;
    until_idle(server.process.pid())?;
    let before = anonymous(server.process.pid())?;
    let ttl = PREPARED_TTL_SECONDS;
    let mut reserves =
        Commands::new(BATCH, (HOT, 1), ttl, CONNECTIONS, Rng::new(holds)).first(holds).patient();
    closed(server.address, CONNECTIONS, Plan::ALL, None, &mut reserves)?;
    until_idle(server.process.pid())?;
    let made = anonymous(server.process.pid())?;
    server.stop()?;
    let server = start(&launch(&lab.bases.binary, &data))?;
    until_idle(server.process.pid())?;
    let most = made.max(anonymous(server.process.pid())?);
    server.stop()?;
    drop(folder);
    Ok(most.saturating_sub(before) as f64 / holds as f64)
}

/// Seconds from the start of the program until it is ready, and the server.
pub(crate) fn timed_start(binary: &Path, data: &Path) -> Outcome<(f64, Server)> {
    let began = Instant::now();
    let mut server = Server::spawn(&launch(binary, data))?;
    match server.until_ready(START)? {
        Readiness::Ready => Ok((began.elapsed().as_secs_f64(), server)),
        Readiness::Ended(status) => {
            Err(format!("the server ended at its start: {status}\n{}", server.process.log_tail()).into())
        }
    }
}

/// Seconds that a start takes with much that is closed, after a stop.
pub(super) fn restart(lab: &Lab) -> Outcome<f64> {
    let (seconds, server) = timed_start(&lab.bases.binary, &lab.much_closed()?)?;
    until_idle(server.process.pid())?;
    server.stop()?;
    Ok(seconds)
}
