//! Archives of random histories: whole, in several steps, and cut between any two durable steps.

mod running;

use super::*;
use crate::bench::{Bench, open};
use crate::{verify, verify_with_archive};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use stockhold_conformance::{MemoryArchive, World, hash_of, random_history, units_history};
use stockhold_domain::{Event, Instant, Record};
use stockhold_store::clock::ManualClock;
use stockhold_store::{ArchiveFile, EventRow, Query, QueryResult, Sha256, archived_form};

/// The age of what is archived: more than the retention of keys that the stores of these tests promise.
const AGE: Duration = Duration::from_hours(25);

/// A stopped store with a history, and its events.
struct History {
    bench: Bench,
    events: Vec<Event>,
}

impl History {
    fn new(seed: u64, of_units: bool) -> Self {
        let mut bench = Bench::new();
        let run = if of_units { units_history } else { random_history };
        run(&mut bench, seed, 150).unwrap();
        let events = bench.events().into_iter().map(|row| row.event).collect();
        bench.stop();
        Self { bench, events }
    }

    /// A request for all events that are older than the event at this position.
    fn request(&self, position: usize) -> ArchiveRequest<'static> {
        ArchiveRequest {
            older_than: AGE,
            key_retention: Duration::from_hours(24),
            now: self.events.get(position - 1).map_or(Instant::from_micros(i64::MAX), |event| {
                Instant::from_micros(event.at.micros() + i64::try_from(AGE.as_micros()).unwrap())
            }),
            drop: true,
            consumers: &|_| Vec::new(),
            file_events: 40,
            files: usize::MAX,
            new_directory: true,
            is_cancelled: &|| false,
        }
    }

    fn archive(&self, position: usize, archive: &mut MemoryArchive) -> ArchiveSummary {
        archive_by(&self.bench.dir(), &self.request(position), archive, &mut |_| (), &mut |_| ()).unwrap()
    }
}

fn findings(dir: &Path) -> Vec<String> {
    verify(dir, |_, _| ()).unwrap().findings
}

fn remove_index(dir: &Path) {
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(dir.join(format!("{}{end}", files::INDEX)));
    }
}

/// Whatever leaves, the rest adds up, also with an index that is made again. The archive and the log have every event.
#[test]
fn what_leaves_and_what_stays_add_up() {
    for (seed, of_units) in [(1, false), (2, false), (3, true), (4, true)] {
        let mut history = History::new(seed, of_units);
        let mut archive = MemoryArchive::default();
        let dir = history.bench.dir();
        let count = history.events.len();
        for cut in [count / 4, count / 2, count, count + 1] {
            let done = history.archive(cut, &mut archive);
            let through = done.dropped_through;
            assert_eq!(findings(&dir), Vec::<String>::new(), "seed {seed}, cut {cut}");
            let verdict = verify(&dir, |_, _| ()).unwrap();
            assert_eq!((verdict.archived, verdict.events), (through, count as u64));
            let whole = verify_with_archive(&dir, &mut archive, |_, _| ()).unwrap();
            assert_eq!(
                whole.findings,
                Vec::<String>::new(),
                "seed {seed}, cut {cut}, from the first event on"
            );
            assert_eq!((whole.archived, whole.events), (through, count as u64));
            if cut == count / 2 {
                let copy = tempfile::tempdir().unwrap();
                crate::backup(&dir, copy.path(), |_, _| ()).unwrap();
                let copied = verify(copy.path(), |_, _| ()).unwrap();
                assert_eq!((copied.findings, copied.archived), (Vec::new(), through));
                assert!(
                    crate::export_log(&dir, |_, _, _| true).unwrap_err().to_string().contains("archived")
                );
                remove_index(&dir);
                assert_eq!(findings(&dir), Vec::<String>::new(), "without an index");
            }
            history.bench.start().unwrap();
            let mut page = |after| history.bench.find(Query::Events { after, limit: count + 1 }).unwrap();
            match page(through) {
                QueryResult::Events(rows) => {
                    let rest = rows.into_iter().map(|row| row.event);
                    let all: Vec<_> = archive.events().into_iter().chain(rest).collect();
                    assert_eq!(all.len(), count);
                    let expected = history.events.iter().map(archived_form);
                    assert!(all.iter().map(archived_form).eq(expected), "seed {seed}, cut {cut}");
                }
                other => panic!("{other:?}"),
            }
            if through > 0 {
                assert!(matches!(page(0), QueryResult::Archived { through: told } if told == through));
                assert!(
                    matches!(page(through - 1), QueryResult::Archived { through: told } if told == through)
                );
            }
            history.bench.stop();
            assert_eq!(findings(&dir), Vec::<String>::new(), "seed {seed}, cut {cut}, after a start");
        }
        assert_eq!(archive.events().len(), count, "everything is old at last");
    }
}

/// The files of a directory.
fn image(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.file_name().unwrap().into(), fs::read(&path).unwrap())).collect()
}

