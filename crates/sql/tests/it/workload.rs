//! What many callers do at several stores over one database, whatever its dialect, and what must be true afterwards.

use crate::fixture::{Desk, events, events_after, hold, item, reservation, sold_out, stock};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use stockhold_conformance::{Maker, Random, maker};
use stockhold_domain::{Envelope, Hold, ItemKey, Mode, Outcome, ReservationId, Status, Transition};
use stockhold_model::{NaiveState, audit, check_successor};
use stockhold_store::{EventRow, Failure, Store};

/// Stores over one database.
pub(crate) type Stores<'a> = &'a [&'a dyn Store];

type Outcomes = Vec<Result<Outcome, Failure>>;

/// Hands every store its commands at the same time, some at once, and collects the answers.
pub(crate) fn race(stores: Stores<'_>, commands: Vec<Vec<Envelope>>, at_once: usize) -> Vec<Outcomes> {
    let start = Barrier::new(stores.len());
    let run = |store: &dyn Store, commands: Vec<Envelope>| {
        start.wait();
        let mut outcomes = Vec::new();
        let mut commands = commands.into_iter();
        loop {
            let some: Vec<_> = commands.by_ref().take(at_once).collect();
            if some.is_empty() {
                return outcomes;
            }
            outcomes.extend(Desk::new().send(store, some).outcomes());
        }
    };
    let (run, stores) = (&run, stores.iter().copied());
    thread::scope(|scope| {
        let running: Vec<_> =
            stores.zip(commands).map(|(store, commands)| scope.spawn(move || run(store, commands))).collect();
        running.into_iter().map(|running| running.join().unwrap()).collect()
    })
}

/// Makers of different commands about the same items.
pub(crate) fn makers(count: usize, seed: u64, prefix: &str) -> Vec<Maker> {
    (0..count as u64).map(|n| Maker::new(seed * 1_000 + n, prefix)).collect()
}

/// A thousand buyers, a hundred units.
pub(crate) fn buyers(stores: Stores<'_>, seed: u64) {
    let mut makers = makers(stores.len(), seed, &format!("buyers{seed}-"));
    let item_key = stock(stores[0], &mut makers[0], "drop", 100);
    let each = 1_000 / stores.len();
    let reserves = |maker: &mut Maker| {
        (0..each).map(|_| maker.wrap(maker::reserve_for(600, &[(&item_key, 1)]))).collect::<Vec<_>>()
    };
    let commands = makers.iter_mut().map(reserves).collect();
    let outcomes = race(stores, commands, 50).concat();
    let sequences: BTreeSet<u64> =
        outcomes.iter().filter_map(reservation).map(|hold| hold.lines[0].sequence).collect();
    assert_eq!(sequences, (2..=101).collect(), "a hundred holds, gapless over all instances");
    assert_eq!(outcomes.iter().filter(|outcome| sold_out(outcome)).count(), each * stores.len() - 100);
    let shown = item(stores[stores.len() - 1], &item_key).unwrap();
    assert_eq!((shown.figures.held, shown.figures.active, shown.available()), (100, 100, 0));
}

/// The same baskets, named in opposite orders.
pub(crate) fn opposite_baskets(stores: Stores<'_>, seed: u64) {
    let mut makers = makers(stores.len(), seed, &format!("baskets{seed}-"));
    let mut items: Vec<ItemKey> =
        (0..12).map(|n| stock(stores[0], &mut makers[0], &format!("i{n}"), 100_000)).collect();
    let mut commands = Vec::new();
    for maker in &mut makers {
        let wants: Vec<_> = items.iter().map(|item| (item, 1)).collect();
        commands.push((0..150).map(|_| maker.wrap(maker::reserve_for(600, &wants))).collect());
        items.reverse();
    }
    let outcomes = race(stores, commands, 5).concat();
    assert_eq!(outcomes.iter().filter_map(reservation).count(), 150 * stores.len());
}

/// The same keys at all stores at once.
pub(crate) fn same_keys(stores: Stores<'_>, seed: u64) {
    let mut maker = Maker::new(seed, &format!("keys{seed}-"));
    let item_key = stock(stores[0], &mut maker, "a", 1_000);
    let first: Vec<_> = (0..200)
        .map(|n| maker.keyed(&format!("{seed}-{n}"), maker::reserve_for(600, &[(&item_key, 1)])))
        .collect();
    let mut commands = vec![first];
    while commands.len() < stores.len() {
        commands.push(commands[0].iter().map(|envelope| maker.again(envelope)).collect());
    }
    // Every second store begins at the other end.
    commands.iter_mut().skip(1).step_by(2).for_each(|commands| commands.reverse());
    let mut outcomes = race(stores, commands, 20);
    outcomes.iter_mut().skip(1).step_by(2).for_each(|outcomes| outcomes.reverse());
    for n in 0..200 {
        let of_key: Vec<_> = outcomes.iter().map(|outcomes| &outcomes[n]).collect();
        let ids: BTreeSet<_> = of_key
            .iter()
            .map(|outcome| reservation(outcome).unwrap_or_else(|| panic!("{outcome:?}")).id)
            .collect();
        assert_eq!(ids.len(), 1, "{of_key:?}");
        let made = of_key.iter().filter(|outcome| matches!(outcome, Ok(Outcome::Done(_)))).count();
        assert_eq!(made, 1, "{of_key:?}");
    }
    assert_eq!(item(stores[0], &item_key).unwrap().figures.held, 200);
}

/// A crowd falls due at once, on items of which one is sold out by it. Reserves of these items at the same
/// time get the returned units, and the stores themselves expire all of the crowd. `fall_due` moves the clock.
pub(crate) fn crowd_while_reserving(stores: Stores<'_>, seed: u64, fall_due: impl FnOnce()) {
    const CROWD: u64 = 6_000;
    const CALLERS: u64 = 8;
    const EACH: u64 = 40;
    let mut maker = Maker::new(seed, &format!("crowd{seed}-"));
    let items: Vec<ItemKey> = (0..6)
        .map(|n| stock(stores[0], &mut maker, &format!("i{n}"), if n == 0 { CROWD / 6 } else { 1_000_000 }))
        .collect();
    let reserve = |maker: &mut Maker, n: u64| {
        let item = &items[usize::try_from(n % 6).unwrap()];
        maker.wrap(maker::reserve_for(60, &[(item, 1)]))
    };
    for some in 0..CROWD / 1_000 {
        let commands = (0..1_000).map(|n| reserve(&mut maker, some * 1_000 + n)).collect();
        let outcomes = Desk::new().send(stores[0], commands).outcomes();
        assert!(outcomes.iter().all(|outcome| reservation(outcome).is_some()));
    }
    fall_due();
    let reserve = &reserve;
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let store = stores[usize::try_from(caller).unwrap() % stores.len()];
            scope.spawn(move || {
                let mut maker = Maker::new(seed * 100 + caller, &format!("crowd{seed}-"));
                for n in 0..EACH {
                    let outcome = Desk::new().send(store, vec![reserve(&mut maker, n)]).only();
                    assert!(reservation(&outcome).is_some(), "{outcome:?}");
                }
            });
        }
    });
    let held = || items.iter().map(|key| item(stores[0], key).unwrap().figures.held).sum::<u64>();
    while held() > CALLERS * EACH {
        thread::sleep(std::time::Duration::from_millis(5));
    }
    let figures = items.iter().map(|key| item(stores[0], key).unwrap().figures);
    let (held, sequences) = figures.fold((0, 0), |(held, all), one| (held + one.held, all + one.sequence));
    assert_eq!((held, sequences), (CALLERS * EACH, 6 + 2 * CROWD + CALLERS * EACH), "each came back once");
}

