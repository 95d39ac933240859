//! Half an hour of everything that callers do, at several instances over few items, whatever the dialect: the clock runs on
//! while they are at it, holds fall due, every instance sweeps, and somebody follows the events. What must be true afterwards
//! is in `replies`.
//!
//! Half an hour passes on the clock that the database shows: as many requests as come to it in seconds, a few thousand.

mod caller;
mod replies;

use super::open;
use crate::audit::{Shop, adds_up};
use crate::fixture::{events, item, run};
use crate::unit_items::hall;
use crate::workload::{Stores, books_balance, makers, read_along};
use caller::Caller;
use replies::RecordedReply;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use stockhold_conformance::{Maker, START, maker};
use stockhold_domain::{Instant, ItemKey, Label, LimitTerms, LimitedUnits, ReservationId, SubjectKind};
use stockhold_sql::Options;
use stockhold_store::{EventRow, Store};

const MINUTE: i64 = 60_000_000;
/// How far the clock moves while callers are at it.
const LASTS: i64 = 35 * MINUTE;
/// When nothing can be held any longer of what was reserved until then.
const AFTERWARDS: i64 = LASTS + 35 * MINUTE;
/// How far each instance's clock is ahead of the one before: nothing hangs on all of them showing the same.
const APART: i64 = 400_000;
const CALLERS: usize = 8;
const ROUNDS: i64 = 120;
const ITEMS: usize = 6;
const UNITS: u64 = 100;
/// Held units that a limit allows, of which there are often as many.
const OFTEN_REACHED: u64 = 70;
const ROWS: usize = 12;
const SEATS: usize = 16;
/// Between two moves of the clock.
const PAUSE: Duration = Duration::from_millis(5);
/// Between two looks at what is still held, and how often it is looked before a sweeper that does nothing is noticed.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: usize = 2_000;

pub(crate) fn half_an_hour_at_two_instances<S: Shop>(shop: &mut S) {
    half_an_hour(shop, 2, 0x2a11);
}

pub(crate) fn half_an_hour_at_four_instances<S: Shop>(shop: &mut S) {
    half_an_hour(shop, 4, 0x4a11);
}

/// One of the limits: the first counts held units of some items and of the hall, for each owner; the second counts held and sold
/// units of all items, for all together.
fn limit(items: &[ItemKey], hall: &ItemKey, number: usize, most: u64) -> LimitTerms {
    if number == 0 {
        let targets: Vec<&ItemKey> = items[..ITEMS / 2].iter().chain([hall]).collect();
        let terms = maker::per_customer(&targets, most);
        return LimitTerms { per: Some(SubjectKind::Owner), counts: LimitedUnits::Held, ..terms };
    }
    let targets: Vec<&ItemKey> = items.iter().collect();
    LimitTerms { per: None, ..maker::per_customer(&targets, 1_000 + most) }
}

/// What callers have in common.
struct Place {
    items: Vec<ItemKey>,
    hall: ItemKey,
    limits: [Label; 2],
    /// How far the clock that is furthest ahead is so.
    ahead: i64,
    /// Reservations that anybody was told of.
    known: Mutex<Vec<ReservationId>>,
    /// Rounds that callers have behind them.
    rounds: AtomicI64,
    /// No instance's clock shows anything later.
    latest: AtomicI64,
}

impl Place {
    fn open(stores: Stores<'_>, maker: &mut Maker) -> Self {
        let store = stores[0];
        let locations = [maker.location("shop"), maker.location("hub")];
        let items: Vec<ItemKey> =
            (0..ITEMS).map(|n| maker.item_at(locations[n % 2].as_str(), &format!("i{n}"))).collect();
        for item in &items {
            run(store, maker.wrap(maker::set_stock(item, UNITS))).unwrap();
        }
        let hall = hall(store, maker, ROWS, SEATS);
        let limits = [maker.limit("held"), maker.limit("sold")];
        for (number, id) in limits.iter().enumerate() {
            let terms = limit(&items, &hall, number, OFTEN_REACHED);
            run(store, maker.wrap(maker::set_limit(id, terms))).unwrap();
        }
        let ahead = APART * i64::try_from(stores.len() - 1).unwrap();
        let latest = AtomicI64::new(START.micros() + ahead);
        Self { items, hall, limits, ahead, known: Mutex::default(), rounds: AtomicI64::new(0), latest }
    }

