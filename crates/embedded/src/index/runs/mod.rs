//! Sorted runs in the index. Records that arrive in random order are sorted and written together, because inserting
//! them one by one into a tree costs ten times as much. Several runs are merged into one run of the next tier, in
//! proportion to the records that are added.
//!
//! A record begins with a hash. The first bits of the hash choose the page of a run. A lookup reads one page of each
//! run. A missing page is damage, and never means that a record is absent.

mod scan;

use crate::error::IndexError;
use crate::index::checksum::row_sum;
use crate::index::filter::BloomFilter;
use crate::index::throttle::WriteThrottle;
#[cfg(debug_assertions)]
use crate::log::injected_error;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::marker::PhantomData;
use std::sync::Arc;
use stockhold_domain::KeyHash;
use stockhold_store::fault;

pub(crate) use scan::for_each_record;

/// The properties of a kind of runs.
pub(crate) trait RunKind {
    /// The prefix of the tables `…_runs`, `…_pages` and `…_retired`.
    const NAME: &'static str;
    /// The approximate number of records of a page.
    const PER_PAGE: usize;
    /// Whether a filter in memory rules out most absent hashes.
    const FILTERED: bool;

    /// Joins a record to the record before it if possible. Both are complete records without their length.
    fn join(_last: &mut [u8], _next: &[u8]) -> bool {
        false
    }
}

/// The schema of the tables of a kind of runs.
pub(crate) fn schema<K: RunKind>() -> String {
    let name = K::NAME;
    format!(
        "CREATE TABLE {name}_runs (
            run INTEGER PRIMARY KEY,
            tier INTEGER NOT NULL,
            records INTEGER NOT NULL,
            bits INTEGER NOT NULL,
            newest INTEGER NOT NULL,
            filter BLOB NOT NULL,
            sum INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE {name}_pages (id INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL) STRICT;
        CREATE TABLE {name}_retired (run INTEGER PRIMARY KEY) STRICT;"
    )
}

/// The number of runs of one tier that are merged into one run of the next tier.
const MERGE_RUNS: usize = 8;
/// The last tier. Its runs have a few million records each.
const TOP_TIER: i64 = 2;
/// The minimum number of records that one compaction merges or deletes.
const COMPACTION_RECORDS: usize = 4_096;
/// The records that are merged for each added record. A record is moved once for each tier. The rest lets a merge that
/// fell behind catch up.
const MERGED_PER_RECORD: usize = 3;
/// The records that are deleted for each added record. A record is in one run of each tier in turn.
const DELETED_PER_RECORD: usize = 4;
/// The maximum number of bits that choose a page. The pages of a run are numbered below this power of two.
const PAGE_BITS: u32 = 24;
/// The number of low bits of a page's id that hold the number of the page. The bits above hold the number of the run.
const ID_BITS: u32 = 32;
const HASH_BYTES: usize = 16;
/// The bytes of the length before each record.
const LENGTH_BYTES: usize = 2;

/// A run without its records.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) number: i64,
    tier: i64,
    records: usize,
    /// The number of bits of a hash that choose the page.
    bits: u32,
    newest: i64,
    pub(crate) filter: Arc<BloomFilter>,
}

impl Run {
    fn new<K: RunKind>(number: i64, tier: i64, records: usize, newest: i64) -> Self {
        let pages = (records / K::PER_PAGE).next_power_of_two();
        let bits = pages.trailing_zeros().min(PAGE_BITS);
        Self { number, tier, records, bits, newest, filter: Arc::new(BloomFilter::with_capacity(0)) }
    }
}

fn page_id(run: i64, page: u128) -> i64 {
    // Pages are numbered below 2^24.
    (run << ID_BITS) | i64::try_from(page).unwrap_or(i64::MAX)
}

/// The page of a hash if this number of bits chooses it.
fn page_of(hash: u128, bits: u32) -> u128 {
    hash.checked_shr(u128::BITS - bits).unwrap_or(0)
}

/// All runs with their filters, the oldest first.
pub(crate) fn load<K: RunKind>(db: &Connection) -> Result<Vec<Run>, IndexError> {
    let sql =
        format!("SELECT run, tier, records, bits, newest, filter, sum FROM {}_runs ORDER BY run", K::NAME);
    let mut statement = db.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        let bytes: Vec<u8> = row.get(5)?;
        let filter = BloomFilter::from_bytes(&bytes);
        let (number, sum): (i64, u32) = (row.get(0)?, row.get(6)?);
        let mut run = Run {
            number,
            tier: row.get(1)?,
            records: row.get(2)?,
            bits: row.get(3)?,
            newest: row.get(4)?,
            filter: Arc::new(BloomFilter::with_capacity(0)),
        };
        let Some(filter) = filter.filter(|_| sum == run_sum(&run, &bytes)) else {
            return Err(IndexError::Damaged(format!("{} run {number} does not fit its checksum", K::NAME)));
        };
        run.filter = Arc::new(filter);
        runs.push(run);
    }
    Ok(runs)
}

