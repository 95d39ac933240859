//! What is over leaves the books.

use super::{Shop, Traces, adds_up, days, done, events_after, every_command, newest, often_amended};
use crate::fixture::{Desk, hold, item, reservation, run, stock};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stockhold_domain::{Hold, Outcome, Rejection, ReservationId, Status};
use stockhold_sql::{ArchiveRequest, ArchiveSink, ArchiveSummary, AuditError, Options};
use stockhold_store::conformance::{Maker, maker};
use stockhold_store::{EventRow, Failure, Query, QueryResult, Store};

/// What is written, and when that fails.
#[derive(Default)]
struct Pages {
    after: u64,
    events: Vec<EventRow>,
    holds: Vec<Hold>,
    synced: usize,
    /// Syncs that work.
    syncs: Option<usize>,
}

impl ArchiveSink for Pages {
    fn begin(&mut self, after: u64) -> Result<(), String> {
        self.after = after;
        Ok(())
    }

    fn event(&mut self, row: &EventRow) -> Result<(), String> {
        self.events.push(row.clone());
        Ok(())
    }

    fn reservation(&mut self, hold: &Hold) -> Result<(), String> {
        self.holds.push(hold.clone());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        if self.syncs == Some(self.synced) {
            return Err("no room is left".to_owned());
        }
        self.synced += 1;
        Ok(())
    }
}

const MONTHS: Duration = Duration::from_hours(90 * 24);

fn archive<S: Shop>(shop: &S, drop: bool, pages: &mut Pages) -> Result<ArchiveSummary, AuditError> {
    let order = ArchiveRequest { older_than: MONTHS, drop };
    stockhold_sql::archive(&shop.url(), &shop.options(), order, pages, |_| ())
}

fn dropped<S: Shop>(shop: &S) -> (ArchiveSummary, Pages) {
    let mut pages = Pages::default();
    let archived = archive(shop, true, &mut pages).unwrap();
    assert!(pages.events.iter().zip(pages.after + 1..).all(|(row, position)| row.position == position));
    assert_eq!(archived.events, pages.events.len() as u64);
    assert_eq!(archived.through, pages.after + archived.events);
    (archived, pages)
}

/// Archives what is old, and says what that was.
pub(crate) fn archived<S: Shop>(shop: &S) -> ArchiveSummary {
    dropped(shop).0
}

pub(crate) fn what_is_old_and_over_leaves_and_the_rest_adds_up<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(80, "old-");
    let old = every_command(&*store, &mut maker, "old");
    let through = newest(&*store);
    let kept_hold = hold(&*store, old.confirmed).unwrap();
    shop.set_clock(days(100));
    // Something of the old that goes on: part of a sale comes back.
    let again = done(&*store, maker.wrap(maker::reserve_for(60, &[(&old.items[1], 2)])));
    done(&*store, maker.wrap(maker::return_all(old.confirmed)));
    let young = every_command(&*store, &mut maker, "young");
    let before = super::adds_up(shop);
    let shown = old.items.iter().map(|key| item(&*store, key).unwrap()).collect::<Vec<_>>();

    let (archived, pages) = dropped(shop);
    assert_eq!((archived.after, archived.through), (0, through));
    let gone: BTreeSet<ReservationId> = pages.holds.iter().map(|hold| hold.id).collect();
    assert_eq!(gone, BTreeSet::from([old.returned, old.cancelled]));
    assert_eq!((archived.reservations, archived.keys), (2, before.keys - young_keys()));

    let after = adds_up(shop);
    assert_eq!((after.archived, after.events), (through, before.events - archived.events));
    assert_eq!(old.items.iter().map(|key| item(&*store, key).unwrap()).collect::<Vec<_>>(), shown);
    for id in gone {
        assert_eq!(hold(&*store, id), None);
        let told = run(&*store, maker.wrap(maker::return_all(id)));
        assert!(matches!(told, Ok(Outcome::Refused(Rejection::UnknownReservation(_)))), "{told:?}");
    }
    assert_ne!(hold(&*store, old.confirmed).unwrap(), kept_hold, "it was returned since, and is kept");
    for id in [old.active, again, young.active] {
        assert_eq!(hold(&*store, id).unwrap().status, Status::Active, "whoever is active never leaves");
    }
    let history = Desk::new().find(&*store, Query::History(old.confirmed));
    let Ok(QueryResult::History(Some(rows))) = history else { panic!("{history:?}") };
    assert_eq!(rows.len(), 1, "what is kept of it is its end");

    // Positions continue. A reader that asks for archived events learns where to begin.
    for asked in [0, 1, through - 1] {
        let found = events_after(&*store, asked);
        assert!(matches!(found, Ok(QueryResult::Archived { through: told }) if told == through), "{found:?}");
    }
    let Ok(QueryResult::Events(rows)) = events_after(&*store, through) else { panic!("they are there") };
    assert!(rows.iter().zip(through + 1..).all(|(row, position)| row.position == position));
    assert_eq!(rows.last().unwrap().position, newest(&*store));

    // Old holds of which nothing else is left end like any other.
    done(&*store, maker.wrap(maker::release(again)));
    let late = run(&*store, maker.wrap(maker::release(old.active)));
    assert!(late.is_ok(), "{late:?}");
    adds_up(shop);
    everything_leaves_in_the_end(shop, &young);
}

