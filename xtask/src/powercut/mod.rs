//! `cargo xtask powercut`: what a power cut leaves of the data directory, under load. A preloaded library writes down every
//! write, sync and name in the order of asking; the server is killed at a random moment; from the recording images are made
//! that keep everything that was synced and, by several policies, nothing, all, a beginning, whole files or single sectors
//! of the rest. What the clients were told before the kill is what each image is held to: it is started, audited and
//! recounted by `stockhold verify`. It is a model of a disk (512-byte sectors written whole, a sync that does not lie, names
//! durable with their folder), not a machine whose plug is pulled.

mod disk;
mod record;

use crate::clock::wall_millis;
use crate::rng::Rng;
use crate::shim::library;
use crate::spawn::{Build, Launch, Server, scratch, server_binary, verify};
use crate::workload::{Depth, Fleet, Tolerance};
use crate::{Outcome, fail};
use clap::{Args, value_parser};
use disk::{Disk, KeepPolicy, POLICIES};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SOURCE: &str = include_str!("../../shim/diskshim.c");
/// Images of one cut, each by another policy.
const IMAGES_PER_CUT: u64 = 5;
/// One cut in so many hits a server on a new directory, which may be in the middle of making it.
const FRESH_EVERY: u64 = 6;
/// Load before the cut, in milliseconds.
const LOAD_MILLIS: (u64, u64) = (5, 400);
/// A server on a new directory is cut off within so many milliseconds of its beginning.
const BEGINNING_MILLIS: u64 = 150;
const CLIENTS: usize = 24;
/// Operations of each client on an image.
const AFTERWARDS: usize = 2;
const PROGRESS_EVERY: u64 = 100;

/// How the harness is run.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Images that are started and audited
    #[arg(long, default_value_t = 500, value_parser = value_parser!(u64).range(1..))]
    images: u64,
    /// Repeats a run's choices; the moments at which cuts hit stay the machine's
    #[arg(long)]
    seed: Option<u64>,
    /// Where the temporary data goes
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Use this server instead of building one
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
}

impl Options {
    /// A run of `cargo xtask prove`.
    pub(crate) fn of(images: u64, seed: u64, server: &Path) -> Self {
        Self { images, seed: Some(seed), disk: None, server: Some(server.to_owned()) }
    }
}

/// What happened.
#[derive(Debug, Default)]
struct Counts {
    cuts: u64,
    images: u64,
    syncs: usize,
    unsynced: usize,
    without_loss: u64,
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let binary = server_binary(options.server.as_deref(), Build::Dev)?;
    let seed = options.seed.unwrap_or_else(wall_millis);
    println!("seed {seed}: {} images", options.images);
    let mut folder = scratch(options.disk.as_deref(), "stockhold-powercut-")?;
    let mut bench = PowerCutTest {
        library: library(folder.path(), "diskshim", SOURCE)?,
        launch: Launch::new(&binary, &folder.path().join("data")),
        folder: folder.path().to_owned(),
        rng: Rng::new(seed),
        counts: Counts::default(),
    };
    let began = Instant::now();
    let mut fleet = Fleet::new(seed, CLIENTS, true);
    let result = bench.cuts(&mut fleet, options.images);
    let Counts { cuts, images, syncs, unsynced, without_loss } = bench.counts;
    println!(
        "{} s: {images} images of {cuts} power cuts, {syncs} syncs recorded, {unsynced} writes and names not synced at the cuts \
         ({without_loss} cuts with none); {} reservations known; {}",
        began.elapsed().as_secs(),
        fleet.known(),
        fleet.counts(),
    );
    if let Err(error) = result {
        folder.disable_cleanup(true);
        return fail(format!("seed {seed}, data and log kept in {}:\n{error}", folder.path().display()));
    }
    if unsynced == 0 {
        return fail("nothing was ever unsynced at a cut: no cut took anything away");
    }
    println!("0 lost, 0 oversold, 0 returned twice");
    Ok(())
}

struct PowerCutTest {
    library: PathBuf,
    launch: Launch,
    folder: PathBuf,
    rng: Rng,
    counts: Counts,
}

