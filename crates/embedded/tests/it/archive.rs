//! What users see of a store whose oldest events were archived.

use std::time::Duration;
use stockhold_conformance::bench::Bench;
use stockhold_conformance::maker::{confirm_as, release, reserve, return_all, set_stock};
use stockhold_conformance::{Maker, MemoryArchive, START, World};
use stockhold_domain::{Instant, ItemKey, Outcome, Rejection, Reply, ReservationId};
use stockhold_embedded::{archive, verify};
use stockhold_store::{
    ARCHIVE_FILE_EVENTS, ArchiveRequest, Query, QueryResult, ReservationFilter, ReservationPage,
};

const DAY: i64 = 86_400_000_000;

/// A store after 100 days: an old reservation of each kind, and a new one.
struct Shop {
    bench: Bench,
    maker: Maker,
    shirt: ItemKey,
    active: ReservationId,
    sold: ReservationId,
    returned: ReservationId,
    cancelled: ReservationId,
    new: ReservationId,
}

impl Shop {
    fn new() -> Self {
        let (mut bench, mut maker) = (Bench::new(), Maker::new(1, ""));
        let shirt = maker.item("shirt");
        bench.run(maker.wrap(set_stock(&shirt, 100))).unwrap();
        // Each hold has a key of its own.
        let hold = |maker: &mut Maker, bench: &mut Bench, n: u64| match bench
            .run(maker.keyed(&format!("key-{n}"), reserve(&[(&shirt, n)])))
            .unwrap()
        {
            Outcome::Done(Reply::Reservation(hold)) => hold.id,
            other => panic!("{other:?}"),
        };
        let active = hold(&mut maker, &mut bench, 1);
        let [sold, returned, cancelled] = [2, 3, 4].map(|n| hold(&mut maker, &mut bench, n));
        bench.run(maker.wrap(confirm_as(sold, "order"))).unwrap();
        bench.run(maker.wrap(confirm_as(returned, "order"))).unwrap();
        bench.run(maker.wrap(release(cancelled))).unwrap();
        bench.set_clock(Instant::from_micros(START.micros() + 100 * DAY));
        bench.run(maker.wrap(return_all(returned))).unwrap();
        let new = hold(&mut maker, &mut bench, 5);
        Self { bench, maker, shirt, active, sold, returned, cancelled, new }
    }

    fn archive(&mut self) {
        self.bench.stop();
        let request = ArchiveRequest {
            older_than: Duration::from_hours(90 * 24),
            key_retention: Duration::from_hours(24),
            now: Instant::from_micros(START.micros() + 100 * DAY),
            drop: true,
            consumers: &|_| Vec::new(),
            file_events: ARCHIVE_FILE_EVENTS,
            new_directory: true,
            files: usize::MAX,
            is_cancelled: &|| false,
        };
        let done = archive(&self.bench.dir(), &request, &mut MemoryArchive::default(), |_| ()).unwrap();
        assert_eq!((done.dropped_through, done.reservations), (8, 2));
        self.bench.start().unwrap();
    }

    fn listed(&mut self, filter: &ReservationFilter, limit: usize) -> Vec<ReservationId> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let query = Query::Reservations(ReservationFilter { after, limit, ..filter.clone() });
            let QueryResult::Reservations(ReservationPage { holds, next, .. }) =
                self.bench.find(query).unwrap()
            else {
                panic!("not a page")
            };
            all.extend(holds.into_iter().map(|hold| hold.id));
            after = next;
            if after.is_none() {
                return all;
            }
        }
    }
}

#[test]
fn what_has_ended_leaves_and_the_rest_is_found_as_before() {
    let mut shop = Shop::new();
    // The overdue hold is still active, because nothing has expired it.
    let all = [shop.new, shop.cancelled, shop.returned, shop.sold, shop.active];
    let owner = ReservationFilter::default();
    assert_eq!(shop.listed(&owner, 2), all);
    let before = shop.bench.item(&shop.shirt);
    shop.archive();
    assert_eq!(shop.bench.item(&shop.shirt), before, "counters stay");
    for limit in 1..4 {
        assert_eq!(shop.listed(&owner, limit), [shop.new, shop.returned, shop.active], "{limit}");
    }
    let sku = stockhold_conformance::maker::label(shop.shirt.sku());
    let of_sku = ReservationFilter { sku: Some(sku), ..owner.clone() };
    assert_eq!(shop.listed(&of_sku, 2), [shop.new, shop.returned, shop.active]);
    let order_id = Some(stockhold_conformance::maker::label("order"));
    let of_order = ReservationFilter { order_id, ..owner };
    assert_eq!(shop.listed(&of_order, 1), [shop.returned]);

    for gone in [shop.sold, shop.cancelled] {
        assert!(shop.bench.hold(gone).is_none());
        let history = shop.bench.find(Query::History(gone)).unwrap();
        assert!(matches!(history, QueryResult::History(None)), "{history:?}");
    }
    let refused = shop.bench.run(shop.maker.wrap(return_all(shop.sold))).unwrap();
    assert_eq!(refused, Outcome::Refused(Rejection::UnknownReservation(shop.sold)));
    for (kept, events) in [(shop.active, 0), (shop.returned, 1), (shop.new, 1)] {
        assert!(shop.bench.hold(kept).is_some());
        let history = shop.bench.find(Query::History(kept)).unwrap();
        let QueryResult::History(Some(rows)) = history else { panic!("{kept:?} has no history") };
        assert_eq!(rows.len(), events, "archived events are left out");
    }
    // A key that was archived is new, and one that was used since is not.
    let repeat = |shop: &mut Shop, n: u64| {
        let repeated = shop.maker.keyed(&format!("key-{n}"), reserve(&[(&shop.shirt, n)]));
        shop.bench.run(repeated).unwrap()
    };
    let Outcome::Replayed(Reply::Reservation(same)) = repeat(&mut shop, 5) else { panic!("key-5 is known") };
    assert_eq!(same.id, shop.new);
    let Outcome::Done(Reply::Reservation(other)) = repeat(&mut shop, 2) else { panic!("key-2 is new") };
    assert_ne!(other.id, shop.sold);
    let page = shop.bench.find(Query::Events { after: 3, limit: 9 }).unwrap();
    assert!(matches!(page, QueryResult::Archived { through: 8 }), "{page:?}");
    shop.bench.run(shop.maker.wrap(release(shop.active))).unwrap();
    shop.bench.stop();
    assert_eq!(verify(&shop.bench.dir(), |_, _| ()).unwrap().findings, Vec::<String>::new());
}