pub(crate) fn a_long_history_stays_out_of_its_row_and_leaves_with_it<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(86, "long-");
    let id = often_amended(&*store, &mut maker);
    // Each condition is a row that the table refuses if it does not hold.
    shop.sql(
        "CREATE TABLE {t}found (n BIGINT CHECK (n = 1));
         INSERT INTO {t}found SELECT COUNT(*) FROM {t}hold_histories WHERE octet_length(history) = 8 * 63;
         INSERT INTO {t}found SELECT COUNT(*) FROM {t}holds WHERE octet_length(history) = 8 * 38;
         INSERT INTO {t}found SELECT COUNT(*) FROM {t}active_lines",
    );
    done(&*store, maker.wrap(maker::release(id)));
    let history = Desk::new().find(&*store, Query::History(id));
    let Ok(QueryResult::History(Some(rows))) = history else { panic!("{history:?}") };
    assert_eq!(rows.len(), 102);
    newest(&*store);
    shop.set_clock(days(100));
    let (archived, _) = dropped(shop);
    assert_eq!((archived.events, archived.reservations), (103, 1));
    shop.sql("INSERT INTO {t}found SELECT 1 + COUNT(*) FROM {t}hold_histories; DROP TABLE {t}found");
    adds_up(shop);
}

fn young_keys() -> u64 {
    7
}

fn everything_leaves_in_the_end<S: Shop>(shop: &mut S, young: &Traces) {
    let store = shop.store();
    let mut maker = Maker::new(81, "end-");
    done(&*store, maker.wrap(maker::release(young.active)));
    let through = newest(&*store);
    shop.set_clock(days(300));
    let (archived, _) = dropped(shop);
    assert_eq!(archived.through, through);
    let verdict = adds_up(shop);
    assert_eq!((verdict.events, verdict.keys, verdict.reservations), (0, 0, [0; 4]));
    assert!(verdict.items > 0);
    let found = events_after(&*store, through - 1);
    assert!(matches!(found, Ok(QueryResult::Archived { through: told }) if told == through), "{found:?}");
    assert!(matches!(events_after(&*store, through), Ok(QueryResult::Events(rows)) if rows.is_empty()));
    assert_eq!(dropped(shop).0.events, 0, "there is nothing more");
    let next = every_command(&*store, &mut maker, "next");
    let Ok(QueryResult::Events(rows)) = events_after(&*store, through) else { panic!("they are there") };
    assert_eq!(rows[0].position, through + 1);
    assert_eq!(hold(&*store, next.active).unwrap().status, Status::Active);
    adds_up(shop);
}

pub(crate) fn what_is_only_written_stays<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(82, "written-");
    every_command(&*store, &mut maker, "");
    shop.set_clock(days(100));
    let before = adds_up(shop);
    let mut pages = Pages::default();
    let archived = archive(shop, false, &mut pages).unwrap();
    assert_eq!((archived.through, archived.reservations, archived.keys), (before.events, 3, 0));
    assert_eq!(pages.events.len() as u64, before.events);
    assert_eq!(adds_up(shop), before);
}

pub(crate) fn nothing_leaves_that_could_not_be_written<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(83, "unwritten-");
    every_command(&*store, &mut maker, "");
    shop.set_clock(days(100));
    let before = adds_up(shop);
    let mut pages = Pages { syncs: Some(0), ..Pages::default() };
    let error = archive(shop, true, &mut pages).unwrap_err();
    assert_eq!(error, AuditError::Sink("no room is left".to_owned()));
    // Keys of that age are forgotten in any case.
    assert_eq!(adds_up(shop).events, before.events);
    let (archived, _) = dropped(shop);
    assert_eq!((archived.after, archived.through), (0, before.events));
}

pub(crate) fn nothing_leaves_books_that_do_not_add_up<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(84, "wrong-");
    every_command(&*store, &mut maker, "");
    newest(&*store);
    shop.sql("DELETE FROM {t}events WHERE last_position = 1");
    shop.set_clock(days(100));
    let error = archive(shop, true, &mut Pages::default()).unwrap_err();
    assert!(matches!(&error, AuditError::Refused(why) if why.contains("verify")), "{error:?}");
    assert_eq!(super::verdict(shop).archived, 0);
}

