//! A start: everything is checked before anything is served. Index first, then the log's batches that it lacks.

use crate::engine::memory::Memory;
use crate::engine::published::Published;
use crate::error::OpenError;
use crate::files;
use crate::index::backlog::Behind;
use crate::index::item_keys::SharedKeys;
use crate::index::{EVERYTHING, Index};
use crate::limits::RUN_KEYS;
use crate::log::batch::Batch;
use crate::log::sync_marker::{Acked, Mark};
use crate::log::wal::{self, wal_of};
use crate::log::{Head, Log, can_wait};
use crate::start::data_dir::{lock, look_through, make, missing_end, sync_dir};
use crate::start::incomplete_copy;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use stockhold_domain::bug;
use stockhold_domain::{Hold, ItemKey, State, Transition};
use stockhold_store::fault;

/// Events and lines beyond the index that a start writes into it before it reads on. Less is left to the indexer, so that
/// a usual start writes nothing; a start without an index does not need the whole log's room in memory.
const CHUNK_WEIGHT: u64 = if fault::ENABLED { 50 } else { 200_000 };
/// Keys beyond the index that a start writes into it as a run.
const START_KEYS: usize = if fault::ENABLED { 16 } else { RUN_KEYS };

/// What a start found.
pub(crate) struct Recovered {
    pub(crate) lock: File,
    pub(crate) log: Log,
    pub(crate) acked: Acked,
    /// The index, and the log's batches that it lacks.
    pub(crate) behind: Behind,
    pub(crate) memory: Memory,
    pub(crate) published: Published,
    pub(crate) head: Head,
}

/// Opens a data directory, making it when it is not there. Keys that were used before `retire_before` are not kept.
pub(crate) fn recover(dir: &Path, retire_before: i64, log_room: u64) -> Result<Recovered, OpenError> {
    recover_in(dir, retire_before, log_room, CHUNK_WEIGHT)
}

fn recover_in(
    dir: &Path,
    retire_before: i64,
    log_room: u64,
    chunk_weight: u64,
) -> Result<Recovered, OpenError> {
    make(dir)?;
    let lock = lock(dir)?;
    incomplete_copy::refuse(dir)?;
    fault!("start.locked" => failing_disk());
    let log_file = dir.join(files::LOG);
    // Not the index: it is not synced with each transaction, so a power cut may keep any of its newest ones. SQLite takes
    // those that follow each other from the beginning, and the log brings back the rest.
    look_through(&log_file)?;
    let log = Log::open(&log_file)?;
    fault!("start.log_opened" => failing_disk());
    let keys = SharedKeys::default();
    let (index, active) = Index::open(&dir.join(files::INDEX), &keys)?;
    fault!("start.index_opened" => failing_disk());
    let acked_file = dir.join(files::ACKED);
    let (acked, mark) = Acked::open(&acked_file)
        .map_err(|error| OpenError::io(format!("opening {}", acked_file.display()), error))?;
    let mark = mark.map_err(|what| OpenError::Damaged { file: acked_file, what })?;
    check_end(&log, &log_file, &index, mark)?;

    fault!("start.end_checked" => failing_disk());
    let mut memory = Memory::default();
    load(&index, active, &keys, &mut memory).map_err(|damage| damage.into_open(&index.file))?;
    let position = index.position;
    let (indexed, keyed) = (position.indexed, position.keyed);
    let filters = index.keys.all.iter().map(|run| Arc::clone(&run.filter)).collect();
    drop(keys);
    memory.begin(indexed, keyed, filters);
    let indexed_head = log.head(indexed)?;
    if indexed_head.sum != position.indexed_sum {
        let what = format!("it was made from another log: batch {indexed} differs");
        return Err(OpenError::Damaged { file: index.file, what });
    }

    fault!("start.index_loaded" => failing_disk());
    let mut behind = Behind::new(index);
    let (mut room, mut failed) = (true, None);
    let mut head = indexed_head;
    let from = log.head(indexed.min(keyed))?;
    log.walk(from.number, from.sum, |mut batch, sum| {
        fault!("start.applying" => "a fault point".to_owned());
        replay(&mut memory, &mut head, indexed_head, keyed, &mut batch, sum);
        behind.take(batch, sum);
        let large = behind.weight() >= chunk_weight || behind.keys() >= START_KEYS;
        if large && room {
            match write(&mut behind, &mut memory, retire_before) {
                Ok(()) => {}
                Err(error) if can_wait(&error) => {
                    // It is left to the indexer, and to the bounds of what may wait for that.
                    tracing::warn!(%error, "the index has to wait");
                    room = false;
                }
                Err(error) => failed = Some(error),
            }
        }
        Ok(failed.is_none())
    })?;
    if let Some(error) = failed {
        return Err(OpenError::sqlite(&behind.index.file, "writing", error));
    }

    fault!("start.log_read" => failing_disk());
    // The next commit then writes the write-ahead log from its beginning, in place.
    match log.checkpoint_rest() {
        Ok(_) => {}
        Err(error) if can_wait(&error) => tracing::warn!(%error, "the log's checkpoint has to wait"),
        Err(error) => return Err(OpenError::sqlite(&log_file, "copying the write-ahead log", error)),
    }

    fault!("start.log_copied" => failing_disk());
    if log_room > 0 {
        let log_wal = wal_of(&log_file);
        wal::make_room(&log_wal, log_room)
            .map_err(|error| OpenError::io(format!("making room in {}", log_wal.display()), error))?;
    }

    fault!("start.room_made" => failing_disk());
    let published = Published::default();
    for item in memory.items() {
        published.put(item.clone());
    }
    published.reached(head.next_position - 1);
    sync_dir(dir)?;
    Ok(Recovered { lock, log, acked, behind, memory, published, head })
}

