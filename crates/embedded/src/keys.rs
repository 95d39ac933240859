//! Idempotency keys in the index: sorted runs, each written in one go, in key order, with a filter that stands in
//! memory. Keys are random, and inserting them one by one into one tree costs ten times that.

use crate::filter::Filter;
use crate::index::{Damage, check_around, row_sum};
use rusqlite::{Connection, OptionalExtension, Rows, params};
use std::sync::Arc;
use stockhold_domain::{KeyHash, KeyRecord};
use stockhold_store::codec::{self, Reader};

pub(crate) const SCHEMA: &str = "
    CREATE TABLE runs (
        run INTEGER PRIMARY KEY,
        tier INTEGER NOT NULL,
        keys INTEGER NOT NULL,
        newest INTEGER NOT NULL,
        filter BLOB NOT NULL,
        sum INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE keys (
        run INTEGER NOT NULL,
        hash BLOB NOT NULL,
        data BLOB NOT NULL,
        sum INTEGER NOT NULL,
        PRIMARY KEY (run, hash)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE retired (run INTEGER PRIMARY KEY) STRICT;
";

/// Runs of one tier that are merged into one of the next.
const MERGE_RUNS: usize = 8;
/// The last tier: its runs have a few million keys each.
const TOP_TIER: i64 = 2;
/// Keys that are merged and deleted at a time at least.
const TEND_KEYS: usize = 4_096;
/// Keys that are merged for each that came: it is moved once for each tier, and a little more lets a merge that fell
/// behind catch up.
const MERGED_PER_KEY: usize = 3;
/// Keys that are deleted for each that came: it stands in one run of each tier in turn, and a little more.
const DELETED_PER_KEY: usize = 4;

/// One run, without its keys.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) number: i64,
    tier: i64,
    newest: i64,
    pub(crate) filter: Arc<Filter>,
}

/// All runs, oldest first, with their filters.
pub(crate) fn load(db: &Connection) -> Result<Vec<Run>, Damage> {
    let mut statement = db.prepare("SELECT run, tier, newest, filter, sum FROM runs ORDER BY run")?;
    let mut rows = statement.query([])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        let (run, tier, newest, sum): (i64, i64, i64, u32) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(4)?);
        let bytes: Vec<u8> = row.get(3)?;
        let filter = Filter::from_bytes(&bytes);
        let Some(filter) = filter.filter(|_| sum == run_sum(run, newest, &bytes)) else {
            return Err(Damage::What(format!("the filter of key run {run} does not fit its checksum")));
        };
        runs.push(Run { number: run, tier, newest, filter: Arc::new(filter) });
    }
    Ok(runs)
}

/// Writes a run of keys and its filter. `records` are sorted here.
pub(crate) fn write_run(db: &Connection, records: &mut [KeyRecord]) -> rusqlite::Result<Run> {
    records.sort_unstable_by_key(|record| record.hash);
    let run = next_run(db)?;
    let mut insert = db.prepare_cached("INSERT INTO keys (run, hash, data, sum) VALUES (?1, ?2, ?3, ?4)")?;
    let mut data = Vec::new();
    for record in records.iter() {
        let hash = record.hash.0.to_be_bytes();
        data.clear();
        codec::put_key_record(&mut data, record);
        // The record begins with its hash, which the row has as its key.
        let rest = data.get(hash.len()..).unwrap_or_default();
        insert.execute(params![run, hash, rest, row_sum(&hash, rest)])?;
    }
    let newest = records.iter().map(|record| record.at.micros()).max().unwrap_or(i64::MIN);
    let filter = Filter::of(records.iter().map(|record| record.hash));
    insert_run(db, Run { number: run, tier: 0, newest, filter: Arc::new(filter) }, records.len())
}

fn insert_run(db: &Connection, run: Run, keys: usize) -> rusqlite::Result<Run> {
    let bytes = run.filter.to_bytes();
    let sum = run_sum(run.number, run.newest, &bytes);
    db.execute(
        "INSERT INTO runs (run, tier, keys, newest, filter, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![run.number, run.tier, keys.cast_signed(), run.newest, bytes, sum],
    )?;
    Ok(run)
}

fn next_run(db: &Connection) -> rusqlite::Result<i64> {
    // Keys of retired runs may still be there.
    db.query_row(
        "SELECT 1 + max(coalesce((SELECT max(run) FROM runs), 0), coalesce((SELECT max(run) FROM retired), 0))",
        [],
        |row| row.get(0),
    )
}

