//! Idempotency keys in the index: sorted runs, each written in one go, with a filter that stands in memory. Keys are
//! random, and inserting them one by one into one tree costs ten times that.
//!
//! A run is cut into pages by the first bits of the keys' hashes, which are as good as random: a look-up reads one page,
//! and a page that is not there is damage, never an absent key.

use crate::filter::Filter;
use crate::index::{Damage, Pace, row_sum};
use rusqlite::{Connection, OptionalExtension, params};
use std::sync::Arc;
use stockhold_domain::{KeyHash, KeyRecord};
use stockhold_store::codec::{self, Reader};

pub(crate) const SCHEMA: &str = "
    CREATE TABLE runs (
        run INTEGER PRIMARY KEY,
        tier INTEGER NOT NULL,
        keys INTEGER NOT NULL,
        bits INTEGER NOT NULL,
        newest INTEGER NOT NULL,
        filter BLOB NOT NULL,
        sum INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE key_pages (id INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL) STRICT;
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
/// Keys of a page, more or less: about 10 KB, which a look-up reads and checks.
const PAGE_KEYS: usize = 128;
/// Most bits that choose a page: pages of one run are numbered below this power of two.
const PAGE_BITS: u32 = 24;
/// A page's id is its run's number and, below these many bits, its own.
const ID_BITS: u32 = 32;
const HASH_BYTES: usize = 16;

/// One run, without its keys.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) number: i64,
    tier: i64,
    keys: usize,
    /// Bits of a hash that choose its page.
    bits: u32,
    newest: i64,
    pub(crate) filter: Arc<Filter>,
}

impl Run {
    fn new(number: i64, tier: i64, keys: usize, newest: i64) -> Self {
        let pages = (keys / PAGE_KEYS).next_power_of_two();
        let bits = pages.trailing_zeros().min(PAGE_BITS);
        Self { number, tier, keys, bits, newest, filter: Arc::new(Filter::for_keys(0)) }
    }
}

fn page_id(run: i64, page: u128) -> i64 {
    // Pages are numbered below 2^24.
    (run << ID_BITS) | i64::try_from(page).unwrap_or(i64::MAX)
}

/// The page of a hash where so many bits choose it.
fn page_of(hash: u128, bits: u32) -> u128 {
    hash.checked_shr(u128::BITS - bits).unwrap_or(0)
}

/// All runs, oldest first, with their filters.
pub(crate) fn load(db: &Connection) -> Result<Vec<Run>, Damage> {
    let mut statement =
        db.prepare("SELECT run, tier, keys, bits, newest, filter, sum FROM runs ORDER BY run")?;
    let mut rows = statement.query([])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        let bytes: Vec<u8> = row.get(5)?;
        let filter = Filter::from_bytes(&bytes);
        let (number, sum): (i64, u32) = (row.get(0)?, row.get(6)?);
        let mut run = Run {
            number,
            tier: row.get(1)?,
            keys: row.get(2)?,
            bits: row.get(3)?,
            newest: row.get(4)?,
            filter: Arc::new(Filter::for_keys(0)),
        };
        let Some(filter) = filter.filter(|_| sum == run_sum(&run, &bytes)) else {
            return Err(Damage::What(format!("key run {number} does not fit its checksum")));
        };
        run.filter = Arc::new(filter);
        runs.push(run);
    }
    Ok(runs)
}

/// Writes a run of keys and its filter. `records` are sorted here.
pub(crate) fn write_run(db: &Connection, records: &mut [KeyRecord], mut pace: Pace) -> rusqlite::Result<Run> {
    records.sort_unstable_by_key(|record| record.hash);
    let newest = records.iter().map(|record| record.at.micros()).max().unwrap_or(i64::MIN);
    let mut run = Run::new(next_run(db)?, 0, records.len(), newest);
    run.filter = Arc::new(Filter::of(records.iter().map(|record| record.hash)));
    let mut pages = Pages::from(&run, 0, 1 << run.bits);
    for record in records.iter() {
        pages.put_record(db, record)?;
        pace.row();
    }
    pages.finish(db)?;
    insert_run(db, &run)?;
    Ok(run)
}

fn insert_run(db: &Connection, run: &Run) -> rusqlite::Result<()> {
    let bytes = run.filter.to_bytes();
    db.execute(
        "INSERT INTO runs (run, tier, keys, bits, newest, filter, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            run.number,
            run.tier,
            run.keys.cast_signed(),
            run.bits,
            run.newest,
            bytes,
            run_sum(run, &bytes)
        ],
    )?;
    Ok(())
}

