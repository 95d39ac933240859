//! Disks that fail at a random write or sync under load, run full, or lose the process in the middle of a write. A server
//! whose sync has failed ends; one whose write has failed ends or goes on without it; nothing acknowledged is lost.

use super::{Harness, Options, ServerFate, ended_in_order, fate};
use crate::rng::Rng;
use crate::shim::{DiskFault, Shim};
use crate::spawn::{Build, Server, server_binary, verify};
use crate::workload::Tolerance;
use crate::{Outcome, fail};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The disk works this long under load before it is armed, in milliseconds.
const HEALTHY_MILLIS: (u64, u64) = (5, 120);
/// Longest load until the fault has happened.
const PATIENCE: Duration = Duration::from_secs(4);
/// The load goes on this long after it.
const AFTER: Duration = Duration::from_millis(100);
/// The fault hits one of the first so many writes, syncs or bytes since arming.
const NTH: u64 = 400;
const ROOM_BYTES: u64 = 6_000_000;

pub(super) fn run(options: &Options, seed: u64) -> Outcome<()> {
    let binary = server_binary(options.server.as_deref(), Build::Dev)?;
    let mut harness = Harness::new(options, seed, &binary)?;
    let result = rounds(&mut harness, options.disk_faults);
    let (server, counts) = harness.keep_folder_on_error(result)?;
    for (what, [ended, served]) in &counts {
        println!("disk, {what}: the server ended {ended} times and went on {served} times");
    }
    harness.end(server, "disk")
}

type Counts = BTreeMap<&'static str, [u64; 2]>;

fn rounds(harness: &mut Harness, count: u64) -> Outcome<(Server, Counts)> {
    let mut server = harness.begin()?;
    let mut counts = Counts::new();
    for round in 0..count {
        server.process.kill()?;
        let (name, trick) = pick(round, &mut harness.rng);
        let ended = hurt(harness, trick)
            .and_then(|ended| {
                counts.entry(name).or_default()[usize::from(!ended)] += 1;
                verify(&harness.launch.binary, &harness.launch.data)
            })
            .and_then(|()| {
                let launch = harness.launch.clone();
                harness.recover(&launch)
            });
        server = ended.map_err(|error| format!("round {round}, {trick:?}: {error}"))?;
    }
    Ok((server, counts))
}

fn pick(round: u64, rng: &mut Rng) -> (&'static str, DiskFault) {
    let nth = rng.between(1, NTH);
    match round % 7 {
        0 => ("a sync fails once", DiskFault::SyncFailsOnce(nth)),
        1 => ("a write fails", DiskFault::WriteFails(nth)),
        2 => ("killed in a write", DiskFault::KilledAtWrite(nth)),
        3 => ("no room", DiskFault::NoSpaceAfter(rng.between(1, ROOM_BYTES))),
        4 => ("killed at a sync", DiskFault::KilledAtSync(nth)),
        5 => ("a write fails once", DiskFault::WriteFailsOnce(nth)),
        _ => ("syncs fail", DiskFault::SyncFails(nth)),
    }
}

/// Whether the server ended.
fn hurt(harness: &mut Harness, trick: DiskFault) -> Outcome<bool> {
    let shim = Shim::prepare(harness.folder.path(), trick)?;
    let launch = harness.hurting(shim.env());
    let mut server = Server::start(&launch)?;
    harness.fleet.resolve(server.address)?;
    let fate = harness.under_load(&mut server, Tolerance::Failure, |server, rng| {
        std::thread::sleep(Duration::from_millis(rng.between(HEALTHY_MILLIS.0, HEALTHY_MILLIS.1)));
        shim.arm()?;
        let until = Instant::now() + PATIENCE;
        while shim.fired()? == 0 {
            if Instant::now() > until {
                return fail("the fault never happened");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(AFTER);
        fate(server)
    })?;
    let killed = matches!(trick, DiskFault::KilledAtWrite(_) | DiskFault::KilledAtSync(_));
    let synced = matches!(trick, DiskFault::SyncFails(_) | DiskFault::SyncFailsOnce(_));
    match fate {
        ServerFate::Ended(status) if killed && status.code().is_none() => Ok(true),
        ServerFate::Ended(status) if !killed => ended_in_order(&server, status, false).map(|()| true),
        ServerFate::Ended(status) => fail(format!("ended with {status}\n{}", server.process.log_tail())),
        ServerFate::Serves if synced => fail("a sync failed, and the server goes on"),
        ServerFate::Serves | ServerFate::Killed => {
            server.process.kill()?;
            Ok(false)
        }
    }
}
