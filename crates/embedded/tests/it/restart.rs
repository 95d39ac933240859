use std::fs::File;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use stockhold_conformance::bench::{Bench, open, sell};
use stockhold_conformance::maker::{confirm, pause, reserve, return_all, set_stock};
use stockhold_conformance::{Maker, START, World};
use stockhold_domain::{Instant, Outcome, Rejection, Reply, Scope, Status};
use stockhold_embedded::{OpenError, files, verify};
use stockhold_store::clock::ManualClock;
use stockhold_store::{Failure, Store};

#[test]
fn a_second_store_on_the_same_directory_is_refused_and_the_first_goes_on() {
    let mut bench = Bench::new();
    let second = open(&bench.dir(), &Arc::new(ManualClock::new(START)));
    let Err(error @ OpenError::InUse(_)) = second else { panic!("it was opened twice") };
    assert!(error.to_string().contains("in use by another stockhold"), "{error}");
    sell(&mut bench, &mut Maker::new(1, ""), 3);
}

#[test]
fn a_start_waits_for_whoever_looks_at_the_directory() {
    let mut bench = Bench::new();
    bench.stop();
    let looks = File::open(bench.dir().join(files::LOCK)).unwrap();
    looks.try_lock_shared().unwrap();
    let looker = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        drop(looks);
    });
    bench.start().unwrap();
    looker.join().unwrap();
}

#[test]
fn a_file_of_another_format_is_refused() {
    for (file, advice) in [(files::LOG, "the version that wrote it"), (files::INDEX, "move index.db")] {
        let mut bench = Bench::new();
        bench.stop();
        let db = rusqlite::Connection::open(bench.dir().join(file)).unwrap();
        for format in [99, 2] {
            db.pragma_update(None, "user_version", format).unwrap();
            let error = bench.start().unwrap_err();
            assert!(matches!(error, OpenError::UnknownFormat { found, .. } if found == format), "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}

#[test]
fn a_foreign_database_is_refused() {
    let mut bench = Bench::new();
    bench.stop();
    let path = bench.dir().join(files::LOG);
    std::fs::remove_file(&path).unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("CREATE TABLE mine (x)", []).unwrap();
    drop(db);
    let error = bench.start().unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[test]
fn an_index_that_is_lost_is_made_anew_from_the_log() {
    let mut bench = Bench::new();
    let mut maker = Maker::new(1, "");
    let sold = sell(&mut bench, &mut maker, 5);
    bench.stop();
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(bench.dir().join(format!("{}{end}", files::INDEX)));
    }
    bench.start().unwrap();
    for id in &sold {
        assert_eq!(bench.hold(*id).unwrap().status, Status::Confirmed);
    }
    bench.stop();
    let verdict = verify(&bench.dir(), |_, _| ()).unwrap();
    assert_eq!((verdict.findings, verdict.reservations), (Vec::new(), [0, 5, 0, 0]));
}

#[test]
fn what_is_closed_and_only_in_the_index_is_found_returned_and_replayed() {
    let mut bench = Bench::new();
    let mut maker = Maker::new(1, "");
    let shirt = maker.item("shirt");
    bench.run(maker.wrap(set_stock(&shirt, 10))).unwrap();
    let first = maker.keyed("once", reserve(&[(&shirt, 2)]));
    let made = bench.run(first.clone()).unwrap();
    let Outcome::Done(Reply::Reservation(hold)) = made else { panic!("{made:?}") };
    bench.run(maker.wrap(confirm(hold.id))).unwrap();

    bench.stop();
    bench.start().unwrap();
    let again = bench.run(maker.again(&first)).unwrap();
    let Outcome::Replayed(Reply::Reservation(replayed)) = again else { panic!("{again:?}") };
    assert_eq!((replayed.id, replayed.status), (hold.id, Status::Confirmed));
    let other = maker.keyed("once", reserve(&[(&shirt, 3)]));
    assert_eq!(bench.run(other).unwrap(), Outcome::Refused(Rejection::IdempotencyMismatch));

    let returned = bench.run(maker.wrap(return_all(hold.id))).unwrap();
    assert!(matches!(returned, Outcome::Done(_)), "{returned:?}");
    bench.restart();
    assert_eq!(bench.hold(hold.id).unwrap().lines[0].returned, 2);
    let again = bench.run(maker.wrap(return_all(hold.id))).unwrap();
    assert!(matches!(again, Outcome::Refused(Rejection::ReturnExceedsSold { .. })), "{again:?}");
    let unknown = maker.no_reservation();
    assert_eq!(
        bench.run(maker.wrap(confirm(unknown))).unwrap(),
        Outcome::Refused(Rejection::UnknownReservation(unknown))
    );
}

#[test]
fn after_a_commit_that_failed_nothing_is_answered_as_done_until_a_restart() {
    let mut bench = Bench::new();
    let mut maker = Maker::new(1, "");
    let sold = sell(&mut bench, &mut maker, 2);
    let other = rusqlite::Connection::open(bench.dir().join(files::LOG)).unwrap();
    other.execute("ALTER TABLE batches RENAME TO hidden", []).unwrap();
    let shirt = maker.item("shirt");
    let lost = maker.keyed("lost", set_stock(&shirt, 7));
    assert_eq!(bench.run(lost.clone()), Err(Failure::OutcomeUnknown));
    assert!(matches!(bench.run(maker.wrap(set_stock(&shirt, 8))), Err(Failure::Unavailable(_))));
    assert!(bench.store().fatal_error().is_some());
    let shown = bench.store().published_item(&shirt).flatten().unwrap();
    assert_eq!(shown.figures.total_units, 2, "what was not committed is not shown");

    bench.crash();
    other.execute("ALTER TABLE hidden RENAME TO batches", []).unwrap();
    drop(other);
    bench.start().unwrap();
    assert_eq!(bench.item(&shirt).unwrap().figures.total_units, 2);
    assert!(sold.iter().all(|id| bench.hold(*id).unwrap().status == Status::Confirmed));
    assert!(matches!(bench.run(maker.again(&lost)), Ok(Outcome::Done(_))));
}

#[test]
fn after_a_start_time_goes_on_from_the_newest_batch_whatever_that_was_about() {
    let (mut bench, mut maker) = (Bench::new(), Maker::new(1, ""));
    let later = Instant::from_micros(START.micros() + 3_600_000_000);
    bench.set_clock(later);
    // Of no item: there is nothing else that would remember the time.
    bench.run(maker.wrap(pause(&Scope::Everything))).unwrap();
    bench.crash();
    bench.set_clock(START);
    bench.start().unwrap();
    let shirt = maker.item("shirt");
    bench.run(maker.wrap(set_stock(&shirt, 1))).unwrap();
    assert_eq!(bench.item(&shirt).unwrap().created_at, later);
}
