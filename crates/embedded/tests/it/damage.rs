//! A byte flipped anywhere: a clear refusal, or right answers. Never a wrong figure, and never a panic.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use stockhold_conformance::bench::{Bench, open, submit_all};
use stockhold_conformance::maker::{confirm, pause, release, reserve, set_stock};
use stockhold_conformance::{Maker, START, World};
use stockhold_domain::{Hold, Item, Outcome, Reply, ReservationId};
use stockhold_embedded::{EmbeddedStore, OpenError, files, verify};
use stockhold_store::clock::ManualClock;
use stockhold_store::{Answer, Failure, Query, QueryResult, Request};

/// Flips in each file; each opens a copy of the directory.
const FLIPS: usize = 60;

/// A store with something of everything, and what is true of it.
fn shop() -> (Bench, Vec<Item>, Vec<Hold>) {
    let mut bench = Bench::new();
    let mut maker = Maker::new(9, "");
    let skus: Vec<_> = (0..6).map(|n| maker.item(&format!("sku-{n}"))).collect();
    for sku in &skus {
        bench.run(maker.wrap(set_stock(sku, 1_000))).unwrap();
    }
    let mut ids = Vec::new();
    for n in 0..120_usize {
        let sku = &skus[n % skus.len()];
        let made = bench.run(maker.keyed(&n.to_string(), reserve(&[(sku, 2), (&skus[0], 1)]))).unwrap();
        let Outcome::Done(Reply::Reservation(hold)) = made else { panic!("{made:?}") };
        ids.push(hold.id);
        match n % 3 {
            0 => bench.run(maker.wrap(confirm(hold.id))).unwrap(),
            1 => bench.run(maker.wrap(release(hold.id))).unwrap(),
            _ => continue,
        };
    }
    bench.run(maker.wrap(pause(&stockhold_domain::Scope::Item(skus[1].clone())))).unwrap();
    let items = skus.iter().map(|sku| bench.item(sku).unwrap()).collect();
    let holds = ids.iter().map(|id| bench.hold(*id).unwrap()).collect();
    (bench, items, holds)
}

#[test]
fn after_a_stop() {
    let (mut bench, items, holds) = shop();
    bench.stop();
    flip_everything(&bench.dir(), &items, &holds);
}

#[test]
fn after_a_crash() {
    let (mut bench, items, holds) = shop();
    bench.crash();
    flip_everything(&bench.dir(), &items, &holds);
}

#[test]
fn after_a_crash_with_an_index() {
    let (mut bench, items, holds) = shop();
    bench.stop();
    bench.start().unwrap();
    let items = items.iter().map(|item| bench.item(&item.key).unwrap()).collect::<Vec<_>>();
    bench.crash();
    flip_everything(&bench.dir(), &items, &holds);
}

/// Its transactions are not synced one by one: a power cut may keep a later one and not an earlier one.
#[test]
fn a_hole_in_the_index_s_write_ahead_log_is_no_damage() {
    let (mut bench, items, holds) = shop();
    bench.stop();
    let file = bench.dir().join(files::INDEX);
    let wal = bench.dir().join(format!("{}-wal", files::INDEX));
    let db = rusqlite::Connection::open(&file).unwrap();
    db.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    for _ in 0..5 {
        db.execute_batch("BEGIN; UPDATE state SET sum = sum + 1; UPDATE state SET sum = sum - 1; COMMIT")
            .unwrap();
    }
    let (whole, mut torn) = (fs::read(&file).unwrap(), fs::read(&wal).unwrap());
    drop(db);
    fs::write(&file, whole).unwrap();
    let frame = (torn.len() - 32) / 5;
    torn[32 + frame..][..frame].fill(0);
    fs::write(&wal, torn).unwrap();
    bench.start().unwrap();
    assert_eq!(judge(bench.store(), &items, &holds), Served::Right);
    assert_eq!(verify(&bench.dir(), |_, _| ()).unwrap().findings, Vec::<String>::new());
}

#[test]
fn verify_does_not_judge_the_log_of_another_version() {
    let (mut bench, ..) = shop();
    bench.stop();
    let mark = |format: i64| {
        let db = rusqlite::Connection::open(bench.dir().join(files::LOG)).unwrap();
        let before: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        db.pragma_update(None, "user_version", format).unwrap();
        before
    };
    let ours = mark(99);
    let refused = verify(&bench.dir(), |_, _| ()).unwrap_err();
    assert!(matches!(refused, OpenError::UnknownFormat { found: 99, .. }), "{refused}");
    mark(ours);
    assert_eq!(verify(&bench.dir(), |_, _| ()).unwrap().findings, Vec::<String>::new());
}

