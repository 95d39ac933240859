//! Connections that are cut at the moments that matter, and a network that is gone for a while.

use crate::fixture::{Bench, Desk, item, run, run_again, stock};
use crate::proxy::{Cut, Proxy};
use stockhold_domain::{Envelope, ItemKey, Outcome};
use stockhold_sql::Options;
use stockhold_sql::postgres::PostgresStore;
use stockhold_store::conformance::{Maker, maker};
use stockhold_store::{Failure, Store};

struct Scene {
    bench: Bench,
    proxy: Proxy,
    store: PostgresStore,
    maker: Maker,
    item: ItemKey,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let bench = Bench::new();
        let proxy = Proxy::new(bench.database.server().socket());
        let store = PostgresStore::open(&proxy.url(bench.database.name()), Bench::options()).unwrap();
        let mut maker = Maker::new(seed, "cut-");
        let item = stock(&store, &mut maker, "a", 10);
        Self { bench, proxy, store, maker, item }
    }

    fn reserve(&mut self) -> Envelope {
        self.maker.keyed("k", maker::reserve_for(60, &[(&self.item, 1)]))
    }

    /// A reserve whose connection is cut, and what it was answered.
    fn cut(&mut self, cut: Cut) -> (Envelope, Result<Outcome, Failure>) {
        let envelope = self.reserve();
        self.proxy.arm(cut);
        let outcome = run(&self.store, envelope.clone());
        assert!(self.proxy.has_cut());
        (envelope, outcome)
    }

    /// The same once more, with a new connection, and that it all happened once.
    fn again(&mut self, envelope: &Envelope) -> Outcome {
        let outcome = run_again(&self.store, &mut self.maker, envelope).unwrap();
        assert_eq!(item(&self.store, &self.item).unwrap().figures.held, 1);
        self.bench.audit();
        outcome
    }
}

#[test]
fn cut_when_the_batch_begins_nothing_was_done_and_the_answer_says_so() {
    let mut scene = Scene::new(60);
    let (envelope, outcome) = scene.cut(Cut::AtBegin);
    assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
    let again = scene.again(&envelope);
    assert!(matches!(again, Outcome::Done(_)), "{again:?}");
}

#[test]
fn cut_before_commit_reaches_the_server_the_outcome_is_unknown_and_nothing_was_done() {
    let mut scene = Scene::new(61);
    let (envelope, outcome) = scene.cut(Cut::BeforeCommit);
    assert_eq!(outcome, Err(Failure::OutcomeUnknown));
    let again = scene.again(&envelope);
    assert!(matches!(again, Outcome::Done(_)), "{again:?}");
}

#[test]
fn cut_when_the_server_has_committed_the_outcome_is_unknown_and_the_retry_finds_it() {
    let mut scene = Scene::new(62);
    let (envelope, outcome) = scene.cut(Cut::AfterCommit);
    assert_eq!(outcome, Err(Failure::OutcomeUnknown));
    let again = scene.again(&envelope);
    assert!(matches!(again, Outcome::Replayed(_)), "{again:?}");
}

#[test]
fn cut_when_the_answer_has_come_nothing_is_lost() {
    let mut scene = Scene::new(63);
    let (envelope, outcome) = scene.cut(Cut::AfterAnswer);
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    let again = scene.again(&envelope);
    assert!(matches!(again, Outcome::Replayed(_)), "{again:?}");
}

#[test]
fn a_network_that_is_gone_for_a_while_is_unavailable_and_then_served_again_by_the_same_store() {
    let mut scene = Scene::new(64);
    scene.proxy.close(true);
    // The first may still find a connection of which nobody knows yet that it is cut.
    let envelope = scene.reserve();
    loop {
        let outcome = run(&scene.store, envelope.clone());
        assert!(matches!(outcome, Err(Failure::Unavailable(_) | Failure::OutcomeUnknown)), "{outcome:?}");
        if scene.store.trouble().is_some() {
            break;
        }
    }
    scene.proxy.close(false);
    // Nobody asks anything of it meanwhile: it has to notice by itself.
    while scene.store.trouble().is_some() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let again = scene.again(&envelope);
    assert!(matches!(again, Outcome::Done(_)), "{again:?}");
}

#[test]
fn connections_to_a_machine_that_is_gone_are_given_up_together() {
    let mut bench = Bench::new();
    let proxy = Proxy::new(bench.database.server().socket());
    let deadline = std::time::Duration::from_secs(3);
    let options = Options {
        connections: 8,
        most_connections: 8,
        batch_deadline: deadline,
        commit_deadline: deadline,
        ..Bench::options()
    };
    let store = PostgresStore::open(&proxy.url(bench.database.name()), options).unwrap();
    let mut maker = Maker::new(65, "gone-");
    let item_key = stock(&store, &mut maker, "a", 10);
    // One that rests for a second is no longer being opened.
    bench.session.wait_for(
        "SELECT count(*) >= 6 FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'stockhold'
           AND state = 'idle' AND state_change < clock_timestamp() - interval '1 second'",
    );
    proxy.hush();
    let envelope = maker.keyed("k", maker::reserve_for(60, &[(&item_key, 1)]));
    let outcome = run(&store, envelope.clone());
    assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
    // Other connections to it had been there to try, one after the other.
    let again = run(&store, maker.again(&envelope));
    assert!(matches!(again, Ok(Outcome::Done(_))), "{again:?}");
    assert_eq!(item(&store, &item_key).unwrap().figures.held, 1);
    bench.audit();
}

#[test]
fn a_server_that_freezes_in_the_middle_of_a_batch_does_not_keep_its_items_locked() {
    let mut bench = Bench::new();
    let proxy = Proxy::new(bench.database.server().socket());
    let options = Options { batch_deadline: std::time::Duration::from_secs(2), ..Bench::options() };
    let frozen = PostgresStore::open(&proxy.url(bench.database.name()), options).unwrap();
    let mut maker = Maker::new(66, "frozen-");
    let item_key = stock(&frozen, &mut maker, "a", 10);
    let mut holder = bench.lock(&item_key);
    let pending = Desk::new().send(&frozen, vec![maker.wrap(maker::reserve_for(60, &[(&item_key, 1)]))]);
    bench.wait_until_locked_out(1);
    proxy.hush();
    // Now it has the lock, and never hears of it.
    holder.run("COMMIT");
    let other = bench.connect();
    let outcome = run(&other, maker.wrap(maker::reserve_for(60, &[(&item_key, 1)])));
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    let outcome = pending.only();
    assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
    assert_eq!(item(&other, &item_key).unwrap().figures.held, 1);
    bench.audit();
}
