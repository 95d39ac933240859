//! What is over leaves the books.

use super::{Shop, Traces, adds_up, days, done, events_after, every_command, newest, often_amended};
use crate::fixture::{Desk, hold, item, reservation, run, stock};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;
use stockhold_conformance::{Maker, MemoryArchive, START, maker};
use stockhold_domain::{Envelope, Instant, Outcome, Record, Rejection, Status};
use stockhold_sql::{ArchiveError, Options};
use stockhold_store::{
    ARCHIVE_FILE_EVENTS, ArchiveRequest, ArchiveSummary, Failure, Query, QueryResult, Store,
};

const MONTHS: Duration = Duration::from_hours(90 * 24);

/// A request for what is older than this.
pub(crate) fn older_than(age: Duration) -> ArchiveRequest<'static> {
    ArchiveRequest {
        older_than: age,
        key_retention: Duration::from_hours(24),
        now: START,
        drop: true,
        consumers: &|_| Vec::new(),
        file_events: ARCHIVE_FILE_EVENTS,
        files: usize::MAX,
        new_directory: false,
        is_cancelled: &|| false,
    }
}

fn archive<S: Shop>(
    shop: &S,
    request: &ArchiveRequest<'_>,
    archive: &mut MemoryArchive,
) -> Result<ArchiveSummary, ArchiveError> {
    stockhold_sql::archive(&shop.url(), &shop.options(), request, archive, |_| ())
}

/// Archives what is old, into the files of an archive.
fn dropped<S: Shop>(shop: &S, into: &mut MemoryArchive) -> ArchiveSummary {
    let done = archive(shop, &older_than(MONTHS), into).unwrap();
    assert_eq!((done.through, done.dropped), (done.dropped_through, done.through - done.after), "{done:?}");
    assert_eq!(into.files.last().map_or(0, |(file, _)| file.last), done.through);
    done
}

/// Archives what is old, and says what that was.
pub(crate) fn archived<S: Shop>(shop: &S) -> ArchiveSummary {
    let request = ArchiveRequest { new_directory: true, ..older_than(MONTHS) };
    archive(shop, &request, &mut MemoryArchive::default()).unwrap()
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

    let mut files = MemoryArchive::default();
    let archived = dropped(shop, &mut files);
    assert_eq!((archived.after, archived.through, archived.reservations), (0, through, 2));
    let gone = BTreeSet::from([old.returned, old.cancelled]);

    let after = adds_up(shop);
    assert_eq!((after.archived, after.events), (through, before.events - archived.dropped));
    assert_eq!(after.keys, young_keys(), "keys of that age are forgotten, of {}", before.keys);
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
    everything_leaves_in_the_end(shop, &young, &mut files);
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
    let archived = archived(shop);
    assert_eq!((archived.dropped, archived.reservations), (103, 1));
    shop.sql("INSERT INTO {t}found SELECT 1 + COUNT(*) FROM {t}hold_histories; DROP TABLE {t}found");
    adds_up(shop);
}

fn young_keys() -> u64 {
    7
}

fn everything_leaves_in_the_end<S: Shop>(shop: &mut S, young: &Traces, files: &mut MemoryArchive) {
    let store = shop.store();
    let mut maker = Maker::new(81, "end-");
    done(&*store, maker.wrap(maker::release(young.active)));
    let through = newest(&*store);
    shop.set_clock(days(300));
    assert_eq!(dropped(shop, files).through, through);
    let verdict = adds_up(shop);
    assert_eq!((verdict.events, verdict.keys, verdict.reservations), (0, 0, [0; 4]));
    assert!(verdict.items > 0);
    let found = events_after(&*store, through - 1);
    assert!(matches!(found, Ok(QueryResult::Archived { through: told }) if told == through), "{found:?}");
    assert!(matches!(events_after(&*store, through), Ok(QueryResult::Events(rows)) if rows.is_empty()));
    assert_eq!(dropped(shop, files).dropped, 0, "there is nothing more");
    let whole = stockhold_sql::verify_with_archive(&shop.url(), &shop.options(), files, |_| ()).unwrap();
    assert_eq!((whole.findings, whole.events), (Vec::new(), through), "from the first event on");
    let next = every_command(&*store, &mut maker, "next");
    let Ok(QueryResult::Events(rows)) = events_after(&*store, through) else { panic!("they are there") };
    assert_eq!(rows[0].position, through + 1);
    assert_eq!(hold(&*store, next.active).unwrap().status, Status::Active);
    adds_up(shop);
}