/// Everything that callers do, by several at each store, over few items and each other's reservations, while somebody reads
/// the events. Holds fall due on the way if the stores sweep by a real clock.
pub(crate) fn mixed(stores: Stores<'_>, seed: u64, rounds: usize) {
    const CALLERS: usize = 3;
    let mut makers = makers(stores.len() * CALLERS, seed, &format!("mixed{seed}-"));
    let items: Vec<ItemKey> =
        (0..6).map(|n| stock(stores[0], &mut makers[0], &format!("i{n}"), 40)).collect();
    let holds: Mutex<Vec<ReservationId>> = Mutex::default();
    let done = AtomicBool::new(false);
    let (acknowledged, read) = thread::scope(|scope| {
        let reader = scope.spawn(|| read_along(stores, &done));
        let callers = makers.iter_mut().enumerate().map(|(n, maker)| {
            let (store, holds, items) = (stores[n % stores.len()], &holds, &items);
            scope.spawn(move || call(store, maker, seed * 100 + n as u64, rounds, items, holds))
        });
        let callers: Vec<_> = callers.collect();
        let told: Vec<_> = callers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::SeqCst);
        let acknowledged: Vec<Hold> = told.into_iter().flat_map(Result::unwrap).collect();
        (acknowledged, reader.join().unwrap())
    });
    let rows = events(stores[stores.len() - 1]);
    assert_eq!(read[..], rows[..read.len()], "what was read while it grew is what is there");
    books_balance(stores[stores.len() - 1], &rows, &acknowledged);
}

