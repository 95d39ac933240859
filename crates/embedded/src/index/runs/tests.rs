//! Records are found again after merges, retirements, interruptions and damage.

use super::*;
use crate::index::keys::{self, KeyRuns, write_run};
use crate::index::postings::{self, PostingRuns, TermHasher, UnflushedPostings};
use stockhold_domain::{Fingerprint, Instant, KeyRecord, KeyTarget, ReservationId};

fn record(n: u64, at: i64) -> KeyRecord {
    KeyRecord {
        hash: stockhold_store::digest::key_hash("p", "o", &n.to_string()),
        fingerprint: Fingerprint(n.into()),
        target: KeyTarget::Reservation(ReservationId::from_u128(n.into())),
        at: Instant::from_micros(at),
    }
}

fn find(db: &Connection, hash: KeyHash) -> Result<Option<KeyRecord>, IndexError> {
    keys::find(&db.unchecked_transaction()?, hash)
}

fn has(db: &Connection, runs: &[Run], n: u64) -> bool {
    let wanted = record(n, 0);
    let found = find(db, wanted.hash).unwrap();
    let may_contain = runs.iter().any(|run| run.filter.may_contain(&wanted.hash.into()));
    assert!(found.is_none() || may_contain, "a filter ruled out what is there");
    found.is_some_and(|found| found.fingerprint == wanted.fingerprint)
}

#[test]
fn runs_are_merged_and_retired_and_keep_their_keys_until_then() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(&schema::<KeyRuns>()).unwrap();
    let mut runs = load::<KeyRuns>(&db).unwrap();
    for run in 0..MERGE_RUNS as u64 {
        let mut records: Vec<_> = (run * 100..run * 100 + 100).map(|n| record(n, 1_000)).collect();
        runs.push(write_run(&db, &mut records, WriteThrottle::default()).unwrap());
    }
    let mut late: Vec<_> = (5_000..5_010).map(|n| record(n, 9_000)).collect();
    let mut merging = None;
    let (merged, from) =
        merge::<KeyRuns>(&db, &runs, &mut merging, 0, WriteThrottle::default()).unwrap().unwrap();
    assert_eq!(from, runs.iter().map(|run| run.number).collect::<Vec<_>>());
    runs = vec![merged];
    assert_eq!(runs[0].tier, 1);
    assert!(merge::<KeyRuns>(&db, &runs, &mut merging, 0, WriteThrottle::default()).unwrap().is_none());
    runs.push(write_run(&db, &mut late, WriteThrottle::default()).unwrap());
    assert!((0..800).chain(5_000..5_010).all(|n| has(&db, &runs, n)));
    assert!((800..1_000).all(|n| !has(&db, &runs, n)));

    let reloaded = load::<KeyRuns>(&db).unwrap();
    assert_eq!(reloaded.iter().map(|run| run.number).collect::<Vec<_>>(), [runs[0].number, runs[1].number]);

    let old = retire::<KeyRuns>(&db, &runs, None, 2_000, 0).unwrap();
    assert_eq!((old.runs, old.newest), (vec![runs[0].number], Some(runs[0].newest)));
    runs.remove(0);
    assert!((0..800).all(|n| !has(&db, &runs, n)));
    assert!((5_000..5_010).all(|n| has(&db, &runs, n)));
    let left: i64 = db.query_row("SELECT count(*) FROM key_pages", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 1);
}

#[test]
fn a_merge_goes_on_where_it_was_and_what_is_left_of_one_that_stopped_is_deleted() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(&schema::<KeyRuns>()).unwrap();
    let runs: Vec<Run> = (0..MERGE_RUNS as u64)
        .map(|run| {
            let mut records: Vec<_> = (run * 1_000..run * 1_000 + 1_000).map(|n| record(n, 1)).collect();
            write_run(&db, &mut records, WriteThrottle::default()).unwrap()
        })
        .collect();
    let rows = || -> usize {
        let mut pages = db.prepare("SELECT data FROM key_pages").unwrap();
        let pages = pages.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
        pages.map(|data| records(&data.unwrap()).count()).sum()
    };
    let mut merging = None;
    assert!(merge::<KeyRuns>(&db, &runs, &mut merging, 0, WriteThrottle::default()).unwrap().is_none());
    assert_eq!(retire::<KeyRuns>(&db, &runs, merging.as_ref(), 5, 0).unwrap().runs, Vec::<i64>::new());
    assert!(rows() >= 8_000 + COMPACTION_RECORDS, "what is being merged is not deleted");

    // As after a crash.
    for _ in 0..4 {
        assert_eq!(retire::<KeyRuns>(&db, &runs, None, 0, 0).unwrap().runs, Vec::<i64>::new());
    }
    assert_eq!(rows(), 8_000);

    merging = None;
    assert!(merge::<KeyRuns>(&db, &runs, &mut merging, 0, WriteThrottle::default()).unwrap().is_none());
    let (merged, from) =
        merge::<KeyRuns>(&db, &runs, &mut merging, 0, WriteThrottle::default()).unwrap().unwrap();
    assert_eq!(from.len(), MERGE_RUNS);
    let kept = [merged];
    assert!((0..8_000).step_by(37).all(|n| has(&db, &kept, n)));
    while rows() > 8_000 {
        retire::<KeyRuns>(&db, &kept, None, 0, 2_000).unwrap();
    }
    assert_eq!(rows(), 8_000, "the runs that were merged are gone");
    assert!((0..8_000).step_by(37).all(|n| has(&db, &kept, n)));
}

