//! The suite that every store passes, unchanged.

use crate::audit::Shop;
use crate::fixture::Desk;
use std::thread;
use stockhold_conformance::{
    ArchiveWorld, World, archive_cases, case_groups, random_history, run_cases, stepping_history,
    units_history,
};
use stockhold_domain::{Command, Envelope, Instant, Outcome};
use stockhold_store::{
    Answer, ArchiveRequest, ArchiveSummary, EventArchive, Failure, Query, QueryResult, Request, Store,
};

/// A shop with one store, which can be restarted.
struct Served<'a, S> {
    shop: &'a mut S,
    store: Option<Box<dyn Store>>,
}

impl<'a, S: Shop> Served<'a, S> {
    fn new(shop: &'a mut S) -> Self {
        let store = Some(shop.store());
        Self { shop, store }
    }

    fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("a store")
    }
}

impl<S: Shop> World for Served<'_, S> {
    fn submit(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>> {
        // What waits for a reservation to be found, or for room on further items, may be overtaken by what was handed over
        // behind it; the suite wants to know the order.
        let waits = |envelope: &Envelope| {
            let at_once = matches!(
                envelope.command,
                Command::SetStock(_) | Command::AdjustStock(_) | Command::SetSale(_) | Command::Reserve(_)
            );
            !at_once
        };
        if commands.iter().any(waits) {
            return self.submit_in_order(commands);
        }
        Desk::new().send(self.store(), commands).outcomes()
    }

    fn set_clock(&mut self, now: Instant) {
        self.shop.set_clock(now);
    }

    fn restart(&mut self) {
        self.shop.kill_stores();
        self.store = None;
        self.store = Some(self.shop.store());
    }

    fn find(&mut self, query: Query) -> Result<QueryResult, Failure> {
        Desk::new().find(self.store(), query)
    }

    fn submit_in_order(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>> {
        match Desk::new().ask(self.store(), vec![Request::Commands(commands)]).wait().remove(0) {
            Ok(Answer::Outcomes(outcomes)) => outcomes,
            other => panic!("commands were answered with {other:?}"),
        }
    }
}

impl<S: Shop> ArchiveWorld for Served<'_, S> {
    fn archive(
        &mut self,
        request: &ArchiveRequest<'_>,
        archive: &mut (dyn EventArchive + Send),
    ) -> Result<ArchiveSummary, String> {
        let (url, options) = (self.shop.url(), self.shop.options());
        stockhold_sql::archive(&url, &options, request, archive, |_| ()).map_err(|error| error.to_string())
    }

    fn verify(&mut self, archive: Option<&mut (dyn EventArchive + Send)>) -> Result<Vec<String>, String> {
        let (url, options) = (self.shop.url(), self.shop.options());
        let report = match archive {
            Some(archive) => stockhold_sql::verify_with_archive(&url, &options, archive, |_| ()),
            None => stockhold_sql::verify(&url, &options, |_| ()),
        };
        report.map(|report| report.findings).map_err(|error| error.to_string())
    }
}

/// Each case in a database of its own.
pub(crate) fn every_case_of_archives<S: Shop>(_: &mut S) {
    let said: Vec<String> = at_once(archive_cases().into_iter(), |case| {
        let mut shop = S::another();
        let failed = (case.run)(&mut Served::new(&mut shop)).err();
        shop.audit();
        failed.into_iter().map(|what| format!("{}: {what}", case.name)).collect()
    });
    assert!(said.is_empty(), "{} cases failed:\n{}", said.len(), said.join("\n"));
}

pub(crate) fn every_case_of_the_suite<S: Shop>(_: &mut S) {
    let said: Vec<String> = at_once(case_groups().into_iter(), |group| {
        let mut shop = S::another();
        let mut world = Served::new(&mut shop);
        let failed = run_cases(&mut world, &group);
        drop(world);
        shop.audit();
        failed.into_iter().map(|(case, what)| format!("{case}: {what}")).collect()
    });
    assert!(said.is_empty(), "{} cases failed:\n{}", said.len(), said.join("\n"));
}

/// Runs each part on a thread of its own, and returns what all of them found.
fn at_once<T: Send>(parts: impl Iterator<Item = T>, run: impl Fn(T) -> Vec<String> + Sync) -> Vec<String> {
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || run(part))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Seeds of the histories below. A seed that ever failed is added, and stays.
const SEEDS: [u64; 4] = [1, 2, 3, 4];
const STEPS: u32 = 120;

/// Each seed's history, in a database of its own.
fn histories<S: Shop>(history: fn(&mut dyn World, u64, u32) -> Result<(), String>) {
    let said = at_once(SEEDS.into_iter(), |seed| {
        let mut shop = S::another();
        let said = history(&mut Served::new(&mut shop), seed, STEPS).err();
        if said.is_none() {
            shop.audit();
        }
        said.into_iter().collect()
    });
    assert!(said.is_empty(), "{}", said.join("\n"));
}

pub(crate) fn random_histories_agree_with_the_model<S: Shop>(_: &mut S) {
    histories::<S>(random_history);
}

pub(crate) fn random_histories_with_units_agree_with_the_model<S: Shop>(_: &mut S) {
    histories::<S>(units_history);
}

pub(crate) fn histories_under_a_clock_that_steps_stay_sound<S: Shop>(_: &mut S) {
    histories::<S>(stepping_history);
}
