//! A store under test: a database, a clock that can be moved, and somebody who asks.

use crate::support::{Database, Server, Session};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use stockhold_conformance::{Maker, START, maker};
use stockhold_domain::{
    Command, Envelope, Hold, Instant, Item, ItemKey, Outcome, Rejection, Reply, ReservationId,
};
use stockhold_sql::Options;
use stockhold_sql::SqlStore;
use stockhold_sql::postgres;
use stockhold_store::{Answer, EventRow, Failure, Inbox, Job, Query, QueryResult, ReplyTo, Request, Store};

/// Patience with an answer that has to come.
const PATIENCE: Duration = Duration::from_secs(90);

/// A database with a clock for stores to read. The clock shows the suite's start until it is moved.
pub(crate) struct Bench {
    pub(crate) database: Database,
    pub(crate) session: Session,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::on(&Server::shared())
    }

    pub(crate) fn on(server: &Arc<Server>) -> Self {
        let database = server.database();
        let mut session = Session::open(&database.url);
        session.run("CREATE TABLE public.test_clock (micros bigint)");
        session.run(&format!("INSERT INTO public.test_clock VALUES ({})", START.micros()));
        Self { database, session }
    }

    /// A store's options: its clock in the test's hands, its sweeper off, few connections.
    pub(crate) fn options() -> Options {
        Options {
            clock: Some("SELECT micros FROM public.test_clock".to_owned()),
            connections: 3,
            most_connections: 3,
            sweep_every: None,
            // Tests hold locks for as long as they like.
            lock_timeout: Some(PATIENCE),
            batch_deadline: PATIENCE,
            commit_deadline: PATIENCE,
            ..Options::default()
        }
    }

    pub(crate) fn connect(&self) -> SqlStore {
        self.connect_with(Self::options())
    }

    pub(crate) fn connect_with(&self, options: Options) -> SqlStore {
        postgres::open(&self.database.url, options).expect("the store connects")
    }

    pub(crate) fn another_session(&self) -> Session {
        Session::open(&self.database.url)
    }

    pub(crate) fn set_clock(&mut self, now: Instant) {
        self.session.run(&format!("UPDATE public.test_clock SET micros = {}", now.micros()));
    }

    /// Holds an item's row, as another instance does while it commits, until the session commits.
    pub(crate) fn lock(&self, item: &ItemKey) -> Session {
        let mut holder = self.another_session();
        holder.run(&format!(
            "BEGIN; SELECT FROM stockhold.items WHERE sku = '{}' AND location = '{}' FOR UPDATE",
            item.sku(),
            item.location()
        ));
        holder
    }

    /// Ends the stores' connections.
    pub(crate) fn kill_stores(&mut self) {
        self.session.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'stockhold'",
        );
    }

    /// Waits until at least so many of the stores' sessions wait for a lock. There may be more: a new session prepares its
    /// statements and waits for a table lock. Sessions that number events don't count: with two stores one sometimes waits for the
    /// other's.
    pub(crate) fn wait_until_locked_out(&mut self, sessions: usize) {
        self.session.wait_for(&Self::waits_for_locks("NOT LIKE", sessions));
    }

    /// Whether so many of the stores' sessions wait for a lock with a query that numbers events, or doesn't.
    pub(crate) fn waits_for_locks(like: &str, sessions: usize) -> String {
        format!(
            "SELECT count(*) >= {sessions} FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock' AND query {like} '%stockhold.sequencer%'"
        )
    }

    /// Every figure of every item against the rows that it sums up.
    pub(crate) fn audit(&mut self) {
        let wrong = self.session.texts(
            "SELECT format('%s holds %s, its lines %s', sku, held, coalesce(lines, 0))
             FROM stockhold.items LEFT JOIN (
                 SELECT bucket, location, sku, sum(quantity) AS lines, count(*) AS holds
                 FROM stockhold.active_lines GROUP BY bucket, location, sku
             ) AS lines USING (bucket, location, sku)
             WHERE mode = 0 AND (held <> coalesce(lines, 0) OR active <> coalesce(holds, 0))",
        );
        assert!(wrong.is_empty(), "{wrong:?}");
        let wrong = self.session.texts(
            "SELECT format('%s: units held by %s, lines of it %s', sku, units, lines) FROM (
                 SELECT location, sku, reservation AS id, count(*) AS units
                 FROM stockhold.units WHERE status = 1 GROUP BY location, sku, reservation
             ) AS held FULL JOIN (
                 SELECT location, sku, l.id, quantity AS lines FROM stockhold.active_lines l
                 JOIN stockhold.items USING (bucket, location, sku) WHERE mode = 1
             ) AS lines USING (location, sku, id) WHERE units IS DISTINCT FROM lines
             UNION ALL SELECT format('%s: unit %s and the ledger of sales', sku, id) FROM (
                 SELECT location, sku, id, reservation FROM stockhold.units WHERE status IN (2, 3)
             ) AS sold FULL JOIN (
                 SELECT location, sku, unit_id AS id, reservation FROM stockhold.unit_sales WHERE returned_at IS NULL
             ) AS open USING (location, sku, id, reservation) WHERE sold IS NULL OR open IS NULL",
        );
        assert!(wrong.is_empty(), "{wrong:?}");
        let strays = self.session.text(
            "SELECT count(*) FROM stockhold.active_lines l
             LEFT JOIN stockhold.holds h ON h.id = l.id AND h.expires_at = l.expires_at AND h.status = 0
             WHERE h.id IS NULL",
        );
        assert_eq!(strays, "0", "lines of no active reservation");
    }
}