#[test]
fn runs_of_all_sizes_are_merged() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(&schema::<KeyRuns>()).unwrap();
    let mut first = 0;
    let sizes = [1, 3, 200, 1_000, 5_000, 129, 700, 2];
    let runs: Vec<Run> = sizes
        .map(|size| {
            let mut records: Vec<_> = (first..first + size).map(|n| record(n, 1)).collect();
            first += size;
            write_run(&db, &mut records, WriteThrottle::default()).unwrap()
        })
        .into();
    let mut merging = None;
    let merged = loop {
        if let Some((merged, _)) =
            merge::<KeyRuns>(&db, &runs, &mut merging, 0, WriteThrottle::default()).unwrap()
        {
            break merged;
        }
    };
    let kept = [merged];
    assert!((0..first).all(|n| has(&db, &kept, n)));
    assert!((first..first + 500).all(|n| !has(&db, &kept, n)));
}

/// A merge gives old records the number of the newest run, and a crash may bring back a retired run.
#[test]
fn of_a_key_that_stands_in_several_runs_the_last_use_is_found() {
    for uses in [[1, 4], [4, 1]] {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(&schema::<KeyRuns>()).unwrap();
        for at in uses {
            write_run(&db, &mut [record(7, at)], WriteThrottle::default()).unwrap();
        }
        assert_eq!(find(&db, record(7, 0).hash).unwrap(), Some(record(7, 4)), "{uses:?}");
    }
}

#[test]
fn a_page_that_changed_or_is_gone_is_damage_and_not_an_absent_key() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(&schema::<KeyRuns>()).unwrap();
    let mut records: Vec<_> = (0..50).map(|n| record(n, 1)).collect();
    write_run(&db, &mut records, WriteThrottle::default()).unwrap();
    let (absent, good) = (record(99, 1).hash, page::<KeyRuns>(&db, page_id(1, 0)).unwrap());
    assert!(find(&db, absent).unwrap().is_none());
    for byte in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[byte] ^= 1;
        db.execute("UPDATE key_pages SET data = ?1", [bad]).unwrap();
        assert!(find(&db, absent).is_err());
    }
    db.execute("DELETE FROM key_pages", []).unwrap();
    assert!(find(&db, absent).is_err());
}

#[test]
fn nothing_is_missed_by_who_looks_it_up_while_merges_end_and_runs_are_deleted() {
    const BATCHES: u64 = 1_000;
    let dir = tempfile::tempdir().unwrap();
    let open = || Connection::open(dir.path().join("runs.db")).unwrap();
    let (mut writer, reader) = (open(), open());
    writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;").unwrap();
    writer.execute_batch(&schema::<PostingRuns>()).unwrap();
    let mut fresh = UnflushedPostings::new(TermHasher::new(7), 0);
    let term = fresh.terms.owner("shopper");
    let (mut runs, mut merged_often) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let looking = scope.spawn(move || {
            let mut last = 0;
            while last < BATCHES {
                let mut found = Vec::new();
                postings::find(&reader, term, &mut found).unwrap();
                last = found.iter().map(|(_, last)| *last).max().unwrap_or(0);
                let batches: u64 = found.iter().map(|(first, last)| last - first + 1).sum();
                assert_eq!(batches, last, "each once: {found:?}");
            }
        });
        for number in 1..=BATCHES {
            fresh.put(term, number);
            let write = writer.transaction().unwrap();
            runs.push(
                postings::write_run(&write, &fresh.all(), u64::MAX >> 1, WriteThrottle::default()).unwrap(),
            );
            fresh.written(1);
            let mut merging = None;
            if let Some((run, from)) =
                merge::<PostingRuns>(&write, &runs, &mut merging, 0, WriteThrottle::default()).unwrap()
            {
                runs.retain(|run| !from.contains(&run.number));
                runs.push(run);
                merged_often += 1;
            }
            retire::<PostingRuns>(&write, &runs, None, i64::MIN, 0).unwrap();
            write.commit().unwrap();
            if looking.is_finished() {
                break;
            }
        }
        looking.join().unwrap();
    });
    assert!(merged_often > 100, "{merged_often} merges");
}