pub(crate) fn what_is_too_young_is_not_asked_for<S: Shop>(shop: &mut S) {
    drop(shop.store());
    let order = ArchiveRequest { older_than: Duration::from_hours(23), drop: true };
    let error = stockhold_sql::archive(&shop.url(), &shop.options(), order, &mut Pages::default(), |_| ())
        .unwrap_err();
    assert!(matches!(&error, AuditError::InvalidRequest(why) if why.contains("24 h")), "{error:?}");
}

/// The one with the shorter retention looks at its start, as the archive does, and finds what the other has promised.
pub(crate) fn keys_are_kept_as_long_as_any_server_promises<S: Shop>(shop: &mut S) {
    let mut maker = Maker::new(86, "promised-");
    let a_month = Options { key_retention: Duration::from_hours(30 * 24), ..shop.options() };
    let store = stockhold_sql::open(&shop.url(), a_month).unwrap();
    let item = stock(&*store, &mut maker, "a", 10);
    let mut reserve = |key: &str, store: &dyn Store| {
        done(store, maker.keyed(key, maker::reserve_for(60, &[(&item, 1)])));
    };
    reserve("oldest", &*store);
    shop.set_clock(days(20));
    reserve("young", &*store);
    let keys = |shop: &S| super::verdict(shop).keys;
    assert_eq!(keys(shop), 2);
    drop(store);

    let order = |days: u64| ArchiveRequest { older_than: Duration::from_hours(days * 24), drop: true };
    let archive = |shop: &S, days| {
        stockhold_sql::archive(&shop.url(), &shop.options(), order(days), &mut Pages::default(), |_| ())
    };
    let error = archive(shop, 2).unwrap_err();
    assert!(matches!(&error, AuditError::InvalidRequest(why) if why.contains("720 h")), "{error:?}");
    shop.set_clock(days(40));
    let _a_day = shop.store();
    // What is older than the longest promise goes; had the shorter one counted, the other would have gone with it.
    while keys(shop) == 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(keys(shop), 1);
}

/// A retry of a confirm, with a key of its own, long after: the key is young, and what it stands for is old.
pub(crate) fn a_key_that_outlived_its_reservation_is_no_alarm<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(85, "outlived-");
    let traces = every_command(&*store, &mut maker, "");
    shop.set_clock(days(100));
    let late = maker.keyed("late", maker::confirm(traces.confirmed));
    assert!(reservation(&run(&*store, late.clone())).is_some());
    let (archived, _) = dropped(shop);
    assert_eq!(archived.reservations, 3);
    assert_eq!(hold(&*store, traces.confirmed), None);
    for _ in 0..2 {
        let told = run(&*store, maker.again(&late));
        assert!(matches!(told, Ok(Outcome::Refused(Rejection::UnknownReservation(_)))), "{told:?}");
    }
    adds_up(shop);
}

pub(crate) fn instances_go_on_while_it_leaves<S: Shop>(shop: &mut S) {
    let stores = [shop.store(), shop.store()];
    let mut maker = Maker::new(86, "during-");
    let mut sold = Vec::new();
    for n in 0..40 {
        sold.push(every_command(&*stores[0], &mut maker, &format!("t{n}-")).confirmed);
    }
    let old = newest(&*stores[0]);
    shop.set_clock(days(100));
    let done_with = AtomicBool::new(false);
    let shop = &*shop;
    let returned = std::thread::scope(|scope| {
        let selection = scope.spawn(|| {
            // Each of these is either kept with its returned units, or archived, and the reply says which.
            let mut maker = Maker::new(87, "during-");
            let outcomes = sold.iter().rev().map(|id| run(&*stores[1], maker.wrap(maker::return_all(*id))));
            outcomes.filter(told).count()
        });
        let busy = scope.spawn(|| {
            let mut seed = 90;
            while !done_with.load(Ordering::SeqCst) {
                every_command(&*stores[0], &mut Maker::new(seed, &format!("busy{seed}-")), "");
                seed += 1;
            }
        });
        let (archived, _) = dropped(shop);
        assert_eq!(archived.through, old);
        done_with.store(true, Ordering::SeqCst);
        busy.join().unwrap();
        selection.join().unwrap()
    });
    let verdict = adds_up(shop);
    assert_eq!(verdict.archived, old);
    assert!(returned <= sold.len());
    let there = sold.iter().filter(|id| hold(&*stores[0], **id).is_some()).count();
    assert_eq!(there, returned, "what was returned is there, and nothing else of them");
}

fn told(outcome: &Result<Outcome, Failure>) -> bool {
    match outcome {
        Ok(Outcome::Done(_)) => true,
        Ok(Outcome::Refused(Rejection::UnknownReservation(_))) => false,
        other => panic!("{other:?}"),
    }
}
