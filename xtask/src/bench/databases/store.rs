//! The binary over a database, started for each measurement and stopped after it.

use super::super::base::start;
use super::super::counter_audit::{CounterAudit, HOT};
use super::super::lab::{TTL_SECONDS, run as drive};
use super::super::promise;
use crate::load::http::Reserves;
use crate::load::{Plan, Run, closed};
use crate::rng::Rng;
use crate::spawn::{Launch, Server, verify, verify_store};
use crate::{Outcome, fail};
use std::path::{Path, PathBuf};

/// The server's setting of which store it is.
const STORE_VARIABLE: &str = "STOCKHOLD_STORE";
/// The server's setting of how many commands go into one transaction.
const BATCH_VARIABLE: &str = "STOCKHOLD_STORE_BATCH";

/// A server over a database under measurement.
pub(super) struct Store<'a> {
    pub(super) binary: &'a Path,
    /// Where the server puts what it does not put into the database.
    pub(super) data: PathBuf,
    /// The database; without one it is the embedded store.
    pub(super) url: Option<String>,
}

impl Store<'_> {
    pub(super) fn serve(&self, batch: Option<usize>) -> Outcome<Server> {
        let mut launch = Launch::new(self.binary, &self.data);
        launch.env.extend(self.url.iter().map(|url| (STORE_VARIABLE.to_owned(), url.clone())));
        if let Some(batch) = batch {
            launch.env.push((BATCH_VARIABLE.to_owned(), batch.to_string()));
        }
        start(&launch)
    }

    pub(super) fn reserves(
        &self,
        batch: Option<usize>,
        connections: usize,
        plan: Plan,
        seed: u64,
    ) -> Outcome<Run> {
        let server = self.serve(batch)?;
        let mut reserves = Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(seed));
        let made = |_: &Reserves, run: &Run| (run.answered, 0);
        let run = drive(&server, (HOT, 1), connections, plan, &mut reserves, made)?;
        server.stop()?;
        Ok(run)
    }

    /// Reserves of one SKU by half of the connections at each of two servers, together a second.
    pub(super) fn two_servers(&self, connections: usize, plan: Plan, seed: u64) -> Outcome<f64> {
        let servers = [self.serve(None)?, self.serve(None)?];
        let books = CounterAudit::open(servers[0].address, HOT, 1)?;
        let halves = std::thread::scope(|scope| {
            let halves = servers.each_ref().map(|server| {
                let mut reserves =
                    Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(seed ^ u64::from(server.address.port())));
                scope.spawn(move || {
                    closed(server.address, connections / 2, plan, Some(server.process.pid()), &mut reserves)
                })
            });
            halves.map(|half| half.join().unwrap_or_else(|_| fail("the load panicked")))
        });
        let (mut rate, mut answered) = (0.0, 0);
        for half in halves {
            let half = half?;
            rate += half.rate;
            answered += half.answered;
        }
        books.audit(answered, 0)?;
        for server in servers {
            server.stop()?;
        }
        Ok(rate)
    }

    pub(super) fn steady(&self, plan: Plan, seed: u64) -> Outcome<[(f64, f64); 2]> {
        let server = self.serve(None)?;
        let measured = promise::on(&server, plan, seed)?;
        server.stop()?;
        Ok(measured)
    }

    /// Recounts it.
    pub(super) fn verify(&self) -> Outcome<()> {
        match &self.url {
            Some(url) => verify_store(self.binary, url),
            None => verify(self.binary, &self.data),
        }
    }
}
