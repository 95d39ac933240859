//! The suite of all stores, through a gate that is asked for every counted item and whose refusals are never its own. So everything but
//! a refusal by the gate takes part: admissions, their settlement, the order of answers, and what an answer waits for.

use crate::redis_server::RedisServer;
use crate::world::GateWorld;
use std::sync::Arc;
use stockhold_conformance::{case_groups, random_history, run_cases, stepping_history};

#[test]
fn passes_every_case_behind_a_gate() {
    let redis = Arc::new(RedisServer::start());
    for group in case_groups() {
        redis.run::<()>(&["FLUSHALL"]);
        let mut world = GateWorld::asking_always(Arc::clone(&redis));
        let failed = run_cases(&mut world, &group);
        assert!(failed.is_empty(), "{failed:#?}");
        assert_numbers_are_right(&world);
    }
}

#[test]
fn random_histories_go_as_the_model_says() {
    let redis = Arc::new(RedisServer::start());
    for seed in 0..6 {
        let mut world = GateWorld::asking_always(Arc::clone(&redis));
        random_history(&mut world, seed, 250).unwrap();
        assert_numbers_are_right(&world);
        stepping_history(&mut GateWorld::asking_always(Arc::clone(&redis)), seed, 250).unwrap();
    }
}

/// The gate soon has the numbers of the store, for all items, without a reload.
fn assert_numbers_are_right(world: &GateWorld) {
    let status = world.wait_for(0, "the numbers of the store", |status| {
        !status.items.is_empty()
            && status.items.iter().all(|found| {
                let stored = world.stored(&found.item);
                found.counter.is_some_and(|counter| {
                    counter.sequence == stored.figures.sequence && counter.units == stored.available()
                })
            })
    });
    assert!(world.admitted() > 0, "the gate was asked: {status:?}");
}
