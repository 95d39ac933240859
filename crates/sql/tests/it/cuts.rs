//! What PostgreSQL's stores do about connections that are cut, and about machines that are gone.

use crate::audit::Shop;
use crate::fixture::{Bench, item, run, stock};
use crate::shared::cuts::Scene;
use crate::shared::proxy::Cut;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::Outcome;
use stockhold_sql::Options;
use stockhold_sql::postgres;
use stockhold_store::Failure;

#[test]
fn cut_when_the_batch_begins_nothing_was_done_and_the_answer_says_so() {
    let mut bench = Bench::new();
    let mut scene = Scene::new(&mut bench, 60);
    let (envelope, outcome) = scene.cut(Cut::AtBegin);
    assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
    let again = scene.again(&envelope);
    assert!(matches!(again, Outcome::Done(_)), "{again:?}");
}

#[test]
fn connections_to_a_machine_that_is_gone_are_given_up_together() {
    let mut bench = Bench::new();
    let proxy = bench.proxy();
    let deadline = std::time::Duration::from_secs(3);
    let options = Options {
        connections: 8,
        most_connections: 8,
        batch_deadline: deadline,
        commit_deadline: deadline,
        ..Bench::options()
    };
    let store = postgres::open(&proxy.url(), options).unwrap();
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
