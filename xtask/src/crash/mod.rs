//! `cargo xtask crash`: everything that can end a server or its disk under real HTTP load: kill −9 at random moments, every
//! named fault point with every action, failing and half-made writes and syncs, a full disk, a clock that jumps. After each
//! it is restarted on the same data and held to every answer it gave: nothing acknowledged is lost, nothing is sold or
//! returned twice, and `stockhold verify` finds nothing.

mod clock;
mod disk;
mod kills;
mod points;

use crate::clock::wall_millis;
use crate::rng::Rng;
use crate::spawn::{Launch, START_TIMEOUT, Server, scratch, verify};
use crate::workload::{CLIENTS, Depth, Fleet, Tolerance};
use crate::{Outcome, fail};
use clap::{Args, value_parser};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A server that was hurt has to end, or to serve, within this time.
const DECIDE_TIMEOUT: Duration = Duration::from_secs(10);
/// Operations of each client after a recovery.
const AFTERWARDS: usize = 3;

/// How the harness is run.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How often the server is killed at a random moment
    #[arg(long, default_value_t = 500, value_parser = value_parser!(u64).range(1..))]
    kills: u64,
    /// Faults of the disk, each at a random write or sync
    #[arg(long, default_value_t = 60, value_parser = value_parser!(u64).range(1..))]
    disk_faults: u64,
    /// Starts with a clock that jumps
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u64).range(1..))]
    jumps: u64,
    /// Each fault point with one action, chosen by the seed, and not with all
    #[arg(long)]
    short: bool,
    /// Only these
    #[arg(long, value_delimiter = ',', value_parser = ["kills", "points", "disk", "clock"])]
    only: Vec<String>,
    /// Only fault points whose names begin so
    #[arg(long, value_name = "PREFIX", default_value = "")]
    point: String,
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

impl Options {
    /// A run of `cargo xtask prove`.
    pub(crate) fn of(
        only: &str,
        (kills, disk_faults, jumps): (u64, u64, u64),
        short: bool,
        seed: u64,
        server: &Path,
    ) -> Self {
        Self {
            kills,
            disk_faults,
            jumps,
            short,
            only: vec![only.to_owned()],
            point: String::new(),
            seed: Some(seed),
            connections: CLIENTS,
            disk: None,
            server: Some(server.to_owned()),
        }
    }
}

/// One kind of harm, with its options and seed.
type Rounds = fn(&Options, u64) -> Outcome<()>;

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let seed = options.seed.unwrap_or_else(wall_millis);
    println!("seed {seed}, {} connections", options.connections);
    let rounds: [(&str, Rounds); 4] =
        [("kills", kills::run), ("points", points::run), ("disk", disk::run), ("clock", clock::run)];
    for (name, round) in rounds {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
            continue;
        }
        round(options, seed).map_err(|error| format!("{name}, seed {seed}: {error}"))?;
    }
    println!("0 lost, 0 oversold, 0 returned twice");
    Ok(())
}

/// Buyers and the data directory that their server is hurt on.
struct Harness {
    fleet: Fleet,
    rng: Rng,
    launch: Launch,
    folder: tempfile::TempDir,
    began: Instant,
}

impl Harness {
    fn new(options: &Options, seed: u64, binary: &Path) -> Outcome<Self> {
        let folder = scratch(options.disk.as_deref(), "stockhold-crash-")?;
        Ok(Self {
            fleet: Fleet::new(seed, options.connections, true),
            rng: Rng::new(seed),
            launch: Launch::new(binary, &folder.path().join("data")),
            folder,
            began: Instant::now(),
        })
    }

    /// The first start.
    fn begin(&mut self) -> Outcome<Server> {
        let server = Server::start(&self.launch)?;
        self.fleet.set_stock(server.address)?;
        Ok(server)
    }

    /// How to start a server that will be hurt: its log is its own.
    fn hurting(&self, env: Vec<(String, String)>) -> Launch {
        let log = self.folder.path().join("hurt.log");
        std::fs::remove_file(&log).ok();
        Launch { log, env, ..self.launch.clone() }
    }

    /// The end: everything is asked again, and recounted.
    fn end(mut self, server: Server, name: &str) -> Outcome<()> {
        let ended = self
            .fleet
            .resolve(server.address)
            .and_then(|()| self.fleet.audit(server.address, Depth::Everything))
            .and_then(|()| server.stop())
            .and_then(|()| verify(&self.launch.binary, &self.launch.data));
        let (known, counts) = (self.fleet.known(), self.fleet.counts());
        self.keep_folder_on_error(ended)?;
        println!("{name}: {} s; {known} reservations known; {counts}", self.began.elapsed().as_secs());
        Ok(())
    }

    /// Keeps the data and says where when something was wrong.
    fn keep_folder_on_error<T>(&mut self, result: Outcome<T>) -> Outcome<T> {
        result.map_err(|error| {
            self.folder.disable_cleanup(true);
            format!("data and log kept in {}:\n{error}", self.folder.path().display()).into()
        })
    }

    /// Load for a time, and meanwhile whatever happens to the server; then the load ends.
    fn under_load<T>(
        &mut self,
        server: &mut Server,
        tolerance: Tolerance,
        meanwhile: impl FnOnce(&mut Server, &mut Rng) -> Outcome<T>,
    ) -> Outcome<T> {
        let stop = AtomicBool::new(false);
        let (fleet, rng, address) = (&mut self.fleet, &mut self.rng, server.address);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| fleet.load(address, &stop, tolerance));
            let result = meanwhile(server, rng);
            stop.store(true, Ordering::Relaxed);
            load.join().unwrap_or_else(|_| fail("the load panicked"))?;
            result
        })
    }

    /// Starts again on the same data, repeats what was not answered, asks about everything that was touched, and has the
    /// server do its work.
    fn recover(&mut self, launch: &Launch) -> Outcome<Server> {
        let begin = Instant::now();
        let server = Server::start(launch)?;
        if begin.elapsed() > START_TIMEOUT / 2 {
            println!("slow start: {:?}", begin.elapsed());
        }
        self.fleet.resolve(server.address)?;
        self.fleet.audit(server.address, Depth::Recent)?;
        self.fleet.answers_everything(server.address, AFTERWARDS)?;
        Ok(server)
    }
}

/// What became of a server that was hurt and may live on.
#[derive(Clone, Copy, Debug)]
enum ServerFate {
    Ended(ExitStatus),
    /// It says that it is ready.
    Serves,
    /// By the harness, since nothing had happened to it.
    Killed,
}

/// Waits until a server has ended or is well.
fn fate(server: &mut Server) -> Outcome<ServerFate> {
    let deadline = Instant::now() + DECIDE_TIMEOUT;
    loop {
        if let Some(status) = server.process.ended()? {
            return Ok(ServerFate::Ended(status));
        }
        // A store that failed says so at once, and its process ends half a second later.
        if server.is_ready() {
            return Ok(ServerFate::Serves);
        }
        if Instant::now() > deadline {
            return fail(format!("neither serves nor ends\n{}", server.process.log_tail()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A failure that the server noticed by itself: it ended, with a code that says so and no panic.
fn ended_in_order(server: &Server, status: ExitStatus, may_panic: bool) -> Outcome<()> {
    let panicked = server.process.log().contains("panicked");
    if status.code().is_none_or(|code| code == 0) || (panicked && !may_panic) {
        return fail(format!("ended with {status}\n{}", server.process.log_tail()));
    }
    Ok(())
}
