//! Which submissions are combined into which batch, and in which order.

use super::super::submission::ReplyTarget;
use super::*;
use crate::engine::reply_batch::PendingReply;
use std::sync::Mutex;
use stockhold_domain::Command;
use stockhold_domain::{
    Access, AddUnits, Attributes, Basket, BestAvailable, EventId, Fingerprint, Fulfilment, GeneratedIds,
    IdempotencyKey, Instant, KeyHash, Label, NewUnit, Origin, RequestId, RequestedLine, ReservationId,
    Reserve, ReserveTerms, UnitSelection,
};
use stockhold_store::{Answer, Failure, Inbox, ReplyTo};

struct Nobody(Mutex<u64>);

impl Inbox for Nobody {
    fn put(&self, _: u64, _: Result<Answer, Failure>) {
        *self.0.lock().unwrap() += 1;
    }

    fn flush(&self) {}
}

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

/// A reserve of these items, told apart by its ticket.
fn submission(number: u64, items: &[&str]) -> Submission {
    keyed(number, items, None)
}

fn keyed(number: u64, items: &[&str], key: Option<u128>) -> Submission {
    let lock_set = items.iter().map(|sku| RequestedLine { item: item(sku), quantity: 1 });
    asking(number, reserve(Basket::new(lock_set.collect()).unwrap()), key, &[])
}

fn item(sku: &str) -> ItemKey {
    ItemKey::new(&label("x"), &label(sku))
}

fn reserve(basket: Basket) -> Command {
    Command::Reserve(Reserve {
        checkout: None,
        override_limits: false,
        basket,
        ttl: None,
        fulfilment: Fulfilment::All,
        terms: ReserveTerms { owner_id: label("owner"), optional: None },
    })
}

fn asking(number: u64, command: Command, key: Option<u128>, unit_items: &[ItemKey]) -> Submission {
    let now = Instant::from_micros(0);
    let envelope = stockhold_domain::Envelope {
        access: Access::Unrestricted,
        command,
        key: key.map(|key| IdempotencyKey { hash: KeyHash(key), fingerprint: Fingerprint(0) }),
        fresh: GeneratedIds {
            reservation: ReservationId::new(now, number.into(), 0),
            event: EventId::new(now, 0),
        },
        origin: Origin {
            actor: label("a"),
            key_id: None,
            request_id: RequestId::Made(number.into()),
            trace: None,
        },
    };
    let reply = ReplyTo { inbox: Arc::new(Nobody(Mutex::new(0))), ticket: number };
    let unit_items = unit_items.iter().cloned().collect();
    let planned = PlannedCommand { envelope: Box::new(envelope), refs: None, unit_items, sequence: None };
    Submission::new(vec![planned], ReplyTarget::Single(PendingReply::new(reply)), 1)
}

fn crowd(submissions: &[(u64, &[&str])]) -> Combiner {
    let mut combiner = Combiner::new(4);
    for (number, items) in submissions {
        combiner.add(submission(*number, items));
    }
    combiner
}

/// The numbers of a batch's commands.
fn numbers(batch: Option<&Batch>) -> Vec<u128> {
    let number = |planned: &PlannedCommand| match planned.envelope.origin.request_id {
        RequestId::Made(number) => number,
        RequestId::Given(_) => panic!("a number"),
    };
    batch.into_iter().flat_map(Batch::commands).map(number).collect()
}

#[test]
fn what_is_about_the_same_item_goes_together_however_small_the_share() {
    let mut combiner = crowd(&[(1, &["a"]), (2, &["b"]), (3, &["a"]), (4, &["a", "c"])]);
    let first = combiner.take(1);
    assert_eq!(numbers(first.as_ref()), [1, 3, 4]);
    assert_eq!(numbers(combiner.take(1).as_ref()), [2]);
    assert!(combiner.take(1).is_none());
}

#[test]
fn no_two_batches_in_flight_share_an_item() {
    let mut combiner = crowd(&[(1, &["a"])]);
    let first = combiner.take(9).unwrap();
    combiner.add(submission(2, &["b", "a"]));
    combiner.add(submission(3, &["b"]));
    combiner.add(submission(4, &["c"]));
    // The third waits for the second, which came before it and waits for the first.
    assert_eq!(numbers(combiner.take(9).as_ref()), [4]);
    assert!(combiner.take(9).is_none());
    combiner.release(&first.claims);
    assert_eq!(numbers(combiner.take(9).as_ref()), [2, 3]);
}