pub(crate) fn nothing_leaves_books_that_do_not_add_up<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(84, "wrong-");
    every_command(&*store, &mut maker, "");
    newest(&*store);
    shop.sql("DELETE FROM {t}events WHERE last_position = 1");
    shop.set_clock(days(100));
    let error = archive(shop, &older_than(MONTHS), &mut MemoryArchive::default()).unwrap_err();
    assert!(matches!(&error, ArchiveError::Refused(why) if why.contains("verify")), "{error:?}");
    assert_eq!(super::verdict(shop).archived, 0);
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

    let two_days = older_than(Duration::from_hours(48));
    let error = archive(shop, &two_days, &mut MemoryArchive::default()).unwrap_err();
    assert!(matches!(&error, ArchiveError::InvalidRequest(why) if why.contains("720 h")), "{error:?}");
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
    assert_eq!(archived(shop).reservations, 3);
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
        assert_eq!(archived(shop).through, old);
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

/// Old sales whose events are in one file, and leave in several transactions.
fn one_large_file<S: Shop>(shop: &mut S, seed: u64) -> (Box<dyn Store>, u64) {
    let store = shop.store();
    let mut maker = Maker::new(seed, "large-");
    let item = stock(&*store, &mut maker, "a", 1_000_000);
    for n in 0..20 {
        let reserves: Vec<Envelope> =
            (0..250).map(|_| maker.wrap(maker::reserve_for(60, &[(&item, 1 + n % 3)]))).collect();
        let made = Desk::new().send(&*store, reserves).outcomes();
        let ends = made.iter().map(|made| reservation(made).unwrap().id);
        let ends: Vec<Envelope> = ends.map(|id| maker.wrap(maker::confirm(id))).collect();
        assert!(Desk::new().send(&*store, ends).outcomes().iter().all(|end| reservation(end).is_some()));
    }
    let through = newest(&*store);
    shop.set_clock(days(100));
    (store, through)
}

/// Its connection is cut in each of the transactions in which events of a file leave, as by a crash. Its lease has to end each time.
pub(crate) fn an_archive_that_is_cut_between_the_events_of_a_file_goes_on<S: Shop>(shop: &mut S) {
    let (store, through) = one_large_file(shop, 88);
    drop(store);
    let mut files = MemoryArchive::default();
    let mut seen = BTreeSet::new();
    for round in 1..10 {
        let connection = Mutex::new(shop.cutter());
        let asked = AtomicUsize::new(0);
        // The first time it is asked is before the first transaction. Of the transactions, the first is cut once, and then the second.
        let cut_at = if round == 1 { 2 } else { 3 };
        let consumers = |_: &[Record]| {
            if asked.fetch_add(1, Ordering::SeqCst) + 1 == cut_at {
                let mut cut = connection.lock().unwrap();
                (*cut)();
            }
            Vec::new()
        };
        let request = ArchiveRequest { consumers: &consumers, ..older_than(MONTHS) };
        let outcome = archive(shop, &request, &mut files);
        let left = super::adds_up(shop).archived;
        let whole =
            stockhold_sql::verify_with_archive(&shop.url(), &shop.options(), &mut files, |_| ()).unwrap();
        assert_eq!((whole.findings, whole.events), (Vec::new(), through), "round {round}, {left} left");
        seen.insert(left);
        match outcome {
            Ok(done) => {
                assert_eq!((done.dropped_through, left), (through, through));
                break;
            }
            Err(error) => assert!(matches!(error, ArchiveError::Store(_)), "{error:?}"),
        }
        // Its lease ends, and nobody has to wait for that here.
        shop.set_clock(Instant::from_micros(days(100).micros() + round * 20_000_000));
    }
    assert!(seen.len() > 2 && seen.contains(&0) && seen.contains(&through), "{seen:?}");
    assert_eq!(files.files.len(), 1);
    assert_eq!(files.events().len() as u64, through);
}

/// The file of which a part has left has to be there.
pub(crate) fn a_file_of_which_a_part_has_left_is_needed<S: Shop>(shop: &mut S) {
    let (_store, through) = one_large_file(shop, 89);
    let mut files = MemoryArchive::default();
    let asked = AtomicUsize::new(0);
    let consumers = |_: &[Record]| {
        // A consumer goes back once a part has left.
        let is_back = asked.fetch_add(1, Ordering::SeqCst) > 1;
        vec![("slow".to_owned(), if is_back { 100 } else { u64::MAX })]
    };
    let request = ArchiveRequest { consumers: &consumers, ..older_than(MONTHS) };
    let done = archive(shop, &request, &mut files).unwrap();
    assert!(done.dropped_through > 0 && done.dropped_through < through, "{done:?}");
    assert!(done.through == through && done.dropped == done.dropped_through, "{done:?}");
    assert_eq!(done.held_back, Some(("slow".to_owned(), 100)));
    adds_up(shop);
    let everything = older_than(MONTHS);
    for wrong in [
        MemoryArchive::default(),
        {
            let mut other = files.clone();
            other.set_hash(0, [3; 32]);
            other
        },
        {
            let mut changed = files.clone();
            let last = usize::try_from(through).unwrap() - 1;
            changed.change(last, |event| event.at = Instant::from_micros(1));
            changed
        },
    ] {
        let error = archive(shop, &everything, &mut wrong.clone()).unwrap_err();
        let is_refused = matches!(&error, ArchiveError::Refused(_) | ArchiveError::Archive(_));
        assert!(is_refused && super::verdict(shop).archived == done.dropped_through, "{error:?}");
    }
    let rest = archive(shop, &everything, &mut files).unwrap();
    assert_eq!((rest.after, rest.dropped_through, rest.dropped), (through, through, through - done.dropped));
    assert_eq!(done.reservations + rest.reservations, 20 * 250);
    let whole = stockhold_sql::verify_with_archive(&shop.url(), &shop.options(), &mut files, |_| ()).unwrap();
    assert_eq!((whole.findings, whole.events), (Vec::new(), through));
}

