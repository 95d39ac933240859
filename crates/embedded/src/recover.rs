//! A start: everything is checked before anything is served. Index first, then the log's batches that it lacks.

use crate::acked::{Acked, Mark};
use crate::batch::Batch;
use crate::error::OpenError;
use crate::files;
use crate::housekeeper::wal_of;
use crate::index::{EVERYTHING, Index};
use crate::log::{Head, Log};
use crate::memory::Memory;
use crate::published::Published;
use crate::wal;
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use stockhold_domain::State;

/// What a start found.
pub(crate) struct Recovered {
    pub(crate) lock: File,
    pub(crate) log: Log,
    pub(crate) acked: Acked,
    pub(crate) index: Index,
    pub(crate) memory: Memory,
    pub(crate) published: Published,
    pub(crate) head: Head,
    pub(crate) indexed_position: u64,
    /// Batches that the index lacks in whole or in part, with their checksums.
    pub(crate) unindexed: Vec<(Batch, u32)>,
}

/// Opens a data directory, making it when it is not there.
pub(crate) fn recover(dir: &Path) -> Result<Recovered, OpenError> {
    fs::create_dir_all(dir).map_err(|error| OpenError::io(format!("making {}", dir.display()), error))?;
    let lock = lock(dir)?;
    let log_file = dir.join(files::LOG);
    look_through(&log_file)?;
    look_through(&dir.join(files::INDEX))?;
    let log = Log::open(&log_file)?;
    let index = Index::open(&dir.join(files::INDEX))?;
    let acked_file = dir.join(files::ACKED);
    let (acked, mark) = Acked::open(&acked_file)
        .map_err(|error| OpenError::io(format!("opening {}", acked_file.display()), error))?;
    let mark = mark.map_err(|what| OpenError::Damaged { file: acked_file, what })?;
    check_end(&log, &log_file, &index, mark)?;

    let mut memory = Memory::default();
    load(&index, &mut memory).map_err(|damage| damage.into_open(&index.file))?;
    let position = index.position;
    let (indexed, keyed) = (position.indexed, position.keyed);
    let filters = index.runs.iter().map(|run| Arc::clone(&run.filter)).collect();
    memory.begin(indexed, keyed, filters);
    let indexed_head = log.head(indexed)?;
    if indexed_head.sum != position.indexed_sum {
        let what = format!("it was made from another log: batch {indexed} differs");
        return Err(OpenError::Damaged { file: index.file, what });
    }

    let mut unindexed = Vec::new();
    let mut head = indexed_head;
    let from = log.head(indexed.min(keyed))?;
    log.walk(from.number, from.sum, |batch, sum| {
        memory.enter_batch(batch.number);
        if batch.number > indexed {
            for event in &batch.events {
                memory.apply(event);
            }
            head = Head { number: batch.number, sum, next_position: batch.next_position(), at: batch.at };
        }
        if batch.number > keyed {
            for key in &batch.keys {
                memory.remember(key);
            }
        }
        unindexed.push((batch, sum));
        Ok(true)
    })?;

    let published = Published::default();
    for item in memory.items() {
        published.put(item.clone());
    }
    sync_dir(dir)?;
    let indexed_position = indexed_head.next_position;
    Ok(Recovered { lock, log, acked, index, memory, published, head, indexed_position, unindexed })
}

fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(files::LOCK);
    let failed = |error| OpenError::io(format!("locking {}", path.display()), error);
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn look_through(database: &Path) -> Result<(), OpenError> {
    let wal = wal_of(database);
    match wal::damage(&wal) {
        Ok(None) => Ok(()),
        Ok(Some(what)) => Err(OpenError::Damaged { file: wal, what }),
        Err(error) => Err(OpenError::io(format!("reading {}", wal.display()), error)),
    }
}

/// A log that ends before what was synced has lost its end.
fn check_end(log: &Log, log_file: &Path, index: &Index, mark: Option<Mark>) -> Result<(), OpenError> {
    let last = log.last()?.map_or(0, |(number, _)| number);
    let damaged = |what| OpenError::Damaged { file: log_file.to_owned(), what };
    if let Some(Mark { batch, sum }) = mark {
        if last < batch {
            return Err(damaged(format!("it ends at batch {last}, and batch {batch} was synced")));
        }
        if log.head(batch)?.sum != sum {
            return Err(damaged(format!("batch {batch} is not the one that was synced")));
        }
    }
    let known = index.position.indexed.max(index.position.keyed);
    if last < known {
        return Err(damaged(format!("it ends at batch {last}, and the index has seen batch {known}")));
    }
    Ok(())
}

fn load(index: &Index, memory: &mut Memory) -> Result<(), crate::index::Damage> {
    let mut pauses = Vec::new();
    let mut holds = Vec::new();
    crate::index::load(
        &index.db,
        index.position,
        |item| memory.put_item(item),
        |scope| pauses.push(scope.to_owned()),
        |hold| holds.push(hold),
    )?;
    for scope in pauses {
        memory.put_pause((scope != EVERYTHING).then_some(scope.as_str()), true);
    }
    for hold in holds {
        memory.put_active(hold);
    }
    Ok(())
}

fn sync_dir(dir: &Path) -> Result<(), OpenError> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| OpenError::io(format!("syncing {}", dir.display()), error))
}
