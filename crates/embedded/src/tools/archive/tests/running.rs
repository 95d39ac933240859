//! Archives of stores that are running: between commands, with crashes between the steps, and while others use the store.

use super::{
    AGE, ArchiveRequest, ArchiveSummary, History, MemoryArchive, Recorder, Step, check_image, findings, image,
};
use crate::bench::{open, submit_all};
use crate::log::Log;
use crate::tools::archive::ArchiveError;
use crate::tools::backup::backup_by;
use crate::{EmbeddedStore, verify, verify_with_archive};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use stockhold_conformance::maker::{confirm, release, reserve, return_all, set_stock};
use stockhold_conformance::{Maker, START, World};
use stockhold_domain::{Envelope, Instant, Outcome, Record, Rejection, Reply, ReservationId};
use stockhold_store::clock::{Clock, ManualClock};
use stockhold_store::{Answer, Query, QueryResult, Request, ReservationFilter, Store, archived_form};

fn archive(
    store: &EmbeddedStore,
    request: &ArchiveRequest<'_>,
    archive: &mut MemoryArchive,
) -> ArchiveSummary {
    let request = ArchiveRequest { file_events: 25, ..request.clone() };
    store.archive_by(&request, archive, &mut |_| ()).unwrap()
}

/// Waits until the rows of the log are deleted that have left.
fn wait_for_trim(dir: &Path) {
    let log = Log::open_reader(&dir.join(crate::files::LOG)).unwrap();
    while log.first_row().unwrap().is_some_and(|first| first <= log.start().head.number) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the indexer has deleted what has left.
fn settle(store: &EmbeddedStore) {
    while store.is_archiving() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_leaves_a_running_store_and_what_stays_add_up() {
    for (seed, of_units) in [(1, false), (2, false), (3, true), (4, true)] {
        let mut history = History::new(seed, of_units);
        history.bench.start().unwrap();
        let mut memory = MemoryArchive::default();
        let (dir, count) = (history.bench.dir(), history.events.len());
        let mut reservations = 0;
        for cut in [count / 4, count / 2, count, count + 1] {
            let case = format!("seed {seed}, cut {cut}");
            let done = archive(history.bench.store(), &history.request(cut), &mut memory);
            assert!(done.is_complete && done.through == done.dropped_through, "{case}: {done:?}");
            reservations += done.reservations;
            let through = done.dropped_through;
            assert_eq!(findings(&dir), Vec::<String>::new(), "{case}, at once");
            settle(history.bench.store());
            assert_eq!(findings(&dir), Vec::<String>::new(), "{case}");
            let whole = verify_with_archive(&dir, &mut memory, |_, _| ()).unwrap();
            assert_eq!((whole.findings, whole.archived, whole.events), (Vec::new(), through, count as u64));
            let mut page = |after| history.bench.find(Query::Events { after, limit: count + 1 }).unwrap();
            let QueryResult::Events(rows) = page(through) else { panic!("{case}: no events") };
            let rest = rows.into_iter().map(|row| row.event);
            let all: Vec<_> =
                memory.events().into_iter().chain(rest).map(|row| archived_form(&row)).collect();
            assert!(all.into_iter().eq(history.events.iter().map(archived_form)), "{case}");
            if through > 0 {
                assert!(
                    matches!(page(through - 1), QueryResult::Archived { through: told } if told == through)
                );
            }
            if cut == count / 2 {
                history.bench.restart();
                assert_eq!(findings(&dir), Vec::<String>::new(), "{case}, after a crash");
            }
        }
        assert_eq!(memory.events().len(), count, "everything is old at last");
        assert!(reservations > 0);
        history.bench.stop();
        assert_eq!(findings(&dir), Vec::<String>::new(), "seed {seed}, after the end");
    }
}

#[test]
fn a_running_archive_that_is_cut_between_any_two_steps_loses_and_duplicates_nothing() {
    for (seed, of_units) in [(5, false), (6, true)] {
        let mut history = History::new(seed, of_units);
        history.bench.start().unwrap();
        let (dir, cut) = (history.bench.dir(), history.events.len() * 3 / 4);
        let mut images = Vec::new();
        let shared = std::rc::Rc::new(std::cell::RefCell::new(MemoryArchive::default()));
        let store = history.bench.store();
        let mut reached = |step| {
            // Before the base is advanced, nothing else is written once the last step is done. Afterwards the step is not.
            if step != Step::EventsLeft {
                settle(store);
            }
            images.push((step, image(&dir), shared.borrow().clone()));
        };
        let mut recorder = Recorder(std::rc::Rc::clone(&shared));
        let request = ArchiveRequest { file_events: 25, ..history.request(cut) };
        store.archive_by(&request, &mut recorder, &mut reached).unwrap();
        let expected = shared.borrow().events();
        assert!(images.len() > 6, "{}", images.len());
        for (n, image) in images.into_iter().enumerate() {
            check_image(&format!("seed {seed}, image {n}"), image, &history, cut, &expected);
        }
    }
}

#[test]
fn a_store_that_crashes_while_it_deletes_what_was_archived_has_lost_nothing() {
    for seed in 10..16 {
        let mut history = History::new(seed, seed % 2 == 0);
        history.bench.start().unwrap();
        let (dir, cut) = (history.bench.dir(), history.events.len() * 3 / 4);
        let mut memory = MemoryArchive::default();
        let done = archive(history.bench.store(), &history.request(cut), &mut memory);
        // The committer and the indexer stop wherever they are.
        history.bench.crash();
        let image = (Step::Ended, image(&dir), memory.clone());
        check_image(&format!("seed {seed}"), image, &history, cut, &memory.events());
        history.bench.start().unwrap();
        assert_eq!(done.dropped_through, memory.events().len() as u64);
        let found = history.bench.find(Query::Events { after: 0, limit: 1 }).unwrap();
        assert!(matches!(found, QueryResult::Archived { through } if through == done.dropped_through));
    }
}

#[test]
fn what_a_consumer_has_not_read_stays_and_so_does_what_it_goes_back_to() {
    let mut history = History::new(7, false);
    history.bench.start().unwrap();
    let half = ArchiveRequest { file_events: 10, ..history.request(history.events.len() / 2) };
    let mut memory = MemoryArchive::default();
    let slow = |_: &[Record]| vec![("slow".to_owned(), 15), ("fast".to_owned(), 1_000)];
    let store = history.bench.store();
    let done = store
        .archive_by(&ArchiveRequest { consumers: &slow, ..half.clone() }, &mut memory, &mut |_| ())
        .unwrap();
    assert!(done.dropped_through <= 15 && done.is_complete, "{done:?}");
    assert_eq!(done.held_back, Some(("slow".to_owned(), 15)));
    let through = done.dropped_through;

    // It goes back once the file is written: the base is not advanced, and the events can be read.
    let asked = AtomicU64::new(0);
    let goes_back = |_: &[Record]| {
        asked.fetch_add(1, Ordering::SeqCst);
        vec![("slow".to_owned(), if asked.load(Ordering::SeqCst) == 1 { 1_000 } else { 15 })]
    };
    let request = ArchiveRequest { consumers: &goes_back, ..half.clone() };
    let done = store.archive_by(&request, &mut memory, &mut |_| ()).unwrap();
    assert_eq!((done.dropped_through, done.dropped), (through, 0), "{done:?}");
    assert!(asked.load(Ordering::SeqCst) > 1 && !store.is_archiving());
    let events =
        submit_all(store, vec![Request::Query(Query::Events { after: through, limit: 3 })]).remove(0);
    assert!(
        matches!(&events, Ok(Answer::QueryResult(QueryResult::Events(rows))) if rows.len() == 3),
        "{events:?}"
    );
    let done = store.archive_by(&half, &mut memory, &mut |_| ()).unwrap();
    assert_eq!((done.dropped_through, done.held_back), (memory.events().len() as u64, None));

    let few = ArchiveRequest { files: 1, file_events: 5, ..history.request(history.events.len()) };
    let done = store.archive_by(&few, &mut memory, &mut |_| ()).unwrap();
    // A file ends with a batch.
    assert!(!done.is_complete && (5..10).contains(&(done.through - done.after)), "{done:?}");
    let ended = ArchiveRequest { is_cancelled: &|| true, ..few.clone() };
    let done = store.archive_by(&ended, &mut memory, &mut |_| ()).unwrap();
    assert!(!done.is_complete && done.through == done.after && done.dropped == 0, "{done:?}");
    let younger = ArchiveRequest { older_than: Duration::from_hours(23), ..few };
    let refused = store.archive_by(&younger, &mut memory, &mut |_| ());
    assert!(matches!(refused, Err(ArchiveError::InvalidRequest(_))));
    history.bench.stop();
    assert_eq!(findings(&history.bench.dir()), Vec::<String>::new());
}

#[test]
fn a_backup_that_an_archive_overtakes_is_refused_and_a_new_one_is_whole() {
    let mut history = History::new(8, false);
    history.bench.start().unwrap();
    let (dir, store) = (history.bench.dir(), history.bench.store());
    let mut memory = MemoryArchive::default();
    let request = history.request(history.events.len() / 2);
    let copy = tempfile::tempdir().unwrap();
    let overtaken = backup_by(1, &dir, copy.path(), |copied, _| {
        if copied == 1 {
            archive(store, &request, &mut memory);
            settle(store);
            wait_for_trim(&dir);
        }
    });
    let refused = overtaken.unwrap_err().to_string();
    assert!(refused.contains("were archived since: name another directory"), "{refused}");
    let copy = tempfile::tempdir().unwrap();
    backup_by(1, &dir, copy.path(), |_, _| ()).unwrap();
    let copied = verify(copy.path(), |_, _| ()).unwrap();
    assert_eq!((copied.findings, copied.archived), (Vec::new(), memory.events().len() as u64));
}

#[test]
fn freed_pages_are_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let shop = Shop { store: open(dir.path(), &clock).unwrap(), clock, stop: AtomicBool::new(false) };
    let (mut memory, mut maker) = (MemoryArchive::default(), Maker::new(1, ""));
    let shirt = maker.item("shirt");
    shop.outcome(maker.wrap(set_stock(&shirt, 1_000_000)));
    let mut pages = Vec::new();
    for _ in 0..10 {
        for _ in 0..150 {
            let Outcome::Done(Reply::Reservation(hold)) = shop.outcome(maker.wrap(reserve(&[(&shirt, 1)])))
            else {
                panic!("no hold")
            };
            shop.outcome(maker.wrap(confirm(hold.id)));
        }
        shop.pass(AGE / 2);
        shop.store.archive_by(&shop.old(), &mut memory, &mut |_| ()).unwrap();
        settle(&shop.store);
        wait_for_trim(dir.path());
        pages.push([crate::files::LOG, crate::files::INDEX].map(|name| {
            let file = rusqlite::Connection::open(dir.path().join(name)).unwrap();
            file.query_row("PRAGMA page_count", [], |row| row.get::<_, u64>(0)).unwrap()
        }));
    }
    // Each round has as many events as the one before, and two rounds are younger than what leaves.
    let most = |rounds: &[[u64; 2]]| [0, 1].map(|file| rounds.iter().map(|pages| pages[file]).max().unwrap());
    let (early, late) = (most(&pages[3..6]), most(&pages[6..]));
    assert!(late[0] <= early[0] + early[0] / 10 && late[1] <= early[1] + early[1] / 10, "{pages:?}");
    assert!(memory.events().len() > 2_000);
}

/// A store that several threads use.
struct Shop {
    store: EmbeddedStore,
    clock: Arc<ManualClock>,
    stop: AtomicBool,
}

impl Shop {
    fn outcome(&self, envelope: Envelope) -> Outcome {
        match submit_all(&self.store, vec![Request::Command(Box::new(envelope))]).remove(0) {
            Ok(Answer::Outcome(outcome)) => outcome,
            other => panic!("{other:?}"),
        }
    }

    fn find(&self, query: Query) -> QueryResult {
        match submit_all(&self.store, vec![Request::Query(query)]).remove(0) {
            Ok(Answer::QueryResult(found)) => found,
            other => panic!("{other:?}"),
        }
    }

    /// A request for what is old now.
    fn old(&self) -> ArchiveRequest<'static> {
        ArchiveRequest {
            older_than: AGE,
            key_retention: Duration::from_hours(24),
            now: self.clock.now(),
            drop: true,
            consumers: &|_| Vec::new(),
            file_events: 10_000,
            new_directory: true,
            files: usize::MAX,
            is_cancelled: &|| false,
        }
    }

    fn pass(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        self.clock.set(Instant::from_micros(self.clock.now().micros() + micros));
    }

    /// Sells units until `stop` is set, and returns some of them later. Returns how many late returns were made, and how many sales
    /// were unknown by then.
    fn sell(&self, seed: u64) -> [usize; 2] {
        let mut maker = Maker::new(seed, &format!("{seed}-"));
        let shirt = maker.item("shirt");
        self.outcome(maker.wrap(set_stock(&shirt, 1_000_000)));
        let (mut sold, mut late) = (Vec::new(), [0, 0]);
        for round in 0.. {
            if self.stop.load(Ordering::Acquire) {
                break;
            }
            let reserved = maker.keyed(&format!("key-{seed}-{}", round % 50), reserve(&[(&shirt, 1)]));
            let id: ReservationId = match self.outcome(reserved) {
                Outcome::Done(Reply::Reservation(hold)) | Outcome::Replayed(Reply::Reservation(hold)) => {
                    hold.id
                }
                Outcome::Refused(Rejection::UnknownReservation(id)) => id,
                Outcome::Refused(_) => continue,
                other => panic!("{other:?}"),
            };
            match round % 5 {
                0 => drop(self.outcome(maker.wrap(release(id)))),
                1 => {}
                _ => {
                    self.outcome(maker.wrap(confirm(id)));
                    sold.push(id);
                }
            }
            // An old sale is returned. It may leave at the same time.
            if round % 3 == 0 && !sold.is_empty() {
                let old = sold.remove(sold.len() * (round % 9) / 9);
                match self.outcome(maker.wrap(return_all(old))) {
                    Outcome::Done(_) => late[0] += 1,
                    Outcome::Refused(Rejection::UnknownReservation(_)) => late[1] += 1,
                    Outcome::Refused(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        late
    }

    /// Reads lists, histories and events until `stop` is set. A hold that a list has is known, unless it has left since.
    fn read(&self) -> usize {
        let (mut read, mut position) = (0, 0);
        while !self.stop.load(Ordering::Acquire) {
            match self.find(Query::Events { after: position, limit: 50 }) {
                QueryResult::Events(rows) => {
                    for row in &rows {
                        assert_eq!(row.position, position + 1, "no position is left out");
                        position = row.position;
                    }
                    if rows.is_empty() {
                        position = 0;
                    }
                }
                QueryResult::Archived { through } => {
                    assert!(through > position);
                    position = through;
                }
                other => panic!("{other:?}"),
            }
            let (mut after, mut pages) = (None, 0);
            loop {
                let filter = ReservationFilter { after, limit: 40, ..ReservationFilter::default() };
                let QueryResult::Reservations(page) = self.find(Query::Reservations(filter)) else {
                    panic!("no page")
                };
                for hold in page.holds.iter().step_by(13) {
                    let QueryResult::History(_) = self.find(Query::History(hold.id)) else {
                        panic!("no history")
                    };
                }
                (after, pages, read) = (page.next, pages + 1, read + page.holds.len());
                if after.is_none() || pages > 20 {
                    break;
                }
            }
        }
        read
    }
}

fn check(dir: &Path, memory: &mut MemoryArchive, through: u64) {
    let report = verify(dir, |_, _| ()).unwrap();
    assert_eq!((report.findings, report.archived), (Vec::new(), through));
    assert_eq!(verify_with_archive(dir, memory, |_, _| ()).unwrap().findings, Vec::<String>::new());
}

#[test]
fn an_archive_under_load_leaves_a_store_that_adds_up() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let shop = Shop { store: open(dir.path(), &clock).unwrap(), clock, stop: AtomicBool::new(false) };
    let mut memory = MemoryArchive::default();
    let (mut dropped, mut gone, mut late) = (0, 0, [0, 0]);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| shop.read());
        let sellers: Vec<_> = (1..=2)
            .map(|seed| {
                scope.spawn({
                    let shop = &shop;
                    move || shop.sell(seed)
                })
            })
            .collect();
        for _ in 0..8 {
            shop.pass(Duration::from_hours(9));
            std::thread::sleep(Duration::from_millis(100));
            let request = ArchiveRequest { file_events: 60, ..shop.old() };
            let done = shop.store.archive_by(&request, &mut memory, &mut |_| ()).unwrap();
            (dropped, gone) = (dropped + done.dropped, gone + done.reservations);
        }
        shop.stop.store(true, Ordering::Release);
        for seller in sellers {
            let [returned, unknown] = seller.join().unwrap();
            late = [late[0] + returned, late[1] + unknown];
        }
        assert!(reader.join().unwrap() > 0);
    });
    assert!(dropped > 0 && gone > 0, "{dropped} events and {gone} reservations left");
    assert!(late[0] > 0 && late[1] > 0, "{late:?}");
    assert_eq!(shop.store.fatal_error(), None);
    let through = memory.events().len() as u64;
    check(dir.path(), &mut memory, through);
    shop.store.abandon();
    check(dir.path(), &mut memory, through);
    drop(open(dir.path(), &shop.clock).unwrap());
    check(dir.path(), &mut memory, through);
}
