//! What the gate refuses by itself, and what it never refuses.

use crate::redis_server::RedisServer;
use crate::world::{GateWorld, outcome_of, units_of};
use std::sync::Arc;
use stockhold_conformance::maker::{
    self, confirm, release, reserve, reserve_for, reserve_of, return_all, set_pool, stock_of,
};
use stockhold_conformance::{Maker, START, World};
use stockhold_domain::{
    Command, Envelope, Fulfilment, ItemKey, Outcome, Patch, Rejection, Reply, ReservationId, Reserve,
    SetStock,
};
use stockhold_gate::GateOptions;
use stockhold_store::{Answer, Request};

struct Sale {
    world: GateWorld,
    maker: Maker,
}

impl Sale {
    fn new(instances: usize) -> Self {
        let world = GateWorld::refusing(Arc::new(RedisServer::start()), instances);
        Self { world, maker: Maker::new(7, "sale") }
    }

    /// One whose store is asked from time to time, as that of a server is.
    fn asking() -> Self {
        let world = GateWorld::refusing_for(Arc::new(RedisServer::start()), GateOptions::ASK_INTERVAL);
        Self { world, maker: Maker::new(7, "sale") }
    }

    /// A gated item with this many units.
    fn item(&mut self, name: &str, units: u64) -> ItemKey {
        let key = self.maker.item(name);
        let set = SetStock { gated: Patch::Set(true), ..stock_of(&key, units) };
        self.done(0, Command::SetStock(set));
        self.world.wait_for_units(0, &key, units);
        key
    }

    fn outcome(&mut self, instance: usize, command: Command) -> Outcome {
        let envelope = self.maker.wrap(command);
        self.world.run(instance, envelope).unwrap()
    }

