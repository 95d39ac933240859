//! A standby that is read: used while it is fresh, and never trusted when it is not, is gone, or is another database's.

use crate::fixture::{Bench, Desk, item, run, stock};
use crate::shared::proxy::Proxy;
use crate::support::{Server, Session};
use crate::wire::PostgresWire;
use std::sync::Arc;
use std::time::Duration;
use stockhold_conformance::{Maker, START, maker};
use stockhold_domain::{Instant, ItemKey};
use stockhold_sql::{Options, Replica};
use stockhold_store::{ItemPageRequest, Query, QueryResult, Store};

/// Longer than a user would allow: tests share the machine, and what is asserted does not depend on it.
const STALENESS: Duration = Duration::from_secs(1);

/// More looks at the items of a standby than any number of attempts to find out whose it is makes.
const LOOKS: u64 = 30;

struct Scene {
    bench: Bench,
    standby: Server,
    proxy: Proxy,
    store: Arc<dyn Store>,
    maker: Maker,
    item: ItemKey,
}

fn with_replica(bench: &Bench, url: String) -> Arc<dyn Store> {
    let replica = Some(Replica { url, staleness: STALENESS });
    stockhold_sql::open(&bench.database.url, Options { replica, ..Bench::options() })
        .expect("the store opens")
}

/// A primary of its own with one item.
fn primary(seed: u64, total: u64) -> (Arc<Server>, Bench, Maker, ItemKey) {
    let server = Arc::new(Server::start());
    let mut bench = Bench::on(&server);
    // No two databases get their first item at the same microsecond.
    bench.set_clock(Instant::from_micros(START.micros() + i64::try_from(total).expect("a small number")));
    let mut maker = Maker::new(seed, "replica-");
    let item = stock(&bench.connect(), &mut maker, "a", total);
    (server, bench, maker, item)
}

impl Scene {
    fn new(seed: u64) -> Self {
        let (server, bench, maker, item) = primary(seed, 10);
        let standby = Server::standby_of(&server);
        let proxy = Proxy::new::<PostgresWire>(standby.socket(), bench.database.name());
        let store = with_replica(&bench, proxy.url());
        Self { bench, standby, proxy, store, maker, item }
    }

    fn held(&self) -> u64 {
        item(&*self.store, &self.item).expect("the item").figures.held
    }

    fn reserve(&mut self) {
        let outcome = run(&*self.store, self.maker.wrap(maker::reserve_for(60, &[(&self.item, 1)])));
        assert!(outcome.is_ok(), "{outcome:?}");
    }

    fn of_standby(&self) -> Session {
        Session::open(&self.standby.url(self.bench.database.name()))
    }

    /// Reads until the standby has answered, from now on.
    fn read_until_the_standby_answers(&self) {
        let mut session = self.of_standby();
        let before = looks(&mut session);
        self.until("the standby answers", || looks(&mut session) > before + LOOKS);
    }

    /// Reads again and again until it is so.
    fn until(&self, what: &str, mut so: impl FnMut() -> bool) {
        let started = std::time::Instant::now();
        while !so() {
            assert!(started.elapsed() < Duration::from_secs(90), "never: {what}");
            self.held();
        }
    }
}

/// How often a server has looked items up.
fn looks(session: &mut Session) -> u64 {
    let count = "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE relname = 'items'";
    session.text(count).parse().expect("a number")
}

#[test]
fn what_is_to_be_had_is_read_of_a_standby_and_of_the_primary_when_that_falls_behind() {
    let mut scene = Scene::new(80);
    scene.read_until_the_standby_answers();
    let shelf = ItemPageRequest { location: None, after: None, limit: 10 };
    match Desk::new().find(&*scene.store, Query::ItemPage(shelf)) {
        Ok(QueryResult::ItemPage(items)) => assert_eq!(items.len(), 1),
        other => panic!("{other:?}"),
    }

    scene.of_standby().run("SELECT pg_wal_replay_pause()");
    scene.reserve();
    scene.until("the primary is read", || scene.held() == 1);
    // What the standby shows is too old by now, and stays so.
    for _ in 0..20 {
        assert_eq!(scene.held(), 1);
    }
    assert_eq!(scene.of_standby().text("SELECT held FROM stockhold.items"), "0");

    scene.of_standby().run("SELECT pg_wal_replay_resume()");
    scene.read_until_the_standby_answers();
    scene.bench.audit();
}

#[test]
fn a_standby_that_is_silent_or_gone_costs_nobody_an_answer() {
    let mut scene = Scene::new(81);
    scene.read_until_the_standby_answers();
    scene.proxy.hush();
    scene.reserve();
    scene.until("the primary is read", || scene.held() == 1);

    scene.read_until_the_standby_answers();
    scene.standby.stop();
    scene.reserve();
    assert_eq!(scene.held(), 2);
    scene.standby.run();
    scene.read_until_the_standby_answers();
}

#[test]
fn a_standby_of_another_database_is_not_read() {
    let (_server, bench, _, key) = primary(82, 10);
    // The same item by name, as a copy for tests has it.
    let (others, other_bench, _, other_key) = primary(82, 99);
    assert_eq!(key, other_key);
    let standby = Server::standby_of(&others);
    let name = other_bench.database.name();
    let mut session = Session::open(&standby.url(name));
    let store = with_replica(&bench, standby.url(name));
    let started = std::time::Instant::now();
    // Once for each of the store's connections to it, and then again: it has been refused by then.
    while looks(&mut session) < 3 {
        assert!(started.elapsed() < Duration::from_secs(90), "it is never looked at");
        assert_eq!(item(&*store, &key).expect("the item").figures.total_units, 10);
    }
    for _ in 0..20 {
        assert_eq!(item(&*store, &key).expect("the item").figures.total_units, 10);
    }
}

#[test]
fn a_primary_is_no_replica() {
    let (server, bench, mut maker, key) = primary(83, 10);
    let store = with_replica(&bench, server.url(bench.database.name()));
    for held in 1..=20 {
        let outcome = run(&*store, maker.wrap(maker::reserve_for(60, &[(&key, 1)])));
        assert!(held > 10 || outcome.is_ok(), "{outcome:?}");
        assert_eq!(item(&*store, &key).expect("the item").figures.held, held.min(10));
    }
}

#[test]
fn a_replica_has_to_be_of_the_same_kind() {
    let bench = Bench::new();
    let replica = Some(Replica { url: "mysql://stockhold:secret@h/d".to_owned(), staleness: STALENESS });
    let opened = stockhold_sql::open(&bench.database.url, Options { replica, ..Bench::options() });
    let said = opened.err().expect("it is refused").to_string();
    assert!(said.contains("same kind") && !said.contains("secret"), "{said}");
}