/// A write-ahead log that a server begins anew while it is read looks broken and is not.
#[test]
fn verify_looks_through_the_write_ahead_log_only_when_no_server_has_it() {
    let (mut bench, ..) = shop();
    bench.crash();
    // The log is about to end earlier than an index that was quick has seen.
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(bench.dir().join(format!("{}{end}", files::INDEX)));
    }
    let wal = bench.dir().join(format!("{}-wal", files::LOG));
    let mut bytes = fs::read(&wal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&wal, bytes).unwrap();
    let lock = fs::File::open(bench.dir().join(files::LOCK)).unwrap();
    lock.lock().unwrap();
    // It would be refused; what is left to be found is that the log lacks its end.
    let verdict = verify(&bench.dir(), |_, _| ()).unwrap();
    assert!(
        matches!(verdict.findings.as_slice(), [one] if one.contains("was synced")),
        "{:?}",
        verdict.findings
    );
    lock.unlock().unwrap();
    let refused = verify(&bench.dir(), |_, _| ()).unwrap_err();
    assert!(refused.to_string().contains("written after it was synced"), "{refused}");
}

fn flip_everything(dir: &Path, items: &[Item], holds: &[Hold]) {
    assert_eq!(serve_copy(dir, "", 0, items, holds), Served::Right, "nothing was flipped");
    let mut refused = 0;
    for file in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
        let name = file.file_name().into_string().unwrap();
        // Shared memory is made anew by the first who opens.
        if name.ends_with("-shm") {
            continue;
        }
        // The first bytes, and others all over the file where there is something: most of a page may be empty.
        let bytes = fs::read(file.path()).unwrap();
        let set: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        let first = (0..FLIPS / 2).map(|n| n * 3).filter(|at| *at < bytes.len());
        let all_over = (0..FLIPS / 2).filter_map(|n| set.get(n * set.len() / (FLIPS / 2)));
        for offset in first.chain(all_over.copied()) {
            match serve_copy(dir, &name, offset, items, holds) {
                Served::Right => {}
                Served::Refused => refused += 1,
                Served::Wrong(what) => panic!("{name}, byte {offset}: {what}"),
            }
        }
    }
    assert!(refused > FLIPS / 2, "only {refused} flips were noticed");
}

#[derive(Debug, PartialEq)]
enum Served {
    Right,
    Refused,
    Wrong(String),
}

fn serve_copy(dir: &Path, file: &str, offset: usize, items: &[Item], holds: &[Hold]) -> Served {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        if !name.ends_with("-shm") {
            fs::copy(entry.path(), copy.path().join(name)).unwrap();
        }
    }
    if !file.is_empty() {
        let path = copy.path().join(file);
        let mut bytes = fs::read(&path).unwrap();
        bytes[offset] ^= 0x40;
        fs::write(&path, bytes).unwrap();
    }
    match open(copy.path(), &Arc::new(ManualClock::new(START))) {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            Served::Refused
        }
        Ok(store) => judge(&store, items, holds),
    }
}

fn judge(store: &EmbeddedStore, items: &[Item], holds: &[Hold]) -> Served {
    for item in items {
        match submit_all(store, vec![Request::Query(Query::Items(vec![item.key.clone()]))]).remove(0) {
            Ok(Answer::QueryResult(QueryResult::Items(found))) if found == [Some(item.clone())] => {}
            Ok(other) => return Served::Wrong(format!("{item:?} is served as {other:?}")),
            Err(_) => return Served::Refused,
        }
    }
    for hold in holds {
        match find(store, hold.id) {
            Ok(Some(found)) if found == *hold => {}
            Ok(other) => return Served::Wrong(format!("{hold:?} is served as {other:?}")),
            Err(_) => return Served::Refused,
        }
    }
    Served::Right
}

fn find(store: &EmbeddedStore, id: ReservationId) -> Result<Option<Hold>, Failure> {
    match submit_all(store, vec![Request::Query(Query::Reservation(id))]).remove(0)? {
        Answer::QueryResult(QueryResult::Reservation(hold)) => Ok(hold),
        other => panic!("{other:?}"),
    }
}
