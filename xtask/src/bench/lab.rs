//! Servers under measurement: each on a fresh copy of prepared data, driven, audited and stopped.

use super::base::{Bases, Contents, launch, settle, start, until_idle};
use super::counter_audit::{COLD, CounterAudit, HOT};
use crate::load::http::Reserves;
use crate::load::{Plan, Run, Traffic, closed};
use crate::rng::Rng;
use crate::shim::{DiskFault, Shim};
use crate::spawn::{Server, copy_dir};
use crate::{Outcome, fail};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time to live of every hold that is measured: none falls due meanwhile.
pub(crate) const TTL_SECONDS: u64 = 1_800;

/// How much there is before anything is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// For every figure that says nothing else.
    pub(crate) usual: Contents,
    /// For the restart: as much, and more that is closed.
    pub(crate) closed: Contents,
    /// For the cost of a reserve with much and with little.
    pub(crate) large: Contents,
    pub(crate) small: Contents,
    /// Holds whose memory is measured.
    pub(crate) weighed: u64,
    /// Holds that fall due at once, and how long before that they are made.
    pub(crate) crowd: u64,
    pub(crate) ahead: Duration,
}

impl Scale {
    /// What the figures are defined on.
    pub(crate) const FULL: Self = Self::of(1_000_000, [10_000, 1_000_000], 100_000, 30);
    /// A tenth of it: for a first look.
    pub(crate) const TENTH: Self = Self::of(100_000, [10_000, 100_000], 100_000, 14);
    /// Enough to find out whether everything runs.
    pub(crate) const TRIAL: Self = Self::of(1_000, [50, 500], 1_000, 11);

    const fn of(active: u64, [items, many]: [usize; 2], crowd: u64, ahead_seconds: u64) -> Self {
        let usual = Contents { items, active, keys: 5 * active, closed: active / 10 };
        let closed = Contents { closed: 10 * active, ..usual };
        let large = Contents { items: many, active: 10 * active, ..closed };
        let small = Contents { items: 1_000, active: 1_000, keys: 1_000, closed: usual.closed };
        let ahead = Duration::from_secs(ahead_seconds);
        Self { usual, closed, large, small, weighed: active, crowd, ahead }
    }
}

/// Where servers are measured.
pub(crate) struct Lab {
    pub(crate) bases: Bases,
    pub(crate) folder: PathBuf,
    pub(crate) scale: Scale,
    large: OnceCell<tempfile::TempDir>,
}

/// Which data a server runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataSet {
    Usual,
    Small,
    /// Not a copy: it is too large to be made for every run, and grows by what is measured.
    Large,
}

/// One way to drive the server with reserves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) on: DataSet,
    pub(crate) connections: usize,
    /// One hot SKU, or so many cold ones evenly.
    pub(crate) skus: usize,
    pub(crate) disk: Option<DiskFault>,
}

impl Setup {
    /// One hot SKU among the usual.
    pub(crate) fn hot(connections: usize) -> Self {
        Self { on: DataSet::Usual, connections, skus: 1, disk: None }
    }
}

/// What one way gave.
pub(crate) struct RunResult {
    pub(crate) run: Run,
    pub(crate) request_bytes: usize,
    pub(crate) answer_bytes: usize,
}

/// A running server and its data. The data is removed with it unless it is kept for the next run.
pub(crate) struct ServerOnData {
    pub(crate) server: Server,
    pub(crate) data: PathBuf,
    pub(crate) folder: Option<tempfile::TempDir>,
}

impl ServerOnData {
    /// Stops the server, then lets the data go.
    pub(crate) fn stop(self) -> Outcome<()> {
        let Self { server, folder, .. } = self;
        server.stop()?;
        drop(folder);
        Ok(())
    }
}

impl Lab {
    pub(crate) fn open(binary: &Path, folder: &Path, scale: Scale) -> Outcome<Self> {
        let bases = Bases::open(binary, folder)?;
        Ok(Self { bases, folder: folder.to_owned(), scale, large: OnceCell::new() })
    }

    /// The usual data and much that is closed, not a copy: only to be started on.
    pub(crate) fn much_closed(&self) -> Outcome<PathBuf> {
        let usual = self.bases.get(self.scale.usual, None)?;
        self.bases.get(self.scale.closed, Some((&usual, self.scale.usual)))
    }