#[test]
fn unrelated_commands_share_a_batch_up_to_the_share_and_a_batch_has_its_limit() {
    let mut combiner = crowd(&[(1, &["a"]), (2, &["b"]), (3, &["c"]), (4, &["d"]), (5, &["e"]), (6, &["f"])]);
    assert_eq!(numbers(combiner.take(2).as_ref()), [1, 2]);
    assert_eq!(numbers(combiner.take(9).as_ref()), [3, 4, 5, 6]);
    let same: Vec<(u64, &[&str])> = (1..=6).map(|n| (n, ["a"].as_slice())).collect();
    let mut combiner = crowd(&same);
    let first = combiner.take(1);
    assert_eq!(numbers(first.as_ref()), [1, 2, 3, 4]);
    assert!(combiner.take(1).is_none());
    combiner.release(&first.unwrap().claims);
    assert_eq!(numbers(combiner.take(1).as_ref()), [5, 6]);
}

#[test]
fn what_needs_more_items_waits_for_them_and_nobody_overtakes_it() {
    let mut combiner = crowd(&[(1, &["a"]), (2, &["b"])]);
    let (first, second) = (combiner.take(1).unwrap(), combiner.take(1).unwrap());
    // The first turns out to need the second's item.
    combiner.release(&first.claims);
    let mut claims = Claims::clone(&first.claims);
    claims.add(&second.claims);
    combiner.add_batch(Batch { claims: Arc::new(claims), ..first });
    combiner.add(submission(3, &["a"]));
    combiner.add(submission(4, &["c"]));
    assert_eq!(numbers(combiner.take(9).as_ref()), [4]);
    assert!(combiner.take(9).is_none());
    combiner.release(&second.claims);
    let again = combiner.take(9).unwrap();
    assert_eq!(numbers(Some(&again)), [1]);
    assert!(combiner.take(9).is_none());
    combiner.release(&again.claims);
    assert_eq!(numbers(combiner.take(9).as_ref()), [3]);
}

#[test]
fn who_came_later_is_not_ahead_because_more_of_it_was_busy() {
    let mut combiner = crowd(&[(1, &["y"])]);
    let first = combiner.take(9).unwrap();
    // A batch that is ready waits for what the first has, and blocks the rest of what it needs.
    let ready = submission(2, &["x", "y"]);
    let claims = Arc::new(ready.claims.clone());
    let task = BatchTask::Commands(vec![ready]);
    combiner.add_batch(Batch {
        task,
        claims,
        plan: RetryPlan::default(),
        attempts: AttemptCounts::default(),
    });
    combiner.add(submission(3, &["x"]));
    combiner.add(submission(4, &["x", "y"]));
    assert!(combiner.take(9).is_none());
    combiner.release(&first.claims);
    let second = combiner.take(9).unwrap();
    assert_eq!(numbers(Some(&second)), [2]);
    combiner.release(&second.claims);
    assert_eq!(numbers(combiner.take(9).as_ref()), [3, 4]);
}

#[test]
fn what_goes_on_later_stays_ahead() {
    let mut combiner = crowd(&[(1, &["a"]), (2, &["a"])]);
    let batch = combiner.take(9).unwrap();
    combiner.add(submission(3, &["a"]));
    combiner.release(&batch.claims);
    let BatchTask::Commands(submissions) = batch.task else { panic!("commands") };
    combiner.put_back(submissions);
    assert_eq!(numbers(combiner.take(9).as_ref()), [1, 2, 3]);
    assert!(combiner.is_empty());
}

#[test]
fn whoever_comes_for_items_that_are_being_locked_goes_along_as_far_as_there_is_room() {
    let mut combiner = crowd(&[(1, &["a"])]);
    let mut batch = combiner.take(9).unwrap();
    for number in 2..=6 {
        combiner.add(submission(number, &["a"]));
    }
    // Some of them were found to wait before.
    assert!(combiner.take(9).is_none());
    assert_eq!(combiner.admit_late_arrivals(&mut batch, |_| true), 3);
    assert_eq!(numbers(Some(&batch)), [1, 2, 3, 4]);
    assert_eq!(combiner.admit_late_arrivals(&mut batch, |_| true), 0);
    assert!(combiner.take(9).is_none());
    combiner.release(&batch.claims);
    assert_eq!(numbers(combiner.take(9).as_ref()), [5, 6]);
}

#[test]
fn nobody_goes_along_who_would_overtake_somebody_or_needs_more() {
    let mut combiner = crowd(&[(1, &["a"])]);
    let mut batch = combiner.take(9).unwrap();
    for (number, items) in [(2, ["a"].as_slice()), (3, &["b"]), (4, &["a", "b"]), (5, &["a"])] {
        combiner.add(submission(number, items));
    }
    assert_eq!(combiner.admit_late_arrivals(&mut batch, |_| true), 1);
    assert_eq!(numbers(Some(&batch)), [1, 2]);
    assert_eq!(numbers(combiner.take(9).as_ref()), [3]);
    combiner.release(&batch.claims);
    assert!(combiner.take(9).is_none(), "the fourth waits for the third");
}

