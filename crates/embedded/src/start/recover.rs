//! Recovery at a start. It loads the index and then applies the batches of the log that the index lacks. Everything is
//! checked before the store accepts requests.

use crate::base;
use crate::engine::memory::Memory;
use crate::engine::published::{LoadedItems, PublishedItems};
use crate::error::{IndexError, OpenError};
use crate::files;
use crate::index::backlog::IndexBacklog;
use crate::index::item_key_interner::{FrozenInterner, ItemKeyInterner};
use crate::index::{Index, PAUSE_EVERYTHING};
use crate::limits::RUN_KEYS;
use crate::log::batch::Batch;
use crate::log::sync_marker::{SyncMarker, SyncedBatch};
use crate::log::wal::{self, wal_path};
use crate::log::{Log, LogHead, is_retryable};
use crate::start::data_dir::{DirectoryLock, check_wal, create_dir, find_missing_end, lock, sync_dir};
use crate::start::incomplete_copy;
use crate::start::restore_index::restore_index;
use std::path::Path;
use std::sync::Arc;
use stockhold_domain::{Hold, ItemKey, LimitSet, State, Transition};
use stockhold_store::{StartProgress, StartStep, fault};

/// The weight beyond the index that a start writes into the index before it reads on. A smaller weight is left to the
/// indexer, so a usual start writes nothing. A start without an index does not need memory for the whole log.
const CHUNK_WEIGHT: u64 = if fault::ENABLED { 50 } else { 200_000 };
/// The keys beyond the index that a start writes into the index as a run.
const START_KEYS: usize = if fault::ENABLED { 16 } else { RUN_KEYS };

/// The rows of archived batches that a start deletes in one transaction.
const TRIMMED_ROWS: u64 = 1_024;

/// Room is made for at most this many items before they are read: the number comes from a file.
const MAX_PREALLOCATED_ITEMS: u64 = 16_000_000;

/// The result of a recovery.
pub(crate) struct RecoveredStore {
    pub(crate) lock: DirectoryLock,
    pub(crate) log: Log,
    pub(crate) marker: SyncMarker,
    /// The index, and the batches of the log that it lacks.
    pub(crate) backlog: IndexBacklog,
    pub(crate) memory: Memory,
    pub(crate) published: PublishedItems,
    pub(crate) head: LogHead,
}

/// Opens a data directory, and creates it if it does not exist. Keys that were used before `retire_before` are not
/// kept.
pub(crate) fn recover(
    dir: &Path,
    retire_before: i64,
    wal_preallocation: u64,
    progress: &StartProgress,
) -> Result<RecoveredStore, OpenError> {
    recover_in(dir, retire_before, wal_preallocation, CHUNK_WEIGHT, progress)
}