/// Writes a run of records in the order of their hashes. `put` appends a whole record.
pub(crate) fn write<K: RunKind, R>(
    db: &Connection,
    records: &[R],
    newest: i64,
    mut throttle: WriteThrottle,
    hash: impl Fn(&R) -> u128,
    put: impl Fn(&R, &mut Vec<u8>),
) -> rusqlite::Result<Run> {
    let mut run = Run::new::<K>(next_run::<K>(db)?, 0, records.len(), newest);
    if K::FILTERED {
        run.filter = Arc::new(BloomFilter::from_keys(records.iter().map(|record| KeyHash(hash(record)))));
    }
    let mut pages = PageWriter::<K>::from(&run, 0, 1 << run.bits);
    for record in records {
        pages.put_record(db, hash(record), |data| put(record, data))?;
        throttle.yield_point()?;
    }
    pages.finish(db)?;
    insert_run::<K>(db, &run)?;
    Ok(run)
}

fn insert_run<K: RunKind>(db: &Connection, run: &Run) -> rusqlite::Result<()> {
    let bytes = run.filter.to_bytes();
    db.execute(
        &format!(
            "INSERT INTO {}_runs (run, tier, records, bits, newest, filter, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            K::NAME
        ),
        params![
            run.number,
            run.tier,
            run.records.cast_signed(),
            run.bits,
            run.newest,
            bytes,
            run_sum(run, &bytes)
        ],
    )?;
    Ok(())
}

fn next_run<K: RunKind>(db: &Connection) -> rusqlite::Result<i64> {
    // Records of retired runs may still exist, so their numbers can't be reused.
    let sql = format!(
        "SELECT 1 + max(coalesce((SELECT max(run) FROM {0}_runs), 0), coalesce((SELECT max(run) FROM {0}_retired), 0))",
        K::NAME
    );
    db.query_row(&sql, [], |row| row.get(0))
}

fn run_sum(run: &Run, filter: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in [run.number, run.tier, run.records.cast_signed() as i64, i64::from(run.bits), run.newest] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(filter);
    hasher.finalize()
}

/// Writes the pages of a run in order, empty pages too.
struct PageWriter<K> {
    run: i64,
    bits: u32,
    page: u128,
    end: u128,
    data: Vec<u8>,
    /// The start of the last record of the page, after its length.
    last: usize,
    insert: String,
    kind: PhantomData<K>,
}

impl<K: RunKind> PageWriter<K> {
    fn from(run: &Run, page: u128, end: u128) -> Self {
        let insert = format!("INSERT INTO {}_pages (id, data, sum) VALUES (?1, ?2, ?3)", K::NAME);
        Self {
            run: run.number,
            bits: run.bits,
            page,
            end,
            data: Vec::new(),
            last: LENGTH_BYTES,
            insert,
            kind: PhantomData,
        }
    }

    /// Writes the pages before the page of a hash.
    fn seek(&mut self, db: &Connection, hash: u128) -> rusqlite::Result<()> {
        while self.page < page_of(hash, self.bits) {
            self.close(db)?;
        }
        Ok(())
    }

    fn put_record(
        &mut self,
        db: &Connection,
        hash: u128,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> rusqlite::Result<()> {
        self.seek(db, hash)?;
        // A length of two bytes comes first, and then the record, which begins with its hash.
        let begins = self.data.len();
        self.last = begins + LENGTH_BYTES;
        self.data.extend([0; LENGTH_BYTES]);
        put(&mut self.data);
        let length = u16::try_from(self.data.len() - self.last).unwrap_or(u16::MAX).to_le_bytes();
        for (to, from) in self.data.iter_mut().skip(begins).zip(length) {
            *to = from;
        }
        Ok(())
    }

    fn put_framed(&mut self, db: &Connection, hash: u128, framed: &[u8]) -> rusqlite::Result<()> {
        self.seek(db, hash)?;
        let record = framed.get(LENGTH_BYTES..).unwrap_or_default();
        if self.data.get_mut(self.last..).is_some_and(|last| !last.is_empty() && K::join(last, record)) {
            return Ok(());
        }
        self.last = self.data.len() + LENGTH_BYTES;
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
        db.prepare_cached(&self.insert)?.execute(params![
            id,
            self.data,
            row_sum(&id.to_le_bytes(), &self.data)
        ])?;
        self.data.clear();
        self.last = LENGTH_BYTES;
        self.page += 1;
        Ok(())
    }
}

/// The checked bytes of a page.
fn page<K: RunKind>(db: &Connection, id: i64) -> Result<Vec<u8>, IndexError> {
    let row: Option<(Vec<u8>, u32)> = db
        .prepare_cached(&format!("SELECT data, sum FROM {}_pages WHERE id = ?1", K::NAME))?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match row {
        Some((data, sum)) if row_sum(&id.to_le_bytes(), &data) == sum => Ok(data),
        Some(_) => Err(IndexError::Damaged(format!("the checksum of a {} page does not fit", K::NAME))),
        None => Err(IndexError::Damaged(format!("a {} page is missing", K::NAME))),
    }
}

/// The records of a page: the hash, and the record with its length.
pub(crate) fn records(mut data: &[u8]) -> impl Iterator<Item = (u128, &[u8])> {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_first_chunk::<LENGTH_BYTES>()?;
        let (framed, left) =
            data.split_at_checked(LENGTH_BYTES + usize::from(u16::from_le_bytes(*length)))?;
        let hash = rest.first_chunk::<HASH_BYTES>()?;
        data = left;
        Some((u128::from_be_bytes(*hash), framed))
    })
}