#[test]
fn a_key_that_is_in_flight_does_not_go_along_elsewhere() {
    let mut combiner = Combiner::new(4);
    combiner.add(keyed(1, &["a"], Some(1)));
    let mut first = combiner.take(9).unwrap();
    combiner.add(keyed(2, &["b"], Some(2)));
    let second = combiner.take(9).unwrap();
    combiner.add(keyed(3, &["a"], Some(2)));
    combiner.add(keyed(4, &["a"], Some(4)));
    assert_eq!(combiner.admit_late_arrivals(&mut first, |_| true), 0, "the fourth would overtake the third");
    combiner.release(&second.claims);
    assert_eq!(combiner.admit_late_arrivals(&mut first, |_| true), 2);
    assert_eq!(numbers(Some(&first)), [1, 3, 4]);
    // Its keys are busy until it lands.
    combiner.add(keyed(5, &["c"], Some(4)));
    assert!(combiner.take(9).is_none());
    combiner.release(&first.claims);
    assert_eq!(numbers(combiner.take(9).as_ref()), [5]);
}

#[test]
fn units_with_ids_weigh_as_much_as_lines() {
    let unit_item = item("hall");
    let ids = |count: usize| (0..count).map(|n| label(&n.to_string()));
    let with_selections = |quantity, choice| {
        let want = RequestedLine { item: unit_item.clone(), quantity };
        reserve(Basket::with_selections(vec![(want, choice)]).unwrap())
    };
    let named = |count| with_selections(1, Some(UnitSelection::Named(ids(count).collect())));
    let best =
        |quantity| with_selections(quantity, Some(UnitSelection::BestAvailable(BestAvailable::default())));
    let added = |count| {
        let unit = |id| NewUnit {
            id,
            position: None,
            section: None,
            row: None,
            number: None,
            attributes: Attributes::default(),
        };
        Command::AddUnits(AddUnits { item: unit_item.clone(), units: ids(count).map(unit).collect() })
    };
    let known = [unit_item.clone()];
    let lines = |command, unit_items| asking(1, command, None, unit_items).lines;
    assert_eq!(lines(named(500), &[]), 501);
    assert_eq!((lines(best(500), &[]), lines(best(u64::MAX), &[])), (501, 10_001));
    assert_eq!((lines(with_selections(500, None), &known), lines(with_selections(500, None), &[])), (501, 1));
    assert_eq!(lines(added(500), &[]), 501);
    // Eight block bookings of 500 seats fill a batch.
    let mut combiner = Combiner::new(256);
    (0..20).for_each(|n| combiner.add(asking(n, named(500), None, &[])));
    assert_eq!(numbers(combiner.take(256).as_ref()), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn two_running_batches_never_share_an_item_whose_units_have_ids() {
    let claim = |number, choice| {
        let line = RequestedLine { item: item("hall"), quantity: 1 };
        let basket = Basket::with_selections(vec![(line, choice)]).unwrap();
        asking(number, reserve(basket), None, &[item("hall")])
    };
    let mut combiner = Combiner::new(2);
    (1..=2).for_each(|n| combiner.add(claim(n, None)));
    combiner.add(claim(3, Some(UnitSelection::Named(vec![label("1")]))));
    let first = combiner.take(9).unwrap();
    assert_eq!(numbers(Some(&first)), [1, 2]);
    assert!(combiner.take(9).is_none());
    combiner.release(&first.claims);
    assert_eq!(numbers(combiner.take(9).as_ref()), [3]);
    assert!(combiner.is_busy(&item("hall")));
}

#[test]
fn a_sweep_that_waits_for_a_running_batch_is_known_by_its_items_until_it_runs() {
    let sweep = |sku: &str| Batch {
        task: BatchTask::Sweep { due: Vec::new(), page: 1 },
        claims: Arc::new(Claims::of_items([item(sku)].into())),
        plan: RetryPlan::default(),
        attempts: AttemptCounts::default(),
    };
    let mut combiner = Combiner::new(9);
    combiner.add(submission(1, &["a"]));
    let commands = combiner.take(9).unwrap();
    combiner.add_batch(sweep("a"));
    assert!(combiner.take(9).is_none());
    assert_eq!(["a", "b"].map(|sku| combiner.has_waiting_sweep(&item(sku))), [true, false]);
    combiner.release(&commands.claims);
    assert!(matches!(combiner.take(9).unwrap().task, BatchTask::Sweep { .. }));
    assert!(!combiner.has_waiting_sweep(&item("a")));
}
