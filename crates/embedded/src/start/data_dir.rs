//! What a start and the tools do with a data directory as a whole: create it, lock it, sync it, and check that its log
//! ends where it was synced.

use crate::error::OpenError;
use crate::files;
use crate::log::Log;
use crate::log::sync_marker::{SyncMarker, SyncedBatch};
use crate::log::wal::{self, wal_path};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stockhold_store::own_files;

/// How often a start tries again to lock a directory that a tool reads.
const LOCK_ATTEMPTS: u32 = 1_000;
/// The delay between two of these attempts.
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Creates a directory and its parents durably.
pub fn create_dir(dir: &Path) -> Result<(), OpenError> {
    let parents = parents_of_missing(dir);
    own_files::create_dir_all(dir)
        .map_err(|error| OpenError::io(format!("making {}", dir.display()), error))?;
    parents.iter().try_for_each(|parent| sync_dir(parent))
}

/// The directories that get a new entry when this directory is created.
fn parents_of_missing(dir: &Path) -> Vec<PathBuf> {
    let missing = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists());
    let parent = |dir: &Path| match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    missing.map(parent).collect()
}

/// The lock of a data directory.
pub(crate) struct DirectoryLock(File);

impl DirectoryLock {
    /// Writes something into the file of the lock, for tools that meet the lock.
    pub(crate) fn write(&self, text: &str) -> std::io::Result<()> {
        self.0.set_len(0)?;
        self.0.write_all_at(text.as_bytes(), 0)
    }
}

/// The address of the API of the server that uses a directory, if one does and has written it down.
pub fn server_of(dir: &Path) -> Option<String> {
    let (true, _) = in_use(dir).ok()? else { return None };
    let text = fs::read_to_string(dir.join(files::LOCK)).ok()?;
    Some(text.trim().to_owned()).filter(|url| !url.is_empty())
}

/// Unlocks explicitly. Closing the file is not enough: a child process that was forked a moment ago has the file too until it runs its
/// program, and the lock would last as long.
impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "the data directory was not unlocked");
        }
    }
}

/// Locks a directory for exclusive use. A tool that reads a write-ahead log holds the lock shared for that time, and
/// this waits for it: without the wait, a start that meets a backup would fail.
pub(crate) fn lock(dir: &Path) -> Result<DirectoryLock, OpenError> {
    let path = dir.join(files::LOCK);
    let failed = |error| OpenError::io(format!("locking {}", path.display()), error);
    let file = own_files::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    let taken = |tried| match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    };
    for _ in 0..LOCK_ATTEMPTS {
        if taken(file.try_lock())? {
            // What a server has written that was killed.
            file.set_len(0).map_err(failed)?;
            return Ok(DirectoryLock(file));
        }
        if !taken(file.try_lock_shared())? {
            break;
        }
        file.unlock().map_err(failed)?;
        std::thread::sleep(LOCK_RETRY_DELAY);
    }
    Err(OpenError::InUse(dir.to_owned()))
}

/// Whether another process uses the directory exclusively. If not, none can while the returned lock is held.
pub(crate) fn in_use(dir: &Path) -> Result<(bool, Option<File>), OpenError> {
    let path = dir.join(files::LOCK);
    let failed = |error| OpenError::io(format!("locking {}", path.display()), error);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((false, None)),
        Err(error) => return Err(failed(error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok((false, Some(file))),
        Err(TryLockError::WouldBlock) => Ok((true, None)),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Refuses a damaged write-ahead log.
pub(crate) fn check_wal(database: &Path) -> Result<(), OpenError> {
    let wal = wal_path(database);
    match wal::find_damage(&wal) {
        Ok(None) => Ok(()),
        Ok(Some(what)) => Err(OpenError::Damaged { file: wal, what }),
        Err(error) => Err(OpenError::io(format!("reading {}", wal.display()), error)),
    }
}

/// Checks the write-ahead log of the log if no server uses it. A log that a server restarts during the check would look
/// broken. The server has checked it at its start.
pub(crate) fn check_wal_unless_in_use(dir: &Path, log_file: &Path) -> Result<(), OpenError> {
    match in_use(dir)? {
        (true, _) => Ok(()),
        (false, _lock) => check_wal(log_file),
    }
}

/// Reads the sync marker of a directory without writing to it. The inner `Err` says what is wrong with the marker. If
/// it is read before the log, it is never newer than the log, even if a server runs.
pub(crate) fn read_sync_marker(dir: &Path) -> Result<Result<Option<SyncedBatch>, String>, OpenError> {
    let file = dir.join(files::SYNC_MARKER);
    match SyncMarker::read(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Ok(None)),
        mark => mark.map_err(|error| OpenError::io(format!("opening {}", file.display()), error)),
    }
}

/// The last batch of a log that is about to be copied. Refuses a log that lost its end.
pub(crate) fn checked_end(
    dir: &Path,
    log: &Log,
    mark: Result<Option<SyncedBatch>, String>,
) -> Result<u64, OpenError> {
    let mark = mark.map_err(|what| OpenError::Damaged { file: dir.join(files::SYNC_MARKER), what })?;
    let last = log.last()?.map_or(0, |(number, _)| number);
    match find_missing_end(last, 0, mark, |batch| log.sum_if_kept(batch))? {
        Some(what) => Err(OpenError::Damaged { file: dir.join(files::LOG), what }),
        None => Ok(last),
    }
}

/// What is missing from a log that ends at batch `last`. `known` is the newest batch of the index, and `mark` is the
/// sync marker. `sum_of` returns `None` for a batch that was archived.
pub(crate) fn find_missing_end<E>(
    last: u64,
    known: u64,
    mark: Option<SyncedBatch>,
    sum_of: impl FnOnce(u64) -> Result<Option<u32>, E>,
) -> Result<Option<String>, E> {
    if let Some(SyncedBatch { batch, sum }) = mark {
        if last < batch {
            return Ok(Some(format!("it ends at batch {last}, and batch {batch} was synced")));
        }
        if sum_of(batch)?.is_some_and(|found| found != sum) {
            return Ok(Some(format!("batch {batch} is not the one that was synced")));
        }
    }
    Ok((last < known).then(|| format!("it ends at batch {last}, and the index has seen batch {known}")))
}

/// Syncs the entries of a directory.
pub fn sync_dir(dir: &Path) -> Result<(), OpenError> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| OpenError::io(format!("syncing {}", dir.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_that_gets_an_entry_is_synced() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path();
        assert_eq!(
            parents_of_missing(&here.join("a/b/c")),
            [here.join("a/b"), here.join("a"), here.to_owned()]
        );
        assert_eq!(parents_of_missing(here), Vec::<PathBuf>::new());
        assert_eq!(parents_of_missing(Path::new("not-there")), [Path::new(".")]);
        create_dir(&here.join("a/b")).unwrap();
        assert!(here.join("a/b").is_dir());
    }
}