fn recover_in(
    dir: &Path,
    retire_before: i64,
    wal_preallocation: u64,
    chunk_weight: u64,
    progress: &StartProgress,
) -> Result<RecoveredStore, OpenError> {
    create_dir(dir)?;
    let lock = lock(dir)?;
    incomplete_copy::refuse(dir)?;
    fault!("start.locked" => injected_error());
    progress.begin(StartStep::OpenFiles, None);
    let log_file = dir.join(files::LOG);
    // The write-ahead log of the index is not checked. It is not synced with each transaction, so a power cut may keep
    // any of its newest frames. SQLite reads the frames up to the first broken one, and the log restores the rest.
    check_wal(&log_file)?;
    let mut log = Log::open(&log_file)?;
    log.check_start()?;
    fault!("start.log_opened" => injected_error());
    let keys = ItemKeyInterner::default();
    let (index, active) = open_index(dir, &mut log, &keys, progress)?;
    fault!("start.index_opened" => injected_error());
    let acked_file = dir.join(files::SYNC_MARKER);
    let (marker, mark) = SyncMarker::open(&acked_file)
        .map_err(|error| OpenError::io(format!("opening {}", acked_file.display()), error))?;
    let mark = mark.map_err(|what| OpenError::Damaged { file: acked_file, what })?;
    check_end(&log, &log_file, &index, mark)?;

    fault!("start.end_checked" => injected_error());
    let mut memory = Memory::default();
    let published = load(&index, active, &keys, &mut memory, progress)
        .map_err(|damage| damage.into_open_error(&index.file))?;
    let state = index.state;
    let (indexed, keyed) = (state.indexed, state.keyed);
    let filters = index.keys.all.iter().map(|run| Arc::clone(&run.filter)).collect();
    drop(keys);
    memory.start_after_index(indexed, keyed, filters);
    let indexed_head = log.head(indexed)?;
    if indexed_head.sum != state.indexed_sum {
        let what = format!("it was made from another log: batch {indexed} differs");
        return Err(OpenError::Damaged { file: index.file, what });
    }

    fault!("start.index_loaded" => injected_error());
    let mut backlog = IndexBacklog::new(index);
    let (mut room, mut failed) = (true, None);
    let mut head = indexed_head;
    let from = log.head(indexed.min(keyed))?;
    let last = log.last()?.map_or(0, |(number, _)| number);
    progress.begin(StartStep::ApplyLog, Some(last.saturating_sub(from.number)));
    log.for_each_batch(from.number, from.sum, |mut batch, sum| {
        fault!("start.applying" => "a fault point".to_owned());
        replay(&mut memory, &mut head, indexed_head, keyed, &mut batch, sum);
        if batch.number > indexed_head.number {
            published.publish(&batch.events);
        }
        progress.add(1);
        backlog.add_batch(batch, sum);
        let large = backlog.weight() >= chunk_weight || backlog.keys() >= START_KEYS;
        if large && room {
            match write(&mut backlog, &mut memory, retire_before) {
                Ok(()) => {}
                Err(error) if is_retryable(&error) => {
                    // The indexer writes it later. Until then its limits bound what may wait.
                    tracing::warn!(%error, "the index can't be written now; the indexer writes it later");
                    room = false;
                }
                Err(error) => failed = Some(error),
            }
        }
        Ok(failed.is_none())
    })?;
    if let Some(error) = failed {
        return Err(OpenError::sqlite(&backlog.index.file, "writing", error));
    }

    fault!("start.log_read" => injected_error());
    progress.begin(StartStep::CheckpointLog, None);
    // After this checkpoint the next commit writes the write-ahead log from its beginning, in place.
    match log.checkpoint_between_batches() {
        Ok(_) => {}
        Err(error) if is_retryable(&error) => tracing::warn!(%error, "the checkpoint of the log is delayed"),
        Err(error) => return Err(OpenError::sqlite(&log_file, "copying the write-ahead log", error)),
    }

    fault!("start.log_copied" => injected_error());
    if wal_preallocation > 0 {
        let log_wal = wal_path(&log_file);
        wal::preallocate(&log_wal, wal_preallocation)
            .map_err(|error| OpenError::io(format!("making room in {}", log_wal.display()), error))?;
    }

    fault!("start.room_made" => injected_error());
    published.set_newest(head.next_position - 1);
    sync_dir(dir)?;
    Ok(RecoveredStore { lock, log, marker, backlog, memory, published, head })
}

/// Applies a batch of the log to memory as far as the index lacks it. The index has items and reservations up to batch
/// `indexed` and keys up to batch `keyed`.
pub(crate) fn replay(
    memory: &mut Memory,
    head: &mut LogHead,
    indexed: LogHead,
    keyed: u64,
    batch: &mut Batch,
    sum: u32,
) {
    memory.begin_batch(batch.number);
    if batch.number > indexed.number {
        for event in &mut batch.events {
            if let Transition::Hold { hold, .. } = &mut event.transition {
                memory.share_keys(hold);
            }
            memory.apply(event);
        }
        *head = LogHead { number: batch.number, sum, next_position: batch.next_position(), at: batch.at };
    }
    if batch.number > keyed {
        for key in &batch.keys {
            memory.remember(key);
        }
    }
}

