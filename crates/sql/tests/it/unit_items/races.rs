//! Two instances over one hall.

use super::{Outcomes, each_has_its_own, hall, hall_of, ids, twice, units};
use crate::audit::{Shop, adds_up};
use crate::fixture::{Desk, hold, item, reservation, run, sold_out, stock};
use crate::workload::{makers, race};
use std::collections::BTreeSet;
use std::thread;
use stockhold_conformance::{Maker, Random, START, maker};
use stockhold_domain::{
    BestAvailable, Command, Envelope, Hold, Instant, ItemKey, Outcome, Rejection, SetStock, Status,
    UnitStatus,
};

fn holds(outcomes: &Outcomes) -> Vec<Hold> {
    outcomes.iter().filter_map(reservation).cloned().collect()
}

/// So many baskets at each instance, whose lines stand the other way round at the other.
fn in_opposite_orders(
    makers: &mut [Maker],
    mut lines: Vec<(&ItemKey, u64)>,
    count: usize,
) -> Vec<Vec<Envelope>> {
    twice(makers, |maker| {
        let baskets = (0..count).map(|_| maker.wrap(maker::reserve_for(600, &lines))).collect();
        lines.reverse();
        baskets
    })
}

fn pair() -> BestAvailable {
    BestAvailable { adjacent: true, ..BestAvailable::default() }
}

pub(crate) fn two_units_and_a_thousand_buyers<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(2, 101, "crowd-");
    let hall = hall(&*stores[0], &mut makers[0], 1, 2);
    let commands = twice(&mut makers, |maker| {
        (0..500).map(|_| maker.wrap(maker::reserve_for(600, &[(&hall, 1)]))).collect()
    });
    let outcomes = race(&[&*stores[0], &*stores[1]], commands, 50).concat();
    let had = holds(&outcomes);
    let refused = outcomes.iter().filter(|outcome| sold_out(outcome)).count();
    assert_eq!((had.len(), refused), (2, 998), "holds and refusals");
    each_has_its_own(shop, &*stores[1], &hall, &had);
}

pub(crate) fn overlapping_names_in_opposite_orders<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(2, 102, "names-");
    let hall = hall(&*stores[0], &mut makers[0], 6, 10);
    let all: Vec<String> = units(&*stores[0], &hall).iter().map(|unit| unit.id.as_str().to_owned()).collect();
    let mut turn = 0;
    let commands = twice(&mut makers, |maker| {
        turn += 1;
        let sets = (0..all.len()).map(|start| {
            let mut set: Vec<&str> = (0..4).map(|n| &*all[(start * 7 + n * 3) % all.len()]).collect();
            if turn == 2 {
                set.reverse();
            }
            maker.wrap(maker::reserve_named(600, &hall, &set))
        });
        let mut sets: Vec<_> = sets.collect();
        if turn == 2 {
            sets.reverse();
        }
        sets
    });
    let outcomes = race(&[&*stores[0], &*stores[1]], commands, 6).concat();
    for outcome in &outcomes {
        let told = matches!(outcome, Ok(Outcome::Done(_) | Outcome::Refused(Rejection::UnitsUnavailable(_))));
        assert!(told, "had, or told who is taken: {outcome:?}");
    }
    let had = holds(&outcomes);
    assert!(!had.is_empty() && had.len() <= all.len() / 4, "{}", had.len());
    each_has_its_own(shop, &*stores[0], &hall, &had);
}

pub(crate) fn who_loses_the_best_finds_the_next_best<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(2, 103, "best-");
    let hall = hall(&*stores[0], &mut makers[0], 16, 6);
    let commands = twice(&mut makers, |maker| {
        (0..40).map(|_| maker.wrap(maker::reserve_best(600, &hall, 2, pair()))).collect()
    });
    let outcomes = race(&[&*stores[0], &*stores[1]], commands, 2).concat();
    let had = holds(&outcomes);
    for hold in &had {
        let seats = ids(hold);
        let place = |seat: &str| (seat[1..3].to_owned(), seat[4..].parse::<u32>().unwrap());
        let (one, other) = (place(seats[0]), place(seats[1]));
        assert!(one.0 == other.0 && one.1 + 1 == other.1, "{seats:?} are no neighbours");
    }
    assert_eq!(had.len(), 16 * 3, "every row is full");
    assert_eq!(outcomes.iter().filter(|outcome| sold_out(outcome)).count(), 80 - 48);
    each_has_its_own(shop, &*stores[0], &hall, &had);
}

