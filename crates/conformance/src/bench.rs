//! A store in a temporary directory with a manual clock, for tests. Its
//! functions panic where a test should fail.
#![allow(clippy::missing_panics_doc, clippy::new_without_default, reason = "for tests")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use stockhold_conformance::maker::{confirm, reserve, set_stock};
use stockhold_conformance::{ArchiveWorld, CrashWorld, Maker, START, World};
use stockhold_domain::{Envelope, Instant, Outcome, Reply, ReservationId};
use stockhold_embedded::{EmbeddedStore, OpenError, Options};
use stockhold_store::clock::ManualClock;
use stockhold_store::{
    Answer, ArchiveRequest, ArchiveSummary, EventArchive, Failure, Inbox, Job, Query, QueryResult, ReplyTo,
    Request, Store,
};

/// Answers by ticket.
#[derive(Default)]
pub struct AnswerInbox {
    put: Mutex<Vec<(u64, Result<Answer, Failure>)>>,
    flushed: Condvar,
}

impl Inbox for AnswerInbox {
    fn put(&self, ticket: u64, answer: Result<Answer, Failure>) {
        self.put.lock().unwrap().push((ticket, answer));
    }

    fn flush(&self) {
        self.flushed.notify_all();
    }
}

impl AnswerInbox {
    /// Waits for this many answers and takes them.
    pub fn wait(&self, count: usize) -> Vec<(u64, Result<Answer, Failure>)> {
        let mut put = self.put.lock().unwrap();
        while put.len() < count {
            put = self.flushed.wait(put).unwrap();
        }
        std::mem::take(&mut *put)
    }
}

/// Submits all requests in order, and waits for all answers.
pub fn submit_all(store: &EmbeddedStore, asks: Vec<Request>) -> Vec<Result<Answer, Failure>> {
    let answers = Arc::new(AnswerInbox::default());
    let count = asks.len();
    for (ask, ticket) in asks.into_iter().zip(0..) {
        let inbox: Arc<dyn Inbox> = answers.clone();
        store.submit(Job { request: ask, reply: ReplyTo { inbox, ticket } });
    }
    store.flush();
    let mut answers = answers.wait(count);
    answers.sort_by_key(|(ticket, _)| *ticket);
    assert!(answers.iter().zip(0..).all(|((ticket, _), n)| *ticket == n), "one answer each");
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// A store in a temporary directory with a manual clock.
pub struct Bench {
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
    store: Option<EmbeddedStore>,
    crashes: u64,
    /// Whether the restarts of [`World`] are orderly stops.
    in_order: bool,
}

impl Bench {
    /// Creates a directory and a store in it.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(START));
        let store = open(dir.path(), &clock).unwrap();
        Self { dir, clock, store: Some(store), crashes: 0, in_order: false }
    }

    /// Like [`Bench::new`], with orderly stops as restarts. The state then comes from the index, and otherwise from the
    /// log.
    pub fn in_order() -> Self {
        Self { in_order: true, ..Self::new() }
    }

    /// The store.
    pub fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().unwrap()
    }

    /// The directory.
    pub fn dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Stops in order.
    pub fn stop(&mut self) {
        drop(self.store.take());
    }

    /// Stops like a crash.
    pub fn crash(&mut self) {
        self.store.take().unwrap().abandon();
    }

    /// Starts again.
    pub fn start(&mut self) -> Result<(), OpenError> {
        self.store = Some(open(self.dir.path(), &self.clock)?);
        Ok(())
    }

    /// Runs one command.
    pub fn run(&mut self, command: Envelope) -> Result<Outcome, Failure> {
        self.submit(vec![command]).remove(0)
    }

    /// The files of the directory as a crash leaves them now.
    pub fn image(&mut self) -> Vec<(PathBuf, Vec<u8>)> {
        self.crash();
        let files = std::fs::read_dir(self.dir()).unwrap().map(|entry| entry.unwrap().path());
        let image = files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
        self.start().unwrap();
        image
    }

    /// Crashes, restores an earlier image of the directory, and starts again.
    pub fn restore(&mut self, image: Vec<(PathBuf, Vec<u8>)>) {
        self.crash();
        for entry in std::fs::read_dir(self.dir()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (path, bytes) in image {
            std::fs::write(path, bytes).unwrap();
        }
        self.start().unwrap();
    }
}

/// Opens a directory without a sweeper and without a minimum of free space.
pub fn open(dir: &Path, clock: &Arc<ManualClock>) -> Result<EmbeddedStore, OpenError> {
    let clock = Arc::clone(clock);
    EmbeddedStore::open(
        dir,
        Options { sweeps: false, min_free_bytes: 0, wal_preallocation: 0, clock, ..Options::default() },
    )
}

impl ArchiveWorld for Bench {
    fn archive(
        &mut self,
        request: &ArchiveRequest<'_>,
        archive: &mut (dyn EventArchive + Send),
    ) -> Result<ArchiveSummary, String> {
        self.store().archive(request, archive).map_err(|error| error.to_string())
    }