/// Of two archives, the second is refused while the first one is at work, and the first one removes nothing once the other has begun.
pub(crate) fn one_archive_is_at_work_at_a_time<S: Shop>(shop: &mut S) {
    let (store, through) = one_large_file(shop, 90);
    drop(store);
    let (mut files, mut others) = (MemoryArchive::default(), MemoryArchive::default());
    let (begun, at_work) = mpsc::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let asked = AtomicUsize::new(0);
    let (begun, wait) = (Mutex::new(begun), Mutex::new(wait));
    let consumers = |_: &[Record]| {
        if asked.fetch_add(1, Ordering::SeqCst) == 0 {
            begun.lock().unwrap().send(()).unwrap();
            wait.lock().unwrap().recv().unwrap();
        }
        Vec::new()
    };
    let first = ArchiveRequest { consumers: &consumers, ..older_than(MONTHS) };
    let (url, options) = (shop.url(), shop.options());
    let lost = std::thread::scope(|scope| {
        let first = scope.spawn(|| stockhold_sql::archive(&url, &options, &first, &mut files, |_| ()));
        at_work.recv().unwrap();
        let cancelled = ArchiveRequest { is_cancelled: &|| true, ..older_than(MONTHS) };
        let stopped = archive(shop, &cancelled, &mut others).unwrap_err();
        assert!(
            matches!(&stopped, ArchiveError::Interrupted(why) if why.contains("stopping")),
            "{stopped:?}"
        );
        let second = archive(shop, &older_than(MONTHS), &mut others).unwrap_err();
        assert!(
            matches!(&second, ArchiveError::Interrupted(why) if why.contains("another archive")),
            "{second:?}"
        );
        // The first one is away for longer than its lease.
        shop.set_clock(Instant::from_micros(days(100).micros() + 11_000_000));
        let taken_over = archive(shop, &older_than(MONTHS), &mut others).unwrap();
        assert_eq!(taken_over.dropped_through, through);
        go_on.send(()).unwrap();
        first.join().unwrap()
    });
    assert!(lost.is_err(), "{lost:?}");
    let report = adds_up(shop);
    assert_eq!((report.archived, report.events), (through, 0));
    let whole = stockhold_sql::verify_with_archive(&url, &options, &mut others, |_| ()).unwrap();
    assert_eq!((whole.findings, whole.events), (Vec::new(), through));
}

/// What only the archive can tell: the database adds up by itself, and is not what the events led to.
pub(crate) fn what_left_the_database_wrongly_is_found_with_the_archive<S: Shop>(shop: &mut S) {
    let store = shop.store();
    let mut maker = Maker::new(91, "wrongly-");
    every_command(&*store, &mut maker, "");
    drop(store);
    shop.set_clock(days(100));
    let mut files = MemoryArchive::default();
    dropped(shop, &mut files);
    let mut found = |shop: &S| {
        let report = stockhold_sql::verify_with_archive(&shop.url(), &shop.options(), &mut files, |_| ());
        report.unwrap().findings
    };
    assert_eq!(found(shop), Vec::<String>::new());
    for (drift, says) in [
        ("UPDATE {t}archived_items SET sold = sold + 1 WHERE sold > 0", "says sold"),
        ("DELETE FROM {t}archived_pauses", "the pauses are not what the archived events lead to"),
        ("DELETE FROM {t}archived_items", "the balance of"),
        ("DELETE FROM {t}records WHERE kind = 'signing_key'", "is not there"),
        ("DELETE FROM {t}limits", "is not there"),
        (
            "DELETE FROM {t}active_lines; DELETE FROM {t}holds WHERE status = 0",
            "had not ended by its archived events",
        ),
    ] {
        shop.sql(drift);
        let found = found(shop);
        assert!(found.iter().any(|what| what.contains(says)), "{drift}: {found:?}");
    }
}

fn told(outcome: &Result<Outcome, Failure>) -> bool {
    match outcome {
        Ok(Outcome::Done(_)) => true,
        Ok(Outcome::Refused(Rejection::UnknownReservation(_))) => false,
        other => panic!("{other:?}"),
    }
}