fn run_sum(run: i64, newest: i64, filter: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&run.to_le_bytes());
    hasher.update(&newest.to_le_bytes());
    hasher.update(filter);
    hasher.finalize()
}

/// Finds a key in whatever run has it, the newest first.
pub(crate) fn find(db: &Connection, hash: KeyHash) -> Result<Option<KeyRecord>, Damage> {
    let mut runs = db.prepare_cached("SELECT run FROM runs ORDER BY run DESC")?;
    let runs = runs.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    let mut statement = db.prepare_cached("SELECT data, sum FROM keys WHERE run = ?1 AND hash = ?2")?;
    let bytes = hash.0.to_be_bytes();
    for run in runs {
        let row: Option<(Vec<u8>, u32)> =
            statement.query_row(params![run, bytes], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        if let Some((rest, sum)) = row {
            return decode(&bytes, &rest, sum).map(Some);
        }
        let around = [
            "SELECT hash, data, sum FROM keys WHERE run = ?1 AND hash < ?2 ORDER BY hash DESC LIMIT 1",
            "SELECT hash, data, sum FROM keys WHERE run = ?1 AND hash > ?2 ORDER BY hash LIMIT 1",
        ];
        check_around(db, &around, &[&run, &bytes])?;
    }
    Ok(None)
}

fn decode(hash: &[u8; 16], rest: &[u8], sum: u32) -> Result<KeyRecord, Damage> {
    if row_sum(hash, rest) != sum {
        return Err(Damage::What("the checksum of a key does not fit".to_owned()));
    }
    let data = [hash, rest].concat();
    let mut reader = Reader::new(&data);
    let record = codec::key_record(&mut reader).map_err(|error| Damage::What(error.to_string()))?;
    Ok(record)
}

/// A merge that is under way. Its run stands among the retired ones until it is whole, so that what a crash leaves of it
/// is deleted.
#[derive(Debug)]
pub(crate) struct Merging {
    into: i64,
    tier: i64,
    newest: i64,
    from: Vec<i64>,
    /// The last key that was moved.
    last: Option<[u8; 16]>,
    filter: Filter,
    keys: usize,
}

/// Goes on with merging a tier that has become crowded. Answers with the merged run when it is whole, and with those that
/// it stands for.
pub(crate) fn merge(
    db: &Connection,
    runs: &[Run],
    merging: &mut Option<Merging>,
    fresh: usize,
) -> rusqlite::Result<Option<(Run, Vec<i64>)>> {
    let mut under_way = match merging.take() {
        Some(merging) => merging,
        None => match begin_merge(db, runs)? {
            Some(merging) => merging,
            None => return Ok(None),
        },
    };
    let most = TEND_KEYS.max(fresh * MERGED_PER_KEY);
    if move_keys(db, &mut under_way, most)? == most {
        *merging = Some(under_way);
        return Ok(None);
    }
    let Merging { into, tier, newest, from, filter, keys, .. } = under_way;
    db.execute("DELETE FROM retired WHERE run = ?1", [into])?;
    take_out(db, &from)?;
    let run = insert_run(db, Run { number: into, tier, newest, filter: Arc::new(filter) }, keys)?;
    Ok(Some((run, from)))
}

fn begin_merge(db: &Connection, runs: &[Run]) -> rusqlite::Result<Option<Merging>> {
    let of_tier = |tier| runs.iter().filter(move |run| run.tier == tier);
    let Some(tier) = (0..TOP_TIER).find(|tier| of_tier(*tier).count() >= MERGE_RUNS) else { return Ok(None) };
    let merged: Vec<&Run> = of_tier(tier).take(MERGE_RUNS).collect();
    let from: Vec<i64> = merged.iter().map(|run| run.number).collect();
    let keys: usize =
        db.query_row(&format!("SELECT sum(keys) FROM runs WHERE run IN ({})", list(&from)), [], |row| {
            row.get(0)
        })?;
    let into = next_run(db)?;
    db.execute("INSERT INTO retired (run) VALUES (?1)", [into])?;
    let newest = merged.iter().map(|run| run.newest).max().unwrap_or(i64::MIN);
    let filter = Filter::for_keys(keys);
    Ok(Some(Merging { into, tier: tier + 1, newest, from, last: None, filter, keys: 0 }))
}

/// Moves the next keys, in order, at most so many. Each run is sorted, so nothing has to be sorted here. A key stands in
/// one run only: while a run has it, it can't be used for anything else. The checksum of a row does not cover its run,
/// so rows move as they are.
fn move_keys(db: &Connection, merging: &mut Merging, most: usize) -> rusqlite::Result<usize> {
    let keys = next_keys(db, merging, most)?;
    let mut insert = db.prepare_cached("INSERT INTO keys (run, hash, data, sum) VALUES (?1, ?2, ?3, ?4)")?;
    for (hash, data, sum) in &keys {
        insert.execute(params![merging.into, hash, data, sum])?;
        merging.filter.insert(KeyHash(u128::from_be_bytes(*hash)));
        merging.last = Some(*hash);
    }
    merging.keys += keys.len();
    Ok(keys.len())
}

fn next_keys(db: &Connection, merging: &Merging, most: usize) -> rusqlite::Result<Vec<KeyRow>> {
    let sql = "SELECT hash, data, sum FROM keys WHERE run = ?1 AND hash > ?2 ORDER BY hash";
    let after = merging.last.map_or_else(Vec::new, |last| last.to_vec());
    let mut statements =
        merging.from.iter().map(|_| db.prepare(sql)).collect::<rusqlite::Result<Vec<_>>>()?;
    let mut cursors = Vec::with_capacity(statements.len());
    for (statement, run) in statements.iter_mut().zip(&merging.from) {
        let mut rows = statement.query(params![run, after])?;
        if let Some(head) = next_key(&mut rows)? {
            cursors.push((head, rows));
        }
    }
    let mut keys = Vec::with_capacity(most);
    while keys.len() < most {
        let first = cursors.iter_mut().enumerate().min_by_key(|(_, ((hash, ..), _))| *hash);
        let Some((at, (head, rows))) = first else { break };
        match next_key(rows)? {
            Some(next) => keys.push(std::mem::replace(head, next)),
            None => keys.push(cursors.swap_remove(at).0),
        }
    }
    Ok(keys)
}

/// Hash, data and checksum.
type KeyRow = ([u8; 16], Vec<u8>, u32);

fn next_key(rows: &mut Rows<'_>) -> rusqlite::Result<Option<KeyRow>> {
    rows.next()?.map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).transpose()
}