    fn verify(&mut self, archive: Option<&mut (dyn EventArchive + Send)>) -> Result<Vec<String>, String> {
        let report = match archive {
            Some(archive) => stockhold_embedded::verify_with_archive(&self.dir(), archive, |_, _| ()),
            None => stockhold_embedded::verify(&self.dir(), |_, _| ()),
        };
        report.map(|report| report.findings).map_err(|error| error.to_string())
    }
}

impl CrashWorld for Bench {
    /// Submits the commands in two parts, which are two batches if the committer is fast. The commands up to the last
    /// one that needs a read are answered before the crash, so that the others keep their order.
    fn crash_with(&mut self, mut commands: Vec<Envelope>) -> Vec<Option<Result<Outcome, Failure>>> {
        let known = commands.iter().rev().take_while(|envelope| !self.store().needs_read(envelope)).count();
        let under_way = commands.split_off(commands.len() - known);
        let mut outcomes: Vec<_> = self.submit(commands).into_iter().map(Some).collect();
        let answered = outcomes.len();
        outcomes.extend(under_way.iter().map(|_| None));

        let answers = Arc::new(AnswerInbox::default());
        let piece = under_way.len().div_ceil(2).max(1);
        for (n, envelope) in under_way.into_iter().enumerate() {
            let inbox: Arc<dyn Inbox> = answers.clone();
            let reply = ReplyTo { inbox, ticket: n as u64 };
            self.store().submit(Job { request: Request::Command(Box::new(envelope)), reply });
            if n % piece == 0 {
                self.store().flush();
            }
        }
        self.store().flush();
        // Sometimes a commit succeeds that nobody waits for.
        let patience = (self.crashes % 4) * 100;
        self.crashes += 1;
        std::thread::sleep(Duration::from_micros(patience));
        self.crash();
        self.start().unwrap();
        for (ticket, answer) in answers.put.lock().unwrap().drain(..) {
            outcomes[answered + usize::try_from(ticket).unwrap()] = Some(outcome_of(answer));
        }
        outcomes
    }
}

fn outcome_of(answer: Result<Answer, Failure>) -> Result<Outcome, Failure> {
    match answer {
        Ok(Answer::Outcome(outcome)) => Ok(outcome),
        Ok(other) => panic!("the answer to a command was {other:?}"),
        Err(failure) => Err(failure),
    }
}

impl World for Bench {
    /// Another command may overtake a command that needs a read, and the suite needs the order. Such a command is
    /// therefore submitted alone. The commands of one call keep their order.
    fn submit(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>> {
        let mut answers = Vec::with_capacity(commands.len());
        let mut together = Vec::new();
        for envelope in commands {
            let alone = self.store().needs_read(&envelope);
            if alone {
                answers.extend(submit_all(self.store(), std::mem::take(&mut together)));
            }
            together.push(Request::Command(Box::new(envelope)));
            if alone {
                answers.extend(submit_all(self.store(), std::mem::take(&mut together)));
            }
        }
        answers.extend(submit_all(self.store(), together));
        answers.into_iter().map(outcome_of).collect()
    }

    fn set_clock(&mut self, now: Instant) {
        self.clock.set(now);
    }

    fn restart(&mut self) {
        if self.in_order {
            self.stop();
        } else {
            self.crash();
        }
        self.start().unwrap();
    }

    fn submit_in_order(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>> {
        let count = commands.len();
        match submit_all(self.store(), vec![Request::Commands(commands)]).remove(0) {
            Ok(Answer::Outcomes(outcomes)) => outcomes,
            Ok(other) => panic!("the answer to commands was {other:?}"),
            Err(failure) => vec![Err(failure); count],
        }
    }

    fn find(&mut self, query: Query) -> Result<QueryResult, Failure> {
        let asked = submit_all(self.store(), vec![Request::Query(query.clone())]).remove(0);
        let found = match asked {
            Ok(Answer::QueryResult(found)) => found,
            Ok(other) => panic!("the answer to a query was {other:?}"),
            Err(failure) => return Err(failure),
        };
        if let (Query::Items(keys), QueryResult::Items(items)) = (&query, &found) {
            for (key, item) in keys.iter().zip(items) {
                let published = self.store().published_item(key);
                assert_eq!(published.as_ref(), Some(item), "published figures are the committed ones");
            }
        }
        if let (Query::Events { .. }, QueryResult::Events(rows)) = (&query, &found) {
            let newest = rows.last().map_or(0, |row| row.position);
            assert!(self.store().newest() >= newest, "the newest position is told");
        }
        Ok(found)
    }
}

/// Sets the stock of an item to `count` units and sells each unit with an order of its own.
pub fn sell(bench: &mut Bench, maker: &mut Maker, count: u64) -> Vec<ReservationId> {
    let shirt = maker.item("shirt");
    bench.run(maker.wrap(set_stock(&shirt, count))).unwrap();
    let mut sold = Vec::new();
    for _ in 0..count {
        let made = bench.run(maker.wrap(reserve(&[(&shirt, 1)]))).unwrap();
        let Outcome::Done(Reply::Reservation(hold)) = made else { panic!("{made:?}") };
        bench.run(maker.wrap(confirm(hold.id))).unwrap();
        sold.push(hold.id);
    }
    sold
}