#[test]
fn an_archive_that_is_cut_between_any_two_steps_loses_and_duplicates_nothing() {
    for (seed, of_units) in [(5, false), (6, true)] {
        let history = History::new(seed, of_units);
        let (dir, cut) = (history.bench.dir(), history.events.len() * 3 / 4);
        let mut images = Vec::new();
        let shared = std::rc::Rc::new(std::cell::RefCell::new(MemoryArchive::default()));
        let mut archive = Recorder(std::rc::Rc::clone(&shared));
        let request = ArchiveRequest { file_events: 25, ..history.request(cut) };
        archive_by(&dir, &request, &mut archive, &mut |_| (), &mut |step| {
            images.push((step, image(&dir), shared.borrow().clone()));
        })
        .unwrap();
        let expected = shared.borrow().events();
        assert!(images.len() > 12, "{}", images.len());
        for (n, image) in images.into_iter().enumerate() {
            check_image(&format!("seed {seed}, image {n}"), image, &history, cut, &expected);
        }
    }
}

/// Goes on from the files and the archive that a crash has left: with a recount, a start, a start without the index, or an archive.
fn check_image(
    case: &str,
    (step, files, archived): (Step, Vec<(PathBuf, Vec<u8>)>, MemoryArchive),
    history: &History,
    cut: usize,
    expected: &[Event],
) {
    for also in ["verify", "start", "index lost", "archive"] {
        let copy = tempfile::tempdir().unwrap();
        for (name, bytes) in &files {
            fs::write(copy.path().join(name), bytes).unwrap();
        }
        let case = format!("{case} after {step:?}, {also}");
        match also {
            "verify" => assert_eq!(findings(copy.path()), Vec::<String>::new(), "{case}"),
            "archive" => {}
            _ => {
                if also == "index lost" {
                    remove_index(copy.path());
                }
                let clock = Arc::new(ManualClock::new(history.events[history.events.len() - 1].at));
                drop(open(copy.path(), &clock).unwrap());
                assert_eq!(findings(copy.path()), Vec::<String>::new(), "{case}");
            }
        }
        let mut archived = archived.clone();
        let request = ArchiveRequest { file_events: 25, ..history.request(cut) };
        archive_by(copy.path(), &request, &mut archived, &mut |_| (), &mut |_| ()).unwrap();
        assert_eq!(archived.events(), expected, "{case}");
        let verdict = verify(copy.path(), |_, _| ()).unwrap();
        assert_eq!(verdict.findings, Vec::<String>::new(), "{case}");
        assert_eq!(verdict.archived, expected.len() as u64, "{case}");
    }
}

/// An archive that others can look at while it is written.
struct Recorder(std::rc::Rc<std::cell::RefCell<MemoryArchive>>);

impl EventArchive for Recorder {
    fn files(&mut self) -> Result<Vec<(u64, u64)>, String> {
        self.0.borrow_mut().files()
    }

    fn read(
        &mut self,
        file: (u64, u64),
        each: &mut dyn FnMut(EventRow) -> Result<(), String>,
    ) -> Result<ArchiveFile, String> {
        self.0.borrow_mut().read(file, each)
    }

    fn begin(&mut self, first: u64, previous: Option<Sha256>) -> Result<(), String> {
        self.0.borrow_mut().begin(first, previous)
    }

    fn add(&mut self, row: &EventRow) -> Result<(), String> {
        self.0.borrow_mut().add(row)
    }

    fn finish(&mut self) -> Result<ArchiveFile, String> {
        self.0.borrow_mut().finish()
    }
}

