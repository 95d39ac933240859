//! What the tests ask a store through: submits, waits, and keeps the clock in hand.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use stockhold_domain::{Envelope, Hold, Instant, Item, ItemKey, Outcome, Reply, ReservationId};
use stockhold_embedded::{EmbeddedStore, OpenError, Options};
use stockhold_store::clock::HandClock;
use stockhold_store::conformance::maker::{confirm, reserve, set_stock};
use stockhold_store::conformance::{Maker, START, World};
use stockhold_store::{Answer, Ask, EventRow, Failure, Inbox, Query, ReplyTo, Store, Work};

/// Answers by their tickets.
#[derive(Default)]
pub(crate) struct Answers {
    put: Mutex<Vec<(u64, Result<Answer, Failure>)>>,
    flushed: Condvar,
}

impl Inbox for Answers {
    fn put(&self, ticket: u64, answer: Result<Answer, Failure>) {
        self.put.lock().unwrap().push((ticket, answer));
    }

    fn flush(&self) {
        self.flushed.notify_all();
    }
}

/// Asks all, in order, and waits for all.
pub(crate) fn ask(store: &EmbeddedStore, asks: Vec<Ask>) -> Vec<Result<Answer, Failure>> {
    let answers = Arc::new(Answers::default());
    let count = asks.len();
    for (ask, ticket) in asks.into_iter().zip(0..) {
        let inbox: Arc<dyn Inbox> = answers.clone();
        store.submit(Work { ask, reply: ReplyTo { inbox, ticket } });
    }
    store.kick();
    let mut put = answers.put.lock().unwrap();
    while put.len() < count {
        put = answers.flushed.wait(put).unwrap();
    }
    let mut answers = std::mem::take(&mut *put);
    answers.sort_by_key(|(ticket, _)| *ticket);
    assert!(answers.iter().zip(0..).all(|((ticket, _), n)| *ticket == n), "one answer each");
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// A store on a directory of its own, whose clock is in hand.
pub(crate) struct Bench {
    dir: tempfile::TempDir,
    clock: Arc<HandClock>,
    store: Option<EmbeddedStore>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(HandClock::new(START));
        let store = open(dir.path(), &clock).unwrap();
        Self { dir, clock, store: Some(store) }
    }

    pub(crate) fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().unwrap()
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Stops in order.
    pub(crate) fn stop(&mut self) {
        drop(self.store.take());
    }

    /// Stops as a crash would.
    pub(crate) fn crash(&mut self) {
        self.store.take().unwrap().abandon();
    }

    pub(crate) fn start(&mut self) -> Result<(), OpenError> {
        self.store = Some(open(self.dir.path(), &self.clock)?);
        Ok(())
    }

    pub(crate) fn run(&mut self, command: Envelope) -> Result<Outcome, Failure> {
        self.submit(vec![command]).remove(0)
    }
}

/// Opens a directory the way the tests want it: no sweeper, no floor of free space.
pub(crate) fn open(dir: &Path, clock: &Arc<HandClock>) -> Result<EmbeddedStore, OpenError> {
    let clock = Arc::clone(clock);
    EmbeddedStore::open(dir, Options { sweeps: false, free_floor: 0, clock, ..Options::default() })
}

impl World for Bench {
    fn submit(&mut self, commands: Vec<Envelope>) -> Vec<Result<Outcome, Failure>> {
        let asks = commands.into_iter().map(|envelope| Ask::Command(Box::new(envelope))).collect();
        let outcome = |answer| match answer {
            Ok(Answer::Outcome(outcome)) => Ok(outcome),
            Ok(other) => panic!("the answer to a command was {other:?}"),
            Err(failure) => Err(failure),
        };
        ask(self.store(), asks).into_iter().map(outcome).collect()
    }

    fn set_clock(&mut self, now: Instant) {
        self.clock.set(now);
    }

    fn restart(&mut self) {
        self.crash();
        self.start().unwrap();
    }

    fn item(&mut self, key: &ItemKey) -> Option<Item> {
        let asked = ask(self.store(), vec![Ask::Query(Query::Items(vec![key.clone()]))]).remove(0);
        let Ok(Answer::Items(mut items)) = asked else { panic!("{asked:?}") };
        let item = items.remove(0);
        assert_eq!(
            self.store().published(key),
            Some(item.clone()),
            "published figures are the committed ones"
        );
        item
    }

    fn hold(&mut self, id: ReservationId) -> Option<Hold> {
        let asked = ask(self.store(), vec![Ask::Query(Query::Reservation(id))]).remove(0);
        let Ok(Answer::Reservation(hold)) = asked else { panic!("{asked:?}") };
        hold
    }

    fn events(&mut self) -> Vec<EventRow> {
        let mut all = Vec::new();
        loop {
            let after = all.last().map_or(0, |row: &EventRow| row.position);
            let page = self.store().events(after, 1_000).unwrap();
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }
}

/// Sets an item's stock to `count` units and sells each in an order of its own.
pub(crate) fn sell(bench: &mut Bench, maker: &mut Maker, count: u64) -> Vec<ReservationId> {
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
