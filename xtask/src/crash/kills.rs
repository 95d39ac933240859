//! Kill −9 at random moments under load, and sometimes while the start that follows recovers.

use super::{Harness, Options};
use crate::rng::Rng;
use crate::spawn::{Build, Launch, Server, server_binary, verify};
use crate::workload::Tolerance;
use crate::{Outcome, fail};
use std::time::{Duration, Instant};

/// The load lasts this long before the kill, in milliseconds.
const LOAD_MILLIS: (u64, u64) = (10, 300);
/// So many starts in a hundred are killed before they are ready, within so many milliseconds.
const EARLY_PERCENT: u64 = 10;
const EARLY_MILLIS: u64 = 40;
/// The books are recounted by `stockhold verify` after so many kills, and after the last.
const VERIFY_EVERY: u64 = 50;
const PROGRESS_EVERY: u64 = 100;

pub(super) fn run(options: &Options, seed: u64) -> Outcome<()> {
    let binary = server_binary(options.server.as_deref(), Build::Dev)?;
    let mut harness = Harness::new(options, seed, &binary)?;
    let mut early = 0;
    let result = kills(&mut harness, options.kills, &mut early);
    let server = harness.keep_folder_on_error(result)?;
    harness.end(server, &format!("{} kills, {early} more before ready", options.kills))
}

fn kills(harness: &mut Harness, kills: u64, early: &mut u64) -> Outcome<Server> {
    let mut server = harness.begin()?;
    for kill in 1..=kills {
        let killed = harness.under_load(&mut server, Tolerance::None, kill_soon)?;
        harness.fleet.none_lost_before(killed)?;
        let launch = harness.launch.clone();
        if kill % VERIFY_EVERY == 0 || kill == kills {
            verify(&launch.binary, &launch.data)?;
        }
        while harness.rng.percent(EARLY_PERCENT) {
            *early += 1;
            kill_early(&launch, &mut harness.rng)?;
        }
        server = harness.recover(&launch).map_err(|error| format!("after kill {kill}: {error}"))?;
        if kill % PROGRESS_EVERY == 0 {
            println!("{kill}/{kills}: {}", harness.fleet.counts());
        }
    }
    Ok(server)
}

fn kill_soon(server: &mut Server, rng: &mut Rng) -> Outcome<Instant> {
    std::thread::sleep(Duration::from_millis(rng.between(LOAD_MILLIS.0, LOAD_MILLIS.1)));
    let (ended, killed) = (server.process.ended()?, Instant::now());
    server.process.kill()?;
    match ended {
        None => Ok(killed),
        Some(status) => fail(format!("the server ended by itself: {status}\n{}", server.process.log_tail())),
    }
}

fn kill_early(launch: &Launch, rng: &mut Rng) -> Outcome<()> {
    let mut server = Server::spawn(launch)?;
    std::thread::sleep(Duration::from_millis(rng.below(EARLY_MILLIS)));
    server.process.kill()
}