/// Takes out the runs whose newest key is older than `before`, and deletes some of the keys of runs that were taken out.
/// Answers with the runs that it took out.
pub(crate) fn retire(
    db: &Connection,
    runs: &[Run],
    merging: Option<&Merging>,
    before: i64,
    fresh: usize,
) -> rusqlite::Result<Vec<i64>> {
    let is_merged = |run: &Run| merging.is_some_and(|merging| merging.from.contains(&run.number));
    let old = runs.iter().filter(|run| run.newest < before && !is_merged(run));
    let old: Vec<i64> = old.map(|run| run.number).collect();
    take_out(db, &old)?;
    let unfinished = merging.map_or(0, |merging| merging.into);
    let mut left = TEND_KEYS.max(fresh * DELETED_PER_KEY);
    while left > 0 {
        let next = "SELECT run FROM retired WHERE run <> ?1 LIMIT 1";
        let retired: Option<i64> =
            db.prepare_cached(next)?.query_row([unfinished], |row| row.get(0)).optional()?;
        let Some(run) = retired else { break };
        let delete =
            "DELETE FROM keys WHERE run = ?1 AND hash IN (SELECT hash FROM keys WHERE run = ?1 LIMIT ?2)";
        let deleted = db.prepare_cached(delete)?.execute(params![run, left.cast_signed()])?;
        if deleted < left {
            db.execute("DELETE FROM retired WHERE run = ?1", [run])?;
        }
        left -= deleted;
    }
    Ok(old)
}

fn take_out(db: &Connection, runs: &[i64]) -> rusqlite::Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    let list = list(runs);
    db.execute(&format!("INSERT INTO retired SELECT run FROM runs WHERE run IN ({list})"), [])?;
    db.execute(&format!("DELETE FROM runs WHERE run IN ({list})"), [])?;
    Ok(())
}

