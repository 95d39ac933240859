//! A wall clock that jumps by an hour, both ways, while the server runs and between one start and the next. While it runs
//! no deadline of an open hold moves; after a start with an earlier clock time stands still until it has caught up, and never runs
//! back.

use super::{Harness, Options};
use crate::clock::{servers_are_ahead, set_time_may_stand_still};
use crate::shim::Clock;
use crate::spawn::{Build, Launch, Server, server_binary, verify};
use crate::workload::Tolerance;
use crate::{Outcome, fail};
use std::time::{Duration, Instant};

const HOUR: i64 = 3_600;
/// The load lasts this long on either side of a jump, in milliseconds.
const LOAD_MILLIS: (u64, u64) = (50, 800);

pub(super) fn run(options: &Options, seed: u64) -> Outcome<()> {
    let binary = server_binary(options.server.as_deref(), Build::Dev)?;
    let mut harness = Harness::new(options, seed, &binary)?;
    set_time_may_stand_still(true);
    let result = jumps(&mut harness, options.jumps);
    let server = harness.keep_folder_on_error(result)?;
    let ended = harness.end(server, &format!("{} starts with a clock that jumps", options.jumps));
    servers_are_ahead(0);
    set_time_may_stand_still(false);
    ended
}

fn jumps(harness: &mut Harness, jumps: u64) -> Outcome<Server> {
    let mut server = harness.begin()?;
    let clock = Clock::prepare(harness.folder.path())?;
    let launch = Launch { env: clock.env(), ..harness.launch.clone() };
    let mut ahead = 0;
    for jump in 0..jumps {
        server.process.kill()?;
        verify(&launch.binary, &launch.data)?;
        // The right time first, so that holds have been told deadlines by it.
        let at_start = [0, -HOUR, HOUR, 0, -HOUR][usize::try_from(jump % 5)?];
        let meanwhile = [HOUR, -HOUR][harness.rng.index(2)];
        clock.set(at_start)?;
        // Without an open hold, the server's time follows a step forward.
        let furthest = at_start.max(at_start + meanwhile);
        ahead = ahead.max(u64::try_from(furthest).unwrap_or_default());
        servers_are_ahead(ahead);
        let hurt = harness.recover(&launch).and_then(|started| {
            server = started;
            let killed = harness.under_load(&mut server, Tolerance::None, |server, rng| {
                let mut wait =
                    || std::thread::sleep(Duration::from_millis(rng.between(LOAD_MILLIS.0, LOAD_MILLIS.1)));
                wait();
                clock.set(at_start + meanwhile)?;
                wait();
                match (server.process.ended()?, Instant::now()) {
                    (None, killed) => server.process.kill().map(|()| killed),
                    (Some(status), _) => {
                        fail(format!("ended by itself: {status}\n{}", server.process.log_tail()))
                    }
                }
            })?;
            harness.fleet.none_lost_before(killed)
        });
        hurt.map_err(|error| {
            format!("jump {jump}, {at_start} s at the start, {meanwhile} s after: {error}")
        })?;
    }
    clock.set(0)?;
    harness.recover(&launch)
}