/// Somebody who asks and waits for the answers.
#[derive(Default)]
pub(crate) struct Desk {
    inner: Mutex<Answers>,
    bell: Condvar,
}

#[derive(Default)]
struct Answers {
    given: BTreeMap<u64, Result<Answer, Failure>>,
    /// Answers that were put and not flushed: no waiting test has been woken for them.
    put: BTreeMap<u64, Result<Answer, Failure>>,
    asked: u64,
    flushes: usize,
}

impl Inbox for Desk {
    fn put(&self, ticket: u64, answer: Result<Answer, Failure>) {
        let mut inner = self.inner.lock().unwrap();
        let known = inner.given.contains_key(&ticket);
        let before = inner.put.insert(ticket, answer);
        assert!(before.is_none() && !known, "two answers for one ticket");
    }

    fn flush(&self) {
        let mut inner = self.inner.lock().unwrap();
        let mut put = std::mem::take(&mut inner.put);
        inner.given.append(&mut put);
        inner.flushes += 1;
        drop(inner);
        self.bell.notify_all();
    }
}

/// What was asked and not waited for yet.
pub(crate) struct Pending {
    desk: Arc<Desk>,
    tickets: Vec<u64>,
}

impl Pending {
    /// The answers, in the order asked.
    pub(crate) fn wait(self) -> Vec<Result<Answer, Failure>> {
        let waits =
            |answers: &mut Answers| !self.tickets.iter().all(|ticket| answers.given.contains_key(ticket));
        let inner = self.desk.inner.lock().unwrap();
        let (mut inner, late) = self.desk.bell.wait_timeout_while(inner, PATIENCE, waits).unwrap();
        assert!(!late.timed_out(), "an answer never came");
        self.tickets.iter().map(|ticket| inner.given.remove(ticket).unwrap()).collect()
    }

    pub(crate) fn outcomes(self) -> Vec<Result<Outcome, Failure>> {
        let outcome = |answer| match answer {
            Answer::Outcome(outcome) => outcome,
            other => panic!("a command was answered with {other:?}"),
        };
        self.wait().into_iter().map(|answer| answer.map(outcome)).collect()
    }

    pub(crate) fn only(self) -> Result<Outcome, Failure> {
        let mut outcomes = self.outcomes();
        assert_eq!(outcomes.len(), 1);
        outcomes.remove(0)
    }
}

impl Desk {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn flushes(&self) -> usize {
        self.inner.lock().unwrap().flushes
    }