/// Calls back for all records on the pages of a hash, in all runs. It needs a transaction: a merge that ended between
/// two of its reads would otherwise show records of the merged run and of its sources.
pub(crate) fn lookup<K: RunKind>(
    read: &Transaction<'_>,
    hash: u128,
    mut each: impl FnMut(u128, &[u8]) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let mut runs = read.prepare_cached(&format!("SELECT run, bits FROM {}_runs", K::NAME))?;
    let runs = runs.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (run, bits) in runs.collect::<rusqlite::Result<Vec<(i64, u32)>>>()? {
        let data = page::<K>(read, page_id(run, page_of(hash, bits)))?;
        for (found, framed) in records(&data) {
            each(found, framed.get(LENGTH_BYTES..).unwrap_or_default())?;
        }
    }
    Ok(())
}

/// A merge in progress. Its target is listed as retired until it is complete, so that its pages are deleted after a
/// crash.
#[derive(Debug)]
pub(crate) struct RunMerge {
    into: Run,
    from: Vec<(i64, u32)>,
    /// The number of bits that divide the runs into shares: the smallest number that chooses a page in any of them.
    bits: u32,
    /// The number of shares that are merged.
    done: u128,
    filter: BloomFilter,
}

impl RunMerge {
    fn is_complete(&self) -> bool {
        self.done >= 1 << self.bits
    }

    /// The number of shares that are merged.
    pub(crate) fn done(&self) -> u128 {
        self.done
    }

    /// The state before shares were merged that the file does not have. The keys of these shares stay in the filter.
    /// That is harmless, because they are merged again.
    pub(crate) fn rewind_to(self, done: u128) -> Self {
        Self { done, ..self }
    }
}

/// Continues merging a tier that has too many runs. When the merge is complete, returns the new run and the numbers of
/// the runs that it replaces.
pub(crate) fn merge<K: RunKind>(
    db: &Connection,
    runs: &[Run],
    merging: &mut Option<RunMerge>,
    fresh: usize,
    mut throttle: WriteThrottle,
) -> Result<Option<(Run, Vec<i64>)>, IndexError> {
    if merging.is_none() {
        *merging = begin_merge::<K>(db, runs)?;
    }
    let Some(under_way) = merging else { return Ok(None) };
    let most = COMPACTION_RECORDS.max(fresh * MERGED_PER_RECORD);
    let mut moved = 0;
    while moved < most && !under_way.is_complete() {
        moved += merge_share::<K>(db, under_way)?;
        throttle.yield_point()?;
    }
    if !under_way.is_complete() {
        return Ok(None);
    }
    let Some(RunMerge { mut into, from, filter, .. }) = merging.take() else { return Ok(None) };
    let from: Vec<i64> = from.into_iter().map(|(run, _)| run).collect();
    db.execute(&format!("DELETE FROM {}_retired WHERE run = ?1", K::NAME), [into.number])?;
    detach_runs::<K>(db, &from)?;
    fault!("runs.merged" => injected_error().into());
    into.filter = Arc::new(filter);
    insert_run::<K>(db, &into)?;
    Ok(Some((into, from)))
}

