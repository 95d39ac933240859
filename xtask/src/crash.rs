//! `cargo xtask crash`: kill −9 at random moments under real HTTP load, restart on the same data, and hold the server to
//! every answer it gave: nothing acknowledged is lost, nothing is sold or returned twice.

use crate::clock::wall_millis;
use crate::rng::Rng;
use crate::spawn::{Launch, START_TIMEOUT, Server, scratch, server_binary, verify};
use crate::workload::{CLIENTS, Depth, Fleet, Tolerance};
use crate::{Outcome, fail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The load lasts this long before the kill, in milliseconds.
const LOAD_MILLIS: (u64, u64) = (10, 300);
/// So many starts in a hundred are killed before they are ready, within so many milliseconds.
const EARLY_PERCENT: u64 = 10;
const EARLY_MILLIS: u64 = 40;
/// The books are recounted by `stockhold verify` after so many kills, and after the last.
const VERIFY_EVERY: u64 = 50;
const PROGRESS_EVERY: u64 = 25;

/// How the harness is run.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How often the server is killed
    #[arg(long, default_value_t = 500)]
    kills: u64,
    /// Repeats a run's choices; the moments at which kills hit stay the machine's
    #[arg(long)]
    seed: Option<u64>,
    /// Connections, each with one request in flight
    #[arg(long, default_value_t = CLIENTS)]
    connections: usize,
    /// Where the temporary data goes
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let binary = server_binary(options.server.as_deref())?;
    let seed = options.seed.unwrap_or_else(wall_millis);
    println!("seed {seed}: {} kills, {} connections", options.kills, options.connections);
    let mut folder = scratch(options.disk.as_deref(), "stockhold-crash-")?;
    let mut harness = Harness {
        fleet: Fleet::new(seed, options.connections, true),
        rng: Rng::new(seed),
        launch: Launch::new(&binary, &folder.path().join("data")),
        early: 0,
    };
    let start = Instant::now();
    let result = harness.run(options.kills, &binary);
    println!(
        "{} s; {} reservations known; {}; {} kills before ready",
        start.elapsed().as_secs(),
        harness.fleet.known(),
        harness.fleet.counts(),
        harness.early,
    );
    if let Err(error) = result {
        folder.disable_cleanup(true);
        let kept = folder.path().display();
        return fail(format!("seed {seed}, data and log kept in {kept}:\n{error}"));
    }
    println!("0 lost, 0 oversold, 0 returned twice");
    Ok(())
}

struct Harness {
    fleet: Fleet,
    rng: Rng,
    launch: Launch,
    early: u64,
}

impl Harness {
    fn run(&mut self, kills: u64, binary: &Path) -> Outcome<()> {
        let mut server = Server::start(&self.launch)?;
        self.fleet.set_stock(server.address)?;
        for kill in 1..=kills {
            self.load_and_kill(&mut server)?;
            if kill % VERIFY_EVERY == 0 || kill == kills {
                verify(binary, &self.launch.data)?;
            }
            server = self.restart().map_err(|error| format!("after kill {kill}: {error}"))?;
            let depth = if kill == kills { Depth::Everything } else { Depth::Recent };
            self.fleet
                .resolve(server.address)
                .and_then(|()| self.fleet.audit(server.address, depth))
                .map_err(|error| format!("after kill {kill}: {error}"))?;
            if kill % PROGRESS_EVERY == 0 {
                println!("{kill}/{kills}: {}", self.fleet.counts());
            }
        }
        server.stop()?;
        verify(binary, &self.launch.data)
    }

    fn load_and_kill(&mut self, server: &mut Server) -> Outcome<()> {
        let wait = Duration::from_millis(self.rng.between(LOAD_MILLIS.0, LOAD_MILLIS.1));
        let stop = AtomicBool::new(false);
        let (fleet, address) = (&mut self.fleet, server.address);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| fleet.load(address, &stop, usize::MAX, Tolerance::None));
            std::thread::sleep(wait);
            let ended = server.process.ended();
            let killed = server.process.kill();
            stop.store(true, Ordering::Relaxed);
            load.join().unwrap_or_else(|_| fail("the load panicked"))?;
            killed?;
            match ended? {
                None => Ok(()),
                Some(status) => {
                    fail(format!("the server ended by itself: {status}\n{}", server.process.log_tail()))
                }
            }
        })
    }

    /// Starts the server again, sometimes killing it while it recovers.
    fn restart(&mut self) -> Outcome<Server> {
        while self.rng.percent(EARLY_PERCENT) {
            let mut server = Server::spawn(&self.launch)?;
            std::thread::sleep(Duration::from_millis(self.rng.below(EARLY_MILLIS)));
            server.process.kill()?;
            self.early += 1;
        }
        let begin = Instant::now();
        let server = Server::start(&self.launch)?;
        if begin.elapsed() > START_TIMEOUT / 2 {
            println!("slow start: {:?}", begin.elapsed());
        }
        Ok(server)
    }
}