pub(crate) fn any_and_the_best_at_once<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(2, 104, "both-");
    let hall = hall(&*stores[0], &mut makers[0], 12, 8);
    let commands = twice(&mut makers, |maker| {
        let command = |n: usize| match n % 3 {
            0 => maker::reserve_best(600, &hall, 3, pair()),
            1 => maker::reserve_for(600, &[(&hall, 2)]),
            _ => maker::reserve_named(600, &hall, &["r05-03", "r07-01"]),
        };
        (0..60).map(|n| maker.wrap(command(n))).collect()
    });
    let outcomes = race(&[&*stores[0], &*stores[1]], commands, 5).concat();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let had = holds(&outcomes);
    let named = had.iter().filter(|hold| ids(hold) == ["r05-03", "r07-01"]).count();
    assert!(named <= 1, "{named} have the same");
    let taken: usize = had.iter().map(|hold| ids(hold).len()).sum();
    assert!(taken > 12 * 8 - 12, "only {taken} were had");
    each_has_its_own(shop, &*stores[0], &hall, &had);
}

/// In a hall whose ids are in another order than its seats, and of which there is never enough.
pub(crate) fn names_and_any_and_the_best_meet_no_deadlock<S: Shop>(_: &mut S) {
    const INSTANCES: usize = 4;
    let mut shop = S::alone();
    let stores: Vec<_> = (0..INSTANCES).map(|_| shop.store()).collect();
    let mut makers = makers(INSTANCES, 109, "order-");
    let seats = || ["A9", "A10", "A11", "A12"].map(str::to_owned).to_vec();
    let hall = &hall_of(&*stores[0], &mut makers[0], 1, |_| seats());
    let choose = |n: usize| match n % 3 {
        0 => maker::reserve_for(600, &[(hall, 2)]),
        1 => maker::reserve_best(600, hall, 2, pair()),
        _ => maker::reserve_named(600, hall, [&["A9", "A10"], &["A10", "A11"]][n % 2]),
    };
    thread::scope(|scope| {
        for (instance, (store, maker)) in stores.iter().zip(&mut makers).enumerate() {
            scope.spawn(move || {
                for n in 0..60 {
                    let outcome = run(&**store, maker.wrap(choose(n + instance)));
                    let told = matches!(outcome, Ok(Outcome::Done(_) | Outcome::Refused(_)));
                    assert!(told, "held or refused: {outcome:?}");
                    if let Some(hold) = reservation(&outcome) {
                        let back = run(&**store, maker.wrap(maker::release(hold.id)));
                        assert!(matches!(back, Ok(Outcome::Done(_))), "{back:?}");
                    }
                }
            });
        }
    });
    each_has_its_own(&mut shop, &*stores[0], hall, &[]);
    drop(stores);
    let deadlocks = shop.deadlocks();
    assert!(deadlocks <= S::CHANCE_DEADLOCKS, "{deadlocks} deadlocks");
}

pub(crate) fn units_that_fall_due_in_the_middle<S: Shop>(shop: &mut S) {
    const SEATS: usize = 60;
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(2, 105, "due-");
    let hall = hall(&*stores[0], &mut makers[0], 3, SEATS / 3);
    let first: Vec<_> =
        (0..SEATS / 4).map(|_| makers[0].wrap(maker::reserve_for(5, &[(&hall, 4)]))).collect();
    let first = holds(&Desk::new().send(&*stores[0], first).outcomes());
    assert_eq!(first.len(), SEATS / 4);
    let gone = Desk::new();
    let late = gone.send(
        &*stores[1],
        first.iter().map(|hold| makers[1].wrap(maker::confirm(hold.id))).take(3).collect(),
    );
    let sold = holds(&late.outcomes());
    assert_eq!(sold.len(), 3, "sold before the others fall due");
    shop.set_clock(Instant::from_micros(START.micros() + 5_000_000));
    let commands = twice(&mut makers, |maker| {
        (0..SEATS).map(|_| maker.wrap(maker::reserve_for(600, &[(&hall, 1)]))).collect()
    });
    let outcomes = race(&[&*stores[0], &*stores[1]], commands, 7).concat();
    let had = holds(&outcomes);
    assert_eq!((had.len(), outcomes.iter().filter(|outcome| sold_out(outcome)).count()), (48, 72));
    for (n, hold_of_first) in first.iter().enumerate() {
        let status = hold(&*stores[1], hold_of_first.id).unwrap().status;
        assert_eq!(status, if n < 3 { Status::Confirmed } else { Status::Expired });
    }
    let all = units(&*stores[0], &hall);
    assert_eq!(all.iter().filter(|unit| matches!(unit.status, UnitStatus::Sold(_))).count(), 12);
    assert!(
        all.iter().all(|unit| matches!(unit.status, UnitStatus::Sold(_)) || unit.version == 4),
        "{all:?}"
    );
    shop.audit();
    adds_up(shop);
}

pub(crate) fn baskets_of_both_kinds_in_opposite_orders<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(2, 106, "mixed-");
    let hall = hall(&*stores[0], &mut makers[0], 4, 10);
    let tins = stock(&*stores[0], &mut makers[0], "tins", 30);
    let commands = in_opposite_orders(&mut makers, vec![(&hall, 1), (&tins, 1)], 40);
    let outcomes = race(&[&*stores[0], &*stores[1]], commands, 4).concat();
    let had = holds(&outcomes);
    assert_eq!((had.len(), outcomes.iter().filter(|outcome| sold_out(outcome)).count()), (30, 50));
    assert_eq!(item(&*stores[0], &tins).unwrap().available(), 0);
    each_has_its_own(shop, &*stores[0], &hall, &had);
}

