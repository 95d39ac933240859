//! What may stand in Redis, and what may happen to it: nothing of it breaks a promise of the store, and after a reload the numbers are
//! right.

use crate::redis_server::RedisServer;
use crate::world::{GateWorld, units_of};
use std::sync::Arc;
use stockhold_conformance::Maker;
use stockhold_conformance::maker::{reserve, stock_of};
use stockhold_domain::{Command, ItemKey, Outcome, Patch, Rejection, SetStock};
use stockhold_gate::GateOptions;

/// A gated item with five units, at a gate that asks the store as a server's does.
fn sale() -> (GateWorld, Maker, ItemKey) {
    let redis = Arc::new(RedisServer::start());
    let world = GateWorld::refusing_for(redis, GateOptions::ASK_INTERVAL);
    let mut maker = Maker::new(11, "counters");
    let shirt = maker.item("shirt");
    let set = SetStock { gated: Patch::Set(true), ..stock_of(&shirt, 5) };
    assert!(matches!(world.run(0, maker.wrap(Command::SetStock(set))), Ok(Outcome::Done(_))));
    world.wait_for_units(0, &shirt, 5);
    (world, maker, shirt)
}

fn name_of(world: &GateWorld) -> String {
    let names: Vec<String> = world.redis.run(&["KEYS", "stockhold:gate:*"]);
    assert_eq!(names.len(), 1, "{names:?}");
    names[0].clone()
}

/// Buys until nothing is left, and checks that nothing is sold twice or withheld.
fn sells_what_is_left(world: &GateWorld, maker: &mut Maker, shirt: &ItemKey, units: u64) {
    let mut held = 0;
    for _ in 0..200 {
        match world.run(0, maker.wrap(reserve(&[(shirt, 1)]))).unwrap() {
            Outcome::Done(_) => held += 1,
            Outcome::Refused(Rejection::InsufficientInventory(_)) if held == units => break,
            // A number that is too low is noticed when the store is asked.
            Outcome::Refused(Rejection::InsufficientInventory(_)) => {
                std::thread::sleep(GateOptions::ASK_INTERVAL);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(held, units);
    assert_eq!(world.stored(shirt).available(), 0);
}

#[test]
fn a_flush_is_noticed_and_costs_no_unit() {
    let (world, mut maker, shirt) = sale();
    world.redis.run::<()>(&["FLUSHALL"]);
    assert!(matches!(world.run(0, maker.wrap(reserve(&[(&shirt, 2)]))), Ok(Outcome::Done(_))));
    world.wait_for_units(0, &shirt, 3);
    sells_what_is_left(&world, &mut maker, &shirt, 3);
}

#[test]
fn whatever_stands_in_redis_is_replaced() {
    let (world, mut maker, shirt) = sale();
    let name = name_of(&world);
    let fields = ["epoch", "sequence", "available", "pending"];
    let garbage: [&[&str]; 8] = [
        &["SET", &name, "no hash"],
        &["HSET", &name, "available", "many"],
        &["HSET", &name, "available", "-5"],
        &["HSET", &name, "available", "1e300", "epoch", "nan"],
        &["HSET", &name, "pending", "-1"],
        &["HDEL", &name, "epoch"],
        &["HSET", &name, "sequence", "9007199254740990", "available", "0"],
        &["HSET", &name, "epoch", "9007199254740990", "pending", "100"],
    ];
    assert_eq!(world.redis.run::<Vec<String>>(&["HKEYS", &name]).len(), fields.len());
    for words in garbage {
        world.redis.run::<()>(&["DEL", &name]);
        world.reload(0).unwrap();
        world.wait_for_units(0, &shirt, 5);
        if words[0] == "SET" {
            world.redis.run::<()>(&["DEL", &name]);
        }
        world.redis.run::<redis::Value>(words);
        // One of several requests gets to the store and shows what is wrong; or a reload does.
        assert!(world.reload(0).unwrap().reloaded == 1, "{words:?}");
        assert_eq!(units_of(&world.status(0), &shirt), Some(5), "{words:?}");
    }
    let corrections = world.status(0).corrections;
    assert!(corrections >= 4, "{corrections}");
    sells_what_is_left(&world, &mut maker, &shirt, 5);
}

#[test]
fn a_counter_that_is_wrong_costs_nothing_before_it_is_reloaded() {
    for (available, sequence) in [("1000", "1"), ("0", "9007199254740990"), ("0", "1")] {
        let (world, mut maker, shirt) = sale();
        let name = name_of(&world);
        world.redis.run::<()>(&["HSET", &name, "available", available, "sequence", sequence]);
        sells_what_is_left(&world, &mut maker, &shirt, 5);
    }
}

#[test]
fn a_redis_that_was_restored_from_an_hour_ago_sells_nothing_twice() {
    let (world, mut maker, shirt) = sale();
    let name = name_of(&world);
    let an_hour_ago: Vec<String> = world.redis.run(&["HGETALL", &name]);
    assert!(matches!(world.run(0, maker.wrap(reserve(&[(&shirt, 3)]))), Ok(Outcome::Done(_))));
    world.wait_for_units(0, &shirt, 2);
    world.redis.run::<()>(&["FLUSHALL"]);
    let restore: Vec<&str> =
        ["HSET", &name].into_iter().chain(an_hour_ago.iter().map(String::as_str)).collect();
    world.redis.run::<redis::Value>(&restore);
    sells_what_is_left(&world, &mut maker, &shirt, 2);
    world.reload(0).unwrap();
    world.wait_for_units(0, &shirt, 0);
}

#[test]
fn a_redis_that_is_killed_or_hangs_leaves_the_store_to_decide() {
    let (mut world, mut maker, shirt) = sale();
    Arc::get_mut(&mut world.redis).unwrap().kill();
    assert!(matches!(world.run(0, maker.wrap(reserve(&[(&shirt, 1)]))), Ok(Outcome::Done(_))));
    world.wait_for(0, "no Redis", |status| !status.connected || status.admitted == 0);
    assert!(matches!(world.run(0, maker.wrap(reserve(&[(&shirt, 1)]))), Ok(Outcome::Done(_))));
    Arc::get_mut(&mut world.redis).unwrap().restart();
    world.wait_for_units(0, &shirt, 3);
    world.redis.suspend(true);
    assert!(matches!(world.run(0, maker.wrap(reserve(&[(&shirt, 1)]))), Ok(Outcome::Done(_))));
    world.redis.suspend(false);
    world.wait_for(0, "Redis", |status| status.connected);
    world.reload(0).unwrap();
    sells_what_is_left(&world, &mut maker, &shirt, 2);
}