    pub(crate) fn ask(self: &Arc<Self>, store: &dyn Store, asks: Vec<Request>) -> Pending {
        let mut tickets = Vec::new();
        for ask in asks {
            let ticket = {
                let mut inner = self.inner.lock().unwrap();
                inner.asked += 1;
                inner.asked
            };
            tickets.push(ticket);
            let inbox: Arc<dyn Inbox> = self.clone();
            store.submit(Job { request: ask, reply: ReplyTo { inbox, ticket } });
        }
        store.flush();
        Pending { desk: Arc::clone(self), tickets }
    }

    pub(crate) fn send(self: &Arc<Self>, store: &dyn Store, commands: Vec<Envelope>) -> Pending {
        self.ask(store, commands.into_iter().map(|envelope| Request::Command(Box::new(envelope))).collect())
    }

    /// One query, alone.
    pub(crate) fn find(self: &Arc<Self>, store: &dyn Store, query: Query) -> Result<QueryResult, Failure> {
        match self.ask(store, vec![Request::Query(query)]).wait().remove(0) {
            Ok(Answer::QueryResult(found)) => Ok(found),
            Err(failure) => Err(failure),
            Ok(other) => panic!("a query was answered with {other:?}"),
        }
    }
}

/// One command, alone.
pub(crate) fn run(store: &dyn Store, envelope: Envelope) -> Result<Outcome, Failure> {
    Desk::new().send(store, vec![envelope]).only()
}

/// Repeats a command until the store has a connection again. The failure says that nothing was done, so it may be repeated.
pub(crate) fn run_again(
    store: &dyn Store,
    maker: &mut Maker,
    envelope: &Envelope,
) -> Result<Outcome, Failure> {
    loop {
        let outcome = run(store, maker.again(envelope));
        if !matches!(outcome, Err(Failure::Unavailable(_))) {
            return outcome;
        }
    }
}

/// Waits until it is so; the test's end is that it becomes so.
pub(crate) fn wait_until(mut so: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !so() {
        assert!(started.elapsed() < PATIENCE, "it never became true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn item(store: &dyn Store, key: &ItemKey) -> Option<Item> {
    match Desk::new().find(store, Query::Items(vec![key.clone()])) {
        Ok(QueryResult::Items(mut items)) => items.remove(0),
        other => panic!("answered with {other:?}"),
    }
}

pub(crate) fn hold(store: &dyn Store, id: ReservationId) -> Option<Hold> {
    match Desk::new().find(store, Query::Reservation(id)) {
        Ok(QueryResult::Reservation(hold)) => hold,
        other => panic!("answered with {other:?}"),
    }
}

pub(crate) fn events_after(store: &dyn Store, after: u64, limit: usize) -> Vec<EventRow> {
    match Desk::new().find(store, Query::Events { after, limit }) {
        Ok(QueryResult::Events(rows)) => rows,
        other => panic!("answered with {other:?}"),
    }
}

/// Everything that is committed, in small steps so that resuming is tested as well.
pub(crate) fn events(store: &dyn Store) -> Vec<EventRow> {
    let mut rows: Vec<EventRow> = Vec::new();
    loop {
        let after = rows.last().map_or(0, |row| row.position);
        let more = events_after(store, after, 300);
        if more.is_empty() {
            return rows;
        }
        rows.extend(more);
    }
}

pub(crate) fn stock(store: &dyn Store, maker: &mut Maker, name: &str, total: u64) -> ItemKey {
    let item = maker.item(name);
    let outcome = run(store, maker.wrap(Command::SetStock(maker::stock_of(&item, total))));
    assert!(matches!(outcome, Ok(Outcome::Done(Reply::Item { .. }))), "{outcome:?}");
    item
}

pub(crate) fn reservation(outcome: &Result<Outcome, Failure>) -> Option<&Hold> {
    match outcome {
        Ok(Outcome::Done(Reply::Reservation(hold)) | Outcome::Replayed(Reply::Reservation(hold))) => {
            Some(hold)
        }
        _ => None,
    }
}

pub(crate) fn sold_out(outcome: &Result<Outcome, Failure>) -> bool {
    matches!(outcome, Ok(Outcome::Refused(Rejection::InsufficientInventory(_))))
}
