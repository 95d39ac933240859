//! Connections that are cut at the moments that matter, and a network that is gone for a while.

use super::lock;
use super::proxy::{Cut, Proxy};
use crate::audit::Shop;
use crate::fixture::{Desk, item, run, run_again, stock, wait_until};
use std::sync::Arc;
use std::time::Duration;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Envelope, ItemKey, Outcome};
use stockhold_sql::Options;
use stockhold_store::{Failure, Store};

/// A store behind a proxy.
pub(crate) struct Scene<'a, S> {
    shop: &'a mut S,
    proxy: Proxy,
    store: Arc<dyn Store>,
    maker: Maker,
    item: ItemKey,
}

impl<'a, S: Shop> Scene<'a, S> {
    pub(crate) fn new(shop: &'a mut S, seed: u64) -> Self {
        let proxy = shop.proxy();
        let store = stockhold_sql::open(&proxy.url(), shop.options()).unwrap();
        let mut maker = Maker::new(seed, "cut-");
        let item = stock(&*store, &mut maker, "a", 10);
        Self { shop, proxy, store, maker, item }
    }

    fn reserve(&mut self) -> Envelope {
        self.maker.keyed("k", maker::reserve_for(60, &[(&self.item, 1)]))
    }

    /// A reserve whose connection is cut, and what it was answered.
    pub(crate) fn cut(&mut self, cut: Cut) -> (Envelope, Result<Outcome, Failure>) {
        let envelope = self.reserve();
        self.proxy.arm(cut);
        let outcome = run(&*self.store, envelope.clone());
        assert!(self.proxy.has_cut());
        (envelope, outcome)
    }

    /// The same once more, with a new connection, and that it all happened once.
    pub(crate) fn again(&mut self, envelope: &Envelope) -> Outcome {
        let outcome = if S::RECONNECTS {
            run(&*self.store, self.maker.again(envelope))
        } else {
            run_again(&*self.store, &mut self.maker, envelope)
        };
        let outcome = outcome.unwrap();
        assert_eq!(item(&*self.store, &self.item).unwrap().figures.held, 1);
        self.shop.audit();
        outcome
    }
}

pub(crate) fn cut_before_commit_reaches_the_server_the_outcome_is_unknown_and_nothing_was_done<S: Shop>(
    shop: &mut S,
) {
    let mut scene = Scene::new(shop, 61);
    let (envelope, outcome) = scene.cut(Cut::BeforeCommit);
    assert_eq!(outcome, Err(Failure::OutcomeUnknown));
    let again = scene.again(&envelope);
    assert!(matches!(again, Outcome::Done(_)), "{again:?}");
}

/// Until the database ends its session.
pub(crate) fn a_server_that_freezes_in_the_middle_of_a_batch_does_not_keep_its_items_locked<S: Shop>(
    shop: &mut S,
) {
    let proxy = shop.proxy();
    let options = Options { batch_deadline: Duration::from_secs(2), ..shop.options() };
    let frozen = stockhold_sql::open(&proxy.url(), options).unwrap();
    let mut maker = Maker::new(66, "frozen-");
    let item_key = stock(&*frozen, &mut maker, "a", 10);
    let mut holder = lock(shop, &item_key);
    let pending = Desk::new().send(&*frozen, vec![maker.wrap(maker::reserve_for(60, &[(&item_key, 1)]))]);
    shop.wait_until_locked_out(1);
    proxy.hush();
    // Now it has the lock, and never hears of it.
    holder("COMMIT");
    let other = shop.store();
    let outcome = run(&*other, maker.wrap(maker::reserve_for(60, &[(&item_key, 1)])));
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    let outcome = pending.only();
    assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
    assert_eq!(item(&*other, &item_key).unwrap().figures.held, 1);
    shop.audit();
}

pub(crate) fn cut_when_the_server_has_committed_the_outcome_is_unknown_and_the_retry_finds_it<S: Shop>(
    shop: &mut S,
) {
    let mut scene = Scene::new(shop, 62);
    let (envelope, outcome) = scene.cut(Cut::AfterCommit);
    assert_eq!(outcome, Err(Failure::OutcomeUnknown));
    let again = scene.again(&envelope);
    assert!(matches!(again, Outcome::Replayed(_)), "{again:?}");
}

pub(crate) fn cut_when_the_answer_has_come_nothing_is_lost<S: Shop>(shop: &mut S) {
    let mut scene = Scene::new(shop, 63);
    let (envelope, outcome) = scene.cut(Cut::AfterAnswer);
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    let again = scene.again(&envelope);
    assert!(matches!(again, Outcome::Replayed(_)), "{again:?}");
}

pub(crate) fn a_network_that_is_gone_for_a_while_is_unavailable_and_the_same_store_serves_again<S: Shop>(
    shop: &mut S,
) {
    let mut scene = Scene::new(shop, 64);
    scene.proxy.close(true);
    let envelope = scene.reserve();
    loop {
        let outcome = run(&*scene.store, envelope.clone());
        // Without a connection in its place, the first may still find one of which nobody knows yet that it is cut.
        let unknown = !S::RECONNECTS && matches!(outcome, Err(Failure::OutcomeUnknown));
        assert!(unknown || matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
        if scene.store.fatal_error().is_some() {
            break;
        }
    }
    scene.proxy.close(false);
    // Nobody asks anything of it meanwhile: it has to notice by itself.
    wait_until(|| scene.store.fatal_error().is_none());
    let again = scene.again(&envelope);
    assert!(matches!(again, Outcome::Done(_)), "{again:?}");
}
