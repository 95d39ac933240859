//! A panic anywhere: nothing that was half done is committed, everybody is answered, and the store says so.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use stockhold_conformance::bench::{AnswerInbox, open, submit_all};
use stockhold_conformance::maker::{confirm, set_stock};
use stockhold_conformance::{Maker, START};
use stockhold_domain::Instant;
use stockhold_embedded::{EmbeddedStore, Options};
use stockhold_store::clock::{Clock, ManualClock};
use stockhold_store::{Answer, Failure, Inbox, Job, Query, ReplyTo, Request, Store};

/// Panics when it is asked on the thread of this name.
struct Trap {
    thread: Mutex<Option<String>>,
}

impl Trap {
    fn set(&self, thread: &str) {
        *self.thread.lock().unwrap() = Some(thread.to_owned());
    }
}

impl Clock for Trap {
    fn now(&self) -> Instant {
        let trapped = self.thread.lock().unwrap().clone();
        assert!(trapped.as_deref() != std::thread::current().name(), "the trap");
        START
    }
}

fn trapped() -> (tempfile::TempDir, Arc<Trap>, EmbeddedStore) {
    let dir = tempfile::tempdir().unwrap();
    let trap = Arc::new(Trap { thread: Mutex::new(None) });
    let clock: Arc<dyn Clock> = trap.clone();
    let options =
        Options { sweeps: false, min_free_bytes: 0, wal_preallocation: 0, clock, ..Options::default() };
    let store = EmbeddedStore::open(dir.path(), options).unwrap();
    (dir, trap, store)
}

/// Waits until the store says that it is in trouble, which is for ever if it does not.
fn fatal_error(store: &EmbeddedStore) -> String {
    loop {
        match store.fatal_error() {
            Some(why) => return why,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Holds the committer up with the first answer, so that what is submitted meanwhile is one batch.
#[derive(Default)]
struct Gate {
    open: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn reached(&self) {
        let mut open = self.open.lock().unwrap();
        while !open.0 {
            open = self.changed.wait(open).unwrap();
        }
    }

    fn open(&self) {
        self.open.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

impl Inbox for Gate {
    fn put(&self, _: u64, _: Result<Answer, Failure>) {
        let mut open = self.open.lock().unwrap();
        open.0 = true;
        self.changed.notify_all();
        while !open.1 {
            open = self.changed.wait(open).unwrap();
        }
    }

    fn flush(&self) {}
}

/// A store whose committer is held up.
fn held(store: &EmbeddedStore, maker: &mut Maker) -> Arc<Gate> {
    let gate = Arc::new(Gate::default());
    submit(store, gate.clone(), 0, command(maker, 1));
    store.flush();
    gate.reached();
    gate
}

fn command(maker: &mut Maker, count: u64) -> Request {
    Request::Command(Box::new(maker.wrap(set_stock(&maker.item("shirt"), count))))
}

fn submit(store: &EmbeddedStore, inbox: Arc<dyn Inbox>, ticket: u64, ask: Request) {
    store.submit(Job { request: ask, reply: ReplyTo { inbox, ticket } });
}

#[test]
fn of_a_caller_that_decides_stops_everything_and_answers_who_waits() {
    let (_dir, trap, store) = trapped();
    let mut maker = Maker::new(1, "");
    let gate = held(&store, &mut maker);
    let answers = Arc::new(AnswerInbox::default());
    submit(&store, answers.clone(), 0, command(&mut maker, 5));
    trap.set("caller");
    let work = command(&mut maker, 2);
    let panicked = std::thread::scope(|scope| {
        let decide = || submit(&store, Arc::new(AnswerInbox::default()), 0, work);
        std::thread::Builder::new().name("caller".to_owned()).spawn_scoped(scope, decide).unwrap().join()
    });
    assert!(panicked.is_err());
    gate.open();
    assert!(matches!(answers.wait(1).remove(0), (0, Err(Failure::Unavailable(_)))));
    assert!(fatal_error(&store).contains("panicked"));
    assert!(matches!(
        submit_all(&store, vec![command(&mut maker, 3)]).remove(0),
        Err(Failure::Unavailable(_))
    ));
    assert_eq!(store.newest(), 1, "nothing more was committed");
}

#[test]
fn of_the_committer_answers_what_was_handed_over() {
    let (_dir, trap, store) = trapped();
    trap.set("committer");
    let asked = submit_all(&store, vec![command(&mut Maker::new(1, ""), 1)]).remove(0);
    assert!(matches!(asked, Err(Failure::Unavailable(_))), "{asked:?}");
    assert!(fatal_error(&store).contains("panicked"));
}

#[test]
fn of_a_reader_answers_what_it_was_to_read() {
    let (_dir, trap, store) = trapped();
    trap.set("reader");
    let unknown = Maker::new(1, "").no_reservation();
    let asked = submit_all(&store, vec![Request::Query(Query::Reservation(unknown))]).remove(0);
    assert!(matches!(asked, Err(Failure::Internal(_))), "{asked:?}");
    assert!(fatal_error(&store).contains("panicked"));
}

#[test]
fn of_the_indexer_stops_the_store() {
    let (_dir, trap, store) = trapped();
    trap.set("indexer");
    assert!(fatal_error(&store).contains("indexer"));
}

/// Takes one answer and panics at the next.
#[derive(Default)]
struct Fragile {
    put: AtomicUsize,
}

impl Inbox for Fragile {
    fn put(&self, _: u64, _: Result<Answer, Failure>) {
        assert_eq!(self.put.fetch_add(1, Ordering::SeqCst), 0, "one is enough");
    }

    fn flush(&self) {}
}

#[test]
fn of_the_committer_while_it_answers_leaves_the_others_of_the_batch_with_an_unknown_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), &Arc::new(ManualClock::new(START))).unwrap();
    let mut maker = Maker::new(1, "");
    let gate = held(&store, &mut maker);
    let (fragile, answers) = (Arc::new(Fragile::default()), Arc::new(AnswerInbox::default()));
    for ticket in 0..2 {
        submit(&store, fragile.clone(), ticket, command(&mut maker, 2 + ticket));
    }
    submit(&store, answers.clone(), 7, command(&mut maker, 4));
    store.flush();
    gate.open();
    assert!(matches!(answers.wait(1).remove(0), (7, Err(Failure::OutcomeUnknown))));
    assert!(fatal_error(&store).contains("committer"));
    let late = submit_all(
        &store,
        vec![Request::Command(Box::new(maker.wrap(confirm(maker.clone().no_reservation()))))],
    );
    assert!(matches!(late[0], Err(Failure::Unavailable(_))));
}