/// Halls with more free units than are ever claimed at once, where a claim may begin elsewhere than at the beginning.
pub(crate) fn baskets_over_two_large_halls_in_opposite_orders<S: Shop>(shop: &mut S) {
    const BUYERS: usize = 60;
    let stores = [shop.store(), shop.store()];
    let large = hall(&*stores[0], &mut makers(1, 111, "wide-")[0], 90, 50);
    let mut makers = makers(2, 110, "large-");
    let other = hall(&*stores[0], &mut makers[0], 90, 50);
    let commands = in_opposite_orders(&mut makers, vec![(&large, 2), (&other, 1)], BUYERS);
    let had = holds(&race(&[&*stores[0], &*stores[1]], commands, 4).concat());
    assert_eq!(had.len(), 2 * BUYERS);
    let lines = had.iter().flat_map(|hold| &*hold.lines);
    let taken: BTreeSet<_> =
        lines.flat_map(|line| line.units().iter().map(|unit| (line.item.clone(), unit.id.clone()))).collect();
    assert_eq!(taken.len(), 3 * 2 * BUYERS, "each has its own");
    for hall in [&large, &other] {
        let all = units(&*stores[1], hall);
        let first = all.iter().find(|unit| unit.status == UnitStatus::Available).unwrap();
        let next = run(&*stores[0], makers[0].wrap(maker::reserve_for(600, &[(hall, 1)])));
        assert_eq!(ids(reservation(&next).unwrap()), [first.id.as_str()], "the first that is free");
    }
    shop.audit();
    adds_up(shop);
}

pub(crate) fn safety_stock_is_kept_at_two_instances<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut makers = makers(2, 107, "kept-");
    let hall = hall(&*stores[0], &mut makers[0], 1, 20);
    let kept = SetStock { safety_stock: Some(3), total_units: None, ..maker::stock_of(&hall, 0) };
    run(&*stores[0], makers[0].wrap(Command::SetStock(kept))).unwrap();
    let commands = twice(&mut makers, |maker| {
        (0..30).map(|_| maker.wrap(maker::reserve_for(600, &[(&hall, 1)]))).collect()
    });
    let outcomes = race(&[&*stores[0], &*stores[1]], commands, 1).concat();
    let had = holds(&outcomes);
    assert_eq!(had.len(), 17);
    each_has_its_own(shop, &*stores[0], &hall, &had);
}

/// Everything that callers do to one hall, at two instances at once, while holds fall due.
pub(crate) fn whatever_callers_do_adds_up<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut all = makers(2, 108, "all-");
    let hall = hall(&*stores[0], &mut all[0], 5, 8);
    for round in 0..6_u64 {
        let known: Vec<_> =
            units(&*stores[0], &hall).iter().filter_map(|unit| unit.status.holder()).collect();
        let known: Vec<_> = known.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let mut seed = round * 10;
        let commands = twice(&mut all, |maker| {
            seed += 1;
            some_of_everything(maker, &mut Random::new(seed), &hall, &known)
        });
        let outcomes = race(&[&*stores[0], &*stores[1]], commands, 3).concat();
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        shop.set_clock(Instant::from_micros(START.micros() + i64::try_from(round).unwrap() * 2_000_000));
        shop.audit();
    }
    run(&*stores[0], all[0].wrap(Command::Sweep)).unwrap();
    shop.audit();
    let verdict = adds_up(shop);
    assert!(verdict.events > 100 && verdict.units >= 38, "{verdict:?}");
    let shown = item(&*stores[1], &hall).unwrap().figures;
    assert_eq!(shown.total_units, verdict.units);
}

fn some_of_everything(
    maker: &mut Maker,
    random: &mut Random,
    hall: &stockhold_domain::ItemKey,
    known: &[stockhold_domain::ReservationId],
) -> Vec<stockhold_domain::Envelope> {
    let mut commands = Vec::new();
    for _ in 0..30 {
        let seat = |random: &mut Random| format!("r{:02}-{:02}", random.below(5), random.below(8));
        let id = (!known.is_empty()).then(|| random.pick(known));
        let command = match (random.below(10), id) {
            (0 | 1, Some(id)) => maker::confirm(id),
            (2, Some(id)) => maker::release(id),
            (3, Some(id)) => maker::extend(id, 3),
            (4, Some(id)) => maker::return_all(id),
            (5, _) => {
                let (one, other) = (seat(random), seat(random));
                if one == other {
                    continue;
                }
                maker::reserve_named(3, hall, &[&one, &other])
            }
            (6, _) => maker::reserve_best(3, hall, 1 + random.below(3), pair()),
            (7, _) => maker::reserve_partial(3, &[(hall, 5)]),
            _ => maker::reserve_for(1 + random.below(4), &[(hall, 1 + random.below(2))]),
        };
        commands.push(maker.wrap(command));
    }
    commands
}