/// Takes a batch of the log into memory, as far as the index lacks it: its items and reservations lead up to `indexed`, its
/// keys up to batch `keyed`.
pub(crate) fn replay(
    memory: &mut Memory,
    head: &mut Head,
    indexed: Head,
    keyed: u64,
    batch: &mut Batch,
    sum: u32,
) {
    memory.enter_batch(batch.number);
    if batch.number > indexed.number {
        for event in &mut batch.events {
            if let Transition::Hold { hold, .. } = &mut event.transition {
                memory.share_keys(hold);
            }
            memory.apply(event);
        }
        *head = Head { number: batch.number, sum, next_position: batch.next_position(), at: batch.at };
        if bug!("a-start-forgets-the-newest-instant") {
            head.at = indexed.at;
        }
    }
    if batch.number > keyed {
        for key in &batch.keys {
            memory.remember(key);
        }
    }
}

/// What a disk that fails looks like, for fault points.
#[cfg(feature = "faults")]
fn failing_disk() -> OpenError {
    OpenError::io("opening the store", "a fault point")
}

/// Writes what waits into the index, and lets memory forget it.
fn write(behind: &mut Behind, memory: &mut Memory, retire_before: i64) -> rusqlite::Result<()> {
    let item = |key: &ItemKey| memory.item(key).ok().flatten().cloned();
    if let Some((batch, _)) = behind.write_chunk(item)? {
        fault!("start.chunk_written" => crate::log::failing_disk());
        memory.forget_closed(batch);
    }
    if behind.keys() >= START_KEYS {
        behind.write_runs()?;
        fault!("start.runs_written" => crate::log::failing_disk());
        behind.tend(retire_before, true)?;
        memory.forget_keys(behind.index.position.keyed, behind.filters());
    }
    behind.checkpoint()
}

/// A log that ends before what was synced has lost its end.
fn check_end(log: &Log, log_file: &Path, index: &Index, mark: Option<Mark>) -> Result<(), OpenError> {
    let last = log.last()?.map_or(0, |(number, _)| number);
    let known = index.position.indexed.max(index.position.keyed);
    match missing_end(last, known, mark, |batch| Ok::<_, OpenError>(log.head(batch)?.sum))? {
        Some(what) => Err(OpenError::Damaged { file: log_file.to_owned(), what }),
        None => Ok(()),
    }
}

fn load(
    index: &Index,
    active: Vec<Hold>,
    keys: &SharedKeys,
    memory: &mut Memory,
) -> Result<(), crate::error::Damage> {
    let mut pauses = Vec::new();
    crate::index::load(
        &index.db,
        index.position,
        keys,
        |item| memory.put_item(item),
        |scope| pauses.push(scope.to_owned()),
    )?;
    crate::index::units::load(&index.db, index.position.units, |item, units| memory.put_units(&item, units))?;
    for scope in pauses {
        if bug!("a-start-forgets-pauses") {
            break;
        }
        memory.put_pause((scope != EVERYTHING).then_some(scope.as_str()), true);
    }
    memory.fill(active);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use stockhold_domain::{Fingerprint, Instant, KeyHash, KeyRecord, KeyTarget, Outcome, Reply};
    use stockhold_store::conformance::Maker;
    use stockhold_store::conformance::maker::{reserve, set_stock};

    #[test]
    fn holds_that_a_start_reads_share_the_keys_of_their_items() {
        for stopped in [true, false] {
            let mut bench = crate::testing::Bench::new();
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
            let found = recover(&bench.dir(), 0, 0).unwrap();
            let text = |id| found.memory.known_hold(id).unwrap().lines[0].item.sku().as_ptr();
            assert!(ids.iter().all(|id| text(*id) == text(ids[0])), "stopped: {stopped}");
        }
    }

    /// The log has both, so an index that is made of it does too.
    #[test]
    fn of_a_key_that_was_used_again_once_it_had_been_forgotten_the_last_use_is_found() {
        const DAY: i64 = 86_400_000_000;
        let mut bench = crate::testing::Bench::new();
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
        let mut found = recover(&bench.dir(), 3 * DAY, 0).unwrap();
        assert_eq!(found.memory.key(KeyHash(1)), Ok(Some(&used(1, 4))));
        found.behind.write_runs().unwrap();
        let db = &found.behind.index.db;
        assert_eq!(crate::index::runs::count::<crate::index::keys::Keys>(db), 3);
        for (number, day) in [(1, 4), (2, 1)] {
            let found =
                crate::index::keys::find(&db.unchecked_transaction().unwrap(), KeyHash(number.into()));
            assert_eq!(found.unwrap(), Some(used(number, day)));
        }
        drop(found);
        assert_eq!(crate::verify(&bench.dir(), |_, _| ()).unwrap().findings, Vec::<String>::new());
    }

    #[test]
    fn a_start_without_an_index_makes_it_on_the_way() {
        let mut bench = crate::testing::Bench::new();
        crate::testing::sell(&mut bench, &mut Maker::new(1, ""), 100);
        bench.crash();
        for end in ["", "-wal", "-shm"] {
            fs::remove_file(bench.dir().join(format!("{}{end}", files::INDEX))).unwrap();
        }
        let found = recover_in(&bench.dir(), 0, 0, 50).unwrap();
        assert!(found.behind.weight() < 50, "{} wait", found.behind.weight());
        assert!(found.memory.tail_len() < 50, "{} stand in memory", found.memory.tail_len());
        assert!(found.behind.index.position.indexed > 150);
        drop(found);
        bench.start().unwrap();
        bench.stop();
        let verdict = crate::verify(&bench.dir(), |_, _| ()).unwrap();
        assert_eq!((verdict.findings, verdict.reservations), (Vec::new(), [0, 100, 0, 0]));
    }
}
