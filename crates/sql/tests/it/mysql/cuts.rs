//! Connections that are cut at the moments that matter, and a network that is gone for a while.

use super::bench::Bench;
use super::proxy::{Cut, Proxy};
use crate::fixture::{item, run, stock};
use stockhold_domain::{Envelope, ItemKey, Outcome};
use stockhold_sql::mysql::MysqlStore;
use stockhold_store::conformance::{Maker, maker};
use stockhold_store::{Failure, Store};

struct Scene {
    bench: Bench,
    proxy: Proxy,
    store: MysqlStore,
    maker: Maker,
    item: ItemKey,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let bench = Bench::new();
        let proxy = Proxy::new(bench.database.server().socket());
        let store = MysqlStore::open(&proxy.url(bench.database.name()), Bench::options()).unwrap();
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
        let again = self.maker.again(envelope);
        let outcome = run(&self.store, again).unwrap();
        assert_eq!(item(&self.store, &self.item).unwrap().figures.held, 1);
        self.bench.audit();
        outcome
    }
}

#[test]
fn cut_when_the_batch_begins_another_connection_takes_its_place_and_nobody_notices() {
    let mut scene = Scene::new(60);
    let (envelope, outcome) = scene.cut(Cut::AtBegin);
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    let again = scene.again(&envelope);
    assert!(matches!(again, Outcome::Replayed(_)), "{again:?}");
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
    let envelope = scene.reserve();
    loop {
        let outcome = run(&scene.store, envelope.clone());
        assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
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