impl PowerCutTest {
    fn cuts(&mut self, fleet: &mut Fleet, images: u64) -> Outcome<()> {
        let server = Server::start(&self.launch)?;
        fleet.set_stock(server.address)?;
        server.stop()?;
        let data = self.launch.data.clone();
        while self.counts.images < images {
            self.counts.cuts += 1;
            let number = self.counts.cuts;
            if number.is_multiple_of(FRESH_EVERY) {
                let seed = self.rng.next();
                let mut strangers = Fleet::new(seed, CLIENTS, true);
                self.launch.data = self.folder.join("fresh");
                remove(&self.launch.data)?;
                self.cut(&mut strangers, true).map_err(|error| format!("cut {number}, new: {error}"))?;
                self.launch.data.clone_from(&data);
                continue;
            }
            *fleet = self.cut(fleet, false).map_err(|error| format!("cut {number}: {error}"))?;
            if self.counts.images % PROGRESS_EVERY < IMAGES_PER_CUT {
                println!("{}/{images}: {}", self.counts.images, fleet.counts());
            }
        }
        Ok(())
    }

    /// One cut, and its images. The last of them is what the next cut hits; answers with what is known of it.
    fn cut(&mut self, fleet: &mut Fleet, fresh: bool) -> Outcome<Fleet> {
        let mut disk = Disk::at_rest(&self.launch.data)?;
        let log = self.folder.join("recording");
        std::fs::remove_file(&log).ok();
        let launch = Launch {
            env: vec![
                ("LD_PRELOAD".to_owned(), self.library.display().to_string()),
                ("DISKSHIM_DIR".to_owned(), self.launch.data.display().to_string()),
                ("DISKSHIM_LOG".to_owned(), log.display().to_string()),
            ],
            ..self.launch.clone()
        };
        let early = fresh && self.rng.percent(50);
        if early {
            let mut server = Server::spawn(&launch)?;
            std::thread::sleep(Duration::from_millis(self.rng.below(BEGINNING_MILLIS)));
            server.process.kill()?;
        } else {
            let mut server = Server::start(&launch)?;
            if fresh {
                fleet.set_stock(server.address)?;
            }
            self.load_and_kill(&mut server, fleet)?;
        }
        // A server that was killed before it opened anything has recorded nothing.
        let recording = std::fs::read(&log).unwrap_or_default();
        let syncs = disk.play(record::read(&recording)?);
        self.counts.syncs += syncs;
        self.counts.unsynced += disk.unsynced();
        self.counts.without_loss += u64::from(disk.unsynced() == 0);
        let mut last = fleet.clone();
        for image in 0..IMAGES_PER_CUT {
            let policy = POLICIES[usize::try_from(self.counts.images)? % POLICIES.len()];
            last = fleet.clone();
            self.audit_image(&disk, policy, &mut last, early).map_err(|error| {
                format!("image {image}, {policy:?}, {} unsynced: {error}", disk.unsynced())
            })?;
            self.counts.images += 1;
        }
        Ok(last)
    }

    fn load_and_kill(&mut self, server: &mut Server, fleet: &mut Fleet) -> Outcome<()> {
        let wait = Duration::from_millis(self.rng.between(LOAD_MILLIS.0, LOAD_MILLIS.1));
        let stop = AtomicBool::new(false);
        let address = server.address;
        let killed = std::thread::scope(|scope| {
            let load = scope.spawn(|| fleet.load(address, &stop, Tolerance::None));
            std::thread::sleep(wait);
            let (ended, killed) = (server.process.ended()?, Instant::now());
            server.process.kill()?;
            stop.store(true, Ordering::Relaxed);
            load.join().unwrap_or_else(|_| fail("the load panicked"))?;
            match ended {
                None => Ok(killed),
                Some(status) => fail(format!("ended by itself: {status}\n{}", server.process.log_tail())),
            }
        })?;
        fleet.none_lost_before(killed)
    }

    /// Starts an image, asks it about everything that was told, and has it do its work.
    fn audit_image(&mut self, disk: &Disk, keep: KeepPolicy, fleet: &mut Fleet, empty: bool) -> Outcome<()> {
        let data = &self.launch.data;
        remove(data)?;
        disk.image(data, keep, &mut self.rng)?;
        let mut server = Server::start(&self.launch)?;
        if empty {
            fleet.set_stock(server.address)?;
        }
        fleet.resolve(server.address)?;
        let depth = if self.rng.percent(20) { Depth::Everything } else { Depth::Recent };
        fleet.audit(server.address, depth)?;
        fleet.answers_everything(server.address, AFTERWARDS)?;
        fleet.audit(server.address, Depth::Recent)?;
        if self.rng.percent(50) {
            server.stop()?;
        } else {
            server.process.kill()?;
        }
        verify(&self.launch.binary, data)
    }
}

fn remove(folder: &Path) -> Outcome<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