/// The error of a failing disk, for fault points.
#[cfg(debug_assertions)]
fn injected_error() -> OpenError {
    OpenError::io("opening the store", "a fault point")
}

/// Writes the backlog into the index, and removes it from memory.
fn write(backlog: &mut IndexBacklog, memory: &mut Memory, retire_before: i64) -> rusqlite::Result<()> {
    let item = |key: &ItemKey| memory.item(key).ok().flatten().cloned();
    if let Some((batch, _)) = backlog.write_chunk(item)? {
        fault!("start.chunk_written" => crate::log::injected_error());
        memory.drop_closed_up_to(batch);
    }
    if backlog.keys() >= START_KEYS {
        backlog.write_runs()?;
        fault!("start.runs_written" => crate::log::injected_error());
        backlog.compact(retire_before, true)?;
        memory.drop_keys_up_to(backlog.index.state.keyed, backlog.filters());
    }
    backlog.checkpoint()
}

/// Opens the index. If events have left the log, it makes an index from the base if there is none or if the index is too old, and it
/// ends what an archive has left undone.
fn open_index(
    dir: &Path,
    log: &mut Log,
    keys: &ItemKeyInterner,
    progress: &StartProgress,
) -> Result<(Index, Vec<Hold>), OpenError> {
    let index_file = dir.join(files::INDEX);
    let start = *log.start();
    if start.head.number == 0 {
        return Index::open(&index_file, keys, progress);
    }
    if !index_file.exists() {
        restore_index(dir, &start)?;
    }
    let (mut index, mut active) = Index::open(&index_file, keys, progress)?;
    if index.state.indexed.min(index.state.keyed) < start.head.number {
        tracing::warn!("the index is older than the oldest event of the log; it is made again");
        drop(index);
        restore_index(dir, &start)?;
        (index, active) = Index::open(&index_file, keys, progress)?;
    }
    if let Some(base) = base::open_for_reading(dir)? {
        match base::trim_index(&base, &mut index, &start) {
            Ok(_) => {}
            // What stays is not read, and a later start or archive deletes it. A full disk must not keep the store from starting.
            Err(IndexError::Sqlite(error)) if is_retryable(&error) => {
                tracing::warn!(%error, "archived reservations are deleted from the index later");
            }
            Err(error) => return Err(error.into_open_error(&index_file)),
        }
    }
    match log.trim(TRIMMED_ROWS) {
        Ok(_) => {}
        Err(error) if is_retryable(&error) => {
            tracing::warn!(%error, "archived batches are deleted from the log later");
        }
        Err(error) => {
            return Err(OpenError::sqlite(dir.join(files::LOG), "deleting archived batches", error));
        }
    }
    Ok((index, active))
}

/// Refuses a log that lost its end.
fn check_end(log: &Log, log_file: &Path, index: &Index, mark: Option<SyncedBatch>) -> Result<(), OpenError> {
    let last = log.last()?.map_or(0, |(number, _)| number);
    let known = index.state.indexed.max(index.state.keyed);
    match find_missing_end(last, known, mark, |batch| log.sum_if_kept(batch))? {
        Some(what) => Err(OpenError::Damaged { file: log_file.to_owned(), what }),
        None => Ok(()),
    }
}

