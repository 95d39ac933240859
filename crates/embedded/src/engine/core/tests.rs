//! What the core hands over, defers, bounds and refuses, and which failure each request gets after a panic.

use super::*;
use crate::index::AsOf;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use stockhold_conformance::maker::{confirm, reserve, reserve_for, set_stock};
use stockhold_conformance::{Maker, START};
use stockhold_domain::{
    IdempotencyKey, ItemKey, KeyHash, KeyRecord, KeyTarget, RecordKind, Reply, Transition,
};
use stockhold_store::Inbox;

#[derive(Default)]
struct Nobody(Mutex<Vec<Result<Answer, Failure>>>);

impl Inbox for Nobody {
    fn put(&self, _: u64, answer: Result<Answer, Failure>) {
        self.0.lock().unwrap().push(answer);
    }

    fn flush(&self) {}
}

fn core() -> Core {
    Core::new(Memory::default(), HoldLimits::default(), LogHead::default(), 0)
}

fn pending(envelope: Envelope) -> PendingRequest {
    let reply = ReplyTo { inbox: Arc::new(Nobody::default()), ticket: 0 };
    Job { request: Request::Command(Box::new(envelope)), reply }.into()
}

fn later(seconds: i64) -> Instant {
    Instant::from_micros(START.micros() + seconds * 1_000_000)
}

/// Commits the open batch. Returns the number of lines of its holds.
fn commit(core: &mut Core, clock: Instant) -> usize {
    let batch = core.seal_batch(clock).batch.unwrap();
    core.on_committed(0);
    let holds = batch.events.iter().map(|event| match &event.transition {
        Transition::Hold { hold, .. } => hold.lines.len(),
        _ => 0,
    });
    holds.sum()
}

/// Submits baskets with this many lines, held for ten seconds.
fn baskets(core: &mut Core, maker: &mut Maker, lines: usize, count: usize) {
    let items: Vec<ItemKey> = (0..lines).map(|n| maker.item(&n.to_string())).collect();
    for item in &items {
        core.admit(pending(maker.wrap(set_stock(item, 1_000))), START);
    }
    commit(core, START);
    let wants: Vec<_> = items.iter().map(|item| (item, 1)).collect();
    for _ in 0..count {
        core.admit(pending(maker.wrap(reserve_for(10, &wants))), START);
    }
}

#[test]
fn a_refusal_waits_for_what_it_has_seen() {
    let (mut core, mut maker) = (core(), Maker::new(1, ""));
    let shirt = maker.item("shirt");
    for wish in [set_stock(&shirt, 1), reserve(&[(&shirt, 1)]), reserve(&[(&shirt, 1)])] {
        assert!(matches!(core.admit(pending(maker.wrap(wish)), START), Admission::Queued));
    }
    assert_eq!(core.seal_batch(START).waiting.len(), 3);
}

#[test]
fn a_batch_takes_a_bounded_number_of_lines_and_the_rest_goes_into_the_next() {
    let (mut core, mut maker) = (core(), Maker::new(1, ""));
    baskets(&mut core, &mut maker, 2_000, 40);
    let first = commit(&mut core, START);
    assert!((65_536..67_536).contains(&first), "{first} lines");
    assert_eq!(first + commit(&mut core, START), 40 * 2_000);
    assert!(!core.has_work());
}

#[test]
fn commands_that_go_on_behind_a_full_batch_are_committed_though_nobody_kicks() {
    let (mut core, mut maker) = (core(), Maker::new(1, ""));
    baskets(&mut core, &mut maker, 2_000, 33);
    let shirt = maker.item("shirt");
    let mut all: Vec<_> = (0..COMMANDS_PER_LOCK).map(|_| maker.wrap(reserve(&[(&shirt, 1)]))).collect();
    all.push(maker.wrap(set_stock(&shirt, 1)));
    let mut many = pending(maker.wrap(Command::Sweep));
    many.ask = Request::Commands(all);
    assert!(matches!(core.admit(many, START), Admission::Queued));
    let mut taken = core.seal_batch(START);
    let on = taken.on.pop().unwrap();
    assert!(!core.has_work());
    assert!(matches!(core.admit(on, START), Admission::Queued));
    assert!(core.is_due(false));
}

#[test]
fn a_batch_expires_a_bounded_number_of_lines() {
    let (mut core, mut maker) = (core(), Maker::new(1, ""));
    baskets(&mut core, &mut maker, 2_000, 6);
    commit(&mut core, START);
    for lines in [10_000, 2_000] {
        core.admit(pending(maker.wrap(Command::Sweep)), later(60));
        assert_eq!(commit(&mut core, later(60)), lines);
    }
}

