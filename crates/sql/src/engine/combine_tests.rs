//! Who goes along with whom, in which order, and who has to wait: batches made of crowds that are written down.

use super::*;
use std::sync::Mutex;
use stockhold_domain::{
    AddUnits, Attributes, Basket, BestAvailable, Confirm, EventId, Fingerprint, Fulfilment, GeneratedIds,
    IdempotencyKey, Instant, Label, NewUnit, Origin, RequestId, RequestedLine, Reserve, ReserveTerms,
    UnitSelection,
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
fn unit(number: u64, items: &[&str]) -> Unit {
    keyed(number, items, None)
}

fn keyed(number: u64, items: &[&str], key: Option<u128>) -> Unit {
    let wants = items.iter().map(|sku| RequestedLine { item: item(sku), quantity: 1 });
    asking(number, reserve(Basket::new(wants.collect()).unwrap()), key, &[])
}

fn item(sku: &str) -> ItemKey {
    ItemKey::new(&label("x"), &label(sku))
}

fn reserve(basket: Basket) -> Command {
    Command::Reserve(Reserve {
        basket,
        ttl: None,
        fulfilment: Fulfilment::All,
        terms: ReserveTerms { owner_id: label("owner"), optional: None },
    })
}

fn asking(number: u64, command: Command, key: Option<u128>, halls: &[ItemKey]) -> Unit {
    let now = Instant::from_micros(0);
    let envelope = stockhold_domain::Envelope {
        command,
        key: key.map(|key| IdempotencyKey { hash: KeyHash(key), fingerprint: Fingerprint(0) }),
        fresh: GeneratedIds {
            reservation: ReservationId::new(now, number.into(), 0),
            event: EventId::new(now, 0),
        },
        origin: Origin { actor: label("a"), request_id: RequestId::Made(number.into()), trace: None },
    };
    let reply = ReplyTo { inbox: Arc::new(Nobody(Mutex::new(0))), ticket: number };
    let halls = halls.iter().cloned().collect();
    let asked = Asked { envelope: Box::new(envelope), held: None, halls, sequence: None };
    Unit::new(vec![asked], Teller::One(super::super::post::Owed::new(reply)), 1)
}

fn crowd(units: &[(u64, &[&str])]) -> Combiner {
    let mut combiner = Combiner::new(4);
    for (number, items) in units {
        combiner.add(unit(*number, items));
    }
    combiner
}

/// The numbers of a batch's commands.
fn numbers(batch: Option<&Batch>) -> Vec<u128> {
    let number = |asked: &Asked| match asked.envelope.origin.request_id {
        RequestId::Made(number) => number,
        RequestId::Given(_) => panic!("a number"),
    };
    batch.into_iter().flat_map(Batch::asked).map(number).collect()
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
    combiner.add(unit(2, &["b", "a"]));
    combiner.add(unit(3, &["b"]));
    combiner.add(unit(4, &["c"]));
    // The third waits for the second, which came before it and waits for the first.
    assert_eq!(numbers(combiner.take(9).as_ref()), [4]);
    assert!(combiner.take(9).is_none());
    combiner.landed(&first.claims);
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
    combiner.landed(&first.unwrap().claims);
    assert_eq!(numbers(combiner.take(1).as_ref()), [5, 6]);
}

#[test]
fn what_needs_more_items_waits_for_them_and_nobody_overtakes_it() {
    let mut combiner = crowd(&[(1, &["a"]), (2, &["b"])]);
    let (first, second) = (combiner.take(1).unwrap(), combiner.take(1).unwrap());
    // The first turns out to need the second's item.
    combiner.landed(&first.claims);
    let mut claims = Claims::clone(&first.claims);
    claims.add(&second.claims);
    combiner.add_batch(Batch { claims: Arc::new(claims), ..first });
    combiner.add(unit(3, &["a"]));
    combiner.add(unit(4, &["c"]));
    assert_eq!(numbers(combiner.take(9).as_ref()), [4]);
    assert!(combiner.take(9).is_none());
    combiner.landed(&second.claims);
    let again = combiner.take(9).unwrap();
    assert_eq!(numbers(Some(&again)), [1]);
    assert!(combiner.take(9).is_none());
    combiner.landed(&again.claims);
    assert_eq!(numbers(combiner.take(9).as_ref()), [3]);
}

#[test]
fn who_came_later_is_not_ahead_because_more_of_it_was_busy() {
    let mut combiner = crowd(&[(1, &["y"])]);
    let first = combiner.take(9).unwrap();
    // A batch that is ready waits for what the first has, and blocks the rest of what it needs.
    let ready = unit(2, &["x", "y"]);
    let claims = Arc::new(ready.claims.clone());
    let task = Task::Commands(vec![ready]);
    combiner.add_batch(Batch { task, claims, plan: Plan::default(), tries: Tries::default() });
    combiner.add(unit(3, &["x"]));
    combiner.add(unit(4, &["x", "y"]));
    assert!(combiner.take(9).is_none());
    combiner.landed(&first.claims);
    let second = combiner.take(9).unwrap();
    assert_eq!(numbers(Some(&second)), [2]);
    combiner.landed(&second.claims);
    assert_eq!(numbers(combiner.take(9).as_ref()), [3, 4]);
}

#[test]
fn what_goes_on_later_stays_ahead() {
    let mut combiner = crowd(&[(1, &["a"]), (2, &["a"])]);
    let batch = combiner.take(9).unwrap();
    combiner.add(unit(3, &["a"]));
    combiner.landed(&batch.claims);
    let Task::Commands(units) = batch.task else { panic!("commands") };
    combiner.put_back(units);
    assert_eq!(numbers(combiner.take(9).as_ref()), [1, 2, 3]);
    assert!(combiner.is_empty());
}

#[test]
fn whoever_comes_for_items_that_are_being_locked_goes_along_as_far_as_there_is_room() {
    let mut combiner = crowd(&[(1, &["a"])]);
    let mut batch = combiner.take(9).unwrap();
    for number in 2..=6 {
        combiner.add(unit(number, &["a"]));
    }
    // Some of them were found to wait before.
    assert!(combiner.take(9).is_none());
    assert_eq!(combiner.top_up(&mut batch, |_| true), 3);
    assert_eq!(numbers(Some(&batch)), [1, 2, 3, 4]);
    assert_eq!(combiner.top_up(&mut batch, |_| true), 0);
    assert!(combiner.take(9).is_none());
    combiner.landed(&batch.claims);
    assert_eq!(numbers(combiner.take(9).as_ref()), [5, 6]);
}

#[test]
fn nobody_goes_along_who_would_overtake_somebody_or_needs_more() {
    let mut combiner = crowd(&[(1, &["a"])]);
    let mut batch = combiner.take(9).unwrap();
    for (number, items) in [(2, ["a"].as_slice()), (3, &["b"]), (4, &["a", "b"]), (5, &["a"])] {
        combiner.add(unit(number, items));
    }
    assert_eq!(combiner.top_up(&mut batch, |_| true), 1);
    assert_eq!(numbers(Some(&batch)), [1, 2]);
    assert_eq!(numbers(combiner.take(9).as_ref()), [3]);
    combiner.landed(&batch.claims);
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
    assert_eq!(combiner.top_up(&mut first, |_| true), 0, "the fourth would overtake the third");
    combiner.landed(&second.claims);
    assert_eq!(combiner.top_up(&mut first, |_| true), 2);
    assert_eq!(numbers(Some(&first)), [1, 3, 4]);
    // Its keys are busy until it lands.
    combiner.add(keyed(5, &["c"], Some(4)));
    assert!(combiner.take(9).is_none());
    combiner.landed(&first.claims);
    assert_eq!(numbers(combiner.take(9).as_ref()), [5]);
}

#[test]
fn units_with_ids_weigh_as_much_as_lines() {
    let hall = item("hall");
    let ids = |count: usize| (0..count).map(|n| label(&n.to_string()));
    let with_selections = |quantity, choice| {
        let want = RequestedLine { item: hall.clone(), quantity };
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
        Command::AddUnits(AddUnits { item: hall.clone(), units: ids(count).map(unit).collect() })
    };
    let known = [hall.clone()];
    let lines = |command, halls| asking(1, command, None, halls).lines;
    assert_eq!(lines(named(500), &[]), 501);
    assert_eq!((lines(best(500), &[]), lines(best(u64::MAX), &[])), (501, 10_001));
    assert_eq!((lines(with_selections(500, None), &known), lines(with_selections(500, None), &[])), (501, 1));
    assert_eq!(lines(added(500), &[]), 501);
    // Eight block bookings of 500 seats fill a batch.
    let mut combiner = Combiner::new(256);
    (0..20).for_each(|n| combiner.add(asking(n, named(500), None, &[])));
    assert_eq!(numbers(combiner.take(256).as_ref()), [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// A claim of a unit of a hall that is known to be one.
fn claim(number: u64, choice: Option<UnitSelection>) -> Unit {
    let want = RequestedLine { item: item("hall"), quantity: 1 };
    asking(number, reserve(Basket::with_selections(vec![(want, choice)]).unwrap()), None, &[item("hall")])
}

#[test]
fn two_batches_in_flight_may_claim_units_of_one_hall_and_no_third() {
    let mut combiner = Combiner::new(2);
    (1..=5).for_each(|n| combiner.add(claim(n, (n == 3).then(|| UnitSelection::Named(vec![label("1")])))));
    let (first, second) = (combiner.take(9).unwrap(), combiner.take(9).unwrap());
    assert_eq!((numbers(Some(&first)), numbers(Some(&second))), (vec![1, 2], vec![3, 4]));
    assert!(combiner.take(9).is_none());
    combiner.landed(&second.claims);
    assert_eq!(numbers(combiner.take(9).as_ref()), [5]);
    combiner.landed(&first.claims);
    assert!(combiner.is_busy(&item("hall")), "the last one is in flight");
}

#[test]
fn whatever_else_is_done_with_a_hall_is_done_alone_and_nobody_overtakes_it() {
    let others = [
        ("the best", claim(2, Some(UnitSelection::BestAvailable(BestAvailable::default())))),
        ("not known to be a hall", unit(2, &["hall"])),
    ];
    for (what, other) in others {
        let mut combiner = Combiner::new(9);
        combiner.add(claim(1, None));
        let first = combiner.take(9).unwrap();
        combiner.add(other);
        combiner.add(claim(3, None));
        assert!(combiner.take(1).is_none(), "{what} waits, and who came after it");
        combiner.landed(&first.claims);
        // All of it goes together, and then it is as little shared as its least.
        let second = combiner.take(9).unwrap();
        assert_eq!(numbers(Some(&second)), [2, 3], "{what}");
        combiner.add(claim(4, None));
        assert!(combiner.take(9).is_none(), "{what} is alone");
        combiner.landed(&second.claims);
        assert_eq!(numbers(combiner.take(9).as_ref()), [4], "{what}");
    }
}

#[test]
fn batches_of_one_hall_are_in_lanes_of_their_own_whatever_else_goes_on() {
    let claims = |number, halls: &[&str]| {
        let halls: Vec<ItemKey> = halls.iter().map(|sku| item(sku)).collect();
        let wants = halls.iter().map(|hall| RequestedLine { item: hall.clone(), quantity: 1 }).collect();
        asking(number, reserve(Basket::new(wants).unwrap()), None, &halls)
    };
    let mut combiner = Combiner::new(1);
    combiner.add(claims(1, &["x"]));
    combiner.add(unit(2, &["tins"]));
    combiner.add(claims(3, &["x"]));
    let [first, tins, second] = [(); 3].map(|()| combiner.take(9).unwrap().claims);
    assert_eq!([first.lane, tins.lane, second.lane], [0, 0, 1]);
    // The second lands first, and the next has its lane.
    combiner.landed(&second);
    combiner.add(claims(4, &["y", "x"]));
    let third = combiner.take(9).unwrap().claims;
    assert_eq!(third.lane, 1);
    // No lane is free in all of the halls, though each has one.
    combiner.landed(&first);
    combiner.add(claims(5, &["z"]));
    let fourth = combiner.take(9).unwrap().claims;
    combiner.add(claims(6, &["y", "z"]));
    assert_eq!(fourth.lane, 0);
    assert!(combiner.take(9).is_none());
    combiner.landed(&third);
    assert_eq!(combiner.take(9).unwrap().claims.lane, 1);
    // Nor do two go together that have no lane in common.
    let mut combiner = Combiner::new(9);
    combiner.add(claims(1, &["x"]));
    let first = combiner.take(1).unwrap().claims;
    combiner.add(claims(2, &["x", "y"]));
    let second = combiner.take(1).unwrap().claims;
    combiner.landed(&first);
    combiner.add(claims(3, &["z"]));
    let third = combiner.take(1).unwrap().claims;
    assert_eq!([second.lane, third.lane], [1, 0]);
    combiner.add(claims(4, &["y"]));
    combiner.add(claims(5, &["z"]));
    assert_eq!([(); 2].map(|()| numbers(combiner.take(9).as_ref())), [[4], [5]]);
}

#[test]
fn who_turns_out_to_name_a_hold_of_a_hall_does_more_than_claim_of_it() {
    let mut confirmed = claim(2, None);
    let confirm = Command::Confirm(Confirm { id: ReservationId::from_u128(9), order_id: None });
    confirmed.asked.extend(asking(3, confirm, None, &[]).asked);
    confirmed.resolve(|_| Some(Held { items: [item("hall")].into(), ..Held::default() }));
    let mut combiner = Combiner::new(9);
    combiner.add(claim(1, None));
    let first = combiner.take(9).unwrap();
    combiner.add(confirmed);
    assert!(combiner.take(9).is_none());
    combiner.landed(&first.claims);
    assert_eq!(numbers(combiner.take(9).as_ref()), [2, 3]);
}