/// Loads the index into memory. Returns its items for publication.
fn load(
    index: &Index,
    active: Vec<Hold>,
    keys: &ItemKeyInterner,
    memory: &mut Memory,
    progress: &StartProgress,
) -> Result<PublishedItems, crate::error::IndexError> {
    let items = index.state.items.rows;
    progress.begin(StartStep::LoadItems, Some(items));
    let room = usize::try_from(items.min(MAX_PREALLOCATED_ITEMS)).unwrap_or(0);
    let mut loaded = LoadedItems::with_capacity(room);
    memory.reserve_items(room);
    let mut pauses = Vec::new();
    let (mut limits, mut sold) = (LimitSet::default(), Vec::new());
    crate::index::load_items_and_pauses(
        &index.db,
        index.state,
        // Each item has one row.
        &FrozenInterner(keys),
        |item| {
            loaded.add(item.clone());
            memory.put_item(item);
            progress.add(1);
        },
        |scope| pauses.push(scope.to_owned()),
    )?;
    progress.begin(StartStep::LoadUnits, Some(index.state.units.rows));
    crate::index::units::load(&index.db, index.state.units, |item, units| {
        progress.add(units.len() as u64);
        memory.put_units(&item, units);
    })?;
    crate::index::records::load(&index.db, index.state.records, |record| memory.put_record(record))?;
    crate::index::limits::load(
        &index.db,
        index.state.limits,
        |limit| limits.put(limit),
        |key, units| sold.push((key, units)),
    )?;
    let counters = crate::index::limits::counters(&limits, sold, &active);
    memory.put_limits(limits, counters);
    crate::index::due_payments::load(&index.db, index.state.due_payments, |id, due| {
        memory.due_payments.set(id, Some(due));
    })?;
    for scope in pauses {
        memory.put_pause((scope != PAUSE_EVERYTHING).then_some(scope.as_str()), true);
    }
    memory.load_active(active);
    Ok(loaded.publish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use stockhold_conformance::Maker;
    use stockhold_conformance::maker::{reserve, set_stock};
    use stockhold_domain::{Fingerprint, Instant, KeyHash, KeyRecord, KeyTarget, Outcome, Reply};
    use stockhold_store::StartStatus;

    #[test]
    fn holds_that_a_start_reads_share_the_keys_of_their_items() {
        for stopped in [true, false] {
            let mut bench = crate::bench::Bench::new();
            let mut maker = Maker::new(1, "");
            let shirt = maker.item("shirt");
            bench.run(maker.wrap(set_stock(&shirt, 9))).unwrap();
            let mut ids = Vec::new();
            for _ in 0..3 {
                let made = bench.run(maker.wrap(reserve(&[(&shirt, 1)]))).unwrap();
                let Outcome::Done(Reply::Reservation(hold)) = made else { panic!("{made:?}") };
                ids.push(hold.id);
            }
            if stopped {
                bench.stop();
            } else {
                bench.crash();
            }
            let found = recover(&bench.dir(), 0, 0, &StartProgress::default()).unwrap();
            let text = |id| found.memory.find_hold(id).unwrap().lines[0].item.sku().as_ptr();
            assert!(ids.iter().all(|id| text(*id) == text(ids[0])), "stopped: {stopped}");
        }
    }

    /// The log has both uses of the key, so an index that is rebuilt from it has both too.
    #[test]
    fn of_a_key_that_was_used_again_once_it_had_been_forgotten_the_last_use_is_found() {
        const DAY: i64 = 86_400_000_000;
        let mut bench = crate::bench::Bench::new();
        let mut maker = Maker::new(1, "");
        let shirt = maker.item("shirt");
        bench.run(maker.wrap(set_stock(&shirt, 9))).unwrap();
        bench.crash();
        for end in ["", "-wal", "-shm"] {
            fs::remove_file(bench.dir().join(format!("{}{end}", files::INDEX))).unwrap();
        }
        let used = |number: u64, day: i64| KeyRecord {
            hash: KeyHash(number.into()),
            fingerprint: Fingerprint(day.unsigned_abs().into()),
            target: KeyTarget::Item(shirt.clone()),
            at: Instant::from_micros(day * DAY),
        };
        let mut log = Log::open(&bench.dir().join(files::LOG)).unwrap();
        for keys in [vec![used(1, 1), used(2, 1)], vec![used(1, 4)]] {
            let (last, _) = log.last().unwrap().unwrap();
            let before = log.head(last).unwrap();
            let batch = Batch {
                number: last + 1,
                position: before.next_position,
                at: before.at,
                events: Vec::new(),
                keys,
            };
            log.append(&batch, before.sum).unwrap();
        }
        drop(log);
        let mut found = recover(&bench.dir(), 3 * DAY, 0, &StartProgress::default()).unwrap();
        assert_eq!(found.memory.key(KeyHash(1)), Ok(Some(&used(1, 4))));
        found.backlog.write_runs().unwrap();
        let db = &found.backlog.index.db;
        assert_eq!(crate::index::runs::count::<crate::index::keys::KeyRuns>(db), 3);
        for (number, day) in [(1, 4), (2, 1)] {
            let found =
                crate::index::keys::find(&db.unchecked_transaction().unwrap(), KeyHash(number.into()));
            assert_eq!(found.unwrap(), Some(used(number, day)));
        }
        drop(found);
        assert_eq!(crate::verify(&bench.dir(), |_, _| ()).unwrap().findings, Vec::<String>::new());
    }

    #[test]
    fn a_start_counts_what_it_has_read() {
        let mut bench = crate::bench::Bench::new();
        let mut maker = Maker::new(1, "");
        for sku in ["sash", "shirt", "shoe", "sock"] {
            let item = maker.item(sku);
            bench.run(maker.wrap(set_stock(&item, 9))).unwrap();
        }
        bench.stop();
        let progress = StartProgress::default();
        let index = bench.dir().join(files::INDEX);
        let status = |step, done, total| StartStatus { step, done, total };
        drop(recover(&bench.dir(), 0, 0, &progress).unwrap());
        assert_eq!(progress.status(), status(StartStep::CheckpointLog, 0, None));
        // A start that stops at an item has counted the items before it.
        let db = rusqlite::Connection::open(&index).unwrap();
        db.execute("UPDATE items SET sum = sum + 1 WHERE sku = (SELECT max(sku) FROM items)", []).unwrap();
        drop(db);
        assert!(recover(&bench.dir(), 0, 0, &progress).is_err());
        assert_eq!(progress.status(), status(StartStep::LoadItems, 3, Some(4)));
        // Without an index it applies the log.
        for end in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(bench.dir().join(format!("{}{end}", files::INDEX)));
        }
        let log = bench.dir().join(files::LOG);
        let (last, _) = Log::open(&log).unwrap().last().unwrap().unwrap();
        let db = rusqlite::Connection::open(&log).unwrap();
        db.execute("UPDATE batches SET sum = sum + 1 WHERE number = ?1", [last.cast_signed() - 2]).unwrap();
        drop(db);
        assert!(recover(&bench.dir(), 0, 0, &progress).is_err());
        assert_eq!(progress.status(), status(StartStep::ApplyLog, last - 3, Some(last)));
    }

    #[test]
    fn a_start_without_an_index_makes_it_on_the_way() {
        let mut bench = crate::bench::Bench::new();
        crate::bench::sell(&mut bench, &mut Maker::new(1, ""), 100);
        bench.crash();
        for end in ["", "-wal", "-shm"] {
            fs::remove_file(bench.dir().join(format!("{}{end}", files::INDEX))).unwrap();
        }
        let found = recover_in(&bench.dir(), 0, 0, 50, &StartProgress::default()).unwrap();
        assert!(found.backlog.weight() < 50, "{} wait", found.backlog.weight());
        assert!(
            found.memory.unindexed_records() < 50,
            "{} stand in memory",
            found.memory.unindexed_records()
        );
        assert!(found.backlog.index.state.indexed > 150);
        drop(found);
        bench.start().unwrap();
        bench.stop();
        let verdict = crate::verify(&bench.dir(), |_, _| ()).unwrap();
        assert_eq!((verdict.findings, verdict.reservations), (Vec::new(), [0, 100, 0, 0]));
    }
}