fn begin_merge<K: RunKind>(db: &Connection, runs: &[Run]) -> rusqlite::Result<Option<RunMerge>> {
    let of_tier = |tier| runs.iter().filter(move |run| run.tier == tier);
    let Some(tier) = (0..TOP_TIER).find(|tier| of_tier(*tier).count() >= MERGE_RUNS) else { return Ok(None) };
    let merged: Vec<&Run> = of_tier(tier).take(MERGE_RUNS).collect();
    let records = merged.iter().map(|run| run.records).sum();
    let newest = merged.iter().map(|run| run.newest).max().unwrap_or(i64::MIN);
    let into = Run::new::<K>(next_run::<K>(db)?, tier + 1, records, newest);
    db.execute(&format!("INSERT INTO {}_retired (run) VALUES (?1)", K::NAME), [into.number])?;
    fault!("runs.merge_begun" => injected_error());
    let bits = merged.iter().map(|run| run.bits).chain([into.bits]).min().unwrap_or(0);
    let from = merged.iter().map(|run| (run.number, run.bits)).collect();
    let filter = BloomFilter::with_capacity(if K::FILTERED { records } else { 0 });
    Ok(Some(RunMerge { into, from, bits, done: 0, filter }))
}

/// Merges the next share of the hashes.
fn merge_share<K: RunKind>(db: &Connection, merging: &mut RunMerge) -> Result<usize, IndexError> {
    let mut read = Vec::new();
    for (run, bits) in &merging.from {
        let width = bits - merging.bits;
        for number in merging.done << width..(merging.done + 1) << width {
            read.push(page::<K>(db, page_id(*run, number))?);
        }
    }
    let mut all: Vec<(u128, &[u8])> = read.iter().flat_map(|data| records(data)).collect();
    all.sort_unstable_by_key(|(hash, _)| *hash);
    let width = merging.into.bits - merging.bits;
    let mut pages = PageWriter::<K>::from(&merging.into, merging.done << width, (merging.done + 1) << width);
    for (hash, framed) in &all {
        pages.put_framed(db, *hash, framed)?;
        if K::FILTERED {
            merging.filter.insert(KeyHash(*hash));
        }
    }
    pages.finish(db)?;
    fault!("runs.share_merged" => injected_error().into());
    merging.done += 1;
    Ok(all.len().max(1))
}

/// Runs that were removed.
#[derive(Debug)]
pub(crate) struct RetiredRuns {
    pub(crate) runs: Vec<i64>,
    /// The time of their newest record.
    pub(crate) newest: Option<i64>,
}

/// Removes the runs whose newest record is older than `before`, and deletes some records of removed runs.
pub(crate) fn retire<K: RunKind>(
    db: &Connection,
    runs: &[Run],
    merging: Option<&RunMerge>,
    before: i64,
    fresh: usize,
) -> rusqlite::Result<RetiredRuns> {
    let is_merged = |run: &Run| {
        merging.is_some_and(|merging| merging.from.iter().any(|(number, _)| *number == run.number))
    };
    let old: Vec<&Run> = runs.iter().filter(|run| run.newest < before && !is_merged(run)).collect();
    let newest = old.iter().map(|run| run.newest).max();
    let old: Vec<i64> = old.iter().map(|run| run.number).collect();
    detach_runs::<K>(db, &old)?;
    let unfinished = merging.map_or(0, |merging| merging.into.number);
    let mut left = (COMPACTION_RECORDS.max(fresh * DELETED_PER_RECORD)).div_ceil(K::PER_PAGE);
    while left > 0 {
        let next = format!("SELECT run FROM {}_retired WHERE run <> ?1 LIMIT 1", K::NAME);
        let retired: Option<i64> =
            db.prepare_cached(&next)?.query_row([unfinished], |row| row.get(0)).optional()?;
        let Some(run) = retired else { break };
        let delete = format!(
            "DELETE FROM {0}_pages WHERE id IN
            (SELECT id FROM {0}_pages WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3)",
            K::NAME
        );
        let (from, to) = (page_id(run, 0), page_id(run + 1, 0));
        let deleted = db.prepare_cached(&delete)?.execute(params![from, to, left.cast_signed()])?;
        if deleted < left {
            db.execute(&format!("DELETE FROM {}_retired WHERE run = ?1", K::NAME), [run])?;
        }
        left -= deleted;
    }
    Ok(RetiredRuns { runs: old, newest })
}

fn detach_runs<K: RunKind>(db: &Connection, runs: &[i64]) -> rusqlite::Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    let list = runs.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    let name = K::NAME;
    db.execute(&format!("INSERT INTO {name}_retired SELECT run FROM {name}_runs WHERE run IN ({list})"), [])?;
    db.execute(&format!("DELETE FROM {name}_runs WHERE run IN ({list})"), [])?;
    Ok(())
}

/// Counts the records of all runs.
#[cfg(test)]
pub(crate) fn count<K: RunKind>(db: &Connection) -> usize {
    let sql = format!("SELECT data FROM {0}_pages WHERE id >> 32 IN (SELECT run FROM {0}_runs)", K::NAME);
    let mut pages = db.prepare(&sql).unwrap();
    let pages = pages.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    pages.map(|data| records(&data.unwrap()).count()).sum()
}

#[cfg(test)]
mod tests;