    fn done(&mut self, instance: usize, command: Command) -> Reply {
        match self.outcome(instance, command) {
            Outcome::Done(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn hold(&mut self, instance: usize, command: Command) -> ReservationId {
        match self.done(instance, command) {
            Reply::Reservation(hold) => hold.id,
            other => panic!("{other:?}"),
        }
    }

    /// The units that a refusal says are available, and whether the gate says so.
    #[track_caller]
    fn shortage(&mut self, instance: usize, command: Command) -> (u64, bool) {
        match self.outcome(instance, command) {
            Outcome::Refused(Rejection::InsufficientInventory(lines)) => {
                (lines[0].available, lines[0].approximate)
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_sold_out_item_is_refused_without_the_store() {
    let mut sale = Sale::new(1);
    let shirt = sale.item("shirt", 3);
    sale.hold(0, reserve(&[(&shirt, 2)]));
    let events = sale.world.events().len();
    assert_eq!(sale.shortage(0, reserve(&[(&shirt, 2)])), (1, true));
    sale.hold(0, reserve(&[(&shirt, 1)]));
    let Outcome::Refused(Rejection::InsufficientInventory(lines)) = sale.outcome(0, reserve(&[(&shirt, 1)]))
    else {
        panic!("not refused");
    };
    let stored = sale.world.stored(&shirt);
    assert_eq!(stored.available(), 0);
    assert_eq!(sale.world.events().len(), events + 1, "one hold, and nothing else");
    assert_eq!((lines[0].available, lines[0].requested, lines[0].approximate), (0, 1, true));
    let deadline = START.deadline(stockhold_domain::Seconds::DEFAULT_TTL);
    assert_eq!(lines[0].next_expiry_at, Some(deadline), "the deadline of the first hold");
    let status = sale.world.status(0);
    assert_eq!((status.admitted, status.refused), (2, 2), "{status:?}");
}

#[test]
fn units_that_come_back_are_there_when_the_answer_is() {
    let mut sale = Sale::new(1);
    let shirt = sale.item("shirt", 1);
    for _ in 0..20 {
        let hold = sale.hold(0, reserve(&[(&shirt, 1)]));
        assert_eq!(sale.shortage(0, reserve(&[(&shirt, 1)])), (0, true));
        sale.done(0, release(hold));
        let sold = sale.hold(0, reserve(&[(&shirt, 1)]));
        sale.done(0, confirm(sold));
        assert_eq!(sale.shortage(0, reserve(&[(&shirt, 1)])), (0, true));
        sale.done(0, return_all(sold));
    }
    sale.done(0, Command::SetStock(stock_of(&shirt, 2)));
    sale.hold(0, reserve(&[(&shirt, 2)]));
}

#[test]
fn another_instance_learns_what_changes() {
    let mut sale = Sale::new(2);
    let shirt = sale.item("shirt", 1);
    sale.world.wait_for_units(1, &shirt, 1);
    let hold = sale.hold(0, reserve(&[(&shirt, 1)]));
    assert_eq!(sale.shortage(1, reserve(&[(&shirt, 1)])), (0, true), "one counter for all");
    sale.done(1, release(hold));
    sale.hold(0, reserve(&[(&shirt, 1)]));
    // The feed of events says that somebody else's sweeper has expired the hold.
    sale.world.set_clock(START.deadline(stockhold_domain::Seconds::DEFAULT_TTL));
    let sweep = sale.maker.wrap(Command::Sweep);
    let swept =
        stockhold_conformance::bench::submit_all(sale.world.store(), vec![Request::Command(Box::new(sweep))]);
    assert!(
        matches!(swept[0], Ok(Answer::Outcome(Outcome::Done(Reply::Swept { expired: 1, .. })))),
        "{swept:?}"
    );
    for instance in [0, 1] {
        sale.world.wait_for_units(instance, &shirt, 1);
    }
}

#[test]
fn a_due_hold_is_left_to_the_store() {
    let mut sale = Sale::new(1);
    let shirt = sale.item("shirt", 1);
    sale.hold(0, reserve_for(60, &[(&shirt, 1)]));
    assert_eq!(sale.shortage(0, reserve(&[(&shirt, 1)])), (0, true));
    // Nobody has swept it, so the gate has no units yet.
    sale.world.set_clock(START.deadline(maker::seconds(60)));
    sale.hold(0, reserve(&[(&shirt, 1)]));
}

#[test]
fn a_basket_passes_as_a_whole_or_gives_back() {
    let mut sale = Sale::new(1);
    let (shirt, cap) = (sale.item("shirt", 5), sale.item("cap", 1));
    assert_eq!(sale.shortage(0, reserve(&[(&shirt, 2), (&cap, 2)])), (1, true));
    sale.hold(0, reserve(&[(&shirt, 5), (&cap, 1)]));
    assert_eq!(sale.shortage(0, reserve(&[(&shirt, 1), (&cap, 1)])), (0, true));
}

#[test]
fn a_partial_reserve_gets_what_there_is() {
    let mut sale = Sale::new(1);
    let (shirt, cap) = (sale.item("shirt", 2), sale.item("cap", 1));
    let partial = |lines: &[(&ItemKey, u64)]| {
        Command::Reserve(Reserve { fulfilment: Fulfilment::Partial, ..reserve_of(lines) })
    };
    let Reply::Reservation(hold) = sale.done(0, partial(&[(&shirt, 5), (&cap, 1)])) else {
        panic!("no hold")
    };
    assert_eq!(hold.lines.iter().map(|line| line.quantity).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(sale.shortage(0, partial(&[(&shirt, 1), (&cap, 1)])), (0, true));
    sale.done(0, release(hold.id));
    sale.hold(0, partial(&[(&shirt, 1), (&cap, 1)]));
}

#[test]
fn what_else_is_wrong_is_said_first() {
    let mut sale = Sale::asking();
    let shirt = sale.item("shirt", 0);
    assert_eq!(sale.shortage(0, reserve(&[(&shirt, 1)])).0, 0);
    let unknown = sale.maker.item("nobody-has-it");
    let stocked = sale.maker.item("plain");
    sale.done(0, Command::SetStock(stock_of(&stocked, 1)));
    // The gate does not know all of these items, so the store decides.
    let outcome = sale.outcome(0, reserve(&[(&shirt, 1), (&unknown, 1)]));
    assert_eq!(outcome, Outcome::Refused(Rejection::UnknownItem(vec![unknown])));
    let too_many = sale.outcome(0, reserve(&[(&shirt, 1_000_001)]));
    assert!(matches!(too_many, Outcome::Refused(Rejection::QuantityLimit { .. })), "{too_many:?}");
    let pause = |paused| {
        Command::SetSale(stockhold_domain::SetSale {
            scope: stockhold_domain::Scope::Item(shirt.clone()),
            paused,
            reason: None,
        })
    };
    sale.done(0, pause(true));
    let paused = sale.outcome(0, reserve(&[(&shirt, 1)]));
    assert!(matches!(paused, Outcome::Refused(Rejection::SalePaused(_))), "{paused:?}");
    sale.done(0, pause(false));
    assert_eq!(sale.shortage(0, reserve(&[(&shirt, 1)])).0, 0);
}

#[test]
fn a_pool_is_not_the_gates() {
    let mut sale = Sale::new(1);
    let shirt = sale.item("shirt", 3);
    sale.done(0, set_pool(&shirt, "vip", maker::pool_of(2)));
    sale.hold(0, reserve(&[(&shirt, 1)]));
    assert_eq!(sale.shortage(0, reserve(&[(&shirt, 1)])), (0, true));
    sale.hold(0, Command::Reserve(maker::reserve_from("vip", 60, &[(&shirt, 2)])));
    sale.done(0, maker::delete_pool(&shirt, "vip"));
    sale.done(0, Command::SetStock(stock_of(&shirt, 4)));
    sale.hold(0, reserve(&[(&shirt, 1)]));
}

#[test]
fn a_key_is_looked_up_before_it_is_refused() {
    let mut sale = Sale::asking();
    let shirt = sale.item("shirt", 1);
    let first = sale.maker.keyed("order-1", reserve(&[(&shirt, 1)]));
    let Ok(Outcome::Done(Reply::Reservation(hold))) = sale.world.run(0, first.clone()) else {
        panic!("no hold")
    };
    for _ in 0..5 {
        let again: Envelope = sale.maker.again(&first);
        match sale.world.run(0, again).unwrap() {
            Outcome::Replayed(Reply::Reservation(replayed)) => assert_eq!(replayed.id, hold.id),
            other => panic!("{other:?}"),
        }
        let other = sale.maker.keyed("order-2", reserve(&[(&shirt, 1)]));
        let refused = sale.world.run(0, other).unwrap();
        assert!(matches!(refused, Outcome::Refused(Rejection::InsufficientInventory(_))), "{refused:?}");
    }
    let mismatch = sale.maker.keyed("order-1", reserve_for(77, &[(&shirt, 1)]));
    assert_eq!(sale.world.run(0, mismatch).unwrap(), Outcome::Refused(Rejection::IdempotencyMismatch));
    sale.done(0, release(hold.id));
    sale.hold(0, reserve(&[(&shirt, 1)]));
}

#[test]
fn commands_in_one_request_are_refused_one_by_one() {
    let mut sale = Sale::new(1);
    let (shirt, cap) = (sale.item("shirt", 1), sale.item("cap", 5));
    let held = sale.hold(0, reserve(&[(&shirt, 1)]));
    let commands = [
        reserve(&[(&shirt, 1)]),
        reserve(&[(&cap, 2)]),
        release(held),
        // The gate does not have the units of the release yet, so the store decides.
        reserve(&[(&shirt, 1)]),
        reserve(&[(&shirt, 1)]),
    ];
    let envelopes = commands.into_iter().map(|command| sale.maker.wrap(command)).collect();
    let answers = sale.world.answers(0, vec![Request::Commands(envelopes)]);
    let Ok(Answer::Outcomes(outcomes)) = &answers[0] else { panic!("{answers:?}") };
    let done: Vec<bool> = outcomes.iter().map(|one| matches!(one, Ok(Outcome::Done(_)))).collect();
    assert_eq!(done, [false, true, true, true, false], "{outcomes:?}");
    let by_gate: Vec<bool> = outcomes
        .iter()
        .filter_map(|one| match one {
            Ok(Outcome::Refused(Rejection::InsufficientInventory(lines))) => Some(lines[0].approximate),
            _ => None,
        })
        .collect();
    assert_eq!(by_gate, [true, false], "{outcomes:?}");
}

#[test]
fn an_item_that_is_no_longer_gated_is_left_alone() {
    let mut sale = Sale::new(1);
    let shirt = sale.item("shirt", 0);
    assert_eq!(sale.shortage(0, reserve(&[(&shirt, 1)])), (0, true));
    sale.done(0, Command::SetStock(SetStock { gated: Patch::Clear, ..stock_of(&shirt, 0) }));
    assert_eq!(sale.shortage(0, reserve(&[(&shirt, 1)])), (0, false));
    assert_eq!(units_of(&sale.world.status(0), &shirt), None);
    assert_eq!(sale.world.redis.run::<u64>(&["DBSIZE"]), 0, "its counter is deleted");
}

#[test]
fn a_crowd_gets_exactly_what_there_is() {
    let mut sale = Sale::new(2);
    let shirt = sale.item("shirt", 100);
    sale.world.wait_for_units(1, &shirt, 100);
    let requests = |maker: &mut Maker| -> Vec<Request> {
        let buyer = |_| Request::Command(Box::new(maker.wrap(reserve(&[(&shirt, 1)]))));
        (0..1_000).map(buyer).collect()
    };
    let (one, other) = (requests(&mut sale.maker), requests(&mut sale.maker));
    let world = &sale.world;
    let held: usize = [world.answers(0, one), world.answers(1, other)]
        .into_iter()
        .flatten()
        .map(|answer| outcome_of(answer).unwrap())
        .filter(|outcome| matches!(outcome, Outcome::Done(_)))
        .count();
    assert_eq!(held, 100);
    assert_eq!(world.stored(&shirt).figures.held, 100);
    let status = world.status(1);
    // A reload that comes between two batches of the store leaves a counter that is too high. What it admits, the store refuses.
    assert_eq!(status.refused + status.admitted, 1_000, "{status:?}");
    assert!(status.refused >= 900, "the other instance asks the store for few: {status:?}");
}