fn list(runs: &[i64]) -> String {
    runs.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::{Fingerprint, Instant, ReservationId, Subject};

    fn record(n: u64, at: i64) -> KeyRecord {
        KeyRecord {
            hash: stockhold_store::digest::key_hash("p", "o", &n.to_string()),
            fingerprint: Fingerprint(n.into()),
            subject: Subject::Reservation(ReservationId::from_u128(n.into())),
            at: Instant::from_micros(at),
        }
    }

    fn has(db: &Connection, runs: &[Run], n: u64) -> bool {
        let wanted = record(n, 0);
        let found = find(db, wanted.hash).unwrap();
        let may_have = runs.iter().any(|run| run.filter.may_have(wanted.hash));
        assert!(found.is_none() || may_have, "a filter ruled out what is there");
        found.is_some_and(|found| found.fingerprint == wanted.fingerprint)
    }

    #[test]
    fn runs_are_merged_and_retired_and_keep_their_keys_until_then() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        let mut runs = load(&db).unwrap();
        for run in 0..MERGE_RUNS as u64 {
            let mut records: Vec<_> = (run * 100..run * 100 + 100).map(|n| record(n, 1_000)).collect();
            runs.push(write_run(&db, &mut records).unwrap());
        }
        let mut late: Vec<_> = (5_000..5_010).map(|n| record(n, 9_000)).collect();
        let mut merging = None;
        let (merged, from) = merge(&db, &runs, &mut merging, 0).unwrap().unwrap();
        assert_eq!(from, runs.iter().map(|run| run.number).collect::<Vec<_>>());
        runs = vec![merged];
        assert_eq!(runs[0].tier, 1);
        assert!(merge(&db, &runs, &mut merging, 0).unwrap().is_none());
        runs.push(write_run(&db, &mut late).unwrap());
        assert!((0..800).chain(5_000..5_010).all(|n| has(&db, &runs, n)));
        assert!((800..1_000).all(|n| !has(&db, &runs, n)));

        let reloaded = load(&db).unwrap();
        assert_eq!(
            reloaded.iter().map(|run| run.number).collect::<Vec<_>>(),
            [runs[0].number, runs[1].number]
        );

        let old = retire(&db, &runs, None, 2_000, 0).unwrap();
        assert_eq!(old, [runs.remove(0).number]);
        assert!((0..800).all(|n| !has(&db, &runs, n)));
        assert!((5_000..5_010).all(|n| has(&db, &runs, n)));
        let left: i64 = db.query_row("SELECT count(*) FROM keys", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 10);
    }

    #[test]
    fn a_merge_goes_on_where_it_was_and_what_is_left_of_one_that_stopped_is_deleted() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        let runs: Vec<Run> = (0..MERGE_RUNS as u64)
            .map(|run| {
                let mut records: Vec<_> = (run * 1_000..run * 1_000 + 1_000).map(|n| record(n, 1)).collect();
                write_run(&db, &mut records).unwrap()
            })
            .collect();
        let rows = || -> usize { db.query_row("SELECT count(*) FROM keys", [], |row| row.get(0)).unwrap() };
        let mut merging = None;
        assert!(merge(&db, &runs, &mut merging, 0).unwrap().is_none());
        assert_eq!(retire(&db, &runs, merging.as_ref(), 5, 0).unwrap(), Vec::<i64>::new());
        assert_eq!(rows(), 8_000 + TEND_KEYS, "what is being merged is not deleted");

        // As after a crash.
        assert_eq!(retire(&db, &runs, None, 0, 0).unwrap(), Vec::<i64>::new());
        assert_eq!(rows(), 8_000);

        merging = None;
        assert!(merge(&db, &runs, &mut merging, 0).unwrap().is_none());
        let (merged, from) = merge(&db, &runs, &mut merging, 0).unwrap().unwrap();
        assert_eq!(from.len(), MERGE_RUNS);
        let kept = [merged];
        assert!((0..8_000).step_by(37).all(|n| has(&db, &kept, n)));
        // Two steps' worth, for as many keys as came.
        retire(&db, &kept, None, 0, 2_000).unwrap();
        assert_eq!(rows(), 8_000, "the runs that were merged are gone");
        assert!((0..8_000).step_by(37).all(|n| has(&db, &kept, n)));
    }

    #[test]
    fn a_key_that_changed_is_damage_and_not_an_absent_key() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        let mut records: Vec<_> = (0..50).map(|n| record(n, 1)).collect();
        write_run(&db, &mut records).unwrap();
        let wanted = records[20].hash;
        let mut changed = wanted.0.to_be_bytes();
        changed[15] ^= 1;
        db.execute("UPDATE keys SET hash = ?1 WHERE hash = ?2", params![changed, wanted.0.to_be_bytes()])
            .unwrap();
        assert!(find(&db, wanted).is_err());
    }
}
