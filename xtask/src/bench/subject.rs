//! The server under measurement: a data directory prepared once with 100,000 closed reservations, copied for every
//! run, and books that are audited after it. A run whose books don't balance is an error, never a figure.

use crate::http::{Connection, Request};
use crate::load::http::{Reserves, Script, sku};
use crate::load::{Plan, Run, SERVER_CPU, closed};
use crate::rng::Rng;
use crate::shim::{Shim, Trick};
use crate::spawn::{Launch, Server, copy_dir};
use crate::{Outcome, fail};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Reservations that were made and ended before anything is measured.
pub(super) const CLOSED_BEFORE: u64 = 100_000;
/// SKUs that the spread load goes over.
pub(super) const SPREAD: usize = 10_000;
/// Stock of every SKU: no run can exhaust it.
pub(super) const STOCK: u64 = 1_000_000_000;
/// Time to live of every hold: none falls due while it is measured.
pub(super) const TTL_SECONDS: u64 = 1_800;

const PREPARE_CONNECTIONS: usize = 64;

/// Families of SKUs.
pub(super) const HOT: &str = "hot";
pub(super) const COLD: &str = "hue";
pub(super) const DUE: &str = "due";
const PAST: &str = "old";

/// The binary and its prepared data.
pub(super) struct Subject {
    pub(super) binary: PathBuf,
    base: PathBuf,
    pub(super) folder: PathBuf,
}

/// One way to drive the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) connections: usize,
    pub(super) skus: usize,
    pub(super) disk: Option<Trick>,
}

/// What one way gave.
pub(super) struct Measured {
    pub(super) run: Run,
    pub(super) request_bytes: usize,
    pub(super) answer_bytes: usize,
}

impl Subject {
    /// Prepares the data under `folder`.
    pub(super) fn prepare(binary: &Path, folder: &Path) -> Outcome<Self> {
        let base = folder.join("base");
        let subject = Self { binary: binary.to_owned(), base, folder: folder.to_owned() };
        let server = Server::start(&subject.launch(&subject.base))?;
        let address = server.address;
        let skus = (0..SPREAD).map(|number| sku(COLD, number));
        let single = [HOT, DUE, PAST].map(|family| sku(family, 0));
        let stock = single.into_iter().chain(skus).map(|sku| Request {
            method: "PUT",
            path: format!("/v1/inventory/{sku}"),
            key: None,
            body: Some(format!(r#"{{"total_units":{STOCK}}}"#)),
        });
        closed(address, PREPARE_CONNECTIONS, Plan::ALL, None, &mut Script::new(stock, &[201]))?;

        let mut reserves = Reserves::new(PAST, 1, TTL_SECONDS, Rng::new(CLOSED_BEFORE)).keep(CLOSED_BEFORE);
        closed(address, PREPARE_CONNECTIONS, Plan::ALL, None, &mut reserves)?;
        let ids = reserves.ids.unwrap_or_default();
        let ends = ids.iter().enumerate().map(|(number, id)| match number % 2 {
            0 => Request {
                method: "POST",
                path: format!("/v1/reservations/{id}/confirm"),
                key: None,
                body: None,
            },
            _ => Request { method: "DELETE", path: format!("/v1/reservations/{id}"), key: None, body: None },
        });
        closed(address, PREPARE_CONNECTIONS, Plan::ALL, None, &mut Script::new(ends, &[200, 204]))?;
        audit(&server, PAST, 1, 0)?;
        server.stop()?;
        Ok(subject)
    }

    fn launch(&self, data: &Path) -> Launch {
        Launch { cpu: Some(SERVER_CPU), ..Launch::new(&self.binary, data) }
    }

    /// A server on a fresh copy of the prepared data, in a folder that goes with the guard.
    pub(super) fn fresh(&self, disk: Option<&Shim>) -> Outcome<(Server, tempfile::TempDir)> {
        let folder = tempfile::tempdir_in(&self.folder)?;
        let data = folder.path().join("data");
        copy_dir(&self.base, &data)?;
        // So that the copy's own writing back does not fall into what is measured next.
        for entry in std::fs::read_dir(&data)? {
            File::open(entry?.path())?.sync_all()?;
        }
        let mut launch = self.launch(&data);
        if let Some(shim) = disk {
            launch.env = shim.env();
        }
        Ok((Server::start(&launch)?, folder))
    }

    /// One run on a fresh copy, audited.
    pub(super) fn measure(&self, setup: Setup, plan: Plan, seed: u64) -> Outcome<Measured> {
        let shim = setup.disk.map(|trick| Shim::prepare(&self.folder, trick)).transpose()?;
        let (server, _folder) = self.fresh(shim.as_ref())?;
        if let Some(shim) = &shim {
            shim.arm()?;
        }
        let family = if setup.skus == 1 { HOT } else { COLD };
        let mut reserves = Reserves::new(family, setup.skus, TTL_SECONDS, Rng::new(seed));
        let pid = Some(server.process.pid());
        let run = closed(server.address, setup.connections, plan, pid, &mut reserves)?;
        if let Some(shim) = &shim
            && shim.syncs()? == 0
        {
            return fail("the server's syncs do not pass through the shim: its figures would mean nothing");
        }
        audit(&server, family, setup.skus, run.answered)?;
        server.stop()?;
        let (request_bytes, answer_bytes) = (reserves.request_bytes(), reserves.answer_bytes);
        Ok(Measured { run, request_bytes, answer_bytes })
    }
}

/// Whether the figures of a family of SKUs say what was acknowledged, one unit a hold.
pub(super) fn audit(server: &Server, family: &str, skus: usize, acknowledged: u64) -> Outcome<()> {
    let mut client = Connection::open(server.address)?;
    let (mut held, mut active) = (0, 0);
    for number in 0..skus {
        let figures = available(&mut client, &sku(family, number))?;
        held += figures.held_units;
        active += figures.active_reservations;
    }
    if (held, active) == (acknowledged, acknowledged) {
        return Ok(());
    }
    fail(format!("void: {acknowledged} acknowledged, but {held} units held by {active} reservations"))
}

/// An item's figures as far as they are audited.
pub(super) struct Figures {
    pub(super) held_units: u64,
    pub(super) active_reservations: u64,
}

pub(super) fn available(client: &mut Connection, sku: &str) -> Outcome<Figures> {
    let answer = client.call(&Request::get(format!("/v1/inventory/{sku}/available")))?;
    let json = answer.json();
    match (answer.status, json["held_units"].as_u64(), json["active_reservations"].as_u64()) {
        (200, Some(held_units), Some(active_reservations)) => Ok(Figures { held_units, active_reservations }),
        _ => fail(format!("available: {}", answer.brief())),
    }
}