fn next_run(db: &Connection) -> rusqlite::Result<i64> {
    // Keys of retired runs may still be there.
    db.query_row(
        "SELECT 1 + max(coalesce((SELECT max(run) FROM runs), 0), coalesce((SELECT max(run) FROM retired), 0))",
        [],
        |row| row.get(0),
    )
}

fn run_sum(run: &Run, filter: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in [run.number, run.tier, run.keys.cast_signed() as i64, i64::from(run.bits), run.newest] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(filter);
    hasher.finalize()
}

/// Pages being written, in order: all from one number to another, empty ones too.
struct Pages {
    run: i64,
    bits: u32,
    page: u128,
    end: u128,
    data: Vec<u8>,
}

impl Pages {
    fn from(run: &Run, page: u128, end: u128) -> Self {
        Self { run: run.number, bits: run.bits, page, end, data: Vec::new() }
    }

    /// Closes the pages before that of a hash.
    fn turn_to(&mut self, db: &Connection, hash: u128) -> rusqlite::Result<()> {
        while self.page < page_of(hash, self.bits) {
            self.close(db)?;
        }
        Ok(())
    }

    fn put_record(&mut self, db: &Connection, record: &KeyRecord) -> rusqlite::Result<()> {
        self.turn_to(db, record.hash.0)?;
        // A length of two bytes, then the record, which begins with its hash.
        let begins = self.data.len();
        self.data.extend([0; 2]);
        codec::put_key_record(&mut self.data, record);
        let length = u16::try_from(self.data.len() - begins - 2).unwrap_or(u16::MAX).to_le_bytes();
        for (to, from) in self.data.iter_mut().skip(begins).zip(length) {
            *to = from;
        }
        Ok(())
    }

    fn put_framed(&mut self, db: &Connection, hash: u128, framed: &[u8]) -> rusqlite::Result<()> {
        self.turn_to(db, hash)?;
        self.data.extend_from_slice(framed);
        Ok(())
    }

    fn finish(&mut self, db: &Connection) -> rusqlite::Result<()> {
        while self.page < self.end {
            self.close(db)?;
        }
        Ok(())
    }

    fn close(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let id = page_id(self.run, self.page);
        db.prepare_cached("INSERT INTO key_pages (id, data, sum) VALUES (?1, ?2, ?3)")?.execute(params![
            id,
            self.data,
            row_sum(&id.to_le_bytes(), &self.data)
        ])?;
        self.data.clear();
        self.page += 1;
        Ok(())
    }
}

/// A page's bytes, checked.
fn page(db: &Connection, id: i64) -> Result<Vec<u8>, Damage> {
    let row: Option<(Vec<u8>, u32)> = db
        .prepare_cached("SELECT data, sum FROM key_pages WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match row {
        Some((data, sum)) if row_sum(&id.to_le_bytes(), &data) == sum => Ok(data),
        Some(_) => Err(Damage::What("the checksum of a page of keys does not fit".to_owned())),
        None => Err(Damage::What("a page of keys is missing".to_owned())),
    }
}

/// The records of a page: hash, and the whole with its length before it.
fn records(mut data: &[u8]) -> impl Iterator<Item = (u128, &[u8])> {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_first_chunk::<2>()?;
        let (framed, left) = data.split_at_checked(2 + usize::from(u16::from_le_bytes(*length)))?;
        let hash = rest.first_chunk::<HASH_BYTES>()?;
        data = left;
        Some((u128::from_be_bytes(*hash), framed))
    })
}

/// Finds a key in whatever run has it, the newest first.
pub(crate) fn find(db: &Connection, hash: KeyHash) -> Result<Option<KeyRecord>, Damage> {
    let mut runs = db.prepare_cached("SELECT run, bits FROM runs ORDER BY run DESC")?;
    let runs = runs.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (run, bits) in runs.collect::<rusqlite::Result<Vec<(i64, u32)>>>()? {
        let data = page(db, page_id(run, page_of(hash.0, bits)))?;
        if let Some((_, framed)) = records(&data).find(|(found, _)| *found == hash.0) {
            let mut reader = Reader::new(framed.get(2..).unwrap_or_default());
            return Ok(Some(codec::key_record(&mut reader)?));
        }
    }
    Ok(None)
}

/// A merge that is under way. Its run stands among the retired ones until it is whole, so that what a crash leaves of it
/// is deleted.
#[derive(Debug)]
pub(crate) struct Merging {
    into: Run,
    from: Vec<(i64, u32)>,
    /// Bits that cut the runs into shares: the fewest that choose a page in any of them.
    bits: u32,
    /// Shares that were merged.
    done: u128,
    filter: Filter,
}