    fn large(&self) -> Outcome<PathBuf> {
        if let Some(folder) = self.large.get() {
            return Ok(folder.path().join("data"));
        }
        let closed = self.much_closed()?;
        let folder = tempfile::tempdir_in(&self.folder)?;
        let data = folder.path().join("data");
        let Contents { items, active, .. } = self.scale.large;
        println!("making {active} active holds and {items} SKUs of a copy");
        copy_dir(&closed, &data)?;
        self.bases.grow(&data, self.scale.closed, self.scale.large)?;
        let _ = self.large.set(folder);
        Ok(data)
    }

    /// A server on such data.
    pub(crate) fn serve(&self, on: DataSet, disk: Option<&Shim>) -> Outcome<ServerOnData> {
        self.serve_with(on, disk.map(Shim::env).unwrap_or_default())
    }

    /// The same with these environment variables.
    pub(crate) fn serve_with(&self, on: DataSet, env: Vec<(String, String)>) -> Outcome<ServerOnData> {
        let base = match on {
            DataSet::Usual => self.bases.get(self.scale.usual, None)?,
            DataSet::Small => self.bases.get(self.scale.small, None)?,
            DataSet::Large => {
                let data = self.large()?;
                settle(&data)?;
                return self.serve_in(&data, None, env);
            }
        };
        let folder = tempfile::tempdir_in(&self.folder)?;
        let data = folder.path().join("data");
        copy_dir(&base, &data)?;
        settle(&data)?;
        self.serve_in(&data, Some(folder), env)
    }

    /// A server on an empty directory.
    pub(crate) fn serve_empty(&self) -> Outcome<ServerOnData> {
        let folder = tempfile::tempdir_in(&self.folder)?;
        self.serve_in(&folder.path().join("data"), Some(folder), Vec::new())
    }

    fn serve_in(
        &self,
        data: &Path,
        folder: Option<tempfile::TempDir>,
        env: Vec<(String, String)>,
    ) -> Outcome<ServerOnData> {
        let mut launch = launch(&self.bases.binary, data);
        launch.env.extend(env);
        let server = start(&launch)?;
        // What a start leaves to the background is not what is measured next.
        until_idle(server.process.pid())?;
        Ok(ServerOnData { server, data: data.to_owned(), folder })
    }

    /// One run of reserves, audited.
    pub(crate) fn reserves(&self, setup: Setup, plan: Plan, seed: u64) -> Outcome<RunResult> {
        let shim = setup.disk.map(|trick| Shim::prepare(&self.folder, trick)).transpose()?;
        let running = self.serve(setup.on, shim.as_ref())?;
        if let Some(shim) = &shim {
            shim.arm()?;
        }
        let family = if setup.skus == 1 { HOT } else { COLD };
        let mut reserves = Reserves::new(family, setup.skus, TTL_SECONDS, Rng::new(seed));
        let family_of = (family, setup.skus);
        let made = |_: &Reserves, run: &Run| (run.answered, 0);
        let run = run(&running.server, family_of, setup.connections, plan, &mut reserves, made)?;
        if let Some(shim) = &shim
            && shim.syncs()? == 0
        {
            return fail("the server's syncs do not pass through the shim: its figures would mean nothing");
        }
        running.stop()?;
        let (request_bytes, answer_bytes) = (reserves.request_bytes(), reserves.answer_bytes);
        Ok(RunResult { run, request_bytes, answer_bytes })
    }

    /// One run on the hot SKU among the usual, audited by what the traffic says was reserved and confirmed.
    pub(crate) fn hot<T: Traffic>(
        &self,
        connections: usize,
        plan: Plan,
        traffic: &mut T,
        made: impl Fn(&T, &Run) -> (u64, u64),
    ) -> Outcome<Run> {
        let running = self.serve(DataSet::Usual, None)?;
        let run = run(&running.server, (HOT, 1), connections, plan, traffic, made)?;
        running.stop()?;
        Ok(run)
    }
}

/// Drives a server, and audits the books of these SKUs.
pub(crate) fn run<T: Traffic>(
    server: &Server,
    (family, skus): (&'static str, usize),
    connections: usize,
    plan: Plan,
    traffic: &mut T,
    made: impl Fn(&T, &Run) -> (u64, u64),
) -> Outcome<Run> {
    let books = CounterAudit::open(server.address, family, skus)?;
    let run = closed(server.address, connections, plan, Some(server.process.pid()), traffic)?;
    let (reserved, confirmed) = made(traffic, &run);
    books.audit(reserved, confirmed)?;
    Ok(run)
}