    fn set_clock<S: Shop>(&self, shop: &mut S, micros: i64) {
        let now = START.micros() + micros;
        self.latest.store(now + self.ahead, Ordering::SeqCst);
        shop.set_clock(Instant::from_micros(now));
    }

    fn held(&self, store: &dyn Store) -> u64 {
        let items = self.items.iter().chain([&self.hall]);
        items.map(|key| item(store, key).unwrap().figures.active).sum()
    }
}

/// One of several, which sweeps as it does when it is run, only more often.
fn instance<S: Shop>(shop: &S, ahead: i64) -> Arc<dyn Store> {
    let options = shop.options();
    let clock = options.clock.map(|query| query.replace("micros", &format!("micros + {ahead}")));
    let sweep_every = Some(Duration::from_millis(50));
    let options = Options { clock, sweep_every, connections: 4, most_connections: 6, ..options };
    open(shop, options)
}

fn half_an_hour<S: Shop>(shop: &mut S, instances: i64, seed: u64) {
    // Shown when the test fails.
    println!("seed {seed:#x}, {instances} instances");
    let stores: Vec<_> = (0..instances).map(|n| instance(shop, n * APART)).collect();
    let (told, read, place) = serve(shop, &stores, seed);
    drop(stores);

    let store = shop.store();
    let rows = events(&*store);
    assert!(read == rows, "each event was read once, in order, while they came");
    let acknowledged: Vec<_> = told.iter().flatten().filter_map(RecordedReply::hold).cloned().collect();
    books_balance(&*store, &rows, &acknowledged);
    replies::follows(&*store, &place, &rows, &told);
    replies::everything_happened(&rows, &told);
    shop.audit();
    assert_eq!(adds_up(shop).events, rows.len() as u64);
}

/// Lets callers at the stores while the clock moves, and time pass until nothing is held any longer. What they were told, and
/// what a reader saw meanwhile.
fn serve<S: Shop>(
    shop: &mut S,
    stores: &[Arc<dyn Store>],
    seed: u64,
) -> (Vec<Vec<RecordedReply>>, Vec<EventRow>, Place) {
    let stores: Vec<&dyn Store> = stores.iter().map(|store| &**store).collect();
    let mut makers = makers(CALLERS, seed, "traffic-");
    let place = Place::open(&stores, &mut makers[0]);
    let done = AtomicBool::new(false);
    let (told, swept, read) = thread::scope(|scope| {
        let reader = scope.spawn(|| read_along(&stores, &done));
        let callers = makers.into_iter().zip(seed * 100..);
        let callers: Vec<_> = callers
            .map(|(maker, seed)| {
                let caller = Caller::new(&stores, &place, maker, seed);
                scope.spawn(move || caller.call(ROUNDS))
            })
            .collect();
        while !callers.iter().all(thread::ScopedJoinHandle::is_finished) {
            // As far as they have come, so that all of it passes however fast they are.
            let rounds = place.rounds.load(Ordering::SeqCst);
            place.set_clock(shop, LASTS / (ROUNDS * i64::try_from(CALLERS).unwrap()) * rounds);
            thread::sleep(PAUSE);
        }
        // All of them, before the first that failed ends the test.
        let told: Vec<_> = callers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let told: Result<Vec<_>, _> = told.into_iter().collect();
        place.set_clock(shop, AFTERWARDS);
        let swept = told.is_ok()
            && (0..LOOKS).any(|_| {
                thread::sleep(LOOK);
                place.held(stores[0]) == 0
            });
        done.store(true, Ordering::SeqCst);
        (told, swept, reader.join())
    });
    let told = told.unwrap_or_else(|why| std::panic::resume_unwind(why));
    assert!(swept, "what falls due is expired by the instances themselves");
    (told, read.unwrap(), place)
}