/// One caller, who takes every failure for a failed test. What it was told.
fn call(
    store: &dyn Store,
    maker: &mut Maker,
    seed: u64,
    rounds: usize,
    items: &[ItemKey],
    holds: &Mutex<Vec<ReservationId>>,
) -> Vec<Hold> {
    let mut random = Random::new(seed);
    let mut told = Vec::new();
    for round in 0..rounds {
        let commands = some_commands(maker, &mut random, &format!("{seed}-{round}"), items, holds);
        for outcome in Desk::new().send(store, commands).outcomes() {
            assert!(outcome.is_ok(), "{outcome:?}");
            if let Some(hold) = reservation(&outcome) {
                holds.lock().unwrap().push(hold.id);
                told.push(hold.clone());
            }
        }
    }
    told
}

/// What a caller sends at once: up to four commands, each with a key that begins with `key`.
pub(crate) fn some_commands(
    maker: &mut Maker,
    random: &mut Random,
    key: &str,
    items: &[ItemKey],
    holds: &Mutex<Vec<ReservationId>>,
) -> Vec<Envelope> {
    let mut commands = Vec::new();
    for n in 0..=random.below(4) {
        let known = holds.lock().unwrap();
        let id = (!known.is_empty()).then(|| known[index(random, known.len())]);
        drop(known);
        let command = match (random.below(9), id) {
            (0, Some(id)) => maker::confirm(id),
            (1, Some(id)) => maker::release(id),
            (2, Some(id)) => maker::extend(id, 2),
            (3, Some(id)) => maker::return_all(id),
            (4, _) => maker::adjust(&items[index(random, items.len())], 1),
            _ => {
                let first = index(random, items.len());
                let wants: Vec<_> = (0..=index(random, 3))
                    .map(|n| (&items[(first + n) % items.len()], 1 + random.below(3)))
                    .collect();
                maker::reserve_for(1, &wants)
            }
        };
        commands.push(maker.keyed(&format!("{key}-{n}"), command));
    }
    commands
}

fn index(random: &mut Random, len: usize) -> usize {
    usize::try_from(random.below(len as u64)).unwrap()
}

/// Reads events as they come, page by page at one store after the other, until everything is done and read.
pub(crate) fn read_along(stores: Stores<'_>, done: &AtomicBool) -> Vec<EventRow> {
    let mut seen: Vec<EventRow> = Vec::new();
    for store in stores.iter().copied().cycle() {
        let last = done.load(Ordering::SeqCst);
        let more = events_after(store, seen.last().map_or(0, |row| row.position), 50);
        if last && more.is_empty() {
            break;
        }
        seen.extend(more);
    }
    seen
}

/// Positions are dense, the state is what the events come to, nothing is oversold, and whatever was acknowledged is there or
/// has become what it may become.
pub(crate) fn books_balance(store: &dyn Store, rows: &[EventRow], acknowledged: &[Hold]) {
    assert!(rows.iter().zip(1..).all(|(row, position)| row.position == position), "dense, from 1");
    assert!(store.newest() >= rows.last().map_or(0, |row| row.position));
    let mut folded = NaiveState::fold(rows.iter().map(|row| &row.event), []);
    for (key, item_of_events) in &mut folded.items {
        if item_of_events.mode == Mode::Units {
            // Its events say what their store saw, which need not be all.
            item_of_events.figures = item(store, key).unwrap().figures;
        }
    }
    audit(&folded).unwrap();
    for acknowledged in acknowledged {
        let mut before = NaiveState::default();
        before.holds.insert(acknowledged.id, acknowledged.clone());
        check_successor(&before, &folded).unwrap();
    }
    follow_each_other(rows);
    for (key, item_of_events) in folded.items.iter().filter(|(_, item)| item.mode != Mode::Units) {
        let found = item(store, key).unwrap();
        // It may have been expired since the events were read.
        assert!(found.figures.sequence >= item_of_events.figures.sequence, "{key:?}");
        if found.figures.sequence == item_of_events.figures.sequence {
            assert_eq!(found.figures, item_of_events.figures, "{key:?}");
        }
    }
    for (id, hold_of_events) in &folded.holds {
        let found = hold(store, *id).unwrap();
        if hold_of_events.status != Status::Active {
            assert_eq!(found, *hold_of_events);
        }
    }
}

/// Along the positions each item's sequence goes up by one.
fn follow_each_other(rows: &[EventRow]) {
    let mut sequences = std::collections::BTreeMap::new();
    for row in rows {
        let at: Vec<(ItemKey, u64)> = match &row.event.transition {
            Transition::Stock { item, .. } => vec![(item.key.clone(), item.figures.sequence)],
            Transition::Hold { hold, figures, .. } => hold
                .lines
                .iter()
                .zip(figures)
                .map(|(line, figures)| (line.item.clone(), figures.sequence))
                .collect(),
            Transition::Sale { .. } | Transition::Limit { .. } | Transition::Record { .. } => Vec::new(),
        };
        for (key, at) in at {
            let before = sequences.insert(key.clone(), at).unwrap_or(0);
            assert!(at == before + 1 || at == before, "{key:?} from {before} to {at} at {}", row.position);
        }
    }
}