#[test]
fn events_and_lines_that_the_index_lacks_are_bounded() {
    let (mut core, mut maker) = (core(), Maker::new(1, ""));
    baskets(&mut core, &mut maker, 100, 10);
    commit(&mut core, START);
    assert_eq!(core.unindexed, 100 + 10 * (1 + 100));
    core.unindexed += UNINDEXED_WEIGHT_LIMIT;
    let one = || pending(Maker::new(2, "").wrap(set_stock(&Maker::new(2, "").item("x"), 1)));
    let turned_away = core.admit(one(), START);
    assert!(matches!(turned_away, Admission::Answered(_, Err(Failure::Overloaded))));
    core.on_indexed(2, 100 + 10 * (1 + 100));
    assert!(matches!(core.admit(one(), START), Admission::Queued));
}

#[test]
fn what_a_reader_brought_stays_with_a_command_that_has_to_wait() {
    let (mut core, mut maker) = (core(), Maker::new(1, ""));
    let shirt = maker.item("shirt");
    core.admit(pending(maker.wrap(set_stock(&shirt, 300))), START);
    commit(&mut core, START);
    for _ in 0..300 {
        core.admit(pending(maker.wrap(reserve_for(10, &[(&shirt, 1)]))), START);
    }
    commit(&mut core, START);
    let mut waits = pending(maker.wrap(reserve(&[(&shirt, 300)])));
    waits.fetched.keys.push((KeyHash(7), None, AsOf { complete: 1, archived: 0 }));
    assert!(matches!(core.admit(waits, later(60)), Admission::Queued));
    assert_eq!(core.open.later[0].fetched.keys.len(), 1);
}

/// A metrics recorder that panics when a broken invariant is counted.
struct Trap;

impl metrics::Recorder for Trap {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        panic!("the trap");
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// A command with a key whose record does not exist.
fn broken(core: &mut Core, maker: &mut Maker) -> PendingRequest {
    let gone = maker.record(RecordKind::ApiKey, "gone");
    let asks = pending(maker.keyed("k", reserve(&[(&maker.clone().item("shirt"), 1)])));
    let Request::Command(envelope) = &asks.ask else { panic!() };
    let IdempotencyKey { hash, fingerprint } = envelope.key.unwrap();
    let target = KeyTarget::Record(gone);
    core.memory.remember(&KeyRecord { hash, fingerprint, target, at: START });
    asks
}

#[test]
fn of_a_panic_while_a_batch_is_handed_over_everybody_is_told_what_may_be_durable() {
    let (mut core, mut maker) = (core(), Maker::new(1, ""));
    let set = |maker: &mut Maker| maker.wrap(set_stock(&maker.clone().item("shirt"), 3));
    let reads = pending(maker.wrap(confirm(maker.clone().no_reservation())));
    let (mut begun, untouched) = (broken(&mut core, &mut maker), pending(set(&mut maker)));
    let Request::Command(breaks) = begun.ask else { panic!() };
    begun.ask = Request::Commands(vec![set(&mut maker), *breaks]);
    begun.done.push(Ok(Outcome::Done(Reply::Sale { paused: false })));
    core.open.later.extend([reads, begun, untouched]);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        metrics::with_local_recorder(&Trap, || core.seal_batch(START));
    }));
    assert!(panicked.is_err());
    core.poison("a panic".to_owned());
    let answers: Vec<_> = core.fail_pending().into_iter().map(|(_, answer)| answer.unwrap_err()).collect();
    let unavailable = Failure::Unavailable("a panic".to_owned());
    assert_eq!(answers, [Failure::OutcomeUnknown, unavailable.clone(), unavailable]);
}

#[test]
fn a_broken_invariant_stops_the_store_and_whoever_met_it_is_told() {
    let (mut core, mut maker) = (core(), Maker::new(1, ""));
    core.admit(pending(maker.wrap(set_stock(&maker.clone().item("shirt"), 3))), START);
    let asks = broken(&mut core, &mut maker);
    assert!(matches!(core.admit(asks, START), Admission::Queued));
    assert!(core.poisoned().is_some_and(|why| why.contains("invariant")));
    let answers: Vec<_> = core.fail_pending().into_iter().map(|(_, answer)| answer).collect();
    assert!(matches!(answers[..], [Err(Failure::Unavailable(_)), Err(Failure::Internal(_))]));
}