#[test]
fn what_was_written_and_not_dropped_leaves_later_and_only_if_it_is_the_same() {
    let history = History::new(7, false);
    let dir = history.bench.dir();
    let mut archive = MemoryArchive::default();
    let half = history.request(history.events.len() / 2);
    let written = ArchiveRequest { drop: false, ..half.clone() };
    let run = |request: &ArchiveRequest<'_>, archive: &mut MemoryArchive| {
        let request = ArchiveRequest { file_events: 10, ..request.clone() };
        archive_by(&dir, &request, archive, &mut |_| (), &mut |_| ())
    };
    let done = run(&written, &mut archive).unwrap();
    assert!(done.through > 20 && done.dropped_through == 0, "{done:?}");
    let before = archive.events();
    assert_eq!(run(&written, &mut archive).unwrap().after, done.through, "it is not written again");
    assert_eq!(archive.events(), before);

    let mut other = archive.clone();
    other.files[0].1[3].event.previous = None;
    other.files[0].1[3].event.at = Instant::from_micros(1);
    let mut foreign = archive.clone();
    foreign.files.last_mut().unwrap().1.last_mut().unwrap().event.at = Instant::from_micros(1);
    let refused = run(&written, &mut foreign).unwrap_err();
    assert!(refused.to_string().contains("is not that of the log"), "it is not continued: {refused}");
    let refused = run(&half, &mut other).unwrap_err();
    assert!(refused.to_string().contains("position 4 of the archive is not that of the log"), "{refused}");

    // A consumer has not read the second file.
    let consumers = |_: &[Record]| vec![("slow".to_owned(), 15), ("fast".to_owned(), 1_000)];
    let done = run(&ArchiveRequest { consumers: &consumers, ..half.clone() }, &mut archive).unwrap();
    assert!(done.dropped_through <= 15, "{done:?}");
    assert_eq!(done.held_back, Some(("slow".to_owned(), 15)));
    let done = run(&half, &mut archive).unwrap();
    assert_eq!((done.dropped_through, done.held_back), (before.len() as u64, None));

    // Another archive goes on where the log starts, and one with other files is refused.
    let mut rest = MemoryArchive::default();
    let done = run(&ArchiveRequest { drop: false, ..history.request(usize::MAX) }, &mut rest).unwrap();
    assert_eq!(
        (done.after, rest.files[0].0.previous),
        (before.len() as u64, Some(hash_of(before.len() as u64)))
    );
    archive.files.pop();
    let refused = run(&history.request(usize::MAX), &mut archive).unwrap_err();
    assert!(refused.to_string().contains("name the directory"), "{refused}");
    let retention = Duration::from_hours(26);
    let younger = ArchiveRequest { key_retention: retention, ..history.request(usize::MAX) };
    assert!(matches!(run(&younger, &mut rest), Err(ArchiveError::InvalidRequest(_))));
    // The store promised 24 hours, whatever retention the command has.
    let (older_than, key_retention) = (Duration::from_hours(23), Duration::ZERO);
    let younger = ArchiveRequest { older_than, key_retention, ..history.request(usize::MAX) };
    assert!(matches!(run(&younger, &mut rest), Err(ArchiveError::InvalidRequest(_))));
}

/// A recount with the archive notices a base that does not follow from it, and an archive that does not belong to the log.
#[test]
fn an_archive_that_does_not_join_the_log_is_found() {
    let history = History::new(8, false);
    let dir = history.bench.dir();
    let mut archive = MemoryArchive::default();
    let request = ArchiveRequest { file_events: 10, ..history.request(history.events.len() / 2) };
    let done = archive_by(&dir, &request, &mut archive, &mut |_| (), &mut |_| ()).unwrap();
    assert!(done.reservations > 0 && archive.files.len() > 1, "{done:?}");
    let found = |archive: &MemoryArchive| {
        verify_with_archive(&dir, &mut archive.clone(), |_, _| ()).unwrap().findings.join("\n")
    };
    assert_eq!(found(&archive), "");
    let mut wrong = archive.clone();
    wrong.files.remove(0);
    assert!(found(&wrong).contains("not with the first event"), "{}", found(&wrong));
    let mut wrong = archive.clone();
    wrong.files.pop();
    assert!(found(&wrong).contains("no file of it ends at position"), "{}", found(&wrong));
    let mut wrong = archive.clone();
    wrong.files[1].0.previous = None;
    assert!(found(&wrong).contains("does not name the file before it"), "{}", found(&wrong));
    let mut wrong = archive.clone();
    let last = wrong.files.len() - 1;
    wrong.files[last].0.sha256 = [0; 32];
    assert!(found(&wrong).contains("is not the one whose events left"), "{}", found(&wrong));

    for table in ["archived_items", "items", "closed"] {
        let copy = tempfile::tempdir().unwrap();
        for (name, bytes) in image(&dir) {
            fs::write(copy.path().join(name), bytes).unwrap();
        }
        let db = rusqlite::Connection::open(copy.path().join(files::BASE)).unwrap();
        if db.execute(&format!("DELETE FROM {table}"), []).unwrap() == 0 {
            continue;
        }
        drop(db);
        let found = verify_with_archive(copy.path(), &mut archive.clone(), |_, _| ());
        assert!(found.is_err() || found.is_ok_and(|found| found.drift > 0), "{table}");
    }
}

#[test]
fn a_base_that_is_missing_or_older_than_the_log_is_refused() {
    let history = History::new(9, false);
    let (dir, count) = (history.bench.dir(), history.events.len());
    let mut archive = MemoryArchive::default();
    history.archive(count / 4, &mut archive);
    let older = fs::read(dir.join(files::BASE)).unwrap();
    history.archive(count / 2, &mut archive);
    for base in [None, Some(older)] {
        let copy = tempfile::tempdir().unwrap();
        for (name, bytes) in image(&dir) {
            fs::write(copy.path().join(name), bytes).unwrap();
        }
        for end in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(copy.path().join(format!("{}{end}", files::BASE)));
        }
        if let Some(base) = base {
            fs::write(copy.path().join(files::BASE), base).unwrap();
        }
        for lost in [false, true] {
            if lost {
                remove_index(copy.path());
            }
            let clock = Arc::new(ManualClock::new(history.events[count - 1].at));
            let error = open(copy.path(), &clock).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("missing or older than the log"), "{error}");
            assert!(verify(copy.path(), |_, _| ()).is_err());
        }
    }
}