/// Goes on with merging a tier that has become crowded. Answers with the merged run when it is whole, and with those that
/// it stands for.
pub(crate) fn merge(
    db: &Connection,
    runs: &[Run],
    merging: &mut Option<Merging>,
    fresh: usize,
    mut pace: Pace,
) -> Result<Option<(Run, Vec<i64>)>, Damage> {
    let mut under_way = match merging.take() {
        Some(merging) => merging,
        None => match begin_merge(db, runs)? {
            Some(merging) => merging,
            None => return Ok(None),
        },
    };
    let most = TEND_KEYS.max(fresh * MERGED_PER_KEY);
    let mut moved = 0;
    while moved < most && under_way.done < 1 << under_way.bits {
        moved += merge_share(db, &mut under_way)?;
        pace.row();
    }
    if under_way.done < 1 << under_way.bits {
        *merging = Some(under_way);
        return Ok(None);
    }
    let Merging { mut into, from, filter, .. } = under_way;
    let from: Vec<i64> = from.into_iter().map(|(run, _)| run).collect();
    db.execute("DELETE FROM retired WHERE run = ?1", [into.number])?;
    take_out(db, &from)?;
    into.filter = Arc::new(filter);
    insert_run(db, &into)?;
    Ok(Some((into, from)))
}

fn begin_merge(db: &Connection, runs: &[Run]) -> rusqlite::Result<Option<Merging>> {
    let of_tier = |tier| runs.iter().filter(move |run| run.tier == tier);
    let Some(tier) = (0..TOP_TIER).find(|tier| of_tier(*tier).count() >= MERGE_RUNS) else { return Ok(None) };
    let merged: Vec<&Run> = of_tier(tier).take(MERGE_RUNS).collect();
    let keys = merged.iter().map(|run| run.keys).sum();
    let newest = merged.iter().map(|run| run.newest).max().unwrap_or(i64::MIN);
    let into = Run::new(next_run(db)?, tier + 1, keys, newest);
    db.execute("INSERT INTO retired (run) VALUES (?1)", [into.number])?;
    let bits = merged.iter().map(|run| run.bits).chain([into.bits]).min().unwrap_or(0);
    let from = merged.iter().map(|run| (run.number, run.bits)).collect();
    Ok(Some(Merging { into, from, bits, done: 0, filter: Filter::for_keys(keys) }))
}

/// Merges the next share of the hashes. A key stands in one run only: while a run has it, it can't be used for anything
/// else.
fn merge_share(db: &Connection, merging: &mut Merging) -> Result<usize, Damage> {
    let mut read = Vec::new();
    for (run, bits) in &merging.from {
        let width = bits - merging.bits;
        for number in merging.done << width..(merging.done + 1) << width {
            read.push(page(db, page_id(*run, number))?);
        }
    }
    let mut all: Vec<(u128, &[u8])> = read.iter().flat_map(|data| records(data)).collect();
    all.sort_unstable_by_key(|(hash, _)| *hash);
    let width = merging.into.bits - merging.bits;
    let mut pages = Pages::from(&merging.into, merging.done << width, (merging.done + 1) << width);
    for (hash, framed) in &all {
        pages.put_framed(db, *hash, framed)?;
        merging.filter.insert(KeyHash(*hash));
    }
    pages.finish(db)?;
    merging.done += 1;
    Ok(all.len().max(1))
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
    let is_merged = |run: &Run| {
        merging.is_some_and(|merging| merging.from.iter().any(|(number, _)| *number == run.number))
    };
    let old = runs.iter().filter(|run| run.newest < before && !is_merged(run));
    let old: Vec<i64> = old.map(|run| run.number).collect();
    take_out(db, &old)?;
    let unfinished = merging.map_or(0, |merging| merging.into.number);
    let mut left = (TEND_KEYS.max(fresh * DELETED_PER_KEY)).div_ceil(PAGE_KEYS);
    while left > 0 {
        let next = "SELECT run FROM retired WHERE run <> ?1 LIMIT 1";
        let retired: Option<i64> =
            db.prepare_cached(next)?.query_row([unfinished], |row| row.get(0)).optional()?;
        let Some(run) = retired else { break };
        let delete = "DELETE FROM key_pages WHERE id IN
            (SELECT id FROM key_pages WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3)";
        let (from, to) = (page_id(run, 0), page_id(run + 1, 0));
        let deleted = db.prepare_cached(delete)?.execute(params![from, to, left.cast_signed()])?;
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
    let list = runs.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    db.execute(&format!("INSERT INTO retired SELECT run FROM runs WHERE run IN ({list})"), [])?;
    db.execute(&format!("DELETE FROM runs WHERE run IN ({list})"), [])?;
    Ok(())
}

/// Keys that the runs have, counted one by one.
#[cfg(test)]
pub(crate) fn count(db: &Connection) -> usize {
    let sql = "SELECT data FROM key_pages WHERE id >> 32 IN (SELECT run FROM runs)";
    let mut pages = db.prepare(sql).unwrap();
    let pages = pages.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    pages.map(|data| records(&data.unwrap()).count()).sum()
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
            runs.push(write_run(&db, &mut records, Pace::default()).unwrap());
        }
        let mut late: Vec<_> = (5_000..5_010).map(|n| record(n, 9_000)).collect();
        let mut merging = None;
        let (merged, from) = merge(&db, &runs, &mut merging, 0, Pace::default()).unwrap().unwrap();
        assert_eq!(from, runs.iter().map(|run| run.number).collect::<Vec<_>>());
        runs = vec![merged];
        assert_eq!(runs[0].tier, 1);
        assert!(merge(&db, &runs, &mut merging, 0, Pace::default()).unwrap().is_none());
        runs.push(write_run(&db, &mut late, Pace::default()).unwrap());
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
        let left: i64 = db.query_row("SELECT count(*) FROM key_pages", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 1);
    }

    #[test]
    fn a_merge_goes_on_where_it_was_and_what_is_left_of_one_that_stopped_is_deleted() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        let runs: Vec<Run> = (0..MERGE_RUNS as u64)
            .map(|run| {
                let mut records: Vec<_> = (run * 1_000..run * 1_000 + 1_000).map(|n| record(n, 1)).collect();
                write_run(&db, &mut records, Pace::default()).unwrap()
            })
            .collect();
        let rows = || -> usize {
            let mut pages = db.prepare("SELECT data FROM key_pages").unwrap();
            let pages = pages.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
            pages.map(|data| records(&data.unwrap()).count()).sum()
        };
        let mut merging = None;
        assert!(merge(&db, &runs, &mut merging, 0, Pace::default()).unwrap().is_none());
        assert_eq!(retire(&db, &runs, merging.as_ref(), 5, 0).unwrap(), Vec::<i64>::new());
        assert!(rows() >= 8_000 + TEND_KEYS, "what is being merged is not deleted");

        // As after a crash.
        for _ in 0..4 {
            assert_eq!(retire(&db, &runs, None, 0, 0).unwrap(), Vec::<i64>::new());
        }
        assert_eq!(rows(), 8_000);

        merging = None;
        assert!(merge(&db, &runs, &mut merging, 0, Pace::default()).unwrap().is_none());
        let (merged, from) = merge(&db, &runs, &mut merging, 0, Pace::default()).unwrap().unwrap();
        assert_eq!(from.len(), MERGE_RUNS);
        let kept = [merged];
        assert!((0..8_000).step_by(37).all(|n| has(&db, &kept, n)));
        while rows() > 8_000 {
            retire(&db, &kept, None, 0, 2_000).unwrap();
        }
        assert_eq!(rows(), 8_000, "the runs that were merged are gone");
        assert!((0..8_000).step_by(37).all(|n| has(&db, &kept, n)));
    }

    #[test]
    fn runs_of_all_sizes_are_merged() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        let mut first = 0;
        let sizes = [1, 3, 200, 1_000, 5_000, 129, 700, 2];
        let runs: Vec<Run> = sizes
            .map(|size| {
                let mut records: Vec<_> = (first..first + size).map(|n| record(n, 1)).collect();
                first += size;
                write_run(&db, &mut records, Pace::default()).unwrap()
            })
            .into();
        let mut merging = None;
        let merged = loop {
            if let Some((merged, _)) = merge(&db, &runs, &mut merging, 0, Pace::default()).unwrap() {
                break merged;
            }
        };
        let kept = [merged];
        assert!((0..first).all(|n| has(&db, &kept, n)));
        assert!((first..first + 500).all(|n| !has(&db, &kept, n)));
    }

    #[test]
    fn a_page_that_changed_or_is_gone_is_damage_and_not_an_absent_key() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        let mut records: Vec<_> = (0..50).map(|n| record(n, 1)).collect();
        write_run(&db, &mut records, Pace::default()).unwrap();
        let (absent, good) = (record(99, 1).hash, page(&db, page_id(1, 0)).unwrap());
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
}
